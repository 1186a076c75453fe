/* ring_limits.h: derivatives by masses of 0 (operator/mass_limits.h) of keys that come round: what queries without mass would weigh
 * is summed while all keys come by, what keys without mass would weigh over the rows of all ranks. */
#ifndef OTA_RING_LIMITS_H
#define OTA_RING_LIMITS_H

#include "operator/jvp.h"
#include "operator/mass_limits.h"
#include "ring.h"
#include "ring_pairs.h"

struct ota_ring_limits {
    bool any;                        /* a mass of 0 of some rank has a limit in the call at work */
    bool queries, keys;              /* of this rank, as ota_backward_job has them */
    ota_limit_sums of_rows, of_keys; /* [rows], [keys] */
    double *line;                    /* [keys] */
    /* [rows], [keys]: as ota_tangent_limits, of all heads of the unit */
    double *of_query, *by_keys, *of_key, *by_queries;
    /* [keys] of fixed rounds: L of the round visited before, and backward's mean of it, or NULL */
    double *level, *mean;
};

void ota_ring_lay_out_limits(ota_ring_device *ring, ota_arena *arena);
/* A call that takes derivatives by these begins, on all ranks. False: the communicator failed. */
bool ota_ring_begin_limits(ota_plan *plan, const ota_array *rows, const ota_array *columns);

/* Backward of the unit at work, whose other multipliers a [rows] and b [keys], or NULL, are known: those of queries and keys without
 * mass, in their places. False: the communicator failed. */
bool ota_ring_take_limits(ota_plan *plan, const ota_array *out_grad, double *a, double *b);
/* Fixed rounds, from the plan that is returned, which has out_grad, to the first: one of them, whose a and b in units of 1 / `unit` are
 * known. Adds the derivatives by such masses and targets. A query has its row of unit mass; a key begins a round at -L of the one
 * before, so that its weights add up to exp(L - L before). False: the communicator failed. */
bool ota_ring_take_round_limits(ota_plan *plan, const ota_array *out_grad, const double *a,
                                const double *b, double unit, const ota_unrolled_sums *sums);
/* Is the mass of row k of the unit, or of a key, one that grows? */
bool ota_ring_row_grows(ota_plan *plan, int64_t k);
bool ota_ring_key_grows(ota_plan *plan, int64_t key);

/* Tangents of a unit begin. */
void ota_ring_start_limits(ota_plan *plan);
/* Tangents of the unit at work, once potentials are known, of fixed rounds in every round: how the sums that are asked of queries and keys
 * without mass move, and what that moves of the sums of all others. False: the communicator failed. */
bool ota_ring_move_limits(ota_plan *plan, const ota_tangents *tangents);
/* dP of row k of a block added to `change`, of one that grows all of it. */
void ota_ring_add_grown(ota_plan *plan, const ota_ring_block *b, int64_t k, double *change);

#endif
