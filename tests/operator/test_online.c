/* test_online.c: softmax rows in order, from exponentials in the plan's type (src/backend/cpu/rows/solve_rows.c), against the plain
 * backend's loops in f64: weights, outputs, what is left of the keys and gradients, with keys that fill one after another, rows
 * that fill many, rows whose open keys are far below the full ones, lengths and sinks, at every level. No key gives more than
 * its capacity, and the bits are the same for any number of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "backend_wrap.h"
#include "draw/random.h"
#include "groups.h"
#include "otattn.h"
#include "spec.h"

enum { HEADS = 2, WIDTH = 8, VALUES = 8, MOST = 100, KINDS = 24 };
enum { ROWS = HEADS * MOST * WIDTH, PAIRS = HEADS * MOST * MOST, LINE = HEADS * MOST };

static dice dice_state;

typedef struct outputs {
    float out[ROWS], coupling[PAIRS], queries[ROWS], keys[ROWS], values[ROWS];
    double remaining[LINE], lse[LINE];
} outputs;

typedef struct trial {
    float q[ROWS], k[ROWS], v[ROWS], grad[ROWS];
    int64_t n, m, length;
    double temperature, cap;
    bool has_sink;
} trial;

static trial *begin(int kind) {
    static const int64_t sizes[][2] = {{33, 37}, {64, 64}, {3, 9}, {97, 100}, {16, 24}};
    trial *t = calloc(1, sizeof *t);
    assert_non_null(t);
    dice_state = (dice)kind + 5;
    float *const all[] = {t->q, t->k, t->v, t->grad};
    for (int a = 0; a < 4; a++)
        for (int64_t e = 0; e < ROWS; e++) all[a][e] = (float)normal(&dice_state);
    t->n = sizes[kind % 5][0];
    t->m = sizes[kind % 5][1];
    t->length = kind % 6 == 5 ? t->m - 3 : t->m;
    t->cap = kind % 2 ? 1.3 : 3.0;
    /* The best keys are full, and what is open is e^-100 and less of them. */
    t->temperature = kind % 4 == 3 ? 0.01 : 1.0;
    t->has_sink = kind % 7 == 2;
    return t;
}

static void run(trial *t, const char *cpu, const char *backend, int threads, outputs *to) {
    const int64_t n = t->n, m = t->m;
    int64_t lengths[1] = {t->length};
    const ota_support support = {.kind = OTA_SUPPORT_LENGTHS,
                                 .array = ota_array_of(lengths, OTA_I64, 1, 1, 1, 1)};
    const ota_term sink = {.kind = OTA_TERM_SINK, .value = 0.5};
    ota_problem problem = {.size = sizeof problem,
                           .queries = ota_array_of(t->q, OTA_F32, 1, HEADS, n, WIDTH),
                           .keys = ota_array_of(t->k, OTA_F32, 1, HEADS, m, WIDTH),
                           .scale = 0.4,
                           .terms = &sink,
                           .term_count = t->has_sink,
                           .supports = &support,
                           .support_count = t->length < m};
    ota_options options = {
        .size = sizeof options, .gradients = 1, .threads = threads, .cpu = cpu, .backend = backend};
    ota_plan *plan;
    memset(to, 0, sizeof *to);
    assert_int_equal(ota_method_parse("softmax/online:1", &problem, &options, NULL), OTA_OK);
    problem.cap = t->cap;
    problem.temperature = t->temperature;
    for (int64_t e = 0; e < HEADS * m; e++) to->remaining[e] = t->cap;
    ota_arrays arrays = {.size = sizeof arrays,
                         .values = ota_array_of(t->v, OTA_F32, 1, HEADS, m, VALUES),
                         .out = ota_array_of(to->out, OTA_F32, 1, HEADS, n, VALUES),
                         .coupling = ota_array_of(to->coupling, OTA_F32, 1, HEADS, n, m),
                         .remaining = ota_array_of(to->remaining, OTA_F64, 1, HEADS, 1, m),
                         .lse = ota_array_of(to->lse, OTA_F64, 1, HEADS, 1, n)};
    ota_gradients want = {.size = sizeof want,
                          .out_grad = ota_array_of(t->grad, OTA_F32, 1, HEADS, n, VALUES),
                          .queries = ota_array_of(to->queries, OTA_F32, 1, HEADS, n, WIDTH),
                          .keys = ota_array_of(to->keys, OTA_F32, 1, HEADS, m, WIDTH),
                          .values = ota_array_of(to->values, OTA_F32, 1, HEADS, m, VALUES)};
    assert_int_equal(ota_plan_create(&plan, &problem, VALUES, &options, NULL), OTA_OK);
    assert_int_equal(ota_forward(plan, &arrays, NULL, NULL), OTA_OK);
    arrays.remaining = (ota_array){0};
    assert_int_equal(ota_backward(plan, &arrays, &want, NULL, NULL), OTA_OK);
    ota_plan_free(plan);
}

static double apart(const float *a, const float *b, int64_t count) {
    double worst = 0.0;
    for (int64_t k = 0; k < count; k++) {
        const double away = fabs((double)a[k] - (double)b[k]) / (1.0 + fabs((double)b[k]));
        worst = away <= worst ? worst : away;
    }
    return worst;
}

static void rows_in_order_agree_with_plain_loops(void **unused) {
    (void)unused;
    if (on_other_backend()) skip_because("plain loops would be compared with themselves");
    outputs *exact = malloc(sizeof *exact), *got = malloc(sizeof *got);
    outputs *other = malloc(sizeof *other);
    assert_true(exact != NULL && got != NULL && other != NULL);
    for (int kind = 0; kind < KINDS; kind++) {
        trial *t = begin(kind);
        /* Scores are rounded in f32 before a low temperature divides them. */
        const double bound = 4e-6 / t->temperature;
        run(t, NULL, "plain", 1, exact);
        for (int level = 0; ota_kernel_name(level) != NULL; level++) {
            const char *cpu = ota_kernel_name(level);
            run(t, cpu, NULL, 1, got);
            double left = 0.0, above = 0.0;
            for (int64_t e = 0; e < HEADS * t->m; e++) {
                double sum = 0.0;
                for (int64_t i = 0; i < t->n; i++)
                    sum += (double)got->coupling[(e / t->m * t->n + i) * t->m + e % t->m];
                left = fmax(left, fabs(got->remaining[e] - exact->remaining[e]));
                above = fmax(above, sum - t->cap * (1.0 + 1e-6));
            }
            spec_check("DER-23", apart(got->coupling, exact->coupling, PAIRS), bound);
            spec_check("DER-23", apart(got->out, exact->out, ROWS), bound);
            spec_check("DER-23", left, bound);
            spec_check("DER-23", above, 0.0);
            if (t->temperature < 1.0) continue;
            spec_check("DER-23", apart(got->queries, exact->queries, ROWS), bound);
            spec_check("DER-23", apart(got->keys, exact->keys, ROWS), bound);
            spec_check("DER-23", apart(got->values, exact->values, ROWS), bound);
            run(t, cpu, NULL, 3, other);
            assert_memory_equal(got, other, sizeof *got);
        }
        free(t);
    }
    free(exact);
    free(got);
    free(other);
}

/* Two rows of two keys. The first has scores t and 0, the second fills the first key with what the first row left, so that
 * dL/dP of the first row counts for U - (U' of the filled key - U' of the other), U' of the second row: 4 and 3 here. One slope of
 * the first row outweighs the other by up to 1e200. With s as in test_jvp.c (mpmath, 60 digits), dL/dS = (s, -s) there, 0 in the
 * second row, and along (4, 3), too, dP = (s, -s), of which the second row takes the opposite. */
static const struct {
    double order, t, moves;
} steep[] = {{3, 0.375, 1.0},
             {5, 0.1875, 1.24026360131692213},
             {10, 0.109375, 1.01409697787639338},
             {50, 0.0146484375, 1.38380082295207706}};

static void solve_steep(int k, const char *cpu, const char *backend) {
    double scores[4] = {steep[k].t, 0.0, 5.0, 0.0}, along[4] = {4.0, 3.0, 7.0, -1.0};
    double upstream[4] = {4.5, 3.0, 0.7, 0.2}, slopes[4], values[2] = {0.0, -1.0}, out[2], moved[2];
    ota_problem problem = {.size = sizeof problem,
                           .scores = ota_array_of(scores, OTA_F64, 1, 1, 2, 2),
                           .regulariser = OTA_ENTMAX,
                           .order = steep[k].order,
                           .temperature = 1.0,
                           .columns = OTA_COLUMNS_ONLINE,
                           .cap = 1.5};
    const ota_options options = {
        .size = sizeof options, .gradients = 1, .threads = 1, .cpu = cpu, .backend = backend};
    ota_arrays arrays = {.size = sizeof arrays,
                         .values = ota_array_of(values, OTA_F64, 1, 1, 2, 1),
                         .out = ota_array_of(out, OTA_F64, 1, 1, 2, 1)};
    const ota_gradients want = {.size = sizeof want,
                                .coupling_grad = ota_array_of(upstream, OTA_F64, 1, 1, 2, 2),
                                .scores = ota_array_of(slopes, OTA_F64, 1, 1, 2, 2)};
    const ota_tangents tangents = {.size = sizeof tangents,
                                   .scores = ota_array_of(along, OTA_F64, 1, 1, 2, 2),
                                   .out = ota_array_of(moved, OTA_F64, 1, 1, 2, 1)};
    ota_plan *plan;
    assert_int_equal(ota_plan_create(&plan, &problem, 1, &options, NULL), OTA_OK);
    assert_int_equal(ota_forward(plan, &arrays, NULL, NULL), OTA_OK);
    assert_int_equal(ota_backward(plan, &arrays, &want, NULL, NULL), OTA_OK);
    assert_int_equal(ota_jvp(plan, &arrays, &tangents, NULL, NULL), OTA_OK);
    ota_plan_free(plan);
    const double s = steep[k].moves, most = 64.0 * steep[k].order * 0x1p-52 * s;
    const double wanted[6] = {s, -s, 0.0, 0.0, s, -s};
    const double found[6] = {slopes[0], slopes[1], slopes[2], slopes[3], moved[0], moved[1]};
    for (int e = 0; e < 6; e++) {
        if (!(fabs(found[e] - wanted[e]) <= most))
            fail_msg("order %g, %s, number %d: %.17g, not %.17g", steep[k].order,
                     backend != NULL ? backend : cpu, e, found[e], wanted[e]);
    }
}

static void steep_rows_in_order_keep_their_digits(void **state) {
    (void)state;
    for (int k = 0; k < (int)(sizeof steep / sizeof *steep); k++) {
        for (int level = 0; ota_kernel_name(level) != NULL; level++)
            solve_steep(k, ota_kernel_name(level), NULL);
        solve_steep(k, NULL, "plain");
    }
}

/* Beside a weight of 1 each of many is less than rounding: together they are 2^-40 of it, which the row's sum must hold. */
static void small_weights_add_up(void **state) {
    (void)state;
    enum { KEYS = 1 << 14, EDGE = 5 };
    double *const s = calloc(2 * KEYS, sizeof *s), *const p = s + KEYS;
    assert_non_null(s);
    for (int j = 0; j < KEYS; j++) s[j] = j == EDGE ? 0.0 : -54.0 * log(2.0);
    ota_problem problem = {.size = sizeof problem,
                           .scores = ota_array_of(s, OTA_F64, 1, 1, 1, KEYS),
                           .temperature = 1.0,
                           .columns = OTA_COLUMNS_ONLINE,
                           .cap = 2.0 * (double)KEYS};
    const ota_arrays arrays = {.size = sizeof arrays,
                               .coupling = ota_array_of(p, OTA_F64, 1, 1, 1, KEYS)};
    for (int level = 0;; level++) {
        const char *const cpu = ota_kernel_name(level);
        const ota_options options = {.size = sizeof options,
                                     .threads = 1,
                                     .cpu = cpu,
                                     .backend = cpu == NULL ? "plain" : NULL};
        assert_int_equal(ota_attend(&problem, &options, &arrays, NULL, NULL), OTA_OK);
        const double rest = (KEYS - 1) * 0x1p-54;
        spec_check("DER-23", fabs(p[EDGE] - 1.0 / (1.0 + rest)), 4.0 * 0x1p-53);
        if (cpu == NULL) break;
    }
    free(s);
}

TEST_FILE(test_online) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_in_order_agree_with_plain_loops),
                                       cmocka_unit_test(steep_rows_in_order_keep_their_digits),
                                       cmocka_unit_test(small_weights_add_up)};
    return cmocka_run_group_tests_name("online", tests, NULL, NULL);
}
