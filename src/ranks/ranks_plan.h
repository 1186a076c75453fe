/* ranks_plan.h: a plan whose rows lie on many processes: validation/shards.h holds their problem, the solver's sums over rows go
 * through problem/ranks.h where they are made, and here a run begins and ends. */
#ifndef OTA_RANKS_PLAN_H
#define OTA_RANKS_PLAN_H

#include "operator/plan.h"
#include "problem/fields.h"
#include "validation/shards.h"

static inline ota_shards *ota_shards_of(const ota_plan *plan) { return plan->driven; }

/* ranks_run.c: keys that are gathered before a run, and keys that come round a ring. */
extern const ota_plan_driver ota_gathered_driver, ota_ring_driver;

/* Methods that need all rows in one place. */
ota_status ota_ranks_refuse_method(const ota_plan *plan, ota_error *error);
ota_status ota_ranks_rebind(ota_plan *plan, const ota_problem *problem, ota_error *error);
/* `wide` becomes `given` with the values of all ranks; this rank's own go to the shards. */
ota_status ota_ranks_widen(const ota_plan *plan, const ota_arrays *given, ota_arrays *wide,
                           ota_error *error);
/* Does no output lie on this rank's own keys and values? Checks of arrays see those of all ranks. */
ota_status ota_ranks_check_apart(const ota_plan *plan, const ota_arrays *arrays, ota_error *error);
/* The types of what ranks send, beside the wishes that they agree on; and the refusal of types that differ. */
uint64_t ota_ranks_types(const ota_shards *shards);
ota_status ota_ranks_refuse_types(uint64_t differ, ota_error *error);
/* Before a run: do all ranks want the same of it, and is it right on all? Then keys and values. */
ota_status ota_ranks_begin_run(ota_plan *plan, const ota_arrays *given, ota_status checked,
                               ota_error *error);
/* After a run that `stopped`, or did not: heads as all ranks see them. Returns what stopped the run on any rank. */
int ota_ranks_end_run(ota_plan *plan, const ota_arrays *arrays, int stopped);
/* Keys and values of all ranks. */
ota_status ota_ranks_gather_keys(ota_plan *plan, ota_error *error);

/* What a rank brings to the end of a call: that it was told to end, if it was, for its blocks were then left out. */
ota_status ota_ranks_found(const ota_settings *settings, ota_status found);

/* Larger is worse: failures above caveats. And back. */
double ota_severity_of(ota_status status);
ota_status ota_status_of_severity(double severity);

/* May `mine`, called `name`, be this rank's share of the keys' array `all`: floats of its shape? */
ota_status ota_ranks_check_share(const ota_shards *shards, const ota_array *mine, const char *name,
                                 const ota_array *all, ota_error *error);

/* ranks_derivative.c: what backward and jvp share. Their structs are rows of ota_derivatives; an array by the name of a row: */
static inline ota_array *ota_ranks_array(const void *record, int k, bool along) {
    const ota_derivative *row = &ota_derivatives[k];
    return (ota_array *)(void *)((char *)(uintptr_t)record +
                                 (along ? row->tangent_at : row->gradient_at));
}
/* `wide` becomes `given` with the arrays of all keys and values in the place of this rank's share. */
ota_status ota_ranks_widen_derivative(const ota_plan *plan, const void *given, void *wide,
                                      bool along, ota_error *error);
/* Do all ranks want, or move, the same, and is it right on all? */
ota_status ota_ranks_begin_derivative(ota_plan *plan, const void *wide, bool along,
                                      ota_status checked, ota_error *error);
/* One end for all, `here` with what ota_ranks_found says; OTA_OK and above: right on all ranks. *ended: the word went round. */
ota_status ota_ranks_end_derivative(ota_plan *plan, bool along, ota_status here, bool *ended);
/* The sentence of a run that came to `found` and was not right. */
ota_status ota_ranks_refuse_end(const ota_plan *plan, ota_status found, ota_status here,
                                ota_status worst, ota_error *error);
/* Status and messages into the caller's result. */
ota_status ota_ranks_tell(const ota_plan *plan, ota_status status, ota_result *result);

/* Is row k of ota_derivatives an array of which every rank has a part? */
static inline bool ota_ranks_share_row(int k) {
    const ota_derivative_ranks by = ota_derivatives[k].ranks;
    return by == OTA_DERIVATIVE_SUMMED || by == OTA_DERIVATIVE_BY_SHARES;
}

/* ranks_backward.c: memory for the gradients of all keys and values, when the plan is made. */
ota_status ota_ranks_reserve_gradients(ota_plan *plan, ota_error *error);

/* What the messages of this call came to. */
void ota_ranks_count_messages(const ota_shards *shards, ota_result *result);

/* The calls of both drivers. */
ota_status ota_ranks_forward(ota_plan *plan, const ota_arrays *given, ota_result *result,
                             ota_error *error);
ota_status ota_ranks_backward(ota_plan *plan, const ota_arrays *given,
                              const ota_gradients *gradients, ota_result *result, ota_error *error);
ota_status ota_ranks_jvp(ota_plan *plan, const ota_arrays *given, const ota_tangents *tangents,
                         ota_result *result, ota_error *error);

#endif
