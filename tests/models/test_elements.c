/* Elements of stored weights, decoded at every level of the row arithmetic: each value against a formula of its own, element by
 * element, in the order of rounding that the format has in f32. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "models/checkpoint/weights.h"
#include "models/kernels/lattices.h"
#include "models/kernels/ops.h"
#include "groups.h"
#include "otattn_model.h"

/* More blocks than a block has elements: a step of one element too many misses the last. */
enum { COUNT = 256 * 264, MOST_BYTES = 8 * COUNT };

static uint64_t draws = 1;

static unsigned char drawn(void) {
    draws ^= draws << 13;
    draws ^= draws >> 7;
    draws ^= draws << 17;
    return (unsigned char)(draws >> 32);
}

/* 2^exponent, of what halves reach. */
static float power(int exponent) {
    float value = 1.0F;
    for (int k = 0; k < exponent; k++) value *= 2.0F;
    for (int k = 0; k > exponent; k--) value *= 0.5F;
    return value;
}

static float half(const unsigned char *at) {
    const int sign = at[1] >> 7, exponent = at[1] >> 2 & 31, low = (at[1] & 3) << 8 | at[0];
    if (exponent == 31) return low != 0 ? NAN : sign ? -INFINITY : INFINITY;
    const float magnitude =
        exponent == 0 ? (float)low * power(-24) : (float)(low + 1024) * power(exponent - 25);
    return sign ? -magnitude : magnitude;
}

/* Bit k of a run of bytes. */
static int bit(const unsigned char *bytes, int k) { return bytes[k / 8] >> (k % 8) & 1; }

/* Element k of a block of 32: 4 bits, the second 16 in the upper halves. */
static int four(const unsigned char *bytes, int k) { return bytes[k % 16] >> (k / 16 * 4) & 15; }

/* Of Q4_K and Q5_K: the 6 bits of factor or shift number k. */
static int six(const unsigned char *packed, int k, int shift) {
    if (k < 4) return packed[4 * shift + k] & 63;
    return (packed[4 + k] >> (4 * shift) & 15) | packed[4 * shift + k - 4] >> 6 << 4;
}

static float of_k(const unsigned char *at, int k, const unsigned char *fifths,
                  const unsigned char *fours) {
    const int part = k / 32, place = k % 32;
    int q = fours[part / 2 * 32 + place] >> (part % 2 * 4) & 15;
    if (fifths != NULL) q |= (fifths[place] >> part & 1) << 4;
    const float factor = half(at) * (float)six(at + 4, part, 0);
    const float shift = half(at + 2) * (float)six(at + 4, part, 1);
    return (float)q * factor - shift;
}

static float of_q6(const unsigned char *at, int k) {
    const int part = k / 128, place = k % 128, low = place % 64, group = place / 32;
    const int q = (at[64 * part + low] >> (place / 64 * 4) & 15) |
                  (at[128 + 32 * part + place % 32] >> (2 * group) & 3) << 4;
    const float scale = half(at + 208) * (float)(int8_t)at[192 + k / 16];
    return (float)(q - 32) * scale;
}

static float of_q2(const unsigned char *at, int k) {
    const int q = at[16 + k / 128 * 32 + k % 32] >> (k % 128 / 32 * 2) & 3, group = at[k / 16];
    return (float)q * (half(at + 80) * (float)(group & 15)) - half(at + 82) * (float)(group >> 4);
}

static float of_q3(const unsigned char *at, int k) {
    const unsigned char *factors = at + 96;
    const int low = at[32 + k / 128 * 32 + k % 32] >> (k % 128 / 32 * 2) & 3, group = k / 16;
    const int upper = at[k % 32] >> (k / 32) & 1;
    const int factor = (factors[group % 8] >> (group / 8 * 4) & 15) |
                       (factors[8 + group % 4] >> (group / 4 * 2) & 3) << 4;
    return (float)(low - (upper != 0 ? 0 : 4)) * (half(at + 108) * (float)(factor - 32));
}

static float of_ternary(const unsigned char *at, int k) {
    static const int powers[] = {1, 3, 9, 27, 81};
    int byte, digit;
    if (k < 160) {
        byte = at[k % 32];
        digit = k / 32;
    } else if (k < 240) {
        byte = at[32 + (k - 160) % 16];
        digit = (k - 160) / 16;
    } else {
        byte = at[48 + (k - 240) % 4];
        digit = (k - 240) / 4;
    }
    return (float)(byte * powers[digit] % 256 * 3 / 256 - 1) * half(at + 52);
}

/* The doubled value of a float of 4 bits; the negative 0 is 0. */
static float small(int code) {
    static const float values[8] = {0, 1, 2, 3, 4, 6, 8, 12};
    return code <= 8 ? values[code % 8] : -values[code % 8];
}

/* 4 bits of exponent, 3 of fraction, halved. */
static float scale_of_nv(int byte) {
    const int exponent = byte >> 3 & 15, fraction = byte & 7;
    if (byte == 127) return 0;
    return exponent == 0 ? (float)fraction * power(-10)
                         : (float)(8 + fraction) * power(exponent - 11);
}

static float of_nv(const unsigned char *at, int k) {
    const int part = k / 16, byte = at[4 + 8 * part + k % 8];
    return small(k % 16 < 8 ? byte & 15 : byte >> 4) * scale_of_nv(at[part]);
}

static float listed(int place) {
    static const float list[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                   1,    13,   25,  38,  53,  69,  89,  113};
    return list[place];
}

static float of_iq4_xs(const unsigned char *at, int k) {
    const int part = k / 32;
    const int factor =
        (at[4 + part / 2] >> (part % 2 * 4) & 15) | ((at[2] | at[3] << 8) >> (2 * part) & 3) << 4;
    return listed(four(at + 8 + 16 * part, k % 32)) * (half(at) * (float)(factor - 32));
}

/* `count` bits from bit `first` of a run of bytes on. */
static int bits(const unsigned char *bytes, int first, int count) {
    int value = 0;
    for (int k = 0; k < count; k++) value |= bit(bytes, first + k) << k;
    return value;
}

/* Sign k of 8, of which 7 are stored and the product is +. */
static float even_sign(int seven, int k) {
    int minus = seven >> k & 1;
    if (k == 7)
        for (int other = 0; other < 7; other++) minus ^= seven >> other & 1;
    return minus != 0 ? -1 : 1;
}

/* Coordinate k of a point, of 8 coordinates of 2 bits, of 4 of 4. */
static float of_eight(const uint16_t *lattice, int index, int k) {
    static const float values[3] = {8, 25, 43};
    return values[lattice[index] >> (2 * k) & 3];
}

static int of_four(const uint16_t *lattice, int index, int k) {
    return lattice[index] >> (4 * k) & 15;
}

static float of_iq2(ota_stored type, const unsigned char *at, int k) {
    const int eight = k / 8, part = k / 32;
    float factor, value;
    if (type == OTA_STORED_IQ2_XXS) {
        const unsigned char *word = at + 6 + 8 * part;
        factor = (float)bits(word, 28, 4);
        value = of_eight(ota_lattice_iq2_xxs, at[2 + 8 * part + eight % 4], k % 8) *
                even_sign(bits(word, eight % 4 * 7, 7), k % 8);
    } else if (type == OTA_STORED_IQ2_XS) {
        const unsigned char *word = at + 2 + 2 * eight;
        factor = (float)bits(at + 66, k / 16 * 4, 4);
        value = of_eight(ota_lattice_iq2_xs, bits(word, 0, 9), k % 8) *
                even_sign(bits(word, 9, 7), k % 8);
    } else {
        factor = (float)bits(at + 74, k / 16 * 4, 4);
        value =
            of_eight(ota_lattice_iq2_s, at[2 + eight] | bits(at + 66, 2 * eight, 2) << 8, k % 8);
        if (bit(at + 34, k) != 0) value = -value;
    }
    return value * (half(at) * (0.5F + factor) * 0.25F);
}

static float of_iq3(ota_stored type, const unsigned char *at, int k) {
    static const float values[8] = {4, 12, 20, 28, 36, 44, 52, 62};
    if (type == OTA_STORED_IQ3_XXS) {
        const unsigned char *word = at + 66 + k / 32 * 4;
        return values[of_four(ota_lattice_iq3_xxs, at[2 + k / 4], k % 4)] *
               even_sign(bits(word, k % 32 / 8 * 7, 7), k % 8) *
               (half(at) * (0.5F + (float)bits(word, 28, 4)) * 0.5F);
    }
    const int index = at[2 + k / 4] | bit(at + 66, k / 4) << 8;
    const float value = (float)(2 * of_four(ota_lattice_iq3_s, index, k % 4) + 1);
    return (bit(at + 74, k) != 0 ? -value : value) *
           (half(at) * (float)(1 + 2 * bits(at + 106, k / 32 * 4, 4)));
}

static float of_iq1(ota_stored type, const unsigned char *at, int k) {
    const int eight = k / 8;
    int index, minus, factor;
    float d;
    if (type == OTA_STORED_IQ1_S) {
        const unsigned char *word = at + 34 + k / 32 * 2;
        index = at[2 + eight] | bits(word, eight % 4 * 3, 3) << 8;
        factor = bits(word, 12, 3);
        minus = bit(word, 15);
        d = half(at);
    } else {
        const unsigned char *factors = at + 48;
        unsigned char parts[2] = {0, 0};
        for (int word = 0; word < 4; word++)
            parts[word / 2] = (unsigned char)(parts[word / 2] | bits(factors, 16 * word + 12, 4)
                                                                    << (word % 2 * 4));
        index = at[eight] | bits(at + 32, 4 * eight, 3) << 8;
        minus = bit(at + 32, 4 * eight + 3);
        factor = bits(factors + k / 64 * 2, k % 64 / 16 * 3, 3);
        d = half(parts);
    }
    const float coordinate = (float)(ota_lattice_iq1[index] >> (k % 8 * 2) & 3) - 1;
    return (coordinate + (minus != 0 ? -0.125F : 0.125F)) * (d * (float)(2 * factor + 1));
}

/* Element k of the block at `at`. */
static float wanted(ota_stored type, const unsigned char *at, int k) {
    uint32_t word = 0;
    double number;
    float value;
    switch (type) {
    case OTA_STORED_F16: return half(at);
    case OTA_STORED_Q4_0: return (float)(four(at + 2, k) - 8) * half(at);
    case OTA_STORED_Q4_1: return (float)four(at + 4, k) * half(at) + half(at + 2);
    case OTA_STORED_Q5_0: return (float)((four(at + 6, k) | bit(at + 2, k) << 4) - 16) * half(at);
    case OTA_STORED_Q5_1:
        return (float)(four(at + 8, k) | bit(at + 4, k) << 4) * half(at) + half(at + 2);
    case OTA_STORED_Q8_0: return (float)(int8_t)at[2 + k] * half(at);
    case OTA_STORED_Q2_K: return of_q2(at, k);
    case OTA_STORED_Q3_K: return of_q3(at, k);
    case OTA_STORED_Q4_K: return of_k(at, k, NULL, at + 16);
    case OTA_STORED_Q5_K: return of_k(at, k, at + 16, at + 48);
    case OTA_STORED_Q6_K: return of_q6(at, k);
    case OTA_STORED_Q8_K: memcpy(&value, at, sizeof value); return (float)(int8_t)at[4 + k] * value;
    case OTA_STORED_TQ1_0: return of_ternary(at, k);
    case OTA_STORED_TQ2_0:
        return (float)((at[k / 128 * 32 + k % 32] >> (k % 128 / 32 * 2) & 3) - 1) * half(at + 64);
    case OTA_STORED_MXFP4: return small(four(at + 1, k)) * power(at[0] - 128);
    case OTA_STORED_NVFP4: return of_nv(at, k);
    case OTA_STORED_IQ1_S:
    case OTA_STORED_IQ1_M: return of_iq1(type, at, k);
    case OTA_STORED_IQ2_XXS:
    case OTA_STORED_IQ2_XS:
    case OTA_STORED_IQ2_S: return of_iq2(type, at, k);
    case OTA_STORED_IQ3_XXS:
    case OTA_STORED_IQ3_S: return of_iq3(type, at, k);
    case OTA_STORED_IQ4_NL: return listed(four(at + 2, k)) * half(at);
    case OTA_STORED_IQ4_XS: return of_iq4_xs(at, k);
    case OTA_STORED_F64: memcpy(&number, at, sizeof number); return (float)number;
    case OTA_STORED_BF16: memcpy((unsigned char *)&word + 2, at, 2); break;
    default: memcpy(&word, at, sizeof word);
    }
    memcpy(&value, &word, sizeof value);
    return value;
}

typedef struct format {
    const char *name;
    int64_t number; /* of the type in ggml's files */
    int block, bytes,
        ends[2]; /* where a factor, or the element, has its exponent's upper bit; -1: none */
} format;

static const format formats[OTA_STORED_TYPES] = {
    [OTA_STORED_F32] = {"F32", 0, 1, 4, {3, -1}},
    [OTA_STORED_F64] = {"F64", 28, 1, 8, {7, -1}},
    [OTA_STORED_F16] = {"F16", 1, 1, 2, {1, -1}},
    [OTA_STORED_BF16] = {"BF16", 30, 1, 2, {1, -1}},
    [OTA_STORED_Q4_0] = {"Q4_0", 2, 32, 18, {1, -1}},
    [OTA_STORED_Q4_1] = {"Q4_1", 3, 32, 20, {1, 3}},
    [OTA_STORED_Q5_0] = {"Q5_0", 6, 32, 22, {1, -1}},
    [OTA_STORED_Q5_1] = {"Q5_1", 7, 32, 24, {1, 3}},
    [OTA_STORED_Q8_0] = {"Q8_0", 8, 32, 34, {1, -1}},
    [OTA_STORED_Q2_K] = {"Q2_K", 10, 256, 84, {81, 83}},
    [OTA_STORED_Q3_K] = {"Q3_K", 11, 256, 110, {109, -1}},
    [OTA_STORED_Q4_K] = {"Q4_K", 12, 256, 144, {1, 3}},
    [OTA_STORED_Q5_K] = {"Q5_K", 13, 256, 176, {1, 3}},
    [OTA_STORED_Q6_K] = {"Q6_K", 14, 256, 210, {209, -1}},
    [OTA_STORED_Q8_K] = {"Q8_K", 15, 256, 292, {3, -1}},
    [OTA_STORED_TQ1_0] = {"TQ1_0", 34, 256, 54, {53, -1}},
    [OTA_STORED_TQ2_0] = {"TQ2_0", 35, 256, 66, {65, -1}},
    [OTA_STORED_MXFP4] = {"MXFP4", 39, 32, 17, {-1, -1}},
    [OTA_STORED_NVFP4] = {"NVFP4", 40, 64, 36, {-1, -1}},
    [OTA_STORED_IQ1_S] = {"IQ1_S", 19, 256, 50, {1, -1}},
    [OTA_STORED_IQ1_M] = {"IQ1_M", 29, 256, 56, {55, -1}},
    [OTA_STORED_IQ2_XXS] = {"IQ2_XXS", 16, 256, 66, {1, -1}},
    [OTA_STORED_IQ2_XS] = {"IQ2_XS", 17, 256, 74, {1, -1}},
    [OTA_STORED_IQ2_S] = {"IQ2_S", 22, 256, 82, {1, -1}},
    [OTA_STORED_IQ3_XXS] = {"IQ3_XXS", 18, 256, 98, {1, -1}},
    [OTA_STORED_IQ3_S] = {"IQ3_S", 21, 256, 110, {1, -1}},
    [OTA_STORED_IQ4_NL] = {"IQ4_NL", 20, 32, 18, {1, -1}},
    [OTA_STORED_IQ4_XS] = {"IQ4_XS", 23, 256, 136, {1, -1}}};

static void elements_are_those_of_the_format(void **state) {
    static const char *const levels[] = {"portable", "avx2", "avx512"};
    static unsigned char data[MOST_BYTES];
    static float out[COUNT];
    (void)state;
    for (int type = 0; type < OTA_STORED_TYPES; type++) {
        const format *f = &formats[type];
        assert_string_equal(f->name, ota_element_named(f->name)->word);
        assert_int_equal(ota_element_index(ota_element_named(f->name)), type);
        for (int k = 0; k < COUNT / f->block * f->bytes; k++) data[k] = drawn();
        /* Finite factors in two blocks of three; the others are infinite or missing oftener than by chance. */
        for (int at = 0; at < COUNT / f->block * f->bytes; at += f->bytes) {
            for (int k = 0; k < 2; k++) {
                if (f->ends[k] < 0) continue;
                if (at / f->bytes % 3 != 0)
                    data[at + f->ends[k]] &= 0xBF;
                else if (drawn() < 32)
                    data[at + f->ends[k]] |= 0x7C;
            }
            /* 2^-15 to 2: most others are 0 in f32. */
            if (type == OTA_STORED_F64) data[at + 7] |= 0x3F;
        }
        for (int level = 0; level < 3; level++) {
            for (int k = 0; k < COUNT; k++) out[k] = NAN;
            ota_ops_named(levels[level])->decode[type](data, out, COUNT);
            for (int k = 0; k < COUNT; k++) {
                const float want =
                    wanted((ota_stored)type, data + k / f->block * f->bytes, k % f->block);
                /* bits, so that zeros have their sign; of NaN that it is one */
                if (isnan(want) ? !isnan(out[k]) : memcmp(&out[k], &want, sizeof want) != 0)
                    fail_msg("%s at %s: element %d is %.9g, wanted %.9g", f->name, levels[level], k,
                             (double)out[k], (double)want);
            }
        }
    }
}

static void numbers_are_those_of_ggml(void **state) {
    (void)state;
    int64_t found = 0;
    for (int type = 0; type < OTA_STORED_TYPES; type++) {
        const ota_element *element = ota_element_of_gguf(formats[type].number);
        assert_ptr_equal(element, ota_element_named(formats[type].name));
        assert_int_equal(element->block, formats[type].block);
        assert_int_equal(element->bytes, formats[type].bytes);
    }
    for (int64_t number = -1; number < 64; number++) {
        found += ota_element_of_gguf(number) != NULL;
        /* Named in a refusal, or read, not both. */
        assert_true(ota_element_of_gguf(number) == NULL || ota_element_unread(number) == NULL);
    }
    assert_int_equal(found, OTA_STORED_TYPES);
    assert_string_equal(ota_element_unread(9), "Q8_1");
    assert_null(ota_element_unread(64));
}

TEST_FILE(test_elements) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_are_those_of_the_format),
        cmocka_unit_test(numbers_are_those_of_ggml),
    };
    return cmocka_run_group_tests_name("elements", tests, NULL, NULL);
}
