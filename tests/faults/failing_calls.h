/* failing_calls.h: the calls of a program to the system, counted by site, of which one is made to fail.
 *
 *     site       = hash of (kind, return addresses of the stack, as module and offset)
 *     occurrence = how many calls of the site came before, counted from 1
 *
 * failing_calls.c counts and decides, failing_memory.c and failing_files.c stand in for the C library's functions. The
 * environment says what is wanted:
 *
 *     OTATTN_FAULT_LOG=FILE                        at the end: sites, blocks still held, open descriptors, whether a call failed
 *     OTATTN_FAULT=SITE:OCCURRENCE:WHAT            WHAT is a number of errno, `short`, or `signal N`: N is raised before the call
 *     OTATTN_FAULT_TEST=NAME                       of the tests of a program (cmocka) this one alone runs
 *     OTATTN_CLOCK=SECONDS                         the wall clock jumps to and fro by that much with every look at it
 *
 * Calls before main, after it, and in forked children are neither counted nor failed. */
#ifndef TESTS_FAILING_CALLS_H
#define TESTS_FAILING_CALLS_H

#include <stdbool.h>
#include <stddef.h>

typedef enum call_kind {
    CALL_MEMORY, /* malloc, calloc, realloc, aligned_alloc, posix_memalign */
    CALL_OPEN,   /* open, fopen, fdopen, opendir, scandir, pipe */
    CALL_READ,   /* read, pread */
    CALL_INPUT,  /* fread, fgetc, fgets, getline, fseeko, readdir */
    CALL_WRITE,  /* write, but to standard error, as the next */
    CALL_OUTPUT, /* fwrite, fputs, fputc, puts, printf, fflush */
    CALL_SYNC,   /* fsync, ftruncate, truncate */
    CALL_CLOSE,  /* close, fclose */
    CALL_NAME,   /* rename, link, linkat, unlink, mkdir, mkdtemp, rmdir, fchmod */
    CALL_LOOK,   /* stat, lstat, fstat, access, realpath, flock */
    CALL_MAP,    /* mmap */
    CALL_THREAD, /* pthread_create, fork */
    CALL_KINDS
} call_kind;

typedef enum call_verdict { CALL_RUNS, CALL_FAILS, CALL_IS_SHORT } call_verdict;

/* Counts this call of the caller; CALL_FAILS has set errno. */
call_verdict failing_call(call_kind kind);
/* The same where `counted`; else CALL_RUNS. */
static inline call_verdict failing_call_if(bool counted, call_kind kind) {
    return counted ? failing_call(kind) : CALL_RUNS;
}

/* The next definition of a function after this library's: REAL(name) is a pointer of the function's own type. */
void *failing_next(const char *name, void **kept);
#define REAL(name, pointer)                                                                        \
    static void *kept_##name;                                                                      \
    __typeof__(&name) pointer;                                                                     \
    *(void **)(void *)&(pointer) = failing_next(#name, &kept_##name)

/* Blocks that were handed out since main began: who has them. */
void failing_held(const void *block, size_t size);
void failing_given_back(const void *block);

#endif
