/* Body of forward.c for REAL = float or double: packing, forming scores, weights, outputs. Shapes are
 * those of plan.h; n = queries, m = keys that exist (plan->key_count). */

/* Plain names for calls, taken back at the end. */
#define pack_rows WORD(ota_pack_rows)
#define row_scores WORD(ota_row_scores)
#define finish_rows WORD(finish_rows)
#define form_rows WORD(form_rows)
#define fuse_block WORD(fuse_block)

/* Several sums side by side, which the compiler makes one vector. */
static bool WORD(all_finite)(const REAL *x, int64_t count) {
    enum { LANES = 16 };
    REAL zero[LANES] = {0};
    int64_t k = 0;
    for (; k + LANES <= count; k += LANES) {
        for (int l = 0; l < LANES; l++) zero[l] += x[k + l] - x[k + l];
    }
    for (; k < count; k++) zero[0] += x[k] - x[k];
    REAL all = 0;
    for (int l = 0; l < LANES; l++) all += zero[l];
    return all == (REAL)0;
}

static void WORD(pack_slot)(walk *w, ota_slot *slot, int64_t batch, int64_t key_head) {
    const ota_plan *plan = w->plan;
    const ota_resolved *r = &plan->resolved;
    const ota_array *values = &w->arrays->values;
    slot->broken_count = 0;
    if (!r->from_matrix) {
        WORD(ota_pack_keys)(&r->problem.keys, batch, key_head, plan->key_count, slot->packed_keys);
    }
    if (!ota_array_present(&w->arrays->out) || plan->values_width == 0) return;
    REAL *to = slot->values;
    pack_rows(values, batch, key_head, 0, plan->key_count, to, plan->values_width);
    if (WORD(all_finite)(to, plan->key_count * plan->values_width)) return;
    for (int64_t j = 0; j < plan->key_count; j++) {
        REAL *row = to + j * plan->values_width;
        bool finite = true;
        for (int64_t k = 0; k < plan->values_width; k++) finite &= (row[k] - row[k] == (REAL)0);
        if (finite) continue;
        slot->broken[slot->broken_count++] = j;
        for (int64_t k = 0; k < plan->values_width; k++) row[k] = (REAL)0;
    }
}

/* What scores are made of, q.k or entries of the matrix, for queries [first, first + rows) into
 * to[row][stride], and the keys [begin, end) of each; nothing is promised elsewhere. */
static void WORD(raw_rows)(walk *w, const ota_slot *slot, ota_worker *worker, int64_t batch,
                           int64_t head, int64_t first, int64_t rows, int64_t *begin, int64_t *end,
                           REAL *to, int64_t stride) {
    const ota_plan *plan = w->plan;
    const ota_resolved *r = &plan->resolved;
    int64_t low = r->keys, high = 0;
    for (int64_t k = 0; k < rows; k++) {
        ota_row_range(r, batch, first + k, plan->key_count, &begin[k], &end[k]);
        if (begin[k] < end[k] && begin[k] < low) low = begin[k];
        if (end[k] > high) high = end[k];
    }
    low = low < high ? low / OTA_PANEL * OTA_PANEL : 0;
    if (r->from_matrix) {
        pack_rows(&r->problem.scores, batch, head, first, rows, to, stride);
    } else if (high > low) {
        pack_rows(&r->problem.queries, batch, head, first, rows, worker->queries, r->width);
        KERNELS(plan)->products(worker->queries, (const REAL *)slot->packed_keys + low * r->width,
                                rows, high - low, r->width, to + low, stride);
    }
}

/* -inf outside keys [begin, end) of a row of `stride` elements. */
static void WORD(shut_outside)(REAL *row, int64_t begin, int64_t end, int64_t stride) {
    for (int64_t j = 0; j < begin; j++) row[j] = (REAL)-INFINITY;
    for (int64_t j = end; j < stride; j++) row[j] = (REAL)-INFINITY;
}

/* Scores S of queries [first, first + rows) into to[row][stride]; -inf outside the support and in the
 * padding up to plan->stride. */
static void WORD(form_rows)(walk *w, const ota_slot *slot, ota_worker *worker, int64_t batch,
                            int64_t head, int64_t first, int64_t rows, REAL *to, int64_t stride) {
    const ota_plan *plan = w->plan;
    int64_t begin[OTA_ROW_BLOCK], end[OTA_ROW_BLOCK];
    WORD(raw_rows)(w, slot, worker, batch, head, first, rows, begin, end, to, stride);
    for (int64_t k = 0; k < rows; k++) {
        REAL *row = to + k * stride;
        row_scores(&plan->resolved, batch, head, first + k, begin[k], end[k], row + begin[k]);
        WORD(shut_outside)(row, begin[k], end[k], plan->stride);
    }
}

static void WORD(put_row)(const walk *w, int64_t batch, int64_t head, int64_t query,
                          const ota_row_found *found) {
    const ota_arrays *a = w->arrays;
    const double order = w->plan->resolved.order;
    put(&a->row_potential, batch, head, query, found->potential);
    /* Only entropy plans have one. */
    put(&a->lse, batch, head, query, order > 0.0 && order <= 1.0 ? found->lse : NAN);
    put(&a->sink, batch, head, query, found->sink);
}

/* Everything the caller wants from finished weights p[rows][stride] of queries [first, first + rows).
 * `with_out` is false when the fused kernel has made `out` already. */
static void WORD(finish_rows)(walk *w, const ota_slot *slot, ota_worker *worker, int64_t batch,
                              int64_t head, int64_t first, int64_t rows, REAL *p, int64_t stride,
                              const ota_row_found *found, const double *mu, bool with_out,
                              ota_tally *tally, double *receiver) {
    const ota_plan *plan = w->plan;
    const ota_arrays *a = w->arrays;
    const int64_t m = plan->key_count, width = plan->values_width;
    bool broken[OTA_ROW_BLOCK] = {false};
    for (int64_t k = 0; k < rows; k++) {
        const REAL *row = p + k * stride;
        for (int64_t q = 0; q < slot->broken_count; q++) {
            if (row[slot->broken[q]] > (REAL)0) broken[k] = true;
        }
        if (with_out && (found[k].nonfinite || broken[k])) tally->nonfinite_rows++;
        if (with_out && found[k].empty && !plan->transposed) {
            tally->empty_rows++;
            if (mu[k] > 0.0 && plan->resolved.problem.columns == OTA_COLUMNS_EXACT)
                tally->result.status = OTA_INFEASIBLE;
        }
        if (found[k].infeasible) tally->result.status = OTA_INFEASIBLE;
        if (with_out && !found[k].empty && plan->resolved.problem.rows == OTA_ROWS_HARD) {
            tally->result.row_error += fabs(found[k].mass + found[k].sink - mu[k]);
        }
        if (receiver != NULL && !found[k].nonfinite)
            KERNELS(plan)->accumulate(row, m, 1.0, receiver);
        if (ota_array_present(&a->row_entropy) || ota_array_present(&a->row_support) ||
            ota_array_present(&a->row_max)) {
            double p_log_p = 0.0, largest = 0.0;
            int64_t positive = 0;
            KERNELS(plan)->statistics(row, m, &p_log_p, &positive, &largest);
            const double rest = found[k].sink, mass = found[k].mass + rest;
            if (rest > 0.0) p_log_p += rest * log(rest);
            const double entropy = mass > 0.0    ? (mass * log(mu[k]) - p_log_p) / mu[k]
                                   : mass <= 0.0 ? 0.0
                                                 : NAN;
            put(&a->row_entropy, batch, head, first + k, found[k].nonfinite ? NAN : entropy);
            put(&a->row_support, batch, head, first + k,
                found[k].nonfinite ? NAN : (double)positive);
            put(&a->row_max, batch, head, first + k, found[k].nonfinite ? NAN : largest);
        }
        if (with_out) WORD(put_row)(w, batch, head, first + k, &found[k]);
    }
    if (ota_array_present(&a->coupling)) {
        ota_array rows_of = a->coupling;
        rows_of.size[3] = m;
        WORD(ota_unpack_rows)(&rows_of, batch, head, first, rows, p, stride);
        for (int64_t k = 0; k < rows; k++) {
            for (int64_t j = m; j < a->coupling.size[3]; j++)
                ota_array_set(&a->coupling, batch, head, first + k, j, 0.0);
        }
    }
    if (!with_out || !ota_array_present(&a->out) || width == 0) return;
    REAL *out = worker->out;
    for (int64_t k = 0; k < rows * width; k++) out[k] = (REAL)0;
    KERNELS(plan)->apply(p, stride, slot->values, width, rows, m, width, out, width);
    for (int64_t k = 0; k < rows; k++) {
        for (int64_t q = 0; q < width && (broken[k] || found[k].nonfinite); q++)
            out[k * width + q] = (REAL)NAN;
    }
    WORD(ota_unpack_rows)(&a->out, batch, head, first, rows, out, width);
}

static ota_row_law WORD(row_law)(const ota_plan *plan, int64_t head) {
    const ota_resolved *r = &plan->resolved;
    return (ota_row_law){
        .kernels = plan->kernels,
        .order = r->order,
        .tau = ota_head_temperature(r, head),
        .sink = ota_head_sink(r, head),
        .row_strength = r->problem.rows == OTA_ROWS_RELAXED ? r->problem.row_strength : INFINITY,
        .custom = r->problem.regulariser == OTA_CUSTOM ? &r->problem.custom : NULL};
}

/* ---- rows alone ------------------------------------------------------------------------------- */

static void WORD(solve_block)(walk *w, const ota_slot *slot, ota_worker *worker, int64_t batch,
                              int64_t head, int64_t first, int64_t rows, bool with_out,
                              ota_tally *tally, double *receiver) {
    const ota_plan *plan = w->plan;
    const ota_row_law law = WORD(row_law)(plan, head);
    REAL *s = worker->scores;
    ota_row_found found[OTA_BLOCK_ROWS];
    double mu[OTA_BLOCK_ROWS];
    form_rows(w, slot, worker, batch, head, first, rows, s, plan->stride);
    for (int64_t k = 0; k < rows; k++) {
        REAL *row = s + k * plan->stride;
        mu[k] = ota_row_mass(&plan->resolved, batch, head, first + k);
        WORD(ota_row_solve)(&law, row, NULL, plan->key_count, mu[k], row, &found[k]);
    }
    finish_rows(w, slot, worker, batch, head, first, rows, s, plan->stride, found, mu, with_out,
                tally, receiver);
}

typedef struct WORD(terms_of) {
    const ota_resolved *resolved;
    int64_t batch, head, first;
} WORD(terms_of);

static void WORD(tile_terms)(void *context, int64_t row, int64_t first, int64_t last,
                             REAL *tile_row) {
    const WORD(terms_of) *t = context;
    row_scores(t->resolved, t->batch, t->head, t->first + row, first, last, tile_row);
}

/* Is value `key` used by this query? Only asked for keys whose values are not finite. */
static bool WORD(uses_broken)(const walk *w, const ota_slot *slot, int64_t batch, int64_t head,
                              int64_t query, int64_t begin, int64_t end) {
    for (int64_t q = 0; q < slot->broken_count; q++) {
        const int64_t key = slot->broken[q];
        if (key >= begin && key < end &&
            ota_pair_allowed(&w->plan->resolved, batch, head, query, key))
            return true;
    }
    return false;
}

static void WORD(fuse_block)(walk *w, const ota_slot *slot, ota_worker *worker, int64_t batch,
                             int64_t head, int64_t first, int64_t rows, ota_tally *tally) {
    const ota_plan *plan = w->plan;
    const ota_resolved *r = &plan->resolved;
    const ota_arrays *a = w->arrays;
    const double tau = ota_head_temperature(r, head), sink = ota_head_sink(r, head);
    int64_t begin[OTA_ROW_BLOCK], end[OTA_ROW_BLOCK];
    REAL *mass = worker->mass, *top = worker->top, *sum = worker->sum, *out = worker->out;
    const bool masses = ota_array_present(&r->problem.row_mass);
    for (int64_t k = 0; k < rows; k++) {
        ota_row_range(r, batch, first + k, plan->key_count, &begin[k], &end[k]);
        if (masses) mass[k] = (REAL)ota_row_mass(r, batch, head, first + k);
    }
    pack_rows(&r->problem.queries, batch, head, first, rows, worker->queries, r->width);
    WORD(terms_of) terms = {r, batch, head, first};
    const bool wants_out = ota_array_present(&a->out);
    const bool logs = ota_array_present(&a->lse) || ota_array_present(&a->row_potential);
    const ATTEND block = {.queries = worker->queries,
                          .packed_keys = slot->packed_keys,
                          .values = slot->values,
                          .rows = rows,
                          .width = r->width,
                          .values_width = wants_out ? plan->values_width : 0,
                          .begin = begin,
                          .end = end,
                          .scale = (REAL)r->scale,
                          .c = (REAL)(log2_e / tau),
                          .sink = (REAL)sink,
                          .row_mass = masses ? mass : NULL,
                          .terms = r->row_terms ? WORD(tile_terms) : NULL,
                          .terms_context = &terms,
                          .out = out,
                          .row_max = top,
                          .row_sum = sum,
                          .scratch = worker->attend};
    KERNELS(plan)->attend(&block);
    for (int64_t k = 0; k < rows; k++) {
        const double mu = masses ? (double)mass[k] : 1.0;
        /* A row whose keys are all masked still has the sink. */
        const bool only_sink = !((double)sum[k] > 0.0) && sum[k] >= (REAL)0 && sink > -INFINITY;
        const double weight = only_sink ? 1.0 : (double)sum[k];
        const double peak = only_sink ? sink : (double)top[k];
        ota_row_found found = {.potential = -INFINITY, .lse = -INFINITY};
        bool nonfinite = !(weight - weight <= 0.0) || peak >= INFINITY || isnan(peak);
        if (wants_out && slot->broken_count > 0 &&
            WORD(uses_broken)(w, slot, batch, head, first + k, begin[k], end[k])) {
            nonfinite = true;
        }
        if (nonfinite) {
            tally->nonfinite_rows++;
            found = (ota_row_found){.potential = NAN, .lse = NAN, .sink = NAN};
            for (int64_t q = 0; q < block.values_width; q++)
                out[k * block.values_width + q] = (REAL)NAN;
        } else if (weight > 0.0) {
            if (logs) found.lse = log(weight) + peak / tau;
            if (logs && mu > 0.0) found.potential = tau * log(mu / weight) - peak;
            if (sink > -INFINITY) found.sink = exp((sink - peak) / tau) * (mu / weight);
        } else {
            tally->empty_rows++;
            if (mu > 0.0 && r->problem.columns == OTA_COLUMNS_EXACT)
                tally->result.status = OTA_INFEASIBLE;
        }
        WORD(put_row)(w, batch, head, first + k, &found);
    }
    if (block.values_width > 0)
        WORD(ota_unpack_rows)(&a->out, batch, head, first, rows, out, plan->values_width);
}

/* One chunk of one head of the wave. */
static void WORD(row_task)(void *context, int64_t index, int worker_index) {
    walk *w = context;
    ota_plan *plan = w->plan;
    const ota_resolved *r = &plan->resolved;
    const int64_t chunk = index % OTA_CHUNKS, part = index / OTA_CHUNKS;
    const int64_t slot_index = part / plan->group, key_head = w->first_slot_head + slot_index;
    const int64_t batch = key_head / r->key_heads;
    const int64_t head = key_head % r->key_heads * plan->group + part % plan->group;
    const ota_slot *slot = &plan->slots[slot_index];
    ota_worker *worker = &plan->workers[worker_index];
    ota_tally *tally = &plan->block_tallies[index];
    *tally = (ota_tally){0};
    double *receiver = NULL;
    if (ota_array_present(&w->arrays->receiver)) {
        receiver = plan->receivers + index * plan->stride;
        memset(receiver, 0, (size_t)plan->stride * sizeof *receiver);
    }
    int64_t first, last;
    chunk_rows(r->queries, chunk, &first, &last);
    const bool fused = plan->path == OTA_PATH_FUSED;
    for (int64_t at = first; fused && at < last; at += OTA_ROW_BLOCK) {
        if (interrupted(w)) return;
        fuse_block(w, slot, worker, batch, head, at,
                   at + OTA_ROW_BLOCK < last ? OTA_ROW_BLOCK : last - at, tally);
    }
    for (int64_t at = first; (!fused || w->more_than_out) && at < last; at += OTA_BLOCK_ROWS) {
        if (interrupted(w)) return;
        const int64_t rows = at + OTA_BLOCK_ROWS < last ? OTA_BLOCK_ROWS : last - at;
        WORD(solve_block)(w, slot, worker, batch, head, at, rows, !fused, tally, receiver);
    }
}

/* ---- rows in order ---------------------------------------------------------------------------- */

static void WORD(ordered_task)(void *context, int64_t part, int worker_index) {
    walk *w = context;
    ota_plan *plan = w->plan;
    const ota_resolved *r = &plan->resolved;
    const int64_t slot_index = part / plan->group, key_head = w->first_slot_head + slot_index;
    const int64_t batch = key_head / r->key_heads,
                  head = key_head % r->key_heads * plan->group + part % plan->group;
    const ota_slot *slot = &plan->slots[slot_index];
    ota_worker *worker = &plan->workers[worker_index];
    const ota_row_law law = WORD(row_law)(plan, head);
    const ota_array *state = &w->arrays->remaining;
    const int64_t m = plan->key_count;
    double *room = worker->room;
    for (int64_t c = 0; c < OTA_CHUNKS; c++)
        plan->block_tallies[part * OTA_CHUNKS + c] = (ota_tally){0};
    double *receivers = plan->receivers + part * OTA_CHUNKS * plan->stride;
    memset(receivers, 0, (size_t)(OTA_CHUNKS * plan->stride) * sizeof *receivers);
    for (int64_t j = 0; j < m; j++) {
        room[j] = ota_array_present(state)
                      ? ota_array_get(state, batch, head, 0, j)
                      : r->problem.cap * ota_column_mass(r, batch, head, j, 1.0);
    }
    ota_tally *tally = &plan->block_tallies[part * OTA_CHUNKS];
    for (int64_t i = 0; i < r->queries && tally->result.status == OTA_OK; i++) {
        if (interrupted(w)) return;
        REAL *row = worker->scores;
        const double mu = ota_row_mass(r, batch, head, i);
        ota_row_found found;
        form_rows(w, slot, worker, batch, head, i, 1, row, plan->stride);
        WORD(ota_row_online)(&law, row, m, mu, room, row, worker->row, &found);
        finish_rows(w, slot, worker, batch, head, i, 1, row, plan->stride, &found, &mu, true, tally,
                    ota_array_present(&w->arrays->receiver) ? receivers : NULL);
    }
    if (!ota_array_present(state) || tally->result.status < OTA_OK) return;
    for (int64_t j = 0; j < m; j++) ota_array_set(state, batch, head, 0, j, room[j]);
}

static void WORD(pack_task)(void *context, int64_t index, int worker) {
    walk *w = context;
    (void)worker;
    const int64_t key_head = w->first_slot_head + index, key_heads = w->plan->resolved.key_heads;
    WORD(pack_slot)(w, &w->plan->slots[index], key_head / key_heads, key_head % key_heads);
}

static double WORD(total_mass)(const walk *w, int64_t batch, int64_t head) {
    double sum = 0.0;
    for (int64_t i = 0; i < w->plan->resolved.queries; i++)
        sum += ota_row_mass(&w->plan->resolved, batch, head, i);
    return sum;
}

static void WORD(walk_rows)(walk *w) {
    ota_plan *plan = w->plan;
    const ota_resolved *r = &plan->resolved;
    const int64_t key_heads = r->batch * r->key_heads;
    for (int64_t first = 0; first < key_heads && !interrupted(w); first += plan->slot_count) {
        w->first_slot_head = first;
        w->slots = first + plan->slot_count < key_heads ? plan->slot_count : key_heads - first;
        const int64_t parts = w->slots * plan->group;
        ota_parallel(plan->pool, w->slots, WORD(pack_task), w);
        if (plan->path == OTA_PATH_ORDERED)
            ota_parallel(plan->pool, parts, WORD(ordered_task), w);
        else
            ota_parallel(plan->pool, parts * OTA_CHUNKS, WORD(row_task), w);
        for (int64_t part = 0; part < parts && !interrupted(w); part++) {
            const int64_t key_head = first + part / plan->group;
            const int64_t batch = key_head / r->key_heads,
                          head = key_head % r->key_heads * plan->group + part % plan->group;
            gather_chunks(w, part, batch, head);
            for (int64_t j = 0; ota_array_present(&w->arrays->column_potential) && j < r->keys;
                 j++) {
                put(&w->arrays->column_potential, batch, head, j, 0.0);
            }
            settle_head(w, batch, head, WORD(total_mass)(w, batch, head));
        }
    }
}

/* ---- stored scores ---------------------------------------------------------------------------- */

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
    bool finite = true;
    for (int64_t j = 0; j < plan->dense_stride; j++) seat->nu[j] = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const REAL *row = scores + i * plan->dense_stride;
        bool any = false;
        for (int64_t j = 0; j < m; j++) {
            const double x = (double)row[j];
            if (x > -INFINITY) {
                any = true;
                seat->nu[j] = 1.0;
                if (x < low) low = x;
                if (x > high) high = x;
            }
            finite &= !(isnan(x) || x >= INFINITY);
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
    const REAL *row = (const REAL *)s->seat->scores + i * plan->dense_stride;
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
        for (int64_t k = 0; k < rows; k++) {
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
    ota_parallel(plan->pool, OTA_CHUNKS, WORD(form_task), s);
    for (int64_t j = 0; j < plan->dense_rows && plan->transposed; j++) {
        REAL *row = (REAL *)s->seat->scores + j * plan->dense_stride;
        for (int64_t i = plan->dense_columns; i < plan->dense_stride; i++) row[i] = (REAL)-INFINITY;
    }
    const bool finite = WORD(weigh)(s);
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
                       index, r->settings.tolerance, 2.0 * floor, plan->wide ? "f64" : "f32");
        return OTA_TOL_UNREACHABLE;
    }
    const ota_status status = plan->stored_solver->solve(d);
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

#include "forward_rounds.inc.h"

static void WORD(run_seat)(walk *w, int64_t index, int64_t seat_index) {
    ota_plan *plan = w->plan;
    const ota_resolved *r = &plan->resolved;
    ota_seat *seat = &plan->seats[seat_index];
    ota_tally *tally = &plan->tallies[index];
    const int64_t batch = index / r->heads, head = index % r->heads;
    const ota_problem *p = &r->problem;
    ota_dense d = {.rows = plan->dense_rows,
                   .columns = plan->dense_columns,
                   .narrow = !plan->wide,
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
    for (int64_t j = 0; j < plan->dense_columns; j++) d.g[j] = 0.0;
    WORD(seat_walk) s = {w, seat, &plan->slots[seat_index], &d, batch, head, seat_index};
    if (interrupted(w)) return;
    const bool rounds = plan->path == OTA_PATH_ROUNDS && WORD(run_rounds)(&s, tally);
    if (!rounds) tally->result.status = WORD(solve_dense)(&s, tally);
    if (tally->result.status == OTA_CANCELLED || tally->result.status == OTA_TIMEOUT) {
        atomic_store(&w->stopped, tally->result.status);
        return;
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
    settle_head(w, batch, head, d.mass);
}

static void WORD(dense_task)(void *context, int64_t index, int worker) {
    WORD(run_seat)(context, index, worker);
}

static void WORD(walk_heads)(walk *w) {
    ota_plan *plan = w->plan;
    const int64_t heads = plan->resolved.batch * plan->resolved.heads;
    if (!ota_plan_has_seats(plan)) {
        WORD(walk_rows)(w);
    } else if (heads >= plan->worker_count) {
        ota_parallel(plan->pool, heads, WORD(dense_task), w);
    } else {
        for (int64_t k = 0; k < heads; k++) WORD(run_seat)(w, k, 0);
    }
}

#undef pack_rows
#undef row_scores
#undef finish_rows
#undef form_rows
#undef fuse_block
