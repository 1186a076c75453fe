/* Tokens to experts (backend/route_kernels.h). Part of level.c.
 *
 * The largest numbers of LANES rows are found at once, a row a lane: the rows are transposed, and every number passes down a falling
 * list, the larger of each meeting staying. The last of the list is a row's threshold, and what reaches it is taken. */

/* One vector a row becomes one number a lane: the tree of the transposed vectors. */
static ALWAYS_INLINE vec route_across(bool largest, vec *x) {
    vec_transpose(x);
    UNROLL for (int half = LANES / 2; half > 0; half /= 2) {
        UNROLL for (int r = 0; r < half; r++) x[r] =
            largest ? vec_max(x[r], x[r + half]) : vec_add(x[r], x[r + half]);
    }
    return x[0];
}

/* Kernel and sums of LANES short rows. A logit that is not finite leaves NaN in the answer. */
static ALWAYS_INLINE vec route_form_group(const real *s, int64_t stride, const ota_route_block *b,
                                          real *kernel, double *sums) {
    const int64_t whole = b->experts / LANES * LANES, rest = b->experts - whole;
    const vmask here = mask_range(0, rest);
    const vec none = vec_set((real)-INFINITY), factor = vec_set(LOG2_E);
    vec x[LANES], nonfinite = vec_set(0);
    real top[LANES], sum[LANES];
    UNROLL for (int r = 0; r < LANES; r++) {
        vec most = none;
        for (int64_t j = 0; j < whole; j += LANES) {
            const vec score = vec_load(s + r * stride + j);
            most = vec_max(score, most);
            nonfinite = vec_add(nonfinite, vec_sub(score, score));
        }
        if (rest > 0) {
            const vec score = vec_load_part(s + r * stride + whole, rest);
            most = vec_max(vec_select(here, score, none), most);
            nonfinite = vec_add(nonfinite, vec_sub(score, score));
        }
        x[r] = most;
    }
    vec_store(top, route_across(true, x));
    UNROLL for (int r = 0; r < LANES; r++) {
        const vec from = vec_set(top[r]);
        real *row = kernel + r * b->stride;
        vec part = vec_set(0);
        for (int64_t j = 0; j < whole; j += LANES) {
            const vec below = vec_sub(vec_load(s + r * stride + j), from);
            const vec weight = vec_exp2_down(vec_mul(below, factor));
            vec_store(row + j, weight);
            part = vec_add(part, weight);
        }
        if (rest > 0) {
            const vec below = vec_sub(vec_load_part(s + r * stride + whole, rest), from);
            const vec weight = vec_select(here, vec_exp2_down(vec_mul(below, factor)), vec_set(0));
            vec_store(row + whole, weight);
            part = vec_add(part, weight);
        }
        x[r] = part;
    }
    vec_store(sum, route_across(false, x));
    for (int r = 0; r < LANES; r++) sums[r] = (double)sum[r];
    return nonfinite;
}

/* Rows of at most so many vectors are added up in one part. */
enum { ROUTE_SHORT = 16 };

static int64_t route_form_rows(const ota_route_block *b, int64_t i) {
    const real *logits = b->logits;
    real *kernel = b->kernel, low, high;
    for (; i < b->rows; i++) {
        const real *s = logits + i * b->logits_stride;
        if (!extent(s, b->experts, &low, &high)) return i;
        b->sums[i] = exponentials(s, NULL, b->experts, high, LOG2_E, kernel + i * b->stride);
    }
    return -1;
}

static int64_t route_form(const ota_route_block *b) {
    const real *logits = b->logits;
    real *kernel = b->kernel;
    int64_t i = 0;
    if (b->experts > ROUTE_SHORT * LANES) return route_form_rows(b, 0);
    for (; i + LANES <= b->rows; i += LANES) {
        const vec nonfinite = route_form_group(logits + i * b->logits_stride, b->logits_stride, b,
                                               kernel + i * b->stride, b->sums + i);
        if (mask_count(mask_nan(nonfinite)) > 0) break;
    }
    return route_form_rows(b, i);
}

static void route_round(const ota_route_block *b) {
    linear_round(&(round_operands){.kernel = b->kernel,
                                   .ldk = b->stride,
                                   .rows = b->rows,
                                   .columns = b->experts,
                                   .v = b->v,
                                   .mass = b->mass,
                                   .sink = b->floors,
                                   .u = b->u,
                                   .column = b->columns});
}

/* Row i as its choice reads it, filled up with -inf to whole vectors. */
static ALWAYS_INLINE void route_line(const ota_route_block *b, bool scaled, int64_t i, real *line) {
    const real *from = scaled ? (const real *)b->kernel + i * b->stride
                              : (const real *)b->logits + i * b->logits_stride;
    const real *with = scaled ? b->v : b->biases;
    const int64_t whole = b->experts / LANES * LANES;
    for (int64_t j = 0; j < whole; j += LANES) {
        const vec x = vec_load(from + j), y = vec_load(with + j);
        vec_store(line + j, scaled ? vec_mul(x, y) : vec_add(x, y));
    }
    if (whole == b->experts) return;
    const int64_t rest = b->experts - whole;
    const vec x = vec_load_part(from + whole, rest), y = vec_load_part(with + whole, rest);
    const vec found = scaled ? vec_mul(x, y) : vec_add(x, y);
    vec_store(line + whole, vec_select(mask_range(0, rest), found, vec_set((real)-INFINITY)));
}

/* Lets LANES numbers, one a row, pass down the lists. */
static ALWAYS_INLINE void route_pass_down(int64_t length, vec *best, vec x) {
    UNROLL for (int64_t k = 0; k < length; k++) {
        const vec before = best[k];
        best[k] = vec_max(before, x);
        x = vec_min(before, x);
    }
}

/* The `length` largest of LANES rows, a constant where this is expanded for short lists, which then stay in registers. */
static ALWAYS_INLINE void route_list(int64_t length, const real *lines, int64_t stride,
                                     int64_t experts, vec *best) {
    UNROLL for (int64_t k = 0; k < length; k++) best[k] = vec_set((real)-INFINITY);
    for (int64_t j = 0; j < experts; j += LANES) {
        vec x[LANES];
        UNROLL for (int r = 0; r < LANES; r++) x[r] = vec_load(lines + r * stride + j);
        vec_transpose(x);
        UNROLL for (int r = 0; r < LANES; r++) route_pass_down(length, best, x[r]);
    }
}

/* The largest alone: of each row along it, and the rows are transposed once. */
static void route_largest(const real *lines, int64_t stride, int64_t experts, real *best) {
    vec x[LANES];
    UNROLL for (int r = 0; r < LANES; r++) x[r] = vec_load(lines + r * stride);
    for (int64_t j = LANES; j < experts; j += LANES)
        UNROLL for (int r = 0; r < LANES; r++) x[r] =
            vec_max(x[r], vec_load(lines + r * stride + j));
    vec_store(best, route_across(true, x));
}

#define ROUTE_SHORT_LIST(name, length)                                                             \
    static void name(const real *lines, int64_t stride, int64_t experts, real *best) {             \
        vec own[length];                                                                           \
        route_list(length, lines, stride, experts, own);                                           \
        UNROLL for (int k = 0; k < (length); k++) vec_store(best + k * LANES, own[k]);             \
    }

ROUTE_SHORT_LIST(route_list_2, 2)
ROUTE_SHORT_LIST(route_list_3, 3)
ROUTE_SHORT_LIST(route_list_5, 5)
ROUTE_SHORT_LIST(route_list_9, 9)

static void route_long_list(int64_t length, const real *lines, int64_t stride, int64_t experts,
                            real *best) {
    for (int64_t k = 0; k < length; k++) vec_store(best + k * LANES, vec_set((real)-INFINITY));
    for (int64_t j = 0; j < experts; j += LANES) {
        vec x[LANES];
        for (int r = 0; r < LANES; r++) x[r] = vec_load(lines + r * stride + j);
        vec_transpose(x);
        for (int r = 0; r < LANES; r++) {
            vec down = x[r];
            for (int64_t k = 0; k < length; k++) {
                const vec before = vec_load(best + k * LANES);
                vec_store(best + k * LANES, vec_max(before, down));
                down = vec_min(before, down);
            }
        }
    }
}

/* The lines of LANES rows from i on, and best [at least length][LANES], falling. Rows that are missing are the last one. */
static ALWAYS_INLINE void route_group(const ota_route_block *b, bool scaled, int64_t i,
                                      int64_t length) {
    real *lines = b->lines, *best = b->best;
    for (int r = 0; r < LANES; r++)
        route_line(b, scaled, ota_int_min(i + r, b->rows - 1), lines + r * b->stride);
    switch (length) {
    case 1: route_largest(lines, b->stride, b->experts, best); break;
    case 2: route_list_2(lines, b->stride, b->experts, best); break;
    case 3: route_list_3(lines, b->stride, b->experts, best); break;
    case 4:
    case 5: route_list_5(lines, b->stride, b->experts, best); break;
    case 6:
    case 7:
    case 8:
    case 9: route_list_9(lines, b->stride, b->experts, best); break;
    default: route_long_list(length, lines, b->stride, b->experts, best);
    }
}

/* Marks the places of a line that reach the threshold; how many. */
static ALWAYS_INLINE int64_t route_reach(const real *line, int64_t experts, real threshold,
                                         uint64_t *taken) {
    const vec least = vec_set(threshold);
    const uint64_t all = ((uint64_t)1 << LANES) - 1;
    int64_t count = 0;
    for (int64_t from = 0; from < experts; from += 64) {
        const int64_t here = ota_int_min(64, experts - from);
        uint64_t word = 0;
        for (int64_t j = 0; j < here; j += LANES) {
            const vmask below = mask_above(least, vec_load(line + from + j));
            word |= (~(uint64_t)mask_bits(below) & all) << j;
        }
        word &= UINT64_MAX >> (64 - here);
        taken[from / 64] = word;
        count += __builtin_popcountll(word);
    }
    return count;
}

/* Of the marked places that equal the threshold the last `surplus` are given up. */
static void route_give_up(const real *line, int64_t experts, real threshold, int64_t surplus,
                          uint64_t *taken) {
    for (int64_t j = experts; surplus > 0; j--) {
        if (line[j - 1] > threshold || line[j - 1] < threshold) continue;
        taken[(j - 1) / 64] &= ~((uint64_t)1 << ((j - 1) % 64));
        surplus--;
    }
}

/* The places that are marked, rising. */
static ALWAYS_INLINE void route_rising(const uint64_t *taken, int64_t experts, int64_t *chosen) {
    for (int64_t from = 0; from < experts; from += 64) {
        for (uint64_t left = taken[from / 64]; left != 0; left &= left - 1)
            *chosen++ = from + __builtin_ctzll(left);
    }
}

static ALWAYS_INLINE void route_choose(const ota_route_block *b, bool scaled) {
    const real *lines = b->lines, *best = b->best;
    for (int64_t i = 0; i < b->rows; i += LANES) {
        route_group(b, scaled, i, b->take);
        for (int64_t r = 0; r < ota_int_min(LANES, b->rows - i); r++) {
            const real *line = lines + r * b->stride;
            const real threshold = best[(b->take - 1) * LANES + r];
            const int64_t count = route_reach(line, b->experts, threshold, b->taken);
            if (count > b->take)
                route_give_up(line, b->experts, threshold, count - b->take, b->taken);
            route_rising(b->taken, b->experts, b->chosen + (i + r) * b->take);
        }
    }
}

static void route_choose_scaled(const ota_route_block *b) { route_choose(b, true); }

static void route_choose_biased(const ota_route_block *b) { route_choose(b, false); }

/* The sigmoid of the chosen logits, which the weights hold. */
static void route_sigmoid(real *weights, int64_t count) {
    const vec one = vec_set(1), exponent = vec_set(-LOG2_E);
    for (int64_t i = 0; i < count; i += LANES) {
        const int64_t here = ota_int_min(LANES, count - i);
        const vec below = vec_exp2(vec_mul(load_lanes(weights + i, here), exponent));
        store_lanes(weights + i, vec_div(one, vec_add(one, below)), here);
    }
}

static void route_count(ota_route_block *b) {
    const real *logits = b->logits, *kernel = b->kernel;
    real *weights = b->weights;
    const bool softmax = weights != NULL && !b->logistic;
    const int64_t take = b->take;
    double value = 0.0;
    for (int64_t i = 0; i < b->rows; i++) {
        const real *row = kernel + i * b->stride, *s = logits + i * b->logits_stride;
        const int64_t *chosen = b->chosen + i * take;
        for (int64_t k = 0; k < take; k++) {
            b->loads[chosen[k]]++;
            value += (double)s[chosen[k]];
        }
        for (int64_t k = 0; b->shares != NULL && k < take; k++)
            b->shares[i * take + k] = (double)row[chosen[k]] / b->sums[i];
        for (int64_t k = 0; softmax && k < take; k++)
            weights[i * take + k] = (real)((double)row[chosen[k]] / b->sums[i]);
        if (weights != NULL && b->logistic) weights[i] = s[chosen[0]];
    }
    if (weights != NULL && b->logistic) route_sigmoid(weights, b->rows);
    b->value = value;
}

static void route_thresholds(const ota_route_block *b) {
    real *thresholds = b->thresholds;
    const real *best = b->best;
    for (int64_t i = 0; i < b->rows; i += LANES) {
        route_group(b, false, i, b->take + 1);
        const real *last = best + (b->take - 1) * LANES;
        const vec middle =
            vec_mul(vec_add(vec_load(last), vec_load(last + LANES)), vec_set((real)0.5));
        vec_store_part(thresholds + i, middle, ota_int_min(LANES, b->rows - i));
    }
}

static void route_transpose(const ota_route_block *b) {
    const real *logits = b->logits;
    real *across = b->across;
    for (int64_t j = 0; j < b->experts; j++) {
        for (int64_t i = 0; i < b->rows; i++)
            across[j * b->across_stride + i] = logits[i * b->logits_stride + j];
    }
}

/* What lies within low <= t_i - s_i <= high, in `kept`, and how many lie below. */
static int64_t route_window(const ota_route_expert *e, real low, real high, int64_t *below) {
    const real *t = e->thresholds, *s = e->logits;
    real *kept = e->kept;
    const vec least = vec_set(low), most = vec_set(high);
    const unsigned all = (unsigned)(((uint64_t)1 << LANES) - 1);
    int64_t count = 0, under = 0, i = 0;
    for (; i + LANES <= e->tokens; i += LANES) {
        const vec x = vec_sub(vec_load(t + i), vec_load(s + i));
        const unsigned out = mask_bits(mask_above(x, most));
        const vmask beneath = mask_above(least, x);
        under += mask_count(beneath);
        const unsigned within = ~(out | mask_bits(beneath)) & all;
        if (within == 0) continue;
        int64_t put = count;
        for (unsigned left = within; left != 0; left &= left - 1)
            kept[put++] = t[i + __builtin_ctz(left)] - s[i + __builtin_ctz(left)];
        count = put;
    }
    for (; i < e->tokens; i++) {
        const real x = t[i] - s[i];
        under += x < low;
        if (x >= low && x <= high) kept[count++] = x;
    }
    *below = under;
    return count;
}

/* The number at `place` of the rising list, which is reordered. */
static real route_select(real *x, int64_t count, int64_t place) {
    int64_t low = 0, high = count - 1;
    while (low < high) {
        const real middle = x[low + (high - low) / 2];
        int64_t i = low, j = high;
        while (i <= j) {
            while (x[i] < middle) i++;
            while (x[j] > middle) j--;
            if (i > j) break;
            const real moved = x[i];
            x[i++] = x[j];
            x[j--] = moved;
        }
        if (place <= j)
            high = j;
        else if (place >= i)
            low = i;
        else
            break;
    }
    return x[place];
}

/* The number at `place`, looked for near `centre` first, then everywhere. */
static real route_place(const ota_route_expert *e, int64_t place, double centre, double width) {
    int64_t below, count;
    double half = width;
    for (int trial = 0; trial < 3 && half < (double)INFINITY; trial++, half *= 16.0) {
        const real low = (real)(centre - half), high = (real)(centre + half);
        count = route_window(e, low, high, &below);
        if (place >= below && place < below + count)
            return route_select(e->kept, count, place - below);
    }
    count = route_window(e, (real)-INFINITY, (real)INFINITY, &below);
    return route_select(e->kept, count, place);
}

/* The number after `x`, the one at `place`, in the rising list. */
static real route_following(const ota_route_expert *e, real x, int64_t place) {
    const real *t = e->thresholds, *s = e->logits;
    const vec reached = vec_set(x), far = vec_set((real)INFINITY);
    vec next = far;
    int64_t beyond = 0, i = 0;
    for (; i + LANES <= e->tokens; i += LANES) {
        const vec y = vec_sub(vec_load(t + i), vec_load(s + i));
        const vmask after = mask_above(y, reached);
        beyond += mask_count(after);
        next = vec_min(next, vec_select(after, y, far));
    }
    real found = vec_reduce_min(next);
    for (; i < e->tokens; i++) {
        const real y = t[i] - s[i];
        if (y <= x) continue;
        beyond++;
        found = y < found ? y : found;
    }
    return e->tokens - beyond > place + 1 ? x : found;
}

static void route_places(ota_route_expert *e) {
    const real low = route_place(e, e->low, e->centre, e->width);
    e->least = e->most = (double)low;
    if (e->high == e->low + 1) e->most = (double)route_following(e, low, e->low);
    if (e->high > e->low + 1)
        e->most = (double)route_place(e, e->high, e->centre, (double)INFINITY);
}

static const ota_route_passes route_passes = {.form = route_form,
                                              .round = route_round,
                                              .choose_scaled = route_choose_scaled,
                                              .choose_biased = route_choose_biased,
                                              .count = route_count,
                                              .thresholds = route_thresholds,
                                              .transpose = route_transpose,
                                              .places = route_places};
