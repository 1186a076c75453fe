/* Stored scores, compiled for each type: the scores S [dense_rows][dense_stride] of one head
 * are formed, transposed where the problem is; and once a solver has found the potentials, the final row update solves
 * every row once more with them as a bias and writes weights, outputs and statistics [DER-26]. */
#include "rows_io.h"

#include <math.h>
#include <string.h>

/* Forms one chunk of the stored scores, transposed when the plan is. */
static void form_task(void *context, int64_t chunk, int worker_index) {
    ota_head_place *place = context;
    ota_cpu_device *device = place->run.device;
    ota_worker *worker = &device->workers[worker_index];
    real *scores = place->workspace->scores;
    int64_t first, last;
    chunk_rows(device->resolved->queries, chunk, &first, &last);
    ota_watch watch = ota_watch_within(&device->resolved->settings);
    for (int64_t at = first; at < last; at += OTA_BLOCK_ROWS) {
        const int64_t rows = ota_int_min(OTA_BLOCK_ROWS, last - at);
        if (ota_watch_ends(&watch, rows * ota_row_work(device->resolved))) return;
        const row_block rows_at = block_at(place, worker, at, rows);
        if (!device->transposed) {
            form_rows(&rows_at, scores + at * device->dense_stride, device->dense_stride);
            continue;
        }
        real *block = worker->scores;
        form_rows(&rows_at, block, device->stride);
        for (int64_t k = 0; k < rows; k++) {
            for (int64_t j = 0; j < device->dense_rows; j++)
                scores[j * device->dense_stride + at + k] = block[k * device->stride + j];
        }
    }
}

/* Masses of the stored problem, which rows and columns are usable, the range; false on NaN or +inf. */
static bool weigh(ota_head_place *place) {
    const ota_cpu_device *device = place->run.device;
    const ota_resolved *r = device->resolved;
    const int64_t n = device->dense_rows, m = device->dense_columns;
    ota_head_workspace *workspace = place->workspace;
    const real *scores = workspace->scores;
    double low = INFINITY, high = -INFINITY, total = 0.0;
    bool finite = true, all_used = false;
    for (int64_t j = 0; j < device->dense_stride; j++) workspace->nu[j] = 0.0;
    ota_watch watch = ota_watch_within(&r->settings);
    for (int64_t i = 0; i < n && !ota_watch_ends(&watch, m); i++) {
        const real *row = scores + i * device->dense_stride;
        const double top = (double)KERNELS(device)->maximum(row, NULL, m);
        int64_t forbidden;
        const double bottom = (double)KERNELS(device)->lowest(row, m, &forbidden);
        bool any = top > -INFINITY;
        finite &= top < INFINITY;
        if (any && bottom < low) low = bottom;
        if (any && top > high) high = top;
        if (forbidden > 0 || isnan(top)) {
            for (int64_t j = 0; j < m; j++) {
                if (!(row[j] > (real)-INFINITY)) continue;
                any = true;
                workspace->nu[j] = 1.0;
            }
        } else if (!all_used) {
            for (int64_t j = 0; j < m; j++) workspace->nu[j] = 1.0;
            all_used = true;
        }
        const double mu = device->transposed
                              ? ota_column_mass(r, place->batch, place->number, i, 1.0)
                              : ota_row_mass(r, place->batch, place->number, i);
        const bool empty = !any && !(place->head->row.sink > -INFINITY);
        workspace->mu[i] = empty ? 0.0 : mu;
        total += workspace->mu[i];
        /* A masked row that should carry mass has no place in an exact plan. */
        if (empty && mu > 0.0) place->head->found.unusable = -1;
    }
    for (int64_t j = 0; j < m && workspace->used != NULL; j++)
        workspace->used[j] = workspace->nu[j] > 0.0 ? OTA_KEY_IDLE : OTA_KEY_SHUT;
    ota_allot_columns(place, total);
    ota_head_put_range(place->head, low, high);
    return finite;
}

/* The weights of one dense row at the potentials of the columns. */
static void solve_whole_row(const ota_head_place *place, const ota_row_parameters *parameters,
                            int64_t i, real *to, ota_row_found *found) {
    const ota_cpu_device *device = place->run.device;
    const int64_t m = device->dense_columns;
    const real *row = (const real *)place->workspace->scores + i * device->dense_stride;
    const real *bias = device->layout.kind == OTA_LAYOUT_COUPLED ? place->workspace->bias : NULL;
    /* The transposed problem is turned over by the thread of its place. */
    const ota_row_room *room = &device->workers[place->index].keys;
    if (room->where == NULL || !device->transposed) {
        row_solve(parameters, row, bias, m, place->head->mu[i], to, found);
        return;
    }
    const int64_t count = row_entmax(parameters, row, bias, m, place->head->mu[i], room, found);
    const real *kept = room->kept;
    for (int64_t j = 0; j < m; j++) to[j] = found->nonfinite ? (real)NAN : (real)0;
    for (int64_t k = 0; k < count; k++) to[room->where[k]] = kept[k];
}

/* The weights of dense rows [first, last) from what the solver left, into `to`. */
static void weights_of(const ota_head_place *place, const ota_row_parameters *parameters, int64_t i,
                       real *to, ota_row_found *found) {
    const ota_cpu_device *device = place->run.device;
    const ota_head *d = place->head;
    const int64_t m = device->dense_columns;
    if (d->found.update == OTA_FINAL_MATCH) {
        memset(to, 0, (size_t)m * sizeof *to);
        to[d->found.match[i]] = (real)d->mu[i];
        *found = (ota_row_found){.mass = d->mu[i], .potential = d->f[i], .lse = -INFINITY};
        return;
    }
    if (d->found.update == OTA_FINAL_PLAN) {
        const double *from = place->workspace->plan + i * device->dense_stride;
        *found =
            (ota_row_found){.potential = d->mu[i] > 0.0 ? d->f[i] : -INFINITY, .lse = -INFINITY};
        for (int64_t j = 0; j < m; j++) {
            to[j] = (real)from[j];
            found->mass += from[j];
        }
        if (parameters->sink > -INFINITY) found->sink = fmax(0.0, d->mu[i] - found->mass);
        found->empty = !(found->mass > 0.0) && d->mu[i] <= 0.0;
        return;
    }
    if (d->found.update == OTA_FINAL_POTENTIALS) {
        const real *row = (const real *)place->workspace->scores + i * device->dense_stride;
        const real *bias =
            device->layout.kind == OTA_LAYOUT_COUPLED ? place->workspace->bias : NULL;
        row_weights(parameters, row, bias, m, d->f[i], to, found);
        return;
    }
    solve_whole_row(place, parameters, i, to, found);
}

/* Transposed problem: weights of every dense row (key), then P = P'^T. */
static void turn_over(ota_head_place *place, ota_head_status *status) {
    ota_cpu_device *device = place->run.device;
    const ota_row_parameters parameters = row_parameters(device, place->batch, place->number);
    real *weights = place->workspace->weights, *line = place->workspace->line;
    ota_watch watch = ota_watch_within(&device->resolved->settings);
    for (int64_t j = 0; j < device->dense_rows && !ota_watch_ends(&watch, device->dense_columns);
         j++) {
        ota_row_found found;
        weights_of(place, &parameters, j, line, &found);
        place->head->f[j] = found.potential;
        status->empty_rows += found.empty;
        for (int64_t i = 0; i < device->dense_columns; i++)
            weights[i * device->stride + j] = line[i];
    }
}

/* LSE_j (S_ij + g_j) / tau of a query of the transposed problem, whose g are the dense rows' f. */
static double transposed_lse(const ota_head_place *place, double tau, int64_t query) {
    const ota_cpu_device *device = place->run.device;
    const real *column = (const real *)place->workspace->scores + query;
    double top = -INFINITY, sum = 0.0;
    for (int64_t j = 0; j < device->dense_rows; j++)
        top = fmax(top, (double)column[j * device->dense_stride] + place->head->f[j]);
    if (!(top > -INFINITY)) return top;
    for (int64_t j = 0; j < device->dense_rows; j++)
        sum += exp(((double)column[j * device->dense_stride] + place->head->f[j] - top) / tau);
    return log(sum) + top / tau;
}

/* Rows of a matching whose weights nobody reads: each is one value. */
static bool emit_matched(const ota_head_place *place, real *out, int64_t first, int64_t rows,
                         ota_row_found *found) {
    const cpu_run *w = &place->run;
    const ota_head *d = place->head;
    const int64_t width = w->device->values_width;
    if (d->found.update != OTA_FINAL_MATCH || w->device->transposed || w->run->wants_statistics ||
        place->packed->nonfinite_count > 0 || w->device->resolved->problem.dropout > 0.0 ||
        w->device->resolved->adds_pairs)
        return false;
    const real *values = place->packed->values;
    const bool wants_out = ota_array_present(&w->arrays->out);
    for (int64_t k = 0; k < rows; k++) {
        const int64_t i = first + k;
        found[k] = (ota_row_found){
            .mass = d->mu[i], .potential = d->f[i], .lse = -INFINITY, .applied = true};
        for (int64_t q = 0; wants_out && q < width; q++)
            out[k * width + q] = (real)d->mu[i] * values[d->found.match[i] * width + q];
    }
    return true;
}

/* Final row update of one chunk of queries. */
static void emit_task(void *context, int64_t chunk, int worker_index) {
    ota_head_place *place = context;
    cpu_run *w = &place->run;
    ota_cpu_device *device = w->device;
    ota_worker *worker = &device->workers[worker_index];
    ota_row_parameters parameters = row_parameters(device, place->batch, place->number);
    parameters.sink = place->head->row.sink; /* the solver may have shifted it */
    double *receiver;
    ota_head_status *status = begin_chunk(place, chunk, &receiver);
    int64_t first, last;
    chunk_rows(device->resolved->queries, chunk, &first, &last);
    ota_watch watch = ota_watch_within(&device->resolved->settings);
    for (int64_t at = first; at < last; at += OTA_BLOCK_ROWS) {
        const int64_t rows = ota_int_min(OTA_BLOCK_ROWS, last - at);
        if (ota_watch_ends(&watch, rows * ota_row_work(device->resolved))) return;
        ota_row_found found[OTA_BLOCK_ROWS];
        double mu[OTA_BLOCK_ROWS];
        real *p = worker->scores;
        int64_t stride = device->stride;
        const row_block rows_at = block_at(place, worker, at, rows);
        const bool matched = emit_matched(place, worker->out, at, rows, found);
        for (int64_t k = 0; k < rows; k++) {
            if (matched) {
                mu[k] = place->head->mu[at + k];
                continue;
            }
            if (device->transposed) {
                p = (real *)place->workspace->weights + at * device->stride;
                const double mass = KERNELS(device)->sum(p + k * stride, device->resolved->keys);
                const double potential = place->head->g[at + k];
                const bool entropy = ota_regulariser_of(&device->resolved->problem)->exponential;
                mu[k] = mass;
                found[k] =
                    (ota_row_found){.potential = potential,
                                    .mass = mass,
                                    .lse = entropy && ota_array_present(&w->arrays->lse)
                                               ? transposed_lse(place, parameters.tau, at + k)
                                               : -INFINITY,
                                    .empty = !(mass > 0.0),
                                    .nonfinite = isnan(mass)};
                continue;
            }
            mu[k] = place->head->mu[at + k];
            const double level = -place->head->f[at + k];
            parameters.line = at + k;
            parameters.threshold = parameters.regulariser->capped ? &level : NULL;
            if (worker->keys.where != NULL && place->head->found.update == OTA_FINAL_ROWS) {
                const listed_row row = {.s = (const real *)place->workspace->scores +
                                             (at + k) * device->dense_stride,
                                        .h = place->workspace->bias,
                                        .query = at + k,
                                        .end = device->dense_columns,
                                        .mu = mu[k],
                                        .weights = p + k * stride,
                                        .out = (real *)worker->out + k * device->values_width};
                list_row(&rows_at, &parameters, &row, &found[k]);
                continue;
            }
            weights_of(place, &parameters, at + k, p + k * stride, &found[k]);
        }
        finish_rows(&rows_at, p, stride, found, mu, true, status, receiver);
    }
}

void WORD(ota_load_scores)(ota_head *head, bool *finite) {
    ota_head_place *place = head->host.place;
    ota_cpu_device *device = place->run.device;
    ota_parallel(device->pool, live_chunks(device->resolved->queries), form_task, place);
    for (int64_t j = 0; j < device->dense_rows && device->transposed; j++) {
        real *row = (real *)place->workspace->scores + j * device->dense_stride;
        for (int64_t i = device->dense_columns; i < device->dense_stride; i++)
            row[i] = (real)-INFINITY;
    }
    *finite = weigh(place);
}

void WORD(ota_emit_scores)(ota_head *head) {
    ota_head_place *place = head->host.place;
    const ota_cpu_device *device = place->run.device;
    real *bias = place->workspace->bias;
    for (int64_t j = 0; j < device->dense_columns; j++) bias[j] = (real)head->g[j];
    if (device->transposed) turn_over(place, &place->run.run->heads[head->index]);
    ota_parallel(device->pool, live_chunks(device->resolved->queries), emit_task, place);
}
