/* assignment_sparse.c: the square assignment on a few candidates of every row.
 *
 * Optimal pairs are nearly always among the cheapest of their row. So (1) prices v_j = min_i c_ij, (2) every
 * row keeps its cheapest pairs at those prices, (3) bids and shortest paths run on the candidates alone,
 * (4) one sweep over all pairs prices what was left out: a matched row with a pair below its own takes that
 * pair as a candidate and is unmatched; and (3) again until no row has one. Then the duals hold for all
 * pairs and the matching is optimal. Each sweep adds a candidate to every row that it unmatches, so it ends;
 * where that takes too long, or candidates have no path, the rows left are the dense search's.
 *
 * A sweep reads the scores once, in order; everything else touches rows x OTA_CANDIDATES numbers. */
#include "solver/assignment.h"

#include <math.h>

enum { FIRST_CANDIDATES = 16, MORE_CANDIDATES = 12, GROUP = 8, SWEEPS = 24, BIDDING_SWEEPS = 3 };

/* ---- sweeps over the scores ---- */

/* v_j = min_i c_ij and who has it; the first row to own a column is matched with it. */
static bool price_columns(ota_matching *state, const ota_assignment *problem) {
    const int64_t size = state->rows;
    for (int64_t j = 0; j < size; j++) {
        state->price[j] = INFINITY;
        state->before[j] = -1;
    }
    for (int64_t i = 0; i < size; i++) {
        const double *restrict scores = problem->scores + i * problem->stride;
        double *restrict price = state->price;
        int64_t *restrict who = state->before;
        const double top = state->top[i], factor = state->factor;
        for (int64_t j = 0; j < size; j++) {
            const double cost = top - scores[j] * factor;
            who[j] = cost < price[j] ? i : who[j];
            price[j] = cost < price[j] ? cost : price[j];
        }
    }
    for (int64_t j = 0; j < size; j++) {
        const int64_t i = state->before[j];
        if (i < 0) return false;
        if (state->column_of[i] >= 0) continue;
        state->column_of[i] = j;
        state->row_of[j] = i;
        state->own_cost[i] = state->price[j];
    }
    return true;
}

/* Group k holds columns k, k + groups, k + 2 groups, ...: minima over a group are then minima of vectors.
 * Their lowest is returned. */
static double lowest_of_groups(const ota_matching *state, const double *restrict scores, double top,
                               int64_t groups) {
    const double *restrict price = state->price;
    double *restrict lowest = state->lowest;
    const double factor = state->factor;
    for (int64_t k = 0; k < groups; k++) lowest[k] = (top - scores[k] * factor) - price[k];
    for (int64_t from = groups; from < state->columns; from += groups) {
        const int64_t rest = state->columns - from;
        const int64_t count = groups < rest ? groups : rest;
        for (int64_t k = 0; k < count; k++) {
            const double reduced = (top - scores[from + k] * factor) - price[from + k];
            lowest[k] = reduced < lowest[k] ? reduced : lowest[k];
        }
    }
    double lane[OTA_LANES];
    for (int l = 0; l < OTA_LANES; l++) lane[l] = INFINITY;
    int64_t k = 0;
    for (; k + OTA_LANES <= groups; k += OTA_LANES) {
        for (int l = 0; l < OTA_LANES; l++)
            lane[l] = lowest[k + l] < lane[l] ? lowest[k + l] : lane[l];
    }
    for (; k < groups; k++) lane[0] = lowest[k] < lane[0] ? lowest[k] : lane[0];
    return ota_lanes_lowest(lane);
}

/* The `wanted`-th smallest of the group minima: at least so many pairs lie at or below it. */
static double threshold_of_groups(const double *lowest, int64_t groups, int wanted) {
    double kept[FIRST_CANDIDATES]; /* ascending */
    int count = 0;
    for (int64_t k = 0; k < groups; k++) {
        if (count == wanted && !(lowest[k] < kept[count - 1])) continue;
        int place = count < wanted ? count++ : wanted - 1;
        for (; place > 0 && kept[place - 1] > lowest[k]; place--) kept[place] = kept[place - 1];
        kept[place] = lowest[k];
    }
    return kept[count - 1];
}

static bool listed(const ota_matching *state, int64_t i, int64_t j) {
    const int32_t *candidate = state->candidate + i * OTA_CANDIDATES;
    for (int32_t k = 0; k < state->candidate_count[i]; k++) {
        if (candidate[k] == (int32_t)j) return true;
    }
    return false;
}

static bool list_pair(ota_matching *state, int64_t i, int64_t j, double cost) {
    const int32_t count = state->candidate_count[i];
    if (count == OTA_CANDIDATES) return false;
    state->candidate[i * OTA_CANDIDATES + count] = (int32_t)j;
    state->candidate_cost[i * OTA_CANDIDATES + count] = cost;
    state->candidate_count[i] = count + 1;
    return true;
}

/* Lists the pairs of row i with reduced cost at most `threshold`, until `most` are new; how many are.
 * Where many tie, rows begin at different groups and so list different columns. */
static int list_cheapest(ota_matching *state, const ota_assignment *problem, int64_t i,
                         int64_t groups, double threshold, int most) {
    const double *scores = problem->scores + i * problem->stride;
    int added = 0;
    for (int64_t step = 0, k = i % groups; step < groups && added < most; step++) {
        if (state->lowest[k] <= threshold) {
            for (int64_t j = k; j < state->columns; j += groups) {
                const double cost = state->top[i] - scores[j] * state->factor;
                if (!(cost < INFINITY) || cost - state->price[j] > threshold) continue;
                if (listed(state, i, j)) continue;
                if (!list_pair(state, i, j, cost)) return added;
                added++;
            }
        }
        k = k + 1 < groups ? k + 1 : 0;
    }
    return added;
}

static void list_first(ota_matching *state, const ota_assignment *problem, int64_t groups) {
    const int wanted = groups < FIRST_CANDIDATES ? (int)groups : FIRST_CANDIDATES;
    for (int64_t i = 0; i < state->rows; i++) {
        state->candidate_count[i] = 0;
        if (state->column_of[i] >= 0)
            (void)list_pair(state, i, state->column_of[i], state->own_cost[i]);
        (void)lowest_of_groups(state, problem->scores + i * problem->stride, state->top[i], groups);
        const double threshold = threshold_of_groups(state->lowest, groups, wanted);
        if (threshold < INFINITY)
            (void)list_cheapest(state, problem, i, groups, threshold, OTA_CANDIDATES / 2);
        else
            (void)list_cheapest(state, problem, i, groups, 0x1p1000, OTA_CANDIDATES / 2);
    }
}

/* Looks at all pairs: unmatches the rows that have one below their own and lists what they missed.
 * Unmatched rows get more candidates. How many rows are unmatched now, in next_waiting; `*grown` = any
 * candidate is new. */
static int64_t price_out(ota_matching *state, const ota_assignment *problem, int64_t groups,
                         bool *grown) {
    const double slack = 0x1p-49 * state->largest;
    int64_t left = 0;
    *grown = false;
    for (int64_t i = 0; i < state->rows; i++) {
        const int64_t own = state->column_of[i];
        const double *scores = problem->scores + i * problem->stride;
        const double lowest = lowest_of_groups(state, scores, state->top[i], groups);
        const double limit = own >= 0 ? (state->own_cost[i] - state->price[own]) - slack : INFINITY;
        if (own >= 0 && !(lowest < limit)) continue;
        const int wanted = groups < MORE_CANDIDATES ? (int)groups : MORE_CANDIDATES;
        double threshold = threshold_of_groups(state->lowest, groups, wanted);
        if (threshold >= limit) threshold = nextafter(limit, -INFINITY);
        if (!(threshold < 0x1p1000)) threshold = 0x1p1000;
        const int added = list_cheapest(state, problem, i, groups, threshold, OTA_CANDIDATES / 4);
        /* All that is cheaper was listed: the search knew of it, and only rounding says otherwise. */
        if (own >= 0 && added == 0 && state->candidate_count[i] < OTA_CANDIDATES) continue;
        if (added > 0) *grown = true;
        state->next_waiting[left++] = i;
        if (own < 0) continue;
        state->row_of[own] = -1;
        state->column_of[i] = -1;
    }
    return left;
}

/* ---- search on the candidates ---- */

static void match(ota_matching *state, int64_t i, int64_t j, double cost) {
    state->column_of[i] = j;
    state->row_of[j] = i;
    state->own_cost[i] = cost;
}

/* Each waiting row takes its cheapest column, whose price falls by the margin to its second cheapest; the
 * row that had the column waits again. How many wait in the end, in next_waiting. */
static int64_t bid(ota_matching *state, int64_t count) {
    int64_t left = 0;
    int64_t limit = 4 * count;
    int64_t *waiting = state->waiting;
    for (int64_t w = 0; w < count;) {
        const int64_t i = waiting[w++];
        const int32_t *candidate = state->candidate + i * OTA_CANDIDATES;
        const double *cost = state->candidate_cost + i * OTA_CANDIDATES;
        double first = INFINITY, second = INFINITY;
        int32_t best = -1, next = -1;
        for (int32_t k = 0; k < state->candidate_count[i]; k++) {
            const double reduced = cost[k] - state->price[candidate[k]];
            if (reduced < first) {
                second = first;
                next = best;
                first = reduced;
                best = k;
            } else if (reduced < second) {
                second = reduced;
                next = k;
            }
        }
        if (next < 0 || limit-- <= 0) {
            state->next_waiting[left++] = i;
            continue;
        }
        const double price = state->price[candidate[best]] - (second - first);
        const bool falls = price < state->price[candidate[best]];
        if (falls)
            state->price[candidate[best]] = price;
        else if (state->row_of[candidate[best]] >= 0)
            best = next;
        const int64_t loser = state->row_of[candidate[best]];
        match(state, i, candidate[best], cost[best]);
        if (loser < 0) continue;
        state->column_of[loser] = -1;
        if (falls)
            waiting[--w] = loser;
        else
            state->next_waiting[left++] = loser;
    }
    return left;
}

static void heap_up(ota_matching *state, int64_t place) {
    int64_t *heap = state->heap;
    const int64_t j = heap[place];
    const double distance = state->distance[j];
    while (place > 0) {
        const int64_t parent = (place - 1) / 4;
        if (!(distance < state->distance[heap[parent]])) break;
        heap[place] = heap[parent];
        state->heap_slot[heap[place]] = place;
        place = parent;
    }
    heap[place] = j;
    state->heap_slot[j] = place;
}

static int64_t heap_pop(ota_matching *state, int64_t *count) {
    int64_t *heap = state->heap;
    const int64_t lowest = heap[0], j = heap[--*count];
    const double distance = state->distance[j];
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
    heap[place] = j;
    state->heap_slot[j] = place;
    return lowest;
}

/* Shortest path from an unmatched row to an unmatched column; false: the candidates have none. Columns met
 * are kept in `reached`, those reached for good first. */
static bool augment(ota_matching *state, int64_t start) {
    int64_t open = 0, met = 0, done = 0, i = start, end = -1;
    double offset = 0.0, nearest = 0.0;
    for (;;) {
        const int32_t *candidate = state->candidate + i * OTA_CANDIDATES;
        const double *cost = state->candidate_cost + i * OTA_CANDIDATES;
        for (int32_t k = 0; k < state->candidate_count[i]; k++) {
            const int64_t j = candidate[k];
            const double through = cost[k] - state->price[j] - offset;
            if (!(through < state->distance[j])) continue;
            if (state->distance[j] == INFINITY) {
                state->reached[met++] = j;
                state->heap_slot[j] = open;
                state->heap[open++] = j;
            } else if (state->heap_slot[j] < 0) {
                continue; /* reached for good: rounding alone says otherwise */
            }
            state->distance[j] = through;
            state->before[j] = i;
            state->final_distance[j] = cost[k];
            heap_up(state, state->heap_slot[j]);
        }
        if (open == 0) break;
        const int64_t j = heap_pop(state, &open);
        nearest = state->distance[j];
        state->heap_slot[j] = -1;
        if (state->row_of[j] < 0) {
            end = j;
            break;
        }
        state->waiting[done++] = j;
        i = state->row_of[j];
        offset = state->own_cost[i] - state->price[j] - nearest;
    }
    for (int64_t k = 0; end >= 0 && k < done; k++) {
        const int64_t j = state->waiting[k];
        const double change = state->distance[j] - nearest;
        if (change < 0.0) state->price[j] += change;
    }
    for (int64_t j = end; j >= 0;) {
        const int64_t row = state->before[j], given_up = state->column_of[row];
        match(state, row, j, state->final_distance[j]);
        j = row == start ? -1 : given_up;
    }
    for (int64_t k = 0; k < met; k++) state->distance[state->reached[k]] = INFINITY;
    return end >= 0;
}

ota_status ota_assignment_sparse(ota_matching *state, const ota_assignment *problem,
                                 int64_t *left) {
    const int64_t groups = (state->columns + GROUP - 1) / GROUP;
    if (!price_columns(state, problem)) return OTA_INFEASIBLE;
    list_first(state, problem, groups);
    for (int64_t j = 0; j < state->padded; j++) state->distance[j] = INFINITY;
    *left = 0;
    for (int64_t i = 0; i < state->rows; i++) {
        if (state->column_of[i] < 0) state->next_waiting[(*left)++] = i;
    }
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        for (int turn = 0; turn<BIDDING_SWEEPS && * left> 0; turn++) {
            int64_t *swap = state->waiting;
            state->waiting = state->next_waiting;
            state->next_waiting = swap;
            *left = bid(state, *left);
        }
        for (int64_t k = 0; k < *left; k++) {
            (void)augment(state, state->next_waiting[k]);
            const ota_status status = ota_watch_ask(&problem->watch);
            if (status != OTA_OK) return status;
        }
        bool grown;
        *left = price_out(state, problem, groups, &grown);
        if (*left == 0 || !grown) break;
    }
    return OTA_OK;
}
