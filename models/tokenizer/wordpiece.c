/* WordPiece: from the left, always the longest piece of the vocabulary; pieces that continue a word are
 * spelled with a prefix, usually ##. A word that cannot be used up so, or is too long, is unknown.
 *
 * The hash of all starts of what is left is one running hash, so a step costs one pass over at most the
 * longest piece's bytes. */
#include <string.h>

#include "tokenizer_parts.h"

/* Id of the longest piece that `text` begins with, -1 when there is none; *taken = its bytes. */
static int32_t longest_piece(const ota_tokenizer *tokenizer, const char *text, size_t size,
                             bool continues, size_t *taken) {
    const ota_vocabulary *vocabulary = &tokenizer->vocabulary;
    const size_t before = continues ? tokenizer->wordpiece.prefix_size : 0;
    const char *prefix = tokenizer->wordpiece.prefix;
    uint64_t hash = ota_token_hash(OTA_TOKEN_HASH_START, prefix, before);
    int32_t best = -1;
    for (size_t end = 1; end <= size && end + before <= vocabulary->longest; end++) {
        hash = ota_token_hash(hash, text + end - 1, 1);
        if (end < size && ((unsigned char)text[end] & 0xC0) == 0x80) continue;
        uint64_t slot = ota_token_spread(hash) & vocabulary->mask;
        for (; vocabulary->slots[slot] >= 0; slot = (slot + 1) & vocabulary->mask) {
            const ota_text piece = ota_vocabulary_text(vocabulary, vocabulary->slots[slot]);
            if (vocabulary->outside[vocabulary->slots[slot]] || piece.size != before + end ||
                memcmp(piece.data, prefix, before) != 0 ||
                memcmp(piece.data + before, text, end) != 0)
                continue;
            best = vocabulary->slots[slot];
            *taken = end;
            break;
        }
    }
    return best;
}

static int64_t characters(const char *text, size_t size) {
    int64_t count = 0;
    for (size_t i = 0; i < size; i++) count += ((unsigned char)text[i] & 0xC0) != 0x80;
    return count;
}

ota_status ota_wordpiece_word(ota_token_encoder *encoder, const char *word, size_t size) {
    const ota_tokenizer *tokenizer = encoder->tokenizer;
    const int64_t begun = encoder->count;
    bool whole = characters(word, size) <= tokenizer->wordpiece.longest_word;
    size_t taken = 0;
    for (size_t at = 0; at < size && whole; at += taken) {
        const int32_t id = longest_piece(tokenizer, word + at, size - at, at > 0, &taken);
        whole = id >= 0;
        if (whole) ota_token_put(encoder, id);
    }
    if (!whole) {
        encoder->count = begun;
        ota_token_put(encoder, tokenizer->unknown);
    }
    return OTA_OK;
}
