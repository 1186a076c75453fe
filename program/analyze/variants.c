/* The same windows under several methods or attention temperatures. Line 1 of both is the run itself.
 *
 *   methods.csv        change of the final prediction and state against the run, perplexity, receiver mass
 *   temperatures.csv   saturation, drift and perplexity by attention's temperature                [TOT-35]
 *   probe_temperatures.csv   the same where the probe's logits are divided, and attention is as it was
 *
 * Intervals draw whole windows again, since tokens of one window depend on each other. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "window_tables.h"

/* A number of all windows, and where its mean lies when windows are drawn again. */
typedef struct estimate {
    double mean, low, high;
} estimate;

/* `sums` and `counts` are those of each window; they are written over. */
static int estimate_of(run *r, double *sums, const double *counts, int64_t windows, estimate *to) {
    double sum = 0, count = 0;
    ota_figure figure;
    ota_error error = {.message = ""};
    for (int64_t w = 0; w < windows; w++) {
        sum += sums[w];
        count += counts[w];
        sums[w] /= counts[w];
    }
    const ota_status status = ota_figure_of(sums, windows, 1, 0, r->settings.seed, &figure,
                                            &r->context->analysis, &error);
    if (status < 0) return cli_fail_status(r->context, status, &error);
    *to = (estimate){.mean = sum / count, .low = figure.low, .high = figure.high};
    return 0;
}

/* The mean of all numbers of a column that are finite. */
static int mean_of(run *r, int variant, run_column column, double *sums, double *counts,
                   estimate *mean) {
    run_table_of table;
    int code = run_table_load(r, variant, 0, column, &table);
    const int64_t size = code == 0 ? table.parts * table.unit : 0;
    for (int64_t w = 0; code == 0 && w < table.windows; w++) {
        sums[w] = counts[w] = 0;
        for (int64_t k = w * size; k < (w + 1) * size; k++) {
            if (!isfinite(table.values[k])) continue;
            sums[w] += table.values[k];
            counts[w]++;
        }
    }
    if (code == 0) code = estimate_of(r, sums, counts, table.windows, mean);
    run_table_free(&table);
    return code;
}

/* Share of transitions that are events. */
static int share_of_events(run *r, int variant, double *sums, double *counts, estimate *share) {
    run_table_of tail = {.values = NULL}, tv = tail;
    int code = run_table_load(r, variant, 0, COLUMN_TAIL, &tail);
    if (code == 0) code = run_table_load(r, variant, 0, COLUMN_TV, &tv);
    const int64_t moves = code == 0 ? tv.parts * tv.unit : 0;
    for (int64_t w = 0; w < tv.windows && code == 0; w++) {
        const double *before = tail.values + w * tail.parts * tail.unit;
        sums[w] = 0;
        counts[w] = (double)moves;
        for (int64_t k = 0; k < moves; k++)
            sums[w] += before[k] < r->settings.tail && before[k + tv.unit] < r->settings.tail &&
                       tv.values[w * moves + k] < r->settings.tv;
    }
    if (code == 0) code = estimate_of(r, sums, counts, tv.windows, share);
    run_table_free(&tail);
    run_table_free(&tv);
    return code;
}

/* Share of states with 1 - p_max below the limit. State 0 is left out: with a tied head the embedding of a token
 * predicts the token itself, whatever attention does. */
static int share_of_states(run *r, int variant, double *sums, double *counts, estimate *share) {
    run_table_of tail;
    int code = run_table_load(r, variant, 0, COLUMN_TAIL, &tail);
    const int64_t from = code == 0 && r->settings.first == 0 ? tail.unit : 0;
    const int64_t size = code == 0 ? tail.parts * tail.unit : 0;
    for (int64_t w = 0; code == 0 && w < tail.windows; w++) {
        sums[w] = 0;
        counts[w] = (double)(size - from);
        for (int64_t k = from; k < size; k++)
            sums[w] += tail.values[w * size + k] < r->settings.tail;
    }
    if (code == 0) code = estimate_of(r, sums, counts, tail.windows, share);
    run_table_free(&tail);
    return code;
}

typedef struct measure {
    const char *name;
    run_column column;
    bool interval; /* NAME_low and NAME_high stand at the end of the line */
} measure;

static const measure measures[] = {
    {"output_tv", COLUMN_OUTPUT_TV, true},
    {"output_kl", COLUMN_OUTPUT_KL, false},
    {"output_agreement", COLUMN_OUTPUT_AGREEMENT, false},
    {"output_change", COLUMN_OUTPUT_L2, false},
    {"nll_per_token", COLUMN_NLL, true},
    {"receiver_max", COLUMN_RECEIVER_MAX, false},
    {"sink_rate", COLUMN_SINK_RATE, false},
    {"first_key_mass", COLUMN_FIRST_KEY_MASS, false},
    {"gini", COLUMN_GINI, false},
    {"row_entropy", COLUMN_ROW_ENTROPY, false},
    {"support", COLUMN_SUPPORT, false},
    {"tv", COLUMN_TV, true},
    {"relative_l2", COLUMN_RELATIVE_L2, true},
    {"cosine", COLUMN_COSINE, false},
};

enum { MEASURES = sizeof measures / sizeof *measures, SHARES = 2 };
static const char *const share_names[SHARES] = {"saturation", "saturated_states"};

static int measure_line(run *r, int variant, estimate *found) {
    const int64_t windows = r->text.window_count;
    double *sums = malloc(2 * (size_t)windows * sizeof *sums);
    if (sums == NULL)
        return cli_fail(&r->context->error, CLI_EXIT_LIMIT, "there is no memory left");
    double *counts = sums + windows;
    int code = 0;
    for (int k = 0; code == 0 && k < MEASURES; k++)
        code = mean_of(r, variant, measures[k].column, sums, counts, &found[k]);
    if (code == 0) code = share_of_events(r, variant, sums, counts, &found[MEASURES]);
    if (code == 0) code = share_of_states(r, variant, sums, counts, &found[MEASURES + 1]);
    free(sums);
    return code;
}

static int write_line(run *r, cli_text *csv, int variant, const char *name) {
    estimate found[MEASURES + SHARES] = {{0}};
    const int code = measure_line(r, variant, found);
    csv_word(csv, name);
    for (int k = 0; k < MEASURES + SHARES; k++) {
        csv_number(csv, found[k].mean);
        if (k < MEASURES && measures[k].column == COLUMN_NLL) csv_number(csv, exp(found[k].mean));
    }
    for (int k = 0; k < MEASURES + SHARES; k++) {
        if (k < MEASURES && !measures[k].interval) continue;
        csv_number(csv, found[k].low);
        csv_number(csv, found[k].high);
    }
    csv_line(csv);
    return code;
}

static void write_names(cli_text *csv, const char *first) {
    csv_word(csv, first);
    for (int k = 0; k < MEASURES; k++) {
        csv_word(csv, measures[k].name);
        if (measures[k].column == COLUMN_NLL) csv_word(csv, "perplexity");
    }
    for (int k = 0; k < SHARES; k++) csv_word(csv, share_names[k]);
    for (int k = 0; k < MEASURES + SHARES; k++) {
        char name[2][64];
        if (k < MEASURES && !measures[k].interval) continue;
        const char *of = k < MEASURES ? measures[k].name : share_names[k - MEASURES];
        (void)snprintf(name[0], sizeof name[0], "%s_low", of);
        (void)snprintf(name[1], sizeof name[1], "%s_high", of);
        csv_word(csv, name[0]);
        csv_word(csv, name[1]);
    }
    csv_line(csv);
}

static int write_table(run *r, const char *file, const char *first, int from, int to,
                       const char *baseline) {
    const run_settings *s = &r->settings;
    cli_text csv;
    if (to <= from) return 0;
    int code = cli_text_begin(&csv, &r->context->error);
    if (code != 0) return code;
    write_names(&csv, first);
    if (baseline != NULL) code = write_line(r, &csv, 0, baseline);
    for (int v = from; code == 0 && v < to; v++)
        code = write_line(r, &csv, s->variant[v].source, s->variant[v].name);
    return run_csv_end(r, &csv, file, code);
}

int run_write_variants(run *r) {
    const run_settings *s = &r->settings;
    int code = write_table(r, "methods", "method", 1, s->methods, s->variant[0].name);
    if (code == 0)
        code = write_table(r, "temperatures", "temperature", s->methods, s->temperatures, NULL);
    if (code != 0) return code;
    return write_table(r, "probe_temperatures", "temperature", s->temperatures, s->lines, NULL);
}
