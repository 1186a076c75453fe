/* The multipliers of coupled columns in a ring: the semi-dual system of solvers/derivatives/adjoint.h whose slopes P come by
 * piece after piece. With z_i = (P x)_i / mu_i, U = out_grad V^T and u_i = out_grad_i . out_i,
 *
 *     H x = c x - P^T z + extra x,    right_j = V_j . (P^T out_grad)_j - (P^T (u / mu))_j
 *
 * where P x is an output of values of width 1; two message rounds a product. The right side, and dS = P (U - a - b) / t in the last
 * message round, come pair by pair (ring_pair_gradients.c). Weights that are not their own slopes (Newton's) have w = P^(2 - alpha)
 * in the place of P. */
#include <math.h>
#include <string.h>

#include "operator/backward.h"
#include "ring_masses.h"
#include "ring_multipliers.h"
#include "ring_pairs.h"
#include "ring_semidual.h"

void ota_ring_lay_out_adjoint(ota_ring_device *ring, ota_arena *arena) {
    const int64_t rows = ring->resolved->queries;
    const bool fixed = ring->resolved->settings.stop.fixed;
    ota_ring_adjoint *to = ota_arena_take(arena, 1, sizeof *to);
    ota_ring_adjoint found = {
        .line = ota_ring_numbers(arena, 1, ring->room),
        .vectors = fixed ? NULL : ota_ring_numbers(arena, 1, OTA_ADJOINT_VECTORS * ring->stride),
        .held = ota_arena_take(arena, (size_t)ring->stride, 1)};
    const bool apart = ring->newton != NULL;
    double **of_rows[] = {&found.row_right, &found.den, &found.a, &found.product};
    double **of_keys[] = {&found.b,    &found.right,    &found.extra,
                          &found.sums, &found.own_sums, &found.terms};
    for (size_t k = 0; k < sizeof of_rows / sizeof of_rows[0]; k++)
        *of_rows[k] = ota_ring_numbers(arena, 1, rows);
    for (size_t k = 0; k < sizeof of_keys / sizeof of_keys[0]; k++)
        *of_keys[k] = ota_ring_numbers(arena, 1, ring->stride);
    found.row_sums = apart ? ota_ring_numbers(arena, 1, rows) : found.den;
    found.column_sums = apart ? ota_ring_numbers(arena, 1, ring->stride) : found.sums;
    if (apart) found.own_columns = ota_ring_numbers(arena, 1, ring->stride);
    if (to != NULL) *to = found;
    ring->backward.adjoint = to;
}

/* ---- products ------------------------------------------------------------------------------------- */

/* P x of the piece, whose rows weigh exp(lse of the piece - lse of all). */
static void multiply_piece(ota_ring_device *ring, const ota_ring_piece *piece, void *context) {
    ota_ring_adjoint *s = ring->backward.adjoint;
    const int64_t rows = ring->resolved->queries;
    (void)context;
    for (int64_t j = 0; j < ring->room; j++)
        s->line[j] = j < piece->count ? s->x[piece->first + j] : 0.0;
    ota_ring_bias(ring, piece);
    ota_ring_place(ring, piece, true, ring->plans.sums);
    ota_arrays arrays = {.size = sizeof arrays};
    arrays.values = ota_array_of(s->line, OTA_F64, 1, 1, ring->room, 1);
    arrays.out = ota_ring_rows(ring, ring->rows.piece_out, 1);
    arrays.lse = ota_ring_lse(ring, ring->rows.piece_lse);
    const ota_status status = ota_plan_run(ring->plans.sums, &arrays, NULL, NULL);
    if (status < OTA_OK) ring->failed = status;
    for (int64_t i = 0; i < rows && status >= OTA_OK; i++) {
        if (ring->rows.piece_lse[i] > -INFINITY)
            s->product[i] +=
                exp(ring->rows.piece_lse[i] - ring->rows.lse[i]) * ring->rows.piece_out[i];
    }
}

bool ota_ring_multiply(ota_ring_device *ring, const double *x) {
    ota_ring_adjoint *s = ring->backward.adjoint;
    const ota_message_round message_round = {.visit = multiply_piece,
                                             .step = "passing keys on for a product of backward"};
    s->x = x;
    memset(s->product, 0, (size_t)ring->resolved->queries * sizeof *s->product);
    return ota_ring_go(ring, &message_round);
}

/* A communicator that failed makes the sums that follow fail, too. */
static void apply(const ota_adjoint *system, const double *x, double *y) {
    ota_ring_device *ring = system->context;
    const ota_ring_adjoint *s = ring->backward.adjoint;
    if (ota_ring_is_steep(ring)) {
        ota_ring_steep_product(ring, x, system->a, y);
        return;
    }
    if (ring->newton != NULL) {
        ota_ring_apply_links(ring, NULL, x, y);
        for (int64_t i = 0; i < system->rows; i++) system->a[i] = -ring->pairs->first[i];
        for (int64_t j = 0; j < system->columns; j++) y[j] += s->own_sums[j] * x[j];
        return;
    }
    if (!ota_ring_multiply(ring, x)) return;
    for (int64_t i = 0; i < system->rows; i++) {
        system->a[i] = s->den[i] > 0.0 ? s->product[i] / s->den[i] : 0.0;
        ring->columns.weights[i] = system->a[i];
    }
    if (!ota_ring_sum(ring)) return;
    for (int64_t j = 0; j < system->columns; j++)
        y[j] = s->own_sums[j] * x[j] - ring->columns.local[j];
}

/* ---- the right side ------------------------------------------------------------------------------- */

void ota_ring_set_den(ota_ring_device *ring) {
    const ota_ring_adjoint *s = ring->backward.adjoint;
    for (int64_t i = 0; i < ring->resolved->queries && ring->newton != NULL; i++) {
        s->den[i] = ring->pairs->slope[i];
        s->row_sums[i] = ring->pairs->f[i] > -INFINITY ? ota_ring_row_mass(ring, i) : 0.0;
    }
    for (int64_t i = 0; i < ring->resolved->queries && ring->newton == NULL; i++) {
        const bool idle = !(ring->rows.lse[i] > -INFINITY);
        ring->backward.adjoint->den[i] =
            idle ? 0.0 : ota_row_mass(ring->resolved, ring->unit.batch, ring->unit.head, i);
    }
}

void ota_ring_set_rows(ota_ring_device *ring, const ota_gradients *want) {
    const ota_ring_adjoint *s = ring->backward.adjoint;
    const ota_ring_unit *unit = &ring->unit;
    const int64_t width = ring->values_width;
    ota_ring_set_den(ring);
    for (int64_t i = 0; i < ring->resolved->queries; i++) {
        s->row_right[i] = 0.0;
        for (int64_t w = 0; w < width; w++)
            s->row_right[i] += ota_array_get(&want->out_grad, unit->batch, unit->head, i, w) *
                               ring->rows.out[i * width + w];
    }
}

/* The right side of this rank's rows, and the sums of columns, pair by pair. Where slopes are not the weights, den and what the
 * rows take from U come from a message round before; else from the outputs. */
static bool pull_right(ota_ring_device *ring, const ota_gradients *want) {
    const ota_ring_adjoint *s = ring->backward.adjoint;
    double *mean = ring->pairs->mean;
    ota_ring_pull pull = {.out_grad = &want->out_grad,
                          .keys = {s->own_columns, s->own_sums, s->right, s->terms},
                          .keys_alone = true};
    if (ring->newton != NULL) {
        if (!ota_ring_take_means(ring, &want->out_grad)) return false;
        ota_ring_set_den(ring);
        for (int64_t i = 0; i < ring->resolved->queries; i++) s->row_right[i] = mean[i] * s->den[i];
    } else {
        ota_ring_set_rows(ring, want);
        ota_ring_take_potentials(ring);
        for (int64_t i = 0; i < ring->resolved->queries; i++)
            mean[i] = s->den[i] > 0.0 ? s->row_right[i] / s->den[i] : 0.0;
    }
    return ota_ring_pull_pairs(ring, &pull);
}

static bool find_right(ota_ring_device *ring, const ota_gradients *want) {
    ota_ring_adjoint *s = ring->backward.adjoint;
    double *const columns[] = {s->b, s->right, s->terms, s->own_sums, s->own_columns};
    for (int k = 0; k < (s->own_columns != NULL ? 5 : 4); k++)
        ota_ring_clear(columns[k], ring->resolved->keys);
    ota_ring_clear(s->product, ring->resolved->queries);
    return pull_right(ring, want);
}

bool ota_ring_load_potentials(ota_ring_device *ring, const ota_arrays *arrays, bool with_out) {
    const ota_ring_unit *unit = &ring->unit;
    for (int64_t j = 0; j < ring->resolved->keys; j++)
        ring->columns.g[j] =
            ota_array_get(&arrays->column_potential, unit->batch, unit->head, 0, j);
    ring->columns.temperature = 0.0;
    if (ring->newton != NULL) return ota_ring_find_thresholds(ring);
    return ota_ring_attend(ring, with_out);
}

bool ota_ring_sum_adjoint(ota_ring_device *ring) {
    ota_ring_adjoint *s = ring->backward.adjoint;
    const ota_resolved *r = ring->resolved;
    double *const sums[] = {s->right, s->terms, s->sums, s->column_sums};
    const size_t bytes = (size_t)r->keys * sizeof *s->sums;
    const int count = ring->newton != NULL ? 4 : 3;
    memcpy(s->sums, s->own_sums, bytes);
    if (count == 4) memcpy(s->column_sums, s->own_columns, bytes);
    for (int k = 0; k < count; k++) {
        if (!ota_ranks_sum(&r->settings, sums[k], r->keys, NULL, 0, "the right side of backward"))
            return false;
    }
    return true;
}

ota_status ota_ring_solve_adjoint(ota_plan *plan, double *residual) {
    ota_ring_device *ring = plan->device;
    ota_ring_adjoint *s = ring->backward.adjoint;
    ota_backward_job job = ota_ring_job(plan);
    const ota_mass_rule made = {.column_sum = s->column_sums};
    /* Sums of all ranks: all stand or none. */
    *residual = job.residual = ota_sums_missed(&job, &made);
    if (!ota_sums_stand(&job)) return OTA_TOL_UNREACHABLE;
    const ota_resolved *r = ring->resolved;
    const ota_column_rule_row *rule = ota_column_rule_of(r->problem.columns);
    const ota_column_parameters parameters = ota_column_parameters_of(&r->problem);
    ota_adjoint system = {.rows = r->queries,
                          .columns = r->keys,
                          .stride = ring->stride,
                          .den = s->den,
                          .extra = s->extra,
                          .held = s->held,
                          .row_right = s->row_right,
                          .right = s->right,
                          .enough = r->type == OTA_F64 ? 1.0e-10 : 1.0e-6,
                          .settings = &r->settings,
                          .pool = ring->pool,
                          .vectors = s->vectors,
                          .a = s->a,
                          .b = s->b,
                          .apply = apply,
                          .sums = s->sums,
                          .context = ring};
    const double tau = ota_head_temperature(r, ring->unit.head);
    for (int64_t j = 0; j < r->keys; j++) {
        s->held[j] = ota_column_rests(rule, &parameters, ring->columns.g[j]);
        if (!s->held[j]) system.scale += s->terms[j];
        s->extra[j] = ota_column_softness(rule, &parameters, s->column_sums[j], tau);
    }
    const ota_status status = ota_adjoint_solve(&system);
    *residual = system.residual;
    if (status == OTA_OK) ota_ring_place_multipliers(ring, s->b, s->a);
    return status;
}

ota_status ota_ring_multipliers(ota_plan *plan, const ota_arrays *arrays, const ota_gradients *want,
                                double *residual) {
    ota_ring_device *ring = plan->device;
    if (!ota_ring_load_potentials(ring, arrays, true) || !find_right(ring, want) ||
        !ota_ring_sum_adjoint(ring))
        return OTA_ECOMM;
    return ota_ring_solve_adjoint(plan, residual);
}
