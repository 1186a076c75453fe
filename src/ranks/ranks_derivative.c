/* What backward and jvp of rows on many processes share: a rank's share of keys and values in the place of all, what all ranks
 * must want or move alike, and one end for all. */
#include <string.h>

#include "base/base.h"
#include "problem/check.h"
#include "ranks_plan.h"
#include "ring/ring.h"

typedef union either {
    ota_gradients gradients;
    ota_tangents tangents;
} either;

static const char *name_of(int k, bool along) {
    return along ? ota_derivatives[k].tangent : ota_derivatives[k].gradient;
}

static size_t size_of(bool along) { return along ? sizeof(ota_tangents) : sizeof(ota_gradients); }

/* This rank's share of keys or values becomes that of all; a ring passes shares on, or brings them home. */
static ota_status take_share(const ota_plan *plan, void *wide, int k, bool along,
                             ota_error *error) {
    const ota_shards *shards = ota_shards_of(plan);
    const bool keys = k == OTA_D_KEYS;
    const ota_array *like = keys ? &shards->all_keys : &shards->all_values,
                    *room = keys ? &shards->key_grads : &shards->value_grads;
    ota_array *mine = ota_ranks_array(wide, k, along);
    const char *name = name_of(k, along);
    if (!ota_array_present(mine)) return OTA_OK;
    TRY(ota_ranks_check_share(shards, mine, name, shards->in_ring ? like : room, error));
    if (!along && ota_array_overlaps_itself(mine))
        return ota_fail(error, OTA_EALIAS, name, "give every element its own place",
                        "gradient %s overlaps itself", name);
    *mine = shards->in_ring ? (ota_array){0} : *room;
    return OTA_OK;
}

ota_status ota_ranks_widen_derivative(const ota_plan *plan, const void *given, void *wide,
                                      bool along, ota_error *error) {
    const char *field = along ? "tangents.size" : "gradients.size";
    const size_t size = size_of(along);
    TRY(ota_check_given(wide, size, given, field, error));
    memcpy(wide, &size, sizeof size);
    if (ota_shards_of(plan)->in_ring)
        TRY(along ? ota_ring_check_tangents(plan, wide, error)
                  : ota_ring_check_gradients(plan, wide, error));
    if (ota_shards_of(plan)->from_matrix) return OTA_OK;
    TRY(take_share(plan, wide, OTA_D_KEYS, along, error));
    return take_share(plan, wide, OTA_D_VALUES, along, error);
}

/* A bit for each row of which all ranks have a part, that of OTA_D_SOLVED for `solved`, and for each term. */
static uint64_t wishes_of(const ota_plan *plan, const void *record, bool along) {
    const either *of = record;
    const ota_array *terms = along ? of->tangents.terms : of->gradients.terms;
    uint64_t wishes = ota_ranks_types(ota_shards_of(plan));
    if (!along) wishes |= (uint64_t)(of->gradients.solved != 0) << OTA_D_SOLVED;
    for (int k = 0; k < OTA_DERIVATIVES; k++) {
        if (ota_ranks_share_row(k))
            wishes |= (uint64_t)ota_array_present(ota_ranks_array(record, k, along)) << k;
    }
    for (int k = 0; terms != NULL && k < plan->resolved.problem.term_count; k++)
        wishes |= (uint64_t)ota_array_present(&terms[k]) << (OTA_DERIVATIVES + k);
    return wishes;
}

ota_status ota_ranks_begin_derivative(ota_plan *plan, const void *record, bool along,
                                      ota_status checked, ota_error *error) {
    ota_shards *shards = ota_shards_of(plan);
    shards->messages = shards->ranks.messages;
    shards->message_bytes = shards->ranks.bytes;
    const uint64_t wishes = checked == OTA_OK ? wishes_of(plan, record, along) : 0;
    uint64_t differ;
    TRY(ota_ranks_agree_on(&plan->resolved.settings, checked, wishes, &differ, error));
    if (differ == 0) return OTA_OK;
    TRY(ota_ranks_refuse_types(differ, error));
    int k = 0;
    while ((differ >> k & 1) == 0) k++;
    const char *name = name_of(k < OTA_DERIVATIVES ? k : OTA_D_TERMS, along);
    return ota_fail(error, OTA_EMISMATCH, name,
                    along ? "move the same on every rank" : "want the same on every rank",
                    "%s.%s is given on some ranks and not on others",
                    along ? "tangents" : "gradients", name);
}

ota_status ota_ranks_end_derivative(ota_plan *plan, bool along, ota_status here, bool *ended) {
    const ota_settings *s = &plan->resolved.settings;
    double most = ota_severity_of(here);
    ota_ranks_at(&ota_shards_of(plan)->ranks, -1, -1);
    *ended = ota_ranks_most(s, &most, 1, along ? "the end of jvp" : "the end of backward");
    return ota_status_of_severity(most);
}

ota_status ota_ranks_refuse_end(const ota_plan *plan, ota_status found, ota_status here,
                                ota_status worst, ota_error *error) {
    if (ota_shards_of(plan)->ranks.failed)
        return ota_ranks_refuse(&ota_shards_of(plan)->ranks, error);
    if (here != found) return ota_fail(error, here, "", "", "%s", ota_status_text(here));
    if (found < OTA_OK) return found;
    return ota_fail(error, worst, "", "see that rank's own sentence", "a rank ended with '%s'",
                    ota_status_word(worst));
}

ota_status ota_ranks_tell(const ota_plan *plan, ota_status status, ota_result *result) {
    if (result == NULL || result->size < sizeof *result) return status;
    result->status = status;
    ota_ranks_count_messages(ota_shards_of(plan), result);
    return status;
}
