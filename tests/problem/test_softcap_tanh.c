/* test_softcap_tanh.c: tanh and its derivative of softcaps (softcap.c) against long double, over floats of every size, and in f64
 * on a grid and near 0: tanh within 4 units of roundoff whatever its size, the derivative within 8 (1 + |x|) of its own
 * and one of 1. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "backend/cpu/kernels/kernels.h"
#include "problem/problem.h"
#include "groups.h"

enum { PIECE = 128 };

static double worst_of(long double x, long double tanh_x, long double tanh_slope,
                       long double unit) {
    const long double e = expl(-2 * fabsl(x)), slope = 4 * e / ((1 + e) * (1 + e));
    const long double value = tanhl(x), tiny = 0x1p-1074L;
    const long double away = fabsl(tanh_x - value) / (4 * unit * fabsl(value) + tiny);
    const long double off = fabsl(tanh_slope - slope) / (unit * (1 + 8 * slope * (1 + fabsl(x))));
    return (double)fmaxl(away, off);
}

static void test_floats(void **state) {
    (void)state;
    double worst = 0.0;
    for (uint32_t first = 0; first < 0x7f800000u; first += 997u * PIECE) {
        float x[PIECE], tanh_x[PIECE], tanh_slope[PIECE], first_tanh[PIECE], first_slope[PIECE];
        for (uint32_t k = 0; k < PIECE; k++) {
            const uint32_t bits = (first + 997u * k) % 0x7f800000u;
            memcpy(&x[k], &bits, sizeof bits);
            if (k % 2 == 1) x[k] = -x[k];
        }
        const ota_kernels *level = NULL;
        for (int i = 0; (level = ota_kernels_row(i)) != NULL; i++) {
            level->f32->terms->tanh(x, PIECE, tanh_x, tanh_slope);
            if (i > 0) {
                assert_memory_equal(tanh_x, first_tanh, sizeof tanh_x);
                assert_memory_equal(tanh_slope, first_slope, sizeof tanh_slope);
                continue;
            }
            memcpy(first_tanh, tanh_x, sizeof tanh_x);
            memcpy(first_slope, tanh_slope, sizeof tanh_slope);
            for (int k = 0; k < PIECE; k++) {
                if (fabsf(x[k]) >= FLT_MIN)
                    worst = fmax(worst, worst_of(x[k], tanh_x[k], tanh_slope[k], 0x1p-24L));
            }
        }
    }
    print_message("worst %.2g of the bound\n", worst);
    assert_true(worst <= 1.0);
}

static void test_doubles(void **state) {
    (void)state;
    double worst = 0.0;
    for (int piece = 0; piece < 2000; piece++) {
        double x[PIECE], tanh_x[PIECE], tanh_slope[PIECE];
        for (int k = 0; k < PIECE; k++) {
            const double place = (double)(piece * PIECE + k) / (2000.0 * (double)PIECE);
            x[k] = piece % 2 == 0 ? 44.0 * place - 22.0 : ldexp(1.0 + place, -(k * 8));
        }
        const ota_kernels *level = NULL;
        for (int i = 0; (level = ota_kernels_row(i)) != NULL; i++) {
            level->f64->terms->tanh(x, PIECE, tanh_x, tanh_slope);
            for (int k = 0; k < PIECE; k++)
                worst = fmax(worst, worst_of(x[k], tanh_x[k], tanh_slope[k], 0x1p-53L));
        }
    }
    print_message("worst %.2g of the bound\n", worst);
    assert_true(worst <= 1.0);
}

static void test_ends(void **state) {
    (void)state;
    const float x[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1e30f, -1e30f};
    float tanh_x[7], tanh_slope[7];
    ota_kernels_choose(NULL)->f32->terms->tanh(x, 7, tanh_x, tanh_slope);
    assert_true(tanh_x[0] == 0.0f && tanh_x[1] == 0.0f && tanh_slope[0] == 1.0f);
    assert_true(tanh_x[2] == 1.0f && tanh_x[3] == -1.0f && tanh_x[5] == 1.0f && tanh_x[6] == -1.0f);
    assert_true(isnan(tanh_x[4]));
    assert_true(tanh_slope[2] < 1e-6f && tanh_slope[2] >= 0.0f);
}

TEST_FILE(test_softcap_tanh) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_floats),
                                       cmocka_unit_test(test_doubles), cmocka_unit_test(test_ends)};
    return cmocka_run_group_tests_name("bend", tests, NULL, NULL);
}
