/* Capped columns: c_j <= T_j = cap column_mass_j; g_j <= 0 is the price of a key that is full. [DER-02]
 *
 *     g' = min(0, t (log T - L))        complementarity: c_j = T_j wherever g_j < 0
 *
 * Interior points have the capacity left, s_j = T_j - c_j, as an unknown of their own, with s_j (-g_j) = beta. */
#include <float.h>

#include "problem/check.h"
#include "column_rules.h"

ota_status ota_check_cap(const ota_resolved *r, ota_error *error) {
    return ota_check_number(r->problem.cap, "cap", 0.0, true, DBL_MAX, false, error);
}

const char *ota_cap_wrong(const ota_problem *problem) {
    return problem->cap > 0.0 ? NULL : "use a number > 0";
}

static double scale(const ota_problem *problem) { return problem->cap; }

static ota_column_step step(const ota_column_parameters *key, double t) {
    (void)key, (void)t;
    return (ota_column_step){.decay = 1.0, .step = 1.0, .floor = 0.0, .ceiling = 0.0};
}

static double residual(const ota_column_sums *columns) {
    double sum = 0.0;
    for (int64_t j = 0; j < columns->count; j++) {
        const double c = ota_column_sum(columns, j), target = columns->target[j];
        const double g = columns->g[j];
        sum += c > target ? c - target : g < 0.0 || g > 0.0 ? target - c : 0.0;
    }
    return sum;
}

static double excess(const ota_column_sums *columns) {
    double sum = 0.0;
    for (int64_t j = 0; j < columns->count; j++) {
        const double c = ota_column_sum(columns, j), target = columns->target[j];
        if (c > target) sum += c - target;
    }
    return sum;
}

/* Nothing is asked of a key with g = 0 but to take no more than it can. */
static ota_column_kink kink(const ota_column_parameters *key, double target) {
    (void)key;
    return (ota_column_kink){.at = 0.0, .below = target, .above = -INFINITY};
}

static void begin(ota_interior_key *key, double sum, double slack) {
    const double left = key->target - sum, least = 0.1 * key->target;
    (void)slack;
    key->own = left > least ? left : least;
}

static double part(ota_interior_key *key, bool corrected, double *diagonal) {
    key->second[0] = corrected ? -key->own_step * key->step : 0.0;
    *diagonal = key->own / -key->g;
    return key->target - (key->beta - key->second[0]) / -key->g;
}

static void move(ota_interior_key *key, double *limit, double *product, double *complement) {
    key->own_step = (key->own * key->step + key->beta - key->second[0]) / -key->g - key->own;
    if (key->step * *limit > -key->g) *limit = -key->g / key->step;
    *product -= key->own_step * key->step;
    *complement -= key->own * key->g;
    if (-key->own_step * *limit > key->own) *limit = key->own / -key->own_step;
}

/* Keys whose capacity is not used up have no price. */
static double finish(const ota_interior_key *key, double range) {
    return key->own * range > -key->g * key->target ? 0.0 : key->g;
}

static const ota_interior_rule interior = {
    .products = 1, .start = -1.0, .begin = begin, .part = part, .move = move, .finish = finish};

static ota_target_slope target_slope(const ota_problem *problem, const ota_target_key *key,
                                     double b) {
    return (ota_target_slope){.by_mass = b * problem->cap, .by_parameter = {b * key->mass}};
}

const ota_column_rule_row ota_columns_capped = {
    .name = "capped",
    .parameters = {OTA_PARAMETER_CAP},
    .values_wrong = ota_cap_wrong,
    .check = ota_check_cap,
    .coupling = OTA_COUPLING_POTENTIALS,
    .traits = OTA_RULE_CAPACITY | OTA_RULE_UNIT_MASSES | OTA_RULE_CONSTRAINED,
    .ceiling = 0.0,
    .step = step,
    .residual = residual,
    .excess = excess,
    .scale = scale,
    .kink = kink,
    .interior = &interior,
    .target_slope = target_slope,
};
