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

static void read_keys(const ota_tangent_job *job, const ota_array *from, double *transposed,
                      double *lines) {
    const ota_backward_job *base = &job->base;
    const ota_block_keys to = {transposed, job->space->workers[0].queries, lines,
                               base->plan->strategy.padded_keys};
    ota_block_read_keys(algebra_of(job), from, base->batch, base->key_head, base->resolved->keys,
                        &to);
}

void ota_tangents_load(ota_tangent_job *job) {
    const ota_plan *plan = job->base.plan;
    const ota_resolved *r = &plan->resolved;
    ota_tangent_space *s = job->space;
    memset(s->nonfinite, 0, (size_t)plan->strategy.padded_keys * sizeof *s->nonfinite);
    if (!r->from_matrix && r->width > 0) {
        read_keys(job, &r->problem.keys, s->keys, s->key_rows);
        if (ota_array_present(&job->tangents->keys))
            read_keys(job, &job->tangents->keys, s->key_tangents, s->key_row_tangents);
    }
    if (!ota_array_present(&job->tangents->out) || plan->values_width == 0) return;
    load_values(job, &job->base.arrays->values, s->values);
    if (ota_array_present(&job->tangents->values))
        load_values(job, &job->tangents->values, s->value_tangents);
}

/* dZ without the inner term. */
static void move_products(const ota_tangent_job *job, ota_tangent_worker *w, int64_t first,
                          int64_t rows) {
    const ota_backward_job *base = &job->base;
    const ota_tangents *moved = job->tangents;
    const ota_tangent_space *s = job->space;
    const ota_block b = ota_tangents_block(job, w, first, rows);
    memset(w->tangents, 0, (size_t)(rows * b.stride) * sizeof(double));
    if (base->resolved->from_matrix) {
        if (ota_array_present(&moved->matrix))
            algebra_of(job)->read_rows(&moved->matrix, base->batch, base->head, first, rows,
                                       w->tangents, b.stride);
        return;
    }
    if (base->resolved->width == 0) return;
    if (ota_array_present(&moved->keys))
        ota_block_add_products(&b, w->queries, s->key_tangents, b.stride, w->tangents);
    if (ota_array_present(&moved->queries))
        ota_block_add_products(&b, w->query_tangents, s->keys, b.stride, w->tangents);
}

static ota_tangent_row_keys row_keys(const ota_tangent_job *job, int64_t query, int64_t first,
                                     int64_t count) {
    const ota_backward_job *base = &job->base;
    return (ota_tangent_row_keys){.resolved = base->resolved,
                                  .tangents = job->tangents,
                                  .batch = base->batch,
                                  .head = base->head,
                                  .query = query,
                                  .first = first,
                                  .count = count};
}

/* dZ -> dS of a whole row. */
static void follow_row(const ota_tangent_job *job, ota_tangent_worker *w, int64_t query,
                       const double *z, double *tangents) {
    const ota_backward_job *base = &job->base;
    const ota_resolved *r = base->resolved;
    const ota_tangent_row_keys row = row_keys(job, query, 0, r->keys);
    ota_tangents_of_terms(&row, z, tangents);
    if (!ota_array_present(&job->tangents->scores)) return;
    algebra_of(job)->read_rows(&job->tangents->scores, base->batch, base->head, query, 1, w->line,
                               r->keys);
    for (int64_t j = 0; j < r->keys; j++) tangents[j] += w->line[j];
}

void ota_tangents_scores_alone(const ota_tangent_job *job, ota_tangent_worker *w, int64_t first,
                               int64_t rows) {
    ota_block b = ota_tangents_block(job, w, first, rows);
    const ota_array *const moved = &job->tangents->queries;
    /* Nobody else asks for Z. */
    b.raw = ota_block_softcap_of(&b, 0).softcap != NULL ? w->change : NULL;
    const bool wide = ota_ladder_ends_f64(job->base.plan->strategy.ladder);
    if (ota_array_present(moved))
        algebra_of(job)->read_rows(moved, b.batch, b.head, first, rows, w->query_tangents,
                                   b.problem->width);
    ota_block_form_scores(&b, w->queries, job->space->keys, b.stride);
    for (int64_t k = 0; k < rows; k++) {
        double *s = b.scores + k * b.stride;
        for (int64_t j = b.keys; j < b.stride; j++) s[j] = -INFINITY;
        /* What overflowed in forward is not finite here either. */
        for (int64_t j = 0; j < b.keys && !wide; j++) {
            if (fabs(s[j]) > (double)FLT_MAX) s[j] = s[j] > 0.0 ? INFINITY : -INFINITY;
        }
    }
}

void ota_tangents_scores(const ota_tangent_job *job, ota_tangent_worker *w, int64_t first,
                         int64_t rows) {
    const int64_t stride = job->base.plan->strategy.padded_keys;
    ota_tangents_scores_alone(job, w, first, rows);
    move_products(job, w, first, rows);
    for (int64_t k = 0; k < rows; k++)
        follow_row(job, w, first + k, w->change + k * stride, w->tangents + k * stride);
}

static double dot(const double *x, const double *y, int64_t count) {
    double sum[4] = {0.0};
    int64_t k = 0;
    for (; k + 4 <= count; k += 4) {
        for (int64_t l = 0; l < 4; l++) sum[l] += x[k + l] * y[k + l];
    }
    for (; k < count; k++) sum[0] += x[k] * y[k];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* Z and dZ of a pair, row k of the block whose queries are loaded. */
static double move_pair(const ota_tangent_job *job, const ota_tangent_worker *w, int64_t k,
                        int64_t query, int64_t key, double *moved) {
    const ota_backward_job *base = &job->base;
    const ota_resolved *r = base->resolved;
    const ota_tangents *tangents = job->tangents;
    const int64_t width = r->width, batch = base->batch, head = base->head;
    *moved = 0.0;
    if (r->from_matrix) {
        if (ota_array_present(&tangents->matrix))
            *moved = ota_array_get(&tangents->matrix, batch, head, query, key);
        return ota_array_get(&r->problem.scores, batch, head, query, key);
    }
    const double *q = w->queries + k * width, *at = job->space->key_rows + key * width;
    if (ota_array_present(&tangents->keys))
        *moved += dot(q, job->space->key_row_tangents + key * width, width);
    if (ota_array_present(&tangents->queries))
        *moved += dot(w->query_tangents + k * width, at, width);
    return dot(q, at, width);
}

void ota_tangents_of_list(const ota_tangent_job *job, const ota_tangent_worker *w, int64_t k,
                          int64_t query, const ota_slope_list *list) {
    const ota_backward_job *base = &job->base;
    const ota_array *final = &job->tangents->scores;
    double *u = list->upstream;
    for (int64_t e = 0; e < list->count; e++) {
        const int64_t key = list->keys[e];
        const double z = move_pair(job, w, k, query, key, &u[e]);
        const ota_tangent_row_keys pair = row_keys(job, query, key, 1);
        ota_tangents_of_terms(&pair, &z, &u[e]);
        if (ota_array_present(final))
            u[e] += ota_array_get(final, base->batch, base->head, query, key);
    }
}
