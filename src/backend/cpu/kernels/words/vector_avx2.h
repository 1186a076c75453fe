/* The vector words on AVX2 with FMA: `vec` is 8 f32 or, with OTA_REAL_BITS 64, 4 f64. The list of words
 * and what each promises stands in vector_portable.h.
 *
 * Powers of two are built in the exponent field: x + MAGIC leaves the integer x in the low bits of the
 * fraction, and a shift moves it up; MAGIC carries the exponent bias. */
#ifndef OTA_VECTOR_AVX2_H
#define OTA_VECTOR_AVX2_H

#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/half.h"

#if OTA_REAL_BITS == 64
typedef double real;
typedef __m256d vec;
enum { LANES = 4, FRACTION_BITS = 52 };
#define OP(name) _mm256_##name##_pd
static inline __m256i as_bits(vec x) { return _mm256_castpd_si256(x); }
static inline vec from_bits(__m256i x) { return _mm256_castsi256_pd(x); }
/* The fraction's low bits become those of the exponent, and back. */
static inline vec bits_up(vec x) { return from_bits(_mm256_slli_epi64(as_bits(x), FRACTION_BITS)); }
static inline vec bits_down(vec x) {
    return from_bits(_mm256_srli_epi64(as_bits(x), FRACTION_BITS));
}
static const real WHOLE = 0x1p52;
static const real BIAS = 1023.0;
static const real LEAST_NORMAL = 0x1p-1022;
static const real MAGIC = 0x1.8p52 + 1023.0;
static const real DOWN_EXPONENT = 600.0;
static const real DOWN_POWER = 0x1p-600;
#else
typedef float real;
typedef __m256 vec;
enum { LANES = 8, FRACTION_BITS = 23 };
#define OP(name) _mm256_##name##_ps
static inline __m256i as_bits(vec x) { return _mm256_castps_si256(x); }
static inline vec from_bits(__m256i x) { return _mm256_castsi256_ps(x); }
/* The fraction's low bits become those of the exponent, and back. */
static inline vec bits_up(vec x) { return from_bits(_mm256_slli_epi32(as_bits(x), FRACTION_BITS)); }
static inline vec bits_down(vec x) {
    return from_bits(_mm256_srli_epi32(as_bits(x), FRACTION_BITS));
}
static const real WHOLE = 0x1p23f;
static const real BIAS = 127.0f;
static const real LEAST_NORMAL = 0x1p-126f;
static const real MAGIC = 0x1.8p23f + 127.0f;
static const real DOWN_EXPONENT = 100.0f;
static const real DOWN_POWER = 0x1p-100f;
#endif
typedef vec vmask;

enum { TILE_ROWS = 6, TILE_VECTORS = 2 };

static inline vmask mask_range(int64_t low, int64_t high) {
#if OTA_REAL_BITS == 64
    __m256i lane = _mm256_setr_epi64x(0, 1, 2, 3);
    __m256i from = _mm256_set1_epi64x(low - 1);
    __m256i to = _mm256_set1_epi64x(high);
    __m256i inside = _mm256_and_si256(_mm256_cmpgt_epi64(lane, from), _mm256_cmpgt_epi64(to, lane));
#else
    __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i from = _mm256_set1_epi32((int)low - 1);
    __m256i to = _mm256_set1_epi32((int)high);
    __m256i inside = _mm256_and_si256(_mm256_cmpgt_epi32(lane, from), _mm256_cmpgt_epi32(to, lane));
#endif
    return from_bits(inside);
}
static inline vmask mask_flags(const unsigned char *from, int64_t count) {
    uint64_t bytes = 0;
    if (count == LANES)
        memcpy(&bytes, from, LANES);
    else
        for (int lane = 0; lane < count; lane++) bytes |= (uint64_t)from[lane] << 8 * lane;
    const __m128i x = _mm_cvtsi64_si128((long long)bytes);
#if OTA_REAL_BITS == 64
    return from_bits(_mm256_cmpgt_epi64(_mm256_cvtepu8_epi64(x), _mm256_setzero_si256()));
#else
    return from_bits(_mm256_cmpgt_epi32(_mm256_cvtepu8_epi32(x), _mm256_setzero_si256()));
#endif
}
static inline vec vec_load(const real *from) { return OP(loadu)(from); }
#if OTA_REAL_BITS == 32
static inline vec vec_widen(const uint16_t *from) {
    real x[LANES];
    for (int lane = 0; lane < LANES; lane++) x[lane] = ota_f32_from_f16(from[lane]);
    return vec_load(x);
}
#endif
static inline vec vec_load_part(const real *from, int64_t count) {
    return OP(maskload)(from, as_bits(mask_range(0, count)));
}
#if OTA_REAL_BITS == 64
static inline vec vec_from_f32(const float *from) { return _mm256_cvtps_pd(_mm_loadu_ps(from)); }
static inline vec vec_from_f32_part(const float *from, int64_t count) {
    const __m128i lane = _mm_setr_epi32(0, 1, 2, 3);
    const __m128i here = _mm_cmpgt_epi32(_mm_set1_epi32((int32_t)count), lane);
    return _mm256_cvtps_pd(_mm_maskload_ps(from, here));
}
#endif
static inline void vec_store(real *to, vec x) { OP(storeu)(to, x); }
static inline void vec_store_part(real *to, vec x, int64_t count) {
    OP(maskstore)(to, as_bits(mask_range(0, count)), x);
}
static inline vec vec_set(real x) { return OP(set1)(x); }
static inline real vec_first(vec x) {
#if OTA_REAL_BITS == 64
    return _mm256_cvtsd_f64(x);
#else
    return _mm256_cvtss_f32(x);
#endif
}
static inline vec vec_add(vec a, vec b) { return OP(add)(a, b); }
static inline vec vec_sub(vec a, vec b) { return OP(sub)(a, b); }
static inline vec vec_mul(vec a, vec b) { return OP(mul)(a, b); }
static inline vec vec_div(vec a, vec b) { return OP(div)(a, b); }
static inline vec vec_sqrt(vec a) { return OP(sqrt)(a); }
static inline vec vec_fma(vec a, vec b, vec c) { return OP(fmadd)(a, b, c); }
static inline vec vec_rest(vec a, vec b, vec c) { return OP(fmsub)(a, b, c); }
static inline vec vec_max(vec a, vec b) { return OP(max)(a, b); }
static inline vec vec_min(vec a, vec b) { return OP(min)(a, b); }
static inline vmask mask_nan(vec x) { return OP(cmp)(x, x, _CMP_UNORD_Q); }
static inline vmask mask_equal(vec a, vec b) { return OP(cmp)(a, b, _CMP_EQ_OQ); }
static inline vmask mask_above(vec a, vec b) { return OP(cmp)(a, b, _CMP_GT_OQ); }
static inline vmask mask_and(vmask a, vmask b) { return OP(and)(a, b); }
static inline int64_t mask_count(vmask mask) {
    return __builtin_popcount((unsigned)OP(movemask)(mask));
}
static inline unsigned mask_bits(vmask mask) { return (unsigned)OP(movemask)(mask); }
static inline vec vec_select(vmask mask, vec yes, vec no) { return OP(blendv)(no, yes, mask); }
/* The set bits of four, lowest first. */
static const int32_t SET_BITS[16][4] __attribute__((aligned(16))) = {
    {0}, {0},    {1},    {0, 1},    {2},    {0, 2},    {1, 2},    {0, 1, 2},
    {3}, {0, 3}, {1, 3}, {0, 1, 3}, {2, 3}, {0, 2, 3}, {1, 2, 3}, {0, 1, 2, 3}};
static inline __m128i set_bits(int bits) {
    return _mm_load_si128((const __m128i *)(const void *)SET_BITS[bits]);
}
/* Halves move together on their own, the upper one behind the lower; there is no instruction for all. */
#if OTA_REAL_BITS == 64
static inline __m128d keep_half(__m128d x, int bits) {
    /* Only a second lane without the first moves. */
    return _mm_permutevar_pd(x, _mm_set_epi64x(2, bits & ~(bits << 1) & 2));
}
static inline void vec_compact(real *to, vmask mask, vec x) {
    const int bits = OP(movemask)(mask);
    _mm_storeu_pd(to, keep_half(_mm256_castpd256_pd128(x), bits & 3));
    to += __builtin_popcount((unsigned)bits & 3);
    _mm_storeu_pd(to, keep_half(_mm256_extractf128_pd(x, 1), bits >> 2));
}
static inline void mask_places(int32_t *to, vmask mask, int32_t first) {
    const __m128i places = _mm_add_epi32(_mm_set1_epi32(first), set_bits(OP(movemask)(mask)));
    _mm_storeu_si128((__m128i *)(void *)to, places);
}
#else
static inline void vec_compact(real *to, vmask mask, vec x) {
    const int bits = OP(movemask)(mask), low = bits & 15;
    _mm_storeu_ps(to, _mm_permutevar_ps(_mm256_castps256_ps128(x), set_bits(low)));
    to += __builtin_popcount((unsigned)low);
    _mm_storeu_ps(to, _mm_permutevar_ps(_mm256_extractf128_ps(x, 1), set_bits(bits >> 4)));
}
static inline void mask_places(int32_t *to, vmask mask, int32_t first) {
    const int bits = OP(movemask)(mask), low = bits & 15;
    const __m128i from = _mm_set1_epi32(first), four = _mm_set1_epi32(4);
    _mm_storeu_si128((__m128i *)(void *)to, _mm_add_epi32(from, set_bits(low)));
    to += __builtin_popcount((unsigned)low);
    _mm_storeu_si128((__m128i *)(void *)to,
                     _mm_add_epi32(_mm_add_epi32(from, four), set_bits(bits >> 4)));
}
#endif
#if OTA_REAL_BITS == 64
static inline real vec_reduce_add(vec x) {
    __m128d two = _mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}
static inline real vec_reduce_max(vec x) {
    __m128d two = _mm_max_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1));
    return _mm_cvtsd_f64(_mm_max_sd(two, _mm_unpackhi_pd(two, two)));
}
static inline real vec_reduce_min(vec x) {
    __m128d two = _mm_min_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1));
    return _mm_cvtsd_f64(_mm_min_sd(two, _mm_unpackhi_pd(two, two)));
}
#else
static inline real vec_reduce_add(vec x) {
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
static inline real vec_reduce_max(vec x) {
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
static inline real vec_reduce_min(vec x) {
    __m128 four = _mm_min_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    __m128 two = _mm_min_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_min_ss(two, _mm_movehdup_ps(two)));
}
#endif
static inline vec vec_round(vec x) {
    return OP(round)(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline vec vec_power_of_two(vec n, real magic) {
    return bits_up(vec_add(n, vec_set(magic)));
}
static inline vec vec_scale(vec x, vec n) {
    vec half = vec_round(vec_mul(n, vec_set((real)0.5)));
    vec first = vec_power_of_two(half, MAGIC);
    vec second = vec_power_of_two(vec_sub(n, half), MAGIC);
    return vec_mul(vec_mul(x, first), second);
}
static inline vec vec_scale_down(vec x, vec n) {
    vec power = vec_power_of_two(n, MAGIC + DOWN_EXPONENT);
    return vec_mul(vec_mul(x, power), vec_set(DOWN_POWER));
}
/* x with its subnormal lanes lifted by all digits of the fraction, which `lift` counts. */
static inline vec vec_normal(vec x, vec *lift) {
    const vmask small = mask_above(vec_set(LEAST_NORMAL), x);
    *lift = OP(and)(small, vec_set(FRACTION_BITS + 1));
    return vec_select(small, vec_mul(x, vec_set(2 * WHOLE)), x);
}
/* The exponent field becomes the low bits of a number whose unit in the last place is 1. */
static inline vec vec_exponent(vec x) {
    vec lift;
    const vec field = bits_down(vec_normal(x, &lift));
    return vec_sub(vec_sub(OP(or)(field, vec_set(WHOLE)), vec_set(WHOLE + BIAS)), lift);
}
static inline vec vec_fraction(vec x) {
    vec lift;
    const vec field = vec_set((real)INFINITY);
    return OP(or)(OP(andnot)(field, vec_normal(x, &lift)), vec_set(1));
}
static inline void vec_accumulate(double *to, vec x) {
#if OTA_REAL_BITS == 64
    _mm256_storeu_pd(to, _mm256_add_pd(_mm256_loadu_pd(to), x));
#else
    __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(x));
    __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1));
    _mm256_storeu_pd(to, _mm256_add_pd(_mm256_loadu_pd(to), low));
    _mm256_storeu_pd(to + 4, _mm256_add_pd(_mm256_loadu_pd(to + 4), high));
#endif
}

#include "reduce_each.h"
#include "vector_tile.h"
#include "vector_weave.h"

/* Halves of woven vectors change places. */
#if OTA_REAL_BITS == 64
#define HALVES _mm256_permute2f128_pd
#else
#define HALVES _mm256_permute2f128_ps
#endif
static inline void vec_transpose(vec *x) {
    vec woven[LANES];
    vec_weave(x, woven);
    UNROLL for (int k = 0; k < WEAVE; k++) {
        x[k] = HALVES(woven[k], woven[WEAVE + k], 0x20);
        x[WEAVE + k] = HALVES(woven[k], woven[WEAVE + k], 0x31);
    }
}

#endif
