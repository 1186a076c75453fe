/* Tables by RFC 4180, made in memory and written whole. A value that does not exist is an empty cell. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "results.h"

int run_csv_begin(tool_context *context, run_csv *csv) {
    *csv = (run_csv){.text = NULL};
    csv->stream = open_memstream(&csv->text, &csv->size);
    return csv->stream != NULL
               ? 0
               : tool_fail(&context->error, TOOL_EXIT_LIMIT, "no memory is left for a table");
}

void run_csv_text(run_csv *csv, const char *text, size_t size) {
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

void run_csv_word(run_csv *csv, const char *text) { run_csv_text(csv, text, strlen(text)); }

void run_csv_number(run_csv *csv, double value) {
    char text[40] = "";
    if (isfinite(value) && fabs(value) < 1e15 && value == nearbyint(value))
        (void)snprintf(text, sizeof text, "%.0f", value);
    else if (isfinite(value))
        tool_format_real(value, text, sizeof text);
    run_csv_word(csv, text);
}

void run_csv_line(run_csv *csv) {
    (void)fputc('\n', csv->stream);
    csv->begun = false;
}

int run_csv_end(run *r, run_csv *csv, const char *name, int code) {
    char path[64];
    if (csv->stream == NULL) return code;
    const bool failed = ferror(csv->stream) != 0;
    if ((fclose(csv->stream) != 0 || failed) && code == 0)
        code = tool_fail(&r->context->error, TOOL_EXIT_LIMIT, "no memory is left for a table");
    (void)snprintf(path, sizeof path, "tables/%s.csv", name);
    if (code == 0) code = run_folder_write(r->context, &r->folder, path, csv->text, csv->size);
    free(csv->text);
    *csv = (run_csv){.text = NULL};
    return code;
}
