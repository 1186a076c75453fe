/* Gradients of the pairs of a ring where the tiles of pieces (ring_backward.c) do not know them: entmax, a softcap, dropout D,
 * parameters. With U = D (out_grad V^T) and w = P^(2 - alpha),
 *
 *     a_i = sum_j w_ij U_ij / (sum_j w_ij + sink's w)          free columns, b = 0
 *     dS_ij = w_ij (U_ij - a_i - b_j) / tau    dZ = scale dS, times 1 - tanh^2 of a softcap
 *     dQ = dZ K                                dK = dZ^T Q,  dV = (D P)^T out_grad */
#include <math.h>
#include <string.h>

#include "ring_pairs.h"
#include "terms/terms.h"

/* U of the block, 0 without gradients of outputs. */
static void form_upstream(const ota_ring_block *b, const ota_array *out_grad) {
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
    form_upstream(b, context);
    ota_ring_weigh(b);
    for (int64_t k = 0; k < b->in.rows; k++) {
        const int64_t row = b->at + k;
        ota_block_add_slopes(&b->in, k, NULL, NULL, &p->slope[row], &p->mean[row]);
        for (int64_t j = 0; j < b->in.keys; j++) {
            if (b->in.weights[k * b->in.stride + j] > 0.0 && p->piece.nonfinite[b->in.key + j] != 0)
                p->uses_nonfinite[row] = 1;
        }
    }
}

bool ota_ring_take_means(ota_ring_device *ring, const ota_array *out_grad) {
    ota_ring_pairs *p = ring->pairs;
    const int64_t rows = ring->group * ring->resolved->queries;
    ota_array from = *out_grad;
    const ota_ring_pair_round pair_round = {.rows = sum_slopes,
                                            .context = &from,
                                            .with_values = true,
                                            .step = "passing keys on for the means of backward"};
    memset(p->slope, 0, (size_t)rows * sizeof *p->slope);
    memset(p->mean, 0, (size_t)rows * sizeof *p->mean);
    if (!ota_ring_visit_pairs(ring, &pair_round)) return false;
    for (int64_t k = 0; k < rows; k++) {
        const ota_row_parameters row = ota_ring_parameters(ring, k / ring->resolved->queries);
        const double sink = ota_ring_weight(ring, &row, row.sink, p->f[k]);
        const double sum = p->slope[k] + ota_pair_slope(&row, row.sink, p->f[k], sink, INFINITY);
        p->slope[k] = sum;
        p->mean[k] = p->uses_nonfinite[k] != 0 ? (double)NAN : sum > 0.0 ? p->mean[k] / sum : 0.0;
    }
    return true;
}

void ota_ring_take_potentials(ota_ring_device *ring) {
    const ota_resolved *r = ring->resolved;
    ota_ring_pairs *p = ring->pairs;
    for (int64_t k = 0; k < ring->group * r->queries; k++) {
        const int64_t head = ring->unit.head + k / r->queries;
        const double mu = ota_row_mass(r, ring->unit.batch, head, k % r->queries);
        const bool finite = !isnan(ring->rows.lse[k]) && ring->rows.lse[k] < INFINITY;
        const bool idle = !(ring->rows.lse[k] > -INFINITY) || !(mu > 0.0);
        p->state[k] = finite ? OTA_RING_FOUND : OTA_RING_NONFINITE;
        p->f[k] = idle ? -INFINITY : ota_head_temperature(r, head) * (log(mu) - ring->rows.lse[k]);
        p->uses_nonfinite[k] = 0;
    }
}

/* Of softmax, out says what a is. */
static void take_means(ota_ring_device *ring, const ota_array *out_grad) {
    const ota_resolved *r = ring->resolved;
    ota_ring_pairs *p = ring->pairs;
    ota_ring_take_potentials(ring);
    for (int64_t k = 0; k < ring->group * r->queries; k++) {
        const int64_t batch = ring->unit.batch, head = ring->unit.head + k / r->queries,
                      i = k % r->queries;
        double sum = 0.0;
        for (int64_t w = 0; w < ring->values_width; w++)
            sum += ota_array_get(out_grad, batch, head, i, w) *
                   ring->rows.out[k * ring->values_width + w];
        p->mean[k] = p->f[k] <= -INFINITY ? 0.0 : sum / ota_row_mass(r, batch, head, i);
    }
}

bool ota_ring_pair_means(ota_ring_device *ring, const ota_array *out_grad) {
    if (ring->rule != OTA_RING_BY_LSE)
        return ota_ring_find_thresholds(ring) && ota_ring_take_means(ring, out_grad);
    take_means(ring, out_grad);
    return true;
}

/* ---- gradients ------------------------------------------------------------------------------------ */

/* dL/dS in the place of U. */
static void form_gradient(const ota_ring_block *b, const ota_ring_pull *pull) {
    const ota_ring_pairs *p = b->ring->pairs;
    const double *beside = pull->b != NULL ? pull->b + b->piece->first + b->in.key : NULL;
    form_upstream(b, pull->out_grad);
    ota_ring_weigh(b);
    for (int64_t k = 0; k < b->in.rows; k++) {
        const double a = p->mean[b->at + k];
        /* Rows that use values which are not finite have no mean. */
        const bool finite = p->state[b->at + k] != OTA_RING_NONFINITE && !isnan(a);
        ota_block_apply_slopes(&b->in, k, a, beside, finite, b->in.slopes + k * b->in.stride);
    }
}

/* It becomes dL/dZ, that of the products. */
static void go_through(const ota_ring_block *b) {
    ota_block_find_softcap_slopes(&b->in);
    ota_block_go_through(&b->in);
}

static void reverse_rows(const ota_ring_block *b, void *context) {
    const ota_ring_device *ring = b->ring;
    const ota_ring_pull *pull = context;
    const int64_t width = ring->resolved->width;
    form_gradient(b, pull);
    if (pull->want != NULL) ota_ring_take_parameters(b, pull);
    go_through(b);
    if (pull->want != NULL) ota_ring_take_inside(b, pull);
    const ota_product sizes = {b->in.rows, b->in.keys, width, ring->pairs->stride, width, width};
    ring->plans.forward->strategy.algebra->apply(b->in.slopes, ring->pairs->piece.lines, &sizes,
                                                 ring->backward.query_sums + b->at * width);
}

/* to[j][k] = from[k][j] */
static void turn_block(const ota_ring_block *b, const double *from) {
    for (int64_t k = 0; k < b->in.rows; k++) {
        for (int64_t j = 0; j < b->in.keys; j++)
            b->w->transposed[j * OTA_RING_ROWS + k] = from[k * b->in.stride + j];
    }
}

static void reverse_keys(const ota_ring_block *b, void *context) {
    const ota_ring_device *ring = b->ring;
    const ota_ring_pull *pull = context;
    const ota_host_algebra *algebra = ring->plans.forward->strategy.algebra;
    const int64_t width = ring->resolved->width,
                  values = pull->out_grad != NULL ? ring->values_width : 0;
    double *sums = b->piece->sums + b->in.key * (width + values);
    form_gradient(b, pull);
    go_through(b);
    turn_block(b, b->in.slopes);
    for (int64_t k = 0; k < b->in.rows * width; k++)
        if (!isfinite(b->w->queries[k])) b->w->queries[k] = 0.0;
    const ota_product by_key = {b->in.keys,    b->in.rows, width,
                                OTA_RING_ROWS, width,      width + values};
    algebra->apply(b->w->transposed, b->w->queries, &by_key, sums);
    if (values == 0) return;
    for (int64_t k = 0; k < b->in.rows && b->in.problem->problem.dropout > 0.0; k++)
        ota_dropout_row_f64(b->in.problem, b->in.dropout_key, b->in.first + k, b->in.key,
                            b->in.keys, b->in.weights + k * ring->pairs->stride);
    turn_block(b, b->in.weights);
    const ota_product by_value = {b->in.keys,    b->in.rows, values,
                                  OTA_RING_ROWS, values,     width + values};
    algebra->apply(b->w->transposed, b->w->upstream, &by_value, sums + width);
}

/* What the keys' own multipliers are found from. */
static void pull_columns(const ota_ring_block *b, void *context) {
    const ota_ring_pull *pull = context;
    const ota_ring_pairs *p = b->ring->pairs;
    const int64_t first = b->piece->first + b->in.key;
    form_upstream(b, pull->out_grad);
    ota_ring_weigh(b);
    for (int64_t k = 0; k < b->in.rows; k++) {
        const double *weights = b->in.weights + k * b->in.stride,
                     *u = b->in.slopes + k * b->in.stride, a = p->mean[b->at + k];
        for (int64_t j = 0; j < b->in.keys; j++) {
            if (!(weights[j] > 0.0)) continue;
            const double w = ota_block_slope(&b->in, k, j),
                         up = pull->out_grad != NULL ? u[j] : 0.0;
            pull->columns[first + j] += w * (up - a);
            if (pull->terms != NULL) pull->terms[first + j] += w * (fabs(up) + fabs(a));
            if (pull->slopes == NULL) continue;
            pull->slopes[first + j] += w;
            pull->sums[first + j] += weights[j];
        }
    }
}

void ota_ring_reverse_pairs(ota_ring_device *ring, const ota_ring_piece *piece, void *context) {
    ota_ring_pull *pull = context;
    ota_ring_pairs_load(ring, piece, pull->out_grad != NULL);
    if (pull->columns != NULL) ota_ring_by_keys(ring, piece, pull_columns, pull);
    if (pull->columns_alone) return;
    if (pull->want != NULL)
        ota_ring_by_sides(ring, piece, reverse_rows, ota_ring_merge_parameters, pull);
    else
        ota_ring_by_rows(ring, piece, reverse_rows, pull);
    ota_ring_by_keys(ring, piece, reverse_keys, pull);
}
