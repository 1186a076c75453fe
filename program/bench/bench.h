/* The parts of `otattn bench`. */
#ifndef OTATTN_PROGRAM_BENCH_H
#define OTATTN_PROGRAM_BENCH_H

#include <math.h>
#include <stdint.h>

#include "program/program.h"

/* Best of a few runs of independent fused multiply-adds in vector registers on `threads` threads, in
 * 10^9 operations a second (a multiply-add is two): what `kernel` could reach at most, in f32. */
double tool_bench_ceiling(const char *kernel, int threads);

/* Best of a few sweeps of one thread over `data`, in 10^9 bytes a second. */
double tool_bench_read(const char *kernel, const void *data, size_t bytes);

/* `otattn bench --small`. */
int tool_bench_small(tool_context *context);

/* `otattn bench --scaling`. */
int tool_bench_scaling(tool_context *context);

/* `otattn bench --gradients`. */
int tool_bench_gradients(tool_context *context);

/* `otattn bench --random`. */
int tool_bench_random(tool_context *context);

/* Random numbers (splitmix64): a problem is a function of its seed alone. */
static inline uint64_t tool_random_bits(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* In (0, 1). */
static inline double tool_random_uniform(uint64_t *state) {
    return ((double)(tool_random_bits(state) >> 11) + 0.5) * 0x1p-53;
}

/* In [0, count). */
static inline int64_t tool_random_below(uint64_t *state, int64_t count) {
    return (int64_t)(tool_random_uniform(state) * (double)count);
}

static inline double tool_random_normal(uint64_t *state) {
    const double radius = sqrt(-2.0 * log(tool_random_uniform(state)));
    return radius * cos(6.283185307179586 * tool_random_uniform(state));
}

#endif
