/* Assignment in batches: optimal by enumeration where that is possible and by the bound elsewhere, whatever the layout,
 * type, level and number of threads. */
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
#include "batches/assignment_search.h"
#include "groups.h"
#include "matrices.h"
#include "otattn_assignment.h"
#include "draw/random.h"
#include "spec.h"

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Everything that comes back, with room for `rows` and `columns` in all. */
typedef struct outputs {
    int64_t *column_of, *row_of, *pair_row, *pair_column, *pairs;
    double *value, *bound, *u, *v;
    ota_status *status;
} outputs;

static void *take(int64_t count, size_t size) {
    void *found = malloc((size_t)(count > 0 ? count : 1) * size);
    assert_non_null(found);
    memset(found, 0x5a, (size_t)(count > 0 ? count : 1) * size);
    return found;
}

static outputs want(ota_assignments *batch, int64_t rows, int64_t columns, int64_t pairs) {
    outputs o = {.column_of = take(rows, 8),
                 .row_of = take(columns, 8),
                 .pair_row = take(pairs, 8),
                 .pair_column = take(pairs, 8),
                 .pairs = take(batch->count, 8),
                 .value = take(batch->count, 8),
                 .bound = take(batch->count, 8),
                 .u = take(rows, 8),
                 .v = take(columns, 8),
                 .status = take(batch->count, sizeof(ota_status))};
    batch->column_of = o.column_of, batch->row_of = o.row_of;
    batch->pair_row = o.pair_row, batch->pair_column = o.pair_column, batch->pairs = o.pairs;
    batch->value = o.value, batch->bound = o.bound;
    batch->row_potential = o.u, batch->column_potential = o.v, batch->status = o.status;
    return o;
}

static void drop(outputs *o) {
    free(o->column_of), free(o->row_of), free(o->pair_row), free(o->pair_column), free(o->pairs);
    free(o->value), free(o->bound), free(o->u), free(o->v), free(o->status);
}

static ota_assigner *assigner_of(int threads, const char *level) {
    ota_assigner *assigner = NULL;
    const ota_options options = {.size = sizeof options, .threads = threads, .cpu = level};
    assert_int_equal(ota_assigner_create(&assigner, &options, NULL), OTA_OK);
    return assigner;
}

/* The least cost over all ways to give rows i ... to columns that are not in `taken`, with `left` pairs to make; a pair may
 * be left out at `limit`. */
static double enumerate(const double *cost, int64_t rows, int64_t columns, int64_t i,
                        unsigned taken, double limit) {
    if (i == rows) return 0.0;
    double best = limit < INFINITY ? limit + enumerate(cost, rows, columns, i + 1, taken, limit)
                                   : (double)INFINITY;
    for (int64_t j = 0; j < columns; j++) {
        if (taken >> j & 1u) continue;
        const double own = cost[i * columns + j];
        if (!(own < INFINITY)) continue;
        best = fmin(best, own + enumerate(cost, rows, columns, i + 1, taken | 1u << j, limit));
    }
    return best;
}

/* Small problems of every shape against all matchings. */
static void small_problems_are_optimal(void **unused) {
    (void)unused;
    enum { MOST = 5, COUNT = 20 };
    ota_assigner *assigner = assigner_of(1, NULL);
    uint64_t seed = 1;
    double most = 0.0;
    for (int64_t rows = 1; rows <= MOST; rows++) {
        for (int64_t columns = 1; columns <= MOST; columns++) {
            for (int kind = 0; kind < 6; kind++) {
                double cost[COUNT * MOST * MOST], plain[MOST * MOST];
                const bool maximize = kind == 1 || kind == 4, limited = kind == 2 || kind == 5;
                const double sign = maximize ? -1.0 : 1.0;
                for (int k = 0; k < COUNT * MOST * MOST; k++) {
                    cost[k] = kind >= 3 ? floor(4.0 * uniform(&seed)) : uniform(&seed) - 0.3;
                    if (kind == 3 && uniform(&seed) < 0.3) cost[k] = INFINITY;
                }
                ota_assignments batch = {.size = sizeof batch,
                                         .count = COUNT,
                                         .rows = rows,
                                         .columns = columns,
                                         .costs = cost,
                                         .type = OTA_F64,
                                         .problem_stride = rows * columns,
                                         .row_stride = columns,
                                         .column_stride = 1,
                                         .maximize = maximize,
                                         .limited = limited,
                                         .cost_limit = limited ? (kind == 2 ? 0.2 : 1.0) : 0.0};
                outputs o =
                    want(&batch, COUNT * rows, COUNT * columns, COUNT * least(rows, columns));
                (void)ota_assign(assigner, &batch, NULL);
                for (int p = 0; p < COUNT; p++) {
                    const double *own = cost + p * rows * columns;
                    const bool tall = rows > columns;
                    const int64_t n = least(rows, columns), m = tall ? rows : columns;
                    for (int64_t i = 0; i < n; i++) {
                        for (int64_t j = 0; j < m; j++)
                            plain[i * m + j] = sign * own[tall ? j * columns + i : i * columns + j];
                    }
                    const double limit = limited ? batch.cost_limit : (double)INFINITY;
                    const double right = enumerate(plain, n, m, 0, 0, limit);
                    if (right == INFINITY) {
                        assert_int_equal(o.status[p], OTA_INFEASIBLE);
                        assert_true(isnan(o.value[p]) && isnan(o.u[p * rows]) && o.pairs[p] == 0);
                        continue;
                    }
                    assert_int_equal(o.status[p], OTA_OK);
                    double value = sign * o.value[p];
                    if (limited) value += limit * (double)(n - o.pairs[p]);
                    most = fmax(most, fabs(value - right));
                    most = fmax(most, fabs(sign * o.bound[p] - right));
                    if (!limited) assert_int_equal(o.pairs[p], n);
                    int64_t last = -1;
                    for (int64_t k = 0; k < o.pairs[p]; k++) {
                        const int64_t i = o.pair_row[p * n + k], j = o.pair_column[p * n + k];
                        assert_true(i > last);
                        assert_int_equal(o.column_of[p * rows + i], j);
                        assert_int_equal(o.row_of[p * columns + j], i);
                        last = i;
                    }
                }
                drop(&o);
            }
        }
    }
    spec_check("ELA-14", most, 1e-13);
    ota_assigner_free(assigner);
}

/* One ragged batch of all sorts of shapes, the largest beyond dense matrices. */
enum { SHAPES = 15 };
static const int64_t SHAPE[SHAPES][2] = {
    {30, 30},   {0, 4}, {20, 300},    {300, 20},  {1, 1},     {64, 64}, {65, 63}, {5, 0},
    {128, 128}, {7, 7}, {1500, 1450}, {2, 70000}, {450, 450}, {3, 100}, {33, 35}};

typedef struct ragged {
    ota_assignments batch;
    int64_t rows[SHAPES], columns[SHAPES], offsets[SHAPES], all_rows, all_columns, all_pairs,
        length;
    double *wide;
    float *narrow;
} ragged;

static void make(ragged *r, int kind, uint64_t seed) {
    *r = (ragged){0};
    for (int p = 0; p < SHAPES; p++) {
        r->rows[p] = SHAPE[p][0], r->columns[p] = SHAPE[p][1], r->offsets[p] = r->length;
        r->length += r->rows[p] * r->columns[p];
        r->all_rows += r->rows[p], r->all_columns += r->columns[p];
        r->all_pairs += least(r->rows[p], r->columns[p]);
    }
    r->wide = take(r->length, 8), r->narrow = take(r->length, 4);
    for (int64_t k = 0; k < r->length; k++) {
        const double draw = uniform(&seed);
        r->wide[k] = kind == 0 ? (float)draw : floor(8.0 * draw);
        r->narrow[k] = (float)r->wide[k];
    }
    r->batch = (ota_assignments){.size = sizeof r->batch,
                                 .count = SHAPES,
                                 .costs = r->wide,
                                 .type = OTA_F64,
                                 .rows_of = r->rows,
                                 .columns_of = r->columns,
                                 .offsets = r->offsets};
}

static void bounds_are_met_whatever_runs(void **unused) {
    (void)unused;
    for (int kind = 0; kind < 2; kind++) {
        ragged r;
        make(&r, kind, 5);
        ota_assigner *one = assigner_of(1, NULL);
        outputs first = want(&r.batch, r.all_rows, r.all_columns, r.all_pairs);
        assert_int_equal(ota_assign(one, &r.batch, NULL), OTA_OK);
        double gap = 0.0;
        for (int p = 0; p < SHAPES; p++)
            gap = fmax(gap, fabs(first.value[p] - first.bound[p]) / fmax(1.0, first.value[p]));
        spec_check("ELA-14 LIT-06", gap, 1e-12);
        const ota_kernels *row;
        for (int level = 0; (row = ota_kernels_row(level)) != NULL; level++) {
            for (int run = 0; run < 4; run++) {
                ota_assigner *other = assigner_of(run % 2 == 0 ? 1 : 3, row->name);
                r.batch.costs = run < 2 ? (const void *)r.wide : r.narrow;
                r.batch.type = run < 2 ? OTA_F64 : OTA_F32;
                outputs again = want(&r.batch, r.all_rows, r.all_columns, r.all_pairs);
                assert_int_equal(ota_assign(other, &r.batch, NULL), OTA_OK);
                assert_memory_equal(first.column_of, again.column_of, (size_t)r.all_rows * 8);
                assert_memory_equal(first.row_of, again.row_of, (size_t)r.all_columns * 8);
                assert_memory_equal(first.u, again.u, (size_t)r.all_rows * 8);
                assert_memory_equal(first.v, again.v, (size_t)r.all_columns * 8);
                assert_memory_equal(first.value, again.value, sizeof(double) * SHAPES);
                drop(&again);
                ota_assigner_free(other);
            }
        }
        drop(&first);
        free(r.wide), free(r.narrow);
        ota_assigner_free(one);
    }
}

/* A view with any strides is the matrix it shows, the other way round the same pairs; a second call allocates nothing. */
static void layouts_agree(void **unused) {
    (void)unused;
    enum { ROWS = 23, COLUMNS = 41, COUNT = 3 };
    double dense[COUNT * ROWS * COLUMNS], strewn[COUNT * ROWS * COLUMNS * 6];
    uint64_t seed = 3;
    for (size_t k = 0; k < sizeof strewn / sizeof *strewn; k++) strewn[k] = NAN;
    ota_assigner *assigner = assigner_of(1, NULL);
    const int64_t row_stride = -2 * COLUMNS, column_stride = 2, problem_stride = 2 * ROWS * COLUMNS;
    const double *corner = strewn + 2 * (ROWS - 1) * COLUMNS;
    for (int p = 0; p < COUNT; p++) {
        for (int i = 0; i < ROWS; i++) {
            for (int j = 0; j < COLUMNS; j++) {
                const double cost = uniform(&seed);
                dense[(p * ROWS + i) * COLUMNS + j] = cost;
                strewn[2 * (ROWS - 1) * COLUMNS + p * problem_stride + i * row_stride +
                       j * column_stride] = cost;
            }
        }
    }
    ota_assignments batch = {.size = sizeof batch,
                             .count = COUNT,
                             .rows = ROWS,
                             .columns = COLUMNS,
                             .costs = dense,
                             .type = OTA_F64,
                             .problem_stride = ROWS * COLUMNS,
                             .row_stride = COLUMNS,
                             .column_stride = 1};
    outputs a = want(&batch, COUNT * ROWS, COUNT * COLUMNS, COUNT * ROWS);
    assert_int_equal(ota_assign(assigner, &batch, NULL), OTA_OK);
    const size_t bytes = ota_assigner_bytes(assigner);
    ota_assignments other = batch;
    other.costs = corner, other.problem_stride = problem_stride;
    other.row_stride = row_stride, other.column_stride = column_stride;
    outputs b = want(&other, COUNT * ROWS, COUNT * COLUMNS, COUNT * ROWS);
    assert_int_equal(ota_assign(assigner, &other, NULL), OTA_OK);
    assert_memory_equal(a.column_of, b.column_of, sizeof(int64_t) * COUNT * ROWS);
    assert_memory_equal(a.u, b.u, sizeof(double) * COUNT * ROWS);
    ota_assignments transposed = batch;
    transposed.rows = COLUMNS, transposed.columns = ROWS;
    transposed.row_stride = 1, transposed.column_stride = COLUMNS;
    outputs c = want(&transposed, COUNT * COLUMNS, COUNT * ROWS, COUNT * ROWS);
    assert_int_equal(ota_assign(assigner, &transposed, NULL), OTA_OK);
    assert_memory_equal(a.column_of, c.row_of, sizeof(int64_t) * COUNT * ROWS);
    assert_memory_equal(a.row_of, c.column_of, sizeof(int64_t) * COUNT * COLUMNS);
    assert_memory_equal(a.v, c.u, sizeof(double) * COUNT * COLUMNS);
    assert_int_equal(ota_assigner_bytes(assigner), bytes);
    drop(&a), drop(&b), drop(&c);
    ota_assigner_free(assigner);
}

/* Costs that are searched where they lie, next to numbers that are none, have the answers of their copy, whatever is among them: of
 * both types, dearest pairs and limits. */
static void costs_in_place_agree(void **unused) {
    (void)unused;
    enum { KINDS = 9, LAYOUTS = 6, SHAPES = 9, GAP = 3, MOST = 48 * 64 + 16 * 256 };
    static const int64_t shapes[SHAPES][2] = {{40, 40}, {48, 48}, {33, 40}, {16, 200}, {8, 136},
                                              {64, 24}, {35, 37}, {9, 301}, {41, 61}};
    static const double odd[KINDS] = {0.5,    NAN,  INFINITY, -INFINITY, 1e300,
                                      -1e300, 1e16, 1e280,    0.0};
    double lies[MOST], apart[MOST];
    float narrow_lies[MOST], narrow_apart[MOST];
    uint64_t seed = 17;
    const ota_kernels *row;
    for (int level = 0; (row = ota_kernels_row(level)) != NULL; level++) {
        ota_assigner *assigner = assigner_of(1, row->name);
        for (int run = 0; run < 4 * KINDS * SHAPES * LAYOUTS; run++) {
            const int64_t *shape = shapes[run / (4 * KINDS) % SHAPES], rows = shape[0],
                          columns = shape[1];
            const int layout = run / (4 * KINDS * SHAPES);
            const bool flat = run % 4 == 0, whole = run % 4 == 1, narrow = layout % 2 == 1;
            const int64_t stride = columns + (layout < 2 ? 0 : GAP);
            for (int64_t k = 0; k < MOST; k++) lies[k] = NAN;
            for (int64_t i = 0; i < rows; i++) {
                for (int64_t j = 0; j < columns; j++) {
                    const double x = uniform(&seed);
                    lies[i * stride + j] = flat ? 3.0 : whole ? floor(8.0 * x) : x;
                }
            }
            const int count = run % 4 == 3 ? 20 : 1;
            for (int k = 0; k < count; k++) {
                const int64_t at = (int64_t)(uniform(&seed) * (double)(rows * columns));
                lies[at / columns * stride + at % columns] = odd[run / 4 % KINDS];
            }
            for (int64_t i = 0; i < rows; i++) {
                for (int64_t j = 0; j < columns; j++) apart[j * rows + i] = lies[i * stride + j];
            }
            /* The largest are infinite in f32, which both layouts see. */
            for (int64_t k = 0; narrow && k < MOST; k++)
                narrow_lies[k] = fabs(lies[k]) > FLT_MAX ? INFINITY : (float)lies[k];
            for (int64_t k = 0; narrow && k < rows * columns; k++)
                narrow_apart[k] = fabs(apart[k]) > FLT_MAX ? INFINITY : (float)apart[k];
            ota_assignments batch = {MATRICES_OF(ota_assignments, lies, rows, columns), .count = 1};
            batch.row_stride = stride;
            batch.maximize = layout == 4 && odd[run / 4 % KINDS] < INFINITY;
            batch.limited = layout == 3 || layout == 5;
            batch.cost_limit = 0.4;
            if (narrow) batch.costs = narrow_lies, batch.type = OTA_F32;
            ota_assignments other = batch;
            other.costs = narrow ? (const void *)narrow_apart : apart;
            other.row_stride = 1, other.column_stride = rows;
            outputs a = want(&batch, rows, columns, least(rows, columns));
            outputs b = want(&other, rows, columns, least(rows, columns));
            const ota_status status = ota_assign(assigner, &batch, NULL);
            assert_int_equal(ota_assign(assigner, &other, NULL), status);
            assert_memory_equal(a.column_of, b.column_of, (size_t)rows * 8);
            assert_memory_equal(a.row_of, b.row_of, (size_t)columns * 8);
            if (status == OTA_OK) {
                assert_memory_equal(a.u, b.u, (size_t)rows * 8);
                assert_memory_equal(a.v, b.v, (size_t)columns * 8);
                assert_memory_equal(a.value, b.value, 8);
                assert_memory_equal(a.bound, b.bound, 8);
            }
            if (run / 4 % KINDS == 1) assert_int_equal(status, OTA_NONFINITE);
            drop(&a), drop(&b);
        }
        ota_assigner_free(assigner);
    }
}

/* Potentials of one side alone are those that both sides have together. */
static void sides_may_be_wanted_alone(void **unused) {
    (void)unused;
    static const int64_t shapes[][2] = {{23, 41}, {41, 23}, {300, 300}};
    ota_assigner *assigner = assigner_of(1, NULL);
    uint64_t seed = 9;
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        const int64_t rows = shapes[k][0], columns = shapes[k][1];
        double *cost = take(rows * columns, sizeof *cost);
        for (int64_t at = 0; at < rows * columns; at++) cost[at] = uniform(&seed);
        ota_assignments batch = {MATRICES_OF(ota_assignments, cost, rows, columns), .count = 1};
        outputs both = want(&batch, rows, columns, least(rows, columns));
        assert_int_equal(ota_assign(assigner, &batch, NULL), OTA_OK);
        double *u = take(rows, sizeof *u), *v = take(columns, sizeof *v);
        batch.bound = NULL;
        batch.row_potential = u, batch.column_potential = NULL;
        assert_int_equal(ota_assign(assigner, &batch, NULL), OTA_OK);
        batch.row_potential = NULL, batch.column_potential = v;
        assert_int_equal(ota_assign(assigner, &batch, NULL), OTA_OK);
        assert_memory_equal(u, both.u, sizeof *u * (size_t)rows);
        assert_memory_equal(v, both.v, sizeof *v * (size_t)columns);
        drop(&both);
        free(cost), free(u), free(v);
    }
    ota_assigner_free(assigner);
}

/* A problem that fails says so and leaves the others alone; very large costs are no failure. */
static void failures_stay_their_own(void **unused) {
    (void)unused;
    double cost[5][4] = {{1, 2, 3, 5},
                         {1, NAN, 2, 3},
                         {1, INFINITY, 2, INFINITY},
                         {1e308, -1e308, -1e308, 1e308},
                         {1, -INFINITY, 2, 3}};
    ota_assigner *assigner = assigner_of(2, NULL);
    ota_assignments batch = {.size = sizeof batch,
                             .count = 5,
                             .rows = 2,
                             .columns = 2,
                             .costs = cost,
                             .type = OTA_F64,
                             .problem_stride = 4,
                             .row_stride = 2,
                             .column_stride = 1};
    outputs o = want(&batch, 10, 10, 10);
    ota_error error;
    assert_int_equal(ota_assign(assigner, &batch, &error), OTA_NONFINITE);
    assert_non_null(strstr(error.message, "problem 1 "));
    static const ota_status wanted[] = {OTA_OK, OTA_NONFINITE, OTA_INFEASIBLE, OTA_OK,
                                        OTA_NONFINITE};
    assert_memory_equal(o.status, wanted, sizeof wanted);
    assert_true(o.value[0] == 5.0 && isnan(o.value[1]) && o.column_of[2] == -1);
    assert_true(o.column_of[6] == 1 && o.column_of[7] == 0);
    for (int p = 0; p < 5; p++) {
        if (wanted[p] == OTA_OK) continue;
        assert_true(o.pairs[p] == 0 && isnan(o.value[p]) && isnan(o.bound[p]));
        for (int k = 2 * p; k < 2 * p + 2; k++) {
            assert_true(o.column_of[k] == -1 && o.row_of[k] == -1);
            assert_true(o.pair_row[k] == -1 && o.pair_column[k] == -1);
            assert_true(isnan(o.u[k]) && isnan(o.v[k]));
        }
    }
    batch.count = 1, batch.maximize = 1;
    assert_int_equal(ota_assign(assigner, &batch, &error), OTA_OK);
    assert_true(o.value[0] == 6.0 && o.bound[0] == 6.0);
    const int cancel = 1;
    batch.cancel = &cancel;
    double many[40 * 40];
    for (int k = 0; k < 1600; k++) many[k] = (double)((k / 40 + 1) * (k % 40 + 1));
    outputs p = {0};
    drop(&o);
    batch.rows = batch.columns = batch.row_stride = 40, batch.costs = many;
    p = want(&batch, 40, 40, 40);
    assert_int_equal(ota_assign(assigner, &batch, &error), OTA_CANCELLED);
    assert_int_equal(p.column_of[0], -1);
    drop(&p);
    ota_assigner_free(assigner);
}

static void input_is_refused(void **unused) {
    (void)unused;
    ota_assigner *assigner = NULL;
    ota_error error;
    ota_options options = {.size = sizeof options, .cpu = "mmx"};
    assert_int_equal(ota_assigner_create(&assigner, &options, &error), OTA_EINVAL);
    assert_non_null(strstr(error.message, "mmx"));
    assigner = assigner_of(1, NULL);
    double cost[4] = {1, 2, 3, 4};
    const ota_assignments good = {.size = sizeof good,
                                  .count = 1,
                                  .rows = 2,
                                  .columns = 2,
                                  .costs = cost,
                                  .type = OTA_F64,
                                  .row_stride = 2,
                                  .column_stride = 1};
    ota_assignments bad = good;
    bad.type = OTA_BF16;
    assert_int_equal(ota_assign(assigner, &bad, &error), OTA_EINVAL);
    assert_string_equal(error.field, "costs");
    bad = good, bad.rows = -1;
    assert_int_equal(ota_assign(assigner, &bad, &error), OTA_EINVAL);
    bad = good, bad.rows = INT64_MAX / 2;
    assert_int_equal(ota_assign(assigner, &bad, &error), OTA_EOVERFLOW);
    bad = good, bad.costs = NULL;
    assert_int_equal(ota_assign(assigner, &bad, &error), OTA_EINVAL);
    bad = good, bad.limited = 1, bad.cost_limit = INFINITY;
    assert_int_equal(ota_assign(assigner, &bad, &error), OTA_EINVAL);
    bad = good, bad.limited = 1, bad.cost_limit = 1.0, bad.maximize = 1;
    assert_int_equal(ota_assign(assigner, &bad, &error), OTA_EINVAL);
    bad = good, bad.rows_of = &good.count;
    assert_int_equal(ota_assign(assigner, &bad, &error), OTA_EINVAL);
    bad = good, bad.bound = cost;
    assert_int_equal(ota_assign(assigner, &bad, &error), OTA_EINVAL);
    bad = good, bad.costs = (const char *)cost + 1;
    assert_int_equal(ota_assign(assigner, &bad, &error), OTA_EALIGN);
    bad = good, bad.count = 0, bad.costs = NULL;
    assert_int_equal(ota_assign(assigner, &bad, &error), OTA_OK);
    assert_int_equal(ota_assign(NULL, &good, &error), OTA_EINVAL);
    assert_int_equal(ota_assign(assigner, NULL, &error), OTA_EINVAL);
    ota_assigner_free(assigner);
    ota_assigner_free(NULL);
}

/* Columns that cost as little as any, in the last places of blocks that are looked at together; and a pair that costs the limit. */
static void ties_and_limits(void **unused) {
    (void)unused;
    enum { COLUMNS = 130 };
    double costs[2 * COLUMNS], value;
    int64_t columns[2], pairs;
    ota_assignments batch = {.size = sizeof batch,
                             .count = 1,
                             .rows = 2,
                             .columns = COLUMNS,
                             .costs = costs,
                             .type = OTA_F64,
                             .row_stride = COLUMNS,
                             .column_stride = 1,
                             .column_of = columns,
                             .value = &value,
                             .pairs = &pairs};
    ota_assigner *const assigner = assigner_of(1, NULL);
    for (int place = 1; place < COLUMNS; place++) {
        const int other = (place + 64) % COLUMNS;
        for (int k = 0; k < 2 * COLUMNS; k++)
            costs[k] = k % COLUMNS == place || k % COLUMNS == other ? 0.0 : 1.0;
        assert_int_equal(ota_assign(assigner, &batch, NULL), OTA_OK);
        assert_true(value <= 0.0);
        assert_int_equal(columns[0] + columns[1], place + other);
    }
    static const double at_limit[4] = {1.0, 9.0, 9.0, 0.25};
    batch.columns = batch.row_stride = 2;
    batch.costs = at_limit;
    batch.limited = 1;
    batch.cost_limit = 1.0;
    assert_int_equal(ota_assign(assigner, &batch, NULL), OTA_OK);
    assert_int_equal(columns[0], -1);
    assert_int_equal(columns[1], 1);
    assert_int_equal(pairs, 1);
    assert_true(value >= 0.25 && value <= 0.25);
    ota_assigner_free(assigner);
}

/* Pairs of cost 0 are matched, where 1 stands beside costs that rounding beside it loses: prices that had lost them would
 * leave a pair cheaper than allowed, or the bound below the value. */
static void zeros_beside_small_costs(void **unused) {
    (void)unused;
    enum { ROWS = 2, MOST = 40, WIDTHS = 4 };
    static const int64_t widths[WIDTHS] = {2, 3, 17, MOST};
    const ota_kernels *row;
    for (int level = 0; (row = ota_kernels_row(level)) != NULL; level++) {
        ota_assigner *const assigner = assigner_of(1, row->name);
        for (int run = 0; run < 2 * WIDTHS; run++) {
            const int64_t columns = widths[run / 2];
            const double sign = run % 2 == 0 ? 1.0 : -1.0;
            double costs[ROWS * MOST], u[ROWS], v[MOST], value, bound;
            for (int64_t at = 0; at < ROWS * columns; at++) costs[at] = sign;
            costs[1] = costs[columns] = 0.0;
            costs[columns + 1] = -sign * 0x1p-60;
            const ota_assignments batch = {MATRICES_OF(ota_assignments, costs, ROWS, columns),
                                           .count = 1,
                                           .maximize = run % 2,
                                           .value = &value,
                                           .bound = &bound,
                                           .row_potential = u,
                                           .column_potential = v};
            assert_int_equal(ota_assign(assigner, &batch, NULL), OTA_OK);
            spec_check("ELA-14", fabs(value), 0.0);
            spec_check("ELA-14", fabs(bound), 0.0);
        }
        ota_assigner_free(assigner);
    }
}

/* A limit on problems that are too large for the search of small ones: the bound, by code of its own, meets the value. */
static void large_problems_with_a_limit(void **unused) {
    (void)unused;
    enum { SIDE = 1460 };
    double *const costs = malloc(sizeof *costs * SIDE * SIDE), u[SIDE], v[SIDE], value, bound;
    int64_t pairs;
    uint64_t seed = 23;
    ota_assigner *const assigner = assigner_of(1, NULL);
    for (int k = 0; k < SIDE * SIDE; k++) costs[k] = uniform(&seed);
    for (double limit = 4e-3; limit > 1e-4; limit /= 8.0) {
        const ota_assignments batch = {.size = sizeof batch,
                                       .count = 1,
                                       .rows = SIDE,
                                       .columns = SIDE,
                                       .costs = costs,
                                       .type = OTA_F64,
                                       .row_stride = SIDE,
                                       .column_stride = 1,
                                       .limited = 1,
                                       .cost_limit = limit,
                                       .pairs = &pairs,
                                       .value = &value,
                                       .bound = &bound,
                                       .row_potential = u,
                                       .column_potential = v};
        assert_int_equal(ota_assign(assigner, &batch, NULL), OTA_OK);
        const double all = value + limit * (double)(SIDE - pairs);
        spec_check("ELA-14", fabs(all - bound), 1e-12 * fmax(1.0, all));
    }
    free(costs);
    ota_assigner_free(assigner);
}

/* Costs of a large problem are read where they lie, or copied: the same bits in both types, for costs and for what they are minus
 * of, of rows in any order and of columns that are not neighbours. */
static void large_layouts_agree(void **unused) {
    (void)unused;
    enum { SIDE = 1460, AHEAD = 3, STRIDE = SIDE + AHEAD, PAIRS = SIDE * STRIDE, KINDS = 6 };
    static double u[SIDE], v[SIDE], first_u[SIDE], first_v[SIDE];
    static int64_t column_of[SIDE], first[SIDE];
    double *const costs = take(PAIRS, sizeof *costs), *const other = take(PAIRS, sizeof *other);
    float *const narrow = take(PAIRS, sizeof *narrow);
    uint64_t seed = 31;
    double value, bound;
    ota_assigner *const assigner = assigner_of(1, NULL);
    for (int k = 0; k < PAIRS; k++) {
        costs[k] = floor(uniform(&seed) * 100.0);
        if (uniform(&seed) < 0.1) costs[k] = INFINITY;
        narrow[k] = (float)costs[k];
    }
    for (int kind = 0; kind < KINDS; kind++) {
        ota_assignments batch = {.size = sizeof batch,
                                 .count = 1,
                                 .rows = SIDE,
                                 .columns = SIDE,
                                 .costs = costs,
                                 .type = OTA_F64,
                                 .row_stride = STRIDE,
                                 .column_stride = 1,
                                 .column_of = column_of,
                                 .value = &value,
                                 .bound = &bound,
                                 .row_potential = u,
                                 .column_potential = v};
        const double sign = kind == 2 ? -1.0 : 1.0;
        if (kind == 1) batch.costs = narrow, batch.type = OTA_F32;
        if (kind >= 2) batch.costs = other;
        for (int64_t i = 0; i < SIDE; i++) {
            for (int64_t j = 0; j < SIDE; j++) {
                const int64_t back = (SIDE - 1 - i) * STRIDE + j, turned = j * STRIDE + i;
                other[kind == 3   ? back
                      : kind == 4 ? turned
                                  : i * STRIDE + j] = sign * costs[i * STRIDE + j];
            }
        }
        if (kind == 2) batch.maximize = 1;
        if (kind == 3) batch.costs = other + (SIDE - 1) * STRIDE, batch.row_stride = -STRIDE;
        if (kind == 4) batch.row_stride = 1, batch.column_stride = STRIDE;
        /* Only columns and bounds: no potentials are formed. */
        if (kind == 5) batch.row_potential = batch.column_potential = batch.bound = NULL;
        assert_int_equal(ota_assign(assigner, &batch, NULL), OTA_OK);
        spec_check("ELA-14", fabs(value - bound), 0.0);
        for (int64_t i = 0; kind == 2 && i < SIDE; i++) u[i] = -u[i], v[i] = -v[i];
        if (kind == 2) value = -value, bound = -bound;
        if (kind == 0) {
            memcpy(first, column_of, sizeof first);
            memcpy(first_u, u, sizeof u);
            memcpy(first_v, v, sizeof v);
        }
        assert_memory_equal(column_of, first, sizeof first);
        for (int64_t i = 0; i < SIDE; i++)
            assert_true(!(fabs(u[i] - first_u[i]) > 0.0) && !(fabs(v[i] - first_v[i]) > 0.0));
    }
    free(costs), free(other), free(narrow);
    ota_assigner_free(assigner);
}

/* Between a dense search and candidates the shape decides, and a look at some costs where it cannot; both are proved by prices. */
static void searches_are_chosen_by_shape_and_costs(void **unused) {
    (void)unused;
    enum { APART, WHOLE, BITS, FEW, ALLOWED, KINDS, ROWS = 1480, MOST = 2200, CASES = 8 };
    enum { D = OTA_DENSELY, C = OTA_BY_CANDIDATES };
    static const struct {
        int64_t rows, columns;
        bool limited, rows_lie;
        int of[KINDS];
    } cases[CASES] = {
        {1000, 1000, false, true, {D, D, D, D, D}},  {1400, 1400, true, true, {D, D, D, D, D}},
        {1300, 1500, false, true, {D, D, D, D, D}},  {1400, 1400, false, true, {C, D, D, D, C}},
        {1400, 1420, false, false, {C, D, D, D, C}}, {1480, 1480, false, true, {C, C, C, C, C}},
        {1400, 2200, false, true, {D, D, C, D, D}},  {1400, 2200, false, false, {C, C, C, C, C}},
    };
    double *const costs = take((int64_t)ROWS * MOST, sizeof *costs);
    double *const u = take(MOST, sizeof *u), *const v = take(MOST, sizeof *v);
    int64_t *const column_of = take(ROWS, sizeof *column_of);
    ota_assigner *const assigner = assigner_of(1, NULL);
    uint64_t seed = 41;
    for (int run = 0; run < CASES * KINDS; run++) {
        const int kind = run % KINDS, k = run / KINDS;
        const int64_t rows = cases[k].rows, columns = cases[k].columns;
        for (int64_t at = 0; at < rows * columns; at++) {
            const double x = uniform(&seed);
            costs[at] = kind == WHOLE     ? floor(100.0 * x)
                        : kind == BITS    ? floor(2.0 * x)
                        : kind == FEW     ? (x < 4.0 / (double)columns ? 0.0 : 1.0)
                        : kind == ALLOWED ? (x < 0.05 ? x : (double)INFINITY)
                                          : x;
        }
        double value, bound;
        ota_assignments batch = {MATRICES_OF(ota_assignments, costs, rows, columns),
                                 .count = 1,
                                 .column_of = column_of,
                                 .value = &value,
                                 .bound = &bound,
                                 .row_potential = u,
                                 .column_potential = v};
        batch.limited = cases[k].limited, batch.cost_limit = 1e3;
        if (!cases[k].rows_lie) batch.row_stride = 1, batch.column_stride = rows;
        const ota_cost_view view = ota_assignments_view(&batch, 0);
        ota_assign_search search = ota_assign_search_of(&view);
        if (search == OTA_BY_COSTS) search = ota_assign_search_by_costs(&view);
        assert_int_equal(search, cases[k].of[kind]);
        assert_int_equal(ota_assign(assigner, &batch, NULL), OTA_OK);
        spec_check("ELA-14", fabs(value - bound), 1e-12 * fmax(1.0, value));
    }
    free(costs), free(u), free(v), free(column_of);
    ota_assigner_free(assigner);
}

TEST_FILE(test_assignments) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_problems_are_optimal),
        cmocka_unit_test(bounds_are_met_whatever_runs),
        cmocka_unit_test(sides_may_be_wanted_alone),
        cmocka_unit_test(layouts_agree),
        cmocka_unit_test(costs_in_place_agree),
        cmocka_unit_test(large_layouts_agree),
        cmocka_unit_test(searches_are_chosen_by_shape_and_costs),
        cmocka_unit_test(ties_and_limits),
        cmocka_unit_test(zeros_beside_small_costs),
        cmocka_unit_test(large_problems_with_a_limit),
        cmocka_unit_test(failures_stay_their_own),
        cmocka_unit_test(input_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
