/* Gradients of a plan whose rows lie on many processes. The rows of this rank give the gradients of their own queries and
 * scores, and parts of those of all keys and values and of everything shared, which are summed over the ranks; each rank
 * then gets its share of keys and values. */
#include <stdlib.h>
#include <string.h>

#include "operator/backward.h"
#include "base/base.h"
#include "problem/check.h"
#include "problem/fields.h"
#include "ring/ring.h"
#include "ranks_plan.h"
#include "terms/terms.h"

/* ---- before ------------------------------------------------------------------------------------- */

/* Memory for the gradients of all keys or values, once one is wanted. */
static ota_status room_for(ota_array *room, const ota_array *like, ota_type type,
                           ota_error *error) {
    size_t bytes;
    if (ota_array_present(room)) return OTA_OK;
    if (ota_size_product(like->size, 4, &bytes) &&
        ota_size_mul(bytes, ota_type_bytes(type), &bytes)) {
        void *data = malloc(bytes + 1);
        if (data != NULL) {
            *room = ota_array_of(data, type, like->size[0], like->size[1], like->size[2],
                                 like->size[3]);
            return OTA_OK;
        }
    }
    return ota_fail(error, OTA_ENOMEM, "gradients", "use more ranks or smaller sizes",
                    "no memory for the gradients of the keys of all ranks");
}

ota_status ota_ranks_reserve_gradients(ota_plan *plan, ota_error *error) {
    ota_shards *shards = ota_shards_of(plan);
    const ota_type type = plan->resolved.type == OTA_F64 ? OTA_F64 : OTA_F32;
    if (shards->from_matrix || shards->in_ring || !plan->resolved.settings.gradients) return OTA_OK;
    TRY(room_for(&shards->key_grads, &shards->all_keys, type, error));
    return room_for(&shards->value_grads, &shards->all_values, type, error);
}

/* ---- after -------------------------------------------------------------------------------------- */

/* All elements of an array, in pieces of the messages' size. */
static bool sum_array(ota_plan *plan, const ota_array *a, const char *step) {
    const ota_settings *s = &plan->resolved.settings;
    for (int64_t b = 0; b < a->size[0]; b++) {
        for (int64_t h = 0; h < a->size[1]; h++) {
            for (int64_t i = 0; i < a->size[2]; i++) {
                for (int64_t from = 0; from < a->size[3]; from += OTA_RANKS_ROOM) {
                    const int64_t count = ota_int_min(a->size[3] - from, OTA_RANKS_ROOM);
                    double *line = ota_shards_of(plan)->piece;
                    for (int64_t j = 0; j < count; j++)
                        line[j] = ota_array_get(a, b, h, i, from + j);
                    if (!ota_ranks_sum(s, line, count, NULL, 0, step)) return false;
                    for (int64_t j = 0; j < count; j++)
                        ota_array_set(a, b, h, i, from + j, line[j]);
                }
            }
        }
    }
    return true;
}

/* The gradients of all keys of one head, summed, and this rank's share of them. */
static bool sum_shares(ota_plan *plan, const ota_array *all, const ota_array *mine,
                       const char *step) {
    ota_shards *shards = ota_shards_of(plan);
    const int64_t line = all->size[2] * all->size[3];
    const int rank = shards->ranks.to.rank;
    const bool zigzag = shards->ranks.to.shares == OTA_SHARES_ZIGZAG;
    for (int64_t k = 0; k < all->size[0] * all->size[1]; k++) {
        const int64_t b = k / all->size[1], h = k % all->size[1];
        char *head = (char *)all->data + (size_t)(k * line) * ota_type_bytes(all->type);
        if (!ota_ranks_add(&shards->ranks, head, line, all->type, step)) return false;
        int64_t row = 0;
        for (int piece = 0; piece < (zigzag ? 2 : 1); piece++) {
            int64_t first, count;
            ota_shards_piece(shards, shards->key_shares, rank, piece == 1, &first, &count);
            for (int64_t i = first; i < first + count; i++, row++) {
                for (int64_t j = 0; j < all->size[3]; j++)
                    ota_array_set(mine, b, h, row, j, ota_array_get(all, b, h, i, j));
            }
        }
    }
    return true;
}

/* Which biases all rows share: those of one row on some rank that has another number of them. The others have a row for every
 * query, and that is the rank's. */
static bool find_shared(ota_plan *plan, const ota_gradients *wide, double *shared) {
    const ota_resolved *r = &plan->resolved;
    bool any = false;
    for (int t = 0; t < r->term_count; t++) {
        const int64_t place = r->term_places[t];
        const bool pairs = ota_term_form_of(&r->terms[t]) == OTA_FORM_ADDS_PAIRS;
        any |= wide->terms != NULL && ota_array_present(&wide->terms[place]) && pairs;
        shared[place] =
            !pairs || r->share.rows == 1 || (r->terms[t].array.size[2] == 1 && r->queries != 1);
    }
    return !any || ota_ranks_most(&r->settings, shared, r->problem.term_count,
                                  "agreeing on what rows share");
}

static bool share(ota_plan *plan, const ota_gradients *given, const ota_gradients *wide) {
    const ota_shards *shards = ota_shards_of(plan);
    double shared[OTA_MAX_TERMS] = {0.0};
    if (!find_shared(plan, wide, shared)) return false;
    for (int k = 0; k < OTA_DERIVATIVES; k++) {
        if (!ota_ranks_share_row(k) || !ota_array_present(ota_gradient_in(wide, k))) continue;
        const ota_array *a = ota_gradient_in(wide, k);
        const bool shares = ota_derivatives[k].ranks == OTA_DERIVATIVE_BY_SHARES;
        if (shares && !shards->from_matrix
                ? !sum_shares(plan, a, ota_gradient_in(given, k),
                              "the gradients of keys and values")
                : !sum_array(plan, a, "the gradients of what all rows share"))
            return false;
    }
    for (int64_t k = 0; wide->terms != NULL && k < plan->resolved.problem.term_count; k++) {
        const ota_array *a = &wide->terms[k];
        const bool sink = plan->resolved.has_sink && plan->resolved.sink_place == k;
        if (!ota_array_present(a) || (!sink && !(shared[k] > 0.0))) continue;
        if (!sum_array(plan, a, "the gradients of the terms")) return false;
    }
    return true;
}

static ota_status end(ota_plan *plan, const ota_gradients *mine, const ota_gradients *wide,
                      ota_status found, ota_error *error) {
    bool ended;
    const ota_status here = ota_ranks_found(&plan->resolved.settings, found);
    const ota_status worst = ota_ranks_end_derivative(plan, false, here, &ended);
    if (ended && worst >= OTA_OK && share(plan, mine, wide)) return worst;
    ota_gradients_poison(plan, mine);
    return ota_ranks_refuse_end(plan, found, here, worst, error);
}

/* ---- the call ----------------------------------------------------------------------------------- */

/* A ring finds what is this rank's own. */
static ota_status run_ring(const ota_derivative_call *call, ota_result *found) {
    return ota_ring_backward(call->plan, call->arrays, call->context, found);
}

/* The arrays of all ranks, the run, the sums. */
ota_status ota_ranks_backward(ota_plan *plan, const ota_arrays *given,
                              const ota_gradients *gradients, ota_result *result,
                              ota_error *error) {
    ota_arrays wide, arrays;
    ota_gradients all, want, own;
    memset(&own, 0, sizeof own);
    ota_status status = ota_ranks_widen(plan, given, &wide, error);
    if (status == OTA_OK) status = ota_derivative_check(plan, &wide, result, &arrays, error);
    if (status == OTA_OK) status = ota_ranks_widen_derivative(plan, gradients, &all, false, error);
    if (status == OTA_OK) status = ota_gradients_check(plan, &arrays, &all, &want, error);
    if (status == OTA_OK) {
        memcpy(&own, gradients, ota_size_min(gradients->size, sizeof own));
        status = ota_gradients_apart(plan, &arrays, &own, error);
    }
    if (status == OTA_OK) status = ota_derivative_check_capacities(&arrays, error);
    const ota_status checked = status;
    status = ota_ranks_begin_derivative(plan, &all, false, status, error);
    const ota_shards *shards = ota_shards_of(plan);
    if (status == OTA_OK && !shards->from_matrix && all.solved != 0)
        status = ota_ranks_gather_keys(plan, error);
    if (status == OTA_ECOMM && checked == OTA_OK) ota_gradients_poison(plan, &own);
    if (status != OTA_OK) return status;
    const ota_derivative_call call = {.plan = plan,
                                      .arrays = &arrays,
                                      .want = &want,
                                      .run = shards->in_ring ? run_ring : NULL,
                                      .context = &own};
    status = ota_derivative_run(&call, result, error);
    return ota_ranks_tell(plan, end(plan, &own, &all, status, error), result);
}
