/* Small public helpers that belong to no problem: rotary positions and ALiBi slopes. */
#include <inttypes.h>
#include <math.h>

#include "problem/check.h"
#include "problem/problem.h"

void ota_alibi_slopes(int64_t heads, double *slopes) {
    for (int64_t h = 0; h < heads; h++) slopes[h] = exp2(-8.0 * (double)(h + 1) / (double)heads);
}

ota_status ota_rope(const ota_array *x, int64_t first, double base, ota_error *error) {
    if (x == NULL || x->type < OTA_F64 || x->type > OTA_F16) {
        return ota_fail(error, OTA_EINVAL, "x", "give a floating-point array", "x is %s",
                        x == NULL ? "NULL" : "not a floating-point array");
    }
    const ota_status sound = ota_check_array(x, "x", error);
    if (sound != OTA_OK) return sound;
    if (ota_array_overlaps_itself(x))
        return ota_fail(error, OTA_EINVAL, "x", "give every element a place of its own",
                        "x holds elements that share a place");
    const int64_t width = x->size[3];
    if (width % 2 != 0) {
        return ota_fail(error, OTA_EINVAL, "x", "rotary positions turn pairs",
                        "x has the odd width %" PRId64, width);
    }
    if (!(base >= 0.0) || base >= INFINITY)
        return ota_fail(error, OTA_EINVAL, "base", "use 0 (10000) or more", "base is %g", base);
    const double root = base > 0.0 ? base : 10000.0;
    for (int64_t pair = 0; pair < width / 2; pair++) {
        const double rate = pow(root, -2.0 * (double)pair / (double)width);
        for (int64_t row = 0; row < x->size[2]; row++) {
            const double angle = (double)(first + row) * rate, c = cos(angle), s = sin(angle);
            for (int64_t b = 0; b < x->size[0]; b++) {
                for (int64_t h = 0; h < x->size[1]; h++) {
                    const double even = ota_array_get(x, b, h, row, 2 * pair),
                                 odd = ota_array_get(x, b, h, row, 2 * pair + 1);
                    ota_array_set(x, b, h, row, 2 * pair, even * c - odd * s);
                    ota_array_set(x, b, h, row, 2 * pair + 1, even * s + odd * c);
                }
            }
        }
    }
    return OTA_OK;
}
