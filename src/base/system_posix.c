/* system_posix.c: system.h on POSIX systems; what they do not agree on is in system_linux.c and system_bsd.c. */
#define _GNU_SOURCE
#include "system.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>
#if defined(__APPLE__)
#include <xlocale.h>
#endif

/* ---- threads -------------------------------------------------------------------------------- */

static void *run(void *argument) {
    const ota_thread *thread = argument;
    thread->body(thread->argument);
    return NULL;
}

bool ota_thread_start(ota_thread *thread, size_t stack, void (*body)(void *argument),
                      void *argument) {
    pthread_attr_t attributes;
    sigset_t all, before;
    if (pthread_attr_init(&attributes) != 0) return false;
    if (stack > 0) (void)pthread_attr_setstacksize(&attributes, stack);
    thread->body = body;
    thread->argument = argument;
    /* Signals belong to the caller's threads: this one inherits a mask that blocks them all. */
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool started = pthread_create(&thread->handle, &attributes, run, thread) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    return started;
}

void ota_thread_join(ota_thread *thread) { (void)pthread_join(thread->handle, NULL); }

uintptr_t ota_thread_self(void) { return (uintptr_t)pthread_self(); }

void ota_thread_yield(void) { (void)sched_yield(); }

long ota_process(void) { return (long)getpid(); }

void ota_mutex_begin(ota_mutex *mutex) { (void)pthread_mutex_init(mutex, NULL); }
void ota_mutex_end(ota_mutex *mutex) { (void)pthread_mutex_destroy(mutex); }
void ota_mutex_lock(ota_mutex *mutex) { (void)pthread_mutex_lock(mutex); }
void ota_mutex_unlock(ota_mutex *mutex) { (void)pthread_mutex_unlock(mutex); }

void ota_condition_begin(ota_condition *condition) { (void)pthread_cond_init(condition, NULL); }
void ota_condition_end(ota_condition *condition) { (void)pthread_cond_destroy(condition); }
void ota_condition_wait(ota_condition *condition, ota_mutex *mutex) {
    (void)pthread_cond_wait(condition, mutex);
}
void ota_condition_wake_one(ota_condition *condition) { (void)pthread_cond_signal(condition); }
void ota_condition_wake_all(ota_condition *condition) { (void)pthread_cond_broadcast(condition); }

/* ---- clock, memory -------------------------------------------------------------------------- */

int64_t ota_now_ns(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + (int64_t)now.tv_nsec;
}

void *ota_aligned_allocate(size_t alignment, size_t size) {
    /* ISO C wants a multiple of the alignment. */
    const size_t room = (size + alignment - 1) & ~(alignment - 1);
    return room < size ? NULL : aligned_alloc(alignment, room);
}

void ota_aligned_free(void *memory) { free(memory); }

bool ota_system_limits_memory(void) {
    struct rlimit data, space;
    return (getrlimit(RLIMIT_DATA, &data) == 0 && data.rlim_cur != RLIM_INFINITY) ||
           (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY);
}

/* ---- files ---------------------------------------------------------------------------------- */

static ota_path_kind kind_of(const struct stat *status) {
    return S_ISREG(status->st_mode)    ? OTA_PATH_FILE
           : S_ISDIR(status->st_mode)  ? OTA_PATH_FOLDER
           : S_ISFIFO(status->st_mode) ? OTA_PATH_PIPE
                                       : OTA_PATH_OTHER;
}

ota_path_kind ota_path_kind_of(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 ? kind_of(&status) : OTA_PATH_NONE;
}

FILE *ota_file_reader(const char *path) { return fopen(path, "re"); }

int ota_file_descriptor(const char *path, bool follow_links, ota_path_kind *kind, int64_t *size) {
    /* Without O_NONBLOCK opening a FIFO would wait for its writer. */
    const int flags =
        O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY | (follow_links ? 0 : O_NOFOLLOW);
    struct stat status;
    *kind = OTA_PATH_NONE;
    const int descriptor = open(path, flags);
    if (descriptor < 0) return -1;
    if (fstat(descriptor, &status) != 0) {
        const int cause = errno;
        (void)close(descriptor);
        errno = cause;
        return -1;
    }
    *kind = kind_of(&status);
    *size = (int64_t)status.st_size;
    return descriptor;
}

void ota_descriptor_close(int descriptor) { (void)close(descriptor); }

int64_t ota_descriptor_size(int descriptor) {
    struct stat status;
    return fstat(descriptor, &status) == 0 ? (int64_t)status.st_size : -1;
}

int64_t ota_descriptor_read(int descriptor, void *buffer, size_t size, int64_t offset) {
    const size_t most = (size_t)1 << 30; /* one read answers at most 2^31 - 4096 bytes */
    ssize_t got;
    do {
        got = pread(descriptor, buffer, size < most ? size : most, (off_t)offset);
    } while (got < 0 && errno == EINTR);
    return (int64_t)got;
}

const void *ota_descriptor_map(int descriptor, size_t size) {
    void *map = mmap(NULL, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    return map == MAP_FAILED ? NULL : map;
}

void ota_unmap(const void *memory, size_t size) { (void)munmap((void *)(uintptr_t)memory, size); }

/* ---- libraries at run time ------------------------------------------------------------------ */

void *ota_library_open(const char *name) {
    return dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

void ota_library_close(void *library) { (void)dlclose(library); }

void ota_library_find(void *library, const char *name, void *function) {
    /* ISO C has no conversion from a pointer to data to one to a function; its bytes are copied. */
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found);
}

/* ---- locale --------------------------------------------------------------------------------- */

/* The "C" locale is a constant of the C library: nothing is allocated, and where it cannot be had the thread's own locale
 * serves. */
ota_c_locale ota_c_locale_enter(void) {
    ota_c_locale l = {.c = (void *)newlocale(LC_ALL_MASK, "C", (locale_t)0)};
    if (l.c != NULL) l.before = (void *)uselocale((locale_t)l.c);
    return l;
}

void ota_c_locale_leave(ota_c_locale l) {
    if (l.c == NULL) return;
    (void)uselocale((locale_t)l.before);
    freelocale((locale_t)l.c);
}
