/* A head of queries, keys and values in f32, above a block and no multiple of a vector, for the checks of blocked.c and
 * blocked_rules.c. Q [N][D], K [M][D], V [M][E], S = Q K^T / sqrt(D), P [N][M]. */
#ifndef OTATTN_STATEMENTS_BLOCKED_H
#define OTATTN_STATEMENTS_BLOCKED_H

#include "statements/check.h"

/* Widths that are no multiple of 8 either. */
enum { N = 97, M = 131, D = 43, E = 27 };

#define FLOAT_ROUNDOFF 0x1p-24

typedef struct blocked {
    float *q, *k, *v, *out;
    float *out_grad, *q_grad, *k_grad, *v_grad;
    double *s, *p, *columns;         /* columns: sums of P over the share N / M */
    double unit, f[N], g[M], lse[N]; /* f, g: potentials */
    ota_problem problem;
    ota_options options;
    ota_support supports[2];
    ota_term term;
} blocked;

blocked *statement_blocked_head(trial *t, double tau);
/* Solves by the method (NULL: as the problem stands) and, where `pull`, differentiates; NULL where a call fails. */
blocked *statement_blocked_run(trial *t, blocked *b, const char *method, bool pull);
/* Relative errors of the weights against softmax(S / tau), in units of the bound. */
double statement_blocked_softmax_errors(const blocked *b, double tau);
/* Weights of entmax of order alpha for one row s [M], by bisection. */
void statement_entmax_formula(const double *s, double alpha, double *p);
/* dQ, dK, dV of softmax plans or, where `columns`, of exact ones: largest error over the largest entry of each, in units. */
double statement_blocked_gradients(trial *t, blocked *b, const char *method, bool columns);

#endif
