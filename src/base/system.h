/* system.h: what the operating system gives: threads, a clock, aligned memory, files, libraries at run time, the processors
 * allowed, the C locale. One file a system defines it, and nothing above asks which system that is:
 *
 *     system_posix.c     Linux, macOS, BSD, with system_linux.c or system_bsd.c for what POSIX does not say
 *     system_windows.c   Windows, from version 10 on
 *     system_wasm.c      WebAssembly
 *
 * Calls that can fail for a cause leave it in errno, on every system. Paths are UTF-8. The program sees this header too. */
#ifndef OTA_SYSTEM_H
#define OTA_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#if defined(_WIN32) || defined(__wasm__)
/* Zero is ready for use: SRWLOCK and CONDITION_VARIABLE. */
typedef struct ota_mutex {
    void *state;
} ota_mutex;
typedef struct ota_condition {
    void *state;
} ota_condition;
typedef void *ota_thread_handle;
#define OTA_MUTEX_READY                                                                            \
    { NULL }
#else
#include <pthread.h>
typedef pthread_mutex_t ota_mutex;
typedef pthread_cond_t ota_condition;
typedef pthread_t ota_thread_handle;
#define OTA_MUTEX_READY PTHREAD_MUTEX_INITIALIZER
#endif

/* ---- threads -------------------------------------------------------------------------------- */

/* Stays in its place until it is joined. */
typedef struct ota_thread {
    ota_thread_handle handle;
    void (*body)(void *argument);
    void *argument;
} ota_thread;

/* A thread with a stack of `stack` bytes (0: the system's choice) that takes no signal of the process; false where none can
 * be had. */
bool ota_thread_start(ota_thread *thread, size_t stack, void (*body)(void *argument),
                      void *argument);
void ota_thread_join(ota_thread *thread);
/* A number that no other running thread has. */
uintptr_t ota_thread_self(void);
void ota_thread_yield(void);
/* Another in a forked child. */
long ota_process(void);

void ota_mutex_begin(ota_mutex *mutex);
void ota_mutex_end(ota_mutex *mutex);
void ota_mutex_lock(ota_mutex *mutex);
void ota_mutex_unlock(ota_mutex *mutex);

void ota_condition_begin(ota_condition *condition);
void ota_condition_end(ota_condition *condition);
/* May return early: the caller looks again. */
void ota_condition_wait(ota_condition *condition, ota_mutex *mutex);
void ota_condition_wake_one(ota_condition *condition);
void ota_condition_wake_all(ota_condition *condition);

/* ---- processors ----------------------------------------------------------------------------- */

/* The processors this process may run on, at least 1; control groups aside. */
int ota_system_processors(void);
/* Whether this process may use the registers of AMX; asks for them where that must be done. */
bool ota_system_permits_tiles(void);

/* ---- clock ---------------------------------------------------------------------------------- */

/* Nanoseconds on CLOCK_MONOTONIC, on Windows of QueryPerformanceCounter: the clock of ota_options.deadline_ns. */
int64_t ota_now_ns(void);

/* ---- memory --------------------------------------------------------------------------------- */

/* `size` bytes, at least one, at a multiple of `alignment`, a power of two; NULL without memory. ota_aligned_free alone takes
 * them back. */
void *ota_aligned_allocate(size_t alignment, size_t size);
void ota_aligned_free(void *memory);
/* A wish for large pages where the whole of them lies in this memory. */
void ota_system_advise_large_pages(void *memory, size_t size);
/* Whether the process runs under a limit of memory of its own. */
bool ota_system_limits_memory(void);

/* ---- files ---------------------------------------------------------------------------------- */

typedef enum ota_path_kind {
    OTA_PATH_NONE,
    OTA_PATH_FILE,
    OTA_PATH_FOLDER,
    OTA_PATH_PIPE,
    OTA_PATH_OTHER
} ota_path_kind;

/* What a path leads to, through links. */
ota_path_kind ota_path_kind_of(const char *path);

/* A stream that reads the file, in bytes, and that no child inherits; NULL with errno. */
FILE *ota_file_reader(const char *path);

/* Opens what `path` names for reading without waiting for a writer: a descriptor of the C library, or -1 with errno, ELOOP
 * where the name is a symbolic link and links are not followed. *size is that of a regular file. A folder has the kind alone
 * and no descriptor where the system opens none. */
int ota_file_descriptor(const char *path, bool follow_links, ota_path_kind *kind, int64_t *size);
void ota_descriptor_close(int descriptor);
/* Bytes that a file has now, -1 with errno. */
int64_t ota_descriptor_size(int descriptor);
/* Reads at most `size` bytes at `offset`, 0 at the end; -1 with errno. Calls side by side do not disturb each other. */
int64_t ota_descriptor_read(int descriptor, void *buffer, size_t size, int64_t offset);
/* The file's first `size` bytes, at least one, as memory that may not be written; NULL where they cannot be mapped. */
const void *ota_descriptor_map(int descriptor, size_t size);
void ota_unmap(const void *memory, size_t size);

#if defined(__wasm__)
/* From now on `path` is a file of these bytes, both of which stay in their place; false where there are too many. */
bool ota_system_hand_file(const char *path, const void *bytes, size_t size);
#endif

/* ---- libraries at run time ------------------------------------------------------------------ */

/* Its code stays for good: threads of it may outlive who opened it. */
void *ota_library_open(const char *name);
void ota_library_close(void *library);
/* Copies the address of a function, or NULL, into the pointer at `function`. */
void ota_library_find(void *library, const char *name, void *function);

/* ---- locale --------------------------------------------------------------------------------- */

typedef struct ota_c_locale {
    void *c, *before;
    int mode;
} ota_c_locale;

/* The C locale for the calling thread, until the call that takes it back. */
ota_c_locale ota_c_locale_enter(void);
void ota_c_locale_leave(ota_c_locale locale);

#endif
