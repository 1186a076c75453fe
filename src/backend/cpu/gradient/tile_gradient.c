/* Softmax in tiles, compiled for each type. n = queries, m = keys; shapes are those of tiles.h. */
#include "backend/cpu/finite.h"
#include "tiles.h"

#include <math.h>
#include <string.h>

/* What is not finite becomes 0. */
static bool make_finite(const tile_head *h, real *x, int64_t count) {
    if (KERNELS(h->run->device)->terms->is_finite(x, count)) return true;
    for (int64_t k = 0; k < count; k++) {
        if (!(x[k] - x[k] == (real)0)) x[k] = (real)0;
    }
    return false;
}

static const real *block_of(const tile_head *h, const ota_array *a, int64_t head) {
    return finite_rows(KERNELS(h->run->device), a, h->batch, head, a->size[2]);
}

static void place_keys(tile_head *h) {
    const ota_array *keys = &h->run->device->resolved->problem.keys;
    const real *block = h->paired ? NULL : block_of(h, keys, h->key_head);
    h->keys = block != NULL ? block : h->workspace->keys;
}

/* Upstream rows are scaled by what forward's weights lack, by nothing where it hands over rows of mass 1. */
static void place_rows(tile_head *h) {
    const ota_resolved *r = h->run->device->resolved;
    const bool scaled =
        h->job == NULL && (!h->run->given || ota_array_present(&r->problem.row_mass));
    const real *queries = NULL, *upstream = NULL;
    if (!h->paired) queries = block_of(h, &r->problem.queries, h->head);
    if (!h->paired && !scaled) upstream = block_of(h, &h->run->want->out_grad, h->head);
    h->queries = queries != NULL ? queries : h->workspace->queries;
    h->upstream = upstream != NULL ? upstream : h->workspace->upstream;
}

static void pack_keys_of(const tile_head *h) {
    const ota_resolved *r = h->run->device->resolved;
    ota_tile_workspace *workspace = h->workspace;
    pack_keys(KERNELS(h->run->device), &r->problem.keys, h->batch, h->key_head, r->keys,
              h->packed->packed_keys);
    if (h->keys != workspace->keys) return;
    pack_rows(&r->problem.keys, h->batch, h->key_head, 0, r->keys, workspace->keys, r->width);
    (void)make_finite(h, workspace->keys, r->keys * r->width);
}

static void pack_values_of(const tile_head *h) {
    const ota_cpu_device *device = h->run->device;
    const int64_t m = device->resolved->keys, width = device->values_width;
    ota_packed_kv *packed = h->packed;
    const ota_array *values = &h->run->arrays->values;
    real *room = packed->value_room;
    const ota_array plain = ota_array_of(room, REAL_TYPE, 1, 1, m, width);
    packed->nonfinite_count = 0;
    packed->values = block_of(h, values, h->key_head);
    if (packed->values != NULL) {
        pack_keys(KERNELS(device), values, h->batch, h->key_head, m, h->workspace->packed_values);
        return;
    }
    packed->values = room;
    pack_rows(values, h->batch, h->key_head, 0, m, room, width);
    const bool finite = KERNELS(device)->terms->is_finite(room, m * width);
    for (int64_t j = 0; j < m && !finite; j++) {
        if (!make_finite(h, room + j * width, width))
            packed->nonfinite_keys[packed->nonfinite_count++] = j;
    }
    pack_keys(KERNELS(device), &plain, 0, 0, m, h->workspace->packed_values);
}

static void pack_task(void *context, int64_t half, int worker) {
    const tile_head *h = context;
    (void)worker;
    if (h->paired)
        ota_tile_pack_pairs(h, half);
    else if (half == 0)
        pack_keys_of(context);
    else
        pack_values_of(context);
}

/* ---- rows ------------------------------------------------------------------------------------- */

static void score_terms(void *context, int64_t row, int64_t first, int64_t last, real *tile_row) {
    const tile_terms *t = context;
    const ota_pair_place place = {t->batch, t->head, t->first + row};
    apply_some_terms(KERNELS(t->device), t->device->resolved, &place, t->left, first, last,
                     tile_row);
}

/* Potential and output of a block of rows, as the fused forward finds them: P = 2^((S - top) c) / sum. */
static void solve_rows(const tile_head *h, const ota_worker *w, int64_t first, int64_t rows,
                       real *out) {
    const ota_cpu_device *device = h->run->device;
    const ota_resolved *r = device->resolved;
    const ota_head_masks *masks = &h->workspace->masks;
    tile_terms terms = {device, h->batch, h->head, first, masks->left};
    pack_rows(&r->problem.queries, h->batch, h->head, first, rows, w->queries, r->width);
    const ota_attend_block block = {.queries = w->queries,
                                    .packed_keys = h->packed->packed_keys,
                                    .values = h->packed->values,
                                    .rows = rows,
                                    .width = r->width,
                                    .values_width = device->values_width,
                                    .begin = h->workspace->begin + first,
                                    .end = h->workspace->end + first,
                                    .pairs = pairs_from(masks, first),
                                    .scale = (real)r->scale,
                                    .c = (real)(OTA_LOG2_E / h->tau),
                                    .sink = (real)h->sink,
                                    .terms = masks->terms ? score_terms : NULL,
                                    .terms_context = &terms,
                                    .out = out,
                                    .row_max = w->top,
                                    .row_sum = w->sum,
                                    .scratch = w->attend};
    KERNELS(device)->attend(&block);
}

/* Does the row use a key whose values are not finite? A score of -inf does not. */
static bool uses_nonfinite(const tile_head *h, const real *query_row, int64_t query) {
    const ota_resolved *r = h->run->device->resolved;
    const real *keys = h->keys;
    for (int64_t q = 0; q < h->packed->nonfinite_count; q++) {
        const int64_t key = h->packed->nonfinite_keys[q];
        if (key < h->workspace->begin[query] || key >= h->workspace->end[query]) continue;
        real score = (real)0;
        for (int64_t w = 0; w < r->width; w++) score += query_row[w] * keys[key * r->width + w];
        apply_terms(KERNELS(h->run->device), r, h->batch, h->head, query, key, key + 1, &score);
        if (!(score <= (real)-INFINITY)) return true;
    }
    return false;
}

/* What a row's weights are made of: P = mu factor 2^((S - shift) c), and out = out_mass P V / mu. */
typedef struct row_facts {
    double shift, factor, out_mass;
    const real *out;
    bool empty, bad;
} row_facts;

static row_facts facts_of_solved(const tile_head *h, const ota_worker *w, int64_t query, int64_t k,
                                 const real *out) {
    const double top = (double)((const real *)w->top)[k], sum = (double)((const real *)w->sum)[k];
    row_facts found = {.shift = top, .factor = 1.0 / sum, .out_mass = 1.0, .out = out};
    found.bad = !(sum - sum <= 0.0) || top >= INFINITY || isnan(top);
    found.empty = !found.bad && !(sum > 0.0);
    if (!found.bad && h->packed->nonfinite_count > 0) {
        const int64_t width = h->run->device->resolved->width;
        found.bad = uses_nonfinite(h, (const real *)w->queries + k * width, query);
    }
    return found;
}

static row_facts facts_of_given(const tile_head *h, int64_t query, double mu, const real *out) {
    const double lse = ota_array_get(&h->run->arrays->lse, h->batch, h->head, 0, query);
    return (row_facts){.shift = lse * h->tau,
                       .factor = 1.0,
                       .out_mass = mu,
                       .out = out,
                       .empty = lse <= -INFINITY,
                       .bad = isnan(lse) || lse >= INFINITY};
}

static void prepare_row(const tile_head *h, int64_t query, const row_facts *facts, double mu) {
    const ota_cpu_device *device = h->run->device;
    const ota_resolved *r = device->resolved;
    const int64_t width = device->values_width;
    ota_tile_workspace *workspace = h->workspace;
    const bool placed = h->upstream != workspace->upstream;
    real *kept = (real *)workspace->upstream + query * width;
    const real *upstream = (const real *)h->upstream + query * width;
    real *shift = (real *)workspace->shift + query,
         *advantage = (real *)workspace->advantage + query;
    double *mass =
        h->run->job->space->sums.row_mass + (h->batch * r->heads + h->head) * r->queries + query;
    const bool finite = placed || make_finite(h, kept, width);
    /* U_i . P_i / mu_i, the row's advantage, from its output. */
    const double a =
        facts->empty || facts->bad || !(mu > 0.0)
            ? 0.0
            : KERNELS(device)->terms->row_dot(upstream, facts->out, width) / facts->out_mass;
    const double row_factor = mu * facts->factor;
    if (facts->bad || (!finite && !facts->empty) || !(a - a <= 0.0)) {
        if (!placed) memset(kept, 0, (size_t)width * sizeof *kept);
        *shift = (real)NAN;
        *advantage = (real)0;
        *mass = (double)NAN;
        return;
    }
    const bool idle = facts->empty || !(mu > 0.0);
    *shift = idle ? (real)INFINITY : (real)facts->shift;
    *advantage = idle ? (real)0 : (real)(a * row_factor);
    *mass = a;
    if (!placed) KERNELS(device)->multiply(kept, width, idle ? (real)0 : (real)row_factor);
}

static void rows_task(void *context, int64_t piece, int worker) {
    const tile_head *h = context;
    const ota_cpu_device *device = h->run->device;
    const ota_resolved *r = device->resolved;
    const ota_arrays *a = h->run->arrays;
    ota_tile_workspace *workspace = h->workspace;
    const ota_worker *w = &device->workers[worker];
    const int64_t width = device->values_width;
    int64_t first, last;
    ota_tile_piece(r->queries, h->run->space->cuts, OTA_TILE_ROWS, piece, &first, &last);
    for (int64_t at = first; at < last; at += OTA_ROW_BLOCK) {
        const int64_t rows = ota_int_min(OTA_ROW_BLOCK, last - at);
        real *queries = (real *)workspace->queries + at * r->width, *made = w->out;
        const real *out = made;
        if (ota_interrupted(&r->settings) != OTA_OK) return;
        for (int64_t k = at; k < at + rows; k++)
            ota_masked_row_range(r, &workspace->masks, h->batch, k, &workspace->begin[k],
                                 &workspace->end[k]);
        if (!h->run->given)
            solve_rows(h, w, at, rows, made);
        else if (dense_rows(&a->out, h->batch, h->head, at) != NULL)
            out = dense_rows(&a->out, h->batch, h->head, at);
        else
            pack_rows(&a->out, h->batch, h->head, at, rows, made, width);
        if (h->paired) {
            ota_tile_pack_pair_rows(h, at, rows);
        } else if (h->queries == workspace->queries) {
            pack_rows(&r->problem.queries, h->batch, h->head, at, rows, queries, r->width);
            (void)make_finite(h, queries, rows * r->width);
        }
        if (h->upstream == workspace->upstream)
            pack_rows(&h->run->want->out_grad, h->batch, h->head, at, rows,
                      (real *)workspace->upstream + at * width, width);
        for (int64_t k = 0; k < rows; k++) {
            const double mu = ota_row_mass(r, h->batch, h->head, at + k);
            const row_facts facts = h->run->given
                                        ? facts_of_given(h, at + k, mu, out + k * width)
                                        : facts_of_solved(h, w, at + k, k, out + k * width);
            prepare_row(h, at + k, &facts, mu);
        }
    }
}

/* Rows whose potentials and multipliers are known: P = 2^((S + g + f) c), and U is not scaled. */
static void prepare_coupled_row(const tile_head *h, int64_t query) {
    const ota_cpu_device *device = h->run->device;
    const ota_backward_space *space = h->job->space;
    const int64_t width = device->values_width;
    const bool placed = h->upstream != h->workspace->upstream;
    real *upstream = (real *)h->workspace->upstream + query * width;
    const double f = space->f[query], a = space->a[query];
    const bool idle = !(f > -INFINITY) && !isnan(f);
    const bool finite = placed || make_finite(h, upstream, width);
    const bool bad = !finite || space->bad[query] || !(f < INFINITY) || !(a - a <= 0.0);
    if (!placed && (bad || idle)) memset(upstream, 0, (size_t)width * sizeof *upstream);
    ((real *)h->workspace->advantage)[query] = bad || idle ? (real)0 : (real)a;
    ((real *)h->workspace->shift)[query] = bad ? (real)NAN : idle ? (real)INFINITY : (real)-f;
}

static void coupled_rows_task(void *context, int64_t piece, int worker) {
    const tile_head *h = context;
    const ota_resolved *r = h->run->device->resolved;
    ota_tile_workspace *workspace = h->workspace;
    const int64_t width = h->run->device->values_width;
    int64_t first, last;
    (void)worker;
    ota_tile_piece(r->queries, h->run->space->cuts, OTA_TILE_ROWS, piece, &first, &last);
    if (first == last) return;
    real *queries = (real *)workspace->queries + first * r->width;
    if (h->queries == workspace->queries) {
        pack_rows(&r->problem.queries, h->batch, h->head, first, last - first, queries, r->width);
        (void)make_finite(h, queries, (last - first) * r->width);
    }
    if (h->upstream == workspace->upstream)
        pack_rows(&h->run->want->out_grad, h->batch, h->head, first, last - first,
                  (real *)workspace->upstream + first * width, width);
    for (int64_t k = first; k < last; k++) {
        ota_masked_row_range(r, &workspace->masks, h->batch, k, &workspace->begin[k],
                             &workspace->end[k]);
        prepare_coupled_row(h, k);
    }
    int64_t from, to;
    ota_tile_piece(r->keys, h->run->space->cuts, OTA_KEY_TILE, piece, &from, &to);
    for (int64_t j = from; j < to; j++)
        ((real *)workspace->key_advantage)[j] = (real)h->job->space->b[j];
}

/* ---- tiles ------------------------------------------------------------------------------------ */

/* sum += factor part, part = 0. */
static void move_part(const ota_cpu_device *device, real *part, int64_t count, double factor,
                      bool folded, double *sum) {
    if (!folded) memset(sum, 0, (size_t)count * sizeof *sum);
    KERNELS(device)->accumulate(part, count, factor, sum);
    memset(part, 0, (size_t)count * sizeof *part);
}

/* x *= factor as f64 rounds it. The product of two numbers of T is exact in f64, so that T rounds it to the same. */
static void scale_part(const ota_cpu_device *device, real *x, int64_t count, double factor) {
    const real narrow = (real)factor;
    if ((double)narrow == factor && narrow == (real)1) return;
    if ((double)narrow == factor)
        KERNELS(device)->multiply(x, count, narrow);
    else
        for (int64_t k = 0; k < count; k++) x[k] = (real)(factor * (double)x[k]);
}

/* Rows of a gradient: the sum in f64 and the part in T that joins it; with nothing in the sum an array of T gets what
 * that would round to. */
static void put_part(const ota_array *to, const tile_head *h, int64_t first, int64_t rows,
                     const ota_tile_part *is, real *part, double factor, double *sum) {
    if (!ota_array_present(to)) return;
    const int64_t width = to->size[3];
    if (is->folded || to->type != REAL_TYPE) {
        move_part(h->run->device, part, rows * width, factor, is->folded, sum);
        ota_unpack_rows_f64(to, h->batch, h->head, first, rows, sum, width);
        return;
    }
    scale_part(h->run->device, part, rows * width, factor);
    unpack_rows(to, h->batch, h->head, first, rows, part, width);
}

/* The gradients of a tile of keys join their sums. */
static void fold_keys(const tile_head *h, int64_t from, int64_t keys) {
    const ota_cpu_device *device = h->run->device;
    const ota_gradients *want = h->run->want;
    ota_tile_workspace *workspace = h->workspace;
    ota_tile_part *is = &workspace->key_tiles[from / OTA_KEY_TILE];
    const int64_t width = device->resolved->width, values = device->values_width;
    if (ota_array_present(&want->keys))
        move_part(device, (real *)workspace->keys_part + from * width, keys * width, h->rate,
                  is->folded, workspace->keys_sum + from * width);
    if (ota_array_present(&want->values))
        move_part(device, (real *)workspace->values_part + from * values, keys * values, 1.0,
                  is->folded, workspace->values_sum + from * values);
    *is = (ota_tile_part){.folded = true};
}

static void finish_keys_task(void *context, int64_t piece, int worker) {
    const tile_head *h = context;
    const ota_cpu_device *device = h->run->device;
    const ota_gradients *want = h->run->want;
    ota_tile_workspace *workspace = h->workspace;
    const int64_t width = device->resolved->width, values = device->values_width;
    int64_t from, to;
    (void)worker;
    ota_tile_piece(device->resolved->keys, h->run->space->cuts, OTA_KEY_TILE, piece, &from, &to);
    for (; from < to; from += OTA_KEY_TILE) {
        const ota_tile_part *is = &workspace->key_tiles[from / OTA_KEY_TILE];
        const int64_t keys = ota_int_min(OTA_KEY_TILE, to - from);
        if (!h->alone) {
            fold_keys(h, from, keys);
            continue;
        }
        put_part(&want->keys, h, from, keys, is, (real *)workspace->keys_part + from * width,
                 h->rate, workspace->keys_sum + from * width);
        put_part(&want->values, h, from, keys, is, (real *)workspace->values_part + from * values,
                 1.0, workspace->values_sum + from * values);
    }
}

static void finish_queries_task(void *context, int64_t piece, int worker) {
    const tile_head *h = context;
    const ota_resolved *r = h->run->device->resolved;
    ota_tile_workspace *workspace = h->workspace;
    int64_t first, last;
    (void)worker;
    ota_tile_piece(r->queries, h->run->space->cuts, OTA_TILE_ROWS, piece, &first, &last);
    put_part(&h->run->want->queries, h, first, last - first, &workspace->query_pieces[piece],
             (real *)workspace->queries_part + first * r->width, h->rate,
             workspace->queries_sum + first * r->width);
}

/* One tile of keys against the rows [first, last). */
static void key_tile(const tile_head *h, ota_tile_worker *w, int64_t from, int64_t keys,
                     int64_t first, int64_t last) {
    const ota_cpu_device *device = h->run->device;
    const ota_resolved *r = device->resolved;
    const ota_gradients *want = h->run->want;
    const ota_tile_workspace *workspace = h->workspace;
    const int64_t width = r->width, values = device->values_width;
    real *keys_part = (real *)workspace->keys_part + from * width;
    real *values_part = (real *)workspace->values_part + from * values;
    ota_tile_part *is = &workspace->key_tiles[from / OTA_KEY_TILE];
    const ota_head_masks *masks = &workspace->masks;
    tile_terms terms = {device, h->batch, h->head, 0, masks->left};
    ota_gradient_block block = {
        .keys = (const real *)h->keys + from * width,
        .packed_keys = (const real *)h->packed->packed_keys + from * width,
        .packed_values = (const real *)workspace->packed_values + from * values,
        .key_count = keys,
        .width = width,
        .values_width = values,
        .first = from,
        .scale = (real)r->scale,
        .c = (real)(OTA_LOG2_E / h->tau),
        .terms = masks->terms ? score_terms : NULL,
        .terms_context = &terms,
        .keys_grad = ota_array_present(&want->keys) ? keys_part : NULL,
        .values_grad = ota_array_present(&want->values) ? values_part : NULL,
        .scratch = w->scratch};
    if (h->job != NULL) {
        block.key_advantage = (const real *)workspace->key_advantage + from;
        block.key_bias =
            h->job->state.biased ? (const real *)h->job->space->own->bias + from : NULL;
    }
    for (int64_t at = first; at < last; at += OTA_ROW_BLOCK) {
        if (is->count == OTA_FOLD_BLOCKS) fold_keys(h, from, keys);
        is->count++;
        terms.first = at;
        block.pairs = pairs_from(masks, at);
        block.rows = ota_int_min(OTA_ROW_BLOCK, last - at);
        block.queries = (const real *)h->queries + at * width;
        block.upstream = (const real *)h->upstream + at * values;
        block.begin = workspace->begin + at;
        block.end = workspace->end + at;
        block.shift = (const real *)workspace->shift + at;
        block.advantage = (const real *)workspace->advantage + at;
        block.queries_grad =
            ota_array_present(&want->queries) ? (real *)workspace->queries_part + at * width : NULL;
        if (h->paired)
            ota_tile_gradient_of_pairs(h, &block, at);
        else
            KERNELS(device)->gradient(&block);
    }
}

static void unit_task(void *context, int64_t piece, int worker) {
    const tile_head *h = context;
    const ota_cpu_device *device = h->run->device;
    const ota_resolved *r = device->resolved;
    ota_tile_worker *w = &h->run->space->workers[worker];
    const int64_t cuts = h->run->space->cuts, width = r->width;
    int64_t first, last, from, to;
    const int64_t piece_of_queries = (piece + h->step) % cuts;
    ota_tile_piece(r->queries, cuts, OTA_TILE_ROWS, piece_of_queries, &first, &last);
    ota_tile_piece(r->keys, cuts, OTA_KEY_TILE, piece, &from, &to);
    if (ota_interrupted(&r->settings) != OTA_OK) return;
    const ota_tile_workspace *workspace = h->workspace;
    real *queries_part = (real *)workspace->queries_part + first * width;
    const int64_t values = device->values_width;
    if (h->step == 0) {
        /* Pieces of keys and of queries meet every unit of the first step once. */
        const size_t keys = (size_t)(to - from);
        memset(queries_part, 0, (size_t)((last - first) * width) * sizeof(real));
        memset((real *)workspace->keys_part + from * width, 0, keys * (size_t)width * sizeof(real));
        memset((real *)workspace->values_part + from * values, 0,
               keys * (size_t)values * sizeof(real));
    }
    ota_tile_part *is = &workspace->query_pieces[piece_of_queries];
    for (int64_t at = from; at < to; at += OTA_KEY_TILE) {
        if (is->count == OTA_FOLD_TILES) {
            move_part(device, queries_part, (last - first) * width, h->rate, is->folded,
                      workspace->queries_sum + first * width);
            *is = (ota_tile_part){.folded = true};
        }
        is->count++;
        key_tile(h, w, at, ota_int_min(OTA_KEY_TILE, to - at), first, last);
    }
}

const ota_tile_tasks WORD(ota_tile_tasks) = {
    pack_task,           rows_task,        coupled_rows_task, unit_task,
    finish_queries_task, finish_keys_task, place_keys,        place_rows,
};
