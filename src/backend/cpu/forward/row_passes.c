/* Passes over all scores of a head, compiled for each type of scores: row updates, column sums c and
 * L = LSE_i((S_ij + f_i) / t).
 *
 *     log      e_ij = 2^((S + g - shift_i) k), shift_i = max_j (S + g)
 *              c_j = sum_i mu_i e_ij / sum_j e_ij
 *     linear   linear_passes.c
 *     rows     every row solved as the final row update does (relaxed rows, Tsallis, two-sided relaxation)
 *
 * with S [rows][stride], k = log2(e) / t. Where c_j underflows, L_j comes from two sweeps that
 * keep the largest term [TOT-13]. Chunk sums are added in the order of the chunks. */
#include "passes.h"

#include <float.h>
#include <string.h>

#include "backend/cpu/real.h"
#include "base/exp2.h"

/* ---- chunks ---------------------------------------------------------------------------------- */

typedef struct chunk_job {
    ota_passes *state;
    double t, omega;
    ota_row_parameters parameters;
    bool as_they_are; /* weights from f and g as they lie in the head */
    bool lists;       /* rows as lists of keys; spends chunk.top and chunk.relaxed */
} chunk_job;

static void round_potential(ota_passes *state) {
    const double *g = state->head->g;
    real *potential = state->potential;
    for (int64_t j = 0; j < state->columns; j++) potential[j] = (real)g[j];
}

/* ---- log domain ------------------------------------------------------------------------------ */

static void log_rows(void *context, int64_t chunk, int64_t first, int64_t last) {
    const chunk_job *job = context;
    ota_passes *state = job->state;
    const ota_head *head = state->head;
    double *column = state->chunk.sums + chunk * state->padded_columns;
    const double k = OTA_LOG2_E / job->t;
    KERNELS(&head->host)
        ->log_round(&(ota_log_round_operands){
            .s = (const real *)state->scores + first * state->stride,
            .lds = state->stride,
            .rows = last - first,
            .columns = state->columns,
            .h = state->potential,
            .c = (real)k,
            .sink = (real)head->row.sink,
            .mass = head->mu + first,
            .shift = state->shift + first,
            .sum = state->sum + first,
            .column = column,
            .scratch = (real *)state->chunk.scratch + chunk * state->padded_columns});
    for (int64_t i = first; i < last; i++) {
        /* A row without a key has the sink alone, or nothing. */
        const bool keys = state->shift[i] > -INFINITY;
        const double top = keys ? state->shift[i] : head->row.sink,
                     sum = keys ? state->sum[i] : 1.0;
        head->f[i] = head->mu[i] > 0.0 && top > -INFINITY ? job->t * log(head->mu[i] / sum) - top
                                                          : -INFINITY;
    }
}

static void log_chunk(void *context, int64_t chunk, int worker) {
    (void)worker;
    chunk_job *job = context;
    (void)cleared_chunk(job->state, job->state->chunk.sums, chunk);
    each_piece(job->state, chunk, job, log_rows);
}

static void tops_rows(void *context, int64_t chunk, int64_t first, int64_t last) {
    const chunk_job *job = context;
    ota_passes *state = job->state;
    const ota_head *head = state->head;
    KERNELS(&head->host)
        ->columns_top((const real *)state->scores + first * state->stride, state->stride,
                      last - first, state->columns, head->f + first,
                      (real *)state->chunk.top + chunk * state->padded_columns);
}

static void tops_chunk(void *context, int64_t chunk, int worker) {
    (void)worker;
    chunk_job *job = context;
    ota_passes *state = job->state;
    const int64_t from = chunk * state->padded_columns;
    real *top = state->chunk.top;
    for (int64_t j = from; j < from + state->columns; j++) top[j] = (real)-INFINITY;
    each_piece(state, chunk, job, tops_rows);
}

static void column_sums_rows(const chunk_job *job, int64_t first, int64_t last, double *column) {
    const ota_passes *state = job->state;
    const ota_head *head = state->head;
    const double k = OTA_LOG2_E / job->t;
    KERNELS(&head->host)
        ->columns_sum((const real *)state->scores + first * state->stride, state->stride,
                      last - first, state->columns, head->f + first, state->chunk.top, (real)k,
                      column);
}

static void column_sums_chunk(void *context, int64_t chunk, int worker) {
    (void)worker;
    const chunk_job *job = context;
    ota_passes *state = job->state;
    const double *f = state->head->f;
    ota_watch watch = ota_watch_within(state->head->settings);
    double *column = cleared_chunk(state, state->chunk.relaxed, chunk);
    int64_t first, end, last;
    ota_chunk_rows(state, chunk, &first, &last);
    for (end = first; ota_watch_groups(&watch, state->columns, f, last, &first, &end);)
        column_sums_rows(job, first, end, column);
}

void WORD(ota_cpu_column_pass)(ota_passes *state, double t) {
    chunk_job job = {.state = state, .t = t};
    ota_each_chunk(state, tops_chunk, &job);
    real *top = state->chunk.top;
    for (int64_t chunk = 1; chunk < state->chunks; chunk++) {
        for (int64_t j = 0; j < state->columns; j++) {
            const real other = top[chunk * state->padded_columns + j];
            if (other > top[j]) top[j] = other;
        }
    }
    ota_each_chunk(state, column_sums_chunk, &job);
    ota_add_chunks(state, state->chunk.relaxed, state->column_lse);
    for (int64_t j = 0; j < state->columns; j++) {
        const double most = (double)top[j];
        state->column_lse[j] = most > -INFINITY ? most / t + log(state->column_lse[j]) : -INFINITY;
    }
}

/* L from c where c carries it; false if some column needs the two sweeps. */
static bool levels_from_sums(ota_passes *state, double t) {
    bool complete = true;
    for (int64_t j = 0; j < state->columns; j++) {
        const double g = (double)((const real *)state->potential)[j];
        if (!(g > -INFINITY)) {
            state->column_lse[j] = -INFINITY;
            continue;
        }
        state->column_lse[j] = log(state->column[j]) - g / t;
        if (!(state->column[j] > LEAST_SUM) && state->target[j] > 0.0) complete = false;
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
    const double level = -head->f[i];
    parameters.line = i;
    parameters.threshold = parameters.regulariser->capped ? &level : NULL;
    real *p = (real *)state->chunk.scratch + chunk * state->padded_columns;
    const real *s = (const real *)state->scores + i * state->stride;
    if (job->lists) {
        const int64_t at = chunk * state->padded_columns;
        const ota_row_room room = {.kept = p,
                                   .where = (int32_t *)((real *)state->chunk.top + at),
                                   .wide = state->chunk.relaxed + at};
        const int64_t count =
            row_entmax(&parameters, s, state->potential, state->columns, head->mu[i], &room, found);
        double sum = found->nonfinite ? NAN : 0.0;
        for (int64_t k = 0; k < count; k++) {
            column[room.where[k]] += (double)p[k];
            sum += (double)p[k];
        }
        return sum;
    }
    if (job->as_they_are) {
        row_weights(&parameters, s, state->potential, state->columns, head->f[i], p, found);
    } else {
        row_solve(&parameters, s, state->potential, state->columns, head->mu[i], p, found);
    }
    KERNELS(&head->host)->accumulate(p, state->columns, 1.0, column);
    return KERNELS(&head->host)->sum(p, state->columns);
}

/* Adds the entries that row_entries left in the chunk's scratch, times `weight`, to `column`. */
static void add_entries(const ota_passes *state, int64_t chunk, double weight, double *column) {
    KERNELS(&state->head->host)
        ->accumulate((const real *)state->chunk.scratch + chunk * state->padded_columns,
                     state->columns, weight, column);
}

static void rows_chunk(void *context, int64_t chunk, int worker) {
    (void)worker;
    const chunk_job *job = context;
    ota_passes *state = job->state;
    ota_head *head = state->head;
    const double rho = head->row.strength;
    int64_t first, last;
    ota_chunk_rows(state, chunk, &first, &last);
    double *column = cleared_chunk(state, state->chunk.sums, chunk),
           *relaxed = cleared_chunk(state, state->chunk.relaxed, chunk);
    const bool two_sided = job->omega > 1.0 || job->omega < 1.0;
    ota_watch watch = ota_watch_within(head->settings);
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
    ota_add_chunks(state, state->chunk.sums, state->column);
    if (omega > 1.0 || omega < 1.0) {
        ota_add_chunks(state, state->chunk.relaxed, state->column_lse);
        for (int64_t j = 0; j < state->columns; j++) {
            const double g = (double)((const real *)state->potential)[j];
            state->column_lse[j] = g > -INFINITY ? log(state->column_lse[j]) - g / t : -INFINITY;
        }
    } else if (!levels_from_sums(state, t) && state->head->row.regulariser->exponential) {
        WORD(ota_cpu_column_pass)(state, t);
    }
}

/* ---- entries --------------------------------------------------------------------------------- */

void WORD(ota_cpu_row_pass)(ota_passes *state, double t, double omega) {
    ota_head *head = state->head;
    memcpy(state->old_f, head->f, (size_t)state->rows * sizeof *state->old_f);
    if (state->domain == OTA_DOMAIN_LINEAR && !WORD(ota_cpu_linear_pass)(state, t)) {
        state->domain = OTA_DOMAIN_LOG;
        if (head->found.underflowed < state->linear.underflowed)
            head->found.underflowed = state->linear.underflowed;
    }
    if (state->domain == OTA_DOMAIN_LOG) {
        round_potential(state);
        chunk_job job = {.state = state, .t = t};
        ota_each_chunk(state, log_chunk, &job);
        ota_add_chunks(state, state->chunk.sums, state->column);
        if (!levels_from_sums(state, t)) WORD(ota_cpu_column_pass)(state, t);
    } else if (state->domain == OTA_DOMAIN_ROWS) {
        rows_pass(state, t, omega);
    }
    if (state->domain == OTA_DOMAIN_LINEAR && head->found.underflowed < state->linear.underflowed) {
        head->found.underflowed = state->linear.underflowed;
    }
    state->temperature = t;
}

void WORD(ota_cpu_final_pass)(ota_passes *state) {
    ota_head *head = state->head;
    round_potential(state);
    const ota_regulariser_row *rows = head->row.regulariser;
    const bool as_they_are = head->found.update == OTA_FINAL_POTENTIALS;
    chunk_job job = {.state = state,
                     .t = head->tau,
                     .omega = 1.0,
                     .parameters = parameters_of(head, head->tau),
                     .as_they_are = as_they_are,
                     .lists = rows->tsallis && rows->thresholded && !rows->capped && !as_they_are &&
                              state->columns < INT32_MAX};
    ota_each_chunk(state, rows_chunk, &job);
    ota_add_chunks(state, state->chunk.sums, state->column);
}
