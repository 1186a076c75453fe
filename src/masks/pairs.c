/* Masks with an array of pairs [batch|1, heads|1, queries|1, keys|1]: boolean, where > 0 allows, and additive, which is
 * added to S and forbids where it is -inf or near the end of its type (ota_forbidding_addend). */
#include "masks.h"
#include "problem/check.h"

static ota_status check_pairs(const ota_resolved *r, const ota_support *s, ota_error *error) {
    const int64_t full[4] = {r->batch, r->heads, r->queries, r->keys};
    return ota_check_shape(&s->array, "mask", full, true, error);
}

static ota_status check_boolean(const ota_resolved *r, ota_support *s, ota_error *error) {
    TRY(ota_check_array(&s->array, "mask", error));
    if (s->array.type != OTA_BOOL) return ota_wrong_type("mask", s->array.type, "bool", error);
    return check_pairs(r, s, error);
}

static ota_status check_additive(const ota_resolved *r, ota_support *s, ota_error *error) {
    TRY(ota_check_array(&s->array, "mask", error));
    if (!ota_is_float(s->array.type))
        return ota_wrong_type("mask", s->array.type, "f64, f32, bf16 or f16", error);
    return check_pairs(r, s, error);
}

static bool boolean_allows(const ota_resolved *r, const ota_support *s, int64_t b, int64_t h,
                           int64_t i, int64_t j) {
    (void)r;
    return ota_array_get(&s->array, b, h, i, j) > 0.0;
}

static bool additive_allows(const ota_resolved *r, const ota_support *s, int64_t b, int64_t h,
                            int64_t i, int64_t j) {
    (void)r;
    return !(ota_array_get(&s->array, b, h, i, j) <= ota_forbidding_addend(s->array.type));
}

static void cut(const ota_key_block *block, ota_support *s, int64_t *length) {
    (void)length;
    s->array = ota_key_block_pairs(block, &s->array);
}

const ota_support_row ota_support_boolean = {.name = "boolean",
                                             .form = OTA_FORM_FLAGS,
                                             .check = check_boolean,
                                             .allows = boolean_allows,
                                             .cut = cut};
const ota_support_row ota_support_additive = {.name = "additive",
                                              .form = OTA_FORM_ADDENDS,
                                              .check = check_additive,
                                              .allows = additive_allows,
                                              .cut = cut};
