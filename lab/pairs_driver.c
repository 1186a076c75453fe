/* Softmax of bf16 on two instruction-set levels in turn, by default products in f32 (avx512) against products of
 * bf16 (avx512bf16): forward, and gradients of queries, keys and values from what forward kept. One head, width
 * 64, one thread, processor time of the thread, best of some turns.
 *
 *     gcc -O2 -std=c11 -Iinclude -o build/pairs_driver lab/pairs_driver.c build/libotattn.a -lm -lpthread
 *     build/pairs_driver 1024 20 */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "otattn.h"

enum { WIDTH = 64, LEVELS = 2 };

typedef struct row {
    const char *level;
    ota_plan *plan;
    ota_arrays arrays;
    ota_gradients want;
    double forward, backward;
} row;

static double processor_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static ota_array halves(int64_t rows) {
    uint16_t *x = calloc((size_t)(rows * WIDTH), sizeof *x);
    if (x == NULL) exit(1);
    return ota_array_of(x, OTA_BF16, 1, 1, rows, WIDTH);
}

static ota_array normal(int64_t rows, uint64_t state) {
    const ota_array a = halves(rows);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t w = 0; w < WIDTH; w++) {
            double sum = -6.0;
            for (int k = 0; k < 12; k++) {
                state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
                sum += (double)(state >> 11) * 0x1p-53;
            }
            /* The upper half of an f32 number is one of bf16. */
            const float x = (float)sum;
            uint32_t bits;
            memcpy(&bits, &x, sizeof bits);
            ((uint16_t *)a.data)[i * WIDTH + w] = (uint16_t)(bits >> 16);
        }
    }
    return a;
}

static void begin(row *r, const char *level, int64_t n, const ota_array data[4]) {
    ota_problem problem = {.size = sizeof problem, .queries = data[0], .keys = data[1]};
    ota_options options = {.size = sizeof options, .threads = 1, .gradients = 1, .cpu = level};
    ota_error error;
    double *lse = calloc((size_t)n, sizeof *lse);
    if (lse == NULL) exit(1);
    r->level = level;
    r->arrays = (ota_arrays){.size = sizeof r->arrays, .values = data[2], .out = halves(n)};
    r->arrays.lse = ota_array_of(lse, OTA_F64, 1, 1, 1, n);
    r->want = (ota_gradients){.size = sizeof r->want,
                              .solved = 1,
                              .out_grad = data[3],
                              .queries = halves(n),
                              .keys = halves(n),
                              .values = halves(n)};
    if (ota_plan_create(&r->plan, &problem, WIDTH, &options, &error) != OTA_OK) {
        fprintf(stderr, "%s\n", error.message);
        exit(2);
    }
    r->forward = r->backward = 1.0e9;
}

static void turn(row *r) {
    const double start = processor_seconds();
    const ota_status forward = ota_forward(r->plan, &r->arrays, NULL, NULL);
    const double middle = processor_seconds();
    const ota_status backward = ota_backward(r->plan, &r->arrays, &r->want, NULL, NULL);
    const double end = processor_seconds();
    if (forward < OTA_OK || backward < OTA_OK) exit(3);
    if (middle - start < r->forward) r->forward = middle - start;
    if (end - middle < r->backward) r->backward = end - middle;
}

int main(int count, char **words) {
    if (count != 3 && count != 5) return 2;
    const int64_t n = strtol(words[1], NULL, 10);
    static row rows[LEVELS];
    ota_array data[4];
    for (uint64_t k = 0; k < 4; k++) data[k] = normal(n, k + 1);
    begin(&rows[0], count == 5 ? words[3] : "avx512", n, data);
    begin(&rows[1], count == 5 ? words[4] : "avx512bf16", n, data);
    for (long t = strtol(words[2], NULL, 10); t > 0; t--) {
        for (int k = 0; k < LEVELS; k++) turn(&rows[k]);
    }
    const double pairs = (double)n * (double)n;
    for (const row *r = rows; r < rows + LEVELS; r++) {
        printf("%-12s forward %6.2f, %.2f times the first  backward %6.2f ns a pair, %.2f times\n",
               r->level, 1e9 * r->forward / pairs, rows->forward / r->forward,
               1e9 * r->backward / pairs, rows->backward / r->backward);
    }
    return 0;
}
