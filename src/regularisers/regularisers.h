/* regularisers.h: what R(P) makes of the weights of a row, as facts that plans, solvers and backends ask instead of
 * comparing the order alpha. With f the potential of the row:
 *
 *     softmax   tau sum P (log P - 1)     P = exp((S + f) / tau)                            alpha 1
 *     entmax    Tsallis, 1 < alpha        P = [(alpha - 1) (S + f) / tau]_+^(1 / (alpha - 1))
 *     hard      nothing                   all mass where S + f is largest                   alpha 0
 *     custom    the caller's              P = weight((S + f) / tau)                         counts as alpha 2
 *
 * With entry caps the weights are the least of these and c; then softmax is exponential no more.
 *
 * Row kernels keep alpha, a number of their formulas. */
#ifndef OTA_REGULARISERS_H
#define OTA_REGULARISERS_H

#include "problem/problem.h"

typedef struct ota_regulariser_row {
    const char *name;
    ota_regulariser kind;
    bool smooth;      /* there is a temperature, and potentials move the weights */
    bool exponential; /* weights are products of scalings, rows have a log-sum-exp */
    bool thresholded; /* weights may be exactly 0 where scores are finite */
    bool capped;      /* P_ij <= c_ij: of weights at their cap only the inequality holds */
    double order;     /* alpha; 0: the problem's */
} ota_regulariser_row;

/* Of a problem: its regulariser, or the same with entry caps where it has any. */
const ota_regulariser_row *ota_regulariser_of(const ota_problem *problem);

#endif
