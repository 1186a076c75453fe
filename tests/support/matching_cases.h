/* matching_cases.h: problems of matching and transport with plain marginals, solved by the solvers' own functions, and every
 * promise of combinatorial.h about their answers. Include after cmocka.h.
 *
 * Optimal values are compared with brute force over permutations (masses as repeated rows and columns), and every answer with
 * its own dual bound. COMBINATORIAL_TRIALS sets the number of random problems of each kind. */
#ifndef TESTS_MATCHING_CASES_H
#define TESTS_MATCHING_CASES_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "backend/cpu/kernels/kernels.h"
#include "draw/random.h"
#include "solvers/matching/combinatorial.h"

#ifndef COMBINATORIAL_TRIALS
#define COMBINATORIAL_TRIALS 3000
#endif

enum { SMALL = 8, LARGE = 64 };

static const double gap_tolerance = 1e-12; /* times the largest score and the mass */

/* ---- tools ---------------------------------------------------------------------------------- */

static inline void *work_of(size_t bytes) {
    assert_true(bytes != SIZE_MAX);
    void *work = aligned_alloc(64, bytes == 0 ? 64 : bytes);
    assert_non_null(work);
    return work;
}

/* Scores of one of several characters: uniform, small integers (ties), wide, all equal, huge, tiny. */
static inline void random_scores(dice *d, int64_t count, double forbidden, double *scores) {
    static const double size[] = {1.0, 3.0, 1.0, 0.0, 1e300, 1e-300, 1e9};
    int64_t kind = below(d, 7);
    for (int64_t k = 0; k < count; k++) {
        double value = 2.0 * uniform(d) - 1.0;
        if (kind == 1) value = rint(value * 2.0);
        if (kind == 2) value *= pow(10.0, rint(12.0 * uniform(d) - 6.0));
        scores[k] = uniform(d) < forbidden ? -INFINITY : value * size[kind];
    }
}

static inline double largest_score(int64_t n, int64_t m, const double *scores, int64_t stride) {
    double largest = 0.0;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < m; j++) {
            double s = scores[i * stride + j];
            if (isfinite(s) && fabs(s) > largest) largest = fabs(s);
        }
    }
    return largest;
}

/* Largest S + f + g beyond its own rounding, over allowed pairs: 0 when the potentials are a bound. */
static inline double dual_excess(int64_t n, int64_t m, const double *scores, int64_t stride,
                                 const double *f, const double *g) {
    double excess = 0.0;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < m; j++) {
            double s = scores[i * stride + j];
            if (s == -INFINITY) continue;
            double rounding = 2.0 * DBL_EPSILON * (fabs(s) + fabs(f[i]) + fabs(g[j]));
            double beyond = s + f[i] + g[j] - rounding;
            if (!(beyond <= excess)) excess = beyond;
        }
    }
    return excess;
}

static inline void transpose(int64_t n, int64_t m, const double *from, double *to) {
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < m; j++) to[j * n + i] = from[i * m + j];
    }
}

static inline ota_status always_cancelled(const ota_settings *settings) {
    (void)settings;
    return OTA_CANCELLED;
}

/* ---- assignment ----------------------------------------------------------------------------- */

/* Asked once a path and once so many steps. */
static int64_t questions;

static inline ota_status count_question(const ota_settings *settings) {
    (void)settings;
    questions++;
    return OTA_OK;
}

static inline ota_assignment assignment_of(int64_t n, int64_t m, const double *scores,
                                           int64_t stride, int64_t *match, double *f, double *g) {
    return (ota_assignment){.n = n,
                            .m = m,
                            .scores = scores,
                            .stride = stride,
                            .costs = ota_kernels_choose(NULL)->f64->costs,
                            .passes = ota_kernels_choose(NULL)->f64->match,
                            .match = match,
                            .f = f,
                            .g = g};
}

static inline ota_status assign(int64_t n, int64_t m, const double *scores, int64_t stride,
                                int64_t *match, double *f, double *g) {
    void *work = work_of(ota_assignment_workspace(n, m, false));
    ota_assignment problem = assignment_of(n, m, scores, stride, match, f, g);
    problem.watch.interrupted = count_question;
    problem.watch.work = INT64_MIN; /* none for the time alone */
    ota_status status = ota_assignment_solve(&problem, work);
    free(work);
    return status;
}

/* Asserts that the match is one and that its value meets its dual bound; returns the value. */
static inline double assert_assignment(int64_t n, int64_t m, const double *scores, int64_t stride,
                                       const int64_t *match, const double *f, const double *g) {
    int64_t pairs = 0;
    double value = 0.0;
    double bound = 0.0;
    double gap = 0.0;
    uint8_t *taken = calloc((size_t)m + 1, 1);
    for (int64_t i = 0; i < n; i++) {
        int64_t j = match[i];
        bound -= f[i];
        if (n < m || j >= 0) assert_in_range((uintmax_t)j, 0, (uintmax_t)m - 1);
        if (n > m) assert_true(f[i] <= 0.0);
        if (j < 0) {
            assert_true(f[i] == 0.0);
            continue;
        }
        assert_int_equal(taken[j], 0);
        taken[j] = 1;
        pairs++;
        assert_true(scores[i * stride + j] > -INFINITY);
        value += scores[i * stride + j];
        gap -= scores[i * stride + j] + f[i] + g[j];
    }
    for (int64_t j = 0; j < m; j++) {
        bound -= g[j];
        if (n < m) assert_true(g[j] <= 0.0);
        if (n < m && taken[j] == 0) assert_true(g[j] == 0.0);
    }
    free(taken);
    assert_int_equal(pairs, n < m ? n : m);
    double scale = largest_score(n, m, scores, stride);
    assert_true(dual_excess(n, m, scores, stride, f, g) <= 0.0);
    assert_true(fabs(gap) <= gap_tolerance * scale);
    assert_true(fabs(bound - value) <= gap_tolerance * scale * (double)(pairs + 1));
    return value;
}

/* Best value of matching rows row ... n-1 into free columns, n <= m; -inf if none. */
static inline double brute_match(int64_t n, int64_t m, const double *scores, int64_t row,
                                 unsigned taken) {
    if (row == n) return 0.0;
    double best = -INFINITY;
    for (int64_t j = 0; j < m; j++) {
        if (taken & (1u << j) || scores[row * m + j] == -INFINITY) continue;
        double rest = brute_match(n, m, scores, row + 1, taken | (1u << j));
        if (scores[row * m + j] + rest > best) best = scores[row * m + j] + rest;
    }
    return best;
}

/* ---- transport ------------------------------------------------------------------------------ */

/* Of dense scores, without a sink. */
static inline ota_transport transport_of(int64_t n, int64_t m, const double *scores,
                                         const double *mu, const double *nu, double *plan,
                                         double *f, double *g) {
    return (ota_transport){.n = n,
                           .m = m,
                           .scores = scores,
                           .stride = m,
                           .mu = mu,
                           .nu = nu,
                           .sink = -INFINITY,
                           .costs = ota_kernels_choose(NULL)->f64->costs,
                           .plan = plan,
                           .plan_stride = m,
                           .f = f,
                           .g = g};
}

typedef struct transport_case {
    int64_t n, m;
    double scores[LARGE * LARGE], mu[LARGE], nu[LARGE], plan[LARGE * LARGE], f[LARGE], g[LARGE];
    bool capped;
    double sink, tolerance;
    int64_t pivots;
} transport_case;

static inline ota_status ship(transport_case *c) {
    void *work = work_of(ota_transport_workspace(c->n, c->m, OTA_TRANSPORT_PLAIN));
    ota_transport problem = transport_of(c->n, c->m, c->scores, c->mu, c->nu, c->plan, c->f, c->g);
    problem.capped = c->capped;
    problem.sink = c->sink;
    problem.tolerance = c->tolerance;
    ota_status status = ota_transport_solve(&problem, work);
    c->pivots = problem.pivots;
    free(work);
    return status;
}

static int64_t questions_left;

static inline ota_status cancelled_later(const ota_settings *settings) {
    questions_left--;
    return count_question(settings) == OTA_OK && questions_left >= 0 ? OTA_OK : OTA_CANCELLED;
}

/* Solves the problem and returns how often it asked whether to go on. */
static inline int64_t ship_counted(ota_transport *problem, void *work) {
    problem->watch.interrupted = cancelled_later;
    questions = 0;
    questions_left = INT64_MAX;
    assert_int_equal(ota_transport_solve(problem, work), OTA_OK);
    return questions;
}

/* After ship_counted, which returned `asked`: a no to any of 16 of its questions ends it. */
static inline void assert_cancelling_is_heard(ota_transport *problem, void *work, int64_t asked) {
    for (int part = 0; part < 16; part++) {
        questions_left = asked * part / 16;
        assert_int_equal(ota_transport_solve(problem, work), OTA_CANCELLED);
    }
}

/* Asserts every promise of combinatorial.h and returns <P, S> (with the sink's share). Sums are formed in
 * units of the largest score, where tiny scores times tiny masses do not leave the normal range. */
static inline double assert_transport(const transport_case *c) {
    int64_t n = c->n, m = c->m;
    double scale = largest_score(n, m, c->scores, m);
    if (c->sink != -INFINITY && fabs(c->sink) > scale) scale = fabs(c->sink);
    double unit = scale > 0.0 ? scale : 1.0, sink = c->sink / unit;
    double mass = 0.0, value = 0.0, bound = 0.0, slack = 0.0, column_error = 0.0;
    double columns[LARGE] = {0.0};
    for (int64_t i = 0; i < n; i++) {
        double row = 0.0, f = c->f[i] / unit;
        mass += c->mu[i];
        bound -= c->mu[i] * f;
        for (int64_t j = 0; j < m; j++) {
            double p = c->plan[i * m + j], s = c->scores[i * m + j] / unit;
            assert_true(p >= 0.0);
            if (p == 0.0) continue;
            assert_true(s > -INFINITY);
            row += p;
            columns[j] += p;
            value += p * s;
            slack -= p * (s + f + c->g[j] / unit);
        }
        double rounding = 2.0 * DBL_EPSILON * (double)(n > m ? n : m) * c->mu[i];
        if (c->sink == -INFINITY) {
            assert_true(fabs(row - c->mu[i]) <= rounding);
        } else {
            assert_true(row <= c->mu[i] + rounding);
            assert_true(sink + f <= 2.0 * DBL_EPSILON * (fabs(sink) + fabs(f)));
            if (c->mu[i] - row > rounding) {
                value += (c->mu[i] - row) * sink;
                slack -= (c->mu[i] - row) * (sink + f);
            }
        }
    }
    for (int64_t j = 0; j < m; j++) {
        double left = c->nu[j] - columns[j], g = c->g[j] / unit;
        if (g != 0.0) bound -= c->nu[j] * g;
        if (!c->capped || left < 0.0) column_error += fabs(left);
        if (c->capped) assert_true(g <= 0.0);
        if (c->capped && left > 1e-9 * mass) assert_true(g >= -gap_tolerance);
    }
    assert_true(dual_excess(n, m, c->scores, m, c->f, c->g) <= 0.0);
    assert_true(column_error <=
                (c->tolerance > gap_tolerance ? c->tolerance : gap_tolerance) * mass);
    assert_true(slack <= gap_tolerance * mass);
    double slop = c->tolerance > gap_tolerance ? c->tolerance : 8.0 * gap_tolerance;
    assert_true(fabs(bound - value) <= slop * mass * (double)(n + m));
    return value * unit;
}

#endif
