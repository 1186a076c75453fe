/* The elements of an array on their way into a file: from memory, or from where cli_array.elements finds them, a piece
 * at a time. */
#include <string.h>

#include "files_formats.h"
#include "src/base/integers.h"

void cli_bytes_begin(cli_bytes *bytes, const cli_array *array, bool swap) {
    bytes->array = array;
    bytes->swap = swap;
    bytes->taken = bytes->begin = bytes->end = 0;
}

/* The next piece; at the end an empty one. */
static int fill(cli_bytes *bytes, cli_error *error) {
    const cli_array *array = bytes->array;
    const size_t element = cli_stored_by_type(array->type)->bits / 8;
    const size_t count = ota_size_min(array->count - bytes->taken, sizeof bytes->piece / element);
    if (array->data != NULL) {
        if (count > 0)
            memcpy(bytes->piece, (const char *)array->data + bytes->taken * element,
                   count * element);
    } else if (count > 0) {
        const int code = array->elements->next(array->elements->user, bytes->piece, count, error);
        if (code != 0) return code;
    }
    if (bytes->swap) cli_swap_bytes(bytes->piece, count, element);
    bytes->taken += count;
    bytes->begin = 0;
    bytes->end = count * element;
    return 0;
}

int cli_bytes_read(cli_bytes *bytes, void *to, size_t size, size_t *got, cli_error *error) {
    for (*got = 0; *got < size;) {
        if (bytes->begin == bytes->end) {
            const int code = fill(bytes, error);
            if (code != 0) return code;
            if (bytes->end == 0) break;
        }
        const size_t part = ota_size_min(size - *got, bytes->end - bytes->begin);
        memcpy((char *)to + *got, bytes->piece + bytes->begin, part);
        bytes->begin += part;
        *got += part;
    }
    return 0;
}

int cli_output_elements(cli_output *output, const cli_array *array, bool swap, cli_error *error) {
    if (array->count == 0) return 0;
    if (array->data != NULL && !swap) {
        const size_t element = cli_stored_by_type(array->type)->bits / 8;
        return cli_output_write(output, array->data, array->count * element, error);
    }
    cli_bytes bytes;
    cli_bytes_begin(&bytes, array, swap);
    int code = fill(&bytes, error);
    while (code == 0 && bytes.end > 0) {
        code = cli_output_write(output, bytes.piece, bytes.end, error);
        if (code == 0) code = fill(&bytes, error);
    }
    return code;
}
