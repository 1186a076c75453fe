/* bounded_heaps.c: a pairing heap for each pair of columns, all entries in one pool. */
#include "bounded_assignment.h"

#include <stdlib.h>

enum { FIRST_CAPACITY = 1 << 12 };

void ota_bounded_heaps_clear(ota_bounded_heaps *heaps, int64_t columns) {
    for (int64_t pair = 0; pair < columns * columns; pair++) heaps->root[pair] = OTA_BOUNDED_NONE;
    heaps->count = 0;
    heaps->unused = OTA_BOUNDED_NONE;
}

void ota_bounded_heaps_free(ota_bounded_heaps *heaps) {
    free(heaps->key);
    free(heaps->row);
    free(heaps->child);
    free(heaps->next);
}

static bool resize(int32_t **list, int64_t count) {
    int32_t *found = realloc(*list, (size_t)count * sizeof *found);
    if (found == NULL) return false;
    *list = found;
    return true;
}

static ota_status grow(ota_bounded_heaps *heaps) {
    if (heaps->capacity >= heaps->limit) return OTA_ELIMIT;
    const int64_t twice =
        heaps->capacity == 0 ? FIRST_CAPACITY : heaps->capacity + heaps->capacity / 2;
    const int64_t capacity = ota_int_min(twice, heaps->limit);
    double *key = realloc(heaps->key, (size_t)capacity * sizeof *key);
    if (key == NULL) return OTA_ENOMEM;
    heaps->key = key;
    if (!resize(&heaps->row, capacity) || !resize(&heaps->child, capacity) ||
        !resize(&heaps->next, capacity))
        return OTA_ENOMEM;
    heaps->capacity = capacity;
    return OTA_OK;
}

static int32_t meld(const ota_bounded_heaps *heaps, int32_t a, int32_t b) {
    const bool swap = heaps->key[b] < heaps->key[a] ||
                      (heaps->key[b] <= heaps->key[a] && heaps->row[b] < heaps->row[a]);
    const int32_t above = swap ? b : a;
    const int32_t below = swap ? a : b;
    heaps->next[below] = heaps->child[above];
    heaps->child[above] = below;
    return above;
}

ota_status ota_bounded_heaps_insert(ota_bounded_heaps *heaps, int64_t pair, double key,
                                    int32_t row) {
    int32_t entry = heaps->unused;
    if (entry != OTA_BOUNDED_NONE) {
        heaps->unused = heaps->next[entry];
    } else {
        if (heaps->count == heaps->capacity) {
            const ota_status status = grow(heaps);
            if (status != OTA_OK) return status;
        }
        entry = (int32_t)heaps->count++;
    }
    heaps->key[entry] = key;
    heaps->row[entry] = row;
    heaps->child[entry] = OTA_BOUNDED_NONE;
    const int32_t root = heaps->root[pair];
    heaps->root[pair] = root == OTA_BOUNDED_NONE ? entry : meld(heaps, root, entry);
    return OTA_OK;
}

void ota_bounded_heaps_pop(ota_bounded_heaps *heaps, int64_t pair) {
    const int32_t least = heaps->root[pair];
    int32_t left = heaps->child[least];
    heaps->next[least] = heaps->unused;
    heaps->unused = least;
    int32_t melded = OTA_BOUNDED_NONE;
    while (left != OTA_BOUNDED_NONE) {
        int32_t one = left;
        const int32_t two = heaps->next[one];
        left = OTA_BOUNDED_NONE;
        if (two != OTA_BOUNDED_NONE) {
            left = heaps->next[two];
            one = meld(heaps, one, two);
        }
        heaps->next[one] = melded;
        melded = one;
    }
    int32_t root = OTA_BOUNDED_NONE;
    while (melded != OTA_BOUNDED_NONE) {
        const int32_t following = heaps->next[melded];
        root = root == OTA_BOUNDED_NONE ? melded : meld(heaps, root, melded);
        melded = following;
    }
    heaps->root[pair] = root;
}
