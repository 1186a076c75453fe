/* The inside of a plan, shared by plan.c (choices and memory), rebind.c (other problems), forward.c (running) and
 * decode.c.
 *
 * This folder: the calls of otattn.h: plan, describe, forward, decode, backward, jvp. May call: everything in src/
 * but the folders of backends. */
#ifndef OTA_PLAN_H
#define OTA_PLAN_H

#include <math.h>

#include "backend/backend.h"
#include "solvers/solver.h"

struct ota_plan {
    ota_resolved resolved;
    const ota_solver *solver;
    const ota_solver *stored_solver; /* of stored scores: `solver`, or what rounds fall back on */
    const ota_backend *backend;
    ota_device *device;
    ota_strategy strategy; /* of the device */
    ota_pool *pool;
    bool borrows_pool; /* of the plan that this one works for */
    ota_arena arena;
    int64_t values_width;
    int head_worker_count; /* of backward: 1, or the workers, where heads are walked side by side */
    ota_head_status *heads;              /* [batch * heads] */
    char (*sentences)[512];              /* [batch * heads] reasons, coupled only */
    struct ota_backward_space *backward; /* workspace of ota_backward, or NULL */
    struct ota_shards *shards;           /* rows on many processes, or NULL */
};

/* plan.c: a plan that works for another, on its threads, of a problem that is resolved; *plan is NULL on failure. */
ota_status ota_plan_within(ota_plan **plan, const ota_resolved *resolved, int64_t values_width,
                           ota_pool *pool, ota_error *error);

/* rebind.c: may the plan go on with `next`, which gets its settings? Refused with the field that wants another plan. */
ota_status ota_plan_takes(const ota_plan *plan, ota_resolved *next, ota_error *error);

/* Of two errors the larger; NaN is larger than any number. */
static inline double ota_larger_error(double a, double b) { return isnan(a) || a > b ? a : b; }

/* forward.c: runs the resolved problem on checked arrays. */
ota_status ota_plan_run(ota_plan *plan, const ota_arrays *arrays, ota_result *result,
                        ota_error *error);

#endif
