/* system_wasm.c: system.h in WebAssembly: one thread, one processor, no libraries at run time, and as files the bytes that
 * the module's user handed over (ota_system_hand_file). */
#define _GNU_SOURCE
#include "system.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- threads -------------------------------------------------------------------------------- */

bool ota_thread_start(ota_thread *thread, size_t stack, void (*body)(void *argument),
                      void *argument) {
    (void)thread, (void)stack, (void)body, (void)argument;
    return false;
}

void ota_thread_join(ota_thread *thread) { (void)thread; }
uintptr_t ota_thread_self(void) { return 1; }
void ota_thread_yield(void) {}
long ota_process(void) { return 1; }

/* Nobody else could hold one. */
void ota_mutex_begin(ota_mutex *mutex) { mutex->state = NULL; }
void ota_mutex_end(ota_mutex *mutex) { (void)mutex; }
void ota_mutex_lock(ota_mutex *mutex) { (void)mutex; }
void ota_mutex_unlock(ota_mutex *mutex) { (void)mutex; }

void ota_condition_begin(ota_condition *condition) { condition->state = NULL; }
void ota_condition_end(ota_condition *condition) { (void)condition; }
void ota_condition_wait(ota_condition *condition, ota_mutex *mutex) {
    (void)condition, (void)mutex;
}
void ota_condition_wake_one(ota_condition *condition) { (void)condition; }
void ota_condition_wake_all(ota_condition *condition) { (void)condition; }

/* ---- processors, clock, memory -------------------------------------------------------------- */

int ota_system_processors(void) { return 1; }

bool ota_system_permits_tiles(void) { return false; }

int64_t ota_now_ns(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + (int64_t)now.tv_nsec;
}

void *ota_aligned_allocate(size_t alignment, size_t size) {
    const size_t room = (size + alignment - 1) & ~(alignment - 1);
    return room < size ? NULL : aligned_alloc(alignment, room);
}

void ota_aligned_free(void *memory) { free(memory); }

void ota_system_advise_large_pages(void *memory, size_t size) { (void)memory, (void)size; }

bool ota_system_limits_memory(void) { return false; }

/* ---- files ---------------------------------------------------------------------------------- */

enum { FILES_MOST = 16 };

typedef struct handed_file {
    const char *path;
    const unsigned char *bytes;
    size_t size;
} handed_file;

static handed_file files[FILES_MOST];
static int file_count;

bool ota_system_hand_file(const char *path, const void *bytes, size_t size) {
    if (file_count == FILES_MOST) return false;
    files[file_count++] = (handed_file){path, bytes, size};
    return true;
}

static int find_file(const char *path) {
    for (int file = 0; file < file_count; file++) {
        if (strcmp(files[file].path, path) == 0) return file;
    }
    errno = ENOENT;
    return -1;
}

ota_path_kind ota_path_kind_of(const char *path) {
    return find_file(path) < 0 ? OTA_PATH_NONE : OTA_PATH_FILE;
}

FILE *ota_file_reader(const char *path) {
    const int file = find_file(path);
    return file < 0 ? NULL : fmemopen((void *)(uintptr_t)files[file].bytes, files[file].size, "r");
}

int ota_file_descriptor(const char *path, bool follow_links, ota_path_kind *kind, int64_t *size) {
    (void)follow_links;
    const int file = find_file(path);
    *kind = file < 0 ? OTA_PATH_NONE : OTA_PATH_FILE;
    if (file >= 0) *size = (int64_t)files[file].size;
    return file;
}

void ota_descriptor_close(int descriptor) { (void)descriptor; }

int64_t ota_descriptor_size(int descriptor) { return (int64_t)files[descriptor].size; }

int64_t ota_descriptor_read(int descriptor, void *buffer, size_t size, int64_t offset) {
    const size_t end = files[descriptor].size;
    const size_t at = offset < (int64_t)end ? (size_t)offset : end;
    const size_t got = size < end - at ? size : end - at;
    memcpy(buffer, files[descriptor].bytes + at, got);
    return (int64_t)got;
}

const void *ota_descriptor_map(int descriptor, size_t size) {
    return size <= files[descriptor].size ? files[descriptor].bytes : NULL;
}

void ota_unmap(const void *memory, size_t size) { (void)memory, (void)size; }

/* ---- libraries at run time ------------------------------------------------------------------ */

void *ota_library_open(const char *name) {
    (void)name;
    return NULL;
}

void ota_library_close(void *library) { (void)library; }

void ota_library_find(void *library, const char *name, void *function) {
    void *const none = NULL;
    (void)library, (void)name;
    memcpy(function, &none, sizeof none);
}

/* ---- locale --------------------------------------------------------------------------------- */

/* There is no other. */
ota_c_locale ota_c_locale_enter(void) { return (ota_c_locale){.c = NULL}; }

void ota_c_locale_leave(ota_c_locale locale) { (void)locale; }
