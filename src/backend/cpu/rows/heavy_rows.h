/* heavy_rows.h: rows of entmax with an order below 1 (heavy_rows.c), for the rows of rows.h. `top`: the largest
 * s_j + h_j or sink, a finite number; p may be s; *found comes with potential -INFINITY and all else 0. */
#ifndef OTA_HEAVY_ROWS_H
#define OTA_HEAVY_ROWS_H

#include "backend/backend.h"

/* Weights of keys [0, count) into p. */
void ota_row_heavy_f32(const ota_row_parameters *parameters, const float *s, const float *h,
                       int64_t count, double mu, double top, float *p, ota_row_found *found);
void ota_row_heavy_f64(const ota_row_parameters *parameters, const double *s, const double *h,
                       int64_t count, double mu, double top, double *p, ota_row_found *found);
/* From the potential f as it is. */
void ota_row_heavy_weights_f32(const ota_row_parameters *parameters, const float *s, const float *h,
                               int64_t count, double f, double top, float *p, ota_row_found *found);
void ota_row_heavy_weights_f64(const ota_row_parameters *parameters, const double *s,
                               const double *h, int64_t count, double f, double top, double *p,
                               ota_row_found *found);

#endif
