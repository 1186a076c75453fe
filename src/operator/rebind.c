/* Plans that go on with another problem: one for which all choices of the plan hold. */
#include "plan.h"

#include <math.h>
#include <stddef.h>

#include "problem/check.h"
#include "problem/fields.h"
#include "validation/validation.h"

static bool same_order(const ota_plan *plan, const ota_resolved *next) {
    return ota_regulariser_of(&plan->resolved.problem) == ota_regulariser_of(&next->problem);
}

static bool steps_in_full(const ota_problem *p) { return !(p->lambda < 1.0 || p->lambda > 1.0); }

static bool same_damping(const ota_plan *plan, const ota_resolved *next) {
    const ota_problem *a = &plan->resolved.problem, *b = &next->problem;
    return (a->lambda > 0.0) == (b->lambda > 0.0) && steps_in_full(a) == steps_in_full(b);
}

static bool same_floor(const ota_plan *plan, const ota_resolved *next) {
    return (ota_column_parameters_of(&plan->resolved.problem).floor > 0.0) ==
           (ota_column_parameters_of(&next->problem).floor > 0.0);
}

static bool carries_scale(const ota_plan *plan, const ota_resolved *next) {
    return plan->strategy.ladder != OTA_LADDER_F64_ON_F32 || fabs(next->scale) == 1.0;
}

static bool carries_temperatures(const ota_plan *plan, const ota_resolved *next) {
    return !ota_ladder_begins_f32(plan->strategy.ladder) || ota_f32_carries_temperatures(next);
}

static bool carries_temperature(const ota_plan *plan, const ota_resolved *next) {
    return ota_array_present(&next->problem.temperatures) || carries_temperatures(plan, next);
}

/* Of rows of the problem's table whose numbers decide what a plan chooses (OTA_REBIND_CHOICE): would one made now choose the
 * same? */
static const struct {
    size_t member;
    bool (*holds)(const ota_plan *plan, const ota_resolved *next);
} choices[] = {{offsetof(ota_problem, scale), carries_scale},
               {offsetof(ota_problem, temperature), carries_temperature},
               {offsetof(ota_problem, temperatures), carries_temperatures},
               {offsetof(ota_problem, order), same_order},
               {offsetof(ota_problem, lambda), same_damping},
               {offsetof(ota_problem, lower), same_floor}};

static ota_status other_choice(const char *field, ota_error *error) {
    return ota_fail(error, OTA_EINVAL, field, "create a new plan",
                    "%s wants other choices than the plan's", field);
}

/* A row that nobody here knows is refused, too. */
static bool holds(const ota_field *field, const ota_plan *plan, const ota_resolved *next) {
    for (size_t k = 0; k < sizeof choices / sizeof choices[0]; k++) {
        if (choices[k].member == field->offset) return choices[k].holds(plan, next);
    }
    return false;
}

/* Would a plan made now have this one's solver, and memory for what it computes? Numbers of a problem may decide that. */
ota_status ota_plan_takes(const ota_plan *plan, ota_resolved *next, ota_error *error) {
    TRY(ota_resolved_same(&plan->resolved, next, error));
    const ota_solver *solver = NULL;
    TRY(ota_solver_choose(next, &solver, error));
    for (const ota_field *f = ota_problem_fields; f->name != NULL; f++) {
        if (f->rebind == OTA_REBIND_CHOICE && !holds(f, plan, next))
            return other_choice(f->name, error);
    }
    return solver == plan->solver ? OTA_OK : other_choice("solver", error);
}

ota_status ota_plan_rebind(ota_plan *plan, const ota_problem *problem, ota_error *error) {
    ota_resolved next;
    if (plan == NULL)
        return ota_fail(error, OTA_EINVAL, "plan", "create one first", "plan is NULL");
    if (plan->driver != NULL) return plan->driver->rebind(plan, problem, error);
    TRY(ota_resolve_next(problem, &plan->resolved.settings, NULL, &next, error));
    TRY(ota_plan_takes(plan, &next, error));
    ota_resolved_copy(&plan->resolved, &next);
    return OTA_OK;
}
