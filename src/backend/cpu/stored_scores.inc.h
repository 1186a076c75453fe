/* Stored scores, a part of forward.inc.h: one head's scores S [dense_rows][dense_stride] are formed, transposed
 * where the problem is, a solver of solver.h finds the potentials, and the emission solves every row once
 * more with them as a bias and writes weights, outputs and statistics [DER-26]. */

typedef struct WORD(seat_walk) {
    walk *w;
    ota_seat *seat;
    ota_slot *slot;
    ota_dense *dense;
    int64_t batch, head, seat_index;
} WORD(seat_walk);

/* Forms one chunk of the stored scores, transposed when the plan is. */
static void WORD(form_task)(void *context, int64_t chunk, int worker_index) {
    WORD(seat_walk) *s = context;
    ota_plan *plan = s->w->plan;
    ota_worker *worker = &plan->workers[worker_index];
    REAL *scores = s->seat->scores;
    int64_t first, last;
    chunk_rows(plan->resolved.queries, chunk, &first, &last);
    for (int64_t at = first; at < last; at += OTA_BLOCK_ROWS) {
        const int64_t rows = at + OTA_BLOCK_ROWS < last ? OTA_BLOCK_ROWS : last - at;
        if (!plan->transposed) {
            form_rows(s->w, s->slot, worker, s->batch, s->head, at, rows,
                      scores + at * plan->dense_stride, plan->dense_stride);
            continue;
        }
        REAL *block = worker->scores;
        form_rows(s->w, s->slot, worker, s->batch, s->head, at, rows, block, plan->stride);
        for (int64_t k = 0; k < rows; k++) {
            for (int64_t j = 0; j < plan->dense_rows; j++)
                scores[j * plan->dense_stride + at + k] = block[k * plan->stride + j];
        }
    }
}

/* Column masses for a row mass of `total`; on entry nu is positive where some row may use the key. */
static void WORD(allot_columns)(WORD(seat_walk) * s, double total) {
    const ota_plan *plan = s->w->plan;
    const ota_resolved *r = &plan->resolved;
    const int64_t m = plan->dense_columns;
    ota_seat *seat = s->seat;
    int64_t usable = 0;
    for (int64_t j = 0; j < m; j++) usable += seat->nu[j] > 0.0;
    const bool capacity = r->problem.columns == OTA_COLUMNS_CAPPED;
    const bool given =
        ota_array_present(plan->transposed ? &r->problem.row_mass : &r->problem.column_mass);
    for (int64_t j = 0; j < m; j++) {
        double mass = capacity ? 1.0 : seat->nu[j] > 0.0 ? total / (double)usable : 0.0;
        if (given)
            mass = plan->transposed ? ota_row_mass(r, s->batch, s->head, j)
                                    : ota_column_mass(r, s->batch, s->head, j, mass);
        seat->nu[j] = capacity ? r->problem.cap * mass : mass;
        seat->lambdas[j] = ota_key_lambda(r, j);
    }
    s->dense->mass = total;
}

/* Masses of the stored problem, which rows and columns are usable, the range; false on NaN or +inf. */
static bool WORD(weigh)(WORD(seat_walk) * s) {
    const ota_plan *plan = s->w->plan;
    const ota_resolved *r = &plan->resolved;
    const int64_t n = plan->dense_rows, m = plan->dense_columns;
    ota_seat *seat = s->seat;
    const REAL *scores = seat->scores;
    double low = INFINITY, high = -INFINITY, total = 0.0;
    bool finite = true, all_used = false;
    for (int64_t j = 0; j < plan->dense_stride; j++) seat->nu[j] = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const REAL *row = scores + i * plan->dense_stride;
        const double top = (double)KERNELS(plan)->maximum(row, NULL, m);
        int64_t forbidden;
        const double bottom = (double)KERNELS(plan)->lowest(row, m, &forbidden);
        bool any = top > -INFINITY;
        finite &= top < INFINITY;
        if (any && bottom < low) low = bottom;
        if (any && top > high) high = top;
        if (forbidden > 0 || isnan(top)) {
            for (int64_t j = 0; j < m; j++) {
                if (!(row[j] > (REAL)-INFINITY)) continue;
                any = true;
                seat->nu[j] = 1.0;
            }
        } else if (!all_used) {
            for (int64_t j = 0; j < m; j++) seat->nu[j] = 1.0;
            all_used = true;
        }
        const double mu = plan->transposed ? ota_column_mass(r, s->batch, s->head, i, 1.0)
                                           : ota_row_mass(r, s->batch, s->head, i);
        const bool empty = !any && !(s->dense->sink > -INFINITY);
        seat->mu[i] = empty ? 0.0 : mu;
        total += seat->mu[i];
        /* A masked row that should carry mass has no place in an exact plan. */
        if (empty && mu > 0.0) s->dense->unusable = -1;
    }
    WORD(allot_columns)(s, total);
    s->dense->range = high > low ? high - low : 0.0;
    return finite;
}

/* The weights of dense rows [first, last) from what the solver left, into `to`. */
static void WORD(weights_of)(const WORD(seat_walk) * s, const ota_row_law *law, int64_t i, REAL *to,
                             ota_row_found *found) {
    const ota_plan *plan = s->w->plan;
    const ota_dense *d = s->dense;
    const int64_t m = plan->dense_columns;
    if (d->emission == OTA_EMIT_MATCH) {
        memset(to, 0, (size_t)m * sizeof *to);
        to[d->match[i]] = (REAL)d->mu[i];
        *found = (ota_row_found){.mass = d->mu[i], .potential = d->f[i], .lse = -INFINITY};
        return;
    }
    if (d->emission == OTA_EMIT_PLAN) {
        const double *from = s->seat->plan + i * plan->dense_stride;
        *found =
            (ota_row_found){.potential = d->mu[i] > 0.0 ? d->f[i] : -INFINITY, .lse = -INFINITY};
        for (int64_t j = 0; j < m; j++) {
            to[j] = (REAL)from[j];
            found->mass += from[j];
        }
        if (law->sink > -INFINITY) found->sink = fmax(0.0, d->mu[i] - found->mass);
        found->empty = !(found->mass > 0.0) && d->mu[i] <= 0.0;
        return;
    }
    const REAL *row = (const REAL *)s->seat->scores + i * plan->dense_stride;
    const REAL *bias = plan->solver->solve != NULL ? s->seat->bias : NULL;
    if (d->emission == OTA_EMIT_POTENTIALS) {
        WORD(ota_row_weights)(law, row, bias, m, d->f[i], to, found);
        return;
    }
    double mu = d->mu[i];
    WORD(ota_row_solve)(law, row, bias, m, mu, to, found);
}

/* Transposed problem: weights of every dense row (key), then P = P'^T. */
static void WORD(turn_over)(WORD(seat_walk) * s, ota_tally *tally) {
    ota_plan *plan = s->w->plan;
    const ota_row_law law = WORD(row_law)(plan, s->head);
    REAL *weights = s->seat->weights, *line = s->seat->line;
    for (int64_t j = 0; j < plan->dense_rows; j++) {
        ota_row_found found;
        WORD(weights_of)(s, &law, j, line, &found);
        s->dense->f[j] = found.potential;
        tally->empty_rows += found.empty;
        for (int64_t i = 0; i < plan->dense_columns; i++) weights[i * plan->stride + j] = line[i];
    }
}

/* LSE_j (S_ij + g_j) / tau of a query of the transposed problem, whose g are the dense rows' f. */
static double WORD(transposed_lse)(const WORD(seat_walk) * s, double tau, int64_t query) {
    const ota_plan *plan = s->w->plan;
    const REAL *column = (const REAL *)s->seat->scores + query;
    double top = -INFINITY, sum = 0.0;
    for (int64_t j = 0; j < plan->dense_rows; j++)
        top = fmax(top, (double)column[j * plan->dense_stride] + s->dense->f[j]);
    if (!(top > -INFINITY)) return top;
    for (int64_t j = 0; j < plan->dense_rows; j++)
        sum += exp(((double)column[j * plan->dense_stride] + s->dense->f[j] - top) / tau);
    return log(sum) + top / tau;
}

/* Rows of a matching whose weights nobody reads: each is one value. */
static bool WORD(emit_matched)(const WORD(seat_walk) * s, REAL *out, int64_t first, int64_t rows,
                               ota_row_found *found) {
    const walk *w = s->w;
    const ota_dense *d = s->dense;
    const int64_t width = w->plan->values_width;
    if (d->emission != OTA_EMIT_MATCH || w->plan->transposed || w->more_than_out ||
        s->slot->broken_count > 0 || w->plan->resolved.problem.dropout > 0.0)
        return false;
    const REAL *values = s->slot->values;
    const bool wants_out = ota_array_present(&w->arrays->out);
    for (int64_t k = 0; k < rows; k++) {
        const int64_t i = first + k;
        found[k] = (ota_row_found){
            .mass = d->mu[i], .potential = d->f[i], .lse = -INFINITY, .applied = true};
        for (int64_t q = 0; wants_out && q < width; q++)
            out[k * width + q] = (REAL)d->mu[i] * values[d->match[i] * width + q];
    }
    return true;
}

/* Emission of one chunk of queries. */
static void WORD(emit_task)(void *context, int64_t chunk, int worker_index) {
    WORD(seat_walk) *s = context;
    walk *w = s->w;
    ota_plan *plan = w->plan;
    ota_worker *worker = &plan->workers[worker_index];
    const ota_row_law law = WORD(row_law)(plan, s->head);
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
    for (int64_t at = first; at < last; at += OTA_BLOCK_ROWS) {
        const int64_t rows = at + OTA_BLOCK_ROWS < last ? OTA_BLOCK_ROWS : last - at;
        ota_row_found found[OTA_BLOCK_ROWS];
        double mu[OTA_BLOCK_ROWS];
        REAL *p = worker->scores;
        int64_t stride = plan->stride;
        const bool matched = WORD(emit_matched)(s, worker->out, at, rows, found);
        for (int64_t k = 0; k < rows; k++) {
            if (matched) {
                mu[k] = s->dense->mu[at + k];
                continue;
            }
            if (plan->transposed) {
                p = (REAL *)s->seat->weights + at * plan->stride;
                const double mass = KERNELS(plan)->sum(p + k * stride, plan->resolved.keys);
                const double potential = s->dense->g[at + k];
                const bool entropy = plan->resolved.order > 0.0 && plan->resolved.order <= 1.0;
                mu[k] = mass;
                found[k] = (ota_row_found){.potential = potential,
                                           .mass = mass,
                                           .lse = entropy && ota_array_present(&w->arrays->lse)
                                                      ? WORD(transposed_lse)(s, law.tau, at + k)
                                                      : -INFINITY,
                                           .empty = !(mass > 0.0),
                                           .nonfinite = isnan(mass)};
                continue;
            }
            mu[k] = s->dense->mu[at + k];
            WORD(weights_of)(s, &law, at + k, p + k * stride, &found[k]);
        }
        finish_rows(w, s->slot, worker, s->batch, s->head, at, rows, p, stride, found, mu, true,
                    tally, receiver);
    }
}

/* The smallest residual this arithmetic can be asked for (numeric policy 3.5). */
static double WORD(residual_floor)(const ota_dense *d) {
    const double u = sizeof(REAL) == sizeof(double) ? 0x1p-53 : 0x1p-24;
    return 8.0 * u + u * d->range / (4.0 * d->tau);
}

static ota_status WORD(solve_dense)(WORD(seat_walk) * s, ota_tally *tally) {
    walk *w = s->w;
    ota_plan *plan = w->plan;
    ota_dense *d = s->dense;
    const ota_resolved *r = &plan->resolved;
    const int64_t index = s->batch * r->heads + s->head;
    WORD(pack_slot)(w, s->slot, s->batch, s->head / (r->heads / r->key_heads));
    bool finite = true;
    if (plan->narrow) {
        seat_walk_f32 narrow = {s->w, s->seat, s->slot, s->dense, s->batch, s->head, s->seat_index};
        ota_parallel(plan->pool, OTA_CHUNKS, form_task_f32, &narrow);
        finite = weigh_f32(&narrow);
    } else {
        ota_parallel(plan->pool, OTA_CHUNKS, WORD(form_task), s);
    }
    for (int64_t j = 0; j < plan->dense_rows && plan->transposed; j++) {
        REAL *row = (REAL *)s->seat->scores + j * plan->dense_stride;
        for (int64_t i = plan->dense_columns; i < plan->dense_stride; i++) row[i] = (REAL)-INFINITY;
    }
    if (!plan->narrow) finite = WORD(weigh)(s);
    if (plan->solver->solve == NULL)
        return d->unusable < 0 && d->rule == OTA_COLUMNS_EXACT ? OTA_INFEASIBLE : OTA_OK;
    if (!finite) {
        (void)snprintf(
            plan->sentences[index], sizeof plan->sentences[index],
            "head %" PRId64 ": the scores hold NaN or +inf and the columns couple all rows", index);
        return OTA_NONFINITE;
    }
    if (d->unusable < 0) {
        d->unusable = 0;
        if (d->rule == OTA_COLUMNS_EXACT || d->rule == OTA_COLUMNS_PREFIX) {
            (void)snprintf(plan->sentences[index], sizeof plan->sentences[index],
                           "head %" PRId64 ": a query with positive mass has no key it may use",
                           index);
            return OTA_INFEASIBLE;
        }
    }
    d->warm = ota_array_present(&w->arrays->start_potential) && !plan->transposed;
    for (int64_t j = 0; j < plan->dense_columns; j++) {
        d->g[j] =
            d->warm ? ota_array_get(&w->arrays->start_potential, s->batch, s->head, 0, j) : 0.0;
    }
    const double floor = WORD(residual_floor)(d);
    if (d->order > 0.0 && !r->settings.fixed && r->settings.tolerance < 2.0 * floor) {
        (void)snprintf(plan->sentences[index], sizeof plan->sentences[index],
                       "head %" PRId64 ": tolerance %.3g is below %.3g, twice what %s arithmetic "
                       "reaches at this range of scores and temperature",
                       index, r->settings.tolerance, 2.0 * floor,
                       sizeof(REAL) == sizeof(double) ? "f64" : "f32");
        return OTA_TOL_UNREACHABLE;
    }
    d->method = NULL;
    const ota_status status = plan->stored_solver->solve(d);
    tally->solver = d->method != NULL ? d->method : plan->stored_solver->name;
    tally->result.rounds = d->rounds;
    tally->result.column_error = d->column_error;
    tally->unusable = d->unusable;
    tally->pruned = d->pruned;
    tally->underflowed = d->underflowed;
    tally->temperature_reached = d->temperature_reached;
    (void)snprintf(plan->sentences[index], sizeof plan->sentences[index], "%.511s", d->sentence);
    if (status == OTA_NOT_CONVERGED && r->settings.allow_partial) return OTA_PARTIAL;
    return status;
}

#include "stored_kernel.inc.h"

/* Why a streamed plan, which has no stored scores to go on with, gives up. */
static ota_status WORD(give_up)(const ota_plan *plan, int64_t index, rounds_end end) {
    static const struct {
        ota_status status;
        const char *why;
    } words[] = {
        [ROUNDS_LOST] = {OTA_NOT_CONVERGED, "the sums of a round left the range of the type"},
        [ROUNDS_COARSE] = {OTA_TOL_UNREACHABLE,
                           "the tolerance is below what the arithmetic of rounds reaches"},
        [ROUNDS_SLOW] = {OTA_NOT_CONVERGED, "the rounds converge too slowly"},
        [ROUNDS_SPENT] = {OTA_NOT_CONVERGED, "max_rounds rounds did not meet the tolerance"},
        [ROUNDS_SHUT] = {OTA_INFEASIBLE, "some mass has no place"},
        [ROUNDS_WILD] = {OTA_NONFINITE, "the scores hold NaN or +inf and the columns couple all "
                                        "rows"},
    };
    (void)snprintf(plan->sentences[index], sizeof plan->sentences[index],
                   "head %" PRId64 ": %s; without workspace_limit, stored scores would go on",
                   index, words[end].why);
    return words[end].status;
}

/* One head. False: this arithmetic is too narrow for it, f64 has to do it, from g if `lead` says so. */
static bool WORD(run_seat)(walk *w, int64_t index, int64_t seat_index, rounds_lead *lead) {
    ota_plan *plan = w->plan;
    const ota_resolved *r = &plan->resolved;
    ota_seat *seat = &plan->seats[seat_index];
    ota_tally *tally = &plan->tallies[index];
    const int64_t batch = index / r->heads, head = index % r->heads;
    const ota_problem *p = &r->problem;
    ota_dense d = {.rows = plan->dense_rows,
                   .columns = plan->dense_columns,
                   .narrow = sizeof(REAL) == sizeof(float) || plan->narrow,
                   .scores = seat->scores,
                   .stride = plan->dense_stride,
                   .tau = ota_head_temperature(r, head),
                   .order = r->order,
                   .sink = ota_head_sink(r, head),
                   .mu = seat->mu,
                   .nu = seat->nu,
                   .mass_tolerance = r->type == OTA_F64 ? 1e-12 : 1e-6,
                   .row_strength = p->rows == OTA_ROWS_RELAXED ? p->row_strength : INFINITY,
                   .rule = p->columns,
                   .strength = p->strength,
                   .lambda = p->lambda,
                   .lambdas = ota_array_present(&p->lambdas) ? seat->lambdas : NULL,
                   .start = p->start,
                   .end = p->end,
                   .settings = &r->settings,
                   .kernels = plan->kernels,
                   .pool = plan->pool,
                   .workspace = seat->workspace,
                   .head = index,
                   .tell = r->settings.progress != NULL ? tell_round : NULL,
                   .tell_context = w,
                   .f = seat->f,
                   .g = seat->g,
                   .plan = seat->plan};
    for (int64_t j = 0; j < plan->dense_columns && !lead->led; j++) d.g[j] = 0.0;
    WORD(seat_walk) s = {w, seat, &plan->slots[seat_index], &d, batch, head, seat_index};
    if (interrupted(w)) return true;
    const bool tried = sizeof(REAL) == sizeof(float) && plan->wide;
    if (tried && !plan->mixed && !WORD(pays_to_lead)(&s)) return false;
    const rounds_end end =
        plan->path == OTA_PATH_ROUNDS ? WORD(run_rounds)(&s, lead, tally) : ROUNDS_LOST;
    const bool rounds = end == ROUNDS_DONE;
    if (tried && !rounds && end != ROUNDS_STOPPED) return false;
    if (plan->streamed && !rounds && end != ROUNDS_STOPPED)
        tally->result.status = WORD(give_up)(plan, index, end);
    else if (!rounds && end != ROUNDS_STOPPED)
        tally->result.status = WORD(solve_dense)(&s, tally);
    if (tally->result.status == OTA_CANCELLED || tally->result.status == OTA_TIMEOUT) {
        atomic_store(&w->stopped, tally->result.status);
        return true;
    }
    if (tally->result.status >= OTA_OK) {
        REAL *bias = seat->bias;
        for (int64_t j = 0; j < plan->dense_columns; j++) bias[j] = (REAL)d.g[j];
        if (plan->transposed) WORD(turn_over)(&s, tally);
        if (!rounds) ota_parallel(plan->pool, OTA_CHUNKS, WORD(emit_task), &s);
        gather_chunks(w, seat_index, batch, head);
        const double *column = plan->transposed ? d.f : d.g;
        for (int64_t j = 0; ota_array_present(&w->arrays->column_potential) && j < r->keys; j++) {
            put(&w->arrays->column_potential, batch, head, j, column[j]);
        }
    }
    tally->promoted = plan->promoted || (plan->mixed && !d.narrow);
    settle_head(w, batch, head, d.mass);
    return true;
}
