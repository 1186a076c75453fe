/* A row within entry caps as a list, compiled for each type: the keys with weight, those below their caps first.
 *
 * Where the threshold is known to lie at about L, keys more than a margin below L have no weight, and keys that stand at their caps
 * with a margin to spare stay there. What these leave is a row of the few keys between, x_j = s_j + h_j in f64:
 *
 *     sum_j min(c_j, w(x_j + f)) = mu - sum of the caps above,   L - margin <= -f <= L + margin
 *
 * If f comes out elsewhere, or L is not known, the whole row is solved. */
#include "capped_rows.h"

#include <math.h>
#include <string.h>

#include "backend/capped.h"
#include "backend/cpu/real.h"
#include "backend/cpu/rows/capped_keys.h"
#include "backend/kept_sum.h"

/* Weights of a level that is known are off by this share of the farthest that a key lies above its threshold, at most. */
static const double MARGIN = 1.0 / 256.0;

/* A row near its threshold. */
typedef struct near_row {
    capped_row row;
    const ota_row_room *room;
    double level, margin;
    double
        cap_level; /* how far above the threshold a key reaches its cap, of caps that are one number */
} near_row;

/* How far above the threshold a weight is as large as its cap. */
static double level_of_cap(const ota_row_parameters *parameters, double cap) {
    const double k = parameters->order - 1.0, reach = parameters->tau / k;
    if (k >= 1.0 && k <= 1.0) return reach * cap;
    if (k >= 0.5 && k <= 0.5) return reach * sqrt(cap);
    return ota_capped_level(parameters, cap);
}

/* Keys of the list at their caps whatever f comes out: cap into wide[i], else -1 there, and the key to room->between. Returns how many
 * are between; *closed: the sum of the caps. */
static int64_t split(const near_row *near, int64_t count, double margin, int64_t *full,
                     ota_kept_sum *closed) {
    const capped_row *row = &near->row;
    const ota_row_room *room = near->room;
    const real *kept = room->kept;
    const double from = near->level + margin;
    int64_t between = 0;
    *full = 0;
    *closed = (ota_kept_sum){0.0, 0.0};
    for (int64_t i = 0; i < count; i++) {
        const int64_t j = room->where[i];
        const double x = row->h == NULL ? (double)kept[i] : (double)kept[i] + (double)row->h[j];
        const double cap = cap_of(row, j);
        const double reach =
            row->caps.data == NULL ? near->cap_level : level_of_cap(row->parameters, cap);
        const bool shut = x - from >= reach;
        room->wide[i] = shut ? cap : -1.0;
        room->between[between] = x;
        room->caps[between] = cap;
        if (shut) ota_kept_add(closed, cap);
        *full += shut;
        between += !shut;
    }
    return between;
}

/* The keys that may have weight, and their weights, into kept and where, in their order; -1: the level is not near enough. */
static int64_t near_list(const near_row *near, double mu, ota_row_found *found) {
    const capped_row *row = &near->row;
    const ota_row_room *room = near->room;
    const double level = near->level, unit = sizeof(real) == sizeof(double) ? 1.0e-14 : 1.0e-6;
    const double floor = level - near->margin,
                 lowered = floor - unit * (fabs(level) + near->margin);
    ota_row_parameters parameters = *row->parameters;
    ota_kept_sum closed;
    int64_t full;
    if (!(near->margin > 0.0) || !(fabs(lowered) < (double)REAL_MAX)) return -1;
    real *kept = room->kept;
    const int64_t count =
        KERNELS(row->parameters)
            ->compact(row->s, row->h, row->count, (real)lowered, kept, room->where);
    int64_t between = split(near, count, near->margin, &full, &closed);
    double left = mu - ota_kept_value(&closed), top = parameters.sink;
    /* What rounding leaves of the mass tells no threshold. */
    if (!(left > 64.0 * DBL_EPSILON * (double)(full + 1) * mu)) {
        between = split(near, count, INFINITY, &full, &closed);
        left = mu;
    }
    for (int64_t i = 0; i < between; i++) top = fmax(top, room->between[i]);
    if (!(top > -INFINITY)) return -1;
    if (parameters.caps.array != NULL) parameters.key_caps = room->caps;
    parameters.close = 0.0;
    ota_row_capped_f64(&parameters, room->between, NULL, between, left, top, room->between, found);
    const double at = -found->potential;
    if (found->infeasible || !(at >= floor && at <= level + near->margin)) return -1;
    found->mass += mu - left;
    for (int64_t i = 0, k = 0; i < count; i++)
        kept[i] = (real)(room->wide[i] < 0.0 ? room->between[k++] : room->wide[i]);
    return count;
}

/* The weights of all keys become those of a list. */
static int64_t take_used(const capped_row *row, const ota_row_room *room) {
    real *kept = room->kept;
    int64_t count = 0;
    for (int64_t j = 0; j < row->count; j++) {
        const real p = kept[j];
        kept[count] = p;
        room->where[count] = (int32_t)j;
        count += p > (real)0;
    }
    return count;
}

/* Keys without weight leave, keys at their caps go behind the others. */
static int64_t put_caps_last(const capped_row *row, const ota_row_room *room, int64_t count,
                             int64_t *full) {
    real *kept = room->kept;
    int32_t *where = room->where;
    int64_t open = 0;
    *full = 0;
    for (int64_t i = 0; i < count; i++) {
        const int32_t j = where[i];
        const real p = kept[i];
        const bool at_cap = p >= (real)cap_of(row, j) && p > (real)0;
        room->wide[*full] = (double)p;
        room->full[*full] = j;
        kept[open] = p;
        where[open] = j;
        *full += at_cap;
        open += p > (real)0 && !at_cap;
    }
    for (int64_t i = 0; i < *full; i++) kept[open + i] = (real)room->wide[i];
    memcpy(where + open, room->full, (size_t)*full * sizeof *where);
    return open + *full;
}

int64_t WORD(ota_row_capped_list)(const ota_row_parameters *parameters, const real *s,
                                  const real *h, int64_t count, double mu, double top,
                                  const ota_row_room *room, ota_row_found *found) {
    const ota_row_found nothing = *found;
    near_row near = {.row = {parameters, s, h, count, caps_of_line(parameters)},
                     .room = room,
                     .level = parameters->threshold == NULL ? NAN : *parameters->threshold};
    int64_t listed = -1;
    if (fabs(near.level) < INFINITY) {
        near.margin = MARGIN * ota_capped_level(parameters, mu);
        near.cap_level = level_of_cap(parameters, near.row.caps.one);
        listed = near_list(&near, mu, found);
    }
    if (listed < 0) {
        ota_row_parameters alone = *parameters;
        alone.threshold = NULL;
        *found = nothing;
        row_capped(&alone, s, h, count, mu, top, room->kept, found);
        listed = take_used(&near.row, room);
    }
    return put_caps_last(&near.row, room, listed, &found->full);
}
