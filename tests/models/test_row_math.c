/* exp, erf, the activations and the norms of models, against f64: every level of the row arithmetic. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "models/kernels/ops.h"
#include "models/kernels/row_math.inc.h"
#include "groups.h"
#include "otattn_model.h"

enum { COUNT = 4096 };

static const ota_activation all[] = {OTA_GELU, OTA_GELU_TANH, OTA_RELU, OTA_SILU, OTA_TANH};

/* Distance in units in the last place of the exact value. */
static double ulps(float got, double exact) {
    const float near = (float)exact;
    const double unit = (double)(nextafterf(fabsf(near), INFINITY) - fabsf(near));
    return fabs((double)got - exact) / unit;
}

static float of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Two roundings of 6e-8 and what the series leaves out, 1.3e-7 at the ends of its argument. */
static void exp_is_near(void **state) {
    double most = 0.0;
    (void)state;
    for (float x = -86.9F; x < 87.9F; x += 0.00137F) {
        const double wanted = exp((double)x);
        most = fmax(most, fabs((double)row_exp(x) - wanted) / wanted);
    }
    assert_true(most <= 3e-7);
}

/* Every 257th f32 from the least normal one to 5, of both signs. */
static void erf_is_near(void **state) {
    double most = 0;
    (void)state;
    for (uint32_t bits = 0x00800000U; bits < 0x40a00000U; bits += 257) {
        const float x = of_bits(bits);
        const double wanted = erf((double)x), distance = ulps(row_erf(x), wanted);
        if (distance > most) most = distance;
        assert_true(row_erf(-x) == -row_erf(x));
    }
    assert_true(most <= 2);
    assert_true(row_erf(0) == 0 && row_erf(INFINITY) == 1 && row_erf(-INFINITY) == -1);
}

static double exact(ota_activation activation, double x) {
    switch (activation) {
    case OTA_GELU: return x / 2 * erfc(-x * sqrt(0.5));
    case OTA_GELU_TANH:
        return x / (1 + exp(-2 * sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
    case OTA_RELU: return x > 0 ? x : 0;
    case OTA_SILU: return x / (1 + exp(-x));
    case OTA_TANH: return tanh(x);
    }
    return NAN;
}

/* x Phi(x) in f32 is x / 2 (1 + erf): two units of erf, one of its argument, one of the sum, each at most
 * 2^-24, times x / 2, and the roundings of the products. The others have the error of exp, 4 units, on a factor
 * of at most x; its argument in gelu_tanh is up to |u| units off, and |u| e^-|u| stays below 1. */
static double bound(ota_activation activation, double x, double value) {
    const double u = 0x1p-24;
    if (activation == OTA_GELU) return 2 * u * fabs(x) + 2 * u * fabs(value);
    return 8 * u * fabs(x) + 4 * u * fabs(value);
}

static void check_level(const ota_ops *ops) {
    static float x[COUNT + 3], y[COUNT + 3];
    for (size_t a = 0; a < sizeof all / sizeof *all; a++) {
        /* A length that leaves a tail behind every vector. */
        for (int k = 0; k < COUNT + 3; k++) x[k] = ((float)k - COUNT / 2) * 0.005F;
        memcpy(y, x, sizeof y);
        ops->activate(all[a], y, COUNT + 3);
        double most = 0;
        for (int k = 0; k < COUNT + 3; k++) {
            const double wanted = exact(all[a], (double)x[k]);
            const double share =
                fabs((double)y[k] - wanted) / (bound(all[a], (double)x[k], wanted) + 0x1p-126);
            if (!(share <= most)) most = share;
        }
        if (!(most <= 1)) fail_msg("%s: activation %zu: %g bounds off", ops->name, a, most);
        x[0] = NAN;
        ops->activate(all[a] == OTA_RELU ? OTA_GELU : all[a], x, 1);
        assert_true(isnan(x[0]));
    }
}

static void activations_at_every_level(void **state) {
    static const char *const levels[] = {"portable", "avx2", "avx512"};
    (void)state;
    for (size_t k = 0; k < sizeof levels / sizeof *levels; k++)
        check_level(ota_ops_named(levels[k]));
}

/* Sums of 67 terms, a root, and three products of numbers up to 8: some 30 roundings, each of at most 2^-24. */
static void norms_at_every_level(void **state) {
    static const char *const levels[] = {"portable", "avx2", "avx512"};
    enum { WIDTH = 67 };
    float x[WIDTH], weight[WIDTH], bias[WIDTH], layer[WIDTH], rms[WIDTH];
    const double epsilon = 0.25;
    double mean = 0, squares = 0, variance = 0;
    (void)state;
    for (int k = 0; k < WIDTH; k++) {
        x[k] = (float)(k * 29 % WIDTH) * 0.0625F - 1.0F;
        weight[k] = (float)(k * 31 % WIDTH) * 0.03125F - 0.5F;
        bias[k] = (float)(k * 37 % WIDTH) * 0.03125F - 1.5F;
        mean += (double)x[k] / (double)WIDTH;
        squares += (double)x[k] * (double)x[k] / (double)WIDTH;
    }
    for (int k = 0; k < WIDTH; k++)
        variance += ((double)x[k] - mean) * ((double)x[k] - mean) / (double)WIDTH;
    for (size_t l = 0; l < sizeof levels / sizeof *levels; l++) {
        const ota_ops *ops = ota_ops_named(levels[l]);
        ops->layer_norm(x, weight, bias, epsilon, layer, WIDTH);
        ops->rms_norm(x, weight, epsilon, rms, WIDTH);
        for (int k = 0; k < WIDTH; k++) {
            const double centred = ((double)x[k] - mean) / sqrt(variance + epsilon),
                         scaled = (double)x[k] / sqrt(squares + epsilon);
            assert_true(fabs((double)layer[k] - centred * (double)weight[k] - (double)bias[k]) <=
                        8 * 32 * 0x1p-24);
            assert_true(fabs((double)rms[k] - scaled * (double)weight[k]) <= 8 * 32 * 0x1p-24);
        }
    }
}

TEST_FILE(test_row_math) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_near),
        cmocka_unit_test(erf_is_near),
        cmocka_unit_test(activations_at_every_level),
        cmocka_unit_test(norms_at_every_level),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
