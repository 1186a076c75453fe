/* ranks_plan.h: a plan whose rows lie on many processes: validation/shards.h holds their problem, the solver's sums over rows go
 * through problem/ranks.h where they are made, and here a run begins and ends. */
#ifndef OTA_RANKS_PLAN_H
#define OTA_RANKS_PLAN_H

#include "operator/plan.h"
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

/* ranks_backward.c: memory when the plan is made; `wide` becomes `given` with gradients of all keys and values; what all
 * ranks must want alike; and the sums, after a run that came to `found`. */
ota_status ota_ranks_reserve_gradients(ota_plan *plan, ota_error *error);
ota_status ota_ranks_widen_gradients(const ota_plan *plan, const ota_gradients *given,
                                     ota_gradients *wide, ota_error *error);
ota_status ota_ranks_begin_gradients(ota_plan *plan, const ota_gradients *wide, ota_status checked,
                                     ota_error *error);
ota_status ota_ranks_end_gradients(ota_plan *plan, const ota_gradients *given,
                                   const ota_gradients *wide, ota_status found, ota_error *error);

/* ranks_jvp.c: `wide` becomes `given` with the tangents of all keys and values; what all ranks must move alike, and
 * those tangents; one end for all. */
ota_status ota_ranks_widen_tangents(const ota_plan *plan, const ota_tangents *given,
                                    ota_tangents *wide, ota_error *error);
ota_status ota_ranks_begin_tangents(ota_plan *plan, const ota_tangents *given,
                                    const ota_tangents *wide, ota_status checked, ota_error *error);
ota_status ota_ranks_end_tangents(ota_plan *plan, const ota_tangents *tangents, ota_status found,
                                  ota_error *error);

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
