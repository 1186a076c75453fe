/* test_mass_limits.c: derivatives by masses of exactly 0 are those of a mass that begins to grow: gradients and tangents of every
 * rule that has such limits, by row masses and by column masses, against differences of forward at small masses,
 *
 *     (P(m + h d) - P(m)) / h,  less what the step of 2 h adds       d: grows from 0 here, shrinks there
 *
 * which are right up to the solver's tolerance over h and to h^2, and, for orders below 1, where the weights of a small mass m come
 * to even ones like m^(1 - alpha), to that. The other gradients have the bits of a call that asks for none of these; of fixed rounds,
 * which then go by scores and not by their kernel, the digits. */
#define _GNU_SOURCE
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "groups.h"
#include "one_head.h"

enum { ROWS = 5, KEYS = 6, SEEDS = 6 };

typedef struct limit_case {
    const char *method;
    bool rows, columns; /* masses that have limits */
    double order;       /* below 1: that of the weights */
} limit_case;

typedef struct scene {
    const char *method;
    ota_axis axis;
    int rounds;
    bool by_rows, by_columns, sink, caps;
    double s[ROWS * KEYS], rows[ROWS], columns[KEYS];
} scene;

static double uniform_of(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-53;
}

/* Of the sums: what rows alone, and rounds, leave to rounding, or what the solver is asked for. */
static double tolerance_of(const scene *c, double order) {
    const bool alone = strchr(c->method, '/') == NULL && c->axis == OTA_AXIS_ROWS;
    if (c->rounds > 0 || alone) return 4.0 * DBL_EPSILON;
    return order < 1.0 ? 2e-11 : 1e-13;
}

static double sum_of(const double *x, int count) {
    double sum = 0.0;
    for (int k = 0; k < count; k++) sum += x[k];
    return sum;
}

static head *load(int which, const scene *c, const double *rows, const double *columns) {
    head *t = head_make(which, c->method, ROWS, KEYS, c->s);
    memcpy(t->mu, rows, ROWS * sizeof *rows);
    memcpy(t->v, columns, KEYS * sizeof *columns);
    if (c->by_rows) t->problem.row_mass = ota_array_of(t->mu, OTA_F64, 1, 1, 1, ROWS);
    if (c->by_columns) t->problem.column_mass = ota_array_of(t->v, OTA_F64, 1, 1, 1, KEYS);
    t->problem.axis = c->axis;
    t->options.gradients = 1;
    if (c->rounds > 0)
        t->options.rounds = c->rounds;
    else if (strchr(c->method, '/') != NULL || c->axis == OTA_AXIS_COLUMNS)
        t->options.tolerance = tolerance_of(c, names(c->method, ":0.5") ? 0.5 : 1.0);
    t->options.max_rounds = 1000000;
    if (c->sink) {
        t->terms[0].kind = OTA_TERM_SINK;
        t->terms[0].value = 0.3;
        t->problem.term_count = 1;
    }
    if (c->caps) t->problem.entry_cap = 0.9;
    return t;
}

static void forward(head *t, ota_plan **plan) {
    ota_error *e = &t->error;
    ota_status status = ota_plan_create(plan, &t->problem, 0, &t->options, e);
    if (status == OTA_OK) status = ota_forward(*plan, &t->arrays, &t->result, e);
    if (status < OTA_OK) fail_msg("%s", e->message);
}

static void solve_plan(const scene *c, const double *rows, const double *columns, double *p) {
    head *t = load(1, c, rows, columns);
    ota_plan *plan = NULL;
    forward(t, &plan);
    memcpy(p, t->p, sizeof c->s);
    ota_plan_free(plan);
}

/* What grows, by 1, and what shrinks by as much. */
static void direct(const double *masses, int count, double *d) {
    int from = -1, to = -1;
    for (int k = 0; k < count; k++) {
        d[k] = 0.0;
        if (!(masses[k] > 0.0))
            to = k;
        else
            from = k;
    }
    assert_true(to >= 0 && from >= 0);
    d[to] = 1.0;
    d[from] = -1.0;
}

static double largest_gap(const double *a, const double *b, int count) {
    double most = 0.0;
    for (int k = 0; k < count; k++) most = fmax(most, fabs(a[k] - b[k]));
    return most;
}

/* Differences along one side's direction. */
static void differ(const scene *c, bool rows, double h, const double *d, double *to) {
    double at[3][ROWS * KEYS];
    for (int k = 0; k < 3; k++) {
        double mu[ROWS], nu[KEYS];
        for (int i = 0; i < ROWS; i++) mu[i] = c->rows[i] + (rows ? k * h * d[i] : 0.0);
        for (int j = 0; j < KEYS; j++) nu[j] = c->columns[j] + (rows ? 0.0 : k * h * d[j]);
        solve_plan(c, mu, nu, at[k]);
    }
    for (int q = 0; q < ROWS * KEYS; q++)
        to[q] = (4.0 * at[1][q] - 3.0 * at[0][q] - at[2][q]) / (2.0 * h);
}

static double inner(const double *a, const double *b, int count) {
    double sum = 0.0;
    for (int k = 0; k < count; k++) sum += a[k] * b[k];
    return sum;
}

static void compare(const scene *c, bool rows, double order, uint64_t *state) {
    const double tolerance = tolerance_of(c, order);
    const double h = order > 1.0                        ? 1e-7
                     : order < 1.0 && tolerance < 1e-14 ? 1e-11
                     : order < 1.0                      ? 1e-6
                                                        : 1e-5;
    double d[KEYS], slope[ROWS * KEYS], u[ROWS * KEYS], moved[ROWS * KEYS];
    double by_mass[KEYS], by_scores[2][ROWS * KEYS];
    const int count = rows ? ROWS : KEYS;
    for (int q = 0; q < ROWS * KEYS; q++) u[q] = 2.0 * uniform_of(state) - 1.0;
    direct(rows ? c->rows : c->columns, count, d);
    differ(c, rows, h, d, slope);
    double size = 1.0;
    for (int q = 0; q < ROWS * KEYS; q++) size = fmax(size, fabs(slope[q]));
    const double rounding = tolerance * sum_of(c->rows, ROWS) / h,
                 curved = order < 1.0 ? pow(h, 1.0 - order) : h * h;
    const double allowed = 16.0 * size * (rounding + curved);
    head *t = load(0, c, c->rows, c->columns);
    ota_plan *plan = NULL;
    forward(t, &plan);
    const ota_array mass = ota_array_of(by_mass, OTA_F64, 1, 1, 1, count);
    ota_gradients want = {.size = sizeof want,
                          .coupling_grad = ota_array_of(u, OTA_F64, 1, 1, ROWS, KEYS),
                          .scores = ota_array_of(by_scores[0], OTA_F64, 1, 1, ROWS, KEYS)};
    ota_status status = ota_backward(plan, &t->arrays, &want, &t->result, &t->error);
    if (status < OTA_OK) fail_msg("%s: %s", c->method, t->error.message);
    want.scores.data = by_scores[1];
    if (rows)
        want.row_mass = mass;
    else
        want.column_mass = mass;
    status = ota_backward(plan, &t->arrays, &want, &t->result, &t->error);
    if (status < OTA_OK) fail_msg("%s: %s", c->method, t->error.message);
    ota_tangents tangents = {.size = sizeof tangents,
                             .coupling = ota_array_of(moved, OTA_F64, 1, 1, ROWS, KEYS)};
    if (rows)
        tangents.row_mass = ota_array_of(d, OTA_F64, 1, 1, 1, count);
    else
        tangents.column_mass = ota_array_of(d, OTA_F64, 1, 1, 1, count);
    status = ota_jvp(plan, &t->arrays, &tangents, &t->result, &t->error);
    if (status < OTA_OK) fail_msg("%s: %s", c->method, t->error.message);
    ota_plan_free(plan);
    const double wrong = fabs(inner(by_mass, d, count) - inner(u, slope, ROWS * KEYS)),
                 off = largest_gap(moved, slope, ROWS * KEYS),
                 apart = fabs(inner(by_mass, d, count) - inner(u, moved, ROWS * KEYS));
    if (!(wrong <= ROWS * KEYS * allowed) || !(off <= allowed) || !(apart <= 1e-9 * size))
        fail_msg("%s%s, by %s: gradients %g, tangents %g of %g, apart by %g", c->method,
                 c->axis == OTA_AXIS_COLUMNS ? " on the columns axis" : "",
                 rows ? "row masses" : "column masses", wrong, off, allowed, apart);
    if (c->rounds == 0)
        assert_memory_equal(by_scores[0], by_scores[1], sizeof by_scores[0]);
    else
        assert_true(largest_gap(by_scores[0], by_scores[1], ROWS * KEYS) <= 64.0 * DBL_EPSILON);
}

static void fill(scene *c, bool transposed, uint64_t *state) {
    double total[2] = {0.0, 0.0};
    for (int q = 0; q < ROWS * KEYS; q++) c->s[q] = 3.0 * uniform_of(state) - 1.5;
    for (int i = 0; i < ROWS; i++) total[0] += c->rows[i] = 0.5 + uniform_of(state);
    for (int j = 0; j < KEYS; j++) total[1] += c->columns[j] = 0.5 + uniform_of(state);
    const int row = (int)(uniform_of(state) * (ROWS - 1)),
              key = (int)(uniform_of(state) * (KEYS - 1));
    if (c->by_rows) total[0] -= c->rows[row], c->rows[row] = 0.0;
    if (c->by_columns) total[1] -= c->columns[key], c->columns[key] = 0.0;
    for (int i = 0; i < ROWS && !transposed; i++) c->rows[i] *= total[1] / total[0];
    for (int j = 0; j < KEYS && transposed; j++) c->columns[j] *= total[0] / total[1];
}

static const limit_case cases[] = {
    {"softmax", true, false, 1.0},
    {"entmax:1.5", true, false, 2.0},
    {"entmax:3", true, false, 2.0},
    {"entmax:0.5", true, false, 0.5},
    {"softmax/exact", true, true, 1.0},
    {"softmax/relaxed:0.7", true, false, 1.0},
    {"softmax/capped:1.3", true, true, 1.0},
    {"softmax/bounded:0.6,1.5", true, true, 1.0},
    {"entmax:1.5/exact", true, true, 2.0},
    {"sparsemax/exact", true, true, 2.0},
    {"entmax:3/exact", true, true, 2.0},
    {"entmax:1.5/capped:1.3", true, true, 2.0},
    {"sparsemax/bounded:0.6,1.5", true, true, 2.0},
    {"entmax:1.5/relaxed:1", true, false, 2.0},
    {"entmax:0.5/exact", true, true, 0.5},
};
enum { CASES = (int)(sizeof cases / sizeof cases[0]) };

static void run_case(const limit_case *one, ota_axis axis, int rounds, const scene *like) {
    const bool coupled = strchr(one->method, '/') != NULL, transposed = axis == OTA_AXIS_COLUMNS;
    for (int seed = 0; seed < SEEDS; seed++) {
        uint64_t state = (uint64_t)seed * 977 + 5;
        scene c = *like;
        c.method = one->method;
        c.axis = axis;
        c.rounds = rounds;
        c.by_rows = coupled || !transposed;
        c.by_columns = coupled || transposed;
        fill(&c, transposed, &state);
        /* Of penalties on sums only the other side has limits. */
        const bool rows = transposed ? one->columns : one->rows,
                   columns = transposed ? one->rows : one->columns;
        if (rows && c.by_rows) compare(&c, true, one->order, &state);
        if (columns && c.by_columns) compare(&c, false, one->order, &state);
    }
}

static void masses_grow_from_zero(void **unused) {
    (void)unused;
    const scene plain = {.sink = false};
    for (int k = 0; k < CASES; k++) run_case(&cases[k], OTA_AXIS_ROWS, 0, &plain);
}

static void masses_grow_on_the_columns_axis(void **unused) {
    (void)unused;
    const scene plain = {.sink = false};
    for (int k = 0; k < CASES; k++) run_case(&cases[k], OTA_AXIS_COLUMNS, 0, &plain);
}

static void masses_grow_beside_sinks_and_caps(void **unused) {
    (void)unused;
    const scene sink = {.sink = true}, caps = {.caps = true};
    for (int k = 0; k < CASES; k++) {
        if (strstr(cases[k].method, "/exact") == NULL) run_case(&cases[k], OTA_AXIS_ROWS, 0, &sink);
    }
    static const limit_case capped[] = {{"softmax", true, false, 1.0},
                                        {"softmax/exact", true, true, 1.0},
                                        {"entmax:1.5/capped:1.3", true, true, 2.0}};
    for (int k = 0; k < 3; k++) run_case(&capped[k], OTA_AXIS_ROWS, 0, &caps);
}

static void masses_grow_in_fixed_rounds(void **unused) {
    (void)unused;
    const scene plain = {.sink = false};
    static const limit_case rounds[] = {{"softmax/exact", true, true, 1.0},
                                        {"softmax/capped:1.3", true, true, 1.0},
                                        {"softmax/bounded:0.6,1.5", true, true, 1.0},
                                        {"softmax/relaxed:0.7", true, false, 1.0}};
    for (int k = 0; k < 4; k++) {
        run_case(&rounds[k], OTA_AXIS_ROWS, 4, &plain);
        run_case(&rounds[k], OTA_AXIS_COLUMNS, 4, &plain);
    }
}

/* A relaxed update leaves a power of the target, which has no derivative at 0: such keys stay empty. */
static void relaxed_rounds_keep_keys_empty(void **unused) {
    (void)unused;
    static const double omegas[] = {0.7, 1.5};
    for (int k = 0; k < 4; k++) {
        uint64_t state = 31 + (uint64_t)k;
        scene c = {.method = "softmax/capped:1.3",
                   .rounds = 2 + k / 2,
                   .by_rows = true,
                   .by_columns = true};
        fill(&c, false, &state);
        head *t = load(0, &c, c.rows, c.columns);
        t->options.relaxation = omegas[k % 2];
        ota_plan *plan = NULL;
        forward(t, &plan);
        double u[ROWS * KEYS], by_mass[KEYS];
        for (int q = 0; q < ROWS * KEYS; q++) u[q] = 2.0 * uniform_of(&state) - 1.0;
        const ota_gradients want = {.size = sizeof want,
                                    .coupling_grad = ota_array_of(u, OTA_F64, 1, 1, ROWS, KEYS),
                                    .column_mass = ota_array_of(by_mass, OTA_F64, 1, 1, 1, KEYS)};
        const ota_status status = ota_backward(plan, &t->arrays, &want, &t->result, &t->error);
        ota_plan_free(plan);
        if (status < OTA_OK) fail_msg("%s", t->error.message);
        for (int j = 0; j < KEYS; j++) {
            if (!(c.columns[j] > 0.0) && (by_mass[j] < 0.0 || by_mass[j] > 0.0))
                fail_msg("omega %g: %g by a key's mass of 0", omegas[k % 2], by_mass[j]);
        }
    }
}

TEST_FILE(test_mass_limits) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(masses_grow_from_zero),
                                       cmocka_unit_test(masses_grow_on_the_columns_axis),
                                       cmocka_unit_test(masses_grow_beside_sinks_and_caps),
                                       cmocka_unit_test(masses_grow_in_fixed_rounds),
                                       cmocka_unit_test(relaxed_rounds_keep_keys_empty)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
