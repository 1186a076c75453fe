/* First body of backward.c for REAL = float or double: a block of rows against all keys, or against a tile of
 * keys, as scores, U = dL/dP, weights P and dL/dS. Shapes and formulas are those of backward.h; n = queries,
 * m = keys. */

/* Plain names for what is compiled once a type; backward_names.inc.h takes them back. */
#define dropout_row WORD(ota_dropout_row)
#define pack_keys WORD(ota_pack_keys)
#define pack_rows WORD(ota_pack_rows)
#define row_online WORD(ota_row_online)
#define row_scores WORD(ota_row_scores)
#define row_solve WORD(ota_row_solve)
#define unpack_rows WORD(ota_unpack_rows)
#define make_finite WORD(make_finite)
#define form_tile WORD(form_tile)
#define form_upstream WORD(form_upstream)
#define load_rows WORD(load_rows)
#define outer_terms WORD(outer_terms)
#define pairs WORD(pairs)
#define row_lists WORD(row_lists)
#define row_parameters WORD(row_parameters)
#define rows_block WORD(rows_block)
#define solve_row WORD(solve_row)
#define through_terms WORD(through_terms)

#include "backend/cpu/gradient/finite.inc.h"

/* ---- packing ---------------------------------------------------------------------------------- */

/* A tile of keys and values, as the kernels want them and as plain rows, with sums of 0 for their gradients; marks keys
 * with broken values. */
static void WORD(pack_tile)(void *context, int64_t tile, int worker) {
    const ota_backward_job *job = context;
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    const ota_slot *slot = job->slot;
    const int64_t from = tile * OTA_KEY_TILE, left = r->keys - from, width = plan->values_width;
    const int64_t count = left < OTA_KEY_TILE ? left : OTA_KEY_TILE;
    ota_backward_space *s = job->space;
    (void)worker;
    if (!job->keep_sums)
        memset(s->values_sum + from * width, 0, (size_t)(count * width) * sizeof(double));
    if (!r->from_matrix) {
        if (!job->keep_sums)
            memset(s->keys_sum + from * r->width, 0, (size_t)(count * r->width) * sizeof(double));
        REAL *keys = (REAL *)s->keys + from * r->width;
        pack_rows(&r->problem.keys, job->batch, job->key_head, from, count, keys, r->width);
        const ota_array part = ota_array_of(keys, REAL_TYPE, 1, 1, count, r->width);
        pack_keys(&part, 0, 0, count, (REAL *)slot->packed_keys + from * r->width);
        (void)make_finite(keys, count * r->width);
    }
    if (!ota_array_present(&job->want->out_grad) || width == 0) return;
    REAL *values = (REAL *)slot->values + from * width;
    pack_rows(&job->arrays->values, job->batch, job->key_head, from, count, values, width);
    for (int64_t j = 0; j < count; j++)
        slot->broken[from + j] = !make_finite(values + j * width, width);
    const ota_array plain = ota_array_of(values, REAL_TYPE, 1, 1, count, width);
    pack_keys(&plain, 0, 0, count, (REAL *)s->packed_values + from * width);
}

static void WORD(pack_head)(ota_backward_job *job) {
    const ota_plan *plan = job->plan;
    const int64_t keys = plan->resolved.keys;
    ota_slot *slot = job->slot;
    slot->broken_count = 0;
    ota_parallel(plan->pool, (keys + OTA_KEY_TILE - 1) / OTA_KEY_TILE, WORD(pack_tile), job);
    if (!ota_array_present(&job->want->out_grad) || plan->values_width == 0) return;
    for (int64_t j = 0; j < keys; j++) {
        if (slot->broken[j] != 0) slot->broken[slot->broken_count++] = j;
    }
}

/* Queries and upstream gradients of some rows; the latter without what is not finite. */
static void WORD(load_rows)(const ota_backward_job *job, const ota_backward_worker *w,
                            int64_t first, int64_t rows, bool mark) {
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    if (!r->from_matrix) {
        pack_rows(&r->problem.queries, job->batch, job->head, first, rows, w->queries, r->width);
    }
    if (!ota_array_present(&job->want->out_grad)) return;
    pack_rows(&job->want->out_grad, job->batch, job->head, first, rows, w->gradients,
              plan->values_width);
    for (int64_t k = 0; k < rows; k++) {
        REAL *row = (REAL *)w->gradients + k * plan->values_width;
        if (!make_finite(row, plan->values_width) && mark) job->space->bad[first + k] = true;
    }
}

static ota_array WORD(columns_of)(const ota_array *a, int64_t first, int64_t last) {
    ota_array part = *a;
    part.data = (char *)a->data + first * a->stride[3] * (int64_t)ota_type_bytes(a->type);
    part.size[3] = last - first;
    return part;
}

/* Scores of rows [first, first + rows) against keys [from, to), from a multiple of OTA_PANEL. */
static void WORD(form_tile)(const ota_backward_job *job, const ota_backward_worker *w,
                            int64_t first, int64_t rows, int64_t from, int64_t to, int64_t stride) {
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    REAL *scores = w->scores;
    if (r->from_matrix) {
        const ota_array part = WORD(columns_of)(&r->problem.scores, from, to);
        pack_rows(&part, job->batch, job->head, first, rows, scores, stride);
    } else {
        KERNELS(plan)->products(w->queries, (const REAL *)job->slot->packed_keys + from * r->width,
                                rows, to - from, r->width, scores, stride);
    }
    for (int64_t k = 0; k < rows; k++) {
        REAL *row = scores + k * stride;
        int64_t begin, end;
        ota_row_range(r, job->batch, first + k, r->keys, &begin, &end);
        if (begin < from) begin = from;
        if (end > to) end = to;
        if (begin >= end) begin = end = from;
        if (w->raw != NULL) {
            memcpy((REAL *)w->raw + k * stride, row, (size_t)(to - from) * sizeof(REAL));
        }
        for (int64_t j = from; j < begin; j++) row[j - from] = (REAL)-INFINITY;
        for (int64_t j = end; j < to; j++) row[j - from] = (REAL)-INFINITY;
        if (begin < end) {
            row_scores(r, job->batch, job->head, first + k, begin, end, row + begin - from);
        }
    }
}

/* U = dL/dP of the same tile. */
static void WORD(form_upstream)(const ota_backward_job *job, const ota_backward_worker *w,
                                int64_t first, int64_t rows, int64_t from, int64_t to,
                                int64_t stride) {
    const ota_plan *plan = job->plan;
    REAL *upstream = w->upstream, *line = w->line;
    if (ota_array_present(&job->want->out_grad) && plan->values_width > 0) {
        KERNELS(plan)->products(w->gradients,
                                (const REAL *)job->space->packed_values + from * plan->values_width,
                                rows, to - from, plan->values_width, upstream, stride);
    } else {
        for (int64_t k = 0; k < rows; k++)
            memset(upstream + k * stride, 0, (size_t)(to - from) * sizeof(REAL));
    }
    for (int64_t k = 0; plan->resolved.problem.dropout > 0.0 && k < rows; k++) {
        dropout_row(&plan->resolved, job->dropout_key, first + k, from, to - from,
                    upstream + k * stride);
    }
    if (!ota_array_present(&job->want->coupling_grad)) return;
    const ota_array part = WORD(columns_of)(&job->want->coupling_grad, from, to);
    for (int64_t k = 0; k < rows; k++) {
        REAL *row = upstream + k * stride;
        pack_rows(&part, job->batch, job->head, first + k, 1, line, to - from);
        for (int64_t j = 0; j < to - from; j++) row[j] += line[j];
    }
}

/* ---- pairs ------------------------------------------------------------------------------------ */

/* P of keys [from, from + count) of a row from its potentials, without what online capacities do. */
static void WORD(weights)(const ota_backward_job *job, int64_t query, int64_t from, int64_t count,
                          const REAL *s, REAL *p) {
    const ota_backward_space *space = job->space;
    const double f = space->f[query], top = space->top[query], tau = job->law.tau;
    const REAL *h = job->biased ? (const REAL *)space->bias + from : NULL;
    if (!(f > -INFINITY) || !(top > -INFINITY)) {
        for (int64_t j = 0; j < count; j++) p[j] = (REAL)0;
        return;
    }
    if (job->law.custom != NULL) {
        const ota_custom *custom = job->law.custom;
        for (int64_t j = 0; j < count; j++) {
            p[j] =
                s[j] > (REAL)-INFINITY
                    ? (REAL)custom->weight(custom->user, ota_custom_argument((double)s[j], f, tau))
                    : (REAL)0;
        }
        return;
    }
    if (job->law.order > 1.0) {
        const double k = (job->law.order - 1.0) / tau;
        (void)KERNELS(job->plan)->powers(s, h, count, (REAL)top, (REAL)k, (-f - top) * k,
                                         1.0 / (job->law.order - 1.0), (REAL)1, p);
        return;
    }
    if (fabs(top) > (double)REAL_MAX / 4.0 || tau > (double)REAL_MAX / 1.0e6 || tau < TAU_MIN) {
        for (int64_t j = 0; j < count; j++) {
            const double lifted = (double)s[j] / 2.0 + (h == NULL ? 0.0 : (double)h[j] / 2.0);
            p[j] = (REAL)exp((lifted + f / 2.0) / (tau / 2.0));
        }
        return;
    }
    (void)KERNELS(job->plan)->exponentials(s, h, count, (REAL)top, (REAL)(log2_e / tau), p);
    KERNELS(job->plan)->multiply(p, count, (REAL)exp((f + top) / tau));
}

/* w = dP/dS tau of keys [from, from + count) of a row of weights p at scores s. */
static void WORD(row_slopes)(const ota_backward_job *job, int64_t query, int64_t count,
                             const REAL *s, const REAL *p, REAL *w) {
    const ota_custom *custom = job->law.custom;
    if (custom == NULL) {
        KERNELS(job->plan)->slope_weights(p, count, 2.0 - job->law.order, w);
        return;
    }
    const double f = job->space->f[query];
    for (int64_t j = 0; j < count; j++) {
        const double at = ota_custom_argument((double)s[j], f, job->law.tau);
        w[j] = p[j] > (REAL)0 ? (REAL)custom->slope(custom->user, at) : (REAL)0;
    }
}

/* P from the potentials or as it was kept. */
static void WORD(find_weights)(const ota_backward_job *job, int64_t query, const REAL *s, REAL *p) {
    const ota_plan *plan = job->plan;
    const int64_t m = plan->resolved.keys, stride = plan->device->dense_stride;
    if (job->mode != OTA_BACKWARD_PREFIX) {
        WORD(weights)(job, query, 0, m, s, p);
        return;
    }
    const int64_t at = plan->device->transposed ? query : query * stride;
    const int64_t step = plan->device->transposed ? stride : 1;
    for (int64_t j = 0; j < m; j++) p[j] = (REAL)job->seat->plan[at + j * step];
}

/* U -> dL/dS of a row of weights p, in place; w is scratch, or with `weighed` its slopes. */
static void WORD(pairs)(const ota_backward_job *job, int64_t query, const REAL *s, bool weighed,
                        REAL *u, REAL *p, REAL *w) {
    const ota_plan *plan = job->plan;
    const ota_backward_space *space = job->space;
    const int64_t m = plan->resolved.keys, stride = plan->device->dense_stride;
    if (space->bad[query]) {
        for (int64_t j = 0; j < m; j++) u[j] = p[j] = s[j] <= (REAL)-INFINITY ? (REAL)0 : (REAL)NAN;
        return;
    }
    if (job->stored) {
        const int64_t at = plan->device->transposed ? query : query * stride;
        const int64_t step = plan->device->transposed ? stride : 1;
        for (int64_t j = 0; j < m; j++) u[j] = (REAL)space->gradient[at + j * step];
        return;
    }
    const REAL *b = job->mode == OTA_BACKWARD_FREE ? NULL : space->advantage;
    if (!weighed) WORD(row_slopes)(job, query, m, s, p, w);
    const double rate = fmin(1.0 / job->law.tau, (double)REAL_MAX);
    KERNELS(plan)->slopes(w, b, m, (REAL)space->a[query], (REAL)rate, u);
    if (job->mode != OTA_BACKWARD_ONLINE) return;
    for (int64_t j = 0; j < m; j++) {
        if (query < space->shut[j]) continue;
        p[j] = query == space->shut[j] ? (REAL)space->fill[j] : (REAL)0;
        u[j] = (REAL)0;
    }
}

/* Weight on the sink and what its logit gets, from the row's potential. */
static double WORD(sink_slope)(const ota_backward_job *job, int64_t query, double *weight) {
    const double f = job->space->f[query], x = job->law.sink + f, order = job->law.order;
    *weight = 0.0;
    if (!(job->law.sink > -INFINITY) || !(f > -INFINITY)) return 0.0;
    const ota_custom *custom = job->law.custom;
    if (custom != NULL) {
        const double at = ota_custom_argument(job->law.sink, f, job->law.tau);
        *weight = custom->weight(custom->user, at);
        return *weight > 0.0 ? custom->slope(custom->user, at) : 0.0;
    }
    if (order > 1.0) {
        const double y = (order - 1.0) * x / job->law.tau;
        if (!(y > 0.0)) return 0.0;
        *weight = pow(y, 1.0 / (order - 1.0));
    } else {
        *weight = exp(x / job->law.tau);
    }
    return *weight > 0.0 ? slope_of(*weight, 2.0 - order) : 0.0;
}

/* ---- rows alone ------------------------------------------------------------------------------- */

/* Does the row use a key whose values are not finite? */
static bool WORD(uses_broken)(const ota_backward_job *job, const REAL *s, const REAL *p) {
    for (int64_t k = 0; k < job->slot->broken_count; k++) {
        const int64_t j = job->slot->broken[k];
        if (s[j] > (REAL)-INFINITY && (job->law.order <= 1.0 || p[j] > (REAL)0)) return true;
    }
    return false;
}

/* Potential of one row, its top, and whether it can be computed; p is left holding the weights. */
static void WORD(solve_row)(const ota_backward_job *job, int64_t query, const REAL *s, double mu,
                            REAL *p) {
    const ota_plan *plan = job->plan;
    ota_backward_space *space = job->space;
    const REAL *h = job->biased ? space->bias : NULL;
    const double keys_top = (double)KERNELS(plan)->maximum(s, h, plan->resolved.keys);
    const double sink = job->law.sink;
    ota_row_found found;
    row_solve(&job->law, s, h, plan->resolved.keys, mu, p, &found);
    space->top[query] = (double)(REAL)(isnan(keys_top) || keys_top > sink ? keys_top : sink);
    space->f[query] = found.empty || !(mu > 0.0) ? -INFINITY : found.potential;
    if (found.nonfinite || WORD(uses_broken)(job, s, p)) space->bad[query] = true;
}

/* a_i of rows that are coupled to nothing (or whose b is known): the mean of U - b under w, which is found. */
static double WORD(mean_of)(const ota_backward_job *job, int64_t query, const REAL *s,
                            const REAL *u, const REAL *p, const REAL *b, REAL *w) {
    const int64_t m = job->plan->resolved.keys;
    double rest, total;
    WORD(row_slopes)(job, query, m, s, p, w);
    const double sum = KERNELS(job->plan)->slope_mean(w, u, b, m, &total);
    total += WORD(sink_slope)(job, query, &rest);
    return total > 0.0 ? sum / total : 0.0;
}
