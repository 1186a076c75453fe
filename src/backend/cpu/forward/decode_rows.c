/* Few queries against many keys, compiled for each type: keys and values are read where they lie, in pieces of
 * the key axis that the threads share. For query i and piece c of keys [first, last):
 *
 *     top[c] = max_j S_ij       sum[c] = sum_j e^((S_ij - top[c]) / tau)       part[c] = sum_j e^(...) V_j
 *     out_i  = mu_i sum_c a[c] part[c] / (sum_c a[c] sum[c] + sink),   a[c] = e^((top[c] - top) / tau)
 *
 * The pieces depend on the number of keys alone and are added in order, so bits do not depend on threads. */

#include "rows_io.h"

#include <math.h>
#include <string.h>

static int64_t piece_index(const ota_cpu_device *device, int64_t part, int64_t query,
                           int64_t piece) {
    return (part * device->resolved->queries + query) * OTA_CHUNKS + piece;
}

/* out += weights V over keys [low, high) for one query. A value that is not finite counts only where the pair is
 * allowed: false then, and elsewhere as 0. */
static bool add_values(const row_block *b, int64_t low, int64_t high, const real *weights,
                       real *out) {
    const ota_cpu_device *device = b->w->device;
    const int64_t width = device->values_width;
    const ota_array *values = &b->w->arrays->values;
    apply_rows(b, low, high, weights, 0, 1, out);
    if (all_finite(out, width)) return true;
    memset(out, 0, (size_t)width * sizeof *out);
    for (int64_t j = low; j < high; j++) {
        int64_t ld;
        const real *v = strip_of(values, b->batch, key_head_of(b), j, 1, b->worker->strip, &ld);
        if (!all_finite(v, width)) {
            if (pair_counts(device, b->batch, b->head, b->first, j)) return false;
            continue;
        }
        for (int64_t k = 0; k < width; k++) out[k] += weights[j - low] * v[k];
    }
    return true;
}

/* Query b->first against keys [low, high), entry `index` of the pieces. */
static void solve_piece(const row_block *b, int64_t index, int64_t low, int64_t high) {
    ota_cpu_device *device = b->w->device;
    const ota_resolved *r = device->resolved;
    const int64_t width = device->values_width;
    real *out = (real *)device->piece_out + index * width;
    ota_worker *worker = b->worker;
    real *s = worker->scores;
    device->piece_top[index] = -INFINITY;
    device->piece_sum[index] = 0.0;
    if (low >= high) return;
    pack_rows(&r->problem.queries, b->batch, b->head, b->first, 1, worker->queries, r->width);
    dot_keys(b->w, worker, b->batch, key_head_of(b), worker->queries, low, high, s);
    const ota_head_masks *masks = &worker->masks;
    if (masks->terms || masks->flags != NULL || masks->bias != NULL)
        apply_terms(KERNELS(device), r, b->batch, b->head, b->first, low, high, s);
    else if (r->scale < 1.0 || r->scale > 1.0)
        KERNELS(device)->multiply(s, high - low, (real)r->scale);
    const double top = (double)KERNELS(device)->maximum(s, NULL, high - low);
    device->piece_top[index] = top;
    if (!(top > -INFINITY)) return;
    const ota_row_parameters parameters = row_parameters(device, b->batch, b->head);
    device->piece_sum[index] = row_exponentials(&parameters, s, high - low, top, s);
    if (!ota_array_present(&b->w->arrays->out) || width == 0) return;
    memset(out, 0, (size_t)width * sizeof *out);
    if (!add_values(b, low, high, s, out)) device->piece_sum[index] = NAN;
}

/* One piece of the keys of one key head, for all queries that read it. */
static void piece_task(void *context, int64_t task, int worker_index) {
    cpu_run *w = context;
    const ota_cpu_device *device = w->device;
    const ota_resolved *r = device->resolved;
    const int64_t pieces = ota_pieces(device->key_count), piece = task % pieces,
                  packed = task / pieces;
    const int64_t key_head = w->first_key_head + packed, batch = key_head / r->key_heads;
    const int64_t length = ota_piece_keys(device->key_count);
    const int64_t first = piece * length;
    if (ota_run_interrupted(w->run)) return;
    row_block b = {.w = w, .worker = &device->workers[worker_index], .batch = batch, .rows = 1};
    for (int64_t k = 0; k < device->group; k++) {
        b.head = key_head % r->key_heads * device->group + k;
        find_head_masks(KERNELS(device), r, batch, b.head, device->key_count, &b.worker->masks);
        for (b.first = 0; b.first < r->queries; b.first++) {
            int64_t begin, end;
            ota_masked_row_range(r, &b.worker->masks, batch, b.first, &begin, &end);
            const int64_t low = ota_int_max(begin, first);
            const int64_t high = ota_int_min(end, first + length);
            solve_piece(&b, piece_index(device, packed * device->group + k, b.first, piece), low,
                        high);
        }
    }
}

/* Adds the pieces of one query up and writes what is wanted of it. */
static void join_pieces(cpu_run *w, int64_t part, int64_t batch, int64_t head, int64_t query,
                        ota_head_status *status) {
    const ota_cpu_device *device = w->device;
    const ota_resolved *r = device->resolved;
    const double tau = ota_head_temperature(r, head), sink = ota_head_sink(r, head);
    const double mu = ota_row_mass(r, batch, head, query);
    const int64_t base = piece_index(device, part, query, 0), width = device->values_width;
    const int64_t pieces = ota_pieces(device->key_count);
    double share[OTA_CHUNKS], top = sink, sum = 0.0;
    bool nonfinite = isnan(mu);
    for (int64_t c = 0; c < pieces; c++) {
        top = device->piece_top[base + c] > top ? device->piece_top[base + c] : top;
        nonfinite |= isnan(device->piece_top[base + c]) || isnan(device->piece_sum[base + c]);
    }
    nonfinite |= top >= INFINITY;
    for (int64_t c = 0; c < pieces; c++) {
        const double away = device->piece_top[base + c] / 2.0 - top / 2.0;
        share[c] = device->piece_sum[base + c] > 0.0 ? exp(away / (tau / 2.0)) : 0.0;
        sum += share[c] * device->piece_sum[base + c];
    }
    ota_row_found found = {.potential = -INFINITY, .lse = -INFINITY};
    const double rest = sink > -INFINITY ? exp((sink / 2.0 - top / 2.0) / (tau / 2.0)) : 0.0;
    sum += rest;
    if (nonfinite) {
        status->nonfinite_rows++;
        found = (ota_row_found){.potential = NAN, .lse = NAN, .sink = NAN};
    } else if (sum > 0.0) {
        found.lse = log(sum) + top / tau;
        if (mu > 0.0) found.potential = tau * log(mu / sum) - top;
        found.sink = rest * (mu / sum);
    } else {
        status->empty_rows++;
        if (mu > 0.0 && ota_rule_is(ota_column_rule_of(r->problem.columns), OTA_RULE_SERVES_ALL))
            status->result.status = OTA_INFEASIBLE;
    }
    put_row(w, batch, head, query, &found);
    if (!ota_array_present(&w->arrays->out) || width == 0) return;
    real *out = device->workers[0].out;
    for (int64_t k = 0; k < width; k++) {
        double total = 0.0;
        for (int64_t c = 0; c < pieces; c++) {
            if (share[c] > 0.0)
                total +=
                    share[c] * (double)((const real *)device->piece_out)[(base + c) * width + k];
        }
        out[k] = nonfinite ? (real)NAN : sum > 0.0 ? (real)(total * (mu / sum)) : (real)0;
    }
    unpack_rows(&w->arrays->out, batch, head, query, 1, out, width);
}

void decode_pieces(cpu_run *w) {
    ota_parallel(w->device->pool, w->packed_heads * ota_pieces(w->device->key_count), piece_task,
                 w);
}

void decode_join(cpu_run *w, int64_t parts) {
    ota_cpu_device *device = w->device;
    const ota_resolved *r = device->resolved;
    for (int64_t part = 0; part < parts && !ota_run_interrupted(w->run); part++) {
        const int64_t key_head = w->first_key_head + part / device->group;
        const int64_t head = key_head % r->key_heads * device->group + part % device->group;
        for (int64_t i = 0; i < r->queries; i++)
            join_pieces(w, part, key_head / r->key_heads, head, i,
                        &device->chunk_statuses[part * OTA_CHUNKS]);
    }
}
