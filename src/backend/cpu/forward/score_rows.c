/* Scores of blocks of rows, compiled for each type: keys and values of a key head packed for
 * kernels, or read where they lie; products of queries and keys, or the caller's matrix; terms and supports.
 *
 *     n = queries, m = keys that exist (device->key_count)
 *
 * In place: of plans with few queries, where packing would take longer than reading. A type or stride that kernels
 * cannot read goes through a strip of OTA_PANEL rows. */
#include "rows_io.h"

#include <math.h>
#include <string.h>

const real *strip_of(const ota_array *a, int64_t batch, int64_t head, int64_t first, int64_t count,
                     real *strip, int64_t *ld) {
    if (readable(a)) {
        *ld = a->size[2] == 1 ? 0 : a->stride[2];
        return (const real *)a->data + (a->size[0] == 1 ? 0 : batch * a->stride[0]) +
               (a->size[1] == 1 ? 0 : head * a->stride[1]) + first * *ld;
    }
    *ld = a->size[3];
    pack_rows(a, batch, head, first, count, strip, *ld);
    return strip;
}

void dot_keys(const cpu_run *w, ota_worker *worker, int64_t batch, int64_t key_head,
              const real *query, int64_t low, int64_t high, real *to) {
    const ota_cpu_device *device = w->device;
    const ota_array *keys = &device->resolved->problem.keys;
    const int64_t most = readable(keys) ? high - low : OTA_PANEL;
    for (int64_t at = low; at < high; at += most) {
        const int64_t count = ota_int_min(high - at, most);
        int64_t ld;
        const real *k = strip_of(keys, batch, key_head, at, count, worker->strip, &ld);
        KERNELS(device)->dots(query, k, ld, count, device->resolved->width, to + (at - low));
    }
}

void pack_values(const cpu_run *w, ota_packed_kv *packed, int64_t batch, int64_t key_head) {
    const ota_cpu_device *device = w->device;
    packed->nonfinite_count = 0;
    if (!ota_array_present(&w->arrays->out) || device->values_width == 0) return;
    packed->values =
        finite_rows(KERNELS(device), &w->arrays->values, batch, key_head, device->key_count);
    if (packed->values != NULL) return;
    real *to = packed->value_room;
    packed->values = to;
    pack_rows(&w->arrays->values, batch, key_head, 0, device->key_count, to, device->values_width);
    if (KERNELS(device)->terms->is_finite(to, device->key_count * device->values_width)) return;
    for (int64_t j = 0; j < device->key_count; j++) {
        real *row = to + j * device->values_width;
        bool finite = true;
        for (int64_t k = 0; k < device->values_width; k++) finite &= (row[k] - row[k] == (real)0);
        if (finite) continue;
        packed->nonfinite_keys[packed->nonfinite_count++] = j;
        for (int64_t k = 0; k < device->values_width; k++) row[k] = (real)0;
    }
}

void pack_kv(cpu_run *w, ota_packed_kv *packed, int64_t batch, int64_t key_head) {
    const ota_cpu_device *device = w->device;
    const ota_resolved *r = device->resolved;
    packed->nonfinite_count = 0;
    packed->paired = ota_wants_pairs(w, batch, key_head);
    if (packed->paired) ota_pack_pairs(w, packed, batch, key_head);
    if (!r->from_matrix && (!packed->paired || w->run->wants_statistics)) {
        pack_keys(KERNELS(device), &r->problem.keys, batch, key_head, device->key_count,
                  packed->packed_keys);
    }
    if (!packed->paired) pack_values(w, packed, batch, key_head);
}

void raw_rows(const row_block *b, int64_t *begin, int64_t *end, real *to, int64_t stride) {
    const ota_cpu_device *device = b->w->device;
    const ota_resolved *r = device->resolved;
    const int64_t batch = b->batch, head = b->head, first = b->first, rows = b->rows;
    ota_worker *worker = b->worker;
    int64_t low = r->keys, high = 0;
    for (int64_t k = 0; k < rows; k++) {
        ota_row_range(r, batch, first + k, device->key_count, &begin[k], &end[k]);
        if (begin[k] < end[k] && begin[k] < low) low = begin[k];
        if (end[k] > high) high = end[k];
    }
    low = low < high ? low / OTA_PANEL * OTA_PANEL : 0;
    if (r->from_matrix) {
        pack_rows(&r->problem.scores, batch, head, first, rows, to, stride);
    } else if (high > low && ota_device_is_in_place(device)) {
        real *queries = worker->queries;
        pack_rows(&r->problem.queries, batch, head, first, rows, queries, r->width);
        for (int64_t k = 0; k < rows; k++)
            dot_keys(b->w, worker, batch, key_head_of(b), queries + k * r->width, low, high,
                     to + k * stride + low);
    } else if (high > low) {
        pack_rows(&r->problem.queries, batch, head, first, rows, worker->queries, r->width);
        KERNELS(device)->products(worker->queries,
                                  (const real *)b->packed->packed_keys + low * r->width, rows,
                                  high - low, r->width, to + low, stride);
    }
}

void form_rows(const row_block *b, real *to, int64_t stride) {
    const ota_cpu_device *device = b->w->device;
    int64_t begin[OTA_ROW_BLOCK], end[OTA_ROW_BLOCK];
    raw_rows(b, begin, end, to, stride);
    for (int64_t k = 0; k < b->rows; k++) {
        real *row = to + k * stride;
        apply_terms(KERNELS(device), device->resolved, b->batch, b->head, b->first + k, begin[k],
                    end[k], row + begin[k]);
        shut_outside(row, begin[k], end[k], device->stride);
    }
}

bool pair_counts(const ota_cpu_device *device, int64_t batch, int64_t head, int64_t query,
                 int64_t key) {
    const ota_resolved *r = device->resolved;
    real score = (real)0;
    if (!ota_pair_allowed(r, batch, head, query, key)) return false;
    apply_terms(KERNELS(device), r, batch, head, query, key, key + 1, &score);
    return !(score <= (real)-INFINITY);
}
