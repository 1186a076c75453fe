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

/* What heads.c holds between the captures of a layer. */
typedef struct run_heads {
    double *value_norms; /* [heads, n] at most, of the layer whose pattern comes next */
    int64_t value_heads; /* 0: it has shown no values */
    int64_t *reach;      /* [layers]: as in ota_head_view */
} run_heads;

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
    run_heads heads;
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
/* heads.c: memory, taken once; values [n, heads, width] of the layer whose pattern comes next; the scores of a
 * head's pattern [n, n] of variant 0, or, NULL, those of chance of its layer; the outliers of a state. */
int run_heads_open(run *r);
void run_heads_close(run *r);
void run_heads_keep_values(const run *r, const ota_capture *values);
ota_status run_heads_measure(const run *r, const float *pattern, int64_t layer, int64_t head);
ota_status run_outliers_measure(const run *r, int64_t state, ota_error *error);
/* sinkhorn.c: keeps the pairs that belong to the transition; counts rounds between those kept. */
void run_pairs_keep(run *r, int64_t transition, const run_lens *before, const run_lens *after);
int run_pairs_measure(run *r);
/* bounds.c: memory, taken once; the layers of variant 0 against their bounds. */
int run_bounds_open(run *r);
void run_bounds_close(run *r);
int run_bounds_measure(run *r);
/* Everything behind a probe. */
int run_measure_probe(run *r, int probe);
/* Behind the probe with the final norm the alignment of transitions alone. */
int run_measure_alignment(run *r);

#endif
