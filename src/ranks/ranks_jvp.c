/* Tangents of a plan whose rows lie on many processes: each rank gives those of its own queries and of its share of keys and
 * values, which are gathered, and gets those of its own rows. What all rows share moves alike on all ranks. */
#include <string.h>

#include "base/base.h"
#include "operator/jvp.h"
#include "problem/check.h"
#include "problem/fields.h"
#include "ring/ring.h"
#include "ranks_plan.h"

/* A share becomes the tangents of all, in the memory of their gradients. */
static ota_status take_share(const ota_shards *shards, const char *name, ota_array *mine,
                             const ota_array *all, ota_error *error) {
    if (!ota_array_present(mine)) return OTA_OK;
    TRY(ota_ranks_check_share(shards, mine, name, all, error));
    /* A ring passes the share on. */
    *mine = shards->in_ring ? (ota_array){0} : *all;
    return OTA_OK;
}

ota_status ota_ranks_widen_tangents(const ota_plan *plan, const ota_tangents *given,
                                    ota_tangents *wide, ota_error *error) {
    const ota_shards *shards = ota_shards_of(plan);
    if (given == NULL || given->size == 0)
        return ota_fail(error, OTA_EINVAL, "tangents.size", "set it to sizeof the struct", "%s",
                        given == NULL ? "tangents is NULL" : "tangents.size is 0");
    TRY(ota_check_sized(wide, sizeof *wide, given, given->size, "tangents.size", error));
    wide->size = sizeof *wide;
    if (shards->in_ring) TRY(ota_ring_check_tangents(plan, wide, error));
    if (shards->from_matrix) return OTA_OK;
    const bool ring = shards->in_ring;
    TRY(take_share(shards, "keys", &wide->keys, ring ? &shards->all_keys : &shards->key_grads,
                   error));
    return take_share(shards, "values", &wide->values,
                      ring ? &shards->all_values : &shards->value_grads, error);
}

/* What all rows share moves on every rank or on none: a bit for each row of ota_derivatives, and for each term. */
static uint64_t moved_by_all(const ota_plan *plan, const ota_tangents *mine) {
    uint64_t moved = ota_ranks_types(ota_shards_of(plan));
    for (int k = 0; k < OTA_DERIVATIVES; k++) {
        const ota_derivative_ranks by = ota_derivatives[k].ranks;
        if (by == OTA_DERIVATIVE_SUMMED || by == OTA_DERIVATIVE_BY_SHARES)
            moved |= (uint64_t)ota_array_present(ota_tangent_in(mine, k)) << k;
    }
    for (int k = 0; mine->terms != NULL && k < plan->resolved.problem.term_count; k++)
        moved |= (uint64_t)ota_array_present(&mine->terms[k]) << (OTA_DERIVATIVES + k);
    return moved;
}

ota_status ota_ranks_begin_tangents(ota_plan *plan, const ota_tangents *given,
                                    const ota_tangents *wide, ota_status checked,
                                    ota_error *error) {
    ota_shards *shards = ota_shards_of(plan);
    shards->messages = shards->ranks.messages;
    shards->message_bytes = shards->ranks.bytes;
    ota_tangents mine = {0};
    if (checked == OTA_OK) memcpy(&mine, given, ota_size_min(given->size, sizeof mine));
    const uint64_t moved = moved_by_all(plan, &mine);
    uint64_t differ;
    TRY(ota_ranks_agree_on(&plan->resolved.settings, checked, moved, &differ, error));
    TRY(ota_ranks_refuse_types(differ, error));
    if (differ != 0) {
        int k = 0;
        while ((differ >> k & 1) == 0) k++;
        const char *name = ota_derivatives[k < OTA_DERIVATIVES ? k : OTA_D_TERMS].tangent;
        return ota_fail(error, OTA_EMISMATCH, name, "move the same on every rank",
                        "tangents.%s is given on some ranks and not on others", name);
    }
    if (shards->from_matrix || shards->in_ring) return OTA_OK;
    if ((ota_array_present(&mine.keys) &&
         !ota_shards_gather(shards, &mine.keys, &wide->keys, "gathering tangents of keys")) ||
        (ota_array_present(&mine.values) &&
         !ota_shards_gather(shards, &mine.values, &wide->values, "gathering tangents of values")))
        return ota_ranks_refuse(&shards->ranks, error);
    return OTA_OK;
}

ota_status ota_ranks_end_tangents(ota_plan *plan, const ota_tangents *tangents, ota_status found,
                                  ota_error *error) {
    ota_shards *shards = ota_shards_of(plan);
    const ota_settings *s = &plan->resolved.settings;
    const ota_status here = ota_ranks_found(s, found);
    double most = ota_severity_of(here);
    ota_ranks_at(&shards->ranks, -1, -1);
    const bool ended = ota_ranks_most(s, &most, 1, "the end of jvp");
    const ota_status worst = ota_status_of_severity(most);
    if (ended && worst >= OTA_OK) return worst;
    ota_poison(plan, &tangents->coupling);
    ota_poison(plan, &tangents->out);
    if (shards->ranks.failed) return ota_ranks_refuse(&shards->ranks, error);
    if (here != found) return ota_fail(error, here, "", "", "%s", ota_status_text(here));
    if (found < OTA_OK) return found;
    return ota_fail(error, worst, "", "see that rank's own sentence", "a rank ended with '%s'",
                    ota_status_word(worst));
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
    if (status == OTA_OK) status = ota_ranks_widen_tangents(plan, tangents, &all, error);
    if (status == OTA_OK) status = ota_tangents_check(plan, &arrays, &all, &checked, error);
    if (status == OTA_OK) {
        memcpy(&share, tangents, ota_size_min(tangents->size, sizeof share));
        status = ota_tangents_apart(plan, &arrays, &share, error);
    }
    if (status == OTA_OK) status = ota_derivative_check_capacities(&arrays, error);
    status = ota_ranks_begin_tangents(plan, tangents, &all, status, error);
    if (status != OTA_OK) return status;
    const ota_derivative_call call = {.plan = plan,
                                      .arrays = &arrays,
                                      .tangents = &checked,
                                      .run = ota_shards_of(plan)->in_ring ? run_ring : NULL,
                                      .context = &share};
    status = ota_derivative_run(&call, result, error);
    status = ota_ranks_end_tangents(plan, &checked, status, error);
    if (result == NULL || result->size < sizeof *result) return status;
    result->status = status;
    ota_ranks_count_messages(ota_shards_of(plan), result);
    return status;
}
