/* Rounds on a kernel, compiled for each type: the passes of one head over
 *
 *     K_ij = 2^((S_ij + a_j - m_i) c) 2^lift   [queries][stride], m_i the row's maximum, c = log2(e) / tau
 *     round: u_i = mu_i / (sum_j K_ij v_j + sink_i),  c_j = sum_i u_i K_ij
 *     emit:  P_ij = u_i K_ij v_j written over K,      out = P V
 *
 * The loop over them is solvers/stored_rounds.c. K is formed block by block from the products and its first round runs
 * while the block is in the second cache; the last round makes weights and outputs, so K is read once a round. A
 * streamed plan has no room for K and forms its blocks again every round, with the same bits. What the kernel cannot
 * carry (NaN, infinities, sums that underflow, masses without a place) is told to the solver, which goes on with
 * stored scores. A caller's matrix that lies dense is read, and a coupling written, where it lies. */
#include "rows_io.h"

#include <math.h>
#include <string.h>

/* Blocks of whole score rows stay in the second cache together with the values; multiples of the rows that
 * linear_round takes at once, so that a block's bits are those of its chunk. */
static int64_t rows_at_once(const ota_cpu_device *device) {
    const size_t row = (size_t)device->dense_stride * sizeof(real);
    return row <= ((size_t)8 << 10)    ? OTA_ROW_BLOCK
           : row <= ((size_t)16 << 10) ? 24
           : row <= ((size_t)32 << 10) ? 16
                                       : 8;
}

/* Without the lift: the least sum of a row whose largest entry is 1 and whose scalings are bounded
 * (scaling.c), and the least u that is still normal, lift and all. */
static const double least_row_sum = sizeof(real) == sizeof(double) ? 0x1p-257 : 0x1p-33;
static const double least_row_scaling = sizeof(real) == sizeof(double) ? 0x1p-500 : 0x1p-60;

static double *column_part(const ota_head_place *place, int64_t chunk) {
    return place->workspace->parts + chunk * place->run.device->dense_stride;
}

static void update_rows(ota_head_place *place, int64_t chunk, int64_t first, int64_t rows,
                        const real *kernel) {
    const ota_cpu_device *device = place->run.device;
    const ota_head_workspace *workspace = place->workspace;
    const int64_t stride = device->dense_stride;
    KERNELS(device)->linear_round(&(ota_round_operands){
        .kernel = kernel,
        .ldk = stride,
        .rows = rows,
        .columns = stride,
        .v = workspace->bias,
        .mass = workspace->mu + first,
        .sink = place->head->row.sink > -INFINITY ? workspace->sinks + first : NULL,
        .u = workspace->u + first,
        .column = column_part(place, chunk)});
    const double lift = ldexp(1.0, REAL_LIFT);
    bool lost = false;
    for (int64_t i = first; i < first + rows; i++) {
        const double u = workspace->u[i] * lift, mu = workspace->mu[i];
        lost |= !(u * least_row_sum <= mu) || (mu > 0.0 && u < least_row_scaling);
    }
    if (lost) atomic_store_explicit(&place->lost, true, memory_order_relaxed);
}

/* Temperatures below the top of its row from which on a score is 0 in the kernel, whatever is absorbed, and adds nothing to its
 * rounding (solvers/far_scores.c has the same of stored scores). */
static const double far_depth = 0x1p20;

/* The lowest score of a row without those far below its top, which are as good as forbidden. */
static double without_far(const ota_head_place *place, const real *row, double top,
                          int64_t *forbidden) {
    const double least = top - far_depth * place->head->tau;
    double bottom = top;
    for (int64_t j = 0; j < place->run.device->resolved->keys; j++) {
        const double s = (double)row[j];
        if (!(s > -INFINITY)) continue;
        if (s < least)
            ++*forbidden;
        else
            bottom = fmin(bottom, s);
    }
    return bottom;
}

/* What the floor of the arithmetic needs: range of the scores, squared norms of the queries; and how many keys the
 * row may use. */
static void measure_row(const ota_head_place *place, int64_t chunk, const real *row,
                        const real *query, double top, double mu) {
    const ota_cpu_device *device = place->run.device;
    const ota_resolved *r = device->resolved;
    ota_score_range *range = &place->workspace->score_ranges[chunk];
    int64_t forbidden = 0;
    if (!place->raw || place->head->kernel.masked) {
        double bottom = (double)KERNELS(device)->lowest(row, r->keys, &forbidden);
        if (place->head->kernel.round.absorbed)
            top = (double)KERNELS(device)->maximum(row, NULL, device->dense_stride);
        if (bottom < top - far_depth * place->head->tau)
            bottom = without_far(place, row, top, &forbidden);
        if (!place->raw) range->low = fmin(range->low, bottom);
        if (!place->raw) range->high = fmax(range->high, top);
    }
    if (mu > 0.0 && r->keys - forbidden < range->least) range->least = r->keys - forbidden;
    real norm = 0;
    for (int64_t q = 0; q < r->width; q++) norm += query[q] * query[q];
    range->norm = fmax(range->norm, (double)norm);
}

/* One row of scores, or raw products, into a row of K. */
static void kernel_row(ota_head_place *place, int64_t chunk, int64_t query, const real *vector,
                       real *row) {
    const ota_cpu_device *device = place->run.device;
    ota_head_workspace *workspace = place->workspace;
    const real *a = place->head->kernel.round.absorbed ? workspace->line : NULL;
    const double keys = (double)KERNELS(device)->maximum(row, a, device->key_count);
    const double top = keys > place->head->row.sink || isnan(keys) ? keys : place->head->row.sink;
    const double mu = ota_row_mass(device->resolved, place->batch, place->number, query);
    const bool empty = top <= -INFINITY;
    if (!(fabs(top) < (double)REAL_MAX / 8.0) && !empty) {
        atomic_store_explicit(isfinite(top) ? &place->lost : &place->nonfinite, true,
                              memory_order_relaxed);
    }
    if (empty && mu > 0.0) atomic_store_explicit(&place->infeasible, true, memory_order_relaxed);
    if (place->head->kernel.round.first && place->head->kernel.round.careful && keys > -INFINITY)
        measure_row(place, chunk, row, vector, keys, mu);
    const real shift = empty ? (real)0 : (real)top;
    KERNELS(device)->exp2_scaled(row, a, device->dense_stride, shift, (real)place->c, row);
    workspace->mu[query] = empty ? 0.0 : mu;
    workspace->shift[query] =
        empty ? -INFINITY : (double)shift * (place->raw ? device->resolved->scale : 1.0);
    workspace->sinks[query] =
        place->head->row.sink > -INFINITY
            ? ldexp(exp((place->head->row.sink - (double)shift) / place->head->tau), REAL_LIFT)
            : 0.0;
}

/* A row of K from the caller's numbers where they lie. False: some are not finite, or too large. */
static bool kernel_row_in_place(const ota_head_place *place, int64_t chunk, int64_t query,
                                const real *numbers, real *row) {
    const ota_cpu_device *device = place->run.device;
    const ota_resolved *r = device->resolved;
    const double scale = r->scale;
    real low, high;
    if (!KERNELS(device)->extent(numbers, r->keys, &low, &high)) return false;
    const real best = scale > 0.0 ? high : low, worst = scale > 0.0 ? low : high;
    if (!(fmax(fabs((double)low), fabs((double)high)) * fabs(scale) < (double)REAL_MAX / 8.0))
        return false;
    if (place->head->kernel.round.first && place->head->kernel.round.careful) {
        ota_score_range *range = &place->workspace->score_ranges[chunk];
        range->high = fmax(range->high, scale * (double)best);
        range->low = fmin(range->low, scale * (double)worst);
    }
    KERNELS(device)->exp2_scaled(numbers, NULL, r->keys, best, (real)(place->unit * scale), row);
    for (int64_t j = r->keys; j < device->dense_stride; j++) row[j] = (real)0;
    place->workspace->mu[query] = ota_row_mass(r, place->batch, place->number, query);
    place->workspace->shift[query] = scale * (double)best;
    place->workspace->sinks[query] = 0.0;
    return true;
}

/* The caller's matrix from row `first` on where rows of K can be made of it as it lies; else NULL. */
static const real *matrix_in_place(const ota_head_place *place, int64_t first) {
    const ota_resolved *r = place->run.device->resolved;
    const double unit = place->unit * fabs(r->scale);
    const bool plain =
        r->from_matrix && !place->head->kernel.masked && !place->head->kernel.round.absorbed &&
        !(place->head->row.sink > -INFINITY) && unit > RAW_LEAST && unit < 1.0 / RAW_LEAST;
    return plain ? dense_rows(&r->problem.scores, place->batch, place->number, first) : NULL;
}

/* K of queries [at, at + rows), which belong to one chunk. */
static void form_block(ota_head_place *place, ota_worker *worker, int64_t chunk, int64_t at,
                       int64_t rows, real *to) {
    const ota_cpu_device *device = place->run.device;
    const int64_t stride = device->dense_stride;
    int64_t begin[OTA_ROW_BLOCK], end[OTA_ROW_BLOCK], first = 0;
    const double zeros[OTA_ROW_BLOCK] = {0};
    const real *numbers = matrix_in_place(place, at);
    while (numbers != NULL && first < rows &&
           kernel_row_in_place(place, chunk, at + first, numbers + first * device->resolved->keys,
                               to + first * stride))
        first++;
    if (first == rows) return;
    at += first;
    rows -= first;
    to += first * stride;
    const row_block block = block_at(place, worker, at, rows);
    raw_rows(&block, begin, end, to, stride);
    for (int64_t k = 0; k < rows; k++) {
        real *row = to + k * stride;
        if (!place->raw) {
            apply_terms(KERNELS(device), device->resolved, place->batch, place->number, at + k,
                        begin[k], end[k], row + begin[k]);
        }
        shut_outside(row, begin[k], end[k], stride);
    }
    if (place->head->kernel.masked && place->head->kernel.round.first) {
        KERNELS(device)->columns_top(to, stride, rows, stride, zeros,
                                     (real *)place->workspace->tops + chunk * stride);
    }
    for (int64_t k = 0; k < rows; k++) {
        kernel_row(place, chunk, at + k,
                   (const real *)worker->queries + k * device->resolved->width, to + k * stride);
    }
}

/* Where the block of a chunk that begins at row `at` lies. */
static real *block_of(const ota_head_place *place, const ota_worker *worker, int64_t at) {
    const ota_cpu_device *device = place->run.device;
    return device->strategy == OTA_STRATEGY_STREAMED
               ? worker->block
               : (real *)place->workspace->scores + at * device->dense_stride;
}

static void form_kernel(void *context, int64_t chunk, int worker_index) {
    ota_head_place *place = context;
    ota_cpu_device *device = place->run.device;
    ota_worker *worker = &device->workers[worker_index];
    const int64_t stride = device->dense_stride, step = rows_at_once(device);
    int64_t first, last;
    chunk_rows(device->resolved->queries, chunk, &first, &last);
    if (first == last) return;
    memset(column_part(place, chunk), 0, (size_t)stride * sizeof(double));
    if (place->head->kernel.round.first) {
        real *tops =
            place->head->kernel.masked ? (real *)place->workspace->tops + chunk * stride : NULL;
        for (int64_t j = 0; place->head->kernel.masked && j < stride; j++)
            tops[j] = (real)-INFINITY;
        place->workspace->score_ranges[chunk] =
            (ota_score_range){.low = INFINITY, .high = -INFINITY, .least = device->resolved->keys};
    }
    ota_watch watch = ota_watch_within(&device->resolved->settings);
    for (int64_t at = first; at < last; at += step) {
        const int64_t rows = ota_int_min(step, last - at);
        if (ota_watch_ends(&watch, rows * ota_row_work(device->resolved))) return;
        real *to = block_of(place, worker, at);
        form_block(place, worker, chunk, at, rows, to);
        update_rows(place, chunk, at, rows, to);
    }
}

static void turn_chunk(void *context, int64_t chunk, int worker_index) {
    ota_head_place *place = context;
    int64_t first, last;
    (void)worker_index;
    const ota_cpu_device *device = place->run.device;
    chunk_rows(device->resolved->queries, chunk, &first, &last);
    if (first == last) return;
    memset(column_part(place, chunk), 0, (size_t)device->dense_stride * sizeof(double));
    ota_watch watch = ota_watch_within(&device->resolved->settings);
    for (int64_t end = first; ota_watch_rows(&watch, device->dense_stride, last, &first, &end);)
        update_rows(place, chunk, first, end - first,
                    (const real *)place->workspace->scores + first * device->dense_stride);
}

/* P of one row of K, [count] into `to`, which may be that row, and what the row's outputs need. */
static void plan_row(ota_head_place *place, int64_t query, real *row, real *to, int64_t count,
                     ota_row_found *found) {
    const ota_cpu_device *device = place->run.device;
    const ota_arrays *a = place->run.arrays;
    const ota_head_workspace *workspace = place->workspace;
    const int64_t stride = device->dense_stride;
    const double mu = workspace->mu[query], u = workspace->u[query], t = place->head->tau;
    const bool logs = ota_array_present(&a->lse) || ota_array_present(&a->row_potential);
    *found = (ota_row_found){.potential = -INFINITY, .lse = -INFINITY};
    found->empty = !(workspace->shift[query] > -INFINITY);
    if (!(mu > 0.0)) {
        const double one = 1.0;
        KERNELS(device)->weights(row, stride, 1, stride, workspace->bias, &one, row, stride);
        if (logs && !found->empty) {
            found->lse = log(KERNELS(device)->sum(row, stride) + workspace->sinks[query]) +
                         workspace->shift[query] / t;
        }
        memset(to, 0, (size_t)count * sizeof *to);
        return;
    }
    KERNELS(device)->weights(row, stride, 1, count, workspace->bias, &u, to, count);
    found->sink = u * workspace->sinks[query];
    found->mass = mu - found->sink;
    if (!logs) return;
    const double bare = ldexp(u, REAL_LIFT);
    found->potential = t * log(bare) - workspace->shift[query];
    found->lse = log(mu / bare) + workspace->shift[query] / t;
}

/* The last round of a chunk and everything the caller wants from its rows. */
static void emit_rounds(void *context, int64_t chunk, int worker_index) {
    ota_head_place *place = context;
    cpu_run *w = &place->run;
    ota_cpu_device *device = w->device;
    const int64_t stride = device->dense_stride, step = rows_at_once(device);
    double *receiver;
    ota_head_status *status = begin_chunk(place, chunk, &receiver);
    int64_t first, last;
    chunk_rows(device->resolved->queries, chunk, &first, &last);
    if (first == last) return;
    memset(column_part(place, chunk), 0, (size_t)stride * sizeof(double));
    ota_watch watch = ota_watch_within(&device->resolved->settings);
    for (int64_t at = first; at < last; at += step) {
        const int64_t rows = ota_int_min(step, last - at);
        if (ota_watch_ends(&watch, rows * ota_row_work(device->resolved))) return;
        ota_row_found found[OTA_ROW_BLOCK];
        ota_worker *worker = &device->workers[worker_index];
        real *p = block_of(place, worker, at);
        if (device->strategy == OTA_STRATEGY_STREAMED)
            form_block(place, worker, chunk, at, rows, p);
        if (!place->head->kernel.round.met) update_rows(place, chunk, at, rows, p);
        real *placed = coupling_in_place(w, place->batch, place->number, at);
        real *to = placed != NULL ? placed : p;
        const int64_t ld = placed != NULL ? device->key_count : stride;
        for (int64_t k = 0; k < rows; k++)
            plan_row(place, at + k, p + k * stride, to + k * ld, ld, &found[k]);
        const row_block block = block_at(place, worker, at, rows);
        finish_rows(&block, to, ld, found, place->workspace->mu + at, true, status, receiver);
    }
}

/* c = the chunks' column sums, in order. */
static void gather_columns(const ota_head_place *place) {
    const ota_cpu_device *device = place->run.device;
    double *restrict sum = place->workspace->sums;
    const int64_t live = live_chunks(device->resolved->queries);
    const size_t bytes = (size_t)device->dense_stride * sizeof *sum;
    if (live > 0)
        memcpy(sum, place->workspace->parts, bytes);
    else
        memset(sum, 0, bytes);
    for (int64_t chunk = 1; chunk < live; chunk++) {
        const double *restrict part = column_part(place, chunk);
        for (int64_t j = 0; j < device->dense_stride; j++) sum[j] += part[j];
    }
}

/* After the first kernel: the rows' mass, which keys are in use, and what the floor of the arithmetic needs. */
static void weigh_kernel(ota_head_place *place) {
    const ota_cpu_device *device = place->run.device;
    ota_kernel_state *kernel = &place->head->kernel;
    ota_head_workspace *workspace = place->workspace;
    const int64_t m = device->dense_columns, stride = device->dense_stride;
    const int64_t live = live_chunks(device->resolved->queries);
    double total = 0.0;
    for (int64_t i = 0; i < device->dense_rows; i++) total += workspace->mu[i];
    place->head->mass = total;
    ota_watch watch = ota_watch_within(&device->resolved->settings);
    for (int64_t j = 0; j < m && kernel->masked; j++) {
        if (ota_watch_ends(&watch, device->dense_rows / 8)) break;
        bool used = false;
        for (int64_t chunk = 0; chunk < live && !used; chunk++)
            used = ((const real *)workspace->tops)[chunk * stride + j] > (real)-INFINITY;
        /* A sum of 0 may be weights below the range of the type, or no mass. */
        const bool reached =
            used && ((double)workspace->sums[j] > 0.0 ||
                     ota_key_has_row(device->resolved, place->batch, place->number,
                                     device->transposed, workspace->mu, device->dense_rows, j));
        workspace->used[j] = reached ? OTA_KEY_REACHED : used ? OTA_KEY_IDLE : OTA_KEY_SHUT;
    }
    kernel->range.least_keys = device->resolved->keys;
    kernel->range.low = INFINITY;
    kernel->range.high = -INFINITY;
    kernel->range.norm = 0.0;
    for (int64_t chunk = 0; chunk < live && kernel->round.careful; chunk++) {
        const ota_score_range *one = &workspace->score_ranges[chunk];
        kernel->range.least_keys = ota_int_min(kernel->range.least_keys, one->least);
        kernel->range.low = fmin(kernel->range.low, one->low);
        kernel->range.high = fmax(kernel->range.high, one->high);
        kernel->range.norm = fmax(kernel->range.norm, one->norm);
    }
}

/* v and a in the kernel's type. */
static void round_scaling(const ota_head_place *place) {
    const ota_head_workspace *workspace = place->workspace;
    const ota_cpu_device *device = place->run.device;
    real *v = workspace->bias, *a = workspace->line;
    for (int64_t j = 0; j < device->dense_stride; j++) {
        v[j] = j < device->dense_columns ? (real)workspace->scaling[j] : (real)0;
        a[j] = v[j] > (real)0 ? (real)workspace->absorbed[j] : (real)-INFINITY;
    }
}

static void begin_rounds(ota_head_place *place) {
    const ota_resolved *r = place->run.device->resolved;
    const double c = OTA_LOG2_E / place->head->tau;
    place->unit = c;
    place->head->kernel.masked =
        r->row_terms || r->support_count > 0 || place->run.device->key_count < r->keys;
    place->raw = !r->row_terms && !r->from_matrix && r->scale > 0.0 &&
                 !place->head->kernel.round.absorbed && !(place->head->row.sink > -INFINITY) &&
                 c * r->scale > RAW_LEAST && c * r->scale < 1.0 / RAW_LEAST;
    place->c = (real)(place->raw ? (real)r->scale * (real)c : (real)c);
}

void WORD(ota_kernel_round)(ota_head *head, bool form) {
    ota_head_place *place = head->host.place;
    ota_kernel_state *kernel = &head->kernel;
    const ota_cpu_device *device = place->run.device;
    round_scaling(place);
    if (form) begin_rounds(place);
    atomic_store(&place->lost, false);
    ota_parallel(device->pool, live_chunks(device->resolved->queries),
                 form || device->strategy == OTA_STRATEGY_STREAMED ? form_kernel : turn_chunk,
                 place);
    gather_columns(place);
    kernel->found.lost = atomic_load(&place->lost);
    kernel->found.infeasible = atomic_load(&place->infeasible);
    kernel->found.nonfinite = atomic_load(&place->nonfinite);
    if (kernel->round.first && !kernel->found.lost && !kernel->found.infeasible &&
        !kernel->found.nonfinite)
        weigh_kernel(place);
}

/* The least residual that this arithmetic can be asked for (numerics.md). Products of queries and
 * keys are wrong by a share of their norms, whatever range the scores have. */
double WORD(ota_kernel_floor)(const ota_head *head) {
    const ota_head_place *place = head->host.place;
    const ota_cpu_device *device = place->run.device;
    const double u = sizeof(real) == sizeof(double) ? 0x1p-53 : 0x1p-24;
    const ota_kernel_state *kernel = &head->kernel;
    double reach = kernel->range.high > kernel->range.low
                       ? (kernel->range.high - kernel->range.low) / 4.0
                       : 0.0;
    const real *keys = place->packed->packed_keys;
    const int64_t width = device->resolved->width;
    double key_norm = 0.0;
    for (int64_t j = 0; !device->resolved->from_matrix && j < device->key_count; j += OTA_PANEL) {
        real norm[OTA_PANEL] = {0};
        for (int64_t q = 0; q < width; q++) {
            const real *lane = keys + j * width + q * OTA_PANEL;
            for (int64_t l = 0; l < OTA_PANEL; l++) norm[l] += lane[l] * lane[l];
        }
        /* Keys that nobody may use hold whatever they hold. */
        for (int64_t l = 0; l < OTA_PANEL && j + l < device->key_count; l++) {
            if (!place->head->kernel.masked || place->workspace->used[j + l] != 0)
                key_norm = fmax(key_norm, (double)norm[l]);
        }
    }
    reach += fabs(device->resolved->scale) * sqrt(kernel->range.norm) * sqrt(key_norm);
    return 8.0 * u + u * reach / place->head->tau;
}

void WORD(ota_pack_head)(ota_head *head) {
    ota_head_place *place = head->host.place;
    const ota_resolved *r = place->run.device->resolved;
    pack_kv(&place->run, place->packed, place->batch, place->number / (r->heads / r->key_heads));
}

bool WORD(ota_kernel_emit)(ota_head *head) {
    ota_head_place *place = head->host.place;
    head->kernel.round.first = false;
    round_scaling(place);
    atomic_store(&place->lost, false);
    ota_parallel(place->run.device->pool, live_chunks(place->run.device->resolved->queries),
                 emit_rounds, place);
    if (!head->kernel.round.met) gather_columns(place);
    return !atomic_load(&place->lost);
}

/* Would rounds in f32 on the caller's matrix spare many in f64? Some rows tell: they spread over many temperatures,
 * and f32 does not round them off. */
bool WORD(ota_pays_warm_start)(const ota_head *head) {
    const ota_head_place *place = head->host.place;
    const ota_cpu_device *device = place->run.device;
    const ota_resolved *r = device->resolved;
    const double unit = fabs(r->scale) / head->tau;
    const int64_t rows[] = {0, r->queries / 2, r->queries - 1};
    real *row = place->workspace->line;
    double spread = 0.0, size = 0.0;
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        int64_t forbidden;
        pack_rows(&r->problem.scores, place->batch, place->number, rows[k], 1, row,
                  device->dense_stride);
        const double low = (double)KERNELS(device)->lowest(row, r->keys, &forbidden);
        const double high = (double)KERNELS(device)->maximum(row, NULL, r->keys);
        spread = fmax(spread, high - low);
        size = fmax(size, fmax(fabs(low), fabs(high)));
    }
    return spread * unit >= OTA_WARM_START_RANGE && size * unit * 0x1p-24 <= OTA_WARM_START_WORST;
}
