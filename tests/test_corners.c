/* Corners of solvers and measures that larger tests pass over, found by planting faults (mutate.py). */
#define _GNU_SOURCE /* mmap */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "one_head.h"
#include "otattn_analysis.h"

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
    }
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

/* The gradient of LayerNorm ends where its array does. */
static void layernorm_backward_stays_inside(void **unused) {
    (void)unused;
    enum { ROWS = 2, WIDTH = 3, SIZE = ROWS * WIDTH };
    static const double u[SIZE + 1] = {1, 2, 4, -1, 0, 3, 5}, dy[SIZE + 1] = {1, 0, 2, 1, 1, -1, 7};
    static const double gamma[WIDTH + 1] = {1, 2, 1, 3};
    double du[SIZE + 1];
    du[SIZE] = 17.0;
    assert_int_equal(ota_layernorm_backward(u, ROWS, WIDTH, gamma, 1e-5, dy, du, NULL, NULL, NULL),
                     OTA_OK);
    assert_true(du[SIZE] >= 17.0 && du[SIZE] <= 17.0);
}

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
    const ota_gauge_options options = {.size = sizeof options,
                                       .rule = OTA_GAUGE_MIDRANGE,
                                       .tolerance = 1e-12,
                                       .max_passes = 6,
                                       .progress = listen,
                                       .progress_user = &t};
    ota_gauge_result result;
    assert_true(ota_gauge(a, NULL, OTA_F64, 5, 7, &options, NULL, &result, NULL) >=
                OTA_NOT_CONVERGED);
    assert_int_equal(t.calls, result.passes);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(online_rows_without_room_are_infeasible),
                                       cmocka_unit_test(pruning_keeps_the_usable_pairs),
                                       cmocka_unit_test(layernorm_backward_stays_inside),
                                       cmocka_unit_test(alignment_reports_its_sweeps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
