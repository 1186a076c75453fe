/* Gradients of the pairs of a ring where the tiles of pieces (backward.c) do not know them: entmax, a softcap, dropout D,
 * parameters. With U = D (out_grad V^T) and w = P^(2 - alpha),
 *
 *     a_i = sum_j w_ij U_ij / (sum_j w_ij + sink's w)          free columns, b = 0
 *     dS_ij = w_ij (U_ij - a_i - b_j) / tau    dZ = scale dS, times 1 - tanh^2 of a softcap
 *     dQ = dZ K                                dK = dZ^T Q,  dV = (D P)^T out_grad */
#include <math.h>
#include <string.h>

#include "pairs.h"
#include "terms/terms.h"

/* P^(2 - alpha) */
double ota_ring_slope(const ota_row_parameters *row, double p) {
    if (!(p > 0.0) || row->regulariser->exponential) return p;
    if (row->order >= 2.0 && row->order <= 2.0) return 1.0;
    if (row->order >= 1.5 && row->order <= 1.5) return sqrt(p);
    return pow(p, 2.0 - row->order);
}

/* U of the block. */
static void form_upstream(const ota_ring_block *b, const ota_array *out_grad) {
    const ota_ring_device *ring = b->ring;
    const ota_ring_pairs *p = ring->pairs;
    const ota_host_algebra *algebra = ring->plan_forward->strategy.algebra;
    const int64_t width = ring->values_width;
    algebra->read_rows(out_grad, ring->unit.batch, ring->unit.head + b->head, b->first, b->rows,
                       b->w->upstream, width);
    for (int64_t k = 0; k < b->rows; k++)
        memset(b->w->slopes + k * p->stride, 0, (size_t)b->keys * sizeof(double));
    const ota_product sizes = {b->rows, width, b->keys, width, p->stride, p->stride};
    algebra->apply(b->w->upstream, p->values_transposed + b->key, &sizes, b->w->slopes);
    for (int64_t k = 0; k < b->rows && b->problem->problem.dropout > 0.0; k++)
        ota_dropout_row_f64(b->problem, b->dropout_key, b->first + k, b->key, b->keys,
                            b->w->slopes + k * p->stride);
}

/* ---- multipliers ---------------------------------------------------------------------------------- */

static void sum_slopes(const ota_ring_block *b, void *context) {
    ota_ring_pairs *p = b->ring->pairs;
    form_upstream(b, context);
    ota_ring_weigh(b);
    for (int64_t k = 0; k < b->rows; k++) {
        const int64_t row = b->at + k;
        const double *weights = b->w->weights + k * p->stride, *u = b->w->slopes + k * p->stride;
        for (int64_t j = 0; j < b->keys; j++) {
            if (!(weights[j] > 0.0)) continue;
            const double w = ota_ring_pair_slope(b, k, j, weights[j]);
            p->slope[row] += w;
            p->mean[row] += w * u[j];
            if (p->nonfinite[b->key + j] != 0) p->uses_nonfinite[row] = 1;
        }
    }
}

static void sum_piece(ota_ring_device *ring, const ota_ring_piece *piece, void *context) {
    if (ring->failed != OTA_OK) return;
    ota_ring_pairs_load(ring, piece, true);
    ota_ring_by_rows(ring, piece, sum_slopes, context);
}

bool ota_ring_take_means(ota_ring_device *ring, const ota_array *out_grad) {
    ota_ring_pairs *p = ring->pairs;
    const int64_t rows = ring->group * ring->resolved->queries;
    ota_array from = *out_grad;
    const ota_message_round message_round = {.unit = ring->unit,
                                             .with_values = true,
                                             .visit = sum_piece,
                                             .context = &from,
                                             .step = "passing keys on for the means of backward"};
    memset(p->slope, 0, (size_t)rows * sizeof *p->slope);
    memset(p->mean, 0, (size_t)rows * sizeof *p->mean);
    if (!ota_ring_go(ring, &message_round)) return false;
    for (int64_t k = 0; k < rows; k++) {
        const ota_row_parameters row = ota_ring_parameters(ring, k / ring->resolved->queries);
        const double sink = ota_ring_weight(ring, &row, row.sink, p->f[k]);
        const double sum = p->slope[k] + (sink > 0.0 ? ota_ring_slope(&row, sink) : 0.0);
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
        const bool finite = !isnan(ring->lse[k]) && ring->lse[k] < INFINITY;
        const bool idle = !(ring->lse[k] > -INFINITY) || !(mu > 0.0);
        p->state[k] = finite ? OTA_RING_FOUND : OTA_RING_NONFINITE;
        p->f[k] = idle ? -INFINITY : ota_head_temperature(r, head) * (log(mu) - ring->lse[k]);
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
            sum +=
                ota_array_get(out_grad, batch, head, i, w) * ring->out[k * ring->values_width + w];
        p->mean[k] = p->f[k] <= -INFINITY ? 0.0 : sum / ota_row_mass(r, batch, head, i);
    }
}

bool ota_ring_pair_means(ota_ring_device *ring, const ota_array *out_grad) {
    if (ring->by_pairs)
        return ota_ring_find_thresholds(ring) && ota_ring_take_means(ring, out_grad);
    take_means(ring, out_grad);
    return true;
}

/* ---- gradients ------------------------------------------------------------------------------------ */

void ota_ring_softcap_slopes(const ota_ring_block *b, int64_t k) {
    const ota_resolved *r = b->problem;
    const int64_t diagonal = ota_row_number(r, b->first + k) + r->keys - 1 - b->key;
    double *raw = b->w->raw + k * b->ring->pairs->stride;
    const ota_term *inside = NULL, *softcap = NULL;
    for (int t = 0; t < r->term_count; t++) {
        if (ota_term_is_inside(&r->terms[t])) inside = &r->terms[t];
        if (ota_term_form_of(&r->terms[t]) == OTA_FORM_SOFTCAP) softcap = &r->terms[t];
    }
    for (int64_t j = 0; j < b->keys; j++) {
        double y = raw[j];
        if (softcap == NULL) {
            raw[j] = 1.0;
            continue;
        }
        if (inside != NULL) y += ota_array_get(&inside->array, 0, b->head, 0, diagonal - j);
        const double tanh_y = tanh(y * r->scale / softcap->value);
        raw[j] = (1.0 - tanh_y) * (1.0 + tanh_y);
    }
}

/* G = dL/dS in the place of U. */
static void form_gradient(const ota_ring_block *b, const ota_ring_pull *pull) {
    const ota_ring_pairs *p = b->ring->pairs;
    const double rate = 1.0 / b->parameters.tau;
    const double *beside = pull->b != NULL ? pull->b + b->piece->first + b->key : NULL;
    if (pull->out_grad != NULL) form_upstream(b, pull->out_grad);
    ota_ring_weigh(b);
    for (int64_t k = 0; k < b->rows; k++) {
        const double *s = b->w->scores + k * p->stride, a = p->mean[b->at + k];
        double *u = b->w->slopes + k * p->stride, *weights = b->w->weights + k * p->stride;
        /* Rows that use values which are not finite have no mean. */
        const bool finite = p->state[b->at + k] != OTA_RING_NONFINITE && !isnan(a);
        for (int64_t j = 0; j < b->keys; j++) {
            const double up = pull->out_grad != NULL ? u[j] : 0.0;
            if (!finite)
                u[j] = weights[j] = s[j] <= -INFINITY ? 0.0 : (double)NAN;
            else
                u[j] = weights[j] > 0.0 ? ota_ring_pair_slope(b, k, j, weights[j]) *
                                              (up - a - (beside != NULL ? beside[j] : 0.0)) * rate
                                        : 0.0;
        }
    }
}

/* G becomes dZ, that of the products. */
static void go_through(const ota_ring_block *b) {
    const int64_t stride = b->ring->pairs->stride;
    for (int64_t k = 0; k < b->rows; k++) {
        double *g = b->w->slopes + k * stride;
        const double *slope = b->w->raw + k * stride;
        ota_ring_softcap_slopes(b, k);
        for (int64_t j = 0; j < b->keys; j++)
            g[j] = g[j] < 0.0 || g[j] > 0.0 ? g[j] * b->problem->scale * slope[j] : g[j];
    }
}

static void reverse_rows(const ota_ring_block *b, void *context) {
    const ota_ring_device *ring = b->ring;
    const ota_ring_pull *pull = context;
    const int64_t width = ring->resolved->width;
    form_gradient(b, pull);
    if (pull->want != NULL) ota_ring_take_parameters(b, pull);
    go_through(b);
    if (pull->want != NULL) ota_ring_take_inside(b, pull);
    const ota_product sizes = {b->rows, b->keys, width, ring->pairs->stride, width, width};
    ring->plan_forward->strategy.algebra->apply(b->w->slopes, ring->pairs->lines, &sizes,
                                                ring->query_sums + b->at * width);
}

/* to[j][k] = from[k][j] */
static void turn_block(const ota_ring_block *b, const double *from) {
    for (int64_t k = 0; k < b->rows; k++) {
        for (int64_t j = 0; j < b->keys; j++)
            b->w->transposed[j * OTA_RING_ROWS + k] = from[k * b->ring->pairs->stride + j];
    }
}

static void reverse_keys(const ota_ring_block *b, void *context) {
    const ota_ring_device *ring = b->ring;
    const ota_ring_pull *pull = context;
    const ota_host_algebra *algebra = ring->plan_forward->strategy.algebra;
    const int64_t width = ring->resolved->width,
                  values = pull->out_grad != NULL ? ring->values_width : 0;
    double *sums = b->piece->sums + b->key * (width + values);
    form_gradient(b, pull);
    go_through(b);
    turn_block(b, b->w->slopes);
    for (int64_t k = 0; k < b->rows * width; k++)
        if (!isfinite(b->w->queries[k])) b->w->queries[k] = 0.0;
    const ota_product by_key = {b->keys, b->rows, width, OTA_RING_ROWS, width, width + values};
    algebra->apply(b->w->transposed, b->w->queries, &by_key, sums);
    if (values == 0) return;
    for (int64_t k = 0; k < b->rows && b->problem->problem.dropout > 0.0; k++)
        ota_dropout_row_f64(b->problem, b->dropout_key, b->first + k, b->key, b->keys,
                            b->w->weights + k * ring->pairs->stride);
    turn_block(b, b->w->weights);
    const ota_product by_value = {b->keys, b->rows, values, OTA_RING_ROWS, values, width + values};
    algebra->apply(b->w->transposed, b->w->upstream, &by_value, sums + width);
}

/* What the keys' own multipliers are found from. */
static void pull_columns(const ota_ring_block *b, void *context) {
    const ota_ring_pull *pull = context;
    const ota_ring_pairs *p = b->ring->pairs;
    const int64_t first = b->piece->first + b->key;
    if (pull->out_grad != NULL) form_upstream(b, pull->out_grad);
    ota_ring_weigh(b);
    for (int64_t k = 0; k < b->rows; k++) {
        const double *weights = b->w->weights + k * p->stride, *u = b->w->slopes + k * p->stride,
                     a = p->mean[b->at + k];
        for (int64_t j = 0; j < b->keys; j++) {
            if (!(weights[j] > 0.0)) continue;
            const double w = ota_ring_pair_slope(b, k, j, weights[j]),
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
    if (ring->failed != OTA_OK) return;
    ota_ring_pairs_load(ring, piece, pull->out_grad != NULL);
    if (pull->columns != NULL) ota_ring_by_keys(ring, piece, pull_columns, pull);
    if (pull->columns_alone) return;
    if (pull->want != NULL)
        ota_ring_by_sides(ring, piece, reverse_rows, ota_ring_merge_parameters, pull);
    else
        ota_ring_by_rows(ring, piece, reverse_rows, pull);
    ota_ring_by_keys(ring, piece, reverse_keys, pull);
}
