/* ring_fixed_rounds.h: a fixed number of rounds in a ring, run again from their start, for backward, which reverses them, and for
 * tangents, which move with them. */
#ifndef OTA_RING_FIXED_ROUNDS_H
#define OTA_RING_FIXED_ROUNDS_H

#include "ring.h"
#include "solvers/derivatives/adjoint.h"

/* What is kept of every round for its reverse, and of the plan that is returned behind them. A round that is reversed leaves its
 * multipliers: dL/dS of all is formed in one message round. */
struct ota_ring_kept {
    int64_t rounds;
    double *g;   /* [rounds + 1][stride] where it began */
    double *b;   /* [rounds][stride] its column sums, of all ranks; then b */
    double *lse; /* [rounds + 1][rows] */
    double *f;   /* [rounds][rows] once it is reversed, as is: */
    double *a;   /* [rounds + 1][rows] */
};

/* Once the lse of the rows and the column sums of a round are known. */
typedef ota_status ota_ring_round(ota_ring_device *ring, const ota_head *head, int64_t round,
                                  void *context);

void ota_ring_lay_out_kept(ota_ring_device *ring, ota_arena *arena);
/* The head of the unit at work: all rounds from what forward began with, `head` with the targets they aim at. Leaves the g
 * that follows the last. */
ota_status ota_ring_replay(ota_ring_device *ring, const ota_arrays *arrays, ota_ring_round *visit,
                           void *context, ota_head *head);
/* Key j of a round that began at g and came to this sum. */
ota_key_update ota_ring_update(const ota_head *head, int64_t j, double g, double sum);
/* The gradients of a head whose query_sums are 0. */
ota_status ota_ring_reverse_rounds(ota_plan *plan, const ota_arrays *arrays,
                                   const ota_gradients *want);

#endif
