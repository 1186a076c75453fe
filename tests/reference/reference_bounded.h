/* The optimum of ota_assign_bounded by plain loops, for small problems. */
#ifndef OTA_REFERENCE_BOUNDED_H
#define OTA_REFERENCE_BOUNDED_H

#include <stdint.h>

/* costs [n][m]; +INFINITY forbids a pair. The least cost, or INFINITY where no assignment meets the bounds. */
double ota_reference_bounded(const double *costs, int64_t n, int64_t m, int64_t take,
                             const int64_t *lower, const int64_t *upper);

#endif
