/* Group B, scaling: Sinkhorn, its elastic, relaxed and over-relaxed forms, Newton, their rates [CETA, ELA,
 * DER, TOT]. S, P [n][m]; one round is one column and one row update after the first row update. */
#include "statements/check.h"

enum { N = 8, M = 8 };

static head *solved_by(trial *t, double *s, const char *method, const char *solver, double tau,
                       double tolerance) {
    head *h = statement_head(t, N, M, s);
    h->options.solver = solver;
    statement_solve(t, h, method, tau, tolerance);
    return h;
}

static head *after_rounds(trial *t, int64_t n, double *s, const char *method, double tau,
                          int64_t rounds) {
    head *h = statement_head(t, n, n, s);
    h->options.rounds = rounds;
    statement_solve(t, h, method, tau, 0.0);
    return h;
}

static double linear_against_log(trial *t) {
    double *s = scores_of(t, N, M, t->draw % CHARACTERS);
    head *linear = solved_by(t, s, "softmax/exact", "sinkhorn", 1.5, 1e-12);
    head *logs = solved_by(t, s, "softmax/exact", "log", 1.5, 1e-12);
    return farthest(linear->p, logs->p, N * M);
}

/* The same with masses of rows and columns, whose logarithms only the log domain takes. */
static double log_against_linear(trial *t) {
    double *s = scores_of(t, N, M, t->draw % CHARACTERS), *a = distribution(t, N, 1.0),
           *b = distribution(t, M, 1.0);
    static const char *const solvers[] = {"sinkhorn", "log"};
    head *by[2];
    for (int k = 0; k < 2; k++) {
        by[k] = statement_head(t, N, M, s);
        by[k]->row_mass = a;
        by[k]->column_mass = b;
        by[k]->options.solver = solvers[k];
        statement_solve(t, by[k], "softmax/exact", 1.5, 1e-12);
    }
    return farthest(by[0]->p, by[1]->p, N * M);
}

static double linear_marginals(trial *t) {
    double most = 0.0;
    head *h = statement_head(t, N, 11, scores_of(t, N, 11, t->draw % CHARACTERS));
    h->row_mass = distribution(t, N, 1.0);
    h->column_mass = distribution(t, 11, 1.0);
    h->options.solver = "sinkhorn";
    statement_solve(t, h, "softmax/exact", 0.7, 1e-12);
    for (int i = 0; i < N; i++) most = worse(most, fabs(h->rows[i] - h->row_mass[i]));
    for (int j = 0; j < 11; j++) most = worse(most, fabs(h->columns[j] - h->column_mass[j]));
    return most;
}

static double row_error_after(trial *t, bool printed_order) {
    double most = 0.0;
    head *h = statement_head(t, N, M, normals(t, N * M, 1.0));
    h->options.rounds = 1;
    if (printed_order) h->problem.start = h->problem.end = OTA_SIDE_COLUMNS;
    statement_solve(t, h, "softmax/exact", 0.1, 0.0);
    for (int i = 0; i < N; i++) most = worse(most, fabs(h->rows[i] - 1.0));
    return most;
}

static double row_ended(trial *t) { return row_error_after(t, false); }
static double column_ended(trial *t) { return row_error_after(t, true); }

/* What is left of log P - S/tau after its row and column means; infinite if P has a zero. */
static double scaling_form(trial *t) {
    double most = 0.0;
    head *h = statement_plan(t, N, M, scores_of(t, N, M, t->draw % CHARACTERS), "ceta", 0.6, 1e-12);
    double level[N * M], row[N] = {0.0}, column[M] = {0.0}, all = 0.0;
    for (int k = 0; k < N * M; k++) {
        level[k] = log(h->p[k]) - h->scores[k] / 0.6;
        row[k / M] += level[k] / (double)M;
        column[k % M] += level[k] / (double)N;
        all += level[k] / (N * M);
    }
    for (int k = 0; k < N * M; k++) {
        most = worse(most, fabs(level[k] - row[k / M] - column[k % M] + all));
    }
    return most;
}

/* lambda_i = -f_i - tau, mu_j = -g_j in S - tau (log P + 1) - lambda - mu = 0. */
static double multipliers(trial *t) {
    double most = 0.0;
    const double tau = 0.8;
    head *h = statement_plan(t, N, M, scores_of(t, N, M, t->draw % CHARACTERS), "ceta", tau, 1e-12);
    for (int k = 0; k < N * M; k++) {
        const double lambda = -h->f[k / M] - tau, mu = -h->g[k % M];
        most = worse(most, fabs(h->scores[k] - tau * (log(h->p[k]) + 1.0) - lambda - mu));
    }
    return most;
}

/* Range over tau 1e5: not to converge is no shame, to overflow is. */
static double extreme_range(trial *t) {
    head *h = statement_head(t, N, M, uniforms(t, N * M, 0.0, 1e5));
    h->options.rounds = 50;
    h->options.solver = "log";
    statement_solve(t, h, "softmax/exact", 1.0, 0.0);
    double most = 0.0;
    for (int i = 0; i < N; i++) most = worse(most, fabs(h->rows[i] - 1.0));
    for (int j = 0; j < M; j++) most = worse(most, isfinite(h->g[j]) ? 0.0 : HUGE_VAL);
    return most;
}

/* The first round K >= 1 after which both hold, from plans of exactly K rounds: ||c - 1||_1 / N <= tolerance and
 * osc(g_K - g_{K-1}) <= change; `binds` counts which of them came last. */
static int64_t round_of_both(trial *t, double *s, double tolerance, double change, int binds[2]) {
    double before[M] = {0.0}, moved[M];
    bool near = false, still = false;
    for (int64_t round = 1; round < 1000; round++) {
        const size_t used = t->used;
        head *h = statement_head(t, N, M, s);
        h->options.solver = "log";
        h->options.rounds = round;
        statement_solve(t, h, "softmax/exact", 1.0, 0.0);
        double error = 0.0;
        for (int j = 0; j < M; j++) {
            error += fabs(h->columns[j] - 1.0) / (double)N;
            moved[j] = h->g[j] - before[j];
            before[j] = h->g[j];
        }
        t->used = used;
        if (error <= tolerance && spread_of(moved, M) <= change) {
            binds[near ? 1 : 0] += near != still;
            return round;
        }
        near = error <= tolerance;
        still = spread_of(moved, M) <= change;
    }
    return -1;
}

/* How many rounds from there a solve to both tolerances stops. */
static double stops_on_both(trial *t) {
    static const double tolerances[] = {1e-4, 1e-9, 1e-6}, changes[] = {1e-9, 1e-4, 1e-6};
    double off = 0.0;
    int binds[2] = {0, 0};
    for (int k = 0; k < 3; k++) {
        double *s = normals(t, N * M, 1.0);
        head *h = statement_head(t, N, M, s);
        h->options.solver = "log";
        h->options.tolerance_scaling = changes[k];
        statement_solve(t, h, "softmax/exact", 1.0, tolerances[k]);
        const int64_t round = round_of_both(t, s, tolerances[k], changes[k], binds);
        off += fabs((double)(h->result.rounds - round));
    }
    return binds[0] > 0 && binds[1] > 0 ? seen_too(t, off) : NAN;
}

/* The change alone is no convergence, and the error alone stops nothing: all rounds that are left are run. */
static double one_is_not_enough(trial *t) {
    bool as_claimed = true;
    double *s = normals(t, N * M, 1.0);
    for (int k = 0; k < 2; k++) {
        head *h = statement_head(t, N, M, s);
        h->options.solver = "log";
        h->options.tolerance_scaling = k == 0 ? 1.0 : 1e-14;
        h->options.max_rounds = 4;
        statement_solve(t, h, "softmax/exact", 1.0, k == 0 ? 1e-13 : 0.5);
        as_claimed &= h->result.rounds == 4 && (h->status == OTA_NOT_CONVERGED) == (k == 0);
    }
    return seen_fact(t, as_claimed);
}

/* The constant mode of relaxed columns moves every g alike, by lambda a round: osc does not see it, the largest change
 * would (15277 rounds in the errata, against 104). */
static double oscillation_counts(trial *t) {
    static const char *const methods[] = {"relaxed:999", "softmax/exact"};
    double rounds[2], *s = normals(t, 24 * 24, 3.0);
    for (int k = 0; k < 2; k++) {
        head *h = statement_head(t, 24, 24, s);
        h->options.solver = "log";
        h->options.tolerance_scaling = 1e-10;
        statement_solve(t, h, methods[k], 1.0, 1e-10);
        rounds[k] = h->status == OTA_OK ? (double)h->result.rounds : (double)NAN;
    }
    return seen_too(t, rounds[0] / rounds[1]);
}

/* ---- elastic ---- */

static double no_elastic_round(trial *t) {
    double *s = normals(t, N * M, 2.0);
    head *none = statement_plan(t, N, M, s, "elastic:0.5,0", 1.0, 0.0);
    head *soft = statement_plan(t, N, M, s, "softmax", 1.0, 0.0);
    return different_bits(none->p, soft->p, N * M);
}

static double elastic_rows(trial *t) {
    double most = 0.0;
    for (int steps = 0; steps < 5; steps++) {
        static const char *const methods[] = {"elastic:0.5,0", "elastic:0.5,1", "elastic:1.3,4",
                                              "elastic:0.9,9", "elastic:1.9,3"};
        head *h = statement_plan(t, N, M, normals(t, N * M, 2.0), methods[steps], 0.7, 0.0);
        for (int i = 0; i < N; i++) most = worse(most, fabs(h->rows[i] - 1.0));
    }
    return most;
}

/* g <- g - lambda tau log c by plain loops. */
static void elastic_formula(const double *s, int64_t n, double tau, double lambda, int64_t steps,
                            double *g, double *p) {
    memset(g, 0, (size_t)n * sizeof *g);
    for (int64_t step = 0; step <= steps; step++) {
        double column[64] = {0.0}, row[64];
        for (int64_t i = 0; i < n; i++) {
            for (int64_t j = 0; j < n; j++) row[j] = s[i * n + j] + g[j];
            softmax_formula(row, n, tau, p + i * n);
            for (int64_t j = 0; j < n; j++) column[j] += p[i * n + j];
        }
        if (step == steps) return;
        for (int64_t j = 0; j < n; j++) g[j] -= lambda * tau * log(column[j]);
    }
}

static double elastic_by_loops(trial *t) {
    static const char *const methods[] = {"elastic:0.3,5", "elastic:1,3", "elastic:1.7,6"};
    static const double lambdas[] = {0.3, 1.0, 1.7};
    static const int64_t steps[] = {5, 3, 6};
    double g[N], p[N * M];
    const int k = t->draw % 3;
    double *s = scores_of(t, N, M, t->draw % CHARACTERS);
    head *h = statement_plan(t, N, M, s, methods[k], 0.8, 0.0);
    elastic_formula(s, N, 0.8, lambdas[k], steps[k], g, p);
    return farthest(h->p, p, N * M);
}

static double elastic_one_is_sinkhorn(trial *t) {
    double *s = normals(t, N * M, 2.0);
    head *elastic = statement_plan(t, N, M, s, "elastic:1,4", 1.0, 0.0);
    head *exact = after_rounds(t, N, s, "softmax/exact", 1.0, 4);
    return farthest(elastic->p, exact->p, N * M);
}

static double elastic_zero_is_softmax(trial *t) {
    double *s = normals(t, N * M, 2.0);
    head *elastic = statement_plan(t, N, M, s, "elastic:0,4", 1.0, 0.0);
    head *soft = statement_plan(t, N, M, s, "softmax", 1.0, 0.0);
    return different_bits(elastic->p, soft->p, N * M);
}

/* The same problem ended on rows. */
static double row_ended_elastic(trial *t) {
    double most = 0.0;
    head *h = statement_head(t, N, M, normals(t, N * M, 1.0));
    statement_solve(t, h, "elastic:0.5,3", 1.0, 0.0);
    for (int i = 0; i < N; i++) most = worse(most, fabs(h->rows[i] - 1.0));
    return most;
}

static double printed_elastic_rows(trial *t) {
    double most = 0.0;
    head *h = statement_head(t, N, M, normals(t, N * M, 1.0));
    h->problem.end = OTA_SIDE_COLUMNS;
    statement_solve(t, h, "elastic:0.5,3", 1.0, 0.0);
    for (int i = 0; i < N; i++) most = worse(most, fabs(h->rows[i] - 1.0));
    return most;
}

static double elastic_fixed_points(trial *t) {
    static const char *const methods[] = {"elastic:0.05,6000", "elastic:0.5,600",
                                          "elastic:1.25,300", "elastic:1.9,3000",
                                          "elastic:1.99,30000"};
    double most = 0.0;
    double *s = normals(t, N * M, 0.7);
    head *exact = statement_plan(t, N, M, s, "softmax/exact", 1.0, 1e-14);
    for (int k = 0; k < 5; k++) {
        head *h = statement_plan(t, N, M, s, methods[k], 1.0, 0.0);
        most = worse(most, farthest(h->p, exact->p, N * M));
    }
    return most;
}

/* If lambda were an elasticity, these two would differ. */
static double fixed_points_apart(trial *t) {
    double *s = normals(t, N * M, 0.7);
    head *a = statement_plan(t, N, M, s, "elastic:0.1,3000", 1.0, 0.0);
    head *b = statement_plan(t, N, M, s, "elastic:1,300", 1.0, 0.0);
    return farthest(a->p, b->p, N * M);
}

static double annealed_plan(trial *t) {
    double *s = normals(t, N * M, 1.0);
    head *direct = statement_plan(t, N, M, s, "softmax/exact", 0.3, 1e-13);
    head *h = statement_head(t, N, M, s);
    h->options.anneal_start = 4.0;
    statement_solve(t, h, "softmax/exact", 0.3, 1e-13);
    return farthest(direct->p, h->p, N * M);
}

static double receiver_target(trial *t) {
    double most = 0.0;
    head *h = statement_head(t, N, M, normals(t, N * M, 0.7));
    h->column_mass = distribution(t, M, 0.7);
    for (int j = 0; j < M; j++) h->column_mass[j] *= (double)N;
    statement_solve(t, h, "elastic:1,400", 1.0, 0.0);
    for (int j = 0; j < M; j++) most = worse(most, fabs(h->columns[j] - h->column_mass[j]));
    return most;
}

/* A lambda per key: keys with 0 keep g = 0, the others reach their mass. */
static double lambda_per_key(trial *t) {
    double most = 0.0, *lambdas = numbers(t, M);
    for (int j = 0; j < M; j++) lambdas[j] = j % 2 == 0 ? 0.9 : 0.0;
    head *h = statement_head(t, N, M, normals(t, N * M, 0.7));
    h->problem.lambdas = ota_array_of(lambdas, OTA_F64, 1, 1, 1, M);
    statement_solve(t, h, "elastic:0.5,800", 1.0, 0.0);
    for (int j = 0; j < M; j++) {
        most = worse(most, j % 2 == 0 ? fabs(h->columns[j] - 1.0) : fabs(h->g[j]));
    }
    return most;
}

/* Equal lambda T, small lambda: largest distance of the plans in l1/n. */
static double path_distance(trial *t, const char *a, const char *b) {
    enum { SIZE = 24 };
    double *s = normals(t, SIZE * SIZE, 1.0), l1 = 0.0;
    head *x = statement_plan(t, SIZE, SIZE, s, a, 1.0, 0.0);
    head *y = statement_plan(t, SIZE, SIZE, s, b, 1.0, 0.0);
    for (int k = 0; k < SIZE * SIZE; k++) l1 += fabs(x->p[k] - y->p[k]);
    return l1 / (double)SIZE;
}

static double path_at_one(trial *t) {
    return path_distance(t, "elastic:0.25,4", "elastic:0.05,20");
}
static double path_at_four(trial *t) {
    return path_distance(t, "elastic:0.25,16", "elastic:0.05,80");
}

/* ---- relaxed and Newton ---- */

static double relaxed_near_exact(trial *t) {
    head *h = statement_head(t, N, M, normals(t, N * M, 1.0));
    h->options.solver = "sinkhorn";
    statement_solve(t, h, "relaxed:999", 1.0, 1e-9);
    return h->status != OTA_OK ? NAN : (double)h->result.rounds;
}

/* c = exp(-g/rho) at the optimum, default target 1. */
static double relaxed_stationarity(trial *t) {
    double most = 0.0;
    head *h =
        statement_plan(t, N, M, scores_of(t, N, M, t->draw % CHARACTERS), "relaxed:2", 0.7, 1e-13);
    for (int j = 0; j < M; j++) most = worse(most, fabs(h->columns[j] - exp(-h->g[j] / 2.0)));
    return most;
}

static const statement_check table[] = {
    AT_MOST("CETA-06", "linear domain against log domain", linear_against_log, 1e-10, 12),
    AT_MOST("CETA-07", "row error of a row-ended round at tau .1", row_ended, 4 * N * ROUNDOFF, 6),
    PRINTED_AT_MOST("CETA-07", "row error of the printed order, t = 1 (E16)", column_ended, 1e-9,
                    6),
    AT_MOST("CETA-08", "log P - S/tau is a sum of a row and a column term", scaling_form, 1e-10,
            12),
    AT_MOST("CETA-09", "stationarity with lambda = -f - tau, mu = -g", multipliers, 1e-11, 12),
    AT_MOST("TOT-12", "general marginals by scaling", linear_marginals, 1e-11, 12),
    AT_MOST("TOT-13", "rows at range/eps 1e5, everything finite", extreme_range, 4 * N * ROUNDOFF),
    AT_MOST("TOT-13", "random marginals: log domain against linear domain", log_against_linear,
            1e-10, 12),
    AT_MOST("TOT-14", "rounds between where a solve stops and where both tolerances first hold",
            stops_on_both, 0.0, 8),
    AT_MOST("TOT-14", "change alone is no convergence, error alone stops no solve (0: yes)",
            one_is_not_enough, 0.0),
    AT_MOST("TOT-14", "rounds at lambda = .999 over those of exact columns, both 1e-10",
            oscillation_counts, 1.5, 4),
    AT_MOST("ELA-07", "different bits between no round and softmax", no_elastic_round, 0.0),
    AT_MOST("ELA-08", "row error after any number of rounds", elastic_rows, 4 * N * ROUNDOFF),
    AT_MOST("ELA-09", "g - lambda tau log c by plain loops", elastic_by_loops, 1e-13, 12),
    AT_MOST("ELA-09", "lambda = 1 is Sinkhorn", elastic_one_is_sinkhorn, 4e-16),
    AT_MOST("ELA-09", "lambda = 0 is softmax (different bits)", elastic_zero_is_softmax, 0.0),
    AT_MOST("ELA-10", "row error of the row-ended final matrix, T = 3", row_ended_elastic,
            4 * N * ROUNDOFF),
    PRINTED_AT_MOST("ELA-10", "row error of the printed final matrix, T = 3 (E16)",
                    printed_elastic_rows, 1e-9),
    AT_MOST("ELA-11", "fixed points for lambda .05 to 1.99 against the exact plan",
            elastic_fixed_points, 1e-12),
    PRINTED_AT_LEAST("ELA-11", "lambda is an elasticity: fixed points of .1 and 1 differ by (E18)",
                     fixed_points_apart, 1e-3),
    AT_MOST("ELA-12", "annealed against direct", annealed_plan, 1e-11),
    AT_MOST("ELA-13", "a receiver target is met", receiver_target, 1e-11),
    AT_MOST("ELA-13", "one lambda per key: only keys with one are scaled", lambda_per_key, 1e-11),
    AT_MOST("DER-06", "plans of equal lambda T = 1, l1/n", path_at_one, 1.6e-2, 4),
    AT_MOST("DER-06", "plans of equal lambda T = 4, l1/n", path_at_four, 3.6e-3, 4),
    AT_MOST("DER-10", "column sums are exp(-g/rho)", relaxed_stationarity, 1e-11, 12),
    AT_MOST("DER-10", "rounds at lambda = .999, stopped on the plan", relaxed_near_exact, 150.0),
};
CHECK_GROUP(statement_checks_scaling, table);
