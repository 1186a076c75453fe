/* memory.c: checked size products and the arena of base.h.
 *
 *     bytes = sum over pieces of round_up(count * size, 64) */
#include "base.h"

bool ota_size_product(const int64_t *sizes, int count, size_t *result) {
    size_t product = 1;
    bool zero = false;
    bool overflowed = false;
    for (int i = 0; i < count; i++) {
        if (sizes[i] < 0) return false;
        if (sizes[i] == 0) zero = true;
        if (!ota_size_mul(product, (size_t)sizes[i], &product)) overflowed = true;
    }
    if (overflowed && !zero) return false;
    *result = zero ? 0 : product;
    return true;
}

void *ota_arena_take(ota_arena *arena, size_t count, size_t size) {
    size_t bytes;
    size_t end;
    if (arena->overflowed) return NULL;
    if (!ota_size_mul(count, size, &bytes) || !ota_size_add(bytes, OTA_ALIGNMENT - 1, &bytes) ||
        !ota_size_add(arena->used, bytes & ~(OTA_ALIGNMENT - 1), &end) ||
        (arena->base != NULL && end > arena->size)) {
        arena->overflowed = true;
        return NULL;
    }
    void *piece = arena->base == NULL ? NULL : arena->base + arena->used;
    arena->used = end;
    return piece;
}

void *ota_arena_take_rows(ota_arena *arena, int64_t rows, int64_t columns, size_t size) {
    size_t count;
    if (ota_size_mul((size_t)rows, (size_t)columns, &count))
        return ota_arena_take(arena, count, size);
    arena->overflowed = true;
    return NULL;
}

bool ota_arena_overflowed(const ota_arena *arena) { return arena->overflowed; }

ota_status ota_arena_allocate(ota_arena *arena) {
    /* malloc rounds up internally; above PTRDIFF_MAX no pointer difference is defined. */
    if (arena->overflowed || arena->used > (size_t)PTRDIFF_MAX - OTA_ALIGNMENT) {
        return OTA_EOVERFLOW;
    }
    size_t size = arena->used;
    unsigned char *base = ota_aligned_allocate(OTA_ALIGNMENT, size == 0 ? OTA_ALIGNMENT : size);
    if (base == NULL) return OTA_ENOMEM;
    /* A first touch of 128 MiB costs some 30 ms in pages of 4 KiB and 10 in pages of 2 MiB. */
    ota_system_advise_large_pages(base, size);
    *arena = (ota_arena){.base = base, .size = size};
    return OTA_OK;
}

void ota_arena_release(ota_arena *arena) {
    ota_aligned_free(arena->base);
    *arena = (ota_arena){0};
}
