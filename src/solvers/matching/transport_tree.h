/* transport_tree.h: the strongly feasible tree of the network simplex (transport.c) and its pivots. */
#ifndef OTA_TRANSPORT_TREE_H
#define OTA_TRANSPORT_TREE_H

#include "base/base.h"
#include "combinatorial.h"
#include "exact_sums.h"

enum { OTA_NO_NODE = -1 };

typedef struct ota_transport_tree {
    int64_t n, m;          /* of the problem; column m is the sink */
    int32_t rows, columns; /* nodes 0 ... rows-1, rows ... rows+columns-1, root rows+columns */
    int32_t spare_row;     /* its node, or OTA_NO_NODE */
    int32_t root;
    int64_t padded;
    double factor;
    ota_units units;
    /* the problem in units and by nodes, written before the first pivot */
    struct {
        double *mass, *capacity;     /* [n], [m+1] with the sink's */
        int64_t *supply, *demand;    /* [n], [m+1] in units */
        int64_t *row_of, *column_of; /* [rows], [columns]: indices; n = spare, m = sink */
        uint8_t *least;              /* [columns] the node of a least sum */
        uint8_t *touched;            /* [columns] some row may ship there */
    } asked;
    int64_t *load;           /* [rows+columns] units of each node */
    double *top;             /* [rows], scaled */
    double *cost;            /* [rows][padded] */
    double *price;           /* [padded]: x_j, less what rounding may have added */
    double *x, *error, *arc; /* [nodes]: potential, its rounding bound, cost of the parent arc */
    int64_t *flow; /* [nodes] on the parent arc, which runs i -> j whichever is the child */
    /* the tree itself */
    struct {
        int32_t *parent, *child, *next, *previous, *depth; /* [nodes] */
    } links;
    bool moved;       /* a pivot has changed a flow */
    bool refined;     /* x are the values of `exact`, tops within */
    ota_exact *exact; /* [nodes] potentials of the frame (transport_exact.c) */
    /* of the plan, once it ships everything */
    struct {
        double *row_sum;      /* [n] sink included */
        int32_t *row_entries; /* [n] */
    } plan;
} ota_transport_tree;

static inline bool ota_tree_is_row(const ota_transport_tree *tree, int32_t v) {
    return v < tree->rows;
}

static inline double ota_transport_score(const ota_transport *problem, int64_t i, int64_t j) {
    if (j == problem->m) return problem->sink;
    const int64_t at = i * problem->stride + j;
    const double score = problem->narrow ? (double)((const float *)problem->scores)[at]
                                         : ((const double *)problem->scores)[at];
    return problem->flat && score > -INFINITY && score < INFINITY ? 0.0 : score;
}

static inline bool ota_tree_is_least(const ota_transport_tree *tree, int32_t w) {
    return tree->asked.least != NULL && tree->asked.least[w] != 0;
}

/* Score of row node v and column node w; the spare row ships at 0, but not into a least sum. */
static inline double ota_tree_score(const ota_transport_tree *tree, const ota_transport *problem,
                                    int32_t v, int32_t w) {
    if (v == tree->spare_row) return ota_tree_is_least(tree, w) ? -INFINITY : 0.0;
    return ota_transport_score(problem, tree->asked.row_of[v], tree->asked.column_of[w]);
}

/* Nothing hangs from the root. */
void ota_tree_clear(ota_transport_tree *tree);
/* Hangs v from `parent`, which hangs already, by an arc of this flow and cost; from the root: a row, at the price `cost`, or a column
 * whose pairs are all full. */
void ota_tree_hang(ota_transport_tree *tree, int32_t v, int32_t parent, int64_t flow, double cost);
/* Potentials, bounds and depths of the branch below `top`. */
void ota_tree_refresh(ota_transport_tree *tree, int32_t top);
/* Takes row v, whose parent arc is empty, off its parent, to hang from the root at this cost. */
void ota_tree_cut(ota_transport_tree *tree, int32_t v, double cost);
/* Pivots until no arc may enter. OTA_OK or what the watch said. */
ota_status ota_tree_optimise(ota_transport_tree *tree, ota_transport *problem);

/* Of a tree that ships everything: goes on until no arc enters in exact arithmetic, whatever the range of the costs, and leaves
 * the potentials, with the tops in them, as the nearest numbers of type double. OTA_OK, OTA_NOT_CONVERGED or what the watch
 * said. */
ota_status ota_tree_make_exact(ota_transport_tree *tree, ota_transport *problem);
/* Potentials such that the one of this node is 0. */
void ota_tree_shift(ota_transport_tree *tree, int32_t node);

#endif
