/* program/report/: Self-contained HTML pages: report.c writes one, run*.c the page of an analysis; charts are the
 * Vega-Lite files of figures/, colours in theme.json. The build puts page, styles, scripts and figures into the
 * program (embedded.h).
 *
 * Reports: one self-contained HTML page of text, tables and charts.
 *
 * A page asks for nothing outside itself. Charts are Vega-Lite specifications embedded from
 * figures/NAME.vl.json; the caller supplies only the named data sets a figure asks for. The chart
 * library travels inside the page, packed, when the build was given one (OTATTN_CHARTS); without it
 * the page says so and its tables hold the numbers.
 *
 * The page is put together in memory and written at close, under a temporary name that is renamed, so
 * there is never half a page. All text is UTF-8 and escaped here: callers pass what a model or a file
 * says as it is. Calls between open and close cannot fail visibly; close reports the first trouble. */
#ifndef OTATTN_PROGRAM_REPORT_REPORT_H
#define OTATTN_PROGRAM_REPORT_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "program/files/files.h"

typedef struct cli_report cli_report;

/* `cells` holds rows x columns strings, row by row; NULL is an empty cell. Columns whose cells are all
 * numbers stand right-aligned. The caller owns everything. */
typedef struct cli_table {
    const char *caption;
    const char *const *columns;
    size_t column_count;
    const char *const *cells;
    size_t row_count;
    const char *id; /* that links lead to, or NULL */
} cli_table;

/* cells.c: a table put together cell by cell, its heading (may be NULL) first. */
typedef struct cli_cells cli_cells;
/* NULL when memory is short; every call takes NULL. */
cli_cells *cli_cells_new(size_t columns, const char *const *heading);
void cli_cell(cli_cells *cells, const char *text);
void cli_cell_number(cli_cells *cells, double value);
void cli_cell_format(cli_cells *cells, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The table of what was added so far, which lives as long as `cells`. NULL: it is empty, or memory was short, which is
 * noted. */
const cli_table *cli_cells_table(cli_cells *cells, const char *caption);
void cli_cells_free(cli_cells *cells);

/* One chart. `datasets` is an object of arrays of objects, named as the figure's file names them.
 * `alternative` says in words what the picture shows, for those who cannot see it. `numbers` (may be
 * NULL) stands folded under the chart. `axis` says what the values are and in which unit: it takes the
 * place of "$axis" in the figure's file; NULL is the title. Answers find the figure by `id` (or NULL). */
typedef struct cli_figure {
    const char *name;
    const char *title;
    json_t *datasets;
    const char *caption;
    const char *alternative;
    const cli_table *numbers;
    const char *axis;
    const char *id;
} cli_figure;

/* What stands at the top of a page: a name and what goes by it. */
typedef struct cli_fact {
    const char *name, *text;
} cli_fact;

/* A sentence of the page's answer, and the figure that shows it; no link where the page has no figure `id`. */
typedef struct cli_answer {
    const char *text, *link, *id;
} cli_answer;

enum { CLI_MAP_LEVELS = 64 };

/* Maps of heads: layers x heads maps of cells x cells levels, levels[layers, heads, cells, cells] below CLI_MAP_LEVELS, a
 * level being sqrt(weight). `labels` are the texts of the n tokens; token i belongs to the cell (i pieces / n) / step, in
 * whole parts. `measures` is an array of {"title", "values": [layers x heads numbers or null]}: what heads are sorted by
 * and told with; `names` holds layers x heads texts or nulls: what they are filtered by. */
typedef struct cli_maps {
    const char *title;
    const char *caption;
    json_t *labels, *measures, *names;
    size_t first_layer, layers, heads, cells, pieces, step;
    const unsigned char *levels;
} cli_maps;

/* Whether this build carries the chart library. */
bool cli_report_charts(void);

/* NULL only when memory is short. `lead` is the one paragraph under the title, NULL: none. */
cli_report *cli_report_open(const char *title, const char *lead);
void cli_report_section(cli_report *report, const char *heading);
/* A list of names and texts. */
void cli_report_facts(cli_report *report, const cli_fact *facts, size_t count);
/* Answers stand where the first call says, though they are given once the page's figures are known. Behind the first
 * `shown` of them the others are folded. */
void cli_report_answers_here(cli_report *report);
void cli_report_answers(cli_report *report, const char *heading, const cli_answer *answers,
                        size_t count, size_t shown);
/* A section whose content is folded away under its heading and one sentence; a link to it (`id`, or NULL) or into it
 * unfolds it. */
void cli_report_fold_begin(cli_report *report, const char *heading, const char *text,
                           const char *id);
void cli_report_fold_end(cli_report *report);
/* A paragraph; text between backquotes is set as code. */
void cli_report_text(cli_report *report, const char *text);
/* A block of preformatted text, such as a command. */
void cli_report_code(cli_report *report, const char *text);
void cli_report_table(cli_report *report, const cli_table *table);
/* Figures between the two calls stand side by side, at most `columns` of them, fewer where the page is
 * too narrow. */
void cli_report_grid_begin(cli_report *report, int columns);
void cli_report_grid_end(cli_report *report);
/* Takes its own copy of everything; the caller keeps `datasets`. */
void cli_report_figure(cli_report *report, const cli_figure *figure);
/* Maps that the page's script draws, enlarges and reads out; they travel packed. Takes its own copy. */
void cli_report_maps(cli_report *report, const cli_maps *maps);
/* The figure's complete Vega-Lite specification with its data inside, as for figures/NAME.vl.json of a
 * run folder: a new reference, or NULL. Its name, title, data sets and axis are read. */
json_t *cli_report_specification(const cli_figure *figure);
/* The light theme as a Vega configuration for such a specification: a new reference, or NULL. */
json_t *cli_report_theme(void);
/* Writes the page to `path` (refused if it exists and not `force`) and frees the report either way.
 * Returns 0 or the exit code. */
int cli_report_close(cli_report *report, const char *path, bool force, cli_error *error);
void cli_report_abort(cli_report *report);

#endif
