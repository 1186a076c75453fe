/* A window through the model: its states h^l [n, d] kept, every head's pattern [n, n] measured as it comes by.
 *
 * State 0 is what the first block reads, state l what block l - 1 leaves (behind its last norm where the
 * architecture has norms there). [TOT-63, 68, 69; attention measures] */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "program/report/run.h"
#include "work.h"

/* ---- tasks on threads ---- */

typedef struct task {
    run *r;
    ota_status (*body)(run *, int64_t, int, ota_error *);
} task;

static void run_task(void *context, int64_t index, int worker) {
    const task *t = context;
    run_trouble *trouble = &t->r->work->trouble[worker];
    ota_error error = {.message = ""};
    const ota_status status =
        *t->r->context->cancel != 0 ? OTA_CANCELLED : t->body(t->r, index, worker, &error);
    if (status >= 0 || (trouble->status < 0 && trouble->index < index)) return;
    *trouble = (run_trouble){.status = status, .index = index, .error = error};
}

int run_tasks(run *r, int64_t count, ota_status (*body)(run *, int64_t, int, ota_error *)) {
    task t = {.r = r, .body = body};
    run_trouble *all = r->work->trouble, *worst = NULL;
    for (int k = 0; k < r->executor.threads; k++) all[k].status = OTA_OK;
    r->executor.run(r->executor.user, count, run_task, &t);
    for (int k = 0; k < r->executor.threads; k++)
        if (all[k].status < 0 && (worst == NULL || all[k].index < worst->index)) worst = &all[k];
    return worst != NULL ? cli_fail_status(r->context, worst->status, &worst->error) : 0;
}

/* ---- capture ---- */

float *run_state(const run *r, int64_t state) {
    const struct run_work *w = r->work;
    return w->states + (state - r->settings.first) * w->tokens * w->width;
}

/* The state that the point holds, -1 for none that is wanted. */
static int64_t state_of(const run *r, const char *name) {
    const run_settings *s = &r->settings;
    char wanted[64];
    if (strcmp(name, r->work->last_state) == 0) return r->facts.layers;
    for (int64_t l = s->first; l <= s->last && l < r->facts.layers; l++) {
        (void)snprintf(wanted, sizeof wanted, "blocks.%" PRId64 ".hook_resid_pre", l);
        if (strcmp(name, wanted) == 0) return l;
    }
    return -1;
}

/* The measured layer whose point `name` is, -1 for none. */
static int64_t layer_of(const run *r, const char *name, const char *point) {
    char wanted[64];
    for (int64_t l = r->settings.first; l < r->settings.last; l++) {
        (void)snprintf(wanted, sizeof wanted, "blocks.%" PRId64 ".attn.%s", l, point);
        if (strcmp(name, wanted) == 0) return l;
    }
    return -1;
}

static int64_t pattern_layer(const run *r, const char *name) {
    return layer_of(r, name, "hook_pattern");
}

static int64_t value_layer(const run *r, const char *name) {
    return r->work->variant == 0 ? layer_of(r, name, "hook_v") : -1;
}

static int is_wanted(void *user, const char *name) {
    const run *r = user;
    if (r->settings.alignment) return state_of(r, name) >= 0;
    return state_of(r, name) >= 0 || pattern_layer(r, name) >= 0 || value_layer(r, name) >= 0;
}

static void keep_state(const run *r, int64_t state, const float *data) {
    const struct run_work *w = r->work;
    const size_t count = (size_t)(w->record->shape.tokens * w->width);
    float *to = state == r->facts.layers ? w->final_state : run_state(r, state);
    memcpy(to, data, count * sizeof *to);
    if (r->settings.half) {
        uint16_t piece[256];
        for (size_t done = 0; done < count; done += 256) {
            const size_t part = count - done < 256 ? count - done : 256;
            cli_convert(to + done, OTA_F32, piece, OTA_F16, part);
            cli_convert(piece, OTA_F16, to + done, OTA_F32, part);
        }
    }
    if (state == r->facts.layers && state == r->settings.last)
        memcpy(run_state(r, state), to, count * sizeof *to);
}

/* ---- patterns ---- */

typedef struct heads_job {
    const run *r;
    const float *patterns; /* [heads, n, n] */
    int64_t layer;         /* among those measured */
    ota_status status[WORKERS_MOST];
} heads_job;

static void measure_head(void *context, int64_t head, int worker) {
    heads_job *j = context;
    const struct run_work *w = j->r->work;
    const int64_t n = w->record->shape.tokens, heads = j->r->facts.heads;
    const int64_t at = j->layer * heads + head;
    ota_pattern pattern;
    if (w->pooled != NULL && w->variant == 0)
        cli_pool_pattern(j->patterns + head * n * n, (size_t)n,
                         w->pooled + at * w->cells * w->cells);
    ota_status status = ota_pattern_of(&(ota_matrix){j->patterns + head * n * n, OTA_F32, n, n},
                                       0.0, NULL, &pattern, &j->r->context->analysis, NULL);
    if (status >= 0 && w->variant == 0)
        status = run_heads_measure(j->r, j->patterns + head * n * n, j->layer, head);
    if (status >= 0 && w->variant == 0 && head == 0)
        status = run_heads_measure(j->r, NULL, j->layer, head);
    if (status < 0) j->status[worker] = status;
    const struct {
        run_column column;
        double value;
    } figures[] = {{COLUMN_SINK_RATE, pattern.sink_rate},
                   {COLUMN_FIRST_KEY_MASS, pattern.first_key_mass},
                   {COLUMN_RECEIVER_MAX, pattern.receiver_max},
                   {COLUMN_GINI, pattern.gini},
                   {COLUMN_ROW_ENTROPY, pattern.row_entropy},
                   {COLUMN_MAX_WEIGHT, pattern.max_weight},
                   {COLUMN_SUPPORT, pattern.support}};
    for (size_t k = 0; status >= 0 && k < sizeof figures / sizeof *figures; k++)
        run_record_column(w->record, w->variant, 0, figures[k].column)[at] = figures[k].value;
}

static ota_status capture(void *user, const ota_capture *one, ota_error *error) {
    run *r = user;
    const int64_t state = state_of(r, one->name), layer = pattern_layer(r, one->name);
    (void)error;
    if (state >= 0) keep_state(r, state, one->data);
    if (value_layer(r, one->name) >= 0) run_heads_keep_values(r, one);
    if (state >= 0) run_pace_step(r, r->pace.layer);
    if (layer < 0) return OTA_OK;
    heads_job j = {.r = r, .patterns = one->data, .layer = layer - r->settings.first};
    r->executor.run(r->executor.user, r->facts.heads, measure_head, &j);
    r->work->heads.value_heads = 0;
    for (int k = 0; k < WORKERS_MOST; k++)
        if (j.status[k] < 0) return j.status[k];
    return OTA_OK;
}

int run_states(run *r, run_record *record, int variant) {
    ota_error error = {.message = ""};
    r->work->record = record;
    r->work->variant = variant;
    const ota_model_run window = {.size = sizeof window,
                                  .ids = record->ids,
                                  .batch = 1,
                                  .count = record->shape.tokens,
                                  .wanted = is_wanted,
                                  .capture = capture,
                                  .user = r};
    const ota_status status = ota_session_run(r->sessions[variant], &window, &error);
    return status < 0 ? cli_fail_status(r->context, status, &error) : 0;
}

/* ---- what states are by themselves ---- */

static ota_status measure_cloud(run *r, int64_t index, int worker, ota_error *error) {
    const struct run_work *w = r->work;
    const int64_t n = w->record->shape.tokens;
    ota_state_cloud cloud;
    (void)worker;
    double *norms = run_record_column(w->record, 0, 0, COLUMN_NORM) + index * n;
    const ota_status status = ota_state_cloud_of(
        &(ota_matrix){w->states + index * w->tokens * w->width, OTA_F32, n, w->width}, 1, norms,
        &cloud, &r->context->analysis, error);
    if (status < 0) return status;
    run_record_column(w->record, 0, 0, COLUMN_EFFECTIVE_RANK)[index] = cloud.participation;
    run_record_column(w->record, 0, 0, COLUMN_MEAN_COSINE)[index] = cloud.mean_cosine;
    return run_outliers_measure(r, index, error);
}

/* Task: one transition. */
static ota_status measure_moves(run *r, int64_t index, int worker, ota_error *error) {
    const struct run_work *w = r->work;
    const int64_t n = w->record->shape.tokens, v = w->variant;
    const float *before = w->states + index * w->tokens * w->width;
    const float *after = before + w->tokens * w->width;
    (void)worker;
    for (int64_t i = 0; i < n; i++) {
        ota_state_change change;
        const ota_status status =
            ota_state_change_of(before + i * w->width, after + i * w->width, OTA_F32, w->width,
                                &change, &r->context->analysis, error);
        if (status < 0) return status;
        const int64_t at = index * n + i;
        run_record_column(w->record, (int)v, 0, COLUMN_NORM_CHANGE)[at] = change.norm_change;
        run_record_column(w->record, (int)v, 0, COLUMN_RELATIVE_L2)[at] = change.relative_l2;
        run_record_column(w->record, (int)v, 0, COLUMN_COSINE)[at] = change.cosine;
        if (v == 0)
            run_record_column(w->record, 0, 0, COLUMN_MAX_COORDINATE_CHANGE)[at] =
                change.max_coordinate_change;
    }
    return OTA_OK;
}

int run_measure_states(run *r) {
    const int64_t states = r->work->record->shape.states;
    int code = run_tasks(r, states - 1, measure_moves);
    if (code == 0 && r->work->variant == 0) code = run_tasks(r, states, measure_cloud);
    return code;
}
