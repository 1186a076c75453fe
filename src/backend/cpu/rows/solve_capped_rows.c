/* One row whose weights are capped, p_j <= c_j, compiled for each type; x_j = s_j + h_j.
 *
 *     softmax, entmax   p_j = min(c_j, w(x_j + f)),  f fixed by sum p = mu: the sum rises with f, and is found by steps
 *                       that take the keys now at their caps to stay there, inside a bracket
 *     hard              the keys of largest x at their caps, the rest of mu on the next one
 *
 * The sink is one more key without a cap. The sums are passes in vectors: softmax in the type of the rows, entmax in f64,
 * as near the threshold a weight of an order above 2 has half the digits of x, and hard rows, whose ties are those of f64. A
 * search that finds no open key for several steps begins anew at the key that hard rows fill last, where orders above 2
 * begin at once. Where caps have room for no more than mu, orders are below 1, or numbers leave the type's range, plain loops
 * in f64 do the row. */
#include "capped_rows.h"

#include <float.h>
#include <math.h>

#include "backend/capped.h"
#include "backend/cpu/real.h"
#include "backend/cpu/rows/capped_edges.h"
#include "backend/cpu/rows/capped_keys.h"
#include "backend/threshold.h"
#include "base/exp2.h"

/* LEVELS: passes of a row before plain loops do it, FITS: at the last level. CHORDS: steps after which every other one halves. STUCK: those without an open key before a search begins anew. KEPT: keys
 * that a search goes on with alone, FEW: so few that choosing among them saves nothing. */
enum { LEVELS = 96, FITS = 4, CHORDS = 16, STUCK = 4, KEPT = 768, FEW = 64 };
/* e^-FAR of a sum is left of it in the type. */
static const double FAR = 30.0;
/* Of the sum, relative: what a level must move it by at least to be called far from the top. */
static const double BLURRED = 1.0e-12;
/* Of the sum, relative: weights of f32 are no better. */
static const double accuracy = sizeof(real) == sizeof(double) ? 4.0e-16 : 1.0e-9;
/* A factor as near 1 as this takes no key off its cap that shows in a weight. */
static const double harmless = sizeof(real) == sizeof(double) ? 1.0e-14 : 1.0e-8;

static ota_capped_totals sums_at(const capped_row *row, double f) {
    ota_capped_totals sums = {0.0, 0.0, 0.0};
    double lost = 0.0, rise;
    for (int64_t j = 0; j < row->count; j++) {
        const double x = lifted(row, j);
        if (!(x > -INFINITY)) continue;
        const double cap = cap_of(row, j), p = ota_capped_weight(row->parameters, x, f, &rise);
        double *sum = p >= cap ? &sums.closed : &sums.open;
        const double part = p >= cap ? cap : p, next = *sum + part;
        lost += *sum >= part ? (*sum - next) + part : (part - next) + *sum;
        *sum = next;
        if (p < cap) sums.rise += rise;
    }
    sums.open += lost;
    if (row->parameters->sink > -INFINITY) {
        sums.open += ota_capped_weight(row->parameters, row->parameters->sink, f, &rise);
        sums.rise += rise;
    }
    return sums;
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
        *highest = fmax(*highest, ota_capped_level(row->parameters, cap) - x);
    }
    return room;
}

static ota_capped_search find_potential(const capped_row *row, double mu, double top,
                                        double highest) {
    ota_capped_search search = ota_capped_begin(row->parameters, mu, row->count, top, highest);
    ota_capped_totals sums;
    do {
        sums = sums_at(row, search.f);
    } while (ota_capped_step(&search, row->parameters, mu, &sums));
    return search;
}

static void write_weights(const capped_row *row, double f, double mu, real *p,
                          ota_row_found *found) {
    const ota_row_parameters *parameters = row->parameters;
    const ota_capped_totals sums = sums_at(row, f);
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
        const double cap = cap_of(row, j), w = ota_capped_weight(parameters, x, f, &rise);
        const double share = w >= cap ? cap : fmin(w * factor, cap);
        if (w < cap) found->mass += share;
        p[j] = (real)share;
    }
    if (parameters->sink > -INFINITY)
        found->sink = factor * ota_capped_weight(parameters, parameters->sink, f, &rise);
    found->potential = f;
}

/* The weights may lie over the scores. */
static void write_between(const capped_row *row, const ota_capped_search *ends, double part,
                          real *p, ota_row_found *found) {
    const ota_row_parameters *parameters = row->parameters;
    found->mass = 0.0;
    for (int64_t j = 0; j < row->count; j++) {
        const double share =
            ota_capped_between(parameters, ends, part, lifted(row, j), cap_of(row, j));
        found->mass += share;
        p[j] = (real)share;
    }
    if (parameters->sink > -INFINITY)
        found->sink = ota_capped_between(parameters, ends, part, parameters->sink, INFINITY);
    found->potential = ends->f;
}

/* ---- where the sum is mu ------------------------------------------------------------------------ */

/* The level x of a row, which its sum rises with. Newton's steps while each halves the miss; else the chord of the
 * bracket, whose older end counts half when it stays; before there is a bracket, steps that double. */
typedef struct level_search {
    double x, low, high, low_miss, high_miss, miss, step;
    int side, iterations;
    int stuck; /* steps in a row to where no key is open, without a bracket */
} level_search;

static level_search level_begin(double x, double step) {
    return (level_search){
        .x = x, .low = -INFINITY, .high = INFINITY, .miss = INFINITY, .step = step};
}

/* `miss`: the sum at x less mu; `newton`: where it would be 0. False when no number is left between the ends. */
static bool level_next(level_search *search, double miss, double newton) {
    const bool over = miss > 0.0, better = fabs(miss) <= 0.5 * search->miss;
    double *end = over ? &search->high : &search->low;
    double *end_miss = over ? &search->high_miss : &search->low_miss;
    double *other_miss = over ? &search->low_miss : &search->high_miss;
    const int side = over ? 1 : -1;
    if (side == search->side) *other_miss *= 0.5;
    *end = search->x;
    *end_miss = miss;
    search->side = side;
    search->miss = fabs(miss);
    const bool between = search->low > -INFINITY && search->high < INFINITY;
    const double width = search->high - search->low;
    double next = newton;
    search->stuck = between || fabs(newton) < INFINITY ? 0 : search->stuck + 1;
    if (!between && !(fabs(next - search->x) <= search->step))
        next = search->x - side * search->step;
    if (!between) search->step *= 2.0;
    if (between && !(better && next > search->low && next < search->high))
        next = search->low - search->low_miss * (width / (search->high_miss - search->low_miss));
    /* Where a sum hardly moves at one end, chords are of little use. */
    const int often = search->iterations < CHORDS ? 8 : 2;
    if (between &&
        (!(next > search->low && next < search->high) || ++search->iterations % often == 0))
        next = search->low + 0.5 * width;
    if (!(next > search->low && next < search->high)) return false;
    search->x = next;
    return true;
}

/* ---- passes in vectors -------------------------------------------------------------------------- */

static void add_sums(ota_capped_sums *to, const ota_capped_sums *more) {
    to->open += more->open;
    to->slope += more->slope;
    to->closed += more->closed;
    to->full += more->full;
}

/* Caps of keys [first, first + count) as the kernel takes them; NULL: one number. */
static const real *caps_from(const cap_line *caps, int64_t first, int64_t count, real *room) {
    if (caps->data == NULL) return NULL;
    if (caps->type == REAL_TYPE && caps->stride == 1) return (const real *)caps->data + first;
    for (int64_t j = 0; j < count; j++) room[j] = (real)cap_in_line(caps, first + j);
    return room;
}

/* Where the keys above are full, of keys so far apart that steps find none that is open: x - top of the next, and what is
 * left for it. */
typedef struct far_key {
    double x, left;
} far_key;

static far_key far_key_of(const capped_row *row, double mu, double top) {
    double above = 0.0;
    const double level = find_level(row, mu, sums_above(row, INFINITY).most, &above);
    return (far_key){level - top, mu - above};
}

/* min(c, factor e) into p (NULL: sums alone). */
static ota_capped_sums exponential_pass(const capped_row *row, double shift, double factor,
                                        real *p) {
    const bool whole =
        row->caps.data == NULL || (row->caps.type == REAL_TYPE && row->caps.stride == 1);
    const int64_t step = whole ? row->count : CHUNK;
    ota_capped_sums all = {0};
    real room[CHUNK];
    for (int64_t j = 0; j < row->count; j += step) {
        const int64_t count = ota_int_min(step, row->count - j);
        const ota_capped_operands operands = {.s = row->s + j,
                                              .h = row->h == NULL ? NULL : row->h + j,
                                              .caps = caps_from(&row->caps, j, count, room),
                                              .count = count,
                                              .cap = (real)row->caps.one,
                                              .shift = (real)shift,
                                              .k = (real)(OTA_LOG2_E / row->parameters->tau),
                                              .factor = (real)factor,
                                              .out = p == NULL ? NULL : p + j};
        const ota_capped_sums sums = KERNELS(row->parameters)->capped->exponentials(&operands);
        add_sums(&all, &sums);
    }
    return all;
}

static bool in_range(const ota_row_parameters *parameters, double shift) {
    return fabs(shift) <= (double)REAL_MAX / 4.0 && parameters->tau <= (double)REAL_MAX / 1.0e6 &&
           parameters->tau >= TAU_MIN;
}

/* e of the sink, for a shift. */
static double sink_at(const ota_row_parameters *parameters, double shift) {
    return exp((parameters->sink / 2.0 - shift / 2.0) / (parameters->tau / 2.0));
}

/* Where a row stands at lambda = e^x: weights factor e of a shift. */
typedef struct exponential_level {
    double shift, factor, sink;
    ota_capped_sums sums;
} exponential_level;

/* Far from the top the shift goes along, so that what is open does not vanish beside what is not. False where numbers leave
 * the type's range. */
static bool exponential_at(const capped_row *row, double top, double x, exponential_level *at) {
    const double tau = row->parameters->tau, base = (double)(real)top;
    at->shift = x > FAR ? (double)(real)(base - tau * x) : base;
    at->factor = x > FAR ? exp(x + (at->shift / tau - base / tau)) : exp(x);
    at->sink = sink_at(row->parameters, at->shift);
    if (!in_range(row->parameters, base) || !in_range(row->parameters, at->shift)) return false;
    at->sums = exponential_pass(row, at->shift, at->factor, NULL);
    return at->sums.open + at->sink < INFINITY;
}

static void write_exponentials(const capped_row *row, const exponential_level *at, double factor,
                               real *p, ota_row_found *found) {
    const ota_capped_sums last = exponential_pass(row, at->shift, factor, p);
    found->potential = row->parameters->tau * log(factor) - at->shift;
    found->sink = factor * at->sink;
    found->mass = last.closed + factor * last.open;
}

/* With the keys at their caps known, factor = left / open, which may bring others there, or take some away where next to nothing is
 * open; 0: the sum is not mu within `enough` yet. */
static double fit_exponentials(const capped_row *row, double mu, const exponential_level *at,
                               double enough) {
    ota_capped_sums last = at->sums;
    double factor = at->factor;
    for (int pass = 0; pass < FITS; pass++) {
        const double left = mu - last.closed, before = factor;
        if (!(left > 0.0 && last.open + at->sink > 0.0)) return 0.0;
        factor = left / (last.open + at->sink);
        if (fabs(factor - before) <= harmless * before && pass == 0) return factor;
        last = exponential_pass(row, at->shift, factor, NULL);
        const double sum = last.closed + factor * (last.open + at->sink);
        if (fabs(sum - mu) <= enough) return factor;
        if (!(factor < before) && !(factor > before)) return 0.0;
    }
    return 0.0;
}

/* True, with the weights in p, unless plain loops must do the row. */
static bool exponential_row(const capped_row *row, double mu, double top, real *p,
                            ota_row_found *found) {
    exponential_level at = {.shift = (double)(real)top};
    if (!in_range(row->parameters, at.shift)) return false;
    /* With a factor of 0 every key is open. */
    const double sum = exponential_pass(row, at.shift, 0.0, NULL).open;
    level_search search = level_begin(log(mu / (sum + sink_at(row->parameters, at.shift))), 1.0);
    bool jumped = false;
    for (int iteration = 0; iteration < LEVELS && exponential_at(row, top, search.x, &at);
         iteration++) {
        const double open = at.factor * (at.sums.open + at.sink), left = mu - at.sums.closed;
        const double miss = fabs(open - left), rest = log(left / open);
        const bool met = miss <= accuracy * mu && left > 0.0 && open > 0.0;
        /* Far from the top no level is nearer, but a factor is. */
        if (met || fabs(rest) <= 2.0 * DBL_EPSILON * fabs(search.x)) {
            const double fit = fit_exponentials(row, mu, &at, met ? miss : accuracy * mu);
            if (met || fit > 0.0) {
                write_exponentials(row, &at, fit > 0.0 ? fit : at.factor, p, found);
                return true;
            }
        }
        /* From below, where more keys will reach their caps, the slope at x goes further than that. */
        const double ahead = search.high < INFINITY ? rest : left / open - 1.0;
        if (!level_next(&search, open - left, search.x + ahead)) break;
        if (search.stuck <= STUCK) continue;
        if (jumped) break;
        jumped = true;
        const far_key far = far_key_of(row, mu, top);
        search = level_begin(log(far.left) - far.x / row->parameters->tau, 1.0);
    }
    return false;
}

/* Weights factor y^p of thresholds t for x - top in units of tau / (order - 1), in f64. */
static ota_capped_sums powers_of_keys(const capped_row *row, const wide_keys *keys, double top,
                                      double t, double factor, double *out) {
    const double gap = row->parameters->order - 1.0;
    const ota_kernels_f64_capped operands = {.s = keys->x,
                                             .caps = keys->caps,
                                             .count = keys->count,
                                             .cap = row->caps.one,
                                             .shift = top,
                                             .k = gap / row->parameters->tau,
                                             .factor = factor,
                                             .t = t,
                                             .p = 1.0 / gap,
                                             .out = out};
    return row->parameters->kernels->f64->capped->powers(&operands);
}

static ota_capped_sums power_pass(const capped_row *row, double top, double t, double factor,
                                  real *p) {
    ota_capped_sums all = {0};
    double x[CHUNK], caps[CHUNK], out[CHUNK];
    for (int64_t j = 0; j < row->count; j += CHUNK) {
        const wide_keys keys = widen(row, j, x, caps);
        const ota_capped_sums sums =
            powers_of_keys(row, &keys, top, t, factor, p == NULL ? NULL : out);
        add_sums(&all, &sums);
        for (int64_t i = 0; p != NULL && i < keys.count; i++) p[j + i] = (real)out[i];
    }
    return all;
}

/* The keys that a bracket of levels [low, high] still moves: not full at its low end, nor without weight at the high one.
 * Where they are few the search goes on with them alone. */
typedef struct kept_keys {
    double x[KEPT], caps[KEPT];
    int64_t count;        /* -1: none were chosen yet */
    ota_capped_sums full; /* of the keys that are full */
    int64_t full_at[2];   /* how many keys are full at the ends */
} kept_keys;

/* All keys of a short row, so that they are widened once. */
static void begin_kept(const capped_row *row, kept_keys *kept) {
    kept->count = -1;
    kept->full = (ota_capped_sums){0};
    if (row->count > CHUNK) return;
    (void)widen(row, 0, kept->x, kept->caps);
    kept->count = row->count;
}

static ota_capped_sums power_sums_at(const capped_row *row, const kept_keys *kept, double top,
                                     double x) {
    if (kept->count < 0) return power_pass(row, top, -x, 1.0, NULL);
    const wide_keys keys = {kept->x, row->caps.data == NULL ? NULL : kept->caps, kept->count};
    ota_capped_sums sums = powers_of_keys(row, &keys, top, -x, 1.0, NULL);
    add_sums(&sums, &kept->full);
    return sums;
}

/* Powers that are products cost less than a choice. Are there few keys that only one end fills, or else some to leave out? */
static bool is_worth_keeping(double power, const kept_keys *kept) {
    if (power >= 1.0 && floor(power) == power) return false;
    return kept->count < 0 ? kept->full_at[1] - kept->full_at[0] <= KEPT / 2 : kept->count > FEW;
}

/* Chooses among all keys, or among those that were chosen before. */
static void keep_between(const capped_row *row, double top, const level_search *ends,
                         kept_keys *kept) {
    const bool whole = kept->count < 0;
    const int64_t count = whole ? row->count : kept->count;
    const double gap = row->parameters->order - 1.0;
    /* A little room, as kernels round the difference in their own way. */
    const double least = top - (1.0 + 1.0e-9) * ends->high * (row->parameters->tau / gap);
    ota_capped_sums full = kept->full;
    double x[CHUNK], caps[CHUNK], w[CHUNK];
    int64_t found = 0;
    for (int64_t j = 0; j < count; j += CHUNK) {
        wide_keys keys = {kept->x + j, row->caps.data == NULL ? NULL : kept->caps + j,
                          ota_int_min(CHUNK, count - j)};
        if (whole) keys = widen(row, j, x, caps);
        const ota_capped_sums sums = powers_of_keys(row, &keys, top, -ends->low, 1.0, w);
        full.closed += sums.closed;
        full.full += sums.full;
        if (found + keys.count > KEPT) return;
        for (int64_t i = 0; i < keys.count; i++) {
            const double cap = keys.caps == NULL ? row->caps.one : keys.caps[i];
            kept->x[found] = keys.x[i];
            kept->caps[found] = cap;
            found += (int64_t)(w[i] < cap) & (int64_t)(keys.x[i] > least);
        }
    }
    kept->count = found;
    kept->full = full;
}

/* A search from where the far key takes what is left. */
static level_search power_level(const capped_row *row, double mu, double top) {
    const double gap = row->parameters->order - 1.0;
    const far_key far = far_key_of(row, mu, top);
    const double y = pow(far.left, gap);
    return level_begin(y - far.x * (gap / row->parameters->tau), y);
}

/* What rounding left of the threshold is spread over the keys that are not at their caps, of which that may take some off theirs, as
 * where next to nothing is open: 1 where it misses the mass by more than the level x does. */
static double fit_powers(const capped_row *row, double mu, double top, double x, double sink,
                         double factor, double miss) {
    double best = 1.0;
    for (int pass = 0; pass < FITS; pass++) {
        if (fabs(factor - 1.0) <= harmless && pass == 0) return factor;
        const ota_capped_sums sums = power_pass(row, top, -x, factor, NULL);
        const double open = sums.open + sink, left = mu - sums.closed,
                     apart = fabs(factor * open - left);
        if (apart <= miss) best = factor;
        miss = fmin(miss, apart);
        if (!(apart > accuracy * mu) || !(left > 0.0 && open > 0.0)) break;
        factor = left / open;
    }
    return best;
}

/* x = -t: Newton's steps on the p-norm of the open keys, or on their sum where keys at their caps hold most of the mass. */
static bool power_row(const capped_row *row, double mu, double top, real *p, ota_row_found *found) {
    const ota_row_parameters *parameters = row->parameters;
    const double power = 1.0 / (parameters->order - 1.0), k = 1.0 / (power * parameters->tau);
    const double sink_y = (parameters->sink - top) * k, whole = pow(mu, 1.0 / power);
    const double guess = parameters->threshold == NULL ? NAN : (top - *parameters->threshold) * k;
    /* Of rows that are solved again and again what their sums round is spread below, and what a step would square away. */
    const double rounded = 4.0 * DBL_EPSILON * (double)(row->count + 1);
    const double enough = parameters->threshold == NULL
                              ? accuracy
                              : fmax(rounded, parameters->close * parameters->close);
    level_search search = level_begin(fabs(guess) < INFINITY ? guess : whole, whole);
    bool jumped = power < 1.0 && !(fabs(guess) < INFINITY);
    /* Weights of such orders rise to their caps so fast that few keys of a row are open. */
    if (jumped) search = power_level(row, mu, top);
    kept_keys kept;
    begin_kept(row, &kept);
    double left = 0.0, open = 0.0, blur = 0.0;
    bool shut = false; /* keys at their caps hold all of the mass */
    if (!(k <= DBL_MAX) || !(fabs(top) <= DBL_MAX / 4.0)) return false;
    for (int iteration = 0; iteration < LEVELS; iteration++) {
        const double x = search.x;
        ota_capped_sums sums = power_sums_at(row, &kept, top, x);
        if (sink_y + x > 0.0) {
            sums.open += power_of(sink_y + x, power);
            sums.slope += power_of(sink_y + x, power - 1.0);
        }
        left = mu - sums.closed;
        open = sums.open;
        shut = open <= 0.0 && fabs(left) <= 4.0 * DBL_EPSILON * (double)(sums.full + 1) * mu;
        if (shut || fabs(open - left) <= enough * mu) break;
        /* Far from the top no level is nearer than this. */
        blur = 2.0 * DBL_EPSILON * fabs(x) * power * sums.slope;
        if (blur > BLURRED * mu && fabs(open - left) <= blur) break;
        const double norm = norm_of(open, power);
        const double step = 2.0 * open < mu
                                ? (left - open) / (power * sums.slope)
                                : (pow(left, 1.0 / power) - norm) / norm * (open / sums.slope);
        if (!level_next(&search, open - left, x + step)) break;
        if (search.stuck > STUCK) {
            if (jumped) break;
            jumped = true;
            search = power_level(row, mu, top);
        }
        kept.full_at[open > left] = sums.full;
        if (search.low > -INFINITY && search.high < INFINITY && is_worth_keeping(power, &kept))
            keep_between(row, top, &search, &kept);
    }
    const double apart = fabs(open - left);
    if (!shut && !(left > 0.0 && open > 0.0 && apart <= fmax(1.0e-9 * mu, blur))) return false;
    if (edge_row(row, mu, -top + search.x / k, p, found)) return true;
    const double sink = sink_y + search.x > 0.0 ? power_of(sink_y + search.x, power) : 0.0;
    const double factor = shut ? 1.0 : fit_powers(row, mu, top, search.x, sink, left / open, apart);
    const ota_capped_sums last = power_pass(row, top, -search.x, factor, p);
    found->potential = -top + search.x / k;
    found->sink = factor * sink;
    found->mass = last.closed + factor * last.open;
    return true;
}

static void plain_row(const capped_row *row, double mu, double top, real *p, ota_row_found *found) {
    double highest = INFINITY;
    const double room = room_of(row, &highest);
    const double slack = 4.0 * DBL_EPSILON * (double)(row->count + 1) * mu;
    found->infeasible = room < mu - slack;
    if (found->infeasible) {
        for (int64_t j = 0; j < row->count; j++) p[j] = (real)0;
        return;
    }
    const ota_capped_search search =
        room <= mu + slack
            ? (ota_capped_search){.f = highest, .low = highest, .high = highest, .most = INFINITY}
            : find_potential(row, mu, top, highest);
    if (room > mu + slack && edge_row(row, mu, search.f, p, found)) return;
    const ota_capped_totals sums = sums_at(row, search.f);
    const bool met = fabs(sums.closed + sums.open - mu) <= 1.0e-12 * mu;
    const double part = met ? -1.0 : ota_capped_part(&search, fmin(mu, room), room);
    if (part >= 0.0)
        write_between(row, &search, part, p, found);
    else
        write_weights(row, search.f, mu, p, found);
}

void WORD(ota_row_capped)(const ota_row_parameters *parameters, const real *s, const real *h,
                          int64_t count, double mu, double top, real *p, ota_row_found *found) {
    const capped_row row = {parameters, s, h, count, caps_of_line(parameters)};
    if (!(mu > 0.0)) {
        for (int64_t j = 0; j < count; j++) p[j] = (real)0;
        return;
    }
    if (parameters->regulariser->kind == OTA_HARD) {
        hard_weights(&row, mu, top, p, found);
        found->infeasible =
            found->mass + found->sink < mu - 4.0 * DBL_EPSILON * (double)(count + 1) * mu;
        return;
    }
    const bool thresholded = parameters->regulariser->thresholded;
    if (ota_is_heavy_tailed(parameters->regulariser) ||
        !(thresholded ? power_row : exponential_row)(&row, mu, top, p, found))
        plain_row(&row, mu, top, p, found);
}

void WORD(ota_row_capped_weights)(const ota_row_parameters *parameters, const real *s,
                                  const real *h, int64_t count, double f, real *p,
                                  ota_row_found *found) {
    const capped_row row = {parameters, s, h, count, caps_of_line(parameters)};
    const double tau = parameters->tau, shift = (double)(real)-f,
                 k = (parameters->order - 1.0) / tau;
    const bool thresholded = parameters->regulariser->thresholded;
    if (parameters->edge.known) {
        edge_weights(&row, &parameters->edge, f, 1.0, p, found);
        return;
    }
    if (parameters->regulariser->kind == OTA_HARD || ota_is_heavy_tailed(parameters->regulariser) ||
        !in_range(parameters, shift) || (thresholded && !(k <= DBL_MAX))) {
        write_weights(&row, f, 0.0, p, found);
        return;
    }
    const double factor = thresholded ? 1.0 : exp((f + shift) / tau);
    const ota_capped_sums sums =
        thresholded ? power_pass(&row, -f, 0.0, 1.0, p) : exponential_pass(&row, shift, factor, p);
    double rise;
    found->mass = sums.closed + factor * sums.open;
    if (parameters->sink > -INFINITY)
        found->sink = ota_capped_weight(parameters, parameters->sink, f, &rise);
    found->potential = f;
}
