/* augmenting_paths.h: the state of a search for a matching (augmenting_paths.c), most of it for the one over a few candidates of every
 * row (assignment_sparse.c).
 *
 *     costs   c_ij = top_i - S_ij >= 0, top_i = max_j S_ij       [rows][columns], the shorter side is rows
 *     duals   c_ij - u_i - v_j >= 0, with equality on matched pairs;  rows < columns: v_j = 0 where unmatched
 *
 * Between steps every matched row's own pair is its cheapest at the prices v; u is never stored. Prices only
 * fall. */
#ifndef OTA_ASSIGNMENT_H
#define OTA_ASSIGNMENT_H

#include "base/base.h"
#include "backend/costs.h"
#include "combinatorial.h"
#include "assignment_dense.h"

/* Candidates kept of one row at most; pairs of a problem, and of a wide one, that go over a dense matrix: 1.5 and 8 MB. */
enum { OTA_CANDIDATES = 192, OTA_DENSE_PAIRS = 3 << 16, OTA_DENSE_WIDE = 1 << 20 };

typedef struct ota_matching {
    int64_t rows, columns, padded;
    const ota_costs *read;
    const void *scores; /* [rows][stride]: the problem's, or transposed */
    void *transposed;   /* [rows][padded], where the problem has more rows than columns */
    int64_t stride;     /* bytes from a row to the next */
    double sign;        /* -1 where the scores are costs */
    double factor;      /* scores times this are safe to add up and as large as can be in the end */
    double largest;     /* |score| times factor, at most */
    double limit;       /* costs above it count as this much; +inf at first */
    bool priced;      /* v_j = min_i c_ij, of the rows in `before`, and nothing has changed since */
    double *top;      /* [rows], scaled */
    double *price;    /* [padded] v */
    double *distance; /* [padded] of columns not reached for good; +inf afterwards */
    double *final_distance;          /* [columns] */
    int64_t *before;                 /* [padded] row from which a column is reached */
    int64_t *reached;                /* [columns] in the order of their distances */
    int64_t *row_of;                 /* [columns] matched row or -1 */
    int64_t *column_of;              /* [rows] matched column or -1 */
    int64_t *waiting, *next_waiting; /* [rows] */
    ota_match dense;                 /* the search over all pairs, where that pays */
    /* the search on candidates (assignment_sparse.c): a list a row */
    struct {
        double *cost;    /* [rows][OTA_CANDIDATES] */
        int32_t *column; /* the same shape */
        int32_t *count;  /* [rows]; -1: not listed yet */
        double *bound;   /* [rows] no pair that is not listed has a reduced cost below it */
        double *reach;   /* [rows] how far its first list reached; -1: there is no room for more */
        double *lowest;  /* [groups] smallest reduced cost of a group of columns */
    } lists;
    double *own_cost;    /* [rows] of the matched pair */
    double *offset;      /* [rows] what its own u makes of the distances through it */
    double *row_cost;    /* [padded + 1] some pairs of one row */
    int32_t *row_column; /* the same */
    /* `distance` and what the heap holds go on with rows whose list may grow */
    int64_t *heap;      /* [columns + rows] open ones by distance */
    int64_t *heap_slot; /* the same: where each of them lies, or -1 */
} ota_matching;

static inline ota_score_row ota_matching_row(const ota_matching *state, int64_t i) {
    return (ota_score_row){.scores = (const char *)state->scores + i * state->stride,
                           .count = state->columns,
                           .top = state->top[i],
                           .factor = state->factor,
                           .limit = state->limit};
}

/* Matches every row; nothing is matched at first, and prices are 0 or `priced`. OTA_OK, OTA_INFEASIBLE or what the
 * watch said. */
ota_status ota_assignment_sparse(ota_matching *state, ota_watch *watch);

/* f_i = -max_j (S_ij + g_j), g = v / factor, by the candidates where they suffice. */
double ota_assignment_potential(const ota_matching *state, int64_t i, const double *g);

#endif
