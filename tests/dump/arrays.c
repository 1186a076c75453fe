/* Memory and strided arrays of the cases. */
#include "arrays.h"

#include <stdio.h>
#include <stdlib.h>

void dump_same_nan(const ota_array *a) {
    if (has_no_elements(a)) return;
    int64_t at[4] = {0};
    do {
        const double value = element_get(a, at);
        const uint64_t word = 0x7ff8000000000000u;
        double same;
        memcpy(&same, &word, sizeof same);
        if (value != value) element_set(a, at, same);
    } while (next_element(a, at));
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

ota_array dump_array(dump_memory *memory, dice *dice, const array_shape *shape, layout layout,
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
