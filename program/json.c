/* Printing of JSON trees. jansson builds and reads the trees; it cannot print a double with the fewest
 * digits that read back as the same double, which scripts and golden files rely on, so the walk over
 * the tree is here. Strings are escaped by jansson. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

void tool_format_real(double value, char *text, size_t size) {
    for (int digits = 1; digits <= 17; digits++) {
        (void)snprintf(text, size, "%.*g", digits, value);
        const double back = strtod(text, NULL);
        if (memcmp(&back, &value, sizeof value) == 0) return;
    }
}

json_t *tool_json_real(double value) { return isfinite(value) ? json_real(value) : json_null(); }

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
        tool_format_real(json_real_value(tree), text, sizeof text);
        (void)fputs(text, stream);
        break;
    }
    case JSON_STRING:
    case JSON_INTEGER:
    case JSON_TRUE:
    case JSON_FALSE:
    case JSON_NULL: (void)json_dumpf(tree, stream, JSON_ENCODE_ANY); break;
    }
}

int tool_print_json(FILE *stream, json_t *tree) {
    if (tree == NULL) return TOOL_EXIT_INTERNAL;
    print_tree(stream, tree);
    (void)fputc('\n', stream);
    json_decref(tree);
    return 0;
}
