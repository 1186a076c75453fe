/* norm.h: what LayerNorm and RMSNorm share: entries of gamma, and a norm found by bisection. */
#ifndef OTATTN_ANALYSIS_NORM_H
#define OTATTN_ANALYSIS_NORM_H

#include <float.h>

#include "analysis/analysis.h"

/* gamma [width], or NULL for ones */
static inline double norm_entry(const double *gamma, int64_t k) {
    return gamma == NULL ? 1.0 : gamma[k];
}

static inline double norm_largest_entry(const double *gamma, int64_t width,
                                        const analysis_call *call) {
    double largest = 0.0;
    for (int64_t k = 0; k < width && analysis_goes_on(call, k); k++)
        largest = fmax(largest, fabs(norm_entry(gamma, k)));
    return largest;
}

/* Are all eigenvalues of a matrix of gamma, a direction [width] and its share `along` at most `level`? */
typedef bool (*norm_test)(const double *gamma, const double *direction, double along, int64_t width,
                          double level, const analysis_call *call);

/* The root of the largest eigenvalue of a matrix below Gamma^2: the upper end of the last bracket. */
static inline double norm_deflated(norm_test all_below, const double *gamma,
                                   const double *direction, double along, int64_t width,
                                   const analysis_call *call) {
    const double largest = norm_largest_entry(gamma, width, call);
    double low = 0.0, high = largest * largest;
    for (int step = 0; step < 100 && high - low > DBL_EPSILON * high; step++) {
        const double middle = 0.5 * (low + high);
        if (all_below(gamma, direction, along, width, middle, call)) {
            high = middle;
        } else {
            low = middle;
        }
    }
    return sqrt(high);
}

#endif
