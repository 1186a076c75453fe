/* The kernels of calls without a plan, of one level of instructions. */
#include "backend/batch_kernels.h"

#include "kernels/kernels.h"

bool ota_batch_kernels_choose(const char *limit, ota_batch_kernels *kernels) {
    const ota_kernels *level = ota_kernels_choose(limit);
    if (level == NULL) return false;
    *kernels = (ota_batch_kernels){.costs = {level->f64->costs, level->f32->costs},
                                   .match = level->f64->match};
    return true;
}
