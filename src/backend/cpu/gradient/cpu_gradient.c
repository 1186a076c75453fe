/* The passes of backward on the CPU: memory, and the tasks of a head spread over the threads. Rows are cut into
 * OTA_ADJOINT_CHUNKS chunks, strips or tiles that depend on shapes alone. */
#include "cpu_gradient.h"

#include <string.h>

/* ---- memory ------------------------------------------------------------------------------------- */

/* Lists may write a little past their end. */
static int64_t strip_stride(const ota_cpu_device *device) {
    return device->stride + OTA_COMPACT_ROOM;
}

static void take_strip(ota_cpu_device *device, ota_strip *strip) {
    enum { MOST_BLOCKS = 16, ELEMENTS = 1 << 20 };
    const ota_resolved *r = device->resolved;
    ota_arena *a = device->arena;
    const size_t real = ota_device_real(device);
    const int64_t stride = strip_stride(device);
    const int64_t blocks = (r->queries + OTA_BLOCK_ROWS - 1) / OTA_BLOCK_ROWS;
    const int64_t room = ota_int_max(1, ELEMENTS / (stride * OTA_BLOCK_ROWS));
    const int64_t rows =
        OTA_BLOCK_ROWS * ota_int_min(ota_int_max(1, blocks), ota_int_min(room, MOST_BLOCKS));
    strip->rows = rows;
    strip->stride = stride;
    strip->weights = ota_arena_take_rows(a, rows, stride, real);
    strip->slopes = ota_arena_take_rows(a, rows, stride, real);
    if (ota_regulariser_of(&r->problem)->thresholded)
        strip->where = ota_arena_take_rows(a, rows, stride, sizeof *strip->where);
    strip->count = ota_arena_take(a, (size_t)rows, sizeof *strip->count);
    strip->full = ota_arena_take(a, (size_t)rows, sizeof *strip->full);
    strip->low = ota_arena_take(a, (size_t)rows, sizeof *strip->low);
    strip->high = ota_arena_take(a, (size_t)rows, sizeof *strip->high);
    strip->queries = ota_arena_take_rows(a, rows, r->width, real);
    strip->upstream = ota_arena_take_rows(a, rows, device->values_width, real);
}

static void take_worker(ota_cpu_device *device, ota_backward_worker *w) {
    const ota_resolved *r = device->resolved;
    ota_arena *a = device->arena;
    const size_t real = ota_device_real(device);
    const int64_t block = OTA_BLOCK_ROWS * strip_stride(device);
    bool softcap = false;
    for (int t = 0; t < r->term_count; t++)
        softcap |= ota_term_form_of(&r->terms[t]) == OTA_FORM_SOFTCAP;
    w->scores = ota_arena_take(a, (size_t)block, real);
    w->upstream = ota_arena_take(a, (size_t)block, real);
    w->weights = ota_arena_take(a, (size_t)block, real);
    w->raw = softcap ? ota_arena_take(a, (size_t)block, real) : NULL;
    w->slope = ota_arena_take(a, (size_t)device->stride, real);
    if (ota_device_keeps_lists(device) && ota_device_is_coupled(device))
        w->where = ota_arena_take(a, (size_t)block, sizeof *w->where);
    w->product =
        ota_arena_take_rows(a, OTA_KEY_TILE, ota_int_max(r->width, device->values_width + 1), real);
    w->queries = ota_arena_take_rows(a, OTA_ROW_BLOCK, r->width + 1, real);
    w->gradients = ota_arena_take_rows(a, OTA_ROW_BLOCK, device->values_width + 1, real);
    w->line = ota_arena_take(a, (size_t)device->stride, real);
}

/* Side by side heads need no barrier between the passes of one, but a head worker's memory each: many small ones only. */
static int head_workers(const ota_cpu_device *device) {
    enum { MOST_PAIRS = 1 << 18 };
    const ota_resolved *r = device->resolved;
    const bool small = r->queries <= MOST_PAIRS / ota_int_max(1, r->keys);
    if (ota_device_is_fused(device) || !small || r->batch * r->key_heads < device->worker_count)
        return 1;
    return device->worker_count;
}

/* Plain fixed rounds of a head are reversed on the kernel that forward stores. */
static int64_t kernel_width(const ota_cpu_device *device) {
    const ota_resolved *r = device->resolved;
    const int64_t most = r->settings.ranks != NULL ? OTA_KERNEL_ROUNDS_SHARED : OTA_KERNEL_ROUNDS;
    if (!ota_device_is_on_kernel(device) || !r->settings.stop.fixed || device->values_width == 0 ||
        r->settings.stop.rounds > most || r->problem.dropout > 0.0)
        return 0;
    return device->values_width + ota_kernel_dimensions(r->settings.stop.rounds);
}

static void take_scratch(ota_cpu_device *device, ota_gradient_scratch *s) {
    const ota_resolved *r = device->resolved;
    ota_arena *a = device->arena;
    const size_t real = ota_device_real(device), number = sizeof(double);
    const int64_t m = r->keys, width = r->from_matrix ? 0 : r->width;
    s->bias = ota_arena_take(a, (size_t)device->stride, real);
    s->advantage = ota_arena_take(a, (size_t)device->stride, real);
    s->keys = ota_arena_take_rows(a, m, width, real);
    s->packed_values = ota_arena_take(a, (size_t)ota_packed_length(m, device->values_width), real);
    s->keys_sum = ota_arena_take_rows(a, m, width, number);
    s->values_sum = ota_arena_take_rows(a, m, device->values_width, number);
    take_strip(device, &s->strip);
    s->kernel_width = kernel_width(device);
    if (s->kernel_width == 0) return;
    s->kernel_rows = ota_arena_take_rows(a, s->strip.rows, s->kernel_width, real);
    s->kernel_packed = ota_arena_take(a, (size_t)ota_packed_length(m, s->kernel_width), real);
    s->kernel_sum = ota_arena_take_rows(a, m, device->values_width + 1, number);
}

static void lay_out(ota_cpu_device *device, ota_arena *a, int head_worker_count,
                    struct ota_gradient_scratch **own) {
    const bool placed = a->base != NULL;
    device->arena = a;
    ota_gradient_scratch *home = ota_arena_take(a, (size_t)head_worker_count, sizeof *home);
    const size_t threads = (size_t)device->worker_count;
    ota_backward_worker *workers = ota_arena_take(a, threads, sizeof *workers);
    for (int k = 0; k < device->worker_count; k++) {
        ota_backward_worker worker = {0};
        take_worker(device, &worker);
        if (placed) workers[k] = worker;
    }
    struct ota_tile_space *tiles = ota_tiles_lay_out(device, a, head_worker_count);
    for (int k = 0; k < head_worker_count; k++) {
        ota_gradient_scratch scratch = {.workers = workers, .tiles = tiles};
        take_scratch(device, &scratch);
        if (!placed) continue;
        home[k] = scratch;
        own[k] = &home[k];
    }
}

static ota_place_memory memory(const ota_cpu_device *device, int64_t place) {
    if (!ota_device_is_coupled(device)) return (ota_place_memory){.matrix = NULL};
    const ota_head_workspace *workspace = &device->workspaces[place];
    return (ota_place_memory){.matrix = ota_device_is_wide(device) ? workspace->scores : NULL,
                              .plan = workspace->plan,
                              .workspace = workspace->solver_memory,
                              .far = workspace->far};
}

static const char *describe(const ota_cpu_device *device) {
    if (kernel_width(device) > 0) return "unrolled, the rounds in reverse on their stored kernel";
    if (ota_device_is_coupled(device) || ota_device_is_ordered(device)) return NULL;
    if (ota_device_is_fused(device)) return "closed form, tiles recomputed";
    return device->workers[0].keys.wide != NULL ? "closed form, strips of rows, lists of keys"
                                                : "closed form, strips of rows";
}

/* ---- tasks -------------------------------------------------------------------------------------- */

static const ota_gradient_tasks *tasks_of(const ota_backward_job *job) {
    return job->state.wide ? &ota_gradient_tasks_f64 : &ota_gradient_tasks_f32;
}

static void each_chunk(ota_backward_job *job, ota_gradient_task *body) {
    ota_parallel(job->pool, OTA_ADJOINT_CHUNKS, body, job);
}

/* Blocks of rows, then tiles of keys, of one strip after another. */
static void walk_strips(ota_backward_job *job, ota_gradient_task *rows, ota_gradient_task *keys) {
    const ota_cpu_device *device = job->device;
    const ota_resolved *r = device->resolved;
    const int64_t step = job->space->own->strip.rows;
    const int64_t tiles = ota_int_ceil_div(r->keys, OTA_KEY_TILE);
    for (int64_t first = 0; first < r->queries; first += step) {
        const int64_t left = r->queries - first;
        job->strip_first = first;
        job->strip_rows = ota_int_min(left, step);
        if (ota_interrupted(&r->settings) != OTA_OK) return;
        ota_parallel(device->pool, ota_int_ceil_div(job->strip_rows, OTA_BLOCK_ROWS), rows, job);
        if (keys != NULL) ota_parallel(device->pool, tiles, keys, job);
    }
}

/* Can rows be lists of the pairs with weight? */
static bool may_list(const ota_backward_job *job) {
    const bool alone = job->mode == OTA_BACKWARD_FREE,
               coupled = job->mode == OTA_BACKWARD_IMPLICIT && job->space->listed != NULL;
    return (alone || coupled) && job->device->workers[0].keys.wide != NULL;
}

static void write_head(ota_backward_job *job) {
    const ota_resolved *r = job->resolved;
    ota_backward_space *s = job->space;
    const bool of_keys =
        ota_array_present(&job->want->keys) || ota_array_present(&job->want->values);
    job->lists = may_list(job);
    tasks_of(job)->load_advantage(job);
    for (int t = 0; t < r->term_count; t++) {
        const ota_term_sum *sum = &s->sums.terms[t];
        if (sum->length > 0)
            memset(sum->partial, 0, (size_t)(OTA_ADJOINT_CHUNKS * sum->length) * sizeof(double));
    }
    walk_strips(job, tasks_of(job)->rows, of_keys ? tasks_of(job)->keys : NULL);
}

/* f64 sums of the gradients of a tile of keys and values, rounded into the caller's arrays. */
static void put_tile(void *context, int64_t tile, int worker) {
    const ota_backward_job *job = context;
    const ota_backward_space *s = job->space;
    const int64_t keys = job->resolved->keys, from = tile * OTA_KEY_TILE;
    const int64_t count = ota_int_min(keys - from, OTA_KEY_TILE);
    const struct {
        const ota_array *to;
        const double *sum;
        int64_t width;
    } both[] = {{&job->want->keys, s->own->keys_sum, job->resolved->width},
                {&job->want->values, s->own->values_sum, job->device->values_width}};
    (void)worker;
    for (int k = 0; k < 2; k++) {
        if (!ota_array_present(both[k].to)) continue;
        ota_unpack_rows_f64(both[k].to, job->batch, job->key_head, from, count,
                            both[k].sum + from * both[k].width, both[k].width);
    }
}

static void put_keys(ota_backward_job *job) {
    const int64_t tiles = (job->resolved->keys + OTA_KEY_TILE - 1) / OTA_KEY_TILE;
    ota_parallel(job->pool, tiles, put_tile, job);
}

static void pack_head(ota_backward_job *job) { tasks_of(job)->pack_head(job); }
static void load_bias(ota_backward_job *job) { tasks_of(job)->load_bias(job); }
static void mark_top(ota_backward_job *job) { each_chunk(job, tasks_of(job)->top); }
static void reverse_online(ota_backward_job *job) {
    tasks_of(job)->replay_online(job);
    tasks_of(job)->reverse_online(job);
}
static void slopes(ota_backward_job *job) {
    job->lists = may_list(job);
    each_chunk(job, tasks_of(job)->slopes);
}
static void transposed_right(ota_backward_job *job) { each_chunk(job, tasks_of(job)->transposed); }
static double recentre(ota_backward_job *job, double scale) {
    return tasks_of(job)->recentre(job, scale);
}
static void load_pairs(ota_backward_job *job, const ota_pair_lines *to) {
    ota_pair_load load = {job, to};
    ota_parallel(job->pool, to->count, tasks_of(job)->load_pairs, &load);
}
static void widen(ota_backward_job *job) { each_chunk(job, tasks_of(job)->widen); }

static bool has_nonfinite_values(const ota_backward_job *job) {
    return packed_of(job)->nonfinite_count > 0;
}

static void mark_nonfinite_rows(ota_backward_job *job) {
    const ota_cpu_device *device = job->device;
    const ota_packed_kv *packed = packed_of(job);
    for (int64_t i = 0; i < job->resolved->queries; i++) {
        for (int64_t k = 0; k < packed->nonfinite_count; k++) {
            const double p =
                workspace_of(job)->plan[i * device->dense_stride + packed->nonfinite_keys[k]];
            if (p > 0.0) job->space->bad[i] = true;
        }
    }
}

/* ---- fixed rounds on their kernel --------------------------------------------------------------- */

static int lift_of(const ota_backward_job *job) {
    return job->state.wide ? OTA_LIFT_F64 : OTA_LIFT_F32;
}

static void kernel_form(ota_backward_job *job) { each_chunk(job, tasks_of(job)->form_kernel); }
static void kernel_row_round(ota_backward_job *job) { each_chunk(job, tasks_of(job)->row_round); }

static void kernel_reverse(ota_backward_job *job) {
    ota_backward_space *s = job->space;
    const double lowered = ldexp(1.0, -lift_of(job));
    for (int64_t i = 0; i < job->resolved->queries; i++) s->a[i] *= lowered;
    each_chunk(job, tasks_of(job)->reverse);
    double *sums = s->kernel.column_sums;
    for (int64_t c = 0; c < OTA_ADJOINT_CHUNKS; c++, sums += s->lane) {
        for (int64_t j = 0; j < job->resolved->keys; j++) sums[j] *= lowered;
    }
}

static void kernel_last(ota_backward_job *job) {
    const ota_gradient_tasks *tasks = tasks_of(job);
    const int64_t sums = job->resolved->keys * (job->device->values_width + 1);
    /* The first strip clears them, where there is one. */
    if (job->resolved->queries == 0)
        memset(job->space->own->kernel_sum, 0, (size_t)sums * sizeof(double));
    walk_strips(job, tasks->advantages, tasks->last_keys);
    tasks->last_gradients(job);
}

static void kernel_column(ota_backward_job *job, const double *from, double scale) {
    tasks_of(job)->load_kernel_column(job, from, scale);
}

static void kernel_close(ota_backward_job *job) {
    const ota_gradient_scratch *own = job->space->own;
    const int64_t width = job->values_width;
    tasks_of(job)->pack_dimensions(job);
    for (int64_t k = 0; k < job->resolved->keys; k++) {
        for (int64_t w = 0; w < width; w++)
            own->values_sum[k * width + w] += own->kernel_sum[k * (width + 1) + w];
    }
}

const ota_gradient_passes ota_cpu_gradient = {
    .head_workers = head_workers,
    .lay_out = lay_out,
    .kernel_width = kernel_width,
    .memory = memory,
    .describe = describe,
    .tiles_fit = ota_tiles_fit,
    .run_tiles = ota_tiles_run,
    .run_coupled_tiles = ota_tiles_run_coupled,
    .pack_head = pack_head,
    .has_nonfinite_values = has_nonfinite_values,
    .mark_nonfinite_rows = mark_nonfinite_rows,
    .load_bias = load_bias,
    .write = write_head,
    .put_keys = put_keys,
    .mark_top = mark_top,
    .reverse_online = reverse_online,
    .slopes = slopes,
    .transposed_right = transposed_right,
    .recentre = recentre,
    .load_pairs = load_pairs,
    .widen = widen,
    .kernel_form = kernel_form,
    .kernel_row_round = kernel_row_round,
    .kernel_reverse = kernel_reverse,
    .kernel_last = kernel_last,
    .kernel_column = kernel_column,
    .kernel_close = kernel_close,
};
