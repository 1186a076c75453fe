/* The table of terms (terms.h) and their validation; ota_resolved holds them in order of application, the sink apart. */
#include "terms.h"

#include <inttypes.h>

#include "problem/check.h"

static const ota_term_row *const table[] = {[OTA_TERM_DENSE] = &ota_term_dense,
                                            [OTA_TERM_ALIBI] = &ota_term_alibi,
                                            [OTA_TERM_RELATIVE] = &ota_term_relative,
                                            [OTA_TERM_RELATIVE_INSIDE] = &ota_term_relative_inside,
                                            [OTA_TERM_SOFTCAP] = &ota_term_softcap,
                                            [OTA_TERM_SINK] = &ota_term_sink};

const ota_term_row *ota_term_of(ota_term_kind kind) {
    return (size_t)kind < sizeof table / sizeof table[0] ? table[kind] : NULL;
}

ota_status ota_resolve_terms(ota_resolved *r, ota_error *error) {
    const ota_problem *p = &r->problem;
    if (p->term_count < 0 || p->term_count > OTA_MAX_TERMS ||
        (p->term_count > 0 && p->terms == NULL)) {
        return ota_fail(error, OTA_EINVAL, "term_count", "give 0 to 16 terms",
                        "term_count is %" PRId64 "%s", p->term_count,
                        p->terms == NULL ? " and terms is NULL" : "");
    }
    for (int64_t k = 0; k < p->term_count; k++) {
        const ota_term *term = &p->terms[k];
        const ota_term_row *row = ota_term_of(term->kind);
        if (row == NULL) {
            return ota_fail(error, OTA_EINVAL, "terms", "use one of the OTA_TERM_ kinds",
                            "a term has the unknown kind %d", (int)term->kind);
        }
        TRY(row->check(r, term, error));
        for (int64_t other = 0; other < k; other++) {
            if (p->terms[other].kind == term->kind && !row->repeats) {
                return ota_fail(error, OTA_EINVAL, "terms", "merge them",
                                "two terms have the kind %d", (int)term->kind);
            }
        }
        if (row->form == OTA_FORM_ADDS_KEY) {
            r->has_sink = true;
            r->sink = *term;
            r->sink_place = (int)k;
            continue;
        }
        if (row->form == OTA_FORM_ADDS_PAIRS) r->adds_pairs = true;
        int at = r->term_count++;
        for (; at > 0 && ota_term_of(r->terms[at - 1].kind)->rank > row->rank; at--) {
            r->terms[at] = r->terms[at - 1];
            r->term_places[at] = r->term_places[at - 1];
        }
        r->terms[at] = *term;
        r->term_places[at] = (int)k;
        r->row_terms = true;
    }
    return OTA_OK;
}

/* And the bias of the block, after all others. */
void ota_key_block_terms(const ota_key_block *block, ota_resolved *to) {
    for (int k = 0; k < to->term_count; k++) {
        const ota_term_row *row = ota_term_of(to->terms[k].kind);
        if (row->cut != NULL) row->cut(block, &to->terms[k]);
    }
    if (!ota_array_present(&block->bias)) return;
    to->terms[to->term_count] = (ota_term){.kind = OTA_TERM_DENSE, .array = block->bias};
    to->term_places[to->term_count++] = 0;
    to->row_terms = true;
}
