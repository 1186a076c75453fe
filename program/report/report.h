/* Reports: one self-contained HTML page of text, tables and charts.
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

typedef struct tool_report tool_report;

/* `cells` holds rows x columns strings, row by row; NULL is an empty cell. Columns whose cells are all
 * numbers stand right-aligned. The caller owns everything. */
typedef struct tool_table {
    const char *caption;
    const char *const *columns;
    size_t column_count;
    const char *const *cells;
    size_t row_count;
} tool_table;

/* cells.c: a table put together cell by cell, its heading (may be NULL) first. */
typedef struct tool_cells tool_cells;
/* NULL when memory is short; every call takes NULL. */
tool_cells *tool_cells_new(size_t columns, const char *const *heading);
void tool_cell(tool_cells *cells, const char *text);
void tool_cell_number(tool_cells *cells, double value);
void tool_cell_format(tool_cells *cells, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The table of what was added so far, which lives as long as `cells`. NULL: it is empty, or memory was short, which is
 * noted. */
const tool_table *tool_cells_table(tool_cells *cells, const char *caption);
void tool_cells_free(tool_cells *cells);

/* One chart. `datasets` is an object of arrays of objects, named as the figure's file names them.
 * `alternative` says in words what the picture shows, for those who cannot see it. `numbers` (may be
 * NULL) stands folded under the chart. */
typedef struct tool_figure {
    const char *name;
    const char *title;
    json_t *datasets;
    const char *caption;
    const char *alternative;
    const tool_table *numbers;
} tool_figure;

enum { TOOL_MAP_LEVELS = 64 };

/* Small multiples: rows x columns maps of cells x cells levels, levels[rows, columns, cells, cells] below
 * TOOL_MAP_LEVELS, a level being sqrt(weight). `labels` are the texts of the n tokens; token i belongs to
 * the cell (i pieces / n) / step, in whole parts. */
typedef struct tool_maps {
    const char *title;
    const char *caption;
    json_t *labels;
    size_t rows, columns, cells, pieces, step;
    const unsigned char *levels;
} tool_maps;

/* Whether this build carries the chart library. */
bool tool_report_charts(void);

/* NULL only when memory is short. `lead` is the one paragraph under the title. */
tool_report *tool_report_open(const char *title, const char *lead);
void tool_report_section(tool_report *report, const char *heading);
/* A paragraph; text between backquotes is set as code. */
void tool_report_text(tool_report *report, const char *text);
/* A block of preformatted text, such as a command. */
void tool_report_code(tool_report *report, const char *text);
void tool_report_table(tool_report *report, const tool_table *table);
/* Figures between the two calls stand side by side, at most `columns` of them, fewer where the page is
 * too narrow. */
void tool_report_grid_begin(tool_report *report, int columns);
void tool_report_grid_end(tool_report *report);
/* Takes its own copy of everything; the caller keeps `datasets`. */
void tool_report_figure(tool_report *report, const tool_figure *figure);
/* Maps that the page's script draws, enlarges and reads out; they travel packed. Takes its own copy. */
void tool_report_maps(tool_report *report, const tool_maps *maps);
/* The figure's complete Vega-Lite specification with its data inside, as for figures/NAME.vl.json of a
 * run folder: a new reference, or NULL. */
json_t *tool_report_specification(const char *name, json_t *datasets);
/* The light theme as a Vega configuration for such a specification: a new reference, or NULL. */
json_t *tool_report_theme(void);
/* Writes the page to `path` (refused if it exists and not `force`) and frees the report either way.
 * Returns 0 or the exit code. */
int tool_report_close(tool_report *report, const char *path, bool force, tool_error *error);
void tool_report_abort(tool_report *report);

#endif
