/* The passes over rows of logits, in plain loops over blocks that compilers turn into vectors. CMakeLists.txt compiles this
 * file once for every level and tells it OTA_TABLE, the table that is defined, and OTA_LEVEL, its name. Per symbol, with b, a
 * the probabilities before and after, x = log(a/b), s = a + b, t = (a - b) / s:
 *
 *     exp(y)   2^k p(r), k = round(y / log 2), r = y - k log 2 in two parts, |r| <= log 2 / 2; p of degree 12
 *              (Taylor, relative error 2e-16); 0 below y = -708
 *     a - b    |x| <= 1/16: b expm1(x) by its series, else as it stands: no cancellation in either
 *     kl       a x - a + b                 |x| <= 1/16: b (x^2/2 + x^3/3 + x^4/8 + ...)
 *     js       (s (log 2 - log(1+y)) - min(a,b) |x|) / 2,  y = min(a,b) / max(a,b)
 *                                          |x| <= 1/4: s (t^2/2 + t^4/12 + t^6/30 + ...) / 2
 *     log(1+y) 2 (v + v^3/3 + v^5/5 + ...), v = y / (2 + y) <= 0.28
 *
 * The series leave relative errors of 1e-13, that of log(1+y) 3e-11 of js. Sums run in 64 lanes, entry j in
 * lane j mod 64, and the lanes are added pairwise. Passes over f64 have lanes of 8. */
#include "logit_kernels.h"

#include <float.h>
#include <stddef.h>
#include <string.h>

enum { BLOCK = 64 };

/* ---- sums and exponentials of a block -------------------------------------------------------- */

static inline double fold(double *x) {
    for (int half = BLOCK / 2; half > 0; half /= 2)
        for (int k = 0; k < half; k++) x[k] += x[k + half];
    return x[0];
}

static inline double larger(double a, double b) { return a > b ? a : b; }
static inline double smaller(double a, double b) { return a < b ? a : b; }

/* y <= 0 or a little above. */
static inline double exponential(double y) {
    /* The sum holds the nearest integer of y / log 2 in the low bits of its fraction. */
    const double shifter = 0x1.8p52, at_least = larger(y, -708.0);
    const double shifted = at_least * 0x1.71547652b82fep0 + shifter;
    const double k = shifted - shifter;
    const double r = (at_least - k * 0x1.62e42fefa0000p-1) - k * 0x1.cf79abc9e3b3ap-40;
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    double p = 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    return y < -708.0 ? 0.0 : p * power;
}

/* ---- series near x = 0 ----------------------------------------------------------------------- */

/* expm1(x), |x| <= 1/16 */
static inline double growth(double x) {
    double p = 1.0 / 40320.0;
    p = p * x + 1.0 / 5040.0;
    p = p * x + 1.0 / 720.0;
    p = p * x + 1.0 / 120.0;
    p = p * x + 1.0 / 24.0;
    p = p * x + 1.0 / 6.0;
    p = p * x + 0.5;
    p = p * x + 1.0;
    return p * x;
}

/* x e^x - e^x + 1 = sum of (n - 1) x^n / n! from n = 2, |x| <= 1/16 */
static inline double relative_series(double x) {
    double p = 8.0 / 362880.0;
    p = p * x + 7.0 / 40320.0;
    p = p * x + 6.0 / 5040.0;
    p = p * x + 5.0 / 720.0;
    p = p * x + 4.0 / 120.0;
    p = p * x + 3.0 / 24.0;
    p = p * x + 2.0 / 6.0;
    p = p * x + 0.5;
    return p * x * x;
}

/* ((1+t) log(1+t) + (1-t) log(1-t)) / 2 = sum of t^2k / (2k (2k-1)), |t| <= tanh(1/8) */
static inline double balanced_series(double t) {
    const double u = t * t;
    double p = 1.0 / 132.0;
    p = p * u + 1.0 / 90.0;
    p = p * u + 1.0 / 56.0;
    p = p * u + 1.0 / 30.0;
    p = p * u + 1.0 / 12.0;
    p = p * u + 0.5;
    return p * u;
}

/* log(1 + y), 0 <= y <= exp(-1/4) */
static inline double log_above(double y) {
    const double v = y / (2.0 + y), u = v * v;
    double p = 1.0 / 19.0;
    p = p * u + 1.0 / 17.0;
    p = p * u + 1.0 / 15.0;
    p = p * u + 1.0 / 13.0;
    p = p * u + 1.0 / 11.0;
    p = p * u + 1.0 / 9.0;
    p = p * u + 1.0 / 7.0;
    p = p * u + 1.0 / 5.0;
    p = p * u + 1.0 / 3.0;
    p = p * u + 1.0;
    return 2.0 * p * v;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static inline int live_of(int64_t start, int64_t count) {
    return count - start < BLOCK ? (int)(count - start) : BLOCK;
}

/* The last block, filled up with its first entry; else the block itself. */
static inline const float *block_of(const float *z, int64_t start, int live, float *room) {
    if (live == BLOCK) return z + start;
    for (int k = 0; k < BLOCK; k++) room[k] = k < live ? z[start + k] : z[start];
    return room;
}

/* The same, filled up with 0. */
static inline const int32_t *ranks_of(const int32_t *ranks, int64_t start, int live,
                                      int32_t *room) {
    if (live == BLOCK) return ranks + start;
    for (int k = 0; k < BLOCK; k++) room[k] = k < live ? ranks[start + k] : 0;
    return room;
}

static inline void add_to(double *sums, const double *terms) {
    for (int k = 0; k < BLOCK; k++) sums[k] += terms[k];
}

static inline double size_of(double x) { return larger(x, -x); }

/* ---- one row --------------------------------------------------------------------------------- */

static void scan(const float *z, int64_t count, logit_scan *scan) {
    float room[BLOCK], low[BLOCK], high[BLOCK];
    double sum[BLOCK] = {0.0}, term[BLOCK];
    uint32_t nonfinite[BLOCK] = {0};
    const double first = (double)z[0];
    for (int k = 0; k < BLOCK; k++) low[k] = high[k] = z[0];
    for (int64_t start = 0; start < count; start += BLOCK) {
        const int live = live_of(start, count);
        const float *const from = block_of(z, start, live, room);
        for (int k = 0; k < BLOCK; k++) {
            uint32_t bits;
            memcpy(&bits, from + k, sizeof bits);
            nonfinite[k] |= (bits & 0x7f800000U) == 0x7f800000U ? 1U : 0U;
        }
        for (int k = 0; k < BLOCK; k++) low[k] = from[k] < low[k] ? from[k] : low[k];
        for (int k = 0; k < BLOCK; k++) high[k] = from[k] > high[k] ? from[k] : high[k];
        for (int k = 0; k < BLOCK; k++) term[k] = (double)from[k] - first;
        for (int k = live; k < BLOCK; k++) term[k] = 0.0;
        add_to(sum, term);
    }
    *scan = (logit_scan){first, first, fold(sum), 0};
    for (int k = 0; k < BLOCK; k++) {
        scan->least = smaller((double)low[k], scan->least);
        scan->most = larger((double)high[k], scan->most);
        scan->nonfinite |= nonfinite[k] != 0;
    }
}

static void weigh(const float *z, int64_t count, int64_t leader, double mean, double *weights,
                  logit_sums *sums) {
    float room[BLOCK];
    double weight[BLOCK], energy[BLOCK], square[BLOCK];
    double rest[BLOCK] = {0.0}, energies[BLOCK] = {0.0}, squares[BLOCK] = {0.0};
    const double top = (double)z[leader];
    for (int64_t start = 0; start < count; start += BLOCK) {
        const int live = live_of(start, count);
        const float *const from = block_of(z, start, live, room);
        for (int k = 0; k < BLOCK; k++) {
            const double x = (double)from[k];
            weight[k] = exponential(x - top);
            energy[k] = weight[k] * (top - x);
            square[k] = (x - mean) * (x - mean);
        }
        for (int k = live; k < BLOCK; k++) weight[k] = energy[k] = square[k] = 0.0;
        if (weights != NULL) memcpy(weights + start, weight, (size_t)live * sizeof *weights);
        if (leader >= start && leader < start + BLOCK) weight[leader - start] = 0.0;
        add_to(rest, weight);
        add_to(energies, energy);
        add_to(squares, square);
    }
    *sums = (logit_sums){fold(rest), fold(energies), fold(squares)};
}

static double mass(const double *z, double top, int64_t count) {
    double weight[BLOCK], sums[BLOCK] = {0.0};
    for (int64_t start = 0; start < count; start += BLOCK) {
        const int live = live_of(start, count);
        for (int k = 0; k < live; k++) weight[k] = exponential(z[start + k] - top);
        for (int k = live; k < BLOCK; k++) weight[k] = 0.0;
        add_to(sums, weight);
    }
    return fold(sums);
}

/* ---- two rows -------------------------------------------------------------------------------- */

/* Probabilities, x, a - b and a x - a + b of a block; 0 past the end. */
typedef struct pair_block {
    double b[BLOCK], a[BLOCK], x[BLOCK], difference[BLOCK], relative[BLOCK];
} pair_block;

typedef struct pair_sums {
    double kl[BLOCK], rise[BLOCK], fall[BLOCK], risen[BLOCK], fallen[BLOCK], entropy[BLOCK],
        js[BLOCK], product[BLOCK], ranks[BLOCK], low[BLOCK], high[BLOCK];
    double leader;
} pair_sums;

/* Probabilities of a block. */
static inline void weigh_block(const logit_side *side, const float *z, int64_t start, int live,
                               double *p) {
    const double top = side->top, share = side->share;
    if (side->weights != NULL && live == BLOCK) {
        for (int k = 0; k < BLOCK; k++) p[k] = side->weights[start + k] * share;
        return;
    }
    for (int k = 0; k < BLOCK; k++) p[k] = exponential((double)z[k] - top) * share;
    for (int k = live; k < BLOCK; k++) p[k] = 0.0;
}

static inline void read_pair(const logit_pair *pair, const float *z, const float *w, int64_t start,
                             int live, pair_block *p) {
    const double common = pair->common, level = pair->level;
    weigh_block(&pair->before, z, start, live, p->b);
    weigh_block(&pair->after, w, start, live, p->a);
    for (int k = 0; k < BLOCK; k++) p->x[k] = (((double)w[k] - (double)z[k]) - common) - level;
    for (int k = live; k < BLOCK; k++) p->x[k] = 0.0;
    for (int k = 0; k < BLOCK; k++) {
        const double x = p->x[k];
        p->difference[k] = size_of(x) <= 0.0625 ? p->b[k] * growth(x) : p->a[k] - p->b[k];
        p->relative[k] =
            size_of(x) <= 0.0625 ? p->b[k] * relative_series(x) : p->a[k] * x - p->difference[k];
    }
}

static inline void add_distances(const logit_pair *pair, int64_t start, const pair_block *p,
                                 pair_sums *sums) {
    double rise[BLOCK], fall[BLOCK], risen[BLOCK], fallen[BLOCK];
    add_to(sums->kl, p->relative);
    for (int k = 0; k < BLOCK; k++) {
        rise[k] = larger(p->difference[k], 0.0);
        fall[k] = larger(-p->difference[k], 0.0);
        risen[k] = p->difference[k] > 0.0 ? p->a[k] : 0.0;
        fallen[k] = p->difference[k] < 0.0 ? p->a[k] : 0.0;
    }
    if (pair->leader >= start && pair->leader < start + BLOCK) {
        const int64_t k = pair->leader - start;
        sums->leader = p->difference[k];
        rise[k] = fall[k] = risen[k] = fallen[k] = 0.0;
    }
    add_to(sums->rise, rise);
    add_to(sums->fall, fall);
    add_to(sums->risen, risen);
    add_to(sums->fallen, fallen);
}

static inline void add_entropy(const logit_pair *pair, const float *z, const float *w,
                               const pair_block *p, double *entropy) {
    const logit_side *const before = &pair->before, *const after = &pair->after;
    for (int k = 0; k < BLOCK; k++) {
        const double a = p->a[k], b = p->b[k];
        const double log_b = ((double)z[k] - before->top) + before->log_share;
        const double log_a = ((double)w[k] - after->top) + after->log_share;
        entropy[k] += ota_entropy_term(p->difference[k], p->x[k], p->relative[k], log_b,
                                       pair->centre, -a * log_a, -b * log_b);
    }
}

static inline void add_js(const pair_block *p, double *js) {
    for (int k = 0; k < BLOCK; k++) {
        const double a = p->a[k], b = p->b[k], x = size_of(p->x[k]), s = a + b;
        /* The least normal number keeps 0/0 away where both underflow. */
        const double t = p->difference[k] / (s + DBL_MIN);
        const double low = smaller(a, b), y = low / (larger(a, b) + DBL_MIN);
        const double far = s * (0x1.62e42fefa39efp-1 - log_above(y)) - low * x;
        js[k] += 0.5 * (x <= 0.25 ? s * balanced_series(t) : far);
    }
}

static inline void add_changes(const logit_pair *pair, const float *z, const float *w,
                               const int32_t *before, const int32_t *after, int live,
                               pair_sums *sums) {
    const double z_mean = pair->before.mean, w_mean = pair->after.mean;
    double product[BLOCK];
    for (int k = 0; k < BLOCK; k++) {
        const double change = (double)w[k] - (double)z[k];
        sums->low[k] = smaller(change, sums->low[k]);
        sums->high[k] = larger(change, sums->high[k]);
        product[k] = ((double)z[k] - z_mean) * ((double)w[k] - w_mean);
    }
    for (int k = live; k < BLOCK; k++) product[k] = 0.0;
    add_to(sums->product, product);
    for (int k = 0; k < BLOCK; k++) sums->ranks[k] += (double)before[k] * (double)after[k];
}

static void compare(const logit_pair *pair, logit_changes *changes) {
    float z_room[BLOCK], w_room[BLOCK];
    int32_t b_ranks[BLOCK], a_ranks[BLOCK];
    const logit_side *const b = &pair->before, *const a = &pair->after;
    pair_block block;
    pair_sums sums = {.kl = {0.0}};
    const double first = (double)a->logits[0] - (double)b->logits[0];
    for (int k = 0; k < BLOCK; k++) sums.low[k] = sums.high[k] = first;
    for (int64_t start = 0; start < pair->count; start += BLOCK) {
        const int live = live_of(start, pair->count);
        const float *const z = block_of(b->logits, start, live, z_room);
        const float *const w = block_of(a->logits, start, live, w_room);
        read_pair(pair, z, w, start, live, &block);
        add_distances(pair, start, &block, &sums);
        add_entropy(pair, z, w, &block, sums.entropy);
        add_js(&block, sums.js);
        add_changes(pair, z, w, ranks_of(b->ranks, start, live, b_ranks),
                    ranks_of(a->ranks, start, live, a_ranks), live, &sums);
    }
    *changes = (logit_changes){
        .rise = fold(sums.rise),
        .fall = fold(sums.fall),
        .risen = fold(sums.risen),
        .fallen = fold(sums.fallen),
        .leader = sums.leader,
        .entropy = fold(sums.entropy),
        .kl = fold(sums.kl),
        .js = fold(sums.js),
        .least = first,
        .most = first,
        .product = fold(sums.product),
        .ranks = fold(sums.ranks),
    };
    for (int k = 0; k < BLOCK; k++) {
        changes->least = smaller(sums.low[k], changes->least);
        changes->most = larger(sums.high[k], changes->most);
    }
}

static double apart(const double *z, double top, double share, const logit_side *side,
                    int64_t count) {
    float room[BLOCK];
    double p[BLOCK], q[BLOCK], sums[BLOCK] = {0.0};
    for (int64_t start = 0; start < count; start += BLOCK) {
        const int live = live_of(start, count);
        weigh_block(side, block_of(side->logits, start, live, room), start, live, q);
        for (int k = 0; k < live; k++) p[k] = exponential(z[start + k] - top) * share;
        for (int k = live; k < BLOCK; k++) p[k] = 0.0;
        for (int k = 0; k < BLOCK; k++) sums[k] += size_of(p[k] - q[k]);
    }
    return fold(sums);
}

/* ---- three rows ------------------------------------------------------------------------------ */

static void place(const logit_pair *pair, const logit_side *first, logit_place *place) {
    float z_room[BLOCK], w_room[BLOCK], f_room[BLOCK];
    double p[BLOCK], q[BLOCK], from[BLOCK], kl[BLOCK] = {0.0}, drift[BLOCK] = {0.0};
    const double common = pair->common, level = pair->level;
    for (int64_t start = 0; start < pair->count; start += BLOCK) {
        const int live = live_of(start, pair->count);
        const float *const z = block_of(pair->before.logits, start, live, z_room);
        const float *const w = block_of(pair->after.logits, start, live, w_room);
        weigh_block(&pair->before, z, start, live, p);
        weigh_block(&pair->after, w, start, live, q);
        weigh_block(first, block_of(first->logits, start, live, f_room), start, live, from);
        for (int k = 0; k < BLOCK; k++) {
            const double x = (((double)w[k] - (double)z[k]) - common) - level;
            kl[k] += q[k] * x - (q[k] - p[k]);
            drift[k] += size_of(p[k] - from[k]);
        }
    }
    *place = (logit_place){fold(kl), fold(drift)};
}

/* ---- alignment ------------------------------------------------------------------------------- */

static void widen(const float *restrict a, const float *restrict b, double shift, int64_t count,
                  double *restrict low, double *restrict high) {
    if (b == NULL) {
        for (int64_t j = 0; j < count; j++) {
            const double t = (double)a[j] - shift;
            low[j] = t < low[j] ? t : low[j];
            high[j] = t > high[j] ? t : high[j];
        }
        return;
    }
    for (int64_t j = 0; j < count; j++) {
        const double t = ((double)a[j] - (double)b[j]) - shift;
        low[j] = t < low[j] ? t : low[j];
        high[j] = t > high[j] ? t : high[j];
    }
}

static void columns(const double *restrict x, double shift, int64_t row, int64_t count,
                    double *restrict low, int64_t *restrict low_at, double *restrict high) {
    for (int64_t j = 0; j < count; j++) {
        const double t = x[j] - shift;
        low_at[j] = t < low[j] ? row : low_at[j];
        low[j] = t < low[j] ? t : low[j];
        high[j] = t > high[j] ? t : high[j];
    }
}

/* Loops of fewer lanes are unrolled into scalars. */
static void row(const double *restrict x, const double *restrict shifts, int64_t count, double *low,
                double *high) {
    double lows[BLOCK], highs[BLOCK], t[BLOCK];
    for (int k = 0; k < BLOCK; k++) lows[k] = *low;
    for (int k = 0; k < BLOCK; k++) highs[k] = *high;
    int64_t j = 0;
    for (; j + BLOCK <= count; j += BLOCK) {
        for (int k = 0; k < BLOCK; k++) t[k] = x[j + k] - shifts[j + k];
        for (int k = 0; k < BLOCK; k++) lows[k] = smaller(t[k], lows[k]);
        for (int k = 0; k < BLOCK; k++) highs[k] = larger(t[k], highs[k]);
    }
    for (int k = 0; j < count; j++, k++) {
        const double left = x[j] - shifts[j];
        lows[k] = smaller(left, lows[k]);
        highs[k] = larger(left, highs[k]);
    }
    for (int k = 0; k < BLOCK; k++) {
        *low = smaller(lows[k], *low);
        *high = larger(highs[k], *high);
    }
}

static void difference(const float *restrict a, const float *restrict b, int64_t count,
                       double *restrict out) {
    if (b == NULL) {
        for (int64_t j = 0; j < count; j++) out[j] = (double)a[j];
        return;
    }
    for (int64_t j = 0; j < count; j++) out[j] = (double)a[j] - (double)b[j];
}

/* The last block, filled up with 0; else the block itself. */
static inline const double *doubles_of(const double *x, int64_t start, int live, double *room) {
    if (live == BLOCK) return x + start;
    for (int k = 0; k < BLOCK; k++) room[k] = k < live ? x[start + k] : 0.0;
    return room;
}

static inline double highest(const double *high) {
    double most = 0.0;
    for (int k = 0; k < BLOCK; k++) most = larger(high[k], most);
    return most;
}

static int largest(const double *x, int64_t count, double limit, double *most) {
    double room[BLOCK], size[BLOCK], high[BLOCK] = {0.0}, nonfinite[BLOCK] = {0.0};
    for (int64_t start = 0; start < count; start += BLOCK) {
        const double *const from = doubles_of(x, start, live_of(start, count), room);
        for (int k = 0; k < BLOCK; k++) size[k] = size_of(from[k]);
        for (int k = 0; k < BLOCK; k++) high[k] = larger(size[k], high[k]);
        for (int k = 0; k < BLOCK; k++) nonfinite[k] = size[k] <= limit ? nonfinite[k] : 1.0;
    }
    *most = larger(highest(high), *most);
    return highest(nonfinite) > 0.0;
}

static double rest(const double *x, double k, const double *v, int64_t count, double inverse,
                   double *most) {
    double x_room[BLOCK], v_room[BLOCK], left[BLOCK], high[BLOCK] = {0.0}, squares[BLOCK] = {0.0};
    for (int64_t start = 0; start < count; start += BLOCK) {
        const int live = live_of(start, count);
        const double *const from = doubles_of(x, start, live, x_room);
        const double *const shift = doubles_of(v, start, live, v_room);
        for (int l = 0; l < BLOCK; l++) left[l] = size_of(from[l] - k - shift[l]);
        for (int l = live; l < BLOCK; l++) left[l] = 0.0;
        for (int l = 0; l < BLOCK; l++) high[l] = larger(left[l], high[l]);
        for (int l = 0; l < BLOCK; l++) squares[l] += (left[l] * inverse) * (left[l] * inverse);
    }
    *most = larger(highest(high), *most);
    return fold(squares);
}

/* ---- transport at Hamming cost --------------------------------------------------------------- */

/* Entry j of a sum goes into lane j mod OCTET. */
enum { OCTET = 8 };

/* Eight numbers that compilers keep in vectors; arrays of eight become scalars. */
typedef double lanes __attribute__((vector_size(OCTET * sizeof(double))));

/* Sums side by side, the rounding error of every addition (Knuth) in `slips`: as exact as one rounding. */
typedef struct octet {
    lanes sums, slips;
} octet;

static inline void add_octet(octet *s, const double *terms) {
    lanes term;
    memcpy(&term, terms, sizeof term);
    const lanes sum = s->sums + term, back = sum - s->sums;
    s->slips += (s->sums - (sum - back)) + (term - back);
    s->sums = sum;
}

/* terms [BLOCK] */
static inline void add_block(octet *s, const double *terms) {
    for (int k = 0; k < BLOCK; k += OCTET) add_octet(s, terms + k);
}

static double value_of(const octet *s) {
    double sum = 0.0, slip = 0.0, sums[OCTET], slips[OCTET];
    memcpy(sums, &s->sums, sizeof sums);
    memcpy(slips, &s->slips, sizeof slips);
    for (int k = 0; k < 2 * OCTET; k++) {
        const double term = k % 2 == 0 ? sums[k / 2] : slips[k / 2];
        const double next = sum + term, back = next - sum;
        slip += (sum - (next - back)) + (term - back);
        sum = next;
    }
    return sum + slip;
}

static double total(const double *x, int64_t count) {
    octet s = {{0}, {0}};
    double room[BLOCK];
    for (int64_t start = 0; start < count; start += BLOCK)
        add_block(&s, doubles_of(x, start, live_of(start, count), room));
    return value_of(&s);
}

static inline double quotient(double above, double below) {
    return above / (below > DBL_MIN ? below : DBL_MIN);
}

static double divide(const double *restrict mass, double scale, const double *restrict other,
                     double slope, double shared, int64_t count, double *restrict to) {
    octet s = {{0}, {0}};
    double mass_room[BLOCK], other_room[BLOCK], terms[BLOCK];
    for (int64_t start = 0; start < count; start += BLOCK) {
        const int live = live_of(start, count);
        const double *const m = doubles_of(mass, start, live, mass_room);
        const double *const o = doubles_of(other, start, live, other_room);
        for (int k = 0; k < BLOCK; k++) terms[k] = quotient(m[k] * scale, slope * o[k] + shared);
        for (int k = live; k < BLOCK; k++) terms[k] = 0.0;
        memcpy(to + start, terms, (size_t)live * sizeof *to);
        add_block(&s, terms);
    }
    return value_of(&s);
}

static double miss(const double *restrict x, const double *restrict other, double slope,
                   double shared, const double *restrict mass, double scale, int64_t count) {
    octet s = {{0}, {0}};
    double x_room[BLOCK], other_room[BLOCK], mass_room[BLOCK], terms[BLOCK];
    for (int64_t start = 0; start < count; start += BLOCK) {
        const int live = live_of(start, count);
        const double *const from = doubles_of(x, start, live, x_room);
        const double *const o = doubles_of(other, start, live, other_room);
        const double *const m = doubles_of(mass, start, live, mass_room);
        for (int k = 0; k < BLOCK; k++)
            terms[k] = size_of(from[k] * (slope * o[k] + shared) - m[k] * scale);
        for (int k = live; k < BLOCK; k++) terms[k] = 0.0;
        add_block(&s, terms);
    }
    return value_of(&s);
}

const ota_logit_kernels OTA_TABLE = {.name = OTA_LEVEL,
                                     .scan = scan,
                                     .weigh = weigh,
                                     .compare = compare,
                                     .place = place,
                                     .mass = mass,
                                     .apart = apart,
                                     .widen = widen,
                                     .columns = columns,
                                     .row = row,
                                     .difference = difference,
                                     .largest = largest,
                                     .rest = rest,
                                     .total = total,
                                     .divide = divide,
                                     .miss = miss};
