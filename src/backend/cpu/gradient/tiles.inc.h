/* Body of backward_tiles.c for REAL = float or double. n = queries, m = keys; shapes are those of
 * backward_tiles.h. */

#define pack_rows WORD(ota_pack_rows)
#define pack_keys WORD(ota_pack_keys)
#define unpack_rows WORD(ota_unpack_rows)

#include "backend/cpu/gradient/finite.inc.h"

/* All rows of a head as they lie, where they are one block of finite numbers of T; else NULL. */
static const REAL *WORD(block_of)(const ota_array *a, int64_t batch, int64_t head) {
    const REAL *at = WORD(dense_rows)(a, batch, head, 0);
    return at != NULL && WORD(all_finite)(at, a->size[2] * a->size[3]) ? at : NULL;
}

static void WORD(place_keys)(tile_head *h) {
    const ota_array *keys = &h->run->plan->resolved.problem.keys;
    const REAL *block = h->paired ? NULL : WORD(block_of)(keys, h->batch, h->key_head);
    h->keys = block != NULL ? block : h->seat->keys;
}

/* Upstream rows are scaled by what forward's weights lack, by nothing where it hands over rows of mass 1. */
static void WORD(place_rows)(tile_head *h) {
    const ota_resolved *r = &h->run->plan->resolved;
    const bool scaled =
        h->job == NULL && (!h->run->given || ota_array_present(&r->problem.row_mass));
    const REAL *queries = NULL, *upstream = NULL;
    if (!h->paired) queries = WORD(block_of)(&r->problem.queries, h->batch, h->head);
    if (!h->paired && !scaled)
        upstream = WORD(block_of)(&h->run->want->out_grad, h->batch, h->head);
    h->queries = queries != NULL ? queries : h->seat->queries;
    h->upstream = upstream != NULL ? upstream : h->seat->upstream;
}

static void WORD(pack_keys_of)(const tile_head *h) {
    const ota_resolved *r = &h->run->plan->resolved;
    ota_tile_seat *seat = h->seat;
    pack_keys(&r->problem.keys, h->batch, h->key_head, r->keys, h->slot->packed_keys);
    if (h->keys != seat->keys) return;
    pack_rows(&r->problem.keys, h->batch, h->key_head, 0, r->keys, seat->keys, r->width);
    (void)WORD(make_finite)(seat->keys, r->keys * r->width);
}

static void WORD(pack_values_of)(const tile_head *h) {
    const ota_plan *plan = h->run->plan;
    const int64_t m = plan->resolved.keys, width = plan->values_width;
    ota_slot *slot = h->slot;
    REAL *values = slot->values;
    slot->broken_count = 0;
    pack_rows(&h->run->arrays->values, h->batch, h->key_head, 0, m, values, width);
    const bool finite = WORD(all_finite)(values, m * width);
    for (int64_t j = 0; j < m && !finite; j++) {
        if (!WORD(make_finite)(values + j * width, width)) slot->broken[slot->broken_count++] = j;
    }
    const ota_array plain = ota_array_of(values, REAL_TYPE, 1, 1, m, width);
    pack_keys(&plain, 0, 0, m, h->seat->packed_values);
}

static void WORD(pack_task)(void *context, int64_t half, int worker) {
    const tile_head *h = context;
    (void)worker;
    if (h->paired)
        pack_pairs(h, half);
    else if (half == 0)
        WORD(pack_keys_of)(context);
    else
        WORD(pack_values_of)(context);
}

/* ---- rows ------------------------------------------------------------------------------------- */

static void WORD(terms)(void *context, int64_t row, int64_t first, int64_t last, REAL *tile_row) {
    const tile_terms *t = context;
    WORD(ota_row_scores)(t->resolved, t->batch, t->head, t->first + row, first, last, tile_row);
}

/* Potential and output of a block of rows, as the fused forward finds them: P = 2^((S - top) c) / sum. */
static void WORD(solve_rows)(const tile_head *h, const ota_worker *w, int64_t first, int64_t rows,
                             REAL *out) {
    const ota_plan *plan = h->run->plan;
    const ota_resolved *r = &plan->resolved;
    tile_terms terms = {r, h->batch, h->head, first};
    pack_rows(&r->problem.queries, h->batch, h->head, first, rows, w->queries, r->width);
    const ATTEND block = {.queries = w->queries,
                          .packed_keys = h->slot->packed_keys,
                          .values = h->slot->values,
                          .rows = rows,
                          .width = r->width,
                          .values_width = plan->values_width,
                          .begin = h->seat->begin + first,
                          .end = h->seat->end + first,
                          .scale = (REAL)r->scale,
                          .c = (REAL)(log2_e / h->tau),
                          .sink = (REAL)h->sink,
                          .terms = r->row_terms ? WORD(terms) : NULL,
                          .terms_context = &terms,
                          .out = out,
                          .row_max = w->top,
                          .row_sum = w->sum,
                          .scratch = w->attend};
    KERNELS(plan)->attend(&block);
}

/* Does the row use a key whose values are not finite? A score of -inf does not. */
static bool WORD(uses_broken)(const tile_head *h, const REAL *query_row, int64_t query) {
    const ota_resolved *r = &h->run->plan->resolved;
    const REAL *keys = h->keys;
    for (int64_t q = 0; q < h->slot->broken_count; q++) {
        const int64_t key = h->slot->broken[q];
        if (key < h->seat->begin[query] || key >= h->seat->end[query]) continue;
        REAL score = (REAL)0;
        for (int64_t w = 0; w < r->width; w++) score += query_row[w] * keys[key * r->width + w];
        WORD(ota_row_scores)(r, h->batch, h->head, query, key, key + 1, &score);
        if (!(score <= (REAL)-INFINITY)) return true;
    }
    return false;
}

/* What a row's weights are made of: P = mu factor 2^((S - shift) c), and out = out_mass P V / mu. */
typedef struct WORD(row_facts) {
    double shift, factor, out_mass;
    const REAL *out;
    bool empty, bad;
} WORD(row_facts);

static WORD(row_facts) WORD(facts_of_solved)(const tile_head *h, const ota_worker *w, int64_t query,
                                             int64_t k, const REAL *out) {
    const double top = (double)((const REAL *)w->top)[k], sum = (double)((const REAL *)w->sum)[k];
    WORD(row_facts) found = {.shift = top, .factor = 1.0 / sum, .out_mass = 1.0, .out = out};
    found.bad = !(sum - sum <= 0.0) || top >= INFINITY || isnan(top);
    found.empty = !found.bad && !(sum > 0.0);
    if (!found.bad && h->slot->broken_count > 0) {
        const int64_t width = h->run->plan->resolved.width;
        found.bad = WORD(uses_broken)(h, (const REAL *)w->queries + k * width, query);
    }
    return found;
}

static WORD(row_facts)
    WORD(facts_of_given)(const tile_head *h, int64_t query, double mu, const REAL *out) {
    const double lse = ota_array_get(&h->run->arrays->lse, h->batch, h->head, 0, query);
    return (WORD(row_facts)){.shift = lse * h->tau,
                             .factor = 1.0,
                             .out_mass = mu,
                             .out = out,
                             .empty = lse <= -INFINITY,
                             .bad = isnan(lse) || lse >= INFINITY};
}

/* U_i . P_i / mu_i, the row's advantage, from its output. */
static double WORD(advantage_of)(const REAL *upstream, const REAL *out, int64_t width) {
    enum { LANES = 8 };
    double part[LANES] = {0}, sum = 0.0;
    const int64_t whole = width / LANES * LANES;
    for (int64_t w = 0; w < whole; w += LANES) {
        for (int l = 0; l < LANES; l++) part[l] += (double)upstream[w + l] * (double)out[w + l];
    }
    for (int64_t w = whole; w < width; w++) sum += (double)upstream[w] * (double)out[w];
    for (int l = 0; l < LANES; l++) sum += part[l];
    return sum;
}

static void WORD(prepare_row)(const tile_head *h, int64_t query, const WORD(row_facts) * facts,
                              double mu) {
    const ota_plan *plan = h->run->plan;
    const ota_resolved *r = &plan->resolved;
    const int64_t width = plan->values_width;
    ota_tile_seat *seat = h->seat;
    const bool placed = h->upstream != seat->upstream;
    REAL *kept = (REAL *)seat->upstream + query * width;
    const REAL *upstream = (const REAL *)h->upstream + query * width;
    REAL *shift = (REAL *)seat->shift + query, *advantage = (REAL *)seat->advantage + query;
    double *mass = plan->backward->row_mass + (h->batch * r->heads + h->head) * r->queries + query;
    const bool finite = placed || WORD(make_finite)(kept, width);
    const double a = facts->empty || facts->bad || !(mu > 0.0)
                         ? 0.0
                         : WORD(advantage_of)(upstream, facts->out, width) / facts->out_mass;
    const double gain = mu * facts->factor;
    if (facts->bad || (!finite && !facts->empty) || !(a - a <= 0.0)) {
        if (!placed) memset(kept, 0, (size_t)width * sizeof *kept);
        *shift = (REAL)NAN;
        *advantage = (REAL)0;
        *mass = (double)NAN;
        return;
    }
    const bool idle = facts->empty || !(mu > 0.0);
    *shift = idle ? (REAL)INFINITY : (REAL)facts->shift;
    *advantage = idle ? (REAL)0 : (REAL)(a * gain);
    *mass = a;
    if (!placed) KERNELS(plan)->multiply(kept, width, idle ? (REAL)0 : (REAL)gain);
}

static void WORD(rows_task)(void *context, int64_t piece, int worker) {
    const tile_head *h = context;
    const ota_plan *plan = h->run->plan;
    const ota_resolved *r = &plan->resolved;
    const ota_arrays *a = h->run->arrays;
    ota_tile_seat *seat = h->seat;
    const ota_worker *w = &plan->device->workers[worker];
    const int64_t width = plan->values_width;
    int64_t first, last;
    ota_tile_piece(r->queries, h->run->space->cuts, OTA_TILE_ROWS, piece, &first, &last);
    for (int64_t at = first; at < last; at += OTA_ROW_BLOCK) {
        const int64_t rows = at + OTA_ROW_BLOCK < last ? OTA_ROW_BLOCK : last - at;
        REAL *queries = (REAL *)seat->queries + at * r->width, *out = w->out;
        if (ota_interrupted(&r->settings) != OTA_OK) return;
        for (int64_t k = at; k < at + rows; k++)
            ota_row_range(r, h->batch, k, r->keys, &seat->begin[k], &seat->end[k]);
        if (h->run->given)
            pack_rows(&a->out, h->batch, h->head, at, rows, out, width);
        else
            WORD(solve_rows)(h, w, at, rows, out);
        if (h->paired) {
            pack_pair_rows(h, at, rows);
        } else if (h->queries == seat->queries) {
            pack_rows(&r->problem.queries, h->batch, h->head, at, rows, queries, r->width);
            (void)WORD(make_finite)(queries, rows * r->width);
        }
        if (h->upstream == seat->upstream)
            pack_rows(&h->run->want->out_grad, h->batch, h->head, at, rows,
                      (REAL *)seat->upstream + at * width, width);
        for (int64_t k = 0; k < rows; k++) {
            const double mu = ota_row_mass(r, h->batch, h->head, at + k);
            const WORD(row_facts) facts =
                h->run->given ? WORD(facts_of_given)(h, at + k, mu, out + k * width)
                              : WORD(facts_of_solved)(h, w, at + k, k, out + k * width);
            WORD(prepare_row)(h, at + k, &facts, mu);
        }
    }
}

/* Rows whose potentials and multipliers are known: P = 2^((S + g + f) c), and U is not scaled. */
static void WORD(prepare_coupled_row)(const tile_head *h, int64_t query) {
    const ota_plan *plan = h->run->plan;
    const ota_backward_space *space = h->job->space;
    const int64_t width = plan->values_width;
    const bool placed = h->upstream != h->seat->upstream;
    REAL *upstream = (REAL *)h->seat->upstream + query * width;
    const double f = space->f[query], a = space->a[query];
    const bool idle = !(f > -INFINITY) && !isnan(f);
    const bool finite = placed || WORD(make_finite)(upstream, width);
    const bool bad = !finite || space->bad[query] || !(f < INFINITY) || !(a - a <= 0.0);
    if (!placed && (bad || idle)) memset(upstream, 0, (size_t)width * sizeof *upstream);
    ((REAL *)h->seat->advantage)[query] = bad || idle ? (REAL)0 : (REAL)a;
    ((REAL *)h->seat->shift)[query] = bad ? (REAL)NAN : idle ? (REAL)INFINITY : (REAL)-f;
}

static void WORD(coupled_rows_task)(void *context, int64_t piece, int worker) {
    const tile_head *h = context;
    const ota_resolved *r = &h->run->plan->resolved;
    ota_tile_seat *seat = h->seat;
    const int64_t width = h->run->plan->values_width;
    int64_t first, last;
    (void)worker;
    ota_tile_piece(r->queries, h->run->space->cuts, OTA_TILE_ROWS, piece, &first, &last);
    if (first == last) return;
    REAL *queries = (REAL *)seat->queries + first * r->width;
    if (h->queries == seat->queries) {
        pack_rows(&r->problem.queries, h->batch, h->head, first, last - first, queries, r->width);
        (void)WORD(make_finite)(queries, (last - first) * r->width);
    }
    if (h->upstream == seat->upstream)
        pack_rows(&h->run->want->out_grad, h->batch, h->head, first, last - first,
                  (REAL *)seat->upstream + first * width, width);
    for (int64_t k = first; k < last; k++) {
        ota_row_range(r, h->batch, k, r->keys, &seat->begin[k], &seat->end[k]);
        WORD(prepare_coupled_row)(h, k);
    }
    int64_t from, to;
    ota_tile_piece(r->keys, h->run->space->cuts, OTA_KEY_TILE, piece, &from, &to);
    for (int64_t j = from; j < to; j++)
        ((REAL *)seat->key_advantage)[j] = (REAL)h->job->space->b[j];
}

/* ---- tiles ------------------------------------------------------------------------------------ */

/* sum += factor part, part = 0. */
static void WORD(move_part)(const ota_plan *plan, REAL *part, int64_t count, double factor,
                            double *sum) {
    KERNELS(plan)->accumulate(part, count, factor, sum);
    memset(part, 0, (size_t)count * sizeof *part);
}

/* The only part of a sum, rounded as a sum in f64 would be. */
static void WORD(put_part)(const ota_array *to, const tile_head *h, int64_t first, int64_t rows,
                           REAL *part, double factor) {
    if (!ota_array_present(to)) return;
    const int64_t width = to->size[3];
    for (int64_t k = 0; k < rows * width; k++) part[k] = (REAL)(factor * (double)part[k]);
    unpack_rows(to, h->batch, h->head, first, rows, part, width);
}

/* One tile of keys against the rows [first, last). */
static void WORD(key_tile)(const tile_head *h, ota_tile_worker *w, int64_t from, int64_t keys,
                           int64_t first, int64_t last) {
    const ota_plan *plan = h->run->plan;
    const ota_resolved *r = &plan->resolved;
    const ota_gradients *want = h->run->want;
    const ota_tile_seat *seat = h->seat;
    const int64_t width = r->width, values = plan->values_width;
    const bool of_keys = ota_array_present(&want->keys),
               of_values = ota_array_present(&want->values);
    tile_terms terms = {r, h->batch, h->head, 0};
    GRADIENT block = {.keys = (const REAL *)h->keys + from * width,
                      .packed_keys = (const REAL *)h->slot->packed_keys + from * width,
                      .packed_values = (const REAL *)seat->packed_values + from * values,
                      .key_count = keys,
                      .width = width,
                      .values_width = values,
                      .first = from,
                      .scale = (REAL)r->scale,
                      .c = (REAL)(log2_e / h->tau),
                      .terms = r->row_terms ? WORD(terms) : NULL,
                      .terms_context = &terms,
                      .keys_grad = of_keys ? w->keys_grad : NULL,
                      .values_grad = of_values ? w->values_grad : NULL,
                      .scratch = w->scratch};
    if (h->job != NULL) {
        block.key_advantage = (const REAL *)seat->key_advantage + from;
        block.key_bias = h->job->biased ? (const REAL *)h->job->space->bias + from : NULL;
    }
    int64_t blocks = 0;
    for (int64_t at = first; at < last; at += OTA_ROW_BLOCK) {
        terms.first = at;
        block.rows = at + OTA_ROW_BLOCK < last ? OTA_ROW_BLOCK : last - at;
        block.queries = (const REAL *)h->queries + at * width;
        block.upstream = (const REAL *)h->upstream + at * values;
        block.begin = seat->begin + at;
        block.end = seat->end + at;
        block.shift = (const REAL *)seat->shift + at;
        block.advantage = (const REAL *)seat->advantage + at;
        block.queries_grad = ota_array_present(&want->queries)
                                 ? (REAL *)w->queries_grad + (at - first) * width
                                 : NULL;
        if (h->paired)
            gradient_of_pairs(h, &block, at);
        else
            KERNELS(plan)->gradient(&block);
        if (h->direct || (++blocks % OTA_FOLD_BLOCKS != 0 && at + OTA_ROW_BLOCK < last)) continue;
        if (of_keys) WORD(move_part)
        (plan, w->keys_grad, keys * width, h->rate, seat->keys_sum + from * width);
        if (of_values) WORD(move_part)
        (plan, w->values_grad, keys * values, 1.0, seat->values_sum + from * values);
    }
    if (!h->direct) return;
    WORD(put_part)(&want->keys, h, from, keys, w->keys_grad, h->rate);
    WORD(put_part)(&want->values, h, from, keys, w->values_grad, 1.0);
    WORD(put_part)(&want->queries, h, first, last - first, w->queries_grad, h->rate);
}

static void WORD(unit_task)(void *context, int64_t piece, int worker) {
    const tile_head *h = context;
    const ota_plan *plan = h->run->plan;
    const ota_resolved *r = &plan->resolved;
    ota_tile_worker *w = &h->run->space->workers[worker];
    const int64_t cuts = h->run->space->cuts, width = r->width;
    int64_t first, last, from, to;
    ota_tile_piece(r->queries, cuts, OTA_TILE_ROWS, (piece + h->step) % cuts, &first, &last);
    ota_tile_piece(r->keys, cuts, OTA_KEY_TILE, piece, &from, &to);
    if (ota_interrupted(&r->settings) != OTA_OK) return;
    const size_t real = sizeof(REAL);
    memset(w->queries_grad, 0, (size_t)((last - first) * width) * real);
    memset(w->keys_grad, 0, (size_t)(OTA_KEY_TILE * width) * real);
    memset(w->values_grad, 0, (size_t)(OTA_KEY_TILE * plan->values_width) * real);
    int64_t tiles = 0;
    for (int64_t at = from; at < to; at += OTA_KEY_TILE) {
        WORD(key_tile)(h, w, at, at + OTA_KEY_TILE < to ? OTA_KEY_TILE : to - at, first, last);
        if (h->direct || (++tiles % OTA_FOLD_TILES != 0 && at + OTA_KEY_TILE < to)) continue;
        WORD(move_part)
        (plan, w->queries_grad, (last - first) * width, h->rate,
         h->seat->queries_sum + first * width);
    }
}

#undef pack_rows
#undef pack_keys
#undef unpack_rows
