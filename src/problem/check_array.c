/* What every check asks: is this array, this vector, this number one that can be used? */
#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/sized.h"
#include "problem/check.h"

/* Copies the caller's struct over a zeroed one of ours; bytes past ours must be zero. */
ota_status ota_check_sized(void *to, size_t ours, const void *from, size_t theirs,
                           const char *field, ota_error *error) {
    const bool known = ota_sized_read(to, ours, from, theirs);
    if (theirs < sizeof theirs) {
        return ota_fail(error, OTA_EINVAL, field, "set it to sizeof the struct", "%s is %zu", field,
                        theirs);
    }
    if (known) return OTA_OK;
    return ota_fail(error, OTA_UNSUPPORTED, field, "use a library as new as the header",
                    "%s is %zu, newer than this library, and a later field is set", field, theirs);
}

ota_status ota_check_given(void *to, size_t ours, const void *given, const char *field,
                           ota_error *error) {
    size_t theirs = 0;
    if (given != NULL) memcpy(&theirs, given, sizeof theirs);
    if (given == NULL)
        return ota_fail(error, OTA_EINVAL, field, "set it to sizeof the struct", "%.*s is NULL",
                        (int)strcspn(field, "."), field);
    if (theirs == 0)
        return ota_fail(error, OTA_EINVAL, field, "set it to sizeof the struct", "%s is 0", field);
    return ota_check_sized(to, ours, given, theirs, field, error);
}

/* Sizes, strides and alignment of one array of any allowed type. */
ota_status ota_check_array(const ota_array *a, const char *field, ota_error *error) {
    const size_t bytes = ota_type_bytes(a->type);
    if (bytes == 0) {
        return ota_fail(error, OTA_EINVAL, field, "use one of the OTA_ types",
                        "%s has the unknown type %d", field, (int)a->type);
    }
    bool empty = false;
    for (int k = 0; k < 4; k++) {
        if (a->size[k] < 0) {
            return ota_fail(error, OTA_EINVAL, field, "sizes are 0 or more",
                            "%s has size %" PRId64 " in dimension %d", field, a->size[k], k);
        }
        if (a->size[k] == 0) empty = true;
    }
    if (empty) return OTA_OK;
    if (a->data == NULL) {
        return ota_fail(error, OTA_EINVAL, field, "point it at the elements", "%s has no data",
                        field);
    }
    int64_t reach = 0, count = 1;
    for (int k = 0; k < 4; k++) {
        const int64_t stride = a->stride[k];
        int64_t span;
        if (stride == INT64_MIN ||
            __builtin_mul_overflow(a->size[k] - 1, stride < 0 ? -stride : stride, &span) ||
            __builtin_add_overflow(reach, span, &reach) ||
            __builtin_mul_overflow(count, a->size[k], &count)) {
            return ota_fail(error, OTA_EOVERFLOW, field, "use smaller sizes or strides",
                            "%s spans more than 2^63 elements", field);
        }
    }
    if (reach > INT64_MAX / 16 || count > INT64_MAX / 16) {
        return ota_fail(error, OTA_EOVERFLOW, field, "use smaller sizes or strides",
                        "%s spans more than 2^59 elements", field);
    }
    if ((uintptr_t)a->data % bytes != 0) {
        return ota_fail(error, OTA_EALIGN, field, "copy it to aligned memory",
                        "%s is not aligned to %zu bytes", field, bytes);
    }
    return OTA_OK;
}

ota_status ota_wrong_type(const char *field, ota_type type, const char *wanted, ota_error *error) {
    return ota_fail(error, OTA_EINVAL, field, "convert it", "%s has type %d, wanted %s", field,
                    (int)type, wanted);
}

/* Sizes must be `want`; with `broadcasts`, 1 will do in every dimension. */
ota_status ota_check_shape(const ota_array *a, const char *field, const int64_t want[4],
                           bool broadcasts, ota_error *error) {
    for (int k = 0; k < 4; k++) {
        if (a->size[k] == want[k] || (broadcasts && a->size[k] == 1)) continue;
        return ota_fail(error, OTA_EINVAL, field, "make the shapes agree",
                        "%s has shape [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
                        "] where [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "] is needed",
                        field, a->size[0], a->size[1], a->size[2], a->size[3], want[0], want[1],
                        want[2], want[3]);
    }
    return OTA_OK;
}

ota_status ota_check_call_array(const ota_array *a, const ota_call_array *need, ota_error *error) {
    const char *noun = need->noun, *field = need->field;
    const int64_t *want = need->want;
    bool empty = false;
    for (int k = 0; k < 4; k++) {
        if (a->size[k] != want[k] && !(need->one[k] && a->size[k] == 1))
            return ota_fail(error, OTA_EINVAL, field, "make the shapes agree",
                            "%s%s has shape [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
                            "] where [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
                            "] is needed",
                            noun, field, a->size[0], a->size[1], a->size[2], a->size[3], want[0],
                            want[1], want[2], want[3]);
        empty |= a->size[k] == 0;
    }
    if (empty) return OTA_OK;
    if (a->data == NULL)
        return ota_fail(error, OTA_EINVAL, field, "point it at the elements", "%s%s has no data",
                        noun, field);
    const size_t bytes = ota_type_bytes(a->type);
    if ((uintptr_t)a->data % bytes != 0)
        return ota_fail(error, OTA_EALIGN, field, "copy it to aligned memory",
                        "%s%s is not aligned to %zu bytes", noun, field, bytes);
    for (int k = 0; k < 4; k++) {
        int64_t reach;
        if (a->stride[k] == INT64_MIN ||
            __builtin_mul_overflow(a->size[k] - 1, a->stride[k], &reach) ||
            reach > INT64_MAX / 64 || reach < -(INT64_MAX / 64))
            return ota_fail(error, OTA_EOVERFLOW, field, "use smaller strides",
                            "%s%s spans more than 2^57 elements", noun, field);
    }
    return OTA_OK;
}

/* What a number must be, in words. */
typedef struct range_words {
    char text[80];
} range_words;

static range_words words_of(double low, bool open_low, double high, bool open_high) {
    const char *above = open_low ? "<" : "<=", *below = open_high ? "<" : "<=";
    range_words w = {"a finite number or -inf"};
    if (high < 1.0e308)
        (void)ota_snprintf(w.text, sizeof w.text, "%g %s it %s %g", low, above, below, high);
    else if (low > -DBL_MAX)
        (void)ota_snprintf(w.text, sizeof w.text, "a finite number %s %g",
                           open_low ? ">" : ">=", low);
    else if (low > -INFINITY)
        (void)ota_snprintf(w.text, sizeof w.text, "a finite number");
    return w;
}

/* Entries from `low`, above it where `positive`, to `high`. */
static ota_status check_entries(const ota_array *a, const char *field, double low, bool positive,
                                double high, ota_error *error) {
    for (int64_t b = 0; b < a->size[0]; b++) {
        for (int64_t h = 0; h < a->size[1]; h++) {
            for (int64_t k = 0; k < a->size[3] && a->size[2] > 0; k++) {
                const double value = ota_array_get(a, b, h, 0, k);
                if (value >= low && value <= high && !(positive && value <= low)) continue;
                return ota_fail(error, OTA_EINVAL, field, "correct the entry",
                                "%s[%" PRId64 "] is %g, wanted %s", field, k, value,
                                words_of(low, positive, high, false).text);
            }
        }
    }
    return OTA_OK;
}

ota_status ota_check_vector(const ota_array *a, const char *field, const int64_t want[4],
                            bool broadcasts, double low, bool positive, double high,
                            ota_error *error) {
    TRY(ota_check_array(a, field, error));
    if (!ota_is_wide(a->type)) return ota_wrong_type(field, a->type, "f64 or f32", error);
    TRY(ota_check_shape(a, field, want, broadcasts, error));
    return check_entries(a, field, low, positive, high, error);
}

ota_status ota_check_masses(const ota_array *a, const char *field, const int64_t want[4],
                            ota_error *error) {
    TRY(ota_check_array(a, field, error));
    if (!ota_is_float(a->type))
        return ota_wrong_type(field, a->type, "f64, f32, bf16 or f16", error);
    TRY(ota_check_shape(a, field, want, true, error));
    return check_entries(a, field, 0.0, false, DBL_MAX, error);
}

ota_status ota_check_number(double value, const char *field, double low, bool open_low, double high,
                            bool open_high, ota_error *error) {
    const bool inside =
        (open_low ? value > low : value >= low) && (open_high ? value < high : value <= high);
    if (inside) return OTA_OK;
    return ota_fail(error, OTA_EINVAL, field, "choose a value in range", "%s is %g, wanted %s",
                    field, value, words_of(low, open_low, high, open_high).text);
}
