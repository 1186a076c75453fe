/* Matchings by rising cost, and those whose dearest pair is cheapest, against all matchings of small problems, with and without
 * a limit; their bounds and marks at any size, batches, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>

#include "draw/random.h"
#include "groups.h"
#include "matrices.h"
#include "spec.h"

enum { MOST = 5, WANTED = 40, ALL = 1546, SIDE = 60, KINDS = 6, MANY = 30 };

/* A matrix of 6 kinds as it is given: [rows][columns + 1]. */
typedef struct matrix {
    int64_t rows, columns;
    bool maximize;
    double limit; /* INFINITY: none */
    double cost[SIDE * (SIDE + 1)];
} matrix;

static void draw(matrix *x, int kind, int64_t rows, int64_t columns, uint64_t *seed) {
    x->rows = rows, x->columns = columns;
    x->maximize = kind == 1 || kind == 4;
    x->limit = INFINITY;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j <= columns; j++) {
            double cost = kind >= 3 ? floor(4.0 * uniform(seed)) : uniform(seed) - 0.3;
            if (kind == 2 && uniform(seed) < 0.3) cost = INFINITY;
            if (kind == 5 && uniform(seed) < 0.5) cost = INFINITY;
            x->cost[i * (columns + 1) + j] = j < columns ? cost : (double)NAN;
        }
    }
}

static double at(const matrix *x, int64_t i, int64_t j) {
    return x->cost[i * (x->columns + 1) + j];
}

/* By sign c: the sums of all matchings, with the limit for every pair that is left out, and the least dearest pair of those with
 * the most pairs. */
typedef struct enumeration {
    const matrix *x;
    double sum[ALL], dearest;
    int64_t most;
    int count;
} enumeration;

static void enumerate(enumeration *e, int64_t i, unsigned taken, double sum, double dearest) {
    const matrix *x = e->x;
    const bool tall = x->rows > x->columns;
    const int64_t n = tall ? x->columns : x->rows, m = tall ? x->rows : x->columns;
    const double sign = x->maximize ? -1.0 : 1.0;
    if (i == n) {
        int64_t pairs = 0;
        for (unsigned bit = 0; bit < MOST; bit++) pairs += taken >> bit & 1u;
        if (pairs > e->most) e->dearest = INFINITY;
        e->most = pairs > e->most ? pairs : e->most;
        e->sum[e->count++] = sum;
        if (pairs == e->most) e->dearest = fmin(e->dearest, dearest);
        return;
    }
    if (x->limit < INFINITY) enumerate(e, i + 1, taken, sum + x->limit, dearest);
    for (int64_t j = 0; j < m; j++) {
        const double cost = sign * (tall ? at(x, j, i) : at(x, i, j));
        if (taken >> j & 1u || !(cost < x->limit)) continue;
        enumerate(e, i + 1, taken | 1u << j, sum + cost, fmax(dearest, cost));
    }
}

static int rising(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

typedef struct ranks {
    int64_t row[WANTED * SIDE], column[WANTED * SIDE], pairs[WANTED], found;
    double value[WANTED], bound[WANTED];
} ranks;

static ota_ranked_assignments ranked_of(const matrix *x, int64_t wanted, ranks *r) {
    ota_ranked_assignments problem = {
        MATRICES_OF(ota_ranked_assignments, x->cost, x->rows, x->columns),
        .maximize = x->maximize,
        .wanted = wanted,
        .pair_row = r->row,
        .pair_column = r->column,
        .value = r->value,
        .bound = r->bound,
        .found = &r->found,
        .limited = x->limit < INFINITY,
        .cost_limit = x->limit,
        .pairs = r->pairs};
    problem.row_stride = x->columns + 1;
    return problem;
}

typedef struct narrow {
    int64_t row[SIDE], column[SIDE];
    double value, bound;
    int64_t pairs, pairs_bound;
    uint8_t row_marked[SIDE], column_marked[SIDE], row_covered[SIDE], column_covered[SIDE];
} narrow;

static ota_bottleneck bottleneck_of(const matrix *x, narrow *r) {
    ota_bottleneck problem = {MATRICES_OF(ota_bottleneck, x->cost, x->rows, x->columns),
                              .maximize = x->maximize,
                              .pair_row = r->row,
                              .pair_column = r->column,
                              .value = &r->value,
                              .bound = &r->bound,
                              .row_marked = r->row_marked,
                              .column_marked = r->column_marked,
                              .limited = x->limit < INFINITY,
                              .cost_limit = x->limit,
                              .pairs = &r->pairs,
                              .pairs_bound = &r->pairs_bound,
                              .row_covered = r->row_covered,
                              .column_covered = r->column_covered};
    problem.row_stride = x->columns + 1;
    return problem;
}

static int64_t shorter(const matrix *x) { return x->rows < x->columns ? x->rows : x->columns; }

/* The pairs are a matching by rising row, of that sum and dearest pair, none at the limit; behind them is -1. */
static void check_pairs(const matrix *x, const int64_t *row, const int64_t *column, int64_t pairs,
                        double *sum, double *dearest) {
    const double sign = x->maximize ? -1.0 : 1.0;
    uint64_t taken = 0;
    *sum = 0.0, *dearest = -INFINITY;
    for (int64_t k = pairs; k < shorter(x); k++) assert_true(row[k] == -1 && column[k] == -1);
    for (int64_t k = 0; k < pairs; k++) {
        assert_true(sign * at(x, row[k], column[k]) < x->limit);
        assert_true(row[k] >= 0 && row[k] < x->rows && (k == 0 || row[k] > row[k - 1]));
        assert_true(column[k] >= 0 && column[k] < x->columns && (taken >> column[k] & 1u) == 0);
        taken |= (uint64_t)1 << column[k];
        *sum += at(x, row[k], column[k]);
        *dearest = fmax(*dearest, sign * at(x, row[k], column[k]));
    }
    *dearest *= sign;
}

/* With what is left out. */
static double total(const matrix *x, const ranks *r, int64_t k) {
    const int64_t left_out = shorter(x) - r->pairs[k];
    return r->value[k] + (left_out > 0 ? x->limit * (double)left_out : 0.0);
}

/* Every matching comes once. */
static void check_ranks(const matrix *x, const ranks *r) {
    const int64_t n = shorter(x);
    double most = 0.0, sum, dearest;
    for (int64_t k = 0; k < r->found; k++) {
        check_pairs(x, r->row + k * n, r->column + k * n, r->pairs[k], &sum, &dearest);
        most = fmax(most, fabs(sum - r->value[k]));
        const double gap = total(x, r, k) - r->bound[k];
        most = fmax(most, fabs(gap));
        for (int64_t l = 0; l < k; l++) {
            const size_t bytes = (size_t)n * sizeof(int64_t);
            assert_true(memcmp(r->column + k * n, r->column + l * n, bytes) != 0 ||
                        memcmp(r->row + k * n, r->row + l * n, bytes) != 0);
        }
    }
    spec_check("ELA-14", most, 1e-13 * (double)(n > 0 ? n : 1));
}

static void check_marks(const matrix *x, const narrow *r) {
    const bool tall = x->rows > x->columns;
    const double sign = x->maximize ? -1.0 : 1.0;
    double least = INFINITY, sum, dearest;
    int64_t more = 0, covered = 0;
    check_pairs(x, r->row, r->column, r->pairs, &sum, &dearest);
    for (int64_t i = 0; i < x->rows; i++) covered += r->row_covered[i];
    for (int64_t j = 0; j < x->columns; j++) covered += r->column_covered[j];
    assert_true(covered == r->pairs && r->pairs_bound == r->pairs);
    for (int64_t i = 0; i < x->rows; i++) {
        for (int64_t j = 0; j < x->columns; j++)
            assert_true(r->row_covered[i] + r->column_covered[j] > 0 ||
                        !(sign * at(x, i, j) < x->limit));
    }
    if (r->pairs == 0) {
        assert_true(isinf(r->value) && sign * r->value < 0.0 && isinf(r->bound) &&
                    sign * r->bound < 0.0);
        return;
    }
    spec_check("ELA-14", fabs(r->bound - r->value), 0.0);
    for (int64_t i = 0; i < x->rows; i++) more += (tall ? -1 : 1) * r->row_marked[i];
    for (int64_t j = 0; j < x->columns; j++) more += (tall ? 1 : -1) * r->column_marked[j];
    for (int64_t i = 0; i < x->rows; i++) {
        for (int64_t j = 0; j < x->columns; j++) {
            const int inner = tall ? r->column_marked[j] : r->row_marked[i];
            const int outer = tall ? r->row_marked[i] : r->column_marked[j];
            if (inner == 1 && outer == 0) least = fmin(least, sign * at(x, i, j));
        }
    }
    assert_true(more > shorter(x) - r->pairs);
    spec_check("ELA-14", fabs(sign * least - r->value), 0.0);
    spec_check("ELA-14", fabs(dearest - r->value), 0.0);
}

static void small_problems_against_all_matchings(void **unused) {
    (void)unused;
    static matrix x;
    static ranks r;
    static narrow b;
    uint64_t seed = 5;
    double most = 0.0;
    for (int run = 0; run < 2 * KINDS * (MOST + 1) * (MOST + 1); run++) {
        const int64_t rows = run / KINDS % (MOST + 1), columns = run / KINDS / (MOST + 1) / 2;
        draw(&x, run % KINDS, rows, columns, &seed);
        static enumeration e;
        if (run / KINDS / (MOST + 1) % 2 == 1) {
            if (x.maximize) continue;
            x.limit = run % KINDS >= 3 ? floor(4.0 * uniform(&seed)) : uniform(&seed) - 0.3;
        }
        e = (enumeration){.x = &x, .dearest = INFINITY};
        enumerate(&e, 0, 0, 0.0, -INFINITY);
        qsort(e.sum, (size_t)e.count, sizeof(double), rising);
        const double sign = x.maximize ? -1.0 : 1.0;
        for (int64_t wanted = 1; wanted <= WANTED; wanted = 4 * wanted - 1) {
            const ota_ranked_assignments problem = ranked_of(&x, wanted, &r);
            const ota_bottleneck other = bottleneck_of(&x, &b);
            assert_int_equal(ota_assign_ranked(&problem, NULL),
                             e.count == 0 ? OTA_INFEASIBLE : OTA_OK);
            assert_int_equal(ota_assign_bottleneck(&other, NULL),
                             e.count == 0 ? OTA_INFEASIBLE : OTA_OK);
            if (e.count == 0) continue;
            assert_int_equal(r.found, e.count < wanted ? e.count : wanted);
            for (int64_t k = 0; k < r.found; k++)
                most = fmax(most, fabs(sign * total(&x, &r, k) - e.sum[k]));
            for (int64_t k = r.found; k < wanted; k++)
                assert_true(isnan(r.value[k]) && isnan(r.bound[k]));
            check_ranks(&x, &r);
            if (rows == 0 || columns == 0) continue;
            assert_int_equal(b.pairs, e.most);
            check_marks(&x, &b);
            if (e.most > 0) spec_check("ELA-14", fabs(sign * b.value - e.dearest), 0.0);
        }
    }
    spec_check("ELA-14", most, 1e-14);
}

/* Larger ones prove themselves; the first of all is that of ota_assign, and more of them are the same ones and others. */
static void bounds_and_marks_of_larger_ones(void **unused) {
    (void)unused;
    static const int64_t shapes[][2] = {{SIDE, SIDE}, {20, SIDE}, {SIDE, 25}, {59, SIDE}, {1, 40}};
    static matrix x;
    static ranks few, many;
    static narrow b;
    uint64_t seed = 11;
    for (int run = 0; run < 10 * KINDS; run++) {
        const int shape = run / KINDS % 5;
        draw(&x, run % KINDS, shapes[shape][0], shapes[shape][1], &seed);
        if (run / KINDS >= 5) {
            /* Some rows are left out. */
            if (x.maximize) continue;
            x.limit = run % KINDS >= 3 ? 1.0 : -0.3 + 1.2 / (double)shapes[shape][0];
        }
        ota_ranked_assignments problem = ranked_of(&x, MANY / 3, &few);
        assert_int_equal(ota_assign_ranked(&problem, NULL), OTA_OK);
        check_ranks(&x, &few);
        problem = ranked_of(&x, MANY, &many);
        assert_int_equal(ota_assign_ranked(&problem, NULL), OTA_OK);
        check_ranks(&x, &many);
        const double unit = (double)SIDE * DBL_EPSILON;
        for (int64_t k = 0; k < few.found; k++)
            spec_check("ELA-14", fabs(total(&x, &few, k) - total(&x, &many, k)), 4.0 * unit);
        /* Without bounds, and without pairs, the values are the same. */
        problem = ranked_of(&x, MANY, &few);
        problem.bound = NULL, problem.pair_row = problem.pair_column = NULL;
        assert_int_equal(ota_assign_ranked(&problem, NULL), OTA_OK);
        assert_memory_equal(few.value, many.value, (size_t)many.found * sizeof(double));
        const ota_bottleneck other = bottleneck_of(&x, &b);
        assert_int_equal(ota_assign_bottleneck(&other, NULL), OTA_OK);
        check_marks(&x, &b);
    }
}

static void layouts_and_types(void **unused) {
    (void)unused;
    enum { ROWS = 7, COLUMNS = 9 };
    static ranks a, c;
    static narrow b, d;
    float strewn[4 * ROWS * COLUMNS];
    matrix x;
    uint64_t seed = 3;
    draw(&x, 3, ROWS, COLUMNS, &seed);
    for (int64_t i = 0; i < ROWS; i++) {
        for (int64_t j = 0; j < COLUMNS; j++)
            strewn[2 * (j * ROWS + ROWS - 1 - i)] = (float)at(&x, i, j);
    }
    ota_ranked_assignments problem = ranked_of(&x, WANTED, &a);
    ota_bottleneck other = bottleneck_of(&x, &b);
    assert_int_equal(ota_assign_ranked(&problem, NULL), OTA_OK);
    assert_int_equal(ota_assign_bottleneck(&other, NULL), OTA_OK);
    problem = ranked_of(&x, WANTED, &c), other = bottleneck_of(&x, &d);
    problem.costs = other.costs = strewn + 2 * (ROWS - 1);
    problem.type = other.type = OTA_F32;
    problem.row_stride = other.row_stride = -2;
    problem.column_stride = other.column_stride = 2 * ROWS;
    assert_int_equal(ota_assign_ranked(&problem, NULL), OTA_OK);
    assert_int_equal(ota_assign_bottleneck(&other, NULL), OTA_OK);
    assert_memory_equal(a.column, c.column, sizeof(int64_t) * WANTED * ROWS);
    assert_memory_equal(a.bound, c.bound, sizeof a.bound);
    assert_memory_equal(b.column, d.column, sizeof(int64_t) * ROWS);
    assert_memory_equal(b.row_marked, d.row_marked, ROWS);
}

/* A batch of several shapes, one of which has no matching, and one of NaN. */
enum { BATCH = 60, LOST = 17, WRONG = 40, RANKS = 3 };

typedef struct batch {
    int64_t rows[BATCH], columns[BATCH], offsets[BATCH], first_row[BATCH], first_column[BATCH],
        first_pair[BATCH];
    double cost[BATCH * SIDE * SIDE];
} batch;

static void draw_batch(batch *all, int64_t side, bool equal) {
    uint64_t seed = 21;
    int64_t place = 0, row = 0, column = 0, pair = 0;
    for (int p = 0; p < BATCH; p++) {
        all->rows[p] = equal ? side : 1 + p % side;
        all->columns[p] = equal ? side : 1 + 3 * p % side;
        all->offsets[p] = place;
        all->first_row[p] = row, all->first_column[p] = column, all->first_pair[p] = pair;
        const int64_t pairs = all->rows[p] * all->columns[p];
        for (int64_t k = 0; k < pairs; k++)
            all->cost[place + k] = p == LOST ? (double)INFINITY : uniform(&seed);
        if (p == WRONG) all->cost[place] = NAN;
        place += pairs, row += all->rows[p], column += all->columns[p];
        pair += all->rows[p] < all->columns[p] ? all->rows[p] : all->columns[p];
    }
}

/* All of a batch are what each is alone. */
static void batches_are_their_problems(void **unused) {
    (void)unused;
    static batch all;
    static int64_t row[2][BATCH * RANKS * SIDE], column[2][BATCH * RANKS * SIDE];
    static uint8_t marks[BATCH * SIDE], covers[BATCH * SIDE];
    int64_t found[BATCH], pairs[BATCH * RANKS], own_pairs[RANKS], own_found;
    double value[BATCH * RANKS], bound[BATCH * RANKS], own_value[RANKS], own_bound[RANKS];
    ota_status status[BATCH], own_status;
    ota_error error;
    for (int run = 0; run < 4; run++) {
        const bool equal = run % 2 == 0, limited = run >= 2;
        const int64_t side = run == 0 ? SIDE : 12;
        draw_batch(&all, side, equal);
        ota_ranked_assignments problem = {MATRICES_OF(ota_ranked_assignments, all.cost, side, side),
                                          .count = BATCH,
                                          .limited = limited,
                                          .cost_limit = 0.1,
                                          .status = status,
                                          .threads = 1 + run,
                                          .wanted = RANKS,
                                          .pair_row = row[0],
                                          .pair_column = column[0],
                                          .value = value,
                                          .bound = bound,
                                          .found = found,
                                          .pairs = pairs};
        ota_bottleneck other = {MATRICES_OF(ota_bottleneck, all.cost, side, side),
                                .count = BATCH,
                                .limited = limited,
                                .cost_limit = 0.1,
                                .status = status,
                                .threads = 1 + run,
                                .pair_row = row[0],
                                .value = value,
                                .row_marked = marks,
                                .column_covered = covers};
        if (!equal) {
            problem.rows_of = other.rows_of = all.rows;
            problem.columns_of = other.columns_of = all.columns;
            problem.offsets = other.offsets = all.offsets;
        }
        const ota_status wanted = limited ? OTA_NONFINITE : OTA_INFEASIBLE;
        assert_int_equal(ota_assign_ranked(&problem, &error), wanted);
        assert_non_null(strstr(error.message, limited ? "problem 40: " : "problem 17: "));
        for (int p = 0; p < BATCH; p++) {
            const int64_t n = all.rows[p] < all.columns[p] ? all.rows[p] : all.columns[p];
            ota_ranked_assignments own = problem;
            own.count = 0, own.rows_of = own.columns_of = own.offsets = NULL, own.pairs = own_pairs;
            own.rows = all.rows[p], own.columns = own.row_stride = all.columns[p];
            own.costs = all.cost + all.offsets[p];
            own.pair_row = row[1], own.pair_column = column[1], own.value = own_value;
            own.bound = own_bound, own.found = &own_found, own.status = &own_status;
            assert_int_equal(ota_assign_ranked(&own, NULL), status[p]);
            assert_int_equal(status[p], p == WRONG              ? OTA_NONFINITE
                                        : p == LOST && !limited ? OTA_INFEASIBLE
                                                                : OTA_OK);
            const size_t bytes = (size_t)(RANKS * n) * sizeof(int64_t);
            const int64_t first = all.first_pair[p] * RANKS;
            assert_memory_equal(row[0] + first, row[1], bytes);
            assert_memory_equal(column[0] + first, column[1], bytes);
            assert_memory_equal(value + RANKS * p, own_value, sizeof own_value);
            assert_memory_equal(bound + RANKS * p, own_bound, sizeof own_bound);
            assert_memory_equal(pairs + RANKS * p, own_pairs, sizeof own_pairs);
            assert_int_equal(found[p], own_found);
        }
        assert_int_equal(ota_assign_bottleneck(&other, &error), wanted);
        for (int p = 0; p < BATCH; p++) {
            static uint8_t own_marks[SIDE], own_covers[SIDE];
            const int64_t n = all.rows[p] < all.columns[p] ? all.rows[p] : all.columns[p];
            ota_bottleneck own = other;
            own.count = 0, own.rows_of = own.columns_of = own.offsets = NULL;
            own.rows = all.rows[p], own.columns = own.row_stride = all.columns[p];
            own.costs = all.cost + all.offsets[p];
            own.pair_row = row[1], own.value = own_value, own.status = &own_status;
            own.row_marked = own_marks, own.column_covered = own_covers;
            assert_int_equal(ota_assign_bottleneck(&own, NULL), status[p]);
            assert_memory_equal(row[0] + all.first_pair[p], row[1], (size_t)n * sizeof(int64_t));
            assert_memory_equal(value + p, own_value, sizeof(double));
            assert_memory_equal(marks + all.first_row[p], own_marks, (size_t)all.rows[p]);
            assert_memory_equal(covers + all.first_column[p], own_covers, (size_t)all.columns[p]);
        }
    }
}

/* Of several problems without a matching the first is named, also where it is the first of all; one alone is not. */
static void the_first_problem_is_named(void **unused) {
    (void)unused;
    enum { STACK = 4, CELLS = 4 };
    double cost[STACK * CELLS];
    for (int k = 0; k < STACK * CELLS; k++) cost[k] = k / CELLS % 2 == 0 ? (double)INFINITY : 1.0;
    ota_ranked_assignments problem = {MATRICES_OF(ota_ranked_assignments, cost, 2, 2), .wanted = 1};
    ota_bottleneck other = {MATRICES_OF(ota_bottleneck, cost, 2, 2)};
    for (int count = 1; count <= STACK; count += STACK - 1) {
        const char *const named = count == 1 ? "there are no " : "problem 0: ";
        ota_error error;
        problem.count = other.count = count;
        assert_int_equal(ota_assign_ranked(&problem, &error), OTA_INFEASIBLE);
        assert_memory_equal(error.message, named, strlen(named));
        assert_int_equal(ota_assign_bottleneck(&other, &error), OTA_INFEASIBLE);
        assert_memory_equal(error.message, named, strlen(named));
    }
}

static void what_is_wrong_is_refused(void **unused) {
    (void)unused;
    static matrix x;
    static ranks r;
    static narrow b;
    uint64_t seed = 8;
    ota_error error;
    draw(&x, 0, 5, 5, &seed);
    const ota_ranked_assignments good = ranked_of(&x, 3, &r);
    const ota_bottleneck fine = bottleneck_of(&x, &b);
    ota_ranked_assignments bad = good;
    ota_bottleneck wrong = fine;
    assert_int_equal(ota_assign_ranked(NULL, &error), OTA_EINVAL);
    assert_int_equal(ota_assign_bottleneck(NULL, &error), OTA_EINVAL);
    bad.wanted = 0;
    assert_int_equal(ota_assign_ranked(&bad, &error), OTA_EINVAL);
    assert_string_equal(error.field, "wanted");
    bad = good, bad.rows = wrong.rows = -1;
    assert_int_equal(ota_assign_ranked(&bad, &error), OTA_EINVAL);
    assert_int_equal(ota_assign_bottleneck(&wrong, &error), OTA_EINVAL);
    wrong = fine, bad.rows = wrong.rows = INT64_MAX / 2;
    assert_int_equal(ota_assign_ranked(&bad, &error), OTA_EOVERFLOW);
    assert_int_equal(ota_assign_bottleneck(&wrong, &error), OTA_EOVERFLOW);
    bad = good, wrong = fine, bad.costs = wrong.costs = NULL;
    assert_int_equal(ota_assign_ranked(&bad, &error), OTA_EINVAL);
    assert_int_equal(ota_assign_bottleneck(&wrong, &error), OTA_EINVAL);
    bad = good, wrong = fine, bad.costs = wrong.costs = (const char *)x.cost + 1;
    assert_int_equal(ota_assign_ranked(&bad, &error), OTA_EALIGN);
    assert_int_equal(ota_assign_bottleneck(&wrong, &error), OTA_EALIGN);
    bad = good, wrong = fine, bad.type = wrong.type = OTA_BF16;
    assert_int_equal(ota_assign_ranked(&bad, &error), OTA_EINVAL);
    assert_int_equal(ota_assign_bottleneck(&wrong, &error), OTA_EINVAL);
    bad = good, wrong = fine, bad.count = wrong.count = -1;
    assert_int_equal(ota_assign_ranked(&bad, &error), OTA_EINVAL);
    assert_int_equal(ota_assign_bottleneck(&wrong, &error), OTA_EINVAL);
    bad = good, wrong = fine, bad.limited = bad.maximize = wrong.limited = wrong.maximize = 1;
    assert_int_equal(ota_assign_ranked(&bad, &error), OTA_EINVAL);
    assert_int_equal(ota_assign_bottleneck(&wrong, &error), OTA_EINVAL);
    assert_string_equal(error.field, "cost_limit");
    bad = good, wrong = fine, bad.threads = wrong.threads = -1;
    assert_int_equal(ota_assign_ranked(&bad, &error), OTA_EINVAL);
    assert_int_equal(ota_assign_bottleneck(&wrong, &error), OTA_EINVAL);
    bad = good, wrong = fine, bad.offsets = wrong.offsets = (const int64_t[]){0};
    assert_int_equal(ota_assign_ranked(&bad, &error), OTA_EINVAL);
    assert_int_equal(ota_assign_bottleneck(&wrong, &error), OTA_EINVAL);
    const int cancel = 1;
    bad = good, wrong = fine, bad.cancel = wrong.cancel = &cancel;
    bad.pair_row[0] = bad.pair_column[0] = 77;
    assert_int_equal(ota_assign_ranked(&bad, &error), OTA_CANCELLED);
    /* Large outputs that nobody waits for are not filled. */
    assert_int_equal(bad.pair_row[0], 77);
    assert_int_equal(bad.pair_column[0], 77);
    assert_int_equal(ota_assign_bottleneck(&wrong, &error), OTA_CANCELLED);
    bad = good, wrong = fine, bad.deadline_ns = wrong.deadline_ns = 1;
    assert_int_equal(ota_assign_ranked(&bad, &error), OTA_TIMEOUT);
    assert_int_equal(ota_assign_bottleneck(&wrong, &error), OTA_TIMEOUT);
    x.cost[3] = NAN;
    assert_int_equal(ota_assign_ranked(&good, &error), OTA_NONFINITE);
    assert_int_equal(ota_assign_bottleneck(&fine, &error), OTA_NONFINITE);
    assert_string_equal(error.field, "costs");
    for (int j = 0; j < 5; j++) x.cost[j] = INFINITY;
    assert_int_equal(ota_assign_ranked(&good, &error), OTA_INFEASIBLE);
    assert_int_equal(ota_assign_bottleneck(&fine, &error), OTA_INFEASIBLE);
    assert_int_equal(ota_assign_bottleneck(&fine, NULL), OTA_INFEASIBLE);
}

TEST_FILE(test_ranked) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_problems_against_all_matchings),
        cmocka_unit_test(bounds_and_marks_of_larger_ones),
        cmocka_unit_test(layouts_and_types),
        cmocka_unit_test(batches_are_their_problems),
        cmocka_unit_test(the_first_problem_is_named),
        cmocka_unit_test(what_is_wrong_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
