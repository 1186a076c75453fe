/* Tangents of coupled columns. Tolerance mode solves the system of jvp.h by the conjugate gradients of
 * backward on the semi-dual; fixed rounds move their updates one after another (solvers/derivatives/unrolled_tangents.c);
 * prefix solves every leading block again and keeps its last row [DER-04, DER-12..15].
 *
 *     right_j = sum_i w_ij (U_ij - row_right_i / den_i) - tau dC_j,   row_right_i = sum_j w_ij U_ij - tau dR_i
 *
 * State: what backward reserves, one or two matrices [dense_rows][dense_stride]. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "jvp.h"
#include "mass_limits.h"

typedef void block_body(ota_tangent_job *job, ota_tangent_worker *w, int64_t first, int64_t rows,
                        int64_t chunk);

typedef struct block_walk {
    ota_tangent_job *job;
    block_body *body;
} block_walk;

static void walk_chunk(void *context, int64_t chunk, int worker) {
    const block_walk *walk = context;
    const ota_resolved *r = &walk->job->base.plan->resolved;
    ota_tangent_worker *w = &walk->job->space->workers[worker];
    int64_t first, last;
    ota_adjoint_rows(r->queries, chunk, &first, &last);
    for (int64_t at = first; at < last; at += OTA_TANGENT_ROWS) {
        const int64_t rows = ota_int_min(OTA_TANGENT_ROWS, last - at);
        if (ota_interrupted(&r->settings) != OTA_OK) return;
        walk->body(walk->job, w, at, rows, chunk);
    }
}

/* All queries, block by block, to `body`. Of many ranks none may leave before their next sum. */
static ota_status run_rows(ota_tangent_job *job, block_body *body) {
    block_walk walk = {job, body};
    ota_backward_space *s = job->base.space;
    ota_backward_clear_chunks(s, 0, OTA_ADJOINT_CHUNKS);
    ota_parallel(job->base.plan->pool, OTA_ADJOINT_CHUNKS, walk_chunk, &walk);
    return ota_interrupted_together(&job->base.plan->resolved.settings);
}

static ota_block_matrix matrix_of(const ota_tangent_job *job, double *data) {
    const ota_strategy *strategy = &job->base.plan->strategy;
    return ota_block_matrix_of(data, strategy->stride, strategy->transposed);
}

static void emit_block(ota_tangent_job *job, ota_tangent_worker *w, int64_t first, int64_t rows,
                       int64_t chunk) {
    (void)chunk;
    if (ota_tangents_emit_lists(job, w, first, rows)) return;
    ota_tangents_scores(job, w, first, rows);
    for (int64_t k = 0; k < rows; k++) (void)ota_tangents_solve(job, w, k, first + k);
    ota_tangents_emit(job, w, first, rows);
}

/* Scores and dS in the solver's orientation. */
static void widen_block(ota_tangent_job *job, ota_tangent_worker *w, int64_t first, int64_t rows,
                        int64_t chunk) {
    (void)chunk;
    const ota_block b = ota_tangents_block(job, w, first, rows);
    const ota_block_matrix scores = matrix_of(job, job->base.space->matrix),
                           upstream = matrix_of(job, job->base.space->gradient);
    ota_tangents_scores(job, w, first, rows);
    ota_block_put_scores(&b, &scores, &upstream);
}

/* ---- implicit --------------------------------------------------------------------------------- */

/* From where such keys measure. */
static void middle_block(ota_tangent_job *job, ota_tangent_worker *w, int64_t first, int64_t rows,
                         int64_t chunk) {
    (void)chunk;
    const ota_plan *plan = job->base.plan;
    const ota_steep_rows *steep = &job->base.space->steep;
    ota_tangents_scores(job, w, first, rows);
    for (int64_t k = 0; k < rows; k++) {
        (void)ota_tangents_solve(job, w, k, first + k);
        for (int64_t j = 0; j < plan->resolved.keys; j++) {
            if (steep->column[j] == first + k)
                steep->middle[j] = w->tangents[k * plan->strategy.padded_keys + j];
        }
    }
}

/* Row i of the head: where U is measured, its sums, its share of the right side. Where the solver's rows are keys their means are
 * not known yet. */
static void add_row(ota_tangent_job *job, const ota_system_row *of, ota_block_row *row, int64_t i,
                    int64_t chunk) {
    ota_backward_space *s = job->base.space;
    const bool transposed = job->base.plan->strategy.transposed;
    const ota_problem *p = &job->base.resolved->problem;
    const double tau = job->base.parameters.tau;
    double moved = 0.0;
    if (!transposed) {
        row->soft = p->rows == OTA_ROWS_RELAXED ? tau * row->sum / p->row_strength : 0.0;
        moved = tau * (ota_tangents_of_row(job, i, row->sum, s->f[i], false) -
                       job->space->limits.by_keys[i]);
        if (ota_backward_is_steep(&job->base)) ota_system_measure(of, row, i, &s->steep);
    }
    const ota_chunk_sums sums = ota_backward_chunk(s, chunk);
    const ota_system_totals found = ota_system_add(of, row, moved, !transposed, &sums);
    if (transposed) {
        job->space->column_sum[i] = found.sum;
        return;
    }
    job->space->row_sum[i] = row->sum;
    s->adjoint.den[i] = found.den + row->soft;
    s->adjoint.row_right[i] = found.right;
}

/* The pairs with weight of row k of a block as a list in the matrix; false: they are too many, or the row is not a number. */
static bool keep_list(const ota_tangent_job *job, const ota_tangent_worker *w, int64_t k,
                      int64_t i) {
    const ota_plan *plan = job->base.plan;
    const ota_backward_space *s = job->base.space;
    const int64_t m = plan->resolved.keys;
    const double *p = w->weights + k * plan->strategy.padded_keys;
    const ota_block b = ota_tangents_block(job, w, i - k, k + 1);
    double *row = s->matrix + i * plan->strategy.stride;
    int64_t count = 0, full = 0;
    for (int64_t j = 0; j < m; j++) {
        if (!(p[j] > 0.0)) continue;
        const bool at_cap = p[j] >= ota_block_cap(&b, k, j);
        full += at_cap;
        count += !at_cap;
    }
    if (s->bad[i] || !ota_slope_list_fits(plan->strategy.stride, count, full)) return false;
    const ota_slope_list list = ota_slope_list_at(row, count, full, sizeof *row);
    double *slopes = list.slopes, *weights = list.weights, *caps = list.full_weights;
    for (int64_t j = 0, e = 0, c = 0; j < m; j++) {
        if (!(p[j] > 0.0)) continue;
        if (p[j] >= ota_block_cap(&b, k, j)) {
            caps[c] = p[j];
            list.full_keys[c++] = (int32_t)j;
            continue;
        }
        slopes[e] = ota_block_slope(&b, k, j);
        weights[e] = p[j];
        list.keys[e++] = (int32_t)j;
    }
    s->listed[i] = count;
    s->full[i] = full;
    return true;
}

/* A block whose rows have few pairs with weight, as lists, of which alone dS is formed and which nothing forms again. Not where
 * pairs without weight have a part of dP. */
static bool system_lists(ota_tangent_job *job, ota_tangent_worker *w, int64_t first, int64_t rows,
                         int64_t chunk) {
    const ota_backward_job *base = &job->base;
    const ota_plan *plan = base->plan;
    const ota_backward_space *s = base->space;
    ota_block_row found[OTA_TANGENT_ROWS];
    int64_t begin, end;
    ota_adjoint_rows(plan->resolved.queries, chunk, &begin, &end);
    /* Until a block of the chunk has too many. */
    bool listed = s->listed != NULL && (first == begin || s->listed[first - 1] >= 0) &&
                  !base->limits.queries && !base->limits.keys;
    if (!listed) return false;
    ota_tangents_scores_alone(job, w, first, rows);
    for (int64_t k = 0; k < rows && listed; k++) {
        found[k] = ota_tangents_weigh(job, w, k, first + k);
        listed = keep_list(job, w, k, first + k);
    }
    for (int64_t k = 0; k < rows; k++) {
        const int64_t i = first + k;
        if (!listed) {
            s->listed[i] = -1;
            continue;
        }
        const ota_slope_list list = ota_slope_list_at(s->matrix + i * plan->strategy.stride,
                                                      s->listed[i], s->full[i], sizeof *s->matrix);
        double *u = list.upstream;
        const double *p = list.weights;
        ota_tangents_of_list(job, w, k, i, &list);
        for (int64_t e = 0; e < list.count; e++) {
            const double score = w->scores[k * plan->strategy.padded_keys + list.keys[e]];
            u[e] += ota_number_tangent(&base->parameters, &job->numbers, score, s->f[i], p[e]);
        }
        const ota_system_row of = {.slopes = list.slopes,
                                   .weights = p,
                                   .u = u,
                                   .full_weights = list.full_weights,
                                   .keys = list.keys,
                                   .full_keys = list.full_keys,
                                   .count = list.count,
                                   .full = list.full};
        add_row(job, &of, &found[k], i, chunk);
    }
    return listed;
}

/* w of a block into the matrix, its sums. */
static void system_block(ota_tangent_job *job, ota_tangent_worker *w, int64_t first, int64_t rows,
                         int64_t chunk) {
    const ota_block b = ota_tangents_block(job, w, first, rows);
    const ota_block_matrix slopes = matrix_of(job, job->base.space->matrix);
    if (system_lists(job, w, first, rows, chunk)) return;
    ota_tangents_scores(job, w, first, rows);
    for (int64_t k = 0; k < rows; k++) {
        const int64_t at = k * b.stride;
        const ota_system_row of = {.slopes = w->change + at,
                                   .weights = b.weights + at,
                                   .u = b.slopes + at,
                                   .count = b.keys};
        ota_block_row row = ota_tangents_solve(job, w, k, first + k);
        ota_block_find_slopes(&b, k, 0, b.keys, w->change + at);
        if (job->base.plan->strategy.transposed) ota_system_measure_by_keys(&b, k, &job->base);
        add_row(job, &of, &row, first + k, chunk);
    }
    ota_block_put(&b, w->change, &slopes);
}

/* Where the solver's rows are keys, once their means are known. */
static void transposed_right(ota_tangent_job *job, ota_tangent_worker *w, int64_t first,
                             int64_t rows, int64_t chunk) {
    (void)chunk;
    const ota_backward_space *s = job->base.space;
    const ota_block b = ota_tangents_block(job, w, first, rows);
    const ota_block_matrix slopes = matrix_of(job, s->matrix);
    ota_tangents_scores(job, w, first, rows);
    ota_block_take(&b, &slopes, w->change);
    for (int64_t k = 0; k < rows; k++) {
        (void)ota_tangents_solve(job, w, k, first + k);
        ota_system_measure_by_keys(&b, k, &job->base);
        ota_system_add_query(w->change + k * b.stride, w->tangents + k * b.stride, b.keys,
                             s->vectors, &s->adjoint.right[first + k],
                             &s->adjoint.right_terms[first + k]);
    }
}

static ota_status form_transposed(ota_tangent_job *job) {
    const ota_plan *plan = job->base.plan;
    const ota_problem *p = &plan->resolved.problem;
    ota_backward_space *s = job->base.space;
    const double tau = job->base.parameters.tau;
    const ota_status status = run_rows(job, system_block);
    ota_backward_add_chunks(s, s->chunks.plan, plan->strategy.rows, job->space->row_sum);
    ota_backward_add_chunks(s, s->chunks.slopes, plan->strategy.rows, s->adjoint.den);
    ota_backward_add_chunks(s, s->chunks.right, plan->strategy.rows, s->adjoint.row_right);
    for (int64_t i = 0; i < plan->strategy.rows; i++) {
        const double sum = job->space->row_sum[i];
        const double soft = p->rows == OTA_ROWS_RELAXED ? tau * sum / p->row_strength : 0.0;
        s->adjoint.den[i] += soft;
        if (ota_backward_is_steep(&job->base)) {
            s->steep.rest[i] = soft;
            s->adjoint.row_right[i] -= soft * s->steep.middle[i];
        }
        s->adjoint.row_right[i] -= tau * (ota_tangents_of_row(job, i, sum, s->g[i], false) -
                                          job->space->limits.by_queries[i]);
        s->vectors[i] = s->adjoint.den[i] > 0.0 ? s->adjoint.row_right[i] / s->adjoint.den[i] : 0.0;
    }
    return status == OTA_OK ? run_rows(job, transposed_right) : status;
}

static ota_status form_straight(ota_tangent_job *job) {
    ota_backward_space *s = job->base.space;
    const ota_status status = run_rows(job, system_block);
    const int64_t columns = job->base.plan->strategy.columns;
    ota_backward_add_chunks(s, s->chunks.right, columns, s->adjoint.right);
    ota_backward_add_chunks(s, s->chunks.right_terms, columns, s->adjoint.right_terms);
    ota_backward_add_chunks(s, s->chunks.plan, columns, job->space->column_sum);
    const ota_settings *settings = &job->base.plan->resolved.settings;
    double *const sums[] = {s->adjoint.right, s->adjoint.right_terms, job->space->column_sum};
    for (int k = 0; k < 3; k++)
        (void)ota_ranks_sum(settings, sums[k], columns, NULL, 0, "the right side of jvp");
    return status == OTA_OK ? ota_interrupted_together(settings) : status;
}

static void load_potentials(ota_tangent_job *job) {
    ota_backward_job *base = &job->base;
    const ota_resolved *r = &base->plan->resolved;
    for (int64_t j = 0; j < r->keys; j++)
        base->space->g[j] =
            ota_array_get(&base->arrays->column_potential, base->batch, base->head, 0, j);
    job->held = base->plan->strategy.transposed;
    for (int64_t i = 0; i < r->queries && job->held; i++)
        base->space->f[i] =
            ota_array_get(&base->arrays->row_potential, base->batch, base->head, 0, i);
    base->state.biased = true;
}

/* What the columns' own rule adds, and which of them do not answer. */
static void bind_columns(ota_tangent_job *job, ota_adjoint *system) {
    const ota_plan *plan = job->base.plan;
    ota_backward_space *s = job->base.space;
    const double *f = plan->strategy.transposed ? s->g : s->f,
                 *g = plan->strategy.transposed ? s->f : s->g;
    const ota_tangent_limits *limits = &job->space->limits;
    const double *rows_grow = plan->strategy.transposed ? limits->of_key : limits->of_query,
                 *taken = plan->strategy.transposed ? limits->by_keys : limits->by_queries;
    ota_backward_find_used(&job->base, job->space->column_sum, s->held);
    for (int64_t i = 0; i < plan->strategy.rows; i++) {
        if (rows_grow[i] < 0.0 || rows_grow[i] > 0.0) job->space->row_sum[i] = DBL_MIN;
    }
    const ota_mass_rule rule = {.f = f,
                                .g = g,
                                .row_sum = job->space->row_sum,
                                .column_sum = job->space->column_sum,
                                .used = s->held};
    ota_tangents_of_columns(job, &rule, job->space->column_moved);
    double *moved = job->space->column_moved;
    for (int64_t j = 0; j < plan->strategy.columns; j++) {
        const bool grows = ota_mass_grows(&job->base, plan->strategy.transposed, j);
        moved[j] = grows ? 0.0 : job->base.parameters.tau * (moved[j] - taken[j]);
    }
    ota_backward_bind_columns(&job->base, job->space->column_sum, moved, system);
}

ota_status ota_tangents_implicit(ota_tangent_job *job) {
    load_potentials(job);
    ota_tangents_find_limits(job);
    if (ota_backward_has_key_edges(&job->base)) {
        const ota_status formed = run_rows(job, widen_block);
        if (formed != OTA_OK) return formed;
        ota_backward_find_edges(&job->base, false);
        const ota_status measured = run_rows(job, middle_block);
        if (measured != OTA_OK) return measured;
    }
    ota_status status =
        job->base.plan->strategy.transposed ? form_transposed(job) : form_straight(job);
    if (status != OTA_OK) return status;
    ota_adjoint system = ota_backward_system(&job->base);
    bind_columns(job, &system);
    const ota_mass_rule rule = {.column_sum = job->space->column_sum};
    job->base.residual = ota_sums_missed(&job->base, &rule);
    if (!ota_sums_stand(&job->base)) return OTA_TOL_UNREACHABLE;
    status = ota_adjoint_solve(&system);
    job->base.residual = system.residual;
    if (status == OTA_OK) ota_backward_place_multipliers(&job->base, &system);
    return status == OTA_OK ? run_rows(job, emit_block) : status;
}

/* ---- fixed rounds ----------------------------------------------------------------------------- */

/* Padded, too, as its kernels want them. */
static ota_status widen(ota_tangent_job *job) {
    ota_backward_pad(&job->base);
    return run_rows(job, widen_block);
}

ota_status ota_tangents_rounds(ota_tangent_job *job) {
    const ota_plan *plan = job->base.plan;
    const ota_resolved *r = &plan->resolved;
    ota_backward_space *s = job->base.space;
    ota_status status = widen(job);
    if (status != OTA_OK) return status;
    ota_head head;
    ota_unrolled rounds;
    ota_backward_rounds(&job->base, &head, &rounds);
    const ota_mass_rule rule = {
        .row_sum = head.mu, .column_sum = head.nu, .g = head.g, .used = s->held, .finished = true};
    for (int64_t i = 0; i < plan->strategy.rows; i++)
        job->space->row_moved[i] = ota_tangents_of_row(job, i, head.mu[i], 0.0, true);
    ota_tangents_of_columns(job, &rule, job->space->column_moved);
    const ota_unrolled_tangents tangents = {
        .temperature = job->numbers.temperature,
        .parameters = {ota_tangent_of_parameter(job, 0), ota_tangent_of_parameter(job, 1)},
        .row_strength = ota_tangent_number(&job->tangents->row_strength, 0),
        .sink = job->numbers.sink,
        .row = job->space->row_moved,
        .column = job->space->column_moved};
    status = ota_unrolled_replay(&rounds);
    if (status == OTA_OK) status = ota_unrolled_follow(&rounds, &tangents);
    if (status != OTA_OK) return status;
    const double *of_rows[] = {rounds.found_f, rounds.f_grad},
                 *of_columns[] = {head.g, rounds.g_grad};
    const int transposed = plan->strategy.transposed ? 1 : 0;
    const double *const *queries = transposed ? of_columns : of_rows;
    const double *const *keys = transposed ? of_rows : of_columns;
    for (int64_t i = 0; i < r->queries; i++) {
        s->f[i] = queries[0][i];
        s->a[i] = -queries[1][i];
    }
    for (int64_t j = 0; j < r->keys; j++) {
        s->g[j] = keys[0][j];
        s->b[j] = -keys[1][j];
    }
    job->held = job->base.state.biased = true;
    return run_rows(job, emit_block);
}

/* ---- prefix ----------------------------------------------------------------------------------- */

/* Row k of a leading block: w into the slopes, its sums, its share of the right side; P and U stay in the worker. */
static void block_row(ota_tangent_job *job, const ota_head *block, int64_t k) {
    const ota_backward_space *space = job->base.space;
    ota_tangent_worker *w = job->space->workers;
    const double moved = block->tau * ota_tangents_of_row(job, k, block->mu[k], 0.0, false);
    ota_block row = ota_prefix_row(&job->base, block, k);
    row.weights = w->weights;
    row.slopes = w->tangents;
    memcpy(w->tangents, space->gradient + k * block->scores.stride,
           (size_t)row.keys * sizeof(double));
    ota_prefix_solve(&row, block, k);
    ota_complete_tangents(&job->base.parameters, &job->numbers, row.scores, block->f[k], w->weights,
                          row.keys, w->tangents);
    ota_prefix_add(&job->base, block, &row, moved);
}

/* The block's last row: what it holds is dP of that query. */
static ota_status follow_block(void *context, const ota_head *block) {
    ota_backward_job *base = context;
    ota_tangent_job *job = context;
    ota_backward_space *space = base->space;
    const ota_block_parts *v = space->block;
    ota_tangent_worker *w = job->space->workers;
    const int64_t last = block->rows - 1, m = block->columns, keys = base->plan->resolved.keys;
    const double *s = space->matrix + last * block->scores.stride;
    double total = 0.0, usable = 0.0;
    ota_prefix_begin(base, block);
    memset(w->change, 0, (size_t)keys * sizeof(double));
    memset(w->weights, 0, (size_t)keys * sizeof(double));
    for (int64_t j = 0; j < keys; j++) w->scores[j] = j < m ? s[j] : -INFINITY;
    if (block->mu[last] > 0.0) {
        ota_watch watch = ota_watch_of(&base->plan->resolved.settings);
        for (int64_t k = 0; k <= last && !ota_watch_ends(&watch, m); k++) {
            block_row(job, block, k);
            total += ota_tangents_of_row(job, k, block->mu[k], 0.0, false);
        }
        for (int64_t j = 0; j < m; j++) usable += block->nu[j] > 0.0 ? 1.0 : 0.0;
        for (int64_t j = 0; j < m; j++) {
            if (block->nu[j] > 0.0) v->right[j] -= block->tau * total / usable;
        }
        const ota_status status = ota_prefix_system(base, block, fabs(block->tau * total));
        if (status != OTA_OK) return status;
    }
    for (int64_t j = 0; j < m; j++) {
        if (!(w->weights[j] > 0.0)) continue;
        const double u = w->tangents[j];
        const double apart = space->steep.column != NULL
                                 ? ota_steep_apart(&space->steep, last, j, space->b, u)
                                 : u - space->a[last] - space->b[j];
        w->change[j] = space->slopes[last * block->scores.stride + j] / block->tau * apart;
    }
    ota_tangents_put(job, w, last, 1);
    return OTA_OK;
}

ota_status ota_tangents_prefix(ota_tangent_job *job) {
    const ota_status status = widen(job);
    return status == OTA_OK ? ota_backward_blocks(&job->base, follow_block) : status;
}
