/* What transposing has in common on AVX2 and AVX-512, whose shuffles work within pieces of 16 bytes of a vector. Follows
 * either's words. */
#ifndef OTA_VECTOR_WEAVE_H
#define OTA_VECTOR_WEAVE_H

#include "backend/cpu/kernels/operand.h"

enum { WEAVE = 16 / sizeof(real) }; /* numbers in a piece */

/* Neighbours are woven: of rows x[WEAVE i] and the WEAVE - 1 that follow, woven[WEAVE i + k] holds column k of every piece. */
static ALWAYS_INLINE void vec_weave(const vec *x, vec *woven) {
#if OTA_REAL_BITS == 64
    UNROLL for (int i = 0; i < LANES; i += WEAVE) {
        woven[i] = OP(unpacklo)(x[i], x[i + 1]);
        woven[i + 1] = OP(unpackhi)(x[i], x[i + 1]);
    }
#else
    UNROLL for (int i = 0; i < LANES; i += WEAVE) {
        const vec low = OP(unpacklo)(x[i], x[i + 1]), high = OP(unpackhi)(x[i], x[i + 1]);
        const vec low2 = OP(unpacklo)(x[i + 2], x[i + 3]), high2 = OP(unpackhi)(x[i + 2], x[i + 3]);
        woven[i] = OP(shuffle)(low, low2, 0x44); /* first two numbers of both */
        woven[i + 1] = OP(shuffle)(low, low2, 0xee);
        woven[i + 2] = OP(shuffle)(high, high2, 0x44);
        woven[i + 3] = OP(shuffle)(high, high2, 0xee);
    }
#endif
}

#endif
