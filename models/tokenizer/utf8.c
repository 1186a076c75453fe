/* What is valid UTF-8 (RFC 3629: no overlong form, no surrogate, nothing above U+10FFFF), and two
 * classes of characters as the regular expressions of tokenizers understand them. */
#include <string.h>
#include <utf8proc.h>

#include "tokenizer_parts.h"

static size_t character_at(const char *text, size_t size) {
    utf8proc_int32_t character;
    const utf8proc_ssize_t bytes =
        utf8proc_iterate((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)size, &character);
    return bytes > 0 ? (size_t)bytes : 0;
}

/* Bytes between two looks, and how many times as fast as the slowest steps they are. */
enum { STEP = 1 << 20, STEP_SPEED = 64 };

ota_status ota_token_valid_within(const char *text, size_t size, ota_ending *ending, size_t *valid,
                                  ota_error *error) {
    ota_status status = OTA_OK;
    size_t at = 0, found = 0;
    *valid = 0;
    for (; at < size && status == OTA_OK; at += found) {
        const size_t left = size - at, part = left < STEP ? left : STEP;
        found = ota_token_valid(text + at, part);
        /* The end of a part may cut a character in two. */
        *valid = at + found;
        if (found == 0 || (found < part && part == left) || part - found > 3) break;
        status = ota_look(ending, STEP / STEP_SPEED, error);
    }
    return status;
}

size_t ota_token_step(const char *text, size_t size, int32_t *character) {
    utf8proc_int32_t found = -1;
    const utf8proc_ssize_t bytes =
        utf8proc_iterate((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)size, &found);
    *character = bytes > 0 ? found : -1;
    return bytes > 0 ? (size_t)bytes : 1;
}

size_t ota_token_valid(const char *text, size_t size) {
    size_t at = 0;
    while (at < size) {
        uint64_t eight;
        while (size - at >= sizeof eight) {
            memcpy(&eight, text + at, sizeof eight);
            if ((eight & UINT64_C(0x8080808080808080)) != 0) break;
            at += sizeof eight;
        }
        while (at < size && (unsigned char)text[at] < 0x80) at++;
        if (at == size) break;
        const size_t bytes = character_at(text + at, size - at);
        if (bytes == 0) break;
        at += bytes;
    }
    return at;
}

size_t ota_token_malformed(const char *text, size_t size) {
    size_t at = 1;
    while (at < size && character_at(text + at, size - at) == 0) at++;
    return at;
}

/* The Unicode standard's table 3-7: which second bytes may follow a first one. */
size_t ota_token_malformed_part(const char *text, size_t size) {
    const unsigned char *bytes = (const unsigned char *)text, first = bytes[0];
    const size_t length = first < 0xC2   ? 1
                          : first < 0xE0 ? 2
                          : first < 0xF0 ? 3
                          : first < 0xF5 ? 4
                                         : 1;
    size_t at = 1;
    while (at < length && at < size) {
        unsigned char least = 0x80, most = 0xBF;
        if (at == 1 && first == 0xE0) least = 0xA0;
        if (at == 1 && first == 0xED) most = 0x9F;
        if (at == 1 && first == 0xF0) least = 0x90;
        if (at == 1 && first == 0xF4) most = 0x8F;
        if (bytes[at] < least || bytes[at] > most) break;
        at++;
    }
    return at;
}

bool ota_token_is_space(int32_t character) {
    if (character < 0x80) return (character >= 9 && character <= 13) || character == ' ';
    return character == 0x85 || character == 0xA0 || character == 0x1680 ||
           (character >= 0x2000 && character <= 0x200A) || character == 0x2028 ||
           character == 0x2029 || character == 0x202F || character == 0x205F || character == 0x3000;
}

size_t ota_token_trimmed(const char *text, size_t size) {
    while (size > 0) {
        size_t begin = size - 1;
        while (begin > 0 && ((unsigned char)text[begin] & 0xC0) == 0x80) begin--;
        utf8proc_int32_t character = -1;
        (void)utf8proc_iterate((const utf8proc_uint8_t *)text + begin,
                               (utf8proc_ssize_t)(size - begin), &character);
        if (!ota_token_is_space(character)) break;
        size = begin;
    }
    return size;
}

bool ota_token_is_word(int32_t character) {
    switch (utf8proc_category(character)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC: return true;
    default:
        /* The two joiners, and letters in circles and squares, as in pretokenize.c. */
        return character == 0x200C || character == 0x200D ||
               (character >= 0x24B6 && character <= 0x24E9) ||
               (character >= 0x1F130 && character <= 0x1F149) ||
               (character >= 0x1F150 && character <= 0x1F169) ||
               (character >= 0x1F170 && character <= 0x1F189);
    }
}
