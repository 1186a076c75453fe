/* Which level of the row arithmetic to use. */
#include "ops.h"

#include "base/base.h"

/* Oldest first. */
static const ota_ops *const ROWS[] = {
    &ota_ops_portable,
#if defined(__x86_64__)
    &ota_ops_avx2,
    &ota_ops_avx512,
#endif
};

const ota_ops *ota_ops_named(const char *cpu) {
    const int named = cpu != NULL ? ota_cpu_level(cpu) : -1;
    const ota_ops *best = ROWS[0];
    for (size_t row = 1; row < sizeof ROWS / sizeof *ROWS; row++) {
        const int level = ota_cpu_level(ROWS[row]->name);
        if (named >= 0 && level > named) break;
        if (ota_cpu_has(ota_cpu_level_features(level))) best = ROWS[row];
    }
    return best;
}
