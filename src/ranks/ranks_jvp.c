/* Tangents of a plan whose rows lie on many processes: each rank gives those of its own queries and of its share of keys and
 * values, which are gathered, and gets those of its own rows. What all rows share moves alike on all ranks. */
#include <string.h>

#include "base/base.h"
#include "operator/jvp.h"
#include "problem/check.h"
#include "problem/fields.h"
#include "ring/ring.h"
#include "ranks_plan.h"

/* The tangents of all keys and values, in the memory of their gradients. */
static ota_status gather(ota_plan *plan, const ota_tangents *mine, const ota_tangents *wide,
                         ota_error *error) {
    ota_shards *shards = ota_shards_of(plan);
    if (shards->from_matrix || shards->in_ring) return OTA_OK;
    if ((ota_array_present(&mine->keys) &&
         !ota_shards_gather(shards, &mine->keys, &wide->keys, "gathering tangents of keys")) ||
        (ota_array_present(&mine->values) &&
         !ota_shards_gather(shards, &mine->values, &wide->values, "gathering tangents of values")))
        return ota_ranks_refuse(&shards->ranks, error);
    return OTA_OK;
}

static ota_status end(ota_plan *plan, const ota_tangents *tangents, ota_status found,
                      ota_error *error) {
    const ota_status here = ota_ranks_found(&plan->resolved.settings, found);
    bool ended;
    const ota_status worst = ota_ranks_end_derivative(plan, true, here, &ended);
    if (ended && worst >= OTA_OK) return worst;
    ota_poison(plan, &tangents->coupling);
    ota_poison(plan, &tangents->out);
    return ota_ranks_refuse_end(plan, found, here, worst, error);
}

static ota_status run_ring(const ota_derivative_call *call, ota_result *found) {
    return ota_ring_jvp(call->plan, call->arrays, call->context, found);
}

ota_status ota_ranks_jvp(ota_plan *plan, const ota_arrays *given, const ota_tangents *tangents,
                         ota_result *result, ota_error *error) {
    ota_arrays wide, arrays;
    ota_tangents all, checked, share;
    memset(&share, 0, sizeof share);
    ota_status status = ota_ranks_widen(plan, given, &wide, error);
    if (status == OTA_OK) status = ota_derivative_check(plan, &wide, result, &arrays, error);
    if (status == OTA_OK) status = ota_ranks_widen_derivative(plan, tangents, &all, true, error);
    if (status == OTA_OK) status = ota_tangents_check(plan, &arrays, &all, &checked, error);
    if (status == OTA_OK) {
        memcpy(&share, tangents, ota_size_min(tangents->size, sizeof share));
        status = ota_tangents_apart(plan, &arrays, &share, error);
    }
    if (status == OTA_OK) status = ota_derivative_check_capacities(&arrays, error);
    status = ota_ranks_begin_derivative(plan, &share, true, status, error);
    if (status == OTA_OK) status = gather(plan, &share, &all, error);
    if (status != OTA_OK) return status;
    const ota_derivative_call call = {.plan = plan,
                                      .arrays = &arrays,
                                      .tangents = &checked,
                                      .run = ota_shards_of(plan)->in_ring ? run_ring : NULL,
                                      .context = &share};
    status = ota_derivative_run(&call, result, error);
    return ota_ranks_tell(plan, end(plan, &checked, status, error), result);
}
