/* Rounds on a kernel, a fixed number or to a tolerance, body for REAL = float or double (forward.c). One head:
 *
 *     K_ij = 2^((S_ij + a_j - m_i) c) 2^lift   [queries][stride], m_i the row's maximum, c = log2(e) / tau
 *     round: u_i = mu_i / (sum_j K_ij v_j + sink_i),  c_j = sum_i u_i K_ij,  v by scaling.h
 *     last:  P_ij = u_i K_ij v_j written over K,      out = P V
 *
 * K is formed block by block from the products and its first round runs while the block is in the
 * second cache; the last round is the emission, so K is read once a round. The residual is the column
 * sums of the last round; to a tolerance, the emission takes u from the round that met it. A streamed
 * plan has no room for K and forms its blocks again every round, with the same bits. What the kernel
 * cannot carry (NaN, infinities, sums that underflow, masses without a place) is left to the plan's
 * solver on stored scores. A caller's matrix that lies dense is read, and a coupling written, where it
 * lies. Rounds to a tolerance are extrapolated (extrapolation.h) as soon as their rate says that plain ones
 * take long; where only f64 certifies them they begin in f32, which reads half as much, and go on in f64 from
 * the potentials that f32 ends with. */

/* Blocks of whole score rows stay in the second cache together with the values; multiples of the rows that
 * linear_round takes at once, so that a block's bits are those of its chunk. */
static int64_t WORD(rows_at_once)(const ota_plan *plan) {
    const size_t row = (size_t)plan->dense_stride * sizeof(REAL);
    return row <= ((size_t)8 << 10)    ? OTA_ROW_BLOCK
           : row <= ((size_t)16 << 10) ? 24
           : row <= ((size_t)32 << 10) ? 16
                                       : 8;
}

typedef struct WORD(rounds_walk) {
    WORD(seat_walk) * seat_walk;
    double t, sink;
    double unit;       /* log2(e) / tau */
    REAL c;            /* what scores, or raw products, are multiplied by */
    bool raw;          /* q.k is exponentiated as it is, the scale folded into c */
    bool absorbed;     /* a is not 0 */
    bool masked;       /* some pair may be forbidden */
    bool first;        /* the round that finds keys in use, and range and norms for the floor */
    bool met;          /* u belongs to the scalings as they are */
    bool careful;      /* to a tolerance */
    bool leading;      /* f32 for f64: the potentials are all that is wanted */
    _Atomic bool lost; /* not finite, or a row without the sum its kernel promises */
    _Atomic bool shut; /* an empty row with mass */
    _Atomic bool wild; /* NaN or an infinite score */
} WORD(rounds_walk);

/* Without the lift: the least sum of a row whose largest entry is 1 and whose scalings are bounded
 * (scaling.c), and the least u that is still normal, lift and all. */
static const double WORD(least_row_sum) = sizeof(REAL) == sizeof(double) ? 0x1p-257 : 0x1p-33;
static const double WORD(least_row_scaling) = sizeof(REAL) == sizeof(double) ? 0x1p-500 : 0x1p-60;

static double *WORD(column_part)(const WORD(rounds_walk) * rounds, int64_t chunk) {
    const WORD(seat_walk) *s = rounds->seat_walk;
    return s->seat->parts + chunk * s->w->plan->dense_stride;
}

static void WORD(turn_rows)(WORD(rounds_walk) * rounds, int64_t chunk, int64_t first, int64_t rows,
                            const REAL *kernel) {
    const WORD(seat_walk) *s = rounds->seat_walk;
    const ota_plan *plan = s->w->plan;
    const ota_seat *seat = s->seat;
    const int64_t stride = plan->dense_stride;
    KERNELS(plan)->linear_round(kernel, stride, rows, stride, seat->bias, seat->mu + first,
                                rounds->sink > -INFINITY ? seat->sinks + first : NULL,
                                seat->u + first, WORD(column_part)(rounds, chunk));
    const double lift = ldexp(1.0, REAL_LIFT);
    bool lost = false;
    for (int64_t i = first; i < first + rows; i++) {
        const double u = seat->u[i] * lift, mu = seat->mu[i];
        lost |= !(u * WORD(least_row_sum) <= mu) || (mu > 0.0 && u < WORD(least_row_scaling));
    }
    if (lost) atomic_store_explicit(&rounds->lost, true, memory_order_relaxed);
}

/* What the floor of the arithmetic needs: range of the scores, squared norms of the queries; and how many keys the
 * row may use. */
static void WORD(survey_row)(const WORD(rounds_walk) * rounds, int64_t chunk, const REAL *row,
                             const REAL *query, double top, double mu) {
    const ota_plan *plan = rounds->seat_walk->w->plan;
    const ota_resolved *r = &plan->resolved;
    ota_survey *survey = &rounds->seat_walk->seat->surveys[chunk];
    int64_t forbidden = 0;
    if (!rounds->raw || rounds->masked) {
        const double bottom = (double)KERNELS(plan)->lowest(row, r->keys, &forbidden);
        if (rounds->absorbed) top = (double)KERNELS(plan)->maximum(row, NULL, plan->dense_stride);
        if (!rounds->raw) survey->low = fmin(survey->low, bottom);
        if (!rounds->raw) survey->high = fmax(survey->high, top);
    }
    if (mu > 0.0 && r->keys - forbidden < survey->least) survey->least = r->keys - forbidden;
    REAL norm = 0;
    for (int64_t q = 0; q < r->width; q++) norm += query[q] * query[q];
    survey->norm = fmax(survey->norm, (double)norm);
}

/* One row of scores, or raw products, into a row of K. */
static void WORD(kernel_row)(WORD(rounds_walk) * rounds, int64_t chunk, int64_t query,
                             const REAL *vector, REAL *row) {
    const WORD(seat_walk) *s = rounds->seat_walk;
    const ota_plan *plan = s->w->plan;
    ota_seat *seat = s->seat;
    const REAL *a = rounds->absorbed ? seat->line : NULL;
    const double keys = (double)KERNELS(plan)->maximum(row, a, plan->key_count);
    const double top = keys > rounds->sink || isnan(keys) ? keys : rounds->sink;
    const double mu = ota_row_mass(&plan->resolved, s->batch, s->head, query);
    const bool empty = top <= -INFINITY;
    if (!(fabs(top) < (double)REAL_TOP / 8.0) && !empty) {
        atomic_store_explicit(isfinite(top) ? &rounds->lost : &rounds->wild, true,
                              memory_order_relaxed);
    }
    if (empty && mu > 0.0) atomic_store_explicit(&rounds->shut, true, memory_order_relaxed);
    if (rounds->first && rounds->careful && keys > -INFINITY)
        WORD(survey_row)(rounds, chunk, row, vector, keys, mu);
    const REAL shift = empty ? (REAL)0 : (REAL)top;
    KERNELS(plan)->lifted(row, a, plan->dense_stride, shift, rounds->c, row);
    seat->mu[query] = empty ? 0.0 : mu;
    seat->shift[query] =
        empty ? -INFINITY : (double)shift * (rounds->raw ? plan->resolved.scale : 1.0);
    seat->sinks[query] = rounds->sink > -INFINITY
                             ? ldexp(exp((rounds->sink - (double)shift) / rounds->t), REAL_LIFT)
                             : 0.0;
}

/* A row of K from the caller's numbers where they lie. False: some are not finite, or too large. */
static bool WORD(kernel_row_in_place)(const WORD(rounds_walk) * rounds, int64_t chunk,
                                      int64_t query, const REAL *numbers, REAL *row) {
    const WORD(seat_walk) *s = rounds->seat_walk;
    const ota_plan *plan = s->w->plan;
    const ota_resolved *r = &plan->resolved;
    const double scale = r->scale;
    REAL low, high;
    if (!KERNELS(plan)->extent(numbers, r->keys, &low, &high)) return false;
    const REAL best = scale > 0.0 ? high : low, worst = scale > 0.0 ? low : high;
    if (!(fmax(fabs((double)low), fabs((double)high)) * fabs(scale) < (double)REAL_TOP / 8.0))
        return false;
    if (rounds->first && rounds->careful) {
        ota_survey *survey = &s->seat->surveys[chunk];
        survey->high = fmax(survey->high, scale * (double)best);
        survey->low = fmin(survey->low, scale * (double)worst);
    }
    KERNELS(plan)->lifted(numbers, NULL, r->keys, best, (REAL)(rounds->unit * scale), row);
    for (int64_t j = r->keys; j < plan->dense_stride; j++) row[j] = (REAL)0;
    s->seat->mu[query] = ota_row_mass(r, s->batch, s->head, query);
    s->seat->shift[query] = scale * (double)best;
    s->seat->sinks[query] = 0.0;
    return true;
}

/* The caller's matrix from row `first` on where rows of K can be made of it as it lies; else NULL. */
static const REAL *WORD(matrix_in_place)(const WORD(rounds_walk) * rounds, int64_t first) {
    const WORD(seat_walk) *s = rounds->seat_walk;
    const ota_resolved *r = &s->w->plan->resolved;
    const double unit = rounds->unit * fabs(r->scale);
    const bool plain = r->from_matrix && !rounds->masked && !rounds->absorbed &&
                       !(rounds->sink > -INFINITY) && unit > RAW_LEAST && unit < 1.0 / RAW_LEAST;
    return plain ? WORD(dense_rows)(&r->problem.scores, s->batch, s->head, first) : NULL;
}

/* K of queries [at, at + rows), which belong to one chunk. */
static void WORD(form_block)(WORD(rounds_walk) * rounds, ota_worker *worker, int64_t chunk,
                             int64_t at, int64_t rows, REAL *to) {
    const WORD(seat_walk) *s = rounds->seat_walk;
    const ota_plan *plan = s->w->plan;
    const int64_t stride = plan->dense_stride;
    int64_t begin[OTA_ROW_BLOCK], end[OTA_ROW_BLOCK], first = 0;
    const double zeros[OTA_ROW_BLOCK] = {0};
    const REAL *numbers = WORD(matrix_in_place)(rounds, at);
    while (numbers != NULL && first < rows &&
           WORD(kernel_row_in_place)(rounds, chunk, at + first,
                                     numbers + first * plan->resolved.keys, to + first * stride))
        first++;
    if (first == rows) return;
    at += first;
    rows -= first;
    to += first * stride;
    WORD(raw_rows)(s->w, s->slot, worker, s->batch, s->head, at, rows, begin, end, to, stride);
    for (int64_t k = 0; k < rows; k++) {
        REAL *row = to + k * stride;
        if (!rounds->raw) {
            WORD(ota_row_scores)
            (&plan->resolved, s->batch, s->head, at + k, begin[k], end[k], row + begin[k]);
        }
        WORD(shut_outside)(row, begin[k], end[k], stride);
    }
    if (rounds->masked && rounds->first) {
        KERNELS(plan)->columns_top(to, stride, rows, stride, zeros,
                                   (REAL *)s->seat->tops + chunk * stride);
    }
    for (int64_t k = 0; k < rows; k++) {
        WORD(kernel_row)
        (rounds, chunk, at + k, (const REAL *)worker->queries + k * plan->resolved.width,
         to + k * stride);
    }
}

/* Where the block of a chunk that begins at row `at` lies. */
static REAL *WORD(block_of)(const WORD(rounds_walk) * rounds, const ota_worker *worker,
                            int64_t at) {
    const ota_plan *plan = rounds->seat_walk->w->plan;
    return plan->streamed ? worker->block
                          : (REAL *)rounds->seat_walk->seat->scores + at * plan->dense_stride;
}

static void WORD(form_kernel)(void *context, int64_t chunk, int worker_index) {
    WORD(rounds_walk) *rounds = context;
    const WORD(seat_walk) *s = rounds->seat_walk;
    ota_plan *plan = s->w->plan;
    ota_worker *worker = &plan->workers[worker_index];
    const int64_t stride = plan->dense_stride, step = WORD(rows_at_once)(plan);
    int64_t first, last;
    chunk_rows(plan->resolved.queries, chunk, &first, &last);
    if (first == last) return;
    memset(WORD(column_part)(rounds, chunk), 0, (size_t)stride * sizeof(double));
    if (rounds->first) {
        REAL *tops = rounds->masked ? (REAL *)s->seat->tops + chunk * stride : NULL;
        for (int64_t j = 0; rounds->masked && j < stride; j++) tops[j] = (REAL)-INFINITY;
        s->seat->surveys[chunk] =
            (ota_survey){.low = INFINITY, .high = -INFINITY, .least = plan->resolved.keys};
    }
    for (int64_t at = first; at < last; at += step) {
        const int64_t rows = at + step < last ? step : last - at;
        REAL *to = WORD(block_of)(rounds, worker, at);
        WORD(form_block)(rounds, worker, chunk, at, rows, to);
        WORD(turn_rows)(rounds, chunk, at, rows, to);
    }
}

static void WORD(turn_chunk)(void *context, int64_t chunk, int worker_index) {
    WORD(rounds_walk) *rounds = context;
    int64_t first, last;
    (void)worker_index;
    const ota_plan *plan = rounds->seat_walk->w->plan;
    chunk_rows(plan->resolved.queries, chunk, &first, &last);
    if (first == last) return;
    memset(WORD(column_part)(rounds, chunk), 0, (size_t)plan->dense_stride * sizeof(double));
    WORD(turn_rows)
    (rounds, chunk, first, last - first,
     (const REAL *)rounds->seat_walk->seat->scores + first * plan->dense_stride);
}

/* P of one row of K, [count] into `to`, which may be that row, and what the row's outputs need. */
static void WORD(plan_row)(WORD(rounds_walk) * rounds, int64_t query, REAL *row, REAL *to,
                           int64_t count, ota_row_found *found) {
    const WORD(seat_walk) *s = rounds->seat_walk;
    const ota_plan *plan = s->w->plan;
    const ota_arrays *a = s->w->arrays;
    const ota_seat *seat = s->seat;
    const int64_t stride = plan->dense_stride;
    const double mu = seat->mu[query], u = seat->u[query], t = rounds->t;
    const bool logs = ota_array_present(&a->lse) || ota_array_present(&a->row_potential);
    *found = (ota_row_found){.potential = -INFINITY, .lse = -INFINITY};
    found->empty = !(seat->shift[query] > -INFINITY);
    if (!(mu > 0.0)) {
        const double one = 1.0;
        KERNELS(plan)->weights(row, stride, 1, stride, seat->bias, &one, row, stride);
        if (logs && !found->empty) {
            found->lse =
                log(KERNELS(plan)->sum(row, stride) + seat->sinks[query]) + seat->shift[query] / t;
        }
        memset(to, 0, (size_t)count * sizeof *to);
        return;
    }
    KERNELS(plan)->weights(row, stride, 1, count, seat->bias, &u, to, count);
    found->sink = u * seat->sinks[query];
    found->mass = mu - found->sink;
    if (!logs) return;
    const double bare = ldexp(u, REAL_LIFT);
    found->potential = t * log(bare) - seat->shift[query];
    found->lse = log(mu / bare) + seat->shift[query] / t;
}

/* The last round of a chunk and everything the caller wants from its rows. */
static void WORD(emit_rounds)(void *context, int64_t chunk, int worker_index) {
    WORD(rounds_walk) *rounds = context;
    const WORD(seat_walk) *s = rounds->seat_walk;
    walk *w = s->w;
    ota_plan *plan = w->plan;
    const int64_t stride = plan->dense_stride, step = WORD(rows_at_once)(plan);
    const int64_t part = s->seat_index * OTA_CHUNKS + chunk;
    ota_tally *tally = &plan->block_tallies[part];
    *tally = (ota_tally){0};
    double *receiver = NULL;
    if (ota_array_present(&w->arrays->receiver)) {
        receiver = plan->receivers + part * plan->stride;
        memset(receiver, 0, (size_t)plan->stride * sizeof *receiver);
    }
    int64_t first, last;
    chunk_rows(plan->resolved.queries, chunk, &first, &last);
    if (first == last) return;
    memset(WORD(column_part)(rounds, chunk), 0, (size_t)stride * sizeof(double));
    for (int64_t at = first; at < last; at += step) {
        const int64_t rows = at + step < last ? step : last - at;
        ota_row_found found[OTA_ROW_BLOCK];
        ota_worker *worker = &plan->workers[worker_index];
        REAL *p = WORD(block_of)(rounds, worker, at);
        if (plan->streamed) WORD(form_block)(rounds, worker, chunk, at, rows, p);
        if (!rounds->met) WORD(turn_rows)(rounds, chunk, at, rows, p);
        REAL *placed = WORD(coupling_in_place)(w, s->batch, s->head, at);
        REAL *to = placed != NULL ? placed : p;
        const int64_t ld = placed != NULL ? plan->key_count : stride;
        for (int64_t k = 0; k < rows; k++)
            WORD(plan_row)(rounds, at + k, p + k * stride, to + k * ld, ld, &found[k]);
        WORD(finish_rows)
        (w, s->slot, worker, s->batch, s->head, at, rows, to, ld, found, s->seat->mu + at, true,
         tally, receiver);
    }
}

/* Chunks that have rows come first. */
static int64_t WORD(live_chunks)(const ota_plan *plan) {
    int64_t first, last, live = 0;
    do {
        chunk_rows(plan->resolved.queries, live, &first, &last);
    } while (first < last && ++live < OTA_CHUNKS);
    return live;
}

/* c = the chunks' column sums, in order. */
static void WORD(gather_columns)(const WORD(rounds_walk) * rounds) {
    const WORD(seat_walk) *s = rounds->seat_walk;
    const ota_plan *plan = s->w->plan;
    double *restrict sum = s->seat->sums;
    memcpy(sum, s->seat->parts, (size_t)plan->dense_stride * sizeof *sum);
    for (int64_t chunk = 1; chunk < WORD(live_chunks)(plan); chunk++) {
        const double *restrict part = WORD(column_part)(rounds, chunk);
        for (int64_t j = 0; j < plan->dense_stride; j++) sum[j] += part[j];
    }
}

/* After the first kernel: which keys are in use, and the masses of both sides. */
static bool WORD(weigh_kernel)(WORD(rounds_walk) * rounds, ota_scaling *scaling) {
    WORD(seat_walk) *s = rounds->seat_walk;
    const ota_plan *plan = s->w->plan;
    ota_seat *seat = s->seat;
    const int64_t m = plan->dense_columns, stride = plan->dense_stride;
    const int64_t live = WORD(live_chunks)(plan);
    double total = 0.0;
    for (int64_t i = 0; i < plan->dense_rows; i++) total += seat->mu[i];
    for (int64_t j = 0; j < m; j++) {
        seat->nu[j] = 1.0;
        if (!rounds->masked) continue;
        bool used = false;
        for (int64_t chunk = 0; chunk < live && !used; chunk++)
            used = ((const REAL *)seat->tops)[chunk * stride + j] > (REAL)-INFINITY;
        seat->used[j] = used;
        seat->nu[j] = used ? 1.0 : 0.0;
    }
    WORD(allot_columns)(s, total);
    scaling->used = rounds->masked ? seat->used : NULL;
    return ota_scaling_begin(scaling);
}

/* v and a in the kernel's type. */
static void WORD(round_scaling)(const WORD(rounds_walk) * rounds) {
    const ota_seat *seat = rounds->seat_walk->seat;
    const ota_plan *plan = rounds->seat_walk->w->plan;
    REAL *v = seat->bias, *a = seat->line;
    for (int64_t j = 0; j < plan->dense_stride; j++) {
        v[j] = j < plan->dense_columns ? (REAL)seat->scaling[j] : (REAL)0;
        a[j] = v[j] > (REAL)0 ? (REAL)seat->absorbed[j] : (REAL)-INFINITY;
    }
}

static void WORD(begin_rounds)(WORD(rounds_walk) * rounds) {
    const WORD(seat_walk) *s = rounds->seat_walk;
    const ota_resolved *r = &s->w->plan->resolved;
    const double c = log2_e / rounds->t;
    rounds->unit = c;
    rounds->masked = r->row_terms || r->support_count > 0 || s->w->plan->key_count < r->keys;
    rounds->raw = !r->row_terms && !r->from_matrix && r->scale > 0.0 && !rounds->absorbed &&
                  !(rounds->sink > -INFINITY) && c * r->scale > RAW_LEAST &&
                  c * r->scale < 1.0 / RAW_LEAST;
    rounds->c = (REAL)(rounds->raw ? (REAL)r->scale * (REAL)c : (REAL)c);
}

/* One round: forms the kernel when `form` asks for it. False: the solver on stored scores decides. */
static bool WORD(turn)(WORD(rounds_walk) * rounds, bool form) {
    const ota_plan *plan = rounds->seat_walk->w->plan;
    WORD(round_scaling)(rounds);
    if (form) WORD(begin_rounds)(rounds);
    atomic_store(&rounds->lost, false);
    ota_parallel(plan->pool, WORD(live_chunks)(plan),
                 form || plan->streamed ? WORD(form_kernel) : WORD(turn_chunk), rounds);
    WORD(gather_columns)(rounds);
    return !atomic_load(&rounds->lost) && !atomic_load(&rounds->shut) &&
           !atomic_load(&rounds->wild);
}

/* The least residual that this arithmetic can be asked for (numeric policy 3.5). Products of queries and
 * keys are wrong by a share of their norms, whatever range the scores have. */
static double WORD(rounds_floor)(const WORD(rounds_walk) * rounds) {
    const WORD(seat_walk) *s = rounds->seat_walk;
    const ota_plan *plan = s->w->plan;
    const double u = sizeof(REAL) == sizeof(double) ? 0x1p-53 : 0x1p-24;
    ota_survey all = {.low = INFINITY, .high = -INFINITY};
    for (int64_t chunk = 0; chunk < WORD(live_chunks)(plan); chunk++) {
        const ota_survey *one = &s->seat->surveys[chunk];
        all.low = fmin(all.low, one->low);
        all.high = fmax(all.high, one->high);
        all.norm = fmax(all.norm, one->norm);
    }
    double reach = all.high > all.low ? (all.high - all.low) / 4.0 : 0.0;
    const REAL *keys = s->slot->packed_keys;
    const int64_t width = plan->resolved.width;
    double key_norm = 0.0;
    for (int64_t j = 0; !plan->resolved.from_matrix && j < plan->key_count; j += OTA_PANEL) {
        REAL norm[OTA_PANEL] = {0};
        for (int64_t q = 0; q < width; q++) {
            const REAL *lane = keys + j * width + q * OTA_PANEL;
            for (int64_t l = 0; l < OTA_PANEL; l++) norm[l] += lane[l] * lane[l];
        }
        /* Keys that nobody may use hold whatever they hold. */
        for (int64_t l = 0; l < OTA_PANEL && j + l < plan->key_count; l++) {
            if (!rounds->masked || s->seat->used[j + l] != 0)
                key_norm = fmax(key_norm, (double)norm[l]);
        }
    }
    reach += fabs(plan->resolved.scale) * sqrt(all.norm) * sqrt(key_norm);
    return 8.0 * u + u * reach / rounds->t;
}

typedef struct WORD(rounds_progress) {
    ota_extrapolation history;
    double *before; /* g before a step */
    double floor, residual, last, best, marker;
    bool allowed; /* to extrapolate */
    bool slow;    /* plain rounds */
    bool accelerated, extrapolated;
} WORD(rounds_progress);

/* After a turn, to a tolerance: is the plan of these u and v within it? Where f32 leads, is there nothing left
 * that it could do? */
static bool WORD(within)(WORD(rounds_walk) * rounds, ota_scaling *scaling,
                         WORD(rounds_progress) * at) {
    const ota_dense *d = rounds->seat_walk->dense;
    const double asked = d->settings->tolerance;
    const double tolerance = rounds->leading ? asked : asked - at->floor;
    const double goal = rounds->leading ? fmax(lead_floor * at->floor, asked) : tolerance;
    const double growth = ota_scaling_constant(scaling);
    double *u = rounds->seat_walk->seat->u;
    for (int64_t i = 0; i < d->rows && (growth > 1.0 || growth < 1.0); i++) u[i] /= growth;
    at->last = at->residual;
    at->residual = ota_scaling_residual(scaling);
    if (at->residual <= goal) return true;
    if (rounds->leading && at->residual <= at->floor && at->residual > at->last) return true;
    const double rate = at->residual / at->last, ahead = log(tolerance / at->residual);
    const bool soon = rate < 1.0 && ahead / log(rate) < (at->allowed ? ROUNDS_AHEAD : ROUNDS_SHARE);
    at->slow |= d->rounds >= (at->allowed ? 1 : ROUNDS_SETTLED) && !soon;
    at->accelerated = at->slow && at->allowed;
    at->best = fmin(at->best, at->residual);
    return false;
}

/* Extrapolated rounds would meet exact or capped columns in the limit where no plan of positive weights
 * does: where some row may not use a key that another may, the general solver looks for one first. Asked for by
 * name, Sinkhorn is Sinkhorn. */
static bool WORD(may_extrapolate)(const WORD(rounds_walk) * rounds) {
    const WORD(seat_walk) *s = rounds->seat_walk;
    const ota_plan *plan = s->w->plan;
    if (plan->solver != &ota_solver_coupled) return false;
    int64_t used = 0, least = plan->resolved.keys;
    for (int64_t j = 0; j < plan->dense_columns; j++)
        used += !rounds->masked || s->seat->used[j] != 0;
    for (int64_t chunk = 0; chunk < WORD(live_chunks)(plan); chunk++) {
        const int64_t one = s->seat->surveys[chunk].least;
        least = one < least ? one : least;
    }
    return least >= used || s->dense->rule == OTA_COLUMNS_RELAXED;
}

/* Has the residual stood still, or has the head had its share of rounds? */
static bool WORD(is_slow)(const ota_dense *d, WORD(rounds_progress) * at, bool named) {
    if (!named && at->slow && !at->allowed) return true;
    if (!named && d->rounds > ROUNDS_SHARE && d->rounds > d->columns) return true;
    if (d->rounds % ROUNDS_STALL != ROUNDS_STALL - 1) return false;
    const bool stalled = at->best > stall_ratio * at->marker;
    at->marker = at->best;
    return stalled;
}

/* One column update, extrapolated once plain rounds have shown to be slow. */
static ota_scaling_state WORD(advance)(const WORD(rounds_walk) * rounds, ota_scaling *scaling,
                                       WORD(rounds_progress) * at) {
    ota_dense *d = rounds->seat_walk->dense;
    const size_t bytes = (size_t)d->columns * sizeof *d->g;
    if (!at->accelerated) return ota_scaling_step(scaling);
    if (at->extrapolated && !(at->residual <= at->last)) {
        memcpy(d->g, at->history.plain, bytes);
        ota_extrapolation_forget(&at->history);
        at->extrapolated = false;
        at->residual = INFINITY;
        return ota_scaling_restore(scaling);
    }
    ota_scaling_potentials(scaling);
    memcpy(at->before, d->g, bytes);
    const ota_scaling_state state = ota_scaling_step(scaling);
    if (state == OTA_SCALING_LOST) return state;
    ota_scaling_potentials(scaling);
    at->extrapolated = ota_extrapolate(&at->history, at->before, d->g, d->columns,
                                       d->rule == OTA_COLUMNS_CAPPED ? 0.0 : INFINITY);
    return at->extrapolated ? ota_scaling_restore(scaling) : state;
}

/* g = 0, what the caller gives, or what rounds in f32 left. True: the kernel has to absorb it. */
static bool WORD(start_rounds)(WORD(seat_walk) * s, ota_scaling *scaling, bool led) {
    walk *w = s->w;
    const ota_plan *plan = w->plan;
    ota_dense *d = s->dense;
    d->warm = ota_array_present(&w->arrays->start_potential);
    for (int64_t j = 0; j < plan->dense_columns; j++) {
        const double start =
            d->warm ? ota_array_get(&w->arrays->start_potential, s->batch, s->head, 0, j) : 0.0;
        if (!led)
            d->g[j] =
                isfinite(start) && !(d->rule == OTA_COLUMNS_CAPPED && start > 0.0) ? start : 0.0;
        s->seat->scaling[j] = d->g[j] > -INFINITY ? 1.0 : 0.0;
        s->seat->absorbed[j] = 0.0;
    }
    const bool absorbs = led ? ota_scaling_restore(scaling) == OTA_SCALING_OUTSIDE : d->warm;
    if (absorbs) ota_scaling_absorb(scaling);
    const ota_resolved *r = &plan->resolved;
    WORD(pack_slot)(w, s->slot, s->batch, s->head / (r->heads / r->key_heads));
    return absorbs;
}

/* Would rounds in f32 on the caller's matrix spare many in f64? Some rows tell: they spread over many temperatures,
 * and f32 does not round them off. */
static bool WORD(pays_to_lead)(const WORD(seat_walk) * s) {
    const ota_plan *plan = s->w->plan;
    const ota_resolved *r = &plan->resolved;
    const double unit = fabs(r->scale) / s->dense->tau;
    const int64_t rows[] = {0, r->queries / 2, r->queries - 1};
    REAL *row = s->seat->line;
    double spread = 0.0, size = 0.0;
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        int64_t forbidden;
        pack_rows(&r->problem.scores, s->batch, s->head, rows[k], 1, row, plan->dense_stride);
        const double low = (double)KERNELS(plan)->lowest(row, r->keys, &forbidden);
        const double high = (double)KERNELS(plan)->maximum(row, NULL, r->keys);
        spread = fmax(spread, high - low);
        size = fmax(size, fmax(fabs(low), fabs(high)));
    }
    return spread * unit >= lead_range && size * unit * 0x1p-24 <= lead_worst;
}

/* After the first round: what can this arithmetic do for the tolerance? False: nothing. */
static bool WORD(is_fine)(WORD(rounds_walk) * rounds, WORD(rounds_progress) * at) {
    const WORD(seat_walk) *s = rounds->seat_walk;
    const ota_plan *plan = s->w->plan;
    const bool narrow = sizeof(REAL) < sizeof(double);
    at->floor = WORD(rounds_floor)(rounds);
    at->allowed = WORD(may_extrapolate)(rounds);
    if ((!narrow || !plan->wide || plan->mixed) && s->dense->settings->tolerance >= 2.0 * at->floor)
        return true;
    rounds->leading =
        narrow && plan->leads && at->allowed && !s->dense->warm && at->floor <= lead_worst;
    return rounds->leading;
}

/* Turns until the rounds are done or the tolerance is met. ROUNDS_DONE leaves u or v for the emission. */
static rounds_end WORD(turn_rounds)(WORD(rounds_walk) * rounds, ota_scaling *scaling,
                                    rounds_lead *lead, ota_status *stopped) {
    ota_dense *d = rounds->seat_walk->dense;
    const ota_plan *plan = rounds->seat_walk->w->plan;
    const ota_settings *settings = &plan->resolved.settings;
    double *memory = rounds->seat_walk->seat->history;
    WORD(rounds_progress)
    progress = {.residual = INFINITY, .best = INFINITY, .marker = INFINITY, .slow = lead->slow};
    if (rounds->careful) {
        ota_extrapolation_place(&progress.history, memory, plan->dense_stride);
        progress.before = memory + OTA_ANDERSON_VECTORS * plan->dense_stride;
    }
    bool form = true;
    for (d->rounds = lead->rounds;; d->rounds++) {
        const bool last = settings->fixed && d->rounds >= settings->rounds;
        rounds->first = d->rounds == lead->rounds;
        if (!last || form) {
            if (!WORD(turn)(rounds, form))
                return atomic_load(&rounds->wild)   ? ROUNDS_WILD
                       : atomic_load(&rounds->shut) ? ROUNDS_SHUT
                                                    : ROUNDS_LOST;
            if (rounds->first && !WORD(weigh_kernel)(rounds, scaling)) return ROUNDS_SHUT;
        }
        if (last) return ROUNDS_DONE;
        if (rounds->careful) {
            if (rounds->first && !WORD(is_fine)(rounds, &progress)) return ROUNDS_COARSE;
            rounds->met = WORD(within)(rounds, scaling, &progress);
            if (isnan(progress.residual)) return ROUNDS_LOST;
            const bool named = plan->solver != &ota_solver_coupled;
            const bool slow = !rounds->met && !plan->streamed && WORD(is_slow)(d, &progress, named);
            const bool spent = d->rounds >= settings->max_rounds;
            if (rounds->leading && (rounds->met || slow || spent)) {
                *lead = (rounds_lead){.led = true, .slow = progress.slow, .rounds = d->rounds};
                return ROUNDS_LED;
            }
            if (rounds->met) return ROUNDS_DONE;
            if (slow) return ROUNDS_SLOW;
            if (spent) return ROUNDS_SPENT;
        }
        *stopped = ota_interrupted(settings);
        if (*stopped != OTA_OK) return ROUNDS_STOPPED;
        if (d->tell != NULL) {
            ota_scaling_potentials(scaling);
            ota_scaling_measure(scaling);
            d->tell(d->tell_context, d->rounds, d->column_error);
        }
        const ota_scaling_state state = WORD(advance)(rounds, scaling, &progress);
        if (state == OTA_SCALING_LOST) return ROUNDS_LOST;
        form = state == OTA_SCALING_OUTSIDE;
        if (!form) continue;
        /* Differences of a caller's scores may need more than a in the kernel's type carries. */
        if (plan->mixed && !rounds->leading && plan->resolved.from_matrix &&
            sizeof(REAL) < sizeof(double))
            return ROUNDS_COARSE;
        if (!progress.extrapolated) ota_scaling_potentials(scaling);
        ota_scaling_absorb(scaling);
        rounds->absorbed = true;
    }
}

/* Runs one head; ROUNDS_DONE or ROUNDS_STOPPED end it, ROUNDS_LED leaves g. */
static rounds_end WORD(run_rounds)(WORD(seat_walk) * s, rounds_lead *lead, ota_tally *tally) {
    ota_plan *plan = s->w->plan;
    ota_dense *d = s->dense;
    ota_seat *seat = s->seat;
    const ota_settings *settings = &plan->resolved.settings;
    WORD(rounds_walk)
    rounds = {.seat_walk = s, .t = d->tau, .sink = d->sink, .careful = !settings->fixed};
    ota_scaling scaling = {.head = d,
                           .target = seat->target,
                           .sum = seat->sums,
                           .scaling = seat->scaling,
                           .absorbed = seat->absorbed};
    if (d->tau < RAW_LEAST || d->tau > 1.0 / RAW_LEAST) return ROUNDS_LOST;
    rounds.absorbed = WORD(start_rounds)(s, &scaling, lead->led);
    ota_status stopped = OTA_OK;
    rounds_end end = WORD(turn_rounds)(&rounds, &scaling, lead, &stopped);
    if (end == ROUNDS_LED) ota_scaling_potentials(&scaling);
    const bool partial = end == ROUNDS_SPENT && plan->streamed && settings->allow_partial;
    if (end == ROUNDS_STOPPED) tally->result.status = stopped;
    if (end != ROUNDS_DONE && !partial) return end;
    ota_scaling_potentials(&scaling);
    rounds.first = false;
    WORD(round_scaling)(&rounds);
    atomic_store(&rounds.lost, false);
    ota_parallel(plan->pool, OTA_CHUNKS, WORD(emit_rounds), &rounds);
    if (!rounds.met) WORD(gather_columns)(&rounds);
    if (atomic_load(&rounds.lost)) return ROUNDS_LOST;
    ota_scaling_measure(&scaling);
    tally->result.rounds = d->rounds;
    tally->result.column_error = d->column_error;
    tally->temperature_reached = d->tau;
    tally->result.status = settings->fixed ? OTA_FIXED_ITERS : partial ? OTA_PARTIAL : OTA_OK;
    tally->solver = ota_solver_sinkhorn.name;
    return ROUNDS_DONE;
}
