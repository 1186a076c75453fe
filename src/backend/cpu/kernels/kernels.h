/* The kernel table: what each instruction-set level offers, in f32 and in f64.
 *
 * Bodies are written once (level.c) on the words of a vector vocabulary (vector_portable.h,
 * vector_avx2.h, vector_avx512.h, each defining the same words for f32 and for f64) and compiled once per
 * level and type. T is float or double, `real` in kernel_table.h. Units: c = log2(e) / tau > 0, so that
 * exp((s - shift) / tau) = 2^((s - shift) c); the difference is formed before the multiplication, so
 * powers of two on all quantities in units of S change no bit.
 *
 * Contract of every kernel: no allocation; reads and writes exactly the stated elements (guard pages are
 * tested); rows may have any alignment, packed buffers are 64-byte aligned; -inf scores give weight
 * exactly +0; NaN and +inf propagate into that row only; subnormals preserved; the result of a row does
 * not depend on which block it was computed in.
 *
 * Corners: a row without a usable key (empty range or every score -inf) is empty whatever the sink:
 * maximum -inf, sum 0, output 0. Elsewhere a sink counts in the maximum as well as in the sum. A shift
 * of -inf counts as 0 (all scores are -inf then and all weights 0). What kernel_form counts are weights
 * of 0 whose exponent is above -inf. exponentials and powers may write over s. terms is called with the
 * row's own keys of the tile only and gets the element of key `first` as tile_row[0].
 *
 * May call: base/exp2.h and the headers of backend/ that say what a kernel promises. */
#ifndef OTA_KERNELS_H
#define OTA_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/bounded_kernels.h"
#include "backend/costs.h"
#include "backend/matching.h"
#include "backend/maxsim.h"
#include "backend/normalize.h"
#include "backend/product.h"
#include "backend/route_kernels.h"
#include "base/integers.h"
#include "otattn.h"

/* Sizes every level shares, so that packing and results do not depend on more than the level. */
enum {
    OTA_ROW_BLOCK = 48, /* query rows per task of the fused kernel */
    OTA_KEY_TILE = 128, /* keys per inner tile */
    OTA_PANEL = 64,     /* keys per packed panel: [panel][width][64] */
    OTA_LIFT_F32 = 64,  /* power of two of the largest entries of a stored kernel */
    OTA_LIFT_F64 = 512,
    OTA_GRADIENT_SCRATCH = 2 * OTA_ROW_BLOCK * OTA_KEY_TILE,
    OTA_COMPACT_ROOM = 16,      /* elements that `compact` may write past the last one kept */
    OTA_LANES_SIDE = 16,        /* most rows and columns of problems that are solved one a lane */
    OTA_LANES_ROUNDS = 1 << 14, /* most rounds there, between which nothing can stop them */
    OTA_LANES_MOST = 16,        /* most lanes of any level and type */
    OTA_LANES_BYTES = 64        /* of one vector, at most */
};

/* Bytes that are wanted a tile later, into the second cache, where rows lie so far apart (`apart` bytes) that the processor's own
 * fetching does not follow them. A fetch may go past any array. */
static inline void ota_fetch_later(uintptr_t from, int64_t bytes, int64_t apart) {
    enum { LINE = 64, FAR = 2048 };
    if (apart < FAR) return;
    for (int64_t k = 0; k < bytes; k += LINE)
        __builtin_prefetch((const void *)(from + (uintptr_t)k), 0, 2);
}

/* Packed keys: ceil(keys / 64) panels; panel p holds width x 64 values k[p*64 + lane][w] at
 * packed[(p*width + w)*64 + lane], lanes past the last key zero. Elements of T. */
static inline int64_t ota_packed_length(int64_t keys, int64_t width) {
    return ota_int_round_up(keys, OTA_PANEL) * width;
}

/* Of a row with caps. Open: factor e_j < c_j. */
typedef struct ota_capped_sums {
    double open, slope; /* of e_j and, of powers, y_j^(p - 1), over open keys */
    double closed;      /* of c_j over the others */
    int64_t full;       /* how many those are */
} ota_capped_sums;

/* Of a row with caps, by a level of x_j = s_j + h_j. */
typedef struct ota_level_sums {
    double above;       /* of c_j where x_j > level */
    double least, most; /* of x_j above the level, inf where there are none; of the others, -inf */
} ota_level_sums;

/* The fused kernel and its derivative on pairs of bf16: (x, y) is one uint32_t, x in its lower half. Every operand of
 * a product comes as pairs, the last filled up with 0, and the members of `block` of the same name are not
 * read. Pairs run along the width, or across two rows or keys:
 *
 *     queries, upstream [rows][pairs of the width]      left sides
 *     packed_keys, packed_values                        panels [panel][pairs of the width][64]
 *     values, keys_right [pairs of keys][width]         right sides; of the tile in gradient
 *     queries_right, upstream_right [pairs of rows][width]
 *
 * S and U are sums in f32 of exact products. P and dS are rounded to bf16 before they meet another operand, and
 * numbers below 2^-126 may count as 0 in products. row_sum is that of P before. */
enum {
    /* More elements of scratch: P in pairs and, where tiles work beside vectors, the next X. */
    OTA_PAIRS_ATTEND = 3 * OTA_ROW_BLOCK * OTA_KEY_TILE / 2,
    OTA_PAIRS_GRADIENT = 3 * OTA_ROW_BLOCK * OTA_KEY_TILE / 2
};

/* The table and its operands in each type. */
#define real float
#define OF_TYPE(name) ota_kernels_f32_##name
#include "kernel_table.h"
#undef real
#undef OF_TYPE
#define real double
#define OF_TYPE(name) ota_kernels_f64_##name
#include "kernel_table.h"
#undef real
#undef OF_TYPE

typedef struct ota_kernels_bf16_attend {
    ota_kernels_f32_attend block;
    const uint32_t *queries, *packed_keys, *values;
} ota_kernels_bf16_attend;

typedef struct ota_kernels_bf16_gradient {
    ota_kernels_f32_gradient block;
    const uint32_t *queries, *upstream, *packed_keys, *packed_values;
    const uint32_t *queries_right, *upstream_right, *keys_right;
} ota_kernels_bf16_gradient;

typedef struct ota_kernels_bf16 {
    void (*attend)(const ota_kernels_bf16_attend *block);
    void (*gradient)(const ota_kernels_bf16_gradient *block);
    ota_maxsim_pass *maxsim;
} ota_kernels_bf16;

/* Elements of scratch one attend call needs (S tile, running maxima and sums, f32 or f64 alike). */
int64_t ota_attend_scratch(int64_t values_width);

/* One table per level and type (level.c). */
extern const ota_kernels_f32_table ota_portable_f32, ota_avx2_f32, ota_avx512_f32, ota_neon_f32;
extern const ota_kernels_f64_table ota_portable_f64, ota_avx2_f64, ota_avx512_f64, ota_neon_f64;
extern const ota_kernels_bf16 ota_portable_bf16, ota_portable_tiles, ota_avx512bf16_bf16,
    ota_amx_bf16;

typedef struct ota_kernels {
    const char *name;  /* "portable", "avx2", "avx512", "avx512bf16", "amx", "neon" */
    unsigned features; /* cpu.c bits needed */
    const ota_kernels_f32_table *f32;
    const ota_kernels_f64_table *f64;
    const ota_kernels_bf16 *bf16; /* NULL: bf16 is faster in f32 */
} ota_kernels;

/* Newest level that the CPU has and `limit` (a name, or "" / NULL for no limit) admits; NULL when the
 * named level is absent on this machine or unknown. */
const ota_kernels *ota_kernels_choose(const char *limit);
const ota_kernels *ota_kernels_row(
    int index); /* rows this CPU can run, oldest first; NULL past the end */

#endif
