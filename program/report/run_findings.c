/* What a run found, as named texts for sentences: every function looks at one part of the folder and tells what it bears
 * out. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run_parts.h"

enum { NAME = 64, LIST = 240, KINDS = 16 };

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

/* A mean and the ends of its interval. */
typedef struct spread {
    double numbers[3];
} spread;

static spread spread_of(const json_t *figure) {
    return (spread){
        {cli_run_number(figure, "mean"), cli_run_interval(figure, 0), cli_run_interval(figure, 1)}};
}

static int by_mean(const void *a, const void *b) {
    const double one = ((const spread *)a)->numbers[0], other = ((const spread *)b)->numbers[0];
    return one < other ? -1 : one > other;
}

/* The middle one of the finite means, which are sorted. Between two, the ends are halfway as well: the half of a sum is
 * no wider than that, whatever the two have in common. */
static void tell_middle(json_t *facts, const char *name, spread *values, size_t count) {
    char word[RUN_WORD];
    double numbers[3];
    if (count == 0) return;
    qsort(values, count, sizeof *values, by_mean);
    const spread *low = &values[(count - 1) / 2], *high = &values[count / 2];
    for (int index = 0; index < 3; index++)
        numbers[index] = (low->numbers[index] + high->numbers[index]) / 2;
    cli_run_between(numbers, false, word);
    tell(facts, name, word);
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
    spread *means = cli_noted(calloc(drift.count + 1, sizeof *means));
    size_t count = 0;
    if (most == drift.count || means == NULL) {
        free(means);
        return;
    }
    for (size_t index = 0; index < drift.count; index++)
        if (isfinite(mean_at(&drift, index))) means[count++] = spread_of(entry(&drift, index));
    tell_mean(facts, "drift", entry(&drift, most));
    tell_layer(facts, "drift_layer", &drift, most);
    if (count > 1) tell_middle(facts, "drift_middle", means, count);
    free(means);
}

/* The layer from which on at least half of the positions agree with the last state. */
static void find_agreement(const run_folder *run, json_t *facts) {
    const depth of = depth_of(run->metrics, "layers", "agreement_with_final");
    run_part part;
    const bool ends = !cli_run_part_of(run, &part) || part.last + 1 == part.layers;
    size_t from = of.count;
    while (from > 0 && mean_at(&of, from - 1) >= 0.5) from--;
    if (from == 0 || from == of.count) return;
    if (from + 1 == of.count && ends) {
        tell_share(facts, "late_share", entry(&of, from - 1));
        return;
    }
    tell_layer(facts, "settled_layer", &of, from);
    tell_share(facts, "settled_share", entry(&of, from));
    tell_share(facts, "unsettled_share", entry(&of, from - 1));
}

/* What a measure does from its first figure to its last. */
typedef struct trend {
    const char *up, *down, *same;
    const char *within; /* intervals overlap: nothing is told apart */
} trend;

/* By intervals that do not overlap; one window has none, whose means are told as what they are. */
static void tell_trend(json_t *facts, const char *name, const json_t *first, const json_t *last,
                       const trend *words) {
    const double from = cli_run_number(first, "mean"), to = cli_run_number(last, "mean");
    const double ends[] = {cli_run_interval(first, 0), cli_run_interval(first, 1),
                           cli_run_interval(last, 0), cli_run_interval(last, 1)};
    const bool same = !(from < to) && !(from > to);
    bool known = true;
    for (size_t end = 0; end < sizeof ends / sizeof ends[0]; end++)
        known = known && isfinite(ends[end]);
    const bool up = known ? ends[2] > ends[1] : to > from;
    const bool down = known ? ends[3] < ends[0] : to < from;
    char word[LIST];
    if (!isfinite(from) || !isfinite(to)) return;
    (void)snprintf(word, sizeof word, "%s%s",
                   up     ? words->up
                   : down ? words->down
                   : same ? words->same
                          : words->within,
                   known ? "" : " (by values without an interval)");
    tell(facts, name, word);
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
    static const trend words = {"end more alike than they begin", "end less alike than they begin",
                                "end as alike as they begin",
                                "end neither clearly more nor clearly less alike than they begin"};
    tell_trend(facts, "alike", first, last, &words);
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
    static const trend words = {"rises", "falls", "stays", "goes, within overlapping intervals,"};
    tell_trend(facts, "residual_goes", first, last, &words);
}

/* "3 of 12 layers have", "1 of 12 layers has", "1 of 1 layer has": the noun goes with `all`, the verb with `some`. */
static void tell_share_of(json_t *facts, const char *name, size_t some, size_t all,
                          const char *const words[2]) {
    char counts[2][RUN_WORD], text[3 * RUN_WORD];
    const char *noun = words[all != 1], *verb = strchr(words[some != 1], ' ');
    cli_run_count((double)some, counts[0]);
    cli_run_count((double)all, counts[1]);
    (void)snprintf(text, sizeof text, "%s of %s %.*s%s", counts[0], counts[1],
                   (int)strcspn(noun, " "), noun, verb);
    tell(facts, name, text);
}

/* ---- over heads ---- */

typedef struct heads {
    const json_t *attention;
    size_t first; /* number of the first layer */
    size_t layer, head;
    double most;
    spread *values; /* those with a finite mean, [count] */
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
            const spread found = spread_of(json_object_get(one, key));
            const double value = found.numbers[0];
            if (!isfinite(value)) continue;
            of->values[of->count++] = found;
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
        tell_share_of(facts, "sink_layers", sink_layers, json_array_size(of->attention),
                      (const char *const[]){"layer has", "layers have"});
        tell_share_of(facts, "sink_heads", sink_heads, total,
                      (const char *const[]){"head does", "heads do"});
    } else {
        tell(facts, "no_sink", "");
    }
    gather(of, "first_key_mass");
    if (of->count == 0) return;
    tell_share(facts, "sink_mass", head_figure(of, "first_key_mass"));
    tell_count(facts, "sink_layer", (double)(of->first + of->layer));
    tell_count(facts, "sink_head", (double)of->head);
}

static void find_fullest(heads *of, json_t *facts) {
    gather(of, "receiver_max");
    if (of->count < 2) return;
    tell_mean(facts, "full", head_figure(of, "receiver_max"));
    tell_middle(facts, "full_middle", of->values, of->count);
    tell_count(facts, "full_layer", (double)(of->first + of->layer));
    tell_count(facts, "full_head", (double)of->head);
}

/* The heads that have a name, counted by name in order of appearance: "5 positional, 1 local". */
static void find_names(const heads *of, json_t *facts) {
    size_t layer, head, named = 0, total = 0, kinds = 0, counts[KINDS] = {0};
    char names[KINDS][NAME], list[LIST] = "";
    const json_t *row, *one;
    json_array_foreach(of->attention, layer, row) {
        json_array_foreach(row, head, one) {
            const json_t *name = json_object_get(one, "name");
            char label[NAME];
            size_t kind = 0;
            total++;
            if (!json_is_string(name)) continue;
            cli_run_phrase(name, label, sizeof label);
            while (kind < kinds && strcmp(names[kind], label) != 0) kind++;
            if (kind == KINDS) continue;
            if (kind == kinds) memcpy(names[kinds++], label, sizeof label);
            counts[kind]++;
            named++;
        }
    }
    for (size_t kind = 0; kind < kinds; kind++) {
        const size_t used = strlen(list);
        (void)snprintf(list + used, sizeof list - used, "%s%zu %s", kind == 0 ? "" : ", ",
                       counts[kind], names[kind]);
    }
    if (named == 0) return;
    tell_share_of(facts, "named", named, total, (const char *const[]){"head has", "heads have"});
    tell(facts, "named_list", list);
}

/* The strongest induction head, where one has the name. */
static void find_induction(heads *of, json_t *facts) {
    char word[RUN_WORD];
    gather(of, "induction");
    const json_t *figure = head_figure(of, "induction");
    const json_t *name =
        json_object_get(json_array_get(json_array_get(of->attention, of->layer), of->head), "name");
    const double chance = cli_run_number(figure, "chance");
    if (of->count == 0 || !isfinite(chance) || !json_is_string(name) ||
        strcmp(json_string_value(name), "induction") != 0)
        return;
    cli_run_share(chance, word);
    tell_share(facts, "induction", figure);
    tell(facts, "induction_chance", word);
    tell_count(facts, "induction_layer", (double)(of->first + of->layer));
    tell_count(facts, "induction_head", (double)of->head);
}

static void find_heads(const json_t *metrics, json_t *facts) {
    const json_t *first = json_object_get(metrics, "first_layer");
    heads of = {.attention = json_object_get(metrics, "attention")};
    size_t layer, room = 1;
    const json_t *row;
    if (json_is_integer(first) && json_integer_value(first) > 0)
        of.first = (size_t)json_integer_value(first);
    json_array_foreach(of.attention, layer, row) room += json_array_size(row);
    of.values = cli_noted(calloc(room, sizeof *of.values));
    if (of.values == NULL) return;
    find_sinks(&of, facts);
    find_fullest(&of, facts);
    find_names(&of, facts);
    find_induction(&of, facts);
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
    char word[RUN_WORD], limits[LIST] = "";
    const json_t *thresholds = json_object_get(events, "thresholds");
    const double probability = json_number_value(json_array_get(thresholds, 0));
    const double distance = json_number_value(json_array_get(thresholds, 1));
    tell_count(facts, "transitions", total);
    if (probability > 0)
        (void)snprintf(limits, sizeof limits,
                       " (largest probability above %.6g before and after, total variation below "
                       "%.3g)",
                       probability, distance);
    tell(facts, "event_limits", limits);
    if (!(count > 0)) {
        tell(facts, "no_events", "");
        return;
    }
    cli_run_share(count / total, word);
    tell_count(facts, "events", count);
    tell(facts, "event_share", word);
    tell(facts, "event_are", count > 1 ? "are" : "is");
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
        tell_share_of(facts, "bounds_some", (size_t)broken, (size_t)checked,
                      (const char *const[]){"comparison breaks", "comparisons break"});
        cli_run_value(largest, word);
        tell(facts, "bound_ratio", word);
    } else {
        tell_count(facts, "bounds", checked);
        cli_run_share(largest, word);
        tell(facts, "bound_largest", word);
    }
}

static const char *cell_text(const run_table *table, size_t row, const char *name) {
    const size_t column = cli_run_column(table, name);
    return column == table->column_count ? NULL : table->cells[row * table->column_count + column];
}

static double cell_number(const run_table *table, size_t row, const char *name) {
    double value;
    const char *cell = cell_text(table, row, name);
    return cell != NULL && cli_number(cell, &value) ? value : (double)NAN;
}

/* A cell with the ends of its interval, where the table has them: NAME_low and NAME_high, of a perplexity those of the
 * logarithm it is made of. */
static void tell_cell(json_t *facts, const char *fact, const run_table *table, size_t row,
                      const char *name) {
    const bool grows = strcmp(name, "perplexity") == 0;
    double numbers[3] = {cell_number(table, row, name), NAN, NAN};
    char end[NAME], word[RUN_WORD];
    if (!isfinite(numbers[0])) return;
    for (int index = 0; index < 2; index++) {
        (void)snprintf(end, sizeof end, "%s_%s", grows ? "nll_per_token" : name,
                       index == 0 ? "low" : "high");
        const double value = cell_number(table, row, end);
        numbers[1 + index] = grows ? exp(value) : value;
    }
    cli_run_between(numbers, false, word);
    tell(facts, fact, word);
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
    tell(facts, "method_least", table->row_count > 2 ? " least," : "");
    tell_cell(facts, "method_tv", table, best, "output_tv");
    tell_cell(facts, "method_perplexity", table, best, "perplexity");
    tell_cell(facts, "own_perplexity", table, 0, "perplexity");
    const char *const names[] = {"own_method", "method"};
    for (size_t index = 0; index < 2; index++) {
        char label[NAME];
        const char *cell = table->cells[(index == 0 ? 0 : best) * table->column_count + column];
        cli_run_label(cell == NULL ? "" : cell, label, sizeof label);
        /* What the run's own flags make of every layer has no shorter name. */
        tell(facts, names[index],
             strcmp(label, "--method") == 0 ? "the run's own attention" : label);
    }
}

/* What most windows have, with their share where some have something else. */
static void tell_common(json_t *facts, const char *name, const char *what, double share) {
    char text[LIST], word[RUN_WORD] = "";
    if (share < 1) cli_run_share(share, word);
    (void)snprintf(text, sizeof text, "%.100s%s%s%s", what, share < 1 ? " (in " : "", word,
                   share < 1 ? " of the windows)" : "");
    tell(facts, name, text);
}

/* The state with the largest entry, in units of the median one, and where that entry is. */
static void find_massive(const run_folder *run, json_t *facts) {
    const depth of = depth_of(run->metrics, "layers", "massive_ratio");
    const run_table *table = cli_run_table(run, "massive");
    const size_t most = extreme(&of, 1);
    char word[RUN_WORD], label[NAME];
    if (most == of.count || table == NULL) return;
    const json_t *state = json_object_get(json_array_get(of.entries, most), "layer");
    for (size_t row = 0; row < table->row_count; row++) {
        const double dimension = cell_number(table, row, "dimension");
        const char *token = cell_text(table, row, "token");
        const bool here = cell_number(table, row, "state") == json_number_value(state) &&
                          cell_number(table, row, "rank") == 1;
        if (!here || !isfinite(dimension) || token == NULL) continue;
        cli_run_layer_name(layer_at(&of, most), word);
        tell_mean(facts, "massive", entry(&of, most));
        tell(facts, "massive_layer", word);
        cli_run_count(dimension, word);
        tell_common(facts, "massive_dimension", word, cell_number(table, row, "dimension_share"));
        cli_run_label(token, label, sizeof label);
        tell_common(facts, "massive_token", label, cell_number(table, row, "token_share"));
        return;
    }
}

void cli_run_findings(const run_folder *run, json_t *facts) {
    static void (*const looks[])(const json_t *, json_t *) = {
        find_moves, find_drift, find_space, find_residual, find_heads, find_events, find_bounds};
    for (size_t look = 0; look < sizeof looks / sizeof looks[0]; look++)
        looks[look](run->metrics, facts);
    find_agreement(run, facts);
    find_methods(run, facts);
    find_massive(run, facts);
}
