/* Fixed rounds on a stored kernel, compiled for each type: run again and reversed by the formulas of
 * solvers/derivatives/unrolled_kernel.c. K = exp((S - m) / t) 2^lift [queries][dense_stride] lies where forward has it. The last
 * row update needs no pairs of its own:
 *
 *     a_i = dL/dout_i . out_i / mu_i     t f'_i = mu_i a_i     t g'_j = V_j . (P^T dL/dout)_j - (P^T a)_j */
#include "pairs.h"

#include <math.h>
#include <string.h>

static real *kernel_row(const ota_backward_job *job, int64_t query) {
    return (real *)workspace_of(job)->scores + query * job->device->dense_stride;
}

void load_kernel_column(ota_backward_job *job, const double *from, double scale) {
    real *to = job->space->own->bias;
    for (int64_t j = 0; j < job->device->resolved->keys; j++) to[j] = (real)(from[j] * scale);
}

/* One row of scores into a row of K; false where it cannot. */
static bool shift_row(const ota_backward_job *job, int64_t query, real *row) {
    const ota_cpu_device *device = job->device;
    const ota_resolved *r = device->resolved;
    ota_backward_space *space = job->space;
    const double keys_top = (double)KERNELS(device)->maximum(row, NULL, r->keys);
    const double sink = job->parameters.sink, mu = ota_row_mass(r, job->batch, job->head, query);
    const double top = keys_top > sink || isnan(keys_top) ? keys_top : sink;
    const bool empty = top <= -INFINITY;
    if (!empty && !(fabs(top) < (double)REAL_MAX / 8.0)) return false;
    const real shift = empty ? (real)0 : (real)top;
    for (int64_t j = r->keys; j < device->dense_stride; j++) row[j] = (real)-INFINITY;
    KERNELS(device)->exp2_scaled(row, NULL, device->dense_stride, shift,
                                 (real)(OTA_LOG2_E / job->parameters.tau), row);
    space->kernel.mu[query] = empty ? 0.0 : mu;
    space->top[query] = sink > -INFINITY
                            ? ldexp(exp((sink - (double)shift) / job->parameters.tau), REAL_LIFT)
                            : 0.0;
    return true;
}

/* Row update `at` of some rows, and their part of the column sums. */
static void update_rows(const ota_backward_job *job, int64_t chunk, int64_t first, int64_t rows) {
    const ota_cpu_device *device = job->device;
    ota_backward_space *space = job->space;
    const ota_kernel_view *rounds = &space->kernel;
    double *u = rounds->u + space->kernel.at * rounds->row_lane + first;
    KERNELS(device)->linear_round(
        &(ota_round_operands){.kernel = kernel_row(job, first),
                              .ldk = device->dense_stride,
                              .rows = rows,
                              .columns = device->resolved->keys,
                              .v = space->own->bias,
                              .mass = space->kernel.mu + first,
                              .sink = job->parameters.sink > -INFINITY ? space->top + first : NULL,
                              .u = u,
                              .column = space->kernel.column_sums + chunk * space->lane});
    const double lift = ldexp(1.0, REAL_LIFT);
    for (int64_t k = 0; k < rows; k++) u[k] *= lift;
}

static void clear_sums(const ota_backward_job *job, int64_t chunk) {
    const ota_backward_space *space = job->space;
    memset(space->kernel.column_sums + chunk * space->lane, 0,
           (size_t)space->lane * sizeof(double));
}

void form_kernel(void *context, int64_t chunk, int worker) {
    ota_backward_job *job = context;
    const ota_cpu_device *device = job->device;
    const ota_resolved *r = device->resolved;
    ota_backward_space *space = job->space;
    ota_backward_worker w = space->own->workers[worker];
    double *usable = space->kernel.usable + chunk * space->lane;
    const bool masked = ota_is_masked(device->resolved);
    ota_backward_clear_chunks(space, chunk, 1);
    int64_t first, last;
    ota_adjoint_rows(r->queries, chunk, &first, &last);
    w.raw = NULL;
    ota_watch watch = ota_watch_within(&r->settings);
    for (int64_t at = first; at < last; at += OTA_BLOCK_ROWS) {
        const int64_t rows = ota_int_min(OTA_BLOCK_ROWS, last - at);
        if (ota_watch_ends(&watch, rows * ota_row_work(r))) return;
        w.scores = kernel_row(job, at);
        load_rows(job, &w, at, rows, true);
        form_tile(job, &w, at, rows, 0, r->keys, device->dense_stride);
        for (int64_t k = 0; k < rows; k++) {
            real *row = kernel_row(job, at + k);
            for (int64_t j = 0; masked && j < r->keys; j++)
                usable[j] += row[j] > (real)-INFINITY ? 1.0 : 0.0;
            if (shift_row(job, at + k, row)) continue;
            space->kernel.lost[chunk * space->lane] = 1.0;
            return;
        }
        update_rows(job, chunk, at, rows);
    }
}

void row_round(void *context, int64_t chunk, int worker) {
    (void)worker;
    const ota_backward_job *job = context;
    int64_t first, last;
    const ota_resolved *r = job->device->resolved;
    ota_watch watch = ota_watch_within(&r->settings);
    ota_adjoint_rows(r->queries, chunk, &first, &last);
    clear_sums(job, chunk);
    for (int64_t end = first; ota_watch_rows(&watch, r->keys, last, &first, &end);)
        update_rows(job, chunk, first, end - first);
}

void reverse(void *context, int64_t chunk, int worker) {
    (void)worker;
    const ota_backward_job *job = context;
    const ota_cpu_device *device = job->device;
    const ota_backward_space *space = job->space;
    int64_t first, last;
    ota_adjoint_rows(device->resolved->queries, chunk, &first, &last);
    clear_sums(job, chunk);
    ota_watch watch = ota_watch_within(&device->resolved->settings);
    for (int64_t end = first; ota_watch_rows(&watch, device->resolved->keys, last, &first, &end);)
        KERNELS(device)->linear_reverse(
            &(ota_round_operands){.kernel = kernel_row(job, first),
                                  .ldk = device->dense_stride,
                                  .rows = end - first,
                                  .columns = device->resolved->keys,
                                  .v = space->own->bias,
                                  .mass = space->a + first,
                                  .u = space->f + first,
                                  .column = space->kernel.column_sums + chunk * space->lane});
}

/* P of a block of rows, and beside dL/dout their a. */
void advantages(void *context, int64_t block, int worker) {
    ota_backward_job *job = context;
    const ota_cpu_device *device = job->device;
    const ota_resolved *r = device->resolved;
    ota_backward_space *space = job->space;
    ota_strip *strip = &space->own->strip;
    const int64_t at = block * OTA_BLOCK_ROWS, first = job->strip_first + at;
    const int64_t rows = ota_int_min(job->strip_rows - at, OTA_BLOCK_ROWS);
    const int64_t width = device->values_width, stride = strip->stride;
    const bool given = job->want->solved != 0 && ota_array_present(&job->arrays->out);
    const ota_backward_worker w = worker_at(job, worker, at);
    real *out = w.product, *wide = (real *)space->own->kernel_rows + at * (width + 1);
    load_rows(job, &w, first, rows, true);
    if (block == 0) memset(strip->count, 0xff, (size_t)strip->rows * sizeof *strip->count);
    for (int64_t k = 0; k < rows; k++) {
        strip->low[at + k] = 0;
        strip->high[at + k] = r->keys;
        kernel_weights(job, first + k, (real *)w.weights + k * stride);
    }
    if (given) {
        pack_rows(&job->arrays->out, job->batch, job->head, first, rows, out, width);
    } else {
        memset(out, 0, (size_t)(rows * width) * sizeof *out);
        const ota_product sizes = {rows, r->keys, width, stride, width, width};
        KERNELS(device)->apply(w.weights, packed_of(job)->values, &sizes, out);
    }
    for (int64_t k = 0; k < rows; k++) {
        const real *gradient = (const real *)w.gradients + k * width;
        const double mu = space->kernel.mu[first + k];
        double sum = 0.0;
        for (int64_t q = 0; q < width; q++) sum += (double)gradient[q] * (double)out[k * width + q];
        space->a[first + k] = mu > 0.0 ? sum / mu : 0.0;
        memcpy(wide + k * (width + 1), gradient, (size_t)width * sizeof *wide);
        wide[k * (width + 1) + width] = (real)space->a[first + k];
    }
}

void last_keys(void *context, int64_t tile, int worker) {
    const ota_backward_job *job = context;
    const ota_backward_space *space = job->space;
    const int64_t width = job->device->values_width + 1, from = tile * OTA_KEY_TILE;
    const int64_t left = job->device->resolved->keys - from;
    const int64_t to = from + ota_int_min(left, OTA_KEY_TILE);
    double *sum = space->own->kernel_sum;
    if (job->strip_first == 0)
        memset(sum + from * width, 0, (size_t)((to - from) * width) * sizeof *sum);
    add_rows(job, &space->own->workers[worker], space->own->strip.weights, space->own->kernel_rows,
             width, from, to, sum);
}

/* What the last row update and P V leave of dL/df, dL/dg and dL/dmu. */
void last_gradients(ota_backward_job *job) {
    const ota_cpu_device *device = job->device;
    const ota_backward_space *space = job->space;
    const int64_t width = device->values_width;
    const double tau = job->parameters.tau, *mu = space->kernel.mu;
    const ota_kernel_view *rounds = &space->kernel;
    double *f_grad = rounds->f_grad;
    for (int64_t i = 0; i < device->resolved->queries; i++) {
        f_grad[i] = mu[i] * space->a[i] / tau;
        rounds->row_mass_grad[i] += space->a[i];
    }
    for (int64_t j = 0; j < device->resolved->keys; j++) {
        const real *value = (const real *)packed_of(job)->values + j * width;
        const double *sum = space->own->kernel_sum + j * (width + 1);
        double derivative = -sum[width];
        for (int64_t q = 0; q < width; q++) derivative += (double)value[q] * sum[q];
        rounds->g_grad[j] = derivative / tau;
    }
}

/* Values and B as panels, and the last v for the weights. */
void pack_dimensions(ota_backward_job *job) {
    const ota_cpu_device *device = job->device;
    const ota_backward_space *space = job->space;
    const ota_kernel_view *rounds = &space->kernel;
    const int64_t m = device->resolved->keys, values = device->values_width,
                  width = space->own->kernel_width;
    real *packed = space->own->kernel_packed;
    memset(packed, 0, (size_t)ota_packed_length(m, width) * sizeof *packed);
    for (int64_t j = 0; j < m; j++) {
        double b[2 * OTA_KERNEL_ROUNDS_SHARED + 1];
        rounds->key(rounds->rounds, j, b);
        real *to = packed + j / OTA_PANEL * width * OTA_PANEL + j % OTA_PANEL;
        const real *value = (const real *)packed_of(job)->values + j * values;
        for (int64_t q = 0; q < width; q++)
            to[q * OTA_PANEL] = q < values ? value[q] : (real)b[q - values];
    }
    load_kernel_column(job, rounds->v, 1.0);
}
