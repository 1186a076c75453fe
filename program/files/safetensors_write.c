/* Writing .safetensors: 8 bytes of header length N, N bytes of JSON padded with blanks to a
 * multiple of 8, then the elements of every array [shape] one after the other, little-endian, in
 * the order given. The reader and the layout in full: safetensors.c. */
#include "files_formats.h"
#include "src/base/integers.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

enum { LENGTH_BYTES = 8 };

static int add_to_header(json_t *top, const cli_output *output, const cli_array *array,
                         int64_t *offset, cli_error *error) {
    size_t count;
    int64_t bytes;
    int code = cli_output_check(output, array, &count, &bytes, error);
    if (code != 0) return code;
    if (!ota_name_is_valid(array->name, strlen(array->name)) ||
        json_object_get(top, array->name) != NULL || strcmp(array->name, "__metadata__") == 0)
        return cli_fail(error, CLI_EXIT_INTERNAL, "%s: array without a valid name of its own",
                        cli_short_path(cli_output_path(output)));
    json_t *shape = json_array();
    for (int k = 0; k < array->rank; k++)
        code |= json_array_append_new(shape, json_integer(array->shape[k]));
    json_t *entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype",
                              cli_stored_by_type(array->type)->safetensors, "shape", shape,
                              "data_offsets", (json_int_t)*offset, (json_int_t)(*offset + bytes));
    *offset += bytes;
    code |= json_object_set_new(top, array->name, entry);
    if (code != 0) return cli_fail(error, CLI_EXIT_LIMIT, "no memory is left for a header");
    return 0;
}

static int write_header(cli_output *output, json_t *top, cli_error *error) {
    char *text = json_dumps(top, JSON_COMPACT);
    if (text == NULL) return cli_fail(error, CLI_EXIT_LIMIT, "no memory is left for a header");
    unsigned char start[LENGTH_BYTES];
    size_t length = strlen(text),
           padded = ota_size_round_up(length, 8); /* data begins 8-byte aligned */
    for (int i = 0; i < LENGTH_BYTES; i++) start[i] = (unsigned char)((uint64_t)padded >> (8 * i));
    int code = cli_output_write(output, start, sizeof start, error);
    if (code == 0) code = cli_output_write(output, text, length, error);
    if (code == 0) code = cli_output_write(output, "        ", padded - length, error);
    cli_memory_free(text);
    return code;
}

int cli_write_safetensors(cli_output *output, const cli_array *arrays, size_t count,
                          const cli_metadata *metadata, size_t metadata_count, cli_error *error) {
    json_t *top = json_object(), *pairs = json_object();
    int64_t offset = 0;
    int code = 0;
    for (size_t i = 0; i < metadata_count; i++)
        code |= json_object_set_new(pairs, metadata[i].key, json_string(metadata[i].value));
    if (metadata_count > 0) code |= json_object_set(top, "__metadata__", pairs);
    json_decref(pairs);
    if (code != 0)
        code = cli_fail(error, CLI_EXIT_INTERNAL, "%s: metadata must be UTF-8",
                        cli_short_path(cli_output_path(output)));
    for (size_t i = 0; code == 0 && i < count; i++)
        code = add_to_header(top, output, &arrays[i], &offset, error);
    if (code == 0) code = write_header(output, top, error);
    json_decref(top);
    for (size_t i = 0; code == 0 && i < count; i++)
        code = cli_output_elements(output, &arrays[i], CLI_HOST_IS_BIG, error);
    return code;
}

int cli_write_safetensors_header(cli_output *output, const cli_array *arrays, size_t count,
                                 cli_error *error) {
    json_t *top = json_object();
    int64_t offset = 0;
    int code = 0;
    for (size_t i = 0; code == 0 && i < count; i++) {
        cli_array promised = arrays[i];
        promised.data = &offset; /* any address: the elements come later */
        code = add_to_header(top, output, &promised, &offset, error);
    }
    if (code == 0) code = write_header(output, top, error);
    json_decref(top);
    return code;
}
