/* One row at a time, compiled for each type: softmax, entmax, custom, hard and online rows; formulas in
 * rows.h. */
#include "rows.h"

#include <float.h>
#include <math.h>
#include <stddef.h>

#include "capped_rows.h"
#include "heavy_rows.h"
#include "backend/cpu/real.h"
#include "backend/cpu/rows/edge_rows.h"
#include "backend/cpu/rows/online_rows.h"
#include "backend/kept_sum.h"
#include "backend/threshold.h"
#include "base/exp2.h"

/* Weights of entmax rows follow the f64 sums of the kept keys: a threshold this good rounds to the same weights in
 * f32. */
static const double threshold_accuracy = sizeof(real) == sizeof(double) ? 1.0e-16 : 1.0e-9;
static const double threshold_near = sizeof(real) == sizeof(double) ? 0.0 : 1.0e-6;
static void fill(real *p, int64_t count, double value) {
    for (int64_t j = 0; j < count; j++) p[j] = (real)value;
}

/* Everything of a row that is about to fail or is empty; true when done. `top` includes the sink. */
static bool is_trivial_row(double top, int64_t count, double mu, real *p, ota_row_found *found) {
    *found = (ota_row_found){.potential = -INFINITY, .lse = -INFINITY};
    if (isnan(top) || top >= INFINITY || isnan(mu)) {
        fill(p, count, NAN);
        *found = (ota_row_found){
            .potential = NAN, .mass = NAN, .sink = NAN, .lse = NAN, .nonfinite = true};
        return true;
    }
    if (top <= -INFINITY) {
        fill(p, count, 0.0);
        found->empty = true;
        return true;
    }
    return false;
}

/* 2^((s + h - shift) c) where the differences or c leave the range of real: halves never overflow. */
static double exponentials_wide(const real *s, const real *h, int64_t count, double shift,
                                double tau, real *p) {
    double sum = 0.0;
    for (int64_t j = 0; j < count; j++) {
        const double half =
            (double)s[j] / 2.0 + (h == NULL ? 0.0 : (double)h[j] / 2.0) - shift / 2.0;
        const double e = exp(half / (tau / 2.0));
        p[j] = (real)e;
        sum += e;
    }
    return sum;
}

static double exponentials(const ota_row_parameters *parameters, const real *s, const real *h,
                           int64_t count, double shift, real *p) {
    if (fabs(shift) > (double)REAL_MAX / 4.0 || parameters->tau > (double)REAL_MAX / 1.0e6 ||
        parameters->tau < TAU_MIN) {
        return exponentials_wide(s, h, count, shift, parameters->tau, p);
    }
    return KERNELS(parameters)
        ->exponentials(s, h, count, (real)shift, (real)(OTA_LOG2_E / parameters->tau), p);
}

double WORD(ota_row_exponentials)(const ota_row_parameters *parameters, const real *s,
                                  int64_t count, double shift, real *p) {
    return exponentials(parameters, s, NULL, count, shift, p);
}

static void softmax_row(const ota_row_parameters *parameters, const real *s, const real *h,
                        int64_t count, double mu, real *p, ota_row_found *found) {
    const double keys_top = (double)KERNELS(parameters)->maximum(s, h, count);
    const double top = isnan(keys_top) || keys_top > parameters->sink ? keys_top : parameters->sink;
    if (is_trivial_row(top, count, mu, p, found)) return;
    /* The shift must be a real: it is what the kernel subtracts. */
    const double shift = (double)(real)top;
    double sum = exponentials(parameters, s, h, count, shift, p);
    const double sink = parameters->sink > -INFINITY
                            ? exp((parameters->sink / 2.0 - shift / 2.0) / (parameters->tau / 2.0))
                            : 0.0;
    sum += sink;
    found->lse = log(sum) + shift / parameters->tau;
    if (!(mu > 0.0)) {
        fill(p, count, 0.0);
        return;
    }
    double factor = mu / sum;
    found->potential = parameters->tau * log(factor) - shift;
    if (parameters->row_strength < INFINITY) {
        found->potential *= parameters->row_strength / (parameters->row_strength + parameters->tau);
        factor = exp((found->potential + shift) / parameters->tau);
    }
    KERNELS(parameters)->multiply(p, count, (real)factor);
    found->sink = sink * factor;
    found->mass = (sum - sink) * factor;
}

static void entmax_row(const ota_row_parameters *parameters, const real *s, const real *h,
                       int64_t count, double mu, real *p, ota_row_found *found) {
    const double keys_top = (double)KERNELS(parameters)->maximum(s, h, count);
    const double top = isnan(keys_top) || keys_top > parameters->sink ? keys_top : parameters->sink;
    if (is_trivial_row(top, count, mu, p, found)) return;
    if (ota_is_heavy_tailed(parameters->regulariser)) {
        row_heavy(parameters, s, h, count, mu, top, p, found);
        return;
    }
    if (!(mu > 0.0)) {
        fill(p, count, 0.0);
        return;
    }
    const double shift = (double)(real)top;
    const double k = (parameters->order - 1.0) / parameters->tau,
                 power = 1.0 / (parameters->order - 1.0);
    const real slope = (real)k;
    const bool has_sink = parameters->sink > -INFINITY;
    const double sink_x = has_sink ? (parameters->sink - shift) * k : 0.0;
    threshold_search search = threshold_begin(mu, power, (double)count + (has_sink ? 1.0 : 0.0));
    search.near = power < 2.0 ? 0.0 : threshold_near;
    if (parameters->threshold != NULL && power >= 1.0) {
        const double guess = (*parameters->threshold - shift) * k;
        if (guess > search.low && guess < search.high) search.t = guess;
        if (power >= 2.0) search.near = parameters->close;
    }
    ota_powers_operands row = {
        .s = s, .h = h, .count = count, .shift = (real)shift, .k = slope, .p = power};
    double first, second;
    do {
        row.t = search.t;
        (void)KERNELS(parameters)->power_sums(&row, &first, &second);
        if (has_sink && sink_x > search.t) {
            first += power_above(sink_x, search.t, power);
            second += power_above(sink_x, search.t, power - 1.0);
        }
    } while (threshold_step(&search, first, second));
    if (power < 1.0) {
        const edge_keys keys = {.s = s, .h = h};
        edge_row(parameters, &keys, count, mu, top, shift + search.t / k, p, found);
        return;
    }
    row.t = search.t;
    const double sum = KERNELS(parameters)->powers(&row, (real)1, p);
    found->sink = has_sink && sink_x > search.t ? power_above(sink_x, search.t, power) : 0.0;
    /* What rounding left of the threshold is spread in proportion, so that rows sum to mu. */
    const double factor = mu / (sum + found->sink);
    KERNELS(parameters)->multiply(p, count, (real)factor);
    found->sink *= factor;
    found->mass = sum * factor;
    found->potential = -shift - search.t / k;
}

/* Where p >= 1 Newton comes to the threshold from below. A few of its steps in real, for p = `power`, leave one that is
 * too large by rounding at most, for which `low` stands aside. No entry is above the target, so that a larger p has
 * a lower threshold. Returns how many of the scores lie above. */
static int64_t approach(const ota_row_parameters *parameters, const real *s, int64_t count,
                        double top, double k, double power, threshold_search *search) {
    enum { STEPS = 4 };
    const bool has_sink = parameters->sink > -INFINITY;
    const double sink_x = has_sink ? (parameters->sink - top) * k : 0.0;
    threshold_search rough = *search;
    rough.power = power;
    rough.accuracy = 1.0e-6;
    rough.near = 1.0e-4;
    ota_powers_operands row = {
        .s = s, .count = count, .shift = (real)top, .k = (real)k, .p = rough.power};
    double first, second;
    int64_t above;
    do {
        row.t = rough.t;
        above = KERNELS(parameters)->power_sums(&row, &first, &second);
        if (has_sink && sink_x > rough.t) {
            first += power_above(sink_x, rough.t, rough.power);
            second += power_above(sink_x, rough.t, rough.power - 1.0);
        }
    } while (threshold_step(&rough, first, second) && rough.steps < STEPS);
    const double low = rough.t - 1.0e-4 * rough.norm - 1.0e-6 * fabs(top) * k;
    if (!(low > search->low)) return count;
    search->low = low;
    search->t = rough.t;
    return above;
}

/* The keys of s + h above the floor, and s + h there. */
static int64_t take_keys(const ota_row_parameters *parameters, const real *s, const real *h,
                         int64_t count, real floor, const ota_row_room *room) {
    real *kept = room->kept;
    const int64_t left = KERNELS(parameters)->compact(s, h, count, floor, kept, room->where);
    for (int64_t i = 0; h != NULL && i < left; i++) kept[i] += h[room->where[i]];
    return left;
}

/* Every key whose weight may be positive has x = (s - top) k above low = -mu^(1/p), since the largest x is 0
 * and alone would carry mu there; the floor stands below that by more than its rounding. What `compact` takes is
 * turned into f64 x, on which Newton runs; whatever falls below its bracket is dropped on the way. Where it takes
 * much, it takes again above a better bound. */
int64_t WORD(ota_row_entmax)(const ota_row_parameters *parameters, const real *s, const real *h,
                             int64_t count, double mu, const ota_row_room *room,
                             ota_row_found *found) {
    enum { MANY = 64, SHARE = 4 };
    const double keys_top = (double)KERNELS(parameters)->maximum(s, h, count);
    const double top = isnan(keys_top) || keys_top > parameters->sink ? keys_top : parameters->sink;
    if (is_trivial_row(top, 0, mu, NULL, found) || !(mu > 0.0)) return 0;
    if (parameters->regulariser->capped)
        return row_capped_list(parameters, s, h, count, mu, top, room, found);
    const double power = 1.0 / (parameters->order - 1.0);
    const double k = fmin((parameters->order - 1.0) / parameters->tau, DBL_MAX);
    const bool has_sink = parameters->sink > -INFINITY;
    const double sink_x = has_sink ? (parameters->sink - top) * k : 0.0;
    threshold_search search = threshold_begin(mu, power, (double)count + (has_sink ? 1.0 : 0.0));
    search.accuracy = threshold_accuracy;
    search.near = power < 2.0 ? 0.0 : threshold_near;
    const double slack = 1.0e-6 * (fabs(top) + search.target / k);
    const double floor = fmax(top + search.low / k - slack, -(double)REAL_MAX);
    real *kept = room->kept;
    double *wide = room->wide;
    int64_t left = take_keys(parameters, s, h, count, (real)floor, room);
    /* What overflows bounds nothing or too little; powers of a small target might be rounded up to something. */
    if (power >= 1.0 && mu > 1.0e-15 && left > MANY && left > count / SHARE) {
        /* Up to 4 the next power of two is cheaper, being a product, and near enough. */
        const double even = power > 4.0 ? power : power > 2.0 ? 4.0 : power > 1.0 ? 2.0 : 1.0;
        const int64_t above = approach(parameters, kept, left, top, k, even, &search);
        const double higher = top + search.low / k - slack;
        if (above < left - left / SHARE && higher > floor)
            left = take_keys(parameters, s, h, count, (real)higher, room);
        if (even > power && left > MANY)
            (void)approach(parameters, kept, left, top, k, power, &search);
    }
    /* Where differences leave the range of a double, halves do not. */
    const double prescale = fabs(top) > DBL_MAX / 4.0 ? 0.5 : 1.0, slope = k / prescale;
    for (int64_t i = 0; i < left; i++)
        wide[i] = ((double)kept[i] * prescale - top * prescale) * slope;
    ota_kernels_f64_powers row = {.s = wide, .k = 1.0, .p = power};
    double first, second;
    for (;;) {
        row.count = left;
        row.t = search.t;
        const int64_t above = parameters->kernels->f64->power_sums(&row, &first, &second);
        if (has_sink && sink_x > search.t) {
            first += power_above(sink_x, search.t, power);
            second += power_above(sink_x, search.t, power - 1.0);
        }
        if (!threshold_step(&search, first, second)) break;
        if (power >= 1.0 && above < left - left / 4)
            left = drop_below(wide, room->where, left, search.low);
    }
    if (power < 1.0) return edge_list(parameters, left, mu, top, top + search.t / k, room, found);
    left = drop_below(wide, room->where, left, search.t);
    row.count = left;
    row.t = search.t;
    const double sum = parameters->kernels->f64->powers(&row, 1.0, wide);
    found->sink = has_sink && sink_x > search.t ? power_above(sink_x, search.t, power) : 0.0;
    /* What rounding left of the threshold is spread in proportion, so that rows sum to mu. */
    const double factor = mu / (sum + found->sink);
    for (int64_t i = 0; i < left; i++) kept[i] = (real)(wide[i] * factor);
    found->sink *= factor;
    found->mass = sum * factor;
    found->potential = -top - search.t / k;
    return left;
}

/* sum_j weight(x_j + y) with the sink, and its derivative. */
static double custom_sums(const ota_row_parameters *parameters, const real *s, const real *h,
                          int64_t count, double top, double y, double *rise) {
    const ota_custom *custom = parameters->custom;
    ota_kept_sum sum = {0.0, 0.0};
    *rise = 0.0;
    for (int64_t j = 0; j <= count; j++) {
        const double a = j == count  ? parameters->sink
                         : h == NULL ? (double)s[j]
                                     : (double)s[j] + (double)h[j];
        if (!(a > -INFINITY)) continue;
        const double x = ota_custom_argument(a, -top, parameters->tau) + y;
        ota_kept_add(&sum, custom->weight(custom->user, x));
        *rise += custom->slope(custom->user, x);
    }
    return ota_kept_value(&sum);
}

/* Brackets the shift by doubling, then Newton inside the bracket. */
static void custom_row(const ota_row_parameters *parameters, const real *s, const real *h,
                       int64_t count, double mu, real *p, ota_row_found *found) {
    const ota_custom *custom = parameters->custom;
    const double keys_top = (double)KERNELS(parameters)->maximum(s, h, count);
    const double top = isnan(keys_top) || keys_top > parameters->sink ? keys_top : parameters->sink;
    if (is_trivial_row(top, count, mu, p, found)) return;
    if (!(mu > 0.0)) {
        fill(p, count, 0.0);
        return;
    }
    double rise, near = 0.0, far = 0.0;
    double sum = custom_sums(parameters, s, h, count, top, 0.0, &rise);
    const bool up = sum < mu;
    /* NaN ends every search: so a function ends its row. */
    for (double step = 1.0; step < 1.0e300 && (sum < mu) == up && !isnan(sum); step *= 2.0) {
        near = far;
        far = up ? step : -step;
        sum = custom_sums(parameters, s, h, count, top, far, &rise);
    }
    double low = up ? near : far, high = up ? far : near;
    /* Bounded weights cannot carry every mass. */
    found->infeasible = (sum < mu) == up || isnan(sum);
    double y = 0.5 * (low + high);
    for (int iteration = 0; iteration < THRESHOLD_STEPS && !found->infeasible; iteration++) {
        sum = custom_sums(parameters, s, h, count, top, y, &rise);
        const double excess = sum - mu;
        if (fabs(excess) <= 2.0e-16 * mu || isnan(excess)) break;
        if (excess > 0.0)
            high = y;
        else
            low = y;
        double next = y - excess / rise;
        if (!(next > low && next < high) || iteration % 4 == 3) next = 0.5 * (low + high);
        if (!(next > low && next < high)) break;
        y = next;
    }
    /* A jump of the weight leaves no shift that meets the mass. */
    found->infeasible |= !(fabs(sum - mu) <= 1.0e-9 * mu);
    if (found->infeasible) {
        fill(p, count, 0.0);
        return;
    }
    const double factor = mu / sum;
    for (int64_t j = 0; j < count; j++) {
        const double a = h == NULL ? (double)s[j] : (double)s[j] + (double)h[j];
        p[j] = (real)0;
        if (!(a > -INFINITY)) continue;
        const double weight =
            factor *
            custom->weight(custom->user, ota_custom_argument(a, -top, parameters->tau) + y);
        p[j] = (real)weight;
        found->mass += weight;
    }
    if (parameters->sink > -INFINITY) {
        found->sink =
            factor *
            custom->weight(custom->user,
                           ota_custom_argument(parameters->sink, -top, parameters->tau) + y);
    }
    found->potential = parameters->tau * y - top;
}

static void hard_row(const ota_row_parameters *parameters, const real *s, const real *h,
                     int64_t count, double mu, real *p, ota_row_found *found) {
    const double keys_top = (double)KERNELS(parameters)->maximum(s, h, count);
    const double top =
        isnan(keys_top) || keys_top >= parameters->sink ? keys_top : parameters->sink;
    if (is_trivial_row(top, count, mu, p, found)) return;
    int64_t best = -1;
    for (int64_t j = 0; j < count && best < 0 && keys_top >= parameters->sink; j++) {
        const real lifted = h == NULL ? s[j] : s[j] + h[j];
        if ((double)lifted >= keys_top) best = j;
    }
    fill(p, count, 0.0);
    if (best >= 0) p[best] = (real)mu;
    found->potential = -top;
    found->mass = best >= 0 ? mu : 0.0;
    found->sink = best >= 0 ? 0.0 : mu;
}

static void capped_row(const ota_row_parameters *parameters, const real *s, const real *h,
                       int64_t count, double mu, real *p, ota_row_found *found) {
    const double keys_top = (double)KERNELS(parameters)->maximum(s, h, count);
    const double top = isnan(keys_top) || keys_top > parameters->sink ? keys_top : parameters->sink;
    if (!is_trivial_row(top, count, mu, p, found))
        row_capped(parameters, s, h, count, mu, top, p, found);
}

void WORD(ota_row_solve)(const ota_row_parameters *parameters, const real *s, const real *h,
                         int64_t count, double mu, real *p, ota_row_found *found) {
    if (parameters->regulariser->capped) {
        capped_row(parameters, s, h, count, mu, p, found);
        return;
    }
    switch (parameters->regulariser->kind) {
    case OTA_SOFTMAX: softmax_row(parameters, s, h, count, mu, p, found); return;
    case OTA_ENTMAX: entmax_row(parameters, s, h, count, mu, p, found); return;
    case OTA_HARD: hard_row(parameters, s, h, count, mu, p, found); return;
    case OTA_CUSTOM: custom_row(parameters, s, h, count, mu, p, found); return;
    }
}

void WORD(ota_row_weights)(const ota_row_parameters *parameters, const real *s, const real *h,
                           int64_t count, double f, real *p, ota_row_found *found) {
    const double keys_top = (double)KERNELS(parameters)->maximum(s, h, count);
    const double top = isnan(keys_top) || keys_top > parameters->sink ? keys_top : parameters->sink;
    if (is_trivial_row(top, count, 1.0, p, found)) return;
    found->potential = f;
    if (f <= -INFINITY) {
        fill(p, count, 0.0);
        return;
    }
    if (parameters->regulariser->capped) {
        row_capped_weights(parameters, s, h, count, f, p, found);
        return;
    }
    if (ota_is_heavy_tailed(parameters->regulariser)) {
        row_heavy_weights(parameters, s, h, count, f, top, p, found);
        return;
    }
    if (parameters->edge.known) {
        const edge_keys keys = {.s = s, .h = h};
        found->mass = edge_weights(parameters, &keys, count, p);
        return;
    }
    if (parameters->regulariser->thresholded) {
        const double k = (parameters->order - 1.0) / parameters->tau;
        const ota_powers_operands row = {.s = s,
                                         .h = h,
                                         .count = count,
                                         .k = (real)k,
                                         .t = -f * k,
                                         .p = 1.0 / (parameters->order - 1.0)};
        found->mass = KERNELS(parameters)->powers(&row, (real)1, p);
        return;
    }
    const double shift = (double)(real)top;
    const double sum = exponentials(parameters, s, h, count, shift, p);
    const double factor = exp((f + shift) / parameters->tau);
    KERNELS(parameters)->multiply(p, count, (real)factor);
    found->mass = sum * factor;
    found->lse = log(sum) + shift / parameters->tau;
    if (parameters->sink > -INFINITY) {
        const double sink = parameters->sink / parameters->tau, keys = found->lse;
        found->sink = exp((parameters->sink + f) / parameters->tau);
        found->lse = fmax(keys, sink) + log1p(exp(-fabs(keys - sink)));
    }
}

/* ---- online rows ------------------------------------------------------------------------------ */

/* The most that this row may give a key: what is left of it, and its entry's cap. */
static double room_of(const ota_row_parameters *parameters, const double *remaining, int64_t j) {
    if (!parameters->regulariser->capped) return remaining[j];
    return fmin(remaining[j], ota_entry_cap(&parameters->caps, parameters->line, j));
}

static double left_of(double remaining, double room) {
    return room < remaining ? remaining - room : 0.0;
}

/* Mass on the open keys (level[j] < 0 marks a key that has reached its capacity) at their common scaling
 * (softmax) or threshold (entmax). weight[j] is left holding the open keys' weights. Returns the potential. */
static double open_keys(const ota_row_parameters *parameters, const real *s, int64_t count,
                        double mass, const double *remaining, double *weight, double *sink) {
    double top = parameters->sink;
    for (int64_t j = 0; j < count; j++) {
        if (weight[j] >= 0.0 && remaining[j] > 0.0 && (double)s[j] > top) top = (double)s[j];
    }
    *sink = 0.0;
    if (top <= -INFINITY) return INFINITY;
    const bool has_sink = parameters->sink > -INFINITY;
    if (parameters->regulariser->tsallis) {
        const double k = (parameters->order - 1.0) / parameters->tau,
                     power = 1.0 / (parameters->order - 1.0);
        threshold_search search = threshold_begin(mass, power, (double)count + 1.0);
        double first, second;
        do {
            ota_kept_sum sum = {0.0, 0.0};
            second = 0.0;
            for (int64_t j = 0; j <= count; j++) {
                if (j < count && (weight[j] < 0.0 || !(remaining[j] > 0.0))) continue;
                if (j == count && !has_sink) continue;
                const double x = ((j < count ? (double)s[j] : parameters->sink) - top) * k;
                if (!(x > search.t)) continue;
                ota_kept_add(&sum, power_above(x, search.t, power));
                second += power_above(x, search.t, power - 1.0);
            }
            first = ota_kept_value(&sum);
        } while (threshold_step(&search, first, second));
        const edge_keys keys = {.s = s, .weight = weight, .remaining = remaining};
        if (power > 0.0 && power < 1.0)
            return edge_of_open_keys(parameters, &keys, count, mass, top, top + search.t / k,
                                     weight, sink);
        const double factor = mass / first;
        for (int64_t j = 0; j < count; j++) {
            if (weight[j] < 0.0 || !(remaining[j] > 0.0)) continue;
            weight[j] = factor * power_above(((double)s[j] - top) * k, search.t, power);
        }
        if (has_sink) *sink = factor * power_above((parameters->sink - top) * k, search.t, power);
        return -top - search.t / k;
    }
    *sink = has_sink ? exp((parameters->sink - top) / parameters->tau) : 0.0;
    ota_kept_sum sums = {*sink, 0.0};
    for (int64_t j = 0; j < count; j++) {
        if (weight[j] < 0.0 || !(remaining[j] > 0.0)) continue;
        weight[j] = exp(((double)s[j] - top) / parameters->tau);
        ota_kept_add(&sums, weight[j]);
    }
    const double sum = ota_kept_value(&sums);
    for (int64_t j = 0; j < count; j++) {
        if (weight[j] > 0.0) weight[j] *= mass / sum;
    }
    *sink *= mass / sum;
    return parameters->tau * log(mass / sum) - top;
}

/* Hard: fills the best keys to their capacity one after another. `taken` [count] collects the weights
 * because p may be s itself. */
static void online_hard(const ota_row_parameters *parameters, const real *s, int64_t count,
                        double mu, double *remaining, real *p, double *taken,
                        ota_row_found *found) {
    double left = mu;
    for (int64_t j = 0; j < count; j++) taken[j] = 0.0;
    while (left > 0.0) {
        int64_t best = -1;
        for (int64_t j = 0; j < count; j++) {
            if (room_of(parameters, remaining, j) > taken[j] && (double)s[j] > -INFINITY &&
                (best < 0 || s[j] > s[best]))
                best = j;
        }
        if (parameters->sink > -INFINITY && (best < 0 || parameters->sink > (double)s[best])) {
            found->potential = -parameters->sink;
            found->sink = left;
            break;
        }
        if (best < 0) {
            found->infeasible = left > ota_online_slack(parameters, count, mu);
            break;
        }
        taken[best] = fmin(left, room_of(parameters, remaining, best));
        left -= taken[best];
        found->potential = -(double)s[best];
        found->mass += taken[best];
    }
    for (int64_t j = 0; j < count; j++) {
        if (taken[j] > 0.0) remaining[j] = left_of(remaining[j], taken[j]);
        p[j] = (real)taken[j];
    }
}

void WORD(ota_row_online)(const ota_row_parameters *parameters, const real *s, int64_t count,
                          double mu, double *remaining, real *p, double *scratch,
                          ota_row_found *found) {
    if (online_softmax(parameters, s, count, mu, remaining, p, scratch, found)) return;
    double top = parameters->sink, room = 0.0;
    bool nonfinite = false;
    for (int64_t j = 0; j < count; j++) {
        if (isnan(s[j]) || (double)s[j] >= INFINITY) nonfinite = true;
        if ((double)s[j] > top) top = (double)s[j];
        if ((double)s[j] > -INFINITY) room += room_of(parameters, remaining, j);
    }
    if (is_trivial_row(nonfinite ? NAN : top, count, mu, p, found)) return;
    const double slack = ota_online_slack(parameters, count, mu);
    if (parameters->sink <= -INFINITY && room < mu - slack) {
        found->infeasible = true;
        return;
    }
    if (parameters->regulariser->kind == OTA_HARD) {
        online_hard(parameters, s, count, mu, remaining, p, scratch, found);
        return;
    }
    double level =
        parameters->sink > -INFINITY ? exp((parameters->sink - top) / parameters->tau) : 0.0;
    for (int64_t j = 0; j < count; j++) {
        level += exp(((double)s[j] - top) / parameters->tau);
        scratch[j] = (double)s[j] > -INFINITY && remaining[j] > 0.0 ? 0.0 : -1.0;
    }
    found->lse = log(level) + top / parameters->tau;
    /* Keys whose share exceeds their capacity are filled and closed; the others' share only grows, so at
     * most `count` sweeps. */
    double left = mu;
    bool closed = mu > 0.0;
    found->potential = -INFINITY;
    while (closed && left > 0.0) {
        closed = false;
        found->potential = open_keys(parameters, s, count, left, remaining, scratch, &found->sink);
        ota_kept_sum filled = {0.0, 0.0};
        for (int64_t j = 0; j < count; j++) {
            if (scratch[j] >= 0.0 && scratch[j] >= room_of(parameters, remaining, j)) {
                ota_kept_add(&filled, room_of(parameters, remaining, j));
                scratch[j] = -2.0;
                closed = true;
            }
        }
        left -= ota_kept_value(&filled);
        if (found->potential >= INFINITY && left > slack) found->infeasible = true;
    }
    found->mass = 0.0;
    for (int64_t j = 0; j < count; j++) {
        const double share = scratch[j] < -1.5                ? room_of(parameters, remaining, j)
                             : scratch[j] > 0.0 && left > 0.0 ? scratch[j]
                                                              : 0.0;
        p[j] = (real)share;
        remaining[j] = scratch[j] < -1.5 ? left_of(remaining[j], share) : remaining[j] - share;
        found->mass += share;
    }
    if (!(left > 0.0)) found->sink = 0.0;
}
