/* Body for REAL = float or double: are numbers finite? Shared by the passes that pack rows for kernels. */

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
