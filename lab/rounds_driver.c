/* Rounds on a kernel, stored and streamed, beside softmax: f32, one head, one thread, processor time, best
 * of some calls, so that neighbours on the same cores disturb little.
 *
 *     gcc -O2 -std=c11 -Iinclude -o build/rounds_driver lab/rounds_driver.c build/libotattn.a -lm -lpthread
 *     build/rounds_driver 1024 2048 4096 */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "otattn.h"

enum { WIDTH = 64 };

static double processor_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static float *normal(int64_t count, uint64_t *state) {
    float *x = malloc((size_t)count * sizeof *x);
    for (int64_t i = 0; x != NULL && i < count; i++) {
        double sum = -6.0;
        for (int k = 0; k < 12; k++) {
            *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            sum += (double)(*state >> 11) * 0x1p-53;
        }
        x[i] = (float)sum;
    }
    return x;
}

/* Nanoseconds a pair. rounds 0: to the tolerance; limit 0: none. */
static double measure(const char *method, int64_t rounds, size_t limit, int64_t n,
                      float *const data[4], ota_result *result, double *megabytes) {
    ota_problem problem = {.size = sizeof problem};
    ota_options options = {.size = sizeof options};
    ota_arrays arrays = {.size = sizeof arrays};
    ota_plan *plan = NULL;
    if (ota_method_parse(method, &problem, &options, NULL) != OTA_OK) return NAN;
    problem.queries = ota_array_of(data[0], OTA_F32, 1, 1, n, WIDTH);
    problem.keys = ota_array_of(data[1], OTA_F32, 1, 1, n, WIDTH);
    arrays.values = ota_array_of(data[2], OTA_F32, 1, 1, n, WIDTH);
    arrays.out = ota_array_of(data[3], OTA_F32, 1, 1, n, WIDTH);
    options.rounds = rounds;
    options.threads = 1;
    options.workspace_limit = limit;
    if (ota_plan_create(&plan, &problem, WIDTH, &options, NULL) != OTA_OK) return NAN;
    *megabytes = (double)ota_plan_bytes(plan) * 1e-6;
    *result = (ota_result){.size = sizeof *result};
    double best = INFINITY;
    for (int64_t turn = 0; turn < 4 + (INT64_C(20) << 20) / (n * n); turn++) {
        const double begun = processor_seconds();
        (void)ota_forward(plan, &arrays, result, NULL);
        best = fmin(best, processor_seconds() - begun);
    }
    ota_plan_free(plan);
    return best * 1e9 / (double)(n * n);
}

int main(int count, char **words) {
    static const int64_t rounds[] = {2, 5, 10, 0};
    uint64_t state = 1;
    for (int w = 1; w < count; w++) {
        const int64_t n = strtoll(words[w], NULL, 10);
        float *data[4];
        for (int k = 0; k < 4; k++) data[k] = normal(n * WIDTH, &state);
        ota_result result;
        double megabytes, softmax = measure("softmax", 0, 0, n, data, &result, &megabytes);
        printf("%" PRId64 " softmax: %.3f ns a pair\n", n, softmax);
        for (int streamed = 0; streamed < 2; streamed++) {
            for (int k = 0; k < 4; k++) {
                const size_t limit = streamed ? (size_t)(n * n) * sizeof(float) : 0;
                const double ns =
                    measure("softmax/exact", rounds[k], limit, n, data, &result, &megabytes);
                printf("%" PRId64 " %s, %" PRId64
                       " rounds%s: %.3f ns, %.2f times softmax, %.1f MB\n",
                       n, streamed ? "streamed" : "stored", result.rounds,
                       rounds[k] > 0 ? "" : " to 1e-5", ns, ns / softmax, megabytes);
            }
        }
        for (int k = 0; k < 4; k++) free(data[k]);
    }
    return 0;
}
