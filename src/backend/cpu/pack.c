/* pack.c: between the caller's arrays (any float type, any strides) and the dense rows and packed
 * keys of the kernels, in T = float or double.
 *
 *     rows    to[r][w]                     = array[batch, head, first + r, w]
 *     keys    packed[panel][w][lane]       = array[batch, head, 64 panel + lane, w], 0 past the last
 *     back    array[batch, head, first + r, w] = from[r][w], rounded once to nearest even
 *
 * Dimensions of size 1 repeat. Types are one table per direction: a new type is a converter and an
 * entry. */
#include <string.h>

#include "base/half.h"
#include "kernels.h"

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

/* Reading without conversion. */
#define COPIER(NAME, T)                                                                            \
    static void NAME(const char *from, int64_t stride, int64_t count, T *to) {                     \
        const T *at = (const T *)(const void *)from;                                               \
        if (stride == 1) {                                                                         \
            memcpy(to, at, (size_t)count * sizeof *to);                                            \
            return;                                                                                \
        }                                                                                          \
        for (int64_t i = 0; i < count; i++) to[i] = at[i * stride];                                \
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
WRITER(f32_to_f32, float, float, x)
WRITER(f32_to_bf16, float, uint16_t, ota_bf16_from_f32(x))
WRITER(f32_to_f16, float, uint16_t, ota_f16_from_f32(x))
WRITER(f64_to_f64, double, double, x)
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

#define T float
#define SUFFIX f32
#define READ_ROW READ_F32
#define WRITE_ROW WRITE_F32
#include "pack.inc.h"
#undef T
#undef SUFFIX
#undef READ_ROW
#undef WRITE_ROW

#define T double
#define SUFFIX f64
#define READ_ROW READ_F64
#define WRITE_ROW WRITE_F64
#include "pack.inc.h"
