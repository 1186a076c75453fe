/* Passes over all scores of a head: row updates, column sums c and L = LSE_i((S_ij + f_i) / t).
 *
 *     log      e_ij = 2^((S + g - shift_i) k), shift_i = max_j (S + g)
 *              c_j = sum_i mu_i e_ij / sum_j e_ij
 *     linear   passes_linear.c
 *     rows     every row solved as the final row update does (relaxed rows, Tsallis, two-sided relaxation)
 *
 * with S [rows][stride], k = log2(e) / t. Where c_j underflows, L_j comes from two sweeps that
 * keep the largest term [TOT-13]. Chunk sums are added in the order of the chunks. */
#include "passes.h"

#include <float.h>
#include <string.h>

#include "base/exp2.h"

/* ---- layout ---------------------------------------------------------------------------------- */

enum { CHUNKS = 32, CHUNK_ROWS = 32, LANE = 16 };

static size_t times(int64_t a, int64_t b) {
    size_t result;
    return a < 0 || b < 0 || !ota_size_mul((size_t)a, (size_t)b, &result) ? SIZE_MAX : result;
}

void ota_cpu_lay_out_passes(ota_passes *state, ota_arena *arena, bool kernel) {
    const size_t element = state->narrow ? sizeof(float) : sizeof(double), number = sizeof(double);
    state->padded_columns = (state->columns + LANE) / LANE * LANE;
    state->chunk_rows = (state->rows + CHUNKS - 1) / CHUNKS;
    if (state->chunk_rows < CHUNK_ROWS) state->chunk_rows = CHUNK_ROWS;
    /* One at least: a process of many may hold no row, and its sums are 0. */
    state->chunks = ota_int_max(1, (state->rows + state->chunk_rows - 1) / state->chunk_rows);
    const size_t columns = (size_t)state->padded_columns, rows = (size_t)state->rows + 1;
    const size_t parts = times(state->chunks, state->padded_columns);
    double **column_vectors[] = {&state->target, &state->column, &state->column_lse,
                                 &state->previous};
    for (size_t i = 0; i < sizeof column_vectors / sizeof column_vectors[0]; i++)
        *column_vectors[i] = ota_arena_take(arena, columns, number);
    double **row_vectors[] = {&state->shift, &state->sum, &state->error, &state->old_f};
    for (size_t i = 0; i < sizeof row_vectors / sizeof row_vectors[0]; i++)
        *row_vectors[i] = ota_arena_take(arena, rows, number);
    state->partial = ota_arena_take(arena, parts, number);
    state->relaxed = ota_arena_take(arena, parts, number);
    state->potential = ota_arena_take(arena, columns, number);
    state->scratch = ota_arena_take(arena, parts, number);
    state->top = ota_arena_take(arena, parts, number);
    if (!kernel) return;
    state->kernel = ota_arena_take(arena, times(state->rows, state->stride), element);
    state->scaling = ota_arena_take(arena, columns, element);
    state->absorbed_f = ota_arena_take(arena, rows, number);
    state->absorbed_g = ota_arena_take(arena, columns, number);
    state->scaled_sink = ota_arena_take(arena, rows, number);
    state->u = ota_arena_take(arena, rows, number);
    state->middle = ota_arena_take(arena, columns, number);
}

/* ---- chunks ---------------------------------------------------------------------------------- */

typedef struct chunk_job {
    ota_passes *state;
    double t, omega;
    ota_row_parameters parameters;
    bool as_they_are; /* weights from f and g as they lie in the head */
} chunk_job;

static void round_potential(ota_passes *state) {
    const double *g = state->head->g;
    float *narrow = state->potential;
    double *wide = state->potential;
    for (int64_t j = 0; j < state->columns; j++) {
        if (state->narrow) {
            narrow[j] = (float)g[j];
        } else {
            wide[j] = g[j];
        }
    }
}

/* ---- log domain ------------------------------------------------------------------------------ */

static void log_rows(void *context, int64_t chunk, int64_t first, int64_t last) {
    const chunk_job *job = context;
    ota_passes *state = job->state;
    const ota_head *head = state->head;
    double *column = state->partial + chunk * state->padded_columns;
    const double k = OTA_LOG2_E / job->t;
    if (state->narrow) {
        head->kernels->f32->log_round(&(ota_kernels_f32_log_round){
            .s = ota_row_at_f32(state->scores, state->stride, first),
            .lds = state->stride,
            .rows = last - first,
            .columns = state->columns,
            .h = state->potential,
            .c = (float)k,
            .sink = (float)head->sink,
            .mass = head->mu + first,
            .shift = state->shift + first,
            .sum = state->sum + first,
            .column = column,
            .scratch = (float *)state->scratch + chunk * state->padded_columns});
    } else {
        head->kernels->f64->log_round(&(ota_kernels_f64_log_round){
            .s = ota_row_at_f64(state->scores, state->stride, first),
            .lds = state->stride,
            .rows = last - first,
            .columns = state->columns,
            .h = state->potential,
            .c = k,
            .sink = head->sink,
            .mass = head->mu + first,
            .shift = state->shift + first,
            .sum = state->sum + first,
            .column = column,
            .scratch = (double *)state->scratch + chunk * state->padded_columns});
    }
    for (int64_t i = first; i < last; i++) {
        /* A row without a key has the sink alone, or nothing. */
        const bool keys = state->shift[i] > -INFINITY;
        const double top = keys ? state->shift[i] : head->sink, sum = keys ? state->sum[i] : 1.0;
        head->f[i] = head->mu[i] > 0.0 && top > -INFINITY ? job->t * log(head->mu[i] / sum) - top
                                                          : -INFINITY;
    }
}

static void log_chunk(void *context, int64_t chunk, int worker) {
    (void)worker;
    chunk_job *job = context;
    (void)cleared_chunk(job->state, job->state->partial, chunk);
    each_piece(job->state, chunk, job, log_rows);
}

static void tops_rows(void *context, int64_t chunk, int64_t first, int64_t last) {
    const chunk_job *job = context;
    ota_passes *state = job->state;
    const ota_head *head = state->head;
    if (state->narrow) {
        head->kernels->f32->columns_top(
            ota_row_at_f32(state->scores, state->stride, first), state->stride, last - first,
            state->columns, head->f + first, (float *)state->top + chunk * state->padded_columns);
    } else {
        head->kernels->f64->columns_top(
            ota_row_at_f64(state->scores, state->stride, first), state->stride, last - first,
            state->columns, head->f + first, (double *)state->top + chunk * state->padded_columns);
    }
}

static void tops_chunk(void *context, int64_t chunk, int worker) {
    (void)worker;
    chunk_job *job = context;
    ota_passes *state = job->state;
    const int64_t from = chunk * state->padded_columns;
    for (int64_t j = from; j < from + state->columns; j++) {
        if (state->narrow)
            ((float *)state->top)[j] = -INFINITY;
        else
            ((double *)state->top)[j] = -INFINITY;
    }
    each_piece(state, chunk, job, tops_rows);
}

static void column_sums_rows(const chunk_job *job, int64_t first, int64_t last, double *column) {
    const ota_passes *state = job->state;
    const ota_head *head = state->head;
    const double k = OTA_LOG2_E / job->t;
    if (state->narrow) {
        head->kernels->f32->columns_sum(ota_row_at_f32(state->scores, state->stride, first),
                                        state->stride, last - first, state->columns,
                                        head->f + first, state->top, (float)k, column);
    } else {
        head->kernels->f64->columns_sum(ota_row_at_f64(state->scores, state->stride, first),
                                        state->stride, last - first, state->columns,
                                        head->f + first, state->top, k, column);
    }
}

static void column_sums_chunk(void *context, int64_t chunk, int worker) {
    (void)worker;
    const chunk_job *job = context;
    ota_passes *state = job->state;
    const double *f = state->head->f;
    ota_watch watch = ota_watch_of(state->head->settings);
    double *column = cleared_chunk(state, state->relaxed, chunk);
    int64_t first, end, last;
    ota_chunk_rows(state, chunk, &first, &last);
    for (end = first; ota_watch_groups(&watch, state->columns, f, last, &first, &end);)
        column_sums_rows(job, first, end, column);
}

void ota_cpu_column_pass(ota_passes *state, double t) {
    chunk_job job = {.state = state, .t = t};
    ota_each_chunk(state, tops_chunk, &job);
    for (int64_t chunk = 1; chunk < state->chunks; chunk++) {
        for (int64_t j = 0; j < state->columns; j++) {
            if (state->narrow) {
                float *top = state->top;
                const float other = top[chunk * state->padded_columns + j];
                if (other > top[j]) top[j] = other;
            } else {
                double *top = state->top;
                const double other = top[chunk * state->padded_columns + j];
                if (other > top[j]) top[j] = other;
            }
        }
    }
    ota_each_chunk(state, column_sums_chunk, &job);
    ota_add_chunks(state, state->relaxed, state->column_lse);
    for (int64_t j = 0; j < state->columns; j++) {
        const double top =
            state->narrow ? (double)((float *)state->top)[j] : ((double *)state->top)[j];
        state->column_lse[j] = top > -INFINITY ? top / t + log(state->column_lse[j]) : -INFINITY;
    }
}

/* L from c where c carries it; false if some column needs the two sweeps. */
static bool levels_from_sums(ota_passes *state, double t) {
    bool complete = true;
    for (int64_t j = 0; j < state->columns; j++) {
        const double g = ota_rounded(state, j);
        if (!(g > -INFINITY)) {
            state->column_lse[j] = -INFINITY;
            continue;
        }
        state->column_lse[j] = log(state->column[j]) - g / t;
        if (!(state->column[j] > least_sum[state->narrow]) && state->target[j] > 0.0)
            complete = false;
    }
    return complete;
}

/* ---- row by row ------------------------------------------------------------------------------ */

/* Solves row i, or weighs it at the potentials as they are, into the chunk's scratch; gives the sum of its
 * entries and adds them to `column`. */
static double row_entries(const chunk_job *job, int64_t chunk, int64_t i, double *column,
                          ota_row_found *found) {
    ota_passes *state = job->state;
    const ota_head *head = state->head;
    ota_row_parameters parameters = job->parameters;
    parameters.line = i;
    if (state->narrow) {
        float *p = (float *)state->scratch + chunk * state->padded_columns;
        const float *s = ota_row_at_f32(state->scores, state->stride, i);
        if (job->as_they_are) {
            ota_row_weights_f32(&parameters, s, state->potential, state->columns, head->f[i], p,
                                found);
        } else {
            ota_row_solve_f32(&parameters, s, state->potential, state->columns, head->mu[i], p,
                              found);
        }
        head->kernels->f32->accumulate(p, state->columns, 1.0, column);
        return head->kernels->f32->sum(p, state->columns);
    }
    double *p = (double *)state->scratch + chunk * state->padded_columns;
    const double *s = ota_row_at_f64(state->scores, state->stride, i);
    if (job->as_they_are) {
        ota_row_weights_f64(&parameters, s, state->potential, state->columns, head->f[i], p, found);
    } else {
        ota_row_solve_f64(&parameters, s, state->potential, state->columns, head->mu[i], p, found);
    }
    head->kernels->f64->accumulate(p, state->columns, 1.0, column);
    return head->kernels->f64->sum(p, state->columns);
}

/* Adds the entries that row_entries left in the chunk's scratch, times `weight`, to `column`. */
static void add_entries(const ota_passes *state, int64_t chunk, double weight, double *column) {
    const ota_kernels *kernels = state->head->kernels;
    const int64_t first = chunk * state->padded_columns;
    if (state->narrow) {
        kernels->f32->accumulate((float *)state->scratch + first, state->columns, weight, column);
    } else {
        kernels->f64->accumulate((double *)state->scratch + first, state->columns, weight, column);
    }
}

static void rows_chunk(void *context, int64_t chunk, int worker) {
    (void)worker;
    const chunk_job *job = context;
    ota_passes *state = job->state;
    ota_head *head = state->head;
    const double rho = head->row_strength;
    int64_t first, last;
    ota_chunk_rows(state, chunk, &first, &last);
    double *column = cleared_chunk(state, state->partial, chunk),
           *relaxed = cleared_chunk(state, state->relaxed, chunk);
    const bool two_sided = job->omega > 1.0 || job->omega < 1.0;
    ota_watch watch = ota_watch_of(head->settings);
    for (int64_t i = first; i < last && !ota_watch_ends(&watch, state->columns); i++) {
        ota_row_found found;
        const double mass = row_entries(job, chunk, i, column, &found);
        if (two_sided && found.potential > -INFINITY) {
            const double f = (1.0 - job->omega) * state->old_f[i] + job->omega * found.potential;
            add_entries(state, chunk, exp((f - found.potential) / job->t), relaxed);
            head->f[i] = f;
            continue;
        }
        const double wanted = rho < INFINITY && found.potential > -INFINITY
                                  ? head->mu[i] * exp(-found.potential / rho)
                                  : head->mu[i];
        state->error[i] = fabs(mass + found.sink - wanted);
        if (!job->as_they_are) head->f[i] = found.potential;
    }
}

static void rows_pass(ota_passes *state, double t, double omega) {
    round_potential(state);
    chunk_job job = {
        .state = state, .t = t, .omega = omega, .parameters = parameters_of(state->head, t)};
    ota_each_chunk(state, rows_chunk, &job);
    ota_add_chunks(state, state->partial, state->column);
    if (omega > 1.0 || omega < 1.0) {
        ota_add_chunks(state, state->relaxed, state->column_lse);
        for (int64_t j = 0; j < state->columns; j++) {
            const double g = ota_rounded(state, j);
            state->column_lse[j] = g > -INFINITY ? log(state->column_lse[j]) - g / t : -INFINITY;
        }
    } else if (!levels_from_sums(state, t) && state->head->regulariser->exponential) {
        ota_cpu_column_pass(state, t);
    }
}

/* ---- entries --------------------------------------------------------------------------------- */

void ota_cpu_row_pass(ota_passes *state, double t, double omega) {
    ota_head *head = state->head;
    memcpy(state->old_f, head->f, (size_t)state->rows * sizeof *state->old_f);
    if (state->domain == OTA_DOMAIN_LINEAR && !ota_cpu_linear_pass(state, t)) {
        state->domain = OTA_DOMAIN_LOG;
        if (head->underflowed < state->underflowed) head->underflowed = state->underflowed;
    }
    if (state->domain == OTA_DOMAIN_LOG) {
        round_potential(state);
        chunk_job job = {.state = state, .t = t};
        ota_each_chunk(state, log_chunk, &job);
        ota_add_chunks(state, state->partial, state->column);
        if (!levels_from_sums(state, t)) ota_cpu_column_pass(state, t);
    } else if (state->domain == OTA_DOMAIN_ROWS) {
        rows_pass(state, t, omega);
    }
    if (state->domain == OTA_DOMAIN_LINEAR && head->underflowed < state->underflowed) {
        head->underflowed = state->underflowed;
    }
    state->temperature = t;
}

void ota_cpu_final_pass(ota_passes *state) {
    ota_head *head = state->head;
    round_potential(state);
    chunk_job job = {.state = state,
                     .t = head->tau,
                     .omega = 1.0,
                     .parameters = parameters_of(head, head->tau),
                     .as_they_are = head->final_update == OTA_FINAL_POTENTIALS};
    ota_each_chunk(state, rows_chunk, &job);
    ota_add_chunks(state, state->partial, state->column);
}
