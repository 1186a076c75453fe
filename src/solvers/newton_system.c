/* (diag(excess) + Laplacian(links)) x = b by elimination without subtraction.
 *
 *     pivot_k = excess_k + sum_{j<k} N_kj
 *     N_ij += N_ki N_kj / pivot_k,   excess_i += N_ki excess_k / pivot_k          i, j < k
 *
 * N [count][stride] symmetric off-diagonal part with the sign turned, so that every number above
 * is a sum of non-negative terms: links that differ by hundreds of decades keep their relative
 * accuracy, which the Hessian of a cold plan needs (the idea of [grassmann1985] for
 * Markov chains). */
#include "coupled.h"

/* Links to nodes whose x is given hold the others and pull them. */
static void fold_fixed(const ota_laplacian *is, double *b, const double *x) {
    for (int64_t i = 0; i < is->count; i++) {
        for (int64_t j = 0; j < i; j++) {
            double *link = &is->links[i * is->stride + j];
            if (is->fixed[i] == 0 && is->fixed[j] == 0) continue;
            if (is->fixed[i] == 0) {
                is->excess[i] += *link;
                b[i] += *link * x[j];
            }
            if (is->fixed[j] == 0) {
                is->excess[j] += *link;
                b[j] += *link * x[i];
            }
            *link = 0.0;
        }
    }
}

void ota_laplacian_factor(ota_laplacian *is) {
    for (int64_t k = is->count - 1; k >= 0 && !ota_watch_ends(&is->watch, k * k / 2); k--) {
        const double *row = is->links + k * is->stride;
        const bool held = is->fixed != NULL && is->fixed[k] != 0;
        const double pivot = held ? 0.0 : is->excess[k] + is->algebra->sum(row, k);
        if (!(pivot > 0.0)) {
            is->excess[k] = 0.0;
            continue;
        }
        for (int64_t i = 0; i < k; i++) {
            const double share = row[i] / pivot;
            if (!(share > 0.0)) continue;
            is->algebra->accumulate(row, i, share, is->links + i * is->stride);
            is->excess[i] += share * is->excess[k];
        }
        is->excess[k] = pivot;
    }
}

void ota_laplacian_substitute(const ota_laplacian *is, double *b, double *x) {
    const double *pivots = is->excess;
    for (int64_t k = is->count - 1; k >= 0; k--) {
        if (pivots[k] > 0.0)
            is->algebra->accumulate(is->links + k * is->stride, k, b[k] / pivots[k], b);
    }
    for (int64_t k = 0; k < is->count; k++) {
        if (is->fixed != NULL && is->fixed[k] != 0) continue;
        const double *row = is->links + k * is->stride;
        double sum = b[k];
        for (int64_t j = 0; j < k; j++) sum += row[j] * x[j];
        x[k] = pivots[k] > 0.0 ? sum / pivots[k] : 0.0;
    }
}

void ota_laplacian_solve(ota_laplacian *is, double *b, double *x) {
    fold_fixed(is, b, x);
    ota_laplacian_factor(is);
    ota_laplacian_substitute(is, b, x);
}
