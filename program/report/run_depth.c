/* Measures by depth: metrics.json's transitions[l] and layers[l] as lines with bands.
 *
 * A transition stands at its layer, a state at the layer that it leaves, the model's input at -1. Every
 * measure is a row of the table below. With one run, what a probe reads is drawn for both probes; with
 * two, for the probe that metrics.json names, and every run is a line. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "run_parts.h"

enum { SERIES_MOST = 4, SERIES_NAME = 128, WORDS = 480, LAYER_MOST = 1 << 20 };

static const struct section {
    const char *heading, *text;
} sections[] = {
    {"Drift of the states", "h is the state of one token before a layer, h' after it."},
    {"The space of the states",
     "Norms, and how many directions the states of one window really use."},
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
    {"Drift of the states", "drift", "depth_zero", "transitions", "relative_l2", NULL, false, true,
     "Relative change |h' - h| / |h|", "share of |h|",
     "Length of the step as a share of the state's length."},
    {NULL, "cosine", "depth", "transitions", "cosine", NULL, false, false, "Cosine of h and h'",
     "cosine", "1: the state keeps its direction."},
    {NULL, "norm_change", "depth_zero", "transitions", "norm_change", NULL, false, false,
     "Length of the step |h' - h|", "length", "In the units of the state."},
    {NULL, "max_coordinate_change", "depth_zero", "transitions", "max_coordinate_change", NULL,
     false, false, "Largest change of a coordinate", "change", "In the units of the state."},
    {"The space of the states", "norm", "depth_zero", "layers", "norm", NULL, false, false,
     "Norm of the state |h|", "length", "In the units of the state."},
    {NULL, "effective_rank", "depth_zero", "layers", "effective_rank", NULL, false, true,
     "Effective rank of a window's states", "directions",
     "(sum s^2)^2 / sum s^4 over the singular values s."},
    {NULL, "mean_cosine", "depth", "layers", "mean_cosine", NULL, false, true,
     "Mean cosine of two tokens' states", "cosine",
     "1: all states of a window point the same way."},
    {NULL, "kurtosis", "depth", "layers", "kurtosis", NULL, false, false,
     "Excess kurtosis of a state's coordinates", "excess kurtosis", "0: as a normal distribution."},
    {NULL, "massive_ratio", "depth_zero", "layers", "massive_ratio", NULL, false, false,
     "Largest entry of a window's states", "median sizes",
     "In units of the median size of all entries."},
    {"What the probe reads", "entropy", "depth_zero", "layers", "entropy", NULL, true, false,
     "Entropy of p", "nats", "0: one token has all probability."},
    {NULL, "max_probability", "depth_zero", "layers", "max_probability", NULL, true, false,
     "Largest probability", "probability", "Of the likeliest token."},
    {NULL, "agreement_with_final", "depth_share", "layers", "agreement_with_final", NULL, true,
     true, "Agreement with the last state", "share of positions",
     "Positions whose likeliest token is already the last state's."},
    {NULL, "kl_to_final", "depth_zero", "layers", "kl_to_final", NULL, true, false,
     "KL divergence from the last state", "nats", "KL(p of the last state || p of this one)."},
    {NULL, "drift_l1", "depth_zero", "layers", "drift_l1", NULL, true, false,
     "Distance from the first state's p", "sum of |differences|", "At most 2."},
    {"How the distributions move", "tv", "depth_zero", "transitions", "tv", NULL, true, true,
     "Total variation |p' - p|_1 / 2", "total variation",
     "Between 0 and 1; W1 under Hamming cost is the same number."},
    {NULL, "kl", "depth_zero", "transitions", "kl", NULL, true, false, "KL(p' || p)", "nats",
     "At least 2 TV squared."},
    {NULL, "js", "depth_zero", "transitions", "js", NULL, true, false, "Jensen-Shannon divergence",
     "nats", "Between TV squared / 2 and log 2."},
    {NULL, "entropy_change", "depth", "transitions", "entropy_change", NULL, true, false,
     "Change of entropy", "nats", "Below 0: the layer sharpens the distribution."},
    {NULL, "top1", "depth_share", "transitions", "top1", NULL, true, false,
     "The likeliest token stays", "share of transitions", "Top 1 of p is top 1 of p'."},
    {NULL, "top5", "depth_share", "transitions", "top5", NULL, true, false, "Overlap of the top 5",
     "share of 5", "Mean share of the 5 likeliest that stay."},
    {NULL, "top10", "depth_share", "transitions", "top10", NULL, true, false,
     "Overlap of the top 10", "share of 10", "Mean share of the 10 likeliest that stay."},
    {NULL, "top100", "depth_share", "transitions", "top100", NULL, true, false,
     "Overlap of the top 100", "share of 100", "Mean share of the 100 likeliest that stay."},
    {NULL, "spearman", "depth", "transitions", "spearman", NULL, true, false,
     "Rank correlation of p and p'", "Spearman's rho", "Over the whole vocabulary."},
    {"Logits", "max_logit_change", "depth_zero", "transitions", "max_logit_change",
     "logit_range_half", false, false, "Largest change of a logit, and half of the range", "logits",
     "max |z' - z|, and (max - min) / 2 of z' - z."},
    {NULL, "logit_correlation", "depth", "transitions", "logit_correlation", NULL, true, false,
     "Correlation of z and z'", "Pearson's r", "Over the vocabulary."},
    {NULL, "effective_temperature", "depth_zero", "transitions", "effective_temperature", NULL,
     true, false, "Effective temperature 1 / sd(z)", "1 / logits",
     "Of the state before the layer, whose logits are z."},
    {"Bounds and their tightness", "bounds", "bounds", "transitions", "bound_ratio",
     "bound_ratio_sharp", false, false, "Share of the bound that is used",
     "share of the bound (log scale)",
     "1, the dotted line, would be all of it; above it the bound would be broken."},
    {"Alignment", "alignment", "power_law", "transitions", "alignment", NULL, true, true,
     "Alignment residual R", "R, logits (log scale)", "What is left of the change of logits."},
    {NULL, "alignment_per_sqrt_vocabulary", "depth_zero", "transitions",
     "alignment_per_sqrt_vocabulary", NULL, true, false, "R over the root of the vocabulary",
     "logits / root of the vocabulary", "The unit of the paper's tables 1 and 3."},
    {NULL, "alignment_rms", "depth_zero", "transitions", "alignment_rms", NULL, true, false,
     "Root mean square of what is left", "logits",
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
    const json_t *model = json_object_get(page->runs[0].manifest, "model");
    const char *head = json_string_value(json_object_get(model, "head"));
    if (raw) return "raw probe";
    if (head != NULL && strcmp(head, "none") == 0) return "probe by the embeddings";
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

int cli_run_layer(const char *part, const json_t *entry, size_t index) {
    const json_t *layer = json_object_get(entry, "layer");
    const json_int_t number = json_is_integer(layer) ? json_integer_value(layer) : -1;
    const int from = number >= 0 && number < LAYER_MOST ? (int)number : (int)index;
    return from - (strcmp(part, "layers") == 0);
}

static int layer_of(const run_measure *of, const series *line, size_t index) {
    return cli_run_layer(of->part, json_array_get(line->states, index), index);
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

/* Least squares of log R on log n: R = c n^exponent, n = layer + 1 being how many layers are passed, that one included.
 * NaN with fewer than 2 layers. */
static double exponent_of(const run_measure *of, const series *line) {
    double n = 0, x = 0, y = 0, xx = 0, xy = 0;
    for (size_t layer = 0; layer < json_array_size(line->states); layer++) {
        const double mean = cli_run_number(figure_at(line, layer), "mean");
        if (!(mean > 0)) continue;
        const double a = log(layer_of(of, line, layer) + 1), b = log(mean);
        n += 1;
        x += a;
        y += b;
        xx += a * a;
        xy += a * b;
    }
    return (n * xy - x * y) / (n * xx - x * x);
}

static const json_t *end_figure(const series *line, size_t index, const run_measure *of,
                                char layer[RUN_WORD], char value[RUN_WORD]) {
    const json_t *figure = figure_at(line, index);
    cli_run_layer_name(layer_of(of, line, index), layer);
    cli_run_mean(figure, false, value);
    return figure;
}

/* "Mean 9.69 [9.36, 10.3] at layer 0, 0.62 at layer 3; least 0.55 at layer 2." of a line. */
static void describe_line(const run_measure *of, const series *line, char words[WORDS]) {
    const size_t count = json_array_size(line->states);
    char layers[4][RUN_WORD], values[4][RUN_WORD];
    size_t most = 0, least = 0;
    double means[4];
    for (size_t index = 0; index < count; index++) {
        const double mean = cli_run_number(figure_at(line, index), "mean");
        if (!isfinite(mean)) continue;
        if (!(mean <= cli_run_number(figure_at(line, most), "mean"))) most = index;
        if (!(mean >= cli_run_number(figure_at(line, least), "mean"))) least = index;
    }
    const size_t ends[4] = {0, count - 1, most, least};
    for (int end = 0; end < 4; end++)
        means[end] =
            cli_run_number(end_figure(line, ends[end], of, layers[end], values[end]), "mean");
    int used = snprintf(words, WORDS, "mean %s at %s", values[0], layers[0]);
    if (count > 1)
        used += snprintf(words + used, WORDS - (size_t)used, ", %s at %s", values[1], layers[1]);
    static const char *const names[2] = {"most", "least"};
    for (int end = 2; end < 4; end++)
        if (ends[end] > 0 && ends[end] + 1 < count && isfinite(means[end]))
            used += snprintf(words + used, WORDS - (size_t)used, "; %s %s at %s", names[end - 2],
                             values[end], layers[end]);
    const double exponent =
        strcmp(of->figure, "power_law") == 0 ? exponent_of(of, line) : (double)NAN;
    if (isfinite(exponent))
        used += snprintf(words + used, WORDS - (size_t)used,
                         "; the dashed line, the power law that fits the means best (least squares "
                         "of logarithms), goes like the number of layers passed, 1 at layer 0, to "
                         "the power %.3f",
                         exponent);
    (void)snprintf(words + used, WORDS - (size_t)used, ".");
}

/* What the lines do, one after another. */
static void describe(const run_measure *of, const series *lines, int count,
                     char words[SERIES_MOST * WORDS]) {
    size_t used = 0;
    words[0] = '\0';
    for (int line = 0; line < count; line++) {
        char one[WORDS];
        describe_line(of, &lines[line], one);
        const int length = count == 1
                               ? snprintf(words, SERIES_MOST * WORDS, "%s", one)
                               : snprintf(words + used, SERIES_MOST * WORDS - used, "%s%s: %s",
                                          line > 0 ? " " : "", lines[line].name, one);
        used += length > 0 ? (size_t)length : 0;
        if (used >= SERIES_MOST * WORDS) return;
    }
    if (count == 1) words[0] = 'M';
}

/* Whether every mean of every line is one number, over more than one layer. */
static bool is_constant(const series *lines, int count, double *value) {
    size_t points = 0;
    for (int line = 0; line < count; line++)
        for (size_t layer = 0; layer < json_array_size(lines[line].states); layer++) {
            const json_t *figure = figure_at(&lines[line], layer);
            const double mean = cli_run_number(figure, "mean"), p5 = cli_run_number(figure, "p5");
            if (!isfinite(mean)) continue;
            if (points == 0) *value = mean;
            if (mean < *value || mean > *value || p5 < mean || cli_run_number(figure, "p95") > mean)
                return false;
            points++;
        }
    return points > 1;
}

static void add_measure(run_page *page, const run_measure *of, const series *lines, int count) {
    static const char *const heading[] = {"series", "layer", "mean", "sd",       "median",
                                          "p5",     "p95",   "n",    "95% from", "to"};
    enum { COLUMNS = sizeof heading / sizeof heading[0], CAPTION = SERIES_MOST * WORDS + 256 };
    json_t *points = json_array();
    cli_cells *cells = cli_cells_new(COLUMNS, heading);
    for (int line = 0; line < count; line++)
        for (size_t layer = 0; layer < json_array_size(lines[line].states); layer++)
            add_point(points, cells, &lines[line], layer_of(of, &lines[line], layer),
                      figure_at(&lines[line], layer));
    char words[SERIES_MOST * WORDS], caption[CAPTION], alternative[CAPTION];
    describe(of, lines, of->second == NULL && page->count == 1 ? 1 : count, words);
    (void)snprintf(caption, sizeof caption, "%s %s", of->caption, words);
    describe(of, lines, count, words);
    (void)snprintf(alternative, sizeof alternative, "Lines by layer, %s. %s", of->title, words);
    cli_run_figure(page, of->file,
                   (cli_figure){of->figure, of->title, json_pack("{s:o}", "points", points),
                                caption, alternative, cli_cells_table(cells, of->title), of->axis,
                                of->file});
    cli_cells_free(cells);
}

static const char *text_of(const char *heading) {
    for (size_t row = 0; row < sizeof sections / sizeof sections[0]; row++)
        if (strcmp(sections[row].heading, heading) == 0) return sections[row].text;
    return NULL;
}

/* The figures of one section among the details, or of all sections among what one looks at first. */
static void add_figures(run_page *page, const char *section) {
    const char *heading = NULL;
    for (size_t row = 0; row < cli_run_measure_count; row++) {
        const run_measure *of = &cli_run_measures[row];
        series lines[SERIES_MOST];
        double value = 0;
        if (of->section != NULL) heading = of->section;
        if (of->first == page->details) continue;
        if (section != NULL && strcmp(section, heading) != 0) continue;
        const int count = find_series(page, of, lines);
        if (count == 0) continue;
        if (is_constant(lines, count, &value))
            cli_run_leave_out(page, of->title, of->file, value);
        else
            add_measure(page, of, lines, count);
    }
}

void cli_run_depth(run_page *page) {
    if (!page->details) {
        cli_run_begin(page,
                      (run_section){"Layer by layer",
                                    "Lines are medians, or means where they are shares; bands "
                                    "hold 90 % of the positions (of the windows where a window "
                                    "is one number), of shares the 95 % interval.",
                                    3});
        add_figures(page, NULL);
        cli_run_end(page);
        return;
    }
    for (size_t row = 0; row < sizeof sections / sizeof sections[0]; row++) {
        const char *heading = sections[row].heading;
        cli_run_begin(page, (run_section){heading, text_of(heading), 3});
        add_figures(page, heading);
        cli_run_end(page);
    }
}
