/* Which level of the row arithmetic to use. */
#include "ops.h"

#include <string.h>

const ota_ops *ota_ops_named(const char *cpu) {
    const ota_ops *best = &ota_ops_portable;
    if (cpu != NULL && strcmp(cpu, best->name) == 0) return best;
#ifdef OTATTN_MODEL_AVX2
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) best = &ota_ops_avx2;
    if (cpu != NULL && strcmp(cpu, "avx2") == 0) return best;
#endif
#ifdef OTATTN_MODEL_AVX512
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        best = &ota_ops_avx512;
#endif
    return best;
}
