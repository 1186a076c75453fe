/* route.h: the kernels of otattn_route.h, f32 or f64 alike, on a block of tokens. T is the type of the logits. */
#ifndef OTA_ROUTE_H
#define OTA_ROUTE_H

#include <stdint.h>

enum { OTA_ROUTE_EXPERTS = 1 << 20 }; /* most, so that places are exact in f32 */

typedef struct ota_route_block {
    int64_t rows, experts;
    const void *logits; /* T [rows], `logits_stride` elements apart */
    int64_t logits_stride;
    void *kernel; /* T [rows][stride] K, 64-byte aligned */
    int64_t stride;
    double *sums;         /* [rows] of K */
    const void *v;        /* T [experts] */
    const double *mass;   /* [rows] 1 / tokens */
    const double *floors; /* [rows] eps */
    double *u;            /* [rows] scratch */
    double *columns;      /* [experts] += u K */
    void *line;           /* T [stride] scratch */
    uint64_t *taken;      /* [stride / 64 + 1] scratch, all 0 */
    int64_t take;
    int64_t *chosen; /* [rows][take] */
    double *shares;  /* [rows][take], or NULL */
    int64_t *loads;  /* [experts] += 1 for each choice */
    double value;    /* out: the sum of the chosen logits */
} ota_route_block;

typedef struct ota_route_passes {
    /* K and its sums; the first row with a logit that is not finite, or -1 */
    int64_t (*form)(const ota_route_block *block);
    void (*round)(const ota_route_block *block); /* u and columns */
    void (*choose)(ota_route_block *block);
} ota_route_passes;

#endif
