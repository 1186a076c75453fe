/* ota_identify on plans of this library with grouped heads, masses, narrow types and sparse supports, where
 * the answer is known; and what it refuses. The foreign couplings are in tests/python/program/test_certify.py. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/couplings/identify.h"
#include "analysis_random.h"
#include "groups.h"
#include "held_memory.h"
#include "otattn_analysis.h"
#include "spec.h"

static const analysis_call unlimited = {.options = {.size = sizeof(ota_analysis_options)}};

enum { HEADS = 4, KEY_HEADS = 2, N = 14, M = 17, WIDTH = 6, CELLS = HEADS * N * M, FITS = 16 };

typedef struct setting {
    float queries[HEADS * N * WIDTH], keys[KEY_HEADS * M * WIDTH];
    double row_mass[N], column_mass[M];
    double plan[CELLS];
    ota_problem problem;
} setting;

static void draw(uint64_t *state, bool masses, setting *x) {
    for (int k = 0; k < HEADS * N * WIDTH; k++) x->queries[k] = (float)normal(state);
    for (int k = 0; k < KEY_HEADS * M * WIDTH; k++) x->keys[k] = (float)normal(state);
    double rows = 0.0, columns = 0.0;
    for (int i = 0; i < N; i++) rows += x->row_mass[i] = 0.5 + uniform(state);
    for (int j = 0; j < M; j++) columns += x->column_mass[j] = 0.5 + uniform(state);
    for (int j = 0; j < M; j++) x->column_mass[j] *= rows / columns;
    x->problem = (ota_problem){.size = sizeof x->problem};
    x->problem.queries = ota_array_of(x->queries, OTA_F32, 1, HEADS, N, WIDTH);
    x->problem.keys = ota_array_of(x->keys, OTA_F32, 1, KEY_HEADS, M, WIDTH);
    if (!masses) return;
    x->problem.row_mass = ota_array_of(x->row_mass, OTA_F64, 1, 1, 1, N);
    x->problem.column_mass = ota_array_of(x->column_mass, OTA_F64, 1, 1, 1, M);
}

/* The plan of `method` at the temperature, in double precision. */
static void solve(setting *x, const char *method, double temperature) {
    ota_problem problem = x->problem;
    ota_options options = {.size = sizeof options,
                           .tolerance = 1e-11,
                           .max_rounds = 100000,
                           .precision = OTA_PRECISION_F64};
    ota_error error;
    assert_int_equal(ota_method_parse(method, &problem, &options, &error), OTA_OK);
    problem.temperature = temperature;
    if (problem.columns == OTA_COLUMNS_FREE || problem.columns == OTA_COLUMNS_PREFIX)
        problem.column_mass = (ota_array){.data = NULL};
    ota_arrays arrays = {.size = sizeof arrays};
    arrays.coupling = ota_array_of(x->plan, OTA_F64, 1, HEADS, N, M);
    const ota_status status = ota_attend(&problem, &options, &arrays, NULL, &error);
    if (status < 0) print_error("%s: %s\n", method, error.message);
    assert_true(status >= OTA_OK);
}

static void plans_are_traced(void **unused) {
    (void)unused;
    static const char *const methods[] = {"softmax",
                                          "softmax/exact",
                                          "softmax/relaxed:0.5",
                                          "softmax/elastic:0.4,3",
                                          "entmax:1.5",
                                          "entmax:1.5/exact",
                                          "sparsemax/capped:1.5",
                                          "softmax/online:1.5",
                                          "softmax/capped:1.25",
                                          "softmax/prefix"};
    uint64_t state = 1;
    setting *const x = malloc(sizeof *x);
    for (size_t k = 0; k < 2 * sizeof methods / sizeof methods[0]; k++) {
        const char *const method = methods[k / 2];
        draw(&state, k % 2 == 1, x);
        solve(x, method, 0.75);
        ota_fit fits[FITS];
        ota_error error = {.message = ""};
        int64_t count = 0;
        assert_int_equal(ota_identify(&x->problem, NULL, x->plan, fits, FITS, &count, &error),
                         OTA_OK);
        char expected[96];
        (void)snprintf(expected, sizeof expected, "%s{temperature=0.75}", method);
        if (strcmp(fits[0].method, expected) != 0)
            print_error("%s was taken for %s\n", method, fits[0].method);
        assert_string_equal(fits[0].method, expected);
        /* The scores of f32 queries and keys are read off softmax plans in f32. */
        spec_check("", fits[0].distance, 512.0 * 0x1p-24);
        /* The line is exact where the family has one; every row of a prefix plan has one of its own. */
        if (!isnan(fits[0].residual)) spec_check("", fits[0].residual, 256.0 * 0x1p-53);
        assert_true(fits[0].explains && fits[0].temperature_known);
        for (int64_t t = 1; t < count; t++) assert_true(fits[t].distance > fits[0].distance);
        /* The room for answers is kept to. */
        ota_fit one[2];
        memset(one, 7, sizeof one);
        ota_fit before = one[1];
        assert_int_equal(ota_identify(&x->problem, NULL, x->plan, one, 1, &count, NULL), OTA_OK);
        assert_true(count == 1 && memcmp(&before, &one[1], sizeof before) == 0);
        assert_string_equal(one[0].method, expected);
    }
    free(x);
}

/* Plans of uneven masses that nobody names: the sums of the coupling are tried where those of 1 a row explain nothing, rows'
 * before columns'; which of them the fit had is told, and each counts as a parameter. */
static void own_masses_are_tried(void **unused) {
    (void)unused;
    static const struct {
        const char *method, *found;
        int rows, columns;
    } table[] = {{"softmax", "softmax{temperature=0.75}", 1, 0},
                 {"sparsemax", "sparsemax{temperature=0.75}", 1, 0},
                 {"softmax/exact", "softmax/exact{temperature=0.75}", 1, 1},
                 {"entmax:1.5/exact", "entmax:1.5/exact{temperature=0.75}", 1, 1},
                 {"hard/exact", "hard/exact", 1, 1}};
    uint64_t state = 23;
    setting *const x = malloc(sizeof *x);
    for (size_t k = 0; k < 3 * sizeof table / sizeof table[0]; k++) {
        draw(&state, true, x);
        solve(x, table[k / 3].method, 0.75);
        ota_problem unnamed = x->problem;
        /* The masses of columns alone, those of rows alone, neither. */
        if (k % 3 != 0) unnamed.column_mass = (ota_array){.data = NULL};
        if (k % 3 != 1) unnamed.row_mass = (ota_array){.data = NULL};
        const int rows = k % 3 != 1 ? table[k / 3].rows : 0;
        const int columns = k % 3 != 0 ? table[k / 3].columns : 0;
        ota_fit fits[FITS];
        ota_error error = {.message = ""};
        int64_t count = 0;
        if (ota_identify(&unnamed, NULL, x->plan, fits, FITS, &count, &error) != OTA_OK)
            fail_msg("%s: %s", table[k / 3].method, error.message);
        assert_string_equal(fits[0].method, table[k / 3].found);
        assert_true(fits[0].explains);
        assert_int_equal(fits[0].own_row_mass, rows);
        assert_int_equal(fits[0].own_column_mass, columns);
        assert_true(fits[0].parameters >= HEADS * (N * rows + M * columns));
        for (int64_t t = 0; t < count; t++) assert_true(fits[t].distance <= 2.0);
    }
    free(x);
}

/* A plan of few pairs leaves the temperature open though the scores are of no such form as row + column. */
static void open_temperatures_are_told_from_sums(void **unused) {
    (void)unused;
    uint64_t state = 29;
    double scores[N * M], plan[N * M];
    for (int turn = 0; turn < 2; turn++) {
        for (int k = 0; k < N * M; k++) {
            scores[k] = turn == 0 ? normal(&state) : (double)(k / M) - 0.5 * (double)(k % M);
            plan[k] = k % M == k / M ? 1.0 : 0.0;
        }
        ota_problem problem = {.size = sizeof problem};
        problem.scores = ota_array_of(scores, OTA_F64, 1, 1, N, M);
        ota_fit fits[FITS];
        int64_t count = 0;
        assert_int_equal(ota_identify(&problem, NULL, plan, fits, FITS, &count, NULL), OTA_OK);
        for (int64_t t = 0; t < count; t++) assert_int_equal(fits[t].scores_add, turn);
    }
}

/* Plans that leave the targets of the keys alone, one of which is 0: no cap says how much such a key takes. */
static void a_key_without_a_target(void **unused) {
    (void)unused;
    static const char *const methods[] = {"softmax", "entmax:1.5"};
    uint64_t state = 17;
    setting *const x = malloc(sizeof *x);
    for (size_t k = 0; k < sizeof methods / sizeof methods[0]; k++) {
        draw(&state, true, x);
        x->column_mass[5] += x->column_mass[2];
        x->column_mass[2] = 0.0;
        solve(x, methods[k], 0.75);
        ota_fit fits[FITS];
        ota_error error = {.message = ""};
        int64_t count = 0;
        if (ota_identify(&x->problem, NULL, x->plan, fits, FITS, &count, &error) != OTA_OK)
            fail_msg("%s: %s", methods[k], error.message);
        char expected[96];
        (void)snprintf(expected, sizeof expected, "%s{temperature=0.75}", methods[k]);
        assert_string_equal(fits[0].method, expected);
    }
    free(x);
}

/* Plans without a temperature: the rule is all there is to know. */
static void hard_plans_are_traced(void **unused) {
    (void)unused;
    static const char *const methods[] = {"hard", "hard/exact", "hard/capped:1.5"};
    uint64_t state = 11;
    setting *const x = malloc(sizeof *x);
    for (size_t k = 0; k < 2 * sizeof methods / sizeof methods[0]; k++) {
        draw(&state, k % 2 == 1, x);
        solve(x, methods[k / 2], 1.0);
        ota_fit fits[FITS];
        int64_t count = 0;
        assert_int_equal(ota_identify(&x->problem, NULL, x->plan, fits, FITS, &count, NULL),
                         OTA_OK);
        assert_string_equal(fits[0].method, methods[k / 2]);
        assert_true(fits[0].explains && !fits[0].temperature_known);
        spec_check("", fits[0].distance, 0.0);
        for (int64_t t = 1; t < count; t++)
            assert_true(!fits[t].explains && fits[t].distance > 0.5);
    }
    free(x);
}

/* Which methods are tried, and what each comes to: temperatures, strengths and orders of the second best are
 * least-squares answers too. */
static void all_candidates(void **unused) {
    (void)unused;
    /* As many digits as are the same on every processor. */
    static const char *const capped[] = {"softmax/capped:1.25{temperature=0.75}",
                                         "entmax:1.02/capped:1.25{temperature=0.79",
                                         "entmax:1.02/relaxed:0.19",
                                         "softmax/relaxed:0.200",
                                         "softmax/elastic:0.0810",
                                         "entmax:1.037",
                                         "softmax{temperature=0.798}",
                                         "softmax/online:1.25{temperature=0.75}",
                                         "softmax/exact{temperature=0.75}",
                                         "entmax:1.02/exact{temperature=0.79",
                                         "softmax{temperature=1.107,axis=columns}"};
    static const char *const prefix[] = {"softmax/prefix{temperature=0.75}",
                                         "softmax/exact{temperature=0.988}",
                                         "entmax:1.338",
                                         "softmax{temperature=1.186}",
                                         "softmax/online:2.31",
                                         "softmax/capped:2.31"};
    static const struct {
        const char *method, *const *names;
        int64_t count;
    } table[] = {{"softmax/capped:1.25", capped, sizeof capped / sizeof *capped},
                 {"softmax/prefix", prefix, sizeof prefix / sizeof *prefix}};
    setting *const x = malloc(sizeof *x);
    for (size_t k = 0; k < sizeof table / sizeof table[0]; k++) {
        uint64_t state = 20;
        draw(&state, false, x);
        solve(x, table[k].method, 0.75);
        ota_fit fits[FITS];
        int64_t count = 0;
        assert_int_equal(ota_identify(&x->problem, NULL, x->plan, fits, FITS, &count, NULL),
                         OTA_OK);

        assert_int_equal(count, table[k].count);
        for (int64_t t = 0; t < count; t++)
            assert_int_equal(strncmp(fits[t].method, table[k].names[t], strlen(table[k].names[t])),
                             0);
    }
    free(x);
}

/* Rows that share no key: effects are known up to a constant for each part, and rho still comes out. */
static void parts_have_their_own_constants(void **unused) {
    (void)unused;
    uint64_t state = 2;
    setting *const x = malloc(sizeof *x);
    draw(&state, false, x);
    const ota_support block = {.kind = OTA_SUPPORT_BLOCK, .left = 5};
    x->problem.supports = &block;
    x->problem.support_count = 1;
    x->problem.corner = OTA_TOP_LEFT;
    solve(x, "softmax/relaxed:0.25", 0.5);
    ota_fit fit;
    int64_t count;
    assert_int_equal(ota_identify(&x->problem, NULL, x->plan, &fit, 1, &count, NULL), OTA_OK);
    assert_string_equal(fit.method, "softmax/relaxed:0.25{temperature=0.5}");
    free(x);
}

/* P made from a line and effects that are known: the line comes back to rounding, the effects up to what
 * their sides leave open. */
static void regressions_are_exact(void **unused) {
    (void)unused;
    enum { PAIRS = N * M };
    static const unsigned sides[] = {IDENTIFY_ROWS, IDENTIFY_COLUMNS,
                                     IDENTIFY_ROWS | IDENTIFY_COLUMNS};
    static const double orders[] = {1.0, 1.5, 2.0, 2.75};
    uint64_t state = 4;
    for (int draw = 0; draw < 24; draw++) {
        const unsigned side = sides[draw % 3];
        const double order = orders[draw / 3 % 4], slope = decade(&state, -0.5, 0.5);
        double scores[PAIRS], plan[PAIRS], a[N], b[M];
        for (int i = 0; i < N; i++) a[i] = (side & IDENTIFY_ROWS) != 0 ? normal(&state) : 0.0;
        for (int j = 0; j < M; j++) b[j] = (side & IDENTIFY_COLUMNS) != 0 ? normal(&state) : 0.0;
        for (int k = 0; k < PAIRS; k++) {
            scores[k] = uniform(&state) < 0.2 ? -(double)INFINITY : normal(&state);
            const double y = slope * scores[k] + a[k / M] + b[k % M];
            plan[k] = order <= 1.0 ? exp(y)
                      : y > 0.0    ? pow((order - 1.0) * y, 1.0 / (order - 1.0))
                                   : 0.0;
        }
        /* One column follows no line and has no say. */
        for (int i = 0; i < N; i++) plan[i * M + 2] = uniform(&state);
        ota_problem problem = {.size = sizeof problem};
        problem.scores = ota_array_of(scores, OTA_F64, 1, 1, N, M);
        identify_data d;
        assert_int_equal(ota_identify_open(&problem, NULL, plan, &d, &unlimited), OTA_OK);
        d.left_out[2] = 1;
        const identify_line line = ota_identify_regress(&d, order, side);
        spec_check("", fabs(line.slope - slope), 1e-9);
        spec_check("", line.residual, 1e-9);
        for (int k = 0; k < PAIRS; k++) {
            if (!(d.weights[k] > 0.0)) continue;
            spec_check("CETA-08",
                       fabs(d.row_effect[k / M] + d.column_effect[k % M] - a[k / M] - b[k % M]),
                       1e-8);
        }
        if (order > 1.0) {
            const double found = ota_identify_order(&d, side, 1.02, 4.0);
            assert_true(fabs(found - order) < 1e-4);
        }
        ota_identify_close(&d);
    }
}

/* Scores of any size come back from softmax plans, -inf where they were. */
static void scores_are_read(void **unused) {
    (void)unused;
    enum { PAIRS = N * M };
    uint64_t state = 5;
    for (int draw = 0; draw < 12; draw++) {
        const double size = pow(10.0, draw - 5), offset = draw % 2 == 0 ? 0.0 : 30.0 * size;
        double scores[PAIRS], found[PAIRS];
        for (int k = 0; k < PAIRS; k++)
            scores[k] = uniform(&state) < 0.2 ? -(double)INFINITY : offset + size * normal(&state);
        ota_problem problem = {.size = sizeof problem};
        problem.scores = ota_array_of(scores, OTA_F64, 1, 1, N, M);
        assert_int_equal(ota_identify_scores(&problem, NULL, 1, 1, N, M, found, &unlimited),
                         OTA_OK);
        for (int k = 0; k < PAIRS; k++) {
            if (isinf(scores[k]))
                assert_true(isinf(found[k]));
            else
                assert_true(fabs(found[k] - scores[k]) <= 1e-12 * (fabs(offset) + 10.0 * size));
        }
    }
    /* Rows without differences. */
    double flat[PAIRS], read[PAIRS];
    for (int k = 0; k < PAIRS; k++) flat[k] = 3.0;
    ota_problem level = {.size = sizeof level};
    level.scores = ota_array_of(flat, OTA_F64, 1, 1, N, M);
    assert_int_equal(ota_identify_scores(&level, NULL, 1, 1, N, M, read, &unlimited), OTA_OK);
    for (int k = 0; k < PAIRS; k++) assert_true(fabs(read[k] - 3.0) <= 1e-12);
}

/* Both sides relaxed: two strengths, from the effects of either side. */
static void unbalanced_plans_are_traced(void **unused) {
    (void)unused;
    uint64_t state = 6;
    setting *const x = malloc(sizeof *x);
    draw(&state, true, x);
    x->problem.rows = OTA_ROWS_RELAXED;
    x->problem.row_strength = 0.25;
    solve(x, "softmax/relaxed:1.5", 0.5);
    ota_fit fit;
    int64_t count;
    assert_int_equal(ota_identify(&x->problem, NULL, x->plan, &fit, 1, &count, NULL), OTA_OK);
    assert_string_equal(fit.method, "softmax/relaxed:1.5{temperature=0.5,rows=relaxed:0.25}");
    assert_true(fit.rows == OTA_ROWS_RELAXED && fit.row_strength == 0.25 && fit.parameters == 3);
    free(x);
}

/* Elastic plans of one large step and of many: 1.75 lies before the last lambda that is looked at, and eight steps of
 * 1.5 reach what one step of no lambda does. */
static void large_steps_are_traced(void **unused) {
    (void)unused;
    static const char *const plans[] = {"softmax/elastic:1.75,1", "softmax/elastic:1.5,8",
                                        "softmax/elastic:0.05,2"};
    uint64_t state = 7;
    setting *const x = malloc(sizeof *x);
    enum { PLANS = sizeof plans / sizeof plans[0], TURNS = 10 };
    for (size_t t = 0; t < TURNS * PLANS; t++) {
        const size_t k = t % PLANS;
        draw(&state, false, x);
        solve(x, plans[k], 0.25);
        ota_fit fit;
        int64_t count;
        assert_int_equal(ota_identify(&x->problem, NULL, x->plan, &fit, 1, &count, NULL), OTA_OK);
        char expected[96];
        (void)snprintf(expected, sizeof expected, "%s{temperature=0.25}", plans[k]);
        assert_string_equal(fit.method, expected);
    }
    free(x);
}

/* Numbers that no short decimal stands for come back with their digits: scores in f64 leave a dozen of them. */
static void long_parameters_keep_their_digits(void **unused) {
    (void)unused;
    uint64_t state = 8;
    setting *const x = malloc(sizeof *x);
    double *const scores = malloc(CELLS * sizeof *scores);
    draw(&state, false, x);
    for (int k = 0; k < CELLS; k++) scores[k] = normal(&state);
    x->problem.queries = x->problem.keys = (ota_array){.data = NULL};
    x->problem.scores = ota_array_of(scores, OTA_F64, 1, HEADS, N, M);
    solve(x, "softmax", 0.712345678901);
    ota_fit fit;
    int64_t count;
    assert_int_equal(ota_identify(&x->problem, NULL, x->plan, &fit, 1, &count, NULL), OTA_OK);
    spec_check("", fabs(fit.temperature / 0.712345678901 - 1.0), 1e-11);
    solve(x, "softmax/relaxed:0.312345678901", 0.712345678901);
    assert_int_equal(ota_identify(&x->problem, NULL, x->plan, &fit, 1, &count, NULL), OTA_OK);
    spec_check("", fabs(fit.temperature / 0.712345678901 - 1.0), 1e-11);
    spec_check("", fabs(fit.strength / 0.312345678901 - 1.0), 1e-8);
    assert_int_equal(fit.columns, OTA_COLUMNS_RELAXED);
    free(scores);
    free(x);
}

/* A slope is per unit of score, whatever the unit; scores of the form row + column have none. */
static void slopes_have_the_unit_of_scores(void **unused) {
    (void)unused;
    enum { PAIRS = N * M };
    static const double units[] = {0x1p-44, 1.0, 0x1p60};
    uint64_t state = 9;
    for (int k = 0; k < 6; k++) {
        const double unit = units[k / 2], slope = 1.5;
        double scores[PAIRS], plan[PAIRS], rows[N], columns[M];
        for (int i = 0; i < N; i++) rows[i] = normal(&state);
        for (int j = 0; j < M; j++) columns[j] = normal(&state);
        for (int c = 0; c < PAIRS; c++) {
            const double s = k % 2 == 0 ? normal(&state) : rows[c / M] + columns[c % M];
            scores[c] = unit * s;
            plan[c] = exp(slope * s + rows[c / M]);
        }
        ota_problem problem = {.size = sizeof problem};
        problem.scores = ota_array_of(scores, OTA_F64, 1, 1, N, M);
        identify_data d;
        assert_int_equal(ota_identify_open(&problem, NULL, plan, &d, &unlimited), OTA_OK);
        const identify_line line = ota_identify_regress(&d, 1.0, IDENTIFY_ROWS | IDENTIFY_COLUMNS);
        if (k % 2 == 0)
            spec_check("", fabs(line.slope * unit / slope - 1.0), 1e-10);
        else
            assert_true(isnan(line.slope));
        spec_check("", line.residual, 1e-9);
        ota_identify_close(&d);
    }
}

/* Masses of heads whose supports differ, and with them what is shared out: a row with a key asks for 1, and the
 * keys in reach of any row share the rows' sum. */
static void masses_follow_the_support(void **unused) {
    (void)unused;
    enum { TWO = 2, PAIRS = TWO * N * M };
    static double scores[PAIRS], plan[PAIRS];
    uint64_t state = 12;
    for (int trial = 0; trial < 8; trial++) {
        double wanted_rows[TWO * N], wanted_columns[TWO * M], total[TWO] = {0.0};
        for (int head = 0; head < TWO; head++) {
            int usable = 0;
            for (int i = 0; i < N; i++) {
                const bool none = (i + head) % 5 == trial % 3;
                wanted_rows[head * N + i] = none ? 0.0 : 1.0;
                total[head] += wanted_rows[head * N + i];
                for (int j = 0; j < M; j++) {
                    const int k = (head * N + i) * M + j;
                    /* The first key of the first head and the last of the other, among others. */
                    const bool out = none || (j + head) % M % (trial + 2) == 0;
                    scores[k] = out ? -(double)INFINITY : normal(&state);
                    plan[k] = out ? 0.0 : uniform(&state);
                }
            }
            for (int j = 0; j < M; j++) usable += (j + head) % M % (trial + 2) != 0;
            for (int j = 0; j < M; j++)
                wanted_columns[head * M + j] =
                    (j + head) % M % (trial + 2) == 0 ? 0.0 : total[head] / usable;
        }
        ota_problem problem = {.size = sizeof problem};
        problem.scores = ota_array_of(scores, OTA_F64, 1, TWO, N, M);
        identify_data d;
        assert_int_equal(ota_identify_open(&problem, NULL, plan, &d, &unlimited), OTA_OK);
        double mass = 0.0;
        for (int k = 0; k < TWO * N; k++) {
            double sum = 0.0;
            for (int j = 0; j < M; j++) sum += plan[k * M + j];
            mass += sum;
            spec_check("", fabs(d.row_mass[k] - wanted_rows[k]), 0.0);
            spec_check("", fabs(d.row_sum[k] - sum), 1e-14 * (double)M);
        }
        spec_check("", fabs(d.mass - mass), 1e-12);
        for (int k = 0; k < TWO * M; k++) {
            double sum = 0.0;
            for (int i = 0; i < N; i++) sum += plan[(k / M * N + i) * M + k % M];
            spec_check("", fabs(d.column_mass[k] - wanted_columns[k]), 1e-15 * (double)N);
            spec_check("", fabs(d.column_sum[k] - sum), 1e-14 * (double)N);
        }
        ota_identify_close(&d);
    }
}

static void refusals(void **unused) {
    (void)unused;
    uint64_t state = 3;
    setting *const x = malloc(sizeof *x);
    draw(&state, false, x);
    solve(x, "softmax", 1.0);
    ota_fit fit;
    ota_error error;
    int64_t count;
    x->plan[N * M + M + 3] = (double)NAN;
    assert_int_equal(ota_identify(&x->problem, NULL, x->plan, &fit, 1, &count, &error), OTA_EINVAL);
    assert_string_equal(error.field, "coupling");
    assert_non_null(strstr(error.message, "entry (1, 3) of head 1"));
    memset(x->plan, 0, sizeof x->plan);
    assert_int_equal(ota_identify(&x->problem, NULL, x->plan, &fit, 1, &count, &error), OTA_EINVAL);
    assert_non_null(strstr(error.message, "every weight"));
    assert_int_equal(ota_identify(&x->problem, NULL, x->plan, &fit, 0, &count, &error), OTA_EINVAL);
    assert_string_equal(error.field, "capacity");
    ota_problem empty = {.size = sizeof empty};
    assert_true(ota_identify(&empty, NULL, x->plan, &fit, 1, &count, &error) < 0);
    const int stop = 1;
    const ota_options options = {.size = sizeof options, .cancel = &stop};
    x->plan[0] = 1.0;
    assert_int_equal(ota_identify(&x->problem, &options, x->plan, &fit, 1, &count, &error),
                     OTA_CANCELLED);
    free(x);
}

TEST_FILE(test_identify) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_are_traced),
        cmocka_unit_test(own_masses_are_tried),
        cmocka_unit_test(open_temperatures_are_told_from_sums),
        cmocka_unit_test(a_key_without_a_target),
        cmocka_unit_test(hard_plans_are_traced),
        cmocka_unit_test(all_candidates),
        cmocka_unit_test(parts_have_their_own_constants),
        cmocka_unit_test(regressions_are_exact),
        cmocka_unit_test(scores_are_read),
        cmocka_unit_test(unbalanced_plans_are_traced),
        cmocka_unit_test(large_steps_are_traced),
        cmocka_unit_test(long_parameters_keep_their_digits),
        cmocka_unit_test(slopes_have_the_unit_of_scores),
        cmocka_unit_test(masses_follow_the_support),
        cmocka_unit_test(refusals),
    };
    return run_and_hold(tests, sizeof tests / sizeof tests[0]);
}
