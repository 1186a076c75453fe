/* What the masks and biases of a head leave to tiles (head_masks.h), compiled for each type. */
#include "head_masks.h"

#include <math.h>
#include <string.h>

#include "real.h"
#include "terms/terms.h"

static real next_above(real x) {
#if OTA_REAL_BITS == 32
    return nextafterf(x, INFINITY);
#else
    return nextafter(x, (double)INFINITY);
#endif
}

/* Does the array say the same of every query? */
static bool is_of_keys(const ota_array *a) { return a->size[2] == 1 || a->stride[2] == 0; }

/* Are the keys of a query neighbours? */
static bool is_in_rows(const ota_array *a, int64_t keys) {
    return a->size[3] == 1 ? keys <= 1 : a->stride[3] == 1;
}

static int64_t place_of(const ota_array *a, int64_t batch, int64_t head) {
    return (a->size[0] == 1 ? 0 : batch * a->stride[0]) +
           (a->size[1] == 1 ? 0 : head * a->stride[1]);
}

typedef struct search {
    const OF_TYPE(table) *kernels;
    const ota_resolved *r;
    int64_t batch, head, key_count;
    ota_head_masks *masks;
    bool of_keys; /* flag_room holds what masks of keys allow */
} search;

static unsigned char *key_flags(search *s) {
    if (!s->of_keys) memset(s->masks->flag_room, 1, (size_t)s->key_count);
    s->of_keys = true;
    return s->masks->flag_room;
}

static void take_flags(search *s, const ota_array *a) {
    ota_head_masks *masks = s->masks;
    if (!is_of_keys(a)) {
        masks->terms |= masks->flags != NULL || !is_in_rows(a, s->r->keys);
        masks->flags = (const unsigned char *)a->data + place_of(a, s->batch, s->head);
        masks->flags_ld = a->stride[2];
        return;
    }
    unsigned char *allowed = key_flags(s);
    const unsigned char *from = (const unsigned char *)a->data + place_of(a, s->batch, s->head);
    const int64_t step = a->size[3] == 1 ? 0 : a->stride[3];
    for (int64_t j = 0; j < s->key_count; j++) allowed[j] &= from[j * step] != 0;
}

/* Sums of several numbers a pair are left to ota_apply_terms, whose order of additions is the documented one. */
static void take_numbers(search *s, const ota_array *a) {
    ota_head_masks *masks = s->masks;
    const real least = (real)ota_forbidding_addend(a->type);
    const bool second = masks->bias != NULL;
    if (!is_of_keys(a)) {
        masks->terms |= second || a->type != REAL_TYPE || !is_in_rows(a, s->r->keys);
        masks->bias = (const real *)a->data + place_of(a, s->batch, s->head);
        masks->bias_ld = a->stride[2];
        masks->bound = (double)next_above(least);
        return;
    }
    unsigned char *allowed = key_flags(s);
    bool numbers = false;
    real *to = masks->bias_room;
    const ota_pair_place place = {s->batch, s->head, 0};
    for (int64_t j = 0; j < s->key_count; j++) {
        real x;
        pair_numbers(s->kernels, a, &place, j, 1, &x);
        allowed[j] &= !(x <= least);
        numbers |= !(x <= least) && !(x == (real)0);
        if (!second) to[j] = x;
    }
    if (!numbers) return;
    masks->terms |= second;
    masks->bias = to;
    masks->bias_ld = 0;
    masks->bound = -INFINITY; /* flags forbid */
}

static void take_support(search *s, const ota_support *support) {
    const ota_support_row *row = ota_support_of(support->kind);
    switch (row->form) {
    case OTA_FORM_FLAGS: take_flags(s, &support->array); break;
    case OTA_FORM_ADDENDS: take_numbers(s, &support->array); break;
    case OTA_FORM_POSITIONS: s->masks->terms |= row->allows != NULL; break;
    }
}

/* Keys that masks of keys forbid on either side are cut off; between the others flags tell where they are mixed. */
static void narrow(search *s) {
    ota_head_masks *masks = s->masks;
    if (!s->of_keys) return;
    const unsigned char *allowed = masks->flag_room;
    while (masks->begin < masks->end && !allowed[masks->begin]) masks->begin++;
    while (masks->begin < masks->end && !allowed[masks->end - 1]) masks->end--;
    const size_t count = (size_t)(masks->end - masks->begin);
    if (count == 0 || memchr(allowed + masks->begin, 0, count) == NULL) return;
    masks->terms |= masks->flags != NULL;
    masks->flags = allowed;
    masks->flags_ld = 0;
}

void WORD(ota_find_head_masks)(const OF_TYPE(table) *kernels, const ota_resolved *r, int64_t batch,
                               int64_t head, int64_t key_count, ota_head_masks *masks) {
    const int64_t index = batch * r->heads + head;
    if (masks->head == index) return;
    *masks = (ota_head_masks){.head = index,
                              .end = key_count,
                              .flag_room = masks->flag_room,
                              .bias_room = masks->bias_room};
    if (!r->row_terms) return;
    search s = {.kernels = kernels,
                .r = r,
                .batch = batch,
                .head = head,
                .key_count = key_count,
                .masks = masks};
    for (int t = 0; t < r->term_count; t++) {
        if (ota_term_form_of(&r->terms[t]) == OTA_FORM_ADDS_PAIRS)
            take_numbers(&s, &r->terms[t].array);
        else
            masks->terms = true;
    }
    for (int t = 0; t < r->support_count; t++) take_support(&s, &r->supports[t]);
    narrow(&s);
    if (!masks->terms) return;
    masks->flags = NULL;
    masks->bias = NULL;
}
