/* Few queries against many keys, part of forward.inc.h: keys and values are read where they lie, in pieces of
 * the key axis that the threads share. For query i and piece c of keys [first, last):
 *
 *     top[c] = max_j S_ij       sum[c] = sum_j e^((S_ij - top[c]) / tau)       part[c] = sum_j e^(...) V_j
 *     out_i  = mu_i sum_c a[c] part[c] / (sum_c a[c] sum[c] + sink),   a[c] = e^((top[c] - top) / tau)
 *
 * The pieces depend on the number of keys alone and are added in order, so bits do not depend on threads. */

static int64_t WORD(piece_index)(const ota_plan *plan, int64_t part, int64_t query, int64_t piece) {
    return (part * plan->resolved.queries + query) * OTA_CHUNKS + piece;
}

/* out += weights V over keys [low, high). A value that is not finite counts only where the pair is allowed:
 * false then, and elsewhere as 0. */
static bool WORD(add_values)(const walk *w, ota_worker *worker, int64_t batch, int64_t head,
                             int64_t key_head, int64_t query, int64_t low, int64_t high,
                             const REAL *weights, REAL *out) {
    const ota_plan *plan = w->plan;
    const int64_t width = plan->values_width;
    const ota_array *values = &w->arrays->values;
    apply_rows(w, worker, batch, key_head, low, high, weights, 0, 1, out);
    if (WORD(all_finite)(out, width)) return true;
    memset(out, 0, (size_t)width * sizeof *out);
    for (int64_t j = low; j < high; j++) {
        int64_t ld;
        const REAL *v = WORD(strip_of)(values, batch, key_head, j, 1, worker->strip, &ld);
        if (!WORD(all_finite)(v, width)) {
            if (WORD(pair_counts)(&plan->resolved, batch, head, query, j)) return false;
            continue;
        }
        for (int64_t k = 0; k < width; k++) out[k] += weights[j - low] * v[k];
    }
    return true;
}

static void WORD(solve_piece)(walk *w, ota_worker *worker, int64_t part, int64_t batch,
                              int64_t key_head, int64_t head, int64_t query, int64_t piece,
                              int64_t low, int64_t high) {
    ota_plan *plan = w->plan;
    const ota_resolved *r = &plan->resolved;
    const int64_t index = WORD(piece_index)(plan, part, query, piece);
    const int64_t width = plan->values_width;
    REAL *out = (REAL *)plan->piece_out + index * width;
    REAL *s = worker->scores;
    plan->piece_top[index] = -INFINITY;
    plan->piece_sum[index] = 0.0;
    if (low >= high) return;
    pack_rows(&r->problem.queries, batch, head, query, 1, worker->queries, r->width);
    dot_keys(w, worker, batch, key_head, worker->queries, low, high, s);
    row_scores(r, batch, head, query, low, high, s);
    const double top = (double)KERNELS(plan)->maximum(s, NULL, high - low);
    plan->piece_top[index] = top;
    if (!(top > -INFINITY)) return;
    const ota_row_law law = WORD(row_law)(plan, head);
    plan->piece_sum[index] = WORD(ota_row_exponentials)(&law, s, high - low, top, s);
    if (!ota_array_present(&w->arrays->out) || width == 0) return;
    memset(out, 0, (size_t)width * sizeof *out);
    if (!WORD(add_values)(w, worker, batch, head, key_head, query, low, high, s, out))
        plan->piece_sum[index] = NAN;
}

/* One piece of the keys of one key head, for all queries that read it. */
static void WORD(piece_task)(void *context, int64_t task, int worker_index) {
    walk *w = context;
    const ota_plan *plan = w->plan;
    const ota_resolved *r = &plan->resolved;
    const int64_t pieces = ota_pieces(plan->key_count), piece = task % pieces, slot = task / pieces;
    const int64_t key_head = w->first_slot_head + slot, batch = key_head / r->key_heads;
    const int64_t length = ota_piece_keys(plan->key_count);
    const int64_t first = piece * length;
    if (interrupted(w)) return;
    for (int64_t k = 0; k < plan->group; k++) {
        const int64_t head = key_head % r->key_heads * plan->group + k;
        for (int64_t i = 0; i < r->queries; i++) {
            int64_t begin, end;
            ota_row_range(r, batch, i, plan->key_count, &begin, &end);
            const int64_t low = begin > first ? begin : first;
            const int64_t high = end < first + length ? end : first + length;
            WORD(solve_piece)
            (w, &plan->workers[worker_index], slot * plan->group + k, batch,
             key_head % r->key_heads, head, i, piece, low, high);
        }
    }
}

/* Adds the pieces of one query up and writes what is wanted of it. */
static void WORD(join_pieces)(walk *w, int64_t part, int64_t batch, int64_t head, int64_t query,
                              ota_tally *tally) {
    const ota_plan *plan = w->plan;
    const ota_resolved *r = &plan->resolved;
    const double tau = ota_head_temperature(r, head), sink = ota_head_sink(r, head);
    const double mu = ota_row_mass(r, batch, head, query);
    const int64_t base = WORD(piece_index)(plan, part, query, 0), width = plan->values_width;
    const int64_t pieces = ota_pieces(plan->key_count);
    double share[OTA_CHUNKS], top = sink, sum = 0.0;
    bool nonfinite = isnan(mu);
    for (int64_t c = 0; c < pieces; c++) {
        top = plan->piece_top[base + c] > top ? plan->piece_top[base + c] : top;
        nonfinite |= isnan(plan->piece_top[base + c]) || isnan(plan->piece_sum[base + c]);
    }
    nonfinite |= top >= INFINITY;
    for (int64_t c = 0; c < pieces; c++) {
        const double away = plan->piece_top[base + c] / 2.0 - top / 2.0;
        share[c] = plan->piece_sum[base + c] > 0.0 ? exp(away / (tau / 2.0)) : 0.0;
        sum += share[c] * plan->piece_sum[base + c];
    }
    ota_row_found found = {.potential = -INFINITY, .lse = -INFINITY};
    const double rest = sink > -INFINITY ? exp((sink / 2.0 - top / 2.0) / (tau / 2.0)) : 0.0;
    sum += rest;
    if (nonfinite) {
        tally->nonfinite_rows++;
        found = (ota_row_found){.potential = NAN, .lse = NAN, .sink = NAN};
    } else if (sum > 0.0) {
        found.lse = log(sum) + top / tau;
        if (mu > 0.0) found.potential = tau * log(mu / sum) - top;
        found.sink = rest * (mu / sum);
    } else {
        tally->empty_rows++;
        if (mu > 0.0 && r->problem.columns == OTA_COLUMNS_EXACT)
            tally->result.status = OTA_INFEASIBLE;
    }
    WORD(put_row)(w, batch, head, query, &found);
    if (!ota_array_present(&w->arrays->out) || width == 0) return;
    REAL *out = plan->workers[0].out;
    for (int64_t k = 0; k < width; k++) {
        double total = 0.0;
        for (int64_t c = 0; c < pieces; c++) {
            if (share[c] > 0.0)
                total += share[c] * (double)((const REAL *)plan->piece_out)[(base + c) * width + k];
        }
        out[k] = nonfinite ? (REAL)NAN : sum > 0.0 ? (REAL)(total * (mu / sum)) : (REAL)0;
    }
    WORD(ota_unpack_rows)(&w->arrays->out, batch, head, query, 1, out, width);
}

/* Everything of the heads of one wave; weights and statistics still want packed keys. */
static void WORD(walk_cache)(walk *w, int64_t parts) {
    ota_plan *plan = w->plan;
    const ota_resolved *r = &plan->resolved;
    ota_parallel(plan->pool, w->slots * ota_pieces(plan->key_count), WORD(piece_task), w);
    if (w->more_than_out) {
        ota_parallel(plan->pool, w->slots, WORD(pack_task), w);
        ota_parallel(plan->pool, parts * OTA_CHUNKS, WORD(row_task), w);
    } else {
        memset(plan->block_tallies, 0, (size_t)(parts * OTA_CHUNKS) * sizeof *plan->block_tallies);
    }
    for (int64_t part = 0; part < parts && !interrupted(w); part++) {
        const int64_t key_head = w->first_slot_head + part / plan->group;
        const int64_t head = key_head % r->key_heads * plan->group + part % plan->group;
        for (int64_t i = 0; i < r->queries; i++) WORD(join_pieces)
        (w, part, key_head / r->key_heads, head, i, &plan->block_tallies[part * OTA_CHUNKS]);
    }
}
