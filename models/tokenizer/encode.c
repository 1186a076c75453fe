/* Encoding of a text: the frame of special ids, added tokens, normalisation, words, and a cache of short
 * words.
 *
 * The cache maps a word of at most 24 bytes to the place in the output where its ids were first written,
 * so a hit copies a few integers and nothing is allocated for a word. It is one array, direct-mapped: a
 * later word replaces an earlier one in the same slot. */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "tokenizer_parts.h"

enum { CACHE_LEAST = 64, CACHE_MOST = 1 << 15 };

static ota_status whole_word(ota_token_encoder *encoder, const char *word, size_t size) {
    const ota_tokenizer *tokenizer = encoder->tokenizer;
    const int32_t id = ota_vocabulary_find_model(&tokenizer->vocabulary, word, size);
    if (id >= 0 || tokenizer->unknown >= 0)
        ota_token_put(encoder, id >= 0 ? id : tokenizer->unknown);
    return OTA_OK;
}

static ota_status encode_word(ota_token_encoder *encoder, const char *word, size_t size) {
    switch (encoder->tokenizer->model) {
    case OTA_TOKEN_BPE: return ota_bpe_word(encoder, word, size);
    case OTA_TOKEN_UNIGRAM: return ota_unigram_word(encoder, word, size);
    case OTA_TOKEN_LONGEST: return ota_longest_word(encoder, word, size);
    case OTA_TOKEN_PLAMO: return ota_plamo_word(encoder, word, size);
    case OTA_TOKEN_WORDPIECE: return ota_wordpiece_word(encoder, word, size);
    default:
        return encoder->tokenizer->sentencepiece ? ota_sentencepiece_words(encoder, word, size)
                                                 : whole_word(encoder, word, size);
    }
}

static uint64_t mix(uint64_t a, uint64_t b) {
    const uint64_t product = (a ^ UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xff51afd7ed558ccd);
    return (product ^ product >> 32) + b * UINT64_C(0xc4ceb9fe1a85ec53);
}

ota_status ota_token_ending_begin(const ota_token_options *options, unsigned *flags,
                                  ota_ending *ending, ota_error *error) {
    ota_token_options given = {.size = sizeof given};
    if (options != NULL && options->size == 0)
        return ota_token_fail(error, OTA_EINVAL, "", -1, "options.size must be given");
    /* A caller built with an older header knows fewer fields. */
    if (options != NULL)
        memcpy(&given, options, options->size < sizeof given ? options->size : sizeof given);
    if (flags == NULL && given.flags != 0)
        return ota_token_fail(error, OTA_EINVAL, "", -1, "options.flags must be 0 in this call");
    if (flags != NULL) *flags = given.flags;
    *ending = ota_ending_begin(given.cancel, given.deadline_ns);
    return ota_look(ending, 0, error);
}

ota_status ota_token_word(ota_token_encoder *encoder, const char *word, size_t size) {
    const ota_status looked = ota_look(&encoder->ending, size, encoder->error);
    if (looked != OTA_OK) return looked;
    if (size > OTA_TOKEN_CACHED_WORD) return encode_word(encoder, word, size);
    uint64_t key[3] = {0, 0, 0};
    memcpy(key, word, size);
    uint64_t hash = mix(mix(key[0], key[1]), key[2]);
    hash ^= hash >> 29;
    ota_token_cached *cached = &encoder->cache[hash & encoder->cache_mask];
    if (cached->size == size && cached->word[0] == key[0] && cached->word[1] == key[1] &&
        cached->word[2] == key[2]) {
        /* What was not written for want of room will not be read either: place < count. */
        for (int64_t k = cached->place; k < (int64_t)cached->place + cached->count; k++)
            ota_token_put(encoder, k < encoder->capacity ? encoder->ids[k] : 0);
        return OTA_OK;
    }
    const int64_t place = encoder->count;
    const ota_status status = encode_word(encoder, word, size);
    if (status != OTA_OK || place > UINT32_MAX) return status;
    *cached = (ota_token_cached){.word = {key[0], key[1], key[2]},
                                 .place = (uint32_t)place,
                                 .size = (uint8_t)size,
                                 .count = (uint8_t)(encoder->count - place)};
    return OTA_OK;
}

/* A stretch without added tokens, normalised. Bytes that are no UTF-8 are a word of their own. */
static ota_status encode_plain(ota_token_encoder *encoder, ota_text text) {
    ota_status status = OTA_OK;
    /* Its pieces may begin and end within characters. */
    if (encoder->tokenizer->model == OTA_TOKEN_LONGEST && text.size > 0)
        return ota_token_word(encoder, text.data, text.size);
    const bool marked = encoder->tokenizer->model == OTA_TOKEN_PLAMO && text.size >= 3 &&
                        memcmp(text.data, "\xEF\xBB\xBF", 3) == 0;
    for (size_t at = marked ? 3 : 0; at < text.size && status == OTA_OK;) {
        const size_t valid = ota_token_valid(text.data + at, text.size - at);
        status = ota_token_cut_words(encoder, (ota_text){text.data + at, valid});
        at += valid;
        if (at == text.size || status != OTA_OK) break;
        const size_t malformed = ota_token_malformed(text.data + at, text.size - at);
        status = ota_token_cut_malformed(encoder, (ota_text){text.data + at, malformed});
        at += malformed;
    }
    return status;
}

/* Stretches between the added tokens of the second kind, which are looked for in normalised text. */
static ota_status encode_normalized(ota_token_encoder *encoder, ota_text text, bool plain) {
    const ota_added_set *set = &encoder->tokenizer->normal_added;
    ota_added_match match = {.begin = 0};
    ota_status status = OTA_OK;
    size_t at = 0;
    /* SentencePiece's are pieces like others, not marks in the text; to Unigram and words they are no more than that. */
    if (encoder->tokenizer->sentencepiece) plain = encoder->tokenizer->model != OTA_TOKEN_BPE;
    while (!plain && status == OTA_OK && ota_added_next(set, text.data, text.size, &match)) {
        if (match.begin > at)
            status = encode_plain(encoder, (ota_text){text.data + at, match.begin - at});
        ota_token_put(encoder, match.id);
        at = match.end;
    }
    if (status != OTA_OK) return status;
    return encode_plain(encoder, (ota_text){text.data + at, text.size - at});
}

/* U+FFFD for every malformed part. */
static bool append_malformed(ota_token_buffer *out, ota_text malformed) {
    for (size_t at = 0; at < malformed.size;
         at += ota_token_malformed_part(malformed.data + at, malformed.size - at))
        if (!ota_token_append(out, "\xEF\xBF\xBD", 3)) return false;
    return true;
}

/* Where no id stands for bytes. */
static ota_status repair(ota_token_encoder *encoder, ota_text text, ota_token_buffer *out) {
    for (size_t at = 0; at < text.size;) {
        const size_t valid = ota_token_valid(text.data + at, text.size - at);
        if (!ota_token_append(out, text.data + at, valid))
            return ota_token_no_memory(encoder->error);
        at += valid;
        if (at == text.size) break;
        const size_t malformed = ota_token_malformed(text.data + at, text.size - at);
        if (!append_malformed(out, (ota_text){text.data + at, malformed}))
            return ota_token_no_memory(encoder->error);
        at += malformed;
    }
    return OTA_OK;
}

static bool keeps_bytes(const ota_tokenizer *tokenizer) {
    bool keeps = tokenizer->fallback || tokenizer->model == OTA_TOKEN_LONGEST ||
                 (tokenizer->model == OTA_TOKEN_BPE && !tokenizer->bpe.characters);
    for (int k = 0; k < tokenizer->normal_count; k++)
        keeps = keeps || tokenizer->normal[k].kind == OTA_NORMAL_ALPHABET;
    for (int k = 0; k < tokenizer->cut_count; k++)
        keeps = keeps || tokenizer->cuts[k].rule == OTA_CUT_ALPHABET;
    return keeps;
}

/* Normalises `text` into encoder->normal. */
static ota_status normalize_all(ota_token_encoder *encoder, ota_text text, bool first) {
    ota_normalizing run = {.tokenizer = encoder->tokenizer,
                           .out = &encoder->normal,
                           .spare = &encoder->spare,
                           .ending = &encoder->ending};
    ota_token_buffer repaired = {0};
    ota_status status = OTA_OK;
    if (!keeps_bytes(encoder->tokenizer) && ota_token_valid(text.data, text.size) < text.size) {
        status = repair(encoder, text, &repaired);
        text = (ota_text){repaired.bytes, repaired.used};
    }
    if (status == OTA_OK) status = ota_normalize(&run, text, encoder->error);
    free(repaired.bytes);
    encoder->origin = first && !run.removed ? encoder->normal.bytes : NULL;
    return status;
}

static ota_status encode_stretch(ota_token_encoder *encoder, ota_text text, bool plain,
                                 bool first) {
    if (text.size == 0) return OTA_OK;
    encoder->origin = first ? text.data : NULL;
    if (encoder->tokenizer->normal_count == 0 && keeps_bytes(encoder->tokenizer))
        return encode_normalized(encoder, text, plain);
    const ota_status status = normalize_all(encoder, text, first);
    if (status != OTA_OK) return status;
    return encode_normalized(encoder, (ota_text){encoder->normal.bytes, encoder->normal.used},
                             plain);
}

static ota_status encode_all(ota_token_encoder *encoder, ota_text text, unsigned flags) {
    const ota_tokenizer *tokenizer = encoder->tokenizer;
    const bool framed = (flags & OTA_ENCODE_NO_SPECIAL) == 0,
               plain = (flags & OTA_ENCODE_PLAIN) != 0;
    for (int k = 0; k < tokenizer->before.count && framed; k++)
        ota_token_put(encoder, tokenizer->before.ids[k]);
    ota_added_match match = {.begin = 0};
    ota_status status = OTA_OK;
    size_t at = 0;
    while (!plain && status == OTA_OK &&
           ota_added_next(&tokenizer->raw_added, text.data, text.size, &match)) {
        if (match.begin > at)
            status = encode_stretch(encoder, (ota_text){text.data + at, match.begin - at}, plain,
                                    at == 0);
        ota_token_put(encoder, match.id);
        at = match.end;
    }
    if (status == OTA_OK)
        status =
            encode_stretch(encoder, (ota_text){text.data + at, text.size - at}, plain, at == 0);
    for (int k = 0; k < tokenizer->after.count && framed; k++)
        ota_token_put(encoder, tokenizer->after.ids[k]);
    return status;
}

static bool prepare(ota_token_encoder *encoder, int64_t text_size) {
    size_t slots = CACHE_LEAST;
    while (slots < CACHE_MOST && slots < (size_t)text_size / 8) slots *= 2;
    encoder->cache = calloc(slots, sizeof *encoder->cache);
    encoder->cache_mask = slots - 1;
    return encoder->cache != NULL && ota_matching_start(&encoder->matching, (size_t)text_size);
}

static void release(ota_token_encoder *encoder) {
    free(encoder->cache);
    ota_matching_end(&encoder->matching);
    free(encoder->normal.bytes);
    free(encoder->spare.bytes);
    for (int k = 0; k < OTA_TOKEN_STEPS_MOST; k++) free(encoder->prefixed[k].bytes);
    free(encoder->symbols);
}

ota_status ota_tokenizer_encode(const ota_tokenizer *tokenizer, const char *text, int64_t text_size,
                                unsigned flags, int32_t *ids, int64_t capacity, int64_t *count,
                                ota_error *error) {
    const ota_token_options options = {.size = sizeof options, .flags = flags};
    return ota_tokenizer_encode_with(tokenizer, text, text_size, &options, ids, capacity, count,
                                     error);
}

ota_status ota_tokenizer_encode_with(const ota_tokenizer *tokenizer, const char *text,
                                     int64_t text_size, const ota_token_options *options,
                                     int32_t *ids, int64_t capacity, int64_t *count,
                                     ota_error *error) {
    if (tokenizer == NULL || count == NULL || (text == NULL && text_size > 0) || text_size < 0 ||
        capacity < 0 || (ids == NULL && capacity > 0))
        return ota_token_fail(
            error, OTA_EINVAL, "", -1,
            "tokenizer, count, text and ids must not be NULL and sizes not below 0");
    *count = 0;
    if (text_size > OTA_TOKEN_TEXT_MOST)
        return ota_token_fail(error, OTA_ELIMIT, "", -1,
                              "the text has %lld bytes, above the limit of %d",
                              (long long)text_size, OTA_TOKEN_TEXT_MOST);
    ota_token_encoder encoder = {
        .tokenizer = tokenizer, .ids = ids, .capacity = capacity, .error = error};
    unsigned flags = 0;
    ota_status status = ota_token_ending_begin(options, &flags, &encoder.ending, error);
    if (status == OTA_OK && !prepare(&encoder, text_size)) status = ota_token_no_memory(error);
    if (status == OTA_OK)
        status =
            encode_all(&encoder, (ota_text){text == NULL ? "" : text, (size_t)text_size}, flags);
    release(&encoder);
    if (status == OTA_OK) *count = encoder.count;
    return status;
}
