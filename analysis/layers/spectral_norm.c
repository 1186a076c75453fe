/* The largest singular value from above, by squaring the Gram matrix: no library of linear algebra is needed. */
#include "otattn_analysis.h"

#include "analysis/analysis.h"
#include "dense.h"

double ota_spectral_norm(const double *a, int64_t rows, int64_t columns, int64_t row_stride,
                         double *workspace, const ota_analysis_options *options) {
    const analysis_call call = ota_analysis_begin(options, NULL);
    const bool wide = columns > rows;
    const int64_t side = wide ? rows : columns, inner = wide ? columns : rows;
    const int64_t step = wide ? row_stride : 1, along = wide ? 1 : row_stride;
    double *g = workspace, *square = workspace + side * side, largest = 0.0;
    for (int64_t i = 0; i < rows && ota_analysis_goes_on(&call); i++) {
        for (int64_t j = 0; j < columns && analysis_goes_on(&call, j); j++)
            largest = fmax(largest, fabs(a[i * row_stride + j]));
    }
    if (!(largest > 0.0) || isinf(largest)) return largest;
    for (int64_t i = 0; i < side && ota_analysis_goes_on(&call); i++) {
        for (int64_t j = 0; j < side && ota_analysis_goes_on(&call); j++) {
            double sum = 0.0;
            for (int64_t k = 0; k < inner && analysis_goes_on(&call, k); k++)
                sum += (a[i * step + k * along] / largest) * (a[j * step + k * along] / largest);
            g[i * side + j] = sum;
        }
    }
    /* log of tr(G^k)^(1/k), k = 1, 2, 4 ...; G is scaled to trace 1 at each step, and a trace exceeds the
       largest eigenvalue at most `side` times. */
    double logarithm = 0.0, weight = 1.0;
    for (;;) {
        double trace = 0.0;
        for (int64_t i = 0; i < side; i++) trace += g[i * side + i];
        logarithm += weight * log(trace);
        for (int64_t i = 0; i < side * side; i++) g[i] /= trace;
        if (weight * log((double)side) <= 2e-9) break;
        if (!ota_analysis_goes_on(&call)) return (double)NAN;
        dense_product(g, side, g, NULL, square, (dense_size){side, side, side}, &call);
        for (int64_t i = 0; i < side * side; i++) g[i] = square[i];
        weight *= 0.5;
    }
    if (!ota_analysis_goes_on(&call)) return (double)NAN;
    /* Rounding of a step weighs half as much as that of the step before. */
    const double rounding = 4.0 * (double)(rows + columns) * 0x1p-53;
    return largest * exp(0.5 * logarithm) * (1.0 + rounding);
}
