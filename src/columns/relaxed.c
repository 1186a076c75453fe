/* Relaxed columns: a penalty rho KL(c | nu) on the sums, so that at the optimum
 *
 *     c_j = nu_j exp(-g_j / rho),    g' = rho / (rho + t) t (log nu - L)                              [DER-01, 10]
 *
 * Interior points have c_j as an unknown of their own, with g_j = -rho log(c_j / nu_j). */
#include <float.h>

#include "problem/check.h"
#include "rows.h"

static ota_status check(const ota_resolved *r, ota_error *error) {
    const ota_problem *p = &r->problem;
    TRY(ota_check_number(p->strength, "strength", 0.0, true, DBL_MAX, false, error));
    if (p->regulariser == OTA_HARD) {
        return ota_refuse_cell(
            "hard/relaxed",
            "without smoothing a KL penalty on the columns leaves the plan neither "
            "unique nor a matching",
            "use hard/capped or softmax/relaxed with a small temperature", error);
    }
    return OTA_OK;
}

static ota_column_step step(const ota_column_parameters *key, double t) {
    return (ota_column_step){.forget = 1.0,
                             .gain = key->strength / (key->strength + t),
                             .floor = 1.0,
                             .ceiling = INFINITY};
}

static double wanted(double target, double g, double strength) {
    return target * exp(-g / strength);
}

static double residual(const ota_column_sums *columns) {
    double sum = 0.0;
    for (int64_t j = 0; j < columns->count; j++) {
        const double c = ota_column_sum(columns, j), target = columns->target[j];
        sum += target > 0.0 ? fabs(c - wanted(target, columns->g[j], columns->strength)) : c;
    }
    return sum;
}

static double diagonal(double target, double g, double strength, double t) {
    return t * target * exp(-g / strength) / strength;
}

static double interior_part(const ota_interior_key *key, double *diagonal) {
    const double own = key->own;
    *diagonal = own / key->strength;
    return own > 0.0 ? own - own * (key->g / key->strength + log(own / key->target)) : 0.0;
}

static double interior_move(const ota_interior_key *key) {
    return -key->own * ((key->g + key->step) / key->strength + log(key->own / key->target));
}

static double gain_by_t(const ota_column_parameters *key, double t, double ratio) {
    const double slack = key->strength + t, gain = key->strength / slack;
    return gain / slack * t * ratio;
}

static double by_strength(const ota_column_parameters *key, double t, double g, double ratio,
                          double share) {
    (void)g;
    const double slack = key->strength + t;
    return share * t / (slack * slack) * t * ratio;
}

const ota_column_rule_row ota_columns_relaxed = {
    .name = "relaxed",
    .check = check,
    .coupling = OTA_COUPLING_POTENTIALS,
    .penalised = true,
    .ceiling = INFINITY,
    .step = step,
    .residual = residual,
    .wanted = wanted,
    .diagonal = diagonal,
    .interior_part = interior_part,
    .interior_move = interior_move,
    .gain_by_t = gain_by_t,
    .by_parameter = by_strength,
};
