/* Supports: which pairs may carry weight. Structured kinds (causal, window, block, lengths) bound a row's
 * keys by an interval, so whole tiles are skipped; the rest is asked pair by pair. One table row per kind.
 *
 *     position of query i: i + offset     pair allowed = AND over the supports        [TOT-43..48] */
#include "support.h"

#include <assert.h>
#include <math.h>

static int64_t largest(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t smallest(int64_t a, int64_t b) { return a < b ? a : b; }

static void causal_range(const ota_resolved *r, const ota_support *s, int64_t batch, int64_t query,
                         int64_t *begin, int64_t *end) {
    (void)s, (void)batch, (void)begin;
    *end = smallest(*end, query + r->offset + 1);
}

static void window_range(const ota_resolved *r, const ota_support *s, int64_t batch, int64_t query,
                         int64_t *begin, int64_t *end) {
    (void)batch;
    const int64_t at = query + r->offset;
    /* The limits were clamped to the key count at the door, so these sums cannot overflow. */
    if (s->left >= 0) *begin = largest(*begin, at - s->left);
    if (s->right >= 0) *end = smallest(*end, at + s->right + 1);
}

static void block_range(const ota_resolved *r, const ota_support *s, int64_t batch, int64_t query,
                        int64_t *begin, int64_t *end) {
    (void)batch;
    const int64_t at = query + r->offset;
    int64_t first = 0, last = 0;
    if (at < 0) {
        *end = *begin;
        return;
    }
    if (ota_array_present(&s->array)) {
        for (int64_t k = 0; k < s->array.size[3] && at >= last; k++) {
            first = last;
            last += ota_array_get_integer(&s->array, 0, 0, 0, k);
        }
    } else {
        first = at / s->left * s->left;
        last = first + s->left;
    }
    *begin = largest(*begin, first);
    *end = smallest(*end, last);
}

static void lengths_range(const ota_resolved *r, const ota_support *s, int64_t batch, int64_t query,
                          int64_t *begin, int64_t *end) {
    (void)r, (void)query, (void)begin;
    *end = smallest(*end, ota_array_get_integer(&s->array, 0, 0, 0, batch));
}

static bool strided_allows(const ota_resolved *r, const ota_support *s, int64_t b, int64_t h,
                           int64_t i, int64_t j) {
    (void)b, (void)h;
    return (i + r->offset - j) % s->left == 0; /* zero remainder has no sign to worry about */
}

static bool boolean_allows(const ota_resolved *r, const ota_support *s, int64_t b, int64_t h,
                           int64_t i, int64_t j) {
    (void)r;
    return ota_array_get(&s->array, b, h, i, j) > 0.0;
}

static bool additive_allows(const ota_resolved *r, const ota_support *s, int64_t b, int64_t h,
                            int64_t i, int64_t j) {
    (void)r;
    return !(ota_array_get(&s->array, b, h, i, j) <= -INFINITY);
}

static const ota_support_law laws[] = {
    [OTA_SUPPORT_CAUSAL] = {causal_range, NULL},     [OTA_SUPPORT_WINDOW] = {window_range, NULL},
    [OTA_SUPPORT_STRIDED] = {NULL, strided_allows},  [OTA_SUPPORT_BLOCK] = {block_range, NULL},
    [OTA_SUPPORT_LENGTHS] = {lengths_range, NULL},   [OTA_SUPPORT_BOOLEAN] = {NULL, boolean_allows},
    [OTA_SUPPORT_ADDITIVE] = {NULL, additive_allows}};

const ota_support_law *ota_support_law_of(ota_support_kind kind) {
    assert(kind >= OTA_SUPPORT_CAUSAL && kind <= OTA_SUPPORT_ADDITIVE);
    return &laws[kind];
}

void ota_row_range(const ota_resolved *r, int64_t batch, int64_t query, int64_t key_count,
                   int64_t *begin, int64_t *end) {
    int64_t first = 0, last = smallest(r->keys, key_count);
    for (int k = 0; k < r->support_count; k++) {
        const ota_support_law *law = ota_support_law_of(r->supports[k].kind);
        if (law->range != NULL) law->range(r, &r->supports[k], batch, query, &first, &last);
    }
    *begin = first;
    *end = largest(first, last);
    if (*end <= *begin) *begin = *end = 0;
}

bool ota_pair_allowed(const ota_resolved *r, int64_t batch, int64_t head, int64_t query,
                      int64_t key) {
    int64_t begin, end;
    ota_row_range(r, batch, query, r->keys, &begin, &end);
    if (key < begin || key >= end) return false;
    for (int k = 0; k < r->support_count; k++) {
        const ota_support_law *law = ota_support_law_of(r->supports[k].kind);
        if (law->allows != NULL && !law->allows(r, &r->supports[k], batch, head, query, key))
            return false;
    }
    return true;
}
