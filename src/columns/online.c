/* Online columns: rows in order, each capped by what earlier rows left of cap column_mass. [DER-23] */
#include "column_rules.h"

const ota_column_rule_row ota_columns_online = {.name = "online",
                                                .parameters = {OTA_PARAMETER_CAP},
                                                .values_wrong = ota_cap_wrong,
                                                .check = ota_check_cap,
                                                .coupling = OTA_COUPLING_ORDERED,
                                                .traits = OTA_RULE_CAPACITY | OTA_RULE_UNIT_MASSES,
                                                .ceiling = 0.0};
