/* Element types of arrays: their names, one element as a double, and conversion of whole arrays.
 * Rounding is to nearest, ties to even, once: a double goes to f16 or bf16 without a stop at f32. */
#include <math.h>
#include <string.h>

#include "program/program.h"
#include "src/base/half.h"

typedef struct type_row {
    ota_type type;
    const char *name;
} type_row;

static const type_row rows[] = {{OTA_F64, "f64"}, {OTA_F32, "f32"},   {OTA_BF16, "bf16"},
                                {OTA_F16, "f16"}, {OTA_BOOL, "bool"}, {OTA_I64, "int64"}};

const char *cli_type_name(ota_type type) {
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        if (rows[k].type == type) return rows[k].name;
    }
    return "?";
}

ota_type cli_type_of(const char *name) {
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        if (strcmp(rows[k].name, name) == 0) return rows[k].type;
    }
    return OTA_NO_TYPE;
}

/* A 16-bit format: bits of the stored fraction, and the exponent of its smallest normal number. */
typedef struct half_form {
    int fraction;
    int least;
} half_form;

static const half_form bf16_form = {7, -126};
static const half_form f16_form = {10, -14};

static uint16_t encode_half(double value, const half_form *form) {
    const int exponent_bits = 15 - form->fraction;
    const unsigned infinity = ((1U << exponent_bits) - 1U) << form->fraction;
    const unsigned sign = signbit(value) ? 0x8000U : 0U;
    if (isnan(value)) return (uint16_t)(sign | infinity | 1U << (form->fraction - 1));
    if (isinf(value)) return (uint16_t)(sign | infinity);
    /* Zero has no exponent that frexp could tell. */
    if (value == 0) return (uint16_t)sign;
    int exponent;
    (void)frexp(value, &exponent);
    exponent = exponent - 1 < form->least ? form->least : exponent - 1;
    /* The value in units of its last place, rounded; a carry moves into the exponent by itself. */
    const double units = nearbyint(ldexp(fabs(value), form->fraction - exponent));
    const double biased = ldexp((double)(exponent - form->least), form->fraction) + units;
    return (uint16_t)(sign | (biased >= (double)infinity ? infinity : (unsigned)biased));
}

double cli_element(const void *data, ota_type type, size_t index) {
    switch (type) {
    case OTA_F64: return ((const double *)data)[index];
    case OTA_F32: return (double)((const float *)data)[index];
    case OTA_BF16: return (double)ota_f32_from_bf16(((const uint16_t *)data)[index]);
    case OTA_F16: return (double)ota_f32_from_f16(((const uint16_t *)data)[index]);
    case OTA_BOOL: return ((const unsigned char *)data)[index] != 0 ? 1.0 : 0.0;
    case OTA_I64: return (double)((const int64_t *)data)[index];
    case OTA_NO_TYPE: break;
    }
    return (double)NAN;
}

void cli_convert(const void *from, ota_type from_type, void *to, ota_type to_type, size_t count) {
    if (from_type == to_type) {
        if (count > 0) memcpy(to, from, count * ota_type_bytes(to_type));
        return;
    }
    for (size_t k = 0; k < count; k++) {
        const double value = cli_element(from, from_type, k);
        switch (to_type) {
        case OTA_F64: ((double *)to)[k] = value; break;
        case OTA_F32: ((float *)to)[k] = (float)value; break;
        case OTA_BF16: ((uint16_t *)to)[k] = encode_half(value, &bf16_form); break;
        case OTA_F16: ((uint16_t *)to)[k] = encode_half(value, &f16_form); break;
        case OTA_BOOL: ((unsigned char *)to)[k] = value > 0.0 || value < 0.0 ? 1U : 0U; break;
        case OTA_I64: ((int64_t *)to)[k] = (int64_t)value; break;
        case OTA_NO_TYPE: break;
        }
    }
}

int cli_convert_array(const cli_array *array, void *to, ota_type type, cli_error *error) {
    const size_t most = 1 << 20, before = ota_type_bytes(array->type), after = ota_type_bytes(type);
    int code = 0;
    for (size_t done = 0; code == 0 && done < array->count; done += most) {
        const size_t part = array->count - done < most ? array->count - done : most;
        cli_convert((const char *)array->data + done * before, array->type,
                    (char *)to + done * after, type, part);
        code = cli_look(error);
    }
    return code;
}
