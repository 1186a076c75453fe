/* test_backward_tiles.c: gradients of softmax in tiles against the formulas in plain double loops on the
 * reference's plan, element by element within u M (32 + 8 B) of numeric policy 3.3:
 *
 *     a_i = sum_j P_ij U_ij / mu_i     dS = P (U - a) / tau     dQ = scale dS K   dK = scale dS^T Q   dV = P^T dO
 *
 * M is each of them with every term replaced by its absolute value. Each problem runs with passes of its own
 * and with what forward wrote; outputs end at guard pages. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "operator/backward.h"
#include "backend_wrap.h"
#include "backward_support.h"
#include "groups.h"
#include "scale.h"
#include "spec.h"

/* The outputs of one head, dense in f64, with their M. */
typedef struct exact_gradients {
    double *queries, *keys, *values, *mass;
    double *queries_size, *keys_size, *values_size, *mass_size;
} exact_gradients;

static double *numbers(int64_t count) {
    double *x = calloc((size_t)count + 1, sizeof *x);
    assert_non_null(x);
    return x;
}

static void free_gradients(exact_gradients *e) {
    double *const all[] = {e->queries,      e->keys,      e->values,      e->mass,
                           e->queries_size, e->keys_size, e->values_size, e->mass_size};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) free(all[k]);
}

static double scale_of(const recipe *w) { return 1.0 / sqrt((double)w->width); }

static double tau_of(const bench *t, int64_t h) {
    const ota_problem *p = &t->x.problem;
    return ota_array_present(&p->temperatures) ? ota_array_get(&p->temperatures, 0, 0, 0, h)
                                               : p->temperature;
}

/* U_ij and |out_grad_i| |V_j|. */
static double upstream_of(const bench *t, int64_t b, int64_t h, int64_t i, int64_t j,
                          double *size) {
    const recipe *w = &t->x.want;
    const int64_t key_head = h / (w->heads / w->key_heads);
    double sum = 0.0;
    *size = 0.0;
    for (int64_t q = 0; q < w->values_width; q++) {
        const double x = ota_array_get(&t->want.out_grad, b, h, i, q) *
                         ota_array_get(&t->x.arrays.values, b, key_head, j, q);
        sum += x;
        *size += fabs(x);
    }
    return sum;
}

/* Adds what head h gives to its own queries and to the keys and values it shares. Weights below `least`, the
 * smallest normal number, keep absolute accuracy only. */
static void add_row(const bench *t, int64_t b, int64_t h, int64_t i, double least,
                    exact_gradients *e) {
    const recipe *w = &t->x.want;
    const ota_problem *p = &t->x.problem;
    const int64_t key_head = h / (w->heads / w->key_heads), m = w->m;
    const double mu =
        ota_array_present(&p->row_mass) ? ota_array_get(&p->row_mass, b, h, 0, i) : 1.0;
    const double rate = scale_of(w) / tau_of(t, h);
    double *u = numbers(m), *size = numbers(m), a = 0.0, a_size = 0.0;
    for (int64_t j = 0; j < m; j++) {
        const double weight = ota_array_get(&t->x.exact.coupling, b, h, i, j);
        u[j] = upstream_of(t, b, h, i, j, &size[j]);
        if (!(weight > 0.0)) continue;
        a += weight * u[j] / mu;
        a_size += fmax(weight, least) * size[j] / mu;
    }
    e->mass[i] = a;
    e->mass_size[i] = a_size;
    for (int64_t j = 0; j < m; j++) {
        const double weight = ota_array_get(&t->x.exact.coupling, b, h, i, j);
        const double slope = rate * weight * (u[j] - a);
        const double weight_size = weight > 0.0 ? fmax(weight, least) : 0.0;
        const double slope_size = rate * weight_size * (size[j] + a_size);
        for (int64_t q = 0; q < w->width; q++) {
            const double key = ota_array_get(&p->keys, b, key_head, j, q);
            const double query = ota_array_get(&p->queries, b, h, i, q);
            e->queries[i * w->width + q] += slope * key;
            e->queries_size[i * w->width + q] += slope_size * fabs(key);
            e->keys[j * w->width + q] += slope * query;
            e->keys_size[j * w->width + q] += slope_size * fabs(query);
        }
        for (int64_t q = 0; q < w->values_width; q++) {
            const double out = ota_array_get(&t->want.out_grad, b, h, i, q);
            e->values[j * w->values_width + q] += weight * out;
            e->values_size[j * w->values_width + q] += weight_size * fabs(out);
        }
    }
    free(u);
    free(size);
}

/* Largest B of a head: sum |q||k| / tau, and terms and lse as the plan shows them. */
static double growth_of(const bench *t, int64_t b, int64_t h) {
    const recipe *w = &t->x.want;
    const ota_problem *p = &t->x.problem;
    const int64_t key_head = h / (w->heads / w->key_heads);
    const double tau = tau_of(t, h);
    double worst = 0.0;
    for (int64_t i = 0; i < w->n; i++) {
        const double mu =
            ota_array_present(&p->row_mass) ? ota_array_get(&p->row_mass, b, h, 0, i) : 1.0;
        const double lse = ota_array_get(&t->x.exact.lse, b, h, 0, i);
        for (int64_t j = 0; j < w->m; j++) {
            const double weight = ota_array_get(&t->x.exact.coupling, b, h, i, j);
            if (!(weight > 0.0)) continue;
            double product = 0.0, size = 0.0;
            for (int64_t q = 0; q < w->width; q++) {
                const double x = ota_array_get(&p->queries, b, h, i, q) *
                                 ota_array_get(&p->keys, b, key_head, j, q);
                product += x;
                size += fabs(x);
            }
            const double terms = fabs(log(weight / mu) + lse - scale_of(w) / tau * product);
            worst = fmax(worst, scale_of(w) / tau * size + terms + fabs(lse));
        }
    }
    return gradient_growth(worst);
}

typedef struct judged {
    double worst;
    int64_t tiled;
} judged;

static void compare(const ota_array *got, int64_t b, int64_t h, const double *want,
                    const double *size, double u, judged *to) {
    for (int64_t i = 0; i < got->size[2]; i++) {
        for (int64_t k = 0; k < got->size[3]; k++) {
            const int64_t at = i * got->size[3] + k;
            const double slack = u * size[at] + storing(got->type, want[at]);
            const double away = fabs(ota_array_get(got, b, h, i, k) - want[at]) / slack;
            to->worst = fmax(to->worst, isnan(away) ? (double)INFINITY : away);
        }
    }
}

/* `u`: of the arithmetic, and of what is rounded before it is used. */
static void compare_all(const bench *t, const ota_gradients *got, double u, judged *to) {
    const recipe *w = &t->x.want;
    const int64_t group = w->heads / w->key_heads;
    const double least = w->type == OTA_F64 ? DBL_MIN : (double)FLT_MIN;
    for (int64_t b = 0; b < w->batch; b++) {
        for (int64_t key_head = 0; key_head < w->key_heads; key_head++) {
            double growth = 0.0;
            exact_gradients e = {.keys = numbers(w->m * w->width),
                                 .keys_size = numbers(w->m * w->width),
                                 .values = numbers(w->m * w->values_width),
                                 .values_size = numbers(w->m * w->values_width),
                                 .mass = numbers(w->n),
                                 .mass_size = numbers(w->n),
                                 .queries = numbers(w->n * w->width),
                                 .queries_size = numbers(w->n * w->width)};
            for (int64_t h = key_head * group; h < (key_head + 1) * group; h++) {
                const double own = growth_of(t, b, h);
                growth = fmax(growth, own);
                memset(e.queries, 0, (size_t)(w->n * w->width) * sizeof *e.queries);
                memset(e.queries_size, 0, (size_t)(w->n * w->width) * sizeof *e.queries);
                for (int64_t i = 0; i < w->n; i++) add_row(t, b, h, i, least, &e);
                compare(&got->queries, b, h, e.queries, e.queries_size, u * own, to);
                if (ota_array_present(&got->row_mass) && got->row_mass.size[0] == w->batch &&
                    got->row_mass.size[1] == w->heads) {
                    compare(&got->row_mass, b, h, e.mass, e.mass_size, u * own, to);
                }
            }
            compare(&got->keys, b, key_head, e.keys, e.keys_size, u * growth, to);
            compare(&got->values, b, key_head, e.values, e.values_size, u * growth, to);
            free_gradients(&e);
        }
    }
}

static void expect_fine(const bench *t, ota_status status) {
    if (status == OTA_OK) return;
    print_error("%d: %s\n", (int)status, t->x.error.message);
    print_recipe(&t->x);
    fail();
}

/* Does backward take tiles for these gradients? A backend without tiles is held to the same numbers, of
 * which compare_all knows all but a softcap's slope. */
static bool takes_tiles(bench *t, const ota_gradients *want) {
    if (t->plan->backend->gradient->tiles_fit == NULL)
        return t->x.want.added != SOFTCAP && t->x.want.added != EVERYTHING;
    ota_backward_job job = ota_backward_job_of(t->plan, &t->x.arrays);
    job.want = want;
    return t->plan->backend->gradient->tiles_fit(&job);
}

static void check_problem(const recipe *want, ota_type gradients, const char *cpu, judged *to) {
    bench *t = malloc(sizeof *t);
    assert_non_null(t);
    set_up(t, want, gradients, false);
    t->x.options.threads = 1 + (int)(want->seed % 3);
    t->x.options.cpu = cpu;
    expect_fine(t, make_plan(t));
    expect_fine(t, run_forward(t));
    expect_fine(t, expect(&t->x));
    for (int given = 0; given < 2; given++) {
        ota_gradients got = inputs_only(t);
        got.solved = given;
        if (!takes_tiles(t, &got)) continue;
        to->tiled++;
        expect_fine(t, ota_backward(t->plan, &t->x.arrays, &got, &t->x.result, &t->x.error));
        const ota_array *const all[] = {&got.queries, &got.keys, &got.values};
        for (int k = 0; k < 3; k++) assert_true(gaps_untouched(&t->gradients, all[k]));
        double u = unit_roundoff(want->type == OTA_F64 ? OTA_F64 : OTA_F32);
        if (given) u = fmax(u, unit_roundoff(t->x.arrays.lse.type));
        /* The advantage is formed from an output that was rounded. */
        if (given) u = fmax(u, unit_roundoff(want->out_type));
        const double before = to->worst;
        compare_all(t, &got, u, to);
        if (!(to->worst > fmax(1.0, before))) continue;
        print_error("%s: %.3g of the bound, solved %d\n", cpu, to->worst, given);
        print_recipe(&t->x);
    }
    tear_down(t);
    free(t);
}

static recipe base(uint64_t seed) {
    return (recipe){.method = "softmax",
                    .type = OTA_F32,
                    .out_type = OTA_F32,
                    .batch = 1,
                    .heads = 2,
                    .key_heads = 2,
                    .n = 53,
                    .m = 135,
                    .width = 9,
                    .values_width = 5,
                    .temperature = 0.8,
                    .spread = 1.5,
                    .seed = seed};
}

/* Every mask with every term, types, layouts, grouped heads and masses in turn. */
static void test_masks_and_terms(void **state) {
    (void)state;
    static const ota_type types[] = {OTA_F32, OTA_F64, OTA_BF16, OTA_F16};
    static const int64_t table[] = {53, 1, 48, 97, 7}, keys[] = {135, 64, 300, 3, 128, 257, 1};
    judged seen = {0};
    const char *level;
    int levels = 0;
    while (ota_kernel_name(levels) != NULL) levels++;
    for (uint64_t k = 0; k < (uint64_t)MASKS * (uint64_t)ADDITIONS; k += (uint64_t)test_stride()) {
        recipe w = base(k + 1);
        w.mask = (mask)(k % MASKS);
        w.added = (added)(k / MASKS);
        w.type = w.out_type = types[k % 4];
        w.row_mass = k % 3 == 1;
        w.n = table[k % 5];
        w.m = keys[k % 7];
        w.width = k % 6 == 0 ? 64 : 9;
        w.values_width = k % 9 == 0 ? 64 : 17;
        if (k % 5 == 0) w.heads = 4;
        level = ota_kernel_name((int)(k % (uint64_t)levels));
        check_problem(&w, k % 2 == 0 ? w.type : OTA_F64, level, &seen);
    }
    print_message("%" PRId64 " runs in tiles, worst %.2g of the bound\n", seen.tiled, seen.worst);
    assert_true(seen.tiled > MASKS * (ADDITIONS - 2) / test_stride());
    spec_check("LIT-17 LIT-21", seen.worst, 1.0);
}

/* Several pieces of queries and keys, tiles that are folded into f64, one head and odd heads on threads. */
static void test_large(void **state) {
    (void)state;
    judged seen = {0};
    for (uint64_t k = 0; k < 8; k++) {
        recipe w = base(k + 1);
        w.heads = w.key_heads = k % 2 == 0 ? 1 : 3;
        w.n = k == 5 ? 1700 : 200;
        w.m = k == 4 ? 2200 : 270;
        w.mask = k % 3 == 1 ? CAUSAL_BOTTOM_RIGHT : k % 3 == 2 ? WINDOW : NO_MASK;
        w.type = w.out_type = k == 3 ? OTA_F64 : k >= 6 ? OTA_BF16 : OTA_F32;
        check_problem(&w, w.type, "", &seen);
    }
    print_message("worst %.2g of the bound\n", seen.worst);
    spec_check("LIT-17 LIT-21", seen.worst, 1.0);
}

/* An upstream gradient that is no number reaches the keys that its query may use, and no others. */
static void test_nonfinite_upstream(void **state) {
    (void)state;
    enum { BAD = 100 };
    recipe w = base(5);
    w.heads = w.key_heads = 1;
    w.n = w.m = 300;
    w.mask = CAUSAL_TOP_LEFT;
    bench *t = malloc(sizeof *t);
    assert_non_null(t);
    set_up(t, &w, OTA_F32, false);
    ota_array_set(&t->want.out_grad, 0, 0, BAD, 2, (double)NAN);
    expect_fine(t, make_plan(t));
    expect_fine(t, run_forward(t));
    ota_gradients got = inputs_only(t);
    assert_true(takes_tiles(t, &got));
    expect_fine(t, ota_backward(t->plan, &t->x.arrays, &got, &t->x.result, &t->x.error));
    for (int64_t j = 0; j < w.m; j++) {
        assert_int_equal(isnan(ota_array_get(&got.values, 0, 0, j, 2)) != 0, j <= BAD);
        assert_int_equal(isnan(ota_array_get(&got.keys, 0, 0, j, 2)) != 0, j <= BAD);
        assert_int_equal(isnan(ota_array_get(&got.queries, 0, 0, j, 2)) != 0, j == BAD);
    }
    tear_down(t);
    free(t);
}

/* ---- bits ------------------------------------------------------------------------------------- */

static void fill_bytes(const ota_array *a, unsigned char byte) {
    const char *first, *last;
    ota_array_extent(a, &first, &last);
    if (first != NULL) memset((char *)(uintptr_t)first, byte, (size_t)(last - first));
}

static double different(const ota_array *a, const double *kept) {
    double count = 0.0;
    for (int64_t b = 0; b < a->size[0]; b++) {
        for (int64_t h = 0; h < a->size[1]; h++) {
            for (int64_t i = 0; i < a->size[2]; i++) {
                for (int64_t k = 0; k < a->size[3]; k++) {
                    const double x = ota_array_get(a, b, h, i, k);
                    count += memcmp(&x, kept++, sizeof x) != 0;
                }
            }
        }
    }
    return count;
}

static double *keep_array(const ota_array *a) {
    double *kept = numbers(a->size[0] * a->size[1] * a->size[2] * a->size[3]), *to = kept;
    for (int64_t b = 0; b < a->size[0]; b++) {
        for (int64_t h = 0; h < a->size[1]; h++) {
            for (int64_t i = 0; i < a->size[2]; i++) {
                for (int64_t k = 0; k < a->size[3]; k++) *to++ = ota_array_get(a, b, h, i, k);
            }
        }
    }
    return kept;
}

static void test_same_bits(void **state) {
    (void)state;
    double count = 0.0;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        recipe w = base(seed);
        w.heads = 6;
        w.key_heads = seed == 2 ? 1 : 3;
        w.n = 420;
        w.m = 390;
        w.mask = seed % 2 == 0 ? CAUSAL_TOP_LEFT : NO_MASK;
        double *kept[3] = {NULL, NULL, NULL};
        for (int threads = 1; threads <= 4; threads++) {
            bench *t = malloc(sizeof *t);
            assert_non_null(t);
            set_up(t, &w, OTA_F32, false);
            t->x.options.threads = threads;
            expect_fine(t, make_plan(t));
            expect_fine(t, run_forward(t));
            ota_gradients got = inputs_only(t);
            const ota_array *const all[] = {&got.queries, &got.keys, &got.values};
            for (int repeat = 0; repeat < 2; repeat++) {
                for (int k = 0; k < 3; k++) fill_bytes(all[k], 0xff);
                expect_fine(t, ota_backward(t->plan, &t->x.arrays, &got, NULL, &t->x.error));
                for (int k = 0; k < 3; k++) {
                    if (kept[k] == NULL) kept[k] = keep_array(all[k]);
                    count += different(all[k], kept[k]);
                }
            }
            tear_down(t);
            free(t);
        }
        for (int k = 0; k < 3; k++) free(kept[k]);
    }
    spec_check("", count, 0.0);
}

/* ---- coupled columns ---------------------------------------------------------------------------- */

/* The pairwise form has been judged by differences (test_backward.c); both forms start from the same multipliers,
 * so they are u (32 + 8 B) of the largest gradient apart, B from the spread of the potentials and scores. */
static void test_coupled(void **state) {
    (void)state;
    static const char *const methods[] = {"softmax/exact", "softmax/relaxed:.7",
                                          "softmax/capped:1.5"};
    static const mask masks[] = {NO_MASK, BOOLEAN, WINDOW_OPEN, ADDITIVE};
    static const added terms[] = {NOTHING, BIAS, SINK, TEMPERATURES};
    double worst = 0.0;
    int64_t tiled = 0;
    for (uint64_t k = 0; k < 48; k++) {
        recipe w = base(k + 1);
        w.method = methods[k % 3];
        w.mask = k % 3 == 0 ? NO_MASK : masks[k / 3 % 4];
        w.added = terms[k / 4 % 4];
        w.type = w.out_type = k % 2 == 0 ? OTA_F64 : OTA_F32;
        w.heads = 4;
        w.n = k % 7 == 0 ? 200 : 61;
        w.m = k % 7 == 0 ? 260 : 131;
        w.row_mass = k % 5 == 1 && w.method != methods[0];
        bench *t = malloc(sizeof *t);
        assert_non_null(t);
        set_up(t, &w, OTA_F64, false);
        const bool narrow = k % 8 == 3;
        t->x.options.precision = narrow ? OTA_PRECISION_F32 : OTA_PRECISION_AUTO;
        if (narrow) t->x.options.tolerance = 1e-4;
        t->x.options.threads = 1 + (int)(k % 3);
        expect_fine(t, make_plan(t));
        const ota_status forward = run_forward(t);
        ota_gradients got = inputs_only(t);
        if (forward == OTA_OK && run_backward(t) == OTA_OK && takes_tiles(t, &got)) {
            const ota_array *const all[] = {&got.queries, &got.keys, &got.values};
            double *kept[] = {keep_array(all[0]), keep_array(all[1]), keep_array(all[2])};
            expect_fine(t, ota_backward(t->plan, &t->x.arrays, &got, &t->x.result, &t->x.error));
            tiled++;
            for (int q = 0; q < 3; q++) {
                double *now = keep_array(all[q]), top = 0.0, away = 0.0;
                const int64_t *size = all[q]->size, total = size[0] * size[1] * size[2] * size[3];
                for (int64_t e = 0; e < total; e++) {
                    top = fmax(top, fabs(kept[q][e]));
                    const double here = fabs(now[e] - kept[q][e]);
                    away = fmax(away, isnan(here) ? (double)INFINITY : here);
                }
                const double spread = 4.0 * w.spread * sqrt((double)w.width) / w.temperature;
                const double u = unit_roundoff(w.type);
                const double ratio = away / (u * gradient_growth(spread) * fmax(top, 1.0));
                if (ratio > 1.0) print_recipe(&t->x);
                worst = fmax(worst, ratio);
                free(now);
                free(kept[q]);
            }
        }
        tear_down(t);
        free(t);
    }
    print_message("%" PRId64 " problems, worst %.2g of the bound\n", tiled, worst);
    assert_true(tiled >= 40);
    spec_check("DER-13 DER-14", worst, 1.0);
}

/* ---- without a forward of its own --------------------------------------------------------------- */

/* A plan that never ran gives the bits of one that did, whatever the method; without the caller's word it
 * refuses. */
static void test_solved_elsewhere(void **state) {
    (void)state;
    static const char *const methods[] = {
        "softmax",          "entmax:1.5",           "softmax/exact",
        "softmax/capped:2", "softmax/elastic:.5,3", "softmax/online:2"};
    double count = 0.0;
    for (uint64_t k = 0; k < sizeof methods / sizeof methods[0]; k++) {
        recipe w = base(k + 1);
        w.method = methods[k];
        w.n = w.m = 40;
        bench *t = malloc(sizeof *t);
        assert_non_null(t);
        set_up(t, &w, OTA_F32, false);
        expect_fine(t, make_plan(t));
        const ota_status forward = run_forward(t);
        assert_true(forward == OTA_OK || forward == OTA_FIXED_ITERS);
        ota_gradients got = inputs_only(t);
        got.solved = 1;
        expect_fine(t, ota_backward(t->plan, &t->x.arrays, &got, &t->x.result, &t->x.error));
        double *kept[] = {keep_array(&got.queries), keep_array(&got.keys), keep_array(&got.values)};
        ota_plan_free(t->plan);
        expect_fine(t, make_plan(t));
        got.solved = 0;
        count += ota_backward(t->plan, &t->x.arrays, &got, NULL, &t->x.error) != OTA_EINVAL;
        got.solved = 1;
        expect_fine(t, ota_backward(t->plan, &t->x.arrays, &got, &t->x.result, &t->x.error));
        count += different(&got.queries, kept[0]) + different(&got.keys, kept[1]) +
                 different(&got.values, kept[2]);
        for (int q = 0; q < 3; q++) free(kept[q]);
        tear_down(t);
        free(t);
    }
    spec_check("", count, 0.0);
}

/* ---- what is not finite ----------------------------------------------------------------------- */

static void put_poison(bench *t, uint64_t kind) {
    static const double poisons[] = {NAN, INFINITY, -INFINITY};
    const double x = poisons[kind % 3];
    const ota_array *const targets[] = {&t->x.problem.queries, &t->x.problem.keys,
                                        &t->x.arrays.values, &t->want.out_grad};
    const ota_array *a = targets[kind / 3 % 4];
    ota_array_set(a, 0, below(&t->d, a->size[1]), below(&t->d, a->size[2]),
                  below(&t->d, a->size[3]), x);
}

/* NaN where the pairwise form has it, the same numbers elsewhere. Pairs of such a query whose score is -inf
 * may be NaN too, and so may rows that forward called so. */
static void test_not_finite(void **state) {
    (void)state;
    double wrong = 0.0;
    for (uint64_t kind = 0; kind < 96; kind += (uint64_t)test_stride()) {
        recipe w = base(kind + 1);
        w.n = 60;
        w.m = 140;
        w.mask = (mask)(kind % MASKS);
        w.added = kind % 5 == 0 ? BIAS_WIDE_SHUT : NOTHING;
        w.dense_arrays = true;
        bench *t = malloc(sizeof *t);
        assert_non_null(t);
        set_up(t, &w, OTA_F32, false);
        put_poison(t, kind);
        const bool of_query = kind / 3 % 4 == 0;
        expect_fine(t, make_plan(t));
        const ota_status status = run_forward(t);
        assert_true(status == OTA_OK || status == OTA_NONFINITE_ROWS);
        const ota_status pairwise = run_backward(t);
        assert_true(pairwise == OTA_OK || pairwise == OTA_NONFINITE_ROWS);
        ota_gradients got = inputs_only(t);
        const ota_array *const all[] = {&got.queries, &got.keys, &got.values};
        double *kept[3];
        for (int k = 0; k < 3; k++) kept[k] = keep_array(all[k]);
        for (int given = 0; given < 2; given++) {
            got.solved = given;
            assert_true(takes_tiles(t, &got));
            const ota_status tiled =
                ota_backward(t->plan, &t->x.arrays, &got, &t->x.result, &t->x.error);
            /* With `solved` the status follows forward's lse, which tells of values in the fused pass alone. */
            assert_true(tiled == pairwise || (given && on_other_backend()));
            for (int k = 0; k < 3; k++) {
                double *now = keep_array(all[k]), top = 1.0;
                const int64_t *size = all[k]->size;
                const int64_t total = size[0] * size[1] * size[2] * size[3];
                for (int64_t q = 0; q < total; q++)
                    top = fmax(top, isfinite(kept[k][q]) ? fabs(kept[k][q]) : 0.0);
                double here = 0.0;
                for (int64_t q = 0; q < total; q++) {
                    const bool close = fabs(now[q] - kept[k][q]) <= 1e-4 * top ||
                                       (isnan(now[q]) && (of_query || given));
                    here += isnan(kept[k][q]) ? !isnan(now[q]) : !close;
                }
                if (here > 0.0) {
                    print_error("kind %d solved %d output %d: %g differ\n", (int)kind, given, k,
                                here);
                    print_recipe(&t->x);
                }
                wrong += here;
                free(now);
            }
        }
        for (int k = 0; k < 3; k++) free(kept[k]);
        tear_down(t);
        free(t);
    }
    spec_check("TOT-03", wrong, 0.0);
}

/* Of a query that may use no key nothing comes where columns are coupled, whatever it holds. */
static void test_idle_query(void **state) {
    (void)state;
    enum { IDLE = 18, ROWS = 53, KEYS = 135 };
    static uint8_t open[ROWS * KEYS];
    recipe w = base(5);
    w.method = "softmax/relaxed:.7";
    bench *t = malloc(sizeof *t);
    assert_non_null(t);
    set_up(t, &w, OTA_F64, false);
    memset(open, 1, sizeof open);
    memset(open + IDLE * KEYS, 0, KEYS);
    add_support(&t->x, OTA_SUPPORT_BOOLEAN, ota_array_of(open, OTA_BOOL, 1, 1, ROWS, KEYS), 0, 0);
    t->x.problem.supports = t->x.supports;
    for (int q = 0; q < 9; q++) ota_array_set(&t->x.problem.queries, 0, 0, IDLE, q, (double)NAN);
    expect_fine(t, make_plan(t));
    assert_true(run_forward(t) >= OTA_OK);
    ota_gradients got = inputs_only(t);
    assert_true(takes_tiles(t, &got));
    expect_fine(t, ota_backward(t->plan, &t->x.arrays, &got, &t->x.result, &t->x.error));
    double wrong = 0.0;
    for (int q = 0; q < 9; q++) {
        const double own = ota_array_get(&got.queries, 0, 0, IDLE, q);
        wrong += !(own >= 0.0 && own <= 0.0);
        for (int j = 0; j < KEYS; j++) wrong += !isfinite(ota_array_get(&got.keys, 0, 0, j, q));
    }
    spec_check("TOT-03", wrong, 0.0);
    tear_down(t);
    free(t);
}

TEST_FILE(test_backward_tiles) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_idle_query),
                                       cmocka_unit_test(test_masks_and_terms),
                                       cmocka_unit_test(test_large),
                                       cmocka_unit_test(test_nonfinite_upstream),
                                       cmocka_unit_test(test_same_bits),
                                       cmocka_unit_test(test_coupled),
                                       cmocka_unit_test(test_solved_elsewhere),
                                       cmocka_unit_test(test_not_finite)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
