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

/* Layers without events are bars of height 0: where nothing happens is part of the answer. Events are transitions, so
 * they stand at the layers. */
static size_t add_layers(const run_page *page, int run, json_t *rows, cli_cells *cells) {
    const run_table *table = cli_run_table(&page->runs[run], "events");
    size_t found = 0, total = 0;
    count *counts = table == NULL ? NULL : count_values(table, "layer", &found);
    if (counts == NULL) return 0;
    const json_t *transitions = json_object_get(page->runs[run].metrics, "transitions");
    const size_t moves = json_array_size(transitions);
    const long first = cli_run_layer("transitions", json_array_get(transitions, 0), 0);
    for (long layer = first, next = 0; layer < first + (long)moves || next < (long)found; layer++) {
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

void cli_run_saturation(run_page *page) {
    json_t *layers = json_array();
    cli_cells *cells = cli_cells_new(3, (const char *[]){"run", "layer", "events"});
    size_t total = 0;
    char words[256];
    for (int run = 0; run < page->count; run++) total += add_layers(page, run, layers, cells);
    (void)snprintf(words, sizeof words, "Bars: saturation events by layer, %zu in all.", total);
    if (total > 0)
        cli_run_figure(
            page, "saturation",
            (cli_figure){"saturation", "Saturation events by layer",
                         json_pack("{s:O}", "events", layers),
                         "Transitions of a position in which one token has nearly all "
                         "probability before and after, and the distribution hardly moves.",
                         words, cli_cells_table(cells, "Events by layer."), NULL, "saturation"});
    json_decref(layers);
    cli_cells_free(cells);
}

static void add_token_chart(run_page *page) {
    json_t *tokens = json_array();
    cli_cells *cells = cli_cells_new(3, (const char *[]){"run", "token", "events"});
    for (int run = 0; run < page->count; run++) add_tokens(page, run, tokens, cells);
    if (json_array_size(tokens) > 0)
        cli_run_figure(page, "saturation_tokens",
                       (cli_figure){"saturation_tokens", "Tokens with most events",
                                    json_pack("{s:O}", "tokens", tokens),
                                    "The text at the position of the event.",
                                    "Bars: the tokens at which most saturation events happen.",
                                    cli_cells_table(cells, "Tokens with most events."), NULL,
                                    "saturation_tokens"});
    json_decref(tokens);
    cli_cells_free(cells);
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
    if (table != NULL && table->row_count > 0) {
        cli_table named = *table;
        named.id = RUN_SATURATION;
        cli_run_open(page);
        cli_report_table(page->report, &named);
    }
    cli_cells_free(cells);
}

/* ---- grids of layer by token ---- */

static json_t *word_at(const json_t *lens, size_t layer, size_t position) {
    const json_t *word = json_array_get(json_array_get(lens, layer), position);
    char label[LABEL];
    cli_run_token(word, label, sizeof label);
    return json_string(label);
}

/* "emb", "0", "1", ...: the layer that state `state` of the example leaves. */
static json_t *state_name(const run_page *page, int run, size_t state) {
    const json_t *first = json_array_get(json_object_get(page->runs[run].metrics, "layers"), 0);
    const int layer = cli_run_layer("layers", first, 0) + (int)state;
    char label[RUN_WORD];
    cli_run_layer_label(layer, label);
    return json_string(label);
}

static json_t *token_names(const json_t *tokens, size_t count) {
    json_t *names = json_array();
    for (size_t position = 0; position < count; position++) {
        char label[LABEL];
        cli_run_token(json_array_get(tokens, position), label, sizeof label);
        (void)json_array_append_new(names, json_sprintf("%zu %s", position, label));
    }
    return names;
}

/* `values` [states or transitions, n], the last layer on top; words are what the probe finds likeliest. */
static void add_grid(run_page *page, int run, const cli_array *values, size_t first_state,
                     run_grid grid) {
    const run_example *example = &page->runs[run].example;
    if (values->count == 0 || example->tokens == NULL) return;
    const size_t layers = (size_t)values->shape[0], count_all = (size_t)values->shape[1];
    const size_t shown = count_all < COLUMNS_SHOWN ? count_all : COLUMNS_SHOWN;
    grid.run = run;
    grid.columns = token_names(example->tokens, shown);
    grid.rows = json_array();
    grid.values = json_array();
    grid.words = json_array();
    for (size_t layer = layers; layer-- > 0;) {
        json_t *words = json_array(), *numbers = json_array();
        for (size_t position = 0; position < shown; position++) {
            const size_t place = layer * count_all + position;
            (void)json_array_append_new(words,
                                        word_at(example->lens, layer + first_state, position));
            (void)json_array_append_new(
                numbers, cli_json_real(cli_element(values->data, values->type, place)));
        }
        (void)json_array_append_new(grid.rows, state_name(page, run, layer + first_state));
        (void)json_array_append_new(grid.values, numbers);
        (void)json_array_append_new(grid.words, words);
    }
    cli_run_grid(page, &grid);
    json_decref(grid.columns);
    json_decref(grid.rows);
    json_decref(grid.values);
    json_decref(grid.words);
}

static void add_lens(run_page *page, int run) {
    add_grid(page, run, &page->runs[run].example.max_probability, 0,
             (run_grid){.file = "lens",
                        .title = "What the probe would say, layer by layer",
                        .caption = "The likeliest token by the probe, of a causal model the next "
                                   "one, for the first tokens of the first window; the colour is "
                                   "its probability.",
                        .axis = "probability",
                        .row_axis = "after layer"});
}

static void add_moves(run_page *page, int run) {
    add_grid(page, run, &page->runs[run].example.tv, 1,
             (run_grid){.file = "lens_tv",
                        .title = "Total variation by layer and token",
                        .caption =
                            "How far the distribution at this token moved in this layer; the "
                            "text is the likeliest token after it.",
                        .axis = "total variation",
                        .row_axis = "layer"});
}

void cli_run_events(run_page *page) {
    if (!page->details) {
        cli_run_begin(page, (run_section){"Predictions, token by token", NULL, 0});
        for (int run = 0; run < page->count && page->count == 1; run++) add_lens(page, run);
        cli_run_end(page);
        return;
    }
    cli_run_begin(page, (run_section){"Saturation and single tokens",
                                      "A position is saturated when one token has nearly all "
                                      "probability and its distribution hardly moves.",
                                      0});
    for (int run = 0; run < page->count; run++) {
        if (cli_run_table(&page->runs[run], "table4") == NULL) add_totals(page, run);
        if (page->count > 1) add_lens(page, run);
        add_moves(page, run);
    }
    add_token_chart(page);
    cli_run_end(page);
}
