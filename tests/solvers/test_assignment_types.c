/* test_assignment_types.c: matchings through the public call, from costs of every type.
 *
 * f32 holds the scores of a narrow matrix without terms exactly, so a plan may keep them so (`on scores in f32`) and
 * nothing may show: the same numbers in f64, f32, f16 and bf16 give the same bits, for any number of threads, and as
 * outputs alone, where no weights are written, what the weights give. Masses that are not one unit leave the matching to
 * the transportation simplex, in f64 as before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "backend_wrap.h"
#include "base/half.h"
#include "draw/random.h"
#include "groups.h"
#include "otattn.h"
#include "spec.h"

static dice dice_state;

enum { HEADS = 3, MOST = 210, WIDTH = 2 };

typedef struct stage {
    int64_t n, m;
    bool capped, masked, masses;
    double cost[HEADS * MOST * MOST];
    union {
        double wide[HEADS * MOST * MOST];
        float narrow[HEADS * MOST * MOST];
        uint16_t half[HEADS * MOST * MOST];
    } typed;
    double values[MOST * WIDTH], row_mass[MOST], column_mass[MOST];
    double weights[HEADS * MOST * MOST], out[HEADS * MOST * WIDTH];
    double f[HEADS * MOST], g[HEADS * MOST];
    ota_result result;
    char text[4096];
} stage;

/* Multiples of 1/16 below 16: bf16 holds them. */
static stage *make(int64_t n, int64_t m, bool masked, uint64_t seed) {
    stage *x = calloc(1, sizeof *x);
    assert_non_null(x);
    x->n = n;
    x->m = m;
    x->capped = n < m;
    x->masked = masked;
    dice_state = seed;
    for (int64_t k = 0; k < HEADS * n * m; k++) {
        x->cost[k] = floor(uniform(&dice_state) * 128.0) / 16.0;
        /* Every row keeps its way out. */
        if (masked && uniform(&dice_state) < 0.3 && k % m != (k / m) % n) x->cost[k] = INFINITY;
    }
    for (int64_t k = 0; k < m * WIDTH; k++) x->values[k] = uniform(&dice_state);
    for (int64_t i = 0; i < n; i++) x->row_mass[i] = 1.0 + (double)(i % 2);
    for (int64_t j = 0; j < m; j++) x->column_mass[j] = 1.0;
    return x;
}

static ota_status solve(stage *x, ota_type type, int threads, bool weights) {
    for (int64_t k = 0; k < HEADS * x->n * x->m; k++) {
        switch (type) {
        case OTA_F64: x->typed.wide[k] = x->cost[k]; break;
        case OTA_F32: x->typed.narrow[k] = (float)x->cost[k]; break;
        case OTA_F16: x->typed.half[k] = ota_f16_from_f64(x->cost[k]); break;
        default: x->typed.half[k] = ota_bf16_from_f64(x->cost[k]); break;
        }
    }
    ota_problem problem = {.size = sizeof problem, .cost = 1, .regulariser = OTA_HARD};
    problem.scores = ota_array_of(&x->typed, type, 1, HEADS, x->n, x->m);
    problem.columns = x->capped ? OTA_COLUMNS_CAPPED : OTA_COLUMNS_EXACT;
    if (x->capped) problem.cap = 1.0;
    problem.column_mass = ota_array_of(x->column_mass, OTA_F64, 1, 1, 1, x->m);
    if (x->masses) problem.row_mass = ota_array_of(x->row_mass, OTA_F64, 1, 1, 1, x->n);
    const ota_options options = {.size = sizeof options, .threads = threads};
    ota_error error = {.message = ""};
    ota_arrays arrays = {.size = sizeof arrays};
    float narrow_values[MOST * WIDTH];
    uint16_t half_values[MOST * WIDTH];
    for (int64_t k = 0; k < x->m * WIDTH; k++) {
        narrow_values[k] = (float)x->values[k];
        half_values[k] =
            type == OTA_F16 ? ota_f16_from_f64(x->values[k]) : ota_bf16_from_f64(x->values[k]);
    }
    void *values = type == OTA_F64   ? (void *)x->values
                   : type == OTA_F32 ? (void *)narrow_values
                                     : (void *)half_values;
    arrays.values = ota_array_of(values, type, 1, HEADS, x->m, WIDTH);
    arrays.values.stride[1] = 0;
    arrays.out = ota_array_of(x->out, OTA_F64, 1, HEADS, x->n, WIDTH);
    arrays.row_potential = ota_array_of(x->f, OTA_F64, 1, HEADS, 1, x->n);
    arrays.column_potential = ota_array_of(x->g, OTA_F64, 1, HEADS, 1, x->m);
    if (weights) arrays.coupling = ota_array_of(x->weights, OTA_F64, 1, HEADS, x->n, x->m);
    ota_plan *plan;
    assert_int_equal(ota_plan_create(&plan, &problem, x->m > 0 ? WIDTH : 0, &options, &error),
                     OTA_OK);
    (void)ota_plan_describe(plan, x->text, sizeof x->text);
    x->result = (ota_result){.size = sizeof x->result};
    const ota_status status = ota_forward(plan, &arrays, &x->result, &error);
    ota_plan_free(plan);
    return status;
}

static const ota_type types[] = {OTA_F64, OTA_F32, OTA_F16, OTA_BF16};
static const int64_t shapes[][2] = {{9, 9}, {5, 11}, {150, 150}, {130, 170}, {40, 140}};

static void all_types_give_the_same_bits(void **unused) {
    (void)unused;
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        for (int masked = 0; masked < 2; masked++) {
            stage *first = make(shapes[s][0], shapes[s][1], masked != 0, s + 1);
            assert_int_equal(solve(first, OTA_F64, 1, true), OTA_OK);
            assert_null(strstr(first->text, "scores in f32"));
            for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
                for (int threads = 1; threads < 6; threads += 2) {
                    stage *x = make(shapes[s][0], shapes[s][1], masked != 0, s + 1);
                    assert_int_equal(solve(x, types[t], threads, true), OTA_OK);
                    assert_true(on_other_backend() || (strstr(x->text, "scores in f32") != NULL) ==
                                                          (types[t] != OTA_F64));
                    assert_int_equal(x->result.promoted, types[t] != OTA_F64);
                    assert_memory_equal(first->weights, x->weights, sizeof x->weights);
                    assert_memory_equal(first->f, x->f, sizeof x->f);
                    assert_memory_equal(first->g, x->g, sizeof x->g);
                    free(x);
                }
            }
            free(first);
        }
    }
}

static void outputs_alone_are_those_of_the_weights(void **unused) {
    (void)unused;
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
            stage *x = make(shapes[s][0], shapes[s][1], true, s + 1), *y = calloc(1, sizeof *y);
            assert_non_null(y);
            memcpy(y, x, sizeof *y);
            assert_int_equal(solve(x, types[t], 1, true), OTA_OK);
            assert_int_equal(solve(y, types[t], 3, false), OTA_OK);
            assert_memory_equal(x->out, y->out, sizeof x->out);
            assert_memory_equal(x->f, y->f, sizeof x->f);
            free(x), free(y);
        }
    }
}

/* The last query of a head may use nothing, or two of them one key alone. */
static void what_has_no_matching_is_refused(void **unused) {
    (void)unused;
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        for (int crowd = 0; crowd < 2; crowd++) {
            stage *x = make(150, 150, false, 4);
            for (int64_t j = crowd; j < x->m; j++) {
                x->cost[(x->n - 1) * x->m + j] = INFINITY;
                if (crowd != 0) x->cost[j] = INFINITY;
            }
            assert_int_equal(solve(x, types[t], 1, true), OTA_INFEASIBLE);
            x->cost[3] = NAN;
            assert_int_equal(solve(x, types[t], 1, true), OTA_NONFINITE);
            free(x);
        }
    }
}

static void real_masses_are_shipped_in_f64(void **unused) {
    (void)unused;
    stage *first = make(40, 140, true, 8);
    first->masses = true;
    assert_int_equal(solve(first, OTA_F64, 1, true), OTA_OK);
    double shared = 0.0;
    for (int64_t k = 0; k < first->m; k++) shared = fmax(shared, first->weights[k]);
    assert_true(shared > 0.0);
    for (size_t t = 1; t < sizeof types / sizeof types[0]; t++) {
        stage *x = make(40, 140, true, 8);
        x->masses = true;
        for (int64_t i = 0; i < x->n; i++) x->row_mass[i] = first->row_mass[i];
        assert_int_equal(solve(x, types[t], 2, true), OTA_OK);
        assert_memory_equal(first->weights, x->weights, sizeof x->weights);
        assert_memory_equal(first->f, x->f, sizeof x->f);
        assert_memory_equal(first->g, x->g, sizeof x->g);
        free(x);
    }
    free(first);
}

/* Costs of which every matching is best but for a few cheap keys that every other query may not use: a row has more cheapest keys
 * than its list has places, so that the list does not tell its potential. */
static void potentials_of_ties_bound_all_keys(void **unused) {
    (void)unused;
    enum { N = 210 };
    stage *x = make(N, N, false, 11);
    for (int64_t k = 0; k < HEADS * N * N; k++) {
        const bool cheap = k % N % 21 == 20;
        x->cost[k] = (double)(k / N % 7) + (!cheap ? 1.0 : k / N % 2 == 0 ? 0.0 : 100.0);
    }
    assert_int_equal(solve(x, OTA_F64, 1, true), OTA_OK);
    for (int64_t row = 0; row < HEADS * N; row++) {
        double most = -INFINITY;
        for (int64_t j = 0; j < N; j++)
            most = fmax(most, x->f[row] + x->g[row / N * N + j] - x->cost[row * N + j]);
        assert_true(fabs(most) <= 1e-12);
    }
    free(x);
}

TEST_FILE(test_assignment_types) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_types_give_the_same_bits),
        cmocka_unit_test(outputs_alone_are_those_of_the_weights),
        cmocka_unit_test(what_has_no_matching_is_refused),
        cmocka_unit_test(real_masses_are_shipped_in_f64),
        cmocka_unit_test(potentials_of_ties_bound_all_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
