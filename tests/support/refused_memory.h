/* refused_memory.h: the allocations that a call makes are counted, or each refused in turn. The linker puts __wrap_malloc and
 * its kin in the allocator's place in the programs that include this, each of one file. */
#ifndef TESTS_REFUSED_MEMORY_H
#define TESTS_REFUSED_MEMORY_H

#include <stdbool.h>
#include <stdlib.h>

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void __real_free(void *memory);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void __wrap_free(void *memory);

/* Of every thread alone, but for what is held. */
/* Allocations until one is refused; below 0: all are allowed. */
static _Thread_local int allowed = -1;
static _Thread_local int asked, refused;
static _Atomic int held;

static bool refuses(void) {
    asked++;
    if (allowed < 0) return false;
    if (allowed-- > 0) return false;
    refused++;
    return true;
}

/* From here on the allocation after `count` more is refused. */
static inline void refuse_after(int count) {
    allowed = count;
    refused = 0;
}

static inline void allow_all(void) { allowed = -1; }

void *__wrap_malloc(size_t bytes) {
    if (refuses()) return NULL;
    held++;
    return __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes) {
    if (refuses()) return NULL;
    held++;
    return __real_calloc(count, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes) {
    if (refuses()) return NULL;
    held += memory == NULL;
    return __real_realloc(memory, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
    if (refuses()) return NULL;
    held++;
    return __real_aligned_alloc(alignment, bytes);
}

void __wrap_free(void *memory) {
    held -= memory != NULL;
    __real_free(memory);
}

#endif
