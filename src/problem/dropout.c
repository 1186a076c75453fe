/* Dropout: row[j] *= 0 or 1 / (1 - dropout) for the keys j of one query, row [count], or for some of them.
 *
 * Which pairs are dropped is a function of seed, offset, batch, head, query and key alone (otattn.h has it in
 * words), so neither threads, blocks nor instruction sets change it. The generator is Philox 4x32 with ten
 * rounds [salmon2011]: a bijection of
 * four words, each round two 32 x 32 -> 64 bit products. Blocks of four keys go side by side in lanes that the
 * compiler makes vectors of. */
#include "problem/problem.h"

enum { LANES = 16, WORDS = 4, ROUNDS = 10, KEYS = LANES * WORDS };

static const double two_32 = 4294967296.0;

static uint32_t low(uint64_t x) { return (uint32_t)(x & 0xffffffffu); }
static uint32_t high(uint64_t x) { return (uint32_t)(x >> 32); }

static void philox(uint32_t word[WORDS][LANES], uint32_t first_key, uint32_t second_key) {
    for (int round = 0; round < ROUNDS; round++) {
        for (int l = 0; l < LANES; l++) {
            const uint64_t a = (uint64_t)0xD2511F53u * word[0][l];
            const uint64_t b = (uint64_t)0xCD9E8D57u * word[2][l];
            word[0][l] = high(b) ^ word[1][l] ^ first_key;
            word[2][l] = high(a) ^ word[3][l] ^ second_key;
            word[1][l] = low(b);
            word[3][l] = low(a);
        }
        first_key += 0x9E3779B9u;
        second_key += 0xBB67AE85u;
    }
}

void ota_dropout_head(const ota_resolved *r, int64_t batch, int64_t head, uint32_t key[2]) {
    uint32_t word[WORDS][LANES] = {{0}};
    word[0][0] = low(r->problem.dropout_offset);
    word[1][0] = high(r->problem.dropout_offset);
    word[2][0] = low((uint64_t)(batch + r->share.batch));
    word[3][0] = low((uint64_t)(head + r->share.head));
    philox(word, low(r->problem.dropout_seed), high(r->problem.dropout_seed));
    key[0] = word[0][0];
    key[1] = word[1][0];
}

/* Words of keys [KEYS * group, KEYS * (group + 1)) of a query. */
static void draw(const uint32_t key[2], int64_t query, int64_t group, uint32_t word[WORDS][LANES]) {
    const uint64_t block = (uint64_t)group * LANES;
    for (int l = 0; l < LANES; l++) {
        word[0][l] = low((uint64_t)query);
        word[1][l] = high((uint64_t)query);
        word[2][l] = low(block + (uint64_t)l);
        word[3][l] = high(block + (uint64_t)l);
    }
    philox(word, key[0], key[1]);
}

/* Up to 2^32, which no word reaches. */
static uint64_t threshold_of(const ota_resolved *r) {
    return (uint64_t)(r->problem.dropout * two_32);
}

/* What is kept is multiplied by this; where nothing is kept there is no such number. */
static double gain_of(const ota_resolved *r) {
    return r->problem.dropout < 1.0 ? 1.0 / (1.0 - r->problem.dropout) : 0.0;
}

/* The draws of a query's keys, KEYS at a time. */
typedef struct drawing {
    const uint32_t *key;
    int64_t query, group;
    uint64_t threshold;
    uint32_t word[WORDS][LANES];
} drawing;

static drawing begin(const ota_resolved *r, const uint32_t key[2], int64_t query) {
    return (drawing){
        .key = key, .query = ota_row_number(r, query), .group = -1, .threshold = threshold_of(r)};
}

static inline bool keeps(drawing *d, int64_t j) {
    if (j / KEYS != d->group) draw(d->key, d->query, d->group = j / KEYS, d->word);
    return d->word[j % WORDS][j % KEYS / WORDS] >= d->threshold;
}

void ota_dropout_row_f32(const ota_resolved *r, const uint32_t key[2], int64_t query, int64_t from,
                         const int32_t *keys, int64_t count, float *row) {
    const float factor[2] = {0.0f, (float)gain_of(r)};
    drawing d = begin(r, key, query);
    from += r->share.key_first;
    for (int64_t j = 0; j < count; j++)
        row[j] *= factor[keeps(&d, from + (keys == NULL ? j : keys[j]))];
}

void ota_dropout_row_f64(const ota_resolved *r, const uint32_t key[2], int64_t query, int64_t from,
                         const int32_t *keys, int64_t count, double *row) {
    const double factor[2] = {0.0, gain_of(r)};
    drawing d = begin(r, key, query);
    from += r->share.key_first;
    for (int64_t j = 0; j < count; j++)
        row[j] *= factor[keeps(&d, from + (keys == NULL ? j : keys[j]))];
}
