/* ring_masses.h: gradients of masses and of the parameters of column rules, in the operator's sums: of every head of the rank's rows, and
 * of coupled columns of all keys. */
#ifndef OTA_RING_MASSES_H
#define OTA_RING_MASSES_H

#include "operator/backward.h"
#include "ring.h"

void ota_ring_lay_out_masses(ota_ring_device *ring, ota_arena *arena);
void ota_ring_begin_masses(ota_plan *plan);
/* Those of the rows of the unit at work. */
double *ota_ring_row_masses(const ota_ring_device *ring);
/* The unit at work, one head, as the operator sees it. */
ota_backward_job ota_ring_job(ota_plan *plan);
/* Of a head with coupled columns, of fixed rounds with their own sums; which keys some row of any rank may use. */
void ota_ring_sum_masses(ota_plan *plan, ota_mass_rule *rule, const ota_unrolled_sums *sums,
                         unsigned char *used);
/* Of a solution with these column sums. A communicator that failed is seen by the next message. */
void ota_ring_find_used(ota_plan *plan, const double *sums, unsigned char *used);

#endif
