/* maxsim.h: the kernel of otattn_maxsim.h: tokens of a document against a panel of query tokens. An element is a number in f32 or,
 * in the kernel on pairs, two neighbours in bf16 as they lie, the last of an odd width filled up with 0. */
#ifndef OTA_MAXSIM_H
#define OTA_MAXSIM_H

#include <stdint.h>

enum {
    OTA_MAXSIM_PANEL =
        32,               /* query tokens a panel: 128 numbers of each fill half of a first cache */
    OTA_MAXSIM_ROUND = 16 /* the last one is as wide as it must be, rounded up to this */
};

/* products[t][c] = sum_w tokens[t][w] queries[w][c];  best[c] = max(best[c], max_t products[t][c]);  lost[c] += 0, or NaN
 * where some product is not finite. */
typedef struct ota_maxsim_block {
    const char *
        tokens; /* [count][length] elements, aligned as numbers are; `stride` bytes lead to the next token */
    int64_t stride, count, length;
    int64_t
        following; /* tokens that lie behind these and are read next, so that they may be fetched */
    const void *queries; /* [length][columns] elements */
    int64_t columns;     /* a multiple of OTA_MAXSIM_ROUND */
    float *products;     /* [count][columns], or NULL: not kept */
    float *best, *lost;  /* [columns] */
} ota_maxsim_block;

typedef void ota_maxsim_pass(const ota_maxsim_block *block);

#endif
