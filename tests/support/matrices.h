/* matrices.h: costs of ota_assignments, ota_ranked_assignments and ota_bottleneck, whose structs say alike where they lie. */
#ifndef TESTS_MATRICES_H
#define TESTS_MATRICES_H

#include "otattn_assignment.h"

/* The members of an initialiser that say so: dense f64 matrices one behind the other, all of these sizes. */
#define MATRICES_OF(struct_type, its_costs, its_rows, its_columns)                                 \
    .size = sizeof(struct_type), .rows = (its_rows), .columns = (its_columns),                     \
    .costs = (its_costs), .type = OTA_F64, .problem_stride = (its_rows) * (its_columns),           \
    .row_stride = (its_columns), .column_stride = 1

#endif
