/* x^p of every level against libm's, and whole entmax rows (no list of keys) of several orders: N(0,1) numbers, of which half have a power, processor
 * time of the thread, best of some turns, ns an element.
 *
 *     gcc -O2 -std=c11 -I. -Isrc -Iinclude -o build/power_driver lab/power_driver.c build/libotattn.a -lm -lpthread
 *     build/power_driver */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <time.h>

#include "backend/cpu/rows.h"
#include "tests/dice.h"

enum { COUNT = 1024, ROWS = 16, TURNS = 20 };

static float narrow[ROWS][COUNT], narrow_out[COUNT];
static double wide[ROWS][COUNT], wide_out[COUNT];

static double processor_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Best ns an element of all rows; `run` takes one row. */
static double best(void (*run)(const void *what, int row), const void *what) {
    double least = INFINITY;
    for (int turn = 0; turn < TURNS; turn++) {
        const double start = processor_seconds();
        for (int row = 0; row < ROWS; row++) run(what, row);
        least = fmin(least, processor_seconds() - start);
    }
    return least * 1e9 / (ROWS * COUNT);
}

static void by_libm(const void *what, int row) {
    for (int j = 0; j < COUNT; j++) wide_out[j] = pow(fabs(wide[row][j]), *(const double *)what);
}

static void powers_f32(const void *what, int row) {
    ((const ota_kernels *)what)->f32->slope_weights(narrow[row], COUNT, 0.75, narrow_out);
}

static void powers_f64(const void *what, int row) {
    ((const ota_kernels *)what)->f64->slope_weights(wide[row], COUNT, 0.75, wide_out);
}

static void row_f32(const void *what, int row) {
    ota_row_found found;
    ota_row_solve_f32(what, narrow[row], NULL, COUNT, 1.0, narrow_out, &found);
}

static void row_f64(const void *what, int row) {
    ota_row_found found;
    ota_row_solve_f64(what, wide[row], NULL, COUNT, 1.0, wide_out, &found);
}

int main(void) {
    static const double orders[] = {1.05, 1.1, 1.25, 1.3, 1.5, 1.75, 2.0, 3.0, 4.0};
    for (int row = 0; row < ROWS; row++) {
        for (int j = 0; j < COUNT; j++) {
            wide[row][j] = normal();
            narrow[row][j] = (float)wide[row][j];
        }
    }
    const double exponent = 0.75;
    printf("libm         f64 %6.2f\n", best(by_libm, &exponent));
    for (int level = 0; ota_kernels_row(level) != NULL; level++) {
        const ota_kernels *row = ota_kernels_row(level);
        printf("%-10s   f32 %6.2f   f64 %6.2f\n", row->name, best(powers_f32, row),
               best(powers_f64, row));
    }
    for (size_t k = 0; k < sizeof orders / sizeof orders[0]; k++) {
        const ota_row_law law = {.kernels = ota_kernels_choose(NULL),
                                 .order = orders[k],
                                 .tau = 1.0,
                                 .sink = -INFINITY,
                                 .row_strength = INFINITY};
        printf("entmax:%-5g f32 %6.2f   f64 %6.2f\n", orders[k], best(row_f32, &law),
               best(row_f64, &law));
    }
    return 0;
}
