/* Memory and strided arrays of the cases; numbers of 16 bits are converted here, rounding to the nearest even,
 * because the library has no public call for it. */
#include "arrays.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- numbers of 16 bits ---------------------------------------------------------------------------- */

static double power_of_two(int exponent) {
    double power = 1.0;
    for (; exponent > 0; exponent--) power *= 2.0;
    for (; exponent < 0; exponent++) power *= 0.5;
    return power;
}

/* The nearest number with `digits` binary digits after the first and exponents from `low` to `high`. */
static uint16_t narrow(double value, int digits, int low, int high) {
    uint64_t word;
    memcpy(&word, &value, sizeof word);
    const unsigned sign = (unsigned)(word >> 63) << 15;
    const unsigned bias = (unsigned)(1 - low);
    const unsigned infinite = (bias + (unsigned)high + 1) << digits;
    if (value != value) return (uint16_t)(infinite | 1u << (digits - 1));
    const double size = value < 0.0 ? -value : value;
    if (size > 1e300) return (uint16_t)(sign | infinite);
    if (!(size > 0.0)) return (uint16_t)sign;
    int exponent = (int)(word >> 52 & 0x7ffu) - 1023;
    if (exponent < low) exponent = low;
    const double steps = size * power_of_two(digits - exponent);
    uint64_t whole = (uint64_t)steps;
    const double rest = steps - (double)whole;
    if (rest > 0.5 || (rest >= 0.5 && whole % 2 == 1)) whole++;
    /* A carry out of the digits raises the exponent by itself. */
    const uint64_t above = (uint64_t)(exponent - low) << digits;
    const uint64_t bits = above + whole;
    return (uint16_t)(sign | (bits < infinite ? (unsigned)bits : infinite));
}

static double widen(uint16_t bits, int digits, int low, int high) {
    const int exponent = (bits & 0x7fff) >> digits;
    const int fraction = bits & ((1 << digits) - 1);
    const int top = high - low + 2;
    double value = 0.0;
    if (exponent == top) {
        const uint64_t word = fraction != 0 ? 0x7ff8000000000000u : 0x7ff0000000000000u;
        memcpy(&value, &word, sizeof value);
    } else if (exponent == 0) {
        value = fraction * power_of_two(low - digits);
    } else {
        value = (fraction + (1 << digits)) * power_of_two(exponent - 1 + low - digits);
    }
    return bits >> 15 != 0 ? -value : value;
}

enum { BF16_DIGITS = 7, BF16_LOW = -126, BF16_HIGH = 127 };
enum { F16_DIGITS = 10, F16_LOW = -14, F16_HIGH = 15 };

/* ---- elements -------------------------------------------------------------------------------------- */

void *dump_place(const ota_array *a, const int64_t at[4]) {
    int64_t element = 0;
    for (int k = 0; k < 4; k++) element += at[k] * a->stride[k];
    return (char *)a->data + element * (int64_t)ota_type_bytes(a->type);
}

double dump_get(const ota_array *a, const int64_t at[4]) {
    const void *place = dump_place(a, at);
    double value = 0.0;
    float single;
    uint16_t half;
    int64_t whole;
    switch (a->type) {
    case OTA_F64: memcpy(&value, place, sizeof value); return value;
    case OTA_F32: memcpy(&single, place, sizeof single); return (double)single;
    case OTA_BF16:
        memcpy(&half, place, sizeof half);
        return widen(half, BF16_DIGITS, BF16_LOW, BF16_HIGH);
    case OTA_F16:
        memcpy(&half, place, sizeof half);
        return widen(half, F16_DIGITS, F16_LOW, F16_HIGH);
    case OTA_I64: memcpy(&whole, place, sizeof whole); return (double)whole;
    case OTA_BOOL: return *(const unsigned char *)place != 0 ? 1.0 : 0.0;
    case OTA_NO_TYPE:
    default: return value;
    }
}

void dump_set(const ota_array *a, const int64_t at[4], double value) {
    void *place = dump_place(a, at);
    float single;
    uint16_t half;
    int64_t whole;
    switch (a->type) {
    case OTA_F64: memcpy(place, &value, sizeof value); break;
    case OTA_F32:
        single = (float)value;
        memcpy(place, &single, sizeof single);
        break;
    case OTA_BF16:
        half = narrow(value, BF16_DIGITS, BF16_LOW, BF16_HIGH);
        memcpy(place, &half, sizeof half);
        break;
    case OTA_F16:
        half = narrow(value, F16_DIGITS, F16_LOW, F16_HIGH);
        memcpy(place, &half, sizeof half);
        break;
    case OTA_I64:
        whole = (int64_t)value;
        memcpy(place, &whole, sizeof whole);
        break;
    case OTA_BOOL: *(unsigned char *)place = value > 0.0 ? 1 : 0; break;
    case OTA_NO_TYPE:
    default: break;
    }
}

bool dump_empty(const ota_array *a) {
    return a->type == OTA_NO_TYPE || a->size[0] == 0 || a->size[1] == 0 || a->size[2] == 0 ||
           a->size[3] == 0;
}

bool dump_next(const ota_array *a, int64_t at[4]) {
    for (int k = 3; k >= 0; k--) {
        if (++at[k] < a->size[k]) return true;
        at[k] = 0;
    }
    return false;
}

void dump_same_nan(const ota_array *a) {
    if (dump_empty(a)) return;
    int64_t at[4] = {0};
    do {
        const double value = dump_get(a, at);
        const uint64_t word = 0x7ff8000000000000u;
        double same;
        memcpy(&same, &word, sizeof same);
        if (value != value) dump_set(a, at, same);
    } while (dump_next(a, at));
}

/* ---- arrays ---------------------------------------------------------------------------------------- */

dump_block dump_lend(dump_memory *memory, size_t bytes, size_t shift) {
    const size_t boundary = 64, start = (memory->used + boundary - 1) / boundary * boundary + shift;
    if (start + bytes > memory->size) {
        (void)fprintf(stderr, "dump: a case wants more than %zu bytes\n", memory->size);
        exit(2);
    }
    memory->used = start + bytes;
    memset(memory->base + start, 0xff, bytes);
    return (dump_block){memory->base + start, bytes};
}

ota_array dump_array(dump_memory *memory, dice *dice, const dump_shape *shape, layout layout,
                     dump_block *out) {
    ota_array a = ota_array_of(NULL, shape->type, shape->size[0], shape->size[1], shape->size[2],
                               shape->size[3]);
    const size_t bytes = ota_type_bytes(shape->type);
    const size_t shift = chance(dice, 0.2) ? bytes : 0;
    int64_t first;
    const int64_t reach = lay_out(&a, layout, &first);
    dump_block block = {NULL, 0};
    if (reach > 0) {
        block = dump_lend(memory, (size_t)reach * bytes, shift);
        a.data = block.start + (size_t)first * bytes;
    }
    if (out != NULL) *out = block;
    return a;
}

void dump_fill(const ota_array *a, dice *dice, rule rule, double parameter) {
    if (dump_empty(a)) return;
    int64_t at[4] = {0};
    do {
        dump_set(a, at, draw_number(dice, a->type, rule, parameter));
    } while (dump_next(a, at));
}
