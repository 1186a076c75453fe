/* The column update of every entropy rule, one formula:
 *
 *     g' = min(ceiling, (1 - keep_not) g + gain * tau (log target - L)),   L = LSE_i((S_ij + f_i) / tau)
 *
 *     exact    keep_not 1       gain 1              ceiling +inf
 *     relaxed  keep_not 1       gain rho/(rho+tau)  ceiling +inf      [DER-01, 10]
 *     capped   keep_not 1       gain 1              ceiling 0         [DER-02]
 *     elastic  keep_not lambda  gain lambda         ceiling +inf      [ELA-09]
 *
 * and of rows: exact, or relaxed with gain rho/(rho+tau). A target of 0 gives g = -inf. */
#ifndef OTA_MARGINAL_H
#define OTA_MARGINAL_H

#include <math.h>

#include "otattn.h"

typedef struct ota_marginal {
    double forget, gain, ceiling;
} ota_marginal;

static inline ota_marginal ota_column_marginal(ota_column_rule rule, double tau, double strength,
                                               double lambda) {
    ota_marginal step = {1.0, 1.0, INFINITY};
    if (rule == OTA_COLUMNS_RELAXED) {
        step.gain = strength / (strength + tau);
    } else if (rule == OTA_COLUMNS_CAPPED) {
        step.ceiling = 0.0;
    } else if (rule == OTA_COLUMNS_ELASTIC) {
        step.forget = lambda;
        step.gain = lambda;
    }
    return step;
}

/* `log_ratio` = log target - L, in nats. */
static inline double ota_marginal_update(ota_marginal step, double tau, double g,
                                         double log_ratio) {
    double next = step.gain * tau * log_ratio;
    if (step.forget < 1.0 || step.forget > 1.0) {
        next += (1.0 - step.forget) * g;
    }
    return next < step.ceiling ? next : step.ceiling;
}

#endif
