/* The plain backend: its row of the table of backends, its device, and the loop over heads whose rows nothing couples.
 *
 *     free and online   place: S_i, P_i [keys] of one row           coupled   place: S [rows][stride] of one head */
#include "plain.h"

#include <math.h>
#include <stdlib.h>

/* ---- device --------------------------------------------------------------------------------------- */

/* f32 where the caller's numbers are narrower than f64 and nothing asks for more: coupled heads promise residuals that
 * only f64 meets. */
static bool is_narrow(const ota_layout *layout) {
    const ota_resolved *r = layout->resolved;
    const ota_precision precision = r->settings.precision;
    if (r->type == OTA_F64 || precision == OTA_PRECISION_F64) return false;
    return !layout->coupled || (precision == OTA_PRECISION_F32 && !layout->always_wide);
}

static ota_status create(const ota_layout *layout, ota_device **out, ota_error *error) {
    const ota_resolved *r = layout->resolved;
    const int threads = ota_pool_threads(layout->pool);
    *out = NULL;
    ota_device *device = calloc(1, sizeof *device);
    if (device == NULL) return ota_fail(error, OTA_ENOMEM, "plan", "", "no memory for a device");
    const bool transposed = r->problem.axis == OTA_AXIS_COLUMNS;
    const int64_t columns = transposed ? r->queries : r->keys;
    const int64_t least = columns > 0 ? columns : 1;
    *device = (ota_device){.layout = *layout,
                           .resolved = r,
                           .narrow = is_narrow(layout),
                           .stored = layout->coupled || transposed,
                           .transposed = transposed,
                           .rows = transposed ? r->keys : r->queries,
                           .columns = columns,
                           .stride = (least + OTA_PLAIN_LANE - 1) / OTA_PLAIN_LANE * OTA_PLAIN_LANE,
                           .key_count = r->keys,
                           .place_count = threads};
    /* Fewer coupled heads than threads are worked on one after another. */
    if (device->stored && r->batch * r->heads < threads) device->place_count = 1;
    *out = device;
    return OTA_OK;
}

static plain_place take_place(const ota_device *device, ota_arena *arena) {
    const ota_resolved *r = device->resolved;
    const ota_layout *layout = &device->layout;
    const int64_t rows = device->rows, stride = device->stride;
    const int64_t longest = r->queries > r->keys ? r->queries : r->keys;
    const bool wants_plan = layout->coupled && (layout->needs_plan || r->settings.prune);
    const size_t number = sizeof(double), score = device->narrow ? sizeof(float) : number;
    plain_place place = {.row = ota_arena_take_rows(arena, 1, longest, number),
                         .open = ota_arena_take_rows(arena, 1, longest, number),
                         .weights = ota_arena_take_rows(arena, 1, longest, number),
                         .room = ota_arena_take_rows(arena, 1, r->keys, number),
                         .receiver = ota_arena_take_rows(arena, 1, r->keys, number)};
    if (!device->stored) return place;
    place.scores = ota_arena_take_rows(arena, rows, stride, score);
    if (wants_plan) place.plan = ota_arena_take_rows(arena, rows, stride, number);
    if (device->transposed)
        place.queries_p = ota_arena_take_rows(arena, r->queries, r->keys, number);
    place.f = ota_arena_take_rows(arena, 1, rows, number);
    place.mu = ota_arena_take_rows(arena, 1, rows, number);
    place.g = ota_arena_take_rows(arena, 1, stride, number);
    place.nu = ota_arena_take_rows(arena, 1, stride, number);
    place.lambdas = ota_arena_take_rows(arena, 1, stride, number);
    const ota_head_shape shape = {.backend = &ota_plain_backend,
                                  .resolved = r,
                                  .rows = rows,
                                  .columns = device->columns,
                                  .narrow = device->narrow};
    place.workspace = ota_take_workspace(layout, arena, &shape);
    return place;
}

static void lay_out(ota_device *device, ota_arena *arena) {
    const bool placed = arena->base != NULL;
    plain_place *places = ota_arena_take_rows(arena, 1, device->place_count, sizeof *places);
    if (placed) device->places = places;
    for (int64_t k = 0; k < device->place_count; k++) {
        const plain_place place = take_place(device, arena);
        if (placed) places[k] = place;
    }
}

static ota_course course(const ota_device *device) {
    const ota_resolved *r = device->resolved;
    const bool online = r->problem.columns == OTA_COLUMNS_ONLINE;
    return (ota_course){.path = device->stored ? OTA_PATH_COUPLED
                                : online       ? OTA_PATH_ORDERED
                                               : OTA_PATH_ROWS,
                        .strategy = "plain loops",
                        .why = "every sum is taken as its formula is written",
                        .level = "plain",
                        .padded_keys =
                            (r->keys + OTA_PLAIN_LANE - 1) / OTA_PLAIN_LANE * OTA_PLAIN_LANE,
                        .rows = device->rows,
                        .columns = device->columns,
                        .stride = device->stride,
                        .algebra = &ota_plain_algebra,
                        .ladder = device->narrow ? OTA_LADDER_F32 : OTA_LADDER_F64,
                        .transposed = device->transposed,
                        .stored = true};
}

static void set_key_count(ota_device *device, int64_t key_count) { device->key_count = key_count; }

static void close(ota_device *device) { free(device); }

static int64_t places(const ota_device *device) { return device->place_count; }

/* ---- rows alone and rows in order ------------------------------------------------------------------- */

/* One row: its weights, of at most the capacities left where rows take them in order. */
static void run_row(plain_place *place, int64_t i) {
    const ota_device *device = place->run->device;
    const ota_resolved *r = device->resolved;
    const ota_row_parameters row = ota_row_parameters_of(r, place->number);
    const double mu = ota_row_mass(r, place->batch, place->number, i);
    ota_row_found found;
    ota_plain_scores(device, place->batch, place->number, i, place->row);
    if (r->problem.columns == OTA_COLUMNS_ONLINE)
        ota_plain_row_online(&row, place->row, r->keys, mu, place->room, place->weights,
                             place->open, &found);
    else
        ota_plain_row_solve(&row, place->row, NULL, r->keys, mu, place->weights, &found);
    ota_plain_finish_row(place, i, mu, place->weights, &found);
}

/* Capacities: what the caller says is left, or cap times the column mass. */
static void load_room(plain_place *place) {
    const ota_resolved *r = place->run->resolved;
    const ota_array *left = &place->run->arrays->remaining;
    for (int64_t j = 0; j < r->keys; j++) {
        place->room[j] =
            ota_array_present(left)
                ? ota_array_get(left, place->batch, place->number, 0, j)
                : r->problem.cap * ota_column_mass(r, place->batch, place->number, j, 1.0);
    }
}

static void run_head(void *context, int64_t index, int worker) {
    ota_run *run = context;
    const ota_resolved *r = run->resolved;
    const ota_arrays *a = run->arrays;
    plain_place *place = &run->device->places[worker];
    const bool online = r->problem.columns == OTA_COLUMNS_ONLINE;
    double mass = 0.0;
    ota_plain_begin_rows(place, run, index);
    if (online) load_room(place);
    for (int64_t i = 0; i < r->queries; i++) {
        if (ota_run_interrupted(run)) return;
        run_row(place, i);
        mass += ota_row_mass(r, place->batch, place->number, i);
        if (online && place->sums.result.status < OTA_OK) break;
    }
    ota_plain_end_rows(place);
    for (int64_t j = 0; j < r->keys; j++) {
        ota_put(&a->column_potential, place->batch, place->number, j, 0.0);
        if (online && place->sums.result.status >= OTA_OK && j < run->device->key_count)
            ota_put(&a->remaining, place->batch, place->number, j, place->room[j]);
    }
    ota_run_settle(run, place->batch, place->number, mass);
}

static void run_rows(ota_run *run) {
    ota_parallel(run->device->layout.pool, run->resolved->batch * run->resolved->heads, run_head,
                 run);
}

/* ---- the row ---------------------------------------------------------------------------------------- */

const ota_backend ota_plain_backend = {
    .name = "plain",
    .create = create,
    .lay_out = lay_out,
    .course = course,
    .set_key_count = set_key_count,
    .close = close,
    .run_rows = run_rows,
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
