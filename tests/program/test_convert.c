/* Conversions of element types: every 16-bit number there and back, and rounding to nearest even. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "program/program.h"
#include "groups.h"

/* The value of 16 bits by the definition of the format. */
static double value_of(unsigned bits, int fraction_bits) {
    const int exponent_bits = 15 - fraction_bits, bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = (int)(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
    const double fraction = (double)(bits & ((1U << fraction_bits) - 1U)) / (1 << fraction_bits);
    const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
    if (exponent == 0) return sign * ldexp(fraction, 1 - bias);
    return sign * ldexp(1 + fraction, exponent - bias);
}

static void check_type(ota_type type, int fraction_bits) {
    const unsigned infinity = ((1U << (15 - fraction_bits)) - 1U) << fraction_bits;
    for (unsigned bits = 0; bits < 0x10000U; bits++) {
        const uint16_t half = (uint16_t)bits;
        double value, special;
        uint16_t back;
        cli_convert(&half, type, &value, OTA_F64, 1);
        cli_convert(&value, OTA_F64, &back, type, 1);
        if ((bits & infinity) == infinity) {
            special = (bits & 0x7fffU) == infinity ? HUGE_VAL : 0;
            assert_true(special > 0 ? fabs(value) == special && back == half : isnan(value) != 0);
            continue;
        }
        assert_true(value == value_of(bits, fraction_bits));
        assert_int_equal(back, half);
        /* Halfway to the next number goes to the even one. */
        if (((bits + 1U) & infinity) == infinity) continue;
        const double halfway = (value + value_of(bits + 1, fraction_bits)) / 2;
        cli_convert(&halfway, OTA_F64, &back, type, 1);
        assert_int_equal(back, bits % 2 == 0 ? bits : bits + 1);
    }
}

static void test_f16_there_and_back(void **state) {
    (void)state;
    check_type(OTA_F16, 10);
}

static void test_bf16_there_and_back(void **state) {
    (void)state;
    check_type(OTA_BF16, 7);
}

static const char *const names[] = {"f64", "f32", "bf16", "f16", "bool", "int64"};
enum { TYPES = sizeof names / sizeof *names };

/* 0 and 1 are numbers of every type, and so are the conversions between all of them. */
static void test_every_pair_of_types(void **state) {
    (void)state;
    for (int from = 0; from < TYPES; from++)
        for (int to = 0; to < TYPES; to++) {
            const ota_type types[] = {cli_type_of(names[from]), cli_type_of(names[to])};
            const double values[] = {0, 1};
            double first[2], second[2];
            cli_convert(values, OTA_F64, first, types[0], 2);
            cli_convert(first, types[0], second, types[1], 2);
            for (size_t k = 0; k < 2; k++)
                assert_true(cli_element(second, types[1], k) == values[k]);
        }
    const double fractions[] = {-2.75, NAN, 1e-300};
    int64_t whole;
    uint8_t truths[3];
    cli_convert(fractions, OTA_F64, &whole, OTA_I64, 1);
    assert_int_equal(whole, -2);
    cli_convert(fractions, OTA_F64, truths, OTA_BOOL, 3);
    assert_true(truths[0] == 1 && truths[1] == 0 && truths[2] == 1);
}

static void test_beyond_the_largest_half(void **state) {
    (void)state;
    const double values[] = {65519.99, 65520, -1e300};
    uint16_t halves[3];
    cli_convert(values, OTA_F64, halves, OTA_F16, 3);
    assert_true(halves[0] == 0x7bff && halves[1] == 0x7c00 && halves[2] == 0xfc00);
}

static void test_names_of_types(void **state) {
    (void)state;
    for (int k = 0; k < TYPES; k++)
        assert_string_equal(cli_type_name(cli_type_of(names[k])), names[k]);
    assert_int_equal(cli_type_of("f128"), OTA_NO_TYPE);
    assert_string_equal(cli_type_name(OTA_NO_TYPE), "?");
    const double value = 3;
    double kept = 7;
    assert_true(isnan(cli_element(&value, OTA_NO_TYPE, 0)) != 0);
    cli_convert(&value, OTA_F64, &kept, OTA_NO_TYPE, 1);
    cli_convert(&value, OTA_F64, &kept, OTA_F64, 0);
    assert_true(kept == 7);
}

TEST_FILE(test_convert) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f16_there_and_back),  cmocka_unit_test(test_bf16_there_and_back),
        cmocka_unit_test(test_every_pair_of_types), cmocka_unit_test(test_beyond_the_largest_half),
        cmocka_unit_test(test_names_of_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
