/* Ranks of one row of logits z [vocabulary] by counting passes, in O(vocabulary).
 *
 *     item_j = key(z_j) 2^32 + j,  key falling where z rises, counted from that of the largest: stable passes
 *     over two digits of up to 12 bits where they suffice, as for logits of one sign, else over three of 11
 *     rank_j = first + last - (vocabulary - 1), first ... last the places of the logits equal to z_j
 *
 * Ranks are integers that sum to 0, so that Spearman's correlation is sum r r' / sqrt(sum r^2 sum r'^2). */
#include "evolve.h"

enum { DIGITS = EVOLVE_DIGITS, MOST_PASSES = EVOLVE_PASSES };

static inline uint32_t key_of(float z) {
    /* -0 and 0 are equals. */
    const float plain = z + 0.0F;
    uint32_t bits;
    memcpy(&bits, &plain, sizeof bits);
    return bits >> 31 ? bits : ~(bits | UINT32_C(1) << 31);
}

/* How keys are cut into digits. */
typedef struct cut {
    uint32_t base; /* the smallest key */
    int passes, width;
} cut;

static cut cut_of(float least, float most) {
    const uint32_t base = key_of(most), range = key_of(least) - base;
    int bits = 1;
    while (bits < 32 && range >> bits != 0) bits++;
    const int passes = bits <= 24 ? 2 : 3;
    return (cut){base, passes, (bits + passes - 1) / passes};
}

static inline uint32_t digit_of(uint32_t key, const cut *c, int pass) {
    return key >> c->width * pass & ((UINT32_C(1) << c->width) - 1);
}

static void count_digits(const float *z, int64_t count, const cut *c, uint32_t (*places)[DIGITS]) {
    memset(places, 0, MOST_PASSES * sizeof *places);
    for (int64_t i = 0; i < count; i++) {
        const uint32_t key = key_of(z[i]) - c->base;
        for (int pass = 0; pass < c->passes; pass++) places[pass][digit_of(key, c, pass)]++;
    }
    for (int pass = 0; pass < c->passes; pass++) {
        uint32_t start = 0;
        for (int digit = 0; digit < DIGITS; digit++) {
            const uint32_t here = places[pass][digit];
            places[pass][digit] = start;
            start += here;
        }
    }
}

/* One pass from items to other. */
static void spread(const uint64_t *items, uint64_t *other, int64_t count, const cut *c, int pass,
                   uint32_t *places) {
    for (int64_t i = 0; i < count; i++)
        other[places[digit_of((uint32_t)(items[i] >> 32), c, pass)]++] = items[i];
}

double ota_evolve_ranks(const float *logits, int64_t vocabulary, float least, float most,
                        int32_t *ranks, int32_t *top, void *scratch) {
    const cut c = cut_of(least, most);
    uint64_t *items = scratch, *other = items + vocabulary;
    uint32_t(*const places)[DIGITS] = (uint32_t(*)[DIGITS])(void *)(other + vocabulary);
    count_digits(logits, vocabulary, &c, places);
    for (int64_t i = 0; i < vocabulary; i++) {
        const uint32_t key = key_of(logits[i]) - c.base;
        items[places[0][digit_of(key, &c, 0)]++] = (uint64_t)key << 32 | (uint64_t)i;
    }
    for (int pass = 1; pass < c.passes; pass++) {
        spread(items, other, vocabulary, &c, pass, places[pass]);
        uint64_t *const sorted = other;
        other = items;
        items = sorted;
    }
    double squares = 0.0;
    for (int64_t first = 0, last; first < vocabulary; first = last + 1) {
        const uint64_t key = items[first] >> 32;
        for (last = first; last + 1 < vocabulary && items[last + 1] >> 32 == key;) last++;
        const int32_t rank = (int32_t)(first + last - (vocabulary - 1));
        squares += (double)(last - first + 1) * ((double)rank * (double)rank);
        for (int64_t i = first; i <= last; i++) ranks[items[i] & UINT32_MAX] = rank;
    }
    for (int64_t i = 0; i < vocabulary && i < EVOLVE_TOP; i++)
        top[i] = (int32_t)(items[i] & UINT32_MAX);
    return squares;
}
