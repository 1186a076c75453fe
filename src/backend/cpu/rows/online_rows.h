/* online_rows.h: softmax rows under capacities of keys, of which real.h says the type. */
#ifndef OTA_ONLINE_ROWS_H
#define OTA_ONLINE_ROWS_H

#include <math.h>

#include "backend/cpu/real.h"
#include "rows.h"

/* Softmax rows: exponentials once, in T, all sums and what is taken in f64. Keys whose share exceeds their capacity are filled,
 * and the others share what is left. False, and nothing is changed: the open keys are so far below the others that T does not
 * carry them, or all are full, or it is no such row. `scratch` may hold anything. */
static bool online_softmax(const ota_row_parameters *row, const real *s, int64_t count, double mu,
                           double *remaining, real *p, double *scratch, ota_row_found *found) {
    const double least = OTA_REAL_BITS == 32 ? 1.0e-25 : 1.0e-280;
    if (!row->regulariser->exponential || row->regulariser->capped || !(mu > 0.0)) return false;
    const double keys_top = (double)KERNELS(row)->maximum(s, NULL, count);
    const double top = isnan(keys_top) || keys_top > row->sink ? keys_top : row->sink;
    if (!(top - top <= 0.0)) return false;
    real *e = (real *)(void *)scratch;
    const double shift = (double)(real)top;
    const double all = row_exponentials(row, s, count, shift, e);
    /* Where rounding goes upward, 2^-inf is no 0. */
    for (int64_t j = 0; j < count; j++) e[j] = s[j] > (real)-INFINITY ? e[j] : (real)0;
    const double sink =
        row->sink > -INFINITY ? exp((row->sink / 2.0 - shift / 2.0) / (row->tau / 2.0)) : 0.0;
    double left = mu, factor = 0.0, taken = 0.0, filled_mass = 0.0, sum;
    int64_t filled = 1;
    while (filled > 0 && left > 0.0) {
        sum = KERNELS(row)->online->sum(e, remaining, count) + sink;
        if (!(sum >= least)) return false;
        factor = left / sum;
        filled = KERNELS(row)->online->fill(e, remaining, count, factor, &taken);
        filled_mass += taken;
        left = mu - filled_mass;
    }
    *found = (ota_row_found){.lse = log(all + sink) + shift / row->tau,
                             .potential = row->tau * log(factor) - shift};
    if (!(left > 0.0)) factor = 0.0;
    KERNELS(row)->online->give(e, factor, count, remaining, p);
    found->sink = sink * factor;
    found->mass = left > 0.0 ? mu - found->sink : filled_mass;
    return true;
}

#endif
