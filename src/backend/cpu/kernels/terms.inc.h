/* What packing and rows of backward want of dense numbers, what terms and masks do to a row of scores (apply_terms.c), and tanh
 * of softcaps. Part of level.c. Plain loops without branches, of which compilers make vectors; every level gives the same
 * bits. The first term scales the raw products; the factor of the others is 1.
 *
 *     e = exp(-2 |x|) = 2^n (1 + p)      tanh x = sign(x) (1 - e) / (1 + e)      1 - tanh^2 x = 4 e / (1 + e)^2
 *
 * with p = r q(r) as base/exp2.h has it, and 1 - e = -(2^n p + (2^n - 1)), which near 0 is -p: both results are within a
 * few units in the last place, the derivative also where tanh is almost 1. */

/* TANH_ROUNDER + n has n in its last bits; beyond TANH_LIMIT tanh rounds to 1. */
#if OTA_REAL_BITS == 32
typedef uint32_t real_bits;
enum { TANH_FRACTION = 23, TANH_BIAS = 127 };
#define TANH_ROUNDER 0x1.8p23f
#define TANH_LIMIT 9.2f
#define TWO_LOG2_E 0x1.715476p+1f
#define ABSOLUTE fabsf
#else
typedef uint64_t real_bits;
enum { TANH_FRACTION = 52, TANH_BIAS = 1023 };
#define TANH_ROUNDER 0x1.8p52
#define TANH_LIMIT 20.0
#define TWO_LOG2_E 0x1.71547652b82fep+1
#define ABSOLUTE fabs
#endif

/* tanh x = sign(x) rest / whole, and e; what is beyond the limit counts as if it were there. */
typedef struct tanh_parts {
    real e, rest, whole;
} tanh_parts;

static ALWAYS_INLINE tanh_parts parts_of_tanh(real x) {
    const real size = ABSOLUTE(x) < TANH_LIMIT ? ABSOLUTE(x) : TANH_LIMIT;
    const real t = -TWO_LOG2_E * size, rounded = t + TANH_ROUNDER;
    const real r = t - (rounded - TANH_ROUNDER);
    real_bits bits;
    memcpy(&bits, &rounded, sizeof bits);
    bits = (bits << TANH_FRACTION) + ((real_bits)TANH_BIAS << TANH_FRACTION);
    real power, p = EXP2[0];
    memcpy(&power, &bits, sizeof power);
    for (int k = 1; k < EXP2_TERMS; k++) p = p * r + EXP2[k];
    p *= r;
    const real e = power * p + power;
    return (tanh_parts){.e = e, .rest = -(power * p + (power - (real)1)), .whole = (real)1 + e};
}

static ALWAYS_INLINE real tanh_of(real x, tanh_parts parts) {
    const real value = parts.rest / parts.whole, value_signed = x < (real)0 ? -value : value;
    /* NaN is not below the limit, but must come out. */
    return x <= (real)INFINITY ? value_signed : x;
}

static void term_tanh(const real *restrict x, int64_t count, real *restrict tanh_x,
                      real *restrict slope) {
    for (int64_t j = 0; j < count; j++) {
        const tanh_parts parts = parts_of_tanh(x[j]);
        tanh_x[j] = tanh_of(x[j], parts);
        slope[j] = (real)4 * parts.e / (parts.whole * parts.whole);
    }
}

/* An addend of at most `least`, or -inf on either side, forbids the pair whatever the other holds: NaN under a mask must
 * vanish. */
static void term_add_or_forbid(const real *restrict addend, real least, real scale, int64_t count,
                               real *restrict s) {
    for (int64_t k = 0; k < count; k++) {
        const real at = s[k] * scale, sum = at + addend[k];
        const real held = at <= NO_SCORE ? NO_SCORE : sum;
        s[k] = addend[k] <= least ? NO_SCORE : held;
    }
}

static void term_add(const real *restrict addend, real scale, int64_t count, real *restrict s) {
    for (int64_t k = 0; k < count; k++) s[k] = s[k] * scale + addend[k];
}

static void term_allow(const real *restrict flag, int64_t count, real *restrict s) {
    for (int64_t k = 0; k < count; k++) s[k] = flag[k] > (real)0 ? s[k] : NO_SCORE;
}

/* Distances that 32 bits hold, which more levels convert abreast, give the same numbers. */
static void term_distance(int64_t distance, real slope, real scale, int64_t count,
                          real *restrict s) {
    if (distance < INT32_MAX && distance - count > INT32_MIN) {
        for (int32_t k = 0; k < (int32_t)count; k++) {
            const int32_t away = (int32_t)distance - k;
            s[k] = s[k] * scale - slope * (real)(away < 0 ? -away : away);
        }
        return;
    }
    for (int64_t k = 0; k < count; k++) {
        const int64_t away = distance - k;
        s[k] = s[k] * scale - slope * (real)(away < 0 ? -away : away);
    }
}

static void term_softcap(real cap, real scale, int64_t count, real *restrict s) {
    for (int64_t k = 0; k < count; k++) {
        const real at = s[k] * scale, ratio = at / cap;
        const real capped = cap * tanh_of(ratio, parts_of_tanh(ratio));
        s[k] = at <= NO_SCORE ? at : capped;
    }
}

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

static double row_dot(const real *restrict x, const real *restrict y, int64_t count) {
    enum { CHAINS = 8 };
    double part[CHAINS] = {0}, sum = 0.0;
    const int64_t whole = count / CHAINS * CHAINS;
    for (int64_t j = 0; j < whole; j += CHAINS) {
        for (int l = 0; l < CHAINS; l++) part[l] += (double)x[j + l] * (double)y[j + l];
    }
    for (int64_t j = whole; j < count; j++) sum += (double)x[j] * (double)y[j];
    for (int l = 0; l < CHAINS; l++) sum += part[l];
    return sum;
}

static const OF_TYPE(term_passes) term_passes = {.numbers = numbers_from,
                                                 .add_or_forbid = term_add_or_forbid,
                                                 .add = term_add,
                                                 .allow = term_allow,
                                                 .distance = term_distance,
                                                 .softcap = term_softcap,
                                                 .tanh = term_tanh,
                                                 .transpose = transpose,
                                                 .is_finite = is_finite,
                                                 .row_dot = row_dot};
