/* Softcaps: S = value tanh(S / value). The arithmetic is in backend/cpu/kernels/terms.inc.h. */
#include <float.h>

#include "problem/check.h"
#include "terms.h"

static ota_status check(const ota_resolved *r, const ota_term *term, ota_error *error) {
    (void)r;
    return ota_check_number(term->value, "softcap", 0.0, true, DBL_MAX, false, error);
}

const ota_term_row ota_term_softcap = {
    .name = "softcap", .form = OTA_FORM_SOFTCAP, .rank = 1, .check = check};
