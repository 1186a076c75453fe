/* Attention by layer and head: metrics.json's attention[l][h] as heat maps, one a measure, and the
 * patterns of the example as small multiples.
 *
 * Two runs: a map each and the difference, second less first, where their heads correspond. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "run_parts.h"

/* 144 maps of 96 x 96; packed, at worst 1.3 MB of a page. */
enum { LABEL = 96, LEVELS_MOST = 144 * 96 * 96 };

static const struct measure {
    const char *key, *figure, *title, *axis, *caption;
    bool first; /* drawn before anything is unfolded */
} measures[] = {
    {"first_key_mass", "heads_share", "Mass on the first key", "share of mass (root scale)",
     "Mean weight of the first key.", true},
    {"receiver_max", "heads", "Fullest key", "even shares (root scale)",
     "Mass that the fullest key receives, in units of an even share.", true},
    {"sink_rate", "heads_share", "Sink rate", "share of windows (root scale)",
     "Share of windows whose first key receives more than 0.3 of the mass.", false},
    {"gini", "heads_share", "Gini coefficient of received mass", "Gini coefficient (root scale)",
     "0: every key receives the same; 1: one has all.", false},
    {"row_entropy", "heads", "Entropy of a row", "nats (root scale)",
     "How widely a query looks, on average.", false},
    {"max_weight", "heads_share", "Largest weight of a row", "weight (root scale)",
     "1: every query looks at one key.", false},
    {"support", "heads", "Keys with weight", "keys (root scale)",
     "How many keys a query gives weight to, on average.", false},
    {"previous_token", "heads_share", "Weight on the token before", "weight (root scale)",
     "Previous token heads have much of it.", false},
    {"duplicate_token", "heads_share", "Weight on the same token elsewhere", "weight (root scale)",
     "On other places of the query's token.", false},
    {"induction", "heads_share", "Weight behind another copy", "weight (root scale)",
     "On keys that follow another place of the query's token: induction.", false},
    {"positional", "heads_share", "Share explained by the offset", "share of variance (root scale)",
     "1: weights depend on the distance alone.", false},
    {"local", "heads_share", "Weight within 7 tokens", "weight (root scale)",
     "Of rows that see more.", false},
    {"nop_sink", "heads_share", "Sink of small value", "score (root scale)",
     "The fullest key has a small value: the head does little.", false},
    {"broadcast_sink", "heads_share", "Sink of full value", "score (root scale)",
     "The fullest key's value is as large as others', and all get it.", false},
    {"value_ratio", "heads", "Value at the sink", "median norms (root scale)",
     "Norm of the fullest key's value over the median of the others'.", false},
    {"distance", "heads", "Mean distance", "tokens (root scale)", "Of query and key, by weight.",
     false},
};

static const json_t *figure_at(const run_page *page, int run, size_t layer, size_t head,
                               const char *key) {
    const json_t *attention = json_object_get(page->runs[run].metrics, "attention");
    return json_object_get(json_array_get(json_array_get(attention, layer), head), key);
}

/* The number of the first layer that was measured. */
static size_t first_layer(const run_page *page, int run) {
    const json_t *first = json_object_get(page->runs[run].metrics, "first_layer");
    return json_is_integer(first) && json_integer_value(first) > 0
               ? (size_t)json_integer_value(first)
               : 0;
}

static size_t count_layers(const run_page *page, int run) {
    return json_array_size(json_object_get(page->runs[run].metrics, "attention"));
}

static size_t count_heads(const run_page *page, int run, size_t layer) {
    return json_array_size(
        json_array_get(json_object_get(page->runs[run].metrics, "attention"), layer));
}

/* Mean and interval of one head, of `run` or (run 2) of the difference. */
static void head_numbers(const run_page *page, int run, size_t layer, size_t head, const char *key,
                         double numbers[3]) {
    const json_t *figure = figure_at(page, run == 1 ? 1 : 0, layer, head, key);
    numbers[0] = cli_run_number(figure, "mean");
    numbers[1] = cli_run_interval(figure, 0);
    numbers[2] = cli_run_interval(figure, 1);
    if (run == 2) cli_run_difference(figure, figure_at(page, 1, layer, head, key), numbers);
}

/* Where a map has its ends. */
typedef struct extremes {
    double least, most;
    size_t layer, head; /* of the largest */
    size_t count;
} extremes;

static void widen(extremes *ends, double value, size_t layer, size_t head) {
    ends->count++;
    if (value < ends->least) ends->least = value;
    if (!(value > ends->most)) return;
    ends->most = value;
    ends->layer = layer;
    ends->head = head;
}

static json_t *map_cells(const run_page *page, int run, const char *key, extremes *ends) {
    json_t *cells = json_array();
    const int source = run == 1 ? 1 : 0;
    *ends = (extremes){.least = INFINITY, .most = -INFINITY};
    for (size_t index = 0; index < count_layers(page, source); index++) {
        const size_t layer = index + first_layer(page, source);
        for (size_t head = 0; head < count_heads(page, source, index); head++) {
            double numbers[3];
            head_numbers(page, run, index, head, key, numbers);
            if (!isfinite(numbers[0])) continue;
            widen(ends, numbers[0], layer, head);
            json_t *cell = json_pack("{s:i, s:i, s:f, s:o, s:o}", "layer", (int)layer, "head",
                                     (int)head, "value", numbers[0], "lower",
                                     cli_json_real(numbers[1]), "upper", cli_json_real(numbers[2]));
            if (run < 2) {
                const json_t *n = json_object_get(figure_at(page, run, index, head, key), "n");
                (void)json_object_set(cell, "n", (json_t *)n);
            }
            (void)json_array_append_new(cells, cell);
        }
    }
    return cells;
}

static cli_cells *map_table(const run_page *page, int run, const char *key) {
    const int source = run == 1 ? 1 : 0;
    const size_t layers = count_layers(page, source);
    size_t heads = 0;
    for (size_t layer = 0; layer < layers; layer++)
        if (count_heads(page, source, layer) > heads) heads = count_heads(page, source, layer);
    cli_cells *cells = cli_cells_new(heads + 1, NULL);
    cli_cell(cells, "layer");
    for (size_t head = 0; head < heads; head++) cli_cell_format(cells, "head %zu", head);
    for (size_t layer = 0; layer < layers; layer++) {
        cli_cell_format(cells, "%zu", layer + first_layer(page, source));
        for (size_t head = 0; head < heads; head++) {
            double numbers[3];
            head_numbers(page, run, layer, head, key, numbers);
            cli_cell_number(cells, numbers[0]);
        }
    }
    return cells;
}

static void add_map(run_page *page, int run, const struct measure *of) {
    char title[2 * LABEL], words[6 * LABEL], caption[3 * LABEL], ends[2][RUN_WORD];
    extremes found;
    json_t *cells = map_cells(page, run, of->key, &found);
    cli_run_value(found.least, ends[0]);
    cli_run_value(found.most, ends[1]);
    (void)snprintf(title, sizeof title, "%s%s%s", of->title, page->count > 1 ? ": " : "",
                   page->count == 1 ? ""
                   : run == 2       ? "second less first"
                                    : cli_run_name(page, run));
    if (found.count > 1)
        (void)snprintf(caption, sizeof caption, "%s From %s to %s, most in layer %zu, head %zu.",
                       of->caption, ends[0], ends[1], found.layer, found.head);
    else
        (void)snprintf(caption, sizeof caption, "%s %s in layer %zu, head %zu.", of->caption,
                       ends[1], found.layer, found.head);
    (void)snprintf(words, sizeof words, "Heat map by layer and head, %s. %s", title, caption);
    cli_cells *table = map_table(page, run, of->key);
    cli_run_figure(page, of->key,
                   (cli_figure){run == 2 ? "heads_difference" : of->figure, title,
                                json_pack("{s:o}", "cells", cells), caption, words,
                                cli_cells_table(table, title), run == 2 ? "difference" : of->axis,
                                of->key});
    cli_cells_free(table);
}

/* ---- names ---- */

static const json_t *name_at(const run_page *page, int run, size_t layer, size_t head) {
    const json_t *name = figure_at(page, run, layer, head, "name");
    return json_is_string(name) ? name : NULL;
}

static bool has_names(const run_page *page, int run) {
    for (size_t layer = 0; layer < count_layers(page, run); layer++)
        for (size_t head = 0; head < count_heads(page, run, layer); head++)
            if (name_at(page, run, layer, head) != NULL) return true;
    return false;
}

/* The score that a name is about has the name's words for its key. */
static void score_of(const run_page *page, int run, size_t layer, size_t head, double numbers[3]) {
    char key[LABEL];
    (void)snprintf(key, sizeof key, "%s", json_string_value(name_at(page, run, layer, head)));
    for (char *at = key; *at != '\0'; at++)
        if (*at == ' ') *at = '_';
    const json_t *figure = figure_at(page, run, layer, head, key);
    numbers[0] = cli_run_number(figure, "mean");
    numbers[1] = cli_run_interval(figure, 0);
    numbers[2] = cli_run_interval(figure, 1);
}

static void add_names(run_page *page, int run) {
    static const char *const heading[] = {"layer", "head", "name", "score", "95% from", "to"};
    json_t *list = json_array();
    cli_cells *table = cli_cells_new(sizeof heading / sizeof heading[0], heading);
    size_t named = 0, total = 0;
    for (size_t index = 0; index < count_layers(page, run); index++) {
        const size_t layer = index + first_layer(page, run);
        for (size_t head = 0; head < count_heads(page, run, index); head++, total++) {
            double numbers[3] = {NAN, NAN, NAN};
            char label[LABEL];
            const json_t *name = name_at(page, run, index, head);
            if (name != NULL) {
                cli_run_phrase(name, label, sizeof label);
                score_of(page, run, index, head, numbers);
                cli_cell_format(table, "%zu", layer);
                cli_cell_format(table, "%zu", head);
                cli_cell(table, label);
                for (int number = 0; number < 3; number++) cli_cell_number(table, numbers[number]);
                named++;
            }
            (void)json_array_append_new(
                list,
                json_pack("{s:i, s:i, s:s?, s:o, s:o, s:o}", "layer", (int)layer, "head", (int)head,
                          "name", name == NULL ? NULL : label, "score", cli_json_real(numbers[0]),
                          "lower", cli_json_real(numbers[1]), "upper", cli_json_real(numbers[2])));
        }
    }
    char title[RUN_TITLE], words[2 * LABEL];
    cli_run_title(page, run, "What heads do", title);
    (void)snprintf(words, sizeof words,
                   "Map by layer and head of names: %zu of %zu heads have one.", named, total);
    cli_run_figure(
        page, "heads_named",
        (cli_figure){"heads_named", title, json_pack("{s:o}", "cells", list),
                     "A head is named where the low end of its score, of one window the "
                     "score, is more than 0.3 of the way from chance to 1; the others have no "
                     "colour.",
                     words, cli_cells_table(table, "Heads with a name."), NULL, "heads_named"});
    cli_cells_free(table);
}

static bool has_measure(const run_page *page, int run, const char *key) {
    for (size_t layer = 0; layer < count_layers(page, run); layer++)
        for (size_t head = 0; head < count_heads(page, run, layer); head++)
            if (isfinite(cli_run_number(figure_at(page, run, layer, head, key), "mean")))
                return true;
    return false;
}

static bool has_measures(const run_page *page) {
    for (int run = 0; run < page->count; run++)
        if (count_layers(page, run) > 0) return true;
    return false;
}

/* One value in every head of every run, which more than one head has. */
static bool is_constant(const run_page *page, const char *key, double *value) {
    size_t count = 0;
    for (int run = 0; run < page->count; run++)
        for (size_t layer = 0; layer < count_layers(page, run); layer++)
            for (size_t head = 0; head < count_heads(page, run, layer); head++) {
                const double mean = cli_run_number(figure_at(page, run, layer, head, key), "mean");
                if (!isfinite(mean)) continue;
                if (count++ == 0) *value = mean;
                if (mean < *value || mean > *value) return false;
            }
    return count > 1;
}

/* Two maps are drawn first: of one run the names of heads, where there are any, take the place of the second; of two
 * runs one measure has three maps. */
static bool is_first(const run_page *page, size_t row) {
    return measures[row].first && (row == 0 || (page->count == 1 && !has_names(page, 0)));
}

/* Whether both runs measured layers of the same numbers, with as many heads. */
static bool heads_correspond(const run_page *page) {
    if (page->count < 2 || first_layer(page, 0) != first_layer(page, 1) ||
        count_layers(page, 0) != count_layers(page, 1))
        return false;
    for (size_t layer = 0; layer < count_layers(page, 0); layer++)
        if (count_heads(page, 0, layer) != count_heads(page, 1, layer)) return false;
    return true;
}

static void add_measures(run_page *page) {
    const bool both = heads_correspond(page);
    for (int run = 0; run < page->count; run++)
        if (has_names(page, run) && (page->count > 1) == page->details) add_names(page, run);
    for (size_t row = 0; row < sizeof measures / sizeof measures[0]; row++) {
        const struct measure *of = &measures[row];
        double value = 0;
        if (is_first(page, row) == page->details) continue;
        if (is_constant(page, of->key, &value)) {
            cli_run_leave_out(page, of->title, of->key, value);
            continue;
        }
        for (int run = 0; run < page->count; run++)
            if (has_measure(page, run, of->key)) add_map(page, run, of);
        if (both && has_measure(page, 0, of->key)) add_map(page, 2, of);
    }
}

/* ---- patterns ---- */

static json_t *labels_of(const json_t *tokens) {
    json_t *labels = json_array();
    size_t index;
    const json_t *token;
    json_array_foreach(tokens, index, token) {
        char label[LABEL];
        cli_run_token(token, label, sizeof label);
        (void)json_array_append_new(labels, json_string(label));
    }
    return labels;
}

/* sqrt, as in every heat map here: what is a tenth of the mass is a third of the scale. */
static unsigned char level_of(double weight) {
    if (!(weight > 0)) return 0;
    return (unsigned char)lround(sqrt(fmin(weight, 1)) * (CLI_MAP_LEVELS - 1));
}

/* How many pieces of a side become one cell, so that all maps of all runs together stay within the page's
 * share for them. */
static size_t choose_step(const run_page *page, size_t pieces) {
    size_t maps = 0, step = 1;
    for (int run = 0; run < page->count; run++) {
        const int64_t *shape = page->runs[run].example.patterns.shape;
        maps += (size_t)shape[0] * (size_t)shape[1];
    }
    while (step < pieces && pieces / step * (pieces / step) > LEVELS_MOST / maps) step++;
    return step;
}

/* levels [maps, cells, cells], each the largest of step x step pieces. */
static unsigned char *make_levels(const cli_array *patterns, size_t step, size_t cells) {
    const size_t pieces = (size_t)patterns->shape[2];
    const size_t maps = (size_t)patterns->shape[0] * (size_t)patterns->shape[1];
    unsigned char *levels = calloc(maps * cells, cells);
    for (size_t row = 0; levels != NULL && row < maps * pieces; row++) {
        unsigned char *to = levels + (row / pieces * cells + row % pieces / step) * cells;
        for (size_t key = 0; key < pieces; key++) {
            const unsigned char level =
                level_of(cli_element(patterns->data, patterns->type, row * pieces + key));
            if (level > to[key / step]) to[key / step] = level;
        }
    }
    return levels;
}

/* Every measure of every head of the patterns, null where there is none. */
static json_t *measures_of(const run_page *page, int run, size_t layers, size_t heads) {
    json_t *list = json_array();
    for (size_t row = 0; row < sizeof measures / sizeof measures[0]; row++) {
        if (!has_measure(page, run, measures[row].key)) continue;
        json_t *values = json_array();
        for (size_t place = 0; place < layers * heads; place++)
            (void)json_array_append_new(
                values, cli_json_real(cli_run_number(
                            figure_at(page, run, place / heads, place % heads, measures[row].key),
                            "mean")));
        (void)json_array_append_new(
            list, json_pack("{s:s, s:o}", "title", measures[row].title, "values", values));
    }
    return list;
}

static json_t *names_of(const run_page *page, int run, size_t layers, size_t heads) {
    json_t *list = json_array();
    for (size_t place = 0; place < layers * heads; place++) {
        const json_t *name = name_at(page, run, place / heads, place % heads);
        char label[LABEL];
        if (name != NULL) cli_run_phrase(name, label, sizeof label);
        (void)json_array_append_new(list, name == NULL ? json_null() : json_string(label));
    }
    return list;
}

static void add_patterns(run_page *page, int run) {
    const run_example *example = &page->runs[run].example;
    const cli_array *patterns = &example->patterns;
    if (patterns->count == 0 || example->tokens == NULL) return;
    const size_t pieces = (size_t)patterns->shape[2], step = choose_step(page, pieces);
    const size_t cells = (pieces + step - 1) / step;
    unsigned char *levels = make_levels(patterns, step, cells);
    if (levels == NULL) {
        page->code = cli_fail(page->error, CLI_EXIT_LIMIT, "there is no memory for the patterns");
        return;
    }
    char title[RUN_TITLE];
    cli_run_title(page, run, "Patterns of every head", title);
    const size_t layers = (size_t)patterns->shape[0], heads = (size_t)patterns->shape[1];
    const cli_maps maps = {title,
                           "Queries go down, keys to the right; a cell is the largest weight of "
                           "its block of tokens of "
                           "the first window, to within 0.02. Arrow keys move between heads, Enter "
                           "goes into the large "
                           "map, where arrow keys and the pointer read cells.",
                           labels_of(example->tokens),
                           measures_of(page, run, layers, heads),
                           names_of(page, run, layers, heads),
                           first_layer(page, run),
                           layers,
                           heads,
                           cells,
                           pieces,
                           step,
                           levels};
    cli_run_open(page);
    cli_report_maps(page->report, &maps);
    json_decref(maps.labels);
    json_decref(maps.measures);
    json_decref(maps.names);
    free(levels);
}

/* Patterns of two runs are a detail: each has a figure of its own. */
void cli_run_heads(run_page *page) {
    const bool patterns = (page->count > 1) == page->details;
    cli_run_begin(
        page, page->details
                  ? (run_section){"Heads by other measures",
                                  "A head that is chosen in one map is chosen in all of them.", 0}
                  : (run_section){"Heads",
                                  "Where the mass of the queries goes. A sink is a key, mostly "
                                  "the first, that receives far more than its share. A head "
                                  "that is chosen in one map is chosen in all of them.",
                                  0});
    for (int run = 0; patterns && run < page->count; run++) add_patterns(page, run);
    if (has_measures(page)) {
        cli_run_open(page);
        cli_report_grid_begin(page->report, page->details || page->count > 1 ? 3 : 2);
        add_measures(page);
        cli_report_grid_end(page->report);
    }
    cli_run_end(page);
}
