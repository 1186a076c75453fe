/* What the bodies of forward share whatever their type: heads in bf16, sums of chunks, masses of the columns. */
#include <string.h>

#include "forward.h"

/* ---- heads in bf16 ------------------------------------------------------------------------------ */

bool ota_wants_pairs(const cpu_run *w, int64_t batch, int64_t key_head) {
    const ota_cpu_device *device = w->device;
    const ota_resolved *r = device->resolved;
    const ota_arrays *a = w->arrays;
    if (device->strategy != OTA_STRATEGY_FUSED_PAIRS) return false;
    if (ota_array_present(&a->out) &&
        (a->out.type != OTA_BF16 ||
         !ota_pairs_hold(&a->values, batch, key_head, device->key_count, false)))
        return false;
    for (int64_t k = 0; k < device->group; k++) {
        if (!ota_pairs_hold(&r->problem.queries, batch, key_head * device->group + k, r->queries,
                            false))
            return false;
    }
    return ota_pairs_hold(&r->problem.keys, batch, key_head, device->key_count, false);
}

void ota_pack_pairs(const cpu_run *w, ota_packed_kv *packed, int64_t batch, int64_t key_head) {
    const ota_cpu_device *device = w->device;
    const ota_array *values = &w->arrays->values;
    ota_pairs_keys(&device->resolved->problem.keys, batch, key_head, device->key_count,
                   packed->key_pairs);
    if (!ota_array_present(&w->arrays->out)) return;
    ota_pairs_across(values, batch, key_head, 0, device->key_count, packed->value_pairs);
    packed->nonfinite_count = ota_pairs_mend(packed->value_pairs, device->key_count,
                                             device->values_width, packed->nonfinite_keys);
}

void ota_attend_pairs(const ota_cpu_device *device, const ota_packed_kv *packed,
                      const void *block) {
    ota_kernels_bf16_attend paired = {.packed_keys = packed->key_pairs,
                                      .values = packed->value_pairs};
    memcpy(&paired.block, block, sizeof paired.block);
    paired.queries = (const uint32_t *)(const void *)paired.block.queries;
    device->kernels->bf16->attend(&paired);
}

/* ---- sums of chunks ----------------------------------------------------------------------------- */

static void add_status(ota_head_status *to, const ota_head_status *from) {
    to->result.row_error += from->result.row_error;
    to->empty_rows += from->empty_rows;
    to->masked += from->masked;
    to->nonfinite_rows += from->nonfinite_rows;
    /* Only failures travel: a chunk that went well must not hide the head's own caveat. */
    if (from->result.status < OTA_OK && to->result.status >= OTA_OK)
        to->result.status = from->result.status;
}

void ota_gather_chunks(cpu_run *w, int64_t part, int64_t batch, int64_t head) {
    const ota_cpu_device *device = w->device;
    const ota_resolved *r = device->resolved;
    ota_head_status *total = &w->run->heads[batch * r->heads + head];
    const int64_t live = live_chunks(r->queries);
    for (int64_t c = 0; c < live; c++)
        add_status(total, &device->chunk_statuses[part * OTA_CHUNKS + c]);
    if (!ota_array_present(&w->arrays->receiver)) return;
    const double *sums = device->receivers + part * OTA_CHUNKS * device->stride;
    for (int64_t j = 0; j < r->keys; j++) {
        double sum = 0.0;
        for (int64_t c = 0; c < live; c++) sum += sums[c * device->stride + j];
        ota_put(&w->arrays->receiver, batch, head, j, sum);
    }
}

/* ---- masses of the columns ---------------------------------------------------------------------- */

void ota_allot_columns(ota_head_place *place, double total) {
    place->head->mass = total;
    ota_head_allot(place->head, place->run.device->resolved, place->workspace->nu,
                   place->workspace->lambdas);
}
