/* Fixture of the judge's tests: one head with room for every output, solved by ota_reference and
 * judged by ota_certify, and the small numbers taken from it. */
#ifndef TESTS_JUDGE_STAGE_H
#define TESTS_JUDGE_STAGE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdbool.h>

#include "draw/random.h"
#include "reference/reference.h"
#include "spec.h"

enum { LARGEST = 40, PAIRS = LARGEST * LARGEST };

/* ---- a problem of one head with room for every output ------------------------------------- */

typedef struct stage {
    int64_t n, m;
    ota_problem problem;
    ota_options options;
    ota_arrays arrays;
    ota_result result;
    ota_error error;
    ota_certificate certificate;
    ota_term terms[4];
    ota_support supports[4];
    double s[PAIRS], p[PAIRS], v[PAIRS], out[PAIRS];
    double f[LARGEST], g[LARGEST], lse[LARGEST], receiver[LARGEST], entropy[LARGEST],
        positive[LARGEST];
    double largest[LARGEST], sink[LARGEST], mu[LARGEST], nu[LARGEST], remaining[LARGEST];
} stage;

/* One static stage per use keeps them off the stack; tests run one after another. */
static stage stages[3];

static inline ota_array vector(double *data, int64_t length) {
    return ota_array_of(data, OTA_F64, 1, 1, 1, length);
}

static inline stage *stage_make(int which, const double *scores, int64_t n, int64_t m,
                                const char *method) {
    stage *t = &stages[which];
    memset(t, 0, sizeof *t);
    t->n = n;
    t->m = m;
    t->problem.size = sizeof t->problem;
    t->options.size = sizeof t->options;
    t->arrays.size = sizeof t->arrays;
    t->result.size = sizeof t->result;
    t->certificate.size = sizeof t->certificate;
    if (scores != NULL) memcpy(t->s, scores, (size_t)(n * m) * sizeof(double));
    t->problem.scores = ota_array_of(t->s, OTA_F64, 1, 1, n, m);
    t->problem.terms = t->terms;
    t->problem.supports = t->supports;
    t->arrays.coupling = ota_array_of(t->p, OTA_F64, 1, 1, n, m);
    t->arrays.row_potential = vector(t->f, n);
    t->arrays.column_potential = vector(t->g, m);
    t->arrays.lse = vector(t->lse, n);
    t->arrays.receiver = vector(t->receiver, m);
    t->arrays.row_entropy = vector(t->entropy, n);
    t->arrays.row_support = vector(t->positive, n);
    t->arrays.row_max = vector(t->largest, n);
    t->arrays.sink = vector(t->sink, n);
    assert_int_equal(ota_method_parse(method, &t->problem, &t->options, &t->error), OTA_OK);
    return t;
}

static inline void with_values(stage *t, const double *v, int64_t width) {
    if (v != NULL) memcpy(t->v, v, (size_t)(t->m * width) * sizeof(double));
    t->arrays.values = ota_array_of(t->v, OTA_F64, 1, 1, t->m, width);
    t->arrays.out = ota_array_of(t->out, OTA_F64, 1, 1, t->n, width);
}

static inline void with_row_mass(stage *t, const double *mu) {
    memcpy(t->mu, mu, (size_t)t->n * sizeof(double));
    t->problem.row_mass = vector(t->mu, t->n);
}

static inline void with_column_mass(stage *t, const double *nu) {
    memcpy(t->nu, nu, (size_t)t->m * sizeof(double));
    t->problem.column_mass = vector(t->nu, t->m);
}

static inline void with_support(stage *t, ota_support support) {
    t->supports[t->problem.support_count++] = support;
}
static inline void with_term(stage *t, ota_term term) { t->terms[t->problem.term_count++] = term; }

static inline ota_status try_solve(stage *t) {
    return ota_reference(&t->problem, &t->options, &t->arrays, &t->result, &t->error);
}

static inline void certify(stage *t) {
    const ota_status status =
        ota_certify(&t->problem, &t->options, &t->arrays, &t->certificate, NULL, &t->error);
    if (status != OTA_OK) print_error("certify: %s\n", t->error.message);
    assert_int_equal(status, OTA_OK);
}

static inline stage *solve(stage *t) {
    const ota_status status = try_solve(t);
    if (status < 0) print_error("reference: %s\n", t->error.message);
    assert_true(status >= 0);
    certify(t);
    return t;
}

static inline stage *plan_of(int which, const double *scores, int64_t n, int64_t m,
                             const char *method) {
    return solve(stage_make(which, scores, n, m, method));
}

/* ---- numbers ------------------------------------------------------------------------------ */

static dice dice_state = 1;

static inline void fill(double *x, int64_t count, double scale) {
    for (int64_t k = 0; k < count; k++) x[k] = scale * normal(&dice_state);
}

static inline double largest_difference(const double *a, const double *b, int64_t count) {
    double worst = 0.0;
    for (int64_t k = 0; k < count; k++) {
        const double apart = fabs(a[k] - b[k]);
        if (!(apart <= worst)) worst = apart;
    }
    return worst;
}

static inline double row_sum(const stage *t, int64_t i) {
    double sum = 0.0;
    for (int64_t j = 0; j < t->m; j++) sum += t->p[i * t->m + j];
    return sum;
}

static inline double column_sum(const stage *t, int64_t j) {
    double sum = 0.0;
    for (int64_t i = 0; i < t->n; i++) sum += t->p[i * t->m + j];
    return sum;
}

static inline double row_excess(const stage *t) {
    double worst = 0.0;
    for (int64_t i = 0; i < t->n; i++) worst = fmax(worst, fabs(row_sum(t, i) + t->sink[i] - 1.0));
    return worst;
}

/* max |column sum - 1| */
static inline double imbalance(const stage *t) {
    double worst = 0.0;
    for (int64_t j = 0; j < t->m; j++) worst = fmax(worst, fabs(column_sum(t, j) - 1.0));
    return worst;
}

static inline double negative_part(double x) { return fmax(0.0, -x); }

static inline double objective(const stage *t, const double *p, double tau) {
    double sum = 0.0;
    for (int64_t k = 0; k < t->n * t->m; k++)
        sum += -p[k] * t->s[k] + (p[k] > 0.0 ? tau * p[k] * log(p[k]) : 0.0);
    return sum;
}

#endif
