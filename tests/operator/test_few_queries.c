/* test_few_queries.c: plans of few queries whose rows are solved one by one (src/backend/cpu/forward/score_rows.c) read keys and
 * values where they lie. Each is compared with the plan of the same problem that packs them, as one with gradients does:
 * every level, types, strides, masks over values that are not finite, and such values in use; the same bits for any
 * number of threads. */
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
#include "problem/problem.h"
#include "spec.h"

static dice dice_state;

enum { KEYS = 333, HEADS = 4, KEY_HEADS = 2, WIDTH = 40, VALUES = 33, GAP = 3, MOST = 4 };

static const char *const methods[] = {
    "sparsemax",          "entmax:1.5",           "entmax:1.3",         "hard",
    "softmax/online:1.5", "sparsemax/online:0.5", "entmax:1.5/online:2"};

enum { METHODS = sizeof methods / sizeof methods[0] };

typedef struct trial {
    ota_type type;
    int64_t queries, gap;
    double *memory; /* room for numbers of any type */
    ota_array q, k, v;
    float out[2][HEADS * MOST * VALUES], coupling[2][HEADS * MOST * KEYS];
    float receiver[2][HEADS * KEYS];
} trial;

static ota_array draw(trial *t, double *to, int64_t heads, int64_t rows, int64_t columns) {
    ota_array a = ota_array_of(to, t->type, 1, heads, rows, columns);
    for (int d = 0; d < 4; d++) a.stride[d] *= t->gap;
    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t c = 0; c < columns; c++)
                ota_array_set(&a, 0, h, i, c, normal(&dice_state));
    return a;
}

/* Element e becomes its size times `sign`. */
static void set_size(const ota_array *a, int64_t e, double sign) {
    const int64_t c = e % a->size[3], i = e / a->size[3] % a->size[2],
                  h = e / a->size[3] / a->size[2];
    ota_array_set(a, 0, h, i, c, sign * fabs(ota_array_get(a, 0, h, i, c)));
}

static void begin(trial *t, ota_type type, int64_t queries, int64_t gap) {
    const int64_t q = HEADS * MOST * WIDTH, k = KEY_HEADS * KEYS * WIDTH;
    memset(t, 0, sizeof *t);
    t->type = type;
    t->queries = queries;
    t->gap = gap;
    t->memory = malloc((size_t)((q + k + KEY_HEADS * KEYS * VALUES) * GAP) * sizeof(double));
    assert_non_null(t->memory);
    t->q = draw(t, t->memory, HEADS, queries, WIDTH);
    t->k = draw(t, t->memory + q * GAP, KEY_HEADS, KEYS, WIDTH);
    t->v = draw(t, t->memory + (q + k) * GAP, KEY_HEADS, KEYS, VALUES);
}

/* Outputs into place `which`: 0 reads in place, 1 packs. */
static ota_status run(trial *t, const char *method, int which, bool all, int threads,
                      const char *cpu, const ota_support *support, ota_result *result) {
    ota_problem problem = {.size = sizeof problem, .queries = t->q, .keys = t->k, .scale = 0.2};
    ota_options options = {
        .size = sizeof options, .gradients = which, .threads = threads, .cpu = cpu};
    ota_arrays arrays = {.size = sizeof arrays,
                         .values = t->v,
                         .out = ota_array_of(t->out[which], OTA_F32, 1, HEADS, t->queries, VALUES)};
    if (all) {
        arrays.coupling = ota_array_of(t->coupling[which], OTA_F32, 1, HEADS, t->queries, KEYS);
        arrays.receiver = ota_array_of(t->receiver[which], OTA_F32, 1, HEADS, 1, KEYS);
    }
    char text[2048];
    ota_plan *plan;
    assert_int_equal(ota_method_parse(method, &problem, &options, NULL), OTA_OK);
    problem.supports = support;
    problem.support_count = support != NULL;
    assert_int_equal(ota_plan_create(&plan, &problem, VALUES, &options, NULL), OTA_OK);
    (void)ota_plan_describe(plan, text, sizeof text);
    if (!on_other_backend())
        assert_int_equal(strstr(text, "read where they lie") != NULL, which == 0);
    const ota_status status = ota_forward(plan, &arrays, result, NULL);
    ota_plan_free(plan);
    return status;
}

static double apart(const float *a, const float *b, int64_t count) {
    double worst = 0.0;
    for (int64_t k = 0; k < count; k++) {
        if (isnan(a[k]) && isnan(b[k])) continue;
        const double away = fabs((double)a[k] - (double)b[k]);
        worst = away <= worst ? worst : away;
    }
    return worst;
}

/* Largest difference of everything; infinite where one is NaN and the other is not. */
static double difference(const trial *t, bool all) {
    double worst = apart(t->out[0], t->out[1], HEADS * t->queries * VALUES);
    if (all) {
        worst = fmax(worst, apart(t->coupling[0], t->coupling[1], HEADS * t->queries * KEYS));
        worst = fmax(worst, apart(t->receiver[0], t->receiver[1], HEADS * KEYS));
    }
    return worst;
}

static void equals_what_packs(void **unused) {
    (void)unused;
    static const ota_type types[] = {OTA_F64, OTA_F32, OTA_BF16, OTA_F16};
    trial *t = malloc(sizeof *t);
    assert_non_null(t);
    dice_state = 5;
    for (int draw_index = 0; draw_index < 8 * METHODS; draw_index++) {
        const char *method = methods[draw_index % METHODS];
        const int kind = draw_index / METHODS;
        begin(t, types[kind % 4], 1 + draw_index % MOST, kind % 2 == 0 ? 1 : GAP);
        int64_t counts[1] = {KEYS - 7 * kind};
        const ota_support support = {.kind = OTA_SUPPORT_LENGTHS,
                                     .array = ota_array_of(counts, OTA_I64, 1, 1, 1, 1)};
        const bool all = kind % 3 != 0;
        assert_int_equal(run(t, method, 1, all, 1, NULL, &support, NULL), OTA_OK);
        for (int level = 0; ota_kernel_name(level) != NULL; level++) {
            const char *cpu = ota_kernel_name(level);
            memset(t->out[0], 0xff, sizeof t->out[0]);
            assert_int_equal(run(t, method, 0, all, 1, cpu, &support, NULL), OTA_OK);
            spec_check("LIT-10 LIT-11", difference(t, all), 2e-5);
        }
        float first[HEADS * MOST * VALUES];
        assert_int_equal(run(t, method, 0, all, 1, NULL, &support, NULL), OTA_OK);
        memcpy(first, t->out[0], sizeof first);
        for (int threads = 2; threads <= 5; threads += 3) {
            assert_int_equal(run(t, method, 0, all, threads, NULL, &support, NULL), OTA_OK);
            assert_memory_equal(first, t->out[0], sizeof first);
        }
        free(t->memory);
    }
    free(t);
}

/* Values that are not finite: behind the mask and without weight they have no effect, in use they poison their rows. */
static void nonfinite_values(void **unused) {
    (void)unused;
    enum { LAST = 300 };
    trial *t = malloc(sizeof *t);
    assert_non_null(t);
    dice_state = 6;
    int64_t counts[1] = {LAST};
    const ota_support support = {.kind = OTA_SUPPORT_LENGTHS,
                                 .array = ota_array_of(counts, OTA_I64, 1, 1, 1, 1)};
    for (int draw_index = 0; draw_index < 4 * METHODS; draw_index++) {
        const char *method = methods[draw_index % METHODS];
        begin(t, draw_index % 2 == 0 ? OTA_F32 : OTA_BF16, 1 + draw_index % MOST, 1);
        /* Scores below 0: weights are no scores. */
        for (int64_t e = 0; draw_index >= 2 * METHODS && e < HEADS * t->queries * WIDTH; e++)
            set_size(&t->q, e, 1.0);
        for (int64_t e = 0; draw_index >= 2 * METHODS && e < KEY_HEADS * KEYS * WIDTH; e++)
            set_size(&t->k, e, -1.0);
        for (int64_t j = LAST; j < KEYS; j++) ota_array_set(&t->v, 0, j % 2, j, 3, (double)NAN);
        for (int64_t j = 0; draw_index >= METHODS && j < LAST; j += 5)
            ota_array_set(&t->v, 0, 0, j, j % VALUES, (double)INFINITY);
        ota_result result[2] = {{.size = sizeof result[0]}, {.size = sizeof result[1]}};
        ota_status status[2];
        for (int which = 0; which < 2; which++)
            status[which] = run(t, method, which, true, 1, NULL, &support, &result[which]);
        assert_int_equal(status[0], status[1]);
        assert_int_equal(result[0].nonfinite_rows, result[1].nonfinite_rows);
        assert_int_equal(status[0] == OTA_NONFINITE_ROWS, result[0].nonfinite_rows > 0);
        spec_check("LIT-10 LIT-11", difference(t, true), 2e-5);
        if (draw_index < METHODS) assert_int_equal(status[0], OTA_OK);
        assert_int_equal(run(t, method, 0, false, 1, NULL, &support, &result[0]), status[1]);
        assert_int_equal(result[0].nonfinite_rows, result[1].nonfinite_rows);
        spec_check("LIT-10 LIT-11", difference(t, false), 2e-5);
        free(t->memory);
    }
    free(t);
}

/* Exact columns after no rounds are rows alone, in place or packed: a row without a key is infeasible only if it
 * has mass. */
static void a_row_without_mass_needs_no_key(void **unused) {
    (void)unused;
    enum { QUERIES = 2 };
    trial *t = malloc(sizeof *t);
    assert_non_null(t);
    dice_state = 7;
    begin(t, OTA_F32, QUERIES, 1);
    unsigned char open[QUERIES * KEYS];
    for (int k = 0; k < QUERIES * KEYS; k++) open[k] = k >= KEYS;
    const ota_support support = {.kind = OTA_SUPPORT_BOOLEAN,
                                 .array = ota_array_of(open, OTA_BOOL, 1, 1, QUERIES, KEYS)};
    for (int k = 0; k < 8; k++) {
        const char *method = k / 4 == 0 ? "softmax/exact" : "sparsemax/exact";
        const bool packs = k / 2 % 2 == 1, massive = k % 2 == 1;
        double mass[QUERIES] = {massive, 1.0};
        ota_problem problem = {.size = sizeof problem, .queries = t->q, .keys = t->k, .scale = 0.2};
        ota_options options = {.size = sizeof options, .gradients = packs, .threads = 1};
        assert_int_equal(ota_method_parse(method, &problem, &options, NULL), OTA_OK);
        options.rounds = OTA_NO_ROUNDS;
        problem.supports = &support;
        problem.support_count = 1;
        problem.row_mass = ota_array_of(mass, OTA_F64, 1, 1, 1, QUERIES);
        ota_arrays arrays = {.size = sizeof arrays, .values = t->v};
        arrays.out = ota_array_of(t->out[packs], OTA_F32, 1, HEADS, QUERIES, VALUES);
        ota_result result = {.size = sizeof result};
        const ota_status status = ota_attend(&problem, &options, &arrays, &result, NULL);
        if (massive ? status != OTA_INFEASIBLE : status < OTA_OK || result.empty_rows != HEADS)
            fail_msg("%s, %s, mass %d: %d, %d rows without a key", method,
                     packs ? "packed" : "in place", massive, (int)status, (int)result.empty_rows);
    }
    free(t->memory);
    free(t);
}

TEST_FILE(test_few_queries) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_what_packs),
        cmocka_unit_test(nonfinite_values),
        cmocka_unit_test(a_row_without_mass_needs_no_key),
    };
    return cmocka_run_group_tests_name("few queries", tests, NULL, NULL);
}
