/* Gradients of queries, keys and values of several methods in turn, from what forward kept: f32, one head, one
 * thread, processor time of the thread, best of some turns, so that neighbours on the same cores disturb little.
 * In front of a method: `B:` with a bias and its gradient, `S:` with a softcap, `T:` and the temperature's gradient.
 * `1024*.1` scales the queries of N(0,1) data by .1.
 *
 *     gcc -O2 -std=c11 -Iinclude -o build/backward_driver lab/backward_driver.c build/libotattn.a -lm -lpthread
 *     build/backward_driver 1024 20 softmax entmax:1.5 S:softmax 'ceta{rounds=2}' */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "otattn.h"

enum { WIDTH = 64, MOST = 16 };

typedef struct row {
    const char *name;
    ota_plan *plan;
    ota_arrays arrays;
    ota_gradients want;
    ota_term term;
    ota_array term_gradient;
    double forward, backward;
} row;

static double processor_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void *room(int64_t count, size_t bytes) {
    void *x = calloc((size_t)count, bytes);
    if (x == NULL) exit(1);
    return x;
}

static ota_array floats(int64_t rows, int64_t columns) {
    return ota_array_of(room(rows * columns, sizeof(float)), OTA_F32, 1, 1, rows, columns);
}

static ota_array doubles(int64_t count) {
    return ota_array_of(room(count, sizeof(double)), OTA_F64, 1, 1, 1, count);
}

static ota_array normal(int64_t rows, int64_t columns, uint64_t state) {
    const ota_array a = floats(rows, columns);
    for (int64_t i = 0; i < rows * columns; i++) {
        double sum = -6.0;
        for (int k = 0; k < 12; k++) {
            state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            sum += (double)(state >> 11) * 0x1p-53;
        }
        ((float *)a.data)[i] = (float)sum;
    }
    return a;
}

static void begin(row *r, const char *name, int64_t n, const ota_array data[4]) {
    const char kind = name[1] == ':' ? name[0] : ' ';
    ota_problem problem = {.size = sizeof problem};
    ota_options options = {.size = sizeof options};
    ota_error error;
    r->name = name;
    if (ota_method_parse(kind == ' ' ? name : name + 2, &problem, &options, &error) != OTA_OK) {
        fprintf(stderr, "%s\n", error.message);
        exit(2);
    }
    problem.queries = data[0];
    problem.keys = data[1];
    options.threads = 1;
    options.gradients = 1;
    r->arrays = (ota_arrays){.size = sizeof r->arrays, .values = data[2], .out = floats(n, WIDTH)};
    r->arrays.lse = doubles(n);
    r->arrays.row_potential = doubles(n);
    r->arrays.column_potential = doubles(n);
    r->want = (ota_gradients){.size = sizeof r->want,
                              .solved = 1,
                              .out_grad = data[3],
                              .queries = floats(n, WIDTH),
                              .keys = floats(n, WIDTH),
                              .values = floats(n, WIDTH)};
    if (kind == 'B') {
        r->term = (ota_term){.kind = OTA_TERM_DENSE, .array = normal(n, n, 9)};
        r->term_gradient = floats(n, n);
        r->want.terms = &r->term_gradient;
    } else if (kind == 'S') {
        r->term = (ota_term){.kind = OTA_TERM_SOFTCAP, .value = 20.0};
    } else if (kind == 'T') {
        r->want.temperature = doubles(1);
    }
    problem.terms = &r->term;
    problem.term_count = kind == 'B' || kind == 'S' ? 1 : 0;
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
    if (count < 4 || count > MOST + 3) return 2;
    char *after;
    const int64_t n = strtol(words[1], &after, 10);
    const double scale = *after == '*' ? strtod(after + 1, NULL) : 1.0;
    static row rows[MOST];
    ota_array data[4];
    for (uint64_t k = 0; k < 4; k++) data[k] = normal(n, WIDTH, k + 1);
    for (int64_t i = 0; i < n * WIDTH; i++) ((float *)data[0].data)[i] *= (float)scale;
    for (int k = 3; k < count; k++) begin(&rows[k - 3], words[k], n, data);
    for (long t = strtol(words[2], NULL, 10); t > 0; t--) {
        for (int k = 3; k < count; k++) turn(&rows[k - 3]);
    }
    const double pairs = (double)n * (double)n;
    for (const row *r = rows; r < rows + count - 3; r++) {
        printf("%-24s forward %6.2f  backward %6.2f ns a pair, %.2f of the first\n", r->name,
               1e9 * r->forward / pairs, 1e9 * r->backward / pairs, r->backward / rows->backward);
    }
    return 0;
}
