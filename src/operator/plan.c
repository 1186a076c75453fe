/* Plans: every choice and every byte of one problem, made once. Which row of the table of solvers solves it, on which
 * backend, on how many threads; describe.c prints it all. */
#include "plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "backward.h"
#include "problem/check.h"
#include "validation/shards.h"
#include "validation/validation.h"

bool ota_plan_runs_rounds(const ota_plan *plan) {
    const ota_resolved *r = &plan->resolved;
    const ota_problem *p = &r->problem;
    const ota_settings *s = &r->settings;
    const bool plain = !(s->anneal.start > 0.0) && !(s->relaxation > 1.0 || s->relaxation < 1.0) &&
                       !s->relaxation_auto && !(s->stop.tolerance_scaling > 0.0) &&
                       s->center == OTA_CENTER_NONE && !s->prune;
    /* Columns that never move leave softmax, bit for bit. */
    const ota_column_rule_row *rule = ota_column_rule_of(p->columns);
    const bool idle =
        s->stop.rounds <= 0 || (ota_rule_is(rule, OTA_RULE_DAMPED) && !(p->lambda > 0.0) &&
                                !ota_array_present(&p->lambdas));
    if (s->stop.fixed ? idle : ota_rule_is(rule, OTA_RULE_COUNTED)) return false;
    return (plan->solver == &ota_solver_coupled || plan->solver == &ota_solver_sinkhorn) && plain &&
           p->axis == OTA_AXIS_ROWS && p->start == OTA_SIDE_ROWS && p->end == OTA_SIDE_ROWS &&
           p->rows == OTA_ROWS_HARD && ota_regulariser_of(p)->exponential;
}

static bool is_over(const ota_plan *plan) {
    const size_t limit = plan->resolved.settings.limits.workspace;
    return limit > 0 && (ota_arena_overflowed(&plan->arena) || ota_plan_bytes(plan) > limit);
}

/* Runs twice: to measure and to place. */
static void lay_out(ota_plan *plan) {
    const ota_resolved *r = &plan->resolved;
    ota_arena *a = &plan->arena;
    const bool placed = a->base != NULL;
    const size_t heads = (size_t)(r->batch * r->heads);
    ota_head_status *statuses = ota_arena_take(a, heads, sizeof *statuses);
    char(*sentences)[512] =
        plan->solver->solve != NULL ? ota_arena_take(a, heads, sizeof *sentences) : NULL;
    if (placed) {
        plan->heads = statuses;
        plan->sentences = sentences;
    }
    plan->backend->lay_out(plan->device, a);
    if (r->settings.gradients && plan->backend->gradient != NULL) ota_backward_lay_out(plan);
}

static void measure(ota_plan *plan) {
    plan->strategy = plan->backend->strategy(plan->device);
    plan->arena = (ota_arena){0};
    lay_out(plan);
}

/* Gives up what is only faster until the workspace limit is kept, or nothing is left to give up. The bytes of the smallest
 * plan on the way, which of small heads is not the last. */
static size_t fit_limit(ota_plan *plan) {
    enum { STEPS = 3 };
    size_t least = ota_plan_bytes(plan);
    for (int step = 0; step < STEPS && is_over(plan); step++) {
        bool changed = plan->backend->shrink != NULL && plan->backend->shrink(plan->device, step);
        if (step == 0 && plan->head_worker_count > 1) {
            plan->head_worker_count = 1;
            changed = true;
        }
        if (changed) measure(plan);
        if (ota_plan_bytes(plan) < least) least = ota_plan_bytes(plan);
    }
    return least;
}

static ota_layout_kind kind_of(const ota_plan *plan) {
    const ota_regulariser_row *regulariser = ota_regulariser_of(&plan->resolved.problem);
    if (plan->solver->solve != NULL) return OTA_LAYOUT_COUPLED;
    if (regulariser->capped) return OTA_LAYOUT_ROWS;
    if (plan->solver == &ota_solver_softmax) return OTA_LAYOUT_SOFTMAX;
    return plan->solver == &ota_solver_entmax && regulariser->thresholded ? OTA_LAYOUT_ENTMAX
                                                                          : OTA_LAYOUT_ROWS;
}

static ota_status choose_device(ota_plan *plan, ota_error *error) {
    const ota_resolved *r = &plan->resolved;
    const ota_solver *solver = plan->solver;
    const bool plain_rounds = ota_plan_runs_rounds(plan);
    plan->stored_solver = plain_rounds && r->settings.stop.fixed ? &ota_solver_log : solver;
    const ota_layout layout = {.resolved = r,
                               .pool = plan->pool,
                               .values_width = plan->values_width,
                               .kind = kind_of(plan),
                               .rounds.plain = plain_rounds,
                               .rounds.may_switch = solver == &ota_solver_coupled,
                               .solver.wide = solver->wide,
                               .solver.reads_narrow = solver->reads_narrow,
                               .solver.needs_plan = solver->needs_plan,
                               .solver.workspace = solver->workspace,
                               .rounds.workspace = ota_solver_log.workspace};
    return plan->backend->create(&layout, &plan->device, error);
}

static ota_status find_backend(const ota_resolved *r, const ota_backend **found, ota_error *error) {
    const ota_backend *backend = ota_backend_named(r->settings.backend);
    if (backend == NULL) {
        return ota_fail(error, OTA_EINVAL, "backend", "doctor lists the backends",
                        "backend is '%s', an unknown name", r->settings.backend);
    }
    if (r->settings.gradients && backend->gradient == NULL) {
        return ota_fail(error, OTA_UNSUPPORTED, "backend", "use another, or gradients = 0",
                        "backend %s has no gradients", backend->name);
    }
    *found = backend;
    return OTA_OK;
}

ota_status ota_check(const ota_problem *problem, const ota_options *options, ota_error *error) {
    ota_resolved resolved;
    const ota_backend *backend;
    const ota_solver *solver;
    TRY(ota_resolve(problem, options, &resolved, error));
    /* What of a method ranks have solvers for depends on what they hold together. */
    if (ota_communicator_of(options) == NULL) TRY(ota_solver_choose(&resolved, &solver, error));
    return find_backend(&resolved, &backend, error);
}

static ota_status open_device(ota_plan *plan, ota_error *error) {
    if (plan->driver != NULL && plan->driver->open != NULL) return plan->driver->open(plan, error);
    TRY(choose_device(plan, error));
    plan->head_worker_count = ota_backward_head_workers(plan);
    return OTA_OK;
}

/* Everything but the memory: all choices, and how many bytes they take, or would at least. */
static ota_status choose_all(ota_plan *plan, size_t *bytes, ota_error *error) {
    const ota_resolved *r = &plan->resolved;
    const ota_status chosen = ota_solver_choose(r, &plan->solver, error);
    if (chosen != OTA_OK) return chosen;
    const ota_status found = find_backend(r, &plan->backend, error);
    if (found != OTA_OK) return found;
    if (plan->pool == NULL) {
        const ota_status pooled =
            ota_pool_create(&plan->pool, r->settings.limits.threads, r->settings.calls.executor);
        if (pooled != OTA_OK)
            return ota_fail(error, pooled, "threads", "use fewer", "threads could not be prepared");
    }
    plan->head_worker_count = 1;
    const ota_status created = open_device(plan, error);
    if (created != OTA_OK) return created;
    measure(plan);
    *bytes = fit_limit(plan);
    if (ota_arena_overflowed(&plan->arena)) {
        return ota_fail(error, OTA_EOVERFLOW, "queries", "use smaller sizes",
                        "the workspace for %" PRId64 " queries and %" PRId64 " keys overflows",
                        r->queries, r->keys);
    }
    if (is_over(plan)) {
        return ota_fail(error, OTA_ELIMIT, "workspace_limit", "raise it, or use fewer threads",
                        "workspace_limit is %zu bytes but the smallest plan here needs %zu",
                        r->settings.limits.workspace, *bytes);
    }
    *bytes = ota_plan_bytes(plan);
    return OTA_OK;
}

ota_status ota_plan_build(ota_plan *plan, ota_error *error) {
    size_t bytes;
    TRY(choose_all(plan, &bytes, error));
    const ota_status placed = ota_arena_allocate(&plan->arena);
    if (placed != OTA_OK)
        return ota_fail(error, placed, "workspace", "use smaller sizes",
                        "%zu bytes of workspace could not be had", bytes);
    lay_out(plan);
    for (int64_t k = 0; k < plan->resolved.batch * plan->resolved.heads; k++)
        plan->heads[k] = (ota_head_status){.result = {.status = OTA_UNSOLVED}};
    return OTA_OK;
}

ota_status ota_plan_within(ota_plan **out, const ota_resolved *resolved, int64_t values_width,
                           ota_pool *pool, ota_error *error) {
    ota_plan *plan = calloc(1, sizeof *plan);
    *out = NULL;
    if (plan == NULL) return ota_fail(error, OTA_ENOMEM, "plan", "", "no memory for a plan");
    ota_resolved_copy(&plan->resolved, resolved);
    plan->values_width = values_width;
    plan->pool = pool;
    plan->borrows_pool = true;
    const ota_status built = ota_plan_build(plan, error);
    if (built != OTA_OK) {
        ota_plan_free(plan);
        return built;
    }
    *out = plan;
    return OTA_OK;
}

void ota_plan_release(ota_plan *plan) {
    if (plan->backend != NULL) plan->backend->close(plan->device);
    if (!plan->borrows_pool) ota_pool_free(plan->pool);
    ota_arena_release(&plan->arena);
    /* It lay in the arena, and what is built next may have none. */
    plan->backward = NULL;
    plan->backend = NULL;
    plan->device = NULL;
    plan->pool = NULL;
}

ota_status ota_plan_begin(ota_plan **plan, int64_t values_width, ota_error *error) {
    *plan = NULL;
    if (values_width < 0 || values_width > INT64_MAX / 64) {
        return ota_fail(error, OTA_EINVAL, "values_width", "use 0 or more",
                        "values_width is %" PRId64, values_width);
    }
    *plan = calloc(1, sizeof **plan);
    if (*plan == NULL) return ota_fail(error, OTA_ENOMEM, "plan", "", "no memory for a plan");
    (*plan)->values_width = values_width;
    return OTA_OK;
}

ota_status ota_plan_count_bytes(ota_plan *plan, size_t *bytes, ota_error *error) {
    size_t found;
    const ota_status status = choose_all(plan, &found, error);
    if (status == OTA_EOVERFLOW && plan->device != NULL)
        *bytes = SIZE_MAX;
    else if (status == OTA_OK || (status == OTA_ELIMIT && plan->device != NULL))
        *bytes = found;
    return status;
}

void ota_plan_free(ota_plan *plan) {
    if (plan == NULL) return;
    ota_plan_release(plan);
    if (plan->driver != NULL) plan->driver->release(plan);
    free(plan);
}

size_t ota_plan_bytes(const ota_plan *plan) {
    return sizeof *plan + plan->arena.used +
           (plan->driver != NULL ? plan->driver->bytes(plan) : 0); /* what is not in the arena */
}
const char *ota_plan_solver(const ota_plan *plan) { return plan->solver->name; }
const char *ota_plan_kernel(const ota_plan *plan) { return plan->strategy.level; }
int ota_plan_threads(const ota_plan *plan) { return ota_pool_threads(plan->pool); }

void ota_plan_set_deadline(ota_plan *plan, int64_t deadline_ns) {
    plan->resolved.settings.limits.deadline_ns = deadline_ns;
}

const char *ota_kernel_name(int index) { return ota_backend_row(0)->level(index); }

const char *ota_backend_name(int index) {
    const ota_backend *backend = ota_backend_row(index);
    return backend == NULL ? NULL : backend->name;
}
