/* Passes over all scores of a head: row updates, column sums c and L = LSE_i((S_ij + f_i) / t).
 *
 *     log      e_ij = 2^((S + g - shift_i) k), shift_i = max_j (S + g)
 *              c_j = sum_i mu_i e_ij / sum_j e_ij
 *     linear   passes_linear.c
 *     rows     every row solved as the emission does (relaxed rows, Tsallis, two-sided relaxation)
 *
 * with S [rows][stride], k = log2(e) / t. Where c_j underflows, L_j comes from two sweeps that
 * keep the largest term [TOT-13]. Chunk sums are added in the order of the chunks. */
#include "coupled.h"

#include <float.h>
#include <string.h>

static const double log2_e = 1.4426950408889634;

/* ---- chunks ---------------------------------------------------------------------------------- */

typedef struct chunk_job {
    ota_coupled *state;
    double t, omega;
    ota_row_law law;
    bool as_they_are; /* weights from f and g as they lie in the head */
} chunk_job;

void ota_each_chunk(ota_coupled *state, void (*body)(void *job, int64_t chunk, int worker),
                    void *job) {
    if (state->chunks == 1) {
        body(job, 0, 0);
    } else {
        ota_parallel(state->head->pool, state->chunks, body, job);
    }
}

void ota_add_chunks(const ota_coupled *state, const double *partial, double *total) {
    memcpy(total, partial, (size_t)state->columns * sizeof *total);
    for (int64_t chunk = 1; chunk < state->chunks; chunk++) {
        const double *part = partial + chunk * state->lane;
        for (int64_t j = 0; j < state->columns; j++) total[j] += part[j];
    }
}

ota_row_law ota_coupled_law(const ota_coupled *state, double t) {
    const ota_dense *head = state->head;
    return (ota_row_law){.kernels = head->kernels,
                         .order = head->order,
                         .tau = t,
                         .sink = head->sink,
                         .row_strength = head->row_strength};
}

void ota_round_potential(ota_coupled *state) {
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

static void log_chunk(void *context, int64_t chunk, int worker) {
    (void)worker;
    const chunk_job *job = context;
    ota_coupled *state = job->state;
    const ota_dense *head = state->head;
    int64_t first, last;
    ota_chunk_rows(state, chunk, &first, &last);
    ota_clear_chunk(state, state->partial, chunk);
    double *column = state->partial + chunk * state->lane;
    const double k = log2_e / job->t;
    if (state->narrow) {
        head->kernels->f32->rows_and_columns(
            ota_row_at_f32(state->scores, state->stride, first), state->stride, last - first,
            state->columns, state->potential, (float)k, (float)head->sink, head->mu + first,
            state->shift + first, state->sum + first, column,
            (float *)state->scratch + chunk * state->lane);
    } else {
        head->kernels->f64->rows_and_columns(
            ota_row_at_f64(state->scores, state->stride, first), state->stride, last - first,
            state->columns, state->potential, k, head->sink, head->mu + first, state->shift + first,
            state->sum + first, column, (double *)state->scratch + chunk * state->lane);
    }
    for (int64_t i = first; i < last; i++) {
        /* A row without a key has the sink alone, or nothing. */
        const bool keys = state->shift[i] > -INFINITY;
        const double top = keys ? state->shift[i] : head->sink, sum = keys ? state->sum[i] : 1.0;
        head->f[i] = head->mu[i] > 0.0 && top > -INFINITY ? job->t * log(head->mu[i] / sum) - top
                                                          : -INFINITY;
    }
}

static void tops_chunk(void *context, int64_t chunk, int worker) {
    (void)worker;
    const chunk_job *job = context;
    ota_coupled *state = job->state;
    const ota_dense *head = state->head;
    int64_t first, last;
    ota_chunk_rows(state, chunk, &first, &last);
    if (state->narrow) {
        float *top = (float *)state->top + chunk * state->lane;
        for (int64_t j = 0; j < state->columns; j++) top[j] = -INFINITY;
        head->kernels->f32->columns_top(ota_row_at_f32(state->scores, state->stride, first),
                                        state->stride, last - first, state->columns,
                                        head->f + first, top);
    } else {
        double *top = (double *)state->top + chunk * state->lane;
        for (int64_t j = 0; j < state->columns; j++) top[j] = -INFINITY;
        head->kernels->f64->columns_top(ota_row_at_f64(state->scores, state->stride, first),
                                        state->stride, last - first, state->columns,
                                        head->f + first, top);
    }
}

static void column_sums_chunk(void *context, int64_t chunk, int worker) {
    (void)worker;
    const chunk_job *job = context;
    ota_coupled *state = job->state;
    const ota_dense *head = state->head;
    int64_t first, last;
    ota_chunk_rows(state, chunk, &first, &last);
    ota_clear_chunk(state, state->relaxed, chunk);
    double *column = state->relaxed + chunk * state->lane;
    const double k = log2_e / job->t;
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

void ota_pass_columns(ota_coupled *state, double t) {
    chunk_job job = {.state = state, .t = t};
    ota_each_chunk(state, tops_chunk, &job);
    for (int64_t chunk = 1; chunk < state->chunks; chunk++) {
        for (int64_t j = 0; j < state->columns; j++) {
            if (state->narrow) {
                float *top = state->top;
                const float other = top[chunk * state->lane + j];
                if (other > top[j]) top[j] = other;
            } else {
                double *top = state->top;
                const double other = top[chunk * state->lane + j];
                if (other > top[j]) top[j] = other;
            }
        }
    }
    ota_each_chunk(state, column_sums_chunk, &job);
    ota_add_chunks(state, state->relaxed, state->level);
    for (int64_t j = 0; j < state->columns; j++) {
        const double top =
            state->narrow ? (double)((float *)state->top)[j] : ((double *)state->top)[j];
        state->level[j] = top > -INFINITY ? top / t + log(state->level[j]) : -INFINITY;
    }
}

/* L from c where c carries it; false if some column needs the two sweeps. */
static bool levels_from_sums(ota_coupled *state, double t) {
    bool complete = true;
    for (int64_t j = 0; j < state->columns; j++) {
        const double g = ota_rounded(state, j);
        if (!(g > -INFINITY)) {
            state->level[j] = -INFINITY;
            continue;
        }
        state->level[j] = log(state->column[j]) - g / t;
        if (!(state->column[j] > ota_least_sum[state->narrow]) && state->target[j] > 0.0)
            complete = false;
    }
    return complete;
}

/* ---- row by row ------------------------------------------------------------------------------ */

static void rows_chunk(void *context, int64_t chunk, int worker) {
    (void)worker;
    const chunk_job *job = context;
    ota_coupled *state = job->state;
    ota_dense *head = state->head;
    const double rho = head->row_strength;
    int64_t first, last;
    ota_chunk_rows(state, chunk, &first, &last);
    ota_clear_chunk(state, state->partial, chunk);
    ota_clear_chunk(state, state->relaxed, chunk);
    double *column = state->partial + chunk * state->lane,
           *relaxed = state->relaxed + chunk * state->lane;
    const bool two_sided = job->omega > 1.0 || job->omega < 1.0;
    for (int64_t i = first; i < last; i++) {
        ota_row_found found;
        double mass = 0.0;
        if (state->narrow) {
            float *p = (float *)state->scratch + chunk * state->lane;
            const float *s = ota_row_at_f32(state->scores, state->stride, i);
            if (job->as_they_are) {
                ota_row_weights_f32(&job->law, s, state->potential, state->columns, head->f[i], p,
                                    &found);
            } else {
                ota_row_solve_f32(&job->law, s, state->potential, state->columns, head->mu[i], p,
                                  &found);
            }
            mass = head->kernels->f32->sum(p, state->columns);
            head->kernels->f32->accumulate(p, state->columns, 1.0, column);
            if (two_sided && found.potential > -INFINITY) {
                const double f =
                    (1.0 - job->omega) * state->old_f[i] + job->omega * found.potential;
                head->kernels->f32->accumulate(p, state->columns,
                                               exp((f - found.potential) / job->t), relaxed);
                head->f[i] = f;
                continue;
            }
        } else {
            double *p = (double *)state->scratch + chunk * state->lane;
            const double *s = ota_row_at_f64(state->scores, state->stride, i);
            if (job->as_they_are) {
                ota_row_weights_f64(&job->law, s, state->potential, state->columns, head->f[i], p,
                                    &found);
            } else {
                ota_row_solve_f64(&job->law, s, state->potential, state->columns, head->mu[i], p,
                                  &found);
            }
            mass = head->kernels->f64->sum(p, state->columns);
            head->kernels->f64->accumulate(p, state->columns, 1.0, column);
            if (two_sided && found.potential > -INFINITY) {
                const double f =
                    (1.0 - job->omega) * state->old_f[i] + job->omega * found.potential;
                head->kernels->f64->accumulate(p, state->columns,
                                               exp((f - found.potential) / job->t), relaxed);
                head->f[i] = f;
                continue;
            }
        }
        const double wanted = rho < INFINITY && found.potential > -INFINITY
                                  ? head->mu[i] * exp(-found.potential / rho)
                                  : head->mu[i];
        state->error[i] = fabs(mass + found.sink - wanted);
        if (!job->as_they_are) head->f[i] = found.potential;
    }
}

static void rows_pass(ota_coupled *state, double t, double omega) {
    ota_round_potential(state);
    chunk_job job = {.state = state, .t = t, .omega = omega, .law = ota_coupled_law(state, t)};
    ota_each_chunk(state, rows_chunk, &job);
    ota_add_chunks(state, state->partial, state->column);
    if (omega > 1.0 || omega < 1.0) {
        ota_add_chunks(state, state->relaxed, state->level);
        for (int64_t j = 0; j < state->columns; j++) {
            const double g = ota_rounded(state, j);
            state->level[j] = g > -INFINITY ? log(state->level[j]) - g / t : -INFINITY;
        }
    } else if (!levels_from_sums(state, t) && !(state->head->order > 1.0)) {
        ota_pass_columns(state, t);
    }
}

/* ---- entries --------------------------------------------------------------------------------- */

void ota_pass(ota_coupled *state, double t, double omega) {
    ota_dense *head = state->head;
    memcpy(state->old_f, head->f, (size_t)state->rows * sizeof *state->old_f);
    if (state->domain == OTA_DOMAIN_LINEAR && !ota_linear_pass(state, t)) {
        state->domain = OTA_DOMAIN_LOG;
        if (head->underflowed < state->underflowed) head->underflowed = state->underflowed;
    }
    if (state->domain == OTA_DOMAIN_LOG) {
        ota_round_potential(state);
        chunk_job job = {.state = state, .t = t};
        ota_each_chunk(state, log_chunk, &job);
        ota_add_chunks(state, state->partial, state->column);
        if (!levels_from_sums(state, t)) ota_pass_columns(state, t);
    } else if (state->domain == OTA_DOMAIN_ROWS) {
        rows_pass(state, t, omega);
    }
    if (state->domain == OTA_DOMAIN_LINEAR && head->underflowed < state->underflowed) {
        head->underflowed = state->underflowed;
    }
    state->temperature = t;
}

void ota_column_step(ota_coupled *state, double t, double omega) {
    ota_dense *head = state->head;
    double *g = head->g;
    memcpy(state->previous, g, (size_t)state->columns * sizeof *g);
    for (int64_t j = 0; j < state->columns; j++) {
        const double lambda = head->lambdas != NULL ? head->lambdas[j] : head->lambda;
        const ota_marginal step = ota_column_marginal(head->rule, t, head->strength, lambda);
        /* Closed keys, keys without a row and lambda = 0 keep what they have. */
        if (!(g[j] > -INFINITY) || !(state->level[j] > -INFINITY) || !(step.gain > 0.0)) continue;
        const double next =
            ota_marginal_update(step, t, g[j], log(state->target[j]) - state->level[j]);
        if (!(omega > 1.0 || omega < 1.0) || !(next > -INFINITY)) {
            g[j] = next;
        } else {
            const double moved = (1.0 - omega) * g[j] + omega * next;
            g[j] = moved < step.ceiling ? moved : step.ceiling;
        }
    }
}

double ota_column_residual(const ota_coupled *state) {
    const ota_dense *head = state->head;
    double residual = 0.0;
    for (int64_t j = 0; j < state->columns; j++) {
        const double c = state->column[j], target = state->target[j], g = head->g[j];
        if (head->rule == OTA_COLUMNS_RELAXED) {
            residual += target > 0.0 ? fabs(c - target * exp(-g / head->strength)) : c;
        } else if (head->rule == OTA_COLUMNS_CAPPED) {
            residual += c > target ? c - target : g < 0.0 || g > 0.0 ? target - c : 0.0;
        } else {
            residual += fabs(c - target);
        }
    }
    return head->mass > 0.0 ? residual / head->mass : residual;
}

void ota_constant_mode(ota_coupled *state) {
    ota_dense *head = state->head;
    /* With a sink the constant moves weight between the sink and the keys: no closed form. */
    if (head->rule != OTA_COLUMNS_RELAXED || head->sink > -INFINITY) return;
    double reached = 0.0, wanted = 0.0;
    for (int64_t j = 0; j < state->columns; j++) {
        if (!(state->target[j] > 0.0) || !(state->level[j] > -INFINITY)) continue;
        reached += state->column[j];
        wanted += state->target[j] * exp(-head->g[j] / head->strength);
    }
    const double stiffness =
        1.0 / head->strength +
        (head->row_strength < INFINITY ? 1.0 / (head->row_strength + state->temperature) : 0.0);
    const double move = log(wanted / reached) / stiffness;
    if (!isfinite(move)) return;
    /* Rows answer with f <- f - share move; their masses grow when they are relaxed. */
    const double t = state->temperature, rho = head->row_strength;
    const double share = rho < INFINITY ? rho / (rho + t) : 1.0,
                 growth = exp((1.0 - share) * move / t);
    for (int64_t j = 0; j < state->columns; j++) {
        if (!(head->g[j] > -INFINITY)) continue;
        head->g[j] += move;
        state->column[j] *= growth;
        state->level[j] -= share * move / t;
    }
    for (int64_t i = 0; i < state->rows; i++) head->f[i] -= share * move;
}

double ota_measure(ota_coupled *state) {
    ota_dense *head = state->head;
    const double t = head->tau;
    ota_round_potential(state);
    chunk_job job = {.state = state,
                     .t = t,
                     .omega = 1.0,
                     .law = ota_coupled_law(state, t),
                     .as_they_are = head->emission == OTA_EMIT_POTENTIALS};
    ota_each_chunk(state, rows_chunk, &job);
    ota_add_chunks(state, state->partial, state->column);
    double row_error = 0.0;
    for (int64_t i = 0; i < state->rows; i++) row_error += state->error[i];
    head->row_error = head->mass > 0.0 ? row_error / head->mass : row_error;
    const double residual = ota_column_residual(state);
    head->column_error = residual;
    if (head->rule == OTA_COLUMNS_CAPPED) {
        double excess = 0.0;
        for (int64_t j = 0; j < state->columns; j++) {
            if (state->column[j] > state->target[j]) excess += state->column[j] - state->target[j];
        }
        head->column_error = head->mass > 0.0 ? excess / head->mass : excess;
    }
    return residual > head->row_error || isnan(residual) ? residual : head->row_error;
}
