/* What the files of a run's report share: the folder in memory, and the page under way. */
#ifndef OTATTN_PROGRAM_REPORT_RUN_PARTS_H
#define OTATTN_PROGRAM_REPORT_RUN_PARTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "program/files/files.h"
#include "report.h"
#include "program/program.h"

/* ---- run_load.c ---- */

/* A CSV file. `cells` [row_count, column_count] and `columns` point into `text`. */
typedef struct run_table {
    char *name; /* without .csv */
    char *text;
    const char **columns;
    size_t column_count;
    const char **cells;
    size_t row_count;
} run_table;

typedef struct run_example {
    json_t *tokens; /* array of n strings, or NULL: no example */
    json_t *lens;   /* array [layers + 1][n] of strings, or NULL */
    cli_array max_probability, tv, patterns;
} run_example;

typedef struct run_folder {
    const char *path;
    char *name;       /* what pictures of two runs call this one */
    json_t *metrics;  /* an object */
    json_t *manifest; /* an object or NULL */
    run_table *tables;
    size_t table_count;
    run_example example;
} run_folder;

/* Returns 0 or the exit code; cli_run_folder_free in either case. */
int cli_run_folder_load(const char *path, run_folder *folder, cli_error *error);
void cli_run_folder_free(run_folder *folder);
const run_table *cli_run_table(const run_folder *folder, const char *name);
/* Index of a column, or column_count. */
size_t cli_run_column(const run_table *table, const char *name);

/* ---- run.c ---- */

/* A part of the page: its figures stand side by side in `columns`, 0: below one another. */
typedef struct run_section {
    const char *heading, *text;
    int columns;
} run_section;

typedef struct run_page {
    cli_report *report;
    const run_folder *runs; /* [count] */
    int count;              /* 1 or 2 */
    int code;               /* of the first trouble; nothing is written after it */
    cli_error *error;
    bool details; /* the folded part is being written */
    bool open;    /* `section` has begun */
    run_section section;
    json_t *constant; /* {"text", "id"}: what is not drawn, for it is one value everywhere */
} run_page;

/* From here on what is said and drawn belongs to this section, which is folded among the details. One without content
 * leaves no trace. */
void cli_run_begin(run_page *page, run_section section);
void cli_run_end(run_page *page);
/* Before content that goes to page->report itself. */
void cli_run_open(run_page *page);
/* A title, with the run's name behind it where there are two. */
enum { RUN_TITLE = 192 };
void cli_run_title(const run_page *page, int run, const char *title, char text[RUN_TITLE]);
/* Notes that TITLE, whose figure would have the id `file`, is left out, since it is `value` everywhere. */
void cli_run_leave_out(run_page *page, const char *title, const char *file, double value);
/* The id of a figure, or of where what is left out is told. */
const char *cli_run_place(const run_page *page, const char *file);
/* The layers that a run measured, where they are not all of its model's: ends, and how many the model has. */
typedef struct run_part {
    int first, last, layers;
} run_part;
bool cli_run_part_of(const run_folder *run, run_part *part);

/* Puts the figure on the page and, with one run, writes it to figures/FILE.vl.json. Takes over
 * figure->datasets. */
void cli_run_figure(run_page *page, const char *file, cli_figure figure);
/* A paragraph by a printf format. */
void cli_run_say(run_page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes the file FOLDER/PART/NAME+ENDING of the first run. */
void cli_run_write(run_page *page, const char *part, const char *name, const char *ending,
                   const char *text);
/* The id of the table of saturation in figures, which is table 4 where the folder has it. */
#define RUN_SATURATION "saturation_figures"
/* A scalar, or a list of scalars, as text; false for what has members of its own. */
enum { RUN_SETTING = 512 };
bool cli_run_setting(const json_t *value, char text[RUN_SETTING]);
/* What one run is called in a legend. */
const char *cli_run_name(const run_page *page, int run);

/* A member of a figure object such as "median", NaN when there is none. */
double cli_run_number(const json_t *figure, const char *member);
/* ci95[0] and ci95[1]. */
double cli_run_interval(const json_t *figure, size_t end);

/* ---- run_words.c ---- */

enum { RUN_WORD = 64 };

/* A whole number with its thousands apart; the same with what is counted, "1 layer", "4 layers"; a number of three
 * digits; a share of 1 in percent. */
void cli_run_count(double value, char word[RUN_WORD]);
void cli_run_counted(double value, const char *one, const char *many, char word[RUN_WORD]);
void cli_run_value(double value, char word[RUN_WORD]);
void cli_run_share(double share, char word[RUN_WORD]);
/* {value, lower, upper} as "value [lower, upper]"; without the ends where there are none. */
void cli_run_between(const double numbers[3], bool share, char word[RUN_WORD]);
/* Mean and interval of a figure object. */
void cli_run_mean(const json_t *figure, bool share, char word[RUN_WORD]);
/* "layer 3", "the embedding". */
void cli_run_layer_name(int layer, char word[RUN_WORD]);
/* The same in a row's margin: "3", "emb". */
void cli_run_layer_label(int64_t layer, char word[RUN_WORD]);

/* ---- run_answers.c ---- */

enum { RUN_SENTENCE = 600 };

/* The words with every {fact} in its place; false where one is not known. */
bool cli_run_fill(const char *words, const json_t *facts, char text[RUN_SENTENCE]);

/* ---- run_findings.c ---- */

/* Adds what the folder bears out to `facts`: name -> text. */
void cli_run_findings(const run_folder *run, json_t *facts);

/* ---- run_depth.c: the measures of transitions and layers ---- */

typedef struct run_measure {
    const char *section; /* NULL: that of the row above */
    const char *file;    /* figures/FILE.vl.json */
    const char *figure;
    const char *part; /* of metrics.json */
    const char *key;
    const char *second; /* a second member drawn beside, or NULL */
    bool probed;        /* there is a raw one, too */
    bool first;         /* drawn before anything is unfolded */
    const char *title, *axis, *caption;
} run_measure;

extern const run_measure cli_run_measures[];
extern const size_t cli_run_measure_count;

/* Where entry `index` of a part of metrics.json stands, by its own "layer" if it has one: a transition at the layer
 * that makes it, a state at the layer that it leaves, the model's input at -1. */
int cli_run_layer(const char *part, const json_t *entry, size_t index);

/* ---- run_grid.c ---- */

/* Values by row (from the top) and token, with a text in every cell. */
typedef struct run_grid {
    const char *file; /* figures/FILE.vl.json */
    const char *title, *caption;
    const char *axis, *row_axis; /* what values and rows are */
    json_t *columns, *rows;      /* arrays of texts; a column is "POSITION TOKEN" */
    json_t *values, *words; /* arrays [rows][columns] of numbers and of texts; words may be NULL */
    int run;
} run_grid;

/* The data set `rows` of the figures grid and patching, and the table of the same numbers, freed by the caller. */
json_t *cli_run_grid_data(const run_grid *grid, cli_cells **cells);
/* Keeps none of the arrays. */
void cli_run_grid(run_page *page, const run_grid *grid);

/* ---- run_compare.c ---- */

/* Mean of the second figure less that of the first, and the ends of the difference's 95 % interval. */
void cli_run_difference(const json_t *first, const json_t *second, double numbers[3]);

/* ---- parts of the page; those with figures are called twice, the second time for the details ---- */

void cli_run_facts(run_page *page); /* run_facts.c: model, text, settings */
void cli_run_answers(
    run_page
        *page); /* run_answers.c: sentences made from the numbers, once all figures are drawn */

void cli_run_depth(run_page *page);      /* run_depth.c: measures by depth */
void cli_run_saturation(run_page *page); /* run_events.c: the one chart of events by layer */
void cli_run_heads(run_page *page);      /* run_heads.c: measures by layer and head, patterns */
void cli_run_events(run_page *page);     /* run_events.c: saturation by layer and token, the lens */
void cli_run_methods(run_page *page);    /* run_methods.c: methods and temperatures side by side */
void cli_run_compare(run_page *page);    /* run_compare.c: differences of two runs */
void cli_run_compare_answers(run_page *page);
void cli_run_tables(run_page *page); /* run_tables.c: every table, and as LaTeX */

/* ---- run_text.c: foreign text ---- */

/* A token's text as it can be read: blanks, line ends, controls and marks that turn the direction of
 * text become visible. *label is valid UTF-8, cut to fit. */
void cli_run_label(const char *token, char *label, size_t size);
/* The same of a string that may hold zero bytes; "?" for what is no string. */
void cli_run_token(const json_t *token, char *label, size_t size);
/* The same of words, whose blanks are blanks; no backquote is left that would set what follows as code. */
void cli_run_phrase(const json_t *words, char *label, size_t size);
/* The text as LaTeX that prints it; freed by the caller, NULL when memory is short. */
char *cli_run_latex(const char *text);

#endif
