/* Rows that nothing couples, compiled for each type: softmax in tiles (fused), blocks of whole
 * rows for everything else, and rows in order, which share the capacities of the keys (online). */
#include "rows_io.h"

#include <math.h>
#include <string.h>

#include "base/fault.h"

/* ---- rows alone ------------------------------------------------------------------------------- */

static void solve_block(const row_block *b, bool with_out, ota_head_status *status,
                        double *receiver) {
    const ota_cpu_device *device = b->w->device;
    const ota_resolved *r = device->resolved;
    ota_row_parameters parameters = row_parameters(device, b->batch, b->head);
    ota_worker *worker = b->worker;
    real *s = worker->scores;
    ota_row_found found[OTA_BLOCK_ROWS];
    double mu[OTA_BLOCK_ROWS];
    form_rows(b, s, device->stride);
    for (int64_t k = 0; k < b->rows; k++) {
        real *row = s + k * device->stride;
        mu[k] = ota_row_mass(r, b->batch, b->head, b->first + k);
        if (worker->keys.where != NULL) {
            int64_t begin, end;
            ota_row_range(r, b->batch, b->first + k, device->key_count, &begin, &end);
            list_row(b, &parameters,
                     &(listed_row){.s = row,
                                   .query = b->first + k,
                                   .begin = begin,
                                   .end = end,
                                   .mu = mu[k],
                                   .weights = row,
                                   .out = (real *)worker->out + k * device->values_width},
                     &found[k]);
        } else {
            parameters.line = b->first + k;
            row_solve(&parameters, row, NULL, device->key_count, mu[k], row, &found[k]);
        }
    }
    finish_rows(b, s, device->stride, found, mu, with_out, status, receiver);
}

typedef struct terms_of {
    const ota_cpu_device *device;
    int64_t batch, head, first;
    ota_term_set left;
} terms_of;

static void tile_terms(void *context, int64_t row, int64_t first, int64_t last, real *tile_row) {
    const terms_of *t = context;
    const ota_pair_place place = {t->batch, t->head, t->first + row};
    apply_some_terms(KERNELS(t->device), t->device->resolved, &place, t->left, first, last,
                     tile_row);
}

/* Is value `key` used by this query? Only asked for keys whose values are not finite. */
static bool uses_nonfinite(const row_block *b, int64_t query, int64_t begin, int64_t end) {
    for (int64_t q = 0; q < b->packed->nonfinite_count; q++) {
        const int64_t key = b->packed->nonfinite_keys[q];
        if (key >= begin && key < end && pair_counts(b->w->device, b->batch, b->head, query, key))
            return true;
    }
    return false;
}

static void fuse_block(const row_block *b, ota_head_status *status) {
    const cpu_run *w = b->w;
    const ota_cpu_device *device = w->device;
    const ota_packed_kv *packed = b->packed;
    ota_worker *worker = b->worker;
    const int64_t batch = b->batch, head = b->head, first = b->first, rows = b->rows;
    const ota_resolved *r = device->resolved;
    const ota_arrays *a = w->arrays;
    const double tau = ota_head_temperature(r, head), sink = ota_head_sink(r, head);
    int64_t begin[OTA_ROW_BLOCK], end[OTA_ROW_BLOCK];
    real *mass = worker->mass, *top = worker->top, *sum = worker->sum;
    const bool masses = ota_array_present(&r->problem.row_mass);
    ota_head_masks *masks = &worker->masks;
    find_head_masks(KERNELS(device), r, batch, head, device->key_count, masks);
    for (int64_t k = 0; k < rows; k++) {
        ota_masked_row_range(r, masks, batch, first + k, &begin[k], &end[k]);
        if (masses) mass[k] = (real)ota_row_mass(r, batch, head, first + k);
    }
    const bool wants_out = ota_array_present(&a->out);
    const real *queries =
        packed->paired ? NULL : dense_rows(&r->problem.queries, batch, head, first);
    real *placed = wants_out ? dense_rows(&a->out, batch, head, first) : NULL;
    real *out = placed != NULL ? placed : worker->out;
    if (packed->paired)
        ota_pairs_of_rows(&r->problem.queries, batch, head, first, rows, worker->queries);
    else if (queries == NULL)
        pack_rows(&r->problem.queries, batch, head, first, rows, worker->queries, r->width);
    terms_of terms = {device, batch, head, first, masks->left};
    const bool logs = ota_array_present(&a->lse), potentials = ota_array_present(&a->row_potential);
    const ota_attend_block block = {.queries = queries != NULL ? queries : worker->queries,
                                    .packed_keys = packed->packed_keys,
                                    .values = packed->values,
                                    .rows = rows,
                                    .width = r->width,
                                    .values_width = wants_out ? device->values_width : 0,
                                    .begin = begin,
                                    .end = end,
                                    .scale = (real)r->scale,
                                    .c = (real)(OTA_LOG2_E / tau),
                                    .sink = (real)sink,
                                    .row_mass = masses ? mass : NULL,
                                    .terms = masks->terms ? tile_terms : NULL,
                                    .terms_context = &terms,
                                    .pairs = pairs_from(masks, first),
                                    .out = out,
                                    .row_max = top,
                                    .row_sum = sum,
                                    .scratch = worker->attend};
    if (packed->paired)
        ota_attend_pairs(device, packed, &block);
    else
        KERNELS(device)->attend(&block);
    for (int64_t k = 0; k < rows; k++) {
        const double mu = masses ? (double)mass[k] : 1.0;
        /* A row whose keys are all masked still has the sink. */
        const bool only_sink = !((double)sum[k] > 0.0) && sum[k] >= (real)0 && sink > -INFINITY;
        const double weight = only_sink ? 1.0 : (double)sum[k];
        const double peak = only_sink ? sink : (double)top[k];
        ota_row_found found = {.potential = -INFINITY, .lse = -INFINITY};
        bool nonfinite = !(weight - weight <= 0.0) || peak >= INFINITY || isnan(peak);
        if (wants_out && packed->nonfinite_count > 0 &&
            uses_nonfinite(b, first + k, begin[k], end[k])) {
            nonfinite = true;
        }
        if (nonfinite) {
            status->nonfinite_rows++;
            found = (ota_row_found){.potential = NAN, .lse = NAN, .sink = NAN};
            for (int64_t q = 0; q < block.values_width; q++)
                out[k * block.values_width + q] = (real)NAN;
        } else if (weight > 0.0) {
            if (logs) found.lse = log(weight) + OTA_FAULT(LOG_TEMPERATURE, peak / tau, peak);
            if (potentials && mu > 0.0) found.potential = tau * log(mu / weight) - peak;
            if (sink > -INFINITY) found.sink = exp((sink - peak) / tau) * (mu / weight);
        } else {
            status->empty_rows++;
            if (mu > 0.0 &&
                ota_rule_is(ota_column_rule_of(r->problem.columns), OTA_RULE_SERVES_ALL))
                status->result.status = OTA_INFEASIBLE;
        }
        put_row(w, batch, head, first + k, &found);
    }
    if (block.values_width > 0 && placed == NULL)
        unpack_rows(&a->out, batch, head, first, rows, out, device->values_width);
}

/* Part `part` of a wave: one query head and the key head that it reads. */
static row_block part_of(cpu_run *w, int64_t part, int worker) {
    const ota_cpu_device *device = w->device;
    const ota_resolved *r = device->resolved;
    const int64_t packed = part / device->group, key_head = w->first_key_head + packed;
    return (row_block){.w = w,
                       .packed = &device->packed_heads[packed],
                       .worker = &device->workers[worker],
                       .batch = key_head / r->key_heads,
                       .head = key_head % r->key_heads * device->group + part % device->group};
}

/* One chunk of one head of the wave. */
static void row_task(void *context, int64_t index, int worker_index) {
    cpu_run *w = context;
    ota_cpu_device *device = w->device;
    const int64_t live = live_chunks(device->resolved->queries), chunk = index % live;
    row_block b = part_of(w, index / live, worker_index);
    const int64_t place = index / live * OTA_CHUNKS + chunk;
    ota_head_status *status = &device->chunk_statuses[place];
    *status = (ota_head_status){0};
    double *receiver = NULL;
    if (ota_array_present(&w->arrays->receiver)) {
        receiver = device->receivers + place * device->stride;
        memset(receiver, 0, (size_t)device->stride * sizeof *receiver);
    }
    int64_t first, last;
    chunk_rows(device->resolved->queries, chunk, &first, &last);
    const bool fused = ota_device_is_fused(device);
    const bool with_out = ota_device_is_in_blocks(device);
    for (b.first = first; fused && b.first < last; b.first += OTA_ROW_BLOCK) {
        if (ota_run_interrupted(w->run)) return;
        b.rows = ota_int_min(OTA_ROW_BLOCK, last - b.first);
        fuse_block(&b, status);
    }
    for (b.first = first; (with_out || w->run->wants_statistics) && b.first < last;
         b.first += OTA_BLOCK_ROWS) {
        if (ota_run_interrupted(w->run)) return;
        b.rows = ota_int_min(OTA_BLOCK_ROWS, last - b.first);
        solve_block(&b, with_out, status, receiver);
    }
}

/* ---- rows in order ---------------------------------------------------------------------------- */

static void ordered_task(void *context, int64_t part, int worker_index) {
    cpu_run *w = context;
    ota_cpu_device *device = w->device;
    const ota_resolved *r = device->resolved;
    row_block b = part_of(w, part, worker_index);
    ota_worker *worker = b.worker;
    ota_row_parameters parameters = row_parameters(device, b.batch, b.head);
    const ota_array *state = &w->arrays->remaining;
    const int64_t m = device->key_count;
    double *room = worker->room;
    for (int64_t c = 0; c < OTA_CHUNKS; c++)
        device->chunk_statuses[part * OTA_CHUNKS + c] = (ota_head_status){0};
    double *receivers = device->receivers + part * OTA_CHUNKS * device->stride;
    if (ota_array_present(&w->arrays->receiver))
        memset(receivers, 0, (size_t)(OTA_CHUNKS * device->stride) * sizeof *receivers);
    for (int64_t j = 0; j < m; j++) {
        room[j] = ota_array_present(state)
                      ? ota_array_get(state, b.batch, b.head, 0, j)
                      : r->problem.cap * ota_column_mass(r, b.batch, b.head, j, 1.0);
    }
    ota_head_status *status = &device->chunk_statuses[part * OTA_CHUNKS];
    for (b.first = 0; b.first < r->queries && status->result.status == OTA_OK; b.first += b.rows) {
        if (ota_run_interrupted(w->run)) return;
        real *s = worker->scores;
        double mu[OTA_BLOCK_ROWS];
        ota_row_found found[OTA_BLOCK_ROWS];
        b.rows = ota_int_min(OTA_BLOCK_ROWS, r->queries - b.first);
        form_rows(&b, s, device->stride);
        bool infeasible = false;
        for (int64_t k = 0; k < b.rows && !infeasible; k++) {
            real *row = s + k * device->stride;
            mu[k] = ota_row_mass(r, b.batch, b.head, b.first + k);
            parameters.line = b.first + k;
            row_online(&parameters, row, m, mu[k], room, row, worker->row, &found[k]);
            infeasible = found[k].infeasible;
            if (infeasible) b.rows = k + 1; /* the last that has a plan */
        }
        finish_rows(&b, s, device->stride, found, mu, true, status,
                    ota_array_present(&w->arrays->receiver) ? receivers : NULL);
    }
    if (!ota_array_present(state) || status->result.status < OTA_OK) return;
    for (int64_t j = 0; j < m; j++) ota_array_set(state, b.batch, b.head, 0, j, room[j]);
}

static void pack_task(void *context, int64_t index, int worker) {
    cpu_run *w = context;
    (void)worker;
    const int64_t key_head = w->first_key_head + index, key_heads = w->device->resolved->key_heads;
    pack_kv(w, &w->device->packed_heads[index], key_head / key_heads, key_head % key_heads);
}

static double total_mass(const cpu_run *w, int64_t batch, int64_t head) {
    double sum = 0.0;
    for (int64_t i = 0; i < w->device->resolved->queries; i++)
        sum += ota_row_mass(w->device->resolved, batch, head, i);
    return sum;
}

/* Wave `first` of key heads, packed or read in place, and all their query heads. */
static void run_wave(cpu_run *w) {
    ota_cpu_device *device = w->device;
    const int64_t parts = w->packed_heads * device->group;
    const bool decodes = device->strategy == OTA_STRATEGY_CACHE;
    if (decodes) decode_pieces(w);
    /* Weights and statistics of decoded queries still want packed keys. */
    if (decodes ? w->run->wants_statistics : !ota_device_is_in_place(device))
        ota_parallel(device->pool, w->packed_heads, pack_task, w);
    if (ota_device_is_ordered(device))
        ota_parallel(device->pool, parts, ordered_task, w);
    else if (!decodes || w->run->wants_statistics)
        ota_parallel(device->pool, parts * live_chunks(device->resolved->queries), row_task, w);
    else
        memset(device->chunk_statuses, 0,
               (size_t)(parts * OTA_CHUNKS) * sizeof *device->chunk_statuses);
    if (decodes) decode_join(w, parts);
}

void WORD(ota_run_rows)(ota_run *run) {
    ota_cpu_device *device = run->device;
    const ota_resolved *r = device->resolved;
    const ota_array *potential = &run->arrays->column_potential;
    cpu_run walk = {.run = run, .device = device, .arrays = run->arrays};
    cpu_run *w = &walk;
    const int64_t key_heads = r->batch * r->key_heads;
    for (int k = 0; k < device->worker_count; k++) device->workers[k].masks.head = -1;
    for (int64_t first = 0; first < key_heads && !ota_run_interrupted(run);
         first += device->packed_count) {
        w->first_key_head = first;
        w->packed_heads = ota_int_min(device->packed_count, key_heads - first);
        run_wave(w);
        for (int64_t part = 0; part < w->packed_heads * device->group && !ota_run_interrupted(run);
             part++) {
            const row_block b = part_of(w, part, 0);
            ota_gather_chunks(w, part, b.batch, b.head);
            for (int64_t j = 0; ota_array_present(potential) && j < r->keys; j++)
                ota_put(potential, b.batch, b.head, j, 0.0);
            ota_run_finish_head(run, b.batch, b.head, total_mass(w, b.batch, b.head));
        }
    }
}
