/* combinatorial.h: the hard regulariser with coupled columns, on one dense head of scores S [n][m],
 * f64 or f32.
 *
 *     maximise  sum_ij P_ij S_ij    over  P >= 0,  S_ij = -inf forbidden,  and
 *     assignment   P in {0, 1}, min(n, m) pairs, no row and no column twice
 *     transport    P 1 = mu [n],  P^T 1 = nu [m]  (or floor nu <= P^T 1 <= nu, capped)
 *
 * Both leave potentials with  S_ij + f_i + g_j <= 0  wherever S_ij is finite (to rounding of that very
 * sum), so that every dual value below bounds the optimum from above:
 *
 *     assignment   -(sum f + sum g);  n < m: g <= 0, and 0 where unmatched;  n > m: the same of f
 *     transport    -(sum mu f + sum nu g);  capped: g <= 0, and 0 where capacity is left; with a floor g > 0
 *                  where the least sum binds, which then stands for nu; with caps of pairs, where
 *                  S_ij + f_i + g_j > 0 needs P_ij = cap_ij, and sum cap max(0, S + f + g) more
 *
 * Ties are nonfinite by the order of the operations alone: any optimum, the same on all machines with
 * IEEE arithmetic. Nothing here allocates; workspaces are 64-byte aligned and belong to the caller.
 *
 * This folder: matchings by shortest augmenting paths (augmenting_paths.c), over all pairs (assignment_dense.c) or
 * over candidates (assignment_sparse.c); transport by shortest augmenting paths over candidates (transport_paths.c) and
 * the network simplex (transport.c on the tree of transport_tree.c); their rows of the table of solvers (hard.c). Where costs dwarf others assignment_dense.c caps
 * what no best matching uses, and transport_exact.c goes on in exact arithmetic. May call: what src/solvers/ may. */
#ifndef OTA_COMBINATORIAL_H
#define OTA_COMBINATORIAL_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/costs.h"
#include "backend/matching.h"
#include "base/integers.h"
#include "otattn.h"
#include "problem/feasible.h"
#include "problem/problem.h"

typedef struct ota_assignment {
    int64_t n, m;
    const void *scores; /* [n][stride], f64 or, where `narrow`, f32 */
    int64_t stride;     /* >= m */
    bool narrow;
    bool minimise;                  /* the scores are costs: S is minus them */
    const ota_costs *costs;         /* how rows of `scores` are read */
    const ota_match_passes *passes; /* over dense matrices of costs; NULL: by candidates always */
    ota_watch watch;
    int64_t *match; /* out [n]: the row's column, -1 = unassigned (only when n > m) */
    double *f, *g;  /* out [n], [m]; both or none */
    bool
        apart; /* out: costs of the pairs are so far apart that the small ones got lost; ota_transport_solve
                       finds the optimum all the same */
} ota_assignment;

/* Bytes for ota_assignment_solve; SIZE_MAX on overflow. */
size_t ota_assignment_workspace(int64_t n, int64_t m, bool narrow);
/* OTA_OK, OTA_INFEASIBLE (no min(n, m) allowed pairs fit together), OTA_NONFINITE (a NaN or +inf
 * score) or what the watch said; the outputs count only under OTA_OK. */
ota_status ota_assignment_solve(ota_assignment *problem, void *workspace);

typedef struct ota_transport {
    int64_t n, m;
    const void *scores; /* [n][stride], f64 or, where `narrow`, f32 */
    int64_t stride;     /* >= m */
    bool narrow;
    const double *mu; /* [n] >= 0 */
    const double *nu; /* [m] >= 0; +inf allowed when capped */
    bool capped;
    double floor; /* least sum of a capped column, in units of nu, which is finite; 0: none */
    const ota_entry_caps *caps; /* of pairs; NULL: none */
    bool flat;                  /* scores that are not -inf count as 0: is there any plan? */
    double sink;      /* score of one more column that takes what the others leave (exact: the
                             rest of mu; capped: anything), -inf = none. Its potential is 0. */
    double tolerance; /* relative difference of masses that counts as equal; 0: rounding alone */
    const ota_costs *costs; /* how rows of f64 are read */
    ota_watch watch;
    double
        *plan; /* out [n][plan_stride], columns 0 ... m-1 of every row written; NULL: not wanted */
    int64_t plan_stride; /* >= m */
    double *f, *g;       /* out [n], [m]; 0 for rows without any allowed column */
    int64_t paths;       /* out: how many were shipped along */
    int64_t pivots;      /* out: how many the simplex took after that */
} ota_transport;

/* What a problem has that takes memory: nothing, a least sum of columns, caps of pairs (and a least sum, or none). */
typedef enum ota_transport_kind {
    OTA_TRANSPORT_PLAIN,
    OTA_TRANSPORT_FLOOR,
    OTA_TRANSPORT_CAPS
} ota_transport_kind;

static inline ota_transport_kind ota_transport_kind_of(bool caps, bool floor) {
    return caps ? OTA_TRANSPORT_CAPS : floor ? OTA_TRANSPORT_FLOOR : OTA_TRANSPORT_PLAIN;
}

/* Bytes for ota_transport_solve; SIZE_MAX on overflow. */
size_t ota_transport_workspace(int64_t n, int64_t m, ota_transport_kind kind);
/* OTA_OK, OTA_INFEASIBLE, OTA_EINVAL (masses), OTA_NONFINITE (a NaN or +inf score) or what the watch
 * said; the outputs count only under OTA_OK. */
ota_status ota_transport_solve(ota_transport *problem, void *workspace);

/* ---- shared by the two ---------------------------------------------------------------------- */

/* Rows of costs are padded with +inf to whole groups of lanes, so that loops over a group have a
 * constant count and compile to vector code without reassociation. */
enum { OTA_LANES = 8 };

static inline int64_t ota_padded(int64_t count) { return ota_int_round_up(count, OTA_LANES); }

static inline double ota_lanes_lowest(const double lane[OTA_LANES]) {
    double lowest = lane[0];
    for (int l = 1; l < OTA_LANES; l++) lowest = lane[l] < lowest ? lane[l] : lowest;
    return lowest;
}

/* min_j cost[j] - price[j] over `padded` entries. */
static inline double ota_lowest_reduced(const double *restrict cost, const double *restrict price,
                                        int64_t padded) {
    double lane[OTA_LANES];
    for (int l = 0; l < OTA_LANES; l++) lane[l] = INFINITY;
    for (int64_t j = 0; j < padded; j += OTA_LANES) {
        for (int l = 0; l < OTA_LANES; l++) {
            double reduced = cost[j + l] - price[j + l];
            lane[l] = reduced < lane[l] ? reduced : lane[l];
        }
    }
    return ota_lanes_lowest(lane);
}

/* A power of two that keeps sums of many costs finite: 1 unless |score| reaches 2^900. */
static inline double ota_safe_factor(double largest) { return largest < 0x1p900 ? 1.0 : 0x1p-160; }

#endif
