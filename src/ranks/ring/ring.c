/* The device of a ring (ring.h): memory, the plans of its pieces, and how a share goes from rank to rank. */
#include "ring_fixed_rounds.h"
#include "ring_masses.h"
#include "ring_multipliers.h"
#include "ring_pairs.h"
#include "ring_semidual.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/gradient.h"
#include "base/extrapolation.h"
#include "problem/check.h"
#include "solvers/coupled.h"
#include "terms/terms.h"
#include "validation/validation.h"

/* ---- which problems ------------------------------------------------------------------------------- */

static bool has_softcap(const ota_resolved *r) {
    for (int t = 0; t < r->term_count; t++) {
        if (ota_term_form_of(&r->terms[t]) == OTA_FORM_SOFTCAP) return true;
    }
    return false;
}

/* Columns that no rounds find; relaxed rows are softmax's. */
static bool runs_newton(const ota_plan *plan) {
    const ota_resolved *r = &plan->resolved;
    const ota_regulariser_row *regulariser = ota_regulariser_of(&r->problem);
    return (plan->solver == &ota_solver_coupled || plan->solver == &ota_solver_newton) &&
           ota_tolerance_only(r) == NULL && (regulariser->tsallis || regulariser->capped) &&
           r->problem.axis == OTA_AXIS_ROWS && !r->settings.prune;
}

/* Why the plan's problem has no ring, as the end of a sentence; NULL: it has one. */
static const char *why_none(const ota_plan *plan) {
    const ota_resolved *r = &plan->resolved;
    if (r->from_matrix) return "a matrix of scores has no keys to pass on";
    const bool rows = plan->solver == &ota_solver_softmax || plan->solver == &ota_solver_entmax ||
                      plan->solver == &ota_solver_argmax;
    if (!rows && !ota_plan_runs_rounds(plan) && !runs_newton(plan))
        return "pieces of the keys add up for softmax, entmax and hard rows on free columns, for "
               "plain rounds of softmax, and where Newton finds the columns of entmax or of capped "
               "entries to a tolerance";
    if (r->width == 0) return "keys of width 0 have nothing to pass on";
    if (plan->backend->gradient == NULL || plan->backend->gradient->tiles_fit == NULL)
        return "pieces are solved on the cpu backend";
    return NULL;
}

ota_status ota_ring_check(const ota_arrays *arrays, ota_error *error) {
    if (!ota_array_present(&arrays->coupling)) return OTA_OK;
    return ota_fail(error, OTA_UNSUPPORTED, "coupling",
                    "leave it out, or let communicator.keys be OTA_KEYS_GATHERED",
                    "coupling needs all keys of a row at once, which a ring has not");
}

int64_t ota_ring_bytes(const ota_ring_device *ring) {
    const ota_resolved *r = ring->resolved;
    const ota_shards *shards = ring->shards;
    const int ranks = shards->ranks.to.ranks, rank = shards->ranks.to.rank;
    int64_t keys = 0;
    /* All shares but the one that the next rank had first. */
    for (int k = 0; k < ranks; k++) keys += k == (rank + 1) % ranks ? 0 : shards->key_shares[k];
    return keys * r->batch * r->key_heads * (r->width + ring->values_width) *
           (int64_t)ota_type_bytes(r->type);
}

const char *ota_ring_message_rounds(const ota_ring_device *ring) {
    if (ring->newton != NULL)
        return "those of the rows' potentials and one in every trial of Newton, up to two for its "
               "system, two a product, and those of the outputs";
    if (ring->coupled)
        return ring->resolved->settings.stop.fixed ? "two a round, and two for the outputs"
                                                   : "two a round, and one for the outputs";
    if (ring->rule == OTA_RING_BY_BEST_KEY || ring->rule == OTA_RING_BY_LSE) return "one";
    if (ring->rule == OTA_RING_BY_CAPS)
        return "two, and one a step of the potentials under the caps";
    if (ring->rule == OTA_RING_BY_FILLING)
        return "two, and one a step where a row fills more than 64 keys";
    return ota_is_heavy_tailed(ota_regulariser_of(&ring->resolved->problem))
               ? "two, and one a step of the thresholds where a row may use more than 128 keys"
               : "two, and one a step of the thresholds where a row has more than 128 weights";
}

/* ---- memory --------------------------------------------------------------------------------------- */

/* Most keys of a rank, and of one of its pieces. */
static void measure_shares(ota_ring_device *ring) {
    const ota_shards *shards = ring->shards;
    ring->share = ring->room = 1;
    for (int k = 0; k < 2 * shards->ranks.to.ranks; k++) {
        int64_t first, count;
        ota_shards_piece(shards, shards->key_shares, k / 2, k % 2 == 1, &first, &count);
        ring->room = ota_int_max(ring->room, count);
        ring->share = ota_int_max(ring->share, shards->key_shares[k / 2]);
    }
}

/* A plan of pieces, before any has come. */
static ota_status open_plan(ota_ring_device *ring, int64_t values_width, bool gradients,
                            ota_plan **plan, ota_error *error) {
    const bool sums = plan == &ring->plans.sums;
    const ota_resolved *r = ring->resolved;
    int64_t lengths[OTA_MAX_SUPPORTS + 1];
    double none = 0.0;
    ota_resolved piece;
    ota_key_block block = {.heads = ring->group,
                           .room = ring->room,
                           .whole_keys = r->keys,
                           .lengths = lengths,
                           .drops = !sums,
                           .gradients = gradients};
    block.queries = ota_array_of(&none, ring->type, 1, ring->group, r->queries, r->width);
    block.keys = ota_array_of(&none, ring->type, 1, 1, ring->room, r->width);
    if (ring->coupled) block.bias = ota_array_of(&none, OTA_F64, 1, ring->group, 1, ring->room);
    ota_key_block_resolve(r, &block, &piece);
    TRY(ota_plan_within(plan, &piece, values_width, ring->pool, error));
    ring->plans.bytes += ota_plan_bytes(*plan);
    return OTA_OK;
}

static ota_ring_rule rule_of(const ota_plan *plan, bool newton) {
    const bool capped = ota_has_entry_caps(&plan->resolved.problem);
    if (plan->solver == &ota_solver_argmax)
        return capped ? OTA_RING_BY_FILLING : OTA_RING_BY_BEST_KEY;
    if (capped) return OTA_RING_BY_CAPS;
    return plan->solver == &ota_solver_entmax || newton ? OTA_RING_BY_THRESHOLD : OTA_RING_BY_LSE;
}

static ota_status create(ota_plan *plan, ota_ring_device **device, ota_error *error) {
    const ota_resolved *r = &plan->resolved;
    ota_ring_device *ring = calloc(1, sizeof *ring);
    *device = ring;
    if (ring == NULL) return ota_fail(error, OTA_ENOMEM, "plan", "", "no memory for a ring");
    ring->resolved = r;
    ring->shards = plan->driven;
    ring->pool = plan->pool;
    ring->values_width = plan->values_width;
    ring->coupled = plan->solver->solve != NULL;
    if (ring->coupled && runs_newton(plan)) ring->newton = plan->solver;
    ring->rule = rule_of(plan, ring->newton != NULL);
    ring->gradients = r->settings.gradients;
    ring->type = ring->coupled || r->settings.precision == OTA_PRECISION_F64 ? OTA_F64 : r->type;
    ring->group = ring->coupled ? 1 : r->heads / r->key_heads;
    ring->stride = (r->keys + 15) / 16 * 16;
    measure_shares(ring);
    ring->has_softcap = has_softcap(r);
    ring->pair_gradients = ring->coupled || ring->rule != OTA_RING_BY_LSE ||
                           r->problem.dropout > 0.0 || ring->has_softcap;
    const bool reverses = ring->gradients && !ring->pair_gradients;
    const int64_t values_width = ring->rule != OTA_RING_BY_LSE ? 0 : ring->values_width;
    TRY(open_plan(ring, values_width, reverses, &ring->plans.forward, error));
    if (!ring->coupled || ring->newton != NULL) return OTA_OK;
    return open_plan(ring, 1, !ring->has_softcap, &ring->plans.sums, error);
}

ota_status ota_ring_open(ota_plan *plan, ota_error *error) {
    const char *why = why_none(plan);
    if (why != NULL)
        return ota_fail(error, OTA_UNSUPPORTED, "communicator",
                        "let communicator.keys be OTA_KEYS_GATHERED",
                        "these keys cannot come round a ring: %s", why);
    const ota_status created = create(plan, &plan->device, error);
    plan->backend = &ota_ring_backend;
    plan->stored_solver = plan->solver;
    return created;
}

size_t ota_ring_plan_bytes(const ota_ring_device *ring) { return ring->plans.bytes; }

ota_backward_space *ota_ring_space(const ota_ring_device *ring) { return ring->backward.space; }

static void close_ring(ota_ring_device *ring) {
    if (ring == NULL) return;
    ota_plan_free(ring->plans.forward);
    ota_plan_free(ring->plans.sums);
    free(ring);
}

static void lay_out_rounds(ota_ring_device *ring, ota_arena *a) {
    const ota_resolved *r = ring->resolved;
    double **rows[] = {&ring->columns.weights, &ring->columns.mu, &ring->columns.u,
                       &ring->columns.f};
    double **columns[] = {&ring->columns.nu,       &ring->columns.lambdas, &ring->columns.g,
                          &ring->columns.target,   &ring->columns.sum,     &ring->columns.scaling,
                          &ring->columns.absorbed, &ring->columns.local};
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++)
        *rows[k] = ota_ring_numbers(a, 1, r->queries);
    for (size_t k = 0; k < sizeof columns / sizeof columns[0]; k++)
        *columns[k] = ota_ring_numbers(a, 1, ring->stride);
    ring->columns.piece_sums = ota_ring_numbers(a, 1, ring->room);
    ring->columns.zeros = ota_ring_numbers(a, 1, ring->room);
    ring->block.bias = ota_ring_numbers(a, 1, ring->room);
    ring->columns.used = ota_arena_take(a, (size_t)ring->stride, 1);
    if (ring->newton != NULL) {
        const ota_layout layout = {
            .resolved = r, .kind = OTA_LAYOUT_COUPLED, .solver.workspace = ring->newton->workspace};
        const ota_head_shape shape = {&ota_ring_backend, r, r->queries, r->keys, false};
        ring->columns.workspace = ota_take_workspace(&layout, a, &shape);
    } else if (!r->settings.stop.fixed) {
        ring->columns.history =
            ota_arena_take_rows(a, OTA_ANDERSON_VECTORS + 1, ring->stride, sizeof(double));
    }
}

static void lay_out(ota_ring_device *ring, ota_arena *a) {
    const ota_resolved *r = ring->resolved;
    const size_t type = ota_type_bytes(ring->type), given = ota_type_bytes(r->type);
    const int64_t both = r->width + ring->values_width, rows = ring->group * r->queries;
    ring->messages.send_buffer = ota_arena_take_rows(a, ring->share, both, given);
    ring->messages.receive_buffer = ota_arena_take_rows(a, ring->share, both, given);
    ring->block.keys = ota_arena_take_rows(a, ring->room, r->width, type);
    ring->block.values = ota_arena_take_rows(a, ring->room, ring->values_width, type);
    ring->block.lengths = ota_arena_take(a, OTA_MAX_SUPPORTS + 1, sizeof *ring->block.lengths);
    ring->block.queries = NULL;
    if (ring->type != r->type) ring->block.queries = ota_arena_take_rows(a, rows, r->width, type);
    ring->rows.out = ota_ring_numbers(a, 1, rows * ring->values_width);
    ring->rows.piece_out = ota_ring_numbers(a, 1, rows * ota_int_max(ring->values_width, 1));
    ring->rows.lse = ota_ring_numbers(a, 1, rows);
    ring->rows.piece_lse = ota_ring_numbers(a, 1, rows);
    if (ring->gradients) {
        ring->messages.send_sums = ota_arena_take_rows(a, ring->share, both, sizeof(double));
        ring->messages.receive_sums = ota_arena_take_rows(a, ring->share, both, sizeof(double));
        ring->backward.query_sums = ota_ring_numbers(a, 1, rows * r->width);
        if (!ring->pair_gradients) {
            ring->backward.piece_queries = ota_ring_numbers(a, 1, rows * r->width);
            ring->backward.piece_keys = ota_ring_numbers(a, 1, ring->room * r->width);
            ring->backward.piece_values = ota_ring_numbers(a, 1, ring->room * ring->values_width);
        }
        ring->backward.totals = ota_ring_numbers(a, 1, ring->share * both);
    }
    if (ring->coupled) lay_out_rounds(ring, a);
    if (ring->coupled && ring->gradients) ota_ring_lay_out_adjoint(ring, a);
    if (ring->coupled && ring->gradients && r->settings.stop.fixed) ota_ring_lay_out_kept(ring, a);
    if (ring->gradients) ota_ring_lay_out_masses(ring, a);
    ota_ring_lay_out_pairs(ring, a);
}

static ota_strategy strategy_of(const ota_ring_device *ring) {
    const ota_resolved *r = ring->resolved;
    const ota_strategy within = ring->plans.forward->strategy;
    return (ota_strategy){.path = ring->coupled ? OTA_PATH_COUPLED : OTA_PATH_ROWS,
                          .name = "ring over pieces of the keys",
                          .why = r->settings.ranks->to.keys == OTA_KEYS_IN_RING
                                     ? "it was asked for"
                                     : "workspace_limit leaves no room for the keys of all ranks",
                          .level = within.level,
                          .ladder = ring->coupled || ring->rule != OTA_RING_BY_LSE ? OTA_LADDER_F64
                                                                                   : within.ladder,
                          .rows = r->queries,
                          .columns = r->keys,
                          .stride = ring->stride,
                          .padded_keys = ring->stride,
                          .algebra = within.algebra,
                          .kernels = within.kernels,
                          .on_kernel = ring->coupled && ring->newton == NULL,
                          .stored = ring->newton != NULL};
}

/* ---- units ---------------------------------------------------------------------------------------- */

void ota_ring_begin_unit(ota_ring_device *ring, int64_t index) {
    const ota_resolved *r = ring->resolved;
    const int64_t head = index % r->heads;
    ring->unit = (ota_ring_unit){.batch = index / r->heads,
                                 .key_head = head / (r->heads / r->key_heads),
                                 .head = head,
                                 .heads = ring->group};
    ota_ring_clear(ring->pairs->size, ota_ring_row_count(ring));
    ota_ranks_at(&ring->shards->ranks, index, -1);
}

ota_status ota_ring_each_unit(ota_plan *plan, const ota_ring_units *units, ota_result *found) {
    ota_ring_device *ring = plan->device;
    const ota_resolved *r = ring->resolved;
    ring->failed = OTA_OK;
    for (int64_t k = 0; k < r->batch * r->heads; k += ring->group) {
        ota_ring_begin_unit(ring, k);
        /* A rank that is told to stop still passes on what others wait for. */
        if (ota_interrupted(&r->settings) != OTA_OK) ring->failed = ota_interrupted(&r->settings);
        double residual = 0.0;
        const ota_status status = units->work(plan, units->context, &residual);
        found->backward_residual = fmax(found->backward_residual, residual);
        found->head = k;
        if (status != OTA_OK) return status;
        if (ring->failed == OTA_OK) units->put(plan, units->context);
    }
    return ring->failed;
}

/* ---- one message round ------------------------------------------------------------------------------------- */

ota_array ota_ring_rows(const ota_ring_device *ring, double *rows, int64_t width) {
    return ota_array_of(rows, OTA_F64, 1, ring->group, ring->resolved->queries, width);
}

ota_array ota_ring_lse(const ota_ring_device *ring, double *lse) {
    return ota_array_of(lse, OTA_F64, 1, ring->group, 1, ring->resolved->queries);
}

ota_array ota_ring_values(const ota_ring_device *ring) {
    return ota_array_of(ring->block.values, ring->type, 1, 1, ring->room, ring->values_width);
}

void ota_ring_place(ota_ring_device *ring, const ota_ring_piece *piece, bool biased,
                    ota_plan *plan) {
    const ota_resolved *r = ring->resolved;
    const ota_ring_unit *unit = &ring->unit;
    ota_key_block block = {.batch = unit->batch,
                           .head = unit->head,
                           .heads = unit->heads,
                           .first = piece->first,
                           .count = piece->count,
                           .room = ring->room,
                           .whole_keys = r->keys,
                           .lengths = ring->block.lengths,
                           .drops = plan == ring->plans.forward,
                           .gradients = plan->resolved.settings.gradients};
    block.queries = r->problem.queries;
    if (ring->block.queries != NULL) {
        block.queries =
            ota_array_of(ring->block.queries, ring->type, 1, unit->heads, r->queries, r->width);
    } else {
        ota_array *q = &block.queries;
        q->data = (char *)q->data + (unit->batch * q->stride[0] + unit->head * q->stride[1]) *
                                        (int64_t)ota_type_bytes(q->type);
        q->size[0] = 1;
        q->size[1] = unit->heads;
    }
    block.keys = ota_array_of(ring->block.keys, ring->type, 1, 1, ring->room, r->width);
    if (biased) block.bias = ota_array_of(ring->block.bias, OTA_F64, 1, unit->heads, 1, ring->room);
    ota_key_block_resolve(r, &block, &plan->resolved);
}

/* Rows [first, first + count) of [rows][width] into a block; zeros to the end of its room. */
static void unpack(const ota_ring_device *ring, const unsigned char *from, int64_t first,
                   int64_t count, int64_t width, void *to) {
    const size_t element = ota_type_bytes(ring->resolved->type), own = ota_type_bytes(ring->type);
    const unsigned char *rows = from + (size_t)(first * width) * element;
    if (ring->type == ring->resolved->type) {
        memcpy(to, rows, (size_t)(count * width) * element);
    } else {
        const ota_array narrow =
            ota_array_of((void *)(uintptr_t)rows, ring->resolved->type, 1, 1, count, width);
        for (int64_t k = 0; k < count * width; k++)
            ((double *)to)[k] = ota_array_get(&narrow, 0, 0, k / width, k % width);
    }
    memset((char *)to + (size_t)(count * width) * own, 0,
           (size_t)((ring->room - count) * width) * own);
}

static void visit_share(ota_ring_device *ring, const ota_message_round *message_round, int owner) {
    const ota_shards *shards = ring->shards;
    const int64_t width = ring->resolved->width, share = shards->key_shares[owner];
    const size_t element = ota_type_bytes(ring->resolved->type);
    const bool zigzag = shards->ranks.to.shares == OTA_SHARES_ZIGZAG;
    const unsigned char *values = ring->messages.send_buffer + (size_t)(share * width) * element;
    int64_t row = 0;
    for (int k = 0; k < (zigzag ? 2 : 1); k++) {
        ota_ring_piece piece = {0};
        ota_shards_piece(shards, shards->key_shares, owner, k == 1, &piece.first, &piece.count);
        if (piece.count == 0) continue;
        unpack(ring, ring->messages.send_buffer, row, piece.count, width, ring->block.keys);
        if (message_round->with_values)
            unpack(ring, values, row, piece.count, ring->values_width, ring->block.values);
        if (message_round->sum_width > 0)
            piece.sums = ring->messages.send_sums + row * message_round->sum_width;
        if (ring->failed == OTA_OK) message_round->visit(ring, &piece, message_round->context);
        row += piece.count;
        /* Whatever a visit left out is no answer of this rank. */
        if (ring->failed == OTA_OK) ring->failed = ota_interrupted(&ring->resolved->settings);
    }
}

/* To the next rank what it has not had, from the one before what is next here. */
static bool pass_on(ota_ring_device *ring, const ota_message_round *message_round, int owner,
                    bool last) {
    ota_shards *shards = ring->shards;
    const int ranks = shards->ranks.to.ranks;
    const int64_t width =
        ring->resolved->width + (message_round->with_values ? ring->values_width : 0);
    const int64_t line = width * (int64_t)ota_type_bytes(ring->resolved->type);
    const int64_t mine = shards->key_shares[owner],
                  theirs = shards->key_shares[(owner + ranks - 1) % ranks];
    if (!last) {
        if (!ota_ranks_pass_on(&shards->ranks, ring->messages.send_buffer, mine * line,
                               ring->messages.receive_buffer, theirs * line, message_round->step))
            return false;
        unsigned char *spent = ring->messages.send_buffer;
        ring->messages.send_buffer = ring->messages.receive_buffer;
        ring->messages.receive_buffer = spent;
    }
    if (message_round->sum_width == 0 || (last && message_round->tangents != NULL)) return true;
    const int64_t number = message_round->sum_width * (int64_t)sizeof(double);
    if (!ota_ranks_pass_on(&shards->ranks, ring->messages.send_sums, mine * number,
                           ring->messages.receive_sums, theirs * number, message_round->step))
        return false;
    double *spent = ring->messages.send_sums;
    ring->messages.send_sums = ring->messages.receive_sums;
    ring->messages.receive_sums = spent;
    return true;
}

/* Rows of tangents into columns [first, first + width) of the sums. */
static void fill_sums(const ota_ring_device *ring, const ota_message_round *message_round,
                      const ota_array *from, int64_t first) {
    const ota_ring_unit *unit = &ring->unit;
    for (int64_t j = 0; ota_array_present(from) && j < from->size[2]; j++) {
        for (int64_t w = 0; w < from->size[3]; w++)
            ring->messages.send_sums[j * message_round->sum_width + first + w] =
                ota_array_get(from, unit->batch, unit->key_head, j, w);
    }
}

bool ota_ring_go(ota_ring_device *ring, const ota_message_round *message_round) {
    const ota_shards *shards = ring->shards;
    const int ranks = shards->ranks.to.ranks, rank = shards->ranks.to.rank;
    const ota_ring_unit *unit = &ring->unit;
    const ota_type type = ring->resolved->type;
    unsigned char *values = ota_array_pack(&shards->keys, type, unit->batch, unit->key_head,
                                           ring->messages.send_buffer);
    if (message_round->with_values)
        (void)ota_array_pack(&shards->values, type, unit->batch, unit->key_head, values);
    if (message_round->sum_width > 0)
        memset(ring->messages.send_sums, 0,
               (size_t)(shards->key_share * message_round->sum_width) * sizeof(double));
    if (message_round->tangents != NULL) {
        fill_sums(ring, message_round, &message_round->tangents->keys, 0);
        fill_sums(ring, message_round, &message_round->tangents->values, ring->resolved->width);
    }
    for (int step = 0; step < ranks; step++) {
        const int owner = (rank + ranks - step) % ranks;
        visit_share(ring, message_round, owner);
        if (ranks > 1 && !pass_on(ring, message_round, owner, step == ranks - 1)) return false;
    }
    return true;
}

/* ---- the table ------------------------------------------------------------------------------------ */

static int64_t places(const ota_ring_device *ring) {
    (void)ring;
    return 1;
}

const ota_backend ota_ring_backend = {.name = "cpu",
                                      .lay_out = lay_out,
                                      .strategy = strategy_of,
                                      .close = close_ring,
                                      .run_rows = ota_ring_run_rows,
                                      .places = places,
                                      .begin_head = ota_ring_begin_head,
                                      .pack = ota_ring_pack,
                                      .kernel_round = ota_ring_kernel_round,
                                      .allot = ota_ring_allot,
                                      .kernel_floor = ota_ring_kernel_floor,
                                      .kernel_emit = ota_ring_kernel_emit,
                                      .load = ota_ring_load,
                                      .emit = ota_ring_emit,
                                      .gather = ota_ring_gather,
                                      .lay_out_passes = ota_ring_lay_out_passes,
                                      .final_pass = ota_ring_final_pass,
                                      .semidual = &ota_ring_semidual};
