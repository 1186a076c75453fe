/* system_program_posix.c: system_program.h on POSIX systems; what they do not agree on is in system_program_linux.c and
 * system_program_bsd.c. */
#define _GNU_SOURCE
#include "system_program.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- the process ---------------------------------------------------------------------------- */

char **ota_program_begin(int argc, char **argv) {
    (void)argc;
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    (void)sigemptyset(&ignore.sa_mask);
    (void)sigaction(SIGPIPE, &ignore, NULL);
    return argv;
}

char *ota_program_variable(const char *name) {
    const char *value = getenv(name);
    return value == NULL || *value == '\0' ? NULL : strdup(value);
}

/* What the handler writes to: it is told nothing else. */
static int *interrupted;

static void on_interrupt(int number) {
    (void)number;
    __atomic_store_n(interrupted, 1, __ATOMIC_RELAXED);
}

void ota_program_catch_interrupts(int *flag) {
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    interrupted = flag;
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}

const int *ota_program_interrupts(void) { return interrupted; }

static bool has_come(void) {
    return interrupted != NULL && __atomic_load_n(interrupted, __ATOMIC_RELAXED) != 0;
}

bool ota_program_limit_memory(uint64_t bytes) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_DATA, &limit) != 0) return false;
    if ((rlim_t)bytes < limit.rlim_cur) limit.rlim_cur = (rlim_t)bytes;
    return setrlimit(RLIMIT_DATA, &limit) == 0;
}

void *ota_program_allocate(size_t size) {
    const size_t room = (size + 63) & ~(size_t)63; /* ISO C wants a multiple of the alignment */
    return room < size ? NULL : aligned_alloc(64, room);
}

int64_t ota_thread_time_ns(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + (int64_t)now.tv_nsec;
}

/* The peak of this process, in KiB where the system is not Apple's. */
static double peak_bytes(void) {
    struct rusage used;
    if (getrusage(RUSAGE_SELF, &used) != 0) return NAN;
#ifdef __APPLE__
    return (double)used.ru_maxrss;
#else
    return 1024.0 * (double)used.ru_maxrss;
#endif
}

double ota_resident_growth(bool (*work)(int64_t size), int64_t size) {
    double *grown =
        mmap(NULL, sizeof *grown, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (grown == MAP_FAILED) return NAN;
    const pid_t child = fork();
    if (child == 0) {
        const double before = peak_bytes();
        const bool done = work(size);
        *grown = peak_bytes() - before;
        _exit(!done);
    }
    int status;
    const bool done = child > 0 && waitpid(child, &status, 0) == child && status == 0;
    const double bytes = done ? *grown : (double)NAN;
    (void)munmap(grown, sizeof *grown);
    return bytes;
}

/* ---- terminals and streams ------------------------------------------------------------------ */

bool ota_is_terminal(FILE *stream) { return isatty(fileno(stream)) != 0; }

int ota_terminal_columns(FILE *stream) {
    struct winsize size;
    return ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

bool ota_terminal_reads_utf8(void) {
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    const char *locale = NULL;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (locale == NULL || *locale == '\0') locale = getenv(names[k]);
    return locale != NULL &&
           (strcasestr(locale, "utf-8") != NULL || strcasestr(locale, "utf8") != NULL);
}

bool ota_reader_has_gone(FILE *stream) {
    struct pollfd output = {.fd = fileno(stream), .events = POLLOUT};
    return poll(&output, 1, 0) > 0 && (output.revents & POLLERR) != 0;
}

int64_t ota_stream_size(FILE *stream) {
    const int64_t size = ota_descriptor_size(fileno(stream));
    return size > 0 ? size : 0;
}

FILE *ota_file_stream(const char *path, const char *mode) {
    char own[8];
    (void)snprintf(own, sizeof own, "%.6se", mode);
    return fopen(path, own);
}

bool ota_text_stream_end(FILE *stream, ota_text_taker *take, void *to) {
    (void)take, (void)to;
    const bool failed = ferror(stream) != 0;
    return fclose(stream) == 0 && !failed;
}

/* ---- descriptors ---------------------------------------------------------------------------- */

enum { PIECE_MOST = 1 << 30 }; /* one read or write takes at most 2^31 - 4096 bytes */

static size_t piece_of(size_t size) { return size < PIECE_MOST ? size : PIECE_MOST; }

/* Whether a call is to be made again, once the descriptor is ready where it would not wait. */
static bool is_again(int descriptor, short events) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
        struct pollfd room = {.fd = descriptor, .events = events};
        (void)poll(&room, 1, -1);
        return true;
    }
    return errno == EINTR;
}

int64_t ota_descriptor_next(int descriptor, void *buffer, size_t size) {
    ssize_t got;
    do {
        got = read(descriptor, buffer, piece_of(size));
        /* A wait for what comes next ends, too. */
    } while (got < 0 && !has_come() && is_again(descriptor, POLLIN));
    return (int64_t)got;
}

int ota_descriptor_copy(int descriptor) { return fcntl(descriptor, F_DUPFD_CLOEXEC, 0); }

int ota_writer_open(const char *path, ota_writer_kind kind) {
    static const int flags[] = {
        [OTA_WRITER_NEW] = O_CREAT | O_EXCL | O_NOFOLLOW, [OTA_WRITER_STREAM] = O_NOCTTY};
    return open(path, O_WRONLY | O_CLOEXEC | flags[kind], 0666);
}

bool ota_writer_write(int descriptor, const void *bytes, size_t size) {
    for (size_t done = 0; done < size;) {
        const ssize_t wrote = write(descriptor, (const char *)bytes + done, piece_of(size - done));
        if (wrote >= 0)
            done += (size_t)wrote;
        else if (!is_again(descriptor, POLLOUT))
            return false;
    }
    return true;
}

bool ota_writer_patch(int descriptor, const void *bytes, size_t size, int64_t offset) {
    for (size_t done = 0; done < size;) {
        const ssize_t wrote = pwrite(descriptor, (const char *)bytes + done, piece_of(size - done),
                                     (off_t)offset + (off_t)done);
        if (wrote >= 0)
            done += (size_t)wrote;
        else if (errno != EINTR)
            return false;
    }
    return true;
}

bool ota_writer_permit(int descriptor, int mode) { return fchmod(descriptor, (mode_t)mode) == 0; }
bool ota_writer_flush(int descriptor) { return fsync(descriptor) == 0; }
bool ota_writer_close(int descriptor) { return close(descriptor) == 0; }

/* ---- paths ---------------------------------------------------------------------------------- */

bool ota_path_look(const char *path, bool follow_links, ota_path_facts *facts) {
    struct stat status;
    *facts = (ota_path_facts){.kind = OTA_PATH_NONE};
    if ((follow_links ? stat(path, &status) : lstat(path, &status)) != 0) return false;
    facts->kind = S_ISREG(status.st_mode)    ? OTA_PATH_FILE
                  : S_ISDIR(status.st_mode)  ? OTA_PATH_FOLDER
                  : S_ISFIFO(status.st_mode) ? OTA_PATH_PIPE
                                             : OTA_PATH_OTHER;
    facts->link = S_ISLNK(status.st_mode);
    facts->streams = S_ISCHR(status.st_mode) || S_ISFIFO(status.st_mode);
    facts->mode = (int)(status.st_mode & 0777);
    return true;
}

const char *ota_path_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

char *ota_path_resolve(const char *path) { return realpath(path, NULL); }
bool ota_path_remove(const char *path) { return unlink(path) == 0; }
bool ota_path_resize(const char *path, int64_t size) { return truncate(path, (off_t)size) == 0; }

/* ---- folders -------------------------------------------------------------------------------- */

bool ota_folder_make(const char *path) { return mkdir(path, 0777) == 0; }

bool ota_folder_make_temporary(const char *prefix, char path[OTA_PATH_ROOM]) {
    const char *base = getenv("TMPDIR");
    (void)snprintf(path, OTA_PATH_ROOM, "%.3800s/%.64sXXXXXX",
                   base != NULL && *base != '\0' ? base : "/tmp", prefix);
    return mkdtemp(path) != NULL;
}

bool ota_folder_remove(const char *path) { return rmdir(path) == 0; }

void ota_folder_flush(const char *path) {
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return;
    (void)fsync(folder);
    (void)close(folder);
}

ota_folder *ota_folder_open(const char *path) { return (ota_folder *)(void *)opendir(path); }

const char *ota_folder_next(ota_folder *folder) {
    /* The end and a folder that cannot be read on differ in errno alone. */
    errno = 0;
    const struct dirent *entry = readdir((DIR *)(void *)folder);
    return entry == NULL ? NULL : entry->d_name;
}

void ota_folder_close(ota_folder *folder) { (void)closedir((DIR *)(void *)folder); }

/* ---- locks ---------------------------------------------------------------------------------- */

int ota_lock_open(const char *path, bool *made) {
    const int descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    *made = descriptor >= 0;
    return *made ? descriptor : open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
}

bool ota_lock_take(int descriptor) { return flock(descriptor, LOCK_EX | LOCK_NB) == 0; }
