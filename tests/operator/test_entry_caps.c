/* test_entry_caps.c: P_ij <= c_ij. Rows alone against a halving of their own, hard rows of mass k with caps of 1 against
 * the k best keys, coupled columns by their certificate, derivatives against differences, and every refusal. */
#define _GNU_SOURCE
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dice.h"
#include "otattn.h"
#include "reference/reference.h"

enum { N = 9, M = 70, WIDTH = 3 };

/* One head, scores given as a matrix; everything that a call reads or writes, in f64 and f32. */
typedef struct scene {
    int64_t n, m;
    double scores[N * M], caps[N * M], mass[N], column[M], values[M * WIDTH], upstream[N * WIDTH];
    double p[N * M], out[N * WIDTH], f[N], g[M];
    float narrow_scores[N * M], narrow_values[M * WIDTH], narrow_p[N * M];
    unsigned char allowed[N * M];
    ota_support support;
    ota_term sink;
    ota_problem problem;
    ota_options options;
    ota_arrays arrays;
} scene;

/* The kernels of all scenes; NULL: the best ones. */
static const char *level;

static ota_array rows_of(void *data, ota_type type, const scene *s, int64_t columns) {
    return ota_array_of(data, type, 1, 1, s->n, columns);
}

static void set_up(scene *s, const char *method, int64_t n, int64_t m, uint64_t seed, bool narrow) {
    dice_state = seed;
    memset(s, 0, sizeof *s);
    s->n = n;
    s->m = m;
    for (int64_t k = 0; k < n * m; k++) {
        s->scores[k] = s->narrow_scores[k] = (float)(4.0 * uniform() - 2.0);
        s->allowed[k] = 1;
    }
    for (int64_t k = 0; k < m * WIDTH; k++)
        s->values[k] = s->narrow_values[k] = (float)(2.0 * uniform() - 1.0);
    for (int64_t k = 0; k < n * WIDTH; k++) s->upstream[k] = 2.0 * uniform() - 1.0;
    s->problem.size = sizeof s->problem;
    s->options.size = sizeof s->options;
    s->arrays.size = sizeof s->arrays;
    s->options.cpu = level;
    ota_error error;
    if (ota_method_parse(method, &s->problem, &s->options, &error) < 0)
        fail_msg("%s", error.message);
    s->problem.scores =
        narrow ? rows_of(s->narrow_scores, OTA_F32, s, m) : rows_of(s->scores, OTA_F64, s, m);
    s->arrays.values = narrow ? ota_array_of(s->narrow_values, OTA_F32, 1, 1, m, WIDTH)
                              : ota_array_of(s->values, OTA_F64, 1, 1, m, WIDTH);
    s->arrays.coupling =
        narrow ? rows_of(s->narrow_p, OTA_F32, s, m) : rows_of(s->p, OTA_F64, s, m);
    s->arrays.out = rows_of(s->out, OTA_F64, s, WIDTH);
    s->arrays.row_potential = ota_array_of(s->f, OTA_F64, 1, 1, 1, n);
    s->arrays.column_potential = ota_array_of(s->g, OTA_F64, 1, 1, 1, m);
}

/* Caps between `low` and `high`, one a pair. */
static void draw_caps(scene *s, double low, double high, uint64_t seed) {
    dice_state = seed;
    for (int64_t k = 0; k < s->n * s->m; k++) s->caps[k] = low + (high - low) * uniform();
    s->problem.entry_cap = 0.0;
    s->problem.entry_caps = rows_of(s->caps, OTA_F64, s, s->m);
}

static double cap_of(const scene *s, int64_t i, int64_t j) {
    return s->problem.entry_cap > 0.0 ? s->problem.entry_cap : s->caps[i * s->m + j];
}

static void forbid(scene *s, int64_t every) {
    for (int64_t k = 0; k < s->n * s->m; k += every) s->allowed[k] = 0;
    s->support =
        (ota_support){.kind = OTA_SUPPORT_BOOLEAN, .array = rows_of(s->allowed, OTA_BOOL, s, s->m)};
    s->problem.supports = &s->support;
    s->problem.support_count = 1;
}

static ota_status solve(scene *s, ota_error *error) {
    ota_error mine;
    const ota_status status = ota_attend(&s->problem, &s->options, &s->arrays, NULL, &mine);
    if (error != NULL) *error = mine;
    if (error == NULL && status < 0) fail_msg("%s", mine.message);
    for (int64_t k = 0; k < s->n * s->m && s->problem.scores.type == OTA_F32; k++)
        s->p[k] = (double)s->narrow_p[k];
    return status;
}

static ota_certificate judge(const scene *s) {
    ota_certificate found = {.size = sizeof found};
    ota_error error;
    if (ota_certify(&s->problem, &s->options, &s->arrays, &found, NULL, &error) < 0)
        fail_msg("%s", error.message);
    return found;
}

/* ---- rows alone --------------------------------------------------------------------------------- */

/* The weight of one pair at f, from the definition. */
static double weight_at(const scene *s, double x, double f) {
    const double tau = s->problem.temperature > 0.0 ? s->problem.temperature : 1.0;
    if (s->problem.regulariser == OTA_SOFTMAX) return exp((x + f) / tau);
    const double k = s->problem.order - 1.0, y = k * (x + f) / tau;
    return y > 0.0 ? pow(y, 1.0 / k) : k > 0.0 ? 0.0 : INFINITY;
}

static double row_sum(const scene *s, int64_t i, double f) {
    double sum = s->problem.term_count > 0 ? weight_at(s, s->sink.value, f) : 0.0;
    for (int64_t j = 0; j < s->m; j++) {
        if (s->allowed[i * s->m + j])
            sum += fmin(cap_of(s, i, j), weight_at(s, s->scores[i * s->m + j], f));
    }
    return sum;
}

/* Returns how many weights are at their caps. */
static int check_rows(const scene *s, double tolerance) {
    int at_caps = 0;
    for (int64_t i = 0; i < s->n; i++) {
        const double mu = s->problem.row_mass.data != NULL ? s->mass[i] : 1.0;
        double low = -100.0, high = 100.0;
        for (int turn = 0; turn < 200; turn++) {
            const double f = 0.5 * (low + high);
            if (row_sum(s, i, f) < mu)
                low = f;
            else
                high = f;
        }
        for (int64_t j = 0; j < s->m; j++) {
            const double cap = cap_of(s, i, j);
            const double w = s->allowed[i * s->m + j]
                                 ? fmin(cap, weight_at(s, s->scores[i * s->m + j], high))
                                 : 0.0;
            at_caps += w >= cap;
            if (!(fabs(s->p[i * s->m + j] - w) <= tolerance))
                fail_msg("P[%d, %d] is %.17g where %.17g is expected", (int)i, (int)j,
                         s->p[i * s->m + j], w);
        }
    }
    return at_caps;
}

static void give_masses(scene *s, double least, double most) {
    for (int64_t i = 0; i < s->n; i++) s->mass[i] = least + (most - least) * uniform();
    s->problem.row_mass = ota_array_of(s->mass, OTA_F64, 1, 1, 1, s->n);
}

static void rows_of_a_level(void **state) {
    (void)state;
    static const char *const methods[] = {"softmax",  "entmax:1.5", "sparsemax",
                                          "entmax:3", "entmax:0.6", "entmax:2.5"};
    scene *s = malloc(sizeof *s);
    assert_non_null(s);
    int at_caps = 0;
    for (uint64_t k = 0; k < 96; k++) {
        const bool narrow = (k / 6) % 2 == 1;
        set_up(s, methods[k % 6], 1 + (int64_t)(k % N), 23 + (int64_t)(k % 47), 100 + k, narrow);
        s->problem.entry_cap = 0.09;
        s->problem.temperature = k % 6 == 0 ? 0.4 : 1.0;
        if (k % 3 == 1) draw_caps(s, 0.06, 0.12, 900 + k);
        if (k % 8 >= 4) forbid(s, 7);
        if (k % 7 == 2) give_masses(s, 0.4, 1.2);
        if (k % 11 == 3) {
            s->sink = (ota_term){.kind = OTA_TERM_SINK, .value = 0.5};
            s->problem.terms = &s->sink;
            s->problem.term_count = 1;
        }
        assert_int_equal(solve(s, NULL), OTA_OK);
        at_caps += check_rows(s, narrow ? 4.0e-7 : 1.0e-13);
        const ota_certificate found = judge(s);
        assert_true(found.row_error <= (narrow ? 1.0e-6 : 1.0e-13));
        assert_true(found.cap_error <= (narrow ? 1.0e-8 : 0.0));
        assert_true(fabs(found.gap) <= (narrow ? 1.0e-5 : 1.0e-12) * (1.0 + fabs(found.primal)));
        /* The potentials alone say the same. */
        if (narrow) continue;
        s->arrays.coupling = (ota_array){0};
        const ota_certificate again = judge(s);
        assert_true(fabs(again.primal - found.primal) <= 1.0e-12 * (1.0 + fabs(found.primal)));
        assert_true(again.row_error <= 1.0e-12);
    }
    assert_true(at_caps > 500);
    free(s);
}

/* At every level of the kernels. */
static void rows_are_those_of_the_definition(void **state) {
    for (int k = 0; ota_kernel_name(k) != NULL; k++) {
        level = ota_kernel_name(k);
        rows_of_a_level(state);
    }
    level = NULL;
}

/* Scores a thousand temperatures apart, of which e^(x - top) is 0 in f32 and nearly so in f64: keys at their caps leave
 * most of the mass to keys that vanish beside them. */
static void keys_far_below_the_caps_share_the_rest(void **state) {
    (void)state;
    static const char *const methods[] = {"softmax", "entmax:1.5", "sparsemax", "entmax:3"};
    static const double steps[] = {20.0, 45.0, 100.0, 1000.0};
    scene *s = malloc(sizeof *s);
    assert_non_null(s);
    for (uint64_t k = 0; k < 32; k++) {
        const bool narrow = k >= 16;
        set_up(s, methods[k % 4], 3, 40, 900 + k, narrow);
        for (int64_t at = 0; at < 3 * 40; at++) {
            const double step = at % 40 < 2 ? 2.0 : at % 40 < 5 ? 1.0 : 0.0;
            s->scores[at] = s->narrow_scores[at] = (float)(s->scores[at] + step * steps[k / 4 % 4]);
        }
        s->problem.entry_cap = 0.1;
        assert_int_equal(solve(s, NULL), OTA_OK);
        const ota_certificate found = judge(s);
        /* As far as rounding of the scores moves a weight of slope 1. */
        const double rounding = 16.0 * DBL_EPSILON * (2.0 * steps[k / 4 % 4] + 2.0);
        assert_true(found.row_error <= (narrow ? 1.0e-6 : rounding));
        assert_true(fabs(found.gap) <= (narrow ? 1.0e-5 : 1.0e-12) * (1.0 + fabs(found.primal)));
        for (int64_t i = 0; i < 3; i++) {
            for (int64_t j = 0; j < 5; j++)
                assert_true(s->p[i * 40 + j] >= (double)(float)0.1 - 1e-8);
        }
    }
    /* Weights that fall by a factor each reach their caps one after another, more of them than steps are made. */
    for (uint64_t k = 0; k < 8; k++) {
        set_up(s, methods[k % 4], 1, M, 950 + k, k >= 4);
        for (int64_t j = 0; j < M; j++)
            s->scores[j] = s->narrow_scores[j] = (float)(-0.75 * (double)j);
        s->problem.entry_cap = 1.0 / 69.5;
        assert_int_equal(solve(s, NULL), OTA_OK);
        const ota_certificate found = judge(s);
        /* As far as rounding of the potential, up to 0.75 M, moves a weight: its slope is 1 / p where alpha = 3. */
        const double slope = k % 4 == 3 ? 2.0 / s->problem.entry_cap : 1.0;
        const double rounding = 4.0 * DBL_EPSILON * 0.75 * M * slope;
        assert_true(found.row_error <= (k >= 4 ? 1.0e-6 : rounding));
        assert_true(fabs(found.gap) <= (k >= 4 ? 1.0e-5 : rounding) * (1.0 + fabs(found.primal)));
    }
    free(s);
}

/* Only the sink has room for what caps leave. */
static void a_sink_takes_what_caps_leave(void **state) {
    (void)state;
    static const char *const methods[] = {"softmax", "entmax:1.5", "sparsemax", "hard"};
    scene *s = malloc(sizeof *s);
    assert_non_null(s);
    for (uint64_t k = 0; k < 16; k++) {
        set_up(s, methods[k % 4], 3, 10, 970 + k, k >= 8);
        s->sink = (ota_term){.kind = OTA_TERM_SINK, .value = -4.0};
        s->problem.terms = &s->sink;
        s->problem.term_count = 1;
        s->problem.entry_cap = 0.05;
        if (k / 4 % 2 == 1) {
            for (int64_t at = 0; at < 3 * 10; at++) s->allowed[at] = at % 10 < 2;
            forbid(s, 30);
        }
        assert_int_equal(solve(s, NULL), OTA_OK);
        const ota_certificate found = judge(s);
        assert_true(found.row_error <= 1.0e-6 && fabs(found.gap) <= 1.0e-5);
        for (int64_t at = 0; at < 3 * 10; at++)
            assert_true(!s->allowed[at] || s->p[at] >= (double)(float)0.05 - 1e-8);
    }
    free(s);
}

/* A row whose caps add up to its mass, and a cap that binds nowhere. */
static void caps_may_bind_everywhere_or_nowhere(void **state) {
    (void)state;
    static const char *const methods[] = {"softmax", "entmax:1.5", "hard"};
    scene *s = malloc(sizeof *s), *t = malloc(sizeof *t);
    assert_true(s != NULL && t != NULL);
    for (int k = 0; k < 3; k++) {
        set_up(s, methods[k], 4, 20, 7, false);
        s->problem.entry_cap = 0.05;
        assert_int_equal(solve(s, NULL), OTA_OK);
        for (int64_t i = 0; i < 4 * 20; i++) assert_true(fabs(s->p[i] - 0.05) <= 1.0e-15);
        assert_true(fabs(judge(s).gap) <= 1.0e-12);
        set_up(s, methods[k], 4, 20, 7, false);
        set_up(t, methods[k], 4, 20, 7, false);
        s->problem.entry_cap = 2.0;
        (void)solve(s, NULL);
        (void)solve(t, NULL);
        for (int64_t i = 0; i < 4 * 20; i++) assert_true(fabs(s->p[i] - t->p[i]) <= 1.0e-15);
        for (int64_t i = 0; i < 4; i++) assert_true(fabs(s->f[i] - t->f[i]) <= 1.0e-14);
    }
    free(s);
    free(t);
}

/* Keys of one row by falling score, those of a level by place. */
static void rank_keys(const scene *s, int64_t i, int64_t *order) {
    const double *x = s->scores + i * s->m;
    for (int64_t j = 0; j < s->m; j++) {
        int64_t before = 0;
        for (int64_t other = 0; other < s->m; other++)
            before += x[other] > x[j] || (!(x[other] < x[j]) && other < j);
        order[before] = j;
    }
}

/* Keys of falling score are filled one after another, the sink comes before a key that is less. */
static void check_hard_rows(const scene *s, double tolerance) {
    int64_t order[M];
    const bool sinks = s->problem.term_count > 0;
    for (int64_t i = 0; i < s->n; i++) {
        double left = s->problem.row_mass.data != NULL ? s->mass[i] : 1.0;
        rank_keys(s, i, order);
        for (int64_t k = 0; k < s->m; k++) {
            const int64_t at = i * s->m + order[k];
            if (sinks && s->scores[at] < s->sink.value) left = 0.0;
            const double w = s->allowed[at] ? fmin(left, cap_of(s, i, order[k])) : 0.0;
            left -= w;
            if (!(fabs(s->p[at] - w) <= tolerance))
                fail_msg("P[%d, %d] is %.17g where %.17g is expected", (int)i, (int)order[k],
                         s->p[at], w);
        }
    }
}

static void hard_rows_of_a_level(void) {
    scene *s = malloc(sizeof *s);
    assert_non_null(s);
    for (uint64_t k = 0; k < 64; k++) {
        const bool narrow = k / 4 % 2 == 1;
        set_up(s, "hard{entry_cap=0.09}", 1 + (int64_t)(k % N), 23 + (int64_t)(k % 47), 700 + k,
               narrow);
        if (k % 3 == 1) draw_caps(s, 0.06, 0.12, 900 + k);
        /* As many caps as make the mass, whose sum rounds. */
        if (k % 3 == 2) s->problem.entry_cap = 1.0 / (double)(2 + k % 9);
        if (k % 8 >= 4) forbid(s, 7);
        if (k % 7 == 2) give_masses(s, 0.4, 1.2);
        for (int64_t at = 0; k % 5 == 2 && at < s->n * s->m; at += 3)
            s->scores[at] = s->narrow_scores[at] = 0.5F;
        if (k % 11 == 3) {
            s->sink = (ota_term){.kind = OTA_TERM_SINK, .value = 1.5};
            s->problem.terms = &s->sink;
            s->problem.term_count = 1;
        }
        assert_int_equal(solve(s, NULL), OTA_OK);
        check_hard_rows(s, narrow ? 1.0e-7 : 1.0e-14);
        const ota_certificate found = judge(s);
        assert_true(found.row_error <= (narrow ? 1.0e-6 : 1.0e-14));
        assert_true(found.cap_error <= (narrow ? 1.0e-8 : 0.0));
        assert_true(fabs(found.gap) <= (narrow ? 1.0e-5 : 1.0e-12) * (1.0 + fabs(found.primal)));
    }
    free(s);
}

static void hard_rows_are_those_of_the_definition(void **state) {
    (void)state;
    for (int k = 0; ota_kernel_name(k) != NULL; k++) {
        level = ota_kernel_name(k);
        hard_rows_of_a_level();
    }
    level = NULL;
}

/* Caps of which a whole number makes the mass: no key is open. Rows of 1,100 keys are longer than any piece of them. */
static void caps_may_make_the_mass(void **state) {
    (void)state;
    enum { LONG = 1100 };
    static const char *const methods[] = {"entmax:2.5", "entmax:3", "sparsemax", "hard"};
    static double scores[2 * LONG], p[2 * LONG];
    static const double caps[] = {0.1, 1.0 / 3.0, 0.008, 0.01, 0.0234375};
    for (uint64_t k = 0; k < 20; k++) {
        dice_state = 77 + k;
        for (int64_t j = 0; j < 2 * LONG; j++)
            scores[j] = (4.0 * uniform() - 2.0) * (double)(1 + k);
        ota_problem problem = {.size = sizeof problem};
        ota_options options = {.size = sizeof options};
        ota_arrays arrays = {.size = sizeof arrays};
        ota_error error;
        assert_int_equal(ota_method_parse(methods[k % 4], &problem, &options, &error), OTA_OK);
        problem.scores = ota_array_of(scores, OTA_F64, 1, 1, 2, LONG);
        problem.entry_cap = caps[k / 4];
        double f[2];
        arrays.coupling = ota_array_of(p, OTA_F64, 1, 1, 2, LONG);
        arrays.row_potential = ota_array_of(f, OTA_F64, 1, 1, 1, 2);
        if (ota_attend(&problem, &options, &arrays, NULL, &error) != OTA_OK)
            fail_msg("%s", error.message);
        ota_certificate found = {.size = sizeof found};
        assert_int_equal(ota_certify(&problem, &options, &arrays, &found, NULL, &error), OTA_OK);
        /* Sums of LONG weights, one after another in the plain backend. */
        assert_true(found.row_error <= LONG * DBL_EPSILON);
        assert_true(found.cap_error <= 0.0);
        assert_true(fabs(found.gap) <= 1.0e-12 * (1.0 + fabs(found.primal)));
    }
}

/* All keys at their caps and nothing left for the sink: where the potential lies is open, but not that it is a number. */
static void softmax_caps_may_fill_the_row(void **state) {
    (void)state;
    for (int64_t count = 3; count <= 40; count++) {
        double scores[40], p[40], f, left;
        dice_state = (uint64_t)count;
        for (int64_t j = 0; j < count; j++) scores[j] = 4.0 * uniform() - 2.0;
        ota_term sink = {.kind = OTA_TERM_SINK, .value = -1.0e4};
        const ota_problem problem = {.size = sizeof problem,
                                     .scores = ota_array_of(scores, OTA_F64, 1, 1, 1, count),
                                     .temperature = 1.0,
                                     .entry_cap = 1.0 / (double)count,
                                     .terms = &sink,
                                     .term_count = count % 2 == 0 ? 1 : 0};
        const ota_arrays arrays = {.size = sizeof arrays,
                                   .coupling = ota_array_of(p, OTA_F64, 1, 1, 1, count),
                                   .row_potential = ota_array_of(&f, OTA_F64, 1, 1, 1, 1),
                                   .sink = ota_array_of(&left, OTA_F64, 1, 1, 1, 1)};
        ota_error error;
        if (ota_attend(&problem, NULL, &arrays, NULL, &error) != OTA_OK)
            fail_msg("%s", error.message);
        assert_true(isfinite(f) && left >= 0.0 && left <= 1.0e-15);
        for (int64_t j = 0; j < count; j++)
            assert_true(fabs(p[j] - 1.0 / (double)count) <= 1.0e-15);
    }
}

static void hard_rows_take_the_best_keys(void **state) {
    (void)state;
    scene *s = malloc(sizeof *s);
    assert_non_null(s);
    for (int64_t k = 1; k <= 6; k++) {
        set_up(s, "hard{entry_cap=1}", N, 31, 40 + (uint64_t)k, k % 2 == 0);
        for (int64_t i = 0; i < N; i++) s->mass[i] = (double)k;
        s->problem.row_mass = ota_array_of(s->mass, OTA_F64, 1, 1, 1, N);
        /* Ties: the first keys of a level are taken. */
        for (int64_t j = 0; j < 31; j += 3) s->scores[j] = s->narrow_scores[j] = 1.0F;
        assert_int_equal(solve(s, NULL), OTA_OK);
        for (int64_t i = 0; i < N; i++) {
            for (int64_t j = 0; j < 31; j++) {
                int64_t before = 0;
                for (int64_t other = 0; other < 31; other++) {
                    const double a = s->scores[i * 31 + other], b = s->scores[i * 31 + j];
                    before += a > b || (!(a < b) && other < j);
                }
                assert_true(fabs(s->p[i * 31 + j] - (before < k ? 1.0 : 0.0)) <= 0.0);
            }
        }
        const ota_certificate found = judge(s);
        assert_true(fabs(found.gap) <= 1.0e-12 && found.row_error <= 0.0);
    }
    free(s);
}

/* ---- coupled columns ---------------------------------------------------------------------------- */

static const char *const coupled[] = {"softmax/exact",           "entmax:1.5/exact",
                                      "sparsemax/exact",         "hard/exact",
                                      "hard/capped:0.2",         "hard/bounded:0,1.1",
                                      "hard/bounded:0.8,1.1",    "hard/bounded:1,1",
                                      "hard/bounded:0.5,1",      "hard/bounded:1,1.3",
                                      "softmax/relaxed:0.7",     "entmax:1.5/relaxed:0.7",
                                      "softmax/capped:0.2",      "entmax:1.5/capped:0.2",
                                      "softmax/bounded:0.8,1.1", "entmax:1.5/bounded:0.8,1.1",
                                      "entmax:0.9/exact",        "entmax:0.9/relaxed:0.7"};
enum { COUPLED = (int)(sizeof coupled / sizeof coupled[0]) };

static void coupled_columns_are_certified(void **state) {
    (void)state;
    scene *s = malloc(sizeof *s);
    assert_non_null(s);
    for (uint64_t k = 0; k < 4 * COUPLED; k++) {
        const bool narrow = k / COUPLED == 3;
        set_up(s, coupled[k % COUPLED], N, 65, 300 + k, narrow);
        s->problem.entry_cap = 0.06;
        s->options.tolerance = narrow ? 1.0e-6 : 1.0e-11;
        /* Heavy tails leave the largest weights below the caps. */
        if (strncmp(coupled[k % COUPLED], "entmax:0", 8) == 0) s->problem.temperature = 0.4;
        if (k / COUPLED == 1) draw_caps(s, 0.03, 0.1, 500 + k);
        /* Where all weights are positive, caps and forbidden pairs together may leave no plan. */
        const bool positive = s->problem.regulariser == OTA_SOFTMAX ||
                              (s->problem.order > 0.0 && s->problem.order < 1.0);
        if (k / COUPLED == 2 && !positive) forbid(s, 7);
        assert_int_equal(solve(s, NULL), OTA_OK);
        const ota_certificate found = judge(s);
        const double small = narrow ? 1.0e-5 : 1.0e-9;
        if (!(found.row_error <= small && found.column_error <= small && found.cap_error <= small &&
              fabs(found.gap) <= small * (1.0 + fabs(found.primal))))
            fail_msg("%s: row error %g, column error %g, cap error %g, gap %g",
                     coupled[k % COUPLED], found.row_error, found.column_error, found.cap_error,
                     found.gap);
        int at_caps = 0;
        for (int64_t i = 0; i < s->n; i++) {
            for (int64_t j = 0; j < s->m; j++) at_caps += s->p[i * s->m + j] >= cap_of(s, i, j);
        }
        if (!narrow && at_caps == 0) fail_msg("%s: no weight is at its cap", coupled[k % COUPLED]);
    }
    free(s);
}

/* Rows in order, and prefixes: the first row has m - n + 1 keys. */
static const char *const in_order[] = {"softmax/online:0.3", "entmax:1.5/online:0.3",
                                       "hard/online:0.3",    "softmax/prefix",
                                       "entmax:1.5/prefix",  "hard/prefix"};
enum { IN_ORDER = (int)(sizeof in_order / sizeof in_order[0]) };

/* The plan of plain double loops, which go to the limit of f64. Rounding of s + f, numbers below 8, moves a weight by its
 * slope, p^(2 - alpha): without bound near 0 for orders above 2. */
static void check_reference(const scene *s, const char *method, double tolerance) {
    static double p[N * M];
    ota_arrays arrays = {.size = sizeof arrays};
    ota_error error;
    arrays.coupling = rows_of(p, OTA_F64, s, s->m);
    const ota_status status = ota_reference(&s->problem, &s->options, &arrays, NULL, &error);
    if (status < 0) fail_msg("%s: %s", method, error.message);
    for (int64_t k = 0; k < s->n * s->m; k++) {
        const double slope = s->problem.regulariser == OTA_ENTMAX && p[k] > 0.0
                                 ? pow(p[k], 2.0 - s->problem.order)
                                 : 1.0;
        if (!(fabs(p[k] - s->p[k]) <= tolerance + 8.0 * DBL_EPSILON * slope))
            fail_msg("%s: P[%d] is %.17g where %.17g is expected", method, (int)k, s->p[k], p[k]);
    }
}

static void plans_are_those_of_the_reference(void **state) {
    (void)state;
    static const char *const rows[] = {"softmax", "entmax:1.5", "entmax:3", "entmax:0.6"};
    scene *s = malloc(sizeof *s);
    assert_non_null(s);
    for (uint64_t k = 0; k < 3 * (COUPLED + 4); k++) {
        const uint64_t cell = k % (COUPLED + 4);
        const char *method = cell < 4 ? rows[cell] : coupled[cell - 4];
        if (strncmp(method, "hard", 4) == 0) continue;
        set_up(s, method, 6, 17 + (int64_t)(k % 5), 400 + k, false);
        s->problem.entry_cap = 0.15;
        if (k % 2 == 1) draw_caps(s, 0.1, 0.4, 90 + k);
        if (s->problem.columns == OTA_COLUMNS_CAPPED) s->problem.cap = 0.5;
        if (s->problem.columns != OTA_COLUMNS_FREE) s->options.tolerance = 1.0e-11;
        assert_int_equal(solve(s, NULL), OTA_OK);
        check_reference(s, method, s->problem.columns == OTA_COLUMNS_FREE ? 1.0e-13 : 1.0e-8);
    }
    free(s);
}

static void rows_in_order_are_those_of_the_reference(void **state) {
    (void)state;
    scene *s = malloc(sizeof *s);
    assert_non_null(s);
    int at_caps = 0;
    for (uint64_t k = 0; k < 8 * IN_ORDER; k++) {
        const char *method = in_order[k % IN_ORDER];
        const bool online = strstr(method, "online") != NULL;
        if (!online && k / IN_ORDER > 2) continue;
        set_up(s, method, N, online ? 48 : 19, 600 + k, false);
        s->problem.entry_cap = online ? 0.09 : 0.13;
        s->options.tolerance = 1.0e-11;
        if (k % 2 == 1) draw_caps(s, online ? 0.04 : 0.11, 0.3, 80 + k);
        if (k % 3 == 1 && online) forbid(s, 7);
        if (k % 5 == 2) give_masses(s, 0.4, 1.0);
        if (k % 7 == 3 && online) {
            s->sink = (ota_term){.kind = OTA_TERM_SINK, .value = 0.5};
            s->problem.terms = &s->sink;
            s->problem.term_count = 1;
        }
        assert_int_equal(solve(s, NULL), OTA_OK);
        const ota_certificate found = judge(s);
        assert_true(found.row_error <= 1.0e-12 && found.cap_error <= 0.0);
        assert_true(!online || found.column_error <= 1.0e-13);
        for (int64_t i = 0; i < s->n; i++) {
            for (int64_t j = 0; j < s->m; j++) at_caps += s->p[i * s->m + j] >= cap_of(s, i, j);
        }
        if (online || s->problem.regulariser != OTA_HARD)
            check_reference(s, method, online ? 1.0e-13 : 1.0e-8);
    }
    assert_true(at_caps > 200);
    free(s);
}

/* ---- derivatives -------------------------------------------------------------------------------- */

/* L = <upstream, P V> after a change of the scores along `along`. */
static double loss_at(scene *s, const double *scores, const double *along, double length) {
    double loss = 0.0;
    for (int64_t k = 0; k < s->n * s->m; k++) s->scores[k] = scores[k] + length * along[k];
    assert_int_equal(solve(s, NULL), OTA_OK);
    for (int64_t k = 0; k < s->n * WIDTH; k++) loss += s->upstream[k] * s->out[k];
    return loss;
}

static void check_derivatives(scene *s, const char *method) {
    static double scores[N * M], along[N * M], gradient[N * M], change[N * WIDTH];
    ota_error error;
    ota_plan *plan = NULL;
    for (int64_t k = 0; k < s->n * s->m; k++) {
        scores[k] = s->scores[k];
        along[k] = 2.0 * uniform() - 1.0;
    }
    const double step = 1.0e-5;
    const double slope =
        (loss_at(s, scores, along, step) - loss_at(s, scores, along, -step)) / (2.0 * step);
    memcpy(s->scores, scores, sizeof scores);
    s->options.gradients = 1;
    if (ota_plan_create(&plan, &s->problem, WIDTH, &s->options, &error) < 0)
        fail_msg("%s: %s", method, error.message);
    assert_true(ota_forward(plan, &s->arrays, NULL, &error) >= 0);
    ota_gradients want = {.size = sizeof want};
    want.out_grad = rows_of(s->upstream, OTA_F64, s, WIDTH);
    want.scores = rows_of(gradient, OTA_F64, s, s->m);
    if (ota_backward(plan, &s->arrays, &want, NULL, &error) < 0)
        fail_msg("%s: %s", method, error.message);
    ota_tangents tangents = {.size = sizeof tangents};
    tangents.scores = rows_of(along, OTA_F64, s, s->m);
    tangents.out = rows_of(change, OTA_F64, s, WIDTH);
    if (ota_jvp(plan, &s->arrays, &tangents, NULL, &error) < 0)
        fail_msg("%s: %s", method, error.message);
    double backward = 0.0, forward = 0.0;
    for (int64_t k = 0; k < s->n * s->m; k++) {
        backward += gradient[k] * along[k];
        /* Of prefix columns later rows have a plan of their own for this pair. */
        if (s->problem.columns != OTA_COLUMNS_PREFIX && s->p[k] >= cap_of(s, k / s->m, k % s->m))
            assert_true(fabs(gradient[k]) <= 0.0);
    }
    for (int64_t k = 0; k < s->n * WIDTH; k++) forward += s->upstream[k] * change[k];
    ota_plan_free(plan);
    if (!(fabs(backward - slope) <= 1.0e-6 * (1.0 + fabs(slope)) &&
          fabs(forward - backward) <= 1.0e-9 * (1.0 + fabs(slope))))
        fail_msg("%s: difference %.12g, backward %.12g, jvp %.12g", method, slope, backward,
                 forward);
}

static void derivatives_are_those_of_differences(void **state) {
    (void)state;
    static const char *const rows[] = {"softmax", "entmax:1.5", "sparsemax", "entmax:0.6"};
    scene *s = malloc(sizeof *s);
    assert_non_null(s);
    for (uint64_t k = 0; k < 2 * (COUPLED + 4); k++) {
        const uint64_t cell = k % (COUPLED + 4);
        const char *method = cell < 4 ? rows[cell] : coupled[cell - 4];
        if (strncmp(method, "hard", 4) == 0) continue;
        set_up(s, method, 7, 33, 800 + k, false);
        s->problem.entry_cap = 0.11;
        if (k >= COUPLED + 4) draw_caps(s, 0.05, 0.2, 70 + k);
        if (s->problem.columns != OTA_COLUMNS_FREE) s->options.tolerance = 1.0e-12;
        if (s->problem.columns == OTA_COLUMNS_CAPPED) s->problem.cap = 0.4;
        check_derivatives(s, method);
    }
    for (uint64_t k = 0; k < 4 * IN_ORDER; k++) {
        const char *method = in_order[k % IN_ORDER];
        const bool online = strstr(method, "online") != NULL;
        if (strncmp(method, "hard", 4) == 0) continue;
        set_up(s, method, 7, online ? 33 : 15, 700 + k, false);
        s->problem.entry_cap = online ? 0.11 : 0.16;
        if (k >= 2 * IN_ORDER) draw_caps(s, online ? 0.06 : 0.13, 0.3, 70 + k);
        s->options.tolerance = 1.0e-12;
        check_derivatives(s, method);
    }
    free(s);
}

/* ---- refusals ----------------------------------------------------------------------------------- */

static void expect(scene *s, ota_status wanted, const char *part) {
    ota_error error = {"", "", ""};
    const ota_status status = solve(s, &error);
    if (status != wanted || strstr(error.message, part) == NULL)
        fail_msg("status %d, '%s' where %d and '%s' are expected", (int)status, error.message,
                 (int)wanted, part);
}

static void what_cannot_be_capped_is_refused(void **state) {
    (void)state;
    scene *s = malloc(sizeof *s);
    assert_non_null(s);
    static const char *const cells[][2] = {
        {"softmax/elastic:0.5,3", "their update multiplies a column"},
        {"softmax/prefix{rounds=5}", "a fixed number of rounds"},
        {"softmax/exact{rounds=5}", "a fixed number of rounds"},
        {"softmax/exact{prune}", "prune"}};
    for (size_t k = 0; k < sizeof cells / sizeof cells[0]; k++) {
        set_up(s, cells[k][0], 5, 9, 1, false);
        s->problem.entry_cap = 0.5;
        expect(s, OTA_UNSUPPORTED, cells[k][1]);
    }
    set_up(s, "softmax", 5, 9, 1, false);
    s->problem.entry_cap = -1.0;
    expect(s, OTA_EINVAL, "entry_cap is -1");
    draw_caps(s, 0.2, 0.4, 3);
    s->problem.entry_cap = 0.5;
    expect(s, OTA_EINVAL, "entry_caps are given too");
    s->problem.entry_cap = 0.0;
    s->arrays.coupling = rows_of(s->caps, OTA_F64, s, s->m);
    expect(s, OTA_EALIAS, "coupling overlaps entry_caps");
    s->arrays.coupling = rows_of(s->p, OTA_F64, s, s->m);
    s->caps[11] = 0.0;
    expect(s, OTA_EINVAL, "entry_caps is 0 at [0, 0, 1, 2]");
    s->problem.entry_caps.size[3] = 4;
    expect(s, OTA_EINVAL, "size 4 in dimension 3 where 9 or 1");
    set_up(s, "softmax", 5, 9, 1, false);
    s->problem.entry_cap = 0.1;
    expect(s, OTA_INFEASIBLE, "");
    set_up(s, "softmax/exact", 5, 9, 1, false);
    s->problem.entry_cap = 0.1;
    expect(s, OTA_INFEASIBLE, "the entry caps of query 0 add up to 0.9");
    /* Every query has room, but the first key does not. */
    set_up(s, "softmax/exact", 5, 9, 1, false);
    draw_caps(s, 0.3, 0.4, 3);
    for (int64_t i = 0; i < 5; i++) s->caps[9 * i] = 0.05;
    expect(s, OTA_INFEASIBLE, "the entry caps of key 0 add up to 0.25");
    /* Every query and every key has room, but three queries want more of the first key than it takes: 3 > 1 + 9 0.2. */
    static const char *const methods[] = {"softmax/exact", "entmax:1.5/exact", "softmax/capped:1"};
    for (int k = 0; k < 3; k++) {
        set_up(s, methods[k], 4, 4, 1, false);
        draw_caps(s, 0.9, 0.9, 3);
        for (int64_t i = 0; i < 3; i++) {
            for (int64_t j = 1; j < 4; j++) s->caps[4 * i + j] = 0.23;
        }
        assert_int_equal(solve(s, NULL), OTA_OK);
        for (int64_t i = 0; i < 3; i++) {
            for (int64_t j = 1; j < 4; j++) s->caps[4 * i + j] = 0.2;
        }
        expect(s, OTA_INFEASIBLE, "no plan meets the masses within the entry caps");
    }
    free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_those_of_the_definition),
        cmocka_unit_test(keys_far_below_the_caps_share_the_rest),
        cmocka_unit_test(a_sink_takes_what_caps_leave),
        cmocka_unit_test(caps_may_bind_everywhere_or_nowhere),
        cmocka_unit_test(hard_rows_take_the_best_keys),
        cmocka_unit_test(hard_rows_are_those_of_the_definition),
        cmocka_unit_test(caps_may_make_the_mass),
        cmocka_unit_test(softmax_caps_may_fill_the_row),
        cmocka_unit_test(coupled_columns_are_certified),
        cmocka_unit_test(plans_are_those_of_the_reference),
        cmocka_unit_test(rows_in_order_are_those_of_the_reference),
        cmocka_unit_test(derivatives_are_those_of_differences),
        cmocka_unit_test(what_cannot_be_capped_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
