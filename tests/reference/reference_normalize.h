/* What otattn_normalize.h computes, in plain loops of f64, one matrix a call: the formulas as they are printed, to copy
 * numbers from. It needs nothing but the C library. Pinned results lie in normalize_vectors.h. */
#ifndef OTA_REFERENCE_NORMALIZE_H
#define OTA_REFERENCE_NORMALIZE_H

enum { REFERENCE_SIDE = 33, REFERENCE_ROUNDS = 256 };

/* plan [n][n] from scores [n][n], 1 <= n <= REFERENCE_SIDE, 1 <= rounds (deepseek: 0) <= REFERENCE_ROUNDS. deepseek: softmax of rows +
 * eps, then with rounds columns, then rounds - 1 times rows and columns, each divided by its sum + eps. symmetric: rounds times rows and
 * columns by their log-sum-exp. Returns the largest |row sum - 1|. */
double reference_deepseek(int n, int rounds, double eps, const double *scores, double *plan);
double reference_symmetric(int n, int rounds, const double *scores, double *plan);

/* scores_grad = dL/dS from plan_grad = dL/dP, of exactly those rounds. */
void reference_deepseek_backward(int n, int rounds, double eps, const double *scores,
                                 const double *plan_grad, double *scores_grad);
void reference_symmetric_backward(int n, int rounds, const double *scores, const double *plan_grad,
                                  double *scores_grad);

/* dL/dS of P = exp(S_ij + f_i + g_j) with fixed sums of rows and columns, by elimination on all f, g. */
void reference_implicit(int n, const double *plan, const double *plan_grad, double *scores_grad);

#endif
