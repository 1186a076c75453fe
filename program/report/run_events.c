/* Saturation: events by layer and by token, and the example's grids of layer by token.
 *
 *     events.csv, column layer  -> how many events a layer has
 *     events.csv, column token  -> the tokens with most events
 *     example                   -> max_probability [layers + 1, n] and tv [layers, n], first tokens */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run_parts.h"

enum { LABEL = 64, TOKENS_SHOWN = 15, COLUMNS_SHOWN = 64, LAYER_MOST = 4096 };

/* ---- counts ---- */

typedef struct count {
    char label[LABEL];
    long layer; /* -1 where values are texts */
    size_t events;
} count;

static int by_label(const void *a, const void *b) {
    const count *one = a, *other = b;
    if (one->layer != other->layer) return one->layer < other->layer ? -1 : 1;
    return strcmp(one->label, other->label);
}

static int by_events(const void *a, const void *b) {
    const count *one = a, *other = b;
    if (one->events != other->events) return one->events > other->events ? -1 : 1;
    return strcmp(one->label, other->label);
}

/* The different values of a column with how often they occur, sorted by value; NULL when memory is short
 * or the column is not there. */
static count *count_values(const run_table *table, const char *name, size_t *found) {
    const size_t column = cli_run_column(table, name);
    *found = 0;
    if (column == table->column_count || table->row_count == 0) return NULL;
    count *counts = calloc(table->row_count, sizeof *counts);
    for (size_t row = 0; counts != NULL && row < table->row_count; row++) {
        const char *cell = table->cells[row * table->column_count + column];
        cli_run_label(cell == NULL ? "" : cell, counts[row].label, LABEL);
        counts[row].layer =
            strcmp(name, "layer") == 0 && cell != NULL ? strtol(cell, NULL, 10) : -1;
        counts[row].events = 1;
    }
    if (counts == NULL) return NULL;
    qsort(counts, table->row_count, sizeof *counts, by_label);
    for (size_t row = 0; row < table->row_count; row++) {
        if (*found > 0 && by_label(&counts[*found - 1], &counts[row]) == 0)
            counts[*found - 1].events++;
        else
            counts[(*found)++] = counts[row];
    }
    return counts;
}

static void add_count(json_t *rows, cli_cells *cells, const char *series, const char *field,
                      json_t *value, const char *label, size_t events) {
    (void)json_array_append_new(rows, json_pack("{s:s, s:o, s:I}", "series", series, field, value,
                                                "count", (json_int_t)events));
    cli_cell(cells, series);
    cli_cell(cells, label);
    cli_cell_format(cells, "%zu", events);
}

/* Layers without events are bars of height 0: where nothing happens is part of the answer. */
static size_t add_layers(const run_page *page, int run, json_t *rows, cli_cells *cells) {
    const run_table *table = cli_run_table(&page->runs[run], "events");
    size_t found = 0, total = 0;
    count *counts = table == NULL ? NULL : count_values(table, "layer", &found);
    if (counts == NULL) return 0;
    const size_t states = json_array_size(json_object_get(page->runs[run].metrics, "layers"));
    for (long layer = 0, next = 0; layer < (long)states || next < (long)found; layer++) {
        size_t events = 0;
        char label[24];
        while (next < (long)found && counts[next].layer <= layer) events += counts[next++].events;
        if (layer >= LAYER_MOST) break;
        (void)snprintf(label, sizeof label, "%ld", layer);
        add_count(rows, cells, cli_run_name(page, run), "layer", json_integer(layer), label,
                  events);
        total += events;
    }
    free(counts);
    return total;
}

static void add_tokens(const run_page *page, int run, json_t *rows, cli_cells *cells) {
    const run_table *table = cli_run_table(&page->runs[run], "events");
    size_t found = 0;
    count *counts = table == NULL ? NULL : count_values(table, "token", &found);
    if (counts == NULL) return;
    qsort(counts, found, sizeof *counts, by_events);
    for (size_t row = 0; row < found && row < TOKENS_SHOWN; row++)
        add_count(rows, cells, cli_run_name(page, run), "token", json_string(counts[row].label),
                  counts[row].label, counts[row].events);
    free(counts);
}

static void add_histograms(run_page *page) {
    json_t *layers = json_array(), *tokens = json_array();
    cli_cells *layer_cells = cli_cells_new(3, (const char *[]){"run", "layer", "events"});
    cli_cells *token_cells = cli_cells_new(3, (const char *[]){"run", "token", "events"});
    size_t total = 0;
    char words[256];
    for (int run = 0; run < page->count; run++) {
        total += add_layers(page, run, layers, layer_cells);
        add_tokens(page, run, tokens, token_cells);
    }
    if (total > 0) {
        cli_report_grid_begin(page->report, 2);
        (void)snprintf(words, sizeof words, "Bars: saturation events by layer, %zu in all.", total);
        cli_run_figure(page, "saturation",
                       (cli_figure){"saturation", "Events by layer",
                                    json_pack("{s:O}", "events", layers),
                                    "The layer at which a position becomes saturated.", words,
                                    cli_cells_table(layer_cells, "Events by layer.")});
        if (json_array_size(tokens) > 0)
            cli_run_figure(page, "saturation_tokens",
                           (cli_figure){"saturation_tokens", "Tokens with most events",
                                        json_pack("{s:O}", "tokens", tokens),
                                        "The text at the position of the event.",
                                        "Bars: the tokens at which most saturation events happen.",
                                        cli_cells_table(token_cells, "Tokens with most events.")});
        cli_report_grid_end(page->report);
    } else {
        cli_report_text(page->report, "No event passed the thresholds.");
    }
    json_decref(layers);
    json_decref(tokens);
    cli_cells_free(layer_cells);
    cli_cells_free(token_cells);
}

/* metrics.events holds totals, which table 4 tells in the paper's words where it is there. */
static void add_totals(run_page *page, int run) {
    const char *key;
    json_t *value;
    cli_cells *cells = cli_cells_new(2, (const char *[]){"property", "value"});
    json_object_foreach(json_object_get(page->runs[run].metrics, "events"), key, value) {
        char label[LABEL];
        const bool number = json_is_number(value);
        const double mean = number ? json_number_value(value) : cli_run_number(value, "mean");
        if (!number && !isfinite(mean)) continue;
        cli_run_label(key, label, sizeof label);
        for (char *at = label; *at != '\0'; at++)
            if (*at == '_') *at = ' ';
        cli_cell(cells, label);
        cli_cell_number(cells, mean);
    }
    char caption[160];
    (void)snprintf(caption, sizeof caption,
                   "Saturation in figures%s%s; means where there are many.",
                   page->count > 1 ? ", " : "", page->count > 1 ? cli_run_name(page, run) : "");
    const cli_table *table = cli_cells_table(cells, caption);
    if (table != NULL && table->row_count > 0) cli_report_table(page->report, table);
    cli_cells_free(cells);
}

/* ---- grids of layer by token ---- */

static json_t *word_at(const json_t *lens, size_t layer, size_t position) {
    const json_t *word = json_array_get(json_array_get(lens, layer), position);
    char label[LABEL];
    cli_run_token(word, label, sizeof label);
    return json_string(label);
}

static void add_grid(run_page *page, int run, const char *file, const cli_array *values,
                     size_t first_layer, const char *title, const char *caption) {
    const run_example *example = &page->runs[run].example;
    if (values->count == 0 || example->tokens == NULL) return;
    const size_t layers = (size_t)values->shape[0], count_all = (size_t)values->shape[1];
    const size_t shown = count_all < COLUMNS_SHOWN ? count_all : COLUMNS_SHOWN;
    json_t *states = json_array(), *tokens = json_array();
    cli_cells *cells = cli_cells_new(shown + 1, NULL);
    cli_cell(cells, "layer");
    for (size_t position = 0; position < shown; position++) {
        char label[LABEL], numbered[LABEL + 24];
        const json_t *token = json_array_get(example->tokens, position);
        cli_run_token(token, label, sizeof label);
        (void)snprintf(numbered, sizeof numbered, "%zu %s", position, label);
        (void)json_array_append_new(tokens, json_string(numbered));
        cli_cell(cells, numbered);
    }
    for (size_t layer = 0; layer < layers; layer++) {
        json_t *words = json_array(), *numbers = json_array();
        cli_cell_format(cells, "%zu", layer + first_layer);
        for (size_t position = 0; position < shown; position++) {
            const double value =
                cli_element(values->data, values->type, layer * count_all + position);
            (void)json_array_append_new(words,
                                        word_at(example->lens, layer + first_layer, position));
            (void)json_array_append_new(numbers, cli_json_real(value));
            cli_cell_number(cells, value);
        }
        (void)json_array_append_new(states, json_pack("{s:I, s:O, s:o, s:o}", "layer",
                                                      (json_int_t)(layer + first_layer), "tokens",
                                                      tokens, "words", words, "values", numbers));
    }
    char words[256], heading[160];
    (void)snprintf(heading, sizeof heading, "%s%s%s", title, page->count > 1 ? ": " : "",
                   page->count > 1 ? cli_run_name(page, run) : "");
    (void)snprintf(words, sizeof words, "Grid of %zu layers by the first %zu of %zu tokens: %s.",
                   layers, shown, count_all, heading);
    cli_run_figure(page, file,
                   (cli_figure){"lens", heading, json_pack("{s:o}", "states", states), caption,
                                words, cli_cells_table(cells, heading)});
    cli_cells_free(cells);
    json_decref(tokens);
}

void cli_run_events(run_page *page) {
    bool any = false;
    for (int run = 0; run < page->count; run++) {
        const run_folder *folder = &page->runs[run];
        any = any || cli_run_table(folder, "events") != NULL || folder->example.tokens != NULL ||
              json_object_size(json_object_get(folder->metrics, "events")) > 0;
    }
    if (!any) return;
    cli_report_section(page->report, "Saturation");
    cli_report_text(page->report,
                    "A position is saturated when one token has nearly all probability: its "
                    "distribution then hardly moves, whatever the state does.");
    for (int run = 0; run < page->count; run++)
        if (cli_run_table(&page->runs[run], "table4") == NULL) add_totals(page, run);
    add_histograms(page);
    for (int run = 0; run < page->count; run++) {
        const run_example *example = &page->runs[run].example;
        add_grid(page, run, "lens", &example->max_probability, 0,
                 "Largest probability by layer and token",
                 "The first tokens of the first window. The pointer names the token that the probe "
                 "finds likeliest to come next.");
        add_grid(page, run, "lens_tv", &example->tv, 1, "Total variation by layer and token",
                 "How far the distribution at this token moved on the way to this layer.");
    }
}
