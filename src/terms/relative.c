/* A relative bias b [heads|1][queries + keys - 1]: b_(i - j + keys - 1) is added to S, or to Q K^T before the scale. */
#include <inttypes.h>

#include "problem/check.h"
#include "terms.h"

static ota_status check(const ota_resolved *r, const ota_term *term, ota_error *error) {
    const int64_t line[4] = {1, r->heads, 1, r->share.rows + r->keys - 1};
    const int64_t shared_line[4] = {1, 1, 1, r->share.rows + r->keys - 1};
    TRY(ota_check_array(&term->array, "relative_bias", error));
    if (!ota_is_float(term->array.type)) {
        return ota_wrong_type("relative_bias", term->array.type, "f64, f32, bf16 or f16", error);
    }
    if (r->queries == 0 || r->keys == 0) return OTA_OK;
    if (term->array.size[3] != line[3]) {
        return ota_fail(error, OTA_EINVAL, "relative_bias", "give one entry per difference i - j",
                        "relative_bias has %" PRId64 " entries where queries + keys - 1 = %" PRId64
                        " are needed",
                        term->array.size[3], line[3]);
    }
    return ota_check_shape(&term->array, "relative_bias",
                           term->array.size[1] == 1 ? shared_line : line, false, error);
}

/* Number i - j + keys - 1 of the block's own j and room is that of the whole problem less this. */
static void cut(const ota_key_block *block, ota_term *term) {
    ota_array *a = &term->array;
    const int64_t before = block->whole_keys - block->first - block->room;
    const int64_t head = a->size[1] == 1 ? 0 : block->head;
    a->data = (char *)a->data +
              (before * a->stride[3] + head * a->stride[1]) * (int64_t)ota_type_bytes(a->type);
    if (a->size[1] > 1) a->size[1] = block->heads;
    a->size[3] += block->room - block->whole_keys;
}

const ota_term_row ota_term_relative = {.name = "relative_bias",
                                        .form = OTA_FORM_ADDS_DIFFERENCES,
                                        .rank = 3,
                                        .of_shape = true,
                                        .check = check,
                                        .cut = cut};
const ota_term_row ota_term_relative_inside = {.name = "relative_bias",
                                               .form = OTA_FORM_ADDS_DIFFERENCES,
                                               .rank = 0,
                                               .inside = true,
                                               .of_shape = true,
                                               .check = check,
                                               .cut = cut};
