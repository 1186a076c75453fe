#include "src/base/system.h"
#include "jax_plans.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* As many, and as many bytes, as python/otattn/_kept.py keeps. */
enum { PLANS = 32, BYTES = 256 << 20 };

typedef struct jax_slot {
    void *name; /* owned; NULL: the slot is free, and there is no plan */
    size_t size, bytes;
    ota_plan *plan;
    uint64_t used;
} jax_slot;

static jax_slot slots[PLANS];
static uint64_t calls;
static ota_mutex lock = OTA_MUTEX_READY;

static void empty(jax_slot *slot) {
    ota_plan_free(slot->plan);
    free(slot->name);
    *slot = (jax_slot){.name = NULL};
}

ota_plan *jax_take_plan(const void *name, size_t size) {
    ota_plan *found = NULL;
    ota_mutex_lock(&lock);
    for (jax_slot *s = slots; found == NULL && s < slots + PLANS; s++) {
        if (s->size != size || s->name == NULL || memcmp(s->name, name, size) != 0) continue;
        found = s->plan;
        free(s->name);
        *s = (jax_slot){.name = NULL};
    }
    ota_mutex_unlock(&lock);
    return found;
}

/* A free slot: plans that were used longest ago make room. */
static jax_slot *make_room(size_t bytes) {
    for (;;) {
        jax_slot *unused = NULL, *oldest = NULL;
        size_t held = bytes;
        for (jax_slot *s = slots; s < slots + PLANS; s++) {
            held += s->bytes;
            if (s->name == NULL) unused = s;
            if (s->name != NULL && (oldest == NULL || s->used < oldest->used)) oldest = s;
        }
        if (unused != NULL && (held <= BYTES || oldest == NULL)) return unused;
        empty(oldest);
    }
}

void jax_give_plan(ota_plan *plan, const void *name, size_t size) {
    const size_t bytes = ota_plan_bytes(plan);
    /* A plan that fills most of the room would drive out all the others. */
    void *own = bytes > BYTES / 4 ? NULL : malloc(size);
    if (own == NULL) {
        ota_plan_free(plan);
        return;
    }
    memcpy(own, name, size);
    ota_mutex_lock(&lock);
    *make_room(bytes) =
        (jax_slot){.name = own, .size = size, .bytes = bytes, .plan = plan, .used = ++calls};
    ota_mutex_unlock(&lock);
}

void ota_jax_release(void) {
    ota_mutex_lock(&lock);
    for (jax_slot *s = slots; s < slots + PLANS; s++) empty(s);
    ota_mutex_unlock(&lock);
}
