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
} tile_run;

/* One head of a run. */
typedef struct tile_head {
    tile_run *run;
    ota_tile_seat *seat;
    ota_slot *slot;
    int64_t batch, key_head, head;
    int64_t step;
    double tau, sink, rate;      /* rate = scale / tau */
    const ota_backward_job *job; /* coupled columns: their potentials and multipliers; else NULL */
} tile_head;

typedef struct tile_terms {
    const ota_resolved *resolved;
    int64_t batch, head, first;
} tile_terms;

#define REAL float
#define WORD(name) name##_f32
#define KERNELS(plan) ((plan)->kernels->f32)
#define ATTEND ota_kernels_f32_attend
#define GRADIENT ota_kernels_f32_gradient
#define REAL_TYPE OTA_F32
#include "backward_tiles.inc.h"
#undef REAL
#undef WORD
#undef KERNELS
#undef ATTEND
#undef GRADIENT
#undef REAL_TYPE

#define REAL double
#define WORD(name) name##_f64
#define KERNELS(plan) ((plan)->kernels->f64)
#define ATTEND ota_kernels_f64_attend
#define GRADIENT ota_kernels_f64_gradient
#define REAL_TYPE OTA_F64
#include "backward_tiles.inc.h"

typedef void task(void *context, int64_t index, int worker);

static const struct {
    task *pack, *rows, *coupled_rows, *unit;
} tasks[2] = {{pack_task_f32, rows_task_f32, coupled_rows_task_f32, unit_task_f32},
              {pack_task_f64, rows_task_f64, coupled_rows_task_f64, unit_task_f64}};

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
    const size_t real = ota_plan_real(plan), number = sizeof(double);
    const int64_t n = r->queries, m = r->keys, width = r->width, values = plan->values_width;
    seat->queries = take(a, n, width, real);
    seat->upstream = take(a, n, values, real);
    seat->shift = ota_arena_take(a, (size_t)n, real);
    seat->advantage = ota_arena_take(a, (size_t)n, real);
    seat->begin = ota_arena_take(a, (size_t)n, sizeof *seat->begin);
    seat->end = ota_arena_take(a, (size_t)n, sizeof *seat->end);
    seat->queries_sum = take(a, n, width, number);
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
    const size_t real = ota_plan_real(plan);
    int64_t first, last;
    ota_tile_piece(r->queries, cuts, OTA_ROW_BLOCK, 0, &first, &last);
    w->scratch = ota_arena_take(a, OTA_GRADIENT_SCRATCH, real);
    w->queries_grad = take(a, last - first, r->width, real);
    w->keys_grad = take(a, OTA_KEY_TILE, r->width, real);
    w->values_grad = take(a, OTA_KEY_TILE, plan->values_width, real);
}

struct ota_tile_space *ota_tiles_lay_out(ota_plan *plan) {
    ota_arena *a = &plan->arena;
    const bool placed = a->base != NULL;
    const size_t workers = (size_t)plan->worker_count;
    const ota_resolved *r = &plan->resolved;
    const bool coupled = ota_plan_has_seats(plan) && !plan->transposed && !r->from_matrix &&
                         r->problem.regulariser == OTA_SOFTMAX &&
                         ota_backward_mode_of(plan) == OTA_BACKWARD_IMPLICIT;
    if (plan->path != OTA_PATH_FUSED && !coupled) return NULL;
    struct ota_tile_space *space = ota_arena_take(a, 1, sizeof *space);
    ota_tile_seat *seats = ota_arena_take(a, workers, sizeof *seats);
    ota_tile_worker *scratch = ota_arena_take(a, workers, sizeof *scratch);
    const int64_t cuts = cuts_of(&plan->resolved);
    const int64_t seat_count = coupled ? 1 : least(plan->worker_count, plan->slot_count);
    for (int64_t k = 0; k < seat_count; k++) {
        ota_tile_seat seat = {0};
        take_seat(plan, &seat, coupled);
        if (placed) seats[k] = seat;
    }
    for (int k = 0; k < plan->worker_count; k++) {
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
    clear(h->seat->queries_sum, r->queries, r->width);
    ota_parallel(plan->pool, cuts, rows, h);
    for (h->step = 0; h->step < cuts; h->step++)
        ota_parallel(plan->pool, cuts, tasks[plan->wide].unit, h);
    put_sum(&h->run->want->queries, h->batch, h->head, h->seat->queries_sum);
}

static void run_key_head(tile_run *run, int64_t index, int seat) {
    ota_plan *plan = run->plan;
    const ota_resolved *r = &plan->resolved;
    const int64_t group = r->heads / r->key_heads;
    tile_head h = {.run = run,
                   .seat = &run->space->seats[seat],
                   .slot = &plan->slots[seat],
                   .batch = index / r->key_heads,
                   .key_head = index % r->key_heads};
    ota_parallel(plan->pool, 2, tasks[plan->wide].pack, &h);
    clear(h.seat->keys_sum, r->keys, r->width);
    clear(h.seat->values_sum, r->keys, plan->values_width);
    for (int64_t k = 0; k < group && ota_interrupted(&r->settings) == OTA_OK; k++) {
        h.head = h.key_head * group + k;
        run_query_head(&h, tasks[plan->wide].rows);
    }
    put_sum(&run->want->keys, h.batch, h.key_head, h.seat->keys_sum);
    put_sum(&run->want->values, h.batch, h.key_head, h.seat->values_sum);
}

static void head_task(void *context, int64_t index, int worker) {
    run_key_head(context, index, worker);
}

void ota_tiles_run_coupled(const ota_backward_job *job) {
    const ota_backward_space *s = job->space;
    tile_run run = {.plan = job->plan, .arrays = job->arrays, .want = job->want, .space = s->tiles};
    ota_tile_seat seat = s->tiles->seats[0];
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
                   .job = job};
    run_query_head(&h, tasks[job->plan->wide].coupled_rows);
}

ota_status ota_tiles_run(ota_plan *plan, const ota_arrays *arrays, const ota_gradients *want) {
    const ota_resolved *r = &plan->resolved;
    tile_run run = {.plan = plan,
                    .arrays = arrays,
                    .want = want,
                    .space = plan->backward->tiles,
                    .given = want->solved && ota_array_present(&arrays->out) &&
                             ota_array_present(&arrays->lse)};
    const int64_t heads = r->batch * r->key_heads;
    /* Heads side by side while they fill the threads, the rest one after another in pieces. */
    const int64_t side = heads / plan->worker_count * plan->worker_count;
    ota_sums_clear(plan);
    ota_parallel(plan->pool, side, head_task, &run);
    for (int64_t k = side; k < heads; k++) run_key_head(&run, k, 0);
    ota_sums_write(plan, want);
    return ota_interrupted(&r->settings);
}
