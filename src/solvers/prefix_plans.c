/* Prefix transport: row i is the last row of the exact plan of queries 0...i on keys 0...m-n+i, all visible
 * inside the prefix. Each leading block is solved by the solver of the same regulariser with exact
 * columns, warm-started from the block before; nothing later is ever looked at, so later queries change
 * no earlier row. O(n) solves of growing size. [DER-04, CETA-26] */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "coupled.h"

static const char *not_prefix(const ota_resolved *r) {
    return ota_column_rule_of(r->problem.columns)->coupling == OTA_COUPLING_LEADING
               ? NULL
               : "it solves prefix columns only";
}

static const ota_solver *inner_solver(const ota_regulariser_row *regulariser) {
    return ota_is_smooth(regulariser) ? &ota_solver_coupled : &ota_solver_assignment;
}

typedef struct prefix_memory {
    double *plan; /* [rows][stride] of the block being solved (hard only) */
    double *f, *nu, *mu;
    double *far; /* [rows][stride] scores of a block, where they lie far apart */
    void *inner;
} prefix_memory;

static void lay_out(ota_arena *arena, prefix_memory *memory, const ota_head_shape *shape,
                    const ota_regulariser_row *regulariser, int64_t rows, int64_t stride,
                    bool is_fixed) {
    size_t row_bytes = 0;
    memory->plan = NULL;
    if (!ota_is_smooth(regulariser) && !ota_size_mul((size_t)stride, sizeof(double), &row_bytes))
        arena->overflowed = true;
    if (!ota_is_smooth(regulariser)) memory->plan = ota_arena_take(arena, (size_t)rows, row_bytes);
    memory->f = ota_arena_take(arena, (size_t)rows, sizeof(double));
    memory->mu = ota_arena_take(arena, (size_t)rows, sizeof(double));
    memory->nu = ota_arena_take(arena, (size_t)stride, sizeof(double));
    memory->far = !is_fixed && ota_is_smooth(regulariser)
                      ? ota_arena_take_rows(arena, rows, stride, sizeof(double))
                      : NULL;
    if (shape == NULL) {
        memory->inner = ota_arena_take(arena, 0, 1);
        return;
    }
    const ota_head_shape block = {
        .backend = shape->backend, .resolved = shape->resolved, .rows = rows, .columns = stride};
    const size_t bytes = inner_solver(regulariser)->workspace(&block);
    if (bytes == SIZE_MAX)
        arena->overflowed = true;
    else
        memory->inner = ota_arena_take(arena, bytes, 1);
}

static size_t prefix_workspace(const ota_head_shape *shape) {
    ota_arena arena = {0};
    prefix_memory memory;
    lay_out(&arena, &memory, shape, ota_regulariser_of(&shape->resolved->problem), shape->rows,
            ota_int_round_up(shape->columns, 16), shape->resolved->settings.stop.fixed);
    return ota_arena_overflowed(&arena) ? SIZE_MAX : arena.used;
}

/* Masses of the leading block: queries without a usable key are left out, nu spreads evenly over the
 * keys that somebody may use. */
static double block_masses(const ota_head *head, const prefix_memory *memory, int64_t rows,
                           int64_t columns) {
    const double *scores = head->scores.data;
    double total = 0.0;
    int64_t usable = 0;
    ota_watch watch = ota_watch_of(head->settings);
    for (int64_t j = 0; j < columns; j++) memory->nu[j] = 0.0;
    for (int64_t i = 0; i < rows && !ota_watch_ends(&watch, columns); i++) {
        bool any = false;
        for (int64_t j = 0; j < columns; j++) {
            if (!(scores[i * head->scores.stride + j] > -INFINITY)) continue;
            any = true;
            memory->nu[j] = 1.0;
        }
        memory->mu[i] = any ? head->mu[i] : 0.0;
        total += memory->mu[i];
    }
    for (int64_t j = 0; j < columns; j++) usable += memory->nu[j] > 0.0;
    for (int64_t j = 0; j < columns; j++)
        memory->nu[j] = memory->nu[j] > 0.0 ? total / (double)usable : 0.0;
    return total;
}

static bool copy_block(const ota_far_call *call, ota_head *block) {
    const ota_head *head = call->context;
    const double *from = head->scores.data;
    double *to = block->scores.far.scores, low = INFINITY, high = -INFINITY;
    ota_watch watch = ota_watch_of(head->settings);
    for (int64_t i = 0; i < block->rows && !ota_watch_ends(&watch, block->columns); i++) {
        for (int64_t j = 0; j < block->scores.stride; j++) {
            const int64_t at = i * block->scores.stride + j;
            to[at] = j < block->columns ? from[at] : -INFINITY;
            if (!(to[at] > -INFINITY)) continue;
            low = fmin(low, to[at]);
            high = fmax(high, to[at]);
        }
    }
    ota_head_put_range(block, low, high);
    return true;
}

/* The block before left g, or nothing. */
static void start_block(const ota_far_call *call, ota_head *block) { (void)call, (void)block; }

/* Masses, potentials and scores of the block of row i; not yet solved. */
static ota_head block_of(const ota_head *head, const prefix_memory *memory, int64_t i) {
    ota_head block = *head;
    block.rows = i + 1;
    block.columns = head->columns - head->rows + i + 1;
    block.column.rule = OTA_COLUMNS_EXACT;
    block.mass = block_masses(head, memory, block.rows, block.columns);
    block.mu = memory->mu;
    block.nu = memory->nu;
    block.f = memory->f;
    block.found.plan = memory->plan;
    block.host.workspace = memory->inner;
    block.found.rounds = 0;
    return block;
}

static ota_status solve_block(ota_head *head, const ota_far_call *call, ota_head *block) {
    for (int64_t j = 0; j < block->columns; j++) {
        if (!(head->g[j] > -INFINITY)) head->g[j] = 0.0;
    }
    if (block->scores.far.scores != NULL) copy_block(call, block);
    const ota_status status = ota_far_scores_solve(block, call);
    if (block->found.rounds > head->found.rounds) head->found.rounds = block->found.rounds;
    if (!(block->found.column_error <= head->found.column_error))
        head->found.column_error = block->found.column_error;
    if (status < OTA_OK)
        (void)ota_snprintf(head->found.sentence, sizeof head->found.sentence,
                           "query %" PRId64 ": %.400s", block->rows - 1,
                           block->found.sentence[0] != '\0' ? block->found.sentence
                                                            : ota_status_text(status));
    return status;
}

ota_status ota_prefix_walk(ota_head *head, ota_block_visit *visit, void *context) {
    ota_arena arena = {.base = head->host.workspace, .size = SIZE_MAX};
    prefix_memory memory;
    lay_out(&arena, &memory, NULL, head->row.regulariser, head->rows, head->scores.stride,
            head->settings->stop.fixed);
    ota_status worst = OTA_OK;
    const bool near = ota_far_scores_are_near(head), moves = ota_far_scores_may_move(head);
    const ota_far_call call = {.solve = inner_solver(head->row.regulariser)->solve,
                               .start = start_block,
                               .reload = copy_block,
                               .context = head};
    for (int64_t i = 0; i < head->rows; i++) {
        const ota_status going = ota_interrupted(head->settings);
        if (going != OTA_OK) return going;
        ota_head block = block_of(head, &memory, i);
        block.warm = i > 0 && near;
        block.scores.far.scores = moves ? memory.far : NULL;
        if (moves) block.scores.data = memory.far;
        if (!(memory.mu[i] > 0.0) && head->mu[i] > 0.0) {
            (void)ota_snprintf(head->found.sentence, sizeof head->found.sentence,
                               "query %" PRId64 " has mass and no key it may use in its prefix", i);
            return OTA_INFEASIBLE;
        }
        ota_status status = OTA_OK;
        if (memory.mu[i] > 0.0) status = solve_block(head, &call, &block);
        if (status < OTA_OK) {
            if (status != OTA_NOT_CONVERGED || !head->settings->stop.allow_partial) return status;
            worst = OTA_NOT_CONVERGED;
        }
        status = visit(context, &block);
        if (status < OTA_OK) return status;
        for (int64_t j = 0; j < block.columns && block.scores.far.shut; j++)
            block.g[j] -= block.scores.far.column_shift[j];
    }
    return worst;
}

/* Its last row is the plan's. */
static ota_status keep_row(void *context, const ota_head *block) {
    ota_head *head = context;
    const int64_t i = block->rows - 1, at = i * block->scores.stride;
    double *row = head->found.plan + at;
    memset(row, 0, (size_t)block->scores.stride * sizeof *row);
    head->f[i] = -INFINITY;
    if (!(block->mu[i] > 0.0)) return OTA_OK;
    head->f[i] = block->f[i];
    if (block->found.update == OTA_FINAL_MATCH) {
        row[block->found.match[i]] = block->mu[i];
    } else if (block->found.update == OTA_FINAL_PLAN) {
        memcpy(row, block->found.plan + at, (size_t)block->columns * sizeof *row);
    } else {
        const ota_row_parameters parameters = {.kernels = block->host.kernels,
                                               .regulariser = block->row.regulariser,
                                               .order = block->row.order,
                                               .tau = block->tau,
                                               .sink = block->row.sink,
                                               .row_strength = INFINITY,
                                               .caps = block->row.caps,
                                               .line = i};
        ota_row_found found;
        block->host.algebra->row_solve(&parameters, (const double *)block->scores.data + at,
                                       block->g, block->columns, block->mu[i], row, &found);
        head->f[i] = found.potential;
    }
    if (block->scores.far.shut) head->f[i] -= block->scores.far.row_shift[i];
    return OTA_OK;
}

static ota_status solve_prefix(ota_head *head) {
    const ota_status status = ota_prefix_walk(head, keep_row, head);
    if (status >= OTA_OK || status == OTA_NOT_CONVERGED) head->found.update = OTA_FINAL_PLAN;
    return status;
}

const ota_solver ota_solver_prefix = {
    .name = "prefix",
    .purpose = "every leading block in turn, warm-started, by the exact-column solver",
    .refuses = not_prefix,
    .workspace = prefix_workspace,
    .needs_plan = true,
    .wide = true,
    .solve = solve_prefix,
};
