/* Rows of a ring: softmax over pieces of the keys, merged (formulas in ring.h). The sink comes last, as a piece of one key
 * without values. */
#include <math.h>
#include <string.h>

#include "ring_pairs.h"

/* log(exp a + exp b) */
static double join(double a, double b) {
    const double high = fmax(a, b), low = fmin(a, b);
    return low > -INFINITY ? high + log1p(exp(low - high)) : high;
}

/* Rows whose weights are NaN stay so. */
static void merge_row(double *lse, double *out, double piece_lse, const double *piece_out,
                      int64_t width) {
    if (piece_lse <= -INFINITY) return;
    const double all = isnan(*lse) || isnan(piece_lse) ? NAN : join(*lse, piece_lse);
    const double old = *lse > -INFINITY ? exp(*lse - all) : 0.0, share = exp(piece_lse - all);
    for (int64_t w = 0; w < width && isnan(all); w++) out[w] = NAN;
    for (int64_t w = 0; w < width && !isnan(all); w++)
        out[w] = (old > 0.0 ? old * out[w] : 0.0) + share * piece_out[w];
    *lse = all;
}

typedef struct attend {
    ota_ring_device *ring;
    bool with_out;
} attend;

enum { ROWS = 256 }; /* a task */

static void merge_task(void *context, int64_t index, int worker) {
    const attend *a = context;
    ota_ring_device *ring = a->ring;
    const int64_t width = a->with_out ? ring->values_width : 0;
    const int64_t rows = ota_ring_row_count(ring);
    (void)worker;
    for (int64_t k = index * ROWS; k < ota_int_min(rows, (index + 1) * ROWS); k++)
        merge_row(&ring->rows.lse[k], ring->rows.out + k * width, ring->rows.piece_lse[k],
                  ring->rows.piece_out + k * width, width);
}

static void note_norms(ota_ring_device *ring, const ota_ring_piece *piece) {
    const int64_t width = ring->resolved->width;
    const double *keys = ring->block.keys;
    for (int64_t j = 0; j < piece->count; j++) {
        double norm = 0.0;
        for (int64_t w = 0; w < width; w++) norm += keys[j * width + w] * keys[j * width + w];
        /* Keys that nobody may use hold whatever they hold. */
        if (norm < INFINITY) ring->columns.key_norm = fmax(ring->columns.key_norm, norm);
    }
}

static void attend_piece(ota_ring_device *ring, const ota_ring_piece *piece, void *context) {
    attend *a = context;
    ota_plan *plan =
        a->with_out || ring->plans.sums == NULL ? ring->plans.forward : ring->plans.sums;
    ota_arrays arrays = {.size = sizeof arrays};
    const int64_t rows = ota_ring_row_count(ring);
    if (ring->coupled) note_norms(ring, piece);
    if (ring->coupled) ota_ring_bias(ring, piece);
    ota_ring_place(ring, piece, ring->coupled, plan);
    arrays.lse = ota_ring_lse(ring, ring->rows.piece_lse);
    if (a->with_out && ring->values_width > 0) {
        arrays.values = ota_ring_values(ring);
        arrays.out = ota_ring_rows(ring, ring->rows.piece_out, ring->values_width);
    }
    const ota_status status = ota_plan_run(plan, &arrays, NULL, NULL);
    if (status < OTA_OK) {
        ring->failed = status;
        return;
    }
    ota_parallel(ring->pool, ota_int_ceil_div(rows, ROWS), merge_task, a);
}

static void add_sink(ota_ring_device *ring, bool with_out) {
    const ota_resolved *r = ring->resolved;
    const int64_t width = with_out ? ring->values_width : 0;
    for (int64_t k = 0; k < ota_ring_row_count(ring); k++) {
        const int64_t head = ring->unit.head + k / r->queries;
        const double sink = ota_head_sink(r, head) / ota_head_temperature(r, head);
        const double before = ring->rows.lse[k];
        if (!(sink > -INFINITY) || isnan(before)) continue;
        ring->rows.lse[k] = join(before, sink);
        const double rest = before > -INFINITY ? exp(before - ring->rows.lse[k]) : 0.0;
        for (int64_t w = 0; w < width; w++) ring->rows.out[k * width + w] *= rest;
    }
}

void ota_ring_widen_queries(const ota_ring_device *ring) {
    const ota_resolved *r = ring->resolved;
    const ota_ring_unit *unit = &ring->unit;
    double *to = ring->block.queries;
    for (int64_t h = 0; h < ring->group && to != NULL; h++) {
        for (int64_t i = 0; i < r->queries; i++) {
            for (int64_t w = 0; w < r->width; w++)
                *to++ = ota_array_get(&r->problem.queries, unit->batch, unit->head + h, i, w);
        }
    }
}

bool ota_ring_attend(ota_ring_device *ring, bool with_out) {
    const int64_t rows = ota_ring_row_count(ring);
    attend a = {ring, with_out};
    const ota_message_round message_round = {.with_values = with_out && ring->values_width > 0,
                                             .visit = attend_piece,
                                             .context = &a,
                                             .step = "passing keys on"};
    ota_ring_widen_queries(ring);
    for (int64_t k = 0; k < rows; k++) ring->rows.lse[k] = -INFINITY;
    if (with_out)
        memset(ring->rows.out, 0, (size_t)(rows * ring->values_width) * sizeof *ring->rows.out);
    if (!ota_ring_go(ring, &message_round)) return false;
    add_sink(ring, with_out);
    return true;
}

/* What is known of a row in the end. */
typedef struct row_answer {
    bool finite, whole, empty; /* its scores and weights; what it uses, too; no key */
    double lse, f, sink;
} row_answer;

static row_answer answer_of(const ota_ring_device *ring, int64_t k, const double *out) {
    const ota_resolved *r = ring->resolved;
    const int64_t head = ring->unit.head + k / r->queries;
    const double lse = ring->rows.lse[k], mu = ota_ring_row_mass(ring, k),
                 tau = ota_head_temperature(r, head), sink = ota_head_sink(r, head);
    row_answer is = {.finite = !isnan(lse) && lse < INFINITY, .empty = lse <= -INFINITY};
    for (int64_t w = 0; w < ring->values_width && is.finite; w++) is.finite = !isnan(out[w]);
    is.whole = is.finite;
    is.lse = lse;
    is.f = is.empty || !(mu > 0.0) ? -INFINITY : tau * (log(mu) - lse);
    is.sink = sink > -INFINITY ? mu * exp(sink / tau - lse) : 0.0;
    return is;
}

static row_answer pairs_answer_of(const ota_ring_device *ring, int64_t k, ota_head_status *status) {
    const ota_ring_pairs *p = ring->pairs;
    row_answer is = {.finite = p->state[k] != OTA_RING_NONFINITE, .lse = NAN, .sink = p->sink[k]};
    is.empty = is.finite && !(p->top[k] > -INFINITY);
    is.whole = is.finite && !p->uses_nonfinite[k];
    is.f = is.empty ? -INFINITY : p->f[k] - p->size[k];
    if (p->state[k] == OTA_RING_FULL) status->result.status = OTA_INFEASIBLE;
    if (is.finite && !is.empty)
        status->result.row_error += fabs(p->sums[k].mass + p->sink[k] - ota_ring_row_mass(ring, k));
    return is;
}

void ota_ring_put(ota_ring_device *ring, int64_t head, ota_head_status *status) {
    const ota_resolved *r = ring->resolved;
    const ota_arrays *to = ring->run->arrays;
    const int64_t batch = ring->unit.batch, number = ring->unit.head + head;
    const int64_t width = ring->values_width;
    for (int64_t i = 0; i < r->queries; i++) {
        const int64_t k = head * r->queries + i;
        const double *out = ring->rows.out + k * width;
        const row_answer is = ring->rule == OTA_RING_BY_LSE ? answer_of(ring, k, out)
                                                            : pairs_answer_of(ring, k, status);
        status->empty_rows += is.empty;
        status->nonfinite_rows += !is.whole;
        ota_put(&to->lse, batch, number, i, is.finite ? is.lse : NAN);
        ota_put(&to->row_potential, batch, number, i, is.finite ? is.f : NAN);
        ota_put(&to->sink, batch, number, i, is.finite ? is.sink : NAN);
        for (int64_t w = 0; w < width && ota_array_present(&to->out); w++)
            ota_array_set(&to->out, batch, number, i, w, is.whole ? out[w] : NAN);
    }
    ota_ring_put_statistics(ring, head);
}

void ota_ring_run_rows(ota_run *run) {
    ota_ring_device *ring = run->device;
    const ota_resolved *r = ring->resolved;
    ring->run = run;
    ring->failed = OTA_OK;
    for (int64_t k = 0; k < r->batch * r->heads; k += ring->group) {
        ota_ring_begin_unit(ring, k);
        /* A rank that is told to stop still passes on what others wait for. */
        if (ota_run_interrupted(run)) ring->failed = (ota_status)atomic_load(&run->stopped);
        const bool attended = ring->rule != OTA_RING_BY_LSE ? ota_ring_attend_pairs(ring)
                                                            : ota_ring_attend(ring, true);
        if (!attended || !ota_ring_measure(ring)) {
            atomic_store(&run->stopped, OTA_ECOMM);
            return;
        }
        for (int64_t h = 0; h < ring->group && ring->failed == OTA_OK; h++) {
            const int64_t head = ring->unit.head + h, batch = ring->unit.batch;
            double mass = 0.0;
            for (int64_t i = 0; i < r->queries; i++) mass += ota_row_mass(r, batch, head, i);
            ota_ring_put(ring, h, &run->heads[batch * r->heads + head]);
            for (int64_t j = 0; j < r->keys; j++)
                ota_put(&run->arrays->column_potential, batch, head, j, 0.0);
            ota_run_finish_head(run, batch, head, mass);
        }
    }
    if (ring->failed != OTA_OK) atomic_store(&run->stopped, ring->failed);
}
