/* Tangents of a ring: those of queries stay with their rows, those of keys and values go round beside them. With
 *
 *     U = scale (dQ K^T + Q dK^T), through a softcap        a_i = sum_j w_ij U_ij / (sum_j w_ij + sink's w)
 *     d out = D (w (U - a - b) / tau) V + D P dV            w = P^(2 - alpha)
 *
 * free columns take one turn once f is known: sums of w U, w, D w U V, D w V and D P dV, then a. Coupled columns have b from
 * the system of backward, whose right side is sum_i P_ij (U_ij - a_i). All in f64. */
#include <math.h>
#include <string.h>

#include "fixed_rounds.h"
#include "multipliers.h"
#include "operator/jvp.h"
#include "pairs.h"
#include "problem/check.h"

/* ---- refusals ------------------------------------------------------------------------------------- */

static ota_status refuse(const char *name, const char *why, ota_error *error) {
    return ota_fail(error, OTA_UNSUPPORTED, name, "let communicator.keys be OTA_KEYS_GATHERED",
                    "a ring over the keys has no tangents %s", why);
}

ota_status ota_ring_check_tangents(const ota_plan *plan, const ota_tangents *along,
                                   ota_error *error) {
    const struct {
        const char *name;
        const ota_array *array;
    } others[] = {{"scores", &along->scores},
                  {"temperature", &along->temperature},
                  {"order", &along->order},
                  {"cap", &along->cap},
                  {"strength", &along->strength},
                  {"lower", &along->lower},
                  {"upper", &along->upper},
                  {"row_mass", &along->row_mass},
                  {"column_mass", &along->column_mass}};
    if (ota_array_present(&along->coupling)) return refuse("coupling", "of the coupling", error);
    for (size_t k = 0; k < sizeof others / sizeof others[0]; k++) {
        if (ota_array_present(others[k].array))
            return refuse(others[k].name, "along others than queries, keys and values", error);
    }
    for (int64_t k = 0; along->terms != NULL && k < plan->resolved.problem.term_count; k++) {
        if (ota_array_present(&along->terms[k])) return refuse("terms", "along terms", error);
    }
    return OTA_OK;
}

/* ---- a block -------------------------------------------------------------------------------------- */

static void load(ota_device *ring, const ota_ring_piece *piece, bool with_values) {
    ota_ring_pairs *p = ring->pairs;
    const int64_t width = ring->resolved->width, values = ring->values_width;
    ota_ring_pairs_load(ring, piece, with_values);
    for (int64_t j = 0; j < piece->count; j++) {
        const double *from = piece->sums + j * (width + values);
        for (int64_t w = 0; w < width; w++) p->keys_along[w * p->stride + j] = from[w];
        for (int64_t w = 0; w < values; w++) {
            const double v = from[width + w];
            p->values_along[j * values + w] = isfinite(v) ? v : 0.0;
            if (!isfinite(v)) p->broken[j] = 1;
        }
    }
}

/* U of the block into `slopes`, and P. */
static void form(const ota_ring_block *b, const ota_tangents *along) {
    const ota_device *ring = b->ring;
    const ota_ring_pairs *p = ring->pairs;
    const ota_host_algebra *algebra = ring->attends->course.algebra;
    const int64_t width = ring->resolved->width;
    const ota_product sizes = {b->rows, width, b->keys, width, p->stride, p->stride};
    for (int64_t k = 0; k < b->rows; k++)
        memset(b->w->slopes + k * p->stride, 0, (size_t)b->keys * sizeof(double));
    algebra->apply(b->w->queries, p->keys_along + b->key, &sizes, b->w->slopes);
    if (ota_array_present(&along->queries)) {
        algebra->read_rows(&along->queries, ring->unit.batch, ring->unit.head + b->head, b->first,
                           b->rows, b->w->queries, width);
        algebra->apply(b->w->queries, p->keys + b->key, &sizes, b->w->slopes);
    }
    for (int64_t k = 0; k < b->rows; k++) {
        ota_ring_bend(b, k);
        for (int64_t j = 0; j < b->keys; j++)
            b->w->slopes[k * p->stride + j] *= b->problem->scale * b->w->raw[k * p->stride + j];
    }
    ota_ring_weigh(b);
}

static void drop(const ota_ring_block *b, int64_t k, double *row) {
    if (b->problem->problem.dropout > 0.0)
        ota_dropout_row_f64(b->problem, b->dropout_key, b->first + k, b->key, b->keys, row);
}

/* out += D (w (U - b) / tau) V + D P dV, piece_out += D w V; sums of w and w U. b is 0 on free columns. */
static void move_rows(const ota_ring_block *b, void *context) {
    const ota_device *ring = b->ring;
    ota_ring_pairs *p = ring->pairs;
    const ota_host_algebra *algebra = ring->attends->course.algebra;
    const int64_t width = ring->values_width;
    const double rate = 1.0 / b->parameters.tau;
    const double *beside = ring->coupled ? ring->adjoint->b + b->piece->first : NULL;
    form(b, context);
    for (int64_t k = 0; k < b->rows; k++) {
        const int64_t row = b->at + k;
        double *weights = b->w->weights + k * p->stride, *u = b->w->slopes + k * p->stride,
               *change = b->w->raw + k * p->stride;
        for (int64_t j = 0; j < b->keys; j++) {
            const double w = weights[j] > 0.0 ? ota_ring_slope(&b->parameters, weights[j]) : 0.0;
            const double moved = w > 0.0 ? w * (u[j] - (beside != NULL ? beside[j] : 0.0)) : 0.0;
            p->slope[row] += w;
            p->mean[row] += moved;
            if (w > 0.0 && p->broken[j] != 0) p->uses_broken[row] = 1;
            change[j] = moved * rate;
            u[j] = w;
        }
        drop(b, k, change);
        drop(b, k, u);
        drop(b, k, weights);
    }
    const ota_product sizes = {b->rows, b->keys, width, p->stride, width, width};
    algebra->apply(b->w->raw, p->values, &sizes, ring->out + b->at * width);
    algebra->apply(b->w->weights, p->values_along, &sizes, ring->out + b->at * width);
    algebra->apply(b->w->slopes, p->values, &sizes, ring->piece_out + b->at * width);
}

static void move_piece(ota_device *ring, const ota_ring_piece *piece, void *context) {
    if (ring->failed != OTA_OK) return;
    load(ring, piece, true);
    ota_ring_by_rows(ring, piece, move_rows, context);
}

static ota_ring_turn turn_of(const ota_device *ring, const ota_tangents *along,
                             ota_ring_visit *visit) {
    return (ota_ring_turn){.unit = ring->unit,
                           .sum_width = ring->resolved->width + ring->values_width,
                           .along = along,
                           .visit = visit,
                           .context = (void *)(uintptr_t)along,
                           .step = "passing keys and their tangents on"};
}

static void put_rows(const ota_device *ring, const ota_array *to) {
    const ota_resolved *r = ring->resolved;
    const ota_ring_pairs *p = ring->pairs;
    const int64_t width = ring->values_width;
    for (int64_t k = 0; k < ring->group * r->queries; k++) {
        const ota_row_parameters row = ota_ring_parameters(ring, k / r->queries);
        const double sink = ota_ring_weight(ring, &row, row.sink, p->f[k]);
        const double sum = p->slope[k] + (sink > 0.0 ? ota_ring_slope(&row, sink) : 0.0);
        const double a = sum > 0.0 ? p->mean[k] / sum : 0.0;
        const bool whole = p->state[k] != OTA_RING_NONFINITE && p->uses_broken[k] == 0;
        for (int64_t w = 0; w < width; w++) {
            const double moved =
                ring->out[k * width + w] - a / row.tau * ring->piece_out[k * width + w];
            ota_array_set(to, ring->unit.batch, ring->unit.head + k / r->queries, k % r->queries, w,
                          whole ? moved : (double)NAN);
        }
    }
}

/* The turn with values; with b known the row's own multiplier follows from the same sums. */
static bool move(ota_device *ring, const ota_tangents *along) {
    const int64_t rows = ring->group * ring->resolved->queries;
    const size_t bytes = (size_t)(rows * ring->values_width) * sizeof(double);
    ota_ring_turn turn = turn_of(ring, along, move_piece);
    turn.with_values = true;
    memset(ring->pairs->slope, 0, (size_t)rows * sizeof(double));
    memset(ring->pairs->mean, 0, (size_t)rows * sizeof(double));
    memset(ring->out, 0, bytes);
    memset(ring->piece_out, 0, bytes);
    return ota_ring_go(ring, &turn);
}

/* ---- coupled columns ------------------------------------------------------------------------------ */

/* row_right = sum_j P_ij (U_ij - b_j) */
static void sum_rows(const ota_ring_block *b, void *context) {
    const ota_ring_pairs *p = b->ring->pairs;
    const double *beside = b->ring->adjoint->b + b->piece->first;
    form(b, context);
    for (int64_t k = 0; k < b->rows; k++) {
        const double *weights = b->w->weights + k * p->stride, *u = b->w->slopes + k * p->stride;
        for (int64_t j = 0; j < b->keys; j++) {
            if (weights[j] > 0.0)
                b->ring->adjoint->row_right[b->at + k] += weights[j] * (u[j] - beside[j]);
        }
    }
}

static void sum_rows_of_piece(ota_device *ring, const ota_ring_piece *piece, void *context) {
    if (ring->failed != OTA_OK) return;
    load(ring, piece, false);
    ota_ring_by_rows(ring, piece, sum_rows, context);
}

static void sum_keys(const ota_ring_block *b, void *context) {
    const ota_ring_pairs *p = b->ring->pairs;
    const ota_ring_adjoint *s = b->ring->adjoint;
    const int64_t first = b->piece->first + b->key;
    form(b, context);
    for (int64_t k = 0; k < b->rows; k++) {
        const double *weights = b->w->weights + k * p->stride, *u = b->w->slopes + k * p->stride;
        const double den = s->den[b->at + k],
                     mean = den > 0.0 ? s->row_right[b->at + k] / den : 0.0;
        for (int64_t j = 0; j < b->keys; j++) {
            if (!(weights[j] > 0.0)) continue;
            s->own_sums[first + j] += weights[j];
            s->right[first + j] += weights[j] * (u[j] - mean);
            s->terms[first + j] += weights[j] * (fabs(u[j]) + fabs(mean));
        }
    }
}

static void sum_keys_of_piece(ota_device *ring, const ota_ring_piece *piece, void *context) {
    if (ring->failed != OTA_OK) return;
    load(ring, piece, false);
    ota_ring_by_keys(ring, piece, sum_keys, context);
}

/* row_right at the b at hand, then right = sum_i P_ij (U_ij - row_right_i / den_i), its terms and sums, of this rank's rows. */
static bool sum_pairs(ota_device *ring, const ota_tangents *along) {
    const ota_resolved *r = ring->resolved;
    const ota_ring_adjoint *s = ring->adjoint;
    const size_t bytes = (size_t)r->keys * sizeof(double);
    const ota_ring_turn rows = turn_of(ring, along, sum_rows_of_piece),
                        keys = turn_of(ring, along, sum_keys_of_piece);
    double *const columns[] = {s->right, s->terms, s->own_sums};
    ota_ring_set_den(ring);
    memset(s->row_right, 0, (size_t)r->queries * sizeof(double));
    for (int k = 0; k < 3; k++) memset(columns[k], 0, bytes);
    return ota_ring_go(ring, &rows) && ota_ring_go(ring, &keys);
}

/* b of a head with coupled columns. */
static ota_status find_multipliers(ota_device *ring, const ota_tangents *along, double *residual) {
    memset(ring->adjoint->b, 0, (size_t)ring->resolved->keys * sizeof(double));
    return sum_pairs(ring, along) ? ota_ring_solve_adjoint(ring, residual) : OTA_ECOMM;
}

/* b = -dg of a round becomes that of the next, df being -row_right / den. */
static ota_status move_round(ota_device *ring, const ota_head *head, int64_t round, void *context) {
    const ota_ring_adjoint *s = ring->adjoint;
    const ota_settings *settings = &ring->resolved->settings;
    (void)round;
    ota_ring_take_potentials(ring);
    if (!sum_pairs(ring, context) ||
        !ota_ranks_sum(settings, s->right, head->columns, NULL, 0, "a round of tangents"))
        return OTA_ECOMM;
    for (int64_t j = 0; j < head->columns; j++) {
        const double sum = head->kernel.sum[j];
        const ota_key_update update = ota_ring_update(head, j, head->g[j], sum);
        s->b[j] *= update.by_g;
        if (update.by_level > 0.0) s->b[j] += update.by_level * s->right[j] / sum;
    }
    return ota_interrupted_together(settings);
}

/* The last g and b of fixed rounds, and the lse that belongs to them. */
static ota_status follow_rounds(ota_device *ring, const ota_arrays *arrays,
                                const ota_tangents *along) {
    ota_head head;
    memset(ring->adjoint->b, 0, (size_t)ring->resolved->keys * sizeof(double));
    const ota_status status =
        ota_ring_replay(ring, arrays, move_round, (void *)(uintptr_t)along, &head);
    if (status != OTA_OK) return status;
    return ota_ring_attend(ring, &ring->unit, false) ? OTA_OK : OTA_ECOMM;
}

/* ---- heads ---------------------------------------------------------------------------------------- */

static ota_status move_unit(ota_device *ring, const ota_arrays *arrays, const ota_tangents *along,
                            double *residual) {
    const bool fixed = ring->kept != NULL;
    if (fixed) {
        const ota_status status = follow_rounds(ring, arrays, along);
        if (status != OTA_OK) return status;
    } else if (ring->by_pairs) {
        if (!ota_ring_find_thresholds(ring)) return OTA_ECOMM;
    } else if (ring->coupled ? !ota_ring_load_potentials(ring, arrays, false)
                             : !ota_ring_attend(ring, &ring->unit, false)) {
        return OTA_ECOMM;
    }
    if (!ring->by_pairs) ota_ring_take_potentials(ring);
    if (ring->coupled && !fixed) {
        const ota_status status = find_multipliers(ring, along, residual);
        if (status != OTA_OK) return status;
    }
    return move(ring, along) ? OTA_OK : OTA_ECOMM;
}

ota_status ota_ring_jvp(ota_plan *plan, const ota_arrays *arrays, const ota_tangents *along,
                        ota_result *found) {
    ota_device *ring = plan->device;
    const ota_resolved *r = ring->resolved;
    const int64_t sharers = r->heads / r->key_heads;
    ring->failed = OTA_OK;
    if (!ota_array_present(&along->out) || ring->values_width == 0) return OTA_OK;
    for (int64_t k = 0; k < r->batch * r->heads; k += ring->group) {
        ring->unit = (ota_ring_unit){.batch = k / r->heads,
                                     .key_head = k % r->heads / sharers,
                                     .head = k % r->heads,
                                     .heads = ring->group};
        ota_ranks_at(&ring->shards->ranks, k, -1);
        /* A rank that is told to stop still passes on what others wait for. */
        if (ota_interrupted(&r->settings) != OTA_OK) ring->failed = ota_interrupted(&r->settings);
        double residual = 0.0;
        const ota_status status = move_unit(ring, arrays, along, &residual);
        found->backward_residual = fmax(found->backward_residual, residual);
        found->head = k;
        if (status != OTA_OK) return status;
        if (ring->failed == OTA_OK) put_rows(ring, &along->out);
    }
    return ring->failed;
}
