/* cost_matrix.h: one matrix of costs of a call for itself (ranked_assignment.c, bottleneck.c): checked, and copied with the shorter
 * side as rows. */
#ifndef OTA_COST_MATRIX_H
#define OTA_COST_MATRIX_H

#include "assignment.h"
#include "problem/problem.h"

typedef struct ota_cost_matrix {
    ota_cost_view view;
    bool tall; /* the rows are the columns of the problem */
    int64_t
        columns; /* the view's, and where there is a limit perhaps one more a row, which says that it is left out */
    double *cost; /* [rows][columns] sign c, or inf where that reaches the limit; owned */
    ota_settings settings;
} ota_cost_matrix;

/* Problem p of a batch that was checked. `widened`: with the columns of rows that are left out, if there is a limit, which they
 * cost their row and nobody else may have. OTA_OK; ENOMEM, NONFINITE or what the watch said, with its sentence. To be freed by
 * free(cost) in any case. */
ota_status ota_cost_matrix_take(ota_cost_matrix *matrix, const ota_assignments *batch, int64_t p,
                                bool widened, ota_error *error);

/* Writes the pairs of a matching of it by rising row of the problem, -1 behind them, NULL: not wanted; and the row of each
 * of `columns`, of which those behind the view's leave a row out, or -1. How many pairs there are. */
int64_t ota_cost_matrix_pairs(const ota_cost_matrix *matrix, int64_t columns,
                              const int32_t *column_of, int32_t *row_of, int64_t *pair_row,
                              int64_t *pair_column);

#endif
