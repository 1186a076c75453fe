/* batch_kernels.h: the kernels that calls without a plan use (src/batches/), of one level of instructions. */
#ifndef OTA_BATCH_KERNELS_H
#define OTA_BATCH_KERNELS_H

#include <stdbool.h>

#include "backend/normalize.h"

typedef struct ota_batch_kernels {
    const ota_normalizers *normalize_f32, *normalize_f64;
} ota_batch_kernels;

/* Those of the newest level that the CPU has and `limit` (a name of ota_kernel_name, or NULL for no limit) admits;
 * false where that level is absent or unknown. */
bool ota_batch_kernels_of(const char *limit, ota_batch_kernels *kernels);

#endif
