/* text.c: numbers as text, written and read with a decimal point whatever the locale of the calling thread; and texts of
 * others, made fit for a line.
 *
 * The locale is changed for the calling thread alone and put back before the call returns. */
#include "base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int ota_vsnprintf(char *text, size_t size, const char *format, va_list arguments) {
    const ota_c_locale l = ota_c_locale_enter();
    const int length = vsnprintf(text, size, format, arguments);
    ota_c_locale_leave(l);
    return length;
}

int ota_snprintf(char *text, size_t size, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int length = ota_vsnprintf(text, size, format, arguments);
    va_end(arguments);
    return length;
}

double ota_strtod(const char *text, char **end) {
    const ota_c_locale l = ota_c_locale_enter();
    const double value = strtod(text, end);
    ota_c_locale_leave(l);
    return value;
}

const char *ota_error_text(int cause) {
    const ota_c_locale l = ota_c_locale_enter();
    const char *text = strerror(cause);
    ota_c_locale_leave(l);
    return text;
}

/* ---- texts of others ---------------------------------------------------------------------- */

size_t ota_text_character(const char *text, size_t size, uint32_t *character) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *bytes = (const unsigned char *)text;
    const size_t length = bytes[0] < 0x80   ? 1
                          : bytes[0] < 0xC0 ? 0
                          : bytes[0] < 0xE0 ? 2
                          : bytes[0] < 0xF0 ? 3
                          : bytes[0] < 0xF8 ? 4
                                            : 0;
    uint32_t value = length < 2 ? bytes[0] : bytes[0] & (0xFFU >> (length + 1));
    bool whole = length > 0 && length <= size;
    for (size_t k = 1; whole && k < length; k++) {
        whole = (bytes[k] & 0xC0) == 0x80;
        value = value << 6 | (bytes[k] & 0x3FU);
    }
    whole =
        whole && value >= least[length] && value <= 0x10FFFF && (value < 0xD800 || value > 0xDFFF);
    *character = whole ? value : UINT32_MAX;
    return whole ? length : 1;
}

bool ota_character_is_hidden(uint32_t character) {
    /* The categories Cc, Cf, Zl and Zp of Unicode 16. */
    static const uint32_t ranges[][2] = {
        {0x0, 0x1F},        {0x7F, 0x9F},       {0xAD, 0xAD},       {0x600, 0x605},
        {0x61C, 0x61C},     {0x6DD, 0x6DD},     {0x70F, 0x70F},     {0x890, 0x891},
        {0x8E2, 0x8E2},     {0x180E, 0x180E},   {0x200B, 0x200F},   {0x2028, 0x202E},
        {0x2060, 0x2064},   {0x2066, 0x206F},   {0xFEFF, 0xFEFF},   {0xFFF9, 0xFFFB},
        {0x110BD, 0x110BD}, {0x110CD, 0x110CD}, {0x13430, 0x1343F}, {0x1BCA0, 0x1BCA3},
        {0x1D173, 0x1D17A}, {0xE0001, 0xE0001}, {0xE0020, 0xE007F}, {UINT32_MAX, UINT32_MAX}};
    for (size_t k = 0; k < sizeof ranges / sizeof *ranges; k++)
        if (character <= ranges[k][1]) return character >= ranges[k][0];
    return false;
}

void ota_text_plain(char *text) {
    const size_t size = strlen(text);
    size_t out = 0;
    for (size_t at = 0; at < size;) {
        uint32_t character;
        const size_t length = ota_text_character(text + at, size - at, &character);
        if (ota_character_is_hidden(character)) {
            text[out++] = '?';
        } else {
            memmove(text + out, text + at, length);
            out += length;
        }
        at += length;
    }
    text[out] = '\0';
}
