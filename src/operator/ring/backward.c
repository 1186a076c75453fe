/* Backward in a ring. Of softmax the gradients of a pair are known once the row's lse and output are, whatever keys it has
 * seen (backend/cpu/gradient/tiles.c), so pieces come round once more and the gradients of their keys and values travel with
 * them, in the order owner, next rank, ..., home again:
 *
 *     P_ij = mu_i exp(S_ij / t - l_i),  dS_ij = P_ij (out_grad_i . (V_j - out_i / mu_i)) / t */
#include <math.h>
#include <string.h>

#include "operator/backward.h"
#include "problem/check.h"
#include "ring.h"
#include "terms/terms.h"

/* ---- refusals ------------------------------------------------------------------------------------- */

static ota_status refuse(const char *name, const char *why, ota_error *error) {
    return ota_fail(error, OTA_UNSUPPORTED, name, "let communicator.keys be OTA_KEYS_GATHERED",
                    "a ring over the keys has no gradients %s", why);
}

ota_status ota_ring_check_gradients(const ota_plan *plan, const ota_gradients *want,
                                    ota_error *error) {
    const ota_resolved *r = &plan->resolved;
    const struct {
        const char *name;
        const ota_array *array;
    } others[] = {{"coupling_grad", &want->coupling_grad},
                  {"scores", &want->scores},
                  {"temperature", &want->temperature},
                  {"row_mass", &want->row_mass},
                  {"column_mass", &want->column_mass}};
    if (plan->device->coupled) return refuse("columns", "of coupled columns", error);
    if (r->problem.dropout > 0.0) return refuse("dropout", "with dropout", error);
    for (int t = 0; t < r->term_count; t++) {
        if (ota_term_form_of(&r->terms[t]) == OTA_TERM_SATURATES)
            return refuse("softcap", "through a softcap", error);
    }
    if (!ota_array_present(&want->out_grad) || plan->values_width == 0)
        return refuse("out_grad", "but by way of out", error);
    for (size_t k = 0; k < sizeof others / sizeof others[0]; k++) {
        if (ota_array_present(others[k].array))
            return refuse(others[k].name, "but of queries, keys and values", error);
    }
    for (int64_t k = 0; want->terms != NULL && k < r->problem.term_count; k++) {
        if (ota_array_present(&want->terms[k])) return refuse("terms", "of terms", error);
    }
    return OTA_OK;
}

/* ---- one unit ------------------------------------------------------------------------------------- */

typedef struct reverse {
    const ota_gradients *want;
    ota_array out_grad; /* of the unit */
} reverse;

static void add(double *to, const double *from, int64_t count) {
    for (int64_t k = 0; k < count; k++) to[k] += from[k];
}

static void reverse_piece(ota_device *ring, const ota_ring_piece *piece, void *context) {
    const reverse *at = context;
    const ota_resolved *r = ring->resolved;
    ota_plan *plan = ring->attends;
    const int64_t width = r->width, values = ring->values_width;
    if (ring->failed != OTA_OK) return;
    ota_ring_place(ring, piece, false, plan);
    ota_arrays arrays = {.size = sizeof arrays};
    arrays.values = ota_ring_values(ring);
    arrays.out = ota_ring_rows(ring, ring->out, values);
    arrays.lse = ota_array_of(ring->lse, OTA_F64, 1, ring->group, 1, r->queries);
    ota_gradients want = {.size = sizeof want, .solved = 1};
    want.out_grad = at->out_grad;
    want.queries = ota_ring_rows(ring, ring->piece_queries, width);
    want.keys = ota_array_of(ring->piece_keys, OTA_F64, 1, 1, ring->room, width);
    want.values = ota_array_of(ring->piece_values, OTA_F64, 1, 1, ring->room, values);
    const ota_status status = ota_backward(plan, &arrays, &want, NULL, NULL);
    if (status < OTA_OK) {
        ring->failed = status;
        return;
    }
    add(ring->query_sums, ring->piece_queries, ring->group * r->queries * width);
    for (int64_t j = 0; j < piece->count; j++) {
        double *sums = piece->sums + j * (width + values);
        add(sums, ring->piece_keys + j * width, width);
        add(sums + width, ring->piece_values + j * values, values);
    }
}

/* lse and outputs of the unit as forward wrote them, or found again. */
static bool find_rows(ota_device *ring, const ota_arrays *arrays, bool solved) {
    const ota_resolved *r = ring->resolved;
    const ota_ring_unit *unit = &ring->unit;
    const int64_t width = ring->values_width;
    if (!solved || !ota_array_present(&arrays->out) || !ota_array_present(&arrays->lse))
        return ota_ring_attend(ring, unit, true);
    for (int64_t k = 0; k < ring->group * r->queries; k++) {
        const int64_t head = unit->head + k / r->queries, i = k % r->queries;
        ring->lse[k] = ota_array_get(&arrays->lse, unit->batch, head, 0, i);
        for (int64_t w = 0; w < width; w++)
            ring->out[k * width + w] = ota_array_get(&arrays->out, unit->batch, head, i, w);
    }
    return true;
}

static void put_unit(const ota_device *ring, const ota_gradients *want) {
    const ota_resolved *r = ring->resolved;
    const ota_ring_unit *unit = &ring->unit;
    const int64_t width = r->width, values = ring->values_width;
    for (int64_t k = 0; k < ring->group * r->queries && ota_array_present(&want->queries); k++) {
        for (int64_t w = 0; w < width; w++)
            ota_array_set(&want->queries, unit->batch, unit->head + k / r->queries, k % r->queries,
                          w, ring->query_sums[k * width + w]);
    }
    for (int64_t j = 0; j < ring->shards->key_share; j++) {
        const double *sums = ring->sums_here + j * (width + values);
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

ota_status ota_ring_backward(ota_plan *plan, const ota_arrays *arrays, const ota_gradients *want) {
    ota_device *ring = plan->device;
    const ota_resolved *r = ring->resolved;
    const size_t query_bytes = (size_t)(ring->group * r->queries * r->width) * sizeof(double);
    ring->failed = OTA_OK;
    for (int64_t k = 0; k < r->batch * r->key_heads; k++) {
        ring->unit = (ota_ring_unit){.batch = k / r->key_heads,
                                     .key_head = k % r->key_heads,
                                     .head = k % r->key_heads * ring->group,
                                     .heads = ring->group};
        ota_ranks_at(&ring->shards->ranks, ring->unit.batch * r->heads + ring->unit.head, -1);
        /* A rank that is told to stop still passes on what others wait for. */
        if (ota_interrupted(&r->settings) != OTA_OK) ring->failed = ota_interrupted(&r->settings);
        if (!find_rows(ring, arrays, want->solved != 0)) return OTA_ECOMM;
        reverse at = {want, rows_of(&want->out_grad, &ring->unit)};
        const ota_ring_turn turn = {.unit = ring->unit,
                                    .with_values = true,
                                    .sum_width = r->width + ring->values_width,
                                    .visit = reverse_piece,
                                    .context = &at,
                                    .step = "passing keys and their gradients on"};
        memset(ring->query_sums, 0, query_bytes);
        if (!ota_ring_go(ring, &turn)) return OTA_ECOMM;
        if (ring->failed == OTA_OK) put_unit(ring, want);
    }
    return ring->failed;
}
