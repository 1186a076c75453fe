/* head_masks.h: what the masks of one head leave to tiles. Masks that say the same of every query are read once a key: the
 * keys that they allow are an interval in most heads, and then nothing is asked pair by pair. */
#ifndef OTA_CPU_HEAD_MASKS_H
#define OTA_CPU_HEAD_MASKS_H

#include "kernels/kernels.h"
#include "masks/masks.h"
#include "scores.h"

typedef struct ota_head_masks {
    int64_t head;       /* batch * heads + head, or -1: not found yet */
    int64_t begin, end; /* keys outside are forbidden to every query */
    /* Of query i and key j at [i * ld + j], ld = 0 for every query (ota_kernels_..._pairs). NULL: nothing. */
    const unsigned char *flags;
    const void *bias;
    int64_t flags_ld, bias_ld;
    ota_type bias_type;
    double bound;
    bool terms; /* tiles ask ota_apply_some_terms first, for what is left */
    ota_term_set left;
    unsigned char *flag_room; /* [keys] */
    void *bias_room;          /* [keys] T */
} ota_head_masks;

/* Of the first `key_count` keys; does nothing where `masks` are those of this head. */
void ota_find_head_masks_f32(const ota_kernels_f32_table *kernels, const ota_resolved *r,
                             int64_t batch, int64_t head, int64_t key_count, ota_head_masks *masks);
void ota_find_head_masks_f64(const ota_kernels_f64_table *kernels, const ota_resolved *r,
                             int64_t batch, int64_t head, int64_t key_count, ota_head_masks *masks);

/* Keys of a query within those of the head's masks; none: 0, 0. */
static inline void ota_masked_row_range(const ota_resolved *r, const ota_head_masks *masks,
                                        int64_t batch, int64_t query, int64_t *begin,
                                        int64_t *end) {
    ota_row_range(r, batch, query, masks->end, begin, end);
    *begin = ota_int_max(*begin, masks->begin);
    if (*begin >= *end) *begin = *end = 0;
}

#endif
