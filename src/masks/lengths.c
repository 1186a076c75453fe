/* Lengths: of batch b keys 0 ... length_b - 1 take part. */
#include <inttypes.h>

#include "masks.h"
#include "problem/check.h"

static ota_status check(const ota_resolved *r, ota_support *s, ota_error *error) {
    const int64_t want[4] = {1, 1, 1, r->batch};
    TRY(ota_check_array(&s->array, "lengths", error));
    if (s->array.type != OTA_I64) return ota_wrong_type("lengths", s->array.type, "int64", error);
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

static void range(const ota_resolved *r, const ota_support *s, int64_t batch, int64_t query,
                  int64_t *begin, int64_t *end) {
    (void)r, (void)query, (void)begin;
    *end = ota_int_min(*end, ota_array_get_integer(&s->array, 0, 0, 0, batch));
}

static void cut(const ota_key_block *block, ota_support *s, int64_t *length) {
    const int64_t of_all = ota_array_get_integer(&s->array, 0, 0, 0, block->batch);
    *length = ota_int_max(0, ota_int_min(of_all - block->first, block->count));
    s->array = ota_array_of(length, OTA_I64, 1, 1, 1, 1);
}

const ota_support_row ota_support_lengths = {
    .name = "lengths", .check = check, .range = range, .cut = cut};
