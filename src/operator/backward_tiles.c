/* Backward of softmax on free columns in tiles that are formed anew, nothing of size queries x keys kept:
 *
 *     P = exp((S - lse) / tau) mu    a_i = out_grad_i . out_i / mu_i    dS = P (U - a) / tau
 *     dV = P^T out_grad              dK = scale dS^T Q                  dQ = scale dS K
 *
 * Coupled columns whose potentials g and multipliers b are known have S + g and U - a - b instead.
 *
 * S and U = out_grad V^T are formed one tile of OTA_ROW_BLOCK x OTA_KEY_TILE at a time, five products in one pass.
 * Where the caller hands over what forward wrote there is no other pass. */
#include "backward_tiles.h"

#include <math.h>
#include <string.h>

static const double log2_e = 1.4426950408889634;

typedef struct tile_run {
    ota_plan *plan;
    const ota_arrays *arrays;
    const ota_gradients *want;
    struct ota_tile_space *space;
    bool given; /* out and lse are forward's */
    bool pairs; /* every array is bf16 and rows have mass 1: heads may be multiplied as bf16 */
} tile_run;

/* One head of a run. */
typedef struct tile_head {
    tile_run *run;
    ota_tile_seat *seat;
    ota_slot *slot;
    int64_t batch, key_head, head;
    int64_t step;
    bool paired;                 /* this head is */
    bool wide;                   /* T = double */
    bool direct;                 /* every sum has one part, which is written as it is */
    double tau, sink, rate;      /* rate = scale / tau */
    const ota_backward_job *job; /* coupled columns: their potentials and multipliers; else NULL */
    /* T [rows][width], finite: the caller's where they can be read as they lie, else the seat's */
    const void *queries, *upstream, *keys;
} tile_head;

typedef struct tile_terms {
    const ota_resolved *resolved;
    int64_t batch, head, first;
} tile_terms;

/* ---- pairs of bf16 ---------------------------------------------------------------------------- */

static bool wants_pairs(const tile_run *run, int64_t batch, int64_t key_head) {
    const ota_resolved *r = &run->plan->resolved;
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
static void pack_pairs(const tile_head *h, int64_t half) {
    const ota_resolved *r = &h->run->plan->resolved;
    ota_tile_seat *seat = h->seat;
    h->slot->broken_count = 0;
    if (half > 0) {
        ota_pairs_keys(&h->run->arrays->values, h->batch, h->key_head, r->keys, seat->value_panels);
        return;
    }
    ota_pairs_keys(&r->problem.keys, h->batch, h->key_head, r->keys, h->slot->key_pairs);
    ota_pairs_across(&r->problem.keys, h->batch, h->key_head, 0, r->keys, seat->keys_right);
}

/* A block of rows; `first` is even. */
static void pack_pair_rows(const tile_head *h, int64_t first, int64_t rows) {
    const ota_plan *plan = h->run->plan;
    const ota_array *queries = &plan->resolved.problem.queries, *upstream = &h->run->want->out_grad;
    const int64_t width = plan->resolved.width, values = plan->values_width;
    ota_tile_seat *seat = h->seat;
    ota_pairs_along(queries, h->batch, h->head, first, rows,
                    seat->queries_left + first * ((width + 1) / 2));
    ota_pairs_across(queries, h->batch, h->head, first, rows,
                     seat->queries_right + first / 2 * width);
    ota_pairs_along(upstream, h->batch, h->head, first, rows,
                    seat->upstream_left + first * ((values + 1) / 2));
    ota_pairs_across(upstream, h->batch, h->head, first, rows,
                     seat->upstream_right + first / 2 * values);
}

/* The block of rows from `at` on; `block` is of f32, the only type whose heads are paired. */
static void gradient_of_pairs(const tile_head *h, const void *block, int64_t at) {
    const ota_plan *plan = h->run->plan;
    const ota_tile_seat *seat = h->seat;
    const int64_t width = plan->resolved.width, values = plan->values_width;
    const int64_t depth = (width + 1) / 2, values_depth = (values + 1) / 2;
    ota_kernels_bf16_gradient pairs;
    memcpy(&pairs.block, block, sizeof pairs.block);
    const int64_t from = pairs.block.first;
    pairs.queries = seat->queries_left + at * depth;
    pairs.upstream = seat->upstream_left + at * values_depth;
    pairs.packed_keys = h->slot->key_pairs + from * depth;
    pairs.packed_values = seat->value_panels + from * values_depth;
    pairs.queries_right = seat->queries_right + at / 2 * width;
    pairs.upstream_right = seat->upstream_right + at / 2 * values;
    pairs.keys_right = seat->keys_right + from / 2 * width;
    plan->device->kernels->bf16->gradient(&pairs);
}

#define REAL float
#define WORD(name) name##_f32
#define KERNELS(plan) ((plan)->device->kernels->f32)
#define ATTEND ota_kernels_f32_attend
#define GRADIENT ota_kernels_f32_gradient
#define REAL_TYPE OTA_F32
#include "backend/cpu/gradient/tiles.inc.h"
#undef REAL
#undef WORD
#undef KERNELS
#undef ATTEND
#undef GRADIENT
#undef REAL_TYPE

#define REAL double
#define WORD(name) name##_f64
#define KERNELS(plan) ((plan)->device->kernels->f64)
#define ATTEND ota_kernels_f64_attend
#define GRADIENT ota_kernels_f64_gradient
#define REAL_TYPE OTA_F64
#include "backend/cpu/gradient/tiles.inc.h"

typedef void task(void *context, int64_t index, int worker);

static const struct {
    task *pack, *rows, *coupled_rows, *unit;
    void (*place_keys)(tile_head *h), (*place_rows)(tile_head *h);
} tasks[2] = {{pack_task_f32, rows_task_f32, coupled_rows_task_f32, unit_task_f32, place_keys_f32,
               place_rows_f32},
              {pack_task_f64, rows_task_f64, coupled_rows_task_f64, unit_task_f64, place_keys_f64,
               place_rows_f64}};

/* ---- memory ----------------------------------------------------------------------------------- */

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static void *take(ota_arena *arena, int64_t rows, int64_t columns, size_t bytes) {
    size_t count;
    if (!ota_size_mul((size_t)rows, (size_t)columns, &count)) {
        arena->overflowed = true;
        return NULL;
    }
    return ota_arena_take(arena, count, bytes);
}

/* Few enough that a unit is worth a thread's while, enough for the threads of a workstation. */
static int64_t cuts_of(const ota_resolved *r) {
    enum { MOST_CUTS = 16, LEAST_ROWS = 2 * OTA_ROW_BLOCK };
    return most(1, least(MOST_CUTS, least(r->queries / LEAST_ROWS, r->keys / OTA_KEY_TILE)));
}

static void take_seat(ota_plan *plan, ota_tile_seat *seat, bool coupled) {
    const ota_resolved *r = &plan->resolved;
    ota_arena *a = &plan->arena;
    const size_t real = ota_device_real(plan->device), number = sizeof(double);
    const int64_t n = r->queries, m = r->keys, width = r->width, values = plan->values_width;
    seat->queries = take(a, n, width, real);
    seat->upstream = take(a, n, values, real);
    seat->shift = ota_arena_take(a, (size_t)n, real);
    seat->advantage = ota_arena_take(a, (size_t)n, real);
    seat->begin = ota_arena_take(a, (size_t)n, sizeof *seat->begin);
    seat->end = ota_arena_take(a, (size_t)n, sizeof *seat->end);
    seat->queries_sum = take(a, n, width, number);
    if (plan->device->pairs) {
        const size_t pair = sizeof(uint32_t);
        const int64_t depth = (width + 1) / 2, values_depth = (values + 1) / 2;
        seat->queries_left = take(a, n, depth, pair);
        seat->upstream_left = take(a, n, values_depth, pair);
        seat->queries_right = take(a, (n + 1) / 2, width, pair);
        seat->upstream_right = take(a, (n + 1) / 2, values, pair);
        seat->keys_right = take(a, (m + 1) / 2, width, pair);
        seat->value_panels = ota_arena_take(a, (size_t)ota_packed_length(m, values_depth), pair);
    }
    if (coupled) {
        seat->key_advantage = ota_arena_take(a, (size_t)m, real);
        return;
    }
    seat->keys = take(a, m, width, real);
    seat->packed_values = ota_arena_take(a, (size_t)ota_packed_length(m, values), real);
    seat->keys_sum = take(a, m, width, number);
    seat->values_sum = take(a, m, values, number);
}

static void take_worker(ota_plan *plan, ota_tile_worker *w, int64_t cuts) {
    const ota_resolved *r = &plan->resolved;
    ota_arena *a = &plan->arena;
    const size_t real = ota_device_real(plan->device);
    int64_t first, last;
    ota_tile_piece(r->queries, cuts, OTA_TILE_ROWS, 0, &first, &last);
    w->scratch = ota_arena_take(
        a, (size_t)OTA_GRADIENT_SCRATCH + (plan->device->pairs ? OTA_PAIRS_GRADIENT : 0), real);
    w->queries_grad = take(a, last - first, r->width, real);
    w->keys_grad = take(a, OTA_KEY_TILE, r->width, real);
    w->values_grad = take(a, OTA_KEY_TILE, plan->values_width, real);
}

struct ota_tile_space *ota_tiles_lay_out(ota_plan *plan) {
    ota_arena *a = &plan->arena;
    const bool placed = a->base != NULL;
    const size_t workers = (size_t)plan->device->worker_count;
    const ota_resolved *r = &plan->resolved;
    const bool coupled = ota_device_has_seats(plan->device) && !plan->device->transposed &&
                         !r->from_matrix && r->problem.regulariser == OTA_SOFTMAX &&
                         ota_backward_mode_of(plan) == OTA_BACKWARD_IMPLICIT;
    if (plan->device->strategy != OTA_STRATEGY_FUSED && !coupled) return NULL;
    struct ota_tile_space *space = ota_arena_take(a, 1, sizeof *space);
    ota_tile_seat *seats = ota_arena_take(a, workers, sizeof *seats);
    ota_tile_worker *scratch = ota_arena_take(a, workers, sizeof *scratch);
    const int64_t cuts = cuts_of(&plan->resolved);
    const int64_t seat_count =
        coupled ? plan->walker_count : least(plan->device->worker_count, plan->device->slot_count);
    for (int64_t k = 0; k < seat_count; k++) {
        ota_tile_seat seat = {0};
        take_seat(plan, &seat, coupled);
        if (placed) seats[k] = seat;
    }
    for (int k = 0; k < plan->device->worker_count; k++) {
        ota_tile_worker worker = {0};
        take_worker(plan, &worker, cuts);
        if (placed) scratch[k] = worker;
    }
    if (placed) *space = (struct ota_tile_space){cuts, seats, scratch};
    return space;
}

/* ---- running ---------------------------------------------------------------------------------- */

bool ota_tiles_fit(const ota_plan *plan, const ota_gradients *want) {
    const ota_resolved *r = &plan->resolved;
    const ota_array *const others[] = {&want->coupling_grad, &want->scores, &want->temperature};
    if (plan->backward->tiles == NULL || r->width == 0 || plan->values_width == 0) return false;
    if (!ota_array_present(&want->out_grad) || r->problem.dropout > 0.0) return false;
    for (size_t k = 0; k < sizeof others / sizeof others[0]; k++) {
        if (ota_array_present(others[k])) return false;
    }
    for (int t = 0; t < r->term_count; t++) {
        if (r->terms[t].kind == OTA_TERM_SOFTCAP || ota_gradient_of_term(r, want, t) != NULL)
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

static void run_query_head(tile_head *h, task *rows) {
    const ota_plan *plan = h->run->plan;
    const ota_resolved *r = &plan->resolved;
    const int64_t cuts = h->run->space->cuts;
    h->tau = ota_head_temperature(r, h->head);
    h->sink = ota_head_sink(r, h->head);
    h->rate = r->scale / h->tau;
    if (!h->direct) clear(h->seat->queries_sum, r->queries, r->width);
    tasks[h->wide].place_rows(h);
    ota_parallel(plan->pool, cuts, rows, h);
    for (h->step = 0; h->step < cuts; h->step++)
        ota_parallel(plan->pool, cuts, tasks[h->wide].unit, h);
    if (!h->direct) put_sum(&h->run->want->queries, h->batch, h->head, h->seat->queries_sum);
}

/* One unit of one tile of keys and of blocks that are folded at its end, and gradients in T. */
static bool has_one_part(const tile_run *run) {
    const ota_resolved *r = &run->plan->resolved;
    const ota_gradients *want = run->want;
    const ota_array *const all[] = {&want->queries, &want->keys, &want->values};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        if (ota_array_present(all[k]) &&
            all[k]->type != (run->plan->device->wide ? OTA_F64 : OTA_F32))
            return false;
    }
    return r->heads == r->key_heads && run->space->cuts == 1 && r->keys > 0 &&
           r->keys <= OTA_KEY_TILE && r->queries > 0 &&
           r->queries <= OTA_FOLD_BLOCKS * OTA_ROW_BLOCK;
}

static void run_key_head(tile_run *run, int64_t index, int seat) {
    ota_plan *plan = run->plan;
    const ota_resolved *r = &plan->resolved;
    const int64_t group = r->heads / r->key_heads;
    tile_head h = {.run = run,
                   .seat = &run->space->seats[seat],
                   .slot = &plan->device->slots[seat],
                   .batch = index / r->key_heads,
                   .key_head = index % r->key_heads,
                   .wide = plan->device->wide,
                   .direct = has_one_part(run)};
    h.paired = wants_pairs(run, h.batch, h.key_head);
    tasks[h.wide].place_keys(&h);
    ota_parallel(plan->pool, 2, tasks[plan->device->wide].pack, &h);
    if (!h.direct) {
        clear(h.seat->keys_sum, r->keys, r->width);
        clear(h.seat->values_sum, r->keys, plan->values_width);
    }
    for (int64_t k = 0; k < group && ota_interrupted(&r->settings) == OTA_OK; k++) {
        h.head = h.key_head * group + k;
        run_query_head(&h, tasks[plan->device->wide].rows);
    }
    if (h.direct) return;
    put_sum(&run->want->keys, h.batch, h.key_head, h.seat->keys_sum);
    put_sum(&run->want->values, h.batch, h.key_head, h.seat->values_sum);
}

static void head_task(void *context, int64_t index, int worker) {
    run_key_head(context, index, worker);
}

void ota_tiles_run_coupled(const ota_backward_job *job) {
    const ota_backward_space *s = job->space;
    tile_run run = {.plan = job->plan, .arrays = job->arrays, .want = job->want, .space = s->tiles};
    ota_tile_seat seat = s->tiles->seats[s->walker];
    seat.keys = s->keys;
    seat.packed_values = s->packed_values;
    seat.keys_sum = s->keys_sum;
    seat.values_sum = s->values_sum;
    tile_head h = {.run = &run,
                   .seat = &seat,
                   .slot = job->slot,
                   .batch = job->batch,
                   .key_head = job->key_head,
                   .head = job->head,
                   .wide = job->wide,
                   .keys = seat.keys,
                   .job = job};
    run_query_head(&h, tasks[h.wide].coupled_rows);
}

ota_status ota_tiles_run(ota_plan *plan, const ota_arrays *arrays, const ota_gradients *want) {
    const ota_resolved *r = &plan->resolved;
    tile_run run = {.plan = plan,
                    .arrays = arrays,
                    .want = want,
                    .space = plan->backward->tiles,
                    .given = want->solved && ota_array_present(&arrays->out) &&
                             ota_array_present(&arrays->lse)};
    const ota_array *const arrays_of[] = {&arrays->out, &want->out_grad, &want->queries,
                                          &want->keys, &want->values};
    run.pairs = plan->device->pairs && run.given && !ota_array_present(&r->problem.row_mass);
    for (size_t k = 0; k < sizeof arrays_of / sizeof arrays_of[0]; k++)
        run.pairs &= !ota_array_present(arrays_of[k]) || arrays_of[k]->type == OTA_BF16;
    const int64_t heads = r->batch * r->key_heads;
    /* Heads side by side while they fill the threads, the rest one after another in pieces. */
    const int64_t side = heads / plan->device->worker_count * plan->device->worker_count;
    ota_sums_clear(plan);
    ota_parallel(plan->pool, side, head_task, &run);
    for (int64_t k = side; k < heads; k++) run_key_head(&run, k, 0);
    ota_sums_write(plan, want);
    return ota_interrupted(&r->settings);
}
