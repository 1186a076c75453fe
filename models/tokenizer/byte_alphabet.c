/* The alphabet in which byte-level vocabularies spell bytes: printable Latin-1 stands for itself, the
 * other 68 bytes, in order, are U+0100, U+0101 ... So a blank is U+0120 and a newline U+010A. */
#include <string.h>
#include <utf8proc.h>

#include "tokenizer_parts.h"

static bool stands_for_itself(unsigned byte) {
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
}

int32_t ota_token_byte_character(unsigned byte) {
    if (stands_for_itself(byte)) return (int32_t)byte;
    if (byte <= 32) return (int32_t)(256 + byte);
    if (byte <= 160) return (int32_t)(256 + 33 + byte - 127);
    return 256 + 67;
}

int ota_token_character_byte(int32_t character) {
    if (character < 256)
        return character >= 0 && stands_for_itself((unsigned)character) ? character : -1;
    const int32_t k = character - 256;
    return k <= 32 ? k : k <= 66 ? k - 33 + 127 : k == 67 ? 173 : -1;
}

bool ota_token_put_byte(ota_token_buffer *out, unsigned byte) {
    if (!ota_token_reserve(out, 4)) return false;
    out->used += (size_t)utf8proc_encode_char(ota_token_byte_character(byte),
                                              (utf8proc_uint8_t *)out->bytes + out->used);
    return true;
}

size_t ota_token_unspell(ota_text text, char *raw) {
    size_t used = 0;
    for (size_t at = 0; at < text.size;) {
        int32_t character;
        at += ota_token_step(text.data + at, text.size - at, &character);
        const int byte = ota_token_character_byte(character);
        if (byte < 0) {
            memcpy(raw, text.data, text.size);
            return text.size;
        }
        raw[used++] = (char)byte;
    }
    return used;
}
