/* transport_bids.c: prices close to those of the optimum, of which paths are short (transport_paths.c).
 *
 * Rows bid for their cheapest column as in assignment_sparse.c. Each flow remembers the price that it was bought at: a column with room
 * has the price it began with, a full one that of the flow that paid least, which who bids more takes first. What a row loses, it bids for
 * again. Only the prices are kept, so rows need not agree in the end: each round ends after BIDS_PER_ROW bids a row, which list a row anew
 * at most once each, and there are at most twice RISES rounds. */
#include "transport_paths.h"

enum { OVERBID_SHIFT = 2, OVERBID_STEP = 8, BIDS_PER_ROW = 16, FEW = 16, RISES = 8 };

/* The flow into column w that was bought at the lowest price, not by row i; OTA_NO_NODE: there is none. */
static int32_t cheapest_flow(const ota_transport_paths *paths, int32_t w, int32_t i) {
    const ota_flow_arcs *arcs = &paths->arcs;
    int32_t found = OTA_NO_NODE;
    for (int32_t e = arcs->of_column[w]; e != OTA_NO_NODE; e = arcs->next_in_column[e]) {
        if (arcs->row[e] == i) continue;
        if (found == OTA_NO_NODE || arcs->level[e] > arcs->level[found]) found = e;
    }
    return found;
}

static void wait_in_line(ota_transport_paths *paths, int32_t i) {
    int32_t *waiting = &paths->search.seen[i];
    if (*waiting != 0) return;
    *waiting = 1;
    paths->search.heap[paths->bids.last] = i;
    paths->bids.last = paths->bids.last + 1 < paths->tree->rows ? paths->bids.last + 1 : 0;
    paths->bids.waiting++;
}

/* Row i takes column w up to `level` of its price: room first, then what others pay less for. */
static void take_column(ota_transport_paths *paths, int32_t i, int32_t w, double level) {
    ota_flow_arcs *arcs = &paths->arcs;
    int32_t own = ota_flow_find(paths, i, w);
    const int64_t more = ota_pair_cap(paths, i, w) - (own != OTA_NO_NODE ? arcs->amount[own] : 0);
    const int64_t wanted = ota_int_min(paths->excess[i], more);
    int64_t taken = ota_int_min(paths->room[w], wanted);
    paths->room[w] -= taken;
    while (taken < wanted) {
        const int32_t e = cheapest_flow(paths, w, i);
        if (e == OTA_NO_NODE || !(arcs->level[e] > level)) break;
        const int64_t amount = ota_int_min(arcs->amount[e], wanted - taken);
        paths->excess[arcs->row[e]] += amount;
        wait_in_line(paths, arcs->row[e]);
        if (ota_pair_is_full(paths, arcs->row[e], w)) ota_pair_open(paths, arcs->row[e], w);
        arcs->amount[e] -= amount;
        if (arcs->amount[e] == 0) ota_flow_drop(arcs, e);
        taken += amount;
    }
    paths->excess[i] -= taken;
    if (own == OTA_NO_NODE && taken > 0) own = ota_flow_new(arcs, i, w);
    if (own != OTA_NO_NODE) {
        arcs->amount[own] += taken;
        arcs->level[own] = fmin(arcs->level[own], level);
    }
    if (taken == more) ota_pair_fill(paths, i, w);
    if (paths->room[w] > 0) return;
    const int32_t e = cheapest_flow(paths, w, OTA_NO_NODE);
    if (e != OTA_NO_NODE) paths->price[w] = fmin(paths->price[w], arcs->level[e]);
}

/* The open columns, those of the highest prices first, as a heap. */
static void sink_down(const double *price, int32_t *heap, int32_t count, int32_t place) {
    const int32_t one = heap[place];
    for (int32_t child; (child = 2 * place + 1) < count; place = child) {
        if (child + 1 < count && price[heap[child + 1]] > price[heap[child]]) child++;
        if (!(price[heap[child]] > price[one])) break;
        heap[place] = heap[child];
    }
    heap[place] = one;
}

/* The row of spare capacity ships anywhere at no cost: it takes columns in the order of their prices until all of it is shipped. */
static void bid_spare(ota_transport_paths *paths, double more) {
    const ota_transport_tree *tree = paths->tree;
    int32_t *heap = paths->lists.row_column, count = 0;
    for (int32_t w = 0; w < tree->columns; w++) {
        if (!ota_tree_is_least(tree, w)) heap[count++] = w;
    }
    double *price = paths->lists.row_cost;
    for (int32_t w = 0; w < tree->columns; w++) price[w] = paths->price[w];
    for (int32_t k = count / 2; k-- > 0;) sink_down(price, heap, count, k);
    (void)ota_watch_spend(&paths->watch, 2 * (int64_t)count);
    while (count > 1 && paths->excess[tree->spare_row] > 0) {
        const int32_t w = heap[0];
        heap[0] = heap[--count];
        sink_down(price, heap, count, 0);
        if (paths->arcs.count + 1 >= paths->arcs.room) break;
        take_column(paths, tree->spare_row, w, price[heap[0]] - more);
    }
}

/* Where rows fill many pairs they bid for each of them. */
static int64_t most_bids(const ota_transport_paths *paths) {
    const int32_t rows = paths->tree->rows, arcs = paths->arcs.count;
    const bool caps = paths->full.of_row != NULL;
    return (int64_t)BIDS_PER_ROW * (caps && arcs > rows ? arcs : rows);
}

/* Each row in turn takes its cheapest column, whose price falls by the margin to its second cheapest and by `more`. How many still
 * have something to ship after as many bids as are let. */
static int32_t bid(ota_transport_paths *paths, double more) {
    const ota_transport_tree *tree = paths->tree;
    int32_t first = 0;
    ota_transport_paths_let_go(paths);
    paths->bids.last = paths->bids.waiting = 0;
    for (int32_t i = 0; i < tree->rows; i++) {
        if (paths->excess[i] > 0) wait_in_line(paths, i);
    }
    for (int64_t k = 0; k < most_bids(paths) && paths->bids.waiting > 0; k++) {
        if (paths->arcs.count + 1 >= paths->arcs.room) break;
        if (ota_watch_ends(&paths->watch, OTA_LISTED)) break;
        const int32_t i = paths->search.heap[first];
        first = first + 1 < tree->rows ? first + 1 : 0;
        paths->bids.waiting--;
        paths->search.seen[i] = 0;
        if (i == tree->spare_row) {
            bid_spare(paths, more);
            if (paths->excess[i] > 0) wait_in_line(paths, i);
            continue;
        }
        ota_two_cheapest found = ota_transport_paths_two(paths, i);
        if (!(found.first <= paths->lists.bound[i])) {
            (void)ota_watch_spend(&paths->watch, tree->padded);
            ota_transport_paths_list(paths, i);
            found = ota_transport_paths_two(paths, i);
        }
        if (found.best == OTA_NO_NODE || !(found.first <= paths->lists.bound[i])) continue;
        const double second = fmin(found.second, paths->lists.bound[i]);
        const double level = paths->price[found.best] - (second - found.first) - more;
        if (!(level > -INFINITY)) continue;
        take_column(paths, i, found.best, level);
        if (paths->excess[i] > 0) wait_in_line(paths, i);
    }
    return paths->bids.waiting;
}

/* A quarter of what one candidate lies above the next, on average, or a little less: a power of two, which keeps the prices of costs
 * on a grid on that grid, or a finer one. 0: all candidates tie. */
static double least_overbid(const ota_transport_paths *paths) {
    double sum = 0.0;
    int64_t count = 0;
    for (int32_t i = 0; i < paths->tree->rows; i++) {
        if (i == paths->tree->spare_row) continue;
        const double first = ota_transport_paths_two(paths, i).first;
        if (!(paths->lists.bound[i] < INFINITY) || !(first <= paths->lists.bound[i])) continue;
        sum += (paths->lists.bound[i] - first) / (double)OTA_LISTED_FIRST;
        count++;
    }
    int exponent;
    (void)frexp(count > 0 ? sum / (double)count : 0.0, &exponent);
    return sum > 0.0 ? ldexp(1.0, exponent - 1 - OVERBID_SHIFT) : 0.0;
}

/* Prices close to those of the optimum. Where bids do not end soon they rise, and then fall again. */
void ota_transport_paths_bid(ota_transport_paths *paths) {
    const double least = least_overbid(paths);
    if (!(least > 0.0)) return;
    double more = least;
    for (int k = 0; k < RISES && bid(paths, more) > paths->tree->rows / FEW; k++)
        more *= (double)OVERBID_STEP;
    while (more > least) {
        more /= (double)OVERBID_STEP;
        (void)bid(paths, more);
    }
}
