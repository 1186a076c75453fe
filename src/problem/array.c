/* Strided arrays: sizes, extents and single elements as double. Element access is for small vectors and
 * for terms; bulk reading is the packers' work (backend). */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/half.h"
#include "problem/problem.h"

size_t ota_type_bytes(ota_type type) {
    static const unsigned char bytes[] = {0, 8, 4, 2, 2, 1, 8};
    return (unsigned)type < sizeof bytes ? bytes[type] : 0;
}

ota_array ota_array_of(void *data, ota_type type, int64_t batch, int64_t heads, int64_t rows,
                       int64_t columns) {
    ota_array array = {data, type, {batch, heads, rows, columns}, {0, 0, 0, 1}};
    /* Unsigned products wrap instead of trapping; the checks refuse sizes that would. */
    array.stride[2] = columns;
    array.stride[1] = (int64_t)((uint64_t)rows * (uint64_t)columns);
    array.stride[0] = (int64_t)((uint64_t)array.stride[1] * (uint64_t)heads);
    return array;
}

static int64_t position(const ota_array *a, int64_t b, int64_t h, int64_t r, int64_t c) {
    const int64_t index[4] = {b, h, r, c};
    int64_t at = 0;
    for (int k = 0; k < 4; k++) {
        if (a->size[k] != 1) at += index[k] * a->stride[k];
    }
    return at;
}

double ota_array_get(const ota_array *array, int64_t b, int64_t h, int64_t r, int64_t c) {
    const int64_t at = position(array, b, h, r, c);
    switch (array->type) {
    case OTA_F64: return ((const double *)array->data)[at];
    case OTA_F32: return (double)((const float *)array->data)[at];
    case OTA_BF16: return (double)ota_f32_from_bf16(((const uint16_t *)array->data)[at]);
    case OTA_F16: return (double)ota_f32_from_f16(((const uint16_t *)array->data)[at]);
    case OTA_BOOL: return ((const uint8_t *)array->data)[at] != 0 ? 1.0 : 0.0;
    case OTA_I64: return (double)((const int64_t *)array->data)[at];
    default: return NAN;
    }
}

double ota_forbidding_addend(ota_type type) {
    switch (type) {
    case OTA_F64: return -DBL_MAX / 2.0;
    case OTA_F32: return -(double)FLT_MAX / 2.0;
    case OTA_BF16: return -0x1.fep126;
    case OTA_F16: return -32752.0;
    default: return -INFINITY;
    }
}

int64_t ota_array_get_integer(const ota_array *array, int64_t b, int64_t h, int64_t r, int64_t c) {
    return ((const int64_t *)array->data)[position(array, b, h, r, c)];
}

void ota_array_set(const ota_array *array, int64_t b, int64_t h, int64_t r, int64_t c,
                   double value) {
    const int64_t at = position(array, b, h, r, c);
    switch (array->type) {
    case OTA_F64: ((double *)array->data)[at] = value; break;
    case OTA_F32: ((float *)array->data)[at] = (float)value; break;
    case OTA_BF16: ((uint16_t *)array->data)[at] = ota_bf16_from_f64(value); break;
    case OTA_F16: ((uint16_t *)array->data)[at] = ota_f16_from_f64(value); break;
    case OTA_BOOL: ((uint8_t *)array->data)[at] = (uint8_t)(value > 0.0 || value < 0.0); break;
    case OTA_I64: ((int64_t *)array->data)[at] = (int64_t)value; break;
    default: break;
    }
}

/* Copies the element at the start of a line over the rest of it. */
static void repeat_first(void *line, size_t bytes, int64_t count, int64_t stride) {
    uint64_t *eight = line;
    uint32_t *four = line;
    uint16_t *two = line;
    for (int64_t j = 1; bytes == sizeof *eight && j < count; j++) eight[j * stride] = eight[0];
    for (int64_t j = 1; bytes == sizeof *four && j < count; j++) four[j * stride] = four[0];
    for (int64_t j = 1; bytes == sizeof *two && j < count; j++) two[j * stride] = two[0];
}

unsigned char *ota_array_pack(const ota_array *a, ota_type type, int64_t batch, int64_t head,
                              void *to) {
    const size_t element = ota_type_bytes(type);
    const int64_t rows = a->size[2], width = a->size[3];
    const ota_array dense = ota_array_of(to, type, 1, 1, rows, width);
    unsigned char *at = to;
    for (int64_t i = 0; i < rows && width > 0; i++, at += (size_t)width * element) {
        if (a->type != type) {
            for (int64_t j = 0; j < width; j++)
                ota_array_set(&dense, 0, 0, i, j, ota_array_get(a, batch, head, i, j));
            continue;
        }
        const char *row = (const char *)a->data + position(a, batch, head, i, 0) * (int64_t)element;
        if (a->stride[3] == 1) memcpy(at, row, (size_t)width * element);
        for (int64_t j = 0; j < width && a->stride[3] != 1; j++)
            memcpy(at + (size_t)j * element, row + j * a->stride[3] * (int64_t)element, element);
    }
    return at;
}

typedef struct poisoned {
    const ota_array *array;
    int64_t batch, head, rows; /* of a block */
} poisoned;

static void poison_block(void *context, int64_t block, int worker) {
    (void)worker;
    const poisoned *p = context;
    const ota_array *a = p->array;
    const size_t bytes = ota_type_bytes(a->type);
    const int64_t first = block * p->rows, last = ota_int_min(first + p->rows, a->size[2]);
    for (int64_t i = first; i < last; i++) {
        ota_array_set(a, p->batch, p->head, i, 0, (double)NAN);
        char *line = (char *)a->data + position(a, p->batch, p->head, i, 0) * (int64_t)bytes;
        repeat_first(line, bytes, a->size[3], a->stride[3]);
    }
}

void ota_array_poison(ota_pool *pool, const ota_array *array, int64_t batch, int64_t head) {
    enum { PAIRS = 1 << 18 };
    if (!ota_array_present(array) || array->size[3] == 0) return;
    poisoned p = {array, batch, head, 1 + PAIRS / array->size[3]};
    ota_parallel(pool, ota_int_ceil_div(array->size[2], p.rows), poison_block, &p);
}

void ota_array_extent(const ota_array *array, const char **first, const char **last) {
    int64_t low = 0, high = 0;
    *first = *last = NULL;
    if (array->data == NULL) return;
    for (int k = 0; k < 4; k++) {
        if (array->size[k] == 0) return;
        const int64_t reach = (array->size[k] - 1) * array->stride[k];
        if (reach < 0)
            low += reach;
        else
            high += reach;
    }
    const int64_t bytes = (int64_t)ota_type_bytes(array->type);
    *first = (const char *)array->data + low * bytes;
    *last = (const char *)array->data + (high + 1) * bytes;
}

bool ota_array_overlaps_itself(const ota_array *a) {
    bool seen[4] = {false};
    int64_t below = 1;
    for (int iteration = 0; iteration < 4; iteration++) {
        int next = -1;
        for (int k = 0; k < 4; k++) {
            if (a->size[k] == 0) return false;
            if (seen[k] || a->size[k] == 1) continue;
            if (next < 0 || llabs(a->stride[k]) < llabs(a->stride[next])) next = k;
        }
        if (next < 0) return false;
        const int64_t stride = llabs(a->stride[next]);
        if (stride < below) return true;
        below += (a->size[next] - 1) * stride;
        seen[next] = true;
    }
    return false;
}

bool ota_arrays_overlap(const ota_array *a, const ota_array *b) {
    const char *first_a, *last_a, *first_b, *last_b;
    ota_array_extent(a, &first_a, &last_a);
    ota_array_extent(b, &first_b, &last_b);
    return first_a != NULL && first_b != NULL && first_a < last_b && first_b < last_a;
}
