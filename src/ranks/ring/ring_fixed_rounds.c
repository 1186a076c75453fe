/* A fixed number of rounds in a ring, reversed [DER-15]. The round that began at g has the weights and column sums
 *
 *     P_ij = mu_i exp((S_ij + g_j) / t - l_i),    c_j = sum_i P_ij
 *
 * of which its column update is P_ij / c_j and its row update P_ij / mu_i. With g' = dL/dg after it and the derivatives by_g and
 * by_level of the update (solvers/derivatives/adjoint.h), the reverse is
 *
 *     y_j = by_level_j g'_j / c_j,    z_i = (P y)_i / mu_i
 *     dS_ij -= P_ij (y_j - z_i),      g'_j <- by_g_j g'_j + (P^T z)_j
 *
 * One message round finds P y, the next P^T z. The plan that is returned comes first, with u_i = dO_i . O_i:
 *
 *     t g'_j = V_j . (P^T dO)_j - (P^T (u / mu))_j
 *
 * Every round leaves its g, f and the multipliers a = -t z, b = t y, of which the last message round forms dS of all at once. */
#include "ring_fixed_rounds.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "ring_limits.h"
#include "ring_masses.h"
#include "ring_multipliers.h"
#include "ring_pairs.h"
#include "solvers/stored_rounds.h"

void ota_ring_lay_out_kept(ota_ring_device *ring, ota_arena *arena) {
    const int64_t rounds = ring->resolved->settings.stop.rounds, rows = ring->resolved->queries;
    ota_ring_kept *to = ota_arena_take(arena, 1, sizeof *to);
    const ota_ring_kept kept = {.rounds = rounds,
                                .g = ota_ring_numbers(arena, rounds + 1, ring->stride),
                                .b = ota_ring_numbers(arena, rounds, ring->stride),
                                .lse = ota_ring_numbers(arena, rounds + 1, rows),
                                .f = ota_ring_numbers(arena, rounds, rows),
                                .a = ota_ring_numbers(arena, rounds + 1, rows)};
    if (to != NULL) *to = kept;
    ring->backward.kept = to;
}

/* ---- run again ------------------------------------------------------------------------------------ */

static ota_status status_of(const ota_head *head, ota_outcome end) {
    if (end == OTA_STOPPED) return OTA_ECOMM;
    if (end == OTA_OUTCOME_NONFINITE) return OTA_NONFINITE;
    return end == OTA_OUTCOME_INFEASIBLE || head->kernel.found.infeasible ? OTA_INFEASIBLE
                                                                          : OTA_UNSUPPORTED;
}

static void start(const ota_ring_device *ring, const ota_arrays *arrays, const ota_head *head) {
    const ota_ring_unit *unit = &ring->unit;
    for (int64_t j = 0; j < head->columns; j++) {
        const double g =
            ota_array_present(&arrays->start_potential)
                ? ota_array_get(&arrays->start_potential, unit->batch, unit->head, 0, j)
                : 0.0;
        head->g[j] = isfinite(g) ? ota_column_project(ota_head_rule(head), g) : 0.0;
    }
}

ota_key_update ota_ring_update(const ota_head *head, int64_t j, double g, double sum) {
    const double level = g > -INFINITY ? log(sum) - g / head->tau : -INFINITY;
    return ota_unrolled_key(head, head->tau, j, g, level);
}

ota_status ota_ring_replay(ota_ring_device *ring, const ota_arrays *arrays, ota_ring_round *visit,
                           void *context, ota_head *head) {
    const ota_settings *s = &ring->resolved->settings;
    ota_ring_load_head(ring, ring->unit.batch * ring->resolved->heads + ring->unit.head, head);
    ota_kernel_state *kernel = &head->kernel;
    start(ring, arrays, head);
    for (int64_t k = 0; k < s->stop.rounds; k++) {
        ota_ranks_at(s->ranks, head->index, k);
        kernel->round.first = k == 0;
        for (int64_t j = 0; j < head->columns; j++) {
            kernel->scaling[j] = head->g[j] > -INFINITY ? 1.0 : 0.0;
            kernel->absorbed[j] = kernel->scaling[j] > 0.0 ? head->g[j] : 0.0;
        }
        const ota_outcome outcome = ota_stored_round(head, true);
        if (outcome != OTA_GO_ON) return status_of(head, outcome);
        ota_scaling targets = {
            .head = head, .target = kernel->target, .used = kernel->masked ? kernel->used : NULL};
        if (k == 0 && !ota_scaling_begin(&targets)) return OTA_INFEASIBLE;
        head->nu = kernel->target;
        ota_status going = ota_interrupted_together(s);
        if (going == OTA_OK) going = visit(ring, head, k, context);
        if (going != OTA_OK) return going;
        for (int64_t j = 0; j < head->columns; j++)
            head->g[j] = ota_ring_update(head, j, head->g[j], kernel->sum[j]).next;
    }
    return OTA_OK;
}

/* ---- reversed ------------------------------------------------------------------------------------- */

/* g and lse of a round, or of the plan behind the last. */
static void keep(const ota_ring_device *ring, int64_t round) {
    const ota_ring_kept *kept = ring->backward.kept;
    const ota_resolved *r = ring->resolved;
    memcpy(kept->g + round * ring->stride, ring->columns.g, (size_t)r->keys * sizeof(double));
    memcpy(kept->lse + round * r->queries, ring->rows.lse, (size_t)r->queries * sizeof(double));
}

static void bring_back(ota_ring_device *ring, int64_t round) {
    const ota_ring_kept *kept = ring->backward.kept;
    const ota_resolved *r = ring->resolved;
    memcpy(ring->columns.g, kept->g + round * ring->stride, (size_t)r->keys * sizeof(double));
    memcpy(ring->rows.lse, kept->lse + round * r->queries, (size_t)r->queries * sizeof(double));
    ota_ring_take_potentials(ring);
}

static ota_status keep_round(ota_ring_device *ring, const ota_head *head, int64_t round,
                             void *context) {
    (void)context;
    keep(ring, round);
    memcpy(ring->backward.kept->b + round * ring->stride, head->kernel.sum,
           (size_t)head->columns * sizeof(double));
    return OTA_OK;
}

/* t g' of the plan that is returned, in `right`. */
static ota_status reverse_plan(ota_ring_device *ring, const ota_gradients *want) {
    const ota_ring_adjoint *s = ring->backward.adjoint;
    const ota_ring_kept *kept = ring->backward.kept;
    const ota_resolved *r = ring->resolved;
    double *a = kept->a + kept->rounds * r->queries;
    ota_ring_pull pull = {.out_grad = &want->out_grad, .keys.moved = s->right, .keys_alone = true};
    memset(s->right, 0, (size_t)r->keys * sizeof *s->right);
    ota_ring_set_rows(ring, want);
    keep(ring, kept->rounds);
    for (int64_t i = 0; i < r->queries; i++)
        ring->pairs->mean[i] = a[i] = s->den[i] > 0.0 ? s->row_right[i] / s->den[i] : 0.0;
    ota_ring_take_potentials(ring);
    if (!ota_ring_pull_pairs(ring, &pull) ||
        !ota_ranks_sum(&r->settings, s->right, r->keys, NULL, 0, "the last round's gradient"))
        return OTA_ECOMM;
    return ota_interrupted_together(&r->settings);
}

/* What a key's update in a round passes on: y, g' of what it began from, the target and the rule's parameters. */
static void pull(const ota_head *head, const ota_ring_adjoint *s, int64_t j, double g, double sum,
                 const ota_key_update *update, ota_unrolled_sums *sums) {
    const double after = s->right[j], pulled = update->by_level * after;
    s->b[j] = update->by_level > 0.0 ? pulled / sum : 0.0;
    s->right[j] = update->by_g * after;
    if (update->by_level > 0.0) sums->column[j] += head->tau * pulled / head->nu[j];
    sums->temperature += update->by_t * after;
    if (update->by_level > 0.0) sums->temperature -= pulled * g / head->tau;
    for (int p = 0; p < OTA_RULE_PARAMETERS; p++)
        sums->parameters[p] += update->by_parameter[p] * after;
}

/* a = -t z and b = t y of a round are kept, -z in `product`. */
static void keep_multipliers(const ota_ring_device *ring, const ota_head *head, int64_t round) {
    const ota_ring_kept *kept = ring->backward.kept;
    const ota_ring_adjoint *s = ring->backward.adjoint;
    for (int64_t i = 0; i < head->rows; i++) {
        kept->f[round * head->rows + i] = ring->pairs->f[i];
        ring->pairs->mean[i] = kept->a[round * head->rows + i] = head->tau * s->product[i];
    }
    for (int64_t j = 0; j < head->columns; j++)
        kept->b[round * ring->stride + j] = head->tau * s->b[j];
}

/* P^T z of a round, of all ranks, added to `right`. */
static bool pull_round(ota_ring_device *ring, const ota_head *head) {
    const ota_ring_adjoint *s = ring->backward.adjoint;
    ota_ring_pull pull = {.keys.moved = s->sums, .keys_alone = true};
    ota_ring_clear(s->sums, head->columns);
    if (!ota_ring_pull_pairs(ring, &pull) ||
        !ota_ranks_sum(&ring->resolved->settings, s->sums, head->columns, NULL, 0,
                       "a reversed round"))
        return false;
    for (int64_t j = 0; j < head->columns; j++) s->right[j] += s->sums[j] / head->tau;
    return true;
}

/* `right`, g' after the round, becomes g' before it; that of the first one is nobody's. */
static ota_status reverse_round(ota_plan *plan, const ota_head *head, int64_t round,
                                ota_unrolled_sums *found) {
    ota_ring_device *ring = plan->device;
    const ota_ring_adjoint *s = ring->backward.adjoint;
    const ota_settings *settings = &ring->resolved->settings;
    const double *sums = ring->backward.kept->b + round * ring->stride;
    bring_back(ring, round);
    for (int64_t j = 0; j < head->columns; j++) {
        const ota_key_update update = ota_ring_update(head, j, ring->columns.g[j], sums[j]);
        pull(head, s, j, ring->columns.g[j], sums[j], &update, found);
    }
    ota_ring_set_den(ring);
    if (!ota_ring_multiply(ring, s->b)) return OTA_ECOMM;
    for (int64_t i = 0; i < head->rows; i++) {
        s->product[i] = s->den[i] > 0.0 ? -s->product[i] / s->den[i] : 0.0;
        found->row[i] += head->tau * s->product[i];
    }
    if (!ota_ring_take_round_limits(plan, NULL, s->product, s->b, head->tau, found))
        return OTA_ECOMM;
    keep_multipliers(ring, head, round);
    if (round == 0) return OTA_OK;
    return pull_round(ring, head) ? ota_interrupted_together(settings) : OTA_ECOMM;
}

/* Gradients of the plan that is returned and of all rounds, in one message round. */
static ota_status pull_all(ota_ring_device *ring, const ota_gradients *want) {
    const ota_ring_kept *kept = ring->backward.kept;
    const int64_t rows = ring->resolved->queries;
    ota_ring_pull pull = {.out_grad = &want->out_grad, .rounds = kept};
    bring_back(ring, kept->rounds);
    memcpy(ring->pairs->mean, kept->a + kept->rounds * rows, (size_t)rows * sizeof(double));
    return ota_ring_pull_pairs(ring, &pull) ? OTA_OK : OTA_ECOMM;
}

/* Masses as the rounds met them. */
static void sum_masses(ota_plan *plan, const ota_head *head, const ota_unrolled_sums *found) {
    const ota_ring_adjoint *s = plan->device->backward.adjoint;
    const ota_ring_limits *limits = plan->device->backward.limits;
    for (int64_t i = 0; i < head->rows; i++) {
        if (ota_ring_row_grows(plan, i) && limits->of_rows.total[i] > 0.0) s->den[i] = DBL_MIN;
    }
    ota_mass_rule rule = {.a = found->row,
                          .b = found->column,
                          .g = head->g,
                          .row_sum = s->den,
                          .column_sum = head->nu,
                          .finished = true};
    for (int64_t j = 0; j < head->columns; j++)
        s->held[j] = !head->kernel.masked || head->kernel.used[j] != OTA_KEY_SHUT;
    ota_ring_sum_masses(plan, &rule, found, s->held);
    /* What the columns say all ranks know, as the parameters of their rule. */
    if (plan->device->shards->ranks.to.rank == 0)
        plan->device->backward.space->sums.temperature[plan->device->unit.head] +=
            found->temperature;
}

ota_status ota_ring_reverse_rounds(ota_plan *plan, const ota_arrays *arrays,
                                   const ota_gradients *want) {
    ota_ring_device *ring = plan->device;
    const ota_ring_adjoint *s = ring->backward.adjoint;
    const ota_settings *settings = &ring->resolved->settings;
    ota_head head;
    ota_status status = ota_ring_replay(ring, arrays, keep_round, NULL, &head);
    if (status != OTA_OK) return status;
    if (!ota_ring_find_rows(ring, arrays, want->solved != 0)) return OTA_ECOMM;
    status = reverse_plan(ring, want);
    ota_unrolled_sums found = {.row = s->a, .column = s->extra};
    for (int64_t j = 0; j < head.columns; j++) {
        s->right[j] /= head.tau;
        found.column[j] = 0.0;
    }
    for (int64_t i = 0; i < head.rows; i++)
        found.row[i] = s->product[i] = s->den[i] > 0.0 ? s->row_right[i] / s->den[i] : 0.0;
    if (status == OTA_OK &&
        !ota_ring_take_round_limits(plan, &want->out_grad, s->product, NULL, 1.0, &found))
        return OTA_ECOMM;
    for (int64_t k = settings->stop.rounds - 1; k >= 0 && status == OTA_OK; k--) {
        ota_ranks_at(settings->ranks, head.index, k);
        status = reverse_round(plan, &head, k, &found);
    }
    if (status != OTA_OK) return status;
    sum_masses(plan, &head, &found);
    return pull_all(ring, want);
}
