/* Two runs: the difference of every measure at every depth, second less first, with its interval.
 *
 *     d = b - a;   interval [d - sqrt((b - b_low)^2 + (a_high - a)^2), d + sqrt((b_high - b)^2 + (a - a_low)^2)]
 *
 * from the means a, b and the ends of their own 95 % intervals, as for independent samples: on the same
 * text the two are as a rule correlated, and the interval is then too wide rather than too narrow.
 *
 * Layers of models of one depth stand beside those of the same number. Those of unlike depths are held side by side at the
 * same share of the depth: layer i of m beside layer i (n - 1) / (m - 1) of n, to the nearest, so that first stands beside
 * first and last beside last; states are one more. What one of the runs did not measure is compared to nothing. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run_parts.h"

void cli_run_difference(const json_t *first, const json_t *second, double numbers[3]) {
    const double a = cli_run_number(first, "mean"), b = cli_run_number(second, "mean");
    const double a_low = cli_run_interval(first, 0), a_high = cli_run_interval(first, 1);
    const double b_low = cli_run_interval(second, 0), b_high = cli_run_interval(second, 1);
    numbers[0] = b - a;
    numbers[1] = b - a - hypot(b - b_low, a_high - a);
    numbers[2] = b - a + hypot(b_high - b, a - a_low);
}

/* Where the means of one measure, of those that are looked at first, lie farthest apart, in standard deviations of the
 * first run. */
typedef struct farthest {
    const run_measure *of;
    const json_t *first, *second;
    double apart;
    int layers[2];
} farthest;

enum { TOLD = 4, ANSWER = 640, UNLIKE = 320 };

typedef struct comparison {
    farthest told[TOLD +
                  1]; /* the farthest measures, farthest first; the last place is for sorting in */

    json_t *rows;     /* of the figure */
    cli_cells *cells; /* of the page's table */
    cli_text csv;
    size_t compared, known,
        separate;  /* means, those with intervals, those whose interval leaves out 0 */
    int depths[2]; /* layers of the models */
} comparison;

/* A measure is told once, at its farthest. */
static void note_farthest(comparison *to, farthest found) {
    size_t place = 0;
    while (place < TOLD && to->told[place].of != NULL && to->told[place].of != found.of) place++;
    if (to->told[place].of == found.of && to->told[place].apart >= found.apart) return;
    to->told[place] = found;
    for (; place > 0 && to->told[place - 1].apart < to->told[place].apart; place--) {
        const farthest other = to->told[place - 1];
        to->told[place - 1] = to->told[place];
        to->told[place] = other;
    }
}

static void add_row(comparison *to, const run_measure *of, const char *key, const int layers[2],
                    const json_t *first, const json_t *second) {
    double numbers[3];
    cli_run_difference(first, second, numbers);
    const double spread = cli_run_number(first, "sd");
    if (!isfinite(numbers[0])) return;
    const bool known = isfinite(numbers[1]) && isfinite(numbers[2]);
    const bool separate = numbers[1] > 0 || numbers[2] < 0;
    to->compared++;
    to->known += known;
    to->separate += separate;
    if (spread > 0 && separate && of->first && strcmp(key, of->key) == 0)
        note_farthest(
            to, (farthest){of, first, second, fabs(numbers[0]) / spread, {layers[0], layers[1]}});
    if (spread > 0)
        (void)json_array_append_new(
            to->rows, json_pack("{s:s, s:i, s:f, s:f, s:o, s:o, s:b}", "measure", key, "layer",
                                layers[0], "value", numbers[0] / spread, "difference", numbers[0],
                                "lower", cli_json_real(numbers[1]), "upper",
                                cli_json_real(numbers[2]), "separate", separate));
    cli_cell(to->cells, key);
    for (int run = 0; run < 2; run++) cli_cell_format(to->cells, "%d", layers[run]);
    cli_cell_number(to->cells, cli_run_number(first, "mean"));
    cli_cell_number(to->cells, cli_run_number(second, "mean"));
    for (int index = 0; index < 3; index++) cli_cell_number(to->cells, numbers[index]);
    (void)fprintf(to->csv.stream, "%s,%s,%d,%d", of->part, key, layers[0], layers[1]);
    const double values[] = {cli_run_number(first, "mean"), cli_run_number(second, "mean"),
                             numbers[0], numbers[1], numbers[2]};
    for (size_t index = 0; index < sizeof values / sizeof values[0]; index++)
        (void)fprintf(to->csv.stream, isfinite(values[index]) ? ",%.9g" : ",", values[index]);
    csv_line(&to->csv);
}

/* The layer of the second run that stands beside `layer` of the first. */
static int layer_beside(const comparison *to, const char *part, int layer) {
    const int states = strcmp(part, "layers") == 0;
    const int steps = to->depths[0] - 1 + states, others = to->depths[1] - 1 + states;
    if (to->depths[0] == to->depths[1] || steps < 1) return layer;
    return (2 * (layer + states) * others + steps) / (2 * steps) - states;
}

/* The entry of a layer, NULL: it was not measured. */
static const json_t *entry_of(const char *part, const json_t *entries, int layer) {
    size_t index;
    const json_t *one;
    json_array_foreach(entries, index, one) {
        if (cli_run_layer(part, one, index) == layer) return one;
    }
    return NULL;
}

static void add_key(const run_page *page, comparison *to, const run_measure *of, const char *key) {
    const json_t *first = json_object_get(page->runs[0].metrics, of->part);
    const json_t *second = json_object_get(page->runs[1].metrics, of->part);
    size_t index;
    const json_t *a;
    json_array_foreach(first, index, a) {
        const int layer = cli_run_layer(of->part, a, index);
        const int layers[2] = {layer, layer_beside(to, of->part, layer)};
        const json_t *b = entry_of(of->part, second, layers[1]);
        if (b != NULL)
            add_row(to, of, key, layers, json_object_get(a, key), json_object_get(b, key));
    }
}

static const json_t *member(const run_page *page, int run, const char *part, const char *name) {
    return json_object_get(json_object_get(page->runs[run].manifest, part), name);
}

/* A folder that does not know its model's depth measured all of it. */
static int depth_of(const run_page *page, int run) {
    const json_t *layers = member(page, run, "model", "layers");
    const json_t *moves = json_object_get(page->runs[run].metrics, "transitions");
    const size_t count = json_array_size(moves);
    if (json_is_integer(layers)) return (int)json_integer_value(layers);
    return count == 0
               ? 0
               : cli_run_layer("transitions", json_array_get(moves, count - 1), count - 1) + 1;
}

static bool same_text(const run_page *page) {
    return json_equal(json_object_get(page->runs[0].metrics, "text_sha256"),
                      json_object_get(page->runs[1].metrics, "text_sha256")) != 0;
}

/* Where the runs are of models that are not alike, what that means for the means. */
static void say_unlike(const run_page *page, const comparison *to, char text[UNLIKE]) {
    const double words[2] = {cli_run_number(page->runs[0].metrics, "vocabulary"),
                             cli_run_number(page->runs[1].metrics, "vocabulary")};
    char counts[2][RUN_WORD];
    for (int run = 0; run < 2; run++) cli_run_counted(words[run], "word", "words", counts[run]);
    (void)snprintf(
        text, UNLIKE, "%s%s",
        to->depths[0] == to->depths[1]
            ? ""
            : " The models have different numbers of layers: each layer of the first stands beside "
              "the one of the second at the same share of the depth.",
        words[0] < words[1] || words[0] > words[1] ? " Their vocabularies differ (" : "");
    if (!(words[0] < words[1]) && !(words[0] > words[1])) return;
    const size_t used = strlen(text);
    (void)snprintf(text + used, UNLIKE - used,
                   "%s and %s), on which probabilities and logits depend.", counts[0], counts[1]);
}

static void show(run_page *page, comparison *to) {
    char words[256], unlike[UNLIKE];
    if (to->compared == 0) return;
    say_unlike(page, to, unlike);
    cli_run_say(
        page,
        "Second less first: %s less %s. Of %zu means compared, %zu have an interval and %zu "
        "differ by one that leaves out 0. Intervals are those of independent samples, as a rule "
        "too wide when both runs read the same text; %s.%s",
        cli_run_name(page, 1), cli_run_name(page, 0), to->compared, to->known, to->separate,
        same_text(page) ? "these did" : "these read different texts", unlike);
    (void)snprintf(words, sizeof words,
                   "Heat map of measures by layer: difference of the two runs in standard "
                   "deviations of the first. %zu of %zu differences are separate from 0.",
                   to->separate, to->compared);
    cli_run_figure(
        page, "compare",
        (cli_figure){
            "compare", "Differences by measure and layer",
            json_pack("{s:O}", "differences", to->rows),
            "In standard deviations of the first run, so that measures can stand beside each "
            "other; 2 and more are one colour. Pale: the interval of the difference holds 0, or "
            "there is none.",
            words, cli_cells_table(to->cells, "Differences of means."),
            "standard deviations of the first run", "compare"});
    if (page->code == 0) page->code = cli_text_end(&to->csv, 0, page->error);
    if (page->code == 0) cli_run_write(page, "tables", "compare", ".csv", to->csv.text);
}

/* False where one of the runs has none. */
static bool say_perplexities(const run_page *page, char text[ANSWER]) {
    char words[2][RUN_WORD];
    for (int run = 0; run < 2; run++) {
        const json_t *metrics = page->runs[run].metrics;
        const double perplexity = cli_run_number(metrics, "perplexity");
        const json_t *nll = json_object_get(metrics, "nll_per_token");
        const double numbers[3] = {perplexity, exp(cli_run_interval(nll, 0)),
                                   exp(cli_run_interval(nll, 1))};
        if (!isfinite(perplexity)) return false;
        cli_run_between(numbers, false, words[run]);
    }
    (void)snprintf(text, ANSWER, "Perplexity a token is %s in the first and %s in the second%s.",
                   words[0], words[1], same_text(page) ? "" : ", which read different texts");
    return true;
}

/* What differs, in sentences. */
static void answer(run_page *page, comparison *to) {
    char texts[TOLD + 2][ANSWER], unlike[UNLIKE];
    cli_answer answers[TOLD + 2] = {{texts[0], "all differences", "compare"}};
    size_t count = 1;
    const char *const words =
        to->known > 0
            ? "%zu of %zu means of %.80s and %.80s differ by an interval that leaves out 0.%s"
            : "%zu of %zu means of %.80s and %.80s have an interval, which takes two windows of "
              "both: "
              "none is told apart.%s";
    say_unlike(page, to, unlike);
    if (to->compared > 0)
        (void)snprintf(texts[0], ANSWER, words, to->separate,
                       to->known > 0 ? to->known : to->compared, cli_run_name(page, 0),
                       cli_run_name(page, 1), unlike);
    else
        (void)snprintf(texts[0], ANSWER,
                       "%.80s and %.80s measured no layer that could stand side by side.%s",
                       cli_run_name(page, 0), cli_run_name(page, 1), unlike);
    if (say_perplexities(page, texts[count])) {
        answers[count] = (cli_answer){texts[count], NULL, NULL};
        count++;
    }
    for (const farthest *one = to->told; one < to->told + TOLD && one->of != NULL; one++) {
        char means[2][RUN_WORD], layer[RUN_WORD], other[RUN_WORD], apart[RUN_WORD];
        cli_run_mean(one->first, false, means[0]);
        cli_run_mean(one->second, false, means[1]);
        cli_run_layer_name(one->layers[0], layer);
        cli_run_layer_name(one->layers[1], other);
        const bool same = one->layers[0] == one->layers[1];
        cli_run_value(one->apart, apart);
        (void)snprintf(texts[count], ANSWER,
                       "%.80s is %s in the first and %s in the second at %s%s%s, %s standard "
                       "deviations of the first apart.",
                       one->of->title, means[0], means[1], layer, same ? "" : " and ",
                       same ? "" : other, apart);
        answers[count] = (cli_answer){texts[count], "its figure", one->of->file};
        count++;
    }
    cli_report_answers(page->report, "What differs", answers, count, count);
}

static void collect(const run_page *page, comparison *to) {
    (void)fputs("part,measure,layer,second_layer,first,second,difference,lower,upper\n",
                to->csv.stream);
    for (size_t row = 0; row < cli_run_measure_count; row++) {
        const run_measure *of = &cli_run_measures[row];
        add_key(page, to, of, of->key);
        if (of->second != NULL) add_key(page, to, of, of->second);
    }
}

/* What all means compare to, handed to `use`. */
static void compare(run_page *page, void (*use)(run_page *, comparison *)) {
    static const char *const heading[] = {"measure", "layer",      "second's", "first",
                                          "second",  "difference", "95% from", "to"};
    enum { COLUMNS = sizeof heading / sizeof heading[0] };
    comparison to = {.rows = json_array(), .cells = cli_cells_new(COLUMNS, heading)};
    for (int run = 0; run < 2; run++) to.depths[run] = depth_of(page, run);
    const int code = cli_text_begin(&to.csv, page->error);
    if (code != 0) page->code = code;
    if (code == 0) collect(page, &to);
    use(page, &to);
    (void)cli_text_end(&to.csv, 1, page->error);
    json_decref(to.rows);
    cli_cells_free(to.cells);
    free(to.csv.text);
}

void cli_run_compare(run_page *page) {
    if (page->count < 2 || page->details) return;
    cli_run_begin(page, (run_section){"All differences", NULL, 0});
    compare(page, show);
    cli_run_end(page);
}

void cli_run_compare_answers(run_page *page) {
    if (page->count == 2) compare(page, answer);
}
