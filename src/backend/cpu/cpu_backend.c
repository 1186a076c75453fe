/* The CPU backend: its row of the table of backends, and what its strategies share whatever their type. */
#include <math.h>
#include <string.h>

#include "forward/forward.h"
#include "forward/passes.h"
#include "gradient/cpu_gradient.h"

/* ---- coupled heads ------------------------------------------------------------------------------ */

static int64_t places(const ota_cpu_device *device) { return device->workspace_count; }

static void begin_head(ota_run *run, int64_t index, int64_t place_index, bool narrow, bool keep_g,
                       ota_head *head) {
    ota_cpu_device *device = run->device;
    const ota_resolved *r = device->resolved;
    ota_head_workspace *workspace = &device->workspaces[place_index];
    ota_head_place *place = &workspace->place;
    *head = ota_head_of(r, index);
    head->backend = &ota_cpu_backend;
    head->host.algebra = &device->algebra;
    head->host.kernels = device->kernels;
    head->host.pool = device->pool;
    head->rows = device->dense_rows;
    head->columns = device->dense_columns;
    head->scores.narrow = narrow || device->ladder == OTA_LADDER_F64_ON_F32;
    head->scores.data = workspace->scores;
    head->scores.stride = device->dense_stride;
    head->mu = workspace->mu;
    head->nu = workspace->nu;
    head->column.lambdas = ota_array_present(&r->problem.lambdas) ? workspace->lambdas : NULL;
    head->host.workspace = workspace->solver_memory;
    head->host.report = r->settings.calls.progress != NULL ? ota_run_report_progress : NULL;
    head->host.report_context = run;
    head->host.place = place;
    head->kernel = (ota_kernel_state){.target = workspace->target,
                                      .sum = workspace->sums,
                                      .scaling = workspace->scaling,
                                      .absorbed = workspace->absorbed,
                                      .used = workspace->used,
                                      .history = workspace->history,
                                      .u = workspace->u};
    head->f = workspace->f;
    head->g = workspace->g;
    head->found.plan = workspace->plan;
    head->scores.far = workspace->far;
    *place = (ota_head_place){.run = {.run = run, .device = device, .arrays = run->arrays},
                              .workspace = workspace,
                              .packed = &device->packed_heads[place_index],
                              .head = head,
                              .batch = index / r->heads,
                              .number = index % r->heads,
                              .index = place_index};
    for (int64_t j = 0; j < device->dense_columns && !keep_g; j++) head->g[j] = 0.0;
}

/* Is T float for this head? Scores may be float where T is double. */
static bool is_narrow(const ota_head *head) {
    const ota_head_place *place = head->host.place;
    return head->scores.narrow && place->run.device->ladder != OTA_LADDER_F64_ON_F32;
}

static bool pays_warm_start(const ota_head *head) { return ota_pays_warm_start_f32(head); }

static void pack(ota_head *head) {
    if (is_narrow(head))
        ota_pack_head_f32(head);
    else
        ota_pack_head_f64(head);
}

static void kernel_round(ota_head *head, bool form) {
    if (is_narrow(head))
        ota_kernel_round_f32(head, form);
    else
        ota_kernel_round_f64(head, form);
}

static void allot(ota_head *head) {
    ota_head_place *place = head->host.place;
    for (int64_t j = 0; j < head->columns; j++)
        place->workspace->nu[j] = !head->kernel.masked || head->kernel.used[j] != 0 ? 1.0 : 0.0;
    ota_allot_columns(place, head->mass);
}

static double kernel_floor(const ota_head *head) {
    return is_narrow(head) ? ota_kernel_floor_f32(head) : ota_kernel_floor_f64(head);
}

static bool kernel_emit(ota_head *head) {
    return is_narrow(head) ? ota_kernel_emit_f32(head) : ota_kernel_emit_f64(head);
}

static bool load(ota_head *head) {
    bool finite = true;
    pack(head);
    if (head->scores.narrow)
        ota_load_scores_f32(head, &finite);
    else
        ota_load_scores_f64(head, &finite);
    return finite;
}

static void emit(ota_head *head) {
    if (is_narrow(head))
        ota_emit_scores_f32(head);
    else
        ota_emit_scores_f64(head);
}

static void gather(ota_head *head) {
    ota_head_place *place = head->host.place;
    ota_gather_chunks(&place->run, place->index, place->batch, place->number);
}

/* ---- rows and small heads ----------------------------------------------------------------------- */

static void run_rows(ota_run *run) {
    if (ota_device_is_wide(run->device))
        ota_run_rows_f64(run);
    else
        ota_run_rows_f32(run);
}

static bool small_in_f32(const ota_cpu_device *device) {
    return device->ladder == OTA_LADDER_F32 || ota_ladder_tries_f32(device->ladder);
}

/* Rounds from given potentials are run head by head. */
static int64_t small_heads(const ota_run *run) {
    const ota_cpu_device *device = run->device;
    if (device->strategy != OTA_STRATEGY_LANES || ota_array_present(&run->arrays->start_potential))
        return 0;
    return small_in_f32(device) ? device->kernels->f32->lanes : device->kernels->f64->lanes;
}

static void run_small(ota_run *run, int64_t batch, int64_t place, bool *left) {
    if (small_in_f32(run->device))
        ota_run_small_f32(run, batch, place, left);
    else
        ota_run_small_f64(run, batch, place, left);
}

/* ---- the row ------------------------------------------------------------------------------------ */

static const char *level(int index) {
    const ota_kernels *kernels = ota_kernels_row(index);
    return kernels == NULL ? NULL : kernels->name;
}

const ota_backend ota_cpu_backend = {
    .name = "cpu",
    .level = level,
    .create = ota_cpu_create,
    .lay_out = ota_cpu_lay_out,
    .shrink = ota_cpu_shrink,
    .strategy = ota_cpu_strategy_of,
    .set_key_count = ota_cpu_set_key_count,
    .close = ota_cpu_close,
    .run_rows = run_rows,
    .small_heads = small_heads,
    .run_small = run_small,
    .places = places,
    .begin_head = begin_head,
    .pays_warm_start = pays_warm_start,
    .pack = pack,
    .kernel_round = kernel_round,
    .allot = allot,
    .kernel_floor = kernel_floor,
    .kernel_emit = kernel_emit,
    .load = load,
    .emit = emit,
    .gather = gather,
    .lay_out_passes = ota_cpu_lay_out_passes,
    .row_pass = ota_cpu_row_pass,
    .column_pass = ota_cpu_column_pass,
    .final_pass = ota_cpu_final_pass,
    .linear_range = ota_cpu_linear_range,
    .gradient = &ota_cpu_gradient,
};
