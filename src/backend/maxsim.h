/* maxsim.h: the kernel of otattn_maxsim.h: tokens of a document against a panel of query tokens. */
#ifndef OTA_MAXSIM_H
#define OTA_MAXSIM_H

#include <stdint.h>

enum {
    OTA_MAXSIM_TOKENS = 48, /* most of one call */
    OTA_MAXSIM_PANEL = 64,  /* query tokens a panel */
    OTA_MAXSIM_ROUND = 16   /* the last one is as wide as it must be, rounded up to this */
};

/* products[t][c] = sum_w tokens[t][w] queries[w][c];  best[c] = max(best[c], max_t products[t][c]);  lost[c] += 0, or NaN
 * where some product is not finite. */
typedef struct ota_maxsim_block {
    const float *tokens; /* [count][width] */
    int64_t count, width;
    const float *queries; /* [width][columns] */
    int64_t columns;      /* a multiple of OTA_MAXSIM_ROUND */
    float *products;      /* [count][columns], 64-byte aligned */
    float *best, *lost;   /* [columns] */
} ota_maxsim_block;

typedef void ota_maxsim_pass(const ota_maxsim_block *block);

#endif
