/* Decoding of the types whose elements are points of a lattice, 8 or 4 elements a point. See elements.c for the layouts. */
#include "lattices.h"

static inline unsigned half_word(const unsigned char *at) {
    return (unsigned)at[0] | (unsigned)at[1] << 8;
}

static inline uint32_t whole_word_at(const unsigned char *at) {
    return (uint32_t)half_word(at) | (uint32_t)half_word(at + 2) << 16;
}

static inline unsigned char nibble(const unsigned char *at, int k) {
    return (unsigned char)(at[k / 2] >> (k % 2 * 4) & 15);
}

/* ---- points ---- */

/* The 8 coordinates of 2 bits in a byte each. */
static inline uint64_t eight_of(uint16_t point) {
    uint64_t word = point;
    word = (word | word << 24) & 0x000000FF000000FFU;
    word = (word | word << 12) & 0x000F000F000F000FU;
    return (word | word << 6) & 0x0303030303030303U;
}

/* The 4 coordinates of 4 bits in a byte each. */
static inline uint32_t four_of(uint16_t point) {
    uint32_t word = point;
    word = (word | word << 8) & 0x00FF00FFU;
    return (word | word << 4) & 0x0F0F0F0FU;
}

static inline sixteen two_points(uint16_t first, uint16_t second) {
    return sixteen_of(eight_of(first), eight_of(second));
}

static inline sixteen four_points(const uint16_t *lattice, const unsigned index[4]) {
    uint64_t words[4];
    for (int k = 0; k < 4; k++) words[k] = four_of(lattice[index[k]]);
    return sixteen_of(words[0] | words[1] << 32, words[2] | words[3] << 32);
}

/* What a coordinate stands for: 8, 25, 43. */
static inline sixteen of_three(sixteen q) { return q * 17 + (q >> 1) + 8; }

/* ---- signs ---- */

/* 7 signs, and the eighth such that an even number are set. */
static inline unsigned char even_signs(unsigned seven) {
    return (unsigned char)(seven | (unsigned)__builtin_parity(seven) << 7);
}

/* out = scale times the sizes, negative where bit k of the byte of 8 signs is set. */
static inline void scale_with_signs(sixteen size, unsigned char first, unsigned char second,
                                    float scale, float *restrict out) {
    const sixteen minus = bit_masks(first, second);
    const sixteen q = ((size ^ minus) - minus) ^ 128;
    scale_sixteen(&q, 128, scale, OTA_NO_LEAST, out);
}

/* ---- 2 bits ---- */

/* d; for each 32 elements four bytes of indices and a word of four times 7 signs and a factor. */
static void decode_iq2_xxs(const unsigned char *restrict data, float *restrict out, int64_t count) {
    const uint16_t *lattice = ota_lattice_iq2_xxs;
    for (int64_t i = 0; i < count; i += 256, data += 66, out += 256) {
        const float d = half_value(data);
        for (int k = 0; k < 8; k++) {
            const unsigned char *index = data + 2 + 8 * k;
            const uint32_t word = whole_word_at(index + 4);
            const float scale = d * (0.5F + (float)(word >> 28)) * 0.25F;
            for (int side = 0; side < 2; side++)
                scale_with_signs(
                    of_three(two_points(lattice[index[2 * side]], lattice[index[2 * side + 1]])),
                    even_signs(word >> (14 * side) & 127),
                    even_signs(word >> (14 * side + 7) & 127), scale, out + 32 * k + 16 * side);
        }
    }
}

/* d; for each 8 elements 9 bits of index and 7 signs; a factor for each 16. */
static void decode_iq2_xs(const unsigned char *restrict data, float *restrict out, int64_t count) {
    const uint16_t *lattice = ota_lattice_iq2_xs;
    for (int64_t i = 0; i < count; i += 256, data += 74, out += 256) {
        const float d = half_value(data);
        for (int g = 0; g < 16; g++) {
            const unsigned a = half_word(data + 2 + 4 * g), b = half_word(data + 4 + 4 * g);
            const float scale = d * (0.5F + (float)nibble(data + 66, g)) * 0.25F;
            scale_with_signs(of_three(two_points(lattice[a & 511], lattice[b & 511])),
                             even_signs(a >> 9), even_signs(b >> 9), scale, out + 16 * g);
        }
    }
}

/* d; for each 8 elements the lower byte of an index; their signs; the upper pairs of bits; a factor for each 16. */
static void decode_iq2_s(const unsigned char *restrict data, float *restrict out, int64_t count) {
    const uint16_t *lattice = ota_lattice_iq2_s;
    for (int64_t i = 0; i < count; i += 256, data += 82, out += 256) {
        const unsigned char *index = data + 2, *signs = data + 34;
        const float d = half_value(data);
        for (int g = 0; g < 16; g++, index += 2, signs += 2) {
            const unsigned upper = (unsigned)nibble(data + 66, g);
            const float scale = d * (0.5F + (float)nibble(data + 74, g)) * 0.25F;
            const unsigned a = index[0] | (upper & 3) << 8, b = index[1] | upper >> 2 << 8;
            scale_with_signs(of_three(two_points(lattice[a], lattice[b])), signs[0], signs[1],
                             scale, out + 16 * g);
        }
    }
}

/* ---- 3 bits ---- */

/* d; for each 4 elements an index; for each 32 a word of four times 7 signs and a factor. */
static void decode_iq3_xxs(const unsigned char *restrict data, float *restrict out, int64_t count) {
    for (int64_t i = 0; i < count; i += 256, data += 98, out += 256) {
        const float d = half_value(data);
        for (int g = 0; g < 16; g++) {
            const unsigned char *at = data + 2 + 4 * g;
            const unsigned index[4] = {at[0], at[1], at[2], at[3]};
            const uint32_t word = whole_word_at(data + 66 + g / 2 * 4);
            const unsigned signs = word >> (g % 2 * 14);
            const float scale = d * (0.5F + (float)(word >> 28)) * 0.5F;
            /* 4, 12, ... 52, and 62 */
            const sixteen q = four_points(ota_lattice_iq3_xxs, index);
            scale_with_signs(q * 8 + 4 + ((sixteen)(q == 7) & 2), even_signs(signs & 127),
                             even_signs(signs >> 7 & 127), scale, out + 16 * g);
        }
    }
}

/* d; for each 4 elements the lower byte of an index; the upper bits; a sign for each element; a factor for each 32. */
static void decode_iq3_s(const unsigned char *restrict data, float *restrict out, int64_t count) {
    for (int64_t i = 0; i < count; i += 256, data += 110, out += 256) {
        const float d = half_value(data);
        for (int g = 0; g < 16; g++) {
            const unsigned char *at = data + 2 + 4 * g, *signs = data + 74 + 2 * g;
            const unsigned upper = nibble(data + 66, g);
            const unsigned index[4] = {at[0] | (upper & 1) << 8, at[1] | (upper & 2) << 7,
                                       at[2] | (upper & 4) << 6, at[3] | (upper & 8) << 5};
            const float scale = d * (float)(1 + 2 * nibble(data + 106, g / 2));
            /* 1, 3, ... 15 */
            scale_with_signs(four_points(ota_lattice_iq3_s, index) * 2 + 1, signs[0], signs[1],
                             scale, out + 16 * g);
        }
    }
}

/* ---- 1 bit ---- */

/* Two points of coordinates -1, 0, 1, each with 1/8 more or less in all of them. An eighth of the factor is exact, so all is
 * counted in eighths. `minus`: bit 0 of the first, bit 1 of the second. */
static inline void scale_ones(unsigned first, unsigned second, unsigned minus, float scale,
                              float *restrict out) {
    const uint64_t ones = 0x0101010101010101U;
    const sixteen less = sixteen_of(ones * (minus & 1), ones * (minus >> 1));
    const sixteen q =
        two_points(ota_lattice_iq1[first], ota_lattice_iq1[second]) * 8 + 2 - 2 * less;
    scale_sixteen(&q, 9, 0.125F * scale, OTA_NO_LEAST, out);
}

/* d; for each 8 elements the lower byte of an index; for each 32 a word of four times 3 upper bits, a factor and a sign. */
static void decode_iq1_s(const unsigned char *restrict data, float *restrict out, int64_t count) {
    for (int64_t i = 0; i < count; i += 256, data += 50, out += 256) {
        const float d = half_value(data);
        for (int g = 0; g < 16; g++) {
            const unsigned char *index = data + 2 + 2 * g;
            const unsigned word = half_word(data + 34 + g / 2 * 2), upper = word >> (g % 2 * 6);
            const unsigned minus = word >> 15;
            scale_ones(index[0] | (upper & 7) << 8, index[1] | (upper >> 3 & 7) << 8,
                       minus | minus << 1, d * (float)(2 * (word >> 12 & 7) + 1), out + 16 * g);
        }
    }
}

/* For each 8 elements the lower byte of an index, and 3 upper bits and a sign; four words of four factors of 3 bits, whose
 * upper 4 bits are d. */
static void decode_iq1_m(const unsigned char *restrict data, float *restrict out, int64_t count) {
    for (int64_t i = 0; i < count; i += 256, data += 56, out += 256) {
        unsigned char d[2];
        d[0] = (unsigned char)(data[49] >> 4 | (data[51] & 0xF0));
        d[1] = (unsigned char)(data[53] >> 4 | (data[55] & 0xF0));
        for (int g = 0; g < 16; g++) {
            const unsigned char *index = data + 2 * g;
            const unsigned upper = data[32 + g];
            const unsigned factor = half_word(data + 48 + g / 4 * 2) >> (g % 4 * 3) & 7;
            scale_ones(index[0] | (upper & 7) << 8, index[1] | (upper >> 4 & 7) << 8,
                       (upper >> 3 & 1) | (upper >> 6 & 2), half_value(d) * (float)(2 * factor + 1),
                       out + 16 * g);
        }
    }
}
