/* The same windows under several methods or attention temperatures. Line 1 of both is the run itself.
 *
 *   methods.csv        change of the final prediction and state against the run, perplexity, receiver mass
 *   temperatures.csv   saturation, drift and perplexity by temperature                            [TOT-35] */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "results.h"

/* The mean of all numbers of a column that are finite. */
static int mean_of(run *r, int variant, run_column column, double *mean) {
    run_table_of table;
    double sum = 0;
    int64_t count = 0;
    const int code = run_table_load(r, variant, 0, column, &table);
    const int64_t size = code == 0 ? table.windows * table.parts * table.unit : 0;
    for (int64_t k = 0; k < size; k++) {
        if (!isfinite(table.values[k])) continue;
        sum += table.values[k];
        count++;
    }
    run_table_free(&table);
    *mean = sum / (double)count;
    return code;
}

/* Shares of transitions that are events, and of states with 1 - p_max below the limit. */
static int saturated(run *r, int variant, double *events, double *states) {
    run_table_of tail = {.values = NULL}, tv = tail;
    int64_t hits = 0, certain = 0;
    int code = run_table_load(r, variant, 0, COLUMN_TAIL, &tail);
    if (code == 0) code = run_table_load(r, variant, 0, COLUMN_TV, &tv);
    const int64_t moves = code == 0 ? tv.parts * tv.unit : 0;
    for (int64_t w = 0; w < tv.windows && code == 0; w++) {
        const double *before = tail.values + w * tail.parts * tail.unit;
        for (int64_t k = 0; k < moves; k++)
            hits += before[k] < r->settings.tail && before[k + tv.unit] < r->settings.tail &&
                    tv.values[w * moves + k] < r->settings.tv;
        for (int64_t k = 0; k < tail.parts * tail.unit; k++)
            certain += before[k] < r->settings.tail;
    }
    if (code == 0) {
        *events = (double)hits / (double)(tv.windows * moves);
        *states = (double)certain / (double)(tail.windows * tail.parts * tail.unit);
    }
    run_table_free(&tail);
    run_table_free(&tv);
    return code;
}

typedef struct measure {
    const char *name;
    run_column column;
} measure;

static const measure measures[] = {
    {"output_tv", COLUMN_OUTPUT_TV},
    {"output_kl", COLUMN_OUTPUT_KL},
    {"output_agreement", COLUMN_OUTPUT_AGREEMENT},
    {"output_change", COLUMN_OUTPUT_L2},
    {"nll_per_token", COLUMN_NLL},
    {"receiver_max", COLUMN_RECEIVER_MAX},
    {"sink_rate", COLUMN_SINK_RATE},
    {"first_key_mass", COLUMN_FIRST_KEY_MASS},
    {"gini", COLUMN_GINI},
    {"row_entropy", COLUMN_ROW_ENTROPY},
    {"support", COLUMN_SUPPORT},
    {"tv", COLUMN_TV},
    {"relative_l2", COLUMN_RELATIVE_L2},
    {"cosine", COLUMN_COSINE},
};

static int write_line(run *r, tool_text *csv, int variant, const char *name) {
    double value = 0, events = 0, states = 0;
    tool_csv_word(csv, name);
    int code = 0;
    for (size_t k = 0; code == 0 && k < sizeof measures / sizeof *measures; k++) {
        code = mean_of(r, variant, measures[k].column, &value);
        if (code == 0) tool_csv_number(csv, value);
        if (code == 0 && measures[k].column == COLUMN_NLL) tool_csv_number(csv, exp(value));
    }
    if (code == 0) code = saturated(r, variant, &events, &states);
    tool_csv_number(csv, events);
    tool_csv_number(csv, states);
    tool_csv_line(csv);
    return code;
}

static int write_table(run *r, const char *file, const char *first, int from, int to,
                       const char *baseline) {
    const run_settings *s = &r->settings;
    tool_text csv;
    if (to <= from) return 0;
    int code = tool_text_begin(&csv, &r->context->error);
    if (code != 0) return code;
    tool_csv_word(&csv, first);
    for (size_t k = 0; k < sizeof measures / sizeof *measures; k++) {
        tool_csv_word(&csv, measures[k].name);
        if (measures[k].column == COLUMN_NLL) tool_csv_word(&csv, "perplexity");
    }
    tool_csv_word(&csv, "saturation");
    tool_csv_word(&csv, "saturated_states");
    tool_csv_line(&csv);
    if (baseline != NULL) code = write_line(r, &csv, 0, baseline);
    for (int v = from; code == 0 && v < to; v++)
        code = write_line(r, &csv, s->variant[v].source, s->variant[v].name);
    return run_csv_end(r, &csv, file, code);
}

int run_write_variants(run *r) {
    const run_settings *s = &r->settings;
    const int code = write_table(r, "methods", "method", 1, s->methods, s->variant[0].name);
    if (code != 0) return code;
    return write_table(r, "temperatures", "temperature", s->methods, s->lines, NULL);
}
