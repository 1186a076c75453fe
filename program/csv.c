/* Text made in memory and written whole; tables by RFC 4180, where a value that does not exist is an empty cell. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "program/program.h"

int tool_text_begin(tool_text *text, tool_error *error) {
    *text = (tool_text){.text = NULL};
    text->stream = open_memstream(&text->text, &text->size);
    if (text->stream != NULL) return 0;
    return tool_fail(error, TOOL_EXIT_LIMIT, "no memory is left for a table");
}

int tool_text_end(tool_text *text, int code, tool_error *error) {
    if (text->stream == NULL) return code;
    const bool failed = ferror(text->stream) != 0;
    if ((fclose(text->stream) != 0 || failed) && code == 0)
        code = tool_fail(error, TOOL_EXIT_LIMIT, "no memory is left for a table");
    text->stream = NULL;
    return code;
}

void tool_csv_cell(tool_text *csv, const char *text, size_t size) {
    bool quoted = false;
    for (size_t k = 0; k < size; k++) quoted = quoted || strchr(",\"\r\n", text[k]) != NULL;
    if (csv->begun) (void)fputc(',', csv->stream);
    csv->begun = true;
    if (quoted) (void)fputc('"', csv->stream);
    for (size_t k = 0; k < size; k++) {
        if (text[k] == '"') (void)fputc('"', csv->stream);
        (void)fputc(text[k], csv->stream);
    }
    if (quoted) (void)fputc('"', csv->stream);
}

void tool_csv_word(tool_text *csv, const char *text) { tool_csv_cell(csv, text, strlen(text)); }

void tool_csv_number(tool_text *csv, double value) {
    char text[40] = "";
    if (isfinite(value) && fabs(value) < 1e15 && value == nearbyint(value))
        (void)snprintf(text, sizeof text, "%.0f", value);
    else if (isfinite(value))
        tool_format_real(value, text, sizeof text);
    tool_csv_word(csv, text);
}

void tool_csv_line(tool_text *csv) {
    (void)fputc('\n', csv->stream);
    csv->begun = false;
}

void tool_csv_row(tool_text *csv, const char *types, ...) {
    va_list list;
    va_start(list, types);
    for (; *types != '\0'; types++) {
        if (*types == 'w')
            tool_csv_word(csv, va_arg(list, const char *));
        else
            tool_csv_number(csv, va_arg(list, double));
    }
    va_end(list);
    tool_csv_line(csv);
}
