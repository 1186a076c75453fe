/* Potential, duality, Fisher information and advantage of one softmax row: against differences,
 * expectations, elimination and the defining properties of the pseudo-inverse. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis_random.h"
#include "groups.h"
#include "held_memory.h"
#include "otattn_analysis.h"
#include "spec.h"

enum { MOST = 12 };

static const double u64 = 0x1p-53;

typedef struct row {
    int size;
    double temperature, s[MOST], p[MOST], u[MOST];
} row;

static row random_row(uint64_t *state) {
    row r = {.size = whole(state, 2, MOST), .temperature = decade(state, -0.5, 0.5)};
    for (int j = 0; j < r.size; j++) {
        r.s[j] = 2.0 * normal(state);
        r.u[j] = normal(state) + 5.0;
    }
    plain_softmax(r.s, r.size, r.temperature, r.p);
    return r;
}

static double potential(const double *s, int size, double temperature) {
    double value = (double)NAN;
    assert_int_equal(ota_softmax_potential(s, size, temperature, &value, NULL, NULL, NULL), OTA_OK);
    return value;
}

static void potential_and_its_gradient(void **unused) {
    (void)unused;
    uint64_t state = 1;
    double worst_gradient = 0.0, worst_hessian = 0.0;
    for (int draw = 0; draw < 100; draw++) {
        row r = random_row(&state);
        double phi, weights[MOST], jacobian[MOST * MOST];
        long double total = 0.0L;
        for (int j = 0; j < r.size; j++) total += expl((long double)r.s[j] / r.temperature);
        ota_softmax_potential(r.s, r.size, r.temperature, &phi, weights, NULL, NULL);
        spec_check("LIT-23", fabs(phi - (double)(r.temperature * logl(total))), 1e-14);
        ota_softmax_jacobian(r.p, r.size, r.temperature, jacobian, NULL, NULL);
        for (int j = 0; j < r.size; j++) {
            spec_check("LIT-23", fabs(weights[j] - r.p[j]), 4.0 * u64);
            const double h = 1e-6 * fmax(1.0, r.temperature), kept = r.s[j];
            double up[MOST], down[MOST], high, low;
            r.s[j] = kept + h;
            ota_softmax_potential(r.s, r.size, r.temperature, &high, up, NULL, NULL);
            r.s[j] = kept - h;
            ota_softmax_potential(r.s, r.size, r.temperature, &low, down, NULL, NULL);
            r.s[j] = kept;
            worst_gradient = fmax(worst_gradient, fabs((high - low) / (2.0 * h) - r.p[j]));
            for (int k = 0; k < r.size; k++) {
                const double slope = (up[k] - down[k]) / (2.0 * h);
                worst_hessian = fmax(worst_hessian, fabs(slope - jacobian[k * r.size + j]));
            }
        }
    }
    spec_check("LIT-23 LIT-22", worst_gradient, 1e-8);
    spec_check("LIT-18", worst_hessian, 1e-8);
    const double far[3] = {1e4, -1e4, 1e4}, huge[2] = {1e299, -1e299};
    spec_check("LIT-23", fabs(potential(far, 3, 1.0) - (1e4 + log(2.0))), 1e4 * u64);
    spec_check("LIT-23", fabs(potential(far, 3, 0.5) - (1e4 + 0.5 * log(2.0))), 1e4 * u64);
    assert_true(potential(huge, 2, 1.0) == 1e299);
}

/* Second differences of phi itself [Cor 7.5]. */
static void hessian_of_the_potential_is_the_scaled_fisher_matrix(void **unused) {
    (void)unused;
    uint64_t state = 2;
    double worst = 0.0;
    for (int draw = 0; draw < 30; draw++) {
        row r = random_row(&state);
        double fisher[MOST * MOST], jacobian[MOST * MOST];
        int64_t rank;
        ota_fisher_matrix(r.p, r.size, r.temperature, fisher, &rank, NULL, NULL);
        ota_softmax_jacobian(r.p, r.size, r.temperature, jacobian, NULL, NULL);
        const double h = 1e-4;
        for (int j = 0; j < r.size; j++) {
            for (int k = 0; k < r.size; k++) {
                double corner[4];
                for (int c = 0; c < 4; c++) {
                    double s[MOST];
                    memcpy(s, r.s, sizeof s);
                    s[j] += c & 1 ? h : -h;
                    s[k] += c & 2 ? h : -h;
                    corner[c] = potential(s, r.size, r.temperature);
                }
                const double second =
                    (corner[3] - corner[2] - corner[1] + corner[0]) / (4.0 * h * h);
                const int at = j * r.size + k;
                worst = fmax(worst, fabs(second - r.temperature * fisher[at]));
                spec_check("LIT-30", fabs(jacobian[at] - r.temperature * fisher[at]),
                           4.0 * u64 * fabs(jacobian[at]));
            }
        }
    }
    /* phi / h^2 roundings and h^2 of the fourth derivative. */
    spec_check("LIT-30", worst, 1e-6);
}

static void fisher_is_the_expectation_of_score_products(void **unused) {
    (void)unused;
    uint64_t state = 3;
    for (int draw = 0; draw < 100; draw++) {
        row r = random_row(&state);
        const double t = r.temperature;
        double fisher[MOST * MOST], x[MOST], product[MOST];
        int64_t rank;
        ota_fisher_matrix(r.p, r.size, t, fisher, &rank, NULL, NULL);
        spec_check("LIT-27", fabs((double)(rank - (r.size - 1))), 0.0);
        for (int j = 0; j < r.size; j++) x[j] = normal(&state);
        ota_fisher_product(r.p, x, r.size, t, product, NULL, NULL);
        double kernel = 0.0, form = 0.0, entry = 0.0, dense_error = 0.0;
        for (int j = 0; j < r.size; j++) {
            double sum = 0.0, dense = 0.0;
            for (int k = 0; k < r.size; k++) {
                double expectation = 0.0;
                for (int l = 0; l < r.size; l++) {
                    expectation += r.p[l] * ((l == j) - r.p[j]) / t * (((l == k) - r.p[k]) / t);
                }
                keep_worst(&entry, fabs(fisher[j * r.size + k] - expectation) * t * t);
                assert_true(fisher[j * r.size + k] == fisher[k * r.size + j]);
                sum += fisher[j * r.size + k];
                dense += fisher[j * r.size + k] * x[k];
            }
            kernel = fmax(kernel, fabs(sum) * t * t);
            keep_worst(&dense_error, fabs(dense - product[j]) * t * t);
            form += x[j] * product[j];
        }
        spec_check("LIT-27", entry, 1e-15);
        spec_check("LIT-27", dense_error, 1e-14);
        spec_check("LIT-27 LIT-18", kernel, 1e-15);
        assert_true(form >= 0.0);
    }
    const double corner[4] = {0.5, 0.0, 0.5, 0.0};
    int64_t rank;
    ota_fisher_matrix(corner, 4, 1.0, NULL, &rank, NULL, NULL);
    spec_check("LIT-27", fabs((double)(rank - 1)), 0.0);
}

/* L(s) = <c, p(s)>^2 / 2, so u = -<c,p> c. */
static void gradient_is_the_advantage(void **unused) {
    (void)unused;
    uint64_t state = 4;
    double worst = 0.0;
    for (int draw = 0; draw < 100; draw++) {
        row r = random_row(&state);
        double c[MOST], advantage[MOST], gradient[MOST], product[MOST], dot = 0.0, sum = 0.0;
        for (int j = 0; j < r.size; j++) c[j] = normal(&state);
        for (int j = 0; j < r.size; j++) dot += c[j] * r.p[j];
        for (int j = 0; j < r.size; j++) r.u[j] = -dot * c[j];
        ota_advantage(r.p, r.u, r.size, r.temperature, advantage, gradient, NULL, NULL);
        ota_fisher_product(r.p, r.u, r.size, r.temperature, product, NULL, NULL);
        double balance = 0.0;
        for (int j = 0; j < r.size; j++) {
            double value[2];
            for (int side = 0; side < 2; side++) {
                double s[MOST], p[MOST], here = 0.0;
                memcpy(s, r.s, sizeof s);
                s[j] += side ? 1e-6 : -1e-6;
                plain_softmax(s, r.size, r.temperature, p);
                for (int k = 0; k < r.size; k++) here += c[k] * p[k];
                value[side] = 0.5 * here * here;
            }
            worst = fmax(worst, fabs((value[1] - value[0]) / 2e-6 - gradient[j]));
            /* A step against the gradient raises s_j exactly where the advantage is positive. */
            spec_check_true("LIT-19", (-gradient[j] > 0.0) == (advantage[j] > 0.0));
            spec_check("LIT-28", fabs(gradient[j] + r.temperature * product[j]),
                       1e-15 * fmax(1.0, 1.0 / r.temperature));
            balance += r.p[j] * advantage[j];
            sum += gradient[j];
        }
        spec_check("LIT-19", fabs(balance), 1e-14);
        spec_check("LIT-17", fabs(sum), 1e-14);
    }
    spec_check("LIT-17 LIT-28", worst, 1e-8);
    /* A common shift of the utilities changes nothing, and saturation keeps small advantages. */
    const double p[3] = {1.0, 1e-30, 2e-30}, u[3] = {7.0, 8.0, 5.0};
    double advantage[3];
    ota_advantage(p, u, 3, 1.0, advantage, NULL, NULL, NULL);
    spec_check("LIT-19", fabs(advantage[0] / 3e-30 - 1.0), 4.0 * u64);
}

/* x is the pseudo-inverse's answer if F x = -gradient and x is orthogonal to the kernel of F, the constant
 * vector on p > 0 and all vectors off it. */
static void natural_gradient_is_the_pseudo_inverse(void **unused) {
    (void)unused;
    uint64_t state = 5;
    for (int draw = 0; draw < 100; draw++) {
        row r = random_row(&state);
        const double t = r.temperature;
        if (draw % 3 == 0) {
            r.p[0] += r.p[1];
            r.p[1] = 0.0;
        }
        double step[MOST], gradient[MOST], product[MOST], sum = 0.0;
        ota_natural_gradient(r.p, r.u, r.size, t, step, NULL, NULL);
        ota_advantage(r.p, r.u, r.size, t, NULL, gradient, NULL, NULL);
        ota_fisher_product(r.p, step, r.size, t, product, NULL, NULL);
        for (int j = 0; j < r.size; j++) {
            spec_check("LIT-29", fabs(product[j] + gradient[j]) * t, 1e-14);
            if (r.p[j] == 0.0) assert_true(step[j] == 0.0);
            sum += step[j];
        }
        spec_check("LIT-29", fabs(sum) / t, 1e-13);
        if (draw % 3 == 0) continue;
        /* Every representative tau u + c moves p alike. */
        double moved[MOST], other[MOST], p[MOST], q[MOST];
        for (int j = 0; j < r.size; j++) {
            moved[j] = r.s[j] + 0.1 * step[j];
            other[j] = r.s[j] + 0.1 * (t * r.u[j] + 3.0);
        }
        plain_softmax(moved, r.size, t, p);
        plain_softmax(other, r.size, t, q);
        for (int j = 0; j < r.size; j++) spec_check("LIT-29", fabs(p[j] - q[j]), 1e-14);
    }
    const double saturated[3] = {1.0, 1e-300, 0x1p-1070}, u[3] = {1.0, 2.0, 6.0};
    double step[3];
    ota_natural_gradient(saturated, u, 3, 2.0, step, NULL, NULL);
    spec_check("LIT-29", fabs(step[0] + 4.0) + fabs(step[1] + 2.0) + fabs(step[2] - 6.0), 1e-14);
}

/* Smallest pivot over largest of elimination with complete pivoting. */
static double pivot_ratio(double *a, int n) {
    double first = 0.0, last = 0.0;
    for (int k = 0; k < n; k++) {
        int row = k, column = k;
        for (int i = k; i < n; i++) {
            for (int j = k; j < n; j++) {
                if (fabs(a[i * n + j]) > fabs(a[row * n + column])) row = i, column = j;
            }
        }
        for (int j = 0; j < n; j++) {
            const double swap = a[k * n + j];
            a[k * n + j] = a[row * n + j], a[row * n + j] = swap;
        }
        for (int i = 0; i < n; i++) {
            const double swap = a[i * n + k];
            a[i * n + k] = a[i * n + column], a[i * n + column] = swap;
        }
        last = fabs(a[k * n + k]);
        if (k == 0) first = last;
        for (int i = k + 1; i < n && last > 0.0; i++) {
            const double factor = a[i * n + k] / a[k * n + k];
            for (int j = k; j < n; j++) a[i * n + j] -= factor * a[k * n + j];
        }
    }
    return last / first;
}

/* Errata E23: the printed F^-1 does not exist, and damping is no way around it. */
static void printed_inverse_fails(void **unused) {
    (void)unused;
    uint64_t state = 6;
    for (int draw = 0; draw < 20; draw++) {
        row r = random_row(&state);
        double fisher[MOST * MOST];
        ota_fisher_matrix(r.p, r.size, r.temperature, fisher, NULL, NULL, NULL);
        spec_check("LIT-29", pivot_ratio(fisher, r.size), 1e-15 * r.size);
    }
    /* With two symbols F has the eigenvalue 2 p_1 p_2 along (1,-1), to which damping adds 1e-2. */
    const double p[2] = {0.9999, 1e-4}, u[2] = {0.0, 1.0};
    double gradient[2], step[2];
    ota_advantage(p, u, 2, 1.0, NULL, gradient, NULL, NULL);
    ota_natural_gradient(p, u, 2, 1.0, step, NULL, NULL);
    const double damped = -gradient[1] / (2.0 * p[0] * p[1] + 1e-2);
    assert_true(fabs(damped - step[1]) > 0.4);
}

static void duality(void **unused) {
    (void)unused;
    uint64_t state = 7;
    for (int draw = 0; draw < 200; draw++) {
        row r = random_row(&state);
        const double t = r.temperature, phi = potential(r.s, r.size, t);
        double primal, dual, other;
        ota_softmax_objective(r.p, r.s, r.size, t, &primal, NULL, NULL);
        ota_softmax_dual(r.s, r.size, t, t - phi, &dual, NULL, NULL);
        spec_check("LIT-22 LIT-24", fabs(primal + phi), 1e-13);
        spec_check("LIT-24", fabs(dual + phi), 1e-13);
        ota_softmax_dual(r.s, r.size, t, t - phi + normal(&state), &other, NULL, NULL);
        spec_check("LIT-24", other - dual, 1e-13);
        double q[MOST], worse, x[MOST] = {0.0};
        for (int j = 0; j < r.size; j++) x[j] = 2.0 * normal(&state);
        plain_softmax(x, r.size, 1.0, q);
        ota_softmax_objective(q, r.s, r.size, t, &worse, NULL, NULL);
        spec_check("LIT-22", primal - worse, 0.0);
        /* Errata E25: Remark 6.4 prints the optimal dual value as +phi. */
        if (fabs(phi) > 1e-3) assert_true(fabs(dual - phi) > 1e-3);
    }
}

static void fenchel(void **unused) {
    (void)unused;
    uint64_t state = 8;
    for (int draw = 0; draw < 200; draw++) {
        row r = random_row(&state);
        const double t = r.temperature;
        double x[MOST] = {0.0}, q[MOST], wanted = 0.0;
        for (int j = 0; j < r.size; j++) x[j] = 2.0 * normal(&state);
        plain_softmax(x, r.size, 1.0, q);
        for (int j = 0; j < r.size; j++) wanted += t * q[j] * log(q[j] / r.p[j]);
        ota_fenchel f;
        assert_int_equal(ota_fenchel_of(q, r.s, r.size, t, &f, NULL, NULL), OTA_OK);
        spec_check("LIT-25", fabs(f.gap - wanted), 1e-13);
        spec_check("LIT-25", fabs(f.divergence - wanted), 1e-13);
        spec_check("LIT-25", -f.divergence, 0.0);
        assert_true(f.spread > 1e-3);
        ota_fenchel_of(r.p, r.s, r.size, t, &f, NULL, NULL);
        spec_check("LIT-25", fabs(f.gap) + f.divergence, 1e-13);
        spec_check("LIT-26", f.spread, 1e-13);
        const double phi = potential(r.s, r.size, t);
        spec_check("LIT-26", fabs(f.level - (phi - t)), 1e-13);
        /* Errata E24: the printed s = grad f(p*) would make the level 0. */
        if (fabs(phi - t) > 1e-3) assert_true(fabs(f.level) > 1e-4);
    }
    const double corner[3] = {1.0, 0.0, 0.0}, s[3] = {1.0, 0.0, 0.0};
    ota_fenchel f;
    ota_fenchel_of(corner, s, 3, 1.0, &f, NULL, NULL);
    spec_check("LIT-25", fabs(f.gap - f.divergence), 4.0 * u64);
    /* Symbols without weight have no level: s_0 - t (log 1 + 1) is the only one. */
    spec_check("LIT-26", fabs(f.level) + fabs(f.spread), 0.0);
}

static void golden(void **unused) {
    (void)unused;
    const double s[4] = {1.0, 0.5, 0.2, -1.0};
    const double wanted[4] = {0.45637199902896, 0.276803609645408, 0.205061157575788,
                              0.061763233749843};
    double phi, p[4];
    ota_softmax_potential(s, 4, 1.0, &phi, p, NULL, NULL);
    spec_check("LIT-23", fabs(phi - 1.784447014697176), 1e-15);
    for (int j = 0; j < 4; j++) spec_check("LIT-23", fabs(p[j] - wanted[j]), 1e-15);
    /* Backward of row 0 of the golden scores for dL/dp = (1,2,3). */
    const double row0[3] = {0.576116884765829, 0.211941557617085, 0.211941557617085};
    const double u[3] = {-1.0, -2.0, -3.0};
    const double slope[3] = {-0.366309329780318, 0.077183886081616, 0.289125443698702};
    double gradient[3];
    assert_int_equal(ota_advantage(row0, u, 3, 1.0, NULL, gradient, NULL, NULL), OTA_OK);
    for (int j = 0; j < 3; j++) spec_check("LIT-17 LIT-19", fabs(gradient[j] - slope[j]), 2e-15);
}

static void refusals(void **unused) {
    (void)unused;
    const double fine[2] = {0.5, 0.5}, many[2] = {0.5, 0.6}, negative[2] = {1.5, -0.5};
    const double nan2[2] = {(double)NAN, 1.0};
    double out[4] = {-7.0, -7.0, -7.0, -7.0};
    ota_fenchel f;
    ota_error error;
    assert_int_equal(ota_softmax_potential(nan2, 2, 1.0, out, NULL, NULL, &error), OTA_EINVAL);
    assert_string_equal(error.field, "scores");
    assert_int_equal(ota_softmax_potential(fine, 2, -1.0, out, NULL, NULL, &error), OTA_EINVAL);
    assert_string_equal(error.field, "temperature");
    assert_int_equal(ota_softmax_potential(fine, 0, 1.0, out, NULL, NULL, NULL), OTA_EINVAL);
    assert_int_equal(ota_softmax_objective(many, fine, 2, 1.0, out, NULL, &error), OTA_EINVAL);
    assert_string_equal(error.field, "p");
    assert_int_equal(ota_softmax_dual(fine, 2, 1.0, (double)NAN, out, NULL, NULL), OTA_EINVAL);
    assert_int_equal(ota_fenchel_of(negative, fine, 2, 1.0, &f, NULL, NULL), OTA_EINVAL);
    assert_int_equal(ota_advantage(fine, nan2, 2, 1.0, out, NULL, NULL, &error), OTA_EINVAL);
    assert_string_equal(error.field, "utility");
    assert_int_equal(ota_fisher_product(many, fine, 2, 1.0, out, NULL, NULL), OTA_EINVAL);
    assert_int_equal(ota_fisher_matrix(nan2, 2, 1.0, out, NULL, NULL, NULL), OTA_EINVAL);
    assert_int_equal(ota_softmax_jacobian(fine, 2, 0.0, out, NULL, NULL), OTA_EINVAL);
    assert_int_equal(ota_natural_gradient(fine, nan2, 2, 1.0, out, NULL, NULL), OTA_EINVAL);
    for (int j = 0; j < 4; j++) assert_true(out[j] == -7.0);
}

TEST_FILE(test_geometry) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden),
        cmocka_unit_test(potential_and_its_gradient),
        cmocka_unit_test(hessian_of_the_potential_is_the_scaled_fisher_matrix),
        cmocka_unit_test(fisher_is_the_expectation_of_score_products),
        cmocka_unit_test(gradient_is_the_advantage),
        cmocka_unit_test(natural_gradient_is_the_pseudo_inverse),
        cmocka_unit_test(printed_inverse_fails),
        cmocka_unit_test(duality),
        cmocka_unit_test(fenchel),
        cmocka_unit_test(refusals),
    };
    return run_and_hold(tests, sizeof tests / sizeof tests[0]);
}
