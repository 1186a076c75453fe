/* assignment_search.h: how one problem of a batch (assignment.h) is searched, in a worker's memory. */
#ifndef OTA_ASSIGNMENT_SEARCH_H
#define OTA_ASSIGNMENT_SEARCH_H

#include "assignment.h"
#include "backend/batch_kernels.h"
#include "solvers/matching/combinatorial.h"
#include "solvers/matching/assignment_dense.h"

typedef struct ota_assign_worker {
    ota_arena arena;
    ota_match match;
    void *search, *copy;
    int64_t *match_of;
    double *f, *g; /* [sides] each */
    int64_t wrong; /* the first problem of its that failed, -1: none */
    ota_status status, stopped;
} ota_assign_worker;

/* Prices in f, g of the worker: u + v <= sign c, of the view's rows and columns; matches in match_of. */
typedef struct ota_assign_answer {
    const int32_t *column_of, *row_of; /* of a dense search, by the shorter side; or */
    const int64_t *match_of;           /* of the operator's, by the rows */
    const double *price;
    double scale;
    bool priced; /* in: are prices wanted of the operator's search? */
} ota_assign_answer;

/* Are costs copied for the search of the operator, which reads rows that lie in one piece? */
static inline bool ota_cost_is_copied(bool limited, int64_t column_stride) {
    return limited || column_stride != 1;
}

/* The problem with the shorter side as rows. */
ota_cost_view ota_cost_view_transposed(const ota_cost_view *view);

/* Over a dense matrix; rows <= columns. OTA_OK, OTA_INFEASIBLE, OTA_NONFINITE, OTA_ENOMEM or what the watch said. */
ota_status ota_assign_densely(const ota_batch_kernels *kernels, ota_assign_worker *w,
                              const ota_cost_view *view, const ota_watch *watch,
                              ota_assign_answer *found);
/* By the search of the operator. */
ota_status ota_assign_by_candidates(const ota_batch_kernels *kernels, ota_assign_worker *w,
                                    const ota_cost_view *view, const ota_watch *watch,
                                    ota_assign_answer *found);

#endif
