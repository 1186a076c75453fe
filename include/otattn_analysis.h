/* otattn_analysis.h: measures of plans and of distributions, on top of otattn.h.
 *
 * Everything is double precision. The caller owns every array; calls return an ota_status and, when
 * `error` is not NULL, one sentence that names the field and the value. */
#ifndef OTATTN_ANALYSIS_H
#define OTATTN_ANALYSIS_H

#include <stdint.h>

#include "otattn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- transport between distributions at Hamming cost ----------------------------------------
 *
 * p, q over the same V symbols, C_ij = 1 for i != j and 0 for i = j:
 *
 *     minimise <P,C> - epsilon H(P),   P1 = p,  P^T1 = q,   H(P) = -sum P log P
 *
 * The kernel exp(-C / epsilon) is (1 - alpha) I + alpha 1 1^T with alpha = exp(-1/epsilon), so everything
 * takes O(V) time and memory. [TOT-15..18, DER-05, DER-28] */

typedef enum ota_hamming_solver {
    OTA_HAMMING_NEWTON = 0, /* one scalar root, at most a handful of steps [DER-05, DER-28]          */
    OTA_HAMMING_SINKHORN    /* alternating scaling [TOT-16]                                          */
} ota_hamming_solver;

typedef struct ota_hamming_result {
    ota_status status;
    int64_t rounds;        /* Newton steps, or Sinkhorn rounds                                       */
    double theta;          /* the root: (alpha sigma)^2 / (1 - alpha), sigma = sum u = sum v; NaN for
                              Sinkhorn                                                               */
    double cost;           /* <P,C>, the mass that changes its symbol [TOT-18]                       */
    double objective;      /* <P,C> - epsilon H(P)                                                   */
    double marginal_error; /* ||P1 - p||_1 + ||P^T1 - q||_1                                          */
    double tv;             /* total variation of p and q, the cost at epsilon = 0 [TOT-36]           */
} ota_hamming_result;

/* y = (1 - alpha) x + alpha sum(x), alpha = exp(-1/epsilon); x, y [size], y may be x. [TOT-15] */
OTA_API void ota_hamming_matvec(double epsilon, const double *x, double *y, int64_t size);

/* p, q [size]: 0 or more, finite, each of sum 1 within 1e-6 (and then scaled to 1). u, v [size] or
 * NULL receive the scalings, P = diag(u) K diag(v); Sinkhorn needs both. tolerance (0: 1e-10) and
 * max_rounds (0: 1000) are Sinkhorn's; Newton goes on to the last bit. OTA_NOT_CONVERGED still fills
 * the result. At 1/epsilon > 700, where alpha underflows, Newton returns the limit: P_ii = min(p_i,q_i)
 * and a product coupling of what is left; u and v are NaN then. */
OTA_API ota_status ota_hamming(const double *p, const double *q, int64_t size, double epsilon,
                               ota_hamming_solver solver, double tolerance, int64_t max_rounds,
                               double *u, double *v, ota_hamming_result *result, ota_error *error);

/* objective(p,q) - (objective(p,p) + objective(q,q)) / 2: 0 at p = q, total variation as epsilon -> 0,
 * ||p - q||_2^2 / 2 as epsilon -> infinity. `result` is that of (p,q), or NULL; u, v as above. [TOT-17] */
OTA_API ota_status ota_hamming_divergence(const double *p, const double *q, int64_t size,
                                          double epsilon, ota_hamming_solver solver,
                                          double tolerance, int64_t max_rounds, double *u, double *v,
                                          double *divergence, ota_hamming_result *result,
                                          ota_error *error);

#ifdef __cplusplus
}
#endif
#endif
