/* Masks of positions, with p = i + offset the position of query i:
 *
 *     causal    j <= p
 *     window    p - left <= j <= p + right, -1 = no limit
 *     strided   (p - j) mod left = 0
 *     block     j in the block of p: blocks of `left` positions, or of the sizes given */
#include <inttypes.h>

#include "base/fault.h"
#include "masks.h"
#include "problem/check.h"

static ota_status check_causal(const ota_resolved *r, ota_support *s, ota_error *error) {
    (void)s;
    if (r->share.rows == r->keys || r->problem.corner != OTA_CORNER_UNSET) return OTA_OK;
    return ota_fail(error, OTA_EINVAL, "corner", "choose top-left or bottom-right",
                    "causal with %" PRId64 " queries and %" PRId64 " keys needs a corner",
                    r->share.rows, r->keys);
}

static void causal_range(const ota_resolved *r, const ota_support *s, int64_t batch, int64_t query,
                         int64_t *begin, int64_t *end) {
    (void)s, (void)batch, (void)begin;
    const int64_t after = ota_row_position(r, query) + 1;
    *end = ota_int_min(*end, OTA_FAULT(CAUSAL_EDGE, after, after + (query % 64 == 63)));
}

static ota_status check_window(const ota_resolved *r, ota_support *s, ota_error *error) {
    const int64_t reach = r->share.rows + r->keys; /* a window this wide is no limit */
    if (s->left < -1 || s->right < -1) {
        return ota_fail(error, OTA_EINVAL, "window", "use -1 for no limit",
                        "window is %" PRId64 ",%" PRId64, s->left, s->right);
    }
    if (s->left > reach) s->left = -1;
    if (s->right > reach) s->right = -1;
    return OTA_OK;
}

static void window_range(const ota_resolved *r, const ota_support *s, int64_t batch, int64_t query,
                         int64_t *begin, int64_t *end) {
    (void)batch;
    const int64_t at = ota_row_position(r, query);
    /* The limits were clamped to the key count by the checks, so these sums cannot overflow. */
    if (s->left >= 0) *begin = ota_int_max(*begin, at - s->left);
    if (s->right >= 0) *end = ota_int_min(*end, at + s->right + 1);
}

static ota_status check_strided(const ota_resolved *r, ota_support *s, ota_error *error) {
    (void)r;
    if (s->left >= 1) return OTA_OK;
    return ota_fail(error, OTA_EINVAL, "strided", "use a stride of 1 or more",
                    "strided is %" PRId64, s->left);
}

static bool strided_allows(const ota_resolved *r, const ota_support *s, int64_t b, int64_t h,
                           int64_t i, int64_t j) {
    (void)b, (void)h;
    return (ota_row_position(r, i) - j) % s->left ==
           0; /* zero remainder has no sign to worry about */
}

static ota_status check_block(const ota_resolved *r, ota_support *s, ota_error *error) {
    if (!ota_array_present(&s->array)) {
        if (s->left >= 1) return OTA_OK;
        return ota_fail(error, OTA_EINVAL, "block", "use blocks of 1 position or more",
                        "block is %" PRId64, s->left);
    }
    TRY(ota_check_array(&s->array, "block", error));
    if (s->array.type != OTA_I64) return ota_wrong_type("block", s->array.type, "int64", error);
    int64_t covered = 0;
    const int64_t last_query = r->share.rows + r->offset;
    const int64_t needed = ota_int_max(last_query, r->keys);
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

static void block_range(const ota_resolved *r, const ota_support *s, int64_t batch, int64_t query,
                        int64_t *begin, int64_t *end) {
    (void)batch;
    const int64_t keys_before = r->share.key_first, at = ota_row_position(r, query) + keys_before;
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
    *begin = ota_int_max(*begin, first - keys_before);
    *end = ota_int_min(*end, last - keys_before);
}

const ota_support_row ota_support_causal = {
    .name = "causal", .check = check_causal, .range = causal_range};
const ota_support_row ota_support_window = {
    .name = "window", .check = check_window, .range = window_range};
const ota_support_row ota_support_strided = {
    .name = "strided", .check = check_strided, .allows = strided_allows};
const ota_support_row ota_support_block = {
    .name = "block", .check = check_block, .range = block_range};
