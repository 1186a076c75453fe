/* Foreign text made readable: tokens as labels, cells as LaTeX.
 *
 *     label: blank -> U+2423, line end -> U+21B5, tab -> U+21E5, what cannot be seen -> \u{...}
 *     LaTeX: the ten special characters -> their commands, controls -> a blank */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run_parts.h"

/* The code point at *text, which moves on; 0xfffd for a byte that is no UTF-8, 0 at the end. */
static uint32_t next_point(const char **text) {
    const unsigned char *at = (const unsigned char *)*text;
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    if (*at == '\0') return 0;
    const int length = *at < 0x80 ? 1 : *at < 0xc2 ? 0 : *at < 0xe0 ? 2 : *at < 0xf0 ? 3 : 4;
    uint32_t point = length == 1 ? *at : *at & (0x7fU >> length);
    bool whole = length > 0 && *at < 0xf5;
    for (int index = 1; whole && index < length; index++) {
        whole = (at[index] & 0xc0) == 0x80;
        point = point << 6 | (at[index] & 0x3fU);
    }
    whole = whole && point >= least[length] && point <= 0x10ffff && (point & ~0x7ffU) != 0xd800;
    *text += whole ? length : 1;
    return whole ? point : 0xfffd;
}

/* Controls, what takes no place, and what turns the direction of the text after it. */
static bool is_hidden(uint32_t point) {
    static const uint32_t ranges[][2] = {
        {0x01, 0x1f},     {0x7f, 0x9f},     {0xad, 0xad},     {0x61c, 0x61c},   {0x180e, 0x180e},
        {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f}, {0xfeff, 0xfeff}, {0xe0000, 0xe0fff},
    };
    for (size_t row = 0; row < sizeof ranges / sizeof ranges[0]; row++)
        if (point >= ranges[row][0] && point <= ranges[row][1]) return true;
    return false;
}

static const char *visible_mark(uint32_t point) {
    return point == ' '    ? "\xe2\x90\xa3"
           : point == '\n' ? "\xe2\x86\xb5"
           : point == '\t' ? "\xe2\x87\xa5"
                           : NULL;
}

void cli_run_label(const char *token, char *label, size_t size) {
    size_t used = 0;
    *label = '\0';
    for (;;) {
        const char *begin = token;
        const uint32_t point = next_point(&token);
        if (point == 0) return;
        char escape[16];
        const char *mark = visible_mark(point);
        if (mark == NULL && point == 0xfffd) mark = "\xef\xbf\xbd";
        if (mark == NULL && is_hidden(point)) {
            (void)snprintf(escape, sizeof escape, "\\u{%x}", (unsigned)point);
            mark = escape;
        }
        const size_t length = mark != NULL ? strlen(mark) : (size_t)(token - begin);
        /* Room for an ellipsis and the end. */
        if (used + length + 4 > size) {
            if (size >= 4) memcpy(label + used, "\xe2\x80\xa6", 4);
            return;
        }
        memcpy(label + used, mark != NULL ? mark : begin, length);
        used += length;
        label[used] = '\0';
    }
}

void cli_run_token(const json_t *token, char *label, size_t size) {
    if (!json_is_string(token)) {
        (void)snprintf(label, size, "?");
        return;
    }
    const char *text = json_string_value(token);
    const bool cut = strlen(text) < json_string_length(token);
    cli_run_label(text, label, size);
    const size_t used = strlen(label);
    /* What stands behind a zero byte is not shown. */
    if (cut) (void)snprintf(label + used, size - used, "\\u{0}");
}

void cli_run_phrase(const json_t *words, char *label, size_t size) {
    static const char blank[] = "\xe2\x90\xa3";
    cli_run_token(words, label, size);
    for (char *at = label; *at != '\0'; at++) {
        if (*at == '`') *at = '\'';
        if (strncmp(at, blank, sizeof blank - 1) != 0) continue;
        *at = ' ';
        memmove(at + 1, at + sizeof blank - 1, strlen(at + sizeof blank - 1) + 1);
    }
}

static const char *latex_mark(uint32_t point) {
    static const struct {
        uint32_t point;
        const char *mark;
    } marks[] = {
        {'\\', "\\textbackslash{}"},
        {'{', "\\{"},
        {'}', "\\}"},
        {'$', "\\$"},
        {'&', "\\&"},
        {'#', "\\#"},
        {'%', "\\%"},
        {'_', "\\_"},
        {'^', "\\textasciicircum{}"},
        {'~', "\\textasciitilde{}"},
        {'<', "\\textless{}"},
        {'>', "\\textgreater{}"},
        {0xb1, "$\\pm$"},
        {0x2212, "$-$"},
    };
    for (size_t row = 0; row < sizeof marks / sizeof marks[0]; row++)
        if (marks[row].point == point) return marks[row].mark;
    return is_hidden(point) ? " " : NULL;
}

char *cli_run_latex(const char *text) {
    enum { LONGEST = sizeof "\\textasciicircum{}" };
    if (strlen(text) > (SIZE_MAX - 1) / LONGEST) return NULL;
    char *latex = malloc(strlen(text) * LONGEST + 1);
    if (latex == NULL) return NULL;
    char *to = latex;
    for (;;) {
        const char *begin = text;
        const uint32_t point = next_point(&text);
        if (point == 0) break;
        const char *mark = point == 0xfffd ? "?" : latex_mark(point);
        const size_t length = mark != NULL ? strlen(mark) : (size_t)(text - begin);
        memcpy(to, mark != NULL ? mark : begin, length);
        to += length;
    }
    *to = '\0';
    return latex;
}
