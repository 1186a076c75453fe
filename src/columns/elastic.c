/* Elastic columns: a number of damped updates towards exact sums from v = 1, v' = v^(1 - lambda) (nu / c)^lambda, lambda one number
 * or one a key. A point on the way to exact columns, not an optimum. [ELA-09, DER-26] */
#include "rows.h"

static ota_column_step step(const ota_column_parameters *key, double t) {
    (void)t;
    return (ota_column_step){
        .forget = key->lambda, .gain = key->lambda, .floor = 1.0, .ceiling = INFINITY};
}

static double by_lambda(const ota_column_parameters *key, double t, double g, double ratio,
                        double share) {
    (void)key;
    return share * (t * ratio - g);
}

const ota_column_rule_row ota_columns_elastic = {
    .name = "elastic",
    .coupling = OTA_COUPLING_POTENTIALS,
    .equality = true,
    .damped = true,
    .counted = true,
    .ceiling = INFINITY,
    .step = step,
    .residual = ota_equality_residual,
    .by_parameter = by_lambda,
};
