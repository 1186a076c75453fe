/* key_block.h: the problem of some heads' rows with a block of the keys alone, as softmax on free columns. Weights of the
 * whole problem are those of a block times exp(lse of the block - lse of all), so blocks can come one after another:
 *
 *     rows     the queries of heads [head, head + heads) of one batch, which share one key head
 *     keys     [first, first + count) of all, in the first `count` rows of arrays of `room` rows
 *     scores   those of the whole problem: masks and terms see its positions; a bias per key may be added
 *
 * There is no sink: it belongs to no block. */
#ifndef OTA_KEY_BLOCK_H
#define OTA_KEY_BLOCK_H

#include "problem/problem.h"

typedef struct ota_key_block {
    int64_t batch, head, heads;
    int64_t first, count, room;
    int64_t whole_keys; /* of the whole problem */
    ota_array queries;  /* [1, heads, queries, width] */
    ota_array keys;     /* [1, 1, room, width] */
    ota_array bias;     /* [1, heads, 1, room] added to S, or absent */
    int64_t *lengths;   /* [OTA_MAX_SUPPORTS + 1] memory for the masks of lengths */
    bool drops;         /* dropout counts */
    bool gradients;     /* the plan of the block holds the workspace of backward */
} ota_key_block;

/* Of [batch|1, heads|1, queries|1, keys|1], of [batch|1, heads|1, ...] and of {1, 1, 1, heads} what belongs to the block. */
ota_array ota_key_block_pairs(const ota_key_block *block, const ota_array *a);
ota_array ota_key_block_rows(const ota_key_block *block, const ota_array *a);
ota_array ota_key_block_heads(const ota_key_block *block, const ota_array *a);

#endif
