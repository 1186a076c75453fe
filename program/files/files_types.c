/* The element types of files and the rules for shapes.
 *
 * One row per type: its word in each format, its bits, and what it becomes in memory. A shape
 * [d0, ..., dr] holds d0*...*dr elements. */
#include "files_formats.h"

#include <string.h>

static const cli_stored stored_types[] = {
    {"f8", "F64", 64, OTA_F64, CLI_KEEP},     {"f4", "F32", 32, OTA_F32, CLI_KEEP},
    {"f2", "F16", 16, OTA_F16, CLI_KEEP},     {NULL, "BF16", 16, OTA_BF16, CLI_KEEP},
    {"b1", "BOOL", 8, OTA_BOOL, CLI_TRUTH},   {"i8", "I64", 64, OTA_I64, CLI_KEEP},
    {"i4", "I32", 32, OTA_I64, CLI_SIGNED},   {"i2", "I16", 16, OTA_I64, CLI_SIGNED},
    {"i1", "I8", 8, OTA_I64, CLI_SIGNED},     {"u8", "U64", 64, OTA_I64, CLI_UNSIGNED},
    {"u4", "U32", 32, OTA_I64, CLI_UNSIGNED}, {"u2", "U16", 16, OTA_I64, CLI_UNSIGNED},
    {"u1", "U8", 8, OTA_I64, CLI_UNSIGNED},
};

enum { STORED_TYPES = sizeof stored_types / sizeof *stored_types };

const cli_stored *cli_stored_by_npy(const char *word) {
    for (size_t i = 0; i < STORED_TYPES; i++)
        if (stored_types[i].npy != NULL && strcmp(stored_types[i].npy, word) == 0)
            return &stored_types[i];
    return NULL;
}

const cli_stored *cli_stored_by_safetensors(const char *word) {
    for (size_t i = 0; i < STORED_TYPES; i++)
        if (strcmp(stored_types[i].safetensors, word) == 0) return &stored_types[i];
    return NULL;
}

const cli_stored *cli_stored_by_type(ota_type type) {
    for (size_t i = 0; i < STORED_TYPES; i++)
        if (stored_types[i].type == type) return &stored_types[i];
    return NULL;
}

void cli_swap_bytes(void *data, size_t count, size_t element_bytes) {
    unsigned char *bytes = data;
    for (size_t i = 0; i < count; i++, bytes += element_bytes)
        for (size_t low = 0, high = element_bytes - 1; low < high; low++, high--) {
            unsigned char kept = bytes[low];
            bytes[low] = bytes[high];
            bytes[high] = kept;
        }
}

int64_t cli_integer_at(const unsigned char *raw, size_t i, unsigned bits, bool is_signed) {
    const unsigned char *at = raw + i * (bits / 8);
    uint64_t value = 0;
    uint16_t word;
    uint32_t half;
    switch (bits) {
    case 8: value = *at; break;
    case 16:
        memcpy(&word, at, sizeof word);
        value = word;
        break;
    case 32:
        memcpy(&half, at, sizeof half);
        value = half;
        break;
    default: memcpy(&value, at, sizeof value); break;
    }
    uint64_t sign = (uint64_t)1 << (bits - 1);
    if (is_signed && bits < 64) value = (value ^ sign) - sign;
    int64_t result;
    memcpy(&result, &value, sizeof result);
    return result;
}

int cli_shape_check(const int64_t *shape, int rank, unsigned bits, const char *label,
                    int64_t offset, size_t *count, int64_t *bytes, cli_error *error) {
    const int64_t dimension_limit = (int64_t)1 << 48, product_limit = (int64_t)1 << 62;
    int64_t product = 1;
    bool empty = false;
    for (int k = 0; k < rank; k++) {
        if (shape[k] < 0 || shape[k] > dimension_limit)
            return cli_fail_at(error, label, offset,
                               "dimension %d of the shape is %lld, outside 0 to 2^48", k,
                               (long long)shape[k]);
        if (shape[k] == 0)
            empty = true;
        else if (product > product_limit / shape[k])
            return cli_fail_at(error, label, offset,
                               "the product of the shape's nonzero dimensions is above 2^62");
        else
            product *= shape[k];
    }
    *count = empty ? 0 : (size_t)product;
    if (__builtin_mul_overflow(*count, (int64_t)bits / 8, bytes))
        *bytes = INT64_MAX; /* more than any file holds, so no length check can pass */
    return 0;
}
