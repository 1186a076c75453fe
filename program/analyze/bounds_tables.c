/* tables/ of what bounds.c measured, over the windows that --bounds names.
 *
 *   bounds   one line a layer, statement and change of its input; below all layers a line without a layer for
 *            each, and the coherence bound of Prop. A.6 [TOT-42]. Measures and bounds are of the worst token
 *            (and head) of a window, mean over windows; a tightness is measured / bound, its mean and its
 *            largest over windows; a violation is a window where it is above 1 + 1e-9
 *   ranks    one line a layer and head: mean ranks over windows, the width of a head, and the largest rank that
 *            the matrix can have */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "window_tables.h"
#include "src/base/integers.h"

static const double allowance = 1e-9;

static const struct {
    const char *name, *source;
} statements[BOUND_STATEMENTS] = {[BOUND_JACOBIAN] = {"norm jacobian", "TOT-59"},
                                  [BOUND_NORM] = {"norm", "TOT-60"},
                                  [BOUND_WEIGHTS] = {"weights", "TOT-55"},
                                  [BOUND_OUTPUT] = {"output", "TOT-54"},
                                  [BOUND_BLOCK] = {"block", "TOT-60"}};
static const char *const changes[BOUND_CHANGES] = {
    [BOUND_ROUNDING] = "bf16", [BOUND_STEP] = "next state"};

/* Sums over windows, or over windows and layers. */
typedef struct tally {
    double sum[BOUND_NUMBERS], largest[BOUND_NUMBERS];
    int64_t count, violations[2];
} tally;

static void add(tally *t, const double *numbers) {
    if (!isfinite(numbers[BOUND_MEASURED])) return;
    t->count++;
    for (int k = 0; k < BOUND_NUMBERS; k++) {
        t->sum[k] += numbers[k];
        t->largest[k] = isnan(numbers[k]) ? numbers[k] : fmax(t->largest[k], numbers[k]);
    }
    t->violations[0] += numbers[BOUND_PRINTED_RATIO] > 1 + allowance;
    t->violations[1] += numbers[BOUND_SHARP_RATIO] > 1 + allowance;
}

static void write_tally(cli_text *csv, const tally *t) {
    const double count = (double)t->count;
    for (int k = BOUND_MEASURED; k <= BOUND_SHARP; k++) csv_number(csv, t->sum[k] / count);
    for (int form = 0; form < 2; form++) {
        const int ratio = BOUND_PRINTED_RATIO + form;
        const bool there = !isnan(t->sum[ratio]);
        csv_number(csv, t->sum[ratio] / count);
        csv_number(csv, there && t->count > 0 ? t->largest[ratio] : (double)NAN);
        csv_number(csv, there ? (double)t->violations[form] : (double)NAN);
    }
    csv_number(csv, count);
    csv_line(csv);
}

static void write_names(cli_text *csv, double layer, int row) {
    const int statement = row == 0 ? BOUND_JACOBIAN : 1 + (row - 1) % (BOUND_STATEMENTS - 1);
    csv_number(csv, layer);
    csv_word(csv, statements[statement].name);
    csv_word(csv, statements[statement].source);
    csv_word(csv, row == 0 ? "" : changes[(row - 1) / (BOUND_STATEMENTS - 1)]);
}

/* Prop. A.6, one number a token of every window. */
static int write_coherence(run *r, cli_text *csv) {
    run_table_of measured = {.values = NULL}, bound = measured;
    tally t = {.count = 0};
    int code = run_table_load(r, 0, 0, COLUMN_COHERENCE_DISTANCE, &measured);
    if (code == 0) code = run_table_load(r, 0, 0, COLUMN_COHERENCE_BOUND, &bound);
    const int64_t count = code == 0 ? measured.windows * measured.parts * measured.unit : 0;
    for (int64_t k = 0; k < count; k++) {
        const double ratio = bound.values[k] > 0 ? measured.values[k] / bound.values[k] : 0;
        const double numbers[BOUND_NUMBERS] = {measured.values[k], bound.values[k], (double)NAN,
                                               ratio, (double)NAN};
        add(&t, numbers);
    }
    if (code == 0) {
        csv_number(csv, (double)NAN);
        csv_word(csv, "coherence");
        csv_word(csv, "TOT-42");
        csv_word(csv, "");
        write_tally(csv, &t);
    }
    run_table_free(&measured);
    run_table_free(&bound);
    return code;
}

static void write_rows(const run *r, const run_table_of *table, cli_text *csv) {
    const int64_t windows = ota_int_min(table->windows, r->settings.bounds);
    const int64_t moves = r->settings.last - r->settings.first;
    tally all[BOUND_ROWS] = {{.count = 0}};
    for (int64_t l = 0; l < moves; l++)
        for (int row = 0; row < BOUND_ROWS; row++) {
            tally t = {.count = 0};
            for (int64_t w = 0; w < windows; w++) {
                const double *numbers = table->values + w * table->parts +
                                        (l * BOUND_ROWS + row) * (int64_t)BOUND_NUMBERS;
                add(&t, numbers);
                add(&all[row], numbers);
            }
            write_names(csv, (double)(r->settings.first + l), row);
            write_tally(csv, &t);
        }
    for (int row = 0; row < BOUND_ROWS; row++) {
        write_names(csv, (double)NAN, row);
        write_tally(csv, &all[row]);
    }
}

static int write_bounds(run *r) {
    run_table_of table = {.values = NULL};
    cli_text csv;
    int code = cli_text_begin(&csv, &r->context->error);
    if (code == 0) code = run_table_load(r, 0, 0, COLUMN_BOUNDS, &table);
    if (code == 0) {
        (void)fputs("layer,statement,id,change,measured,printed_bound,sharp_bound,"
                    "printed_tightness,printed_tightness_max,printed_violations,"
                    "sharp_tightness,sharp_tightness_max,sharp_violations,n\n",
                    csv.stream);
        write_rows(r, &table, &csv);
        code = write_coherence(r, &csv);
    }
    run_table_free(&table);
    return run_csv_end(r, &csv, "bounds", code);
}

static void write_head(const run *r, const run_table_of *table, int64_t at, cli_text *csv) {
    const int64_t windows = ota_int_min(table->windows, r->settings.bounds);
    const int64_t tokens = r->text.windows[0].count;
    const int64_t most = r->facts.causal != 0 ? tokens / 2 - 1 : tokens - 1;
    double means[RANKS] = {0};
    for (int64_t w = 0; w < windows; w++)
        for (int k = 0; k < RANKS; k++)
            means[k] += table->values[w * table->parts + at * RANKS + k] / (double)windows;
    csv_row(csv, "nnnnnnnn", (double)(r->settings.first + at / r->facts.heads),
            (double)(at % r->facts.heads), (double)r->facts.head_width, (double)most,
            means[RANK_ONE], means[RANK_ONE_COARSE], means[RANK_TWO], means[RANK_TWO_COARSE]);
}

static int write_ranks(run *r) {
    run_table_of table = {.values = NULL};
    cli_text csv;
    int code = cli_text_begin(&csv, &r->context->error);
    if (code == 0) code = run_table_load(r, 0, 0, COLUMN_RANKS, &table);
    if (code == 0)
        (void)fputs("layer,head,head_width,most,one_layer,one_layer_coarse,two_layers,"
                    "two_layers_coarse\n",
                    csv.stream);
    for (int64_t at = 0; code == 0 && at < table.parts / RANKS; at++)
        write_head(r, &table, at, &csv);
    run_table_free(&table);
    return run_csv_end(r, &csv, "ranks", code);
}

int run_write_bounds(run *r) {
    const int code = write_bounds(r);
    return code == 0 ? write_ranks(r) : code;
}
