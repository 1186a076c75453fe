/* Which level of the row arithmetic to use. */
#include "ops.h"

#include "base/base.h"

/* Oldest first. */
static const ota_ops *const ROWS[] = {
    &ota_ops_portable,
#if defined(__x86_64__)
    &ota_ops_avx2,
    &ota_ops_avx512,
#endif
};

const ota_ops *ota_ops_named(const char *cpu) {
    const int named = cpu != NULL ? ota_cpu_level(cpu) : -1;
    const ota_ops *best = ROWS[0];
    for (size_t row = 1; row < sizeof ROWS / sizeof *ROWS; row++) {
        const int level = ota_cpu_level(ROWS[row]->name);
        if (named >= 0 && level > named) break;
        if (ota_cpu_has(ota_cpu_level_features(level))) best = ROWS[row];
    }
    return best;
}

/* Hub files have element 2k in the lower half of byte k, ggml's blocks element k, and 16 + k in the upper half. */
static void weave(const unsigned char *codes, unsigned char scale, unsigned char *block) {
    block[0] = scale;
    for (int k = 0; k < 8; k++) {
        block[1 + 2 * k] = (unsigned char)((codes[k] & 15U) | (codes[8 + k] & 15U) << 4);
        block[2 + 2 * k] = (unsigned char)(codes[k] >> 4 | (codes[8 + k] & 0xF0U));
    }
}

void ota_decode_rows(const ota_ops *ops, const ota_weight *weight, int64_t row, int64_t count,
                     float *out) {
    enum { AT_ONCE = 64, CODES = 16 };
    const ota_element *type = weight->type;
    const int64_t a_row = weight->columns / type->block;
    void (*decode)(const unsigned char *, float *, int64_t) = ops->decode[ota_element_index(type)];
    if (weight->scales == NULL) {
        decode(weight->data + row * a_row * type->bytes, out, count * weight->columns);
        return;
    }
    unsigned char blocks[AT_ONCE * (CODES + 1)];
    for (int64_t done = row * a_row; done < (row + count) * a_row; done += AT_ONCE) {
        const int64_t left = (row + count) * a_row - done;
        const int64_t now = left < AT_ONCE ? left : AT_ONCE;
        for (int64_t k = 0; k < now; k++)
            weave(weight->data + (done + k) * CODES, weight->scales[done + k],
                  blocks + k * (CODES + 1));
        decode(blocks, out, now * type->block);
        out += now * type->block;
    }
}
