/* analysis/evolution/: What a model predicts layer by layer: change between layers, saturation events, patterns of
 * heads, statistics over many transitions. It may call the public headers, analysis/ and analysis/kernels/. Begin with
 * layer_change.c.
 *
 * layer_change.h: what the files of an evolution share. */
#ifndef OTATTN_ANALYSIS_LAYER_CHANGE_H
#define OTATTN_ANALYSIS_LAYER_CHANGE_H

#include "analysis/analysis.h"

enum { EVOLVE_TOP = 100, EVOLVE_DIGITS = 4096, EVOLVE_PASSES = 3 };

/* ranks [vocabulary], doubled and centred, equals sharing their mean; top [min(EVOLVE_TOP, vocabulary)]: the
 * largest, falling, the lower index first among equals. least, most: of the logits. scratch:
 * ota_evolve_scratch_bytes. Returns the sum of squares of the ranks. */
double ota_layer_change_ranks(const float *logits, int64_t vocabulary, float least, float most,
                              int32_t *ranks, int32_t *top, void *scratch);

/* The calls of one row, of a call that may be ended. weights: exp(z - z_1) [vocabulary] of the row, of `after`, or NULL; they
 * may lie in scratch. */
ota_status ota_layer_change_row(const float *logits, int64_t vocabulary, void *memory,
                                void *scratch, double *weights, ota_evolve_row *row,
                                const analysis_call *call);
ota_status ota_layer_change_compare(const ota_evolve_row *before, const ota_evolve_row *after,
                                    const double *weights, ota_transition *transition,
                                    const analysis_call *call);
ota_status ota_layer_change_place(const ota_evolve_row *row, const double *weights,
                                  const ota_evolve_row *first, const ota_evolve_row *final,
                                  ota_prediction *prediction, const analysis_call *call);
ota_status ota_layer_change_step(const float *logits, const ota_evolve_others *others, void *memory,
                                 void *scratch, ota_evolve_row *row, ota_transition *transition,
                                 ota_prediction *prediction, const analysis_call *call);

#endif
