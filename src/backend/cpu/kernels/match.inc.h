/* The search for a matching over all pairs of a dense matrix (backend/matching.h), in f64 alone. Pairs that attain a
 * minimum are found as bits, 64 columns at a time, without a branch a vector. */
#include "words/vector_cheapest.h"

/* Vectors of a short row: of at most 32 columns, fewer where it would take more registers than there are. Rows of at most two
 * are searched by two: `few` stands for a constant. Their prices and
 * distances stay in registers: what one step writes the next reads, and single numbers that go to memory cannot be read as
 * vectors before they have arrived. */
enum { FEW = LANES < 4 ? 4 : 32 / LANES };

static ALWAYS_INLINE void match_load_few(const ota_match *match, const double *from, double beyond,
                                         int few, vec to[FEW]) {
    for (int k = 0; k < few; k++)
        to[k] = k * LANES < match->padded ? vec_load(from + k * LANES) : vec_set(beyond);
}

/* Which of the `few` x have the value, as bits. */
static ALWAYS_INLINE uint64_t match_equal_few(const vec x[FEW], int few, vec value) {
    uint64_t bits = 0;
    for (int k = 0; k < few; k++)
        bits |= (uint64_t)mask_bits(mask_equal(x[k], value)) << (k * LANES);
    return bits;
}

/* x_j = value for first <= j < end, as bits from the lowest on; at most 64 columns */
static ALWAYS_INLINE uint64_t match_equal(const double *x, int64_t first, int64_t end, vec value) {
    uint64_t bits = 0;
    for (int64_t j = first; j < end; j += LANES)
        bits |= (uint64_t)mask_bits(mask_equal(vec_load(x + j), value)) << (j - first);
    return bits;
}

/* The cheapest row of each of `vectors` columns of lanes, at most TOGETHER, none of which waits for another, among rows before `end`,
 * of which those before `first` were seen; it lies in `distance`, as a number. `count` < LANES: of one vector that has so many.
 * Adds what shows whether the numbers are plain to *sum, NULL: does not. */
static ALWAYS_INLINE void match_cheapest_rows(ota_match_form form, ota_match *match, int64_t first,
                                              int64_t end, int64_t column, int vectors,
                                              int64_t count, vec *sum) {
    vec least[TOGETHER], who[TOGETHER], seen[TOGETHER];
    for (int k = 0; k < vectors; k++) {
        least[k] = first == 0 ? vec_set(INFINITY) : vec_load(match->price + column + k * LANES);
        who[k] = first == 0 ? vec_set(0.0) : vec_load(match->distance + column + k * LANES);
        seen[k] = vec_set(0.0);
    }
    const ota_match_costs costs = match->costs;
    for (int64_t i = first; i < end; i++) {
        const match_row numbers = match_row_of(form, &costs, i);
        const vec row = vec_set((double)i);
        for (int k = 0; k < vectors; k++) {
            const vec cost = match_costs_summed(&numbers, column + k * LANES, count,
                                                sum == NULL ? NULL : seen + k);
            who[k] = vec_select(mask_above(least[k], cost), row, who[k]);
            least[k] = vec_min(least[k], cost);
        }
    }
    for (int k = 0; k < vectors; k++) {
        vec_store(match->price + column + k * LANES, least[k]);
        vec_store(match->distance + column + k * LANES, who[k]);
        if (sum != NULL) *sum = vec_add(*sum, seen[k]);
    }
}

/* `unread`: are the costs? */
static ALWAYS_INLINE int64_t match_reduce_as(ota_match_form form, bool unread, ota_match *match) {
    enum { NEAR = 1 << 13 }; /* pairs that a processor keeps close at hand */
    const int64_t size = match->rows, padded = match->padded, width = match->costs.width;
    const int64_t step = ota_int_max(1, NEAR / padded);
    double *price = match->price, *cheapest = match->distance;
    int64_t j = 0;
    for (int64_t first = 0; first < size; first += step) {
        const int64_t end = ota_int_min(first + step, size);
        vec seen = vec_set(0.0), *sum = unread ? &seen : NULL;
        for (j = 0; j + TOGETHER * LANES <= width; j += TOGETHER * LANES)
            match_cheapest_rows(form, match, first, end, j, TOGETHER, LANES, sum);
        for (; j + LANES <= width; j += LANES)
            match_cheapest_rows(form, match, first, end, j, 1, LANES, sum);
        if (j < width) match_cheapest_rows(form, match, first, end, j, 1, width - j, sum);
        /* What is not finite may be a forbidden pair. */
        if (!unread || match_is_finite(seen)) continue;
        match->odd = !match_are_plain(form, &match->costs, first, end);
        if (match->odd) return 0;
    }
    match->unread = false;
    /* A store may change any pointer, as far as the compiler knows. */
    int32_t *const column_of = match->column_of, *const row_of = match->row_of,
                   *const next = match->next;
    for (j = size - 1; j >= 0; j--) {
        if (!(price[j] < INFINITY)) return -1;
        const int32_t i = (int32_t)cheapest[j];
        const bool first = column_of[i] < 0;
        column_of[i] = first ? (int32_t)j : column_of[i];
        row_of[j] = first ? i : -1;
    }
    for (j = size; j < padded; j++) price[j] = 0.0;
    int64_t left = 0;
    for (int64_t i = 0; i < size; i++) {
        next[left] = (int32_t)i;
        left += column_of[i] < 0;
    }
    return left;
}

/* The same of few columns, whose rows were copied: each row looks for the last column that it is cheapest of. */
static ALWAYS_INLINE int64_t match_reduce_few(ota_match *match, int few) {
    const int64_t size = match->rows, padded = match->padded;
    const vec infinite = vec_set(INFINITY);
    vec least[FEW], who[FEW], cost[FEW];
    for (int k = 0; k < few; k++) {
        least[k] = infinite;
        who[k] = vec_set(0.0);
    }
    for (int64_t i = 0; i < size; i++) {
        match_load_few(match, match->own + i * padded, INFINITY, few, cost);
        const vec row = vec_set((double)i);
        for (int k = 0; k < few; k++) {
            who[k] = vec_select(mask_above(least[k], cost[k]), row, who[k]);
            least[k] = vec_min(least[k], cost[k]);
        }
    }
    const uint64_t columns = ((uint64_t)1 << size) - 1;
    if ((match_equal_few(least, few, infinite) & columns) != 0) return -1;
    for (int k = 0; k * LANES < padded; k++)
        vec_store(match->price + k * LANES,
                  vec_select(mask_equal(least[k], infinite), vec_set(0.0), least[k]));
    int64_t left = 0;
    for (int64_t i = 0; i < size; i++) {
        const uint64_t bits = match_equal_few(who, few, vec_set((double)i)) & columns;
        match->next[left] = (int32_t)i;
        left += bits == 0;
        if (bits == 0) continue;
        const int32_t j = 63 - __builtin_clzll(bits);
        match->column_of[i] = j;
        match->row_of[j] = (int32_t)i;
    }
    return left;
}

static int64_t match_reduce(ota_match *match) {
    if (match->padded <= 2 * LANES) return match_reduce_few(match, 2);
    if (match->padded <= FEW * LANES) return match_reduce_few(match, FEW);
    switch (match->costs.form) {
    case OTA_MATCH_F64: return match_reduce_as(OTA_MATCH_F64, true, match);
    case OTA_MATCH_F32: return match_reduce_as(OTA_MATCH_F32, true, match);
    default:
        return match->unread ? match_reduce_as(OTA_MATCH_PLAIN, true, match)
                             : match_reduce_as(OTA_MATCH_PLAIN, false, match);
    }
}

/* x_j = value by a whole vector, as the next row reads it. */
static ALWAYS_INLINE void match_put(double *x, int64_t j, double value) {
    const int64_t lane = j % LANES;
    double *group = x + j - lane;
    vec_store(group, vec_select(mask_range(lane, lane + 1), vec_set(value), vec_load(group)));
}

/* What a row's bid for the column of `found` comes to; the row that lost its column, or -1: none did. `waits`: nor did the
 * bid win. `few`: prices are in registers, too. */
static ALWAYS_INLINE int32_t match_settle(ota_match *match, bool few, int32_t i,
                                          const match_cheapest *found, bool *waits) {
    const int32_t j = found->column, loser = j < 0 ? -1 : match->row_of[j];
    const bool alone = !(found->second < INFINITY);
    const double price = alone || j < 0 ? 0.0 : match->price[j] - (found->second - found->first);
    const bool falls = !alone && price < match->price[j];
    *waits = j < 0 || (loser >= 0 && !falls);
    if (*waits) return -1;
    if (falls && few) match->price[j] = price;
    if (falls && !few) match_put(match->price, j, price);
    match->column_of[i] = j;
    match->row_of[j] = i;
    if (loser >= 0) match->column_of[loser] = -1;
    return loser;
}

/* Rows of which none waits for the bid of another, and of what bid since they were searched the columns at their prices then. */
enum { AHEAD = 4 };
typedef struct match_ahead {
    match_cheapest found[AHEAD];
    int64_t first, end; /* places of waiting rows */
    int bids;
    int32_t column[AHEAD];
    double price[AHEAD];
} match_ahead;

/* Are `found` the two cheapest of the row still? They are of no column that was bid for. */
static ALWAYS_INLINE bool match_holds(ota_match_form form, const ota_match *match,
                                      const match_ahead *ahead, int32_t i,
                                      const match_cheapest *found) {
    bool holds = true;
    for (int k = 0; k < ahead->bids; k++) {
        const int32_t j = ahead->column[k];
        const double reduced = match_cost(form, &match->costs, i, j) - ahead->price[k];
        holds &= reduced > found->second;
    }
    return holds;
}

/* match_two of the unread row in a waiting place, with those of the next places. */
static ALWAYS_INLINE match_cheapest match_two_ahead(ota_match_form form, const ota_match *match,
                                                    match_ahead *ahead, int64_t place,
                                                    int64_t count) {
    const int32_t *waiting = match->waiting;
    if (place < ahead->end) {
        const match_cheapest *found = &ahead->found[place - ahead->first];
        if (match_holds(form, match, ahead, waiting[place], found)) return *found;
    }
    ahead->bids = 0;
    ahead->first = place;
    ahead->end = ota_int_min(place + AHEAD, count);
    for (int64_t k = place; k < ahead->end; k++) {
        const match_row row = match_row_of(form, &match->costs, waiting[k]);
        ahead->found[k - place] = match_two(match, &row, true);
    }
    return ahead->found[0];
}

/* `unread`: are the costs? */
static ALWAYS_INLINE int64_t match_bid_many(ota_match_form form, bool unread, ota_match *match,
                                            int64_t count, int64_t bids) {
    enum { TIED = 3 };
    const bool square = !unread && match->rows == match->columns;
    int64_t left = 0;
    int32_t *waiting = match->waiting;
    match_ahead ahead = {.end = 0};
    int ties = 0; /* so many rows before this one had several columns that cost 0 */
    for (int64_t k = 0; k < count;) {
        const int32_t i = waiting[k++];
        const match_row row = match_row_of(form, &match->costs, i);
        bool waits = bids-- <= 0;
        match_cheapest found = {0};
        if (!waits && !(ties >= TIED && match_two_free(match, &row, &found))) {
            found = unread ? match_two_ahead(form, match, &ahead, k - 1, count)
                           : match_two(match, &row, false);
            if (unread && found.column >= 0) {
                ahead.column[ahead.bids] = found.column;
                ahead.price[ahead.bids++] = match->price[found.column];
            }
            ties = square && !(found.second > 0.0) ? ties + 1 : 0;
            if (ties == TIED && !match->marked) match_mark_all(match);
        } else if (unread) {
            found.odd = !match_is_plain(&row, match->costs.width);
        }
        if (found.odd) {
            match->odd = true;
            return 0;
        }
        const int32_t loser = waits ? -1 : match_settle(match, false, i, &found, &waits);
        if (loser >= 0) {
            waiting[--k] = loser;
            ahead.end = 0;
        }
        if (waits)
            match->next[left++] = i;
        else
            match_mark(match, found.column);
    }
    match->unread = false;
    return left;
}

/* Cheapest and second cheapest of x[FEW] in each lane, which are overwritten: by halves, so that no vector waits for all
 * before it. */
static ALWAYS_INLINE void match_lowest(vec x[FEW], int few, vec *first, vec *second) {
    vec high[FEW];
    for (int k = 0; k < few; k++) high[k] = vec_set(INFINITY);
    for (int half = few / 2; half > 0; half /= 2) {
        for (int k = 0; k < half; k++) {
            high[k] = vec_min(vec_max(x[k], x[k + half]), vec_min(high[k], high[k + half]));
            x[k] = vec_min(x[k], x[k + half]);
        }
    }
    *first = x[0];
    *second = high[0];
}

/* match_two of a row at prices in registers, which fall as the bid will let them. */
static ALWAYS_INLINE match_cheapest match_two_few(const ota_match *match, const double *cost,
                                                  int few, vec price[FEW]) {
    vec reduced[FEW], scratch[FEW], first, second;
    match_load_few(match, cost, INFINITY, few, reduced);
    for (int k = 0; k < few; k++) scratch[k] = reduced[k] = vec_sub(reduced[k], price[k]);
    match_lowest(scratch, few, &first, &second);
    const double lowest = vec_reduce_min(first);
    match_cheapest found = {.first = lowest, .second = INFINITY, .column = -1};
    if (!(lowest < INFINITY)) return found;
    const vec value = vec_set(lowest);
    found.second = vec_reduce_min(vec_select(mask_equal(first, value), second, first));
    uint64_t bits = match_equal_few(reduced, few, value);
    found.column = __builtin_ctzll(bits);
    if ((bits & (bits - 1)) != 0) {
        found.second = lowest;
        for (; bits != 0; bits &= bits - 1) {
            if (match->row_of[__builtin_ctzll(bits)] >= 0) continue;
            found.column = __builtin_ctzll(bits);
            break;
        }
    }
    const vec fall = vec_set(found.second < INFINITY ? found.second - lowest : 0.0);
    for (int k = 0; k < few; k++)
        price[k] = vec_select(mask_equal(reduced[k], value), vec_sub(price[k], fall), price[k]);
    return found;
}

static ALWAYS_INLINE int64_t match_bid_few(ota_match *match, int64_t count, int64_t bids, int few) {
    int64_t left = 0;
    int32_t *waiting = match->waiting;
    vec price[FEW];
    match_load_few(match, match->price, 0.0, few, price);
    for (int64_t k = 0; k < count;) {
        const int32_t i = waiting[k++];
        bool waits = bids-- <= 0;
        if (!waits) {
            const match_cheapest found =
                match_two_few(match, match->own + i * match->padded, few, price);
            const int32_t loser = match_settle(match, true, i, &found, &waits);
            if (loser >= 0) waiting[--k] = loser;
        }
        if (waits) match->next[left++] = i;
    }
    return left;
}

static int64_t match_bid(ota_match *match, int64_t count, int64_t bids) {
    if (match->padded <= 2 * LANES) return match_bid_few(match, count, bids, 2);
    if (match->padded <= FEW * LANES) return match_bid_few(match, count, bids, FEW);
    const bool unread = match->unread;
    switch (match->costs.form) {
    case OTA_MATCH_F64:
        return unread ? match_bid_many(OTA_MATCH_F64, true, match, count, bids)
                      : match_bid_many(OTA_MATCH_F64, false, match, count, bids);
    case OTA_MATCH_F32:
        return unread ? match_bid_many(OTA_MATCH_F32, true, match, count, bids)
                      : match_bid_many(OTA_MATCH_F32, false, match, count, bids);
    default:
        return unread ? match_bid_many(OTA_MATCH_PLAIN, true, match, count, bids)
                      : match_bid_many(OTA_MATCH_PLAIN, false, match, count, bids);
    }
}

/* Lowers the distances of open columns through a row, whose own u makes `offset`; the least of them. Columns that are
 * reached have the price -inf and the distance +inf. */
static ALWAYS_INLINE double match_relax(ota_match_form form, ota_match *match, int32_t i,
                                        double offset) {
    /* A store may change any pointer, as far as the compiler knows. */
    const int64_t width = match->costs.width;
    const match_row row = match_row_of(form, &match->costs, i);
    const double *price = match->price;
    double *distance = match->distance;
    const vec own = vec_set(offset);
    vec least = vec_set(INFINITY);
    int64_t j = 0;
    for (; j + LANES <= width; j += LANES) {
        const vec reduced = vec_sub(match_costs(&row, j), vec_load(price + j));
        const vec now = vec_min(vec_load(distance + j), vec_sub(reduced, own));
        vec_store(distance + j, now);
        least = vec_min(least, now);
    }
    if (j < width) {
        const vec reduced = vec_sub(match_last_costs(&row, j, width - j), vec_load(price + j));
        const vec now = vec_min(vec_load(distance + j), vec_sub(reduced, own));
        vec_store(distance + j, now);
        least = vec_min(least, now);
    }
    return vec_reduce_min(least);
}

/* Moves all columns at distance `nearest` to `reached`; an unmatched one among them, or -1. */
static ALWAYS_INLINE int32_t match_collect(ota_match *match, double nearest, int64_t *count) {
    const vec value = vec_set(nearest);
    const int64_t old = *count, padded = match->padded;
    const double *distance = match->distance;
    int32_t *reached = match->reached;
    int64_t now = old;
    for (int64_t from = 0; from < padded; from += 64) {
        const int64_t end = ota_int_min(from + 64, padded);
        uint64_t bits = match_equal(distance, from, end, value);
        if (bits == 0) continue;
        const int32_t unmatched = match_unmatched(match, from, bits);
        if (unmatched >= 0) return unmatched;
        for (; bits != 0; bits &= bits - 1) reached[now++] = (int32_t)from + __builtin_ctzll(bits);
    }
    *count = now;
    /* By whole vectors: one that holds a single number written just before waits until that has arrived in memory. */
    for (int64_t k = old; k < now;) {
        const int64_t group = reached[k] - reached[k] % LANES;
        double *prices = match->price + group, *distances = match->distance + group;
        for (; k < now && reached[k] < group + LANES; k++) {
            match->kept[k] = match->price[reached[k]];
            match->final[k] = nearest;
        }
        const vec known = vec_load(distances);
        const vmask here = mask_equal(known, value);
        vec_store(prices, vec_select(here, vec_set(-INFINITY), vec_load(prices)));
        vec_store(distances, vec_select(here, vec_set(INFINITY), known));
    }
    return -1;
}

/* Turns the path that ends in column `end` at distance `nearest`. The row before a column is the first scanned one that gives
 * its distance, to the bit. */
static ALWAYS_INLINE void match_apply_path(ota_match_form form, ota_match *match, int32_t start,
                                           int32_t end, double nearest) {
    double price = match->price[end];
    for (int32_t j = end;;) {
        int64_t k = -1;
        int32_t i = start;
        double offset = 0.0;
        while ((match_cost(form, &match->costs, i, j) - price) - offset != nearest) {
            i = match->row_of[match->reached[++k]];
            offset = match->offset[k];
        }
        match->row_of[j] = i;
        match->column_of[i] = j;
        if (k < 0) return;
        j = match->reached[k];
        price = match->kept[k];
        nearest = match->final[k];
    }
}

/* Of the path to column `end`, -1: there is none, at distance `nearest`: turns it, and lets the prices of the `count` reached
 * columns fall. */
static ALWAYS_INLINE bool match_close(ota_match_form form, ota_match *match, int32_t start,
                                      int32_t end, double nearest, int64_t count) {
    if (end >= 0) match_apply_path(form, match, start, end, nearest);
    for (int64_t k = 0; k < count; k++) {
        const double change = end < 0 ? 0.0 : match->final[k] - nearest;
        match->price[match->reached[k]] = match->kept[k] + (change < 0.0 ? change : 0.0);
    }
    return end >= 0;
}

/* The row of the reached column in place k, whose own u makes its offset. */
static ALWAYS_INLINE int32_t match_scan(ota_match_form form, ota_match *match, int64_t k) {
    const int32_t j = match->reached[k], i = match->row_of[j];
    const double own = match_cost(form, &match->costs, i, j) - match->kept[k];
    match->offset[k] = own - match->final[k];
    return i;
}

static ALWAYS_INLINE bool match_augment_many(ota_match_form form, ota_match *match, int32_t start) {
    double *distance = match->distance;
    const int64_t padded = match->padded;
    for (int64_t j = 0; j < padded; j += LANES) vec_store(distance + j, vec_set(INFINITY));
    double nearest = match_relax(form, match, start, 0.0);
    int64_t count = 0, scanned = 0;
    int32_t end = -1;
    while (nearest < INFINITY && (end = match_collect(match, nearest, &count)) < 0) {
        double lowest = INFINITY;
        for (; scanned < count; scanned++) {
            const int32_t i = match_scan(form, match, scanned);
            lowest = match_relax(form, match, i, match->offset[scanned]);
        }
        nearest = lowest;
    }
    if (end >= 0) match_mark(match, end);
    return match_close(form, match, start, end, nearest, count);
}

/* match_relax of distances and prices in registers. */
static ALWAYS_INLINE double match_relax_few(const ota_match *match, int32_t row, double offset,
                                            int few, const vec price[FEW], vec distance[FEW]) {
    vec least[FEW];
    match_load_few(match, match->own + row * match->padded, INFINITY, few, least);
    const vec own = vec_set(offset);
    for (int k = 0; k < few; k++) {
        distance[k] = vec_min(distance[k], vec_sub(vec_sub(least[k], price[k]), own));
        least[k] = distance[k];
    }
    for (int half = few / 2; half > 0; half /= 2) {
        for (int k = 0; k < half; k++) least[k] = vec_min(least[k], least[k + half]);
    }
    return vec_reduce_min(least[0]);
}

/* match_collect of distances and prices in registers; the prices in memory stay. */
static ALWAYS_INLINE int32_t match_collect_few(ota_match *match, double nearest, int few,
                                               vec price[FEW], vec distance[FEW], int64_t *count) {
    const vec value = vec_set(nearest);
    int64_t now = *count;
    for (uint64_t bits = match_equal_few(distance, few, value); bits != 0; bits &= bits - 1) {
        const int32_t j = __builtin_ctzll(bits);
        if (match->row_of[j] < 0) return j;
        match->reached[now] = j;
        match->kept[now] = match->price[j];
        match->final[now++] = nearest;
    }
    *count = now;
    for (int k = 0; k < few; k++) {
        const vmask here = mask_equal(distance[k], value);
        price[k] = vec_select(here, vec_set(-INFINITY), price[k]);
        distance[k] = vec_select(here, vec_set(INFINITY), distance[k]);
    }
    return -1;
}

static ALWAYS_INLINE bool match_augment_few(ota_match *match, int32_t start, int few) {
    vec price[FEW], distance[FEW];
    match_load_few(match, match->price, 0.0, few, price);
    for (int k = 0; k < few; k++) distance[k] = vec_set(INFINITY);
    double nearest = match_relax_few(match, start, 0.0, few, price, distance);
    int64_t count = 0, scanned = 0;
    int32_t end = -1;
    while (nearest < INFINITY &&
           (end = match_collect_few(match, nearest, few, price, distance, &count)) < 0) {
        double lowest = INFINITY;
        for (; scanned < count; scanned++) {
            const int32_t i = match_scan(OTA_MATCH_PLAIN, match, scanned);
            lowest = match_relax_few(match, i, match->offset[scanned], few, price, distance);
        }
        nearest = lowest;
    }
    return match_close(OTA_MATCH_PLAIN, match, start, end, nearest, count);
}

static bool match_augment(ota_match *match, int32_t start) {
    if (match->padded <= 2 * LANES) return match_augment_few(match, start, 2);
    if (match->padded <= FEW * LANES) return match_augment_few(match, start, FEW);
    switch (match->costs.form) {
    case OTA_MATCH_F64: return match_augment_many(OTA_MATCH_F64, match, start);
    case OTA_MATCH_F32: return match_augment_many(OTA_MATCH_F32, match, start);
    default: return match_augment_many(OTA_MATCH_PLAIN, match, start);
    }
}

/* The larger of what was found and the size of costs up to `most`. */
static ALWAYS_INLINE vec match_small_of(vec found, vec cost, vec most) {
    const vec zero = vec_set(0.0), size = vec_max(cost, vec_sub(zero, cost));
    return vec_max(found, vec_select(mask_above(size, most), zero, size));
}

static ALWAYS_INLINE bool match_has_small_as(ota_match_form form, const ota_match *match,
                                             vec most) {
    const int64_t width = match->costs.width;
    vec found = vec_set(0.0);
    for (int64_t i = 0; i < match->rows; i++) {
        const match_row row = match_row_of(form, &match->costs, i);
        int64_t j = 0;
        for (; j + LANES <= width; j += LANES)
            found = match_small_of(found, match_costs(&row, j), most);
        if (j < width) found = match_small_of(found, match_last_costs(&row, j, width - j), most);
    }
    return vec_reduce_max(found) > 0.0;
}

static bool match_has_small(const ota_match *match, double most) {
    switch (match->costs.form) {
    case OTA_MATCH_F64: return match_has_small_as(OTA_MATCH_F64, match, vec_set(most));
    case OTA_MATCH_F32: return match_has_small_as(OTA_MATCH_F32, match, vec_set(most));
    default: return match_has_small_as(OTA_MATCH_PLAIN, match, vec_set(most));
    }
}

static const ota_match_passes match_passes = {.lanes = LANES,
                                              .take = match_take,
                                              .reduce = match_reduce,
                                              .bid = match_bid,
                                              .augment = match_augment,
                                              .has_small = match_has_small};
