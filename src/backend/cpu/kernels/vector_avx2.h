/* The vector words on AVX2 with FMA: `vec` is 8 f32 or, with OTA_REAL_F64, 4 f64. The list of words
 * and what each promises stands in vector_portable.h.
 *
 * Powers of two are built in the exponent field: x + MAGIC leaves the integer x in the low bits of the
 * fraction, and a shift moves it up; MAGIC carries the exponent bias. */
#ifndef OTA_VECTOR_AVX2_H
#define OTA_VECTOR_AVX2_H

#include <immintrin.h>
#include <math.h>
#include <stdint.h>

#ifdef OTA_REAL_F64
typedef double real;
typedef __m256d vec;
enum { LANES = 4, FRACTION_BITS = 52 };
#define WORD(name) _mm256_##name##_pd
#define AS_BITS _mm256_castpd_si256
#define FROM_BITS _mm256_castsi256_pd
#define SHIFT_LEFT _mm256_slli_epi64
#define SHIFT_RIGHT _mm256_srli_epi64
#define WHOLE 0x1p52
#define BIAS 1023.0
#define LEAST_NORMAL 0x1p-1022
#define MAGIC (0x1.8p52 + 1023.0)
#define DOWN_EXPONENT 600.0
#define DOWN_POWER 0x1p-600
#else
typedef float real;
typedef __m256 vec;
enum { LANES = 8, FRACTION_BITS = 23 };
#define WORD(name) _mm256_##name##_ps
#define AS_BITS _mm256_castps_si256
#define FROM_BITS _mm256_castsi256_ps
#define SHIFT_LEFT _mm256_slli_epi32
#define SHIFT_RIGHT _mm256_srli_epi32
#define WHOLE 0x1p23f
#define BIAS 127.0f
#define LEAST_NORMAL 0x1p-126f
#define MAGIC (0x1.8p23f + 127.0f)
#define DOWN_EXPONENT 100.0f
#define DOWN_POWER 0x1p-100f
#endif
typedef vec vmask;

enum { TILE_ROWS = 6, TILE_VECTORS = 2 };

static inline vmask mask_range(int64_t low, int64_t high) {
#ifdef OTA_REAL_F64
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
    return FROM_BITS(inside);
}
static inline vec vec_load(const real *from) { return WORD(loadu)(from); }
static inline vec vec_load_part(const real *from, int64_t count) {
    return WORD(maskload)(from, AS_BITS(mask_range(0, count)));
}
static inline void vec_store(real *to, vec x) { WORD(storeu)(to, x); }
static inline void vec_store_part(real *to, vec x, int64_t count) {
    WORD(maskstore)(to, AS_BITS(mask_range(0, count)), x);
}
static inline vec vec_set(real x) { return WORD(set1)(x); }
static inline real vec_first(vec x) {
#ifdef OTA_REAL_F64
    return _mm256_cvtsd_f64(x);
#else
    return _mm256_cvtss_f32(x);
#endif
}
static inline vec vec_add(vec a, vec b) { return WORD(add)(a, b); }
static inline vec vec_sub(vec a, vec b) { return WORD(sub)(a, b); }
static inline vec vec_mul(vec a, vec b) { return WORD(mul)(a, b); }
static inline vec vec_div(vec a, vec b) { return WORD(div)(a, b); }
static inline vec vec_fma(vec a, vec b, vec c) { return WORD(fmadd)(a, b, c); }
static inline vec vec_rest(vec a, vec b, vec c) { return WORD(fmsub)(a, b, c); }
static inline vec vec_max(vec a, vec b) { return WORD(max)(a, b); }
static inline vec vec_min(vec a, vec b) { return WORD(min)(a, b); }
static inline vmask mask_nan(vec x) { return WORD(cmp)(x, x, _CMP_UNORD_Q); }
static inline vmask mask_equal(vec a, vec b) { return WORD(cmp)(a, b, _CMP_EQ_OQ); }
static inline vmask mask_above(vec a, vec b) { return WORD(cmp)(a, b, _CMP_GT_OQ); }
static inline vmask mask_and(vmask a, vmask b) { return WORD(and)(a, b); }
static inline int64_t mask_count(vmask mask) {
    return __builtin_popcount((unsigned)WORD(movemask)(mask));
}
static inline vec vec_select(vmask mask, vec yes, vec no) { return WORD(blendv)(no, yes, mask); }
/* The set bits of four, lowest first. */
static const int32_t SET_BITS[16][4] __attribute__((aligned(16))) = {
    {0}, {0},    {1},    {0, 1},    {2},    {0, 2},    {1, 2},    {0, 1, 2},
    {3}, {0, 3}, {1, 3}, {0, 1, 3}, {2, 3}, {0, 2, 3}, {1, 2, 3}, {0, 1, 2, 3}};
static inline __m128i set_bits(int bits) {
    return _mm_load_si128((const __m128i *)(const void *)SET_BITS[bits]);
}
/* Halves move together on their own, the upper one behind the lower; there is no instruction for all. */
#ifdef OTA_REAL_F64
static inline __m128d keep_half(__m128d x, int bits) {
    /* Only a second lane without the first moves. */
    return _mm_permutevar_pd(x, _mm_set_epi64x(2, bits & ~(bits << 1) & 2));
}
static inline void vec_keep(real *to, vmask mask, vec x) {
    const int bits = WORD(movemask)(mask);
    _mm_storeu_pd(to, keep_half(_mm256_castpd256_pd128(x), bits & 3));
    to += __builtin_popcount((unsigned)bits & 3);
    _mm_storeu_pd(to, keep_half(_mm256_extractf128_pd(x, 1), bits >> 2));
}
static inline void mask_places(int32_t *to, vmask mask, int32_t first) {
    const __m128i places = _mm_add_epi32(_mm_set1_epi32(first), set_bits(WORD(movemask)(mask)));
    _mm_storeu_si128((__m128i *)(void *)to, places);
}
#else
static inline void vec_keep(real *to, vmask mask, vec x) {
    const int bits = WORD(movemask)(mask), low = bits & 15;
    _mm_storeu_ps(to, _mm_permutevar_ps(_mm256_castps256_ps128(x), set_bits(low)));
    to += __builtin_popcount((unsigned)low);
    _mm_storeu_ps(to, _mm_permutevar_ps(_mm256_extractf128_ps(x, 1), set_bits(bits >> 4)));
}
static inline void mask_places(int32_t *to, vmask mask, int32_t first) {
    const int bits = WORD(movemask)(mask), low = bits & 15;
    const __m128i from = _mm_set1_epi32(first), four = _mm_set1_epi32(4);
    _mm_storeu_si128((__m128i *)(void *)to, _mm_add_epi32(from, set_bits(low)));
    to += __builtin_popcount((unsigned)low);
    _mm_storeu_si128((__m128i *)(void *)to,
                     _mm_add_epi32(_mm_add_epi32(from, four), set_bits(bits >> 4)));
}
#endif
#ifdef OTA_REAL_F64
static inline real vec_reduce_add(vec x) {
    __m128d two = _mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}
static inline real vec_reduce_max(vec x) {
    __m128d two = _mm_max_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1));
    return _mm_cvtsd_f64(_mm_max_sd(two, _mm_unpackhi_pd(two, two)));
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
#endif
static inline vec vec_round(vec x) {
    return WORD(round)(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline vec vec_power_of_two(vec n, real magic) {
    return FROM_BITS(SHIFT_LEFT(AS_BITS(vec_add(n, vec_set(magic))), FRACTION_BITS));
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
    *lift = WORD(and)(small, vec_set(FRACTION_BITS + 1));
    return vec_select(small, vec_mul(x, vec_set(2 * WHOLE)), x);
}
/* The exponent field becomes the low bits of a number whose unit in the last place is 1. */
static inline vec vec_exponent(vec x) {
    vec lift;
    const vec field = FROM_BITS(SHIFT_RIGHT(AS_BITS(vec_normal(x, &lift)), FRACTION_BITS));
    return vec_sub(vec_sub(WORD(or)(field, vec_set(WHOLE)), vec_set(WHOLE + BIAS)), lift);
}
static inline vec vec_fraction(vec x) {
    vec lift;
    const vec field = vec_set((real)INFINITY);
    return WORD(or)(WORD(andnot)(field, vec_normal(x, &lift)), vec_set(1));
}
static inline void vec_accumulate(double *to, vec x) {
#ifdef OTA_REAL_F64
    _mm256_storeu_pd(to, _mm256_add_pd(_mm256_loadu_pd(to), x));
#else
    __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(x));
    __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1));
    _mm256_storeu_pd(to, _mm256_add_pd(_mm256_loadu_pd(to), low));
    _mm256_storeu_pd(to + 4, _mm256_add_pd(_mm256_loadu_pd(to + 4), high));
#endif
}

#undef WORD
#undef AS_BITS
#undef FROM_BITS
#undef SHIFT_LEFT
#undef SHIFT_RIGHT
#undef WHOLE
#undef BIAS
#undef LEAST_NORMAL
#undef MAGIC
#undef DOWN_EXPONENT
#undef DOWN_POWER

#include "vector_tile.h"

/* As on AVX-512: neighbours are woven, then the halves change places. */
static inline void vec_turn(vec *x) {
#ifdef OTA_REAL_F64
    enum { STEP = 2 };
    vec woven[LANES];
    UNROLL for (int i = 0; i < LANES; i += 2) {
        woven[i] = _mm256_unpacklo_pd(x[i], x[i + 1]);
        woven[i + 1] = _mm256_unpackhi_pd(x[i], x[i + 1]);
    }
#define HALVES _mm256_permute2f128_pd
#else
    enum { STEP = 4 };
    vec woven[LANES];
    UNROLL for (int i = 0; i < LANES; i += 4) {
        const __m256d low = _mm256_castps_pd(_mm256_unpacklo_ps(x[i], x[i + 1]));
        const __m256d high = _mm256_castps_pd(_mm256_unpackhi_ps(x[i], x[i + 1]));
        const __m256d low2 = _mm256_castps_pd(_mm256_unpacklo_ps(x[i + 2], x[i + 3]));
        const __m256d high2 = _mm256_castps_pd(_mm256_unpackhi_ps(x[i + 2], x[i + 3]));
        woven[i] = _mm256_castpd_ps(_mm256_unpacklo_pd(low, low2));
        woven[i + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(low, low2));
        woven[i + 2] = _mm256_castpd_ps(_mm256_unpacklo_pd(high, high2));
        woven[i + 3] = _mm256_castpd_ps(_mm256_unpackhi_pd(high, high2));
    }
#define HALVES _mm256_permute2f128_ps
#endif
    UNROLL for (int k = 0; k < STEP; k++) {
        x[k] = HALVES(woven[k], woven[STEP + k], 0x20);
        x[STEP + k] = HALVES(woven[k], woven[STEP + k], 0x31);
    }
#undef HALVES
}

#endif
