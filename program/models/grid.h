/* grid.h: a number, and perhaps a token, for every layer and every position or head of a run: in a terminal, in JSON, and as
 * a table F.csv, a figure F.vl.json or a page F.html. */
#ifndef OTATTN_PROGRAM_MODELS_GRID_H
#define OTATTN_PROGRAM_MODELS_GRID_H

#include "otattn_tokenizer.h"
#include "program/program.h"

enum { CLI_GRID_LABEL = 40 };

typedef struct cli_grid {
    const char *figure; /* program/report/figures/ */
    const char *title, *lead, *caption, *alternative;
    const char *across; /* "position" or "head" */
    const char *value;  /* name of the numbers, in the csv and in JSON */
    const char *axis;   /* and in words */
    int64_t rows, columns;
    int64_t first;                  /* layer of the first row; -1: the embedding */
    const double *values;           /* [rows, columns] */
    const int64_t *ids;             /* [rows, columns] tokens, or NULL */
    const int64_t *columns_ids;     /* [columns] tokens of the positions, or NULL */
    const ota_tokenizer *tokenizer; /* NULL: tokens are shown by their numbers */
    /* Made by cli_grid_prepare: tokens [rows, columns] and names of columns for the eye. */
    char (*tokens)[CLI_GRID_LABEL];
    char (*names)[2 * CLI_GRID_LABEL];
} cli_grid;

/* A token for the eye: its text, what cannot be seen replaced; its number without a tokenizer. */
int cli_grid_label(cli_context *context, const ota_tokenizer *tokenizer, int64_t id,
                   char label[CLI_GRID_LABEL]);
/* The labels, before anything is shown or written; freed by the other call, also after a failure. */
int cli_grid_prepare(cli_context *context, cli_grid *grid);
void cli_grid_free(cli_grid *grid);
/* Can --out be written, by its ending? Before what takes long. */
int cli_grid_check(cli_context *context);
/* By the ending of the path. */
int cli_grid_write(cli_context *context, const cli_grid *grid, const char *path);
void cli_grid_print(const cli_grid *grid);
/* "layer": of every row, "values": rows of numbers, "ids" and "tokens": rows of them, where there are any. */
void cli_grid_put(const cli_grid *grid, json_t *object);

#endif
