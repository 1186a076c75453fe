/* Rounds that begin in f32 and end in f64: plain transport to tolerances that f32 cannot certify. The plan is
 * judged here in f64 by its conditions,
 *
 *     P_ij = exp((S_ij + f_i + g_j) / tau),   P 1 = mu,   P^T 1 = nu within the tolerance
 *
 * and lies where the rounds that never leave f64 (`precision=f64`) put it. */
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

#include "backend_wrap.h"
#include "draw/random.h"
#include "groups.h"
#include "otattn.h"
#include "spec.h"

static dice dice_state;

enum { N = 151, M = 139, WAYS = 2 };

typedef struct scene {
    double s[N * M], mu[N], nu[M];
    float narrow[N * M];
    double p[WAYS][N * M], f[WAYS][N], g[WAYS][M];
    bool single;
    ota_problem problem;
    ota_options options;
    ota_result result[WAYS];
    ota_error error;
    char text[4096];
} scene;

typedef struct lead_case {
    const char *method;
    double temperature, tolerance, offset, apart;
    bool masses, zeros, forbidden, single, alone; /* alone: f64 does all of it */
} lead_case;

/* Squared distances of points of two unit squares, and masses that differ, some of them 0. */
static scene *draw(const lead_case *c, uint64_t seed) {
    scene *x = calloc(1, sizeof *x);
    assert_non_null(x);
    dice_state = seed;
    double at[2 * (N + M)], rows = 0.0, columns = 0.0;
    for (int k = 0; k < 2 * (N + M); k++)
        at[k] = uniform(&dice_state) + (k < 2 * N ? 0.0 : c->apart);
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < M; j++) {
            const double a = at[2 * i] - at[2 * (N + j)], b = at[2 * i + 1] - at[2 * (N + j) + 1];
            x->s[i * M + j] = c->offset - a * a - b * b;
            if (c->forbidden && (7 * i + j) % 23 == 0) x->s[i * M + j] = -INFINITY;
        }
    }
    for (int k = 0; k < N * M; k++) x->narrow[k] = (float)x->s[k];
    for (int k = 0; k < N * M && c->single; k++) x->s[k] = (double)x->narrow[k];
    for (int i = 0; i < N; i++) {
        x->mu[i] = !c->masses ? 1.0 : c->zeros && i % 11 == 3 ? 0.0 : 0.2 + uniform(&dice_state);
        rows += x->mu[i];
    }
    for (int j = 0; j < M; j++) {
        x->nu[j] = !c->masses ? 1.0 : c->zeros && j % 13 == 5 ? 0.0 : 0.2 + uniform(&dice_state);
        columns += x->nu[j];
    }
    for (int j = 0; j < M; j++) x->nu[j] *= rows / columns;
    x->single = c->single;
    x->problem.size = sizeof x->problem;
    x->options.size = sizeof x->options;
    assert_int_equal(ota_method_parse(c->method, &x->problem, &x->options, &x->error), OTA_OK);
    x->problem.temperature = c->temperature;
    x->problem.scores = c->single ? ota_array_of(x->narrow, OTA_F32, 1, 1, N, M)
                                  : ota_array_of(x->s, OTA_F64, 1, 1, N, M);
    x->problem.row_mass = ota_array_of(x->mu, OTA_F64, 1, 1, 1, N);
    x->problem.column_mass = ota_array_of(x->nu, OTA_F64, 1, 1, 1, M);
    x->options.tolerance = c->tolerance;
    x->options.max_rounds = 5000;
    x->options.threads = 1;
    return x;
}

static ota_status run(scene *x, int way) {
    const ota_arrays arrays = {.size = sizeof arrays,
                               .coupling = ota_array_of(x->p[way], OTA_F64, 1, 1, N, M),
                               .row_potential = ota_array_of(x->f[way], OTA_F64, 1, 1, 1, N),
                               .column_potential = ota_array_of(x->g[way], OTA_F64, 1, 1, 1, M)};
    ota_plan *plan;
    if (ota_plan_create(&plan, &x->problem, 0, &x->options, &x->error) != OTA_OK)
        fail_msg("%s", x->error.message);
    (void)ota_plan_describe(plan, x->text, sizeof x->text);
    x->result[way] = (ota_result){.size = sizeof x->result[way]};
    const ota_status status = ota_forward(plan, &arrays, &x->result[way], &x->error);
    ota_plan_free(plan);
    return status;
}

/* The residuals of the plan, and what keeps its weights from those of its potentials, in roundings of the exponent. */
static void judge(const scene *x, int way, double tolerance) {
    const ota_problem *p = &x->problem;
    const double t = p->temperature;
    double mass = 0.0, rows = 0.0, columns = 0.0, column[M] = {0}, worst = 0.0;
    for (int i = 0; i < N; i++) mass += x->mu[i];
    for (int i = 0; i < N; i++) {
        const double f = x->f[way][i];
        double sum = 0.0;
        for (int j = 0; j < M; j++) {
            const double weight = x->p[way][i * M + j], s = x->s[i * M + j], g = x->g[way][j];
            const bool used = x->mu[i] > 0.0 && g > -INFINITY && s > -INFINITY;
            const double wanted = used ? exp((s + f + g) / t) : 0.0;
            const double units = used ? 16.0 + 8.0 * (fabs(s) + fabs(f) + fabs(g)) / t : 0.0;
            const double bound = 0x1p-53 * units * wanted + DBL_MIN;
            worst = fmax(worst, fabs(weight - wanted) / bound);
            sum += weight;
            column[j] += weight;
        }
        rows += fabs(sum - x->mu[i]);
    }
    for (int j = 0; j < M; j++) {
        const double g = x->g[way][j], nu = x->nu[j], c = column[j];
        if (p->columns == OTA_COLUMNS_RELAXED)
            columns += nu > 0.0 ? fabs(c - nu * exp(-g / p->strength)) : c;
        else if (p->columns == OTA_COLUMNS_CAPPED)
            columns += c > p->cap * nu ? c - p->cap * nu : g < 0.0 ? p->cap * nu - c : 0.0;
        else
            columns += fabs(c - nu);
    }
    const double rounding = 64.0 * 0x1p-53;
    spec_check("TOT-107", worst, 1.0);
    spec_check("TOT-107", rows / mass, rounding);
    spec_check("TOT-107", columns / mass, tolerance + rounding);
}

static const lead_case cases[] = {
    {.method = "softmax/exact", .temperature = 0.02, .tolerance = 1e-9},
    {.method = "softmax/exact", .temperature = 0.02, .tolerance = 1e-12},
    {.method = "softmax/exact", .temperature = 0.02, .tolerance = 1e-6},
    {.method = "softmax/exact", .temperature = 0.005, .tolerance = 1e-9, .masses = true},
    {.method = "softmax/exact",
     .temperature = 0.02,
     .tolerance = 1e-9,
     .masses = true,
     .zeros = true},
    {.method = "softmax/exact", .temperature = 0.005, .tolerance = 1e-10},
    {.method = "softmax/exact", .temperature = 0.001, .tolerance = 1e-9, .alone = true},
    {.method = "softmax/exact", .temperature = 0.0001, .tolerance = 1e-9, .alone = true},
    {.method = "softmax/exact", .temperature = 0.01, .tolerance = 1e-9, .offset = 300.0},
    {.method = "softmax/exact",
     .temperature = 0.02,
     .tolerance = 1e-9,
     .offset = 1e6,
     .alone = true},
    {.method = "softmax/exact", .temperature = 1.0, .tolerance = 1e-9, .alone = true},
    {.method = "softmax/exact",
     .temperature = 0.02,
     .tolerance = 1e-9,
     .forbidden = true,
     .alone = true},
    {.method = "softmax/relaxed:0.5", .temperature = 0.02, .tolerance = 1e-9, .masses = true},
    {.method = "softmax/relaxed:0.5", .temperature = 0.02, .tolerance = 1e-9, .forbidden = true},
    {.method = "softmax/capped:1.2",
     .temperature = 0.02,
     .tolerance = 1e-9,
     .zeros = true,
     .masses = true},
    {.method = "softmax/exact", .temperature = 0.006, .tolerance = 1e-8, .apart = 0.25},
    {.method = "softmax/exact", .temperature = 0.02, .tolerance = 1e-9, .single = true},
    {.method = "softmax/exact",
     .temperature = 0.003,
     .tolerance = 1e-5,
     .masses = true,
     .single = true},
    {.method = "softmax/relaxed:0.5", .temperature = 0.005, .tolerance = 1e-10, .single = true},
};
enum { CASES = (int)(sizeof cases / sizeof cases[0]) };

static bool same(const scene *x) {
    return memcmp(x->p[0], x->p[1], sizeof x->p[0]) == 0 &&
           memcmp(x->f[0], x->f[1], sizeof x->f[0]) == 0 &&
           memcmp(x->g[0], x->g[1], sizeof x->g[0]) == 0;
}

/* Potentials that went through f32 have other bits than those that did not. */
static void tolerances_are_met_in_f64(void **unused) {
    (void)unused;
    for (int k = 0; k < CASES; k++) {
        const lead_case *c = &cases[k];
        /* Scores this far from 0 are coarser than the tolerance, unless a kernel takes the tops of the rows away. */
        if (on_other_backend() && c->offset > 1e5) continue;
        scene *x = draw(c, 900 + (uint64_t)k);
        assert_int_equal(run(x, 0), OTA_OK);
        assert_true(on_other_backend() ||
                    strstr(x->text, c->single ? "f64 where a head needs it"
                                              : "rounds in f32 warm-start it") != NULL);
        assert_int_equal(x->result[0].promoted, c->single);
        x->options.precision = OTA_PRECISION_F64;
        assert_int_equal(run(x, 1), OTA_OK);
        assert_null(strstr(x->text, "f32)"));
        print_message("%s at %g to %g: %d rounds, %d in f64 alone, by %s and %s\n", c->method,
                      c->temperature, c->tolerance, (int)x->result[0].rounds,
                      (int)x->result[1].rounds, x->result[0].solver, x->result[1].solver);
        assert_true(on_other_backend() || same(x) == c->alone);
        for (int way = 0; way < WAYS; way++) judge(x, way, c->tolerance);
        free(x);
    }
}

static void threads_change_no_bit(void **unused) {
    (void)unused;
    for (int k = 0; k < CASES; k += 5) {
        scene *x = draw(&cases[k], 900 + (uint64_t)k);
        assert_int_equal(run(x, 0), OTA_OK);
        for (int threads = 2; threads <= 5; threads++) {
            x->options.threads = threads;
            assert_int_equal(run(x, 1), OTA_OK);
            spec_check_true("TOT-111", same(x) && x->result[0].rounds == x->result[1].rounds);
        }
        free(x);
    }
}

/* Rounds are counted on, whatever type they were in, so a limit ends both. */
static void limits_count_rounds_of_both_types(void **unused) {
    (void)unused;
    if (on_other_backend()) skip_because("the plain backend streams no kernel");
    const int64_t limits[] = {1, 3, 17, 25, 34};
    for (size_t k = 0; k < sizeof limits / sizeof limits[0]; k++) {
        scene *x = draw(&cases[1], 901);
        x->options.solver = "auto";
        x->options.max_rounds = limits[k];
        x->options.allow_partial = 1;
        x->options.workspace_limit = 200000; /* streamed: nothing goes on */
        assert_int_equal(run(x, 0), OTA_PARTIAL);
        assert_non_null(strstr(x->text, "streamed kernel"));
        assert_int_equal(x->result[0].rounds, x->options.max_rounds);
        judge(x, 0, 1.0);
        free(x);
    }
}

/* A caller who knows the potentials, Sinkhorn by name and small heads do without. */
static void others_stay_in_f64(void **unused) {
    (void)unused;
    scene *x = draw(&cases[0], 900);
    x->options.solver = "sinkhorn";
    assert_int_equal(run(x, 0), OTA_OK);
    assert_null(strstr(x->text, "f32)"));
    x->options.solver = "auto";
    x->problem.scores = ota_array_of(x->s, OTA_F64, 1, 1, 100, M);
    x->problem.row_mass = ota_array_of(x->mu, OTA_F64, 1, 1, 1, 100);
    x->problem.column_mass = (ota_array){0};
    ota_plan *plan;
    assert_int_equal(ota_plan_create(&plan, &x->problem, 0, &x->options, &x->error), OTA_OK);
    (void)ota_plan_describe(plan, x->text, sizeof x->text);
    assert_null(strstr(x->text, "f32)"));
    ota_plan_free(plan);
    free(x);
}

static void a_start_stays_in_f64(void **unused) {
    (void)unused;
    scene *x = draw(&cases[0], 900);
    double start[M] = {0};
    ota_arrays arrays = {.size = sizeof arrays,
                         .column_potential = ota_array_of(x->g[0], OTA_F64, 1, 1, 1, M),
                         .start_potential = ota_array_of(start, OTA_F64, 1, 1, 1, M)};
    assert_int_equal(ota_attend(&x->problem, &x->options, &arrays, NULL, &x->error), OTA_OK);
    x->options.precision = OTA_PRECISION_F64;
    arrays.column_potential = ota_array_of(x->g[1], OTA_F64, 1, 1, 1, M);
    assert_int_equal(ota_attend(&x->problem, &x->options, &arrays, NULL, &x->error), OTA_OK);
    assert_memory_equal(x->g[0], x->g[1], sizeof x->g[0]);
    free(x);
}

TEST_FILE(test_lead) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tolerances_are_met_in_f64),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(limits_count_rounds_of_both_types),
        cmocka_unit_test(others_stay_in_f64),
        cmocka_unit_test(a_start_stays_in_f64),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
