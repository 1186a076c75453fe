/* kernels.c: the instruction-set levels as rows of one table, oldest first, and the choice among them:
 * the newest row this processor can run and the caller's limit admits. */
#include "kernels.h"

#include <stddef.h>

#include "base/base.h"

static const ota_kernels ROWS[] = {
    {"portable", 0, &ota_portable_f32, &ota_portable_f64, NULL},
#if defined(__x86_64__)
    {"avx2", OTA_CPU_AVX2, &ota_avx2_f32, &ota_avx2_f64, NULL},
    {"avx512", OTA_CPU_AVX2 | OTA_CPU_AVX512, &ota_avx512_f32, &ota_avx512_f64, NULL},
    {"avx512bf16", OTA_CPU_AVX2 | OTA_CPU_AVX512 | OTA_CPU_BF16, &ota_avx512_f32, &ota_avx512_f64,
     &ota_avx512bf16_bf16},
    {"amx", OTA_CPU_AVX2 | OTA_CPU_AVX512 | OTA_CPU_AMX, &ota_avx512_f32, &ota_avx512_f64,
     &ota_amx_bf16},
#elif defined(__aarch64__)
    {"neon", OTA_CPU_NEON, &ota_neon_f32, &ota_neon_f64, NULL},
#endif
};

enum { ROW_COUNT = (int)(sizeof ROWS / sizeof ROWS[0]) };

const ota_kernels *ota_kernels_choose(const char *limit) {
    unsigned present = ota_cpu_features();
    int newest = INT32_MAX;
    if (limit && limit[0] != '\0') {
        newest = ota_cpu_level(limit);
        if (newest < 0 || (ota_cpu_level_features(newest) & ~present) != 0) return NULL;
    }
    const ota_kernels *chosen = NULL;
    for (int row = 0; row < ROW_COUNT; row++) {
        if ((ROWS[row].features & ~present) == 0 && ota_cpu_level(ROWS[row].name) <= newest) {
            chosen = &ROWS[row];
        }
    }
    return chosen;
}

const ota_kernels *ota_kernels_row(int index) {
    unsigned present = ota_cpu_features();
    for (int row = 0; index >= 0 && row < ROW_COUNT; row++) {
        if ((ROWS[row].features & ~present) != 0) continue;
        if (index-- == 0) return &ROWS[row];
    }
    return NULL;
}

int64_t ota_attend_scratch(int64_t values_width) {
    /* The score tile, the sums in T and the sums in f64 (two f32 elements each), rows padded to 64
     * bytes. */
    const size_t padded = ota_size_round_up((size_t)values_width, 16);
    size_t numbers;
    if (!ota_size_mul(3 * OTA_ROW_BLOCK, padded, &numbers) ||
        !ota_size_add(numbers, OTA_ROW_BLOCK * OTA_KEY_TILE, &numbers))
        numbers = SIZE_MAX;
    /* No arena has room for so many. */
    const size_t most = PTRDIFF_MAX / 2;
    return (int64_t)ota_size_min(numbers, most);
}
