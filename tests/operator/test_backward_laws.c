/* test_backward_laws.c: what gradients must satisfy whatever the numbers are, the printed golden values,
 * precision, determinism, and everything that backward refuses. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "backward_support.h"
#include "groups.h"
#include "spec.h"

enum { N = 3 };

/* ---- golden values and formulas ------------------------------------------------------------------- */

/* dL/dS of one head of f64 scores [n][m] for dL/dP; potentials in tolerance mode included. */
static ota_status score_gradient(const char *method, double tau, int64_t rounds, int64_t n,
                                 int64_t m, const double *scores, const double *upstream,
                                 double *coupling, double *gradient) {
    ota_problem problem = {.size = sizeof problem, .temperature = tau};
    ota_options options = {
        .size = sizeof options, .tolerance = 1e-13, .gradients = 1, .threads = 1};
    ota_arrays arrays = {.size = sizeof arrays};
    ota_gradients want = {.size = sizeof want};
    ota_error error = {.message = ""};
    double f[64], g[64], largest = 0.0;
    for (int64_t k = 0; k < n * m; k++) largest = fmax(largest, fabs(scores[k]));
    /* The least that is taken grows with the range. */
    if (largest / tau > 30.0) options.tolerance = 1e-10;
    assert_int_equal(ota_method_parse(method, &problem, &options, &error), OTA_OK);
    options.rounds = rounds;
    problem.scores = ota_array_of((void *)(uintptr_t)scores, OTA_F64, 1, 1, n, m);
    arrays.coupling = ota_array_of(coupling, OTA_F64, 1, 1, n, m);
    arrays.row_potential = ota_array_of(f, OTA_F64, 1, 1, 1, n);
    arrays.column_potential = ota_array_of(g, OTA_F64, 1, 1, 1, m);
    want.coupling_grad = ota_array_of((void *)(uintptr_t)upstream, OTA_F64, 1, 1, n, m);
    want.scores = ota_array_of(gradient, OTA_F64, 1, 1, n, m);
    ota_plan *plan = NULL;
    ota_status status = ota_plan_create(&plan, &problem, 0, &options, &error);
    if (status == OTA_OK) status = ota_forward(plan, &arrays, NULL, &error);
    if (status >= OTA_OK) status = ota_backward(plan, &arrays, &want, NULL, &error);
    if (status < OTA_OK) print_error("%s: %s\n", method, error.message);
    ota_plan_free(plan);
    return status;
}

static double distance(const double *a, const double *b, int64_t count) {
    double far = 0.0;
    for (int64_t k = 0; k < count; k++) far = fmax(far, fabs(a[k] - b[k]));
    return far;
}

static const double golden_scores[N * N] = {1, 0, 0, 0, 2, 0, 1, 1, 0};
static const double golden_upstream[N * N] = {1, 2, 3, 0, 1, 0, 2, 0, 1};

static void test_golden_balanced_backward(void **state) {
    (void)state;
    static const double golden[N * N] = {
        -0.35949967835933,  0.016866990010324,  0.342632688349007,
        -0.052188652084319, 0.276309835332962,  -0.224121183248644,
        0.411688330443648,  -0.293176825343288, -0.118511505100361};
    static const double golden_row[N] = {-0.366309329780318, 0.077183886081616, 0.289125443698702};
    double p[N * N], gradient[N * N], unrolled[N * N];
    assert_int_equal(
        score_gradient("softmax/exact", 1.0, 0, N, N, golden_scores, golden_upstream, p, gradient),
        OTA_OK);
    /* Fifteen printed digits. */
    spec_check("DER-13", distance(gradient, golden, N * N), 2e-14);
    assert_int_equal(
        score_gradient("softmax", 1.0, 0, N, N, golden_scores, golden_upstream, p, gradient),
        OTA_OK);
    spec_check("LIT-17", distance(gradient, golden_row, N), 2e-15);
    /* Rounds that have converged differentiate like the solution. */
    double last = INFINITY;
    for (int64_t rounds = 4; rounds <= 64; rounds *= 2) {
        assert_int_equal(score_gradient("softmax/exact", 1.0, rounds, N, N, golden_scores,
                                        golden_upstream, p, unrolled),
                         OTA_OK);
        const double off = distance(unrolled, golden, N * N);
        assert_true(off < last || off < 2e-14);
        last = off;
    }
    spec_check("DER-15", last, 2e-14);
}

/* LIT-16 .. 19: u = - V dL/dc is the utility; the gradient is the advantage update. */
static void test_advantage(void **state) {
    (void)state;
    enum { M = 6, W = 3 };
    dice d = 11;
    double s[M], v[M * W], dc[W], p[M], out[W], gradient[M], f, g[M], du[M];
    for (int k = 0; k < M; k++) s[k] = normal(&d);
    for (int k = 0; k < M * W; k++) v[k] = normal(&d);
    for (int k = 0; k < W; k++) dc[k] = normal(&d);
    const double tau = 0.7;
    ota_problem problem = {.size = sizeof problem, .temperature = tau};
    problem.scores = ota_array_of(s, OTA_F64, 1, 1, 1, M);
    ota_options options = {.size = sizeof options, .gradients = 1, .threads = 1};
    ota_arrays arrays = {.size = sizeof arrays};
    arrays.values = ota_array_of(v, OTA_F64, 1, 1, M, W);
    arrays.out = ota_array_of(out, OTA_F64, 1, 1, 1, W);
    arrays.coupling = ota_array_of(p, OTA_F64, 1, 1, 1, M);
    arrays.row_potential = ota_array_of(&f, OTA_F64, 1, 1, 1, 1);
    arrays.column_potential = ota_array_of(g, OTA_F64, 1, 1, 1, M);
    ota_gradients want = {.size = sizeof want};
    want.out_grad = ota_array_of(dc, OTA_F64, 1, 1, 1, W);
    want.scores = ota_array_of(gradient, OTA_F64, 1, 1, 1, M);
    ota_plan *plan = NULL;
    assert_int_equal(ota_plan_create(&plan, &problem, W, &options, NULL), OTA_OK);
    assert_int_equal(ota_forward(plan, &arrays, NULL, NULL), OTA_OK);
    assert_int_equal(ota_backward(plan, &arrays, &want, NULL, NULL), OTA_OK);
    double u[M], mean = 0.0, sum = 0.0, weighted = 0.0, off = 0.0;
    for (int j = 0; j < M; j++) {
        u[j] = 0.0;
        for (int k = 0; k < W; k++) u[j] -= dc[k] * v[j * W + k];
        mean += p[j] * u[j];
    }
    bool signs = true;
    for (int j = 0; j < M; j++) {
        off = fmax(off, fabs(gradient[j] + p[j] / tau * (u[j] - mean)));
        sum += gradient[j];
        weighted += p[j] * (u[j] - mean);
        signs &= (-gradient[j] > 0.0) == (u[j] > mean);
    }
    spec_check("LIT-16 LIT-17", off, cancelled_sum(1.0));
    spec_check("LIT-17", fabs(sum), cancelled_sum(1.0));
    spec_check("LIT-19", fabs(weighted), cancelled_sum(1.0));
    spec_check_true("LIT-19", signs);
    ota_plan_free(plan);
    /* LIT-18: the Jacobian, one row of dL/dP at a time, is symmetric, sums to 0 and is never negative. */
    double jacobian[M][M], asymmetric = 0.0, unbalanced = 0.0, lowest = INFINITY;
    for (int k = 0; k < M; k++) {
        for (int j = 0; j < M; j++) du[j] = j == k ? 1.0 : 0.0;
        assert_int_equal(score_gradient("softmax", tau, 0, 1, M, s, du, p, jacobian[k]), OTA_OK);
    }
    for (int k = 0; k < M; k++) {
        double row = 0.0;
        for (int j = 0; j < M; j++) {
            row += jacobian[k][j];
            asymmetric = fmax(asymmetric, fabs(jacobian[k][j] - jacobian[j][k]));
            asymmetric =
                fmax(asymmetric, fabs(jacobian[k][j] - p[k] * ((k == j ? 1.0 : 0.0) - p[j]) / tau));
        }
        unbalanced = fmax(unbalanced, fabs(row));
    }
    for (int turn = 0; turn < 50; turn++) {
        double x[M], form = 0.0;
        for (int j = 0; j < M; j++) x[j] = normal(&d);
        for (int k = 0; k < M; k++) {
            for (int j = 0; j < M; j++) form += x[k] * jacobian[k][j] * x[j];
        }
        lowest = fmin(lowest, form);
    }
    spec_check("LIT-18", fmax(asymmetric, unbalanced), cancelled_sum(1.0));
    spec_check("LIT-18", -lowest, cancelled_sum(1.0));
}

/* DER-12: J = (diag w - w w^T / sum w) / tau with w = p^(2 - alpha). */
static void test_entmax_jacobian(void **state) {
    (void)state;
    static const char *const methods[] = {"entmax:1.5", "sparsemax", "entmax:1.2", "entmax:2.5"};
    static const double orders[] = {1.5, 2.0, 1.2, 2.5};
    enum { M = 5 };
    const double s[M] = {0.9, 0.1, 0.4, -2.5, 0.55}, tau = 0.8;
    for (int q = 0; q < 4; q++) {
        double p[M], row[M], du[M], total = 0.0, w[M];
        for (int k = 0; k < M; k++) {
            for (int j = 0; j < M; j++) du[j] = j == k ? 1.0 : 0.0;
            assert_int_equal(score_gradient(methods[q], tau, 0, 1, M, s, du, p, row), OTA_OK);
            total = 0.0;
            for (int j = 0; j < M; j++) {
                w[j] = p[j] > 0.0 ? pow(p[j], 2.0 - orders[q]) : 0.0;
                total += w[j];
            }
            double off = 0.0;
            for (int j = 0; j < M; j++)
                off = fmax(off, fabs(row[j] - w[j] * ((j == k ? 1.0 : 0.0) - w[k] / total) / tau));
            spec_check("DER-12", off, cancelled_sum(2.0));
        }
    }
}

/* DER-16: at the solution dL/dS of L = <P, S> + tau H(P) is P, all of it explicit. DER-13: the rows and
 * columns of any score gradient of a balanced plan sum to 0. */
static void test_balanced_laws(void **state) {
    (void)state;
    enum { A = 9, B = 9 };
    dice d = 5;
    for (int turn = 0; turn < 6; turn++) {
        double s[A * B], u[A * B], p[A * B], gradient[A * B], envelope[A * B];
        const double tau = turn < 3 ? 1.0 : 0.3;
        for (int k = 0; k < A * B; k++) s[k] = normal(&d);
        for (int k = 0; k < A * B; k++) u[k] = normal(&d);
        assert_int_equal(score_gradient("softmax/exact", tau, 0, A, B, s, u, p, gradient), OTA_OK);
        double sums = 0.0;
        for (int i = 0; i < A; i++) {
            double row = 0.0, column = 0.0;
            for (int j = 0; j < B; j++) {
                row += gradient[i * B + j];
                column += gradient[j * B + i];
            }
            sums = fmax(sums, fmax(fabs(row), fabs(column)));
        }
        spec_check("DER-13", sums, cancelled_sum(8.0 / tau));
        for (int k = 0; k < A * B; k++) envelope[k] = s[k] - tau * log(p[k]);
        assert_int_equal(score_gradient("softmax/exact", tau, 0, A, B, s, envelope, p, gradient),
                         OTA_OK);
        double left = 0.0;
        for (int k = 0; k < A * B; k++) left = fmax(left, fabs(gradient[k]));
        /* What is left of the forward's tolerance. */
        spec_check("DER-16", left, 1e-11);
    }
}

/* max Phi at scores: <P, S> + tau H(P) of the plan that the library finds. */
static double best_value(const double *s, int64_t n, double tau) {
    static double p[64], unused[64];
    assert_int_equal(score_gradient("softmax/exact", tau, 0, n, n, s, s, p, unused), OTA_OK);
    double value = 0.0;
    for (int64_t k = 0; k < n * n; k++) value += p[k] * (s[k] - tau * log(p[k]));
    return value;
}

/* What a score adds to the value is its weight: differences of fourth order. */
static void test_value_grows_by_the_plan(void **state) {
    (void)state;
    enum { A = 5 };
    static const double taus[] = {0.3, 1.0, 4.0};
    dice d = 23;
    for (int q = 0; q < 3; q++) {
        const double tau = taus[q], step = 2e-3 * tau;
        double s[A * A], p[A * A], unused[A * A], worst = 0.0;
        for (int k = 0; k < A * A; k++) s[k] = normal(&d);
        assert_int_equal(score_gradient("softmax/exact", tau, 0, A, A, s, s, p, unused), OTA_OK);
        for (int k = 0; k < A * A; k++) {
            static const double at[] = {1.0, -1.0, 2.0, -2.0}, part[] = {8.0, -8.0, -1.0, 1.0};
            const double kept = s[k];
            double slope = 0.0;
            for (int side = 0; side < 4; side++) {
                s[k] = kept + at[side] * step;
                slope += part[side] / 12.0 * best_value(s, A, tau) / step;
            }
            s[k] = kept;
            worst = fmax(worst, fabs(slope - p[k]));
        }
        spec_check("DER-16", worst, 2e-10);
    }
}

/* Scores so far apart that the plan falls into parts which exchange from 1e-2 to nothing, as where training hardens it:
 * rows and columns of the gradient sum to 0 and P U - dS is P_ij (a_i + b_j) on what carries weight. */
static void test_nearly_permutations(void **state) {
    (void)state;
    enum { A = 16 };
    static const double spreads[] = {10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0};
    dice d = 11;
    double worst = 0.0, mixed = 0.0;
    for (int turn = 0; turn < 120; turn++) {
        double s[A * A], u[A * A], p[A * A], gradient[A * A];
        for (int k = 0; k < A * A; k++) s[k] = spreads[turn % 6] * normal(&d);
        memset(u, 0, sizeof u);
        assert_int_equal(score_gradient("softmax/exact", 1.0, 0, A, A, s, u, p, gradient), OTA_OK);
        /* A loss that the permutation satisfies: nothing is left of the right side but what the parts exchange. */
        for (int k = 0; k < A * A; k++) u[k] = p[k] - (p[k] > 0.5);
        assert_int_equal(score_gradient("softmax/exact", 1.0, 0, A, A, s, u, p, gradient), OTA_OK);
        for (int k = 0; k < A * A; k++) u[k] = normal(&d);
        assert_int_equal(score_gradient("softmax/exact", 1.0, 0, A, A, s, u, p, gradient), OTA_OK);
        for (int i = 0; i < A; i++) {
            double row = 0.0, column = 0.0;
            for (int j = 0; j < A; j++) {
                row += gradient[i * A + j];
                column += gradient[j * A + i];
            }
            worst = fmax(worst, fmax(fabs(row), fabs(column)));
        }
        for (int k = 0; k < A * A; k++) u[k] -= p[k] > 1e-4 ? gradient[k] / p[k] : 0.0;
        for (int cycle = 0; cycle < A * A * A * A; cycle++) {
            const int i = cycle % A, j = cycle / A % A, k = cycle / (A * A) % A,
                      l = cycle / (A * A * A);
            const double least =
                fmin(fmin(p[i * A + j], p[k * A + l]), fmin(p[i * A + l], p[k * A + j]));
            if (least > 1e-4) {
                mixed =
                    fmax(mixed, fabs(u[i * A + j] + u[k * A + l] - u[i * A + l] - u[k * A + j]));
            }
        }
    }
    /* Of a system of 16 unknowns solved to 1e-10 of its absolute terms. */
    spec_check("DER-13", worst, 1e-9);
    /* ... over the least weight that is asked. */
    spec_check("DER-13", mixed, 1e-9);
}

/* ---- masks --------------------------------------------------------------------------------------- */

static bool is_zero(double x) { return x <= 0.0 && x >= 0.0; }

/* Masked pairs get exactly 0 whatever NaN lies under them; empty rows and those without mass get 0. */
static void test_masked_is_exactly_zero(void **state) {
    (void)state;
    static const char *const methods[] = {
        "softmax",      "entmax:1.5",       "softmax/relaxed:.5", "softmax/capped:4",
        "elastic:.5,3", "softmax/online:9", "entmax:1.5/capped:4"};
    for (size_t k = 0; k < sizeof methods / sizeof methods[0]; k++) {
        enum { A = 6, B = 8, W = 2, IDLE = 4 };
        bench *t = malloc(sizeof *t);
        assert_non_null(t);
        const recipe w = {.method = methods[k],
                          .type = OTA_F64,
                          .out_type = OTA_F64,
                          .batch = 1,
                          .heads = 1,
                          .key_heads = 1,
                          .n = A,
                          .m = B,
                          .width = 3,
                          .values_width = W,
                          .tolerance = 1e-11,
                          .temperature = 1.0,
                          .spread = 1.0,
                          .seed = 3 + k,
                          .dense_arrays = true,
                          .row_mass = true};
        set_up(t, &w, OTA_F64, true);
        ota_array_set(&t->x.problem.row_mass, 0, 0, 0, IDLE, 0.0);
        uint8_t open[A * B];
        for (int i = 0; i < A; i++) {
            for (int j = 0; j < B; j++) open[i * B + j] = i != 2 && j != 5 && (i + j) % 4 != 0;
        }
        add_support(&t->x, OTA_SUPPORT_BOOLEAN, ota_array_of(open, OTA_BOOL, 1, 1, A, B), 0, 0);
        t->x.problem.supports = t->x.supports;
        /* Key 5 and query 2 are used by nobody. */
        for (int q = 0; q < 3; q++) {
            ota_array_set(&t->x.problem.keys, 0, 0, 5, q, (double)NAN);
            ota_array_set(&t->x.problem.queries, 0, 0, 2, q, (double)NAN);
            if (q < W) ota_array_set(&t->x.arrays.values, 0, 0, 5, q, (double)NAN);
            if (q < W) ota_array_set(&t->want.out_grad, 0, 0, 2, q, (double)NAN);
        }
        for (int j = 0; j < B; j++) ota_array_set(&t->want.coupling_grad, 0, 0, 2, j, (double)NAN);
        assert_int_equal(make_plan(t), OTA_OK);
        assert_true(run_forward(t) >= OTA_OK);
        if (run_backward(t) != OTA_OK) print_error("%s: %s\n", methods[k], t->x.error.message);
        assert_int_equal(run_backward(t), OTA_OK);
        bool zero = true, finite = true;
        for (int i = 0; i < A; i++) {
            for (int j = 0; j < B; j++) {
                const double g = ota_array_get(&t->want.scores, 0, 0, i, j);
                zero &= (open[i * B + j] && i != IDLE) || is_zero(g);
                finite &= isfinite(g) != 0;
            }
        }
        for (int q = 0; q < 3; q++) {
            zero &= is_zero(ota_array_get(&t->want.queries, 0, 0, 2, q));
            zero &= is_zero(ota_array_get(&t->want.queries, 0, 0, IDLE, q));
            zero &= is_zero(ota_array_get(&t->want.keys, 0, 0, 5, q));
            finite &= isfinite(ota_array_get(&t->want.keys, 0, 0, 0, q)) != 0;
            if (q < W) zero &= is_zero(ota_array_get(&t->want.values, 0, 0, 5, q));
            if (q < W) finite &= isfinite(ota_array_get(&t->want.values, 0, 0, 1, q)) != 0;
        }
        /* Caps as large as these bind nowhere. */
        const ota_array *cap = &t->want.cap;
        zero &= !ota_array_present(cap) || is_zero(ota_array_get(cap, 0, 0, 0, 0));
        if (!zero || !finite) print_error("%s\n", methods[k]);
        spec_check_true("TOT-03", zero && finite);
        tear_down(t);
        free(t);
    }
}

/* Four rows and keys under a causal mask. */
static void set_up_causal(bench *t, const char *method) {
    const recipe w = {.method = method,
                      .type = OTA_F64,
                      .out_type = OTA_F64,
                      .batch = 1,
                      .heads = 1,
                      .key_heads = 1,
                      .n = 4,
                      .m = 4,
                      .width = 2,
                      .values_width = 2,
                      .temperature = 1.0,
                      .spread = 1.0,
                      .seed = 3,
                      .dense_arrays = true,
                      .mask = CAUSAL_TOP_LEFT};
    set_up(t, &w, OTA_F64, false);
}

/* A NaN that is used makes NaN of its row and of every key that row may use, and of nothing else. */
static void test_nonfinite_rows(void **state) {
    (void)state;
    enum { A = 4, B = 4 };
    bench *t = malloc(sizeof *t);
    assert_non_null(t);
    set_up_causal(t, "softmax");
    ota_array_set(&t->x.problem.queries, 0, 0, 1, 0, (double)NAN);
    assert_int_equal(make_plan(t), OTA_OK);
    assert_int_equal(run_forward(t), OTA_NONFINITE_ROWS);
    assert_int_equal(run_backward(t), OTA_NONFINITE_ROWS);
    for (int i = 0; i < A; i++) {
        for (int j = 0; j < B; j++) {
            const double g = ota_array_get(&t->want.scores, 0, 0, i, j);
            assert_true(i == 1 && j <= 1 ? isnan(g) : j > i ? is_zero(g) : isfinite(g));
        }
        assert_true(isnan(ota_array_get(&t->want.queries, 0, 0, i, 0)) == (i == 1));
        assert_true(isnan(ota_array_get(&t->want.keys, 0, 0, i, 0)) == (i <= 1));
        assert_true(isnan(ota_array_get(&t->want.values, 0, 0, i, 0)) == (i <= 1));
    }
    tear_down(t);
    free(t);
}

/* ---- precision ----------------------------------------------------------------------------------- */

/* f32 softmax against the formulas in f64, element by element within u M (32 + 8 B). */
static void test_single_precision(void **state) {
    (void)state;
    double worst = 0.0;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        bench *t = malloc(sizeof *t);
        assert_non_null(t);
        const recipe w = {.method = "softmax",
                          .type = OTA_F32,
                          .out_type = OTA_F32,
                          .batch = 1,
                          .heads = 2,
                          .key_heads = 1,
                          .n = 40,
                          .m = 150,
                          .width = 24,
                          .values_width = 10,
                          .temperature = 1.0,
                          .spread = 1.0,
                          .seed = seed,
                          .mask = seed % 2 == 0 ? CAUSAL_BOTTOM_RIGHT : NO_MASK};
        set_up(t, &w, OTA_F32, false);
        assert_int_equal(make_plan(t), OTA_OK);
        assert_int_equal(run_forward(t), OTA_OK);
        assert_int_equal(run_backward(t), OTA_OK);
        const ota_problem *p = &t->x.problem;
        const double scale = 1.0 / sqrt((double)w.width), u = unit_roundoff(OTA_F32);
        double *weights = calloc((size_t)(3 * w.n * w.m), sizeof *weights);
        assert_non_null(weights);
        double *g = weights + w.n * w.m, *size = g + w.n * w.m,
               *keys = calloc(150 * 24 * 2, sizeof *keys);
        assert_non_null(keys);
        double key_bound = 0.0;
        for (int64_t h = 0; h < 2; h++) {
            for (int64_t i = 0; i < w.n; i++) {
                double top = -INFINITY, sum = 0.0, mean = 0.0, absolute = 0.0, bound = 0.0;
                for (int64_t j = 0; j < w.m; j++) {
                    double s = 0.0, large = 0.0;
                    for (int64_t q = 0; q < w.width; q++) {
                        const double x = ota_array_get(&p->queries, 0, h, i, q) *
                                         ota_array_get(&p->keys, 0, 0, j, q);
                        s += scale * x;
                        large += scale * fabs(x);
                    }
                    const bool in = seed % 2 != 0 || j <= i + w.m - w.n;
                    weights[i * w.m + j] = in ? s : -INFINITY;
                    if (in) bound = fmax(bound, large);
                    if (in) top = fmax(top, s);
                }
                for (int64_t j = 0; j < w.m; j++) {
                    weights[i * w.m + j] = exp(weights[i * w.m + j] - top);
                    sum += weights[i * w.m + j];
                }
                for (int64_t j = 0; j < w.m; j++) {
                    double up = 0.0, large = 0.0;
                    for (int64_t q = 0; q < w.values_width; q++) {
                        const double x = ota_array_get(&t->want.out_grad, 0, h, i, q) *
                                         ota_array_get(&t->x.arrays.values, 0, 0, j, q);
                        up += x;
                        large += fabs(x);
                    }
                    weights[i * w.m + j] /= sum;
                    g[i * w.m + j] = up;
                    size[i * w.m + j] = large;
                    mean += weights[i * w.m + j] * up;
                    absolute += weights[i * w.m + j] * large;
                }
                key_bound = fmax(key_bound, bound);
                for (int64_t j = 0; j < w.m; j++) {
                    const int64_t at = i * w.m + j;
                    g[at] = weights[at] * (g[at] - mean);
                    size[at] = weights[at] * (size[at] + absolute);
                    const double slack =
                        u * size[at] * gradient_growth(bound) + storing(OTA_F32, g[at]);
                    const double got = ota_array_get(&t->want.scores, 0, h, i, j);
                    if (slack > 0.0) worst = fmax(worst, fabs(got - g[at]) / slack);
                }
                for (int64_t q = 0; q < w.width; q++) {
                    double want = 0.0, large = 0.0;
                    for (int64_t j = 0; j < w.m; j++) {
                        const double k = ota_array_get(&p->keys, 0, 0, j, q);
                        want += scale * g[i * w.m + j] * k;
                        large += scale * size[i * w.m + j] * fabs(k);
                    }
                    const double slack =
                        u * large * gradient_growth(bound) + storing(OTA_F32, want);
                    worst = fmax(worst,
                                 fabs(ota_array_get(&t->want.queries, 0, h, i, q) - want) / slack);
                }
            }
            for (int64_t j = 0; j < w.m; j++) {
                for (int64_t q = 0; q < w.width; q++) {
                    for (int64_t i = 0; i < w.n; i++) {
                        const double x = ota_array_get(&p->queries, 0, h, i, q);
                        keys[(j * 24 + q) * 2] += scale * g[i * w.m + j] * x;
                        keys[(j * 24 + q) * 2 + 1] += scale * size[i * w.m + j] * fabs(x);
                    }
                }
            }
        }
        for (int64_t j = 0; j < w.m; j++) {
            for (int64_t q = 0; q < w.width; q++) {
                const double *k = keys + (j * 24 + q) * 2;
                const double slack = u * k[1] * gradient_growth(key_bound) + storing(OTA_F32, k[0]);
                worst = fmax(worst, fabs(ota_array_get(&t->want.keys, 0, 0, j, q) - k[0]) / slack);
            }
        }
        free(weights);
        free(keys);
        tear_down(t);
        free(t);
    }
    spec_check("LIT-21", worst, 1.0);
}

/* ---- determinism --------------------------------------------------------------------------------- */

static void test_threads_change_no_bit(void **state) {
    (void)state;
    static const char *const methods[] = {"softmax",      "sparsemax",        "softmax/exact",
                                          "elastic:.4,3", "softmax/online:2", "softmax/capped:2"};
    for (size_t k = 0; k < sizeof methods / sizeof methods[0]; k++) {
        for (int narrow = 0; narrow < 2; narrow++) {
            double sums[3][24];
            int count = 0;
            static const int threads[] = {1, 2, 5};
            for (int turn = 0; turn < 3; turn++) {
                bench *t = malloc(sizeof *t);
                assert_non_null(t);
                const recipe w = {.method = methods[k],
                                  .type = narrow ? OTA_F32 : OTA_F64,
                                  .out_type = OTA_F32,
                                  .batch = 1,
                                  .heads = 4,
                                  .key_heads = 2,
                                  .n = 70,
                                  .m = 140,
                                  .width = 7,
                                  .values_width = 5,
                                  .temperature = 1.0,
                                  .spread = 1.0,
                                  .seed = 9,
                                  .dense_arrays = true,
                                  .added = k % 2 == 0 ? EVERYTHING : NOTHING,
                                  .row_mass = k == 1};
                set_up(t, &w, w.type, true);
                t->x.options.threads = threads[turn];
                assert_int_equal(make_plan(t), OTA_OK);
                assert_true(run_forward(t) >= OTA_OK);
                assert_int_equal(run_backward(t), OTA_OK);
                count = t->count;
                for (int q = 0; q < count; q++) {
                    /* A sum with odd weights differs when any bit does. */
                    double sum = 0.0, weight = 1.0;
                    const ota_array *a = t->knobs[q].gradient;
                    const int64_t length = a->size[0] * a->size[1] * a->size[2] * a->size[3];
                    for (int64_t e = 0; e < length; e++, weight = fmod(weight * 1.37, 3.0) + 0.11) {
                        const double x = a->type == OTA_F64 ? ((const double *)a->data)[e]
                                                            : (double)((const float *)a->data)[e];
                        sum += weight * x;
                    }
                    sums[turn][q] = sum;
                }
                tear_down(t);
                free(t);
            }
            assert_memory_equal(sums[0], sums[1], (size_t)count * sizeof(double));
            assert_memory_equal(sums[0], sums[2], (size_t)count * sizeof(double));
        }
    }
}

static void backwards(void *user, int64_t count,
                      void (*body)(void *context, int64_t index, int worker), void *context) {
    (void)user;
    for (int64_t k = count; k-- > 0;) body(context, k, (int)(k % 3));
}

/* A bias that all queries share is summed over parts of the rows, whoever works on them in whatever order. */
static void a_shared_bias_has_the_same_bits(void **state) {
    (void)state;
    enum { ROWS = 200, KEYS = 7, SIZE = 3 };
    static double q[ROWS * SIZE], keys[KEYS * SIZE], v[KEYS * SIZE], out[ROWS * SIZE];
    double bias[KEYS], of_bias[2][KEYS];
    dice d = 31;
    for (int k = 0; k < ROWS * SIZE; k++) q[k] = normal(&d);
    for (int k = 0; k < KEYS * SIZE; k++) keys[k] = normal(&d), v[k] = normal(&d);
    for (int k = 0; k < KEYS; k++) bias[k] = normal(&d);
    const ota_term term = {.kind = OTA_TERM_DENSE,
                           .array = ota_array_of(bias, OTA_F64, 1, 1, 1, KEYS)};
    static const ota_executor executor = {.run = backwards, .threads = 3};
    for (int turn = 0; turn < 2; turn++) {
        ota_problem problem = {.size = sizeof problem, .terms = &term, .term_count = 1};
        ota_options options = {.size = sizeof options,
                               .gradients = 1,
                               .threads = 1,
                               .executor = turn == 1 ? &executor : NULL};
        ota_error error;
        assert_int_equal(ota_method_parse("entmax:1.5", &problem, &options, &error), OTA_OK);
        problem.queries = ota_array_of(q, OTA_F64, 1, 1, ROWS, SIZE);
        problem.keys = ota_array_of(keys, OTA_F64, 1, 1, KEYS, SIZE);
        ota_arrays arrays = {.size = sizeof arrays};
        arrays.values = ota_array_of(v, OTA_F64, 1, 1, KEYS, SIZE);
        arrays.out = ota_array_of(out, OTA_F64, 1, 1, ROWS, SIZE);
        const ota_array of_terms = ota_array_of(of_bias[turn], OTA_F64, 1, 1, 1, KEYS);
        ota_gradients want = {.size = sizeof want, .terms = &of_terms};
        want.out_grad = ota_array_of(q, OTA_F64, 1, 1, ROWS, SIZE);
        ota_plan *plan = NULL;
        assert_int_equal(ota_plan_create(&plan, &problem, SIZE, &options, &error), OTA_OK);
        assert_int_equal(ota_forward(plan, &arrays, NULL, &error), OTA_OK);
        assert_int_equal(ota_backward(plan, &arrays, &want, NULL, &error), OTA_OK);
        ota_plan_free(plan);
    }
    assert_memory_equal(of_bias[0], of_bias[1], sizeof of_bias[0]);
}

/* Every bit of an array, in order. */
static uint64_t print_of(const ota_array *a, uint64_t hash) {
    for (int64_t b = 0; b < a->size[0]; b++) {
        for (int64_t h = 0; h < a->size[1]; h++) {
            for (int64_t i = 0; i < a->size[2]; i++) {
                for (int64_t j = 0; j < a->size[3]; j++) {
                    const double x = ota_array_get(a, b, h, i, j);
                    uint64_t bits;
                    memcpy(&bits, &x, sizeof bits);
                    hash = mix(hash, bits);
                }
            }
        }
    }
    return hash;
}

/* Only gradients that every head has of its own are wanted: threads walk different heads, some of which are left
 * over for all threads together. */
static void test_heads_side_by_side(void **state) {
    (void)state;
    static const char *const methods[] = {
        "softmax",           "entmax:1.5",       "sparsemax",          "softmax/exact",
        "softmax/relaxed:1", "softmax/capped:2", "entmax:1.5/exact",   "elastic:.4,3",
        "ceta{rounds=2}",    "softmax/online:2", "sparsemax/online:2", "softmax/prefix",
        "entmax:1.5/prefix"};
    static const int threads[] = {1, 2, 3, 5, 16};
    enum { TURNS = (int)(sizeof threads / sizeof threads[0]) };
    for (size_t k = 0; k < 2 * sizeof methods / sizeof methods[0]; k++) {
        const char *method = methods[k / 2];
        uint64_t prints[TURNS];
        for (int turn = 0; turn < TURNS; turn++) {
            bench *t = malloc(sizeof *t);
            assert_non_null(t);
            const recipe w = {.method = method,
                              .type = k % 2 == 0 ? OTA_F32 : OTA_F64,
                              .out_type = OTA_F32,
                              .batch = 4,
                              .heads = 4,
                              .key_heads = 2,
                              .n = 20,
                              .m = 33,
                              .width = 7,
                              .values_width = 5,
                              .temperature = 1.0,
                              .spread = 1.0,
                              .seed = 3 + k,
                              .row_mass = strstr(method, "prefix") == NULL};
            set_up(t, &w, w.type, k % 3 == 0);
            int stop = 0;
            t->x.options.threads = threads[turn];
            t->x.options.cancel = &stop;
            const ota_gradients all = t->want;
            t->want = (ota_gradients){.size = sizeof all,
                                      .out_grad = all.out_grad,
                                      .coupling_grad = all.coupling_grad,
                                      .queries = all.queries,
                                      .keys = all.keys,
                                      .values = all.values,
                                      .scores = k % 3 == 0 ? all.scores : (ota_array){.data = NULL},
                                      .row_mass = all.row_mass};
            assert_int_equal(make_plan(t), OTA_OK);
            assert_true(run_forward(t) >= OTA_OK);
            assert_int_equal(run_backward(t), OTA_OK);
            const ota_array *const answers[] = {&t->want.queries, &t->want.keys, &t->want.values,
                                                &t->want.scores, &t->want.row_mass};
            prints[turn] = 1;
            for (size_t q = 0; q < sizeof answers / sizeof answers[0]; q++) {
                if (!ota_array_present(answers[q])) continue;
                assert_true(gaps_untouched(&t->gradients, answers[q]));
                prints[turn] = print_of(answers[q], prints[turn]);
            }
            stop = 1;
            assert_int_equal(run_backward(t), OTA_CANCELLED);
            tear_down(t);
            free(t);
        }
        for (int turn = 1; turn < TURNS; turn++) {
            if (prints[turn] != prints[0]) print_error("%s, %d threads\n", method, threads[turn]);
            assert_true(prints[turn] == prints[0]);
        }
    }
}

/* ---- refusals ------------------------------------------------------------------------------------ */

typedef struct small {
    double q[6], k[8], v[8], out[6], f[3], g[4], d_out[6], d_q[6], d_s[12];
    ota_problem problem;
    ota_options options;
    ota_arrays arrays;
    ota_gradients want;
    ota_plan *plan;
    ota_error error;
    ota_result result;
} small;

static void start_small(small *t, const char *method, int gradients) {
    memset(t, 0, sizeof *t);
    dice d = 4;
    for (int k = 0; k < 6; k++) t->q[k] = normal(&d), t->d_out[k] = normal(&d);
    for (int k = 0; k < 8; k++) t->k[k] = normal(&d), t->v[k] = normal(&d);
    t->problem.size = sizeof t->problem;
    t->problem.queries = ota_array_of(t->q, OTA_F64, 1, 1, 3, 2);
    t->problem.keys = ota_array_of(t->k, OTA_F64, 1, 1, 4, 2);
    t->options = (ota_options){.size = sizeof t->options, .gradients = gradients, .threads = 1};
    assert_int_equal(ota_method_parse(method, &t->problem, &t->options, NULL), OTA_OK);
    t->arrays.size = sizeof t->arrays;
    t->arrays.values = ota_array_of(t->v, OTA_F64, 1, 1, 4, 2);
    t->arrays.out = ota_array_of(t->out, OTA_F64, 1, 1, 3, 2);
    t->arrays.row_potential = ota_array_of(t->f, OTA_F64, 1, 1, 1, 3);
    t->arrays.column_potential = ota_array_of(t->g, OTA_F64, 1, 1, 1, 4);
    t->want.size = sizeof t->want;
    t->want.out_grad = ota_array_of(t->d_out, OTA_F64, 1, 1, 3, 2);
    t->want.queries = ota_array_of(t->d_q, OTA_F64, 1, 1, 3, 2);
    t->result.size = sizeof t->result;
}

static ota_status go(small *t, bool forward) {
    ota_status status = t->plan == NULL
                            ? ota_plan_create(&t->plan, &t->problem, 2, &t->options, &t->error)
                            : OTA_OK;
    assert_int_equal(status, OTA_OK);
    if (forward) (void)ota_forward(t->plan, &t->arrays, NULL, NULL);
    for (int k = 0; k < 6; k++) t->d_q[k] = 7.0;
    return ota_backward(t->plan, &t->arrays, &t->want, &t->result, &t->error);
}

/* A lambda of its own for every key, all the same: the gradients of that lambda, whatever the other one says. */
static void test_lambdas_of_keys(void **state) {
    (void)state;
    double lambdas[4] = {0.4, 0.4, 0.4, 0.4}, kept[6];
    small t;
    start_small(&t, "elastic:.4,3", 1);
    assert_int_equal(go(&t, true), OTA_OK);
    memcpy(kept, t.d_q, sizeof kept);
    ota_plan_free(t.plan);
    start_small(&t, "elastic:.9,3", 1);
    t.problem.lambdas = ota_array_of(lambdas, OTA_F64, 1, 1, 1, 4);
    assert_int_equal(go(&t, true), OTA_OK);
    for (int k = 0; k < 6; k++) assert_true(fabs(t.d_q[k] - kept[k]) <= 1e-12);
    ota_plan_free(t.plan);
}

static void window_gradients(const char *method, double *s, double *v, int64_t m, double *ds) {
    const ota_support window = {.kind = OTA_SUPPORT_WINDOW, .left = 2, .right = 0};
    double out[6], f[3], g[100], up[6] = {1.0, -2.0, 0.5, 3.0, -1.0, 0.25};
    ota_problem problem = {.size = sizeof problem, .supports = &window, .support_count = 1};
    ota_options options = {.size = sizeof options, .gradients = 1, .threads = 1};
    assert_int_equal(ota_method_parse(method, &problem, &options, NULL), OTA_OK);
    problem.corner = OTA_BOTTOM_RIGHT;
    problem.scores = ota_array_of(s, OTA_F64, 1, 1, 3, m);
    ota_arrays arrays = {.size = sizeof arrays};
    arrays.values = ota_array_of(v, OTA_F64, 1, 1, m, 2);
    arrays.out = ota_array_of(out, OTA_F64, 1, 1, 3, 2);
    arrays.row_potential = ota_array_of(f, OTA_F64, 1, 1, 1, 3);
    arrays.column_potential = ota_array_of(g, OTA_F64, 1, 1, 1, m);
    ota_gradients want = {.size = sizeof want};
    want.out_grad = ota_array_of(up, OTA_F64, 1, 1, 3, 2);
    want.matrix = ota_array_of(ds, OTA_F64, 1, 1, 3, m);
    ota_plan *plan;
    assert_int_equal(ota_plan_create(&plan, &problem, 2, &options, NULL), OTA_OK);
    assert_int_equal(ota_forward(plan, &arrays, NULL, NULL), OTA_OK);
    assert_int_equal(ota_backward(plan, &arrays, &want, NULL, NULL), OTA_OK);
    ota_plan_free(plan);
}

/* Windows far from the first key of a matrix: the gradients of the keys that they reach, alone. */
static void test_windows_at_the_end_of_a_matrix(void **state) {
    (void)state;
    static const char *const methods[] = {"softmax", "entmax:1.5"};
    enum { MANY = 100, FEW = 6, FROM = MANY - FEW };
    double s[3 * MANY], v[MANY * 2], few[3 * FEW], ds[3 * MANY], d_few[3 * FEW];
    dice d = 12;
    for (int k = 0; k < 3 * MANY; k++) s[k] = normal(&d);
    for (int k = 0; k < MANY * 2; k++) v[k] = normal(&d);
    for (int k = 0; k < 3 * FEW; k++) few[k] = s[k / FEW * MANY + FROM + k % FEW];
    for (int q = 0; q < 2; q++) {
        window_gradients(methods[q], s, v, MANY, ds);
        window_gradients(methods[q], few, v + FROM * 2, FEW, d_few);
        for (int k = 0; k < 3 * FEW; k++)
            assert_true(fabs(ds[k / FEW * MANY + FROM + k % FEW] - d_few[k]) <= 1e-14);
    }
}

/* The status, the field, and whether the outputs stayed as they were. */
static void expect_refusal(small *t, bool forward, ota_status wanted, const char *field,
                           bool poisoned) {
    const ota_status status = go(t, forward);
    if (status != wanted || strcmp(t->error.field, field) != 0)
        print_error("status %d field '%s': %s\n", (int)status, t->error.field, t->error.message);
    assert_int_equal(status, wanted);
    assert_string_equal(t->error.field, field);
    for (int k = 0; k < 6; k++)
        assert_true(poisoned ? isnan(t->d_q[k]) : t->d_q[k] >= 7.0 && t->d_q[k] <= 7.0);
    ota_plan_free(t->plan);
}

static void test_refusals(void **state) {
    (void)state;
    small t;
    assert_int_equal(ota_backward(NULL, NULL, NULL, NULL, NULL), OTA_EINVAL);
    start_small(&t, "hard", 1);
    expect_refusal(&t, true, OTA_NOT_DIFFERENTIABLE, "method", false);
    start_small(&t, "hard/exact", 1);
    expect_refusal(&t, true, OTA_NOT_DIFFERENTIABLE, "method", false);
    start_small(&t, "softmax", 0);
    expect_refusal(&t, true, OTA_EINVAL, "gradients", false);
    start_small(&t, "softmax", 1);
    expect_refusal(&t, false, OTA_EINVAL, "plan", false);
    start_small(&t, "softmax/exact", 1);
    t.options.max_rounds = 1;
    t.options.solver = "log";
    expect_refusal(&t, true, OTA_NOT_CONVERGED, "plan", true);
    start_small(&t, "softmax/exact", 1);
    t.options.max_rounds = 1;
    t.options.solver = "log";
    t.options.allow_partial = 1;
    expect_refusal(&t, true, OTA_NOT_CONVERGED, "plan", true);
    start_small(&t, "softmax/exact", 1);
    t.options.backward = 2;
    expect_refusal(&t, true, OTA_UNSUPPORTED, "backward", false);
    start_small(&t, "elastic:.5,2", 1);
    t.options.backward = 1;
    expect_refusal(&t, true, OTA_UNSUPPORTED, "backward", false);
    start_small(&t, "softmax/exact", 1);
    t.arrays.column_potential = (ota_array){0};
    expect_refusal(&t, true, OTA_EINVAL, "column_potential", false);
    start_small(&t, "softmax/exact", 1);
    assert_int_equal(ota_plan_create(&t.plan, &t.problem, 2, &t.options, NULL), OTA_OK);
    assert_int_equal(ota_forward(t.plan, &t.arrays, NULL, NULL), OTA_OK);
    t.g[1] = (double)NAN;
    expect_refusal(&t, false, OTA_NOT_CONVERGED, "column_potential", true);
    start_small(&t, "softmax", 1);
    t.want.size = 0;
    expect_refusal(&t, true, OTA_EINVAL, "gradients.size", false);
    start_small(&t, "softmax", 1);
    t.want.out_grad.size[3] = 1;
    expect_refusal(&t, true, OTA_EINVAL, "out_grad", false);
    start_small(&t, "softmax", 1);
    t.want.keys = ota_array_of(t.k, OTA_F64, 1, 1, 4, 2);
    expect_refusal(&t, true, OTA_EALIAS, "keys", false);
    start_small(&t, "softmax", 1);
    t.want.scores = ota_array_of(t.d_s, OTA_F64, 1, 1, 3, 4);
    t.want.scores.stride[2] = 0;
    expect_refusal(&t, true, OTA_EALIAS, "scores", false);
    start_small(&t, "softmax", 1);
    t.want.order = ota_array_of(t.d_s, OTA_F64, 1, 1, 1, 1);
    expect_refusal(&t, true, OTA_EINVAL, "order", false);
    start_small(&t, "softmax", 1);
    t.want.matrix = ota_array_of(t.d_s, OTA_F64, 1, 1, 3, 4);
    expect_refusal(&t, true, OTA_EINVAL, "matrix", false);
    start_small(&t, "softmax/online:2", 1);
    double left[4] = {2, 2, 2, 2};
    t.arrays.remaining = ota_array_of(left, OTA_F64, 1, 1, 1, 4);
    expect_refusal(&t, true, OTA_UNSUPPORTED, "remaining", false);
    int cancel = 0;
    start_small(&t, "softmax", 1);
    t.options.cancel = &cancel;
    assert_int_equal(ota_plan_create(&t.plan, &t.problem, 2, &t.options, NULL), OTA_OK);
    assert_int_equal(ota_forward(t.plan, &t.arrays, NULL, NULL), OTA_OK);
    cancel = 1;
    expect_refusal(&t, false, OTA_CANCELLED, "", true);
}

/* A plan made for gradients says so, knows its residual, and pays for nothing when not asked. */
static void test_plan_and_residual(void **state) {
    (void)state;
    small t;
    char text[4096];
    start_small(&t, "softmax/exact", 1);
    assert_int_equal(go(&t, true), OTA_OK);
    /* Three keys and four multipliers are not solved to the last bit; what solves no system has no residual. */
    assert_true(t.result.backward_residual > 0.0 && t.result.backward_residual < 1e-10);
    (void)ota_plan_describe(t.plan, text, sizeof text);
    assert_non_null(strstr(text, "backward: implicit"));
    const size_t with = ota_plan_bytes(t.plan);
    ota_plan_free(t.plan);
    start_small(&t, "softmax", 1);
    assert_int_equal(go(&t, true), OTA_OK);
    assert_true(t.result.backward_residual == 0.0);
    ota_plan_free(t.plan);
    start_small(&t, "softmax/exact", 0);
    assert_int_equal(ota_plan_create(&t.plan, &t.problem, 2, &t.options, NULL), OTA_OK);
    assert_true(ota_plan_bytes(t.plan) < with);
    ota_plan_free(t.plan);
}

/* Rows that have the sink alone, in fixed rounds: no key tells how the columns move with their mass. */
static void test_sink_alone(void **state) {
    (void)state;
    static const char *const methods[] = {"softmax/elastic:0.7,3", "softmax/relaxed:0.7"};
    bench *t = malloc(sizeof *t);
    assert_non_null(t);
    for (int k = 0; k < 2; k++) {
        const recipe w = {.method = methods[k],
                          .type = OTA_F64,
                          .out_type = OTA_F64,
                          .batch = 1,
                          .heads = 1,
                          .key_heads = 1,
                          .n = N,
                          .m = 4,
                          .width = 2,
                          .values_width = 2,
                          .rounds = k == 0 ? 0 : 3,
                          .temperature = 1.0,
                          .spread = 1.0,
                          .seed = 5,
                          .added = SINK,
                          .dense_arrays = true,
                          .row_mass = true};
        set_up(t, &w, OTA_F64, false);
        int64_t none[1] = {0};
        add_support(&t->x, OTA_SUPPORT_LENGTHS, ota_array_of(none, OTA_I64, 1, 1, 1, 1), 0, 0);
        t->x.problem.supports = t->x.supports;
        assert_int_equal(make_plan(t), OTA_OK);
        assert_int_equal(run_forward(t), OTA_FIXED_ITERS);
        assert_int_equal(run_backward(t), OTA_OK);
        for (int i = 0; i < N; i++)
            assert_true(is_zero(ota_array_get(&t->want.row_mass, 0, 0, 0, i)));
        tear_down(t);
    }
    free(t);
}

/* Nothing to do is done without touching anything. */
static void test_empty_problems(void **state) {
    (void)state;
    for (int k = 0; k < 4; k++) {
        small t;
        start_small(&t, k < 2 ? "softmax" : "elastic:.5,2", 1);
        if (k % 2 == 0)
            t.problem.keys.size[2] = t.arrays.values.size[2] = t.arrays.column_potential.size[3] =
                0;
        if (k % 2 == 1) {
            t.problem.queries.size[2] = t.arrays.out.size[2] = t.arrays.row_potential.size[3] = 0;
            t.want.out_grad.size[2] = t.want.queries.size[2] = 0;
        }
        assert_int_equal(go(&t, true), OTA_OK);
        for (int q = 0; q < 6 && k % 2 == 0; q++) assert_true(is_zero(t.d_q[q]));
        ota_plan_free(t.plan);
    }
}

/* Rows in order that use a value which is NaN. */
static void test_nonfinite_rows_in_order(void **state) {
    (void)state;
    enum { A = 4 };
    bench *t = malloc(sizeof *t);
    assert_non_null(t);
    set_up_causal(t, "softmax/online:9");
    ota_array_set(&t->x.arrays.values, 0, 0, 1, 0, (double)NAN);
    assert_int_equal(make_plan(t), OTA_OK);
    assert_int_equal(run_forward(t), OTA_NONFINITE_ROWS);
    assert_int_equal(run_backward(t), OTA_NONFINITE_ROWS);
    for (int i = 0; i < A; i++)
        assert_true(isnan(ota_array_get(&t->want.queries, 0, 0, i, 0)) == (i >= 1));
    tear_down(t);
    free(t);
}

TEST_FILE(test_backward_laws) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lambdas_of_keys),
                                       cmocka_unit_test(test_windows_at_the_end_of_a_matrix),
                                       cmocka_unit_test(test_nonfinite_rows_in_order),
                                       cmocka_unit_test(test_golden_balanced_backward),
                                       cmocka_unit_test(test_advantage),
                                       cmocka_unit_test(test_entmax_jacobian),
                                       cmocka_unit_test(test_balanced_laws),
                                       cmocka_unit_test(test_value_grows_by_the_plan),
                                       cmocka_unit_test(test_nearly_permutations),
                                       cmocka_unit_test(test_masked_is_exactly_zero),
                                       cmocka_unit_test(test_nonfinite_rows),
                                       cmocka_unit_test(test_single_precision),
                                       cmocka_unit_test(test_threads_change_no_bit),
                                       cmocka_unit_test(a_shared_bias_has_the_same_bits),
                                       cmocka_unit_test(test_heads_side_by_side),
                                       cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_plan_and_residual),
                                       cmocka_unit_test(test_sink_alone),
                                       cmocka_unit_test(test_empty_problems)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
