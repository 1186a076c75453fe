/* capped_rows.h: rows of capped weights (solve_capped_rows.c, capped_lists.c), for the rows of rows.h. `top`: the largest x_j = s_j + h_j or
 * sink, a finite number; p may be s; *found comes with potential -INFINITY and all else 0. */
#ifndef OTA_CAPPED_ROWS_H
#define OTA_CAPPED_ROWS_H

#include "backend/backend.h"
#include "backend/cpu/rows/rows.h"

/* Weights of keys [0, count) into p; a row whose caps have no room for mu is infeasible and 0. */
void ota_row_capped_f32(const ota_row_parameters *parameters, const float *s, const float *h,
                        int64_t count, double mu, double top, float *p, ota_row_found *found);
void ota_row_capped_f64(const ota_row_parameters *parameters, const double *s, const double *h,
                        int64_t count, double mu, double top, double *p, ota_row_found *found);
/* The same as a list (capped_lists.c): in its order keys below their caps, then found->full at theirs; returns how many. Quick where
 * *parameters->threshold is about -f. */
int64_t ota_row_capped_list_f32(const ota_row_parameters *parameters, const float *s,
                                const float *h, int64_t count, double mu, double top,
                                const ota_row_room *room, ota_row_found *found);
int64_t ota_row_capped_list_f64(const ota_row_parameters *parameters, const double *s,
                                const double *h, int64_t count, double mu, double top,
                                const ota_row_room *room, ota_row_found *found);
/* From the potential f as it is. */
void ota_row_capped_weights_f32(const ota_row_parameters *parameters, const float *s,
                                const float *h, int64_t count, double f, float *p,
                                ota_row_found *found);
void ota_row_capped_weights_f64(const ota_row_parameters *parameters, const double *s,
                                const double *h, int64_t count, double f, double *p,
                                ota_row_found *found);

#endif
