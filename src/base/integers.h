/* integers.h: minimum, maximum, quotients and multiples of whole numbers. Checked sizes are in base.h. */
#ifndef OTA_INTEGERS_H
#define OTA_INTEGERS_H

#include <stddef.h>
#include <stdint.h>

static inline int64_t ota_int_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t ota_int_max(int64_t a, int64_t b) { return a > b ? a : b; }

/* The least whole number that is not below a / b; a >= 0, b > 0. */
static inline int64_t ota_int_ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }

/* The least multiple of `step` that is not below a; a >= 0, step > 0. */
static inline int64_t ota_int_round_up(int64_t a, int64_t step) {
    return ota_int_ceil_div(a, step) * step;
}

/* To a step that is a power of two, without a division. */
static inline int64_t ota_int_round_up_to_lanes(int64_t a, int64_t lanes) {
    return (a + lanes - 1) & -lanes;
}

static inline size_t ota_size_min(size_t a, size_t b) { return a < b ? a : b; }
static inline size_t ota_size_max(size_t a, size_t b) { return a > b ? a : b; }

/* The same for sizes; wraps around where the multiple leaves size_t. */
static inline size_t ota_size_round_up(size_t a, size_t step) {
    return (a / step + (a % step != 0)) * step;
}

#endif
