/* test_own_threads.c: workers that a call starts for itself end with it, and those of a plan, an assigner or a router with
 * that. Counted in /proc; where there is none, nothing is tested. */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "draw/random.h"
#include "groups.h"
#include "otattn.h"
#include "otattn_assignment.h"
#include "otattn_bounded.h"
#include "otattn_maxsim.h"
#include "otattn_normalize.h"
#include "otattn_route.h"

static dice dice_state;

/* So large that every call finds threads worth their start. */
enum { ROWS = 2048, COLUMNS = 512, SIDE = 4, THREADS = 4, DOCUMENTS = 64 };

static double numbers[ROWS * COLUMNS], results[ROWS * COLUMNS];
static float narrow[ROWS * COLUMNS];

/* -1 where no list of them is kept. */
static int threads_now(void) {
    DIR *list = opendir("/proc/self/task");
    int count = 0;
    if (list == NULL) return -1;
    while (readdir(list) != NULL) count++;
    (void)closedir(list);
    return count;
}

static const struct timespec pause_of_1_ms = {.tv_nsec = 1000000};

static void *nothing(void *context) { return context; }

/* Their number before any call. A sanitizer may have a thread of its own, which it starts with the first one. */
static int threads_before(void) {
    pthread_t first;
    assert_int_equal(pthread_create(&first, NULL, nothing, NULL), 0);
    (void)pthread_join(first, NULL);
    for (int k = 0; k < 50; k++) (void)nanosleep(&pause_of_1_ms, NULL);
    return threads_now();
}

/* A thread that was joined leaves the list soon after. */
static void expect_threads(int wanted) {
    for (int k = 0; k < 2000 && threads_now() != wanted; k++) (void)nanosleep(&pause_of_1_ms, NULL);
    assert_int_equal(threads_now(), wanted);
}

static const ota_options options = {.size = sizeof options, .threads = THREADS};

static void calls_without_a_plan(void **state) {
    (void)state;
    const int before = threads_before();
    const ota_array logits = ota_array_of(numbers, OTA_F64, 1, 1, ROWS, COLUMNS);
    const ota_array tokens = ota_array_of(narrow, OTA_F32, 1, 1, ROWS, COLUMNS);
    const ota_bounded bounded = {.size = sizeof bounded, .costs = logits, .take = 1};
    ota_bounded_result loads = {.size = sizeof loads};
    assert_int_equal(ota_assign_bounded(&bounded, &options, &loads, NULL), OTA_OK);
    expect_threads(before);

    int64_t offsets[DOCUMENTS + 1];
    float scores[DOCUMENTS];
    for (int k = 0; k <= DOCUMENTS; k++) offsets[k] = k * (ROWS / DOCUMENTS);
    ota_late_interaction maxsim = {
        .size = sizeof maxsim, .offsets = offsets, .document_count = DOCUMENTS, .threads = THREADS};
    maxsim.queries = ota_array_of(narrow, OTA_F32, 1, 1, 32, COLUMNS);
    maxsim.documents = tokens;
    assert_int_equal(ota_maxsim(&maxsim, scores, NULL, NULL), OTA_OK);
    expect_threads(before);

    const ota_normalization normalization = {.size = sizeof normalization,
                                             .type = OTA_F64,
                                             .count = ROWS * COLUMNS / (SIDE * SIDE),
                                             .side = SIDE,
                                             .threads = THREADS};
    assert_true(ota_normalize(&normalization, numbers, results, NULL) >= OTA_OK);
    expect_threads(before);

    ota_routing routing = {.size = sizeof routing, .logits = logits, .take = 2};
    ota_routing_result routed = {.size = sizeof routed};
    assert_int_equal(ota_route(&routing, &options, &routed, NULL), OTA_OK);
    expect_threads(before);
}

static void kept_structs(void **state) {
    (void)state;
    const int before = threads_before();
    ota_assigner *assigner;
    ota_router *router;
    ota_plan *plan;
    ota_problem problem = {.size = sizeof problem};
    problem.scores = ota_array_of(numbers, OTA_F64, 1, 1, ROWS, COLUMNS);
    assert_int_equal(ota_assigner_create(&assigner, &options, NULL), OTA_OK);
    assert_int_equal(ota_router_create(&router, &options, NULL), OTA_OK);
    assert_int_equal(ota_plan_create(&plan, &problem, 0, &options, NULL), OTA_OK);
    ota_routing routing = {.size = sizeof routing, .logits = problem.scores, .take = 2};
    ota_routing_result routed = {.size = sizeof routed};
    assert_int_equal(ota_router_route(router, &routing, &routed, NULL), OTA_OK);
    /* Each has its own by now, a router from its first call that is worth them on. */
    if (before > 0) expect_threads(before + 3 * (THREADS - 1));
    ota_assigner_free(assigner);
    ota_router_free(router);
    ota_plan_free(plan);
    expect_threads(before);
}

TEST_FILE(test_own_threads) {
    dice_state = 5;
    for (int k = 0; k < ROWS * COLUMNS; k++) narrow[k] = (float)(numbers[k] = normal(&dice_state));
    const struct CMUnitTest tests[] = {cmocka_unit_test(calls_without_a_plan),
                                       cmocka_unit_test(kept_structs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
