/* digest.h: the random numbers that cases are drawn with and the hash that their outputs are folded into.
 * Neither uses libm, so a case is the same on every machine. */
#ifndef TESTS_DUMP_DIGEST_H
#define TESTS_DUMP_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "../support/random.h"

static inline uint64_t dump_mix(uint64_t x) { return splitmix64_mix(x); }

/* ---- dice (splitmix64) --------------------------------------------------------------------------- */

typedef struct dump_dice {
    uint64_t state;
} dump_dice;

static inline uint64_t dump_roll(dump_dice *d) { return splitmix64(&d->state); }

/* In [0, 1). */
static inline double dump_uniform(dump_dice *d) { return (double)(dump_roll(d) >> 11) * 0x1p-53; }
static inline int64_t dump_below(dump_dice *d, int64_t count) {
    return (int64_t)(dump_roll(d) % (uint64_t)count);
}
static inline int64_t dump_between(dump_dice *d, int64_t least, int64_t most) {
    return least + dump_below(d, most - least + 1);
}
static inline bool dump_chance(dump_dice *d, double chance) { return dump_uniform(d) < chance; }

/* 1 or `count`, one time in two each: a dimension that broadcasts or not. */
static inline int64_t dump_one_or(dump_dice *d, int64_t count) {
    return dump_chance(d, 0.5) ? 1 : count;
}

/* Nearly normal, of variance 1 and within 3.5: the sum of the four quarters of one word. */
static inline double dump_normal(dump_dice *d) {
    const uint64_t x = dump_roll(d);
    const uint64_t sum = (x & 0xffffu) + (x >> 16 & 0xffffu) + (x >> 32 & 0xffffu) + (x >> 48);
    return ((double)sum * 0x1p-16 - 2.0) * 1.7320508075688772;
}

/* One of `count` numbers. */
static inline double dump_one_of(dump_dice *d, const double *list, int64_t count) {
    return list[dump_below(d, count)];
}
#define DUMP_ONE_OF(dice, ...)                                                                     \
    dump_one_of(dice, (const double[]){__VA_ARGS__},                                               \
                (int64_t)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)))

/* A row of a table of weights. */
static inline int dump_weighted(dump_dice *d, const double *weights, int count) {
    double all = 0.0;
    for (int k = 0; k < count; k++) all += weights[k];
    double at = dump_uniform(d) * all;
    for (int k = 0; k < count - 1; k++) {
        at -= weights[k];
        if (at < 0.0) return k;
    }
    return count - 1;
}

/* ---- hash ---------------------------------------------------------------------------------------- */

static inline void dump_add_word(uint64_t *state, uint64_t word) {
    *state = dump_mix(*state * 0xd6e8feb86659fd93u + word + 0x9e3779b97f4a7c15u);
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
