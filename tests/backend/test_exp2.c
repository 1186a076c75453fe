/* test_exp2.c: 2^t of the f32 kernels over the f32 numbers t, on every level. By default every 9973rd of the
 * 2^32 bit patterns; with OTATTN_TEST_SCALE above 1 (`./dev campaign`) all of them.
 *
 *     exponentials   |p - 2^t| <= 1 ulp(2^t), subnormal results included; 0, inf and NaN where they belong.
 *                    1 + r q in [0.7, 1) errs by 1/2 for the sum, 1/4 for q, 1/16 for the fit; a level without
 *                    fused products rounds r q, too: 1/4 more, and 1/32 for the products before it
 *     attend         weights of (0, t), t <= 0: |out - p / (1 + p)| <= 3 ulp: one each for p, sum and quotient;
 *                    in the campaign every 211th t */
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
#include "groups.h"
#include "scale.h"
#include "spec.h"

enum { BLOCK = 4096, STRIDE = 9973, ATTEND_STRIDE = 211 };

static float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* One unit in the last place of an f32 result near x > 0. */
static double unit_of(double x) {
    int exponent;
    (void)frexp(x, &exponent);
    return fmax(ldexp(1.0, exponent - 24), 0x1p-149);
}

/* |p - exact| in units, or infinity where no error is allowed. */
static double away(float p, double exact) {
    if (isnan(exact)) return isnan(p) ? 0.0 : INFINITY;
    if (exact > FLT_MAX) {
        const bool rounds_up = exact >= 0x1.ffffffp127;
        return isinf(p) || (!rounds_up && p >= FLT_MAX) ? 0.0 : INFINITY;
    }
    if (isnan(p) || (isinf(p) && exact < 0x1.fffffep127)) return INFINITY;
    return isinf(p) ? 0.0 : fabs((double)p - exact) / unit_of(exact);
}

/* Calls `check` on blocks of `count` numbers that together are the sweep. */
static void sweep(void (*check)(const float *t, int64_t count, double *worst), uint64_t finest,
                  double *worst) {
    const uint64_t stride = test_scale() > 1 ? finest : STRIDE;
    float t[BLOCK];
    int64_t count = 0;
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += stride) {
        t[count++] = float_of((uint32_t)bits);
        if (count < BLOCK) continue;
        check(t, count, worst);
        count = 0;
    }
    check(t, count, worst);
}

static void check_exponentials(const float *t, int64_t count, double *worst) {
    double exact[BLOCK];
    float p[BLOCK];
    for (int64_t i = 0; i < count; i++) exact[i] = exp2((double)t[i]);
    for (int level = 0; ota_kernels_row(level) != NULL; level++) {
        (void)ota_kernels_row(level)->f32->exponentials(t, NULL, count, 0.0F, 1.0F, p);
        for (int64_t i = 0; i < count; i++) {
            /* Most are the nearest number there is; only the others are worth measuring. */
            if (p[i] != (float)exact[i]) worst[level] = fmax(worst[level], away(p[i], exact[i]));
        }
    }
}

static void test_exponentials(void **state) {
    (void)state;
    double worst[8] = {0.0};
    sweep(check_exponentials, 1, worst);
    for (int level = 0; ota_kernels_row(level) != NULL; level++) {
        print_message("  %s: %.4f units in the last place\n", ota_kernels_row(level)->name,
                      worst[level]);
        const bool fused = strcmp(ota_kernels_row(level)->name, "portable") != 0;
        spec_check("LIT-01", worst[level], fused ? 1.0 : 1.0 + 3.0 / 32.0);
    }
}

/* Two keys, 0 and 1, against queries t: the second weight is all that the values let through. */
static void check_attend(const float *t, int64_t count, double *worst) {
    float packed[OTA_PANEL] = {0.0F, 1.0F};
    const float values[2] = {0.0F, 1.0F};
    float *scratch = aligned_alloc(64, (size_t)ota_attend_scratch(1) * sizeof *scratch);
    for (int64_t first = 0; first < count; first += OTA_ROW_BLOCK) {
        int64_t begin[OTA_ROW_BLOCK], end[OTA_ROW_BLOCK], rows = 0;
        float q[OTA_ROW_BLOCK], out[OTA_ROW_BLOCK], top[OTA_ROW_BLOCK], sum[OTA_ROW_BLOCK];
        for (int64_t i = first; i < count && i < first + OTA_ROW_BLOCK; i++) {
            if (!(t[i] <= 0.0F && t[i] >= -FLT_MAX)) continue;
            q[rows] = t[i];
            begin[rows] = 0;
            end[rows++] = 2;
        }
        const ota_kernels_f32_attend block = {.queries = q,
                                              .packed_keys = packed,
                                              .values = values,
                                              .rows = rows,
                                              .width = 1,
                                              .values_width = 1,
                                              .begin = begin,
                                              .end = end,
                                              .scale = 1.0F,
                                              .c = 1.0F,
                                              .sink = -INFINITY,
                                              .out = out,
                                              .row_max = top,
                                              .row_sum = sum,
                                              .scratch = scratch};
        for (int level = 0; rows > 0 && ota_kernels_row(level) != NULL; level++) {
            ota_kernels_row(level)->f32->attend(&block);
            for (int64_t i = 0; i < rows; i++) {
                const double weight = exp2((double)q[i]);
                worst[level] = fmax(worst[level], away(out[i], weight / (1.0 + weight)));
            }
        }
    }
    free(scratch);
}

static void test_attend(void **state) {
    (void)state;
    double worst[8] = {0.0};
    sweep(check_attend, ATTEND_STRIDE, worst);
    for (int level = 0; ota_kernels_row(level) != NULL; level++) {
        print_message("  %s: %.4f units in the last place\n", ota_kernels_row(level)->name,
                      worst[level]);
        spec_check("LIT-01", worst[level], 3.0);
    }
}

TEST_FILE(test_exp2) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exponentials),
        cmocka_unit_test(test_attend),
    };
    return cmocka_run_group_tests_name("exp2", tests, NULL, NULL);
}
