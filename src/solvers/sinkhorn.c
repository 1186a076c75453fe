/* Rounds on stored scores, linear or log domain, for all column rules with an update (the loop: rounds.h).
 *
 *     round k:   f_i = row update,   g_j <- marginal update of L_j = LSE_i((S_ij + f_i) / t_k)
 *
 * with S [rows][columns] and t_k the temperature schedule. Rounds by printed start and end
 * (R, C the row and column update):
 *
 *     rows, rows        R (C R)^K         rows, columns     (R C)^K     [CETA-07, ELA-10]
 *     columns, columns  C (R C)^K         columns, rows     (C R)^K
 *
 * The residual of a round costs nothing: a pass finds the column sums of the plan that would be
 * returned if the loop ended there. Over-relaxation: of the column update by a given omega
 * [DER-08], or of both sides with omega = 2 / (1 + sqrt(1 - rate)), rate measured [DER-09]. */
#include "coupled.h"

#include <string.h>

enum { IMPATIENCE = 40 }; /* predicted rounds beyond which another method is cheaper */

/* Two rates in a row this close (in units of 1 - rate) are the asymptotic one. */
static const double rate_spread = 0.05;
/* A relaxed iterate is not monotone; this much above what it had come down to it is called diverging. */
static const double relaxed_growth = 30.0;

typedef struct rounds {
    ota_rounds now;
    ota_coupled *state;
    const ota_settings *settings;
    double t, omega; /* omega: one-sided, as given */
    double both;     /* two-sided; 1: off */
    double last_rate;
    /* Least that two neighbouring residuals were below: at the best omega the slowest mode changes its sign once,
     * and one residual says nothing. */
    double steady;
    int64_t judged; /* when `both` was last set */
    bool from_columns, to_columns, no_more_both;
    bool impatient; /* ends as soon as the rate says that many rounds are needed */
} rounds;

static double stage(const rounds *r, int64_t round) {
    const ota_settings *s = r->settings;
    const double tau = r->state->head->tau;
    if (!(s->anneal.start > 0.0)) return tau;
    const double t = s->anneal.start * pow(s->anneal.factor, (double)(round / s->anneal.rounds));
    return t > tau ? t : tau;
}

static void cool(rounds *r, double t) {
    if (r->settings->anneal.keep_scaling && (t < r->t || t > r->t)) {
        ota_head *head = r->state->head;
        for (int64_t j = 0; j < r->state->pass.columns; j++) {
            if (head->g[j] > -INFINITY) head->g[j] *= t / r->t;
        }
    }
    r->t = t;
}

static double spread_of_change(const ota_coupled *state) {
    double low = INFINITY, high = -INFINITY;
    for (int64_t j = 0; j < state->pass.columns; j++) {
        if (!(state->head->g[j] > -INFINITY)) continue;
        const double change = state->head->g[j] - state->pass.previous[j];
        if (change < low) low = change;
        if (change > high) high = change;
    }
    return high > low ? high - low : 0.0;
}

/* The printed order that ends on columns: how far the rows of (f before the pass, g) are from mu.
 * */
static double stale_row_error(const ota_coupled *state, double t) {
    const ota_head *head = state->head;
    double error = 0.0;
    for (int64_t i = 0; i < state->pass.rows; i++) {
        if (head->mu[i] > 0.0)
            error += head->mu[i] * fabs(expm1((state->pass.old_f[i] - head->f[i]) / t));
    }
    return head->mass > 0.0 ? error / head->mass : error;
}

/* The rate of plain rounds, sigma_2^2, from the settled rate: relaxed by omega a mode of rate q has
 * (rate + omega - 1)^2 = rate omega^2 q. */
static double plain_rate(const rounds *r) {
    const double rate = r->now.rate, lifted = rate + r->both - 1.0;
    return lifted * lifted / (rate * r->both * r->both);
}

/* Starts, sharpens or gives up the two-sided relaxation. */
static void adapt(rounds *r) {
    if (!r->settings->relaxation_auto || r->no_more_both) return;
    const double rate = r->now.rate;
    r->steady = fmin(r->steady, fmax(r->now.residual, r->now.last));
    if (r->both > 1.0 && !(r->now.residual <= relaxed_growth * r->steady)) {
        r->both = 1.0;
        r->no_more_both = true;
        memcpy(r->state->head->g, r->state->best, (size_t)r->state->pass.columns * sizeof(double));
        return;
    }
    const bool settled = r->now.round >= r->judged + OTA_ROUNDS_SETTLED && rate < 1.0 &&
                         rate > 0.0 && fabs(rate - r->last_rate) < rate_spread * (1.0 - rate);
    /* A relaxed rate at omega - 1 is what the best omega gives: nothing left to sharpen. */
    if (!settled || rate < r->both - 1.0 + rate_spread * (2.0 - r->both)) return;
    const double plain = plain_rate(r);
    const double omega = plain < 1.0 ? 2.0 / (1.0 + sqrt(1.0 - plain)) : r->both;
    if (!(omega > r->both)) return;
    r->both = omega;
    r->judged = r->now.round;
    r->state->pass.domain = OTA_DOMAIN_ROWS;
}

/* Is the plan of the last pass, as it would be emitted, within the tolerance? */
static bool met(rounds *r) {
    ota_coupled *state = r->state;
    ota_head *head = state->head;
    const double tolerance = r->settings->stop.tolerance;
    const double scaling = r->settings->stop.tolerance_scaling;
    if (scaling > 0.0 && (r->now.round == 0 || spread_of_change(state) > scaling)) return false;
    if (r->to_columns) {
        if (r->now.round == 0 || !(stale_row_error(state, r->t) <= tolerance)) return false;
        memcpy(head->f, state->pass.old_f, (size_t)state->pass.rows * sizeof *head->f);
        head->found.update = OTA_FINAL_POTENTIALS;
        if (ota_measure(state) <= tolerance) return true;
        head->found.update = OTA_FINAL_ROWS;
        return false;
    }
    if (!(r->now.residual <= tolerance)) return false;
    if (ota_measure(state) <= tolerance) return true;
    /* The kernel's rounding hid what is left. */
    if (state->pass.domain == OTA_DOMAIN_LINEAR) state->pass.domain = OTA_DOMAIN_LOG;
    return false;
}

static void remember(rounds *r) {
    if (!(r->now.residual < r->now.best)) return;
    r->now.best = r->now.residual;
    memcpy(r->state->best, r->state->head->g, (size_t)r->state->pass.columns * sizeof(double));
}

static void begin(rounds *r) {
    ota_head *head = r->state->head;
    r->t = stage(r, 0);
    r->from_columns = head->column.start == OTA_SIDE_COLUMNS;
    r->to_columns = head->column.end == OTA_SIDE_COLUMNS;
    r->both = 1.0;
    r->steady = INFINITY;
    r->omega = r->settings->relaxation;
    const bool idle = r->settings->stop.fixed && r->settings->stop.rounds == 0;
    if (r->from_columns && (!idle || r->to_columns)) {
        for (int64_t i = 0; i < head->rows; i++) head->f[i] = head->mu[i] > 0.0 ? 0.0 : -INFINITY;
        ota_column_pass(r->state, r->t);
        ota_update_columns(r->state, r->t, r->omega);
        r->now.round = r->to_columns ? 0 : 1;
    }
}

/* The printed order that starts on columns and ends on rows cools between them. */
static bool cools_late(const rounds *r) {
    return r->settings->stop.fixed && r->from_columns && !r->to_columns;
}

/* What the fixed number of rounds leaves. */
static ota_outcome finish(rounds *r) {
    ota_head *head = r->state->head;
    const int64_t asked = r->settings->stop.rounds;
    head->found.rounds = asked;
    head->found.temperature = r->t;
    if (r->to_columns && (asked > 0 || r->from_columns)) {
        head->found.update = OTA_FINAL_POTENTIALS;
    } else {
        cool(r, head->tau);
    }
    (void)ota_measure(r->state);
    return OTA_RAN;
}

static ota_outcome pass(void *domain) {
    rounds *r = domain;
    if (r->settings->stop.fixed && r->now.round >= r->settings->stop.rounds) return finish(r);
    if (!cools_late(r)) cool(r, stage(r, r->now.round));
    ota_row_pass(r->state, r->t, r->both);
    return OTA_GO_ON;
}

static ota_outcome judge(void *domain) {
    rounds *r = domain;
    ota_coupled *state = r->state;
    ota_head *head = state->head;
    if (r->settings->stop.fixed) {
        r->now.residual = ota_column_residual(state);
        return OTA_GO_ON;
    }
    if (!(r->t > head->tau)) {
        ota_constant_mode(state);
        r->last_rate = r->now.rate;
        ota_rounds_note(&r->now, ota_column_residual(state));
        head->found.rounds = r->now.round;
        head->found.temperature = r->t;
        remember(r);
        if (met(r)) return OTA_MET;
        if (isnan(r->now.residual)) return OTA_SPENT;
        adapt(r);
        if (r->impatient && r->now.round >= OTA_ROUNDS_SETTLED &&
            ota_rounds_ahead(&r->now, r->settings->stop.tolerance) > (double)IMPATIENCE)
            return OTA_SLOW;
        if (r->now.round % OTA_ROUNDS_STALL == 0 && ota_rounds_stand_still(&r->now) &&
            !ota_coupled_search(state))
            return OTA_HOPELESS;
    }
    return r->now.round >= r->settings->stop.max_rounds ? OTA_SPENT : OTA_GO_ON;
}

static ota_status tick(void *domain) {
    const rounds *r = domain;
    return ota_coupled_tick(r->state, r->now.round, r->now.residual);
}

static ota_outcome update(void *domain) {
    rounds *r = domain;
    const double t = stage(r, r->now.round);
    if (cools_late(r) && r->t > t) {
        cool(r, t);
        ota_column_pass(r->state, t);
    }
    ota_update_columns(r->state, r->t, r->both > 1.0 ? r->both : r->omega);
    return OTA_GO_ON;
}

ota_outcome ota_sinkhorn_run(ota_coupled *state, bool impatient, ota_status *stopped) {
    static const ota_round_passes on_scores = {pass, judge, tick, update};
    rounds r = {.now = ota_rounds_begin(0),
                .state = state,
                .settings = state->head->settings,
                .impatient = impatient};
    begin(&r);
    return ota_rounds_run(&on_scores, &r, &r.now, stopped);
}

/* ---- table rows ------------------------------------------------------------------------------ */

static ota_outcome patient(ota_coupled *state, ota_status *stopped) {
    return ota_sinkhorn_run(state, false, stopped);
}

static ota_status solve_linear(ota_head *head) {
    return ota_coupled_solve(head, OTA_NEEDS_KERNEL, true, patient);
}

static ota_status solve_log(ota_head *head) { return ota_coupled_solve(head, 0, false, patient); }

static size_t linear_workspace(const ota_head_shape *shape) {
    return ota_coupled_bytes(shape, OTA_NEEDS_KERNEL);
}

static size_t log_workspace(const ota_head_shape *shape) { return ota_coupled_bytes(shape, 0); }

static const char *refuses(const ota_resolved *r) {
    return !ota_regulariser_of(&r->problem)->exponential
               ? "Sinkhorn rounds exist for softmax without entry caps only; use newton"
               : ota_not_coupled(r);
}

const ota_solver ota_solver_sinkhorn = {
    .name = "sinkhorn",
    .purpose = "row and column updates on a kernel formed once, in the log domain where its range "
               "is too wide",
    .refuses = refuses,
    .workspace = linear_workspace,
    .solve = solve_linear,
};

const ota_solver ota_solver_log = {
    .name = "log",
    .purpose = "row and column updates by log-sum-exp",
    .refuses = refuses,
    .workspace = log_workspace,
    .solve = solve_log,
};
