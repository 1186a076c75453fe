/* dense.h: the little dense arithmetic that layers and blocks need, on row-major arrays.
 *
 *     product     C [n,m] = A [n,k] B [k,m] (+ b [m] in every row)
 *     norm        ||x||_2, without overflow or underflow on the way */
#ifndef OTATTN_ANALYSIS_DENSE_H
#define OTATTN_ANALYSIS_DENSE_H

#include "analysis/analysis.h"

/* The end of the piece that begins at `first`: a loop over pieces looks between them, not at every entry. */
static inline int64_t dense_piece(int64_t first, int64_t count) {
    return count - first > 4096 ? first + 4096 : count;
}

static inline double dense_dot(const double *x, const double *y, int64_t count,
                               const analysis_call *call) {
    double sum = 0.0;
    for (int64_t i = 0; i < count && (i == 0 || ota_analysis_goes_on(call));) {
        const int64_t end = dense_piece(i, count);
        for (; i < end; i++) sum += x[i] * y[i];
    }
    return sum;
}

static inline double dense_norm(const double *x, int64_t count, const analysis_call *call) {
    double largest = 0.0, sum = 0.0;
    for (int64_t i = 0; i < count && analysis_goes_on(call, i); i++)
        largest = fmax(largest, fabs(x[i]));
    /* The ends of the range where squares and their sums stay normal numbers. */
    if (largest > 0x1p-500 && largest < 0x1p480) return sqrt(dense_dot(x, x, count, call));
    if (!(largest > 0.0) || isinf(largest)) return largest;
    for (int64_t i = 0; i < count && analysis_goes_on(call, i); i++)
        sum += (x[i] / largest) * (x[i] / largest);
    return largest * sqrt(sum);
}

/* ||x - y||_2 */
static inline double dense_distance(const double *x, const double *y, int64_t count,
                                    const analysis_call *call) {
    double sum = 0.0;
    for (int64_t i = 0; i < count && analysis_goes_on(call, i); i++)
        sum += (x[i] - y[i]) * (x[i] - y[i]);
    return sqrt(sum);
}

typedef struct dense_size {
    int64_t rows, inner, columns;
} dense_size;

/* a [rows, inner] has rows `a_stride` apart. `start` is NULL or the row every row of c begins from. */
static inline void dense_product(const double *a, int64_t a_stride, const double *b,
                                 const double *start, double *c, dense_size size,
                                 const analysis_call *call) {
    const int64_t rows = size.rows, inner = size.inner, columns = size.columns;
    for (int64_t i = 0; i < rows && ota_analysis_goes_on(call); i++) {
        double *row = c + i * columns;
        for (int64_t j = 0; j < columns; j++) row[j] = start == NULL ? 0.0 : start[j];
        for (int64_t k = 0; k < inner && ota_analysis_goes_on(call); k++) {
            const double factor = a[i * a_stride + k];
            for (int64_t j = 0; j < columns; j++) row[j] += factor * b[k * columns + j];
        }
    }
}

#endif
