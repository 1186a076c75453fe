/* rows.h: the rows of the table in columns.c, one file each, and what some of them share. */
#ifndef OTA_COLUMN_ROWS_H
#define OTA_COLUMN_ROWS_H

#include "columns.h"

extern const ota_column_rule_row ota_columns_free, ota_columns_exact, ota_columns_relaxed,
    ota_columns_capped, ota_columns_elastic, ota_columns_prefix, ota_columns_online;

/* cap > 0 */
ota_status ota_check_cap(const ota_resolved *r, ota_error *error);
/* sum_j |c_j - T_j| */
double ota_equality_residual(const ota_column_sums *columns);

#endif
