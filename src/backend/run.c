/* What every backend shares in one call of forward: interruption, progress, the last word on a head, chunks of rows; and
 * the table of backends. */
#include "backend.h"

#include <math.h>
#include <string.h>

#include "problem/fields.h"

/* ---- the table ---------------------------------------------------------------------------------- */

extern const ota_backend ota_cpu_backend, ota_plain_backend;

static const ota_backend *const backends[] = {&ota_cpu_backend, &ota_plain_backend};
enum { BACKENDS = (int)(sizeof backends / sizeof backends[0]) };

const ota_backend *ota_backend_row(int index) {
    return index >= 0 && index < BACKENDS ? backends[index] : NULL;
}

const ota_backend *ota_backend_named(const char *name) {
    if (name == NULL || name[0] == '\0') return backends[0];
    for (int k = 0; k < BACKENDS; k++) {
        if (strcmp(backends[k]->name, name) == 0) return backends[k];
    }
    return NULL;
}

/* ---- runs --------------------------------------------------------------------------------------- */

bool ota_run_interrupted(ota_run *run) {
    if (atomic_load_explicit(&run->stopped, memory_order_relaxed) != OTA_OK) return true;
    const ota_status status = ota_interrupted(&run->resolved->settings);
    if (status == OTA_OK) return false;
    atomic_store(&run->stopped, status);
    return true;
}

void ota_run_report_progress(void *context, int64_t round, double residual) {
    ota_run *run = context;
    const ota_resolved *r = run->resolved;
    const ota_settings *s = &r->settings;
    if (s->calls.progress == NULL || atomic_flag_test_and_set(&run->telling)) return;
    const ota_progress progress = {.heads_done = atomic_load(&run->heads_done),
                                   .heads = r->batch * r->heads,
                                   .round = round,
                                   .residual = residual};
    s->calls.progress(s->calls.progress_user, &progress);
    atomic_flag_clear(&run->telling);
}

void ota_run_poison(ota_pool *pool, const ota_arrays *a, int64_t batch, int64_t head) {
    for (int k = 0; k < OTA_ARRAY_ROWS; k++) {
        const ota_array_row *row = &ota_array_rows[k];
        /* What is both says where a later call begins. */
        if (row->output && !row->input)
            ota_array_poison(pool, ota_array_of_row(a, row), batch, head);
    }
}

static void tell_head_done(ota_run *run, const ota_head_result *result) {
    if (run->resolved->settings.calls.progress == NULL) return;
    (void)atomic_fetch_add(&run->heads_done, 1);
    ota_run_report_progress(run, result->rounds, fmax(result->row_error, result->column_error));
}

void ota_run_finish_head(ota_run *run, int64_t batch, int64_t head, double mass) {
    const ota_resolved *r = run->resolved;
    const ota_settings *s = &r->settings;
    const int64_t index = batch * r->heads + head;
    ota_head_status *status = &run->heads[index];
    ota_head_result *result = &status->result;
    status->mass = mass;
    if (mass > 0.0) result->row_error /= mass;
    if (status->nonfinite_rows > 0 && result->status >= OTA_OK)
        result->status = s->stop.strict ? OTA_NONFINITE : OTA_NONFINITE_ROWS;
    const bool alone = ota_column_rule_of(r->problem.columns)->coupling == OTA_COUPLING_NONE;
    if (result->status == OTA_OK && s->stop.fixed && !alone) result->status = OTA_FIXED_ITERS;
    if (result->status < OTA_OK) ota_run_poison(NULL, run->arrays, batch, head);
    if (run->arrays->heads != NULL) run->arrays->heads[index] = *result;
    tell_head_done(run, result);
}

/* ---- chunks of rows ------------------------------------------------------------------------------ */

typedef struct watched_chunks {
    ota_watch watch;
    void (*body)(void *job, int64_t chunk, int worker);
    void *job;
} watched_chunks;

static void watched_chunk(void *context, int64_t chunk, int worker) {
    const watched_chunks *all = context;
    if (ota_watch_ask(&all->watch) == OTA_OK) all->body(all->job, chunk, worker);
}

void ota_each_chunk(ota_passes *passes, void (*body)(void *job, int64_t chunk, int worker),
                    void *job) {
    watched_chunks all = {ota_watch_within(passes->head->settings), body, job};
    if (passes->chunks == 1) {
        body(job, 0, 0);
    } else {
        ota_parallel(passes->head->host.pool, passes->chunks, watched_chunk, &all);
    }
}

void ota_add_chunks(const ota_passes *passes, const double *partial, double *total) {
    memcpy(total, partial, (size_t)passes->columns * sizeof *total);
    for (int64_t chunk = 1; chunk < passes->chunks; chunk++) {
        const double *part = partial + chunk * passes->padded_columns;
        for (int64_t j = 0; j < passes->columns; j++) total[j] += part[j];
    }
}
