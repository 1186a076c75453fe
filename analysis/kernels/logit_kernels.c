/* Which levels of the passes over logits this processor has. */
#include "logit_kernels.h"

#include "base/base.h"

typedef struct level_row {
    unsigned features;
    const ota_logit_kernels *kernels;
} level_row;

/* Oldest first; each needs what those before it need. */
static const level_row ROWS[] = {
    {0, &ota_logit_portable},
#if defined(__x86_64__)
    {OTA_CPU_AVX2, &ota_logit_avx2},
    {OTA_CPU_AVX2 | OTA_CPU_AVX512, &ota_logit_avx512},
#endif
};

enum { ROW_COUNT = (int)(sizeof ROWS / sizeof *ROWS) };

const ota_logit_kernels *ota_logit_kernels_level(int index) {
    if (index < 0 || index >= ROW_COUNT || !ota_cpu_has(ROWS[index].features)) return NULL;
    return ROWS[index].kernels;
}

const ota_logit_kernels *ota_logit_kernels_newest(void) {
    int row = ROW_COUNT - 1;
    while (!ota_cpu_has(ROWS[row].features)) row--;
    return ROWS[row].kernels;
}
