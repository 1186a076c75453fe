/* Printing of JSON trees. jansson builds and reads the trees; it cannot print a double with the fewest
 * digits that read back as the same double, which scripts and golden files rely on, so the walk over
 * the tree is here. Strings are escaped by jansson, and what it leaves that does something unseen where it is printed, here. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

void cli_format_bytes(double bytes, char *text, size_t size) {
    const char *const units[] = {"bytes", "kB", "MB", "GB"};
    int unit = 0;
    double value = bytes;
    for (; unit < 3 && value >= 999.95; unit++) value /= 1e3;
    (void)snprintf(text, size, "%.*f %s", unit > 0 ? 1 : 0, value, units[unit]);
}

void cli_format_real(double value, char *text, size_t size) {
    for (int digits = 1; digits <= 17; digits++) {
        (void)snprintf(text, size, "%.*g", digits, value);
        const double back = strtod(text, NULL);
        if (memcmp(&back, &value, sizeof value) == 0) return;
    }
}

json_t *cli_json_real(double value) { return isfinite(value) ? json_real(value) : json_null(); }

json_t *cli_json_put(json_t *object, const char *fields, ...) {
    va_list list;
    va_start(list, fields);
    for (const char *field = fields; *field != '\0'; field += strspn(field, " ")) {
        char key[40];
        const size_t length = strcspn(field, ":");
        (void)snprintf(key, sizeof key, "%.*s", (int)length, field);
        json_t *value = NULL;
        switch (field[length + 1]) {
        case 's': value = json_string(va_arg(list, const char *)); break;
        case 'i': value = json_integer(va_arg(list, int)); break;
        case 'I': value = json_integer(va_arg(list, int64_t)); break;
        case 'r': value = cli_json_real(va_arg(list, double)); break;
        case 'b': value = json_boolean(va_arg(list, int)); break;
        default: value = va_arg(list, json_t *); break;
        }
        (void)json_object_set_new(object, key, value);
        field += length + 2;
    }
    va_end(list);
    return object;
}

json_t *cli_json_result(const cli_context *context, const char *status) {
    return cli_json_put(json_object(), "command:s version:s status:s", context->command->name,
                        ota_version(), status);
}

static void put_escape(FILE *stream, int32_t character, char byte) {
    if (character == OTA_TEXT_BROKEN)
        (void)fprintf(stream, "\\x%02x", (unsigned)(unsigned char)byte);
    else if (character <= 0xFFFF)
        (void)fprintf(stream, "\\u%04x", (unsigned)character);
    else
        (void)fprintf(stream, "\\u%04x\\u%04x", 0xD800U + (unsigned)((character - 0x10000) >> 10),
                      0xDC00U + (unsigned)(character & 0x3FF));
}

void cli_put_visible(FILE *stream, const char *text, size_t size) {
    size_t begin = 0;
    for (size_t at = 0; at < size;) {
        int32_t hidden;
        const size_t length = ota_text_step(text + at, size - at, &hidden);
        if (hidden >= 0) {
            (void)fwrite(text + begin, 1, at - begin, stream);
            put_escape(stream, hidden, text[at]);
            begin = at + length;
        }
        at += length;
    }
    (void)fwrite(text + begin, 1, size - begin, stream);
}

void cli_put_named(FILE *stream, const char *before, const char *text, const char *after) {
    (void)fputs(before, stream);
    cli_put_visible(stream, text, strlen(text));
    (void)fputs(after, stream);
}

static int put_bytes(const char *bytes, size_t size, void *stream) {
    cli_put_visible(stream, bytes, size);
    return 0;
}

static void print_tree(FILE *stream, const json_t *tree) {
    switch (json_typeof(tree)) {
    case JSON_OBJECT: {
        const char *key, *between = "";
        json_t *value;
        (void)fputc('{', stream);
        /* jansson's own macro takes a non-const object though it does not change it. */
        json_object_foreach((json_t *)(uintptr_t)tree, key, value) {
            json_t *name = json_string(key);
            (void)fputs(between, stream);
            if (name != NULL) print_tree(stream, name);
            json_decref(name);
            (void)fputc(':', stream);
            print_tree(stream, value);
            between = ",";
        }
        (void)fputc('}', stream);
        break;
    }
    case JSON_ARRAY:
        (void)fputc('[', stream);
        for (size_t k = 0; k < json_array_size(tree); k++) {
            if (k > 0) (void)fputc(',', stream);
            print_tree(stream, json_array_get(tree, k));
        }
        (void)fputc(']', stream);
        break;
    case JSON_REAL: {
        char text[40];
        cli_format_real(json_real_value(tree), text, sizeof text);
        (void)fputs(text, stream);
        break;
    }
    case JSON_STRING:
    case JSON_INTEGER:
    case JSON_TRUE:
    case JSON_FALSE:
    case JSON_NULL: (void)json_dump_callback(tree, put_bytes, stream, JSON_ENCODE_ANY); break;
    }
}

/* Made whole first: where memory ends on the way, nothing is printed. */
int cli_print_json(FILE *stream, json_t *tree) {
    cli_text text = {.stream = NULL};
    cli_error error;
    int code = tree != NULL ? cli_text_begin(&text, &error) : CLI_EXIT_LIMIT;
    if (code == 0) {
        print_tree(text.stream, tree);
        (void)fputc('\n', text.stream);
    }
    code = cli_text_end(&text, code, &error);
    json_decref(tree);
    if (code != 0) cli_memory_note();
    if (cli_memory_short()) code = CLI_EXIT_LIMIT;
    if (code == 0) (void)fwrite(text.text, 1, text.size, stream);
    free(text.text);
    return code;
}
