/* edits.h: --edit of the subcommands that run models. */
#ifndef OTATTN_PROGRAM_MODELS_EDITS_H
#define OTATTN_PROGRAM_MODELS_EDITS_H

#include "otattn_model.h"
#include "program/program.h"

/* Sequences and tokens of the run; of a run on a cache those of its prompt. */
typedef struct cli_run_size {
    int64_t batch, count;
} cli_run_size;

typedef struct cli_one_edit {
    ota_edit edit;
    char *text, *name;
    float number;
} cli_one_edit;

/* For ota_model_run.edits: list [count], NULL without --edit. */
typedef struct cli_edits {
    cli_one_edit *items;
    ota_edit *list;
    int64_t count;
} cli_edits;

/* Reads --edit; a refusal names what is wrong with its text, the library names what the model has no place for. */
int cli_edits_read(cli_context *context, const ota_model *model, const cli_run_size *size,
                   cli_edits *edits);
void cli_edits_free(cli_edits *edits);

#endif
