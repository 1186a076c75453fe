/* tables/: the paper's Tables 1 to 3 with what was measured beside them, drift by depth, attention by head.
 *
 *   table1   R / sqrt(V) by range of layers, mean over a range, then over windows     [TOT-84]
 *   table2   the model                                                                [TOT-67]
 *   table3   R / sqrt(V) of the last transition over windows                          [TOT-86]
 *   drift    means of every measure of a transition, ||p - p^0||_1 and its bound      [TOT-26, 89]
 *   attention  means of every head */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "window_tables.h"
#include "src/base/integers.h"
#include "src/base/program/system_program.h"

/* The last part of the model's path. */
static const char *model_name(const run *r) {
    const char *path = r->context->operands[0], *name = ota_path_name(path);
    return *name != '\0' ? name : path;
}

int run_csv_end(run *r, cli_text *csv, const char *name, int code) {
    char path[64];
    code = cli_text_end(csv, code, &r->context->error);
    (void)snprintf(path, sizeof path, "tables/%s.csv", name);
    if (code == 0) code = run_folder_write(r->context, &r->folder, path, csv->text, csv->size);
    free(csv->text);
    return code;
}

static int write_words(cli_text *csv, const char *const *words, size_t count) {
    for (size_t k = 0; k < count; k++) csv_word(csv, words[k]);
    csv_line(csv);
    return 0;
}

#define WORDS(list) list, sizeof(list) / sizeof *(list)

/* ---- tables 1 and 3: alignment ---- */

/* values [windows, parts] of R / sqrt(V). */
static int load_alignment(run *r, int probe, run_table_of *table) {
    const int code = run_table_load(r, 0, probe, COLUMN_ALIGNMENT, table);
    const double root = sqrt((double)r->facts.vocabulary);
    for (int64_t k = 0; code == 0 && k < table->windows * table->parts; k++)
        table->values[k] /= root;
    return code;
}

/* The mean over transitions first ... last - 1, window by window. */
static void mean_range(const run_table_of *table, int64_t first, int64_t last, double *out) {
    for (int64_t w = 0; w < table->windows; w++) {
        out[w] = 0;
        for (int64_t l = first; l < last; l++) out[w] += table->values[w * table->parts + l];
        out[w] /= (double)(last - first);
    }
}

static void write_figure(cli_text *csv, const ota_figure *f) {
    const double values[] = {f->mean, f->deviation, f->low, f->high, (double)f->count};
    for (size_t k = 0; k < sizeof values / sizeof *values; k++) csv_number(csv, values[k]);
}

static int write_ranges(run *r, int probe, const run_table_of *table, cli_text *csv) {
    double *means = malloc((size_t)table->windows * sizeof *means);
    int64_t first, last;
    ota_error error = {.message = ""};
    ota_status status = OTA_OK;
    if (means == NULL)
        return cli_fail(&r->context->error, CLI_EXIT_LIMIT, "there is no memory left");
    /* Ranges are the model's: of layers that were not all measured they lose some, or all. */
    const int64_t from = r->settings.first;
    for (int k = 0; ota_depth_range(k, r->settings.last, &first, &last) != 0; k++) {
        ota_figure figure;
        char text[64];
        if (last <= from) continue;
        first = ota_int_max(first, from + 1);
        mean_range(table, first - 1 - from, last - from, means);
        status = ota_figure_of(means, table->windows, 1, 0, r->settings.seed, &figure,
                               &r->context->analysis, &error);
        if (status < 0) break;
        (void)snprintf(text, sizeof text, "%" PRId64 "-%" PRId64, first, last);
        csv_word(csv, text);
        const int size = snprintf(text, sizeof text, "%.3g", figure.mean);
        if (isfinite(figure.deviation)) /* one window has none */
            (void)snprintf(text + size, sizeof text - (size_t)size, " ± %.2g", figure.deviation);
        csv_word(csv, text);
        csv_word(csv, probe == 0 ? "final_norm" : "raw");
        write_figure(csv, &figure);
        csv_line(csv);
    }
    free(means);
    return status < 0 ? cli_fail_status(r->context, status, &error) : 0;
}

/* R against depth on a log-log scale, layers counted from 1. The transition out of state 0 is left out: with a tied
 * head the embedding of a token predicts the token itself, so that step is one of its own kind. */
static void write_exponent(const run *r, int probe, const run_table_of *table, cli_text *csv) {
    ota_power_law law = {.exponent = (double)NAN, .error = (double)NAN};
    ota_trend trend = {.tau = (double)NAN};
    double depths[1024], means[1024];
    const int64_t from = r->settings.first == 0 ? 1 : 0;
    const int64_t count = ota_int_min(table->parts - from, 1024);
    for (int64_t k = 0; k < count; k++) {
        depths[k] = (double)(r->settings.first + from + k + 1);
        means[k] = 0;
        for (int64_t w = 0; w < table->windows; w++)
            means[k] += table->values[w * table->parts + from + k] / (double)table->windows;
    }
    (void)ota_power_law_of(depths, means, count, &law, &r->context->analysis, NULL);
    (void)ota_trend_of(means, count, &trend, &r->context->analysis, NULL);
    const struct {
        const char *name;
        double value, error;
    } rows[] = {{"growth exponent", law.exponent, law.error},
                {"Mann-Kendall tau", trend.tau, (double)NAN},
                {"decreases", (double)trend.decreases, (double)NAN}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        char text[64];
        (void)snprintf(text, sizeof text, "%.3g", rows[k].value);
        csv_row(csv, "wwwnnnnn", rows[k].name, isfinite(rows[k].value) ? text : "",
                probe == 0 ? "final_norm" : "raw", rows[k].value, rows[k].error, (double)NAN,
                (double)NAN, (double)law.count);
    }
}

static int write_table1(run *r) {
    const char *const words[] = {"Layer Range", model_name(r), "probe", "mean",
                                 "sd",          "low",         "high",  "n"};
    cli_text csv;
    int code = cli_text_begin(&csv, &r->context->error);
    if (code == 0) code = write_words(&csv, WORDS(words));
    for (int probe = 0; code == 0 && probe < r->probes; probe++) {
        run_table_of table;
        code = load_alignment(r, probe, &table);
        if (code == 0) code = write_ranges(r, probe, &table, &csv);
        if (code == 0) write_exponent(r, probe, &table, &csv);
        run_table_free(&table);
    }
    return run_csv_end(r, &csv, "table1", code);
}

static int summarise_last(run *r, int probe, ota_summary *summary) {
    run_table_of table;
    ota_error error = {.message = ""};
    int code = load_alignment(r, probe, &table);
    double *last = code == 0 ? malloc((size_t)table.windows * sizeof *last) : NULL;
    if (code == 0 && last == NULL)
        code = cli_fail(&r->context->error, CLI_EXIT_LIMIT, "there is no memory left");
    if (code == 0) {
        run_table_part(&table, table.parts - 1, last);
        const ota_status status =
            ota_summary_of(last, table.windows, summary, &r->context->analysis, &error);
        if (status < 0) code = cli_fail_status(r->context, status, &error);
    }
    free(last);
    run_table_free(&table);
    return code;
}

static int write_table3(run *r) {
    ota_summary s[PROBES_MOST] = {{.mean = 0}};
    cli_text csv;
    int code = cli_text_begin(&csv, &r->context->error);
    for (int probe = 0; code == 0 && probe < r->probes; probe++)
        code = summarise_last(r, probe, &s[probe]);
    const struct {
        const char *name;
        size_t offset;
    } rows[] = {{"Mean (final layer)", offsetof(ota_summary, mean)},
                {"Std Dev (final layer)", offsetof(ota_summary, deviation)},
                {"Coefficient of Variation", offsetof(ota_summary, variation)},
                {"95th Percentile", offsetof(ota_summary, p95)},
                {"99th Percentile", offsetof(ota_summary, p99)},
                {"Skewness", offsetof(ota_summary, skewness)},
                {"Kurtosis (excess)", offsetof(ota_summary, kurtosis)}};
    if (code == 0) {
        const char *const words[] = {"Statistic", model_name(r), "raw probe"};
        code = write_words(&csv, words, r->probes > 1 ? 3 : 2);
    }
    for (size_t k = 0; code == 0 && k < sizeof rows / sizeof *rows; k++) {
        csv_word(&csv, rows[k].name);
        for (int probe = 0; probe < r->probes; probe++) {
            double value;
            memcpy(&value, (const char *)&s[probe] + rows[k].offset, sizeof value);
            csv_number(&csv, value);
        }
        csv_line(&csv);
    }
    if (code == 0) {
        csv_word(&csv, "Windows");
        for (int probe = 0; probe < r->probes; probe++)
            csv_number(&csv, (double)r->text.window_count);
        csv_line(&csv);
    }
    return run_csv_end(r, &csv, "table3", code);
}

static int write_table2(run *r) {
    const ota_model_facts *f = &r->facts;
    cli_text csv;
    int code = cli_text_begin(&csv, &r->context->error);
    if (code == 0) {
        (void)fputs("Model,Parameters,Layers,Hidden,Heads,Head Dim,FFN Dim,KV Heads,Vocabulary,"
                    "Positions\n",
                    csv.stream);
        csv_row(&csv, "wnnnnnnnnn", model_name(r), (double)f->parameters, (double)f->layers,
                (double)f->width, (double)f->heads, (double)f->head_width, (double)f->inner,
                (double)f->kv_heads, (double)f->vocabulary, (double)f->positions);
    }
    return run_csv_end(r, &csv, "table2", code);
}

/* ---- drift and attention ---- */

/* min(2, ||W|| sum of the steps so far), mean over tokens, behind each transition [TOT-26]. */
static int bound_drift(run *r, double *bounds) {
    run_table_of steps;
    const int code = run_table_load(r, 0, 0, COLUMN_STEP, &steps);
    for (int64_t l = 0; code == 0 && l < steps.parts; l++) bounds[l] = 0;
    const int64_t tokens = code == 0 ? steps.windows * steps.unit : 0;
    for (int64_t t = 0; t < tokens; t++) {
        const double *window = steps.values + t / steps.unit * steps.parts * steps.unit;
        double sum = 0;
        for (int64_t l = 0; l < steps.parts; l++) {
            sum += window[l * steps.unit + t % steps.unit];
            bounds[l] += fmin(2.0, r->probe.norm * sum) / (double)tokens;
        }
    }
    run_table_free(&steps);
    return code;
}

static const run_column drift_columns[] = {COLUMN_TV,
                                           COLUMN_KL,
                                           COLUMN_JS,
                                           COLUMN_ENTROPY_CHANGE,
                                           COLUMN_TOP1,
                                           COLUMN_TOP5,
                                           COLUMN_TOP10,
                                           COLUMN_TOP100,
                                           COLUMN_SPEARMAN,
                                           COLUMN_RELATIVE_L2,
                                           COLUMN_COSINE,
                                           COLUMN_NORM_CHANGE,
                                           COLUMN_MAX_COORDINATE_CHANGE,
                                           COLUMN_MAX_LOGIT_CHANGE,
                                           COLUMN_LOGIT_RANGE_HALF,
                                           COLUMN_LOGIT_CORRELATION,
                                           COLUMN_EFFECTIVE_TEMPERATURE,
                                           COLUMN_BOUND_RATIO,
                                           COLUMN_BOUND_RATIO_SHARP,
                                           COLUMN_ALIGNMENT};
static const run_column head_columns[] = {
    COLUMN_SINK_RATE,   COLUMN_FIRST_KEY_MASS, COLUMN_RECEIVER_MAX, COLUMN_GINI,
    COLUMN_ROW_ENTROPY, COLUMN_MAX_WEIGHT,     COLUMN_SUPPORT};

enum {
    DRIFT_COLUMNS = sizeof drift_columns / sizeof *drift_columns,
    HEAD_COLUMNS = sizeof head_columns / sizeof *head_columns
};

static int load_means(run *r, const run_column *columns, int count, ota_figure **figures,
                      int64_t *parts) {
    int code = 0;
    for (int k = 0; code == 0 && k < count; k++)
        code = run_column_figures(r, 0, 0, columns[k], 1, 0, &figures[k], parts);
    return code;
}

static int write_drift(run *r) {
    ota_figure *figures[DRIFT_COLUMNS + 1] = {NULL};
    run_column columns[DRIFT_COLUMNS + 1];
    int64_t parts = 0;
    cli_text csv;
    const int64_t moves = r->settings.last - r->settings.first;
    double *bounds = malloc((size_t)moves * sizeof *bounds);
    int code = cli_text_begin(&csv, &r->context->error);
    if (bounds == NULL)
        code = cli_fail(&r->context->error, CLI_EXIT_LIMIT, "there is no memory left");
    memcpy(columns, drift_columns, sizeof drift_columns);
    columns[DRIFT_COLUMNS] = COLUMN_DRIFT;
    if (code == 0) code = load_means(r, columns, DRIFT_COLUMNS + 1, figures, &parts);
    if (code == 0) code = bound_drift(r, bounds);
    if (code == 0) {
        csv_word(&csv, "layer");
        for (int k = 0; k < DRIFT_COLUMNS; k++) csv_word(&csv, run_columns[columns[k]].name);
        csv_word(&csv, "alignment_per_sqrt_vocabulary");
        csv_word(&csv, "drift_l1");
        csv_word(&csv, "drift_bound");
        csv_line(&csv);
    }
    for (int64_t l = 0; code == 0 && l < moves; l++) {
        csv_number(&csv, (double)(r->settings.first + l));
        for (int k = 0; k < DRIFT_COLUMNS; k++) csv_number(&csv, figures[k][l].mean);
        csv_number(&csv, figures[DRIFT_COLUMNS - 1][l].mean / sqrt((double)r->facts.vocabulary));
        csv_number(&csv, figures[DRIFT_COLUMNS][l + 1].mean);
        csv_number(&csv, bounds[l]);
        csv_line(&csv);
    }
    for (int k = 0; k <= DRIFT_COLUMNS; k++) free(figures[k]);
    free(bounds);
    return run_csv_end(r, &csv, "drift", code);
}

static int write_attention(run *r) {
    ota_figure *figures[HEAD_COLUMNS] = {NULL};
    int64_t parts = 0;
    cli_text csv;
    int code = cli_text_begin(&csv, &r->context->error);
    if (code == 0) code = load_means(r, head_columns, HEAD_COLUMNS, figures, &parts);
    if (code == 0) {
        csv_word(&csv, "layer");
        csv_word(&csv, "head");
        for (int k = 0; k < HEAD_COLUMNS; k++) csv_word(&csv, run_columns[head_columns[k]].name);
        csv_line(&csv);
    }
    for (int64_t at = 0; code == 0 && at < parts; at++) {
        csv_number(&csv, (double)(r->settings.first + at / r->facts.heads));
        csv_number(&csv, (double)(at % r->facts.heads));
        for (int k = 0; k < HEAD_COLUMNS; k++) csv_number(&csv, figures[k][at].mean);
        csv_line(&csv);
    }
    for (int k = 0; k < HEAD_COLUMNS; k++) free(figures[k]);
    return run_csv_end(r, &csv, "attention", code);
}

static int write_alignment(run *r) {
    int code = write_table1(r);
    if (code == 0) code = write_table2(r);
    return code == 0 ? write_table3(r) : code;
}

int run_write_tables(run *r) {
    int code = write_alignment(r);
    if (code == 0) code = run_write_table5(r);
    if (code == 0) code = write_drift(r);
    if (code == 0) code = write_attention(r);
    if (code == 0) code = run_write_heads(r);
    if (code == 0 && r->settings.bounds > 0) code = run_write_bounds(r);
    return code;
}

/* Everything but the page, from the records alone. */
int run_write_results(run *r) {
    json_t *events = NULL;
    if (r->settings.alignment) return write_alignment(r);
    int code = run_write_events(r, &events);
    if (code == 0) code = run_write_tables(r);
    if (code == 0) code = run_write_variants(r);
    /* Last: who finds metrics.json finds the rest, too. */
    if (code == 0) code = run_write_metrics(r, events);
    json_decref(events);
    return code;
}
