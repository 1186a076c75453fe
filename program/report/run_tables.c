/* Every table of the run's folder, on the page and as tables/NAME.tex.
 *
 * LaTeX: one tabular a file, rules of the package booktabs, nothing else needed; columns whose cells are
 * all numbers are right-aligned. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/files/files_formats.h"
#include "run_parts.h"

enum { ROWS_SHOWN = 200, CELL_LABEL = 160, SHORT = 32 };

/* In the order of the page; tables that are not listed here follow by name. */
static const struct {
    const char *name, *caption;
} known[] = {
    {"table1", "Table 1. Alignment residual over the root of the vocabulary, by range of layers, "
               "which here count from 1 as in the paper: mean and standard deviation over windows; "
               "the growth exponent leaves out the step from the embedding."},
    {"table2", "Table 2. The model's configuration."},
    {"table3", "Table 3. Alignment residual of the last layer over the root of the vocabulary."},
    {"table4", "Table 4. Saturation events."},
    {"table5", "Table 5. Rounds of Sinkhorn between the distributions of neighbouring layers."},
    {"drift", "Drift of the states, transition by transition."},
    {"attention", "Attention, head by head."},
    {"heads", "What heads do: names and scores, with intervals and chance."},
    {"massive", "The largest entries of every state."},
    {"events", "Saturation events, one by one."},
    {"methods", "The same text under several methods."},
    {"temperatures", "The same text with attention at several temperatures."},
    {"probe_temperatures", "The same states with the probe's logits at several temperatures."},
    {"compare", "Differences of two runs."},
};
enum { KNOWN = sizeof known / sizeof known[0] };

static bool is_known(const char *name) {
    for (size_t row = 0; row < KNOWN; row++)
        if (strcmp(known[row].name, name) == 0) return true;
    return false;
}

static bool is_numeric(const run_table *table, size_t column) {
    for (size_t row = 0; row < table->row_count; row++) {
        const char *cell = table->cells[row * table->column_count + column];
        if (cell == NULL || *cell == '\0') continue;
        char *end;
        (void)strtod(cell, &end);
        if (end == cell || *end != '\0' || isalpha((unsigned char)*cell)) return false;
    }
    return table->row_count > 0;
}

/* A cell as it is read: numbers with a point or an exponent to four digits, for the CSV has them all. */
static const char *short_cell(const char *cell, char text[SHORT]) {
    char *end;
    if (cell == NULL || *cell == '\0' || isalpha((unsigned char)*cell)) return cell;
    const double value = strtod(cell, &end);
    if (*end != '\0' || strpbrk(cell, ".eE") == NULL) return cell;
    (void)snprintf(text, SHORT, "%.4g", value);
    return text;
}

/* ---- LaTeX ---- */

/* False when memory is short. */
static bool append_latex(FILE *to, const char *text, const char *after) {
    char *latex = cli_run_latex(text == NULL ? "" : text);
    if (latex != NULL) (void)fprintf(to, "%s%s", latex, after);
    free(latex);
    return latex != NULL;
}

/* 3e-11 becomes $3\times10^{-11}$. */
static bool append_latex_cell(FILE *to, const char *cell, const char *after) {
    char text[SHORT];
    const char *shown = short_cell(cell, text);
    char *exponent = shown == text ? strchr(text, 'e') : NULL;
    if (exponent == NULL) return append_latex(to, shown, after);
    *exponent = '\0';
    (void)fprintf(to, "$%s\\times10^{%ld}$%s", text, strtol(exponent + 1, NULL, 10), after);
    return true;
}

static bool append_table(FILE *to, const run_table *table) {
    const size_t columns = table->column_count;
    bool whole = true;
    (void)fputs("% \\usepackage{booktabs}\n\\begin{tabular}{", to);
    for (size_t column = 0; column < columns; column++)
        (void)fputs(is_numeric(table, column) ? "r" : "l", to);
    (void)fputs("}\n\\toprule\n", to);
    for (size_t column = 0; whole && column < columns; column++)
        whole = append_latex(to, table->columns[column], column + 1 < columns ? " & " : " \\\\\n");
    (void)fputs("\\midrule\n", to);
    for (size_t cell = 0; whole && cell < columns * table->row_count; cell++)
        whole = append_latex_cell(to, table->cells[cell],
                                  (cell + 1) % columns != 0 ? " & " : " \\\\\n");
    (void)fputs("\\bottomrule\n\\end{tabular}\n", to);
    return whole;
}

static void write_latex(run_page *page, const run_table *table) {
    cli_text latex;
    int code = cli_text_begin(&latex, page->error);
    if (code == 0 && !append_table(latex.stream, table))
        code = cli_fail(page->error, CLI_EXIT_LIMIT, "there is no memory for a table");
    code = cli_text_end(&latex, code, page->error);
    if (code == 0)
        cli_run_write(page, "tables", table->name, ".tex", latex.text);
    else if (page->code == 0)
        page->code = code;
    free(latex.text);
}

/* ---- the page ---- */

/* Column names as words; cells as labels, for they may hold tokens. */
static void show(run_page *page, const run_table *table, const char *words, int run) {
    const size_t rows = table->row_count < ROWS_SHOWN ? table->row_count : ROWS_SHOWN;
    cli_cells *cells = cli_cells_new(table->column_count, NULL);
    char label[CELL_LABEL], caption[400], name[CELL_LABEL];
    for (size_t column = 0; column < table->column_count; column++) {
        cli_run_label(table->columns[column], label, sizeof label);
        for (char *at = label; *at != '\0'; at++)
            if (*at == '_') *at = ' ';
        cli_cell(cells, label);
    }
    for (size_t cell = 0; cell < rows * table->column_count; cell++) {
        const char *text = table->cells[cell];
        const bool token = strcmp(table->columns[cell % table->column_count], "token") == 0;
        if (token && text != NULL) cli_run_label(text, label, sizeof label);
        char number[SHORT];
        cli_cell(cells, token && text != NULL ? label : short_cell(text, number));
    }
    cli_run_label(table->name, name, sizeof name);
    const size_t used = (size_t)snprintf(caption, sizeof caption, "%s%s%.250s",
                                         page->count > 1 ? cli_run_name(page, run) : "",
                                         page->count > 1 ? ": " : "", words != NULL ? words : name);
    if (rows < table->row_count && used < sizeof caption)
        (void)snprintf(caption + used, sizeof caption - used,
                       " The first %zu of %zu rows; `tables/%.100s.csv` has all.", rows,
                       table->row_count, name);
    const cli_table *shown = cli_cells_table(cells, caption);
    if (shown != NULL) {
        cli_table named = *shown;
        named.id = strcmp(table->name, "table4") == 0 ? RUN_SATURATION : NULL;
        cli_report_table(page->report, &named);
    }
    cli_cells_free(cells);
    if (page->count == 1) write_latex(page, table);
}

void cli_run_tables(run_page *page) {
    bool any = false;
    for (int run = 0; run < page->count; run++) any = any || page->runs[run].table_count > 0;
    if (!any || !page->details) return;
    cli_run_begin(page, (run_section){"Tables",
                                      "They stand in the run's folder, too, as `tables/*.csv` and "
                                      "`tables/*.tex`.",
                                      0});
    cli_run_open(page);
    for (size_t row = 0; row < KNOWN; row++) {
        for (int run = 0; run < page->count; run++) {
            const run_table *table = cli_run_table(&page->runs[run], known[row].name);
            if (table != NULL) show(page, table, known[row].caption, run);
        }
    }
    for (int run = 0; run < page->count; run++) {
        for (size_t index = 0; index < page->runs[run].table_count; index++) {
            const run_table *table = &page->runs[run].tables[index];
            if (!is_known(table->name)) show(page, table, NULL, run);
        }
    }
    cli_run_end(page);
}
