/* Keys of a capped row, their caps, and hard rows; part of solve_capped_rows.c and capped_lists.c. x_j = s_j + h_j, in f64 whatever the type.
 *
 *     level   the largest x whose keys, with those above, have room for mu: keys above it are at their caps */
#ifndef OTA_CAPPED_KEYS_H
#define OTA_CAPPED_KEYS_H

#include "capped_rows.h"

#include <float.h>
#include <math.h>

#include "backend/cpu/real.h"

/* Numbers that change their type at once. */
enum { CHUNK = 256 };

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

static inline cap_line caps_of_line(const ota_row_parameters *parameters) {
    const ota_entry_caps *caps = &parameters->caps;
    const ota_array *array = caps->array;
    if (array == NULL) return (cap_line){.one = caps->cap};
    if (parameters->key_caps != NULL)
        return (cap_line){.data = parameters->key_caps, .type = OTA_F64, .stride = 1};
    const int axis = caps->transposed ? 2 : 3;
    if (array->size[axis] == 1 || array->stride[axis] == 0)
        return (cap_line){.one = ota_entry_cap(caps, parameters->line, 0)};
    const int64_t at[4] = {caps->batch, caps->head, parameters->line, parameters->line};
    int64_t first = 0;
    for (int k = 0; k < 4; k++) {
        if (k != axis && array->size[k] > 1) first += at[k] * array->stride[k];
    }
    return (cap_line){.data =
                          (const char *)array->data + first * (int64_t)ota_type_bytes(array->type),
                      .type = array->type,
                      .stride = array->stride[axis]};
}

static inline double cap_in_line(const cap_line *caps, int64_t j) {
    if (caps->data == NULL) return caps->one;
    const int64_t at = j * caps->stride;
    return caps->type == OTA_F32 ? (double)((const float *)caps->data)[at]
                                 : ((const double *)caps->data)[at];
}

static inline double lifted(const capped_row *row, int64_t j) {
    const double s = (double)row->s[j];
    return row->h == NULL ? s : s + (double)row->h[j];
}

static inline double cap_of(const capped_row *row, int64_t j) { return cap_in_line(&row->caps, j); }

/* Keys in f64: x, and caps where these are no one number. */
typedef struct wide_keys {
    const double *x, *caps;
    int64_t count;
} wide_keys;

/* Keys [first, first + CHUNK) of the row at most. */
static inline wide_keys widen(const capped_row *row, int64_t first, double *x, double *caps) {
    const int64_t count = ota_int_min(CHUNK, row->count - first);
    const real *s = row->s + first, *h = row->h == NULL ? NULL : row->h + first;
    for (int64_t i = 0; h == NULL && i < count; i++) x[i] = (double)s[i];
    for (int64_t i = 0; h != NULL && i < count; i++) x[i] = (double)s[i] + (double)h[i];
    for (int64_t i = 0; row->caps.data != NULL && i < count; i++) caps[i] = cap_of(row, first + i);
    return (wide_keys){x, row->caps.data == NULL ? NULL : caps, count};
}

/* ---- hard rows ---------------------------------------------------------------------------------- */

static inline ota_level_sums sums_above(const capped_row *row, double level) {
    ota_level_sums all = {0.0, INFINITY, -INFINITY};
    double x[CHUNK], caps[CHUNK];
    for (int64_t j = 0; j < row->count; j += CHUNK) {
        const wide_keys keys = widen(row, j, x, caps);
        const ota_kernels_f64_capped operands = {.s = keys.x,
                                                 .caps = keys.caps,
                                                 .count = keys.count,
                                                 .cap = row->caps.one,
                                                 .shift = level};
        const ota_level_sums sums = row->parameters->kernels->f64->capped->level(&operands);
        all.above += sums.above;
        all.least = fmin(all.least, sums.least);
        all.most = fmax(all.most, sums.most);
    }
    return all;
}

/* The largest of the keys' x that has room for mu with those above it, whose room is *above; the least of all where there is
 * none. `high` is the largest. The ends of the bracket are keys, and every pass moves one of them. */
static inline double find_level(const capped_row *row, double mu, double high, double *above) {
    /* Rounding of the sums is no reason to go on to a next key. */
    const double enough = mu * (1.0 - 4.0 * DBL_EPSILON);
    ota_level_sums at = sums_above(row, -INFINITY);
    double low = at.least, low_above = at.above;
    *above = 0.0;
    for (int iteration = 0; low < high; iteration++) {
        const double share = iteration % 2 == 0 ? (mu - *above) / (low_above - *above) : 0.5;
        double level = high - (high - low) * share;
        if (!(level >= low && level < high)) level = low;
        at = sums_above(row, level);
        if (at.above >= enough) {
            low = at.least;
            low_above = at.above;
        } else {
            high = at.most;
            *above = at.above;
        }
    }
    return high;
}

/* Keys above the level are full, those on it fill up in turn with what is left. */
static inline void write_hard_weights(const capped_row *row, double level, double left, real *p,
                                      ota_row_found *found) {
    double x[CHUNK], caps[CHUNK];
    for (int64_t j = 0; j < row->count; j += CHUNK) {
        /* A copy: p may be s. */
        const wide_keys keys = widen(row, j, x, caps);
        for (int64_t i = 0; i < keys.count; i++) {
            const double cap = keys.caps == NULL ? row->caps.one : keys.caps[i];
            double share = x[i] > level ? cap : 0.0;
            if (!(x[i] > level) && !(x[i] < level)) {
                share = fmin(cap, fmax(left, 0.0));
                left -= share;
            }
            found->mass += share;
            p[j + i] = (real)share;
        }
    }
}

/* A key as good as the sink comes first, then keys by place. */
static inline void hard_weights(const capped_row *row, double mu, double top, real *p,
                                ota_row_found *found) {
    const double sink = row->parameters->sink;
    if (sink > -INFINITY) {
        const ota_level_sums at = sums_above(row, nextafter(sink, -INFINITY));
        if (at.above < mu) {
            write_hard_weights(row, at.least, INFINITY, p, found);
            found->sink = mu - at.above;
            found->potential = -sink;
            return;
        }
    }
    double above = 0.0;
    const double level = find_level(row, mu, top, &above);
    write_hard_weights(row, level, mu - above, p, found);
    found->potential = -level;
}

#endif
