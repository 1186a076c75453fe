/* Body of bend.c for REAL = float or double. */

void WORD(ota_bend)(const REAL *restrict x, int64_t count, REAL *restrict bent,
                    REAL *restrict left) {
    static const REAL q[] = COEFFICIENTS;
    enum { TERMS = sizeof q / sizeof q[0] };
    for (int64_t j = 0; j < count; j++) {
        const REAL size = ABSOLUTE(x[j]) < LIMIT ? ABSOLUTE(x[j]) : LIMIT;
        const REAL t = -TWO_LOG2_E * size, rounded = t + ROUNDER, r = t - (rounded - ROUNDER);
        BITS bits;
        memcpy(&bits, &rounded, sizeof bits);
        bits = (bits << FRACTION) + ((BITS)BIAS << FRACTION);
        REAL power, p = q[0];
        memcpy(&power, &bits, sizeof power);
        for (int k = 1; k < TERMS; k++) p = p * r + q[k];
        p *= r;
        const REAL e = power * p + power, rest = -(power * p + (power - (REAL)1));
        const REAL whole = (REAL)1 + e, value = rest / whole;
        const REAL turned = x[j] < (REAL)0 ? -value : value;
        /* NaN is not below the limit, but must come out. */
        bent[j] = x[j] <= (REAL)INFINITY ? turned : x[j];
        left[j] = (REAL)4 * e / (whole * whole);
    }
}
