/* Passes over one row of scores and over matrices of scores: maxima, exponentials, sums, the steps of
 * the scaling methods and of entmax. Part of level.c. s + h is the score of a pair with the
 * column's potential added; lanes past the end of a row count as -inf. Sums run over at most RUN terms
 * a lane in T before they join an f64; sums of weights, of which one may outweigh all others, in short
 * runs of 8 that are then added. */

enum { SWEEP = RUN * LANES, ROWS_AT_ONCE = 4, LINEAR_ROWS = 8 };

static real maximum(const real *s, const real *h, int64_t count) {
    vec top = vec_set(NO_SCORE);
    for (int64_t j = 0; j < count; j += LANES) {
        top = vec_max_nan(load_scores(s, h, j, ota_int_min(LANES, count - j), 1), top);
    }
    return mask_count(mask_nan(top)) == 0 ? vec_reduce_max(top) : (real)NAN;
}

static real lowest(const real *s, int64_t count, int64_t *forbidden) {
    vec none = vec_set((real)INFINITY), low = none;
    *forbidden = 0;
    for (int64_t j = 0; j < count; j += LANES) {
        vec x = load_scores(s, NULL, j, ota_int_min(LANES, count - j), 1);
        vmask closed = mask_equal(x, vec_set(NO_SCORE));
        *forbidden += mask_count(closed);
        low = vec_min(low, vec_select(closed, none, x));
    }
    /* The lanes past the end count as closed. */
    *forbidden -= (LANES - count % LANES) % LANES;
    return -vec_reduce_max(vec_sub(vec_set(0), low));
}

static bool extent(const real *s, int64_t count, real *low, real *high) {
    enum { TWO = 2 * LANES };
    vec least[2], most[2], zero[2];
    for (int k = 0; k < 2; k++) {
        least[k] = vec_set((real)INFINITY);
        most[k] = vec_set((real)-INFINITY);
        zero[k] = vec_set(0);
    }
    int64_t j = 0;
    for (; j + TWO <= count; j += TWO) {
        for (int k = 0; k < 2; k++) {
            vec x = vec_load(s + j + k * LANES);
            least[k] = vec_min(x, least[k]);
            most[k] = vec_max(x, most[k]);
            zero[k] = vec_add(zero[k], vec_sub(x, x));
        }
    }
    *low = -vec_reduce_max(vec_sub(vec_set(0), vec_min(least[0], least[1])));
    *high = vec_reduce_max(vec_max(most[0], most[1]));
    real rest = vec_reduce_add(vec_add(zero[0], zero[1]));
    for (; j < count; j++) {
        *low = s[j] < *low ? s[j] : *low;
        *high = s[j] > *high ? s[j] : *high;
        rest += s[j] - s[j];
    }
    return count > 0 && rest >= 0;
}

static double exponentials(const real *s, const real *h, int64_t count, real shift, real c,
                           real *p) {
    total all = {0, 0};
    real prescale = score_prescale(c);
    vec from = vec_set(shift > NO_SCORE ? shift * prescale : shift < 0 ? 0 : shift);
    vec factor = vec_set(c / prescale);
    for (int64_t start = 0; start < count; start += SWEEP) {
        int64_t end = ota_int_min(start + SWEEP, count);
        vec sum = vec_set(0);
        for (int64_t run = start; run < end; run += SHORT) {
            vec part = vec_set(0);
            for (int64_t j = run; j < ota_int_min(run + SHORT, end); j += LANES) {
                int64_t lanes = ota_int_min(LANES, end - j);
                vec x = vec_sub(load_scores(s, h, j, lanes, prescale), from);
                vec weight = vec_exp2(vec_mul(x, factor));
                store_lanes(p + j, weight, lanes);
                part = vec_add(part, OTA_FAULT_OF(real, ROW_TAIL, weight,
                                                  lanes < LANES && j > 0 ? vec_set(0) : weight));
            }
            sum = vec_add(sum, part);
        }
        total_add(&all, (double)vec_reduce_add(sum));
    }
    return total_of(&all);
}

static void exp2_scaled(const real *s, const real *h, int64_t count, real shift, real c, real *p) {
    real prescale = score_prescale(c);
    vec from = vec_set(shift * prescale);
    vec factor = vec_set(c / prescale);
    for (int64_t j = 0; j < count; j += LANES) {
        int64_t lanes = ota_int_min(LANES, count - j);
        vec x = vec_sub(load_scores(s, h, j, lanes, prescale), from);
        store_lanes(p + j, vec_exp2_scaled(vec_mul(x, factor)), lanes);
    }
}

static void multiply(real *p, int64_t count, real factor) {
    for (int64_t j = 0; j < count; j++) p[j] *= factor;
}

static double sum(const real *p, int64_t count) {
    total all = {0, 0};
    for (int64_t start = 0; start < count; start += SWEEP) {
        int64_t end = ota_int_min(start + SWEEP, count);
        vec sum = vec_set(0);
        for (int64_t run = start; run < end; run += SHORT) {
            vec part = vec_set(0);
            for (int64_t j = run; j < ota_int_min(run + SHORT, end); j += LANES)
                part = vec_add(part, load_lanes(p + j, ota_int_min(LANES, end - j)));
            sum = vec_add(sum, part);
        }
        total_add(&all, (double)vec_reduce_add(sum));
    }
    return total_of(&all);
}

static void statistics(const real *p, int64_t count, double *p_log_p, int64_t *positive,
                       double *max) {
    total all = {0, 0};
    double largest = 0;
    int64_t above = 0;
    for (int64_t start = 0; start < count; start += RUN) {
        double part = 0;
        for (int64_t j = start; j < ota_int_min(start + RUN, count); j++) {
            double x = (double)p[j];
            if (x <= 0) continue;
            above++;
            part += x * log(x);
            largest = x <= largest ? largest : x;
        }
        total_add(&all, part);
    }
    *p_log_p = total_of(&all);
    *positive = above;
    *max = largest;
}

static void accumulate(const real *restrict p, int64_t count, double factor,
                       double *restrict column) {
    for (int64_t j = 0; j < count; j++) column[j] += factor * (double)p[j];
}

static void log_round(const log_round_operands *x) {
    const int64_t columns = x->columns;
    const real *const h = x->h;
    const real c = x->c, sink = x->sink;
    for (int64_t row = 0; row < x->rows; row++) {
        const real *s = x->s + row * x->lds;
        real top = maximum(s, h, columns);
        if (top <= NO_SCORE) {
            x->shift[row] = (double)NO_SCORE;
            x->sum[row] = 0;
            continue;
        }
        if (top < sink) top = sink;
        double total = exponentials(s, h, columns, top, c, x->scratch);
        if (sink > NO_SCORE) total += exp2(((double)sink - (double)top) * (double)c);
        x->shift[row] = (double)top;
        x->sum[row] = total;
        if (x->mass[row] > 0) accumulate(x->scratch, columns, x->mass[row] / total, x->column);
    }
}

static void columns_top(const real *s, int64_t lds, int64_t rows, int64_t columns, const double *f,
                        real *top) {
    for (int64_t row = 0; row < rows; row++) {
        if (f[row] <= (double)NO_SCORE) continue;
        vec potential = vec_set((real)f[row]);
        for (int64_t j = 0; j < columns; j += LANES) {
            int64_t lanes = ota_int_min(LANES, columns - j);
            vec x = vec_add(load_lanes(s + row * lds + j, lanes), potential);
            store_lanes(top + j, vec_max_nan(x, load_lanes(top + j, lanes)), lanes);
        }
    }
}

/* Adds the weights of up to ROWS_AT_ONCE rows to the column sums. */
static void columns_sum_group(const real *const *s, const real *f, int count, int64_t columns,
                              const real *top, real c, double *column) {
    vec factor = vec_set(c);
    for (int64_t j = 0; j < columns; j += LANES) {
        int64_t lanes = ota_int_min(LANES, columns - j);
        vec shift = load_lanes(top + j, lanes);
        shift = vec_select(mask_equal(shift, vec_set(NO_SCORE)), vec_set(0), shift);
        vec total = vec_set(0);
        for (int i = 0; i < count; i++) {
            vec x = vec_add(load_lanes(s[i] + j, lanes), vec_set(f[i]));
            total = vec_add(total, vec_exp2(vec_mul(vec_sub(x, shift), factor)));
        }
        accumulate_lanes(column + j, total, lanes);
    }
}

static void columns_sum(const real *s, int64_t lds, int64_t rows, int64_t columns, const double *f,
                        const real *top, real c, double *column) {
    const real *from[ROWS_AT_ONCE];
    real potential[ROWS_AT_ONCE];
    int count = 0;
    for (int64_t row = 0; row < rows; row++) {
        if (f[row] <= (double)NO_SCORE) continue;
        from[count] = s + row * lds;
        potential[count++] = (real)f[row];
        if (count == ROWS_AT_ONCE) {
            columns_sum_group(from, potential, ROWS_AT_ONCE, columns, top, c, column);
            count = 0;
        }
    }
    if (count > 0) columns_sum_group(from, potential, count, columns, top, c, column);
}

static int64_t kernel_form(const kernel_operands *operands) {
    const int64_t columns = operands->columns;
    const real *const h = operands->h;
    const real c = operands->c;
    int64_t vanished = 0;
    for (int64_t row = 0; row < operands->rows; row++) {
        const real *s = operands->s + row * operands->lds;
        real *kernel = operands->kernel + row * operands->ldk;
        vec potential = vec_set((real)operands->f[row]);
        for (int64_t j = 0; j < columns; j += LANES) {
            int64_t lanes = ota_int_min(LANES, columns - j);
            vec x = vec_add(load_scores(s, NULL, j, lanes, 1), potential);
            if (h) x = vec_add(x, load_lanes(h + j, lanes));
            vec weight = vec_exp2(vec_mul(x, vec_set(c)));
            store_lanes(kernel + j, weight, lanes);
            vmask flushed =
                mask_and(mask_above(x, vec_set(NO_SCORE)), mask_equal(weight, vec_set(0)));
            vanished += mask_count(flushed);
        }
    }
    return vanished;
}

/* `count` rows at a time, a constant where this is expanded, so that v and the columns are read once
 * for all of them; every row's own sum is formed the same way whatever the count. */
static ALWAYS_INLINE void linear_dots(int count, const real *kernel, int64_t ldk, const real *v,
                                      int64_t j, int64_t lanes, vec *part) {
    vec right = load_lanes(v + j, lanes);
    UNROLL for (int i = 0; i < count; i++) {
        part[i] = vec_fma(load_lanes(kernel + i * ldk + j, lanes), right, part[i]);
    }
}

/* Into which cache the rows of the next group are called while the columns of this one are added, a time in which
 * the first cache alone is read. Two groups of rows of 2 KB fit there, two halves of groups of 4 KB do not
 * quite, and vectors shorter than a line gain nothing by them; of longer rows the processor finds out by itself.
 * They are called in the order of memory: an address for each would take more registers than there are. */
typedef enum fetch { FETCH_NONE, FETCH_FIRST, FETCH_SECOND } fetch;

enum { FIRST_BYTES = 2 << 10, SECOND_BYTES = 4 << 10, LINE_BYTES = 64 };

static inline fetch fetch_of(int64_t columns) {
    const int64_t bytes = columns * (int64_t)sizeof(real);
    if (bytes <= FIRST_BYTES && 2 * sizeof(vec) >= LINE_BYTES) return FETCH_FIRST;
    return sizeof(vec) < LINE_BYTES || bytes > SECOND_BYTES ? FETCH_NONE : FETCH_SECOND;
}

static ALWAYS_INLINE void linear_columns(int count, fetch ahead, const round_operands *x,
                                         const real *next, const real *left, int64_t j,
                                         int64_t lanes) {
    vec part = vec_set(0);
    UNROLL for (int i = 0; i < count; i++) {
        part = vec_fma(load_lanes(x->kernel + i * x->ldk + j, lanes), vec_set(left[i]), part);
        const bool line = i * (int)sizeof(vec) % LINE_BYTES == 0;
        if (line && ahead == FETCH_FIRST) __builtin_prefetch(next + i * LANES, 0, 3);
        if (line && ahead == FETCH_SECOND) __builtin_prefetch(next + i * LANES, 0, 2);
    }
    accumulate_lanes(x->column + j, part, lanes);
}

/* The first `count` rows of x. With `reverse` u = mass r instead of mass / r. `next`: rows of the next group. */
static ALWAYS_INLINE void linear_group(int count, bool reverse, fetch ahead,
                                       const round_operands *x, const real *next) {
    /* A copy, so that no store can be taken for one into the operands. */
    const round_operands at = *x;
    const int64_t columns = at.columns;
    total dot[LINEAR_ROWS] = {{0, 0}};
    double row_sum[LINEAR_ROWS] = {0};
    real left[LINEAR_ROWS];
    const int64_t whole = columns / LANES * LANES;
    for (int64_t start = 0; start < columns; start += SWEEP) {
        int64_t end = ota_int_min(start + SWEEP, columns), full = ota_int_min(end, whole);
        vec part[LINEAR_ROWS], sum[LINEAR_ROWS];
        UNROLL for (int i = 0; i < count; i++) sum[i] = vec_set(0);
        for (int64_t run = start; run < end; run += SHORT) {
            const int64_t stop = ota_int_min(run + SHORT, full);
            UNROLL for (int i = 0; i < count; i++) part[i] = vec_set(0);
            for (int64_t j = run; j < stop; j += LANES)
                linear_dots(count, at.kernel, at.ldk, at.v, j, LANES, part);
            if (run + SHORT >= end && full < end)
                linear_dots(count, at.kernel, at.ldk, at.v, full, end - full, part);
            UNROLL for (int i = 0; i < count; i++) sum[i] =
                vec_add(sum[i], OTA_FAULT(KERNEL_ROUND, part[i], run > 0 ? vec_set(0) : part[i]));
        }
        UNROLL for (int i = 0; i < count; i++) row_sum[i] = (double)vec_reduce_add(sum[i]);
        /* A sum of one part carries no rest. */
        if (columns <= SWEEP) break;
        for (int i = 0; i < count; i++) {
            total_add(&dot[i], row_sum[i]);
            row_sum[i] = total_of(&dot[i]);
        }
    }
    for (int i = 0; i < count; i++) {
        const double mass = at.mass[i];
        if (at.sink) row_sum[i] += at.sink[i];
        at.u[i] = reverse ? mass * row_sum[i] : mass > 0 ? mass / row_sum[i] : 0;
        left[i] = (real)at.u[i];
    }
    for (int64_t j = 0; j < whole; j += LANES, next += count * LANES)
        linear_columns(count, ahead, &at, next, left, j, LANES);
    if (whole < columns) linear_columns(count, FETCH_NONE, &at, next, left, whole, columns - whole);
}

/* Groups of `count` rows from `row` on, as many as there are; returns the row after them. */
static ALWAYS_INLINE int64_t linear_groups(int count, bool reverse, fetch ahead,
                                           const round_operands *x, int64_t row) {
    round_operands at = *x;
    for (; row + count <= x->rows; row += count) {
        at.kernel = x->kernel + row * x->ldk;
        at.mass = x->mass + row;
        at.sink = x->sink ? x->sink + row : NULL;
        at.u = x->u + row;
        const bool more = row + 2 * count <= x->rows;
        linear_group(count, reverse, ahead, &at, more ? at.kernel + count * x->ldk : at.kernel);
    }
    return row;
}

static ALWAYS_INLINE void linear_rows(bool reverse, const round_operands *x) {
    int64_t row = 0;
    switch (fetch_of(x->columns)) {
    case FETCH_FIRST: row = linear_groups(LINEAR_ROWS, reverse, FETCH_FIRST, x, row); break;
    case FETCH_SECOND: row = linear_groups(LINEAR_ROWS / 2, reverse, FETCH_SECOND, x, row); break;
    case FETCH_NONE: row = linear_groups(LINEAR_ROWS, reverse, FETCH_NONE, x, row); break;
    }
    row = linear_groups(LINEAR_ROWS / 2, reverse, FETCH_NONE, x, row);
    (void)linear_groups(1, reverse, FETCH_NONE, x, row);
}

static void linear_round(const round_operands *x) { linear_rows(false, x); }

static void linear_reverse(const round_operands *x) { linear_rows(true, x); }

static void weights(const real *kernel, int64_t ldk, int64_t rows, int64_t columns, const real *v,
                    const double *u, real *p, int64_t ldp) {
    for (int64_t row = 0; row < rows; row++) {
        vec left = vec_set((real)u[row]);
        for (int64_t j = 0; j < columns; j += LANES) {
            int64_t lanes = ota_int_min(LANES, columns - j);
            vec x = vec_mul(load_lanes(kernel + row * ldk + j, lanes), load_lanes(v + j, lanes));
            store_lanes(p + row * ldp + j, vec_mul(x, left), lanes);
        }
    }
}

/* The threshold of entmax is an f64; in T it is two numbers, so that y near the threshold keeps it. */
typedef struct threshold {
    real shift, k, high, low;
} threshold;

static threshold threshold_of(real shift, real k, double t) {
    real high = (real)t;
    threshold at = {shift, k, high, isfinite(high) ? (real)(t - (double)high) : 0};
    return at;
}

/* a - b and what its rounding lost. */
static ALWAYS_INLINE vec vec_difference(vec a, vec b, vec *lost) {
    const vec d = vec_sub(a, b), from_b = vec_sub(a, d), from_a = vec_add(d, from_b);
    *lost = vec_add(vec_sub(a, from_a), vec_sub(from_b, b));
    return d;
}

/* y_j = max(0, ((s_j + h_j - shift) k - t)); NaN stays. `rest`: NULL, or what y_j has lost of the difference. */
static ALWAYS_INLINE vec above_threshold(const real *s, const real *h, int64_t j, int64_t lanes,
                                         const threshold *at, vec *rest) {
    vec x = vec_sub(load_scores(s, h, j, lanes, 1), vec_set(at->shift));
    x = vec_mul(x, vec_set(at->k));
    if (rest) {
        vec first, second;
        const vec y = vec_difference(x, vec_set(at->high), &first);
        const vec lower = vec_difference(y, vec_set(at->low), &second);
        *rest = vec_add(first, second);
        return vec_max(vec_set(0), lower);
    }
    return vec_max(vec_set(0), vec_sub(vec_sub(x, vec_set(at->high)), vec_set(at->low)));
}

/* The powers of entmax: p = 1, 2 and 4 (orders 2, 1.5 and 1.25) are products, p = 1/2 (order 3) is a root, whatever else takes
 * 2^(p log2 y); p < 0 where the order is below 1. */
typedef enum power_kind { LINEAR, SQUARE, FOURTH, ROOT, RISING, FALLING, INVERSE } power_kind;

static power_kind kind_of(double p) {
    return p == 1.0   ? LINEAR
           : p == 2.0 ? SQUARE
           : p == 4.0 ? FOURTH
           : p == 0.5 ? ROOT
           : p > 1.0  ? RISING
           : p > 0.0  ? FALLING
                      : INVERSE;
}

/* From which |p| on, of orders within 1/4 of 1, powers make more of a y that is rounded than of one with its rest. */
static bool is_steep(double p) { return p > 4.0 || p < -4.0; }

/* y^p and y^(p - 1) with 0^0 = 0, y >= 0, `rest` NULL or what y has lost; `by` is the exponent of the smaller power that is no product of the other,
 * so that neither overflows before it must: p - 1 where p > 1, else p. For p < 0, 0^p = inf and inf^p = 0. */
static ALWAYS_INLINE vec two_powers(power_kind kind, vec y, const vec *rest, const exponent *by,
                                    vec *lower) {
    const vec none = vec_set(0);
    const vmask above = mask_above(y, none);
    if (kind == LINEAR) {
        *lower = vec_set(1); /* their sum is a count */
        return y;
    }
    if (kind == SQUARE) {
        *lower = y;
        return vec_mul(y, y);
    }
    if (kind == FOURTH) {
        const vec square = vec_mul(y, y);
        *lower = vec_mul(square, y);
        return vec_mul(square, square);
    }
    if (kind == ROOT) {
        const vec root = vec_sqrt(y);
        *lower = vec_select(above, vec_div(vec_set(1), root), none);
        return root;
    }
    vec power = vec_power_of(y, rest, by);
    if (kind == RISING) {
        *lower = power;
        return vec_mul(power, y);
    }
    if (kind == INVERSE) {
        const vmask plain = mask_and(above, mask_above(vec_set((real)INFINITY), y));
        power = vec_select(plain, power, vec_div(vec_set(1), y));
        *lower = vec_div(power, y);
        return power;
    }
    *lower = vec_select(above, vec_div(power, y), none);
    return power;
}

/* Most vectors of a row have nothing above the threshold: no power is taken of those. */
static ALWAYS_INLINE bool all_below(power_kind kind, vec y) {
    return (kind == ROOT || kind == RISING || kind == FALLING) &&
           mask_count(mask_equal(y, vec_set(0))) == LANES;
}

/* `kind` is a constant where this is expanded. */
static ALWAYS_INLINE int64_t sums_of(power_kind kind, bool steep, const powers_operands *row,
                                     double *first, double *second) {
    const threshold at = threshold_of(row->shift, row->k, row->t);
    const exponent by = exponent_of(row->p > 1.0 ? row->p - 1.0 : row->p);
    const real *const s = row->s, *const h = row->h;
    const int64_t count = row->count;
    total totals[2] = {{0, 0}, {0, 0}};
    int64_t above = 0;
    for (int64_t start = 0; start < count; start += SWEEP) {
        int64_t end = ota_int_min(start + SWEEP, count);
        vec sum = vec_set(0), lowers = vec_set(0);
        for (int64_t j = start; j < end; j += LANES) {
            vec rest, *const kept = steep ? &rest : NULL, lower;
            const vec y = above_threshold(s, h, j, ota_int_min(LANES, end - j), &at, kept);
            if (all_below(kind, y)) continue;
            above += mask_count(mask_above(y, vec_set(0)));
            const vec power = two_powers(kind, y, kept, &by, &lower);
            const bool apart = kind == LINEAR || kind == ROOT || kind == FALLING || kind == INVERSE;
            sum = apart ? vec_add(sum, power) : vec_fma(lower, y, sum);
            if (kind != LINEAR) lowers = vec_add(lowers, lower);
        }
        total_add(&totals[0], (double)vec_reduce_add(sum));
        total_add(&totals[1], (double)vec_reduce_add(lowers));
    }
    *first = total_of(&totals[0]);
    *second = kind == LINEAR ? (double)above : total_of(&totals[1]);
    return above;
}

static int64_t power_sums(const powers_operands *x, double *first, double *second) {
    const bool steep = is_steep(x->p);
    switch (kind_of(x->p)) {
    case LINEAR: return sums_of(LINEAR, false, x, first, second);
    case SQUARE: return sums_of(SQUARE, false, x, first, second);
    case FOURTH: return sums_of(FOURTH, false, x, first, second);
    case ROOT: return sums_of(ROOT, false, x, first, second);
    case RISING:
        return steep ? sums_of(RISING, true, x, first, second)
                     : sums_of(RISING, false, x, first, second);
    case FALLING: return sums_of(FALLING, false, x, first, second);
    case INVERSE: break;
    }
    return steep ? sums_of(INVERSE, true, x, first, second)
                 : sums_of(INVERSE, false, x, first, second);
}

/* Outside products p itself is the exponent. */
static ALWAYS_INLINE double powers_of(power_kind kind, bool steep, const powers_operands *row,
                                      real factor, real *out) {
    const threshold at = threshold_of(row->shift, row->k, row->t);
    const exponent by = exponent_of(row->p);
    const real *const s = row->s, *const h = row->h;
    const int64_t count = row->count;
    total all = {0, 0};
    for (int64_t start = 0; start < count; start += SWEEP) {
        int64_t end = ota_int_min(start + SWEEP, count);
        vec sum = vec_set(0), lower;
        for (int64_t run = start; run < end; run += SHORT) {
            vec part = vec_set(0);
            for (int64_t j = run; j < ota_int_min(run + SHORT, end); j += LANES) {
                int64_t lanes = ota_int_min(LANES, end - j);
                vec rest, *const kept = steep ? &rest : NULL;
                vec y = above_threshold(s, h, j, lanes, &at, kept);
                if (!all_below(kind, y)) y = two_powers(kind, y, kept, &by, &lower);
                y = vec_mul(y, vec_set(factor));
                store_lanes(out + j, y, lanes);
                part = vec_add(part, y);
            }
            sum = vec_add(sum, part);
        }
        total_add(&all, (double)vec_reduce_add(sum));
    }
    return total_of(&all);
}

static double powers(const powers_operands *x, real factor, real *out) {
    const bool steep = is_steep(x->p);
    switch (kind_of(x->p)) {
    case LINEAR: return powers_of(LINEAR, false, x, factor, out);
    case SQUARE: return powers_of(SQUARE, false, x, factor, out);
    case FOURTH: return powers_of(FOURTH, false, x, factor, out);
    case ROOT: return powers_of(ROOT, false, x, factor, out);
    case RISING:
    case FALLING:
        return steep ? powers_of(FALLING, true, x, factor, out)
                     : powers_of(FALLING, false, x, factor, out);
    case INVERSE: break;
    }
    return steep ? powers_of(INVERSE, true, x, factor, out)
                 : powers_of(INVERSE, false, x, factor, out);
}
