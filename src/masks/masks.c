/* The table of supports (masks.h): their validation, the interval of keys of a query, and single pairs. */
#include "masks.h"

#include <inttypes.h>

#include "problem/check.h"

static const ota_support_row *const table[] = {
    [OTA_SUPPORT_CAUSAL] = &ota_support_causal,    [OTA_SUPPORT_WINDOW] = &ota_support_window,
    [OTA_SUPPORT_STRIDED] = &ota_support_strided,  [OTA_SUPPORT_BLOCK] = &ota_support_block,
    [OTA_SUPPORT_LENGTHS] = &ota_support_lengths,  [OTA_SUPPORT_BOOLEAN] = &ota_support_boolean,
    [OTA_SUPPORT_ADDITIVE] = &ota_support_additive};

const ota_support_row *ota_support_of(ota_support_kind kind) {
    return (size_t)kind < sizeof table / sizeof table[0] ? table[kind] : NULL;
}

ota_status ota_resolve_supports(ota_resolved *r, ota_error *error) {
    const ota_problem *p = &r->problem;
    if (p->support_count < 0 || p->support_count > OTA_MAX_SUPPORTS ||
        (p->support_count > 0 && p->supports == NULL)) {
        return ota_fail(error, OTA_EINVAL, "support_count", "give 0 to 16 supports",
                        "support_count is %" PRId64 "%s", p->support_count,
                        p->supports == NULL ? " and supports is NULL" : "");
    }
    r->offset = p->corner == OTA_BOTTOM_RIGHT ? r->keys - r->share.rows : 0;
    for (int64_t k = 0; k < p->support_count; k++) {
        ota_support support = p->supports[k];
        const ota_support_row *row = ota_support_of(support.kind);
        if (row == NULL) {
            return ota_fail(error, OTA_EINVAL, "supports", "use one of the OTA_SUPPORT_ kinds",
                            "a support has the unknown kind %d", (int)support.kind);
        }
        TRY(row->check(r, &support, error));
        r->supports[r->support_count++] = support;
        if (row->allows != NULL) r->row_terms = true;
        if (row->form == OTA_FORM_ADDENDS) r->adds_pairs = true;
    }
    return OTA_OK;
}

void ota_row_range(const ota_resolved *r, int64_t batch, int64_t query, int64_t key_count,
                   int64_t *begin, int64_t *end) {
    int64_t first = 0, last = ota_int_min(r->keys, key_count);
    for (int k = 0; k < r->support_count; k++) {
        const ota_support_row *row = ota_support_of(r->supports[k].kind);
        if (row->range != NULL) row->range(r, &r->supports[k], batch, query, &first, &last);
    }
    *begin = first;
    *end = ota_int_max(first, last);
    if (*end <= *begin) *begin = *end = 0;
}

bool ota_pair_allowed(const ota_resolved *r, int64_t batch, int64_t head, int64_t query,
                      int64_t key) {
    int64_t begin, end;
    ota_row_range(r, batch, query, r->keys, &begin, &end);
    if (key < begin || key >= end) return false;
    for (int k = 0; k < r->support_count; k++) {
        const ota_support_row *row = ota_support_of(r->supports[k].kind);
        if (row->allows != NULL && !row->allows(r, &r->supports[k], batch, head, query, key))
            return false;
    }
    return true;
}

/* And the keys of the room that the block has none for are forbidden. */
void ota_key_block_supports(const ota_key_block *block, ota_resolved *to) {
    for (int k = 0; k < to->support_count; k++) {
        const ota_support_row *row = ota_support_of(to->supports[k].kind);
        if (row->cut != NULL) row->cut(block, &to->supports[k], &block->lengths[k]);
    }
    int64_t *count = &block->lengths[to->support_count];
    *count = block->count;
    to->supports[to->support_count++] = (ota_support){
        .kind = OTA_SUPPORT_LENGTHS, .array = ota_array_of(count, OTA_I64, 1, 1, 1, 1)};
    to->problem.support_count = to->support_count;
}
