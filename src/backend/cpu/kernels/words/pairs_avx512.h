/* The words for pairs of bf16 on AVX512_BF16: 16 pairs a vector, 16 f32 sums. The list of words and what
 * each promises stands in pairs_portable.h; this file follows the words of vector_avx512.h. */
#ifndef OTA_PAIRS_AVX512_H
#define OTA_PAIRS_AVX512_H

typedef uint32_t element;
typedef __m512i operand;

static inline operand operand_load(const element *from) { return _mm512_loadu_si512(from); }
static inline operand operand_load_part(const element *from, int64_t count) {
    return _mm512_maskz_loadu_epi32(mask_range(0, count), from);
}
static inline void operand_store(element *to, operand x) { _mm512_storeu_si512(to, x); }
static inline operand operand_set(element x) { return _mm512_set1_epi32((int32_t)x); }
static inline vec operand_step(operand a, operand b, vec sum) {
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
}
static inline operand operand_row(vec low, vec high) {
    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}
static inline operand operand_rows(vec even, vec odd) {
    /* Place l of the first vector, then place l of the second. */
    const __m512i places =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(places, (__m512i)_mm512_cvtne2ps_pbh(odd, even));
}

#endif
