/* batch_kernels.h: what calls without a plan (src/batches/) take from the backend for CPUs, of one level of instructions. */
#ifndef OTA_BATCH_KERNELS_H
#define OTA_BATCH_KERNELS_H

#include <stdbool.h>

#include "bounded_kernels.h"
#include "costs.h"
#include "matching.h"
#include "maxsim.h"
#include "normalize.h"
#include "otattn.h"
#include "route_kernels.h"

typedef struct ota_batch_kernels {
    const ota_costs *costs[2]; /* of f64, f32 */
    const ota_match_passes *match;
    const ota_normalizers *normalize_f32, *normalize_f64;
    const ota_bounded_passes *bounded;
    ota_maxsim_pass *maxsim;
    ota_maxsim_pass *maxsim_pairs; /* NULL: bf16 is faster in f32 */
    /* neighbours in f16; `ahead` numbers behind them are fetched meanwhile, at most as many */
    void (*widen)(const uint16_t *from, int64_t count, int64_t ahead, float *to);
    const ota_route_passes *route_f32, *route_f64;
    /* rows [first, first + rows) of an array of any float type and strides into to[rows][ld] */
    void (*read_rows_f32)(const ota_array *from, int64_t batch, int64_t head, int64_t first,
                          int64_t rows, float *to, int64_t ld);
    /* the same of bf16 as it lies, two neighbours of a row in a word, into to[rows][words] */
    void (*read_pairs)(const ota_array *from, int64_t batch, int64_t head, int64_t first,
                       int64_t rows, uint32_t *to);
} ota_batch_kernels;

/* Those of the newest level that this processor has and `limit` (a name of ota_kernel_name, NULL or "") admits; false where that
 * level is absent or unknown. */
bool ota_batch_kernels_of(const char *limit, ota_batch_kernels *kernels);

#endif
