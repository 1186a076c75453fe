/* assignment.h: what the two searches for a matching share (assignment.c: over all pairs,
 * assignment_sparse.c: over a few candidates of every row).
 *
 *     costs   c_ij = top_i - S_ij >= 0, top_i = max_j S_ij       [rows][columns], the shorter side is rows
 *     duals   c_ij - u_i - v_j >= 0, with equality on matched pairs
 *
 * Between steps every matched row's own pair is its cheapest at the prices v; u is never stored. */
#ifndef OTA_ASSIGNMENT_H
#define OTA_ASSIGNMENT_H

#include "base/base.h"
#include "solver/combinatorial.h"

/* Candidates kept of one row at most, and columns from which the sparse search pays. */
enum { OTA_CANDIDATES = 96, OTA_SPARSE_FROM = 128 };

typedef struct ota_matching {
    int64_t rows, columns, padded;
    double factor;                   /* scores times this are safe to add up */
    double largest;                  /* |score| times factor, at most */
    double *cost;                    /* [rows][padded], +inf = forbidden or padding */
    double *top;                     /* [rows], scaled */
    double *price;                   /* [padded] v */
    double *distance;                /* [padded] of columns not reached for good; +inf afterwards */
    double *open_price;              /* [padded] v, or -inf once the column is reached for good */
    double *final_distance;          /* [columns] */
    int64_t *before;                 /* [padded] row from which a column is reached */
    int64_t *reached;                /* [columns] in the order of their distances */
    int64_t *row_of;                 /* [columns] matched row or -1 */
    int64_t *column_of;              /* [rows] matched column or -1 */
    int64_t *waiting, *next_waiting; /* [rows] */
    /* the sparse search, absent where it does not pay */
    double *candidate_cost;   /* [rows][OTA_CANDIDATES] */
    int32_t *candidate;       /* the same shape: columns */
    int32_t *candidate_count; /* [rows] */
    double *own_cost;         /* [rows] of the matched pair */
    double *lowest;           /* [groups] smallest reduced cost of a group of columns */
    int64_t *heap,
        *heap_slot; /* [columns] open columns by distance; where each of them lies, or -1 */
} ota_matching;

/* Finds prices and a partial matching, with every row's cheapest pair among ALL its pairs where it is
 * matched. `*left` = rows still unmatched, listed in next_waiting: 0 unless the candidates did not do.
 * Square problems without NaN or +inf, `top`, `factor` and `largest` set, all else as allocated. */
ota_status ota_assignment_sparse(ota_matching *state, const ota_assignment *problem, int64_t *left);

#endif
