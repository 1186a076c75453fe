/* test_backward.c: every gradient of every differentiable cell against central differences of forward: each
 * method under each mask with each choice of masses, terms, layouts, schedules and axes in turn (outputs end
 * at guard pages). All knobs of a problem are moved at once; OTATTN_TEST_SCALE > 1 also moves each alone,
 * and multiplies the problems. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gradient_cells.h"
#include "groups.h"
#include "scale.h"
#include "spec.h"

typedef struct counts {
    int solved, kinks, checked, rough;
    double worst;
} counts;

static void count(counts *to, const bench *t, const char *name, double ratio, double slope,
                  double difference) {
    to->checked++;
    to->rough += ratio < 0.0;
    to->worst = fmax(to->worst, ratio);
    if (!(ratio > 1.0)) return;
    print_error("%s: gradient %.12g, difference %.12g, %.3g times what is allowed\n", name, slope,
                difference, ratio);
    print_recipe(&t->x);
}

static void check_gradients(bench *t, counts *to) {
    double slope = 0.0, difference = 0.0;
    const int rough = to->rough;
    for (int k = 0; k < t->count; k++)
        assert_true(gaps_untouched(&t->gradients, t->knobs[k].gradient));
    const double together = check_together(t, &slope, &difference);
    if (together >= 0.0) count(to, t, "all together", together, slope, difference);
    /* Alone: for the name of the one that is wrong, or because together they met a kink at every step. */
    const bool alone = test_scale() > 1 || together < 0.0 || together > 1.0;
    for (int k = 0; k < t->count && alone; k++) {
        const double ratio = check_knob(t, &t->knobs[k], &slope, &difference);
        count(to, t, t->knobs[k].name, ratio, slope, difference);
    }
    to->kinks += to->rough > rough;
    if (to->worst > 1.0) fail();
}

/* One problem. `schedule` chooses what fixed rounds do beside the plain update. False: it has no plan. */
static bool check_problem(const recipe *want, int schedule, bool coupling, double cap, counts *to) {
    bench *t = malloc(sizeof *t);
    assert_non_null(t);
    set_up(t, want, OTA_F64, coupling);
    ota_options *o = &t->x.options;
    o->threads = want->seed % 3 == 0 ? 2 : 1;
    if (t->x.problem.cap > 0.0) t->x.problem.cap *= cap;
    if (t->x.problem.upper > 0.0) t->x.problem.upper *= cap, t->x.problem.lower /= cap;
    set_schedule(o, schedule);
    ota_status status = make_plan(t);
    if (status == OTA_OK) status = run_forward(t);
    const bool solved = status == OTA_OK || status == OTA_FIXED_ITERS;
    if (!solved && status != OTA_INFEASIBLE) {
        print_error("forward %d: %s\n", (int)status, t->x.error.message);
        print_recipe(&t->x);
        fail();
    }
    if (solved) {
        to->solved++;
        status = run_backward(t);
        if (status != OTA_OK) {
            print_error("backward %d: %s\n", (int)status, t->x.error.message);
            print_recipe(&t->x);
            fail();
        }
        check_gradients(t, to);
    }
    tear_down(t);
    free(t);
    return solved;
}

/* Few problems, or few of their directions, may meet a kink at every step. */
static void judge(const cell *c, const counts *t, int least) {
    print_message("%s: %d problems, %d directions, %d at a kink, worst %.2g of the bound\n",
                  c->method, t->solved, t->checked, t->rough, t->worst);
    assert_true(t->solved >= least);
    assert_true(4 * t->kinks <= t->solved || 4 * t->rough <= t->checked);
    spec_check(c->ids, t->worst, 1.0);
}

static void check_turn(const cell *c, uint64_t seed, counts *t) {
    const int k = (int)((seed - 1) % ALL);
    const recipe w = vary(c, (mask)(k / MASSES), k % MASSES, seed);
    if (!decided(&w)) return;
    /* A cap that binds, if the masses allow one. */
    for (double cap = 1.0; cap < 30.0; cap *= 1.7) {
        if (check_problem(&w, c->rounds ? (int)(seed % 5) : 0, seed % 2 == 0, cap, t)) break;
        if (strstr(c->method, ":1.3") == NULL && strstr(c->method, ":1.4") == NULL &&
            strstr(c->method, "bounded") == NULL)
            break;
    }
}

static void check_cell(const cell *c) {
    counts t = {0};
    const int step = test_step(), most = ALL * (int)test_scale();
    for (int seed = 1; seed <= most; seed += step) check_turn(c, (uint64_t)seed, &t);
    judge(c, &t, c->least == ALL ? (most + step - 1) / step : c->least / step);
}

/* Problems that campaigns found wrong: the first has a pair that no plan of a block uses, the second keys that
 * scores of -inf and not the mask close. */
static void test_once_wrong(void **state) {
    (void)state;
    static const struct {
        cell cell;
        uint64_t seed;
    } table[] = {{{"DER-14", "entmax:1.5/prefix", 1, false}, BLOCK_BOOLEAN_ADDITIVE * MASSES + 3},
                 {{"DER-13", "softmax/exact", 1, false}, ADDITIVE * MASSES + 2}};
    enum { TURNS = 12 }; /* of the same mask and masses */
    for (size_t k = 0; k < sizeof table / sizeof table[0]; k++) {
        counts t = {0};
        for (uint64_t turn = 0; turn < TURNS; turn++)
            check_turn(&table[k].cell, table[k].seed + ALL * turn, &t);
        judge(&table[k].cell, &t, 1);
    }
}

static void test_rows_alone(void **state) {
    (void)state;
    CHECK_CELLS(rows_alone);
}

static void test_coupled_columns(void **state) {
    (void)state;
    CHECK_CELLS(coupled);
}

static void test_rows_in_order(void **state) {
    (void)state;
    CHECK_CELLS(in_order);
}

/* Every rule, start, end, schedule and relaxation that fixed rounds know. */
static void test_unrolled_rounds(void **state) {
    (void)state;
    CHECK_CELLS(in_rounds);
}

/* Several chunks of rows and tiles of keys, ragged, with grouped heads. */
static void test_larger_problems(void **state) {
    (void)state;
    static const struct {
        cell cell;
        int64_t n, m;
    } table[] = {
        {{"LIT-21", "softmax", 3, false}, 83, 171},
        {{"DER-12", "entmax:1.5", 3, false}, 83, 171},
        {{"DER-13", "softmax/exact", 3, false}, 83, 171},
        {{"DER-14", "softmax/capped:2", 3, false}, 83, 171},
        {{"DER-14", "softmax/relaxed:.5", 3, false}, 83, 171},
        {{"DER-15", "elastic:.5,3", 3, false}, 83, 171},
        /* Keys that fill their cache lines, behind which the masses' gradients lie. */
        {{"DER-15", "elastic:.5,3", 3, false}, 16, 16},
        {{"DER-12", "softmax/online:2", 2, false}, 83, 171},
        /* Sparse plans of many keys take Newton's method long. */
        {{"DER-12 DER-14", "sparsemax/exact", 3, false}, 19, 67},
    };
    for (size_t k = 0; k < sizeof table / sizeof table[0]; k++) {
        counts t = {0};
        for (uint64_t seed = 1; seed <= 3; seed++) {
            const bool exact = strstr(table[k].cell.method, "/exact") != NULL;
            recipe w = recipe_of(&table[k].cell, seed);
            w.n = table[k].n;
            w.m = table[k].m;
            w.width = 9;
            w.values_width = 5;
            w.heads = 4;
            w.key_heads = 2;
            w.batch = 1;
            w.matrix = false;
            w.spread = 2.0;
            w.added = seed == 1 ? EVERYTHING : seed == 2 ? BIAS : NOTHING;
            w.mask = exact ? NO_MASK : seed == 2 ? CAUSAL_BOTTOM_RIGHT : WINDOW_OPEN;
            w.row_mass = seed == 1;
            check_problem(&w, 0, seed == 2, 1.0, &t);
        }
        judge(&table[k].cell, &t, table[k].cell.least);
    }
}

TEST_FILE(test_backward) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_alone),      cmocka_unit_test(test_coupled_columns),
        cmocka_unit_test(test_rows_in_order),   cmocka_unit_test(test_unrolled_rounds),
        cmocka_unit_test(test_larger_problems), cmocka_unit_test(test_once_wrong)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
