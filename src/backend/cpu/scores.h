/* scores.h: what makes scores of a row of raw products, in f32 and in f64. */
#ifndef OTA_CPU_SCORES_H
#define OTA_CPU_SCORES_H

#include "kernels/kernels.h"
#include "problem/problem.h"

typedef struct ota_pair_place {
    int64_t batch, head, query;
} ota_pair_place;

/* to[k] = array[batch, head, query, first + k], an array of pairs that repeats where its size is 1. */
void ota_pair_numbers_f32(const ota_kernels_f32_table *kernels, const ota_array *a,
                          const ota_pair_place *place, int64_t first, int64_t count, float *to);
void ota_pair_numbers_f64(const ota_kernels_f64_table *kernels, const ota_array *a,
                          const ota_pair_place *place, int64_t first, int64_t count, double *to);
/* What of a row's weights p [keys] lies on pairs that masks and biases take down to OTA_MASKED_ADDEND. */
double ota_masked_mass_f32(const ota_kernels_f32_table *kernels, const ota_resolved *r,
                           int64_t batch, int64_t head, int64_t query, const float *p);
double ota_masked_mass_f64(const ota_kernels_f64_table *kernels, const ota_resolved *r,
                           int64_t batch, int64_t head, int64_t query, const double *p);
/* Turns raw products q.k (or matrix entries) of keys [begin, end) into scores S: scale, terms in
 * order, elementwise supports (-inf). row[0] belongs to key `begin`. When !r->row_terms, S = scale * raw
 * is all there is and callers may fold it. */
void ota_apply_terms_f32(const ota_kernels_f32_table *kernels, const ota_resolved *r, int64_t batch,
                         int64_t head, int64_t query, int64_t begin, int64_t end, float *row);
void ota_apply_terms_f64(const ota_kernels_f64_table *kernels, const ota_resolved *r, int64_t batch,
                         int64_t head, int64_t query, int64_t begin, int64_t end, double *row);

/* Bit t: r->terms[t] or r->supports[t] is applied. */
typedef struct ota_term_set {
    uint32_t terms, supports;
} ota_term_set;

/* The scale and these terms and supports alone. */
void ota_apply_some_terms_f32(const ota_kernels_f32_table *kernels, const ota_resolved *r,
                              const ota_pair_place *place, ota_term_set some, int64_t begin,
                              int64_t end, float *row);
void ota_apply_some_terms_f64(const ota_kernels_f64_table *kernels, const ota_resolved *r,
                              const ota_pair_place *place, ota_term_set some, int64_t begin,
                              int64_t end, double *row);

/* All of them in f64 for callers without a plan's kernels: every level gives the same bits. */
void ota_row_scores(const ota_resolved *r, int64_t batch, int64_t head, int64_t query,
                    int64_t begin, int64_t end, double *row);

#endif
