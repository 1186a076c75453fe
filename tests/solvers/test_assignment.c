/* test_assignment.c: assignments large enough for the search on candidates (assignment_sparse.c), square or not.
 *
 * Optimality is read off the answer: the pairs are a matching of min(n, m) allowed pairs, the potentials satisfy
 * S_ij + f_i + g_j <= 0 on every allowed pair (those of the longer side <= 0, and 0 where unmatched), and both values are
 * equal. One kind of matrix per way in which candidates can mislead: ties, columns that every row wants, products,
 * planted permutations. Every kind is solved in f64 and, rounded, in f32. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>

#include "backend/cpu/kernels/kernels.h"
#include "solvers/matching/combinatorial.h"
#include "groups.h"
#include "draw/random.h"
#include "spec.h"

typedef enum kind {
    UNIFORM,
    INTEGERS,
    CONSTANT,
    SUMS,
    PRODUCTS,
    WANTED,
    PLANTED,
    GEOMETRIC,
    WIDE,
    KINDS
} kind;

static double score_of(kind k, int64_t n, int64_t i, int64_t j, uint64_t *state) {
    const double draw = uniform(state), x = (double)i, y = (double)j;
    switch (k) {
    case INTEGERS: return floor(4.0 * draw);
    case CONSTANT: return -7.0;
    case SUMS: return sin(x) + cos(3.0 * y);
    case PRODUCTS: return -(x + 1.0) * (y + 1.0);
    case WANTED: return draw + (j < n / 4 ? 100.0 : 0.0);
    case PLANTED: return j == (7 * i + 3) % n || draw < 0.02 ? draw : -INFINITY;
    case GEOMETRIC: return -fabs(sin(12.9 * x) - sin(78.2 * y)) - fabs(cos(4.1 * x) - cos(0.7 * y));
    case WIDE: return (draw - 0.5) * pow(10.0, floor(300.0 * uniform(state)));
    default: return draw;
    }
}

/* The search asks whether to go on once a path and once so many steps: a count of its work that is the same
 * everywhere. */
static int64_t questions;

static ota_status count_question(const ota_settings *settings) {
    (void)settings;
    questions++;
    return OTA_OK;
}

/* A problem in both types; what lies beyond a row must not matter. */
typedef struct clouds {
    int64_t n, m, stride;
    double *wide, *f, *g, largest;
    float *narrow;
    int64_t *match;
} clouds;

static void *take(int64_t count, size_t size) {
    void *found = malloc((size_t)(count > 0 ? count : 1) * size);
    assert_non_null(found);
    return found;
}

static clouds make(kind k, int64_t n, int64_t m, uint64_t seed, bool narrow) {
    clouds c = {.n = n, .m = m, .stride = m + (int64_t)(seed % 3)};
    c.wide = take(n * c.stride, sizeof *c.wide);
    c.narrow = take(n * c.stride, sizeof *c.narrow);
    c.f = take(n, sizeof *c.f);
    c.g = take(m, sizeof *c.g);
    c.match = take(n, sizeof *c.match);
    for (int64_t at = 0; at < n * c.stride; at++) c.wide[at] = c.narrow[at] = NAN;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < m; j++) {
            double s = score_of(k, m, i, j, &seed);
            if (narrow && isfinite(s)) s = fmax(-FLT_MAX, fmin(FLT_MAX, s));
            if (narrow) s = (double)(float)s;
            c.wide[i * c.stride + j] = s;
            c.narrow[i * c.stride + j] = (float)s;
            if (isfinite(s) && fabs(s) > c.largest) c.largest = fabs(s);
        }
    }
    return c;
}

static void drop(clouds *c) {
    free(c->wide), free(c->narrow), free(c->f), free(c->g), free(c->match);
}

/* Is the search by candidates wanted where a dense matrix is the faster way? */
static bool by_candidates;

static ota_status solve(clouds *c, bool narrow, const char *level) {
    void *work =
        aligned_alloc(64, (ota_assignment_workspace(c->n, c->m, narrow) + 63) / 64 * 64 + 64);
    assert_non_null(work);
    ota_assignment problem = {.n = c->n,
                              .m = c->m,
                              .scores = narrow ? (const void *)c->narrow : c->wide,
                              .stride = c->stride,
                              .narrow = narrow,
                              .costs = narrow ? ota_kernels_choose(level)->f32->costs
                                              : ota_kernels_choose(level)->f64->costs,
                              .passes =
                                  by_candidates ? NULL : ota_kernels_choose(level)->f64->match,
                              .match = c->match,
                              .f = c->f,
                              .g = c->g};
    problem.watch.interrupted = count_question;
    problem.watch.work = INT64_MIN; /* none for the time alone */
    const ota_status status = ota_assignment_solve(&problem, work);
    free(work);
    return status;
}

static void judge(const clouds *c) {
    const int64_t n = c->n, m = c->m;
    const double unit = c->largest > 0.0 ? c->largest : 1.0;
    int64_t *taken = calloc((size_t)m, sizeof *taken), pairs = 0;
    assert_non_null(taken);
    double value = 0.0, dual = 0.0, excess = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t own = c->match[i];
        dual -= c->f[i] / unit;
        if (n > m) assert_true(own >= 0 ? c->f[i] <= 0.0 : c->f[i] == 0.0);
        if (own < 0) continue;
        assert_in_range((uintmax_t)own, 0, (uintmax_t)m - 1);
        assert_int_equal(taken[own]++, 0);
        assert_true(c->wide[i * c->stride + own] > -INFINITY);
        value += c->wide[i * c->stride + own] / unit;
        pairs++;
    }
    assert_int_equal(pairs, n < m ? n : m);
    for (int64_t j = 0; j < m; j++) {
        dual -= c->g[j] / unit;
        if (n < m) assert_true(taken[j] > 0 ? c->g[j] <= 0.0 : c->g[j] == 0.0);
    }
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < m; j++) {
            const double s = c->wide[i * c->stride + j];
            if (s == -INFINITY) continue;
            const double over = s + c->f[i] + c->g[j] -
                                2.0 * DBL_EPSILON * (fabs(s) + fabs(c->f[i]) + fabs(c->g[j]));
            if (!(over <= excess)) excess = over;
        }
    }
    spec_check("ELA-14", excess, 0.0);
    spec_check("ELA-14 LIT-06", fabs(dual - value), 1e-12 * (double)(n < m ? m : n));
    free(taken);
}

static void solve_and_judge(kind k, int64_t n, int64_t m, uint64_t seed, bool narrow) {
    clouds c = make(k, n, m, seed, narrow);
    assert_int_equal(solve(&c, narrow, NULL), OTA_OK);
    judge(&c);
    drop(&c);
}

static void every_kind_is_optimal(void **unused) {
    (void)unused;
    static const int64_t sizes[] = {127, 128, 131, 257, 400};
    /* A tenth more than it takes: a search that lists or bids badly still ends, but needs more paths. */
    static const double most_questions[2][KINDS] = {{[UNIFORM] = 609,
                                                     [INTEGERS] = 74,
                                                     [CONSTANT] = 0,
                                                     [SUMS] = 1402,
                                                     [PRODUCTS] = 6685,
                                                     [WANTED] = 1898,
                                                     [PLANTED] = 2,
                                                     [GEOMETRIC] = 1402,
                                                     [WIDE] = 200},
                                                    {[UNIFORM] = 73,
                                                     [INTEGERS] = 24,
                                                     [CONSTANT] = 0,
                                                     [SUMS] = 2402,
                                                     [PRODUCTS] = 910,
                                                     [WANTED] = 305,
                                                     [PLANTED] = 0,
                                                     [GEOMETRIC] = 514,
                                                     [WIDE] = 269}};
    for (int run = 0; run < 2 * KINDS; run++) {
        const int k = run % KINDS;
        by_candidates = run >= KINDS;
        questions = 0;
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            for (uint64_t seed = 1; seed < 4; seed++) {
                solve_and_judge((kind)k, sizes[s], sizes[s], seed, false);
                solve_and_judge((kind)k, sizes[s], sizes[s], seed, true);
            }
        }
        /* Bidding ends with a question in every one of the solves. */
        const int64_t solves = by_candidates ? 6 * (int64_t)(sizeof sizes / sizeof sizes[0]) : 0;
        spec_check("", (double)(questions - solves), most_questions[run / KINDS][k]);
    }
    by_candidates = false;
}

static void rectangles_are_optimal(void **unused) {
    (void)unused;
    static const int64_t shapes[][2] = {{1, 128},   {2, 300},   {127, 128}, {100, 131}, {64, 400},
                                        {128, 127}, {300, 2},   {131, 100}, {250, 257}, {257, 256},
                                        {129, 1},   {200, 201}, {201, 150}};
    for (int run = 0; run < 2 * KINDS; run++) {
        const int k = run % KINDS;
        by_candidates = run >= KINDS;
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
            /* The planted permutation is one of the columns: rows beyond them may have no pair. */
            if (k == PLANTED && shapes[s][0] > shapes[s][1]) continue;
            solve_and_judge((kind)k, shapes[s][0], shapes[s][1], s + 1, false);
            solve_and_judge((kind)k, shapes[s][0], shapes[s][1], s + 1, true);
        }
    }
    by_candidates = false;
}

/* Scores that f32 holds are one problem in both types and at all levels: the same bits. */
static void types_and_levels_agree(void **unused) {
    (void)unused;
    for (int k = 0; k < KINDS; k++) {
        for (int s = 0; s < 3; s++) {
            const int64_t n = s == 1 ? 150 : 200, m = s == 2 ? 150 : 200;
            if (k == PLANTED && n > m) continue;
            clouds first = make((kind)k, n, m, 7, true);
            assert_int_equal(solve(&first, false, NULL), OTA_OK);
            const ota_kernels *row;
            for (int level = 0; (row = ota_kernels_row(level)) != NULL; level++) {
                for (int narrow = 0; narrow < 2; narrow++) {
                    clouds again = make((kind)k, n, m, 7, true);
                    assert_int_equal(solve(&again, narrow != 0, row->name), OTA_OK);
                    assert_memory_equal(first.match, again.match, (size_t)n * sizeof *first.match);
                    assert_memory_equal(first.f, again.f, (size_t)n * sizeof *first.f);
                    assert_memory_equal(first.g, again.g, (size_t)m * sizeof *first.g);
                    drop(&again);
                }
            }
            drop(&first);
        }
    }
}

/* The cheapest matching by every subset of the longer side: value[set] of the first rows. */
static double brute_force(const clouds *c) {
    enum { MOST = 12 };
    static double best[1 << MOST];
    const bool turned = c->n > c->m;
    const int64_t rows = turned ? c->m : c->n, columns = turned ? c->n : c->m;
    assert_true(columns <= MOST);
    const size_t sets = (size_t)1 << columns;
    double highest = -INFINITY;
    for (size_t set = 0; set < sets; set++) best[set] = set == 0 ? 0.0 : -INFINITY;
    for (size_t set = 1; set < sets; set++) {
        int64_t row = -1;
        for (int64_t j = 0; j < columns; j++) row += (int64_t)(set >> j & 1);
        if (row >= rows) continue;
        for (int64_t j = 0; j < columns; j++) {
            if ((set >> j & 1) == 0) continue;
            const double s = turned ? c->wide[j * c->stride + row] : c->wide[row * c->stride + j];
            best[set] = fmax(best[set], best[set & ~((size_t)1 << j)] + s);
        }
        if (row == rows - 1) highest = fmax(highest, best[set]);
    }
    return highest;
}

/* Small ones blown up: to a block of few rows and columns, whose optimum is known by brute force, come rows and
 * columns that fit each other alone. */
static void blocks_are_solved(void **unused) {
    (void)unused;
    enum { FEW = 11, SIZE = 140 };
    uint64_t state = 3;
    for (int trial = 0; trial < 60; trial++) {
        const int64_t n = 1 + trial % FEW, m = 1 + trial / 5 % FEW;
        clouds small = make(trial % 2 == 0 ? INTEGERS : UNIFORM, n, m, (uint64_t)trial + 1, true);
        for (int64_t at = 0; at < n * small.stride; at++) {
            if (trial % 3 == 0 && uniform(&state) < 0.2) small.wide[at] = -INFINITY;
        }
        const double best = brute_force(&small);
        clouds c = make(CONSTANT, n + SIZE, m + SIZE, 3, true);
        for (int64_t i = 0; i < c.n; i++) {
            for (int64_t j = 0; j < c.m; j++) {
                const bool in = i < n && j < m, beyond = i >= n && i - n == j - m;
                const double s = in ? small.wide[i * small.stride + j] : beyond ? 0.5 : -INFINITY;
                c.wide[i * c.stride + j] = s;
                c.narrow[i * c.stride + j] = (float)s;
            }
        }
        c.largest = 4.0;
        for (int narrow = 0; narrow < 2; narrow++) {
            const ota_status status = solve(&c, narrow != 0, NULL);
            assert_int_equal(status, best > -INFINITY ? OTA_OK : OTA_INFEASIBLE);
            if (status != OTA_OK) continue;
            judge(&c);
            double value = -0.5 * (double)SIZE;
            for (int64_t i = 0; i < c.n; i++) {
                if (c.match[i] >= 0) value += c.wide[i * c.stride + c.match[i]];
            }
            spec_check("ELA-14", fabs(value - best), 1e-9);
        }
        drop(&c);
        drop(&small);
    }
}

/* Of 130 rows 60 share 59 columns, found only after the candidates have failed; of a rectangle's too. */
static void no_matching_is_infeasible(void **unused) {
    (void)unused;
    enum { CROWD = 60 };
    static const int64_t shapes[][2] = {{130, 130}, {130, 190}, {190, 130}};
    for (int s = 0; s < 6; s++) {
        const int64_t n = shapes[s / 2][0], m = shapes[s / 2][1];
        const bool narrow = s % 2 != 0;
        clouds c = make(UNIFORM, n, m, 5, true);
        for (int64_t i = 0; i < n; i++) {
            for (int64_t j = 0; j < m; j++) {
                const bool allowed =
                    n > m ? j >= CROWD || i < CROWD - 1 : i >= CROWD || j < CROWD - 1;
                if (allowed) continue;
                c.wide[i * c.stride + j] = -INFINITY;
                c.narrow[i * c.stride + j] = -INFINITY;
            }
        }
        assert_int_equal(solve(&c, narrow, NULL), OTA_INFEASIBLE);
        static const double wrong[] = {NAN, INFINITY};
        for (int w = 0; w < 2; w++) {
            /* In the last columns too, which vectors leave over. */
            for (int64_t j = 0; j < m; j += m - 1) {
                const int64_t at = (n - 1) * c.stride + j;
                const double kept = c.wide[at];
                c.wide[at] = wrong[w];
                c.narrow[at] = (float)wrong[w];
                assert_int_equal(solve(&c, narrow, NULL), OTA_NONFINITE);
                c.wide[at] = kept;
                c.narrow[at] = (float)kept;
            }
        }
        drop(&c);
    }
}

TEST_FILE(test_assignment) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_is_optimal), cmocka_unit_test(rectangles_are_optimal),
        cmocka_unit_test(types_and_levels_agree), cmocka_unit_test(blocks_are_solved),
        cmocka_unit_test(no_matching_is_infeasible)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
