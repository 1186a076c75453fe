/* (diag(excess) + Laplacian(links)) x = b by elimination without subtraction.
 *
 *     pivot_k = excess_k + sum_{j<k} N_kj
 *     N_ij += N_ki N_kj / pivot_k,   excess_i += N_ki excess_k / pivot_k          i, j < k
 *
 * N [count][stride] symmetric off-diagonal part with the sign turned, so that every number above
 * is a sum of non-negative terms: links that differ by hundreds of decades keep their relative
 * accuracy, which the Hessian of a cold plan needs (the idea of Grassmann, Taksar and Heyman for
 * Markov chains). */
#include "coupled.h"

/* Links to nodes whose x is given hold the others and pull them. */
static void fold_fixed(double *links, int64_t stride, int64_t count, double *excess,
                       const unsigned char *fixed, double *b, const double *x) {
    for (int64_t i = 0; i < count; i++) {
        for (int64_t j = 0; j < i; j++) {
            double *link = &links[i * stride + j];
            if (fixed[i] == 0 && fixed[j] == 0) continue;
            if (fixed[i] == 0) {
                excess[i] += *link;
                b[i] += *link * x[j];
            }
            if (fixed[j] == 0) {
                excess[j] += *link;
                b[j] += *link * x[i];
            }
            *link = 0.0;
        }
    }
}

void ota_laplacian_factor(const ota_host_algebra *algebra, double *links, int64_t stride,
                          int64_t count, double *excess, const unsigned char *fixed) {
    for (int64_t k = count - 1; k >= 0; k--) {
        const double *row = links + k * stride;
        const bool held = fixed != NULL && fixed[k] != 0;
        const double pivot = held ? 0.0 : excess[k] + algebra->sum(row, k);
        if (!(pivot > 0.0)) {
            excess[k] = 0.0;
            continue;
        }
        for (int64_t i = 0; i < k; i++) {
            const double share = row[i] / pivot;
            if (!(share > 0.0)) continue;
            algebra->accumulate(row, i, share, links + i * stride);
            excess[i] += share * excess[k];
        }
        excess[k] = pivot;
    }
}

void ota_laplacian_substitute(const ota_host_algebra *algebra, const double *links, int64_t stride,
                              int64_t count, const double *pivots, const unsigned char *fixed,
                              double *b, double *x) {
    for (int64_t k = count - 1; k >= 0; k--) {
        if (pivots[k] > 0.0) algebra->accumulate(links + k * stride, k, b[k] / pivots[k], b);
    }
    for (int64_t k = 0; k < count; k++) {
        if (fixed != NULL && fixed[k] != 0) continue;
        const double *row = links + k * stride;
        double sum = b[k];
        for (int64_t j = 0; j < k; j++) sum += row[j] * x[j];
        x[k] = pivots[k] > 0.0 ? sum / pivots[k] : 0.0;
    }
}

void ota_laplacian_solve(const ota_host_algebra *algebra, double *links, int64_t stride,
                         int64_t count, double *excess, const unsigned char *fixed, double *b,
                         double *x) {
    fold_fixed(links, stride, count, excess, fixed, b, x);
    ota_laplacian_factor(algebra, links, stride, count, excess, fixed);
    ota_laplacian_substitute(algebra, links, stride, count, excess, fixed, b, x);
}
