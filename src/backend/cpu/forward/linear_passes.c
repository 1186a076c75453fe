/* A pass in the linear domain, compiled for each type of scores: the kernel is formed once, rounds only multiply.
 *
 *     K = exp((S + f0 + g0) / t) [rows][columns],   r = K v,  u = mu / r,  c = v (K^T u)   [CETA-06]
 *
 * f0 and g0 are absorbed: centring [TOT-106] chooses them so that K keeps every entry, and v, u that
 * leave their bounds are absorbed anew. */
#include "passes.h"

#include "backend/cpu/real.h"
#include "base/exp2.h"

/* Scalings leave [1/bound, bound] and are absorbed. */
static const double bound = OTA_REAL_BITS == 32 ? 1.0e15 : 1.0e100;

typedef struct linear_job {
    ota_passes *state;
    double t;
} linear_job;

static double score(const ota_passes *state, int64_t i, int64_t j) {
    return (double)((const real *)state->scores)[i * state->stride + j];
}

/* Mean or midrange of a row's finite S + h; 0 when it has none. h NULL: 0. */
static double row_centre(const ota_passes *state, int64_t i, const double *h) {
    double low = INFINITY, high = -INFINITY, sum = 0.0, count = 0.0;
    for (int64_t j = 0; j < state->columns; j++) {
        const double x = score(state, i, j) + (h == NULL ? 0.0 : h[j]);
        if (!(x > -INFINITY)) continue;
        low = x < low ? x : low;
        high = x > high ? x : high;
        sum += x;
        count += 1.0;
    }
    if (!(count > 0.0)) return 0.0;
    return state->head->settings->center == OTA_CENTER_MEAN ? sum / count : 0.5 * low + 0.5 * high;
}

double WORD(ota_cpu_linear_range)(ota_passes *state) {
    const ota_head *head = state->head;
    const bool mean = head->settings->center == OTA_CENTER_MEAN;
    double *middle = state->linear.middle, *low = state->column_lse, *high = state->column,
           *sum = state->previous;
    double largest = 0.0;
    for (int64_t j = 0; j < state->columns; j++) middle[j] = 0.0;
    if (head->settings->center == OTA_CENTER_NONE) return head->scores.range;
    for (int64_t j = 0; j < state->columns; j++) {
        low[j] = INFINITY;
        high[j] = -INFINITY;
        sum[j] = 0.0;
    }
    ota_watch watch = ota_watch_within(head->settings);
    for (int64_t i = 0; i < state->rows && !ota_watch_ends(&watch, state->columns); i++) {
        const double centre = row_centre(state, i, NULL);
        state->shift[i] = centre;
        for (int64_t j = 0; j < state->columns; j++) {
            const double x = score(state, i, j) - centre;
            if (!(x > -INFINITY)) continue;
            low[j] = x < low[j] ? x : low[j];
            high[j] = x > high[j] ? x : high[j];
            sum[j] += x;
            middle[j] += 1.0;
        }
    }
    for (int64_t j = 0; j < state->columns; j++) {
        const double centre = mean ? sum[j] / middle[j] : 0.5 * low[j] + 0.5 * high[j];
        middle[j] = middle[j] > 0.0 ? -centre : 0.0;
        if (high[j] > -INFINITY)
            largest = fmax(largest, fmax(high[j] + middle[j], -(low[j] + middle[j])));
    }
    return 2.0 * largest;
}

static void form_rows(void *context, int64_t chunk, int64_t first, int64_t last) {
    const linear_job *job = context;
    ota_passes *state = job->state;
    const ota_head *head = state->head;
    const int64_t stride = state->stride, count = last - first;
    const double k = OTA_LOG2_E / job->t;
    /* Without centring the largest entry of every row is 1; rows without keys keep f = 0. */
    for (int64_t i = first; i < last; i++) {
        if (head->settings->center != OTA_CENTER_NONE) {
            state->linear.absorbed_f[i] = -row_centre(state, i, state->linear.absorbed_g);
            continue;
        }
        const double top = (double)KERNELS(&head->host)
                               ->maximum((const real *)state->scores + i * stride, state->potential,
                                         state->columns);
        state->linear.absorbed_f[i] = top > -INFINITY ? -top : 0.0;
    }
    const int64_t lost = KERNELS(&head->host)
                             ->kernel_form(&(ota_kernel_operands){
                                 .s = (const real *)state->scores + first * stride,
                                 .lds = stride,
                                 .rows = count,
                                 .columns = state->columns,
                                 .f = state->linear.absorbed_f + first,
                                 .h = state->potential,
                                 .c = (real)k,
                                 .kernel = (real *)state->linear.kernel + first * stride,
                                 .ldk = stride});
    for (int64_t i = first; i < last; i++) {
        state->linear.scaled_sink[i] =
            head->row.sink > -INFINITY
                ? exp((head->row.sink + state->linear.absorbed_f[i]) / job->t)
                : 0.0;
    }
    state->chunk.sums[chunk * state->padded_columns] += (double)lost;
}

static void form_chunk(void *context, int64_t chunk, int worker) {
    (void)worker;
    linear_job *job = context;
    each_piece(job->state, chunk, job, form_rows);
}

/* Absorbs g into the kernel; columns that are closed (g = -inf) get scaling 0 instead. */
static void form_kernel(ota_passes *state, double t) {
    double *g = state->head->g;
    real *potential = state->potential;
    for (int64_t j = 0; j < state->columns; j++) {
        const double open = (g[j] > -INFINITY ? g[j] : 0.0) + state->linear.middle[j];
        potential[j] = (real)open;
        state->linear.absorbed_g[j] = (double)potential[j];
    }
    linear_job job = {.state = state, .t = t};
    for (int64_t chunk = 0; chunk < state->chunks; chunk++)
        state->chunk.sums[chunk * state->padded_columns] = 0.0;
    ota_each_chunk(state, form_chunk, &job);
    state->linear.underflowed = 0;
    for (int64_t chunk = 0; chunk < state->chunks; chunk++) {
        state->linear.underflowed += (int64_t)state->chunk.sums[chunk * state->padded_columns];
    }
    state->linear.formed = true;
}

static void linear_piece(void *context, int64_t chunk, int64_t first, int64_t last) {
    const linear_job *job = context;
    ota_passes *state = job->state;
    const ota_head *head = state->head;
    double *column = state->chunk.sums + chunk * state->padded_columns;
    const double *sink = head->row.sink > -INFINITY ? state->linear.scaled_sink + first : NULL;
    KERNELS(&head->host)
        ->linear_round(&(ota_round_operands){.kernel = (const real *)state->linear.kernel +
                                                       first * state->stride,
                                             .ldk = state->stride,
                                             .rows = last - first,
                                             .columns = state->columns,
                                             .v = state->linear.scaling,
                                             .mass = head->mu + first,
                                             .sink = sink,
                                             .u = state->linear.u + first,
                                             .column = column});
    for (int64_t i = first; i < last; i++) {
        head->f[i] = head->mu[i] > 0.0
                         ? state->linear.absorbed_f[i] + job->t * log(state->linear.u[i])
                         : -INFINITY;
    }
}

static void linear_chunk(void *context, int64_t chunk, int worker) {
    (void)worker;
    linear_job *job = context;
    (void)cleared_chunk(job->state, job->state->chunk.sums, chunk);
    each_piece(job->state, chunk, job, linear_piece);
}

bool WORD(ota_cpu_linear_pass)(ota_passes *state, double t) {
    const ota_head *head = state->head;
    real *v = state->linear.scaling;
    if (state->temperature > t || state->temperature < t) state->linear.formed = false;
    for (int attempt = 0; attempt < 2; attempt++) {
        if (!state->linear.formed) form_kernel(state, t);
        bool inside = true;
        for (int64_t j = 0; j < state->columns; j++) {
            double scaling = 0.0;
            if (head->g[j] > -INFINITY) {
                scaling = exp((head->g[j] - state->linear.absorbed_g[j]) / t);
                if (!(scaling <= bound && scaling >= 1.0 / bound)) inside = false;
            }
            v[j] = (real)scaling;
        }
        if (inside) {
            linear_job job = {.state = state, .t = t};
            ota_each_chunk(state, linear_chunk, &job);
            /* Without mass u is 0. */
            for (int64_t i = 0; i < state->rows; i++) {
                const double u = state->linear.u[i], mu = head->mu[i];
                inside &= u <= bound * mu && u * bound >= mu;
            }
        }
        if (inside) {
            ota_add_chunks(state, state->chunk.sums, state->column);
            for (int64_t j = 0; j < state->columns; j++) {
                const double sum = state->column[j], scaling = (double)v[j];
                if (state->target[j] > 0.0 && scaling > 0.0 && !(sum > LEAST_SUM)) return false;
                state->column[j] = scaling * sum;
                state->column_lse[j] =
                    scaling > 0.0 ? log(sum) - state->linear.absorbed_g[j] / t : -INFINITY;
            }
            return true;
        }
        state->linear.formed = false;
    }
    return false;
}
