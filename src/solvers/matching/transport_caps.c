/* transport_caps.c: pairs that are filled to their caps, for paths and bids (transport_paths.c, transport_bids.c).
 *
 *     a pair with room      reduced cost at least that of the row;  it may ship more
 *     a full pair           reduced cost at most that of the row;   it may give back, at the difference
 *
 * A full pair is a bit of its row and one of its column, and no flow arc: there may be more of those than a forest has arcs. It is on no
 * list of candidates either, so that lists hold what may ship. Caps are whole units, rounded up, so that masses which are sums of caps
 * fit; a cap above what a row or a column has is none. The row of spare capacity has caps where columns have least sums. */
#include "transport_paths.h"

enum { ARCS_A_NODE = 64 };
static const double UNITS_LIMIT = 0x1p62;

size_t ota_pairs_arcs(size_t n, size_t m) {
    size_t pairs = 0;
    return ota_size_mul(n, m, &pairs) ? ota_size_min(pairs, ARCS_A_NODE * (n + m)) : 0;
}

void ota_pairs_layout(ota_transport_paths *paths, ota_arena *arena, size_t n, size_t m) {
    const size_t row_words = (m + 63) / 64, column_words = (n + 63) / 64;
    size_t rows = 0, columns = 0;
    if (!ota_size_mul(n, row_words, &rows) || !ota_size_mul(m, column_words, &columns))
        arena->overflowed = true;
    paths->full.row_words = (int64_t)row_words;
    paths->full.column_words = (int64_t)column_words;
    paths->full.of_row = ota_arena_take(arena, rows, sizeof(uint64_t));
    paths->full.of_column = ota_arena_take(arena, columns, sizeof(uint64_t));
    paths->full.hidden = ota_arena_take(arena, m, sizeof(double));
    paths->full.potential = ota_arena_take(arena, n, sizeof(double));
    paths->full.reached = ota_arena_take(arena, n, sizeof(int32_t));
}

int64_t ota_pair_cap(const ota_transport_paths *paths, int32_t i, int32_t w) {
    const ota_transport_tree *tree = paths->tree;
    const ota_transport *problem = paths->problem;
    if (paths->full.of_row == NULL) return INT64_MAX;
    const int64_t j = tree->asked.column_of[w];
    if (j == tree->m) return INT64_MAX;
    const int64_t least = ota_int_min(tree->load[i], tree->load[tree->rows + w]);
    if (i == tree->spare_row) {
        const int64_t demand = tree->asked.demand[j];
        const int64_t most =
            demand - ota_units_least(&tree->units, demand, problem->nu[j], problem->floor);
        return most < least ? most : INT64_MAX;
    }
    const double cap =
        ceil(ldexp(ota_entry_cap(problem->caps, tree->asked.row_of[i], j), tree->units.exponent));
    const int64_t most = cap < UNITS_LIMIT ? (int64_t)cap : INT64_MAX;
    return most < least ? most : INT64_MAX;
}

bool ota_pair_is_full(const ota_transport_paths *paths, int32_t i, int32_t w) {
    if (paths->full.of_row == NULL) return false;
    return (paths->full.of_row[i * paths->full.row_words + w / 64] >> (w % 64) & 1) != 0;
}

static void flip(ota_transport_paths *paths, int32_t i, int32_t w) {
    paths->full.of_row[i * paths->full.row_words + w / 64] ^= (uint64_t)1 << (w % 64);
    paths->full.of_column[w * paths->full.column_words + i / 64] ^= (uint64_t)1 << (i % 64);
}

/* Where column w is on the list of row i, or how long that is. */
static int32_t place_of(const ota_transport_paths *paths, int32_t i, int32_t w) {
    const int32_t *column = paths->lists.column + (int64_t)i * paths->lists.stride;
    int32_t k = 0;
    while (k < paths->lists.count[i] && column[k] != w) k++;
    return k;
}

void ota_pair_fill(ota_transport_paths *paths, int32_t i, int32_t w) {
    const int64_t row = (int64_t)i * paths->lists.stride;
    const int32_t place = place_of(paths, i, w);
    flip(paths, i, w);
    if (place == paths->lists.count[i]) return;
    const int32_t last = --paths->lists.count[i];
    paths->lists.column[row + place] = paths->lists.column[row + last];
    paths->lists.cost[row + place] = paths->lists.cost[row + last];
}

void ota_pair_open(ota_transport_paths *paths, int32_t i, int32_t w) {
    const int64_t row = (int64_t)i * paths->lists.stride;
    const int32_t place = place_of(paths, i, w);
    const double cost = ota_path_cost(paths, i, w);
    flip(paths, i, w);
    if (i == paths->tree->spare_row || place < paths->lists.count[i]) return;
    if (place == paths->lists.stride) {
        paths->lists.bound[i] = fmin(paths->lists.bound[i], cost - paths->price[w]);
        return;
    }
    paths->lists.column[row + place] = w;
    paths->lists.cost[row + place] = cost;
    paths->lists.count[i]++;
}

void ota_pairs_empty(ota_transport_paths *paths) {
    if (paths->full.of_row == NULL) return;
    for (int32_t i = 0; i < paths->tree->rows; i++) paths->full.potential[i] = -INFINITY;
    const int64_t rows = paths->tree->rows * paths->full.row_words;
    const int64_t columns = paths->tree->columns * paths->full.column_words;
    for (int64_t k = 0; k < rows; k++) paths->full.of_row[k] = 0;
    for (int64_t k = 0; k < columns; k++) paths->full.of_column[k] = 0;
}

/* The first bit from `from` on, or OTA_NO_NODE. */
static int32_t next_bit(const uint64_t *bits, int64_t words, int32_t from) {
    int64_t word = from / 64;
    if (word >= words) return OTA_NO_NODE;
    uint64_t left = bits[word] >> (from % 64) << (from % 64);
    while (left == 0) {
        if (++word == words) return OTA_NO_NODE;
        left = bits[word];
    }
    return (int32_t)(word * 64) + __builtin_ctzll(left);
}

int32_t ota_full_column(const ota_transport_paths *paths, int32_t i, int32_t w) {
    if (paths->full.of_row == NULL) return OTA_NO_NODE;
    return next_bit(paths->full.of_row + i * paths->full.row_words, paths->full.row_words, w);
}

int32_t ota_full_row(const ota_transport_paths *paths, int32_t w, int32_t i) {
    if (paths->full.of_row == NULL) return OTA_NO_NODE;
    return next_bit(paths->full.of_column + w * paths->full.column_words, paths->full.column_words,
                    i);
}

void ota_full_hide(const ota_transport_paths *paths, int32_t i, double *entries) {
    for (int32_t w = 0; (w = ota_full_column(paths, i, w)) != OTA_NO_NODE; w++) {
        paths->full.hidden[w] = entries[w];
        entries[w] = -INFINITY;
    }
}

void ota_full_show(const ota_transport_paths *paths, int32_t i, double *entries) {
    for (int32_t w = 0; (w = ota_full_column(paths, i, w)) != OTA_NO_NODE; w++)
        entries[w] = paths->full.hidden[w];
}

double ota_row_potential(const ota_transport_paths *paths, int32_t i) {
    const ota_flow_arcs *arcs = &paths->arcs;
    const int32_t e = arcs->of_row[i];
    if (e != OTA_NO_NODE)
        return ota_path_cost(paths, i, arcs->column[e]) - paths->price[arcs->column[e]];
    return paths->full.potential[i];
}

int32_t ota_flow_find(const ota_transport_paths *paths, int32_t i, int32_t w) {
    const ota_flow_arcs *arcs = &paths->arcs;
    const bool by_column = i == paths->tree->spare_row;
    int32_t e = by_column ? arcs->of_column[w] : arcs->of_row[i];
    while (e != OTA_NO_NODE && (by_column ? arcs->row[e] != i : arcs->column[e] != w))
        e = by_column ? arcs->next_in_column[e] : arcs->next_in_row[e];
    return e;
}

int64_t ota_flow_of(const ota_transport_paths *paths, int32_t i, int32_t w) {
    if (ota_pair_is_full(paths, i, w)) return ota_pair_cap(paths, i, w);
    const int32_t e = ota_flow_find(paths, i, w);
    return e != OTA_NO_NODE ? paths->arcs.amount[e] : 0;
}

void ota_pair_take(ota_transport_paths *paths, int32_t i, int32_t w, int64_t amount) {
    int32_t e = ota_flow_find(paths, i, w);
    if (e == OTA_NO_NODE) {
        e = ota_flow_new(&paths->arcs, i, w);
        paths->arcs.amount[e] = ota_pair_cap(paths, i, w);
        ota_pair_open(paths, i, w);
    }
    ota_flow_take(&paths->arcs, e, amount);
}
