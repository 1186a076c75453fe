/* Gradients of the pairs of a ring where the tiles of pieces (ring_backward.c) do not know them: entmax, a softcap, dropout D,
 * parameters. With U = D (out_grad V^T) and w = P^(2 - alpha),
 *
 *     a_i = sum_j w_ij U_ij / (sum_j w_ij + sink's w)          free columns, b = 0
 *     dS_ij = w_ij (U_ij - a_i - b_j) / tau    dZ = scale dS, times 1 - tanh^2 of a softcap
 *     dQ = dZ K                                dK = dZ^T Q,  dV = (D P)^T out_grad */
#include <math.h>
#include <string.h>

#include "backend/gradient.h"
#include "ring_fixed_rounds.h"
#include "ring_pairs.h"
#include "terms/terms.h"

void ota_ring_form_upstream(const ota_ring_block *b, const ota_array *out_grad) {
    const ota_ring_device *ring = b->ring;
    const ota_block *in = &b->in;
    for (int64_t k = 0; k < in->rows && out_grad == NULL; k++)
        memset(in->slopes + k * in->stride, 0, (size_t)in->keys * sizeof(double));
    if (out_grad == NULL) return;
    in->algebra->read_rows(out_grad, ring->unit.batch, ring->unit.head + in->head, in->first,
                           in->rows, b->w->upstream, ring->values_width);
    ota_block_form_upstream(in, b->w->upstream, ring->values_width,
                            ring->pairs->piece.values_transposed + in->key, in->stride);
}

/* ---- multipliers ---------------------------------------------------------------------------------- */

static void sum_slopes(const ota_ring_block *b, void *context) {
    ota_ring_pairs *p = b->ring->pairs;
    ota_ring_form_upstream(b, context);
    ota_ring_weigh(b);
    for (int64_t k = 0; k < b->in.rows; k++) {
        const int64_t row = b->at + k;
        ota_ring_move_centre(b, k);
        ota_ring_centre(b, k);
        ota_block_add_slopes(&b->in, k, NULL, NULL, &p->slope[row], &p->mean[row]);
        ota_ring_note_values(b, k);
    }
}

static double sink_slope(const ota_ring_device *ring, int64_t k) {
    ota_row_parameters row;
    const double weight = ota_ring_sink_of(ring, k, &row);
    return ota_pair_slope(&row, row.sink, ring->pairs->f[k], weight, INFINITY);
}

bool ota_ring_take_means(ota_ring_device *ring, const ota_array *out_grad) {
    ota_ring_pairs *p = ring->pairs;
    const int64_t rows = ota_ring_row_count(ring);
    ota_array from = *out_grad;
    const ota_ring_pair_round pair_round = {.visits = {.rows = sum_slopes, .context = &from},
                                            .with_values = true,
                                            .step = "passing keys on for the means of backward"};
    memset(p->slope, 0, (size_t)rows * sizeof *p->slope);
    memset(p->mean, 0, (size_t)rows * sizeof *p->mean);
    for (int64_t k = 0; k < rows; k++) ota_ring_begin_centre(ring, k, sink_slope(ring, k), 0.0);
    if (!ota_ring_visit_pairs(ring, &pair_round)) return false;
    for (int64_t k = 0; k < rows; k++) {
        const double rest = sink_slope(ring, k), sum = p->slope[k] + rest;
        p->slope[k] = sum;
        p->mean[k] -= rest * ota_ring_middle(ring, k);
        p->mean[k] = p->uses_nonfinite[k] != 0 ? (double)NAN : sum > 0.0 ? p->mean[k] / sum : 0.0;
    }
    return true;
}

void ota_ring_take_potentials(ota_ring_device *ring) {
    const ota_resolved *r = ring->resolved;
    ota_ring_pairs *p = ring->pairs;
    for (int64_t k = 0; k < ota_ring_row_count(ring); k++) {
        const int64_t head = ring->unit.head + k / r->queries;
        const double mu = ota_row_mass(r, ring->unit.batch, head, k % r->queries);
        const bool finite = !isnan(ring->rows.lse[k]) && ring->rows.lse[k] < INFINITY;
        const bool idle = !(ring->rows.lse[k] > -INFINITY) || !(mu > 0.0);
        p->state[k] = finite ? OTA_RING_FOUND : OTA_RING_NONFINITE;
        p->f[k] = idle ? -INFINITY : ota_head_temperature(r, head) * (log(mu) - ring->rows.lse[k]);
        p->uses_nonfinite[k] = 0;
    }
}

void ota_ring_output_means(ota_ring_device *ring, const ota_array *out_grad, double *means) {
    const ota_resolved *r = ring->resolved;
    for (int64_t k = 0; k < ota_ring_row_count(ring); k++) {
        const int64_t head = ring->unit.head + k / r->queries;
        const double mu = ota_ring_row_mass(ring, k);
        double sum = 0.0;
        for (int64_t w = 0; w < ring->values_width; w++)
            sum += ota_array_get(out_grad, ring->unit.batch, head, k % r->queries, w) *
                   ring->rows.out[k * ring->values_width + w];
        means[k] = mu > 0.0 ? sum / mu : 0.0;
    }
}

bool ota_ring_pair_means(ota_ring_device *ring, const ota_array *out_grad) {
    if (ring->rule != OTA_RING_BY_LSE)
        return ota_ring_find_thresholds(ring) && ota_ring_take_means(ring, out_grad);
    ota_ring_take_potentials(ring);
    ota_ring_output_means(ring, out_grad, ring->pairs->mean);
    for (int64_t k = 0; k < ota_ring_row_count(ring); k++) {
        if (ring->pairs->f[k] <= -INFINITY) ring->pairs->mean[k] = 0.0;
    }
    return true;
}

/* ---- gradients ------------------------------------------------------------------------------------ */

/* dL/dS in the place of U, once that and P are known. */
static void form_gradient(const ota_ring_block *b, const ota_ring_pull *pull) {
    const ota_ring_pairs *p = b->ring->pairs;
    const double *beside = pull->b != NULL ? pull->b + b->piece->first + b->in.key : NULL;
    for (int64_t k = 0; k < b->in.rows; k++) {
        const double a = p->mean[b->at + k];
        /* Rows that use values which are not finite have no mean. */
        const bool finite = p->state[b->at + k] != OTA_RING_NONFINITE && !isnan(a);
        const bool steep = beside != NULL && ota_ring_is_steep(b->ring);
        double *u = b->in.slopes + k * b->in.stride;
        ota_ring_centre(b, k);
        for (int64_t j = 0; j < b->in.keys && steep; j++)
            u[j] -= beside[j] - p->steep.beside[b->at + k];
        ota_block_apply_slopes(&b->in, k, a, steep ? NULL : beside, finite, u);
    }
}

/* Rounds that are reversed, whose U is 0, added to it. */
static void add_rounds(const ota_ring_block *b, const ota_ring_kept *of, double *row_sums) {
    const ota_ring_device *ring = b->ring;
    const int64_t queries = ring->resolved->queries, first = b->piece->first + b->in.key;
    ota_ring_block at = *b;
    at.in.weights = b->w->round + b->in.key;
    for (int64_t round = 0; round < of->rounds; round++) {
        at.in.f = of->f + round * queries + b->at;
        at.in.g = of->g + round * ring->stride + first;
        ota_ring_weigh(&at);
        for (int64_t k = 0; k < b->in.rows; k++)
            ota_block_add_round(
                &at.in, k, of->a[round * queries + b->at + k], of->b + round * ring->stride + first,
                row_sums != NULL ? &row_sums[k * OTA_ROW_SUMS + OTA_SUM_TEMPERATURE] : NULL);
    }
}

static void form_pairs(const ota_ring_block *b, void *context) {
    const ota_ring_pull *pull = context;
    ota_ring_form_upstream(b, pull->out_grad);
    ota_ring_weigh(b);
}

static void reverse_rows(const ota_ring_block *b, void *context) {
    const ota_ring_device *ring = b->ring;
    const ota_ring_pull *pull = context;
    const int64_t width = ring->resolved->width;
    form_gradient(b, pull);
    if (pull->want != NULL) ota_ring_take_numbers(b, pull);
    if (pull->rounds != NULL)
        add_rounds(b, pull->rounds, pull->want != NULL ? ota_ring_row_sums(b) : NULL);
    if (pull->want != NULL) ota_ring_take_terms(b, pull);
    ota_block_go_through(&b->in);
    if (pull->want != NULL) ota_ring_take_inside(b, pull);
    const ota_product sizes = {b->in.rows, b->in.keys, width, ring->pairs->stride, width, width};
    ring->plans.forward->strategy.algebra->apply(b->in.slopes, ring->pairs->piece.lines, &sizes,
                                                 ring->backward.query_sums + b->at * width);
    for (int64_t k = 0; k < b->in.rows * width; k++)
        if (!isfinite(b->w->queries[k])) b->w->queries[k] = 0.0;
}

/* to[j][k] = from[k][j] */
static void turn_block(const ota_ring_block *b, const double *from) {
    for (int64_t k = 0; k < b->in.rows; k++) {
        for (int64_t j = 0; j < b->in.keys; j++)
            b->transposed[j * OTA_RING_ROWS + k] = from[k * b->in.stride + j];
    }
}

static void sum_keys(const ota_ring_block *b, void *context) {
    const ota_ring_pull *pull = context;
    ota_ring_add_key_sums(b, &pull->keys);
}

static void reverse_keys(const ota_ring_block *b, void *context) {
    const ota_ring_device *ring = b->ring;
    const ota_ring_pull *pull = context;
    const ota_host_algebra *algebra = ring->plans.forward->strategy.algebra;
    const int64_t width = ring->resolved->width,
                  values = pull->out_grad != NULL ? ring->values_width : 0;
    double *sums = b->piece->sums + b->in.key * (width + values);
    turn_block(b, b->in.slopes);
    const ota_product by_key = {b->in.keys,    b->in.rows, width,
                                OTA_RING_ROWS, width,      width + values};
    algebra->apply(b->transposed, b->w->queries, &by_key, sums);
    if (values == 0) return;
    for (int64_t k = 0; k < b->in.rows; k++)
        ota_block_drop(&b->in, k, b->in.weights + k * b->in.stride);
    turn_block(b, b->in.weights);
    const ota_product by_value = {b->in.keys,    b->in.rows, values,
                                  OTA_RING_ROWS, values,     width + values};
    algebra->apply(b->transposed, b->w->upstream, &by_value, sums + width);
}

static void reverse_pairs(ota_ring_device *ring, const ota_ring_piece *piece, void *context) {
    ota_ring_pull *pull = context;
    const bool alone = pull->keys_alone;
    const ota_ring_visits visits = {.form = form_pairs,
                                    .formed = pull->keys.moved != NULL ? sum_keys : NULL,
                                    .rows = alone ? NULL : reverse_rows,
                                    .keys = alone ? NULL : reverse_keys,
                                    .merge = pull->want != NULL ? ota_ring_merge_parameters : NULL,
                                    .context = pull};
    ota_ring_pairs_load(ring, piece, pull->out_grad != NULL);
    ota_ring_visit_blocks(ring, piece, &visits);
}

bool ota_ring_pull_pairs(ota_ring_device *ring, ota_ring_pull *pull) {
    const bool values = pull->out_grad != NULL;
    const int64_t width = ring->resolved->width;
    const ota_message_round message_round = {
        .with_values = values,
        .sum_width = pull->keys_alone ? 0 : width + (values ? ring->values_width : 0),
        .visit = reverse_pairs,
        .context = pull,
        .step = pull->keys_alone ? "passing keys on for the right side of backward"
                                 : "passing keys and their gradients on"};
    if (pull->keys_alone) return ota_ring_go(ring, &message_round);
    pull->want = ring->backward.wanted;
    if (pull->want != NULL) ota_ring_begin_parameters(ring);
    if (!ota_ring_go_home(ring, &message_round)) return false;
    if (pull->want != NULL) ota_ring_end_parameters(ring, pull);
    return true;
}
