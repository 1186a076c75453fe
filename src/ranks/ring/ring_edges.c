/* Rows of a ring of an order above 2, whose weights next to 0 no potential of one double tells: from one near it the search for the
 * edge begins (backend/edge.h, within entry caps backend/capped_edge.h), one message round a question. Rows whose lists are whole have their
 * edges from those. Then the centres from which gradients and tangents of such rows measure U, that of the steepest weight, and what
 * the system of coupled columns is beside them. */
#include <string.h>

#include "ring_pairs.h"

void ota_ring_lay_out_edges(const ota_ring_device *ring, ota_ring_steep *to, ota_arena *arena) {
    const size_t rows = (size_t)ota_ring_row_count(ring);
    if (!ota_is_steep(ring->resolved)) return;
    to->edges = ota_arena_take(arena, rows, sizeof *to->edges);
    to->search = ota_arena_take(arena, rows, sizeof *to->search);
    to->sums = ota_arena_take(arena, rows, sizeof *to->sums);
    if (!ring->gradients) return;
    double **const numbers[] = {&to->most, &to->middle, &to->others,
                                &to->rest, &to->beside, &to->multiplier};
    for (size_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++)
        *numbers[k] = ota_arena_take(arena, rows, sizeof(double));
    to->column = ota_arena_take(arena, rows, sizeof *to->column);
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
    if (!ota_ring_is_steep(ring)) return;
    steep->most[k] = steep->rest[k] = slope;
    steep->middle[k] = u;
    steep->column[k] = -1;
    steep->others[k] = steep->beside[k] = 0.0;
}

void ota_ring_move_centre(const ota_ring_block *b, int64_t k) {
    const ota_ring_pairs *p = b->ring->pairs;
    const ota_ring_steep *steep = &p->steep;
    const int64_t row = b->at + k;
    const double *u = b->in.slopes + k * b->in.stride;
    int64_t steepest = -1;
    for (int64_t j = 0; j < b->in.keys && ota_ring_is_steep(b->ring); j++) {
        const double w = ota_block_slope(&b->in, k, j);
        steep->others[row] += fmin(w, steep->most[row]);
        if (!(w > steep->most[row])) continue;
        steep->most[row] = w;
        steepest = j;
    }
    if (steepest < 0) return;
    p->mean[row] += p->slope[row] * (steep->middle[row] - u[steepest]);
    steep->middle[row] = u[steepest];
    steep->column[row] = b->piece->first + b->in.key + steepest;
}

void ota_ring_centre(const ota_ring_block *b, int64_t k) {
    const ota_ring_steep *steep = &b->ring->pairs->steep;
    const int64_t row = b->at + k, first = b->piece->first + b->in.key;
    double *u = b->in.slopes + k * b->in.stride;
    for (int64_t j = 0; j < b->in.keys && ota_ring_is_steep(b->ring); j++)
        u[j] = steep->column[row] == first + j ? 0.0 : u[j] - steep->middle[row];
}

double ota_ring_middle(const ota_ring_device *ring, int64_t k) {
    const ota_ring_steep *steep = &ring->pairs->steep;
    return ota_ring_is_steep(ring) ? steep->middle[k] - steep->beside[k] : 0.0;
}

/* ---- coupled columns ------------------------------------------------------------------------------ */

void ota_ring_add_key_sums(const ota_ring_block *b, const ota_block_key_sums *to) {
    const ota_ring_pairs *p = b->ring->pairs;
    const int64_t first = b->piece->first + b->in.key;
    ota_block_key_sums sums = *to;
    for (int64_t k = 0; k < b->in.rows && ota_ring_is_steep(b->ring); k++) {
        const int64_t row = b->at + k;
        sums.slopes = NULL;
        ota_ring_centre(b, k);
        for (int64_t j = 0; j < b->in.keys && to->slopes != NULL && p->slope[row] > 0.0; j++) {
            const double w = ota_block_slope(&b->in, k, j);
            const double left =
                p->steep.column[row] == first + j ? p->steep.others[row] : p->slope[row] - w;
            to->slopes[first + j] += w / p->slope[row] * fmax(left, 0.0);
        }
    }
    ota_block_add_key_sums(&b->in, p->mean + b->at, first, &sums);
}

typedef struct steep_product {
    const double *x;
    double *y;
} steep_product;

static double steepest_of(const ota_ring_device *ring, int64_t row, const double *x) {
    const int64_t column = ring->pairs->steep.column[row];
    return column < 0 ? 0.0 : x[column];
}

static void weigh(const ota_ring_block *b, void *context) {
    (void)context;
    ota_ring_weigh(b);
}

static void multiply_rows(const ota_ring_block *b, void *context) {
    const steep_product *of = context;
    const double *x = of->x + b->piece->first + b->in.key;
    for (int64_t k = 0; k < b->in.rows; k++) {
        const double from = steepest_of(b->ring, b->at + k, of->x);
        double *sum = &b->ring->pairs->first[b->at + k];
        for (int64_t j = 0; j < b->in.keys; j++)
            *sum += ota_block_slope(&b->in, k, j) * (x[j] - from);
    }
}

static void multiply_keys(const ota_ring_block *b, void *context) {
    const steep_product *of = context;
    const int64_t first = b->piece->first + b->in.key;
    for (int64_t k = 0; k < b->in.rows; k++) {
        const double from = steepest_of(b->ring, b->at + k, of->x),
                     mean = b->ring->pairs->first[b->at + k];
        for (int64_t j = 0; j < b->in.keys; j++)
            of->y[first + j] += ota_block_slope(&b->in, k, j) * (of->x[first + j] - from - mean);
    }
}

void ota_ring_steep_product(ota_ring_device *ring, const double *x, double *a, double *y) {
    const ota_ring_pairs *p = ring->pairs;
    steep_product of = {x, y};
    ota_ring_pair_round pair_round = {
        .visits = {.form = weigh, .rows = multiply_rows, .context = &of},
        .step = "passing keys on for a product"};
    const int64_t rows = ota_ring_row_count(ring);
    for (int64_t i = 0; i < rows; i++) p->first[i] = -p->steep.rest[i] * steepest_of(ring, i, x);
    memset(y, 0, (size_t)ring->resolved->keys * sizeof *y);
    (void)ota_ring_visit_pairs(ring, &pair_round);
    for (int64_t i = 0; i < rows; i++)
        a[i] = p->first[i] = p->slope[i] > 0.0 ? p->first[i] / p->slope[i] : 0.0;
    pair_round.visits.rows = NULL;
    pair_round.visits.keys = multiply_keys;
    (void)ota_ring_visit_pairs(ring, &pair_round);
}

void ota_ring_place_multipliers(const ota_ring_device *ring, const double *b, double *a) {
    const ota_ring_steep *steep = &ring->pairs->steep;
    for (int64_t i = 0; i < ota_ring_row_count(ring) && ota_ring_is_steep(ring); i++) {
        steep->multiplier[i] = a[i];
        steep->beside[i] = steepest_of(ring, i, b);
        a[i] += ota_ring_middle(ring, i);
    }
}
