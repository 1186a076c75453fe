/* Threshold problems that Newton needs besides the emission's rows.
 *
 * One column update with the rows' f held: g_j solves
 *
 *     exact      sum_i w(S_ij + f_i + g_j) = nu_j;   capped: g_j <- min(0, g_j)
 *     relaxed    sum_i w(S_ij + f_i + g_j) = nu_j exp(-g_j / rho)
 *     w(x) = exp(x / t)  or  max(0, (alpha - 1) x / t)^(1 / (alpha - 1))
 *
 * on columns gathered from S [rows][stride] plus f: the same problem as a row's. It takes over
 * where Newton's direction leads nowhere: far from the solution a column without weight has no
 * curvature.
 *
 * Rows of order alpha > 2 with the edge of the support rounded off:
 *
 *     y_j = (alpha - 1)(s_j + g_j + f) / t,   z_j = (y_j + sqrt(y_j^2 + 4 beta)) / 2
 *     p_j = z_j^q,   q = 1 / (alpha - 1)
 *
 * beta -> 0 gives max(0, y)^q. Above order 2 the weights leave zero with infinite slope, which no
 * quadratic model follows; with beta > 0 the slope dp/dy = q p / (z + beta / z) is bounded, and
 * letting beta fall leads to the right support along a smooth path. */
#include "solver/coupled.h"

enum { SECANTS = 40, THRESHOLD_STEPS = 200 };

/* ---- columns --------------------------------------------------------------------------------- */

typedef struct column_job {
    ota_coupled *state;
    const double *scores;
    ota_row_law law;
    int64_t share, length; /* columns per task, doubles per gathered column */
} column_job;

/* Relaxed: log M = log nu - G(M) / rho for the mass M, G the potential that gives M; both sides are
 * monotone, Newton in log M inside a bracket. */
static double relaxed_potential(const column_job *job, const double *x, double target, double *p) {
    const ota_coupled *state = job->state;
    const double rho = state->head->strength, power = 2.0 - job->law.order;
    double low = -INFINITY, high = INFINITY, log_mass = log(target), g = 0.0;
    for (int turn = 0; turn < SECANTS; turn++) {
        ota_row_found found;
        const double mass = exp(log_mass);
        ota_row_solve_f64(&job->law, x, NULL, state->rows, mass, p, &found);
        g = found.potential;
        const double miss = log_mass - log(target) + g / rho;
        double weight = 0.0;
        for (int64_t i = 0; i < state->rows; i++) {
            if (p[i] > 0.0) weight += power > 0.0 || power < 0.0 ? pow(p[i], power) : 1.0;
        }
        if (miss > 0.0)
            high = log_mass;
        else
            low = log_mass;
        double next = log_mass - miss / (1.0 + mass * job->law.tau / (weight * rho));
        if (next <= low || next >= high)
            next = isinf(low) ? log_mass - 2.0 : isinf(high) ? log_mass + 2.0 : 0.5 * (low + high);
        if (fabs(next - log_mass) <= 1.0e-15 || !isfinite(next)) break;
        log_mass = next;
    }
    return g;
}

static void update_task(void *context, int64_t task, int worker) {
    (void)worker;
    const column_job *job = context;
    ota_coupled *state = job->state;
    ota_dense *head = state->head;
    double *x = state->gathered + 2 * task * job->length, *p = x + job->length;
    const int64_t first = task * job->share;
    for (int64_t j = first; j < first + job->share && j < state->columns; j++) {
        if (!(head->g[j] > -INFINITY) || !(state->target[j] > 0.0)) continue;
        for (int64_t i = 0; i < state->rows; i++)
            x[i] = job->scores[i * state->stride + j] + head->f[i];
        ota_row_found found;
        ota_row_solve_f64(&job->law, x, NULL, state->rows, state->target[j], p, &found);
        double g = found.potential;
        if (found.empty || !isfinite(g)) continue;
        if (head->rule == OTA_COLUMNS_RELAXED) g = relaxed_potential(job, x, state->target[j], p);
        head->g[j] = head->rule == OTA_COLUMNS_CAPPED && g > 0.0 ? 0.0 : g;
    }
}

void ota_newton_columns(ota_coupled *state, const double *scores, double t) {
    if (!(state->head->order > 1.0)) {
        ota_pass_columns(state, t);
        ota_column_step(state, t, 1.0);
        return;
    }
    column_job job = {.state = state, .scores = scores, .law = ota_coupled_law(state, t)};
    job.law.sink = -INFINITY;
    job.law.row_strength = INFINITY;
    job.share = (state->columns + state->chunks - 1) / state->chunks;
    job.length = (state->rows + 15) / 16 * 16;
    ota_parallel(state->head->pool, state->chunks, update_task, &job);
}

/* ---- rows with a rounded edge ---------------------------------------------------------------- */

static double lifted(double y, double beta) {
    const double root = sqrt(y * y + 4.0 * beta);
    return y > 0.0 ? 0.5 * (y + root) : 2.0 * beta / (root - y);
}

/* Sum of the weights and of their slopes at threshold x0; fills p unless NULL. */
static double sums_at(const ota_smooth_row *row, double top, double x0, double *p, double *sink,
                      double *slope) {
    const double k = (row->order - 1.0) / row->t, power = 1.0 / (row->order - 1.0);
    double sum = 0.0;
    *slope = 0.0;
    for (int64_t j = 0; j <= row->count; j++) {
        const double lift = j < row->count ? row->s[j] + row->g[j] : row->sink;
        double weight = 0.0;
        if (lift > -INFINITY) {
            const double z = lifted((lift - top) * k - x0, row->beta);
            weight = pow(z, power);
            *slope += power * weight / (z + row->beta / z);
        }
        sum += weight;
        if (j < row->count)
            p[j] = weight;
        else
            *sink = weight;
    }
    return sum;
}

double ota_smooth_row_solve(const ota_smooth_row *row, double mu, double *p, double *sink) {
    const double k = (row->order - 1.0) / row->t;
    double top = row->sink, entries = row->sink > -INFINITY ? 1.0 : 0.0;
    for (int64_t j = 0; j < row->count; j++) {
        const double lift = row->s[j] + row->g[j];
        if (lift > -INFINITY) entries += 1.0;
        if (lift > top) top = lift;
    }
    if (!(mu > 0.0) || !(entries > 0.0)) {
        for (int64_t j = 0; j < row->count; j++) p[j] = 0.0;
        *sink = 0.0;
        return -INFINITY;
    }
    /* All mass on the largest entry needs a lower threshold, equal shares a higher one. */
    const double share = pow(mu / entries, row->order - 1.0);
    double low = -pow(mu, row->order - 1.0), high = row->beta / share - share,
           x0 = 0.5 * low + 0.5 * high;
    for (int step = 0; step < THRESHOLD_STEPS; step++) {
        double slope;
        const double sum = sums_at(row, top, x0, p, sink, &slope);
        const double miss = log(sum / mu);
        if (fabs(miss) <= 4.0e-16) break;
        if (miss > 0.0)
            low = x0;
        else
            high = x0;
        double next = x0 + miss * sum / slope;
        if (!(next > low && next < high)) next = 0.5 * low + 0.5 * high;
        if (!(next > low && next < high)) break;
        x0 = next;
    }
    double total = *sink;
    for (int64_t j = 0; j < row->count; j++) total += p[j];
    for (int64_t j = 0; j < row->count; j++) p[j] *= mu / total;
    *sink *= mu / total;
    return -top - x0 / k;
}

double ota_smooth_slope(double order, double beta, double p) {
    if (!(p > 0.0)) return 0.0;
    const double z = pow(p, order - 1.0);
    return p / (z + beta / z);
}
