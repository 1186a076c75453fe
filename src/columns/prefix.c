/* Prefix columns: row i is the last row of the exact plan of queries 0 ... i on keys 0 ... m - n + i. [DER-04] */
#include "rows.h"

const ota_column_rule_row ota_columns_prefix = {
    .name = "prefix", .coupling = OTA_COUPLING_LEADING, .serves_all = true, .ceiling = INFINITY};
