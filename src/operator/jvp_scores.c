/* Scores and their tangents, row by row from the definition of ota_problem:
 *
 *     Z  = Q K^T + inside            dZ = dQ K^T + Q dK^T + d inside
 *     B  = scale Z                   softcap: cap tanh(B / cap), with y = B / cap
 *     dB = scale dZ (1 - tanh^2 y) + dcap (tanh y - y (1 - tanh^2 y))
 *     dS = dB - d slope |i + offset - j| + d relative + d dense + tangents.scores
 *
 * Shapes: Q [queries][width], K [keys][width], S [queries][keys]. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "jvp.h"
#include "masks/masks.h"

static const ota_host_algebra *algebra_of(const ota_tangent_job *job) {
    return job->base.plan->strategy.algebra;
}

/* to[k][j] = from[j][k]. */
static void load_transposed(const ota_tangent_job *job, const ota_array *from, double *to) {
    const ota_backward_job *base = &job->base;
    const ota_resolved *r = &base->plan->resolved;
    const int64_t stride = base->plan->strategy.padded_keys;
    double *row = job->space->workers[0].queries;
    for (int64_t j = 0; j < r->keys; j++) {
        algebra_of(job)->read_rows(from, base->batch, base->key_head, j, 1, row, r->width);
        for (int64_t k = 0; k < r->width; k++) to[k * stride + j] = row[k];
    }
}

static void load_values(const ota_tangent_job *job, const ota_array *from, double *to) {
    const ota_plan *plan = job->base.plan;
    const int64_t width = plan->values_width;
    algebra_of(job)->read_rows(from, job->base.batch, job->base.key_head, 0, plan->resolved.keys,
                               to, width);
    for (int64_t j = 0; j < plan->resolved.keys; j++) {
        for (int64_t k = 0; k < width; k++) {
            if (isfinite(to[j * width + k])) continue;
            to[j * width + k] = 0.0;
            job->space->nonfinite[j] = true;
        }
    }
}

void ota_tangents_load(ota_tangent_job *job) {
    const ota_plan *plan = job->base.plan;
    const ota_resolved *r = &plan->resolved;
    ota_tangent_space *s = job->space;
    memset(s->nonfinite, 0, (size_t)plan->strategy.padded_keys * sizeof *s->nonfinite);
    if (!r->from_matrix && r->width > 0) {
        load_transposed(job, &r->problem.keys, s->keys);
        if (ota_array_present(&job->tangents->keys))
            load_transposed(job, &job->tangents->keys, s->key_tangents);
    }
    if (!ota_array_present(&job->tangents->out) || plan->values_width == 0) return;
    load_values(job, &job->base.arrays->values, s->values);
    if (ota_array_present(&job->tangents->values))
        load_values(job, &job->tangents->values, s->value_tangents);
}

/* Z and dZ without the inner term. */
static void form_products(const ota_tangent_job *job, ota_tangent_worker *w, int64_t first,
                          int64_t rows) {
    const ota_backward_job *base = &job->base;
    const ota_resolved *r = &base->plan->resolved;
    const ota_tangent_space *s = job->space;
    const ota_block b = ota_tangents_block(job, w, first, rows);
    const int64_t stride = b.stride, width = r->width;
    const size_t block = (size_t)(rows * stride) * sizeof(double);
    memset(w->tangents, 0, block);
    if (r->from_matrix) {
        algebra_of(job)->read_rows(&r->problem.scores, base->batch, base->head, first, rows,
                                   w->scores, stride);
        if (ota_array_present(&job->tangents->matrix)) {
            algebra_of(job)->read_rows(&job->tangents->matrix, base->batch, base->head, first, rows,
                                       w->tangents, stride);
        }
        return;
    }
    memset(w->scores, 0, block);
    if (width == 0) return;
    algebra_of(job)->read_rows(&r->problem.queries, base->batch, base->head, first, rows,
                               w->queries, width);
    ota_block_add_products(&b, w->queries, s->keys, stride, w->scores);
    if (ota_array_present(&job->tangents->keys))
        ota_block_add_products(&b, w->queries, s->key_tangents, stride, w->tangents);
    if (!ota_array_present(&job->tangents->queries)) return;
    algebra_of(job)->read_rows(&job->tangents->queries, base->batch, base->head, first, rows,
                               w->query_tangents, width);
    ota_block_add_products(&b, w->query_tangents, s->keys, stride, w->tangents);
}

/* dZ -> dS of a whole row. */
static void follow_row(const ota_tangent_job *job, ota_tangent_worker *w, int64_t query,
                       const double *z, double *tangents) {
    const ota_backward_job *base = &job->base;
    const ota_resolved *r = &base->plan->resolved;
    const ota_tangent_row_keys row = {.resolved = r,
                                      .tangents = job->tangents,
                                      .batch = base->batch,
                                      .head = base->head,
                                      .query = query,
                                      .count = r->keys};
    ota_tangents_of_terms(&row, z, tangents);
    if (!ota_array_present(&job->tangents->scores)) return;
    algebra_of(job)->read_rows(&job->tangents->scores, base->batch, base->head, query, 1, w->line,
                               r->keys);
    for (int64_t j = 0; j < r->keys; j++) tangents[j] += w->line[j];
}

void ota_tangents_scores(const ota_tangent_job *job, ota_tangent_worker *w, int64_t first,
                         int64_t rows) {
    const ota_block b = ota_tangents_block(job, w, first, rows);
    const bool wide = ota_ladder_ends_f64(job->base.plan->strategy.ladder);
    form_products(job, w, first, rows);
    for (int64_t k = 0; k < rows; k++)
        follow_row(job, w, first + k, b.scores + k * b.stride, b.slopes + k * b.stride);
    ota_block_finish_scores(&b);
    for (int64_t k = 0; k < rows; k++) {
        double *s = b.scores + k * b.stride;
        for (int64_t j = b.keys; j < b.stride; j++) s[j] = -INFINITY;
        /* What overflowed in forward is not finite here either. */
        for (int64_t j = 0; j < b.keys && !wide; j++) {
            if (fabs(s[j]) > (double)FLT_MAX) s[j] = s[j] > 0.0 ? INFINITY : -INFINITY;
        }
    }
}
