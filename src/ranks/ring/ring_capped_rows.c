/* Rows of a ring whose weights have caps, P_ij = min(c_ij, w(S_ij + f_i)): softmax and entmax. The first message round finds each row's
 * largest score, what its caps have room for and the f from which on all its keys are at their caps; then one message round a step of f
 * (backend/capped.h), until no rank has a row left. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "ring_pairs.h"

/* A row's relative miss of its mass that is left to the last scaling: a message round costs more than a digit. */
static const double enough = 1.0e-14;

static void measure_rows(const ota_ring_block *b, void *context) {
    ota_ring_pairs *p = b->ring->pairs;
    (void)context;
    ota_block_add_potentials(&b->in);
    for (int64_t k = 0; k < b->in.rows; k++) {
        const int64_t row = b->at + k;
        double top;
        if (!ota_ring_score_range(b, k, &top)) continue;
        p->top[row] = fmax(p->top[row], top);
        ota_block_add_room(&b->in, k, &p->caps.room[row], &p->caps.highest[row]);
    }
}

static void sum_rows(const ota_ring_block *b, void *context) {
    const ota_ring_pairs *p = b->ring->pairs;
    (void)context;
    ota_block_add_potentials(&b->in);
    for (int64_t k = 0; k < b->in.rows; k++) {
        const int64_t row = b->at + k;
        if (p->state[row] == OTA_RING_SPILLED)
            ota_block_add_capped(&b->in, k, p->f[row], &p->caps.totals[row]);
        else if (p->state[row] == OTA_RING_STEEP)
            ota_ring_answer_edge(b, k);
    }
}

/* The rule of row k of the unit, and its mass. */
static ota_row_parameters rule_of(const ota_ring_device *ring, int64_t k, double *mu) {
    const ota_resolved *r = ring->resolved;
    const int64_t head = k / r->queries;
    *mu = ota_row_mass(r, ring->unit.batch, ring->unit.head + head, k % r->queries);
    return ota_ring_parameters(ring, head);
}

/* Where a row's search begins, if it needs one. */
static void begin_row(ota_ring_device *ring, int64_t k) {
    const ota_resolved *r = ring->resolved;
    ota_ring_pairs *p = ring->pairs;
    double mu;
    const ota_row_parameters row = rule_of(ring, k, &mu);
    const double room = row.sink > -INFINITY ? INFINITY : p->caps.room[k];
    const double slack = 4.0 * DBL_EPSILON * (double)(r->keys + 1) * mu;
    p->top[k] = fmax(p->top[k], row.sink);
    p->f[k] = -INFINITY;
    p->caps.factor[k] = 1.0;
    p->caps.part[k] = -1.0;
    if (p->state[k] == OTA_RING_NONFINITE) return;
    p->state[k] = OTA_RING_FOUND;
    if (!(p->top[k] > -INFINITY) || !(mu > 0.0)) return;
    if (room < mu - slack) {
        p->state[k] = OTA_RING_FULL;
        return;
    }
    p->f[k] = p->caps.highest[k];
    if (room <= mu + slack) {
        /* All keys are at their caps, whatever rounding makes of the weight there. */
        p->caps.search[k] =
            (ota_capped_search){.f = p->f[k], .low = p->f[k], .high = p->f[k], .most = INFINITY};
        p->caps.part[k] = 1.0;
        return;
    }
    p->state[k] = OTA_RING_SPILLED;
    p->caps.search[k] = ota_capped_begin(&row, mu, r->keys, p->top[k], p->caps.highest[k]);
    p->f[k] = p->caps.search[k].f;
}

static void step_row(ota_ring_device *ring, int64_t k) {
    ota_ring_pairs *p = ring->pairs;
    double mu;
    const ota_row_parameters row = rule_of(ring, k, &mu);
    ota_capped_totals sums = p->caps.totals[k];
    p->caps.totals[k] = (ota_capped_totals){0};
    if (row.sink > -INFINITY) {
        double rise;
        sums.open += ota_capped_weight(&row, row.sink, p->f[k], &rise);
        sums.rise += rise;
    }
    const bool met = fabs(sums.closed + sums.open - mu) <= enough * mu;
    if (!met && ota_capped_step(&p->caps.search[k], &row, mu, &sums)) {
        p->f[k] = p->caps.search[k].f;
        return;
    }
    ota_ring_seek_edge(ring, k);
    if (sums.open > 0.0) p->caps.factor[k] = (mu - sums.closed) / sums.open;
    if (!met && fabs(sums.closed + sums.open - mu) > 1.0e-12 * mu)
        p->caps.part[k] = ota_capped_part(&p->caps.search[k], mu,
                                          row.sink > -INFINITY ? INFINITY : p->caps.room[k]);
}

void ota_ring_begin_capped(ota_ring_device *ring) {
    ota_ring_caps *caps = &ring->pairs->caps;
    for (int64_t k = 0; k < ota_ring_row_count(ring); k++) {
        caps->room[k] = 0.0;
        caps->highest[k] = -INFINITY;
        caps->totals[k] = (ota_capped_totals){0};
    }
}

const ota_ring_search ota_ring_capped_search = {.meet = measure_rows,
                                                .sum = sum_rows,
                                                .begin = begin_row,
                                                .step = step_row,
                                                .meeting = "passing keys on for the caps",
                                                .summing =
                                                    "passing keys on for a step under the caps"};
