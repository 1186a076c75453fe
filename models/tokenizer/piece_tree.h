/* Pieces as a tree of bytes, which a text is walked down byte by byte (piece_tree.c), and the hash under which its edges and
 * pieces of vocabularies lie. */
#ifndef OTATTN_MODELS_PIECE_TREE_H
#define OTATTN_MODELS_PIECE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "otattn_tokenizer.h"

/* FNV-1a, so that a hash of a prefix can go on; `ota_token_spread` ends it. */
#define OTA_TOKEN_HASH_START UINT64_C(0xcbf29ce484222325)
static inline uint64_t ota_token_hash(uint64_t hash, const char *text, size_t size) {
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return hash;
}
/* Every bit of the hash reaches the low bits, which choose the slot. */
static inline uint64_t ota_token_spread(uint64_t hash) {
    hash = (hash ^ hash >> 33) * UINT64_C(0xff51afd7ed558ccd);
    hash = (hash ^ hash >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    return hash ^ hash >> 33;
}

/* An edge: from a node by a byte to a node. */
typedef struct ota_tree_edge {
    uint64_t from; /* node << 8 | byte; UINT64_MAX: empty slot */
    int32_t to;
    int32_t piece; /* that ends there, -1: none */
} ota_tree_edge;

/* Its edges lie in a hash table, so that a step down is one look. */
typedef struct ota_piece_tree {
    ota_tree_edge *edges; /* [mask + 1] */
    uint64_t mask;
    int32_t nodes; /* beside the root, 0 */
} ota_piece_tree;

/* Both false without memory. */
bool ota_piece_tree_start(ota_piece_tree *tree);
bool ota_piece_tree_add(ota_piece_tree *tree, ota_text piece, int32_t id);
void ota_piece_tree_free(ota_piece_tree *tree);
/* The edge, or the empty slot where it belongs. */
static inline ota_tree_edge *ota_piece_tree_edge(const ota_piece_tree *tree, int32_t node,
                                                 char byte) {
    const uint64_t from = (uint64_t)node << 8 | (unsigned char)byte;
    uint64_t slot = ota_token_spread(from) & tree->mask;
    while (tree->edges[slot].from != from && tree->edges[slot].from != UINT64_MAX)
        slot = (slot + 1) & tree->mask;
    return &tree->edges[slot];
}
/* A step down: the edge, NULL where no piece goes on. */
static inline const ota_tree_edge *ota_piece_tree_step(const ota_piece_tree *tree, int32_t node,
                                                       char byte) {
    const ota_tree_edge *edge = ota_piece_tree_edge(tree, node, byte);
    return edge->from == UINT64_MAX ? NULL : edge;
}

#endif
