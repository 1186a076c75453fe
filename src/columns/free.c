/* Free columns: nothing is asked of the sums, g = 0: softmax, entmax, argmax. */
#include "column_rules.h"

const ota_column_rule_row ota_columns_free = {
    .name = "free", .coupling = OTA_COUPLING_NONE, .ceiling = 0.0};
