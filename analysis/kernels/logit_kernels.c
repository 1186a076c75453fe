/* Which levels of the passes over logits this processor has. */
#include "logit_kernels.h"

#include <stddef.h>

const ota_logit_kernels *ota_logit_kernels_level(int index) {
    if (index == 0) return &ota_logit_kernels_portable;
#ifdef OTATTN_ANALYSIS_AVX2
    if (index == 1 && __builtin_cpu_supports("avx2")) return &ota_logit_kernels_avx2;
#endif
#ifdef OTATTN_ANALYSIS_AVX512
    if (index == 2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return &ota_logit_kernels_avx512;
#endif
    return NULL;
}

const ota_logit_kernels *ota_logit_kernels_newest(void) {
    const ota_logit_kernels *best = ota_logit_kernels_level(0);
    for (int index = 1; ota_logit_kernels_level(index) != NULL; index++)
        best = ota_logit_kernels_level(index);
    return best;
}
