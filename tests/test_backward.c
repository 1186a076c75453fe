/* test_backward.c: every gradient of every differentiable cell against central differences of forward, over
 * masks, terms, masses, axes, printed orders and layouts (outputs end at guard pages). */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "backward_support.h"
#include "spec.h"

typedef struct cell {
    const char *ids, *method;
} cell;

static const cell rows_alone[] = {{"LIT-17 LIT-21", "softmax"},
                                  {"DER-12", "sparsemax"},
                                  {"DER-12", "entmax:1.5"},
                                  {"DER-12", "entmax:1.25"}};
static const cell coupled[] = {{"DER-13", "softmax/exact"},
                               {"DER-14", "softmax/relaxed:0.7"},
                               {"DER-14", "softmax/capped:1.3"},
                               {"DER-12 DER-14", "entmax:1.5/exact"},
                               {"DER-12 DER-14", "sparsemax/exact"},
                               {"DER-12 DER-14", "entmax:1.5/relaxed:0.8"},
                               {"DER-12 DER-14", "sparsemax/capped:1.4"},
                               {"DER-12 DER-14", "entmax:1.3/capped:1.4"}};
static const cell in_order[] = {{"DER-14", "softmax/prefix"},
                                {"DER-14", "entmax:1.5/prefix"},
                                {"DER-12", "softmax/online:1.3"},
                                {"DER-12", "sparsemax/online:1.3"},
                                {"DER-12", "entmax:1.5/online:1.4"}};

typedef struct tally {
    int solved, checked, rough;
    double worst;
} tally;

/* One problem: all its knobs. `schedule` chooses what fixed rounds do beside the plain update. */
static void check_problem(const recipe *want, int schedule, bool coupling, tally *to) {
    bench *t = malloc(sizeof *t);
    assert_non_null(t);
    set_up(t, want, OTA_F64, coupling);
    ota_options *o = &t->x.options;
    o->threads = 2;
    if (schedule == 1) o->anneal_start = 2.0, o->anneal_rounds = 1;
    if (schedule == 2) o->relaxation = 1.3;
    if (schedule == 3) o->anneal_start = 1.7, o->anneal_factor = 0.6, o->anneal_keep_scaling = 1;
    if (schedule == 3) o->anneal_rounds = 2;
    ota_status status = make_plan(t);
    if (status == OTA_OK) status = run_forward(t);
    if (status == OTA_OK || status == OTA_FIXED_ITERS) {
        to->solved++;
        status = run_backward(t);
        if (status != OTA_OK) {
            print_error("backward %d: %s\n", (int)status, t->x.error.message);
            print_recipe(&t->x);
            fail();
        }
        for (int k = 0; k < t->count; k++) {
            double slope, difference;
            assert_true(gaps_untouched(&t->gradients, t->knobs[k].gradient));
            const double ratio = check_knob(t, &t->knobs[k], &slope, &difference);
            to->checked++;
            to->rough += ratio < 0.0;
            to->worst = fmax(to->worst, ratio);
            if (!(ratio > 1.0)) continue;
            print_error("%s: gradient %.12g, difference %.12g, %.3g times what is allowed\n",
                        t->knobs[k].name, slope, difference, ratio);
            print_recipe(&t->x);
            fail();
        }
    }
    tear_down(t);
    free(t);
}

static recipe recipe_of(const char *method, uint64_t seed) {
    return (recipe){.method = method,
                    .type = OTA_F64,
                    .out_type = OTA_F64,
                    .batch = 2,
                    .heads = 2,
                    .key_heads = 1,
                    .n = 5,
                    .m = seed % 3 == 0 ? 5 : 7,
                    .width = 3,
                    .values_width = 2,
                    .added = (added)(seed % ADDITIONS),
                    .matrix = seed % 5 == 0,
                    .row_mass = seed % 2 == 1,
                    .tolerance = 1e-12,
                    .temperature = 0.8,
                    .spread = 1.0,
                    .seed = seed};
}

static bool has_sink(const recipe *w) { return w->added == SINK || w->added == SINK_HEADS; }

/* Few problems may be infeasible, and few directions may meet a kink at every step. */
static void judge(const cell *c, const tally *t, int drawn_problems) {
    print_message("%s: %d problems, %d knobs, %d at a kink, worst %.2g of the bound\n", c->method,
                  t->solved, t->checked, t->rough, t->worst);
    assert_true(2 * t->solved >= drawn_problems);
    assert_true(7 * t->rough <= t->checked);
    spec_check(c->ids, t->worst, 1.0);
}

static void test_rows_alone(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof rows_alone / sizeof rows_alone[0]; k++) {
        tally t = {0};
        for (uint64_t seed = 1; seed <= MASKS; seed++) {
            recipe w = recipe_of(rows_alone[k].method, seed);
            w.mask = (mask)(seed % MASKS);
            if (seed % 7 == 0 && !has_sink(&w)) {
                w.axis = OTA_AXIS_COLUMNS;
                w.row_mass = false;
            }
            check_problem(&w, 0, seed % 2 == 0, &t);
        }
        judge(&rows_alone[k], &t, MASKS);
    }
}

static void test_coupled_columns(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof coupled / sizeof coupled[0]; k++) {
        const bool exact = strstr(coupled[k].method, "exact") != NULL;
        const bool kl = strcmp(coupled[k].method, "softmax/relaxed:0.7") == 0;
        tally t = {0};
        for (uint64_t seed = 1; seed <= 14; seed++) {
            recipe w = recipe_of(coupled[k].method, seed);
            w.column_mass = seed % 4 == 1;
            w.mask = exact ? (seed % 3 == 0 ? WINDOW_OPEN : NO_MASK) : (mask)(seed % MASKS);
            w.relaxed_rows = kl && seed % 3 == 1;
            if (seed % 7 == 0 && !has_sink(&w)) w.axis = OTA_AXIS_COLUMNS;
            check_problem(&w, 0, seed % 2 == 0, &t);
        }
        judge(&coupled[k], &t, 14);
    }
}

static void test_rows_in_order(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof in_order / sizeof in_order[0]; k++) {
        const bool prefix = strstr(in_order[k].method, "prefix") != NULL;
        tally t = {0};
        for (uint64_t seed = 1; seed <= 14; seed++) {
            recipe w = recipe_of(in_order[k].method, seed);
            if (prefix && has_sink(&w)) w.added = NOTHING;
            w.column_mass = !prefix && seed % 4 == 1;
            w.mask = prefix ? (seed % 3 == 0 ? WINDOW_OPEN : NO_MASK) : (mask)(seed % MASKS);
            check_problem(&w, 0, seed % 2 == 0, &t);
        }
        judge(&in_order[k], &t, 14);
    }
}

/* Every rule, start, end, schedule and relaxation that fixed rounds know. */
static void test_unrolled_rounds(void **state) {
    (void)state;
    static const cell rules[] = {{"DER-15", "softmax/exact"},
                                 {"DER-15", "softmax/relaxed:0.7"},
                                 {"DER-15", "softmax/capped:1.3"},
                                 {"DER-15", "softmax/elastic:0.4,3"}};
    for (size_t k = 0; k < sizeof rules / sizeof rules[0]; k++) {
        tally t = {0};
        for (uint64_t seed = 1; seed <= 16; seed++) {
            recipe w = recipe_of(rules[k].method, seed);
            w.rounds = k == 3 ? 0 : 1 + (int64_t)(seed % 4);
            w.start = seed % 3 == 1 ? OTA_SIDE_COLUMNS : OTA_SIDE_ROWS;
            w.end = seed % 4 >= 2 ? OTA_SIDE_COLUMNS : OTA_SIDE_ROWS;
            w.column_mass = seed % 4 == 1;
            w.mask = k == 0 ? NO_MASK : (mask)(seed % MASKS);
            w.warm = seed % 6 == 0;
            w.relaxed_rows = k == 1 && seed % 3 == 1;
            if (seed % 7 == 0 && !has_sink(&w)) w.axis = OTA_AXIS_COLUMNS;
            if (w.axis == OTA_AXIS_COLUMNS) w.warm = false;
            check_problem(&w, (int)(seed % 5), seed % 2 == 0, &t);
        }
        judge(&rules[k], &t, 16);
    }
}

/* Several chunks of rows and tiles of keys, ragged, with grouped heads. */
static void test_larger_problems(void **state) {
    (void)state;
    static const cell methods[] = {{"LIT-21", "softmax"},
                                   {"DER-12", "entmax:1.5"},
                                   {"DER-13", "softmax/exact"},
                                   {"DER-14", "softmax/capped:2"},
                                   {"DER-14", "softmax/relaxed:.5"},
                                   {"DER-15", "elastic:.5,3"},
                                   {"DER-12", "softmax/online:2"},
                                   {"DER-12 DER-14", "sparsemax/exact"}};
    for (size_t k = 0; k < sizeof methods / sizeof methods[0]; k++) {
        tally t = {0};
        for (uint64_t seed = 1; seed <= 3; seed++) {
            recipe w = recipe_of(methods[k].method, seed);
            w.n = 83;
            w.m = 171;
            w.width = 9;
            w.values_width = 5;
            w.heads = 4;
            w.key_heads = 2;
            w.batch = 1;
            w.spread = 2.0;
            w.added = seed == 1 ? EVERYTHING : seed == 2 ? BIAS : NOTHING;
            w.mask = k == 2 || k == 7 ? NO_MASK : seed == 2 ? CAUSAL_BOTTOM_RIGHT : WINDOW_OPEN;
            check_problem(&w, 0, seed == 2, &t);
        }
        judge(&methods[k], &t, 3);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_alone), cmocka_unit_test(test_coupled_columns),
        cmocka_unit_test(test_rows_in_order), cmocka_unit_test(test_unrolled_rounds),
        cmocka_unit_test(test_larger_problems)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
