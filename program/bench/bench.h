/* program/bench/: otattn bench: time of forward and backward, scaling with threads, cost of small calls, and random
 * problems whose answers are judged. It may call the public headers and the rest of the program. Begin with bench.c.
 *
 * The parts of `otattn bench`. */
#ifndef OTATTN_PROGRAM_BENCH_H
#define OTATTN_PROGRAM_BENCH_H

#include <math.h>
#include <stdint.h>

#include "program/program.h"

/* ---- one loop of timed calls ---- */

/* Variants are called in turns, so that both meet the same gaps of a busy machine. The first call of each warms
 * caches and threads and counts only where there is no second. */
typedef struct cli_bench_loop {
    /* *begun is the time before the call; a call that prepares something sets it again */
    ota_status (*call)(void *context, int variant, int64_t *begun, ota_error *error);
    void *context;
    int variants;
    int64_t rounds;      /* that count */
    double most_seconds; /* no round begins after these; 0: no limit */
} cli_bench_loop;

typedef struct cli_bench_seconds {
    double least, median;
} cli_bench_seconds;

/* seconds [variants]; a status below 0 is that of the call that failed. */
ota_status cli_bench_time(const cli_bench_loop *loop, cli_bench_seconds *seconds, ota_error *error);

/* ---- one table of rows ---- */

/* A value of a row's JSON object: a text, a boolean that is `same` or `DIFFER`, or a number. */
typedef struct cli_bench_column {
    const char *key, *title;
    int width; /* below 0: aligned left */
    int digits;
    bool fixed; /* digits behind the point, else digits that count */
    double factor;
    const char *suffix; /* of numbers, or NULL */
} cli_bench_column;

void cli_bench_heading(const cli_bench_column *columns, int count);
/* A row with an `error` ends with its status and that error. */
void cli_bench_line(const cli_bench_column *columns, int count, const json_t *row);
/* The answer of the command, where JSON was requested; steals `rows`. */
int cli_bench_finish(cli_context *context, json_t *rows);

/* ---- random inputs ---- */

enum { CLI_BENCH_BLOCKS = 16 };

/* Q, K, V, dL/dout ~ N(0,1), as far as given; width 0: plain transport, S_ij = -|x_i - y_j|^2 of random points
 * of the unit square as a matrix. */
typedef struct cli_bench_inputs {
    void *queries, *keys, *values, *out_grad;
} cli_bench_inputs;

typedef struct cli_bench_outputs {
    void *out;                     /* or P */
    void *queries, *keys, *values; /* gradients of these */
} cli_bench_outputs;

typedef struct cli_bench_case {
    int64_t heads, queries, keys, width;
    ota_type type;
    bool gradients;     /* dL/dout and room for gradients too */
    const char *masked; /* a word of --masked, or NULL: all pairs */
    ota_support mask;
    void *scores;
    cli_bench_inputs in;
    cli_bench_outputs made;
    double *row_potential, *column_potential, *lse;
    double *row;      /* [keys] */
    double *coupling; /* [queries, keys], where the potentials do not define the plan */
    ota_problem problem;
    ota_options options;
    ota_arrays arrays; /* values, out or the coupling */
    void *blocks[CLI_BENCH_BLOCKS];
    int block_count;
} cli_bench_case;

/* After heads, sizes, type, gradients and masked are set. The seed gives the same numbers to every such case. */
int cli_bench_case_make(cli_context *context, cli_bench_case *c);
void cli_bench_case_free(cli_bench_case *c);
/* `count` elements that cli_bench_case_free frees; *code is 0 or an exit code. */
void *cli_bench_take(cli_context *context, cli_bench_case *c, int64_t count, size_t bytes,
                     int *code);
/* Problem and options of the method. */
ota_status cli_bench_method(cli_context *context, cli_bench_case *c, const char *method,
                            int threads, ota_error *error);
/* Row i of the first head's scores. */
void cli_bench_scores(const cli_bench_case *c, int64_t i, double *scores);
/* The larger of `worst` and the largest error of row i of the output, the sums of V with these weights. */
double cli_bench_row_error(const cli_bench_case *c, int64_t i, const double *weights, double worst);

/* ---- the searches and rows ---- */

/* Best of a few runs of independent fused multiply-adds in vector registers on `threads` threads, in
 * 10^9 operations a second (a multiply-add is two): what `kernel` could reach at most, in f32. */
double cli_bench_ceiling(const char *kernel, int threads);

/* Best of a few passes of one thread over `data`, in 10^9 bytes a second. */
double cli_bench_read(const char *kernel, const void *data, size_t bytes);

/* `otattn bench --small`. */
int cli_bench_small(cli_context *context);

/* `otattn bench --scaling`. */
int cli_bench_scaling(cli_context *context);

/* `otattn bench --random`. */
int cli_bench_random(cli_context *context);

/* Random numbers (splitmix64): a problem is a function of its seed alone. */
static inline uint64_t cli_random_bits(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* In (0, 1). */
static inline double cli_random_uniform(uint64_t *state) {
    return ((double)(cli_random_bits(state) >> 11) + 0.5) * 0x1p-53;
}

/* In [0, count). */
static inline int64_t cli_random_below(uint64_t *state, int64_t count) {
    return (int64_t)(cli_random_uniform(state) * (double)count);
}

static inline double cli_random_normal(uint64_t *state) {
    const double radius = sqrt(-2.0 * log(cli_random_uniform(state)));
    return radius * cos(6.283185307179586 * cli_random_uniform(state));
}

#endif
