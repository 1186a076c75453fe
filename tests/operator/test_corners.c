/* Corners of solvers and measures that larger tests pass over, found by planting faults (mutate.py). */
#define _GNU_SOURCE /* mmap */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "groups.h"
#include "one_head.h"
#include "otattn_analysis.h"

/* ---- what has no room or no use ------------------------------------------------------------------- */

/* A row whose keys are full is said, whatever the regulariser, though other keys have room. */
static void online_rows_without_room_are_infeasible(void **unused) {
    (void)unused;
    static const char *const methods[] = {"softmax/online:1", "sparsemax/online:1",
                                          "entmax:1.5/online:1", "hard/online:1"};
    double scores[2 * 2];
    random_scores(scores, 4, 1.0, 3);
    for (size_t k = 0; k < sizeof methods / sizeof methods[0]; k++) {
        for (int heavy = 0; heavy < 2; heavy++) {
            head *t = head_make(0, methods[k], 2, 2, scores);
            t->supports[0].kind = OTA_SUPPORT_CAUSAL;
            t->problem.support_count = 1;
            t->mu[0] = heavy ? 1.5 : 1.0;
            t->mu[1] = heavy ? 0.5 : 1.0;
            t->problem.row_mass = ota_array_of(t->mu, OTA_F64, 1, 1, 1, 2);
            assert_int_equal(run_head(t), heavy ? OTA_INFEASIBLE : OTA_OK);
        }
        /* One key, of which a last digit of the capacity less is left than the second row needs. What that is of the row
         * grows as the row gets lighter. */
        static const double heavier[] = {0.9, 0.95, 0.999};
        for (int h = 0; h < 3; h++) {
            head *t = head_make(0, methods[k], 2, 1, scores);
            t->mu[0] = heavier[h];
            t->mu[1] = 1.0 - heavier[h] + 0x1p-54;
            t->problem.row_mass = ota_array_of(t->mu, OTA_F64, 1, 1, 1, 2);
            assert_int_equal(run_head(t), OTA_OK);
            assert_true(fabs(t->p[1] - t->mu[1]) <= 0x1p-51);
            t->mu[1] *= 1.0 + 0x1p-20;
            assert_int_equal(run_head(t), OTA_INFEASIBLE);
        }
    }
}

/* Where Newton goes by way of interior points, units of the scores change neither a bit nor the number of steps. */
static void interior_points_know_no_units(void **unused) {
    (void)unused;
    enum { N = 20 };
    static const char *const methods[] = {"sparsemax/exact", "entmax:1.5/capped:2",
                                          "entmax:1.5/relaxed:1",
                                          "entmax:1.5/exact{entry_cap=0.3}"};
    static double scores[N * N], first[N * N];
    random_scores(scores, (int64_t)N * N, 1.0, 5);
    for (size_t k = 0; k < sizeof methods / sizeof methods[0]; k++) {
        int64_t rounds = 0;
        for (int power = -20; power <= 20; power += 20) {
            const double by = ldexp(1.0, power);
            head *t = head_make(0, methods[k], N, N, scores);
            for (int q = 0; q < N * N; q++) t->s[q] *= by;
            t->problem.temperature = 0.01 * by; /* so cold that direct steps do not do */
            t->problem.strength *= by;
            assert_int_equal(run_head(t), OTA_OK);
            if (power == -20) memcpy(first, t->p, sizeof first), rounds = t->result.rounds;
            assert_int_equal(t->result.rounds, rounds);
            assert_memory_equal(first, t->p, sizeof first);
        }
    }
}

static void stop_within(void *user, const ota_progress *progress) {
    int *told = user;
    /* Steps of the interior point have no residual yet. */
    if (isinf(progress->residual)) told[1] = ++told[0] >= 3;
}

/* Each step of the interior point is told, and asks whether to go on. */
static void interior_points_are_watched(void **unused) {
    (void)unused;
    enum { N = 20 };
    static double scores[N * N];
    int told[2] = {0, 0};
    random_scores(scores, (int64_t)N * N, 1.0, 5);
    head *t = head_make(0, "sparsemax/exact", N, N, scores);
    t->problem.temperature = 0.01;
    t->options.progress = stop_within;
    t->options.progress_user = told;
    t->options.cancel = &told[1];
    assert_int_equal(run_head(t), OTA_CANCELLED);
    assert_int_equal(told[0], 3);
}

/* Two blocks and one way from the first to the second: no row or column is forced, so only the flow
 * finds the pairs without use. */
static void pruning_keeps_the_usable_pairs(void **unused) {
    (void)unused;
    enum { N = 6, HALF = N / 2 };
    double scores[N * N];
    unsigned char open[N * N];
    random_scores(scores, (int64_t)N * N, 1.0, 5);
    for (int k = 0; k < N * N; k++) open[k] = k / N < HALF || k % N >= HALF;
    static const char *const solvers[] = {"sinkhorn", "log", "anderson", "newton", "auto"};
    for (size_t k = 0; k < sizeof solvers / sizeof solvers[0]; k++) {
        head *t = head_make(0, "softmax/exact", N, N, scores);
        t->supports[0].kind = OTA_SUPPORT_BOOLEAN;
        t->supports[0].array = ota_array_of(open, OTA_BOOL, 1, 1, N, N);
        t->problem.support_count = 1;
        t->options.prune = 1;
        t->options.solver = solvers[k];
        t->options.max_rounds = 20000;
        assert_int_equal(run_head(t), OTA_OK);
        assert_int_equal(t->result.pruned_pairs, HALF * HALF);
        for (int64_t i = 0; i < N; i++) {
            for (int64_t j = 0; j < N; j++)
                assert_true((t->p[i * N + j] > 0.0) == (i / HALF == j / HALF));
        }
    }
}

/* ---- outputs end where their arrays do ------------------------------------------------------------ */

enum { OUTPUTS = 3, ROOM = 64 };
static double outputs[OUTPUTS][ROOM];

static double *fresh(int which) {
    for (int k = 0; k < ROOM; k++) outputs[which][k] = 17.0;
    return outputs[which];
}

static void ends_at(int which, int64_t size) {
    for (int64_t k = 0; k < size; k++)
        assert_false(outputs[which][k] >= 17.0 && outputs[which][k] <= 17.0);
    for (int64_t k = size; k < ROOM; k++)
        assert_true(outputs[which][k] >= 17.0 && outputs[which][k] <= 17.0);
}

static void measures_stay_inside_their_arrays(void **unused) {
    (void)unused;
    enum { ROWS = 3, WIDTH = 4, SIZE = ROWS * WIDTH, HALF = WIDTH / 2 };
    double x[ROOM], y[ROOM], plan[ROOM];
    random_scores(x, ROOM, 1.0, 17);
    random_scores(y, ROOM, 1.0, 19);
    for (int k = 0; k < ROOM; k++) plan[k] = 1.0 / (double)ROWS;

    assert_int_equal(
        ota_layernorm(x, ROWS, WIDTH, &(ota_norm){.epsilon = 1e-5}, fresh(0), fresh(1), NULL, NULL),
        OTA_OK);
    ends_at(0, SIZE), ends_at(1, ROWS);
    assert_int_equal(
        ota_layernorm_backward(
            x, ROWS, WIDTH, &(ota_norm){.gamma = y, .epsilon = 1e-5},
            &(ota_norm_gradients){.dy = y, .du = fresh(0), .dgamma = fresh(1), .dbeta = fresh(2)},
            NULL, NULL),
        OTA_OK);
    ends_at(0, SIZE), ends_at(1, WIDTH), ends_at(2, WIDTH);
    assert_int_equal(ota_layernorm_jacobian(x, WIDTH, 1e-5, fresh(0), NULL, NULL), OTA_OK);
    ends_at(0, (int64_t)WIDTH * WIDTH);
    assert_int_equal(ota_identity_core(plan, x, ROWS, WIDTH, 0.5, fresh(0), NULL, NULL), OTA_OK);
    ends_at(0, SIZE);
    assert_int_equal(ota_compose(plan, plan, ROWS, ROWS, ROWS, fresh(0), NULL, NULL), OTA_OK);
    ends_at(0, (int64_t)ROWS * ROWS);
    assert_int_equal(
        ota_gauge_rest(
            &(ota_gauge_matrix){.a = x, .b = y, .type = OTA_F64, .rows = ROWS, .columns = WIDTH}, y,
            x, fresh(0), NULL, NULL),
        OTA_OK);
    ends_at(0, SIZE);
    assert_int_equal(ota_context(plan, x, ROWS, WIDTH, fresh(0), NULL, NULL), OTA_OK);
    ends_at(0, WIDTH);
    assert_int_equal(ota_alibi_bias(0.5, ROWS, WIDTH, 1, 0, fresh(0), NULL, NULL), OTA_OK);
    ends_at(0, SIZE);
    assert_int_equal(ota_relative_costs(&(ota_relative_positions){.queries = ROWS,
                                                                  .keys = WIDTH,
                                                                  .head_width = HALF,
                                                                  .q = x,
                                                                  .k = y,
                                                                  .bias = x,
                                                                  .temperature = 1.0},
                                        fresh(0), NULL, NULL),
                     OTA_OK);
    ends_at(0, SIZE);
    assert_int_equal(ota_rope_matrix(WIDTH, 3.0, 0.0, fresh(0), NULL, NULL), OTA_OK);
    ends_at(0, (int64_t)WIDTH * WIDTH);
    ota_hamming_matvec(1.0, x, fresh(0), SIZE);
    ends_at(0, SIZE);
}

/* ---- reports and rounds --------------------------------------------------------------------------- */

typedef struct told {
    int64_t calls, last_round;
} told;

static void listen(void *user, const ota_progress *progress) {
    told *t = user;
    assert_int_equal(progress->heads, 1);
    assert_int_equal(progress->heads_done, 0);
    assert_true(progress->round > t->last_round && progress->residual >= 0.0);
    t->last_round = progress->round;
    t->calls++;
}

/* Midrange sweeps report themselves one by one, each as work on one head. */
static void alignment_reports_its_sweeps(void **unused) {
    (void)unused;
    double a[5 * 7];
    random_scores(a, 35, 1.0, 11);
    told t = {0, 0};
    const ota_gauge_options how = {
        .size = sizeof how, .rule = OTA_GAUGE_MIDRANGE, .tolerance = 1e-12, .max_passes = 6};
    const ota_analysis_options options = {
        .size = sizeof options, .progress = listen, .progress_user = &t};
    ota_gauge_result result;
    assert_true(ota_gauge(&(ota_gauge_matrix){.a = a, .type = OTA_F64, .rows = 5, .columns = 7},
                          &how, NULL, &result, &options, NULL) >= OTA_NOT_CONVERGED);
    assert_int_equal(t.calls, result.passes);
}

/* The constant part of g is found in closed form: without it rounds grow like rho / tau [DER-10]. */
static void relaxed_rounds_do_not_grow_with_strength(void **unused) {
    (void)unused;
    enum { N = 12 };
    static const char *const solvers[] = {"sinkhorn", "log"};
    double scores[N * N];
    random_scores(scores, (int64_t)N * N, 1.0, 13);
    for (int k = 0; k < 2; k++) {
        int64_t rounds[2];
        for (int strong = 0; strong < 2; strong++) {
            head *t = head_make(0, strong ? "relaxed:1000" : "relaxed:10", N, N, scores);
            for (int64_t j = 0; j < N; j++) t->mu[j] = 0.5 + (double)j / (double)N;
            t->problem.column_mass = ota_array_of(t->mu, OTA_F64, 1, 1, 1, N);
            t->options.solver = solvers[k];
            assert_int_equal(run_head(t), OTA_OK);
            rounds[strong] = t->result.rounds;
        }
        assert_true(rounds[1] <= 2 * rounds[0]);
    }
}

/* Fixed rounds of relaxed rows whose plan is larger than any double say so, and hand out nothing. */
static void relaxed_rows_say_that_they_overflow(void **unused) {
    (void)unused;
    enum { N = 5 };
    double scores[N * N];
    random_scores(scores, (int64_t)N * N, 1.0, 17);
    for (int large = 0; large < 2; large++) {
        for (int solver = 0; solver < 2; solver++) {
            head *t = head_make(0, "softmax/relaxed:3.5", N, N, scores);
            t->s[0] = large ? 1e4 : 10.0;
            t->problem.rows = OTA_ROWS_RELAXED;
            t->problem.row_strength = 3.5;
            t->problem.temperature = 0.1;
            t->options.rounds = 2;
            t->options.solver = solver ? "log" : "auto";
            assert_int_equal(run_head(t), large ? OTA_NOT_CONVERGED : OTA_FIXED_ITERS);
            assert_true(isnan(t->p[0]) == (large != 0));
            if (large) assert_non_null(strstr(t->error.message, "more mass than a double holds"));
        }
    }
}

/* Hard plans report how far their sums are from real masses whose totals differ by rounding. */
static void hard_plans_report_their_errors(void **unused) {
    (void)unused;
    enum { N = 9, M = 7 };
    static const char *const methods[] = {"hard/exact", "hard/capped:1"};
    double scores[N * M], nu[M];
    random_scores(scores, (int64_t)N * M, 1.0, 19);
    for (int k = 0; k < 4; k++) {
        head *t = head_make(0, methods[k % 2], N, M, scores);
        const double factor = k < 2 ? 1.0 + 1e-13 : 1.0 + (k == 3 ? 0.3 : -1e-13);
        double mass = 0.0, rows = 0.0, columns = 0.0;
        for (int i = 0; i < N; i++) mass += t->mu[i] = 0.3 + 0.1 * (double)(i * i % 5);
        for (int j = 0; j < M; j++) nu[j] = factor * mass / (double)M;
        t->problem.row_mass = ota_array_of(t->mu, OTA_F64, 1, 1, 1, N);
        t->problem.column_mass = ota_array_of(nu, OTA_F64, 1, 1, 1, M);
        (void)solved(t);
        for (int i = 0; i < N; i++) {
            double sum = -t->mu[i];
            for (int j = 0; j < M; j++) sum += t->p[i * M + j];
            rows += fabs(sum) / mass;
        }
        for (int j = 0; j < M; j++) {
            double over = -nu[j];
            for (int i = 0; i < N; i++) over += t->p[i * M + j];
            columns += (k % 2 == 0 ? fabs(over) : fmax(over, 0.0)) / mass;
        }
        assert_true(t->result.row_error >= 0.0 && t->result.column_error >= 0.0);
        spec_check("ELA-14 DER-27", fabs(t->result.row_error - rows), 1e-15);
        spec_check("ELA-14 DER-27", fabs(t->result.column_error - columns), 1e-15);
        if (k % 2 == 0) assert_true(columns > 5e-14 && columns < 2e-13);
    }
}

/* Newton reaches cold plans by way of warmer ones: about 26 steps a plan, 38 without [DER-11]. */
static void newton_reaches_cold_plans(void **unused) {
    (void)unused;
    enum { N = 24 };
    double scores[N * N];
    int64_t rounds = 0;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        random_scores(scores, (int64_t)N * N, 1.0, seed);
        head *t = head_make(0, "softmax/exact", N, N, scores);
        t->problem.temperature = 0.002;
        t->options.solver = "newton";
        t->options.max_rounds = 400;
        assert_int_equal(run_head(t), OTA_OK);
        rounds += t->result.rounds;
    }
    assert_true(rounds <= 128);
}

/* Rows of a coupling sum to 1 within 1e-6, no more. */
static void composition_wants_rows_that_sum_to_one(void **unused) {
    (void)unused;
    static const double off[] = {0.0, 0.9e-6, 1.1e-6};
    const double first[4] = {0.25, 0.75, 0.5, 0.5};
    for (int k = 0; k < 3; k++) {
        for (int sign = -1; sign <= 1; sign += 2) {
            const double second[4] = {0.5, 0.5, 0.25, 0.75 + sign * off[k]};
            double out[4];
            assert_int_equal(ota_compose(second, first, 2, 2, 2, out, NULL, NULL),
                             k < 2 ? OTA_OK : OTA_EINVAL);
        }
    }
}

/* Rows that may use no key, and rows whose masses may differ for a penalty, are no error of the rows. */
static void empty_and_relaxed_rows_are_no_error(void **unused) {
    (void)unused;
    enum { N = 5 };
    double scores[N * N];
    unsigned char open[N * N];
    random_scores(scores, (int64_t)N * N, 1.0, 9);
    for (int k = 0; k < N * N; k++) open[k] = k / N != 2;
    static const char *const methods[] = {"softmax", "entmax:1.5", "softmax/relaxed:0.7"};
    for (int k = 0; k < 3; k++) {
        head *t = head_make(0, methods[k], N, N, scores);
        t->arrays.out = ota_array_of(t->out, OTA_F64, 1, 1, N, N);
        t->arrays.values = ota_array_of(t->v, OTA_F64, 1, 1, N, N);
        t->supports[0].kind = OTA_SUPPORT_BOOLEAN;
        t->supports[0].array = ota_array_of(open, OTA_BOOL, 1, 1, N, N);
        t->problem.support_count = 1;
        if (k == 2) t->problem.rows = OTA_ROWS_RELAXED, t->problem.row_strength = 0.5;
        (void)solved(t);
        assert_int_equal(t->result.empty_rows, 1);
        assert_true(t->result.row_error <= 1e-14);
    }
}

/* Prefix columns: a row all of whose keys come behind its prefix has no plan, and is named. */
static void rows_without_a_key_of_their_prefix_are_named(void **unused) {
    (void)unused;
    enum { N = 5, SHUT = 2 };
    double scores[N * N];
    unsigned char open[N * N];
    random_scores(scores, (int64_t)N * N, 1.0, 10);
    for (int k = 0; k < N * N; k++) open[k] = k / N != SHUT || k % N > SHUT;
    static const char *const methods[] = {"softmax/prefix", "entmax:1.5/prefix", "hard/prefix"};
    for (int k = 0; k < 3; k++) {
        head *t = head_make(0, methods[k], N, N, scores);
        t->supports[0].kind = OTA_SUPPORT_BOOLEAN;
        t->supports[0].array = ota_array_of(open, OTA_BOOL, 1, 1, N, N);
        t->problem.support_count = 1;
        assert_int_equal(run_head(t), OTA_INFEASIBLE);
        assert_non_null(
            strstr(t->result.sentence, "query 2 has mass and no key it may use in its prefix"));
    }
}

TEST_FILE(test_corners) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(online_rows_without_room_are_infeasible),
        cmocka_unit_test(interior_points_know_no_units),
        cmocka_unit_test(interior_points_are_watched),
        cmocka_unit_test(pruning_keeps_the_usable_pairs),
        cmocka_unit_test(measures_stay_inside_their_arrays),
        cmocka_unit_test(alignment_reports_its_sweeps),
        cmocka_unit_test(relaxed_rounds_do_not_grow_with_strength),
        cmocka_unit_test(relaxed_rows_say_that_they_overflow),
        cmocka_unit_test(hard_plans_report_their_errors),
        cmocka_unit_test(newton_reaches_cold_plans),
        cmocka_unit_test(empty_and_relaxed_rows_are_no_error),
        cmocka_unit_test(rows_without_a_key_of_their_prefix_are_named),
        cmocka_unit_test(composition_wants_rows_that_sum_to_one)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
