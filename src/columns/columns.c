/* The table of column rules (columns.h). */
#include <assert.h>

#include "rows.h"

static const ota_column_rule_row *const rows[] = {
    [OTA_COLUMNS_FREE] = &ota_columns_free,       [OTA_COLUMNS_EXACT] = &ota_columns_exact,
    [OTA_COLUMNS_RELAXED] = &ota_columns_relaxed, [OTA_COLUMNS_CAPPED] = &ota_columns_capped,
    [OTA_COLUMNS_ELASTIC] = &ota_columns_elastic, [OTA_COLUMNS_PREFIX] = &ota_columns_prefix,
    [OTA_COLUMNS_ONLINE] = &ota_columns_online};

const ota_column_rule_row *ota_column_rule_of(ota_column_rule rule) {
    assert((size_t)rule < sizeof rows / sizeof rows[0]);
    return rows[rule];
}
