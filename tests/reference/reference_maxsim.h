/* reference_maxsim.h: late interaction by plain loops in f64, of token vectors that are dense f64. */
#ifndef REFERENCE_MAXSIM_H
#define REFERENCE_MAXSIM_H

#include <stdint.h>

/* The score of one query [n][width] and one document [m][width]: capacity 0 is max, else every choice of tokens is gone
 * through, which small sizes allow. */
double reference_maxsim(const double *query, int64_t n, const double *document, int64_t m,
                        int64_t width, int64_t capacity);

/* sum over query tokens of the largest sum of |products of entries|: what rounding is relative to. */
double reference_maxsim_size(const double *query, int64_t n, const double *document, int64_t m,
                             int64_t width);

#endif
