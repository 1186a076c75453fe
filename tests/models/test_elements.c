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
#include "models/kernels/ops.h"
#include "groups.h"
#include "otattn_model.h"

/* More blocks than a block has elements: a step of one element too many misses the last. */
enum { COUNT = 256 * 264, MOST_BYTES = 4 * COUNT };

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

/* Element k of the block at `at`. */
static float wanted(ota_stored type, const unsigned char *at, int k) {
    uint32_t word = 0;
    float value;
    switch (type) {
    case OTA_STORED_F16: return half(at);
    case OTA_STORED_Q4_0: return (float)(four(at + 2, k) - 8) * half(at);
    case OTA_STORED_Q4_1: return (float)four(at + 4, k) * half(at) + half(at + 2);
    case OTA_STORED_Q5_0: return (float)((four(at + 6, k) | bit(at + 2, k) << 4) - 16) * half(at);
    case OTA_STORED_Q5_1:
        return (float)(four(at + 8, k) | bit(at + 4, k) << 4) * half(at) + half(at + 2);
    case OTA_STORED_Q8_0: return (float)(int8_t)at[2 + k] * half(at);
    case OTA_STORED_Q4_K: return of_k(at, k, NULL, at + 16);
    case OTA_STORED_Q5_K: return of_k(at, k, at + 16, at + 48);
    case OTA_STORED_Q6_K: return of_q6(at, k);
    case OTA_STORED_BF16: memcpy((unsigned char *)&word + 2, at, 2); break;
    default: memcpy(&word, at, sizeof word);
    }
    memcpy(&value, &word, sizeof value);
    return value;
}

typedef struct format {
    const char *name;
    int64_t number;              /* of the type in ggml's files */
    int block, bytes, halves[2]; /* where halves begin, -1: none */
} format;

static const format formats[OTA_STORED_TYPES] = {
    [OTA_STORED_F32] = {"F32", 0, 1, 4, {-1, -1}},
    [OTA_STORED_F16] = {"F16", 1, 1, 2, {0, -1}},
    [OTA_STORED_BF16] = {"BF16", 30, 1, 2, {-1, -1}},
    [OTA_STORED_Q4_0] = {"Q4_0", 2, 32, 18, {0, -1}},
    [OTA_STORED_Q4_1] = {"Q4_1", 3, 32, 20, {0, 2}},
    [OTA_STORED_Q5_0] = {"Q5_0", 6, 32, 22, {0, -1}},
    [OTA_STORED_Q5_1] = {"Q5_1", 7, 32, 24, {0, 2}},
    [OTA_STORED_Q8_0] = {"Q8_0", 8, 32, 34, {0, -1}},
    [OTA_STORED_Q4_K] = {"Q4_K", 12, 256, 144, {0, 2}},
    [OTA_STORED_Q5_K] = {"Q5_K", 13, 256, 176, {0, 2}},
    [OTA_STORED_Q6_K] = {"Q6_K", 14, 256, 210, {208, -1}}};

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
        /* Finite halves: an infinite or missing number is no value of a weight. */
        for (int at = 0; at < COUNT / f->block * f->bytes; at += f->bytes) {
            for (int k = 0; k < 2; k++)
                if (f->halves[k] >= 0) data[at + f->halves[k] + 1] &= 0xBF;
            if (type == OTA_STORED_F32) data[at + 3] &= 0xBF;
            if (type == OTA_STORED_BF16) data[at + 1] &= 0xBF;
        }
        for (int level = 0; level < 3; level++) {
            for (int k = 0; k < COUNT; k++) out[k] = NAN;
            ota_ops_named(levels[level])->decode[type](data, out, COUNT);
            for (int k = 0; k < COUNT; k++) {
                const float want =
                    wanted((ota_stored)type, data + k / f->block * f->bytes, k % f->block);
                if (!(out[k] == want))
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
    for (int64_t number = -1; number < 64; number++) found += ota_element_of_gguf(number) != NULL;
    assert_int_equal(found, OTA_STORED_TYPES);
}

TEST_FILE(test_elements) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_are_those_of_the_format),
        cmocka_unit_test(numbers_are_those_of_ggml),
    };
    return cmocka_run_group_tests_name("elements", tests, NULL, NULL);
}
