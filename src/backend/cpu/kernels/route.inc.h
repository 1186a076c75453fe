/* Tokens to experts (backend/route.h). Part of kernels.inc.h.
 *
 * The k-th largest of a row K_j v_j is the largest of what comes after the one before it. */

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

/* A place of a row, in the order of its choices: larger numbers first, of equal ones the first. */
typedef struct route_place {
    real value, at;
} route_place;

/* The first place after `last`; x [whole vectors], filled up with -1. Lanes keep their own first largest, without any
 * branch that the numbers decide. */
static ALWAYS_INLINE route_place route_next(const real *x, int64_t count, vec lanes,
                                            const route_place *last) {
    const vec none = vec_set((real)-1), bound = vec_set(last->value), reached = vec_set(last->at);
    vec best = none, at = vec_set(0);
    for (int64_t j = 0; j < count; j += LANES) {
        const vec place = vec_add(lanes, vec_set((real)j)), number = vec_load(x + j);
        vec open = vec_select(mask_above(bound, number), number, none);
        open = vec_select(mask_and(mask_equal(number, bound), mask_above(place, reached)), number,
                          open);
        at = vec_select(mask_above(open, best), place, at);
        best = vec_max(open, best);
    }
    const real value = vec_reduce_max(best);
    const vec far = vec_set((real)OTA_ROUTE_EXPERTS);
    at = vec_select(mask_equal(best, vec_set(value)), at, far);
    return (route_place){value, vec_reduce_min(at)};
}

/* The places that are marked, rising, and clears them. */
static ALWAYS_INLINE void route_rising(uint64_t *taken, int64_t count, int64_t *chosen) {
    for (int64_t word = 0; word * 64 < count; word++) {
        for (uint64_t left = taken[word]; left != 0; left &= left - 1)
            *chosen++ = word * 64 + __builtin_ctzll(left);
        taken[word] = 0;
    }
}

static void route_choose(ota_route_block *b) {
    const real *logits = b->logits, *kernel = b->kernel, *v = b->v;
    real *line = b->line, lanes_of[LANES];
    for (int j = 0; j < LANES; j++) lanes_of[j] = (real)j;
    const vec lanes = vec_load(lanes_of);
    b->value = 0.0;
    for (int64_t i = 0; i < b->rows; i++) {
        const real *row = kernel + i * b->stride, *s = logits + i * b->logits_stride;
        int64_t *chosen = b->chosen + i * b->take;
        for (int64_t j = 0; j < b->experts; j += LANES) {
            const int64_t here = ota_int_min(LANES, b->experts - j);
            vec_store(line + j, vec_mul(load_lanes(row + j, here), load_lanes(v + j, here)));
        }
        for (int64_t j = b->experts; j % LANES != 0; j++) line[j] = (real)-1;
        route_place last = {(real)INFINITY, 0};
        for (int64_t k = 0; k < b->take; k++) {
            last = route_next(line, b->experts, lanes, &last);
            const int64_t at = (int64_t)last.at;
            b->taken[at / 64] |= (uint64_t)1 << (at % 64);
        }
        route_rising(b->taken, b->experts, chosen);
        for (int64_t k = 0; k < b->take; k++) {
            b->loads[chosen[k]]++;
            b->value += (double)s[chosen[k]];
            if (b->shares != NULL) b->shares[i * b->take + k] = (double)row[chosen[k]] / b->sums[i];
        }
    }
}

static const ota_route_passes route_passes = {
    .form = route_form, .round = route_round, .choose = route_choose};
