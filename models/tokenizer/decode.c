/* Ids back to text: the pieces of the ids go through a short list of steps, each of which reads one list of pieces and
 * writes another; the text is what the last one leaves, joined.
 *
 * The commonest list, the bytes that the characters of pieces stand for, is done as the ids come. There an added token
 * is its own text. */
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

/* ---- lists of pieces ---- */

typedef struct pieces {
    ota_token_buffer text;
    size_t *ends; /* [count] */
    size_t count, room;
} pieces;

/* What ends a list of steps before its end: who may, and what it says. */
typedef struct watched {
    ota_ending ending;
    ota_status status;
    ota_error *error;
} watched;

/* After the work on one more piece. */
static bool goes_on(watched *w, size_t size) {
    w->status = ota_look(&w->ending, size + 1, w->error);
    return w->status == OTA_OK;
}

static ota_text piece_at(const pieces *list, size_t k) {
    const size_t begin = k == 0 ? 0 : list->ends[k - 1];
    return (ota_text){list->text.bytes + begin, list->ends[k] - begin};
}

/* What was appended to the text since the last piece is one. */
static bool end_piece(pieces *list) {
    void *ends = list->ends;
    const bool grown = ota_token_grow(&ends, &list->room, list->count + 1, sizeof *list->ends);
    list->ends = ends;
    if (grown) list->ends[list->count++] = list->text.used;
    return grown;
}

static void free_pieces(pieces *list) {
    free(list->text.bytes);
    free(list->ends);
}

/* ---- steps ---- */

/* `at` of the list, appended to out->text. */
typedef bool undo_piece(const ota_undo *step, ota_text piece, bool first, bool last,
                        ota_token_buffer *out);

static bool put_unspelled(const ota_undo *step, ota_text piece, bool first, bool last,
                          ota_token_buffer *out) {
    (void)step;
    (void)first;
    (void)last;
    if (!ota_token_reserve(out, piece.size + 1)) return false;
    out->used += ota_token_unspell(piece, out->bytes + out->used);
    return true;
}

static bool starts_with(ota_text text, ota_text with) {
    return with.size > 0 && text.size >= with.size && memcmp(text.data, with.data, with.size) == 0;
}

static bool undo_spelling(const ota_undo *step, ota_text piece, bool first, bool last,
                          ota_token_buffer *out) {
    const ota_text sign = {step->text, step->text_size};
    (void)last;
    bool fine = true;
    for (size_t at = 0; at < piece.size && fine;) {
        const bool is = starts_with((ota_text){piece.data + at, piece.size - at}, sign);
        if (!is) fine = ota_token_append(out, piece.data + at, 1);
        if (is && !(first && step->count != 0)) fine = ota_token_append(out, " ", 1);
        at += is ? sign.size : 1;
    }
    return fine;
}

static bool strip(const ota_undo *step, ota_text piece, bool first, bool last,
                  ota_token_buffer *out) {
    const ota_text what = {step->text, step->text_size};
    (void)first;
    (void)last;
    for (int64_t k = 0; k < step->count && starts_with(piece, what); k++)
        piece = (ota_text){piece.data + what.size, piece.size - what.size};
    for (int64_t k = 0; k < step->last && piece.size >= what.size; k++) {
        if (memcmp(piece.data + piece.size - what.size, what.data, what.size) != 0) break;
        piece.size -= what.size;
    }
    return ota_token_append(out, piece.data, piece.size);
}

static bool put_wordpiece(const ota_undo *step, ota_text piece, bool first, bool last,
                          ota_token_buffer *out) {
    const ota_text prefix = {step->text, step->text_size};
    const size_t from = out->used;
    (void)last;
    const bool continues = prefix.size == 0 || starts_with(piece, prefix);
    if (!first && continues) piece = (ota_text){piece.data + prefix.size, piece.size - prefix.size};
    if (!first && !continues && !ota_token_append(out, " ", 1)) return false;
    if (!ota_token_append(out, piece.data, piece.size)) return false;
    /* Each piece by itself, as the peers do. */
    for (size_t k = 0; k < sizeof tight / sizeof *tight && step->count != 0; k++)
        tighten(out, from, tight[k]);
    return true;
}

static bool undo_suffix(const ota_undo *step, ota_text piece, bool first, bool last,
                        ota_token_buffer *out) {
    const ota_text suffix = {step->text, step->text_size};
    (void)first;
    bool fine = true;
    for (size_t at = 0; at < piece.size && fine;) {
        const bool is = starts_with((ota_text){piece.data + at, piece.size - at}, suffix);
        fine =
            is ? last || ota_token_append(out, " ", 1) : ota_token_append(out, piece.data + at, 1);
        at += is ? suffix.size : 1;
    }
    return fine;
}

static bool put_joined(const ota_undo *step, ota_text piece, bool first, bool last,
                       ota_token_buffer *out) {
    (void)step;
    (void)last;
    return (first || ota_token_append(out, " ", 1)) &&
           ota_token_append(out, piece.data, piece.size);
}

/* A run of pieces of bytes is their text where it is UTF-8, and else an U+FFFD for each byte. */
static bool end_bytes(const ota_undo *step, ota_token_buffer *bytes, pieces *to) {
    const size_t count = bytes->used;
    bytes->used = 0;
    if (count == 0) return true;
    if (step->keep || ota_token_valid(bytes->bytes, count) == count)
        return ota_token_append(&to->text, bytes->bytes, count) && end_piece(to);
    for (size_t k = 0; k < count; k++)
        if (!ota_token_append(&to->text, "\xEF\xBF\xBD", 3) || !end_piece(to)) return false;
    return true;
}

static bool undo_fallback(const ota_undo *step, const pieces *from, pieces *to, watched *w) {
    ota_token_buffer bytes = {0};
    bool fine = true;
    for (size_t k = 0; k < from->count && fine; k++) {
        const ota_text piece = piece_at(from, k);
        const int byte = ota_sentencepiece_byte(piece);
        if (!goes_on(w, piece.size)) break;
        const char letter = (char)(unsigned char)byte;
        if (byte >= 0)
            fine = ota_token_append(&bytes, &letter, 1);
        else
            fine = end_bytes(step, &bytes, to) &&
                   ota_token_append(&to->text, piece.data, piece.size) && end_piece(to);
    }
    fine = fine && end_bytes(step, &bytes, to);
    free(bytes.bytes);
    return fine;
}

static bool undo_front(const ota_undo *step, const pieces *from, pieces *to, watched *w) {
    bool open = step->count != 0, fine = true;
    for (size_t k = 0; k < from->count && fine; k++) {
        ota_text piece = piece_at(from, k);
        if (!goes_on(w, piece.size)) break;
        if (open && to->text.used == 0 && piece.size > 0 && *piece.data == ' ') {
            piece = (ota_text){piece.data + 1, piece.size - 1};
            open = step->last != 0;
        }
        fine = ota_token_append(&to->text, piece.data, piece.size) && end_piece(to);
    }
    return fine;
}

static ota_status run_step(const ota_undo *step, const pieces *from, pieces *to, watched *w) {
    static undo_piece *const each[] = {
        [OTA_UNDO_BYTES] = put_unspelled, [OTA_UNDO_SPELL] = undo_spelling,
        [OTA_UNDO_STRIP] = strip,         [OTA_UNDO_WORDPIECE] = put_wordpiece,
        [OTA_UNDO_SUFFIX] = undo_suffix,  [OTA_UNDO_JOIN] = put_joined};
    bool fine = true;
    if (step->kind == OTA_UNDO_FALLBACK) {
        fine = undo_fallback(step, from, to, w);
    } else if (step->kind == OTA_UNDO_FRONT) {
        fine = undo_front(step, from, to, w);
    } else if (step->kind == OTA_UNDO_FUSE) {
        fine = ota_token_append(&to->text, from->text.bytes, from->text.used) && end_piece(to);
    } else if (step->kind == OTA_UNDO_REPLACE) {
        for (size_t k = 0; k < from->count && fine; k++) {
            const ota_status status = ota_pattern_replace(step->pattern, piece_at(from, k),
                                                          (ota_text){step->text, step->text_size},
                                                          &to->text, &w->ending, w->error);
            if (status != OTA_OK) return status;
            fine = end_piece(to);
        }
    } else {
        for (size_t k = 0; k < from->count && fine; k++) {
            const ota_text piece = piece_at(from, k);
            if (!goes_on(w, piece.size)) break;
            fine = each[step->kind](step, piece, k == 0, k + 1 == from->count, &to->text) &&
                   end_piece(to);
        }
    }
    if (w->status != OTA_OK) return w->status;
    return fine ? OTA_OK : ota_token_no_memory(w->error);
}

static bool keeps_front(const ota_undo *step) {
    return step->kind == OTA_UNDO_SPELL || step->kind == OTA_UNDO_STRIP ||
           step->kind == OTA_UNDO_FRONT;
}

static ota_status run_steps(const ota_tokenizer *tokenizer, pieces *list, unsigned flags,
                            watched *w) {
    ota_status status = OTA_OK;
    for (int k = 0; k < tokenizer->undo_count && status == OTA_OK; k++) {
        ota_undo step = tokenizer->undo[k];
        pieces next = {0};
        if ((flags & OTA_DECODE_INNER) != 0 && keeps_front(&step)) step.count = 0;
        status = run_step(&step, list, &next, w);
        free_pieces(list);
        *list = next;
    }
    return status;
}

/* ---- all of it ---- */

/* The text that goes into the steps; an added token is as it is looked for. Where bytes are the only step, what that
 * makes of it. */
static ota_text text_of(const ota_tokenizer *tokenizer, int32_t id, bool direct) {
    const bool added = (tokenizer->kinds[id] & OTA_TOKEN_IS_ADDED) != 0;
    const int32_t place = tokenizer->normalized == NULL ? -1 : tokenizer->normalized[id];
    if (place >= 0) {
        const ota_token_entry *text = &tokenizer->normal_added.tokens[place].text;
        return (ota_text){tokenizer->normal_added.text.bytes + text->begin, text->size};
    }
    return ota_vocabulary_text(direct && !added ? &tokenizer->bpe.raw : &tokenizer->vocabulary, id);
}

static ota_status decode(const ota_tokenizer *tokenizer, const int32_t *ids, int64_t count,
                         unsigned flags, pieces *list, watched *w) {
    const bool direct = tokenizer->undo_count == 1 && tokenizer->undo[0].kind == OTA_UNDO_BYTES &&
                        tokenizer->bpe.raw.begin != NULL;
    for (int64_t k = 0; k < count; k++) {
        if (ids[k] < 0 || ids[k] >= tokenizer->vocabulary.count)
            return ota_token_fail(w->error, OTA_EINVAL, "", -1,
                                  "id %d, number %lld of the list, is outside of the vocabulary: 0 "
                                  "to %d",
                                  (int)ids[k], (long long)k, (int)tokenizer->vocabulary.count - 1);
        if ((flags & OTA_DECODE_NO_SPECIAL) != 0 && ota_tokenizer_is_special(tokenizer, ids[k]))
            continue;
        const ota_text piece = text_of(tokenizer, ids[k], direct);
        if (!goes_on(w, piece.size)) return w->status;
        if (!ota_token_append(&list->text, piece.data, piece.size) || (!direct && !end_piece(list)))
            return ota_token_no_memory(w->error);
    }
    return direct ? OTA_OK : run_steps(tokenizer, list, flags, w);
}

ota_status ota_tokenizer_decode(const ota_tokenizer *tokenizer, const int32_t *ids, int64_t count,
                                unsigned flags, char *text, int64_t capacity, int64_t *size,
                                ota_error *error) {
    const ota_token_options options = {.size = sizeof options, .flags = flags};
    return ota_tokenizer_decode_with(tokenizer, ids, count, &options, text, capacity, size, error);
}

ota_status ota_tokenizer_decode_with(const ota_tokenizer *tokenizer, const int32_t *ids,
                                     int64_t count, const ota_token_options *options, char *text,
                                     int64_t capacity, int64_t *size, ota_error *error) {
    if (tokenizer == NULL || size == NULL || count < 0 || (ids == NULL && count > 0) ||
        capacity < 0 || (text == NULL && capacity > 0))
        return ota_token_fail(
            error, OTA_EINVAL, "", -1,
            "tokenizer, size, ids and text must not be NULL and sizes not below 0");
    *size = 0;
    pieces list = {0};
    watched w = {.error = error};
    unsigned flags;
    ota_status status = ota_token_ending_begin(options, &flags, &w.ending, error);
    if (status == OTA_OK) status = decode(tokenizer, ids, count, flags, &list, &w);
    if (status == OTA_OK) {
        *size = (int64_t)list.text.used;
        const int64_t copied = ota_int_min(*size, capacity);
        if (copied > 0) memcpy(text, list.text.bytes, (size_t)copied);
    }
    free_pieces(&list);
    return status;
}
