/* The semi-dual of a head whose weights are mostly 0: every row keeps a list of the keys that may get weight, and rows,
 * slopes and products cost what the lists hold. Exact, not approximate: a list holds all keys with
 *
 *     S_ij + base_j >= bound_i
 *
 * so that at other potentials g a key outside it lies below bound_i + max_j (g_j - base_j). While the threshold -f_i that
 * the list alone gives is not below that, no key outside has weight, and the list's row is the whole row's. Where it is,
 * the row is listed again from its stored scores; where many rows are, all of them, with base = g.
 *
 * Lists of a chunk of rows lie one behind another in the chunk's room; a longer one goes to its end. */
#include "coupled.h"

#include <float.h>
#include <string.h>

/* What a list holds below the threshold, in units of the distance between threshold and largest score that one key with
 * all the mass would have. */
static const double margin = 0.15;

/* Misses of a row whose squares are below the rounding of scores, in f32 and f64. */
static const double close_narrow = 1.0e-5, close_wide = 1.0e-8;

typedef struct pass {
    ota_coupled *state;
    double t;
    ota_row_parameters parameters;
    double rise; /* max_j (g_j - base_j) */
    double size; /* max_j |base_j| */
    bool anew;   /* list every row; base is g */
    const double *x;
} pass;

static pass pass_of(ota_coupled *state, double t) {
    pass now = {.state = state, .t = t, .parameters = ota_coupled_rows(state, t)};
    now.parameters.close = state->pass.narrow ? close_narrow : close_wide;
    return now;
}

/* ---- memory ---------------------------------------------------------------------------------- */

void ota_row_lists_layout(ota_coupled *state, ota_arena *arena, bool capped) {
    const ota_passes *shape = &state->pass;
    ota_row_lists *lists = &state->lists;
    lists->room = (shape->chunk_rows + 1) * shape->stride + OTA_LIST_ROOM;
    const size_t rows = (size_t)shape->rows + 1, chunks = (size_t)shape->chunks;
    const size_t columns = (size_t)shape->padded_columns;
    size_t all;
    if (shape->stride > INT32_MAX || !ota_size_mul((size_t)lists->room, chunks, &all))
        all = SIZE_MAX;
    lists->scores = ota_arena_take(arena, all, sizeof *lists->scores);
    lists->weights = ota_arena_take(arena, all, sizeof *lists->weights);
    lists->keys = ota_arena_take(arena, all, sizeof *lists->keys);
    lists->begin = ota_arena_take(arena, rows, sizeof *lists->begin);
    lists->count = ota_arena_take(arena, rows, sizeof *lists->count);
    lists->active = ota_arena_take(arena, rows, sizeof *lists->active);
    lists->bound = ota_arena_take(arena, rows, sizeof *lists->bound);
    lists->base = ota_arena_take(arena, columns, sizeof *lists->base);
    lists->rounded = ota_arena_take(arena, columns, sizeof(double));
    if (capped) lists->caps = ota_arena_take(arena, chunks, columns * sizeof *lists->caps);
    lists->used = ota_arena_take(arena, chunks, sizeof *lists->used);
    lists->anew = ota_arena_take(arena, chunks, sizeof *lists->anew);
}

/* ---- how far weights reach ---------------------------------------------------------------------- */

/* The mean of the caps of the pairs, or of a part of them where they are many. */
static double mean_cap(const ota_coupled *state) {
    const ota_entry_caps *caps = &state->head->row.caps;
    const int64_t rows = state->pass.rows, columns = state->pass.columns;
    const int64_t apart = 1 + columns / 64;
    double sum = 0.0, count = 0.0;
    if (!state->head->row.regulariser->capped) return INFINITY;
    if (caps->array == NULL) return caps->cap;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = i % apart; j < columns; j += apart) {
            sum += fmin(ota_entry_cap(caps, i, j), state->head->mu[i]);
            count += 1.0;
        }
    }
    return count > 0.0 && sum > 0.0 ? sum / count : INFINITY;
}

double ota_reach_of_weights(const ota_coupled *state, bool within_caps) {
    const ota_head *head = state->head;
    double rows = 0.0, mass = 0.0;
    if (head->settings->ranks != NULL) return 1.0;
    for (int64_t i = 0; i < state->pass.rows; i++) {
        rows += head->mu[i] > 0.0 ? 1.0 : 0.0;
        mass += head->mu[i];
    }
    const double weight =
        rows > 0.0 ? fmin(mass / rows, within_caps ? mean_cap(state) : INFINITY) : 1.0;
    const double reach = pow(weight, head->row.order - 1.0);
    return reach > 0.0 && reach < INFINITY ? reach : 1.0;
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* What the type of the scores leaves of S + base next to `level`. */
static double rounding_at(const pass *now, double level) {
    const double unit = now->state->pass.narrow ? (double)FLT_EPSILON : DBL_EPSILON;
    return 4.0 * unit * (fabs(level) + now->size);
}

static double top_of(const pass *now, int64_t i) {
    const ota_coupled *state = now->state;
    const ota_host_algebra *algebra = state->head->host.algebra;
    const ota_passes *p = &state->pass;
    const int64_t at = i * p->stride;
    return p->narrow
               ? (double)algebra->top_f32((const float *)p->scores + at, state->lists.rounded,
                                          p->columns)
               : algebra->top_f64((const double *)p->scores + at, state->lists.rounded, p->columns);
}

/* The keys of row i with S + base >= floor, and perhaps some that rounding lets in, at the end of the chunk's room. */
static void take_keys(const pass *now, int64_t chunk, int64_t i, double floor) {
    ota_coupled *state = now->state;
    const ota_host_algebra *algebra = state->head->host.algebra;
    const ota_passes *p = &state->pass;
    ota_row_lists *lists = &state->lists;
    const int64_t at = i * p->stride, begin = chunk * lists->room + lists->used[chunk];
    double *scores = lists->scores + begin;
    int32_t *keys = lists->keys + begin;
    int64_t count;
    const double lowered = floor - rounding_at(now, floor);
    if (p->narrow) {
        float *kept = (float *)p->chunk.top + chunk * 2 * p->padded_columns;
        const float below = lowered > -(double)FLT_MAX ? (float)lowered : -FLT_MAX;
        count = algebra->list_f32((const float *)p->scores + at, lists->rounded, p->columns, below,
                                  kept, keys);
        for (int64_t k = 0; k < count; k++) scores[k] = (double)kept[k];
    } else {
        count = algebra->list_f64((const double *)p->scores + at, lists->rounded, p->columns,
                                  fmax(lowered, -DBL_MAX), scores, keys);
    }
    lists->begin[i] = begin;
    lists->count[i] = count;
    lists->bound[i] = floor;
    lists->used[chunk] += count;
}

/* ---- rows at g ------------------------------------------------------------------------------- */

/* The caps of the keys of row i, where they are no one number. False: they have no room for the row's mass. */
static bool gather_caps(const pass *now, int64_t chunk, int64_t i, ota_row_parameters *parameters) {
    const ota_coupled *state = now->state;
    const ota_entry_caps *caps = &parameters->caps;
    const int64_t count = state->lists.count[i];
    const int32_t *keys = state->lists.keys + state->lists.begin[i];
    double *to = state->lists.caps + chunk * state->pass.padded_columns;
    double room = caps->array == NULL ? caps->cap * (double)count : 0.0;
    for (int64_t k = 0; caps->array != NULL && k < count; k++) {
        to[k] = ota_entry_cap(caps, i, keys[k]);
        room += to[k];
    }
    if (caps->array != NULL) parameters->key_caps = to;
    return parameters->sink > -INFINITY || !(state->lists.bound[i] > -INFINITY) ||
           room > state->head->mu[i];
}

/* `about` is where the threshold may lie, or NAN. */
static void solve_list(const pass *now, int64_t chunk, int64_t i, double about,
                       ota_row_found *found) {
    ota_coupled *state = now->state;
    ota_head *head = state->head;
    const ota_row_lists *lists = &state->lists;
    const int64_t begin = lists->begin[i], count = lists->count[i];
    const int32_t *keys = lists->keys + begin;
    double *h = (double *)state->pass.chunk.scratch + chunk * state->pass.padded_columns;
    ota_row_parameters parameters = now->parameters;
    for (int64_t k = 0; k < count; k++) h[k] = head->g[keys[k]];
    parameters.line = i;
    parameters.threshold = &about;
    found->infeasible = parameters.regulariser->capped && !gather_caps(now, chunk, i, &parameters);
    if (found->infeasible) return;
    head->host.algebra->row_solve(&parameters, lists->scores + begin, h, count, head->mu[i],
                                  lists->weights + begin, found);
}

/* Leaves out what lies below a higher bound; none of it has weight. Only the last list of a chunk gives its room back. */
static void shrink(const pass *now, int64_t chunk, int64_t i, double bound) {
    ota_row_lists *lists = &now->state->lists;
    const int64_t begin = lists->begin[i], count = lists->count[i];
    const double *base = lists->base;
    double *scores = lists->scores + begin, *weights = lists->weights + begin;
    int32_t *keys = lists->keys + begin;
    int64_t left = 0;
    for (int64_t k = 0; k < count; k++) {
        const int32_t key = keys[k];
        const double score = scores[k], weight = weights[k];
        scores[left] = score;
        weights[left] = weight;
        keys[left] = key;
        left += score + base[key] >= bound;
    }
    lists->count[i] = left;
    lists->bound[i] = bound;
    lists->used[chunk] -= count - left;
}

/* How far the largest score lies above the threshold where one key has all the mass: never farther. */
static double reach_of(const pass *now, double mass) {
    const double gap = now->parameters.order - 1.0;
    return now->t / gap * (fabs(mass - 1.0) > 0.0 ? pow(mass, gap) : 1.0);
}

/* The level below which no key of row i has weight, from the solution of its list. */
static double level_of(const ota_row_found *found) {
    return found->infeasible ? -INFINITY : -found->potential;
}

/* How far below its threshold a row lists its keys. */
static double margin_of(const pass *now, double reach) {
    return fmax(margin * reach, now->state->lists.risen);
}

/* Lists row i from `level` on, below which no key has weight, or so it is thought: keys at their caps leave mass to others,
 * however far below them these are. */
static void list_row(const pass *now, int64_t chunk, int64_t i, double level, double about,
                     ota_row_found *found) {
    enum { TRIES = 3 };
    ota_row_lists *lists = &now->state->lists;
    const double reach = reach_of(now, now->state->head->mu[i]), room = margin_of(now, reach);
    double deeper = reach;
    for (int tries = 0;; tries++) {
        take_keys(now, chunk, i, level - now->rise - room);
        solve_list(now, chunk, i, about, found);
        const double at = level_of(found);
        /* The list goes down to `level`, whatever the bound's sum rounds to. */
        if (!(at < level) || lists->bound[i] + now->rise <= at) return;
        lists->used[chunk] -= lists->count[i];
        if (!found->infeasible) {
            level = about = at;
        } else {
            level = tries < TRIES ? level - deeper : -INFINITY;
            deeper *= 2.0;
        }
    }
}

/* base is g: the row's list from its stored scores, and its weights. */
static void begin_row(const pass *now, int64_t chunk, int64_t i, ota_row_found *found) {
    const ota_row_lists *lists = &now->state->lists;
    const double reach = reach_of(now, now->state->head->mu[i]), sink = now->parameters.sink;
    if (now->parameters.regulariser->capped && lists->known) {
        const double last = -now->state->head->f[i];
        list_row(now, chunk, i, last, last, found);
    } else {
        const double top = top_of(now, i);
        list_row(now, chunk, i, (sink > top ? sink : top) - reach, NAN, found);
    }
    shrink(now, chunk, i, fmax(level_of(found) - margin_of(now, reach), lists->bound[i]));
}

/* The row at g, listed again where its list may lack a key with weight; true: it was. */
static bool solve_row(const pass *now, int64_t chunk, int64_t i, ota_row_found *found) {
    const ota_row_lists *lists = &now->state->lists;
    const double last = -now->state->head->f[i];
    solve_list(now, chunk, i, last, found);
    const double level = level_of(found);
    if (lists->bound[i] + now->rise <= level) return false;
    list_row(now, chunk, i, fmin(found->infeasible ? last : level, lists->bound[i]),
             found->infeasible ? last : level, found);
    return true;
}

/* Is there room for the longest list? */
static bool has_room(const ota_coupled *state, int64_t chunk) {
    const ota_row_lists *lists = &state->lists;
    return lists->used[chunk] + state->pass.columns + OTA_LIST_ROOM <= lists->room;
}

static void put_row(const pass *now, int64_t i, const ota_row_found *found, double *column) {
    ota_coupled *state = now->state;
    const ota_row_lists *lists = &state->lists;
    const double *p = lists->weights + lists->begin[i];
    const int32_t *keys = lists->keys + lists->begin[i];
    for (int64_t k = 0; k < lists->count[i]; k++) column[keys[k]] += p[k];
    state->head->f[i] = found->potential;
    state->sinks[i] = found->sink;
}

/* Rows [first, last); false: a list has outgrown the chunk's room. */
static bool solve_lists(const pass *now, int64_t chunk, double *column, bool anew) {
    ota_coupled *state = now->state;
    ota_row_lists *lists = &state->lists;
    int64_t first, last;
    ota_chunk_rows(&state->pass, chunk, &first, &last);
    memset(column, 0, (size_t)state->pass.padded_columns * sizeof *column);
    if (anew) lists->used[chunk] = 0;
    lists->anew[chunk] = 0;
    ota_watch watch = ota_watch_of(state->head->settings);
    for (int64_t i = first; i < last; i++) {
        ota_row_found found = {.potential = -INFINITY};
        if (!(state->head->mu[i] > 0.0)) {
            lists->begin[i] = lists->count[i] = 0;
            put_row(now, i, &found, column);
            continue;
        }
        if (ota_watch_ends(&watch, anew ? state->pass.columns : lists->count[i])) return true;
        if (anew)
            begin_row(now, chunk, i, &found);
        else if (!has_room(state, chunk))
            return false;
        else
            lists->anew[chunk] += solve_row(now, chunk, i, &found);
        put_row(now, i, &found, column);
    }
    return true;
}

static void solve_chunk(void *context, int64_t chunk, int worker) {
    (void)worker;
    const pass *now = context;
    ota_coupled *state = now->state;
    double *column = state->pass.chunk.sums + chunk * state->pass.padded_columns;
    if (!solve_lists(now, chunk, column, now->anew)) state->lists.anew[chunk] = -1;
}

/* All lists from now on belong to g. */
static void take_base(ota_coupled *state) {
    ota_row_lists *lists = &state->lists;
    for (int64_t j = 0; j < state->pass.columns; j++) {
        const double g = state->head->g[j];
        lists->base[j] = g;
        if (state->pass.narrow)
            ((float *)lists->rounded)[j] = (float)g;
        else
            ((double *)lists->rounded)[j] = g;
    }
}

static void measure_rise(pass *now) {
    const ota_coupled *state = now->state;
    now->rise = -INFINITY;
    now->size = 0.0;
    for (int64_t j = 0; j < state->pass.columns; j++) {
        const double base = state->lists.base[j], g = state->head->g[j];
        if (!(base > -INFINITY) || !(g > -INFINITY)) continue;
        now->rise = fmax(now->rise, g - base);
        now->size = fmax(now->size, fabs(base));
    }
    if (!(now->rise > -INFINITY)) now->rise = 0.0;
}

static int64_t count_anew(const ota_coupled *state, bool *full) {
    int64_t rows = 0;
    *full = false;
    for (int64_t chunk = 0; chunk < state->pass.chunks; chunk++) {
        if (state->lists.anew[chunk] < 0) *full = true;
        rows += state->lists.anew[chunk];
    }
    return rows;
}

static void solve_rows(ota_coupled *state, double t, double *sums) {
    pass now = pass_of(state, t);
    bool full = false;
    now.anew = state->lists.stale;
    if (now.anew && state->lists.known && now.parameters.regulariser->capped) {
        measure_rise(&now);
        state->lists.risen = now.rise;
    }
    for (int attempt = 0; attempt < 2; attempt++) {
        if (now.anew) take_base(state);
        measure_rise(&now);
        ota_each_chunk(&state->pass, solve_chunk, &now);
        const int64_t rows = count_anew(state, &full);
        state->lists.stale = rows > state->pass.rows / 4;
        state->lists.known = true;
        if (!full) break;
        now.anew = true;
    }
    ota_add_chunks(&state->pass, state->pass.chunk.sums, sums);
}

void ota_row_lists_begin(ota_coupled *state) {
    state->lists.stale = true;
    state->lists.known = false;
    state->lists.risen = 0.0;
}

/* ---- Hessian --------------------------------------------------------------------------------- */

/* Weights at their caps have no slope, and most of a row's are: the keys that have one come first. */
static int64_t put_slopes_first(ota_row_lists *lists, int64_t i, int64_t count) {
    double *w = lists->weights + lists->begin[i], *scores = lists->scores + lists->begin[i];
    int32_t *keys = lists->keys + lists->begin[i];
    int64_t active = 0;
    for (int64_t k = 0; k < count; k++) {
        if (!(w[k] > 0.0)) continue;
        const double weight = w[k], score = scores[k];
        const int32_t key = keys[k];
        w[k] = w[active];
        scores[k] = scores[active];
        keys[k] = keys[active];
        w[active] = weight;
        scores[active] = score;
        keys[active] = key;
        active++;
    }
    return active;
}

/* P -> w sqrt(k / W) in place, as the rows of stored scores (stored_semidual.c). */
static void curve_chunk(void *context, int64_t chunk, int worker) {
    (void)worker;
    const pass *now = context;
    ota_coupled *state = now->state;
    const ota_head *head = state->head;
    const ota_host_algebra *algebra = head->host.algebra;
    ota_row_lists *lists = &state->lists;
    const double power = 2.0 - head->row.order;
    const bool capped = head->row.regulariser->capped;
    double *leak = state->pass.chunk.sums + chunk * state->pass.padded_columns,
           *full = state->pass.chunk.relaxed + chunk * state->pass.padded_columns;
    int64_t first, last;
    ota_chunk_rows(&state->pass, chunk, &first, &last);
    memset(leak, 0, (size_t)state->pass.padded_columns * sizeof *leak);
    memset(full, 0, (size_t)state->pass.padded_columns * sizeof *full);
    ota_watch watch = ota_watch_of(head->settings);
    for (int64_t i = first; i < last && !ota_watch_ends(&watch, lists->count[i]); i++) {
        int64_t count = lists->count[i];
        double *w = lists->weights + lists->begin[i];
        const int32_t *keys = lists->keys + lists->begin[i];
        const double sink = ota_newton_slope(head, head->mu[i], state->sinks[i]);
        for (int64_t k = 0; capped && k < count; k++) {
            if (w[k] >= ota_entry_cap(&head->row.caps, i, keys[k])) w[k] = 0.0;
        }
        if (capped) count = put_slopes_first(lists, i, count);
        lists->active[i] = count;
        if (power < 0.0) {
            for (int64_t k = 0; k < count; k++) w[k] = ota_newton_slope(head, head->mu[i], w[k]);
        } else {
            algebra->slope_weights(w, count, power, w);
        }
        const double total = algebra->sum(w, count) + sink;
        const double lost = total > 0.0 ? sink / total : 0.0;
        const double scale = total > 0.0 ? sqrt(1.0 / total) : 0.0;
        for (int64_t k = 0; k < count; k++) {
            full[keys[k]] += w[k];
            leak[keys[k]] += lost * w[k];
            w[k] *= scale;
        }
    }
}

static void find_slopes(ota_coupled *state, double t, double *full, double *excess) {
    pass now = pass_of(state, t);
    ota_each_chunk(&state->pass, curve_chunk, &now);
    ota_add_chunks(&state->pass, state->pass.chunk.sums, excess);
    ota_add_chunks(&state->pass, state->pass.chunk.relaxed, full);
}

/* In four sums, none of which waits for the one before. */
static double gathered_dot(const double *w, const int32_t *keys, int64_t count, const double *x) {
    double sum[4] = {0.0};
    int64_t k = 0;
    for (; k + 4 <= count; k += 4) {
        for (int64_t l = 0; l < 4; l++) sum[l] += w[k + l] * x[keys[k + l]];
    }
    for (; k < count; k++) sum[0] += w[k] * x[keys[k]];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static void multiply_chunk(void *context, int64_t chunk, int worker) {
    (void)worker;
    const pass *now = context;
    ota_coupled *state = now->state;
    const ota_row_lists *lists = &state->lists;
    double *column = state->pass.chunk.sums + chunk * state->pass.padded_columns;
    int64_t first, last;
    ota_chunk_rows(&state->pass, chunk, &first, &last);
    memset(column, 0, (size_t)state->pass.padded_columns * sizeof *column);
    ota_watch watch = ota_watch_of(state->head->settings);
    for (int64_t i = first; i < last && !ota_watch_ends(&watch, lists->active[i]); i++) {
        const double *w = lists->weights + lists->begin[i];
        const int32_t *keys = lists->keys + lists->begin[i];
        const double sum = gathered_dot(w, keys, lists->active[i], now->x);
        for (int64_t k = 0; k < lists->active[i]; k++) column[keys[k]] -= sum * w[k];
    }
}

static void apply_links(ota_coupled *state, const double *x, double *y) {
    pass now = {.state = state, .x = x};
    ota_each_chunk(&state->pass, multiply_chunk, &now);
    ota_add_chunks(&state->pass, state->pass.chunk.sums, y);
}

static void find_squares(ota_coupled *state, double *y) {
    const ota_row_lists *lists = &state->lists;
    memset(y, 0, (size_t)state->pass.columns * sizeof *y);
    for (int64_t i = 0; i < state->pass.rows; i++) {
        const double *w = lists->weights + lists->begin[i];
        const int32_t *keys = lists->keys + lists->begin[i];
        for (int64_t k = 0; k < lists->active[i]; k++) y[keys[k]] += w[k] * w[k];
    }
}

const ota_semidual ota_listed_semidual = {
    .rows = solve_rows, .slopes = find_slopes, .links = apply_links, .squares = find_squares};
