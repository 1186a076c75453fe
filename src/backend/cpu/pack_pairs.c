/* Packing of bf16 as pairs (pack.h). */
#include "base/integers.h"
#include "kernels/kernels.h"
#include "pack.h"

static const uint16_t *bf16_row(const ota_array *from, int64_t batch, int64_t head, int64_t row) {
    return (const uint16_t *)(const void *)ota_element_of(from, batch, head, row, 0);
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

void ota_pairs_of_rows(const ota_array *from, int64_t batch, int64_t head, int64_t first,
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

int64_t ota_pairs_mend(uint32_t *pairs, int64_t rows, int64_t width, int64_t *nonfinite) {
    int64_t count = 0;
    for (int64_t r = 0; r < rows; r++) {
        const uint32_t infinity = r % 2 == 0 ? 0x00007f80u : 0x7f800000u;
        const uint32_t other = r % 2 == 0 ? 0xffff0000u : 0x0000ffffu;
        uint32_t *row = pairs + r / 2 * width, bad = 0;
        for (int64_t w = 0; w < width; w++) bad |= (uint32_t)((row[w] & infinity) == infinity);
        if (bad == 0) continue;
        for (int64_t w = 0; w < width; w++) row[w] &= other;
        nonfinite[count++] = r;
    }
    return count;
}
