/* transport_forest.c: from flows of shortest paths (transport_paths.c) to a strongly feasible tree (transport.c). */
#include "transport_paths.h"

/* A walk through the pieces of the graph of flows. Nodes are those of the tree. */
typedef struct forest_walk {
    int32_t *queue;  /* nodes of the piece, parents first */
    int32_t *by;     /* arc to the parent, or OTA_NO_NODE */
    int32_t *piece;  /* of each node, 0 at first */
    int32_t *parent; /* and the depth below the first */
    int32_t *depth;
    int32_t count, number;
} forest_walk;

/* A search has ended: its memory is free, but for slots. */
static forest_walk walk_of(const ota_transport_paths *paths) {
    const ota_transport_tree *tree = paths->tree;
    forest_walk walk = {.queue = paths->search.heap,
                        .by = paths->search.reached,
                        .piece = tree->links.next,
                        .parent = tree->links.parent,
                        .depth = tree->links.depth};
    for (int32_t v = 0; v < tree->root; v++) walk.piece[v] = 0;
    return walk;
}

static int32_t next_of(const ota_transport_paths *paths, int32_t v, int32_t e) {
    const ota_flow_arcs *arcs = &paths->arcs;
    return ota_tree_is_row(paths->tree, v) ? arcs->next_in_row[e] : arcs->next_in_column[e];
}

static int32_t first_of(const ota_transport_paths *paths, int32_t v) {
    const ota_flow_arcs *arcs = &paths->arcs;
    return ota_tree_is_row(paths->tree, v) ? arcs->of_row[v]
                                           : arcs->of_column[v - paths->tree->rows];
}

static int32_t other_end(const ota_transport_paths *paths, int32_t v, int32_t e) {
    return ota_tree_is_row(paths->tree, v) ? paths->tree->rows + paths->arcs.column[e]
                                           : paths->arcs.row[e];
}

/* Puts the piece of node `first` into the queue. The arc that closes a cycle, or OTA_NO_NODE. */
static int32_t walk_piece(const ota_transport_paths *paths, forest_walk *walk, int32_t first) {
    walk->number++;
    walk->count = 1;
    walk->queue[0] = first;
    walk->piece[first] = walk->number;
    walk->by[first] = walk->parent[first] = OTA_NO_NODE;
    walk->depth[first] = 0;
    for (int32_t k = 0; k < walk->count; k++) {
        const int32_t v = walk->queue[k];
        for (int32_t e = first_of(paths, v); e != OTA_NO_NODE; e = next_of(paths, v, e)) {
            if (e == walk->by[v]) continue;
            const int32_t end = other_end(paths, v, e);
            if (walk->piece[end] == walk->number) return e;
            walk->piece[end] = walk->number;
            walk->by[end] = e;
            walk->parent[end] = v;
            walk->depth[end] = walk->depth[v] + 1;
            walk->queue[walk->count++] = end;
        }
    }
    return OTA_NO_NODE;
}

/* The arcs of the cycle that `closing` closes, every other one the other way round: first those against it. */
static int32_t cycle_of(const ota_transport_paths *paths, const forest_walk *walk, int32_t closing,
                        int32_t *cycle) {
    int32_t end[2] = {paths->arcs.row[closing], paths->tree->rows + paths->arcs.column[closing]};
    int32_t steps[2] = {0, 0}, count = 1;
    cycle[0] = closing << 1;
    while (end[0] != end[1]) {
        const int side = walk->depth[end[0]] < walk->depth[end[1]];
        const int32_t e = walk->by[end[side]];
        cycle[count++] = e << 1 | (steps[side]++ % 2 == 0);
        end[side] = walk->parent[end[side]];
    }
    return count;
}

/* Flow goes round the cycle, the way that does not cost more, until a pair of it is empty or full. */
static void cancel(ota_transport_paths *paths, const int32_t *cycle, int32_t count) {
    ota_flow_arcs *arcs = &paths->arcs;
    double cost = 0.0;
    for (int32_t k = 0; k < count; k++) {
        const int32_t e = cycle[k] >> 1;
        const double own = ota_path_cost(paths, arcs->row[e], arcs->column[e]);
        cost += (cycle[k] & 1) != 0 ? -own : own;
    }
    const int32_t falling = cost < 0.0;
    int64_t amount = INT64_MAX;
    for (int32_t k = 0; k < count; k++) {
        const int32_t e = cycle[k] >> 1;
        const int64_t own = arcs->amount[e];
        const int64_t cap = ota_pair_cap(paths, arcs->row[e], arcs->column[e]);
        amount = ota_int_min(amount, (cycle[k] & 1) == falling ? own : cap - own);
    }
    for (int32_t k = 0; k < count; k++) {
        const int32_t e = cycle[k] >> 1, i = arcs->row[e], w = arcs->column[e];
        arcs->amount[e] += (cycle[k] & 1) == falling ? -amount : amount;
        const bool full = arcs->amount[e] == ota_pair_cap(paths, i, w);
        if (full || arcs->amount[e] == 0) ota_flow_drop(arcs, e);
        if (full) ota_pair_fill(paths, i, w);
    }
}

/* Walks the piece of node `first` after taking its cycles out. */
static void walk_tree(ota_transport_paths *paths, forest_walk *walk, int32_t first) {
    for (int32_t e; (e = walk_piece(paths, walk, first)) != OTA_NO_NODE;) {
        int32_t *cycle = paths->search.cycle;
        cancel(paths, cycle, cycle_of(paths, walk, e, cycle));
        for (int32_t k = 0; k < walk->count; k++) walk->piece[walk->queue[k]] = 0;
    }
}

void ota_flow_take_cycles_out(ota_transport_paths *paths) {
    forest_walk walk = walk_of(paths);
    for (int32_t v = 0; v < paths->tree->rows; v++) {
        if (walk.piece[v] == 0) walk_tree(paths, &walk, v);
    }
}

/* c - v of a pair that carries flow; of a row without flow, of its cheapest pair. */
static double price_of_row(const ota_transport_paths *paths, int32_t i) {
    const int32_t e = paths->arcs.of_row[i];
    const int32_t *column = paths->lists.column + (int64_t)i * paths->lists.stride;
    const double *cost = paths->lists.cost + (int64_t)i * paths->lists.stride;
    if (e != OTA_NO_NODE || ota_full_column(paths, i, 0) != OTA_NO_NODE)
        return ota_row_potential(paths, i);
    double least = INFINITY;
    for (int32_t k = 0; k < paths->lists.count[i]; k++)
        least = fmin(least, cost[k] - paths->price[column[k]]);
    return least < INFINITY ? least : 0.0;
}

void ota_transport_paths_plant(ota_transport_paths *paths) {
    ota_transport_tree *tree = paths->tree;
    const ota_flow_arcs *arcs = &paths->arcs;
    ota_flow_take_cycles_out(paths);
    ota_tree_clear(tree);
    int32_t *stack = paths->search.heap, *by = paths->search.reached;
    for (int32_t top = 0; top < tree->rows; top++) {
        if (tree->links.parent[top] != OTA_NO_NODE) continue;
        int32_t count = 1;
        stack[0] = top;
        by[top] = OTA_NO_NODE;
        ota_tree_hang(tree, top, tree->root, 0, price_of_row(paths, top));
        while (count > 0) {
            const int32_t v = stack[--count];
            for (int32_t e = first_of(paths, v); e != OTA_NO_NODE; e = next_of(paths, v, e)) {
                if (e == by[v]) continue;
                const int32_t end = other_end(paths, v, e);
                ota_tree_hang(tree, end, v, arcs->amount[e],
                              ota_path_cost(paths, arcs->row[e], arcs->column[e]));
                by[end] = e;
                stack[count++] = end;
            }
        }
    }
    /* All that a column gets may come from full pairs, which are no arcs. */
    for (int32_t w = 0; w < tree->columns; w++) {
        const int32_t v = tree->rows + w;
        if (tree->links.parent[v] == OTA_NO_NODE && tree->load[v] > 0 && paths->full.of_row != NULL)
            ota_tree_hang(tree, v, tree->root, 0, paths->price[w]);
    }
}
