/* test_combinatorial.c: assignment, transportation and feasibility against definitions.
 *
 * Optimal values are compared with brute force over permutations (masses as repeated rows and columns),
 * feasibility and usable pairs with the subset conditions of Hall and Gale
 *     mu(X) <= nu(N(X)) for every set X of rows;  tight X: no weight on (i, j), i not in X, j in N(X)
 * and every answer with its own dual bound.
 * COMBINATORIAL_TRIALS sets the number of random problems of each kind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>

#include "problem/feasible.h"
#include "backend/cpu/kernels/kernels.h"
#include "solvers/matching/combinatorial.h"
#include "groups.h"
#include "draw/random.h"
#include "spec.h"

#ifndef COMBINATORIAL_TRIALS
#define COMBINATORIAL_TRIALS 3000
#endif

enum { SMALL = 8, LARGE = 64 };

static const double gap_tolerance = 1e-12; /* times the largest score and the mass */

/* ---- tools ---------------------------------------------------------------------------------- */

static void *work_of(size_t bytes) {
    assert_true(bytes != SIZE_MAX);
    void *work = aligned_alloc(64, bytes == 0 ? 64 : bytes);
    assert_non_null(work);
    return work;
}

/* Scores of one of several characters: uniform, small integers (ties), wide, all equal, huge, tiny. */
static void random_scores(dice *d, int64_t count, double forbidden, double *scores) {
    static const double size[] = {1.0, 3.0, 1.0, 0.0, 1e300, 1e-300, 1e9};
    int64_t kind = below(d, 7);
    for (int64_t k = 0; k < count; k++) {
        double value = 2.0 * uniform(d) - 1.0;
        if (kind == 1) value = rint(value * 2.0);
        if (kind == 2) value *= pow(10.0, rint(12.0 * uniform(d) - 6.0));
        scores[k] = uniform(d) < forbidden ? -INFINITY : value * size[kind];
    }
}

static double largest_score(int64_t n, int64_t m, const double *scores, int64_t stride) {
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
static double dual_excess(int64_t n, int64_t m, const double *scores, int64_t stride,
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

/* ---- assignment ----------------------------------------------------------------------------- */

/* Asked once a path and once so many steps. */
static int64_t questions;

static ota_status count_question(const ota_settings *settings) {
    (void)settings;
    questions++;
    return OTA_OK;
}

static ota_status assign(int64_t n, int64_t m, const double *scores, int64_t stride, int64_t *match,
                         double *f, double *g) {
    void *work = work_of(ota_assignment_workspace(n, m, false));
    ota_assignment problem = {
        .n = n, .m = m, .scores = scores, .stride = stride, .match = match, .f = f, .g = g};
    problem.costs = ota_kernels_choose(NULL)->f64->costs;
    problem.passes = ota_kernels_choose(NULL)->f64->match;
    problem.watch.interrupted = count_question;
    problem.watch.work = INT64_MIN; /* none for the time alone */
    ota_status status = ota_assignment_solve(&problem, work);
    free(work);
    return status;
}

/* Asserts that the match is one and that its value meets its dual bound; returns the value. */
static double assert_assignment(int64_t n, int64_t m, const double *scores, int64_t stride,
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
static double brute_match(int64_t n, int64_t m, const double *scores, int64_t row, unsigned taken) {
    if (row == n) return 0.0;
    double best = -INFINITY;
    for (int64_t j = 0; j < m; j++) {
        if (taken & (1u << j) || scores[row * m + j] == -INFINITY) continue;
        double rest = brute_match(n, m, scores, row + 1, taken | (1u << j));
        if (scores[row * m + j] + rest > best) best = scores[row * m + j] + rest;
    }
    return best;
}

static void transpose(int64_t n, int64_t m, const double *from, double *to) {
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < m; j++) to[j * n + i] = from[i * m + j];
    }
}

static void assignment_equals_brute_force(void **state) {
    (void)state;
    dice d = 1;
    int64_t infeasible = 0;
    double worst = 0.0;
    for (int trial = 0; trial < COMBINATORIAL_TRIALS; trial++) {
        int64_t n = 1 + below(&d, trial % 16 == 0 ? 7 : 5);
        int64_t m = trial % 2 == 0 ? n : 1 + below(&d, 6);
        double scores[SMALL * SMALL], flipped[SMALL * SMALL];
        random_scores(&d, n * m, trial % 3 == 0 ? 0.0 : 0.5 * uniform(&d), scores);
        transpose(n, m, scores, flipped);
        double best = n <= m ? brute_match(n, m, scores, 0, 0) : brute_match(m, n, flipped, 0, 0);
        int64_t match[SMALL];
        double f[SMALL], g[SMALL];
        ota_status status = assign(n, m, scores, m, match, f, g);
        if (best == -INFINITY) {
            assert_int_equal(status, OTA_INFEASIBLE);
            infeasible++;
            continue;
        }
        assert_int_equal(status, OTA_OK);
        double value = assert_assignment(n, m, scores, m, match, f, g);
        double scale = largest_score(n, m, scores, m);
        if (scale > 0.0 && fabs(value - best) / scale > worst) worst = fabs(value - best) / scale;

        int64_t back[SMALL];
        assert_int_equal(assign(m, n, flipped, n, back, g, f), OTA_OK);
        assert_true(fabs(assert_assignment(m, n, flipped, n, back, g, f) - best) <=
                    gap_tolerance * scale);
    }
    assert_true(infeasible > COMBINATORIAL_TRIALS / 50);
    spec_check("ELA-14", worst, gap_tolerance);
}

/* Unique optima: shifts of rows and columns keep the match, permutations permute it, and powers of two
 * change no bit. */
static void assignment_laws(void **state) {
    (void)state;
    dice d = 2;
    enum { SIZE = 24 };
    double scores[SIZE * SIZE], other[SIZE * SIZE], f[SIZE], g[SIZE], f2[SIZE], g2[SIZE];
    int64_t match[SIZE], match2[SIZE], rows[SIZE], columns[SIZE];
    for (int trial = 0; trial < 50; trial++) {
        int64_t n = 2 + below(&d, SIZE - 1);
        for (int64_t k = 0; k < n * n; k++) scores[k] = uniform(&d);
        assert_int_equal(assign(n, n, scores, n, match, f, g), OTA_OK);
        (void)assert_assignment(n, n, scores, n, match, f, g);

        for (int64_t i = 0; i < n; i++) rows[i] = columns[i] = i;
        for (int64_t i = n - 1; i > 0; i--) {
            int64_t a = below(&d, i + 1), b = below(&d, i + 1), swap = rows[i];
            rows[i] = rows[a], rows[a] = swap, swap = columns[i];
            columns[i] = columns[b], columns[b] = swap;
        }
        for (int64_t i = 0; i < n; i++) {
            for (int64_t j = 0; j < n; j++) {
                other[i * n + j] =
                    scores[rows[i] * n + columns[j]] + (double)(rows[i] * 3 - columns[j]);
            }
        }
        assert_int_equal(assign(n, n, other, n, match2, f2, g2), OTA_OK);
        for (int64_t i = 0; i < n; i++) assert_int_equal(columns[match2[i]], match[rows[i]]);

        for (int64_t k = 0; k < n * n; k++) other[k] = ldexp(scores[k], -200);
        assert_int_equal(assign(n, n, other, n, match2, f2, g2), OTA_OK);
        for (int64_t i = 0; i < n; i++) {
            assert_int_equal(match2[i], match[i]);
            assert_true(ldexp(f2[i], 200) == f[i] && ldexp(g2[i], 200) == g[i]);
        }
    }
}

static void assignment_larger_and_edges(void **state) {
    (void)state;
    dice d = 3;
    static const int64_t shape[][2] = {{64, 64},  {200, 200}, {50, 130},
                                       {130, 50}, {1, 90},    {90, 1}};
    double *scores = malloc(200 * 208 * sizeof(double));
    double f[200], g[200];
    int64_t match[200];
    questions = 0;
    for (int trial = 0; trial < 60; trial++) {
        int64_t n = shape[trial % 6][0], m = shape[trial % 6][1], stride = m + 8;
        random_scores(&d, n * stride, trial % 4 == 0 ? 0.3 : 0.0, scores);
        ota_status status = assign(n, m, scores, stride, match, f, g);
        if (status == OTA_INFEASIBLE && trial % 4 == 0)
            continue; /* 30 % holes in a 1 x m or n x 1 */
        assert_int_equal(status, OTA_OK);
        (void)assert_assignment(n, m, scores, stride, match, f, g);
    }
    /* A little more than it takes: bids that lead nowhere leave more paths to search. */
    spec_check("", (double)questions, 550.0);
    /* The classic slow case of bidding: c_ij = (i + 1)(j + 1). */
    for (int64_t k = 0; k < 200 * 200; k++) scores[k] = -(double)((k / 200 + 1) * (k % 200 + 1));
    assert_int_equal(assign(200, 200, scores, 200, match, f, g), OTA_OK);
    (void)assert_assignment(200, 200, scores, 200, match, f, g);
    for (int64_t i = 0; i < 200; i++) assert_int_equal(match[i], 199 - i);

    assert_int_equal(assign(0, 3, NULL, 3, NULL, NULL, g), OTA_OK);
    assert_true(g[0] == 0.0 && g[2] == 0.0);
    assert_int_equal(assign(3, 0, NULL, 0, match, f, NULL), OTA_OK);
    assert_true(match[2] == -1 && f[2] == 0.0);
    scores[1] = NAN;
    assert_int_equal(assign(2, 2, scores, 2, match, f, g), OTA_NONFINITE);
    scores[1] = INFINITY;
    assert_int_equal(assign(2, 2, scores, 2, match, f, g), OTA_NONFINITE);
    assert_true(ota_assignment_workspace(INT64_MAX, INT64_MAX, false) == SIZE_MAX);
    assert_true(ota_assignment_workspace(INT64_MAX / 4, 3, false) == SIZE_MAX);
    free(scores);
}

/* ---- transport ------------------------------------------------------------------------------ */

typedef struct transport_case {
    int64_t n, m;
    double scores[LARGE * LARGE], mu[LARGE], nu[LARGE], plan[LARGE * LARGE], f[LARGE], g[LARGE];
    bool capped;
    double sink, tolerance;
    int64_t pivots;
} transport_case;

static ota_status ship(transport_case *c) {
    void *work = work_of(ota_transport_workspace(c->n, c->m, false));
    ota_transport problem = {.n = c->n,
                             .m = c->m,
                             .scores = c->scores,
                             .stride = c->m,
                             .mu = c->mu,
                             .nu = c->nu,
                             .capped = c->capped,
                             .sink = c->sink,
                             .tolerance = c->tolerance,
                             .costs = ota_kernels_choose(NULL)->f64->costs,
                             .plan = c->plan,
                             .plan_stride = c->m,
                             .f = c->f,
                             .g = c->g};
    ota_status status = ota_transport_solve(&problem, work);
    c->pivots = problem.pivots;
    free(work);
    return status;
}

/* Asserts every promise of combinatorial.h and returns <P, S> (with the sink's share). Sums are formed in
 * units of the largest score, where tiny scores times tiny masses do not leave the normal range. */
static double assert_transport(const transport_case *c) {
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

/* The same problem with every row and column repeated as often as its integer mass says. */
static double brute_ship(const transport_case *c) {
    double expanded[SMALL * 32];
    int64_t rows = 0, columns = 0;
    for (int64_t j = 0; j < c->m; j++) columns += (int64_t)c->nu[j];
    for (int64_t i = 0; i < c->n; i++) {
        for (int copy = 0; copy < (int)c->mu[i]; copy++, rows++) {
            int64_t column = 0;
            for (int64_t j = 0; j < c->m; j++) {
                for (int again = 0; again < (int)c->nu[j]; again++) {
                    expanded[rows * columns + column++] = c->scores[i * c->m + j];
                }
            }
        }
    }
    return brute_match(rows, columns, expanded, 0, 0);
}

static void transport_equals_brute_force(void **state) {
    (void)state;
    dice d = 4;
    int64_t infeasible = 0;
    double worst = 0.0;
    transport_case *c = calloc(1, sizeof *c);
    c->sink = -INFINITY;
    for (int trial = 0; trial < COMBINATORIAL_TRIALS; trial++) {
        c->n = 1 + below(&d, 4);
        c->m = 1 + below(&d, 4);
        c->capped = trial % 2 == 1;
        random_scores(&d, c->n * c->m, trial % 3 == 0 ? 0.0 : 0.5 * uniform(&d), c->scores);
        memset(c->mu, 0, sizeof c->mu);
        memset(c->nu, 0, sizeof c->nu);
        int64_t total = below(&d, 6);
        for (int64_t k = 0; k < total; k++) {
            c->mu[below(&d, c->n)] += 1.0;
            c->nu[below(&d, c->m)] += 1.0;
        }
        for (int64_t k = below(&d, 4); c->capped && k > 0; k--) c->nu[below(&d, c->m)] += 1.0;
        double best = brute_ship(c);
        ota_status status = ship(c);
        if (best == -INFINITY) {
            assert_int_equal(status, OTA_INFEASIBLE);
            infeasible++;
            continue;
        }
        assert_int_equal(status, OTA_OK);
        double value = assert_transport(c);
        double scale = largest_score(c->n, c->m, c->scores, c->m) * (double)(total + 1);
        if (scale > 0.0 && fabs(value - best) / scale > worst) worst = fabs(value - best) / scale;
    }
    free(c);
    assert_true(infeasible > COMBINATORIAL_TRIALS / 50);
    spec_check("LIT-06 ELA-14", worst, gap_tolerance);
}

/* Real masses and every knob at once; the dual bound is the judge. */
static void transport_meets_its_dual_bound(void **state) {
    (void)state;
    dice d = 5;
    int64_t solved = 0, pivots = 0;
    transport_case *c = calloc(1, sizeof *c);
    for (int trial = 0; trial < COMBINATORIAL_TRIALS; trial++) {
        int64_t limit = trial % 50 == 0 ? LARGE : 12;
        c->n = 1 + below(&d, limit);
        c->m = 1 + below(&d, limit);
        c->capped = below(&d, 2) == 0;
        c->sink = below(&d, 4) == 0 ? 2.0 * uniform(&d) - 1.0 : -INFINITY;
        double holes = trial % 3 == 0 ? 0.0 : 0.6 * uniform(&d);
        random_scores(&d, c->n * c->m, holes, c->scores);
        double rows = 0.0, columns = 0.0;
        int64_t kind = below(&d, 5); /* real, with zeros, units, tenths, over many decades */
        for (int64_t i = 0; i < c->n; i++) {
            double u = uniform(&d);
            c->mu[i] = kind == 2   ? 1.0
                       : kind == 3 ? 0.1 * rint(10.0 * u)
                       : kind == 4 ? pow(10.0, -20.0 * u)
                                   : u;
            if (kind == 1 && below(&d, 3) == 0) c->mu[i] = 0.0;
            rows += c->mu[i];
        }
        for (int64_t j = 0; j < c->m; j++) {
            double u = uniform(&d);
            c->nu[j] = kind == 2 ? 1.0 : kind == 4 ? pow(10.0, -20.0 * u) : u;
            if (kind == 1 && below(&d, 3) == 0) c->nu[j] = 0.0;
            columns += c->nu[j];
        }
        double factor = columns > 0.0 ? rows / columns : 0.0;
        if (c->capped) factor *= 1.0 + (trial % 5 == 0 ? 0.0 : uniform(&d));
        if (!c->capped && c->sink != -INFINITY) factor *= uniform(&d);
        for (int64_t j = 0; j < c->m; j++) {
            c->nu[j] *= factor;
            if (c->capped && below(&d, 8) == 0) c->nu[j] = INFINITY;
        }
        ota_status status = ship(c);
        if (status == OTA_INFEASIBLE) continue;
        assert_int_equal(status, OTA_OK);
        (void)assert_transport(c);
        solved++;
        pivots += c->pivots;
    }
    free(c);
    assert_true(solved > COMBINATORIAL_TRIALS / 3);
    /* The paths leave next to nothing to the simplex: prices that are not the best ones show here alone. */
    spec_check("", (double)pivots, 0.05 * COMBINATORIAL_TRIALS);
}

static void transport_laws(void **state) {
    (void)state;
    dice d = 6;
    transport_case *c = calloc(1, sizeof *c), *other = calloc(1, sizeof *other);
    for (int trial = 0; trial < 200; trial++) {
        c->n = 1 + below(&d, 20);
        c->m = 1 + below(&d, 20);
        c->capped = false;
        c->sink = -INFINITY;
        double rows = 0.0, columns = 0.0;
        for (int64_t k = 0; k < c->n * c->m; k++) c->scores[k] = uniform(&d);
        for (int64_t i = 0; i < c->n; i++) rows += c->mu[i] = uniform(&d);
        for (int64_t j = 0; j < c->m; j++) columns += c->nu[j] = uniform(&d);
        for (int64_t j = 0; j < c->m; j++) c->nu[j] *= rows / columns;
        assert_int_equal(ship(c), OTA_OK);
        double value = assert_transport(c);

        *other = *c;
        other->n = c->m;
        other->m = c->n;
        transpose(c->n, c->m, c->scores, other->scores);
        memcpy(other->mu, c->nu, sizeof c->nu);
        memcpy(other->nu, c->mu, sizeof c->mu);
        assert_int_equal(ship(other), OTA_OK);
        assert_true(fabs(assert_transport(other) - value) <= 4.0 * gap_tolerance * rows);

        *other = *c;
        for (int64_t k = 0; k < c->n * c->m; k++) {
            other->scores[k] += (double)(k / c->m) - 2.0 * (double)(k % c->m);
        }
        assert_int_equal(ship(other), OTA_OK);
        (void)assert_transport(other);
        for (int64_t k = 0; k < c->n * c->m; k++) {
            assert_true(fabs(other->plan[k] - c->plan[k]) <= gap_tolerance * rows);
        }

        *other = *c;
        /* Powers of two change no bit, up nor down. */
        const int power = trial % 2 == 0 ? 300 : -300;
        for (int64_t k = 0; k < c->n * c->m; k++) other->scores[k] = ldexp(c->scores[k], power);
        assert_int_equal(ship(other), OTA_OK);
        assert_memory_equal(other->plan, c->plan, (size_t)(c->n * c->m) * sizeof(double));

        /* A sink or capacities nobody wants change nothing: columns at infinity are the row argmax. */
        *other = *c;
        other->capped = true;
        for (int64_t j = 0; j < c->m; j++) other->nu[j] = INFINITY;
        assert_int_equal(ship(other), OTA_OK);
        for (int64_t i = 0; i < c->n; i++) {
            double top = -INFINITY;
            int64_t where = 0;
            for (int64_t j = 0; j < c->m; j++) {
                if (c->scores[i * c->m + j] > top) top = c->scores[i * c->m + j], where = j;
            }
            assert_true(other->plan[i * c->m + where] == c->mu[i]);
        }
    }
    free(c);
    free(other);
}

static void transport_edges(void **state) {
    (void)state;
    transport_case *c = calloc(1, sizeof *c);
    c->sink = -INFINITY;
    assert_int_equal(ship(c), OTA_OK);

    c->n = 2;
    assert_int_equal(ship(c), OTA_OK); /* no columns, no mass */
    c->mu[1] = 1.0;
    assert_int_equal(ship(c), OTA_INFEASIBLE);

    /* Blocks whose masses agree only up to rounding: .1 + .2 against .3. */
    c->n = 3;
    c->m = 2;
    const double mu[] = {0.1, 0.2, 0.7}, nu[] = {0.3, 0.7};
    memcpy(c->mu, mu, sizeof mu);
    memcpy(c->nu, nu, sizeof nu);
    for (int k = 0; k < 6; k++) c->scores[k] = (k == 0 || k == 2 || k == 5) ? 0.5 : -INFINITY;
    assert_int_equal(ship(c), OTA_OK);
    (void)assert_transport(c);
    assert_true(c->plan[0] == 0.1 && c->plan[5] == 0.7);
    c->nu[0] = 0.3 + 1e-9;
    assert_int_equal(ship(c), OTA_INFEASIBLE);
    c->tolerance = 1e-6;
    assert_int_equal(ship(c), OTA_OK);
    (void)assert_transport(c);

    /* Totals that agree to the tolerance: every column gives its share of the difference. */
    for (int k = 0; k < 6; k++) c->scores[k] = 0.1 * k;
    c->nu[0] = 0.3 * (1.0 + 8e-7);
    c->nu[1] = 0.7 * (1.0 + 8e-7);
    assert_int_equal(ship(c), OTA_OK);
    for (int j = 0; j < 2; j++) {
        double sum = c->plan[j] + c->plan[2 + j] + c->plan[4 + j];
        assert_true(fabs(sum - c->nu[j]) <= 0.9e-6 * c->nu[j]);
    }
    c->tolerance = 0.0;
    for (int k = 0; k < 6; k++) c->scores[k] = (k == 0 || k == 2 || k == 5) ? 0.5 : -INFINITY;
    c->nu[1] = 0.7;

    /* Rounding may not ship: the last row's other key wants 5e-17 more than its own rows have. */
    const double halves[] = {0.15, 0.15, 0.7};
    memcpy(c->mu, halves, sizeof halves);
    c->nu[0] = 0.1 + 0.2;
    c->scores[4] = 0.25;
    assert_true(c->nu[0] > 0.3);
    assert_int_equal(ship(c), OTA_OK);
    (void)assert_transport(c);
    assert_true(c->plan[4] == 0.0 && c->plan[5] == 0.7);
    c->scores[4] = -INFINITY;
    memcpy(c->mu, mu, sizeof mu);

    /* A row of rounding size whose only key is full ships its mass there all the same. */
    const double least[] = {0.3, 1e-17, 0.7};
    memcpy(c->mu, least, sizeof least);
    c->nu[0] = 0.3;
    c->scores[2] = 0.25;
    assert_int_equal(ship(c), OTA_OK);
    (void)assert_transport(c);
    assert_true(c->plan[0] == 0.3 && c->plan[2] == 1e-17 && c->plan[5] == 0.7);
    c->scores[2] = 0.5;
    memcpy(c->mu, mu, sizeof mu);

    /* A forbidden row is infeasible however small its mass; without mass it is not. */
    c->mu[0] = 1e-25;
    c->mu[1] = 0.3;
    c->scores[0] = -INFINITY;
    assert_int_equal(ship(c), OTA_INFEASIBLE);
    c->mu[0] = 0.0;
    assert_int_equal(ship(c), OTA_OK);
    (void)assert_transport(c);

    c->mu[0] = -1.0;
    assert_int_equal(ship(c), OTA_EINVAL);
    c->mu[0] = NAN;
    assert_int_equal(ship(c), OTA_EINVAL);
    c->mu[0] = 0.0;
    c->nu[0] = INFINITY;
    assert_int_equal(ship(c), OTA_EINVAL);
    c->nu[0] = 0.3;
    c->scores[2] = NAN;
    assert_int_equal(ship(c), OTA_NONFINITE);

    /* One row fills capacities from the best key down. */
    c->n = 1;
    c->m = 3;
    c->capped = true;
    const double caps[] = {0.4, 0.4, 0.4}, order[] = {2.0, 3.0, 1.0};
    memcpy(c->nu, caps, sizeof caps);
    memcpy(c->scores, order, sizeof order);
    c->mu[0] = 1.0;
    assert_int_equal(ship(c), OTA_OK);
    (void)assert_transport(c);
    assert_true(fabs(c->plan[2] - 0.2) < 1e-15 && fabs(c->plan[1] - 0.4) < 1e-15);
    c->mu[0] = 1.3;
    assert_int_equal(ship(c), OTA_INFEASIBLE);
    assert_true(ota_transport_workspace(INT32_MAX, 1, false) == SIZE_MAX);
    assert_true(ota_transport_workspace(INT32_MAX / 8 - 2, 1, false) < SIZE_MAX);
    assert_true(ota_transport_workspace(INT32_MAX / 8 - 1, 1, false) == SIZE_MAX);
    free(c);
}

/* <P_eps, C> - optimum <= eps H(P_eps), P_eps by plain scaling from the definition [ELA-14]. */
static void entropic_plan_is_within_its_entropy(void **state) {
    (void)state;
    enum { SIZE = 6 };
    dice d = 7;
    for (int trial = 0; trial < 20; trial++) {
        double scores[SIZE * SIZE], p[SIZE * SIZE], f[SIZE], g[SIZE],
            eps = 0.05 + 0.2 * uniform(&d);
        int64_t match[SIZE];
        for (int k = 0; k < SIZE * SIZE; k++) {
            scores[k] = uniform(&d);
            p[k] = exp(scores[k] / eps);
        }
        for (int round = 0; round < 2000; round++) {
            for (int side = 0; side < 2; side++) {
                for (int a = 0; a < SIZE; a++) {
                    double sum = 0.0;
                    for (int b = 0; b < SIZE; b++)
                        sum += p[side == 0 ? b * SIZE + a : a * SIZE + b];
                    for (int b = 0; b < SIZE; b++)
                        p[side == 0 ? b * SIZE + a : a * SIZE + b] /= sum;
                }
            }
        }
        assert_int_equal(assign(SIZE, SIZE, scores, SIZE, match, f, g), OTA_OK);
        double optimum = -assert_assignment(SIZE, SIZE, scores, SIZE, match, f, g);
        double cost = 0.0, entropy = 0.0;
        for (int k = 0; k < SIZE * SIZE; k++) {
            cost -= p[k] * scores[k];
            if (p[k] > 0.0) entropy -= p[k] * log(p[k]);
        }
        assert_true(cost - optimum >= -1e-9);
        spec_check("ELA-14", cost - optimum - eps * entropy, 1e-9);
    }
}

/* ---- feasibility ---------------------------------------------------------------------------- */

static ota_status judge(int64_t n, int64_t m, const uint8_t *support, const double *mu,
                        const double *nu, bool capped, uint8_t *usable,
                        ota_feasible_counts *counts) {
    void *work = work_of(ota_feasible_workspace(n, m));
    ota_feasible_problem problem = {.masses = {n, m, mu, nu, capped, 1e-12}, .support = support};
    int32_t order[2 * SMALL + 1];
    const bool ordered = n <= SMALL && m <= SMALL;
    ota_status status = ota_feasible(&problem, usable, ordered ? order : NULL, counts, work);
    free(work);
    for (int64_t k = 0; k < n * m && status == OTA_OK && ordered; k++) {
        if (support[k] == 0 || !(mu[k / m] > 0.0) || !(nu[k % m] > 0.0)) continue;
        const int32_t i = order[k / m], j = order[n + k % m], spare = order[n + m];
        assert_true(usable[k] ? i == j : i > j);
        if (capped) assert_true(j <= spare);
    }
    return status;
}

/* Hall and Gale, subset by subset, with small integer masses: exact. Fills usable when feasible. */
static bool brute_feasible(int64_t n, int64_t m, const uint8_t *support, const double *mu,
                           const double *nu, bool capped, uint8_t *usable) {
    double rows = 0.0, columns = 0.0;
    for (int64_t i = 0; i < n; i++) rows += mu[i];
    for (int64_t j = 0; j < m; j++) columns += nu[j];
    if (!capped && rows != columns) return false;
    for (int64_t k = 0; k < n * m; k++)
        usable[k] = support[k] && mu[k / m] > 0.0 && nu[k % m] > 0.0;
    for (unsigned set = 0; set < 1u << n; set++) {
        double inside = 0.0, outside = 0.0;
        bool near[SMALL] = {false};
        for (int64_t i = 0; i < n; i++) {
            if (!(set & (1u << i))) continue;
            inside += mu[i];
            for (int64_t j = 0; j < m; j++) near[j] = near[j] || support[i * m + j] != 0;
        }
        for (int64_t j = 0; j < m; j++) outside += near[j] ? nu[j] : 0.0;
        if (inside > outside) return false;
        if (inside < outside) continue;
        for (int64_t k = 0; k < n * m; k++) {
            if (!(set & (1u << (k / m))) && near[k % m]) usable[k] = 0;
        }
    }
    return true;
}

static void feasibility_equals_subset_conditions(void **state) {
    (void)state;
    dice d = 8;
    int64_t feasible = 0, partly = 0;
    transport_case *c = calloc(1, sizeof *c);
    for (int trial = 0; trial < COMBINATORIAL_TRIALS; trial++) {
        int64_t n = 1 + below(&d, 6), m = trial % 2 ? n : 1 + below(&d, 6);
        bool capped = below(&d, 3) == 0;
        double mu[SMALL] = {0.0}, nu[SMALL] = {0.0}, hole = 0.8 * uniform(&d);
        uint8_t support[SMALL * SMALL], usable[SMALL * SMALL], expected[SMALL * SMALL];
        for (int64_t k = 0; k < n * m; k++) support[k] = uniform(&d) >= hole;
        if (below(&d, 2) == 0) {
            for (int64_t i = 0; i < n; i++) mu[i] = 1.0;
            for (int64_t j = 0; j < m; j++) nu[j] = 1.0;
        } else {
            for (int64_t k = below(&d, 12); k >= 0; k--) {
                mu[below(&d, n)] += 1.0;
                nu[below(&d, m)] += 1.0;
            }
        }
        bool possible = brute_feasible(n, m, support, mu, nu, capped, expected);
        ota_feasible_counts counts = {-1, -1, -1};
        ota_status status = judge(n, m, support, mu, nu, capped, usable, &counts);
        assert_int_equal(status, possible ? OTA_OK : OTA_INFEASIBLE);

        c->n = n;
        c->m = m;
        c->capped = capped;
        c->sink = -INFINITY;
        memcpy(c->mu, mu, sizeof mu);
        memcpy(c->nu, nu, sizeof nu);
        for (int64_t k = 0; k < n * m; k++) c->scores[k] = support[k] ? uniform(&d) : -INFINITY;
        assert_int_equal(ship(c), status);
        if (!possible) continue;
        assert_memory_equal(usable, expected, (size_t)(n * m));
        int64_t count = 0;
        for (int64_t k = 0; k < n * m; k++) {
            count += expected[k];
            if (c->plan[k] > 0.0) assert_int_equal(expected[k], 1);
        }
        assert_int_equal(counts.usable, count);
        assert_int_equal(counts.allowed - counts.usable, counts.unusable);
        feasible++;
        partly += counts.unusable > 0;
    }
    free(c);
    assert_true(feasible > COMBINATORIAL_TRIALS / 5 && partly > COMBINATORIAL_TRIALS / 50);
}

typedef struct named_mask {
    const char *name, *ids;
    bool (*allows)(int64_t i, int64_t j);
    int64_t allowed, usable; /* at n = m = 12 with unit masses; usable -1: infeasible */
} named_mask;

static bool mask_causal(int64_t i, int64_t j) { return j <= i; }
static bool mask_strict(int64_t i, int64_t j) { return j < i; }
static bool mask_window(int64_t i, int64_t j) { return j >= i - 2 && j <= i + 2; }
static bool mask_strided(int64_t i, int64_t j) { return (i - j) % 3 == 0; }
static bool mask_block(int64_t i, int64_t j) { return i / 4 == j / 4; }
static bool mask_full(int64_t i, int64_t j) { return i >= 0 && j >= 0; }

static void named_masks(void **state) {
    (void)state;
    static const named_mask masks[] = {
        {"causal", "DER-24 CETA-24", mask_causal, 78, 12},
        {"strictly causal", "DER-24 CETA-25", mask_strict, 66, -1},
        {"window", "DER-24", mask_window, 54, 54},
        {"strided", "DER-24", mask_strided, 48, 48},
        {"block", "DER-24", mask_block, 48, 48},
        {"full", "DER-24", mask_full, 144, 144},
    };
    enum { SIZE = 12 };
    dice d = 9;
    transport_case *c = calloc(1, sizeof *c);
    for (size_t k = 0; k < sizeof masks / sizeof masks[0]; k++) {
        const named_mask *mask = &masks[k];
        uint8_t support[SIZE * SIZE], usable[SIZE * SIZE];
        double f[SIZE], g[SIZE];
        int64_t match[SIZE];
        *c = (transport_case){.n = SIZE, .m = SIZE, .sink = -INFINITY};
        for (int64_t i = 0; i < SIZE; i++) {
            c->mu[i] = c->nu[i] = 1.0;
            for (int64_t j = 0; j < SIZE; j++) {
                bool allowed = mask->allows(i, j);
                support[i * SIZE + j] = allowed;
                c->scores[i * SIZE + j] = allowed ? 100.0 * uniform(&d) : -INFINITY;
            }
        }
        ota_feasible_counts counts = {0};
        ota_status status = judge(SIZE, SIZE, support, c->mu, c->nu, false, usable, &counts);
        assert_int_equal(assign(SIZE, SIZE, c->scores, SIZE, match, f, g), status);
        assert_int_equal(ship(c), status);
        if (mask->usable < 0) {
            spec_check_true(mask->ids, status == OTA_INFEASIBLE);
            continue;
        }
        assert_int_equal(status, OTA_OK);
        assert_int_equal(counts.allowed, mask->allowed);
        spec_check_true(mask->ids, counts.usable == mask->usable);
        (void)assert_assignment(SIZE, SIZE, c->scores, SIZE, match, f, g);
        (void)assert_transport(c);
        for (int64_t i = 0; mask->allows == mask_causal && i < SIZE * SIZE; i++) {
            bool diagonal = i / SIZE == i % SIZE;
            assert_int_equal(usable[i], diagonal);
            assert_true(c->plan[i] == (diagonal ? 1.0 : 0.0));
        }
    }
    free(c);
}

/* Total support decided by equality of real masses, up to rounding and not further. */
static void total_support_of_real_masses(void **state) {
    (void)state;
    const uint8_t support[] = {1, 0, 1, 0, 1, 1}; /* rows .1, .2 -> key 0; row .7 -> keys 0, 1 */
    double mu[] = {0.1, 0.2, 0.7}, nu[] = {0.3, 0.7};
    uint8_t usable[6];
    ota_feasible_counts counts;
    assert_int_equal(judge(3, 2, support, mu, nu, false, usable, &counts), OTA_OK);
    assert_int_equal(counts.unusable, 1);
    assert_int_equal(usable[4], 0);
    mu[0] = mu[1] = 0.15; /* now key 0 wants 5e-17 more than its own rows have */
    nu[0] = 0.1 + 0.2;
    assert_int_equal(judge(3, 2, support, mu, nu, false, usable, &counts), OTA_OK);
    assert_int_equal(counts.unusable, 1);
    nu[0] = 0.4;
    nu[1] = 0.6;
    assert_int_equal(judge(3, 2, support, mu, nu, false, usable, &counts), OTA_OK);
    assert_int_equal(counts.unusable, 0);
    nu[0] = 0.29;
    nu[1] = 0.71;
    assert_int_equal(judge(3, 2, support, mu, nu, false, usable, &counts), OTA_INFEASIBLE);
    assert_int_equal(judge(3, 2, support, mu, nu, true, usable, &counts), OTA_INFEASIBLE);
    nu[0] = 5.0;
    nu[1] = INFINITY;
    assert_int_equal(judge(3, 2, support, mu, nu, true, usable, &counts), OTA_OK);
    assert_int_equal(counts.usable, 4);
    const uint8_t forbidden[] = {0, 0, 1, 1};
    const double tiny[] = {1e-25, 1.0}, halves[] = {0.5, 0.5};
    assert_int_equal(judge(2, 2, forbidden, tiny, halves, false, usable, &counts), OTA_INFEASIBLE);
    assert_int_equal(judge(2, 2, forbidden, tiny, halves, true, usable, &counts), OTA_INFEASIBLE);
    assert_int_equal(judge(0, 0, NULL, NULL, NULL, false, NULL, &counts), OTA_OK);
    assert_int_equal(counts.allowed, 0);
    assert_int_equal(judge(1, 0, NULL, mu, NULL, true, NULL, &counts), OTA_INFEASIBLE);
    assert_true(ota_feasible_workspace(INT32_MAX, 4) == SIZE_MAX);
}

static ota_status always_cancelled(const ota_settings *settings) {
    (void)settings;
    return OTA_CANCELLED;
}

static void cancelling_is_heard(void **state) {
    (void)state;
    enum { SIZE = 32 };
    dice d = 10;
    double scores[SIZE * SIZE], plan[SIZE * SIZE], mu[SIZE], f[SIZE], g[SIZE];
    uint8_t support[SIZE * SIZE];
    int64_t match[SIZE];
    for (int k = 0; k < SIZE * SIZE; k++) scores[k] = floor(4.0 * uniform(&d));
    memset(support, 1, sizeof support);
    for (int k = 0; k < SIZE; k++) mu[k] = 1.0;
    ota_watch watch = {.interrupted = always_cancelled};
    void *work =
        work_of(ota_assignment_workspace(SIZE, SIZE, false) +
                ota_transport_workspace(SIZE, SIZE, false) + ota_feasible_workspace(SIZE, SIZE));
    ota_assignment assignment = {.n = SIZE,
                                 .m = SIZE,
                                 .scores = scores,
                                 .stride = SIZE,
                                 .costs = ota_kernels_choose(NULL)->f64->costs,
                                 .passes = ota_kernels_choose(NULL)->f64->match,
                                 .watch = watch,
                                 .match = match,
                                 .f = f,
                                 .g = g};
    assert_int_equal(ota_assignment_solve(&assignment, work), OTA_CANCELLED);
    ota_transport transport = {.n = SIZE,
                               .m = SIZE,
                               .scores = scores,
                               .stride = SIZE,
                               .mu = mu,
                               .nu = mu,
                               .sink = -INFINITY,
                               .costs = ota_kernels_choose(NULL)->f64->costs,
                               .watch = watch,
                               .plan = plan,
                               .plan_stride = SIZE,
                               .f = f,
                               .g = g};
    assert_int_equal(ota_transport_solve(&transport, work), OTA_CANCELLED);
    ota_feasible_problem feasible = {
        .masses = {SIZE, SIZE, mu, mu, false, 0.0}, .support = support, .watch = watch};
    ota_feasible_counts counts;
    assert_int_equal(ota_feasible(&feasible, NULL, NULL, &counts, work), OTA_CANCELLED);
    free(work);
}

static int64_t questions_left;

static ota_status cancelled_later(const ota_settings *settings) {
    (void)settings;
    questions++;
    return questions_left-- > 0 ? OTA_OK : OTA_CANCELLED;
}

/* Many rows that want few columns, all filled to bounds: rows bid first, and hear of cancelling while they do. */
static void bids_for_popular_columns(void **state) {
    (void)state;
    enum { N = 1024, M = 128, WIDTH = 16 };
    dice d = 12;
    double *scores = calloc((size_t)N * M, sizeof *scores),
           *plan = malloc((size_t)N * M * sizeof *plan);
    double mu[N], nu[M], f[N], g[M], sums[M] = {0.0}, key[M * WIDTH];
    for (int k = 0; k < M * WIDTH; k++) key[k] = uniform(&d) - 0.5;
    for (int i = 0; i < N; i++) {
        mu[i] = 1.0;
        for (int k = 0; k < WIDTH; k++) {
            const double query = 0.5 + uniform(&d);
            for (int j = 0; j < M; j++) scores[i * M + j] += query * key[j * WIDTH + k];
        }
    }
    for (int j = 0; j < M; j++) nu[j] = 1.5 * N / M;
    ota_transport problem = {.n = N,
                             .m = M,
                             .scores = scores,
                             .stride = M,
                             .mu = mu,
                             .nu = nu,
                             .capped = true,
                             .floor = 1.0 / 3.0,
                             .sink = -INFINITY,
                             .costs = ota_kernels_choose(NULL)->f64->costs,
                             .watch = {.interrupted = cancelled_later},
                             .plan = plan,
                             .plan_stride = M,
                             .f = f,
                             .g = g};
    void *work = work_of(ota_transport_workspace(N, M, true));
    questions = 0;
    questions_left = INT64_MAX;
    assert_int_equal(ota_transport_solve(&problem, work), OTA_OK);
    const int64_t asked = questions;
    double value = 0.0, bound = 0.0;
    for (int i = 0; i < N; i++) {
        double row = 0.0;
        for (int j = 0; j < M; j++) {
            const double p = plan[i * M + j];
            assert_true(p >= 0.0);
            row += p;
            sums[j] += p;
            value += p * scores[i * M + j];
        }
        assert_true(fabs(row - 1.0) <= gap_tolerance);
        bound -= f[i];
    }
    for (int j = 0; j < M; j++) {
        assert_true(sums[j] >= nu[j] / 3.0 - 1e-9 && sums[j] <= nu[j] + 1e-9);
        bound -= g[j] * (g[j] > 0.0 ? nu[j] / 3.0 : nu[j]);
    }
    assert_true(dual_excess(N, M, scores, M, f, g) <= 0.0);
    assert_true(fabs(bound - value) <= 1e-9 * N);
    /* 118; more than twice as many without bids. */
    spec_check("", (double)asked, 150.0);
    for (int part = 0; part < 16; part++) {
        questions_left = asked * part / 16;
        assert_int_equal(ota_transport_solve(&problem, work), OTA_CANCELLED);
    }
    free(work);
    free(scores);
    free(plan);
}

TEST_FILE(test_combinatorial) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(assignment_equals_brute_force),
        cmocka_unit_test(assignment_laws),
        cmocka_unit_test(assignment_larger_and_edges),
        cmocka_unit_test(transport_equals_brute_force),
        cmocka_unit_test(transport_meets_its_dual_bound),
        cmocka_unit_test(transport_laws),
        cmocka_unit_test(transport_edges),
        cmocka_unit_test(entropic_plan_is_within_its_entropy),
        cmocka_unit_test(feasibility_equals_subset_conditions),
        cmocka_unit_test(named_masks),
        cmocka_unit_test(total_support_of_real_masses),
        cmocka_unit_test(cancelling_is_heard),
        cmocka_unit_test(bids_for_popular_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
