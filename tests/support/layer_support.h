/* layer_support.h: what the tests of layers and blocks share: random arrays, distances, refusals. */
#ifndef TESTS_LAYER_SUPPORT_H
#define TESTS_LAYER_SUPPORT_H

#include <string.h>

#include "analysis_random.h"

static const double u64 = 0x1p-53;

static inline void fill(uint64_t *state, double *x, int64_t count, double spread) {
    for (int64_t i = 0; i < count; i++) x[i] = spread * normal(state);
}

static inline double largest_difference(const double *x, const double *y, int64_t count) {
    double largest = 0.0;
    for (int64_t i = 0; i < count; i++) {
        if (isnan(x[i]) || isnan(y[i])) return NAN;
        largest = fmax(largest, fabs(x[i] - y[i]));
    }
    return largest;
}

/* The call gives this status and an error about this field, in `error` of the caller. */
#define REFUSED(call, status, name)                                                                \
    do {                                                                                           \
        memset(&error, 0, sizeof error);                                                           \
        assert_int_equal((call), (status));                                                        \
        assert_string_equal(error.field, (name));                                                  \
        assert_true(error.message[0] != '\0' && error.hint[0] != '\0');                            \
    } while (0)

#endif
