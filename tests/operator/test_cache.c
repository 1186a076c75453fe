/* test_cache.c: few queries against many keys (src/backend/cpu/forward/decode_rows.c). Answers of softmax are compared with
 * plain double loops over several pieces of the key axis: every level, strides, narrow types, a mask over NaN
 * values, sinks and extreme scores; the same bits for any number of threads; more outputs change no bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "backend_wrap.h"
#include "draw/random.h"
#include "groups.h"
#include "otattn.h"
#include "spec.h"

enum { QUERIES = 3, KEYS = 2100, HEADS = 4, KEY_HEADS = 2, WIDTH = 40, VALUES = 33, GAP = 5 };

static float number(uint64_t *state) { return (float)(uniform(state) - 0.5) * 3.4f; }

static float *numbers(uint64_t seed, int64_t count) {
    float *x = malloc((size_t)count * sizeof *x);
    assert_non_null(x);
    for (int64_t k = 0; k < count; k++) x[k] = number(&seed);
    return x;
}

typedef struct trial {
    float *q, *k, *v, *out, *lse;
    bool gaps; /* elements of keys and values GAP apart */
    ota_problem problem;
    ota_options options;
} trial;

static ota_array cut(float *data, int64_t heads, int64_t columns, bool gaps) {
    const int64_t step = gaps ? GAP : 1;
    ota_array a = ota_array_of(data, OTA_F32, 1, heads, KEYS, columns);
    for (int k = 0; k < 4; k++) a.stride[k] *= step;
    return a;
}

static void begin(trial *t, bool gaps) {
    const int64_t step = gaps ? GAP : 1;
    memset(t, 0, sizeof *t);
    t->gaps = gaps;
    t->q = numbers(1, HEADS * QUERIES * WIDTH);
    t->k = numbers(2, KEY_HEADS * KEYS * WIDTH * step);
    t->v = numbers(3, KEY_HEADS * KEYS * VALUES * step);
    t->out = numbers(4, HEADS * QUERIES * VALUES);
    t->lse = numbers(5, HEADS * QUERIES);
    t->problem = (ota_problem){.size = sizeof t->problem,
                               .queries = ota_array_of(t->q, OTA_F32, 1, HEADS, QUERIES, WIDTH),
                               .keys = cut(t->k, KEY_HEADS, WIDTH, gaps),
                               .scale = 0.4};
    t->options = (ota_options){.size = sizeof t->options, .threads = 1};
}

static void end(trial *t) {
    free(t->q);
    free(t->k);
    free(t->v);
    free(t->out);
    free(t->lse);
}

static ota_arrays arrays_of(trial *t) {
    return (ota_arrays){.size = sizeof(ota_arrays),
                        .values = cut(t->v, KEY_HEADS, VALUES, t->gaps),
                        .out = ota_array_of(t->out, OTA_F32, 1, HEADS, QUERIES, VALUES),
                        .lse = ota_array_of(t->lse, OTA_F32, 1, HEADS, 1, QUERIES)};
}

/* Largest error of `out` in units of the policy's bound u A (8 + 4 B), keys [0, last) allowed. */
static double excess(const trial *t, int64_t last, double tau, double sink) {
    const int64_t step = t->gaps ? GAP : 1;
    double worst = 0.0, *p = malloc(KEYS * sizeof *p);
    for (int64_t row = 0; row < HEADS * QUERIES; row++) {
        const int64_t home = row / QUERIES / (HEADS / KEY_HEADS) * KEYS;
        double top = sink, sum = 0.0, size = 0.0;
        for (int64_t j = 0; j < last; j++) {
            double terms = 0.0;
            p[j] = 0.0;
            for (int64_t w = 0; w < WIDTH; w++) {
                const double term =
                    (double)t->q[row * WIDTH + w] * (double)t->k[((home + j) * WIDTH + w) * step];
                p[j] += term;
                terms += fabs(term);
            }
            p[j] *= (double)(float)t->problem.scale;
            size = fmax(size, terms * t->problem.scale / tau);
            top = fmax(top, p[j]);
        }
        for (int64_t j = 0; j < last; j++) sum += p[j] = exp((p[j] - top) / tau);
        if (sink > -INFINITY) sum += exp((sink - top) / tau);
        for (int64_t w = 0; w < VALUES; w++) {
            double exact = 0.0, bound = 0.0;
            for (int64_t j = 0; j < last; j++) {
                const double term = p[j] / sum * (double)t->v[((home + j) * VALUES + w) * step];
                exact += term;
                bound += fabs(term);
            }
            const double away = fabs((double)t->out[row * VALUES + w] - exact);
            const double unit = 0x1p-24 * (bound * (8.0 + 4.0 * size) + fabs(exact)) + FLT_MIN;
            worst = !(away / unit <= worst) ? away / unit : worst;
        }
        const double lse = fabs((double)t->lse[row] - (log(sum) + top / tau));
        const double unit = 0x1p-24 * (8.0 + 4.0 * size + fabs(log(sum) + top / tau));
        worst = !(lse / unit <= worst) ? lse / unit : worst;
    }
    free(p);
    return worst;
}

static void run(trial *t, const ota_arrays *arrays) {
    ota_error error = {.message = ""};
    ota_plan *plan = NULL;
    char text[2048];
    assert_int_equal(ota_plan_create(&plan, &t->problem, VALUES, &t->options, &error), OTA_OK);
    (void)ota_plan_describe(plan, text, sizeof text);
    assert_true(on_other_backend() || strstr(text, "path: keys in place") != NULL);
    assert_int_equal(ota_forward(plan, arrays, NULL, &error), OTA_OK);
    ota_plan_free(plan);
}

static void answers_are_right(void **unused) {
    (void)unused;
    for (int level = 0; ota_kernel_name(level) != NULL; level++) {
        for (int gaps = 0; gaps < 2; gaps++) {
            trial t;
            begin(&t, gaps != 0);
            t.options.cpu = ota_kernel_name(level);
            ota_arrays arrays = arrays_of(&t);
            run(&t, &arrays);
            spec_check("LIT-01", excess(&t, KEYS, 1.0, -INFINITY), 1.0);
            end(&t);
        }
    }
}

/* Scores whose exponentials leave f32: sharp temperatures, and sums of one piece that vanish beside another's. */
static void sharp_rows_and_sinks(void **unused) {
    (void)unused;
    const double taus[] = {1e-3, 0.1, 30.0}, sinks[] = {-INFINITY, 2.0, 40.0};
    for (int k = 0; k < 9; k++) {
        trial t;
        begin(&t, false);
        t.problem.temperature = taus[k % 3];
        ota_term sink = {.kind = OTA_TERM_SINK, .value = sinks[k / 3]};
        if (k >= 3) {
            t.problem.terms = &sink;
            t.problem.term_count = 1;
        }
        ota_arrays arrays = arrays_of(&t);
        run(&t, &arrays);
        spec_check("LIT-01", excess(&t, KEYS, taus[k % 3], sinks[k / 3]), 1.0);
        end(&t);
    }
}

/* NaN behind the mask, in keys and in values, has no effect; in use it poisons its rows alone. */
static void masked_values_are_not_used(void **unused) {
    (void)unused;
    enum { LAST = 1300 };
    trial t;
    begin(&t, false);
    int64_t counts[1] = {LAST};
    ota_support support = {.kind = OTA_SUPPORT_LENGTHS,
                           .array = ota_array_of(counts, OTA_I64, 1, 1, 1, 1)};
    t.problem.supports = &support;
    t.problem.support_count = 1;
    for (int64_t j = LAST; j < KEYS; j++) t.k[j * WIDTH] = t.v[j * VALUES + 1] = NAN;
    ota_arrays arrays = arrays_of(&t);
    run(&t, &arrays);
    t.v[LAST * VALUES + 1] = 1.0f;
    spec_check("LIT-01", excess(&t, LAST, 1.0, -INFINITY), 1.0);
    t.v[7 * VALUES] = INFINITY;
    ota_result result = {.size = sizeof result};
    assert_int_equal(ota_attend(&t.problem, &t.options, &arrays, &result, NULL),
                     OTA_NONFINITE_ROWS);
    assert_int_equal(result.nonfinite_rows, HEADS / KEY_HEADS * QUERIES);
    for (int64_t k = 0; k < HEADS * QUERIES * VALUES; k++)
        assert_int_equal(isnan(t.out[k]) != 0, k < HEADS / KEY_HEADS * QUERIES * VALUES);
    end(&t);
}

static void bits_do_not_change(void **unused) {
    (void)unused;
    trial t;
    begin(&t, false);
    const size_t bytes = sizeof(float) * HEADS * QUERIES * VALUES;
    float *first = malloc(bytes), *receiver = numbers(6, HEADS * KEYS);
    ota_arrays arrays = arrays_of(&t);
    run(&t, &arrays);
    memcpy(first, t.out, bytes);
    for (int threads = 2; threads <= 3; threads++) {
        t.options.threads = threads;
        run(&t, &arrays);
        assert_memory_equal(first, t.out, bytes);
    }
    arrays.receiver = ota_array_of(receiver, OTA_F32, 1, HEADS, 1, KEYS);
    run(&t, &arrays);
    assert_memory_equal(first, t.out, bytes);
    for (int64_t h = 0; h < HEADS; h++) {
        double mass = 0.0;
        for (int64_t j = 0; j < KEYS; j++) mass += (double)receiver[h * KEYS + j];
        assert_true(fabs(mass - (double)QUERIES) <= 1e-5);
    }
    free(first);
    free(receiver);
    end(&t);
}

TEST_FILE(test_cache) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_right),
        cmocka_unit_test(sharp_rows_and_sinks),
        cmocka_unit_test(masked_values_are_not_used),
        cmocka_unit_test(bits_do_not_change),
    };
    return cmocka_run_group_tests_name("cache", tests, NULL, NULL);
}
