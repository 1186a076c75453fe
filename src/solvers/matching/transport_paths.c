/* transport_paths.c: flows of least cost by shortest augmenting paths over a few candidates of every row [LIT-06].
 *
 *     reduced costs   c_ij - v_j;   every row ships where they are least, so pairs with flow are tight
 *     a path          row -> column by any pair, column -> row that ships there: it ships elsewhere instead
 *
 * Optimal pairs are nearly always among the cheapest of their row, so every row keeps a list of those, and a bound that none of the
 * others is below: prices only fall, so it goes on to hold. A row that was reached is in the heap once more at its bound, and its list
 * grows when the search gets there.
 *
 * Rows ship one after another along the shortest path to the nearest room. Where capacity is left over prices begin at 0, and a column
 * with room keeps that; the row of spare capacity then takes the room that is left, and from the columns where it may ship one search finds
 * the shortest paths to all room that is left, which all become tight, and as many of them as fit together are shipped along.
 * Where that looks at too many pairs, as many rows want few columns, and where every column is to be filled, rows bid for prices first
 * (transport_bids.c), and ship anew from those.
 *
 * Pairs with caps that are full (transport_caps.c) may only give back: from a column the search goes to their rows as well, at what they lack
 * of being tight. */
#include "transport_paths.h"

enum { LONG_LIST = 96, STEPS_PER_QUESTION = 256 };
/* Pairs a node, and at least, that the first paths may look at: some two to five times as many as they take where no column is popular. */
enum { NEAR = 1024, NEAR_AT_LEAST = 1 << 20 };

void ota_transport_paths_layout(ota_transport_paths *paths, ota_arena *arena, int64_t rows,
                                int64_t columns, bool caps) {
    const size_t n = (size_t)rows, m = (size_t)columns, padded = (size_t)ota_padded(columns);
    const size_t open = padded + (caps ? 2 : 1) * n,
                 arcs = 3 * (n + m) + (caps ? ota_pairs_arcs(n, m) : 0);
    const size_t stride = caps ? ota_size_min(OTA_LISTED, padded) : OTA_LISTED;
    size_t listed = 0;
    if (!ota_size_mul(n, stride, &listed)) arena->overflowed = true;
    paths->lists.stride = (int32_t)stride;
    if (caps) ota_pairs_layout(paths, arena, n, m);
    paths->arcs.room = (int32_t)arcs;
    paths->arcs.row = ota_arena_take(arena, arcs, sizeof(int32_t));
    paths->arcs.column = ota_arena_take(arena, arcs, sizeof(int32_t));
    paths->arcs.amount = ota_arena_take(arena, arcs, sizeof(int64_t));
    paths->arcs.level = ota_arena_take(arena, arcs, sizeof(double));
    paths->arcs.next_in_row = ota_arena_take(arena, arcs, sizeof(int32_t));
    paths->arcs.previous_in_row = ota_arena_take(arena, arcs, sizeof(int32_t));
    paths->arcs.next_in_column = ota_arena_take(arena, arcs, sizeof(int32_t));
    paths->arcs.previous_in_column = ota_arena_take(arena, arcs, sizeof(int32_t));
    paths->arcs.of_row = ota_arena_take(arena, n, sizeof(int32_t));
    paths->arcs.of_column = ota_arena_take(arena, m, sizeof(int32_t));
    paths->arcs.empty = ota_arena_take(arena, arcs, sizeof(int32_t));
    paths->excess = ota_arena_take(arena, n, sizeof(int64_t));
    paths->room = ota_arena_take(arena, m, sizeof(int64_t));
    paths->price = ota_arena_take(arena, padded, sizeof(double));
    paths->lists.cost = ota_arena_take(arena, listed, sizeof(double));
    paths->lists.column = ota_arena_take(arena, listed, sizeof(int32_t));
    paths->lists.count = ota_arena_take(arena, n, sizeof(int32_t));
    paths->lists.bound = ota_arena_take(arena, n, sizeof(double));
    paths->lists.reach = ota_arena_take(arena, n, sizeof(double));
    paths->lists.lowest = ota_arena_take(arena, padded, sizeof(double));
    paths->lists.row_cost = ota_arena_take(arena, padded + 1, sizeof(double));
    paths->lists.row_column = ota_arena_take(arena, padded + 1, sizeof(int32_t));
    paths->search.distance = ota_arena_take(arena, open, sizeof(double));
    paths->search.offset = ota_arena_take(arena, n, sizeof(double));
    paths->search.before = ota_arena_take(arena, m, sizeof(int32_t));
    paths->search.entry = ota_arena_take(arena, n, sizeof(int32_t));
    paths->search.seen = ota_arena_take(arena, n, sizeof(int32_t));
    paths->search.heap = ota_arena_take(arena, open, sizeof(int32_t));
    paths->search.slot = ota_arena_take(arena, open, sizeof(int32_t));
    paths->search.reached = ota_arena_take(arena, open, sizeof(int32_t));
    paths->search.cycle = ota_arena_take(arena, open, sizeof(int32_t));
    paths->search.sinks = ota_arena_take(arena, m, sizeof(int32_t));
}

/* ---- flows ------------------------------------------------------------------------------------------ */

int32_t ota_flow_new(ota_flow_arcs *arcs, int32_t i, int32_t w) {
    const int32_t e = arcs->unused != OTA_NO_NODE ? arcs->unused : arcs->used++;
    if (e == arcs->unused) arcs->unused = arcs->next_in_row[e];
    arcs->count++;
    arcs->row[e] = i;
    arcs->column[e] = w;
    arcs->amount[e] = 0;
    arcs->level[e] = INFINITY;
    arcs->previous_in_row[e] = arcs->previous_in_column[e] = OTA_NO_NODE;
    arcs->next_in_row[e] = arcs->of_row[i];
    arcs->next_in_column[e] = arcs->of_column[w];
    if (arcs->of_row[i] != OTA_NO_NODE) arcs->previous_in_row[arcs->of_row[i]] = e;
    if (arcs->of_column[w] != OTA_NO_NODE) arcs->previous_in_column[arcs->of_column[w]] = e;
    arcs->of_row[i] = arcs->of_column[w] = e;
    return e;
}

void ota_flow_drop(ota_flow_arcs *arcs, int32_t e) {
    const int32_t in_row[2] = {arcs->previous_in_row[e], arcs->next_in_row[e]};
    const int32_t in_column[2] = {arcs->previous_in_column[e], arcs->next_in_column[e]};
    *(in_row[0] != OTA_NO_NODE ? &arcs->next_in_row[in_row[0]] : &arcs->of_row[arcs->row[e]]) =
        in_row[1];
    if (in_row[1] != OTA_NO_NODE) arcs->previous_in_row[in_row[1]] = in_row[0];
    *(in_column[0] != OTA_NO_NODE ? &arcs->next_in_column[in_column[0]]
                                  : &arcs->of_column[arcs->column[e]]) = in_column[1];
    if (in_column[1] != OTA_NO_NODE) arcs->previous_in_column[in_column[1]] = in_column[0];
    arcs->row[e] = OTA_NO_NODE;
    arcs->next_in_row[e] = arcs->unused;
    arcs->unused = e;
    arcs->count--;
}

static void add_flow(ota_transport_paths *paths, int32_t i, int32_t w, int64_t amount) {
    int32_t e = ota_flow_find(paths, i, w);
    if (e == OTA_NO_NODE) e = ota_flow_new(&paths->arcs, i, w);
    paths->arcs.amount[e] += amount;
    if (paths->full.of_row == NULL || paths->arcs.amount[e] < ota_pair_cap(paths, i, w)) return;
    ota_flow_drop(&paths->arcs, e);
    ota_pair_fill(paths, i, w);
}

void ota_flow_take(ota_flow_arcs *arcs, int32_t e, int64_t amount) {
    arcs->amount[e] -= amount;
    if (arcs->amount[e] == 0) arcs->empty[arcs->emptied++] = e;
}

static void drop_empty(ota_flow_arcs *arcs) {
    for (int32_t k = 0; k < arcs->emptied; k++) {
        const int32_t e = arcs->empty[k];
        if (arcs->row[e] != OTA_NO_NODE && arcs->amount[e] == 0) ota_flow_drop(arcs, e);
    }
    arcs->emptied = 0;
}

/* A path has at most a pair for every row. */
static void tidy(ota_transport_paths *paths) {
    drop_empty(&paths->arcs);
    if (paths->arcs.room - paths->arcs.count < paths->tree->root) ota_flow_take_cycles_out(paths);
}

void ota_transport_paths_let_go(ota_transport_paths *paths) {
    const ota_transport_tree *tree = paths->tree;
    paths->arcs.used = paths->arcs.emptied = paths->arcs.count = 0;
    paths->arcs.unused = OTA_NO_NODE;
    ota_pairs_empty(paths);
    for (int32_t i = 0; i < tree->rows; i++) {
        paths->excess[i] = tree->load[i];
        paths->arcs.of_row[i] = OTA_NO_NODE;
        paths->search.seen[i] = 0;
    }
    for (int32_t w = 0; w < tree->columns; w++) {
        paths->room[w] = tree->load[tree->rows + w];
        paths->arcs.of_column[w] = OTA_NO_NODE;
    }
}

/* ---- one search ------------------------------------------------------------------------------------- */

static void heap_up(ota_transport_paths *paths, int32_t place) {
    int32_t *heap = paths->search.heap, *slot = paths->search.slot;
    const double *distance = paths->search.distance;
    const int32_t one = heap[place];
    while (place > 0) {
        const int32_t parent = (place - 1) / 4;
        if (!(distance[one] < distance[heap[parent]])) break;
        heap[place] = heap[parent];
        slot[heap[place]] = place;
        place = parent;
    }
    heap[place] = one;
    slot[one] = place;
}

static int32_t heap_pop(ota_transport_paths *paths) {
    int32_t *heap = paths->search.heap, *slot = paths->search.slot, place = 0;
    const double *distance = paths->search.distance;
    const int32_t lowest = heap[0], count = --paths->search.open, one = heap[count];
    for (;;) {
        const int32_t child = 4 * place + 1, end = child + 4 < count ? child + 4 : count;
        if (child >= count) break;
        int32_t least = child;
        for (int32_t k = child + 1; k < end; k++) {
            if (distance[heap[k]] < distance[heap[least]]) least = k;
        }
        if (!(distance[heap[least]] < distance[one])) break;
        heap[place] = heap[least];
        slot[heap[place]] = place;
        place = least;
    }
    heap[place] = one;
    slot[one] = place;
    slot[lowest] = OTA_NO_NODE;
    return lowest;
}

static void open_up(ota_transport_paths *paths, int32_t one, double distance) {
    if (paths->search.distance[one] == INFINITY) paths->search.reached[paths->search.met++] = one;
    if (paths->search.slot[one] == OTA_NO_NODE) {
        paths->search.slot[one] = paths->search.open;
        paths->search.heap[paths->search.open++] = one;
    }
    paths->search.distance[one] = distance;
    heap_up(paths, paths->search.slot[one]);
}

static inline void relax_pair(ota_transport_paths *paths, int32_t i, int32_t w, double cost,
                              bool nearest) {
    const double through = (cost - paths->price[w]) - paths->search.offset[i];
    if (!(through < paths->search.distance[w]) || !(through < paths->search.shortest)) return;
    /* Reached for good: rounding alone says otherwise. */
    if (paths->search.distance[w] < INFINITY && paths->search.slot[w] == OTA_NO_NODE) return;
    paths->search.before[w] = i;
    if (nearest && paths->room[w] > 0) {
        paths->search.shortest = through;
        paths->search.end = w;
    } else {
        open_up(paths, w, through);
    }
}

/* Pairs of the list, and the row itself where pairs that are not on it may matter. */
static void relax_list(ota_transport_paths *paths, int32_t i, bool nearest) {
    const int32_t *column = paths->lists.column + (int64_t)i * paths->lists.stride;
    const double *cost = paths->lists.cost + (int64_t)i * paths->lists.stride;
    paths->search.work += paths->lists.count[i];
    for (int32_t k = 0; k < paths->lists.count[i]; k++)
        relax_pair(paths, i, column[k], cost[k], nearest);
    const double grows = paths->lists.bound[i] - paths->search.offset[i];
    if (grows < paths->search.shortest) open_up(paths, ota_growing_row(paths, i), grows);
}

/* The same of all pairs of the row, whose list stays as it is. */
static void relax_all(ota_transport_paths *paths, int32_t i, bool nearest) {
    const ota_score_row row = ota_path_row(paths, i);
    paths->search.work += paths->tree->columns;
    ota_pair_list list = {.column = paths->lists.row_column, .cost = paths->lists.row_cost};
    ota_full_hide(paths, i, paths->search.distance);
    paths->read->nearer(&row, paths->price, paths->search.offset[i], paths->search.distance,
                        paths->search.shortest, &list);
    ota_full_show(paths, i, paths->search.distance);
    for (int32_t k = 0; k < list.count; k++)
        relax_pair(paths, i, list.column[k], list.cost[k], nearest);
}

static void reach_row(ota_transport_paths *paths, int32_t i, int32_t entry, double offset,
                      bool nearest) {
    paths->search.seen[i] = paths->search.number;
    paths->search.entry[i] = entry;
    paths->search.offset[i] = offset;
    if (paths->full.of_row != NULL) paths->full.reached[paths->full.met++] = i;
    if (i == paths->tree->spare_row)
        relax_all(paths, i, nearest);
    else
        relax_list(paths, i, nearest);
}

/* The pair of row i and column w, which is reached, is full: the row may be reached by what it lacks of being tight. */
static void relax_full(ota_transport_paths *paths, int32_t i, int32_t w, double distance) {
    const double reduced = ota_path_cost(paths, i, w) - paths->price[w];
    paths->search.work++;
    const double way = distance + fmax(0.0, ota_row_potential(paths, i) - reduced);
    const int32_t giving = ota_giving_row(paths, i);
    if (!(way < paths->search.shortest) || !(way < paths->search.distance[giving])) return;
    paths->search.entry[i] = -2 - w;
    paths->search.offset[i] = reduced - distance;
    open_up(paths, giving, way);
}

static void grow_row(ota_transport_paths *paths, int32_t i, bool nearest) {
    (void)ota_watch_spend(&paths->watch, paths->tree->padded);
    if (paths->lists.count[i] < LONG_LIST && ota_transport_paths_list_more(paths, i))
        relax_list(paths, i, nearest);
    else
        relax_all(paths, i, nearest);
}

static void begin_search(ota_transport_paths *paths) {
    paths->search.number++;
    paths->full.met = 0;
    paths->search.open = paths->search.met = paths->search.ends = 0;
    paths->search.end = OTA_NO_NODE;
    paths->search.shortest = INFINITY;
}

/* Goes on from the rows that were reached: to the nearest column with room, or to `wanted` of those with room. */
static ota_status search(ota_transport_paths *paths, bool nearest, int32_t wanted) {
    const ota_flow_arcs *arcs = &paths->arcs;
    const int32_t padded = (int32_t)paths->tree->padded, rows = paths->tree->rows;
    for (int32_t steps = 1; paths->search.open > 0; steps++) {
        if (!(paths->search.distance[paths->search.heap[0]] < paths->search.shortest)) break;
        if (steps % STEPS_PER_QUESTION == 0) {
            const ota_status status = ota_watch_ask(&paths->watch);
            if (status != OTA_OK) return status;
        }
        const int32_t one = heap_pop(paths);
        if (one >= padded + rows) {
            const int32_t i = one - padded - rows;
            if (paths->search.seen[i] == paths->search.number) continue;
            reach_row(paths, i, paths->search.entry[i], paths->search.offset[i], nearest);
            continue;
        }
        if (one >= padded) {
            grow_row(paths, one - padded, nearest);
            continue;
        }
        const double distance = paths->search.distance[one];
        if (paths->room[one] > 0) {
            paths->search.sinks[paths->search.ends++] = one;
            if (paths->search.ends == wanted) {
                paths->search.shortest = distance;
                break;
            }
        }
        for (int32_t e = arcs->of_column[one]; e != OTA_NO_NODE; e = arcs->next_in_column[e]) {
            const int32_t i = arcs->row[e];
            if (paths->search.seen[i] == paths->search.number) continue;
            const double offset = (ota_path_cost(paths, i, one) - paths->price[one]) - distance;
            reach_row(paths, i, e, offset, nearest);
        }
        for (int32_t i = 0; (i = ota_full_row(paths, one, i)) != OTA_NO_NODE; i++) {
            if (paths->search.seen[i] != paths->search.number) relax_full(paths, i, one, distance);
        }
    }
    return OTA_OK;
}

/* Prices such that all pairs on shortest paths are tight; `length` of those to the last column that was wanted. */
static void end_search(ota_transport_paths *paths, double length) {
    for (int32_t k = 0; k < paths->search.met; k++) {
        const int32_t one = paths->search.reached[k];
        const double change = paths->search.distance[one] - length;
        if (one < paths->tree->padded && paths->search.slot[one] == OTA_NO_NODE && change < 0.0)
            paths->price[one] += change;
        paths->search.distance[one] = INFINITY;
        paths->search.slot[one] = OTA_NO_NODE;
    }
    for (int32_t k = 0; k < paths->full.met; k++) {
        double *potential = &paths->full.potential[paths->full.reached[k]];
        *potential = fmax(*potential, paths->search.offset[paths->full.reached[k]] + length);
    }
}

static int32_t column_of_entry(const ota_transport_paths *paths, int32_t e) {
    return e >= 0 ? paths->arcs.column[e] : -2 - e;
}

/* Ships to column `end` what its path can take; 0 where something took it before. */
static int64_t ship(ota_transport_paths *paths, int32_t end) {
    ota_flow_arcs *arcs = &paths->arcs;
    const bool caps = paths->full.of_row != NULL;
    int64_t amount = paths->room[end];
    int32_t i, pairs = 0;
    for (int32_t w = end;; w = column_of_entry(paths, paths->search.entry[i])) {
        i = paths->search.before[w];
        const int32_t e = paths->search.entry[i];
        pairs += caps ? 2 : 1;
        if (caps)
            amount = ota_int_min(amount, ota_pair_cap(paths, i, w) - ota_flow_of(paths, i, w));
        if (e == OTA_NO_NODE) break;
        amount = ota_int_min(amount, e >= 0 ? arcs->amount[e]
                                            : ota_flow_of(paths, i, column_of_entry(paths, e)));
    }
    amount = ota_int_min(amount, paths->excess[i]);
    if (amount == 0 || pairs > arcs->room - arcs->count) return 0;
    paths->shipped++;
    paths->room[end] -= amount;
    paths->excess[i] -= amount;
    for (int32_t w = end;;) {
        i = paths->search.before[w];
        const int32_t e = paths->search.entry[i];
        add_flow(paths, i, w, amount);
        if (e == OTA_NO_NODE) break;
        w = column_of_entry(paths, e);
        if (e >= 0)
            ota_flow_take(arcs, e, amount);
        else
            ota_pair_take(paths, i, w, amount);
    }
    return amount;
}

/* ---- the whole -------------------------------------------------------------------------------------- */

/* Ships row i along shortest paths to the nearest room; what is left has no way. */
static ota_status ship_row(ota_transport_paths *paths, int32_t i) {
    while (paths->excess[i] > 0) {
        begin_search(paths);
        reach_row(paths, i, OTA_NO_NODE, 0.0, true);
        ota_status status = search(paths, true, 0);
        /* Rows that fill many pairs take as many paths, too short to ask by themselves. */
        if (status == OTA_OK && paths->full.of_row != NULL)
            status = ota_watch_spend(&paths->watch, OTA_LISTED);
        if (status != OTA_OK) return status;
        end_search(paths, paths->search.shortest < INFINITY ? paths->search.shortest : 0.0);
        if (paths->search.end == OTA_NO_NODE) return OTA_OK;
        (void)ship(paths, paths->search.end);
        tidy(paths);
    }
    return OTA_OK;
}

/* Ships from all rows that have something left to all columns that have room. */
static ota_status ship_all(ota_transport_paths *paths, bool *far) {
    const ota_transport_tree *tree = paths->tree;
    for (;;) {
        int32_t wanted = 0;
        for (int32_t w = 0; w < tree->columns; w++) wanted += paths->room[w] > 0;
        begin_search(paths);
        for (int32_t i = 0; i < tree->rows && wanted > 0; i++) {
            if (paths->excess[i] == 0) continue;
            const double least = ota_transport_paths_least(paths, i);
            if (least < INFINITY) reach_row(paths, i, OTA_NO_NODE, least, false);
        }
        const ota_status status = search(paths, false, wanted);
        if (status != OTA_OK) return status;
        const int32_t ends = paths->search.ends;
        end_search(paths, ends > 0 ? paths->search.distance[paths->search.sinks[ends - 1]] : 0.0);
        int64_t shipped = 0;
        for (int32_t k = 0; k < ends; k++) shipped += ship(paths, paths->search.sinks[k]);
        tidy(paths);
        *far = paths->search.work > paths->search.most;
        if (shipped == 0 || *far) return OTA_OK;
    }
}

/* v_j = min_i c_ij. Nothing is shipped yet: `room` is free. */
static void price_columns(ota_transport_paths *paths) {
    const ota_transport_tree *tree = paths->tree;
    for (int64_t w = 0; w < tree->padded; w++) paths->price[w] = INFINITY;
    for (int32_t i = 0; i < tree->rows && !ota_watch_ends(&paths->watch, tree->padded); i++) {
        const ota_score_row row = ota_path_row(paths, i);
        paths->read->lower(&row, i, paths->price, paths->room);
    }
    for (int64_t w = 0; w < tree->padded; w++) {
        if (!(paths->price[w] < INFINITY)) paths->price[w] = 0.0;
    }
}

static void begin(ota_transport_paths *paths) {
    const ota_transport_tree *tree = paths->tree;
    const int32_t open = paths->full.of_row != NULL ? ota_giving_row(paths, tree->rows)
                                                    : ota_growing_row(paths, tree->rows);
    ota_transport_paths_let_go(paths);
    paths->search.number = 0;
    paths->search.work = 0;
    paths->shipped = 0;
    if (tree->spare_row != OTA_NO_NODE) paths->lists.count[tree->spare_row] = 0;
    for (int64_t w = 0; w < tree->padded; w++) paths->price[w] = 0.0;
    for (int32_t one = 0; one < open; one++) {
        paths->search.distance[one] = INFINITY;
        paths->search.slot[one] = OTA_NO_NODE;
    }
}

/* The row of spare capacity takes the room that the others left where it is cheapest. */
static void fill_room(ota_transport_paths *paths) {
    const ota_transport_tree *tree = paths->tree;
    const int32_t spare = tree->spare_row;
    double highest = -INFINITY;
    for (int32_t w = 0; w < tree->columns; w++) {
        if (!ota_tree_is_least(tree, w)) highest = fmax(highest, paths->price[w]);
    }
    if (paths->full.of_row != NULL) paths->full.potential[spare] = -highest;
    for (int32_t w = 0; w < tree->columns; w++) {
        int64_t amount = ota_int_min(paths->room[w], paths->excess[spare]);
        amount = ota_int_min(amount, ota_pair_cap(paths, spare, w));
        if (amount == 0 || ota_tree_is_least(tree, w) || paths->price[w] < highest) continue;
        add_flow(paths, spare, w, amount);
        paths->room[w] -= amount;
        paths->excess[spare] -= amount;
    }
}

/* Ships everything, row by row; *far: but for what was left when as many pairs were looked at as are too many. */
static ota_status ship_rows(ota_transport_paths *paths, bool *far) {
    const ota_transport_tree *tree = paths->tree;
    for (int32_t i = 0; i < tree->rows; i++) {
        if (i == tree->spare_row) continue;
        const ota_status status = ship_row(paths, i);
        if (status != OTA_OK) return status;
        if ((*far = paths->search.work > paths->search.most)) return OTA_OK;
    }
    if (tree->spare_row != OTA_NO_NODE) fill_room(paths);
    return ship_all(paths, far);
}

static ota_status list_rows(ota_transport_paths *paths) {
    const ota_transport_tree *tree = paths->tree;
    for (int32_t i = 0; i < tree->rows; i++) {
        const ota_status going = ota_watch_spend(&paths->watch, 2 * tree->padded);
        if (going != OTA_OK) return going;
        if (i != tree->spare_row) ota_transport_paths_list(paths, i);
    }
    return OTA_OK;
}

ota_status ota_transport_paths_solve(ota_transport_paths *paths) {
    const ota_transport_tree *tree = paths->tree;
    const bool spare = tree->spare_row != OTA_NO_NODE;
    bool far = true;
    begin(paths);
    if (!spare) price_columns(paths);
    ota_status status = list_rows(paths);
    if (status != OTA_OK) return status;
    if (spare) {
        paths->search.most = ota_int_max((int64_t)tree->root * NEAR, NEAR_AT_LEAST);
        status = ship_rows(paths, &far);
        if (status != OTA_OK || !far) return status;
    }
    ota_transport_paths_bid(paths);
    ota_transport_paths_let_go(paths);
    if (paths->full.of_row != NULL && (status = list_rows(paths)) != OTA_OK) return status;
    paths->search.most = INT64_MAX;
    return ship_rows(paths, &far);
}
