/* Small square matrices made doubly stochastic, one a lane: element [i][j] of LANES matrices is one vector, so no sum
 * runs across lanes and a matrix knows nothing of its neighbours.
 *
 *     deepseek    K = softmax of the rows + eps, u = v = 1
 *     symmetric   K = 2^((S - top_i - low_j) c), top_i = max_j S_ij, low_j = max_i (S_ij - top_i), u = 1, v = 2^(low_j c):
 *                 every row and column of K has a 1, so no sum is below 1 before the scalings move
 *     rows        u_i = u_i / (u_i sum_j K_ij v_j + eps)          symmetric: u_i = 1 / sum_j K_ij v_j
 *     columns     v_j = v_j / (v_j sum_i u_i K_ij + eps)          and likewise
 *     P           u_i K_ij v_j
 *
 * Dividing a matrix by its sums and dividing the scalings by them is the same; the latter leaves K as it is. The order
 * of deepseek begins with columns. A matrix that has met its tolerance keeps u and v.
 *
 * In reverse, with a_i = u_i dL/du_i, b_j = v_j dL/dv_j and w the share of a sum that is eps (0 in symmetric):
 *
 *     columns     z_j = v_j b_j of the new v:  dK_ij -= u_i z_j,  a_i -= u_i sum_j K_ij z_j,  b_j = w_j b_j
 *     rows        y_i = u_i a_i of the new u:  dK_ij -= y_i v_j,  b_j -= v_j sum_i y_i K_ij,  a_i = w_i a_i
 *
 * The constants top and low cancel. `side` is a constant where these functions are expanded for 4. */

/* Matrices of up to SIDE lie on the stack, in registers where they are 4 x 4, larger ones in the caller's room. */
enum { SIDE = OTA_NORMALIZE_SMALL, SQUARE_SIZE = SIDE * SIDE };

static const real LOG2_E = (real)1.4426950408889634;
/* ---- in and out -------------------------------------------------------------------------------- */

/* to[e] = element e of the next LANES matrices; where fewer are left, the last one stands for the others. */
static ALWAYS_INLINE void squares_in(int64_t side, const real *from, int64_t left, vec *to) {
    const int64_t size = side * side;
    for (int64_t e = 0; e < size; e += LANES) {
        const int64_t rest = ota_int_min(LANES, size - e);
        vec x[LANES];
        UNROLL for (int l = 0; l < LANES; l++) {
            x[l] = load_lanes(from + ota_int_min(l, left - 1) * size + e, rest);
        }
        vec_transpose(x);
        for (int64_t k = 0; k < rest; k++) to[e + k] = x[k];
    }
}

static ALWAYS_INLINE void squares_out(int64_t side, const vec *from, int64_t left, real *to) {
    const int64_t size = side * side;
    for (int64_t e = 0; e < size; e += LANES) {
        const int64_t rest = ota_int_min(LANES, size - e);
        vec x[LANES];
        for (int64_t k = 0; k < LANES; k++) x[k] = k < rest ? from[e + k] : vec_set(0);
        vec_transpose(x);
        const int64_t present = ota_int_min(LANES, left);
        for (int64_t l = 0; l < present; l++) store_lanes(to + l * size + e, x[l], rest);
    }
}

/* NaN throughout in the lanes where something of x is not finite; how many of the first `left` those are. */
static ALWAYS_INLINE int64_t squares_mend(int64_t side, vec *x, int64_t left) {
    vec sum = vec_set(0);
    for (int64_t e = 0; e < side * side; e++) sum = vec_fma(x[e], vec_set(0), sum);
    const vmask wrong = mask_nan(sum);
    if (mask_count(wrong) == 0) return 0;
    for (int64_t e = 0; e < side * side; e++) x[e] = vec_add(x[e], sum);
    return mask_count(mask_and(wrong, mask_range(0, left)));
}

/* ---- sums -------------------------------------------------------------------------------------- */

/* sum[k] = sum_m y[k step + m stride] x[m] for `chains` neighbours side by side. */
static ALWAYS_INLINE void square_chains(int chains, int64_t side, const vec *y, int64_t step,
                                        int64_t stride, const vec *x, vec *sum) {
    UNROLL for (int k = 0; k < chains; k++) sum[k] = vec_mul(y[k * step], x[0]);
    for (int64_t m = 1; m < side; m++) {
        UNROLL for (int k = 0; k < chains; k++) {
            sum[k] = vec_fma(y[k * step + m * stride], x[m], sum[k]);
        }
    }
}

static ALWAYS_INLINE void square_sums(int64_t side, const vec *y, int64_t step, int64_t stride,
                                      const vec *x, vec *sum) {
    int64_t k = 0;
    for (; k + 4 <= side; k += 4) square_chains(4, side, y + k * step, step, stride, x, sum + k);
    for (; k < side; k++) square_chains(1, side, y + k * step, step, stride, x, sum + k);
}

/* sum[i] = sum_j K_ij v_j, sum[j] = sum_i K_ij u_i. */
static ALWAYS_INLINE void row_sums(int64_t side, const vec *k, const vec *v, vec *sum) {
    square_sums(side, k, side, 1, v, sum);
}
static ALWAYS_INLINE void column_sums(int64_t side, const vec *k, const vec *u, vec *sum) {
    square_sums(side, k, 1, side, u, sum);
}

/* ---- forward ----------------------------------------------------------------------------------- */

/* LANES matrices on their way. `soft` is the softmax of deepseek's rows, or NULL. */
typedef struct square_lanes {
    vec *k, *soft, *u, *v, *sum;
    vec eps, tolerance;
    vec going; /* 1, or 0 where the tolerance is met */
    vec *kept; /* where the next step leaves its scalings and shares of eps, or NULL */
} square_lanes;

static ALWAYS_INLINE vec square_top(int64_t side, const vec *x, int64_t stride) {
    vec top = x[0];
    for (int64_t m = 1; m < side; m++) top = vec_max_nan(x[m * stride], top);
    return top;
}

static ALWAYS_INLINE vec square_power(vec t) { return vec_exp2_down(vec_mul(t, vec_set(LOG2_E))); }

/* S, in k, becomes K; u and v begin. */
static ALWAYS_INLINE void soft_begin(int64_t side, square_lanes *s) {
    for (int64_t i = 0; i < side; i++) {
        vec *row = s->k + i * side;
        const vec top = square_top(side, row, 1);
        vec sum = vec_set(0);
        for (int64_t j = 0; j < side; j++) {
            row[j] = square_power(vec_sub(row[j], top));
            sum = vec_add(sum, row[j]);
        }
        const vec share = vec_div(vec_set(1), sum);
        for (int64_t j = 0; j < side; j++) {
            const vec soft = vec_mul(row[j], share);
            if (s->soft != NULL) s->soft[i * side + j] = soft;
            row[j] = vec_add(soft, s->eps);
        }
        s->u[i] = s->v[i] = vec_set(1);
    }
}

static ALWAYS_INLINE void sharp_begin(int64_t side, square_lanes *s) {
    for (int64_t i = 0; i < side; i++) {
        vec *row = s->k + i * side;
        const vec top = square_top(side, row, 1);
        for (int64_t j = 0; j < side; j++) row[j] = vec_sub(row[j], top);
        s->u[i] = vec_set(1);
    }
    for (int64_t j = 0; j < side; j++) {
        const vec low = square_top(side, s->k + j, side);
        for (int64_t i = 0; i < side; i++) {
            vec *at = s->k + i * side + j;
            *at = square_power(vec_sub(*at, low));
        }
        s->v[j] = square_power(low);
    }
}

/* x = x / (x sum + eps), or 1 / sum. */
static ALWAYS_INLINE void square_scale(int64_t side, bool symmetric, const vec *sum, vec *x,
                                       square_lanes *s) {
    const vec one = vec_set(1);
    for (int64_t i = 0; i < side; i++) {
        if (symmetric) {
            const vec next = vec_div(one, sum[i]);
            x[i] = vec_select(mask_above(s->going, vec_set(0)), next, x[i]);
        } else {
            const vec whole = vec_fma(x[i], sum[i], s->eps);
            x[i] = vec_div(x[i], whole);
            if (s->kept != NULL) s->kept[side + i] = vec_div(s->eps, whole);
        }
    }
    if (s->kept == NULL) return;
    for (int64_t i = 0; i < side; i++) {
        s->kept[i] = x[i];
        if (symmetric) s->kept[side + i] = s->going;
    }
    s->kept += 2 * side;
}

/* max_i |u_i sum_i - 1| */
static ALWAYS_INLINE vec square_error(int64_t side, const vec *u, const vec *sum) {
    vec error = vec_set(0);
    for (int64_t i = 0; i < side; i++) {
        const vec away = vec_fma(u[i], sum[i], vec_set(-1));
        error = vec_max(vec_max(away, vec_sub(vec_set(0), away)), error);
    }
    return error;
}

/* Returns how many rounds ran; `going` says which lanes have not met the tolerance. */
static ALWAYS_INLINE int64_t square_rounds(int64_t side, const ota_normalize_block *b,
                                           square_lanes *s) {
    const bool symmetric = b->symmetric, careful = b->tolerance > 0;
    vec *sum = s->sum;
    s->going = vec_set(1);
    for (int64_t round = 0; round < b->rounds; round++) {
        if (symmetric || round > 0) {
            row_sums(side, s->k, s->v, sum);
            if (careful && round > 0) {
                const vec error = square_error(side, s->u, sum);
                s->going = vec_select(mask_above(error, s->tolerance), s->going, vec_set(0));
                if (mask_count(mask_above(s->going, vec_set(0))) == 0) return round;
            }
            square_scale(side, symmetric, sum, s->u, s);
        }
        column_sums(side, s->k, s->u, sum);
        square_scale(side, symmetric, sum, s->v, s);
    }
    if (careful) {
        row_sums(side, s->k, s->v, sum);
        const vec error = square_error(side, s->u, sum);
        s->going = vec_select(mask_above(error, s->tolerance), s->going, vec_set(0));
    }
    return b->rounds;
}

static ALWAYS_INLINE void square_begin(int64_t side, const ota_normalize_block *b,
                                       square_lanes *s) {
    s->eps = vec_set((real)b->eps);
    s->tolerance = vec_set((real)b->tolerance);
    if (b->symmetric)
        sharp_begin(side, s);
    else
        soft_begin(side, s);
}

static ALWAYS_INLINE void forward_lanes(int64_t side, ota_normalize_block *b, int64_t first) {
    const int64_t size = side * side, left = ota_int_min(b->count - first, LANES);
    vec own[SQUARE_SIZE + 3 * SIDE];
    vec *k = side <= SIDE ? own : b->room, *u = k + size, *v = u + side;
    square_lanes s = {.k = k, .u = u, .v = v, .sum = v + side};
    squares_in(side, (const real *)b->scores + first * size, left, k);
    square_begin(side, b, &s);
    (void)square_rounds(side, b, &s);
    for (int64_t i = 0; i < side; i++) {
        for (int64_t j = 0; j < side; j++) {
            k[i * side + j] = vec_mul(vec_mul(k[i * side + j], u[i]), v[j]);
        }
    }
    b->nonfinite += squares_mend(side, k, left);
    if (b->tolerance > 0)
        b->open += mask_count(mask_and(mask_above(s.going, vec_set(0)), mask_range(0, left)));
    squares_out(side, k, left, (real *)b->out + first * size);
}

static void normalize_forward(ota_normalize_block *b) {
    b->nonfinite = b->open = 0;
    for (int64_t first = 0; first < b->count; first += LANES) {
        if (b->side == 4)
            forward_lanes(4, b, first);
        else
            forward_lanes(b->side, b, first);
    }
}
