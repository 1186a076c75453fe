/* otattn_spectra.h: singular values and eigenvalues of matrices and couplings, by LAPACK.
 *
 * A library of its own, libotattn_spectra, built where LAPACKE is found; everything else works without.
 * Matrices are dense, row-major, double precision and finite; they are read, never written. The caller
 * owns every array; each call allocates a few copies of its matrix. Calls return an ota_status and, when
 * `error` is not NULL, one sentence that names the field and the value: OTA_EINVAL, OTA_EOVERFLOW (2^27 entries or more),
 * OTA_ENOMEM, OTA_NOT_CONVERGED (LAPACK gave up).
 *
 * Nothing ends a call early: LAPACK cannot be asked to. Of n rows and columns on one core (with OpenBLAS on an AMD EPYC;
 * n = 1000) singular values take 0.13 n^3 ns, with vectors 0.31 n^3, moduli of eigenvalues 0.38 n^3, eigenvalues of a
 * symmetric matrix with vectors 0.14 n^3: 24 s at 4000 are the most. */
#ifndef OTATTN_SPECTRA_H
#define OTATTN_SPECTRA_H

#include <stdint.h>

#include "otattn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Below: A [rows, columns] = sum_t sigma_t u_t v_t^T, sigma falling, t < smaller = min(rows, columns). */

/* How many dimensions a matrix really has, by every usual measure. All ranks are 0 for a zero matrix. */
typedef struct ota_spectrum {
    double norm;           /* sigma_1 = ||A||_2 */
    double frobenius;      /* sqrt(sum sigma^2) */
    double nuclear;        /* sum sigma */
    double least;          /* the smallest sigma */
    double condition;      /* norm / least; +inf for a singular matrix */
    double stable_rank;    /* sum sigma^2 / sigma_1^2 */
    double effective_rank; /* exp of the entropy of sigma / sum sigma */
    double participation;  /* (sum sigma^2)^2 / sum sigma^4 */
    int64_t rank;          /* number of sigma > tolerance * sigma_1 */
} ota_spectrum;

/* Singular values, and what the record holds of them: values [smaller] = sigma, or NULL. tolerance 0: max(rows, columns) *
 * 2^-52. With ota_log_ratios: how many query dimensions one layer would need. [TOT-61] */
OTA_API ota_status ota_spectrum_of(const double *matrix, int64_t rows, int64_t columns,
                                   double tolerance, double *values, ota_spectrum *spectrum,
                                   ota_error *error);

/* The singular value decomposition: left [rows, smaller] = u, values [smaller], right [smaller, columns] = v; right and left
 * may be NULL. Signs of a pair u_t, v_t are LAPACK's. */
OTA_API ota_status ota_singular(const double *matrix, int64_t rows, int64_t columns, double *left,
                                double *values, double *right, ota_error *error);

/* The best approximation of lower rank: approximation [rows, columns], the nearest matrix of rank at most `rank`, 0 <= rank,
 * in both norms. *spectral_error = sigma_(rank+1), *frobenius_error = sqrt(sum of the squares from there on) are its
 * distances; either may be NULL. [TOT-62] */
OTA_API ota_status ota_truncate(const double *matrix, int64_t rows, int64_t columns, int64_t rank,
                                double *approximation, double *spectral_error,
                                double *frobenius_error, ota_error *error);

/* One attention layer in place of a coupling S [rows, columns], all above 0: Q [rows, width], K [columns,
 * width] such that Q K^T is the best approximation of rank `width` of log S with its row means taken off.
 * softmax(Q K^T) = S, its rows scaled to sum 1, where the truncated part is 0, that is *frobenius_error = 0 (NULL: not wanted).
 * q, k are filled with zeros beyond the smaller of rows and columns. [TOT-61, 62] */
OTA_API ota_status ota_one_layer(const double *coupling, int64_t rows, int64_t columns,
                                 int64_t width, double *q, double *k, double *frobenius_error,
                                 ota_error *error);

/* Singular values of D_r^-1/2 P D_c^-1/2 of a coupling P [rows, columns], 0 or more, no empty row or column,
 * r, c its own sums: values [smaller], falling, or NULL. They govern Sinkhorn near its end: values[1]^2 is its rate. Dense counterpart of
 * ota_coupling_spectrum_of, for every value at once. */
typedef struct ota_coupling_values {
    double first;   /* 1, to rounding */
    double second;  /* sigma_2^2, as in ota_coupling_spectrum; 0 for one row or column */
    double least;   /* the smallest sigma^2 on the smaller side */
    double gap;     /* 1 - second */
    int64_t blocks; /* number of sigma within 1e-9 of 1: connected parts of the support */
} ota_coupling_values;
OTA_API ota_status ota_coupling_values_of(const double *coupling, int64_t rows, int64_t columns,
                                          double *values, ota_coupling_values *result,
                                          ota_error *error);

/* Moduli of the eigenvalues of a square matrix, falling; values [size]. For P with rows of sum 1 the first is
 * 1 and the second is the rate at which repeated attention forgets where it began. */
OTA_API ota_status ota_eigenvalue_moduli(const double *matrix, int64_t size, double *values,
                                         ota_error *error);

/* Eigenvalues of a symmetric matrix: values [size], rising, and vectors [size, size], row t the eigenvector of values[t], or
 * NULL (checked: |A_ij - A_ji| <= 1e-12 max |A|; the lower triangle is read). Of the Fisher matrix:
 * its nonzero eigenvalues say how fast each direction learns. */
OTA_API ota_status ota_symmetric_eigen(const double *matrix, int64_t size, double *values,
                                       double *vectors, ota_error *error);

#ifdef __cplusplus
}
#endif
#endif
