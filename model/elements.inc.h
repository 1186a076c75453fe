/* Decoding of stored elements to f32, compiled once per instruction-set level: see elements.c for the
 * layouts. Each function turns `count` elements, a multiple of the block, into f32. */
#include <stdint.h>
#include <string.h>

static float half_value(const unsigned char *at) {
    const uint32_t bits = (uint32_t)at[0] | (uint32_t)at[1] << 8;
    const uint32_t sign = (bits & 0x8000U) << 16, rest = bits & 0x7FFFU;
    uint32_t word;
    float value;
    if (rest >= 0x7C00U) { /* infinity and NaN */
        word = sign | 0x7F800000U | (rest & 0x3FFU) << 13;
    } else if (rest >= 0x400U) {
        word = sign | ((rest << 13) + 0x38000000U);
    } else { /* subnormal: rest * 2^-24 is exact in f32 */
        value = (float)rest * 0x1p-24F;
        memcpy(&word, &value, sizeof word);
        word |= sign;
    }
    memcpy(&value, &word, sizeof value);
    return value;
}

static void decode_f32(const unsigned char *data, float *out, int64_t count) {
    memcpy(out, data, (size_t)count * sizeof *out);
}

static void decode_bf16(const unsigned char *data, float *out, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, data + 2 * i, sizeof half);
        const uint32_t word = (uint32_t)half << 16;
        memcpy(&out[i], &word, sizeof word);
    }
}

static void decode_f16(const unsigned char *data, float *out, int64_t count) {
    for (int64_t i = 0; i < count; i++) out[i] = half_value(data + 2 * i);
}

static void decode_q8_0(const unsigned char *data, float *out, int64_t count) {
    for (int64_t i = 0; i < count; i += 32, data += 34, out += 32) {
        const float scale = half_value(data);
        for (int k = 0; k < 32; k++) out[k] = (float)(int8_t)data[2 + k] * scale;
    }
}

static void decode_q4_0(const unsigned char *data, float *out, int64_t count) {
    for (int64_t i = 0; i < count; i += 32, data += 18, out += 32) {
        const float scale = half_value(data);
        for (int k = 0; k < 16; k++) {
            out[k] = (float)((data[2 + k] & 15) - 8) * scale;
            out[k + 16] = (float)((data[2 + k] >> 4) - 8) * scale;
        }
    }
}

static void decode_q4_1(const unsigned char *data, float *out, int64_t count) {
    for (int64_t i = 0; i < count; i += 32, data += 20, out += 32) {
        const float scale = half_value(data), least = half_value(data + 2);
        for (int k = 0; k < 16; k++) {
            out[k] = (float)(data[4 + k] & 15) * scale + least;
            out[k + 16] = (float)(data[4 + k] >> 4) * scale + least;
        }
    }
}

static uint32_t word_at(const unsigned char *data) {
    return (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 |
           (uint32_t)data[3] << 24;
}

static void decode_q5_0(const unsigned char *data, float *out, int64_t count) {
    for (int64_t i = 0; i < count; i += 32, data += 22, out += 32) {
        const float scale = half_value(data);
        const uint32_t fifth = word_at(data + 2);
        for (int k = 0; k < 16; k++) {
            const int low = (data[6 + k] & 15) | (int)((fifth >> k) & 1U) << 4;
            const int high = (data[6 + k] >> 4) | (int)((fifth >> (k + 16)) & 1U) << 4;
            out[k] = (float)(low - 16) * scale;
            out[k + 16] = (float)(high - 16) * scale;
        }
    }
}

static void decode_q5_1(const unsigned char *data, float *out, int64_t count) {
    for (int64_t i = 0; i < count; i += 32, data += 24, out += 32) {
        const float scale = half_value(data), least = half_value(data + 2);
        const uint32_t fifth = word_at(data + 4);
        for (int k = 0; k < 16; k++) {
            const int low = (data[8 + k] & 15) | (int)((fifth >> k) & 1U) << 4;
            const int high = (data[8 + k] >> 4) | (int)((fifth >> (k + 16)) & 1U) << 4;
            out[k] = (float)low * scale + least;
            out[k + 16] = (float)high * scale + least;
        }
    }
}

/* 128 low halves, 64 bytes of upper pairs of bits, 16 scales, d. */
static void decode_q6_k(const unsigned char *data, float *out, int64_t count) {
    for (int64_t i = 0; i < count; i += 256, data += 210) {
        const unsigned char *low = data, *high = data + 128, *scales = data + 192;
        const float scale = half_value(data + 208);
        for (int part = 0; part < 2; part++, low += 64, high += 32, scales += 8, out += 128) {
            for (int k = 0; k < 128; k++) {
                const int byte = low[k % 64];
                const int four = k < 64 ? byte & 15 : byte >> 4;
                const int q = four | ((high[k % 32] >> (2 * (k / 32))) & 3) << 4;
                out[k] = scale * (float)(int8_t)scales[k / 16] * (float)(q - 32);
            }
        }
    }
}
