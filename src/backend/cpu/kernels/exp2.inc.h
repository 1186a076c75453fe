/* What the bodies stand on: 2^t and the reading of scores. Part of level.c.
 *
 * 2^t = 2^n 2^r, n = round(t), r in [-1/2, 1/2], 2^r = 1 + r q(r): q is the weighted least-squares fit
 * of the relative error on Chebyshev nodes with the constant 1 held and every coefficient rounded
 * before the next was fitted; its relative error is 3.6e-9 (f32, degree 6) and 5.6e-18 (f64, degree
 * 11), so 2^0 = 1 and the rest is within one unit in the last place, subnormals included (1.1 units where
 * the level has no fused product). */

#if OTA_REAL_BITS == 64
#define OF_TYPE(name) ota_kernels_f64_##name
enum { LIFT = OTA_LIFT_F64 };
static const real EXPONENT_LIMIT = 1200.0;
static const real SMALLEST_C = 0x1p-1012;
static const real LARGEST_C = 0x1p1000;
static const real EXP2[] = OTA_EXP2_F64;
#else
#define OF_TYPE(name) ota_kernels_f32_##name
enum { LIFT = OTA_LIFT_F32 };
static const real EXPONENT_LIMIT = 200.0f;
static const real SMALLEST_C = 0x1p-119f;
static const real LARGEST_C = 0x1p120f;
static const real EXP2[] = OTA_EXP2_F32;
#endif
typedef OF_TYPE(table) kernel_table;
typedef OF_TYPE(attend) attend_block;
typedef OF_TYPE(gradient) gradient_block;
typedef OF_TYPE(lanes) lanes_block;
typedef OF_TYPE(log_round) log_round_operands;
typedef OF_TYPE(kernel) kernel_operands;
typedef OF_TYPE(round) round_operands;
typedef OF_TYPE(powers) powers_operands;
typedef OF_TYPE(capped) capped_operands;
typedef OF_TYPE(slopes) slopes_operands;
enum { EXP2_TERMS = sizeof EXP2 / sizeof EXP2[0], RUN = 64, SHORT = 8 * LANES };
#ifdef OTA_PAIRS
enum { HELD = 2 }; /* numbers in an element of a product's operands */
#else
enum { HELD = 1 };
#endif

/* Elements that hold so many numbers. */
static inline int64_t elements_of(int64_t count) { return ota_int_ceil_div(count, HELD); }

/* 2^r for r in [-1/2, 1/2]. */
static ALWAYS_INLINE vec vec_exp2_near(vec r) {
    vec q = vec_set(EXP2[0]);
    UNROLL for (int i = 1; i < EXP2_TERMS; i++) q = vec_fma(q, r, vec_set(EXP2[i]));
    return vec_fma(q, r, vec_set(1));
}

/* 2^t for t <= 0; exactly 0 for -inf, NaN for NaN. */
static ALWAYS_INLINE vec vec_exp2_down(vec t) {
    t = vec_max(vec_set(-EXPONENT_LIMIT), t);
    vec n = vec_round(t);
    return vec_scale_down(vec_exp2_near(vec_sub(t, n)), n);
}

/* 2^t for every t. */
static ALWAYS_INLINE vec vec_exp2(vec t) {
    t = vec_min(vec_set(EXPONENT_LIMIT), vec_max(vec_set(-EXPONENT_LIMIT), t));
    vec n = vec_round(t);
    return vec_scale(vec_exp2_near(vec_sub(t, n)), n);
}

/* 2^(t + LIFT) for t <= 0; exactly 0 for -inf, NaN for NaN. */
static ALWAYS_INLINE vec vec_exp2_scaled(vec t) {
    t = vec_max(vec_set(-EXPONENT_LIMIT - (real)LIFT), t);
    vec n = vec_round(t);
    return vec_scale(vec_exp2_near(vec_sub(t, n)), vec_add(n, vec_set(LIFT)));
}

/* The larger, NaN when either is NaN (vec_max alone keeps a NaN of `old` only). */
static ALWAYS_INLINE vec vec_max_nan(vec x, vec old) {
    return vec_select(mask_nan(x), x, vec_max(x, old));
}

static ALWAYS_INLINE vec load_lanes(const real *from, int64_t lanes) {
    return lanes == LANES ? vec_load(from) : vec_load_part(from, lanes);
}

static ALWAYS_INLINE void store_lanes(real *to, vec x, int64_t lanes) {
    if (lanes == LANES) {
        vec_store(to, x);
    } else {
        vec_store_part(to, x, lanes);
    }
}

static ALWAYS_INLINE void accumulate_lanes(double *to, vec x, int64_t lanes) {
    if (lanes == LANES) {
        vec_accumulate(to, x);
    } else {
        real lane[LANES];
        vec_store(lane, x);
        for (int64_t l = 0; l < lanes; l++) to[l] += (double)lane[l];
    }
}

/* prescale (s_j + h_j) from j on, -inf in the lanes past the end. `prescale` is 1 or, where differences of
 * scores may overflow, 1/2. */
static ALWAYS_INLINE vec load_scores(const real *s, const real *h, int64_t j, int64_t lanes,
                                     real prescale) {
    vec x = load_lanes(s + j, lanes);
    if (prescale < 1) x = vec_mul(x, vec_set(prescale));
    if (h) {
        vec bias = load_lanes(h + j, lanes);
        if (prescale < 1) bias = vec_mul(bias, vec_set(prescale));
        x = vec_add(x, bias);
    }
    return lanes == LANES ? x : vec_select(mask_range(0, lanes), x, vec_set((real)-INFINITY));
}

/* A sum of partial sums that carries what every addition rounds off, so that its error does not grow
 * with their number, in f64 data neither. */
typedef struct total {
    double sum, rest;
} total;

static ALWAYS_INLINE void total_add(total *to, double x) {
    double sum = to->sum + x;
    double part = sum - to->sum;
    to->rest += (to->sum - (sum - part)) + (x - part);
    to->sum = sum;
}

/* An infinite sum has no rest. */
static ALWAYS_INLINE double total_of(const total *from) {
    return isfinite(from->sum) ? from->sum + from->rest : from->sum;
}

/* Below SMALLEST_C a difference of finite scores may overflow although its product with c matters:
 * such rows are formed from halved scores and a doubled c, which is exact. c < 0: numbers are costs. */
static inline real score_prescale(real c) { return (c < 0 ? -c : c) < SMALLEST_C ? (real)0.5 : 1; }
