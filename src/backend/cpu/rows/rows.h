/* One row of the problem with known column potentials h (units of S, NULL = 0), any precision:
 *
 *     softmax   p_j = mu 2^((s_j + h_j - max) c) / sum           c = log2(e) / tau
 *     entmax    p_j = [(alpha-1)(s_j + h_j)/tau - t]_+^(1/(alpha-1)),  t fixed by sum p = mu
 *     custom    p_j = weight((s_j + h_j + f) / tau),           f fixed by sum p = mu
 *     hard      all of mu on the first largest s_j + h_j
 *     online    the same with p_j <= remaining_j, which shrinks
 *
 * The sink, when there is one, is one more key with logit `sink` and h = 0. Relaxed rows
 * (row_strength rho finite, entropy only): f = rho/(rho+tau) tau (log mu - lse), sum p != mu.
 *
 * This folder: softmax, entmax, custom, hard and online rows, orders of entmax below 1 (heavy_rows) and above 2
 * (edge_rows), rows with entry caps (capped_rows); thresholds are searched for by backend/threshold.h, edges by
 * backend/edge.h. May call: the kernels of a level. */
#ifndef OTA_ROWS_H
#define OTA_ROWS_H

#include "backend/backend.h"
#include "backend/cpu/kernels/kernels.h"
#include "otattn.h"

/* Weights of keys [0, count) into p (p may be s itself). */
void ota_row_solve_f32(const ota_row_parameters *parameters, const float *s, const float *h,
                       int64_t count, double mu, float *p, ota_row_found *found);
void ota_row_solve_f64(const ota_row_parameters *parameters, const double *s, const double *h,
                       int64_t count, double mu, double *p, ota_row_found *found);
/* p_j = e^((s_j - shift) / tau) for scores of any size, p may be s; returns the sum. shift is a T. */
double ota_row_exponentials_f32(const ota_row_parameters *parameters, const float *s, int64_t count,
                                double shift, float *p);
double ota_row_exponentials_f64(const ota_row_parameters *parameters, const double *s,
                                int64_t count, double shift, double *p);
/* What one row of kept keys works in; elements for count + OTA_COMPACT_ROOM keys. */
typedef struct ota_row_room {
    void *kept;     /* T: scores, in the end weights */
    int32_t *where; /* their keys */
    double *wide;
    double *between,
        *caps; /* of rows within caps, or NULL: keys that may be at their caps or not, and these */
    int32_t *full; /* keys at their caps */
} ota_row_room;

/* Entmax as a list: weight kept[i] at key where[i] of [0, count), all others 0; returns how many (0 for an
 * empty, nonfinite or massless row). Keys rise; within caps those of the last found->full, which are at their caps, begin
 * anew. count < 2^31. */
int64_t ota_row_entmax_f32(const ota_row_parameters *parameters, const float *s, const float *h,
                           int64_t count, double mu, const ota_row_room *room,
                           ota_row_found *found);
int64_t ota_row_entmax_f64(const ota_row_parameters *parameters, const double *s, const double *h,
                           int64_t count, double mu, const ota_row_room *room,
                           ota_row_found *found);
/* Weights from both potentials as they are (no row update). */
void ota_row_weights_f32(const ota_row_parameters *parameters, const float *s, const float *h,
                         int64_t count, double f, float *p, ota_row_found *found);
void ota_row_weights_f64(const ota_row_parameters *parameters, const double *s, const double *h,
                         int64_t count, double f, double *p, ota_row_found *found);
/* Online: remaining[j] is read and lowered. `order` scratch holds count int64. */
void ota_row_online_f32(const ota_row_parameters *parameters, const float *s, int64_t count,
                        double mu, double *remaining, float *p, double *scratch,
                        ota_row_found *found);
void ota_row_online_f64(const ota_row_parameters *parameters, const double *s, int64_t count,
                        double mu, double *remaining, double *p, double *scratch,
                        ota_row_found *found);

#endif
