/* Tokens to experts (backend/route.h). Part of kernels.inc.h.
 *
 * The largest of a row K_j v_j is found in two sweeps, the maximum and then its first place, and is taken out for the next. */

static int64_t route_form(const ota_route_block *b) {
    const real *logits = b->logits;
    real *kernel = b->kernel, low, high;
    for (int64_t i = 0; i < b->rows; i++) {
        const real *s = logits + i * b->logits_stride;
        if (!extent(s, b->experts, &low, &high)) return i;
        b->sums[i] = exponentials(s, NULL, b->experts, high, LOG2_E, kernel + i * b->stride);
    }
    return -1;
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

/* The first place of the largest of x [whole vectors], which becomes -1. */
static ALWAYS_INLINE int64_t route_largest(real *x, int64_t count) {
    vec top = vec_load(x);
    for (int64_t j = LANES; j < count; j += LANES) top = vec_max(vec_load(x + j), top);
    const vec most = vec_set(vec_reduce_max(top));
    int64_t j = 0;
    unsigned bits = mask_bits(mask_equal(vec_load(x), most));
    while (bits == 0) {
        j += LANES;
        bits = mask_bits(mask_equal(vec_load(x + j), most));
    }
    j += __builtin_ctz(bits);
    x[j] = (real)-1;
    return j;
}

static void route_choose(ota_route_block *b) {
    const real *logits = b->logits, *kernel = b->kernel, *v = b->v;
    real *line = b->line;
    b->value = 0.0;
    for (int64_t i = 0; i < b->rows; i++) {
        const real *row = kernel + i * b->stride, *s = logits + i * b->logits_stride;
        int64_t *chosen = b->chosen + i * b->take;
        for (int64_t j = 0; j < b->experts; j += LANES) {
            const int64_t lanes = ota_int_min(LANES, b->experts - j);
            vec_store(line + j, vec_mul(load_lanes(row + j, lanes), load_lanes(v + j, lanes)));
        }
        for (int64_t j = b->experts; j % LANES != 0; j++) line[j] = (real)-1;
        for (int64_t k = 0; k < b->take; k++) {
            const int64_t found = route_largest(line, b->experts);
            int64_t at = k;
            for (; at > 0 && chosen[at - 1] > found; at--) chosen[at] = chosen[at - 1];
            chosen[at] = found;
            b->loads[found]++;
        }
        for (int64_t k = 0; k < b->take; k++) {
            b->value += (double)s[chosen[k]];
            if (b->shares != NULL) b->shares[i * b->take + k] = (double)row[chosen[k]] / b->sums[i];
        }
    }
}

static const ota_route_passes route_passes = {
    .form = route_form, .round = route_round, .choose = route_choose};
