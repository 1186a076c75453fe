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

/* A place among the terms or supports of a problem. */
typedef struct item {
    bool is_support;
    int place;
} item;

typedef struct search {
    const OF_TYPE(table) *kernels;
    const ota_resolved *r;
    int64_t batch, head, key_count;
    ota_head_masks *masks;
    item flags, bias; /* whose these are in `masks` */
    bool of_keys;     /* flag_room holds what masks of keys allow */
} search;

static void leave(search *s, item x) {
    ota_term_set *left = &s->masks->left;
    if (x.is_support)
        left->supports |= UINT32_C(1) << x.place;
    else
        left->terms |= UINT32_C(1) << x.place;
    s->masks->terms = true;
}

static unsigned char *key_flags(search *s) {
    if (!s->of_keys) memset(s->masks->flag_room, 1, (size_t)s->key_count);
    s->of_keys = true;
    return s->masks->flag_room;
}

static void take_flags(search *s, const ota_array *a, item x) {
    ota_head_masks *masks = s->masks;
    if (!is_of_keys(a)) {
        if (masks->flags != NULL || !is_in_rows(a, s->r->keys)) {
            leave(s, x);
            return;
        }
        masks->flags = (const unsigned char *)a->data + place_of(a, s->batch, s->head);
        masks->flags_ld = a->stride[2];
        s->flags = x;
        return;
    }
    unsigned char *allowed = key_flags(s);
    const unsigned char *from = (const unsigned char *)a->data + place_of(a, s->batch, s->head);
    const int64_t step = a->size[3] == 1 ? 0 : a->stride[3];
    for (int64_t j = 0; j < s->key_count; j++) allowed[j] &= from[j * step] != 0;
}

/* Do numbers of keys hold more than 0 and what forbids, which flags say? */
static bool forbid_keys(search *s, const ota_array *a) {
    enum { PIECE = 128 };
    const real least = (real)ota_forbidding_addend(a->type);
    const ota_pair_place place = {s->batch, s->head, 0};
    unsigned char *allowed = key_flags(s);
    bool numbers = false;
    for (int64_t first = 0; first < s->key_count; first += PIECE) {
        const int64_t count = ota_int_min(s->key_count - first, PIECE);
        real x[PIECE];
        pair_numbers(s->kernels, a, &place, first, count, x);
        for (int64_t k = 0; k < count; k++) {
            const bool open = !(x[k] <= least);
            allowed[first + k] &= open;
            numbers |= open && !(x[k] == (real)0);
        }
    }
    return numbers;
}

/* Scores are added up in the order of the problem: what tiles add is what comes last. */
static void leave_bias(search *s) {
    if (s->masks->bias != NULL) leave(s, s->bias);
    s->masks->bias = NULL;
}

static void take_numbers(search *s, const ota_array *a, item x) {
    ota_head_masks *masks = s->masks;
    const bool of_keys = is_of_keys(a);
    if (of_keys && !forbid_keys(s, a)) return;
    leave_bias(s);
    if (of_keys) {
        const ota_pair_place place = {s->batch, s->head, 0};
        pair_numbers(s->kernels, a, &place, 0, s->key_count, masks->bias_room);
        masks->bias = masks->bias_room;
        masks->bias_ld = 0;
        masks->bias_type = REAL_TYPE;
        masks->bound = -INFINITY; /* flags forbid */
    } else if (is_in_rows(a, s->r->keys)) {
        masks->bias = (const char *)a->data +
                      place_of(a, s->batch, s->head) * (int64_t)ota_type_bytes(a->type);
        masks->bias_ld = a->stride[2];
        masks->bias_type = a->type;
        masks->bound = (double)next_above((real)ota_forbidding_addend(a->type));
    } else {
        leave(s, x);
    }
    s->bias = x;
}

static void take_support(search *s, int place) {
    const ota_support *support = &s->r->supports[place];
    const ota_support_row *row = ota_support_of(support->kind);
    const item x = {true, place};
    switch (row->form) {
    case OTA_FORM_FLAGS: take_flags(s, &support->array, x); break;
    case OTA_FORM_ADDENDS: take_numbers(s, &support->array, x); break;
    case OTA_FORM_POSITIONS:
        if (row->allows != NULL) leave(s, x);
        break;
    }
}

static void take_term(search *s, int place) {
    const ota_term *term = &s->r->terms[place];
    const item x = {false, place};
    if (ota_term_form_of(term) == OTA_FORM_ADDS_PAIRS) {
        take_numbers(s, &term->array, x);
    } else {
        leave_bias(s);
        leave(s, x);
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
    if (masks->flags != NULL) leave(s, s->flags);
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
    for (int t = 0; t < r->term_count; t++) take_term(&s, t);
    for (int t = 0; t < r->support_count; t++) take_support(&s, t);
    narrow(&s);
}
