/* test_pair_caps.c: transport within caps of pairs, P_ij <= c_ij, against its own dual bound
 *
 *     sum P S  =  -(sum mu f + sum nu g) + sum c_ij max(0, S_ij + f_i + g_j)      (floor nu in the place of nu where g > 0)
 *
 * on problems that are made of a plan which keeps the caps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "groups.h"
#include "matching_cases.h"
#include "spec.h"

enum { SIZE = 48, TRIALS = 3000 };

typedef struct pair_caps {
    int64_t n, m;
    double scores[SIZE * SIZE], cap[SIZE * SIZE], mu[SIZE], nu[SIZE], f[SIZE], g[SIZE];
    double plan[SIZE * SIZE];
    bool capped, flat, one_cap, uncapped;
    double floor, sink;
} pair_caps;

static ota_status solve(pair_caps *c) {
    const ota_array array = ota_array_of(c->cap, OTA_F64, 1, 1, c->n, c->m);
    const ota_entry_caps caps = {.cap = c->one_cap ? c->cap[0] : INFINITY,
                                 .array = c->one_cap ? NULL : &array};
    const ota_transport_kind kind = ota_transport_kind_of(!c->uncapped, c->floor > 0.0);
    const size_t bytes = ota_transport_workspace(c->n, c->m, kind);
    void *work = work_of(bytes);
    memset(work, 0xA5, bytes);
    ota_transport problem = transport_of(c->n, c->m, c->scores, c->mu, c->nu, c->plan, c->f, c->g);
    problem.capped = c->capped;
    problem.floor = c->floor;
    problem.caps = c->uncapped ? NULL : &caps;
    problem.flat = c->flat;
    problem.sink = c->sink;
    const ota_status status = ota_transport_solve(&problem, work);
    free(work);
    return status;
}

static double score_of(const pair_caps *c, int64_t at) {
    return c->flat && c->scores[at] > -INFINITY ? 0.0 : c->scores[at];
}

/* Asserts that the plan keeps all of its bounds and meets the dual one. */
static void assert_optimal(const pair_caps *c) {
    double value = 0.0, bound = 0.0, mass = 0.0, largest = 1.0, sums[SIZE] = {0.0};
    for (int64_t i = 0; i < c->n; i++) mass += c->mu[i];
    for (int64_t i = 0; i < c->n; i++) {
        double row = 0.0;
        for (int64_t j = 0; j < c->m; j++) {
            const int64_t at = i * c->m + j;
            const double p = c->plan[at], s = score_of(c, at), over = s + c->f[i] + c->g[j];
            assert_true(p >= 0.0 && p <= c->cap[at]);
            row += p;
            sums[j] += p;
            if (s == -INFINITY) {
                assert_true(p <= 0.0);
                continue;
            }
            largest = fmax(largest, fabs(s));
            value += p * s;
            if (over > 0.0) bound += c->cap[at] * over;
        }
        const double rest = c->mu[i] - row;
        assert_true(c->sink > -INFINITY ? rest >= -1e-14 * mass : fabs(rest) <= 1e-14 * mass);
        if (c->sink > -INFINITY) {
            value += rest * c->sink;
            assert_true(c->sink + c->f[i] <= 1e-14 * (fabs(c->sink) + fabs(c->f[i])));
        }
        bound -= c->mu[i] * c->f[i];
    }
    for (int64_t j = 0; j < c->m; j++) {
        assert_true(!c->capped || c->floor > 0.0 || c->g[j] <= 0.0);
        assert_true(sums[j] <= c->nu[j] + 1e-14 * mass);
        assert_true(sums[j] >= (c->capped ? c->floor : 1.0) * c->nu[j] - 1e-14 * mass);
        bound -= c->g[j] * c->nu[j] * (c->capped && c->g[j] > 0.0 ? c->floor : 1.0);
    }
    if (!(fabs(bound - value) <= 1e-12 * largest * mass))
        fail_msg("a plan of %dx%d is worth %.17g, its bound %.17g", (int)c->n, (int)c->m, value,
                 bound);
}

/* Uniform, whole numbers that tie, popular columns, all equal. */
static void draw_scores(pair_caps *c, dice *d, int64_t kind) {
    double popular[SIZE];
    for (int64_t j = 0; j < c->m; j++) popular[j] = 4.0 * uniform(d);
    for (int64_t i = 0; i < c->n; i++) {
        for (int64_t j = 0; j < c->m; j++) {
            const double u = uniform(d);
            c->scores[i * c->m + j] = kind == 0   ? u
                                      : kind == 1 ? rint(4.0 * u)
                                      : kind == 2 ? popular[j] + u
                                                  : 1.0;
        }
    }
}

/* A plan within caps is drawn; masses are its sums, or what those lie within. */
static void draw(pair_caps *c, dice *d, int64_t trial) {
    const bool whole = trial % 2 == 0, tight = trial % 3 == 0;
    const double forbidden = trial % 5 < 2 ? 0.3 : 0.0;
    *c = (pair_caps){.n = 1 + below(d, trial % 7 == 0 ? SIZE : 12),
                     .m = 1 + below(d, trial % 11 == 0 ? SIZE : 12),
                     .capped = trial / 2 % 3 > 0,
                     .flat = trial % 13 == 0,
                     .one_cap = trial % 4 == 1,
                     .sink = trial % 17 == 0 ? 0.5 : -INFINITY};
    c->floor = trial / 2 % 3 == 2 ? 0.5 : 0.0;
    draw_scores(c, d, below(d, 4));
    const double one = whole ? 2.0 : 0.1 + uniform(d), share = uniform(d);
    for (int64_t at = 0; at < c->n * c->m; at++) {
        const double own = whole ? (double)(1 + below(d, 3)) : 0.1 + uniform(d);
        c->cap[at] = c->one_cap ? one : own;
        const double cap = c->cap[at];
        double p = uniform(d) < share ? tight   ? cap
                                        : whole ? (double)below(d, 2)
                                                : cap * uniform(d)
                                      : 0.0;
        if (uniform(d) < forbidden) {
            c->scores[at] = -INFINITY;
            p = 0.0;
        }
        c->mu[at / c->m] += p;
        c->nu[at % c->m] += p;
    }
    for (int64_t j = 0; j < c->m && c->capped; j++) c->nu[j] *= 1.0 + (double)below(d, 3) / 2.0;
    const int64_t most = below(d, 2);
    for (int64_t i = 0; i < c->n && c->sink > -INFINITY; i++)
        c->mu[i] += (double)below(d, most + 1);
    /* Caps that nothing gets to, which the solver does not know of. */
    c->uncapped = trial % 19 == 0 || trial % 34 == 0;
    for (int64_t at = 0; at < c->n * c->m && c->uncapped; at++) c->cap[at] = 1e3;
}

static void plans_within_caps_meet_their_dual_bound(void **state) {
    (void)state;
    pair_caps *c = malloc(sizeof *c);
    assert_non_null(c);
    dice d = 71;
    for (int64_t trial = 0; trial < TRIALS; trial++) {
        draw(c, &d, trial);
        assert_int_equal(solve(c), OTA_OK);
        assert_optimal(c);
    }
    free(c);
}

/* One row has more than its caps allow, or one column must take more. */
static void caps_that_leave_no_plan(void **state) {
    (void)state;
    pair_caps *c = malloc(sizeof *c);
    assert_non_null(c);
    dice d = 5;
    for (int64_t trial = 0; trial < 300; trial++) {
        draw(c, &d, trial);
        c->sink = -INFINITY;
        c->one_cap = c->uncapped = false;
        if (c->n < 2 || c->m < 2) continue;
        double caps = 0.0, more = 0.0;
        const int64_t i = below(&d, c->n), j = below(&d, c->m);
        for (int64_t k = 0; k < (trial % 2 == 0 ? c->m : c->n); k++)
            caps += c->cap[trial % 2 == 0 ? i * c->m + k : k * c->m + j];
        double *binds = trial % 2 == 0 ? &c->mu[i] : &c->nu[j];
        const double floor = trial % 2 == 0 || !c->capped ? 1.0 : c->floor;
        if (!(floor > 0.0)) continue;
        more = fmax(0.0, caps * 1.01 / floor + 0.01 - *binds);
        *binds += more;
        if (trial % 2 == 0)
            c->nu[j] += more / (c->capped ? 0.75 : 1.0);
        else
            c->mu[i] += more * (c->capped ? 0.75 : 1.0);
        assert_int_equal(solve(c), OTA_INFEASIBLE);
    }
    /* No mass at all, and a least sum. */
    *c = (pair_caps){.n = 1, .m = 2, .cap = {1.0, 1.0}, .nu = {1.0, 1.0}, .capped = true};
    c->sink = -INFINITY;
    assert_int_equal(solve(c), OTA_OK);
    c->floor = 0.5;
    assert_int_equal(solve(c), OTA_INFEASIBLE);
    free(c);
}

/* Rows of 4 want few columns, at most 2 of each: paths are short since rows bid first, and cancelling is heard. */
static void bids_within_caps(void **state) {
    (void)state;
    enum { N = 1024, M = 128 };
    dice d = 12;
    double *scores = malloc((size_t)N * M * sizeof *scores),
           *plan = malloc((size_t)N * M * sizeof *plan);
    static double mu[N], nu[M], f[N], g[M], popular[M];
    for (int j = 0; j < M; j++) {
        nu[j] = 1.5 * 4.0 * N / M;
        popular[j] = 2.0 * uniform(&d);
    }
    for (int i = 0; i < N; i++) {
        mu[i] = 4.0;
        for (int j = 0; j < M; j++) scores[i * M + j] = popular[j] * (0.5 + uniform(&d));
    }
    const ota_entry_caps caps = {.cap = 2.0};
    ota_transport problem = transport_of(N, M, scores, mu, nu, plan, f, g);
    problem.capped = true;
    problem.caps = &caps;
    void *work = work_of(ota_transport_workspace(N, M, OTA_TRANSPORT_CAPS));
    for (int kind = 0; kind < 2; kind++) {
        for (int k = 0; k < N * M && kind == 1; k++) scores[k] = (double)below(&d, 8);
        const int64_t asked = ship_counted(&problem, work);
        double value = 0.0, bound = 0.0;
        for (int i = 0; i < N; i++) {
            double row = 0.0;
            for (int j = 0; j < M; j++) {
                const double p = plan[i * M + j];
                assert_true(p >= 0.0 && p <= 2.0);
                row += p;
                value += p * scores[i * M + j];
                bound += 2.0 * fmax(0.0, scores[i * M + j] + f[i] + g[j]);
            }
            assert_true(fabs(row - 4.0) <= 0.0);
            bound -= 4.0 * f[i];
        }
        for (int j = 0; j < M; j++) bound -= g[j] * nu[j];
        assert_true(fabs(bound - value) <= 1e-9 * N);
        /* 135 and 8; 1892 without bids. */
        spec_check("", (double)asked, kind == 0 ? 300.0 : 50.0);
        assert_cancelling_is_heard(&problem, work, asked);
    }
    free(work);
    free(scores);
    free(plan);
}

TEST_FILE(test_pair_caps) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_within_caps_meet_their_dual_bound),
        cmocka_unit_test(caps_that_leave_no_plan),
        cmocka_unit_test(bids_within_caps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
