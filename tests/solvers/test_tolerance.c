/* Rounds on a kernel to a tolerance, in f32 with f64 behind it, and streamed where a workspace limit leaves
 * no room for the kernel: what claims success is within the tolerance in f64, whatever the norms behind
 * the scores; streaming changes no bit; a limit below every path names the smallest that would do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend_wrap.h"
#include "draw/random.h"
#include "groups.h"
#include "scale.h"
#include "spec.h"
#include "tolerance.h"

enum { MOST = 200, WIDTH = 16, VALUES = 5 };

typedef struct stage {
    int64_t n, m;
    ota_problem problem;
    ota_options options;
    ota_result result;
    ota_error error;
    ota_support support;
    ota_term sink;
    float q[MOST * WIDTH], k[MOST * WIDTH], v[MOST * VALUES], scores[MOST * MOST];
    float out[MOST * VALUES], weights[MOST * MOST];
    double f[MOST], g[MOST], mu[MOST], nu[MOST];
    unsigned char mask[MOST * MOST];
    char text[4096];
} stage;

/* Queries and keys whose first element is `offset` on both sides: norms without range. */
static void fill(stage *t, const char *method, int64_t n, int64_t m, double spread, double offset,
                 uint64_t seed) {
    uint64_t state = seed;
    memset(t, 0, sizeof *t);
    t->n = n;
    t->m = m;
    t->problem.size = sizeof t->problem;
    t->options.size = sizeof t->options;
    for (int64_t i = 0; i < n * WIDTH; i++) t->q[i] = (float)(spread * normal(&state));
    for (int64_t j = 0; j < m * WIDTH; j++) t->k[j] = (float)normal(&state);
    for (int64_t i = 0; i < n; i++) t->q[i * WIDTH] = (float)offset;
    for (int64_t j = 0; j < m; j++) t->k[j * WIDTH] += (float)offset;
    for (int64_t j = 0; j < m * VALUES; j++) t->v[j] = (float)normal(&state);
    for (int64_t p = 0; p < n * m; p++) t->scores[p] = (float)(spread * normal(&state));
    assert_int_equal(ota_method_parse(method, &t->problem, &t->options, &t->error), OTA_OK);
    t->problem.queries = ota_array_of(t->q, OTA_F32, 1, 1, n, WIDTH);
    t->problem.keys = ota_array_of(t->k, OTA_F32, 1, 1, m, WIDTH);
}

static void from_scores(stage *t) {
    t->problem.queries = t->problem.keys = (ota_array){0};
    t->problem.scores = ota_array_of(t->scores, OTA_F32, 1, 1, t->n, t->m);
}

static ota_arrays arrays_of(stage *t) {
    ota_arrays a = {.size = sizeof a};
    a.values = ota_array_of(t->v, OTA_F32, 1, 1, t->m, VALUES);
    a.out = ota_array_of(t->out, OTA_F32, 1, 1, t->n, VALUES);
    a.coupling = ota_array_of(t->weights, OTA_F32, 1, 1, t->n, t->m);
    a.row_potential = ota_array_of(t->f, OTA_F64, 1, 1, 1, t->n);
    a.column_potential = ota_array_of(t->g, OTA_F64, 1, 1, 1, t->m);
    return a;
}

static ota_status run(stage *t) {
    ota_plan *plan;
    const ota_status made = ota_plan_create(&plan, &t->problem, VALUES, &t->options, &t->error);
    if (made != OTA_OK) return made;
    (void)ota_plan_describe(plan, t->text, sizeof t->text);
    const ota_arrays a = arrays_of(t);
    t->result = (ota_result){.size = sizeof t->result};
    const ota_status status = ota_forward(plan, &a, &t->result, &t->error);
    ota_plan_free(plan);
    return status;
}

/* The larger residual of the plan, judged in f64 from the potentials. */
static double judged(stage *t) {
    ota_arrays a = arrays_of(t);
    a.coupling = (ota_array){0};
    ota_certificate c = {.size = sizeof c};
    assert_true(ota_certify(&t->problem, &t->options, &a, &c, NULL, &t->error) >= OTA_OK);
    return fmax(c.row_error, c.column_error);
}

static const char *const rules[] = {"softmax/exact", "softmax/relaxed:2", "softmax/capped:1.4",
                                    "softmax/relaxed:0.05"};
enum { RULES = 4 };

static void vary(stage *t, uint64_t seed) {
    uint64_t state = seed * 77 + 5;
    const char *method = rules[seed % RULES];
    static const double spreads[] = {0.1, 1.0, 3.0, 10.0}, offsets[] = {0.0, 0.0, 10.0, 100.0};
    int64_t n = 1 + (int64_t)(90.0 * uniform(&state)), m = 1 + (int64_t)(90.0 * uniform(&state));
    if (strstr(method, "capped") != NULL && n > m) n = m;
    fill(t, method, n, m, spreads[(int)(4.0 * uniform(&state))],
         offsets[(int)(4.0 * uniform(&state))], seed);
    if (uniform(&state) < 0.3) from_scores(t);
    if (uniform(&state) < 0.3) {
        for (int64_t p = 0; p < n * m; p++) t->mask[p] = uniform(&state) < 0.7;
        t->support = (ota_support){.kind = OTA_SUPPORT_BOOLEAN,
                                   .array = ota_array_of(t->mask, OTA_BOOL, 1, 1, n, m)};
        t->problem.supports = &t->support;
        t->problem.support_count = 1;
    }
    if (uniform(&state) < 0.3) {
        double total = 0.0;
        for (int64_t i = 0; i < n; i++) t->mu[i] = uniform(&state) < 0.1 ? 0.0 : uniform(&state);
        for (int64_t i = 0; i < n; i++) total += t->mu[i];
        for (int64_t i = 0; i < n && total > 0.0; i++) t->mu[i] *= (double)n / total;
        if (total > 0.0) t->problem.row_mass = ota_array_of(t->mu, OTA_F64, 1, 1, 1, n);
    }
    if (uniform(&state) < 0.2) {
        double total = 0.0;
        for (int64_t j = 0; j < m; j++) total += t->nu[j] = uniform(&state);
        const double goal = strstr(method, "capped") != NULL ? (double)m : (double)n;
        for (int64_t j = 0; j < m; j++) t->nu[j] *= goal / total;
        t->problem.column_mass = ota_array_of(t->nu, OTA_F64, 1, 1, 1, m);
    }
    if (uniform(&state) < 0.2 && strstr(method, "exact") == NULL) {
        t->sink = (ota_term){.kind = OTA_TERM_SINK, .value = normal(&state)};
        t->problem.terms = &t->sink;
        t->problem.term_count = 1;
    }
    t->options.tolerance = uniform(&state) < 0.5 ? 1e-5 : uniform(&state) < 0.5 ? 1e-3 : 1e-7;
}

static void success_is_within_the_tolerance(void **unused) {
    (void)unused;
    static stage t;
    int ok = 0, narrow = 0;
    double worst = 0.0;
    for (uint64_t seed = 1; seed <= 600; seed++) {
        vary(&t, seed);
        const ota_status status = run(&t);
        if (status != OTA_OK) continue;
        ok++;
        narrow += !t.result.promoted;
        const double residual = judged(&t);
        if (!(residual <= t.options.tolerance)) {
            print_error("seed %d: %g against %g, %s\n", (int)seed, residual, t.options.tolerance,
                        t.result.promoted ? "f64" : "f32");
        }
        worst = fmax(worst, residual / t.options.tolerance);
    }
    spec_check("TOT-08 TOT-107", worst, 1.0);
    /* Both arithmetics are in use, or this says nothing. */
    assert_true(on_other_backend() || (narrow > 100 && ok - narrow > 50));
}

/* The smallest workspace that does. */
static size_t least_workspace(stage *t) {
    t->options.workspace_limit = 1;
    assert_int_equal(run(t), OTA_ELIMIT);
    const char *needs = strstr(t->error.message, "needs ");
    assert_non_null(needs);
    return (size_t)strtoull(needs + 6, NULL, 10);
}

/* The bits of a streamed plan are those of a stored one, to a tolerance and in fixed rounds. */
static void streaming_changes_no_bit(void **unused) {
    (void)unused;
    if (on_other_backend()) skip_because("the plain backend streams no kernel");
    static stage stored, streamed;
    static const double spreads[] = {1.0, 6.0};
    for (int which = 0; which < RULES * 4; which++) {
        const double spread = spreads[which / RULES % 2];
        fill(&stored, rules[which % RULES], 171, 193, spread, 0.0, 31);
        fill(&streamed, rules[which % RULES], 171, 193, spread, 0.0, 31);
        if (which >= 2 * RULES) stored.options.rounds = streamed.options.rounds = 4;
        stored.options.threads = 1;
        streamed.options.threads = which % 2 == 0 ? 3 : 1;
        streamed.options.workspace_limit = least_workspace(&streamed);
        const ota_status status = run(&stored);
        assert_int_equal(run(&streamed), status);
        assert_true(status >= OTA_OK);
        assert_non_null(strstr(stored.text, "path: stored kernel"));
        assert_non_null(strstr(streamed.text, "path: streamed kernel"));
        assert_int_equal(streamed.result.rounds, stored.result.rounds);
        spec_check_true("TOT-111",
                        memcmp(stored.out, streamed.out, sizeof stored.out) == 0 &&
                            memcmp(stored.weights, streamed.weights, sizeof stored.weights) == 0 &&
                            memcmp(stored.g, streamed.g, sizeof stored.g) == 0);
    }
}

static void a_limit_below_every_path_names_the_least(void **unused) {
    (void)unused;
    static stage t;
    fill(&t, "softmax/exact", 150, 150, 1.0, 0.0, 3);
    t.options.threads = 1;
    t.options.workspace_limit = least_workspace(&t);
    assert_int_equal(run(&t), OTA_OK);
    t.options.workspace_limit--;
    assert_int_equal(run(&t), OTA_ELIMIT);
    /* Backward works where forward has its scores, which no limit takes away. */
    t.options.gradients = 1;
    t.options.workspace_limit = least_workspace(&t);
    assert_int_equal(run(&t), OTA_OK);
    assert_null(strstr(t.text, "path: streamed kernel"));
}

/* Without room for stored scores a streamed plan says what happened and never claims success. */
static void a_streamed_plan_that_fails_says_why(void **unused) {
    (void)unused;
    if (on_other_backend()) skip_because("the plain backend streams no kernel");
    static stage t;
    fill(&t, "softmax/exact", 150, 150, 1.0, 0.0, 3);
    const size_t limit = least_workspace(&t);
    t.options.workspace_limit = limit;
    t.k[7] = NAN;
    assert_int_equal(run(&t), OTA_NONFINITE);
    fill(&t, "softmax/exact", 150, 150, 10.0, 0.0, 3);
    t.options.workspace_limit = limit;
    t.options.max_rounds = 3;
    assert_int_equal(run(&t), OTA_NOT_CONVERGED);
    assert_non_null(strstr(t.result.sentence, "workspace_limit"));
    assert_true(isnan(t.out[0]));
    t.options.allow_partial = 1;
    assert_int_equal(run(&t), OTA_PARTIAL);
    assert_true(isfinite(t.out[0]) && judged(&t) > t.options.tolerance);
    fill(&t, "softmax/exact", 150, 150, 1.0, 0.0, 3);
    t.options.workspace_limit = limit;
    t.options.tolerance = 1e-17;
    assert_int_equal(run(&t), OTA_TOL_UNREACHABLE);
}

/* Below twice 8 u + u R / (4 tau), R the range of the scores, f32 is not asked [numeric policy 3.5]. */
static void the_range_of_the_scores_sets_the_floor(void **unused) {
    (void)unused;
    if (on_other_backend()) skip_because("the plain backend computes in f64");
    enum { SIDE = 70 };
    static stage t;
    for (int which = 0; which < 6; which++) {
        fill(&t, "softmax/exact", SIDE, SIDE, which % 3 == 0 ? 0.5 : 3.0 * (which % 3), 0.0, 7);
        from_scores(&t);
        float low = t.scores[0], high = low;
        for (int64_t p = 1; p < SIDE * SIDE; p++) {
            low = fminf(low, t.scores[p]);
            high = fmaxf(high, t.scores[p]);
        }
        const double floor = 0x1p-24 * (8.0 + (double)(high - low) / 4.0);
        t.options.tolerance = (which < 3 ? 1.9 : 2.1) * floor;
        assert_int_equal(run(&t), OTA_OK);
        assert_int_equal(t.result.promoted, which < 3);
    }
}

/* Fixed rounds on a matrix of f32 scores stay in f32 and within the bound of weights from bare scores. */
static void scores_in_f32_keep_the_bound(void **unused) {
    (void)unused;
    static stage narrow, wide;
    double worst = 0.0;
    for (int which = 0; which < 9; which++) {
        const double spread = which % 3 == 0 ? 0.3 : which % 3 == 1 ? 2.0 : 12.0;
        const int64_t rounds = 1 + which;
        fill(&narrow, rules[which % 3], 120, 131, spread, 0.0, 50 + (uint64_t)which);
        fill(&wide, rules[which % 3], 120, 131, spread, 0.0, 50 + (uint64_t)which);
        from_scores(&narrow);
        from_scores(&wide);
        narrow.options.rounds = wide.options.rounds = rounds;
        wide.options.precision = OTA_PRECISION_F64;
        assert_int_equal(run(&narrow), OTA_FIXED_ITERS);
        assert_int_equal(run(&wide), OTA_FIXED_ITERS);
        if (which % 3 == 0 && !on_other_backend()) assert_int_equal(narrow.result.promoted, 0);
        for (int64_t i = 0; i < 120; i++) {
            double top = -INFINITY;
            for (int64_t j = 0; j < 131; j++) top = fmax(top, (double)narrow.scores[i * 131 + j]);
            for (int64_t j = 0; j < 131; j++) {
                const double below = top - (double)narrow.scores[i * 131 + j];
                const double p = (double)wide.weights[i * 131 + j];
                const double growth = product_growth(0.0) + score_growth(below);
                const double slack =
                    weight_slack(1.0, p, 1.0, 0x1p-24, growth * (double)(rounds + 1));
                worst = fmax(worst, fabs((double)narrow.weights[i * 131 + j] - p) / slack);
            }
        }
    }
    spec_check("TOT-107 CETA-07", worst, 1.0);
}

/* A matrix that lies dense is read, and the coupling written, where it lies: the bits are those of rows with room
 * between them, which are copied. Costs are the scores with the other sign. `odd`: one row has a forbidden pair, so
 * that it goes the longer way, or nothing is finite at all. */
static void dense_matrices_change_no_bit(void **unused) {
    (void)unused;
    enum { N = 119, M = 131, LD = 137 };
    static const char *const methods[] = {"softmax/exact", "ceta{rounds=3}", "softmax/relaxed:2",
                                          "softmax/capped:1.4"};
    static stage t;
    static float apart[N * LD], spread[N * LD], shifted[N * M + 1], plan[N * M];
    int placed = 0;
    for (int which = 0; which < 4 * 2 * 3; which++) {
        const int odd = which / 8;
        fill(&t, methods[which % 4], N, M, 2.0, 0.0, 400 + (uint64_t)which);
        t.options.tolerance = 1e-4;
        t.problem.cost = which / 4 % 2;
        from_scores(&t);
        for (int64_t i = 0; i < N; i++) t.mu[i] = i % 17 == 5 ? 0.0 : 1.0;
        if (which % 3 == 0) t.problem.row_mass = ota_array_of(t.mu, OTA_F64, 1, 1, 1, N);
        for (int64_t k = 0; k < N * M && t.problem.cost; k++) t.scores[k] *= -1.0F;
        if (odd > 0) t.scores[40 * M + 3] = odd == 2 ? NAN : t.problem.cost ? INFINITY : -INFINITY;
        ota_arrays a = {.size = sizeof a};
        a.column_potential = ota_array_of(t.g, OTA_F64, 1, 1, 1, M);
        ota_status status[2];
        double g[M] = {0};
        int64_t rounds = 0;
        for (int way = 0; way < 2; way++) {
            for (int64_t k = 0; k < N * M; k++) {
                apart[k / M * LD + k % M] = t.scores[k];
                shifted[k + 1] = t.scores[k];
            }
            a.coupling = ota_array_of(plan, OTA_F32, 1, 1, N, M);
            t.problem.scores = ota_array_of(shifted + 1, OTA_F32, 1, 1, N, M);
            if (way == 1) {
                a.coupling = ota_array_of(spread, OTA_F32, 1, 1, N, M);
                t.problem.scores = ota_array_of(apart, OTA_F32, 1, 1, N, M);
                a.coupling.stride[2] = t.problem.scores.stride[2] = LD;
            }
            ota_plan *made;
            assert_int_equal(ota_plan_create(&made, &t.problem, 0, &t.options, &t.error), OTA_OK);
            (void)ota_plan_describe(made, t.text, sizeof t.text);
            t.result = (ota_result){.size = sizeof t.result};
            status[way] = ota_forward(made, &a, &t.result, &t.error);
            ota_plan_free(made);
            if (way == 0) {
                memcpy(g, t.g, sizeof g);
                rounds = t.result.rounds;
            }
        }
        assert_int_equal(status[0], status[1]);
        assert_true(odd == 2 ? status[0] == OTA_NONFINITE : status[0] >= OTA_OK);
        assert_int_equal(rounds, t.result.rounds);
        bool same = memcmp(g, t.g, sizeof g) == 0;
        for (int64_t i = 0; i < N; i++)
            same &= memcmp(plan + i * M, spread + i * LD, M * sizeof *plan) == 0;
        spec_check_true("", same);
        placed += strstr(t.text, "path: stored kernel") != NULL;
    }
    assert_true(on_other_backend() || placed > 12);
}

/* Extrapolation begins as soon as two residuals say that plain rounds would take long, also where keys are padding
 * for every query; not where a mask differs by rows. */
static void slow_rounds_are_extrapolated(void **unused) {
    (void)unused;
    enum { N = 200, WAYS = 4 };
    static stage t;
    uint64_t state = 9;
    double x[4 * N];
    int64_t rounds[WAYS];
    for (int k = 0; k < 4 * N; k++) x[k] = uniform(&state);
    for (int way = 0; way < WAYS; way++) {
        fill(&t, "softmax/exact", N, N, 1.0, 0.0, 1);
        from_scores(&t);
        for (int64_t k = 0; k < N * N; k++) {
            const double *a = x + 2 * (k / N), *b = x + 2 * N + 2 * (k % N);
            const double away[2] = {a[0] - b[0], a[1] - b[1]};
            t.scores[k] = (float)(-away[0] * away[0] - away[1] * away[1]);
            t.mask[k] = way == 2 ? k % N % 10 != 4 : k != 3 * N + 5;
        }
        t.support = (ota_support){.kind = OTA_SUPPORT_BOOLEAN,
                                  .array = ota_array_of(t.mask, OTA_BOOL, 1, 1, N, N)};
        t.problem.supports = &t.support;
        t.problem.support_count = way >= 2;
        t.problem.temperature = 0.1;
        t.options.tolerance = 1e-5;
        t.options.solver = way == 1 ? "sinkhorn" : NULL;
        assert_int_equal(run(&t), OTA_OK);
        assert_true(judged(&t) <= t.options.tolerance);
        rounds[way] = t.result.rounds;
    }
    print_message("  %d rounds, %d without extrapolation; %d padded, %d masked\n", (int)rounds[0],
                  (int)rounds[1], (int)rounds[2], (int)rounds[3]);
    if (on_other_backend()) return; /* has no kernel to extrapolate on */
    assert_true(5 * rounds[0] <= 2 * rounds[1] && 5 * rounds[2] <= 2 * rounds[1]);
    assert_true(rounds[3] > 2 * rounds[0]);
}

TEST_FILE(test_tolerance) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(success_is_within_the_tolerance),
        cmocka_unit_test(streaming_changes_no_bit),
        cmocka_unit_test(a_limit_below_every_path_names_the_least),
        cmocka_unit_test(a_streamed_plan_that_fails_says_why),
        cmocka_unit_test(the_range_of_the_scores_sets_the_floor),
        cmocka_unit_test(scores_in_f32_keep_the_bound),
        cmocka_unit_test(dense_matrices_change_no_bit),
        cmocka_unit_test(slow_rounds_are_extrapolated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
