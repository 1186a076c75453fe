/* Tangents of single rows. With the sums of a row's weights fixed at R_i,
 *
 *     a_i = (sum_j w_ij U_ij + sink's w U - tau dR_i) / (sum_j w_ij + sink's w)
 *
 * Online: a key whose capacity C_j ran out in row i has dP_ij = dC_j there and 0 later; the open keys share
 * dR_i - sum of those. Every row then leaves dC_j - dP_ij to the next. */
#include <math.h>
#include <string.h>

#include "jvp.h"

ota_block ota_tangents_block(const ota_tangent_job *job, const ota_tangent_worker *w, int64_t first,
                             int64_t rows) {
    const ota_backward_job *base = &job->base;
    const ota_plan *plan = base->plan;
    ota_block b = {.problem = &plan->resolved,
                   .algebra = plan->strategy.algebra,
                   .rule = base->parameters,
                   .batch = base->batch,
                   .head = base->head,
                   .first = first,
                   .rows = rows,
                   .keys = plan->resolved.keys,
                   .stride = plan->strategy.padded_keys,
                   .scores = w->scores,
                   .weights = w->weights,
                   .slopes = w->tangents,
                   .f = base->space->f + first,
                   .key_edges = ota_backward_has_key_edges(base) ? base->space->edges : NULL,
                   .g = base->state.biased ? base->space->g : NULL};
    memcpy(b.dropout_key, base->dropout_key, sizeof b.dropout_key);
    return b;
}

/* ---- pairs ------------------------------------------------------------------------------------ */

void ota_tangents_of_sink(const ota_tangent_job *job, double f, double weight,
                          ota_block_row *found) {
    const double sink = job->base.parameters.sink;
    found->sink_slope = found->sink_u = 0.0;
    if (!(sink > -INFINITY) || !(weight > 0.0)) return;
    found->sink_slope = ota_pair_slope(&job->base.parameters, sink, f, weight, INFINITY);
    found->sink_u = job->numbers.sink +
                    ota_number_tangent(&job->base.parameters, &job->numbers, sink, f, weight);
}

/* -f of a row within caps as forward left it, from where its threshold is not far; NAN: nobody knows. */
static double level_before(const ota_tangent_job *job, int64_t query) {
    const ota_backward_job *base = &job->base;
    const ota_array *f = &base->arrays->row_potential;
    const bool known = base->mode == OTA_BACKWARD_IMPLICIT && !job->held &&
                       base->parameters.regulariser->capped && ota_array_present(f);
    return known ? -ota_array_get(f, base->batch, base->head, 0, query) : NAN;
}

ota_block_row ota_tangents_weigh(const ota_tangent_job *job, ota_tangent_worker *w, int64_t k,
                                 int64_t query) {
    const ota_backward_job *base = &job->base;
    const double level = level_before(job, query);
    ota_block b = ota_tangents_block(job, w, query - k, k + 1);
    ota_row_found found;
    b.rule.threshold = isnan(level) ? NULL : &level;
    if (job->held) {
        ota_block_weigh_row(&b, k, &found);
    } else {
        ota_block_solve(&b, k, ota_row_mass(base->resolved, base->batch, base->head, query),
                        &found);
        base->space->f[query] = found.potential;
        base->space->bad[query] |= found.nonfinite;
    }
    ota_block_row row = {.sum = found.mass + found.sink};
    ota_tangents_of_sink(job, base->space->f[query], found.sink, &row);
    return row;
}

ota_block_row ota_tangents_solve(const ota_tangent_job *job, ota_tangent_worker *w, int64_t k,
                                 int64_t query) {
    const ota_plan *plan = job->base.plan;
    const int64_t at = k * plan->strategy.padded_keys;
    const ota_block_row row = ota_tangents_weigh(job, w, k, query);
    ota_complete_tangents(&job->base.parameters, &job->numbers, w->scores + at,
                          job->base.space->f[query], w->weights + at, plan->resolved.keys,
                          w->tangents + at);
    return row;
}

/* ---- out -------------------------------------------------------------------------------------- */

static bool uses_nonfinite(const ota_tangent_job *job, const double *s, const double *p) {
    for (int64_t j = 0; j < job->base.plan->resolved.keys; j++) {
        if (!job->space->nonfinite[j] || !(s[j] > -INFINITY)) continue;
        if (!job->base.parameters.regulariser->thresholded || p[j] > 0.0) return true;
    }
    return false;
}

void ota_tangents_put(const ota_tangent_job *job, ota_tangent_worker *w, int64_t first,
                      int64_t rows) {
    const ota_backward_job *base = &job->base;
    const ota_plan *plan = base->plan;
    const int64_t m = plan->resolved.keys, width = plan->values_width,
                  stride = plan->strategy.padded_keys;
    if (ota_array_present(&job->tangents->coupling)) {
        base->plan->strategy.algebra->write_rows(&job->tangents->coupling, base->batch, base->head,
                                                 first, rows, w->change, stride);
    }
    if (!ota_array_present(&job->tangents->out) || width == 0) return;
    const ota_block b = ota_tangents_block(job, w, first, rows);
    for (int64_t k = 0; k < rows; k++) {
        ota_block_drop(&b, k, w->change + k * stride);
        ota_block_drop(&b, k, w->weights + k * stride);
    }
    const ota_host_algebra *algebra = plan->strategy.algebra;
    memset(w->out, 0, (size_t)(rows * width) * sizeof(double));
    const ota_product sizes = {rows, m, width, stride, width, width};
    algebra->apply(w->change, job->space->values, &sizes, w->out);
    if (ota_array_present(&job->tangents->values))
        algebra->apply(w->weights, job->space->value_tangents, &sizes, w->out);
    for (int64_t k = 0; k < rows; k++) {
        if (!uses_nonfinite(job, w->scores + k * stride, w->weights + k * stride)) continue;
        for (int64_t c = 0; c < width; c++) w->out[k * width + c] = (double)NAN;
    }
    base->plan->strategy.algebra->write_rows(&job->tangents->out, base->batch, base->head, first,
                                             rows, w->out, width);
}

/* dP of row k of a block from its list, and d out, of width 0 where it is not wanted. */
static void move_list(const ota_tangent_job *job, ota_tangent_worker *w, int64_t k, int64_t query,
                      int64_t width) {
    const ota_backward_space *space = job->base.space;
    const ota_plan *plan = job->base.plan;
    const ota_slope_list list =
        ota_slope_list_at(space->matrix + query * plan->strategy.stride, space->listed[query],
                          space->full[query], sizeof *space->matrix);
    const double *slopes = list.slopes, *weights = list.weights, *u = list.upstream,
                 *caps = list.full_weights;
    const double rate = 1.0 / job->base.parameters.tau, a = space->a[query];
    const bool with_values = ota_array_present(&job->tangents->values),
               with_coupling = ota_array_present(&job->tangents->coupling);
    const bool drops = plan->resolved.problem.dropout > 0.0;
    double *change = w->change + k * plan->strategy.padded_keys, *out = w->out + k * width;
    bool finite = true;
    for (int64_t e = 0; e < list.count && drops; e++) w->line[e] = 1.0;
    if (drops && width > 0)
        ota_dropout_row_f64(&plan->resolved, job->base.dropout_key, query, 0, list.keys, list.count,
                            w->line);
    if (with_coupling) memset(change, 0, (size_t)plan->resolved.keys * sizeof *change);
    for (int64_t c = 0; c < width; c++) out[c] = 0.0;
    for (int64_t e = 0; e < list.count; e++) {
        const int64_t j = list.keys[e];
        const double apart = ota_backward_is_steep(&job->base)
                                 ? ota_steep_apart(&space->steep, query, j, space->b, u[e])
                                 : u[e] - a - space->b[j];
        const double moved = slopes[e] * rate * apart;
        if (with_coupling) change[j] = moved;
        const double share = drops ? w->line[e] : 1.0;
        if (width == 0 || !(share > 0.0)) continue;
        plan->strategy.algebra->accumulate(job->space->values + j * width, width, share * moved,
                                           out);
        if (with_values)
            plan->strategy.algebra->accumulate(job->space->value_tangents + j * width, width,
                                               share * weights[e], out);
        finite = finite && !job->space->nonfinite[j];
    }
    for (int64_t e = 0; e < list.full; e++) w->line[e] = 1.0;
    if (drops && width > 0)
        ota_dropout_row_f64(&plan->resolved, job->base.dropout_key, query, 0, list.full_keys,
                            list.full, w->line);
    for (int64_t e = 0; e < list.full && width > 0; e++) {
        const int64_t j = list.full_keys[e];
        if (!(w->line[e] > 0.0)) continue;
        if (with_values)
            plan->strategy.algebra->accumulate(job->space->value_tangents + j * width, width,
                                               w->line[e] * caps[e], out);
        finite = finite && !job->space->nonfinite[j];
    }
    for (int64_t c = 0; c < width && !finite; c++) out[c] = (double)NAN;
}

bool ota_tangents_emit_lists(const ota_tangent_job *job, ota_tangent_worker *w, int64_t first,
                             int64_t rows) {
    const ota_backward_job *base = &job->base;
    const ota_plan *plan = base->plan;
    const int64_t *listed = base->space->listed;
    const ota_array *const to[] = {&job->tangents->coupling, &job->tangents->out};
    const int64_t width = ota_array_present(to[1]) ? plan->values_width : 0;
    for (int64_t k = 0; k < rows; k++) {
        if (listed == NULL || listed[first + k] < 0) return false;
    }
    for (int64_t k = 0; k < rows; k++) move_list(job, w, k, first + k, width);
    if (ota_array_present(to[0]))
        plan->strategy.algebra->write_rows(to[0], base->batch, base->head, first, rows, w->change,
                                           plan->strategy.padded_keys);
    if (width > 0)
        plan->strategy.algebra->write_rows(to[1], base->batch, base->head, first, rows, w->out,
                                           width);
    return true;
}

/* dP of row k of a block. */
static void move_row(const ota_tangent_job *job, ota_tangent_worker *w, const ota_block *b,
                     int64_t k) {
    ota_block_apply_multipliers(b, k, &job->base, job->base.plan->strategy.transposed,
                                w->change + k * b->stride);
}

void ota_tangents_emit(const ota_tangent_job *job, ota_tangent_worker *w, int64_t first,
                       int64_t rows) {
    const ota_block b = ota_tangents_block(job, w, first, rows);
    for (int64_t k = 0; k < rows; k++) {
        move_row(job, w, &b, k);
        if (!job->base.space->bad[first + k] && job->base.mode != OTA_BACKWARD_UNROLLED)
            ota_tangents_move_limits(job, first + k, w->scores + k * b.stride, w->line,
                                     w->change + k * b.stride);
    }
    ota_tangents_put(job, w, first, rows);
}

/* ---- rows alone ------------------------------------------------------------------------------- */

static void free_task(void *context, int64_t chunk, int worker) {
    const ota_tangent_job *job = context;
    const ota_resolved *r = &job->base.plan->resolved;
    ota_backward_space *space = job->base.space;
    ota_tangent_worker *w = &job->space->workers[worker];
    int64_t first, last;
    ota_adjoint_rows(r->queries, chunk, &first, &last);
    for (int64_t at = first; at < last; at += OTA_TANGENT_ROWS) {
        const int64_t rows = ota_int_min(OTA_TANGENT_ROWS, last - at);
        if (ota_interrupted(&r->settings) != OTA_OK) return;
        const ota_block b = ota_tangents_block(job, w, at, rows);
        ota_tangents_scores(job, w, at, rows);
        for (int64_t k = 0; k < rows; k++) {
            const int64_t i = at + k;
            ota_block_row row = ota_tangents_solve(job, w, k, i);
            const double moved = ota_tangents_of_row(job, i, row.sum, space->f[i], false);
            space->a[i] = ota_block_multiplier(&b, k, &row, moved, NULL);
        }
        ota_tangents_emit(job, w, at, rows);
    }
}

void ota_tangents_free(ota_tangent_job *job) {
    ota_parallel(job->base.plan->pool, OTA_ADJOINT_CHUNKS, free_task, job);
}

/* ---- rows in order ---------------------------------------------------------------------------- */

static void start_capacities(ota_tangent_job *job) {
    const ota_resolved *r = &job->base.plan->resolved;
    const int64_t batch = job->base.batch, head = job->base.head;
    const double cap = ota_tangent_number(&job->tangents->cap, 0);
    const ota_array *moved = &job->tangents->column_mass;
    for (int64_t j = 0; j < r->keys; j++) {
        const double mass = ota_column_mass(r, batch, head, j, 1.0);
        job->space->room[j] = r->problem.cap * mass;
        job->space->room_tangents[j] = cap * mass;
        if (ota_array_present(moved))
            job->space->room_tangents[j] +=
                r->problem.cap * ota_array_get(moved, batch, head, 0, j);
    }
}

/* One row: which keys it closes, dP, and what is left of the capacities' tangents. */
static void online_row(ota_tangent_job *job, ota_tangent_worker *w, int64_t k, int64_t query) {
    ota_backward_job *base = &job->base;
    const ota_plan *plan = base->plan;
    ota_backward_space *space = base->space;
    const int64_t at = k * plan->strategy.padded_keys, m = plan->resolved.keys;
    const double *s = w->scores + at;
    double *p = w->weights + at, *change = w->change + at, *left = job->space->room_tangents;
    const double mu = ota_row_mass(&plan->resolved, base->batch, base->head, query);
    double moved = ota_tangents_of_row(job, query, mu, 0.0, false);
    bool *shut = job->space->shut;
    ota_row_parameters parameters = base->parameters;
    ota_row_found found;
    parameters.line = query;
    for (int64_t j = 0; j < m; j++) shut[j] = job->space->room[j] > 0.0;
    plan->strategy.algebra->row_online(&parameters, s, m, mu, job->space->room, p, w->line, &found);
    const double f = found.potential;
    space->f[query] = f;
    space->bad[query] = found.nonfinite;
    for (int64_t j = 0; j < m; j++) {
        /* A key without capacity gives what it gains to the first row that would use it. */
        const bool never = !shut[j] && s[j] > -INFINITY &&
                           (!base->parameters.regulariser->thresholded || s[j] + f > 0.0);
        const bool closes = shut[j] && !(job->space->room[j] > 0.0);
        shut[j] = closes || never;
        if (shut[j]) moved -= left[j];
    }
    ota_block_row row = {.sum = mu};
    ota_complete_tangents(&job->base.parameters, &job->numbers, s, f, p, m, w->tangents + at);
    ota_tangents_of_sink(job, f, found.sink, &row);
    const ota_block b = ota_tangents_block(job, w, query - k, k + 1);
    space->a[query] = ota_block_multiplier(&b, k, &row, moved, shut);
    move_row(job, w, &b, k);
    for (int64_t j = 0; j < m && !space->bad[query]; j++) {
        if (shut[j]) change[j] = left[j];
        left[j] = shut[j] ? 0.0 : left[j] - change[j];
    }
}

void ota_tangents_online(ota_tangent_job *job) {
    const ota_resolved *r = &job->base.plan->resolved;
    ota_tangent_worker *w = &job->space->workers[0];
    start_capacities(job);
    for (int64_t at = 0; at < r->queries; at += OTA_TANGENT_ROWS) {
        const int64_t rows = ota_int_min(OTA_TANGENT_ROWS, r->queries - at);
        if (ota_interrupted(&r->settings) != OTA_OK) return;
        ota_tangents_scores(job, w, at, rows);
        for (int64_t k = 0; k < rows; k++) online_row(job, w, k, at + k);
        ota_tangents_put(job, w, at, rows);
    }
}
