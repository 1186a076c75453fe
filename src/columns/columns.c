/* The table of column rules (columns.h). */
#include <assert.h>

#include "column_rules.h"

static const ota_column_rule_row *const table[] = {
    [OTA_COLUMNS_FREE] = &ota_columns_free,       [OTA_COLUMNS_EXACT] = &ota_columns_exact,
    [OTA_COLUMNS_RELAXED] = &ota_columns_relaxed, [OTA_COLUMNS_CAPPED] = &ota_columns_capped,
    [OTA_COLUMNS_ELASTIC] = &ota_columns_elastic, [OTA_COLUMNS_PREFIX] = &ota_columns_prefix,
    [OTA_COLUMNS_ONLINE] = &ota_columns_online,   [OTA_COLUMNS_BOUNDED] = &ota_columns_bounded};

const ota_column_rule_row *ota_column_rule_of(ota_column_rule rule) {
    assert((size_t)rule < sizeof table / sizeof table[0]);
    return table[rule];
}

const ota_rule_parameter *ota_rule_parameters(ota_column_rule rule) {
    return ota_column_rule_of(rule)->parameters;
}

const char *ota_rule_values_wrong(const ota_problem *problem) {
    const ota_column_rule_row *rule = ota_column_rule_of(problem->columns);
    return rule->values_wrong != NULL ? rule->values_wrong(problem) : NULL;
}

double ota_column_target(const ota_problem *problem, double mass) {
    const ota_column_rule_row *rule = ota_column_rule_of(problem->columns);
    return rule->scale != NULL ? rule->scale(problem) * mass : mass;
}

ota_column_parameters ota_column_parameters_of(const ota_problem *problem) {
    const ota_column_rule_row *rule = ota_column_rule_of(problem->columns);
    return (ota_column_parameters){.strength = problem->strength,
                                   .lambda = problem->lambda,
                                   .floor = rule->floor != NULL ? rule->floor(problem) : 0.0,
                                   .scale = ota_column_target(problem, 1.0)};
}

double ota_column_balance(const ota_column_parameters *key, double total, double mass,
                          double tolerance) {
    const double least = key->floor * total;
    if (total < mass && mass - total <= tolerance * mass) return mass / total;
    if (least > mass && least - mass <= tolerance * mass) return mass / least;
    return 1.0;
}

void ota_column_begin(const ota_column_rule_row *rule, int64_t count, double *g) {
    double low = INFINITY, high = -INFINITY;
    if (rule->kink == NULL) return;
    for (int64_t j = 0; j < count; j++) {
        if (!isfinite(g[j])) continue;
        low = fmin(low, g[j]);
        high = fmax(high, g[j]);
    }
    const double move = low > 0.0 ? low : high < 0.0 ? high : 0.0;
    for (int64_t j = 0; j < count && isfinite(move); j++) g[j] -= move;
}

ota_target_slope ota_column_target_slope(const ota_problem *problem, const ota_target_key *key,
                                         double b) {
    const ota_column_rule_row *rule = ota_column_rule_of(problem->columns);
    if (rule->target_slope == NULL) return (ota_target_slope){.by_mass = b};
    return rule->target_slope(problem, key, b);
}
