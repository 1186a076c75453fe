/* Everything a caller wants from finished weights, compiled for each type: outputs, the
 * coupling, statistics and sums of rows.
 *
 *     out[rows][values_width] = D o P V      coupling = P      receiver_j += sum_i P_ij */
#include "rows_io.h"

#include <math.h>
#include <string.h>

void apply_rows(const row_block *b, int64_t low, int64_t high, const real *p, int64_t stride,
                int64_t rows, real *out) {
    const ota_cpu_device *device = b->w->device;
    const int64_t width = device->values_width;
    const ota_array *values = &b->w->arrays->values;
    const int64_t most = readable(values) ? high - low : OTA_PANEL;
    for (int64_t at = low; at < high; at += most) {
        const int64_t count = ota_int_min(high - at, most);
        int64_t ld;
        const real *v =
            strip_of(values, b->batch, key_head_of(b), at, count, b->worker->strip, &ld);
        const ota_product sizes = {rows, count, width, stride, ld, width};
        KERNELS(device)->apply(p + (at - low), v, &sizes, out);
    }
}

/* The output of a row that is not finite: false where a value with weight is not, else without the others. */
static bool mend_row(const row_block *b, const real *p, real *out) {
    const ota_cpu_device *device = b->w->device;
    const int64_t width = device->values_width;
    memset(out, 0, (size_t)width * sizeof *out);
    for (int64_t j = 0; j < device->key_count; j++) {
        int64_t ld;
        if (!(p[j] > (real)0)) continue;
        const real *v =
            strip_of(&b->w->arrays->values, b->batch, key_head_of(b), j, 1, b->worker->strip, &ld);
        if (!all_finite(v, width)) return false;
        for (int64_t k = 0; k < width; k++) out[k] += p[j] * v[k];
    }
    return true;
}
void put_row(const cpu_run *w, int64_t batch, int64_t head, int64_t query,
             const ota_row_found *found) {
    const ota_arrays *a = w->arrays;
    const bool entropy = ota_regulariser_of(&w->device->resolved->problem)->exponential;
    ota_put(&a->row_potential, batch, head, query, found->potential);
    /* Only entropy plans have one. */
    ota_put(&a->lse, batch, head, query, entropy ? found->lse : NAN);
    ota_put(&a->sink, batch, head, query, found->sink);
}

/* The weights of a list with some dropped, in memory of their own: what else asks for weights finds all of them. */
static const real *drop_list(const row_block *b, const listed_row *row, int64_t count) {
    const ota_resolved *r = b->w->device->resolved;
    const ota_row_room *room = &b->worker->keys;
    real *dropped = (real *)(void *)room->wide;
    uint32_t key[2];
    ota_dropout_head(r, b->batch, b->head, key);
    memcpy(dropped, room->kept, (size_t)count * sizeof *dropped);
    dropout_row(r, key, row->query, row->begin, room->where, count, dropped);
    return dropped;
}

void list_row(const row_block *b, const ota_row_parameters *parameters, const listed_row *row,
              ota_row_found *found) {
    const cpu_run *w = b->w;
    const ota_cpu_device *device = w->device;
    const ota_packed_kv *packed = b->packed;
    const ota_row_room *room = &b->worker->keys;
    const real *kept = room->kept;
    const int64_t width = device->values_width, begin = row->begin;
    const int64_t keys = ota_int_max(row->end - begin, 0);
    const int64_t count =
        row_entmax(parameters, row->s + begin, row->h == NULL ? NULL : row->h + begin, keys,
                   row->mu, room, found);
    const bool wants_out = ota_array_present(&w->arrays->out) && width > 0;
    const bool in_place = ota_device_is_in_place(device);
    const real *values = in_place ? NULL : (const real *)packed->values + begin * width;
    int64_t ld = width;
    if (in_place && wants_out && readable(&w->arrays->values))
        values = strip_of(&w->arrays->values, b->batch, key_head_of(b), begin, 1, NULL, &ld);
    found->applied = 2 * count <= device->key_count && (values != NULL || !wants_out);
    if (found->applied && wants_out) {
        const bool drops = device->resolved->problem.dropout > 0.0;
        const real *applied = drops ? drop_list(b, row, count) : kept;
        KERNELS(device)->spmv(applied, room->where, count, values, ld, width, row->out);
        if (in_place) found->applied = all_finite(row->out, width);
    }
    const bool is_read =
        w->run->wants_statistics || packed->nonfinite_count > 0 ||
        (device->layout.kind == OTA_LAYOUT_COUPLED && device->resolved->adds_pairs);
    if (found->applied && !is_read) return;
    const real rest = found->nonfinite ? (real)NAN : (real)0;
    for (int64_t j = 0; j < device->key_count; j++) row->weights[j] = rest;
    for (int64_t i = 0; i < count; i++) row->weights[begin + room->where[i]] = kept[i];
}

/* out[rows][values_width] += p[rows][stride] V */
static void apply_weights(const row_block *b, const real *p, int64_t stride, int64_t rows,
                          real *out) {
    const ota_cpu_device *device = b->w->device;
    const int64_t m = device->key_count, width = device->values_width;
    const ota_product sizes = {rows, m, width, stride, width, width};
    if (ota_device_is_in_place(device))
        apply_rows(b, 0, m, p, stride, rows, out);
    else
        KERNELS(device)->apply(p, b->packed->values, &sizes, out);
}

real *coupling_in_place(const cpu_run *w, int64_t batch, int64_t head, int64_t first) {
    const ota_array *coupling = &w->arrays->coupling;
    if (!ota_array_present(coupling) || ota_array_present(&w->arrays->out) ||
        coupling->size[3] != w->device->key_count)
        return NULL;
    return dense_rows(coupling, batch, head, first);
}

void finish_rows(const row_block *b, real *p, int64_t stride, const ota_row_found *found,
                 const double *mu, bool with_out, ota_head_status *status, double *receiver) {
    const cpu_run *w = b->w;
    const ota_cpu_device *device = w->device;
    const ota_arrays *a = w->arrays;
    const ota_packed_kv *packed = b->packed;
    ota_worker *worker = b->worker;
    const int64_t batch = b->batch, head = b->head, first = b->first, rows = b->rows;
    const int64_t m = device->key_count, width = device->values_width;
    const bool serves_all =
        ota_rule_is(ota_column_rule_of(device->resolved->problem.columns), OTA_RULE_SERVES_ALL);
    bool nonfinite[OTA_ROW_BLOCK] = {false};
    for (int64_t k = 0; k < rows; k++) {
        const real *row = p + k * stride;
        for (int64_t q = 0; q < packed->nonfinite_count; q++) {
            if (row[packed->nonfinite_keys[q]] > (real)0) nonfinite[k] = true;
        }
        if (with_out && (found[k].nonfinite || nonfinite[k])) status->nonfinite_rows++;
        if (with_out && found[k].empty && !device->transposed) {
            status->empty_rows++;
            if (mu[k] > 0.0 && serves_all) status->result.status = OTA_INFEASIBLE;
        }
        if (found[k].infeasible) status->result.status = OTA_INFEASIBLE;
        if (with_out && !found[k].empty && device->resolved->problem.rows == OTA_ROWS_HARD) {
            status->result.row_error += fabs(found[k].mass + found[k].sink - mu[k]);
        }
        if (with_out && device->layout.kind == OTA_LAYOUT_COUPLED && device->resolved->adds_pairs)
            status->masked +=
                masked_mass(KERNELS(device), device->resolved, batch, head, first + k, row);
        if (receiver != NULL && !found[k].nonfinite)
            KERNELS(device)->accumulate(row, m, 1.0, receiver);
        if (ota_array_present(&a->row_entropy) || ota_array_present(&a->row_support) ||
            ota_array_present(&a->row_max)) {
            double p_log_p = 0.0, largest = 0.0;
            int64_t positive = 0;
            KERNELS(device)->statistics(row, m, &p_log_p, &positive, &largest);
            const double rest = found[k].sink, mass = found[k].mass + rest;
            if (rest > 0.0) p_log_p += rest * log(rest);
            const double entropy = mass > 0.0    ? (mass * log(mu[k]) - p_log_p) / mu[k]
                                   : mass <= 0.0 ? 0.0
                                                 : NAN;
            ota_put(&a->row_entropy, batch, head, first + k, found[k].nonfinite ? NAN : entropy);
            ota_put(&a->row_support, batch, head, first + k,
                    found[k].nonfinite ? NAN : (double)positive);
            ota_put(&a->row_max, batch, head, first + k, found[k].nonfinite ? NAN : largest);
        }
        if (with_out) put_row(w, batch, head, first + k, &found[k]);
    }
    if (ota_array_present(&a->coupling) && coupling_in_place(w, batch, head, first) != p) {
        ota_array rows_of = a->coupling;
        rows_of.size[3] = m;
        unpack_rows(&rows_of, batch, head, first, rows, p, stride);
        for (int64_t k = 0; k < rows; k++) {
            for (int64_t j = m; j < a->coupling.size[3]; j++)
                ota_array_set(&a->coupling, batch, head, first + k, j, 0.0);
        }
    }
    if (!with_out || !ota_array_present(&a->out) || width == 0) return;
    if (device->resolved->problem.dropout > 0.0) {
        uint32_t key[2];
        ota_dropout_head(device->resolved, batch, head, key);
        for (int64_t k = 0; k < rows; k++) {
            if (!found[k].applied)
                dropout_row(device->resolved, key, first + k, 0, NULL, m, p + k * stride);
        }
    }
    real *out = worker->out;
    for (int64_t k = 0, last; k < rows; k = last) {
        last = k + 1;
        if (found[k].applied) continue;
        while (last < rows && !found[last].applied) last++;
        memset(out + k * width, 0, (size_t)((last - k) * width) * sizeof *out);
        apply_weights(b, p + k * stride, stride, last - k, out + k * width);
    }
    for (int64_t k = 0; ota_device_is_in_place(device) && k < rows; k++) {
        real *row = out + k * width;
        if (found[k].nonfinite || all_finite(row, width)) continue;
        nonfinite[k] = !mend_row(b, p + k * stride, row);
        if (nonfinite[k]) status->nonfinite_rows++;
    }
    for (int64_t k = 0; k < rows; k++) {
        for (int64_t q = 0; q < width && (nonfinite[k] || found[k].nonfinite); q++)
            out[k * width + q] = (real)NAN;
    }
    unpack_rows(&a->out, batch, head, first, rows, out, width);
}

ota_row_parameters row_parameters(const ota_cpu_device *device, int64_t batch, int64_t head) {
    ota_row_parameters row = ota_row_parameters_of(device->resolved, batch, head);
    row.kernels = device->kernels;
    return row;
}
