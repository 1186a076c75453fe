/* pack.c: between the caller's arrays (any float type, any strides) and the dense rows and packed
 * keys of the kernels, in T = float or double.
 *
 *     rows    to[r][w]                     = array[batch, head, first + r, w]
 *     keys    packed[panel][w][lane]       = array[batch, head, 64 panel + lane, w], 0 past the last
 *     back    array[batch, head, first + r, w] = from[r][w], rounded once to nearest even
 *     pairs   of bf16, as they lie: (first, second) is one uint32_t, the first in its lower half
 *
 * Dimensions of size 1 repeat. Types are one table per direction: a new type is a converter and an
 * entry. */
#include <string.h>

#include "base/half.h"
#include "backend/cpu/kernels/kernels.h"

static char *element_of(const ota_array *array, int64_t batch, int64_t head, int64_t row,
                        int64_t column) {
    const int64_t index[4] = {batch, head, row, column};
    int64_t offset = 0;
    for (int d = 0; d < 4; d++) offset += (array->size[d] == 1 ? 0 : index[d]) * array->stride[d];
    return (char *)array->data + offset * (int64_t)ota_type_bytes(array->type);
}

/* READER(name, T, stored type, expression of one stored `x`): `count` elements, `stride` apart. */
#define READER(NAME, T, STORED, VALUE)                                                             \
    static void NAME(const char *from, int64_t stride, int64_t count, T *to) {                     \
        const STORED *at = (const STORED *)(const void *)from;                                     \
        if (stride == 1) {                                                                         \
            for (int64_t i = 0; i < count; i++) {                                                  \
                STORED x = at[i];                                                                  \
                to[i] = VALUE;                                                                     \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        for (int64_t i = 0; i < count; i++) {                                                      \
            STORED x = at[i * stride];                                                             \
            to[i] = VALUE;                                                                         \
        }                                                                                          \
    }
#define WRITER(NAME, T, STORED, VALUE)                                                             \
    static void NAME(const T *from, int64_t count, char *to, int64_t stride) {                     \
        STORED *at = (STORED *)(void *)to;                                                         \
        if (stride == 1) {                                                                         \
            for (int64_t i = 0; i < count; i++) {                                                  \
                T x = from[i];                                                                     \
                at[i] = VALUE;                                                                     \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        for (int64_t i = 0; i < count; i++) {                                                      \
            T x = from[i];                                                                         \
            at[i * stride] = VALUE;                                                                \
        }                                                                                          \
    }

/* Reading and writing without conversion. */
#define COPIER(NAME, T)                                                                            \
    static void NAME(const char *from, int64_t stride, int64_t count, T *to) {                     \
        const T *at = (const T *)(const void *)from;                                               \
        if (stride == 1) {                                                                         \
            memcpy(to, at, (size_t)count * sizeof *to);                                            \
            return;                                                                                \
        }                                                                                          \
        for (int64_t i = 0; i < count; i++) to[i] = at[i * stride];                                \
    }
#define COPIER_BACK(NAME, T)                                                                       \
    static void NAME(const T *from, int64_t count, char *to, int64_t stride) {                     \
        T *at = (T *)(void *)to;                                                                   \
        if (stride == 1) {                                                                         \
            memcpy(at, from, (size_t)count * sizeof *at);                                          \
            return;                                                                                \
        }                                                                                          \
        for (int64_t i = 0; i < count; i++) at[i * stride] = from[i];                              \
    }

COPIER(f32_from_f32, float)
COPIER(f64_from_f64, double)
READER(f32_from_f64, float, double, (float)x)
READER(f32_from_bf16, float, uint16_t, ota_f32_from_bf16(x))
READER(f32_from_f16, float, uint16_t, ota_f32_from_f16(x))
READER(f64_from_f32, double, float, (double)x)
READER(f64_from_bf16, double, uint16_t, (double)ota_f32_from_bf16(x))
READER(f64_from_f16, double, uint16_t, (double)ota_f32_from_f16(x))

WRITER(f32_to_f64, float, double, (double)x)
COPIER_BACK(f32_to_f32, float)
WRITER(f32_to_bf16, float, uint16_t, ota_bf16_from_f32(x))
WRITER(f32_to_f16, float, uint16_t, ota_f16_from_f32(x))
COPIER_BACK(f64_to_f64, double)
WRITER(f64_to_f32, double, float, (float)x)
WRITER(f64_to_bf16, double, uint16_t, ota_bf16_from_f64(x))
WRITER(f64_to_f16, double, uint16_t, ota_f16_from_f64(x))

typedef void read_f32(const char *from, int64_t stride, int64_t count, float *to);
typedef void read_f64(const char *from, int64_t stride, int64_t count, double *to);
typedef void write_f32(const float *from, int64_t count, char *to, int64_t stride);
typedef void write_f64(const double *from, int64_t count, char *to, int64_t stride);

static read_f32 *const READ_F32[] = {[OTA_F64] = f32_from_f64,
                                     [OTA_F32] = f32_from_f32,
                                     [OTA_BF16] = f32_from_bf16,
                                     [OTA_F16] = f32_from_f16};
static read_f64 *const READ_F64[] = {[OTA_F64] = f64_from_f64,
                                     [OTA_F32] = f64_from_f32,
                                     [OTA_BF16] = f64_from_bf16,
                                     [OTA_F16] = f64_from_f16};
static write_f32 *const WRITE_F32[] = {[OTA_F64] = f32_to_f64,
                                       [OTA_F32] = f32_to_f32,
                                       [OTA_BF16] = f32_to_bf16,
                                       [OTA_F16] = f32_to_f16};
static write_f64 *const WRITE_F64[] = {[OTA_F64] = f64_to_f64,
                                       [OTA_F32] = f64_to_f32,
                                       [OTA_BF16] = f64_to_bf16,
                                       [OTA_F16] = f64_to_f16};

#define JOIN2(A, B) A##B
#define JOIN(A, B) JOIN2(A, B)

/* A vector of elements of two, by their places in both one after the other. */
#ifdef __clang__
#define CHOOSE(A, B, ...) __builtin_shufflevector(A, B, __VA_ARGS__)
#else
#define CHOOSE(A, B, ...) __builtin_shuffle(A, B, (JOIN(places_, SUFFIX)){__VA_ARGS__})
#endif

#define T float
#define BITS int32_t
#define PLAIN OTA_F32
#define SUFFIX f32
#define READ_ROW READ_F32
#define WRITE_ROW WRITE_F32
#include "pack.inc.h"
#undef T
#undef BITS
#undef PLAIN
#undef SUFFIX
#undef READ_ROW
#undef WRITE_ROW

#define T double
#define BITS int64_t
#define PLAIN OTA_F64
#define SUFFIX f64
#define READ_ROW READ_F64
#define WRITE_ROW WRITE_F64
#include "pack.inc.h"

/* ---- pairs of bf16 ---------------------------------------------------------------------------- */

static const uint16_t *bf16_row(const ota_array *from, int64_t batch, int64_t head, int64_t row) {
    return (const uint16_t *)(const void *)element_of(from, batch, head, row, 0);
}

static uint32_t pair_of(uint16_t first, uint16_t second) {
    return (uint32_t)first | (uint32_t)second << 16;
}

/* Are all numbers 0 or at least 2^-50, and finite where that is asked? In 16 bits throughout, so that the loop becomes
 * vector code. */
static bool row_holds(const uint16_t *row, int64_t stride, int64_t count, bool finite) {
    const uint16_t least = (127 - 50) << 7, most = finite ? 0x7f7f : 0x7fff;
    uint16_t bad = 0;
    if (stride == 1) {
        for (int64_t k = 0; k < count; k++) {
            const uint16_t size = row[k] & 0x7fffu;
            bad |= (uint16_t)((size != 0) & (size < least));
            bad |= (uint16_t)(size > most);
        }
        return bad == 0;
    }
    for (int64_t k = 0; k < count; k++) {
        const uint16_t size = row[k * stride] & 0x7fffu;
        bad |= (uint16_t)(((size != 0) & (size < least)) | (size > most));
    }
    return bad == 0;
}

bool ota_pairs_hold(const ota_array *from, int64_t batch, int64_t head, int64_t rows, bool finite) {
    const int64_t columns = from->size[3];
    if (from->type != OTA_BF16) return false;
    if (rows == 0 || columns == 0) return true;
    if (from->size[2] > 1 && from->stride[3] == 1 && from->stride[2] == columns)
        return row_holds(bf16_row(from, batch, head, 0), 1, rows * columns, finite);
    for (int64_t row = 0; row < rows; row++) {
        if (!row_holds(bf16_row(from, batch, head, row), from->stride[3], columns, finite))
            return false;
    }
    return true;
}

void ota_pairs_keys(const ota_array *from, int64_t batch, int64_t head, int64_t keys,
                    uint32_t *packed) {
    const int64_t width = from->size[3], depth = (width + 1) / 2, stride = from->stride[3];
    for (int64_t j = 0; j < ota_int_round_up(keys, OTA_PANEL) && width > 0; j++) {
        uint32_t *to = packed + j / OTA_PANEL * OTA_PANEL * depth + j % OTA_PANEL;
        const uint16_t *row = j < keys ? bf16_row(from, batch, head, j) : NULL;
        for (int64_t w = 0; w < depth; w++) {
            const bool whole = 2 * w + 1 < width;
            to[w * OTA_PANEL] =
                row == NULL ? 0
                            : pair_of(row[2 * w * stride], whole ? row[(2 * w + 1) * stride] : 0);
        }
    }
}

void ota_pairs_along(const ota_array *from, int64_t batch, int64_t head, int64_t first,
                     int64_t rows, uint32_t *to) {
    const int64_t width = from->size[3], depth = (width + 1) / 2, stride = from->stride[3];
    for (int64_t r = 0; r < rows && width > 0; r++) {
        const uint16_t *row = bf16_row(from, batch, head, first + r);
        for (int64_t w = 0; w < width / 2; w++)
            to[r * depth + w] = pair_of(row[2 * w * stride], row[(2 * w + 1) * stride]);
        if (width % 2 != 0) to[r * depth + depth - 1] = pair_of(row[(width - 1) * stride], 0);
    }
}

void ota_pairs_across(const ota_array *from, int64_t batch, int64_t head, int64_t first,
                      int64_t rows, uint32_t *to) {
    const int64_t width = from->size[3], stride = from->stride[3];
    for (int64_t r = 0; r < rows && width > 0; r += 2) {
        const uint16_t *even = bf16_row(from, batch, head, first + r);
        const uint16_t *odd = r + 1 < rows ? bf16_row(from, batch, head, first + r + 1) : NULL;
        uint32_t *pairs = to + r / 2 * width;
        if (odd == NULL) {
            for (int64_t w = 0; w < width; w++) pairs[w] = pair_of(even[w * stride], 0);
        } else if (stride == 1) {
            for (int64_t w = 0; w < width; w++) pairs[w] = pair_of(even[w], odd[w]);
        } else {
            for (int64_t w = 0; w < width; w++)
                pairs[w] = pair_of(even[w * stride], odd[w * stride]);
        }
    }
}

int64_t ota_pairs_mend(uint32_t *pairs, int64_t rows, int64_t width, int64_t *broken) {
    int64_t count = 0;
    for (int64_t r = 0; r < rows; r++) {
        const uint32_t infinity = r % 2 == 0 ? 0x00007f80u : 0x7f800000u;
        const uint32_t other = r % 2 == 0 ? 0xffff0000u : 0x0000ffffu;
        uint32_t *row = pairs + r / 2 * width, bad = 0;
        for (int64_t w = 0; w < width; w++) bad |= (uint32_t)((row[w] & infinity) == infinity);
        if (bad == 0) continue;
        for (int64_t w = 0; w < width; w++) row[w] &= other;
        broken[count++] = r;
    }
    return count;
}
