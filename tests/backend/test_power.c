/* test_power.c: x^p of the kernels (backend/cpu/kernels/power.inc.h, by slope_weights) on every level.
 *
 *     f32     |w - x^p| <= 1.2 ulp(x^p), subnormals of both sides included, over the f32 numbers: by default every
 *             9973rd of the 2^32 bit patterns, with OTATTN_TEST_SCALE above 1 (`./dev campaign`) every 211th. The last
 *             step errs by 1/2 for the sum, 1/4 for q, 1/16 for the fits (test_exp2.c) and 1/8 for the exponent's
 *             tail, and the logarithm by 1/4 where |p log2 x| is near 1000; a level without fused products
 *             rounds r q, too: 1/4 more, and 1/16 for the products before it
 *     f64     the same against powl at random x: of all exponents, in (0, 1), around 1 and subnormal
 *     both    1^p = 1 and 2^n for whole p n exactly; 0 for x that is 0, negative or NaN; inf for inf */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/kernels/kernels.h"
#include "draw/random.h"
#include "groups.h"
#include "scale.h"
#include "spec.h"

static dice dice_state;

enum { BLOCK = 4096, STRIDE = 9973, CAMPAIGN_STRIDE = 211, LEVELS = 8 };

/* 2 - order, 1 / (order - 1) and that less 1 for orders between 1.01 and 3, and what is extreme. */
static const double EXPONENTS[] = {0.75, 0.25,  -0.5, -0.99,     1.0 / 3.0,  1.0 / 0.75, 3.0,
                                   9.0,  99.99, 1e4,  0x1p-1030, -0x1.9p-40, 1e300,      -1e300};
enum { EXPONENT_COUNT = sizeof EXPONENTS / sizeof EXPONENTS[0] };

/* |p - exact| in units of T's last place, or infinity where no error is allowed. */
static double away(double got, long double exact, int digits, double least, double most) {
    if (isnan(got)) return INFINITY;
    if (exact >= (long double)most) return got >= most ? 0.0 : INFINITY;
    if (isinf(got)) return INFINITY;
    int exponent;
    (void)frexpl(exact, &exponent);
    return (double)(fabsl((long double)got - exact) /
                    fmaxl(ldexpl(1.0L, exponent - digits), (long double)least));
}

static double bound_of(const char *level) {
    return strcmp(level, "portable") != 0 ? 19.0 / 16.0 : 24.0 / 16.0;
}

static void check_f32(const float *x, int64_t count, double power, double *worst) {
    double exact[BLOCK];
    float w[BLOCK];
    for (int64_t i = 0; i < count; i++)
        exact[i] = x[i] > 0.0F ? (double)powl((long double)x[i], (long double)power) : 0.0;
    for (int level = 0; ota_kernels_row(level) != NULL; level++) {
        ota_kernels_row(level)->f32->slope_weights(x, count, power, w);
        for (int64_t i = 0; i < count; i++) {
            /* Most are the nearest number there is; only the others are worth measuring. */
            if (w[i] == (float)exact[i]) continue;
            const double units = away((double)w[i], exact[i], FLT_MANT_DIG, 0x1p-149, FLT_MAX);
            worst[level] = fmax(worst[level], units);
        }
    }
}

static void test_f32(void **state) {
    (void)state;
    const uint64_t stride = test_scale() > 1 ? CAMPAIGN_STRIDE : STRIDE;
    for (int k = 0; k < EXPONENT_COUNT; k++) {
        double worst[LEVELS] = {0.0};
        float x[BLOCK];
        int64_t count = 0;
        for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += stride) {
            const uint32_t pattern = (uint32_t)bits;
            memcpy(&x[count++], &pattern, sizeof *x);
            if (count < BLOCK) continue;
            check_f32(x, count, EXPONENTS[k], worst);
            count = 0;
        }
        check_f32(x, count, EXPONENTS[k], worst);
        for (int level = 0; ota_kernels_row(level) != NULL; level++) {
            const char *name = ota_kernels_row(level)->name;
            print_message("  %s, p = %g: %.4f units in the last place\n", name, EXPONENTS[k],
                          worst[level]);
            spec_check("LIT-11 DER-12", worst[level], bound_of(name));
        }
    }
}

/* Every fourth number each: any exponent, (0, 1), around 1, subnormal. */
static double draw(int kind) {
    const double part = uniform(&dice_state);
    switch (kind % 4) {
    case 0: return ldexp(0.5 + 0.5 * part, (int)(uniform(&dice_state) * 2098.0) - 1074);
    case 1: return part;
    case 2: return 1.0 + ldexp(part - 0.5, -(int)(uniform(&dice_state) * 53.0));
    default: return ldexp(part, -1022 - (int)(uniform(&dice_state) * 52.0));
    }
}

static void test_f64(void **state) {
    (void)state;
    const int blocks = 8 * (test_scale() > 1 ? 64 : 1);
    dice_state = 11;
    double worst[EXPONENT_COUNT][LEVELS] = {{0.0}};
    for (int turn = 0; turn < blocks * EXPONENT_COUNT; turn++) {
        const int k = turn % EXPONENT_COUNT;
        double x[BLOCK], w[BLOCK];
        long double exact[BLOCK];
        for (int64_t i = 0; i < BLOCK; i++) {
            x[i] = draw((int)i);
            exact[i] = x[i] > 0.0 ? powl((long double)x[i], (long double)EXPONENTS[k]) : 0.0L;
        }
        for (int level = 0; ota_kernels_row(level) != NULL; level++) {
            ota_kernels_row(level)->f64->slope_weights(x, BLOCK, EXPONENTS[k], w);
            for (int64_t i = 0; i < BLOCK; i++) {
                const double units = away(w[i], exact[i], DBL_MANT_DIG, 0x1p-1074, DBL_MAX);
                worst[k][level] = fmax(worst[k][level], units);
            }
        }
    }
    for (int k = 0; k < EXPONENT_COUNT; k++) {
        for (int level = 0; ota_kernels_row(level) != NULL; level++) {
            const char *name = ota_kernels_row(level)->name;
            print_message("  %s, p = %g: %.4f units in the last place\n", name, EXPONENTS[k],
                          worst[k][level]);
            spec_check("LIT-11 DER-12", worst[k][level], bound_of(name));
        }
    }
}

/* What must be exact, one exponent and number at a time. */
static void test_exact(void **state) {
    (void)state;
    for (int level = 0; ota_kernels_row(level) != NULL; level++) {
        const ota_kernels *row = ota_kernels_row(level);
        for (int k = 0; k < EXPONENT_COUNT; k++) {
            const double in[] = {1.0, 0.0, -0.0, -1.0, -INFINITY, NAN, INFINITY};
            float narrow[7], w32[7];
            double w64[7];
            for (int i = 0; i < 7; i++) narrow[i] = (float)in[i];
            row->f32->slope_weights(narrow, 7, EXPONENTS[k], w32);
            row->f64->slope_weights(in, 7, EXPONENTS[k], w64);
            for (int i = 0; i < 7; i++) {
                const double want = i == 0 ? 1.0 : i == 6 ? INFINITY : 0.0;
                spec_check_true("LIT-11 DER-12", (double)w32[i] == want && w64[i] == want);
            }
        }
        for (int n = -1074; n <= 1023; n++) {
            const double x = ldexp(1.0, n);
            const double wholes[] = {-0.5, 3.0, 0.75, 16.0};
            for (int k = 0; k < 4; k++) {
                const double t = wholes[k] * n;
                if (t != floor(t)) continue;
                double w64;
                row->f64->slope_weights(&x, 1, wholes[k], &w64);
                spec_check_true("LIT-11 DER-12", w64 == ldexp(1.0, (int)t));
                if (n < -149 || n > 127) continue;
                const float narrow = (float)x;
                float w32;
                row->f32->slope_weights(&narrow, 1, wholes[k], &w32);
                spec_check_true("LIT-11 DER-12", w32 == (float)ldexp(1.0, (int)t));
            }
        }
    }
}

TEST_FILE(test_power) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32),
        cmocka_unit_test(test_f64),
        cmocka_unit_test(test_exact),
    };
    return cmocka_run_group_tests_name("power", tests, NULL, NULL);
}
