/* threshold.h: the threshold of an entmax row, ||[x - t]_+||_p^p = mu, by safeguarded Newton steps; p = 1 / (alpha - 1). */
#ifndef OTA_BACKEND_THRESHOLD_H
#define OTA_BACKEND_THRESHOLD_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* Largest number of threshold steps; Newton needs 3 to 8, bisection of a double's bracket at most 1100
 * halvings of the exponent, which the safeguard reaches only on adversarial rows. */
enum { THRESHOLD_STEPS = 1200 };

/* The threshold t of  ||[x - t]_+||_p = target  by Newton on the p-norm, which is convex and decreasing in
 * t for p >= 1, kept inside a bracket that also serves 0 < p < 1. Orders below 1 have p < 0 and x = (s - top) k >= 0: the
 * norm is then concave, and Newton comes to the threshold from above. `sums` gives sum y^p and sum y^(p-1). */
typedef struct threshold_search {
    double low, high, t, target, power, miss, accuracy, norm;
    double near; /* a step from a miss as small is the last one: it squares the miss, for p >= 2 */
    int steps;
} threshold_search;

static inline threshold_search threshold_begin(double mass, double power, double entries) {
    threshold_search search = {0};
    search.power = power;
    search.target = pow(mass, 1.0 / power);
    /* The largest entry is 0: alone it would need t = -target; spread evenly, t is this much closer. */
    search.low = -search.target;
    search.high = -pow(mass / entries, 1.0 / power);
    search.t = search.low;
    /* p < 0: the smallest entry is 0, and the least x - t weighs most. */
    if (power < 0.0) {
        search.t = search.high = -search.target;
        search.low = -pow(mass / entries, 1.0 / power);
    }
    search.miss = INFINITY;
    search.accuracy = 1.0e-16;
    return search;
}

/* first^(1/p) without pow for the common orders. */
static inline double norm_of(double first, double p) {
    if (!(p > 1.0) && !(p < 1.0)) return first;
    if (!(p > 2.0) && !(p < 2.0)) return sqrt(first);
    if (!(p > 4.0) && !(p < 4.0)) return sqrt(sqrt(first));
    return pow(first, 1.0 / p);
}

/* One step; false when the threshold can no longer be improved. */
static inline bool threshold_step(threshold_search *search, double first, double second) {
    const double norm = norm_of(first, search->power);
    const double excess = norm - search->target;
    search->norm = norm;
    if (fabs(excess) <= search->accuracy * search->target || ++search->steps > THRESHOLD_STEPS)
        return false;
    if (excess > 0.0)
        search->low = search->t;
    else
        search->high = search->t;
    double next = search->t + excess / norm * (first / second);
    /* For 0 < p < 1 the norm is not convex and its slope is infinite where an entry enters, so Newton may
     * stand still anywhere: a step that does not halve the miss is followed by one that halves the bracket. */
    const bool between = search->power > 0.0 && search->power < 1.0;
    const bool halve = between && fabs(excess) > 0.5 * search->miss;
    search->miss = halve ? INFINITY : fabs(excess);
    if (halve || !(next >= search->low && next <= search->high) || !(second > 0.0))
        next = 0.5 * (search->low + search->high);
    if (!(next < search->t) && !(next > search->t) && between)
        next = 0.5 * (search->low + search->high);
    if (!(next < search->t) && !(next > search->t)) return false;
    if (!(search->high - search->low > 4.0e-16 * fabs(search->low))) return false;
    search->t = next;
    return !(fabs(excess) <= search->near * search->target);
}

/* y^p without pow for the common orders. */
static inline double power_of(double y, double p) {
    if (!(p > 1.0) && !(p < 1.0)) return y;
    if (!(p > 2.0) && !(p < 2.0)) return y * y;
    return pow(y, p);
}

/* [x - t]_+^p. Next to order 1, where |p| is large, what the difference loses counts. */
static inline double power_above(double x, double t, double p) {
    const double y = x - t;
    if (!(y > 0.0)) return p > 0.0 ? 0.0 : INFINITY;
    if (!(p > 4.0) && !(p < -4.0)) return power_of(y, p);
    const double from_t = x - y, rest = (x - (y + from_t)) + (from_t - t);
    return fabs(y) < INFINITY ? pow(y, p) * exp(p * (rest / y)) : pow(y, p);
}

/* Keeps the entries above `low`, in place and without branches that would often be missed. */
static inline int64_t drop_below(double *x, int32_t *where, int64_t count, double low) {
    int64_t left = 0;
    for (int64_t i = 0; i < count; i++) {
        x[left] = x[i];
        where[left] = where[i];
        left += x[i] > low;
    }
    return left;
}

#endif
