/* Memory and threads of failing_calls.h. The C library's own names for its allocator need no look-up, which would
 * allocate. */
#define _GNU_SOURCE
#include "failing_calls.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *block);

EXPORT void *malloc(size_t size) {
    if (failing_call(CALL_MEMORY) != CALL_RUNS) return NULL;
    void *block = __libc_malloc(size);
    failing_held(block, size);
    return block;
}

EXPORT void *calloc(size_t count, size_t size) {
    if (failing_call(CALL_MEMORY) != CALL_RUNS) return NULL;
    void *block = __libc_calloc(count, size);
    failing_held(block, count * size);
    return block;
}

EXPORT void *realloc(void *old, size_t size) {
    if (failing_call(CALL_MEMORY) != CALL_RUNS) return NULL;
    failing_given_back(old);
    void *block = __libc_realloc(old, size);
    failing_held(block, size);
    return block;
}

EXPORT void *aligned_alloc(size_t alignment, size_t size) {
    if (failing_call(CALL_MEMORY) != CALL_RUNS) return NULL;
    void *block = __libc_memalign(alignment, size);
    failing_held(block, size);
    return block;
}

EXPORT int posix_memalign(void **block, size_t alignment, size_t size) {
    if (failing_call(CALL_MEMORY) != CALL_RUNS) return ENOMEM;
    *block = __libc_memalign(alignment, size);
    failing_held(*block, size);
    return *block == NULL ? ENOMEM : 0;
}

EXPORT void free(void *block) {
    failing_given_back(block);
    __libc_free(block);
}

EXPORT void *mmap(void *address, size_t length, int protection, int flags, int file, off_t offset) {
    REAL(mmap, real);
    if (failing_call(CALL_MAP) != CALL_RUNS) return MAP_FAILED;
    return real(address, length, protection, flags, file, offset);
}

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*body)(void *), void *argument) {
    REAL(pthread_create, real);
    if (failing_call(CALL_THREAD) != CALL_RUNS) return errno;
    return real(thread, attributes, body, argument);
}

EXPORT pid_t fork(void) {
    REAL(fork, real);
    if (failing_call(CALL_THREAD) != CALL_RUNS) return -1;
    return real();
}
