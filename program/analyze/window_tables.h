/* From records to files: columns of all windows, their figures, and tables. */
#ifndef OTATTN_PROGRAM_ANALYZE_WINDOW_TABLES_H
#define OTATTN_PROGRAM_ANALYZE_WINDOW_TABLES_H

#include "analyze.h"

/* ---- figures.c ---- */

/* One column of all windows: values [windows, size], freed by run_table_free. `parts` layers (or layers x
 * heads) of `unit` values each: size = parts unit. */
typedef struct run_table_of {
    double *values;
    int64_t windows, parts, unit;
} run_table_of;

int run_table_load(run *r, int variant, int probe, run_column column, run_table_of *table);
void run_table_free(run_table_of *table);
/* The values of one part, window by window: to [windows, unit]. */
void run_table_part(const run_table_of *table, int64_t part, double *to);
/* figures [parts] of factor x + offset. */
int run_table_figures(run *r, const run_table_of *table, double factor, double offset,
                      ota_figure *figures);
/* The same of a column at once; *figures is freed by the caller. */
int run_column_figures(run *r, int variant, int probe, run_column column, double factor,
                       double offset, ota_figure **figures, int64_t *parts);
json_t *run_figure_json(const ota_figure *figure);

/* ---- tables.c ---- */

/* Writes tables/NAME.csv of the folder and frees; `code` not 0: only frees and returns it. */
int run_csv_end(run *r, cli_text *csv, const char *name, int code);

/* ---- windows.c ---- */

/* The token's text, valid UTF-8 without control characters (a line's end is U+21B5), or its number where there
 * is no tokenizer. */
void run_spell(const run *r, int64_t id, char *text, size_t size);

/* ---- example.c ---- */

/* Between the two, patterns of the window that is measured are kept, too. */
int run_example_begin(run *r);
void run_example_end(run *r);
int run_example_write(run *r);

/* ---- the files ---- */

/* metrics.c */
int run_write_metrics(run *r, json_t *events);
/* tables.c */
int run_write_tables(run *r);
/* events.c: events.csv, table4.csv, and the object of metrics.json */
int run_write_events(run *r, json_t **events);
/* sinkhorn.c */
int run_write_table5(run *r);
/* bounds_tables.c: bounds.csv and ranks.csv with --bounds */
int run_write_bounds(run *r);
/* heads_tables.c: heads.csv and massive.csv; names and chance into the
 * attention of metrics.json */
int run_write_heads(run *r);
int run_name_heads(run *r, json_t *attention);
/* variants.c: methods.csv and temperatures.csv where there are any */
int run_write_variants(run *r);

#endif
