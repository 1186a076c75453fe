/* Text made in memory and written whole; tables by RFC 4180, where a value that does not exist is an empty cell. */
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "program/program.h"
#include "src/base/program/system_program.h"

/* A stream of open_memstream does not remember that it could not grow. */
static size_t grow_text(void *to, const char *bytes, size_t size) {
    cli_text *text = to;
    if (size > text->room - text->size) {
        if (text->size > SIZE_MAX / 4 || size > SIZE_MAX / 4) return 0;
        const size_t room = (text->size + size) * 2;
        char *grown = realloc(text->text, room + 1);
        if (grown == NULL) return 0;
        text->text = grown;
        text->room = room;
    }
    memcpy(text->text + text->size, bytes, size);
    text->size += size;
    text->text[text->size] = '\0';
    return size;
}

int cli_text_begin(cli_text *text, cli_error *error) {
    *text = (cli_text){.text = calloc(1, 1)};
    if (text->text != NULL) text->stream = ota_text_stream(grow_text, text);
    if (text->stream != NULL) return 0;
    free(text->text);
    text->text = NULL;
    return cli_fail(error, CLI_EXIT_LIMIT, "no memory is left for a text");
}

int cli_text_end(cli_text *text, int code, cli_error *error) {
    if (text->stream == NULL) return code;
    if (!ota_text_stream_end(text->stream, grow_text, text) && code == 0)
        code = cli_fail(error, CLI_EXIT_LIMIT, "no memory is left for a text");
    text->stream = NULL;
    return code;
}

void csv_cell(cli_text *csv, const char *text, size_t size) {
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

void csv_word(cli_text *csv, const char *text) { csv_cell(csv, text, strlen(text)); }

void csv_number(cli_text *csv, double value) {
    char text[40] = "";
    if (isfinite(value) && fabs(value) < 1e15 && value == nearbyint(value))
        (void)snprintf(text, sizeof text, "%.0f", value);
    else if (isfinite(value))
        cli_format_real(value, text, sizeof text);
    csv_word(csv, text);
}

void csv_line(cli_text *csv) {
    (void)fputc('\n', csv->stream);
    csv->begun = false;
}

void csv_row(cli_text *csv, const char *types, ...) {
    va_list list;
    va_start(list, types);
    for (; *types != '\0'; types++) {
        if (*types == 'w')
            csv_word(csv, va_arg(list, const char *));
        else
            csv_number(csv, va_arg(list, double));
    }
    va_end(list);
    csv_line(csv);
}
