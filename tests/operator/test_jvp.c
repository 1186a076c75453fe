/* test_jvp.c: directional derivatives against differences of forward, against backward (adjointness), and as
 * products with the Hessian of the optimal value: symmetric, never negative, zero along row offsets. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "groups.h"
#include "problems.h"
#include "spec.h"
#include "tolerance.h"

enum { N = 5, M = 6, W = 3, S = N * M };

typedef struct bench {
    double s[S], v[M * W], p[S], out[N * W], f[N], g[M];
    double ds[S], dv[M * W], dp[S], dout[N * W];
    double up[N * W], of_s[S], of_v[M * W];
    ota_problem problem;
    ota_options options;
    ota_arrays arrays;
    ota_tangents tangents;
    ota_plan *plan;
    ota_result result;
    ota_error error;
    ota_term sink;
} bench;

static void fill(double *x, int count, dice *d) {
    for (int k = 0; k < count; k++) x[k] = normal(d);
}

static void start(bench *t, const char *method, double tau, uint64_t seed, bool sink) {
    memset(t, 0, sizeof *t);
    dice d = seed;
    fill(t->s, S, &d);
    fill(t->v, M * W, &d);
    fill(t->ds, S, &d);
    fill(t->dv, M * W, &d);
    fill(t->up, N * W, &d);
    t->problem.size = sizeof t->problem;
    t->problem.temperature = tau;
    t->problem.scores = ota_array_of(t->s, OTA_F64, 1, 1, N, M);
    t->sink = (ota_term){.kind = OTA_TERM_SINK, .value = 0.2};
    t->problem.terms = &t->sink;
    t->problem.term_count = sink ? 1 : 0;
    t->options =
        (ota_options){.size = sizeof t->options, .tolerance = 1e-14, .gradients = 1, .threads = 1};
    assert_int_equal(ota_method_parse(method, &t->problem, &t->options, &t->error), OTA_OK);
    t->arrays.size = sizeof t->arrays;
    t->arrays.values = ota_array_of(t->v, OTA_F64, 1, 1, M, W);
    t->arrays.out = ota_array_of(t->out, OTA_F64, 1, 1, N, W);
    t->arrays.coupling = ota_array_of(t->p, OTA_F64, 1, 1, N, M);
    t->arrays.row_potential = ota_array_of(t->f, OTA_F64, 1, 1, 1, N);
    t->arrays.column_potential = ota_array_of(t->g, OTA_F64, 1, 1, 1, M);
    t->tangents.size = sizeof t->tangents;
    t->tangents.scores = ota_array_of(t->ds, OTA_F64, 1, 1, N, M);
    t->tangents.values = ota_array_of(t->dv, OTA_F64, 1, 1, M, W);
    t->tangents.coupling = ota_array_of(t->dp, OTA_F64, 1, 1, N, M);
    t->tangents.out = ota_array_of(t->dout, OTA_F64, 1, 1, N, W);
    t->result.size = sizeof t->result;
}

static void forward(bench *t) {
    if (t->plan == NULL)
        assert_int_equal(ota_plan_create(&t->plan, &t->problem, W, &t->options, &t->error), OTA_OK);
    const ota_status status = ota_forward(t->plan, &t->arrays, &t->result, &t->error);
    if (status != OTA_OK) print_error("%s\n", t->error.message);
    assert_int_equal(status, OTA_OK);
}

static void derive(bench *t) {
    const ota_status status = ota_jvp(t->plan, &t->arrays, &t->tangents, &t->result, &t->error);
    if (status != OTA_OK) print_error("%s\n", t->error.message);
    assert_int_equal(status, OTA_OK);
}

static double dot(const double *x, const double *y, int count) {
    double sum = 0.0;
    for (int k = 0; k < count; k++) sum += x[k] * y[k];
    return sum;
}

static const struct {
    const char *name, *ids;
} methods[] = {{"softmax", "LIT-17"},
               {"softmax/exact", "DER-13 DER-14"},
               {"softmax/relaxed:.7", "DER-14"},
               {"softmax/capped:1.2", ""},
               {"entmax:1.5", "DER-12"},
               {"sparsemax", "DER-12"},
               {"entmax:1.5/exact", ""},
               {"sparsemax/capped:1.3", ""}};
enum { METHODS = (int)(sizeof methods / sizeof methods[0]) };

/* (x(h) - x(-h)) / 2h at two steps, of fourth order together. */
static double differences(bench *t, const double *plan_slope, const double *out_slope) {
    static const double at[] = {1.0, -1.0, 2.0, -2.0};
    double s[S], v[M * W], p[4][S], out[4][N * W], worst = 0.0;
    memcpy(s, t->s, sizeof s);
    memcpy(v, t->v, sizeof v);
    for (int q = 0; q < 4; q++) {
        for (int k = 0; k < S; k++) t->s[k] = s[k] + at[q] * 0.1 * difference_step * t->ds[k];
        for (int k = 0; k < M * W; k++) t->v[k] = v[k] + at[q] * 0.1 * difference_step * t->dv[k];
        forward(t);
        memcpy(p[q], t->p, sizeof p[q]);
        memcpy(out[q], t->out, sizeof out[q]);
    }
    memcpy(t->s, s, sizeof s);
    memcpy(t->v, v, sizeof v);
    const double unit = 12.0 * 0.1 * difference_step;
    for (int k = 0; k < S; k++) {
        const double slope = (8.0 * (p[0][k] - p[1][k]) - (p[2][k] - p[3][k])) / unit;
        worst = fmax(worst, fabs(slope - plan_slope[k]) / gradient_slack(1.0));
    }
    for (int k = 0; k < N * W; k++) {
        const double slope = (8.0 * (out[0][k] - out[1][k]) - (out[2][k] - out[3][k])) / unit;
        worst = fmax(worst, fabs(slope - out_slope[k]) / gradient_slack(1.0));
    }
    return worst;
}

static void test_differences_and_adjoint(void **state) {
    (void)state;
    for (int k = 0; k < METHODS; k++) {
        double worst = 0.0, apart = 0.0;
        for (uint64_t seed = 1; seed <= 4; seed++) {
            bench t;
            const bool exact = strstr(methods[k].name, "exact") != NULL;
            start(&t, methods[k].name, seed % 2 == 0 ? 1.0 : 0.6, seed, seed == 3 && !exact);
            if (seed == 4) t.problem.axis = OTA_AXIS_COLUMNS;
            forward(&t);
            derive(&t);
            ota_gradients want = {.size = sizeof want};
            want.out_grad = ota_array_of(t.up, OTA_F64, 1, 1, N, W);
            want.scores = ota_array_of(t.of_s, OTA_F64, 1, 1, N, M);
            want.values = ota_array_of(t.of_v, OTA_F64, 1, 1, M, W);
            assert_int_equal(ota_backward(t.plan, &t.arrays, &want, NULL, &t.error), OTA_OK);
            /* <up, J d> = <J^T up, d> */
            const double mine = dot(t.up, t.dout, N * W);
            const double theirs = dot(t.of_s, t.ds, S) + dot(t.of_v, t.dv, M * W);
            apart = fmax(apart, fabs(mine - theirs));
            double dp[S], dout[N * W];
            memcpy(dp, t.dp, sizeof dp);
            memcpy(dout, t.dout, sizeof dout);
            worst = fmax(worst, differences(&t, dp, dout));
            ota_plan_free(t.plan);
        }
        print_message("%s: %.2g of the bound, adjoint %.2g\n", methods[k].name, worst, apart);
        spec_check(methods[k].ids, worst, 1.0);
        spec_check("LIT-21", apart, cancelled_sum(64.0));
    }
}

/* Hessian of the optimal value: x.Hy = y.Hx, x.Hx >= 0, H of a row offset is 0; for softmax it is
 * (diag p - p p^T) / tau. */
static void test_hessian(void **state) {
    (void)state;
    for (int k = 0; k < METHODS; k++) {
        bench t;
        dice d = 77 + (uint64_t)k;
        const double tau = 0.8;
        start(&t, methods[k].name, tau, 9, false);
        forward(&t);
        double x[S], hx[S], y[S], hy[S], skew = 0.0, lowest = 0.0, offset = 0.0, off = 0.0;
        for (int turn = 0; turn < 10; turn++) {
            fill(x, S, &d);
            fill(y, S, &d);
            memcpy(t.ds, x, sizeof x);
            derive(&t);
            memcpy(hx, t.dp, sizeof hx);
            memcpy(t.ds, y, sizeof y);
            derive(&t);
            memcpy(hy, t.dp, sizeof hy);
            skew = fmax(skew, fabs(dot(x, hy, S) - dot(y, hx, S)));
            lowest = fmax(lowest, -dot(x, hx, S));
            for (int i = 0; i < N && strcmp(methods[k].name, "softmax") == 0; i++) {
                const double mean = dot(t.p + i * M, y + i * M, M);
                for (int j = 0; j < M; j++) {
                    const double want = t.p[i * M + j] * (y[i * M + j] - mean) / tau;
                    off = fmax(off, fabs(want - hy[i * M + j]));
                }
            }
        }
        for (int i = 0; i < N; i++) {
            for (int j = 0; j < M; j++) t.ds[i * M + j] = (double)(i * i) - 2.0;
        }
        derive(&t);
        for (int q = 0; q < S; q++) offset = fmax(offset, fabs(t.dp[q]));
        spec_check("LIT-30", skew, cancelled_sum(256.0));
        spec_check("LIT-18 LIT-30", lowest, cancelled_sum(64.0));
        if (strcmp(methods[k].name, "softmax") == 0) spec_check("LIT-30", off, cancelled_sum(8.0));
        spec_check(methods[k].ids, offset, cancelled_sum(512.0));
        ota_plan_free(t.plan);
    }
}

static void test_refusals(void **state) {
    (void)state;
    bench t;
    start(&t, "hard", 1.0, 3, false);
    assert_int_equal(ota_plan_create(&t.plan, &t.problem, W, &t.options, &t.error), OTA_OK);
    (void)ota_forward(t.plan, &t.arrays, NULL, NULL);
    assert_int_equal(ota_jvp(t.plan, &t.arrays, &t.tangents, NULL, &t.error),
                     OTA_NOT_DIFFERENTIABLE);
    assert_string_equal(t.error.field, "method");
    ota_plan_free(t.plan);
    start(&t, "softmax", 1.0, 3, false);
    assert_int_equal(ota_jvp(NULL, NULL, NULL, NULL, NULL), OTA_EINVAL);
    forward(&t);
    ota_tangents tangents = t.tangents;
    tangents.size = 0;
    assert_int_equal(ota_jvp(t.plan, &t.arrays, &tangents, NULL, &t.error), OTA_EINVAL);
    tangents = t.tangents;
    tangents.out = tangents.coupling;
    tangents.out.size[3] = W;
    assert_int_equal(ota_jvp(t.plan, &t.arrays, &tangents, NULL, &t.error), OTA_EALIAS);
    tangents = t.tangents;
    tangents.coupling = tangents.scores;
    assert_int_equal(ota_jvp(t.plan, &t.arrays, &tangents, NULL, &t.error), OTA_EALIAS);
    tangents = t.tangents;
    tangents.values.size[2] = M - 1;
    assert_int_equal(ota_jvp(t.plan, &t.arrays, &tangents, NULL, &t.error), OTA_EINVAL);
    assert_string_equal(t.error.field, "values");
    /* Only what is asked for; values stand still. */
    tangents = t.tangents;
    tangents.values = tangents.coupling = (ota_array){0};
    assert_int_equal(ota_jvp(t.plan, &t.arrays, &tangents, NULL, &t.error), OTA_OK);
    double still[N * W];
    memcpy(still, t.dout, sizeof still);
    for (int k = 0; k < M * W; k++) t.dv[k] = 0.0;
    derive(&t);
    for (int k = 0; k < N * W; k++) assert_true(fabs(still[k] - t.dout[k]) < 1e-15);
    ota_plan_free(t.plan);
}

/* Each input exists where its gradient does, in the gradient's shape. */
static void test_fields(void **state) {
    (void)state;
    static const struct {
        const char *method, *field;
        size_t offset;
        int64_t size[4];
        ota_status status;
    } table[] = {
        {"softmax", "order", offsetof(ota_tangents, order), {1, 1, 1, 1}, OTA_EINVAL},
        {"softmax", "cap", offsetof(ota_tangents, cap), {1, 1, 1, 1}, OTA_EINVAL},
        {"softmax", "strength", offsetof(ota_tangents, strength), {1, 1, 1, 1}, OTA_EINVAL},
        {"softmax", "row_strength", offsetof(ota_tangents, row_strength), {1, 1, 1, 1}, OTA_EINVAL},
        {"softmax", "column_mass", offsetof(ota_tangents, column_mass), {1, 1, 1, M}, OTA_EINVAL},
        {"softmax", "queries", offsetof(ota_tangents, queries), {1, 1, N, W}, OTA_EINVAL},
        {"softmax", "keys", offsetof(ota_tangents, keys), {1, 1, M, W}, OTA_EINVAL},
        {"softmax", "temperature", offsetof(ota_tangents, temperature), {1, 1, 1, 2}, OTA_EINVAL},
        {"softmax", "row_mass", offsetof(ota_tangents, row_mass), {1, 1, 1, M}, OTA_EINVAL},
        {"softmax", "matrix", offsetof(ota_tangents, matrix), {1, 1, N, N}, OTA_EINVAL},
        {"softmax", "matrix", offsetof(ota_tangents, matrix), {1, 1, N, M}, OTA_OK},
        {"softmax", "row_mass", offsetof(ota_tangents, row_mass), {1, 1, 1, N}, OTA_OK},
        {"sparsemax", "order", offsetof(ota_tangents, order), {1, 1, 1, 1}, OTA_OK}};
    for (size_t k = 0; k < sizeof table / sizeof table[0]; k++) {
        double data[S] = {0};
        const int64_t *size = table[k].size;
        bench t;
        start(&t, table[k].method, 1.0, 3, false);
        forward(&t);
        ota_array *to = (ota_array *)(void *)((char *)&t.tangents + table[k].offset);
        *to = ota_array_of(data, OTA_F64, size[0], size[1], size[2], size[3]);
        memset(&t.error, 0, sizeof t.error);
        assert_int_equal(ota_jvp(t.plan, &t.arrays, &t.tangents, NULL, &t.error), table[k].status);
        if (table[k].status != OTA_OK) assert_string_equal(t.error.field, table[k].field);
        ota_plan_free(t.plan);
    }
    /* Terms by their own shape; a struct of a newer header only when nothing unknown is set. */
    bench t;
    double data[2] = {0};
    start(&t, "softmax", 1.0, 3, true);
    forward(&t);
    ota_array term = ota_array_of(data, OTA_F64, 1, 1, 1, 2);
    t.tangents.terms = &term;
    assert_int_equal(ota_jvp(t.plan, &t.arrays, &t.tangents, NULL, &t.error), OTA_EINVAL);
    assert_string_equal(t.error.field, "sink");
    term.size[3] = 1;
    assert_int_equal(ota_jvp(t.plan, &t.arrays, &t.tangents, NULL, &t.error), OTA_OK);
    term.data = t.dp;
    assert_int_equal(ota_jvp(t.plan, &t.arrays, &t.tangents, NULL, &t.error), OTA_EALIAS);
    t.tangents.terms = NULL;
    struct {
        ota_tangents tangents;
        int64_t later;
    } newer = {t.tangents, 0};
    newer.tangents.size = sizeof newer;
    assert_int_equal(ota_jvp(t.plan, &t.arrays, &newer.tangents, NULL, &t.error), OTA_OK);
    newer.later = 1;
    assert_int_equal(ota_jvp(t.plan, &t.arrays, &newer.tangents, NULL, &t.error), OTA_UNSUPPORTED);
    ota_plan_free(t.plan);
    /* A shorter struct is an older header's: what it lacks stands still. */
    double masses[N], still[N * W];
    for (int i = 0; i < N; i++) masses[i] = 0.5 + i;
    start(&t, "softmax", 1.0, 3, false);
    forward(&t);
    derive(&t);
    memcpy(still, t.dout, sizeof still);
    t.tangents.row_mass = ota_array_of(masses, OTA_F64, 1, 1, 1, N);
    ota_tangents older = t.tangents;
    older.size = offsetof(ota_tangents, row_mass);
    const ota_status moved = ota_jvp(t.plan, &t.arrays, &t.tangents, NULL, &t.error);
    const ota_status rests = ota_jvp(t.plan, &t.arrays, &older, NULL, &t.error);
    assert_int_equal(moved, OTA_OK);
    assert_int_equal(rests, OTA_OK);
    for (int k = 0; k < N * W; k++) assert_true(fabs(still[k] - t.dout[k]) < 1e-15);
    ota_plan_free(t.plan);
}

/* NaN belongs to the rows that use it; a forbidden pair's tangent is nobody's. */
static void test_contents(void **state) {
    (void)state;
    bench t;
    const ota_support causal = {.kind = OTA_SUPPORT_CAUSAL};
    start(&t, "softmax", 1.0, 5, false);
    t.problem.supports = &causal;
    t.problem.support_count = 1;
    t.problem.corner = OTA_TOP_LEFT;
    t.ds[0 * M + 3] = NAN; /* forbidden */
    t.ds[3 * M + 1] = NAN;
    t.s[2 * M + 0] = NAN;
    t.v[4 * W] = INFINITY; /* used by row 4 only */
    assert_int_equal(ota_plan_create(&t.plan, &t.problem, W, &t.options, &t.error), OTA_OK);
    (void)ota_forward(t.plan, &t.arrays, &t.result, &t.error);
    assert_int_equal(ota_jvp(t.plan, &t.arrays, &t.tangents, &t.result, &t.error),
                     OTA_NONFINITE_ROWS);
    for (int i = 0; i < N; i++) {
        const bool lost = i == 2 || i == 3;
        for (int j = 0; j < M; j++) {
            if (j > i)
                assert_true(!(fabs(t.dp[i * M + j]) > 0.0));
            else
                assert_int_equal(isnan(t.dp[i * M + j]), lost);
        }
        for (int c = 0; c < W; c++) assert_int_equal(isnan(t.dout[i * W + c]), lost || i == 4);
    }
    ota_plan_free(t.plan);
    /* The target of exact columns follows the rows' total. */
    double mu[N], nu[M], tangents[N] = {1.0};
    start(&t, "softmax/exact", 1.0, 5, false);
    for (int i = 0; i < N; i++) mu[i] = 1.0 / (double)N;
    for (int j = 0; j < M; j++) nu[j] = 1.0 / (double)M;
    t.problem.row_mass = ota_array_of(mu, OTA_F64, 1, 1, 1, N);
    t.problem.column_mass = ota_array_of(nu, OTA_F64, 1, 1, 1, M);
    forward(&t);
    t.tangents.row_mass = ota_array_of(tangents, OTA_F64, 1, 1, 1, N);
    derive(&t);
    double total = 0.0;
    for (int k = 0; k < S; k++) total += t.dp[k];
    spec_check("DER-13", fabs(total - 1.0), cancelled_sum(8.0));
    ota_plan_free(t.plan);
}

/* Narrow inputs: the same derivative as of the same numbers in f64, up to the rounding of what is stored. */
static void test_narrow(void **state) {
    (void)state;
    for (int k = 0; k < METHODS; k++) {
        bench t;
        float s[S], v[M * W], ds[S];
        double wide[N * W], dp[S];
        start(&t, methods[k].name, 0.9, 21 + (uint64_t)k, false);
        t.options.tolerance = 1e-12;
        for (int q = 0; q < S; q++) {
            s[q] = (float)t.s[q], ds[q] = (float)t.ds[q];
            t.s[q] = (double)s[q], t.ds[q] = (double)ds[q];
        }
        for (int q = 0; q < M * W; q++) {
            v[q] = (float)t.v[q];
            t.v[q] = (double)v[q];
        }
        forward(&t);
        derive(&t);
        memcpy(wide, t.dout, sizeof wide);
        memcpy(dp, t.dp, sizeof dp);
        ota_plan_free(t.plan);
        t.plan = NULL;
        t.problem.scores = ota_array_of(s, OTA_F32, 1, 1, N, M);
        t.arrays.values = ota_array_of(v, OTA_F32, 1, 1, M, W);
        t.tangents.scores = ota_array_of(ds, OTA_F32, 1, 1, N, M);
        forward(&t);
        derive(&t);
        double worst = 0.0;
        for (int q = 0; q < S; q++) worst = fmax(worst, fabs(dp[q] - t.dp[q]));
        for (int q = 0; q < N * W; q++) worst = fmax(worst, fabs(wide[q] - t.dout[q]));
        spec_check(methods[k].ids, worst, gradient_slack(1.0));
        ota_plan_free(t.plan);
    }
}

TEST_FILE(test_jvp) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_differences_and_adjoint),
                                       cmocka_unit_test(test_hessian),
                                       cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_fields),
                                       cmocka_unit_test(test_contents),
                                       cmocka_unit_test(test_narrow)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
