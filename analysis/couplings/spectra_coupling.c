/* What singular values say about couplings.
 *
 *     nearest of rank k      A_k = sum_(t<=k) sigma_t u_t v_t^T,  |A - A_k|_2 = sigma_(k+1)      [TOT-62]
 *     one layer for S        Q K^T = A_width of log S less its row means; softmax drops those  [TOT-61]
 *     Sinkhorn near its end  sigma of D_r^-1/2 P D_c^-1/2, r = P 1, c = P^T 1                 [TOT-103] */
#include "analysis/analysis.h"

#include <stdlib.h>

#include "base/integers.h"
#include "spectra.h"

typedef struct factors {
    double *left, *values, *right; /* [rows, smaller], [smaller], [smaller, columns] */
    int64_t smaller;
} factors;

static void drop(factors *x) {
    free(x->left);
    free(x->values);
    free(x->right);
}

static ota_status decompose(const double *matrix, int64_t rows, int64_t columns, factors *x,
                            const analysis_call *call) {
    x->smaller = ota_int_min(rows, columns);
    x->left = ota_spectra_memory(rows, x->smaller, call);
    x->values = ota_spectra_memory(x->smaller, 1, call);
    x->right = ota_spectra_memory(x->smaller, columns, call);
    ota_status status = OTA_ENOMEM;
    if (x->left != NULL && x->values != NULL && x->right != NULL) {
        status = ota_spectra_decompose(matrix, rows, columns, x->left, x->values, x->right, call);
    }
    if (status != OTA_OK) drop(x);
    return status;
}

static double tail(const factors *x, int64_t rank) {
    double norm = 0.0;
    for (int64_t t = rank; t < x->smaller; t++) norm = hypot(norm, x->values[t]);
    return norm;
}

ota_status ota_truncate(const double *matrix, int64_t rows, int64_t columns, int64_t rank,
                        double *approximation, double *spectral_error, double *frobenius_error,
                        ota_error *error) {
    const analysis_call call = ota_analysis_begin(NULL, error);
    ota_status status = ota_spectra_check(matrix, rows, columns, "matrix", &call);
    if (status == OTA_OK) status = analysis_check_size(rank, 0, "rank", &call);
    if (status != OTA_OK) return status;
    factors x;
    status = decompose(matrix, rows, columns, &x, &call);
    if (status != OTA_OK) return status;
    const int64_t kept = ota_int_min(rank, x.smaller);
    for (int64_t i = 0; i < rows && ota_analysis_goes_on(&call); i++) {
        double *const row = approximation + i * columns;
        for (int64_t j = 0; j < columns; j++) row[j] = 0.0;
        for (int64_t t = 0; t < kept && ota_analysis_goes_on(&call); t++) {
            const double weight = x.left[i * x.smaller + t] * x.values[t];
            for (int64_t j = 0; j < columns; j++) row[j] += weight * x.right[t * columns + j];
        }
    }
    if (spectral_error != NULL) *spectral_error = kept < x.smaller ? x.values[kept] : 0.0;
    if (frobenius_error != NULL) *frobenius_error = tail(&x, kept);
    drop(&x);
    return ota_analysis_end(OTA_OK, &call);
}

static ota_status centred_logarithms(const double *coupling, int64_t rows, int64_t columns,
                                     double *centred, const analysis_call *call) {
    for (int64_t i = 0; i < rows && ota_analysis_goes_on(call); i++) {
        double mean = 0.0;
        for (int64_t j = 0; j < columns && analysis_goes_on(call, j); j++) {
            const double p = coupling[i * columns + j];
            if (!(p > 0.0)) {
                return ota_analysis_fail(
                    call, OTA_EINVAL, "coupling", "use a method of full support",
                    "entry (%" PRId64 ", %" PRId64 ") of coupling is %g", i, j, p);
            }
            centred[i * columns + j] = log(p);
            mean += centred[i * columns + j] / (double)columns;
        }
        for (int64_t j = 0; j < columns; j++) centred[i * columns + j] -= mean;
    }
    return OTA_OK;
}

/* Both factors take the root of sigma, so that neither Q nor K carries the size alone. */
static void share(const factors *x, int64_t rows, int64_t columns, int64_t width, double *q,
                  double *k) {
    for (int64_t t = 0; t < width; t++) {
        const bool there = t < x->smaller;
        const double root = there ? sqrt(x->values[t]) : 0.0;
        for (int64_t i = 0; i < rows; i++)
            q[i * width + t] = there ? root * x->left[i * x->smaller + t] : 0.0;
        for (int64_t j = 0; j < columns; j++)
            k[j * width + t] = there ? root * x->right[t * columns + j] : 0.0;
    }
}

ota_status ota_one_layer(const double *coupling, int64_t rows, int64_t columns, int64_t width,
                         double *q, double *k, double *frobenius_error, ota_error *error) {
    const analysis_call call = ota_analysis_begin(NULL, error);
    ota_status status = ota_spectra_check(coupling, rows, columns, "coupling", &call);
    if (status == OTA_OK) status = analysis_check_size(width, 1, "width", &call);
    if (status != OTA_OK) return status;
    double *const centred = ota_spectra_memory(rows, columns, &call);
    if (centred == NULL) return OTA_ENOMEM;
    factors x;
    status = centred_logarithms(coupling, rows, columns, centred, &call);
    if (status == OTA_OK) status = decompose(centred, rows, columns, &x, &call);
    free(centred);
    if (status != OTA_OK) return status;
    share(&x, rows, columns, width, q, k);
    if (frobenius_error != NULL) *frobenius_error = tail(&x, width);
    drop(&x);
    return ota_analysis_end(OTA_OK, &call);
}

/* scaled = D_r^-1/2 P D_c^-1/2; sums [rows + columns] */
static ota_status scale(const double *coupling, int64_t rows, int64_t columns, double *sums,
                        double *scaled, const analysis_call *call) {
    for (int64_t k = 0; k < rows + columns; k++) sums[k] = 0.0;
    for (int64_t i = 0; i < rows && ota_analysis_goes_on(call); i++) {
        for (int64_t j = 0; j < columns; j++) {
            const double p = coupling[i * columns + j];
            if (p < 0.0) {
                return ota_analysis_fail(call, OTA_EINVAL, "coupling", "weights are 0 or more",
                                         "entry (%" PRId64 ", %" PRId64 ") of coupling is %g", i, j,
                                         p);
            }
            sums[i] += p;
            sums[rows + j] += p;
        }
    }
    for (int64_t k = 0; k < rows + columns; k++) {
        if (sums[k] > 0.0) continue;
        return ota_analysis_fail(call, OTA_EINVAL, "coupling", "leave empty rows and columns out",
                                 "%s %" PRId64 " of coupling is empty", k < rows ? "row" : "column",
                                 k < rows ? k : k - rows);
    }
    for (int64_t i = 0; i < rows && ota_analysis_goes_on(call); i++) {
        for (int64_t j = 0; j < columns; j++) {
            scaled[i * columns + j] =
                coupling[i * columns + j] / sqrt(sums[i]) / sqrt(sums[rows + j]);
        }
    }
    return OTA_OK;
}

ota_status ota_coupling_values_of(const double *coupling, int64_t rows, int64_t columns,
                                  double *values, ota_coupling_values *result, ota_error *error) {
    const analysis_call call = ota_analysis_begin(NULL, error);
    ota_status status = ota_spectra_check(coupling, rows, columns, "coupling", &call);
    if (status != OTA_OK) return status;
    const int64_t smaller = ota_int_min(rows, columns);
    double *const scaled = ota_spectra_memory(rows, columns, &call);
    double *const sums =
        scaled == NULL ? NULL : ota_spectra_memory(rows + columns + smaller, 1, &call);
    if (sums == NULL) {
        free(scaled);
        return OTA_ENOMEM;
    }
    double *const sigma = values != NULL ? values : sums + rows + columns;
    status = scale(coupling, rows, columns, sums, scaled, &call);
    if (status == OTA_OK) {
        status = ota_spectra_decompose(scaled, rows, columns, NULL, sigma, NULL, &call);
    }
    if (status == OTA_OK) {
        *result = (ota_coupling_values){.first = sigma[0], .least = sigma[smaller - 1]};
        result->second = smaller > 1 ? sigma[1] * sigma[1] : 0.0;
        result->least *= result->least;
        result->gap = 1.0 - result->second;
        for (int64_t t = 0; t < smaller; t++) {
            if (sigma[t] >= 1.0 - 1e-9) result->blocks++;
        }
    }
    free(scaled);
    free(sums);
    return ota_analysis_end(status, &call);
}
