/* What else a caller may want of the weights of a ring: entropy, support and largest weight of rows, and on free columns what
 * the keys receive. Entmax rows are counted with their outputs and hard rows are one key; the others take one more message round at
 * their potentials.
 *
 *     entropy_i = (mass_i log mu_i - sum_j P_ij log P_ij) / mu_i, the sink counted as one more key */
#include <math.h>
#include <string.h>

#include "ring_pairs.h"

bool ota_ring_wants_statistics(const ota_arrays *arrays) {
    return ota_array_present(&arrays->row_entropy) || ota_array_present(&arrays->row_support) ||
           ota_array_present(&arrays->row_max);
}

void ota_ring_begin_statistics(ota_ring_device *ring) {
    ota_ring_pairs *p = ring->pairs;
    for (int64_t k = 0; k < ota_ring_row_count(ring); k++)
        p->sums[k] = (ota_row_statistics){0}, p->sink[k] = 0.0;
}

void ota_ring_add_statistics(const ota_ring_block *b) {
    ota_ring_pairs *p = b->ring->pairs;
    for (int64_t k = 0; k < b->in.rows; k++)
        ota_add_statistics(b->in.weights + k * b->in.stride, b->in.keys, &p->sums[b->at + k]);
}

static void fit_weights(const ota_ring_block *b, void *context) {
    (void)context;
    ota_ring_fit_weights(b);
}

static void sum_columns(const ota_ring_block *b, void *context) {
    const ota_ring_pairs *p = b->ring->pairs;
    double *sums = p->columns + b->in.head * b->ring->room + b->in.key;
    (void)context;
    for (int64_t k = 0; k < b->in.rows; k++) {
        for (int64_t j = 0; j < b->in.keys; j++) sums[j] += b->in.weights[k * b->in.stride + j];
    }
}

/* Pairs of all keys, although the block's problem has those of its piece alone. */
static ota_block all_keys(const ota_ring_device *ring, int64_t keys) {
    return (ota_block){.problem = ring->resolved,
                       .batch = ring->unit.batch,
                       .head = ring->unit.head,
                       .keys = keys};
}

/* Coupled columns: a unit is one head. */
static void add_masked(const ota_ring_block *b) {
    const ota_block keys = all_keys(b->ring, b->in.keys);
    for (int64_t k = 0; k < b->in.rows; k++)
        b->ring->pairs->sums[b->at + k].masked += ota_block_masked(
            &keys, b->in.first + k, b->piece->first + b->in.key, b->in.weights + k * b->in.stride);
}

/* Does some rank have such pairs? Another message round finds their mass. False: the communicator failed. */
static bool has_masked(const ota_ring_device *ring, bool *found) {
    const ota_resolved *r = ring->resolved;
    const ota_block keys = all_keys(ring, r->keys);
    double any = 0.0;
    *found = false;
    if (!ring->coupled || !r->adds_pairs) return true;
    for (int64_t i = 0; i < r->queries && !(any > 0.0); i++)
        any = ota_block_masked(&keys, i, 0, NULL);
    if (!ota_ranks_most(&r->settings, &any, 1, "agreeing on masked pairs")) return false;
    *found = any > 0.0;
    return true;
}

typedef struct wishes {
    bool rows, columns, masked;
} wishes;

static void measure_rows(const ota_ring_block *b, void *context) {
    const wishes *wanted = context;
    if (wanted->rows) ota_ring_add_statistics(b);
    if (wanted->masked) add_masked(b);
}

static void measure_piece(ota_ring_device *ring, const ota_ring_piece *piece, void *context) {
    const wishes *wanted = context;
    ota_ring_pairs *p = ring->pairs;
    const ota_ring_visits visits = {.form = fit_weights,
                                    .rows = measure_rows,
                                    .keys = wanted->columns ? sum_columns : NULL,
                                    .context = context};
    ota_ring_pairs_load(ring, piece, false);
    memset(p->columns, 0, (size_t)(ring->group * ring->room) * sizeof *p->columns);
    ota_ring_visit_blocks(ring, piece, &visits);
    if (!wanted->columns) return;
    for (int64_t k = 0; k < ring->group * piece->count; k++) {
        const int64_t head = k / piece->count, j = k % piece->count;
        ota_put(&ring->run->arrays->receiver, ring->unit.batch, ring->unit.head + head,
                piece->first + j, p->columns[head * ring->room + j]);
    }
}

/* The keys of hard rows are known. */
static void sum_hard(ota_ring_device *ring) {
    const ota_resolved *r = ring->resolved;
    const ota_array *receiver = &ring->run->arrays->receiver;
    for (int64_t h = 0; h < ring->group; h++) {
        const int64_t batch = ring->unit.batch, head = ring->unit.head + h;
        for (int64_t j = 0; j < r->keys; j++) ota_put(receiver, batch, head, j, 0.0);
        for (int64_t i = 0; i < r->queries; i++) {
            const int64_t row = h * r->queries + i, key = ring->pairs->listed[row];
            if (!(ring->pairs->sums[row].mass > 0.0)) continue;
            ota_put(receiver, batch, head, key,
                    ota_array_get(receiver, batch, head, 0, key) + ring->pairs->sums[row].mass);
        }
    }
}

bool ota_ring_measure(ota_ring_device *ring) {
    const ota_arrays *to = ring->run->arrays;
    ota_ring_pairs *p = ring->pairs;
    wishes wanted = {.rows = ota_ring_wants_statistics(to) && ring->rule == OTA_RING_BY_LSE,
                     .columns = ota_array_present(&to->receiver) && !ring->coupled};
    const ota_message_round message_round = {
        .visit = measure_piece, .context = &wanted, .step = "passing keys on for statistics"};
    if (ring->rule == OTA_RING_BY_BEST_KEY && wanted.columns) sum_hard(ring);
    if (!has_masked(ring, &wanted.masked)) return false;
    if (ring->rule == OTA_RING_BY_BEST_KEY || !(wanted.rows || wanted.columns || wanted.masked))
        return true;
    if (ring->rule == OTA_RING_BY_LSE) {
        ota_ring_take_potentials(ring);
        ota_ring_begin_statistics(ring);
    }
    for (int64_t i = 0; wanted.masked && i < ring->resolved->queries; i++) p->sums[i].masked = 0.0;
    if (!ota_ring_go(ring, &message_round)) return false;
    ota_head_status *status =
        &ring->run->heads[ring->unit.batch * ring->resolved->heads + ring->unit.head];
    for (int64_t i = 0; wanted.masked && i < ring->resolved->queries; i++)
        status->masked += p->sums[i].masked;
    for (int64_t k = 0; wanted.rows && k < ota_ring_row_count(ring); k++) {
        ota_row_parameters row;
        p->sink[k] = ota_ring_sink_of(ring, k, &row);
    }
    return true;
}

void ota_ring_put_statistics(const ota_ring_device *ring, int64_t head) {
    const ota_resolved *r = ring->resolved;
    const ota_arrays *to = ring->run->arrays;
    const ota_ring_pairs *p = ring->pairs;
    const int64_t batch = ring->unit.batch, number = ring->unit.head + head;
    for (int64_t i = 0; i < r->queries && ota_ring_wants_statistics(to); i++) {
        const int64_t k = head * r->queries + i;
        const bool finite = p->state[k] != OTA_RING_NONFINITE;
        const double mu = ota_row_mass(r, batch, number, i), sink = p->sink[k];
        const double entropy = ota_row_entropy(&p->sums[k], sink, mu);
        ota_put(&to->row_entropy, batch, number, i, finite ? entropy : NAN);
        ota_put(&to->row_support, batch, number, i, finite ? p->sums[k].support : NAN);
        ota_put(&to->row_max, batch, number, i, finite ? p->sums[k].largest : NAN);
    }
}
