/* x^p = 2^(p log2 x). Part of level.c.
 *
 * A power of 2^-1000 needs its logarithm ten bits better than the type, so log2 x is carried as a head and a tail,
 * exactly enough for every p. With x = m 2^e, m in [sqrt 1/2, sqrt 2), and s = (m - 1) / (m + 1), |s| < 0.172,
 *
 *     log2 m = s (C + z (C/3 + z q(z))),  C = 2 / ln 2,  z = s^2
 *
 * where s, z, C and C/3 have tails, too. q was fitted as that of 2^t was (exp2.inc.h), weighted with z^2: the
 * error it leaves is 2^-36.7 of log2 m (f32, 3 terms) and 2^-66.1 (f64, 7 terms). So 1^p = 1, whole powers of two
 * are exact, and the rest is within 1.2 units in the last place, subnormals included (1.5 where the level has no
 * fused product); tests/backend/test_power.c prints what it finds. Between neighbours x it may fall by a unit where it
 * should rise: what searches for a threshold keeps a bracket. */

#if OTA_REAL_BITS == 64
static const real LOG2_C[] = {0x1.71547652b82fep+1, 0x1.777d0ffda0d24p-55};
static const real LOG2_THIRD[] = {0x1.ec709dc3a03fdp-1, 0x1.d27f05548af0cp-55};
static const real LOG2[] = {
    0x1.860866398fe5p-3,  0x1.87ad15eec0405p-3, 0x1.c69fb874debdep-3, 0x1.0c9a634d98964p-2,
    0x1.484b14235eaacp-2, 0x1.a61762a756943p-2, 0x1.2776c50ef9d33p-1,
};
static const real SQRT_2 = 0x1.6a09e667f3bcdp0;
#else
static const real LOG2_C[] = {0x1.715476p+1f, 0x1.4ae0cp-25f};
static const real LOG2_THIRD[] = {0x1.ec709ep-1f, -0x1.e2fe02p-28f};
static const real LOG2[] = {0x1.5a0964p-2f, 0x1.a5baa6p-2f, 0x1.27771p-1f};
static const real SQRT_2 = 0x1.6a09e6p0f;
#endif
enum { LOG2_TERMS = sizeof LOG2 / sizeof LOG2[0] };

/* An exponent p as a head and a tail. From 2^70 on every x but 1 has the power 0 or inf. */
typedef struct exponent {
    real head, tail;
} exponent;

static inline exponent exponent_of(double p) {
    const double most = 0x1p70;
    const double held = p > most ? most : p < -most ? -most : p;
    const real head = (real)held;
    const exponent e = {head, (real)(held - (double)head)};
    return e;
}

/* log2 x for finite x > 0. */
static ALWAYS_INLINE vec vec_log2(vec x, vec *tail) {
    const vec one = vec_set(1);
    vec m = vec_fraction(x);
    vec e = vec_exponent(x);
    const vmask upper = mask_above(m, vec_set(SQRT_2));
    m = vec_select(upper, vec_mul(m, vec_set((real)0.5)), m);
    e = vec_select(upper, vec_add(e, one), e);

    const vec a = vec_sub(m, one), b = vec_add(m, one), b_tail = vec_sub(m, vec_sub(b, one));
    const vec inverse = vec_div(one, b);
    const vec s = vec_mul(a, inverse), back = vec_mul(s, b);
    vec left = vec_sub(vec_sub(a, back), vec_rest(s, b, back));
    left = vec_sub(left, vec_mul(s, b_tail));
    const vec s_tail = vec_mul(left, inverse);

    const vec z = vec_mul(s, s);
    const vec z_tail = vec_fma(vec_add(s, s), s_tail, vec_rest(s, s, z));
    vec q = vec_set(LOG2[0]);
    UNROLL for (int i = 1; i < LOG2_TERMS; i++) q = vec_fma(q, z, vec_set(LOG2[i]));
    const vec third = vec_set(LOG2_THIRD[0]), u = vec_mul(z, third);
    vec u_tail = vec_fma(z, vec_fma(q, z, vec_set(LOG2_THIRD[1])), vec_rest(z, third, u));
    u_tail = vec_fma(z_tail, third, u_tail);

    /* The head of a sum whose first part is the larger one, and what it lost. */
    const vec c = vec_set(LOG2_C[0]), f = vec_add(c, u);
    const vec f_tail = vec_add(vec_add(vec_sub(c, f), u), vec_add(vec_set(LOG2_C[1]), u_tail));
    const vec g = vec_mul(s, f);
    const vec g_tail = vec_fma(s, f_tail, vec_fma(s_tail, f, vec_rest(s, f, g)));
    const vec all = vec_add(e, g);
    *tail = vec_add(vec_add(vec_sub(e, all), g), g_tail);
    return all;
}

/* (x + rest)^p for a rest within the rounding of x; 0 for x <= 0; NaN and inf stay what they are. */
static ALWAYS_INLINE vec vec_power_of(vec x, const vec *rest, const exponent *p) {
    const vec none = vec_set(0), by = vec_set(p->head), half = vec_set((real)0.5);
    vec low;
    vec log = vec_log2(x, &low);
    if (rest) {
        /* Beside x = 1, whose logarithm is 0, the rest is the larger part. */
        const vec more = vec_fma(vec_div(*rest, x), vec_set((real)OTA_LOG2_E), low);
        const vec all = vec_add(log, more), from = vec_sub(all, log);
        low = vec_add(vec_sub(log, vec_sub(all, from)), vec_sub(more, from));
        log = all;
    }
    vec t = vec_mul(log, by);
    vec tail = vec_fma(log, vec_set(p->tail), vec_fma(low, by, vec_rest(log, by, t)));
    t = vec_min(vec_set(EXPONENT_LIMIT), vec_max(vec_set(-EXPONENT_LIMIT), t));
    /* Of an exponent beyond the limit the tail may be anything. */
    tail = vec_min(half, vec_max(vec_sub(none, half), tail));
    const vec n = vec_round(t);
    const vec power = vec_scale(vec_exp2_near(vec_add(vec_sub(t, n), tail)), n);
    const vmask plain = mask_and(mask_above(x, none), mask_above(vec_set((real)INFINITY), x));
    return vec_select(plain, power, vec_max(none, x));
}

static ALWAYS_INLINE vec vec_power(vec x, const exponent *p) { return vec_power_of(x, NULL, p); }
