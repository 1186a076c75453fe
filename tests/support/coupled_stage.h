/* coupled_stage.h: one head of f64 scores S [n][m] with masses, sink and every output of a coupled
 * solve: what the tests of the coupled solvers share. */
#ifndef TESTS_COUPLED_STAGE_H
#define TESTS_COUPLED_STAGE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw/random.h"
#include "otattn.h"
#include "solvers/coupled.h"
#include "spec.h"

static dice dice_state;

enum { SIZE_LIMIT = 64, PAIRS = SIZE_LIMIT * SIZE_LIMIT };

typedef struct stage {
    int64_t n, m;
    double s[PAIRS], p[PAIRS], f[SIZE_LIMIT], g[SIZE_LIMIT], start[SIZE_LIMIT];
    double mu[SIZE_LIMIT], nu[SIZE_LIMIT], column[SIZE_LIMIT], row[SIZE_LIMIT], sinks[SIZE_LIMIT];
    bool given_masses, warm;
    ota_term sink;
    bool has_sink;
    ota_problem problem;
    ota_options options;
    ota_result result;
    ota_error error;
} stage;

static inline stage *set_stage(int64_t n, int64_t m) {
    stage *x = calloc(1, sizeof *x);
    assert_non_null(x);
    x->n = n;
    x->m = m;
    x->problem = (ota_problem){.size = sizeof x->problem};
    x->options = (ota_options){.size = sizeof x->options};
    return x;
}

static inline void fill_uniform(stage *x, uint64_t seed, double scale) {
    dice_state = seed;
    for (int64_t k = 0; k < x->n * x->m; k++) x->s[k] = scale * uniform(&dice_state);
}

static inline void fill_normal(stage *x, uint64_t seed) {
    dice_state = seed;
    for (int64_t k = 0; k < x->n * x->m; k++) x->s[k] = normal(&dice_state);
}

static inline void name_method(stage *x, const char *method) {
    assert_int_equal(ota_method_parse(method, &x->problem, &x->options, &x->error), OTA_OK);
}

/* Where the answers go; a sink of the stage joins the problem. */
static inline ota_arrays stage_arrays(stage *x) {
    if (x->has_sink) {
        x->problem.terms = &x->sink;
        x->problem.term_count = 1;
    }
    return (ota_arrays){.size = sizeof(ota_arrays),
                        .coupling = ota_array_of(x->p, OTA_F64, 1, 1, x->n, x->m),
                        .row_potential = ota_array_of(x->f, OTA_F64, 1, 1, 1, x->n),
                        .column_potential = ota_array_of(x->g, OTA_F64, 1, 1, 1, x->m),
                        .sink = ota_array_of(x->sinks, OTA_F64, 1, 1, 1, x->n)};
}

static inline ota_status solve(stage *x) {
    x->problem.scores = ota_array_of(x->s, OTA_F64, 1, 1, x->n, x->m);
    if (x->given_masses) {
        x->problem.row_mass = ota_array_of(x->mu, OTA_F64, 1, 1, 1, x->n);
        if (x->problem.columns != OTA_COLUMNS_FREE) {
            x->problem.column_mass = ota_array_of(x->nu, OTA_F64, 1, 1, 1, x->m);
        }
    }
    ota_arrays arrays = stage_arrays(x);
    if (x->warm) arrays.start_potential = ota_array_of(x->start, OTA_F64, 1, 1, 1, x->m);
    x->result = (ota_result){.size = sizeof x->result};
    const ota_status status = ota_attend(&x->problem, &x->options, &arrays, &x->result, &x->error);
    for (int64_t j = 0; j < x->m; j++) x->column[j] = 0.0;
    for (int64_t i = 0; i < x->n; i++) {
        x->row[i] = x->sinks[i];
        for (int64_t j = 0; j < x->m; j++) {
            x->row[i] += x->p[i * x->m + j];
            x->column[j] += x->p[i * x->m + j];
        }
    }
    return status;
}

static inline ota_status solve_by(stage *x, const char *method, const char *solver,
                                  double temperature, double tolerance) {
    name_method(x, method);
    x->problem.temperature = temperature;
    x->options.solver = solver;
    x->options.tolerance = tolerance;
    return solve(x);
}

static inline double farthest(const double *a, const double *b, int64_t count) {
    double worst = 0.0;
    for (int64_t k = 0; k < count; k++) {
        const double apart = fabs(a[k] - b[k]);
        if (!(apart <= worst)) worst = apart;
    }
    return worst;
}

static inline bool same_bits(const double *a, const double *b, int64_t count) {
    return memcmp(a, b, (size_t)count * sizeof *a) == 0;
}

#endif
