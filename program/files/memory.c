/* Memory that was refused where nobody could say so. jansson drops a member it finds no memory for, and a page goes on
 * without a table: each refusal is noted here, and what is about to leave the program asks first (cli_outputs_commit,
 * cli_print_json, main). jansson's allocator is one for the process and knows no context, hence variables.
 *
 * jansson itself must not see a refusal: where a table of an object cannot grow, version 2.14 writes behind the old one. It
 * gets its memory out of a reserve then, which lasts until the program stops at the next of those places. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "program/files/files.h"

enum { RESERVE = 1 << 20, STEP = 16 };

static int refused;
static size_t reserve_used;
static _Alignas(STEP) unsigned char reserve[RESERVE];

void cli_memory_note(void) { __atomic_store_n(&refused, 1, __ATOMIC_RELAXED); }

void *cli_noted(void *block) {
    if (block == NULL) cli_memory_note();
    return block;
}

char *cli_copy(const char *text, size_t size) {
    char *copy = malloc(size + 1);
    if (copy == NULL) return NULL;
    memcpy(copy, text, size);
    copy[size] = '\0';
    return copy;
}

bool cli_memory_short(void) { return __atomic_load_n(&refused, __ATOMIC_RELAXED) != 0; }

void cli_memory_forget(void) { __atomic_store_n(&refused, 0, __ATOMIC_RELAXED); }

static void *from_reserve(size_t size) {
    cli_memory_note();
    if (size > RESERVE) return NULL;
    const size_t bytes = (size + STEP - 1) / STEP * STEP;
    const size_t at = __atomic_fetch_add(&reserve_used, bytes, __ATOMIC_RELAXED);
    return at <= RESERVE - bytes ? reserve + at : NULL;
}

static void *reserved_malloc(size_t size) {
    void *block = malloc(size);
    return block != NULL || size == 0 ? block : from_reserve(size);
}

void cli_memory_free(void *block) {
    const uintptr_t at = (uintptr_t)block, begin = (uintptr_t)reserve;
    if (at < begin || at >= begin + RESERVE) free(block);
}

void cli_memory_watch(void) { json_set_alloc_funcs(reserved_malloc, cli_memory_free); }
