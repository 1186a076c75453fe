/* Backward: walks the heads one after another, or side by side where they are small. How the multipliers a, b of a head
 * are found depends on its columns; what is done with them (the passes of backend/gradient.h) does not.
 *
 *     dL/dQ = scale dS' K,  dL/dK = scale dS'^T Q,  dL/dV = P^T dL/dout     [LIT-21]
 *
 * with dS' = dL/dS through the softcap. */
#include "backward.h"
#include "backend/edge.h"
#include "mass_limits.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const ota_gradient_passes *passes_of(const ota_backward_job *job) {
    return job->plan->backend->gradient;
}

/* Not of one head. */
static bool ends_all(ota_status status) {
    return status == OTA_CANCELLED || status == OTA_TIMEOUT || status == OTA_ECOMM;
}

/* ---- implicit --------------------------------------------------------------------------------- */

/* The system of backward.h in the solver's orientation, from what the pass `slopes` left. */
static void gather_system(ota_backward_job *job, ota_adjoint *system, ota_mass_rule *rule) {
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    const ota_problem *p = &r->problem;
    ota_backward_space *s = job->space;
    const int64_t n = plan->strategy.rows, m = plan->strategy.columns;
    double *column_sum = s->vectors; /* until the solve; copied below */
    if (plan->strategy.transposed) {
        /* What the task summed by queries belongs to the columns, by keys to the rows. */
        memcpy(column_sum, s->adjoint.row_sums, (size_t)m * sizeof(double));
        ota_backward_add_chunks(s, s->chunks.plan, n, s->adjoint.row_sums);
        ota_backward_add_chunks(s, s->chunks.right, n, s->adjoint.row_right);
        ota_backward_add_chunks(s, s->chunks.slopes, n, s->adjoint.den);
        ota_backward_soften_keys(job);
        passes_of(job)->transposed_right(job);
    } else {
        ota_backward_add_chunks(s, s->chunks.right, m, s->adjoint.right);
        ota_backward_add_chunks(s, s->chunks.right_terms, m, s->adjoint.right_terms);
        ota_backward_add_chunks(s, s->chunks.plan, m, column_sum);
        double *const sums[] = {s->adjoint.right, s->adjoint.right_terms, column_sum};
        for (int k = 0; k < 3; k++)
            (void)ota_ranks_sum(&r->settings, sums[k], m, NULL, 0, "the right side of backward");
    }
    ota_backward_bind_columns(job, column_sum, NULL, system);
    memcpy(s->adjoint.column_sums, column_sum, (size_t)m * sizeof(double));
    const bool softened = plan->strategy.transposed && ota_backward_is_steep(job);
    for (int64_t i = 0; i < n && p->rows == OTA_ROWS_RELAXED && !softened; i++)
        s->adjoint.den[i] += job->parameters.tau * s->adjoint.row_sums[i] / p->row_strength;
    *rule = (ota_mass_rule){.f = plan->strategy.transposed ? s->g : s->f,
                            .g = plan->strategy.transposed ? s->f : s->g,
                            .row_sum = s->adjoint.row_sums,
                            .column_sum = s->adjoint.column_sums};
}

void ota_backward_pad(const ota_backward_job *job) {
    const ota_strategy *strategy = &job->plan->strategy;
    for (int64_t i = 0; i < strategy->rows; i++) {
        for (int64_t j = strategy->columns; j < strategy->stride; j++) {
            job->space->matrix[i * strategy->stride + j] = -INFINITY;
            job->space->gradient[i * strategy->stride + j] = 0.0;
        }
    }
}

ota_adjoint ota_backward_system(const ota_backward_job *job) {
    const ota_plan *plan = job->plan;
    const ota_backward_space *s = job->space;
    return (ota_adjoint){.rows = plan->strategy.rows,
                         .columns = plan->strategy.columns,
                         .stride = plan->strategy.stride,
                         .slopes = s->matrix,
                         .listed = s->listed,
                         .algebra = plan->strategy.algebra,
                         .den = s->adjoint.den,
                         .row_right = s->adjoint.row_right,
                         .steepest = s->steep.column,
                         .rest = s->steep.rest,
                         .extra = s->adjoint.extra,
                         .held = s->held,
                         .right = s->adjoint.right,
                         .enough = plan->resolved.type == OTA_F64 ? 1.0e-10 : 1.0e-6,
                         .settings = &plan->resolved.settings,
                         .pool = plan->pool,
                         .partial = s->chunks.right,
                         .more = s->chunks.right_terms,
                         .vectors = s->vectors,
                         .couplings = plan->resolved.settings.ranks == NULL ? s->couplings : NULL,
                         .a = plan->strategy.transposed ? s->b : s->a,
                         .b = plan->strategy.transposed ? s->a : s->b};
}

/* How much more than slopes their rounding to f32 may move the multipliers. Gradients may be off by 32 roundings and more
 * (tolerance.h of the tests): a hundredfold has kept a quarter of that, ten thousand seven times it. */
static const double MOST_AMPLIFIED = 32.0;

/* Where f32 misses the sums of the plan by more of the tolerance, f64 does the head. */
static const double NARROW_MISSED = 2.0;

/* Relaxed rows: the right side about their own means. Of many processes each adds what its rows move. */
static void recentre(ota_backward_job *job, ota_adjoint *system) {
    const ota_settings *settings = &job->plan->resolved.settings;
    const int64_t m = settings->ranks == NULL ? 0 : job->plan->strategy.columns;
    double *right = job->space->adjoint.right, *before = job->space->vectors;
    memcpy(before, right, (size_t)m * sizeof *before);
    memset(right, 0, (size_t)m * sizeof *right);
    double scale = passes_of(job)->recentre(job, settings->ranks == NULL ? system->scale : 0.0);
    (void)ota_ranks_sum(settings, right, m, &scale, 1, "the right side of backward");
    for (int64_t j = 0; j < m; j++) right[j] += before[j];
    system->scale = settings->ranks == NULL ? scale : system->scale + scale;
}

static ota_status run_implicit(ota_backward_job *job) {
    const ota_resolved *r = &job->plan->resolved;
    ota_backward_space *s = job->space;
    ota_backward_load_potentials(job);
    passes_of(job)->slopes(job);
    ota_adjoint system = ota_backward_system(job);
    system.narrow = !job->state.wide;
    system.most_amplified = job->choice.begins_narrow && !job->state.wide ? MOST_AMPLIFIED : 0.0;
    ota_mass_rule rule;
    gather_system(job, &system, &rule);
    job->residual = ota_sums_missed(job, &rule);
    if (job->choice.begins_narrow && !job->state.wide &&
        !(job->residual <= NARROW_MISSED * r->settings.stop.tolerance)) {
        job->state.refused = true;
        return OTA_NOT_CONVERGED;
    }
    if (!ota_sums_stand(job)) return OTA_TOL_UNREACHABLE;
    if (r->problem.rows == OTA_ROWS_RELAXED && passes_of(job)->recentre != NULL &&
        !ota_backward_is_steep(job))
        recentre(job, &system);
    const ota_status status = ota_adjoint_solve(&system);
    job->residual = system.residual;
    if (ends_all(status)) return status;
    if (job->choice.begins_narrow && !job->state.wide) {
        job->state.refused = status != OTA_OK;
        for (int64_t i = 0; i < r->queries; i++) job->state.refused |= s->bad[i];
        if (job->state.refused) return OTA_NOT_CONVERGED;
    }
    if (status != OTA_OK) return status;
    ota_backward_place_multipliers(job, &system);
    rule.a = system.a;
    rule.b = system.b;
    ota_backward_find_used(job, rule.column_sum, s->held);
    rule.used = s->held;
    ota_backward_limits(job, s->adjoint.row_sums);
    ota_sums_of_masses(job, &rule);
    ota_backward_forget_limits(job);
    return OTA_OK;
}

/* ---- unrolled --------------------------------------------------------------------------------- */

/* On all ranks, where there are many. */
static bool all_fine(const ota_backward_job *job, bool fine) {
    double bad = fine ? 0.0 : 1.0;
    return ota_ranks_sum(&job->resolved->settings, &bad, 1, NULL, 0, "the rounds of backward") &&
           !(bad > 0.0);
}

static ota_status reverse_on_kernel(ota_backward_job *job, ota_kernel_rounds *rounds) {
    const ota_resolved *r = job->resolved;
    const ota_gradient_passes *passes = passes_of(job);
    ota_backward_space *s = job->space;
    const double *mu = s->rounds->mu;
    passes->kernel_last(job);
    (void)ota_ranks_sum(&r->settings, rounds->g_grad, r->keys, NULL, 0,
                        "the last round's gradient");
    double *transposed = s->rounds->f_grad;
    for (int64_t k = rounds->rounds - 1; k >= 0; k--) {
        const ota_status going = ota_interrupted_together(&r->settings);
        if (going != OTA_OK) return going;
        const double *u = rounds->u + k * rounds->row_lane;
        double *f_grad = rounds->f_grad + k * rounds->row_lane;
        const double top = ota_kernel_rounds_pull(rounds, k);
        const double share = top > 0.0 ? 1.0 / top : 0.0;
        passes->kernel_column(job, rounds->y + k * rounds->column_lane, share);
        for (int64_t i = 0; i < r->queries; i++) s->a[i] = mu[i] > 0.0 ? -u[i] * u[i] / mu[i] : 0.0;
        passes->kernel_reverse(job);
        for (int64_t i = 0; i < r->queries; i++)
            f_grad[i] = mu[i] > 0.0 ? s->f[i] * top * mu[i] / u[i] : 0.0;
        ota_backward_add_chunks(s, s->kernel.column_sums, r->keys, transposed);
        (void)ota_ranks_sum(&r->settings, transposed, r->keys, NULL, 0, "a reversed round");
        ota_kernel_rounds_take(rounds, k, transposed, top);
    }
    return OTA_OK;
}

static void view_row(const void *rounds, int64_t row, double *a) {
    ota_kernel_rounds_row(rounds, row, a);
}
static void view_key(const void *rounds, int64_t key, double *b) {
    ota_kernel_rounds_key(rounds, key, b);
}
static double view_sink(const void *rounds, int64_t row, double weight) {
    return ota_kernel_rounds_sink(rounds, row, weight);
}

/* Lays the rounds of a head out, and what passes see of them. */
static void place_rounds(ota_backward_job *job) {
    const ota_resolved *r = job->resolved;
    ota_backward_space *s = job->space;
    ota_kernel_rounds *rounds = &s->rounds->now;
    ota_head head = ota_backward_head(job);
    *rounds = (ota_kernel_rounds){
        .head = &s->rounds->head, .rounds = r->settings.stop.rounds, .narrow = !job->state.wide};
    s->rounds->head = head;
    rounds->g_grad = s->rounds->g_grad;
    rounds->sums = (ota_unrolled_sums){.row = s->rounds->row_grad, .column = s->vectors};
    memset(rounds->sums.row, 0, (size_t)r->queries * sizeof(double));
    memset(rounds->sums.column, 0, (size_t)r->keys * sizeof(double));
    ota_kernel_rounds_place(rounds, s->rounds->step_memory);
    const int64_t count = rounds->rounds;
    s->kernel = (ota_kernel_view){.width = s->kernel.width,
                                  .count = count,
                                  .row_lane = rounds->row_lane,
                                  .mu = s->rounds->mu,
                                  .column_sums = s->chunks.right,
                                  .usable = s->chunks.right_terms,
                                  .lost = s->chunks.slopes,
                                  .u = rounds->u,
                                  .f_grad = rounds->f_grad + count * rounds->row_lane,
                                  .g_grad = rounds->g_grad,
                                  .row_mass_grad = rounds->sums.row,
                                  .v = rounds->v + count * rounds->column_lane,
                                  .rounds = rounds,
                                  .row = view_row,
                                  .key = view_key,
                                  .sink = view_sink};
}

/* Fixed rounds on their kernel; false where it does not carry them. */
static bool run_on_kernel(ota_backward_job *job, ota_status *stopped) {
    const ota_resolved *r = job->resolved;
    const ota_gradient_passes *passes = passes_of(job);
    ota_backward_space *s = job->space;
    ota_kernel_rounds *rounds = &s->rounds->now;
    place_rounds(job);
    if (job->parameters.tau < 1.0e-30 || job->parameters.tau > 1.0e30 ||
        passes->has_nonfinite_values(job) || !ota_kernel_rounds_begin(rounds))
        return false;
    for (s->kernel.at = 0; s->kernel.at <= rounds->rounds; s->kernel.at++) {
        const int64_t k = s->kernel.at;
        *stopped = ota_interrupted_together(&r->settings);
        if (*stopped != OTA_OK) return true;
        passes->kernel_column(job, rounds->v + k * rounds->column_lane, 1.0);
        if (k == 0)
            passes->kernel_form(job);
        else
            passes->kernel_row_round(job);
        bool fine = true;
        for (int64_t c = 0; c < OTA_ADJOINT_CHUNKS; c++)
            fine = fine && !(s->kernel.lost[c * s->lane] > 0.0);
        if (!all_fine(job, fine)) return false;
        if (k == 0) ota_backward_find_targets(job, rounds);
        if (!all_fine(job, ota_kernel_rounds_rows(rounds, k))) return false;
        if (k == rounds->rounds) break;
        double *sums = rounds->c + k * rounds->column_lane;
        ota_backward_add_chunks(s, s->kernel.column_sums, r->keys, sums);
        (void)ota_ranks_sum(&r->settings, sums, r->keys, NULL, 0, "a round of backward");
        if (k == 0) ota_backward_finish_idle(job, rounds);
        if (!ota_kernel_rounds_columns(rounds, k)) return false;
    }
    bool fine = true;
    for (int64_t i = 0; i < r->queries; i++) fine = fine && !s->bad[i];
    if (!all_fine(job, fine)) return false;
    *stopped = reverse_on_kernel(job, rounds);
    if (*stopped != OTA_OK) return true;
    if (!all_fine(job, ota_kernel_rounds_carried(rounds))) return false;
    passes->kernel_close(job);
    if (ota_ranks_tells(&r->settings)) {
        ota_sums_of_parameters(s, &rounds->sums);
        s->sums.temperature[job->head] += ota_kernel_rounds_temperature(rounds);
    }
    const ota_mass_rule rule = {.a = rounds->sums.row,
                                .b = rounds->sums.column,
                                .f = s->rounds->f,
                                .g = s->rounds->g,
                                .row_sum = s->rounds->mu,
                                .column_sum = s->rounds->nu,
                                .used = s->held,
                                .finished = true};
    ota_sums_of_masses(job, &rule);
    s->kernel.carried = true;
    return true;
}

static ota_status run_unrolled(ota_backward_job *job) {
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    ota_backward_space *s = job->space;
    ota_status stopped = OTA_OK;
    /* One process may want, or have, what another does not. */
    const bool by_kernel = all_fine(job, job->choice.may_use_kernel);
    if (by_kernel && run_on_kernel(job, &stopped)) return stopped;
    job->state.stored = true;
    passes_of(job)->widen(job);
    ota_backward_pad(job);
    ota_head head;
    ota_unrolled u;
    ota_backward_rounds(job, &head, &u);
    ota_status status = ota_unrolled_replay(&u);
    if (status == OTA_OK) status = ota_unrolled_reverse(&u);
    if (status != OTA_OK) return status;
    const double *of_queries = plan->strategy.transposed ? head.g : u.found_f;
    const double *of_keys = plan->strategy.transposed ? u.found_f : head.g;
    memcpy(s->f, of_queries, (size_t)r->queries * sizeof(double));
    memcpy(s->g, of_keys, (size_t)r->keys * sizeof(double));
    ota_backward_close_limits(job);
    passes_of(job)->load_bias(job);
    if (passes_of(job)->mark_top != NULL) passes_of(job)->mark_top(job);
    s->sums.temperature[job->head] += u.sums.temperature;
    if (ota_ranks_tells(&r->settings)) ota_sums_of_parameters(s, &u.sums);
    s->sums.row_strength += u.sums.row_strength;
    s->sums.sink[job->head] += u.sums.sink;
    const ota_mass_rule rule = {.a = u.sums.row,
                                .b = u.sums.column,
                                .f = u.found_f,
                                .g = head.g,
                                .row_sum = head.mu,
                                .column_sum = head.nu,
                                .used = s->held,
                                .finished = true};
    ota_sums_of_masses(job, &rule);
    return OTA_OK;
}

/* ---- prefix ----------------------------------------------------------------------------------- */

static ota_status run_prefix(ota_backward_job *job) {
    const ota_gradient_passes *passes = passes_of(job);
    passes->widen(job);
    ota_backward_pad(job);
    const ota_status status = ota_backward_prefix(job);
    if (passes->mark_nonfinite_rows != NULL) passes->mark_nonfinite_rows(job);
    return status;
}

/* ---- heads ------------------------------------------------------------------------------------ */

static ota_status find_multipliers(ota_backward_job *job) {
    switch (job->mode) {
    case OTA_BACKWARD_ONLINE: passes_of(job)->reverse_online(job); return OTA_OK;
    case OTA_BACKWARD_IMPLICIT: return run_implicit(job);
    case OTA_BACKWARD_UNROLLED: return run_unrolled(job);
    case OTA_BACKWARD_PREFIX: return run_prefix(job);
    case OTA_BACKWARD_FREE:
    default: return OTA_OK;
    }
}

/* Does all that is wanted come from the gradients of outputs? */
static bool may_use_kernel(const ota_backward_job *job) {
    const ota_gradients *want = job->want;
    return job->space->kernel.width > 0 && !job->limits.queries && !job->limits.keys &&
           ota_array_present(&want->out_grad) && !ota_array_present(&want->coupling_grad);
}

/* Are implicit heads tried in f32? Like the rounds of forward: not where that could not meet the tolerance; above order 2, where
 * slopes make alpha - 2 times as much of what is rounded off weights, it left gradients up to 17e-6 off at order 5. */
static bool begins_narrow(const ota_backward_job *job) {
    return ota_ladder_tries_f32(job->plan->strategy.ladder) && !ota_is_steep(job->resolved) &&
           job->plan->resolved.settings.ranks == NULL && job->mode == OTA_BACKWARD_IMPLICIT &&
           job->plan->resolved.settings.stop.tolerance >= 16.0 * (double)FLT_EPSILON / 2.0;
}

/* Packs the keys and values of the key head, in the type that the head is worked on. */
static void pack_again(ota_backward_job *job, bool wide) {
    job->state.wide = wide;
    job->keep_sums = true;
    passes_of(job)->pack_head(job);
}

static void begin_head(ota_backward_job *job) {
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    ota_backward_space *s = job->space;
    job->parameters = ota_row_parameters_of(r, job->batch, job->head);
    job->parameters.kernels = plan->strategy.kernels;
    ota_dropout_head(r, job->batch, job->head, job->dropout_key);
    job->state.biased = false;
    job->state.stored = job->mode == OTA_BACKWARD_PREFIX;
    s->kernel.carried = false;
    job->residual = 0.0;
    for (int64_t i = 0; i < r->queries; i++) {
        s->bad[i] = false;
        s->f[i] = s->a[i] = s->top[i] = 0.0;
    }
    for (int64_t i = 0; i < r->queries * OTA_ROW_SUMS; i++) s->row_sums[i] = 0.0;
    const int64_t edges = plan->strategy.transposed ? r->keys : r->queries;
    for (int64_t i = 0; s->edges != NULL && i < edges; i++) s->edges[i] = (ota_edge){0};
    for (int64_t i = 0; s->listed != NULL && i < r->queries; i++) s->listed[i] = -1;
    for (int64_t j = 0; j < plan->strategy.padded_keys; j++) s->g[j] = s->b[j] = 0.0;
    double *const matrix = passes_of(job)->memory(plan->device, job->place).matrix;
    if (matrix != NULL) s->matrix = matrix;
}

static ota_status run_head(ota_backward_job *job) {
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    ota_backward_space *s = job->space;
    const int64_t index = job->batch * r->heads + job->head;
    ota_ranks_at(r->settings.ranks, index, -1);
    if (job->choice.begins_narrow && job->state.wide) pack_again(job, false);
    begin_head(job);
    ota_status status = find_multipliers(job);
    if (job->state.refused) {
        job->state.refused = false;
        s->outcome.widened++;
        pack_again(job, true);
        begin_head(job);
        status = find_multipliers(job);
    }
    if (ends_all(status)) return status;
    if (status != OTA_OK) {
        for (int64_t i = 0; i < r->queries; i++) {
            s->bad[i] = true;
            s->sums.row_mass[index * r->queries + i] = (double)NAN;
        }
        for (int64_t j = 0; j < r->keys; j++)
            s->sums.column_mass[index * r->keys + j] = (double)NAN;
        s->sums.parameters[0] = s->sums.parameters[1] = s->sums.row_strength = (double)NAN;
        s->sums.temperature[job->head] = s->sums.sink[job->head] = (double)NAN;
    }
    if (job->choice.tiled) {
        passes_of(job)->run_coupled_tiles(job);
    } else {
        passes_of(job)->write(job);
        ota_sums_of_head(job);
        ota_backward_free_limits(job);
    }
    for (int64_t i = 0; i < r->queries; i++) {
        if (s->bad[i]) s->sums.row_mass[index * r->queries + i] = (double)NAN;
    }
    const ota_status stopped = ota_interrupted_together(&r->settings);
    return stopped != OTA_OK ? stopped : status;
}

/* All query heads of key head `index` of the batch, by the head worker of the job. */
static ota_status run_key_head(ota_backward_job *job, int64_t index) {
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    ota_backward_space *s = job->space;
    const int64_t group = r->heads / r->key_heads;
    job->batch = index / r->key_heads;
    job->key_head = index % r->key_heads;
    job->state.wide = ota_ladder_ends_f64(plan->strategy.ladder) && !job->choice.begins_narrow;
    job->keep_sums = false;
    passes_of(job)->pack_head(job);
    for (int64_t k = 0; k < group; k++) {
        job->head = job->key_head * group + k;
        const ota_status status = run_head(job);
        if (ends_all(status)) return status;
        s->outcome.residual = ota_larger_error(s->outcome.residual, job->residual);
        const int64_t head = job->batch * r->heads + job->head;
        if (status >= OTA_OK || (s->outcome.status < OTA_OK && s->outcome.failed < head)) continue;
        s->outcome.status = status;
        s->outcome.failed = head;
    }
    passes_of(job)->put_keys(job);
    return OTA_OK;
}

ota_backward_job ota_backward_job_of(ota_plan *plan, const ota_arrays *arrays) {
    return (ota_backward_job){.plan = plan,
                              .device = plan->device,
                              .resolved = &plan->resolved,
                              .pool = plan->pool,
                              .values_width = plan->values_width,
                              .arrays = arrays,
                              .space = plan->backward,
                              .mode = ota_backward_mode_of(plan),
                              .state.wide = ota_ladder_ends_f64(plan->strategy.ladder)};
}

static ota_backward_job job_of(const ota_backward_job *first, int head_worker) {
    ota_backward_job job = *first;
    const ota_plan *plan = job.plan;
    job.worker = head_worker;
    job.space = plan->backward + head_worker;
    job.place = head_worker;
    return job;
}

static void key_head_task(void *context, int64_t index, int worker) {
    const ota_backward_job *first = context;
    if (ota_interrupted(&first->plan->resolved.settings) != OTA_OK) return;
    ota_backward_job job = job_of(first, worker);
    (void)run_key_head(&job, index);
}

/* Gradients that many heads share are added head after head, so that their bits depend on no thread. */
static bool shares_nothing(const ota_backward_job *job) {
    const ota_resolved *r = &job->plan->resolved;
    const ota_gradients *want = job->want;
    const ota_array *const shared[] = {&want->temperature, &want->order, &want->cap,
                                       &want->lower,       &want->upper, &want->strength,
                                       &want->row_strength};
    for (size_t k = 0; k < sizeof shared / sizeof shared[0]; k++) {
        if (ota_array_present(shared[k])) return false;
    }
    for (int t = 0; t < r->term_count + (r->has_sink ? 1 : 0); t++) {
        if (ota_gradient_of_term(r, want, t) != NULL) return false;
    }
    return true;
}

ota_status ota_backward_run(ota_plan *plan, const ota_arrays *arrays, const ota_gradients *want,
                            ota_result *found) {
    const ota_resolved *r = &plan->resolved;
    const ota_gradient_passes *passes = plan->backend->gradient;
    ota_backward_job job = ota_backward_job_of(plan, arrays);
    job.want = want;
    ota_limits_begin(&job, &want->row_mass, &want->column_mass);
    job.choice.tiled = passes->tiles_fit != NULL && passes->tiles_fit(&job) &&
                       !(job.mode == OTA_BACKWARD_FREE && job.limits.queries);
    job.choice.may_use_kernel = may_use_kernel(&job);
    job.choice.begins_narrow = begins_narrow(&job);
    if (job.choice.tiled && job.mode == OTA_BACKWARD_FREE) {
        ota_sums_clear(plan);
        found->status = passes->run_tiles(&job);
        ota_sums_write(plan, want);
        return found->status;
    }
    job.choice.sums = ota_array_present(&want->temperature) || ota_array_present(&want->order) ||
                      (r->has_sink && ota_gradient_of_term(r, want, r->term_count) != NULL);
    ota_sums_clear(plan);
    for (int k = 0; k < plan->head_worker_count; k++) {
        plan->backward[k].outcome.status = OTA_OK;
        plan->backward[k].outcome.residual = 0.0;
        plan->backward[k].outcome.widened = 0;
    }
    const int64_t heads = r->batch * r->key_heads;
    /* Heads side by side while they fill the threads, the rest one after another in pieces. */
    const int64_t side = plan->head_worker_count > 1 && shares_nothing(&job)
                             ? heads / plan->head_worker_count * plan->head_worker_count
                             : 0;
    ota_parallel(plan->pool, side, key_head_task, &job);
    ota_status stopped = side > 0 ? ota_interrupted(&r->settings) : OTA_OK;
    for (int64_t k = side; k < heads && stopped == OTA_OK; k++) stopped = run_key_head(&job, k);
    if (stopped != OTA_OK) return stopped;
    found->status = OTA_OK;
    int64_t widened = 0;
    for (int k = 0; k < plan->head_worker_count; k++) {
        const ota_backward_space *s = plan->backward + k;
        widened += s->outcome.widened;
        found->backward_residual = ota_larger_error(found->backward_residual, s->outcome.residual);
        const bool later = found->status < OTA_OK && found->head < s->outcome.failed;
        if (s->outcome.status >= OTA_OK || later) continue;
        found->status = s->outcome.status;
        found->head = s->outcome.failed;
    }
    if (job.choice.begins_narrow) found->promoted = widened == r->batch * r->heads;
    ota_sums_write(plan, want);
    return found->status;
}
