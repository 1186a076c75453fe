/* The row arithmetic, written once in plain loops that compilers turn into vectors. cmake/model.cmake compiles this file once
 * for every level and tells it OTA_TABLE, the table that is defined, OTA_LEVEL, its name, and OTA_LANES, the f32 of a vector.
 *
 *   sums run in 16 lanes, element i in lane i mod 16, and the lanes are added pairwise
 *   exp and erf: row_math.inc.h
 *   gelu(x) = x Phi(x);  gelu_tanh(x) = x / (1 + exp(-2 u)), u = sqrt(2 / pi) (x + 0.044715 x^3)
 *   silu(x) = x / (1 + exp(-x)) */
#include "elements.inc.h"
#include "lattice_elements.inc.h"
#include "small_elements.inc.h"
#include "ops.h"
#include "row_math.inc.h"

#include <math.h>

enum { LANES = 16 };

static inline float fold(float *lanes) {
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int k = 0; k < width; k++) lanes[k] += lanes[k + width];
    return lanes[0];
}

static float row_dot(const float *a, const float *b, int64_t count) {
    float lanes[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int k = 0; k < LANES; k++) lanes[k] += a[i + k] * b[i + k];
    for (; i < count; i++) lanes[i % LANES] += a[i] * b[i];
    return fold(lanes);
}

static void row_combine(float *restrict y, const float *const rows[OTA_TERMS],
                        const float x[OTA_TERMS], int64_t count) {
    _Static_assert(OTA_TERMS == 4, "one name a row");
    const float *a = rows[0], *b = rows[1], *c = rows[2], *d = rows[3];
    for (int64_t i = 0; i < count; i++)
        y[i] = (((y[i] + x[0] * a[i]) + x[1] * b[i]) + x[2] * c[i]) + x[3] * d[i];
}

static float row_sum(const float *x, int64_t count) {
    float lanes[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int k = 0; k < LANES; k++) lanes[k] += x[i + k];
    for (; i < count; i++) lanes[i % LANES] += x[i];
    return fold(lanes);
}

static float squares_around(const float *x, float centre, int64_t count) {
    float lanes[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int k = 0; k < LANES; k++) {
            const float d = x[i + k] - centre;
            lanes[k] += d * d;
        }
    for (; i < count; i++) lanes[i % LANES] += (x[i] - centre) * (x[i] - centre);
    return fold(lanes);
}

static void row_layer_norm(const float *x, const float *weight, const float *bias, double epsilon,
                           float *out, int64_t count) {
    const float mean = row_sum(x, count) / (float)count;
    const double variance = (double)squares_around(x, mean, count) / (double)count;
    const float factor = (float)(1.0 / sqrt(variance + epsilon));
    for (int64_t i = 0; i < count; i++) out[i] = (x[i] - mean) * factor * weight[i] + bias[i];
}

static void row_rms_norm(const float *x, const float *weight, double epsilon, float *out,
                         int64_t count) {
    const double mean = (double)squares_around(x, 0, count) / (double)count;
    const float factor = (float)(1.0 / sqrt(mean + epsilon));
    for (int64_t i = 0; i < count; i++) out[i] = x[i] * factor * weight[i];
}

static void row_activate(ota_activation activation, float *x, int64_t count) {
    switch (activation) {
    case OTA_GELU:
        for (int64_t i = 0; i < count; i++)
            x[i] = x[i] * 0.5F * (1.0F + row_erf(x[i] * 0x1.6a09e6p-1F));
        break;
    case OTA_GELU_TANH:
        for (int64_t i = 0; i < count; i++) {
            const float u = 0x1.988454p-1F * (x[i] + 0.044715F * x[i] * x[i] * x[i]);
            x[i] = x[i] / (1.0F + row_exp(-2.0F * u));
        }
        break;
    case OTA_RELU:
        for (int64_t i = 0; i < count; i++) x[i] = x[i] > 0 ? x[i] : 0;
        break;
    case OTA_SILU:
        for (int64_t i = 0; i < count; i++) x[i] = x[i] / (1.0F + row_exp(-x[i]));
        break;
    case OTA_TANH:
        for (int64_t i = 0; i < count; i++) x[i] = tanhf(x[i]);
        break;
    }
}

static void row_add(float *x, const float *y, int64_t count) {
    for (int64_t i = 0; i < count; i++) x[i] += y[i];
}

static void row_multiply(float *x, const float *y, int64_t count) {
    for (int64_t i = 0; i < count; i++) x[i] *= y[i];
}

#define OTA_DECODE(word, number, block, bytes, decode, ...) [OTA_STORED_##word] = decode,

const ota_ops OTA_TABLE = {
    .name = OTA_LEVEL,
    .decode = {OTA_ELEMENT_ROWS(OTA_DECODE)},
    .dot = row_dot,
    .combine = row_combine,
    .layer_norm = row_layer_norm,
    .rms_norm = row_rms_norm,
    .activate = row_activate,
    .add = row_add,
    .multiply = row_multiply,
};
