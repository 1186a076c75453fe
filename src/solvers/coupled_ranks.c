/* Column-coupled heads whose rows lie on many processes (problem/ranks.h): what loading, validation and the passes of Newton
 * find of one process's rows becomes what all rows have. Everything that decides comes out of such a sum, so all processes
 * take the same steps.
 *
 * A column update g_j of  sum_i w(S_ij + f_i + g_j) = wanted_j(g_j),  w as in newton_columns.c, has no column to gather: all
 * keys are moved at once by Newton inside brackets, a sum of 2 columns numbers a step. With top_j = max_i (S_ij + f_i) and n
 * rows,  w(top + g) <= sum_i w(S_ij + f_i + g) <= n w(top + g)  gives a bracket from any g, since `wanted` falls with g. Where
 * entries have caps the first of these does not hold, and the bracket ends where most of them are met. */
#include "coupled.h"

#include <string.h>

enum { ITERATIONS = 40 };
/* A column update that is this near its sum, relative, is as good as another. */
static const double near_sum = 1.0e-6;

bool ota_coupled_share_scores(ota_head *head, bool *finite) {
    const ota_settings *s = head->settings;
    double flags[] = {*finite ? 0.0 : 1.0, head->found.unusable < 0 ? 1.0 : 0.0};
    double ends[] = {head->scores.range, head->scores.highest};
    double *used = head->g; /* until a start is loaded */
    if (s->ranks == NULL) return true;
    for (int64_t j = 0; j < head->columns; j++) used[j] = head->kernel.used[j];
    if (!ota_ranks_sum(s, &head->mass, 1, flags, 2, "the mass of the rows") ||
        !ota_ranks_most(s, ends, 2, "the range of the scores") ||
        !ota_ranks_most(s, used, head->columns, "the keys in use"))
        return false;
    *finite = !(flags[0] > 0.0);
    head->scores.range = ends[0];
    head->scores.highest = ends[1];
    head->found.unusable = flags[1] > 0.0 ? -1 : 0;
    head->kernel.masked = true;
    for (int64_t j = 0; j < head->columns; j++) head->kernel.used[j] = used[j] > 0.0;
    head->backend->allot(head);
    return true;
}

ota_status ota_coupled_share_door(ota_coupled *state, bool *shut) {
    const ota_settings *s = state->head->settings;
    double flags[] = {*shut ? 1.0 : 0.0, state->masked ? 1.0 : 0.0, 0.0};
    if (s->ranks == NULL) return OTA_OK;
    const ota_status status = ota_ranks_most_or_end(s, flags, 2, "rows and keys that are open");
    if (status != OTA_OK) return status;
    if (!ota_ranks_most(s, state->pass.column_lse, state->pass.columns, "the keys in use"))
        return OTA_ECOMM;
    *shut = flags[0] > 0.0;
    state->masked = flags[1] > 0.0;
    return OTA_OK;
}

/* ---- a column update --------------------------------------------------------------------------- */

typedef struct update {
    ota_coupled *state;
    ota_row_parameters parameters;
    double *top, *low, *high; /* [columns] */
    double beyond;            /* how much further than without caps a bracket reaches */
    double *sum, *slope;      /* [columns] of the weights, and of w' in units of 1 / t */
} update;

/* x with w(x) = p, without caps */
static double argument_of(const update *u, double p) {
    if (!u->parameters.regulariser->tsallis) return u->parameters.tau * log(p);
    const double k = u->parameters.order - 1.0;
    return u->parameters.tau / k * pow(p, k);
}

/* Moves key j by what its sum came to; true: it need not move. */
static bool move_key(const update *u, int64_t j) {
    const ota_head *head = u->state->head;
    const ota_column_rule_row *rule = ota_head_rule(head);
    const ota_column_parameters key = ota_head_parameters(head, j);
    const ota_column_kink kink = ota_column_kink_of(rule, &key, u->state->pass.target[j]);
    double *g = &head->g[j];
    const double from = *g, sum = u->sum[j], t = u->parameters.tau;
    const bool at = !(from < kink.at) && !(from > kink.at);
    if (at && sum <= kink.below && sum >= kink.above) return true;
    double wanted = from < kink.at || (at && sum > kink.below) ? kink.below : kink.above;
    if (rule->wanted != NULL) wanted = rule->wanted(wanted, from, head->column.strength);
    const double miss = sum - wanted;
    if (fabs(miss) <= near_sum * wanted || isnan(miss)) return true;
    if (miss > 0.0) {
        u->high[j] = from;
        if (wanted > 0.0)
            u->low[j] =
                fmax(u->low[j], argument_of(u, wanted / (double)head->all_rows) - u->top[j]);
    } else {
        u->low[j] = from;
        u->high[j] = fmin(u->high[j], argument_of(u, wanted) - u->top[j] + u->beyond);
    }
    double rise = u->slope[j] / t;
    if (rule->diagonal != NULL)
        rise += rule->diagonal(u->state->pass.target[j], from, head->column.strength, t) / t;
    double next = from - miss / rise;
    if (!(next > u->low[j] && next < u->high[j])) next = 0.5 * u->low[j] + 0.5 * u->high[j];
    if ((from < kink.at && next > kink.at) || (from > kink.at && !(next >= kink.at)))
        next = kink.at;
    if (!isfinite(next) || !(fabs(next - from) > 0.0)) return true;
    *g = next;
    return false;
}

/* L = log c - g / t of the plan at hand, whose rows answer to g. */
static void update_by_sums(ota_coupled *state, double t) {
    for (int64_t j = 0; j < state->pass.columns; j++)
        state->pass.column_lse[j] = log(state->pass.column[j]) - state->head->g[j] / t;
    ota_update_columns(state, t, 1.0);
}

void ota_newton_columns_of_ranks(ota_coupled *state, double t) {
    const ota_head *head = state->head;
    const int64_t columns = state->pass.columns;
    if (head->row.regulariser->exponential) {
        update_by_sums(state, t);
        return;
    }
    update u = {.state = state,
                .parameters = ota_coupled_rows(state, t),
                .beyond = head->row.regulariser->capped ? 4.0 * head->scores.range + 64.0 * t : 0.0,
                .top = state->pass.previous,
                .low = state->brackets,
                .high = state->brackets + state->pass.padded_columns,
                .sum = state->pass.column,
                .slope = state->pass.column_lse};
    state->semidual->tops(state, u.top);
    (void)ota_ranks_most(head->settings, u.top, columns, "the largest scores of the keys");
    for (int64_t j = 0; j < columns; j++) {
        u.low[j] = -INFINITY;
        u.high[j] = INFINITY;
    }
    bool done = false;
    for (int iteration = 0; iteration < ITERATIONS && !done; iteration++) {
        state->semidual->columns(state, t, u.sum, u.slope);
        ota_coupled_share(state, u.sum, "a column update of Newton");
        ota_coupled_share(state, u.slope, "a column update of Newton");
        if (ota_interrupted_together(head->settings) != OTA_OK) return;
        done = true;
        for (int64_t j = 0; j < columns; j++) {
            const bool moves =
                head->g[j] > -INFINITY && state->pass.target[j] > 0.0 && u.top[j] > -INFINITY;
            if (moves && !move_key(&u, j)) done = false;
        }
    }
}
