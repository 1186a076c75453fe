/* Pieces as a tree of bytes: see piece_tree.h. */
#include "piece_tree.h"

#include <stdlib.h>
#include <string.h>

static bool make_edges(ota_piece_tree *tree, size_t slots) {
    tree->edges = calloc(slots, sizeof *tree->edges);
    if (tree->edges == NULL) return false;
    memset(tree->edges, 0xFF, slots * sizeof *tree->edges);
    tree->mask = slots - 1;
    return true;
}

bool ota_piece_tree_start(ota_piece_tree *tree) {
    tree->nodes = 0;
    return make_edges(tree, 1024);
}

static bool grow_edges(ota_piece_tree *tree) {
    const ota_piece_tree old = *tree;
    if (!make_edges(tree, 2 * (size_t)(old.mask + 1))) {
        tree->edges = old.edges;
        return false;
    }
    for (uint64_t slot = 0; slot <= old.mask; slot++) {
        const ota_tree_edge *edge = &old.edges[slot];
        if (edge->from != UINT64_MAX)
            *ota_piece_tree_edge(tree, (int32_t)(edge->from >> 8),
                                 (char)(unsigned char)(edge->from & 0xFF)) = *edge;
    }
    free(old.edges);
    return true;
}

bool ota_piece_tree_add(ota_piece_tree *tree, ota_text piece, int32_t id) {
    int32_t node = 0;
    for (size_t at = 0; at < piece.size; at++) {
        ota_tree_edge *edge = ota_piece_tree_edge(tree, node, piece.data[at]);
        if (edge->from == UINT64_MAX) {
            if (tree->nodes == INT32_MAX) return false;
            if (2 * ((uint64_t)tree->nodes + 1) > tree->mask && !grow_edges(tree)) return false;
            edge = ota_piece_tree_edge(tree, node, piece.data[at]);
            *edge = (ota_tree_edge){.from = (uint64_t)node << 8 | (unsigned char)piece.data[at],
                                    .to = ++tree->nodes,
                                    .piece = -1};
        }
        if (at + 1 == piece.size) edge->piece = id;
        node = edge->to;
    }
    return true;
}

void ota_piece_tree_free(ota_piece_tree *tree) { free(tree->edges); }
