/* Anderson acceleration of the Sinkhorn map G (one column update of the plan of g), extrapolation.h.
 * Safeguard: when the residual of the plan rises, the extrapolation is taken back, the plain update it
 * replaced is used and the history starts anew, so that the worst case is Sinkhorn at half speed. */
#include "coupled.h"
#include "base/extrapolation.h"

#include <string.h>

ota_outcome ota_anderson_run(ota_coupled *state, ota_status *stopped) {
    ota_head *head = state->head;
    const double tau = head->tau;
    ota_extrapolation h;
    ota_extrapolation_place(&h, state->history, state->pass.padded_columns);
    double best = INFINITY, last = INFINITY;
    bool extrapolated = false;
    if (!ota_coupled_search(state)) return OTA_HOPELESS;
    for (;; head->found.rounds++) {
        ota_row_pass(state, tau, 1.0);
        ota_constant_mode(state);
        const double residual = ota_column_residual(state);
        if (residual < best) {
            best = residual;
            memcpy(state->best, head->g, (size_t)state->pass.columns * sizeof *head->g);
        }
        if (residual <= head->settings->stop.tolerance &&
            ota_measure(state) <= head->settings->stop.tolerance)
            return OTA_MET;
        if (isnan(residual) || head->found.rounds >= head->settings->stop.max_rounds)
            return OTA_SPENT;
        *stopped = ota_coupled_tick(state, head->found.rounds, residual);
        if (*stopped != OTA_OK) return OTA_STOPPED;
        if (extrapolated && !(residual <= last)) {
            memcpy(head->g, h.plain, (size_t)state->pass.columns * sizeof *head->g);
            ota_extrapolation_reset(&h);
            extrapolated = false;
            last = INFINITY;
            continue;
        }
        last = residual;
        ota_update_columns(state, tau, 1.0);
        extrapolated = ota_extrapolate(&h, state->pass.previous, head->g, state->pass.columns,
                                       ota_head_rule(head)->ceiling);
    }
}

/* ---- table row ------------------------------------------------------------------------------- */

static ota_status solve(ota_head *head) {
    return ota_coupled_solve(head, OTA_NEEDS_KERNEL | OTA_NEEDS_HISTORY, true, ota_anderson_run);
}

static size_t workspace(const ota_head_shape *shape) {
    return ota_coupled_bytes(shape, OTA_NEEDS_KERNEL | OTA_NEEDS_HISTORY);
}

static const char *refuses(const ota_resolved *r) {
    if (!ota_regulariser_of(&r->problem)->exponential)
        return "Anderson acceleration exists for softmax without entry caps only; use newton";
    return ota_tolerance_only(r);
}

const ota_solver ota_solver_anderson = {
    .name = "anderson",
    .purpose = "Sinkhorn rounds extrapolated from the last five",
    .refuses = refuses,
    .workspace = workspace,
    .solve = solve,
};
