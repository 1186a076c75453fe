/* Gradients of masses and of the parameters of column rules in a ring: once the multipliers of a unit are known they are the
 * operator's own sums (operator/backward_sums.c), as of rows that have all keys. */
#include <math.h>
#include <string.h>

#include "ring_masses.h"

#include "ring_limits.h"
#include "ring_multipliers.h"
#include "ring_pairs.h"

/* Free columns ask nothing of the keys. */
static int64_t keys_of(const ota_ring_device *ring) {
    return ring->coupled ? ring->resolved->keys : 0;
}

void ota_ring_lay_out_masses(ota_ring_device *ring, ota_arena *arena) {
    const ota_resolved *r = ring->resolved;
    const int64_t heads = r->batch * r->heads;
    ota_backward_space *to = ota_arena_take(arena, 1, sizeof *to);
    const ota_backward_space space = {.sums.row_mass = ota_ring_numbers(arena, heads, r->queries),
                                      .sums.column_mass =
                                          ota_ring_numbers(arena, heads, keys_of(ring))};
    if (to != NULL) *to = space;
    ring->backward.space = to;
    ota_ring_lay_out_parameters(ring, arena);
    ota_ring_lay_out_limits(ring, arena);
}

void ota_ring_begin_masses(ota_plan *plan) {
    const ota_ring_device *ring = plan->device;
    const ota_resolved *r = ring->resolved;
    ota_backward_space *s = ring->backward.space;
    const size_t heads = (size_t)(r->batch * r->heads) * sizeof(double);
    memset(s->sums.row_mass, 0, heads * (size_t)r->queries);
    memset(s->sums.column_mass, 0, heads * (size_t)keys_of(ring));
    memset(s->sums.parameters, 0, sizeof s->sums.parameters);
    ota_ring_clear_parameters(plan->device);
}

double *ota_ring_row_masses(const ota_ring_device *ring) {
    const ota_resolved *r = ring->resolved;
    return ring->backward.space->sums.row_mass +
           (ring->unit.batch * r->heads + ring->unit.head) * r->queries;
}

ota_backward_job ota_ring_job(ota_plan *plan) {
    const ota_ring_unit *unit = &plan->device->unit;
    ota_backward_job job = ota_backward_job_of(plan, NULL);
    job.batch = unit->batch;
    job.head = unit->head;
    job.parameters = ota_row_parameters_of(&plan->resolved, unit->batch, unit->head);
    return job;
}

void ota_ring_sum_masses(ota_plan *plan, ota_mass_rule *rule, const ota_unrolled_sums *sums,
                         unsigned char *used) {
    const ota_ring_device *ring = plan->device;
    const ota_resolved *r = ring->resolved;
    const ota_backward_job job = ota_ring_job(plan);
    rule->used = used;
    /* What the columns say all ranks know, and their parts are summed: one of them tells. */
    if (sums != NULL && r->settings.ranks->to.rank == 0)
        ota_sums_of_parameters(ring->backward.space, sums);
    ota_sums_of_masses(&job, rule);
    double *rows = ota_ring_row_masses(ring);
    for (int64_t i = 0; i < r->queries; i++) {
        if (ring->rule == OTA_RING_BY_LSE && isnan(ring->rows.lse[i])) rows[i] = (double)NAN;
    }
}

void ota_ring_find_used(ota_plan *plan, const double *sums, unsigned char *used) {
    const ota_ring_device *ring = plan->device;
    const ota_backward_job job = ota_ring_job(plan);
    ring->backward.space->g = ring->columns.g;
    ring->backward.space->vectors = ring->backward.adjoint->vectors;
    ota_backward_find_used(&job, sums, used);
}
