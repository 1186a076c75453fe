/* transport_exact.c: the optimum of transport in exact arithmetic, whatever the range of the costs.
 *
 * Where some costs are 1e16 times others a potential of type double that takes a large one in no longer tells the small ones
 * apart. So once a tree ships everything, and its potentials are too coarse for what it costs, the costs are taken against them,
 *
 *     c'_ij = -S_ij - X_i - X_j       X a sum without rounding (exact_sums.h), c' the nearest double
 *
 * which changes no plan's rank. Arcs of the tree then cost next to nothing, and new potentials are small and fine; the large costs are
 * left on pairs that nobody wants. The pivots go on, X takes the new potentials in, and so on until nothing enters: the refinement of
 * linear programs by scaled residuals [LIT-06].
 *
 * Potentials are to be as small as the costs of what is shipped. So a branch that hangs by an empty arc of a large cost is cut
 * off first and hangs from the root by itself; it comes back by that arc only where nothing else holds it. */
#include <float.h>

#include "transport_tree.h"

enum { STAGES = 64, ROWS_PER_QUESTION = 64 };

/* A relative error of potentials that shows nowhere, how far above what is shipped others are large, and incomparable. */
static const double FINE = 0x1p-36, LARGE = 0x1p10, FAR = 0x1p30;

static bool is_planted(const ota_transport_tree *tree, int32_t v) {
    return tree->links.parent[v] != OTA_NO_NODE;
}

static bool is_artificial(const ota_transport_tree *tree, int32_t v) {
    return tree->links.parent[v] == tree->root;
}

/* c'_ij of row node v and column node w, whose pair is allowed. */
static double cost_against(const ota_transport_tree *tree, const ota_transport *problem, int32_t v,
                           int32_t w) {
    ota_exact sum = tree->exact[v];
    for (int32_t k = 0; k < tree->exact[tree->rows + w].count; k++)
        ota_exact_add(&sum, tree->exact[tree->rows + w].part[k]);
    ota_exact_add(&sum, ota_tree_score(tree, problem, v, w) * tree->factor);
    return -ota_exact_value(&sum);
}

static double cost_of_arc(const ota_transport_tree *tree, int32_t v) {
    const int32_t row = ota_tree_is_row(tree, v) ? v : tree->links.parent[v];
    const int32_t column = ota_tree_is_row(tree, v) ? tree->links.parent[v] : v;
    return tree->cost[row * tree->padded + (column - tree->rows)];
}

/* Cost of the parent arc of v, tops off, as the problem has it. */
static double given_cost(const ota_transport_tree *tree, const ota_transport *problem, int32_t v) {
    const int32_t row = ota_tree_is_row(tree, v) ? v : tree->links.parent[v];
    const int32_t column = (ota_tree_is_row(tree, v) ? tree->links.parent[v] : v) - tree->rows;
    return tree->top[row] - ota_tree_score(tree, problem, row, column) * tree->factor;
}

/* What a unit of mass costs where it does not cost incomparably more than elsewhere, tops off; from which cost on others are
 * large; and what the potentials may be off. */
typedef struct tree_prices {
    double mean, large, error;
    bool far; /* costs of the tree are so far apart that the small ones show in no potential */
} tree_prices;

static tree_prices price_range(const ota_transport_tree *tree, const ota_transport *problem) {
    double least[2] = {INFINITY, INFINITY}, most = 0.0, whole = 0.0, mass = 0.0;
    tree_prices found = {.large = INFINITY};
    for (int32_t v = 0; v < tree->rows; v++) {
        const double top = fabs(tree->top[v]);
        if (top > 0.0) least[0] = fmin(least[0], top);
    }
    for (int32_t v = 0; v < tree->root; v++) {
        if (!is_planted(tree, v)) continue;
        found.error = fmax(found.error, tree->error[v]);
        if (is_artificial(tree, v)) continue;
        const double cost = given_cost(tree, problem, v);
        double *of = &least[tree->flow[v] > 0];
        if (cost > 0.0) *of = fmin(*of, cost);
        most = fmax(most, cost);
    }
    for (int32_t v = 0; v < tree->root; v++) {
        if (!is_planted(tree, v) || is_artificial(tree, v)) continue;
        const double cost = given_cost(tree, problem, v), flow = (double)tree->flow[v];
        if (!(cost <= FAR * least[1])) continue;
        whole += cost * flow;
        mass += flow;
    }
    found.mean = mass > 0.0 ? whole / mass : 0.0;
    found.large = found.mean > 0.0 ? LARGE * found.mean : LARGE * LARGE * least[0];
    if (!(found.large < most)) found.large = INFINITY;
    found.far = most >= FAR * fmin(least[0], least[1]);
    return found;
}

/* Hangs the branches below empty arcs of large cost from the root, each at the price its top gives it. */
static void cut_large(ota_transport_tree *tree, const ota_transport *problem, double large) {
    for (int32_t v = 0; v < tree->rows; v++) {
        if (is_artificial(tree, v) || tree->flow[v] != 0) continue;
        const double score =
            ota_tree_score(tree, problem, v, tree->links.parent[v] - tree->rows) * tree->factor;
        if (!(tree->top[v] - score > large)) continue;
        ota_exact apart = tree->exact[v];
        ota_exact_add(&apart, tree->top[v]);
        ota_tree_cut(tree, v, -ota_exact_value(&apart));
        ota_tree_refresh(tree, v);
    }
}

static void refresh_all(ota_transport_tree *tree) {
    for (int32_t v = tree->links.child[tree->root]; v != OTA_NO_NODE; v = tree->links.next[v])
        ota_tree_refresh(tree, v);
}

/* X takes the potentials in, and all costs are taken against it. */
static ota_status rebase(ota_transport_tree *tree, const ota_transport *problem) {
    for (int32_t v = 0; v < tree->root; v++) {
        if (is_planted(tree, v)) ota_exact_add(&tree->exact[v], tree->x[v]);
    }
    for (int32_t v = 0; v < tree->rows; v++) {
        double *cost = tree->cost + v * tree->padded;
        for (int32_t w = 0; w < tree->columns; w++) {
            if (cost[w] < INFINITY) cost[w] = cost_against(tree, problem, v, w);
        }
        if (v % ROWS_PER_QUESTION != 0) continue;
        const ota_status status = ota_watch_ask(&problem->watch);
        if (status != OTA_OK) return status;
    }
    for (int32_t v = 0; v < tree->root; v++) {
        if (is_planted(tree, v)) tree->arc[v] = is_artificial(tree, v) ? 0.0 : cost_of_arc(tree, v);
    }
    refresh_all(tree);
    return OTA_OK;
}

static void write_exact(ota_transport_tree *tree) {
    for (int32_t v = 0; v < tree->root; v++) {
        if (!is_planted(tree, v)) continue;
        ota_exact_add(&tree->exact[v], tree->x[v]);
        tree->x[v] = ota_exact_value(&tree->exact[v]);
    }
    for (int32_t v = 0; v < tree->rows; v++) tree->top[v] = 0.0;
    tree->refined = true;
}

void ota_tree_shift(ota_transport_tree *tree, int32_t node) {
    if (!tree->refined) return;
    const ota_exact zero = tree->exact[node];
    ota_exact minus = {.count = zero.count};
    for (int32_t k = 0; k < zero.count; k++) minus.part[k] = -zero.part[k];
    for (int32_t v = 0; v < tree->root; v++) {
        if (!is_planted(tree, v)) continue;
        ota_exact_subtract(&tree->exact[v], ota_tree_is_row(tree, v) ? &minus : &zero);
        tree->x[v] = ota_exact_value(&tree->exact[v]);
    }
}

ota_status ota_tree_make_exact(ota_transport_tree *tree, ota_transport *problem) {
    tree_prices prices = price_range(tree, problem);
    const bool fine =
        prices.mean > 0.0 ? prices.error <= FINE * prices.mean : !(prices.large < INFINITY);
    if (fine && !prices.far) return OTA_OK;
    for (int32_t v = 0; v < tree->root; v++) {
        tree->exact[v].count = 0;
        if (ota_tree_is_row(tree, v)) ota_exact_add(&tree->exact[v], -tree->top[v]);
    }
    tree->moved = true;
    for (int stage = 0; stage < STAGES; stage++) {
        const double before = prices.error;
        prices = price_range(tree, problem);
        if (tree->moved) cut_large(tree, problem, prices.large);
        tree->moved = false;
        ota_status status = rebase(tree, problem);
        const int64_t pivots = problem->pivots;
        if (status == OTA_OK) status = ota_tree_optimise(tree, problem);
        if (status != OTA_OK) return status;
        prices = price_range(tree, problem);
        const bool settled = prices.error <= FINE * prices.mean || !(prices.error < before / 2.0);
        if (pivots < problem->pivots || !settled) continue;
        write_exact(tree);
        return OTA_OK;
    }
    return OTA_NOT_CONVERGED;
}
