/* Coupled columns worked on in f32 (`precision=f32`) against the same scores in f64. The scores S [n][m]
 * are f32 numbers, so both see the same problem, and a plan of k rounds may differ by
 *
 *     |P_ij / P'_ij - 1| <= u (k + 1) (8 + 4 range / tau),   u = 2^-24    (numeric policy, stored scores)
 *
 * Also what only f32 does: it absorbs and loses sums at other ranges. */
#include "coupled_stage.h"
#include "groups.h"

typedef struct narrow_case {
    const char *method, *solver;
    double range, temperature;
    int64_t rounds; /* 0: to 1e-5 */
    double relaxation;
    ota_center center;
    bool sink, relaxed_rows, masked, start_columns, end_columns;
} narrow_case;

enum { N = 37, M = 29 };

static void round_scores(stage *x) {
    for (int64_t k = 0; k < x->n * x->m; k++) x->s[k] = (double)(float)x->s[k];
}

/* The stage's problem with f32 scores and f32 arithmetic. */
static ota_status solve_narrow(stage *x, double temperature) {
    float *s = malloc((size_t)(x->n * x->m) * sizeof *s);
    assert_non_null(s);
    for (int64_t k = 0; k < x->n * x->m; k++) s[k] = (float)x->s[k];
    x->problem.temperature = temperature;
    x->problem.scores = ota_array_of(s, OTA_F32, 1, 1, x->n, x->m);
    x->options.precision = OTA_PRECISION_F32;
    const ota_arrays arrays = stage_arrays(x);
    x->result = (ota_result){.size = sizeof x->result};
    const ota_status status = ota_attend(&x->problem, &x->options, &arrays, &x->result, &x->error);
    free(s);
    return status;
}

static void set_case(stage *x, const narrow_case *c) {
    name_method(x, c->method);
    x->options.solver = c->solver;
    x->options.rounds = c->rounds;
    x->options.tolerance = c->rounds == 0 ? 1e-5 : 0.0;
    x->options.max_rounds = c->rounds == 0 ? 5000 : 0;
    x->options.relaxation = c->relaxation;
    x->options.relaxation_auto = c->rounds == 0 && c->relaxation < 0.0;
    if (c->relaxation < 0.0) x->options.relaxation = 0.0;
    x->options.center = c->center;
    x->has_sink = c->sink;
    x->sink = (ota_term){.kind = OTA_TERM_SINK, .value = 0.4 * c->range};
    if (c->relaxed_rows) {
        x->problem.rows = OTA_ROWS_RELAXED;
        x->problem.row_strength = 2.0;
    }
    if (c->start_columns) x->problem.start = OTA_SIDE_COLUMNS;
    if (c->end_columns) x->problem.end = OTA_SIDE_COLUMNS;
}

/* The worst error of a weight in units of its bound; weights below the smallest normal f32 do not count. */
static double in_units(const stage *narrow, const stage *wide, const narrow_case *c) {
    const double rounds = c->rounds > 0 ? (double)c->rounds : (double)wide->result.rounds;
    const double bound = 0x1p-24 * (rounds + 1.0) * (8.0 + 4.0 * c->range / c->temperature);
    double worst = 0.0;
    for (int64_t k = 0; k < wide->n * wide->m; k++) {
        const double a = narrow->p[k], b = wide->p[k];
        if (!(b > 1e-37) && !(a > 1e-37)) continue;
        const double apart = fabs(a - b) / fmax(b, 1e-37) / bound;
        if (!(apart <= worst)) worst = apart;
    }
    return worst;
}

static void fixed_rounds(void **unused) {
    (void)unused;
    static const narrow_case cases[] = {
        {.method = "ceta", .solver = "sinkhorn", .range = 3.0, .rounds = 6},
        {.method = "ceta", .solver = "sinkhorn", .range = 70.0, .rounds = 6},
        {.method = "ceta", .solver = "sinkhorn", .range = 30.0, .rounds = 6, .masked = true},
        {.method = "ceta", .solver = "log", .range = 30.0, .rounds = 6, .masked = true},
        {.method = "ceta", .solver = "log", .range = 300.0, .rounds = 4},
        {.method = "relaxed:0.7", .solver = "sinkhorn", .range = 20.0, .rounds = 6},
        {.method = "capped:1.5", .solver = "sinkhorn", .range = 20.0, .rounds = 6, .sink = true},
        {.method = "capped:1.5", .solver = "log", .range = 20.0, .rounds = 6, .sink = true},
        {.method = "elastic:0.5", .solver = "sinkhorn", .range = 20.0, .rounds = 6},
        {.method = "ceta",
         .solver = "sinkhorn",
         .range = 60.0,
         .rounds = 6,
         .center = OTA_CENTER_MIDRANGE},
        {.method = "ceta",
         .solver = "sinkhorn",
         .range = 60.0,
         .rounds = 6,
         .center = OTA_CENTER_MEAN},
        {.method = "ceta", .solver = "sinkhorn", .range = 10.0, .rounds = 6, .relaxation = 1.4},
        {.method = "ceta",
         .solver = "log",
         .range = 10.0,
         .rounds = 6,
         .start_columns = true,
         .end_columns = true},
        {.method = "relaxed:0.7",
         .solver = "log",
         .range = 10.0,
         .rounds = 6,
         .relaxed_rows = true},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        narrow_case c = cases[k];
        c.temperature = 1.0;
        stage *x = set_stage(N, M), *y = set_stage(N, M);
        fill_uniform(x, 500 + k, c.range);
        for (int64_t i = 0; i < N && c.masked; i++) x->s[i * M + (5 * i) % M] = -INFINITY;
        round_scores(x);
        memcpy(y->s, x->s, sizeof x->s);
        set_case(x, &c);
        set_case(y, &c);
        y->problem.temperature = c.temperature;
        assert_int_equal(solve(y), OTA_FIXED_ITERS);
        assert_int_equal(solve_narrow(x, c.temperature), OTA_FIXED_ITERS);
        assert_int_equal(x->result.promoted, 0);
        const double units = in_units(x, y, &c);
        print_message("%s by %s, range %g: %.3g\n", c.method, c.solver, c.range, units);
        spec_check("TOT-107", units, 1.0);
        free(x);
        free(y);
    }
}

/* To a tolerance the plan is judged by its conditions: P = exp((S + f + g) / tau) and the sums of its columns. */
static void to_a_tolerance(void **unused) {
    (void)unused;
    static const struct {
        const char *method, *solver, *found_by;
        double temperature;
        int relaxation_auto;
        bool masked; /* such heads are not extrapolated */
    } cases[] = {
        {"ceta", "auto", "sinkhorn", 0.5, 0, false},
        {"ceta", "auto", "newton", 0.005, 0, true},
        {"ceta", "auto", "newton", 0.006, 0, true},
        {"relaxed:10", "auto", "newton", 0.004, 0, false},
        {"ceta", "sinkhorn", "sinkhorn", 0.02, 1, false},
        {"ceta", "log", "log", 0.02, 1, false},
        {"capped:1.2", "anderson", "anderson", 0.05, 0, false},
        {"capped:1.1", "auto", "newton", 0.004, 0, true},
    };
    enum { SIDE = 32 };
    const double tolerance = 1e-5;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const double t = cases[k].temperature;
        stage *x = set_stage(SIDE, SIDE);
        fill_uniform(x, 540 + k, 1.0);
        for (int i = 0; i < SIDE && cases[k].masked; i++)
            x->s[i * SIDE + (5 * i) % SIDE] = -INFINITY;
        round_scores(x);
        name_method(x, cases[k].method);
        x->options.solver = cases[k].solver;
        x->options.relaxation_auto = cases[k].relaxation_auto;
        x->options.tolerance = tolerance;
        x->options.max_rounds = 20000;
        assert_int_equal(solve_narrow(x, t), OTA_OK);
        assert_string_equal(x->result.solver, cases[k].found_by);
        assert_int_equal(x->result.promoted, 0);
        double worst = 0.0, columns = 0.0;
        for (int j = 0; j < SIDE; j++) {
            double sum = 0.0;
            for (int i = 0; i < SIDE; i++) {
                const double p = x->p[i * SIDE + j];
                const double y = (x->s[i * SIDE + j] + x->f[i] + x->g[j]) / t;
                worst = fmax(worst, fabs(p - exp(y)));
                sum += p;
            }
            const double rho = x->problem.strength, cap = x->problem.cap, g = x->g[j];
            switch (x->problem.columns) {
            case OTA_COLUMNS_RELAXED: columns += fabs(sum - exp(-g / rho)); break;
            case OTA_COLUMNS_CAPPED:
                columns += sum > cap ? sum - cap : g < 0.0 ? cap - sum : 0.0;
                break;
            default: columns += fabs(sum - 1.0);
            }
        }
        spec_check("TOT-107", worst, 0x1p-24 * (8.0 + 4.0 / t));
        spec_check("TOT-107", columns / (double)SIDE, 1.1 * tolerance);
        free(x);
    }
}

/* A triangle of allowed pairs admits the identity alone; what is pruned carries nothing. */
static void pruned(void **unused) {
    (void)unused;
    enum { SIDE = 21 };
    stage *x = set_stage(SIDE, SIDE);
    fill_uniform(x, 560, 1.0);
    for (int i = 0; i < SIDE; i++) {
        for (int j = i + 1; j < SIDE; j++) x->s[i * SIDE + j] = -INFINITY;
    }
    name_method(x, "ceta");
    x->options.prune = 1;
    assert_int_equal(solve_narrow(x, 0.5), OTA_OK);
    assert_int_equal(x->result.pruned_pairs, SIDE * (SIDE - 1) / 2);
    for (int i = 0; i < SIDE; i++) {
        for (int j = 0; j < SIDE; j++) {
            if (i != j) assert_true(x->p[i * SIDE + j] == 0.0);
            if (i == j) spec_check("TOT-107", fabs(x->p[i * SIDE + j] - 1.0), 1e-5);
        }
    }
    free(x);
}

TEST_FILE(test_coupled_narrow) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fixed_rounds),
        cmocka_unit_test(to_a_tolerance),
        cmocka_unit_test(pruned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
