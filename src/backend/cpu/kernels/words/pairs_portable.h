/* The words for pairs of bf16 where no instruction has them. They follow a level's f32 words and come before
 * vector_tile.h. A pair (x, y) is one uint32_t, x in its lower half:
 *
 *     element, operand               a pair; LANES pairs
 *     operand_load, operand_store    any alignment
 *     operand_load_part              the first `count` pairs, touching no other memory; the rest are 0
 *     operand_set                    every pair from one
 *     operand_step(a, b, sum)        sum + a.x b.x + a.y b.y in f32; subnormals may count as 0
 *     operand_row(low, high)         2 LANES numbers of one row as LANES pairs of neighbours
 *     operand_rows(even, odd)        the pairs (even[l], odd[l]); both round to nearest even, keep NaN */
#ifndef OTA_PAIRS_PORTABLE_H
#define OTA_PAIRS_PORTABLE_H

#include "base/half.h"

typedef uint32_t element;
typedef vec_bits operand;

static inline operand operand_load(const element *from) {
    operand x;
    memcpy(&x, from, sizeof x);
    return x;
}
static inline operand operand_load_part(const element *from, int64_t count) {
    operand x = {0};
    for (int lane = 0; lane < LANES; lane++) {
        if (lane < count) x[lane] = from[lane];
    }
    return x;
}
static inline void operand_store(element *to, operand x) { memcpy(to, &x, sizeof x); }
static inline operand operand_set(element x) { return (operand){x, x, x, x}; }
static inline vec operand_step(operand a, operand b, vec sum) {
    const operand upper = operand_set(0xffff0000u);
    sum = vec_fma((vec)(a & upper), (vec)(b & upper), sum);
    return vec_fma((vec)(a << 16), (vec)(b << 16), sum);
}
static inline element pair_of(real even, real odd) {
    return (element)ota_bf16_from_f32(even) | (element)ota_bf16_from_f32(odd) << 16;
}
static inline operand operand_row(vec low, vec high) {
    enum { HALF = LANES / 2 };
    operand x = {0};
    for (int lane = 0; lane < HALF; lane++) {
        x[lane] = pair_of(low[2 * lane], low[2 * lane + 1]);
        x[lane + HALF] = pair_of(high[2 * lane], high[2 * lane + 1]);
    }
    return x;
}
static inline operand operand_rows(vec even, vec odd) {
    operand x = {0};
    for (int lane = 0; lane < LANES; lane++) x[lane] = pair_of(even[lane], odd[lane]);
    return x;
}

#endif
