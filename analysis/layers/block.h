/* analysis/layers/: Layers around attention: LayerNorm, positions, residual blocks and how far they move, composition
 * of two layers. It may call the public headers and analysis/. Begin with layers.c.
 *
 * block.h: an attention layer opened on a workspace, shared by block.c, which runs it, and block_change.c,
 * which bounds what it does. */
#ifndef OTATTN_ANALYSIS_BLOCK_H
#define OTATTN_ANALYSIS_BLOCK_H

#include <stdbool.h>

#include "analysis/analysis.h"

/* A layer with its defaults filled in. */
typedef struct layer_shape {
    ota_attention_layer layer;
    ota_problem problem; /* without queries and keys */
    int64_t queries, keys;
    int64_t head_columns, value_columns; /* of all heads together */
} layer_shape;

/* What one pass through the layer leaves behind: Q, K, V and Concat(P V), rows of all heads side by side;
 * Y, couplings and column sums where they are not NULL. */
typedef struct layer_pass {
    double *q, *k, *v, *mixed;
    double *out, *coupling, *receiver;
} layer_pass;

/* Reads sizes and rules only. */
ota_status ota_layer_read(const ota_attention_layer *layer, int64_t queries, int64_t keys,
                          layer_shape *shape, const analysis_call *call);
/* Also checks weights and workspace; a workspace count of 0 means that it overflowed. */
ota_status ota_layer_open(const ota_attention_layer *layer, int64_t queries, int64_t keys,
                          int64_t workspace_count, const double *workspace, layer_shape *shape,
                          const analysis_call *call);
/* A call that the layer's options end. */
analysis_call ota_layer_begin(const ota_attention_layer *layer, ota_error *error);
ota_status ota_layer_check_input(const double *x, int64_t rows, int64_t width, const char *field,
                                 const analysis_call *call);
/* Adds the product a b c to *total; false once the bytes leave the range of int64_t. */
bool ota_layer_count(int64_t *total, int64_t a, int64_t b, int64_t c);
bool ota_layer_count_pass(int64_t *total, const layer_shape *shape);
/* The next `count` doubles of the workspace. */
double *ota_layer_take(double **at, int64_t count);
layer_pass ota_layer_take_pass(double **at, const layer_shape *shape);
/* *normalised = N(x) in `store`, or x itself when there is no norm. */
ota_status ota_layer_normalise(const ota_norm *norm, const double *x, int64_t rows, int64_t width,
                               double *store, const double **normalised, const analysis_call *call);
/* From q, k and v of the pass on. */
ota_status ota_layer_attend(const layer_shape *shape, layer_pass *pass, ota_result *result,
                            const analysis_call *call);
ota_status ota_layer_run(const layer_shape *shape, const double *x, const double *context,
                         layer_pass *pass, ota_result *result, const analysis_call *call);

#endif
