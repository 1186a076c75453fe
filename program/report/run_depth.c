/* Measures by depth: metrics.json's transitions[l] and layers[l] as lines with bands.
 *
 * A state stands at its own number (0 is the embedding), a transition at the state it leads to. Every
 * measure is a row of the table below. With one run, what a probe reads is drawn for both probes; with
 * two, for the probe that metrics.json names, and every run is a line. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "run_parts.h"

enum { SERIES_MOST = 4, SERIES_NAME = 128, WORDS = 512, LAYER_MOST = 1 << 20 };

static const struct section {
    const char *heading, *text;
} sections[] = {
    {"Drift of the states", "h is the state of one token after a layer. How far does it move at "
                            "every layer, and in which direction?"},
    {"The space of the states",
     "Norms, and how many directions the states of one window really use. A falling effective rank "
     "with a rising mean cosine is collapse."},
    {"What the probe reads",
     "The probe turns a state into logits z over the vocabulary and probabilities p = softmax(z): "
     "what would be said if the model stopped here."},
    {"How the distributions move", "Every transition from p to p' by several measures. Under "
                                   "Hamming cost, total variation is the transport cost W1."},
    {"Logits", "The same transitions before the softmax. Half of the range is what is left of the "
               "largest change when a shift of all logits, which changes nothing, is taken out."},
    {"Bounds and their tightness",
     "The share of the bound |p' - p|\xe2\x82\x81 \xe2\x89\xa4 w |h' - h| that a transition uses, "
     "w being the largest norm of a row of the probe, and the share of its sharp form."},
    {"Alignment",
     "R is what is left of the change of logits when one move per token and one per vocabulary "
     "entry are taken out, in the sense of the largest entry: the exact minimax."},
};

const run_measure cli_run_measures[] = {
    {"Drift of the states", "drift", "depth_zero", "transitions", "relative_l2", NULL, false,
     "Relative change |h' - h| / |h|", "Length of the step as a share of the state's length."},
    {NULL, "cosine", "depth", "transitions", "cosine", NULL, false, "Cosine of h and h'",
     "1: the state keeps its direction."},
    {NULL, "norm_change", "depth_zero", "transitions", "norm_change", NULL, false,
     "Length of the step |h' - h|", "In the units of the state."},
    {NULL, "max_coordinate_change", "depth_zero", "transitions", "max_coordinate_change", NULL,
     false, "Largest change of a coordinate",
     "One coordinate that moves far is a massive activation."},
    {"The space of the states", "norm", "depth_zero", "layers", "norm", NULL, false,
     "Norm of the state |h|", "State 0 is the embedding."},
    {NULL, "effective_rank", "depth_zero", "layers", "effective_rank", NULL, false,
     "Effective rank of a window's states", "(sum s^2)^2 / sum s^4 over the singular values s."},
    {NULL, "mean_cosine", "depth", "layers", "mean_cosine", NULL, false,
     "Mean cosine of two tokens' states", "1: all states of a window point the same way."},
    {"What the probe reads", "entropy", "depth_zero", "layers", "entropy", NULL, true,
     "Entropy of p, nats", "Falls as the model makes up its mind."},
    {NULL, "max_probability", "depth_zero", "layers", "max_probability", NULL, true,
     "Largest probability", "Of the likeliest next token."},
    {NULL, "agreement_with_final", "depth_share", "layers", "agreement_with_final", NULL, true,
     "Agreement with the last state",
     "Share of positions whose likeliest token is already the last state's, with its interval."},
    {NULL, "kl_to_final", "depth_zero", "layers", "kl_to_final", NULL, true,
     "KL divergence from the last state, nats", "KL(p of the last state || p of this one)."},
    {NULL, "drift_l1", "depth_zero", "layers", "drift_l1", NULL, true,
     "Distance from the first state's p", "In the sum of absolute differences: at most 2."},
    {"How the distributions move", "tv", "depth_zero", "transitions", "tv", NULL, true,
     "Total variation |p' - p|_1 / 2",
     "Between 0 and 1; W1 under Hamming cost is the same number."},
    {NULL, "kl", "depth_zero", "transitions", "kl", NULL, true, "KL(p' || p), nats",
     "At least 2 TV squared."},
    {NULL, "js", "depth_zero", "transitions", "js", NULL, true, "Jensen-Shannon divergence, nats",
     "Between TV squared / 2 and log 2."},
    {NULL, "entropy_change", "depth", "transitions", "entropy_change", NULL, true,
     "Change of entropy, nats", "Below 0: the layer sharpens."},
    {NULL, "top1", "depth_share", "transitions", "top1", NULL, true, "The likeliest token stays",
     "Share of transitions, with its interval."},
    {NULL, "top5", "depth_share", "transitions", "top5", NULL, true, "Overlap of the top 5",
     "Mean share of the 5 likeliest that stay, with its interval."},
    {NULL, "top10", "depth_share", "transitions", "top10", NULL, true, "Overlap of the top 10",
     "Mean share of the 10 likeliest that stay, with its interval."},
    {NULL, "top100", "depth_share", "transitions", "top100", NULL, true, "Overlap of the top 100",
     "Mean share of the 100 likeliest that stay, with its interval."},
    {NULL, "spearman", "depth", "transitions", "spearman", NULL, true,
     "Rank correlation of p and p'", "Spearman, over the whole vocabulary."},
    {"Logits", "max_logit_change", "depth_zero", "transitions", "max_logit_change",
     "logit_range_half", false, "Largest change of a logit, and half of the range",
     "max |z' - z|, and (max - min) / 2 of z' - z."},
    {NULL, "logit_correlation", "depth", "transitions", "logit_correlation", NULL, true,
     "Correlation of z and z'", "Pearson, over the vocabulary."},
    {NULL, "effective_temperature", "depth_zero", "transitions", "effective_temperature", NULL,
     true, "Effective temperature 1 / sd(z)", "Of the state that the transition leaves."},
    {"Bounds and their tightness", "bounds", "bounds", "transitions", "bound_ratio",
     "bound_ratio_sharp", false, "Share of the bound that is used",
     "1, the dotted line, would be all of it; above it the bound would be broken."},
    {"Alignment", "alignment", "alignment", "transitions", "alignment", NULL, true,
     "Alignment residual R, logits",
     "Means over windows with their intervals; the dashed line is the power law that fits best."},
    {NULL, "alignment_per_sqrt_vocabulary", "depth_zero", "transitions",
     "alignment_per_sqrt_vocabulary", NULL, true, "R over the root of the vocabulary",
     "The unit of the paper's tables 1 and 3."},
    {NULL, "alignment_rms", "depth_zero", "transitions", "alignment_rms", NULL, true,
     "Root mean square of what is left, logits",
     "The same for all entries; R is that of the largest."},
};

const size_t cli_run_measure_count = sizeof cli_run_measures / sizeof cli_run_measures[0];

/* One line of a chart. */
typedef struct series {
    const json_t *states; /* array over depth */
    bool raw;
    const char *key;
    char name[SERIES_NAME];
} series;

static const json_t *figure_at(const series *line, size_t layer) {
    const json_t *state = json_array_get(line->states, layer);
    if (line->raw) state = json_object_get(state, "raw");
    return json_object_get(state, line->key);
}

static bool has_numbers(const series *line) {
    for (size_t layer = 0; layer < json_array_size(line->states); layer++)
        if (isfinite(cli_run_number(figure_at(line, layer), "mean"))) return true;
    return false;
}

static const char *probe_name(const run_page *page, bool raw) {
    const char *probe = json_string_value(json_object_get(page->runs[0].metrics, "probe"));
    if (raw) return "raw probe";
    return probe != NULL && strcmp(probe, "raw") == 0 ? "raw probe" : "final-norm probe";
}

static void name_series(const run_page *page, const run_measure *of, int run, series *line) {
    const char *who = page->count > 1 ? cli_run_name(page, run)
                      : of->probed    ? probe_name(page, line->raw)
                                      : "median, 90 % band";
    if (of->second == NULL) {
        (void)snprintf(line->name, sizeof line->name, "%s", who);
        return;
    }
    const bool first = strcmp(line->key, of->key) == 0, bound = strcmp(of->file, "bounds") == 0;
    (void)snprintf(line->name, sizeof line->name, "%s%s%s",
                   bound ? (first ? "printed bound" : "sharp bound")
                         : (first ? "largest change" : "half of the range"),
                   page->count > 1 ? ", " : "", page->count > 1 ? who : "");
}

static int find_series(const run_page *page, const run_measure *of, series lines[SERIES_MOST]) {
    int count = 0;
    for (int run = 0; run < page->count; run++) {
        for (int kind = 0; kind < 2; kind++) {
            const bool raw = kind == 1 && of->second == NULL;
            if (kind == 1 && of->second == NULL && (!of->probed || page->count > 1)) continue;
            series line = {json_object_get(page->runs[run].metrics, of->part), raw,
                           kind == 1 && of->second != NULL ? of->second : of->key, ""};
            if (!has_numbers(&line)) continue;
            name_series(page, of, run, &line);
            lines[count++] = line;
        }
    }
    return count;
}

int cli_run_layer(const run_measure *of, const json_t *entry, size_t index) {
    const json_t *layer = json_object_get(entry, "layer");
    const json_int_t number = json_is_integer(layer) ? json_integer_value(layer) : -1;
    const int from = number >= 0 && number < LAYER_MOST ? (int)number : (int)index;
    return from + (strcmp(of->part, "transitions") == 0);
}

static int layer_of(const run_measure *of, const series *line, size_t index) {
    return cli_run_layer(of, json_array_get(line->states, index), index);
}

static void add_point(json_t *points, cli_cells *cells, const series *line, int depth,
                      const json_t *figure) {
    static const char *const names[] = {"mean", "sd", "median", "p5", "p95", "n"};
    const double lower = cli_run_interval(figure, 0), upper = cli_run_interval(figure, 1);
    json_t *point = json_pack("{s:s, s:i, s:o, s:o}", "series", line->name, "layer", depth, "lower",
                              cli_json_real(lower), "upper", cli_json_real(upper));
    cli_cell(cells, line->name);
    cli_cell_format(cells, "%d", depth);
    for (size_t index = 0; index < sizeof names / sizeof names[0]; index++) {
        const double value = cli_run_number(figure, names[index]);
        if (strcmp(names[index], "sd") != 0)
            (void)json_object_set_new(point, names[index], cli_json_real(value));
        cli_cell_number(cells, value);
    }
    cli_cell_number(cells, lower);
    cli_cell_number(cells, upper);
    (void)json_array_append_new(points, point);
}

/* "final-norm probe: 0.68 at 1, 0.2 at 12; ..." */
static void describe(const run_measure *of, const series *lines, int count, char words[WORDS]) {
    size_t used = (size_t)snprintf(words, WORDS, "Lines by layer, %s.", of->title);
    for (int line = 0; line < count && used < WORDS; line++) {
        const size_t layers = json_array_size(lines[line].states);
        const int length =
            snprintf(words + used, WORDS - used, " %s: mean %.3g at layer %d, %.3g at layer %d.",
                     lines[line].name, cli_run_number(figure_at(&lines[line], 0), "mean"),
                     layer_of(of, &lines[line], 0),
                     cli_run_number(figure_at(&lines[line], layers - 1), "mean"),
                     layer_of(of, &lines[line], layers - 1));
        used += length > 0 ? (size_t)length : 0;
    }
}

static void add_measure(run_page *page, const run_measure *of, const series *lines, int count) {
    static const char *const heading[] = {"series", "layer", "mean", "sd",       "median",
                                          "p5",     "p95",   "n",    "95% from", "to"};
    enum { COLUMNS = sizeof heading / sizeof heading[0] };
    json_t *points = json_array();
    cli_cells *cells = cli_cells_new(COLUMNS, heading);
    for (int line = 0; line < count; line++)
        for (size_t layer = 0; layer < json_array_size(lines[line].states); layer++)
            add_point(points, cells, &lines[line], layer_of(of, &lines[line], layer),
                      figure_at(&lines[line], layer));
    char words[WORDS];
    describe(of, lines, count, words);
    cli_run_figure(page, of->file,
                   (cli_figure){of->figure, of->title, json_pack("{s:o}", "points", points),
                                of->caption, words, cli_cells_table(cells, of->title)});
    cli_cells_free(cells);
}

/* Least squares of log R on log layer: R = c layer^exponent. NaN with fewer than 2 layers. */
static double exponent_of(const run_measure *of, const series *line) {
    double n = 0, x = 0, y = 0, xx = 0, xy = 0;
    for (size_t layer = 0; layer < json_array_size(line->states); layer++) {
        const double mean = cli_run_number(figure_at(line, layer), "mean");
        if (!(mean > 0)) continue;
        const double a = log(layer_of(of, line, layer)), b = log(mean);
        n += 1;
        x += a;
        y += b;
        xx += a * a;
        xy += a * b;
    }
    return (n * xy - x * y) / (n * xx - x * x);
}

static void say_exponents(run_page *page, const run_measure *of, const series *lines, int count) {
    for (int line = 0; line < count; line++)
        cli_run_say(page,
                    "%s: over all layers R goes like layer^%.3f (least squares of the logarithms "
                    "of the means; 1 is linear growth, below 1 sublinear, below 0 a fall).",
                    lines[line].name, exponent_of(of, &lines[line]));
}

static void begin_section(run_page *page, const char *heading) {
    cli_report_section(page->report, heading);
    for (size_t row = 0; row < sizeof sections / sizeof sections[0]; row++)
        if (strcmp(sections[row].heading, heading) == 0)
            cli_report_text(page->report, sections[row].text);
}

void cli_run_depth(run_page *page) {
    const char *heading = NULL, *open = NULL;
    for (size_t row = 0; row < cli_run_measure_count; row++) {
        const run_measure *of = &cli_run_measures[row];
        series lines[SERIES_MOST];
        if (of->section != NULL) heading = of->section;
        const int count = find_series(page, of, lines);
        if (count == 0) continue;
        if (open != heading) {
            if (open != NULL) cli_report_grid_end(page->report);
            begin_section(page, heading);
            if (strcmp(of->file, "alignment") == 0) say_exponents(page, of, lines, count);
            cli_report_grid_begin(page->report, 2);
            open = heading;
        }
        add_measure(page, of, lines, count);
    }
    if (open != NULL) cli_report_grid_end(page->report);
}
