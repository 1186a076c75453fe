/* semidual.h: coupled columns in a ring that Newton finds (solvers/newton.c), whose evaluations come from turns. */
#ifndef OTA_RING_SEMIDUAL_H
#define OTA_RING_SEMIDUAL_H

#include "ring.h"

extern const ota_semidual ota_ring_semidual;
/* What a backend with stored scores does for such a head (backend.h). */
bool ota_ring_load(ota_head *head);
void ota_ring_emit(ota_head *head);
void ota_ring_lay_out_passes(ota_passes *passes, ota_arena *arena, bool kernel);
void ota_ring_final_pass(ota_passes *passes);

#endif
