/* What the bodies unroll and inline with, and the elements that products multiply: an `element` of an operand is a number;
 * where OTA_PAIRS is defined it is a pair of bf16 numbers, whose two products are added, and pairs_avx512.h or
 * pairs_portable.h has its words (listed in the latter). Follows a level's vector words. */
#ifndef OTA_OPERAND_H
#define OTA_OPERAND_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define ALWAYS_INLINE inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#ifndef OTA_PAIRS
typedef real element;
typedef vec operand;
static inline operand operand_load(const element *from) { return vec_load(from); }
static inline operand operand_load_part(const element *from, int64_t count) {
    return vec_load_part(from, count);
}
static inline operand operand_set(element x) { return vec_set(x); }
static inline vec operand_step(operand a, operand b, vec sum) { return vec_fma(a, b, sum); }
#endif

/* What tile_product multiplies (vector_tile.h). */
typedef struct tile_operands {
    const element *a;
    int64_t lda;
    const element *b;
    int64_t ldb;
    int64_t rows, columns, length;
    real *out;
    int64_t ldo;
    const real *factor; /* [rows], or NULL */
} tile_operands;

#endif
