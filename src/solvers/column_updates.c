/* Column updates in potentials, and the residual that decides: what the rules of the columns make of the sums c and of
 * L = LSE_i((S_ij + f_i) / t) that a pass has found (backend.h). */
#include "coupled.h"

#include <math.h>
#include <string.h>

#include "base/fault.h"

static ota_column_sums sums_of(const ota_coupled *state) {
    const ota_head *head = state->head;
    return (ota_column_sums){.count = state->pass.columns,
                             .sum = state->pass.column,
                             .target = state->pass.target,
                             .g = head->g,
                             .parameters = ota_head_parameters(head, 0),
                             .floors = head->column.floors};
}

void ota_update_columns(ota_coupled *state, double t, double omega) {
    ota_head *head = state->head;
    double *g = head->g;
    ota_column_step update = {0};
    memcpy(state->pass.previous, g, (size_t)state->pass.columns * sizeof *g);
    for (int64_t j = 0; j < OTA_FAULT(COLUMN_UPDATE, state->pass.columns, state->pass.columns - 1);
         j++) {
        if (j == 0 || head->column.lambdas != NULL || head->column.floors != NULL)
            update = ota_head_step(head, j, t);
        /* Closed keys, keys without a row and lambda = 0 keep what they have. */
        if (!(g[j] > -INFINITY) || !(state->pass.column_lse[j] > -INFINITY) || !(update.step > 0.0))
            continue;
        const double next = ota_column_next(update, t, g[j],
                                            log(state->pass.target[j]) - state->pass.column_lse[j]);
        if (!(omega > 1.0 || omega < 1.0) || !(next > -INFINITY)) {
            g[j] = next;
        } else {
            g[j] = ota_column_relax(update, omega, g[j], next);
        }
    }
}

double ota_column_residual(const ota_coupled *state) {
    const ota_head *head = state->head;
    const ota_column_sums columns = sums_of(state);
    const double residual = ota_head_rule(head)->residual(&columns);
    return head->mass > 0.0 ? residual / head->mass : residual;
}

void ota_constant_mode(ota_coupled *state) {
    ota_head *head = state->head;
    const ota_column_rule_row *rule = ota_head_rule(head);
    /* With a sink the constant moves weight between the sink and the keys: no closed form. */
    if (!ota_rule_is(rule, OTA_RULE_PENALISED) || head->row.sink > -INFINITY) return;
    double reached = 0.0, wanted = 0.0;
    for (int64_t j = 0; j < state->pass.columns; j++) {
        if (!(state->pass.target[j] > 0.0) || !(state->pass.column_lse[j] > -INFINITY)) continue;
        reached += state->pass.column[j];
        wanted += rule->wanted(state->pass.target[j], head->g[j], head->column.strength);
    }
    const double stiffness =
        1.0 / head->column.strength + (head->row.strength < INFINITY
                                           ? 1.0 / (head->row.strength + state->pass.temperature)
                                           : 0.0);
    const double move = log(wanted / reached) / stiffness;
    if (!isfinite(move)) return;
    /* Rows answer with f <- f - share move; their masses grow when they are relaxed. */
    const double t = state->pass.temperature, rho = head->row.strength;
    const double share = rho < INFINITY ? rho / (rho + t) : 1.0,
                 growth = exp((1.0 - share) * move / t);
    for (int64_t j = 0; j < state->pass.columns; j++) {
        if (!(head->g[j] > -INFINITY)) continue;
        head->g[j] += move;
        state->pass.column[j] *= growth;
        state->pass.column_lse[j] -= share * move / t;
    }
    for (int64_t i = 0; i < state->pass.rows; i++) head->f[i] -= share * move;
}

double ota_measure(ota_coupled *state) {
    ota_head *head = state->head;
    ota_passes *pass = &state->pass;
    head->backend->final_pass(pass);
    double row_error = 0.0;
    for (int64_t i = 0; i < pass->rows; i++) row_error += pass->error[i];
    (void)ota_ranks_sum(head->settings, pass->column, pass->columns, &row_error, 1,
                        "the sums of the plan");
    head->found.row_error = head->mass > 0.0 ? row_error / head->mass : row_error;
    const double residual = ota_column_residual(state);
    head->found.column_error = residual;
    if (ota_head_rule(head)->excess != NULL) {
        const ota_column_sums columns = sums_of(state);
        const double excess = ota_head_rule(head)->excess(&columns);
        head->found.column_error = head->mass > 0.0 ? excess / head->mass : excess;
    }
    return residual > head->found.row_error || isnan(residual) ? residual : head->found.row_error;
}
