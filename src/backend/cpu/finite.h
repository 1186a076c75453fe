/* finite.h: are numbers finite, and may kernels take rows where they lie? Shared by the passes that pack rows for kernels. */
#ifndef OTA_CPU_FINITE_H
#define OTA_CPU_FINITE_H

#include "backend/cpu/real.h"

/* Several sums side by side, which the compiler makes one vector. */
static inline bool all_finite(const real *x, int64_t count) {
    enum { LANES = 16 };
    real zero[LANES] = {0}, all = (real)0;
    const int64_t whole = count / LANES * LANES;
    for (int64_t k = 0; k < whole; k += LANES) {
        for (int l = 0; l < LANES; l++) zero[l] += x[k + l] - x[k + l];
    }
    for (int64_t k = whole; k < count; k++) zero[0] += x[k] - x[k];
    for (int l = 0; l < LANES; l++) all += zero[l];
    return all == (real)0;
}

/* Rows from `first` on, if they lie one behind the other in the plan's type; else NULL. */
static inline real *dense_rows(const ota_array *a, int64_t batch, int64_t head, int64_t first) {
    if (a->type != REAL_TYPE || a->size[2] < 2 || a->stride[3] != 1 || a->stride[2] != a->size[3])
        return NULL;
    return (real *)a->data + (a->size[0] == 1 ? 0 : batch * a->stride[0]) +
           (a->size[1] == 1 ? 0 : head * a->stride[1]) + first * a->stride[2];
}

/* The first `rows` rows of a head as they lie, where they are one block of finite numbers of T; else NULL. */
static inline const real *finite_rows(const OF_TYPE(table) *kernels, const ota_array *a,
                                      int64_t batch, int64_t head, int64_t rows) {
    const real *at = dense_rows(a, batch, head, 0);
    return at != NULL && kernels->terms->is_finite(at, rows * a->size[3]) ? at : NULL;
}

#endif
