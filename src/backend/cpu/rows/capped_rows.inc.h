/* One row whose weights are capped, p_j <= c_j, body of capped_rows_f32.c and capped_rows_f64.c; x_j = s_j + h_j.
 *
 *     softmax, entmax   p_j = min(c_j, w(x_j + f)),  f fixed by sum p = mu: the sum rises with f, and is found by steps
 *                       that take the keys now at their caps to stay there, inside a bracket
 *     hard              the keys of largest x at their caps, the rest of mu on the next one
 *
 * The sink is one more key without a cap. All arithmetic in f64. */
#include "capped_rows.h"

#include <float.h>
#include <math.h>

#include "backend/cpu/real.h"

enum { STEPS = 400 };

typedef struct capped_row {
    const ota_row_parameters *parameters;
    const real *s, *h;
    int64_t count;
} capped_row;

typedef struct capped_sums {
    double closed; /* of the keys at their caps */
    double open;   /* of the others and the sink */
    double rise;   /* of `open`, by f */
} capped_sums;

static double lifted(const capped_row *row, int64_t j) {
    const double s = (double)row->s[j];
    return row->h == NULL ? s : s + (double)row->h[j];
}

static double cap_of(const capped_row *row, int64_t j) {
    return ota_entry_cap(&row->parameters->caps, row->parameters->line, j);
}

/* w(x + f) and its derivative by f. */
static double weight_at(const ota_row_parameters *parameters, double x, double f, double *rise) {
    const double tau = parameters->tau, y = (x / 2.0 + f / 2.0) / (tau / 2.0);
    double p;
    if (!parameters->regulariser->tsallis) {
        p = exp(y);
        *rise = p / tau;
        return p;
    }
    const double k = parameters->order - 1.0;
    *rise = 0.0;
    /* Orders below 1 have no bound of the weight as y rises to 0. */
    if (!(k * y > 0.0)) return k > 0.0 ? 0.0 : INFINITY;
    p = pow(k * y, 1.0 / k);
    *rise = p / (k * y * tau);
    return p;
}

static capped_sums sums_at(const capped_row *row, double f) {
    capped_sums sums = {0.0, 0.0, 0.0};
    double lost = 0.0, rise;
    for (int64_t j = 0; j < row->count; j++) {
        const double x = lifted(row, j);
        if (!(x > -INFINITY)) continue;
        const double cap = cap_of(row, j), p = weight_at(row->parameters, x, f, &rise);
        double *sum = p >= cap ? &sums.closed : &sums.open;
        const double part = p >= cap ? cap : p, next = *sum + part;
        lost += *sum >= part ? (*sum - next) + part : (part - next) + *sum;
        *sum = next;
        if (p < cap) sums.rise += rise;
    }
    sums.open += lost;
    if (row->parameters->sink > -INFINITY) {
        sums.open += weight_at(row->parameters, row->parameters->sink, f, &rise);
        sums.rise += rise;
    }
    return sums;
}

/* f of a weight p of a key x = 0. */
static double level_of(const ota_row_parameters *parameters, double p) {
    const double k = parameters->order - 1.0;
    return parameters->regulariser->tsallis ? parameters->tau * pow(p, k) / k
                                            : parameters->tau * log(p);
}

/* The step that takes the keys at their caps to stay there. */
static double next_potential(const ota_row_parameters *parameters, double f, double mu,
                             const capped_sums *sums) {
    const double left = mu - sums->closed;
    if (!parameters->regulariser->tsallis && left > 0.0 && sums->open > 0.0)
        return f + parameters->tau * log(left / sums->open);
    return f + (left - sums->open) / sums->rise;
}

/* Room for the row's mass, INFINITY with a sink; *highest: f from which on all keys are at their caps. */
static double room_of(const capped_row *row, double *highest) {
    double room = row->parameters->sink > -INFINITY ? INFINITY : 0.0;
    *highest = -INFINITY;
    for (int64_t j = 0; j < row->count; j++) {
        const double x = lifted(row, j);
        if (!(x > -INFINITY)) continue;
        const double cap = cap_of(row, j);
        room += cap;
        *highest = fmax(*highest, level_of(row->parameters, cap) - x);
    }
    return room;
}

static double find_potential(const capped_row *row, double mu, double top, double highest) {
    const ota_row_parameters *parameters = row->parameters;
    /* Where the largest weight is this small, all of them are less than mu together. */
    double low = level_of(parameters, mu / ((double)row->count + 2.0)) - top, high = highest;
    if (!(low > -DBL_MAX)) low = -DBL_MAX;
    if (parameters->sink > -INFINITY)
        high = fmin(high, level_of(parameters, mu) - parameters->sink);
    double f = low;
    for (int turn = 0; turn < STEPS; turn++) {
        const capped_sums sums = sums_at(row, f);
        const double sum = sums.closed + sums.open;
        if (fabs(sum - mu) <= 2.0e-16 * mu) break;
        if (sum > mu)
            high = f;
        else
            low = f;
        double next = next_potential(parameters, f, mu, &sums);
        if (!(next > low && next < high) || turn % 8 == 7) next = 0.5 * low + 0.5 * high;
        if (!(next > low && next < high)) break;
        f = next;
    }
    return f;
}

static void write_weights(const capped_row *row, double f, double mu, real *p,
                          ota_row_found *found) {
    const ota_row_parameters *parameters = row->parameters;
    const capped_sums sums = sums_at(row, f);
    double rise;
    /* What rounding left of f is spread over the keys that are not at their caps. */
    const double factor = mu > 0.0 && sums.open > 0.0 ? (mu - sums.closed) / sums.open : 1.0;
    found->mass = sums.closed;
    for (int64_t j = 0; j < row->count; j++) {
        const double x = lifted(row, j);
        if (!(x > -INFINITY)) {
            p[j] = (real)0;
            continue;
        }
        const double cap = cap_of(row, j), w = weight_at(parameters, x, f, &rise);
        const double share = w >= cap ? cap : fmin(w * factor, cap);
        if (w < cap) found->mass += share;
        p[j] = (real)share;
    }
    if (parameters->sink > -INFINITY)
        found->sink = factor * weight_at(parameters, parameters->sink, f, &rise);
    found->potential = f;
}

static double largest_below(const capped_row *row, double bound) {
    double best = -INFINITY;
    for (int64_t j = 0; j < row->count; j++) {
        const double x = lifted(row, j);
        if (x < bound && x > best) best = x;
    }
    return best;
}

/* A key as good as the sink comes first, then keys by place. */
static void hard_weights(const capped_row *row, double mu, real *p, ota_row_found *found) {
    const double sink = row->parameters->sink;
    double left = mu, level = INFINITY, at = INFINITY;
    while (left > 0.0) {
        const double next = largest_below(row, level);
        if (!(next > -INFINITY) || next < sink) break;
        at = level = next;
        for (int64_t j = 0; j < row->count; j++) {
            if (lifted(row, j) < level || lifted(row, j) > level) continue;
            left -= cap_of(row, j);
        }
    }
    if (left > 0.0 && sink > -INFINITY) {
        at = sink;
        found->sink = left;
    }
    found->potential = -at;
    /* Keys above the last level are full; those on it fill up in turn, which leaves no place for a score that was
       overwritten: p may be s. */
    double rest = mu;
    for (int64_t j = 0; j < row->count; j++) {
        if (lifted(row, j) > level) rest -= cap_of(row, j);
    }
    for (int64_t j = 0; j < row->count; j++) {
        const double x = lifted(row, j), cap = x >= level ? cap_of(row, j) : 0.0;
        const double share = x > level ? cap : x < level ? 0.0 : fmin(cap, fmax(rest, 0.0));
        if (!(x > level) && !(x < level)) rest -= share;
        found->mass += share;
        p[j] = (real)share;
    }
}

void WORD(ota_row_capped)(const ota_row_parameters *parameters, const real *s, const real *h,
                          int64_t count, double mu, double top, real *p, ota_row_found *found) {
    const capped_row row = {parameters, s, h, count};
    const bool hard = parameters->regulariser->kind == OTA_HARD;
    double highest = INFINITY;
    const double room = hard ? INFINITY : room_of(&row, &highest);
    const double slack = 4.0 * DBL_EPSILON * (double)(count + 1) * mu;
    if (!(mu > 0.0)) {
        for (int64_t j = 0; j < count; j++) p[j] = (real)0;
        return;
    }
    if (room < mu - slack) {
        found->infeasible = true;
        for (int64_t j = 0; j < count; j++) p[j] = (real)0;
        return;
    }
    if (hard) {
        hard_weights(&row, mu, p, found);
        found->infeasible = found->mass + found->sink < mu - slack;
        return;
    }
    const double f = room <= mu + slack ? highest : find_potential(&row, mu, top, highest);
    write_weights(&row, f, mu, p, found);
}

void WORD(ota_row_capped_weights)(const ota_row_parameters *parameters, const real *s,
                                  const real *h, int64_t count, double f, real *p,
                                  ota_row_found *found) {
    const capped_row row = {parameters, s, h, count};
    write_weights(&row, f, 0.0, p, found);
}
