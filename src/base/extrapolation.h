/* Anderson extrapolation of a map G of column potentials, depth OTA_ANDERSON_DEPTH:
 *
 *     r_k = G(x_k) - x_k,   gamma = argmin |r_k - dR gamma|,
 *     x_{k+1} = x_k + r_k - (dX + dR) gamma
 *
 * x [columns] potentials; dX, dR differences of the last iterates and residuals. Whoever calls guards the
 * step: where the residual of the plan rises, `plain` is the update that the extrapolation replaced. */
#ifndef OTA_EXTRAPOLATION_H
#define OTA_EXTRAPOLATION_H

#include <stdbool.h>
#include <stdint.h>

enum { OTA_ANDERSON_DEPTH = 5, OTA_ANDERSON_VECTORS = 2 * OTA_ANDERSON_DEPTH + 3 };

typedef struct ota_extrapolation {
    double *dx[OTA_ANDERSON_DEPTH], *dr[OTA_ANDERSON_DEPTH], *x, *r, *plain; /* [lane] each */
    int count, next;
    bool started;
} ota_extrapolation;

/* `memory` holds OTA_ANDERSON_VECTORS of `lane` and stays the caller's. */
void ota_extrapolation_place(ota_extrapolation *h, double *memory, int64_t lane);
void ota_extrapolation_reset(ota_extrapolation *h);
/* On entry g = G(x); leaves the next iterate in g, none above `ceiling`. Closed keys (g = -inf) stay. False:
 * g is the plain update, also where the iterate would lie so far off that its differences can only be rounding. */
bool ota_extrapolate(ota_extrapolation *h, const double *x, double *g, int64_t count,
                     double ceiling);

#endif
