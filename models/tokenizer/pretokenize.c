/* Cutting a text into words by regular expressions, one after another: each piece that one cut leaves is
 * cut by the next, and what the last one leaves are the words.
 *
 * PCRE2 matches, compiled to machine code. Its classes are not quite those of the engines that the
 * `tokenizers` package uses: \s, \S, \w, \W, \b and \B are rewritten to the same sets of characters. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer_parts.h"

#define SPACES                                                                                     \
    "\\x09-\\x0d\\x20\\x85\\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}"   \
    "\\x{3000}"
#define LETTERS                                                                                    \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{"     \
    "1f169}"                                                                                       \
    "\\x{1f170}-\\x{1f189}"
/* \w of Oniguruma, whose patterns files hold: letters in circles too, and six numbers of Latin-1. */
#define WORDS LETTERS "\\xb2\\xb3\\xb9\\xbc-\\xbe"
/* \w of Rust's regex, in which the step Whitespace is written: without those numbers, with the two joiners. */
#define RUST_WORDS LETTERS "\\x{200c}\\x{200d}"

const char *const ota_cut_gpt2 =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
const char *const ota_cut_llama3 =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}"
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const char *const ota_cut_space = "\\s";
const char *const ota_cut_number = "\\p{N}";
const char *const ota_cut_numbers = "\\p{N}+";
const char *const ota_cut_punctuation = "[!-/:-@\\[-`{-~\\p{P}]";
const char *const ota_cut_words = "[" RUST_WORDS "]+|[^" RUST_WORDS "\\s]+";

/* ---- patterns ---- */

typedef struct rewriting {
    ota_token_buffer out;
    bool in_class, fine;
} rewriting;

static void put(rewriting *r, const char *text) {
    r->fine = r->fine && ota_token_append(&r->out, text, strlen(text));
}

/* One escape; false when it cannot be said in PCRE2's classes. */
static bool rewrite_escape(rewriting *r, char letter) {
    switch (letter) {
    case 's': put(r, r->in_class ? SPACES : "[" SPACES "]"); return true;
    case 'S': put(r, "[^" SPACES "]"); return !r->in_class;
    case 'w': put(r, r->in_class ? WORDS : "[" WORDS "]"); return true;
    case 'W': put(r, "[^" WORDS "]"); return !r->in_class;
    case 'b':
        put(r, r->in_class ? "\\b"
                           : "(?:(?<=[" WORDS "])(?![" WORDS "])|(?<![" WORDS "])(?=[" WORDS "]))");
        return true;
    case 'B':
        put(r, "(?:(?<=[" WORDS "])(?=[" WORDS "])|(?<![" WORDS "])(?![" WORDS "]))");
        return !r->in_class;
    case 'h':
    case 'H':
        /* Hexadecimal digits there, horizontal space here. */
        return false;
    default: put(r, (const char[]){'\\', letter, '\0'}); return true;
    }
}

/* NULL in *reason: rewritten into r->out. */
static void rewrite(rewriting *r, ota_text pattern, const char **reason) {
    *reason = NULL;
    size_t class_began = 0;
    for (size_t at = 0; at < pattern.size && *reason == NULL; at++) {
        const char letter = pattern.data[at];
        if (letter == '\\' && at + 1 < pattern.size) {
            if (!rewrite_escape(r, pattern.data[++at]))
                *reason = "uses a class that has another meaning here";
            continue;
        }
        if (!r->in_class && letter == '[') {
            r->in_class = true;
            class_began = at + 1;
            if (class_began < pattern.size && pattern.data[class_began] == '^') class_began++;
        } else if (r->in_class && letter == ']' && at > class_began) {
            r->in_class = false;
        } else if (r->in_class && letter == '[') {
            *reason = "has a class inside a class";
        } else if (r->in_class && letter == '&' && pattern.data[at - 1] == '&') {
            *reason = "intersects classes";
        }
        put(r, (const char[]){letter, '\0'});
    }
}

ota_status ota_cut_compile(ota_cut *cut, ota_text pattern, bool literal, const char *path,
                           int64_t offset, ota_error *error) {
    if (pattern.size == 0 || pattern.size > OTA_TOKEN_PIECE_MOST ||
        memchr(pattern.data, '\0', pattern.size) != NULL)
        return ota_token_fail(error, OTA_EFORMAT, path, offset,
                              "a pattern must have 1 to %d bytes and no NUL", OTA_TOKEN_PIECE_MOST);
    rewriting r = {.fine = true};
    const char *reason = NULL;
    if (literal)
        r.fine = ota_token_append(&r.out, pattern.data, pattern.size);
    else
        rewrite(&r, pattern, &reason);
    ota_status status = OTA_OK;
    if (!r.fine) status = ota_token_no_memory(error);
    if (reason != NULL)
        status =
            ota_token_fail(error, OTA_UNSUPPORTED, path, offset, "the pattern \"%.*s\" %s",
                           (int)(pattern.size < 100 ? pattern.size : 100), pattern.data, reason);
    if (status == OTA_OK) {
        int code = 0;
        PCRE2_SIZE place = 0;
        /* \C would match half a character. */
        const uint32_t options = PCRE2_UTF | PCRE2_NO_UTF_CHECK |
                                 (literal ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C);
        cut->pattern =
            pcre2_compile((PCRE2_SPTR)r.out.bytes, r.out.used, options, &code, &place, NULL);
        if (cut->pattern == NULL && code == PCRE2_ERROR_HEAP_FAILED) {
            status = ota_token_no_memory(error);
        } else if (cut->pattern == NULL) {
            char text[128] = "";
            (void)pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof text);
            status =
                ota_token_fail(error, OTA_EFORMAT, path, offset, "the pattern \"%.*s\": %s",
                               (int)(pattern.size < 100 ? pattern.size : 100), pattern.data, text);
        } else {
            /* Where machine code may not be made, PCRE2 interprets. */
            (void)pcre2_jit_compile(cut->pattern, PCRE2_JIT_COMPLETE);
        }
    }
    free(r.out.bytes);
    return status;
}

void ota_cut_free(ota_cut *cut) { pcre2_code_free(cut->pattern); }

/* ---- matching ---- */

static ota_status cut_from(ota_token_encoder *encoder, int step, ota_text text);

static ota_status find(ota_token_encoder *encoder, const ota_cut *cut, ota_text text, size_t from,
                       size_t *begin, size_t *end) {
    int found = pcre2_match(cut->pattern, (PCRE2_SPTR)text.data, text.size, from,
                            PCRE2_NO_UTF_CHECK, encoder->match, encoder->match_context);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
        found =
            pcre2_match(cut->pattern, (PCRE2_SPTR)text.data, text.size, from,
                        PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, encoder->match, encoder->match_context);
    *begin = *end = text.size;
    if (found == PCRE2_ERROR_NOMATCH) return OTA_OK;
    if (found < 0)
        return ota_token_fail(encoder->error, OTA_ELIMIT, "", -1,
                              "cutting the text into words takes too many steps of the pattern");
    const PCRE2_SIZE *places = pcre2_get_ovector_pointer(encoder->match);
    *begin = places[0];
    /* \K in a lookahead can put the beginning behind the end. */
    *end = places[1] < places[0] ? places[0] : places[1];
    if (*begin < from) *begin = from;
    if (*end < *begin) *end = *begin;
    return OTA_OK;
}

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
        status = find(encoder, cut, text, searched, &begin, &end);
        if (status == OTA_OK) status = take(encoder, step, text, &last, at, begin, false);
        if (status == OTA_OK) status = take(encoder, step, text, &last, begin, end, true);
        at = end;
        searched = end;
        if (begin == end && end < text.size)
            /* An empty match: the next one begins after the next character. */
            do searched++;
            while (searched < text.size && ((unsigned char)text.data[searched] & 0xC0) == 0x80);
    }
    return status == OTA_OK ? give(encoder, step, text, &last) : status;
}

static ota_status put_space(ota_token_encoder *encoder, int step, ota_text text) {
    if (text.data[0] == ' ') return cut_from(encoder, step + 1, text);
    ota_token_buffer *buffer = &encoder->prefixed[step];
    buffer->used = 0;
    if (!ota_token_append(buffer, " ", 1) || !ota_token_append(buffer, text.data, text.size))
        return ota_token_no_memory(encoder->error);
    return cut_from(encoder, step + 1, (ota_text){buffer->bytes, buffer->used});
}

static ota_status cut_from(ota_token_encoder *encoder, int step, ota_text text) {
    if (step == encoder->tokenizer->cut_count) return ota_token_word(encoder, text.data, text.size);
    return encoder->tokenizer->cuts[step].rule == OTA_CUT_PREFIX_SPACE
               ? put_space(encoder, step, text)
               : cut_by_pattern(encoder, step, text);
}

ota_status ota_token_cut_words(ota_token_encoder *encoder, ota_text text) {
    return text.size == 0 ? OTA_OK : cut_from(encoder, 0, text);
}
