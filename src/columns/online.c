/* Online columns: rows in order, each capped by what earlier rows left of cap column_mass. [DER-23] */
#include "rows.h"

const ota_column_rule_row ota_columns_online = {.name = "online",
                                                .check = ota_check_cap,
                                                .coupling = OTA_COUPLING_ORDERED,
                                                .capacity = true,
                                                .ceiling = 0.0};
