/* test_backward_strips.c: the quick forms of backward's strips against the general ones, which have been judged by
 * differences (test_backward.c): entmax rows as lists of keys against the same rows whole, which they are where the plan has
 * no room for lists; fixed rounds on a stored kernel against rounds on stored scores, which asking for the
 * temperature's leads to. Both are u (32 + 8 B) of the largest gradient apart, times K + 1 for K rounds. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "backend/cpu/gradient/cpu_gradient.h"
#include "operator/backward.h"
#include "backward_support.h"
#include "groups.h"
#include "scale.h"
#include "spec.h"

static const char *const methods[] = {"entmax:1.5", "sparsemax", "entmax:1.25", "entmax:2.5"};

static recipe base(uint64_t seed) {
    return (recipe){.type = OTA_F64,
                    .out_type = OTA_F64,
                    .batch = 1,
                    .heads = 4,
                    .key_heads = 2,
                    .n = 83,
                    .m = 147,
                    .width = 9,
                    .values_width = 7,
                    .temperature = 0.8,
                    .spread = 2.5,
                    .seed = seed};
}

static int64_t length_of(const ota_array *a) {
    return a->size[0] * a->size[1] * a->size[2] * a->size[3];
}

static double *keep_array(const ota_array *a) {
    double *kept = calloc((size_t)length_of(a) + 1, sizeof *kept), *to = kept;
    assert_non_null(kept);
    for (int64_t b = 0; b < a->size[0]; b++) {
        for (int64_t h = 0; h < a->size[1]; h++) {
            for (int64_t i = 0; i < a->size[2]; i++) {
                for (int64_t k = 0; k < a->size[3]; k++) *to++ = ota_array_get(a, b, h, i, k);
            }
        }
    }
    return kept;
}

/* The levels of this processor in turn. */
static const char *level_of(uint64_t k) {
    uint64_t levels = 0;
    while (ota_kernel_name((int)levels) != NULL) levels++;
    return ota_kernel_name((int)(k % levels));
}

static bench *begin(const recipe *w, int threads) {
    bench *t = malloc(sizeof *t);
    assert_non_null(t);
    set_up(t, w, w->type, false);
    t->x.options.threads = threads;
    t->x.options.cpu = level_of(w->seed);
    assert_int_equal(make_plan(t), OTA_OK);
    const ota_status status = run_forward(t);
    assert_true(status >= OTA_OK);
    return t;
}

static void end(bench *t) {
    tear_down(t);
    free(t);
}

/* Backward by whichever head workers took a head; the others are seen to have done nothing. */
static ota_status run_with(bench *t, const ota_gradients *want) {
    for (int k = 0; k < t->plan->head_worker_count; k++) {
        ota_backward_space *s = t->plan->backward + k;
        for (int64_t i = 0; i < s->own->strip.rows; i++) s->own->strip.count[i] = -1;
        for (int64_t i = 0; s->listed != NULL && i < t->x.want.n; i++) s->listed[i] = -1;
        s->kernel.carried = false;
    }
    return ota_backward(t->plan, &t->x.arrays, want, &t->x.result, &t->x.error);
}

/* Rows of the last strips that were lists. */
static int64_t lists_of(const bench *t) {
    int64_t count = 0;
    for (int k = 0; k < t->plan->head_worker_count; k++) {
        const ota_strip *strip = &t->plan->backward[k].own->strip;
        const int64_t rows = (t->x.want.n - 1) % strip->rows + 1;
        for (int64_t i = 0; i < rows; i++) count += strip->count[i] >= 0;
    }
    return count;
}

/* Did a kernel carry the last head of some head worker? */
static bool was_carried(const bench *t) {
    for (int k = 0; k < t->plan->head_worker_count; k++) {
        if (t->plan->backward[k].kernel.carried) return true;
    }
    return false;
}

static double apart(const ota_array *a, const double *kept, bool nans) {
    double *now = keep_array(a), top = 1.0, away = 0.0;
    for (int64_t k = 0; k < length_of(a); k++) {
        if (isfinite(kept[k])) top = fmax(top, fabs(kept[k]));
    }
    for (int64_t k = 0; k < length_of(a); k++) {
        if (nans && isnan(now[k]) && isnan(kept[k])) continue;
        const double here = fabs(now[k] - kept[k]) / top;
        away = fmax(away, isnan(here) ? (double)INFINITY : here);
    }
    free(now);
    return away;
}

/* `terms` [count], where not NULL: the sums of the absolute terms of gradients that are one number, whose terms cancel. */
static double apart_all(const ota_array *const *all, double *const *kept, int count,
                        const double *terms) {
    double worst = 0.0;
    for (int q = 0; q < count; q++) {
        if (!ota_array_present(all[q])) continue;
        const double share =
            terms != NULL && length_of(all[q]) == 1 ? 1.0 / fmax(1.0, terms[q]) : 1.0;
        worst = fmax(worst, share * apart(all[q], kept[q], false));
    }
    return worst;
}

/* Everything that a bench asks for, in f64; `sizes`: the sums of the absolute terms of what is one number, of which a row's weights
 * have some even where they cancel in each pair. */
enum { GRADIENTS = 15, FIRST_TERM = 13 };
typedef struct gradients_of {
    const ota_array *all[GRADIENTS];
    double *kept[GRADIENTS], sizes[GRADIENTS];
} gradients_of;

static double absolute_sum(const ota_array *a) {
    double *x = keep_array(a), sum = 0.0;
    for (int64_t k = 0; k < length_of(a); k++) sum += fabs(x[k]);
    free(x);
    return sum;
}

static gradients_of keep_all(const bench *t) {
    const ota_gradients *g = &t->want;
    const recipe *w = &t->x.want;
    gradients_of found = {{&g->queries, &g->keys, &g->values, &g->scores, &g->matrix, &g->row_mass,
                           &g->column_mass, &g->cap, &g->strength, &g->lower, &g->upper,
                           &g->temperature, &g->order, &t->terms[0], &t->terms[1]},
                          {NULL},
                          {0.0}};
    const double size = absolute_sum(&g->scores) + (double)(w->batch * w->heads * w->n),
                 order = t->x.problem.order - 1.0;
    for (int q = 0; q < GRADIENTS; q++) {
        found.kept[q] = keep_array(found.all[q]);
        found.sizes[q] = size;
        if (found.all[q] == &g->temperature) found.sizes[q] *= w->spread / w->temperature;
        if (found.all[q] == &g->order) found.sizes[q] *= w->temperature / (order * order);
        /* Slopes of distances. */
        if (q >= FIRST_TERM) found.sizes[q] *= (double)w->m;
    }
    return found;
}

/* The largest difference of what stands there now, over that of the largest. */
static double end_all(gradients_of *was) {
    const double worst = apart_all(was->all, was->kept, GRADIENTS, was->sizes);
    for (int q = 0; q < GRADIENTS; q++) free(was->kept[q]);
    return worst;
}

/* Everything that is wanted, by rows that are whole since there is no room for lists. */
static ota_status run_whole(bench *t) {
    ota_worker *first = &t->plan->device->workers[0];
    double *room = first->keys.wide;
    first->keys.wide = NULL;
    const ota_status status = run_with(t, &t->want);
    first->keys.wide = room;
    return status;
}

/* What may be lost of lists: by way of P, pairs that are dropped, a matrix of scores. */
static void set_up_ways(bench *t, const recipe *w, uint64_t k) {
    set_up(t, w, w->type, k % 3 == 1);
    if (k % 5 != 3) return;
    t->x.problem.dropout = 0.3;
    t->x.problem.dropout_seed = k;
}

/* Every mask and term, whatever is wanted, ragged sizes, masses, both types. */
static void test_lists_against_rows(void **state) {
    (void)state;
    static const added terms[] = {NOTHING, BIAS,         BIAS_WIDE_SHUT, ALIBI,
                                  SINK,    TEMPERATURES, RELATIVE,       SOFTCAP};
    static const double spreads[] = {2.5, 0.3, 6.0};
    double worst = 0.0;
    int64_t lists = 0, whole = 0;
    for (uint64_t k = 0; k < 8 * MASKS; k++) {
        recipe w = base(k + 1);
        w.method = methods[k % 4];
        w.mask = (mask)(k / 8);
        w.added = terms[(k + k / 8) % 8];
        w.spread = spreads[k % 3];
        w.type = w.out_type = k % 2 == 0 ? OTA_F64 : OTA_F32;
        w.row_mass = k % 5 == 1;
        w.n = k % 6 == 0 ? 300 : 37;
        w.m = k % 6 == 1 ? 1 : w.m;
        w.matrix = k % 7 == 4;
        if (w.matrix) w.key_heads = w.heads;
        bench *t = malloc(sizeof *t);
        assert_non_null(t);
        set_up_ways(t, &w, k);
        t->x.options.threads = 1 + (int)(k % 3);
        t->x.options.cpu = level_of(k);
        assert_int_equal(make_plan(t), OTA_OK);
        assert_true(run_forward(t) >= OTA_OK);
        assert_int_equal(run_whole(t), OTA_OK);
        assert_int_equal(lists_of(t), 0);
        gradients_of kept = keep_all(t);
        assert_int_equal(run_with(t, &t->want), OTA_OK);
        const int64_t now = lists_of(t);
        lists += now > 0;
        whole += now == 0;
        const double spread = 4.0 * w.spread * sqrt((double)w.width) / w.temperature;
        const double ratio = end_all(&kept) / (unit_roundoff(w.type) * gradient_growth(spread));
        if (!(ratio <= 1.0)) print_recipe(&t->x);
        worst = fmax(worst, isnan(ratio) ? (double)INFINITY : ratio);
        end(t);
    }
    print_message("%d problems with lists, %d without, worst %.2g of the bound\n", (int)lists,
                  (int)whole, worst);
    assert_true(lists > 4 * MASKS && whole > 4);
    spec_check("DER-12", worst, 1.0);
}

/* What is not finite makes rows whole again and gives the same numbers. */
static void test_not_finite(void **state) {
    (void)state;
    double worst = 0.0;
    for (uint64_t k = 0; k < 24; k++) {
        static const double poisons[] = {NAN, INFINITY, -INFINITY};
        recipe w = base(k + 1);
        w.method = methods[k % 4];
        w.dense_arrays = true;
        w.key_heads = 4;
        bench *t = malloc(sizeof *t);
        assert_non_null(t);
        set_up(t, &w, OTA_F64, false);
        const ota_array *const targets[] = {&t->x.problem.queries, &t->x.problem.keys,
                                            &t->x.arrays.values, &t->want.out_grad};
        ota_array_set(targets[k / 3 % 4], 0, 1, 17, 2, poisons[k % 3]);
        assert_int_equal(make_plan(t), OTA_OK);
        const ota_status status = run_forward(t);
        assert_true(status == OTA_OK || status == OTA_NONFINITE_ROWS);
        const ota_array *const all[] = {&t->want.queries, &t->want.keys, &t->want.values,
                                        &t->want.scores};
        (void)run_whole(t);
        double *kept[] = {keep_array(all[0]), keep_array(all[1]), keep_array(all[2]),
                          keep_array(all[3])};
        (void)run_with(t, &t->want);
        for (int q = 0; q < 4; q++) {
            const double ratio =
                apart(all[q], kept[q], true) / (unit_roundoff(OTA_F64) * gradient_growth(100.0));
            if (ratio > 1.0) print_recipe(&t->x);
            worst = fmax(worst, ratio);
            free(kept[q]);
        }
        end(t);
    }
    spec_check("DER-12", worst, 1.0);
}

static void test_same_bits(void **state) {
    (void)state;
    double count = 0.0;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        recipe w = base(seed);
        static const char *const coupled[] = {"entmax:1.5/exact", "sparsemax/capped:1.2",
                                              "entmax:1.5/exact{entry_cap=0.012}",
                                              "sparsemax/capped:1.2{entry_cap=0.03}"};
        w.method = seed == 3 ? "softmax/exact" : seed > 4 ? coupled[seed - 5] : methods[seed % 4];
        w.rounds = seed == 3 ? 2 : 0;
        w.n = 420;
        w.m = 390;
        w.type = w.out_type = OTA_F32;
        w.added = seed % 2 == 0 ? SOFTCAP : NOTHING;
        double *kept[3] = {NULL, NULL, NULL};
        for (int threads = 1; threads <= 4; threads++) {
            bench *t = begin(&w, threads);
            ota_gradients got = inputs_only(t);
            const ota_array *const all[] = {&got.queries, &got.keys, &got.values};
            assert_true(ota_backward(t->plan, &t->x.arrays, &got, NULL, &t->x.error) == OTA_OK);
            for (int k = 0; k < 3; k++) {
                double *now = keep_array(all[k]);
                if (kept[k] == NULL) {
                    kept[k] = now;
                    continue;
                }
                count += memcmp(now, kept[k], (size_t)length_of(all[k]) * sizeof *now) != 0;
                free(now);
            }
            end(t);
        }
        for (int k = 0; k < 3; k++) free(kept[k]);
    }
    spec_check("TOT-20", count, 0.0);
}

/* ---- coupled columns ------------------------------------------------------------------------------ */

/* Rows of the last head of each worker whose slopes were lists. */
static int64_t slope_lists_of(const bench *t) {
    int64_t count = 0;
    for (int k = 0; k < t->plan->head_worker_count; k++) {
        const ota_backward_space *s = t->plan->backward + k;
        for (int64_t i = 0; s->listed != NULL && i < t->x.want.n; i++) count += s->listed[i] >= 0;
    }
    return count;
}

/* sum out_grad . dout along random tangents of queries, keys and values beside the sum of these times their gradients, over its
 * absolute terms. */
static double tangents_apart(bench *t) {
    const ota_array *const gradients[] = {&t->want.queries, &t->want.keys, &t->want.values};
    ota_tangents moved = {.size = sizeof moved};
    ota_array *const to[] = {&moved.queries, &moved.keys, &moved.values};
    double theirs = 0.0, size = 0.0;
    for (int q = 0; q < 3; q++) {
        *to[q] = gradient_like(t, OTA_F64, gradients[q]);
        fill_elements(to[q], &t->d, NORMAL, 1.0);
        double *x = keep_array(to[q]), *y = keep_array(gradients[q]);
        for (int64_t k = 0; k < length_of(to[q]); k++) {
            theirs += x[k] * y[k];
            size += fabs(x[k] * y[k]);
        }
        free(x);
        free(y);
    }
    moved.out = gradient_like(t, OTA_F64, &t->want.out_grad);
    assert_int_equal(ota_jvp(t->plan, &t->x.arrays, &moved, &t->x.result, &t->x.error), OTA_OK);
    double mine = 0.0, *x = keep_array(&moved.out), *y = keep_array(&t->want.out_grad);
    for (int64_t k = 0; k < length_of(&moved.out); k++) mine += x[k] * y[k];
    free(x);
    free(y);
    return fabs(mine - theirs) / size;
}

static recipe coupled_recipe(uint64_t k) {
    static const char *const rules[] = {"entmax:1.5/exact",
                                        "sparsemax/exact",
                                        "sparsemax/capped:1.4",
                                        "entmax:1.25/relaxed:0.8",
                                        "entmax:1.5/bounded:0.4,1.9",
                                        "entmax:2.5/capped:1.4",
                                        "entmax:3/exact",
                                        "entmax:2.2/relaxed:0.8"};
    enum { RULES = sizeof rules / sizeof rules[0] };
    static const added terms[] = {NOTHING, BIAS, SOFTCAP, RELATIVE, ALIBI, TEMPERATURES, SINK};
    recipe w = base(k + 1);
    w.method = rules[k % RULES];
    w.mask = (mask)(k / RULES % MASKS);
    w.added = terms[k % 7];
    w.type = w.out_type = k % 2 == 0 ? OTA_F64 : OTA_F32;
    w.tolerance = w.type == OTA_F64 ? 1e-10 : 1e-5;
    w.row_mass = k % 5 == 1;
    w.column_mass = k % 5 == 1;
    w.n = k % 4 == 3 ? 300 : 67;
    w.m = k % 9 == 8 ? 5 : 147;
    w.matrix = k % 11 == 7;
    if (w.matrix) w.key_heads = w.heads;
    return w;
}

/* The same within caps of single pairs. */
static recipe capped_recipe(uint64_t k) {
    static const char *const rules[] = {"entmax:1.5/exact", "sparsemax/capped:1.4",
                                        "entmax:3/exact", "entmax:1.25/relaxed:0.8",
                                        "sparsemax/exact"};
    recipe w = coupled_recipe(k);
    w.method = rules[k % 5];
    w.row_mass = w.column_mass = false;
    w.m = 147;
    return w;
}

/* Of a pair between 3 and 6 times the mean weight. */
static void set_caps(bench *t) {
    const int64_t n = t->x.want.n, m = t->x.want.m;
    t->x.problem.entry_caps = gradient_array(t, OTA_F64, 1, 1, n, m);
    for (int64_t k = 0; k < n * m; k++)
        ota_array_set(&t->x.problem.entry_caps, 0, 0, k / m, k % m,
                      (3.0 + draw_number(&t->d, OTA_F64, SHARE, 3.0)) / (double)m);
}

/* Slopes as lists against rows of them, whatever is wanted; and tangents, whose rows are lists wherever that holds them. */
static void test_slope_lists_against_rows(void **state) {
    (void)state;
    double worst = 0.0, tangents = 0.0;
    int64_t lists = 0, whole = 0, unsolved = 0, within_caps = 0;
    const uint64_t step = test_stride() > 1 ? 13 : 1; /* meets all terms, masks, rules and types */
    for (uint64_t k = 0; k < 24 * MASKS; k += step) {
        const bool capped = k >= 16 * MASKS;
        const recipe w = capped ? capped_recipe(k) : coupled_recipe(k);
        bench *t = malloc(sizeof *t);
        assert_non_null(t);
        set_up_ways(t, &w, k);
        if (capped && k % 2 == 0)
            set_caps(t);
        else if (capped)
            t->x.problem.entry_cap = 5.0 / (double)w.m;
        t->x.options.threads = 1 + (int)(k % 3);
        t->x.options.cpu = level_of(k / 2);
        if (make_plan(t) != OTA_OK || run_forward(t) != OTA_OK) {
            unsolved++;
            end(t);
            continue;
        }
        assert_int_equal(run_whole(t), OTA_OK);
        assert_int_equal(slope_lists_of(t), 0);
        gradients_of kept = keep_all(t);
        assert_int_equal(run_with(t, &t->want), OTA_OK);
        /* Few pairs below their caps may be none that move: then all is what rounding leaves. */
        const bool still = capped && absolute_sum(&t->want.scores) < 1.0e-8;
        const bool listed = slope_lists_of(t) > 0;
        lists += listed;
        whole += !listed;
        within_caps += capped && listed;
        const double spread = 4.0 * w.spread * sqrt((double)w.width) / w.temperature;
        /* Neither side is exact, and multipliers answer to what rounding makes of slopes by the condition of their system. */
        const double bound = 8.0 * unit_roundoff(w.type) * gradient_growth(spread),
                     ratio = (still ? 0.0 : 1.0) * end_all(&kept) / bound;
        const bool by_plan = ota_array_present(&t->want.coupling_grad) || w.matrix || still;
        const double away = by_plan ? 0.0 : tangents_apart(t) / bound;
        if (!(ratio <= 1.0) || !(away <= 1.0)) print_recipe(&t->x);
        worst = fmax(worst, isnan(ratio) ? (double)INFINITY : ratio);
        tangents = fmax(tangents, isnan(away) ? (double)INFINITY : away);
        end(t);
    }
    print_message("%d problems with lists, %d without, %d unsolved, worst %.2g of the bound, of "
                  "tangents %.2g\n",
                  (int)lists, (int)whole, (int)unsolved, worst, tangents);
    const int64_t all = (int64_t)step;
    assert_true(all * lists > 4 * MASKS && all * whole > 4 && all * within_caps > 2 * MASKS);
    spec_check("DER-12 DER-14", fmax(worst, tangents), 1.0);
}

/* ---- fixed rounds --------------------------------------------------------------------------------- */

/* Asks for gradients by way of P, of which the loss makes nothing: those are reversed on scores. */
static void set_up_with_plan(bench *t, const recipe *w) {
    set_up(t, w, OTA_F64, true);
    fill_elements(&t->want.coupling_grad, &t->d, NORMAL, 0.0);
}

/* Rules, masks, terms with gradients of their own, masses, starts, both types. */
static void test_rounds_on_kernel(void **state) {
    (void)state;
    static const char *const rules[] = {"softmax/exact", "softmax/elastic:.4,3",
                                        "softmax/relaxed:.7", "softmax/capped:1.3"};
    static const added terms[] = {NOTHING, BIAS, SOFTCAP, RELATIVE, ALIBI, TEMPERATURES, SINK};
    static const mask masks[] = {NO_MASK, BOOLEAN, WINDOW_OPEN, LENGTHS, ADDITIVE};
    double worst = 0.0;
    int64_t carried = 0;
    for (uint64_t k = 0; k < 84; k++) {
        recipe w = base(k + 1);
        w.method = rules[k % 4];
        w.rounds = 1 + (int64_t)(k % 5);
        w.added = terms[k % 7];
        w.mask = masks[k / 4 % 5];
        w.spread = 1.0;
        w.type = w.out_type = k % 3 == 0 ? OTA_F32 : OTA_F64;
        w.row_mass = k % 5 == 1;
        w.column_mass = k % 5 == 1 || k % 11 == 3;
        w.warm = k % 6 == 2;
        w.key_heads = k % 2 == 0 ? 4 : 2;
        w.n = k % 9 == 0 ? 300 : 61;
        bench *t = malloc(sizeof *t);
        assert_non_null(t);
        set_up_with_plan(t, &w);
        t->x.options.threads = 1 + (int)(k % 3);
        t->x.options.cpu = level_of(k / 2);
        const ota_status made = make_plan(t);
        if (made != OTA_OK || run_forward(t) != OTA_FIXED_ITERS) {
            end(t);
            continue;
        }
        ota_gradients got = t->want;
        assert_int_equal(run_with(t, &got), OTA_OK);
        assert_false(was_carried(t));
        const ota_array *const all[] = {&got.queries,  &got.keys,        &got.values,   &got.scores,
                                        &got.row_mass, &got.column_mass, &got.strength, &got.cap,
                                        &t->terms[0],  &got.temperature};
        enum { ALL = sizeof all / sizeof all[0], TERM = ALL - 2, TEMPERATURE };
        double *kept[ALL];
        for (int q = 0; q < ALL; q++) kept[q] = keep_array(all[q]);
        got.coupling_grad = (ota_array){0};
        for (int given = 0; given < 2; given++) {
            got.solved = given;
            assert_int_equal(run_with(t, &got), OTA_OK);
            carried += was_carried(t);
            const double spread = 4.0 * w.spread * sqrt((double)w.width) / w.temperature;
            /* Neither side is exact. */
            const double bound =
                2.0 * unit_roundoff(w.type) * gradient_growth(spread) * ((double)w.rounds + 1.0);
            /* Slopes of distances and temperatures. */
            const double size = absolute_sum(&got.scores);
            const double terms[ALL] = {[TERM] = size * (double)w.m,
                                       [TEMPERATURE] =
                                           size * w.spread * sqrt((double)w.width) / w.temperature};
            const double ratio = apart_all(all, kept, ALL, terms) / bound;
            if (ratio > 1.0) print_recipe(&t->x);
            worst = fmax(worst, ratio);
        }
        for (int q = 0; q < ALL; q++) free(kept[q]);
        end(t);
    }
    print_message("%d runs on the kernel, worst %.2g of the bound\n", (int)carried, worst);
    assert_true(carried > 150);
    spec_check("DER-15", worst, 1.0);
}

/* Scores that a kernel in f32 does not carry fall back on the rounds on scores, with the same numbers. */
static void test_rounds_out_of_reach(void **state) {
    (void)state;
    double worst = 0.0;
    int fallen = 0;
    for (uint64_t k = 0; k < 12; k++) {
        recipe w = base(k + 1);
        w.method = k % 2 == 0 ? "softmax/exact" : "softmax/capped:1.2";
        w.rounds = 3;
        w.spread = 3.0;
        w.temperature = k % 3 == 0 ? 0.02 : k % 3 == 1 ? 0.1 : 0.3;
        w.type = w.out_type = k < 9 ? OTA_F32 : OTA_F64;
        bench *t = malloc(sizeof *t);
        assert_non_null(t);
        set_up_with_plan(t, &w);
        assert_int_equal(make_plan(t), OTA_OK);
        assert_int_equal(run_forward(t), OTA_FIXED_ITERS);
        ota_gradients got = inputs_only(t);
        got.coupling_grad = t->want.coupling_grad;
        const ota_array *const all[] = {&got.queries, &got.keys, &got.values};
        assert_int_equal(run_with(t, &got), OTA_OK);
        double *kept[] = {keep_array(all[0]), keep_array(all[1]), keep_array(all[2])};
        got.coupling_grad = (ota_array){0};
        assert_int_equal(run_with(t, &got), OTA_OK);
        fallen += !was_carried(t);
        const double spread = 4.0 * w.spread * w.spread * (double)w.width / w.temperature;
        const double ratio =
            apart_all(all, kept, 3, NULL) / (unit_roundoff(w.type) * gradient_growth(spread) * 4.0);
        if (ratio > 1.0) print_recipe(&t->x);
        worst = fmax(worst, ratio);
        for (int q = 0; q < 3; q++) free(kept[q]);
        end(t);
    }
    print_message("%d fell back, worst %.2g of the bound\n", fallen, worst);
    assert_true(fallen > 2);
    spec_check("DER-15", worst, 1.0);
}

TEST_FILE(test_backward_strips) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_against_rows), cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_same_bits),          cmocka_unit_test(test_slope_lists_against_rows),
        cmocka_unit_test(test_rounds_on_kernel),   cmocka_unit_test(test_rounds_out_of_reach)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
