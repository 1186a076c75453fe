/* Rounds of softmax with coupled columns in a ring, two message rounds each: with g = a + t log v,
 *
 *     first message round     l_i = LSE_j (S_ij + g_j) / t                      over all pieces, sink included
 *     second message round    c_j = sum_i mu_i exp((S_ij + g_j) / t - l_i)      of this rank's rows; the loop sums over the ranks
 *
 * The loop and the column side are those of every stored kernel (solvers/stored_rounds.c). All of it is in f64. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "ring_pairs.h"

/* ---- message rounds ---------------------------------------------------------------------------------------- */

void ota_ring_bias(ota_ring_device *ring, const ota_ring_piece *piece) {
    for (int64_t j = 0; j < ring->room; j++)
        ring->block.bias[j] = j < piece->count ? ring->columns.g[piece->first + j] : 0.0;
}

/* P^T x of the piece: the gradient of values of width 1, of outputs whose gradients are x. */
static void sum_piece(ota_ring_device *ring, const ota_ring_piece *piece, void *context) {
    const ota_resolved *r = ring->resolved;
    ota_plan *plan = ring->plans.sums;
    (void)context;
    ota_ring_bias(ring, piece);
    ota_ring_place(ring, piece, true, plan);
    ota_arrays arrays = {.size = sizeof arrays};
    /* Neither values nor outputs count where only the sums are wanted. */
    arrays.values = ota_array_of(ring->columns.zeros, OTA_F64, 1, 1, ring->room, 1);
    arrays.out = ota_array_of(ring->rows.piece_out, OTA_F64, 1, 1, r->queries, 1);
    arrays.lse = ota_ring_lse(ring, ring->rows.lse);
    ota_gradients want = {.size = sizeof want, .solved = 1};
    want.out_grad = ota_array_of(ring->columns.weights, OTA_F64, 1, 1, r->queries, 1);
    want.values = ota_array_of(ring->columns.piece_sums, OTA_F64, 1, 1, ring->room, 1);
    const ota_status status = ota_backward(plan, &arrays, &want, NULL, NULL);
    if (status < OTA_OK) {
        ring->failed = status;
        return;
    }
    memcpy(ring->columns.local + piece->first, ring->columns.piece_sums,
           (size_t)piece->count * sizeof *ring->columns.local);
}

bool ota_ring_sum(ota_ring_device *ring) {
    static const char step[] = "passing keys on for the column sums";
    const ota_resolved *r = ring->resolved;
    const ota_message_round message_round = {.visit = sum_piece, .step = step};
    ota_ring_sums sums = {.x_rows = ring->columns.weights, .keys = ring->columns.local};
    if (ring->has_softcap) ota_ring_take_potentials(ring);
    memset(ring->rows.piece_out, 0, (size_t)r->queries * sizeof *ring->rows.piece_out);
    memset(ring->columns.zeros, 0, (size_t)ring->room * sizeof *ring->columns.zeros);
    memset(ring->columns.local, 0, (size_t)r->keys * sizeof *ring->columns.local);
    return ring->has_softcap ? ota_ring_sum_pairs(ring, &sums, step)
                             : ota_ring_go(ring, &message_round);
}

static bool sum_columns(ota_head *head) {
    ota_ring_device *ring = head->host.place;
    for (int64_t i = 0; i < head->rows; i++) ring->columns.weights[i] = 1.0;
    if (!ota_ring_sum(ring)) return false;
    for (int64_t j = 0; j < head->columns; j++) {
        const double v = head->kernel.scaling[j];
        head->kernel.sum[j] = v > 0.0 ? ring->columns.local[j] / v : 0.0;
    }
    return true;
}

static void set_potentials(const ota_head *head) {
    const ota_kernel_state *kernel = &head->kernel;
    const ota_ring_device *ring = head->host.place;
    for (int64_t j = 0; j < head->columns; j++) {
        const double v = kernel->scaling[j];
        ring->columns.g[j] = v > 0.0 ? kernel->absorbed[j] + head->tau * log(v) : -INFINITY;
    }
}

/* ---- the first round ------------------------------------------------------------------------------ */

/* Masses of the rows, those that a row may not send anywhere left out. */
static void weigh_rows(ota_head *head) {
    ota_ring_device *ring = head->host.place;
    const ota_resolved *r = ring->resolved;
    ota_kernel_state *kernel = &head->kernel;
    head->mass = 0.0;
    kernel->range.low = INFINITY;
    kernel->range.high = -INFINITY;
    for (int64_t i = 0; i < head->rows; i++) {
        const double lse = ring->rows.lse[i],
                     mu = ota_row_mass(r, ring->unit.batch, ring->unit.head, i);
        const bool empty = lse <= -INFINITY;
        if (empty && mu > 0.0 && ota_rule_is(ota_head_rule(head), OTA_RULE_SERVES_ALL))
            kernel->found.infeasible = true;
        ring->columns.mu[i] = empty ? 0.0 : mu;
        head->mass += ring->columns.mu[i];
        if (empty || isnan(lse)) continue;
        kernel->range.low = fmin(kernel->range.low, head->tau * lse);
        kernel->range.high = fmax(kernel->range.high, head->tau * lse);
        double norm = 0.0;
        for (int64_t w = 0; w < r->width; w++) {
            const double q =
                ota_array_get(&r->problem.queries, ring->unit.batch, ring->unit.head, i, w);
            norm += q * q;
        }
        kernel->range.norm = fmax(kernel->range.norm, norm);
    }
}

static bool has_row(const ota_head *head, const double *mu, int64_t key) {
    const ota_ring_device *ring = head->host.place;
    return ota_key_has_row(ring->resolved, ring->unit.batch, ring->unit.head, false, mu, head->rows,
                           key);
}

/* A key whose sum is 0 may have weights below the range of a double. */
static void find_used(ota_head *head) {
    const ota_ring_device *ring = head->host.place;
    ota_kernel_state *kernel = &head->kernel;
    /* How few keys a row may use is not counted: behind masks rounds are not extrapolated. */
    kernel->range.least_keys = kernel->masked ? 0 : head->columns;
    for (int64_t j = 0; j < head->columns && kernel->masked; j++) {
        const bool reached = ring->columns.local[j] > 0.0 || has_row(head, ring->columns.mu, j);
        kernel->used[j] = reached                  ? OTA_KEY_REACHED
                          : has_row(head, NULL, j) ? OTA_KEY_IDLE
                                                   : OTA_KEY_SHUT;
    }
}

/* ---- what the loop asks for ----------------------------------------------------------------------- */

void ota_ring_load_head(ota_ring_device *ring, int64_t index, ota_head *head) {
    const ota_resolved *r = ring->resolved;
    *head = ota_head_of(r, index);
    head->backend = &ota_ring_backend;
    head->host.pool = ring->pool;
    head->host.algebra = ring->plans.forward->strategy.algebra;
    head->host.kernels = ring->plans.forward->strategy.kernels;
    head->host.workspace = ring->columns.workspace;
    head->rows = r->queries;
    head->columns = r->keys;
    head->scores.stride = ring->stride;
    head->mu = ring->columns.mu;
    head->nu = ring->columns.nu;
    head->column.lambdas = ota_array_present(&r->problem.lambdas) ? ring->columns.lambdas : NULL;
    head->host.place = ring;
    head->kernel = (ota_kernel_state){.target = ring->columns.target,
                                      .sum = ring->columns.sum,
                                      .scaling = ring->columns.scaling,
                                      .absorbed = ring->columns.absorbed,
                                      .used = ring->columns.used,
                                      .history = ring->columns.history,
                                      .u = ring->columns.u,
                                      .masked = r->row_terms || r->support_count > 0};
    head->f = ring->columns.f;
    head->g = ring->columns.g;
    ota_ring_begin_unit(ring, index);
    for (int64_t i = 0; i < head->rows; i++) ring->columns.u[i] = 1.0;
}

void ota_ring_begin_head(ota_run *run, int64_t index, int64_t place, bool narrow, bool keep_g,
                         ota_head *head) {
    ota_ring_device *ring = run->device;
    (void)place, (void)narrow;
    ota_ring_load_head(ring, index, head);
    head->host.report =
        ring->resolved->settings.calls.progress != NULL ? ota_run_report_progress : NULL;
    head->host.report_context = run;
    ring->run = run;
    ring->failed = OTA_OK;
    ring->columns.temperature = 0.0;
    for (int64_t j = 0; j < head->columns && !keep_g; j++) head->g[j] = 0.0;
}

void ota_ring_pack(ota_head *head) { (void)head; }

void ota_ring_kernel_round(ota_head *head, bool form) {
    ota_ring_device *ring = head->host.place;
    ota_kernel_state *kernel = &head->kernel;
    (void)form;
    set_potentials(head);
    kernel->found.lost = kernel->found.infeasible = kernel->found.nonfinite = false;
    if (!ota_ring_attend(ring, false)) return;
    if (kernel->round.first) weigh_rows(head);
    for (int64_t i = 0; i < head->rows; i++)
        kernel->found.nonfinite |= isnan(ring->rows.lse[i]) || ring->rows.lse[i] >= INFINITY;
    if (!sum_columns(head)) return;
    kernel->found.lost = ring->failed != OTA_OK;
    if (kernel->round.first) find_used(head);
}

void ota_ring_allot(ota_head *head) {
    ota_ring_device *ring = head->host.place;
    for (int64_t j = 0; j < head->columns; j++)
        ring->columns.nu[j] =
            !head->kernel.masked || head->kernel.used[j] != OTA_KEY_SHUT ? 1.0 : 0.0;
    ota_head_allot(head, ring->resolved, ring->columns.nu, ring->columns.lambdas);
}

/* As of a stored kernel in f64 (numerics.md): lse stands for the scores, of which the largest count. */
double ota_ring_kernel_floor(const ota_head *head) {
    const ota_ring_device *ring = head->host.place;
    const ota_kernel_state *kernel = &head->kernel;
    double reach = kernel->range.high > kernel->range.low
                       ? (kernel->range.high - kernel->range.low) / 4.0
                       : 0.0;
    reach += fabs(ring->resolved->scale) * sqrt(kernel->range.norm) * sqrt(ring->columns.key_norm);
    return 8.0 * (DBL_EPSILON / 2.0) + DBL_EPSILON / 2.0 * reach / head->tau;
}

/* The last row update, with values; the sums of a plan that no round has summed. */
bool ota_ring_kernel_emit(ota_head *head) {
    ota_ring_device *ring = head->host.place;
    head->kernel.round.first = false;
    set_potentials(head);
    if (!ota_ring_attend(ring, true)) return false;
    if (!head->kernel.round.met && !sum_columns(head)) return false;
    if (!ota_ring_measure(ring)) return false;
    return ring->failed == OTA_OK;
}

void ota_ring_gather(ota_head *head) {
    ota_ring_device *ring = head->host.place;
    const ota_array *receiver = &ring->run->arrays->receiver;
    ota_ring_put(ring, 0, &ring->run->heads[head->index]);
    for (int64_t j = 0; j < head->columns; j++)
        ota_put(receiver, ring->unit.batch, ring->unit.head, j, ring->columns.local[j]);
}
