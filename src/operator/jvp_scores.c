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

const ota_array *ota_tangent_of_term(const ota_resolved *r, const ota_tangents *tangents, int t) {
    if (tangents->terms == NULL) return NULL;
    const ota_array *a = &tangents->terms[t == r->term_count ? r->sink_place : r->term_places[t]];
    return ota_array_present(a) ? a : NULL;
}

double ota_tangent_number(const ota_array *a, int64_t head) {
    if (a == NULL || !ota_array_present(a)) return 0.0;
    return ota_array_get(a, 0, 0, 0, a->size[3] == 1 ? 0 : head);
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
    const ota_host_algebra *algebra = base->plan->strategy.algebra;
    const int64_t stride = base->plan->strategy.padded_keys, m = r->keys, width = r->width;
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
    const ota_product sizes = {rows, width, m, width, stride, stride};
    algebra->apply(w->queries, s->keys, &sizes, w->scores);
    if (ota_array_present(&job->tangents->keys))
        algebra->apply(w->queries, s->key_tangents, &sizes, w->tangents);
    if (!ota_array_present(&job->tangents->queries)) return;
    algebra_of(job)->read_rows(&job->tangents->queries, base->batch, base->head, first, rows,
                               w->query_tangents, width);
    algebra->apply(w->query_tangents, s->keys, &sizes, w->tangents);
}

/* dZ -> dB of a row; z: the raw products. */
static void add_softcap_tangents(const ota_tangent_row_keys *row, const double *z,
                                 double *tangents) {
    const ota_resolved *r = row->resolved;
    const int64_t head = row->head,
                  diagonal = ota_row_number(r, row->query) + r->keys - 1 - row->first;
    const ota_term *inside = NULL, *softcap = NULL;
    const ota_array *inside_tangents = NULL;
    double cap_tangent = 0.0;
    for (int t = 0; t < r->term_count; t++) {
        if (ota_term_form_of(&r->terms[t]) == OTA_FORM_SOFTCAP) {
            softcap = &r->terms[t];
            cap_tangent = ota_tangent_number(ota_tangent_of_term(r, row->tangents, t), 0);
        }
        if (!ota_term_is_inside(&r->terms[t])) continue;
        inside = &r->terms[t];
        inside_tangents = ota_tangent_of_term(r, row->tangents, t);
    }
    for (int64_t j = 0; inside_tangents != NULL && j < row->count; j++)
        tangents[j] += ota_array_get(inside_tangents, 0, head, 0, diagonal - j);
    for (int64_t j = 0; j < row->count; j++) tangents[j] *= r->scale;
    for (int64_t j = 0; softcap != NULL && j < row->count; j++) {
        double y = z[j];
        if (inside != NULL) y += ota_array_get(&inside->array, 0, head, 0, diagonal - j);
        y *= r->scale / softcap->value;
        const double tanh_y = tanh(y), slope = (1.0 - tanh_y) * (1.0 + tanh_y);
        tangents[j] = tangents[j] * slope + cap_tangent * (tanh_y - y * slope);
    }
}

/* Tangents of what is added after the softcap. */
static void add_terms(const ota_tangent_row_keys *row, double *tangents) {
    const ota_resolved *r = row->resolved;
    const int64_t head = row->head, query = row->query, first = row->first;
    for (int t = 0; t < r->term_count; t++) {
        const ota_array *a = ota_tangent_of_term(r, row->tangents, t);
        if (a == NULL || ota_term_is_inside(&r->terms[t])) continue;
        const ota_term_form form = ota_term_form_of(&r->terms[t]);
        const double slope = form == OTA_FORM_LINEAR_DISTANCE ? ota_tangent_number(a, head) : 0.0;
        for (int64_t j = 0; j < row->count; j++) {
            if (form == OTA_FORM_LINEAR_DISTANCE)
                tangents[j] -= slope * fabs((double)(ota_row_position(r, query) - first - j));
            else if (form == OTA_FORM_ADDS_DIFFERENCES)
                tangents[j] += ota_array_get(a, 0, head, 0,
                                             ota_row_number(r, query) + r->keys - 1 - first - j);
            else if (form == OTA_FORM_ADDS_PAIRS)
                tangents[j] += ota_array_get(a, row->batch, head, query, first + j);
        }
    }
}

void ota_tangents_of_terms(const ota_tangent_row_keys *row, const double *z, double *tangents) {
    add_softcap_tangents(row, z, tangents);
    add_terms(row, tangents);
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
    const ota_backward_job *base = &job->base;
    const ota_resolved *r = &base->plan->resolved;
    const int64_t stride = base->plan->strategy.padded_keys;
    form_products(job, w, first, rows);
    for (int64_t k = 0; k < rows; k++) {
        double *s = w->scores + k * stride;
        int64_t begin, end;
        follow_row(job, w, first + k, s, w->tangents + k * stride);
        ota_row_range(r, base->batch, first + k, r->keys, &begin, &end);
        if (begin >= end) begin = end = 0;
        for (int64_t j = 0; j < begin; j++) s[j] = -INFINITY;
        for (int64_t j = end; j < stride; j++) s[j] = -INFINITY;
        if (begin < end)
            algebra_of(job)->row_scores(r, base->batch, base->head, first + k, begin, end,
                                        s + begin);
        /* What overflowed in forward is not finite here either. */
        for (int64_t j = begin; j < end && !ota_ladder_ends_f64(base->plan->strategy.ladder); j++) {
            if (fabs(s[j]) > (double)FLT_MAX) s[j] = s[j] > 0.0 ? INFINITY : -INFINITY;
        }
    }
}
