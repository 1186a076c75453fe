/* assignment.c: maximum-score matching by shortest augmenting paths [ELA-14, LIT-06].
 *
 * The shorter side plays the rows; every one of them must be matched. Problems of many columns are
 * assignment_sparse.c's; this is the search over all pairs of a small one, in the manner of Jonker and
 * Volgenant: (1) column reduction (square problems only: a long-side column that stays unmatched must
 * keep v = 0), (2) two sweeps in which an unmatched row bids for its cheapest column, lowering v by the
 * margin to its second cheapest, (3) for each row left, Dijkstra on the reduced costs to the nearest
 * unmatched column.
 *
 * At the end f_i = -max_j (S_ij + g_j) is taken from the scores themselves, so that rounding inside the
 * search can only show as slack on matched pairs, that is in the duality gap. */
#include "assignment.h"

enum { BIDDING_SWEEPS = 2, BIDS_PER_ROW = 6, STEPS_PER_QUESTION = 256 };

static size_t take_pairs(ota_arena *arena, size_t rows, size_t columns) {
    size_t pairs = 0;
    if (!ota_size_mul(rows, columns, &pairs)) arena->overflowed = true;
    return pairs;
}

static void state_layout(ota_matching *state, ota_arena *arena, int64_t n, int64_t m, bool narrow) {
    state->rows = ota_int_min(n, m);
    state->columns = ota_int_max(n, m);
    state->padded = ota_padded(state->columns);
    const size_t rows = (size_t)state->rows, padded = (size_t)state->padded;
    const bool sparse = ota_matching_is_sparse(state->columns);
    const size_t open = sparse ? padded + rows : padded;
    state->turned = NULL;
    if (n > m)
        state->turned = ota_arena_take(arena, take_pairs(arena, rows, padded),
                                       narrow ? sizeof(float) : sizeof(double));
    state->top = ota_arena_take(arena, rows, sizeof(double));
    state->price = ota_arena_take(arena, padded, sizeof(double));
    state->distance = ota_arena_take(arena, open, sizeof(double));
    state->final_distance = ota_arena_take(arena, padded, sizeof(double));
    state->before = ota_arena_take(arena, padded, sizeof(int64_t));
    state->reached = ota_arena_take(arena, open, sizeof(int64_t));
    state->row_of = ota_arena_take(arena, padded, sizeof(int64_t));
    state->column_of = ota_arena_take(arena, rows, sizeof(int64_t));
    state->waiting = ota_arena_take(arena, rows, sizeof(int64_t));
    state->next_waiting = ota_arena_take(arena, rows, sizeof(int64_t));
    if (!sparse) {
        state->cost = ota_arena_take(arena, take_pairs(arena, rows, padded), sizeof(double));
        state->open_price = ota_arena_take(arena, padded, sizeof(double));
        return;
    }
    const size_t candidates = take_pairs(arena, rows, OTA_CANDIDATES);
    state->candidate_cost = ota_arena_take(arena, candidates, sizeof(double));
    state->candidate = ota_arena_take(arena, candidates, sizeof(int32_t));
    state->candidate_count = ota_arena_take(arena, rows, sizeof(int32_t));
    state->bound = ota_arena_take(arena, rows, sizeof(double));
    state->reach = ota_arena_take(arena, rows, sizeof(double));
    state->own_cost = ota_arena_take(arena, rows, sizeof(double));
    state->offset = ota_arena_take(arena, rows, sizeof(double));
    state->lowest = ota_arena_take(arena, padded, sizeof(double));
    state->row_cost = ota_arena_take(arena, padded + 1, sizeof(double));
    state->row_column = ota_arena_take(arena, padded + 1, sizeof(int32_t));
    state->heap = ota_arena_take(arena, open, sizeof(int64_t));
    state->heap_slot = ota_arena_take(arena, open, sizeof(int64_t));
}

size_t ota_assignment_workspace(int64_t n, int64_t m, bool narrow) {
    if (n < 0 || m < 0 || n > INT64_MAX - OTA_LANES || m > INT64_MAX - OTA_LANES) return SIZE_MAX;
    ota_arena arena = {0};
    ota_matching state;
    state_layout(&state, &arena, n, m, narrow);
    return ota_arena_overflowed(&arena) ? SIZE_MAX : arena.used;
}

/* The rows that are searched: the problem's, or its columns turned into rows. */
static void set_rows(ota_matching *state, const ota_assignment *problem) {
    const int64_t bytes = problem->narrow ? (int64_t)sizeof(float) : (int64_t)sizeof(double);
    state->read = problem->costs;
    state->scores = problem->scores;
    state->stride = problem->stride * bytes;
    if (state->turned == NULL) return;
    state->read->turn(problem->scores, problem->n, problem->m, problem->stride, state->turned,
                      state->padded);
    state->scores = state->turned;
    state->stride = state->padded * bytes;
}

/* Largest score of each row, largest |score| of all, and NaN or +inf among them. */
static ota_status survey(ota_matching *state) {
    double largest = 0.0;
    bool wrong = false;
    for (int64_t i = 0; i < state->rows; i++) {
        const ota_score_row row = ota_matching_row(state, i);
        const ota_row_survey found = state->read->survey(row.scores, row.count);
        state->top[i] = found.top;
        wrong |= found.wrong;
        if (found.largest > largest) largest = found.largest;
    }
    if (wrong) return OTA_NONFINITE;
    state->factor = ota_safe_factor(largest);
    state->largest = largest * state->factor;
    for (int64_t i = 0; i < state->rows; i++) {
        if (state->top[i] == -INFINITY) return OTA_INFEASIBLE;
        state->top[i] *= state->factor;
    }
    return OTA_OK;
}

static void form_costs(ota_matching *state) {
    for (int64_t i = 0; i < state->rows; i++) {
        double *cost = state->cost + i * state->padded;
        const ota_score_row row = ota_matching_row(state, i);
        state->read->form(&row, cost);
        for (int64_t j = state->columns; j < state->padded; j++) cost[j] = INFINITY;
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

static ota_status search_densely(ota_matching *state, const ota_watch *watch) {
    form_costs(state);
    if (state->rows == state->columns) {
        const ota_status status = reduce_columns(state);
        if (status != OTA_OK) return status;
    }
    int64_t left = 0;
    for (int64_t i = 0; i < state->rows; i++) {
        if (state->column_of[i] < 0) state->next_waiting[left++] = i;
    }
    for (int sweep = 0; sweep < BIDDING_SWEEPS && left > 0; sweep++) {
        int64_t *swap = state->waiting;
        state->waiting = state->next_waiting;
        state->next_waiting = swap;
        left = bid(state, left);
    }
    for (int64_t k = 0; k < left; k++) {
        const ota_status status = augment(state, state->next_waiting[k], watch);
        if (status != OTA_OK) return status;
    }
    return OTA_OK;
}

static void write_potentials(const ota_matching *state, const ota_assignment *problem) {
    const bool turned = state->turned != NULL, sparse = ota_matching_is_sparse(state->columns);
    double *f = turned ? problem->g : problem->f, *g = turned ? problem->f : problem->g;
    for (int64_t j = 0; j < state->columns; j++) g[j] = state->price[j] / state->factor;
    for (int64_t i = 0; i < state->rows; i++) {
        f[i] = sparse ? ota_assignment_potential(state, i, g)
                      : -state->read->best(ota_matching_row(state, i).scores, g, state->columns);
    }
    const int64_t *match = turned ? state->row_of : state->column_of;
    for (int64_t i = 0; i < problem->n; i++) problem->match[i] = match[i];
}

ota_status ota_assignment_solve(const ota_assignment *problem, void *workspace) {
    int64_t n = problem->n;
    int64_t m = problem->m;
    size_t bytes = ota_assignment_workspace(n, m, problem->narrow);
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
    ota_matching state = {.factor = 1.0};
    state_layout(&state, &arena, n, m, problem->narrow);
    set_rows(&state, problem);

    ota_status status = survey(&state);
    if (status != OTA_OK) return status;
    for (int64_t j = 0; j < state.padded; j++) {
        state.price[j] = 0.0;
        state.row_of[j] = -1;
    }
    for (int64_t i = 0; i < state.rows; i++) state.column_of[i] = -1;
    status = ota_matching_is_sparse(state.columns) ? ota_assignment_sparse(&state, &problem->watch)
                                                   : search_densely(&state, &problem->watch);
    if (status == OTA_OK) write_potentials(&state, problem);
    return status;
}
