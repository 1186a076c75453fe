/* analysis/kernels/: Passes over rows of logits, written once (logit_level.c) and compiled per instruction-set
 * level; every level gives the same bits. It may call src/base/, which says what the processor has.
 *
 * logit_kernels.h: passes over rows of f32, which take most of the time of an evolution and of an alignment, and
 * over distributions of transport at Hamming cost. One table per instruction-set level, bodies in
 * logit_level.c. Every level gives the same bits: plain f64 products and sums in one order, no fused ones. */
#ifndef OTATTN_ANALYSIS_LOGIT_KERNELS_H
#define OTATTN_ANALYSIS_LOGIT_KERNELS_H

#include <stdint.h>

typedef struct logit_scan {
    double least, most;
    double sum;    /* of z - z_0 */
    int nonfinite; /* some entry is no finite number */
} logit_scan;

typedef struct logit_sums {
    double rest;    /* of exp(z - top) without the leader */
    double energy;  /* of exp(z - top) (top - z) */
    double squares; /* of (z - mean)^2 */
} logit_sums;

/* One side of a comparison; exp(z - top) share is the probability. */
typedef struct logit_side {
    const float *logits;
    const double *weights; /* exp(z - top), where someone has kept them, or NULL */
    const int32_t *ranks;
    double top, mean, share;
    double log_share;
} logit_side;

/* From b (before) to a (after): x = log(a/b) = (w - z) - common - level. */
typedef struct logit_pair {
    logit_side before, after;
    double common, level;
    double centre;  /* of the terms of entropies */
    int64_t leader; /* left out of rise and fall */
    int64_t count;
} logit_pair;

typedef struct logit_changes {
    double rise, fall;    /* sums of the positive and the negative parts of a - b */
    double risen, fallen; /* sums of a where these are */
    double leader;        /* a - b of the leader */
    double entropy;       /* sum of ota_entropy_term */
    double kl;            /* sum of a x - a + b */
    double js;
    double least, most; /* of w - z */
    double product;     /* sum of (z - mean)(w - mean) */
    double ranks;       /* sum of products of ranks */
} logit_changes;

/* A symbol's part of H(a) - H(b) with d = a - b, x = log(a/b), relative = a x - d, surprise = -p log p, or 0 where p is 0; and
 * with (centre - 1) d taken off, which sums to 0. Near ones are told by d, which is exact; of far ones nothing cancels. */
static inline double ota_entropy_term(double d, double x, double relative, double log_b,
                                      double centre, double surprise_a, double surprise_b) {
    const double near = -(d * (log_b + centre) + relative);
    return (x < 0.0 ? -x : x) <= 1.0 ? near : (surprise_a - surprise_b) - (centre - 1.0) * d;
}

typedef struct logit_place {
    double kl;    /* as above, but with an absolute error of rounding */
    double drift; /* sum |b - first| */
} logit_place;

typedef struct ota_logit_kernels {
    const char *name;
    void (*scan)(const float *z, int64_t count, logit_scan *scan);
    /* weights [count], or NULL: exp(z - top) */
    void (*weigh)(const float *z, int64_t count, int64_t leader, double mean, double *weights,
                  logit_sums *sums);
    void (*compare)(const logit_pair *pair, logit_changes *changes);
    void (*place)(const logit_pair *pair, const logit_side *first, logit_place *place);
    /* sum of exp(z - top) */
    double (*mass)(const double *z, double top, int64_t count);
    /* sum |exp(z - top) share - b|, b the probabilities of a side */
    double (*apart)(const double *z, double top, double share, const logit_side *side,
                    int64_t count);
    /* low, high [count]: joined by a - b - shift; b may be NULL */
    void (*widen)(const float *a, const float *b, double shift, int64_t count, double *low,
                  double *high);
    /* the same of x - shift; low_at [count] becomes `row` where low falls */
    void (*columns)(const double *x, double shift, int64_t row, int64_t count, double *low,
                    int64_t *low_at, double *high);
    /* *low, *high: joined by all of x - shifts */
    void (*row)(const double *x, const double *shifts, int64_t count, double *low, double *high);
    /* out = a - b; b may be NULL */
    void (*difference)(const float *a, const float *b, int64_t count, double *out);
    /* *most: joined by |x|; 1 where some |x| is not at most `limit` */
    int (*largest)(const double *x, int64_t count, double limit, double *most);
    /* *most: joined by |x - k - v|; the sum of the squares of inverse |x - k - v| */
    double (*rest)(const double *x, double k, const double *v, int64_t count, double inverse,
                   double *most);

    /* Sums whose rounding errors are compensated: of x */
    double (*total)(const double *x, int64_t count);
    /* of to = mass scale / (slope other + shared) */
    double (*divide)(const double *mass, double scale, const double *other, double slope,
                     double shared, int64_t count, double *to);
    /* of |x (slope other + shared) - mass scale| */
    double (*miss)(const double *x, const double *other, double slope, double shared,
                   const double *mass, double scale, int64_t count);
} ota_logit_kernels;

/* One table per level (logit_level.c). */
extern const ota_logit_kernels ota_logit_portable, ota_logit_avx2, ota_logit_avx512;

/* The levels this processor has, oldest first; NULL past the end. */
const ota_logit_kernels *ota_logit_kernels_level(int index);
const ota_logit_kernels *ota_logit_kernels_newest(void);

#endif
