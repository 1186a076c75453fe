/* The replacements that SentencePiece compiles into a model: a double array over the bytes of texts (that of Darts), whose
 * values are places in a string of texts ended by NUL.
 *
 *   u32 size of the array in bytes   u32 units of the array ...   texts
 *
 * A unit: bits 0-7 the byte that leads to it, bit 8 whether a value lies beyond it, bit 9 and 10-30 how far, bit 31 that
 * it is a value (bits 0-30). A step is an exclusive or with a number of the file, so that every index is looked at. */
#include <stdlib.h>
#include <string.h>

#include "tokenizer_parts.h"

static uint32_t unit_at(const char *bytes) {
    const unsigned char *at = (const unsigned char *)bytes;
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

ota_status ota_charsmap_build(ota_charsmap *map, ota_text blob, const char *path, int64_t offset,
                              ota_ending *ending, ota_error *error) {
    const size_t size = blob.size < 4 ? 0 : unit_at(blob.data);
    if (size < 4 || size % 4 != 0 || size > blob.size - 4)
        return ota_token_fail(error, OTA_EFORMAT, path, offset,
                              "precompiled_charsmap must be the size of an array, the array, and "
                              "texts");
    map->unit_count = size / 4;
    map->text_size = blob.size - 4 - size;
    map->units = malloc(size);
    map->texts = malloc(map->text_size + 1);
    if (map->units == NULL || map->texts == NULL) return ota_token_no_memory(error);
    for (size_t k = 0; k < map->unit_count; k++) map->units[k] = unit_at(blob.data + 4 + 4 * k);
    if (map->text_size > 0) memcpy(map->texts, blob.data + 4 + size, map->text_size);
    map->texts[map->text_size] = '\0';
    /* What replaces a text becomes text. */
    for (size_t at = 0; at < map->text_size;) {
        const size_t length = strlen(map->texts + at);
        if (ota_token_valid(map->texts + at, length) < length)
            return ota_token_fail(error, OTA_EFORMAT, path, offset,
                                  "the texts of precompiled_charsmap must be UTF-8");
        at += length + 1;
        const ota_status status = ota_look(ending, length / 16 + 1, error);
        if (status != OTA_OK) return status;
    }
    return OTA_OK;
}

void ota_charsmap_free(ota_charsmap *map) {
    free(map->units);
    free(map->texts);
}

/* How far the units behind this one lie. */
static size_t offset_of(uint32_t unit) { return (size_t)(unit >> 10) << ((unit & 1U << 9) >> 6); }

ota_text ota_charsmap_find(const ota_charsmap *map, ota_text text, bool shortest, size_t *taken) {
    ota_text found = {NULL, 0};
    *taken = 0;
    if (map->units == NULL) return found;
    size_t node = offset_of(map->units[0]);
    for (size_t at = 0; at < text.size; at++) {
        const unsigned char byte = (unsigned char)text.data[at];
        node ^= byte;
        if (byte == 0 || node >= map->unit_count) break;
        const uint32_t unit = map->units[node];
        if ((unit & (1U << 31 | 0xFFU)) != byte) break;
        node ^= offset_of(unit);
        if ((unit >> 8 & 1) == 0) continue;
        if (node >= map->unit_count) break;
        const size_t place = map->units[node] & ~(1U << 31);
        /* A place inside of a character would put half of it into the text. */
        if (place > map->text_size || ((unsigned char)map->texts[place] & 0xC0) == 0x80) break;
        found = (ota_text){map->texts + place, strlen(map->texts + place)};
        *taken = at + 1;
        if (shortest) break;
    }
    return found;
}
