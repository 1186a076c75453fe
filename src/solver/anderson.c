/* Anderson acceleration of the Sinkhorn map G (one column update of the plan of g), depth 5:
 *
 *     r_k = G(x_k) - x_k,   gamma = argmin |r_k - dR gamma|,
 *     x_{k+1} = x_k + r_k - (dX + dR) gamma
 *
 * x [columns] potentials; dX, dR differences of the last iterates and residuals. Safeguard: when
 * the residual of the plan rises, the extrapolation is taken back, the plain update it replaced is
 * used and the history starts anew, so that the worst case is Sinkhorn at half speed. */
#include "solver/coupled.h"

#include <string.h>

enum { DEPTH = OTA_ANDERSON_DEPTH };

/* Relative ridge of the normal equations: differences become parallel near the solution. */
static const double ridge = 1.0e-12;

typedef struct history {
    double *dx[DEPTH], *dr[DEPTH], *x, *r, *plain;
    int count, next;
    bool started;
} history;

static history place(const ota_coupled *state) {
    history h = {.count = 0};
    double *at = state->history;
    for (int k = 0; k < DEPTH; k++) {
        h.dx[k] = at;
        h.dr[k] = at + state->lane;
        at += 2 * state->lane;
    }
    h.x = at;
    h.r = at + state->lane;
    h.plain = at + 2 * state->lane;
    return h;
}

static double dot(const double *a, const double *b, int64_t count) {
    double sum = 0.0;
    for (int64_t j = 0; j < count; j++) sum += a[j] * b[j];
    return sum;
}

/* gamma of the least-squares problem; false when the system is not positive definite. */
static bool combine(const history *h, int64_t count, double *gamma) {
    double a[DEPTH][DEPTH];
    double trace = 0.0;
    for (int i = 0; i < h->count; i++) {
        for (int k = 0; k <= i; k++) a[i][k] = dot(h->dr[i], h->dr[k], count);
        trace += a[i][i];
        gamma[i] = dot(h->dr[i], h->r, count);
    }
    for (int i = 0; i < h->count; i++) {
        a[i][i] += ridge * trace;
        for (int k = 0; k <= i; k++) {
            double sum = a[i][k];
            for (int q = 0; q < k; q++) sum -= a[i][q] * a[k][q];
            if (k < i) {
                a[i][k] = sum / a[k][k];
            } else if (sum > 0.0) {
                a[i][i] = sqrt(sum);
            } else {
                return false;
            }
        }
    }
    for (int i = 0; i < h->count; i++) {
        for (int k = 0; k < i; k++) gamma[i] -= a[i][k] * gamma[k];
        gamma[i] /= a[i][i];
    }
    for (int i = h->count - 1; i >= 0; i--) {
        for (int k = i + 1; k < h->count; k++) gamma[i] -= a[k][i] * gamma[k];
        gamma[i] /= a[i][i];
    }
    return true;
}

/* x in h->x and G(x) in head->g: remembers both, leaves the next iterate in head->g. */
static bool extrapolate(ota_coupled *state, history *h, const double *x) {
    double *g = state->head->g;
    const int64_t count = state->columns;
    const bool paired = h->started;
    double *dx = h->dx[h->next], *dr = h->dr[h->next];
    for (int64_t j = 0; j < count; j++) {
        const double r = g[j] > -INFINITY ? g[j] - x[j] : 0.0;
        if (paired) {
            dx[j] = g[j] > -INFINITY ? x[j] - h->x[j] : 0.0;
            dr[j] = r - h->r[j];
        }
        h->x[j] = x[j];
        h->r[j] = r;
        h->plain[j] = g[j];
    }
    h->started = true;
    if (!paired) return false;
    h->next = (h->next + 1) % DEPTH;
    if (h->count < DEPTH) h->count++;
    double gamma[DEPTH];
    if (!combine(h, count, gamma)) return false;
    for (int64_t j = 0; j < count; j++) {
        if (!(g[j] > -INFINITY)) continue;
        double move = 0.0;
        for (int k = 0; k < h->count; k++) move += gamma[k] * (h->dx[k][j] + h->dr[k][j]);
        if (!isfinite(move)) {
            memcpy(g, h->plain, (size_t)count * sizeof *g);
            return false;
        }
        const double next = g[j] - move;
        g[j] = state->head->rule == OTA_COLUMNS_CAPPED && next > 0.0 ? 0.0 : next;
    }
    return true;
}

ota_outcome ota_anderson_run(ota_coupled *state, ota_status *stopped) {
    ota_dense *head = state->head;
    const double tau = head->tau;
    history h = place(state);
    double best = INFINITY, last = INFINITY;
    bool extrapolated = false;
    if (!ota_coupled_search(state)) return OTA_HOPELESS;
    for (;; head->rounds++) {
        ota_pass(state, tau, 1.0);
        ota_constant_mode(state);
        const double residual = ota_column_residual(state);
        if (residual < best) {
            best = residual;
            memcpy(state->best, head->g, (size_t)state->columns * sizeof *head->g);
        }
        if (residual <= head->settings->tolerance &&
            ota_measure(state) <= head->settings->tolerance)
            return OTA_MET;
        if (isnan(residual) || head->rounds >= head->settings->max_rounds) return OTA_SPENT;
        *stopped = ota_coupled_tick(state, head->rounds, residual);
        if (*stopped != OTA_OK) return OTA_STOPPED;
        if (extrapolated && !(residual <= last)) {
            memcpy(head->g, h.plain, (size_t)state->columns * sizeof *head->g);
            h.count = h.next = 0;
            h.started = extrapolated = false;
            last = INFINITY;
            continue;
        }
        last = residual;
        ota_column_step(state, tau, 1.0);
        extrapolated = extrapolate(state, &h, state->previous);
    }
}

/* ---- table row ------------------------------------------------------------------------------- */

static ota_status solve(ota_dense *head) {
    return ota_coupled_solve(head, OTA_NEEDS_KERNEL | OTA_NEEDS_HISTORY, true, ota_anderson_run);
}

static size_t workspace(const ota_resolved *r, int64_t rows, int64_t columns, bool narrow) {
    return ota_coupled_bytes(r, rows, columns, narrow, OTA_NEEDS_KERNEL | OTA_NEEDS_HISTORY);
}

static const char *refuses(const ota_resolved *r) {
    if (r->order > 1.0) return "Anderson acceleration exists for softmax only; use newton";
    return ota_tolerance_only(r);
}

const ota_solver ota_solver_anderson = {
    .name = "anderson",
    .purpose = "Sinkhorn rounds extrapolated from the last five",
    .refuses = refuses,
    .workspace = workspace,
    .solve = solve,
};
