/* What the caller gets, compiled for each type. Rows are walked in strips; the blocks of OTA_BLOCK_ROWS
 * rows of a strip leave P and dL/d(raw products) of all keys, from which its tiles of OTA_KEY_TILE keys then take dK
 * and dV. Products are made in T and summed over strips in f64. Entmax blocks with few weights leave lists instead
 * (n = rows of the strip, m = keys):
 *
 *     P, dS   [n][m], or of row i the pairs (where[i][k], P[i][k], dS[i][k]), k < count[i]
 *     dV += P^T dL/dout        dK += dS^T Q        dQ = dS K */
#include "pairs.h"

#include <math.h>
#include <string.h>

#include "regularisers/tsallis.h"

/* ---- outputs of rows -------------------------------------------------------------------------- */

/* dL/dS -> dL/d(scores before the softcap) in place; z, what the softcap was applied to, over the softcap. Returns dL/dsoftcap. */
static double through_softcap(const ota_cpu_device *device, const real *z, int64_t count,
                              bool wanted, real *gradient) {
    enum { PIECE = 128 };
    double derivative = 0.0;
    for (int64_t first = 0; first < count; first += PIECE) {
        const int64_t here = ota_int_min(count - first, PIECE);
        real tanh_z[PIECE], slope[PIECE], *g = gradient + first;
        KERNELS(device)->terms->tanh(z + first, here, tanh_z, slope);
        for (int64_t j = 0; wanted && j < here; j++) {
            if (!(g[j] < (real)0 || g[j] > (real)0)) continue;
            derivative +=
                (double)g[j] * ((double)tanh_z[j] - (double)z[first + j] * (double)slope[j]);
        }
        for (int64_t j = 0; j < here; j++) {
            const real through = g[j] * slope[j];
            g[j] = g[j] < (real)0 || g[j] > (real)0 ? through : g[j];
        }
    }
    return derivative;
}

/* The pairs of a row that gradients are of. */
typedef struct row_pairs {
    int64_t query, count;
    const int32_t *keys; /* [count], which rise; NULL: all keys */
    int64_t full;        /* behind them pairs at their caps, which have weight alone */
} row_pairs;

static inline int64_t key_of(const row_pairs *row, int64_t e) {
    return row->keys == NULL ? e : row->keys[e];
}

/* dL/dS -> dL/d(raw products or matrix) in place, and the inner terms' own gradients. `raw` is spent. */
static void through_terms(const ota_backward_job *job, real *raw, const row_pairs *row,
                          int64_t chunk, real *gradient) {
    const ota_resolved *r = job->resolved;
    ota_backward_space *space = job->space;
    const int64_t count = row->count, diagonal = ota_row_number(r, row->query) + r->keys - 1;
    const ota_term *inside = NULL, *softcap = NULL;
    int inside_at = 0, softcap_at = 0;
    for (int t = 0; t < r->term_count; t++) {
        if (ota_term_form_of(&r->terms[t]) == OTA_FORM_SOFTCAP) {
            softcap = &r->terms[t];
            softcap_at = t;
        }
        if (!ota_term_is_inside(&r->terms[t])) continue;
        inside = &r->terms[t];
        inside_at = t;
    }
    if (softcap != NULL) {
        const real rate = (real)(r->scale / softcap->value);
        for (int64_t e = 0; inside != NULL && e < count; e++)
            raw[e] +=
                (real)ota_array_get(&inside->array, 0, job->head, 0, diagonal - key_of(row, e));
        KERNELS(job->device)->multiply(raw, count, rate);
        const bool wanted = ota_gradient_of_term(r, job->want, softcap_at) != NULL;
        space->row_sums[row->query * OTA_ROW_SUMS + OTA_SUM_SOFTCAP] =
            through_softcap(job->device, raw, count, wanted, gradient);
    }
    KERNELS(job->device)->multiply(gradient, count, (real)r->scale);
    if (inside == NULL || ota_gradient_of_term(r, job->want, inside_at) == NULL) return;
    double *sum =
        space->sums.terms[inside_at].partial + chunk * space->sums.terms[inside_at].length;
    for (int64_t e = 0; e < count; e++) sum[diagonal - key_of(row, e)] += (double)gradient[e];
}

/* Numbers of a row's pairs into the caller's row of all keys; `line` takes those where the pairs are a list. */
static void put_pairs(const ota_backward_job *job, const ota_array *to, const row_pairs *row,
                      const real *numbers, real *line) {
    const int64_t m = job->resolved->keys;
    if (row->keys != NULL) {
        memset(line, 0, (size_t)m * sizeof *line);
        for (int64_t e = 0; e < row->count; e++) line[row->keys[e]] = numbers[e];
        numbers = line;
    }
    unpack_rows(to, job->batch, job->head, row->query, 1, numbers, m);
}

/* Terms added after the softcap. */
static void outer_terms(const ota_backward_job *job, const row_pairs *row, int64_t chunk,
                        const real *gradient, real *line) {
    const ota_resolved *r = job->resolved;
    ota_backward_space *space = job->space;
    const int64_t query = row->query, count = row->count;
    for (int t = 0; t < r->term_count; t++) {
        const ota_term *term = &r->terms[t];
        const ota_term_sum *sums = &space->sums.terms[t];
        const ota_term_form form = ota_term_form_of(term);
        if (ota_gradient_of_term(r, job->want, t) == NULL || ota_term_is_inside(term)) continue;
        if (form == OTA_FORM_LINEAR_DISTANCE) {
            const int64_t position = ota_row_position(r, query);
            double derivative = 0.0;
            for (int64_t e = 0; e < count; e++)
                derivative -= (double)gradient[e] * fabs((double)(position - key_of(row, e)));
            space->row_sums[query * OTA_ROW_SUMS + OTA_SUM_ALIBI] = derivative;
        } else if (form == OTA_FORM_ADDS_DIFFERENCES) {
            double *sum =
                sums->partial + chunk * sums->length + ota_row_number(r, query) + r->keys - 1;
            for (int64_t e = 0; e < count; e++) sum[-key_of(row, e)] += (double)gradient[e];
        } else if (form == OTA_FORM_ADDS_PAIRS && sums->direct) {
            put_pairs(job, ota_gradient_of_term(r, job->want, t), row, gradient, line);
        } else if (form == OTA_FORM_ADDS_PAIRS) {
            const bool own_row = term->array.size[2] != 1, own_key = term->array.size[3] != 1;
            double *to = own_row ? ota_term_slice(job, t) + query * term->array.size[3]
                                 : sums->partial + chunk * sums->length;
            for (int64_t e = 0; e < count; e++)
                to[own_key ? key_of(row, e) : 0] += (double)gradient[e];
        }
    }
}

/* dL/dS of a row's pairs becomes dL/d(raw products); what the terms and the caller take of both. */
static void close_pairs(const ota_backward_job *job, const row_pairs *row, int64_t chunk, real *raw,
                        real *line, real *gradient) {
    const ota_gradients *want = job->want;
    outer_terms(job, row, chunk, gradient, line);
    if (ota_array_present(&want->scores)) put_pairs(job, &want->scores, row, gradient, line);
    through_terms(job, raw, row, chunk, gradient);
    if (ota_array_present(&want->matrix)) put_pairs(job, &want->matrix, row, gradient, line);
}

/* Derivatives by temperature, order and sink logit that need this row only. `s`: scores of the pairs, which weights that are powers
 * do not ask for, and then may be NULL. */
static void row_parameters(const ota_backward_job *job, const row_pairs *row, const real *s,
                           const real *p, const real *gradient) {
    ota_backward_space *space = job->space;
    const int64_t query = row->query;
    const double tau = job->parameters.tau, order = job->parameters.order, f = space->f[query];
    const real *h = job->state.biased ? space->own->bias : NULL;
    const bool tsallis = job->parameters.regulariser->tsallis;
    const bool with_order = ota_array_present(&job->want->order);
    double *sums = space->row_sums + query * OTA_ROW_SUMS, rest, temperature = 0.0, by_order = 0.0;
    for (int64_t e = 0; e < row->count; e++) {
        const double g = (double)gradient[e];
        if (!(p[e] > (real)0) || (!(g > 0.0) && !(g < 0.0) && !isnan(g))) continue;
        if (tsallis)
            temperature -= g * ota_tsallis_level((double)p[e], order);
        else
            temperature -=
                g * ((double)s[e] + f + (h == NULL ? 0.0 : (double)h[key_of(row, e)])) / tau;
        if (with_order) by_order += g * tau * ota_tsallis_order_slope((double)p[e], order);
    }
    const double w = sink_slope(job, query, &rest);
    if (w > 0.0) {
        const double g = -w * space->a[query] / tau;
        temperature -=
            g * (tsallis ? ota_tsallis_level(rest, order) : (job->parameters.sink + f) / tau);
        if (with_order) by_order += g * tau * ota_tsallis_order_slope(rest, order);
        sums[OTA_SUM_SINK] = g;
    }
    if (space->bad[query]) temperature = by_order = sums[OTA_SUM_SINK] = (double)NAN;
    sums[OTA_SUM_TEMPERATURE] = temperature;
    sums[OTA_SUM_ORDER] = by_order;
}

/* ---- strips of rows --------------------------------------------------------------------------- */

/* A worker whose block lies in the strip, from its row `at` on. */
ota_backward_worker worker_at(const ota_backward_job *job, int worker, int64_t at) {
    const ota_cpu_device *device = job->device;
    const ota_strip *strip = &job->space->own->strip;
    ota_backward_worker w = job->space->own->workers[worker];
    w.weights = (real *)strip->weights + at * strip->stride;
    w.upstream = (real *)strip->slopes + at * strip->stride;
    w.where = strip->where == NULL ? NULL : strip->where + at * strip->stride;
    w.queries = (real *)strip->queries + at * device->resolved->width;
    w.gradients = (real *)strip->upstream + at * device->values_width;
    return w;
}

/* Scores of a block of rows: -inf outside the keys that some of them has, [*low, *high). */
static void form_block(const ota_backward_job *job, const ota_backward_worker *w, int64_t first,
                       int64_t rows, int64_t *low, int64_t *high) {
    const ota_cpu_device *device = job->device;
    const ota_resolved *r = device->resolved;
    const int64_t m = r->keys, stride = job->space->own->strip.stride;
    *low = m;
    *high = 0;
    for (int64_t k = 0; k < rows; k++) {
        int64_t begin, end;
        ota_row_range(r, job->batch, first + k, m, &begin, &end);
        if (begin >= end) continue;
        if (begin < *low) *low = begin;
        if (end > *high) *high = end;
    }
    *low = *low < *high ? *low / OTA_PANEL * OTA_PANEL : 0;
    ota_backward_worker at = *w;
    at.scores = (real *)w->scores + *low;
    at.raw = w->raw == NULL ? NULL : (real *)w->raw + *low;
    if (*low < *high) form_tile(job, &at, first, rows, *low, *high, stride);
    for (int64_t k = 0; k < rows; k++) {
        real *row = (real *)w->scores + k * stride;
        for (int64_t j = 0; j < *low; j++) row[j] = (real)-INFINITY;
        for (int64_t j = *high; j < m; j++) row[j] = (real)-INFINITY;
    }
}

/* Do all rows of a block have the lists that their slopes were kept as? Then P, U and keys of these. */
static bool load_lists(const ota_backward_job *job, const ota_backward_worker *w, int64_t first,
                       int64_t rows, int64_t *count, int64_t *full) {
    const ota_backward_space *space = job->space;
    const int64_t stride = space->own->strip.stride;
    if (!job->lists || job->mode != OTA_BACKWARD_IMPLICIT) return false;
    for (int64_t k = 0; k < rows; k++) {
        if (space->listed[first + k] < 0 || space->bad[first + k]) return false;
    }
    for (int64_t k = 0; k < rows; k++) {
        const ota_slope_list list = list_of(job, first + k);
        const size_t bytes = (size_t)list.count * sizeof(real), places = sizeof *w->where;
        real *weights = (real *)w->weights + k * stride;
        int32_t *where = w->where + k * stride;
        memcpy(weights, list.weights, bytes);
        memcpy(weights + list.count, list.full_weights, (size_t)list.full * sizeof *weights);
        memcpy((real *)w->upstream + k * stride, list.upstream, bytes);
        memcpy(where, list.keys, (size_t)list.count * places);
        memcpy(where + list.count, list.full_keys, (size_t)list.full * places);
        count[k] = list.count;
        full[k] = list.full;
    }
    return true;
}

/* U of a list -> dL/dS. */
static void close_list(const ota_backward_job *job, const real *slope, const real *b, int64_t count,
                       double a, real *u) {
    const double rate = fmin(1.0 / job->parameters.tau, (double)REAL_MAX);
    KERNELS(job->device)->slopes(slope, b, count, (real)a, (real)rate, u);
}

/* Raw products of the pairs of a list, row `row` of a block, where a softcap asks for them: those of all keys stand there where the
 * block has been formed. */
static real *raw_of_list(const ota_backward_job *job, const ota_backward_worker *w, int64_t row,
                         const row_pairs *pairs) {
    const ota_resolved *r = job->resolved;
    real *raw = w->raw == NULL ? NULL : (real *)w->raw + row * job->space->own->strip.stride;
    if (raw == NULL) return NULL;
    if (job->mode == OTA_BACKWARD_FREE) {
        for (int64_t e = 0; e < pairs->count; e++) raw[e] = raw[pairs->keys[e]];
    } else if (r->from_matrix) {
        for (int64_t e = 0; e < pairs->count; e++)
            raw[e] = (real)ota_array_get(&r->problem.scores, job->batch, job->head, pairs->query,
                                         pairs->keys[e]);
    } else {
        KERNELS(job->device)
            ->gather_dot((const real *)w->queries + row * r->width, pairs->keys, pairs->count,
                         job->space->own->keys, r->width, r->width, raw);
    }
    return raw;
}

/* dS of a row that is a list, and what its query gets. */
static void list_slopes(const ota_backward_job *job, const ota_backward_worker *w,
                        const row_pairs *pairs, int64_t row, int64_t block, real *queries_grad) {
    const ota_cpu_device *device = job->device;
    const ota_resolved *r = device->resolved;
    ota_backward_space *space = job->space;
    const int64_t query = pairs->query, count = pairs->count, at = row * space->own->strip.stride;
    real *u = (real *)w->upstream + at, *p = (real *)w->weights + at, *slope = w->slope,
         *line = w->line;
    if (job->mode == OTA_BACKWARD_FREE) {
        double total, rest;
        list_upstream(job, w, row, query, pairs->keys, count, u);
        row_powers(job, p, count, slope);
        const double middle = centre(job, query, p, slope, NULL, count, u);
        const double sum = KERNELS(device)->slope_mean(slope, u, NULL, count, &total);
        const double sink = sink_slope(job, query, &rest);
        total += sink;
        const double a = total > 0.0 ? (sum - sink * middle) / total : 0.0;
        space->a[query] = a + middle;
        close_list(job, slope, NULL, count, a, u);
    } else if (ota_backward_is_steep(job)) {
        for (int64_t e = 0; e < count; e++)
            u[e] =
                (real)ota_steep_apart(&space->steep, query, pairs->keys[e], space->b, (double)u[e]);
        close_list(job, list_of(job, query).slopes, NULL, count, 0.0, u);
    } else {
        const real *advantage = space->own->advantage;
        for (int64_t e = 0; e < count; e++) line[e] = advantage[pairs->keys[e]];
        close_list(job, list_of(job, query).slopes, line, count, space->a[query], u);
    }
    if (job->choice.sums) row_parameters(job, pairs, NULL, p, u);
    close_pairs(job, pairs, block, raw_of_list(job, w, row, pairs), line, u);
    if (r->problem.dropout > 0.0)
        dropout_row(r, job->dropout_key, query, 0, pairs->keys, count + pairs->full, p);
    if (queries_grad != NULL)
        KERNELS(device)->spmv(u, pairs->keys, count, space->own->keys, r->width, r->width,
                              queries_grad);
}

/* The same of a block of rows of all keys. */
static void close_block(const ota_backward_job *job, const ota_backward_worker *w, int64_t first,
                        int64_t rows, int64_t block) {
    const int64_t stride = job->space->own->strip.stride;
    for (int64_t k = 0; k < rows; k++) {
        const row_pairs row = {.query = first + k, .count = job->resolved->keys};
        real *raw = w->raw == NULL ? NULL : (real *)w->raw + k * stride;
        close_pairs(job, &row, block, raw, w->line, (real *)w->upstream + k * stride);
    }
}

static void slopes_block(ota_backward_job *job, const ota_backward_worker *w, int64_t first,
                         int64_t rows, int64_t block, bool solved) {
    const ota_cpu_device *device = job->device;
    const ota_resolved *r = device->resolved;
    ota_backward_space *space = job->space;
    const int64_t stride = space->own->strip.stride;
    if (!job->state.stored) form_upstream(job, w, first, rows, 0, r->keys, stride);
    for (int64_t k = 0; k < rows; k++) {
        const int64_t i = first + k;
        const real *s = (const real *)w->scores + k * stride;
        real *u = (real *)w->upstream + k * stride, *p = (real *)w->weights + k * stride;
        const bool free = job->mode == OTA_BACKWARD_FREE,
                   weighed = free || ota_backward_is_centred(job);
        if (!free)
            find_weights(job, i, s, p);
        else if (!solved)
            solve_row(job, i, s, ota_row_mass(r, job->batch, job->head, i), p);
        if (weighed) row_slopes(job, i, r->keys, s, p, w->slope);
        const double middle =
            centre(job, i, p, w->slope, free ? NULL : space->own->advantage, r->keys, u);
        if (free) space->a[i] = mean_of(job, i, u, NULL, middle, w->slope);
        pairs(job, i, s, weighed, u, p, w->slope);
        space->a[i] += middle;
        const row_pairs row = {.query = i, .count = r->keys};
        if (job->choice.sums && !job->state.stored) row_parameters(job, &row, s, p, u);
    }
    close_block(job, w, first, rows, block);
    for (int64_t k = 0; r->problem.dropout > 0.0 && k < rows; k++) {
        dropout_row(r, job->dropout_key, first + k, 0, NULL, r->keys,
                    (real *)w->weights + k * stride);
    }
}

/* P of one row of fixed rounds. */
void kernel_weights(const ota_backward_job *job, int64_t query, real *p) {
    const ota_cpu_device *device = job->device;
    const ota_kernel_view *rounds = &job->space->kernel;
    const int64_t stride = device->dense_stride;
    const double u = ldexp(rounds->u[rounds->count * rounds->row_lane + query], -REAL_LIFT);
    KERNELS(device)->weights((const real *)workspace_of(job)->scores + query * stride, stride, 1,
                             device->resolved->keys, job->space->own->bias, &u, p, stride);
}

/* What dL/dS of a row gives temperature and sink. All numbers of the row may be moved together: from its largest on
 * they are small where dL/dS is not. */
static void kernel_parameters(const ota_backward_job *job, int64_t query, const real *s,
                              const real *gradient) {
    const ota_cpu_device *device = job->device;
    ota_backward_space *space = job->space;
    const int64_t m = device->resolved->keys;
    const double sink = job->parameters.sink;
    double *sums = space->row_sums + query * OTA_ROW_SUMS, by_sink = 0.0, derivative = 0.0;
    double top = (double)KERNELS(device)->maximum(s, NULL, m);
    if (sink > -INFINITY) {
        by_sink =
            space->kernel.sink(space->kernel.rounds, query, ldexp(space->top[query], -REAL_LIFT));
        top = sink > top ? sink : top;
        derivative = by_sink * (sink - top);
    }
    for (int64_t j = 0; j < m; j++) {
        const double g = (double)gradient[j];
        if (g < 0.0 || g > 0.0 || isnan(g)) derivative += g * ((double)s[j] - top);
    }
    sums[OTA_SUM_SINK] = by_sink;
    sums[OTA_SUM_TEMPERATURE] = -derivative / job->parameters.tau;
}

/* P and dL/dS of fixed rounds from their kernel. */
static void kernel_block(const ota_backward_job *job, const ota_backward_worker *w, int64_t first,
                         int64_t rows, int64_t at, int64_t block) {
    const ota_cpu_device *device = job->device;
    const ota_backward_space *space = job->space;
    const int64_t m = device->resolved->keys, stride = space->own->strip.stride;
    const int64_t width = space->own->kernel_width, values = device->values_width;
    real *long_rows = (real *)space->own->kernel_rows + at * width;
    for (int64_t k = 0; k < rows; k++) {
        double a[2 * OTA_KERNEL_ROUNDS_SHARED + 1];
        space->kernel.row(space->kernel.rounds, first + k, a);
        real *row = long_rows + k * width;
        memcpy(row, (const real *)w->gradients + k * values, (size_t)values * sizeof *row);
        for (int64_t q = values; q < width; q++) row[q] = (real)-a[q - values];
    }
    KERNELS(device)->products(long_rows, space->own->kernel_packed, rows, m, width, w->upstream,
                              stride);
    for (int64_t k = 0; k < rows; k++) {
        real *p = (real *)w->weights + k * stride;
        kernel_weights(job, first + k, p);
        KERNELS(device)->slopes(p, NULL, m, (real)0, (real)(1.0 / job->parameters.tau),
                                (real *)w->upstream + k * stride);
        if (job->choice.sums)
            kernel_parameters(job, first + k, (const real *)w->scores + k * stride,
                              (real *)w->upstream + k * stride);
    }
    close_block(job, w, first, rows, block);
}

void rows_task(void *context, int64_t block, int worker) {
    ota_backward_job *job = context;
    const ota_cpu_device *device = job->device;
    const ota_resolved *r = device->resolved;
    ota_backward_space *space = job->space;
    ota_strip *strip = &space->own->strip;
    const int64_t at = block * OTA_BLOCK_ROWS, first = job->strip_first + at;
    const int64_t left = r->queries - first, stride = strip->stride;
    const int64_t rows = ota_int_min(left, OTA_BLOCK_ROWS);
    const int64_t index = (job->batch * r->heads + job->head) * r->queries;
    int64_t low = 0, high = r->keys;
    if (ota_interrupted(&r->settings) != OTA_OK) return;
    const ota_backward_worker w = worker_at(job, worker, at);
    real *out = ota_array_present(&job->want->queries) && r->width > 0 ? w.product : NULL;
    load_rows(job, &w, first, rows, true);
    bool listed = load_lists(job, &w, first, rows, strip->count + at, strip->full + at);
    if (!listed && (!job->space->kernel.carried || w.raw != NULL || job->choice.sums))
        form_block(job, &w, first, rows, &low, &high);
    if (job->space->kernel.carried) low = 0, high = r->keys;
    for (int64_t k = 0; k < rows && !listed; k++) {
        strip->low[at + k] = low;
        strip->high[at + k] = high;
        strip->count[at + k] = -1;
    }
    const bool solved = job->lists && job->mode == OTA_BACKWARD_FREE;
    if (solved)
        listed = row_lists(job, &w, worker, first, rows, strip->count + at, strip->full + at);
    for (int64_t k = 0; listed && k < rows; k++) {
        const row_pairs pairs = {first + k, strip->count[at + k], w.where + k * stride,
                                 strip->full[at + k]};
        list_slopes(job, &w, &pairs, k, block, out == NULL ? NULL : out + k * r->width);
    }
    if (!listed) {
        if (job->space->kernel.carried)
            kernel_block(job, &w, first, rows, at, block);
        else
            slopes_block(job, &w, first, rows, block, solved);
        if (out != NULL) {
            memset(out, 0, (size_t)(rows * r->width) * sizeof *out);
            const ota_product sizes = {.rows = rows,
                                       .keys = high > low ? high - low : 0,
                                       .width = r->width,
                                       .ldp = stride,
                                       .ldv = r->width,
                                       .ldo = r->width};
            KERNELS(device)->apply((const real *)w.upstream + low,
                                   (const real *)space->own->keys + low * r->width, &sizes, out);
        }
    }
    for (int64_t k = 0; job->mode == OTA_BACKWARD_FREE && k < rows; k++)
        space->sums.row_mass[index + first + k] =
            space->bad[first + k] ? (double)NAN : space->a[first + k];
    if (out != NULL)
        unpack_rows(&job->want->queries, job->batch, job->head, first, rows, out, r->width);
    if (r->from_matrix) return;
    (void)make_finite(w.queries, rows * r->width);
}

/* ---- tiles of keys ---------------------------------------------------------------------------- */

/* The first of `count` keys, which rise, from `from` on. */
static int64_t first_from(const int32_t *where, int64_t count, int64_t from) {
    int64_t low = 0, high = count;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (where[middle] < from)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* to[key] += sum over the rows of the strip that are lists of tile[key] x; `full`: of the pairs at their caps. */
static void add_lists(const ota_backward_job *job, const real *tile, bool full, const real *x,
                      int64_t width, int64_t from, int64_t to, double *sum) {
    const ota_strip *strip = &job->space->own->strip;
    for (int64_t i = 0; i < job->strip_rows; i++) {
        if (strip->count[i] < 0) continue;
        const int64_t count = full ? strip->full[i] : strip->count[i];
        const int64_t at = i * strip->stride + (full ? strip->count[i] : 0);
        const int32_t *where = strip->where + at;
        const int64_t low = first_from(where, count, from);
        int64_t high = low;
        while (high < count && where[high] < to) high++;
        if (low >= high) continue;
        KERNELS(job->device)
            ->scatter_add(tile + at + low, where + low, high - low, x + i * width, width, sum);
    }
}

/* The same for rows that hold all keys. */
void add_rows(const ota_backward_job *job, const ota_backward_worker *w, const real *tile,
              const real *x, int64_t width, int64_t from, int64_t to, double *sum) {
    const ota_strip *strip = &job->space->own->strip;
    real *product = w->product;
    bool any = false;
    for (int64_t i = 0, last; i < job->strip_rows; i = last) {
        last = i + 1;
        if (strip->count[i] >= 0 || strip->low[i] >= to || strip->high[i] <= from) continue;
        while (last < job->strip_rows && strip->count[last] < 0 && strip->low[last] < to &&
               strip->high[last] > from)
            last++;
        if (!any) memset(product, 0, (size_t)((to - from) * width) * sizeof *product);
        any = true;
        KERNELS(job->device)
            ->gemm_tn(tile + i * strip->stride + from, strip->stride, x + i * width, last - i,
                      to - from, width, product);
    }
    if (any)
        KERNELS(job->device)->accumulate(product, (to - from) * width, 1.0, sum + from * width);
}

void keys_task(void *context, int64_t tile, int worker) {
    const ota_backward_job *job = context;
    const ota_cpu_device *device = job->device;
    const ota_resolved *r = device->resolved;
    const ota_backward_space *space = job->space;
    const ota_strip *strip = &space->own->strip;
    const ota_backward_worker *w = &space->own->workers[worker];
    const int64_t from = tile * OTA_KEY_TILE;
    const int64_t to = ota_int_min(from + OTA_KEY_TILE, r->keys);
    if (ota_interrupted(&r->settings) != OTA_OK) return;
    if (ota_array_present(&job->want->keys) && r->width > 0) {
        add_lists(job, strip->slopes, false, strip->queries, r->width, from, to,
                  space->own->keys_sum);
        add_rows(job, w, strip->slopes, strip->queries, r->width, from, to, space->own->keys_sum);
    }
    if (ota_array_present(&job->want->values) && ota_array_present(&job->want->out_grad) &&
        !job->space->kernel.carried) {
        const int64_t width = device->values_width;
        add_lists(job, strip->weights, false, strip->upstream, width, from, to,
                  space->own->values_sum);
        if (job->parameters.regulariser->capped)
            add_lists(job, strip->weights, true, strip->upstream, width, from, to,
                      space->own->values_sum);
        add_rows(job, w, strip->weights, strip->upstream, width, from, to, space->own->values_sum);
    }
}
