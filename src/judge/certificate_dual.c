/* The two sides of weak duality for one head of the certificate (formulas in certificate.c):
 * weights of a row, their regulariser and divergence on the primal side; on the dual side the best
 * row potential for the column potentials, what it and the columns contribute, and column
 * potentials recovered from a coupling alone. */
#include <float.h>

#include "certificate_head.h"

enum { AVERAGING_SWEEPS = 48 };
/* Where rows are cut to the keys that have weight: so far above the potential that is judged, of how far it may be. */
static const double NEAR = 0x1p-20;
/* How fast the steps grow by which a bracket is drawn in on that potential. */
static const double CLOSING = 16.0;

static bool is_entropy(const ota_judge_head *k) {
    return k->method.order >= 1.0 && k->method.order <= 1.0;
}

/* (1 + z)^(1 / (alpha - 1)), z > -1. */
static double inverse_power(const ota_judge_head *k, double z) {
    switch (k->method.power) {
    case OTA_JUDGE_SQUARE_ROOT: return (1.0 + z) * (1.0 + z);
    case OTA_JUDGE_IDENTITY: return 1.0 + z;
    case OTA_JUDGE_SQUARE: return sqrt(1.0 + z);
    default: return exp(log1p(z) / (k->method.order - 1.0));
    }
}

/* p^(alpha - 1), p > 0. */
static double power(const ota_judge_head *k, double p) {
    switch (k->method.power) {
    case OTA_JUDGE_SQUARE_ROOT: return sqrt(p);
    case OTA_JUDGE_IDENTITY: return p;
    case OTA_JUDGE_SQUARE: return p * p;
    default: return pow(p, k->method.order - 1.0);
    }
}

static double power_less_one(const ota_judge_head *k, double p) {
    return k->method.power == OTA_JUDGE_ANY_POWER ? expm1((k->method.order - 1.0) * log(p))
                                                  : power(k, p) - 1.0;
}

/* Of Tsallis weights x is S + f + g less tau / (alpha - 1), a number that grows beyond all others next to order 1 and is the
 * same for all of them. Below order 1 the weight has no bound as x rises to -tau / (alpha - 1). */
static double weight(const ota_judge_head *k, double x) {
    if (!(x > -INFINITY)) return 0.0;
    if (k->method.custom != NULL)
        return k->method.custom->weight(k->method.custom->user, fmax(x / k->method.tau, -1e308));
    if (is_entropy(k)) return exp(x / k->method.tau);
    const double b = k->method.order - 1.0, z = b * x / k->method.tau;
    return z > -1.0 ? inverse_power(k, z) : b < 0.0 ? INFINITY : 0.0;
}

/* Surely below the level of weight 0, whatever is rounded, where most keys of a sparse row lie: x there has no weight. Where masses are
 * small all weights lie near that level. */
static double silent_level(const ota_judge_head *k) {
    const double b = k->method.order - 1.0;
    return k->method.custom == NULL && b > 0.0 ? -(1.0 + 8.0 * DBL_EPSILON) * (k->method.tau / b)
                                               : -INFINITY;
}

double ota_judge_cap(const ota_judge_head *k, int64_t j) {
    const ota_problem *p = &k->r->problem;
    if (!k->method.capped || j == k->m) return INFINITY;
    if (!ota_array_present(&p->entry_caps)) return p->entry_cap;
    return ota_array_get(&p->entry_caps, k->batch, k->head, k->at.row, j);
}

/* x with w(x) = p, p > 0. */
static double level_of(const ota_judge_head *k, double p) {
    const double b = k->method.order - 1.0;
    return k->method.tau * (is_entropy(k) ? log(p) : power_less_one(k, p) / b);
}

/* Omega(p) - Omega(0), NaN where the caller gave no value. */
static double custom_value(const ota_judge_head *k, double p) {
    const ota_custom *custom = k->method.custom;
    if (custom->value == NULL) return NAN;
    return custom->value(custom->user, p) - custom->value(custom->user, 0.0);
}

/* What pairs of weight p = w(x) take from the dual: tau Omega*(x / tau). With a cap p = min(c, w(x)), and what they take
 * is max over 0 <= p <= c of p x - tau Omega(p). */
static double dual_cost(const ota_judge_head *k, double x, double p) {
    if (!(p > 0.0)) return 0.0;
    if (k->method.capped && !(k->method.order > 0.0)) return p * fmax(0.0, x);
    if (k->method.capped && is_entropy(k)) return p * x - k->method.tau * p * (log(p) - 1.0);
    const double b = k->method.order - 1.0;
    if (k->method.capped)
        return p * x + k->method.tau * p / k->method.order * (1.0 - power_less_one(k, p) / b);
    if (k->method.custom != NULL) return p * x - k->method.tau * custom_value(k, p);
    return is_entropy(k) ? k->method.tau * p : k->method.tau / k->method.order * p * power(k, p);
}

double ota_judge_regulariser(const ota_judge_head *k, double p, double log_p) {
    if (!(p > 0.0) || !(k->method.order > 0.0)) return 0.0;
    if (k->method.custom != NULL) return k->method.tau * custom_value(k, p);
    if (is_entropy(k)) return k->method.tau * p * (log_p - 1.0);
    const double b = k->method.order - 1.0;
    return k->method.tau * p * power_less_one(k, p) / (k->method.order * b);
}

/* What the potential less tau / (alpha - 1) lacks for the dual, where the constant of the regulariser goes off:
 * tau / (alpha - 1) - tau / (alpha (alpha - 1)). */
static double shift_of(const ota_judge_head *k) {
    return k->method.order > 0.0 && !is_entropy(k) && k->method.custom == NULL
               ? k->method.tau / k->method.order
               : 0.0;
}

/* a - b + b log(b / a)-like: c log(c / nu) - c + nu with its limits. */
double ota_judge_divergence(double c, double nu) {
    if (!(c > 0.0)) return nu;
    if (!(nu > 0.0)) return INFINITY;
    return c * log(c / nu) - c + nu;
}

/* ---- rows --------------------------------------------------------------------------------- */

ota_judge_row_kind ota_judge_load_scores(ota_judge_head *k, int64_t i) {
    ota_judge_line(k->r, k->batch, k->head, k->swapped, i, k->fixed, k->at.s);
    k->at.row = i;
    bool any = k->method.sink > -INFINITY;
    for (int64_t j = 0; j < k->m; j++) {
        if (isnan(k->at.s[j]) || k->at.s[j] > DBL_MAX) return OTA_JUDGE_NONFINITE;
        any = any || k->at.s[j] > -INFINITY;
    }
    return any ? OTA_JUDGE_NORMAL : OTA_JUDGE_EMPTY;
}

static double coupling_at(const ota_judge_head *k, int64_t i, int64_t j) {
    return k->swapped ? ota_array_get(&k->a->coupling, k->batch, k->head, j, i)
                      : ota_array_get(&k->a->coupling, k->batch, k->head, i, j);
}

static double given_sink(const ota_judge_head *k, int64_t i, double mu, double sum) {
    if (!(k->method.sink > -INFINITY)) return 0.0;
    if (k->given.coupling && !k->swapped && ota_array_present(&k->a->sink)) {
        return ota_array_get(&k->a->sink, k->batch, k->head, 0, i);
    }
    if (k->given.f && k->method.order > 0.0) return weight(k, k->method.sink + k->f[i]);
    /* Nothing says what the sink took: the benefit of the doubt. */
    return fmax(0.0, mu - sum);
}

/* By the potentials, of a row that has one. */
static double weight_by_potentials(ota_judge_head *k, int64_t i, int64_t j) {
    if (!(k->at.s[j] > -INFINITY) || (isinf(k->g[j]) && k->g[j] < 0.0)) return 0.0;
    double p = isnan(k->f[i]) || isnan(k->g[j]) ? NAN : weight(k, k->at.s[j] + k->f[i] + k->g[j]);
    if (k->method.capped && p > ota_judge_cap(k, j)) p = ota_judge_cap(k, j);
    if (k->method.rule == OTA_COLUMNS_ONLINE) {
        p = fmin(p, k->left[j]);
        k->left[j] -= p;
    }
    return p;
}

/* Weights of the row at hand into k->at.p; returns their sum with the sink's, which goes to *rest. */
double ota_judge_load_weights(ota_judge_head *k, int64_t i, double mu, double *rest) {
    ota_judge_sum sum = {0.0, 0.0};
    const bool silent = !k->given.coupling && !(k->f[i] > -INFINITY) && !isnan(k->f[i]);
    if (k->given.coupling)
        ota_judge_read_line(&k->a->coupling, k->batch, k->head, k->swapped, i, k->m, k->at.p);
    for (int64_t j = 0; j < k->m; j++) {
        if (!k->given.coupling) k->at.p[j] = silent ? 0.0 : weight_by_potentials(k, i, j);
        ota_judge_add(&sum, k->at.p[j]);
    }
    const double total = ota_judge_total(sum);
    *rest = silent ? 0.0 : given_sink(k, i, mu, total);
    ota_judge_add(&sum, *rest);
    return ota_judge_total(sum);
}

double ota_judge_mass_of(const ota_judge_head *k, int64_t i) {
    return ota_judge_row_mass(k->r, k->batch, k->head, i);
}

/* What a row gives beyond mu at f. */
static double excess_at(const ota_judge_head *k, int64_t count, double f, double mu) {
    const double silent = silent_level(k);
    ota_judge_sum sum = {-mu, 0.0};
    for (int64_t c = 0; c < count; c++) {
        if (!(k->gather[c] + f < silent)) ota_judge_add(&sum, weight(k, k->gather[c] + f));
    }
    return ota_judge_total(sum);
}

/* Leaves the keys with weight at the highest f, and returns how many: weights rise with f, so that the others have none at the best
 * one. */
static int64_t keep_weights(ota_judge_head *k, int64_t count, double high) {
    const double silent = silent_level(k);
    int64_t left = 0;
    for (int64_t c = 0; c < count; c++) {
        if (k->gather[c] + high < silent) continue;
        k->gather[left] = k->gather[c];
        left += weight(k, k->gather[c] + high) > 0.0;
    }
    return left;
}

/* Of rows with caps: what the row gives at f, which rises with f; hard keys give all of their cap above level 0. */
static double capped_sum(const ota_judge_head *k, double f) {
    ota_judge_sum sum = {0.0, 0.0};
    for (int64_t j = 0; j <= k->m; j++) {
        const double a = j < k->m ? k->at.s[j] + k->g[j] : k->method.sink,
                     cap = ota_judge_cap(k, j);
        if (!(a > -INFINITY)) continue;
        ota_judge_add(&sum, k->method.order > 0.0 ? fmin(cap, weight(k, a + f))
                            : a + f >= 0.0        ? cap
                                                  : 0.0);
    }
    return ota_judge_total(sum);
}

/* Draws the bracket of the least f at which the row gives mu in on the potential that is judged, which has no other part in it: by
 * steps that grow from its rounding. */
static void close_in(ota_judge_head *k, double mu, double *low, double *high) {
    double f = k->given.f ? k->f[k->at.row] : *high;
    double step = 64.0 * DBL_EPSILON * fmax(fabs(f), *high - *low);
    bool below = false, above = false;
    while (f > *low && f < *high && step > 0.0 && !(below && above)) {
        if (ota_watch_ends(&k->watch, k->m)) return;
        const bool lacks = capped_sum(k, f) < mu;
        below = below || lacks;
        above = above || !lacks;
        *(lacks ? low : high) = f;
        f += lacks ? step : -step;
        step *= CLOSING;
    }
}

/* The least f at which the row gives mu, by halving. Where its caps give just mu or, by rounding, less, any larger one
 * serves: the first that gives them all. */
static double capped_potential(ota_judge_head *k, double mu) {
    double low = INFINITY, high = -INFINITY;
    for (int64_t j = 0; j <= k->m; j++) {
        const double a = j < k->m ? k->at.s[j] + k->g[j] : k->method.sink;
        if (!(a > -INFINITY)) continue;
        const double most =
            k->method.order > 0.0 ? level_of(k, fmin(mu, ota_judge_cap(k, j))) : 0.0;
        const double least = k->method.order > 0.0 ? level_of(k, mu / (double)(k->m + 2)) : 0.0;
        low = fmin(low, least - a);
        high = fmax(high, most - a);
    }
    if (!(high > -INFINITY) || !(mu > 0.0)) return -INFINITY;
    low = fmin(low, high) - 1.0e-9 * (1.0 + fabs(low));
    close_in(k, mu, &low, &high);
    while (low < high && !ota_watch_ends(&k->watch, k->m)) {
        const double f = 0.5 * low + 0.5 * high;
        if (!(f > low && f < high)) break;
        if (capped_sum(k, f) < mu)
            low = f;
        else
            high = f;
    }
    return high;
}

/* The best f of the row at hand for the potentials g: a row update. Tsallis levels are found by
 * Newton's method inside a bracket, which is halved where a step has not halved the miss; it begins at the potential that
 * is judged, which has no other part in it. */
static double best_row_potential(ota_judge_head *k, double mu) {
    if (k->method.capped) return capped_potential(k, mu);
    int64_t count = 0;
    double top = -INFINITY;
    for (int64_t j = 0; j <= k->m; j++) {
        const double a = j < k->m ? k->at.s[j] + k->g[j] : k->method.sink;
        if (!(a > -INFINITY)) continue;
        k->gather[count++] = a;
        top = a > top ? a : top;
    }
    if (count == 0 || !(mu > 0.0)) return -INFINITY;
    if (!(k->method.order > 0.0)) return -top;
    if (is_entropy(k)) {
        ota_judge_sum sum = {0.0, 0.0};
        for (int64_t c = 0; c < count; c++)
            ota_judge_add(&sum, exp((k->gather[c] - top) / k->method.tau));
        const double f = k->method.tau * (log(mu) - log(ota_judge_total(sum))) - top;
        return isfinite(k->method.row_strength)
                   ? f * (k->method.row_strength / (k->method.row_strength + k->method.tau))
                   : f;
    }
    const double bottom = k->method.custom == NULL ? level_of(k, mu / (double)count) : 0.0;
    double low = bottom - top, high = k->method.custom == NULL ? level_of(k, mu) - top : -top;
    /* Nothing is known of a caller's weights but that they rise. */
    for (double step = k->method.tau; k->method.custom != NULL && step < DBL_MAX / 4.0;
         step *= 2.0) {
        const double below = excess_at(k, count, low, mu), above = excess_at(k, count, high, mu);
        if (!(below > 0.0) && !(above < 0.0)) break;
        if (below > 0.0) low -= step;
        if (above < 0.0) high += step;
    }
    const double own = k->given.f ? k->f[k->at.row] : high;
    double f = own > low && own < high ? own : high, missed = INFINITY;
    if (k->method.custom == NULL) {
        const double near = f + NEAR * (high - f);
        if (near < high && excess_at(k, count, near, mu) >= 0.0) high = near;
        count = keep_weights(k, count, high);
    }
    for (int iteration = 0; iteration < 200 && high - low > DBL_EPSILON * fabs(high); iteration++) {
        if (ota_watch_ends(&k->watch, count)) break;
        double rise = 0.0;
        ota_judge_sum sum = {-mu, 0.0};
        for (int64_t c = 0; c < count; c++) {
            const double p = weight(k, k->gather[c] + f);
            if (!(p > 0.0)) continue;
            ota_judge_add(&sum, p);
            const double x = (k->gather[c] + f) / k->method.tau;
            rise +=
                (k->method.custom == NULL ? p / (1.0 + (k->method.order - 1.0) * x)
                                          : k->method.custom->slope(k->method.custom->user, x)) /
                k->method.tau;
        }
        const double excess = ota_judge_total(sum);
        /* The rounding of so many weights, and of their levels; the dual, which is largest here, loses its square. */
        if (fabs(excess) <= 64.0 * DBL_EPSILON * (mu + rise * (fabs(f) + fabs(top)))) break;
        if (excess > 0.0)
            high = f;
        else
            low = f;
        f -= excess / rise;
        const bool slow = !(fabs(excess) < 0.5 * missed);
        missed = slow ? INFINITY : fabs(excess);
        if (!(f > low && f < high) || slow) f = low + 0.5 * (high - low);
    }
    return f;
}

/* The row's share of the dual at its best f; *mass_of_plan gets the l1 distance of k->at.p from the
 * plan that g defines. */
double ota_judge_row_dual(ota_judge_head *k, double mu, double rest, double *distance) {
    const double f = best_row_potential(k, mu);
    const double finite = f > -INFINITY ? f + shift_of(k) : 0.0;
    ota_judge_sum dual = {isfinite(k->method.row_strength)
                              ? -k->method.row_strength * mu *
                                    expm1(-finite / k->method.row_strength)
                              : mu * finite,
                          0.0};
    ota_judge_sum apart = {0.0, 0.0};
    const double silent = silent_level(k);
    if (k->method.order > 0.0 || k->method.capped) {
        for (int64_t j = 0; j <= k->m; j++) {
            const double a = j < k->m ? k->at.s[j] + k->g[j] : k->method.sink;
            if (a + f < silent) {
                ota_judge_add(&apart, fabs(j < k->m ? k->at.p[j] : rest));
                continue;
            }
            /* No weight is more than the row's mass. */
            const double cap =
                k->method.order > 0.0 ? ota_judge_cap(k, j) : fmin(mu, ota_judge_cap(k, j));
            const bool open = f > -INFINITY && a > -INFINITY;
            const double p = !open                   ? 0.0
                             : k->method.order > 0.0 ? fmin(cap, weight(k, a + f))
                             : a + f > 0.0           ? cap
                                                     : 0.0;
            ota_judge_add(&dual, -dual_cost(k, a + f, p));
            ota_judge_add(&apart, fabs((j < k->m ? k->at.p[j] : rest) - p));
        }
    }
    *distance = ota_judge_total(apart);
    return ota_judge_total(dual);
}

/* ---- column potentials from the coupling alone -------------------------------------------- */

/* What takes the potentials of keys between their bounds to 0; where there is none, those of full keys below it; where all keys
 * have their least, all of them above it. */
static double gauge_of_bounds(const ota_judge_head *k) {
    double inside = -1.0, gauge = 0.0, top = -INFINITY, bottom = INFINITY;
    for (int64_t j = 0; j < k->m; j++) {
        const double c = ota_judge_total(k->column[j]);
        const double room = fmin(k->target[j] - c, c - k->r->problem.lower * k->nu[j]);
        if (!(k->g[j] > -INFINITY)) continue;
        if (c >= 0.5 * (k->target[j] + k->r->problem.lower * k->nu[j]))
            top = fmax(top, k->g[j]);
        else
            bottom = fmin(bottom, k->g[j]);
        if (room > inside) gauge = -k->g[j];
        inside = fmax(inside, room);
    }
    if (inside > 1e-9 * k->mass) return gauge;
    return top > -INFINITY ? -top : isfinite(bottom) ? -bottom : 0.0;
}

/* Up to the rounding of a narrow coupling. */
static bool meets_cap(const ota_judge_head *k, double p, int64_t j) {
    return p >= ota_judge_cap(k, j) * (1.0 - 1.0e-6);
}

/* tau log P_ij - S_ij = f_i + g_j wherever P_ij > 0 (Tsallis: its level instead): alternating
 * averages over the support, exact after one sweep when everything is positive. Any g bounds the
 * optimum from below, so a poor fit can only make the gap larger. */
static void recover_by_averages(ota_judge_head *k) {
    double *sum = k->left;
    for (int64_t j = 0; j < k->m; j++) k->g[j] = 0.0;
    double gauge = 0.0;
    for (int sweep = 0; sweep < AVERAGING_SWEEPS; sweep++) {
        double moved = 0.0, offset = 0.0, offsets = 0.0;
        for (int64_t j = 0; j < k->m; j++) {
            sum[j] = 0.0;
            k->gather[j] = 0.0;
        }
        for (int64_t i = 0; i < k->n && !ota_watch_ends(&k->watch, k->at.pairs); i++) {
            double rest, level = 0.0, count = 0.0;
            if (ota_judge_load_scores(k, i) != OTA_JUDGE_NORMAL) continue;
            (void)ota_judge_load_weights(k, i, ota_judge_mass_of(k, i), &rest);
            for (int64_t j = 0; j < k->m; j++) {
                if (!(k->at.p[j] > 0.0) || !(k->at.s[j] > -INFINITY)) continue;
                if (meets_cap(k, k->at.p[j], j)) continue;
                k->at.p[j] = level_of(k, k->at.p[j]) - k->at.s[j];
                level += k->at.p[j] - k->g[j];
                count += 1.0;
            }
            if (!(count > 0.0)) continue;
            for (int64_t j = 0; j < k->m; j++) {
                const double p = coupling_at(k, i, j);
                if (!(p > 0.0) || meets_cap(k, p, j) || !(k->at.s[j] > -INFINITY)) continue;
                sum[j] += k->at.p[j] - level / count;
                k->gather[j] += 1.0;
            }
            if (rest > 0.0) {
                offset += level / count - (level_of(k, rest) - k->method.sink);
                offsets += 1.0;
            }
        }
        for (int64_t j = 0; j < k->m; j++) {
            const double next = k->gather[j] > 0.0 ? sum[j] / k->gather[j] : -INFINITY;
            if (next > -INFINITY) moved = fmax(moved, fabs(next - k->g[j]));
            k->g[j] = next;
        }
        gauge = offsets > 0.0 ? offset / offsets : 0.0;
        if (moved <= 1e-12 * k->method.tau) break;
    }
    double top = -INFINITY;
    for (int64_t j = 0; j < k->m; j++) top = fmax(top, k->g[j]);
    /* The sink's g is 0; without one, a cap that does not bind has g = 0. */
    if (!(k->method.sink > -INFINITY))
        gauge = k->method.rule == OTA_COLUMNS_CAPPED && top > -INFINITY ? -top
                : k->method.rule == OTA_COLUMNS_BOUNDED                 ? gauge_of_bounds(k)
                                                                        : 0.0;
    for (int64_t j = 0; j < k->m; j++) {
        /* What no row uses fills no cap. */
        const bool idle = k->method.rule != OTA_COLUMNS_EXACT && k->target[j] > 0.0;
        k->g[j] = k->g[j] > -INFINITY || !idle ? k->g[j] + gauge : 0.0;
    }
}

/* Makes k->g when the caller gave none: false where nothing can be said. Needs k->column. */
bool ota_judge_recover_potentials(ota_judge_head *k) {
    if (k->method.rule == OTA_COLUMNS_FREE) {
        for (int64_t j = 0; j < k->m; j++) k->g[j] = 0.0;
        return true;
    }
    if (k->method.rule == OTA_COLUMNS_RELAXED) {
        for (int64_t j = 0; j < k->m; j++) {
            const double c = ota_judge_total(k->column[j]);
            k->g[j] = !k->used[j] ? 0.0
                      : c > 0.0 && k->target[j] > 0.0
                          ? -k->r->problem.strength * log(c / k->target[j])
                          : -INFINITY;
        }
        return true;
    }
    if (!(k->method.order > 0.0) ||
        (k->method.rule != OTA_COLUMNS_EXACT && k->method.rule != OTA_COLUMNS_CAPPED &&
         k->method.rule != OTA_COLUMNS_BOUNDED))
        return false;
    recover_by_averages(k);
    return true;
}

/* ---- columns ------------------------------------------------------------------------------ */

double ota_judge_column_dual(const ota_judge_head *k) {
    const double rho = k->r->problem.strength;
    ota_judge_sum dual = {0.0, 0.0};
    for (int64_t j = 0; j < k->m; j++) {
        const double g = k->g[j], target = k->target[j];
        if (!(target > 0.0)) continue;
        if (k->method.rule == OTA_COLUMNS_EXACT)
            ota_judge_add(&dual, target * g);
        else if (k->method.rule == OTA_COLUMNS_CAPPED)
            ota_judge_add(&dual, target * fmin(0.0, g));
        else if (k->method.rule == OTA_COLUMNS_BOUNDED)
            ota_judge_add(&dual,
                          target * fmin(0.0, g) + k->r->problem.lower * k->nu[j] * fmax(0.0, g));
        /* A key no mass can reach keeps the whole penalty: its best g is +inf. */
        else if (k->method.rule == OTA_COLUMNS_RELAXED)
            ota_judge_add(&dual, k->used[j] ? -rho * target * expm1(-g / rho) : rho * target);
    }
    return ota_judge_total(dual);
}
