/* arrays.h: memory of one case and strided arrays in it. Inputs are filled by a rule from the case's dice;
 * outputs hold a pattern before every call, so that bytes nobody wrote are the same in every run. */
#ifndef TESTS_DUMP_ARRAYS_H
#define TESTS_DUMP_ARRAYS_H

#include "../draw/draft.h"
#include "digest.h"

typedef struct dump_memory {
    unsigned char *base;
    size_t used, size;
} dump_memory;

/* The memory that an array lies in: its elements, gaps between them and nothing else. */
typedef struct dump_block {
    unsigned char *start;
    size_t bytes;
} dump_block;

/* `bytes` bytes of 0xff; `shift` moves the start off a boundary of 64 bytes. Ends the program when there is no
 * room: cases are drawn within it. */
dump_block dump_lend(dump_memory *memory, size_t bytes, size_t shift);

/* An array of this shape. `out`, when not NULL, takes its block, and makes it an output's layout. */
ota_array dump_array(dump_memory *memory, dice *dice, const array_shape *shape, layout layout,
                     dump_block *out);

/* Gives every NaN of a floating array the same bits. */
void dump_same_nan(const ota_array *array);

#endif
