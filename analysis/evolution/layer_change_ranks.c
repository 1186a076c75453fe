/* Ranks of one row of logits z [vocabulary] by counting passes, in O(vocabulary).
 *
 *     steps     q_j = floor((max z - z_j) 2^24 / (max z - min z)): two stable passes over digits of 12 bits;
 *               what lies in one step is put in order by insertion, and where many do, as where one logit lies
 *               far from all others, the row is ranked by
 *     keys      of the floats themselves, which fall where z rises, counted from that of the largest: two passes
 *               where 24 bits tell them apart, else three of 11 bits
 *
 *     rank_j = first + last - (vocabulary - 1), first ... last the places of the logits equal to z_j
 *
 * Ranks are integers that sum to 0, so that Spearman's correlation is sum r r' / sqrt(sum r^2 sum r'^2). */
#include "layer_change.h"

#include <float.h>
#include <stdbool.h>
#include <string.h>

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

/* From counts to first places. */
static void add_up(uint32_t *places) {
    uint32_t start = 0;
    for (int digit = 0; digit < DIGITS; digit++) {
        const uint32_t here = places[digit];
        places[digit] = start;
        start += here;
    }
}

static void count_digits(const float *z, int64_t count, const cut *c, uint32_t (*places)[DIGITS]) {
    memset(places, 0, MOST_PASSES * sizeof *places);
    for (int64_t i = 0; i < count; i++) {
        const uint32_t key = key_of(z[i]) - c->base;
        for (int pass = 0; pass < c->passes; pass++) places[pass][digit_of(key, c, pass)]++;
    }
    for (int pass = 0; pass < c->passes; pass++) add_up(places[pass]);
}

/* One pass from items to other. */
static void spread(const uint64_t *items, uint64_t *other, int64_t count, const cut *c, int pass,
                   uint32_t *places) {
    for (int64_t i = 0; i < count; i++)
        other[places[digit_of((uint32_t)(items[i] >> 32), c, pass)]++] = items[i];
}

/* Sorts the places of z by keys: [vocabulary] in `scratch`. */
static const uint64_t *sort_by_keys(const float *logits, int64_t vocabulary, float least,
                                    float most, void *scratch) {
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
    return items;
}

/* ---- steps ----------------------------------------------------------------------------------- */

enum { STEP_BITS = 12, INDEX_BITS = 20 };

/* values [count] of z at the indices, falling but within steps, put in order with the indices; false where too many lie out
 * of it. */
static bool insert(const float *z, float *values, uint32_t *indices, int64_t count) {
    int64_t moves = 0;
    float least = z[indices[0]];
    for (int64_t i = 0; i < count; i++) {
        const uint32_t index = indices[i];
        const float value = z[index];
        if (!(value > least)) {
            values[i] = least = value;
            continue;
        }
        int64_t at = i;
        for (; at > 0 && value > values[at - 1]; at--) {
            values[at] = values[at - 1];
            indices[at] = indices[at - 1];
        }
        values[at] = value;
        indices[at] = index;
        moves += i - at;
        if (moves > count) return false;
    }
    return true;
}

/* Values in falling order and their indices, in `scratch`; false where steps do not tell enough apart. */
static bool sort_by_steps(const float *z, int64_t count, float least, float most, void *scratch,
                          float **values, uint32_t **indices) {
    const uint32_t last = (UINT32_C(1) << 2 * STEP_BITS) - 1, low = (1U << STEP_BITS) - 1;
    const float range = most - least, scale = range > 0.0F ? (float)last / range : 0.0F;
    if (count >= INT64_C(1) << INDEX_BITS || !(range <= FLT_MAX) || !(scale <= FLT_MAX))
        return false;
    uint32_t *const steps = scratch, *const items = steps + count, *const sorted = items + count;
    uint32_t *const places = (uint32_t *)scratch + 4 * count, *const high = places + DIGITS;
    memset(places, 0, 2 * DIGITS * sizeof *places);
    for (int64_t i = 0; i < count; i++) {
        const int32_t step = (int32_t)((most - z[i]) * scale);
        steps[i] = (uint32_t)step < last ? (uint32_t)step : last;
    }
    for (int64_t i = 0; i < count; i++) {
        places[steps[i] & low]++;
        high[steps[i] >> STEP_BITS]++;
    }
    add_up(places);
    add_up(high);
    for (int64_t i = 0; i < count; i++)
        items[places[steps[i] & low]++] = steps[i] >> STEP_BITS << INDEX_BITS | (uint32_t)i;
    for (int64_t i = 0; i < count; i++)
        sorted[high[items[i] >> INDEX_BITS]++] = items[i] & ((1U << INDEX_BITS) - 1);
    *values = (float *)(void *)steps;
    *indices = sorted;
    return insert(z, *values, sorted, count);
}

/* Equals are rare. The sum of the squares of the ranks. */
static double share_places(const float *values, const uint32_t *indices, int64_t vocabulary,
                           int32_t *ranks) {
    const double n = (double)vocabulary;
    double squares = n * (n * n - 1.0) / 3.0;
    const int32_t middle = (int32_t)(vocabulary - 1);
    ranks[indices[0]] = -middle;
    for (int64_t i = 1; i < vocabulary; i++) {
        ranks[indices[i]] = (int32_t)(2 * i) - middle;
        if (values[i] < values[i - 1]) continue;
        const int64_t first = i - 1;
        while (i < vocabulary && !(values[i] < values[first])) i++;
        const int32_t rank = (int32_t)(first + i - vocabulary);
        /* Ranks of c equals, 2 apart, have c (c^2 - 1) / 3 more than c times their mean's square. */
        const double c = (double)(i - first);
        squares -= c * (c * c - 1.0) / 3.0;
        for (int64_t k = first; k < i; k++) ranks[indices[k]] = rank;
        i--;
    }
    return squares;
}

double ota_layer_change_ranks(const float *logits, int64_t vocabulary, float least, float most,
                              int32_t *ranks, int32_t *top, void *scratch) {
    float *values;
    uint32_t *indices;
    if (!sort_by_steps(logits, vocabulary, least, most, scratch, &values, &indices)) {
        const uint64_t *const items = sort_by_keys(logits, vocabulary, least, most, scratch);
        /* In place: index i lies before what item i + 1 still holds; the values come after all items are read. */
        indices = scratch;
        for (int64_t i = 0; i < vocabulary; i++) indices[i] = (uint32_t)(items[i] & UINT32_MAX);
        values = (float *)(void *)(indices + vocabulary);
        for (int64_t i = 0; i < vocabulary; i++) values[i] = logits[indices[i]];
    }
    const double squares = share_places(values, indices, vocabulary, ranks);
    for (int64_t i = 0; i < vocabulary && i < EVOLVE_TOP; i++) top[i] = (int32_t)indices[i];
    return squares;
}
