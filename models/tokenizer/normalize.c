/* Normalisation before a text is cut into words: a short list of steps, each of which reads one buffer and writes
 * another. Unicode forms and categories are utf8proc's. Steps see the stretches of valid UTF-8 and leave bytes between
 * them alone; what is said of a text's ends holds for the whole of it. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "tokenizer_parts.h"

static bool put_character(ota_token_buffer *out, int32_t character) {
    if (!ota_token_reserve(out, 4)) return false;
    out->used +=
        (size_t)utf8proc_encode_char(character, (utf8proc_uint8_t *)out->bytes + out->used);
    return true;
}

static bool unicode_form(ota_text text, utf8proc_option_t form, ota_token_buffer *out) {
    utf8proc_uint8_t *mapped = NULL;
    const utf8proc_ssize_t size =
        utf8proc_map((const utf8proc_uint8_t *)text.data, (utf8proc_ssize_t)text.size, &mapped,
                     (utf8proc_option_t)(UTF8PROC_STABLE | form));
    const bool fine = size >= 0 && ota_token_append(out, (const char *)mapped, (size_t)size);
    free(mapped);
    return fine;
}

static bool is_chinese(int32_t character) {
    static const int32_t blocks[][2] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF},
                                        {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF},
                                        {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
    for (size_t k = 0; k < sizeof blocks / sizeof *blocks; k++)
        if (character >= blocks[k][0] && character <= blocks[k][1]) return true;
    return false;
}

static bool is_control(int32_t character) {
    switch (utf8proc_category(character)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CO: return true;
    default: return false;
    }
}

static bool is_nmt_control(int32_t character) {
    return (character >= 1 && character <= 8) || character == 0x0B ||
           (character >= 0x0E && character <= 0x1F) || character == 0x7F || character == 0x8F ||
           character == 0x9F;
}

static bool is_nmt_blank(int32_t character) {
    return character == 9 || character == 10 || character == 12 || character == 13 ||
           character == 0x1680 || (character >= 0x200B && character <= 0x200F) ||
           character == 0x2028 || character == 0x2029 || character == 0x2581 ||
           character == 0xFEFF || character == 0xFFFD;
}

/* What becomes of one character; each step that is no Unicode form. */
static bool one_character(ota_normal_kind kind, int32_t character, ota_token_buffer *out) {
    switch (kind) {
    case OTA_NORMAL_LOWERCASE:
        /* The one character whose lower case is two. */
        if (character == 0x130) return put_character(out, 'i') && put_character(out, 0x307);
        return put_character(out, utf8proc_tolower(character));
    case OTA_NORMAL_STRIP_MARKS: {
        const utf8proc_category_t category = utf8proc_category(character);
        return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
               category == UTF8PROC_CATEGORY_ME || put_character(out, character);
    }
    case OTA_NORMAL_STRIP_ACCENTS:
        return utf8proc_category(character) == UTF8PROC_CATEGORY_MN ||
               put_character(out, character);
    case OTA_NORMAL_CLEAN:
        if (ota_token_is_space(character) &&
            (character == '\t' || character == '\n' || character == '\r' || !is_control(character)))
            return put_character(out, ' ');
        return character == 0 || character == 0xFFFD || is_control(character) ||
               put_character(out, character);
    case OTA_NORMAL_SPACE_CHINESE:
        if (!is_chinese(character)) return put_character(out, character);
        return put_character(out, ' ') && put_character(out, character) && put_character(out, ' ');
    case OTA_NORMAL_NMT:
        return is_nmt_control(character) ||
               put_character(out, is_nmt_blank(character) ? ' ' : character);
    default: return put_character(out, character);
    }
}

/* ---- replacements of SentencePiece ---- */

/* As the package `tokenizers` applies them: to a cluster of letters and marks below six bytes as a whole, by the
 * shortest beginning of it that has a replacement, and else to each of its characters. */
static bool precompiled(const ota_charsmap *map, ota_text text, ota_token_buffer *out) {
    for (size_t at = 0, end; at < text.size; at = end) {
        utf8proc_int32_t state = 0;
        int32_t character, next;
        end = at + ota_token_step(text.data + at, text.size - at, &character);
        while (end < text.size) {
            const size_t bytes = ota_token_step(text.data + end, text.size - end, &next);
            if (utf8proc_grapheme_break_stateful(character, next, &state)) break;
            character = next;
            end += bytes;
        }
        size_t taken = 0;
        if (end - at < 6) {
            const ota_text by =
                ota_charsmap_find(map, (ota_text){text.data + at, end - at}, true, &taken);
            if (taken > 0 && !ota_token_append(out, by.data, by.size)) return false;
        }
        for (size_t part = at, bytes; part < end && taken == 0; part += bytes) {
            size_t found;
            bytes = ota_token_step(text.data + part, end - part, &character);
            const ota_text one = {text.data + part, bytes},
                           by = ota_charsmap_find(map, one, true, &found);
            if (!ota_token_append(out, found > 0 ? by.data : one.data, found > 0 ? by.size : bytes))
                return false;
        }
    }
    return true;
}

/* What the next characters become: a piece of kind USER stays as it is, else the longest replacement, else the
 * character. */
static ota_text next_part(const ota_tokenizer *tokenizer, const ota_normal *step, ota_text rest,
                          size_t *taken) {
    *taken = ota_added_begins(&tokenizer->normal_added, rest.data, rest.size);
    if (*taken > 0) return (ota_text){rest.data, *taken};
    const ota_text by = ota_charsmap_find(&step->map, rest, false, taken);
    if (*taken > 0) return by;
    int32_t character;
    *taken = ota_token_step(rest.data, rest.size, &character);
    return (ota_text){rest.data, *taken};
}

static const char blank_sign[] = "\xE2\x96\x81";

static ota_status sentencepiece(const ota_normalizing *run, const ota_normal *step, ota_text text,
                                ota_token_buffer *out, ota_error *error) {
    const ota_tokenizer *tokenizer = run->tokenizer;
    const bool once = (step->flags & OTA_SPACE_ONCE) != 0;
    bool after_space = once, fine = true, begun = false;
    size_t taken;
    for (size_t at = 0; at < text.size && fine; at += taken) {
        ota_text part =
            next_part(tokenizer, step, (ota_text){text.data + at, text.size - at}, &taken);
        const bool blank = part.size == 1 && *part.data == ' ';
        const ota_status status = ota_look(run->ending, taken, error);
        if (status != OTA_OK) return status;
        /* A text of blanks alone is no text, where they do not count. */
        if (!begun && once && blank) continue;
        if (!begun && (step->flags & OTA_SPACE_IN_FRONT) != 0)
            fine = ota_token_append(out, blank_sign, 3);
        begun = true;
        while (after_space && part.size > 0 && *part.data == ' ')
            part = (ota_text){part.data + 1, part.size - 1};
        for (size_t k = 0; k < part.size && fine; k++)
            fine = part.data[k] == ' ' ? ota_token_append(out, blank_sign, 3)
                                       : ota_token_append(out, part.data + k, 1);
        if (part.size > 0) after_space = once && part.data[part.size - 1] == ' ';
    }
    while (once && out->used >= 3 && memcmp(out->bytes + out->used - 3, blank_sign, 3) == 0)
        out->used -= 3;
    if (begun && (step->flags & OTA_SPACE_BEHIND) != 0)
        fine = fine && ota_token_append(out, blank_sign, 3);
    return fine ? OTA_OK : ota_token_no_memory(error);
}

/* ---- steps ---- */

/* Bytes at the beginning that no step but OTA_NORMAL_REPLACE joins with what follows: some 64 KiB up to a place between two
 * characters of ASCII, not CR and LF, or two ideographs; all of them where there is no such place. */
static size_t apart(ota_text text) {
    enum { CHUNK = 1 << 16 };
    const unsigned char *bytes = (const unsigned char *)text.data;
    for (size_t at = CHUNK; at < text.size; at++) {
        const bool ascii = bytes[at] < 0x80 && bytes[at - 1] < 0x80 && bytes[at - 1] != '\r',
                   ideographs = bytes[at] >= 0xE4 && bytes[at] <= 0xE9 && bytes[at - 3] >= 0xE4 &&
                                bytes[at - 3] <= 0xE9;
        if (ascii || ideographs) return at;
    }
    return text.size;
}

/* Some valid UTF-8, appended to `out`. */
static ota_status run_part(const ota_normal *step, ota_text text, ota_token_buffer *out,
                           ota_ending *ending, ota_error *error) {
    bool fine = true;
    switch (step->kind) {
    case OTA_NORMAL_NFC: fine = unicode_form(text, UTF8PROC_COMPOSE, out); break;
    case OTA_NORMAL_NFD: fine = unicode_form(text, UTF8PROC_DECOMPOSE, out); break;
    case OTA_NORMAL_NFKC: fine = unicode_form(text, UTF8PROC_COMPOSE | UTF8PROC_COMPAT, out); break;
    case OTA_NORMAL_NFKD:
        fine = unicode_form(text, UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT, out);
        break;
    case OTA_NORMAL_PRECOMPILED: fine = precompiled(&step->map, text, out); break;
    case OTA_NORMAL_REPLACE:
        return ota_pattern_replace(step->pattern, text, (ota_text){step->text, step->text_size},
                                   out, ending, error);
    default:
        for (size_t at = 0; at < text.size && fine;) {
            int32_t character = 0;
            at += ota_token_step(text.data + at, text.size - at, &character);
            fine = one_character(step->kind, character, out);
        }
        break;
    }
    return fine ? OTA_OK : ota_token_no_memory(error);
}

/* A stretch of valid UTF-8. */
static ota_status run_stretch(const ota_normal *step, ota_text text, ota_token_buffer *out,
                              ota_ending *ending, ota_error *error) {
    ota_status status = OTA_OK;
    for (size_t at = 0, part; at < text.size && status == OTA_OK; at += part) {
        const ota_text rest = {text.data + at, text.size - at};
        part = step->kind == OTA_NORMAL_REPLACE ? rest.size : apart(rest);
        status = run_part(step, (ota_text){rest.data, part}, out, ending, error);
        if (status == OTA_OK) status = ota_look(ending, part, error);
    }
    return status;
}

static ota_text stripped(ota_text text, unsigned flags) {
    int32_t character;
    for (size_t bytes; text.size > 0 && (flags & OTA_STRIP_LEFT) != 0;
         text = (ota_text){text.data + bytes, text.size - bytes}) {
        bytes = ota_token_step(text.data, text.size, &character);
        if (!ota_token_is_space(character)) break;
    }
    if ((flags & OTA_STRIP_RIGHT) != 0) text.size = ota_token_trimmed(text.data, text.size);
    return text;
}

/* The whole text, into out. */
static ota_status run_step(const ota_normalizing *run, const ota_normal *step, ota_text text,
                           ota_token_buffer *out, ota_error *error) {
    ota_status status = OTA_OK;
    bool fine = true;
    out->used = 0;
    /* An empty text has a buffer, too. */
    if (!ota_token_reserve(out, text.size + 1)) return ota_token_no_memory(error);
    if (step->kind == OTA_NORMAL_SENTENCEPIECE) return sentencepiece(run, step, text, out, error);
    if (step->kind == OTA_NORMAL_STRIP) text = stripped(text, step->flags);
    if (step->kind == OTA_NORMAL_PREPEND && text.size > 0)
        fine = ota_token_append(out, step->text, step->text_size);
    if (step->kind == OTA_NORMAL_STRIP || step->kind == OTA_NORMAL_PREPEND)
        return fine && ota_token_append(out, text.data, text.size) ? OTA_OK
                                                                   : ota_token_no_memory(error);
    for (size_t k = 0; k < text.size && step->kind == OTA_NORMAL_ALPHABET && fine; k++)
        fine = ota_token_put_byte(out, (unsigned char)text.data[k]);
    if (!fine) return ota_token_no_memory(error);
    if (step->kind == OTA_NORMAL_ALPHABET) return OTA_OK;
    for (size_t at = 0; at < text.size && status == OTA_OK;) {
        const size_t valid = ota_token_valid(text.data + at, text.size - at);
        status = run_stretch(step, (ota_text){text.data + at, valid}, out, run->ending, error);
        at += valid;
        if (at == text.size || status != OTA_OK) break;
        const size_t malformed = ota_token_malformed(text.data + at, text.size - at);
        if (!ota_token_append(out, text.data + at, malformed)) status = ota_token_no_memory(error);
        at += malformed;
    }
    return status;
}

/* Whether the first character of `text` leaves nothing of itself in what the step makes, as the package sees it: it loses
 * count of what precompiled replacements take away there. */
static bool removes_first(const ota_normal *step, ota_text text) {
    int32_t character;
    (void)ota_token_step(text.data, text.size, &character);
    switch (step->kind) {
    case OTA_NORMAL_STRIP:
        return (step->flags & OTA_STRIP_LEFT) != 0 && ota_token_is_space(character);
    case OTA_NORMAL_NMT: return is_nmt_control(character);
    case OTA_NORMAL_CLEAN:
        return character == 0 || character == 0xFFFD ||
               (is_control(character) && !ota_token_is_space(character));
    case OTA_NORMAL_STRIP_ACCENTS: return utf8proc_category(character) == UTF8PROC_CATEGORY_MN;
    case OTA_NORMAL_STRIP_MARKS: {
        const utf8proc_category_t category = utf8proc_category(character);
        return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
               category == UTF8PROC_CATEGORY_ME;
    }
    default: return false;
    }
}

ota_status ota_normalize(ota_normalizing *run, ota_text text, ota_error *error) {
    const ota_tokenizer *tokenizer = run->tokenizer;
    run->out->used = 0;
    run->removed = false;
    if (tokenizer->normal_count == 0)
        return ota_token_append(run->out, text.data, text.size) ? OTA_OK
                                                                : ota_token_no_memory(error);
    for (int k = 0; k < tokenizer->normal_count; k++) {
        const ota_normal *step = &tokenizer->normal[k];
        run->removed = run->removed || (text.size > 0 && removes_first(step, text));
        const ota_status status = run_step(run, step, text, run->spare, error);
        if (status != OTA_OK) return status;
        const ota_token_buffer written = *run->spare;
        *run->spare = *run->out;
        *run->out = written;
        text = (ota_text){run->out->bytes, run->out->used};
    }
    return OTA_OK;
}

ota_normal *ota_tokenizer_normal(ota_tokenizer *tokenizer, ota_normal_kind kind) {
    if (tokenizer->normal_count == OTA_TOKEN_STEPS_MOST) return NULL;
    ota_normal *step = &tokenizer->normal[tokenizer->normal_count++];
    *step = (ota_normal){.kind = kind};
    return step;
}

bool ota_normal_text(ota_normal *step, const char *text, size_t size) {
    step->text = malloc(size + 1);
    if (step->text == NULL) return false;
    memcpy(step->text, text, size);
    step->text[size] = '\0';
    step->text_size = size;
    return true;
}

void ota_normal_free(ota_normal *step) {
    free(step->text);
    ota_pattern_free(step->pattern);
    ota_charsmap_free(&step->map);
}
