/* Matchings by rising cost, and those whose dearest pair is cheapest, against all matchings of small problems; their bounds and
 * marks at any size, and what is refused. */
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
#include "otattn_assignment.h"
#include "spec.h"

enum { MOST = 5, WANTED = 40, ALL = 720, SIDE = 60, KINDS = 6, MANY = 30 };

/* A matrix of 6 kinds as it is given: [rows][columns + 1]. */
typedef struct matrix {
    int64_t rows, columns;
    bool maximize;
    double cost[SIDE * (SIDE + 1)];
} matrix;

static void draw(matrix *x, int kind, int64_t rows, int64_t columns, uint64_t *seed) {
    x->rows = rows, x->columns = columns;
    x->maximize = kind == 1 || kind == 4;
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

/* By sign c: the sums of all matchings, and the least dearest pair. */
typedef struct enumeration {
    const matrix *x;
    double sum[ALL], dearest;
    int count;
} enumeration;

static void enumerate(enumeration *e, int64_t i, unsigned taken, double sum, double dearest) {
    const matrix *x = e->x;
    const bool tall = x->rows > x->columns;
    const int64_t n = tall ? x->columns : x->rows, m = tall ? x->rows : x->columns;
    const double sign = x->maximize ? -1.0 : 1.0;
    if (i == n) {
        e->sum[e->count++] = sum;
        e->dearest = fmin(e->dearest, dearest);
        return;
    }
    for (int64_t j = 0; j < m; j++) {
        const double cost = sign * (tall ? at(x, j, i) : at(x, i, j));
        if (taken >> j & 1u || !(cost < INFINITY)) continue;
        enumerate(e, i + 1, taken | 1u << j, sum + cost, fmax(dearest, cost));
    }
}

static int rising(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

typedef struct ranks {
    int64_t row[WANTED * SIDE], column[WANTED * SIDE], found;
    double value[WANTED], bound[WANTED];
} ranks;

static ota_ranked_assignments ranked_of(const matrix *x, int64_t wanted, ranks *r) {
    return (ota_ranked_assignments){.size = sizeof(ota_ranked_assignments),
                                    .rows = x->rows,
                                    .columns = x->columns,
                                    .costs = x->cost,
                                    .type = OTA_F64,
                                    .row_stride = x->columns + 1,
                                    .column_stride = 1,
                                    .maximize = x->maximize,
                                    .wanted = wanted,
                                    .pair_row = r->row,
                                    .pair_column = r->column,
                                    .value = r->value,
                                    .bound = r->bound,
                                    .found = &r->found};
}

typedef struct narrow {
    int64_t row[SIDE], column[SIDE];
    double value, bound;
    uint8_t row_marked[SIDE], column_marked[SIDE];
} narrow;

static ota_bottleneck bottleneck_of(const matrix *x, narrow *r) {
    return (ota_bottleneck){.size = sizeof(ota_bottleneck),
                            .rows = x->rows,
                            .columns = x->columns,
                            .costs = x->cost,
                            .type = OTA_F64,
                            .row_stride = x->columns + 1,
                            .column_stride = 1,
                            .maximize = x->maximize,
                            .pair_row = r->row,
                            .pair_column = r->column,
                            .value = &r->value,
                            .bound = &r->bound,
                            .row_marked = r->row_marked,
                            .column_marked = r->column_marked};
}

/* The pairs are a matching by rising row, of that sum and dearest pair. */
static void check_pairs(const matrix *x, const int64_t *row, const int64_t *column, double *sum,
                        double *dearest) {
    const int64_t n = x->rows < x->columns ? x->rows : x->columns;
    const double sign = x->maximize ? -1.0 : 1.0;
    uint64_t taken = 0;
    *sum = 0.0, *dearest = -INFINITY;
    for (int64_t k = 0; k < n; k++) {
        assert_true(row[k] >= 0 && row[k] < x->rows && (k == 0 || row[k] > row[k - 1]));
        assert_true(column[k] >= 0 && column[k] < x->columns && (taken >> column[k] & 1u) == 0);
        taken |= (uint64_t)1 << column[k];
        *sum += at(x, row[k], column[k]);
        *dearest = fmax(*dearest, sign * at(x, row[k], column[k]));
    }
    *dearest *= sign;
}

/* Every matching comes once. */
static void check_ranks(const matrix *x, const ranks *r) {
    const int64_t n = x->rows < x->columns ? x->rows : x->columns;
    double most = 0.0, sum, dearest;
    for (int64_t k = 0; k < r->found; k++) {
        check_pairs(x, r->row + k * n, r->column + k * n, &sum, &dearest);
        most = fmax(most, fabs(sum - r->value[k]));
        const double gap = r->value[k] - r->bound[k];
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
    int64_t more = 0;
    check_pairs(x, r->row, r->column, &sum, &dearest);
    for (int64_t i = 0; i < x->rows; i++) more += (tall ? -1 : 1) * r->row_marked[i];
    for (int64_t j = 0; j < x->columns; j++) more += (tall ? 1 : -1) * r->column_marked[j];
    for (int64_t i = 0; i < x->rows; i++) {
        for (int64_t j = 0; j < x->columns; j++) {
            const int inner = tall ? r->column_marked[j] : r->row_marked[i];
            const int outer = tall ? r->row_marked[i] : r->column_marked[j];
            if (inner == 1 && outer == 0) least = fmin(least, sign * at(x, i, j));
        }
    }
    assert_true(more > 0);
    spec_check("ELA-14", fabs(sign * least - r->value), 0.0);
    spec_check("ELA-14", fabs(r->bound - r->value), 0.0);
    spec_check("ELA-14", fabs(dearest - r->value), 0.0);
}

static void small_problems_against_all_matchings(void **unused) {
    (void)unused;
    static matrix x;
    static ranks r;
    static narrow b;
    uint64_t seed = 5;
    double most = 0.0;
    for (int run = 0; run < KINDS * (MOST + 1) * (MOST + 1); run++) {
        const int64_t rows = run / KINDS % (MOST + 1), columns = run / KINDS / (MOST + 1);
        draw(&x, run % KINDS, rows, columns, &seed);
        static enumeration e;
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
                most = fmax(most, fabs(sign * r.value[k] - e.sum[k]));
            for (int64_t k = r.found; k < wanted; k++)
                assert_true(isnan(r.value[k]) && isnan(r.bound[k]));
            check_ranks(&x, &r);
            if (rows == 0 || columns == 0) continue;
            spec_check("ELA-14", fabs(sign * b.value - e.dearest), 0.0);
            check_marks(&x, &b);
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
    for (int run = 0; run < 5 * KINDS; run++) {
        draw(&x, run % KINDS, shapes[run / KINDS][0], shapes[run / KINDS][1], &seed);
        ota_ranked_assignments problem = ranked_of(&x, MANY / 3, &few);
        assert_int_equal(ota_assign_ranked(&problem, NULL), OTA_OK);
        check_ranks(&x, &few);
        problem = ranked_of(&x, MANY, &many);
        assert_int_equal(ota_assign_ranked(&problem, NULL), OTA_OK);
        check_ranks(&x, &many);
        const double unit = (double)SIDE * DBL_EPSILON;
        for (int64_t k = 0; k < few.found; k++)
            spec_check("ELA-14", fabs(few.value[k] - many.value[k]), 4.0 * unit);
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
    const int cancel = 1;
    bad = good, wrong = fine, bad.cancel = wrong.cancel = &cancel;
    assert_int_equal(ota_assign_ranked(&bad, &error), OTA_CANCELLED);
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
        cmocka_unit_test(what_is_wrong_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
