/* Group B, a regulariser of the caller's [LIT-34]: p_j = weight((s_j - t)/tau), weight the inverse derivative of a
 * convex Omega, clipped at 0. S, P [n][m]. */
#include "statements/check.h"

enum { N = 5, M = 8 };

/* Shannon: Omega' = log p. */
static double shannon_weight(void *user, double x) {
    (void)user;
    return exp(fmin(x, 700.0));
}

/* l2: Omega' = p. */
static double square_weight(void *user, double x) {
    (void)user;
    return fmax(0.0, x);
}

static double square_slope(void *user, double x) {
    (void)user;
    return x > 0.0 ? 1.0 : 0.0;
}

/* Neither: Omega' = log(e^p - 1). */
static double softplus_weight(void *user, double x) {
    (void)user;
    return x > 30.0 ? x : log1p(exp(x));
}

static double softplus_slope(void *user, double x) {
    (void)user;
    return 1.0 / (1.0 + exp(-x));
}

/* Falls between -1 and 0. */
static double falling_weight(void *user, double x) {
    (void)user;
    return x * x;
}

static head *custom_head(trial *t, double *s, double (*weight)(void *, double),
                         double (*slope)(void *, double)) {
    head *h = statement_head(t, N, M, s);
    h->problem.regulariser = OTA_CUSTOM;
    h->problem.custom = (ota_custom){.weight = weight, .slope = slope};
    return h;
}

static double forward_as_built_in(trial *t) {
    double most = 0.0;
    const bool square = t->draw % 2 == 0;
    const double tau = between(t, 0.4, 2.0);
    double *s = scores_of(t, N, M, t->draw % CHARACTERS), formula[M];
    head *own = custom_head(t, s, square ? square_weight : shannon_weight,
                            square ? square_slope : shannon_weight);
    statement_solve(t, own, NULL, tau, 0.0);
    if (!square) {
        for (int i = 0; i < N; i++) {
            softmax_formula(s + i * M, M, tau, formula);
            most = worse(most, farthest(own->p + i * M, formula, M));
        }
    }
    head *built = statement_plan(t, N, M, s, square ? "sparsemax" : "softmax", tau, 0.0);
    most = worse(most, farthest(own->p, built->p, N * M));
    return most;
}

static double backward_as_built_in(trial *t) {
    const bool square = t->draw % 2 == 0;
    const double tau = between(t, 0.4, 2.0);
    double *s = scores_of(t, N, M, t->draw % CHARACTERS);
    head *own = custom_head(t, s, square ? square_weight : shannon_weight,
                            square ? square_slope : shannon_weight);
    head *built = statement_head(t, N, M, s);
    own->gradients.coupling = built->gradients.coupling = normals(t, N * M, 1.0);
    statement_pull_back(t, own, NULL, tau, 0.0);
    statement_pull_back(t, built, square ? "sparsemax" : "softmax", tau, 0.0);
    return farthest(own->gradients.scores, built->gradients.scores, N * M);
}

/* s_j/tau - Omega'(p_j) is one number in each row; rows sum to 1. */
static double kkt_of_softplus(trial *t) {
    double most = 0.0;
    const double tau = between(t, 0.4, 2.0);
    head *h = custom_head(t, normals(t, N * M, 1.0), softplus_weight, softplus_slope);
    statement_solve(t, h, NULL, tau, 0.0);
    for (int i = 0; i < N; i++) {
        double level[M];
        for (int j = 0; j < M; j++)
            level[j] = h->scores[i * M + j] / tau - log(expm1(h->p[i * M + j]));
        most = worse(most, spread_of(level, M));
        most = worse(most, fabs(h->rows[i] - 1.0));
    }
    return most;
}

static double falling_refused(trial *t) {
    head *h = custom_head(t, normals(t, N * M, 1.0), falling_weight, square_slope);
    statement_solve(t, h, NULL, 1.0, 0.0);
    return seen_fact(t, h->status == OTA_EINVAL);
}

static const statement_check table[] = {
    AT_MOST("LIT-34", "Shannon and l2 given as functions against the built-in plans",
            forward_as_built_in, 1e-12, 12),
    AT_MOST("LIT-34", "... and their gradients", backward_as_built_in, 1e-12, 12),
    AT_MOST("LIT-34", "softplus: s/tau - Omega'(p) is one number in each row, rows 1",
            kkt_of_softplus, 1e-12, 12),
    AT_MOST("LIT-34", "a function that falls is refused (0: yes)", falling_refused, 0.0),
};
CHECK_GROUP(statement_checks_custom, table);
