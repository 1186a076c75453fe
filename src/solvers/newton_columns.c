/* One column update with the rows' f held: g_j solves
 *
 *     exact      sum_i w(S_ij + f_i + g_j) = nu_j;   capped: g_j <- min(0, g_j)
 *     relaxed    sum_i w(S_ij + f_i + g_j) = nu_j exp(-g_j / rho)
 *     w(x) = exp(x / t)  or  max(0, (alpha - 1) x / t)^(1 / (alpha - 1))
 *
 * on columns gathered from S [rows][stride] plus f: the same problem as a row's. It takes over
 * where Newton's direction leads nowhere: far from the solution a column without weight has no
 * curvature. */
#include "coupled.h"

enum { SECANTS = 40 };

typedef struct column_job {
    ota_coupled *state;
    ota_row_parameters parameters;
    int64_t share, length; /* columns per task, doubles per gathered column */
} column_job;

/* Relaxed: log M = log nu - G(M) / rho for the mass M, G the potential that gives M; both sides are
 * monotone, Newton in log M inside a bracket. */
static double relaxed_potential(const column_job *job, const double *x, double target, double *p) {
    const ota_coupled *state = job->state;
    const double rho = state->head->column.strength, power = 2.0 - job->parameters.order;
    double low = -INFINITY, high = INFINITY, log_mass = log(target), g = 0.0;
    ota_watch watch = ota_watch_of(state->head->settings);
    for (int iteration = 0; iteration < SECANTS && !ota_watch_ends(&watch, state->pass.rows);
         iteration++) {
        ota_row_found found;
        const double mass = exp(log_mass);
        state->head->host.algebra->row_solve(&job->parameters, x, NULL, state->pass.rows, mass, p,
                                             &found);
        g = found.potential;
        const double miss = found.infeasible ? INFINITY : log_mass - log(target) + g / rho;
        double weight = 0.0;
        for (int64_t i = 0; i < state->pass.rows; i++) {
            if (p[i] > 0.0) weight += power > 0.0 || power < 0.0 ? pow(p[i], power) : 1.0;
        }
        if (miss > 0.0)
            high = log_mass;
        else
            low = log_mass;
        double next = log_mass - miss / (1.0 + mass * job->parameters.tau / (weight * rho));
        if (next <= low || next >= high)
            next = isinf(low) ? log_mass - 2.0 : isinf(high) ? log_mass + 2.0 : 0.5 * (low + high);
        if (fabs(next - log_mass) <= 1.0e-15 || !isfinite(next)) break;
        log_mass = next;
    }
    return g;
}

/* g from the one that gives the target: at the kink where the key rests there, or where the lesser sum is met. */
static double between_bounds(const column_job *job, const double *x, int64_t j, double g,
                             double *p) {
    ota_coupled *state = job->state;
    const ota_column_parameters parameters = ota_head_parameters(state->head, j);
    const ota_column_kink kink =
        ota_column_kink_of(ota_head_rule(state->head), &parameters, state->pass.target[j]);
    if (!(g > kink.at)) return g;
    if (!(kink.above > 0.0)) return kink.at;
    ota_row_found found;
    state->head->host.algebra->row_solve(&job->parameters, x, NULL, state->pass.rows, kink.above, p,
                                         &found);
    return found.potential > kink.at ? found.potential : kink.at;
}

static void update_task(void *context, int64_t task, int worker) {
    (void)worker;
    column_job own = *(const column_job *)context;
    column_job *job = &own;
    ota_coupled *state = job->state;
    ota_head *head = state->head;
    const ota_column_rule_row *rule = ota_head_rule(head);
    double *x = state->gathered + 2 * task * job->length, *p = x + job->length;
    const int64_t first = task * job->share;
    const int64_t last = ota_int_min(first + job->share, state->pass.columns);
    /* A penalised key solves its column some ten times. */
    const int64_t pairs =
        state->pass.rows * (ota_rule_is(rule, OTA_RULE_PENALISED) ? SECANTS / 4 : 1);
    ota_watch watch = ota_watch_of(head->settings);
    for (int64_t j = first; j < last && !ota_watch_ends(&watch, pairs); j++) {
        if (!(head->g[j] > -INFINITY) || !(state->pass.target[j] > 0.0)) continue;
        for (int64_t i = 0; i < state->pass.rows; i++)
            x[i] = state->wide[i * state->pass.stride + j] + head->f[i];
        const double about = -head->g[j];
        job->parameters.line = j;
        job->parameters.threshold = &about;
        ota_row_found found;
        state->head->host.algebra->row_solve(&job->parameters, x, NULL, state->pass.rows,
                                             state->pass.target[j], p, &found);
        /* What is more than the caps of the key's entries is wanted at any price. */
        double g = found.infeasible ? INFINITY : found.potential;
        if (found.empty || isnan(g)) continue;
        if (ota_rule_is(rule, OTA_RULE_PENALISED))
            g = relaxed_potential(job, x, state->pass.target[j], p);
        g = between_bounds(job, x, j, g, p);
        if (isfinite(g)) head->g[j] = g;
    }
}

void ota_newton_columns(ota_coupled *state, double t) {
    if (state->head->settings->ranks != NULL) {
        ota_newton_columns_of_ranks(state, t);
        return;
    }
    if (state->head->row.regulariser->exponential) {
        ota_column_pass(state, t);
        ota_update_columns(state, t, 1.0);
        return;
    }
    column_job job = {.state = state, .parameters = ota_coupled_rows(state, t)};
    job.parameters.sink = -INFINITY;
    job.parameters.row_strength = INFINITY;
    job.parameters.caps.transposed = true;
    job.share = (state->pass.columns + state->pass.chunks - 1) / state->pass.chunks;
    job.length = (state->pass.rows + 15) / 16 * 16;
    ota_parallel(state->head->host.pool, state->pass.chunks, update_task, &job);
}
