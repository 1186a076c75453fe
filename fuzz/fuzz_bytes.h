/* The input of a fuzzer as a tape of choices: what is read past its end is 0, so every input is a whole problem. */
#ifndef OTATTN_FUZZ_BYTES_H
#define OTATTN_FUZZ_BYTES_H

#include <stdint.h>
#include <string.h>

typedef struct fuzz_bytes {
    const uint8_t *at;
    size_t left;
} fuzz_bytes;

static inline unsigned fuzz_next(fuzz_bytes *b) {
    if (b->left == 0) return 0;
    b->left--;
    return *b->at++;
}

/* 0 ... count - 1, count at most 256. */
static inline unsigned fuzz_below(fuzz_bytes *b, unsigned count) { return fuzz_next(b) % count; }

/* A small number, one of another scale, or eight bytes as they are: NaN, infinities and denormals. */
static inline double fuzz_number(fuzz_bytes *b) {
    const unsigned kind = fuzz_next(b);
    const double small = (double)(kind % 64) / 8.0 - 4.0;
    if (kind < 192) return small;
    if (kind < 224) return small * 1e3;
    if (kind < 240) return small * 1e-3;
    if (kind < 250) return small * (kind < 245 ? 0x1p600 : 0x1p-1030);
    uint64_t bits = 0;
    for (int k = 0; k < 8; k++) bits = bits << 8 | fuzz_next(b);
    double number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

#endif
