/* one_head.h: one head of f64 scores with room for every output, and all methods by name: what the tests of
 * laws and contents solve again and again. Include after cmocka.h. */
#ifndef TESTS_ONE_HEAD_H
#define TESTS_ONE_HEAD_H

#include "draw/elements.h"
#include "judge_forward.h"
#include "spec.h"

static const char *const all_methods[] = {"softmax",
                                          "entmax:1.5",
                                          "sparsemax",
                                          "entmax:3",
                                          "argmax",
                                          "softmax/exact",
                                          "softmax/relaxed:0.7",
                                          "softmax/capped:1.5",
                                          "softmax/elastic:0.3,4",
                                          "sparsemax/exact",
                                          "entmax:1.5/relaxed:1",
                                          "entmax:1.5/capped:2",
                                          "hard/exact",
                                          "hard/capped:1.5",
                                          "softmax/prefix",
                                          "entmax:1.5/prefix",
                                          "hard/prefix",
                                          "softmax/online:2",
                                          "entmax:1.5/online:2",
                                          "hard/online:2"};
enum { METHODS = (int)(sizeof all_methods / sizeof all_methods[0]) };
static inline bool names(const char *method, const char *part) {
    return strstr(method, part) != NULL;
}

/* ---- one head of f64 scores ---------------------------------------------------------------------- */

enum { LARGEST = 24, PAIRS = LARGEST * LARGEST };

typedef struct head {
    ota_problem problem;
    ota_options options;
    ota_arrays arrays;
    ota_result result;
    ota_error error;
    ota_term terms[3];
    ota_support supports[3];
    int64_t n, m;
    double s[PAIRS], p[PAIRS], v[PAIRS], out[PAIRS];
    double f[LARGEST], g[LARGEST], lse[LARGEST], receiver[LARGEST], mu[LARGEST], sink[LARGEST];
} head;

static head heads[2];

static inline head *head_make(int which, const char *method, int64_t n, int64_t m,
                              const double *scores) {
    head *t = &heads[which];
    memset(t, 0, sizeof *t);
    t->n = n;
    t->m = m;
    t->problem.size = sizeof t->problem;
    t->options.size = sizeof t->options;
    t->arrays.size = sizeof t->arrays;
    t->result.size = sizeof t->result;
    t->options.threads = 1;
    t->problem.terms = t->terms;
    t->problem.supports = t->supports;
    if (scores != NULL) memcpy(t->s, scores, (size_t)(n * m) * sizeof(double));
    t->problem.scores = ota_array_of(t->s, OTA_F64, 1, 1, n, m);
    t->arrays.coupling = ota_array_of(t->p, OTA_F64, 1, 1, n, m);
    t->arrays.row_potential = ota_array_of(t->f, OTA_F64, 1, 1, 1, n);
    t->arrays.column_potential = ota_array_of(t->g, OTA_F64, 1, 1, 1, m);
    t->arrays.lse = ota_array_of(t->lse, OTA_F64, 1, 1, 1, n);
    t->arrays.receiver = ota_array_of(t->receiver, OTA_F64, 1, 1, 1, m);
    t->arrays.sink = ota_array_of(t->sink, OTA_F64, 1, 1, 1, n);
    assert_int_equal(ota_method_parse(method, &t->problem, &t->options, &t->error), OTA_OK);
    return t;
}

static inline ota_status run_head(head *t) {
    return ota_attend(&t->problem, &t->options, &t->arrays, &t->result, &t->error);
}

static inline head *solved(head *t) {
    const ota_status status = run_head(t);
    if (status < 0) print_error("%s\n", t->error.message);
    assert_true(status >= 0);
    return t;
}

static inline void random_scores(double *s, int64_t count, double spread, uint64_t seed) {
    dice d = seed;
    fill_numbers(s, count, &d, NORMAL, spread);
}

static inline double distance(const double *a, const double *b, int64_t count) {
    double worst = 0.0;
    for (int64_t k = 0; k < count; k++) {
        const double apart = fabs(a[k] - b[k]);
        if (!(apart <= worst)) worst = apart;
    }
    return worst;
}

#endif
