/* The tile words where no instruction has them: the tiles are an array, so that the body on them (matrix_tile.h) is
 * tested on every processor. A tile has TILE_SIDE rows of TILE_SIDE elements, here pairs of bf16, or of as many f32
 * sums; `t`, `sums`, `a` and `b` are written out, 0 to 7:
 *
 *     tile_file                      what the words need beside the number of a tile; a local variable
 *     TILE_ZERO(file, t)
 *     TILE_LOAD(file, t, from, ld)   rows of 64 bytes, ld elements apart, any alignment
 *     TILE_STEP(file, sums, a, b)    sums[r][c] += sum_k a[r][k] b[k][c], k upwards, a pair's two products each
 *     TILE_STORE(file, t, to, ld)
 *     tile_open, tile_close          before and after: shapes as above, then what the thread had before */
#ifndef OTA_TILES_PORTABLE_H
#define OTA_TILES_PORTABLE_H

#include "backend/cpu/kernels/operand.h"

enum { TILE_SIDE = 16 };

typedef struct tile_file {
    uint32_t held[8][TILE_SIDE][TILE_SIDE];
} tile_file;
typedef char tile_setting;

static inline void tile_open(tile_setting *kept) { *kept = 0; }
static inline void tile_close(const tile_setting *kept) { (void)kept; }

static inline void tile_move(void *to, int64_t to_ld, const void *from, int64_t from_ld) {
    for (int64_t r = 0; r < TILE_SIDE; r++) {
        memcpy((uint32_t *)to + r * to_ld, (const uint32_t *)from + r * from_ld,
               TILE_SIDE * sizeof(uint32_t));
    }
}

static inline float tile_half(uint32_t pair, int half) {
    const uint32_t bits = half == 0 ? pair << 16 : pair & 0xffff0000u;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline void tile_step(tile_file *file, int sums, int a, int b) {
    for (int r = 0; r < TILE_SIDE; r++) {
        float sum[TILE_SIDE];
        memcpy(sum, file->held[sums][r], sizeof sum);
        for (int k = 0; k < TILE_SIDE; k++) {
            const uint32_t left = file->held[a][r][k];
            for (int c = 0; c < TILE_SIDE; c++) {
                const uint32_t right = file->held[b][k][c];
                sum[c] += tile_half(left, 0) * tile_half(right, 0);
                sum[c] += tile_half(left, 1) * tile_half(right, 1);
            }
        }
        memcpy(file->held[sums][r], sum, sizeof sum);
    }
}

#define TILE_ZERO(file, t) memset((file)->held[t], 0, sizeof(file)->held[t])
#define TILE_LOAD(file, t, from, ld) tile_move((file)->held[t], TILE_SIDE, from, ld)
#define TILE_STEP(file, sums, a, b) tile_step(file, sums, a, b)
#define TILE_STORE(file, t, to, ld) tile_move(to, ld, (file)->held[t], TILE_SIDE)

#include "matrix_tile.h"

#endif
