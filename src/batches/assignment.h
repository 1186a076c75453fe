/* assignment.h: one problem of a batch (otattn_assignment.h), as its search and the judge of its prices see it.
 *
 * This folder: calls that solve many small problems at once, or one of many rows and few columns, and need no plan.
 * Each has a public header of its own, include/otattn_NAME.h, which is where to begin. May call: base/, problem/,
 * columns/ and what is below, and kernels through the headers of backend/. */
#ifndef OTA_BATCH_ASSIGNMENT_H
#define OTA_BATCH_ASSIGNMENT_H

#include <math.h>
#include <stdbool.h>

#include "base/base.h"
#include "otattn_assignment.h"

typedef struct ota_cost_view {
    const void *costs;
    ota_type type; /* OTA_F64 or OTA_F32 */
    int64_t rows, columns, row_stride, column_stride;
    double sign;  /* -1 where the dearest pairs are wanted: sign c is what is minimised */
    double limit; /* pairs cost at most that; +inf: none */
} ota_cost_view;

static inline double ota_cost_of(const ota_cost_view *view, int64_t i, int64_t j) {
    const int64_t at = i * view->row_stride + j * view->column_stride;
    return view->type == OTA_F64 ? ((const double *)view->costs)[at]
                                 : (double)((const float *)view->costs)[at];
}

/* What every call that takes a batch of matrices checks: its layout, sizes and limit; EINVAL, EALIGN, EOVERFLOW. */
ota_status ota_assignments_check(const ota_assignments *batch, ota_error *error);

static inline int64_t ota_assignments_rows(const ota_assignments *batch, int64_t p) {
    return batch->rows_of != NULL ? batch->rows_of[p] : batch->rows;
}

static inline int64_t ota_assignments_columns(const ota_assignments *batch, int64_t p) {
    return batch->columns_of != NULL ? batch->columns_of[p] : batch->columns;
}

static inline ota_cost_view ota_assignments_view(const ota_assignments *batch, int64_t p) {
    const bool ragged = batch->offsets != NULL;
    const int64_t first = ragged ? batch->offsets[p] : p * batch->problem_stride;
    return (ota_cost_view){.costs = (const char *)batch->costs +
                                    first * (int64_t)ota_type_bytes(batch->type),
                           .type = batch->type,
                           .rows = ota_assignments_rows(batch, p),
                           .columns = ota_assignments_columns(batch, p),
                           .row_stride = ragged ? batch->columns_of[p] : batch->row_stride,
                           .column_stride = ragged ? 1 : batch->column_stride,
                           .sign = batch->maximize ? -1.0 : 1.0,
                           .limit = batch->limited ? batch->cost_limit : (double)INFINITY};
}

/* Where problem p's outputs begin. */
typedef struct ota_assignments_place {
    int64_t row, column, pair;
} ota_assignments_place;

/* Places of a ragged batch, [3][count]: first of rows, of columns, of pairs; one of equal problems needs none (NULL). */
void ota_assignments_lay_out(const ota_assignments *batch, int64_t *places);
static inline ota_assignments_place ota_assignments_place_of(const ota_assignments *batch,
                                                             const int64_t *places, int64_t p) {
    if (places == NULL)
        return (ota_assignments_place){p * batch->rows, p * batch->columns,
                                       p * ota_int_min(batch->rows, batch->columns)};
    return (ota_assignments_place){places[p], places[batch->count + p],
                                   places[2 * batch->count + p]};
}

/* One problem, which writes its outputs, those of a failure too. */
typedef ota_status ota_assignments_solve(const void *context, int64_t p,
                                         const ota_assignments_place *at, ota_error *error);

typedef struct ota_assignments_job {
    const ota_assignments *batch; /* checked by the call; `status` is written */
    double work;                  /* a pair, which says whether threads pay */
    int threads;
    const ota_executor *executor;
    ota_assignments_solve *solve;
    const void *context;
} ota_assignments_job;

/* The problems of a call on ranks or bottlenecks, whose structs name them as a batch does; of one the count may be 0. */
#define OTA_PROBLEMS_OF(own)                                                                       \
    ((ota_assignments){.count = (own).count == 0 ? 1 : (own).count,                                \
                       .rows = (own).rows,                                                         \
                       .columns = (own).columns,                                                   \
                       .costs = (own).costs,                                                       \
                       .type = (own).type,                                                         \
                       .problem_stride = (own).problem_stride,                                     \
                       .row_stride = (own).row_stride,                                             \
                       .column_stride = (own).column_stride,                                       \
                       .rows_of = (own).rows_of,                                                   \
                       .columns_of = (own).columns_of,                                             \
                       .offsets = (own).offsets,                                                   \
                       .maximize = (own).maximize,                                                 \
                       .limited = (own).limited,                                                   \
                       .cost_limit = (own).cost_limit,                                             \
                       .cancel = (own).cancel,                                                     \
                       .deadline_ns = (own).deadline_ns,                                           \
                       .status = (own).status})

/* Solves all problems of a batch, each by one thread. The status and the error are those of the first problem that was stopped, or
 * else has no answer. */
ota_status ota_assignments_each(const ota_assignments_job *job, ota_error *error);

/* A lower (upper, where sign is -1) bound on the value of the view's optimum by prices u [rows], v [columns], whatever they
 * are. */
double ota_assignment_bound(const ota_cost_view *view, const double *u, const double *v);

/* Some of all matchings of a view with rows <= columns (ranked_assignment.c): rows before `first` have their own columns, and
 * row `first` has none that is barred. With a limit there is one more column a row, behind the others, which it alone may have, at
 * the limit: then it is left out. */
typedef struct ota_assign_part {
    int64_t first;
    const int32_t *column_of; /* [rows] */
    const uint8_t *taken;     /* [columns (+ rows)] by the rows before `first` */
    const uint64_t *barred;   /* [columns (+ rows)] bits */
    const double *price;      /* [columns (+ rows)], whatever they are; of sign c */
} ota_assign_part;

/* A lower bound on sign times the sums of their costs. */
double ota_assignment_part_bound(const ota_cost_view *view, const ota_assign_part *part);

/* What marks prove of the view, with rows <= columns: a lower bound on sign times the cost of the dearest pair of a matching
 * that leaves out so many; -inf: nothing. */
double ota_bottleneck_bound(const ota_cost_view *view, const uint8_t *row, const uint8_t *column,
                            int64_t left_out);

/* What covered lines prove of the view, with rows <= columns: the most pairs below the limit that fit together. */
int64_t ota_cover_bound(const ota_cost_view *view, const uint8_t *row, const uint8_t *column);

#endif
