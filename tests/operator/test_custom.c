/* test_custom.c: regularisers of the caller's [LIT-34]: entropy, squared norm and Tsallis given as functions
 * equal the built-in ones, forward, backward and certificate; Fermi-Dirac, which is none of those, by its own
 * conditions; whatever cannot be one is refused in a sentence. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "backward_support.h"
#include "groups.h"
#include "judge/judge_scores.h"
#include "spec.h"

/* ---- regularisers --------------------------------------------------------------------------------- */

static double entropy_weight(void *user, double x) {
    (void)user;
    return exp(x);
}
static double entropy_value(void *user, double p) {
    (void)user;
    return p > 0.0 ? p * (log(p) - 1.0) : 0.0;
}

static double square_weight(void *user, double x) {
    (void)user;
    return x > 0.0 ? x : 0.0;
}
static double square_slope(void *user, double x) {
    (void)user;
    return x > 0.0 ? 1.0 : 0.0;
}
static double square_value(void *user, double p) {
    (void)user;
    return 0.5 * p * p;
}

static double tsallis_weight(void *user, double x) {
    const double k = *(const double *)user - 1.0;
    return x > 0.0 ? pow(k * x, 1.0 / k) : 0.0;
}
static double tsallis_slope(void *user, double x) {
    const double k = *(const double *)user - 1.0;
    return x > 0.0 ? pow(k * x, 1.0 / k - 1.0) : 0.0;
}
static double tsallis_value(void *user, double p) {
    const double alpha = *(const double *)user;
    return pow(p, alpha) / (alpha * (alpha - 1.0));
}

/* Omega = p log p + (1 - p) log(1 - p): no weight above 1. */
static double fermi_weight(void *user, double x) {
    (void)user;
    return x > 0.0 ? 1.0 / (1.0 + exp(-x)) : exp(x) / (1.0 + exp(x));
}
static double fermi_slope(void *user, double x) {
    const double p = fermi_weight(user, x);
    return p * fermi_weight(user, -x);
}
static double fermi_value(void *user, double p) {
    (void)user;
    return (p > 0.0 ? p * log(p) : 0.0) + (p < 1.0 ? (1.0 - p) * log1p(-p) : 0.0);
}

static double falling_weight(void *user, double x) {
    (void)user;
    return x < 3.0 ? exp(x) : 1.0;
}
static double negative_weight(void *user, double x) {
    (void)user;
    return x;
}
static double negative_slope(void *user, double x) {
    (void)user;
    return x > 0.0 ? -1.0 : 0.0;
}

static double order_of_tsallis = 1.5;

typedef struct gallery_row {
    const char *method;
    ota_custom custom;
} gallery_row;

static const gallery_row gallery[] = {
    {"softmax", {entropy_weight, entropy_weight, entropy_value, NULL}},
    {"sparsemax", {square_weight, square_slope, square_value, NULL}},
    {"entmax:1.5", {tsallis_weight, tsallis_slope, tsallis_value, &order_of_tsallis}},
};

static void make_custom(ota_problem *p, const ota_custom *custom) {
    p->regulariser = OTA_CUSTOM;
    p->order = 0.0;
    p->custom = *custom;
}

/* ---- against the built-in ones ---------------------------------------------------------------------- */

static double array_distance(const ota_array *a, const ota_array *b) {
    double far = 0.0;
    for (int64_t i = 0; i < a->size[0]; i++) {
        for (int64_t j = 0; j < a->size[1]; j++) {
            for (int64_t k = 0; k < a->size[2]; k++) {
                for (int64_t l = 0; l < a->size[3]; l++) {
                    const double x = ota_array_get(a, i, j, k, l), y = ota_array_get(b, i, j, k, l);
                    if (!(x < y) && !(x > y) && !isnan(x)) continue;
                    far = fmax(far, fabs(x - y) / fmax(1.0, fabs(y)));
                    if (isnan(x) || isnan(y)) far = INFINITY;
                }
            }
        }
    }
    return far;
}

static recipe recipe_of(const char *method, uint64_t seed) {
    return (recipe){.method = method,
                    .type = OTA_F64,
                    .out_type = OTA_F64,
                    .batch = 2,
                    .heads = 2,
                    .key_heads = 1,
                    .n = 6,
                    .m = 9,
                    .width = 3,
                    .values_width = 2,
                    .mask = (mask)(seed % MASKS),
                    .added = (added)(seed % ADDITIONS),
                    .row_mass = seed % 2 == 1,
                    .temperature = 0.8,
                    .spread = 1.0,
                    .seed = seed};
}

static void solve_and_differentiate(bench *t, const recipe *w, const ota_custom *custom) {
    set_up(t, w, OTA_F64, true);
    if (custom != NULL) {
        make_custom(&t->x.problem, custom);
        t->want.order = (ota_array){0};
    }
    ota_status status = make_plan(t);
    if (status == OTA_OK) status = run_forward(t);
    if (status == OTA_OK) status = run_backward(t);
    if (status != OTA_OK) {
        print_error("%d: %s\n", (int)status, t->x.error.message);
        print_recipe(&t->x);
        fail();
    }
}

/* Every output and every gradient, over masks, terms and masses. */
static void test_gallery(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof gallery / sizeof gallery[0]; k++) {
        double worst = 0.0, gap = 0.0;
        for (uint64_t seed = 1; seed <= 30; seed++) {
            const recipe w = recipe_of(gallery[k].method, seed);
            bench *own = malloc(sizeof *own), *built = malloc(sizeof *built);
            assert_non_null(own);
            assert_non_null(built);
            solve_and_differentiate(built, &w, NULL);
            solve_and_differentiate(own, &w, &gallery[k].custom);
            const ota_arrays *a = &own->x.arrays, *b = &built->x.arrays;
            worst = fmax(worst, array_distance(&a->out, &b->out));
            worst = fmax(worst, array_distance(&a->coupling, &b->coupling));
            worst = fmax(worst, array_distance(&a->sink, &b->sink));
            worst = fmax(worst, array_distance(&a->row_support, &b->row_support));
            for (int q = 0, at = 0; q < built->count; q++) {
                if (strcmp(built->knobs[q].name, "order") == 0) continue;
                while (strcmp(own->knobs[at].name, "order") == 0) at++;
                worst = fmax(worst,
                             array_distance(own->knobs[at++].gradient, built->knobs[q].gradient));
            }
            worst = fmax(worst, array_distance(&own->want.scores, &built->want.scores));
            ota_certificate mine = {.size = sizeof mine}, theirs = {.size = sizeof theirs};
            assert_int_equal(ota_certify(&own->x.problem, NULL, a, &mine, NULL, &own->x.error),
                             OTA_OK);
            assert_int_equal(ota_certify(&built->x.problem, NULL, b, &theirs, NULL, NULL), OTA_OK);
            gap = fmax(gap, fabs(mine.gap) / fmax(1.0, fabs(mine.primal)));
            worst = fmax(worst, mine.row_error);
            /* Tsallis as the library writes it has -p/(alpha (alpha - 1)) besides, the same for every plan. */
            if (k == 0)
                worst =
                    fmax(worst, fabs(mine.primal - theirs.primal) / fmax(1.0, fabs(theirs.primal)));
            tear_down(own);
            tear_down(built);
            free(own);
            free(built);
        }
        print_message("%s: worst %.2g, gap %.2g\n", gallery[k].method, worst, gap);
        /* Softmax from its entropy and from its own path. */
        spec_check(k == 0 ? "LIT-34 LIT-09" : "LIT-34", worst, 1e-12);
        spec_check("LIT-34", gap, 1e-12);
    }
}

/* ---- one that is none of ours ----------------------------------------------------------------------- */

/* KKT: log(p / (1 - p)) - S / tau is the same for every key of a row; rows sum to 1; the reference agrees;
 * derivatives by differences. */
static void test_fermi_dirac(void **state) {
    (void)state;
    const ota_custom fermi = {fermi_weight, fermi_slope, fermi_value, NULL};
    double spread = 0.0, off = 0.0, slopes = 0.0, gap = 0.0;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        recipe w = recipe_of("softmax", seed);
        w.mask = NO_MASK;
        bench *t = malloc(sizeof *t);
        assert_non_null(t);
        solve_and_differentiate(t, &w, &fermi);
        double slope = 0.0, difference = 0.0;
        slopes = fmax(slopes, check_together(t, &slope, &difference));
        assert_int_equal(run_forward(t), OTA_OK);
        const ota_arrays *a = &t->x.arrays;
        assert_int_equal(expect(&t->x), OTA_OK);
        off = fmax(off, array_distance(&a->coupling, &t->x.exact.coupling));
        off = fmax(off, array_distance(&a->row_potential, &t->x.exact.row_potential));
        ota_certificate c = {.size = sizeof c};
        assert_int_equal(ota_certify(&t->x.problem, NULL, a, &c, NULL, NULL), OTA_OK);
        gap = fmax(gap, fabs(c.gap) / fmax(1.0, fabs(c.primal)));
        off = fmax(off, c.row_error);
        if (!w.matrix && w.added == NOTHING) {
            for (int64_t b = 0; b < 2; b++) {
                for (int64_t h = 0; h < 2; h++) {
                    for (int64_t i = 0; i < w.n; i++) {
                        double low = INFINITY, high = -INFINITY;
                        for (int64_t j = 0; j < w.m; j++) {
                            double s = 0.0;
                            for (int64_t q = 0; q < w.width; q++)
                                s += ota_array_get(&t->x.problem.queries, b, h, i, q) *
                                     ota_array_get(&t->x.problem.keys, b, 0, j, q);
                            const double p = ota_array_get(&a->coupling, b, h, i, j);
                            const double level = log(p) - log1p(-p) - s / sqrt(3.0) / w.temperature;
                            low = fmin(low, level);
                            high = fmax(high, level);
                        }
                        spread = fmax(spread, high - low);
                    }
                }
            }
        }
        tear_down(t);
        free(t);
    }
    spec_check("LIT-34", spread, 1e-12);
    spec_check("LIT-34", off, 1e-12);
    spec_check("LIT-34", gap, 1e-12);
    spec_check("LIT-34", slopes, 1.0);
}

/* ---- refusals --------------------------------------------------------------------------------------- */

typedef struct small {
    double scores[6], p[6];
    ota_problem problem;
    ota_arrays arrays;
    ota_error error;
} small;

static ota_status attempt(small *t, ota_custom custom) {
    t->problem.regulariser = OTA_CUSTOM;
    t->problem.custom = custom;
    t->error = (ota_error){.message = ""};
    return ota_attend(&t->problem, NULL, &t->arrays, NULL, &t->error);
}

static void expect_field(const small *t, ota_status found, ota_status wanted, const char *field) {
    if (found != wanted || strcmp(t->error.field, field) != 0)
        print_error("%d '%s': %s\n", (int)found, t->error.field, t->error.message);
    assert_int_equal(found, wanted);
    assert_string_equal(t->error.field, field);
}

static void test_refusals(void **state) {
    (void)state;
    const ota_custom entropy = gallery[0].custom;
    small t = {.scores = {0.1, 0.5, -1.0, 2.0, 0.3, 0.0}};
    t.problem.size = sizeof t.problem;
    t.arrays.size = sizeof t.arrays;
    t.problem.scores = ota_array_of(t.scores, OTA_F64, 1, 1, 2, 3);
    t.arrays.coupling = ota_array_of(t.p, OTA_F64, 1, 1, 2, 3);
    assert_int_equal(attempt(&t, entropy), OTA_OK);
    char name[64];
    (void)ota_method_name(&t.problem, name, sizeof name);
    assert_string_equal(name, "custom");
    expect_field(&t, attempt(&t, (ota_custom){.slope = entropy.slope}), OTA_EINVAL,
                 "custom.weight");
    expect_field(&t, attempt(&t, (ota_custom){.weight = entropy.weight}), OTA_EINVAL,
                 "custom.slope");
    ota_custom wrong = entropy;
    wrong.weight = falling_weight;
    expect_field(&t, attempt(&t, wrong), OTA_EINVAL, "custom.weight");
    wrong.weight = negative_weight;
    expect_field(&t, attempt(&t, wrong), OTA_EINVAL, "custom.weight");
    wrong = entropy;
    wrong.slope = negative_slope;
    expect_field(&t, attempt(&t, wrong), OTA_EINVAL, "custom.slope");
    static const ota_column_rule rules[] = {OTA_COLUMNS_EXACT,  OTA_COLUMNS_RELAXED,
                                            OTA_COLUMNS_CAPPED, OTA_COLUMNS_ELASTIC,
                                            OTA_COLUMNS_PREFIX, OTA_COLUMNS_ONLINE};
    t.problem.strength = t.problem.cap = 1.0;
    t.problem.steps = 1;
    for (size_t k = 0; k < sizeof rules / sizeof rules[0]; k++) {
        t.problem.columns = rules[k];
        expect_field(&t, attempt(&t, entropy), OTA_UNSUPPORTED, "method");
    }
    t.problem.columns = OTA_COLUMNS_FREE;
    t.problem.axis = OTA_AXIS_COLUMNS;
    expect_field(&t, attempt(&t, entropy), OTA_UNSUPPORTED, "method");
    t.problem.axis = OTA_AXIS_ROWS;
    /* Three weights of at most 1 cannot carry a mass of 4. */
    double mass[2] = {1.0, 4.0};
    t.problem.row_mass = ota_array_of(mass, OTA_F64, 1, 1, 1, 2);
    assert_int_equal(attempt(&t, (ota_custom){fermi_weight, fermi_slope, NULL, NULL}),
                     OTA_INFEASIBLE);
    assert_non_null(strstr(t.error.message, "custom.weight"));
    /* Without the value there is no objective, but rows are judged. */
    mass[1] = 2.0;
    assert_int_equal(attempt(&t, (ota_custom){fermi_weight, fermi_slope, NULL, NULL}), OTA_OK);
    ota_certificate c = {.size = sizeof c};
    assert_int_equal(ota_certify(&t.problem, NULL, &t.arrays, &c, NULL, NULL), OTA_OK);
    assert_true(isnan(c.primal) && isnan(c.gap) && c.row_error < 1e-15);
}

/* ---- long rows -------------------------------------------------------------------------------------- */

/* Rows sum to mu whatever their length, given as functions and in order too. */
static void test_long_rows(void **state) {
    (void)state;
    static const char *const in_order[] = {"softmax/online:2",    "sparsemax/online:2",
                                           "entmax:1.5/online:2", "entmax:0.7/online:2",
                                           "entmax:3/online:2",   "softmax/online:0.006"};
    enum { GALLERY = sizeof gallery / sizeof gallery[0], ORDERED = 6, N = 12, M = 3000 };
    static double scores[N * M], p[N * M];
    dice d = 3;
    for (int k = 0; k < N * M; k++) scores[k] = 0.2 * normal(&d);
    for (int k = 0; k < GALLERY + ORDERED; k++) {
        ota_problem problem = {.size = sizeof problem};
        ota_options options = {.size = sizeof options};
        ota_result result = {.size = sizeof result};
        ota_error error;
        const char *method = k < GALLERY ? gallery[k].method : in_order[k - GALLERY];
        assert_int_equal(ota_method_parse(method, &problem, &options, &error), OTA_OK);
        if (k < GALLERY) make_custom(&problem, &gallery[k].custom);
        problem.scores = ota_array_of(scores, OTA_F64, 1, 1, N, M);
        const ota_arrays arrays = {.size = sizeof arrays,
                                   .coupling = ota_array_of(p, OTA_F64, 1, 1, N, M)};
        assert_int_equal(ota_attend(&problem, &options, &arrays, &result, &error), OTA_OK);
        for (int i = 0; i < N; i++) {
            ota_judge_sum sum = {0.0, 0.0};
            for (int j = 0; j < M; j++) ota_judge_add(&sum, p[i * M + j]);
            spec_check("DER-26", fabs(ota_judge_total(sum) - 1.0), row_sum_slack(0x1p-53));
        }
    }
}

TEST_FILE(test_custom) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gallery), cmocka_unit_test(test_fermi_dirac),
        cmocka_unit_test(test_long_rows), cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
