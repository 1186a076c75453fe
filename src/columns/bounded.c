/* Bounded columns: lower nu_j <= c_j <= upper nu_j. With T = upper nu and floor = lower / upper,
 *
 *     g' = min(0, t (log T - L))   or, above 0,   max(0, t (log floor T - L))
 *
 * and g_j < 0 is the price of a key that is full, g_j > 0 the reward of one that has its least sum: lower = 0 is capped,
 * lower = upper exact. [DER-02, CETA-01]
 *
 * Interior points have s = T - c and its price, e = c - floor T and its reward as unknowns of their own, both products being
 * beta and g = reward - price. */
#include <float.h>

#include "problem/check.h"
#include "column_rules.h"

static const char *values_wrong(const ota_problem *problem) {
    return problem->lower >= 0.0 && problem->upper > 0.0 && problem->lower <= problem->upper
               ? NULL
               : "0 <= LO <= HI, HI > 0";
}

static ota_status check(const ota_resolved *r, ota_error *error) {
    TRY(ota_check_number(r->problem.upper, "upper", 0.0, true, DBL_MAX, false, error));
    return ota_check_number(r->problem.lower, "lower", 0.0, false, r->problem.upper, false, error);
}

static double scale(const ota_problem *problem) { return problem->upper; }

static double floor_of(const ota_problem *problem) { return problem->lower / problem->upper; }

static ota_column_step step(const ota_column_parameters *key, double t) {
    (void)t;
    return (ota_column_step){.decay = 1.0, .step = 1.0, .floor = key->floor, .ceiling = 0.0};
}

static double floor_at(const ota_column_sums *columns, int64_t j) {
    return columns->floors != NULL ? columns->floors[j] : columns->parameters.floor;
}

/* How far the sum is outside its bounds. */
static double outside(const ota_column_sums *columns, int64_t j) {
    const double c = ota_column_sum(columns, j), target = columns->target[j];
    const double least = floor_at(columns, j) * target;
    return c > target ? c - target : c < least ? least - c : 0.0;
}

/* A key with a price must be full, also where its sum is just below its least, and one with a reward at its least. */
static double residual(const ota_column_sums *columns) {
    double sum = 0.0;
    for (int64_t j = 0; j < columns->count; j++) {
        const double c = ota_column_sum(columns, j), g = columns->g[j];
        const double target = columns->target[j], least = floor_at(columns, j) * target;
        sum += g < 0.0 ? fabs(c - target) : g > 0.0 ? fabs(c - least) : outside(columns, j);
    }
    return sum;
}

static double excess(const ota_column_sums *columns) {
    double sum = 0.0;
    for (int64_t j = 0; j < columns->count; j++) sum += outside(columns, j);
    return sum;
}

static ota_column_kink kink(const ota_column_parameters *key, double target) {
    if (!(key->floor < 1.0)) return (ota_column_kink){INFINITY, target, target};
    return (ota_column_kink){.at = 0.0, .below = target, .above = key->floor * target};
}

/* ---- interior points; a key whose bounds are one sum has no unknown of its own -------------------- */

static bool is_equality(const ota_interior_key *key) { return !(key->parameters.floor < 1.0); }

static void begin(ota_interior_key *key, double sum, double slack) {
    const double width = key->target - key->parameters.floor * key->target;
    const double left = key->target - sum;
    key->own = is_equality(key) ? 0.0 : fmin(fmax(left, 0.1 * width), 0.9 * width);
    key->rest = width - key->own;
    key->price = key->reward = slack;
}

/* What a move dc of the sum is resisted by, and what drives it. */
static double stiffness(const ota_interior_key *key, double *pull) {
    *pull =
        (key->beta - key->second[1]) / key->rest - (key->beta - key->second[0]) / key->own - key->g;
    return key->reward / key->rest + key->price / key->own;
}

static double reward_step(const ota_interior_key *key) {
    return (key->beta - key->second[1] + key->reward * key->own_step) / key->rest - key->reward;
}

static double part(ota_interior_key *key, bool corrected, double *diagonal) {
    double pull;
    if (is_equality(key)) return key->target;
    if (corrected) {
        /* The predictor had beta = 0. */
        const double more = reward_step(key) - key->beta / key->rest;
        key->second[0] = key->own_step * key->price_step;
        key->second[1] = -key->own_step * more;
    } else {
        key->second[0] = key->second[1] = 0.0;
    }
    *diagonal = 1.0 / stiffness(key, &pull);
    return key->target - key->own + pull * *diagonal;
}

/* Shortens `limit` where a step would take a positive number below 0. */
static void keep_inside(double value, double step, double *limit) {
    if (-step * *limit > value) *limit = value / -step;
}

static void move(ota_interior_key *key, double *limit, double *product, double *complement) {
    double pull;
    const double stiff = stiffness(key, &pull);
    key->own_step = -(pull - key->step) / stiff;
    key->price_step =
        (key->beta - key->second[0] - key->price * key->own_step) / key->own - key->price;
    const double more = reward_step(key);
    keep_inside(key->own, key->own_step, limit);
    keep_inside(key->rest, -key->own_step, limit);
    keep_inside(key->price, key->price_step, limit);
    keep_inside(key->reward, more, limit);
    *product += key->own_step * key->price_step - key->own_step * more;
    *complement += key->own * key->price + key->rest * key->reward;
}

/* Rounding may take a positive number further down than the step did, but not below this part of it. */
static double stepped(double value, double step) {
    static const double least_left = 1.0e-8;
    return fmax(value + step, least_left * value);
}

/* Slacks and prices each by their own steps: none is the difference of two numbers that agree. */
static void advance(ota_interior_key *key, double length) {
    if (is_equality(key)) return;
    const double more = reward_step(key);
    key->own = stepped(key->own, length * key->own_step);
    key->rest = stepped(key->rest, -length * key->own_step);
    key->price = stepped(key->price, length * key->price_step);
    key->reward = stepped(key->reward, length * more);
}

/* Keys between their bounds have neither price nor reward. */
static double finish(const ota_interior_key *key, double range) {
    if (is_equality(key)) return key->g;
    const double slack = key->g < 0.0 ? key->own : key->rest;
    return slack * range > fabs(key->g) * key->target ? 0.0 : key->g;
}

static const ota_interior_rule interior = {.products = 2,
                                           .begin = begin,
                                           .part = part,
                                           .move = move,
                                           .advance = advance,
                                           .finish = finish};

/* ---- derivatives -------------------------------------------------------------------------------- */

/* A step that aims at the least sum, floor T, moves with log floor = log lower - log upper. */
static void by_bounds(const ota_column_parameters *key, double t, double g, double ratio,
                      double share, double by[OTA_RULE_PARAMETERS]) {
    (void)g;
    if (!(ratio + log(key->floor) > 0.0)) return;
    by[0] = share * t / (key->floor * key->scale);
    by[1] = -share * t / key->scale;
}

/* The bound that binds; in rounds the multiplier is that of T = upper mass. */
static ota_target_slope target_slope(const ota_problem *problem, const ota_target_key *key,
                                     double b) {
    if (key->rounds || key->g < 0.0)
        return (ota_target_slope){.by_mass = b * problem->upper,
                                  .by_parameter = {0.0, b * key->mass}};
    return (ota_target_slope){.by_mass = b * problem->lower, .by_parameter = {b * key->mass, 0.0}};
}

const ota_column_rule_row ota_columns_bounded = {
    .name = "bounded",
    .parameters = {{"lower", offsetof(ota_problem, lower), OTA_D_LOWER, NAN, false},
                   {"upper", offsetof(ota_problem, upper), OTA_D_UPPER, NAN, false}},
    .values_wrong = values_wrong,
    .check = check,
    .coupling = OTA_COUPLING_POTENTIALS,
    .traits = OTA_RULE_CAPACITY | OTA_RULE_CONSTRAINED,
    .ceiling = INFINITY,
    .step = step,
    .residual = residual,
    .excess = excess,
    .scale = scale,
    .floor = floor_of,
    .kink = kink,
    .interior = &interior,
    .by_parameter = by_bounds,
    .target_slope = target_slope,
};
