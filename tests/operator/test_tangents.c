/* test_tangents.c: ota_jvp of every differentiable cell along random directions of all inputs at once (queries,
 * keys, values, terms, temperature, order, cap, strengths, masses, final scores). With backward's U and V,
 *
 *     sum out_grad . dout + sum coupling_grad . dP = sum over inputs of tangent . gradient
 *
 * up to the residual that both promise, and of some problems the left side equals the differences of forward. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gradient_cells.h"
#include "groups.h"
#include "scale.h"
#include "spec.h"

typedef struct ride {
    bench b;
    ota_tangents moved;
    ota_array terms[TERMS], tangents[KNOBS];
    double share[KNOBS];
} ride;

/* Where the knob's tangent belongs. */
static ota_array *place_of(ride *t, int k) {
    static const struct {
        const char *name;
        size_t offset;
    } fields[] = {{"matrix", offsetof(ota_tangents, matrix)},
                  {"queries", offsetof(ota_tangents, queries)},
                  {"keys", offsetof(ota_tangents, keys)},
                  {"values", offsetof(ota_tangents, values)},
                  {"temperatures", offsetof(ota_tangents, temperature)},
                  {"temperature", offsetof(ota_tangents, temperature)},
                  {"order", offsetof(ota_tangents, order)},
                  {"cap", offsetof(ota_tangents, cap)},
                  {"lower", offsetof(ota_tangents, lower)},
                  {"upper", offsetof(ota_tangents, upper)},
                  {"strength", offsetof(ota_tangents, strength)},
                  {"row_strength", offsetof(ota_tangents, row_strength)},
                  {"row_mass", offsetof(ota_tangents, row_mass)},
                  {"column_mass", offsetof(ota_tangents, column_mass)}};
    const knob *one = &t->b.knobs[k];
    for (int q = 0; q < TERMS; q++) {
        if (one->gradient == &t->b.terms[q]) return &t->terms[q];
    }
    for (size_t q = 0; q < sizeof fields / sizeof fields[0]; q++) {
        if (strcmp(one->name, fields[q].name) == 0)
            return (ota_array *)(void *)((char *)&t->moved + fields[q].offset);
    }
    fail_msg("no tangent for %s", one->name);
    return NULL;
}

static void lay_rows(ride *t, ota_type type) {
    bench *b = &t->b;
    const recipe *w = &b->x.want;
    t->moved.size = sizeof t->moved;
    t->moved.terms = t->terms;
    for (int k = 0; k < b->count; k++)
        *place_of(t, k) = gradient_like(b, type, b->knobs[k].gradient);
    t->moved.scores = gradient_array(b, type, w->batch, w->heads, w->n, w->m);
    t->moved.coupling = gradient_array(b, OTA_F64, w->batch, w->heads, w->n, w->m);
    t->moved.out = gradient_array(b, OTA_F64, w->batch, w->heads, w->n, w->values_width);
}

/* Does every key of some head rest on a bound? Then the bounds add up to the rows' mass, and there is no plan for
 * others. */
static bool tight(const bench *b) {
    const ota_problem *p = &b->x.problem;
    const bool turned = p->axis == OTA_AXIS_COLUMNS;
    const ota_array *g = turned ? &b->x.arrays.row_potential : &b->x.arrays.column_potential;
    const bool kinks = p->columns == OTA_COLUMNS_CAPPED || p->columns == OTA_COLUMNS_BOUNDED;
    for (int64_t k = 0; kinks && k < g->size[0] * g->size[1]; k++) {
        bool all = true;
        for (int64_t j = 0; j < g->size[3]; j++)
            all &= side_of(ota_array_get(g, k / g->size[1], k % g->size[1], 0, j)) > 0;
        if (all) return true;
    }
    return false;
}

/* The direction of knob k as `move` walks it, times `share`. */
static void set_tangent(ride *t, int k, uint64_t seed, double share) {
    const knob *one = &t->b.knobs[k];
    const ota_array *to = place_of(t, k), *a = one->input;
    const bool bound = strcmp(one->name, "cap") == 0 || strcmp(one->name, "lower") == 0 ||
                       strcmp(one->name, "upper") == 0;
    if (bound && tight(&t->b)) share = 0.0;
    t->share[k] = share;
    if (a == NULL) {
        ota_array_set(to, 0, 0, 0, 0, share);
        return;
    }
    for (int64_t b = 0; b < a->size[0]; b++) {
        for (int64_t h = 0; h < a->size[1]; h++) {
            const double mean = one->balanced ? heading_mean(a, seed, b, h) : 0.0;
            for (int64_t i = 0; i < a->size[2]; i++) {
                for (int64_t j = 0; j < a->size[3]; j++)
                    ota_array_set(to, b, h, i, j, share * heading(a, seed, b, h, i, j, mean));
            }
        }
    }
}

static double size_of_products(const ota_array *a, const ota_array *b) {
    double sum = 0.0;
    for (int64_t k = 0; k < a->size[0]; k++) {
        for (int64_t h = 0; h < a->size[1]; h++) {
            for (int64_t i = 0; i < a->size[2]; i++) {
                for (int64_t j = 0; j < a->size[3]; j++)
                    sum += fabs(ota_array_get(a, k, h, i, j) * ota_array_get(b, k, h, i, j));
            }
        }
    }
    return sum;
}

static double derive(ride *t) {
    bench *b = &t->b;
    const ota_status status = ota_jvp(b->plan, &b->x.arrays, &t->moved, &b->x.result, &b->x.error);
    if (status != OTA_OK) {
        print_error("jvp %d: %s\n", (int)status, b->x.error.message);
        print_recipe(&b->x);
        fail();
    }
    assert_true(gaps_untouched(&b->gradients, &t->moved.coupling));
    assert_true(gaps_untouched(&b->gradients, &t->moved.out));
    double slope = inner_product(&b->want.out_grad, &t->moved.out);
    if (ota_array_present(&b->want.coupling_grad))
        slope += inner_product(&b->want.coupling_grad, &t->moved.coupling);
    return slope;
}

/* Distance of both sides along knob `only` alone, or, where that is below 0, along everything; *size: their absolute
 * terms. */
static double adjoint_gap(ride *t, uint64_t seed, int only, double *size) {
    bench *b = &t->b;
    fill_elements(&t->moved.scores, &b->d, NORMAL, only < 0 ? 1.0 : 0.0);
    double theirs = inner_product(&b->want.scores, &t->moved.scores);
    *size = size_of_products(&b->want.scores, &t->moved.scores);
    for (int k = 0; k < b->count; k++) {
        const ota_array *tangent = place_of(t, k);
        set_tangent(t, k, seed + (uint64_t)k, only < 0 || k == only ? 1.0 : 0.0);
        theirs += inner_product(b->knobs[k].gradient, tangent);
        *size += size_of_products(b->knobs[k].gradient, tangent);
    }
    const double mine = derive(t);
    *size += size_of_products(&b->want.out_grad, &t->moved.out);
    return fabs(mine - theirs);
}

/* The largest distance, along each knob alone too where asked, in units of the residual that is promised, relative to
 * the absolute terms of all directions at once: those of one alone may be rounding. NaN counts as infinite. */
static double largest_gap(ride *t, uint64_t seed, bool alone) {
    double worst = 0.0, size, own;
    for (int only = -1; only < (alone ? t->b.count : 0); only++) {
        const double apart = adjoint_gap(t, seed, only, only < 0 ? &size : &own);
        const double share = apart / adjoint_slack(size);
        worst = fmax(worst, isnan(share) ? INFINITY : share);
    }
    return worst;
}

/* The slope against differences of forward; < 0: a kink at every step. */
static double difference_gap(ride *t) {
    bench *b = &t->b;
    double *base[KNOBS], found = -1.0;
    uint64_t here = 0;
    (void)evaluate(b, &here);
    fill_elements(&t->moved.scores, &b->d, NORMAL, 0.0);
    for (int k = 0; k < b->count; k++) base[k] = keep(&b->knobs[k]);
    for (int attempt = 0; attempt < ATTEMPTS && found < 0.0; attempt++) {
        const double step = difference_step * pow(0.4, attempt);
        const uint64_t seed = splitmix64(&b->d);
        double value[6], square = 0.0, difference;
        bool smooth = true;
        for (int k = 0; k < b->count; k++) {
            double part = 0.0, part_square = 0.0;
            move(&b->knobs[k], base[k], 0.0, seed + (uint64_t)k, &part, &part_square);
            const double size = sqrt(part_square), share = size > 1.0 ? 1.0 / size : 1.0;
            set_tangent(t, k, seed + (uint64_t)k, share);
            square += share * share * part_square;
        }
        /* Differences leave the potentials of a moved problem behind. */
        (void)run_forward(b);
        const double slope = derive(t);
        for (int q = 0; q < 6; q++) {
            uint64_t active;
            for (int k = 0; k < b->count; k++)
                move(&b->knobs[k], base[k], steps_at[q] * step * t->share[k], seed + (uint64_t)k,
                     NULL, NULL);
            value[q] = evaluate(b, &active);
            smooth &= !isnan(value[q]) && active == here;
        }
        for (int k = 0; k < b->count; k++) move(&b->knobs[k], base[k], 0.0, 0, NULL, NULL);
        if (smooth) found = judge_values(value, step, slope, square, &difference);
    }
    for (int k = 0; k < b->count; k++) free(base[k]);
    return found;
}

typedef struct counts {
    int solved, kinks, differences;
    double apart, off;
} counts;

static bool check_problem(const recipe *want, int schedule, double cap, bool differences,
                          counts *to) {
    ride *t = calloc(1, sizeof *t);
    assert_non_null(t);
    bench *b = &t->b;
    set_up(b, want, OTA_F64, want->seed % 2 == 0);
    lay_rows(t, OTA_F64);
    b->x.options.threads = want->seed % 3 == 0 ? 2 : 1;
    if (b->x.problem.cap > 0.0) b->x.problem.cap *= cap;
    if (b->x.problem.upper > 0.0) b->x.problem.upper *= cap, b->x.problem.lower /= cap;
    set_schedule(&b->x.options, schedule);
    b->x.problem.dropout = want->seed % 4 == 1 ? 0.3 : 0.0;
    ota_status status = make_plan(b);
    if (status == OTA_OK) status = run_forward(b);
    const bool solved = status == OTA_OK || status == OTA_FIXED_ITERS;
    if (solved) {
        to->solved++;
        assert_int_equal(run_backward(b), OTA_OK);
        const double apart = largest_gap(t, splitmix64(&b->d), differences);
        /* At a kink there is no derivative, and each way may take another side's. */
        const double off = differences || !(apart <= 1.0) ? difference_gap(t) : 0.0;
        if ((!(apart <= 1.0) && off >= 0.0) || off > 1.0) {
            print_error("adjoint %.3g, difference %.3g of what is allowed\n", apart, off);
            print_recipe(&b->x);
        }
        if (off >= 0.0) to->apart = fmax(to->apart, apart);
        to->off = fmax(to->off, off);
        to->kinks += off < 0.0;
        to->differences += differences || off < 0.0;
    }
    tear_down(b);
    free(t);
    return solved;
}

enum { DIFFERENCES = 5 }; /* every how many problems */

static void check_cell(const cell *c) {
    counts t = {0};
    for (int k = 0; k < ALL; k++) {
        const uint64_t seed = 1 + (uint64_t)k;
        const recipe w = vary(c, (mask)(k / MASSES), k % MASSES, seed);
        if (!decided(&w)) continue;
        for (double cap = 1.0; cap < 30.0; cap *= 1.7) {
            const bool differences = k % DIFFERENCES == 0 || test_scale() > 1;
            if (check_problem(&w, c->rounds ? (int)(seed % 5) : 0, cap, differences, &t)) break;
            if (strstr(c->method, ":1.3") == NULL && strstr(c->method, ":1.4") == NULL &&
                strstr(c->method, "bounded") == NULL)
                break;
        }
    }
    print_message(
        "%s: %d problems, adjoint %.2g, %d differences %.2g of the bounds, %d at a kink\n",
        c->method, t.solved, t.apart, t.differences, t.off, t.kinks);
    assert_true(t.solved >= c->least);
    assert_true(5 * t.kinks <= t.differences);
    spec_check(c->ids, fmax(t.off, t.apart), 1.0);
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

static void test_rounds(void **state) {
    (void)state;
    CHECK_CELLS(in_rounds);
}

/* As many keys as lanes and panels hold, so that nothing that is read or written past the end is padding. */
static void test_full_lanes(void **state) {
    (void)state;
    static const struct {
        const cell *cells;
        size_t count;
    } tables[] = {{rows_alone, sizeof rows_alone / sizeof rows_alone[0]},
                  {coupled, sizeof coupled / sizeof coupled[0]},
                  {in_order, sizeof in_order / sizeof in_order[0]},
                  {in_rounds, sizeof in_rounds / sizeof in_rounds[0]}};
    for (size_t q = 0; q < sizeof tables / sizeof tables[0]; q++) {
        for (size_t k = 0; k < tables[q].count; k += (size_t)test_step()) {
            const cell *c = &tables[q].cells[k];
            counts t = {0};
            for (uint64_t seed = 1; seed <= 8; seed++) {
                recipe w = vary(c, NO_MASK, 0, seed);
                w.batch = 1;
                w.n = seed % 2 == 0 ? 16 : 32;
                w.m = seed % 3 == 0 ? w.n : 32;
                (void)check_problem(&w, c->rounds ? (int)(seed % 5) : 0, 4.0, false, &t);
            }
            print_message("%s: %d problems, adjoint %.2g of the bound\n", c->method, t.solved,
                          t.apart);
            assert_true(t.solved >= 4);
            spec_check(c->ids, t.apart, 1.0);
        }
    }
}

TEST_FILE(test_tangents) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_alone), cmocka_unit_test(test_coupled_columns),
        cmocka_unit_test(test_rows_in_order), cmocka_unit_test(test_rounds),
        cmocka_unit_test(test_full_lanes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
