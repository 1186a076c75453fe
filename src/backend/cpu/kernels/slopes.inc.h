/* Backward of whole rows, and of rows kept as lists (sparse.inc.h). Part of level.c.
 *
 *     slope_weights  w_j = p_j^power where p_j > 0, else 0
 *     slope_mean     sum_j w_j (u_j - b_j)  and  sum_j w_j                   over w_j != 0
 *     slopes         u_j = w_j (u_j - b_j - a) rate where w_j != 0, else 0
 *     gemm_tn   out[j][w] += sum_i p[i][j] x[i][w]                      [keys][width]
 *     gather_dot      s[i] = sum_w q[w] v[where[i]][w]
 *     scatter_add    out[where[i]][w] += p[i] x[w]                           f64 */

static void slope_weights(const real *restrict p, int64_t count, double power, real *restrict w) {
    if (power == 1.0) {
        memcpy(w, p, (size_t)count * sizeof *w);
    } else if (power == 0.5) {
        for (int64_t j = 0; j < count; j++) w[j] = (real)sqrt((double)p[j]);
    } else if (power == 0.0) {
        for (int64_t j = 0; j < count; j++) w[j] = p[j] > 0 ? (real)1 : (real)0;
    } else {
        const exponent by = exponent_of(power);
        for (int64_t j = 0; j < count; j += LANES) {
            const int64_t lanes = ota_int_min(LANES, count - j);
            const vec x = load_lanes(p + j, lanes), none = vec_set(0);
            const vmask above = mask_above(x, none);
            vec weight = none;
            if (mask_count(above) > 0) weight = vec_select(above, vec_power(x, &by), none);
            store_lanes(w + j, weight, lanes);
        }
    }
}

static double slope_mean(const real *w, const real *u, const real *b, int64_t count,
                         double *total_weight) {
    total all = {0, 0}, weights = {0, 0};
    const vec none = vec_set(0);
    for (int64_t start = 0; start < count; start += SHORT) {
        vec sum = none, weight = none;
        for (int64_t j = start; j < ota_int_min(start + SHORT, count); j += LANES) {
            const int64_t lanes = ota_int_min(LANES, count - j);
            const vec x = load_lanes(w + j, lanes);
            vec rest = load_lanes(u + j, lanes);
            if (b) rest = vec_sub(rest, load_lanes(b + j, lanes));
            /* What has no weight may hold anything. */
            rest = vec_select(mask_equal(x, none), none, rest);
            sum = vec_fma(x, rest, sum);
            weight = vec_add(weight, x);
        }
        total_add(&all, (double)vec_reduce_add(sum));
        total_add(&weights, (double)vec_reduce_add(weight));
    }
    *total_weight = total_of(&weights);
    return total_of(&all);
}

static void slopes(const real *w, const real *b, int64_t count, real a, real rate, real *u) {
    const vec none = vec_set(0), mean = vec_set(a), by = vec_set(rate);
    for (int64_t j = 0; j < count; j += LANES) {
        const int64_t lanes = ota_int_min(LANES, count - j);
        const vec weight = load_lanes(w + j, lanes);
        vec rest = load_lanes(u + j, lanes);
        if (b) rest = vec_sub(rest, load_lanes(b + j, lanes));
        rest = vec_mul(vec_mul(weight, vec_sub(rest, mean)), by);
        store_lanes(u + j, vec_select(mask_equal(weight, none), none, rest), lanes);
    }
}

static void gemm_tn(const real *p, int64_t ldp, const real *x, int64_t rows, int64_t keys,
                    int64_t width, real *out) {
    real ones[OTA_KEY_TILE];
    for (int j = 0; j < OTA_KEY_TILE; j++) ones[j] = 1;
    for (int64_t j = 0; j < keys; j += OTA_KEY_TILE) {
        for (int64_t i = 0; i < rows; i += RUN) {
            tile_product_transposed(&(tile_operands){
                .a = p + i * ldp + j,
                .lda = ldp,
                .b = x + i * width,
                .ldb = width,
                .rows = ota_int_min(OTA_KEY_TILE, keys - j),
                .columns = width,
                .length = OTA_FAULT_OF(real, GRADIENT_ROWS, ota_int_min(RUN, rows - i),
                                       ota_int_min(RUN, rows - i) - (rows > 1 && i + RUN >= rows)),
                .out = out + j * width,
                .ldo = width,
                .factor = ones});
        }
    }
}

static void gather_dot(const real *q, const int32_t *where, int64_t count, const real *v,
                       int64_t ldv, int64_t width, real *s) {
    for (int64_t i = 0; i < count; i++) dots_group(1, q, v + where[i] * ldv, ldv, width, s + i);
}

static void scatter_add(const real *p, const int32_t *where, int64_t count, const real *x,
                        int64_t width, double *out) {
    for (int64_t i = 0; i < count; i++) {
        double *to = out + where[i] * width;
        const vec weight = vec_set(p[i]);
        for (int64_t w = 0; w < width; w += LANES) {
            const int64_t lanes = ota_int_min(LANES, width - w);
            accumulate_lanes(to + w, vec_mul(weight, load_lanes(x + w, lanes)), lanes);
        }
    }
}
