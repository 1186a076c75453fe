/* Files, folders, streams and the wall clock of failing_calls.h. A stream that fails has its error flag set, as the C
 * library would; streams of memory grow by the allocator and fail there, and standard error is left alone: it is where a
 * program says what went wrong. */
#define _GNU_SOURCE
#ifndef __NO_INLINE__
#define __NO_INLINE__ 1 /* the C library's headers would bring bodies of their own */
#endif
#include "failing_calls.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define FAILS(kind) (failing_call(kind) == CALL_FAILS)

enum { STREAM_ERROR = 0x20, STREAM_OF_FILE = 0x2000 }; /* _IO_ERR_SEEN, _IO_IS_FILEBUF of glibc */

static bool counted_stream(FILE *stream) {
    return (stream->_flags & STREAM_OF_FILE) != 0 && stream->_fileno >= 0 &&
           stream->_fileno != STDERR_FILENO;
}

/* Marks the stream where the call fails. */
static bool stream_fails(FILE *stream, call_kind kind) {
    if (failing_call_if(counted_stream(stream), kind) == CALL_RUNS) return false;
    stream->_flags |= STREAM_ERROR;
    return true;
}

/* ---- open and close ------------------------------------------------------------------------- */

EXPORT int open(const char *path, int flags, ...) {
    REAL(open, real);
    va_list list;
    va_start(list, flags);
    const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0;
    va_end(list);
    return FAILS(CALL_OPEN) ? -1 : real(path, flags, mode);
}

EXPORT int openat(int folder, const char *path, int flags, ...) {
    REAL(openat, real);
    va_list list;
    va_start(list, flags);
    const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0;
    va_end(list);
    return FAILS(CALL_OPEN) ? -1 : real(folder, path, flags, mode);
}

EXPORT FILE *fopen(const char *path, const char *mode) {
    REAL(fopen, real);
    return FAILS(CALL_OPEN) ? NULL : real(path, mode);
}

EXPORT FILE *fdopen(int file, const char *mode) {
    REAL(fdopen, real);
    return FAILS(CALL_OPEN) ? NULL : real(file, mode);
}

EXPORT DIR *opendir(const char *path) {
    REAL(opendir, real);
    return FAILS(CALL_OPEN) ? NULL : real(path);
}

EXPORT int scandir(const char *path, struct dirent ***found,
                   int (*chosen)(const struct dirent *entry),
                   int (*order)(const struct dirent **a, const struct dirent **b)) {
    REAL(scandir, real);
    return FAILS(CALL_OPEN) ? -1 : real(path, found, chosen, order);
}

EXPORT int pipe(int ends[2]) {
    REAL(pipe, real);
    return FAILS(CALL_OPEN) ? -1 : real(ends);
}

/* What fails to close is closed all the same. */
EXPORT int close(int file) {
    REAL(close, real);
    const bool fails = FAILS(CALL_CLOSE);
    const int cause = errno, code = real(file);
    if (!fails) return code;
    errno = cause;
    return -1;
}

EXPORT int fclose(FILE *stream) {
    REAL(fclose, real);
    const bool fails = failing_call_if(counted_stream(stream), CALL_CLOSE) == CALL_FAILS;
    const int cause = errno, code = real(stream);
    if (!fails) return code;
    errno = cause;
    return EOF;
}

/* ---- read ----------------------------------------------------------------------------------- */

static size_t half(size_t size) { return size > 1 ? size / 2 : size; }

EXPORT ssize_t read(int file, void *bytes, size_t size) {
    REAL(read, real);
    const call_verdict verdict = failing_call(CALL_READ);
    if (verdict == CALL_FAILS) return -1;
    return real(file, bytes, verdict == CALL_IS_SHORT ? half(size) : size);
}

EXPORT ssize_t pread(int file, void *bytes, size_t size, off_t offset) {
    REAL(pread, real);
    const call_verdict verdict = failing_call(CALL_READ);
    if (verdict == CALL_FAILS) return -1;
    return real(file, bytes, verdict == CALL_IS_SHORT ? half(size) : size, offset);
}

EXPORT size_t fread(void *bytes, size_t size, size_t count, FILE *stream) {
    REAL(fread, real);
    return stream_fails(stream, CALL_INPUT) ? 0 : real(bytes, size, count, stream);
}

EXPORT int fgetc(FILE *stream) {
    REAL(fgetc, real);
    return stream_fails(stream, CALL_INPUT) ? EOF : real(stream);
}

EXPORT char *fgets(char *text, int size, FILE *stream) {
    REAL(fgets, real);
    return stream_fails(stream, CALL_INPUT) ? NULL : real(text, size, stream);
}

EXPORT ssize_t getline(char **line, size_t *size, FILE *stream) {
    REAL(getline, real);
    return stream_fails(stream, CALL_INPUT) ? -1 : real(line, size, stream);
}

EXPORT int fseeko(FILE *stream, off_t offset, int from) {
    REAL(fseeko, real);
    return stream_fails(stream, CALL_INPUT) ? -1 : real(stream, offset, from);
}

EXPORT struct dirent *readdir(DIR *folder) {
    REAL(readdir, real);
    return FAILS(CALL_INPUT) ? NULL : real(folder);
}

/* ---- write ---------------------------------------------------------------------------------- */

EXPORT ssize_t write(int file, const void *bytes, size_t size) {
    REAL(write, real);
    const call_verdict verdict = failing_call_if(file != STDERR_FILENO, CALL_WRITE);
    if (verdict == CALL_FAILS) return -1;
    return real(file, bytes, verdict == CALL_IS_SHORT ? half(size) : size);
}

EXPORT size_t fwrite(const void *bytes, size_t size, size_t count, FILE *stream) {
    REAL(fwrite, real);
    return stream_fails(stream, CALL_OUTPUT) ? 0 : real(bytes, size, count, stream);
}

EXPORT int fputs(const char *text, FILE *stream) {
    REAL(fputs, real);
    return stream_fails(stream, CALL_OUTPUT) ? EOF : real(text, stream);
}

EXPORT int fputc(int letter, FILE *stream) {
    REAL(fputc, real);
    return stream_fails(stream, CALL_OUTPUT) ? EOF : real(letter, stream);
}

EXPORT int putc(int letter, FILE *stream) {
    REAL(putc, real);
    return stream_fails(stream, CALL_OUTPUT) ? EOF : real(letter, stream);
}

EXPORT int putchar(int letter) {
    REAL(putchar, real);
    return stream_fails(stdout, CALL_OUTPUT) ? EOF : real(letter);
}

EXPORT int puts(const char *text) {
    REAL(puts, real);
    return stream_fails(stdout, CALL_OUTPUT) ? EOF : real(text);
}

EXPORT int printf(const char *format, ...) {
    if (stream_fails(stdout, CALL_OUTPUT)) return -1;
    va_list list;
    va_start(list, format);
    const int code = vfprintf(stdout, format, list);
    va_end(list);
    return code;
}

EXPORT int fprintf(FILE *stream, const char *format, ...) {
    if (stream_fails(stream, CALL_OUTPUT)) return -1;
    va_list list;
    va_start(list, format);
    const int code = vfprintf(stream, format, list);
    va_end(list);
    return code;
}

EXPORT int fflush(FILE *stream) {
    REAL(fflush, real);
    if (stream != NULL && stream_fails(stream, CALL_OUTPUT)) return EOF;
    return real(stream);
}

EXPORT int fsync(int file) {
    REAL(fsync, real);
    return FAILS(CALL_SYNC) ? -1 : real(file);
}

EXPORT int ftruncate(int file, off_t size) {
    REAL(ftruncate, real);
    return FAILS(CALL_SYNC) ? -1 : real(file, size);
}

EXPORT int truncate(const char *path, off_t size) {
    REAL(truncate, real);
    return FAILS(CALL_SYNC) ? -1 : real(path, size);
}

/* ---- names ---------------------------------------------------------------------------------- */

EXPORT int rename(const char *old, const char *new) {
    REAL(rename, real);
    return FAILS(CALL_NAME) ? -1 : real(old, new);
}

EXPORT int renameat2(int from, const char *old, int to, const char *new, unsigned flags) {
    REAL(renameat2, real);
    return FAILS(CALL_NAME) ? -1 : real(from, old, to, new, flags);
}

EXPORT int link(const char *old, const char *new) {
    REAL(link, real);
    return FAILS(CALL_NAME) ? -1 : real(old, new);
}

EXPORT int linkat(int from, const char *old, int to, const char *new, int flags) {
    REAL(linkat, real);
    return FAILS(CALL_NAME) ? -1 : real(from, old, to, new, flags);
}

EXPORT int unlink(const char *path) {
    REAL(unlink, real);
    return FAILS(CALL_NAME) ? -1 : real(path);
}

EXPORT int mkdir(const char *path, mode_t mode) {
    REAL(mkdir, real);
    return FAILS(CALL_NAME) ? -1 : real(path, mode);
}

EXPORT char *mkdtemp(char *path) {
    REAL(mkdtemp, real);
    return FAILS(CALL_NAME) ? NULL : real(path);
}

EXPORT int rmdir(const char *path) {
    REAL(rmdir, real);
    return FAILS(CALL_NAME) ? -1 : real(path);
}

EXPORT int fchmod(int file, mode_t mode) {
    REAL(fchmod, real);
    return FAILS(CALL_NAME) ? -1 : real(file, mode);
}

/* ---- looks ---------------------------------------------------------------------------------- */

EXPORT int stat(const char *restrict path, struct stat *restrict found) {
    REAL(stat, real);
    return FAILS(CALL_LOOK) ? -1 : real(path, found);
}

EXPORT int lstat(const char *restrict path, struct stat *restrict found) {
    REAL(lstat, real);
    return FAILS(CALL_LOOK) ? -1 : real(path, found);
}

EXPORT int fstat(int file, struct stat *found) {
    REAL(fstat, real);
    return FAILS(CALL_LOOK) ? -1 : real(file, found);
}

EXPORT int access(const char *path, int mode) {
    REAL(access, real);
    return FAILS(CALL_LOOK) ? -1 : real(path, mode);
}

EXPORT char *realpath(const char *restrict path, char *restrict found) {
    REAL(realpath, real);
    return FAILS(CALL_LOOK) ? NULL : real(path, found);
}

EXPORT int flock(int file, int what) {
    REAL(flock, real);
    return FAILS(CALL_LOOK) ? -1 : real(file, what);
}

/* ---- clock ---------------------------------------------------------------------------------- */

EXPORT int clock_gettime(clockid_t clock, struct timespec *now) {
    REAL(clock_gettime, real);
    static _Atomic int looks;
    const int code = real(clock, now);
    const char *jump = getenv("OTATTN_CLOCK");
    if (code == 0 && jump != NULL && clock == CLOCK_REALTIME)
        now->tv_sec += (looks++ % 2 == 0 ? 1 : -1) * (time_t)strtoll(jump, NULL, 10);
    return code;
}

EXPORT time_t time(time_t *found) {
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (found != NULL) *found = now.tv_sec;
    return now.tv_sec;
}
