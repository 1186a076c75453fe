/* The passes over rows of logits, in plain loops over blocks of 64 that compilers turn into vectors; compiled
 * per level by sweep_LEVEL.c, which defines SWEEP_TABLE and SWEEP_NAME. Per symbol, with b, a the
 * probabilities before and after, x = log(a/b), s = a + b, t = (a - b) / s:
 *
 *     exp(y)   2^k p(r), k = round(y / log 2), r = y - k log 2 in two parts, |r| <= log 2 / 2; p of degree 12
 *              (Taylor, relative error 2e-16); 0 below y = -708
 *     a - b    |x| <= 1/8: b expm1(x) by its series, else as it stands: no cancellation in either
 *     kl       a x - a + b                 |x| <= 1/8: b (x^2/2 + x^3/3 + x^4/8 + ...)
 *     js       (s (log 2 - log(1+y)) - min(a,b) |x|) / 2,  y = min(a,b) / max(a,b)
 *                                          |x| <= 1/8: s (t^2/2 + t^4/12 + t^6/30 + ...) / 2
 *     log(1+y) 2 (v + v^3/3 + v^5/5 + ...), v = y / (2 + y) <= 0.31
 *
 * Sums: pairwise within a block, then block by block. */
#include "sweep.h"

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

/* expm1(x), |x| <= 1/8: relative error below 1e-16 */
static inline double growth(double x) {
    double p = 1.0 / 3628800.0;
    p = p * x + 1.0 / 362880.0;
    p = p * x + 1.0 / 40320.0;
    p = p * x + 1.0 / 5040.0;
    p = p * x + 1.0 / 720.0;
    p = p * x + 1.0 / 120.0;
    p = p * x + 1.0 / 24.0;
    p = p * x + 1.0 / 6.0;
    p = p * x + 0.5;
    p = p * x + 1.0;
    return p * x;
}

/* x e^x - e^x + 1 = sum of (n - 1) x^n / n! from n = 2, |x| <= 1/8 */
static inline double relative_series(double x) {
    double p = 9.0 / 3628800.0;
    p = p * x + 8.0 / 362880.0;
    p = p * x + 7.0 / 40320.0;
    p = p * x + 6.0 / 5040.0;
    p = p * x + 5.0 / 720.0;
    p = p * x + 4.0 / 120.0;
    p = p * x + 3.0 / 24.0;
    p = p * x + 2.0 / 6.0;
    p = p * x + 0.5;
    return p * x * x;
}

/* ((1+t) log(1+t) + (1-t) log(1-t)) / 2 = sum of t^2k / (2k (2k-1)), |t| <= 1/16 */
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

/* log(1 + y), 0 <= y <= exp(-1/8) */
static inline double log_above(double y) {
    const double v = y / (2.0 + y), u = v * v;
    double p = 1.0 / 29.0;
    p = p * u + 1.0 / 27.0;
    p = p * u + 1.0 / 25.0;
    p = p * u + 1.0 / 23.0;
    p = p * u + 1.0 / 21.0;
    p = p * u + 1.0 / 19.0;
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

/* ---- one row --------------------------------------------------------------------------------- */

/* The last block, filled up with its first entry; else the block itself. */
static inline const float *block_of(const float *z, int64_t start, int64_t count, float *room) {
    if (count - start >= BLOCK) return z + start;
    for (int k = 0; k < BLOCK; k++) room[k] = start + k < count ? z[start + k] : z[start];
    return room;
}

static inline int64_t live_of(int64_t start, int64_t count) {
    return count - start < BLOCK ? count - start : BLOCK;
}

static inline void scan_block(const float *z, double first, double *low, double *high, double *sum,
                              uint32_t *broken) {
    for (int k = 0; k < BLOCK; k++) {
        uint32_t bits;
        memcpy(&bits, z + k, sizeof bits);
        broken[k] |= (bits & 0x7f800000U) == 0x7f800000U ? 1U : 0U;
    }
    for (int k = 0; k < BLOCK; k++) {
        const double x = (double)z[k];
        low[k] = smaller(x, low[k]);
        high[k] = larger(x, high[k]);
        sum[k] = x - first;
    }
}

static void scan(const float *z, int64_t count, sweep_scan *scan) {
    float room[BLOCK];
    double low[BLOCK], high[BLOCK], sum[BLOCK];
    uint32_t broken[BLOCK] = {0};
    const double first = (double)z[0];
    *scan = (sweep_scan){first, first, 0.0, 0};
    for (int k = 0; k < BLOCK; k++) low[k] = high[k] = first;
    for (int64_t start = 0; start < count; start += BLOCK) {
        scan_block(block_of(z, start, count, room), first, low, high, sum, broken);
        for (int64_t k = live_of(start, count); k < BLOCK; k++) sum[k] = 0.0;
        scan->sum += fold(sum);
    }
    for (int k = 0; k < BLOCK; k++) {
        scan->least = smaller(low[k], scan->least);
        scan->most = larger(high[k], scan->most);
        scan->broken |= broken[k] != 0;
    }
}

static void weigh(const float *z, int64_t count, int64_t leader, double mean,
                  sweep_weights *weights) {
    float room[BLOCK];
    double weight[BLOCK], energy[BLOCK], square[BLOCK];
    const double top = (double)z[leader];
    *weights = (sweep_weights){0.0, 0.0, 0.0};
    for (int64_t start = 0; start < count; start += BLOCK) {
        const float *const from = block_of(z, start, count, room);
        for (int k = 0; k < BLOCK; k++) {
            const double x = (double)from[k];
            weight[k] = exponential(x - top);
            energy[k] = weight[k] * (top - x);
            square[k] = (x - mean) * (x - mean);
        }
        for (int64_t k = live_of(start, count); k < BLOCK; k++) {
            weight[k] = energy[k] = square[k] = 0.0;
        }
        if (leader >= start && leader < start + BLOCK) weight[leader - start] = 0.0;
        weights->rest += fold(weight);
        weights->energy += fold(energy);
        weights->squares += fold(square);
    }
}

/* ---- two rows -------------------------------------------------------------------------------- */

/* What both comparisons need of a block. */
typedef struct pair_block {
    double b[BLOCK], a[BLOCK], x[BLOCK], difference[BLOCK];
} pair_block;

static inline double size_of(double x) { return larger(x, -x); }

static inline void weigh_block(const sweep_pair *pair, const float *z, const float *w,
                               pair_block *p) {
    const double b_top = pair->before.top, a_top = pair->after.top;
    const double b_share = pair->before.share, a_share = pair->after.share;
    const double common = pair->common, level = pair->level;
    for (int k = 0; k < BLOCK; k++) p->b[k] = exponential((double)z[k] - b_top) * b_share;
    for (int k = 0; k < BLOCK; k++) p->a[k] = exponential((double)w[k] - a_top) * a_share;
    for (int k = 0; k < BLOCK; k++) {
        const double x = (((double)w[k] - (double)z[k]) - common) - level;
        p->x[k] = x;
        p->difference[k] = size_of(x) <= 0.125 ? p->b[k] * growth(x) : p->a[k] - p->b[k];
    }
}

static inline void add_distances(const sweep_pair *pair, int64_t start, pair_block *p,
                                 sweep_distances *distances) {
    double kl[BLOCK], rise[BLOCK], fall[BLOCK];
    for (int64_t k = live_of(start, pair->count); k < BLOCK; k++) {
        p->b[k] = p->a[k] = p->x[k] = p->difference[k] = 0.0;
    }
    for (int k = 0; k < BLOCK; k++) {
        const double x = p->x[k];
        kl[k] = size_of(x) <= 0.125 ? p->b[k] * relative_series(x) : p->a[k] * x - p->difference[k];
    }
    for (int k = 0; k < BLOCK; k++) {
        rise[k] = larger(p->difference[k], 0.0);
        fall[k] = larger(-p->difference[k], 0.0);
    }
    if (pair->leader >= start && pair->leader < start + BLOCK) {
        rise[pair->leader - start] = fall[pair->leader - start] = 0.0;
    }
    distances->kl += fold(kl);
    distances->rise += fold(rise);
    distances->fall += fold(fall);
}

static void measure(const sweep_pair *pair, sweep_distances *distances) {
    float z_room[BLOCK], w_room[BLOCK];
    pair_block block;
    *distances = (sweep_distances){0.0, 0.0, 0.0};
    for (int64_t start = 0; start < pair->count; start += BLOCK) {
        weigh_block(pair, block_of(pair->before.logits, start, pair->count, z_room),
                    block_of(pair->after.logits, start, pair->count, w_room), &block);
        add_distances(pair, start, &block, distances);
    }
}

static inline double js_of_block(const pair_block *p) {
    double js[BLOCK];
    for (int k = 0; k < BLOCK; k++) {
        const double a = p->a[k], b = p->b[k], x = size_of(p->x[k]), s = a + b;
        /* The least normal number keeps 0/0 away where both underflow. */
        const double t = p->difference[k] / (s + DBL_MIN);
        const double low = smaller(a, b), y = low / (larger(a, b) + DBL_MIN);
        const double far = s * (0x1.62e42fefa39efp-1 - log_above(y)) - low * x;
        js[k] = 0.5 * (x <= 0.125 ? s * balanced_series(t) : far);
    }
    return fold(js);
}

static inline double rank_product(const sweep_pair *pair, int64_t start) {
    const int64_t live = live_of(start, pair->count);
    const int32_t *const before = pair->before.ranks + start, *const after =
                                                                  pair->after.ranks + start;
    double product[BLOCK] = {0.0};
    if (live == BLOCK) {
        for (int k = 0; k < BLOCK; k++) product[k] = (double)before[k] * (double)after[k];
    } else {
        for (int64_t k = 0; k < live; k++) product[k] = (double)before[k] * (double)after[k];
    }
    return fold(product);
}

static void compare(const sweep_pair *pair, sweep_changes *changes) {
    float z_room[BLOCK], w_room[BLOCK];
    double low[BLOCK], high[BLOCK], product[BLOCK];
    pair_block block;
    const double z_mean = pair->before.mean, w_mean = pair->after.mean;
    const double first = (double)pair->after.logits[0] - (double)pair->before.logits[0];
    *changes = (sweep_changes){.least = first, .most = first};
    for (int k = 0; k < BLOCK; k++) low[k] = high[k] = first;
    for (int64_t start = 0; start < pair->count; start += BLOCK) {
        const float *const z = block_of(pair->before.logits, start, pair->count, z_room);
        const float *const w = block_of(pair->after.logits, start, pair->count, w_room);
        weigh_block(pair, z, w, &block);
        add_distances(pair, start, &block, &changes->distances);
        changes->js += js_of_block(&block);
        for (int k = 0; k < BLOCK; k++) {
            const double change = (double)w[k] - (double)z[k];
            low[k] = smaller(change, low[k]);
            high[k] = larger(change, high[k]);
            product[k] = ((double)z[k] - z_mean) * ((double)w[k] - w_mean);
        }
        for (int64_t k = live_of(start, pair->count); k < BLOCK; k++) product[k] = 0.0;
        changes->product += fold(product);
        changes->ranks += rank_product(pair, start);
    }
    for (int k = 0; k < BLOCK; k++) {
        changes->least = smaller(low[k], changes->least);
        changes->most = larger(high[k], changes->most);
    }
}

const ota_sweep SWEEP_TABLE = {SWEEP_NAME, scan, weigh, measure, compare};
