/* Arrays of the whole problem from their first element in a block of keys on. */
#include "problem/key_block.h"

#include <string.h>

#include "base/integers.h"

/* Elements [first, first + count) of a dimension, unless it is broadcast. */
static void cut(ota_array *a, int dimension, int64_t first, int64_t count) {
    if (!ota_array_present(a) || a->size[dimension] == 1) return;
    a->data = (char *)a->data + first * a->stride[dimension] * (int64_t)ota_type_bytes(a->type);
    a->size[dimension] = count;
}

ota_array ota_key_block_pairs(const ota_key_block *block, const ota_array *a) {
    ota_array part = *a;
    cut(&part, 0, block->batch, 1);
    cut(&part, 1, block->head, block->heads);
    cut(&part, 3, block->first, block->room);
    return part;
}

ota_array ota_key_block_rows(const ota_key_block *block, const ota_array *a) {
    ota_array part = *a;
    cut(&part, 0, block->batch, 1);
    cut(&part, 1, block->head, block->heads);
    return part;
}

ota_array ota_key_block_heads(const ota_key_block *block, const ota_array *a) {
    ota_array part = *a;
    cut(&part, 3, block->head, block->heads);
    return part;
}
