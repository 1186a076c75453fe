/* What a run says, in sentences at the top of its page.
 *
 *     facts      name -> text, from the run's numbers; a fact that the folder does not bear out has no name
 *     sentences  one row each: words with facts in braces, and the figure that shows it
 *
 * A row is said where all its facts are known, so a fact is also the condition: `sink_layers` is there with a sink and
 * `no_sink` without. A new sentence is a row, and a fact where it needs one. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run_parts.h"

enum { TEXT = 600, SENTENCES = 40, SHOWN = 8, NAME = 40 };

/* The first of these that hold stand at the top, those after them are unfolded. */
static const struct sentence {
    const char *words, *link, *figure;
} sentences[] = {
    {"{sink_layers} of {layers} layers have a sink, a head whose first key receives more than 0.3 "
     "of "
     "the mass in most windows: {sink_heads} of {heads} heads do, most of all layer {sink_layer}, "
     "head "
     "{sink_head} with {sink_mass} of the mass.",
     "mass on the first key", "first_key_mass"},
    {"No head has a sink (more than 0.3 of the mass on the first key in most windows){no_sink}; "
     "the largest "
     "share is "
     "{sink_mass}, in layer {sink_layer}, head {sink_head}.",
     "mass on the first key", "first_key_mass"},
    {"From layer {settled_layer} on the likeliest token is that of the last layer at half of the "
     "positions or more: {settled_share} there, {unsettled_share} a layer before.",
     "agreement", "agreement_with_final"},
    {"Until the last layer the likeliest token is another one at more than half of the positions: "
     "the "
     "layer before it agrees at {late_share}.",
     "agreement", "agreement_with_final"},
    {"Predictions move most in layer {moved_layer}, by a total variation of {moved}, and least in "
     "layer "
     "{still_layer}, by {still}.",
     "total variation", "tv"},
    {"The states of one window {alike} with depth: the mean cosine of two of them is "
     "{cosine_first} at "
     "{first_state} and {cosine_last} at {last_state}.",
     "mean cosine", "mean_cosine"},
    {"A window's states span {rank_first} directions at {first_state} and {rank_last} at "
     "{last_state} "
     "(effective rank).",
     "effective rank", "effective_rank"},
    {"{events} of {transitions} transitions ({event_share}) are saturated, {peak_events} of them "
     "in "
     "layer {peak_layer}.",
     "events by layer", "saturation"},
    {"None of {transitions} transitions is saturated{no_events}.", "saturation", "lens"},
    {"Under {method} in place of {own_method} predictions change least, by a total variation of "
     "{method_tv}; perplexity goes from {own_perplexity} to {method_perplexity}.",
     "methods", "methods_perplexity"},
    {"Layer {drift_layer} changes states most, by {drift} of their length; the median layer by "
     "{drift_middle}.",
     "relative change", "drift"},
    {"The fullest key of layer {full_layer}, head {full_head} receives {full} times an even share; "
     "that "
     "of the median head {full_middle} times.",
     "fullest key", "receiver_max"},
    {"What alignment leaves, R, {residual_goes} from {residual_first} logits in layer "
     "{residual_first_layer} to {residual_last} in layer {residual_last_layer}.",
     "alignment", "alignment"},
    {"All {bounds} comparisons keep the Lipschitz bound; the largest uses {bound_largest} of it.",
     "bounds", "bounds"},
    {"{bounds_broken} of {bounds_some} comparisons break the Lipschitz bound; the largest ratio is "
     "{bound_ratio}.",
     "bounds", "bounds"},
};

static void tell(json_t *facts, const char *name, const char *text) {
    (void)json_object_set_new(facts, name, json_string(text));
}

static void tell_count(json_t *facts, const char *name, double value) {
    char word[RUN_WORD];
    if (!isfinite(value)) return;
    cli_run_count(value, word);
    tell(facts, name, word);
}

static void tell_mean(json_t *facts, const char *name, const json_t *figure) {
    char word[RUN_WORD];
    if (!isfinite(cli_run_number(figure, "mean"))) return;
    cli_run_mean(figure, false, word);
    tell(facts, name, word);
}

static void tell_share(json_t *facts, const char *name, const json_t *figure) {
    char word[RUN_WORD];
    if (!isfinite(cli_run_number(figure, "mean"))) return;
    cli_run_mean(figure, true, word);
    tell(facts, name, word);
}

/* ---- over depth ---- */

typedef struct depth {
    const json_t *entries;
    const char *part, *key;
    size_t count;
} depth;

static depth depth_of(const json_t *metrics, const char *part, const char *key) {
    const json_t *entries = json_object_get(metrics, part);
    return (depth){entries, part, key, json_array_size(entries)};
}

static const json_t *entry(const depth *of, size_t index) {
    return json_object_get(json_array_get(of->entries, index), of->key);
}

static double mean_at(const depth *of, size_t index) {
    return cli_run_number(entry(of, index), "mean");
}

static int layer_at(const depth *of, size_t index) {
    return cli_run_layer(of->part, json_array_get(of->entries, index), index);
}

static void tell_layer(json_t *facts, const char *name, const depth *of, size_t index) {
    tell_count(facts, name, layer_at(of, index));
}

/* Index of the largest (sign 1) or smallest (-1) mean; of->count where there is none. */
static size_t extreme(const depth *of, double sign) {
    size_t best = of->count;
    for (size_t index = 0; index < of->count; index++) {
        if (!isfinite(mean_at(of, index))) continue;
        if (best == of->count || sign * mean_at(of, index) > sign * mean_at(of, best)) best = index;
    }
    return best;
}

static int by_value(const void *a, const void *b) {
    const double one = *(const double *)a, other = *(const double *)b;
    return one < other ? -1 : one > other;
}

/* Of the finite ones, which are sorted. */
static double middle(double *values, size_t count) {
    qsort(values, count, sizeof *values, by_value);
    return count == 0 ? (double)NAN : (values[(count - 1) / 2] + values[count / 2]) / 2;
}

static void find_moves(const json_t *metrics, json_t *facts) {
    const depth tv = depth_of(metrics, "transitions", "tv");
    const size_t most = extreme(&tv, 1), least = extreme(&tv, -1);
    if (most == tv.count || most == least) return;
    tell_mean(facts, "moved", entry(&tv, most));
    tell_layer(facts, "moved_layer", &tv, most);
    tell_mean(facts, "still", entry(&tv, least));
    tell_layer(facts, "still_layer", &tv, least);
}

static void find_drift(const json_t *metrics, json_t *facts) {
    const depth drift = depth_of(metrics, "transitions", "relative_l2");
    const size_t most = extreme(&drift, 1);
    double *means = calloc(drift.count + 1, sizeof *means);
    size_t count = 0;
    if (most == drift.count || means == NULL) {
        free(means);
        return;
    }
    for (size_t index = 0; index < drift.count; index++)
        if (isfinite(mean_at(&drift, index))) means[count++] = mean_at(&drift, index);
    char word[RUN_WORD];
    cli_run_value(middle(means, count), word);
    tell_mean(facts, "drift", entry(&drift, most));
    tell_layer(facts, "drift_layer", &drift, most);
    if (count > 1) tell(facts, "drift_middle", word);
    free(means);
}

/* The layer from which on at least half of the positions agree with the last state. */
static void find_agreement(const json_t *metrics, json_t *facts) {
    const depth of = depth_of(metrics, "layers", "agreement_with_final");
    size_t from = of.count;
    while (from > 0 && mean_at(&of, from - 1) >= 0.5) from--;
    if (from == 0 || from == of.count) return;
    if (from + 1 == of.count) {
        tell_share(facts, "late_share", entry(&of, from - 1));
        return;
    }
    tell_layer(facts, "settled_layer", &of, from);
    tell_share(facts, "settled_share", entry(&of, from));
    tell_share(facts, "unsettled_share", entry(&of, from - 1));
}

/* How the last figure stands to the first, by intervals that do not overlap. */
static const char *how(const json_t *first, const json_t *last, const char *up, const char *down,
                       const char *same) {
    return cli_run_interval(last, 0) > cli_run_interval(first, 1)   ? up
           : cli_run_interval(last, 1) < cli_run_interval(first, 0) ? down
                                                                    : same;
}

static void find_space(const json_t *metrics, json_t *facts) {
    const depth cosine = depth_of(metrics, "layers", "mean_cosine");
    const depth rank = depth_of(metrics, "layers", "effective_rank");
    char word[RUN_WORD];
    if (cosine.count < 2) return;
    const json_t *first = entry(&cosine, 0), *last = entry(&cosine, cosine.count - 1);
    cli_run_layer_name(layer_at(&cosine, 0), word);
    tell(facts, "first_state", word);
    cli_run_layer_name(layer_at(&cosine, cosine.count - 1), word);
    tell(facts, "last_state", word);
    tell_mean(facts, "cosine_first", first);
    tell_mean(facts, "cosine_last", last);
    tell(facts, "alike",
         how(first, last, "become more alike", "become less alike", "stay as alike"));
    tell_mean(facts, "rank_first", entry(&rank, 0));
    tell_mean(facts, "rank_last", entry(&rank, rank.count - 1));
}

static void find_residual(const json_t *metrics, json_t *facts) {
    const depth of = depth_of(metrics, "transitions", "alignment");
    if (of.count < 2) return;
    const json_t *first = entry(&of, 0), *last = entry(&of, of.count - 1);
    tell_mean(facts, "residual_first", first);
    tell_mean(facts, "residual_last", last);
    tell_layer(facts, "residual_first_layer", &of, 0);
    tell_layer(facts, "residual_last_layer", &of, of.count - 1);
    tell(facts, "residual_goes", how(first, last, "rises", "falls", "goes"));
}

/* ---- over heads ---- */

typedef struct heads {
    const json_t *attention;
    size_t first; /* number of the first layer */
    size_t layer, head;
    double most;
    double *values; /* finite ones, [count] */
    size_t count;
} heads;

static const json_t *head_figure(const heads *of, const char *key) {
    return json_object_get(json_array_get(json_array_get(of->attention, of->layer), of->head), key);
}

/* The values of a measure, and where the largest is. */
static void gather(heads *of, const char *key) {
    size_t layer, head, best_layer = 0, best_head = 0;
    const json_t *row, *one;
    of->count = 0;
    of->most = -INFINITY;
    json_array_foreach(of->attention, layer, row) {
        json_array_foreach(row, head, one) {
            const double value = cli_run_number(json_object_get(one, key), "mean");
            if (!isfinite(value)) continue;
            of->values[of->count++] = value;
            if (value <= of->most) continue;
            of->most = value;
            best_layer = layer;
            best_head = head;
        }
    }
    of->layer = best_layer;
    of->head = best_head;
}

static void find_sinks(heads *of, json_t *facts) {
    size_t layer, head, sink_layers = 0, sink_heads = 0;
    const json_t *row, *one;
    gather(of, "sink_rate");
    const size_t total = of->count;
    if (total == 0) return;
    json_array_foreach(of->attention, layer, row) {
        size_t here = 0;
        json_array_foreach(row, head, one) {
            here += cli_run_number(json_object_get(one, "sink_rate"), "mean") > 0.5;
        }
        sink_layers += here > 0;
        sink_heads += here;
    }
    if (sink_heads > 0) {
        tell_count(facts, "sink_layers", (double)sink_layers);
        tell_count(facts, "sink_heads", (double)sink_heads);
    } else {
        tell(facts, "no_sink", "");
    }
    tell_count(facts, "layers", (double)json_array_size(of->attention));
    tell_count(facts, "heads", (double)total);
    gather(of, "first_key_mass");
    if (of->count == 0) return;
    tell_share(facts, "sink_mass", head_figure(of, "first_key_mass"));
    tell_count(facts, "sink_layer", (double)(of->first + of->layer));
    tell_count(facts, "sink_head", (double)of->head);
}

static void find_fullest(heads *of, json_t *facts) {
    char word[RUN_WORD];
    gather(of, "receiver_max");
    if (of->count < 2) return;
    cli_run_value(middle(of->values, of->count), word);
    tell_mean(facts, "full", head_figure(of, "receiver_max"));
    tell(facts, "full_middle", word);
    tell_count(facts, "full_layer", (double)(of->first + of->layer));
    tell_count(facts, "full_head", (double)of->head);
}

static void find_heads(const json_t *metrics, json_t *facts) {
    const json_t *first = json_object_get(metrics, "first_layer");
    heads of = {.attention = json_object_get(metrics, "attention")};
    size_t layer, room = 1;
    const json_t *row;
    if (json_is_integer(first) && json_integer_value(first) > 0)
        of.first = (size_t)json_integer_value(first);
    json_array_foreach(of.attention, layer, row) room += json_array_size(row);
    of.values = calloc(room, sizeof *of.values);
    if (of.values == NULL) return;
    find_sinks(&of, facts);
    find_fullest(&of, facts);
    free(of.values);
}

/* ---- the rest ---- */

static void find_events(const json_t *metrics, json_t *facts) {
    const json_t *events = json_object_get(metrics, "events");
    const json_t *by_layer = json_object_get(events, "by_layer"), *number;
    const double count = cli_run_number(events, "count"),
                 first = cli_run_number(metrics, "first_layer");
    double total = 0, most = 0, peak = 0;
    size_t index;
    const depth tv = depth_of(metrics, "transitions", "tv");
    for (index = 0; index < tv.count; index++)
        if (isfinite(cli_run_number(entry(&tv, index), "n")))
            total += cli_run_number(entry(&tv, index), "n");
    if (!isfinite(count) || !(total > 0)) return;
    char word[RUN_WORD];
    tell_count(facts, "transitions", total);
    if (!(count > 0)) {
        tell(facts, "no_events", "");
        return;
    }
    cli_run_share(count / total, word);
    tell_count(facts, "events", count);
    tell(facts, "event_share", word);
    json_array_foreach(by_layer, index, number) {
        if (json_number_value(number) <= most) continue;
        most = json_number_value(number);
        peak = (double)index;
    }
    if (!(most > 0)) return;
    tell_count(facts, "peak_events", most);
    tell_count(facts, "peak_layer", peak + (first > 0 ? first : 0));
}

static void find_bounds(const json_t *metrics, json_t *facts) {
    const json_t *bounds = json_object_get(metrics, "bounds");
    const double checked = cli_run_number(bounds, "checked");
    const double broken = cli_run_number(bounds, "violations");
    const double largest = cli_run_number(bounds, "largest");
    char word[RUN_WORD];
    if (!(checked > 0) || !isfinite(largest)) return;
    if (broken > 0) {
        tell_count(facts, "bounds_some", checked);
        tell_count(facts, "bounds_broken", broken);
        cli_run_value(largest, word);
        tell(facts, "bound_ratio", word);
    } else {
        tell_count(facts, "bounds", checked);
        cli_run_share(largest, word);
        tell(facts, "bound_largest", word);
    }
}

static double cell_number(const run_table *table, size_t row, const char *name) {
    const size_t column = cli_run_column(table, name);
    double value;
    const char *cell =
        column == table->column_count ? NULL : table->cells[row * table->column_count + column];
    return cell != NULL && cli_number(cell, &value) ? value : (double)NAN;
}

/* The first line is the run itself. */
static void find_methods(const run_folder *run, json_t *facts) {
    const run_table *table = cli_run_table(run, "methods");
    size_t best = 0;
    if (table == NULL || cli_run_column(table, "method") == table->column_count) return;
    for (size_t row = 1; row < table->row_count; row++) {
        const double change = cell_number(table, row, "output_tv");
        if (isfinite(change) && (best == 0 || change < cell_number(table, best, "output_tv")))
            best = row;
    }
    if (best == 0) return;
    const size_t column = cli_run_column(table, "method");
    const struct {
        const char *name, *column;
        size_t row;
    } numbers[] = {{"method_tv", "output_tv", best},
                   {"method_perplexity", "perplexity", best},
                   {"own_perplexity", "perplexity", 0}};
    for (size_t index = 0; index < sizeof numbers / sizeof numbers[0]; index++) {
        char word[RUN_WORD];
        const double value = cell_number(table, numbers[index].row, numbers[index].column);
        cli_run_value(value, word);
        if (isfinite(value)) tell(facts, numbers[index].name, word);
    }
    const char *const names[] = {"own_method", "method"};
    for (size_t index = 0; index < 2; index++) {
        char label[NAME];
        const char *cell = table->cells[(index == 0 ? 0 : best) * table->column_count + column];
        cli_run_label(cell == NULL ? "" : cell, label, sizeof label);
        tell(facts, names[index], label);
    }
}

/* ---- words ---- */

/* The words with every {fact} in its place; false where one is not known. */
static bool fill(const char *words, const json_t *facts, char text[TEXT]) {
    size_t used = 0;
    while (*words != '\0' && used + 1 < TEXT) {
        const size_t plain = strcspn(words, "{");
        used += (size_t)snprintf(text + used, TEXT - used, "%.*s", (int)plain, words);
        words += plain;
        if (*words == '\0') break;
        char name[NAME];
        const size_t length = strcspn(words, "}");
        (void)snprintf(name, sizeof name, "%.*s", (int)length - 1, words + 1);
        const char *fact = json_string_value(json_object_get(facts, name));
        if (fact == NULL || used >= TEXT) return false;
        used += (size_t)snprintf(text + used, TEXT - used, "%s", fact);
        words += length + 1;
    }
    return used < TEXT;
}

/* A run's sentences; those of the second of two stand under the first's. */
static void say_run(run_page *page, int run, const char *heading) {
    const run_folder *folder = &page->runs[run];
    char texts[SENTENCES][TEXT];
    cli_answer answers[SENTENCES];
    size_t count = 0;
    json_t *facts = json_object();
    find_moves(folder->metrics, facts);
    find_drift(folder->metrics, facts);
    find_agreement(folder->metrics, facts);
    find_space(folder->metrics, facts);
    find_residual(folder->metrics, facts);
    find_heads(folder->metrics, facts);
    find_events(folder->metrics, facts);
    find_bounds(folder->metrics, facts);
    find_methods(folder, facts);
    for (size_t row = 0; row < sizeof sentences / sizeof sentences[0]; row++)
        if (fill(sentences[row].words, facts, texts[count])) {
            answers[count] = (cli_answer){texts[count], sentences[row].link, sentences[row].figure};
            count++;
        }
    cli_report_answers(page->report, heading, answers, count, page->count == 1 ? SHOWN : 0);
    json_decref(facts);
}

void cli_run_answers(run_page *page) {
    for (int run = 0; run < page->count; run++)
        say_run(page, run, page->count == 1 ? "What this run says" : cli_run_name(page, run));
}
