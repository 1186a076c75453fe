/* Capped columns: c_j <= T_j = cap column_mass_j; g_j <= 0 is the price of a key that is full. [DER-02]
 *
 *     g' = min(0, t (log T - L))        complementarity: c_j = T_j wherever g_j < 0
 *
 * Interior points have the capacity left, s_j = T_j - c_j, as an unknown of their own, with s_j (-g_j) = beta. */
#include <float.h>

#include "problem/check.h"
#include "rows.h"

ota_status ota_check_cap(const ota_resolved *r, ota_error *error) {
    return ota_check_number(r->problem.cap, "cap", 0.0, true, DBL_MAX, false, error);
}

static ota_column_step step(const ota_column_parameters *key, double t) {
    (void)key, (void)t;
    return (ota_column_step){.forget = 1.0, .gain = 1.0, .floor = 0.0, .ceiling = 0.0};
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

static bool held(const ota_column_parameters *key, double sum, double target, double g) {
    (void)key;
    return !(g < 0.0) && sum - target < 0.0;
}

static double interior_part(const ota_interior_key *key, double *diagonal) {
    *diagonal = key->own / -key->g;
    return key->target - (key->beta - key->second) / -key->g;
}

static double interior_move(const ota_interior_key *key) {
    return (key->own * key->step + key->beta - key->second) / -key->g - key->own;
}

const ota_column_rule_row ota_columns_capped = {
    .name = "capped",
    .check = ota_check_cap,
    .coupling = OTA_COUPLING_POTENTIALS,
    .capacity = true,
    .constrained = true,
    .ceiling = 0.0,
    .step = step,
    .residual = residual,
    .excess = excess,
    .held = held,
    .interior_part = interior_part,
    .interior_move = interior_move,
};
