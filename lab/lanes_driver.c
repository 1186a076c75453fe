/* Many small transport problems, in lanes and head by head, alternating in one run: processor time of one thread,
 * best of some calls. The plan of one head at a time is had by a workspace_limit that has no room for lanes.
 *
 *     gcc -O2 -std=c11 -Iinclude -o build/lanes_driver lab/lanes_driver.c build/libotattn.a -lm -lpthread
 *     build/lanes_driver [LEVEL] */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "otattn.h"

static double processor_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void fill(void *data, ota_type type, int64_t count) {
    uint64_t state = 1;
    for (int64_t i = 0; i < count; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const double x = (double)(state >> 11) * 0x1p-53;
        if (type == OTA_F64)
            ((double *)data)[i] = x;
        else
            ((float *)data)[i] = (float)x;
    }
}

static ota_plan *plan_of(ota_type type, int64_t n, int64_t heads, int64_t rounds, const char *level,
                         void *scores, size_t limit) {
    ota_problem problem = {.size = sizeof problem};
    ota_options options = {.size = sizeof options};
    ota_error error;
    ota_plan *plan = NULL;
    if (ota_method_parse("softmax/exact", &problem, &options, &error) != OTA_OK) return NULL;
    problem.scores = ota_array_of(scores, type, heads, 1, n, n);
    problem.cost = 1;
    problem.temperature = 0.1;
    options.rounds = rounds;
    options.threads = 1;
    options.workspace_limit = limit;
    options.cpu = level;
    if (ota_plan_create(&plan, &problem, 0, &options, &error) != OTA_OK) {
        (void)fprintf(stderr, "%s\n", error.message);
        exit(1);
    }
    return plan;
}

static void report(ota_type type, int64_t n, int64_t rounds, int64_t heads, const char *level) {
    const size_t bytes = (size_t)(heads * n * n) * (type == OTA_F64 ? 8 : 4);
    void *scores = malloc(bytes), *weights = malloc(bytes);
    if (scores == NULL || weights == NULL) exit(1);
    fill(scores, type, heads * n * n);
    memset(weights, 0, bytes);
    ota_plan *plans[2] = {plan_of(type, n, heads, rounds, level, scores, 0), NULL};
    char text[2][4096] = {"", ""};
    (void)ota_plan_describe(plans[0], text[0], sizeof text[0]);
    for (size_t limit = ota_plan_bytes(plans[0]); strstr(text[1], "stored kernel") == NULL;) {
        ota_plan_free(plans[1]);
        plans[1] = plan_of(type, n, heads, rounds, level, scores, limit -= 256);
        (void)ota_plan_describe(plans[1], text[1], sizeof text[1]);
    }
    double best[2] = {INFINITY, INFINITY};
    ota_result result = {.size = sizeof result};
    for (int turn = 0; turn < 30; turn++) {
        for (int which = 0; which < 2; which++) {
            ota_arrays arrays = {.size = sizeof arrays};
            arrays.coupling = ota_array_of(weights, type, heads, 1, n, n);
            if (which == 1 && turn > 6) continue;
            const double begun = processor_seconds();
            (void)ota_forward(plans[which], &arrays, &result, NULL);
            best[which] = fmin(best[which], processor_seconds() - begun);
        }
    }
    const int lanes = strstr(text[0], "in lanes") != NULL;
    for (int which = 0; which < 2; which++) ota_plan_free(plans[which]);
    printf("%s %2" PRId64 " x %-2" PRId64 " %6" PRId64 " heads, %s: lanes %.3f us, one at a time "
           "%.3f us, %.1f times%s\n",
           type == OTA_F64 ? "f64" : "f32", n, n, heads, rounds > 0 ? "20 rounds" : "tolerance",
           best[0] * 1e6 / (double)heads, best[1] * 1e6 / (double)heads, best[1] / best[0],
           lanes ? "" : " (no lanes)");
    free(scores);
    free(weights);
}

int main(int count, char **words) {
    const char *level = count > 1 ? words[1] : "";
    static const int64_t sizes[] = {2, 4, 8, 16, 24, 32};
    for (int k = 0; k < 6; k++) {
        for (int wide = 0; wide < 2; wide++) {
            for (int rounds = 20; rounds >= 0; rounds -= 20) {
                report(wide ? OTA_F64 : OTA_F32, sizes[k], rounds, 4096, level);
                if (rounds > 0) report(wide ? OTA_F64 : OTA_F32, sizes[k], rounds, 1, level);
            }
        }
    }
    return 0;
}
