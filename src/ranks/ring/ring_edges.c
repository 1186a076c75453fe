/* Rows of a ring of an order above 2, whose weights next to 0 no potential of one double tells: from one near it the search for the
 * edge begins (backend/edge.h, within entry caps backend/capped_edge.h), one message round a question. Rows whose lists are whole have their
 * edges from those. Then the centres from which gradients and tangents of such rows measure U, that of the steepest weight. */
#include "ring_pairs.h"

void ota_ring_lay_out_edges(const ota_ring_device *ring, ota_ring_steep *to, ota_arena *arena) {
    const size_t rows = (size_t)ota_ring_row_count(ring);
    if (!ota_is_steep(ring->resolved)) return;
    to->edges = ota_arena_take(arena, rows, sizeof *to->edges);
    to->search = ota_arena_take(arena, rows, sizeof *to->search);
    to->sums = ota_arena_take(arena, rows, sizeof *to->sums);
    if (!ring->gradients || ring->coupled) return;
    to->most = ota_arena_take(arena, rows, sizeof *to->most);
    to->middle = ota_arena_take(arena, rows, sizeof *to->middle);
}

void ota_ring_begin_edges(const ota_ring_device *ring) {
    const ota_ring_steep *steep = &ring->pairs->steep;
    for (int64_t k = 0; k < ota_ring_row_count(ring) && steep->edges != NULL; k++) {
        steep->edges[k] = (ota_edge){0};
        steep->sums[k] = ota_capped_edge_no_sums();
    }
}

void ota_ring_seek_edge(const ota_ring_device *ring, int64_t k) {
    const ota_ring_pairs *p = ring->pairs;
    p->state[k] = OTA_RING_FOUND;
    if (p->steep.edges == NULL) return;
    const ota_row_parameters row = ota_ring_parameters(ring, k / ring->resolved->queries);
    const double mu = ota_ring_row_mass(ring, k);
    p->state[k] = OTA_RING_STEEP;
    p->steep.search[k] = row.regulariser->capped
                             ? ota_capped_edge_begin(ring->resolved->keys, mu, p->f[k])
                             : ota_capped_edge_without(&row, mu, p->top[k], p->f[k]);
}

void ota_ring_answer_edge(const ota_ring_block *b, int64_t k) {
    const ota_ring_steep *steep = &b->ring->pairs->steep;
    const double *s = b->in.scores + k * b->in.stride;
    ota_capped_edge_sums *sums = &steep->sums[b->at + k];
    for (int64_t j = 0; j < b->in.keys; j++)
        ota_capped_edge_answer(&b->in.rule, &steep->search[b->at + k], s[j],
                               ota_block_cap(&b->in, k, j), sums);
}

void ota_ring_step_edge(const ota_ring_device *ring, int64_t k) {
    const ota_ring_pairs *p = ring->pairs;
    const ota_row_parameters row = ota_ring_parameters(ring, k / ring->resolved->queries);
    ota_capped_edge *search = &p->steep.search[k];
    const bool asks = ota_capped_edge_next(&row, search, &p->steep.sums[k]);
    p->steep.sums[k] = ota_capped_edge_no_sums();
    if (asks) return;
    p->state[k] = OTA_RING_FOUND;
    if (search->stage != OTA_CAPPED_EDGE_FOUND) return;
    p->steep.edges[k] = search->others.edge;
    p->f[k] = search->f;
    if (!row.regulariser->capped) return;
    p->caps.factor[k] = search->factor;
    p->caps.part[k] = -1.0;
}

/* ---- gradients ------------------------------------------------------------------------------------ */

void ota_ring_begin_centre(const ota_ring_device *ring, int64_t k, double slope, double u) {
    const ota_ring_steep *steep = &ring->pairs->steep;
    if (steep->most == NULL) return;
    steep->most[k] = slope;
    steep->middle[k] = u;
}

void ota_ring_move_centre(const ota_ring_block *b, int64_t k) {
    const ota_ring_pairs *p = b->ring->pairs;
    const ota_ring_steep *steep = &p->steep;
    const int64_t row = b->at + k;
    const double *u = b->in.slopes + k * b->in.stride;
    int64_t steepest = -1;
    for (int64_t j = 0; j < b->in.keys && steep->most != NULL; j++) {
        const double w = ota_block_slope(&b->in, k, j);
        if (!(w > steep->most[row])) continue;
        steep->most[row] = w;
        steepest = j;
    }
    if (steepest < 0) return;
    p->mean[row] += p->slope[row] * (steep->middle[row] - u[steepest]);
    steep->middle[row] = u[steepest];
}

void ota_ring_centre(const ota_ring_block *b, int64_t k) {
    const ota_ring_steep *steep = &b->ring->pairs->steep;
    double *u = b->in.slopes + k * b->in.stride;
    for (int64_t j = 0; j < b->in.keys && steep->middle != NULL; j++)
        u[j] -= steep->middle[b->at + k];
}

double ota_ring_middle(const ota_ring_device *ring, int64_t k) {
    const ota_ring_steep *steep = &ring->pairs->steep;
    return steep->middle != NULL ? steep->middle[k] : 0.0;
}
