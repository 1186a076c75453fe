/* Forward: hands the heads to the backend, and coupled ones to their solver, and gathers what happened. Nothing is
 * chosen or allocated here. Heads run side by side when there are at least as many as threads, else one after another
 * with their rows on all threads; the bits are the same. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/sized.h"
#include "plan.h"
#include "problem/check.h"
#include "solvers/coupled.h"
#include "solvers/stored_rounds.h"

static bool is_promoted(const ota_plan *plan) {
    return ota_ladder_promotes(plan->strategy.ladder, plan->resolved.type);
}

/* Do rows lie in other processes, too? Then all go through their heads in one order. */
static bool are_many(const ota_plan *plan) { return plan->resolved.settings.ranks != NULL; }

/* ---- one coupled head --------------------------------------------------------------------------- */

/* One head at work, in f32 or in f64. */
typedef struct attempt {
    const ota_plan *plan;
    ota_run *run;
    ota_head head;
    ota_head_status *status;
    bool narrow; /* f32 */
    bool tried;  /* f32 before f64: where it fails, f64 has to do the head */
} attempt;

static char *sentence_of(const attempt *a) { return a->run->sentences[a->head.index]; }

/* Why a streamed plan, which has no stored scores to go on with, gives up. */
static ota_status give_up(const attempt *a, ota_outcome end) {
    static const struct {
        ota_status status;
        const char *why;
    } words[] = {
        [OTA_LOST] = {OTA_NOT_CONVERGED, "the sums of a round left the range of the type"},
        [OTA_OUTCOME_PRECISION] = {OTA_TOL_UNREACHABLE,
                                   "the tolerance is below what the arithmetic of rounds reaches"},
        [OTA_SLOW] = {OTA_NOT_CONVERGED, "the rounds converge too slowly"},
        [OTA_SPENT] = {OTA_NOT_CONVERGED, "max_rounds rounds did not meet the tolerance"},
        [OTA_OUTCOME_INFEASIBLE] = {OTA_INFEASIBLE, "some mass has no place"},
        [OTA_OUTCOME_NONFINITE] = {OTA_NONFINITE,
                                   "the scores hold NaN or +inf and the columns couple all rows"},
    };
    (void)ota_snprintf(sentence_of(a), sizeof *a->run->sentences,
                       "head %" PRId64 ": %s; %s would go on", a->head.index, words[end].why,
                       are_many(a->plan) ? "solver newton, on gathered keys,"
                                         : "without workspace_limit, stored scores");
    return words[end].status;
}

/* OTA_OK, or why the loaded scores have no solution. */
static ota_status judge_scores(const attempt *a, bool finite) {
    ota_head *head = (ota_head *)&a->head;
    if (!finite) {
        (void)ota_snprintf(sentence_of(a), sizeof *a->run->sentences,
                           "head %" PRId64
                           ": the scores hold NaN or +inf and the columns couple all rows",
                           head->index);
        return OTA_NONFINITE;
    }
    if (head->found.unusable < 0) {
        head->found.unusable = 0;
        if (ota_rule_is(ota_head_rule(head), OTA_RULE_SERVES_ALL)) {
            (void)ota_snprintf(sentence_of(a), sizeof *a->run->sentences,
                               "head %" PRId64 ": a query with positive mass has no key it may use",
                               head->index);
            return OTA_INFEASIBLE;
        }
    }
    return OTA_OK;
}

static void load_start(const ota_far_call *call, ota_head *head) {
    const attempt *a = call->context;
    const ota_resolved *r = &a->plan->resolved;
    const ota_array *start = &a->run->arrays->start_potential;
    for (int64_t j = 0; j < head->columns; j++)
        head->g[j] = ota_array_get(start, head->index / r->heads, head->index % r->heads, 0, j);
}

static bool reload(const ota_far_call *call, ota_head *head) {
    const attempt *a = call->context;
    bool finite = a->plan->backend->load(head);
    return ota_coupled_share_scores(head, &finite);
}

/* Of a plan that was emitted from shifted scores, or with a shifted sink: potentials and lse become those of the caller's. */
static void shift_back(attempt *a) {
    ota_head *head = &a->head;
    const ota_far *far = &head->scores.far;
    const ota_resolved *r = &a->plan->resolved;
    const int64_t b = head->index / r->heads, h = head->index % r->heads;
    const bool transposed = r->problem.axis == OTA_AXIS_COLUMNS;
    const double *of_queries = transposed ? far->column_shift : far->row_shift;
    const ota_array *f = &a->run->arrays->row_potential, *lse = &a->run->arrays->lse;
    for (int64_t i = 0; i < head->rows; i++)
        head->f[i] -= far->sink + (far->shut ? far->row_shift[i] : 0.0);
    for (int64_t j = 0; j < head->columns; j++)
        head->g[j] += far->sink - (far->shut ? far->column_shift[j] : 0.0);
    for (int64_t i = 0; i < r->queries; i++) {
        /* A transposed problem has no sink. */
        const double by = far->sink + (far->shut ? of_queries[i] : 0.0);
        if (!(by < 0.0) && !(by > 0.0)) continue;
        if (ota_array_present(f)) ota_put(f, b, h, i, ota_array_get(f, b, h, 0, i) - by);
        if (ota_array_present(lse))
            ota_put(lse, b, h, i, ota_array_get(lse, b, h, 0, i) + by / head->tau);
    }
}

/* Stored scores, and the solver on them. */
static ota_status solve_stored(attempt *a) {
    const ota_plan *plan = a->plan;
    ota_head *head = &a->head;
    ota_head_status *status = a->status;
    bool finite = plan->backend->load(head);
    if (plan->solver->solve == NULL)
        return head->found.unusable < 0 && ota_rule_is(ota_head_rule(head), OTA_RULE_SERVES_ALL)
                   ? OTA_INFEASIBLE
                   : OTA_OK;
    if (!ota_coupled_share_scores(head, &finite)) return OTA_ECOMM;
    if (finite) ota_far_sink_near(head);
    const ota_status judged = judge_scores(a, finite);
    if (judged != OTA_OK) return judged;
    const ota_far_call call = {
        .solve = plan->stored_solver->solve, .start = load_start, .reload = reload, .context = a};
    const int64_t none = -1;
    head->found.method = NULL;
    head->found.rounds = none;
    const ota_status solved = ota_far_scores_solve(head, &call);
    (void)ota_snprintf(sentence_of(a), sizeof *a->run->sentences, "%.511s", head->found.sentence);
    /* No solver was at work. */
    if (solved == OTA_TOL_UNREACHABLE && head->found.rounds == none) return solved;
    if (head->found.rounds == none) head->found.rounds = 0;
    status->solver = head->found.method != NULL ? head->found.method : plan->stored_solver->name;
    status->result.rounds = head->found.rounds;
    status->result.column_error = head->found.column_error;
    status->unusable = head->found.unusable;
    status->pruned = head->found.pruned;
    status->underflowed = head->found.underflowed;
    status->temperature_reached = head->found.temperature;
    return solved == OTA_NOT_CONVERGED && plan->resolved.settings.stop.allow_partial ? OTA_PARTIAL
                                                                                     : solved;
}

/* Rounds on a kernel. True: the head is done, or the run was stopped. */
static bool run_rounds(attempt *a, ota_warm_start *warm, ota_outcome *end) {
    const ota_plan *plan = a->plan;
    const ota_strategy *strategy = &plan->strategy;
    const bool tries = ota_ladder_tries_f32(strategy->ladder);
    const ota_settings *s = &plan->resolved.settings;
    ota_head_status *status = a->status;
    const ota_rounds_rule rule = {.named = plan->solver != &ota_solver_coupled,
                                  .last_resort = !strategy->stored,
                                  .narrow.coarse = a->tried && !tries,
                                  .narrow.warms = a->narrow && ota_ladder_warms(strategy->ladder),
                                  .narrow.of_matrix =
                                      a->tried && tries && plan->resolved.from_matrix};
    const bool partial = !strategy->stored && s->stop.allow_partial;
    ota_status stopped = OTA_OK;
    *end = ota_stored_rounds_run(&a->head, &rule, partial, warm, &stopped);
    if (*end == OTA_STOPPED) {
        status->result.status = stopped;
        return true;
    }
    const bool spent = *end == OTA_SPENT && partial;
    if (*end != OTA_MET && *end != OTA_RAN && !spent) return false;
    status->result.rounds = a->head.found.rounds;
    status->result.column_error = a->head.found.column_error;
    status->temperature_reached = a->head.found.temperature;
    status->result.status = s->stop.fixed ? OTA_FIXED_ITERS : spent ? OTA_PARTIAL : OTA_OK;
    status->solver = ota_solver_sinkhorn.name;
    return true;
}

static void put_column_potentials(const attempt *a) {
    const ota_resolved *r = &a->plan->resolved;
    const ota_head *head = &a->head;
    const ota_array *to = &a->run->arrays->column_potential;
    const double *column = r->problem.axis == OTA_AXIS_COLUMNS ? head->f : head->g;
    for (int64_t j = 0; ota_array_present(to) && j < r->keys; j++)
        ota_put(to, head->index / r->heads, head->index % r->heads, j, column[j]);
}

/* False: this arithmetic is too narrow for the head, f64 has to do it, from g if `warm` says so. */
static bool try_head(attempt *a, int64_t index, int64_t place, ota_warm_start *warm) {
    const ota_plan *plan = a->plan;
    const ota_strategy *strategy = &plan->strategy;
    const ota_backend *backend = plan->backend;
    ota_head *head = &a->head;
    ota_head_status *status = a->status;
    const bool tries = ota_ladder_tries_f32(strategy->ladder);
    backend->begin_head(a->run, index, place, a->narrow, warm->given, head);
    head->warm = ota_array_present(&a->run->arrays->start_potential) &&
                 plan->resolved.problem.axis == OTA_AXIS_ROWS;
    head->scores.tried = a->tried;
    const ota_far_call start = {.context = a};
    if (head->warm) load_start(&start, head);
    /* Many processes are interrupted together, by the sums of a round. */
    if (are_many(plan) ? atomic_load(&a->run->stopped) != OTA_OK : ota_run_interrupted(a->run))
        return true;
    if (a->tried && !tries && !backend->pays_warm_start(head)) return false;
    ota_outcome end = OTA_LOST;
    const bool done = strategy->on_kernel && run_rounds(a, warm, &end);
    if (a->tried && !done && strategy->on_kernel) return false;
    /* Whatever was found counts only if nobody wanted the run to end meanwhile. */
    const bool alone = !are_many(plan);
    const bool ended = alone && ota_run_interrupted(a->run);
    if (!done && !ended)
        status->result.status = strategy->stored ? solve_stored(a) : give_up(a, end);
    if (alone && ota_run_interrupted(a->run))
        status->result.status = (ota_status)atomic_load(&a->run->stopped);
    else if (a->tried && !done && status->result.status != OTA_OK)
        return false;
    if (status->result.status == OTA_CANCELLED || status->result.status == OTA_TIMEOUT ||
        status->result.status == OTA_ECOMM) {
        atomic_store(&a->run->stopped, status->result.status);
        return true;
    }
    if (status->result.status >= OTA_OK) {
        if (!done) backend->emit(head);
        backend->gather(head);
        if (head->scores.far.shut || fabs(head->scores.far.sink) > 0.0) shift_back(a);
        put_column_potentials(a);
    }
    status->promoted = is_promoted(plan) || (tries && !head->scores.narrow);
    ota_run_finish_head(a->run, index / plan->resolved.heads, index % plan->resolved.heads,
                        head->mass);
    return true;
}

/* ---- heads -------------------------------------------------------------------------------------- */

typedef struct forward_job {
    const ota_plan *plan;
    ota_run *run;
} forward_job;

/* The ladder of precisions: f32 where it may do, or may warm-start f64; then f64. */
static void run_head(const forward_job *job, int64_t index, int64_t place) {
    const ota_plan *plan = job->plan;
    const ota_ladder ladder = plan->strategy.ladder;
    const bool warm = ota_array_present(&job->run->arrays->start_potential);
    attempt a = {.plan = plan, .run = job->run, .status = &plan->heads[index]};
    ota_warm_start from = {.given = false};
    if (plan->sentences != NULL) plan->sentences[index][0] = '\0';
    if (ota_ladder_begins_f32(ladder) && (ladder != OTA_LADDER_F32_WARM_F64 || !warm)) {
        a.narrow = true;
        a.tried = ota_ladder_ends_f64(ladder);
        if (try_head(&a, index, place, &from)) return;
    }
    a.narrow = a.tried = false;
    (void)try_head(&a, index, place, &from);
}

static void head_task(void *context, int64_t index, int worker) {
    run_head(context, index, worker);
}

/* A batch of small heads; those that it does not carry are run as any other. */
static void small_task(void *context, int64_t batch, int worker) {
    const forward_job *job = context;
    const ota_plan *plan = job->plan;
    const ota_backend *backend = plan->backend;
    const int64_t step = backend->small_heads(job->run);
    const int64_t heads = plan->resolved.batch * plan->resolved.heads;
    bool left[OTA_SMALL_HEADS_MOST] = {false};
    if (ota_run_interrupted(job->run)) return;
    backend->run_small(job->run, batch, worker, left);
    for (int64_t k = 0; k < step && batch * step + k < heads; k++) {
        if (left[k]) run_head(job, batch * step + k, worker);
    }
}

static void run_heads(ota_plan *plan, ota_run *run) {
    const int64_t heads = plan->resolved.batch * plan->resolved.heads;
    forward_job job = {plan, run};
    const int64_t small = plan->backend->small_heads != NULL ? plan->backend->small_heads(run) : 0;
    if (small > 0) {
        ota_parallel(plan->pool, ota_int_ceil_div(heads, small), small_task, &job);
    } else if (plan->strategy.path != OTA_PATH_COUPLED) {
        plan->backend->run_rows(run);
    } else if (heads >= ota_pool_threads(plan->pool) && !are_many(plan)) {
        ota_parallel(plan->pool, heads, head_task, &job);
    } else {
        for (int64_t k = 0; k < heads; k++) {
            ota_ranks_at(plan->resolved.settings.ranks, k, -1);
            run_head(&job, k, 0);
        }
    }
}

/* ---- results ------------------------------------------------------------------------------------ */

/* Failures outrank caveats; among failures the first head's. */
static bool worse(ota_status a, ota_status b) {
    if (a < OTA_OK || b < OTA_OK) return a < OTA_OK && b >= OTA_OK;
    return a > b;
}

/* Of rows alone and rows in order; coupled columns have a sentence of their own. */
static const char *why_infeasible(const ota_problem *problem) {
    const ota_column_rule_row *rule = ota_column_rule_of(problem->columns);
    if (problem->regulariser == OTA_CUSTOM) return "custom.weight cannot add up to a row's mass";
    if (ota_has_entry_caps(problem))
        return ota_rule_is(rule, OTA_RULE_CAPACITY)
                   ? "what a row's entry caps and the capacities left allow adds up to "
                     "less than its mass"
                   : "the entry caps of a row add up to less than its mass";
    return ota_rule_is(rule, OTA_RULE_SERVES_ALL)
               ? "a query with positive mass has no key it may use"
               : "the keys a row may use have too little capacity left for its mass";
}

void ota_forward_sum_up(const ota_plan *plan, int stopped, ota_result *result) {
    const int64_t heads = plan->resolved.batch * plan->resolved.heads;
    *result = (ota_result){.size = sizeof *result, .status = OTA_OK, .promoted = is_promoted(plan)};
    for (int64_t k = 0; ota_ladder_tries_f32(plan->strategy.ladder) && k < heads; k++)
        result->promoted = (k == 0 || result->promoted) && plan->heads[k].promoted;
    result->temperature_reached = heads > 0 ? ota_head_temperature(&plan->resolved, 0) : 0.0;
    for (int64_t k = 0; k < heads; k++) {
        const ota_head_status *t = &plan->heads[k];
        if (worse(t->result.status, result->status)) {
            result->status = t->result.status;
            result->head = k;
            if (t->temperature_reached > 0.0) result->temperature_reached = t->temperature_reached;
        }
        if (t->result.rounds > result->rounds) result->rounds = t->result.rounds;
        result->row_error = ota_larger_error(result->row_error, t->result.row_error);
        result->column_error = ota_larger_error(result->column_error, t->result.column_error);
        result->empty_rows += t->empty_rows;
        result->nonfinite_rows += t->nonfinite_rows;
        result->unusable_pairs += t->unusable;
        result->pruned_pairs += t->pruned;
        result->underflowed += t->underflowed;
        if (t->result.status >= OTA_OK && t->mass > 0.0)
            result->masked_share = fmax(result->masked_share, t->masked / t->mass);
    }
    result->solver = heads > 0 ? plan->heads[result->head].solver : NULL;
    if (heads > 0 && plan->heads[result->head].small) result->solver = ota_solver_sinkhorn.name;
    if (result->solver == NULL) result->solver = plan->solver->name;
    if (stopped != OTA_OK) result->status = (ota_status)stopped;
    if (result->status == OTA_OK) return;
    const char *reason =
        plan->sentences != NULL && stopped == OTA_OK && !plan->heads[result->head].small
            ? plan->sentences[result->head]
            : "";
    if (reason[0] != '\0') {
        (void)ota_snprintf(result->sentence, sizeof result->sentence, "%.511s", reason);
    } else if (result->status == OTA_NONFINITE_ROWS || result->status == OTA_NONFINITE) {
        (void)ota_snprintf(result->sentence, sizeof result->sentence,
                           "%" PRId64 " rows met NaN or +inf and are NaN", result->nonfinite_rows);
    } else if (result->status == OTA_INFEASIBLE) {
        (void)ota_snprintf(result->sentence, sizeof result->sentence, "head %" PRId64 ": %s",
                           result->head, why_infeasible(&plan->resolved.problem));
    } else {
        (void)ota_snprintf(result->sentence, sizeof result->sentence, "%s",
                           ota_status_text(result->status));
    }
}

static const char *hint_of(ota_status status) {
    switch (status) {
    case OTA_NOT_CONVERGED:
        return "raise max_rounds or tolerance, anneal, or allow the partial plan";
    case OTA_INFEASIBLE:
        return "change the masses, the mask, or use relaxed, capped or online columns";
    case OTA_TOL_UNREACHABLE: return "raise tolerance or temperature";
    case OTA_NONFINITE: return "remove NaN and +inf, or mask them";
    default: return "";
    }
}

ota_status ota_forward_check(const ota_plan *plan, const ota_arrays *given,
                             const ota_result *result, ota_arrays *arrays, ota_error *error) {
    const ota_resolved *r = &plan->resolved;
    if (result != NULL && result->size == 0) {
        return ota_fail(error, OTA_EINVAL, "result.size", "set it to sizeof the struct",
                        "result.size is %zu", result->size);
    }
    TRY(ota_arrays_check(r, plan->values_width, given, arrays, error));
    if (ota_array_present(&arrays->start_potential) &&
        (plan->solver->solve == NULL || r->problem.axis == OTA_AXIS_COLUMNS ||
         r->problem.regulariser == OTA_HARD ||
         ota_column_rule_of(r->problem.columns)->coupling == OTA_COUPLING_LEADING)) {
        return ota_fail(
            error, OTA_EINVAL, "start_potential",
            "leave it out, or run exact, relaxed, capped, bounded or elastic columns on the rows "
            "axis",
            "start_potential has no use: this plan starts no rounds from column potentials");
    }
    return OTA_OK;
}

/* Of a run that ended early. Stale numbers would look like a result, and so would heads that are OTA_OK. */
void ota_forward_leave_nothing(ota_plan *plan, const ota_arrays *arrays) {
    const ota_resolved *r = &plan->resolved;
    for (int64_t k = 0; k < r->batch * r->heads; k++) {
        ota_head_result *head = &plan->heads[k].result;
        if (!ota_reads_no_outputs(&r->settings))
            ota_run_poison(plan->pool, arrays, k / r->heads, k % r->heads);
        if (head->status >= OTA_OK) *head = (ota_head_result){.status = OTA_UNSOLVED};
        if (arrays->heads != NULL) arrays->heads[k] = *head;
    }
}

int ota_forward_heads(ota_plan *plan, const ota_arrays *arrays) {
    const ota_resolved *r = &plan->resolved;
    ota_run run = {.resolved = r,
                   .arrays = arrays,
                   .device = plan->device,
                   .heads = plan->heads,
                   .sentences = plan->sentences,
                   .telling = ATOMIC_FLAG_INIT};
    run.wants_statistics =
        ota_array_present(&arrays->coupling) || ota_array_present(&arrays->receiver) ||
        ota_array_present(&arrays->row_entropy) || ota_array_present(&arrays->row_support) ||
        ota_array_present(&arrays->row_max);
    for (int64_t k = 0; k < r->batch * r->heads; k++) plan->heads[k] = (ota_head_status){0};
    run_heads(plan, &run);
    if (!are_many(plan)) (void)ota_run_interrupted(&run);
    return atomic_load(&run.stopped);
}

ota_status ota_forward_report(const ota_result *found, ota_result *result, ota_error *error) {
    if (result != NULL) ota_sized_write(result, result->size, found, sizeof *found);
    if (found->status >= OTA_OK) return found->status;
    return ota_fail(error, found->status, "", hint_of(found->status), "%s", found->sentence);
}

ota_status ota_plan_run(ota_plan *plan, const ota_arrays *given, ota_result *result,
                        ota_error *error) {
    ota_arrays arrays;
    ota_result found;
    TRY(ota_forward_check(plan, given, result, &arrays, error));
    const int stopped = ota_forward_heads(plan, &arrays);
    ota_forward_sum_up(plan, stopped, &found);
    if (stopped != OTA_OK) ota_forward_leave_nothing(plan, &arrays);
    return ota_forward_report(&found, result, error);
}

ota_status ota_forward(ota_plan *plan, const ota_arrays *arrays, ota_result *result,
                       ota_error *error) {
    if (plan == NULL)
        return ota_fail(error, OTA_EINVAL, "plan", "create one first", "plan is NULL");
    return (plan->driver != NULL ? plan->driver->forward : ota_plan_run)(plan, arrays, result,
                                                                         error);
}
