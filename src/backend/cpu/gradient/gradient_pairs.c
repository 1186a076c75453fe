/* Pairs of rows and keys, compiled for each type: a block of rows against all keys, or against a tile of
 * keys, as scores, U = dL/dP, weights P and dL/dS. n = queries, m = keys. */
#include "pairs.h"

#include "backend/edge.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- packing ---------------------------------------------------------------------------------- */

/* A tile of keys and values, as the kernels want them and as plain rows, with sums of 0 for their gradients; marks keys
 * with values that are not finite. */
static void pack_tile(void *context, int64_t tile, int worker) {
    const ota_backward_job *job = context;
    const ota_cpu_device *device = job->device;
    const ota_resolved *r = device->resolved;
    const ota_packed_kv *packed = packed_of(job);
    const int64_t from = tile * OTA_KEY_TILE, left = r->keys - from, width = device->values_width;
    const int64_t count = ota_int_min(left, OTA_KEY_TILE);
    ota_backward_space *s = job->space;
    (void)worker;
    if (!job->keep_sums)
        memset(s->own->values_sum + from * width, 0, (size_t)(count * width) * sizeof(double));
    if (!r->from_matrix) {
        if (!job->keep_sums)
            memset(s->own->keys_sum + from * r->width, 0,
                   (size_t)(count * r->width) * sizeof(double));
        real *keys = (real *)s->own->keys + from * r->width;
        pack_rows(&r->problem.keys, job->batch, job->key_head, from, count, keys, r->width);
        const ota_array part = ota_array_of(keys, REAL_TYPE, 1, 1, count, r->width);
        pack_keys(KERNELS(job->device), &part, 0, 0, count,
                  (real *)packed->packed_keys + from * r->width);
        (void)make_finite(keys, count * r->width);
    }
    if (!ota_array_present(&job->want->out_grad) || width == 0) return;
    real *values = (real *)packed->value_room + from * width;
    pack_rows(&job->arrays->values, job->batch, job->key_head, from, count, values, width);
    for (int64_t j = 0; j < count; j++)
        packed->nonfinite_keys[from + j] = !make_finite(values + j * width, width);
    const ota_array plain = ota_array_of(values, REAL_TYPE, 1, 1, count, width);
    pack_keys(KERNELS(job->device), &plain, 0, 0, count,
              (real *)s->own->packed_values + from * width);
}

void pack_head(ota_backward_job *job) {
    const ota_cpu_device *device = job->device;
    const int64_t keys = device->resolved->keys;
    ota_packed_kv *packed = packed_of(job);
    packed->nonfinite_count = 0;
    packed->values = packed->value_room;
    ota_parallel(device->pool, (keys + OTA_KEY_TILE - 1) / OTA_KEY_TILE, pack_tile, job);
    if (!ota_array_present(&job->want->out_grad) || device->values_width == 0) return;
    for (int64_t j = 0; j < keys; j++) {
        if (packed->nonfinite_keys[j] != 0) packed->nonfinite_keys[packed->nonfinite_count++] = j;
    }
}

/* Queries and upstream gradients of some rows; the latter without what is not finite. */
void load_rows(const ota_backward_job *job, const ota_backward_worker *w, int64_t first,
               int64_t rows, bool mark) {
    const ota_cpu_device *device = job->device;
    const ota_resolved *r = device->resolved;
    if (!r->from_matrix) {
        pack_rows(&r->problem.queries, job->batch, job->head, first, rows, w->queries, r->width);
    }
    if (!ota_array_present(&job->want->out_grad)) return;
    pack_rows(&job->want->out_grad, job->batch, job->head, first, rows, w->gradients,
              device->values_width);
    for (int64_t k = 0; k < rows; k++) {
        real *row = (real *)w->gradients + k * device->values_width;
        if (!make_finite(row, device->values_width) && mark) job->space->bad[first + k] = true;
    }
}

static ota_array columns_of(const ota_array *a, int64_t first, int64_t last) {
    ota_array part = *a;
    part.data = (char *)a->data + first * a->stride[3] * (int64_t)ota_type_bytes(a->type);
    part.size[3] = last - first;
    return part;
}

/* Scores of rows [first, first + rows) against keys [from, to), from a multiple of OTA_PANEL. */
void form_tile(const ota_backward_job *job, const ota_backward_worker *w, int64_t first,
               int64_t rows, int64_t from, int64_t to, int64_t stride) {
    const ota_cpu_device *device = job->device;
    const ota_resolved *r = device->resolved;
    real *scores = w->scores;
    if (r->from_matrix) {
        const ota_array part = columns_of(&r->problem.scores, from, to);
        pack_rows(&part, job->batch, job->head, first, rows, scores, stride);
    } else {
        KERNELS(device)->products(w->queries,
                                  (const real *)packed_of(job)->packed_keys + from * r->width, rows,
                                  to - from, r->width, scores, stride);
    }
    for (int64_t k = 0; k < rows; k++) {
        real *row = scores + k * stride;
        int64_t begin, end;
        ota_row_range(r, job->batch, first + k, r->keys, &begin, &end);
        if (begin < from) begin = from;
        if (end > to) end = to;
        if (begin >= end) begin = end = from;
        if (w->raw != NULL) {
            memcpy((real *)w->raw + k * stride, row, (size_t)(to - from) * sizeof(real));
        }
        for (int64_t j = from; j < begin; j++) row[j - from] = (real)-INFINITY;
        for (int64_t j = end; j < to; j++) row[j - from] = (real)-INFINITY;
        if (begin < end) {
            apply_terms(KERNELS(job->device), r, job->batch, job->head, first + k, begin, end,
                        row + begin - from);
        }
    }
}

/* U = dL/dP of the same tile. */
void form_upstream(const ota_backward_job *job, const ota_backward_worker *w, int64_t first,
                   int64_t rows, int64_t from, int64_t to, int64_t stride) {
    const ota_cpu_device *device = job->device;
    real *upstream = w->upstream, *line = w->line;
    if (ota_array_present(&job->want->out_grad) && device->values_width > 0) {
        KERNELS(device)->products(w->gradients,
                                  (const real *)job->space->own->packed_values +
                                      from * device->values_width,
                                  rows, to - from, device->values_width, upstream, stride);
    } else {
        for (int64_t k = 0; k < rows; k++)
            memset(upstream + k * stride, 0, (size_t)(to - from) * sizeof(real));
    }
    for (int64_t k = 0; device->resolved->problem.dropout > 0.0 && k < rows; k++) {
        dropout_row(device->resolved, job->dropout_key, first + k, from, NULL, to - from,
                    upstream + k * stride);
    }
    if (!ota_array_present(&job->want->coupling_grad)) return;
    const ota_array part = columns_of(&job->want->coupling_grad, from, to);
    for (int64_t k = 0; k < rows; k++) {
        real *row = upstream + k * stride;
        pack_rows(&part, job->batch, job->head, first + k, 1, line, to - from);
        for (int64_t j = 0; j < to - from; j++) row[j] += line[j];
    }
}

void list_upstream(const ota_backward_job *job, const ota_backward_worker *w, int64_t row,
                   int64_t query, const int32_t *keys, int64_t count, real *u) {
    const ota_cpu_device *device = job->device;
    const ota_array *coupling = &job->want->coupling_grad;
    const int64_t width = device->values_width;
    real *line = w->line;
    if (ota_array_present(&job->want->out_grad) && width > 0)
        KERNELS(device)->gather_dot((const real *)w->gradients + row * width, keys, count,
                                    packed_of(job)->values, width, width, u);
    else
        memset(u, 0, (size_t)count * sizeof *u);
    if (device->resolved->problem.dropout > 0.0)
        dropout_row(device->resolved, job->dropout_key, query, 0, keys, count, u);
    if (!ota_array_present(coupling)) return;
    pack_rows(coupling, job->batch, job->head, query, 1, line, device->resolved->keys);
    for (int64_t e = 0; e < count; e++) u[e] += line[keys[e]];
}

/* ---- pairs ------------------------------------------------------------------------------------ */

/* Error of S + g that a row's weights may have, in temperatures. */
static const double LARGEST_ERROR = 1.0e-3;
static const double REAL_EPSILON = sizeof(real) == sizeof(double) ? DBL_EPSILON : FLT_EPSILON;

/* Are the scores of a row so large that the potentials of the keys vanish beside them? */
static bool hides_potentials(const ota_backward_job *job, double top) {
    return fabs(top) * REAL_EPSILON > LARGEST_ERROR * job->parameters.tau;
}

/* P of a row from its potentials, without what online capacities do. */
void pair_weights(const ota_backward_job *job, int64_t query, int64_t count, const real *s,
                  real *p) {
    const ota_backward_space *space = job->space;
    const double f = space->f[query], top = space->top[query], tau = job->parameters.tau;
    const real *h = job->state.biased ? (const real *)space->own->bias : NULL;
    if (!(f > -INFINITY) || !(top > -INFINITY)) {
        for (int64_t j = 0; j < count; j++) p[j] = (real)0;
        return;
    }
    if (space->edges != NULL && job->device->transposed) {
        const ota_edge_row row = ota_edge_row_of(&job->parameters, 0.0);
        for (int64_t j = 0; j < count; j++)
            p[j] = (real)ota_edge_of_key(&row, &space->edges[j], (double)(real)(s[j] + (real)f));
        return;
    }
    const ota_edge *edge = space->edges != NULL ? &space->edges[query] : NULL;
    if (job->parameters.regulariser->capped || ota_is_heavy_tailed(job->parameters.regulariser) ||
        (edge != NULL && edge->known)) {
        ota_row_parameters row = job->parameters;
        ota_row_found found;
        row.line = query;
        if (edge != NULL) row.edge = *edge;
        row_weights(&row, s, h, count, f, p, &found);
        return;
    }
    if (job->parameters.custom != NULL) {
        const ota_custom *custom = job->parameters.custom;
        for (int64_t j = 0; j < count; j++) {
            p[j] =
                s[j] > (real)-INFINITY
                    ? (real)custom->weight(custom->user, ota_custom_argument((double)s[j], f, tau))
                    : (real)0;
        }
        return;
    }
    if (job->parameters.regulariser->thresholded) {
        const double k = (job->parameters.order - 1.0) / tau;
        const ota_powers_operands row = {.s = s,
                                         .h = h,
                                         .count = count,
                                         .shift = (real)top,
                                         .k = (real)k,
                                         .t = (-f - top) * k,
                                         .p = 1.0 / (job->parameters.order - 1.0)};
        (void)KERNELS(job->device)->powers(&row, (real)1, p);
        return;
    }
    if (fabs(top) > (double)REAL_MAX / 4.0 || tau > (double)REAL_MAX / 1.0e6 || tau < TAU_MIN ||
        (h != NULL && job->state.stored && hides_potentials(job, top))) {
        for (int64_t j = 0; j < count; j++) {
            const double lifted = (double)s[j] / 2.0 + (h == NULL ? 0.0 : (double)h[j] / 2.0);
            p[j] = (real)exp((lifted + f / 2.0) / (tau / 2.0));
        }
        return;
    }
    (void)KERNELS(job->device)->exponentials(s, h, count, (real)top, (real)(OTA_LOG2_E / tau), p);
    KERNELS(job->device)->multiply(p, count, (real)exp((f + top) / tau));
}

/* Above order 2 up to a number with which sums of its products stay within the range of real (regularisers/tsallis.h). */
void row_powers(const ota_backward_job *job, const real *p, int64_t count, real *w) {
    const double power = 2.0 - job->parameters.order;
    const real most = (real)(sizeof(real) == sizeof(double) ? 1.0e250 : 1.0e30);
    KERNELS(job->device)->slope_weights(p, count, power, w);
    for (int64_t j = 0; power < 0.0 && j < count; j++) w[j] = w[j] > most ? most : w[j];
}

/* w = dP/dS tau of a row of weights p at scores s. */
void row_slopes(const ota_backward_job *job, int64_t query, int64_t count, const real *s,
                const real *p, real *w) {
    const ota_custom *custom = job->parameters.custom;
    if (custom == NULL) {
        const ota_entry_caps *caps = &job->parameters.caps;
        row_powers(job, p, count, w);
        for (int64_t j = 0; job->parameters.regulariser->capped && j < count; j++) {
            if (p[j] >= (real)ota_entry_cap(caps, query, j)) w[j] = (real)0;
        }
        return;
    }
    const double f = job->space->f[query];
    for (int64_t j = 0; j < count; j++) {
        const double at = ota_custom_argument((double)s[j], f, job->parameters.tau);
        w[j] = p[j] > (real)0 ? (real)custom->slope(custom->user, at) : (real)0;
    }
}

/* P from the potentials or as it was kept. */
void find_weights(const ota_backward_job *job, int64_t query, const real *s, real *p) {
    const ota_cpu_device *device = job->device;
    const int64_t m = device->resolved->keys, stride = device->dense_stride;
    if (job->mode != OTA_BACKWARD_PREFIX) {
        pair_weights(job, query, m, s, p);
        for (int64_t j = 0; job->mode == OTA_BACKWARD_ONLINE && j < m; j++) {
            if (query >= job->space->shut[j]) p[j] = (real)0;
        }
        return;
    }
    const int64_t at = device->transposed ? query : query * stride;
    const int64_t step = device->transposed ? stride : 1;
    for (int64_t j = 0; j < m; j++) p[j] = (real)workspace_of(job)->plan[at + j * step];
}

/* U -> dL/dS of a row of weights p, in place; w is scratch, or with `weighed` its slopes. */
void pairs(const ota_backward_job *job, int64_t query, const real *s, bool weighed, real *u,
           real *p, real *w) {
    const ota_cpu_device *device = job->device;
    const ota_backward_space *space = job->space;
    const int64_t m = device->resolved->keys, stride = device->dense_stride;
    if (space->bad[query]) {
        for (int64_t j = 0; j < m; j++) u[j] = p[j] = s[j] <= (real)-INFINITY ? (real)0 : (real)NAN;
        return;
    }
    if (job->state.stored) {
        const int64_t at = device->transposed ? query : query * stride;
        const int64_t step = device->transposed ? stride : 1;
        for (int64_t j = 0; j < m; j++) u[j] = (real)space->gradient[at + j * step];
        return;
    }
    const bool steep = ota_backward_is_steep(job);
    const real *b = job->mode == OTA_BACKWARD_FREE || ota_backward_is_centred(job) || steep
                        ? NULL
                        : space->own->advantage;
    for (int64_t j = 0; j < m && steep; j++)
        u[j] = (real)ota_steep_advantage(space, device->transposed, query, j, (double)u[j]);
    if (!weighed) row_slopes(job, query, m, s, p, w);
    const double rate = fmin(1.0 / job->parameters.tau, (double)REAL_MAX);
    KERNELS(device)->slopes(w, b, m, (real)(steep ? 0.0 : space->a[query]), (real)rate, u);
    if (job->mode != OTA_BACKWARD_ONLINE) return;
    for (int64_t j = 0; j < m; j++) {
        if (query == space->shut[j]) p[j] = (real)space->fill[j];
    }
}

/* Weight on the sink and what its logit gets, from the row's potential. */
double sink_slope(const ota_backward_job *job, int64_t query, double *weight) {
    const double f = job->space->f[query], x = job->parameters.sink + f,
                 order = job->parameters.order;
    *weight = 0.0;
    if (!(job->parameters.sink > -INFINITY) || !(f > -INFINITY)) return 0.0;
    const ota_custom *custom = job->parameters.custom;
    if (custom != NULL) {
        const double at = ota_custom_argument(job->parameters.sink, f, job->parameters.tau);
        *weight = custom->weight(custom->user, at);
        return *weight > 0.0 ? custom->slope(custom->user, at) : 0.0;
    }
    const ota_edge *edge =
        job->space->edges != NULL && !job->device->transposed ? &job->space->edges[query] : NULL;
    if (edge != NULL && edge->known) {
        const ota_edge_row row = ota_edge_row_of(&job->parameters, 0.0);
        *weight = ota_edge_weight(&row, edge, job->parameters.sink);
    } else if (job->parameters.regulariser->tsallis) {
        const double y = (order - 1.0) * x / job->parameters.tau;
        if (!(y > 0.0)) return 0.0;
        *weight = pow(y, 1.0 / (order - 1.0));
    } else {
        *weight = exp(x / job->parameters.tau);
    }
    return *weight > 0.0 ? slope_of(*weight, 2.0 - order) : 0.0;
}

/* ---- rows alone ------------------------------------------------------------------------------- */

/* Does the row use a key whose values are not finite? */
bool uses_nonfinite(const ota_backward_job *job, const real *s, const real *p) {
    for (int64_t k = 0; k < packed_of(job)->nonfinite_count; k++) {
        const int64_t j = packed_of(job)->nonfinite_keys[k];
        if (s[j] > (real)-INFINITY && (!job->parameters.regulariser->thresholded || p[j] > (real)0))
            return true;
    }
    return false;
}

/* The top of a row whose largest S + g is keys_top. Where scores hide the potentials of the keys f64 has to do the row, or nothing
 * can; rounds of a plan in f32 alone have the row's gradient, and its weights are formed in f64. */
static void keep_top(const ota_backward_job *job, int64_t query, double keys_top) {
    ota_backward_space *space = job->space;
    const double sink = job->parameters.sink;
    space->top[query] = (double)(real)(isnan(keys_top) || keys_top > sink ? keys_top : sink);
    if (job->state.biased && !job->state.stored && keys_top > -INFINITY &&
        hides_potentials(job, keys_top))
        space->bad[query] = true;
}

/* -f of a row within caps as forward left it, from where its threshold is not far; NAN: nobody knows. */
static double level_before(const ota_backward_job *job, int64_t query) {
    const ota_array *f = &job->arrays->row_potential;
    const bool known = job->mode == OTA_BACKWARD_IMPLICIT && !job->device->transposed &&
                       job->parameters.regulariser->capped && ota_array_present(f);
    return known ? -ota_array_get(f, job->batch, job->head, 0, query) : NAN;
}

/* Potential of one row, its top, and whether it can be computed; p is left holding the weights. */
void solve_row(const ota_backward_job *job, int64_t query, const real *s, double mu, real *p) {
    const ota_cpu_device *device = job->device;
    ota_backward_space *space = job->space;
    const real *h = job->state.biased ? space->own->bias : NULL;
    const double keys_top = (double)KERNELS(device)->maximum(s, h, device->resolved->keys);
    ota_row_found found;
    ota_row_parameters row = job->parameters;
    const double level = level_before(job, query);
    row.line = query;
    row.threshold = isnan(level) ? NULL : &level;
    row_solve(&row, s, h, device->resolved->keys, mu, p, &found);
    keep_top(job, query, keys_top);
    space->f[query] = found.empty || !(mu > 0.0) ? -INFINITY : found.potential;
    if (space->edges != NULL && !device->transposed) space->edges[query] = found.edge;
    if (found.nonfinite || uses_nonfinite(job, s, p)) space->bad[query] = true;
}

/* A list of `count` weights at row[0 ...] becomes weights of all keys; `line` is scratch. */
static void unfold(real *row, const int32_t *where, int64_t count, int64_t keys, real *line) {
    memcpy(line, row, (size_t)count * sizeof *row);
    memset(row, 0, (size_t)keys * sizeof *row);
    for (int64_t k = 0; k < count; k++) row[where[k]] = line[k];
}

bool row_lists(ota_backward_job *job, const ota_backward_worker *w, int worker, int64_t first,
               int64_t rows, int64_t *count, int64_t *full) {
    enum { DENSE_SHARE = 5 };
    const ota_cpu_device *device = job->device;
    ota_backward_space *space = job->space;
    const int64_t m = device->resolved->keys, stride = space->own->strip.stride;
    const real *h = job->state.biased ? (const real *)space->own->bias : NULL;
    int64_t total = 0;
    bool fine = true;
    for (int64_t k = 0; k < rows; k++) {
        const int64_t i = first + k;
        const double mu = ota_row_mass(device->resolved, job->batch, job->head, i);
        const double level = level_before(job, i);
        ota_row_room room = device->workers[worker].keys;
        room.kept = (real *)w->weights + k * stride;
        room.where = w->where + k * stride;
        ota_row_parameters row = job->parameters;
        ota_row_found found;
        row.line = i;
        row.threshold = &level;
        const real *s = (const real *)w->scores + k * stride;
        if (h != NULL) keep_top(job, i, (double)KERNELS(device)->maximum(s, h, m));
        full[k] = count[k] = row_entmax(&row, s, h, m, mu, &room, &found);
        count[k] -= found.full;
        full[k] -= count[k];
        space->f[i] = found.empty || !(mu > 0.0) ? -INFINITY : found.potential;
        if (space->edges != NULL) space->edges[i] = found.edge;
        if (found.nonfinite) space->bad[i] = true;
        /* Of four products three are of pairs with slopes alone. */
        total += 4 * count[k] + full[k];
        fine =
            fine && !space->bad[i] &&
            (space->listed == NULL || ota_slope_list_fits(device->dense_stride, count[k], full[k]));
    }
    if (fine && packed_of(job)->nonfinite_count == 0 && total * DENSE_SHARE <= 4 * rows * m)
        return true;
    for (int64_t k = 0; k < rows; k++) {
        real *p = (real *)w->weights + k * stride;
        unfold(p, w->where + k * stride, count[k] + full[k], m, w->line);
        count[k] = -1;
        if (uses_nonfinite(job, (const real *)w->scores + k * stride, p))
            space->bad[first + k] = true;
    }
    return false;
}

ota_slope_list list_of(const ota_backward_job *job, int64_t query) {
    real *row = (real *)(void *)job->space->matrix + query * job->device->dense_stride;
    return ota_slope_list_at(row, job->space->listed[query], job->space->full[query], sizeof *row);
}

int64_t steepest(const ota_backward_job *job, int64_t query, const real *p, const real *w,
                 int64_t count) {
    double sink;
    int64_t least = -1;
    (void)sink_slope(job, query, &sink);
    for (int64_t j = 0; j < count; j++) {
        if (w[j] > (real)0 && (least < 0 || p[j] < p[least])) least = j;
    }
    return least < 0 || (sink > 0.0 && sink < (double)p[least]) ? -1 : least;
}

double centre(const ota_backward_job *job, int64_t query, const real *p, const real *w,
              const real *b, int64_t count, real *u) {
    if (!ota_backward_is_centred(job)) return 0.0;
    const int64_t least = steepest(job, query, p, w, count);
    for (int64_t j = 0; j < count && b != NULL; j++) {
        if (w[j] > (real)0) u[j] -= b[j];
    }
    if (least < 0) return 0.0;
    const real middle = u[least];
    for (int64_t j = 0; j < count; j++) u[j] -= middle;
    return (double)middle;
}

/* a_i of rows that are coupled to nothing (or whose b is known): the mean of U - b under w. */
double mean_of(const ota_backward_job *job, int64_t query, const real *u, const real *b,
               double middle, const real *w) {
    const int64_t m = job->device->resolved->keys;
    double rest, total;
    const double sum = KERNELS(job->device)->slope_mean(w, u, b, m, &total);
    const double sink = sink_slope(job, query, &rest);
    total += sink;
    return total > 0.0 ? (sum - sink * middle) / total : 0.0;
}
