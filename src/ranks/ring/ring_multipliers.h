/* ring_multipliers.h: the semi-dual system of a head with coupled columns in a ring, for backward and for tangents: its right side
 * and slopes come from message rounds, its solution a [rows], b [keys] leaves the last message round as rows alone. */
#ifndef OTA_RING_MULTIPLIERS_H
#define OTA_RING_MULTIPLIERS_H

#include "ring.h"

struct ota_ring_adjoint {
    double *line;                                                  /* [room] */
    double *row_right, *den, *a, *product;                         /* [rows] */
    double *b, *right, *extra, *sums, *own_sums, *terms, *vectors; /* [keys] */
    unsigned char *held;                                           /* [keys] */
    /* Sums of P: den and `sums` where weights are their own slopes. */
    double *row_sums, *column_sums; /* [rows], [keys] */
    double *own_columns;            /* [keys] of this rank's rows, or NULL */
    const double *x;                /* of the product at hand */
};

void ota_ring_lay_out_adjoint(ota_ring_device *ring, ota_arena *arena);
/* The potentials that forward found, and the lse of rows or, pair by pair, their potentials; false: the communicator failed. */
bool ota_ring_load_potentials(ota_ring_device *ring, const ota_arrays *arrays, bool with_out);
/* den of the rows; of Newton's the sums of their slopes that the pairs hold. */
void ota_ring_set_den(ota_ring_device *ring);
/* P x of this rank's rows into `product`; false: the communicator failed. */
bool ota_ring_multiply(ota_ring_device *ring, const double *x);
/* right, terms and sums of this rank's rows become those of all (false: the communicator failed), own_sums are this rank's;
 * then a and b. */
bool ota_ring_sum_adjoint(ota_ring_device *ring);
/* OTA_TOL_UNREACHABLE: the plan of the potentials misses the sums that it must have. */
ota_status ota_ring_solve_adjoint(ota_plan *plan, double *residual);

/* Backward: a [rows] and b [keys]. */
ota_status ota_ring_multipliers(ota_plan *plan, const ota_arrays *arrays, const ota_gradients *want,
                                double *residual);
/* den, and row_right = out_grad . out. */
void ota_ring_set_rows(ota_ring_device *ring, const ota_gradients *want);

#endif
