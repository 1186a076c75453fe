/* Ids back to text.
 *
 * Byte-level BPE: the bytes that the pieces stand for, one after another; an added token is its own text.
 * SentencePiece: the same, with a blank for every U+2581.
 * WordPiece: pieces with a blank between words; with clean-up, none before punctuation and in
 * contractions, as English is written. */
#include <stdlib.h>
#include <string.h>

#include "base/integers.h"
#include "tokenizer_parts.h"

/* What a blank before it is taken from. */
static const char *const tight[] = {" .",   " ?",  " !",  " ,",   " ' ",
                                    " n't", " 'm", " 's", " 've", " 're"};

/* Replaces `found`, which begins with a blank, by the same without blanks at its ends. */
static void tighten(ota_token_buffer *text, size_t from, const char *found) {
    const size_t size = strlen(found), kept = size - 1 - (found[size - 1] == ' ');
    size_t out = from;
    for (size_t at = from; at < text->used;) {
        if (text->used - at >= size && memcmp(text->bytes + at, found, size) == 0) {
            memcpy(text->bytes + out, found + 1, kept);
            out += kept;
            at += size;
        } else {
            text->bytes[out++] = text->bytes[at++];
        }
    }
    text->used = out;
}

static bool append_wordpiece(const ota_tokenizer *tokenizer, ota_text piece, bool first,
                             ota_token_buffer *out) {
    const ota_wordpiece *wordpiece = &tokenizer->wordpiece;
    const size_t prefix = wordpiece->prefix_size, from = out->used;
    const bool continues =
        piece.size >= prefix && prefix > 0 && memcmp(piece.data, wordpiece->prefix, prefix) == 0;
    if (!first && continues) piece = (ota_text){piece.data + prefix, piece.size - prefix};
    if (!first && !continues && !ota_token_append(out, " ", 1)) return false;
    if (!ota_token_append(out, piece.data, piece.size)) return false;
    /* Each piece by itself, as the peers do. */
    for (size_t k = 0; k < sizeof tight / sizeof *tight && tokenizer->clean_up; k++)
        tighten(out, from, tight[k]);
    return true;
}

static bool append_piece(const ota_tokenizer *tokenizer, int32_t id, bool first,
                         ota_token_buffer *out) {
    const bool added = (tokenizer->kinds[id] & OTA_TOKEN_IS_ADDED) != 0,
               raw = tokenizer->model == OTA_TOKEN_BPE && (!added || tokenizer->bpe.characters);
    const ota_text piece =
        ota_vocabulary_text(raw ? &tokenizer->bpe.raw : &tokenizer->vocabulary, id);
    if (tokenizer->model == OTA_TOKEN_BPE) return ota_token_append(out, piece.data, piece.size);
    return append_wordpiece(tokenizer, piece, first, out);
}

ota_status ota_tokenizer_decode(const ota_tokenizer *tokenizer, const int32_t *ids, int64_t count,
                                unsigned flags, char *text, int64_t capacity, int64_t *size,
                                ota_error *error) {
    if (tokenizer == NULL || size == NULL || count < 0 || (ids == NULL && count > 0) ||
        capacity < 0 || (text == NULL && capacity > 0))
        return ota_token_fail(
            error, OTA_EINVAL, "", -1,
            "tokenizer, size, ids and text must not be NULL and sizes not below 0");
    *size = 0;
    ota_token_buffer out = {0};
    bool fine = true, first = true;
    for (int64_t k = 0; k < count && fine; k++) {
        if (ids[k] < 0 || ids[k] >= tokenizer->vocabulary.count) {
            free(out.bytes);
            return ota_token_fail(error, OTA_EINVAL, "", -1,
                                  "id %d, number %lld of the list, is outside of the vocabulary: 0 "
                                  "to %d",
                                  (int)ids[k], (long long)k, (int)tokenizer->vocabulary.count - 1);
        }
        if ((flags & OTA_DECODE_NO_SPECIAL) != 0 && ota_tokenizer_is_special(tokenizer, ids[k]))
            continue;
        fine = append_piece(tokenizer, ids[k], first, &out);
        first = false;
    }
    if (fine) {
        *size = (int64_t)out.used;
        const int64_t copied = ota_int_min(*size, capacity);
        if (copied > 0) memcpy(text, out.bytes, (size_t)copied);
    }
    free(out.bytes);
    return fine ? OTA_OK : ota_token_no_memory(error);
}
