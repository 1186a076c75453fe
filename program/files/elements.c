/* The elements of an array on their way into a file: from memory, or from where cli_array.elements finds them, a piece
 * at a time. */
#include <string.h>

#include "files_formats.h"
#include "src/base/integers.h"

void cli_bytes_begin(cli_bytes *bytes, const cli_array *array, bool swap) {
    bytes->array = array;
    bytes->swap = swap;
    bytes->taken = bytes->size = 0;
}

int cli_bytes_next(cli_bytes *bytes, cli_error *error) {
    const cli_array *array = bytes->array;
    const size_t element = cli_stored_by_type(array->type)->bits / 8;
    const size_t count = ota_size_min(array->count - bytes->taken, sizeof bytes->piece / element);
    const int looked = cli_look(error);
    if (looked != 0) return looked;
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
    bytes->size = count * element;
    return 0;
}

/* Bytes that are written between two looks. */
enum { STEP = 1 << 20 };

int cli_output_elements(cli_output *output, const cli_array *array, bool swap, cli_error *error) {
    if (array->count == 0) return 0;
    if (array->data != NULL && !swap) {
        const size_t bytes = array->count * (cli_stored_by_type(array->type)->bits / 8);
        int code = 0;
        for (size_t done = 0; code == 0 && done < bytes; done += STEP) {
            code = cli_look(error);
            if (code == 0)
                code = cli_output_write(output, (const char *)array->data + done,
                                        ota_size_min(bytes - done, STEP), error);
        }
        return code;
    }
    cli_bytes bytes;
    cli_bytes_begin(&bytes, array, swap);
    int code = cli_bytes_next(&bytes, error);
    while (code == 0 && bytes.size > 0) {
        code = cli_output_write(output, bytes.piece, bytes.size, error);
        if (code == 0) code = cli_bytes_next(&bytes, error);
    }
    return code;
}
