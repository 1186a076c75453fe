/* test_backward_single.c: gradients of scores, queries, keys and values in f32 against the same problem in f64,
 * element by element within u M (32 + 8 B) of numeric policy 3.3. M is the gradient's own formula on absolute
 * values, in double loops. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "backend_wrap.h"
#include "backward_support.h"
#include "groups.h"
#include "spec.h"

static void copy_into(const ota_array *to, const ota_array *from) {
    for (int64_t b = 0; b < to->size[0]; b++) {
        for (int64_t h = 0; h < to->size[1]; h++) {
            for (int64_t i = 0; i < to->size[2]; i++) {
                for (int64_t j = 0; j < to->size[3]; j++)
                    ota_array_set(to, b, h, i, j, ota_array_get(from, b, h, i, j));
            }
        }
    }
}

/* Solved to 1e-9; with `looser` backward is another plan's, whose tolerance lets it work in f32. */
static void solve_both(bench *t, bool looser) {
    t->x.options.tolerance = 1e-9;
    ota_status status = make_plan(t);
    if (status == OTA_OK) status = run_forward(t);
    if (status >= OTA_OK && looser) {
        ota_plan_free(t->plan);
        t->x.options.tolerance = 1e-5;
        t->want.solved = 1;
        status = make_plan(t);
    }
    if (status >= OTA_OK) status = run_backward(t);
    if (status == OTA_OK) return;
    print_error("%d: %s\n", (int)status, t->x.error.message);
    print_recipe(&t->x);
    fail();
}

/* How far w = y^((2 - alpha) / (alpha - 1)), y = p^(alpha - 1), moves when y does by what rounding moves scores:
 * relative to w for entropy, absolute for Tsallis, as for the weights in tolerance.h. */
static double slope_slack(double order, double p, double growth) {
    if (order <= 1.0 || !(p > 0.0)) return 0.0;
    const double power = (2.0 - order) / (order - 1.0), y = pow(p, order - 1.0);
    const double step = (order - 1.0) * unit_roundoff(OTA_F32) * growth;
    return pow(y + step, power) - (y > step ? pow(y - step, power) : 0.0);
}

enum { MOST = 24 };

/* One head in f64: what the bound is made of. */
typedef struct terms {
    double p[MOST][MOST], slope[MOST][MOST]; /* P and w */
    double size[MOST][MOST];                 /* |dL/d out| |V|^T + |dL/dP| */
    double growth[MOST];                     /* 32 + 8 B */
    double score[MOST][MOST];                /* what dL/dS may be off by */
    double weight[MOST][MOST];               /* what P may be off by */
    double moved[MOST]; /* what rounding of a row's scores does to the sum of its w */
    bool edge;          /* a weight lies where rounding decides whether it is 0 */
} terms;

static double size_at(const ota_array *a, int64_t h, int64_t i, int64_t j) {
    return fabs(ota_array_get(a, 0, h, i, j));
}

static void measure_head(const bench *wide, double order, int64_t h, terms *t) {
    const recipe *w = &wide->x.want;
    const ota_problem *p = &wide->x.problem;
    const double scale = 1.0 / sqrt((double)w->width), u = unit_roundoff(OTA_F32);
    const int64_t key_head = h / (w->heads / w->key_heads);
    memset(t, 0, sizeof *t);
    for (int64_t i = 0; i < w->n; i++) {
        double bound = 0.0;
        for (int64_t j = 0; j < w->m; j++) {
            double large = 0.0;
            t->p[i][j] = ota_array_get(&wide->x.arrays.coupling, 0, h, i, j);
            t->slope[i][j] = t->p[i][j] > 0.0 ? pow(t->p[i][j], 2.0 - order) : 0.0;
            t->size[i][j] = size_at(&wide->want.coupling_grad, h, i, j);
            for (int64_t q = 0; q < w->values_width; q++)
                t->size[i][j] += size_at(&wide->want.out_grad, h, i, q) *
                                 size_at(&wide->x.arrays.values, key_head, j, q);
            for (int64_t q = 0; q < w->width; q++)
                large += size_at(&p->queries, h, i, q) * size_at(&p->keys, key_head, j, q);
            bound = fmax(bound, scale * large / w->temperature);
        }
        t->growth[i] = gradient_growth(bound);
        for (int64_t j = 0; j < w->m; j++) {
            const double q = t->p[i][j];
            t->moved[i] += slope_slack(order, q, t->growth[i]);
            t->weight[i][j] = weight_slack(order, q, 1.0, u, t->growth[i]);
            t->edge |= order > 1.0 && q > 0.0 && pow(q, order - 1.0) < 16.0 * u * (1.0 + bound);
        }
    }
}

/* M_ij of dL/dS = w (U - a - b) / tau with |U| for U. Rows alone: |a| is the row's mean of |U|. Else the
 * multipliers solve a system with U on its right side, and |a| + |b| <= 3 max |U|. Slopes of Tsallis move with
 * their scores besides, and every row's mean with its slopes. */
static void bound_scores(const bench *wide, double order, terms *t) {
    const recipe *w = &wide->x.want;
    const double u = unit_roundoff(OTA_F32), tau = w->temperature;
    const bool free = strchr(w->method, '/') == NULL, prefix = strstr(w->method, "/prefix") != NULL;
    double top = 0.0;
    for (int64_t i = 0; i < w->n; i++) {
        for (int64_t j = 0; j < w->m; j++) top = fmax(top, t->size[i][j]);
    }
    for (int64_t i = 0; i < w->n; i++) {
        double total = 0.0, sum = 0.0;
        for (int64_t j = 0; j < w->m; j++) {
            total += t->slope[i][j];
            sum += t->slope[i][j] * t->size[i][j];
        }
        const double mean = total > 0.0 ? sum / total : 0.0;
        for (int64_t j = 0; j < w->m; j++) {
            /* The gradient of a prefix row reaches rows of other blocks, with their weights. */
            const double slope = prefix ? 1.0 : t->slope[i][j];
            const double M = free ? t->size[i][j] + mean : 4.0 * top;
            const double wobble = slope_slack(order, t->p[i][j], t->growth[i]) +
                                  (total > 0.0 ? slope * t->moved[i] / total : 0.0);
            /* A weight in f32 is no closer than 2^-149. */
            t->score[i][j] = ((u * t->growth[i] * slope + 0x1p-149) * M + wobble * 4.0 * top) / tau;
        }
    }
}

typedef struct ratios {
    int promoted; /* problems whose gradients were all formed in f64 */
    double scores, queries, keys, values;
} ratios;

static double error_at(const ota_array *narrow, const ota_array *wide, int64_t h, int64_t i,
                       int64_t j, double slack) {
    const double want = ota_array_get(wide, 0, h, i, j), got = ota_array_get(narrow, 0, h, i, j);
    const double error = fabs(got - want) / (slack + storing(OTA_F32, want));
    return isnan(error) ? INFINITY : error;
}

/* What the gradients of the keys and values of one key head may be off by. */
typedef struct slacks {
    double keys[MOST][MOST], values[MOST][MOST];
} slacks;

/* dQ = scale dS K, dK = scale dS^T Q, dV = P^T dL/dout, each with absolute values for its terms. */
static void compare_head(const bench *narrow, const bench *wide, int64_t h, const terms *t,
                         slacks *of_keys, ratios *to) {
    const recipe *w = &wide->x.want;
    const ota_gradients *n = &narrow->want, *g = &wide->want;
    const ota_problem *p = &wide->x.problem;
    const double scale = 1.0 / sqrt((double)w->width), u = unit_roundoff(OTA_F32);
    const int64_t group = w->heads / w->key_heads, key_head = h / group;
    if (h % group == 0) *of_keys = (slacks){0};
    for (int64_t i = 0; i < w->n; i++) {
        double queries[MOST] = {0.0};
        for (int64_t j = 0; j < w->m; j++) {
            const double slack = t->score[i][j];
            const double product = slack + u * t->growth[i] * size_at(&g->scores, h, i, j);
            to->scores = fmax(to->scores, error_at(&n->scores, &g->scores, h, i, j, slack));
            for (int64_t q = 0; q < w->width; q++) {
                queries[q] += scale * product * size_at(&p->keys, key_head, j, q);
                of_keys->keys[j][q] += scale * product * size_at(&p->queries, h, i, q);
            }
            const double weight = t->weight[i][j] + u * t->growth[i] * t->p[i][j];
            for (int64_t q = 0; q < w->values_width; q++)
                of_keys->values[j][q] += weight * size_at(&g->out_grad, h, i, q);
        }
        for (int64_t q = 0; q < w->width; q++)
            to->queries =
                fmax(to->queries, error_at(&n->queries, &g->queries, h, i, q, queries[q]));
    }
    for (int64_t j = 0; j < w->m && h % group == group - 1; j++) {
        for (int64_t q = 0; q < w->width; q++)
            to->keys =
                fmax(to->keys, error_at(&n->keys, &g->keys, key_head, j, q, of_keys->keys[j][q]));
        for (int64_t q = 0; q < w->values_width; q++)
            to->values = fmax(to->values, error_at(&n->values, &g->values, key_head, j, q,
                                                   of_keys->values[j][q]));
    }
}

static bench *solved(const recipe *w, ota_type type, const bench *like, bool looser) {
    bench *t = malloc(sizeof *t);
    assert_non_null(t);
    set_up(t, w, type, true);
    if (like != NULL) {
        widen(t, &t->x.problem.queries);
        widen(t, &t->x.problem.keys);
        widen(t, &t->x.arrays.values);
        copy_into(&t->want.out_grad, &like->want.out_grad);
        copy_into(&t->want.coupling_grad, &like->want.coupling_grad);
    }
    solve_both(t, looser);
    return t;
}

/* False: a weight lies where rounding decides whether it is 0, and with it the gradient of its neighbours. */
static bool check_one(const recipe *w, double order, bool looser, ratios *to) {
    bench *narrow = solved(w, OTA_F32, NULL, looser), *wide = solved(w, OTA_F64, narrow, false);
    to->promoted += narrow->x.result.promoted != 0;
    terms *t = malloc(sizeof *t);
    assert_non_null(t);
    slacks of_keys = {0};
    bool decided = true;
    for (int64_t h = 0; h < w->heads; h++) {
        measure_head(wide, order, h, t);
        decided &= !t->edge;
        if (t->edge) continue;
        bound_scores(wide, order, t);
        compare_head(narrow, wide, h, t, &of_keys, to);
    }
    free(t);
    tear_down(narrow);
    tear_down(wide);
    free(narrow);
    free(wide);
    return decided;
}

static void test_single_against_double(void **state) {
    (void)state;
    static const struct {
        const char *ids, *method;
        double order;
    } table[] = {{"LIT-17 LIT-21", "softmax", 1.0},      {"DER-12", "entmax:1.5", 1.5},
                 {"DER-12", "sparsemax", 2.0},           {"DER-13", "softmax/exact", 1.0},
                 {"DER-14", "softmax/relaxed:.7", 1.0},  {"DER-14", "softmax/capped:1.3", 1.0},
                 {"DER-14", "softmax/prefix", 1.0},      {"DER-15", "softmax/elastic:.4,3", 1.0},
                 {"DER-12", "softmax/online:1.5", 1.0},  {"DER-12", "sparsemax/online:4", 2.0},
                 {"DER-14", "entmax:1.5/exact", 1.5},    {"DER-14", "entmax:1.5/relaxed:.7", 1.5},
                 {"DER-14", "sparsemax/capped:1.4", 2.0}};
    static const mask masks[] = {NO_MASK, CAUSAL_BOTTOM_RIGHT, WINDOW, BOOLEAN_KEYS};
    for (size_t k = 0; k < sizeof table / sizeof table[0]; k++) {
        ratios worst = {0};
        int edges = 0, problems = 0;
        for (uint64_t seed = 1; seed <= 8; seed++) {
            const recipe w = {.method = table[k].method,
                              .type = OTA_F32,
                              .out_type = OTA_F32,
                              .batch = 1,
                              .heads = 2,
                              .key_heads = 2,
                              .n = 12,
                              .m = 19,
                              .width = 8,
                              .values_width = 5,
                              .temperature = 0.9,
                              .spread = 1.0,
                              .mask = strstr(table[k].method, "/exact") ? NO_MASK : masks[seed % 4],
                              .seed = seed};
            edges += !check_one(&w, table[k].order, false, &worst);
            problems++;
        }
        print_message("%s: scores %.2g queries %.2g keys %.2g values %.2g of the bound\n",
                      table[k].method, worst.scores, worst.queries, worst.keys, worst.values);
        assert_true(4 * edges <= problems);
        spec_check(table[k].ids, fmax(worst.scores, worst.queries), 1.0);
        spec_check("LIT-21", fmax(worst.keys, worst.values), 1.0);
    }
}

/* Implicit gradients that may work in f32, from nearly even to nearly permutations, where f32 is refused. */
static void test_implicit_in_single(void **state) {
    (void)state;
    static const char *const methods[] = {"softmax/exact", "softmax/relaxed:.7",
                                          "softmax/capped:1.3"};
    static const double temperatures[] = {0.9, 0.2, 0.05, 0.02};
    for (size_t k = 0; k < 3; k++) {
        int promoted[4] = {0};
        for (size_t q = 0; q < 4; q++) {
            ratios worst = {0};
            for (uint64_t seed = 1; seed <= 16; seed++) {
                const recipe w = {.method = methods[k],
                                  .type = OTA_F32,
                                  .out_type = OTA_F32,
                                  .batch = 1,
                                  .heads = 2,
                                  .key_heads = 1 + (int)(seed % 2),
                                  .n = 19,
                                  .m = k == 0 ? 19 : 23,
                                  .width = 8,
                                  .values_width = 5,
                                  .temperature = temperatures[q],
                                  .spread = 1.0,
                                  .mask = NO_MASK,
                                  .seed = seed};
                (void)check_one(&w, 1.0, true, &worst);
            }
            promoted[q] = worst.promoted;
            print_message("%s at %g: %d of 16 in f64, scores %.2g queries %.2g keys %.2g values "
                          "%.2g of the bound\n",
                          methods[k], temperatures[q], worst.promoted, worst.scores, worst.queries,
                          worst.keys, worst.values);
            spec_check(k == 0 ? "DER-13" : "DER-14", fmax(worst.scores, worst.queries), 1.0);
            spec_check("LIT-21", fmax(worst.keys, worst.values), 1.0);
        }
        /* Another backend may form every gradient in f64. */
        assert_true(promoted[0] == 0 || on_other_backend());
        assert_true(promoted[3] > 0);
    }
}

TEST_FILE(test_backward_single) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_single_against_double),
                                       cmocka_unit_test(test_implicit_in_single)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
