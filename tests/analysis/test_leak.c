/* Who sees the future: column rules under a causal support leak, row-wise, prefix and online ones do not. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analysis_random.h"
#include "groups.h"
#include "held_memory.h"
#include "otattn_analysis.h"
#include "spec.h"

enum { HEADS = 2, N = 10, CELLS = HEADS * N * N };

static double leak_of(const char *method, bool causal, double *scores, int64_t position) {
    const ota_support support = {.kind = OTA_SUPPORT_CAUSAL};
    const ota_term slope = {.kind = OTA_TERM_ALIBI, .value = 0.1};
    ota_problem problem = {.size = sizeof problem, .terms = &slope, .term_count = 1};
    problem.scores = ota_array_of(scores, OTA_F64, 1, HEADS, N, N);
    assert_int_equal(ota_method_parse(method, &problem, NULL, NULL), OTA_OK);
    if (causal && problem.columns != OTA_COLUMNS_PREFIX) {
        problem.supports = &support;
        problem.support_count = 1;
    }
    double leak = (double)NAN;
    ota_error error = {.message = ""};
    const ota_status status = ota_causality_leak(&problem, NULL, position, 2.0, &leak, &error);
    if (status < 0) print_error("%s: %s\n", method, error.message);
    assert_true(status >= OTA_OK);
    return leak;
}

static void leaks(void **unused) {
    (void)unused;
    static const struct {
        const char *method;
        bool causal, leaks;
    } table[] = {{"softmax", true, false},
                 {"sparsemax", true, false},
                 {"hard", true, false},
                 {"softmax/online:1.5", true, false},
                 {"softmax/prefix", true, false},
                 {"softmax/relaxed:0.5", true, true},
                 {"softmax/capped:1.2", true, true},
                 {"softmax/elastic:0.5,3", true, true},
                 {"softmax", false, true},
                 {"softmax/exact", false, true}};
    double scores[CELLS];
    uint64_t state = 1;
    for (int k = 0; k < CELLS; k++) scores[k] = normal(&state);
    for (size_t k = 0; k < sizeof table / sizeof table[0]; k++) {
        for (int64_t position = 1; position < N; position += 4) {
            const double leak = leak_of(table[k].method, table[k].causal, scores, position);
            if (!table[k].leaks)
                spec_check("DER-23 CETA-26", leak, 0.0);
            else if (position > 1)
                spec_check("DER-23", 1e-3 - leak, 0.0);
        }
    }
}

/* By hand: two queries and keys without a mask, so that row 0 sees key 1 move down by one. */
static void the_number_is_right(void **unused) {
    (void)unused;
    double scores[4] = {0.3, -0.2, 0.1, 0.4};
    ota_problem problem = {.size = sizeof problem};
    problem.scores = ota_array_of(scores, OTA_F64, 1, 1, 2, 2);
    double leak;
    assert_int_equal(ota_causality_leak(&problem, NULL, 1, 1.0, &leak, NULL), OTA_OK);
    const double before = 1.0 / (1.0 + exp(-0.5)), after = 1.0 / (1.0 + exp(-1.5));
    spec_check("DER-23", fabs(leak - 2.0 * (after - before)), 8.0 * 0x1p-53);
}

/* Several sequences and heads, more keys than queries: the number is that of the worst of all heads, and both corners
 * say which keys are later ones. A window that reaches one key too far leaks at every position, one that ends in time
 * at none. */
static void rectangles_and_heads(void **unused) {
    (void)unused;
    enum { BATCH = 2, ROWS = 4, COLUMNS = 7, PAIRS = ROWS * COLUMNS };
    double scores[BATCH * HEADS * PAIRS];
    uint64_t state = 2;
    for (int k = 0; k < BATCH * HEADS * PAIRS; k++) scores[k] = normal(&state);
    for (int turn = 0; turn < 4; turn++) {
        ota_support support = {.kind = OTA_SUPPORT_WINDOW, .left = -1, .right = turn / 2};
        ota_problem problem = {.size = sizeof problem, .supports = &support, .support_count = 1};
        problem.corner = turn % 2 == 0 ? OTA_BOTTOM_RIGHT : OTA_TOP_LEFT;
        for (int64_t position = 1; position < ROWS; position++) {
            double together, apart = 0.0, one;
            problem.scores = ota_array_of(scores, OTA_F64, BATCH, HEADS, ROWS, COLUMNS);
            assert_int_equal(ota_causality_leak(&problem, NULL, position, 1.5, &together, NULL),
                             OTA_OK);
            for (int head = 0; head < BATCH * HEADS; head++) {
                problem.scores = ota_array_of(scores + head * PAIRS, OTA_F64, 1, 1, ROWS, COLUMNS);
                assert_int_equal(ota_causality_leak(&problem, NULL, position, 1.5, &one, NULL),
                                 OTA_OK);
                apart = fmax(apart, one);
                spec_check("DER-23", turn / 2 == 0 ? one : 1e-3 - one, 0.0);
            }
            spec_check("DER-23", fabs(together - apart), 0.0);
            /* No move, no change. */
            assert_int_equal(ota_causality_leak(&problem, NULL, position, 0.0, &one, NULL), OTA_OK);
            spec_check("DER-23", one, 0.0);
        }
    }
    ota_problem problem = {.size = sizeof problem, .columns = OTA_COLUMNS_PREFIX};
    problem.scores = ota_array_of(scores, OTA_F64, BATCH, HEADS, ROWS, COLUMNS);
    for (int64_t position = 1; position < ROWS; position++) {
        double leak;
        assert_int_equal(ota_causality_leak(&problem, NULL, position, 1.5, &leak, NULL), OTA_OK);
        spec_check("DER-23 CETA-26", leak, 0.0);
    }
}

/* Queries and keys say what their products say as scores. */
static void queries_and_keys(void **unused) {
    (void)unused;
    enum { ROWS = 3, COLUMNS = 5, WIDTH = 2 };
    double queries[ROWS * WIDTH], keys[COLUMNS * WIDTH], scores[ROWS * COLUMNS] = {0.0};
    uint64_t state = 3;
    for (int k = 0; k < ROWS * WIDTH; k++) queries[k] = normal(&state);
    for (int k = 0; k < COLUMNS * WIDTH; k++) keys[k] = normal(&state);
    for (int k = 0; k < ROWS * COLUMNS; k++)
        for (int f = 0; f < WIDTH; f++)
            scores[k] += queries[k / COLUMNS * WIDTH + f] * keys[k % COLUMNS * WIDTH + f];
    ota_problem given = {.size = sizeof given, .scale = 1.0}, made = {.size = sizeof made};
    given.queries = ota_array_of(queries, OTA_F64, 1, 1, ROWS, WIDTH);
    given.keys = ota_array_of(keys, OTA_F64, 1, 1, COLUMNS, WIDTH);
    made.scores = ota_array_of(scores, OTA_F64, 1, 1, ROWS, COLUMNS);
    for (int64_t position = 1; position < ROWS; position++) {
        double one, other;
        assert_int_equal(ota_causality_leak(&given, NULL, position, 1.5, &one, NULL), OTA_OK);
        assert_int_equal(ota_causality_leak(&made, NULL, position, 1.5, &other, NULL), OTA_OK);
        spec_check("DER-23", fabs(one - other), 1e-14);
        assert_true(one > 1e-3);
    }
}

static void refusals(void **unused) {
    (void)unused;
    double scores[6] = {0.0}, leak;
    ota_problem problem = {.size = sizeof problem};
    problem.scores = ota_array_of(scores, OTA_F64, 1, 1, 2, 3);
    ota_error error;
    assert_int_equal(ota_causality_leak(&problem, NULL, 0, 1.0, &leak, &error), OTA_EINVAL);
    assert_string_equal(error.field, "position");
    assert_int_equal(ota_causality_leak(&problem, NULL, 2, 1.0, &leak, &error), OTA_EINVAL);
    assert_non_null(strstr(error.message, "position is 2 of 2 rows"));
    assert_int_equal(ota_causality_leak(&problem, NULL, 1, (double)NAN, &leak, &error), OTA_EINVAL);
    assert_string_equal(error.field, "move");
    /* More pairs than two couplings of them can be asked for; nothing of them is read. */
    ota_problem large = {.size = sizeof large};
    large.scores = ota_array_of(scores, OTA_F64, 1, 1, INT64_C(3) << 27, INT64_C(1) << 30);
    assert_int_equal(ota_causality_leak(&large, NULL, 1, 1.0, &leak, &error), OTA_EOVERFLOW);
    assert_non_null(strstr(error.message, "than can be counted"));
    problem.temperature = -1.0;
    assert_int_equal(ota_causality_leak(&problem, NULL, 1, 1.0, &leak, &error), OTA_EINVAL);
    assert_string_equal(error.field, "temperature");
}

TEST_FILE(test_leak) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leaks),
        cmocka_unit_test(the_number_is_right),
        cmocka_unit_test(rectangles_and_heads),
        cmocka_unit_test(queries_and_keys),
        cmocka_unit_test(refusals),
    };
    return run_and_hold(tests, sizeof tests / sizeof tests[0]);
}
