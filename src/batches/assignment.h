/* assignment.h: one problem of a batch (otattn_assignment.h), as its search and the judge of its prices see it.
 *
 * This folder: calls that solve many small problems at once, or one of many rows and few columns, and need no plan.
 * Each has a public header of its own, include/otattn_NAME.h, which is where to begin. May call: base/, problem/,
 * columns/ and what is below, and kernels through the headers of backend/. */
#ifndef OTA_BATCH_ASSIGNMENT_H
#define OTA_BATCH_ASSIGNMENT_H

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

/* A lower (upper, where sign is -1) bound on the value of the view's optimum by prices u [rows], v [columns], whatever they
 * are. */
double ota_assignment_bound(const ota_cost_view *view, const double *u, const double *v);

/* Some of all matchings of a view with rows <= columns (ranked_assignment.c): rows before `first` have their own columns, and
 * row `first` has none that is barred. */
typedef struct ota_assign_part {
    int64_t first;
    const int32_t *column_of; /* [rows] */
    const uint8_t *taken;     /* [columns] by the rows before `first` */
    const uint64_t *barred;   /* [columns] bits */
    const double *price;      /* [columns], whatever they are; of sign c */
} ota_assign_part;

/* A lower bound on sign times the sums of their costs. */
double ota_assignment_part_bound(const ota_cost_view *view, const ota_assign_part *part);

/* What marks prove of the view, with rows <= columns: a lower bound on sign times the cost of the dearest pair; -inf: nothing. */
double ota_bottleneck_bound(const ota_cost_view *view, const uint8_t *row, const uint8_t *column);

#endif
