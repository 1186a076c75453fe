/* Bytes and arrays that grow by doubling; sizes are checked before they are multiplied. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer_parts.h"

bool ota_token_grow(void **array, size_t *room, size_t count, size_t size) {
    if (count <= *room && *array != NULL) return true;
    size_t wanted = *room < 32 ? 64 : *room * 2;
    if (wanted < count) wanted = count;
    if (wanted > SIZE_MAX / 2 / size) return false;
    void *grown = realloc(*array, wanted * size);
    if (grown == NULL) return false;
    *array = grown;
    *room = wanted;
    return true;
}

bool ota_token_reserve(ota_token_buffer *buffer, size_t more) {
    if (more > SIZE_MAX / 4 - buffer->used) return false;
    void *bytes = buffer->bytes;
    const bool grown = ota_token_grow(&bytes, &buffer->room, buffer->used + more, 1);
    buffer->bytes = bytes;
    return grown;
}

bool ota_token_append(ota_token_buffer *buffer, const char *bytes, size_t size) {
    if (!ota_token_reserve(buffer, size)) return false;
    if (size > 0) memcpy(buffer->bytes + buffer->used, bytes, size);
    buffer->used += size;
    return true;
}
