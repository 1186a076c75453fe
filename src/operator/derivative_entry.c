/* ota_backward and ota_jvp: what they refuse, and how a run is reported. */
#include "jvp.h"
#include "base/sized.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static ota_status refuse(const ota_plan *plan, ota_error *error) {
    const ota_resolved *r = &plan->resolved;
    const ota_backward_mode mode = ota_backward_mode_of(plan);
    if (!ota_is_smooth(ota_regulariser_of(&r->problem))) {
        return ota_fail(
            error, OTA_NOT_DIFFERENTIABLE, "method",
            "use softmax or entmax with a small temperature",
            "hard plans jump where the scores change: their derivative is 0 or does not "
            "exist");
    }
    if (plan->backward == NULL) {
        return ota_fail(error, OTA_EINVAL, "gradients",
                        "create the plan with options.gradients = 1",
                        "the plan was made without the workspace of backward");
    }
    const bool rounds = mode == OTA_BACKWARD_UNROLLED;
    const bool coupled = rounds || (mode == OTA_BACKWARD_IMPLICIT && plan->solver->solve != NULL);
    if (coupled && r->settings.backward == (rounds ? 1 : 2)) {
        return ota_fail(error, OTA_UNSUPPORTED, "backward", "use 0 (auto)",
                        rounds
                            ? "a fixed number of rounds is no solution, so only its rounds can be "
                              "differentiated (unrolled)"
                            : "in tolerance mode the number of rounds depends on the data, so the "
                              "solution is differentiated (implicit)");
    }
    return OTA_OK;
}

/* What the last forward came to; `head` is the one at fault. */
static ota_status check_forward(const ota_plan *plan, bool solved, int64_t *head,
                                ota_error *error) {
    const ota_resolved *r = &plan->resolved;
    /* Which pairs were pruned, only the plan that did it knows. */
    if (solved && !r->settings.prune) return OTA_OK;
    for (int64_t k = 0; k < r->batch * r->heads; k++) {
        const ota_head_status *status = &plan->heads[k];
        *head = k;
        if (status->result.status == OTA_UNSOLVED) {
            return ota_fail(error, OTA_EINVAL, "plan", "run ota_forward on it first",
                            "the plan has not run forward yet");
        }
        if (status->result.status < OTA_OK || status->result.status == OTA_PARTIAL) {
            return ota_fail(error, OTA_NOT_CONVERGED, "plan", "raise max_rounds or tolerance",
                            "the forward of head %" PRId64
                            " ended with '%s', so it has no derivative",
                            k, ota_status_word(status->result.status));
        }
        if (status->pruned > 0) {
            return ota_fail(error, OTA_UNSUPPORTED, "prune", "mask the unusable pairs instead",
                            "head %" PRId64 " was solved without %" PRId64 " unusable pairs", k,
                            status->pruned);
        }
    }
    return OTA_OK;
}

static ota_status check_finite(const ota_plan *plan, const ota_arrays *arrays, ota_error *error) {
    const ota_resolved *r = &plan->resolved;
    if (ota_backward_mode_of(plan) != OTA_BACKWARD_IMPLICIT) return OTA_OK;
    for (int64_t k = 0; k < r->batch * r->heads; k++) {
        const int64_t b = k / r->heads, h = k % r->heads;
        for (int64_t j = 0; j < r->keys; j++) {
            if (!isnan(ota_array_get(&arrays->column_potential, b, h, 0, j))) continue;
            return ota_fail(error, OTA_NOT_CONVERGED, "column_potential",
                            "give what a converged forward wrote",
                            "column_potential of head %" PRId64 ", key %" PRId64 " is NaN", k, j);
        }
        for (int64_t i = 0; i < r->queries && plan->strategy.transposed; i++) {
            if (!isnan(ota_array_get(&arrays->row_potential, b, h, 0, i))) continue;
            return ota_fail(error, OTA_NOT_CONVERGED, "row_potential",
                            "give what a converged forward wrote",
                            "row_potential of head %" PRId64 ", query %" PRId64 " is NaN", k, i);
        }
    }
    return OTA_OK;
}

/* Rows that were empty or could not be computed, as their lse tells, which entropy plans have. */
static void count_rows(const ota_plan *plan, const ota_array *lse, ota_result *found) {
    const ota_resolved *r = &plan->resolved;
    if (!ota_array_present(lse) || !ota_regulariser_of(&r->problem)->exponential) return;
    for (int64_t k = 0; k < r->batch * r->heads; k++) {
        for (int64_t i = 0; i < r->queries; i++) {
            const double x = ota_array_get(lse, k / r->heads, k % r->heads, 0, i);
            found->empty_rows += x <= -INFINITY;
            found->nonfinite_rows += isnan(x);
        }
    }
}

static ota_status report(const ota_result *found, ota_result *result, ota_error *error) {
    if (result != NULL) ota_sized_write(result, result->size, found, sizeof *found);
    if (found->status >= OTA_OK) return found->status;
    return ota_fail(error, found->status, "", "raise the temperature, or unroll fixed rounds", "%s",
                    found->sentence);
}

static ota_status check_result(const ota_result *result, ota_error *error) {
    if (result == NULL || result->size != 0) return OTA_OK;
    return ota_fail(error, OTA_EINVAL, "result.size", "set it to sizeof the struct",
                    "result.size is 0");
}

/* Everything that is asked for becomes NaN. */
static void poison(const ota_derivative_call *e) {
    if (ota_reads_no_outputs(&e->plan->resolved.settings)) return;
    if (e->want != NULL) {
        ota_gradients_poison(e->plan, e->want);
        return;
    }
    ota_poison(e->plan, &e->tangents->coupling);
    ota_poison(e->plan, &e->tangents->out);
}

static ota_status run(const ota_derivative_call *e, ota_result *found) {
    if (e->run != NULL) return e->run(e, found);
    return e->want != NULL ? ota_backward_run(e->plan, e->arrays, e->want, found)
                           : ota_tangents_run(e->plan, e->arrays, e->tangents, found);
}

ota_status ota_derivative_run(const ota_derivative_call *e, ota_result *result, ota_error *error) {
    ota_plan *plan = e->plan;
    ota_result found = {.size = sizeof found,
                        .status = OTA_OK,
                        .promoted = ota_ladder_ends_f64(plan->strategy.ladder) &&
                                    plan->resolved.type != OTA_F64};
    const bool solved = e->want != NULL && e->want->solved != 0;
    ota_status status = check_forward(plan, solved, &found.head, error);
    if (status == OTA_OK) status = check_finite(plan, e->arrays, error);
    if (status != OTA_OK) {
        if (status == OTA_NOT_CONVERGED) poison(e);
        return status;
    }
    status = run(e, &found);
    /* Whatever was found counts only if nobody wanted the run to end meanwhile. */
    const ota_status stopped =
        plan->resolved.settings.ranks == NULL ? ota_interrupted(&plan->resolved.settings) : OTA_OK;
    if (stopped != OTA_OK) status = stopped;
    found.status = status;
    if (status == OTA_CANCELLED || status == OTA_TIMEOUT || status == OTA_ECOMM) poison(e);
    if (solved) count_rows(plan, &e->arrays->lse, &found);
    for (int64_t k = 0; !solved && k < plan->resolved.batch * plan->resolved.heads; k++) {
        found.empty_rows += plan->heads[k].empty_rows;
        found.nonfinite_rows += plan->heads[k].nonfinite_rows;
    }
    if (status == OTA_OK && found.nonfinite_rows > 0) found.status = OTA_NONFINITE_ROWS;
    if (status == OTA_NOT_CONVERGED) {
        (void)ota_snprintf(found.sentence, sizeof found.sentence,
                           "head %" PRId64 ": the linear system of %s stopped at a relative "
                           "residual of %.3g",
                           found.head, e->want != NULL ? "backward" : "jvp",
                           found.backward_residual);
    } else if (status == OTA_TOL_UNREACHABLE) {
        (void)ota_snprintf(found.sentence, sizeof found.sentence,
                           "head %" PRId64
                           ": scores lie so far apart that potentials do not hold the "
                           "plan, whose column sums they miss by %.3g; mask far scores with -inf",
                           found.head, found.backward_residual);
    } else if (found.status != OTA_OK) {
        (void)ota_snprintf(found.sentence, sizeof found.sentence, "%s",
                           ota_status_text(found.status));
    }
    return report(&found, result, error);
}

ota_status ota_derivative_check(const ota_plan *plan, const ota_arrays *given,
                                const ota_result *result, ota_arrays *arrays, ota_error *error) {
    if (plan == NULL)
        return ota_fail(error, OTA_EINVAL, "plan", "create one first", "plan is NULL");
    ota_status status = check_result(result, error);
    if (status == OTA_OK) status = refuse(plan, error);
    if (status == OTA_OK)
        status = ota_arrays_check(&plan->resolved, plan->values_width, given, arrays, error);
    return status;
}

ota_status ota_derivative_check_capacities(const ota_arrays *arrays, ota_error *error) {
    if (!ota_array_present(&arrays->remaining)) return OTA_OK;
    return ota_fail(error, OTA_UNSUPPORTED, "remaining", "start from full capacities",
                    "backward does not know the capacities forward started from");
}

ota_status ota_backward(ota_plan *plan, const ota_arrays *given, const ota_gradients *gradients,
                        ota_result *result, ota_error *error) {
    if (plan != NULL && plan->driver != NULL)
        return plan->driver->backward(plan, given, gradients, result, error);
    ota_arrays arrays;
    ota_gradients want;
    ota_status status = ota_derivative_check(plan, given, result, &arrays, error);
    if (status == OTA_OK) status = ota_gradients_check(plan, &arrays, gradients, &want, error);
    if (status == OTA_OK) status = ota_derivative_check_capacities(&arrays, error);
    const ota_derivative_call call = {.plan = plan, .arrays = &arrays, .want = &want};
    return status == OTA_OK ? ota_derivative_run(&call, result, error) : status;
}

ota_status ota_jvp(ota_plan *plan, const ota_arrays *given, const ota_tangents *tangents,
                   ota_result *result, ota_error *error) {
    if (plan != NULL && plan->driver != NULL)
        return plan->driver->jvp(plan, given, tangents, result, error);
    ota_arrays arrays;
    ota_tangents checked;
    ota_status status = ota_derivative_check(plan, given, result, &arrays, error);
    if (status == OTA_OK) status = ota_tangents_check(plan, &arrays, tangents, &checked, error);
    if (status == OTA_OK) status = ota_derivative_check_capacities(&arrays, error);
    const ota_derivative_call call = {.plan = plan, .arrays = &arrays, .tangents = &checked};
    return status == OTA_OK ? ota_derivative_run(&call, result, error) : status;
}
