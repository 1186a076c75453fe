/* Decode: forward over the keys a cache holds so far. The plan was laid out for the whole cache; a step
 * only narrows how many keys exist and where the queries stand. */
#include <inttypes.h>

#include "problem/check.h"
#include "plan.h"
#include "terms/terms.h"

ota_status ota_decode(ota_plan *plan, const ota_arrays *arrays, int64_t key_count,
                      ota_result *result, ota_error *error) {
    if (plan == NULL)
        return ota_fail(error, OTA_EINVAL, "plan", "create one first", "plan is NULL");
    ota_resolved *r = &plan->resolved;
    const ota_column_coupling coupling = ota_column_rule_of(r->problem.columns)->coupling;
    if (coupling != OTA_COUPLING_NONE && coupling != OTA_COUPLING_ORDERED) {
        return ota_fail(
            error, OTA_UNSUPPORTED, "columns",
            "use free or online columns, or forward over the whole sequence",
            "these columns couple all queries, so a cache cannot be decoded step by step");
    }
    if (plan->driver != NULL) {
        return ota_fail(error, OTA_UNSUPPORTED, "communicator", "give every rank whole heads",
                        "a step of decoding has too few rows to share out");
    }
    if (plan->strategy.transposed) {
        return ota_fail(error, OTA_UNSUPPORTED, "axis", "use the rows axis",
                        "on the columns axis every key looks at all queries");
    }
    for (int k = 0; k < r->term_count; k++) {
        if (ota_term_of(r->terms[k].kind)->of_shape) {
            return ota_fail(error, OTA_UNSUPPORTED, "terms", "use ALiBi or rotary positions",
                            "a relative bias has no meaning while the cache grows");
        }
    }
    if (key_count < r->queries || key_count > r->keys) {
        return ota_fail(error, OTA_EINVAL, "key_count",
                        "count the keys in the cache, the queries' own included",
                        "key_count is %" PRId64 ", wanted %" PRId64 " to %" PRId64, key_count,
                        r->queries, r->keys);
    }
    if (coupling == OTA_COUPLING_ORDERED &&
        (arrays == NULL || !ota_array_present(&arrays->remaining))) {
        return ota_fail(error, OTA_EINVAL, "remaining", "keep the capacities between steps",
                        "online decoding needs arrays.remaining");
    }
    const int64_t offset = r->offset;
    plan->backend->set_key_count(plan->device, key_count);
    r->offset = key_count - r->queries;
    const ota_status status = ota_plan_run(plan, arrays, result, error);
    plan->backend->set_key_count(plan->device, r->keys);
    r->offset = offset;
    return status;
}

ota_status ota_decode_capacity(const ota_plan *plan, const ota_array *remaining, int64_t first,
                               int64_t last, ota_error *error) {
    if (plan == NULL || remaining == NULL || remaining->type != OTA_F64) {
        return ota_fail(error, OTA_EINVAL, plan == NULL ? "plan" : "remaining",
                        "give a plan and an f64 array", "%s",
                        plan == NULL ? "plan is NULL" : "remaining is not f64");
    }
    const ota_resolved *r = &plan->resolved;
    TRY(ota_check_array(remaining, "remaining", error));
    if (r->problem.columns != OTA_COLUMNS_ONLINE)
        return ota_fail(error, OTA_EINVAL, "remaining", "only online columns have a capacity",
                        "remaining is given to a plan whose columns are not online");
    if (first < 0 || last > r->keys || first > last || remaining->size[0] != r->batch ||
        remaining->size[1] != r->heads || remaining->size[2] != 1 ||
        remaining->size[3] != r->keys) {
        return ota_fail(error, OTA_EINVAL, "remaining",
                        "give {batch, heads, 1, keys} and a range inside it",
                        "keys %" PRId64 " to %" PRId64 " do not lie in the %" PRId64
                        " keys of the plan or the shape differs",
                        first, last, r->keys);
    }
    for (int64_t b = 0; b < r->batch; b++) {
        for (int64_t h = 0; h < r->heads; h++) {
            for (int64_t j = first; j < last; j++) {
                ota_array_set(remaining, b, h, 0, j,
                              r->problem.cap * ota_column_mass(r, b, h, j, 1.0));
            }
        }
    }
    return OTA_OK;
}
