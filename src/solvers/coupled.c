/* Entering and leaving a column-coupled solve, the policy on feasibility, and "auto".
 *
 *     exact     needs sum nu = sum mu (with a sink: <) and, for weights > 0 total support [DER-24]
 *     capped    needs capacities that can take the rows
 *     relaxed, elastic   always have a plan where every row has an open key
 *
 * "auto": rounds of Sinkhorn while they converge fast; then Newton on the semi-dual where its
 * matrices fit, else Anderson; Tsallis goes straight to Newton. The status is OTA_OK only if the
 * residual of numerics.md, measured on the plan that will be emitted, is within the
 * tolerance. */
#include "coupled.h"

#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "matching/combinatorial.h"

/* Ranges in units of t up to which the linear domain keeps every entry [TOT-105]. */
static const double linear_range[2] = {600.0, 80.0};

enum { INTERIOR_ROWS = 6, INTERIOR_MATRICES = 3, INTERIOR_CAPPED = 5, CAPPED_KEYS = 512 };
enum { LANE = 16 };

ota_status ota_coupled_tick(const ota_coupled *state, int64_t round, double residual) {
    const ota_head *head = state->head;
    if (head->host.report != NULL) head->host.report(head->host.report_context, round, residual);
    ota_ranks_at(head->settings->ranks, head->index, round);
    return ota_interrupted_together(head->settings);
}

/* ---- workspace ------------------------------------------------------------------------------- */

static size_t times(int64_t a, int64_t b) {
    size_t result;
    return a < 0 || b < 0 || !ota_size_mul((size_t)a, (size_t)b, &result) ? SIZE_MAX : result;
}

void ota_coupled_layout(ota_coupled *state, ota_arena *arena, bool prune, unsigned needs) {
    const int64_t rows = state->pass.rows, columns = state->pass.columns;
    const int64_t stride = state->pass.stride;
    const bool narrow = state->pass.narrow;
    const size_t element = narrow ? sizeof(float) : sizeof(double), number = sizeof(double);
    state->head->backend->lay_out_passes(&state->pass, arena, (needs & OTA_NEEDS_KERNEL) != 0);
    const size_t lane = (size_t)state->pass.padded_columns, row_count = (size_t)rows + 1;
    const size_t matrix = times(rows, stride);
    state->best = ota_arena_take(arena, lane, number);
    if (prune) state->pruned = ota_arena_take(arena, matrix, element);
    const size_t pairs = times(rows, columns);
    if ((needs & OTA_NEEDS_SEARCH) != 0 && pairs <= (size_t)OTA_PAIRS_LIMIT) {
        state->allowed = ota_arena_take(arena, times(rows, columns + 1), 1);
        state->usable = ota_arena_take(arena, times(rows, columns + 1), 1);
        state->order = ota_arena_take(arena, times(1, rows + columns + 2), sizeof(int32_t));
        state->search = ota_arena_take(arena, ota_feasible_workspace(rows, columns + 1), 1);
    }
    if ((needs & OTA_NEEDS_FLOW) != 0 && pairs <= (size_t)OTA_FLOW_PAIRS)
        state->flow =
            ota_arena_take(arena, ota_transport_workspace(rows, columns, OTA_TRANSPORT_CAPS), 1);
    if ((needs & OTA_NEEDS_HISTORY) != 0) {
        state->history =
            ota_arena_take(arena, times(OTA_ANDERSON_VECTORS, state->pass.padded_columns), number);
    }
    /* "auto" hands over to Newton only where this fits; asked for by name it takes what it needs.
     * */
    if ((needs & OTA_NEEDS_NEWTON) != 0 &&
        ((needs & OTA_NEEDS_KERNEL) == 0 || pairs <= (size_t)OTA_PAIRS_LIMIT)) {
        const bool stored = state->head->backend->semidual == NULL;
        const bool listed = stored && (needs & OTA_NEEDS_LISTS) != 0;
        /* What is tried goes no other way than by lists. */
        if (narrow && !state->head->scores.tried)
            state->widened = ota_arena_take(arena, matrix, number);
        if (listed) ota_row_lists_layout(state, arena, (needs & OTA_NEEDS_FLOW) != 0);
        if (stored)
            state->weights = listed ? state->lists.weights : ota_arena_take(arena, matrix, number);
        const bool shared = state->head->settings->ranks != NULL;
        if (columns <= OTA_NEWTON_DENSE && !shared) {
            state->across =
                ota_arena_take(arena, times(columns, ota_int_round_up(rows, LANE)), number);
            state->hessian =
                ota_arena_take(arena, times(columns, state->pass.padded_columns), number);
            state->factor =
                ota_arena_take(arena, times(columns, state->pass.padded_columns), number);
        }
        state->vectors =
            ota_arena_take(arena, times(OTA_NEWTON_VECTORS, state->pass.padded_columns), number);
        state->fixed = ota_arena_take(arena, lane, 1);
        state->sinks = ota_arena_take(arena, row_count, number);
        if (shared)
            state->brackets = ota_arena_take(arena, times(2, state->pass.padded_columns), number);
        else
            state->gathered = ota_arena_take(
                arena, times(2 * state->pass.chunks, ota_int_round_up(rows, LANE)), number);
        state->powers = ota_arena_take(arena, row_count, number);
        const bool capped = (needs & OTA_NEEDS_FLOW) != 0;
        if ((needs & OTA_NEEDS_INTERIOR) != 0 &&
            columns <= (capped ? CAPPED_KEYS : OTA_NEWTON_DENSE)) {
            const size_t more = times(INTERIOR_ROWS, rows + state->pass.chunks);
            const int64_t matrices = capped ? INTERIOR_CAPPED : INTERIOR_MATRICES;
            state->interior.matrix =
                ota_arena_take(arena, times(matrices, rows), times(stride, sizeof(double)));
            state->interior.rows = ota_arena_take(arena, more, number);
        }
    }
}

/* A fixed number of rounds ends as it ends: nothing asks whether it could have converged. Rows on many processes are not
 * searched. */
static unsigned with_search(const ota_settings *s, unsigned needs) {
    return s->stop.fixed || s->ranks != NULL ? needs : needs | OTA_NEEDS_SEARCH;
}

size_t ota_coupled_bytes(const ota_head_shape *shape, unsigned needs) {
    const ota_settings *settings = &shape->resolved->settings;
    const int64_t columns = shape->columns;
    ota_head head = {.backend = shape->backend, .settings = settings};
    ota_coupled state = {.head = &head,
                         .pass = {.rows = shape->rows,
                                  .columns = columns,
                                  .stride = ota_int_round_up(ota_int_max(columns, 1), LANE),
                                  .narrow = shape->narrow}};
    ota_arena arena = {0};
    ota_coupled_layout(&state, &arena, settings->prune, with_search(settings, needs));
    const ota_column_rule rule = shape->resolved->problem.columns;
    const size_t far = ota_far_scores_bytes(
        shape,
        ota_column_rule_of(rule)->coupling == OTA_COUPLING_LEADING ? OTA_COLUMNS_EXACT : rule);
    if (ota_arena_overflowed(&arena)) return SIZE_MAX;
    return arena.used > far ? arena.used : far;
}

/* ---- validation -------------------------------------------------------------------------------- */

static void load_potentials(ota_coupled *state) {
    ota_head *head = state->head;
    const bool closes = !head->settings->stop.fixed;
    for (int64_t i = 0; i < state->pass.rows; i++) head->f[i] = -INFINITY;
    for (int64_t j = 0; j < state->pass.columns; j++) {
        if (!head->warm || !isfinite(head->g[j])) head->g[j] = 0.0;
        head->g[j] = ota_column_project(ota_head_rule(head), head->g[j]);
        /* A fixed number of rounds closes such keys in its own first column update. */
        if (closes && !(head->nu[j] > 0.0)) head->g[j] = -INFINITY;
    }
    if (head->warm && closes && !(head->row.sink > -INFINITY))
        ota_column_begin(ota_head_rule(head), state->pass.columns, head->g);
}

bool ota_coupled_closes(const ota_head *head, int64_t j) {
    const bool never = head->settings->stop.fixed && head->settings->stop.rounds == 0;
    const bool still = ota_rule_is(ota_head_rule(head), OTA_RULE_DAMPED) &&
                       !(ota_head_parameters(head, j).lambda > 0.0);
    return !(head->nu[j] > 0.0) && !never && !still;
}

/* Rows that fill the keys to their upper bounds, or leave them at their lower ones, ask for exact columns. */
static void meet_bounds(ota_coupled *state, double total, double least, double rounding) {
    ota_head *head = state->head;
    const bool full = fabs(total - head->mass) <= rounding * head->mass;
    const bool bare = fabs(least - head->mass) <= rounding * head->mass;
    if (!full && !bare) return;
    state->equal = true;
    state->side = full && bare ? 0 : full ? -1 : 1;
    for (int64_t j = 0; j < state->pass.columns && !full; j++)
        state->pass.target[j] *= ota_head_floor(head, j);
    head->column.floor = 1.0;
    head->column.floors = NULL;
}

/* A constant that gives every g the sign that the bounds ask for; the rows answer to it. */
static void drop_side(const ota_coupled *state) {
    ota_head *head = state->head;
    double extreme = -INFINITY;
    for (int64_t j = 0; j < state->pass.columns; j++) {
        if (head->g[j] > -INFINITY) extreme = fmax(extreme, -state->side * head->g[j]);
    }
    if (!(extreme > -INFINITY)) return;
    const double move = state->side * extreme;
    for (int64_t j = 0; j < state->pass.columns; j++) head->g[j] += move;
    for (int64_t i = 0; i < state->pass.rows; i++) head->f[i] -= move;
}

/* Can every row give its mass, and every key get what it must, within the caps of their entries? That no plan does both
 * shows only in rounds that do not converge. */
static ota_status check_caps(ota_coupled *state) {
    ota_head *head = state->head;
    const ota_column_rule_row *rule = ota_head_rule(head);
    const double slack = head->row.mass_tolerance * head->mass;
    double *room = state->pass.column, row_sum = 0.0;
    const int64_t row = state->semidual->infeasible_cap_row(state, slack, room, &row_sum);
    double short_rows = row >= 0 ? 1.0 : 0.0;
    if (!ota_ranks_sum(head->settings, room, state->pass.columns, &short_rows, 1, "the entry caps"))
        return OTA_ECOMM;
    const ota_status stopped = ota_interrupted_together(head->settings);
    if (stopped != OTA_OK) return stopped;
    if (row >= 0) {
        (void)ota_snprintf(head->found.sentence, sizeof head->found.sentence,
                           "the entry caps of query %" PRId64
                           " add up to %g, less than its mass %g",
                           row, row_sum, head->mu[row]);
        return OTA_INFEASIBLE;
    }
    if (short_rows > 0.0) {
        (void)ota_snprintf(
            head->found.sentence, sizeof head->found.sentence,
            "the entry caps of a query of another rank add up to less than its mass");
        return OTA_INFEASIBLE;
    }
    for (int64_t j = 0; j < state->pass.columns; j++) {
        const double target = state->pass.target[j];
        const double least = ota_rule_is(rule, OTA_RULE_BALANCED)   ? target
                             : ota_rule_is(rule, OTA_RULE_CAPACITY) ? head->column.floor * target
                                                                    : 0.0;
        if (!(room[j] < least - slack)) continue;
        (void)ota_snprintf(head->found.sentence, sizeof head->found.sentence,
                           "the entry caps of key %" PRId64 " add up to %g, and it must receive %g",
                           j, room[j], least);
        return OTA_INFEASIBLE;
    }
    return OTA_OK;
}

/* OTA_OK, or OTA_INFEASIBLE with a sentence. */
static ota_status check_masses(ota_coupled *state) {
    ota_head *head = state->head;
    const ota_column_rule_row *rule = ota_head_rule(head);
    const double slack = head->row.mass_tolerance;
    const int64_t infeasible_row = state->semidual->infeasible_row(state);
    bool shut = infeasible_row >= 0;
    double total = 0.0, least = 0.0;
    const ota_status together = ota_coupled_share_door(state, &shut);
    if (together != OTA_OK) return together;
    memcpy(state->pass.target, head->nu, (size_t)state->pass.columns * sizeof *state->pass.target);
    for (int64_t j = 0; j < state->pass.columns; j++) {
        const bool used = state->pass.column_lse[j] > 0.0;
        const double asked = ota_rule_is(rule, OTA_RULE_BALANCED)
                                 ? head->nu[j]
                                 : ota_head_floor(head, j) * head->nu[j];
        if (!used && asked > slack * head->mass && !head->settings->stop.fixed) {
            (void)ota_snprintf(head->found.sentence, sizeof head->found.sentence,
                               "key %" PRId64 " must receive %g and no query may use it", j, asked);
            return OTA_INFEASIBLE;
        }
        least += used ? asked : 0.0;
        if (used || ota_rule_is(rule, OTA_RULE_BALANCED)) total += head->nu[j];
        /* A relaxed key without queries only adds a constant to the objective. */
        if (!used && ota_rule_is(rule, OTA_RULE_PENALISED)) state->pass.target[j] = 0.0;
    }
    if (shut) {
        char query[32] = "a query of another rank";
        if (infeasible_row >= 0)
            (void)ota_snprintf(query, sizeof query, "query %" PRId64, infeasible_row);
        (void)ota_snprintf(head->found.sentence, sizeof head->found.sentence,
                           "%s has mass and no key it may use has a positive column mass", query);
        return OTA_INFEASIBLE;
    }
    if (ota_rule_is(rule, OTA_RULE_BALANCED)) {
        const bool sink = head->row.sink > -INFINITY;
        if (sink ? !(total < head->mass) : fabs(total - head->mass) > slack * head->mass) {
            (void)ota_snprintf(
                head->found.sentence, sizeof head->found.sentence,
                "the column masses add up to %.17g and the row masses to %.17g; exact "
                "columns need %s; %s",
                total, head->mass,
                sink ? "less than the rows, the rest goes to the sink" : "equal totals",
                OTA_WAYS_OUT);
            return OTA_INFEASIBLE;
        }
        for (int64_t j = 0; j < state->pass.columns && !sink && total > 0.0; j++)
            state->pass.target[j] *= head->mass / total;
    }
    const bool rest = head->row.sink > -INFINITY;
    if (ota_rule_is(rule, OTA_RULE_CAPACITY) && !rest && !ota_rule_is(rule, OTA_RULE_UNIT_MASSES)) {
        ota_column_parameters key = ota_head_parameters(head, 0);
        if (head->column.floors != NULL) key.floor = total > 0.0 ? least / total : 0.0;
        const double balance = ota_column_balance(&key, total, head->mass, slack);
        total *= balance;
        least *= balance;
        for (int64_t j = 0; j < state->pass.columns; j++) state->pass.target[j] *= balance;
    }
    const double rounding = 4.0 * DBL_EPSILON * (double)(head->all_rows + state->pass.columns);
    if (ota_rule_is(rule, OTA_RULE_CAPACITY) && !rest && !ota_rule_is(rule, OTA_RULE_UNIT_MASSES) &&
        !head->settings->stop.fixed)
        meet_bounds(state, total, least, rounding);
    if (ota_rule_is(rule, OTA_RULE_CAPACITY) && least > head->mass * (1.0 + rounding)) {
        (void)ota_snprintf(head->found.sentence, sizeof head->found.sentence,
                           "the least sums of the keys add up to %g and the row masses to %g",
                           least, head->mass);
        return OTA_INFEASIBLE;
    }
    if (ota_rule_is(rule, OTA_RULE_CAPACITY) && !(head->row.sink > -INFINITY) &&
        total < head->mass * (1.0 - rounding)) {
        (void)ota_snprintf(
            head->found.sentence, sizeof head->found.sentence,
            "the capacities of the keys in use add up to %g and the row masses to %g", total,
            head->mass);
        return OTA_INFEASIBLE;
    }
    return OTA_OK;
}

/* ---- enter, leave ---------------------------------------------------------------------------- */

/* Linear or log: the kernel must keep every entry; centring halves the range where it can. */
static ota_domain domain_of(ota_coupled *state, bool linear) {
    const ota_head *head = state->head;
    if (head->row.strength < INFINITY || !head->row.regulariser->exponential)
        return OTA_DOMAIN_ROWS;
    if (!linear || state->pass.linear.kernel == NULL) return OTA_DOMAIN_LOG;
    return head->backend->linear_range(&state->pass) < linear_range[state->pass.narrow] * head->tau
               ? OTA_DOMAIN_LINEAR
               : OTA_DOMAIN_LOG;
}

/* The plan itself, where pruned pairs must stay without weight. */
static void emit_plan(ota_coupled *state) {
    ota_head *head = state->head;
    const ota_row_parameters parameters = ota_coupled_rows(state, head->tau);
    for (int64_t i = 0; i < state->pass.rows; i++) {
        ota_row_found found;
        double *row = head->found.plan + i * head->scores.stride;
        for (int64_t j = 0; j < state->pass.columns; j++) row[j] = ota_score(&state->pass, i, j);
        state->head->host.algebra->row_solve(&parameters, row, head->g, state->pass.columns,
                                             head->mu[i], row, &found);
    }
    head->found.update = OTA_FINAL_PLAN;
}

static void say_not_converged(const ota_coupled *state, double residual) {
    ota_head *head = state->head;
    (void)ota_snprintf(
        head->found.sentence, sizeof head->found.sentence,
        "after %" PRId64
        " rounds the residual is %.3g, above the tolerance %.3g (temperature %.4g, range of "
        "the scores %.4g)",
        head->found.rounds, residual, head->settings->stop.tolerance, head->tau,
        head->scores.range);
}

/* Where caps bind, rounds that do not converge may have nothing to converge to: OTA_INFEASIBLE where there is no plan at all, or
 * what interrupted the search for one. Spends f and g. Least sums of bounded columns are not asked for. */
static ota_status caps_allow_a_plan(ota_coupled *state) {
    ota_head *head = state->head;
    const ota_column_rule_row *rule = ota_head_rule(head);
    if (state->flow == NULL ||
        (!ota_rule_is(rule, OTA_RULE_BALANCED) && !ota_rule_is(rule, OTA_RULE_CAPACITY)))
        return OTA_OK;
    ota_transport problem = {.n = state->pass.rows,
                             .m = state->pass.columns,
                             .scores = state->pass.scores,
                             .stride = state->pass.stride,
                             .narrow = state->pass.narrow,
                             .flat = true,
                             .mu = head->mu,
                             .nu = state->pass.target,
                             .capped = !ota_rule_is(rule, OTA_RULE_BALANCED),
                             .floor = head->column.floor,
                             .sink = head->row.sink > -INFINITY ? 0.0 : -INFINITY,
                             .tolerance = head->row.mass_tolerance,
                             .caps = &head->row.caps,
                             .costs = head->host.algebra->costs[0],
                             .watch = ota_watch_of(head->settings),
                             .f = head->f,
                             .g = head->g};
    const ota_status found = ota_transport_solve(&problem, state->flow);
    if (found == OTA_CANCELLED || found == OTA_TIMEOUT) return found;
    if (found != OTA_INFEASIBLE) return OTA_OK;
    (void)ota_snprintf(head->found.sentence, sizeof head->found.sentence,
                       "no plan meets the masses within the entry caps");
    return OTA_INFEASIBLE;
}

/* Relaxed rows after a fixed number of rounds, which no residual judges: their mass may leave the range of a double. */
static bool carries_too_much(const ota_coupled *state) {
    return !isfinite(ota_carried_mass(state));
}

static ota_status leave(ota_coupled *state, ota_outcome outcome, ota_status stopped) {
    ota_head *head = state->head;
    double residual, carried;
    switch (outcome) {
    case OTA_STOPPED: return stopped;
    case OTA_HOPELESS: return OTA_INFEASIBLE;
    case OTA_RAN:
        if (!carries_too_much(state)) return OTA_FIXED_ITERS;
        (void)ota_snprintf(head->found.sentence, sizeof head->found.sentence,
                           "after %" PRId64
                           " rounds the relaxed rows carry more mass than a double "
                           "holds; use a larger temperature or row strength",
                           head->found.rounds);
        return OTA_NOT_CONVERGED;
    case OTA_MET:
        if (head->found.pruned > 0) emit_plan(state);
        return OTA_OK;
    default: break; /* slow or out of rounds; the others come from a stored kernel alone */
    }
    if (!ota_coupled_search(state)) return OTA_INFEASIBLE;
    /* What follows asks. */
    const bool last = !head->scores.tried && !head->scores.far.follows;
    const ota_status allowed = last ? caps_allow_a_plan(state) : OTA_OK;
    if (allowed != OTA_OK) return allowed;
    memcpy(head->g, state->best, (size_t)state->pass.columns * sizeof *head->g);
    residual = ota_measure(state);
    if (head->found.pruned > 0) emit_plan(state);
    if (residual <= head->settings->stop.tolerance) return OTA_OK;
    say_not_converged(state, residual);
    if (head->settings->stop.allow_partial) return OTA_NOT_CONVERGED;
    const double tolerance = head->settings->stop.tolerance,
                 floor = ota_carried_floor(state, &carried);
    if (floor > tolerance) {
        (void)ota_snprintf(
            head->found.sentence, sizeof head->found.sentence,
            "the plan carries %.3g times the mass of its rows, whose rounding alone leaves a "
            "residual of about %.2g, above the tolerance %.3g",
            carried, floor, tolerance);
        return OTA_TOL_UNREACHABLE;
    }
    const double edge = ota_edge_floor(state);
    if (!(edge > tolerance) || !(residual <= 2.0 * edge)) return OTA_NOT_CONVERGED;
    (void)ota_snprintf(
        head->found.sentence, sizeof head->found.sentence,
        "at order %g the weights next to 0 lie so far apart that rounding alone may leave "
        "a residual of as much as %.2g, above the tolerance %.3g; it is %.2g",
        head->row.order, edge, tolerance, residual);
    return OTA_TOL_UNREACHABLE;
}

ota_status ota_coupled_solve(ota_head *head, unsigned needs, bool linear,
                             ota_outcome (*method)(ota_coupled *state, ota_status *stopped)) {
    const ota_semidual *streamed = head->backend->semidual;
    ota_coupled state = {.head = head,
                         .semidual = streamed != NULL ? streamed : &ota_stored_semidual,
                         .pass = {.head = head,
                                  .rows = head->rows,
                                  .columns = head->columns,
                                  .stride = head->scores.stride,
                                  .scores = head->scores.data,
                                  .narrow = head->scores.narrow}};
    ota_arena arena = {.base = head->host.workspace, .size = SIZE_MAX};
    ota_coupled_layout(&state, &arena, head->settings->prune, with_search(head->settings, needs));
    head->found.update = OTA_FINAL_ROWS;
    head->found.temperature = head->tau;
    head->found.rounds = 0;
    head->found.row_error = head->found.column_error = NAN;
    head->found.unusable = head->found.pruned = head->found.underflowed = 0;
    head->found.sentence[0] = '\0';
    load_potentials(&state);
    const bool fixed = head->settings->stop.fixed;
    ota_status status = check_masses(&state);
    if (status == OTA_OK && head->row.regulariser->capped) status = check_caps(&state);
    if (status != OTA_OK) return status;
    if (!(head->mass > 0.0)) {
        head->found.row_error = head->found.column_error = 0.0;
        return fixed ? OTA_FIXED_ITERS : OTA_OK;
    }
    if (head->settings->prune && !fixed && !ota_coupled_search(&state)) return OTA_INFEASIBLE;
    memcpy(state.best, head->g, (size_t)state.pass.columns * sizeof *head->g);
    state.pass.domain = domain_of(&state, linear);
    /* A statement of its own: the arguments of one call have no order. */
    const ota_outcome outcome = method(&state, &status);
    status = leave(&state, outcome, status);
    if (head->scores.far.parted && status == OTA_OK) ota_far_scores_set_apart(&state);
    if (state.side != 0) drop_side(&state);
    return status;
}

/* ---- auto ------------------------------------------------------------------------------------ */

static bool asks_for_sinkhorn(const ota_settings *s) {
    return s->stop.fixed || s->anneal.start > 0.0 || s->relaxation > 1.0 || s->relaxation < 1.0 ||
           s->relaxation_auto || s->stop.tolerance_scaling > 0.0;
}

static unsigned needs_of(const ota_settings *s, const ota_regulariser_row *regulariser) {
    if (!regulariser->exponential || s->ranks != NULL) return ota_newton_needs(s, regulariser);
    return asks_for_sinkhorn(s) ? OTA_NEEDS_KERNEL
                                : OTA_NEEDS_KERNEL | OTA_NEEDS_HISTORY | OTA_NEEDS_NEWTON;
}

static ota_outcome run_auto(ota_coupled *state, ota_status *stopped) {
    ota_head *head = state->head;
    head->found.method = ota_solver_newton.name;
    if (!head->row.regulariser->exponential || head->settings->ranks != NULL)
        return ota_newton_run(state, stopped);
    head->found.method =
        state->pass.domain == OTA_DOMAIN_LINEAR ? ota_solver_sinkhorn.name : ota_solver_log.name;
    if (asks_for_sinkhorn(head->settings) || head->column.end == OTA_SIDE_COLUMNS)
        return ota_sinkhorn_run(state, false, stopped);
    const ota_outcome outcome = ota_sinkhorn_run(state, true, stopped);
    if (outcome != OTA_SLOW) return outcome;
    const bool newton = state->weights != NULL;
    head->found.method = newton ? ota_solver_newton.name : ota_solver_anderson.name;
    return newton ? ota_newton_run(state, stopped) : ota_anderson_run(state, stopped);
}

static ota_status solve_auto(ota_head *head) {
    return ota_coupled_solve(head, needs_of(head->settings, head->row.regulariser), true, run_auto);
}

static size_t auto_workspace(const ota_head_shape *shape) {
    return ota_coupled_bytes(
        shape, needs_of(&shape->resolved->settings, ota_regulariser_of(&shape->resolved->problem)));
}

const char *ota_not_coupled(const ota_resolved *r) {
    if (ota_column_rule_of(r->problem.columns)->coupling != OTA_COUPLING_POTENTIALS) {
        return "it serves exact, relaxed, capped and elastic columns";
    }
    return !ota_is_smooth(ota_regulariser_of(&r->problem))
               ? "hard plans have no temperature; use assignment or transport"
               : NULL;
}

const char *ota_tolerance_only(const ota_resolved *r) {
    if (ota_not_coupled(r) != NULL) return ota_not_coupled(r);
    if (r->settings.stop.fixed)
        return "it runs to a tolerance, not for a fixed number of rounds; use sinkhorn or log";
    if (ota_rule_is(ota_column_rule_of(r->problem.columns), OTA_RULE_COUNTED))
        return "elastic columns are a number of Sinkhorn rounds";
    if (r->problem.end == OTA_SIDE_COLUMNS)
        return "it ends on a row update; the printed order needs sinkhorn or log";
    if (r->settings.anneal.start > 0.0 || r->settings.relaxation > 1.0 ||
        r->settings.relaxation < 1.0 || r->settings.relaxation_auto ||
        r->settings.stop.tolerance_scaling > 0.0) {
        return "temperature schedules, relaxation and tolerance_scaling belong to sinkhorn and log";
    }
    return NULL;
}

static const char *refuses_auto(const ota_resolved *r) {
    return ota_regulariser_of(&r->problem)->exponential ? ota_not_coupled(r)
                                                        : ota_tolerance_only(r);
}

const ota_solver ota_solver_coupled = {
    .name = "coupled",
    .purpose = "Sinkhorn while it converges fast, then Newton or Anderson; Tsallis by Newton",
    .refuses = refuses_auto,
    .workspace = auto_workspace,
    .solve = solve_auto,
};
