/* test_matching.c: assignment against its definition, laws and edges. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/cpu/kernels/kernels.h"
#include "groups.h"
#include "matching_cases.h"
#include "solvers/matching/assignment_dense.h"
#include "spec.h"

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

static void cancelling_is_heard(void **state) {
    (void)state;
    enum { SIZE = 32 };
    dice d = 10;
    double scores[SIZE * SIZE], f[SIZE], g[SIZE];
    int64_t match[SIZE];
    for (int k = 0; k < SIZE * SIZE; k++) scores[k] = floor(4.0 * uniform(&d));
    ota_assignment problem = assignment_of(SIZE, SIZE, scores, SIZE, match, f, g);
    problem.watch.interrupted = always_cancelled;
    void *work = work_of(ota_assignment_workspace(SIZE, SIZE, false));
    assert_int_equal(ota_assignment_solve(&problem, work), OTA_CANCELLED);
    free(work);
}

/* ---- passes over a dense matrix --------------------------------------------------------------- */

enum { BIDDERS_MOST = 320, CROWDS = 6 };

/* Costs of 0 and 1, few or many of either; of few values; of many; some forbidden, of a column now and then all. */
static void draw_costs(dice *d, int crowd, ota_match *match) {
    const int64_t n = match->rows;
    for (int64_t k = 0; k < n * match->padded; k++) match->own[k] = INFINITY;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < match->columns; j++) {
            double cost = uniform(d) < (crowd == 0 ? 0.5 : 4.0 / (double)n) ? 0.0 : 1.0;
            if (crowd == 2) cost = (double)below(d, 4);
            if (crowd == 3) cost = uniform(d) < 0.02 ? uniform(d) : cost;
            if (crowd == 5) cost = uniform(d);
            if (crowd == 4 && j != i && uniform(d) < 0.1) cost = INFINITY;
            match->own[i * match->padded + j] = cost;
        }
    }
    const int64_t forbidden = crowd == 4 && below(d, 4) == 0 ? below(d, match->columns) : -1;
    for (int64_t i = 0; i < n && forbidden >= 0; i++)
        match->own[i * match->padded + forbidden] = INFINITY;
}

/* A bid as backend/matching.h defines it, and what the row that lost by it does, -1: none did; i itself: it waits. */
static int32_t bid_once(ota_match *match, int32_t i) {
    const double *cost = match->own + i * match->padded;
    double first = INFINITY, second = INFINITY;
    int32_t column = -1;
    for (int32_t j = 0; j < match->columns; j++) {
        const double reduced = cost[j] - match->price[j];
        const bool tied = reduced <= first && first <= reduced && reduced < INFINITY;
        second = fmin(second, fmax(first, reduced));
        if (reduced < first || (tied && match->row_of[column] >= 0 && match->row_of[j] < 0))
            column = j;
        first = fmin(first, reduced);
    }
    if (column < 0) return i;
    const int32_t loser = match->row_of[column];
    const bool falls =
        second < INFINITY && match->price[column] - (second - first) < match->price[column];
    if (loser >= 0 && !falls) return i;
    if (falls) match->price[column] -= second - first;
    match->column_of[i] = column;
    match->row_of[column] = i;
    if (loser >= 0) match->column_of[loser] = -1;
    return loser;
}

static int64_t bid_plainly(ota_match *match, int64_t count, int64_t bids) {
    int64_t left = 0;
    for (int64_t k = 0; k < count;) {
        const int32_t i = match->waiting[k++], loser = bids-- > 0 ? bid_once(match, i) : i;
        if (loser == i)
            match->next[left++] = i;
        else if (loser >= 0)
            match->waiting[--k] = loser;
    }
    return left;
}

/* Columns from the last to the first go to their cheapest rows where those are still free. */
static int64_t reduce_plainly(ota_match *match) {
    const int64_t n = match->rows;
    int64_t left = 0;
    for (int64_t j = n - 1; j >= 0; j--) {
        int32_t cheapest = 0;
        for (int32_t i = 1; i < n; i++) {
            if (match->own[i * match->padded + j] < match->own[cheapest * match->padded + j])
                cheapest = i;
        }
        match->price[j] = match->own[cheapest * match->padded + j];
        if (!(match->price[j] < INFINITY)) return -1;
        if (match->column_of[cheapest] >= 0) continue;
        match->column_of[cheapest] = (int32_t)j;
        match->row_of[j] = cheapest;
    }
    for (int32_t i = 0; i < n; i++) {
        if (match->column_of[i] < 0) match->next[left++] = i;
    }
    return left;
}

static void begin(ota_match *match) {
    match->marked = false;
    for (int64_t j = 0; j < match->padded; j++) match->price[j] = 0.0, match->row_of[j] = -1;
    for (int64_t i = 0; i < match->rows; i++) match->column_of[i] = -1, match->next[i] = (int32_t)i;
}

static void compare_states(const ota_match *match, const ota_match *plain, const int64_t left[2]) {
    assert_int_equal(left[0], left[1]);
    assert_memory_equal(match->next, plain->next, (size_t)left[0] * sizeof(int32_t));
    for (int64_t j = 0; j < match->columns; j++) {
        assert_int_equal(match->row_of[j], plain->row_of[j]);
        assert_true(match->price[j] <= plain->price[j] && match->price[j] >= plain->price[j]);
    }
    for (int64_t j = match->columns; j < match->padded; j++)
        assert_true(match->price[j] <= 0.0 && match->price[j] >= 0.0);
    for (int64_t i = 0; i < match->rows; i++)
        assert_int_equal(match->column_of[i], plain->column_of[i]);
}

/* Two sweeps by `bid`, of square matrices after `reduce`; what they left is compared with what plain ones leave. */
static void compare_bids(const ota_match_passes *passes, ota_match *match, ota_match *plain) {
    ota_match *const both[] = {match, plain};
    int64_t left[2];
    for (int k = 0; k < 2; k++) begin(both[k]);
    left[0] = left[1] = match->rows;
    if (match->rows == match->columns) {
        left[0] = passes->reduce(match);
        left[1] = reduce_plainly(plain);
        if (left[1] < 0) {
            assert_int_equal(left[0], -1);
            return;
        }
        compare_states(match, plain, left);
    }
    for (int sweep = 0; sweep < 2 && left[0] > 0; sweep++) {
        for (int k = 0; k < 2; k++) {
            int32_t *swap = both[k]->waiting;
            both[k]->waiting = both[k]->next;
            both[k]->next = swap;
        }
        left[0] = passes->bid(match, left[0], 3 * left[0]);
        left[1] = bid_plainly(plain, left[1], 3 * left[1]);
        compare_states(match, plain, left);
    }
}

static void reductions_and_bids_are_those_of_their_definition(void **state) {
    (void)state;
    dice d = 7;
    ota_arena arena = {0};
    ota_match match = {0}, plain = {0};
    for (int made = 0; made < 2; made++) {
        ota_match_layout(&match, &arena, BIDDERS_MOST, BIDDERS_MOST, BIDDERS_MOST * BIDDERS_MOST);
        ota_match_layout(&plain, &arena, BIDDERS_MOST, BIDDERS_MOST, BIDDERS_MOST * BIDDERS_MOST);
        if (made == 0) assert_int_equal(ota_arena_allocate(&arena), OTA_OK);
    }
    const ota_kernels *row;
    for (int level = 0; (row = ota_kernels_row(level)) != NULL; level++) {
        const ota_match_passes *passes = row->f64->match;
        for (int trial = 0; trial < 20 * CROWDS; trial++) {
            /* Rows of a vector or two, and of many. */
            const int64_t n = 1 + below(&d, below(&d, 3) == 0 ? 18 : BIDDERS_MOST),
                          m = trial % 2 == 0 ? n : n + below(&d, BIDDERS_MOST + 1 - n);
            ota_match_resize(&match, n, m, passes->lanes);
            ota_match_resize(&plain, n, m, passes->lanes);
            draw_costs(&d, trial / 4 % CROWDS, &match);
            memcpy(plain.own, match.own, (size_t)(n * match.padded) * sizeof(double));
            if (trial % 4 > 1 && ota_match_borrows(&match)) {
                match.costs.width = match.columns;
                match.unread = true;
            }
            compare_bids(passes, &match, &plain);
        }
    }
    ota_arena_release(&arena);
}

TEST_FILE(test_matching) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(assignment_equals_brute_force),
        cmocka_unit_test(assignment_laws),
        cmocka_unit_test(assignment_larger_and_edges),
        cmocka_unit_test(entropic_plan_is_within_its_entropy),
        cmocka_unit_test(cancelling_is_heard),
        cmocka_unit_test(reductions_and_bids_are_those_of_their_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
