/* points.h: which arrays `otattn capture` writes, and which heads of them. */
#ifndef OTATTN_PROGRAM_MODELS_POINTS_H
#define OTATTN_PROGRAM_MODELS_POINTS_H

#include "otattn_model.h"
#include "program/program.h"

/* One array of the file. `heads` [heads] says which of them it holds; NULL: all, or it has none. */
typedef struct cli_captured {
    cli_array array;
    const bool *heads;
} cli_captured;

typedef struct cli_points {
    cli_captured *items;
    size_t count;           /* that the run hands over */
    bool logits;            /* wanted too: they come last */
    bool *weights, *scores; /* [layers, heads] of --weights and --scores */
    int64_t heads;
} cli_points;

/* By --points, --weights, --scores and --receiver, of a run of so many sequences and tokens [2], of points whose layer is
 * `first_layer` or a later one (-1: all). */
int cli_points_choose(cli_context *context, const ota_model *model, const int64_t size[2],
                      int64_t first_layer, ota_type type, cli_points *points);
void cli_points_free(cli_points *points);

#endif
