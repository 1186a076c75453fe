/* The search for pairs that no feasible plan uses [DER-24, CETA-24]: by maximum flow (problem/feasible.h) where its memory is at
 * hand, else by peeling, which is enough for causal masks of any size. */
#include "coupled.h"

#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void say_unusable(ota_head *head, int64_t unusable, int64_t allowed, bool identity,
                         bool at_least) {
    (void)ota_snprintf(head->found.sentence, sizeof head->found.sentence,
                       "%s columns cannot be met with positive weights: %s%" PRId64 " of %" PRId64
                       " allowed pairs are on no feasible plan%s; %s, or prune these pairs",
                       ota_head_rule(head)->name, at_least ? "at least " : "", unusable, allowed,
                       identity ? " and only the identity is left" : "", OTA_WAYS_OUT);
}

static void say_infeasible(ota_head *head) {
    (void)ota_snprintf(
        head->found.sentence, sizeof head->found.sentence,
        "no plan on the allowed pairs meets the masses: some keys cannot be filled by, "
        "or cannot take, "
        "the queries that must use them; %s",
        ota_rule_is(ota_head_rule(head), OTA_RULE_BALANCED) ? OTA_WAYS_OUT
        : head->column.floor > 0.0 ? "widen the bounds or relax the columns"
                                   : "raise the cap or relax the columns");
}

/* A copy of the scores without the unusable pairs. */
static void prune(ota_coupled *state) {
    const int64_t width = state->pass.columns + 1;
    const size_t element = state->pass.narrow ? sizeof(float) : sizeof(double);
    memcpy(state->pruned, state->pass.scores,
           (size_t)(state->pass.rows * state->pass.stride) * element);
    for (int64_t i = 0; i < state->pass.rows; i++) {
        for (int64_t j = 0; j < state->pass.columns; j++) {
            if (state->usable[i * width + j] != 0) continue;
            if (state->pass.narrow) {
                ((float *)state->pruned)[i * state->pass.stride + j] = -INFINITY;
            } else {
                ((double *)state->pruned)[i * state->pass.stride + j] = -INFINITY;
            }
        }
    }
    state->pass.scores = state->pruned;
    state->pass.linear.formed = false;
    state->head->found.pruned = state->head->found.unusable;
}

/* Pairs that carry mass in no plan because a row or column with one pair left must use it: enough
 * for causal masks of any size. Works in the state's vectors; false when some mass has no place. */
static bool peel(ota_coupled *state, int64_t *unusable) {
    const ota_head *head = state->head;
    const double slack = 4.0 * DBL_EPSILON * (double)(state->pass.rows + state->pass.columns);
    double *row_left = state->pass.shift, *row_degree = state->pass.sum;
    double *column_left = state->pass.column_lse;
    ota_watch watch = ota_watch_of(head->settings);
    for (int64_t j = 0; j < state->pass.columns; j++) column_left[j] = state->pass.target[j];
    for (int64_t i = 0; i < state->pass.rows; i++) {
        if (ota_watch_ends(&watch, state->pass.columns)) return true;
        row_left[i] = head->mu[i];
        row_degree[i] = 0.0;
        for (int64_t j = 0; j < state->pass.columns && row_left[i] > 0.0; j++) {
            if (!(column_left[j] > 0.0) || !(ota_score(&state->pass, i, j) > -INFINITY)) continue;
            row_degree[i] += 1.0;
        }
    }
    *unusable = 0;
    for (bool changed = true; changed;) {
        changed = false;
        for (int64_t i = 0; i < state->pass.rows; i++) {
            if (!(row_left[i] > 0.0) || row_degree[i] > 1.0) continue;
            int64_t only = 0;
            if (ota_watch_ends(&watch, state->pass.rows + state->pass.columns)) return true;
            while (only < state->pass.columns &&
                   !(column_left[only] > 0.0 && ota_score(&state->pass, i, only) > -INFINITY))
                only++;
            if (only == state->pass.columns ||
                row_left[i] > column_left[only] * (1.0 + slack) + slack * head->mass)
                return false;
            const double rest = column_left[only] - row_left[i];
            const bool filled = rest <= slack * state->pass.target[only];
            row_left[i] = 0.0;
            column_left[only] = filled ? 0.0 : rest;
            for (int64_t k = 0; k < state->pass.rows && filled; k++) {
                if (!(row_left[k] > 0.0) || !(ota_score(&state->pass, k, only) > -INFINITY))
                    continue;
                row_degree[k] -= 1.0;
                *unusable += 1;
            }
            changed = true;
        }
    }
    return true;
}

static int64_t count_allowed(const ota_coupled *state) {
    int64_t allowed = 0;
    ota_watch watch = ota_watch_of(state->head->settings);
    for (int64_t i = 0; i < state->pass.rows && !ota_watch_ends(&watch, state->pass.columns); i++) {
        for (int64_t j = 0; j < state->pass.columns && state->head->mu[i] > 0.0; j++) {
            if (state->pass.target[j] > 0.0 && ota_score(&state->pass, i, j) > -INFINITY) allowed++;
        }
    }
    return allowed;
}

static bool search_by_peeling(ota_coupled *state) {
    ota_head *head = state->head;
    int64_t unusable = 0;
    if (!ota_rule_is(ota_head_rule(head), OTA_RULE_BALANCED) || head->row.sink > -INFINITY)
        return true;
    if (!peel(state, &unusable)) {
        say_infeasible(head);
        return false;
    }
    if (unusable == 0 || head->row.regulariser->thresholded) return true;
    head->found.unusable = unusable;
    const int64_t allowed = count_allowed(state);
    const bool identity =
        allowed - unusable == state->pass.rows && state->pass.rows == state->pass.columns;
    say_unusable(head, unusable, allowed, identity, !identity);
    return false;
}

/* From `from` columns a row to the width of the layout, last row first. */
static void spread_usable(ota_coupled *state, int64_t from) {
    const int64_t width = state->pass.columns + 1;
    for (int64_t i = state->pass.rows - 1; i > 0 && from < width; i--)
        memmove(state->usable + i * width, state->usable + i * from, (size_t)from);
}

/* Softmax gives every allowed pair weight, so that one on no plan makes the problem hopeless or is
 * pruned; Tsallis plans may leave it empty, and interior.c wants to know.
 * With a sink the support has one more column that every query may use. */
static bool search_by_flow(ota_coupled *state, bool *done) {
    ota_head *head = state->head;
    const bool sink = head->row.sink > -INFINITY,
               balanced = ota_rule_is(ota_head_rule(head), OTA_RULE_BALANCED);
    const int64_t width = state->pass.columns + 1, columns = state->pass.columns + (sink ? 1 : 0);
    const bool tsallis = head->row.regulariser->thresholded, least = head->column.floor > 0.0,
               wanted = balanced || least || tsallis;
    double total = 0.0;
    for (int64_t j = 0; j < state->pass.columns; j++) {
        state->pass.column_lse[j] = state->pass.target[j];
        total += state->pass.target[j];
    }
    state->pass.column_lse[state->pass.columns] = balanced ? head->mass - total : INFINITY;
    for (int64_t i = 0; i < state->pass.rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            state->allowed[i * columns + j] =
                j == state->pass.columns || ota_score(&state->pass, i, j) > -INFINITY;
        }
    }
    const ota_feasible_problem problem = {.masses = {state->pass.rows, columns, head->mu,
                                                     state->pass.column_lse, !balanced,
                                                     head->row.mass_tolerance},
                                          .support = state->allowed,
                                          .floor = head->column.floor,
                                          .floors = head->column.floors,
                                          .floored = state->pass.columns,
                                          .watch = ota_watch_of(head->settings)};
    ota_feasible_counts counts = {0};
    const ota_status status =
        ota_feasible(&problem, wanted ? state->usable : NULL, state->order, &counts, state->search);
    *done = status == OTA_OK || status == OTA_INFEASIBLE;
    if (status == OTA_INFEASIBLE) {
        say_infeasible(head);
        return false;
    }
    if (status != OTA_OK || !wanted) return true;
    spread_usable(state, columns);
    state->split = counts.unusable > 0;
    if (tsallis) return true;
    /* Count what is not the sink's. */
    bool identity = state->pass.rows == state->pass.columns;
    int64_t unusable = 0, allowed = 0;
    for (int64_t i = 0; i < state->pass.rows; i++) {
        for (int64_t j = 0; j < state->pass.columns; j++) {
            const bool usable = state->usable[i * width + j] != 0;
            if (!(head->mu[i] > 0.0) || !(state->pass.target[j] > 0.0)) continue;
            if (ota_score(&state->pass, i, j) > -INFINITY) {
                allowed++;
                unusable += !usable;
            }
            if (usable && i != j) identity = false;
        }
    }
    head->found.unusable = unusable;
    if (unusable == 0) return true;
    if (balanced && head->settings->prune && state->pruned != NULL && head->found.plan != NULL) {
        prune(state);
        return true;
    }
    if (ota_far_scores_part(state)) {
        head->found.unusable = 0;
        return true;
    }
    say_unusable(head, unusable, allowed, identity, false);
    return false;
}

bool ota_coupled_search(ota_coupled *state) {
    /* No process of many has all pairs. */
    const bool shared = state->head->settings->ranks != NULL;
    if (state->support_known || shared || !state->masked ||
        !ota_rule_is(ota_head_rule(state->head), OTA_RULE_CONSTRAINED))
        return true;
    state->support_known = true;
    if (state->allowed == NULL) return search_by_peeling(state);
    bool done = false;
    const bool hopeful = search_by_flow(state, &done);
    state->support_known = done;
    return hopeful;
}
