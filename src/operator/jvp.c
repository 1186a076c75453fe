/* ota_jvp after its checks: the workspace it reserves, and its walk over heads. What a head's rows need of each
 * other is found first (jvp_coupled.c); rows that are alone or in order need nothing (jvp_rows.c).
 *
 * Memory besides backward's: keys, values and their tangents [keys][width] of one head and blocks of
 * OTA_TANGENT_ROWS rows a worker; coupled columns use backward's matrices. */
#include "jvp.h"
#include "mass_limits.h"

#include <math.h>
#include <string.h>

static double *take(ota_arena *arena, int64_t rows, int64_t columns) {
    return ota_arena_take_rows(arena, rows, columns, sizeof(double));
}

static void take_worker(ota_plan *plan, ota_tangent_worker *w) {
    const int64_t width = plan->resolved.from_matrix ? 0 : plan->resolved.width;
    ota_arena *a = &plan->arena;
    w->scores = take(a, OTA_TANGENT_ROWS, plan->strategy.padded_keys);
    w->tangents = take(a, OTA_TANGENT_ROWS, plan->strategy.padded_keys);
    w->weights = take(a, OTA_TANGENT_ROWS, plan->strategy.padded_keys);
    w->change = take(a, OTA_TANGENT_ROWS, plan->strategy.padded_keys);
    w->queries = take(a, OTA_TANGENT_ROWS, width);
    w->query_tangents = take(a, OTA_TANGENT_ROWS, width);
    w->out = take(a, OTA_TANGENT_ROWS, plan->values_width);
    w->line = take(a, 1, plan->strategy.padded_keys);
}

ota_tangent_space *ota_tangents_lay_out(ota_plan *plan, int64_t lane, bool with_lists) {
    const ota_resolved *r = &plan->resolved;
    ota_arena *a = &plan->arena;
    const bool placed = a->base != NULL;
    const int64_t width = r->from_matrix ? 0 : r->width, stride = plan->strategy.padded_keys;
    ota_tangent_space *home = ota_arena_take(a, 1, sizeof *home), s = {0};
    s.keys = take(a, width, stride);
    s.key_tangents = take(a, width, stride);
    if (with_lists) {
        s.key_rows = take(a, r->keys, width);
        s.key_row_tangents = take(a, r->keys, width);
    }
    s.values = take(a, r->keys, plan->values_width);
    s.value_tangents = take(a, r->keys, plan->values_width);
    s.nonfinite = ota_arena_take(a, (size_t)stride, sizeof(bool));
    s.shut = ota_arena_take(a, (size_t)stride, sizeof(bool));
    s.room = take(a, 1, stride);
    s.room_tangents = take(a, 1, stride);
    s.row_moved = take(a, 1, lane);
    s.column_moved = take(a, 1, lane);
    s.row_sum = take(a, 1, lane);
    s.column_sum = take(a, 1, lane);
    double **const limits[] = {&s.limits.of_query,   &s.limits.of_key, &s.limits.by_keys,
                               &s.limits.by_queries, &s.limits.top,    &s.limits.total};
    for (size_t k = 0; k < sizeof limits / sizeof limits[0]; k++) *limits[k] = take(a, 1, lane);
    s.workers = ota_arena_take(a, (size_t)ota_pool_threads(plan->pool), sizeof(ota_tangent_worker));
    for (int k = 0; k < ota_pool_threads(plan->pool); k++) {
        ota_tangent_worker worker = {0};
        take_worker(plan, &worker);
        if (placed) s.workers[k] = worker;
    }
    if (placed) *home = s;
    return home;
}

/* NaN on the allowed pairs of a head whose tangents were not found. */
static void poison_head(ota_tangent_job *job) {
    const ota_plan *plan = job->base.plan;
    const ota_resolved *r = &plan->resolved;
    ota_tangent_worker *w = job->space->workers;
    ota_watch watch = ota_watch_of(&r->settings);
    for (int64_t i = 0; i < r->queries && !ota_watch_ends(&watch, ota_row_work(r)); i++) {
        ota_tangents_scores(job, w, i, 1);
        for (int64_t j = 0; j < r->keys; j++) {
            w->weights[j] = 0.0;
            w->change[j] = w->scores[j] <= -INFINITY ? 0.0 : (double)NAN;
        }
        ota_tangents_put(job, w, i, 1);
    }
}

/* Not of one head. */
static bool ends_all(ota_status status) {
    return status == OTA_CANCELLED || status == OTA_TIMEOUT || status == OTA_ECOMM;
}

static ota_status follow_head(ota_tangent_job *job) {
    switch (job->base.mode) {
    case OTA_BACKWARD_IMPLICIT: return ota_tangents_implicit(job);
    case OTA_BACKWARD_UNROLLED: return ota_tangents_rounds(job);
    case OTA_BACKWARD_PREFIX: return ota_tangents_prefix(job);
    case OTA_BACKWARD_ONLINE: ota_tangents_online(job); break;
    case OTA_BACKWARD_FREE:
    default: ota_tangents_free(job); break;
    }
    return job->base.plan->resolved.settings.ranks == NULL
               ? ota_interrupted(&job->base.plan->resolved.settings)
               : OTA_OK;
}

void ota_tangents_begin_head(ota_tangent_job *job) {
    const ota_plan *plan = job->base.plan;
    const ota_resolved *r = &plan->resolved;
    const int64_t head = job->base.head;
    job->base.parameters = ota_row_parameters_of(r, job->base.batch, head);
    job->base.parameters.kernels = plan->strategy.kernels;
    job->numbers.temperature = ota_tangent_number(&job->tangents->temperature, head);
    job->numbers.order = ota_tangent_number(&job->tangents->order, 0);
    job->numbers.sink =
        r->has_sink ? ota_tangent_number(ota_tangent_of_term(r, job->tangents, r->term_count), head)
                    : 0.0;
}

static ota_status run_head(ota_tangent_job *job) {
    ota_backward_job *base = &job->base;
    const ota_plan *plan = base->plan;
    const ota_resolved *r = &plan->resolved;
    ota_backward_space *s = base->space;
    ota_tangents_begin_head(job);
    ota_dropout_head(r, base->batch, base->head, base->dropout_key);
    base->state.biased = job->held = false;
    base->residual = 0.0;
    memset(s->bad, 0, (size_t)r->queries * sizeof *s->bad);
    memset(s->f, 0, (size_t)r->queries * sizeof *s->f);
    memset(s->a, 0, (size_t)r->queries * sizeof *s->a);
    memset(s->g, 0, (size_t)plan->strategy.padded_keys * sizeof *s->g);
    memset(s->b, 0, (size_t)plan->strategy.padded_keys * sizeof *s->b);
    for (int64_t i = 0; s->listed != NULL && i < r->queries; i++) s->listed[i] = -1;
    double *const matrix = plan->backend->gradient->memory(plan->device, base->place).matrix;
    if (matrix != NULL) s->matrix = matrix;
    ota_tangents_begin_limits(job);
    const ota_status status = follow_head(job);
    if (status != OTA_OK && !ends_all(status)) poison_head(job);
    return status;
}

ota_status ota_tangents_run(ota_plan *plan, const ota_arrays *arrays, const ota_tangents *tangents,
                            ota_result *found) {
    const ota_resolved *r = &plan->resolved;
    const ota_gradients nothing = {.size = sizeof nothing};
    ota_tangent_job job = {.base = ota_backward_job_of(plan, arrays),
                           .tangents = tangents,
                           .space = plan->backward->tangents};
    job.base.want = &nothing;
    ota_limits_begin(&job.base, &tangents->row_mass, &tangents->column_mass);
    const int64_t group = r->key_heads > 0 ? r->heads / r->key_heads : 0;
    found->status = OTA_OK;
    for (int64_t index = 0; index < r->batch * r->heads; index++) {
        ota_ranks_at(r->settings.ranks, index, -1);
        job.base.batch = index / r->heads;
        job.base.head = index % r->heads;
        job.base.key_head = job.base.head / group;
        if (job.base.head % group == 0) ota_tangents_load(&job);
        const ota_status status = run_head(&job);
        if (ends_all(status)) return status;
        found->backward_residual = ota_larger_error(found->backward_residual, job.base.residual);
        if (status >= OTA_OK || found->status < OTA_OK) continue;
        found->status = status;
        found->head = index;
    }
    return found->status;
}
