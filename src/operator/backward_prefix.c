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

/* Weights at their caps stand still. */
static double slope_of(double p, double cap, const ota_head *block) {
    if (!(p > 0.0) || p >= cap) return 0.0;
    return block->row.regulariser->tsallis ? ota_tsallis_slope(p, block->row.order) : p;
}

void ota_prefix_measure(const ota_backward_job *job, const ota_head *block, int64_t row,
                        const double *slopes, double *u) {
    const ota_steep_rows *steep = &job->space->steep;
    int64_t steepest = -1;
    if (steep->column == NULL) return;
    for (int64_t j = 0; j < block->columns; j++) {
        if (slopes[j] > (steepest < 0 ? 0.0 : slopes[steepest])) steepest = j;
    }
    steep->column[row] = steepest;
    steep->middle[row] = steepest < 0 || u == NULL ? 0.0 : u[steepest];
    steep->rest[row] = 0.0;
    for (int64_t j = 0; j < block->columns && u != NULL; j++) u[j] -= steep->middle[row];
}

/* P of the block into `weights` (row by row, the solver's matrix of slopes), sums of the system. */
static void form_system(ota_backward_job *job, const ota_head *block, double *slopes,
                        double *scale) {
    const ota_block_parts *v = job->space->block;
    const int64_t last = block->rows - 1, stride = block->scores.stride;
    ota_row_parameters parameters = job->parameters;
    memset(v->right, 0, (size_t)block->columns * sizeof(double));
    *scale = 0.0;
    ota_watch watch = ota_watch_of(&job->plan->resolved.settings);
    for (int64_t i = 0; i <= last && !ota_watch_ends(&watch, block->columns); i++) {
        double *w = slopes + i * stride, total = 0.0, sum = 0.0;
        ota_row_found found;
        v->den[i] = v->right_of_rows[i] = 0.0;
        parameters.line = i;
        job->plan->strategy.algebra->row_solve(&parameters,
                                               (const double *)block->scores.data + i * stride,
                                               block->g, block->columns, block->mu[i], w, &found);
        block->f[i] = found.potential;
        if (i == last) memcpy(plan_of(job) + i * stride, w, (size_t)block->columns * sizeof *w);
        for (int64_t j = 0; j < block->columns; j++) {
            w[j] = slope_of(w[j], ota_entry_cap(&block->row.caps, i, j), block);
            total += w[j];
        }
        ota_prefix_measure(job, block, i, w, i == last ? v->upstream : NULL);
        for (int64_t j = 0; j < block->columns && i == last; j++) sum += w[j] * v->upstream[j];
        v->den[i] = total;
        v->right_of_rows[i] = sum;
        const double mean = total > 0.0 ? sum / total : 0.0;
        for (int64_t j = 0; j < block->columns && i == last; j++) {
            v->right[j] = w[j] * (v->upstream[j] - mean);
            *scale += fabs(v->right[j]) + OTA_OFFSET_SHARE * w[j] * fabs(v->upstream[j]);
        }
    }
    for (int64_t j = 0; j < block->columns; j++) v->extra[j] = 0.0;
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
    double scale = 0.0;
    form_system(job, block, s->slopes, &scale);
    const ota_status status = ota_prefix_system(job, block, scale);
    if (status == OTA_OK) spread(job, block, s->slopes, s->a, s->b);
    return status;
}

ota_status ota_prefix_system(ota_backward_job *job, const ota_head *block, double scale) {
    const ota_resolved *r = &job->plan->resolved;
    ota_backward_space *s = job->space;
    const ota_block_parts *v = s->block;
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
