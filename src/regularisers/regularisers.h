/* regularisers.h: what R(P) makes of the weights of a row, as facts that plans, solvers and backends ask instead of
 * comparing the order alpha. With f the potential of the row:
 *
 *     softmax   tau sum P (log P - 1)     P = exp((S + f) / tau)                            alpha 1
 *     entmax    Tsallis, 1 < alpha        P = [(alpha - 1) (S + f) / tau]_+^(1 / (alpha - 1))
 *               Tsallis, 0 < alpha < 1    the same without []_+ : S + f < 0, and P > 0 falls like a power of it
 *     hard      nothing                   all mass where S + f is largest                   alpha 0
 *     custom    the caller's              P = weight((S + f) / tau)                         counts as alpha 2
 *
 * With entry caps the weights are the least of these and c; then softmax is exponential no more.
 *
 * Orders below 1 have a row of the table of their own: like softmax they give every allowed pair weight, like entmax
 * their weights are powers. Row kernels keep alpha, a number of their formulas.
 *
 * This folder: the rows (regularisers.c), their validation (regulariser_checks.c), levels and slopes of Tsallis
 * weights that keep their digits next to order 1 (tsallis.h). The arithmetic of a row of weights is a backend's.
 * May call: base/ and problem/. */
#ifndef OTA_REGULARISERS_H
#define OTA_REGULARISERS_H

#include "problem/problem.h"

typedef struct ota_regulariser_row {
    const char *name;
    ota_regulariser kind;
    bool exponential; /* weights are products of scalings, rows have a log-sum-exp */
    bool tsallis;     /* weights are powers of S + f, their slopes P^(2 - alpha) */
    bool thresholded; /* weights may be exactly 0 where scores are finite */
    bool capped;      /* P_ij <= c_ij: of weights at their cap only the inequality holds */
    double order;     /* alpha; 0: the problem's */
} ota_regulariser_row;

/* Is there a temperature, and do potentials move the weights? */
static inline bool ota_is_smooth(const ota_regulariser_row *row) { return row->kind != OTA_HARD; }

static inline bool ota_is_heavy_tailed(const ota_regulariser_row *row) {
    return row->tsallis && !row->thresholded;
}

/* Of a problem: its regulariser, of entmax by its order, or the same with entry caps where it has any. */
const ota_regulariser_row *ota_regulariser_of(const ota_problem *problem);
/* The validation: fills its part of `r` from r->problem. */
ota_status ota_resolve_regulariser(ota_resolved *r, ota_error *error);

#endif
