/* Second body of backward.c for REAL = float or double: what the caller gets. Rows are walked in blocks of
 * OTA_BLOCK_ROWS against all keys, keys in tiles of OTA_KEY_TILE against all rows; products are made in REAL
 * and summed over rows in f64. */

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
            unpack_rows(ota_gradient_of_term(r, job->want, t), job->batch, job->head, query, 1,
                        gradient, m);
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

static void WORD(rows_block)(ota_backward_job *job, ota_backward_worker *w, int64_t first,
                             int64_t rows, int64_t chunk) {
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    const ota_gradients *want = job->want;
    ota_backward_space *space = job->space;
    const int64_t m = r->keys, stride = plan->stride;
    const int64_t index = (job->batch * r->heads + job->head) * r->queries;
    load_rows(job, w, first, rows, true);
    form_tile(job, w, first, rows, 0, m, stride);
    if (!job->stored) form_upstream(job, w, first, rows, 0, m, stride);
    for (int64_t k = 0; k < rows; k++) {
        const int64_t i = first + k;
        const REAL *s = (const REAL *)w->scores + k * stride;
        REAL *u = (REAL *)w->upstream + k * stride, *p = (REAL *)w->weights + k * stride;
        if (job->mode == OTA_BACKWARD_FREE) {
            solve_row(job, i, s, ota_row_mass(r, job->batch, job->head, i), p);
            WORD(weights)(job, i, 0, m, s, p);
            space->a[i] = WORD(mean_of)(job, i, s, u, p, NULL);
            space->row_mass[index + i] = space->bad[i] ? (double)NAN : space->a[i];
        }
        pairs(job, i, 0, m, s, u, p);
        if (job->sums && !job->stored) row_parameters(job, i, s, p, u);
        outer_terms(job, i, chunk, u);
    }
    if (ota_array_present(&want->scores)) {
        unpack_rows(&want->scores, job->batch, job->head, first, rows, w->upstream, stride);
    }
    for (int64_t k = 0; k < rows; k++) {
        through_terms(job, w, first + k, 0, m, k * stride, chunk, (REAL *)w->upstream + k * stride);
    }
    if (ota_array_present(&want->matrix)) {
        unpack_rows(&want->matrix, job->batch, job->head, first, rows, w->upstream, stride);
    }
    if (!ota_array_present(&want->queries) || r->width == 0) return;
    REAL *out = w->queries;
    memset(out, 0, (size_t)(rows * r->width) * sizeof(REAL));
    KERNELS(plan)->apply(w->upstream, stride, space->keys, r->width, rows, m, r->width, out,
                         r->width);
    unpack_rows(&want->queries, job->batch, job->head, first, rows, out, r->width);
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
        rows_block(job, &space->workers[worker], at,
                   at + OTA_BLOCK_ROWS < last ? OTA_BLOCK_ROWS : last - at, chunk);
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
        load_rows(job, w, first, rows, false);
        form_tile(job, w, first, rows, from, to, OTA_KEY_TILE);
        if (!job->stored) form_upstream(job, w, first, rows, from, to, OTA_KEY_TILE);
        for (int64_t k = 0; k < rows; k++) {
            const int64_t at = k * OTA_KEY_TILE;
            REAL *u = (REAL *)w->upstream + at;
            pairs(job, first + k, from, to - from, (const REAL *)w->scores + at, u,
                  (REAL *)w->weights + at);
            if (keys) through_terms(job, w, first + k, from, to - from, at, -1, u);
        }
        for (int64_t k = 0; values && r->problem.dropout > 0.0 && k < rows; k++) {
            dropout_row(r, job->dropout_key, first + k, from, to - from,
                        (REAL *)w->weights + k * OTA_KEY_TILE);
        }
        if (values) {
            add_turned(job, w, w->weights, rows, to - from, w->gradients, plan->values_width,
                       space->values_sum + from * plan->values_width);
        }
        if (!keys) continue;
        (void)all_finite(w->queries, rows * r->width);
        add_turned(job, w, w->upstream, rows, to - from, w->queries, r->width,
                   space->keys_sum + from * r->width);
    }
}
