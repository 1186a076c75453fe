/* exact_sums.h: sums of numbers of type double that lose nothing, as parts that do not overlap, the smallest first. */
#ifndef OTA_EXACT_SUMS_H
#define OTA_EXACT_SUMS_H

#include <stdint.h>

enum { OTA_EXACT_PARTS = 12 };

typedef struct ota_exact {
    double part[OTA_EXACT_PARTS];
    int32_t count;
} ota_exact;

/* The sum and what its rounding lost, whichever is larger. */
static inline double ota_two_sum(double a, double b, double *lost) {
    const double sum = a + b, of_b = sum - a;
    *lost = (a - (sum - of_b)) + (b - of_b);
    return sum;
}

/* x += b. Where there are more parts than room the smallest is lost, 2^-600 of the largest at most. */
static inline void ota_exact_add(ota_exact *x, double b) {
    int32_t count = 0;
    for (int32_t k = 0; k < x->count; k++) {
        double lost;
        b = ota_two_sum(b, x->part[k], &lost);
        if (lost < 0.0 || lost > 0.0) x->part[count++] = lost;
    }
    if (b < 0.0 || b > 0.0) {
        if (count == OTA_EXACT_PARTS) {
            for (int32_t k = 1; k < count; k++) x->part[k - 1] = x->part[k];
            count--;
        }
        x->part[count++] = b;
    }
    x->count = count;
}

static inline void ota_exact_subtract(ota_exact *x, const ota_exact *y) {
    for (int32_t k = 0; k < y->count; k++) ota_exact_add(x, -y->part[k]);
}

static inline double ota_exact_value(const ota_exact *x) {
    double sum = 0.0;
    for (int32_t k = 0; k < x->count; k++) sum += x->part[k];
    return sum;
}

#endif
