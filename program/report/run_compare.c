/* Two runs: the difference of every measure at every depth, second less first, with its interval.
 *
 *     d = b - a;   interval [d - sqrt((b - b_low)^2 + (a_high - a)^2), d + sqrt((b_high - b)^2 + (a - a_low)^2)]
 *
 * from the means a, b and the ends of their own 95 % intervals, as for independent samples: on the same
 * text the two are correlated, and the interval is then too wide rather than too narrow. */
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

typedef struct comparison {
    json_t *rows;     /* of the figure */
    cli_cells *cells; /* of the page's table */
    cli_text csv;
    size_t compared, separate;
} comparison;

static void add_row(comparison *to, const run_measure *of, const char *key, int layer,
                    const json_t *first, const json_t *second) {
    double numbers[3];
    cli_run_difference(first, second, numbers);
    const double spread = cli_run_number(first, "sd");
    if (!isfinite(numbers[0])) return;
    const bool separate = numbers[1] > 0 || numbers[2] < 0;
    to->compared++;
    to->separate += separate;
    if (spread > 0)
        (void)json_array_append_new(
            to->rows, json_pack("{s:s, s:i, s:f, s:f, s:o, s:o, s:b}", "measure", key, "layer",
                                layer, "value", numbers[0] / spread, "difference", numbers[0],
                                "lower", cli_json_real(numbers[1]), "upper",
                                cli_json_real(numbers[2]), "separate", separate));
    cli_cell(to->cells, key);
    cli_cell_format(to->cells, "%d", layer);
    cli_cell_number(to->cells, cli_run_number(first, "mean"));
    cli_cell_number(to->cells, cli_run_number(second, "mean"));
    for (int index = 0; index < 3; index++) cli_cell_number(to->cells, numbers[index]);
    (void)fprintf(to->csv.stream, "%s,%s,%d", of->part, key, layer);
    const double values[] = {cli_run_number(first, "mean"), cli_run_number(second, "mean"),
                             numbers[0], numbers[1], numbers[2]};
    for (size_t index = 0; index < sizeof values / sizeof values[0]; index++)
        (void)fprintf(to->csv.stream, isfinite(values[index]) ? ",%.9g" : ",", values[index]);
    csv_line(&to->csv);
}

static void add_key(const run_page *page, comparison *to, const run_measure *of, const char *key) {
    const json_t *first = json_object_get(page->runs[0].metrics, of->part);
    const json_t *second = json_object_get(page->runs[1].metrics, of->part);
    for (size_t index = 0; index < json_array_size(first) && index < json_array_size(second);
         index++)
        add_row(to, of, key, cli_run_layer(of->part, json_array_get(first, index), index),
                json_object_get(json_array_get(first, index), key),
                json_object_get(json_array_get(second, index), key));
}

static bool same_text(const run_page *page) {
    return json_equal(json_object_get(page->runs[0].metrics, "text_sha256"),
                      json_object_get(page->runs[1].metrics, "text_sha256")) != 0;
}

static void show(run_page *page, comparison *to) {
    char words[256];
    cli_run_say(page,
                "Second less first: %s less %s. Of %zu means compared, %zu differ by an interval "
                "that leaves out 0. Intervals are those of independent samples, which are too "
                "wide when both runs read the same text; %s.",
                cli_run_name(page, 1), cli_run_name(page, 0), to->compared, to->separate,
                same_text(page) ? "these did" : "these read different texts");
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
            "other; 2 and more are one colour. Pale: the interval of the difference holds 0.",
            words, cli_cells_table(to->cells, "Differences of means."),
            "standard deviations of the first run", "compare"});
    if (page->code == 0) page->code = cli_text_end(&to->csv, 0, page->error);
    if (page->code == 0) cli_run_write(page, "tables", "compare", ".csv", to->csv.text);
}

static void compare_all(run_page *page, comparison *to) {
    (void)fputs("part,measure,layer,first,second,difference,lower,upper\n", to->csv.stream);
    for (size_t row = 0; row < cli_run_measure_count; row++) {
        const run_measure *of = &cli_run_measures[row];
        add_key(page, to, of, of->key);
        if (of->second != NULL) add_key(page, to, of, of->second);
    }
    if (to->compared > 0) {
        cli_run_begin(page, (run_section){"What differs", NULL, 0});
        show(page, to);
        cli_run_end(page);
    }
}

void cli_run_compare(run_page *page) {
    static const char *const heading[] = {"measure",    "layer",    "first", "second",
                                          "difference", "95% from", "to"};
    enum { COLUMNS = sizeof heading / sizeof heading[0] };
    if (page->count < 2 || page->details) return;
    comparison to = {.rows = json_array(), .cells = cli_cells_new(COLUMNS, heading)};
    const int code = cli_text_begin(&to.csv, page->error);
    if (code != 0) page->code = code;
    if (code == 0) compare_all(page, &to);
    (void)cli_text_end(&to.csv, 1, page->error);
    json_decref(to.rows);
    cli_cells_free(to.cells);
    free(to.csv.text);
}
