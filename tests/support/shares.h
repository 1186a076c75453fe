/* shares.h: how many rows each rank of a test holds, and copies of those rows. */
#ifndef TESTS_SHARES_H
#define TESTS_SHARES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "draw/random.h"

static dice dice_state;

/* `rows` in shares as even as can be, or drawn: then some ranks may hold nothing, and rank 1 does. */
static inline void shares_draw(int64_t *shares, int ranks, int64_t rows, bool uneven) {
    int64_t left = rows;
    for (int k = 0; k < ranks; k++) {
        const int64_t even = rows * (k + 1) / ranks - rows * k / ranks;
        shares[k] = k + 1 == ranks ? left
                    : uneven       ? (int64_t)(uniform(&dice_state) * (double)(left + 1)) * (k != 1)
                                   : even;
        left -= shares[k];
    }
}

/* Rows of whole arrays [blocks][rows] of `line` bytes into a share's [blocks][count], row number[i] for i. */
typedef struct shares_rows {
    const int64_t *number;
    int64_t count, rows;
} shares_rows;

static inline void shares_copy(const shares_rows *mine, int64_t blocks, size_t line,
                               const void *from, void *to) {
    for (int64_t b = 0; b < blocks; b++) {
        for (int64_t i = 0; i < mine->count; i++)
            memcpy((char *)to + (size_t)(b * mine->count + i) * line,
                   (const char *)from + (size_t)(b * mine->rows + mine->number[i]) * line, line);
    }
}

#endif
