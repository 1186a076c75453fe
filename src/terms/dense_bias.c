/* A bias [batch|1, heads|1, queries|1, keys|1], added to S. */
#include "problem/check.h"
#include "terms.h"

static ota_status check(const ota_resolved *r, const ota_term *term, ota_error *error) {
    const int64_t full[4] = {r->batch, r->heads, r->queries, r->keys};
    TRY(ota_check_array(&term->array, "bias", error));
    if (!ota_is_float(term->array.type))
        return ota_wrong_type("bias", term->array.type, "f64, f32, bf16 or f16", error);
    return ota_check_shape(&term->array, "bias", full, true, error);
}

static void cut(const ota_key_block *block, ota_term *term) {
    term->array = ota_key_block_pairs(block, &term->array);
}

const ota_term_row ota_term_dense = {.name = "bias",
                                     .form = OTA_FORM_ADDS_PAIRS,
                                     .rank = 4,
                                     .repeats = true,
                                     .check = check,
                                     .cut = cut};
