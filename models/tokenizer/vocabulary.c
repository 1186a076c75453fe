/* The pieces of a vocabulary: text by id and id by text.
 *
 * Pieces lie one after another, piece i at bytes[begin[i] ... begin[i+1]). The index is open addressing
 * with linear steps in a table of at least twice as many slots as pieces. */
#include <stdlib.h>
#include <string.h>

#include "tokenizer_parts.h"

ota_status ota_token_list_add(ota_token_list *list, size_t begin, int64_t id, int64_t offset,
                              ota_error *error) {
    const size_t size = list->text.used - begin;
    const ota_status looked = ota_look(list->ending, size + 1, error);
    if (looked != OTA_OK) return looked;
    if (size == 0)
        return ota_token_fail(error, OTA_EFORMAT, list->path, offset, "a piece must not be empty");
    if (size > OTA_TOKEN_PIECE_MOST)
        return ota_token_fail(error, OTA_ELIMIT, list->path, offset,
                              "a piece has %zu bytes, above the limit of %d", size,
                              OTA_TOKEN_PIECE_MOST);
    if (id < 0)
        return ota_token_fail(error, OTA_EFORMAT, list->path, offset,
                              "id %lld is below 0; ids count from 0", (long long)id);
    if (list->count >= OTA_TOKEN_PIECES_MOST || id >= OTA_TOKEN_PIECES_MOST)
        return ota_token_fail(error, OTA_ELIMIT, list->path, offset,
                              "a vocabulary has at most %d pieces", OTA_TOKEN_PIECES_MOST);
    void *entries = list->entries;
    const bool grown =
        ota_token_grow(&entries, &list->room, list->count + 1, sizeof *list->entries);
    list->entries = entries;
    if (!grown) return ota_token_no_memory(error);
    list->entries[list->count++] =
        (ota_token_entry){.begin = begin, .size = size, .id = id, .offset = offset};
    return OTA_OK;
}

void ota_token_list_free(ota_token_list *list) {
    free(list->text.bytes);
    free(list->entries);
}

/* places[id] = entry of the list; every id below count exactly once. */
static ota_status order_by_id(const ota_token_list *list, int32_t *places, ota_error *error) {
    for (size_t k = 0; k < list->count; k++) places[k] = -1;
    for (size_t k = 0; k < list->count; k++) {
        const ota_token_entry *entry = &list->entries[k];
        if (entry->id >= (int64_t)list->count)
            return ota_token_fail(error, OTA_EFORMAT, list->path, entry->offset,
                                  "id %lld leaves a hole: %zu pieces have the ids 0 to %zu",
                                  (long long)entry->id, list->count, list->count - 1);
        if (places[entry->id] >= 0)
            return ota_token_fail(error, OTA_EFORMAT, list->path, entry->offset,
                                  "id %lld is given twice", (long long)entry->id);
        places[entry->id] = (int32_t)k;
    }
    return OTA_OK;
}

static bool make_slots(ota_vocabulary *vocabulary) {
    size_t slots = 16;
    while (slots < 2 * (size_t)vocabulary->count) slots *= 2;
    vocabulary->slots = calloc(slots, sizeof *vocabulary->slots);
    if (vocabulary->slots == NULL) return false;
    memset(vocabulary->slots, 0xFF, slots * sizeof *vocabulary->slots);
    vocabulary->mask = slots - 1;
    return true;
}

/* The slot of a text, or the empty one where it belongs. */
static uint64_t slot_of(const ota_vocabulary *vocabulary, const char *text, size_t size) {
    uint64_t slot = ota_token_spread(ota_token_hash(OTA_TOKEN_HASH_START, text, size));
    for (slot &= vocabulary->mask; vocabulary->slots[slot] >= 0;
         slot = (slot + 1) & vocabulary->mask) {
        const ota_text piece = ota_vocabulary_text(vocabulary, vocabulary->slots[slot]);
        if (piece.size == size && memcmp(piece.data, text, size) == 0) break;
    }
    return slot;
}

ota_status ota_vocabulary_build(ota_vocabulary *vocabulary, const ota_token_list *list,
                                ota_error *error) {
    int32_t *places = malloc((list->count + 1) * sizeof *places);
    vocabulary->bytes = malloc(list->text.used + 1);
    vocabulary->begin = malloc((list->count + 1) * sizeof *vocabulary->begin);
    vocabulary->outside = calloc(list->count + 1, 1);
    vocabulary->count = (int32_t)list->count;
    vocabulary->room = list->count;
    ota_status status = OTA_OK;
    if (places == NULL || vocabulary->bytes == NULL || vocabulary->begin == NULL ||
        vocabulary->outside == NULL || !make_slots(vocabulary))
        status = ota_token_no_memory(error);
    if (status == OTA_OK) status = order_by_id(list, places, error);
    /* No piece sets it where there is none. */
    if (status == OTA_OK) vocabulary->begin[0] = 0;
    size_t used = 0;
    for (size_t id = 0; id < list->count && status == OTA_OK; id++) {
        const ota_token_entry *entry = &list->entries[places[id]];
        memcpy(vocabulary->bytes + used, list->text.bytes + entry->begin, entry->size);
        vocabulary->begin[id] = (uint32_t)used;
        used += entry->size;
        vocabulary->begin[id + 1] = (uint32_t)used;
        vocabulary->outside[id] = (size_t)places[id] >= list->count - list->outside;
        if (entry->size > vocabulary->longest) vocabulary->longest = entry->size;
        const uint64_t slot = slot_of(vocabulary, list->text.bytes + entry->begin, entry->size);
        status = ota_look(list->ending, entry->size, error);
        if (vocabulary->slots[slot] >= 0)
            status = ota_token_fail(
                error, OTA_EFORMAT, list->path, entry->offset, "piece \"%.*s\" is there twice",
                (int)(entry->size < 80 ? entry->size : 80), list->text.bytes + entry->begin);
        vocabulary->slots[slot] = (int32_t)id;
    }
    free(places);
    return status;
}

static bool make_room(ota_vocabulary *vocabulary) {
    const size_t room = vocabulary->room < 64 ? 128 : 2 * vocabulary->room;
    uint32_t *begin = realloc(vocabulary->begin, (room + 1) * sizeof *begin);
    if (begin == NULL) return false;
    vocabulary->begin = begin;
    uint8_t *outside = realloc(vocabulary->outside, room + 1);
    if (outside == NULL) return false;
    vocabulary->outside = outside;
    vocabulary->room = room;
    return true;
}

bool ota_vocabulary_append(ota_vocabulary *vocabulary, const char *text, size_t size) {
    const size_t count = (size_t)vocabulary->count, used = vocabulary->begin[count];
    if (used + size > UINT32_MAX) return false;
    if (count == vocabulary->room && !make_room(vocabulary)) return false;
    char *bytes = realloc(vocabulary->bytes, used + size + 1);
    if (bytes == NULL) return false;
    vocabulary->bytes = bytes;
    memcpy(bytes + used, text, size);
    vocabulary->begin[count + 1] = (uint32_t)(used + size);
    vocabulary->outside[count] = 1;
    vocabulary->count++;
    if (size > vocabulary->longest) vocabulary->longest = size;
    if (2 * (uint64_t)vocabulary->count > vocabulary->mask + 1) {
        free(vocabulary->slots);
        return ota_vocabulary_index(vocabulary, NULL, NULL) == OTA_OK;
    }
    vocabulary->slots[slot_of(vocabulary, text, size)] = (int32_t)count;
    return true;
}

ota_status ota_vocabulary_index(ota_vocabulary *vocabulary, ota_ending *ending, ota_error *error) {
    if (!make_slots(vocabulary)) return ota_token_no_memory(error);
    for (int32_t id = 0; id < vocabulary->count; id++) {
        const ota_text piece = ota_vocabulary_text(vocabulary, id);
        const uint64_t slot = slot_of(vocabulary, piece.data, piece.size);
        const int32_t there = vocabulary->slots[slot];
        /* An added token does not hide a piece of the model. */
        if (there < 0 || (vocabulary->outside[there] && !vocabulary->outside[id]))
            vocabulary->slots[slot] = id;
        const ota_status status = ota_look(ending, piece.size, error);
        if (status != OTA_OK) return status;
    }
    return OTA_OK;
}

void ota_vocabulary_free(ota_vocabulary *vocabulary) {
    free(vocabulary->bytes);
    free(vocabulary->begin);
    free(vocabulary->slots);
    free(vocabulary->outside);
}

int32_t ota_vocabulary_find(const ota_vocabulary *vocabulary, const char *text, size_t size) {
    return vocabulary->slots == NULL ? -1 : vocabulary->slots[slot_of(vocabulary, text, size)];
}

int32_t ota_vocabulary_find_model(const ota_vocabulary *vocabulary, const char *text, size_t size) {
    const int32_t id = ota_vocabulary_find(vocabulary, text, size);
    return id >= 0 && vocabulary->outside != NULL && vocabulary->outside[id] ? -1 : id;
}

ota_text ota_vocabulary_text(const ota_vocabulary *vocabulary, int32_t id) {
    const uint32_t begin = vocabulary->begin[id];
    return (ota_text){vocabulary->bytes + begin, vocabulary->begin[id + 1] - begin};
}
