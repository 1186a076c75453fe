/* random.h: the one source of random numbers of tests, fuzz targets and digests: splitmix64, whose state is all that a draw
 * depends on. Nothing calls libm and no expression draws twice, so that a number is the same on every machine and by
 * every compiler. */
#ifndef TESTS_DRAW_RANDOM_H
#define TESTS_DRAW_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

/* The state: whatever number it is set to. */
typedef uint64_t dice;

static inline uint64_t splitmix64_mix(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* The next 64 bits. */
static inline uint64_t splitmix64(dice *d) {
    return splitmix64_mix(*d += UINT64_C(0x9e3779b97f4a7c15));
}

/* In [0, 1), in steps of 2^-53. */
static inline double uniform(dice *d) { return (double)(splitmix64(d) >> 11) * 0x1p-53; }

/* 0 to count - 1 */
static inline int64_t below(dice *d, int64_t count) {
    return (int64_t)(splitmix64(d) % (uint64_t)count);
}

/* Both ends included. */
static inline int64_t between(dice *d, int64_t least, int64_t most) {
    return least + below(d, most - least + 1);
}

static inline bool chance(dice *d, double of) { return uniform(d) < of; }

/* Nearly normal, of variance 1 and within 3.5: the sum of the four quarters of one word. */
static inline double normal(dice *d) {
    const uint64_t x = splitmix64(d);
    const uint64_t sum = (x & 0xffffu) + (x >> 16 & 0xffffu) + (x >> 32 & 0xffffu) + (x >> 48);
    return ((double)sum * 0x1p-16 - 2.0) * 1.7320508075688772;
}

/* 1 or `count`, one time in two each: a dimension that broadcasts or not. */
static inline int64_t one_or(dice *d, int64_t count) { return chance(d, 0.5) ? 1 : count; }

/* One of `count` numbers. */
static inline double one_of(dice *d, const double *list, int64_t count) {
    return list[below(d, count)];
}
#define ONE_OF(d, ...)                                                                             \
    one_of(d, (const double[]){__VA_ARGS__},                                                       \
           (int64_t)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)))

/* A row of a table of weights. */
static inline int weighted(dice *d, const double *weights, int count) {
    double all = 0.0;
    for (int k = 0; k < count; k++) all += weights[k];
    double at = uniform(d) * all;
    for (int k = 0; k < count - 1; k++) {
        at -= weights[k];
        if (at < 0.0) return k;
    }
    return count - 1;
}

#endif
