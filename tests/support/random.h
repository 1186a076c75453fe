/* random.h: splitmix64, the one source of random numbers of tests, fuzz targets and digests. It uses no libm, so a number is
 * the same on every machine, and draws are functions of their seed alone. Vocabularies on it: dice.h (one state of a test
 * file), problems.h (a state for every problem), dump/digest.h. */
#ifndef TESTS_RANDOM_H
#define TESTS_RANDOM_H

#include <stdint.h>

static inline uint64_t splitmix64_mix(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* The next 64 bits. */
static inline uint64_t splitmix64(uint64_t *state) {
    return splitmix64_mix(*state += UINT64_C(0x9e3779b97f4a7c15));
}

/* In [0, 1), in steps of 2^-53. */
static inline double splitmix64_unit(uint64_t *state) {
    return (double)(splitmix64(state) >> 11) * 0x1p-53;
}

#endif
