/* shares.h: how many rows each rank of a test holds, and copies of those rows. */
#ifndef TESTS_SHARES_H
#define TESTS_SHARES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "draw/draft.h"

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

/* Queries and keys in turns, numbers that f32 holds, in both types. */
typedef struct shares_numbers {
    double *queries, *keys;
    float *narrow_queries, *narrow_keys;
} shares_numbers;

static inline void shares_fill(const shares_numbers *to, int64_t count) {
    for (int64_t k = 0; k < count; k++) {
        fill_both(to->queries + k, to->narrow_queries + k, 1, &dice_state, NORMAL, 1.0);
        fill_both(to->keys + k, to->narrow_keys + k, 1, &dice_state, NORMAL, 1.0);
    }
}

/* Masses of so many rows and as many keys, to be made equal in total by the next. */
static inline void shares_masses(double *of_rows, double *of_keys, int64_t count) {
    for (int64_t k = 0; k < count; k++) {
        of_rows[k] = 0.5 * draw_number(&dice_state, OTA_F64, MASS, 2.0);
        of_keys[k] = 0.5 * draw_number(&dice_state, OTA_F64, MASS, 2.0);
    }
}

static inline void shares_match(double *of_rows, double *of_keys, int64_t count) {
    const ota_array rows = ota_array_of(of_rows, OTA_F64, 1, 1, 1, count);
    const ota_array keys = ota_array_of(of_keys, OTA_F64, 1, 1, 1, count);
    match_masses(&keys, &rows, count, 1.0);
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
