/* What packing does with dense numbers. Part of level.c. */

/* to[k][r] = row[r][k] for LANES rows, `ld` from one k to the next. */
static void transpose(const real *const *row, int64_t count, real *to, int64_t ld) {
    for (int64_t k = 0; k < count; k += LANES) {
        const int64_t left = ota_int_min(count - k, LANES);
        vec x[LANES];
        UNROLL for (int i = 0; i < LANES; i++) x[i] = load_lanes(row[i] + k, left);
        vec_transpose(x);
        for (int64_t i = 0; i < left; i++) vec_store(to + (k + i) * ld, x[i]);
    }
}

static bool is_finite(const real *x, int64_t count) {
    vec rest[4] = {vec_set(0), vec_set(0), vec_set(0), vec_set(0)};
    int64_t j = 0;
    for (; j + 4 * LANES <= count; j += 4 * LANES) {
        UNROLL for (int i = 0; i < 4; i++) {
            const vec at = vec_load(x + j + i * LANES);
            rest[i] = vec_add(rest[i], vec_sub(at, at));
        }
    }
    for (; j < count; j += LANES) {
        const vec at = load_lanes(x + j, ota_int_min(count - j, LANES));
        rest[0] = vec_add(rest[0], vec_sub(at, at));
    }
    const vec all = vec_add(vec_add(rest[0], rest[1]), vec_add(rest[2], rest[3]));
    return vec_reduce_add(all) == 0;
}
