/* The vector words on the compilers' own 16-byte vectors: no instruction-set flags wanted. `vec` is 4
 * f32 or, with OTA_REAL_BITS 64, 2 f64. Every level defines these words and the bodies use no others:
 *
 *     real, vec, vmask, LANES, TILE_ROWS, TILE_VECTORS     (the register tile: rows x vectors)
 *     vec_load, vec_store            any alignment
 *     vec_load_part, vec_store_part  the first `count` lanes (0 ... LANES), touching no other memory;
 *                                    the lanes not loaded are 0
 *     vec_widen                      LANES numbers in f16, exactly, a NaN made quiet (f32 only)
 *     vec_from_f32, vec_from_f32_part   the same of f32, exactly (f64 only)
 *     vec_set, vec_first            every lane from one number; lane 0
 *     vec_add, vec_sub, vec_mul, vec_div, vec_sqrt
 *     vec_fma(a, b, c)               a b + c; rounded once where the level has it, twice here
 *     vec_rest(a, b, c)              a b - c for c = vec_mul(a, b): what its rounding took, exactly (here but for
 *                                    the last digit of that) unless it is subnormal
 *     vec_max, vec_min               a > b ? a : b and a < b ? a : b: b when either is NaN
 *     mask_range(low, high)          lanes low <= lane < high
 *     mask_nan, mask_equal, mask_above, mask_and, mask_count
 *     mask_flags(from, count)        lanes l < count with from[l] != 0, bytes; touches no other memory
 *     mask_bits(mask)               lane l as bit l
 *     vec_select(mask, yes, no)
 *     vec_compact(to, mask, x)          the lanes of the mask, moved together; writes LANES elements
 *     mask_places(to, mask, first)   first + lane of each lane of the mask; writes LANES int32
 *     vec_reduce_add, vec_reduce_max, vec_reduce_min one fixed order per level
 *     vec_reduce_add_each(x), vec_reduce_max_each    lane l from x[l], LANES of them, in that order
 *     ABREAST                        exponentials that are best taken side by side
 *     vec_hold(x)                    x, which stays in a register
 *     vec_round                      nearest integer, ties to even, for |x| below half the fraction
 *     vec_scale(x, n)                x 2^n for integers |n| <= 200 (f32) or 1200 (f64), x within
 *                                    [1/2, 2], rounded once; overflow gives inf, underflow subnormals
 *     vec_scale_down                 the same for n <= 0
 *     vec_exponent, vec_fraction     n and f of x = f 2^n, f within [1, 2), for finite x > 0, subnormals
 *                                    included; of anything else any number
 *     vec_accumulate(to, x)          LANES f64 sums += x
 *     vec_transpose(x)                    LANES vectors become their transpose
 *
 * and, in vector_tile.h or in its own way, the register tile's product.
 *
 * This folder: the words that bodies are written on, a file an instruction set, and the words of products: register
 * tiles, tiles in hardware, pairs of bf16. May call: nothing. */
#ifndef OTA_VECTOR_PORTABLE_H
#define OTA_VECTOR_PORTABLE_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/half.h"

#if OTA_REAL_BITS == 64
typedef double real;
typedef int64_t lane_bits;
typedef uint64_t lane_unsigned;
enum { LANES = 2, FRACTION_BITS = 52 };
static const real MAGIC = 0x1.8p52;
static const real BIAS = 1023.0;
static const real LEAST_NORMAL = 0x1p-1022;
static const real DOWN_EXPONENT = 600.0;
static const real DOWN_POWER = 0x1p-600;
#else
typedef float real;
typedef int32_t lane_bits;
typedef uint32_t lane_unsigned;
enum { LANES = 4, FRACTION_BITS = 23 };
static const real MAGIC = 0x1.8p23f;
static const real BIAS = 127.0f;
static const real LEAST_NORMAL = 0x1p-126f;
static const real DOWN_EXPONENT = 100.0f;
static const real DOWN_POWER = 0x1p-100f;
#endif
typedef real vec __attribute__((vector_size(16)));
typedef lane_bits vmask __attribute__((vector_size(16)));
typedef lane_unsigned vec_bits __attribute__((vector_size(16)));

enum { TILE_ROWS = 6, TILE_VECTORS = 2 };

static inline vmask mask_range(int64_t low, int64_t high) {
    vmask mask;
    for (int lane = 0; lane < LANES; lane++) mask[lane] = lane >= low && lane < high ? -1 : 0;
    return mask;
}
static inline vmask mask_flags(const unsigned char *from, int64_t count) {
    vmask mask;
    for (int lane = 0; lane < LANES; lane++) mask[lane] = lane < count && from[lane] != 0 ? -1 : 0;
    return mask;
}
static inline vec vec_load(const real *from) {
    vec x;
    memcpy(&x, from, sizeof x);
    return x;
}
#if OTA_REAL_BITS == 32
static inline vec vec_widen(const uint16_t *from) {
    real x[LANES];
    for (int lane = 0; lane < LANES; lane++) x[lane] = ota_f32_from_f16(from[lane]);
    return vec_load(x);
}
#endif
static inline vec vec_load_part(const real *from, int64_t count) {
    vec x = {0};
    for (int lane = 0; lane < LANES; lane++) {
        if (lane < count) x[lane] = from[lane];
    }
    return x;
}
#if OTA_REAL_BITS == 64
static inline vec vec_from_f32_part(const float *from, int64_t count) {
    vec x = {0};
    for (int lane = 0; lane < LANES; lane++) {
        if (lane < count) x[lane] = (real)from[lane];
    }
    return x;
}
static inline vec vec_from_f32(const float *from) { return vec_from_f32_part(from, LANES); }
#endif
static inline void vec_store(real *to, vec x) { memcpy(to, &x, sizeof x); }
static inline void vec_store_part(real *to, vec x, int64_t count) {
    for (int lane = 0; lane < LANES; lane++) {
        if (lane < count) to[lane] = x[lane];
    }
}
static inline vec vec_set(real x) {
#if OTA_REAL_BITS == 64
    return (vec){x, x};
#else
    return (vec){x, x, x, x};
#endif
}
static inline real vec_first(vec x) { return x[0]; }
static inline vec vec_add(vec a, vec b) { return a + b; }
static inline vec vec_sub(vec a, vec b) { return a - b; }
static inline vec vec_mul(vec a, vec b) { return a * b; }
static inline vec vec_div(vec a, vec b) { return a / b; }
static inline vec vec_sqrt(vec a) {
    for (int lane = 0; lane < LANES; lane++) a[lane] = (real)sqrt((double)a[lane]);
    return a;
}
static inline vec vec_fma(vec a, vec b, vec c) { return a * b + c; }
/* The upper half of the digits of a. */
static inline vec vec_head(vec a) {
    const lane_unsigned lower = ((lane_unsigned)1 << (FRACTION_BITS / 2 + 1)) - 1;
    return (vec)((vec_bits)a & ~lower);
}
static inline vec vec_rest(vec a, vec b, vec c) {
    const vec x = vec_head(a), y = vec_head(b);
    return x * y - c + x * (b - y) + (a - x) * y + (a - x) * (b - y);
}
static inline vec vec_select(vmask mask, vec yes, vec no) {
    return (vec)(((vmask)yes & mask) | ((vmask)no & ~mask));
}
static inline vec vec_max(vec a, vec b) { return vec_select((vmask)(a > b), a, b); }
static inline vec vec_min(vec a, vec b) { return vec_select((vmask)(a < b), a, b); }
static inline vmask mask_nan(vec x) { return ~(vmask)(x == x); }
static inline vmask mask_equal(vec a, vec b) { return (vmask)(a == b); }
static inline vmask mask_above(vec a, vec b) { return (vmask)(a > b); }
static inline vmask mask_and(vmask a, vmask b) { return a & b; }
static inline int64_t mask_count(vmask mask) {
    int64_t count = 0;
    for (int lane = 0; lane < LANES; lane++) count -= mask[lane];
    return count;
}
static inline unsigned mask_bits(vmask mask) {
    unsigned bits = 0;
    for (int lane = 0; lane < LANES; lane++) bits |= ((unsigned)mask[lane] & 1u) << lane;
    return bits;
}
static inline void vec_compact(real *to, vmask mask, vec x) {
    real lane[LANES];
    vec_store(lane, x);
    int count = 0;
    for (int l = 0; l < LANES; l++) {
        to[count] = lane[l];
        count += mask[l] != 0;
    }
}
static inline void mask_places(int32_t *to, vmask mask, int32_t first) {
    int count = 0;
    for (int l = 0; l < LANES; l++) {
        to[count] = first + l;
        count += mask[l] != 0;
    }
}
static inline real vec_reduce_add(vec x) {
#if OTA_REAL_BITS == 64
    return x[0] + x[1];
#else
    return (x[0] + x[2]) + (x[1] + x[3]);
#endif
}
static inline real vec_reduce_max(vec x) {
    real top = x[0];
    for (int lane = 1; lane < LANES; lane++) top = x[lane] > top ? x[lane] : top;
    return top;
}
static inline real vec_reduce_min(vec x) {
    real least = x[0];
    for (int lane = 1; lane < LANES; lane++) least = x[lane] < least ? x[lane] : least;
    return least;
}
static inline vec vec_round(vec x) { return x + vec_set(MAGIC) - vec_set(MAGIC); }
/* The integer n lands in the low bits of the fraction; the shift makes it an exponent. */
static inline vec vec_power_of_two(vec n, real exponent) {
    return (vec)((vec_bits)(n + vec_set(MAGIC + BIAS + exponent)) << FRACTION_BITS);
}
static inline vec vec_scale(vec x, vec n) {
    vec half = vec_round(n * vec_set((real)0.5));
    return x * vec_power_of_two(half, 0) * vec_power_of_two(n - half, 0);
}
static inline vec vec_scale_down(vec x, vec n) {
    return x * vec_power_of_two(n, DOWN_EXPONENT) * vec_set(DOWN_POWER);
}
/* x with its subnormal lanes lifted by all digits of the fraction, which `lift` counts. */
static inline vec vec_normal(vec x, vec *lift) {
    const vmask small = mask_above(vec_set(LEAST_NORMAL), x);
    *lift = vec_select(small, vec_set(FRACTION_BITS + 1), vec_set(0));
    return vec_select(small, x * vec_set((real)((lane_bits)2 << FRACTION_BITS)), x);
}
/* The exponent field becomes the low bits of a number whose unit in the last place is 1. */
static inline vec vec_exponent(vec x) {
    const vec whole = vec_set((real)((lane_bits)1 << FRACTION_BITS));
    vec lift;
    const vec_bits field = (vec_bits)vec_normal(x, &lift) >> FRACTION_BITS;
    return (vec)(field | (vec_bits)whole) - (whole + vec_set(BIAS)) - lift;
}
static inline vec vec_fraction(vec x) {
    const vec_bits one = (vec_bits)vec_set(1);
    vec lift;
    const vec_bits field = (vec_bits)vec_normal(x, &lift);
    const lane_unsigned digits = ((lane_unsigned)1 << FRACTION_BITS) - 1;
    return (vec)((field & digits) | one);
}
static inline void vec_accumulate(double *to, vec x) {
    for (int lane = 0; lane < LANES; lane++) to[lane] += (double)x[lane];
}
#include "transpose_short.h"

#ifdef OTA_PAIRS
#include "pairs_portable.h"
#endif
#include "reduce_each.h"
#ifdef OTA_TILES
#include "tiles_portable.h"
#else
#include "vector_tile.h"
#endif

#endif
