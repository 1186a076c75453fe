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

/* What takes the place of this folder's own calls where they need more than this process (src/ranks). Members may be NULL
 * where it says so. */
typedef struct ota_plan_driver {
    /* The plan's backend and device; NULL: as without a driver. */
    ota_status (*open)(ota_plan *plan, ota_error *error);
    size_t (*bytes)(const ota_plan *plan); /* of memory outside of the plan's arena */
    /* Array k of the caller that stands beside those of the problem, for checks of overlaps; NULL after the last. */
    const ota_array *(*input)(const ota_plan *plan, int k, const char **field);
    ota_status (*rebind)(ota_plan *plan, const ota_problem *problem, ota_error *error);
    ota_status (*forward)(ota_plan *plan, const ota_arrays *arrays, ota_result *result,
                          ota_error *error);
    ota_status (*backward)(ota_plan *plan, const ota_arrays *arrays, const ota_gradients *gradients,
                           ota_result *result, ota_error *error);
    ota_status (*jvp)(ota_plan *plan, const ota_arrays *arrays, const ota_tangents *tangents,
                      ota_result *result, ota_error *error);
    /* Lines "key: value" for describe.c. */
    void (*describe)(const ota_plan *plan, char *text, size_t size);
    void (*release)(ota_plan *plan); /* all that is its own */
} ota_plan_driver;

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
    const ota_plan_driver *driver;       /* what runs it in the place of this folder, or NULL */
    void *driven;                        /* the driver's own */
};

/* plan.c: an empty plan, to be freed whatever becomes of it; then choices and memory for the problem in `resolved`, which may be
 * released for another build; what they would take. */
ota_status ota_plan_begin(ota_plan **plan, int64_t values_width, ota_error *error);
ota_status ota_plan_build(ota_plan *plan, ota_error *error);
void ota_plan_release(ota_plan *plan);
ota_status ota_plan_count_bytes(ota_plan *plan, size_t *bytes, ota_error *error);
/* Does its solver run plain rounds that start and end on rows, a fixed number or to a tolerance? */
bool ota_plan_runs_rounds(const ota_plan *plan);
/* plan.c: a plan that works for another, on its threads, of a problem that is resolved; *plan is NULL on failure. */
ota_status ota_plan_within(ota_plan **plan, const ota_resolved *resolved, int64_t values_width,
                           ota_pool *pool, ota_error *error);

/* rebind.c: may the plan go on with `next`, which gets its settings? Refused with the field that wants another plan. */
ota_status ota_plan_takes(const ota_plan *plan, ota_resolved *next, ota_error *error);

/* Of two errors the larger; NaN is larger than any number. */
static inline double ota_larger_error(double a, double b) { return isnan(a) || a > b ? a : b; }

/* forward.c: a call of a plan without a driver, and its parts: the arrays in full, all heads (returns what stopped them), what
 * became of them, NaN and OTA_UNSOLVED where nothing did, and the last word. */
ota_status ota_plan_run(ota_plan *plan, const ota_arrays *arrays, ota_result *result,
                        ota_error *error);
ota_status ota_forward_check(const ota_plan *plan, const ota_arrays *given,
                             const ota_result *result, ota_arrays *full, ota_error *error);
int ota_forward_heads(ota_plan *plan, const ota_arrays *arrays);
void ota_forward_sum_up(const ota_plan *plan, int stopped, ota_result *found);
void ota_forward_leave_nothing(ota_plan *plan, const ota_arrays *arrays);
ota_status ota_forward_report(const ota_result *found, ota_result *result, ota_error *error);

#endif
