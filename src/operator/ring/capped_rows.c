/* Rows of a ring whose weights have caps, P_ij = min(c_ij, w(S_ij + f_i)): softmax and entmax. The first message round finds each row's
 * largest score, what its caps have room for and the f from which on all its keys are at their caps; then one message round a step of f
 * (backend/capped.h), until no rank has a row left. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "backend/capped.h"
#include "pairs.h"

/* A row's relative miss of its mass that is left to the last scaling: a message round costs more than a digit. */
static const double enough = 1.0e-14;

static void measure_rows(const ota_ring_block *b, void *context) {
    ota_ring_pairs *p = b->ring->pairs;
    (void)context;
    ota_ring_add_potentials(b);
    for (int64_t k = 0; k < b->rows; k++) {
        const int64_t row = b->at + k;
        const double *s = b->w->scores + k * p->stride;
        double top;
        if (!ota_ring_score_range(p, row, s, b->keys, &top)) continue;
        p->top[row] = fmax(p->top[row], top);
        for (int64_t j = 0; j < b->keys; j++) {
            const double cap = ota_ring_cap(b, k, j);
            if (!(s[j] > -INFINITY)) continue;
            p->room[row] += cap;
            p->highest[row] = fmax(p->highest[row], ota_capped_level(&b->parameters, cap) - s[j]);
        }
    }
}

static void sum_rows(const ota_ring_block *b, void *context) {
    ota_ring_pairs *p = b->ring->pairs;
    (void)context;
    ota_ring_add_potentials(b);
    for (int64_t k = 0; k < b->rows; k++) {
        const int64_t row = b->at + k;
        const double *s = b->w->scores + k * p->stride;
        if (p->state[row] != OTA_RING_SPILLED) continue;
        for (int64_t j = 0; j < b->keys; j++) {
            double rise;
            if (!(s[j] > -INFINITY)) continue;
            const double cap = ota_ring_cap(b, k, j),
                         weight = ota_capped_weight(&b->parameters, s[j], p->f[row], &rise);
            if (weight >= cap) {
                p->first[row] += cap;
            } else {
                p->second[row] += weight;
                p->rise[row] += rise;
            }
        }
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
    const double room = row.sink > -INFINITY ? INFINITY : p->room[k];
    const double slack = 4.0 * DBL_EPSILON * (double)(r->keys + 1) * mu;
    p->top[k] = fmax(p->top[k], row.sink);
    p->f[k] = -INFINITY;
    p->factor[k] = 1.0;
    p->part[k] = -1.0;
    if (p->state[k] == OTA_RING_NONFINITE) return;
    p->state[k] = OTA_RING_FOUND;
    if (!(p->top[k] > -INFINITY) || !(mu > 0.0)) return;
    if (room < mu - slack) {
        p->state[k] = OTA_RING_FULL;
        return;
    }
    p->f[k] = p->highest[k];
    if (room <= mu + slack) {
        /* All keys are at their caps, whatever rounding makes of the weight there. */
        p->capped[k] =
            (ota_capped_search){.f = p->f[k], .low = p->f[k], .high = p->f[k], .most = INFINITY};
        p->part[k] = 1.0;
        return;
    }
    p->state[k] = OTA_RING_SPILLED;
    p->capped[k] = ota_capped_begin(&row, mu, r->keys, p->top[k], p->highest[k]);
    p->f[k] = p->capped[k].f;
}

static void step_row(ota_ring_device *ring, int64_t k) {
    ota_ring_pairs *p = ring->pairs;
    double mu;
    const ota_row_parameters row = rule_of(ring, k, &mu);
    ota_capped_totals sums = {p->first[k], p->second[k], p->rise[k]};
    if (p->state[k] != OTA_RING_SPILLED) return;
    if (row.sink > -INFINITY) {
        double rise;
        sums.open += ota_capped_weight(&row, row.sink, p->f[k], &rise);
        sums.rise += rise;
    }
    const bool met = fabs(sums.closed + sums.open - mu) <= enough * mu;
    if (!met && ota_capped_step(&p->capped[k], &row, mu, &sums)) {
        p->f[k] = p->capped[k].f;
        return;
    }
    p->state[k] = OTA_RING_FOUND;
    if (sums.open > 0.0) p->factor[k] = (mu - sums.closed) / sums.open;
    if (!met && fabs(sums.closed + sums.open - mu) > 1.0e-12 * mu)
        p->part[k] =
            ota_capped_part(&p->capped[k], mu, row.sink > -INFINITY ? INFINITY : p->room[k]);
}

bool ota_ring_find_capped(ota_ring_device *ring) {
    ota_ring_pairs *p = ring->pairs;
    const int64_t rows = ring->group * ring->resolved->queries;
    const size_t bytes = (size_t)rows * sizeof(double);
    double left;
    memset(p->room, 0, bytes);
    for (int64_t k = 0; k < rows; k++) p->highest[k] = -INFINITY;
    if (!ota_ring_visit_rows(ring, measure_rows, false, "passing keys on for the caps"))
        return false;
    for (int64_t k = 0; k < rows; k++) begin_row(ring, k);
    for (;;) {
        if (!ota_ring_count_searched(ring, &left)) return false;
        if (!(left > 0.0)) return true;
        memset(p->first, 0, bytes);
        memset(p->second, 0, bytes);
        memset(p->rise, 0, bytes);
        if (!ota_ring_visit_rows(ring, sum_rows, false,
                                 "passing keys on for a step under the caps"))
            return false;
        for (int64_t k = 0; k < rows; k++) step_row(ring, k);
    }
}
