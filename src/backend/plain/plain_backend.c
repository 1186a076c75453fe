/* The plain backend: its row of the table of backends and its device.
 *
 *     free and online   place: S_i, P_i [keys] of one row           coupled   place: S [rows][stride] of one head */
#include "plain.h"

#include <stdlib.h>

/* ---- device --------------------------------------------------------------------------------------- */

static int64_t padded(int64_t count) {
    return (count + OTA_PLAIN_LANE - 1) / OTA_PLAIN_LANE * OTA_PLAIN_LANE;
}

static ota_status create(const ota_layout *layout, ota_plain_device **out, ota_error *error) {
    const ota_resolved *r = layout->resolved;
    const int threads = ota_pool_threads(layout->pool);
    *out = NULL;
    ota_plain_device *device = calloc(1, sizeof *device);
    if (device == NULL) return ota_fail(error, OTA_ENOMEM, "plan", "", "no memory for a device");
    const bool transposed = r->problem.axis == OTA_AXIS_COLUMNS;
    const int64_t columns = transposed ? r->queries : r->keys;
    *device = (ota_plain_device){.layout = *layout,
                                 .resolved = r,
                                 .stored = layout->kind == OTA_LAYOUT_COUPLED || transposed,
                                 .transposed = transposed,
                                 .rows = transposed ? r->keys : r->queries,
                                 .columns = columns,
                                 .stride = padded(columns > 0 ? columns : 1),
                                 .key_count = r->keys,
                                 .place_count = threads};
    /* Fewer coupled heads than threads are worked on one after another. */
    if (device->stored && r->batch * r->heads < threads) device->place_count = 1;
    *out = device;
    return OTA_OK;
}

static plain_place take_place(const ota_plain_device *device, ota_arena *arena) {
    const ota_resolved *r = device->resolved;
    const ota_layout *layout = &device->layout;
    const int64_t longest = padded(r->queries > r->keys ? r->queries : r->keys);
    const ota_head_shape shape = {.backend = &ota_plain_backend,
                                  .resolved = r,
                                  .rows = device->rows,
                                  .columns = device->columns};
    plain_place at = {0};
    double **vectors[] = {&at.row,
                          &at.open,
                          &at.weights,
                          &at.room,
                          &at.receiver,
                          &at.f,
                          &at.g,
                          &at.mu,
                          &at.nu,
                          &at.lambdas,
                          &at.far.row_shift,
                          &at.far.row_top,
                          &at.far.column_shift,
                          &at.far.asked,
                          &at.far.floors};
    for (size_t k = 0; k < sizeof vectors / sizeof vectors[0]; k++)
        *vectors[k] = ota_arena_take(arena, (size_t)longest, sizeof(double));
    if (!device->stored) return at;
    at.scores = ota_arena_take_rows(arena, device->rows, device->stride, sizeof(double));
    at.far.scores = at.scores;
    if (layout->kind == OTA_LAYOUT_COUPLED && (layout->solver.needs_plan || r->settings.prune))
        at.plan = ota_arena_take_rows(arena, device->rows, device->stride, sizeof(double));
    if (device->transposed)
        at.queries_p = ota_arena_take_rows(arena, r->queries, r->keys, sizeof(double));
    at.workspace = ota_take_workspace(layout, arena, &shape);
    return at;
}

static void lay_out(ota_plain_device *device, ota_arena *arena) {
    const bool placed = arena->base != NULL;
    plain_place *places = ota_arena_take_rows(arena, 1, device->place_count, sizeof *places);
    if (placed) device->places = places;
    for (int64_t k = 0; k < device->place_count; k++) {
        const plain_place place = take_place(device, arena);
        if (placed) places[k] = place;
    }
}

static ota_strategy strategy(const ota_plain_device *device) {
    const ota_resolved *r = device->resolved;
    const bool online = r->problem.columns == OTA_COLUMNS_ONLINE;
    return (ota_strategy){.path = device->stored ? OTA_PATH_COUPLED
                                  : online       ? OTA_PATH_ORDERED
                                                 : OTA_PATH_ROWS,
                          .name = "plain loops",
                          .why = "every sum is taken as its formula is written",
                          .level = "plain",
                          .padded_keys = padded(r->keys),
                          .rows = device->rows,
                          .columns = device->columns,
                          .stride = device->stride,
                          .algebra = &ota_plain_algebra,
                          .ladder = OTA_LADDER_F64,
                          .transposed = device->transposed,
                          .stored = true};
}

static void set_key_count(ota_plain_device *device, int64_t key_count) {
    device->key_count = key_count;
}

static void close(ota_plain_device *device) { free(device); }

static int64_t places(const ota_plain_device *device) { return device->place_count; }

/* ---- the row ---------------------------------------------------------------------------------------- */

const ota_backend ota_plain_backend = {
    .name = "plain",
    .create = create,
    .lay_out = lay_out,
    .strategy = strategy,
    .set_key_count = set_key_count,
    .close = close,
    .run_rows = ota_plain_run_rows,
    .places = places,
    .begin_head = ota_plain_begin_head,
    .load = ota_plain_load,
    .emit = ota_plain_emit,
    .gather = ota_plain_gather,
    .lay_out_passes = ota_plain_lay_out_passes,
    .row_pass = ota_plain_row_pass,
    .column_pass = ota_plain_column_pass,
    .final_pass = ota_plain_final_pass,
    .gradient = &ota_plain_gradient,
};
