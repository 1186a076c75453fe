/* test_half.c: src/base/half.h: every 16-bit number there and back, rounding to nearest even against
 * the rounding of the f64 adder, NaN, infinity, subnormals, and one rounding only from f64. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdbool.h>

#include "base/half.h"
#include "groups.h"

static float as_f32(uint32_t bits) { return ota_f32_from_bits(bits); }

/* The nearest value of a grid with `fraction` stored bits whose smallest normal is 2^lowest, by the
 * rounding of the f64 adder: value + big - big, where one step of `big` is one step of the grid. */
static double nearest_on_grid(double value, int fraction, int lowest, double largest) {
    int exponent;
    frexp(value, &exponent);
    int unit = (exponent - 1 < lowest ? lowest : exponent - 1) - fraction;
    volatile double big = ldexp(1.5, unit + 52);
    volatile double sum = fabs(value) + big;
    double rounded = sum - big;
    if (rounded > largest) rounded = INFINITY;
    return copysign(rounded, value);
}

static void test_f16_round_trip_is_exact(void **state) {
    (void)state;
    for (uint32_t half = 0; half <= 0xffffu; half++) {
        float wide = ota_f32_from_f16((uint16_t)half);
        if (isnan(wide)) {
            assert_true((half & 0x7c00u) == 0x7c00u && (half & 0x3ffu) != 0);
            assert_true(isnan(ota_f32_from_f16(ota_f16_from_f32(wide))));
            continue;
        }
        assert_int_equal(ota_f16_from_f32(wide), half);
        uint32_t exponent = (half >> 10) & 31u;
        double expected = exponent == 31 ? (double)INFINITY
                          : exponent == 0
                              ? ldexp((double)(half & 0x3ffu), -24)
                              : ldexp((double)(1024u + (half & 0x3ffu)), (int)exponent - 25);
        assert_true((double)fabsf(wide) == expected);
        assert_int_equal(signbit(wide) != 0, half >> 15);
    }
}

static void test_bf16_round_trip_is_exact(void **state) {
    (void)state;
    for (uint32_t half = 0; half <= 0xffffu; half++) {
        float wide = ota_f32_from_bf16((uint16_t)half);
        if (isnan(wide)) {
            assert_true(isnan(ota_f32_from_bf16(ota_bf16_from_f32(wide))));
            continue;
        }
        assert_int_equal(ota_bf16_from_f32(wide), half);
        assert_int_equal(ota_f32_bits(wide), half << 16);
    }
}

static double largest_rounding_defect(bool brain) {
    const int fraction = brain ? 7 : 10;
    const int lowest = brain ? -126 : -14;
    const double largest = brain ? ldexp(255.0, 120) : 65504.0;
    double defect = 0;
    uint64_t random = 88172645463325252u;
    for (int trial = 0; trial < 2000000; trial++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        uint32_t bits = (uint32_t)(random >> 16);
        if (trial % 4 == 1) bits = (bits & 0x80000000u) | 0x33000000u | (bits & 0x14ffffffu);
        if (trial % 4 == 2) bits &= brain ? 0xffff8000u : 0xfffff000u; /* ties */
        float value = as_f32(bits);
        if (isnan(value) || isinf(value)) continue;
        float narrow = brain ? ota_f32_from_bf16(ota_bf16_from_f32(value))
                             : ota_f32_from_f16(ota_f16_from_f32(value));
        double expected = nearest_on_grid((double)value, fraction, lowest, largest);
        if ((double)narrow != expected || signbit(narrow) != signbit(value)) defect += 1;

        /* f64 straight to half: nudge off the f32 grid so that double rounding would show. */
        double fine = (double)value * (1 + ldexp((double)((int)(random & 3) - 1), -40));
        float once = brain ? ota_f32_from_bf16(ota_bf16_from_f64(fine))
                           : ota_f32_from_f16(ota_f16_from_f64(fine));
        if ((double)once != nearest_on_grid(fine, fraction, lowest, largest)) defect += 1;
    }
    return defect;
}

static void test_f16_rounds_to_nearest_even(void **state) {
    (void)state;
    assert_true(largest_rounding_defect(false) == 0);
    assert_int_equal(ota_f16_from_f32(65519.996f), 0x7bff);
    assert_int_equal(ota_f16_from_f32(65520.0f), 0x7c00);
    assert_int_equal(ota_f16_from_f32(-INFINITY), 0xfc00);
    assert_int_equal(ota_f16_from_f32(as_f32(0x33000000u)), 0); /* a tie with zero */
    assert_int_equal(ota_f16_from_f32(as_f32(0x33000001u)), 1);
    assert_int_equal(ota_f16_from_f32(as_f32(0xff800001u)), 0xfe00); /* payload below: still NaN */
    assert_int_equal(ota_f16_from_f64(1e300), 0x7c00);
    assert_int_equal(ota_f16_from_f64(-1e-300), 0x8000);
    assert_int_equal(ota_f16_from_f64(ldexp(1.0, -25) * (1 + 1e-15)), 1);
}

static void test_bf16_rounds_to_nearest_even(void **state) {
    (void)state;
    assert_true(largest_rounding_defect(true) == 0);
    assert_int_equal(ota_bf16_from_f32(as_f32(0x7f7fffffu)), 0x7f80);
    assert_int_equal(ota_bf16_from_f32(as_f32(0x7f800001u)), 0x7fc0);
    assert_int_equal(ota_bf16_from_f64(1 + ldexp(1.0, -8)), 0x3f80);
    assert_int_equal(ota_bf16_from_f64(1 + ldexp(1.0, -8) + ldexp(1.0, -40)), 0x3f81);
    assert_int_equal(ota_bf16_from_f64(ldexp(1.0, -134)), 0); /* a tie with zero */
    assert_int_equal(ota_bf16_from_f64(ldexp(1.0, -134) * (1 + ldexp(1.0, -52))), 1);
    assert_int_equal(ota_bf16_from_f64(-1e300), 0xff80);
    assert_int_equal(ota_bf16_from_f64((double)INFINITY), 0x7f80);
    assert_int_equal(ota_bf16_from_f64((double)NAN) & 0x7fff, 0x7fc0);
}

TEST_FILE(test_half) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f16_round_trip_is_exact),
        cmocka_unit_test(test_bf16_round_trip_is_exact),
        cmocka_unit_test(test_f16_rounds_to_nearest_even),
        cmocka_unit_test(test_bf16_rounds_to_nearest_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
