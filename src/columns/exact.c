/* Exact columns: c_j = nu_j, the totals of both sides being equal; each update meets every key, v' = nu / c. [CETA-01] */
#include "column_rules.h"

static ota_column_step step(const ota_column_parameters *key, double t) {
    (void)key, (void)t;
    return (ota_column_step){.decay = 1.0, .step = 1.0, .floor = 1.0, .ceiling = INFINITY};
}

double ota_equality_residual(const ota_column_sums *columns) {
    double residual = 0.0;
    for (int64_t j = 0; j < columns->count; j++)
        residual += fabs(ota_column_sum(columns, j) - columns->target[j]);
    return residual;
}

const ota_column_rule_row ota_columns_exact = {
    .name = "exact",
    .coupling = OTA_COUPLING_POTENTIALS,
    .traits = OTA_RULE_EQUALITY | OTA_RULE_BALANCED | OTA_RULE_CONSTRAINED | OTA_RULE_SERVES_ALL,
    .ceiling = INFINITY,
    .step = step,
    .residual = ota_equality_residual,
};
