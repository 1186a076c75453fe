/* Singular values and eigenvalues of dense matrices, by LAPACK.
 *
 *     A [n, m] = sum_t sigma_t u_t v_t^T,    stable rank  sum sigma^2 / sigma_1^2
 *     effective rank  exp(-sum p log p), p = sigma / sum sigma;   participation (sum s^2)^2 / sum s^4
 *
 * A row-major matrix is, read column by column, its transpose: LAPACK is given A^T = sum sigma v u^T, so
 * that nothing is ever transposed. */
#include "analysis/analysis.h"

#include <lapacke.h>
#include <stdlib.h>

#include "spectra.h"

#include "base/integers.h"

ota_status ota_spectra_check(const double *matrix, int64_t rows, int64_t columns, const char *field,
                             const analysis_call *call) {
    ota_status status = analysis_check_size(rows, 1, "rows", call);
    if (status == OTA_OK) status = analysis_check_size(columns, 1, "columns", call);
    if (status != OTA_OK) return status;
    /* LAPACK counts with 32 bits, and its workspace is some ten times the smaller side squared. */
    if (rows > INT32_MAX / 16 / columns) {
        return ota_analysis_fail(call, OTA_EOVERFLOW, "columns", "give a smaller matrix",
                                 "%" PRId64 " x %" PRId64 " entries are more than LAPACK can count",
                                 rows, columns);
    }
    return analysis_check_finite(matrix, rows * columns, field, call);
}

static ota_status no_memory(int64_t rows, int64_t columns, const analysis_call *call) {
    return ota_analysis_fail(call, OTA_ENOMEM, "rows", "use a smaller matrix",
                             "no memory for %" PRId64 " x %" PRId64 " entries", rows, columns);
}

double *ota_spectra_memory(int64_t rows, int64_t columns, const analysis_call *call) {
    double *const memory = malloc((size_t)rows * (size_t)columns * sizeof *memory);
    if (memory == NULL) (void)no_memory(rows, columns, call);
    return memory;
}

/* Divide and conquer, or where that does not converge (it may, on graded matrices) the older iteration. */
static int decompose(double *copy, const double *matrix, int64_t rows, int64_t columns, char job,
                     double *left, double *values, double *right) {
    const size_t bytes = (size_t)rows * (size_t)columns * sizeof *copy;
    const lapack_int m = (lapack_int)columns, n = (lapack_int)rows, least = m < n ? m : n;
    /* Without vectors LAPACK asks for leading dimensions all the same, but writes nothing. */
    double none;
    double *const u = right != NULL ? right : &none, *const vt = left != NULL ? left : &none;
    memcpy(copy, matrix, bytes);
    lapack_int info = LAPACKE_dgesdd(LAPACK_COL_MAJOR, job, m, n, copy, m, values, u, m, vt, least);
    if (info <= 0) return (int)info;
    double *const above = malloc((size_t)least * sizeof *above);
    if (above == NULL) return LAPACK_WORK_MEMORY_ERROR;
    memcpy(copy, matrix, bytes);
    info =
        LAPACKE_dgesvd(LAPACK_COL_MAJOR, job, job, m, n, copy, m, values, u, m, vt, least, above);
    free(above);
    return (int)info;
}

ota_status ota_spectra_decompose(const double *matrix, int64_t rows, int64_t columns, double *left,
                                 double *values, double *right, const analysis_call *call) {
    const int64_t smaller = ota_int_min(rows, columns);
    const bool vectors = left != NULL || right != NULL;
    double *const copy = ota_spectra_memory(rows, columns, call);
    if (copy == NULL) return OTA_ENOMEM;
    /* LAPACK gives both sides or none. */
    double *const own_right =
        vectors && right == NULL ? ota_spectra_memory(smaller, columns, call) : NULL;
    double *const own_left =
        vectors && left == NULL ? ota_spectra_memory(rows, smaller, call) : NULL;
    double *const u = left != NULL ? left : own_left, *const v = right != NULL ? right : own_right;
    ota_status status = vectors && (u == NULL || v == NULL) ? OTA_ENOMEM : OTA_OK;
    if (status == OTA_OK) {
        const int info = decompose(copy, matrix, rows, columns, vectors ? 'S' : 'N', u, values, v);
        if (info < 0) status = no_memory(rows, columns, call);
        if (info > 0) {
            status = ota_analysis_fail(call, OTA_NOT_CONVERGED, "matrix", "scale its entries",
                                       "LAPACK did not converge on %d singular values", info);
        }
    }
    free(own_right);
    free(own_left);
    free(copy);
    return status;
}

ota_status ota_singular(const double *matrix, int64_t rows, int64_t columns, double *left,
                        double *values, double *right, ota_error *error) {
    const analysis_call call = ota_analysis_begin(NULL, error);
    const ota_status status = ota_spectra_check(matrix, rows, columns, "matrix", &call);
    if (status != OTA_OK) return status;
    return ota_spectra_decompose(matrix, rows, columns, left, values, right, &call);
}

/* Sums are taken of sigma / sigma_1, so that no square overflows. */
static void measure(const double *values, int64_t count, double tolerance, ota_spectrum *spectrum) {
    const double top = values[0];
    *spectrum = (ota_spectrum){.norm = top, .least = values[count - 1]};
    spectrum->condition = top / values[count - 1];
    if (top == 0.0) {
        spectrum->condition = (double)INFINITY;
        return;
    }
    double first = 0.0, second = 0.0, fourth = 0.0;
    for (int64_t t = 0; t < count; t++) {
        const double x = values[t] / top;
        first += x;
        second += x * x;
        fourth += x * x * x * x;
        if (x > tolerance) spectrum->rank++;
    }
    double entropy = 0.0;
    for (int64_t t = 0; t < count; t++) {
        const double p = values[t] / top / first;
        if (p > 0.0) entropy -= p * log(p);
    }
    spectrum->frobenius = top * sqrt(second);
    spectrum->nuclear = top * first;
    spectrum->stable_rank = second;
    spectrum->effective_rank = exp(entropy);
    spectrum->participation = second * second / fourth;
}

ota_status ota_spectrum_of(const double *matrix, int64_t rows, int64_t columns, double tolerance,
                           double *values, ota_spectrum *spectrum, ota_error *error) {
    const analysis_call call = ota_analysis_begin(NULL, error);
    ota_status status = ota_spectra_check(matrix, rows, columns, "matrix", &call);
    if (status != OTA_OK) return status;
    if (!(tolerance >= 0.0) || isinf(tolerance)) {
        return ota_analysis_fail(&call, OTA_EINVAL, "tolerance", "give a number from 0 to 1",
                                 "tolerance is %g", tolerance);
    }
    const int64_t smaller = ota_int_min(rows, columns);
    const double usual = (double)ota_int_max(rows, columns) * 0x1p-52;
    double *const sigma = values != NULL ? values : ota_spectra_memory(smaller, 1, &call);
    if (sigma == NULL) return OTA_ENOMEM;
    status = ota_spectra_decompose(matrix, rows, columns, NULL, sigma, NULL, &call);
    if (status == OTA_OK) measure(sigma, smaller, tolerance > 0.0 ? tolerance : usual, spectrum);
    if (sigma != values) free(sigma);
    return ota_analysis_end(status, &call);
}

ota_status ota_eigenvalue_moduli(const double *matrix, int64_t size, double *values,
                                 ota_error *error) {
    const analysis_call call = ota_analysis_begin(NULL, error);
    ota_status status = ota_spectra_check(matrix, size, size, "matrix", &call);
    if (status != OTA_OK) return status;
    double *const copy = ota_spectra_memory(size + 2, size, &call);
    if (copy == NULL) return OTA_ENOMEM;
    double *const real = copy + size * size, *const imaginary = real + size;
    double none = 0.0;
    memcpy(copy, matrix, (size_t)(size * size) * sizeof *copy);
    const lapack_int n = (lapack_int)size;
    const lapack_int info =
        LAPACKE_dgeev(LAPACK_COL_MAJOR, 'N', 'N', n, copy, n, real, imaginary, &none, 1, &none, 1);
    if (info < 0) status = no_memory(size, size, &call);
    if (info > 0) {
        status = ota_analysis_fail(&call, OTA_NOT_CONVERGED, "matrix", "scale its entries",
                                   "LAPACK found only the last %d eigenvalues", (int)(n - info));
    }
    for (int64_t t = 0; t < size && status == OTA_OK; t++) {
        const double modulus = hypot(real[t], imaginary[t]);
        int64_t place = t;
        for (; place > 0 && values[place - 1] < modulus; place--) values[place] = values[place - 1];
        values[place] = modulus;
    }
    free(copy);
    return ota_analysis_end(status, &call);
}

static ota_status check_symmetric(const double *matrix, int64_t size, const analysis_call *call) {
    double top = 0.0;
    for (int64_t i = 0; i < size * size && analysis_goes_on(call, i); i++)
        top = fmax(top, fabs(matrix[i]));
    for (int64_t i = 0; i < size && ota_analysis_goes_on(call); i++) {
        for (int64_t j = 0; j < i && analysis_goes_on(call, j); j++) {
            const double difference = matrix[i * size + j] - matrix[j * size + i];
            if (fabs(difference) <= 1e-12 * top) continue;
            return ota_analysis_fail(call, OTA_EINVAL, "matrix", "give a symmetric matrix",
                                     "entries (%" PRId64 ", %" PRId64 ") and (%" PRId64 ", %" PRId64
                                     ") differ by %g",
                                     i, j, j, i, difference);
        }
    }
    return OTA_OK;
}

ota_status ota_symmetric_eigen(const double *matrix, int64_t size, double *values, double *vectors,
                               ota_error *error) {
    const analysis_call call = ota_analysis_begin(NULL, error);
    ota_status status = ota_spectra_check(matrix, size, size, "matrix", &call);
    if (status == OTA_OK) status = check_symmetric(matrix, size, &call);
    if (status != OTA_OK) return status;
    double *const copy = vectors != NULL ? vectors : ota_spectra_memory(size, size, &call);
    if (copy == NULL) return OTA_ENOMEM;
    memmove(copy, matrix, (size_t)(size * size) * sizeof *copy);
    const lapack_int n = (lapack_int)size;
    /* The lower triangle by rows is the upper one by columns. */
    const lapack_int info =
        LAPACKE_dsyevd(LAPACK_COL_MAJOR, vectors != NULL ? 'V' : 'N', 'U', n, copy, n, values);
    if (info < 0) status = no_memory(size, size, &call);
    if (info > 0) {
        status = ota_analysis_fail(&call, OTA_NOT_CONVERGED, "matrix", "scale its entries",
                                   "LAPACK did not converge on %d eigenvalues", (int)info);
    }
    if (copy != vectors) free(copy);
    return ota_analysis_end(status, &call);
}
