/* Memory that was refused where nobody could say so. jansson drops a member it finds no memory for, and a page goes on
 * without a table: each refusal is noted here, and what is about to leave the program asks first (tool_outputs_commit,
 * tool_print_json, main). jansson's allocator is one for the process and knows no context, hence a variable. */
#include <jansson.h>
#include <stdlib.h>

#include "program/files/files.h"

static int refused;

void tool_memory_note(void) { __atomic_store_n(&refused, 1, __ATOMIC_RELAXED); }

void *tool_noted(void *block) {
    if (block == NULL) tool_memory_note();
    return block;
}

bool tool_memory_short(void) { return __atomic_load_n(&refused, __ATOMIC_RELAXED) != 0; }

void tool_memory_forget(void) { __atomic_store_n(&refused, 0, __ATOMIC_RELAXED); }

static void *noted_malloc(size_t size) {
    return size > 0 ? tool_noted(malloc(size)) : malloc(size);
}

void tool_memory_watch(void) { json_set_alloc_funcs(noted_malloc, free); }
