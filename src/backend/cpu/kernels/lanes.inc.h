/* Rounds of small kernels, one problem a lane: element [i][j] of LANES problems is one vector, so a round is
 * plain arithmetic on vectors, whatever the shape. A lane is nobody's neighbour: no sum runs across lanes, and a
 * problem that has met its tolerance keeps its v, so further rounds for the others change no bit of it.
 *
 * Sums are chains of fused products over at most OTA_LANES_SIDE elements. The scalings are kept within
 * 2^(-LIFT/2) ... 2^(LIFT/2) and no row may lose its largest entry: a problem that does is not carried. */

#if OTA_REAL_BITS == 64
static const real LANE_TOP = 0x1p1000;
static const real LANE_UNIT = 0x1p-53;
static const real LANE_HIGH = 0x1p256, LANE_LOW = 0x1p-256;
static const real LANE_LEAST_SUM = 0x1p255; /* of a lifted row: 2^-257 without the lift */
static const real LANE_LEAST = 0x1p-1000;
#else
static const real LANE_TOP = 0x1p124f;
static const real LANE_UNIT = 0x1p-24f;
static const real LANE_HIGH = 0x1p32f, LANE_LOW = 0x1p-32f;
static const real LANE_LEAST_SUM = 0x1p31f;
static const real LANE_LEAST = 0x1p-120f;
#endif

static ALWAYS_INLINE vec vec_size(vec x) { return vec_max(x, vec_sub(vec_set(0), x)); }

/* The element of index `at` of all problems. */
static ALWAYS_INLINE vec lane_load(const real *from, int64_t at) {
    return vec_load(from + at * LANES);
}
static ALWAYS_INLINE void lane_store(real *to, int64_t at, vec x) { vec_store(to + at * LANES, x); }

typedef struct lane_span {
    vec low, high;
} lane_span;

/* S becomes K. Returns the range of the finite scores; `sound` loses the problems whose rows have no finite
 * maximum. */
static lane_span lane_kernel(const lanes_block *b, vec *sound) {
    const vec c = vec_load(b->c), shut = vec_set((real)-INFINITY);
    lane_span span = {vec_set((real)INFINITY), shut};
    for (int64_t i = 0; i < b->rows; i++) {
        real *row = b->matrix + i * b->columns * LANES;
        vec top = shut;
        for (int64_t j = 0; j < b->columns; j++) {
            const vec s = lane_load(row, j);
            top = vec_max_nan(s, top);
            span.low = vec_select(mask_above(s, shut), vec_min(s, span.low), span.low);
        }
        span.high = vec_max(top, span.high);
        *sound = vec_select(mask_above(vec_set(LANE_TOP), vec_size(top)), *sound, vec_set(0));
        lane_store(b->shift, i, top);
        for (int64_t j = 0; j < b->columns; j++) {
            const vec below = vec_mul(vec_sub(lane_load(row, j), top), c);
            lane_store(row, j, vec_exp2_scaled(below));
        }
    }
    return span;
}

enum {
    LANE_CHAINS = 4, /* sums that run side by side */
    LANE_LOOK = 8    /* rounds between two looks at the pace */
};

/* sum[k] = sum_i x_i y[k step + i stride], a sum each for `chains` neighbours. */
static ALWAYS_INLINE void lane_sums(int chains, const real *y, int64_t step, int64_t stride,
                                    const real *x, int64_t count, vec *sum) {
    UNROLL for (int k = 0; k < chains; k++) sum[k] = vec_set(0);
    for (int64_t i = 0; i < count; i++) {
        const vec factor = lane_load(x, i);
        UNROLL for (int k = 0; k < chains; k++) {
            sum[k] = vec_fma(lane_load(y, k * step + i * stride), factor, sum[k]);
        }
    }
}

/* The problems whose rounds go on, and what their scalings reached. */
typedef struct lane_state {
    vec going; /* 1 or 0 */
    vec taken, error, low, high, least;
} lane_state;

/* u over `sum` for rows i ... i + chains - 1: u_i = mu_i / sum_j K_ij v_j. */
static ALWAYS_INLINE void lane_row_chains(int chains, const lanes_block *b, int64_t i,
                                          lane_state *state) {
    vec sum[LANE_CHAINS];
    lane_sums(chains, b->matrix + i * b->columns * LANES, b->columns, 1, b->scaling, b->columns,
              sum);
    UNROLL for (int k = 0; k < chains; k++) {
        state->least = vec_min(sum[k], state->least);
        lane_store(b->sum, i + k, vec_div(lane_load(b->mass, i + k), sum[k]));
    }
}

static ALWAYS_INLINE void lane_rows(const lanes_block *b, lane_state *state) {
    int64_t i = 0;
    for (; i + LANE_CHAINS <= b->rows; i += LANE_CHAINS) lane_row_chains(LANE_CHAINS, b, i, state);
    switch (b->rows - i) {
    case 3: lane_row_chains(3, b, i, state); break;
    case 2: lane_row_chains(2, b, i, state); break;
    case 1: lane_row_chains(1, b, i, state); break;
    default: break;
    }
}

/* c_j = sum_i u_i K_ij for keys j ... j + chains - 1, and from it v_j = nu_j / c_j: at once, or into `next` where
 * a tolerance asks for |c_j v_j - nu_j| first. A key without mass closes. */
static ALWAYS_INLINE void lane_column_chains(int chains, const lanes_block *b, int64_t j,
                                             bool careful, lane_state *state) {
    const vec one = vec_set(1), none = vec_set(0);
    vec sum[LANE_CHAINS];
    lane_sums(chains, b->matrix + j * LANES, 1, b->columns, b->sum, b->rows, sum);
    UNROLL for (int k = 0; k < chains; k++) {
        const vec target = lane_load(b->target, j + k);
        /* A key without mass that nobody may use has sum 0, too; NaN stays NaN. */
        const vec next = vec_div(target, vec_max(vec_set(LANE_LEAST), sum[k]));
        if (careful) {
            const vec reached = vec_mul(sum[k], lane_load(b->scaling, j + k));
            state->error = vec_add(vec_size(vec_sub(reached, target)), state->error);
            lane_store(b->next, j + k, next);
            continue;
        }
        lane_store(b->scaling, j + k, next);
        state->high = vec_max(next, state->high);
        state->low = vec_min(vec_select(mask_above(target, none), next, one), state->low);
    }
}

static ALWAYS_INLINE void lane_columns(const lanes_block *b, bool careful, lane_state *state) {
    int64_t j = 0;
    state->error = vec_set(0);
    for (; j + LANE_CHAINS <= b->columns; j += LANE_CHAINS)
        lane_column_chains(LANE_CHAINS, b, j, careful, state);
    switch (b->columns - j) {
    case 3: lane_column_chains(3, b, j, careful, state); break;
    case 2: lane_column_chains(2, b, j, careful, state); break;
    case 1: lane_column_chains(1, b, j, careful, state); break;
    default: break;
    }
}

/* v where the problem is going on. */
static ALWAYS_INLINE void lane_step(const lanes_block *b, lane_state *state) {
    const vec one = vec_set(1), none = vec_set(0);
    const vmask going = mask_above(state->going, none);
    for (int64_t j = 0; j < b->columns; j++) {
        const vec next = vec_select(going, lane_load(b->next, j), lane_load(b->scaling, j));
        const vmask open = mask_above(lane_load(b->target, j), none);
        lane_store(b->scaling, j, next);
        state->high = vec_max(next, state->high);
        state->low = vec_min(vec_select(open, next, one), state->low);
    }
    state->taken = vec_add(state->taken, state->going);
}

/* P over K, its sums in f64, and the row sums. */
static void lane_emit(const lanes_block *b) {
    memset(b->row_sums, 0, (size_t)(b->rows * LANES) * sizeof *b->row_sums);
    memset(b->column_sums, 0, (size_t)(b->columns * LANES) * sizeof *b->column_sums);
    for (int64_t i = 0; i < b->rows; i++) {
        real *row = b->matrix + i * b->columns * LANES;
        vec sum;
        lane_sums(1, row, b->columns, 1, b->scaling, b->columns, &sum);
        const vec u = vec_div(lane_load(b->mass, i), sum);
        lane_store(b->sum, i, sum);
        for (int64_t j = 0; j < b->columns; j++) {
            const vec p = vec_mul(vec_mul(lane_load(row, j), lane_load(b->scaling, j)), u);
            lane_store(row, j, p);
            vec_accumulate(b->row_sums + i * LANES, p);
            vec_accumulate(b->column_sums + j * LANES, p);
        }
    }
}

/* Exactly b->rounds rounds. */
static void lane_fixed_rounds(const lanes_block *b, lane_state *state) {
    for (int64_t round = 0; round < b->rounds; round++) {
        lane_rows(b, state);
        lane_columns(b, false, state);
    }
    state->taken = vec_set((real)b->rounds);
    state->going = vec_set(0);
}

/* Does the pace of the rounds so far leave the error above `limit` for good? Rounds slow down, if anything. */
static ALWAYS_INLINE vmask lane_is_slow(const lanes_block *b, vec early, vec error, vec limit) {
    const vec pace = vec_div(error, early);
    for (int64_t round = 2 * LANE_LOOK; round < b->rounds; round += LANE_LOOK)
        error = vec_mul(error, pace);
    return mask_above(error, limit);
}

/* Rounds until every problem has met its tolerance, or cannot, or b->rounds of them. */
static void lane_search(const lanes_block *b, lane_span span, lane_state *state, vec *sound) {
    const vec none = vec_set(0), high = vec_set(LANE_HIGH), low = vec_set(LANE_LOW);
    /* 8 u + u R / (4 tau) of the policy, 8 u for sums in this type and the caller's slack. log2(e) = c tau. */
    const vec range = vec_mul(vec_sub(span.high, span.low), vec_load(b->c));
    const vec share = vec_set(LANE_UNIT * (real)(0.25 / 1.4426950408889634));
    const vec sums = vec_mul(vec_add(vec_load(b->slack), vec_set(16)), vec_set(LANE_UNIT));
    const vec floor = vec_fma(range, share, sums);
    const vec tolerance = vec_load(b->tolerance);
    const vec limit = vec_mul(vec_sub(tolerance, floor), vec_load(b->total));
    *sound = vec_select(mask_above(tolerance, vec_add(floor, floor)), *sound, none);
    vec early = none;
    for (int64_t round = 0;; round++) {
        lane_rows(b, state);
        lane_columns(b, true, state);
        if (round == LANE_LOOK) early = state->error;
        if (round == 2 * LANE_LOOK)
            *sound = vec_select(lane_is_slow(b, early, state->error, limit), none, *sound);
        /* Neither NaN nor scalings that have left their range come back. */
        state->going = vec_select(mask_above(state->error, limit), *sound, none);
        state->going = vec_select(mask_above(high, state->high), state->going, none);
        state->going = vec_select(mask_above(state->low, low), state->going, none);
        if (mask_count(mask_above(state->going, none)) == 0 || round == b->rounds) return;
        lane_step(b, state);
    }
}

static void lane_rounds(const lanes_block *b) {
    const vec one = vec_set(1), none = vec_set(0);
    lane_state state = {.going = one,
                        .taken = none,
                        .error = none,
                        .low = one,
                        .high = one,
                        .least = vec_set((real)INFINITY)};
    vec sound = one;
    const lane_span span = lane_kernel(b, &sound);
    for (int64_t j = 0; j < b->columns; j++) lane_store(b->scaling, j, one);
    if (b->tolerance != NULL)
        lane_search(b, span, &state, &sound);
    else
        lane_fixed_rounds(b, &state);
    lane_emit(b);
    /* A problem that is still going on has not met its tolerance. */
    sound = vec_select(mask_above(state.going, none), none, sound);
    for (int64_t i = 0; i < b->rows; i++) {
        const vec sum = lane_load(b->sum, i);
        state.least = vec_min(sum, state.least);
        sound = vec_select(mask_nan(sum), none, sound);
    }
    sound = vec_select(mask_above(state.least, vec_set(LANE_LEAST_SUM)), sound, none);
    sound = vec_select(mask_above(vec_set(LANE_HIGH), state.high), sound, none);
    sound = vec_select(mask_above(state.low, vec_set(LANE_LOW)), sound, none);
    vec_store(b->taken, vec_select(mask_above(sound, none), state.taken, vec_set(-1)));
}

/* to[e * LANES + l] = from[l * stride + e] factor. Reads whole vectors: stride is a multiple of LANES. */
static void lanes_in(const real *from, int64_t stride, int64_t count, real factor, real *to) {
    for (int64_t e = 0; e < count; e += LANES) {
        const int64_t rest = ota_int_min(LANES, count - e);
        vec x[LANES];
        UNROLL for (int l = 0; l < LANES; l++) x[l] = vec_load(from + l * stride + e);
        vec_transpose(x);
        for (int64_t k = 0; k < rest; k++) lane_store(to, e + k, vec_mul(x[k], vec_set(factor)));
    }
}

/* to[l * stride + e] = from[e * LANES + l], 0 in the rest of the last vector. */
static void lanes_out(const real *from, int64_t count, real *to, int64_t stride) {
    for (int64_t e = 0; e < count; e += LANES) {
        const int64_t rest = ota_int_min(LANES, count - e);
        vec x[LANES];
        for (int64_t k = 0; k < LANES; k++) x[k] = k < rest ? lane_load(from, e + k) : vec_set(0);
        vec_transpose(x);
        UNROLL for (int l = 0; l < LANES; l++) vec_store(to + l * stride + e, x[l]);
    }
}
