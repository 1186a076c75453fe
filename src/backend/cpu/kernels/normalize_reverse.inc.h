/* Gradients of normalize.inc.h. Implicit ones are those of P = exp(S_ij + f_i + g_j) whose sums r_i, c_j stay as they
 * are: dS_ij = P_ij (G_ij - a_i - b_j), G = dL/dP, with a and b such that dS has no sums. With m_i = sum_j P_ij G_ij / r_i
 * what is left for b is
 *
 *     L b = y,   y_j = sum_i P_ij (G_ij - m_i),   L_jk = -sum_i P_ij P_ik / r_i for j != k,   L 1 = 0
 *
 * solved with b_0 = 0 by elimination without a subtraction in L: every pivot is the sum of what lies left of it, so
 * plans that nearly fall into parts lose no digits of L. */

/* Derivatives by the logarithms of u and v, and those of one step; [side] each. */
typedef struct reverse_sums {
    vec *a, *b, *z;
} reverse_sums;

/* dL/dP, in g, becomes dL/dK; the last steps' scalings lie before s->kept. */
static ALWAYS_INLINE void square_reverse(int64_t side, bool symmetric, const vec *first_u,
                                         const vec *first_v, int64_t steps, square_lanes *s, vec *g,
                                         const reverse_sums *of) {
    const vec none = vec_set(0);
    vec *a = of->a, *b = of->b, *z = of->z, *sum = s->sum;
    for (int64_t j = 0; j < side; j++) a[j] = b[j] = none;
    for (int64_t i = 0; i < side; i++) {
        for (int64_t j = 0; j < side; j++) {
            const int64_t e = i * side + j;
            const vec share = vec_mul(s->u[i], s->v[j]),
                      all = vec_mul(vec_mul(s->k[e], share), g[e]);
            a[i] = vec_add(a[i], all);
            b[j] = vec_add(b[j], all);
            g[e] = vec_mul(share, g[e]);
        }
    }
    for (int64_t step = steps; step-- > 0;) {
        /* Steps end on columns. */
        const bool columns = (steps - 1 - step) % 2 == 0;
        s->kept -= 2 * side;
        const vec *x = s->kept, *w = x + side;
        const vec *other = step > 0 ? x - 2 * side : columns ? first_u : first_v;
        vec *own = columns ? b : a, *far = columns ? a : b;
        for (int64_t j = 0; j < side; j++) {
            if (symmetric) {
                const vmask moved = mask_above(w[j], none);
                z[j] = vec_select(moved, vec_mul(x[j], own[j]), none);
                own[j] = vec_select(moved, none, own[j]);
            } else {
                z[j] = vec_mul(x[j], own[j]);
                own[j] = vec_mul(w[j], own[j]);
            }
        }
        if (columns) {
            row_sums(side, s->k, z, sum);
        } else {
            column_sums(side, s->k, z, sum);
        }
        for (int64_t i = 0; i < side; i++) {
            const vec less = vec_sub(none, other[i]);
            far[i] = vec_fma(less, sum[i], far[i]);
            vec *line = columns ? g + i * side : g + i;
            const int64_t stride = columns ? 1 : side;
            for (int64_t j = 0; j < side; j++)
                line[j * stride] = vec_fma(less, z[j], line[j * stride]);
        }
    }
}

static ALWAYS_INLINE void reverse_lanes(int64_t side, ota_normalize_block *b, int64_t first) {
    const int64_t size = side * side, left = b->count - first;
    /* Arrays of their own lie in registers, parts of one would not. */
    vec own_k[SQUARE_SIZE], own_soft[SQUARE_SIZE], own_g[SQUARE_SIZE], own_u[SIDE], own_v[SIDE],
        own_first_u[SIDE], own_first_v[SIDE], own_sum[SIDE], own_a[SIDE], own_b[SIDE], own_z[SIDE];
    vec *k = own_k, *soft = own_soft, *g = own_g, *u = own_u, *v = own_v, *first_u = own_first_u,
        *first_v = own_first_v, *sum = own_sum;
    reverse_sums sums = {own_a, own_b, own_z};
    if (side > SIDE) {
        k = b->room, soft = k + size, g = soft + size, u = g + size, v = u + side;
        first_u = v + side, first_v = first_u + side, sum = first_v + side;
        sums = (reverse_sums){sum + side, sum + 2 * side, sum + 3 * side};
    }
    square_lanes s = {.k = k, .soft = soft, .u = u, .v = v, .sum = sum, .kept = b->history};
    squares_in(side, (const real *)b->scores + first * size, left, k);
    squares_in(side, (const real *)b->plan_grad + first * size, left, g);
    square_begin(side, b, &s);
    for (int64_t i = 0; i < side; i++) {
        first_u[i] = u[i];
        first_v[i] = v[i];
    }
    const int64_t rounds = square_rounds(side, b, &s);
    const int64_t steps = ota_int_max(0, 2 * rounds - (b->symmetric ? 0 : 1));
    square_reverse(side, b->symmetric, first_u, first_v, steps, &s, g, &sums);
    for (int64_t i = 0; i < side; i++) {
        vec *row = g + i * side;
        const vec *weight = (b->symmetric ? k : soft) + i * side;
        vec mean = vec_set(0);
        if (!b->symmetric) square_chains(1, side, weight, 0, 1, row, &mean);
        for (int64_t j = 0; j < side; j++) row[j] = vec_mul(weight[j], vec_sub(row[j], mean));
    }
    b->nonfinite += squares_mend(side, g, left);
    squares_out(side, g, left, (real *)b->out + first * size);
}

static void normalize_reverse(ota_normalize_block *b) {
    b->nonfinite = b->open = 0;
    for (int64_t first = 0; first < b->count; first += LANES) {
        if (b->side == 4)
            reverse_lanes(4, b, first);
        else
            reverse_lanes(b->side, b, first);
    }
}

/* ---- implicit ---------------------------------------------------------------------------------- */

/* L b = y: the weights -L_jk are in w, on whose diagonal lies what its row lacks of c_j, and y in b. Both are changed. A
 * part that hangs on the rest by no more than rounding keeps b = 0: y has nothing to say about it. */
static ALWAYS_INLINE void square_solve(int64_t side, vec *w, vec *b, vec *pivot) {
    for (int64_t k = side - 1; k > 0; k--) {
        vec sum = vec_set(0);
        for (int64_t j = 0; j < k; j++) sum = vec_add(sum, w[k * side + j]);
        const vec least = vec_mul(vec_add(sum, w[k * side + k]), vec_set(8 * LANE_UNIT));
        pivot[k] = vec_select(mask_above(sum, least), vec_div(vec_set(1), sum), vec_set(0));
        for (int64_t j = 0; j < k; j++) {
            const vec part = vec_mul(w[j * side + k], pivot[k]);
            b[j] = vec_fma(part, b[k], b[j]);
            for (int64_t l = 0; l < k; l++)
                w[j * side + l] = vec_fma(part, w[k * side + l], w[j * side + l]);
        }
    }
    b[0] = vec_set(0);
    for (int64_t k = 1; k < side; k++) {
        for (int64_t j = 0; j < k; j++) b[k] = vec_fma(w[k * side + j], b[j], b[k]);
        b[k] = vec_mul(b[k], pivot[k]);
    }
}

static ALWAYS_INLINE void implicit_lanes(int64_t side, ota_normalize_block *block, int64_t first) {
    const int64_t size = side * side, left = block->count - first;
    const vec none = vec_set(0);
    vec own[3 * SQUARE_SIZE + 3 * SIDE];
    vec *p = side <= SIDE ? own : block->room, *g = p + size, *w = g + size, *b = w + size,
        *share = b + side;
    squares_in(side, (const real *)block->plan + first * size, left, p);
    squares_in(side, (const real *)block->plan_grad + first * size, left, g);
    for (int64_t e = 0; e < size; e++) w[e] = none;
    for (int64_t j = 0; j < side; j++) b[j] = none;
    for (int64_t i = 0; i < side; i++) {
        const vec *row = p + i * side;
        vec sum = none, mean = none;
        for (int64_t j = 0; j < side; j++) {
            sum = vec_add(row[j], sum);
            mean = vec_fma(row[j], g[i * side + j], mean);
        }
        share[i] = vec_div(vec_set(1), sum);
        mean = vec_mul(mean, share[i]);
        for (int64_t j = 0; j < side; j++) {
            vec *at = g + i * side + j;
            *at = vec_sub(*at, mean);
            b[j] = vec_fma(row[j], *at, b[j]);
            const vec part = vec_mul(row[j], share[i]);
            for (int64_t k = 0; k < side; k++)
                w[j * side + k] = vec_fma(part, row[k], w[j * side + k]);
        }
    }
    square_solve(side, w, b, share + side);
    for (int64_t i = 0; i < side; i++) {
        const vec *row = p + i * side;
        vec mean;
        square_chains(1, side, row, 0, 1, b, &mean);
        mean = vec_mul(mean, share[i]);
        for (int64_t j = 0; j < side; j++) {
            vec *at = g + i * side + j;
            *at = vec_mul(row[j], vec_add(vec_sub(*at, b[j]), mean));
        }
    }
    block->nonfinite += squares_mend(side, g, left);
    squares_out(side, g, left, (real *)block->out + first * size);
}

static void normalize_implicit(ota_normalize_block *b) {
    b->nonfinite = b->open = 0;
    for (int64_t first = 0; first < b->count; first += LANES) {
        if (b->side == 4)
            implicit_lanes(4, b, first);
        else
            implicit_lanes(b->side, b, first);
    }
}

static const ota_normalizers normalizers = {.lanes = LANES,
                                            .forward = normalize_forward,
                                            .reverse = normalize_reverse,
                                            .implicit = normalize_implicit};
