/* The search for a matching over all pairs of a dense matrix (backend/matching.h), in f64 alone. Pairs that attain a
 * minimum are found as bits, 64 columns at a time, without a branch a vector. */

/* ---- costs as they come ---- */

static bool match_take_f64(const ota_match_row *row, double *to) {
    const double *from = row->from;
    const vec factor = vec_set(row->factor), limit = vec_set(row->limit), zero = vec_set(0.0);
    const int64_t count = row->count, whole = count / LANES * LANES;
    /* 2^900 times this is infinite, and 0 times that is NaN. */
    const vec large = vec_set(0x1p124);
    vec odd = zero;
    int64_t j = 0;
    for (; j < whole; j += LANES) {
        const vec cost = vec_mul(vec_load(from + j), factor);
        odd = vec_fma(vec_mul(cost, large), zero, odd);
        vec_store(to + j, vec_min(cost, limit));
    }
    if (j < count) {
        const vec cost = vec_mul(vec_load_part(from + j, count - j), factor);
        odd = vec_fma(vec_mul(cost, large), zero, odd);
        vec_store(to + j,
                  vec_select(mask_range(0, count - j), vec_min(cost, limit), vec_set(INFINITY)));
        j += LANES;
    }
    for (; j < row->padded; j += LANES) vec_store(to + j, vec_set(INFINITY));
    return mask_count(mask_nan(odd)) == 0;
}

static bool match_take_f32(const ota_match_row *row, double *to) {
    const float *restrict from = row->from;
    double *restrict wide = to;
    for (int64_t j = 0; j < row->count; j++) wide[j] = (double)from[j];
    ota_match_row own = *row;
    own.from = to;
    return match_take_f64(&own, to);
}

/* ---- the search ---- */

/* x_j - v_j = value (v NULL: x_j = value) for first <= j < end, as bits from the lowest on; at most 64 columns */
static ALWAYS_INLINE uint64_t match_equal(const double *x, const double *v, int64_t first,
                                          int64_t end, vec value) {
    uint64_t bits = 0;
    for (int64_t j = first; j < end; j += LANES) {
        const vec at = v == NULL ? vec_load(x + j) : vec_sub(vec_load(x + j), vec_load(v + j));
        bits |= (uint64_t)mask_bits(mask_equal(at, value)) << (j - first);
    }
    return bits;
}

static int64_t match_reduce(ota_match *match) {
    const int64_t size = match->rows, padded = match->padded;
    double *price = match->price, *cheapest = match->distance;
    /* The cheapest row of each column lies in `distance`, as a number. */
    for (int64_t j = 0; j < padded; j += LANES) {
        const double *at = match->cost + j;
        vec least = vec_set(INFINITY), who = vec_set(0.0);
        for (int64_t i = 0; i < size; i++) {
            const vec cost = vec_load(at + i * padded);
            who = vec_select(mask_above(least, cost), vec_set((double)i), who);
            least = vec_min(least, cost);
        }
        vec_store(price + j, least);
        vec_store(cheapest + j, who);
    }
    for (int64_t j = size - 1; j >= 0; j--) {
        if (!(price[j] < INFINITY)) return -1;
        const int32_t i = (int32_t)cheapest[j];
        const bool first = match->column_of[i] < 0;
        match->column_of[i] = first ? (int32_t)j : match->column_of[i];
        match->row_of[j] = first ? i : -1;
    }
    for (int64_t j = size; j < padded; j++) price[j] = 0.0;
    int64_t left = 0;
    for (int64_t i = 0; i < size; i++) {
        match->next[left] = (int32_t)i;
        left += match->column_of[i] < 0;
    }
    return left;
}

typedef struct match_cheapest {
    double first, second;
    int32_t
        column; /* of `first`: an unmatched one where `second` is as low; -1: no pair is allowed */
} match_cheapest;

/* Where several are cheapest: the first unmatched column of them, or the first. */
static int32_t match_tied(const ota_match *match, const double *cost, double lowest) {
    int32_t column = -1;
    for (int64_t from = 0; from < match->padded; from += 64) {
        const int64_t end = ota_int_min(from + 64, match->padded);
        uint64_t bits = match_equal(cost, match->price, from, end, vec_set(lowest));
        for (; bits != 0; bits &= bits - 1) {
            const int32_t j = (int32_t)from + __builtin_ctzll(bits);
            if (match->row_of[j] < 0) return j;
            if (column < 0) column = j;
        }
    }
    return column;
}

static ALWAYS_INLINE match_cheapest match_two(const ota_match *match, const double *cost) {
    const double *price = match->price;
    vec first = vec_set(INFINITY), second = first, where = vec_set(0.0), at = where;
    for (int64_t j = 0; j < match->padded; j += LANES) {
        const vec reduced = vec_sub(vec_load(cost + j), vec_load(price + j));
        where = vec_select(mask_above(first, reduced), at, where);
        second = vec_min(second, vec_max(first, reduced));
        first = vec_min(first, reduced);
        at = vec_add(at, vec_set(LANES));
    }
    const double lowest = vec_reduce_min(first);
    match_cheapest found = {.first = lowest, .second = INFINITY, .column = -1};
    if (!(lowest < INFINITY)) return found;
    const vmask lanes = mask_equal(first, vec_set(lowest));
    const unsigned bits = mask_bits(lanes);
    found.second = vec_reduce_min(vec_select(lanes, second, first));
    if ((bits & (bits - 1)) != 0 || !(found.second > lowest)) {
        found.second = lowest;
        found.column = match_tied(match, cost, lowest);
        return found;
    }
    const int lane = __builtin_ctz(bits);
    double group[LANES];
    vec_store(group, where);
    found.column = (int32_t)group[lane] + lane;
    return found;
}

static int64_t match_bid(ota_match *match, int64_t count, int64_t bids) {
    int64_t left = 0;
    int32_t *waiting = match->waiting;
    for (int64_t k = 0; k < count;) {
        const int32_t i = waiting[k++];
        bool waits = bids-- <= 0;
        if (!waits) {
            const match_cheapest found = match_two(match, match->cost + i * match->padded);
            const int32_t j = found.column, loser = j < 0 ? -1 : match->row_of[j];
            const bool alone = !(found.second < INFINITY);
            const double price =
                alone || j < 0 ? 0.0 : match->price[j] - (found.second - found.first);
            const bool falls = !alone && price < match->price[j];
            waits = j < 0 || (loser >= 0 && !falls);
            if (!waits) {
                if (falls) match->price[j] = price;
                match->column_of[i] = j;
                match->row_of[j] = i;
                if (loser >= 0) {
                    match->column_of[loser] = -1;
                    waiting[--k] = loser;
                }
            }
        }
        if (waits) match->next[left++] = i;
    }
    return left;
}

/* Lowers the distances of open columns through a row, whose own u makes `offset`; the least of them. Columns that are
 * reached have the price -inf and the distance +inf. */
static ALWAYS_INLINE double match_relax(ota_match *match, int32_t row, double offset) {
    /* A store may change any pointer, as far as the compiler knows. */
    const int64_t padded = match->padded;
    const double *cost = match->cost + row * padded, *price = match->price;
    double *distance = match->distance;
    const vec own = vec_set(offset);
    vec least = vec_set(INFINITY);
    for (int64_t j = 0; j < padded; j += LANES) {
        const vec reduced = vec_sub(vec_load(cost + j), vec_load(price + j));
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
    for (int64_t from = 0; from < padded; from += 64) {
        const int64_t end = ota_int_min(from + 64, padded);
        uint64_t bits = match_equal(distance, NULL, from, end, value);
        for (; bits != 0; bits &= bits - 1) {
            const int32_t j = (int32_t)from + __builtin_ctzll(bits);
            if (match->row_of[j] < 0) {
                *count = old;
                return j;
            }
            match->reached[(*count)++] = j;
        }
    }
    for (int64_t k = old; k < *count; k++) {
        const int32_t j = match->reached[k];
        match->kept[k] = match->price[j];
        match->final[k] = nearest;
        match->price[j] = -INFINITY;
        match->distance[j] = INFINITY;
    }
    return -1;
}

/* Turns the path that ends in column `end` at distance `nearest`. The row before a column is the first scanned one that gives
 * its distance, to the bit. */
static void match_turn(ota_match *match, int32_t start, int32_t end, double nearest) {
    double price = match->price[end];
    for (int32_t j = end;;) {
        int64_t k = -1;
        int32_t i = start;
        double offset = 0.0;
        while ((match->cost[i * match->padded + j] - price) - offset != nearest) {
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

static bool match_augment(ota_match *match, int32_t start) {
    double *distance = match->distance;
    const int64_t padded = match->padded;
    for (int64_t j = 0; j < padded; j += LANES) vec_store(distance + j, vec_set(INFINITY));
    double nearest = match_relax(match, start, 0.0);
    int64_t count = 0, scanned = 0;
    int32_t end = -1;
    while (nearest < INFINITY && (end = match_collect(match, nearest, &count)) < 0) {
        double lowest = INFINITY;
        for (; scanned < count; scanned++) {
            const int32_t j = match->reached[scanned], i = match->row_of[j];
            const double own = match->cost[i * match->padded + j] - match->kept[scanned];
            match->offset[scanned] = own - match->final[scanned];
            lowest = match_relax(match, i, match->offset[scanned]);
        }
        nearest = lowest;
    }
    if (end >= 0) match_turn(match, start, end, nearest);
    for (int64_t k = 0; k < count; k++) {
        const double change = end < 0 ? 0.0 : match->final[k] - nearest;
        match->price[match->reached[k]] = match->kept[k] + (change < 0.0 ? change : 0.0);
    }
    return end >= 0;
}

static const ota_match_passes match_passes = {.lanes = LANES,
                                              .take = {match_take_f64, match_take_f32},
                                              .reduce = match_reduce,
                                              .bid = match_bid,
                                              .augment = match_augment};
