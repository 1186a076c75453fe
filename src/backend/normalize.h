/* normalize.h: the kernels of otattn_normalize.h, f32 or f64 alike; formulas stand in
 * cpu/kernels/normalize.inc.h. Matrices are dense [count][side][side]; an answer depends on its own matrix alone. */
#ifndef OTA_NORMALIZE_H
#define OTA_NORMALIZE_H

#include <stdbool.h>
#include <stdint.h>

enum { OTA_NORMALIZE_LEAST = 1, OTA_NORMALIZE_SMALL = 16, OTA_NORMALIZE_MOST = 128 };

typedef struct ota_normalize_block {
    int64_t count, side, rounds;
    bool symmetric;
    double eps, tolerance; /* tolerance 0: exactly `rounds` */
    const void *scores, *plan, *plan_grad;
    void *out;     /* P, or the gradient of the scores */
    void *history; /* reverse: OTA_NORMALIZE_KEPT * rounds * side vectors, 64-byte aligned */
    void *room;    /* sides above OTA_NORMALIZE_SMALL: 3 side^2 + 8 side vectors, 64-byte aligned */
    /* out: matrices that are NaN, and those that have not met the tolerance */
    int64_t nonfinite, open;
} ota_normalize_block;

enum { OTA_NORMALIZE_KEPT = 4 }; /* vectors of history a round and row */

typedef struct ota_normalizers {
    int64_t lanes; /* matrices that are solved together */
    void (*forward)(ota_normalize_block *block);
    void (*reverse)(ota_normalize_block *block);  /* of the rounds, from the scores */
    void (*implicit)(ota_normalize_block *block); /* from the plan */
} ota_normalizers;

#endif
