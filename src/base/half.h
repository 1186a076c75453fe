/* half.h: the two 16-bit float types, one number at a time, by bit arithmetic alone, so that every
 * instruction-set level and every rounding mode gives the same bits.
 *
 *     f16   1 sign, 5 exponent (bias 15),  10 fraction bits;  largest 65504
 *     bf16  1 sign, 8 exponent (bias 127),  7 fraction bits;  the upper half of an f32
 *
 * Narrowing rounds to nearest, ties to even; overflow gives infinity; a NaN stays a NaN (quiet, sign
 * and leading payload kept). Widening is exact. */
#ifndef OTA_HALF_H
#define OTA_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t ota_f32_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float ota_f32_from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float ota_f32_from_bf16(uint16_t half) {
    return ota_f32_from_bits((uint32_t)half << 16);
}

/* This and the next conversions are free of branches: which way a number rounds cannot be predicted, and
 * loops over them become vector code. */
static inline uint16_t ota_bf16_from_f32(float value) {
    uint32_t bits = ota_f32_bits(value);
    uint32_t kept = bits >> 16;
    uint32_t is_nan = 0u - (uint32_t)((bits & 0x7fffffffu) > 0x7f800000u);
    /* Half a unit less one, plus the last kept bit: a tie moves up only from an odd number. */
    uint32_t rounded = (bits + 0x7fffu + (kept & 1u)) >> 16;
    return (uint16_t)((is_nan & (kept | 0x0040u)) | (~is_nan & rounded));
}

/* A subnormal is its fraction, an integer that f32 holds exactly, times the smallest of them. */
static inline float ota_f32_from_f16(uint16_t half) {
    uint32_t wide = half;
    uint32_t sign = (wide & 0x8000u) << 16;
    uint32_t exponent = wide & 0x7c00u;
    uint32_t fraction = wide & 0x3ffu;
    uint32_t subnormal = ota_f32_bits((float)(int32_t)fraction * 0x1p-24f);
    /* Masks of ones or zeros; a compiler would turn conditions back into branches. */
    uint32_t small = 0u - (uint32_t)(exponent == 0);
    uint32_t large = 0u - (uint32_t)(exponent == 0x7c00u);
    uint32_t quiet = 0u - (uint32_t)(fraction != 0); /* a NaN, made quiet as the hardware does */
    uint32_t normal = ((wide & 0x7fffu) << 13) + (112u << 23) + (large & (112u << 23));
    normal |= large & quiet & 0x00400000u;
    return ota_f32_from_bits(sign | (small & subnormal) | (~small & normal));
}

static inline uint16_t ota_f16_from_f32(float value) {
    uint32_t bits = ota_f32_bits(value);
    uint32_t sign = (bits >> 16) & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return (uint16_t)(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
    }
    if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and above */
    if (magnitude >= 0x38800000u) {                                  /* 2^-14: normal in f16 */
        uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
        return (uint16_t)(sign | ((rounded - 0x38000000u) >> 13));
    }
    if (magnitude <= 0x33000000u)
        return (uint16_t)sign;                 /* 2^-25 and below: to zero, ties to even */
    uint32_t shift = 126u - (magnitude >> 23); /* 14 ... 24 */
    uint32_t fraction = (magnitude & 0x007fffffu) | 0x00800000u;
    uint32_t kept = fraction >> shift;
    uint32_t rest = fraction & ((1u << shift) - 1u);
    uint32_t middle = 1u << (shift - 1u);
    if (rest > middle || (rest == middle && (kept & 1u) != 0)) kept++;
    return (uint16_t)(sign | kept);
}

/* From double in one rounding: through f32 with the last bit made sticky (rounding to odd), which
 * has more than two bits to spare over either half type, so the second rounding is the only one. */
static inline float ota_f32_to_odd(double value) {
    float nearest = (float)value;
    /* What rounding took, scaled (exactly, or to infinity) so that f32 cannot lose its sign. */
    float rest = (float)((value - (double)nearest) * 0x1p600);
    uint32_t bits = ota_f32_bits(nearest), rest_bits = ota_f32_bits(rest);
    /* Of an infinity or a NaN the rest is a NaN. */
    uint32_t inexact = (uint32_t)((rest_bits & 0x7fffffffu) - 1u < 0x7f800000u);
    uint32_t above = inexact & ((rest_bits ^ bits) >> 31);
    return ota_f32_from_bits((bits - above) | inexact);
}

static inline uint16_t ota_bf16_from_f64(double value) {
    return ota_bf16_from_f32(ota_f32_to_odd(value));
}

static inline uint16_t ota_f16_from_f64(double value) {
    return ota_f16_from_f32(ota_f32_to_odd(value));
}

#endif
