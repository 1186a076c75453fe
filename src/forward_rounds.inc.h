/* A fixed number of rounds on a stored kernel, body for REAL = float or double (forward.c). One head:
 *
 *     K_ij = 2^((S_ij + a_j - m_i) c) 2^lift   [queries][stride], m_i the row's maximum, c = log2(e) / tau
 *     round: u_i = mu_i / (sum_j K_ij v_j + sink_i),  c_j = sum_i u_i K_ij,  v by scaling.h
 *     last:  P_ij = u_i K_ij v_j written over K,      out = P V
 *
 * K is formed block by block from the products and its first round runs while the block is in the
 * second cache; the last round is the emission, so K is read once a round. The residual is the column
 * sums of the last round. What the kernel cannot carry (NaN, infinities, sums that underflow, masses
 * without a place) is left to the plan's solver on stored scores. */

/* Blocks of whole score rows stay in the second cache together with the values. */
static int64_t WORD(rows_at_once)(const ota_plan *plan) {
    const size_t row = (size_t)plan->dense_stride * sizeof(REAL);
    return row <= ((size_t)8 << 10) ? OTA_ROW_BLOCK : row <= ((size_t)16 << 10) ? 24 : 12;
}

typedef struct WORD(rounds_walk) {
    WORD(seat_walk) * seat_walk;
    double t, sink;
    REAL c;            /* log2(e) / tau */
    bool raw;          /* q.k is exponentiated as it is, the scale folded into c */
    bool absorbed;     /* a is not 0 */
    bool masked;       /* some pair may be forbidden */
    _Atomic bool lost; /* not finite, or a row without the sum its kernel promises */
    _Atomic bool shut; /* an empty row with mass */
} WORD(rounds_walk);

/* Without the lift: the least sum of a row whose largest entry is 1 and whose scalings are bounded
 * (scaling.c), and the least u that is still normal, lift and all. */
static const double WORD(least_row_sum) = sizeof(REAL) == sizeof(double) ? 0x1p-257 : 0x1p-33;
static const double WORD(least_row_scaling) = sizeof(REAL) == sizeof(double) ? 0x1p-500 : 0x1p-60;

static double *WORD(column_part)(const WORD(rounds_walk) * rounds, int64_t chunk) {
    const WORD(seat_walk) *s = rounds->seat_walk;
    return s->seat->parts + chunk * s->w->plan->dense_stride;
}

static void WORD(turn_rows)(WORD(rounds_walk) * rounds, int64_t chunk, int64_t first,
                            int64_t rows) {
    const WORD(seat_walk) *s = rounds->seat_walk;
    const ota_plan *plan = s->w->plan;
    const ota_seat *seat = s->seat;
    const int64_t stride = plan->dense_stride;
    KERNELS(plan)->linear_round((const REAL *)seat->scores + first * stride, stride, rows, stride,
                                seat->bias, seat->mu + first,
                                rounds->sink > -INFINITY ? seat->sinks + first : NULL,
                                seat->u + first, WORD(column_part)(rounds, chunk));
    bool lost = false;
    for (int64_t i = first; i < first + rows; i++) {
        const double u = ldexp(seat->u[i], REAL_LIFT), mu = seat->mu[i];
        lost |= !(u * WORD(least_row_sum) <= mu) || (mu > 0.0 && u < WORD(least_row_scaling));
    }
    if (lost) atomic_store_explicit(&rounds->lost, true, memory_order_relaxed);
}

/* One row of scores, or raw products, into a row of K. */
static void WORD(kernel_row)(WORD(rounds_walk) * rounds, int64_t query, REAL *row) {
    const WORD(seat_walk) *s = rounds->seat_walk;
    const ota_plan *plan = s->w->plan;
    ota_seat *seat = s->seat;
    const REAL *a = rounds->absorbed ? seat->line : NULL;
    const double keys = (double)KERNELS(plan)->maximum(row, a, plan->key_count);
    const double top = keys > rounds->sink || isnan(keys) ? keys : rounds->sink;
    const double mu = ota_row_mass(&plan->resolved, s->batch, s->head, query);
    const bool empty = top <= -INFINITY;
    if (!(fabs(top) < (double)REAL_TOP / 8.0) && !empty)
        atomic_store_explicit(&rounds->lost, true, memory_order_relaxed);
    if (empty && mu > 0.0) atomic_store_explicit(&rounds->shut, true, memory_order_relaxed);
    const REAL shift = empty ? (REAL)0 : (REAL)top;
    KERNELS(plan)->lifted(row, a, plan->dense_stride, shift, rounds->c, row);
    seat->mu[query] = empty ? 0.0 : mu;
    seat->shift[query] =
        empty ? -INFINITY : (double)shift * (rounds->raw ? plan->resolved.scale : 1.0);
    seat->sinks[query] = rounds->sink > -INFINITY
                             ? ldexp(exp((rounds->sink - (double)shift) / rounds->t), REAL_LIFT)
                             : 0.0;
}

static void WORD(form_kernel)(void *context, int64_t chunk, int worker_index) {
    WORD(rounds_walk) *rounds = context;
    const WORD(seat_walk) *s = rounds->seat_walk;
    ota_plan *plan = s->w->plan;
    const int64_t stride = plan->dense_stride, step = WORD(rows_at_once)(plan);
    int64_t first, last, begin[OTA_ROW_BLOCK], end[OTA_ROW_BLOCK];
    chunk_rows(plan->resolved.queries, chunk, &first, &last);
    if (first == last) return;
    REAL *tops = rounds->masked ? (REAL *)s->seat->tops + chunk * stride : NULL;
    const double zeros[OTA_ROW_BLOCK] = {0};
    memset(WORD(column_part)(rounds, chunk), 0, (size_t)stride * sizeof(double));
    for (int64_t j = 0; rounds->masked && j < stride; j++) tops[j] = (REAL)-INFINITY;
    for (int64_t at = first; at < last; at += step) {
        const int64_t rows = at + step < last ? step : last - at;
        REAL *to = (REAL *)s->seat->scores + at * stride;
        WORD(raw_rows)
        (s->w, s->slot, &plan->workers[worker_index], s->batch, s->head, at, rows, begin, end, to,
         stride);
        for (int64_t k = 0; k < rows; k++) {
            REAL *row = to + k * stride;
            if (!rounds->raw) {
                WORD(ota_row_scores)
                (&plan->resolved, s->batch, s->head, at + k, begin[k], end[k], row + begin[k]);
            }
            WORD(shut_outside)(row, begin[k], end[k], stride);
        }
        if (rounds->masked) KERNELS(plan)->columns_top(to, stride, rows, stride, zeros, tops);
        for (int64_t k = 0; k < rows; k++) WORD(kernel_row)(rounds, at + k, to + k * stride);
        WORD(turn_rows)(rounds, chunk, at, rows);
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
    WORD(turn_rows)(rounds, chunk, first, last - first);
}

/* P of one row over its K, and what the row's outputs need. */
static void WORD(plan_row)(WORD(rounds_walk) * rounds, int64_t query, REAL *row,
                           ota_row_found *found) {
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
        memset(row, 0, (size_t)stride * sizeof *row);
        return;
    }
    KERNELS(plan)->weights(row, stride, 1, stride, seat->bias, &u, row, stride);
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
        REAL *p = (REAL *)s->seat->scores + at * stride;
        WORD(turn_rows)(rounds, chunk, at, rows);
        for (int64_t k = 0; k < rows; k++)
            WORD(plan_row)(rounds, at + k, p + k * stride, &found[k]);
        WORD(finish_rows)
        (w, s->slot, &plan->workers[worker_index], s->batch, s->head, at, rows, p, stride, found,
         s->seat->mu + at, true, tally, receiver);
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
    ota_parallel(plan->pool, WORD(live_chunks)(plan), form ? WORD(form_kernel) : WORD(turn_chunk),
                 rounds);
    WORD(gather_columns)(rounds);
    return !atomic_load(&rounds->lost) && !atomic_load(&rounds->shut);
}

/* Runs one head. False: the solver on stored scores has to do it. */
static bool WORD(run_rounds)(WORD(seat_walk) * s, ota_tally *tally) {
    walk *w = s->w;
    ota_plan *plan = w->plan;
    ota_dense *d = s->dense;
    ota_seat *seat = s->seat;
    const ota_resolved *r = &plan->resolved;
    const int64_t asked = r->settings.rounds;
    WORD(rounds_walk) rounds = {.seat_walk = s, .t = d->tau, .sink = d->sink};
    ota_scaling scaling = {.head = d,
                           .target = seat->target,
                           .sum = seat->sums,
                           .scaling = seat->scaling,
                           .absorbed = seat->absorbed};
    if (d->tau < RAW_LEAST || d->tau > 1.0 / RAW_LEAST) return false;
    d->warm = ota_array_present(&w->arrays->start_potential);
    for (int64_t j = 0; j < plan->dense_columns; j++) {
        const double start =
            d->warm ? ota_array_get(&w->arrays->start_potential, s->batch, s->head, 0, j) : 0.0;
        d->g[j] = isfinite(start) && !(d->rule == OTA_COLUMNS_CAPPED && start > 0.0) ? start : 0.0;
        seat->scaling[j] = 1.0;
        seat->absorbed[j] = 0.0;
    }
    WORD(pack_slot)(w, s->slot, s->batch, s->head / (r->heads / r->key_heads));
    rounds.absorbed = d->warm;
    if (d->warm) ota_scaling_absorb(&scaling);
    bool form = true;
    for (int64_t round = 0;; round++) {
        if (round < asked || form) {
            if (!WORD(turn)(&rounds, form)) return false;
            if (round == 0 && !WORD(weigh_kernel)(&rounds, &scaling)) return false;
        }
        if (round >= asked) break;
        const ota_status stopped = ota_interrupted(&r->settings);
        if (stopped != OTA_OK) {
            tally->result.status = stopped;
            return true;
        }
        if (d->tell != NULL) {
            ota_scaling_potentials(&scaling);
            ota_scaling_measure(&scaling);
            d->tell(d->tell_context, round, d->column_error);
        }
        form = false;
        const ota_scaling_state state = ota_scaling_step(&scaling);
        if (state == OTA_SCALING_LOST) return false;
        if (state == OTA_SCALING_OUTSIDE) {
            ota_scaling_potentials(&scaling);
            ota_scaling_absorb(&scaling);
            form = rounds.absorbed = true;
        }
    }
    ota_scaling_potentials(&scaling);
    WORD(round_scaling)(&rounds);
    atomic_store(&rounds.lost, false);
    ota_parallel(plan->pool, OTA_CHUNKS, WORD(emit_rounds), &rounds);
    WORD(gather_columns)(&rounds);
    if (atomic_load(&rounds.lost)) return false;
    ota_scaling_measure(&scaling);
    d->rounds = asked;
    tally->result.rounds = asked;
    tally->result.column_error = d->column_error;
    tally->temperature_reached = d->tau;
    tally->result.status = OTA_FIXED_ITERS;
    return true;
}
