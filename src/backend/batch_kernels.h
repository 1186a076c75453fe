/* batch_kernels.h: what calls without a plan (src/batches/) take from the backend for CPUs. */
#ifndef OTA_BATCH_KERNELS_H
#define OTA_BATCH_KERNELS_H

#include "costs.h"
#include "matching.h"

typedef struct ota_batch_kernels {
    const ota_costs *costs[2]; /* of f64, f32 */
    const ota_match_passes *match;
} ota_batch_kernels;

/* The newest level that this processor has and `limit` admits (NULL or "": any); false: there is none of that name. */
bool ota_batch_kernels_choose(const char *limit, ota_batch_kernels *kernels);

#endif
