/* Two layers of attention as one, and how many query dimensions that one would need.
 *
 *     S = S2 S1                       rows of S sum to 1 when those of S2 [n, k] and S1 [k, m] do  [TOT-62]
 *     Z_ij = log S_i,j+1 - log S_i0   S = softmax(Q K^T), Q [n, d], exactly when rank Z <= d       [TOT-61]
 *
 * (If Z = Q K'^T, then K = (0, K') gives log S up to a constant in every row, which softmax drops.)
 * The rank comes from elimination with complete pivoting: it tells zero from nonzero; singular values,
 * and with them the best approximation of a given rank, are not computed here. */
#include "analysis/analysis.h"
#include "base/integers.h"

static ota_status check_product(int64_t rows, int64_t columns, const analysis_call *call) {
    ota_status status = analysis_check_size(rows, 1, "rows", call);
    if (status == OTA_OK) status = analysis_check_size(columns, 1, "columns", call);
    if (status != OTA_OK) return status;
    if (rows <= INT64_MAX / 8 / columns) return OTA_OK;
    return ota_analysis_fail(call, OTA_EOVERFLOW, "columns", "give a smaller matrix",
                             "%" PRId64 " x %" PRId64 " entries leave the range of sizes", rows,
                             columns);
}

static ota_status check_stochastic(const double *matrix, int64_t rows, int64_t columns,
                                   const char *field, const analysis_call *call) {
    for (int64_t i = 0; i < rows && ota_analysis_goes_on(call); i++) {
        double total = 0.0;
        for (int64_t j = 0; j < columns && analysis_goes_on(call, j); j++) {
            const double p = matrix[i * columns + j];
            if (!(p >= 0.0) || isinf(p)) {
                return ota_analysis_fail(
                    call, OTA_EINVAL, field, "probabilities are finite, 0 or more",
                    "entry (%" PRId64 ", %" PRId64 ") of %s is %g", i, j, field, p);
            }
            total += p;
        }
        if (!(fabs(total - 1.0) <= 1e-6)) {
            return ota_analysis_fail(call, OTA_EINVAL, field, "divide every row by its sum",
                                     "row %" PRId64 " of %s sums to %.9g, not to 1", i, field,
                                     total);
        }
    }
    return OTA_OK;
}

ota_status ota_compose(const double *second, const double *first, int64_t rows, int64_t inner,
                       int64_t columns, double *coupling, const ota_analysis_options *options,
                       ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    ota_status status = check_product(rows, inner, &call);
    if (status == OTA_OK) status = check_product(inner, columns, &call);
    if (status == OTA_OK) status = check_product(rows, columns, &call);
    if (status == OTA_OK) status = check_stochastic(second, rows, inner, "second", &call);
    if (status == OTA_OK) status = check_stochastic(first, inner, columns, "first", &call);
    if (status != OTA_OK) return status;
    for (int64_t i = 0; i < rows && ota_analysis_goes_on(&call); i++) {
        double *row = coupling + i * columns;
        for (int64_t j = 0; j < columns; j++) row[j] = 0.0;
        for (int64_t l = 0; l < inner; l++) {
            if ((columns > 4096 || l % 16 == 0) && !ota_analysis_goes_on(&call)) break;
            const double weight = second[i * inner + l];
            for (int64_t j = 0; j < columns; j++) row[j] += weight * first[l * columns + j];
        }
    }
    return ota_analysis_end(OTA_OK, &call);
}

ota_status ota_log_ratios(const double *coupling, int64_t rows, int64_t columns, double *ratio,
                          const ota_analysis_options *options, ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    ota_status status = check_product(rows, columns, &call);
    if (status == OTA_OK) status = analysis_check_size(columns, 2, "columns", &call);
    if (status == OTA_OK)
        status = analysis_check_positive(coupling, rows * columns, "coupling", &call);
    if (status != OTA_OK) return status;
    for (int64_t i = 0; i < rows && ota_analysis_goes_on(&call); i++) {
        const double *row = coupling + i * columns, first = log(row[0]);
        for (int64_t j = 1; j < columns && analysis_goes_on(&call, j); j++)
            ratio[i * (columns - 1) + j - 1] = log(row[j]) - first;
    }
    return ota_analysis_end(OTA_OK, &call);
}

static void swap(double *x, double *y) {
    const double kept = *x;
    *x = *y;
    *y = kept;
}

ota_status ota_rank(double *matrix, int64_t rows, int64_t columns, double tolerance, double *pivots,
                    int64_t *rank, const ota_analysis_options *options, ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    ota_status status = check_product(rows, columns, &call);
    if (status == OTA_OK) status = analysis_check_finite(matrix, rows * columns, "matrix", &call);
    if (status == OTA_OK && !(tolerance >= 0.0 && tolerance < 1.0)) {
        status =
            ota_analysis_fail(&call, OTA_EINVAL, "tolerance", "choose a number from 0 to below 1",
                              "tolerance is %g", tolerance);
    }
    if (status != OTA_OK) return status;
    const int64_t most = ota_int_min(rows, columns);
    *rank = 0;
    for (int64_t k = 0; k < most && ota_analysis_goes_on(&call); k++) {
        int64_t row = k, column = k;
        for (int64_t i = k; i < rows && ota_analysis_goes_on(&call); i++) {
            for (int64_t j = k; j < columns; j++) {
                if (fabs(matrix[i * columns + j]) > fabs(matrix[row * columns + column])) {
                    row = i;
                    column = j;
                }
            }
        }
        const double pivot = matrix[row * columns + column];
        pivots[k] = fabs(pivot);
        if (!(fabs(pivot) > 0.0)) continue;
        if (pivots[k] > tolerance * pivots[0]) *rank = k + 1;
        for (int64_t j = 0; j < columns; j++) {
            if (row != k) swap(&matrix[row * columns + j], &matrix[k * columns + j]);
        }
        for (int64_t i = 0; i < rows; i++) {
            if (column != k) swap(&matrix[i * columns + column], &matrix[i * columns + k]);
        }
        for (int64_t i = k + 1; i < rows && ota_analysis_goes_on(&call); i++) {
            const double factor = matrix[i * columns + k] / pivot;
            for (int64_t j = k; j < columns; j++) {
                matrix[i * columns + j] -= factor * matrix[k * columns + j];
            }
        }
    }
    return ota_analysis_end(OTA_OK, &call);
}
