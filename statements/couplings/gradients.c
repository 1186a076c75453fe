/* Group C, through whole plans: gradients of every differentiable family [LIT-17, LIT-21, DER-12..16].
 * U = dL/dP, dS [n][m]; formulas are solved here by plain loops, and by differences of plain solvers. */
#include "statements/check.h"

enum { N = 6, M = 6 };

static head *pulled(trial *t, double *s, const char *method, double tau, int64_t rounds) {
    head *h = statement_head(t, N, M, s);
    h->gradients.coupling = normals(t, N * M, 1.0);
    h->options.rounds = rounds;
    statement_pull_back(t, h, method, tau, rounds == 0 ? 1e-13 : 0.0);
    return h;
}

/* -(p/tau)(u - E u), u = -dL/dp. */
static double advantage_update(trial *t) {
    double most = 0.0;
    const double tau = between(t, 0.4, 2.0);
    head *h = pulled(t, scores_of(t, N, M, t->draw % CHARACTERS), "softmax", tau, 0);
    for (int i = 0; i < N; i++) {
        double p[M];
        softmax_formula(h->scores + i * M, M, tau, p);
        const double mean = dot(p, h->gradients.coupling + i * M, M);
        for (int j = 0; j < M; j++) {
            const int k = i * M + j;
            const double formula = p[j] / tau * (h->gradients.coupling[k] - mean);
            most = worse(most, fabs(h->gradients.scores[k] - formula));
        }
        most = worse(most, fabs(sum_of(h->gradients.scores + i * M, M)));
    }
    return most;
}

static double golden_row(trial *t) {
    static const double golden[3] = {-0.366309329780318, 0.077183886081616, 0.289125443698702};
    double s[9] = {1, 0, 0, 0, 2, 0, 1, 1, 0}, u[9] = {1, 2, 3, 0, 0, 0, 0, 0, 0};
    head *h = statement_head(t, 3, 3, s);
    h->gradients.coupling = u;
    statement_pull_back(t, h, "softmax", 1.0, 0.0);
    return farthest(h->gradients.scores, golden, 3);
}

/* ---- differences: L = <U, P(S)>, P by a plain solver of the check ---- */

typedef void plain_solver(const double *s, double tau, double *p);

static void plain_rows(const double *s, double tau, double *p) {
    for (int i = 0; i < N; i++) softmax_formula(s + i * M, M, tau, p + i * M);
}

static void plain_exact(const double *s, double tau, double *p) {
    statement_sinkhorn_formula(s, N, M, tau, NULL, NULL, 20000, p);
}

/* g <- g - lambda tau log c, `steps` times; f from the rows. lambda < 1 and many steps with KL: the column
 * update of relaxed:rho, g <- lambda (g - tau log c), lambda = rho/(rho + tau). */
static void plain_columns(const double *s, double tau, double lambda, bool relaxed, int steps,
                          double *p) {
    double g[M] = {0.0};
    for (int step = 0; step <= steps; step++) {
        double column[M] = {0.0}, row[M];
        for (int i = 0; i < N; i++) {
            for (int j = 0; j < M; j++) row[j] = s[i * M + j] + g[j];
            softmax_formula(row, M, tau, p + i * M);
            for (int j = 0; j < M; j++) column[j] += p[i * M + j];
        }
        if (step == steps) return;
        for (int j = 0; j < M; j++) {
            g[j] = relaxed ? lambda * (g[j] - tau * log(column[j]))
                           : g[j] - lambda * tau * log(column[j]);
        }
    }
}

static void plain_relaxed(const double *s, double tau, double *p) {
    plain_columns(s, tau, 0.7 / (0.7 + tau), true, 60, p);
}
static void plain_elastic(const double *s, double tau, double *p) {
    plain_columns(s, tau, 0.6, false, 3, p);
}
static void plain_rounds(const double *s, double tau, double *p) {
    plain_columns(s, tau, 1.0, false, 4, p);
}

static double by_differences(trial *t, const char *method, plain_solver *solver, int64_t rounds) {
    const double tau = 0.9, step = 1e-3;
    double most = 0.0, p[N * M];
    double *s = normals(t, N * M, 1.0);
    head *h = pulled(t, s, method, tau, rounds);
    for (int k = 0; k < N * M; k++) {
        double *moved = copy_of(t, s, N * M), loss[4];
        static const double at[4] = {1.0, -1.0, 2.0, -2.0};
        for (int side = 0; side < 4; side++) {
            moved[k] = s[k] + at[side] * step;
            solver(moved, tau, p);
            loss[side] = dot(h->gradients.coupling, p, N * M);
        }
        const double slope = (8.0 * (loss[0] - loss[1]) - (loss[2] - loss[3])) / (12.0 * step);
        most = worse(most, fabs(slope - h->gradients.scores[k]));
    }
    return most;
}

static double softmax_differences(trial *t) { return by_differences(t, "softmax", plain_rows, 0); }
static double exact_differences(trial *t) {
    return by_differences(t, "softmax/exact", plain_exact, 0);
}
static double relaxed_differences(trial *t) {
    return by_differences(t, "relaxed:0.7", plain_relaxed, 0);
}
static double elastic_differences(trial *t) {
    return by_differences(t, "elastic:0.6,3", plain_elastic, 0);
}
static double rounds_differences(trial *t) {
    return by_differences(t, "softmax/exact", plain_rounds, 4);
}

/* ---- formulas ---- */

/* dP = dO V^T, dV = P^T dO, dQ = scale dS K, dK = scale dS^T Q, by loops from the library's P and dS's
 * formula. */
static double chain_rule(trial *t) {
    enum { WIDTH = 4, VALUES = 3 };
    double most = 0.0, ds[N * M], p[M], row[M];
    head *h = statement_attention_head(t, N, M, WIDTH, normals(t, N * WIDTH, 1.0),
                                       normals(t, M * WIDTH, 1.0));
    h->values = normals(t, M * VALUES, 1.0);
    h->values_width = VALUES;
    h->gradients.out = normals(t, N * VALUES, 1.0);
    statement_pull_back(t, h, "softmax", 0.8, 0.0);
    double *dv = numbers(t, M * VALUES), *dq = numbers(t, N * WIDTH), *dk = numbers(t, M * WIDTH);
    const double scale = 1.0 / sqrt(WIDTH);
    for (int i = 0; i < N; i++) {
        double u[M];
        for (int j = 0; j < M; j++) {
            row[j] = scale * dot(h->queries + i * WIDTH, h->keys + j * WIDTH, WIDTH);
            u[j] = dot(h->gradients.out + i * VALUES, h->values + j * VALUES, VALUES);
        }
        softmax_formula(row, M, 0.8, p);
        for (int j = 0; j < M; j++) {
            ds[i * M + j] = p[j] / 0.8 * (u[j] - dot(p, u, M));
            for (int k = 0; k < VALUES; k++)
                dv[j * VALUES + k] += p[j] * h->gradients.out[i * VALUES + k];
        }
    }
    for (int at = 0; at < N * M; at++) {
        for (int k = 0; k < WIDTH; k++) {
            dq[at / M * WIDTH + k] += scale * ds[at] * h->keys[at % M * WIDTH + k];
            dk[at % M * WIDTH + k] += scale * ds[at] * h->queries[at / M * WIDTH + k];
        }
    }
    most = worse(farthest(h->gradients.queries, dq, N * WIDTH),
                 farthest(h->gradients.keys, dk, M * WIDTH));
    return worse(most, farthest(h->gradients.values, dv, M * VALUES));
}

/* The same by the public chain rule and the score gradient of the plan. */
static double chain_rule_call(trial *t) {
    enum { WIDTH = 4, VALUES = 3 };
    head *h = statement_attention_head(t, N, M, WIDTH, normals(t, N * WIDTH, 1.0),
                                       normals(t, M * WIDTH, 1.0));
    h->values = normals(t, M * VALUES, 1.0);
    h->values_width = VALUES;
    h->gradients.out = normals(t, N * VALUES, 1.0);
    statement_pull_back(t, h, "softmax/exact", 0.8, 1e-12);
    double dq[N * WIDTH], dk[M * WIDTH], dv[M * VALUES];
    const ota_head_chain chain = {.queries = N,
                                  .keys = M,
                                  .width = WIDTH,
                                  .values_width = VALUES,
                                  .q = h->queries,
                                  .k = h->keys,
                                  .v = h->values,
                                  .p = h->p,
                                  .dout = h->gradients.out,
                                  .dscores = h->gradients.scores,
                                  .dq = dq,
                                  .dk = dk,
                                  .dv = dv};
    if (ota_head_chain_rule(&chain, NULL, NULL) < 0) return NAN;
    return worse(worse(farthest(h->gradients.queries, dq, N * WIDTH),
                       farthest(h->gradients.keys, dk, M * WIDTH)),
                 farthest(h->gradients.values, dv, M * VALUES));
}

/* w = p^(2 - alpha) on the support: dS = w (U - <w,U> / sum w) / tau. */
static double tsallis_backward(trial *t) {
    static const char *const methods[] = {"sparsemax", "entmax:1.5", "entmax:1.25"};
    static const double orders[] = {2.0, 1.5, 1.25};
    double most = 0.0;
    const double tau = between(t, 0.5, 1.5);
    head *h = pulled(t, scores_of(t, N, M, t->draw % CHARACTERS), methods[t->draw % 3], tau, 0);
    for (int i = 0; i < N; i++) {
        double w[M], sum = 0.0, mean = 0.0;
        for (int j = 0; j < M; j++) {
            const double p = h->p[i * M + j];
            w[j] = p > 0.0 ? pow(p, 2.0 - orders[t->draw % 3]) : 0.0;
            sum += w[j];
            mean += w[j] * h->gradients.coupling[i * M + j];
        }
        for (int j = 0; j < M; j++) {
            const double formula = w[j] / tau * (h->gradients.coupling[i * M + j] - mean / sum);
            most = worse(most, fabs(h->gradients.scores[i * M + j] - formula));
        }
    }
    return most;
}

/* Differences along random directions, where the support does not change. */
static double tsallis_differences(trial *t) {
    const double step = 1e-5;
    double most = 0.0;
    for (int trials = 0; trials < 12; trials++) {
        const char *method = trials % 2 == 0 ? "sparsemax" : "entmax:1.5";
        double *s = normals(t, N * M, 1.0), *along = normals(t, N * M, 1.0), loss[2];
        head *h = pulled(t, s, method, 1.0, 0);
        bool kink = false;
        for (int side = 0; side < 2; side++) {
            double *moved = copy_of(t, s, N * M);
            for (int k = 0; k < N * M; k++) moved[k] += (side == 0 ? step : -step) * along[k];
            head *other = statement_plan(t, N, M, moved, method, 1.0, 0.0);
            for (int k = 0; k < N * M; k++) kink |= (other->p[k] > 0.0) != (h->p[k] > 0.0);
            loss[side] = dot(h->gradients.coupling, other->p, N * M);
        }
        if (kink && t->fault == 0.0) continue;
        const double slope = (loss[0] - loss[1]) / (2.0 * step);
        most = worse(most, fabs(slope - dot(h->gradients.scores, along, N * M)));
    }
    return most;
}

/* Solves A x = y of `size` by elimination with row pivoting; a null direction gets 0. */
static void solve_dense(double *a, double *y, int size) {
    for (int c = 0; c < size; c++) {
        int best = c;
        for (int r = c + 1; r < size; r++) {
            if (fabs(a[r * size + c]) > fabs(a[best * size + c])) best = r;
        }
        for (int k = 0; k < size; k++) {
            const double moved = a[c * size + k];
            a[c * size + k] = a[best * size + k];
            a[best * size + k] = moved;
        }
        const double moved = y[c];
        y[c] = y[best];
        y[best] = moved;
        if (fabs(a[c * size + c]) < 1e-12) {
            for (int k = 0; k < size; k++) a[c * size + k] = k == c ? 1.0 : 0.0;
            y[c] = 0.0;
        }
        for (int r = 0; r < size; r++) {
            if (r == c) continue;
            const double factor = a[r * size + c] / a[c * size + c];
            for (int k = c; k < size; k++) a[r * size + k] -= factor * a[c * size + k];
            y[r] -= factor * y[c];
        }
    }
    for (int c = 0; c < size; c++) y[c] /= a[c * size + c];
}

/* [diag r, P; P^T, diag c (1 + tau/rho)] [a; b] = [(P U) 1; (P U)^T 1]: dS = P (U - a - b) / tau. */
static double two_sided_advantage(trial *t, const char *method, double tau_over_rho) {
    enum { SIZE = N + M };
    double most = 0.0;
    const double tau = 0.7;
    head *h = pulled(t, scores_of(t, N, M, t->draw % CHARACTERS), method, tau, 0);
    double a[SIZE * SIZE] = {0.0}, x[SIZE] = {0.0};
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < M; j++) {
            const double p = h->p[i * M + j], u = h->gradients.coupling[i * M + j];
            a[i * SIZE + i] += p;
            a[(N + j) * SIZE + N + j] += p * (1.0 + tau_over_rho);
            a[i * SIZE + N + j] = a[(N + j) * SIZE + i] = p;
            x[i] += p * u;
            x[N + j] += p * u;
        }
    }
    solve_dense(a, x, SIZE);
    for (int k = 0; k < N * M; k++) {
        const double formula = h->p[k] / tau * (h->gradients.coupling[k] - x[k / M] - x[N + k % M]);
        most = worse(most, fabs(formula - h->gradients.scores[k]));
    }
    return most;
}

static double exact_system(trial *t) { return two_sided_advantage(t, "softmax/exact", 0.0); }
static double relaxed_system(trial *t) { return two_sided_advantage(t, "relaxed:1.4", 0.5); }

static double balanced_sums(trial *t) {
    double most = 0.0;
    head *h = pulled(t, scores_of(t, N, M, t->draw % CHARACTERS), "softmax/exact", 1.0, 0);
    double column[M] = {0.0};
    for (int i = 0; i < N; i++) {
        most = worse(most, fabs(sum_of(h->gradients.scores + i * M, M)));
        for (int j = 0; j < M; j++) column[j] += h->gradients.scores[i * M + j];
    }
    for (int j = 0; j < M; j++) most = worse(most, fabs(column[j]));
    return most;
}

/* U of the golden set is [[1, 2, 3], [0, 1, 0], [2, 0, 1]]. */
static double golden_balanced(trial *t) {
    static const double golden[9] = {-0.35949967835933,  0.016866990010324,  0.342632688349007,
                                     -0.052188652084319, 0.276309835332962,  -0.224121183248644,
                                     0.411688330443648,  -0.293176825343288, -0.118511505100361};
    double s[9] = {1, 0, 0, 0, 2, 0, 1, 1, 0}, u[9] = {1, 2, 3, 0, 1, 0, 2, 0, 1};
    head *h = statement_head(t, 3, 3, s);
    h->gradients.coupling = u;
    statement_pull_back(t, h, "softmax/exact", 1.0, 1e-14);
    return farthest(h->gradients.scores, golden, 9);
}

/* Distance of the gradient through 200 rounds from the gradient of the solution. */
static double unrolled_converges(trial *t) {
    double *s = normals(t, N * M, 1.0), *u = normals(t, N * M, 1.0);
    head *h[2];
    for (int k = 0; k < 2; k++) {
        h[k] = statement_head(t, N, M, s);
        h[k]->gradients.coupling = u;
        h[k]->options.rounds = k == 0 ? 0 : 200;
        statement_pull_back(t, h[k], "softmax/exact", 1.0, k == 0 ? 1e-13 : 0.0);
    }
    return farthest(h[0]->gradients.scores, h[1]->gradients.scores, N * M);
}

/* max Phi by the certificate's value: its differences are P. */
static double envelope(trial *t) {
    const double tau = 0.8, step = 1e-3;
    double most = 0.0, *s = normals(t, N * M, 1.0);
    head *h = statement_plan(t, N, M, s, "softmax/exact", tau, 1e-13);
    for (int k = 0; k < N * M; k += 5) {
        double *moved = copy_of(t, s, N * M), value[4];
        static const double at[4] = {1.0, -1.0, 2.0, -2.0};
        for (int side = 0; side < 4; side++) {
            moved[k] = s[k] + at[side] * step;
            value[side] =
                -statement_plan(t, N, M, moved, "softmax/exact", tau, 1e-13)->certificate.value;
        }
        const double slope = (8.0 * (value[0] - value[1]) - (value[2] - value[3])) / (12.0 * step);
        most = worse(most, fabs(slope - h->p[k]));
    }
    return most;
}

static const statement_check table[] = {
    AT_MOST("LIT-17", "dL/ds = -(p/tau)(u - E u), sums 0", advantage_update, 4e-15, 20),
    AT_MOST("LIT-17", "golden row gradient", golden_row, 4e-15),
    AT_MOST("LIT-17", "against differences of plain softmax", softmax_differences, 1e-9),
    AT_MOST("LIT-21", "dQ, dK, dV against loops", chain_rule, 1e-13),
    AT_MOST("LIT-21", "the chain rule's own call on an exact plan", chain_rule_call, 1e-13),
    AT_MOST("DER-12", "(diag w - w w^T / sum w) U, w = p^(2 - alpha)", tsallis_backward, 1e-13, 30),
    AT_MOST("DER-12", "against differences of forward", tsallis_differences, 1e-7),
    AT_MOST("DER-13", "against the two-sided system, eliminated", exact_system, 1e-12, 8),
    AT_MOST("DER-13", "row and column sums", balanced_sums, 1e-13, 12),
    AT_MOST("DER-13", "against differences of plain scaling", exact_differences, 1e-8),
    AT_MOST("DER-13", "golden balanced gradient", golden_balanced, 1e-13),
    AT_MOST("DER-14", "against the system with (1 + tau/rho) diag c", relaxed_system, 1e-12, 8),
    AT_MOST("DER-14", "against differences of plain relaxed scaling", relaxed_differences, 1e-8),
    AT_MOST("DER-15", "elastic, 3 rounds, against differences", elastic_differences, 1e-8),
    AT_MOST("DER-15", "exact, 4 rounds, against differences", rounds_differences, 1e-8),
    AT_MOST("DER-15", "through 200 rounds against the solution's gradient", unrolled_converges,
            1e-9),
    AT_MOST("DER-16", "grad max Phi = P by differences", envelope, 1e-8),
};
CHECK_GROUP(statement_checks_gradients, table);
