/* Decoding of stored elements to f32, compiled once per instruction-set level: see elements.c for the
 * layouts. Each function turns `count` elements, a multiple of the block, into f32. */
#include "base/little_endian.h"

#include <stdint.h>
#include <string.h>

/* The exponent field of a half moves up by 112 in f32. Scaling by 2^112 does that, also for subnormals,
 * whose value in f32 is exact; infinity and NaN are put right afterwards. */
static inline float half_value(const unsigned char *at) {
    const uint32_t bits = (uint32_t)at[0] | (uint32_t)at[1] << 8;
    const uint32_t magnitude = (bits & 0x7FFFU) << 13;
    float value;
    memcpy(&value, &magnitude, sizeof value);
    value *= 0x1p112F;
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    word |= magnitude >= 0x0F800000U ? 0x7F800000U : 0U;
    word |= (bits & 0x8000U) << 16;
    memcpy(&value, &word, sizeof value);
    return value;
}

static void decode_f32(const unsigned char *restrict data, float *restrict out, int64_t count) {
    memcpy(out, data, (size_t)count * sizeof *out);
    for (int64_t i = 0; i < count && !OTA_HOST_IS_LITTLE; i++) {
        uint32_t word;
        memcpy(&word, &out[i], sizeof word);
        word = ota_little_32(word);
        memcpy(&out[i], &word, sizeof word);
    }
}

static void decode_f64(const unsigned char *restrict data, float *restrict out, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        uint64_t word;
        double value;
        memcpy(&word, data + 8 * i, sizeof word);
        word = ota_little_64(word);
        memcpy(&value, &word, sizeof value);
        out[i] = (float)value;
    }
}

static void decode_bf16(const unsigned char *restrict data, float *restrict out, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, data + 2 * i, sizeof half);
        const uint32_t word = (uint32_t)ota_little_16(half) << 16;
        memcpy(&out[i], &word, sizeof word);
    }
}

static void decode_f16(const unsigned char *restrict data, float *restrict out, int64_t count) {
    for (int64_t i = 0; i < count; i++) out[i] = half_value(data + 2 * i);
}

/* Sixteen elements at once, as OTA_LANES f32 a vector. Vectors are the compilers' own types: loops over
 * bytes become scalar code, vectors wider than the level has even more of it. */
typedef unsigned char sixteen __attribute__((vector_size(16)));

/* Of two halves in registers, the first element lowest: a vector that is loaded from two stores waits for both. */
static inline sixteen sixteen_of(uint64_t first, uint64_t second) {
    typedef uint64_t halves __attribute__((vector_size(16)));
    return (sixteen)(halves){ota_little_64(first), ota_little_64(second)};
}

/* Bytes of all ones or zeros: bit k of `first` byte k, of `second` byte 8 + k. */
static inline sixteen bit_masks(unsigned char first, unsigned char second) {
    const sixteen low = {1, 2, 4, 8, 16, 32, 64, 128}, none = {0};
    const sixteen high = {0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 128};
    return (sixteen)((((none + first) & low) | ((none + second) & high)) != 0);
}

/* The `least` of what has none: x + -0 is x, of either zero. */
#define OTA_NO_LEAST (-0.0F)

/* out = (q - shift) * scale + least */
static inline void scale_sixteen(const sixteen *q, int32_t shift, float scale, float least,
                                 float *restrict out) {
#if OTA_LANES > 1
    /* Eight bytes go by way of 16 bits: gcc would take them apart one by one. */
#if OTA_LANES == 8
    typedef uint16_t narrow;
#else
    typedef unsigned char narrow;
#endif
    typedef narrow all_narrow __attribute__((vector_size(16 * sizeof(narrow))));
    typedef narrow narrow_word __attribute__((vector_size(OTA_LANES * sizeof(narrow))));
    typedef int32_t whole_word __attribute__((vector_size(4 * OTA_LANES)));
    typedef float real_word __attribute__((vector_size(4 * OTA_LANES)));
    const all_narrow all = __builtin_convertvector(*q, all_narrow);
    for (int k = 0; k < 16; k += OTA_LANES) {
        narrow_word some;
        memcpy(&some, (const narrow *)&all + k, sizeof some);
        const whole_word whole = __builtin_convertvector(some, whole_word) - shift;
        const real_word real = __builtin_convertvector(whole, real_word) * scale + least;
        memcpy(out + k, &real, sizeof real);
    }
#else
    const unsigned char *bytes = (const unsigned char *)q;
    for (int k = 0; k < 16; k++) out[k] = (float)((int)bytes[k] - shift) * scale + least;
#endif
}

static inline void scale_halves(const unsigned char *restrict data, int32_t shift, float scale,
                                float least, float *restrict out) {
    sixteen bytes;
    memcpy(&bytes, data, sizeof bytes);
    const sixteen low = bytes & 15, high = bytes >> 4;
    scale_sixteen(&low, shift, scale, least, out);
    scale_sixteen(&high, shift, scale, least, out + 16);
}

/* `count` signed bytes, a multiple of 16. */
static inline void scale_signed(const unsigned char *restrict data, float scale,
                                float *restrict out, int count) {
    for (int part = 0; part < count; part += 16) {
        /* q + 128 fits a byte without sign */
        sixteen q;
        memcpy(&q, data + part, sizeof q);
        q ^= 128;
        scale_sixteen(&q, 128, scale, OTA_NO_LEAST, out + part);
    }
}

static void decode_q8_0(const unsigned char *restrict data, float *restrict out, int64_t count) {
    for (int64_t i = 0; i < count; i += 32, data += 34, out += 32)
        scale_signed(data + 2, half_value(data), out, 32);
}

static void decode_q4_0(const unsigned char *restrict data, float *restrict out, int64_t count) {
    for (int64_t i = 0; i < count; i += 32, data += 18, out += 32)
        scale_halves(data + 2, 8, half_value(data), OTA_NO_LEAST, out);
}

static void decode_q4_1(const unsigned char *restrict data, float *restrict out, int64_t count) {
    for (int64_t i = 0; i < count; i += 32, data += 20, out += 32)
        scale_halves(data + 4, 0, half_value(data), half_value(data + 2), out);
}

/* The fifth bit of element k is bit k of the little-endian word at `fifths`. */
static inline void scale_fives(const unsigned char *restrict data,
                               const unsigned char *restrict fifths, int32_t shift, float scale,
                               float least, float *restrict out) {
    sixteen bytes;
    memcpy(&bytes, data, sizeof bytes);
    const sixteen low = (bytes & 15) | (bit_masks(fifths[0], fifths[1]) & 16);
    const sixteen high = (bytes >> 4) | (bit_masks(fifths[2], fifths[3]) & 16);
    scale_sixteen(&low, shift, scale, least, out);
    scale_sixteen(&high, shift, scale, least, out + 16);
}

static void decode_q5_0(const unsigned char *restrict data, float *restrict out, int64_t count) {
    for (int64_t i = 0; i < count; i += 32, data += 22, out += 32)
        scale_fives(data + 6, data + 2, 16, half_value(data), OTA_NO_LEAST, out);
}

static void decode_q5_1(const unsigned char *restrict data, float *restrict out, int64_t count) {
    for (int64_t i = 0; i < count; i += 32, data += 24, out += 32)
        scale_fives(data + 8, data + 4, 0, half_value(data), half_value(data + 2), out);
}

/* Eight factors and eight shifts of 6 bits in 12 bytes: bytes 0 to 3 and 4 to 7 hold the first four factors and
 * shifts, and in their upper two bits those of the last four, whose lower four bits are the halves of bytes 8
 * to 11. */
static inline void six_bits(const unsigned char *restrict packed, int k, float *factor,
                            float *shift) {
    unsigned s = packed[k % 4], t = packed[k % 4 + 4];
    if (k < 4) {
        s &= 63;
        t &= 63;
    } else {
        s = (s >> 6 << 4) | (packed[k + 4] & 15U);
        t = (t >> 6 << 4) | ((unsigned)packed[k + 4] >> 4);
    }
    *factor = (float)s;
    *shift = (float)t;
}

/* d, e, the packed factors and shifts; Q5_K: 32 bytes, bit k of byte i the fifth bit of element i of the k-th
 * 32; 4-bit values, 32 bytes for each 64 elements. */
static inline void decode_k(const unsigned char *restrict data, const unsigned char *fifths,
                            const unsigned char *fours, float *restrict out) {
    const float d = half_value(data), e = half_value(data + 2);
    for (int k = 0; k < 8; k++) {
        float factor, shift;
        six_bits(data + 4, k, &factor, &shift);
        for (int side = 0; side < 32; side += 16) {
            sixteen q, fifth;
            memcpy(&q, fours + k / 2 * 32 + side, sizeof q);
            q = k % 2 == 0 ? q & 15 : q >> 4;
            if (fifths != NULL) {
                memcpy(&fifth, fifths + side, sizeof fifth);
                q |= ((fifth >> k) & 1) << 4;
            }
            scale_sixteen(&q, 0, d * factor, -(e * shift), out + 32 * k + side);
        }
    }
}

static void decode_q4_k(const unsigned char *restrict data, float *restrict out, int64_t count) {
    for (int64_t i = 0; i < count; i += 256, data += 144, out += 256)
        decode_k(data, NULL, data + 16, out);
}

static void decode_q5_k(const unsigned char *restrict data, float *restrict out, int64_t count) {
    for (int64_t i = 0; i < count; i += 256, data += 176, out += 256)
        decode_k(data, data + 16, data + 48, out);
}

/* 128 low halves, 64 bytes of upper pairs of bits, 16 scales, d. */
static void decode_q6_k(const unsigned char *restrict data, float *restrict out, int64_t count) {
    for (int64_t i = 0; i < count; i += 256, data += 210) {
        const unsigned char *low = data, *high = data + 128, *scales = data + 192;
        const float scale = half_value(data + 208);
        for (int part = 0; part < 2; part++, low += 64, high += 32, scales += 8, out += 128) {
            for (int quarter = 0; quarter < 4; quarter++) {
                const unsigned char *fours = low + quarter % 2 * 32;
                float *to = out + 32 * quarter;
                for (int side = 0; side < 2; side++) {
                    sixteen four, two;
                    memcpy(&four, fours + 16 * side, sizeof four);
                    memcpy(&two, high + 16 * side, sizeof two);
                    four = quarter < 2 ? four & 15 : four >> 4;
                    four |= ((two >> (2 * quarter)) & 3) << 4;
                    scale_sixteen(&four, 32, scale * (float)(int8_t)scales[2 * quarter + side],
                                  OTA_NO_LEAST, to + 16 * side);
                }
            }
        }
    }
}

static void decode_q8_k(const unsigned char *restrict data, float *restrict out, int64_t count) {
    for (int64_t i = 0; i < count; i += 256, data += 292, out += 256) {
        float scale;
        decode_f32(data, &scale, 1);
        scale_signed(data + 4, scale, out, 256);
    }
}

/* Group g of 16 elements whose values of 2 bits lie in 64 bytes: each 32 bytes hold 128 elements, 32 a pair of bits. */
static inline sixteen two_bits(const unsigned char *restrict pairs, int g) {
    sixteen bytes;
    memcpy(&bytes, pairs + g / 8 * 32 + g % 2 * 16, sizeof bytes);
    return (bytes >> (g % 8 / 2 * 2)) & 3;
}

/* 16 bytes of a factor and, in the upper half, a shift each; the values; d, e. */
static void decode_q2_k(const unsigned char *restrict data, float *restrict out, int64_t count) {
    for (int64_t i = 0; i < count; i += 256, data += 84, out += 256) {
        const float d = half_value(data + 80), e = half_value(data + 82);
        for (int g = 0; g < 16; g++) {
            const sixteen q = two_bits(data + 16, g);
            scale_sixteen(&q, 0, d * (float)(data[g] & 15), -(e * (float)(data[g] >> 4)),
                          out + 16 * g);
        }
    }
}

/* 32 bytes of upper bits, bit k of byte i that of element i of the k-th 32; the lower pairs; 16 factors of 6 bits, four
 * of them in the halves of 8 bytes and two in the pairs of 4 more; d. */
static void decode_q3_k(const unsigned char *restrict data, float *restrict out, int64_t count) {
    for (int64_t i = 0; i < count; i += 256, data += 110, out += 256) {
        const unsigned char *factors = data + 96;
        const float d = half_value(data + 108);
        for (int g = 0; g < 16; g++) {
            const int four = factors[g % 8] >> (g / 8 * 4) & 15;
            const int two = factors[8 + g % 4] >> (g / 4 * 2) & 3;
            sixteen upper;
            memcpy(&upper, data + g % 2 * 16, sizeof upper);
            const sixteen q = two_bits(data + 32, g) | (((upper >> (g / 2)) & 1) << 2);
            scale_sixteen(&q, 4, d * (float)((four | two << 4) - 32), OTA_NO_LEAST, out + 16 * g);
        }
    }
}
