/* assignment_sparse.c: the matching over a few candidates of every row, exact all the same.
 *
 * Optimal pairs are nearly always among the cheapest of their row. So a row that is asked for more than its cheapest pair gets a
 * list of its cheapest ones and a bound that none of the others is below; since prices only fall, reduced costs only
 * rise and the bound goes on to hold. (1) Square: prices v_j = min_i c_ij; else 0. (2) Pairs of reduced cost 0, as far as
 * they come without asking twice: of many ties nearly all. (3) Rows bid exactly. (4) Square, and many rows are left: rows
 * bid a little more than a column is worth to them, which ends wars for prices soon [LIT-06], only the prices are kept, and (3)
 * again. (5) A shortest path for each row left: a row that was reached is in the heap once more at its bound, and when
 * the search gets there its list grows. So bids and paths are those over all pairs, and the scores are read again only in
 * the rows whose list was too short. */
#include "augmenting_paths.h"

#include <math.h>

enum {
    FIRST_CANDIDATES = 8,
    GROUP = 8,
    BIDDING_SWEEPS = 3,
    BIDS = 64, /* in a row, each by the loser of the one before */
    OVERBIDS = 128,
    FEW = 16,
    LONG_LIST = 96,
    OVERBID_SHIFT = 2,
    OVERBID_STEP = 8,
    STEPS_PER_QUESTION = 256
};

/* ---- lists ---- */

/* One of the lowest group minima such that at least FIRST_CANDIDATES pairs lie at or below it; +inf: there are not so
 * many. */
static double threshold_of_groups(const double *lowest, int64_t groups) {
    double kept[FIRST_CANDIDATES];
    int count = 0;
    for (int64_t k = 0; k < groups; k++) {
        if (count == FIRST_CANDIDATES && !(lowest[k] < kept[count - 1])) continue;
        int place = count < FIRST_CANDIDATES ? count++ : FIRST_CANDIDATES - 1;
        for (; place > 0 && kept[place - 1] > lowest[k]; place--) kept[place] = kept[place - 1];
        kept[place] = lowest[k];
    }
    return count == FIRST_CANDIDATES ? kept[count - 1] : INFINITY;
}

static int64_t groups_of(const ota_matching *state) { return (state->columns + GROUP - 1) / GROUP; }

/* Lists the pairs of row i, whose groups `lowest` is of, of reduced cost at most `threshold`; false: they have no room. */
static bool list_to(ota_matching *state, int64_t i, double threshold) {
    const ota_score_row row = ota_matching_row(state, i);
    const ota_cost_groups groups = {state->price, state->lists.lowest, groups_of(state)};
    ota_pair_list list = {.column = state->lists.column + i * OTA_CANDIDATES,
                          .cost = state->lists.cost + i * OTA_CANDIDATES,
                          .room = OTA_CANDIDATES};
    /* Where many tie, rows begin at different columns and so list different ones. */
    const bool whole = state->read->pick(&row, &groups, i, threshold, &list);
    state->lists.count[i] = list.count;
    state->lists.bound[i] = whole ? list.next : threshold;
    return whole;
}

/* Lists row i anew, with its cheapest pairs at the prices of now. */
static void list_first(ota_matching *state, int64_t i) {
    const ota_score_row row = ota_matching_row(state, i);
    const int64_t groups = groups_of(state);
    const double lowest = state->read->groups(&row, state->price, groups, state->lists.lowest);
    const double threshold = threshold_of_groups(state->lists.lowest, groups);
    state->lists.reach[i] = threshold - lowest;
    if (list_to(state, i, threshold)) return;
    /* Too many tie. Those below them have room, unless it is the cheapest that tie. */
    state->lists.reach[i] = -1.0;
    if (threshold > lowest)
        (void)list_to(state, i, nextafter(threshold, -INFINITY));
    else
        state->lists.bound[i] = lowest;
}

static void need_list(ota_matching *state, int64_t i, ota_watch *watch) {
    if (state->lists.count[i] >= 0) return;
    (void)ota_watch_spend(watch, 2 * state->columns);
    list_first(state, i);
}

/* Lists row i with more pairs than before, as far above its bound as the first ones were apart. False: they have no room,
 * the list is its cheapest pairs of now, and the bound may have fallen. */
static bool list_more(ota_matching *state, int64_t i) {
    const ota_score_row row = ota_matching_row(state, i);
    const double threshold = state->lists.bound[i] + state->lists.reach[i];
    state->lists.reach[i] *= 2.0;
    (void)state->read->groups(&row, state->price, groups_of(state), state->lists.lowest);
    if (list_to(state, i, threshold)) return true;
    list_first(state, i);
    return false;
}

/* ---- bids ---- */

static void match(ota_matching *state, int64_t i, int64_t j, double cost) {
    state->column_of[i] = j;
    state->row_of[j] = i;
    state->own_cost[i] = cost;
}

typedef struct two_cheapest {
    double first, second;
    int32_t best, next; /* places in the list; -1: none */
} two_cheapest;

static two_cheapest find_two(const ota_matching *state, int64_t i) {
    const int32_t *candidate = state->lists.column + i * OTA_CANDIDATES;
    const double *cost = state->lists.cost + i * OTA_CANDIDATES;
    two_cheapest found = {INFINITY, INFINITY, -1, -1};
    for (int32_t k = 0; k < state->lists.count[i]; k++) {
        const double reduced = cost[k] - state->price[candidate[k]];
        const bool first = reduced < found.first, second = reduced < found.second;
        found.next = first ? found.best : second ? k : found.next;
        found.second = first ? found.first : second ? reduced : found.second;
        found.best = first ? k : found.best;
        found.first = first ? reduced : found.first;
    }
    return found;
}

/* Another place in the list as cheap as the best, of an unmatched column where there is one; the best: there is none. */
static int32_t find_tied(const ota_matching *state, int64_t i, const two_cheapest *found) {
    const int32_t *candidate = state->lists.column + i * OTA_CANDIDATES;
    const double *cost = state->lists.cost + i * OTA_CANDIDATES;
    if (!(found->second <= found->first)) return found->best;
    for (int32_t k = 0; k < state->lists.count[i]; k++) {
        if (state->row_of[candidate[k]] < 0 && cost[k] - state->price[candidate[k]] <= found->first)
            return k;
    }
    return found->next;
}

/* Each waiting row takes its cheapest column, whose price falls by the margin to its second cheapest and by `more`;
 * the row that had the column waits again. How many wait in the end, in next_waiting; fewer where the run is to end. */
static int64_t bid(ota_matching *state, int64_t count, double more, int64_t chain,
                   ota_watch *watch) {
    int64_t left = 0;
    int64_t *swap = state->waiting, *waiting = state->next_waiting;
    state->waiting = waiting;
    state->next_waiting = swap;
    int64_t bids = 0;
    for (int64_t w = 0; w < count && !ota_watch_ends(watch, OTA_CANDIDATES);) {
        const int64_t i = waiting[w++];
        need_list(state, i, watch);
        two_cheapest found = find_two(state, i);
        if (!(found.first <= state->lists.bound[i])) {
            (void)ota_watch_spend(watch, state->columns);
            list_first(state, i);
            found = find_two(state, i);
        }
        if (found.best < 0 || !(found.first <= state->lists.bound[i]) || bids++ == chain) {
            state->next_waiting[left++] = i;
            bids = 0;
            continue;
        }
        const int32_t *candidate = state->lists.column + i * OTA_CANDIDATES;
        const double *cost = state->lists.cost + i * OTA_CANDIDATES;
        const double second = fmin(found.second, state->lists.bound[i]);
        const double price = state->price[candidate[found.best]] - (second - found.first) - more;
        const bool falls = price < state->price[candidate[found.best]] && price > -INFINITY;
        int32_t best = found.best;
        if (falls)
            state->price[candidate[best]] = price;
        else if (state->row_of[candidate[best]] >= 0)
            best = find_tied(state, i, &found);
        const int64_t loser = state->row_of[candidate[best]];
        if (loser >= 0 && !falls && best == found.best) {
            state->next_waiting[left++] = i;
            bids = 0;
            continue;
        }
        match(state, i, candidate[best], cost[best]);
        if (loser >= 0) state->column_of[loser] = -1;
        if (loser >= 0 && falls) {
            waiting[--w] = loser;
            continue;
        }
        bids = 0;
        if (loser >= 0) state->next_waiting[left++] = loser;
    }
    return left;
}

/* ---- shortest paths ---- */

static void heap_up(ota_matching *state, int64_t place) {
    int64_t *heap = state->heap;
    const int64_t one = heap[place];
    const double distance = state->distance[one];
    while (place > 0) {
        const int64_t parent = (place - 1) / 4;
        if (!(distance < state->distance[heap[parent]])) break;
        heap[place] = heap[parent];
        state->heap_slot[heap[place]] = place;
        place = parent;
    }
    heap[place] = one;
    state->heap_slot[one] = place;
}

static int64_t heap_pop(ota_matching *state, int64_t *count) {
    int64_t *heap = state->heap;
    const int64_t lowest = heap[0], one = heap[--*count];
    const double distance = state->distance[one];
    int64_t place = 0;
    for (;;) {
        const int64_t child = 4 * place + 1;
        if (child >= *count) break;
        const int64_t end = child + 4 < *count ? child + 4 : *count;
        int64_t least = child;
        for (int64_t k = child + 1; k < end; k++) {
            if (state->distance[heap[k]] < state->distance[heap[least]]) least = k;
        }
        if (!(state->distance[heap[least]] < distance)) break;
        heap[place] = heap[least];
        state->heap_slot[heap[place]] = place;
        place = least;
    }
    heap[place] = one;
    state->heap_slot[one] = place;
    state->heap_slot[lowest] = -1;
    return lowest;
}

/* A search for the shortest path from one row. Unmatched columns are never in the heap: the nearest of them so far is the
 * end, and what is not nearer is not looked at. */
typedef struct path_search {
    int64_t open, met; /* in the heap; met so far, in `reached` */
    int64_t end;       /* -1: none yet */
    int64_t
        ready; /* columns at `now`, in `waiting`, which no heap has to sort: where many tie nearly all */
    double shortest, now;
} path_search;

static void open_up(ota_matching *state, path_search *search, int64_t one, double distance) {
    if (state->distance[one] == INFINITY) state->reached[search->met++] = one;
    if (state->heap_slot[one] < 0) {
        state->heap_slot[one] = search->open;
        state->heap[search->open++] = one;
    }
    state->distance[one] = distance;
    heap_up(state, state->heap_slot[one]);
}

static inline void relax_pair(ota_matching *state, path_search *search, int64_t i, int64_t j,
                              double cost) {
    const double through = (cost - state->price[j]) - state->offset[i];
    if (!(through < state->distance[j]) || !(through < search->shortest)) return;
    if (state->row_of[j] < 0) {
        search->shortest = through;
        search->end = j;
    } else {
        /* Reached for good: rounding alone says otherwise. */
        const bool met = state->distance[j] < INFINITY;
        if (met && state->heap_slot[j] < 0) return;
        if (!met && through <= search->now) {
            state->reached[search->met++] = j;
            state->waiting[search->ready++] = j;
            state->distance[j] = through;
        } else {
            open_up(state, search, j, through);
        }
    }
    state->before[j] = i;
    state->final_distance[j] = cost;
}

/* Pairs of the list, and the row itself where pairs that are not on it may matter. */
static void relax_list(ota_matching *state, path_search *search, int64_t i) {
    const int32_t *candidate = state->lists.column + i * OTA_CANDIDATES;
    const double *cost = state->lists.cost + i * OTA_CANDIDATES;
    for (int32_t k = 0; k < state->lists.count[i]; k++)
        relax_pair(state, search, i, candidate[k], cost[k]);
    const double grows = state->lists.bound[i] - state->offset[i];
    if (grows < search->shortest) open_up(state, search, state->padded + i, grows);
}

/* The same of all pairs of the row, whose list stays as it is. */
static void relax_all(ota_matching *state, path_search *search, int64_t i) {
    const ota_score_row row = ota_matching_row(state, i);
    ota_pair_list list = {.column = state->row_column, .cost = state->row_cost};
    state->read->nearer(&row, state->price, state->offset[i], state->distance, search->shortest,
                        &list);
    for (int32_t k = 0; k < list.count; k++)
        relax_pair(state, search, i, list.column[k], list.cost[k]);
}

/* The nearest column, or row in the heap, that was not looked at; -1: none is nearer than the end. `seen` of those that were
 * ready have been. */
static int64_t next_nearest(ota_matching *state, path_search *search, int64_t *seen) {
    while (*seen < search->ready) {
        const int64_t one = state->waiting[(*seen)++];
        if (state->distance[one] < search->shortest) return one;
    }
    search->ready = *seen = 0;
    if (search->open == 0 || !(state->distance[state->heap[0]] < search->shortest)) return -1;
    search->now = state->distance[state->heap[0]];
    return heap_pop(state, &search->open);
}

static ota_status augment(ota_matching *state, int64_t start, ota_watch *watch) {
    path_search search = {.end = -1, .shortest = INFINITY, .now = -INFINITY};
    ota_status status = ota_watch_ask(watch);
    if (status != OTA_OK) return status;
    int64_t steps = 0, seen = 0;
    state->offset[start] = 0.0;
    need_list(state, start, watch);
    relax_list(state, &search, start);
    for (int64_t one; (one = next_nearest(state, &search, &seen)) >= 0;) {
        if (one >= state->padded) {
            const int64_t i = one - state->padded;
            status = ota_watch_spend(watch, state->columns);
            if (status != OTA_OK) return status;
            const bool grows = state->lists.count[i] < LONG_LIST && !(state->lists.reach[i] < 0.0);
            if (grows && list_more(state, i))
                relax_list(state, &search, i);
            else
                relax_all(state, &search, i);
        } else {
            const int64_t i = state->row_of[one];
            state->offset[i] = (state->own_cost[i] - state->price[one]) - state->distance[one];
            need_list(state, i, watch);
            relax_list(state, &search, i);
        }
        if (++steps % STEPS_PER_QUESTION == 0) {
            status = ota_watch_ask(watch);
            if (status != OTA_OK) return status;
        }
    }
    if (search.end < 0) return OTA_INFEASIBLE;
    for (int64_t k = 0; k < search.met; k++) {
        const int64_t one = state->reached[k];
        const double change = state->distance[one] - search.shortest;
        if (one < state->padded && state->heap_slot[one] < 0 && change < 0.0)
            state->price[one] += change;
        state->distance[one] = INFINITY;
        state->heap_slot[one] = -1;
    }
    for (int64_t j = search.end; j >= 0;) {
        const int64_t i = state->before[j], given_up = state->column_of[i];
        match(state, i, j, state->final_distance[j]);
        j = i == start ? -1 : given_up;
    }
    return OTA_OK;
}

/* ---- the whole ---- */

/* Unmatches all; how many rows wait. */
static int64_t let_go(ota_matching *state) {
    for (int64_t j = 0; j < state->columns; j++) state->row_of[j] = -1;
    for (int64_t i = 0; i < state->rows; i++) {
        state->column_of[i] = -1;
        state->next_waiting[i] = i;
    }
    return state->rows;
}

/* A quarter of what one candidate lies above the next, on average, or a little less: a power of two, which keeps the
 * prices of costs on a grid on that grid, or a finer one. 0: all candidates tie. */
static double least_overbid(const ota_matching *state) {
    double sum = 0.0;
    int64_t count = 0;
    for (int64_t i = 0; i < state->rows; i++) {
        const double first = find_two(state, i).first;
        if (!(state->lists.bound[i] < INFINITY) || !(first <= state->lists.bound[i])) continue;
        sum += (state->lists.bound[i] - first) / (double)FIRST_CANDIDATES;
        count++;
    }
    int exponent;
    (void)frexp(count > 0 ? sum / (double)count : 0.0, &exponent);
    return sum > 0.0 ? ldexp(1.0, exponent - 1 - OVERBID_SHIFT) : 0.0;
}

/* Prices close to those of the optimum. Where bids do not end soon they rise, and then fall again. */
static void overbid(ota_matching *state, ota_watch *watch) {
    const double least = least_overbid(state);
    if (!(least > 0.0)) return;
    double more = least;
    while (bid(state, let_go(state), more, OVERBIDS, watch) > state->rows / FEW &&
           more < state->largest)
        more *= (double)OVERBID_STEP;
    while (more > least) {
        more /= (double)OVERBID_STEP;
        (void)bid(state, let_go(state), more, OVERBIDS, watch);
    }
}

/* v_j = min_i c_ij, where that is not so already, and every column goes to its cheapest row, where that is free. False: a
 * column has no allowed pair. */
static bool reduce_columns(ota_matching *state, ota_watch *watch) {
    for (int64_t j = 0; !state->priced && j < state->columns; j++) state->price[j] = INFINITY;
    for (int64_t i = 0; !state->priced && i < state->rows && !ota_watch_ends(watch, state->columns);
         i++) {
        const ota_score_row row = ota_matching_row(state, i);
        state->read->lower(&row, i, state->price, state->before);
    }
    state->priced = false;
    for (int64_t j = state->columns; j-- > 0;) {
        if (state->price[j] == INFINITY) return false;
        const int64_t i = state->before[j];
        if (state->column_of[i] < 0) match(state, i, j, state->price[j]);
    }
    return true;
}

/* Pairs of reduced cost 0, the first of each row that is left. How many rows wait, in next_waiting. */
static int64_t take_tight(ota_matching *state, ota_watch *watch) {
    int64_t left = 0;
    for (int64_t i = 0; i < state->rows && !ota_watch_ends(watch, state->columns / GROUP); i++) {
        if (state->column_of[i] >= 0) continue;
        const ota_score_row row = ota_matching_row(state, i);
        const int64_t j = state->read->tight(&row, state->price, state->row_of, i);
        if (j < 0)
            state->next_waiting[left++] = i;
        else
            match(state, i, j, state->price[j]);
    }
    return left;
}

/* Rows bid exactly; how many are left, in next_waiting. */
static int64_t bid_exactly(ota_matching *state, int64_t left, ota_watch *watch) {
    for (int sweep = 0; sweep < BIDDING_SWEEPS && left > 0; sweep++)
        left = bid(state, left, 0.0, BIDS, watch);
    return left;
}

ota_status ota_assignment_sparse(ota_matching *state, ota_watch *watch) {
    const bool square = state->rows == state->columns;
    (void)let_go(state);
    for (int64_t one = 0; one < state->padded + state->rows; one++) {
        state->distance[one] = INFINITY;
        state->heap_slot[one] = -1;
    }
    for (int64_t i = 0; i < state->rows; i++) state->lists.count[i] = -1;
    if (square && !reduce_columns(state, watch)) {
        const ota_status going = ota_watch_ask(watch);
        return going != OTA_OK ? going : OTA_INFEASIBLE;
    }
    int64_t left = bid_exactly(state, take_tight(state, watch), watch);
    if (square && left > state->rows / FEW) {
        for (int64_t i = 0; i < state->rows && !ota_watch_ends(watch, 1); i++)
            need_list(state, i, watch);
        overbid(state, watch);
        left = bid_exactly(state, let_go(state), watch);
    }
    /* Bids that were given up leave rows that nobody waits for. */
    const ota_status going = ota_watch_ask(watch);
    if (going != OTA_OK) return going;
    for (int64_t k = 0; k < left; k++) {
        const ota_status status = augment(state, state->next_waiting[k], watch);
        if (status != OTA_OK) return status;
    }
    return OTA_OK;
}

double ota_assignment_potential(const ota_matching *state, int64_t i, const double *g) {
    const ota_score_row row = ota_matching_row(state, i);
    const int64_t own = state->column_of[i];
    const double reduced = state->own_cost[i] - state->price[own];
    /* Far above what rounding makes of the two ways to form a sum. */
    const double slack = 0x1p-48 * (state->largest + fabs(state->price[own]) + fabs(reduced));
    if (state->lists.count[i] < 0 || !(reduced + slack < state->lists.bound[i]))
        return -state->read->best(row.scores, state->sign, g, state->columns);
    const double listed =
        state->read->best_listed(row.scores, state->sign, g,
                                 state->lists.column + i * OTA_CANDIDATES, state->lists.count[i]);
    const int32_t pair = (int32_t)own;
    return -fmax(listed, state->read->best_listed(row.scores, state->sign, g, &pair, 1));
}
