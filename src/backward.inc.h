/* Body of backward.c for REAL = float or double. Shapes and formulas are those of backward.h; n = queries,
 * m = keys. Rows are walked in blocks of OTA_BLOCK_ROWS against all keys, keys in tiles of OTA_KEY_TILE
 * against all rows; products are made in REAL and summed over rows in f64. */

/* ---- packing ---------------------------------------------------------------------------------- */

static bool WORD(all_finite)(REAL *row, int64_t count) {
    bool finite = true;
    for (int64_t k = 0; k < count; k++) {
        if (row[k] - row[k] == (REAL)0) continue;
        row[k] = (REAL)0;
        finite = false;
    }
    return finite;
}

/* Keys and values of one key head, as the kernels want them and as plain rows. */
static void WORD(pack_head)(ota_backward_job *job) {
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    ota_slot *slot = job->slot;
    slot->broken_count = 0;
    if (!r->from_matrix) {
        REAL *keys = job->space->keys;
        WORD(ota_pack_keys)
        (&r->problem.keys, job->batch, job->key_head, r->keys, slot->packed_keys);
        WORD(ota_pack_rows)
        (&r->problem.keys, job->batch, job->key_head, 0, r->keys, keys, r->width);
        (void)WORD(all_finite)(keys, r->keys * r->width);
    }
    const bool tangent = job->along != NULL && ota_array_present(&job->along->out);
    if (!(tangent || ota_array_present(&job->want->out_grad)) || plan->values_width == 0) return;
    REAL *values = slot->values, *packed = job->space->packed_values;
    WORD(ota_pack_rows)
    (&job->arrays->values, job->batch, job->key_head, 0, r->keys, values, plan->values_width);
    for (int64_t j = 0; j < r->keys; j++) {
        if (!WORD(all_finite)(values + j * plan->values_width, plan->values_width))
            slot->broken[slot->broken_count++] = j;
    }
    if (tangent && ota_array_present(&job->along->values)) {
        WORD(ota_pack_rows)
        (&job->along->values, job->batch, job->key_head, 0, r->keys, packed, plan->values_width);
    }
    if (tangent) return;
    ota_array plain = ota_array_of(values, REAL_TYPE, 1, 1, r->keys, plan->values_width);
    WORD(ota_pack_keys)(&plain, 0, 0, r->keys, packed);
}

/* Queries and upstream gradients of some rows; the latter without what is not finite. */
static void WORD(load_rows)(const ota_backward_job *job, ota_backward_worker *w, int64_t first,
                            int64_t rows, bool mark) {
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    if (!r->from_matrix) {
        WORD(ota_pack_rows)
        (&r->problem.queries, job->batch, job->head, first, rows, w->queries, r->width);
    }
    if (!ota_array_present(&job->want->out_grad)) return;
    WORD(ota_pack_rows)
    (&job->want->out_grad, job->batch, job->head, first, rows, w->gradients, plan->values_width);
    for (int64_t k = 0; k < rows; k++) {
        REAL *row = (REAL *)w->gradients + k * plan->values_width;
        if (!WORD(all_finite)(row, plan->values_width) && mark) job->space->bad[first + k] = true;
    }
}

static ota_array WORD(columns_of)(const ota_array *a, int64_t first, int64_t last) {
    ota_array part = *a;
    part.data = (char *)a->data + first * a->stride[3] * (int64_t)ota_type_bytes(a->type);
    part.size[3] = last - first;
    return part;
}

/* Scores of rows [first, first + rows) against keys [from, to), from a multiple of OTA_PANEL. */
static void WORD(form_tile)(const ota_backward_job *job, ota_backward_worker *w, int64_t first,
                            int64_t rows, int64_t from, int64_t to, int64_t stride) {
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    REAL *scores = w->scores;
    if (r->from_matrix) {
        const ota_array part = WORD(columns_of)(&r->problem.scores, from, to);
        WORD(ota_pack_rows)(&part, job->batch, job->head, first, rows, scores, stride);
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
            WORD(ota_row_scores)
            (r, job->batch, job->head, first + k, begin, end, row + begin - from);
        }
    }
}

/* U = dL/dP of the same tile. */
static void WORD(form_upstream)(const ota_backward_job *job, ota_backward_worker *w, int64_t first,
                                int64_t rows, int64_t from, int64_t to, int64_t stride) {
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
    if (!ota_array_present(&job->want->coupling_grad)) return;
    const ota_array part = WORD(columns_of)(&job->want->coupling_grad, from, to);
    for (int64_t k = 0; k < rows; k++) {
        REAL *row = upstream + k * stride;
        WORD(ota_pack_rows)(&part, job->batch, job->head, first + k, 1, line, to - from);
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

/* dP/dS tau of a pair of weight p at score s. */
static double WORD(slope_at)(const ota_backward_job *job, int64_t query, REAL s, REAL p) {
    const ota_custom *custom = job->law.custom;
    if (custom == NULL) return slope_of((double)p, 2.0 - job->law.order);
    return custom->slope(custom->user,
                         ota_custom_argument((double)s, job->space->f[query], job->law.tau));
}

/* P and, over U in place, dL/dS of keys [from, from + count) of a row. */
static void WORD(pairs)(const ota_backward_job *job, int64_t query, int64_t from, int64_t count,
                        const REAL *s, REAL *u, REAL *p) {
    const ota_plan *plan = job->plan;
    const ota_backward_space *space = job->space;
    const bool prefix = job->mode == OTA_BACKWARD_PREFIX;
    const int64_t stride = plan->dense_stride;
    const int64_t at = plan->transposed ? from * stride + query : query * stride + from;
    const int64_t step = plan->transposed ? stride : 1;
    if (space->bad[query]) {
        for (int64_t j = 0; j < count; j++)
            u[j] = p[j] = s[j] <= (REAL)-INFINITY ? (REAL)0 : (REAL)NAN;
        return;
    }
    for (int64_t j = 0; prefix && j < count; j++) p[j] = (REAL)plan->seats[0].plan[at + j];
    if (!prefix) WORD(weights)(job, query, from, count, s, p);
    if (job->stored) {
        for (int64_t j = 0; j < count; j++) u[j] = (REAL)space->gradient[at + j * step];
        return;
    }
    const double a = space->a[query], rate = 1.0 / job->law.tau;
    for (int64_t j = 0; j < count; j++) {
        if (!(p[j] > (REAL)0)) {
            u[j] = (REAL)0;
            continue;
        }
        const double w = WORD(slope_at)(job, query, s[j], p[j]);
        u[j] = (REAL)(w * rate * ((double)u[j] - a - space->b[from + j]));
    }
    if (job->mode != OTA_BACKWARD_ONLINE) return;
    for (int64_t j = 0; j < count; j++) {
        if (query < space->shut[from + j]) continue;
        p[j] = query == space->shut[from + j] ? (REAL)space->fill[from + j] : (REAL)0;
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
    WORD(ota_row_solve)(&job->law, s, h, plan->resolved.keys, mu, p, &found);
    space->top[query] = (double)(REAL)(isnan(keys_top) || keys_top > sink ? keys_top : sink);
    space->f[query] = found.empty || !(mu > 0.0) ? -INFINITY : found.potential;
    if (found.nonfinite || WORD(uses_broken)(job, s, p)) space->bad[query] = true;
}

/* a_i of rows that are coupled to nothing (or whose b is known): the mean of U - b under w. */
static double WORD(mean_of)(const ota_backward_job *job, int64_t query, const REAL *s,
                            const REAL *u, const REAL *p, const double *b) {
    const int64_t m = job->plan->resolved.keys;
    double rest, total = WORD(sink_slope)(job, query, &rest), sum = 0.0;
    for (int64_t j = 0; j < m; j++) {
        if (!(p[j] > (REAL)0)) continue;
        const double w = WORD(slope_at)(job, query, s[j], p[j]);
        total += w;
        sum += w * ((double)u[j] - (b == NULL ? 0.0 : b[j]));
    }
    return total > 0.0 ? sum / total : 0.0;
}

/* ---- outputs of rows -------------------------------------------------------------------------- */

/* dL/dS -> dL/d(raw products or matrix) in place; with `chunk` >= 0 the inner terms' own gradients. */
static void WORD(through_terms)(const ota_backward_job *job, const ota_backward_worker *w,
                                int64_t query, int64_t from, int64_t count, int64_t at,
                                int64_t chunk, REAL *gradient) {
    const ota_resolved *r = &job->plan->resolved;
    ota_backward_space *space = job->space;
    const ota_term *inside = NULL, *softcap = NULL;
    int inside_at = 0;
    for (int t = 0; t < r->term_count; t++) {
        if (r->terms[t].kind == OTA_TERM_SOFTCAP) softcap = &r->terms[t];
        if (r->terms[t].kind != OTA_TERM_RELATIVE_INSIDE) continue;
        inside = &r->terms[t];
        inside_at = t;
    }
    const int64_t diagonal = query - from + r->keys - 1;
    double along = 0.0;
    for (int64_t j = 0; softcap != NULL && j < count; j++) {
        const double g = (double)gradient[j];
        if (!(g < 0.0 || g > 0.0)) continue;
        double z = (double)((const REAL *)w->raw)[at + j];
        if (inside != NULL) z += ota_array_get(&inside->array, 0, job->head, 0, diagonal - j);
        z *= r->scale / softcap->value;
        const double bent = tanh(z), left = (1.0 - bent) * (1.0 + bent);
        along += g * (bent - z * left);
        gradient[j] = (REAL)(g * left);
    }
    for (int64_t j = 0; j < count; j++) gradient[j] = (REAL)((double)gradient[j] * r->scale);
    if (chunk < 0) return;
    space->row_sums[query * OTA_ROW_SUMS + OTA_SUM_SOFTCAP] = along;
    if (inside == NULL) return;
    double *sum = space->terms[inside_at].partial + chunk * space->terms[inside_at].length;
    for (int64_t j = 0; j < count; j++) sum[diagonal - j] += (double)gradient[j];
}

/* Terms added after the softcap. */
static void WORD(outer_terms)(const ota_backward_job *job, int64_t query, int64_t chunk,
                              const REAL *gradient) {
    const ota_resolved *r = &job->plan->resolved;
    ota_backward_space *space = job->space;
    const int64_t m = r->keys;
    for (int t = 0; t < r->term_count; t++) {
        const ota_term *term = &r->terms[t];
        const ota_term_sum *sums = &space->terms[t];
        if (ota_gradient_of_term(r, job->want, t) == NULL) continue;
        if (term->kind == OTA_TERM_ALIBI) {
            double along = 0.0;
            for (int64_t j = 0; j < m; j++)
                along -= (double)gradient[j] * fabs((double)(query + r->offset - j));
            space->row_sums[query * OTA_ROW_SUMS + OTA_SUM_ALIBI] = along;
        } else if (term->kind == OTA_TERM_RELATIVE) {
            double *sum = sums->partial + chunk * sums->length + query + m - 1;
            for (int64_t j = 0; j < m; j++) sum[-j] += (double)gradient[j];
        } else if (term->kind == OTA_TERM_DENSE && sums->direct) {
            WORD(ota_unpack_rows)
            (ota_gradient_of_term(r, job->want, t), job->batch, job->head, query, 1, gradient, m);
        } else if (term->kind == OTA_TERM_DENSE) {
            const bool own_row = term->array.size[2] != 1, own_key = term->array.size[3] != 1;
            double *to = own_row ? ota_term_slice(job, t) + query * term->array.size[3]
                                 : sums->partial + chunk * sums->length;
            for (int64_t j = 0; j < m; j++) to[own_key ? j : 0] += (double)gradient[j];
        }
    }
}

/* Derivatives by temperature, order and sink logit that need this row only. */
static void WORD(row_parameters)(const ota_backward_job *job, int64_t query, const REAL *s,
                                 const REAL *p, const REAL *gradient) {
    ota_backward_space *space = job->space;
    const double tau = job->law.tau, order = job->law.order, f = space->f[query];
    const REAL *h = job->biased ? space->bias : NULL;
    double *sums = space->row_sums + query * OTA_ROW_SUMS, rest, temperature = 0.0, by_order = 0.0;
    for (int64_t j = 0; j < job->plan->resolved.keys; j++) {
        const double g = (double)gradient[j];
        if (!(p[j] > (REAL)0) || (!(g > 0.0) && !(g < 0.0) && !isnan(g))) continue;
        temperature -= g * ((double)s[j] + f + (h == NULL ? 0.0 : (double)h[j])) / tau;
        if (order > 1.0 && job->law.custom == NULL)
            by_order += g * tau * order_slope((double)p[j], order);
    }
    const double w = WORD(sink_slope)(job, query, &rest);
    if (w > 0.0) {
        const double g = -w * space->a[query] / tau;
        temperature -= g * (job->law.sink + f) / tau;
        if (order > 1.0 && job->law.custom == NULL) by_order += g * tau * order_slope(rest, order);
        sums[OTA_SUM_SINK] = g;
    }
    if (space->bad[query]) temperature = by_order = sums[OTA_SUM_SINK] = (double)NAN;
    sums[OTA_SUM_TEMPERATURE] = temperature;
    sums[OTA_SUM_ORDER] = by_order;
}

/* d out = dP V + P dV of a block whose dP and P lie in upstream and weights. */
static void WORD(out_tangent)(const ota_backward_job *job, ota_backward_worker *w, int64_t first,
                              int64_t rows) {
    const ota_plan *plan = job->plan;
    const int64_t m = plan->resolved.keys, width = plan->values_width, stride = plan->stride;
    REAL *out = w->gradients;
    if (!ota_array_present(&job->along->out) || width == 0) return;
    memset(out, 0, (size_t)(rows * width) * sizeof(REAL));
    KERNELS(plan)->apply(w->upstream, stride, job->slot->values, width, rows, m, width, out, width);
    if (ota_array_present(&job->along->values)) {
        KERNELS(plan)->apply(w->weights, stride, job->space->packed_values, width, rows, m, width,
                             out, width);
    }
    WORD(ota_unpack_rows)(&job->along->out, job->batch, job->head, first, rows, out, width);
}

static void WORD(rows_block)(ota_backward_job *job, ota_backward_worker *w, int64_t first,
                             int64_t rows, int64_t chunk) {
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    const ota_gradients *want = job->want;
    ota_backward_space *space = job->space;
    const int64_t m = r->keys, stride = plan->stride;
    const int64_t index = (job->batch * r->heads + job->head) * r->queries;
    WORD(load_rows)(job, w, first, rows, true);
    WORD(form_tile)(job, w, first, rows, 0, m, stride);
    if (!job->stored) WORD(form_upstream)(job, w, first, rows, 0, m, stride);
    for (int64_t k = 0; k < rows; k++) {
        const int64_t i = first + k;
        const REAL *s = (const REAL *)w->scores + k * stride;
        REAL *u = (REAL *)w->upstream + k * stride, *p = (REAL *)w->weights + k * stride;
        if (job->mode == OTA_BACKWARD_FREE) {
            WORD(solve_row)(job, i, s, ota_row_mass(r, job->batch, job->head, i), p);
            WORD(weights)(job, i, 0, m, s, p);
            space->a[i] = WORD(mean_of)(job, i, s, u, p, NULL);
            space->row_mass[index + i] = space->bad[i] ? (double)NAN : space->a[i];
        }
        WORD(pairs)(job, i, 0, m, s, u, p);
        if (job->sums && !job->stored) WORD(row_parameters)(job, i, s, p, u);
        WORD(outer_terms)(job, i, chunk, u);
    }
    if (job->along != NULL) WORD(out_tangent)(job, w, first, rows);
    if (ota_array_present(&want->scores)) {
        WORD(ota_unpack_rows)
        (&want->scores, job->batch, job->head, first, rows, w->upstream, stride);
    }
    for (int64_t k = 0; k < rows; k++) {
        WORD(through_terms)
        (job, w, first + k, 0, m, k * stride, chunk, (REAL *)w->upstream + k * stride);
    }
    if (ota_array_present(&want->matrix)) {
        WORD(ota_unpack_rows)
        (&want->matrix, job->batch, job->head, first, rows, w->upstream, stride);
    }
    if (!ota_array_present(&want->queries) || r->width == 0) return;
    REAL *out = w->queries;
    memset(out, 0, (size_t)(rows * r->width) * sizeof(REAL));
    KERNELS(plan)->apply(w->upstream, stride, space->keys, r->width, rows, m, r->width, out,
                         r->width);
    WORD(ota_unpack_rows)(&want->queries, job->batch, job->head, first, rows, out, r->width);
}

static void WORD(rows_task)(void *context, int64_t chunk, int worker) {
    ota_backward_job *job = context;
    const ota_resolved *r = &job->plan->resolved;
    ota_backward_space *space = job->space;
    for (int t = 0; t < r->term_count; t++) {
        const ota_term_sum *sum = &space->terms[t];
        if (sum->length > 0)
            memset(sum->partial + chunk * sum->length, 0, (size_t)sum->length * sizeof(double));
    }
    int64_t first, last;
    ota_adjoint_rows(r->queries, chunk, &first, &last);
    for (int64_t at = first; at < last; at += OTA_BLOCK_ROWS) {
        if (ota_interrupted(&r->settings) != OTA_OK) return;
        WORD(rows_block)
        (job, &space->workers[worker], at, at + OTA_BLOCK_ROWS < last ? OTA_BLOCK_ROWS : last - at,
         chunk);
    }
}

/* ---- outputs of keys -------------------------------------------------------------------------- */

/* sum[j][k] += sum_i tile[i][j] x[i][k]; the tile is turned first. */
static void WORD(add_turned)(const ota_backward_job *job, ota_backward_worker *w, const REAL *tile,
                             int64_t rows, int64_t keys, const REAL *x, int64_t width,
                             double *sum) {
    REAL *turned = w->turned, *product = w->product;
    for (int64_t j = 0; j < keys; j++) {
        for (int64_t i = 0; i < rows; i++)
            turned[j * OTA_ROW_BLOCK + i] = tile[i * OTA_KEY_TILE + j];
    }
    memset(product, 0, (size_t)(keys * width) * sizeof(REAL));
    KERNELS(job->plan)->apply(turned, OTA_ROW_BLOCK, x, width, keys, rows, width, product, width);
    for (int64_t k = 0; k < keys * width; k++) sum[k] += (double)product[k];
}

static void WORD(keys_task)(void *context, int64_t tile, int worker) {
    ota_backward_job *job = context;
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    ota_backward_space *space = job->space;
    ota_backward_worker *w = &space->workers[worker];
    const int64_t from = tile * OTA_KEY_TILE;
    const int64_t to = from + OTA_KEY_TILE < r->keys ? from + OTA_KEY_TILE : r->keys;
    const bool keys = ota_array_present(&job->want->keys) && r->width > 0;
    const bool values = ota_array_present(&job->want->values) && plan->values_width > 0 &&
                        ota_array_present(&job->want->out_grad);
    for (int64_t first = 0; first < r->queries; first += OTA_ROW_BLOCK) {
        const int64_t rows =
            first + OTA_ROW_BLOCK < r->queries ? OTA_ROW_BLOCK : r->queries - first;
        if (ota_interrupted(&r->settings) != OTA_OK) return;
        bool any = false;
        for (int64_t k = 0; k < rows && !any; k++) {
            int64_t begin, end;
            ota_row_range(r, job->batch, first + k, r->keys, &begin, &end);
            any = begin < to && end > from;
        }
        if (!any) continue;
        WORD(load_rows)(job, w, first, rows, false);
        WORD(form_tile)(job, w, first, rows, from, to, OTA_KEY_TILE);
        if (!job->stored) WORD(form_upstream)(job, w, first, rows, from, to, OTA_KEY_TILE);
        for (int64_t k = 0; k < rows; k++) {
            const int64_t at = k * OTA_KEY_TILE;
            REAL *u = (REAL *)w->upstream + at;
            WORD(pairs)
            (job, first + k, from, to - from, (const REAL *)w->scores + at, u,
             (REAL *)w->weights + at);
            if (keys) WORD(through_terms)(job, w, first + k, from, to - from, at, -1, u);
        }
        if (values) {
            WORD(add_turned)
            (job, w, w->weights, rows, to - from, w->gradients, plan->values_width,
             space->values_sum + from * plan->values_width);
        }
        if (!keys) continue;
        (void)WORD(all_finite)(w->queries, rows * r->width);
        WORD(add_turned)
        (job, w, w->upstream, rows, to - from, w->queries, r->width,
         space->keys_sum + from * r->width);
    }
}

/* ---- online ----------------------------------------------------------------------------------- */

/* Rows in order: where each key's capacity ran out, and what that row took. */
static void WORD(replay_online)(ota_backward_job *job) {
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    ota_backward_space *space = job->space;
    ota_backward_worker *w = &space->workers[0];
    double *room = plan->workers[0].room;
    for (int64_t j = 0; j < r->keys; j++) {
        room[j] = r->problem.cap * ota_column_mass(r, job->batch, job->head, j, 1.0);
        space->shut[j] = room[j] > 0.0 ? INT64_MAX : -1;
        space->fill[j] = room[j] > 0.0 ? room[j] : 0.0;
        space->b[j] = 0.0;
    }
    for (int64_t i = 0; i < r->queries; i++) {
        const double mu = ota_row_mass(r, job->batch, job->head, i);
        ota_row_found found;
        WORD(load_rows)(job, w, i, 1, true);
        WORD(form_tile)(job, w, i, 1, 0, r->keys, plan->stride);
        WORD(ota_row_online)
        (&job->law, w->scores, r->keys, mu, room, w->weights, plan->workers[0].row, &found);
        if (found.nonfinite || WORD(uses_broken)(job, w->scores, w->weights)) space->bad[i] = true;
        for (int64_t j = 0; j < r->keys; j++) {
            if (space->shut[j] != INT64_MAX) continue;
            if (room[j] > 0.0)
                space->fill[j] = room[j];
            else
                space->shut[j] = i;
        }
    }
}

/* Rows in reverse: b_j = dL / d(what was left of key j before the row that took the rest). */
static void WORD(reverse_online)(ota_backward_job *job) {
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    ota_backward_space *space = job->space;
    ota_backward_worker *w = &space->workers[0];
    const int64_t m = r->keys, index = job->batch * r->heads + job->head;
    for (int64_t i = r->queries - 1; i >= 0; i--) {
        REAL *s = w->scores, *u = w->upstream, *p = w->weights, *line = w->line;
        double left = ota_row_mass(r, job->batch, job->head, i);
        WORD(load_rows)(job, w, i, 1, false);
        WORD(form_tile)(job, w, i, 1, 0, m, plan->stride);
        WORD(form_upstream)(job, w, i, 1, 0, m, plan->stride);
        for (int64_t j = 0; j < m; j++) {
            line[j] = i < space->shut[j] ? s[j] : (REAL)-INFINITY;
            if (space->shut[j] == i) left -= space->fill[j];
        }
        const bool bad = space->bad[i];
        WORD(solve_row)(job, i, line, left > 0.0 ? left : 0.0, p);
        space->bad[i] = bad;
        WORD(weights)(job, i, 0, m, line, p);
        space->a[i] = bad ? (double)NAN : WORD(mean_of)(job, i, line, u, p, space->b);
        space->row_mass[index * r->queries + i] = space->a[i];
        for (int64_t j = 0; j < m; j++) {
            const bool first = space->shut[j] < 0 && s[j] > (REAL)-INFINITY &&
                               (job->law.order <= 1.0 || (double)s[j] + space->f[i] > 0.0);
            if (space->shut[j] == i || first) space->b[j] = (double)u[j] - space->a[i];
        }
    }
    for (int64_t j = 0; j < m; j++) {
        space->cap += space->b[j] * ota_column_mass(r, job->batch, job->head, j, 1.0);
        space->column_mass[index * m + j] = space->b[j] * r->problem.cap;
    }
}

/* ---- coupled ---------------------------------------------------------------------------------- */

/* Slopes w of the rows of a chunk into the matrix, sums of w, w U and P. */
static void WORD(slopes_task)(void *context, int64_t chunk, int worker) {
    ota_backward_job *job = context;
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    ota_backward_space *space = job->space;
    ota_backward_worker *w = &space->workers[worker];
    const int64_t m = r->keys, lane = space->lane, stride = plan->dense_stride;
    const double power = 2.0 - job->law.order;
    double *right = space->partial[0] + chunk * lane, *scale = space->partial[1] + chunk * lane;
    double *mass = space->partial[2] + chunk * lane, *slopes = space->partial[3] + chunk * lane;
    for (int k = 0; k < OTA_BACKWARD_PARTIALS; k++)
        memset(space->partial[k] + chunk * lane, 0, (size_t)lane * sizeof(double));
    int64_t first, last;
    ota_adjoint_rows(r->queries, chunk, &first, &last);
    for (int64_t i = first; i < last; i++) {
        WORD(load_rows)(job, w, i, 1, true);
        WORD(form_tile)(job, w, i, 1, 0, m, plan->stride);
        WORD(form_upstream)(job, w, i, 1, 0, m, plan->stride);
        const REAL *s = w->scores, *u = w->upstream;
        REAL *p = w->weights;
        const double kept = space->f[i];
        const double mu = plan->transposed ? 1.0 : ota_row_mass(r, job->batch, job->head, i);
        WORD(solve_row)(job, i, s, mu, p);
        if (plan->transposed) space->f[i] = kept;
        WORD(weights)(job, i, 0, m, s, p);
        double rest, sum = 0.0, total = 0.0, carried = 0.0;
        const double sink = WORD(sink_slope)(job, i, &rest);
        for (int64_t j = 0; j < m; j++) {
            const double weight = (double)p[j];
            const double slope = weight > 0.0 ? slope_of(weight, power) : 0.0;
            space->matrix[plan->transposed ? j * stride + i : i * stride + j] = slope;
            if (s[j] > (REAL)-INFINITY) mass[j] += weight;
            total += slope;
            carried += weight;
            if (slope > 0.0) sum += slope * (double)u[j];
        }
        space->dense[0][i] = total + sink;   /* den             */
        space->dense[1][i] = sum;            /* row_right       */
        space->dense[2][i] = carried + rest; /* row sums of P   */
        const double mean = total + sink > 0.0 ? sum / (total + sink) : 0.0;
        for (int64_t j = 0; j < m; j++) {
            const double slope = space->matrix[plan->transposed ? j * stride + i : i * stride + j];
            if (!(slope > 0.0)) continue;
            slopes[j] += slope;
            right[j] += slope * ((double)u[j] - (plan->transposed ? 0.0 : mean));
            scale[j] += slope * (fabs((double)u[j] - (plan->transposed ? 0.0 : mean)) +
                                 OTA_OFFSET_SHARE * fabs((double)u[j]));
        }
    }
}

/* Transposed: the right side by queries, once the means by keys are known. */
static void WORD(turned_task)(void *context, int64_t chunk, int worker) {
    ota_backward_job *job = context;
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    ota_backward_space *space = job->space;
    ota_backward_worker *w = &space->workers[worker];
    int64_t first, last;
    ota_adjoint_rows(r->queries, chunk, &first, &last);
    for (int64_t i = first; i < last; i++) {
        WORD(load_rows)(job, w, i, 1, false);
        WORD(form_upstream)(job, w, i, 1, 0, r->keys, plan->stride);
        const REAL *u = w->upstream;
        double right = 0.0, scale = 0.0;
        for (int64_t j = 0; j < r->keys; j++) {
            const double slope = space->matrix[j * plan->dense_stride + i];
            if (!(slope > 0.0)) continue;
            const double mean = space->dense[3][j] / space->dense[4][j];
            right += slope * ((double)u[j] - mean);
            scale += slope * (fabs((double)u[j] - mean) + OTA_OFFSET_SHARE * fabs((double)u[j]));
        }
        space->dense[6][i] = right;
        space->dense[7][i] = scale;
    }
}

/* Scores and dL/dP in f64 in the solver's orientation, for the rounds and for prefix. */
static void WORD(widen_task)(void *context, int64_t chunk, int worker) {
    ota_backward_job *job = context;
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    ota_backward_space *space = job->space;
    ota_backward_worker *w = &space->workers[worker];
    int64_t first, last;
    ota_adjoint_rows(r->queries, chunk, &first, &last);
    for (int64_t i = first; i < last; i++) {
        WORD(load_rows)(job, w, i, 1, true);
        WORD(form_tile)(job, w, i, 1, 0, r->keys, plan->stride);
        WORD(form_upstream)(job, w, i, 1, 0, r->keys, plan->stride);
        const REAL *s = w->scores, *u = w->upstream;
        for (int64_t j = 0; j < r->keys; j++) {
            const int64_t at =
                plan->transposed ? j * plan->dense_stride + i : i * plan->dense_stride + j;
            space->matrix[at] = (double)s[j];
            space->gradient[at] = s[j] > (REAL)-INFINITY ? (double)u[j] : 0.0;
        }
        for (int64_t j = r->keys; !plan->transposed && j < plan->dense_stride; j++) {
            space->matrix[i * plan->dense_stride + j] = -INFINITY;
            space->gradient[i * plan->dense_stride + j] = 0.0;
        }
    }
}

static void WORD(mark_top)(void *context, int64_t chunk, int worker) {
    ota_backward_job *job = context;
    const ota_plan *plan = job->plan;
    ota_backward_space *space = job->space;
    ota_backward_worker *w = &space->workers[worker];
    int64_t first, last;
    ota_adjoint_rows(plan->resolved.queries, chunk, &first, &last);
    for (int64_t i = first; i < last; i++) {
        const double f = space->f[i];
        WORD(load_rows)(job, w, i, 1, false);
        WORD(form_tile)(job, w, i, 1, 0, plan->resolved.keys, plan->stride);
        WORD(solve_row)(job, i, w->scores, 1.0, w->weights);
        space->f[i] = f;
    }
}

static void WORD(load_bias)(ota_backward_job *job) {
    ota_backward_space *space = job->space;
    REAL *bias = space->bias;
    for (int64_t j = 0; j < job->plan->resolved.keys; j++) bias[j] = (REAL)space->g[j];
    job->biased = true;
}
