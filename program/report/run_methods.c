/* The same text under several methods (methods.csv), attention temperatures (temperatures.csv) and temperatures of
 * the probe (probe_temperatures.csv): one chart a column of numbers, ends of intervals left out. The columns that have a row below get its words, the others their name. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run_parts.h"

enum { LABEL = 96, CHARTS_MOST = 20 };

static const struct {
    const char *column, *title, *axis, *caption;
} known[] = {
    {"perplexity", "Perplexity", "perplexity", "Of the text; lower is better."},
    {"output_tv", "Change of the prediction", "total variation", "From the run's own, mean."},
    {"output_kl", "KL divergence of the prediction", "nats", "From the run's own, mean."},
    {"output_agreement", "Same likeliest token", "share of positions", "As in the run's own."},
    {"output_change", "Change of the last state", "share of its length",
     "Distance from the run's own over its length, mean."},
    {"nll_per_token", "Negative log-likelihood", "nats a token", "Of the text."},
    {"receiver_max", "Fullest key", "even shares", "Mean over heads and windows."},
    {"sink_rate", "Sink rate", "share of windows and heads",
     "Where the first key receives more than 0.3 of the mass."},
    {"first_key_mass", "Mass on the first key", "share of mass", "Mean over heads and windows."},
    {"gini", "Gini coefficient of received mass", "Gini coefficient",
     "Mean over heads and windows."},
    {"row_entropy", "Entropy of a row", "nats", "Mean over heads and windows."},
    {"support", "Keys with weight", "keys", "Mean over queries, heads and windows."},
    {"tv", "Total variation of a transition", "total variation", "Mean over layers and positions."},
    {"relative_l2", "Relative change of a state", "share of its length",
     "Mean over layers and positions."},
    {"cosine", "Cosine of a state and the next", "cosine", "Mean over layers and positions."},
    {"saturation", "Saturation frequency", "share of transitions", "Those that are events."},
    {"saturated_states", "Saturated states", "share of states", "With one near-certain token."},
};

enum { KNOWN = sizeof known / sizeof known[0] };

/* What a table is drawn as. */
typedef struct layout {
    const char *table, *key, *by, *figure, *dataset, *heading, *text;
    bool numbers; /* the key is a number: an axis, not names */
} layout;

static const layout layouts[] = {
    {"methods", "method", "method", "methods", "methods", "Methods side by side",
     "The same text through the same weights, with attention solved by other rules.", false},
    {"temperatures", "temperature", "temperature of attention", "temperatures", "points",
     "Attention's temperature",
     "The same text with every attention score divided by one more factor.", true},
    {"probe_temperatures", "temperature", "temperature of the probe", "temperatures", "points",
     "The probe's temperature",
     "The same states read with the logits divided by one more factor; attention is as it was.",
     true},
};
enum { LAYOUTS = sizeof layouts / sizeof layouts[0] };

static bool read_number(const char *text, double *value) {
    char *end;
    if (text == NULL || *text == '\0' || isalpha((unsigned char)*text)) return false;
    *value = strtod(text, &end);
    return *end == '\0' && isfinite(*value);
}

/* A foreign name may become part of a file's name. */
static bool is_plain(const char *name) {
    for (const char *at = name; *at != '\0'; at++)
        if (!islower((unsigned char)*at) && !isdigit((unsigned char)*at) && *at != '_')
            return false;
    return *name != '\0' && strlen(name) < LABEL / 2;
}

static bool is_numeric(const run_table *table, size_t column) {
    double value = 0;
    for (size_t row = 0; row < table->row_count; row++)
        if (read_number(table->cells[row * table->column_count + column], &value)) return true;
    return false;
}

static void add_rows(const run_page *page, int run, const layout *as, const char *name,
                     json_t *rows, cli_cells *cells) {
    const run_table *table = cli_run_table(&page->runs[run], as->table);
    if (table == NULL) return;
    const size_t column = cli_run_column(table, name), key = cli_run_column(table, as->key);
    if (column == table->column_count || key == table->column_count) return;
    for (size_t row = 0; row < table->row_count; row++) {
        const char *const *line = table->cells + row * table->column_count;
        double value, place = 0;
        char label[LABEL];
        if (!read_number(line[column], &value) || line[key] == NULL) continue;
        if (as->numbers && !(read_number(line[key], &place) && place > 0)) continue;
        cli_run_label(line[key], label, sizeof label);
        (void)json_array_append_new(
            rows, json_pack("{s:s, s:o, s:f}", "series", cli_run_name(page, run), as->key,
                            as->numbers ? json_real(place) : json_string(label), "value", value));
        cli_cell(cells, cli_run_name(page, run));
        cli_cell(cells, label);
        cli_cell_number(cells, value);
    }
}

/* One number in all rows of all runs, which are more than one. */
static bool is_constant(const json_t *rows, double *value) {
    size_t index;
    const json_t *row;
    json_array_foreach(rows, index, row) {
        const double one = cli_run_number(row, "value");
        if (index == 0) *value = one;
        if (one < *value || one > *value) return false;
    }
    return index > 1;
}

static size_t known_row(const char *name) {
    size_t row = 0;
    while (row < KNOWN && strcmp(known[row].column, name) != 0) row++;
    return row;
}

static void add_chart(run_page *page, const layout *as, const char *name) {
    char title[LABEL], file[2 * LABEL], words[4 * LABEL], whole[2 * LABEL];
    const size_t row = known_row(name);
    const char *caption = row < KNOWN ? known[row].caption : "";
    const char *axis = row < KNOWN ? known[row].axis : NULL;
    double value = 0;
    cli_run_label(name, title, sizeof title);
    for (char *at = title; *at != '\0'; at++)
        if (*at == '_') *at = ' ';
    if (row < KNOWN) (void)snprintf(title, sizeof title, "%s", known[row].title);
    (void)snprintf(whole, sizeof whole, "%s by %s", title, as->by);
    json_t *rows = json_array();
    cli_cells *cells = cli_cells_new(3, (const char *[]){"run", as->key, title});
    for (int run = 0; run < page->count; run++) add_rows(page, run, as, name, rows, cells);
    (void)snprintf(words, sizeof words, "%s: %zu values. %s", whole, json_array_size(rows),
                   caption);
    (void)snprintf(file, sizeof file, "%s_%s", as->table, name);
    if (is_constant(rows, &value)) {
        cli_run_leave_out(page, whole, file, value);
        json_decref(rows);
    } else {
        cli_run_figure(page, file,
                       (cli_figure){as->figure, whole, json_pack("{s:o}", as->dataset, rows),
                                    caption, words, cli_cells_table(cells, title), axis, file});
    }
    cli_cells_free(cells);
}

static bool ends_with(const char *text, const char *tail) {
    const size_t length = strlen(text), size = strlen(tail);
    return length >= size && strcmp(text + length - size, tail) == 0;
}

static bool is_charted(const run_table *table, const layout *as, size_t column) {
    const char *name = table->columns[column];
    return strcmp(name, as->key) != 0 && !ends_with(name, "_low") && !ends_with(name, "_high") &&
           is_plain(name) && is_numeric(table, column);
}

/* The columns drawn: the first known one that there is stands for the table, the others among the details. */
static const run_table *drawn_table(const run_page *page, const layout *as) {
    const run_table *table = NULL;
    for (int run = page->count - 1; run >= 0; run--) {
        const run_table *one = cli_run_table(&page->runs[run], as->table);
        if (one != NULL && one->row_count > 0) table = one;
    }
    const bool keyed = table != NULL && cli_run_column(table, as->key) < table->column_count;
    return keyed ? table : NULL;
}

static size_t first_column(const run_table *table, const layout *as) {
    for (size_t row = 0; row < KNOWN; row++) {
        const size_t column = cli_run_column(table, known[row].column);
        if (column < table->column_count && is_charted(table, as, column)) return column;
    }
    return table->column_count;
}

/* The layout that has a chart before anything is unfolded: the first with a table; of two runs none. */
static const layout *first_layout(const run_page *page) {
    for (size_t row = 0; row < LAYOUTS && page->count == 1; row++)
        if (drawn_table(page, &layouts[row]) != NULL) return &layouts[row];
    return NULL;
}

static void add_details(run_page *page, const layout *as, bool all) {
    const run_table *table = drawn_table(page, as);
    if (table == NULL) return;
    const size_t shown = all ? table->column_count : first_column(table, as);
    int charts = 0;
    cli_run_begin(page, (run_section){as->heading, as->text, 3});
    for (size_t column = 0; column < table->column_count && charts < CHARTS_MOST; column++) {
        if (column == shown || !is_charted(table, as, column)) continue;
        add_chart(page, as, table->columns[column]);
        charts++;
    }
    cli_run_end(page);
}

static void add_first(run_page *page) {
    const layout *as = first_layout(page);
    cli_run_begin(page,
                  (run_section){as == NULL ? "Saturation"
                                           : "Saturation, and other attention on the same text",
                                NULL, 2});
    cli_run_saturation(page);
    if (as != NULL) {
        const run_table *table = drawn_table(page, as);
        const size_t column = first_column(table, as);
        if (column < table->column_count) add_chart(page, as, table->columns[column]);
    }
    cli_run_end(page);
}

void cli_run_methods(run_page *page) {
    if (!page->details) {
        add_first(page);
        return;
    }
    for (size_t row = 0; row < LAYOUTS; row++)
        add_details(page, &layouts[row], &layouts[row] != first_layout(page));
}
