/* The vector words on AVX-512 (F, BW, DQ, VL): `vec` is 16 f32 or, with OTA_REAL_BITS 64, 8 f64.
 * The list of words and what each promises stands in vector_portable.h. */
#ifndef OTA_VECTOR_AVX512_H
#define OTA_VECTOR_AVX512_H

#include <immintrin.h>
#include <stdint.h>

#if OTA_REAL_BITS == 64
typedef double real;
typedef __m512d vec;
typedef __mmask8 vmask;
enum { LANES = 8 };
#define OP(name) _mm512_##name##_pd
#define COMPARE(name) _mm512_##name##_pd_mask
#else
typedef float real;
typedef __m512 vec;
typedef __mmask16 vmask;
enum { LANES = 16 };
#define OP(name) _mm512_##name##_ps
#define COMPARE(name) _mm512_##name##_ps_mask
#endif

enum { TILE_ROWS = 6, TILE_VECTORS = 4, ABREAST = 4 };

static inline vmask mask_range(int64_t low, int64_t high) {
    return (vmask)(((1u << high) - 1u) & ~((1u << low) - 1u));
}
static inline vmask mask_flags(const unsigned char *from, int64_t count) {
    const __m128i x = _mm_maskz_loadu_epi8((__mmask16)mask_range(0, count), from);
    return (vmask)_mm_test_epi8_mask(x, x);
}
static inline vec vec_load(const real *from) { return OP(loadu)(from); }
#if OTA_REAL_BITS == 32
static inline vec vec_widen(const uint16_t *from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)from));
}
#endif
static inline vec vec_load_part(const real *from, int64_t count) {
    return OP(maskz_loadu)(mask_range(0, count), from);
}
#if OTA_REAL_BITS == 64
static inline vec vec_from_f32(const float *from) { return _mm512_cvtps_pd(_mm256_loadu_ps(from)); }
static inline vec vec_from_f32_part(const float *from, int64_t count) {
    return _mm512_cvtps_pd(_mm256_maskz_loadu_ps(mask_range(0, count), from));
}
#endif
static inline void vec_store(real *to, vec x) { OP(storeu)(to, x); }
static inline void vec_store_part(real *to, vec x, int64_t count) {
    OP(mask_storeu)(to, mask_range(0, count), x);
}
static inline vec vec_set(real x) { return OP(set1)(x); }
static inline real vec_first(vec x) {
#if OTA_REAL_BITS == 64
    return _mm512_cvtsd_f64(x);
#else
    return _mm512_cvtss_f32(x);
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
static inline vmask mask_nan(vec x) { return COMPARE(cmp)(x, x, _CMP_UNORD_Q); }
static inline vmask mask_equal(vec a, vec b) { return COMPARE(cmp)(a, b, _CMP_EQ_OQ); }
static inline vmask mask_above(vec a, vec b) { return COMPARE(cmp)(a, b, _CMP_GT_OQ); }
static inline vmask mask_and(vmask a, vmask b) { return (vmask)(a & b); }
static inline int64_t mask_count(vmask mask) { return __builtin_popcount(mask); }
static inline unsigned mask_bits(vmask mask) { return mask; }
static inline vec vec_select(vmask mask, vec yes, vec no) { return OP(mask_blend)(mask, no, yes); }
/* The compressing store to memory is slow on some processors; through a register it is not. */
static inline void vec_compact(real *to, vmask mask, vec x) {
    vec_store(to, OP(maskz_compress)(mask, x));
}
static inline void mask_places(int32_t *to, vmask mask, int32_t first) {
#if OTA_REAL_BITS == 64
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i place = _mm256_add_epi32(lane, _mm256_set1_epi32(first));
    _mm256_storeu_si256((__m256i *)(void *)to, _mm256_maskz_compress_epi32(mask, place));
#else
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i place = _mm512_add_epi32(lane, _mm512_set1_epi32(first));
    _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(mask, place));
#endif
}
static inline real vec_reduce_add(vec x) { return OP(reduce_add)(x); }
static inline real vec_reduce_max(vec x) { return OP(reduce_max)(x); }
static inline real vec_reduce_min(vec x) { return OP(reduce_min)(x); }
/* The compiler would read a constant anew with every product. */
static inline vec vec_hold(vec x) {
    __asm__ volatile("" : "+v"(x));
    return x;
}
static inline vec vec_round(vec x) {
    return OP(roundscale)(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline vec vec_scale(vec x, vec n) { return OP(scalef)(x, n); }
static inline vec vec_scale_down(vec x, vec n) { return OP(scalef)(x, n); }
static inline vec vec_exponent(vec x) { return OP(getexp)(x); }
static inline vec vec_fraction(vec x) {
    return OP(getmant)(x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src);
}
static inline void vec_accumulate(double *to, vec x) {
#if OTA_REAL_BITS == 64
    _mm512_storeu_pd(to, _mm512_add_pd(_mm512_loadu_pd(to), x));
#else
    __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(x));
    __m512d high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
    _mm512_storeu_pd(to, _mm512_add_pd(_mm512_loadu_pd(to), low));
    _mm512_storeu_pd(to + 8, _mm512_add_pd(_mm512_loadu_pd(to + 8), high));
#endif
}

#ifdef OTA_PAIRS
#include "pairs_avx512.h"
#endif
#include "backend/cpu/kernels/operand.h"
#include "vector_weave.h"

/* Pieces of 16 bytes of woven vectors change places. */
#if OTA_REAL_BITS == 64
#define PIECES _mm512_shuffle_f64x2
#else
#define PIECES _mm512_shuffle_f32x4
#endif
static inline void vec_transpose(vec *x) {
    vec woven[LANES];
    vec_weave(x, woven);
    UNROLL for (int k = 0; k < WEAVE; k++) {
        const vec even = PIECES(woven[k], woven[WEAVE + k], 0x88);
        const vec odd = PIECES(woven[k], woven[WEAVE + k], 0xdd);
        const vec even2 = PIECES(woven[2 * WEAVE + k], woven[3 * WEAVE + k], 0x88);
        const vec odd2 = PIECES(woven[2 * WEAVE + k], woven[3 * WEAVE + k], 0xdd);
        x[k] = PIECES(even, even2, 0x88);
        x[WEAVE + k] = PIECES(odd, odd2, 0x88);
        x[2 * WEAVE + k] = PIECES(even, even2, 0xdd);
        x[3 * WEAVE + k] = PIECES(odd, odd2, 0xdd);
    }
}

/* Halves, quarters and so on of all the vectors side by side, each as vec_reduce_add takes those of one. */
#if OTA_REAL_BITS == 64
static const unsigned char EACH_ROW[LANES] = {0, 1, 4, 5, 2, 3, 6, 7};
#else
static const unsigned char EACH_ROW[LANES] = {0, 2, 1, 3, 8, 10, 9, 11, 4, 6, 5, 7, 12, 14, 13, 15};
#endif
#define REDUCE_EACH(NAME, OPERATION)                                                               \
    static ALWAYS_INLINE vec NAME(const vec *x) {                                                  \
        vec y[LANES / 2];                                                                          \
        UNROLL for (int i = 0; i < LANES / 2; i++) {                                               \
            const vec a = x[EACH_ROW[i]], b = x[EACH_ROW[i + LANES / 2]];                          \
            y[i] = OP(OPERATION)(PIECES(a, b, 0x44), PIECES(a, b, 0xee));                          \
        }                                                                                          \
        UNROLL for (int i = 0; i < LANES / 4; i++) {                                               \
            const vec a = y[i], b = y[i + LANES / 4];                                              \
            y[i] = OP(OPERATION)(PIECES(a, b, 0x88), PIECES(a, b, 0xdd));                          \
        }                                                                                          \
        return LAST_OF_EACH(OPERATION, y);                                                         \
    }
#if OTA_REAL_BITS == 64
#define LAST_OF_EACH(OPERATION, Y)                                                                 \
    OP(OPERATION)(OP(unpacklo)((Y)[0], (Y)[1]), OP(unpackhi)((Y)[0], (Y)[1]))
#else
#define PAIR_OF_EACH(OPERATION, A, B)                                                              \
    OP(OPERATION)(OP(shuffle)(A, B, 0x44), OP(shuffle)(A, B, 0xee))
#define JOIN_EACH(OPERATION, A, B) OP(OPERATION)(OP(shuffle)(A, B, 0x88), OP(shuffle)(A, B, 0xdd))
#define LAST_OF_EACH(OPERATION, Y)                                                                 \
    JOIN_EACH(OPERATION, PAIR_OF_EACH(OPERATION, (Y)[0], (Y)[2]),                                  \
              PAIR_OF_EACH(OPERATION, (Y)[1], (Y)[3]))
#endif
REDUCE_EACH(vec_reduce_add_each, add)
REDUCE_EACH(vec_reduce_max_each, max)

#ifdef OTA_TILES
#include "tiles_amx.h"
#else
#include "vector_tile.h"
#endif

#endif
