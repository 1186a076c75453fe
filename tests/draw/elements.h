/* elements.h: reads and writes elements of strided arrays of every type; numbers of 16 bits are converted here, rounding to the
 * nearest even, because the library has no public call for it. Sees public headers alone. */
#ifndef TESTS_DRAW_ELEMENTS_H
#define TESTS_DRAW_ELEMENTS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "arrays.h"
#include "otattn.h"

/* ---- numbers of 16 bits ---------------------------------------------------------------------------- */

static inline double power_of_two(int exponent) {
    double power = 1.0;
    for (; exponent > 0; exponent--) power *= 2.0;
    for (; exponent < 0; exponent++) power *= 0.5;
    return power;
}

/* The nearest number with `digits` binary digits after the first and exponents from `low` to `high`. */
static inline uint16_t narrow_16(double value, int digits, int low, int high) {
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

static inline double widen_16(uint16_t bits, int digits, int low, int high) {
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

static inline void *element_place(const ota_array *a, const int64_t at[4]) {
    int64_t element = 0;
    for (int k = 0; k < 4; k++) element += at[k] * a->stride[k];
    return (char *)a->data + element * (int64_t)ota_type_bytes(a->type);
}

static inline double element_get(const ota_array *a, const int64_t at[4]) {
    const void *place = element_place(a, at);
    double value = 0.0;
    float single;
    uint16_t half;
    int64_t whole;
    switch (a->type) {
    case OTA_F64: memcpy(&value, place, sizeof value); return value;
    case OTA_F32: memcpy(&single, place, sizeof single); return (double)single;
    case OTA_BF16:
        memcpy(&half, place, sizeof half);
        return widen_16(half, BF16_DIGITS, BF16_LOW, BF16_HIGH);
    case OTA_F16:
        memcpy(&half, place, sizeof half);
        return widen_16(half, F16_DIGITS, F16_LOW, F16_HIGH);
    case OTA_I64: memcpy(&whole, place, sizeof whole); return (double)whole;
    case OTA_BOOL: return *(const unsigned char *)place != 0 ? 1.0 : 0.0;
    case OTA_NO_TYPE:
    default: return value;
    }
}

static inline void element_set(const ota_array *a, const int64_t at[4], double value) {
    void *place = element_place(a, at);
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
        half = narrow_16(value, BF16_DIGITS, BF16_LOW, BF16_HIGH);
        memcpy(place, &half, sizeof half);
        break;
    case OTA_F16:
        half = narrow_16(value, F16_DIGITS, F16_LOW, F16_HIGH);
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

/* The types of numbers in turn, and number k of a dense array of one. */
static inline ota_type number_type(int64_t k) {
    static const ota_type types[] = {OTA_F32, OTA_F64, OTA_F16, OTA_BF16};
    return types[k % 4];
}

static inline double number_get(const void *data, ota_type type, int64_t k) {
    const ota_array all = ota_array_of((void *)(uintptr_t)data, type, 1, 1, 1, k + 1);
    return element_get(&all, (const int64_t[4]){0, 0, 0, k});
}

static inline void number_set(void *data, ota_type type, int64_t k, double value) {
    const ota_array all = ota_array_of(data, type, 1, 1, 1, k + 1);
    element_set(&all, (const int64_t[4]){0, 0, 0, k}, value);
}

static inline bool has_no_elements(const ota_array *a) {
    return a->type == OTA_NO_TYPE || a->size[0] == 0 || a->size[1] == 0 || a->size[2] == 0 ||
           a->size[3] == 0;
}

/* Walks the elements: the next index, false after the last. */
static inline bool next_element(const ota_array *a, int64_t at[4]) {
    for (int k = 3; k >= 0; k--) {
        if (++at[k] < a->size[k]) return true;
        at[k] = 0;
    }
    return false;
}

static inline void fill_elements(const ota_array *a, dice *d, rule how, double parameter) {
    if (has_no_elements(a)) return;
    int64_t at[4] = {0};
    do {
        element_set(a, at, draw_number(d, a->type, how, parameter));
    } while (next_element(a, at));
}

/* Numbers one behind the other. */
static inline void fill_numbers(double *to, int64_t count, dice *d, rule how, double parameter) {
    for (int64_t k = 0; k < count; k++) to[k] = draw_number(d, OTA_F64, how, parameter);
}

/* Numbers that f32 holds, in both types. */
static inline void fill_both(double *wide, float *narrow, int64_t count, dice *d, rule how,
                             double parameter) {
    for (int64_t k = 0; k < count; k++)
        wide[k] = narrow[k] = (float)draw_number(d, OTA_F64, how, parameter);
}

#endif
