/* Packing and unpacking, compiled for each type. */
#include <string.h>

#include "base/half.h"
#include "base/integers.h"
#include "real.h"

#define ALWAYS_INLINE inline __attribute__((always_inline))

/* ---- numbers, `stride` apart --------------------------------------------------------------------- */

/* One stored number. A new type is a case here, one in put_number, and a line in each table below. */
static ALWAYS_INLINE real get_number(const void *from, ota_type type, int64_t at) {
    switch (type) {
    case OTA_F64: return (real)((const double *)from)[at];
    case OTA_F32: return (real)((const float *)from)[at];
    case OTA_BF16: return (real)ota_f32_from_bf16(((const uint16_t *)from)[at]);
    default: return (real)ota_f32_from_f16(((const uint16_t *)from)[at]);
    }
}

static ALWAYS_INLINE void put_number(void *to, ota_type type, int64_t at, real x) {
    switch (type) {
    case OTA_F64: ((double *)to)[at] = (double)x; break;
    case OTA_F32: ((float *)to)[at] = (float)x; break;
    case OTA_BF16: ((uint16_t *)to)[at] = WORD(ota_bf16_from)(x); break;
    default: ((uint16_t *)to)[at] = WORD(ota_f16_from)(x); break;
    }
}

/* `type` is a constant where these are called: each call is a loop of one conversion, vector code for neighbours. */
static ALWAYS_INLINE void get_numbers(const void *from, ota_type type, int64_t stride,
                                      int64_t count, real *to) {
    if (stride != 1) {
        for (int64_t i = 0; i < count; i++) to[i] = get_number(from, type, i * stride);
    } else if (type == REAL_TYPE) {
        memcpy(to, from, (size_t)count * sizeof *to);
    } else {
        for (int64_t i = 0; i < count; i++) to[i] = get_number(from, type, i);
    }
}

static ALWAYS_INLINE void put_numbers(const real *from, int64_t count, ota_type type,
                                      int64_t stride, void *to) {
    if (stride != 1) {
        for (int64_t i = 0; i < count; i++) put_number(to, type, i * stride, from[i]);
    } else if (type == REAL_TYPE) {
        memcpy(to, from, (size_t)count * sizeof *from);
    } else {
        for (int64_t i = 0; i < count; i++) put_number(to, type, i, from[i]);
    }
}

static void read_f64(const void *from, int64_t stride, int64_t count, real *to) {
    get_numbers(from, OTA_F64, stride, count, to);
}
static void read_f32(const void *from, int64_t stride, int64_t count, real *to) {
    get_numbers(from, OTA_F32, stride, count, to);
}
static void read_bf16(const void *from, int64_t stride, int64_t count, real *to) {
    get_numbers(from, OTA_BF16, stride, count, to);
}
static void read_f16(const void *from, int64_t stride, int64_t count, real *to) {
    get_numbers(from, OTA_F16, stride, count, to);
}

static void write_f64(const real *from, int64_t count, void *to, int64_t stride) {
    put_numbers(from, count, OTA_F64, stride, to);
}
static void write_f32(const real *from, int64_t count, void *to, int64_t stride) {
    put_numbers(from, count, OTA_F32, stride, to);
}
static void write_bf16(const real *from, int64_t count, void *to, int64_t stride) {
    put_numbers(from, count, OTA_BF16, stride, to);
}
static void write_f16(const real *from, int64_t count, void *to, int64_t stride) {
    put_numbers(from, count, OTA_F16, stride, to);
}

static void (*const readers[])(const void *from, int64_t stride, int64_t count, real *to) = {
    [OTA_F64] = read_f64, [OTA_F32] = read_f32, [OTA_BF16] = read_bf16, [OTA_F16] = read_f16};
static void (*const writers[])(const real *from, int64_t count, void *to, int64_t stride) = {
    [OTA_F64] = write_f64, [OTA_F32] = write_f32, [OTA_BF16] = write_bf16, [OTA_F16] = write_f16};

/* ---- rows and keys ------------------------------------------------------------------------------- */

/* Are rows of the array one block of memory? */
static bool is_block(const ota_array *a) {
    return a->size[2] > 1 && a->stride[3] == 1 && a->stride[2] == a->size[3];
}

static void read_rows(const ota_array *from, int64_t batch, int64_t head, int64_t row,
                      int64_t column, int64_t count, real *to) {
    const char *at = ota_element_of(from, batch, head, row, column);
    readers[from->type](at, from->stride[3], count, to);
}

void WORD(ota_pack_rows)(const ota_array *from, int64_t batch, int64_t head, int64_t first,
                         int64_t rows, real *to, int64_t ld) {
    int64_t columns = from->size[3];
    if (columns == 0 || rows == 0) return;
    if (ld == columns && is_block(from)) {
        read_rows(from, batch, head, first, 0, rows * columns, to);
        return;
    }
    /* Of a transposed array, whose neighbours lie in other rows, strips of columns: each line is then read by all rows
     * while it is near. */
    enum { NEAR = 64 };
    const int64_t strip = from->stride[3] == 1 ? columns : NEAR;
    for (int64_t column = 0; column < columns; column += strip) {
        const int64_t count = ota_int_min(columns - column, strip);
        for (int64_t row = 0; row < rows; row++) {
            read_rows(from, batch, head, first + row, column, count, to + row * ld + column);
        }
    }
}

/* As many keys at a time as a vector has lanes, at most 64 of their elements: read where they lie or, with another type or
 * stride, through a strip. */
void WORD(ota_pack_keys)(const OF_TYPE(table) *kernels, const ota_array *from, int64_t batch,
                         int64_t head, int64_t keys, real *packed) {
    enum { STRIP = 64 };
    static const real nothing[STRIP] = {0};
    const int64_t width = from->size[3], group = kernels->lanes;
    const bool plain = from->type == REAL_TYPE && (from->stride[3] == 1 || width == 1);
    for (int64_t first = 0; first < keys; first += OTA_PANEL) {
        real *panel = packed + first * width;
        for (int64_t w = 0; w < width; w += STRIP) {
            int64_t count = ota_int_min(width - w, STRIP);
            for (int64_t lane = 0; lane < OTA_PANEL; lane += group) {
                real strip[OTA_LANES_MOST][STRIP];
                const real *row[OTA_LANES_MOST];
                for (int64_t i = 0; i < group; i++) {
                    const int64_t key = first + lane + i;
                    row[i] = strip[i];
                    if (key >= keys)
                        row[i] = nothing;
                    else if (plain)
                        row[i] =
                            (const real *)(const void *)ota_element_of(from, batch, head, key, w);
                    else
                        read_rows(from, batch, head, key, w, count, strip[i]);
                }
                kernels->terms->transpose(row, count, panel + w * OTA_PANEL + lane, OTA_PANEL);
            }
        }
    }
}

void WORD(ota_unpack_rows)(const ota_array *to, int64_t batch, int64_t head, int64_t first,
                           int64_t rows, const real *from, int64_t ld) {
    int64_t columns = to->size[3];
    if (columns == 0 || rows == 0) return;
    if (ld == columns && is_block(to)) {
        writers[to->type](from, rows * columns, ota_element_of(to, batch, head, first, 0), 1);
        return;
    }
    for (int64_t row = 0; row < rows; row++) {
        writers[to->type](from + row * ld, columns, ota_element_of(to, batch, head, first + row, 0),
                          to->stride[3]);
    }
}
