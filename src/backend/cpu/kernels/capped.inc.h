/* One row whose weights have caps: w_j = factor 2^((s_j + h_j - shift) c), or factor y_j^p as in passes.inc.h, and
 * p_j = min(c_j, w_j). Keys of w_j < c_j are open. Part of level.c. */

/* Sums over one sweep of a row. */
typedef struct capped_part {
    vec open, slope, closed;
    int64_t full;
} capped_part;

/* Caps from j on, 1 in the lanes past the end, whose weights are 0. */
static ALWAYS_INLINE vec load_caps(const capped_operands *x, int64_t j, int64_t lanes) {
    if (x->caps == NULL) return vec_set(x->cap);
    const vec caps = load_lanes(x->caps + j, lanes);
    return lanes == LANES ? caps : vec_select(mask_range(0, lanes), caps, vec_set(1));
}

/* e: the weight without its factor; slope: what joins that sum while the key is open. */
static ALWAYS_INLINE void cap_lanes(const capped_operands *x, int64_t j, int64_t lanes, vec e,
                                    vec slope, capped_part *part) {
    const vec none = vec_set(0), cap = load_caps(x, j, lanes), w = vec_mul(e, vec_set(x->factor));
    const vmask open = mask_above(cap, w);
    part->open = vec_add(part->open, vec_select(open, e, none));
    part->slope = vec_add(part->slope, vec_select(open, slope, none));
    part->closed = vec_add(part->closed, vec_select(open, none, cap));
    part->full += LANES - mask_count(open);
    if (x->out != NULL) store_lanes(x->out + j, vec_select(open, w, cap), lanes);
}

/* The sums of a sweep join those of the row. */
static ALWAYS_INLINE void add_part(total totals[3], const capped_part *part) {
    total_add(&totals[0], (double)vec_reduce_add(part->open));
    total_add(&totals[1], (double)vec_reduce_add(part->slope));
    total_add(&totals[2], (double)vec_reduce_add(part->closed));
}

static ALWAYS_INLINE capped_part no_part(void) {
    return (capped_part){vec_set(0), vec_set(0), vec_set(0), 0};
}

static ALWAYS_INLINE ota_capped_sums sums_in(const total totals[3], int64_t full) {
    return (ota_capped_sums){total_of(&totals[0]), total_of(&totals[1]), total_of(&totals[2]),
                             full};
}

static ota_capped_sums capped_exponentials(const capped_operands *x) {
    total totals[3] = {{0, 0}, {0, 0}, {0, 0}};
    const real prescale = score_prescale(x->k);
    const vec from = vec_set(x->shift * prescale), by = vec_set(x->k / prescale);
    int64_t full = 0;
    for (int64_t run = 0; run < x->count; run += SHORT) {
        const int64_t end = ota_int_min(run + SHORT, x->count);
        capped_part part = no_part();
        for (int64_t j = run; j < end; j += LANES) {
            const int64_t lanes = ota_int_min(LANES, end - j);
            const vec at = vec_sub(load_scores(x->s, x->h, j, lanes, prescale), from);
            cap_lanes(x, j, lanes, vec_exp2(vec_mul(at, by)), vec_set(0), &part);
        }
        add_part(totals, &part);
        full += part.full;
    }
    return sums_in(totals, full);
}

/* `kind` is a constant where this is expanded. */
static ALWAYS_INLINE ota_capped_sums capped_powers_of(power_kind kind, bool steep,
                                                      const capped_operands *x) {
    total totals[3] = {{0, 0}, {0, 0}, {0, 0}};
    const threshold at = threshold_of(x->shift, x->k, x->t);
    const exponent by = exponent_of(x->p > 1.0 ? x->p - 1.0 : x->p);
    int64_t full = 0;
    for (int64_t run = 0; run < x->count; run += SHORT) {
        const int64_t end = ota_int_min(run + SHORT, x->count);
        capped_part part = no_part();
        for (int64_t j = run; j < end; j += LANES) {
            const int64_t lanes = ota_int_min(LANES, end - j);
            vec rest, *const kept = steep ? &rest : NULL;
            const vec y = above_threshold(x->s, x->h, j, lanes, &at, kept);
            vec power = y, lower = y;
            if (!all_below(kind, y)) power = two_powers(kind, y, kept, &by, &lower);
            /* Where p = 1 the slope is 1 above the threshold. */
            if (kind == LINEAR) lower = vec_select(mask_above(y, vec_set(0)), lower, vec_set(0));
            cap_lanes(x, j, lanes, power, lower, &part);
        }
        add_part(totals, &part);
        full += part.full;
    }
    return sums_in(totals, full);
}

static ota_capped_sums capped_powers(const capped_operands *x) {
    switch (kind_of(x->p)) {
    case LINEAR: return capped_powers_of(LINEAR, false, x);
    case SQUARE: return capped_powers_of(SQUARE, false, x);
    case FOURTH: return capped_powers_of(FOURTH, false, x);
    case ROOT: return capped_powers_of(ROOT, false, x);
    case RISING:
        return is_steep(x->p) ? capped_powers_of(RISING, true, x)
                              : capped_powers_of(RISING, false, x);
    case FALLING:
    case INVERSE: break; /* no p < 0 comes here: plain loops take such rows */
    }
    return capped_powers_of(FALLING, false, x);
}

static ota_level_sums capped_level(const capped_operands *x) {
    const vec none = vec_set(0), level = vec_set(x->shift);
    vec least = vec_set((real)INFINITY), most = vec_set((real)-INFINITY);
    total above = {0, 0};
    for (int64_t run = 0; run < x->count; run += SHORT) {
        const int64_t end = ota_int_min(run + SHORT, x->count);
        vec sum = none;
        for (int64_t j = run; j < end; j += LANES) {
            const int64_t lanes = ota_int_min(LANES, end - j);
            const vec at = load_scores(x->s, x->h, j, lanes, 1);
            const vmask over = mask_above(at, level);
            sum = vec_add(sum, vec_select(over, load_caps(x, j, lanes), none));
            least = vec_min(least, vec_select(over, at, vec_set((real)INFINITY)));
            most = vec_max(most, vec_select(over, vec_set((real)-INFINITY), at));
        }
        total_add(&above, (double)vec_reduce_add(sum));
    }
    return (ota_level_sums){total_of(&above), -(double)vec_reduce_max(vec_sub(none, least)),
                            (double)vec_reduce_max(most)};
}

static const OF_TYPE(capped_passes) capped_passes = {
    .exponentials = capped_exponentials, .powers = capped_powers, .level = capped_level};
