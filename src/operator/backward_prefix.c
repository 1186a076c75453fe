/* Prefix columns in reverse: row i is the last row of the exact plan of queries 0 ... i on keys 0 ... m-n+i, so
 * its gradient spreads over that whole block. Every block is solved again, warm-started from the one before,
 * and its system has a right side from its last row only:
 *
 *     dL/dS_kj += w_kj ([k = i] U_ij - a_k - b_j) / tau       O(queries) solves [DER-04, 14] */
#include "backward.h"

#include <math.h>
#include <string.h>

#include "regularisers/tsallis.h"

/* P of the head [rows][stride], where forward keeps its own. */
static double *plan_of(const ota_backward_job *job) {
    return job->plan->backend->gradient->memory(job->device, job->place).plan;
}

ota_block ota_prefix_row(const ota_backward_job *job, const ota_head *block, int64_t row) {
    return (ota_block){.problem = job->resolved,
                       .algebra = job->plan->strategy.algebra,
                       .rule = job->parameters,
                       .batch = job->batch,
                       .head = job->head,
                       .first = row,
                       .rows = 1,
                       .keys = block->columns,
                       .stride = block->scores.stride,
                       .scores = (double *)block->scores.data + row * block->scores.stride,
                       .f = block->f + row,
                       .g = block->g};
}

void ota_prefix_begin(const ota_backward_job *job, const ota_head *block) {
    const ota_block_parts *v = job->space->block;
    double *const sums[] = {v->right, v->terms, v->extra};
    for (size_t k = 0; k < sizeof sums / sizeof sums[0]; k++)
        memset(sums[k], 0, (size_t)block->columns * sizeof(double));
}

void ota_prefix_solve(const ota_block *row, const ota_head *block, int64_t at) {
    ota_row_found found;
    ota_block_solve(row, 0, block->mu[at], &found);
    block->f[at] = found.potential;
}

void ota_prefix_add(const ota_backward_job *job, const ota_head *block, const ota_block *row,
                    double moved) {
    const ota_block_parts *v = job->space->block;
    double *slopes = job->space->slopes + row->first * block->scores.stride;
    const ota_system_row of = {.slopes = slopes, .u = row->slopes, .count = block->columns};
    const ota_chunk_sums sums = {.right = v->right, .right_terms = v->terms};
    ota_block_row rest = {0};
    ota_block_find_slopes(row, 0, 0, block->columns, slopes);
    if (job->space->steep.column != NULL)
        ota_system_measure(&of, &rest, row->first, &job->space->steep);
    const ota_system_totals found = ota_system_add(&of, &rest, moved, true, &sums);
    v->den[row->first] = found.den;
    v->right_of_rows[row->first] = found.right;
}

/* Rows of the block, of which only the last has U: P of that one into the plan, sums of the system. */
static void form_system(ota_backward_job *job, const ota_head *block) {
    const ota_block_parts *v = job->space->block;
    const int64_t last = block->rows - 1, stride = block->scores.stride;
    ota_prefix_begin(job, block);
    ota_watch watch = ota_watch_of(&job->plan->resolved.settings);
    for (int64_t i = 0; i <= last && !ota_watch_ends(&watch, block->columns); i++) {
        ota_block row = ota_prefix_row(job, block, i);
        row.weights = i == last ? plan_of(job) + i * stride : job->space->slopes + i * stride;
        row.slopes = i == last ? v->upstream : NULL;
        ota_prefix_solve(&row, block, i);
        ota_prefix_add(job, block, &row, 0.0);
    }
}

/* Adds the block's share to dL/dS, the masses, the temperature and the order. */
static void spread(ota_backward_job *job, const ota_head *block, const double *slopes,
                   const double *a, const double *b) {
    ota_backward_space *s = job->space;
    const ota_block_parts *v = s->block;
    const int64_t last = block->rows - 1, stride = block->scores.stride;
    const int64_t index =
        (job->batch * job->plan->resolved.heads + job->head) * job->plan->resolved.queries;
    const double tau = job->parameters.tau, order = block->row.order;
    const bool with_order = ota_array_present(&job->want->order);
    double column_sum = 0.0, count = 0.0, temperature = 0.0, by_order = 0.0;
    for (int64_t j = 0; j < block->columns; j++) {
        if (!(block->nu[j] > 0.0)) continue;
        column_sum += b[j];
        count += 1.0;
    }
    ota_watch watch = ota_watch_of(&job->plan->resolved.settings);
    for (int64_t i = 0; i <= last && !ota_watch_ends(&watch, block->columns); i++) {
        const double *w = slopes + i * stride,
                     *scores = (const double *)block->scores.data + i * stride;
        /* x is the level of the weight. */
        const double f =
            block->f[i] - (block->row.regulariser->tsallis ? tau * ota_tsallis_shift(order) : 0.0);
        if (!(block->mu[i] > 0.0)) continue;
        s->sums.row_mass[index + i] += a[i] + (count > 0.0 ? column_sum / count : 0.0);
        for (int64_t j = 0; j < block->columns; j++) {
            if (!(w[j] > 0.0)) continue;
            const double x = ((scores[j] + block->g[j]) + f) / tau;
            const double u = i == last ? v->upstream[j] : 0.0;
            const double apart =
                s->steep.column != NULL ? ota_steep_apart(&s->steep, i, j, b, u) : u - a[i] - b[j];
            const double g = w[j] * apart / tau;
            s->gradient[i * stride + j] += g;
            temperature -= g * x;
            if (with_order)
                by_order +=
                    g * tau * ota_tsallis_order_slope_of_log(ota_tsallis_log(x, order), order);
        }
    }
    s->sums.temperature[job->head] += temperature;
    s->sums.order += by_order;
}

static ota_status add_block(void *context, const ota_head *block) {
    ota_backward_job *job = context;
    const ota_plan *plan = job->plan;
    ota_backward_space *s = job->space;
    const int64_t last = block->rows - 1, stride = block->scores.stride;
    double *row = s->gradient + last * stride;
    memcpy(s->block->upstream, row, (size_t)plan->resolved.keys * sizeof *row);
    memset(row, 0, (size_t)stride * sizeof *row);
    memset(plan_of(job) + last * stride, 0, (size_t)stride * sizeof *row);
    if (!(block->mu[last] > 0.0)) return OTA_OK;
    form_system(job, block);
    const ota_status status = ota_prefix_system(job, block, 0.0);
    if (status == OTA_OK) spread(job, block, s->slopes, s->a, s->b);
    return status;
}

ota_status ota_prefix_system(ota_backward_job *job, const ota_head *block, double scale) {
    const ota_resolved *r = &job->plan->resolved;
    ota_backward_space *s = job->space;
    const ota_block_parts *v = s->block;
    for (int64_t j = 0; j < block->columns; j++) scale += v->terms[j];
    ota_adjoint system = {.rows = block->rows,
                          .columns = block->columns,
                          .stride = block->scores.stride,
                          .slopes = s->slopes,
                          .algebra = job->plan->strategy.algebra,
                          .den = v->den,
                          .extra = v->extra,
                          .held = s->held,
                          .row_right = v->right_of_rows,
                          .steepest = s->steep.column,
                          .rest = s->steep.rest,
                          .right = v->right,
                          .scale = scale,
                          .enough = r->type == OTA_F64 ? 1.0e-10 : 1.0e-6,
                          .settings = &r->settings,
                          .pool = job->plan->pool,
                          .partial = s->chunks.right,
                          .more = s->chunks.right_terms,
                          .vectors = s->vectors,
                          .couplings = s->couplings,
                          .a = s->a,
                          .b = s->b};
    const ota_status status = ota_adjoint_solve(&system);
    if (system.residual > job->residual) job->residual = system.residual;
    ota_backward_place_multipliers(job, &system);
    return status;
}

/* Masses of the rows that may use some key, the range of the scores; what is forbidden has no gradient. */
static void load_rows(const ota_backward_job *job, ota_head *head) {
    const ota_backward_space *s = job->space;
    double low = INFINITY, high = -INFINITY;
    ota_watch watch = ota_watch_of(head->settings);
    for (int64_t i = 0; i < head->rows && !ota_watch_ends(&watch, head->columns); i++) {
        bool any = false;
        for (int64_t j = 0; j < head->scores.stride; j++) {
            const double score =
                j < head->columns ? s->matrix[i * head->scores.stride + j] : -INFINITY;
            if (score > -INFINITY) {
                any = true;
                low = fmin(low, score);
                high = fmax(high, score);
            } else {
                s->gradient[i * head->scores.stride + j] = 0.0;
            }
        }
        s->block->mu[i] = any ? ota_row_mass(job->resolved, job->batch, job->head, i) : 0.0;
    }
    ota_head_put_range(head, low, high);
}

ota_status ota_backward_blocks(ota_backward_job *job, ota_block_visit *visit) {
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    ota_backward_space *s = job->space;
    const ota_place_memory memory = plan->backend->gradient->memory(plan->device, job->place);
    ota_head head = ota_head_of(r, job->batch * r->heads + job->head);
    head.backend = plan->backend;
    head.host.algebra = plan->strategy.algebra;
    head.host.kernels = plan->strategy.kernels;
    head.host.pool = plan->pool;
    head.host.workspace = memory.workspace;
    head.rows = r->queries;
    head.columns = r->keys;
    head.scores.data = s->matrix;
    head.scores.stride = plan->strategy.stride;
    head.scores.far = memory.far;
    head.mu = s->block->mu;
    head.g = s->g;
    load_rows(job, &head);
    memset(s->held, 0, (size_t)s->lane);
    return ota_prefix_walk(&head, visit, job);
}

ota_status ota_backward_prefix(ota_backward_job *job) {
    return ota_backward_blocks(job, add_block);
}
