/* The alphabet in which byte-level vocabularies spell bytes: printable Latin-1 stands for itself, the
 * other 68 bytes, in order, are U+0100, U+0101 ... So a blank is U+0120 and a newline U+010A. */
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
