/* A fixed number of rounds on a stored kernel against the reference: every rule, mask, type and
 * instruction-set level, ragged sizes, and score ranges in units of tau from nothing to thousands, so
 * that scalings are absorbed and heads fall back on stored scores. The same bits for any threads. */
#define _GNU_SOURCE /* mmap */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend_wrap.h"
#include "groups.h"
#include "judge_forward.h"
#include "spec.h"

typedef struct rule_row {
    const char *method;
    int64_t rounds; /* 0: the method's own */
} rule_row;

static const rule_row rules[] = {
    {"softmax/exact", 1},       {"softmax/exact", 3},         {"softmax/relaxed:2", 4},
    {"softmax/capped:1.75", 3}, {"softmax/elastic:0.3,4", 0}, {"softmax/elastic:1,2", 0},
};
enum { RULES = (int)(sizeof rules / sizeof rules[0]) };

static const ota_type types[] = {OTA_F32, OTA_F64, OTA_BF16, OTA_F16};
static const double temperatures[] = {30.0, 1.0, 0.1, 0.03, 0.01, 0.001};
static const int64_t lengths[] = {1, 2, 5, 16, 17, 47, 49, 65, 97, 130};
enum { TEMPERATURE_COUNT = 6, LENGTH_COUNT = 10 };

static recipe vary(const rule_row *rule, int which, uint64_t seed) {
    dice d = seed;
    recipe w = {.method = rule->method, .rounds = rule->rounds, .seed = seed};
    w.type = types[below(&d, 8) < 5 ? 0 : below(&d, 4)];
    w.out_type = w.type;
    w.mask = (mask)below(&d, MASKS);
    w.added = (added)below(&d, ADDITIONS);
    w.temperature = temperatures[which];
    w.batch = 1;
    w.key_heads = 1 + below(&d, 2);
    w.heads = 2;
    w.n = lengths[below(&d, LENGTH_COUNT)];
    w.m = lengths[below(&d, LENGTH_COUNT)];
    if (strstr(rule->method, "capped") != NULL && w.n > w.m) w.n = w.m;
    w.width = 1 + below(&d, 20);
    w.values_width = 1 + below(&d, 20);
    w.spread = 1.0;
    w.row_mass = below(&d, 4) == 0;
    w.column_mass = below(&d, 4) == 0;
    w.warm = below(&d, 6) == 0;
    return w;
}

static void every_range_agrees_with_the_reference(void **unused) {
    (void)unused;
    enum { TURNS = 5 };
    static drawn x;
    worst_ratio = 0.0;
    for (int turn = 0; turn < TURNS * RULES * TEMPERATURE_COUNT; turn++) {
        const recipe w =
            vary(&rules[turn % RULES], turn / RULES % TEMPERATURE_COUNT, 9000 + (uint64_t)turn);
        draw(&x, &w);
        expect(&x);
        judge_every_level(&x);
        put_away(&x);
    }
    spec_check("CETA-06 CETA-07 TOT-08 DER-02 ELA-09 TOT-107", worst_ratio, 1.0);
}

/* ---- plain arrays ------------------------------------------------------------------------------ */

enum { N = 150, M = 133, WIDTH = 9, VALUES = 7, HEADS = 3 };

typedef struct plain {
    float q[HEADS * N * WIDTH], k[HEADS * M * WIDTH], v[HEADS * M * VALUES];
    float out[HEADS * N * VALUES], weights[HEADS * N * M];
} plain;

static ota_array array_of(float *data, int64_t rows, int64_t columns) {
    return ota_array_of(data, OTA_F32, 1, HEADS, rows, columns);
}

static void fill(plain *p, double spread) {
    dice d = 77;
    for (int i = 0; i < HEADS * N * WIDTH; i++) p->q[i] = (float)(spread * normal(&d));
    for (int i = 0; i < HEADS * M * WIDTH; i++) p->k[i] = (float)normal(&d);
    for (int i = 0; i < HEADS * M * VALUES; i++) p->v[i] = (float)normal(&d);
}

static ota_status run(plain *p, int threads, int64_t rounds, ota_result *result, char *text,
                      size_t size) {
    ota_problem problem = {.size = sizeof problem};
    ota_options options = {.size = sizeof options};
    ota_error error;
    assert_int_equal(ota_method_parse("softmax/exact", &problem, &options, &error), OTA_OK);
    problem.queries = array_of(p->q, N, WIDTH);
    problem.keys = array_of(p->k, M, WIDTH);
    options.rounds = rounds;
    options.threads = threads;
    ota_arrays arrays = {.size = sizeof arrays};
    arrays.values = array_of(p->v, M, VALUES);
    arrays.out = array_of(p->out, N, VALUES);
    arrays.coupling = array_of(p->weights, N, M);
    ota_plan *plan;
    assert_int_equal(ota_plan_create(&plan, &problem, VALUES, &options, &error), OTA_OK);
    if (text != NULL) (void)ota_plan_describe(plan, text, size);
    *result = (ota_result){.size = sizeof *result};
    const ota_status status = ota_forward(plan, &arrays, result, &error);
    ota_plan_free(plan);
    return status;
}

static void threads_change_no_bit(void **unused) {
    (void)unused;
    static plain one, more;
    const double spreads[] = {1.0, 40.0};
    for (int k = 0; k < 2; k++) {
        fill(&one, spreads[k]);
        fill(&more, spreads[k]);
        ota_result a, b;
        assert_int_equal(run(&one, 1, 3, &a, NULL, 0), OTA_FIXED_ITERS);
        for (int threads = 2; threads <= 5; threads++) {
            assert_int_equal(run(&more, threads, 3, &b, NULL, 0), OTA_FIXED_ITERS);
            spec_check_true("TOT-111",
                            memcmp(one.out, more.out, sizeof one.out) == 0 &&
                                memcmp(one.weights, more.weights, sizeof one.weights) == 0 &&
                                a.column_error <= b.column_error &&
                                a.column_error >= b.column_error);
        }
    }
}

/* The choice is in the plan, and the residual that comes with the last round is that of the plan. */
static void the_plan_says_how_and_how_far(void **unused) {
    (void)unused;
    static plain p;
    char text[4096];
    ota_result result;
    fill(&p, 1.0);
    assert_int_equal(run(&p, 1, 2, &result, text, sizeof text), OTA_FIXED_ITERS);
    if (!on_other_backend()) {
        assert_non_null(strstr(text, "path: stored kernel"));
        assert_int_equal(result.promoted, 0);
    }
    assert_int_equal(result.rounds, 2);
    double worst = 0.0;
    for (int h = 0; h < HEADS; h++) {
        double error = 0.0;
        for (int j = 0; j < M; j++) {
            double sum = -(double)N / (double)M;
            for (int i = 0; i < N; i++) sum += (double)p.weights[(h * N + i) * M + j];
            error += fabs(sum) / (double)N;
        }
        worst = fmax(worst, error);
    }
    /* Sums of n weights that are each off by a few units. */
    spec_check("DER-27", fabs(worst - result.column_error), 8.0 * 0x1p-24 * 10.0);
}

TEST_FILE(test_rounds) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_range_agrees_with_the_reference),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(the_plan_says_how_and_how_far),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
