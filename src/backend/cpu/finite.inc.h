/* Body for REAL = float or double: are numbers finite, and may kernels take rows where they lie? Shared by the passes
 * that pack rows for kernels. */

/* Several sums side by side, which the compiler makes one vector. */
static bool WORD(all_finite)(const REAL *x, int64_t count) {
    enum { LANES = 16 };
    REAL zero[LANES] = {0}, all = (REAL)0;
    const int64_t whole = count / LANES * LANES;
    for (int64_t k = 0; k < whole; k += LANES) {
        for (int l = 0; l < LANES; l++) zero[l] += x[k + l] - x[k + l];
    }
    for (int64_t k = whole; k < count; k++) zero[0] += x[k] - x[k];
    for (int l = 0; l < LANES; l++) all += zero[l];
    return all == (REAL)0;
}

/* Rows from `first` on, if they lie one behind the other in the plan's type; else NULL. */
static inline REAL *WORD(dense_rows)(const ota_array *a, int64_t batch, int64_t head,
                                     int64_t first) {
    if (a->type != REAL_TYPE || a->size[2] < 2 || a->stride[3] != 1 || a->stride[2] != a->size[3])
        return NULL;
    return (REAL *)a->data + (a->size[0] == 1 ? 0 : batch * a->stride[0]) +
           (a->size[1] == 1 ? 0 : head * a->stride[1]) + first * a->stride[2];
}
