/* bounded_kernels.h: passes over a row of costs for rows that take k columns under bounds on loads. Vectors are as long as
 * `stride`, a multiple of OTA_BOUNDED_LANES; minima and sums in one order, so all levels of instructions find the same
 * bits. */
#ifndef OTA_BACKEND_BOUNDED_H
#define OTA_BACKEND_BOUNDED_H

#include <stdint.h>

enum { OTA_BOUNDED_LANES = 16, OTA_BOUNDED_PANEL = 8 };

/* What leaves a node of the search at length `from` and price `own`. */
typedef struct ota_bounded_node {
    int64_t node;
    double from, own;
} ota_bounded_node;

typedef struct ota_bounded_passes {
    /* out[i][stride]: sum over t of (points_it - centres_jt)^2, t rising, of `rows` rows of points [rows][width];
       centres [stride / OTA_BOUNDED_PANEL][width][OTA_BOUNDED_PANEL] */
    void (*distances)(const double *points, int64_t rows, const double *centres, int64_t width,
                      int64_t stride, double *out);
    /* sum_j = x_j + y_j, and the first place of the least; none is NaN */
    int64_t (*cheapest)(const double *x, const double *y, int64_t stride, double *sum);
    /* Bit j, in words of 64: costs_j - own <= ceiling - base_j */
    void (*within)(const double *costs, double own, double ceiling, const double *base,
                   int64_t stride, uint64_t *bits);
    /* length_j = min(length_j, from + max(best_j + (price_j - own), 0)); before_j = node where it fell */
    void (*relax)(const ota_bounded_node *node, const double *best, const double *price,
                  int64_t stride, double *length, int64_t *before);
} ota_bounded_passes;

#endif
