/* Rows with few weights, kept as a list of keys, and few rows against keys as they lie. Part of
 * level.c.
 *
 *     dots         s[j] = sum_w q[w] k[j][w]
 *     compact       kept[i] = s[where[i]], where = {j : s_j + h_j > floor} in order
 *     spmv   out[w] = sum_i p[i] v[where[i]][w]              [values_width]
 *
 * Sums run as in `apply`: RUN terms in a chain, GROUP_RUNS runs in a block, blocks one after another. */

enum { GROUP_RUNS = 16 };

/* `biased` is a constant where this is expanded: gcc 12 has no code for a choice of vectors under sanitizers. */
static ALWAYS_INLINE int64_t compact_above(const real *s, const real *h, bool biased, int64_t count,
                                           real floor, real *kept, int32_t *where) {
    const vec below = vec_set(floor);
    int64_t found = 0;
    for (int64_t j = 0; j < count; j += LANES) {
        const int64_t lanes = ota_int_min(LANES, count - j);
        const vec x = load_lanes(s + j, lanes);
        vmask above =
            biased ? mask_above(vec_add(x, load_lanes(h + j, lanes)), below) : mask_above(x, below);
        if (lanes < LANES) above = mask_and(above, mask_range(0, lanes));
        const int64_t here = mask_count(above);
        if (here == 0) continue;
        vec_compact(kept + found, above, x);
        mask_places(where + found, above, (int32_t)j);
        found += here;
    }
    return found;
}

static int64_t compact(const real *s, const real *h, int64_t count, real floor, real *kept,
                       int32_t *where) {
    return h ? compact_above(s, h, true, count, floor, kept, where)
             : compact_above(s, s, false, count, floor, kept, where);
}

/* Weights p of the keys of a list, and their values. */
typedef struct kept_values {
    const real *p;
    const int32_t *where;
    int64_t count;
    const real *v;
    int64_t ldv;
} kept_values;

/* Kept keys [first, last), RUN at most, against `vectors` vectors of values; with `part`, `lanes` elements. */
static ALWAYS_INLINE void kept_run(const kept_values *x, int64_t first, int64_t last, int vectors,
                                   bool part, int64_t lanes, vec *sum) {
    UNROLL for (int i = 0; i < vectors; i++) sum[i] = vec_set(0);
    for (int64_t k = first; k < last; k++) {
        const real *row = x->v + x->where[k] * x->ldv;
        const vec weight = vec_set(x->p[k]);
        UNROLL for (int i = 0; i < vectors; i++) {
            const vec value = part ? vec_load_part(row, lanes) : vec_load(row + i * LANES);
            sum[i] = vec_fma(weight, value, sum[i]);
        }
    }
}

static ALWAYS_INLINE void kept_columns(const kept_values *x, int vectors, bool part, int64_t lanes,
                                       real *out) {
    vec all[TILE_VECTORS];
    vec group[TILE_VECTORS];
    vec run[TILE_VECTORS];
    UNROLL for (int i = 0; i < vectors; i++) {
        all[i] = vec_set(0);
        group[i] = vec_set(0);
    }
    for (int64_t k = 0; k < x->count; k += RUN) {
        kept_run(x, k, ota_int_min(k + RUN, x->count), vectors, part, lanes, run);
        UNROLL for (int i = 0; i < vectors; i++) group[i] = vec_add(group[i], run[i]);
        if (k / RUN % GROUP_RUNS != GROUP_RUNS - 1 && k + RUN < x->count) continue;
        UNROLL for (int i = 0; i < vectors; i++) {
            all[i] = vec_add(all[i], group[i]);
            group[i] = vec_set(0);
        }
    }
    UNROLL for (int i = 0; i < vectors; i++) {
        if (part) {
            vec_store_part(out, all[i], lanes);
        } else {
            vec_store(out + i * LANES, all[i]);
        }
    }
}

static void spmv(const real *p, const int32_t *where, int64_t count, const real *v, int64_t ldv,
                 int64_t values_width, real *out) {
    kept_values x = {.p = p, .where = where, .count = count, .v = v, .ldv = ldv};
    int64_t w = 0;
    for (; w + TILE_VECTORS * LANES <= values_width; w += TILE_VECTORS * LANES) {
        x.v = v + w;
        kept_columns(&x, TILE_VECTORS, false, 0, out + w);
    }
    for (; w + LANES <= values_width; w += LANES) {
        x.v = v + w;
        kept_columns(&x, 1, false, 0, out + w);
    }
    if (w < values_width) {
        x.v = v + w;
        kept_columns(&x, 1, true, values_width - w, out + w);
    }
}

/* `count` keys, a constant where this is expanded. */
static ALWAYS_INLINE void dots_group(int count, const real *q, const real *k, int64_t ldk,
                                     int64_t width, real *s) {
    double total[ROWS_AT_ONCE] = {0};
    for (int64_t start = 0; start < width; start += SWEEP) {
        const int64_t end = ota_int_min(start + SWEEP, width);
        vec sum[ROWS_AT_ONCE];
        UNROLL for (int i = 0; i < count; i++) sum[i] = vec_set(0);
        for (int64_t w = start; w < end; w += LANES) {
            const int64_t lanes = ota_int_min(LANES, end - w);
            const vec left = load_lanes(q + w, lanes);
            UNROLL for (int i = 0; i < count; i++) {
                sum[i] = vec_fma(load_lanes(k + i * ldk + w, lanes), left, sum[i]);
            }
        }
        UNROLL for (int i = 0; i < count; i++) total[i] += (double)vec_reduce_add(sum[i]);
    }
    UNROLL for (int i = 0; i < count; i++) s[i] = (real)total[i];
}

static void dots(const real *q, const real *k, int64_t ldk, int64_t count, int64_t width, real *s) {
    int64_t j = 0;
    for (; j + ROWS_AT_ONCE <= count; j += ROWS_AT_ONCE) {
        dots_group(ROWS_AT_ONCE, q, k + j * ldk, ldk, width, s + j);
    }
    for (; j < count; j++) dots_group(1, q, k + j * ldk, ldk, width, s + j);
}
