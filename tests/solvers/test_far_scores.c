/* Numbers that stand for "forbidden". Half of a type's least number, or less, added to a score forbids the pair as -inf does; what
 * lies above stays a number, and the plan of an additive mask of such numbers is that of the boolean mask wherever the pairs it
 * leaves have one. Where they do not, as for a key of nothing but -1e9 that exact columns must fill, it is the plan of the numbers,
 * and the result says how much of the mass lies there. On the wide side of every comparison stands the plan of the boolean mask,
 * or of the scores without what a key's potential takes back. */
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
#include "crew.h"
#include "draw/random.h"
#include "groups.h"
#include "otattn.h"
#include "reference/reference.h"
#include "spec.h"

static dice dice_state;

enum { N = 6, D = 4, HIDDEN = 2, PAIRS = N * N };

typedef struct scene {
    double q[N * D], k[N * D], added[PAIRS], p[PAIRS];
    float q32[N * D], k32[N * D], added32[PAIRS];
    double s[PAIRS]; /* scores, where they are given */
    float s32[PAIRS];
    bool of_matrix, of_reference;
    double lower; /* what stands for "forbidden" at every third pair, where it is not 0 */
    bool has_sink, relaxed_rows;
    double sink, asked; /* of every key, where it is not 0 */
    double nu[N];
    unsigned char allowed[PAIRS];
    ota_type type;
    ota_result result;
    ota_certificate certificate;
    double f[N], g[N], lse[N];
    ota_error error;
} scene;

static void draw(scene *x, ota_type type, uint64_t seed) {
    memset(x, 0, sizeof *x);
    dice_state = seed;
    x->type = type;
    for (int e = 0; e < N * D; e++) {
        x->q32[e] = (float)(2.0 * uniform(&dice_state) - 1.0);
        x->k32[e] = (float)(2.0 * uniform(&dice_state) - 1.0);
        x->q[e] = (double)x->q32[e];
        x->k[e] = (double)x->k32[e];
    }
}

/* Each query has its own key and the next third one: every pair lies on a plan. */
static void mask_pattern(scene *x) {
    for (int e = 0; e < PAIRS; e++) {
        const int away = (e % N - e / N + N) % N;
        x->allowed[e] = away == 0 || away == 1 || away == 3;
    }
}

static void mask_keys(scene *x) {
    for (int e = 0; e < PAIRS; e++) x->allowed[e] = e % N < N - HIDDEN;
}

static void mask_later(scene *x) {
    for (int e = 0; e < PAIRS; e++) x->allowed[e] = e % N <= e / N;
}

typedef enum form { NONE, BOOLEAN, ADDITIVE, BIAS } form;

/* The plan of the scene's mask as it is given; value: what stands for "forbidden". */
static ota_status solve(scene *x, const char *method, form how, double value) {
    const bool narrow = x->type == OTA_F32;
    ota_problem problem = {.size = sizeof problem};
    ota_options options = {.size = sizeof options, .threads = 1};
    assert_int_equal(ota_method_parse(method, &problem, &options, &x->error), OTA_OK);
    for (int e = 0; e < PAIRS; e++) {
        const bool lower = x->lower < 0.0 && e % 3 == 0;
        x->added[e] = x->allowed[e] != 0 ? 0.0 : lower ? x->lower : value;
        x->added32[e] = (float)x->added[e];
    }
    const ota_array added = narrow ? ota_array_of(x->added32, OTA_F32, 1, 1, N, N)
                                   : ota_array_of(x->added, OTA_F64, 1, 1, N, N);
    const ota_support support = {
        .kind = how == BOOLEAN ? OTA_SUPPORT_BOOLEAN : OTA_SUPPORT_ADDITIVE,
        .array = how == BOOLEAN ? ota_array_of(x->allowed, OTA_BOOL, 1, 1, N, N) : added};
    const ota_term terms[] = {{.kind = OTA_TERM_SINK, .value = x->sink},
                              {.kind = OTA_TERM_DENSE, .array = added}};
    problem.queries = narrow ? ota_array_of(x->q32, OTA_F32, 1, 1, N, D)
                             : ota_array_of(x->q, OTA_F64, 1, 1, N, D);
    problem.keys = narrow ? ota_array_of(x->k32, OTA_F32, 1, 1, N, D)
                          : ota_array_of(x->k, OTA_F64, 1, 1, N, D);
    if (x->of_matrix) {
        problem.queries = problem.keys = (ota_array){0};
        problem.scores = narrow ? ota_array_of(x->s32, OTA_F32, 1, 1, N, N)
                                : ota_array_of(x->s, OTA_F64, 1, 1, N, N);
    }
    problem.supports = &support;
    problem.support_count = how == BOOLEAN || how == ADDITIVE;
    problem.terms = x->has_sink ? terms : terms + 1;
    problem.term_count = (how == BIAS) + x->has_sink;
    for (int j = 0; j < N; j++) x->nu[j] = x->asked;
    if (x->asked > 0.0) problem.column_mass = ota_array_of(x->nu, OTA_F64, 1, 1, 1, N);
    if (x->relaxed_rows) problem.rows = OTA_ROWS_RELAXED;
    problem.row_strength = x->relaxed_rows ? 0.7 : 0.0;
    ota_arrays arrays = {.size = sizeof arrays};
    arrays.coupling = ota_array_of(x->p, OTA_F64, 1, 1, N, N);
    arrays.row_potential = ota_array_of(x->f, OTA_F64, 1, 1, 1, N);
    arrays.column_potential = ota_array_of(x->g, OTA_F64, 1, 1, 1, N);
    arrays.lse = ota_array_of(x->lse, OTA_F64, 1, 1, 1, N);
    x->result = (ota_result){.size = sizeof x->result};
    const ota_status status = (x->of_reference ? ota_reference : ota_attend)(
        &problem, &options, &arrays, &x->result, &x->error);
    x->certificate = (ota_certificate){.size = sizeof x->certificate};
    if (status >= OTA_OK)
        assert_int_equal(ota_certify(&problem, &options, &arrays, &x->certificate, NULL, &x->error),
                         OTA_OK);
    return status;
}

static double apart(const double *a, const double *b) {
    double most = 0.0;
    for (int e = 0; e < PAIRS; e++) most = fmax(most, isnan(a[e]) ? INFINITY : fabs(a[e] - b[e]));
    return most;
}

static double tolerance_of(ota_type type) { return type == OTA_F32 ? 1e-5 : 1e-9; }

/* Residuals move the weights of a plan by what its slowest mode makes of them. */
static double closeness(ota_type type) { return 64.0 * tolerance_of(type); }

static double least_of(ota_type type) { return type == OTA_F32 ? -(double)FLT_MAX : -DBL_MAX; }

static const ota_type types[] = {OTA_F32, OTA_F64};

static const char *const methods[] = {"softmax",
                                      "softmax/exact",
                                      "softmax/relaxed:1",
                                      "softmax/capped:2",
                                      "softmax/bounded:0.5,2",
                                      "softmax/elastic:0.5,4",
                                      "softmax/exact{rounds=3}",
                                      "entmax:1.5/exact",
                                      "sparsemax/relaxed:1",
                                      "entmax:1.5/capped:2",
                                      "entmax:1.5/bounded:0.5,2",
                                      "entmax:0.7/exact",
                                      "hard/exact",
                                      "hard/capped:2"};
enum { METHODS = sizeof methods / sizeof methods[0] };

static void numbers_are_the_mask_where_it_has_a_plan(void **unused) {
    (void)unused;
    static scene x, y;
    for (int t = 0; t < 2; t++) {
        const double least = least_of(types[t]);
        const double values[] = {least, least / 2.0, least / 4.0, -1e30, -1e9, -1e6};
        for (int m = 0; m < METHODS; m++) {
            draw(&x, types[t], 7);
            mask_pattern(&x);
            y = x;
            const ota_status right = solve(&x, methods[m], BOOLEAN, 0.0);
            assert_true(right >= OTA_OK);
            for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
                for (form how = ADDITIVE; how <= BIAS; how++) {
                    const ota_status status = solve(&y, methods[m], how, values[v]);
                    if (status != right)
                        print_error("%s, %g: %s\n", methods[m], values[v], y.error.message);
                    assert_int_equal(status, right);
                    spec_check("TOT-43", apart(x.p, y.p), closeness(types[t]));
                    spec_check("TOT-43", y.certificate.row_error, tolerance_of(types[t]));
                    assert_true(y.result.masked_share <= tolerance_of(types[t]));
                    if (right == OTA_OK && strstr(methods[m], "exact") != NULL)
                        spec_check("TOT-43", y.certificate.column_error, tolerance_of(types[t]));
                }
            }
        }
    }
}

/* Half of the least number forbids keys altogether: default masses leave them out, and a causal mask is infeasible. */
static void half_of_the_least_number_forbids(void **unused) {
    (void)unused;
    static scene x, y;
    for (int t = 0; t < 2; t++) {
        const double least = least_of(types[t]), values[] = {least, least / 2.0};
        for (int m = 0; m < METHODS; m++) {
            for (int v = 0; v < 2; v++) {
                draw(&x, types[t], 11);
                mask_keys(&x);
                y = x;
                const ota_status right = solve(&x, methods[m], BOOLEAN, 0.0);
                assert_int_equal(solve(&y, methods[m], v == 0 ? ADDITIVE : BIAS, values[v]), right);
                /* The type's own arithmetic may differ; the support may not. */
                spec_check("TOT-43", apart(x.p, y.p), closeness(types[t]));
                for (int e = 0; e < PAIRS; e++)
                    assert_true(x.allowed[e] != 0 || fabs(y.p[e]) <= 0.0);
            }
        }
        draw(&x, types[t], 11);
        mask_later(&x);
        assert_int_equal(solve(&x, "softmax/exact", BOOLEAN, 0.0), OTA_INFEASIBLE);
        assert_int_equal(solve(&x, "softmax/exact", ADDITIVE, least), OTA_INFEASIBLE);
        /* Every pair of a row: it is empty, as with -inf. */
        memset(x.allowed, 1, sizeof x.allowed);
        memset(x.allowed, 0, N);
        assert_int_equal(solve(&x, "softmax", ADDITIVE, least), OTA_OK);
        assert_int_equal(x.result.empty_rows, 1);
        for (int j = 0; j < N; j++) assert_true(fabs(x.p[j]) <= 0.0);
        assert_true(x.lse[0] <= -INFINITY);
    }
}

/* A key of nothing but -1e9 that must be filled: its potential takes back what all of its scores have in common, so the plan is
 * that of scores without the mask, or, where -1e30 leaves the scores no digit, of a key without. */
static void a_key_that_must_be_filled_is(void **unused) {
    (void)unused;
    static const char *const exact[] = {"softmax/exact", "entmax:1.5/exact", "sparsemax/exact",
                                        "entmax:0.7/exact"};
    static const double values[] = {-1e4, -1e9, -1e30};
    static scene x, y;
    for (int t = 0; t < 2; t++) {
        for (size_t m = 0; m < sizeof exact / sizeof exact[0]; m++) {
            for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
                draw(&x, types[t], 13);
                mask_keys(&x);
                y = x;
                for (int e = (N - HIDDEN) * D; e < N * D && values[v] < -1e29; e++)
                    x.k[e] = x.k32[e] = 0.0f;
                assert_int_equal(solve(&x, exact[m], NONE, 0.0), OTA_OK);
                const ota_status status = solve(&y, exact[m], ADDITIVE, values[v]);
                if (status != OTA_OK)
                    print_error("%s, %g: %s\n", exact[m], values[v], y.error.message);
                assert_int_equal(status, OTA_OK);
                /* What -1e9 rounds scores to, in temperatures. */
                const double rounding = values[v] > -1e29 ? -values[v] * DBL_EPSILON : 0.0;
                spec_check("CETA-01", apart(x.p, y.p), closeness(types[t]) + rounding);
                assert_true(fabs(y.result.masked_share - (double)HIDDEN / N) <=
                            tolerance_of(types[t]));
                assert_true(x.result.masked_share <= 0.0);
                for (int j = N - HIDDEN; j < N; j++)
                    assert_true(y.g[j] - y.g[0] > -0.9 * values[v]);
            }
        }
        draw(&x, types[t], 13);
        mask_keys(&x);
        assert_int_equal(solve(&x, "softmax/bounded:0.5,2", ADDITIVE, -1e30), OTA_OK);
        for (int j = N - HIDDEN; j < N; j++) {
            double sum = 0.0;
            for (int i = 0; i < N; i++) sum += x.p[i * N + j];
            spec_check("CETA-01", fabs(sum - 0.5), N * tolerance_of(types[t]));
        }
    }
}

/* Rows of nothing but -1e9 send their mass as if the mask were not: their own potential takes it back. */
static void a_row_of_numbers_is_its_scores(void **unused) {
    (void)unused;
    static const char *const rules[] = {"softmax/exact", "softmax/capped:1.5", "softmax/relaxed:1"};
    static scene x, y;
    for (int t = 0; t < 2; t++) {
        for (size_t m = 0; m < sizeof rules / sizeof rules[0]; m++) {
            draw(&x, types[t], 17);
            memset(x.allowed, 1, sizeof x.allowed);
            memset(x.allowed, 0, N);
            y = x;
            assert_int_equal(solve(&x, rules[m], NONE, 0.0), OTA_OK);
            assert_int_equal(solve(&y, rules[m], ADDITIVE, -1e9), OTA_OK);
            const double rounding = 1e9 * DBL_EPSILON;
            spec_check("CETA-01", apart(x.p, y.p), closeness(types[t]) + rounding);
            spec_check("CETA-01", fabs(y.f[0] - 1e9 - x.f[0]),
                       closeness(types[t]) * N + 4.0 * rounding);
            spec_check("CETA-01", fabs(y.lse[0] + 1e9 - x.lse[0]),
                       closeness(types[t]) * N + 4.0 * rounding);
        }
    }
}

/* Some pairs have scores, the others 0 beside what is added: -1e30 leaves scores no digit. */
static void draw_open(scene *x, ota_type type, uint64_t seed) {
    draw(x, type, seed);
    const double share = 0.2 + 0.6 * uniform(&dice_state);
    x->of_matrix = true;
    for (int e = 0; e < PAIRS; e++) {
        x->allowed[e] = uniform(&dice_state) < share;
        x->s32[e] = x->allowed[e] != 0 ? (float)normal(&dice_state) : 0.0f;
        x->s[e] = (double)x->s32[e];
    }
}

/* The plan of far numbers is that of near ones, and, f64 where it is asked for, of the definitions. Does mass lie on them? */
static bool is_the_plan_of(scene *near, scene *far, const char *rule, double value,
                           double far_value, bool by_reference) {
    static scene z;
    const double allowed = closeness(near->type);
    assert_int_equal(solve(near, rule, ADDITIVE, value), OTA_OK);
    const ota_status status = solve(far, rule, ADDITIVE, far_value);
    if (status != OTA_OK)
        print_error("%s, %g, sink %g: %s\n", rule, far_value, far->sink, far->error.message);
    assert_int_equal(status, OTA_OK);
    spec_check("TOT-43", apart(near->p, far->p), allowed);
    /* Of prefix columns the sums mean nothing. */
    spec_check("TOT-43", far->certificate.column_error, near->certificate.column_error + allowed);
    if (by_reference && near->type == OTA_F64 && !(near->lower < 0.0)) {
        z = *near;
        z.of_reference = true;
        assert_int_equal(solve(&z, rule, ADDITIVE, value), OTA_OK);
        spec_check("TOT-43", apart(z.p, far->p), allowed);
    }
    return far->result.masked_share > 0.01;
}

/* Masks of numbers that leave some mass no other place: the plan is that of any numbers far enough below the scores and below
 * each other, -300 and -1e5 temperatures for some, which needs nothing of what -1e9 does and has a plan by the definitions. */
static void mass_without_another_place_lies_on_numbers(void **unused) {
    (void)unused;
    static const char *const rules[] = {"softmax/capped:1",
                                        "softmax/capped:1.3",
                                        "softmax/bounded:0.5,1.2",
                                        "softmax/exact",
                                        "entmax:1.5/capped:1.3",
                                        "sparsemax/capped:1.3",
                                        "entmax:1.5/bounded:0,1.25",
                                        "softmax/bounded:0.9,1",
                                        "softmax/prefix",
                                        "entmax:1.5/exact",
                                        "softmax/bounded:1,1.5",
                                        "entmax:1.5/bounded:0.5,1.2",
                                        "softmax/exact{entry_cap=0.6}",
                                        "softmax/capped:1.3{entry_cap=0.6}",
                                        "softmax/bounded:0.5,1.2{entry_cap=0.6}",
                                        "entmax:1.5/exact{entry_cap=0.6}",
                                        "sparsemax/capped:1.3{entry_cap=0.6}"};
    static const struct {
        double value, lower;
    } levels[] = {{-1e9, 0.0}, {-1e30, 0.0}, {-1e9, -1e13}};
    enum { DRAWS = 8 };
    static scene x, y;
    int lies = 0;
    for (int t = 0; t < 2; t++) {
        for (size_t m = 0; m < sizeof rules / sizeof rules[0]; m++) {
            for (uint64_t k = 0; k < DRAWS * sizeof levels / sizeof levels[0]; k++) {
                draw_open(&x, types[t], 31 + k);
                y = x;
                y.lower = levels[k / DRAWS].lower;
                x.lower = y.lower < 0.0 ? -1e5 : 0.0;
                lies += is_the_plan_of(&x, &y, rules[m], -300.0, levels[k / DRAWS].value,
                                       k % DRAWS == 0);
            }
        }
    }
    assert_true(lies > 2 * (int)(sizeof rules / sizeof rules[0]) * DRAWS);
}

/* A size that all scores have in common is a constant of the rows' potentials, beside which those would lose the digits of weights;
 * it is chosen so that no score is rounded by it. */
static void a_common_size_changes_nothing(void **unused) {
    (void)unused;
    static const char *const rules[] = {"entmax:1.5/exact",
                                        "sparsemax/exact",
                                        "entmax:2.5/exact",
                                        "entmax:0.7/exact",
                                        "entmax:1.5/capped:1.2",
                                        "entmax:1.5/bounded:0.5,1.5",
                                        "entmax:1.5/exact{entry_cap=0.6}",
                                        "softmax/prefix",
                                        "entmax:1.5/prefix",
                                        "entmax:2.5/prefix"};
    static scene x, y;
    for (int t = 0; t < 2; t++) {
        const bool narrow = types[t] == OTA_F32;
        const double size = narrow ? 0x1p13 : 0x1p27, grid = narrow ? 0x1p-10 : 0x1p-20;
        for (size_t m = 0; m < sizeof rules / sizeof rules[0]; m++) {
            for (int k = 0; k < 8; k++) {
                draw(&x, types[t], 47 + (uint64_t)k);
                x.of_matrix = true;
                for (int e = 0; e < PAIRS; e++) {
                    x.s[e] = grid * round(normal(&dice_state) / grid);
                    x.s32[e] = (float)x.s[e];
                }
                y = x;
                const double level = k % 2 == 0 ? size : -size;
                for (int e = 0; e < PAIRS; e++) {
                    y.s[e] += level;
                    y.s32[e] = (float)y.s[e];
                }
                assert_int_equal(solve(&x, rules[m], NONE, 0.0), OTA_OK);
                const ota_status status = solve(&y, rules[m], NONE, 0.0);
                if (status != OTA_OK) print_error("%s, %g: %s\n", rules[m], level, y.error.message);
                assert_int_equal(status, OTA_OK);
                spec_check("CETA-01", apart(x.p, y.p), closeness(types[t]));
            }
        }
    }
}

/* Two queries with one key between them, which their caps keep from both: numbers take the rest. */
static void caps_send_mass_to_numbers(void **unused) {
    (void)unused;
    static scene x;
    for (int t = 0; t < 2; t++) {
        draw(&x, types[t], 19);
        for (int e = 0; e < PAIRS; e++) x.allowed[e] = e / N > 1 || e % N == 0;
        assert_int_equal(solve(&x, "softmax/exact{entry_cap=0.9}", ADDITIVE, -1e9), OTA_OK);
        /* The two give key 0 all that it takes. */
        spec_check("TOT-43", fabs(x.p[0] + x.p[N] - 1.0), closeness(types[t]));
        assert_true(fabs(x.result.masked_share - 1.0 / N) <= closeness(types[t]));
    }
}

/* Hard plans within entry caps: a sink that exact columns leave the rest to has potential 0, which the gap sees. */
static void caps_beside_a_sink_are_proven(void **unused) {
    (void)unused;
    static scene x;
    for (uint64_t k = 0; k < 8; k++) {
        draw(&x, OTA_F64, 61 + k);
        x.has_sink = true;
        x.sink = 0.3;
        x.asked = 0.8;
        assert_int_equal(solve(&x, "hard/exact{entry_cap=0.6}", NONE, 0.0), OTA_OK);
        spec_check("ELA-14", fabs(x.certificate.gap), tolerance_of(OTA_F64));
    }
}

/* The same beside a sink, which takes mass as soon as nothing better does: near the scores, as far as the numbers that forbid, or
 * between two sizes of them. */
static void sinks_stand_beside_numbers(void **unused) {
    (void)unused;
    static const struct {
        const char *rule;
        double asked;
    } rules[] = {{"softmax/capped:0.7", 0.0},
                 {"softmax/bounded:0.5,1.2", 0.0},
                 {"softmax/bounded:0.8,1", 0.0},
                 {"entmax:1.5/capped:0.7", 0.0},
                 {"entmax:1.5/bounded:0.6,1", 0.0},
                 {"softmax/exact", 0.8},
                 {"entmax:1.5/exact", 0.8},
                 {"softmax/capped:0.7{entry_cap=0.5}", 0.0},
                 {"softmax/bounded:0.5,1.2{entry_cap=0.6}", 0.0},
                 {"softmax/exact{entry_cap=0.6}", 0.8}};
    static const struct {
        double value, lower, sink;
    } levels[][2] = {
        {{-1e9, 0.0, 0.3}, {-300.0, 0.0, 0.3}},     {{-1e9, -1e13, 0.3}, {-300.0, -1e5, 0.3}},
        {{-1e9, 0.0, -1e9}, {-300.0, 0.0, -300.0}}, {{-1e13, 0.0, -1e9}, {-1e5, 0.0, -300.0}},
        {{-1e9, 0.0, -1e13}, {-300.0, 0.0, -1e5}},  {{0.0, 0.0, -1e9}, {0.0, 0.0, -300.0}}};
    enum { DRAWS = 6 };
    static scene x, y;
    int lies = 0;
    for (int t = 0; t < 2; t++) {
        for (size_t m = 0; m < sizeof rules / sizeof rules[0]; m++) {
            for (uint64_t k = 0; k < DRAWS * sizeof levels / sizeof levels[0]; k++) {
                const size_t l = k / DRAWS;
                draw_open(&x, types[t], 71 + k);
                x.has_sink = true;
                x.asked = rules[m].asked;
                y = x;
                x.lower = levels[l][1].lower;
                x.sink = levels[l][1].sink;
                y.lower = levels[l][0].lower;
                y.sink = levels[l][0].sink;
                lies += is_the_plan_of(&x, &y, rules[m].rule, levels[l][1].value,
                                       levels[l][0].value, k % DRAWS == 0);
            }
        }
    }
    assert_true(lies > 2 * (int)(sizeof rules / sizeof rules[0]) * DRAWS / 2);
}

/* Rows and keys that may both give way force no mass anywhere: those of nothing but such numbers are left without, as -300 does. */
static void relaxed_rows_give_way(void **unused) {
    (void)unused;
    static const char *const rules[] = {"softmax/relaxed:1", "softmax/relaxed:0.2"};
    static const double values[] = {-1e9, -1e13, -1e30};
    static scene x, y;
    for (int t = 0; t < 2; t++) {
        for (size_t m = 0; m < sizeof rules / sizeof rules[0]; m++) {
            for (uint64_t k = 0; k < 12; k++) {
                draw(&x, types[t], 111 + k);
                x.of_matrix = x.relaxed_rows = true;
                for (int e = 0; e < PAIRS; e++) {
                    x.allowed[e] = e >= N * (int)(k % 3) && uniform(&dice_state) < 0.5;
                    x.s32[e] = x.allowed[e] != 0 ? (float)normal(&dice_state) : 0.0f;
                    x.s[e] = (double)x.s32[e];
                }
                y = x;
                assert_int_equal(solve(&x, rules[m], ADDITIVE, -1e5), OTA_OK);
                const ota_status status = solve(&y, rules[m], ADDITIVE, values[k / 4]);
                if (status != OTA_OK)
                    print_error("%s, %g: %s\n", rules[m], values[k / 4], y.error.message);
                assert_int_equal(status, OTA_OK);
                spec_check("TOT-43", apart(x.p, y.p), closeness(types[t]));
                spec_check("TOT-43", y.certificate.row_error,
                           x.certificate.row_error + tolerance_of(types[t]));
            }
        }
    }
}

/* Rows on some processes: the plan of all rows on one. */
enum { MOST_RANKS = 4 };

typedef struct shared {
    scene *whole;
    const char *method;
    double caps[PAIRS], p[PAIRS], f[N];
    const int64_t *first; /* [ranks + 1] */
    ota_status status[MOST_RANKS];
    ota_error error[MOST_RANKS];
} shared;

static void solve_rows(const scene *x, shared *all, int rank, ota_communicator *to) {
    const int64_t from = to == NULL ? 0 : all->first[rank];
    const int64_t rows = to == NULL ? N : all->first[rank + 1] - from;
    const ota_term sink = {.kind = OTA_TERM_SINK, .value = x->sink};
    ota_problem problem = {.size = sizeof problem, .terms = &sink, .term_count = x->has_sink};
    ota_options options = {
        .size = sizeof options, .threads = 1, .communicator = to, .solver = "newton"};
    ota_arrays arrays = {.size = sizeof arrays};
    ota_result result = {.size = sizeof result};
    double g[N], nu[N];
    assert_int_equal(ota_method_parse(all->method, &problem, &options, NULL), OTA_OK);
    for (int j = 0; j < N; j++) nu[j] = x->asked;
    problem.scores = ota_array_of((double *)x->s + from * N, OTA_F64, 1, 1, rows, N);
    if (x->asked > 0.0) problem.column_mass = ota_array_of(nu, OTA_F64, 1, 1, 1, N);
    if (x->lower > 0.0)
        problem.entry_caps = ota_array_of(all->caps + from * N, OTA_F64, 1, 1, rows, N);
    arrays.coupling = ota_array_of(all->p + from * N, OTA_F64, 1, 1, rows, N);
    arrays.row_potential = ota_array_of(all->f + from, OTA_F64, 1, 1, 1, rows);
    arrays.column_potential = ota_array_of(g, OTA_F64, 1, 1, 1, N);
    all->status[rank] = ota_attend(&problem, &options, &arrays, &result, &all->error[rank]);
}

static void of_rank(crew_rank *rank, void *context) {
    shared *all = context;
    solve_rows(all->whole, all, rank->to.rank, &rank->to);
}

static void rows_on_many_processes_are_rows_on_one(void **unused) {
    (void)unused;
    static const struct {
        const char *method;
        double sink, asked;
        bool caps;
    } cases[] = {{"softmax/exact", -INFINITY, 0.0, false},
                 {"softmax/capped:1.1", -INFINITY, 0.0, false},
                 {"entmax:1.5/bounded:0.5,1.2", -INFINITY, 0.0, false},
                 {"softmax/capped:0.8", 0.3, 0.0, false},
                 {"softmax/bounded:0.5,1", -1e13, 0.0, false},
                 {"softmax/exact", -1e9, 0.8, false},
                 {"softmax/exact", -INFINITY, 0.0, true},
                 {"entmax:1.5/capped:1.2", 0.1, 0.0, true}};
    static scene x;
    /* Ragged shares, of none, too. */
    static const int64_t firsts[][MOST_RANKS + 1] = {{0, 4, N}, {0, 1, 1, N}, {0, 2, 3, 3, N}};
    static shared one, all;
    int moved = 0;
    for (size_t m = 0; m < sizeof cases / sizeof cases[0]; m++) {
        for (uint64_t k = 0; k < 6; k++) {
            draw(&x, OTA_F64, 151 + k);
            for (int e = 0; e < PAIRS; e++) {
                one.caps[e] = all.caps[e] = 0.4 + 0.5 * uniform(&dice_state);
                x.s[e] = uniform(&dice_state) < 0.6 ? -1e9 : normal(&dice_state);
            }
            x.has_sink = cases[m].sink > -INFINITY;
            x.sink = cases[m].sink;
            x.asked = cases[m].asked;
            x.lower = cases[m].caps ? 1.0 : 0.0;
            one.method = all.method = cases[m].method;
            all.whole = &x;
            solve_rows(&x, &one, 0, NULL);
            assert_int_equal(one.status[0], OTA_OK);
            for (int ranks = 2; ranks <= MOST_RANKS; ranks++) {
                all.first = firsts[ranks - 2];
                memset(all.p, 0, sizeof all.p);
                crew_once(ranks, OTA_SHARES_IN_ORDER, of_rank, &all);
                for (int r = 0; r < ranks; r++) {
                    if (all.status[r] != OTA_OK)
                        print_error("%s: %s\n", cases[m].method, all.error[r].message);
                    assert_int_equal(all.status[r], OTA_OK);
                }
                spec_check("TOT-43", apart(one.p, all.p), closeness(OTA_F64));
            }
            for (int e = 0; e < PAIRS; e++) moved += x.s[e] < -1e8 && one.p[e] > 0.01;
        }
    }
    assert_true(moved > 6 * (int)(sizeof cases / sizeof cases[0]));
}

/* Above 2^22 pairs, of masks and biases: what lies on numbers is what the other keys cannot take. */
static void long_rows_know_far_scores(void **unused) {
    (void)unused;
    enum { ROWS = 2050, KEYS = ROWS, OPEN = KEYS / 5 * 2 };
    if (on_other_backend()) skip_because("four million pairs are for kernels");
    double *s = malloc(sizeof(double) * ROWS * KEYS), *p = malloc(sizeof(double) * ROWS * KEYS);
    float *mask = malloc(sizeof(float) * KEYS);
    double lies = 0.0;
    dice_state = 37;
    for (int e = 0; e < ROWS * KEYS; e++) s[e] = uniform(&dice_state);
    for (int j = 0; j < KEYS; j++) mask[j] = j < OPEN ? 0.0f : -1e9f;
    const ota_support support = {.kind = OTA_SUPPORT_ADDITIVE,
                                 .array = ota_array_of(mask, OTA_F32, 1, 1, 1, KEYS)};
    ota_problem problem = {.size = sizeof problem, .supports = &support, .support_count = 1};
    ota_options options = {.size = sizeof options, .threads = 1};
    ota_arrays arrays = {.size = sizeof arrays};
    ota_result result = {.size = sizeof result};
    ota_error error = {0};
    assert_int_equal(ota_method_parse("softmax/capped:1", &problem, &options, &error), OTA_OK);
    problem.cap = 1.25;
    problem.scores = ota_array_of(s, OTA_F64, 1, 1, ROWS, KEYS);
    arrays.coupling = ota_array_of(p, OTA_F64, 1, 1, ROWS, KEYS);
    const ota_status status = ota_attend(&problem, &options, &arrays, &result, &error);
    if (status != OTA_OK) print_error("%s\n", error.message);
    assert_int_equal(status, OTA_OK);
    for (int e = 0; e < ROWS * KEYS; e++) lies += e % KEYS < OPEN ? 0.0 : p[e] / ROWS;
    const double open = 1.25 * (double)OPEN / KEYS;
    assert_true(fabs(lies - (1.0 - open)) <= closeness(OTA_F64));
    assert_true(fabs(result.masked_share - lies) <= closeness(OTA_F64));
    /* Of a matrix of scores they are not looked for: the sentence says what to do. */
    for (int e = 0; e < ROWS * KEYS; e++) s[e] += e % KEYS < OPEN ? 0.0 : -1e9;
    problem.support_count = 0;
    assert_int_equal(ota_attend(&problem, &options, &arrays, &result, &error), OTA_TOL_UNREACHABLE);
    assert_non_null(strstr(error.message, "as an additive mask or a bias of pairs"));
    free(s);
    free(p);
    free(mask);
}

/* Masks whose boolean form leaves no plan of positive weights, a causal one and one of blocks: numbers have one, that of the
 * usable pairs, and its potentials give nothing to the others. */
static void numbers_part_what_no_plan_uses(void **unused) {
    (void)unused;
    static const double values[] = {-1e9, -1e30};
    static scene x, y;
    for (int t = 0; t < 2; t++) {
        for (int k = 0; k < 4; k++) {
            draw(&x, types[t], 19);
            for (int e = 0; e < PAIRS; e++) {
                const int i = e / N, j = e % N, step = k < 2 ? 1 : 3;
                x.allowed[e] = j / step <= i / step;
            }
            y = x;
            assert_int_equal(solve(&x, "softmax/exact", BOOLEAN, 0.0), OTA_INFEASIBLE);
            for (int e = 0; e < PAIRS && k >= 2; e++) x.allowed[e] = e % N / 3 == e / N / 3;
            if (k >= 2) assert_int_equal(solve(&x, "softmax/exact", BOOLEAN, 0.0), OTA_OK);
            for (int e = 0; e < PAIRS && k < 2; e++) x.p[e] = e / N == e % N;
            const ota_status status = solve(&y, "softmax/exact", ADDITIVE, values[k % 2]);
            if (status != OTA_OK) print_error("%s\n", y.error.message);
            assert_int_equal(status, OTA_OK);
            spec_check("CETA-24", apart(x.p, y.p), closeness(types[t]));
            spec_check("CETA-24", y.certificate.column_error, tolerance_of(types[t]));
            assert_true(y.result.masked_share <= 0.0 && y.result.unusable_pairs == 0);
        }
    }
}

/* Exact columns that leave some mass to a sink: where the sink lies is a constant of the columns' potentials, however far. */
static void a_far_sink_is_a_constant(void **unused) {
    (void)unused;
    static const char *const methods[] = {"softmax/exact", "entmax:1.5/exact", "sparsemax/exact"};
    static const double sinks[] = {-1e4, 1e6, -1e9, 1e9, -1e30};
    enum { ROWS = 6 };
    double s[ROWS * ROWS], nu[ROWS], p[2][ROWS * ROWS], g[2][ROWS], f[2][ROWS], lse[2][ROWS];
    dice_state = 29;
    for (int e = 0; e < ROWS * ROWS; e++) s[e] = normal(&dice_state);
    for (int j = 0; j < ROWS; j++) nu[j] = 0.8;
    for (size_t m = 0; m < sizeof methods / sizeof methods[0]; m++) {
        for (size_t k = 0; k < sizeof sinks / sizeof sinks[0]; k++) {
            for (int turn = 0; turn < 2; turn++) {
                const ota_term sink = {.kind = OTA_TERM_SINK, .value = turn == 0 ? 1.0 : sinks[k]};
                ota_problem problem = {.size = sizeof problem, .terms = &sink, .term_count = 1};
                ota_options options = {.size = sizeof options, .threads = 1};
                ota_error error = {0};
                assert_int_equal(ota_method_parse(methods[m], &problem, &options, &error), OTA_OK);
                problem.scores = ota_array_of(s, OTA_F64, 1, 1, ROWS, ROWS);
                problem.column_mass = ota_array_of(nu, OTA_F64, 1, 1, 1, ROWS);
                ota_arrays arrays = {.size = sizeof arrays};
                arrays.coupling = ota_array_of(p[turn], OTA_F64, 1, 1, ROWS, ROWS);
                arrays.column_potential = ota_array_of(g[turn], OTA_F64, 1, 1, 1, ROWS);
                arrays.row_potential = ota_array_of(f[turn], OTA_F64, 1, 1, 1, ROWS);
                arrays.lse = ota_array_of(lse[turn], OTA_F64, 1, 1, 1, ROWS);
                const ota_status status = ota_attend(&problem, &options, &arrays, NULL, &error);
                if (status != OTA_OK)
                    print_error("%s, %g: %s\n", methods[m], sinks[k], error.message);
                assert_int_equal(status, OTA_OK);
            }
            const double by = sinks[k] - 1.0, rounding = 8.0 * fabs(by) * DBL_EPSILON;
            for (int e = 0; e < ROWS * ROWS; e++)
                spec_check("CETA-01", fabs(p[0][e] - p[1][e]), closeness(OTA_F64));
            for (int j = 0; j < ROWS; j++) {
                assert_true(fabs(g[1][j] - g[0][j] - by) <= closeness(OTA_F64) + rounding);
                assert_true(fabs(f[1][j] - f[0][j] + by) <= closeness(OTA_F64) + rounding);
                if (m == 0)
                    assert_true(fabs(lse[1][j] - lse[0][j] - by) <= closeness(OTA_F64) + rounding);
            }
        }
    }
}

/* Scores that all lie far above a sink, whatever their own size: it takes what the keys have no room for. */
static void a_sink_far_below_all_scores_takes_the_rest(void **unused) {
    (void)unused;
    enum { ROWS = 6 };
    static const double up = 1e8, sinks[] = {5e7, 0.0, -5e7};
    double s[ROWS * ROWS], p[2][ROWS * ROWS];
    for (uint64_t k = 0; k < 3 * sizeof sinks / sizeof sinks[0]; k++) {
        dice_state = 7 + k / 3;
        /* Sixteenths, of which 1e8 takes nothing. */
        for (int e = 0; e < ROWS * ROWS; e++) s[e] = floor(16.0 * normal(&dice_state)) / 16.0;
        for (int turn = 0; turn < 2; turn++) {
            const ota_term sink = {.kind = OTA_TERM_SINK,
                                   .value = turn == 0 ? -300.0 : sinks[k % 3]};
            ota_problem problem = {.size = sizeof problem, .terms = &sink, .term_count = 1};
            ota_options options = {.size = sizeof options, .threads = 1};
            ota_error error = {0};
            assert_int_equal(ota_method_parse("softmax/capped:0.7", &problem, &options, &error),
                             OTA_OK);
            for (int e = 0; e < ROWS * ROWS && turn == 1; e++) s[e] += up;
            problem.temperature = 1.0;
            problem.scores = ota_array_of(s, OTA_F64, 1, 1, ROWS, ROWS);
            ota_arrays arrays = {.size = sizeof arrays};
            arrays.coupling = ota_array_of(p[turn], OTA_F64, 1, 1, ROWS, ROWS);
            const ota_status status = ota_attend(&problem, &options, &arrays, NULL, &error);
            if (status != OTA_OK) print_error("%g: %s\n", sinks[k % 3], error.message);
            assert_int_equal(status, OTA_OK);
        }
        for (int e = 0; e < ROWS * ROWS; e++)
            spec_check("CETA-01", fabs(p[0][e] - p[1][e]), closeness(OTA_F64));
    }
}

/* 16-bit masks by their own least numbers. */
static void halves_forbid_by_their_own_least_number(void **unused) {
    (void)unused;
    static const struct {
        ota_type type;
        uint16_t forbids, number; /* the last that forbids, and the next above it */
    } halves[] = {{OTA_F16, 0xf7ff, 0xf7fe}, {OTA_BF16, 0xfeff, 0xfefe}};
    for (int k = 0; k < 2; k++) {
        float scores[2] = {0.0f, 0.0f}, p[2];
        for (int turn = 0; turn < 2; turn++) {
            uint16_t mask[2];
            mask[0] = mask[1] = turn == 0 ? halves[k].forbids : halves[k].number;
            const ota_support support = {.kind = OTA_SUPPORT_ADDITIVE,
                                         .array = ota_array_of(mask, halves[k].type, 1, 1, 1, 2)};
            ota_problem problem = {
                .size = sizeof problem, .supports = &support, .support_count = 1};
            ota_options options = {.size = sizeof options, .threads = 1};
            ota_result result = {.size = sizeof result};
            assert_int_equal(ota_method_parse("softmax", &problem, &options, NULL), OTA_OK);
            problem.scores = ota_array_of(scores, OTA_F32, 1, 1, 1, 2);
            ota_arrays arrays = {.size = sizeof arrays};
            arrays.coupling = ota_array_of(p, OTA_F32, 1, 1, 1, 2);
            assert_int_equal(ota_attend(&problem, &options, &arrays, &result, NULL), OTA_OK);
            assert_int_equal(result.empty_rows, turn == 0);
            assert_true(p[0] <= 0.5f && p[0] >= (turn == 0 ? 0.0f : 0.5f));
            assert_true(turn == 1 || p[0] <= 0.0f);
        }
    }
}

/* A streamed plan has no stored scores to shut pairs in: the kernel has none of them anyway. */
static void streamed_kernels_know_no_far_scores(void **unused) {
    (void)unused;
    enum { LONG = 96 };
    static double q[LONG * D], k[LONG * D], v[LONG * D], out[2][LONG * D], mask[LONG * LONG];
    if (on_other_backend()) skip_because("the plain backend streams no kernel");
    dice_state = 23;
    for (int e = 0; e < LONG * D; e++) {
        q[e] = 2.0 * uniform(&dice_state) - 1.0;
        k[e] = 2.0 * uniform(&dice_state) - 1.0;
        v[e] = 2.0 * uniform(&dice_state) - 1.0;
    }
    for (int turn = 0; turn < 2; turn++) {
        for (int e = 0; e < LONG * LONG; e++)
            mask[e] = (e % LONG - e / LONG + LONG) % LONG < 60 ? 0.0 : turn == 0 ? -INFINITY : -1e9;
        const ota_support support = {.kind = OTA_SUPPORT_ADDITIVE,
                                     .array = ota_array_of(mask, OTA_F64, 1, 1, LONG, LONG)};
        ota_problem problem = {.size = sizeof problem, .supports = &support, .support_count = 1};
        ota_options options = {.size = sizeof options, .threads = 1};
        ota_plan *plan = NULL;
        ota_error error = {0};
        ota_result result = {.size = sizeof result};
        assert_int_equal(ota_method_parse("softmax/exact", &problem, &options, &error), OTA_OK);
        problem.queries = ota_array_of(q, OTA_F64, 1, 1, LONG, D);
        problem.keys = ota_array_of(k, OTA_F64, 1, 1, LONG, D);
        options.workspace_limit = 1;
        assert_int_equal(ota_plan_create(&plan, &problem, D, &options, &error), OTA_ELIMIT);
        const char *needs = strstr(error.message, "needs ");
        assert_non_null(needs);
        options.workspace_limit = (size_t)strtoull(needs + 6, NULL, 10);
        assert_int_equal(ota_plan_create(&plan, &problem, D, &options, &error), OTA_OK);
        char text[4096];
        (void)ota_plan_describe(plan, text, sizeof text);
        assert_non_null(strstr(text, "path: streamed kernel"));
        ota_arrays arrays = {.size = sizeof arrays};
        arrays.values = ota_array_of(v, OTA_F64, 1, 1, LONG, D);
        arrays.out = ota_array_of(out[turn], OTA_F64, 1, 1, LONG, D);
        assert_int_equal(ota_forward(plan, &arrays, &result, &error), OTA_OK);
        ota_plan_free(plan);
    }
    for (int e = 0; e < LONG * D; e++)
        assert_true(fabs(out[0][e] - out[1][e]) <= closeness(OTA_F64));
}

TEST_FILE(test_far_scores) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_the_mask_where_it_has_a_plan),
        cmocka_unit_test(half_of_the_least_number_forbids),
        cmocka_unit_test(a_common_size_changes_nothing),
        cmocka_unit_test(a_key_that_must_be_filled_is),
        cmocka_unit_test(a_row_of_numbers_is_its_scores),
        cmocka_unit_test(mass_without_another_place_lies_on_numbers),
        cmocka_unit_test(caps_send_mass_to_numbers),
        cmocka_unit_test(caps_beside_a_sink_are_proven),
        cmocka_unit_test(sinks_stand_beside_numbers),
        cmocka_unit_test(relaxed_rows_give_way),
        cmocka_unit_test(long_rows_know_far_scores),
        cmocka_unit_test(rows_on_many_processes_are_rows_on_one),
        cmocka_unit_test(numbers_part_what_no_plan_uses),
        cmocka_unit_test(a_far_sink_is_a_constant),
        cmocka_unit_test(a_sink_far_below_all_scores_takes_the_rest),
        cmocka_unit_test(halves_forbid_by_their_own_least_number),
        cmocka_unit_test(streamed_kernels_know_no_far_scores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
