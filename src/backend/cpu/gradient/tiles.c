/* Backward of softmax on free columns in tiles that are recomputed, nothing of size queries x keys kept:
 *
 *     P = exp((S - lse) / tau) mu    a_i = out_grad_i . out_i / mu_i    dS = P (U - a) / tau
 *     dV = P^T out_grad              dK = scale dS^T Q                  dQ = scale dS K
 *
 * Coupled columns whose potentials g and multipliers b are known have S + g and U - a - b instead.
 *
 * S and U = out_grad V^T are formed one tile of OTA_ROW_BLOCK x OTA_KEY_TILE at a time, five products in one pass.
 * Where the caller hands over what forward wrote there is no other pass. */
#include "tiles.h"

#include <math.h>
#include <string.h>

static const ota_tile_tasks *tasks_of(bool wide) {
    return wide ? &ota_tile_tasks_f64 : &ota_tile_tasks_f32;
}

/* ---- pairs of bf16 ---------------------------------------------------------------------------- */

static bool wants_pairs(const tile_run *run, int64_t batch, int64_t key_head) {
    const ota_resolved *r = run->device->resolved;
    const int64_t group = r->heads / r->key_heads;
    if (!run->pairs || !ota_pairs_hold(&r->problem.keys, batch, key_head, r->keys, true) ||
        !ota_pairs_hold(&run->arrays->values, batch, key_head, r->keys, true))
        return false;
    for (int64_t k = 0; k < group; k++) {
        const int64_t head = key_head * group + k;
        if (!ota_pairs_hold(&r->problem.queries, batch, head, r->queries, true) ||
            !ota_pairs_hold(&run->want->out_grad, batch, head, r->queries, true))
            return false;
    }
    return true;
}

/* Keys or values of the key head. */
void ota_tile_pack_pairs(const tile_head *h, int64_t half) {
    const ota_resolved *r = h->run->device->resolved;
    ota_tile_workspace *workspace = h->workspace;
    if (half > 0) {
        h->packed->nonfinite_count = 0;
        ota_pairs_keys(&h->run->arrays->values, h->batch, h->key_head, r->keys,
                       workspace->value_panels);
        return;
    }
    ota_pairs_keys(&r->problem.keys, h->batch, h->key_head, r->keys, h->packed->key_pairs);
    ota_pairs_across(&r->problem.keys, h->batch, h->key_head, 0, r->keys, workspace->keys_right);
}

/* A block of rows; `first` is even. */
void ota_tile_pack_pair_rows(const tile_head *h, int64_t first, int64_t rows) {
    const ota_cpu_device *device = h->run->device;
    const ota_array *queries = &device->resolved->problem.queries,
                    *upstream = &h->run->want->out_grad;
    const int64_t width = device->resolved->width, values = device->values_width;
    ota_tile_workspace *workspace = h->workspace;
    ota_pairs_of_rows(queries, h->batch, h->head, first, rows,
                      workspace->queries_left + first * ((width + 1) / 2));
    ota_pairs_across(queries, h->batch, h->head, first, rows,
                     workspace->queries_right + first / 2 * width);
    ota_pairs_of_rows(upstream, h->batch, h->head, first, rows,
                      workspace->upstream_left + first * ((values + 1) / 2));
    ota_pairs_across(upstream, h->batch, h->head, first, rows,
                     workspace->upstream_right + first / 2 * values);
}

/* The block of rows from `at` on; `block` is of f32, the only type whose heads are paired. */
void ota_tile_gradient_of_pairs(const tile_head *h, const void *block, int64_t at) {
    const ota_cpu_device *device = h->run->device;
    const ota_tile_workspace *workspace = h->workspace;
    const int64_t width = device->resolved->width, values = device->values_width;
    const int64_t depth = (width + 1) / 2, values_depth = (values + 1) / 2;
    ota_kernels_bf16_gradient pairs;
    memcpy(&pairs.block, block, sizeof pairs.block);
    const int64_t from = pairs.block.first;
    pairs.queries = workspace->queries_left + at * depth;
    pairs.upstream = workspace->upstream_left + at * values_depth;
    pairs.packed_keys = h->packed->key_pairs + from * depth;
    pairs.packed_values = workspace->value_panels + from * values_depth;
    pairs.queries_right = workspace->queries_right + at / 2 * width;
    pairs.upstream_right = workspace->upstream_right + at / 2 * values;
    pairs.keys_right = workspace->keys_right + from / 2 * width;
    device->kernels->bf16->gradient(&pairs);
}

/* ---- memory ----------------------------------------------------------------------------------- */

/* Few enough that a unit is worth a thread's while, enough for the threads of a workstation. */
static int64_t cuts_of(const ota_resolved *r) {
    enum { MOST_CUTS = 16, LEAST_ROWS = 2 * OTA_ROW_BLOCK };
    return ota_int_max(
        1, ota_int_min(MOST_CUTS, ota_int_min(r->queries / LEAST_ROWS, r->keys / OTA_KEY_TILE)));
}

static void take_workspace(ota_cpu_device *device, ota_tile_workspace *workspace, int64_t cuts,
                           bool coupled) {
    const ota_resolved *r = device->resolved;
    ota_arena *a = device->arena;
    const size_t real = ota_device_real(device), number = sizeof(double);
    const int64_t n = r->queries, m = r->keys, width = r->width, values = device->values_width;
    workspace->queries = ota_arena_take_rows(a, n, width, real);
    workspace->upstream = ota_arena_take_rows(a, n, values, real);
    workspace->shift = ota_arena_take(a, (size_t)n, real);
    workspace->advantage = ota_arena_take(a, (size_t)n, real);
    workspace->begin = ota_arena_take(a, (size_t)n, sizeof *workspace->begin);
    workspace->end = ota_arena_take(a, (size_t)n, sizeof *workspace->end);
    ota_take_head_masks(a, r, real, &workspace->masks);
    workspace->queries_sum = ota_arena_take_rows(a, n, width, number);
    workspace->queries_part = ota_arena_take_rows(a, n, width, real);
    workspace->keys_part = ota_arena_take_rows(a, m, width, real);
    workspace->values_part = ota_arena_take_rows(a, m, values, real);
    workspace->query_pieces = ota_arena_take(a, (size_t)cuts, sizeof *workspace->query_pieces);
    workspace->key_tiles =
        ota_arena_take(a, (size_t)ota_int_ceil_div(m, OTA_KEY_TILE), sizeof *workspace->key_tiles);
    if (device->strategy == OTA_STRATEGY_FUSED_PAIRS) {
        const size_t pair = sizeof(uint32_t);
        const int64_t depth = (width + 1) / 2, values_depth = (values + 1) / 2;
        workspace->queries_left = ota_arena_take_rows(a, n, depth, pair);
        workspace->upstream_left = ota_arena_take_rows(a, n, values_depth, pair);
        workspace->queries_right = ota_arena_take_rows(a, (n + 1) / 2, width, pair);
        workspace->upstream_right = ota_arena_take_rows(a, (n + 1) / 2, values, pair);
        workspace->keys_right = ota_arena_take_rows(a, (m + 1) / 2, width, pair);
        workspace->value_panels =
            ota_arena_take(a, (size_t)ota_packed_length(m, values_depth), pair);
    }
    if (coupled) {
        workspace->key_advantage = ota_arena_take(a, (size_t)m, real);
        return;
    }
    workspace->keys = ota_arena_take_rows(a, m, width, real);
    workspace->packed_values = ota_arena_take(a, (size_t)ota_packed_length(m, values), real);
    workspace->keys_sum = ota_arena_take_rows(a, m, width, number);
    workspace->values_sum = ota_arena_take_rows(a, m, values, number);
}

static void take_worker(ota_cpu_device *device, ota_tile_worker *w) {
    w->scratch =
        ota_arena_take(device->arena,
                       (size_t)OTA_GRADIENT_SCRATCH +
                           (device->strategy == OTA_STRATEGY_FUSED_PAIRS ? OTA_PAIRS_GRADIENT : 0),
                       ota_device_real(device));
}

struct ota_tile_space *ota_tiles_lay_out(ota_cpu_device *device, ota_arena *a, int head_workers) {
    const bool placed = a->base != NULL;
    const size_t workers = (size_t)device->worker_count;
    const ota_resolved *r = device->resolved;
    const bool coupled = ota_device_is_coupled(device) && !device->transposed && !r->from_matrix &&
                         ota_regulariser_of(&r->problem)->exponential && !r->settings.stop.fixed &&
                         ota_column_rule_of(r->problem.columns)->coupling != OTA_COUPLING_LEADING;
    if (!ota_device_is_fused(device) && !coupled) return NULL;
    struct ota_tile_space *space = ota_arena_take(a, 1, sizeof *space);
    ota_tile_workspace *workspaces = ota_arena_take(a, workers, sizeof *workspaces);
    ota_tile_worker *scratch = ota_arena_take(a, workers, sizeof *scratch);
    const int64_t cuts = cuts_of(device->resolved);
    const int64_t workspace_count =
        coupled ? head_workers : ota_int_min(device->worker_count, device->packed_count);
    for (int64_t k = 0; k < workspace_count; k++) {
        ota_tile_workspace workspace = {0};
        take_workspace(device, &workspace, cuts, coupled);
        if (placed) workspaces[k] = workspace;
    }
    for (int k = 0; k < device->worker_count; k++) {
        ota_tile_worker worker = {0};
        take_worker(device, &worker);
        if (placed) scratch[k] = worker;
    }
    if (placed) *space = (struct ota_tile_space){cuts, workspaces, scratch};
    return space;
}

/* ---- running ---------------------------------------------------------------------------------- */

bool ota_tiles_fit(const ota_backward_job *job) {
    const ota_cpu_device *device = job->device;
    const ota_gradients *want = job->want;
    const ota_resolved *r = device->resolved;
    const ota_array *const others[] = {&want->coupling_grad, &want->scores, &want->temperature};
    if (job->space->own->tiles == NULL || r->width == 0 || device->values_width == 0) return false;
    if (!ota_array_present(&want->out_grad) || r->problem.dropout > 0.0) return false;
    for (size_t k = 0; k < sizeof others / sizeof others[0]; k++) {
        if (ota_array_present(others[k])) return false;
    }
    for (int t = 0; t < r->term_count; t++) {
        if (ota_term_form_of(&r->terms[t]) == OTA_FORM_SOFTCAP ||
            ota_gradient_of_term(r, want, t) != NULL)
            return false;
    }
    return !r->has_sink || ota_gradient_of_term(r, want, r->term_count) == NULL;
}

static void put_sum(const ota_array *to, int64_t batch, int64_t head, const double *sum) {
    if (ota_array_present(to))
        ota_unpack_rows_f64(to, batch, head, 0, to->size[2], sum, to->size[3]);
}

static void clear(double *sum, int64_t rows, int64_t width) {
    memset(sum, 0, (size_t)(rows * width) * sizeof *sum);
}

static void run_query_head(tile_head *h, ota_gradient_task *rows) {
    const ota_cpu_device *device = h->run->device;
    const ota_resolved *r = device->resolved;
    const int64_t cuts = h->run->space->cuts;
    h->tau = ota_head_temperature(r, h->head);
    h->sink = ota_head_sink(r, h->head);
    h->rate = r->scale / h->tau;
    for (int64_t piece = 0; piece < cuts; piece++)
        h->workspace->query_pieces[piece] = (ota_tile_part){0};
    for (int64_t tile = 0; tile < ota_int_ceil_div(r->keys, OTA_KEY_TILE); tile++)
        h->workspace->key_tiles[tile] = (ota_tile_part){.folded = !h->alone};
    h->workspace->masks.head = -1;
    ota_head_masks *masks = &h->workspace->masks;
    if (h->wide)
        ota_find_head_masks_f64(device->kernels->f64, r, h->batch, h->head, r->keys, masks);
    else
        ota_find_head_masks_f32(device->kernels->f32, r, h->batch, h->head, r->keys, masks);
    tasks_of(h->wide)->place_rows(h);
    ota_parallel(device->pool, cuts, rows, h);
    for (h->step = 0; h->step < cuts; h->step++)
        ota_parallel(device->pool, cuts, tasks_of(h->wide)->unit, h);
    ota_parallel(device->pool, cuts, tasks_of(h->wide)->finish_queries, h);
    ota_parallel(device->pool, cuts, tasks_of(h->wide)->finish_keys, h);
}

static void run_key_head(tile_run *run, int64_t index, int workspace) {
    ota_cpu_device *device = run->device;
    const ota_resolved *r = device->resolved;
    const int64_t group = r->heads / r->key_heads;
    tile_head h = {.run = run,
                   .workspace = &run->space->workspaces[workspace],
                   .packed = &device->packed_heads[workspace],
                   .batch = index / r->key_heads,
                   .key_head = index % r->key_heads,
                   .wide = ota_device_is_wide(device),
                   .alone = group == 1};
    h.paired = wants_pairs(run, h.batch, h.key_head);
    tasks_of(h.wide)->place_keys(&h);
    ota_parallel(device->pool, 2, tasks_of(ota_device_is_wide(device))->pack, &h);
    if (!h.alone) {
        clear(h.workspace->keys_sum, r->keys, r->width);
        clear(h.workspace->values_sum, r->keys, device->values_width);
    }
    for (int64_t k = 0; k < group && ota_interrupted(&r->settings) == OTA_OK; k++) {
        h.head = h.key_head * group + k;
        run_query_head(&h, tasks_of(ota_device_is_wide(device))->rows);
    }
    if (h.alone) return;
    put_sum(&run->want->keys, h.batch, h.key_head, h.workspace->keys_sum);
    put_sum(&run->want->values, h.batch, h.key_head, h.workspace->values_sum);
}

static void head_task(void *context, int64_t index, int worker) {
    run_key_head(context, index, worker);
}

void ota_tiles_run_coupled(ota_backward_job *job) {
    const ota_gradient_scratch *own = job->space->own;
    tile_run run = {.job = job,
                    .device = job->device,
                    .arrays = job->arrays,
                    .want = job->want,
                    .space = own->tiles};
    ota_tile_workspace workspace = own->tiles->workspaces[job->space->head_worker];
    workspace.keys = own->keys;
    workspace.packed_values = own->packed_values;
    workspace.keys_sum = own->keys_sum;
    workspace.values_sum = own->values_sum;
    tile_head h = {.run = &run,
                   .workspace = &workspace,
                   .packed = packed_of(job),
                   .batch = job->batch,
                   .key_head = job->key_head,
                   .head = job->head,
                   .wide = job->state.wide,
                   .keys = workspace.keys,
                   .job = job};
    run_query_head(&h, tasks_of(h.wide)->coupled_rows);
}

ota_status ota_tiles_run(ota_backward_job *job) {
    ota_cpu_device *device = job->device;
    const ota_resolved *r = device->resolved;
    const ota_arrays *arrays = job->arrays;
    const ota_gradients *want = job->want;
    tile_run run = {.job = job,
                    .device = device,
                    .arrays = arrays,
                    .want = want,
                    .space = job->space->own->tiles,
                    .given = want->solved && ota_array_present(&arrays->out) &&
                             ota_array_present(&arrays->lse)};
    const ota_array *const arrays_of[] = {&arrays->out, &want->out_grad, &want->queries,
                                          &want->keys, &want->values};
    run.pairs = device->strategy == OTA_STRATEGY_FUSED_PAIRS && run.given &&
                !ota_array_present(&r->problem.row_mass);
    for (size_t k = 0; k < sizeof arrays_of / sizeof arrays_of[0]; k++)
        run.pairs &= !ota_array_present(arrays_of[k]) || arrays_of[k]->type == OTA_BF16;
    const int64_t heads = r->batch * r->key_heads;
    /* Heads side by side while they fill the threads, the rest one after another in pieces. */
    const int64_t side = heads / device->worker_count * device->worker_count;
    ota_parallel(device->pool, side, head_task, &run);
    for (int64_t k = side; k < heads; k++) run_key_head(&run, k, 0);
    return ota_interrupted(&r->settings);
}
