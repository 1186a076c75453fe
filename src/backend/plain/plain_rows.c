/* One row of scores S_i [keys] and one row of weights P_i [keys].
 *
 *     S_ij = softcap(scale (q_i.k_j + inside)) + alibi + relative + dense + additive
 *
 *     x_j = s_j + h_j
 *     softmax   p_j = mu e^(x_j / tau) / sum                f = tau log mu - tau LSE(x / tau)
 *               relaxed rows: f is rho / (rho + tau) of that
 *     entmax    p_j = [(alpha - 1) (x_j + f) / tau]_+^(1 / (alpha - 1)),   f fixed by sum p = mu
 *               (alpha < 1: x_j + f < 0 for all keys)
 *     custom    p_j = weight((x_j + f) / tau),                             f fixed by sum p = mu
 *     hard      all of mu on the first largest x_j                         f = -max x
 *
 * With entry caps the weights are the least of these and c, hard rows fill one key after another. The sink is one more
 * key with x = sink and no cap. */
#include "plain.h"

#include "backend/capped_edge.h"
#include "backend/edge.h"
#include "backend/threshold.h"
#include "masks/masks.h"
#include "terms/terms.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- scores ------------------------------------------------------------------------------------- */

static double raw_score(const ota_resolved *r, int64_t b, int64_t h, int64_t i, int64_t j) {
    const ota_problem *p = &r->problem;
    const int64_t key_head = h / (r->heads / r->key_heads);
    double sum = 0.0;
    if (r->from_matrix) return ota_array_get(&p->scores, b, h, i, j);
    for (int64_t w = 0; w < r->width; w++)
        sum += ota_array_get(&p->queries, b, h, i, w) * ota_array_get(&p->keys, b, key_head, j, w);
    return sum;
}

/* What forbids on either side does so whatever the other holds. */
static double plus(double s, const ota_array *a, int64_t b, int64_t h, int64_t i, int64_t j) {
    const double addend = ota_array_get(a, b, h, i, j);
    return s <= -INFINITY || addend <= ota_forbidding_addend(a->type) ? -INFINITY : s + addend;
}

/* The raw score with what is added before the scale. */
static double scaled(const ota_resolved *r, int64_t h, int64_t difference, double s) {
    const bool inside = r->term_count > 0 && ota_term_is_inside(&r->terms[0]);
    if (inside) s += ota_array_get(&r->terms[0].array, 0, h, 0, difference);
    return s * r->scale;
}

/* Terms and supports of an allowed pair. */
static double score(const ota_resolved *r, int64_t b, int64_t h, int64_t i, int64_t j, double raw) {
    const int64_t difference = ota_row_number(r, i) - j + r->keys - 1,
                  away = ota_row_position(r, i) - j;
    double s = scaled(r, h, difference, raw);
    for (const ota_term *term = r->terms; term < r->terms + r->term_count; term++) {
        const ota_array *a = &term->array;
        if (ota_term_is_inside(term)) continue;
        switch (ota_term_form_of(term)) {
        case OTA_FORM_SOFTCAP: s = s <= -INFINITY ? s : term->value * tanh(s / term->value); break;
        case OTA_FORM_LINEAR_DISTANCE:
            s -= (ota_array_present(a) ? ota_array_get(a, 0, 0, 0, h) : term->value) *
                 fabs((double)away);
            break;
        case OTA_FORM_ADDS_DIFFERENCES: s += ota_array_get(a, 0, h, 0, difference); break;
        case OTA_FORM_ADDS_PAIRS: s = plus(s, a, b, h, i, j); break;
        case OTA_FORM_ADDS_KEY: break;
        }
    }
    for (int k = 0; k < r->support_count; k++) {
        if (r->supports[k].kind == OTA_SUPPORT_ADDITIVE)
            s = plus(s, &r->supports[k].array, b, h, i, j);
    }
    return s;
}

void ota_plain_scores(const ota_plain_device *device, int64_t b, int64_t h, int64_t i, double *to) {
    const ota_resolved *r = device->resolved;
    for (int64_t j = 0; j < r->keys; j++) {
        const bool allowed = j < device->key_count && ota_pair_allowed(r, b, h, i, j);
        to[j] = allowed ? score(r, b, h, i, j, raw_score(r, b, h, i, j)) : -INFINITY;
    }
}

void ota_plain_row_scores(const ota_resolved *r, int64_t b, int64_t h, int64_t i, int64_t begin,
                          int64_t end, double *row) {
    for (int64_t j = begin; j < end; j++)
        row[j - begin] =
            ota_pair_allowed(r, b, h, i, j) ? score(r, b, h, i, j, row[j - begin]) : -INFINITY;
}

/* ---- what rows share ---------------------------------------------------------------------------- */

/* x_j = s_j + h_j; returns the largest with the sink, NaN where some x_j is. */
static double lift(const ota_row_parameters *row, const double *s, const double *h, int64_t count,
                   double *x) {
    double top = row->sink;
    bool wrong = false;
    for (int64_t j = 0; j < count; j++) {
        x[j] = h == NULL ? s[j] : s[j] + h[j];
        wrong |= isnan(x[j]);
        top = fmax(top, x[j]);
    }
    return wrong ? NAN : top;
}

static void fill(double *p, int64_t count, double value) {
    for (int64_t j = 0; j < count; j++) p[j] = value;
}

/* A row that is not finite, or has neither a key nor a sink, is done: true. */
static bool is_trivial_row(double top, double mu, int64_t count, double *p, ota_row_found *found) {
    *found = (ota_row_found){.potential = -INFINITY, .lse = -INFINITY};
    if (isnan(top) || top >= INFINITY || isnan(mu)) {
        fill(p, count, NAN);
        *found = (ota_row_found){
            .potential = NAN, .mass = NAN, .sink = NAN, .lse = NAN, .nonfinite = true};
        return true;
    }
    found->empty = top <= -INFINITY;
    if (found->empty) fill(p, count, 0.0);
    return found->empty;
}

/* (x - top) / unit; halves do not overflow. */
static double below(double x, double top, double unit) {
    return (x / 2.0 - top / 2.0) / (unit / 2.0);
}

/* p *= factor, found->mass = sum p */
static void scale_weights(double *p, int64_t count, double factor, ota_row_found *found) {
    plain_sum mass = {0};
    for (int64_t j = 0; j < count; j++) ota_plain_add(&mass, p[j] *= factor);
    found->mass = mass.total + mass.lost;
    found->sink *= factor;
}

/* p_j = e^((x_j - top) / tau); returns their sum, the sink's included. */
static double exponentials(const ota_row_parameters *row, double top, int64_t count, double *p,
                           ota_row_found *found) {
    found->sink = exp(below(row->sink, top, row->tau));
    plain_sum sum = {found->sink, 0.0};
    for (int64_t j = 0; j < count; j++) ota_plain_add(&sum, p[j] = exp(below(p[j], top, row->tau)));
    found->lse = log(sum.total + sum.lost) + top / row->tau;
    return sum.total + sum.lost;
}

/* ---- regularisers: x into weights, in place; mu > 0 ------------------------------------------------ */

static void solve_softmax(const ota_row_parameters *row, double top, int64_t count, double mu,
                          double *p, ota_row_found *found) {
    const double tau = row->tau, rho = row->row_strength;
    const double sum = exponentials(row, top, count, p, found);
    if (mu > 0.0) found->potential = tau * log(mu / sum) - top;
    if (rho < INFINITY) found->potential *= rho / (rho + tau);
    const double relaxed = exp((found->potential + top) / tau);
    scale_weights(p, count, !(mu > 0.0) ? 0.0 : rho < INFINITY ? relaxed : mu / sum, found);
}

static double sum_above(const double *x, int64_t count, double sink, double t, double power) {
    plain_sum sum = {power_above(sink, t, power), 0.0};
    for (int64_t j = 0; j < count; j++) ota_plain_add(&sum, power_above(x[j], t, power));
    return sum.total + sum.lost;
}

static void lift_plain(const void *keys, int64_t first, int64_t count, double *x) {
    memcpy(x, (const double *)keys + first, (size_t)count * sizeof *x);
}

/* Weights beside a known edge, times `factor`. */
static void weigh_from_edge(const ota_row_parameters *row, const ota_edge *edge, int64_t count,
                            double factor, double *p, ota_row_found *found) {
    const ota_edge_row at = ota_edge_row_of(row, 0.0);
    for (int64_t j = 0; j < count; j++) p[j] = ota_edge_weight(&at, edge, p[j]);
    found->sink = row->sink > -INFINITY ? ota_edge_weight(&at, edge, row->sink) : 0.0;
    scale_weights(p, count, factor, found);
}

/* Orders above 2. */
static void solve_edge(const ota_row_parameters *row, double top, int64_t count, double mu,
                       double *p, ota_row_found *found) {
    const ota_edge_keys keys = {p, lift_plain, count};
    const ota_edge_row at = ota_edge_row_of(row, mu);
    const ota_edge edge = ota_edge_find(&at, &keys, top, top - pow(mu, row->order - 1.0) / at.k);
    found->potential = ota_edge_potential(&at, &edge);
    found->edge = edge;
    weigh_from_edge(row, &edge, count, mu / edge.sum, p, found);
}

/* x = (s - top) (alpha - 1) / tau, of which the largest is 0: the sum falls in t from at least mu at -mu^(1/power) to
 * at most mu where all keys were as large. Orders below 1 have power < 0 and x >= 0, of which the least is 0: there the sum
 * rises between the same two. */
static void solve_entmax(const ota_row_parameters *row, double top, int64_t count, double mu,
                         double *p, ota_row_found *found) {
    const double gap = row->tau / (row->order - 1.0), least = 1.0 / 1.7e308;
    const double unit = gap < 0.0 ? fmin(gap, -least) : fmax(gap, least);
    const double power = 1.0 / (row->order - 1.0), sink = below(row->sink, top, unit);
    for (int64_t j = 0; j < count; j++) p[j] = below(p[j], top, unit);
    const double alone = -pow(mu, 1.0 / power),
                 spread = -pow(mu / ((double)count + 1.0), 1.0 / power);
    double low = fmin(alone, spread), high = fmax(alone, spread);
    for (double t = 0.5 * (low + high); t > low && t < high; t = 0.5 * (low + high)) {
        if ((sum_above(p, count, sink, t, power) >= mu) == (power > 0.0))
            low = t;
        else
            high = t;
    }
    const double sum = sum_above(p, count, sink, low, power);
    for (int64_t j = 0; j < count; j++) p[j] = power_above(p[j], low, power);
    found->sink = power_above(sink, low, power);
    found->potential = -top - low * unit;
    /* What rounding left of the threshold is spread in proportion. */
    scale_weights(p, count, mu / sum, found);
}

static double custom_weight(const ota_row_parameters *row, double x, double top, double y) {
    if (!(x > -INFINITY)) return 0.0;
    const double argument = fmax(below(x, top, row->tau), -1.0e308) + y;
    return row->custom->weight(row->custom->user, argument);
}

static double custom_sum(const ota_row_parameters *row, const double *x, int64_t count, double top,
                         double y) {
    plain_sum sum = {custom_weight(row, row->sink, top, y), 0.0};
    for (int64_t j = 0; j < count; j++) ota_plain_add(&sum, custom_weight(row, x[j], top, y));
    return sum.total + sum.lost;
}

/* f = tau y - top: y is bracketed by doubling, then bisected. */
static void solve_custom(const ota_row_parameters *row, double top, int64_t count, double mu,
                         double *p, ota_row_found *found) {
    double sum = custom_sum(row, p, count, top, 0.0), near = 0.0, far = 0.0;
    const bool up = sum < mu;
    for (double step = 1.0; step < 1.0e300 && (sum < mu) == up && !isnan(sum); step *= 2.0) {
        near = far;
        far = up ? step : -step;
        sum = custom_sum(row, p, count, top, far);
    }
    double low = up ? near : far, high = up ? far : near, y = far;
    /* Bounded weights cannot carry every mass. */
    found->infeasible = (sum < mu) == up || isnan(sum);
    while (!found->infeasible && fabs(sum - mu) > 2.0e-16 * mu) {
        const double middle = 0.5 * (low + high);
        if (!(middle > low && middle < high)) break;
        y = middle;
        sum = custom_sum(row, p, count, top, y);
        if (sum > mu)
            high = y;
        else
            low = y;
    }
    /* A jump of the weight leaves no shift that meets the mass. */
    found->infeasible |= !(fabs(sum - mu) <= 1.0e-9 * mu);
    for (int64_t j = 0; j < count; j++)
        p[j] = found->infeasible ? 0.0 : custom_weight(row, p[j], top, y);
    if (found->infeasible) return;
    found->sink = custom_weight(row, row->sink, top, y);
    found->potential = row->tau * y - top;
    scale_weights(p, count, mu / sum, found);
}

/* A key as good as the sink comes first. */
static void solve_hard(const ota_row_parameters *row, double top, int64_t count, double mu,
                       double *p, ota_row_found *found) {
    (void)row;
    int64_t best = 0;
    while (best < count && p[best] < top) best++;
    fill(p, count, 0.0);
    if (best < count) p[best] = mu;
    found->potential = -top;
    found->mass = best < count ? mu : 0.0;
    found->sink = best < count ? 0.0 : mu;
}

static double cap_at(const ota_row_parameters *row, int64_t j) {
    return row->regulariser->capped ? ota_entry_cap(&row->caps, row->line, j) : INFINITY;
}

/* w(x + f) of a row with caps; f is where the sum, which rises with it, is mu. */
static double capped_weight(const ota_row_parameters *row, double x, double f, double cap) {
    if (!(x > -INFINITY)) return 0.0;
    if (!row->regulariser->tsallis) return fmin(cap, exp(below(x, -f, row->tau)));
    return fmin(cap, power_above(below(x, -f, row->tau / (row->order - 1.0)), 0.0,
                                 1.0 / (row->order - 1.0)));
}

static double capped_sum(const ota_row_parameters *row, const double *x, int64_t count, double f) {
    plain_sum sum = {capped_weight(row, row->sink, f, INFINITY), 0.0};
    for (int64_t j = 0; j < count; j++)
        ota_plain_add(&sum, capped_weight(row, x[j], f, cap_at(row, j)));
    return sum.total + sum.lost;
}

/* Between two numbers f, mu being so much of the way from the sum at `low` to that at `high`: a weight of an order above 2
 * leaps from one number to the next. */
static void weigh_capped(const ota_row_parameters *row, int64_t count, double low, double high,
                         double mu, double *p, ota_row_found *found) {
    const double least = capped_sum(row, p, count, low), most = capped_sum(row, p, count, high);
    const double part = most > least ? fmin(fmax((mu - least) / (most - least), 0.0), 1.0) : 1.0;
    const double sink = capped_weight(row, row->sink, low, INFINITY);
    found->potential = high;
    found->sink = sink + part * (capped_weight(row, row->sink, high, INFINITY) - sink);
    for (int64_t j = 0; j < count; j++) {
        const double cap = cap_at(row, j), from = capped_weight(row, p[j], low, cap);
        p[j] = from + part * (capped_weight(row, p[j], high, cap) - from);
    }
    scale_weights(p, count, 1.0, found);
}

typedef struct plain_keys {
    const ota_row_parameters *row;
    const double *x;
} plain_keys;

static double lift_plain_key(const void *keys, int64_t j) {
    return ((const plain_keys *)keys)->x[j];
}
static double cap_of_plain_key(const void *keys, int64_t j) {
    return cap_at(((const plain_keys *)keys)->row, j);
}

/* At a potential and the edge beside it. */
static void weigh_capped_edge(const ota_row_parameters *row, const ota_edge *edge, double f,
                              double factor, int64_t count, double *p, ota_row_found *found) {
    for (int64_t j = 0; j < count; j++)
        p[j] = ota_capped_edge_weight(row, edge, f, factor, p[j], cap_at(row, j));
    found->sink = ota_capped_edge_weight(row, edge, f, factor, row->sink, INFINITY);
    found->potential = f;
    found->edge = *edge;
    scale_weights(p, count, 1.0, found);
}

/* Orders above 2, from f near the potential. */
static bool weigh_edge(const ota_row_parameters *row, int64_t count, double f, double mu, double *p,
                       ota_row_found *found) {
    const plain_keys own = {row, p};
    const ota_capped_edge_keys keys = {&own, lift_plain_key, cap_of_plain_key, count};
    ota_capped_edge edge;
    if (!row->regulariser->tsallis || !(row->order > 2.0) ||
        !ota_capped_edge_find(row, &keys, mu, f, &edge))
        return false;
    weigh_capped_edge(row, &edge.others.edge, edge.f, edge.factor, count, p, found);
    return true;
}

static void solve_capped(const ota_row_parameters *row, double top, int64_t count, double mu,
                         double *p, ota_row_found *found) {
    double low = -top, high = -top;
    for (double step = row->tau; capped_sum(row, p, count, low) > mu && step < 1e300; step *= 2.0)
        low -= step;
    for (double step = row->tau; capped_sum(row, p, count, high) < mu && step < 1e300; step *= 2.0)
        high += step;
    for (double f = 0.5 * (low + high); f > low && f < high; f = 0.5 * (low + high)) {
        if (capped_sum(row, p, count, f) < mu)
            low = f;
        else
            high = f;
    }
    if (!weigh_edge(row, count, high, mu, p, found))
        weigh_capped(row, count, low, high, mu, p, found);
}

/* Caps of the keys above x, or of those at least as good. */
static double room_above(const ota_row_parameters *row, const double *p, int64_t count, double x,
                         bool with) {
    double room = 0.0;
    for (int64_t j = 0; j < count; j++) {
        if (p[j] > x || (with && p[j] >= x && p[j] > -INFINITY)) room += cap_at(row, j);
    }
    return room;
}

/* The best keys are full down to a level, whose keys fill up in turn; a key as good as the sink comes first. */
static void solve_capped_hard(const ota_row_parameters *row, int64_t count, double mu, double *p,
                              ota_row_found *found) {
    const double most = room_above(row, p, count, row->sink, true);
    double level = row->sink, left;
    for (int64_t j = 0; j < count && most >= mu; j++) {
        if (room_above(row, p, count, p[j], false) < mu &&
            room_above(row, p, count, p[j], true) >= mu)
            level = p[j];
    }
    for (int64_t j = 0; j < count && most < mu && !(row->sink > -INFINITY); j++)
        level = isinf(level) ? p[j] : fmin(level, p[j] > -INFINITY ? p[j] : level);
    left = mu - room_above(row, p, count, level, false);
    found->potential = -level;
    for (int64_t j = 0; j < count; j++) {
        const double x = p[j], cap = x >= level && x > -INFINITY ? cap_at(row, j) : 0.0;
        p[j] = x > level ? cap : fmin(cap, fmax(left, 0.0));
        if (!(x > level)) left -= p[j];
        found->mass += p[j];
    }
    if (row->sink > -INFINITY) found->sink = fmax(left, 0.0);
}

/* Caps without room for the mass; where there is just enough, the weights are the caps. */
static void solve_caps(const ota_row_parameters *row, double top, int64_t count, double mu,
                       double *p, ota_row_found *found) {
    const double slack = 4.0 * 2.3e-16 * (double)(count + 1) * mu;
    double room = row->sink > -INFINITY ? INFINITY : room_above(row, p, count, -INFINITY, false);
    found->infeasible = room < mu - slack;
    if (found->infeasible || !(mu > 0.0))
        fill(p, count, 0.0);
    else if (row->regulariser->kind == OTA_HARD)
        solve_capped_hard(row, count, mu, p, found);
    else
        solve_capped(row, top, count, fmin(mu, room), p, found);
}

void ota_plain_row_solve(const ota_row_parameters *row, const double *s, const double *h,
                         int64_t count, double mu, double *p, ota_row_found *found) {
    const double top = lift(row, s, h, count, p);
    const ota_regulariser kind = row->regulariser->kind;
    if (is_trivial_row(top, mu, count, p, found)) return;
    if (row->regulariser->capped)
        solve_caps(row, top, count, mu, p, found);
    else if (kind == OTA_SOFTMAX)
        solve_softmax(row, top, count, mu, p, found);
    else if (kind == OTA_HARD)
        solve_hard(row, top, count, mu, p, found);
    else if (!(mu > 0.0))
        fill(p, count, 0.0);
    else if (kind == OTA_CUSTOM)
        solve_custom(row, top, count, mu, p, found);
    else if (row->order > 2.0)
        solve_edge(row, top, count, mu, p, found);
    else
        solve_entmax(row, top, count, mu, p, found);
}

/* ---- rows from both potentials ------------------------------------------------------------------- */

/* entmax [(alpha - 1) (x + f) / tau]_+^(1 / (alpha - 1)), custom weight((x + f) / tau) */
static double weight_at(const ota_row_parameters *row, double x, double f) {
    if (!(x > -INFINITY)) return 0.0;
    if (row->custom == NULL)
        return power_above((x + f) * (row->order - 1.0) / row->tau, 0.0, 1.0 / (row->order - 1.0));
    return row->custom->weight(row->custom->user, ota_custom_argument(x, f, row->tau));
}

/* softmax p_j = e^((x_j + f) / tau) */
void ota_plain_row_weights(const ota_row_parameters *row, const double *s, const double *h,
                           int64_t count, double f, double *p, ota_row_found *found) {
    const double top = lift(row, s, h, count, p), tau = row->tau;
    if (is_trivial_row(top, 1.0, count, p, found)) return;
    found->potential = f;
    if (f <= -INFINITY) {
        fill(p, count, 0.0);
        return;
    }
    if (row->regulariser->capped) {
        if (row->edge.known)
            weigh_capped_edge(row, &row->edge, f, 1.0, count, p, found);
        else
            weigh_capped(row, count, f, f, 0.0, p, found);
        return;
    }
    if (row->edge.known) {
        weigh_from_edge(row, &row->edge, count, 1.0, p, found);
        return;
    }
    if (!row->regulariser->exponential) {
        for (int64_t j = 0; j < count; j++) p[j] = weight_at(row, p[j], f);
        found->sink = weight_at(row, row->sink, f);
        scale_weights(p, count, 1.0, found);
        return;
    }
    (void)exponentials(row, top, count, p, found);
    scale_weights(p, count, exp((f + top) / tau), found);
}

/* ---- rows in order ------------------------------------------------------------------------------- */

/* The row is solved on the keys with room, as if no entry had a cap; keys that it overfills take what they may and are
 * closed, and the rest of the mass is solved again, of which every open key gets more than before. */
void ota_plain_row_online(const ota_row_parameters *row, const double *s, int64_t count, double mu,
                          double *room, double *p, double *open, ota_row_found *found) {
    const double slack = ota_online_slack(row, count, mu);
    const ota_problem uncapped = {.regulariser = row->regulariser->kind, .order = row->order};
    ota_row_parameters without = *row;
    without.regulariser = ota_regulariser_of(&uncapped);
    double left = mu, space = 0.0;
    for (int64_t j = 0; j < count; j++) {
        if (s[j] > -INFINITY) space += fmin(room[j], cap_at(row, j));
        open[j] = room[j] > 0.0 ? s[j] : -INFINITY;
    }
    ota_plain_row_solve(&without, s, NULL, count, mu, p, found);
    if (found->empty || found->nonfinite) return;
    const double lse = found->lse;
    *found = (ota_row_found){.potential = -INFINITY, .lse = lse};
    fill(p, count, 0.0);
    if (!(row->sink > -INFINITY) && space < mu - slack) {
        found->infeasible = true;
        return;
    }
    for (bool closed = true; closed && left > 0.0;) {
        closed = false;
        plain_sum filled = {0.0, 0.0};
        ota_plain_row_solve(&without, open, NULL, count, left, p, found);
        found->lse = lse;
        if (found->empty) break;
        for (int64_t j = 0; j < count; j++) {
            const double most = fmin(room[j], cap_at(row, j));
            if (!(open[j] > -INFINITY) || p[j] < most) continue;
            open[j] = -INFINITY;
            ota_plain_add(&filled, most);
            closed = true;
        }
        left -= filled.total + filled.lost;
    }
    found->infeasible = found->empty && left > slack;
    found->empty = false;
    found->mass = 0.0;
    if (!(left > 0.0)) found->sink = 0.0;
    /* Closed keys that had room gave all that they may. */
    for (int64_t j = 0; j < count; j++) {
        const bool full = s[j] > -INFINITY && !(open[j] > -INFINITY);
        p[j] = full ? fmax(fmin(room[j], cap_at(row, j)), 0.0) : left > 0.0 ? p[j] : 0.0;
        room[j] = full && room[j] > 0.0 ? fmax(room[j] - p[j], 0.0) : room[j] - (full ? 0.0 : p[j]);
        found->mass += p[j];
    }
}
