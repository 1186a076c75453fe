/* Tangents of a ring: those of queries stay with their rows, those of keys and values go round beside them. With
 *
 *     U = dS - x dtau + tau h(P) dalpha      dS from scale (dQ K^T + Q dK^T) and the terms, as of any plan (operator/jvp.h)
 *     a_i = (sum_j w_ij (U_ij - b_j) + sink's w U - tau dmu_i) / (sum_j w_ij + sink's w)
 *     d out = D (w (U - a - b) / tau) V + D P dV            w = P^(2 - alpha)
 *
 * free columns take one message round once f is known: sums of w U, w, D w U V, D w V and D P dV, then a. Coupled columns have b from
 * the system of backward, whose right side is sum_i w_ij (U_ij - a_i) - tau dC_j. All in f64. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "ring_fixed_rounds.h"
#include "ring_limits.h"
#include "ring_masses.h"
#include "ring_multipliers.h"
#include "operator/jvp.h"
#include "ring_pairs.h"
#include "problem/check.h"

/* ---- refusals ------------------------------------------------------------------------------------- */

static ota_status refuse(const char *name, const char *why, ota_error *error) {
    return ota_fail(error, OTA_UNSUPPORTED, name, "let communicator.keys be OTA_KEYS_GATHERED",
                    "a ring over the keys has no tangents %s", why);
}

ota_status ota_ring_check_tangents(const ota_plan *plan, const ota_tangents *tangents,
                                   ota_error *error) {
    (void)plan;
    if (ota_array_present(&tangents->coupling)) return refuse("coupling", "of the coupling", error);
    return ota_array_present(&tangents->scores) ? refuse("scores", "along scores", error) : OTA_OK;
}

/* ---- a block -------------------------------------------------------------------------------------- */

/* What moves, and how. */
typedef struct motion {
    ota_plan *plan;
    const ota_arrays *arrays;
    const ota_tangents *tangents;
} motion;

/* A head of the unit at work. */
static ota_tangent_job job_of(const motion *m, int64_t head) {
    ota_tangent_job job = {.base = ota_ring_job(m->plan), .tangents = m->tangents};
    job.base.head += head;
    ota_tangents_begin_head(&job);
    return job;
}

/* U of the block into `slopes`, and P. */
static void form(const ota_ring_block *b, void *context) {
    const motion *m = context;
    const ota_ring_device *ring = b->ring;
    const ota_tangents *tangents = m->tangents;
    const ota_tangent_job job = job_of(m, b->in.head);
    const ota_ring_pairs *p = ring->pairs;
    const int64_t width = ring->resolved->width;
    for (int64_t k = 0; k < b->in.rows; k++)
        memset(b->in.slopes + k * b->in.stride, 0, (size_t)b->in.keys * sizeof(double));
    ota_block_add_products(&b->in, b->w->queries, p->piece.key_tangents + b->in.key, b->in.stride,
                           b->in.slopes);
    if (ota_array_present(&tangents->queries)) {
        b->in.algebra->read_rows(&tangents->queries, ring->unit.batch, ring->unit.head + b->in.head,
                                 b->in.first, b->in.rows, b->w->queries, width);
        ota_block_add_products(&b->in, b->w->queries, p->piece.keys + b->in.key, b->in.stride,
                               b->in.slopes);
    }
    ota_ring_weigh(b);
    for (int64_t k = 0; k < b->in.rows; k++) {
        const ota_tangent_row_keys row = {.resolved = ring->resolved,
                                          .tangents = tangents,
                                          .batch = ring->unit.batch,
                                          .head = ring->unit.head + b->in.head,
                                          .query = b->in.first + k,
                                          .first = b->piece->first + b->in.key,
                                          .count = b->in.keys};
        double *u = b->in.slopes + k * b->in.stride;
        ota_tangents_of_terms(&row, b->in.raw + k * b->in.stride, u);
        ota_complete_tangents(&job.base.parameters, &job.numbers, b->in.scores + k * b->in.stride,
                              p->f[b->at + k], b->in.weights + k * b->in.stride, b->in.keys, u);
    }
}

/* The sink's w and U. */
static ota_block_row sink_of(const motion *m, int64_t k) {
    const ota_ring_device *ring = m->plan->device;
    const ota_tangent_job job = job_of(m, k / ring->resolved->queries);
    ota_row_parameters rule;
    const double weight = ota_ring_sink_of(ring, k, &rule);
    ota_block_row row;
    ota_tangents_of_sink(&job, ring->pairs->f[k], weight, &row);
    return row;
}

/* What a row's own rule and its sink add to sum_j w_ij U_ij, and the sink's w. */
static double rest_of_row(const motion *m, int64_t k, double *slope) {
    const ota_ring_device *ring = m->plan->device;
    const int64_t queries = ring->resolved->queries;
    const ota_tangent_job job = job_of(m, k / queries);
    const double f = ring->pairs->f[k];
    const ota_block_row row = sink_of(m, k);
    *slope = row.sink_slope;
    return row.sink_slope * (row.sink_u - ota_ring_middle(ring, k)) -
           job.base.parameters.tau *
               (ota_tangents_of_row(&job, k % queries, f > -INFINITY ? 1.0 : 0.0, f, true) -
                ring->backward.limits->by_keys[k]);
}

static void begin_centre(const motion *m, int64_t k) {
    const ota_block_row row = sink_of(m, k);
    ota_ring_begin_centre(m->plan->device, k, row.sink_slope, row.sink_u);
}

/* Measures U of a block's row, and what was summed up before, from that of the row's steepest weight. */
static void centre(const ota_ring_block *b, int64_t k, double rate) {
    const ota_ring_device *ring = b->ring;
    const int64_t row = b->at + k, width = ring->values_width;
    const double before = ota_ring_middle(ring, row);
    ota_ring_move_centre(b, k);
    ota_ring_centre(b, k);
    const double by = rate * (before - ota_ring_middle(ring, row));
    for (int64_t w = 0; w < width && (by > 0.0 || by < 0.0); w++)
        ring->rows.out[row * width + w] += by * ring->rows.piece_out[row * width + w];
}

/* out += D (w (U - b) / tau) V + D P dV, piece_out += D w V; sums of w and w U. b is 0 on free columns. */
static void move_rows(const ota_ring_block *b, void *context) {
    const motion *m = context;
    const ota_ring_device *ring = b->ring;
    ota_ring_pairs *p = ring->pairs;
    const ota_host_algebra *algebra = ring->plans.forward->strategy.algebra;
    const int64_t width = ring->values_width;
    const double rate = 1.0 / b->in.rule.tau;
    const double *beside = ring->coupled ? ring->backward.adjoint->b + b->piece->first : NULL;
    const bool steep = beside != NULL && ota_ring_is_steep(ring);
    form(b, context);
    for (int64_t k = 0; k < b->in.rows; k++) {
        const int64_t row = b->at + k;
        double *weights = b->in.weights + k * b->in.stride, *u = b->in.slopes + k * b->in.stride,
               *change = b->in.raw + k * b->in.stride;
        ota_ring_note_values(b, k);
        for (int64_t j = 0; j < b->in.keys && steep; j++) u[j] -= beside[j];
        centre(b, k, rate);
        for (int64_t j = 0; j < b->in.keys; j++) {
            const double w = weights[j] > 0.0 ? ota_block_slope(&b->in, k, j) : 0.0;
            const double moved =
                w > 0.0 ? w * (u[j] - (beside != NULL && !steep ? beside[j] : 0.0)) : 0.0;
            p->slope[row] += w;
            p->mean[row] += moved;
            change[j] = moved * rate;
            u[j] = w;
        }
        ota_ring_add_grown(m->plan, b, k, change);
        ota_block_drop(&b->in, k, change);
        ota_block_drop(&b->in, k, u);
        ota_block_drop(&b->in, k, weights);
    }
    const ota_product sizes = {b->in.rows, b->in.keys, width, b->in.stride, width, width};
    algebra->apply(b->in.raw, p->piece.values, &sizes, ring->rows.out + b->at * width);
    algebra->apply(b->in.weights, p->piece.value_tangents, &sizes, ring->rows.out + b->at * width);
    algebra->apply(b->in.slopes, p->piece.values, &sizes, ring->rows.piece_out + b->at * width);
}

static ota_ring_pair_round pair_round_of(motion *m) {
    return (ota_ring_pair_round){
        .visits.context = m, .tangents = m->tangents, .step = "passing keys and their tangents on"};
}

static void put_rows(ota_plan *plan, void *context) {
    const motion *m = context;
    const ota_ring_device *ring = plan->device;
    const ota_resolved *r = ring->resolved;
    const ota_ring_pairs *p = ring->pairs;
    const int64_t width = ring->values_width;
    for (int64_t k = 0; k < ota_ring_row_count(ring); k++) {
        const int64_t head = ring->unit.head + k / r->queries;
        double slope;
        const double rest = rest_of_row(m, k, &slope), sum = p->slope[k] + slope;
        const double a = sum > 0.0 ? (p->mean[k] + rest) / sum : 0.0;
        const double rate = a / ota_head_temperature(r, head);
        const bool whole = p->state[k] != OTA_RING_NONFINITE && p->uses_nonfinite[k] == 0;
        for (int64_t w = 0; w < width; w++) {
            const double moved =
                ring->rows.out[k * width + w] - rate * ring->rows.piece_out[k * width + w];
            ota_array_set(&m->tangents->out, ring->unit.batch, head, k % r->queries, w,
                          whole ? moved : (double)NAN);
        }
    }
}

/* The message round with values; with b known the row's own multiplier follows from the same sums. */
static bool move(ota_ring_device *ring, motion *m) {
    const int64_t rows = ota_ring_row_count(ring);
    const size_t bytes = (size_t)(rows * ring->values_width) * sizeof(double);
    ota_ring_pair_round pair_round = pair_round_of(m);
    pair_round.visits.rows = move_rows;
    pair_round.with_values = true;
    memset(ring->pairs->slope, 0, (size_t)rows * sizeof(double));
    memset(ring->pairs->mean, 0, (size_t)rows * sizeof(double));
    memset(ring->rows.out, 0, bytes);
    memset(ring->rows.piece_out, 0, bytes);
    for (int64_t k = 0; k < rows; k++) begin_centre(m, k);
    return ota_ring_visit_pairs(ring, &pair_round);
}

/* ---- coupled columns ------------------------------------------------------------------------------ */

/* row_right = sum_j w_ij (U_ij - b_j), slope = sum_j w_ij */
static void sum_rows(const ota_ring_block *b, void *context) {
    const ota_ring_pairs *p = b->ring->pairs;
    const ota_ring_adjoint *s = b->ring->backward.adjoint;
    form(b, context);
    for (int64_t k = 0; k < b->in.rows; k++) {
        const int64_t row = b->at + k;
        const bool steep = ota_ring_is_steep(b->ring);
        ota_ring_move_centre(b, k);
        ota_ring_centre(b, k);
        ota_block_add_slopes(&b->in, k, s->b + b->piece->first, NULL, &p->slope[row],
                             steep ? &p->mean[row] : &s->row_right[row]);
    }
}

static void sum_keys(const ota_ring_block *b, void *context) {
    const ota_ring_adjoint *s = b->ring->backward.adjoint;
    const ota_block_key_sums sums = {s->own_columns, s->own_sums, s->right, s->terms};
    (void)context;
    ota_ring_add_key_sums(b, &sums);
}

/* row_right at the b at hand, then right = sum_i w_ij (U_ij - row_right_i / den_i), its terms and sums, of this rank's rows. */
static bool sum_pairs(ota_ring_device *ring, motion *m) {
    const ota_resolved *r = ring->resolved;
    const ota_ring_adjoint *s = ring->backward.adjoint;
    const size_t bytes = (size_t)r->keys * sizeof(double);
    ota_ring_pair_round rows = pair_round_of(m), keys = pair_round_of(m);
    double *const columns[] = {s->right, s->terms, s->own_sums, s->own_columns};
    for (int64_t i = 0; i < r->queries; i++)
        s->row_right[i] = rest_of_row(m, i, &ring->pairs->slope[i]);
    for (int k = 0; k < (s->own_columns != NULL ? 4 : 3); k++) memset(columns[k], 0, bytes);
    rows.visits.rows = sum_rows;
    keys.visits.form = form;
    keys.visits.keys = sum_keys;
    for (int64_t i = 0; i < r->queries && ota_ring_is_steep(ring); i++) {
        begin_centre(m, i);
        ring->pairs->slope[i] = ring->pairs->mean[i] = 0.0;
    }
    if (!ota_ring_visit_pairs(ring, &rows)) return false;
    for (int64_t i = 0; i < r->queries && ota_ring_is_steep(ring); i++) {
        double slope;
        s->row_right[i] = ring->pairs->mean[i] + rest_of_row(m, i, &slope);
        ring->pairs->slope[i] += slope;
    }
    ota_ring_set_den(ring);
    for (int64_t i = 0; i < r->queries; i++)
        ring->pairs->mean[i] = s->den[i] > 0.0 ? s->row_right[i] / s->den[i] : 0.0;
    return ota_ring_visit_pairs(ring, &keys);
}

/* How the sums that the columns must have move, of all ranks, into `extra`; a round's own sums move by what queries that grow take. */
static void move_columns(ota_ring_device *ring, const motion *m, ota_mass_rule *rule) {
    const ota_tangent_job job = job_of(m, 0);
    const ota_ring_adjoint *s = ring->backward.adjoint;
    const ota_ring_limits *at = ring->backward.limits;
    const ota_resolved *r = ring->resolved;
    rule->row_sum = s->row_sums;
    rule->used = s->held;
    for (int64_t i = 0; i < r->queries; i++) {
        if (at->of_query[i] < 0.0 || at->of_query[i] > 0.0) s->row_sums[i] = DBL_MIN;
    }
    ota_tangents_of_columns(&job, rule, s->extra);
    for (int64_t i = 0; i < r->queries; i++) {
        if (at->of_query[i] < 0.0 || at->of_query[i] > 0.0) s->row_sums[i] = 0.0;
    }
    for (int64_t j = 0; j < r->keys; j++)
        s->extra[j] = ota_ring_key_grows(m->plan, j) ? 0.0
                      : rule->finished               ? s->extra[j]
                                                     : s->extra[j] - at->by_queries[j];
}

/* b of a head with coupled columns. */
static ota_status find_multipliers(ota_ring_device *ring, motion *m, double *residual) {
    const ota_ring_adjoint *s = ring->backward.adjoint;
    const int64_t keys = ring->resolved->keys;
    const double tau = ota_head_temperature(ring->resolved, ring->unit.head);
    ota_mass_rule rule = {.g = ring->columns.g, .column_sum = s->column_sums};
    memset(s->b, 0, (size_t)keys * sizeof(double));
    if (!sum_pairs(ring, m) || !ota_ring_sum_adjoint(ring)) return OTA_ECOMM;
    ota_ring_find_used(m->plan, s->column_sums, s->held);
    move_columns(ring, m, &rule);
    for (int64_t j = 0; j < keys; j++) {
        s->right[j] -= tau * s->extra[j];
        s->terms[j] += fabs(tau * s->extra[j]);
    }
    return ota_ring_solve_adjoint(m->plan, residual);
}

/* b = -dg of a round becomes that of the next, df being -row_right / den. */
static ota_status move_round(ota_ring_device *ring, const ota_head *head, int64_t round,
                             void *context) {
    motion *m = context;
    const ota_ring_adjoint *s = ring->backward.adjoint;
    const ota_settings *settings = &ring->resolved->settings;
    const ota_tangent_job job = job_of(m, 0);
    const double *grown = ring->backward.limits->by_queries;
    ota_ring_take_potentials(ring);
    if (!ota_ring_move_limits(m->plan, m->tangents) || !sum_pairs(ring, m) ||
        !ota_ranks_sum(settings, s->right, head->columns, NULL, 0, "a round of tangents"))
        return OTA_ECOMM;
    if (round == 0) {
        ota_mass_rule rule = {.g = head->g, .column_sum = head->nu, .finished = true};
        for (int64_t j = 0; j < head->columns; j++)
            s->held[j] = !head->kernel.masked || head->kernel.used[j] != OTA_KEY_SHUT;
        move_columns(ring, m, &rule);
    }
    for (int64_t j = 0; j < head->columns; j++) {
        const double sum = head->kernel.sum[j], g = head->g[j];
        const ota_key_update update = ota_ring_update(head, j, g, sum);
        s->b[j] *= update.by_g;
        if (update.by_level > 0.0)
            s->b[j] += update.by_level * ((s->right[j] + head->tau * grown[j]) / sum +
                                          g / head->tau * job.numbers.temperature -
                                          head->tau * s->extra[j] / head->nu[j]);
        s->b[j] -= update.by_t * job.numbers.temperature;
        for (int p = 0; p < OTA_RULE_PARAMETERS; p++)
            s->b[j] -= update.by_parameter[p] * ota_tangent_of_parameter(&job, p);
    }
    return ota_interrupted_together(settings);
}

/* The last g and b of fixed rounds, and the lse that belongs to them. */
static ota_status follow_rounds(ota_ring_device *ring, const ota_arrays *arrays, motion *m) {
    ota_head head;
    memset(ring->backward.adjoint->b, 0, (size_t)ring->resolved->keys * sizeof(double));
    const ota_status status = ota_ring_replay(ring, arrays, move_round, m, &head);
    if (status != OTA_OK) return status;
    return ota_ring_attend(ring, false) ? OTA_OK : OTA_ECOMM;
}

/* ---- heads ---------------------------------------------------------------------------------------- */

static ota_status move_unit(ota_plan *plan, void *context, double *residual) {
    motion *m = context;
    ota_ring_device *ring = plan->device;
    const bool fixed = ring->backward.kept != NULL;
    ota_ring_start_limits(plan);
    if (fixed) {
        const ota_status status = follow_rounds(ring, m->arrays, m);
        if (status != OTA_OK) return status;
    } else if (ring->rule != OTA_RING_BY_LSE && !ring->coupled) {
        if (!ota_ring_find_thresholds(ring)) return OTA_ECOMM;
    } else if (ring->coupled ? !ota_ring_load_potentials(ring, m->arrays, false)
                             : !ota_ring_attend(ring, false)) {
        return OTA_ECOMM;
    }
    if (ring->rule == OTA_RING_BY_LSE) ota_ring_take_potentials(ring);
    if (!ota_ring_move_limits(plan, m->tangents)) return OTA_ECOMM;
    if (ring->coupled && !fixed) {
        const ota_status status = find_multipliers(ring, m, residual);
        if (status != OTA_OK) return status;
    }
    return move(ring, m) ? OTA_OK : OTA_ECOMM;
}

ota_status ota_ring_jvp(ota_plan *plan, const ota_arrays *arrays, const ota_tangents *tangents,
                        ota_result *found) {
    motion m = {plan, arrays, tangents};
    const ota_ring_units units = {move_unit, put_rows, &m};
    plan->device->failed = OTA_OK;
    if (!ota_array_present(&tangents->out) || plan->device->values_width == 0) return OTA_OK;
    if (!ota_ring_begin_limits(plan, &tangents->row_mass, &tangents->column_mass)) return OTA_ECOMM;
    return ota_ring_each_unit(plan, &units, found);
}
