/* What a plan reserves for backward, chosen once: which way its columns are differentiated, and memory
 *
 *     rows alone   O(queries + keys) and f64 sums of the gradients of keys and values
 *     coupled      one matrix [dense_rows][dense_stride] of slopes; fixed rounds and prefix one more,
 *                  and (rows + 2 columns) numbers a round
 *     terms        f64 sums in the shape of every shared term */
#include "jvp.h"

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

ota_backward_mode ota_backward_mode_of(const ota_plan *plan) {
    if (plan->device->strategy == OTA_STRATEGY_ORDERED) return OTA_BACKWARD_ONLINE;
    if (!ota_device_has_seats(plan->device)) return OTA_BACKWARD_FREE;
    if (plan->solver->solve == NULL) return OTA_BACKWARD_IMPLICIT;
    if (plan->resolved.problem.columns == OTA_COLUMNS_PREFIX) return OTA_BACKWARD_PREFIX;
    return plan->resolved.settings.fixed ? OTA_BACKWARD_UNROLLED : OTA_BACKWARD_IMPLICIT;
}

const char *ota_backward_describe(const ota_plan *plan) {
    static const char *const texts[] = {
        [OTA_BACKWARD_FREE] = "closed form, tiles recomputed",
        [OTA_BACKWARD_ONLINE] = "rows replayed in reverse, one saturation row a key",
        [OTA_BACKWARD_IMPLICIT] = "implicit, conjugate gradients on the semi-dual",
        [OTA_BACKWARD_UNROLLED] = "unrolled, the rounds in reverse",
        [OTA_BACKWARD_PREFIX] = "implicit, every leading block solved again (queries^3)"};
    const ota_backward_mode mode = ota_backward_mode_of(plan);
    if (plan->backward != NULL && plan->backward->rounds.width > 0)
        return "unrolled, the rounds in reverse on their stored kernel";
    if (mode == OTA_BACKWARD_FREE && plan->device->strategy != OTA_STRATEGY_FUSED)
        return plan->device->workers[0].keys.wide != NULL
                   ? "closed form, strips of rows, lists of keys"
                   : "closed form, strips of rows";
    return texts[mode];
}

static void *take(ota_arena *arena, int64_t rows, int64_t columns, size_t bytes) {
    size_t count;
    if (!ota_size_mul((size_t)rows, (size_t)columns, &count)) {
        arena->overflowed = true;
        return NULL;
    }
    return ota_arena_take(arena, count, bytes);
}

static void take_term(ota_plan *plan, ota_term_sum *sum, const ota_term *term) {
    const ota_resolved *r = &plan->resolved;
    ota_arena *a = &plan->arena;
    *sum = (ota_term_sum){0};
    if (term->kind == OTA_TERM_DENSE) {
        const int64_t *size = term->array.size;
        sum->direct = size[0] == r->batch && size[1] == r->heads && size[2] == r->queries &&
                      size[3] == r->keys;
        sum->count = sum->direct ? 0 : size[0] * size[1] * size[2] * size[3];
        if (!sum->direct && size[2] == 1) sum->length = size[3];
    } else if (term->kind == OTA_TERM_RELATIVE || term->kind == OTA_TERM_RELATIVE_INSIDE) {
        sum->length = term->array.size[3];
        sum->count = term->array.size[1] * sum->length;
    }
    sum->sum = ota_arena_take(a, (size_t)sum->count, sizeof(double));
    sum->partial = take(a, sum->length, OTA_ADJOINT_CHUNKS, sizeof(double));
}

/* Lists may write a little past their end. */
static int64_t strip_stride(const ota_plan *plan) { return plan->device->stride + OTA_KEEP_ROOM; }

static void take_strip(ota_plan *plan, ota_strip *strip) {
    enum { MOST_BLOCKS = 16, ELEMENTS = 1 << 20 };
    const ota_resolved *r = &plan->resolved;
    ota_arena *a = &plan->arena;
    const size_t real = ota_device_real(plan->device);
    const int64_t stride = strip_stride(plan);
    const int64_t blocks = (r->queries + OTA_BLOCK_ROWS - 1) / OTA_BLOCK_ROWS;
    const int64_t room = most(1, ELEMENTS / (stride * OTA_BLOCK_ROWS));
    const int64_t rows = OTA_BLOCK_ROWS * least(most(1, blocks), least(room, MOST_BLOCKS));
    strip->rows = rows;
    strip->stride = stride;
    strip->weights = take(a, rows, stride, real);
    strip->slopes = take(a, rows, stride, real);
    if (r->order > 1.0) strip->where = take(a, rows, stride, sizeof *strip->where);
    strip->count = ota_arena_take(a, (size_t)rows, sizeof *strip->count);
    strip->low = ota_arena_take(a, (size_t)rows, sizeof *strip->low);
    strip->high = ota_arena_take(a, (size_t)rows, sizeof *strip->high);
    strip->queries = take(a, rows, r->width, real);
    strip->upstream = take(a, rows, plan->values_width, real);
}

static void take_worker(ota_plan *plan, ota_backward_worker *w) {
    const ota_resolved *r = &plan->resolved;
    ota_arena *a = &plan->arena;
    const size_t real = ota_device_real(plan->device);
    const int64_t block = OTA_BLOCK_ROWS * strip_stride(plan);
    bool softcap = false;
    for (int t = 0; t < r->term_count; t++) softcap |= r->terms[t].kind == OTA_TERM_SOFTCAP;
    w->scores = ota_arena_take(a, (size_t)block, real);
    w->upstream = ota_arena_take(a, (size_t)block, real);
    w->weights = ota_arena_take(a, (size_t)block, real);
    w->raw = softcap ? ota_arena_take(a, (size_t)block, real) : NULL;
    w->slope = ota_arena_take(a, (size_t)plan->device->stride, real);
    w->product = take(a, OTA_KEY_TILE, most(r->width, plan->values_width + 1), real);
    w->queries = take(a, OTA_ROW_BLOCK, r->width + 1, real);
    w->gradients = take(a, OTA_ROW_BLOCK, plan->values_width + 1, real);
    w->line = ota_arena_take(a, (size_t)plan->device->stride, real);
}

/* Plain fixed rounds of a head are reversed on the kernel that forward stores. */
static void take_rounds(ota_plan *plan, ota_rounds_space *rounds, int64_t strip_rows) {
    const ota_resolved *r = &plan->resolved;
    ota_arena *a = &plan->arena;
    const size_t real = ota_device_real(plan->device);
    if (plan->device->strategy != OTA_STRATEGY_ROUNDS || !r->settings.fixed ||
        plan->values_width == 0 || r->settings.rounds > OTA_KERNEL_ROUNDS ||
        r->problem.dropout > 0.0)
        return;
    rounds->width = plan->values_width + ota_kernel_rounds_width(r->settings.rounds);
    rounds->rows = take(a, strip_rows, rounds->width, real);
    rounds->packed = ota_arena_take(a, (size_t)ota_packed_length(r->keys, rounds->width), real);
    rounds->sum = take(a, r->keys, plan->values_width + 1, sizeof(double));
}

static void take_coupled(ota_plan *plan, ota_backward_space *s, ota_backward_mode mode) {
    const ota_resolved *r = &plan->resolved;
    ota_arena *a = &plan->arena;
    const int64_t n = plan->device->dense_rows, m = plan->device->dense_columns,
                  stride = plan->device->dense_stride;
    /* The scores of forward are formed anew by every forward, so backward may use their place. */
    if (!plan->device->wide) s->matrix = take(a, n, stride, sizeof(double));
    if (mode != OTA_BACKWARD_IMPLICIT) s->gradient = take(a, n, stride, sizeof(double));
    if (mode == OTA_BACKWARD_PREFIX) s->slopes = take(a, n, stride, sizeof(double));
    for (size_t k = 0; k < sizeof s->dense / sizeof s->dense[0]; k++)
        s->dense[k] = ota_arena_take(a, (size_t)s->lane, sizeof(double));
    s->vectors = take(a, s->lane, OTA_ADJOINT_VECTORS, sizeof(double));
    s->held = ota_arena_take(a, (size_t)s->lane, 1);
    if (mode != OTA_BACKWARD_UNROLLED) return;
    const size_t steps = ota_unrolled_steps(r), numbers = ota_unrolled_numbers(r, n, m);
    if (steps == SIZE_MAX || numbers == SIZE_MAX) {
        a->overflowed = true;
        return;
    }
    s->steps = ota_arena_take(a, steps, sizeof(ota_step));
    s->step_memory = ota_arena_take(a, numbers, sizeof(double));
}

/* Side by side heads need no barrier between the passes of one, but a walker's memory each: many small ones only. */
int ota_backward_walkers(const ota_plan *plan) {
    enum { MOST_PAIRS = 1 << 18 };
    const ota_resolved *r = &plan->resolved;
    const bool small = r->queries <= MOST_PAIRS / most(1, r->keys);
    if (plan->device->strategy == OTA_STRATEGY_FUSED || !small ||
        r->batch * r->key_heads < plan->device->worker_count)
        return 1;
    return plan->device->worker_count;
}

/* What every walker has of its own. */
static void take_walker(ota_plan *plan, ota_backward_space *s) {
    const ota_resolved *r = &plan->resolved;
    ota_arena *a = &plan->arena;
    const size_t real = ota_device_real(plan->device), number = sizeof(double);
    const int64_t n = r->queries, m = r->keys;
    double **of_queries[] = {&s->f, &s->top, &s->a}, **of_keys[] = {&s->g, &s->b, &s->fill};
    for (size_t k = 0; k < 3; k++) {
        *of_queries[k] = ota_arena_take(a, (size_t)n, number);
        *of_keys[k] = ota_arena_take(a, (size_t)plan->device->stride, number);
    }
    s->bad = ota_arena_take(a, (size_t)n, sizeof(bool));
    s->shut = ota_arena_take(a, (size_t)plan->device->stride, sizeof(int64_t));
    s->bias = ota_arena_take(a, (size_t)plan->device->stride, real);
    s->row_sums = take(a, n, OTA_ROW_SUMS, number);
    s->keys = take(a, m, r->from_matrix ? 0 : r->width, real);
    s->packed_values = ota_arena_take(a, (size_t)ota_packed_length(m, plan->values_width), real);
    s->keys_sum = take(a, m, r->from_matrix ? 0 : r->width, number);
    s->values_sum = take(a, m, plan->values_width, number);
    s->lane = (most(most(n, m), 1) + 15) / 16 * 16;
    for (int k = 0; k < OTA_BACKWARD_PARTIALS; k++)
        s->partial[k] = take(a, s->lane, OTA_ADJOINT_CHUNKS, number);
    s->temperature = ota_arena_take(a, (size_t)r->heads, number);
    s->alibi = ota_arena_take(a, (size_t)r->heads, number);
    s->sink = ota_arena_take(a, (size_t)r->heads, number);
    s->advantage = ota_arena_take(a, (size_t)plan->device->stride, real);
    take_strip(plan, &s->strip);
    if (ota_device_has_seats(plan->device)) take_coupled(plan, s, ota_backward_mode_of(plan));
    take_rounds(plan, &s->rounds, s->strip.rows);
}

void ota_backward_lay_out(ota_plan *plan) {
    const ota_resolved *r = &plan->resolved;
    ota_arena *a = &plan->arena;
    const bool placed = a->base != NULL;
    const size_t walkers = (size_t)plan->walker_count;
    const int64_t heads = r->batch * r->heads;
    ota_backward_space *home = ota_arena_take(a, walkers, sizeof *home), space = {0}, *s = &space;
    take_walker(plan, s);
    s->row_mass = take(a, heads, r->queries, sizeof(double));
    s->column_mass = take(a, heads, r->keys, sizeof(double));
    for (int t = 0; t < r->term_count; t++) take_term(plan, &s->terms[t], &r->terms[t]);
    s->workers = ota_arena_take(a, (size_t)plan->device->worker_count, sizeof(ota_backward_worker));
    for (int k = 0; k < plan->device->worker_count; k++) {
        ota_backward_worker worker = {0};
        take_worker(plan, &worker);
        if (placed) s->workers[k] = worker;
    }
    s->tiles = ota_tiles_lay_out(plan);
    s->tangents = ota_tangents_lay_out(plan, s->lane);
    for (int k = 1; k < plan->walker_count; k++) {
        ota_backward_space other = {.walker = k,
                                    .row_mass = s->row_mass,
                                    .column_mass = s->column_mass,
                                    .workers = s->workers,
                                    .tiles = s->tiles};
        take_walker(plan, &other);
        if (placed) home[k] = other;
    }
    if (!placed) return;
    *home = space;
    plan->backward = home;
}
