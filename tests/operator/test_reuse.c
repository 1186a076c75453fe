/* Memory of calls that come again: a plan bound to other arrays and solved, and an assigner on a problem no larger than the
 * first, allocate nothing. A tracker's loop of 30 x 30 matches runs so. One thread, so that the counts need no lock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "draw/random.h"
#include "groups.h"
#include "otattn.h"
#include "otattn_assignment.h"
#include "refused_memory.h"

enum { N = 30, CELLS = N * N, CALLS = 5 };

static void draw(double *costs, uint64_t seed) {
    for (int k = 0; k < CELLS; k++) costs[k] = uniform(&seed);
}

static void nothing_more(int asked_before, int held_before) {
    assert_int_equal(asked, asked_before);
    assert_int_equal(held, held_before);
}

static void assigners_use_their_memory_again(void **state) {
    (void)state;
    static double costs[CELLS];
    int64_t rows[N], columns[N];
    double value, bound, u[N], v[N];
    ota_error error;
    ota_assigner *assigner;
    const ota_options options = {.size = sizeof options, .threads = 1};
    assert_int_equal(ota_assigner_create(&assigner, &options, &error), OTA_OK);
    const int created = asked;
    ota_assignments batch = {.size = sizeof batch,
                             .count = 1,
                             .rows = N,
                             .columns = N,
                             .costs = costs,
                             .type = OTA_F64,
                             .row_stride = N,
                             .column_stride = 1,
                             .pair_row = rows,
                             .pair_column = columns,
                             .value = &value,
                             .bound = &bound,
                             .row_potential = u,
                             .column_potential = v};
    for (uint64_t call = 0; call < CALLS; call++) {
        draw(costs, call);
        batch.rows = call == 3 ? N / 2 : N;
        const int before = asked, held_before = held;
        assert_int_equal(ota_assign(assigner, &batch, &error), OTA_OK);
        if (call > 0) nothing_more(before, held_before);
    }
    /* The first call takes its memory, so that the count would have shown another. */
    assert_true(asked > created);
    ota_assigner_free(assigner);
    assert_int_equal(held, 0);
}

static void plans_use_their_memory_again(void **state) {
    (void)state;
    static const char *methods[] = {"hard/exact",
                                    "softmax/exact",
                                    "softmax",
                                    "entmax:1.5",
                                    "softmax/capped:1.5",
                                    "entmax:1.5/exact",
                                    "softmax/relaxed:.5",
                                    "softmax/bounded:.5,2",
                                    "hard/capped:2",
                                    "hard",
                                    "softmax/exact{rounds=5}"};
    static double costs[2][CELLS], coupling[2][CELLS];
    ota_error error;
    for (size_t k = 0; k < sizeof methods / sizeof *methods; k++) {
        const int at_first = held;
        ota_problem problem = {.size = sizeof problem, .cost = 1};
        ota_options options = {.size = sizeof options};
        ota_arrays arrays = {.size = sizeof arrays};
        ota_plan *plan;
        draw(costs[0], 1);
        problem.scores = ota_array_of(costs[0], OTA_F64, 1, 1, N, N);
        problem.temperature = 0.5;
        assert_int_equal(ota_method_parse(methods[k], &problem, &options, &error), OTA_OK);
        options.threads = 1;
        assert_int_equal(ota_plan_create(&plan, &problem, 0, &options, &error), OTA_OK);
        assert_true(held > at_first);
        const int before = asked, held_before = held;
        for (uint64_t call = 0; call < CALLS; call++) {
            double *own = costs[call % 2];
            draw(own, call);
            problem.scores = ota_array_of(own, OTA_F64, 1, 1, N, N);
            arrays.coupling = ota_array_of(coupling[call % 2], OTA_F64, 1, 1, N, N);
            assert_int_equal(ota_plan_rebind(plan, &problem, &error), OTA_OK);
            assert_true(ota_forward(plan, &arrays, NULL, &error) >= 0);
            nothing_more(before, held_before);
        }
        ota_plan_free(plan);
        assert_int_equal(held, at_first);
    }
}

TEST_FILE(test_reuse) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(assigners_use_their_memory_again),
        cmocka_unit_test(plans_use_their_memory_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
