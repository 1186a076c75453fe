/* Writing .safetensors: 8 bytes of header length N, N bytes of JSON padded with blanks to a
 * multiple of 8, then the elements of every array [shape] one after the other, little-endian, in
 * the order given. The reader and the layout in full: safetensors.c. */
#include "files_formats.h"
#include "src/base/integers.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

enum { LENGTH_BYTES = 8 };

static int add_to_header(json_t *top, const tool_output *output, const tool_array *array,
                         int64_t *offset, tool_error *error) {
    size_t count;
    int64_t bytes;
    int code = tool_output_check(output, array, &count, &bytes, error);
    if (code != 0) return code;
    if (!ota_name_is_valid(array->name, strlen(array->name)) ||
        json_object_get(top, array->name) != NULL || strcmp(array->name, "__metadata__") == 0)
        return tool_fail(error, TOOL_EXIT_INTERNAL, "%s: array without a valid name of its own",
                         tool_short_path(tool_output_path(output)));
    json_t *shape = json_array();
    for (int k = 0; k < array->rank; k++)
        code |= json_array_append_new(shape, json_integer(array->shape[k]));
    json_t *entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype",
                              tool_stored_by_type(array->type)->safetensors, "shape", shape,
                              "data_offsets", (json_int_t)*offset, (json_int_t)(*offset + bytes));
    *offset += bytes;
    code |= json_object_set_new(top, array->name, entry);
    if (code != 0) return tool_fail(error, TOOL_EXIT_LIMIT, "no memory is left for a header");
    return 0;
}

static int write_header(tool_output *output, json_t *top, tool_error *error) {
    char *text = json_dumps(top, JSON_COMPACT);
    if (text == NULL) return tool_fail(error, TOOL_EXIT_LIMIT, "no memory is left for a header");
    unsigned char start[LENGTH_BYTES];
    size_t length = strlen(text),
           padded = ota_size_round_up(length, 8); /* data begins 8-byte aligned */
    for (int i = 0; i < LENGTH_BYTES; i++) start[i] = (unsigned char)((uint64_t)padded >> (8 * i));
    int code = tool_output_write(output, start, sizeof start, error);
    if (code == 0) code = tool_output_write(output, text, length, error);
    if (code == 0) code = tool_output_write(output, "        ", padded - length, error);
    tool_memory_free(text);
    return code;
}

int tool_write_safetensors(tool_output *output, const tool_array *arrays, size_t count,
                           const tool_metadata *metadata, size_t metadata_count,
                           tool_error *error) {
    json_t *top = json_object(), *pairs = json_object();
    int64_t offset = 0;
    int code = 0;
    for (size_t i = 0; i < metadata_count; i++)
        code |= json_object_set_new(pairs, metadata[i].key, json_string(metadata[i].value));
    if (metadata_count > 0) code |= json_object_set(top, "__metadata__", pairs);
    json_decref(pairs);
    if (code != 0)
        code = tool_fail(error, TOOL_EXIT_INTERNAL, "%s: metadata must be UTF-8",
                         tool_short_path(tool_output_path(output)));
    for (size_t i = 0; code == 0 && i < count; i++)
        code = add_to_header(top, output, &arrays[i], &offset, error);
    if (code == 0) code = write_header(output, top, error);
    json_decref(top);
    for (size_t i = 0; code == 0 && i < count; i++)
        code = tool_output_elements(output, &arrays[i], TOOL_HOST_IS_BIG, error);
    return code;
}

int tool_write_safetensors_header(tool_output *output, const tool_array *arrays, size_t count,
                                  tool_error *error) {
    json_t *top = json_object();
    int64_t offset = 0;
    int code = 0;
    for (size_t i = 0; code == 0 && i < count; i++) {
        tool_array promised = arrays[i];
        promised.data = &offset; /* any address: the elements come later */
        code = add_to_header(top, output, &promised, &offset, error);
    }
    if (code == 0) code = write_header(output, top, error);
    json_decref(top);
    return code;
}
