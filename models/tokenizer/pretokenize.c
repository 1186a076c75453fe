/* Cutting a text into words by rules, one after another: each piece that one rule leaves is cut by the next, and what the
 * last one leaves are the words. */
#include <stdlib.h>
#include <string.h>

#include "patterns.h"

const char *const ota_cut_gpt2 =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
const char *const ota_cut_space = "\\s";
const char *const ota_cut_number = "\\p{N}";
const char *const ota_cut_numbers = "\\p{N}+";
const char *const ota_cut_punctuation = "[!-/:-@\\[-`{-~\\p{P}]";
const char *const ota_cut_words = "[" RUST_WORDS "]+|[^" RUST_WORDS "\\s]+";

static ota_status cut_from(ota_token_encoder *encoder, int step, ota_text text);

/* What is still to be given to the next cut: [begin, end), with the rule's memory of the last match. */
typedef struct pending {
    size_t begin, end;
    bool match, waits;
} pending;

static ota_status give(ota_token_encoder *encoder, int step, ota_text text, pending *last) {
    const bool waits = last->waits;
    last->waits = false;
    if (!waits || last->begin == last->end) return OTA_OK;
    return cut_from(encoder, step + 1,
                    (ota_text){text.data + last->begin, last->end - last->begin});
}

/* The next stretch, a match or what lies between two. */
static ota_status take(ota_token_encoder *encoder, int step, ota_text text, pending *last,
                       size_t begin, size_t end, bool match) {
    if (begin == end) return OTA_OK;
    const ota_cut *cut = &encoder->tokenizer->cuts[step];
    match ^= cut->invert;
    bool joins = false;
    switch (cut->rule) {
    case OTA_CUT_REMOVED:
        if (match) return give(encoder, step, text, last);
        break;
    case OTA_CUT_WITH_PREVIOUS: joins = match && !last->match; break;
    case OTA_CUT_WITH_NEXT: joins = !match && last->match; break;
    case OTA_CUT_CONTIGUOUS: joins = match == last->match; break;
    default: break;
    }
    if (joins && last->waits) {
        last->end = end;
    } else {
        const ota_status status = give(encoder, step, text, last);
        if (status != OTA_OK) return status;
        *last = (pending){.begin = begin, .end = end, .waits = true};
    }
    last->match = match;
    return OTA_OK;
}

static ota_status cut_by_pattern(ota_token_encoder *encoder, int step, ota_text text) {
    const ota_cut *cut = &encoder->tokenizer->cuts[step];
    pending last = {.waits = false};
    ota_status status = OTA_OK;
    for (size_t at = 0, searched = 0; at < text.size && status == OTA_OK;) {
        size_t begin, end;
        status = ota_pattern_find(cut->pattern, &encoder->matching, text, searched, &begin, &end);
        if (status != OTA_OK)
            return ota_token_fail(
                encoder->error, status, "", -1,
                "cutting the text into words takes too many steps of the pattern");
        if (status == OTA_OK) status = take(encoder, step, text, &last, at, begin, false);
        if (status == OTA_OK) status = take(encoder, step, text, &last, begin, end, true);
        at = end;
        searched = ota_pattern_after(text, begin, end);
    }
    return status == OTA_OK ? give(encoder, step, text, &last) : status;
}

/* ---- rules that change a piece ---- */

static bool put_alphabet(ota_token_buffer *out, ota_text text) {
    for (size_t k = 0; k < text.size; k++)
        if (!ota_token_put_byte(out, (unsigned char)text.data[k])) return false;
    return true;
}

static bool put_spelled(ota_token_buffer *out, ota_text text, ota_text sign, bool front) {
    const bool has = text.data[0] == ' ' ||
                     (text.size >= sign.size && memcmp(text.data, sign.data, sign.size) == 0);
    bool fine = !front || has || ota_token_append(out, sign.data, sign.size);
    for (size_t at = 0; at < text.size && fine;) {
        const char *blank = memchr(text.data + at, ' ', text.size - at);
        const size_t plain = blank == NULL ? text.size - at : (size_t)(blank - text.data) - at;
        fine = ota_token_append(out, text.data + at, plain) &&
               (blank == NULL || ota_token_append(out, sign.data, sign.size));
        at += plain + (blank != NULL);
    }
    return fine;
}

static ota_status change(ota_token_encoder *encoder, int step, ota_text text) {
    const ota_cut *cut = &encoder->tokenizer->cuts[step];
    const ota_text sign = {cut->sign, strlen(cut->sign)};
    const bool first = encoder->origin == text.data,
               front =
                   cut->rule == OTA_CUT_SPELL_ALL || (cut->rule == OTA_CUT_SPELL_FIRST && first);
    if (cut->rule == OTA_CUT_PREFIX_SPACE && text.data[0] == ' ')
        return cut_from(encoder, step + 1, text);
    ota_token_buffer *buffer = &encoder->prefixed[step];
    buffer->used = 0;
    const bool fine =
        cut->rule == OTA_CUT_PREFIX_SPACE
            ? ota_token_append(buffer, " ", 1) && ota_token_append(buffer, text.data, text.size)
        : cut->rule == OTA_CUT_ALPHABET ? put_alphabet(buffer, text)
                                        : put_spelled(buffer, text, sign, front);
    if (!fine) return ota_token_no_memory(encoder->error);
    const char *origin = encoder->origin;
    encoder->origin = first ? buffer->bytes : NULL;
    const ota_status status = cut_from(encoder, step + 1, (ota_text){buffer->bytes, buffer->used});
    encoder->origin = origin;
    return status;
}

static ota_status cut_from(ota_token_encoder *encoder, int step, ota_text text) {
    if (step == encoder->tokenizer->cut_count) return ota_token_word(encoder, text.data, text.size);
    return encoder->tokenizer->cuts[step].rule >= OTA_CUT_PREFIX_SPACE
               ? change(encoder, step, text)
               : cut_by_pattern(encoder, step, text);
}

ota_status ota_token_cut_words(ota_token_encoder *encoder, ota_text text) {
    return text.size == 0 ? OTA_OK : cut_from(encoder, 0, text);
}

ota_status ota_token_cut_malformed(ota_token_encoder *encoder, ota_text text) {
    const ota_tokenizer *tokenizer = encoder->tokenizer;
    for (int step = 0; step < tokenizer->cut_count; step++)
        if (tokenizer->cuts[step].rule == OTA_CUT_ALPHABET) return change(encoder, step, text);
    return ota_token_word(encoder, text.data, text.size);
}
