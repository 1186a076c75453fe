/* assignment_search.h: how one problem of a batch (assignment.h) is searched, in a worker's memory. */
#ifndef OTA_ASSIGNMENT_SEARCH_H
#define OTA_ASSIGNMENT_SEARCH_H

#include <math.h>

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

ota_cost_view ota_cost_view_transposed(const ota_cost_view *view);

/* The problem with the shorter side as rows: the view, or `turned`, which is written then. */
static inline const ota_cost_view *ota_cost_view_upright(const ota_cost_view *view,
                                                         ota_cost_view *turned) {
    if (view->rows <= view->columns) return view;
    *turned = ota_cost_view_transposed(view);
    return turned;
}

typedef enum ota_assign_search {
    OTA_DENSELY,
    OTA_BY_CANDIDATES,
    OTA_BY_COSTS, /* one of the two, as ota_assign_search_by_costs says */
} ota_assign_search;

/* Has the view so many more columns than rows that nearly every row finds a column of its own at once? */
static inline bool ota_assign_is_roomy(const ota_cost_view *view) {
    enum { SHARE = 16 };
    return (view->columns - view->rows) * SHARE >= view->rows;
}

/* Of a view with 0 < rows <= columns. Costs that do not lie row by row are copied to a dense matrix, so few of them. */
static inline ota_assign_search ota_assign_search_of(const ota_cost_view *view) {
    enum { SURE_PAIRS = 9 << 17, TIED_PAIRS = 1 << 21, TIED_WIDE = 1 << 22, ROOMY_PAIRS = 1 << 24 };
    const int64_t pairs = view->rows * view->columns;
    if (pairs <= SURE_PAIRS) return OTA_DENSELY;
    const bool roomy = ota_assign_is_roomy(view);
    if (ota_match_pays(view->rows, view->columns, TIED_PAIRS, TIED_WIDE))
        return roomy || view->limit < INFINITY ? OTA_DENSELY : OTA_BY_COSTS;
    return roomy && view->column_stride == 1 && pairs <= ROOMY_PAIRS ? OTA_BY_COSTS
                                                                     : OTA_BY_CANDIDATES;
}

/* By a look at some of the costs. Nearly square matrices are searched faster than candidates where many costs are the same; roomy
 * ones nearly always, but where a share of all pairs, though not all, are the cheapest ones, which tie. */
ota_assign_search ota_assign_search_by_costs(const ota_cost_view *view);

/* Over a dense matrix; rows <= columns. OTA_OK, OTA_INFEASIBLE, OTA_NONFINITE, OTA_ENOMEM or what the watch said. */
ota_status ota_assign_densely(const ota_batch_kernels *kernels, ota_assign_worker *w,
                              const ota_cost_view *view, const ota_watch *watch,
                              ota_assign_answer *found);
/* By the search of the operator. */
ota_status ota_assign_by_candidates(const ota_batch_kernels *kernels, ota_assign_worker *w,
                                    const ota_cost_view *view, const ota_watch *watch,
                                    ota_assign_answer *found);

#endif
