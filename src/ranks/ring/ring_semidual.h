/* ring_semidual.h: coupled columns in a ring that Newton finds (solvers/newton.c), whose evaluations come from message rounds. */
#ifndef OTA_RING_SEMIDUAL_H
#define OTA_RING_SEMIDUAL_H

#include "ring.h"

extern const ota_semidual ota_ring_semidual;
/* What a backend with stored scores does for such a head (backend.h). */
bool ota_ring_load(ota_head *head);
void ota_ring_emit(ota_head *head);
void ota_ring_lay_out_passes(ota_passes *passes, ota_arena *arena, bool kernel);
void ota_ring_final_pass(ota_passes *passes);
/* y_j = - sum_i w_ij (w x)_i / W_i of this rank's rows, whose W_i are in `slope` of the pairs; leaves - (w x)_i / W_i in `first`.
 * `head` is at work by Newton, whose slopes have a bound; NULL: w = P^(2 - alpha). */
void ota_ring_apply_links(ota_ring_device *ring, const ota_head *head, const double *x, double *y);

#endif
