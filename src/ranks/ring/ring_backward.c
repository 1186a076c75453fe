/* Backward in a ring. Of softmax the gradients of a pair are known once the row's lse and output are, whatever keys it has
 * seen (backend/cpu/gradient/tiles.c), so pieces come round once more and the gradients of their keys and values travel with
 * them, in the order owner, next rank, ..., home again:
 *
 *     P_ij = mu_i exp(S_ij / t - l_i),  dS_ij = P_ij (out_grad_i . (V_j - out_i / mu_i)) / t
 *
 * What tiles do not know, coupled columns, entmax, a softcap, dropout and parameters, takes the same message round pair by pair
 * (ring_pair_gradients.c). */
#include <float.h>
#include <math.h>
#include <string.h>

#include "operator/backward.h"
#include "problem/check.h"
#include "ring_fixed_rounds.h"
#include "ring_limits.h"
#include "ring_masses.h"
#include "ring_multipliers.h"
#include "ring_pairs.h"

/* ---- refusals ------------------------------------------------------------------------------------- */

static ota_status refuse(const char *name, const char *why, ota_error *error) {
    return ota_fail(error, OTA_UNSUPPORTED, name, "let communicator.keys be OTA_KEYS_GATHERED",
                    "a ring over the keys has no gradients %s", why);
}

ota_status ota_ring_check_gradients(const ota_plan *plan, const ota_gradients *want,
                                    ota_error *error) {
    const struct {
        const char *name;
        const ota_array *array;
    } others[] = {{"coupling_grad", &want->coupling_grad}, {"scores", &want->scores}};
    if (!ota_array_present(&want->out_grad) || plan->values_width == 0)
        return refuse("out_grad", "but by way of out", error);
    for (size_t k = 0; k < sizeof others / sizeof others[0]; k++) {
        if (ota_array_present(others[k].array))
            return refuse(others[k].name, "of matrices of pairs", error);
    }
    if (!plan->device->coupled && ota_array_present(&want->column_mass))
        return refuse("column_mass", "of the masses of free columns", error);
    return OTA_OK;
}

/* ---- one unit ------------------------------------------------------------------------------------- */

static void add(double *to, const double *from, int64_t count) {
    for (int64_t k = 0; k < count; k++) to[k] += from[k];
}

/* Tiles of the piece's plan. */
static void reverse_piece(ota_ring_device *ring, const ota_ring_piece *piece, void *context) {
    const int64_t width = ring->resolved->width, wide = ring->values_width;
    ota_plan *plan = ring->plans.forward;
    const ota_array *out_grad = context;
    ota_ring_place(ring, piece, false, plan);
    const ota_arrays arrays = {.size = sizeof arrays,
                               .values = ota_ring_values(ring),
                               .out = ota_ring_rows(ring, ring->rows.out, wide),
                               .lse = ota_ring_lse(ring, ring->rows.lse)};
    ota_gradients want = {.size = sizeof want, .solved = 1, .out_grad = *out_grad};
    want.queries = ota_ring_rows(ring, ring->backward.piece_queries, width);
    want.keys = ota_array_of(ring->backward.piece_keys, OTA_F64, 1, 1, ring->room, width);
    want.values = ota_array_of(ring->backward.piece_values, OTA_F64, 1, 1, ring->room, wide);
    const ota_status status = ota_backward(plan, &arrays, &want, NULL, NULL);
    if (status < OTA_OK) {
        ring->failed = status;
        return;
    }
    add(ring->backward.query_sums, ring->backward.piece_queries, ota_ring_row_count(ring) * width);
    for (int64_t j = 0; j < piece->count; j++) {
        double *sums = piece->sums + j * (width + wide);
        add(sums, ring->backward.piece_keys + j * width, width);
        add(sums + width, ring->backward.piece_values + j * wide, wide);
    }
}

bool ota_ring_go_home(ota_ring_device *ring, const ota_message_round *message_round) {
    const int64_t both = ring->resolved->width + ring->values_width,
                  width = message_round->sum_width;
    if (!ota_ring_go(ring, message_round)) return false;
    for (int64_t j = 0; j < ring->shards->key_share; j++)
        add(ring->backward.totals + j * both, ring->messages.send_sums + j * width, width);
    return true;
}

bool ota_ring_find_rows(ota_ring_device *ring, const ota_arrays *arrays, bool solved) {
    const ota_resolved *r = ring->resolved;
    const ota_ring_unit *unit = &ring->unit;
    const int64_t width = ring->values_width;
    if (!solved || !ota_array_present(&arrays->out) || !ota_array_present(&arrays->lse))
        return ota_ring_attend(ring, true);
    for (int64_t k = 0; k < ota_ring_row_count(ring); k++) {
        const int64_t head = unit->head + k / r->queries, i = k % r->queries;
        ring->rows.lse[k] = ota_array_get(&arrays->lse, unit->batch, head, 0, i);
        for (int64_t w = 0; w < width; w++)
            ring->rows.out[k * width + w] = ota_array_get(&arrays->out, unit->batch, head, i, w);
    }
    return true;
}

static void put_queries(const ota_ring_device *ring, const ota_array *to) {
    const ota_resolved *r = ring->resolved;
    const ota_ring_unit *unit = &ring->unit;
    for (int64_t k = 0; k < ota_ring_row_count(ring) && ota_array_present(to); k++) {
        for (int64_t w = 0; w < r->width; w++)
            ota_array_set(to, unit->batch, unit->head + k / r->queries, k % r->queries, w,
                          ring->backward.query_sums[k * r->width + w]);
    }
}

static void put_keys(const ota_ring_device *ring, const ota_gradients *want) {
    const ota_ring_unit *unit = &ring->unit;
    const int64_t width = ring->resolved->width, values = ring->values_width;
    for (int64_t j = 0; j < ring->shards->key_share; j++) {
        const double *sums = ring->backward.totals + j * (width + values);
        for (int64_t w = 0; w < width && ota_array_present(&want->keys); w++)
            ota_array_set(&want->keys, unit->batch, unit->key_head, j, w, sums[w]);
        for (int64_t w = 0; w < values && ota_array_present(&want->values); w++)
            ota_array_set(&want->values, unit->batch, unit->key_head, j, w, sums[width + w]);
    }
}

static ota_array rows_of(const ota_array *a, const ota_ring_unit *unit) {
    ota_array part = *a;
    part.data = (char *)a->data + (unit->batch * a->stride[0] + unit->head * a->stride[1]) *
                                      (int64_t)ota_type_bytes(a->type);
    part.size[0] = 1;
    part.size[1] = unit->heads;
    return part;
}

/* Masses of a head with coupled columns, once its multipliers are known; then queries and keys without mass have none again. False:
 * the communicator failed. */
static bool sum_masses(ota_plan *plan, const ota_array *out_grad) {
    const ota_ring_adjoint *s = plan->device->backward.adjoint;
    const ota_resolved *r = &plan->resolved;
    ota_mass_rule rule = {.a = s->a,
                          .b = s->b,
                          .g = plan->device->columns.g,
                          .row_sum = s->row_sums,
                          .column_sum = s->column_sums};
    ota_ring_find_used(plan, s->column_sums, s->held);
    if (!ota_ring_take_limits(plan, out_grad, s->a, s->b)) return false;
    for (int64_t i = 0; i < r->queries; i++) {
        if (ota_ring_row_grows(plan, i)) s->row_sums[i] = DBL_MIN;
    }
    ota_ring_sum_masses(plan, &rule, NULL, s->held);
    for (int64_t i = 0; i < r->queries; i++) {
        if (ota_ring_row_grows(plan, i)) s->a[i] = s->row_sums[i] = 0.0;
    }
    for (int64_t j = 0; j < r->keys; j++) {
        if (ota_ring_key_grows(plan, j)) s->b[j] = 0.0;
    }
    return true;
}

/* Those of rows on free columns: what they take from U. False: the communicator failed. */
static bool take_means(ota_plan *plan, const ota_array *out_grad) {
    ota_ring_device *ring = plan->device;
    const bool pairs = ota_ring_goes_by_pairs(ring);
    double *rows = ota_ring_row_masses(ring);
    if (!pairs) ota_ring_output_means(ring, out_grad, rows);
    for (int64_t k = 0; k < ota_ring_row_count(ring); k++) {
        const bool finite =
            pairs ? ring->pairs->state[k] != OTA_RING_NONFINITE : !isnan(ring->rows.lse[k]);
        if (pairs) rows[k] = ring->pairs->mean[k] + ota_ring_middle(ring, k);
        if (!finite) rows[k] = (double)NAN;
    }
    return ota_ring_take_limits(plan, out_grad, rows, NULL);
}

static void put_sums(ota_plan *plan, const ota_gradients *want) {
    /* What the sums have no place for is refused, or the keys' own. */
    ota_gradients some = *want;
    if (!plan->device->coupled) some.column_mass = (ota_array){0};
    ota_sums_write(plan, &some);
}

bool ota_ring_goes_by_pairs(const ota_ring_device *ring) {
    return ring->pair_gradients || ring->backward.wanted != NULL;
}

/* The last message round pair by pair, once the multipliers of coupled columns are known. */
static ota_status reverse_pairs(ota_plan *plan, const ota_gradients *want) {
    ota_ring_device *ring = plan->device;
    const size_t rows = (size_t)ring->resolved->queries * sizeof(double);
    ota_ring_pull pull = {.out_grad = &want->out_grad};
    if (ring->coupled) {
        pull.b = ring->backward.adjoint->b;
        if (ring->newton == NULL) ota_ring_take_potentials(ring);
        memcpy(ring->pairs->mean,
               ota_ring_is_steep(ring) ? ring->pairs->steep.multiplier : ring->backward.adjoint->a,
               rows);
    } else {
        if (!ota_ring_pair_means(ring, &want->out_grad)) return OTA_ECOMM;
        if (!take_means(plan, &want->out_grad)) return OTA_ECOMM;
    }
    return ota_ring_pull_pairs(ring, &pull) ? OTA_OK : OTA_ECOMM;
}

/* What the caller gave. */
typedef struct backward_call {
    const ota_arrays *arrays;
    const ota_gradients *want;
} backward_call;

/* Gradients of the unit at work into query_sums, and into the totals of its key head. */
static ota_status reverse_unit(ota_plan *plan, void *context, double *residual) {
    const backward_call *call = context;
    const ota_gradients *want = call->want;
    ota_ring_device *ring = plan->device;
    const ota_resolved *r = ring->resolved;
    const int64_t both = r->width + ring->values_width;
    if (ring->unit.head % (r->heads / r->key_heads) == 0)
        ota_ring_clear(ring->backward.totals, ring->share * both);
    ota_ring_clear(ring->backward.query_sums, ota_ring_row_count(ring) * r->width);
    if (ring->backward.kept != NULL) return ota_ring_reverse_rounds(plan, call->arrays, want);
    if (ring->coupled) {
        const ota_status solved = ota_ring_multipliers(plan, call->arrays, want, residual);
        if (solved != OTA_OK) return solved;
        if (!sum_masses(plan, &want->out_grad)) return OTA_ECOMM;
    } else if (ring->rule == OTA_RING_BY_LSE &&
               !ota_ring_find_rows(ring, call->arrays, want->solved != 0)) {
        return OTA_ECOMM;
    }
    if (ota_ring_goes_by_pairs(ring)) return reverse_pairs(plan, want);
    ota_array out_grad = rows_of(&want->out_grad, &ring->unit);
    const ota_message_round message_round = {.with_values = true,
                                             .sum_width = both,
                                             .visit = reverse_piece,
                                             .context = &out_grad,
                                             .step = "passing keys and their gradients on"};
    if (!ring->coupled && !take_means(plan, &want->out_grad)) return OTA_ECOMM;
    return ota_ring_go_home(ring, &message_round) ? OTA_OK : OTA_ECOMM;
}

static void put_unit(ota_plan *plan, void *context) {
    const backward_call *call = context;
    const ota_ring_device *ring = plan->device;
    put_queries(ring, &call->want->queries);
    if ((ring->unit.head + ring->group) % (ring->resolved->heads / ring->resolved->key_heads) == 0)
        put_keys(ring, call->want);
}

ota_status ota_ring_backward(ota_plan *plan, const ota_arrays *arrays, const ota_gradients *want,
                             ota_result *found) {
    backward_call call = {arrays, want};
    const ota_ring_units units = {reverse_unit, put_unit, &call};
    plan->device->backward.wanted = ota_ring_wants_parameters(&plan->resolved, want) ? want : NULL;
    ota_ring_begin_masses(plan);
    if (!ota_ring_begin_limits(plan, &want->row_mass, &want->column_mass)) return OTA_ECOMM;
    const ota_status status = ota_ring_each_unit(plan, &units, found);
    if (status == OTA_OK) put_sums(plan, want);
    return status;
}
