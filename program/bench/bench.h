/* The parts of `otattn bench`. */
#ifndef OTATTN_PROGRAM_BENCH_H
#define OTATTN_PROGRAM_BENCH_H

#include <math.h>
#include <stdint.h>

#include "program/program.h"

/* ---- one loop of timed calls ---- */

/* Variants are called in turns, so that both meet the same gaps of a busy machine. The first call of each warms
 * caches and threads and counts only where there is no second. */
typedef struct tool_bench_loop {
    /* *begun is the time before the call; a call that prepares something sets it again */
    ota_status (*call)(void *context, int variant, int64_t *begun, ota_error *error);
    void *context;
    int variants;
    int64_t rounds;      /* that count */
    double most_seconds; /* no round begins after these; 0: no limit */
} tool_bench_loop;

typedef struct tool_bench_seconds {
    double least, median;
} tool_bench_seconds;

/* seconds [variants]; a status below 0 is that of the call that failed. */
ota_status tool_bench_time(const tool_bench_loop *loop, tool_bench_seconds *seconds,
                           ota_error *error);

/* ---- one table of rows ---- */

/* A value of a row's JSON object: a text, a boolean that is `same` or `DIFFER`, or a number. */
typedef struct tool_bench_column {
    const char *key, *title;
    int width; /* below 0: aligned left */
    int digits;
    bool fixed; /* digits behind the point, else digits that count */
    double factor;
    const char *suffix; /* of numbers, or NULL */
} tool_bench_column;

void tool_bench_heading(const tool_bench_column *columns, int count);
/* A row with an `error` ends with its status and that error. */
void tool_bench_line(const tool_bench_column *columns, int count, const json_t *row);
/* The answer of the command, where JSON was requested; steals `rows`. */
int tool_bench_finish(tool_context *context, json_t *rows);

/* ---- random inputs ---- */

enum { TOOL_BENCH_BLOCKS = 16 };

/* Q, K, V, dL/dout ~ N(0,1), as far as given; width 0: plain transport, S_ij = -|x_i - y_j|^2 of random points
 * of the unit square as a matrix. */
typedef struct tool_bench_case {
    int64_t heads, queries, keys, width;
    ota_type type;
    bool gradients;                /* dL/dout and room for gradients too */
    void *scores, *in[4], *out[4]; /* out, or P; gradients of Q, K, V */
    double *row_potential, *column_potential, *lse;
    double *row;      /* [keys] */
    double *coupling; /* [queries, keys], where the potentials do not define the plan */
    ota_problem problem;
    ota_options options;
    ota_arrays arrays; /* values, out or the coupling */
    void *blocks[TOOL_BENCH_BLOCKS];
    int block_count;
} tool_bench_case;

/* After heads, sizes, type and gradients are set. The seed gives the same numbers to every such case. */
int tool_bench_case_make(tool_context *context, tool_bench_case *c);
void tool_bench_case_free(tool_bench_case *c);
/* `count` elements that tool_bench_case_free frees; *code is 0 or an exit code. */
void *tool_bench_take(tool_context *context, tool_bench_case *c, int64_t count, size_t bytes,
                      int *code);
/* Problem and options of the method. */
ota_status tool_bench_method(tool_context *context, tool_bench_case *c, const char *method,
                             int threads, ota_error *error);
/* Row i of the first head's scores. */
void tool_bench_scores(const tool_bench_case *c, int64_t i, double *scores);
/* The larger of `worst` and the largest error of row i of the output, the sums of V with these weights. */
double tool_bench_row_error(const tool_bench_case *c, int64_t i, const double *weights,
                            double worst);

/* ---- the searches and rows ---- */

/* Best of a few runs of independent fused multiply-adds in vector registers on `threads` threads, in
 * 10^9 operations a second (a multiply-add is two): what `kernel` could reach at most, in f32. */
double tool_bench_ceiling(const char *kernel, int threads);

/* Best of a few passes of one thread over `data`, in 10^9 bytes a second. */
double tool_bench_read(const char *kernel, const void *data, size_t bytes);

/* `otattn bench --small`. */
int tool_bench_small(tool_context *context);

/* `otattn bench --scaling`. */
int tool_bench_scaling(tool_context *context);

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
