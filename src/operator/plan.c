/* Plans: every choice and every byte of one problem, made once. Which path walks the problem, which table
 * row solves it, in which precision, with which kernels, on how many threads; describe prints it all. */
#include "plan.h"
#include "backward.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t round_up(int64_t value, int64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static bool is_coupled(const ota_plan *plan) { return plan->solver->solve != NULL; }

/* Plain rounds that start and end on rows, a fixed number or to a tolerance. */
static bool runs_on_kernel(const ota_plan *plan) {
    const ota_resolved *r = &plan->resolved;
    const ota_problem *p = &r->problem;
    const ota_settings *s = &r->settings;
    const bool plain = !(s->anneal_start > 0.0) && !(s->relaxation > 1.0 || s->relaxation < 1.0) &&
                       !s->relaxation_auto && !(s->tolerance_scaling > 0.0) &&
                       s->center == OTA_CENTER_NONE && !s->prune;
    /* Columns that never move leave softmax, bit for bit. */
    const bool idle = s->rounds <= 0 || (p->columns == OTA_COLUMNS_ELASTIC && !(p->lambda > 0.0) &&
                                         !ota_array_present(&p->lambdas));
    if (s->fixed ? idle : p->columns == OTA_COLUMNS_ELASTIC) return false;
    return (plan->solver == &ota_solver_coupled || plan->solver == &ota_solver_sinkhorn) && plain &&
           !plan->transposed && p->start == OTA_SIDE_ROWS && p->end == OTA_SIDE_ROWS &&
           p->rows == OTA_ROWS_HARD && r->order > 0.0 && !(r->order > 1.0);
}

/* Columns whose update is v = nu / c: exact ones, and elastic ones in full steps. */
static bool divides_columns(const ota_problem *p) {
    const bool full = !ota_array_present(&p->lambdas) && p->lambda >= 1.0 && p->lambda <= 1.0;
    return p->columns == OTA_COLUMNS_EXACT || (p->columns == OTA_COLUMNS_ELASTIC && full);
}

/* Small heads of the plainest kind. How many there are must not matter: a head's bits are its own. */
static bool fits_lanes(const ota_plan *plan) {
    const ota_resolved *r = &plan->resolved;
    return plan->path == OTA_PATH_ROUNDS && divides_columns(&r->problem) && !r->has_sink &&
           r->queries > 0 && r->queries <= OTA_LANES_SIDE && r->keys > 0 &&
           r->keys <= OTA_LANES_SIDE;
}

static bool is_transposed(const ota_plan *plan) { return plan->transposed; }
static bool is_online(const ota_plan *plan) {
    return plan->resolved.problem.columns == OTA_COLUMNS_ONLINE;
}
static bool is_dropped(const ota_plan *plan) { return plan->resolved.problem.dropout > 0.0; }
static bool is_softmax_of_queries(const ota_plan *plan) {
    return plan->solver == &ota_solver_softmax && !plan->resolved.from_matrix;
}
static bool is_decode(const ota_plan *plan) {
    const ota_resolved *r = &plan->resolved;
    return is_softmax_of_queries(plan) && r->queries <= OTA_FEW_QUERIES && !r->settings.gradients;
}
/* Backward packs; dropped weights are told from unused values by what packing found. */
static bool reads_in_place(const ota_plan *plan) {
    const ota_resolved *r = &plan->resolved;
    return (plan->path == OTA_PATH_BLOCKS || plan->path == OTA_PATH_ORDERED) &&
           r->queries <= OTA_FEW_QUERIES && !r->settings.gradients && !is_dropped(plan);
}
static bool is_any(const ota_plan *plan) {
    (void)plan;
    return true;
}

/* The first row that a plan fits is its path. */
static const struct path_row {
    bool (*fits)(const ota_plan *plan);
    ota_path path;
    const char *why;
} paths[] = {
    {runs_on_kernel, OTA_PATH_ROUNDS,
     "rounds read exp(scores), formed once, and the last makes the output"},
    {is_transposed, OTA_PATH_DENSE, "the transposed problem is solved on stored scores"},
    {is_coupled, OTA_PATH_DENSE, "the columns couple all rows of a head, so its scores are stored"},
    {is_online, OTA_PATH_ORDERED, "each row takes from what earlier rows left"},
    {is_dropped, OTA_PATH_BLOCKS,
     "weights are dropped from whole score rows, one block per worker"},
    {is_decode, OTA_PATH_CACHE, "few queries: keys and values are read once, where they lie"},
    {is_softmax_of_queries, OTA_PATH_FUSED,
     "rows are independent and closed-form: tiles, nothing of size queries x keys"},
    {is_any, OTA_PATH_BLOCKS, "rows are independent: one block of score rows per worker"},
};

/* Do rounds to a tolerance that only f64 certifies begin in f32? Where f32 is tried anyway they do. A kernel of
 * its own pays for scores that are only read, in heads that are not small; Sinkhorn asked for by name, and
 * pairs that are forbidden under exact or capped columns, want other rounds. */
static bool leads_narrow(const ota_plan *plan) {
    const ota_resolved *r = &plan->resolved;
    const int64_t least_pairs = 1 << 14;
    if (plan->path != OTA_PATH_ROUNDS || r->settings.fixed || !plan->wide ||
        r->settings.precision != OTA_PRECISION_AUTO || plan->solver != &ota_solver_coupled)
        return false;
    return plan->mixed || (r->from_matrix &&
                           (r->support_count == 0 || r->problem.columns == OTA_COLUMNS_RELAXED) &&
                           r->queries >= least_pairs / most(r->keys, 1));
}

/* Does f32 hold the scores of a matrix exactly, and does the solver read them so? Gradients read f64. */
static bool keeps_narrow(const ota_plan *plan) {
    const ota_resolved *r = &plan->resolved;
    return plan->solver->reads_narrow && r->from_matrix && fabs(r->scale) == 1.0 &&
           r->term_count == 0 && !plan->transposed && !r->settings.gradients;
}

static void choose_path(ota_plan *plan) {
    const ota_resolved *r = &plan->resolved;
    plan->transposed = r->problem.axis == OTA_AXIS_COLUMNS;
    const struct path_row *row = paths;
    while (!row->fits(plan)) row++;
    plan->path = row->path;
    plan->stored_solver =
        plan->path == OTA_PATH_ROUNDS && r->settings.fixed ? &ota_solver_log : plan->solver;
    plan->wide = r->type == OTA_F64;
    /* Fixed rounds from queries and keys need f64 potentials only, which they have. To a tolerance f32
     * may be too coarse, and the matrix of a caller may hold differences that it does not carry. */
    plan->mixed = plan->path == OTA_PATH_ROUNDS && !plan->wide &&
                  r->settings.precision == OTA_PRECISION_AUTO &&
                  (!r->settings.fixed || r->from_matrix);
    if (plan->mixed) plan->wide = true;
    plan->leads = leads_narrow(plan);
    if (plan->path == OTA_PATH_DENSE && is_coupled(plan) && !plan->wide) {
        plan->promoted = plan->solver->wide || r->settings.precision != OTA_PRECISION_F32;
        plan->wide = plan->promoted;
        plan->narrow = plan->promoted && keeps_narrow(plan);
    } else if (r->settings.precision == OTA_PRECISION_F64 && !plan->wide) {
        plan->promoted = plan->wide = true;
    }
    (void)snprintf(plan->why, sizeof plan->why, "%s", row->why);
}

/* Are rows solved as lists of keys? */
static bool keeps_lists(const ota_plan *plan) {
    const ota_resolved *r = &plan->resolved;
    /* Dropout walks whole rows. */
    return plan->solver == &ota_solver_entmax && plan->path == OTA_PATH_BLOCKS &&
           r->keys < INT32_MAX && !(r->problem.dropout > 0.0);
}

static void take_matrix(ota_arena *a, int64_t rows, int64_t stride, size_t bytes, void **to) {
    size_t row_bytes;
    if (!ota_size_mul((size_t)stride, bytes, &row_bytes))
        a->overflowed = true;
    else
        *to = ota_arena_take(a, (size_t)rows, row_bytes);
}

static void take_worker(ota_plan *plan, ota_worker *w) {
    const ota_resolved *r = &plan->resolved;
    const size_t real = ota_plan_real(plan);
    ota_arena *a = &plan->arena;
    const size_t width = (size_t)r->width, values = (size_t)plan->values_width;
    w->queries = ota_arena_take(a, OTA_ROW_BLOCK * (width + 1), real);
    w->out = ota_arena_take(a, OTA_ROW_BLOCK * (values + 1), real);
    w->mass = ota_arena_take(a, OTA_ROW_BLOCK, real);
    w->top = ota_arena_take(a, OTA_ROW_BLOCK, real);
    w->sum = ota_arena_take(a, OTA_ROW_BLOCK, real);
    w->scores = ota_arena_take(a, (size_t)plan->stride, OTA_BLOCK_ROWS * real);
    if (plan->path == OTA_PATH_FUSED)
        w->attend = ota_arena_take(
            a,
            (size_t)(ota_attend_scratch(plan->values_width) + (plan->pairs ? OTA_PAIRS_ATTEND : 0)),
            real);
    if (keeps_lists(plan)) {
        const size_t room = (size_t)plan->stride + OTA_KEEP_ROOM;
        w->keys.kept = ota_arena_take(a, room, real);
        w->keys.where = ota_arena_take(a, room, sizeof(int32_t));
        w->keys.wide = ota_arena_take(a, room, sizeof(double));
    }
    if (plan->streamed) take_matrix(a, OTA_ROW_BLOCK, plan->dense_stride, real, &w->block);
    if (plan->path == OTA_PATH_CACHE || plan->in_place)
        w->strip = ota_arena_take(a, (size_t)most(r->width, plan->values_width), OTA_PANEL * real);
    if (plan->path == OTA_PATH_ORDERED) {
        w->row = ota_arena_take(a, (size_t)plan->stride, sizeof(double));
        w->room = ota_arena_take(a, (size_t)plan->stride, sizeof(double));
    }
}

static void take_rounds(ota_plan *plan, ota_seat *seat) {
    const ota_resolved *r = &plan->resolved;
    ota_arena *a = &plan->arena;
    const size_t rows = (size_t)plan->dense_rows, stride = (size_t)plan->dense_stride;
    double **row_vectors[] = {&seat->u, &seat->shift, &seat->sinks};
    double **column_vectors[] = {&seat->target, &seat->sums, &seat->scaling, &seat->absorbed};
    for (size_t k = 0; k < sizeof row_vectors / sizeof row_vectors[0]; k++)
        *row_vectors[k] = ota_arena_take(a, rows, sizeof(double));
    for (size_t k = 0; k < sizeof column_vectors / sizeof column_vectors[0]; k++)
        *column_vectors[k] = ota_arena_take(a, stride, sizeof(double));
    seat->line = ota_arena_take(a, stride, ota_plan_real(plan));
    seat->surveys = ota_arena_take(a, OTA_CHUNKS, sizeof *seat->surveys);
    void *parts = NULL, *history = NULL;
    if (!r->settings.fixed)
        take_matrix(a, OTA_ANDERSON_VECTORS + 1, plan->dense_stride, sizeof(double), &history);
    seat->history = history;
    take_matrix(a, OTA_CHUNKS, plan->dense_stride, sizeof(double), &parts);
    seat->parts = parts;
    if (!r->row_terms && r->support_count == 0) return;
    take_matrix(a, OTA_CHUNKS, plan->dense_stride, ota_plan_real(plan), &seat->tops);
    seat->used = ota_arena_take(a, stride, 1);
}

static void take_lanes(ota_plan *plan, ota_lanes *lanes) {
    const size_t rows = (size_t)plan->dense_rows, columns = (size_t)plan->dense_columns;
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
        *parts[k].to = ota_arena_take(&plan->arena, parts[k].vectors, OTA_LANES_BYTES);
    lanes->heads = ota_arena_take(&plan->arena, (rows * columns + 15) / 16 * 16, OTA_LANES_BYTES);
    const size_t wide = OTA_LANES_MOST * sizeof(double);
    lanes->wanted = ota_arena_take(&plan->arena, columns, wide);
    lanes->row_sums = ota_arena_take(&plan->arena, rows, wide);
    lanes->column_sums = ota_arena_take(&plan->arena, columns, wide);
}

static void take_seat(ota_plan *plan, ota_seat *seat) {
    const ota_resolved *r = &plan->resolved;
    ota_arena *a = &plan->arena;
    void *plan_matrix = NULL;
    if (!plan->streamed)
        take_matrix(a, plan->dense_rows, plan->dense_stride, ota_plan_score(plan), &seat->scores);
    const bool wants_plan = is_coupled(plan) && (plan->solver->needs_plan || r->settings.prune);
    if (wants_plan)
        take_matrix(a, plan->dense_rows, plan->dense_stride, sizeof(double), &plan_matrix);
    seat->plan = plan_matrix;
    if (plan->transposed) {
        take_matrix(a, r->queries, plan->stride, ota_plan_real(plan), &seat->weights);
        take_matrix(a, 1, plan->dense_stride, ota_plan_real(plan), &seat->line);
    }
    seat->f = ota_arena_take(a, (size_t)plan->dense_rows, sizeof(double));
    seat->g = ota_arena_take(a, (size_t)plan->dense_stride, sizeof(double));
    seat->mu = ota_arena_take(a, (size_t)plan->dense_rows, sizeof(double));
    seat->nu = ota_arena_take(a, (size_t)plan->dense_stride, sizeof(double));
    seat->lambdas = ota_arena_take(a, (size_t)plan->dense_stride, sizeof(double));
    seat->bias = ota_arena_take(a, (size_t)plan->dense_stride, sizeof(double));
    if (plan->path == OTA_PATH_ROUNDS) take_rounds(plan, seat);
    if (plan->lanes) take_lanes(plan, &seat->lanes);
    if (is_coupled(plan) && plan->stored_solver->workspace != NULL && !plan->streamed) {
        const size_t bytes = plan->stored_solver->workspace(
            r, plan->dense_rows, plan->dense_columns, !plan->wide || plan->narrow);
        if (bytes == SIZE_MAX)
            a->overflowed = true;
        else
            seat->workspace = ota_arena_take(a, bytes, 1);
    }
}

/* Runs twice: to measure and to place. */
static void lay_out(ota_plan *plan) {
    const ota_resolved *r = &plan->resolved;
    ota_arena *a = &plan->arena;
    const size_t real = ota_plan_real(plan);
    const bool placed = a->base != NULL;
    ota_slot *slots = ota_arena_take(a, (size_t)plan->slot_count, sizeof(ota_slot));
    ota_worker *workers = ota_arena_take(a, (size_t)plan->worker_count, sizeof(ota_worker));
    ota_seat *seats = ota_arena_take(a, (size_t)plan->seat_count, sizeof(ota_seat));
    const size_t heads = (size_t)(r->batch * r->heads);
    ota_tally *tallies = ota_arena_take(a, heads, sizeof(ota_tally));
    char(*sentences)[512] = is_coupled(plan) ? ota_arena_take(a, heads, sizeof *sentences) : NULL;
    const size_t parts = (size_t)(plan->slot_count * plan->group) * OTA_CHUNKS;
    ota_tally *block_tallies = ota_arena_take(a, parts, sizeof(ota_tally));
    const size_t pieces = plan->path == OTA_PATH_CACHE ? parts * (size_t)r->queries : 0;
    double *piece_top = ota_arena_take(a, pieces, sizeof(double));
    double *piece_sum = ota_arena_take(a, pieces, sizeof(double));
    void *piece_out = NULL;
    take_matrix(a, (int64_t)pieces, plan->values_width, real, &piece_out);
    void *receivers = NULL;
    take_matrix(a, (int64_t)parts, plan->stride, sizeof(double), &receivers);
    if (placed) {
        plan->slots = slots;
        plan->workers = workers;
        plan->seats = seats;
        plan->tallies = tallies;
        plan->sentences = sentences;
        plan->block_tallies = block_tallies;
        plan->receivers = receivers;
        plan->piece_top = piece_top;
        plan->piece_sum = piece_sum;
        plan->piece_out = piece_out;
    }
    for (int64_t k = 0; k < plan->slot_count; k++) {
        ota_slot slot = {0};
        if (plan->in_place) {
            if (placed) slots[k] = slot;
            continue;
        }
        if (!r->from_matrix)
            slot.packed_keys =
                ota_arena_take(a, (size_t)ota_packed_length(r->keys, r->width), real);
        take_matrix(a, r->keys, plan->values_width, real, &slot.values);
        if (plan->pairs) {
            void *pairs = NULL;
            slot.key_pairs = ota_arena_take(
                a, (size_t)ota_packed_length(r->keys, (r->width + 1) / 2), sizeof(uint32_t));
            take_matrix(a, (r->keys + 1) / 2, plan->values_width, sizeof(uint32_t), &pairs);
            slot.value_pairs = pairs;
        }
        slot.broken =
            ota_arena_take(a, plan->values_width > 0 ? (size_t)r->keys : 0, sizeof(int64_t));
        if (placed) slots[k] = slot;
    }
    for (int k = 0; k < plan->worker_count; k++) {
        ota_worker worker = {0};
        take_worker(plan, &worker);
        if (placed) workers[k] = worker;
    }
    for (int64_t k = 0; k < plan->seat_count; k++) {
        ota_seat seat = {0};
        take_seat(plan, &seat);
        if (placed) seats[k] = seat;
    }
    if (r->settings.gradients) ota_backward_lay_out(plan);
}

static void choose_sizes(ota_plan *plan, int threads) {
    const ota_resolved *r = &plan->resolved;
    plan->group = r->key_heads > 0 ? r->heads / r->key_heads : 1;
    plan->stride = round_up(most(r->keys, 1), 16);
    plan->dense_rows = plan->transposed ? r->keys : r->queries;
    plan->dense_columns = plan->transposed ? r->queries : r->keys;
    plan->dense_stride = round_up(most(plan->dense_columns, 1), 16);
    plan->worker_count = threads;
    const int64_t heads = r->batch * r->heads, key_heads = r->batch * r->key_heads;
    if (ota_plan_has_seats(plan)) {
        /* A worker of groups in lanes keeps its seat. */
        plan->seat_count = plan->lanes ? threads : least(heads, threads);
        plan->slot_count = plan->seat_count;
        plan->group = 1;
        return;
    }
    /* Many small key heads are packed per wave so that waves are few; a million elements each wave. */
    const int64_t elements = most(1, r->keys * (r->width + plan->values_width));
    plan->slot_count = least(key_heads, most(threads, (1 << 20) / elements));
}

static bool is_over(const ota_plan *plan) {
    const size_t limit = plan->resolved.settings.workspace_limit;
    return limit > 0 && (ota_arena_overflowed(&plan->arena) || plan->arena.used > limit);
}

static ota_status build(ota_plan *plan, ota_error *error) {
    const ota_resolved *r = &plan->resolved;
    const ota_status chosen = ota_solver_choose(r, &plan->solver, error);
    if (chosen != OTA_OK) return chosen;
    plan->kernels = ota_kernels_choose(r->settings.cpu);
    if (plan->kernels == NULL) {
        return ota_fail(error, OTA_EINVAL, "cpu", "doctor lists the levels of this machine",
                        "this machine has no '%s' kernels", r->settings.cpu);
    }
    const ota_status pooled =
        ota_pool_create(&plan->pool, r->settings.threads, r->settings.executor);
    if (pooled != OTA_OK)
        return ota_fail(error, pooled, "threads", "use fewer", "threads could not be prepared");
    choose_path(plan);
    plan->in_place = reads_in_place(plan);
    plan->lanes = fits_lanes(plan);
    choose_sizes(plan, ota_pool_threads(plan->pool));
    plan->key_count = r->keys;
    plan->pairs = plan->path == OTA_PATH_FUSED && !plan->wide && r->type == OTA_BF16 &&
                  plan->kernels->bf16 != NULL;
    plan->walker_count = ota_backward_walkers(plan);
    lay_out(plan);
    if ((plan->pairs || plan->walker_count > 1) && is_over(plan)) {
        plan->pairs = false;
        plan->walker_count = 1;
        plan->arena = (ota_arena){0};
        lay_out(plan);
    }
    if (plan->lanes && is_over(plan)) {
        plan->lanes = false;
        choose_sizes(plan, plan->worker_count);
        plan->arena = (ota_arena){0};
        lay_out(plan);
    }
    /* Backward has its slopes where forward has its scores. */
    if (plan->path == OTA_PATH_ROUNDS && is_over(plan) && !r->settings.gradients) {
        plan->streamed = true;
        (void)snprintf(plan->why, sizeof plan->why,
                       "workspace_limit leaves no room for the scores of a head: every round forms "
                       "exp(scores) again");
        plan->arena = (ota_arena){0};
        lay_out(plan);
    }
    if (ota_arena_overflowed(&plan->arena)) {
        return ota_fail(error, OTA_EOVERFLOW, "queries", "use smaller sizes",
                        "the workspace for %" PRId64 " queries and %" PRId64 " keys overflows",
                        r->queries, r->keys);
    }
    if (is_over(plan)) {
        return ota_fail(error, OTA_ELIMIT, "workspace_limit", "raise it, or use fewer threads",
                        "workspace_limit is %zu bytes but the smallest plan here needs %zu",
                        r->settings.workspace_limit, plan->arena.used);
    }
    const size_t bytes = plan->arena.used;
    const ota_status placed = ota_arena_allocate(&plan->arena);
    if (placed != OTA_OK)
        return ota_fail(error, placed, "workspace", "use smaller sizes",
                        "%zu bytes of workspace could not be had", bytes);
    lay_out(plan);
    for (int64_t k = 0; k < r->batch * r->heads; k++)
        plan->tallies[k] = (ota_tally){.result = {.status = OTA_UNSOLVED}};
    return OTA_OK;
}

ota_status ota_plan_create(ota_plan **out, const ota_problem *problem, int64_t values_width,
                           const ota_options *options, ota_error *error) {
    if (out == NULL)
        return ota_fail(error, OTA_EINVAL, "plan", "give a place for the plan", "plan is NULL");
    *out = NULL;
    if (values_width < 0 || values_width > INT64_MAX / 64) {
        return ota_fail(error, OTA_EINVAL, "values_width", "use 0 or more",
                        "values_width is %" PRId64, values_width);
    }
    ota_plan *plan = calloc(1, sizeof *plan);
    if (plan == NULL) return ota_fail(error, OTA_ENOMEM, "plan", "", "no memory for a plan");
    plan->values_width = values_width;
    ota_status status = ota_resolve(problem, options, &plan->resolved, error);
    if (status == OTA_OK) status = build(plan, error);
    if (status != OTA_OK) {
        ota_plan_free(plan);
        return status;
    }
    *out = plan;
    return OTA_OK;
}

void ota_plan_free(ota_plan *plan) {
    if (plan == NULL) return;
    ota_pool_free(plan->pool);
    ota_arena_release(&plan->arena);
    free(plan);
}

size_t ota_plan_bytes(const ota_plan *plan) { return sizeof *plan + plan->arena.used; }
const char *ota_plan_solver(const ota_plan *plan) { return plan->solver->name; }
const char *ota_plan_kernel(const ota_plan *plan) { return plan->kernels->name; }
int ota_plan_threads(const ota_plan *plan) { return plan->worker_count; }

const char *ota_kernel_name(int index) {
    const ota_kernels *kernels = ota_kernels_row(index);
    return kernels == NULL ? NULL : kernels->name;
}

ota_status ota_plan_rebind(ota_plan *plan, const ota_problem *problem, ota_error *error) {
    ota_resolved next;
    const ota_settings settings = plan->resolved.settings;
    ota_status status = ota_resolve(problem, NULL, &next, error);
    if (status == OTA_OK) status = ota_resolved_same(&plan->resolved, &next, error);
    if (status != OTA_OK) return status;
    ota_resolved_copy(&plan->resolved, &next);
    plan->resolved.settings = settings;
    return OTA_OK;
}

/* ---- describe --------------------------------------------------------------------------------- */

typedef struct text_sink {
    char *text;
    size_t size, length;
} text_sink;

__attribute__((format(printf, 2, 3))) static void line(text_sink *to, const char *format, ...) {
    char one[320];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(one, sizeof one, format, arguments);
    va_end(arguments);
    if (length < 0) return;
    if ((size_t)length >= sizeof one) length = (int)sizeof one - 1;
    if (to->text != NULL && to->length < to->size) {
        (void)snprintf(to->text + to->length, to->size - to->length, "%s", one);
    }
    to->length += (size_t)length;
}

size_t ota_plan_describe(const ota_plan *plan, char *text, size_t text_size) {
    static const char *const paths[] = {"fused tiles",   "keys in place", "row blocks",
                                        "rows in order", "stored scores", "stored kernel"};
    const char *path = plan->streamed ? "streamed kernel"
                       : plan->lanes  ? "kernels in lanes"
                                      : paths[plan->path];
    static const char *const types[] = {"none", "f64", "f32", "bf16", "f16"};
    static const char *const sides[] = {"rows", "columns"};
    const ota_resolved *r = &plan->resolved;
    const ota_problem *p = &r->problem;
    const ota_settings *s = &r->settings;
    text_sink to = {text, text_size, 0};
    char method[160];
    (void)ota_method_name(&r->problem, method, sizeof method);
    line(&to, "method: %s\n", method);
    line(&to,
         "shape: batch %" PRId64 ", heads %" PRId64 " over %" PRId64 ", queries %" PRId64
         ", keys %" PRId64 ", width %" PRId64 ", values %" PRId64 "\n",
         r->batch, r->heads, r->key_heads, r->queries, r->keys, r->width, plan->values_width);
    line(&to, "type: %s in, %s inside%s\n", types[r->type],
         plan->wide && !plan->mixed ? "f64" : "f32",
         plan->narrow     ? " (promoted, on scores in f32)"
         : plan->pairs    ? " (products of bf16 where the outputs are)"
         : plan->mixed    ? " (f64 where a head needs it)"
         : plan->leads    ? " (rounds begin in f32)"
         : plan->promoted ? " (promoted)"
                          : "");
    line(&to, "solver: %s (%s)\n", plan->solver->name, plan->solver->purpose);
    line(&to, "path: %s (%s%s)\n", path, plan->why,
         plan->in_place ? "; few queries: keys and values are read where they lie"
         : plan->lanes  ? "; small heads: one in a lane of the vectors"
                        : "");
    line(&to, "kernel: %s\n", plan->kernels->name);
    line(&to, "threads: %d%s\n", plan->worker_count,
         s->executor != NULL ? " (the caller's executor)" : "");
    line(&to, "bytes: %zu\n", ota_plan_bytes(plan));
    line(&to, "scale: %.17g\n", r->scale);
    if (ota_array_present(&r->problem.temperatures))
        line(&to, "temperature: one per head\n");
    else
        line(&to, "temperature: %.17g\n", r->problem.temperature);
    line(&to, "terms: %d%s, supports: %d, offset: %" PRId64 "\n", r->term_count,
         r->has_sink ? " and a sink" : "", r->support_count, r->offset);
    if (p->axis == OTA_AXIS_COLUMNS) line(&to, "axis: columns\n");
    if (p->start != OTA_SIDE_ROWS || p->end != OTA_SIDE_ROWS) {
        line(&to, "order: starts on %s, ends on %s\n", sides[p->start], sides[p->end]);
    }
    if (p->rows == OTA_ROWS_RELAXED) line(&to, "rows: relaxed by %.17g\n", p->row_strength);
    line(&to, "masses: rows %s, columns %s\n", ota_array_present(&p->row_mass) ? "given" : "1",
         ota_array_present(&p->column_mass) ? "given" : "by default");
    if (s->fixed)
        line(&to, "rounds: exactly %" PRId64 "\n", s->rounds);
    else
        line(&to, "tolerance: %g, max_rounds: %" PRId64 "\n", s->tolerance, s->max_rounds);
    if (s->tolerance_scaling > 0.0) line(&to, "tolerance_scaling: %g\n", s->tolerance_scaling);
    if (s->anneal_start > 0.0) {
        line(&to, "anneal: from %g by %g, %" PRId64 " rounds a stage, keeping %s\n",
             s->anneal_start, s->anneal_factor, s->anneal_rounds,
             s->anneal_keep_scaling ? "v" : "g");
    }
    if (s->relaxation_auto)
        line(&to, "relaxation: auto\n");
    else if (s->relaxation > 1.0 || s->relaxation < 1.0)
        line(&to, "relaxation: %g\n", s->relaxation);
    if (s->center != OTA_CENTER_NONE)
        line(&to, "center: %s\n", s->center == OTA_CENTER_MEAN ? "mean" : "midrange");
    line(&to, "precision: %s\n",
         s->precision == OTA_PRECISION_AUTO  ? "auto"
         : s->precision == OTA_PRECISION_F32 ? "f32"
                                             : "f64");
    line(&to, "flags:%s%s%s%s\n", s->prune ? " prune" : "",
         s->allow_partial ? " allow_partial" : "", s->strict ? " strict" : "",
         s->prune || s->allow_partial || s->strict ? "" : " none");
    if (p->dropout > 0.0) {
        line(&to, "dropout: %.17g, seed %" PRIu64 ", offset %" PRIu64 "\n", p->dropout,
             p->dropout_seed, p->dropout_offset);
    }
    if (s->gradients)
        line(&to, "backward: %s%s\n", ota_backward_describe(plan),
             plan->walker_count > 1 ? ", heads side by side" : "");
    if (s->workspace_limit > 0) line(&to, "workspace_limit: %zu\n", s->workspace_limit);
    if (s->cpu[0] != '\0') line(&to, "cpu limit: %s\n", s->cpu);
    if (s->deadline_ns != 0) line(&to, "deadline: %" PRId64 " ns\n", s->deadline_ns);
    if (s->cancel != NULL || s->progress != NULL) {
        line(&to, "callbacks:%s%s\n", s->cancel != NULL ? " cancel" : "",
             s->progress != NULL ? " progress" : "");
    }
    return to.length;
}
