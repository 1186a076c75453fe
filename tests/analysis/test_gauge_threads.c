/* Alignment on an executor: the same bits whatever runs the tasks, and tasks so small that none of them, nor what the calling
 * thread does between, sets the time. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "analysis_random.h"
#include "groups.h"
#include "otattn_analysis.h"

enum { MOST_ROWS = 70, FEW = 500, MANY = 9001 };

typedef struct aligned {
    double k[MOST_ROWS], v[MANY], row_residual[MOST_ROWS];
    int64_t cycle_rows[MOST_ROWS], cycle_columns[MOST_ROWS];
    ota_gauge_result result;
} aligned;

/* What this thread has computed, in nanoseconds. */
static int64_t work_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + (int64_t)now.tv_nsec;
}

/* An executor of the test: real threads, or one that takes the indices from the last to the first; it adds up what its tasks
 * take, and of each run the longest. */
enum { THREADS = 3 };

typedef struct workers {
    bool threads;
    int64_t runs, tasks;
    int64_t all_ns, longest_ns; /* of processor time, where one thread runs them */
    void (*body)(void *context, int64_t index, int worker);
    void *context;
    int64_t count;
    _Atomic int64_t next;
    _Atomic int started;
} workers;

static void *take_tasks(void *argument) {
    workers *const c = argument;
    const int worker = atomic_fetch_add(&c->started, 1);
    for (int64_t k; (k = atomic_fetch_add(&c->next, 1)) < c->count;) c->body(c->context, k, worker);
    return NULL;
}

static void run_on(void *user, int64_t count,
                   void (*body)(void *context, int64_t index, int worker), void *context) {
    workers *const c = user;
    c->runs++;
    c->tasks += count;
    if (!c->threads) {
        int64_t longest = 0;
        for (int64_t k = count - 1; k >= 0; k--) {
            const int64_t begun = work_now();
            body(context, k, (int)(k % THREADS));
            const int64_t took = work_now() - begun;
            c->all_ns += took;
            longest = took > longest ? took : longest;
        }
        c->longest_ns += longest;
        return;
    }
    pthread_t others[THREADS - 1];
    c->body = body;
    c->context = context;
    c->count = count;
    atomic_store(&c->next, 0);
    atomic_store(&c->started, 0);
    for (int t = 0; t < THREADS - 1; t++)
        assert_int_equal(pthread_create(&others[t], NULL, take_tasks, c), 0);
    (void)take_tasks(c);
    for (int t = 0; t < THREADS - 1; t++) assert_int_equal(pthread_join(others[t], NULL), 0);
}

static void threads_change_no_bit(void **unused) {
    (void)unused;
    static aligned alone, shared;
    static double a[MOST_ROWS * MANY];
    uint64_t state = 59;
    for (int k = 0; k < MOST_ROWS * MANY; k++) a[k] = normal(&state);
    for (int rule = OTA_GAUGE_HOWARD; rule <= OTA_GAUGE_FAST; rule++) {
        for (int t = 0; t < 12; t++) {
            const int m = t % 3 == 0   ? MANY
                          : t % 3 == 1 ? FEW
                                       : 2 * 1024 + 1,
                      n = t < 6 ? MOST_ROWS : 2;
            workers c = {.threads = t % 2 == 0};
            const ota_executor executor = {.run = run_on, .user = &c, .threads = THREADS};
            ota_gauge_options how = {
                .size = sizeof how, .rule = (ota_gauge_rule)rule, .max_passes = 30};
            const ota_gauge_matrix d = {.a = a, .type = OTA_F64, .rows = n, .columns = m};
            for (int k = 0; k < 2; k++) {
                aligned *const x = k == 0 ? &alone : &shared;
                memset(x, 0, sizeof *x);
                how.executor = k == 0 ? NULL : &executor;
                const ota_gauge_arrays arrays = {x->k, x->v, x->row_residual, x->cycle_rows,
                                                 x->cycle_columns};
                const ota_status status = ota_gauge(&d, &how, &arrays, &x->result, NULL, NULL);
                assert_true(status == OTA_OK || status == OTA_NOT_CONVERGED);
            }
            assert_memory_equal(&alone, &shared, sizeof alone);
            assert_true(c.runs > 2 && c.tasks > c.runs);
        }
    }
    ota_error error;
    const ota_executor idle = {.threads = 2};
    const ota_gauge_options how = {.size = sizeof how, .executor = &idle};
    ota_gauge_result result;
    assert_int_equal(
        ota_gauge(&(ota_gauge_matrix){.a = a, .type = OTA_F64, .rows = 2, .columns = 2}, &how, NULL,
                  &result, NULL, &error),
        OTA_EINVAL);
    assert_string_equal(error.field, "executor");
}

/* What no number of threads can make shorter: the calling thread's own work, and the longest task of every run. */
static void no_part_sets_the_time(void **unused) {
    (void)unused;
    enum { N = 256, M = 16384 };
    uint64_t state = 61;
    float *const a = malloc((size_t)N * M * sizeof *a);
    assert_non_null(a);
    for (int k = 0; k < N * M; k++) {
        const double row = (double)(k / M) / N, column = sin((double)(k % M));
        a[k] = (float)(3.0 * column + row * column + 0.3 * normal(&state));
    }
    workers c = {.threads = false};
    const ota_executor executor = {.run = run_on, .user = &c, .threads = THREADS};
    const ota_gauge_options how = {.size = sizeof how, .executor = &executor};
    ota_gauge_result result;
    const int64_t begun = work_now();
    assert_int_equal(
        ota_gauge(&(ota_gauge_matrix){.a = a, .type = OTA_F32, .rows = N, .columns = M}, &how, NULL,
                  &result, NULL, NULL),
        OTA_OK);
    const int64_t whole = work_now() - begun, least = whole - c.all_ns + c.longest_ns;
    print_message("alignment of %d x %d: %.1f ms of a processor, %.1f ms on any number of them, "
                  "%.1f ms outside tasks\n",
                  N, M, (double)whole * 1e-6, (double)least * 1e-6,
                  (double)(whole - c.all_ns) * 1e-6);
    assert_true(4 * least < whole);
    free(a);
}

TEST_FILE(test_gauge_threads) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(no_part_sets_the_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
