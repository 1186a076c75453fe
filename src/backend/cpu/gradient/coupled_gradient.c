/* What rows need of each other, compiled for each type: online rows replayed and reversed; for coupled
 * columns the slopes w [n][m] in T, or scores and U in f64, for the linear algebra of solvers/derivatives/adjoint.h. */
#include "pairs.h"

#include <math.h>
#include <string.h>

/* ---- online ----------------------------------------------------------------------------------- */

/* Scores of the block of rows from `first` on; going back, their upstream gradients too. */
static void load_block(const ota_backward_job *job, ota_backward_worker *w, int64_t first,
                       bool mark) {
    const ota_cpu_device *device = job->device;
    const int64_t m = device->resolved->keys;
    const int64_t rows = ota_int_min(OTA_BLOCK_ROWS, device->resolved->queries - first);
    load_rows(job, w, first, rows, mark);
    form_tile(job, w, first, rows, 0, m, device->stride);
    if (!mark) form_upstream(job, w, first, rows, 0, m, device->stride);
}

/* Rows in order: where each key's capacity ran out, and what that row took. */
void replay_online(ota_backward_job *job) {
    const ota_cpu_device *device = job->device;
    const ota_resolved *r = device->resolved;
    ota_backward_space *space = job->space;
    ota_backward_worker *w = &space->own->workers[job->worker];
    double *room = device->workers[job->worker].room;
    for (int64_t j = 0; j < r->keys; j++) {
        room[j] = r->problem.cap * ota_column_mass(r, job->batch, job->head, j, 1.0);
        space->shut[j] = room[j] > 0.0 ? INT64_MAX : -1;
        space->fill[j] = room[j] > 0.0 ? room[j] : 0.0;
        space->b[j] = 0.0;
        ((real *)space->own->advantage)[j] = (real)0;
    }
    ota_watch watch = ota_watch_within(&r->settings);
    for (int64_t i = 0; i < r->queries && !ota_watch_ends(&watch, ota_row_work(r)); i++) {
        const double mu = ota_row_mass(r, job->batch, job->head, i);
        ota_row_parameters parameters = job->parameters;
        ota_row_found found;
        parameters.line = i;
        const int64_t k = i % OTA_BLOCK_ROWS;
        if (k == 0) load_block(job, w, i, true);
        const real *s = (const real *)w->scores + k * device->stride;
        row_online(&parameters, s, r->keys, mu, room, w->weights, device->workers[job->worker].row,
                   &found);
        if (found.nonfinite || uses_nonfinite(job, s, w->weights)) space->bad[i] = true;
        for (int64_t j = 0; j < r->keys; j++) {
            if (space->shut[j] != INT64_MAX) continue;
            if (room[j] > 0.0)
                space->fill[j] = room[j];
            else
                space->shut[j] = i;
        }
    }
}

/* Rows in reverse: b_j = dL / d(what was left of key j before the row that took the rest). */
void reverse_online(ota_backward_job *job) {
    const ota_cpu_device *device = job->device;
    const ota_resolved *r = device->resolved;
    ota_backward_space *space = job->space;
    ota_backward_worker *w = &space->own->workers[job->worker];
    const int64_t m = r->keys, index = job->batch * r->heads + job->head;
    ota_watch watch = ota_watch_within(&r->settings);
    for (int64_t i = r->queries - 1; i >= 0 && !ota_watch_ends(&watch, 2 * ota_row_work(r)); i--) {
        const int64_t k = i % OTA_BLOCK_ROWS;
        if (k == OTA_BLOCK_ROWS - 1 || i == r->queries - 1) load_block(job, w, i - k, false);
        const real *s = (const real *)w->scores + k * device->stride;
        const real *b = space->own->advantage;
        real *u = (real *)w->upstream + k * device->stride, *p = w->weights, *line = w->line;
        double left = ota_row_mass(r, job->batch, job->head, i);
        for (int64_t j = 0; j < m; j++) {
            line[j] = i < space->shut[j] ? s[j] : (real)-INFINITY;
            if (space->shut[j] == i) left -= space->fill[j];
        }
        const bool bad = space->bad[i];
        solve_row(job, i, line, left > 0.0 ? left : 0.0, p);
        space->bad[i] = bad;
        pair_weights(job, i, m, line, p);
        row_slopes(job, i, m, line, p, w->slope);
        const double middle = centre(job, i, p, w->slope, b, m, u);
        space->a[i] =
            bad ? (double)NAN
                : mean_of(job, i, u, ota_backward_is_centred(job) ? NULL : b, middle, w->slope);
        space->sums.row_mass[index * r->queries + i] = space->a[i] + middle;
        for (int64_t j = 0; j < m; j++) {
            const bool first =
                space->shut[j] < 0 && s[j] > (real)-INFINITY &&
                (!job->parameters.regulariser->thresholded || (double)s[j] + space->f[i] > 0.0);
            if (space->shut[j] != i && !first) continue;
            space->b[j] = (double)u[j] - space->a[i];
            ((real *)space->own->advantage)[j] = (real)space->b[j];
        }
    }
    for (int64_t j = 0; j < m; j++) {
        space->sums.parameters[0] +=
            space->b[j] * ota_column_mass(r, job->batch, job->head, j, 1.0);
        space->sums.column_mass[index * m + j] = space->b[j] * r->problem.cap;
    }
}

/* ---- coupled ---------------------------------------------------------------------------------- */

/* The implicit system's slopes [dense_rows][dense_stride], which are of the type that the head is worked on. */
static real *slopes_of(const ota_backward_job *job, int64_t row) {
    return (real *)(void *)job->space->matrix + row * job->device->dense_stride;
}

/* Of a query that is such a row: from where; what its multiplier is made of besides its pairs. */
static double steep_rest(const ota_backward_job *job, int64_t i, double sink, double sum) {
    const ota_problem *problem = &job->resolved->problem;
    const ota_steep_rows *steep = &job->space->steep;
    const double soft =
        problem->rows == OTA_ROWS_RELAXED ? job->parameters.tau * sum / problem->row_strength : 0.0;
    steep->rest[i] = sink + soft;
    job->space->adjoint.row_right[i] -= steep->rest[i] * steep->middle[i];
    return soft;
}

/* den, row_right and row_sums of a row from w, P and U of `count` pairs; the mean of U under w. */
static double close_row(const ota_backward_job *job, int64_t i, const real *slope, const real *p,
                        const real *u, int64_t count) {
    const ota_cpu_device *device = job->device;
    ota_backward_space *space = job->space;
    double rest, total, carried;
    const double sink = sink_slope(job, i, &rest);
    const double sum = KERNELS(device)->slope_sums(slope, u, count, &total);
    carried = total;
    if (job->parameters.regulariser->tsallis)
        (void)KERNELS(device)->slope_sums(p, u, count, &carried);
    space->adjoint.den[i] = total + sink;
    space->adjoint.row_right[i] = sum;
    space->adjoint.row_sums[i] = carried + rest;
    const double den = total + sink,
                 soft = ota_backward_is_steep(job) && !device->transposed
                            ? steep_rest(job, i, sink, space->adjoint.row_sums[i])
                            : 0.0;
    return den > 0.0 ? space->adjoint.row_right[i] / (den + soft) : 0.0;
}

/* U of `count` pairs of a query, whose keys, NULL: all, rise, becomes what the rows of the solver measure. */
static void measure(const ota_backward_job *job, int64_t query, const int32_t *keys, int64_t count,
                    real *u) {
    for (int64_t e = 0; e < count && ota_backward_is_steep(job); e++)
        u[e] = (real)ota_steep_upstream(job->space, job->device->transposed, query,
                                        keys == NULL ? e : keys[e], (double)u[e]);
}

/* From where a query that is a row of the solver measures: from pair `at` of those of u, which is of that key. */
static void mark_steepest(const ota_backward_job *job, int64_t query, int64_t at, int64_t key,
                          const real *u) {
    job->space->steep.column[query] = key;
    job->space->steep.middle[query] = at < 0 ? 0.0 : (double)u[at];
}

/* w of a row at solved potentials, 0 where it is not a number; the mean of U under them. `solved`: its potential is known. */
static double implicit_row(ota_backward_job *job, int64_t i, bool solved, const real *s, real *u,
                           real *p, real *slope, double *mass) {
    const ota_cpu_device *device = job->device;
    const ota_resolved *r = device->resolved;
    ota_backward_space *space = job->space;
    const int64_t m = r->keys;
    const double kept = space->f[i];
    const double mu = device->transposed ? 1.0 : ota_row_mass(r, job->batch, job->head, i);
    if (!solved) solve_row(job, i, s, mu, p);
    if (device->transposed) space->f[i] = kept;
    pair_weights(job, i, m, s, p);
    row_slopes(job, i, m, s, p, slope);
    for (int64_t j = 0; j < m && space->bad[i]; j++)
        slope[j] = slope[j] > (real)0 ? slope[j] : (real)0;
    KERNELS(device)->accumulate(p, m, 1.0, mass);
    if (ota_backward_is_steep(job) && !device->transposed) {
        const int64_t key = steepest(job, i, p, slope, m);
        mark_steepest(job, i, key, key, u);
    }
    measure(job, i, NULL, m, u);
    return close_row(job, i, slope, p, u, m);
}

/* Rows of a block that are lists: w, P and U of their pairs in the place of their slopes, and the chunk's sums. */
static void keep_lists(const ota_backward_job *job, const ota_backward_worker *w, int64_t first,
                       int64_t rows, int64_t chunk) {
    ota_backward_space *space = job->space;
    const int64_t stride = space->own->strip.stride;
    double *right = space->chunks.right + chunk * space->lane,
           *scale = space->chunks.right_terms + chunk * space->lane,
           *mass = space->chunks.plan + chunk * space->lane;
    for (int64_t k = 0; k < rows; k++) {
        const ota_slope_list list = list_of(job, first + k);
        const size_t count = (size_t)list.count, full = (size_t)list.full;
        const real *weights = (const real *)w->weights + k * stride;
        const int32_t *keys = w->where + k * stride;
        real *slope = list.slopes, *u = list.upstream;
        const real *p = list.weights, *caps = list.full_weights;
        memcpy(list.weights, weights, count * sizeof *weights);
        memcpy(list.keys, keys, count * sizeof *keys);
        memcpy(list.full_weights, weights + count, full * sizeof *weights);
        memcpy(list.full_keys, keys + count, full * sizeof *keys);
        list_upstream(job, w, k, first + k, list.keys, list.count, u);
        row_powers(job, p, list.count, slope);
        if (ota_backward_is_steep(job)) {
            const int64_t least = steepest(job, first + k, p, slope, list.count);
            mark_steepest(job, first + k, least, least < 0 ? -1 : list.keys[least], u);
            measure(job, first + k, list.keys, list.count, u);
        }
        const double mean = close_row(job, first + k, slope, p, u, list.count);
        for (int64_t e = 0; e < list.count; e++) {
            const int64_t j = list.keys[e];
            const double by = (double)slope[e], x = (double)u[e];
            mass[j] += (double)p[e];
            if (!(by > 0.0)) continue;
            right[j] += by * (x - mean);
            scale[j] += by * (fabs(x - mean) + OTA_OFFSET_SHARE * fabs(x));
        }
        for (int64_t e = 0; e < list.full; e++) {
            mass[list.full_keys[e]] += (double)caps[e];
            space->adjoint.row_sums[first + k] += (double)caps[e];
        }
    }
}

/* Slopes w of the rows of a chunk into the matrix, sums of w, w U and P. */
void slopes_task(void *context, int64_t chunk, int worker) {
    ota_backward_job *job = context;
    const ota_cpu_device *device = job->device;
    const ota_resolved *r = device->resolved;
    ota_backward_space *space = job->space;
    ota_backward_worker *w = &space->own->workers[worker];
    const int64_t m = r->keys, at = chunk * space->lane, stride = space->own->strip.stride;
    double *right = space->chunks.right + at, *scale = space->chunks.right_terms + at;
    double *mass = space->chunks.plan + at, *slopes = space->chunks.slopes + at;
    ota_backward_clear_chunks(space, chunk, 1);
    int64_t first, last, rows;
    ota_adjoint_rows(r->queries, chunk, &first, &last);
    ota_watch watch = ota_watch_within(&r->settings);
    /* Until a block of the chunk has too many pairs with weight. */
    bool lists = job->lists;
    for (int64_t i = first; i < last; i += rows) {
        double mean[OTA_BLOCK_ROWS] = {0};
        rows = ota_int_min(last - i, OTA_BLOCK_ROWS);
        if (ota_watch_ends(&watch, rows * 2 * ota_row_work(r))) return;
        load_rows(job, w, i, rows, true);
        form_tile(job, w, i, rows, 0, m, stride);
        const bool solved = lists;
        lists = lists && row_lists(job, w, worker, i, rows, space->listed + i, space->full + i);
        if (lists) {
            keep_lists(job, w, i, rows, chunk);
            continue;
        }
        form_upstream(job, w, i, rows, 0, m, stride);
        /* The slopes of the solver's rows: where those are keys they are transposed one query at a time. */
        const int64_t step = device->transposed ? stride : device->dense_stride;
        real *block = device->transposed ? (real *)w->weights : slopes_of(job, i);
        for (int64_t k = 0; k < rows; k++) {
            const real *s = (const real *)w->scores + k * stride;
            real *u = (real *)w->upstream + k * stride, *slope = block + k * step;
            const double centre = implicit_row(job, i + k, solved, s, u, w->line, slope, mass);
            if (!device->transposed) {
                mean[k] = centre;
                continue;
            }
            KERNELS(device)->accumulate(slope, m, 1.0, slopes);
            real *column = slopes_of(job, 0) + i + k;
            for (int64_t j = 0; j < m; j++) column[j * device->dense_stride] = slope[j];
        }
        KERNELS(device)->slope_columns(&(ota_slopes_operands){.w = block,
                                                              .ldw = step,
                                                              .u = w->upstream,
                                                              .ldu = stride,
                                                              .rows = rows,
                                                              .columns = m,
                                                              .mean = mean,
                                                              .share = OTA_OFFSET_SHARE,
                                                              .right = right,
                                                              .size = scale});
    }
}

/* Transposed: the right side by queries, once the means by keys are known. */
void transposed_task(void *context, int64_t chunk, int worker) {
    ota_backward_job *job = context;
    const ota_cpu_device *device = job->device;
    const ota_resolved *r = device->resolved;
    ota_backward_space *space = job->space;
    ota_backward_worker *w = &space->own->workers[worker];
    int64_t first, last;
    ota_adjoint_rows(r->queries, chunk, &first, &last);
    ota_watch watch = ota_watch_within(&device->resolved->settings);
    for (int64_t i = first; i < last && !ota_watch_ends(&watch, ota_row_work(device->resolved));
         i++) {
        load_rows(job, w, i, 1, false);
        form_upstream(job, w, i, 1, 0, r->keys, device->stride);
        measure(job, i, NULL, r->keys, w->upstream);
        const real *u = w->upstream, *column = slopes_of(job, 0) + i;
        double right = 0.0, scale = 0.0;
        for (int64_t j = 0; j < r->keys; j++) {
            const double slope = (double)column[j * device->dense_stride];
            if (!(slope > 0.0)) continue;
            const double mean = space->adjoint.row_right[j] / space->adjoint.den[j];
            right += slope * ((double)u[j] - mean);
            scale += slope * (fabs((double)u[j] - mean) + OTA_OFFSET_SHARE * fabs((double)u[j]));
        }
        space->adjoint.right[i] = right;
        space->adjoint.right_terms[i] = scale;
    }
}

/* Relaxed rows answer to U with less than their mean, so the right side was formed with another mean. */
double recentre(ota_backward_job *job, double scale) {
    const ota_cpu_device *device = job->device;
    ota_backward_space *s = job->space;
    ota_watch watch = ota_watch_within(&device->resolved->settings);
    for (int64_t i = 0; i < device->dense_rows && !ota_watch_ends(&watch, device->dense_columns);
         i++) {
        const real *w = slopes_of(job, i);
        if (!(s->adjoint.den[i] > 0.0)) continue;
        const double full = s->adjoint.den[i] - job->parameters.tau * s->adjoint.row_sums[i] /
                                                    device->resolved->problem.row_strength;
        const double move =
            s->adjoint.row_right[i] / full - s->adjoint.row_right[i] / s->adjoint.den[i];
        for (int64_t j = 0; j < device->dense_columns; j++) {
            s->adjoint.right[j] += (double)w[j] * move;
            scale += (double)w[j] * fabs(move);
        }
    }
    return scale;
}

/* Scores and dL/dP of one query, for the limits of masses of 0. */
void load_pairs(void *context, int64_t index, int worker) {
    const ota_pair_load *load = context;
    ota_backward_job *job = load->job;
    const ota_cpu_device *device = job->device;
    const ota_backward_worker *w = &job->space->own->workers[worker];
    const int64_t m = device->resolved->keys, query = load->to->queries[index];
    double *scores = load->to->scores + index * load->to->lane,
           *upstream = load->to->upstream + index * load->to->lane;
    load_rows(job, w, query, 1, false);
    form_tile(job, w, query, 1, 0, m, device->stride);
    form_upstream(job, w, query, 1, 0, m, device->stride);
    const real *s = w->scores, *u = w->upstream;
    for (int64_t j = 0; j < m; j++) {
        scores[j] = (double)s[j];
        upstream[j] = (double)u[j];
    }
}

/* Scores and dL/dP in f64 in the solver's orientation, for the rounds and for prefix. */
void widen_task(void *context, int64_t chunk, int worker) {
    ota_backward_job *job = context;
    const ota_cpu_device *device = job->device;
    const ota_resolved *r = device->resolved;
    ota_backward_space *space = job->space;
    ota_backward_worker *w = &space->own->workers[worker];
    int64_t first, last;
    ota_adjoint_rows(r->queries, chunk, &first, &last);
    ota_watch watch = ota_watch_within(&device->resolved->settings);
    for (int64_t i = first; i < last && !ota_watch_ends(&watch, ota_row_work(device->resolved));
         i++) {
        load_rows(job, w, i, 1, true);
        form_tile(job, w, i, 1, 0, r->keys, device->stride);
        form_upstream(job, w, i, 1, 0, r->keys, device->stride);
        const real *s = w->scores, *u = w->upstream;
        for (int64_t j = 0; j < r->keys; j++) {
            const int64_t at =
                device->transposed ? j * device->dense_stride + i : i * device->dense_stride + j;
            space->matrix[at] = (double)s[j];
            if (space->gradient != NULL)
                space->gradient[at] = s[j] > (real)-INFINITY ? (double)u[j] : 0.0;
        }
    }
}

void mark_top(void *context, int64_t chunk, int worker) {
    ota_backward_job *job = context;
    const ota_cpu_device *device = job->device;
    ota_backward_space *space = job->space;
    ota_backward_worker *w = &space->own->workers[worker];
    int64_t first, last;
    ota_adjoint_rows(device->resolved->queries, chunk, &first, &last);
    ota_watch watch = ota_watch_within(&device->resolved->settings);
    for (int64_t i = first; i < last && !ota_watch_ends(&watch, ota_row_work(device->resolved));
         i++) {
        const double f = space->f[i];
        load_rows(job, w, i, 1, false);
        form_tile(job, w, i, 1, 0, device->resolved->keys, device->stride);
        solve_row(job, i, w->scores, 1.0, w->weights);
        space->f[i] = f;
        if (space->edges != NULL && !device->transposed) space->edges[i] = (ota_edge){0};
    }
}

void load_advantage(ota_backward_job *job) {
    real *advantage = job->space->own->advantage;
    for (int64_t j = 0; j < job->device->resolved->keys; j++) advantage[j] = (real)job->space->b[j];
}

void load_bias(ota_backward_job *job) {
    ota_backward_space *space = job->space;
    real *bias = space->own->bias;
    for (int64_t j = 0; j < job->device->resolved->keys; j++) bias[j] = (real)space->g[j];
    job->state.biased = true;
}
