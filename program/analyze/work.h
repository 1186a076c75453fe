/* Buffers of the measurement of a window: n tokens, S states of width d, vocabulary V. */
#ifndef OTATTN_PROGRAM_ANALYZE_WORK_H
#define OTATTN_PROGRAM_ANALYZE_WORK_H

#include "analyze.h"

enum { RING = 2, WORKERS_MOST = 256 };

/* Logits [n, V] of one state and what comparisons need of their rows. */
typedef struct run_lens {
    float *logits;        /* [n, V] */
    float *inputs;        /* [n, d]: what the probe's matrix multiplies */
    ota_evolve_row *rows; /* [n] */
} run_lens;

/* The first trouble by task: what is reported does not depend on the threads. */
typedef struct run_trouble {
    ota_status status;
    int64_t index;
    ota_error error;
} run_trouble;

struct run_work {
    int64_t tokens, width, vocabulary;
    size_t bytes;
    float *states; /* [S, n, d], and behind it the model's last state where that is not measured */
    run_lens first, final, ring[RING], baseline; /* baseline: variant 0's final logits */
    unsigned char *row_memory[RING];             /* [n] of row_bytes: ranks and top of ring rows */
    size_t row_bytes, scratch_bytes;
    unsigned char *scratch;          /* [workers] */
    double *wide;                    /* [workers, 2, V] */
    double *shift, *shift_sum;       /* [V]: the common move of a transition, and of all so far */
    double *residual, *residual_sum; /* [n] */
    float *final_state;              /* [n, d] of the variant at hand, and of variant 0 */
    float *baseline_state;
    float *pooled; /* [layers, heads, cells, cells] of the example, or NULL */
    int64_t cells;
    double *pairs;             /* [PAIRS, 2, V]: distributions of Table 5 */
    struct run_bounds *bounds; /* bounds.c; NULL without --bounds */
    run_trouble trouble[WORKERS_MOST];

    /* of the variant at hand */
    run_record *record;
    int variant;
    const struct step *step;
    char last_state[64]; /* capture point of the last state */
};

/* Adds to the bytes of the measurement. */
int run_take(run *r, size_t count, size_t size, void *out);
/* run(body, index) on the session's threads; the status of the lowest index that failed. */
int run_tasks(run *r, int64_t count, ota_status (*body)(run *, int64_t, int, ota_error *));
/* Where state `state` of the model lies. */
float *run_state(const run *r, int64_t state);
/* The window's ids through the model: states, and the columns of heads. */
int run_states(run *r, run_record *record, int variant);
/* What the states make of one another by themselves. */
int run_measure_states(run *r);
/* sinkhorn.c: keeps the pairs that belong to the transition; counts rounds between those kept. */
void run_pairs_keep(run *r, int64_t transition, const run_lens *before, const run_lens *after);
int run_pairs_measure(run *r);
/* bounds.c: memory, taken once; the layers of variant 0 against their bounds. */
int run_bounds_open(run *r);
void run_bounds_close(run *r);
int run_bounds_measure(run *r);
/* Everything behind a probe. */
int run_measure_probe(run *r, int probe);

#endif
