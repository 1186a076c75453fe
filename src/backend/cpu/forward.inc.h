/* Body of forward.c for REAL = float or double: packing, forming scores, weights, outputs. Shapes are
 * those of plan.h; n = queries, m = keys that exist (plan->key_count). */

/* Plain names for calls, taken back at the end. */
#define dropout_row WORD(ota_dropout_row)
#define pack_rows WORD(ota_pack_rows)
#define row_scores WORD(ota_row_scores)
#define finish_rows WORD(finish_rows)
#define form_rows WORD(form_rows)
#define fuse_block WORD(fuse_block)
#define dot_keys WORD(dot_keys)
#define apply_rows WORD(apply_rows)
#define apply_weights WORD(apply_weights)
#define mend_row WORD(mend_row)

#include "finite.inc.h"

#include "in_place.inc.h"

/* Values of one key head; those that are not finite are listed and become 0. */
static void WORD(pack_values)(const walk *w, ota_slot *slot, int64_t batch, int64_t key_head) {
    const ota_plan *plan = w->plan;
    slot->broken_count = 0;
    if (!ota_array_present(&w->arrays->out) || plan->values_width == 0) return;
    REAL *to = slot->values;
    pack_rows(&w->arrays->values, batch, key_head, 0, plan->key_count, to, plan->values_width);
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

static void WORD(pack_slot)(walk *w, ota_slot *slot, int64_t batch, int64_t key_head) {
    const ota_plan *plan = w->plan;
    const ota_resolved *r = &plan->resolved;
    slot->broken_count = 0;
    slot->paired = wants_pairs(w, batch, key_head);
    if (slot->paired) pack_pairs(w, slot, batch, key_head);
    if (!r->from_matrix && (!slot->paired || w->more_than_out)) {
        WORD(ota_pack_keys)(&r->problem.keys, batch, key_head, plan->key_count, slot->packed_keys);
    }
    if (!slot->paired) WORD(pack_values)(w, slot, batch, key_head);
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
    } else if (high > low && plan->in_place) {
        REAL *queries = worker->queries;
        pack_rows(&r->problem.queries, batch, head, first, rows, queries, r->width);
        for (int64_t k = 0; k < rows; k++)
            dot_keys(w, worker, batch, head / plan->group, queries + k * r->width, low, high,
                     to + k * stride + low);
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

/* out[rows][values_width] += p[rows][stride] V */
static void apply_weights(const walk *w, const ota_slot *slot, ota_worker *worker, int64_t batch,
                          int64_t key_head, const REAL *p, int64_t stride, int64_t rows,
                          REAL *out) {
    const ota_plan *plan = w->plan;
    const int64_t m = plan->key_count, width = plan->values_width;
    if (plan->in_place)
        apply_rows(w, worker, batch, key_head, 0, m, p, stride, rows, out);
    else
        KERNELS(plan)->apply(p, stride, slot->values, width, rows, m, width, out, width);
}

/* The caller's coupling from row `first` on where weights can be made as it lies; else NULL. Without outputs,
 * which spend the weights that they are made of. */
static REAL *WORD(coupling_in_place)(const walk *w, int64_t batch, int64_t head, int64_t first) {
    const ota_array *coupling = &w->arrays->coupling;
    if (!ota_array_present(coupling) || ota_array_present(&w->arrays->out) ||
        coupling->size[3] != w->plan->key_count)
        return NULL;
    return WORD(dense_rows)(coupling, batch, head, first);
}

/* Everything the caller wants from finished weights p[rows][stride] of queries [first, first + rows), which
 * are its to spend.
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
    if (ota_array_present(&a->coupling) && WORD(coupling_in_place)(w, batch, head, first) != p) {
        ota_array rows_of = a->coupling;
        rows_of.size[3] = m;
        WORD(ota_unpack_rows)(&rows_of, batch, head, first, rows, p, stride);
        for (int64_t k = 0; k < rows; k++) {
            for (int64_t j = m; j < a->coupling.size[3]; j++)
                ota_array_set(&a->coupling, batch, head, first + k, j, 0.0);
        }
    }
    if (!with_out || !ota_array_present(&a->out) || width == 0) return;
    if (plan->resolved.problem.dropout > 0.0) {
        uint32_t key[2];
        ota_dropout_head(&plan->resolved, batch, head, key);
        for (int64_t k = 0; k < rows; k++)
            dropout_row(&plan->resolved, key, first + k, 0, m, p + k * stride);
    }
    REAL *out = worker->out;
    for (int64_t k = 0, last; k < rows; k = last) {
        last = k + 1;
        if (found[k].applied) continue;
        while (last < rows && !found[last].applied) last++;
        memset(out + k * width, 0, (size_t)((last - k) * width) * sizeof *out);
        apply_weights(w, slot, worker, batch, head / plan->group, p + k * stride, stride, last - k,
                      out + k * width);
    }
    for (int64_t k = 0; plan->in_place && k < rows; k++) {
        REAL *row = out + k * width;
        if (found[k].nonfinite || WORD(all_finite)(row, width)) continue;
        broken[k] = !mend_row(w, worker, batch, head / plan->group, p + k * stride, row);
        if (broken[k]) tally->nonfinite_rows++;
    }
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

/* An entmax row as a list of keys; its output is formed from the list unless most keys are on it. `row`, the
 * scores, becomes the weights where someone reads them. */
static void WORD(list_row)(walk *w, const ota_slot *slot, ota_worker *worker, int64_t batch,
                           int64_t key_head, const ota_row_law *law, int64_t begin, int64_t end,
                           double mu, REAL *row, REAL *out, ota_row_found *found) {
    const ota_plan *plan = w->plan;
    const ota_row_room *room = &worker->keys;
    const REAL *kept = room->kept;
    const int64_t width = plan->values_width;
    end = begin < end ? end : begin;
    const int64_t count = WORD(ota_row_entmax)(law, row + begin, end - begin, mu, room, found);
    const bool wants_out = ota_array_present(&w->arrays->out) && width > 0;
    const REAL *values = plan->in_place ? NULL : (const REAL *)slot->values + begin * width;
    int64_t ld = width;
    if (plan->in_place && wants_out && WORD(readable)(&w->arrays->values))
        values = WORD(strip_of)(&w->arrays->values, batch, key_head, begin, 1, NULL, &ld);
    found->applied = 2 * count <= plan->key_count && (values != NULL || !wants_out);
    if (found->applied && wants_out) {
        KERNELS(plan)->apply_kept(kept, room->where, count, values, ld, width, out);
        if (plan->in_place) found->applied = WORD(all_finite)(out, width);
    }
    if (found->applied && !w->more_than_out && slot->broken_count == 0) return;
    const REAL rest = found->nonfinite ? (REAL)NAN : (REAL)0;
    for (int64_t j = 0; j < plan->key_count; j++) row[j] = rest;
    for (int64_t i = 0; i < count; i++) row[begin + room->where[i]] = kept[i];
}

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
        if (worker->keys.where != NULL) {
            int64_t begin, end;
            ota_row_range(&plan->resolved, batch, first + k, plan->key_count, &begin, &end);
            WORD(list_row)
            (w, slot, worker, batch, head / plan->group, &law, begin, end, mu[k], row,
             (REAL *)worker->out + k * plan->values_width, &found[k]);
        } else {
            WORD(ota_row_solve)(&law, row, NULL, plan->key_count, mu[k], row, &found[k]);
        }
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

/* May the pair have weight? A term of -inf forbids it whatever the product of query and key is. */
static bool WORD(pair_counts)(const ota_resolved *r, int64_t batch, int64_t head, int64_t query,
                              int64_t key) {
    REAL score = (REAL)0;
    if (!ota_pair_allowed(r, batch, head, query, key)) return false;
    row_scores(r, batch, head, query, key, key + 1, &score);
    return !(score <= (REAL)-INFINITY);
}

/* Is value `key` used by this query? Only asked for keys whose values are not finite. */
static bool WORD(uses_broken)(const walk *w, const ota_slot *slot, int64_t batch, int64_t head,
                              int64_t query, int64_t begin, int64_t end) {
    for (int64_t q = 0; q < slot->broken_count; q++) {
        const int64_t key = slot->broken[q];
        if (key >= begin && key < end &&
            WORD(pair_counts)(&w->plan->resolved, batch, head, query, key))
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
    REAL *mass = worker->mass, *top = worker->top, *sum = worker->sum;
    const bool masses = ota_array_present(&r->problem.row_mass);
    for (int64_t k = 0; k < rows; k++) {
        ota_row_range(r, batch, first + k, plan->key_count, &begin[k], &end[k]);
        if (masses) mass[k] = (REAL)ota_row_mass(r, batch, head, first + k);
    }
    const bool wants_out = ota_array_present(&a->out);
    const REAL *queries =
        slot->paired ? NULL : WORD(dense_rows)(&r->problem.queries, batch, head, first);
    REAL *placed = wants_out ? WORD(dense_rows)(&a->out, batch, head, first) : NULL;
    REAL *out = placed != NULL ? placed : worker->out;
    if (slot->paired)
        ota_pairs_along(&r->problem.queries, batch, head, first, rows, worker->queries);
    else if (queries == NULL)
        pack_rows(&r->problem.queries, batch, head, first, rows, worker->queries, r->width);
    WORD(terms_of) terms = {r, batch, head, first};
    const bool logs = ota_array_present(&a->lse) || ota_array_present(&a->row_potential);
    const ATTEND block = {.queries = queries != NULL ? queries : worker->queries,
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
    if (slot->paired)
        attend_pairs(plan, slot, &block);
    else
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
    if (block.values_width > 0 && placed == NULL)
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
    const bool with_out = plan->path == OTA_PATH_BLOCKS;
    for (int64_t at = first; fused && at < last; at += OTA_ROW_BLOCK) {
        if (interrupted(w)) return;
        fuse_block(w, slot, worker, batch, head, at,
                   at + OTA_ROW_BLOCK < last ? OTA_ROW_BLOCK : last - at, tally);
    }
    for (int64_t at = first; (with_out || w->more_than_out) && at < last; at += OTA_BLOCK_ROWS) {
        if (interrupted(w)) return;
        const int64_t rows = at + OTA_BLOCK_ROWS < last ? OTA_BLOCK_ROWS : last - at;
        WORD(solve_block)(w, slot, worker, batch, head, at, rows, with_out, tally, receiver);
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
    if (ota_array_present(&w->arrays->receiver))
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

#include "decode.inc.h"

static void WORD(walk_rows)(walk *w) {
    ota_plan *plan = w->plan;
    const ota_resolved *r = &plan->resolved;
    const int64_t key_heads = r->batch * r->key_heads;
    for (int64_t first = 0; first < key_heads && !interrupted(w); first += plan->slot_count) {
        w->first_slot_head = first;
        w->slots = first + plan->slot_count < key_heads ? plan->slot_count : key_heads - first;
        const int64_t parts = w->slots * plan->group;
        if (plan->path != OTA_PATH_CACHE && !plan->in_place)
            ota_parallel(plan->pool, w->slots, WORD(pack_task), w);
        if (plan->path == OTA_PATH_CACHE)
            WORD(walk_cache)(w, parts);
        else if (plan->path == OTA_PATH_ORDERED)
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
#include "stored_scores.inc.h"
#include "small_heads.inc.h"

#undef dropout_row
#undef pack_rows
#undef row_scores
#undef finish_rows
#undef form_rows
#undef fuse_block
#undef dot_keys
#undef apply_rows
#undef apply_weights
#undef mend_row
