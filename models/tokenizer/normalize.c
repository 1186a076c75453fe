/* Normalisation of valid UTF-8 before it is cut into words: a short list of steps, each of which reads
 * one buffer and writes another. Unicode forms and categories are utf8proc's. */
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
    case OTA_NORMAL_BLANK: return put_character(out, character == 0x2581 ? ' ' : character);
    default: return put_character(out, character);
    }
}

static bool run_step(ota_normal_kind kind, ota_text text, ota_token_buffer *out) {
    out->used = 0;
    /* An empty text has a buffer, too. */
    if (!ota_token_reserve(out, text.size + 1)) return false;
    switch (kind) {
    case OTA_NORMAL_NFC: return unicode_form(text, UTF8PROC_COMPOSE, out);
    case OTA_NORMAL_NFD: return unicode_form(text, UTF8PROC_DECOMPOSE, out);
    case OTA_NORMAL_NFKC: return unicode_form(text, UTF8PROC_COMPOSE | UTF8PROC_COMPAT, out);
    case OTA_NORMAL_NFKD: return unicode_form(text, UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT, out);
    default: break;
    }
    for (size_t at = 0; at < text.size;) {
        utf8proc_int32_t character = 0;
        at += (size_t)utf8proc_iterate((const utf8proc_uint8_t *)text.data + at,
                                       (utf8proc_ssize_t)(text.size - at), &character);
        if (!one_character(kind, character, out)) return false;
    }
    return true;
}

bool ota_normalize(const ota_normal_kind *steps, int count, ota_text text, ota_token_buffer *out,
                   ota_token_buffer *spare) {
    out->used = 0;
    if (count == 0) return ota_token_append(out, text.data, text.size);
    for (int k = 0; k < count; k++) {
        if (!run_step(steps[k], text, spare)) return false;
        const ota_token_buffer written = *spare;
        *spare = *out;
        *out = written;
        text = (ota_text){out->bytes, out->used};
    }
    return true;
}
