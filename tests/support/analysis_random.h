/* analysis_random.h: seeded numbers, and plans by plain loops, for the tests of the analysis library. */
#ifndef TESTS_ANALYSIS_RANDOM_H
#define TESTS_ANALYSIS_RANDOM_H

#include <math.h>
#include <stdint.h>

#include "draw/random.h"

/* least ... most, both included */
static inline int whole(dice *d, int least, int most) { return (int)between(d, least, most); }

/* 10^(uniform between the exponents) */
static inline double decade(uint64_t *state, double least, double most) {
    return pow(10.0, least + (most - least) * uniform(state));
}

/* The largest value so far, or NaN once there was one: one check after a loop of many draws. */
static inline void keep_worst(double *worst, double value) {
    if (!isnan(*worst) && !(value <= *worst)) *worst = value;
}

/* p = softmax(z / temperature) in the order of the definition, in long double. */
static inline void plain_softmax(const double *z, int size, double temperature, double *p) {
    double top = z[0];
    for (int i = 1; i < size; i++) top = fmax(top, z[i]);
    long double total = 0.0L;
    for (int i = 0; i < size; i++) total += expl((z[i] - (long double)top) / temperature);
    for (int i = 0; i < size; i++) {
        p[i] = (double)(expl((z[i] - (long double)top) / temperature) / total);
    }
}

/* Doubly stochastic plan of scores [n, n] by alternating normalisation of log P, ending on rows; returns
 * the last column error. */
static inline double plain_balanced(const double *scores, int n, double temperature, int rounds,
                                    double *plan) {
    double g[64] = {0.0}, worst = 0.0;
    for (int round = 0; round < rounds; round++) {
        double columns[64] = {0.0};
        for (int i = 0; i < n; i++) {
            double z[64];
            for (int j = 0; j < n; j++) z[j] = scores[i * n + j] / temperature + g[j];
            plain_softmax(z, n, 1.0, plan + i * n);
            for (int j = 0; j < n; j++) columns[j] += plan[i * n + j];
        }
        worst = 0.0;
        for (int j = 0; j < n; j++) worst = fmax(worst, fabs(columns[j] - 1.0));
        if (worst < 1e-14) break;
        for (int j = 0; j < n; j++) g[j] -= log(columns[j]);
    }
    return worst;
}

#endif
