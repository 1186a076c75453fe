/* Relaxed columns: a penalty rho KL(c | nu) on the sums, so that at the optimum
 *
 *     c_j = nu_j exp(-g_j / rho),    g' = rho / (rho + t) t (log nu - L)                              [DER-01, 10]
 *
 * Interior points have c_j as an unknown of their own, with g_j = -rho log(c_j / nu_j). */
#include <float.h>

#include "problem/check.h"
#include "column_rules.h"

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
    return (ota_column_step){.decay = 1.0,
                             .step = key->strength / (key->strength + t),
                             .floor = 1.0,
                             .ceiling = INFINITY};
}

static const char *values_wrong(const ota_problem *problem) {
    return problem->strength > 0.0 ? NULL : "use a number > 0";
}

static double wanted(double target, double g, double strength) {
    return target * exp(-g / strength);
}

static double residual(const ota_column_sums *columns) {
    double sum = 0.0;
    for (int64_t j = 0; j < columns->count; j++) {
        const double c = ota_column_sum(columns, j), target = columns->target[j];
        sum += target > 0.0 ? fabs(c - wanted(target, columns->g[j], columns->parameters.strength))
                            : c;
    }
    return sum;
}

static double diagonal(double target, double g, double strength, double t) {
    return t * target * exp(-g / strength) / strength;
}

static double part(ota_interior_key *key, bool corrected, double *diagonal) {
    const double own = key->own, strength = key->parameters.strength;
    (void)corrected;
    *diagonal = own / strength;
    return own > 0.0 ? own - own * (key->g / strength + log(own / key->target)) : 0.0;
}

static void move(ota_interior_key *key, double *limit, double *product, double *complement) {
    (void)product, (void)complement;
    key->own_step =
        -key->own * ((key->g + key->step) / key->parameters.strength + log(key->own / key->target));
    if (-key->own_step * *limit > key->own) *limit = key->own / -key->own_step;
}

static const ota_interior_rule interior = {.part = part, .move = move};

static double gain_by_t(const ota_column_parameters *key, double t, double ratio) {
    const double slack = key->strength + t, step = key->strength / slack;
    return step / slack * t * ratio;
}

static void by_strength(const ota_column_parameters *key, double t, double g, double ratio,
                        double share, double by[OTA_RULE_PARAMETERS]) {
    (void)g;
    const double slack = key->strength + t;
    by[0] = share * t / (slack * slack) * t * ratio;
}

/* Rounds know the exponentials themselves. */
static ota_target_slope target_slope(const ota_problem *problem, const ota_target_key *key,
                                     double b) {
    const double rho = problem->strength, g = key->g;
    if (key->rounds) return (ota_target_slope){.by_mass = b};
    return (ota_target_slope){
        .by_mass = g > -INFINITY ? b * exp(-g / rho) : b,
        .by_parameter = {key->sum > 0.0 ? b * key->sum * g / (rho * rho) : 0.0}};
}

const ota_column_rule_row ota_columns_relaxed = {
    .name = "relaxed",
    .parameters = {{"strength", offsetof(ota_problem, strength), OTA_D_STRENGTH, NAN, false}},
    .values_wrong = values_wrong,
    .check = check,
    .coupling = OTA_COUPLING_POTENTIALS,
    .traits = OTA_RULE_PENALISED,
    .ceiling = INFINITY,
    .step = step,
    .residual = residual,
    .wanted = wanted,
    .diagonal = diagonal,
    .interior = &interior,
    .gain_by_t = gain_by_t,
    .by_parameter = by_strength,
    .target_slope = target_slope,
};
