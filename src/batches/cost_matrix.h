/* cost_matrix.h: one matrix of costs of a call for itself (ranked_assignment.c, bottleneck.c): checked, and copied with the shorter
 * side as rows. */
#ifndef OTA_COST_MATRIX_H
#define OTA_COST_MATRIX_H

#include "assignment.h"
#include "problem/problem.h"

typedef struct ota_cost_matrix {
    ota_cost_view view;
    bool tall;    /* the rows are the columns of the problem */
    double *cost; /* [rows][columns] sign c, owned */
    ota_settings settings;
} ota_cost_matrix;

/* Of `given` sizes, costs, type, strides, maximize, cancel and deadline are read. OTA_OK; EINVAL, EALIGN, EOVERFLOW, ENOMEM,
 * NONFINITE or what the watch said, with its sentence. To be freed by free(cost) in any case. */
ota_status ota_cost_matrix_take(ota_cost_matrix *matrix, const ota_assignments *given,
                                ota_error *error);

/* Writes the pairs of a matching of it by rising row of the problem, NULL: not wanted; and the row of each column, or -1. */
void ota_cost_matrix_pairs(const ota_cost_matrix *matrix, const int32_t *column_of, int32_t *row_of,
                           int64_t *pair_row, int64_t *pair_column);

#endif
