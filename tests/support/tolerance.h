/* tolerance.h: how far a computed plan may lie from the exact one. Every bound of the numeric policy is
 * written here once; tests name the bound and never a number.
 *
 *     u     unit roundoff of the arithmetic that was used (f32 2^-24, f64 2^-53, f16 2^-11, bf16 2^-8)
 *     B_i   max_j over open keys of (|scale| sum_k |q_ik||k_jk| + sum of |bias_ij|) / tau
 *     |out_i - exact| <= u A_i (8 + 4 B_i) + ulp / 2          A_i = sum_j P_ij |V_j|      softmax of Q, K
 *     bf16 in and out: + u_bf16 (A_i + |out_i|), the rounding of the weights
 *     |P_ij - exact|  <= u P_ij (8 + 3 |S_ij - max S_i| / tau)           softmax of bare scores
 *     |P_ij - exact|  <= u P_ij (8 + 4 B_i + 3 |S_ij - max S_i| / tau)   one weight of Q, K: both together
 *     K rounds of coupled columns: the same bound times K + 1
 *     Tsallis: the weight at its argument moved by the same rounding, up and down
 *
 * A solve that stopped at a residual r, instead of after K rounds, is as far from the optimum as its dual
 * is short of it: D* - D <= r mass |g* - g|, |g* - g| <= reach, and entropy is strongly convex in l1
 * (Pinsker), Tsallis of order <= 2 in l2:
 *
 *     |P - P*| <= sqrt(2 mass r mass reach / tau) */
#ifndef TESTS_TOLERANCE_H
#define TESTS_TOLERANCE_H

#include <float.h>
#include <math.h>
#include <stdbool.h>

#include "otattn.h"

static inline double unit_roundoff(ota_type type) {
    switch (type) {
    case OTA_F64: return 0x1p-53;
    case OTA_F32: return 0x1p-24;
    case OTA_F16: return 0x1p-11;
    case OTA_BF16: return 0x1p-8;
    default: return NAN;
    }
}

/* Smallest positive number of the type. */
static inline double smallest_step(ota_type type) {
    switch (type) {
    case OTA_F64: return 0x1p-1074;
    case OTA_F32: return 0x1p-149;
    case OTA_F16: return 0x1p-24;
    case OTA_BF16: return 0x1p-133;
    default: return NAN;
    }
}

/* What storing x in the type may change. */
static inline double storing(ota_type type, double x) {
    return unit_roundoff(type) * fabs(x) + smallest_step(type);
}

/* The factor of u A. `bound` is B. */
static inline double product_growth(double bound) { return 8.0 + 4.0 * bound; }

/* What weights add that are rounded before they meet V, as those of bf16 may be where the output is bf16 too, in units of
 * sum P |V| + |out|: the weights are divided by their own sum. */
static inline double narrow_weights(ota_type type, ota_type out_type) {
    return type == OTA_BF16 && out_type == OTA_BF16 ? unit_roundoff(OTA_BF16) : 0.0;
}

/* And of products that are rounded to 0 below the normal numbers, in units of sum |V|. */
static inline double flushed_products(ota_type type, ota_type out_type) {
    return narrow_weights(type, out_type) > 0.0 ? (double)FLT_MIN : 0.0;
}

/* What one weight adds whose score lies `below` the row's best, in units of tau. */
static inline double score_growth(double below) { return 3.0 * below; }

static inline bool is_entropy(double order) { return order >= 1.0 && order <= 1.0; }

/* How far one weight p may move when its score, in units of tau, is only known within growth * u. */
static inline double weight_slack(double order, double p, double mass, double u, double growth) {
    /* Weights below the normal range of the arithmetic keep absolute, not relative, accuracy. */
    const double least = 2.0 * (1.0 + mass) * (u > 0x1p-30 ? 0x1p-149 : 0x1p-1074);
    if (is_entropy(order)) return u * growth * p + least;
    const double power = 1.0 / (order - 1.0), step = fabs(order - 1.0) * u * growth;
    const double y = p > 0.0 ? pow(p, order - 1.0) : 0.0;
    const double above = pow(y + step, power), below = y > step ? pow(y - step, power) : 0.0;
    return fmax(fabs(above - p), fabs(p - below)) + u * growth * mass;
}

/* Distance of a plan that met residual r from the optimum (l1 for entropy, l2 for Tsallis). */
static inline double residual_distance(double residual, double mass, double reach, double tau) {
    return sqrt(2.0 * mass * residual * mass * reach / tau);
}

/* Row sums of a plan of n columns that ends on a row update [DER-26]. */
static inline double row_sum_slack(double u) { return 8.0 * u; }

/* Smallest residual that arithmetic with roundoff u can be asked for (numeric policy 3.5). */
static inline double residual_floor(double u, double range, double tau) {
    return 8.0 * u + u * range / (4.0 * tau);
}

/* Central differences of fourth order: the step, and rtol 1e-6, atol 1e-9 of numeric policy 3.3. */
static const double difference_step = 1.0e-3;
static inline double gradient_slack(double size) { return 1.0e-6 * size + 1.0e-9; }

/* The factor of u M in numeric policy 3.3: M is the gradient's own formula on absolute values. */
static inline double gradient_growth(double bound) { return 32.0 + 8.0 * bound; }

/* A product with the derivative against one with its transpose: both solve their linear systems to the relative
 * residual that numeric policy 3.3 asks of f64. `size`: sum of the absolute terms. */
static inline double adjoint_slack(double size) { return 1.0e-10 * size; }

/* Sums of a few hundred f64 terms of this size that cancel. */
static inline double cancelled_sum(double size) { return 64.0 * DBL_EPSILON * size; }

#endif
