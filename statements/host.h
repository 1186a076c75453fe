/* What statements measure of the program, or borrow from it: its containers of arrays, its windows of a
 * text, the demo's vocabulary.
 * The program fills the table (program/verify/host.c); statements call nothing else of it. */
#ifndef OTATTN_STATEMENTS_HOST_H
#define OTATTN_STATEMENTS_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "otattn.h"

/* A dense array of a safetensors file. */
typedef struct statement_tensor {
    char name[64];
    void *data;
    ota_type type;
    int rank;
    int64_t shape[3];
    size_t count; /* product of shape */
} statement_tensor;

/* Ids [count] of a text, and the frame that every window gets, each part at most 16. */
typedef struct statement_text {
    int64_t *ids;
    int64_t count;
    const int32_t *before, *after;
    int64_t before_count, after_count;
} statement_text;

typedef struct statement_host {
    /* A safetensors file of the tensors in this order; `header_only`: without their elements. */
    bool (*write_tensors)(const char *path, const statement_tensor *tensors, int count,
                          bool header_only);
    /* One tensor of such a file, into allocated memory that the caller frees. */
    bool (*read_tensor)(const char *path, const char *name, statement_tensor *tensor);
    /* A file that the program carries: "demo/vocab.json", "demo/merges.txt", "demo/paragraph.txt". */
    const char *(*file_of)(const char *name, size_t *size);
    /* count elements of `type` as f32. */
    void (*to_f32)(const void *from, ota_type type, float *to, size_t count);
    /* At most `wanted` windows of `tokens` from the beginning: their ids [wanted][tokens] and lengths [wanted].
     * How many there are, or -1. */
    int64_t (*windows_of)(const statement_text *text, int64_t wanted, int64_t tokens, int64_t *ids,
                          int64_t *lengths);
} statement_host;

#endif
