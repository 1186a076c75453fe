/* column_rules.h: the rows of the table in columns.c, one file each, and what some of them share. */
#ifndef OTA_COLUMN_ROWS_H
#define OTA_COLUMN_ROWS_H

#include <math.h>

#include "columns.h"

extern const ota_column_rule_row ota_columns_free, ota_columns_exact, ota_columns_relaxed,
    ota_columns_capped, ota_columns_elastic, ota_columns_prefix, ota_columns_online,
    ota_columns_bounded;

/* The parameter `cap`, which is > 0. */
#define OTA_PARAMETER_CAP                                                                          \
    { "cap", offsetof(ota_problem, cap), OTA_D_CAP, NAN, false }
const char *ota_cap_wrong(const ota_problem *problem);
ota_status ota_check_cap(const ota_resolved *r, ota_error *error);
/* sum_j |c_j - T_j| */
double ota_equality_residual(const ota_column_sums *columns);

#endif
