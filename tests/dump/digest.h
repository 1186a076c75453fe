/* digest.h: the hash that the outputs of a case are folded into. It uses no libm, so a case is the same on every machine. */
#ifndef TESTS_DUMP_DIGEST_H
#define TESTS_DUMP_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "../draw/random.h"

/* ---- hash ---------------------------------------------------------------------------------------- */

static inline void dump_add_word(uint64_t *state, uint64_t word) {
    *state = splitmix64_mix(*state * 0xd6e8feb86659fd93u + word + 0x9e3779b97f4a7c15u);
}

static inline void dump_add_bytes(uint64_t *state, const void *data, size_t bytes) {
    const unsigned char *at = data;
    dump_add_word(state, bytes);
    for (; bytes >= 8; at += 8, bytes -= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        dump_add_word(state, word);
    }
    if (bytes == 0) return;
    uint64_t word = 0;
    memcpy(&word, at, bytes);
    dump_add_word(state, word);
}

static inline void dump_add_text(uint64_t *state, const char *text) {
    dump_add_bytes(state, text, strlen(text));
}

/* Every NaN counts as the same number: payloads and signs of NaN are not promised. */
static inline void dump_add_number(uint64_t *state, double number) {
    uint64_t word;
    memcpy(&word, &number, sizeof word);
    if ((word & 0x7fffffffffffffffu) > 0x7ff0000000000000u) word = 0x7ff8000000000000u;
    dump_add_word(state, word);
}

#endif
