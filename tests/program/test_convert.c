/* Conversions of element types: every 16-bit number there and back, and rounding to nearest even. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "program/program.h"

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
        tool_convert(&half, type, &value, OTA_F64, 1);
        tool_convert(&value, OTA_F64, &back, type, 1);
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
        tool_convert(&halfway, OTA_F64, &back, type, 1);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f16_there_and_back),
        cmocka_unit_test(test_bf16_there_and_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
