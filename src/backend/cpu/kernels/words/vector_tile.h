/* The register tile for levels without tile hardware: TILE_ROWS x TILE_VECTORS accumulators, on the
 * vector words. One word for the bodies, and a level with tile hardware defines it its own way:
 *
 *     tile_product     out[r][c] = (factor ? factor[r] out[r][c] : 0) + sum_k a[r][k] b[k][c], operands as tile_operands
 *                      a [rows][length] with row stride lda, b [length][columns] with ldb,
 *                      out [rows][columns] with ldo
 *     tile_product_transposed  the same with a[k][r]: a [length][rows] with lda
 *     tile_open, tile_close    around them, once a kernel's call; `tile_setting` is what they keep
 *     TILE_AHEAD       rows whose scores attend forms between exponentials of the tile before; 0: none
 *
 * Every element is one chain of fused products over k from zero, whatever the tile it falls into, so
 * a result depends on neither its row's nor its column's place. The chain is as long as `length`:
 * callers keep it at 64. */
#ifndef OTA_VECTOR_TILE_H
#define OTA_VECTOR_TILE_H

#include "backend/cpu/kernels/operand.h"

/* Products and exponentials want the same units: nothing is gained by forming scores ahead. */
enum { TILE_AHEAD = 0 };
typedef char tile_setting;
static inline void tile_open(tile_setting *kept) { *kept = 0; }
static inline void tile_close(const tile_setting *kept) { (void)kept; }

/* `rows`, `vectors` and `part` are constants where this is expanded; `lanes` counts only with `part`,
 * which goes with one vector. */
static ALWAYS_INLINE void tile_body(int rows, int vectors, bool part, bool transposed,
                                    const tile_operands *x, int64_t lanes) {
    const element *const a = x->a, *b = x->b;
    const int64_t lda = x->lda, ldb = x->ldb, length = x->length, ldo = x->ldo;
    const real *const factor = x->factor;
    real *const out = x->out;
    vec sum[TILE_ROWS][TILE_VECTORS];
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int v = 0; v < vectors; v++) sum[r][v] = vec_set(0);
    }
    for (int64_t k = 0; k < length; k++) {
        operand right[TILE_VECTORS];
        UNROLL for (int v = 0; v < vectors; v++) {
            right[v] = part ? operand_load_part(b, lanes) : operand_load(b + v * LANES);
        }
        UNROLL for (int r = 0; r < rows; r++) {
            operand left = operand_set(transposed ? a[k * lda + r] : a[r * lda + k]);
            UNROLL for (int v = 0; v < vectors; v++) {
                sum[r][v] = operand_step(left, right[v], sum[r][v]);
            }
        }
        b += ldb;
    }
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int v = 0; v < vectors; v++) {
            real *to = out + r * ldo + v * LANES;
            if (factor) {
                vec old = part ? vec_load_part(to, lanes) : vec_load(to);
                sum[r][v] = vec_fma(old, vec_set(factor[r]), sum[r][v]);
            }
            if (part) {
                vec_store_part(to, sum[r][v], lanes);
            } else {
                vec_store(to, sum[r][v]);
            }
        }
    }
}

typedef void tile_function(const tile_operands *x, int64_t lanes);

#define TILE_VARIANT(ROWS, NAME, VECTORS, PART, TRANSPOSED)                                        \
    static void tile_##ROWS##_##NAME(const tile_operands *x, int64_t lanes) {                      \
        tile_body(ROWS, VECTORS, PART, TRANSPOSED, x, lanes);                                      \
    }
#define TILE_VARIANTS(ROWS)                                                                        \
    TILE_VARIANT(ROWS, full, TILE_VECTORS, false, false)                                           \
    TILE_VARIANT(ROWS, half, TILE_VECTORS / 2, false, false)                                       \
    TILE_VARIANT(ROWS, one, 1, false, false)                                                       \
    TILE_VARIANT(ROWS, part, 1, true, false)                                                       \
    TILE_VARIANT(ROWS, transposed_full, TILE_VECTORS, false, true)                                 \
    TILE_VARIANT(ROWS, transposed_half, TILE_VECTORS / 2, false, true)                             \
    TILE_VARIANT(ROWS, transposed_one, 1, false, true)                                             \
    TILE_VARIANT(ROWS, transposed_part, 1, true, true)

TILE_VARIANTS(6)
TILE_VARIANTS(4)
TILE_VARIANTS(2)
TILE_VARIANTS(1)

typedef struct tile_height {
    int rows;
    tile_function *full, *half, *one, *part;
} tile_height;

#define TILE_HEIGHT(ROWS, PREFIX)                                                                  \
    {                                                                                              \
        ROWS, tile_##ROWS##_##PREFIX##full, tile_##ROWS##_##PREFIX##half,                          \
            tile_##ROWS##_##PREFIX##one, tile_##ROWS##_##PREFIX##part                              \
    }

static const tile_height TILE_HEIGHTS[] = {TILE_HEIGHT(6, ), TILE_HEIGHT(4, ), TILE_HEIGHT(2, ),
                                           TILE_HEIGHT(1, )};
static const tile_height TRANSPOSED_HEIGHTS[] = {
    TILE_HEIGHT(6, transposed_), TILE_HEIGHT(4, transposed_), TILE_HEIGHT(2, transposed_),
    TILE_HEIGHT(1, transposed_)};

/* `step` leads from one row of a to the next. */
static ALWAYS_INLINE void tile_walk(const tile_height *heights, int64_t step,
                                    const tile_operands *x) {
    tile_operands at = *x;
    for (int64_t column = 0; column < x->columns;) {
        int64_t left = x->columns - column;
        int64_t lanes = left >= TILE_VECTORS * LANES       ? TILE_VECTORS * LANES
                        : left >= TILE_VECTORS / 2 * LANES ? TILE_VECTORS / 2 * LANES
                        : left >= LANES                    ? LANES
                                                           : left;
        int64_t row = 0;
        at.b = x->b + column;
        for (const tile_height *height = heights; row < x->rows; height++) {
            tile_function *product = lanes == TILE_VECTORS * LANES       ? height->full
                                     : lanes == TILE_VECTORS / 2 * LANES ? height->half
                                     : lanes == LANES                    ? height->one
                                                                         : height->part;
            for (; row + height->rows <= x->rows; row += height->rows) {
                at.a = x->a + row * step;
                at.out = x->out + row * x->ldo + column;
                at.factor = x->factor ? x->factor + row : NULL;
                product(&at, lanes);
            }
        }
        column += lanes;
    }
}

static inline void tile_product(const tile_operands *x) { tile_walk(TILE_HEIGHTS, x->lda, x); }

static inline void tile_product_transposed(const tile_operands *x) {
    tile_walk(TRANSPOSED_HEIGHTS, 1, x);
}

#endif
