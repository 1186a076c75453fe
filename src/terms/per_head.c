/* Terms of one number a head, an array {1, 1, 1, heads} or one value for all: ALiBi, which takes slope |i + offset - j| off,
 * and the sink, one more key of this logit; -inf: a head without one. */
#include <float.h>
#include <math.h>

#include "problem/check.h"
#include "terms.h"

static ota_status check(const ota_resolved *r, const ota_term *term, ota_error *error) {
    const int64_t heads[4] = {1, 1, 1, r->heads};
    const ota_term_row *row = ota_term_of(term->kind);
    /* A sink of -inf is none. */
    const double least = row->form == OTA_FORM_ADDS_KEY ? -INFINITY : -DBL_MAX;
    if (ota_array_present(&term->array))
        return ota_check_vector(&term->array, row->name, heads, false, least, false, DBL_MAX,
                                error);
    return ota_check_number(term->value, row->name, least, false, DBL_MAX, false, error);
}

static void cut(const ota_key_block *block, ota_term *term) {
    term->array = ota_key_block_heads(block, &term->array);
}

const ota_term_row ota_term_alibi = {
    .name = "alibi", .form = OTA_FORM_LINEAR_DISTANCE, .rank = 2, .check = check, .cut = cut};
const ota_term_row ota_term_sink = {
    .name = "sink", .form = OTA_FORM_ADDS_KEY, .rank = 5, .check = check};
