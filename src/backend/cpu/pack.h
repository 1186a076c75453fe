/* pack.h: between the caller's arrays (any float type, any strides) and the dense rows and packed keys of the kernels,
 * in T = float or double. All that knows types and strides is here.
 *
 *     rows    to[r][w]                     = array[batch, head, first + r, w]
 *     keys    packed[panel][w][lane]       = array[batch, head, 64 panel + lane, w], 0 past the last
 *     back    array[batch, head, first + r, w] = from[r][w], rounded once to nearest even
 *     pairs   of bf16, as they lie: (first, second) is one uint32_t, the first in its lower half
 *
 * Dimensions of size 1 repeat. */
#ifndef OTA_CPU_PACK_H
#define OTA_CPU_PACK_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "otattn.h"

/* pack.c. Reads [rows][columns] at (batch, head) of `from` starting at row `first`. */
void ota_pack_rows_f32(const ota_array *from, int64_t batch, int64_t head, int64_t first,
                       int64_t rows, float *to, int64_t ld);
void ota_pack_rows_f64(const ota_array *from, int64_t batch, int64_t head, int64_t first,
                       int64_t rows, double *to, int64_t ld);
void ota_pack_keys_f32(const ota_kernels_f32_table *kernels, const ota_array *from, int64_t batch,
                       int64_t head, int64_t keys, float *packed);
void ota_pack_keys_f64(const ota_kernels_f64_table *kernels, const ota_array *from, int64_t batch,
                       int64_t head, int64_t keys, double *packed);
/* Rounds T to the array's type (nearest even) and stores rows x columns at (batch, head, first). */
void ota_unpack_rows_f32(const ota_array *to, int64_t batch, int64_t head, int64_t first,
                         int64_t rows, const float *from, int64_t ld);
void ota_unpack_rows_f64(const ota_array *to, int64_t batch, int64_t head, int64_t first,
                         int64_t rows, const double *from, int64_t ld);

/* pack_pairs.c. Pairs of bf16 arrays for ota_kernels_bf16, the last one filled up with 0. `hold`: is the array bf16, and is every number
 * 0 or at least 2^-50 in size (and finite), so that products and their sums are never subnormal? */
bool ota_pairs_hold(const ota_array *from, int64_t batch, int64_t head, int64_t rows, bool finite);
/* [panel][pairs of the width][64]; [rows][pairs of the width]; [pairs of rows][width]. */
void ota_pairs_keys(const ota_array *from, int64_t batch, int64_t head, int64_t keys,
                    uint32_t *packed);
void ota_pairs_of_rows(const ota_array *from, int64_t batch, int64_t head, int64_t first,
                       int64_t rows, uint32_t *to);
void ota_pairs_across(const ota_array *from, int64_t batch, int64_t head, int64_t first,
                      int64_t rows, uint32_t *to);
/* Rows of pairs of rows that hold NaN or inf become 0 and are listed in `nonfinite`; returns how many. */
int64_t ota_pairs_mend(uint32_t *pairs, int64_t rows, int64_t width, int64_t *nonfinite);

static inline char *ota_element_of(const ota_array *array, int64_t batch, int64_t head, int64_t row,
                                   int64_t column) {
    const int64_t index[4] = {batch, head, row, column};
    int64_t offset = 0;
    for (int d = 0; d < 4; d++) offset += (array->size[d] == 1 ? 0 : index[d]) * array->stride[d];
    return (char *)array->data + offset * (int64_t)ota_type_bytes(array->type);
}

#endif
