/* The column rules with a bound on how far weights move, and their bounds. */
#include "weight_rules.h"

#include "analysis/analysis.h"

static const weight_rule weight_rules[] = {
    {OTA_COLUMNS_FREE, true, 1.0, 2.0},
    {OTA_COLUMNS_EXACT, false, 1.0, 1.0},
    {OTA_COLUMNS_RELAXED, false, 1.0, 2.0},
};

double ota_weights_printed(const weight_rule *rule, int64_t queries, double own, double worst) {
    return rule->alone ? rule->printed * own : rule->printed * (double)queries * worst;
}

double ota_weights_sharp(const weight_rule *rule, int64_t queries, double own, double worst) {
    const double bound = rule->alone ? rule->sharp * tanh(0.25 * own)
                                     : rule->sharp * (double)queries * tanh(0.25 * worst);
    return fmin(2.0, bound);
}

ota_status ota_weight_rule_of(const layer_shape *s, const weight_rule **rule,
                              const analysis_call *call) {
    const ota_problem *problem = &s->problem;
    const char *reason = NULL;
    *rule = NULL;
    for (size_t k = 0; k < sizeof weight_rules / sizeof *weight_rules; k++) {
        if (weight_rules[k].columns == problem->columns) *rule = &weight_rules[k];
    }
    if (*rule == NULL) reason = "this column rule";
    if (problem->regulariser != OTA_SOFTMAX) reason = "regularisers other than entropy";
    if (problem->rows != OTA_ROWS_HARD) reason = "relaxed rows";
    if (problem->row_mass.type != OTA_NO_TYPE) reason = "rows of other mass than 1";
    if (problem->axis != OTA_AXIS_ROWS) reason = "the transposed problem";
    if (problem->end != OTA_SIDE_ROWS) reason = "plans that end on columns";
    if (problem->columns != OTA_COLUMNS_FREE && s->layer.options != NULL &&
        s->layer.options->rounds != 0)
        reason = "a fixed number of rounds";
    for (int64_t k = 0; k < problem->term_count; k++) {
        if (problem->terms[k].kind == OTA_TERM_SINK) reason = "a sink";
        if (problem->terms[k].kind == OTA_TERM_SOFTCAP) reason = "capped scores";
    }
    if (reason == NULL) return OTA_OK;
    return ota_analysis_fail(call, OTA_UNSUPPORTED, "method",
                             "use softmax with free, exact or relaxed columns",
                             "no bound on the change is proven for %s", reason);
}

double ota_layer_head_rate(const layer_shape *s, int64_t head) {
    const ota_problem *problem = &s->problem;
    const ota_array *temperatures = &problem->temperatures;
    const double scale =
        problem->scale == 0.0 ? 1.0 / sqrt((double)s->layer.head_width) : fabs(problem->scale);
    double tau = problem->temperature == 0.0 ? 1.0 : problem->temperature;
    if (temperatures->type == OTA_F64)
        tau = ((const double *)temperatures->data)[head * temperatures->stride[3]];
    if (temperatures->type == OTA_F32)
        tau = (double)((const float *)temperatures->data)[head * temperatures->stride[3]];
    return scale / tau;
}
