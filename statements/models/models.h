/* statements/models/: Statements about checkpoints, on a GPT-2 of random weights or the model that --model names:
 * forward pass, probes, tokenizer, windows, training. They may call the public headers, statements/check.h and
 * statements/host.h.
 *
 * What the checks on models share: a checkpoint with its weights in memory, and what a GPT-2 makes of ids by
 * plain loops in f64.
 *
 * The checkpoint is the one that --model names, or a GPT-2 of random weights, written into a folder for the
 * time it takes to open it. Matrices are [in][out] as GPT-2 stores them; ids [count], states h [layers + 1]
 * [count][width], logits [layers + 1][count][vocabulary]. */
#ifndef OTATTN_STATEMENTS_MODELS_MODELS_H
#define OTATTN_STATEMENTS_MODELS_MODELS_H

#include <stdio.h>

#include "otattn_model.h"
#include "otattn_tensors.h"
#include "otattn_tokenizer.h"
#include "statements/check.h"

/* One tensor of a GPT-2; columns 0: a vector. */
typedef struct weight {
    char name[64];
    int64_t rows, columns, count;
    float *data;
} weight;

typedef struct model_sizes {
    int64_t layers, heads, width, vocabulary, positions;
} model_sizes;

typedef struct checkpoint {
    ota_model *model;
    ota_session *session;
    ota_model_facts facts;
    bool unscaled, scaled_by_layer; /* scores: not over sqrt(d_h); over the layer's number, too */
    double temperature;             /* of attention, on top; 1 at first */
    weight *weights;
    int weight_count;
    int64_t count, *ids;
    float *states,
        *final; /* of statement_run_checkpoint: h, and the last one after the last norm */
} checkpoint;

/* A checkpoint with `count` random ids, open until the draw ends; NULL where anything fails. */
checkpoint *statement_checkpoint(trial *t);
/* The weights as they are now, in a model and a session of their own, as of another checkpoint. */
bool statement_reopen_checkpoint(trial *t, checkpoint *c);
/* A session whose attention is at this temperature. */
bool statement_heat_checkpoint(checkpoint *c, double temperature);
/* Fills states and final. */
bool statement_run_checkpoint(trial *t, checkpoint *c);
/* logits of all states by the probe: of the states themselves, or after the last norm. */
float *statement_probe_checkpoint(trial *t, checkpoint *c, bool normalise);

/* The tensors of a GPT-2 with these sizes, without data; freed by the caller. */
weight *statement_gpt2_tensors(const model_sizes *sizes, int *count);
/* A folder of this program's own, and its end; `path` 4096. */
bool statement_make_folder(char *path);
void statement_remove_folder(const char *path);
/* The file gets `more` bytes, none of them written, or loses some. */
bool statement_resize(const char *path, int64_t more);
/* config.json, and model.safetensors with the tensors; without data the file is a hole of the right size. */
bool statement_write_gpt2(trial *t, const char *folder, const model_sizes *sizes,
                          const weight *weights, int count);

/* ---- GPT-2 by its definition ---- */

/* A weight of a block, or for layer -1 of none: "wte.weight". */
weight *statement_weight(const checkpoint *c, int64_t layer, const char *part);

/* What a block makes on its way: LN_1 x; q, k, v [count][3 width]; P v; x'; LN_2 x'; U LN_2 x' and its gelu
 * [count][4 width]; what it adds. Others [count][width]. */
typedef struct block_parts {
    double *normed[2], *merged, *mixed, *middle, *inner, *active, *part;
} block_parts;

block_parts statement_block_parts(trial *t, const checkpoint *c, int64_t count);
void statement_block_formula(trial *t, const checkpoint *c, int64_t layer, const double *before,
                             int64_t count, const block_parts *r, double *after);
/* Weights p [i + 1] of token i in one head. */
void statement_pattern_formula(const checkpoint *c, const double *merged, int64_t head, int64_t i,
                               double *p);

/* What leaves early: a token stops behind block l < layers once p_max > threshold held behind `transitions`
 * blocks in a row; its state stays, and the layers above make key and value from it. threshold 0: none. */
typedef struct formula_exit {
    double threshold;
    int64_t transitions;
    int64_t *layers; /* [count]: set */
} formula_exit;

/* h [layers + 1][count][width] and final [count][width]. */
void statement_gpt2_formula(trial *t, const checkpoint *c, const int64_t *ids, int64_t count,
                            formula_exit *exit, double *h, double *final);
/* y = LN_f(x) of rows [count][width]. */
void statement_final_norm_formula(const checkpoint *c, const double *x, int64_t count, double *y);
/* z = W x of rows, W the table of embeddings. */
void statement_logits_formula(const checkpoint *c, const double *x, int64_t count, double *z);
/* p_max = max softmax(z). */
double statement_most_probable(const double *z, int64_t vocabulary);

/* descent.c: one step down the gradient of the mean nll of windows ids [windows][count], by a share `rate` of every
 * tensor's size, on the weights in memory; false without memory. */
bool statement_descend(trial *t, checkpoint *c, const int64_t *ids, int64_t windows, double rate);

/* max |a - b| / max |b|. */
double statement_relative(const double *a, const double *b, int64_t count);
/* The same numbers in f64. */
double *statement_widened(trial *t, const float *x, int64_t count);

#endif
