/* bounded_paths.c: units on their shortest paths through the graph of columns.
 *
 *     a -> b           least c_ib - c_ia over the rows that hold a and not b, reduced by p_b - p_a
 *     a -> reservoir   0 while a has units in it below upper_a, reduced by -p_a
 *     reservoir -> b   0 while b has units in it above lower_b, reduced by p_b
 *
 * All reduced lengths are >= 0 at the start, because rows hold their least reduced costs, a column of positive
 * price has upper_j units in the reservoir and one of negative price lower_j. With d the lengths of a search
 * that ends at length D, p_v + D - min(d_v, D) keeps them >= 0 and makes those of its tree 0. So the path to every node
 * of the tree with too little is a shortest one, as long as no unit moved before it took one of its arcs. */
#include "bounded_assignment.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "problem/check.h"

enum { LEAST_WANTED = 1 << 14, SPARE_ENTRIES = 1 << 20 };

void ota_bounded_paths_layout(ota_bounded_paths *paths, ota_arena *arena, int64_t rows) {
    const int64_t m = paths->columns;
    const size_t nodes = (size_t)m + 1, stride = (size_t)paths->stride;
    paths->lower = ota_arena_take(arena, nodes, sizeof(int64_t));
    paths->upper = ota_arena_take(arena, nodes, sizeof(int64_t));
    paths->load = ota_arena_take(arena, nodes, sizeof(int64_t));
    paths->flow = ota_arena_take(arena, nodes, sizeof(int64_t));
    paths->excess = ota_arena_take(arena, nodes, sizeof(int64_t));
    paths->held = ota_arena_take_rows(arena, rows, paths->words, sizeof(uint64_t));
    paths->price = ota_arena_take(arena, stride, sizeof(double));
    paths->base = ota_arena_take(arena, stride, sizeof(double));
    paths->best = ota_arena_take_rows(arena, m, paths->stride, sizeof(double));
    paths->search.length = ota_arena_take(arena, stride, sizeof(double));
    paths->search.closed = ota_arena_take(arena, stride, sizeof(double));
    paths->search.before = ota_arena_take(arena, stride, sizeof(int64_t));
    paths->search.taken = ota_arena_take(arena, stride, sizeof(double));
    paths->search.ends = ota_arena_take(arena, nodes, sizeof(int64_t));
    paths->row.costs = ota_arena_take(arena, stride, sizeof(double));
    paths->row.reduced = ota_arena_take(arena, stride, sizeof(double));
    paths->row.sorted = ota_arena_take(arena, stride, sizeof(double));
    paths->row.bits = ota_arena_take(arena, (size_t)paths->words, sizeof(uint64_t));
    paths->sample = ota_arena_take(arena, OTA_BOUNDED_SAMPLE, sizeof(double));
    paths->moved = ota_arena_take(arena, nodes, sizeof(int32_t));
    paths->heaps.root = ota_arena_take_rows(arena, m, m, sizeof(int32_t));
}

/* ---- what a row holds ----------------------------------------------------------------------------- */

/* The element of rank `rank` of values[count], whose order changes. */
static double ranked(double *values, int64_t count, int64_t rank) {
    int64_t low = 0, high = count - 1;
    while (low < high) {
        const double pivot = values[low + (high - low) / 2];
        int64_t i = low, j = high;
        while (i <= j) {
            while (values[i] < pivot) i++;
            while (values[j] > pivot) j--;
            if (i <= j) {
                const double kept = values[i];
                values[i++] = values[j];
                values[j--] = kept;
            }
        }
        if (rank <= j)
            high = j;
        else if (rank >= i)
            low = i;
        else
            break;
    }
    return values[rank];
}

static void mark(uint64_t *bits, int64_t column) {
    bits[column / 64] |= UINT64_C(1) << (column % 64);
}

int64_t ota_bounded_next(const uint64_t *bits, int64_t words, int64_t from) {
    int64_t word = from / 64;
    if (word >= words) return OTA_BOUNDED_NONE;
    uint64_t left = bits[word] & (UINT64_MAX << (from % 64));
    while (left == 0) {
        if (++word == words) return OTA_BOUNDED_NONE;
        left = bits[word];
    }
    return word * 64 + __builtin_ctzll(left);
}

void ota_bounded_least(ota_bounded_paths *paths, const double *costs, uint64_t *bits) {
    const int64_t m = paths->columns, take = paths->take;
    double *reduced = paths->row.reduced;
    const int64_t least = paths->passes->cheapest(costs, paths->price, paths->stride, reduced);
    memset(bits, 0, (size_t)paths->words * sizeof *bits);
    if (take == 1) {
        mark(bits, least);
        return;
    }
    memcpy(paths->row.sorted, reduced, (size_t)m * sizeof *reduced);
    const double last = ranked(paths->row.sorted, m, take - 1);
    int64_t left = take;
    for (int64_t j = 0; j < m; j++) {
        if (reduced[j] < last) {
            mark(bits, j);
            left--;
        }
    }
    for (int64_t j = 0; j < m && left > 0; j++) {
        if (reduced[j] <= last && reduced[j] >= last) {
            mark(bits, j);
            left--;
        }
    }
}

/* Keys of pair (a, b) up to it are stored. */
static double limit_of(const ota_bounded_paths *paths, int64_t a, int64_t b) {
    return (paths->threshold + paths->base[a]) - paths->base[b];
}

/* ---- filling the heaps ---------------------------------------------------------------------------- */

static int rising(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The threshold below which `wanted` pairs lie, from reduced lengths of a sample of the rows. */
static void choose_threshold(ota_bounded_paths *paths, bool anew) {
    const int64_t n = paths->rows.count, m = paths->columns, take = paths->take;
    const int64_t each = take * (m - take);
    const double least = 2.0 * paths->threshold;
    const double share = paths->wanted / ((double)n * (double)each);
    paths->threshold = INFINITY;
    if (share >= 0.5) return;
    const int64_t rows = ota_int_min(n, ota_int_max(1, OTA_BOUNDED_SAMPLE / each));
    int64_t count = 0;
    for (int64_t s = 0; s < rows; s++) {
        const int64_t place = s * n / rows;
        ota_bounded_costs_row(paths->rows.costs, ota_bounded_rows_at(&paths->rows, place),
                              paths->row.costs);
        uint64_t *bits = paths->held + place * paths->words;
        if (anew) {
            bits = paths->row.bits;
            ota_bounded_least(paths, paths->row.costs, bits);
        } else {
            (void)paths->passes->cheapest(paths->row.costs, paths->price, paths->stride,
                                          paths->row.reduced);
        }
        for (int64_t a = -1; (a = ota_bounded_next(bits, paths->words, a + 1)) >= 0;) {
            for (int64_t b = 0; b < m && count < OTA_BOUNDED_SAMPLE; b++) {
                if ((bits[b / 64] >> (b % 64) & 1) != 0 || isinf(paths->row.reduced[b])) continue;
                paths->sample[count++] = paths->row.reduced[b] - paths->row.reduced[a];
            }
        }
    }
    qsort(paths->sample, (size_t)count, sizeof *paths->sample, rising);
    int64_t at = (int64_t)(share * (double)count);
    while (at < count && !(paths->sample[at] > 0.0)) at++;
    if (at < count) paths->threshold = fmax(paths->sample[at], least);
}

/* Stores what may be moved of a row; *omitted where something lies above the threshold. */
static ota_status store_row(ota_bounded_paths *paths, int64_t row, const double *costs,
                            bool *omitted) {
    const int64_t m = paths->columns, words = paths->words;
    const uint64_t *held = paths->held + row * words;
    uint64_t *bits = paths->row.bits;
    for (int64_t a = -1; (a = ota_bounded_next(held, words, a + 1)) >= 0;) {
        paths->passes->within(costs, costs[a], paths->threshold + paths->base[a], paths->base,
                              paths->stride, bits);
        int64_t stored = 0;
        for (int64_t w = 0; w < words; w++) bits[w] &= ~held[w];
        for (int64_t b = -1; (b = ota_bounded_next(bits, words, b + 1)) >= 0 && b < m;) {
            const double key = costs[b] - costs[a];
            stored++;
            if (isinf(key)) continue;
            TRY(ota_bounded_heaps_insert(&paths->heaps, a * m + b, key, (int32_t)row));
        }
        *omitted |= stored < m - paths->take;
    }
    return OTA_OK;
}

/* Fills the heaps at the present prices; with `anew`, every row first takes its least reduced costs. */
static ota_status fill(ota_bounded_paths *paths, bool anew) {
    const int64_t n = paths->rows.count, m = paths->columns;
    choose_threshold(paths, anew);
    memcpy(paths->base, paths->price, (size_t)paths->stride * sizeof *paths->base);
    ota_bounded_heaps_clear(&paths->heaps, m);
    bool omitted = false;
    for (int64_t first = 0; first < n;) {
        TRY(ota_interrupted(paths->settings));
        const int64_t count = ota_bounded_rows_form(&paths->rows, first);
        for (int64_t s = first; s < first + count; s++) {
            const double *costs = paths->rows.costs->block + (s - first) * paths->stride;
            if (anew) ota_bounded_least(paths, costs, paths->held + s * paths->words);
            TRY(store_row(paths, s, costs, &omitted));
        }
        first += count;
    }
    if (!omitted) paths->threshold = INFINITY;
    for (int64_t a = 0; a < m; a++) {
        double *best = paths->best + a * paths->stride;
        for (int64_t b = m; b < paths->stride; b++) best[b] = INFINITY;
        for (int64_t b = 0; b < m; b++) {
            const int32_t root = paths->heaps.root[a * m + b];
            best[b] = a == b                     ? INFINITY
                      : root != OTA_BOUNDED_NONE ? paths->heaps.key[root]
                                                 : limit_of(paths, a, b);
        }
    }
    paths->filled = paths->heaps.count;
    paths->counts.fillings++;
    paths->counts.paths_at_filling = paths->counts.paths;
    return OTA_OK;
}

/* What rows hold where no bound can bind. */
static ota_status choose(ota_bounded_paths *paths) {
    for (int64_t first = 0; first < paths->rows.count;) {
        TRY(ota_interrupted(paths->settings));
        const int64_t count = ota_bounded_rows_form(&paths->rows, first);
        for (int64_t s = 0; s < count; s++) {
            ota_bounded_least(paths, paths->rows.costs->block + s * paths->stride,
                              paths->held + (first + s) * paths->words);
        }
        first += count;
    }
    return OTA_OK;
}

/* With more entries, fewer fillings: the number grows faster where the last ones served few paths. */
static ota_status fill_more(ota_bounded_paths *paths) {
    paths->wanted *=
        paths->counts.paths - paths->counts.paths_at_filling < paths->columns ? 8.0 : 4.0;
    if (paths->counts.paths == paths->counts.paths_at_filling) paths->wanted *= 2.0;
    return fill(paths, false);
}

/* ---- one path ------------------------------------------------------------------------------------- */

/* Relaxes what leaves node v, whose length is final. */
static void relax(ota_bounded_paths *paths, int64_t v) {
    const int64_t m = paths->columns;
    double *length = paths->search.length;
    if (v < m) {
        if (paths->load[v] == 0 && paths->flow[v] >= paths->upper[v]) return;
        double *best = paths->best + v * paths->stride;
        best[m] = paths->flow[v] < paths->upper[v] ? 0.0 : INFINITY;
        const ota_bounded_node node = {v, length[v], paths->price[v]};
        if (paths->load[v] > 0) {
            paths->passes->relax(&node, best, paths->price, paths->stride, length,
                                 paths->search.before);
            return;
        }
        const double found = length[v] + fmax(-paths->price[v], 0.0);
        if (found < length[m]) {
            length[m] = found;
            paths->search.before[m] = v;
        }
        return;
    }
    for (int64_t b = 0; b < m; b++) {
        const double found = length[m] + fmax(paths->price[b], 0.0);
        if (paths->flow[b] > paths->lower[b] && found < length[b]) {
            length[b] = found;
            paths->search.before[b] = m;
        }
    }
}

/* Whether the arc into v is known by its bound alone. */
static bool is_bound(const ota_bounded_paths *paths, int64_t v) {
    const int64_t u = paths->search.before[v], m = paths->columns;
    return u >= 0 && u < m && v < m && paths->heaps.root[u * m + v] == OTA_BOUNDED_NONE;
}

typedef enum search_end { FOUND, NOTHING_FOUND, BOUND_MET } search_end;

/* Dijkstra from all nodes with too much to those with too little: to all of them, or as many as lie nearer than
 * the first node known by a bound. Their list is ends[paths->found]. */
static search_end search(ota_bounded_paths *paths) {
    const int64_t m = paths->columns;
    int64_t wanted = 0;
    for (int64_t v = 0; v < paths->stride; v++) {
        paths->search.length[v] = v <= m && paths->excess[v] > 0 ? 0.0 : INFINITY;
        paths->search.closed[v] = 0.0;
        paths->search.before[v] = OTA_BOUNDED_NONE;
        wanted += v <= m && paths->excess[v] < 0 ? 1 : 0;
    }
    paths->search.count = 0;
    while (paths->search.count < wanted) {
        const int64_t v = paths->passes->cheapest(paths->search.length, paths->search.closed,
                                                  paths->stride, paths->row.reduced);
        const double least = paths->row.reduced[v];
        if (isinf(least)) return paths->search.count > 0 ? FOUND : NOTHING_FOUND;
        if (is_bound(paths, v)) return paths->search.count > 0 ? FOUND : BOUND_MET;
        paths->search.closed[v] = INFINITY;
        paths->search.reached = least;
        const int64_t u = paths->search.before[v];
        if (u != OTA_BOUNDED_NONE && u < m)
            paths->search.taken[v] = paths->best[u * paths->stride + v];
        if (paths->excess[v] < 0) paths->search.ends[paths->search.count++] = v;
        relax(paths, v);
    }
    return FOUND;
}

static void raise_prices(ota_bounded_paths *paths) {
    const int64_t m = paths->columns;
    const double reservoir =
        paths->search.closed[m] > 0.0 ? paths->search.reached - paths->search.length[m] : 0.0;
    for (int64_t j = 0; j < m; j++) {
        if (paths->search.closed[j] > 0.0)
            paths->price[j] += paths->search.reached - paths->search.length[j];
        paths->price[j] -= reservoir;
    }
}

/* Drops entries at the top that are no longer true. */
static void refresh(ota_bounded_paths *paths, int64_t a, int64_t b) {
    ota_bounded_heaps *heaps = &paths->heaps;
    const int64_t pair = a * paths->columns + b;
    int32_t root;
    while ((root = heaps->root[pair]) != OTA_BOUNDED_NONE) {
        const int64_t row = heaps->row[root];
        if (ota_bounded_held(paths, row, a) && !ota_bounded_held(paths, row, b)) break;
        ota_bounded_heaps_pop(heaps, pair);
    }
    paths->best[a * paths->stride + b] = root != OTA_BOUNDED_NONE ? heaps->key[root]
                                         : a == b                 ? INFINITY
                                                                  : limit_of(paths, a, b);
}

static void refresh_if(ota_bounded_paths *paths, int64_t a, int64_t b, int64_t row) {
    const int32_t root = paths->heaps.root[a * paths->columns + b];
    if (root != OTA_BOUNDED_NONE && paths->heaps.row[root] == row) refresh(paths, a, b);
}

static ota_status store(ota_bounded_paths *paths, int64_t a, int64_t b, int64_t row) {
    const double key = paths->row.costs[b] - paths->row.costs[a];
    if (!(key <= limit_of(paths, a, b)) || isinf(key)) return OTA_OK;
    const int64_t pair = a * paths->columns + b;
    TRY(ota_bounded_heaps_insert(&paths->heaps, pair, key, (int32_t)row));
    paths->best[a * paths->stride + b] = paths->heaps.key[paths->heaps.root[pair]];
    return OTA_OK;
}

/* Row `row` gives up column a for column b. */
static ota_status move_row(ota_bounded_paths *paths, int64_t row, int64_t a, int64_t b) {
    const int64_t m = paths->columns;
    uint64_t *bits = paths->held + row * paths->words;
    bits[a / 64] &= ~(UINT64_C(1) << (a % 64));
    mark(bits, b);
    paths->load[a]--;
    paths->load[b]++;
    ota_bounded_costs_row(paths->rows.costs, ota_bounded_rows_at(&paths->rows, row),
                          paths->row.costs);
    for (int64_t d = 0; d < m; d++) {
        refresh_if(paths, a, d, row);
        if (!ota_bounded_held(paths, row, d)) {
            TRY(store(paths, b, d, row));
        } else if (d != b) {
            refresh_if(paths, d, b, row);
            TRY(store(paths, d, a, row));
        }
    }
    return OTA_OK;
}

/* Whether a unit can still go along the tree to `end`, with every arc as long as it was. */
static bool is_open(const ota_bounded_paths *paths, int64_t end) {
    const int64_t m = paths->columns;
    int64_t v = end;
    for (int64_t u; (u = paths->search.before[v]) != OTA_BOUNDED_NONE; v = u) {
        if (v == m   ? paths->flow[u] >= paths->upper[u]
            : u == m ? paths->flow[v] <= paths->lower[v]
                     : paths->heaps.root[u * m + v] == OTA_BOUNDED_NONE ||
                           paths->best[u * paths->stride + v] > paths->search.taken[v] ||
                           paths->load[u] == 0)
            return false;
    }
    return paths->excess[v] > 0;
}

static ota_status augment(ota_bounded_paths *paths, int64_t end) {
    const int64_t m = paths->columns;
    /* All rows are named before one moves: a moved row may come to the top of a pair further on. */
    int64_t v = end;
    for (int64_t u; (u = paths->search.before[v]) != OTA_BOUNDED_NONE; v = u) {
        if (u < m && v < m)
            paths->moved[v] = paths->heaps.row[paths->heaps.root[u * m + v]];
        else if (v == m)
            paths->flow[u]++;
        else
            paths->flow[v]--;
    }
    paths->excess[v]--;
    paths->excess[end]++;
    paths->counts.paths++;
    v = end;
    for (int64_t u; (u = paths->search.before[v]) != OTA_BOUNDED_NONE; v = u) {
        if (u < m && v < m) TRY(move_row(paths, paths->moved[v], u, v));
    }
    return OTA_OK;
}

/* Moves what the tree of one search can. */
static ota_status augment_all(ota_bounded_paths *paths, int64_t *left, ota_watch *watch) {
    for (int64_t e = 0; e < paths->search.count; e++) {
        const int64_t end = paths->search.ends[e];
        while (paths->excess[end] < 0 && is_open(paths, end)) {
            TRY(ota_watch_spend(watch, 16 * paths->columns));
            TRY(augment(paths, end));
            --*left;
        }
    }
    return OTA_OK;
}

/* ---- all paths ------------------------------------------------------------------------------------ */

/* Units in the reservoir as the signs of the prices ask, and what that leaves at every node. */
static int64_t place_units(ota_bounded_paths *paths) {
    const int64_t m = paths->columns;
    int64_t kept = 0, left = 0;
    for (int64_t j = 0; j < m; j++) {
        const int64_t within =
            ota_int_max(paths->lower[j], ota_int_min(paths->load[j], paths->upper[j]));
        paths->flow[j] = paths->price[j] > 0.0   ? paths->upper[j]
                         : paths->price[j] < 0.0 ? paths->lower[j]
                                                 : within;
        paths->excess[j] = paths->load[j] - paths->flow[j];
        left += ota_int_max(paths->excess[j], 0);
        kept += paths->flow[j];
    }
    paths->excess[m] = kept - paths->rows.count * paths->take;
    return left + ota_int_max(paths->excess[m], 0);
}

static void count_loads(ota_bounded_paths *paths) {
    memset(paths->load, 0, (size_t)paths->columns * sizeof *paths->load);
    for (int64_t s = 0; s < paths->rows.count; s++) {
        const uint64_t *held = paths->held + s * paths->words;
        for (int64_t j = -1; (j = ota_bounded_next(held, paths->words, j + 1)) >= 0;)
            paths->load[j]++;
    }
}

ota_status ota_bounded_paths_solve(ota_bounded_paths *paths, double most) {
    const int64_t n = paths->rows.count;
    bool binding = false;
    for (int64_t j = 0; j < paths->columns; j++) {
        binding |= paths->upper[j] < n || paths->lower[j] > 0;
        /* A column that no bound can bind keeps no price, which would draw units to it in vain. */
        if (paths->upper[j] >= n) paths->price[j] = fmin(paths->price[j], 0.0);
        if (paths->lower[j] <= 0) paths->price[j] = fmax(paths->price[j], 0.0);
    }
    paths->threshold = 0.0;
    paths->wanted = fmax(LEAST_WANTED, 1.5 * (double)n * (double)paths->take);
    TRY(binding ? fill(paths, true) : choose(paths));
    count_loads(paths);
    int64_t left = place_units(paths);
    if ((double)left > most) return OTA_PARTIAL;
    ota_watch watch = ota_watch_of(paths->settings);
    while (left > 0) {
        TRY(ota_watch_spend(&watch, paths->columns * paths->columns));
        if (paths->heaps.count > 2 * paths->filled + SPARE_ENTRIES) TRY(fill(paths, false));
        const search_end end = search(paths);
        paths->counts.searches++;
        if (end == BOUND_MET || (end == NOTHING_FOUND && paths->threshold < INFINITY)) {
            TRY(fill_more(paths));
            continue;
        }
        if (end == NOTHING_FOUND) return OTA_INFEASIBLE;
        raise_prices(paths);
        TRY(augment_all(paths, &left, &watch));
    }
    return OTA_OK;
}
