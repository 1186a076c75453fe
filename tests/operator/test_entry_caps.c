/* test_entry_caps.c: P_ij <= c_ij in rows of softmax and entmax alone, against a halving of their own, and every refusal. */
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

#include "capped_scene.h"
#include "draw/random.h"
#include "groups.h"
#include "otattn.h"

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
        const double left = s->problem.term_count > 0 ? weight_at(s, s->sink.value, high) : 0.0;
        if (!(fabs(s->left[i] - left) <= tolerance))
            fail_msg("the sink has %.17g of row %d where %.17g is expected", s->left[i], (int)i,
                     left);
    }
    return at_caps;
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
        const double rounding = 4.0 * DBL_EPSILON * 0.75 * (double)M * slope;
        assert_true(found.row_error <= (k >= 4 ? 1.0e-6 : rounding));
        assert_true(fabs(found.gap) <= (k >= 4 ? 1.0e-5 : rounding) * (1.0 + fabs(found.primal)));
    }
    free(s);
}

/* Masses so small that a weight of an order above 2, whose slope is 1 / weight, leaps from 0 to its cap from one number f to
 * the next: rows have their mass all the same, also where nearly all keys are full. */
static void rows_of_little_mass_are_whole(void **state) {
    (void)state;
    enum { ROWS = 3, KEYS = 10 };
    static const char *const methods[] = {"softmax", "entmax:1.5", "sparsemax", "entmax:3"};
    static const double masses[] = {1.0e-3, 1.0e-9, 1.0e-12, 1.0e-30};
    static const double shares[] = {0.34, 0.101, 0.1};
    scene *s = malloc(sizeof *s);
    assert_non_null(s);
    for (int k = 0; k < 96; k++) {
        const bool narrow = k % 2 == 1;
        const double mass = masses[k / 8 % 4], cap = mass * shares[k / 32];
        set_up(s, methods[k / 2 % 4], ROWS, KEYS, 980 + (uint64_t)k, narrow);
        for (int i = 0; i < ROWS; i++) s->mass[i] = mass;
        s->problem.row_mass = ota_array_of(s->mass, OTA_F64, 1, 1, 1, ROWS);
        s->problem.entry_cap = cap;
        assert_int_equal(solve(s, NULL), OTA_OK);
        for (int i = 0; i < ROWS; i++) {
            double sum = 0.0;
            for (int j = 0; j < KEYS; j++) {
                const double p = narrow ? (double)s->narrow_p[i * KEYS + j] : s->p[i * KEYS + j];
                assert_true(p >= 0.0 && p <= cap * (1.0 + (narrow ? 1.0e-7 : 1.0e-15)));
                sum += p;
            }
            if (!(fabs(sum - mass) <= (narrow ? 1.0e-6 : 1.0e-9) * mass))
                fail_msg("%s, mass %g, cap %g: a row adds up to %.17g", methods[k / 2 % 4], mass,
                         cap, sum);
        }
    }
    free(s);
}

/* Only the sink has room for what caps leave. */
static void a_sink_takes_what_caps_leave(void **state) {
    (void)state;
    static const char *const methods[] = {"softmax", "entmax:1.5", "sparsemax", "hard", "entmax:3"};
    scene *s = malloc(sizeof *s);
    assert_non_null(s);
    for (uint64_t k = 0; k < 20; k++) {
        set_up(s, methods[k % 5], 3, 10, 970 + k, k >= 10);
        s->sink = (ota_term){.kind = OTA_TERM_SINK, .value = -4.0};
        s->problem.terms = &s->sink;
        s->problem.term_count = 1;
        s->problem.entry_cap = 0.05;
        if (k / 5 % 2 == 1) {
            for (int64_t at = 0; at < 3 * 10; at++) s->allowed[at] = at % 10 < 2;
            forbid(s, 30);
        }
        assert_int_equal(solve(s, NULL), OTA_OK);
        const ota_certificate found = judge(s);
        assert_true(found.row_error <= 1.0e-6 && fabs(found.gap) <= 1.0e-5);
        for (int64_t at = 0; at < 3 * 10; at++)
            assert_true(!s->allowed[at] || s->p[at] >= (double)(float)0.05 - 1e-8);
        for (int64_t i = 0; i < 3; i++) {
            double sum = s->left[i];
            for (int64_t j = 0; j < 10; j++) sum += s->p[i * 10 + j];
            assert_true(s->left[i] >= 0.5 - 1.0e-6 && fabs(sum - 1.0) <= 1.0e-6);
        }
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
            scores[j] = (4.0 * uniform(&dice_state) - 2.0) * (double)(1 + k);
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
        assert_true(found.row_error <= (double)LONG * DBL_EPSILON);
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
        for (int64_t j = 0; j < count; j++) scores[j] = 4.0 * uniform(&dice_state) - 2.0;
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

/* P of one row of scores x of this mass, with caps or without. */
static void solve_row(const char *method, const double *x, double *caps, int64_t count, double mass,
                      double *p) {
    ota_problem problem = {.size = sizeof problem};
    const ota_options options = {.size = sizeof options, .threads = 1};
    ota_arrays arrays = {.size = sizeof arrays};
    assert_int_equal(ota_method_parse(method, &problem, NULL, NULL), OTA_OK);
    problem.scores = ota_array_of((void *)x, OTA_F64, 1, 1, 1, count);
    problem.row_mass = ota_array_of(&mass, OTA_F64, 1, 1, 1, 1);
    if (caps != NULL) problem.entry_caps = ota_array_of(caps, OTA_F64, 1, 1, 1, count);
    arrays.coupling = ota_array_of(p, OTA_F64, 1, 1, 1, count);
    assert_int_equal(ota_attend(&problem, &options, &arrays, NULL, NULL), OTA_OK);
}

/* Orders above 2, whose weights next to 0 no threshold of one double tells: what keys at their caps leave is a row of the others,
 * keys as near each other as their last digits among them. */
static void steep_rows_have_the_weights_of_what_caps_leave(void **unused) {
    (void)unused;
    static const char *const methods[] = {"entmax:2.5", "entmax:3", "entmax:5", "entmax:10",
                                          "entmax:50"};
    enum { MOST = 1500, DRAWS = 40 };
    static double x[MOST], caps[MOST], p[2][MOST];
    uint64_t state = 47;
    for (size_t m = 0; m < sizeof methods / sizeof methods[0]; m++) {
        for (int k = 0; k < DRAWS; k++) {
            const double spread = k % 2 == 0 ? 1e-2 : 1e-12;
            const double cap = 0.2 + 0.5 * uniform(&state), mass = 1.0 - cap;
            const int keys = k % 8 == 7 ? MOST : k % 8 == 6 ? MOST / 2 : 8;
            x[0] = 100.0;
            caps[0] = cap;
            for (int j = 1; j < keys; j++) {
                x[j] = spread * uniform(&state);
                caps[j] = 2.0;
            }
            solve_row(methods[m], x, caps, keys, 1.0, p[0]);
            solve_row(methods[m], x + 1, NULL, keys - 1, mass, p[1]);
            assert_true(fabs(p[0][0] - cap) <= 0.0);
            for (int j = 1; j < keys; j++)
                assert_true(fabs(p[0][j] - p[1][j - 1]) <= 8.0 * DBL_EPSILON);
        }
    }
}

/* As many caps as make the mass: where next to nothing is open beside them, what rounding left of it is still no reason to take keys
 * off their caps. */
static void caps_may_divide_the_mass(void **state) {
    (void)state;
    static const char *const methods[] = {"softmax",    "entmax:1.05", "entmax:1.25",
                                          "entmax:1.5", "sparsemax",   "entmax:3"};
    static const double temperatures[] = {2.0, 0.4, 0.1, 0.03, 0.01, 0.001};
    static const double parts[] = {4.0, 8.0, 12.0, 24.0};
    scene *s = malloc(sizeof *s);
    assert_non_null(s);
    int at_caps = 0;
    for (uint64_t k = 0; k < 6 * 6 * 4 * 24; k++) {
        const bool narrow = k / 144 % 2 == 1;
        set_up(s, methods[k % 6], N, 28, 400 + k, narrow);
        s->problem.temperature = temperatures[k / 6 % 6];
        s->problem.entry_cap = 1.0 / parts[k / 36 % 4];
        assert_int_equal(solve(s, NULL), OTA_OK);
        const ota_certificate found = judge(s);
        /* Next to order 1 rounding of a level is worth power / temperature times as much of a weight. */
        if (!(found.row_error <= (narrow ? 1.0e-6 : 1.0e-12)))
            fail_msg("%s at %g with %g: rows miss their mass by %g", methods[k % 6],
                     s->problem.temperature, s->problem.entry_cap, found.row_error);
        assert_true(found.cap_error <= (narrow ? 1.0e-8 : 0.0));
        for (int64_t i = 0; i < s->n * s->m; i++)
            at_caps += s->p[i] >= s->problem.entry_cap * (1.0 - 1.0e-6);
    }
    assert_true(at_caps > 50000);
    free(s);
}

TEST_FILE(test_entry_caps) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_those_of_the_definition),
        cmocka_unit_test(steep_rows_have_the_weights_of_what_caps_leave),
        cmocka_unit_test(keys_far_below_the_caps_share_the_rest),
        cmocka_unit_test(a_sink_takes_what_caps_leave),
        cmocka_unit_test(rows_of_little_mass_are_whole),
        cmocka_unit_test(caps_may_bind_everywhere_or_nowhere),
        cmocka_unit_test(caps_may_make_the_mass),
        cmocka_unit_test(caps_may_divide_the_mass),
        cmocka_unit_test(softmax_caps_may_fill_the_row),
        cmocka_unit_test(what_cannot_be_capped_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
