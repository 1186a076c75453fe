/* Decoding of stored elements to f32, compiled once per instruction-set level: see elements.c for the
 * layouts. Each function turns `count` elements, a multiple of the block, into f32. */
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
}

static void decode_bf16(const unsigned char *restrict data, float *restrict out, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, data + 2 * i, sizeof half);
        const uint32_t word = (uint32_t)half << 16;
        memcpy(&out[i], &word, sizeof word);
    }
}

static void decode_f16(const unsigned char *restrict data, float *restrict out, int64_t count) {
    for (int64_t i = 0; i < count; i++) out[i] = half_value(data + 2 * i);
}

/* Sixteen elements at once, as OTA_LANES f32 a vector. Vectors are the compilers' own types: loops over
 * bytes become scalar code, vectors wider than the level has even more of it. */
typedef unsigned char sixteen __attribute__((vector_size(16)));

/* out = (q - shift) * scale + least */
static inline void scale_sixteen(const sixteen *q, int32_t shift, float scale, float least,
                                 float *restrict out) {
#if OTA_LANES > 1
    typedef unsigned char bytes_word __attribute__((vector_size(OTA_LANES)));
    typedef int32_t whole_word __attribute__((vector_size(4 * OTA_LANES)));
    typedef float real_word __attribute__((vector_size(4 * OTA_LANES)));
    for (int k = 0; k < 16; k += OTA_LANES) {
        bytes_word bytes;
        memcpy(&bytes, (const unsigned char *)q + k, sizeof bytes);
        const whole_word whole = __builtin_convertvector(bytes, whole_word) - shift;
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

static void decode_q8_0(const unsigned char *restrict data, float *restrict out, int64_t count) {
    for (int64_t i = 0; i < count; i += 32, data += 34, out += 32) {
        const float scale = half_value(data);
        for (int part = 0; part < 32; part += 16) {
            /* q + 128 fits a byte without sign */
            sixteen q;
            memcpy(&q, data + 2 + part, sizeof q);
            q ^= 128;
            scale_sixteen(&q, 128, scale, 0, out + part);
        }
    }
}

static void decode_q4_0(const unsigned char *restrict data, float *restrict out, int64_t count) {
    for (int64_t i = 0; i < count; i += 32, data += 18, out += 32)
        scale_halves(data + 2, 8, half_value(data), 0, out);
}

static void decode_q4_1(const unsigned char *restrict data, float *restrict out, int64_t count) {
    for (int64_t i = 0; i < count; i += 32, data += 20, out += 32)
        scale_halves(data + 4, 0, half_value(data), half_value(data + 2), out);
}

/* The fifth bit of element k is bit k of the little-endian word at `fifths`. */
static inline void scale_fives(const unsigned char *restrict data,
                               const unsigned char *restrict fifths, int32_t shift, float scale,
                               float least, float *restrict out) {
    const sixteen places = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    sixteen bytes, first, second;
    memcpy(&bytes, data, sizeof bytes);
    memset(&first, fifths[0], 8);
    memset((unsigned char *)&first + 8, fifths[1], 8);
    memset(&second, fifths[2], 8);
    memset((unsigned char *)&second + 8, fifths[3], 8);
    const sixteen low = (bytes & 15) | (((first & places) != 0) & 16);
    const sixteen high = (bytes >> 4) | (((second & places) != 0) & 16);
    scale_sixteen(&low, shift, scale, least, out);
    scale_sixteen(&high, shift, scale, least, out + 16);
}

static void decode_q5_0(const unsigned char *restrict data, float *restrict out, int64_t count) {
    for (int64_t i = 0; i < count; i += 32, data += 22, out += 32)
        scale_fives(data + 6, data + 2, 16, half_value(data), 0, out);
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
                    scale_sixteen(&four, 32, scale * (float)(int8_t)scales[2 * quarter + side], 0,
                                  to + 16 * side);
                }
            }
        }
    }
}
