/* Plans that go on with another problem: one for which all choices of the plan hold. */
#include "plan.h"

#include <math.h>

#include "problem/check.h"
#include "shared.h"
#include "validation/validation.h"

static bool steps_in_full(const ota_problem *p) { return !(p->lambda < 1.0 || p->lambda > 1.0); }

/* Would a plan made now have this one's solver, and memory for what it computes? Numbers of a problem may decide that. */
ota_status ota_plan_takes(const ota_plan *plan, ota_resolved *next, ota_error *error) {
    const ota_resolved *old = &plan->resolved;
    const ota_problem *a = &old->problem, *b = &next->problem;
    TRY(ota_resolved_same(old, next, error));
    next->settings = old->settings;
    const ota_solver *solver = NULL;
    TRY(ota_solver_choose(next, &solver, error));
    const ota_ladder ladder = plan->strategy.ladder;
    const struct {
        const char *field;
        bool holds;
    } choices[] = {
        {"order", ota_regulariser_of(a) == ota_regulariser_of(b)},
        {"lambda", (a->lambda > 0.0) == (b->lambda > 0.0) && steps_in_full(a) == steps_in_full(b)},
        {"lower",
         (ota_column_parameters_of(a).floor > 0.0) == (ota_column_parameters_of(b).floor > 0.0)},
        {"scale", ladder != OTA_LADDER_F64_ON_F32 || fabs(next->scale) == 1.0},
        {"temperature", !ota_ladder_begins_f32(ladder) || ota_f32_carries_temperatures(next)},
        {"solver", solver == plan->solver},
    };
    for (size_t k = 0; k < sizeof choices / sizeof choices[0]; k++) {
        if (choices[k].holds) continue;
        return ota_fail(error, OTA_EINVAL, choices[k].field, "create a new plan",
                        "%s wants other choices than the plan's", choices[k].field);
    }
    return OTA_OK;
}

ota_status ota_plan_rebind(ota_plan *plan, const ota_problem *problem, ota_error *error) {
    ota_resolved next;
    if (plan->shards != NULL) return ota_ranks_rebind(plan, problem, error);
    TRY(ota_resolve(problem, NULL, &next, error));
    TRY(ota_plan_takes(plan, &next, error));
    ota_resolved_copy(&plan->resolved, &next);
    return OTA_OK;
}
