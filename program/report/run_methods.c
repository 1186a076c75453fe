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
    const char *column, *title, *caption;
} known[] = {
    {"output_tv", "Change of the prediction", "Total variation from the run's own, mean."},
    {"output_kl", "KL divergence of the prediction, nats", "From the run's own, mean."},
    {"output_agreement", "Same likeliest token", "Share of positions."},
    {"output_change", "Change of the last state",
     "Distance from the run's own over its length, mean."},
    {"nll_per_token", "Negative log-likelihood, nats a token", "Of the text."},
    {"perplexity", "Perplexity", "Of the text; lower is better."},
    {"receiver_max", "Fullest key, even shares", "Mean over heads and windows."},
    {"sink_rate", "Sink rate",
     "Share of queries that give more than 0.3 of their mass to the first key."},
    {"first_key_mass", "Mass on the first key", "Mean over heads and windows."},
    {"gini", "Gini coefficient of received mass", "Mean over heads and windows."},
    {"row_entropy", "Entropy of a row, nats", "Mean over heads and windows."},
    {"support", "Keys with weight", "Mean over queries, heads and windows."},
    {"tv", "Total variation of a transition", "Mean over layers and positions."},
    {"relative_l2", "Relative change of a state", "Mean over layers and positions."},
    {"cosine", "Cosine of a state and the next", "Mean over layers and positions."},
    {"saturation", "Saturation frequency", "Share of transitions that are saturation events."},
    {"saturated_states", "Saturated states", "Share of states with one near-certain token."},
};

/* What a table is drawn as. */
typedef struct layout {
    const char *table, *key, *figure, *dataset, *heading, *text;
    bool numbers; /* the key is a number: an axis, not names */
} layout;

static const layout layouts[] = {
    {"methods", "method", "methods", "methods", "Methods side by side",
     "The same text through the same weights, with attention solved by other rules.", false},
    {"temperatures", "temperature", "temperatures", "points", "Attention's temperature",
     "The same text with every attention score divided by one more factor: a hotter attention "
     "looks wider.",
     true},
    {"probe_temperatures", "temperature", "temperatures", "points", "The probe's temperature",
     "The same states read with the logits divided by one more factor; attention is as it was.",
     true},
};

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
    double value;
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

static void add_chart(run_page *page, const layout *as, const char *name) {
    char title[LABEL], file[2 * LABEL], words[4 * LABEL];
    const char *caption = "";
    cli_run_label(name, title, sizeof title);
    for (char *at = title; *at != '\0'; at++)
        if (*at == '_') *at = ' ';
    for (size_t row = 0; row < sizeof known / sizeof known[0]; row++) {
        if (strcmp(known[row].column, name) != 0) continue;
        (void)snprintf(title, sizeof title, "%s", known[row].title);
        caption = known[row].caption;
    }
    json_t *rows = json_array();
    cli_cells *cells = cli_cells_new(3, (const char *[]){"run", as->key, title});
    for (int run = 0; run < page->count; run++) add_rows(page, run, as, name, rows, cells);
    (void)snprintf(words, sizeof words, "%s by %s: %zu values. %s", title, as->key,
                   json_array_size(rows), caption);
    (void)snprintf(file, sizeof file, "%s_%s", as->table, name);
    cli_run_figure(page, file,
                   (cli_figure){as->figure, title, json_pack("{s:o}", as->dataset, rows), caption,
                                words, cli_cells_table(cells, title)});
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

static void add_layout(run_page *page, const layout *as) {
    const run_table *table = NULL;
    for (int run = page->count - 1; run >= 0; run--) {
        const run_table *one = cli_run_table(&page->runs[run], as->table);
        if (one != NULL && one->row_count > 0) table = one;
    }
    if (table == NULL || cli_run_column(table, as->key) == table->column_count) return;
    int charts = 0;
    cli_report_section(page->report, as->heading);
    cli_report_text(page->report, as->text);
    cli_report_grid_begin(page->report, 2);
    for (size_t column = 0; column < table->column_count && charts < CHARTS_MOST; column++) {
        if (!is_charted(table, as, column)) continue;
        add_chart(page, as, table->columns[column]);
        charts++;
    }
    cli_report_grid_end(page->report);
}

void cli_run_methods(run_page *page) {
    for (size_t row = 0; row < sizeof layouts / sizeof layouts[0]; row++)
        add_layout(page, &layouts[row]);
}
