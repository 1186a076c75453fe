/* Couplings drawn in a terminal: one character or two per weight, labelled rows and columns, and under
 * each column what the key receives. */
#ifndef OTATTN_PROGRAM_HEATMAP_H
#define OTATTN_PROGRAM_HEATMAP_H

#include <stddef.h>
#include <stdio.h>

typedef enum cli_shades {
    CLI_SHADES_DIGITS = 0, /* ASCII only: the first digit of the weight's square root */
    CLI_SHADES_BLOCKS,     /* block characters, no colour */
    CLI_SHADES_256,        /* background colours of the 6 x 6 x 6 cube */
    CLI_SHADES_24_BIT
} cli_shades;

/* What `stream` can show: NO_COLOR, CLICOLOR_FORCE, TERM, COLORTERM and the locale decide. */
cli_shades cli_shades_for(FILE *stream);
/* Columns of the terminal behind `stream`, else $COLUMNS, else 80. */
int cli_terminal_width(FILE *stream);

/* Maps of the same rows and columns, drawn side by side as far as `width` columns go. weights is
 * [rows, columns], between 0 and 1; shades follow the square root, so that small weights show. Labels
 * are UTF-8 of any origin: control characters come out as `?`. */
typedef struct cli_heatmap {
    const char *title;
    const double *weights;
} cli_heatmap;

typedef struct cli_heatmap_labels {
    const char *const *row, *const *column; /* [rows], [columns] */
    size_t rows, columns;
} cli_heatmap_labels;

void cli_heatmaps_print(FILE *stream, cli_shades shades, int width, const cli_heatmap *maps,
                        size_t map_count, const cli_heatmap_labels *labels);

/* Prints `text` cut or filled to exactly `width` terminal columns. */
void cli_print_padded(FILE *stream, cli_shades shades, const char *text, int width);

#endif
