/* transport_tree.c: tree, prices and pivots of the network simplex (transport.c). */
#include "transport_tree.h"

#include <float.h>

enum { PIVOTS_PER_QUESTION = 64, BLOCK_FLOOR = 16 };

static void attach(ota_transport_tree *tree, int32_t v, int32_t parent) {
    int32_t first = tree->links.child[parent];
    tree->links.parent[v] = parent;
    tree->links.next[v] = first;
    tree->links.previous[v] = OTA_NO_NODE;
    if (first != OTA_NO_NODE) tree->links.previous[first] = v;
    tree->links.child[parent] = v;
}

static void detach(ota_transport_tree *tree, int32_t v) {
    int32_t before = tree->links.previous[v];
    int32_t after = tree->links.next[v];
    if (before == OTA_NO_NODE) {
        tree->links.child[tree->links.parent[v]] = after;
    } else {
        tree->links.next[before] = after;
    }
    if (after != OTA_NO_NODE) tree->links.previous[after] = before;
}

/* Potential, bound, depth and class of one node from its parent's. */
static void refresh_node(ota_transport_tree *tree, int32_t v) {
    int32_t parent = tree->links.parent[v];
    double x = tree->arc[v] - tree->x[parent];
    double error = tree->error[parent] + DBL_EPSILON * fabs(x);
    tree->x[v] = x;
    tree->error[v] = error;
    tree->links.depth[v] = tree->links.depth[parent] + 1;
    if (ota_tree_is_row(tree, v)) return;
    /* The extra units of |x| cover the two roundings of the test itself. */
    tree->price[v - tree->rows] = x - (error + 4.0 * DBL_EPSILON * fabs(x));
}

void ota_tree_refresh(ota_transport_tree *tree, int32_t top) {
    int32_t v = top;
    for (;;) {
        refresh_node(tree, v);
        if (tree->links.child[v] != OTA_NO_NODE) {
            v = tree->links.child[v];
            continue;
        }
        while (v != top && tree->links.next[v] == OTA_NO_NODE) v = tree->links.parent[v];
        if (v == top) return;
        v = tree->links.next[v];
    }
}

void ota_tree_clear(ota_transport_tree *tree) {
    const int32_t root = tree->root;
    for (int64_t w = 0; w < tree->padded; w++) tree->price[w] = -INFINITY;
    for (int32_t v = 0; v <= root; v++) {
        tree->links.child[v] = OTA_NO_NODE;
        tree->links.parent[v] = OTA_NO_NODE;
    }
    tree->x[root] = 0.0;
    tree->error[root] = 0.0;
    tree->links.depth[root] = 0;
}

void ota_tree_hang(ota_transport_tree *tree, int32_t v, int32_t parent, int64_t flow, double cost) {
    attach(tree, v, parent);
    tree->flow[v] = flow;
    tree->arc[v] = cost;
    refresh_node(tree, v);
}

void ota_tree_cut(ota_transport_tree *tree, int32_t v, double cost) {
    detach(tree, v);
    attach(tree, v, tree->root);
    tree->arc[v] = cost;
}

/* The arc (i, j) enters. */
static void pivot(ota_transport_tree *tree, int32_t i, int32_t j, double cost) {
    const int32_t *parent = tree->links.parent;
    int32_t a = i;
    int32_t b = j;
    while (a != b) {
        int32_t difference = tree->links.depth[a] - tree->links.depth[b];
        if (difference >= 0) a = parent[a];
        if (difference <= 0) b = parent[b];
    }
    int32_t apex = a;

    /* Pushed i -> j -> apex -> i, a row's parent arc above i and a column's above j lose flow. The last
     * blocking arc from the apex round is the first met above i, but the last met above j. */
    int64_t amount = INT64_MAX;
    int32_t leaving = OTA_NO_NODE;
    bool above_row = true;
    for (int32_t v = i; v != apex; v = parent[v]) {
        if (ota_tree_is_row(tree, v) && tree->flow[v] < amount) {
            amount = tree->flow[v];
            leaving = v;
        }
    }
    for (int32_t v = j; v != apex; v = parent[v]) {
        if (!ota_tree_is_row(tree, v) && tree->flow[v] <= amount) {
            amount = tree->flow[v];
            leaving = v;
            above_row = false;
        }
    }
    if (amount > 0) {
        tree->moved = true;
        for (int32_t v = i; v != apex; v = parent[v])
            tree->flow[v] += ota_tree_is_row(tree, v) ? -amount : amount;
        for (int32_t v = j; v != apex; v = parent[v])
            tree->flow[v] += ota_tree_is_row(tree, v) ? amount : -amount;
    }
    /* The branch below the leaving arc is turned over to hang from the entering one. */
    int32_t v = above_row ? i : j;
    int32_t top = v;
    int32_t above = above_row ? j : i;
    int64_t flow = amount;
    for (;;) {
        int32_t old_parent = parent[v];
        int64_t old_flow = tree->flow[v];
        double old_cost = tree->arc[v];
        detach(tree, v);
        attach(tree, v, above);
        tree->flow[v] = flow;
        tree->arc[v] = cost;
        if (v == leaving) break;
        above = v;
        v = old_parent;
        flow = old_flow;
        cost = old_cost;
    }
    ota_tree_refresh(tree, top);
}

/* Rows are priced in turn, each in full, until a block of arcs was seen and something may enter. */
static bool price(const ota_transport_tree *tree, int32_t *next_row, int64_t block,
                  ota_watch *watch, int32_t *row, int32_t *column) {
    int64_t seen = 0;
    double best = 0.0;
    *row = OTA_NO_NODE;
    for (int32_t k = 0; k < tree->rows && !ota_watch_ends(watch, tree->padded); k++) {
        int32_t v = *next_row;
        *next_row = v + 1 < tree->rows ? v + 1 : 0;
        double lowest =
            ota_lowest_reduced(tree->cost + v * tree->padded, tree->price, tree->padded);
        double own = tree->x[v] - (tree->error[v] + 4.0 * DBL_EPSILON * fabs(tree->x[v]));
        double reduced = lowest - own;
        if (reduced < best) {
            best = reduced;
            *row = v;
        }
        seen += tree->padded;
        if (*row != OTA_NO_NODE && seen >= block) break;
    }
    if (*row == OTA_NO_NODE) return false;
    const double *cost = tree->cost + *row * tree->padded;
    double lowest = ota_lowest_reduced(cost, tree->price, tree->padded);
    for (int32_t w = 0; w < tree->columns; w++) {
        if (cost[w] - tree->price[w] == lowest) {
            *column = w;
            return true;
        }
    }
    return false;
}

ota_status ota_tree_optimise(ota_transport_tree *tree, ota_transport *problem) {
    int32_t next_row = 0;
    int32_t row;
    int32_t column;
    int64_t block = (int64_t)sqrt((double)tree->rows * (double)tree->columns);
    if (block < BLOCK_FLOOR) block = BLOCK_FLOOR;
    ota_watch watch = problem->watch;
    while (price(tree, &next_row, block, &watch, &row, &column)) {
        pivot(tree, row, tree->rows + column, tree->cost[row * tree->padded + column]);
        if (problem->pivots++ % PIVOTS_PER_QUESTION == 0) {
            ota_status status = ota_watch_ask(&watch);
            if (status != OTA_OK) return status;
        }
    }
    return ota_watch_ask(&watch);
}
