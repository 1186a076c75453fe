/* What the table of kernels offers to calls without a plan. */
#include "backend/batch_kernels.h"

#include <stddef.h>

#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/pack.h"

bool ota_batch_kernels_of(const char *limit, ota_batch_kernels *kernels) {
    const ota_kernels *level = ota_kernels_choose(limit);
    if (level == NULL) return false;
    *kernels = (ota_batch_kernels){.costs = {level->f64->costs, level->f32->costs},
                                   .match = level->f64->match,
                                   .normalize_f32 = level->f32->normalizers,
                                   .normalize_f64 = level->f64->normalizers,
                                   .bounded = level->f64->bounded,
                                   .maxsim = level->f32->maxsim,
                                   .maxsim_pairs = level->bf16 ? level->bf16->maxsim : NULL,
                                   .widen = level->f32->widen,
                                   .route_f32 = level->f32->route,
                                   .route_f64 = level->f64->route,
                                   .read_rows_f32 = ota_pack_rows_f32,
                                   .read_pairs = ota_pairs_of_rows};
    return true;
}
