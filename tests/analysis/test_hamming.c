/* Hamming transport against golden values, dense loops and its limits. */
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

enum { SMALL = 40, VOCABULARY = 50257 };

static const double u64 = 0x1p-53;

static void random_softmax(uint64_t *state, double spread, double *p, int64_t size) {
    double total = 0.0;
    for (int64_t i = 0; i < size; i++) total += p[i] = exp(spread * normal(state));
    for (int64_t i = 0; i < size; i++) p[i] /= total;
}

static void golden(void **unused) {
    (void)unused;
    static const double p[3] = {.5, .3, .2}, q[3] = {.2, .2, .6};
    static const struct {
        double epsilon, theta, objective;
    } table[] = {{1.0, 0.421374406083056, -1.340648767474543},
                 {0.1, 1.816340682940042e-05, 0.244285664000689}};
    for (int k = 0; k < 2; k++) {
        ota_hamming_result result;
        double u[3], v[3];
        assert_int_equal(
            ota_hamming_divergence(
                p, q, 3, table[k].epsilon,
                &(ota_hamming_options){.size = sizeof(ota_hamming_options), .u = u, .v = v},
                &result, NULL, NULL),
            OTA_OK);
        /* The golden values are printed with 15 decimals. */
        spec_check("DER-05", fabs(result.theta - table[k].theta), 2e-15);
        spec_check("DER-05", fabs(result.objective - table[k].objective), 2e-15);
        spec_check("TOT-36 TOT-72", fabs(result.tv - 0.4), 2.0 * u64);
        const double first = u[0] * v[0], alpha = exp(-1.0 / table[k].epsilon);
        const double wanted[2][2] = {{0.154536932789781, 0.071947382475922},
                                     {1.999969721323152e-01, 2.722746311463741e-05}};
        spec_check("DER-05", fabs(first - wanted[k][0]), 2e-15);
        spec_check("DER-05", fabs(alpha * u[0] * v[1] - wanted[k][1]), 2e-15);
    }
}

static void matvec_equals_dense(void **unused) {
    (void)unused;
    enum { SIZE = 500 };
    static double x[SIZE], y[SIZE];
    uint64_t state = 3;
    const double epsilons[] = {0.05, 0.3, 1.0, 5.0};
    double worst = 0.0;
    for (int e = 0; e < 4; e++) {
        const double alpha = exp(-1.0 / epsilons[e]);
        double size = 0.0;
        for (int i = 0; i < SIZE; i++) size += fabs(x[i] = normal(&state));
        ota_hamming_matvec(epsilons[e], x, y, SIZE);
        for (int i = 0; i < SIZE; i++) {
            double dense = 0.0;
            for (int j = 0; j < SIZE; j++) dense += (i == j ? 1.0 : alpha) * x[j];
            worst = fmax(worst, fabs(dense - y[i]) / size);
        }
    }
    spec_check("TOT-15", worst, 1e-14);
    ota_hamming_matvec(0.3, x, x, SIZE);
    assert_true(isfinite(x[0]));
}

/* Dense plan of the scalings: its marginals, cost and objective by double loops. */
static void scalings_are_the_dense_plan(void **unused) {
    (void)unused;
    uint64_t state = 11;
    for (int draw = 0; draw < 200; draw++) {
        double p[SMALL], q[SMALL], u[SMALL], v[SMALL];
        const double epsilon = pow(10.0, 2.5 * uniform(&state) - 1.5);
        random_softmax(&state, 1.0 + 3.0 * uniform(&state), p, SMALL);
        random_softmax(&state, 1.0, q, SMALL);
        if (draw % 4 == 0) {
            /* Symbols that one side, or neither, uses. */
            for (int i = 0; i < 6; i++) p[i + 1] += p[i], p[i] = 0.0;
            for (int i = 3; i < 9; i++) q[i + 1] += q[i], q[i] = 0.0;
        }
        for (int solver = 0; solver < 2; solver++) {
            ota_hamming_result result;
            const ota_status status =
                ota_hamming(p, q, SMALL, epsilon,
                            &(ota_hamming_options){.size = sizeof(ota_hamming_options),
                                                   .solver = (ota_hamming_solver)solver,
                                                   .tolerance = 1e-12,
                                                   .max_rounds = 100000,
                                                   .u = u,
                                                   .v = v},
                            &result, NULL, NULL);
            if (solver == OTA_HAMMING_SINKHORN && status == OTA_NOT_CONVERGED) continue;
            assert_int_equal(status, OTA_OK);
            const double alpha = exp(-1.0 / epsilon);
            double cost = 0.0, objective = 0.0, wrong = 0.0, columns[SMALL] = {0.0};
            for (int i = 0; i < SMALL; i++) {
                double row = 0.0;
                for (int j = 0; j < SMALL; j++) {
                    const double weight = u[i] * (i == j ? 1.0 : alpha) * v[j];
                    row += weight;
                    columns[j] += weight;
                    if (i != j) cost += weight;
                    if (weight > 0.0) objective += epsilon * weight * log(weight);
                }
                wrong += fabs(row - p[i]);
            }
            for (int j = 0; j < SMALL; j++) wrong += fabs(columns[j] - q[j]);
            spec_check("DER-05 TOT-16", wrong, solver == OTA_HAMMING_NEWTON ? 1e-13 : 3e-12);
            spec_check("TOT-18", fabs(cost - result.cost), 1e-13);
            spec_check("TOT-18", result.tv - result.cost, 1e-12);
            spec_check("TOT-16", fabs(cost + objective - result.objective),
                       1e-12 * (1.0 + epsilon * 10.0));
        }
    }
}

/* Plain Sinkhorn on the dense cost 1 - [i = j] ends at the same plan. */
static void sinkhorn_equals_dense(void **unused) {
    (void)unused;
    const double epsilons[] = {0.2, 0.5, 1.0, 3.0};
    uint64_t state = 41;
    for (int e = 0; e < 4; e++) {
        const double alpha = exp(-1.0 / epsilons[e]);
        double p[SMALL], q[SMALL], u[SMALL], v[SMALL], left[SMALL], right[SMALL], worst = 0.0;
        random_softmax(&state, 1.0, p, SMALL);
        random_softmax(&state, 1.5, q, SMALL);
        ota_hamming_result result;
        assert_int_equal(ota_hamming(p, q, SMALL, epsilons[e],
                                     &(ota_hamming_options){.size = sizeof(ota_hamming_options),
                                                            .solver = OTA_HAMMING_SINKHORN,
                                                            .tolerance = 1e-14,
                                                            .u = u,
                                                            .v = v},
                                     &result, NULL, NULL),
                         OTA_OK);
        for (int i = 0; i < SMALL; i++) left[i] = right[i] = 1.0;
        for (int half = 0; half < 2000; half++) {
            double *now = half % 2 == 0 ? left : right;
            const double *other = half % 2 == 0 ? right : left, *mass = half % 2 == 0 ? p : q;
            for (int i = 0; i < SMALL; i++) {
                double sum = 0.0;
                for (int j = 0; j < SMALL; j++) sum += (i == j ? 1.0 : alpha) * other[j];
                now[i] = mass[i] / sum;
            }
        }
        for (int i = 0; i < SMALL; i++) {
            for (int j = 0; j < SMALL; j++)
                worst =
                    fmax(worst, (i == j ? 1.0 : alpha) * fabs(u[i] * v[j] - left[i] * right[j]));
        }
        spec_check("TOT-16", worst, 1e-12);
    }
}

/* ||P 1 - p||_1 + ||P^T 1 - q||_1 for p and q of sum 1, to more digits than they have. alpha is the double nearest to what
 * the double 1 / epsilon gives: half a digit of epsilon moves it by 1 / epsilon as much. */
static double marginal_error(const double *p, const double *q, const double *u, const double *v,
                             int64_t size, double epsilon) {
    const long double alpha = exp(-1.0 / epsilon);
    long double left = 0.0L, right = 0.0L, whole_p = 0.0L, whole_q = 0.0L, wrong = 0.0L;
    for (int64_t i = 0; i < size; i++) {
        left += u[i], right += v[i];
        whole_p += p[i], whole_q += q[i];
    }
    for (int64_t i = 0; i < size; i++) {
        wrong += fabsl((long double)u[i] * (v[i] + alpha * (right - v[i])) - p[i] / whole_p);
        wrong += fabsl((long double)v[i] * (u[i] + alpha * (left - u[i])) - q[i] / whole_q);
    }
    return (double)wrong;
}

/* The largest that the root can be [DER-28]. */
static double upper_start(const double *p, const double *q, int64_t size, double epsilon) {
    const double k = expm1(1.0 / epsilon);
    double roots = 0.0, tv = 0.0;
    for (int64_t i = 0; i < size; i++) {
        roots += sqrt(fmin(p[i], q[i]));
        tv += 0.5 * fabs(p[i] - q[i]);
    }
    const double root = (roots + sqrt(roots * roots + 4.0 * k * tv)) / (2.0 * k);
    return fmin(1.0 / k, root * root);
}

static void large_vocabulary(void **unused) {
    (void)unused;
    double *p = malloc(sizeof *p * VOCABULARY), *q = malloc(sizeof *q * VOCABULARY);
    double *u = malloc(sizeof *u * VOCABULARY), *v = malloc(sizeof *v * VOCABULARY);
    assert_true(p != NULL && q != NULL && u != NULL && v != NULL);
    uint64_t state = 29;
    const double epsilons[] = {0.003, 0.01, 0.1, 0.5, 1.0, 2.0};
    for (int e = 0; e < 6; e++) {
        random_softmax(&state, 1.0, p, VOCABULARY);
        random_softmax(&state, 2.0, q, VOCABULARY);
        ota_hamming_result result;
        assert_int_equal(
            ota_hamming(p, q, VOCABULARY, epsilons[e],
                        &(ota_hamming_options){.size = sizeof(ota_hamming_options), .u = u, .v = v},
                        &result, NULL, NULL),
            OTA_OK);
        spec_check("DER-05", marginal_error(p, q, u, v, VOCABULARY, epsilons[e]), 2e-15);
        spec_check("DER-05", result.marginal_error, 2e-15);
        const double start = upper_start(p, q, VOCABULARY, epsilons[e]);
        spec_check("DER-28", result.theta / start - 1.0, 1e-13);
    }
    ota_hamming_result result;
    assert_int_equal(ota_hamming(p, q, VOCABULARY, 1.0,
                                 &(ota_hamming_options){.size = sizeof(ota_hamming_options),
                                                        .solver = OTA_HAMMING_SINKHORN,
                                                        .tolerance = 1e-10,
                                                        .u = u,
                                                        .v = v},
                                 &result, NULL, NULL),
                     OTA_OK);
    spec_check("TOT-16", marginal_error(p, q, u, v, VOCABULARY, 1.0), 1e-10);
    spec_check("TOT-16", result.marginal_error, 1e-10);
    free(p), free(q), free(u), free(v);
}

/* The requirement's own case: V = 1000, uniform on the simplex. */
static void equal_distributions_take_few_steps(void **unused) {
    (void)unused;
    enum { SIZE = 1000 };
    static double p[SIZE];
    uint64_t state = 17;
    const double epsilons[] = {1.0, 0.1, 0.02, 0.01, 0.003, 0.0015};
    for (int e = 0; e < 6; e++) {
        double total = 0.0;
        for (int i = 0; i < SIZE; i++) total += p[i] = -log(uniform(&state));
        for (int i = 0; i < SIZE; i++) p[i] /= total;
        ota_hamming_result result;
        assert_int_equal(ota_hamming(p, p, SIZE, epsilons[e], NULL, &result, NULL, NULL), OTA_OK);
        spec_check("DER-28", (double)result.rounds, 4.0);
        spec_check("DER-28", result.marginal_error, 2e-15);
    }
}

/* All mass of both on one symbol, whichever it is: the plan is that one pair. */
static void one_symbol_stays_where_it_is(void **unused) {
    (void)unused;
    enum { SIZE = 5 };
    static const double epsilons[] = {0.02, 0.3, 1.0, 10.0};
    for (int size = 1; size <= SIZE; size++) {
        for (int place = 0; place < 4 * size; place++) {
            double p[SIZE] = {0.0}, u[SIZE], v[SIZE];
            const int symbol = place % size;
            const double epsilon = epsilons[place / size];
            ota_hamming_result result;
            p[symbol] = 1.0;
            assert_int_equal(ota_hamming(p, p, size, epsilon,
                                         &(ota_hamming_options){
                                             .size = sizeof(ota_hamming_options), .u = u, .v = v},
                                         &result, NULL, NULL),
                             OTA_OK);
            spec_check("DER-05", (double)result.rounds, 5.0);
            spec_check("DER-05", fabs(u[symbol] * v[symbol] - 1.0), 8.0 * u64);
            spec_check("TOT-18", fabs(result.cost), 0.0);
            spec_check("DER-05", fabs(result.objective), 8.0 * u64 * fmax(1.0, epsilon));
            spec_check("DER-05", result.marginal_error, 8.0 * u64);
            assert_true(result.theta > 0.0);
            for (int i = 0; i < size; i++) assert_true(i == symbol || u[i] * v[i] == 0.0);
        }
    }
}

static void divergence_limits(void **unused) {
    (void)unused;
    double p[SMALL], q[SMALL];
    ota_hamming_result result;
    uint64_t state = 5;
    for (int draw = 0; draw < 50; draw++) {
        random_softmax(&state, 1.0, p, SMALL);
        random_softmax(&state, 1.5, q, SMALL);
        double tv = 0.0;
        for (int i = 0; i < SMALL; i++) tv += 0.5 * fabs(p[i] - q[i]);
        /* The entropy of the plan is at most log V^2, so the limit is reached at that rate in epsilon;
         * below 1/700 the closed form takes over. */
        const double epsilons[] = {1e-3, 1.4e-3, 1.5e-3, 1e-2};
        for (int e = 0; e < 4; e++) {
            ota_hamming_divergence(p, q, SMALL, epsilons[e], NULL, &result, NULL, NULL);
            spec_check("TOT-17", fabs(result.divergence - tv), epsilons[e] * 2.0 * log(SMALL));
        }
        ota_hamming_divergence(p, p, SMALL, 0.2, NULL, &result, NULL, NULL);
        spec_check("TOT-17", fabs(result.divergence), 0.0);
        for (int e = -2; e < 3; e++) {
            ota_hamming_divergence(p, q, SMALL, pow(10.0, e), NULL, &result, NULL, NULL);
            spec_check("TOT-17", -result.divergence, 1e-13 * fmax(1.0, pow(10.0, e)));
        }
    }
}

static void disjoint_and_equal(void **unused) {
    (void)unused;
    const double p[4] = {.5, .5, 0, 0}, q[4] = {0, 0, .25, .75};
    const double epsilons[] = {1e-3, 0.01, 0.1, 1.0, 1e6};
    for (int e = 0; e < 5; e++) {
        ota_hamming_result result;
        double u[4], v[4];
        assert_int_equal(
            ota_hamming(p, q, 4, epsilons[e],
                        &(ota_hamming_options){.size = sizeof(ota_hamming_options), .u = u, .v = v},
                        &result, NULL, NULL),
            OTA_OK);
        spec_check("DER-05 DER-28", fabs(result.cost - 1.0), 4.0 * u64);
        assert_int_equal(
            ota_hamming(p, p, 4, epsilons[e],
                        &(ota_hamming_options){.size = sizeof(ota_hamming_options), .u = u, .v = v},
                        &result, NULL, NULL),
            OTA_OK);
        assert_true(result.cost >= 0.0 && result.tv <= 0.0 && isfinite(result.objective));
    }
}

/* The trace of one walk tells what walks to each tolerance count, with the same bits. */
static void errors_of_all_rounds(void **unused) {
    (void)unused;
    enum { MOST = 60 };
    uint64_t state = 11;
    double p[SMALL], q[SMALL], u[SMALL], v[SMALL], all_u[SMALL], all_v[SMALL], errors[MOST];
    for (int64_t size = 1; size <= SMALL; size++) {
        random_softmax(&state, 1.0, p, size);
        random_softmax(&state, 1.0, q, size);
        ota_hamming_result whole, part;
        const ota_status status =
            ota_hamming(p, q, size, 0.4,
                        &(ota_hamming_options){.size = sizeof(ota_hamming_options),
                                               .solver = OTA_HAMMING_SINKHORN,
                                               .tolerance = 1e-12,
                                               .max_rounds = MOST,
                                               .u = all_u,
                                               .v = all_v,
                                               .errors = errors},
                        &whole, NULL, NULL);
        assert_true(status == OTA_OK || status == OTA_NOT_CONVERGED);
        for (double tolerance = 1.0; tolerance > 5e-12; tolerance *= 0.1) {
            int64_t rounds = 0;
            while (rounds < whole.rounds && !(errors[rounds] <= tolerance)) rounds++;
            const ota_status one =
                ota_hamming(p, q, size, 0.4,
                            &(ota_hamming_options){.size = sizeof(ota_hamming_options),
                                                   .solver = OTA_HAMMING_SINKHORN,
                                                   .tolerance = tolerance,
                                                   .max_rounds = MOST,
                                                   .u = u,
                                                   .v = v},
                            &part, NULL, NULL);
            assert_int_equal(one, rounds < whole.rounds ? OTA_OK : OTA_NOT_CONVERGED);
            assert_int_equal(part.rounds, rounds < whole.rounds ? rounds + 1 : MOST);
            if (one == OTA_OK) assert_true(fabs(part.marginal_error - errors[rounds]) <= 4e-15);
        }
        assert_int_equal(ota_hamming(p, q, size, 0.4,
                                     &(ota_hamming_options){.size = sizeof(ota_hamming_options),
                                                            .solver = OTA_HAMMING_SINKHORN,
                                                            .tolerance = 1e-12,
                                                            .max_rounds = MOST,
                                                            .u = u,
                                                            .v = v},
                                     &part, NULL, NULL),
                         status);
        assert_memory_equal(u, all_u, (size_t)size * sizeof *u);
        assert_memory_equal(v, all_v, (size_t)size * sizeof *v);
    }
    ota_error error;
    ota_hamming_result none;
    assert_int_equal(ota_hamming(p, q, SMALL, 0.4,
                                 &(ota_hamming_options){.size = sizeof(ota_hamming_options),
                                                        .solver = OTA_HAMMING_SINKHORN,
                                                        .u = u,
                                                        .v = v,
                                                        .errors = errors},
                                 &none, NULL, &error),
                     OTA_EINVAL);
    assert_string_equal(error.field, "max_rounds");
    /* A flag that is up ends either solver before its first step. */
    const int up = 1;
    for (int solver = OTA_HAMMING_NEWTON; solver <= OTA_HAMMING_SINKHORN; solver++)
        assert_int_equal(ota_hamming(p, q, SMALL, 0.4,
                                     &(ota_hamming_options){.size = sizeof(ota_hamming_options),
                                                            .solver = (ota_hamming_solver)solver,
                                                            .max_rounds = MOST,
                                                            .u = u,
                                                            .v = v},
                                     &none,
                                     &(ota_analysis_options){.size = sizeof(ota_analysis_options),
                                                             .cancel = &up},
                                     &error),
                         OTA_CANCELLED);
    assert_int_equal(ota_hamming(p, q, SMALL, 0.4,
                                 &(ota_hamming_options){.size = sizeof(ota_hamming_options),
                                                        .max_rounds = MOST,
                                                        .errors = errors},
                                 &none, NULL, &error),
                     OTA_EINVAL);
    assert_string_equal(error.field, "errors");
    const ota_hamming_options sizeless = {.max_rounds = MOST};
    assert_int_equal(ota_hamming(p, q, SMALL, 0.4, &sizeless, &none, NULL, &error), OTA_EINVAL);
    assert_string_equal(error.field, "options.size");
}

static void refusals(void **unused) {
    (void)unused;
    const double p[2] = {.5, .5}, negative[2] = {1.5, -.5}, heavy[2] = {.5, .6},
                 none[2] = {.5, (double)NAN};
    ota_hamming_result result;
    ota_error error;
    assert_int_equal(ota_hamming(p, negative, 2, 1.0, NULL, &result, NULL, &error), OTA_EINVAL);
    assert_string_equal(error.field, "q");
    assert_int_equal(ota_hamming(heavy, p, 2, 1.0, NULL, &result, NULL, &error), OTA_EINVAL);
    assert_string_equal(error.field, "p");
    assert_int_equal(ota_hamming(p, none, 2, 1.0, NULL, &result, NULL, &error), OTA_EINVAL);
    assert_int_equal(ota_hamming(p, p, 2, 0.0, NULL, &result, NULL, &error), OTA_EINVAL);
    assert_string_equal(error.field, "epsilon");
    assert_int_equal(ota_hamming(p, p, 0, 1.0, NULL, &result, NULL, &error), OTA_EINVAL);
    double u[2], v[2];
    double *const scalings[][2] = {{NULL, NULL}, {u, NULL}, {NULL, v}};
    for (int k = 0; k < 3; k++) {
        assert_int_equal(ota_hamming(p, p, 2, 1.0,
                                     &(ota_hamming_options){.size = sizeof(ota_hamming_options),
                                                            .solver = OTA_HAMMING_SINKHORN,
                                                            .u = scalings[k][0],
                                                            .v = scalings[k][1]},
                                     &result, NULL, &error),
                         OTA_EINVAL);
        assert_string_equal(error.field, "u");
    }
    const double q[2] = {.9, .1};
    assert_int_equal(ota_hamming(p, q, 2, 0.05,
                                 &(ota_hamming_options){.size = sizeof(ota_hamming_options),
                                                        .solver = OTA_HAMMING_SINKHORN,
                                                        .tolerance = 1e-12,
                                                        .max_rounds = 3,
                                                        .u = u,
                                                        .v = v},
                                 &result, NULL, &error),
                     OTA_NOT_CONVERGED);
    assert_int_equal(result.rounds, 3);
}

TEST_FILE(test_hamming) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden),
        cmocka_unit_test(matvec_equals_dense),
        cmocka_unit_test(scalings_are_the_dense_plan),
        cmocka_unit_test(sinkhorn_equals_dense),
        cmocka_unit_test(large_vocabulary),
        cmocka_unit_test(equal_distributions_take_few_steps),
        cmocka_unit_test(one_symbol_stays_where_it_is),
        cmocka_unit_test(divergence_limits),
        cmocka_unit_test(disjoint_and_equal),
        cmocka_unit_test(errors_of_all_rounds),
        cmocka_unit_test(refusals),
    };
    return run_and_hold(tests, sizeof tests / sizeof tests[0]);
}
