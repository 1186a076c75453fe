/* The calls of otattn.h that know communicators: plans are made here, of one process or of many. */
#include "problem/check.h"
#include "ranks_plan.h"
#include "ring/ring.h"
#include "validation/validation.h"

/* ---- rows on many processes ----------------------------------------------------------------------- */

/* What the ranks have agreed on. */
typedef struct agreed {
    ota_problem full;
    ota_shard_sizes sizes;
    const ota_options *options;
} agreed;

static ota_status try_key_transport(ota_plan *plan, const agreed *job, bool in_ring,
                                    ota_error *error) {
    ota_shards *shards = ota_shards_of(plan);
    shards->in_ring = in_ring;
    plan->driver = in_ring ? &ota_ring_driver : &ota_gathered_driver;
    TRY(ota_shards_resolve(shards, &job->full, job->options, plan->values_width, &job->sizes,
                           &plan->resolved, error));
    TRY(ota_plan_build(plan, error));
    if (in_ring) plan->backward = ota_ring_space(plan->device);
    TRY(ota_ranks_refuse_method(plan, error));
    return ota_ranks_reserve_gradients(plan, error);
}

/* Keys that have no room on one rank come round a ring on all, where the problem has one. */
static ota_status choose_key_transport(ota_plan *plan, const agreed *job, ota_error *error) {
    ota_ranks *ranks = &ota_shards_of(plan)->ranks;
    const ota_settings settings = {.ranks = ranks};
    ota_error own = {{0}, {0}, {0}};
    const ota_status gathered = try_key_transport(plan, job, false, &own);
    double lacks = gathered == OTA_ELIMIT || gathered == OTA_ENOMEM;
    if (!ota_ranks_most(&settings, &lacks, 1, "choosing how the keys come"))
        return ota_ranks_refuse(ranks, error);
    if (lacks > 0.0) {
        ota_plan_release(plan);
        ota_shards_release(ota_shards_of(plan));
        const ota_status transposed = try_key_transport(plan, job, true, error);
        if (transposed != OTA_UNSUPPORTED) return transposed;
    }
    if (gathered != OTA_OK && error != NULL) *error = own;
    return gathered;
}

/* Rows on many processes: what one rank cannot do, none does, from what it has `begun` on. */
static ota_status create_of_ranks(ota_plan *plan, ota_status begun, const ota_problem *problem,
                                  const ota_options *options, ota_error *error) {
    agreed job = {.options = options};
    ota_shards *shards;
    const ota_status opened = ota_shards_open(&shards, ota_communicator_of(options), begun, error);
    if (opened != OTA_OK) {
        ota_shards_free(shards);
        return opened;
    }
    plan->driver = &ota_gathered_driver;
    plan->driven = shards;
    TRY(ota_shards_meet(shards, problem, options, plan->values_width, &job.full, &job.sizes,
                        error));
    const ota_communicator *to = &shards->ranks.to;
    const bool chooses = to->keys == OTA_KEYS_AUTO && to->send_receive != NULL;
    const ota_status status =
        chooses ? choose_key_transport(plan, &job, error)
                : try_key_transport(plan, &job, to->keys == OTA_KEYS_IN_RING, error);
    return ota_ranks_agree(&shards->ranks, status, error);
}

/* ---- calls ----------------------------------------------------------------------------------------- */

ota_status ota_plan_create(ota_plan **out, const ota_problem *problem, int64_t values_width,
                           const ota_options *options, ota_error *error) {
    ota_plan *plan = NULL;
    ota_status status = OTA_OK;
    if (out == NULL)
        status = ota_fail(error, OTA_EINVAL, "plan", "give a place for the plan", "plan is NULL");
    else
        *out = NULL;
    if (status == OTA_OK) status = ota_plan_begin(&plan, values_width, error);
    if (ota_communicator_of(options) != NULL) {
        status = create_of_ranks(plan, status, problem, options, error);
    } else if (status == OTA_OK) {
        status = ota_resolve(problem, options, &plan->resolved, error);
        if (status == OTA_OK) status = ota_plan_build(plan, error);
    }
    if (status != OTA_OK) {
        ota_plan_free(plan);
        return status;
    }
    *out = plan;
    return OTA_OK;
}

ota_status ota_plan_measure(const ota_problem *problem, int64_t values_width,
                            const ota_options *options, size_t *bytes, ota_error *error) {
    ota_plan *plan;
    if (bytes == NULL)
        return ota_fail(error, OTA_EINVAL, "bytes", "give a place for the number", "bytes is NULL");
    *bytes = 0;
    if (ota_communicator_of(options) != NULL)
        return ota_fail(error, OTA_UNSUPPORTED, "communicator",
                        "create the plan on every rank and ask ota_plan_bytes",
                        "what a rank's plan takes depends on the other ranks");
    ota_status status = ota_plan_begin(&plan, values_width, error);
    if (status == OTA_OK) status = ota_resolve(problem, options, &plan->resolved, error);
    if (status == OTA_OK) status = ota_plan_count_bytes(plan, bytes, error);
    ota_plan_free(plan);
    return status;
}

ota_status ota_attend(const ota_problem *problem, const ota_options *options,
                      const ota_arrays *arrays, ota_result *result, ota_error *error) {
    ota_plan *plan = NULL;
    const int64_t width =
        arrays != NULL && arrays->size >= offsetof(ota_arrays, out) ? arrays->values.size[3] : 0;
    ota_status status = ota_plan_create(&plan, problem, width, options, error);
    if (status != OTA_OK) return status;
    status = ota_forward(plan, arrays, result, error);
    ota_plan_free(plan);
    return status;
}
