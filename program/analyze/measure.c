/* What a probe reads from the states of a window, state by state: z^l = W x^l + b, p^l = softmax(z^l).
 *
 *   memory   logits [n, V] of four states at a time: the first, the final, and the two of a transition
 *   rows     independent of one another: tasks of a few positions
 *
 * bound_ratio = ||p' - p||_1 / (max_j ||W_j||_2 ||x' - x||_2) [TOT-27]; alignment R = min max |dz - k - v|
 * [TOT-38, 41]; coherence: ||softmax(z^0 + sum v) - p^L||_1 against sum ||r||_inf [TOT-42]. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/integers.h"
#include "work.h"

enum { ROWS_PER_TASK = 8 };

/* The state a pass over rows is at. */
typedef struct step {
    int64_t index; /* of the state among those measured */
    int probe;
    run_lens *before, *now;
} step;

static double *column(const run *r, int probe, run_column name) {
    const struct run_work *w = r->work;
    return run_record_column(w->record, w->variant, probe, name);
}

static void put(const run *r, int probe, run_column name, int64_t at, double value) {
    double *values = column(r, probe, name);
    if (values != NULL) values[at] = value;
}

static int64_t tokens_of(const run *r) { return r->work->record->shape.tokens; }

static int64_t task_end(const run *r, int64_t task) {
    const int64_t end = (task + 1) * ROWS_PER_TASK;
    return end < tokens_of(r) ? end : tokens_of(r);
}

/* ---- logits ---- */

static void fill_lens(run *r, int probe, const float *states, run_lens *lens) {
    const struct run_work *w = r->work;
    ota_session *session = r->sessions[w->variant];
    const int64_t n = tokens_of(r);
    if (probe == 0)
        (void)ota_session_probe_inputs(session, states, n, lens->inputs);
    else
        memcpy(lens->inputs, states, (size_t)(n * w->width) * sizeof *states);
    ota_session_probe(session, lens->inputs, n, lens->logits);
    const double temperature = run_variant_of(&r->settings, w->variant)->probe_temperature;
    const float factor = (float)(1.0 / (temperature > 0 ? temperature : 1.0));
    for (int64_t k = 0; temperature > 0 && k < n * w->vocabulary; k++) lens->logits[k] *= factor;
}

static void *row_memory(const run *r, int ring, int64_t i) {
    const struct run_work *w = r->work;
    return w->row_memory[ring] + (size_t)i * w->row_bytes;
}

static void *row_scratch(const run *r, int worker) {
    const struct run_work *w = r->work;
    return w->scratch + (size_t)worker * w->scratch_bytes;
}

/* Ranks stay in a ring's memory and are written over; the rest of a row is all that predictions ask for. */
static void forget_ranks(const run *r, run_lens *lens) {
    for (int64_t i = 0; i < tokens_of(r); i++) lens->rows[i].ranks = lens->rows[i].top = NULL;
}

/* ---- one row ---- */

static void put_prediction(const run *r, int probe, int64_t at, const ota_prediction *p) {
    put(r, probe, COLUMN_ENTROPY, at, p->entropy);
    put(r, probe, COLUMN_TAIL, at, p->tail);
    put(r, probe, COLUMN_KL_TO_FINAL, at, p->kl_to_final);
    put(r, probe, COLUMN_DRIFT, at, p->drift);
    put(r, probe, COLUMN_LENS, at, (double)p->index);
    put(r, probe, COLUMN_AGREEMENT, at, p->agrees);
}

static double distance(const float *a, const float *b, int64_t width) {
    double sum = 0;
    for (int64_t k = 0; k < width; k++) {
        const double d = (double)a[k] - (double)b[k];
        sum += d * d;
    }
    return sqrt(sum);
}

static void put_transition(const run *r, const step *s, int64_t i, const ota_transition *t) {
    const int64_t width = r->work->width, at = (s->index - 1) * tokens_of(r) + i;
    const double moved = distance(s->before->inputs + i * width, s->now->inputs + i * width, width);
    const double bound = r->probe.norm * moved, ratio = 2.0 * t->tv / bound;
    const struct {
        run_column column;
        double value;
    } figures[] = {{COLUMN_TV, t->tv},
                   {COLUMN_KL, t->kl},
                   {COLUMN_JS, t->js},
                   {COLUMN_ENTROPY_CHANGE, t->entropy_change},
                   {COLUMN_TOP1, t->top1},
                   {COLUMN_TOP5, t->top5},
                   {COLUMN_TOP10, t->top10},
                   {COLUMN_TOP100, t->top100},
                   {COLUMN_SPEARMAN, t->spearman},
                   {COLUMN_MAX_LOGIT_CHANGE, t->max_logit_change},
                   {COLUMN_LOGIT_RANGE_HALF, t->logit_range_half},
                   {COLUMN_LOGIT_CORRELATION, t->logit_correlation},
                   {COLUMN_EFFECTIVE_TEMPERATURE, t->effective_temperature},
                   {COLUMN_STEP, moved},
                   {COLUMN_BOUND_RATIO, bound > 0   ? ratio
                                        : t->tv > 0 ? HUGE_VAL
                                                    : 0},
                   {COLUMN_BOUND_RATIO_SHARP, t->sharp_ratio}};
    for (size_t k = 0; k < sizeof figures / sizeof *figures; k++)
        put(r, s->probe, figures[k].column, at, figures[k].value);
}

/* ---- tasks ---- */

static ota_status measure_rows(run *r, int64_t task, int worker, ota_error *error) {
    struct run_work *w = r->work;
    const step *s = w->step;
    const int ring = (int)(s->index % RING);
    for (int64_t i = task * ROWS_PER_TASK; i < task_end(r, task); i++) {
        ota_prediction prediction;
        ota_transition transition;
        const ota_status status = ota_evolve_step(
            s->now->logits + i * w->vocabulary,
            &(ota_evolve_others){.before = s->index > 0 ? &s->before->rows[i] : NULL,
                                 .first = s->index > 0 ? &w->first.rows[i] : NULL,
                                 .final = &w->final.rows[i]},
            row_memory(r, ring, i), row_scratch(r, worker), &s->now->rows[i], &transition,
            &prediction, error);
        if (status < 0) return status;
        put_prediction(r, s->probe, s->index * tokens_of(r) + i, &prediction);
        if (s->index > 0) put_transition(r, s, i, &transition);
    }
    return OTA_OK;
}

/* The exact alignment of a transition, whose passes over the logits are tasks, too. */
static int align(run *r, const step *s) {
    struct run_work *w = r->work;
    ota_error error = {.message = ""};
    const int64_t n = tokens_of(r);
    const ota_gauge_arrays arrays = {.column_shift = w->shift, .row_residual = w->residual};
    const ota_gauge_options how = {.size = sizeof how, .executor = &r->executor};
    ota_gauge_result result;
    const ota_status status = ota_gauge(&(ota_gauge_matrix){.a = s->now->logits,
                                                            .b = s->before->logits,
                                                            .type = OTA_F32,
                                                            .rows = n,
                                                            .columns = w->vocabulary},
                                        &how, &arrays, &result, &r->context->analysis, &error);
    if (status < 0) return cli_fail_status(r->context, status, &error);
    put(r, s->probe, COLUMN_ALIGNMENT, s->index - 1, result.residual);
    put(r, s->probe, COLUMN_ALIGNMENT_LOWER, s->index - 1, result.residual_lower);
    put(r, s->probe, COLUMN_ALIGNMENT_RMS, s->index - 1, result.rms);
    for (int64_t j = 0; j < w->vocabulary; j++) w->shift_sum[j] += w->shift[j];
    for (int64_t i = 0; i < n; i++) w->residual_sum[i] += w->residual[i];
    return 0;
}

static ota_status final_task(run *r, int64_t task, int worker, ota_error *error) {
    struct run_work *w = r->work;
    for (int64_t i = task * ROWS_PER_TASK; i < task_end(r, task); i++) {
        const ota_status status = ota_evolve_row_of(
            w->final.logits + i * w->vocabulary, w->vocabulary, row_memory(r, 0, i),
            row_scratch(r, worker), &w->final.rows[i], error);
        if (status < 0) return status;
    }
    return OTA_OK;
}

static ota_status coherence_task(run *r, int64_t i, int worker, ota_error *error) {
    const struct run_work *w = r->work;
    const step *s = w->step;
    double *shifted = w->wide + (int64_t)worker * 2 * w->vocabulary, apart;
    for (int64_t j = 0; j < w->vocabulary; j++)
        shifted[j] = (double)w->first.logits[i * w->vocabulary + j] + w->shift_sum[j];
    const ota_status status = ota_evolve_distance(shifted, &s->now->rows[i], &apart, error);
    if (status < 0) return status;
    put(r, s->probe, COLUMN_COHERENCE_DISTANCE, i, apart);
    put(r, s->probe, COLUMN_COHERENCE_BOUND, i, fmin(2.0, w->residual_sum[i]));
    return OTA_OK;
}

/* ---- what the final state predicts ---- */

static void measure_nll(const run *r) {
    const struct run_work *w = r->work;
    const int64_t n = tokens_of(r);
    for (int64_t i = 0; i < n; i++) {
        const bool known = r->facts.causal != 0 && i + 1 < n;
        const float *logits = w->final.logits + i * w->vocabulary;
        const ota_evolve_row *row = &w->final.rows[i];
        put(r, 0, COLUMN_NLL, i,
            known ? (row->max_logit - (double)logits[w->record->ids[i + 1]]) + log1p(row->rest)
                  : (double)NAN);
    }
}

/* Against variant 0's final state. */
static ota_status output_task(run *r, int64_t i, int worker, ota_error *error) {
    const struct run_work *w = r->work;
    const float *before = w->baseline.logits + i * w->vocabulary;
    const float *after = w->final.logits + i * w->vocabulary;
    ota_divergence divergence;
    ota_state_change change;
    (void)worker;
    ota_status status = ota_divergence_of_logits(before, after, OTA_F32, w->vocabulary, 1.0,
                                                 &divergence, &r->context->analysis, error);
    if (status == OTA_OK)
        status =
            ota_state_change_of(w->baseline_state + i * w->width, w->final_state + i * w->width,
                                OTA_F32, w->width, &change, &r->context->analysis, error);
    if (status < 0) return status;
    put(r, 0, COLUMN_OUTPUT_TV, i, divergence.tv);
    put(r, 0, COLUMN_OUTPUT_KL, i, divergence.kl_reverse);
    put(r, 0, COLUMN_OUTPUT_L2, i, change.relative_l2);
    put(r, 0, COLUMN_OUTPUT_AGREEMENT, i,
        w->baseline.rows[i].index == w->final.rows[i].index ? 1 : 0);
    return OTA_OK;
}

static int measure_final(run *r, int probe) {
    struct run_work *w = r->work;
    const int64_t n = tokens_of(r), tasks = ota_int_ceil_div(n, ROWS_PER_TASK);
    fill_lens(r, probe, w->final_state, &w->final);
    int code = run_tasks(r, tasks, final_task);
    if (code != 0) return code;
    run_pace_step(r, r->pace.state);
    forget_ranks(r, &w->final);
    if (probe != 0) return 0;
    measure_nll(r);
    if (w->baseline.logits == NULL) return 0;
    if (w->variant > 0) return run_tasks(r, n, output_task);
    memcpy(w->baseline.logits, w->final.logits,
           (size_t)(n * w->vocabulary) * sizeof *w->final.logits);
    memcpy(w->baseline.rows, w->final.rows, (size_t)n * sizeof *w->final.rows);
    memcpy(w->baseline_state, w->final_state, (size_t)(n * w->width) * sizeof *w->final_state);
    for (int c = COLUMN_OUTPUT_TV; c <= COLUMN_OUTPUT_L2; c++)
        for (int64_t i = 0; i < n; i++)
            put(r, 0, (run_column)c, i, c == COLUMN_OUTPUT_AGREEMENT ? 1 : 0);
    return 0;
}

/* ---- all states ---- */

/* Where state `index` is looked at: the first and the model's last have places of their own. */
static run_lens *lens_of(const run *r, int64_t index) {
    struct run_work *w = r->work;
    if (index == 0) return &w->first;
    if (r->settings.first + index == r->facts.layers) return &w->final;
    return &w->ring[index % RING];
}

static int measure_state(run *r, step *s) {
    struct run_work *w = r->work;
    const int64_t n = tokens_of(r), tasks = ota_int_ceil_div(n, ROWS_PER_TASK);
    s->now = lens_of(r, s->index);
    w->step = s;
    if (s->now != &w->final)
        fill_lens(r, s->probe, run_state(r, r->settings.first + s->index), s->now);
    const bool aligned = s->index > 0 && w->variant == 0;
    int code = aligned ? align(r, s) : 0;
    if (code == 0) code = run_tasks(r, tasks, measure_rows);
    run_pace_step(r, r->pace.state);
    if (code == 0 && aligned && s->probe == 0) run_pairs_keep(r, s->index - 1, s->before, s->now);
    return code;
}

static void forget_sums(struct run_work *w) {
    memset(w->shift_sum, 0, (size_t)w->vocabulary * sizeof *w->shift_sum);
    memset(w->residual_sum, 0, (size_t)w->tokens * sizeof *w->residual_sum);
}

int run_measure_alignment(run *r) {
    struct run_work *w = r->work;
    step s = {.before = NULL};
    int code = 0;
    forget_sums(w);
    for (; code == 0 && s.index < w->record->shape.states; s.index++) {
        s.now = &w->ring[s.index % RING];
        fill_lens(r, 0, run_state(r, r->settings.first + s.index), s.now);
        if (s.index > 0) code = align(r, &s);
        run_pace_step(r, r->pace.state);
        s.before = s.now;
    }
    return code;
}

int run_measure_probe(run *r, int probe) {
    struct run_work *w = r->work;
    step s = {.probe = probe};
    forget_sums(w);
    int code = measure_final(r, probe);
    for (; code == 0 && s.index < w->record->shape.states; s.index++) {
        code = measure_state(r, &s);
        s.before = s.now;
    }
    if (code == 0 && w->variant == 0) code = run_tasks(r, tokens_of(r), coherence_task);
    if (code == 0 && w->variant == 0 && probe == 0) code = run_pairs_measure(r);
    return code;
}
