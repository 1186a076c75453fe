/* How far a row of weights moves when its scores do: r_i bounds |score change| / (T tau) of row i, osc_i is its range
 * (at most 2 r_i), and with n rows of mass 1
 *
 *     free      ||P_i - P'_i||_1 <= 2 tanh(osc_i / 4)                                        [DER-18]
 *     relaxed   ||P - P'||_1 <= 2 n tanh(max osc / 4), which bounds every row                [DER-18]
 *     exact     the same for the whole, and a row has at most half of it: column sums of P - P' vanish
 *                                                                                        [DER-17, 19] */
#ifndef OTATTN_ANALYSIS_WEIGHT_RULES_H
#define OTATTN_ANALYSIS_WEIGHT_RULES_H

#include "block.h"

typedef struct weight_rule {
    ota_column_rule columns;
    bool alone;            /* a row answers for itself; else the worst row answers for all */
    double printed, sharp; /* factors, times the number of queries where rows are not alone */
} weight_rule;

/* The rule of this method, or why there is none. */
ota_status ota_weight_rule_of(const layer_shape *s, const weight_rule **rule,
                              const analysis_call *call);
/* Bounds of ||P_i - P'_i||_1 from r_i and the largest r. */
double ota_weights_printed(const weight_rule *rule, int64_t queries, double own, double worst);
/* The same from ranges, the largest less the smallest. */
double ota_weights_sharp(const weight_rule *rule, int64_t queries, double own, double worst);
/* |scale| / tau of a head: what a dot product is multiplied with. */
double ota_layer_head_rate(const layer_shape *s, int64_t head);

#endif
