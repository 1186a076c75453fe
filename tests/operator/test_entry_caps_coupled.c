/* test_entry_caps_coupled.c: P_ij <= c_ij with column rules, by certificates and the reference; derivatives against differences. */
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
#include "groups.h"
#include "otattn.h"
#include "reference/reference.h"

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

/* Totals that agree to the tolerance are made equal, and rows give all that they have. */
static void totals_that_agree_to_the_tolerance(void **state) {
    (void)state;
    static const char *const methods[] = {"hard/exact", "hard/bounded:0.5,1"};
    scene *s = malloc(sizeof *s);
    assert_non_null(s);
    for (uint64_t k = 0; k < 2; k++) {
        set_up(s, methods[k], N, 65, 820 + k, true);
        s->problem.entry_cap = 0.3;
        for (int j = 0; j < 65; j++) s->column[j] = (double)N / 65.0 * (1.0 - 5.0e-7);
        s->problem.column_mass = ota_array_of(s->column, OTA_F64, 1, 1, 1, 65);
        assert_int_equal(solve(s, NULL), OTA_OK);
        assert_true(judge(s).row_error <= 1.0e-6);
    }
    free(s);
}

/* Caps that leave the pairs of a mask of numbers less room than the rows' mass: the rest lies on the numbers, and few weights lie between
 * 0 and their caps, so that steps see no slope for far. The threads change no bit. */
static void caps_without_room_take_few_steps(void **state) {
    (void)state;
    enum { QUERIES = 64, KEYS = 48, SEEDS = 3 };
    static const struct {
        const char *method;
        int64_t most;
    } table[] = {{"softmax/exact{entry_cap=0.15}", 12},
                 {"softmax/exact{entry_cap=0.11}", 12},
                 {"softmax/capped:1.5{entry_cap=0.15}", 12},
                 {"entmax:1.5/exact{entry_cap=0.15}", 50},
                 {"sparsemax/exact{entry_cap=0.15}", 50},
                 {"entmax:3/exact{entry_cap=0.15}", 60},
                 {"entmax:1.5/bounded:0.8,1.5{entry_cap=0.15}", 50}};
    static double scores[QUERIES * KEYS], p[QUERIES * KEYS], first[QUERIES * KEYS], values[KEYS],
        out[QUERIES], f[QUERIES], g[KEYS];
    for (size_t k = 0; k < SEEDS * sizeof table / sizeof table[0]; k++) {
        const char *method = table[k / SEEDS].method;
        ota_problem problem = {.size = sizeof problem};
        ota_options options = {.size = sizeof options};
        ota_arrays arrays = {.size = sizeof arrays};
        ota_result result = {.size = sizeof result};
        ota_certificate found = {.size = sizeof found};
        ota_error error;
        dice_state = 40 + k % SEEDS;
        fill_numbers(scores, QUERIES * KEYS, &dice_state, EVEN, 4.0);
        fill_numbers(values, KEYS, &dice_state, EVEN, 1.0);
        for (int64_t e = 0; e < QUERIES * KEYS; e++)
            scores[e] += uniform(&dice_state) < 0.125 ? 0.0 : -1e9;
        assert_int_equal(ota_method_parse(method, &problem, &options, &error), OTA_OK);
        options.tolerance = 1.0e-5;
        problem.scores = ota_array_of(scores, OTA_F64, 1, 1, QUERIES, KEYS);
        arrays.values = ota_array_of(values, OTA_F64, 1, 1, KEYS, 1);
        arrays.coupling = ota_array_of(p, OTA_F64, 1, 1, QUERIES, KEYS);
        arrays.out = ota_array_of(out, OTA_F64, 1, 1, QUERIES, 1);
        arrays.row_potential = ota_array_of(f, OTA_F64, 1, 1, 1, QUERIES);
        arrays.column_potential = ota_array_of(g, OTA_F64, 1, 1, 1, KEYS);
        for (int threads = 5; threads >= 1; threads -= 2) {
            options.threads = threads;
            if (ota_attend(&problem, &options, &arrays, &result, &error) < 0)
                fail_msg("%s: %s", method, error.message);
            if (threads == 5) memcpy(first, p, sizeof first);
            assert_memory_equal(first, p, sizeof first);
        }
        assert_int_equal(ota_certify(&problem, &options, &arrays, &found, NULL, &error), OTA_OK);
        if (!(found.row_error <= 1.0e-5 && found.column_error <= 1.0e-5 &&
              found.cap_error <= 1.0e-9))
            fail_msg("%s: row error %g, column error %g, cap error %g", method, found.row_error,
                     found.column_error, found.cap_error);
        if (result.rounds > table[k / SEEDS].most)
            fail_msg("%s, %d: %d steps", method, (int)(k % SEEDS), (int)result.rounds);
    }
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
    static const char *const table[] = {"softmax", "entmax:1.5", "entmax:3", "entmax:0.6"};
    scene *s = malloc(sizeof *s);
    assert_non_null(s);
    for (uint64_t k = 0; k < 3 * (COUPLED + 4); k++) {
        const uint64_t cell = k % (COUPLED + 4);
        const char *method = cell < 4 ? table[cell] : coupled[cell - 4];
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
        along[k] = 2.0 * uniform(&dice_state) - 1.0;
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
    static const char *const table[] = {"softmax", "entmax:1.5", "sparsemax", "entmax:0.6"};
    scene *s = malloc(sizeof *s);
    assert_non_null(s);
    for (uint64_t k = 0; k < 2 * (COUPLED + 4); k++) {
        const uint64_t cell = k % (COUPLED + 4);
        const char *method = cell < 4 ? table[cell] : coupled[cell - 4];
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

TEST_FILE(test_entry_caps_coupled) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(coupled_columns_are_certified),
        cmocka_unit_test(totals_that_agree_to_the_tolerance),
        cmocka_unit_test(caps_without_room_take_few_steps),
        cmocka_unit_test(plans_are_those_of_the_reference),
        cmocka_unit_test(rows_in_order_are_those_of_the_reference),
        cmocka_unit_test(derivatives_are_those_of_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
