/* The CPU backend's device: which strategy walks a problem, in which type, and every byte it works in. */
#include "backend/cpu/scores.h"
#include "device.h"

#include <inttypes.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

/* ---- strategy ----------------------------------------------------------------------------------- */

static bool is_coupled(const ota_cpu_device *device) {
    return device->layout.kind == OTA_LAYOUT_COUPLED;
}
static bool runs_on_kernel(const ota_cpu_device *device) { return device->layout.rounds.plain; }

/* Columns whose update is v = nu / c: exact ones, and elastic ones in full steps. */
static bool divides_columns(const ota_problem *p) {
    const ota_column_rule_row *rule = ota_column_rule_of(p->columns);
    const ota_column_parameters key = ota_column_parameters_of(p);
    return ota_rule_is(rule, OTA_RULE_EQUALITY) &&
           !(ota_rule_is(rule, OTA_RULE_DAMPED) && ota_array_present(&p->lambdas)) &&
           ota_column_step_divides(rule->step(&key, 1.0));
}

/* Small heads of the plainest kind. How many there are must not matter: a head's bits are its own. */
static bool fits_lanes(const ota_cpu_device *device) {
    const ota_resolved *r = device->resolved;
    return runs_on_kernel(device) && r->settings.ranks == NULL && divides_columns(&r->problem) &&
           !(r->settings.stop.fixed && r->settings.stop.rounds > OTA_LANES_ROUNDS) &&
           !r->has_sink && r->queries > 0 && r->queries <= OTA_LANES_SIDE && r->keys > 0 &&
           r->keys <= OTA_LANES_SIDE;
}

static bool is_transposed(const ota_cpu_device *device) { return device->transposed; }
static bool is_dropped(const ota_cpu_device *device) {
    return device->resolved->problem.dropout > 0.0;
}
/* Backward packs; dropped weights are told from unused values by what packing found. */
static bool reads_in_place(const ota_cpu_device *device) {
    const ota_resolved *r = device->resolved;
    return r->queries <= OTA_FEW_QUERIES && !r->settings.gradients && !is_dropped(device);
}
static bool is_online(const ota_cpu_device *device) {
    return ota_column_rule_of(device->resolved->problem.columns)->coupling == OTA_COUPLING_ORDERED;
}
static bool is_online_in_place(const ota_cpu_device *device) {
    return is_online(device) && reads_in_place(device);
}
static bool is_softmax_of_queries(const ota_cpu_device *device) {
    return device->layout.kind == OTA_LAYOUT_SOFTMAX && !device->resolved->from_matrix;
}
static bool is_decode(const ota_cpu_device *device) {
    return is_softmax_of_queries(device) && reads_in_place(device);
}
static bool multiplies_pairs(const ota_cpu_device *device) {
    const ota_resolved *r = device->resolved;
    return is_softmax_of_queries(device) && r->type == OTA_BF16 &&
           r->settings.precision != OTA_PRECISION_F64 && device->kernels->bf16 != NULL;
}
static bool is_any(const ota_cpu_device *device) {
    (void)device;
    return true;
}

/* The first row that a device fits is its strategy; one without `fits` is come to by shrinking only. */
static const struct strategy_row {
    bool (*fits)(const ota_cpu_device *device);
    ota_cpu_strategy strategy;
    const char *why;
} strategies[] = {
    {NULL, OTA_STRATEGY_STREAMED,
     "workspace_limit leaves no room for the scores of a head: every round forms exp(scores) "
     "again"},
    {fits_lanes, OTA_STRATEGY_LANES,
     "small heads: one in a lane of the vectors, all rounds in registers"},
    {runs_on_kernel, OTA_STRATEGY_ROUNDS,
     "rounds read exp(scores), formed once, and the last makes the output"},
    {is_transposed, OTA_STRATEGY_DENSE, "the transposed problem is solved on stored scores"},
    {is_coupled, OTA_STRATEGY_DENSE,
     "the columns couple all rows of a head, so its scores are stored"},
    {is_online_in_place, OTA_STRATEGY_ORDERED_IN_PLACE,
     "few queries: keys and values are read where they lie"},
    {is_online, OTA_STRATEGY_ORDERED, "each row takes from what earlier rows left"},
    {is_dropped, OTA_STRATEGY_BLOCKS,
     "weights are dropped from whole score rows, one block per worker"},
    {is_decode, OTA_STRATEGY_CACHE, "few queries: keys and values are read once, where they lie"},
    {multiplies_pairs, OTA_STRATEGY_FUSED_PAIRS, "tiles; products of bf16 where the outputs are"},
    {is_softmax_of_queries, OTA_STRATEGY_FUSED,
     "rows are independent and closed-form: tiles, nothing of size queries x keys"},
    {reads_in_place, OTA_STRATEGY_BLOCKS_IN_PLACE,
     "few queries: keys and values are read where they lie"},
    {is_any, OTA_STRATEGY_BLOCKS, "rows are independent: one block of score rows per worker"},
};

/* What a strategy gives way to where memory is short, in the order of the steps of ota_cpu_shrink. */
static const struct {
    ota_cpu_strategy from, to;
} smaller[] = {{OTA_STRATEGY_FUSED_PAIRS, OTA_STRATEGY_FUSED},
               {OTA_STRATEGY_LANES, OTA_STRATEGY_ROUNDS},
               {OTA_STRATEGY_ROUNDS, OTA_STRATEGY_STREAMED}};

/* ---- precision ---------------------------------------------------------------------------------- */

/* Rounds are tried in f32 first. Fixed rounds from queries and keys need f64 potentials only, which they have. To a
 * tolerance f32 may be too coarse, and the matrix of a caller may hold differences that it does not carry. */
static bool tries_narrow(const ota_resolved *r) {
    return r->type != OTA_F64 && r->settings.precision == OTA_PRECISION_AUTO &&
           (!r->settings.stop.fixed || r->from_matrix);
}

/* Do rounds to a tolerance that only f64 certifies begin in f32? Where f32 is tried anyway they do. A kernel of
 * its own pays for scores that are only read, in heads that are not small; Sinkhorn asked for by name, and
 * pairs that are forbidden under exact or capped columns, want other rounds. */
static bool leads_narrow(const ota_cpu_device *device) {
    const ota_resolved *r = device->resolved;
    const ota_column_rule_row *rule = ota_column_rule_of(r->problem.columns);
    const int64_t least_pairs = 1 << 14;
    /* What one process sees of the rows must not decide. */
    if (r->settings.stop.fixed || r->settings.precision != OTA_PRECISION_AUTO ||
        !device->layout.rounds.may_switch || r->settings.ranks != NULL)
        return false;
    return tries_narrow(r) ||
           (r->type == OTA_F64 && r->from_matrix &&
            (r->support_count == 0 || !ota_rule_is(rule, OTA_RULE_CONSTRAINED)) &&
            r->queries >= least_pairs / ota_int_max(r->keys, 1));
}

/* Does f32 hold the scores of a matrix exactly, and does the solver read them so? Gradients read f64. */
static bool keeps_narrow(const ota_cpu_device *device) {
    const ota_resolved *r = device->resolved;
    return device->layout.solver.reads_narrow && r->from_matrix && fabs(r->scale) == 1.0 &&
           r->term_count == 0 && !device->transposed && !r->settings.gradients;
}

/* Rows of a coupled head as lists of keys: their steps are in f64 whatever the scores are, and find within a few steps
 * whether what f32 makes of the potentials meets the tolerance. */
static bool lists_coupled(const ota_cpu_device *device) {
    const ota_regulariser_row *rows = ota_regulariser_of(&device->resolved->problem);
    return device->layout.kind == OTA_LAYOUT_COUPLED && rows->tsallis && rows->thresholded &&
           !(rows->capped && device->resolved->problem.order > 2.0);
}

static ota_ladder ladder_of(const ota_cpu_device *device) {
    const ota_resolved *r = device->resolved;
    if (!ota_f32_carries_temperatures(r)) return OTA_LADDER_F64;
    if (ota_device_is_on_kernel(device)) {
        const bool leads = leads_narrow(device);
        if (tries_narrow(r)) return leads ? OTA_LADDER_F32_OR_WARM_F64 : OTA_LADDER_F32_THEN_F64;
        if (leads) return OTA_LADDER_F32_WARM_F64;
    }
    const double least_tolerance = 16.0 * (double)FLT_EPSILON / 2.0;
    if (lists_coupled(device) && tries_narrow(r) && !device->layout.solver.wide &&
        r->settings.ranks == NULL && r->settings.stop.tolerance >= least_tolerance)
        return OTA_LADDER_F32_THEN_F64;
    if (r->type == OTA_F64) return OTA_LADDER_F64;
    if (device->strategy != OTA_STRATEGY_DENSE || device->layout.kind != OTA_LAYOUT_COUPLED)
        return r->settings.precision == OTA_PRECISION_F64 ? OTA_LADDER_F64 : OTA_LADDER_F32;
    /* Other coupled columns are promoted unless f32 is asked for by name. */
    if (r->settings.precision == OTA_PRECISION_F32 && !device->layout.solver.wide)
        return OTA_LADDER_F32;
    return keeps_narrow(device) ? OTA_LADDER_F64_ON_F32 : OTA_LADDER_F64;
}

/* ---- memory ------------------------------------------------------------------------------------- */

bool ota_device_keeps_lists(const ota_cpu_device *device) {
    const ota_resolved *r = device->resolved;
    const ota_regulariser_row *rows = ota_regulariser_of(&r->problem);
    return ((device->layout.kind == OTA_LAYOUT_COUPLED && rows->tsallis && rows->thresholded) ||
            (device->layout.kind == OTA_LAYOUT_ENTMAX && ota_device_is_in_blocks(device))) &&
           r->keys < INT32_MAX;
}

void ota_take_head_masks(ota_arena *a, const ota_resolved *r, size_t real, ota_head_masks *masks) {
    *masks = (ota_head_masks){.head = -1};
    if (!r->row_terms) return;
    masks->flag_room = ota_arena_take(a, (size_t)r->keys, 1);
    masks->bias_room = ota_arena_take(a, (size_t)r->keys, real);
}

static void take_worker(ota_cpu_device *device, ota_worker *w) {
    const ota_resolved *r = device->resolved;
    const size_t real = ota_device_real(device);
    ota_arena *a = device->arena;
    const size_t width = (size_t)r->width, values = (size_t)device->values_width;
    w->queries = ota_arena_take(a, OTA_ROW_BLOCK * (width + 1), real);
    w->out = ota_arena_take(a, OTA_ROW_BLOCK * (values + 1), real);
    w->mass = ota_arena_take(a, OTA_ROW_BLOCK, real);
    w->top = ota_arena_take(a, OTA_ROW_BLOCK, real);
    w->sum = ota_arena_take(a, OTA_ROW_BLOCK, real);
    w->scores = ota_arena_take(a, (size_t)device->stride, OTA_BLOCK_ROWS * real);
    if (ota_device_is_fused(device)) {
        const int64_t pairs = device->strategy == OTA_STRATEGY_FUSED_PAIRS ? OTA_PAIRS_ATTEND : 0;
        w->attend =
            ota_arena_take(a, (size_t)(ota_attend_scratch(device->values_width) + pairs), real);
    }
    if (ota_device_is_fused(device) || device->strategy == OTA_STRATEGY_CACHE)
        ota_take_head_masks(a, r, real, &w->masks);
    if (ota_device_keeps_lists(device)) {
        const size_t room =
            (size_t)ota_int_max(device->stride, device->dense_stride) + OTA_COMPACT_ROOM;
        w->keys.kept = ota_arena_take(a, room, real);
        w->keys.where = ota_arena_take(a, room, sizeof(int32_t));
        w->keys.wide = ota_arena_take(a, room, sizeof(double));
        if (ota_regulariser_of(&r->problem)->capped) {
            w->keys.between = ota_arena_take(a, room, sizeof(double));
            w->keys.caps = ota_arena_take(a, room, sizeof(double));
            w->keys.full = ota_arena_take(a, room, sizeof(int32_t));
        }
    }
    if (device->strategy == OTA_STRATEGY_STREAMED)
        w->block = ota_arena_take_rows(a, OTA_ROW_BLOCK, device->dense_stride, real);
    if (device->strategy == OTA_STRATEGY_CACHE || ota_device_is_in_place(device))
        w->strip = ota_arena_take(a, (size_t)ota_int_max(r->width, device->values_width),
                                  OTA_PANEL * real);
    if (ota_device_is_ordered(device)) {
        w->row = ota_arena_take(a, (size_t)device->stride, sizeof(double));
        w->room = ota_arena_take(a, (size_t)device->stride, sizeof(double));
    }
}

static void take_rounds(ota_cpu_device *device, ota_head_workspace *workspace) {
    const ota_resolved *r = device->resolved;
    ota_arena *a = device->arena;
    const size_t rows = (size_t)device->dense_rows, stride = (size_t)device->dense_stride;
    double **row_vectors[] = {&workspace->u, &workspace->shift, &workspace->sinks};
    double **column_vectors[] = {&workspace->target, &workspace->sums, &workspace->scaling,
                                 &workspace->absorbed};
    for (size_t k = 0; k < sizeof row_vectors / sizeof row_vectors[0]; k++)
        *row_vectors[k] = ota_arena_take(a, rows, sizeof(double));
    for (size_t k = 0; k < sizeof column_vectors / sizeof column_vectors[0]; k++)
        *column_vectors[k] = ota_arena_take(a, stride, sizeof(double));
    workspace->line = ota_arena_take(a, stride, ota_device_real(device));
    workspace->score_ranges = ota_arena_take(a, OTA_CHUNKS, sizeof *workspace->score_ranges);
    void *parts = NULL, *history = NULL;
    if (!r->settings.stop.fixed)
        history =
            ota_arena_take_rows(a, OTA_ANDERSON_VECTORS + 1, device->dense_stride, sizeof(double));
    workspace->history = history;
    parts = ota_arena_take_rows(a, OTA_CHUNKS, device->dense_stride, sizeof(double));
    workspace->parts = parts;
    if (!r->row_terms && r->support_count == 0) return;
    workspace->tops =
        ota_arena_take_rows(a, OTA_CHUNKS, device->dense_stride, ota_device_real(device));
    workspace->used = ota_arena_take(a, stride, 1);
}

static void take_lanes(ota_cpu_device *device, ota_lanes *lanes) {
    const size_t rows = (size_t)device->dense_rows, columns = (size_t)device->dense_columns;
    const struct {
        void **to;
        size_t vectors;
    } parts[] = {{&lanes->matrix, rows * columns},
                 {&lanes->mass, rows},
                 {&lanes->target, columns},
                 {&lanes->shift, rows},
                 {&lanes->sum, rows},
                 {&lanes->scaling, columns},
                 {&lanes->next, columns},
                 {&lanes->c, 1},
                 {&lanes->total, 1},
                 {&lanes->slack, 1},
                 {&lanes->taken, 1}};
    for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++)
        *parts[k].to = ota_arena_take(device->arena, parts[k].vectors, OTA_LANES_BYTES);
    lanes->heads =
        ota_arena_take(device->arena, ota_size_round_up(rows * columns, 16), OTA_LANES_BYTES);
    const size_t wide = OTA_LANES_MOST * sizeof(double);
    lanes->wanted = ota_arena_take(device->arena, columns, wide);
    lanes->row_sums = ota_arena_take(device->arena, rows, wide);
    lanes->column_sums = ota_arena_take(device->arena, columns, wide);
}

static void take_workspace(ota_cpu_device *device, ota_head_workspace *workspace) {
    const ota_resolved *r = device->resolved;
    ota_arena *a = device->arena;
    void *plan_matrix = NULL;
    const bool streamed = device->strategy == OTA_STRATEGY_STREAMED;
    if (!streamed)
        workspace->scores = ota_arena_take_rows(a, device->dense_rows, device->dense_stride,
                                                ota_device_score(device));
    const bool wants_plan =
        is_coupled(device) && (device->layout.solver.needs_plan || r->settings.prune);
    if (wants_plan)
        plan_matrix =
            ota_arena_take_rows(a, device->dense_rows, device->dense_stride, sizeof(double));
    workspace->plan = plan_matrix;
    if (device->transposed) {
        workspace->weights =
            ota_arena_take_rows(a, r->queries, device->stride, ota_device_real(device));
        workspace->line = ota_arena_take_rows(a, 1, device->dense_stride, ota_device_real(device));
    }
    if (!streamed && is_coupled(device) && !r->settings.stop.fixed) {
        ota_far *far = &workspace->far;
        double **of_rows[] = {&far->row_shift, &far->row_top},
               **of_columns[] = {&far->column_shift, &far->asked, &far->floors};
        for (size_t k = 0; k < sizeof of_rows / sizeof of_rows[0]; k++)
            *of_rows[k] = ota_arena_take(a, (size_t)device->dense_rows, sizeof(double));
        for (size_t k = 0; k < sizeof of_columns / sizeof of_columns[0]; k++)
            *of_columns[k] = ota_arena_take(a, (size_t)device->dense_stride, sizeof(double));
        far->scores = workspace->scores;
    }
    workspace->f = ota_arena_take(a, (size_t)device->dense_rows, sizeof(double));
    workspace->g = ota_arena_take(a, (size_t)device->dense_stride, sizeof(double));
    workspace->mu = ota_arena_take(a, (size_t)device->dense_rows, sizeof(double));
    workspace->nu = ota_arena_take(a, (size_t)device->dense_stride, sizeof(double));
    workspace->lambdas = ota_arena_take(a, (size_t)device->dense_stride, sizeof(double));
    workspace->bias = ota_arena_take(a, (size_t)device->dense_stride, sizeof(double));
    if (ota_device_is_on_kernel(device)) take_rounds(device, workspace);
    if (device->strategy == OTA_STRATEGY_LANES) take_lanes(device, &workspace->lanes);
    const bool shared = r->settings.ranks != NULL;
    /* Rounds of rows on many processes have no other solver to go on with; the others are told which keys are in use. */
    if (streamed || (shared && runs_on_kernel(device))) return;
    if (shared) workspace->used = ota_arena_take(a, (size_t)device->dense_stride, 1);
    const ota_head_shape shape = {.backend = &ota_cpu_backend,
                                  .resolved = r,
                                  .rows = device->dense_rows,
                                  .columns = device->dense_columns,
                                  .narrow = ota_device_score(device) == sizeof(float)};
    workspace->solver_memory = ota_take_workspace(&device->layout, a, &shape);
}

static void take_packed(ota_cpu_device *device, ota_packed_kv *packed) {
    const ota_resolved *r = device->resolved;
    const size_t real = ota_device_real(device);
    ota_arena *a = device->arena;
    if (ota_device_is_in_place(device)) return;
    if (!r->from_matrix)
        packed->packed_keys = ota_arena_take(a, (size_t)ota_packed_length(r->keys, r->width), real);
    packed->value_room = ota_arena_take_rows(a, r->keys, device->values_width, real);
    if (device->strategy == OTA_STRATEGY_FUSED_PAIRS) {
        void *pairs = NULL;
        packed->key_pairs = ota_arena_take(
            a, (size_t)ota_packed_length(r->keys, (r->width + 1) / 2), sizeof(uint32_t));
        pairs = ota_arena_take_rows(a, (r->keys + 1) / 2, device->values_width, sizeof(uint32_t));
        packed->value_pairs = pairs;
    }
    packed->nonfinite_keys =
        ota_arena_take(a, device->values_width > 0 ? (size_t)r->keys : 0, sizeof(int64_t));
}

void ota_cpu_lay_out(ota_cpu_device *device, ota_arena *a) {
    const ota_resolved *r = device->resolved;
    const size_t real = ota_device_real(device);
    const bool placed = a->base != NULL;
    device->arena = a;
    ota_packed_kv *packed_heads =
        ota_arena_take(a, (size_t)device->packed_count, sizeof(ota_packed_kv));
    ota_worker *workers = ota_arena_take(a, (size_t)device->worker_count, sizeof(ota_worker));
    ota_head_workspace *workspaces =
        ota_arena_take(a, (size_t)device->workspace_count, sizeof(ota_head_workspace));
    const size_t parts = (size_t)(device->packed_count * device->group) * OTA_CHUNKS;
    ota_head_status *chunk_statuses = ota_arena_take(a, parts, sizeof(ota_head_status));
    const size_t pieces = device->strategy == OTA_STRATEGY_CACHE ? parts * (size_t)r->queries : 0;
    double *piece_top = ota_arena_take(a, pieces, sizeof(double));
    double *piece_sum = ota_arena_take(a, pieces, sizeof(double));
    void *piece_out = NULL, *receivers = NULL;
    piece_out = ota_arena_take_rows(a, (int64_t)pieces, device->values_width, real);
    receivers = ota_arena_take_rows(a, (int64_t)parts, device->stride, sizeof(double));
    if (placed) {
        device->packed_heads = packed_heads;
        device->workers = workers;
        device->workspaces = workspaces;
        device->chunk_statuses = chunk_statuses;
        device->receivers = receivers;
        device->piece_top = piece_top;
        device->piece_sum = piece_sum;
        device->piece_out = piece_out;
    }
    for (int64_t k = 0; k < device->packed_count; k++) {
        ota_packed_kv packed = {0};
        take_packed(device, &packed);
        if (placed) packed_heads[k] = packed;
    }
    for (int k = 0; k < device->worker_count; k++) {
        ota_worker worker = {0};
        take_worker(device, &worker);
        if (placed) workers[k] = worker;
    }
    for (int64_t k = 0; k < device->workspace_count; k++) {
        ota_head_workspace workspace = {0};
        take_workspace(device, &workspace);
        if (placed) workspaces[k] = workspace;
    }
}

/* ---- devices ------------------------------------------------------------------------------------ */

static void choose_sizes(ota_cpu_device *device) {
    const ota_resolved *r = device->resolved;
    const int threads = ota_pool_threads(device->pool);
    device->group = r->key_heads > 0 ? r->heads / r->key_heads : 1;
    device->stride = ota_int_round_up(ota_int_max(r->keys, 1), 16);
    device->dense_rows = device->transposed ? r->keys : r->queries;
    device->dense_columns = device->transposed ? r->queries : r->keys;
    device->dense_stride = ota_int_round_up(ota_int_max(device->dense_columns, 1), 16);
    device->worker_count = threads;
    const int64_t heads = r->batch * r->heads, key_heads = r->batch * r->key_heads;
    if (ota_device_is_coupled(device)) {
        /* A worker of groups in lanes keeps its workspace. */
        device->workspace_count =
            device->strategy == OTA_STRATEGY_LANES ? threads : ota_int_min(heads, threads);
        device->packed_count = device->workspace_count;
        device->group = 1;
        return;
    }
    /* Many small key heads are packed per wave so that waves are few; a million elements each wave. */
    const size_t width = (size_t)(r->width + device->values_width);
    size_t elements;
    if (!ota_size_mul((size_t)r->keys, width, &elements)) elements = SIZE_MAX;
    const int64_t wave = elements == 0 ? 1 << 20 : (int64_t)(((size_t)1 << 20) / elements);
    device->packed_count = ota_int_min(key_heads, ota_int_max(threads, wave));
}

static void take_strategy(ota_cpu_device *device, const struct strategy_row *row) {
    device->strategy = row->strategy;
    device->why = row->why;
    choose_sizes(device);
}

_Static_assert((int)OTA_LIST_ROOM >= (int)OTA_COMPACT_ROOM, "what a list may write");

ota_host_algebra ota_cpu_algebra(const ota_kernels *kernels) {
    const ota_kernels_f64_table *f64 = kernels->f64;
    const ota_kernels_f32_table *f32 = kernels->f32;
    return (ota_host_algebra){.sum = f64->sum,
                              .accumulate = f64->accumulate,
                              .multiply = f64->multiply,
                              .apply = f64->apply,
                              .exponentials = f64->exponentials,
                              .columns_top = f64->columns_top,
                              .columns_sum = f64->columns_sum,
                              .row_solve = ota_row_solve_f64,
                              .top_f32 = f32->maximum,
                              .top_f64 = f64->maximum,
                              .list_f32 = f32->compact,
                              .list_f64 = f64->compact,
                              .slope_weights = f64->slope_weights,
                              .row_weights = ota_row_weights_f64,
                              .row_online = ota_row_online_f64,
                              .read_rows = ota_pack_rows_f64,
                              .write_rows = ota_unpack_rows_f64,
                              .row_scores = ota_row_scores,
                              .centred_product_f32 = f32->centred_product,
                              .centred_product_f64 = f64->centred_product,
                              .slope_diagonal_f32 = f32->slope_diagonal,
                              .slope_diagonal_f64 = f64->slope_diagonal,
                              .costs = {f64->costs, f32->costs},
                              .match = f64->match};
}

ota_status ota_cpu_create(const ota_layout *layout, ota_cpu_device **out, ota_error *error) {
    const ota_resolved *r = layout->resolved;
    *out = NULL;
    const ota_kernels *kernels = ota_kernels_choose(r->settings.limits.cpu);
    if (kernels == NULL) {
        return ota_fail(error, OTA_EINVAL, "cpu", "doctor lists the levels of this machine",
                        "this machine has no '%s' kernels", r->settings.limits.cpu);
    }
    ota_cpu_device *device = calloc(1, sizeof *device);
    if (device == NULL) return ota_fail(error, OTA_ENOMEM, "plan", "", "no memory for a device");
    *device = (ota_cpu_device){.resolved = r,
                               .kernels = kernels,
                               .pool = layout->pool,
                               .values_width = layout->values_width,
                               .key_count = r->keys,
                               .layout = *layout};
    device->algebra = ota_cpu_algebra(kernels);
    device->transposed = r->problem.axis == OTA_AXIS_COLUMNS;
    const struct strategy_row *row = strategies;
    while (row->fits == NULL || !row->fits(device)) row++;
    take_strategy(device, row);
    device->ladder = ladder_of(device);
    *out = device;
    return OTA_OK;
}

bool ota_cpu_shrink(ota_cpu_device *device, int step) {
    if (step >= (int)(sizeof smaller / sizeof smaller[0]) || device->strategy != smaller[step].from)
        return false;
    /* Backward has its slopes where forward has its scores. */
    const ota_cpu_strategy to = smaller[step].to;
    if (to == OTA_STRATEGY_STREAMED && device->resolved->settings.gradients) return false;
    const struct strategy_row *row = strategies;
    while (row->strategy != to) row++;
    take_strategy(device, row);
    return true;
}

ota_strategy ota_cpu_strategy_of(const ota_cpu_device *device) {
    static const char *const names[] = {
        [OTA_STRATEGY_FUSED] = "fused tiles",
        [OTA_STRATEGY_FUSED_PAIRS] = "fused tiles",
        [OTA_STRATEGY_CACHE] = "keys in place",
        [OTA_STRATEGY_BLOCKS] = "row blocks",
        [OTA_STRATEGY_BLOCKS_IN_PLACE] = "row blocks",
        [OTA_STRATEGY_ORDERED] = "rows in order",
        [OTA_STRATEGY_ORDERED_IN_PLACE] = "rows in order",
        [OTA_STRATEGY_DENSE] = "stored scores",
        [OTA_STRATEGY_ROUNDS] = "stored kernel",
        [OTA_STRATEGY_LANES] = "kernels in lanes",
        [OTA_STRATEGY_STREAMED] = "streamed kernel",
    };
    return (ota_strategy){
        .path = ota_device_is_coupled(device)   ? OTA_PATH_COUPLED
                : ota_device_is_ordered(device) ? OTA_PATH_ORDERED
                                                : OTA_PATH_ROWS,
        .name = names[device->strategy],
        .why = device->why,
        .level = device->kernels->name,
        .ladder = device->ladder,
        .transposed = device->transposed,
        .rows = device->dense_rows,
        .columns = device->dense_columns,
        .stride = device->dense_stride,
        .padded_keys = device->stride,
        .algebra = &device->algebra,
        .kernels = device->kernels,
        .on_kernel = ota_device_is_on_kernel(device),
        .stored = device->strategy != OTA_STRATEGY_STREAMED &&
                  (device->resolved->settings.ranks == NULL || !runs_on_kernel(device))};
}

void ota_cpu_set_key_count(ota_cpu_device *device, int64_t key_count) {
    device->key_count = key_count;
}

void ota_cpu_close(ota_cpu_device *device) { free(device); }
