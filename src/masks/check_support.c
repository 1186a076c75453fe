/* The door for what is added to the scores (terms, in the order in which they apply) and for which pairs
 * take part (supports). */
#include <float.h>
#include <inttypes.h>

#include "base/base.h"
#include "problem/check.h"

static ota_status resolve_term(ota_resolved *r, const ota_term *term, ota_error *error) {
    const int64_t heads[4] = {1, 1, 1, r->heads};
    const int64_t full[4] = {r->batch, r->heads, r->queries, r->keys};
    const int64_t line[4] = {1, r->heads, 1, r->queries + r->keys - 1};
    const int64_t shared_line[4] = {1, 1, 1, r->queries + r->keys - 1};
    switch (term->kind) {
    case OTA_TERM_DENSE:
        TRY(ota_check_array(&term->array, "bias", error));
        if (!ota_is_float(term->array.type))
            return ota_wrong_type("bias", term->array.type, "f64, f32, bf16 or f16", error);
        return ota_check_shape(&term->array, "bias", full, true, error);
    case OTA_TERM_ALIBI:
        if (ota_array_present(&term->array)) {
            return ota_check_vector(&term->array, "alibi", heads, false, -DBL_MAX, false, DBL_MAX,
                                    error);
        }
        return ota_check_number(term->value, "alibi", -DBL_MAX, false, DBL_MAX, false, error);
    case OTA_TERM_RELATIVE:
    case OTA_TERM_RELATIVE_INSIDE:
        TRY(ota_check_array(&term->array, "relative_bias", error));
        if (!ota_is_float(term->array.type)) {
            return ota_wrong_type("relative_bias", term->array.type, "f64, f32, bf16 or f16",
                                  error);
        }
        if (r->queries == 0 || r->keys == 0) return OTA_OK;
        if (term->array.size[3] != line[3]) {
            return ota_fail(error, OTA_EINVAL, "relative_bias",
                            "give one entry per difference i - j",
                            "relative_bias has %" PRId64
                            " entries where queries + keys - 1 = %" PRId64 " are needed",
                            term->array.size[3], line[3]);
        }
        return ota_check_shape(&term->array, "relative_bias",
                               term->array.size[1] == 1 ? shared_line : line, false, error);
    case OTA_TERM_SOFTCAP:
        return ota_check_number(term->value, "softcap", 0.0, true, DBL_MAX, false, error);
    case OTA_TERM_SINK:
        if (ota_array_present(&term->array)) {
            return ota_check_vector(&term->array, "sink", heads, false, -DBL_MAX, false, DBL_MAX,
                                    error);
        }
        return ota_check_number(term->value, "sink", -DBL_MAX, false, DBL_MAX, false, error);
    default:
        return ota_fail(error, OTA_EINVAL, "terms", "use one of the OTA_TERM_ kinds",
                        "a term has the unknown kind %d", (int)term->kind);
    }
}

/* Place in the order of application; also which kinds may come once only. */
static int term_rank(ota_term_kind kind) {
    static const int rank[] = {
        [OTA_TERM_RELATIVE_INSIDE] = 0, [OTA_TERM_SOFTCAP] = 1, [OTA_TERM_ALIBI] = 2,
        [OTA_TERM_RELATIVE] = 3,        [OTA_TERM_DENSE] = 4,   [OTA_TERM_SINK] = 5};
    return rank[kind];
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
        TRY(resolve_term(r, term, error));
        for (int64_t other = 0; other < k; other++) {
            if (p->terms[other].kind == term->kind && term->kind != OTA_TERM_DENSE) {
                return ota_fail(error, OTA_EINVAL, "terms", "merge them",
                                "two terms have the kind %d", (int)term->kind);
            }
        }
        if (term->kind == OTA_TERM_SINK) {
            r->has_sink = true;
            r->sink = *term;
            r->sink_place = (int)k;
            continue;
        }
        int at = r->term_count++;
        for (; at > 0 && term_rank(r->terms[at - 1].kind) > term_rank(term->kind); at--) {
            r->terms[at] = r->terms[at - 1];
            r->term_places[at] = r->term_places[at - 1];
        }
        r->terms[at] = *term;
        r->term_places[at] = (int)k;
        r->row_terms = true;
    }
    return OTA_OK;
}

static ota_status resolve_blocks(ota_resolved *r, const ota_support *s, ota_error *error) {
    if (!ota_array_present(&s->array)) {
        if (s->left >= 1) return OTA_OK;
        return ota_fail(error, OTA_EINVAL, "block", "use blocks of 1 position or more",
                        "block is %" PRId64, s->left);
    }
    TRY(ota_check_array(&s->array, "block", error));
    if (s->array.type != OTA_I64) return ota_wrong_type("block", s->array.type, "int64", error);
    int64_t covered = 0;
    const int64_t last_query = r->queries + r->offset;
    const int64_t needed = last_query > r->keys ? last_query : r->keys;
    for (int64_t k = 0; k < s->array.size[3]; k++) {
        const int64_t size = ota_array_get_integer(&s->array, 0, 0, 0, k);
        if (size < 0 || __builtin_add_overflow(covered, size, &covered)) {
            return ota_fail(error, OTA_EINVAL, "block", "block sizes are 0 or more",
                            "block[%" PRId64 "] is %" PRId64, k, size);
        }
    }
    if (covered >= needed) return OTA_OK;
    return ota_fail(error, OTA_EINVAL, "block", "let the sizes add up to the number of positions",
                    "block sizes add up to %" PRId64 " but there are %" PRId64 " positions",
                    covered, needed);
}

static ota_status resolve_support(ota_resolved *r, ota_support *s, ota_error *error) {
    const int64_t full[4] = {r->batch, r->heads, r->queries, r->keys};
    const int64_t reach = r->queries + r->keys; /* a window this wide is no limit */
    switch (s->kind) {
    case OTA_SUPPORT_CAUSAL:
        if (r->queries == r->keys || r->problem.corner != OTA_CORNER_UNSET) return OTA_OK;
        return ota_fail(error, OTA_EINVAL, "corner", "choose top-left or bottom-right",
                        "causal with %" PRId64 " queries and %" PRId64 " keys needs a corner",
                        r->queries, r->keys);
    case OTA_SUPPORT_WINDOW:
        if (s->left < -1 || s->right < -1) {
            return ota_fail(error, OTA_EINVAL, "window", "use -1 for no limit",
                            "window is %" PRId64 ",%" PRId64, s->left, s->right);
        }
        if (s->left > reach) s->left = -1;
        if (s->right > reach) s->right = -1;
        return OTA_OK;
    case OTA_SUPPORT_STRIDED:
        if (s->left >= 1) return OTA_OK;
        return ota_fail(error, OTA_EINVAL, "strided", "use a stride of 1 or more",
                        "strided is %" PRId64, s->left);
    case OTA_SUPPORT_BLOCK: return resolve_blocks(r, s, error);
    case OTA_SUPPORT_LENGTHS: {
        const int64_t want[4] = {1, 1, 1, r->batch};
        TRY(ota_check_array(&s->array, "lengths", error));
        if (s->array.type != OTA_I64)
            return ota_wrong_type("lengths", s->array.type, "int64", error);
        TRY(ota_check_shape(&s->array, "lengths", want, false, error));
        for (int64_t b = 0; b < r->batch; b++) {
            const int64_t length = ota_array_get_integer(&s->array, 0, 0, 0, b);
            if (length >= 0 && length <= r->keys) continue;
            return ota_fail(
                error, OTA_EINVAL, "lengths", "lengths lie between 0 and the number of keys",
                "lengths[%" PRId64 "] is %" PRId64 " with %" PRId64 " keys", b, length, r->keys);
        }
        return OTA_OK;
    }
    case OTA_SUPPORT_BOOLEAN:
        TRY(ota_check_array(&s->array, "mask", error));
        if (s->array.type != OTA_BOOL) return ota_wrong_type("mask", s->array.type, "bool", error);
        return ota_check_shape(&s->array, "mask", full, true, error);
    case OTA_SUPPORT_ADDITIVE:
        TRY(ota_check_array(&s->array, "mask", error));
        if (!ota_is_float(s->array.type))
            return ota_wrong_type("mask", s->array.type, "f64, f32, bf16 or f16", error);
        return ota_check_shape(&s->array, "mask", full, true, error);
    default:
        return ota_fail(error, OTA_EINVAL, "supports", "use one of the OTA_SUPPORT_ kinds",
                        "a support has the unknown kind %d", (int)s->kind);
    }
}

ota_status ota_resolve_supports(ota_resolved *r, ota_error *error) {
    const ota_problem *p = &r->problem;
    if (p->support_count < 0 || p->support_count > OTA_MAX_SUPPORTS ||
        (p->support_count > 0 && p->supports == NULL)) {
        return ota_fail(error, OTA_EINVAL, "support_count", "give 0 to 16 supports",
                        "support_count is %" PRId64 "%s", p->support_count,
                        p->supports == NULL ? " and supports is NULL" : "");
    }
    if ((int)p->corner < OTA_CORNER_UNSET || p->corner > OTA_BOTTOM_RIGHT) {
        return ota_fail(error, OTA_EINVAL, "corner", "choose top-left or bottom-right",
                        "corner is %d", (int)p->corner);
    }
    r->offset = p->corner == OTA_BOTTOM_RIGHT ? r->keys - r->queries : 0;
    for (int64_t k = 0; k < p->support_count; k++) {
        ota_support support = p->supports[k];
        TRY(resolve_support(r, &support, error));
        r->supports[r->support_count++] = support;
        if (support.kind == OTA_SUPPORT_BOOLEAN || support.kind == OTA_SUPPORT_ADDITIVE ||
            support.kind == OTA_SUPPORT_STRIDED) {
            r->row_terms = true;
        }
    }
    return OTA_OK;
}
