/* Sentences about files. A message may quote hostile names and reaches terminals and JSON, so every
 * message leaves here as valid UTF-8 in which control characters (C0, DEL, C1) and broken bytes
 * have become '?'. */
#include "files_formats.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Bytes of the UTF-8 character at `text`, 0 where it is broken; overlong forms, surrogates and
 * values above U+10FFFF are broken (RFC 3629). */
static size_t character_at(const unsigned char *text, size_t left, uint32_t *character) {
    static const struct {
        unsigned char mask, lead;
        uint32_t least;
    } forms[] = {{0x80, 0x00, 0}, {0xE0, 0xC0, 0x80}, {0xF0, 0xE0, 0x800}, {0xF8, 0xF0, 0x10000}};
    for (size_t extra = 0; extra < 4; extra++) {
        if ((text[0] & forms[extra].mask) != forms[extra].lead) continue;
        if (left <= extra) return 0;
        uint32_t value = text[0] & (uint32_t)(unsigned char)~forms[extra].mask;
        for (size_t i = 1; i <= extra; i++) {
            if ((text[i] & 0xC0) != 0x80) return 0;
            value = value << 6 | (text[i] & 0x3FU);
        }
        *character = value;
        bool broken = value < forms[extra].least || value > 0x10FFFF || (value >> 11) == 0x1B;
        return broken ? 0 : extra + 1;
    }
    return 0;
}

static void clean_text(char *text) {
    size_t size = strlen(text);
    for (size_t i = 0; i < size;) {
        uint32_t character = 0;
        size_t bytes = character_at((unsigned char *)text + i, size - i, &character);
        if (bytes == 0 || character < 0x20 || (character >= 0x7F && character < 0xA0)) {
            text[i] = '?';
            /* The second byte of a C1 character is a broken byte of its own at the next step. */
            bytes = 1;
        }
        i += bytes;
    }
}

bool tool_name_is_valid(const char *name, size_t size) {
    if (size == 0 || size > TOOL_MAX_NAME) return false;
    for (size_t i = 0; i < size;) {
        uint32_t character = 0;
        size_t bytes = character_at((const unsigned char *)name + i, size - i, &character);
        if (bytes == 0 || character < 0x20) return false;
        i += bytes;
    }
    return true;
}

const char *tool_short_path(const char *path) {
    const size_t longest = 224;
    size_t length = strlen(path);
    return length > longest ? path + (length - longest) : path;
}

static int finish(tool_error *error, int exit_code) {
    clean_text(error->message);
    error->hint[0] = '\0';
    return error->exit_code = exit_code;
}

int tool_fail(tool_error *error, int exit_code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    return finish(error, exit_code);
}

int tool_fail_at(tool_error *error, const char *label, int64_t offset, const char *format, ...) {
    int used = snprintf(error->message, sizeof error->message,
                        "%s: at byte %lld: ", tool_short_path(label), (long long)offset);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->message + used, sizeof error->message - (size_t)used, format, arguments);
    va_end(arguments);
    return finish(error, TOOL_EXIT_FILE);
}

int tool_hint(tool_error *error, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->hint, sizeof error->hint, format, arguments);
    va_end(arguments);
    clean_text(error->hint);
    return error->exit_code;
}

int tool_fail_names(tool_error *error, const char *path, const char *wanted, size_t count,
                    const char *(*name_of)(const void *context, size_t index),
                    const void *context) {
    if (wanted != NULL)
        tool_fail(error, TOOL_EXIT_USAGE, "%s: holds no array called \"%.100s\"",
                  tool_short_path(path), wanted);
    else if (count == 0)
        return tool_fail(error, TOOL_EXIT_FILE, "%s: holds no array", tool_short_path(path));
    else
        tool_fail(error, TOOL_EXIT_USAGE, "%s: holds %zu arrays and none was named",
                  tool_short_path(path), count);
    const size_t room = 200;
    char list[256] = "";
    size_t used = 0, shown = 0;
    while (shown < count) {
        const char *name = name_of(context, shown);
        if (used + strlen(name) + 2 > room) break;
        used +=
            (size_t)snprintf(list + used, sizeof list - used, "%s%s", shown > 0 ? ", " : "", name);
        shown++;
    }
    if (shown < count)
        return tool_hint(error, "name one with FILE:NAME: %s%s%zu more", list,
                         shown > 0 ? " and " : "", count - shown);
    return count == 0 ? error->exit_code : tool_hint(error, "name one with FILE:NAME: %s", list);
}
