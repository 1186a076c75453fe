/* tsallis.h: of a Tsallis weight p = [(alpha - 1) x]_+^(1 / (alpha - 1)), k = alpha - 1 and L = log p:
 *
 *     slope   dp/dx = p^(2 - alpha)
 *     level   x - 1 / k = (e^(k L) - 1) / k                          L where k = 0
 *     order slope   dp/dalpha / (p^(2 - alpha)) at x - 1 / k fixed = -L^2 phi(k L),  phi(y) = ((y - 1) e^y + 1) / y^2
 *
 * Both are smooth in alpha; x and dp/dalpha at x fixed are not, of which terms 1 / k and 1 / k^2 are the same for a whole row.
 * Where the sum of a row stands still, its potential takes them up, so that derivatives of rows need no more than these. Above
 * order 2 small weights have slopes without bound, beside which a number that all share would cost the digits of the rest: level and
 * order slope are those of x itself there, x and e^y (1 - y) / k^2, which fall with the weight. */
#ifndef OTA_TSALLIS_H
#define OTA_TSALLIS_H

#include <math.h>

/* p^(2 - alpha), the slope of a weight. Above order 2 it has no bound as p falls; from the largest number here on one weight
 * outweighs the digits of all others, and sums of its products stay within the range of a double. */
static inline double ota_tsallis_slope(double p, double order) {
    return fmin(pow(p, 2.0 - order), 1.0e250);
}

/* What levels are less than x. */
static inline double ota_tsallis_shift(double order) {
    return order > 2.0 ? 0.0 : 1.0 / (order - 1.0);
}

static inline double ota_tsallis_level(double p, double order) {
    const double k = order - 1.0, log_p = log(p);
    if (k > 1.0) return exp(k * log_p) / k;
    return k < 0.0 || k > 0.0 ? expm1(k * log_p) / k : log_p;
}

/* log p of a level; -inf where nothing is left of the weight. */
static inline double ota_tsallis_log(double level, double order) {
    const double k = order - 1.0, y = k * level;
    if (!(k < 0.0) && !(k > 0.0)) return level;
    if (k > 1.0) return y > 0.0 ? log(y) / k : -INFINITY;
    return y > -1.0 ? log1p(y) / k : k > 0.0 ? -INFINITY : INFINITY;
}

static inline double ota_tsallis_order_slope_of_log(double log_p, double order) {
    /* (n + 1) / (n + 2)! */
    static const double series[] = {1.0 / 2,         1.0 / 3,       1.0 / 8,        1.0 / 30,
                                    1.0 / 144,       1.0 / 840,     1.0 / 5760,     1.0 / 45360,
                                    1.0 / 403200,    1.0 / 3991680, 1.0 / 43545600, 1.0 / 518918400,
                                    1.0 / 6706022400};
    const double k = order - 1.0, y = k * log_p;
    double phi = 0.0;
    if (k > 1.0) return log_p > -INFINITY ? exp(y) * (1.0 - y) / (k * k) : 0.0;
    if (!(log_p > -INFINITY)) return -1.0 / (k * k); /* of a weight that rounding takes to 0 */
    if (fabs(y) < 0.25) {
        for (int n = (int)(sizeof series / sizeof series[0]) - 1; n >= 0; n--)
            phi = phi * y + series[n];
    } else {
        phi = (y * exp(y) - expm1(y)) / (y * y);
    }
    return -log_p * log_p * phi;
}

static inline double ota_tsallis_order_slope(double p, double order) {
    return ota_tsallis_order_slope_of_log(log(p), order);
}

#endif
