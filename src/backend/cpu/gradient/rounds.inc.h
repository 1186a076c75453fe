/* Body of backward.c for REAL = float or double: fixed rounds on a stored kernel, run again and reversed by the formulas
 * of solver/unrolled_kernel.c. K = exp((S - m) / t) 2^lift [queries][dense_stride] lies where forward has it. The last
 * row update needs no pairs of its own:
 *
 *     a_i = dL/dout_i . out_i / mu_i     t f'_i = mu_i a_i     t g'_j = V_j . (P^T dL/dout)_j - (P^T a)_j */

static REAL *WORD(kernel_row)(const ota_backward_job *job, int64_t query) {
    return (REAL *)job->seat->scores + query * job->plan->device->dense_stride;
}

static void WORD(load_kernel_column)(ota_backward_job *job, const double *from, double scale) {
    REAL *to = job->space->bias;
    for (int64_t j = 0; j < job->plan->resolved.keys; j++) to[j] = (REAL)(from[j] * scale);
}

/* One row of scores into a row of K; false where it cannot. */
static bool WORD(shift_row)(const ota_backward_job *job, int64_t query, REAL *row) {
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    ota_backward_space *space = job->space;
    const double keys_top = (double)KERNELS(plan)->maximum(row, NULL, r->keys);
    const double sink = job->law.sink, mu = ota_row_mass(r, job->batch, job->head, query);
    const double top = keys_top > sink || isnan(keys_top) ? keys_top : sink;
    const bool empty = top <= -INFINITY;
    if (!empty && !(fabs(top) < (double)REAL_MAX / 8.0)) return false;
    const REAL shift = empty ? (REAL)0 : (REAL)top;
    for (int64_t j = r->keys; j < plan->device->dense_stride; j++) row[j] = (REAL)-INFINITY;
    KERNELS(plan)->lifted(row, NULL, plan->device->dense_stride, shift,
                          (REAL)(log2_e / job->law.tau), row);
    space->dense[0][query] = empty ? 0.0 : mu;
    space->top[query] =
        sink > -INFINITY ? ldexp(exp((sink - (double)shift) / job->law.tau), REAL_LIFT) : 0.0;
    return true;
}

/* Row update `at` of some rows, and their part of the column sums. */
static void WORD(turn_rows)(const ota_backward_job *job, int64_t chunk, int64_t first,
                            int64_t rows) {
    const ota_plan *plan = job->plan;
    ota_backward_space *space = job->space;
    const ota_kernel_rounds *rounds = &space->rounds.now;
    double *u = rounds->u + space->rounds.at * rounds->row_lane + first;
    KERNELS(plan)->linear_round(WORD(kernel_row)(job, first), plan->device->dense_stride, rows,
                                plan->resolved.keys, space->bias, space->dense[0] + first,
                                job->law.sink > -INFINITY ? space->top + first : NULL, u,
                                space->partial[0] + chunk * space->lane);
    for (int64_t k = 0; k < rows; k++) u[k] = ldexp(u[k], REAL_LIFT);
}

static void WORD(clear_part)(const ota_backward_job *job, int which, int64_t chunk) {
    const ota_backward_space *space = job->space;
    memset(space->partial[which] + chunk * space->lane, 0, (size_t)space->lane * sizeof(double));
}

static void WORD(form_kernel)(void *context, int64_t chunk, int worker) {
    ota_backward_job *job = context;
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    ota_backward_space *space = job->space;
    ota_backward_worker w = space->workers[worker];
    double *usable = space->partial[1] + chunk * space->lane;
    const bool masked = ota_backward_is_masked(plan);
    for (int which = 0; which < OTA_BACKWARD_PARTIALS; which++) WORD(clear_part)(job, which, chunk);
    int64_t first, last;
    ota_adjoint_rows(r->queries, chunk, &first, &last);
    w.raw = NULL;
    for (int64_t at = first; at < last; at += OTA_BLOCK_ROWS) {
        const int64_t rows = at + OTA_BLOCK_ROWS < last ? OTA_BLOCK_ROWS : last - at;
        w.scores = WORD(kernel_row)(job, at);
        load_rows(job, &w, at, rows, true);
        form_tile(job, &w, at, rows, 0, r->keys, plan->device->dense_stride);
        for (int64_t k = 0; k < rows; k++) {
            REAL *row = WORD(kernel_row)(job, at + k);
            for (int64_t j = 0; masked && j < r->keys; j++)
                usable[j] += row[j] > (REAL)-INFINITY ? 1.0 : 0.0;
            if (WORD(shift_row)(job, at + k, row)) continue;
            space->partial[3][chunk * space->lane] = 1.0;
            return;
        }
        WORD(turn_rows)(job, chunk, at, rows);
    }
}

static void WORD(turn)(void *context, int64_t chunk, int worker) {
    (void)worker;
    const ota_backward_job *job = context;
    int64_t first, last;
    ota_adjoint_rows(job->plan->resolved.queries, chunk, &first, &last);
    WORD(clear_part)(job, 0, chunk);
    WORD(turn_rows)(job, chunk, first, last - first);
}

static void WORD(reverse)(void *context, int64_t chunk, int worker) {
    (void)worker;
    const ota_backward_job *job = context;
    const ota_plan *plan = job->plan;
    const ota_backward_space *space = job->space;
    int64_t first, last;
    ota_adjoint_rows(plan->resolved.queries, chunk, &first, &last);
    WORD(clear_part)(job, 0, chunk);
    KERNELS(plan)->linear_reverse(WORD(kernel_row)(job, first), plan->device->dense_stride,
                                  last - first, plan->resolved.keys, space->bias, space->a + first,
                                  space->f + first, space->partial[0] + chunk * space->lane);
}

/* P of a block of rows, and beside dL/dout their a. */
static void WORD(advantages)(void *context, int64_t block, int worker) {
    ota_backward_job *job = context;
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    ota_backward_space *space = job->space;
    ota_strip *strip = &space->strip;
    const int64_t at = block * OTA_BLOCK_ROWS, first = job->strip_first + at;
    const int64_t rows =
        job->strip_rows - at < OTA_BLOCK_ROWS ? job->strip_rows - at : OTA_BLOCK_ROWS;
    const int64_t width = plan->values_width, stride = strip->stride;
    const bool given = job->want->solved != 0 && ota_array_present(&job->arrays->out);
    const ota_backward_worker w = WORD(worker_at)(job, worker, at);
    REAL *out = w.product, *wide = (REAL *)space->rounds.rows + at * (width + 1);
    load_rows(job, &w, first, rows, true);
    if (block == 0) memset(strip->count, 0xff, (size_t)strip->rows * sizeof *strip->count);
    for (int64_t k = 0; k < rows; k++) {
        strip->low[at + k] = 0;
        strip->high[at + k] = r->keys;
        WORD(kernel_weights)(job, first + k, (REAL *)w.weights + k * stride);
    }
    if (given) {
        pack_rows(&job->arrays->out, job->batch, job->head, first, rows, out, width);
    } else {
        memset(out, 0, (size_t)(rows * width) * sizeof *out);
        KERNELS(plan)->apply(w.weights, stride, job->slot->values, width, rows, r->keys, width, out,
                             width);
    }
    for (int64_t k = 0; k < rows; k++) {
        const REAL *gradient = (const REAL *)w.gradients + k * width;
        const double mu = space->dense[0][first + k];
        double sum = 0.0;
        for (int64_t q = 0; q < width; q++) sum += (double)gradient[q] * (double)out[k * width + q];
        space->a[first + k] = mu > 0.0 ? sum / mu : 0.0;
        memcpy(wide + k * (width + 1), gradient, (size_t)width * sizeof *wide);
        wide[k * (width + 1) + width] = (REAL)space->a[first + k];
    }
}

static void WORD(last_keys)(void *context, int64_t tile, int worker) {
    const ota_backward_job *job = context;
    const ota_backward_space *space = job->space;
    const int64_t width = job->plan->values_width + 1, from = tile * OTA_KEY_TILE;
    const int64_t left = job->plan->resolved.keys - from;
    const int64_t to = from + (left < OTA_KEY_TILE ? left : OTA_KEY_TILE);
    double *sum = space->rounds.sum;
    if (job->strip_first == 0)
        memset(sum + from * width, 0, (size_t)((to - from) * width) * sizeof *sum);
    WORD(add_rows)
    (job, &space->workers[worker], space->strip.weights, space->rounds.rows, width, from, to, sum);
}

/* What the last row update and P V leave of dL/df, dL/dg and dL/dmu. */
static void WORD(last_gradients)(ota_backward_job *job, ota_kernel_rounds *rounds) {
    const ota_plan *plan = job->plan;
    const ota_backward_space *space = job->space;
    const int64_t width = plan->values_width;
    const double tau = job->law.tau, *mu = space->dense[0];
    double *f_grad = rounds->f_grad + rounds->rounds * rounds->row_lane;
    for (int64_t i = 0; i < plan->resolved.queries; i++) {
        f_grad[i] = mu[i] * space->a[i] / tau;
        rounds->sums.row[i] += space->a[i];
    }
    for (int64_t j = 0; j < plan->resolved.keys; j++) {
        const REAL *value = (const REAL *)job->slot->values + j * width;
        const double *sum = space->rounds.sum + j * (width + 1);
        double along = -sum[width];
        for (int64_t q = 0; q < width; q++) along += (double)value[q] * sum[q];
        rounds->g_grad[j] = along / tau;
    }
}

/* Values and B as panels, and the last v for the weights. */
static void WORD(pack_dimensions)(ota_backward_job *job) {
    const ota_plan *plan = job->plan;
    const ota_backward_space *space = job->space;
    const ota_kernel_rounds *rounds = &space->rounds.now;
    const int64_t m = plan->resolved.keys, values = plan->values_width, width = space->rounds.width;
    REAL *packed = space->rounds.packed;
    memset(packed, 0, (size_t)ota_packed_length(m, width) * sizeof *packed);
    for (int64_t j = 0; j < m; j++) {
        double b[2 * OTA_KERNEL_ROUNDS + 1];
        ota_kernel_rounds_key(rounds, j, b);
        REAL *to = packed + j / OTA_PANEL * width * OTA_PANEL + j % OTA_PANEL;
        const REAL *value = (const REAL *)job->slot->values + j * values;
        for (int64_t q = 0; q < width; q++)
            to[q * OTA_PANEL] = q < values ? value[q] : (REAL)b[q - values];
    }
    WORD(load_kernel_column)(job, rounds->v + rounds->rounds * rounds->column_lane, 1.0);
}
