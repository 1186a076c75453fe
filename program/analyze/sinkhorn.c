/* Table 5: how many Sinkhorn rounds entropic transport at Hamming cost needs between the predictions of
 * neighbouring layers. [TOT-16, 90]
 *
 * Four pairs a window, transitions from the first to the last, positions that differ. Rounds are counted up
 * to ROUNDS_MOST; what needs more is predicted from the error e after ROUNDS_MOST and after half of them:
 *
 *     rate = (e_most / e_half)^(1 / (most - half)),   rounds = most + log(delta / e_most) / log(rate) */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "window_tables.h"
#include "work.h"

enum { ROUNDS_MOST = 2000, ROUNDS_HALF = 1000 };

static const double epsilons[PAIR_EPSILONS] = {1, 0.1, 0.01};
static const double tolerances[PAIR_TOLERANCES] = {1e-6, 1e-8, 1e-10};
/* What no pair of distributions can need at epsilon 1. */
static const double most_possible[PAIR_TOLERANCES] = {12, 15, 18};

static int64_t pair_transition(const run *r, int pair) {
    return pair * (r->work->record->shape.states - 2) / (PAIRS - 1);
}

static int64_t pair_token(const run *r, int pair) {
    return (r->work->record->index * 7919 + pair * 104729) % r->work->record->shape.tokens;
}

static void fill_distribution(const float *logits, const ota_evolve_row *row, double *p) {
    double sum = 0;
    for (int64_t j = 0; j < row->vocabulary; j++)
        sum += p[j] = exp((double)logits[j] - row->log_sum_exp);
    for (int64_t j = 0; j < row->vocabulary; j++) p[j] /= sum;
}

void run_pairs_keep(run *r, int64_t transition, const run_lens *before, const run_lens *after) {
    struct run_work *w = r->work;
    const int64_t words = w->vocabulary;
    for (int pair = 0; pair < PAIRS; pair++) {
        if (pair_transition(r, pair) != transition) continue;
        const int64_t i = pair_token(r, pair);
        double *p = w->pairs + 2 * pair * words;
        fill_distribution(before->logits + i * words, &before->rows[i], p);
        fill_distribution(after->logits + i * words, &after->rows[i], p + words);
    }
}

/* NaN where the error hardly falls: rounding would decide then. */
static double predict(const double *errors, double tolerance) {
    const double half = errors[ROUNDS_HALF - 1], most = errors[ROUNDS_MOST - 1];
    const double slope = log(most / half) / (ROUNDS_MOST - ROUNDS_HALF);
    return most < half * (1 - 1e-6) ? (double)ROUNDS_MOST + ceil(log(tolerance / most) / slope)
                                    : (double)NAN;
}

/* Task: one pair at one epsilon; the epsilons that take most rounds come first. */
static ota_status count_rounds(run *r, int64_t task, int worker, ota_error *error) {
    const struct run_work *w = r->work;
    const int64_t words = w->vocabulary;
    const int64_t pair = task % PAIRS, e = PAIR_EPSILONS - 1 - task / PAIRS;
    const double *p = w->pairs + 2 * pair * words;
    double *u = w->wide + (int64_t)worker * 2 * words, *v = u + words;
    double errors[ROUNDS_MOST];
    ota_hamming_result result;
    const ota_status status =
        ota_hamming(p, p + words, words, epsilons[e],
                    &(ota_hamming_options){.size = sizeof(ota_hamming_options),
                                           .solver = OTA_HAMMING_SINKHORN,
                                           .tolerance = tolerances[PAIR_TOLERANCES - 1],
                                           .max_rounds = ROUNDS_MOST,
                                           .u = u,
                                           .v = v,
                                           .errors = errors},
                    &result, &r->context->analysis, error);
    if (status < 0 && status != OTA_NOT_CONVERGED) return status;
    for (int t = 0; t < PAIR_TOLERANCES; t++) {
        const int64_t at = (pair * PAIR_EPSILONS + e) * PAIR_TOLERANCES + t;
        int64_t k = 0;
        while (k < result.rounds && !(errors[k] <= tolerances[t])) k++;
        const bool counted = k < result.rounds;
        run_record_column(w->record, 0, 0, COLUMN_ROUNDS)[at] =
            counted ? (double)(k + 1) : predict(errors, tolerances[t]);
        run_record_column(w->record, 0, 0, COLUMN_ROUNDS_PREDICTED)[at] = counted ? 0 : 1;
    }
    return OTA_OK;
}

int run_pairs_measure(run *r) { return run_tasks(r, (int64_t)PAIRS * PAIR_EPSILONS, count_rounds); }

/* ---- the table ---- */

/* Number `place` of every pair of every window; how many are finite. */
static int64_t pick(const run_table_of *table, int place, double *to) {
    const int64_t kinds = (int64_t)PAIR_EPSILONS * PAIR_TOLERANCES;
    int64_t count = 0;
    for (int64_t k = place; k < table->windows * table->parts; k += kinds)
        if (isfinite(table->values[k])) to[count++] = table->values[k];
    return count;
}

static int write_rows(run *r, const run_table_of *rounds, const run_table_of *predicted,
                      cli_text *csv) {
    double *values = malloc((size_t)(rounds->windows * rounds->parts) * sizeof *values);
    ota_error error = {.message = ""};
    ota_status status = OTA_OK;
    if (values == NULL)
        return cli_fail(&r->context->error, CLI_EXIT_LIMIT, "there is no memory left");
    for (int place = 0; place < PAIR_EPSILONS * PAIR_TOLERANCES && status >= 0; place++) {
        const int e = place / PAIR_TOLERANCES, t = place % PAIR_TOLERANCES;
        ota_summary s = {.mean = (double)NAN, .deviation = (double)NAN, .maximum = (double)NAN};
        const int64_t marks = pick(predicted, place, values);
        double share = 0;
        for (int64_t k = 0; k < marks; k++) share += values[k] / (double)marks;
        const int64_t count = pick(rounds, place, values);
        if (count > 0) status = ota_summary_of(values, count, &s, &r->context->analysis, &error);
        csv_row(csv, "nnnnnnnnn", epsilons[e], tolerances[t], s.mean, s.deviation, s.maximum,
                (double)marks, share, (double)(marks - count),
                e == 0 ? most_possible[t] : (double)NAN);
    }
    free(values);
    return status < 0 ? cli_fail_status(r->context, status, &error) : 0;
}

int run_write_table5(run *r) {
    run_table_of rounds = {.values = NULL}, predicted = rounds;
    cli_text csv;
    int code = cli_text_begin(&csv, &r->context->error);
    if (code == 0) code = run_table_load(r, 0, 0, COLUMN_ROUNDS, &rounds);
    if (code == 0) code = run_table_load(r, 0, 0, COLUMN_ROUNDS_PREDICTED, &predicted);
    if (code == 0)
        (void)fputs("epsilon,Tolerance,Mean Iterations,Std Dev,Max Iterations,pairs,"
                    "predicted share,not predictable,most possible\n",
                    csv.stream);
    if (code == 0) code = write_rows(r, &rounds, &predicted, &csv);
    run_table_free(&rounds);
    run_table_free(&predicted);
    return run_csv_end(r, &csv, "table5", code);
}
