/* What the tests of tokenizers share: a byte-level vocabulary grown from a few merges, random numbers, and
 * encoding into a fresh array. */
#ifndef OTATTN_TESTS_TOKENIZER_SUPPORT_H
#define OTATTN_TESTS_TOKENIZER_SUPPORT_H

#include "draw/random.h"
#include "files_support.h"

#include "models/tokenizer/tokenizer_parts.h"
#include "otattn_tokenizer.h"

enum { SPELLED = 64, VOCABULARY_MOST = 400 };

/* Pieces 0 ... 255 are the bytes in order; then what is added. */
typedef struct vocabulary {
    char spelled[VOCABULARY_MOST][SPELLED], lines[VOCABULARY_MOST][2 * SPELLED];
    ota_text pieces[VOCABULARY_MOST], merges[VOCABULARY_MOST];
    int32_t kinds[VOCABULARY_MOST];
    int count, merge_count;
} vocabulary;

/* UTF-8 of a character below U+0800. */
static inline size_t spell(int32_t character, char *out) {
    if (character < 0x80) {
        out[0] = (char)character;
        return 1;
    }
    out[0] = (char)(0xC0 | character >> 6);
    out[1] = (char)(0x80 | (character & 0x3F));
    return 2;
}

/* left, between and right, one after another. */
static inline void join(char *out, size_t room, const char *left, const char *between,
                        const char *right) {
    const char *const parts[] = {left, between, right};
    size_t used = 0;
    for (int k = 0; k < 3; k++) {
        const size_t size = strlen(parts[k]);
        assert_true(used + size < room);
        memcpy(out + used, parts[k], size);
        used += size;
    }
    out[used] = '\0';
}

static inline int add_piece(vocabulary *v, const char *spelled, int32_t kind) {
    assert_in_range(v->count, 0, VOCABULARY_MOST - 1);
    join(v->spelled[v->count], SPELLED, spelled, "", "");
    v->pieces[v->count] = (ota_text){v->spelled[v->count], strlen(spelled)};
    v->kinds[v->count] = kind;
    return v->count++;
}

static inline int add_merge(vocabulary *v, const char *left, const char *right) {
    char both[2 * SPELLED];
    char *line = v->lines[v->merge_count];
    join(line, sizeof v->lines[0], left, " ", right);
    v->merges[v->merge_count++] = (ota_text){line, strlen(line)};
    join(both, sizeof both, left, "", right);
    return add_piece(v, both, OTA_PIECE_NORMAL);
}

static inline vocabulary *new_vocabulary(void) {
    vocabulary *v = calloc(1, sizeof *v);
    assert_non_null(v);
    for (unsigned byte = 0; byte < 256; byte++) {
        char spelled[4] = "";
        spelled[spell(ota_token_byte_character(byte), spelled)] = '\0';
        (void)add_piece(v, spelled, OTA_PIECE_NORMAL);
    }
    return v;
}

static inline ota_tokenizer_parts parts_of(const vocabulary *v) {
    return (ota_tokenizer_parts){.size = sizeof(ota_tokenizer_parts),
                                 .source = "parts",
                                 .model = "bpe",
                                 .pieces = v->pieces,
                                 .piece_count = v->count,
                                 .kinds = v->kinds,
                                 .merges = v->merges,
                                 .merge_count = v->merge_count};
}

static inline ota_tokenizer *create(const ota_tokenizer_parts *parts) {
    ota_tokenizer *tokenizer;
    ota_error error = {.message = ""};
    if (ota_tokenizer_create(&tokenizer, parts, &error) != OTA_OK) fail_msg("%s", error.message);
    return tokenizer;
}

/* Freed by the caller. */
static inline int32_t *encode(const ota_tokenizer *tokenizer, const char *text, size_t size,
                              unsigned flags, int64_t *count) {
    ota_error error = {.message = ""};
    if (ota_tokenizer_encode(tokenizer, text, (int64_t)size, flags, NULL, 0, count, &error) !=
        OTA_OK)
        fail_msg("%s", error.message);
    int64_t again;
    int32_t *ids = malloc(((size_t)*count + 1) * sizeof *ids);
    assert_int_equal(
        ota_tokenizer_encode(tokenizer, text, (int64_t)size, flags, ids, *count, &again, &error),
        OTA_OK);
    assert_int_equal(again, *count);
    return ids;
}

/* The pieces of `text`, separated by blanks, must be `wanted`. */
static inline void expect_pieces(const ota_tokenizer *tokenizer, const char *text, unsigned flags,
                                 const char *wanted) {
    char found[1024] = "";
    size_t used = 0;
    int64_t count;
    int32_t *ids = encode(tokenizer, text, strlen(text), flags, &count);
    for (int64_t k = 0; k < count; k++) {
        const ota_text piece = ota_tokenizer_piece(tokenizer, ids[k]);
        used += (size_t)snprintf(found + used, sizeof found - used, "%s%.*s", k > 0 ? " " : "",
                                 (int)piece.size, piece.data);
        assert_true(used < sizeof found);
    }
    free(ids);
    assert_string_equal(found, wanted);
}

static inline void expect_text(const ota_tokenizer *tokenizer, const int32_t *ids, int64_t count,
                               unsigned flags, const char *wanted, size_t size) {
    ota_error error = {.message = ""};
    int64_t length;
    char *text = malloc(size + 64);
    if (ota_tokenizer_decode(tokenizer, ids, count, flags, text, (int64_t)size + 64, &length,
                             &error) != OTA_OK)
        fail_msg("%s", error.message);
    assert_int_equal(length, size);
    assert_memory_equal(text, wanted, size);
    free(text);
}

/* `text` in base64, as JSON spells bytes: out [4 ceil(size / 3) + 1]. */
static inline const char *base64(const char *text, size_t size, char *out) {
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *to = out;
    for (size_t k = 0; k < size; k += 3) {
        uint32_t bits = 0;
        for (size_t i = 0; i < 3; i++)
            bits = bits << 8 | (k + i < size ? (unsigned char)text[k + i] : 0U);
        for (size_t i = 0; i < 4; i++)
            *to++ = k + i > size ? '=' : letters[bits >> (18 - 6 * i) & 63];
    }
    *to = '\0';
    return out;
}

/* A tekken.json of the 256 bytes, then `pieces`, behind three special ones; `more` stands at its end. */
static inline void put_tekken(const char *path, const char *const *pieces, int count,
                              const char *more) {
    static char text[1 << 15];
    const size_t room = sizeof text;
    size_t used = (size_t)snprintf(
        text, room,
        "{\"config\": {\"pattern\": \"[a-z]+|[^a-z]\", \"version\": \"v13\", "
        "\"default_vocab_size\": %d, \"default_num_special_tokens\": 3}, \"special_tokens\": "
        "[{\"rank\": 0, \"token_str\": \"<unk>\"}, {\"rank\": 1, \"token_str\": \"<s>\"}], "
        "\"vocab\": [",
        259 + count);
    for (int k = 0; k < 256 + count; k++) {
        const char byte = (char)(unsigned char)k;
        char spelled[SPELLED];
        used +=
            (size_t)snprintf(text + used, room - used, "%s{\"rank\": %d, \"token_bytes\": \"%s\"}",
                             k > 0 ? ", " : "", k,
                             k < 256 ? base64(&byte, 1, spelled)
                                     : base64(pieces[k - 256], strlen(pieces[k - 256]), spelled));
        assert_true(used < room);
    }
    used += (size_t)snprintf(text + used, room - used, "]%s}", more);
    put(path, text, used);
}

static inline uint64_t draw(uint64_t *state) { return splitmix64(state) >> 33; }

#endif
