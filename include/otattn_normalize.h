/* otattn_normalize.h: batches of small square matrices made doubly stochastic, as manifold-constrained
 * hyper-connections (mHC) mix residual streams. No plan: one call solves all.
 *
 * scores, plan and their gradients are dense [count][side][side], 1 <= side <= 128, all of `type`. Rows first:
 *
 *     deepseek    P = softmax of every row + eps, P_ij /= eps + sum_i P_ij; then rounds - 1 times
 *                 P_ij /= eps + sum_j P_ij, P_ij /= eps + sum_i P_ij
 *     symmetric   P_ij = exp(S_ij + f_i + g_j), g = 0; then rounds times f so that rows sum to 1, g so that columns do.
 *                 The transpose of S converges to the transpose
 *
 * Both end on columns, whose sums are then 1 (deepseek: but for eps). A score of -inf has weight 0 (deepseek: in the softmax,
 * before eps is added). A matrix with NaN, +inf, a row or (symmetric) a column of -inf alone, or a sum of 0 is NaN throughout;
 * the others are right, and the call returns OTA_NONFINITE_ROWS. A matrix has the same bits alone, in any batch and for any number of threads.
 *
 *     float scores[4096 * 16], plan[4096 * 16];                                    ... fill scores ...
 *     const ota_normalization problem = {
 *         .size = sizeof problem, .type = OTA_F32, .count = 4096, .side = 4, .eps = 1e-6};
 *     if (ota_normalize(&problem, scores, plan, &error) < 0) puts(error.message);
 */
#ifndef OTATTN_NORMALIZE_H
#define OTATTN_NORMALIZE_H

#include <stddef.h>
#include <stdint.h>

#include "otattn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Which of the two kinds of rounds above. */
typedef enum ota_normalize_order {
    OTA_NORMALIZE_DEEPSEEK = 0,
    OTA_NORMALIZE_SYMMETRIC = 1
} ota_normalize_order;

/* Zero means the default in every field but `size`, `type` and `side`. */
typedef struct ota_normalization {
    size_t size;   /* sizeof(ota_normalization) */
    ota_type type; /* OTA_F32 or OTA_F64 */
    ota_normalize_order order;
    int64_t count, side;
    int64_t
        rounds; /* 1 to 2^20; 0: 20. OTA_NO_ROUNDS, deepseek alone: P = softmax of every row + eps */
    /* deepseek: added to weights and sums, 0 to 1; published models use 1e-6. symmetric: 0 */
    double eps;
    /* symmetric, 0 to 1: a matrix stops where every row sums to 1 within this, after `rounds` at the latest; 0: after `rounds`.
       deepseek: 0 */
    double tolerance;
    /* backward: 0 differentiates the rounds that forward runs, 1 the conditions of what they converge to */
    int implicit;
    int threads;                  /* 0: the CPUs this process may use */
    const ota_executor *executor; /* NULL: own threads */
    const char *cpu;              /* NULL or a name of ota_kernel_name: use nothing newer */
    const int *cancel;            /* as in ota_options */
    int64_t deadline_ns;          /* as in ota_options */
} ota_normalization;

/* Makes every matrix doubly stochastic: plan = P. OTA_OK where every matrix met a tolerance, OTA_FIXED_ITERS without one,
 * OTA_PARTIAL where some did not meet it, OTA_NONFINITE_ROWS where some are NaN; OTA_CANCELLED and OTA_TIMEOUT leave all
 * NaN. OTA_EINVAL; OTA_UNSUPPORTED for what the order does not have (above) and a problem of a newer header; OTA_EALIGN,
 * OTA_EALIAS (the arrays may not overlap), OTA_EOVERFLOW, OTA_ENOMEM. */
OTA_API ota_status ota_normalize(const ota_normalization *problem, const void *scores, void *plan,
                                 ota_error *error);

/* Gradients by the scores: scores_grad = dL/dS from plan_grad = dL/dP. Rounds are run again from the scores, and `plan` may
 * be NULL; implicit gradients are, in either order, those of P = exp(S_ij + f_i + g_j) with the row and column sums that `plan`
 * has, and `scores` may be NULL. scores_grad overlaps nothing that is read. OTA_OK, or OTA_NONFINITE_ROWS where gradients of some
 * matrices are NaN; OTA_CANCELLED and OTA_TIMEOUT leave all NaN; otherwise the errors of ota_normalize. */
OTA_API ota_status ota_normalize_backward(const ota_normalization *problem, const void *scores,
                                          const void *plan, const void *plan_grad,
                                          void *scores_grad, ota_error *error);

#ifdef __cplusplus
}
#endif

#endif
