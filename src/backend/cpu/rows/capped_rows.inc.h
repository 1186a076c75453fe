/* One row whose weights are capped, p_j <= c_j, body of capped_rows_f32.c and capped_rows_f64.c; x_j = s_j + h_j.
 *
 *     softmax, entmax   p_j = min(c_j, w(x_j + f)),  f fixed by sum p = mu: the sum rises with f, and is found by steps
 *                       that take the keys now at their caps to stay there, inside a bracket
 *     hard              the keys of largest x at their caps, the rest of mu on the next one
 *
 * The sink is one more key without a cap. The sums are passes in vectors: softmax in the type of the rows, entmax in f64,
 * as near the threshold a weight of an order above 2 has half the digits of x. Where caps have room for no more than mu,
 * where no key is open for several steps, or where numbers leave the type's range, plain loops in f64 do the row. */
#include "capped_rows.h"

#include <float.h>
#include <math.h>

#include "backend/capped.h"
#include "backend/cpu/real.h"
#include "backend/threshold.h"

/* LEVELS: passes of a row before plain loops do it. STUCK: those without an open key. CHUNK: numbers that change their type
 * at once. */
enum { LEVELS = 64, STUCK = 4, CHUNK = 256 };
/* e^-FAR of a sum is left of it in the type. */
static const double FAR = 30.0;
/* Of the sum, relative: weights of f32 are no better. */
static const double accuracy = sizeof(real) == sizeof(double) ? 4.0e-16 : 1.0e-9;

static const double log2_e = 1.4426950408889634;

/* Caps along a row: one number, or an array's. */
typedef struct cap_line {
    double one;
    const void *data; /* NULL: one */
    ota_type type;
    int64_t stride;
} cap_line;

typedef struct capped_row {
    const ota_row_parameters *parameters;
    const real *s, *h;
    int64_t count;
    cap_line caps;
} capped_row;

static cap_line caps_along(const ota_row_parameters *parameters) {
    const ota_entry_caps *caps = &parameters->caps;
    const ota_array *array = caps->array;
    if (array == NULL) return (cap_line){.one = caps->cap};
    const int along = caps->turned ? 2 : 3;
    if (array->size[along] == 1 || array->stride[along] == 0)
        return (cap_line){.one = ota_entry_cap(caps, parameters->line, 0)};
    const int64_t at[4] = {caps->batch, caps->head, parameters->line, parameters->line};
    int64_t first = 0;
    for (int k = 0; k < 4; k++) {
        if (k != along && array->size[k] > 1) first += at[k] * array->stride[k];
    }
    return (cap_line){.data =
                          (const char *)array->data + first * (int64_t)ota_type_bytes(array->type),
                      .type = array->type,
                      .stride = array->stride[along]};
}

static double cap_along(const cap_line *caps, int64_t j) {
    if (caps->data == NULL) return caps->one;
    const int64_t at = j * caps->stride;
    return caps->type == OTA_F32 ? (double)((const float *)caps->data)[at]
                                 : ((const double *)caps->data)[at];
}

static double lifted(const capped_row *row, int64_t j) {
    const double s = (double)row->s[j];
    return row->h == NULL ? s : s + (double)row->h[j];
}

static double cap_of(const capped_row *row, int64_t j) { return cap_along(&row->caps, j); }

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

static double find_potential(const capped_row *row, double mu, double top, double highest) {
    ota_capped_search search = ota_capped_begin(row->parameters, mu, row->count, top, highest);
    ota_capped_totals sums;
    do {
        sums = sums_at(row, search.f);
    } while (ota_capped_step(&search, row->parameters, mu, &sums));
    return search.f;
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

/* ---- where the sum is mu ------------------------------------------------------------------------ */

/* The level x of a row, which its sum rises with. Newton's steps while each halves the miss; else the chord of the
 * bracket, whose older end counts half when it stays; before there is a bracket, steps that double. */
typedef struct level_search {
    double x, low, high, low_miss, high_miss, miss, step;
    int side, turns;
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
    if (between && (!(next > search->low && next < search->high) || ++search->turns % 8 == 0))
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
    for (int64_t j = 0; j < count; j++) room[j] = (real)cap_along(caps, first + j);
    return room;
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
                                              .k = (real)(log2_e / row->parameters->tau),
                                              .factor = (real)factor,
                                              .out = p == NULL ? NULL : p + j};
        const ota_capped_sums sums = KERNELS(row->parameters)->capped_exponentials(&operands);
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

/* With the keys at their caps known, factor = left / open. True, with the weights in p, unless plain loops must do the
 * row. */
static bool exponential_row(const capped_row *row, double mu, double top, real *p,
                            ota_row_found *found) {
    exponential_level at = {.shift = (double)(real)top};
    if (!in_range(row->parameters, at.shift)) return false;
    /* With a factor of 0 every key is open. */
    const double sum = exponential_pass(row, at.shift, 0.0, NULL).open;
    level_search search = level_begin(log(mu / (sum + sink_at(row->parameters, at.shift))), 1.0);
    for (int turn = 0; turn < LEVELS && exponential_at(row, top, search.x, &at); turn++) {
        const double open = at.factor * (at.sums.open + at.sink), left = mu - at.sums.closed;
        if (fabs(open - left) <= accuracy * mu && left > 0.0 && open > 0.0) {
            const double factor = left / (at.sums.open + at.sink);
            const ota_capped_sums last = exponential_pass(row, at.shift, factor, p);
            found->potential = row->parameters->tau * log(factor) - at.shift;
            found->sink = factor * at.sink;
            found->mass = last.closed + factor * last.open;
            return true;
        }
        /* From below, where more keys will reach their caps, the slope at x goes further than that. */
        const double ahead = search.high < INFINITY ? log(left / open) : left / open - 1.0;
        if (!level_next(&search, open - left, search.x + ahead) || search.stuck > STUCK) break;
    }
    return false;
}

/* Weights factor y^p of thresholds t for x - top in units of tau / (order - 1), in f64. */
static ota_capped_sums power_pass(const capped_row *row, double top, double t, double factor,
                                  real *p) {
    const double k = (row->parameters->order - 1.0) / row->parameters->tau;
    ota_capped_sums all = {0};
    double x[CHUNK], caps[CHUNK], out[CHUNK];
    for (int64_t j = 0; j < row->count; j += CHUNK) {
        const int64_t count = ota_int_min(CHUNK, row->count - j);
        for (int64_t i = 0; i < count; i++) x[i] = lifted(row, j + i);
        for (int64_t i = 0; row->caps.data != NULL && i < count; i++) caps[i] = cap_of(row, j + i);
        const ota_kernels_f64_capped operands = {.s = x,
                                                 .caps = row->caps.data == NULL ? NULL : caps,
                                                 .count = count,
                                                 .cap = row->caps.one,
                                                 .shift = top,
                                                 .k = k,
                                                 .factor = factor,
                                                 .t = t,
                                                 .p = 1.0 / (row->parameters->order - 1.0),
                                                 .out = p == NULL ? NULL : out};
        const ota_capped_sums sums = row->parameters->kernels->f64->capped_powers(&operands);
        add_sums(&all, &sums);
        for (int64_t i = 0; p != NULL && i < count; i++) p[j + i] = (real)out[i];
    }
    return all;
}

/* x = -t: Newton's steps on the p-norm of the open keys, or on their sum where keys at their caps hold most of the mass. */
static bool power_row(const capped_row *row, double mu, double top, real *p, ota_row_found *found) {
    const ota_row_parameters *parameters = row->parameters;
    const double power = 1.0 / (parameters->order - 1.0), k = 1.0 / (power * parameters->tau);
    const double sink_y = (parameters->sink - top) * k, whole = pow(mu, 1.0 / power);
    level_search search = level_begin(whole, whole);
    double left = 0.0, open = 0.0;
    if (!(k <= DBL_MAX) || !(fabs(top) <= DBL_MAX / 4.0)) return false;
    for (int turn = 0; turn < LEVELS; turn++) {
        const double x = search.x;
        ota_capped_sums sums = power_pass(row, top, -x, 1.0, NULL);
        if (sink_y + x > 0.0) {
            sums.open += power_of(sink_y + x, power);
            sums.slope += power_of(sink_y + x, power - 1.0);
        }
        left = mu - sums.closed;
        open = sums.open;
        if (fabs(open - left) <= accuracy * mu) break;
        const double norm = norm_of(open, power);
        const double step = 2.0 * open < mu
                                ? (left - open) / (power * sums.slope)
                                : (pow(left, 1.0 / power) - norm) / norm * (open / sums.slope);
        if (!level_next(&search, open - left, x + step) || search.stuck > STUCK) break;
    }
    if (!(left > 0.0) || !(open > 0.0) || !(fabs(open - left) <= 1.0e-9 * mu)) return false;
    /* What rounding left of the threshold is spread over the keys that are not at their caps. */
    const double factor = left / open;
    const ota_capped_sums last = power_pass(row, top, -search.x, factor, p);
    found->potential = -top + search.x / k;
    found->sink = sink_y + search.x > 0.0 ? factor * power_of(sink_y + search.x, power) : 0.0;
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
    const double f = room <= mu + slack ? highest : find_potential(row, mu, top, highest);
    write_weights(row, f, mu, p, found);
}

void WORD(ota_row_capped)(const ota_row_parameters *parameters, const real *s, const real *h,
                          int64_t count, double mu, double top, real *p, ota_row_found *found) {
    const capped_row row = {parameters, s, h, count, caps_along(parameters)};
    if (!(mu > 0.0)) {
        for (int64_t j = 0; j < count; j++) p[j] = (real)0;
        return;
    }
    if (parameters->regulariser->kind == OTA_HARD) {
        hard_weights(&row, mu, p, found);
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
    const capped_row row = {parameters, s, h, count, caps_along(parameters)};
    const double tau = parameters->tau, shift = (double)(real)-f,
                 k = (parameters->order - 1.0) / tau;
    const bool thresholded = parameters->regulariser->thresholded;
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
