/* The two cheapest columns of a row of costs at their prices (backend/matching.h), and which columns have rows. */
#ifndef OTA_VECTOR_CHEAPEST_H
#define OTA_VECTOR_CHEAPEST_H

#include "vector_costs.h"

/* Many columns are tied: marks those that have rows, from now on. */
static void match_mark_all(ota_match *match) {
    match->marked = true;
    const int32_t *row_of = match->row_of;
    for (int64_t from = 0; from < match->padded; from += 64) {
        const int64_t count = ota_int_min(64, match->padded - from);
        uint64_t bits = 0;
        for (int64_t j = 0; j < count; j++) bits |= (uint64_t)(row_of[from + j] >= 0) << j;
        match->taken[from / 64] = bits;
    }
}

/* Column j has a row now. */
static ALWAYS_INLINE void match_mark(ota_match *match, int64_t j) {
    if (match->marked) match->taken[j / 64] |= (uint64_t)1 << (j % 64);
}

/* The first column without a row of those from `from` on that have bits; -1: there is none. */
static ALWAYS_INLINE int32_t match_unmatched(const ota_match *match, int64_t from, uint64_t bits) {
    if (match->marked) {
        bits &= ~match->taken[from / 64];
        return bits == 0 ? -1 : (int32_t)from + __builtin_ctzll(bits);
    }
    for (; bits != 0; bits &= bits - 1) {
        const int32_t j = (int32_t)from + __builtin_ctzll(bits);
        if (match->row_of[j] < 0) return j;
    }
    return -1;
}

typedef struct match_cheapest {
    double first, second;
    int32_t
        column; /* of `first`: an unmatched one where `second` is as low; -1: no pair is allowed */
    bool odd;   /* the row's numbers were looked at, and are not plain: nothing else is known */
} match_cheapest;

/* Columns first <= j < end of a row that cost `value` at their prices, as bits from the lowest on; at most 64. */
static ALWAYS_INLINE uint64_t match_equal_reduced(const match_row *row, const double *price,
                                                  int64_t first, int64_t end, vec value) {
    uint64_t bits = 0;
    int64_t j = first;
    for (; j + LANES <= end; j += LANES) {
        const vec reduced = vec_sub(match_costs(row, j), vec_load(price + j));
        bits |= (uint64_t)mask_bits(mask_equal(reduced, value)) << (j - first);
    }
    if (j == end) return bits;
    const vec last = vec_sub(match_last_costs(row, j, end - j), vec_load(price + j));
    return bits | (uint64_t)mask_bits(mask_equal(last, value)) << (j - first);
}

/* Where several are cheapest: the first unmatched column of them, or the first. */
static ALWAYS_INLINE int32_t match_tied(const ota_match *match, const match_row *row,
                                        double lowest) {
    const int64_t width = match->costs.width;
    int32_t column = -1;
    for (int64_t from = 0; from < width; from += 64) {
        const int64_t end = ota_int_min(from + 64, width);
        const uint64_t bits = match_equal_reduced(row, match->price, from, end, vec_set(lowest));
        const int32_t unmatched = match_unmatched(match, from, bits);
        if (unmatched >= 0) return unmatched;
        if (bits != 0 && column < 0) column = (int32_t)from + __builtin_ctzll(bits);
    }
    return column;
}

typedef struct match_lanes {
    vec first, second,
        where; /* of each lane the cheapest, the second cheapest, and the column of the cheapest, less its lane */
} match_lanes;

static ALWAYS_INLINE void match_offer(match_lanes *lanes, vec reduced, vec at) {
    lanes->where = vec_select(mask_above(lanes->first, reduced), at, lanes->where);
    lanes->second = vec_min(lanes->second, vec_max(lanes->first, reduced));
    lanes->first = vec_min(lanes->first, reduced);
}

/* Of the vectors at columns from, from + step, ...; adds what shows whether their numbers are plain to *sum, NULL: does not. */
static ALWAYS_INLINE match_lanes match_two_of(const ota_match *match, const match_row *row,
                                              int64_t from, int64_t step, vec *sum) {
    const int64_t width = match->costs.width;
    match_lanes lanes = {vec_set(INFINITY), vec_set(INFINITY), vec_set(0.0)};
    vec at = vec_set((double)from);
    int64_t j = from;
    for (; j + LANES <= width; j += step) {
        const vec cost = match_costs_summed(row, j, LANES, sum);
        match_offer(&lanes, vec_sub(cost, vec_load(match->price + j)), at);
        at = vec_add(at, vec_set((double)step));
    }
    if (j < width) {
        const vec last = match_costs_summed(row, j, width - j, sum);
        match_offer(&lanes, vec_sub(last, vec_load(match->price + j)), at);
    }
    return lanes;
}

static const match_cheapest match_odd = {.odd = true};

/* Of a row of few vectors. */
static ALWAYS_INLINE match_cheapest match_two_short(const ota_match *match, const match_row *row,
                                                    bool unread) {
    vec seen = vec_set(0.0), *sum = unread ? &seen : NULL;
    /* Every other vector has lanes of its own, so that none waits for the one before. */
    const match_lanes even = match_two_of(match, row, 0, 2 * LANES, sum),
                      uneven = match_two_of(match, row, LANES, 2 * LANES, sum);
    if (unread && !match_is_finite(seen) && !match_is_plain(row, match->costs.width))
        return match_odd;
    const vec where = vec_select(mask_above(even.first, uneven.first), uneven.where, even.where);
    const vec second =
        vec_min(vec_max(even.first, uneven.first), vec_min(even.second, uneven.second));
    const vec first = vec_min(even.first, uneven.first);
    const double lowest = vec_reduce_min(first);
    match_cheapest found = {.first = lowest, .second = INFINITY, .column = -1};
    if (!(lowest < INFINITY)) return found;
    const vmask lanes = mask_equal(first, vec_set(lowest));
    const unsigned bits = mask_bits(lanes);
    found.second = vec_reduce_min(vec_select(lanes, second, first));
    if ((bits & (bits - 1)) != 0 || !(found.second > lowest)) {
        found.second = lowest;
        found.column = match_tied(match, row, lowest);
        return found;
    }
    const int lane = __builtin_ctz(bits);
    double group[LANES];
    vec_store(group, where);
    found.column = (int32_t)group[lane] + lane;
    return found;
}

/* Vectors of a long row that are apart: the more, the fewer are read again. */
enum { CLASSES = 8 };

/* The least of every eighth vector are in lanes of their own. So the second cheapest of all is the least of the other lanes, or
 * among those vectors, which are read again. */
static ALWAYS_INLINE match_cheapest match_two_long(const ota_match *match, const match_row *row,
                                                   bool unread) {
    const double *price = match->price;
    const int64_t width = match->costs.width;
    const vec infinite = vec_set(INFINITY);
    vec least[CLASSES];
    for (int k = 0; k < CLASSES; k++) least[k] = infinite;
    const vec zero = vec_set(0.0);
    vec sum[TOGETHER] = {zero, zero, zero, zero};
    int64_t j = 0;
    for (; j + CLASSES * LANES <= width; j += CLASSES * LANES) {
        for (int k = 0; k < CLASSES; k++) {
            const vec cost =
                match_costs_summed(row, j + k * LANES, LANES, unread ? sum + k % TOGETHER : NULL);
            least[k] = vec_min(least[k], vec_sub(cost, vec_load(price + j + k * LANES)));
        }
    }
    UNROLL for (int k = 0; k < CLASSES; k++, j += LANES) {
        if (j >= width) break;
        const int64_t count = ota_int_min(width - j, LANES);
        const vec cost = match_costs_summed(row, j, count, unread ? sum + k % TOGETHER : NULL);
        least[k] = vec_min(least[k], vec_sub(cost, vec_load(price + j)));
    }
    if (unread && !match_are_finite(sum) && !match_is_plain(row, width)) return match_odd;
    vec half[CLASSES / 2];
    for (int k = 0; k < CLASSES / 2; k++) half[k] = vec_min(least[k], least[k + CLASSES / 2]);
    const double lowest =
        vec_reduce_min(vec_min(vec_min(half[0], half[1]), vec_min(half[2], half[3])));
    match_cheapest found = {.first = lowest, .second = INFINITY, .column = -1};
    if (!(lowest < INFINITY)) return found;
    const vec value = vec_set(lowest);
    uint64_t classes = 0;
    vec others = infinite;
    for (int k = 0; k < CLASSES; k++) {
        const vmask here = mask_equal(least[k], value);
        classes |= (uint64_t)mask_bits(here) << k * LANES;
        others = vec_min(others, vec_select(here, infinite, least[k]));
    }
    const int one = __builtin_ctzll(classes);
    if ((classes & (classes - 1)) == 0) {
        const match_lanes lanes =
            match_two_of(match, row, one / LANES * LANES, CLASSES * LANES, NULL);
        double second[LANES], where[LANES];
        vec_store(second, lanes.second);
        vec_store(where, lanes.where);
        const double nearer = second[one % LANES], other = vec_reduce_min(others);
        found.second = nearer < other ? nearer : other;
        found.column = (int32_t)where[one % LANES] + one % LANES;
        if (found.second > lowest) return found;
    }
    found.second = lowest;
    found.column = match_tied(match, row, lowest);
    return found;
}

static ALWAYS_INLINE match_cheapest match_two(const ota_match *match, const match_row *row,
                                              bool unread) {
    enum { SHORT = 24 }; /* vectors */
    return match->costs.width > SHORT * LANES ? match_two_long(match, row, unread)
                                              : match_two_short(match, row, unread);
}

/* match_two of a row where several columns cost 0, the least there is in a square matrix once it is reduced: reads no further than
 * to one that is unmatched. False: it is not such a row. */
static ALWAYS_INLINE bool match_two_free(const ota_match *match, const match_row *row,
                                         match_cheapest *found) {
    const int64_t width = match->costs.width;
    int zeros = 0;
    int32_t column = -1;
    bool unmatched = false;
    for (int64_t from = 0; from < width && !(unmatched && zeros > 1); from += 64) {
        const int64_t end = ota_int_min(from + 64, width);
        const uint64_t bits = match_equal_reduced(row, match->price, from, end, vec_set(0.0));
        zeros += __builtin_popcountll(bits);
        if (unmatched || bits == 0) continue;
        const int32_t j = match_unmatched(match, from, bits);
        unmatched = j >= 0;
        if (unmatched || column < 0) column = unmatched ? j : (int32_t)from + __builtin_ctzll(bits);
    }
    *found = (match_cheapest){.column = column};
    return zeros > 1;
}

#endif
