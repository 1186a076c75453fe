/* The tile words on AMX_BF16: eight registers of 16 rows of 64 bytes. The list of words and what each promises stands in
 * tiles_portable.h; this file follows the words of vector_avx512.h and pairs_avx512.h.
 *
 * Shapes belong to the thread. Another library may have set its own and trust that they stay, so they are put
 * back at the end; the numbers in its tiles are lost, as any call may lose them. */
#ifndef OTA_TILES_AMX_H
#define OTA_TILES_AMX_H

#include "backend/cpu/kernels/operand.h"

enum { TILE_SIDE = 16 };

typedef char tile_file; /* the registers need nothing */

/* As the processor reads it. */
typedef struct tile_setting {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_setting;

/* gcc's words do not say that they read or write memory: what was written before is written, what follows is read. */
static inline void tile_settle(const void *at) { __asm__ volatile("" : : "r"(at) : "memory"); }

static inline void tile_open(tile_setting *kept) {
    _tile_storeconfig(kept);
    tile_settle(kept);
    tile_setting own = {.palette = 1};
    for (int t = 0; t < 8; t++) {
        own.row_bytes[t] = TILE_SIDE * sizeof(uint32_t);
        own.rows[t] = TILE_SIDE;
    }
    tile_settle(&own);
    _tile_loadconfig(&own);
}

static inline void tile_close(const tile_setting *kept) {
    if (kept->palette == 0) {
        _tile_release();
    } else {
        tile_settle(kept);
        _tile_loadconfig(kept);
    }
}

/* clang-format off */
#define TILE_ZERO(file, t) do { (void)(file); _tile_zero(t); } while (0)
#define TILE_LOAD(file, t, from, ld) \
    do { (void)(file); tile_settle(from); _tile_loadd(t, from, (ld) * 4); } while (0)
#define TILE_STEP(file, sums, a, b) do { (void)(file); _tile_dpbf16ps(sums, a, b); } while (0)
#define TILE_STORE(file, t, to, ld) \
    do { (void)(file); _tile_stored(t, to, (ld) * 4); tile_settle(to); } while (0)
/* clang-format on */

#include "matrix_tile.h"

#endif
