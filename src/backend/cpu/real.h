/* real.h: the type a body is compiled for. A body is a file of OTATTN_REAL_SOURCES (cmake/sources.cmake),
 * which is compiled with OTA_REAL_BITS 32 and with 64. Inside:
 *
 *     real               float or double
 *     WORD(name)         name_f32 or name_f64, for functions that other files call
 *     OF_TYPE(name)      what a kernel takes (kernels/kernel_table.h)
 *     KERNELS(device)    the kernel table of this type
 *     REAL_TYPE          OTA_F32 or OTA_F64             REAL_MAX   the largest finite number
 *     REAL_LIFT          power of two of the largest entries of a stored kernel
 *     TAU_MIN            temperatures below this are left to the careful forms
 *     LEAST_SUM          column sums below this no longer carry a full significand of the terms that made them */
#ifndef OTA_CPU_REAL_H
#define OTA_CPU_REAL_H

#include <float.h>

#include "head_masks.h"
#include "kernels/kernels.h"
#include "masks/masks.h"
#include "pack.h"
#include "scores.h"

#if OTA_REAL_BITS == 32
typedef float real;
#define WORD(name) name##_f32
#define OF_TYPE(name) ota_kernels_f32_##name
#define KERNELS(device) ((device)->kernels->f32)
#define REAL_TYPE OTA_F32
#define REAL_MAX FLT_MAX
#define REAL_LIFT OTA_LIFT_F32
#define TAU_MIN 1.0e-30
#define LEAST_SUM 1.0e-28
#elif OTA_REAL_BITS == 64
typedef double real;
#define WORD(name) name##_f64
#define OF_TYPE(name) ota_kernels_f64_##name
#define KERNELS(device) ((device)->kernels->f64)
#define REAL_TYPE OTA_F64
#define REAL_MAX DBL_MAX
#define REAL_LIFT OTA_LIFT_F64
#define TAU_MIN DBL_MIN
#define LEAST_SUM 1.0e-280
#else
#error "OTA_REAL_BITS is 32 or 64"
#endif

typedef OF_TYPE(attend) ota_attend_block;
typedef OF_TYPE(pairs) ota_pair_masks;
typedef OF_TYPE(lanes) ota_lanes_block;
typedef OF_TYPE(gradient) ota_gradient_block;
typedef OF_TYPE(log_round) ota_log_round_operands;
typedef OF_TYPE(kernel) ota_kernel_operands;
typedef OF_TYPE(round) ota_round_operands;
typedef OF_TYPE(powers) ota_powers_operands;
typedef OF_TYPE(capped) ota_capped_operands;
typedef OF_TYPE(slopes) ota_slopes_operands;

/* Functions of both types that bodies call by their plain names. */
#define row_solve WORD(ota_row_solve)
#define row_weights WORD(ota_row_weights)
#define row_entmax WORD(ota_row_entmax)
#define row_online WORD(ota_row_online)
#define row_capped WORD(ota_row_capped)
#define row_capped_list WORD(ota_row_capped_list)
#define row_capped_weights WORD(ota_row_capped_weights)
#define row_heavy WORD(ota_row_heavy)
#define row_heavy_weights WORD(ota_row_heavy_weights)
#define row_exponentials WORD(ota_row_exponentials)
#define apply_terms WORD(ota_apply_terms)
#define apply_some_terms WORD(ota_apply_some_terms)
#define masked_mass WORD(ota_masked_mass)
#define pair_numbers WORD(ota_pair_numbers)
#define find_head_masks WORD(ota_find_head_masks)
#define pack_keys WORD(ota_pack_keys)
#define pack_rows WORD(ota_pack_rows)
#define unpack_rows WORD(ota_unpack_rows)
#define dropout_row WORD(ota_dropout_row)

/* Of the queries from `first` on. */
static inline ota_pair_masks pairs_from(const ota_head_masks *masks, int64_t first) {
    ota_pair_masks pairs = {.flags_ld = masks->flags_ld,
                            .bias_ld = masks->bias_ld,
                            .bias_type = masks->bias_type,
                            .bound = (real)masks->bound};
    if (masks->flags != NULL) pairs.flags = masks->flags + first * masks->flags_ld;
    if (masks->bias != NULL)
        pairs.bias = (const char *)masks->bias +
                     first * masks->bias_ld * (int64_t)ota_type_bytes(masks->bias_type);
    return pairs;
}

#endif
