/* Plain transport at squared distances of random points of the unit square, exact columns: nanoseconds a pair,
 * processor time, best of some calls, with rounds and the certificate's errors.
 *
 *     gcc -O2 -std=c11 -Iinclude -o build/plain_driver lab/plain_driver.c build/libotattn.a -lm -lpthread
 *     build/plain_driver f64 .1 1e-9 512 1024        type, temperature, tolerance (or rounds, if >= 1), sizes */
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

static double uniform(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(*state >> 11) * 0x1p-53;
}

static void distances(double *s, int64_t n) {
    uint64_t state = 1;
    double *x = malloc((size_t)(4 * n) * sizeof *x);
    for (int64_t i = 0; x != NULL && i < 4 * n; i++) x[i] = uniform(&state);
    for (int64_t k = 0; x != NULL && k < n * n; k++) {
        const double *a = x + 2 * (k / n), *b = x + 2 * (n + k % n);
        s[k] = -(a[0] - b[0]) * (a[0] - b[0]) - (a[1] - b[1]) * (a[1] - b[1]);
    }
    free(x);
}

static void measure(ota_type type, double temperature, double goal, int64_t n) {
    const size_t bytes = (size_t)(n * n) * sizeof(double);
    double *s = malloc(bytes), *p = malloc(bytes), *f = malloc((size_t)n * sizeof *f),
           *g = malloc((size_t)n * sizeof *g);
    distances(s, n);
    if (type == OTA_F32)
        for (int64_t k = 0; k < n * n; k++) {
            const float narrow = (float)s[k];
            memcpy((char *)s + (size_t)k * sizeof narrow, &narrow, sizeof narrow);
        }
    ota_problem problem = {.size = sizeof problem};
    ota_options options = {.size = sizeof options, .threads = 1};
    ota_arrays arrays = {.size = sizeof arrays};
    ota_result result = {.size = sizeof result};
    ota_error error = {.message = ""};
    ota_plan *plan = NULL;
    (void)ota_method_parse("softmax/exact", &problem, &options, &error);
    problem.scores = ota_array_of(s, type, 1, 1, n, n);
    problem.temperature = temperature;
    if (goal >= 1.0)
        options.rounds = (int64_t)goal;
    else
        options.tolerance = goal;
    arrays.coupling = ota_array_of(p, type, 1, 1, n, n);
    arrays.row_potential = ota_array_of(f, OTA_F64, 1, 1, 1, n);
    arrays.column_potential = ota_array_of(g, OTA_F64, 1, 1, 1, n);
    double best = INFINITY, spent = 0.0;
    if (ota_plan_create(&plan, &problem, 0, &options, &error) == OTA_OK) {
        for (int turn = 0; turn < 4 || (spent < .5 && turn < 100); turn++) {
            const double begun = processor_seconds();
            (void)ota_forward(plan, &arrays, &result, &error);
            const double one = processor_seconds() - begun;
            best = fmin(best, one);
            spent += one;
        }
    }
    ota_certificate seen = {.size = sizeof seen};
    (void)ota_certify(&problem, &options, &arrays, &seen, NULL, &error);
    printf("%" PRId64 ": %.3f ns a pair, %" PRId64
           " rounds by %s, promoted %d, certified %.3g %.3g %s\n",
           n, best * 1e9 / (double)(n * n), result.rounds, result.solver, result.promoted,
           seen.row_error, seen.column_error, error.message);
    ota_plan_free(plan);
    free(s);
    free(p);
    free(f);
    free(g);
}

int main(int count, char **words) {
    for (int w = 4; w < count; w++)
        measure(strcmp(words[1], "f32") == 0 ? OTA_F32 : OTA_F64, strtod(words[2], NULL),
                strtod(words[3], NULL), strtoll(words[w], NULL, 10));
    return 0;
}
