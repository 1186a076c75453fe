/* capped.h: the potential of a row whose weights are capped, p_j = min(c_j, w(x_j + f)), softmax or entmax, in f64: their sum
 * rises with f, and is found by steps that take the keys now at their caps to stay there, inside a bracket. */
#ifndef OTA_BACKEND_CAPPED_H
#define OTA_BACKEND_CAPPED_H

#include <float.h>
#include <math.h>

#include "backend/backend.h"

enum { OTA_CAPPED_STEPS = 400 };

/* Sums of a row at some f. */
typedef struct ota_capped_totals {
    double closed; /* of the keys at their caps */
    double open;   /* of the others and the sink */
    double rise;   /* of `open`, by f */
} ota_capped_totals;

typedef struct ota_capped_search {
    double f, low, high;
    double least, most; /* the sums at low and high; INFINITY: no sum was taken there */
    int iteration;
} ota_capped_search;

/* w(x + f) and its derivative by f. */
static inline double ota_capped_weight(const ota_row_parameters *parameters, double x, double f,
                                       double *rise) {
    const double tau = parameters->tau, y = (x / 2.0 + f / 2.0) / (tau / 2.0);
    double p;
    if (!parameters->regulariser->tsallis) {
        p = exp(y);
        *rise = p / tau;
        return p;
    }
    const double k = parameters->order - 1.0;
    *rise = 0.0;
    /* Orders below 1 have no bound of the weight as y rises to 0. */
    if (!(k * y > 0.0)) return k > 0.0 ? 0.0 : INFINITY;
    p = pow(k * y, 1.0 / k);
    *rise = p / (k * y * tau);
    return p;
}

/* f of a weight p of a key x = 0. */
static inline double ota_capped_level(const ota_row_parameters *parameters, double p) {
    const double k = parameters->order - 1.0;
    return parameters->regulariser->tsallis ? parameters->tau * pow(p, k) / k
                                            : parameters->tau * log(p);
}

/* The step that takes the keys at their caps to stay there. */
static inline double ota_capped_next(const ota_row_parameters *parameters, double f, double mu,
                                     const ota_capped_totals *sums) {
    const double left = mu - sums->closed;
    if (!parameters->regulariser->tsallis && left > 0.0 && sums->open > 0.0)
        return f + parameters->tau * log(left / sums->open);
    return f + (left - sums->open) / sums->rise;
}

/* Of `count` keys, the largest of which is `top`; from `highest` on all are at their caps. */
static inline ota_capped_search ota_capped_begin(const ota_row_parameters *parameters, double mu,
                                                 int64_t count, double top, double highest) {
    /* Where the largest weight is this small, all of them are less than mu together. */
    double low = ota_capped_level(parameters, mu / ((double)count + 2.0)) - top;
    if (!(low > -DBL_MAX)) low = -DBL_MAX;
    /* The sink takes what keys at their caps leave. */
    const double high = parameters->sink > -INFINITY
                            ? ota_capped_level(parameters, mu) - parameters->sink
                            : highest;
    return (ota_capped_search){.f = low, .low = low, .high = high, .most = INFINITY};
}

/* What the row's sums at f say; false when f can no longer be improved. */
static inline bool ota_capped_step(ota_capped_search *search, const ota_row_parameters *parameters,
                                   double mu, const ota_capped_totals *sums) {
    const double sum = sums->closed + sums->open;
    if (fabs(sum - mu) <= 2.0e-16 * mu) return false;
    if (sum > mu) {
        search->high = search->f;
        search->most = sum;
    } else {
        search->low = search->f;
        search->least = sum;
    }
    const double low = search->low, high = search->high;
    double next = ota_capped_next(parameters, search->f, mu, sums);
    if (!(next > low && next < high) || search->iteration % 8 == 7) next = 0.5 * low + 0.5 * high;
    if (!(next > low && next < high)) return false;
    search->f = next;
    return ++search->iteration < OTA_CAPPED_STEPS;
}

/* Where no f gives mu, because a weight of an order above 2 leaps over what is left: how far the plan lies between those
 * at the two ends of the search, or behind its last f from that to all keys at their caps, whose `room` (INFINITY with a
 * sink) is mu at least. -1: the ends do not lie on two sides of mu. */
static inline double ota_capped_part(const ota_capped_search *ends, double mu, double room) {
    const double most = fmin(ends->most, room), part = (mu - ends->least) / (most - ends->least);
    return most < INFINITY && part >= 0.0 && part <= 1.0 ? part : -1.0;
}

/* The weight of x, of a key with that cap or, with INFINITY, the sink, so far between the ends. */
static inline double ota_capped_between(const ota_row_parameters *parameters,
                                        const ota_capped_search *ends, double part, double x,
                                        double cap) {
    double rise;
    if (!(x > -INFINITY)) return 0.0;
    const double from = fmin(ota_capped_weight(parameters, x, ends->low, &rise), cap);
    const double to = ends->most < INFINITY
                          ? fmin(ota_capped_weight(parameters, x, ends->high, &rise), cap)
                          : cap;
    return from + part * (to - from);
}

#endif
