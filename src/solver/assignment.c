/* assignment.c: maximum-score matching by shortest augmenting paths [ELA-14, LIT-06].
 *
 * Larger square problems go to assignment_sparse.c first; this is the search over all pairs. The shorter side plays the rows; every one of them must be matched. In the manner of Jonker and
 * Volgenant: (1) column reduction (square problems only: a long-side column that stays unmatched must
 * keep v = 0), (2) two sweeps in which an unmatched row bids for its cheapest column, lowering v by the
 * margin to its second cheapest, (3) for each row left, Dijkstra on the reduced costs to the nearest
 * unmatched column.
 *
 * At the end f_i = -max_j (S_ij + g_j) is taken from the scores themselves, so that rounding inside the
 * search can only show as slack on matched pairs, that is in the duality gap. */
#include "solver/assignment.h"

enum { BIDDING_SWEEPS = 2, BIDS_PER_ROW = 6, STEPS_PER_QUESTION = 256, TRANSPOSE_BLOCK = 16 };

static void state_layout(ota_matching *state, ota_arena *arena, int64_t n, int64_t m) {
    state->rows = n < m ? n : m;
    state->columns = n < m ? m : n;
    state->padded = ota_padded(state->columns);
    size_t rows = (size_t)state->rows;
    size_t padded = (size_t)state->padded;
    size_t pairs = 0;
    if (!ota_size_mul(rows, padded, &pairs)) arena->overflowed = true;
    state->cost = ota_arena_take(arena, pairs, sizeof(double));
    state->top = ota_arena_take(arena, rows, sizeof(double));
    state->price = ota_arena_take(arena, padded, sizeof(double));
    state->distance = ota_arena_take(arena, padded, sizeof(double));
    state->open_price = ota_arena_take(arena, padded, sizeof(double));
    state->final_distance = ota_arena_take(arena, padded, sizeof(double));
    state->before = ota_arena_take(arena, padded, sizeof(int64_t));
    state->reached = ota_arena_take(arena, padded, sizeof(int64_t));
    state->row_of = ota_arena_take(arena, padded, sizeof(int64_t));
    state->column_of = ota_arena_take(arena, rows, sizeof(int64_t));
    state->waiting = ota_arena_take(arena, rows, sizeof(int64_t));
    state->next_waiting = ota_arena_take(arena, rows, sizeof(int64_t));
    state->candidate = NULL;
    if (n != m || n < OTA_SPARSE_FROM || n > INT32_MAX) return;
    size_t candidates = 0;
    if (!ota_size_mul(rows, OTA_CANDIDATES, &candidates)) arena->overflowed = true;
    state->candidate_cost = ota_arena_take(arena, candidates, sizeof(double));
    state->candidate = ota_arena_take(arena, candidates, sizeof(int32_t));
    state->candidate_count = ota_arena_take(arena, rows, sizeof(int32_t));
    state->own_cost = ota_arena_take(arena, rows, sizeof(double));
    state->lowest = ota_arena_take(arena, padded, sizeof(double));
    state->heap = ota_arena_take(arena, padded, sizeof(int64_t));
    state->heap_slot = ota_arena_take(arena, padded, sizeof(int64_t));
}

size_t ota_assignment_workspace(int64_t n, int64_t m) {
    if (n < 0 || m < 0 || n > INT64_MAX - OTA_LANES || m > INT64_MAX - OTA_LANES) return SIZE_MAX;
    ota_arena arena = {0};
    ota_matching state;
    state_layout(&state, &arena, n, m);
    return ota_arena_overflowed(&arena) ? SIZE_MAX : arena.used;
}

/* Largest score of each row of the shorter side, largest |score| of all, and NaN or +inf among them. */
static ota_status survey(ota_matching *state, const ota_assignment *problem) {
    const int64_t n = problem->n, m = problem->m;
    const bool transposed = n > m;
    double largest = 0.0;
    bool finite = true;
    for (int64_t k = 0; k < state->rows; k++) state->top[k] = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        const double *restrict row = problem->scores + i * problem->stride;
        double high[OTA_LANES], low[OTA_LANES];
        int64_t wrong = 0;
        for (int l = 0; l < OTA_LANES; l++) {
            high[l] = -INFINITY;
            low[l] = INFINITY;
        }
        const int64_t whole = m / OTA_LANES * OTA_LANES;
        for (int64_t j = 0; j < whole; j += OTA_LANES) {
            for (int l = 0; l < OTA_LANES; l++) {
                const double score = row[j + l];
                const double allowed = score > -INFINITY ? score : INFINITY;
                wrong += !(score < INFINITY);
                high[l] = score > high[l] ? score : high[l];
                low[l] = allowed < low[l] ? allowed : low[l];
            }
        }
        for (int64_t j = whole; j < m; j++) {
            wrong += !(row[j] < INFINITY);
            if (row[j] > high[0]) high[0] = row[j];
            if (row[j] > -INFINITY && row[j] < low[0]) low[0] = row[j];
        }
        finite &= wrong == 0;
        for (int l = 0; l < OTA_LANES; l++) {
            if (!transposed && high[l] > state->top[i]) state->top[i] = high[l];
            if (high[l] > -INFINITY && fabs(high[l]) > largest) largest = fabs(high[l]);
            if (low[l] < INFINITY && fabs(low[l]) > largest) largest = fabs(low[l]);
        }
        for (int64_t j = 0; transposed && j < m; j++) {
            if (row[j] > state->top[j]) state->top[j] = row[j];
        }
    }
    if (!finite) return OTA_NONFINITE;
    state->factor = ota_safe_factor(largest);
    state->largest = largest * state->factor;
    for (int64_t k = 0; k < state->rows; k++) {
        if (state->top[k] == -INFINITY) return OTA_INFEASIBLE;
        state->top[k] *= state->factor;
    }
    return OTA_OK;
}

/* cost, transposed when n > m. */
static void form_costs(ota_matching *state, const ota_assignment *problem) {
    const int64_t n = problem->n, m = problem->m;
    const bool transposed = n > m;
    for (int64_t k = 0; k < state->rows; k++) {
        double *cost = state->cost + k * state->padded;
        for (int64_t l = state->columns; l < state->padded; l++) cost[l] = INFINITY;
        if (transposed) continue;
        const double *row = problem->scores + k * problem->stride;
        for (int64_t j = 0; j < m; j++) cost[j] = state->top[k] - row[j] * state->factor;
    }
    for (int64_t block = 0; transposed && block < n; block += TRANSPOSE_BLOCK) {
        const int64_t end = block + TRANSPOSE_BLOCK < n ? block + TRANSPOSE_BLOCK : n;
        for (int64_t j = 0; j < m; j++) {
            double *cost = state->cost + j * state->padded;
            for (int64_t i = block; i < end; i++) {
                cost[i] = state->top[j] - problem->scores[i * problem->stride + j] * state->factor;
            }
        }
    }
}

typedef struct two_lowest {
    double first, second;
    int64_t where, second_where; /* -1 when there is no finite one */
} two_lowest;

static int64_t locate(const double *cost, const double *price, int64_t count, double value,
                      int64_t skip) {
    for (int64_t j = 0; j < count; j++) {
        if (cost[j] - price[j] == value && j != skip) return j;
    }
    return -1;
}

static two_lowest find_two(const double *restrict cost, const double *restrict price, int64_t count,
                           int64_t padded) {
    double first[OTA_LANES];
    double second[OTA_LANES];
    for (int l = 0; l < OTA_LANES; l++) first[l] = second[l] = INFINITY;
    for (int64_t j = 0; j < padded; j += OTA_LANES) {
        for (int l = 0; l < OTA_LANES; l++) {
            double reduced = cost[j + l] - price[j + l];
            double larger = reduced < first[l] ? first[l] : reduced;
            first[l] = reduced < first[l] ? reduced : first[l];
            second[l] = larger < second[l] ? larger : second[l];
        }
    }
    two_lowest found = {INFINITY, INFINITY, -1, -1};
    for (int l = 0; l < OTA_LANES; l++) {
        double larger = first[l] < found.first ? found.first : first[l];
        found.first = first[l] < found.first ? first[l] : found.first;
        found.second = larger < found.second ? larger : found.second;
        found.second = second[l] < found.second ? second[l] : found.second;
    }
    if (found.first < INFINITY) found.where = locate(cost, price, count, found.first, -1);
    if (found.second < INFINITY)
        found.second_where = locate(cost, price, count, found.second, found.where);
    return found;
}

/* Square only: v_j = min_i c_ij, each column's row takes it if still unmatched; a row that is nobody
 * else's then gives up its margin, which makes its column cheaper for later bids. */
static ota_status reduce_columns(ota_matching *state) {
    int64_t size = state->rows;
    for (int64_t j = 0; j < state->padded; j++) {
        state->distance[j] = INFINITY;
        state->before[j] = 0;
    }
    for (int64_t i = 0; i < size; i++) {
        const double *restrict cost = state->cost + i * state->padded;
        double *restrict lowest = state->distance;
        int64_t *restrict who = state->before;
        for (int64_t j = 0; j < state->padded; j++) {
            bool better = cost[j] < lowest[j];
            who[j] = better ? i : who[j];
            lowest[j] = better ? cost[j] : lowest[j];
        }
    }
    int64_t *wins = state->waiting;
    for (int64_t i = 0; i < size; i++) wins[i] = 0;
    for (int64_t j = size - 1; j >= 0; j--) {
        if (state->distance[j] == INFINITY) return OTA_INFEASIBLE;
        state->price[j] = state->distance[j];
        int64_t i = state->before[j];
        if (wins[i]++ > 0) continue;
        state->column_of[i] = j;
        state->row_of[j] = i;
    }
    for (int64_t i = 0; i < size; i++) {
        if (wins[i] != 1) continue;
        int64_t own = state->column_of[i];
        double kept = state->price[own];
        state->price[own] = -INFINITY;
        double margin =
            ota_lowest_reduced(state->cost + i * state->padded, state->price, state->padded);
        state->price[own] = kept;
        if (margin < INFINITY && margin > 0.0) state->price[own] = kept - margin;
    }
    return OTA_OK;
}

/* One sweep of bids; returns how many rows still wait, in next_waiting. Prices only fall, but with costs
 * of very different size by very little at a time, hence the limit: what is left is for the paths. */
static int64_t bid(ota_matching *state, int64_t count) {
    int64_t left = 0;
    int64_t limit = count * BIDS_PER_ROW;
    int64_t *waiting = state->waiting;
    for (int64_t k = 0; k < count;) {
        int64_t i = waiting[k++];
        if (limit-- <= 0) {
            state->next_waiting[left++] = i;
            continue;
        }
        two_lowest found =
            find_two(state->cost + i * state->padded, state->price, state->columns, state->padded);
        int64_t j = found.where;
        int64_t loser = state->row_of[j];
        bool falls = false;
        if (found.second_where < 0) {
            if (loser >= 0) {
                state->next_waiting[left++] = i;
                continue;
            }
        } else {
            double price = state->price[j] - (found.second - found.first);
            falls = price < state->price[j];
            if (falls) {
                state->price[j] = price;
            } else if (loser >= 0) {
                j = found.second_where;
                loser = state->row_of[j];
            }
        }
        state->column_of[i] = j;
        state->row_of[j] = i;
        if (loser < 0) continue;
        state->column_of[loser] = -1;
        if (falls) {
            waiting[--k] = loser;
        } else {
            state->next_waiting[left++] = loser;
        }
    }
    return left;
}

/* Lowers the distances of open columns through row i, whose own u makes `offset`; their new minimum. */
static double relax(ota_matching *state, int64_t i, double offset) {
    const double *restrict cost = state->cost + i * state->padded;
    const double *restrict price = state->open_price;
    double *restrict distance = state->distance;
    int64_t *restrict before = state->before;
    double lane[OTA_LANES];
    for (int l = 0; l < OTA_LANES; l++) lane[l] = INFINITY;
    for (int64_t j = 0; j < state->padded; j += OTA_LANES) {
        for (int l = 0; l < OTA_LANES; l++) {
            double through = cost[j + l] - price[j + l] - offset;
            double now = distance[j + l];
            before[j + l] = through < now ? i : before[j + l];
            now = through < now ? through : now;
            distance[j + l] = now;
            lane[l] = now < lane[l] ? now : lane[l];
        }
    }
    return ota_lanes_lowest(lane);
}

/* Moves all columns at distance `nearest` to `reached`; an unmatched one among them, or -1. */
static int64_t collect(ota_matching *state, double nearest, int64_t *count) {
    const double *distance = state->distance;
    int64_t old = *count;
    for (int64_t j = 0; j < state->padded; j += OTA_LANES) {
        int any = 0;
        for (int l = 0; l < OTA_LANES; l++) any |= distance[j + l] == nearest;
        if (!any) continue;
        for (int64_t k = j; k < j + OTA_LANES; k++) {
            if (distance[k] != nearest) continue;
            if (state->row_of[k] < 0) {
                *count = old;
                return k;
            }
            state->reached[(*count)++] = k;
        }
    }
    for (int64_t k = old; k < *count; k++) {
        int64_t j = state->reached[k];
        state->final_distance[j] = nearest;
        state->distance[j] = INFINITY;
        state->open_price[j] = -INFINITY;
    }
    return -1;
}

static ota_status augment(ota_matching *state, int64_t start, const ota_watch *watch) {
    for (int64_t j = 0; j < state->padded; j++) {
        state->distance[j] = INFINITY;
        state->open_price[j] = state->price[j];
        state->before[j] = start;
    }
    double nearest = relax(state, start, 0.0);
    int64_t count = 0;
    int64_t scanned = 0;
    int64_t end;
    for (;;) {
        if (nearest == INFINITY) return OTA_INFEASIBLE;
        end = collect(state, nearest, &count);
        if (end >= 0) break;
        double lowest = INFINITY;
        for (; scanned < count; scanned++) {
            int64_t j = state->reached[scanned];
            int64_t i = state->row_of[j];
            double own = state->cost[i * state->padded + j] - state->price[j];
            lowest = relax(state, i, own - nearest);
            if (scanned % STEPS_PER_QUESTION == 0) {
                ota_status status = ota_watch_ask(watch);
                if (status != OTA_OK) return status;
            }
        }
        nearest = lowest;
    }
    for (int64_t k = 0; k < count; k++) {
        int64_t j = state->reached[k];
        double change = state->final_distance[j] - nearest;
        if (change < 0.0) state->price[j] += change;
    }
    for (int64_t j = end;;) {
        int64_t i = state->before[j];
        int64_t given_up = state->column_of[i];
        state->row_of[j] = i;
        state->column_of[i] = j;
        if (i == start) return OTA_OK;
        j = given_up;
    }
}

static void write_potentials(const ota_matching *state, const ota_assignment *problem) {
    int64_t n = problem->n;
    int64_t m = problem->m;
    if (n <= m) {
        for (int64_t j = 0; j < m; j++) problem->g[j] = state->price[j] / state->factor;
        for (int64_t i = 0; i < n; i++) {
            problem->match[i] = state->column_of[i];
            problem->f[i] = -ota_best_sum(problem->scores + i * problem->stride, problem->g, m);
        }
        return;
    }
    for (int64_t j = 0; j < m; j++) problem->g[j] = INFINITY;
    for (int64_t i = 0; i < n; i++) {
        const double *row = problem->scores + i * problem->stride;
        problem->match[i] = state->row_of[i];
        problem->f[i] = state->price[i] / state->factor;
        for (int64_t j = 0; j < m; j++) {
            double allowed = -(row[j] + problem->f[i]);
            problem->g[j] = allowed < problem->g[j] ? allowed : problem->g[j];
        }
    }
}

/* Prices and most of the matching; how many rows are left, in next_waiting. */
static ota_status start_densely(ota_matching *state, int64_t *left) {
    if (state->rows == state->columns) {
        const ota_status status = reduce_columns(state);
        if (status != OTA_OK) return status;
    }
    *left = 0;
    for (int64_t i = 0; i < state->rows; i++) {
        if (state->column_of[i] < 0) state->next_waiting[(*left)++] = i;
    }
    for (int sweep = 0; sweep<BIDDING_SWEEPS && * left> 0; sweep++) {
        int64_t *swap = state->waiting;
        state->waiting = state->next_waiting;
        state->next_waiting = swap;
        *left = bid(state, *left);
    }
    return OTA_OK;
}

ota_status ota_assignment_solve(const ota_assignment *problem, void *workspace) {
    int64_t n = problem->n;
    int64_t m = problem->m;
    size_t bytes = ota_assignment_workspace(n, m);
    if (bytes == SIZE_MAX) return OTA_EOVERFLOW;
    if (n == 0 || m == 0) {
        for (int64_t i = 0; i < n; i++) {
            problem->match[i] = -1;
            problem->f[i] = 0.0;
        }
        for (int64_t j = 0; j < m; j++) problem->g[j] = 0.0;
        return OTA_OK;
    }
    ota_arena arena = {.base = workspace, .size = bytes};
    ota_matching state;
    state_layout(&state, &arena, n, m);

    ota_status status = survey(&state, problem);
    if (status != OTA_OK) return status;
    for (int64_t j = 0; j < state.padded; j++) {
        state.price[j] = 0.0;
        state.row_of[j] = -1;
    }
    for (int64_t i = 0; i < state.rows; i++) state.column_of[i] = -1;
    int64_t left = state.rows;
    if (state.candidate != NULL) {
        status = ota_assignment_sparse(&state, problem, &left);
        if (status != OTA_OK) return status;
        if (left > 0) form_costs(&state, problem);
    } else {
        form_costs(&state, problem);
        status = start_densely(&state, &left);
        if (status != OTA_OK) return status;
    }
    for (int64_t k = 0; k < left; k++) {
        status = augment(&state, state.next_waiting[k], &problem->watch);
        if (status != OTA_OK) return status;
    }
    write_potentials(&state, problem);
    return OTA_OK;
}
