/* What a plan reserves for backward, chosen once: which way its columns are differentiated, and memory
 *
 *     rows alone   O(queries + keys), and what the backend needs
 *     coupled      one matrix [rows][stride] of slopes; fixed rounds and prefix one more, and
 *                  (rows + 2 columns) numbers a round
 *     terms        f64 sums in the shape of every shared term */
#include "backend/edge.h"
#include "jvp.h"

ota_backward_mode ota_backward_mode_of(const ota_plan *plan) {
    if (plan->strategy.path == OTA_PATH_ORDERED) return OTA_BACKWARD_ONLINE;
    if (plan->strategy.path == OTA_PATH_ROWS) return OTA_BACKWARD_FREE;
    if (plan->solver->solve == NULL) return OTA_BACKWARD_IMPLICIT;
    if (ota_column_rule_of(plan->resolved.problem.columns)->coupling == OTA_COUPLING_LEADING)
        return OTA_BACKWARD_PREFIX;
    return plan->resolved.settings.stop.fixed ? OTA_BACKWARD_UNROLLED : OTA_BACKWARD_IMPLICIT;
}

const char *ota_backward_describe(const ota_plan *plan) {
    static const char *const texts[] = {
        [OTA_BACKWARD_FREE] = "closed form, rows recomputed",
        [OTA_BACKWARD_ONLINE] = "rows replayed in reverse, one saturation row a key",
        [OTA_BACKWARD_IMPLICIT] = "implicit, conjugate gradients on the semi-dual",
        [OTA_BACKWARD_UNROLLED] = "unrolled, the rounds in reverse",
        [OTA_BACKWARD_PREFIX] = "implicit, every leading block solved again (queries^3)"};
    const ota_gradient_passes *passes = plan->backend->gradient;
    const char *own = passes->describe != NULL ? passes->describe(plan->device) : NULL;
    return own != NULL ? own : texts[ota_backward_mode_of(plan)];
}

ota_term_sum ota_backward_term_sum(const ota_resolved *r, const ota_term *term) {
    ota_term_sum sum = {0};
    if (ota_term_form_of(term) == OTA_FORM_ADDS_PAIRS) {
        const int64_t *size = term->array.size;
        sum.direct = size[0] == r->batch && size[1] == r->heads && size[2] == r->queries &&
                     size[3] == r->keys;
        sum.count = sum.direct ? 0 : size[0] * size[1] * size[2] * size[3];
        if (!sum.direct && size[2] == 1) sum.length = size[3];
    } else if (ota_term_form_of(term) == OTA_FORM_ADDS_DIFFERENCES) {
        sum.length = term->array.size[3];
        sum.count = term->array.size[1] * sum.length;
    }
    return sum;
}

static void take_term(ota_plan *plan, ota_term_sum *sum, const ota_term *term) {
    ota_arena *a = &plan->arena;
    *sum = ota_backward_term_sum(&plan->resolved, term);
    sum->sum = ota_arena_take(a, (size_t)sum->count, sizeof(double));
    sum->partial = ota_arena_take_rows(a, sum->length, OTA_ADJOINT_CHUNKS, sizeof(double));
}

static void take_vectors(ota_arena *a, const ota_backward_space *s, double **const *vectors,
                         size_t count) {
    for (size_t k = 0; k < count; k++)
        *vectors[k] = ota_arena_take(a, (size_t)s->lane, sizeof(double));
}

static void take_system(ota_arena *a, ota_backward_space *s) {
    double **const vectors[] = {
        &s->adjoint.den,         &s->adjoint.row_right, &s->adjoint.row_sums,   &s->adjoint.extra,
        &s->adjoint.column_sums, &s->adjoint.right,     &s->adjoint.right_terms};
    take_vectors(a, s, vectors, sizeof vectors / sizeof vectors[0]);
}

static void take_steep(ota_arena *a, ota_backward_space *s) {
    double **const vectors[] = {&s->steep.middle, &s->steep.rest, &s->steep.multiplier};
    take_vectors(a, s, vectors, sizeof vectors / sizeof vectors[0]);
    s->steep.column = ota_arena_take(a, (size_t)s->lane, sizeof *s->steep.column);
}

static void take_block(ota_arena *a, ota_backward_space *s) {
    ota_block_parts block = {0}, *placed = ota_arena_take(a, 1, sizeof block);
    double **const vectors[] = {&block.mu,    &block.den,   &block.right_of_rows, &block.right,
                                &block.terms, &block.extra, &block.upstream};
    take_vectors(a, s, vectors, sizeof vectors / sizeof vectors[0]);
    if (placed != NULL) *placed = block;
    s->block = placed;
}

static void take_rounds(ota_plan *plan, ota_backward_space *s) {
    ota_arena *a = &plan->arena;
    const ota_resolved *r = &plan->resolved;
    const size_t steps = ota_unrolled_steps(r),
                 numbers = ota_unrolled_numbers(r, plan->strategy.rows, plan->strategy.columns);
    if (steps == SIZE_MAX || numbers == SIZE_MAX) {
        a->overflowed = true;
        return;
    }
    ota_rounds_space rounds = {0}, *placed = ota_arena_take(a, 1, sizeof rounds);
    rounds.steps = ota_arena_take(a, steps, sizeof(ota_step));
    rounds.step_memory = ota_arena_take(a, numbers, sizeof(double));
    double **const vectors[] = {&rounds.mu,      &rounds.nu,     &rounds.f,      &rounds.g,
                                &rounds.lambdas, &rounds.f_grad, &rounds.g_grad, &rounds.row_grad};
    take_vectors(a, s, vectors, sizeof vectors / sizeof vectors[0]);
    if (placed != NULL) *placed = rounds;
    s->rounds = placed;
}

/* May slopes of the implicit system be lists of the pairs with weight? */
static bool may_list(const ota_plan *plan) {
    return ota_backward_mode_of(plan) == OTA_BACKWARD_IMPLICIT && !plan->strategy.transposed &&
           ota_regulariser_of(&plan->resolved.problem)->thresholded &&
           plan->strategy.columns < INT32_MAX;
}

static void take_coupled(ota_plan *plan, ota_backward_space *s, ota_backward_mode mode) {
    ota_arena *a = &plan->arena;
    const int64_t n = plan->strategy.rows, m = plan->strategy.columns,
                  stride = plan->strategy.stride;
    /* The scores of forward are formed anew by every forward, so backward may use their place. */
    if (!ota_ladder_ends_f64(plan->strategy.ladder))
        s->matrix = ota_arena_take_rows(a, n, stride, sizeof(double));
    if (mode != OTA_BACKWARD_IMPLICIT)
        s->gradient = ota_arena_take_rows(a, n, stride, sizeof(double));
    if (mode == OTA_BACKWARD_PREFIX) s->slopes = ota_arena_take_rows(a, n, stride, sizeof(double));
    s->vectors = ota_arena_take_rows(a, s->lane, OTA_ADJOINT_VECTORS, sizeof(double));
    s->held = ota_arena_take(a, (size_t)s->lane, 1);
    if (mode != OTA_BACKWARD_UNROLLED && m <= OTA_ADJOINT_DIRECT)
        s->couplings = ota_arena_take_rows(a, m, m, sizeof(double));
    if (mode == OTA_BACKWARD_IMPLICIT) take_system(a, s);
    if (may_list(plan)) {
        s->listed = ota_arena_take(a, (size_t)n, sizeof *s->listed);
        s->full = ota_arena_take(a, (size_t)n, sizeof *s->full);
    }
    if (mode == OTA_BACKWARD_PREFIX) take_block(a, s);
    if (mode != OTA_BACKWARD_UNROLLED && ota_is_steep(&plan->resolved)) take_steep(a, s);
    if (mode == OTA_BACKWARD_UNROLLED) take_rounds(plan, s);
}

/* What every head worker has of its own. */
static void take_head_worker(ota_plan *plan, ota_backward_space *s) {
    const ota_resolved *r = &plan->resolved;
    ota_arena *a = &plan->arena;
    const size_t number = sizeof(double), keys = (size_t)plan->strategy.padded_keys;
    const int64_t n = r->queries, m = r->keys;
    double **of_queries[] = {&s->f, &s->top, &s->a}, **of_keys[] = {&s->g, &s->b, &s->fill};
    for (size_t k = 0; k < 3; k++) {
        *of_queries[k] = ota_arena_take(a, (size_t)n, number);
        *of_keys[k] = ota_arena_take(a, keys, number);
    }
    s->bad = ota_arena_take(a, (size_t)n, sizeof(bool));
    if (ota_is_steep(r))
        s->edges = ota_arena_take(a, (size_t)(plan->strategy.transposed ? m : n), sizeof *s->edges);
    s->shut = ota_arena_take(a, keys, sizeof(int64_t));
    s->row_sums = ota_arena_take_rows(a, n, OTA_ROW_SUMS, number);
    s->lane = ota_int_round_up(ota_int_max(ota_int_max(n, m), 1), 16);
    double **chunks[] = {&s->chunks.right, &s->chunks.right_terms, &s->chunks.plan,
                         &s->chunks.slopes};
    for (size_t k = 0; k < sizeof chunks / sizeof chunks[0]; k++)
        *chunks[k] = ota_arena_take_rows(a, s->lane, OTA_ADJOINT_CHUNKS, number);
    s->sums.temperature = ota_arena_take(a, (size_t)r->heads, number);
    s->sums.alibi = ota_arena_take(a, (size_t)r->heads, number);
    s->sums.sink = ota_arena_take(a, (size_t)r->heads, number);
    if (plan->strategy.path == OTA_PATH_COUPLED) take_coupled(plan, s, ota_backward_mode_of(plan));
    const ota_gradient_passes *passes = plan->backend->gradient;
    s->kernel.width = passes->kernel_width != NULL ? passes->kernel_width(plan->device) : 0;
}

int ota_backward_head_workers(const ota_plan *plan) {
    const ota_gradient_passes *passes = plan->backend->gradient;
    /* The messages of many processes have one order. */
    if (plan->resolved.settings.ranks != NULL) return 1;
    return passes != NULL && passes->head_workers != NULL ? passes->head_workers(plan->device) : 1;
}

void ota_backward_lay_out(ota_plan *plan) {
    const ota_resolved *r = &plan->resolved;
    ota_arena *a = &plan->arena;
    const bool placed = a->base != NULL;
    const int head_workers = plan->head_worker_count;
    const int64_t heads = r->batch * r->heads;
    ota_backward_space *home = ota_arena_take(a, (size_t)head_workers, sizeof *home);
    struct ota_gradient_scratch **own = ota_arena_take(a, (size_t)head_workers, sizeof *own);
    ota_backward_space space = {0}, *s = &space;
    take_head_worker(plan, s);
    s->sums.row_mass = ota_arena_take_rows(a, heads, r->queries, sizeof(double));
    s->sums.column_mass = ota_arena_take_rows(a, heads, r->keys, sizeof(double));
    for (int t = 0; t < r->term_count; t++) take_term(plan, &s->sums.terms[t], &r->terms[t]);
    s->tangents = ota_tangents_lay_out(plan, s->lane, may_list(plan));
    for (int k = 1; k < head_workers; k++) {
        ota_backward_space other = {.head_worker = k,
                                    .sums.row_mass = s->sums.row_mass,
                                    .sums.column_mass = s->sums.column_mass};
        take_head_worker(plan, &other);
        if (placed) home[k] = other;
    }
    plan->backend->gradient->lay_out(plan->device, a, head_workers, own);
    if (!placed) return;
    *home = space;
    for (int k = 0; k < head_workers; k++) home[k].own = own[k];
    plan->backward = home;
}
