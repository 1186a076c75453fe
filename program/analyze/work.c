/* Sessions and buffers of the measurement, and the order of its parts. All memory is taken here, before the
 * first window, so that what is printed is what is used. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "work.h"

#include "src/base/integers.h"

/* ---- memory ---- */

int run_take(run *r, size_t count, size_t size, void *out) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return cli_fail(&r->context->error, CLI_EXIT_LIMIT, "a buffer is larger than any memory");
    const int code = cli_memory(r->context, bytes, "the measurement", out);
    r->work->bytes += bytes;
    return code;
}

static int take_lens(run *r, bool inputs, run_lens *lens) {
    const struct run_work *w = r->work;
    const size_t n = (size_t)w->tokens;
    int code = run_take(r, n * (size_t)w->vocabulary, sizeof(float), &lens->logits);
    if (code == 0 && inputs) code = run_take(r, n * (size_t)w->width, sizeof(float), &lens->inputs);
    if (code == 0) code = run_take(r, n, sizeof(ota_evolve_row), &lens->rows);
    return code;
}

static void free_lens(run_lens *lens) {
    free(lens->logits);
    free(lens->inputs);
    free(lens->rows);
}

static int take_buffers(run *r) {
    struct run_work *w = r->work;
    const size_t n = (size_t)w->tokens, d = (size_t)w->width, words = (size_t)w->vocabulary;
    const size_t states = (size_t)(r->settings.last - r->settings.first + 1);
    const size_t workers = (size_t)r->executor.threads;
    w->row_bytes = ota_size_round_up(ota_evolve_row_bytes(w->vocabulary), 64);
    w->scratch_bytes = ota_size_round_up(ota_evolve_scratch_bytes(w->vocabulary), 64);
    int code = run_take(r, states * n * d, sizeof(float), &w->states);
    if (code == 0) code = run_take(r, n * d, sizeof(float), &w->final_state);
    if (code == 0) code = take_lens(r, true, &w->first);
    if (code == 0) code = take_lens(r, true, &w->final);
    for (int k = 0; code == 0 && k < RING; k++) {
        code = take_lens(r, true, &w->ring[k]);
        if (code == 0) code = run_take(r, n, w->row_bytes, &w->row_memory[k]);
    }
    if (code == 0 && r->settings.variants > 1) code = take_lens(r, false, &w->baseline);
    if (code == 0 && r->settings.variants > 1)
        code = run_take(r, n * d, sizeof(float), &w->baseline_state);
    if (code == 0) code = run_take(r, workers, w->scratch_bytes, &w->scratch);
    if (code == 0) code = run_take(r, workers * 2 * words, sizeof(double), &w->wide);
    if (code == 0) code = run_take(r, (size_t)PAIRS * 2 * words, sizeof(double), &w->pairs);
    if (code == 0) code = run_take(r, words, sizeof(double), &w->shift);
    if (code == 0) code = run_take(r, words, sizeof(double), &w->shift_sum);
    if (code == 0) code = run_take(r, n, sizeof(double), &w->residual);
    if (code == 0) code = run_take(r, n, sizeof(double), &w->residual_sum);
    return code;
}

/* ---- sessions ---- */

/* The flags' session, with the variant's method or temperature over them. */
static int open_session(run *r, int variant) {
    const run_variant *v = run_variant_of(&r->settings, variant);
    cli_settings *settings = &r->context->settings;
    const cli_settings kept = *settings;
    char temperature[32];
    if (v->method != NULL) {
        if (settings->model.methods.count == CLI_MAX_LIST)
            return cli_refuse_flag(r->context, "method", NULL, "more than %d methods at a time",
                                   CLI_MAX_LIST - 1);
        settings->model.methods.items[settings->model.methods.count++] = v->method;
    }
    if (v->temperature != 0) {
        cli_format_real(v->temperature, temperature, sizeof temperature);
        settings->method.temperature = temperature;
    }
    const int code =
        cli_session_open(r->context, r->model, 1, r->work->tokens, 0, &r->sessions[variant]);
    *settings = kept;
    return code;
}

/* max_j ||W_j||_2 */
static int measure_probe_norm(run *r) {
    const int64_t words = r->facts.vocabulary, width = r->facts.width;
    ota_error error = {.message = ""};
    void *rows = NULL;
    int code = cli_memory(r->context, (size_t)(words * width) * sizeof(float), "the probe", &rows);
    if (code != 0) return code;
    ota_status status = ota_model_probe_rows(r->model, 0, words, rows, &error);
    if (status >= 0)
        status =
            ota_probe_of(rows, OTA_F32, words, width, &r->probe, &r->context->analysis, &error);
    free(rows);
    return status < 0 ? cli_fail_status(r->context, status, &error) : 0;
}

/* BERT's blocks end in a norm. */
static void name_last_state(run *r) {
    ota_capture_point point;
    struct run_work *w = r->work;
    const int64_t last = r->facts.layers - 1;
    (void)snprintf(w->last_state, sizeof w->last_state, "blocks.%" PRId64 ".hook_resid_post", last);
    char normed[64];
    (void)snprintf(normed, sizeof normed, "blocks.%" PRId64 ".hook_normalized_resid_post", last);
    for (int64_t k = 0; ota_model_point(r->model, k, 1, 1, &point); k++)
        if (strcmp(point.name, normed) == 0)
            (void)snprintf(w->last_state, sizeof w->last_state, "%s", normed);
}

/* Does the head do anything before its last product? Else both probes are one. */
static int count_probes(run *r) {
    const size_t width = (size_t)r->facts.width;
    float *row = calloc(2 * width, sizeof *row);
    if (row == NULL) return cli_fail(&r->context->error, CLI_EXIT_LIMIT, "there is no memory left");
    const bool changed = ota_session_probe_inputs(r->sessions[0], row, 1, row + width) != 0;
    r->probes = changed && !r->settings.alignment ? 2 : 1;
    free(row);
    return 0;
}

int run_measure_open(run *r, int64_t tokens) {
    r->work = calloc(1, sizeof *r->work);
    if (r->work == NULL)
        return cli_fail(&r->context->error, CLI_EXIT_LIMIT, "there is no memory left");
    *r->work = (struct run_work){
        .tokens = tokens, .width = r->facts.width, .vocabulary = r->facts.vocabulary};
    name_last_state(r);
    int code = measure_probe_norm(r);
    for (int v = 0; code == 0 && v < r->settings.variants; v++) code = open_session(r, v);
    if (code != 0) return code;
    r->executor = *ota_session_executor(r->sessions[0]);
    if (r->executor.threads > WORKERS_MOST)
        return cli_refuse_flag(r->context, "threads", NULL, "%d threads are more than %d",
                               r->executor.threads, WORKERS_MOST);
    code = count_probes(r);
    if (code == 0) code = take_buffers(r);
    if (code == 0) code = run_heads_open(r);
    return code == 0 && r->settings.bounds > 0 ? run_bounds_open(r) : code;
}

size_t run_measure_bytes(const run *r) {
    size_t bytes = r->work->bytes;
    for (int v = 0; v < r->settings.variants; v++) bytes += ota_session_bytes(r->sessions[v]);
    /* The patterns of a layer. */
    return bytes + (size_t)(r->facts.heads * r->work->tokens * r->work->tokens) * sizeof(float);
}

void run_measure_close(run *r) {
    struct run_work *w = r->work;
    for (int v = 0; v < VARIANTS_MOST; v++) ota_session_free(r->sessions[v]);
    if (w == NULL) return;
    free_lens(&w->first);
    free_lens(&w->final);
    free_lens(&w->baseline);
    for (int k = 0; k < RING; k++) {
        free_lens(&w->ring[k]);
        free(w->row_memory[k]);
    }
    free(w->states);
    free(w->final_state);
    free(w->baseline_state);
    free(w->scratch);
    free(w->wide);
    free(w->pairs);
    free(w->shift);
    free(w->shift_sum);
    free(w->residual);
    free(w->residual_sum);
    run_heads_close(r);
    run_bounds_close(r);
    free(w);
}

/* ---- a window ---- */

int run_measure(run *r, run_record *record) {
    int code = 0;
    for (int v = 0; code == 0 && v < record->shape.variants; v++) {
        code = run_states(r, record, v);
        if (r->settings.alignment) return code == 0 ? run_measure_alignment(r) : code;
        if (code == 0) code = run_measure_states(r);
        if (code == 0 && v == 0 && record->index < r->settings.bounds) code = run_bounds_measure(r);
        const int probes = v == 0 ? record->shape.probes : 1;
        for (int probe = 0; code == 0 && probe < probes; probe++)
            code = run_measure_probe(r, probe);
    }
    return code;
}
