/* assignment.c: maximum-score matching by shortest augmenting paths [ELA-14, LIT-06].
 *
 * The shorter side plays the rows; every one of them must be matched. Small problems and wide ones go over all pairs
 * (assignment_dense.c), large ones over a few candidates of every row (assignment_sparse.c).
 *
 * At the end f_i = -max_j (S_ij + g_j) is taken from the scores themselves, so that rounding inside the
 * search can only show as slack on matched pairs, that is in the duality gap. */
#include "augmenting_paths.h"

#include "exact_sums.h"

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
    const size_t open = padded + rows;
    state->transposed = NULL;
    if (n > m)
        state->transposed = ota_arena_take(arena, take_pairs(arena, rows, padded),
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
    if (ota_match_pays(state->rows, state->columns, OTA_DENSE_PAIRS, OTA_DENSE_WIDE))
        ota_match_layout(&state->dense, arena, state->rows, state->columns,
                         state->rows * ota_int_round_up(state->columns, OTA_MATCH_LANES));
    const size_t candidates = take_pairs(arena, rows, OTA_CANDIDATES);
    state->lists.cost = ota_arena_take(arena, candidates, sizeof(double));
    state->lists.column = ota_arena_take(arena, candidates, sizeof(int32_t));
    state->lists.count = ota_arena_take(arena, rows, sizeof(int32_t));
    state->lists.bound = ota_arena_take(arena, rows, sizeof(double));
    state->lists.reach = ota_arena_take(arena, rows, sizeof(double));
    state->own_cost = ota_arena_take(arena, rows, sizeof(double));
    state->offset = ota_arena_take(arena, rows, sizeof(double));
    state->lists.lowest = ota_arena_take(arena, padded, sizeof(double));
    state->row_cost = ota_arena_take(arena, padded + 1, sizeof(double));
    state->row_column = ota_arena_take(arena, padded + 1, sizeof(int32_t));
    state->heap = ota_arena_take(arena, open, sizeof(int64_t));
    state->heap_slot = ota_arena_take(arena, open, sizeof(int64_t));
}

size_t ota_assignment_workspace(int64_t n, int64_t m, bool narrow) {
    if (n < 0 || m < 0 || n > INT32_MAX - OTA_LANES || m > INT32_MAX - OTA_LANES) return SIZE_MAX;
    ota_arena arena = {0};
    ota_matching state;
    state_layout(&state, &arena, n, m, narrow);
    return ota_arena_overflowed(&arena) ? SIZE_MAX : arena.used;
}

/* The rows that are searched: the problem's, or its columns as rows. */
static void set_rows(ota_matching *state, const ota_assignment *problem, ota_watch *watch) {
    const int64_t bytes = problem->narrow ? (int64_t)sizeof(float) : (int64_t)sizeof(double);
    state->read = problem->costs;
    state->scores = problem->scores;
    state->stride = problem->stride * bytes;
    if (state->transposed == NULL) return;
    for (int64_t first = 0, end = 0; ota_watch_rows(watch, problem->m, problem->n, &first, &end);)
        state->read->transpose((const char *)problem->scores + first * state->stride, end - first,
                               problem->m, problem->stride,
                               (char *)state->transposed + first * bytes, state->padded);
    state->scores = state->transposed;
    state->stride = state->padded * bytes;
}

/* Largest score of each row, largest |score| of all, and NaN or +inf among them. With `prices` also v_j = min_i c_ij while a row
 * is at hand, since most matrices are longer than caches. */
static ota_status find_score_ranges(ota_matching *state, bool prices, ota_watch *watch) {
    double largest = 0.0;
    bool wrong = false;
    state->factor = state->sign;
    for (int64_t j = 0; prices && j < state->columns; j++) state->price[j] = INFINITY;
    for (int64_t i = 0; i < state->rows; i++) {
        const ota_status going = ota_watch_spend(watch, state->columns);
        if (going != OTA_OK) return going;
        ota_score_row row = ota_matching_row(state, i);
        const ota_cost_score_range found =
            state->read->score_range(row.scores, row.count, state->sign);
        row.top = state->top[i] = found.top;
        wrong |= found.wrong;
        if (found.largest > largest) largest = found.largest;
        if (prices && found.top > -INFINITY)
            state->read->lower(&row, i, state->price, state->before);
    }
    if (wrong) return OTA_NONFINITE;
    const double safe = ota_safe_factor(largest);
    state->priced = prices && !(safe < 1.0);
    state->factor = state->sign * safe;
    state->largest = largest * safe;
    for (int64_t i = 0; i < state->rows; i++) {
        if (state->top[i] == -INFINITY) return OTA_INFEASIBLE;
        state->top[i] *= safe;
    }
    return OTA_OK;
}

static double score_in(const void *row, bool narrow, int64_t j) {
    return narrow ? (double)((const float *)row)[j] : ((const double *)row)[j];
}

/* Is no pair better than its row's own at the prices, in exact arithmetic but for `slack`? */
static bool is_optimal(const ota_matching *state, ota_assignment *problem, double slack) {
    for (int64_t i = 0; i < state->rows && !ota_watch_ends(&problem->watch, 8 * state->columns);
         i++) {
        const void *row = ota_matching_row(state, i).scores;
        const int64_t own = state->column_of[i];
        ota_exact at = {0};
        ota_exact_add(&at, score_in(row, problem->narrow, own) * state->factor);
        ota_exact_add(&at, state->price[own]);
        for (int64_t j = 0; j < state->columns; j++) {
            const double score = score_in(row, problem->narrow, j) * state->factor;
            if (!(score > -INFINITY)) continue;
            ota_exact apart = at;
            ota_exact_add(&apart, -score);
            ota_exact_add(&apart, -state->price[j]);
            if (ota_exact_value(&apart) < -slack) return false;
        }
    }
    return true;
}

static void form_costs(const void *context, ota_match *dense) {
    const ota_matching *state = context;
    for (int64_t i = 0; i < state->rows; i++) {
        double *cost = dense->own + i * dense->padded;
        const ota_score_row row = ota_matching_row(state, i);
        state->read->form(&row, cost);
        for (int64_t j = state->columns; j < dense->padded; j++) cost[j] = INFINITY;
    }
    ota_match_own(dense);
}

/* The least |top| that is not 0. */
static double least_top(const ota_matching *state) {
    double least = INFINITY;
    for (int64_t i = 0; i < state->rows; i++) {
        if (fabs(state->top[i]) > 0.0) least = fmin(least, fabs(state->top[i]));
    }
    return least;
}

static ota_status search_densely(ota_matching *state, ota_assignment *problem) {
    ota_match *dense = &state->dense;
    ota_match_resize(dense, state->rows, state->columns, problem->passes->lanes);
    form_costs(state, dense);
    const ota_match_source source = {form_costs, state, least_top(state)};
    const ota_status status =
        ota_match_solve(dense, problem->passes, &problem->watch, &source, &problem->apart);
    for (int64_t i = 0; i < state->rows; i++) state->column_of[i] = dense->column_of[i];
    for (int64_t j = 0; j < state->columns; j++) {
        state->row_of[j] = dense->row_of[j];
        state->price[j] = dense->price[j];
    }
    /* Large costs lost something when the tops were taken off. */
    if (status == OTA_OK && dense->slack > 0.0)
        problem->apart |= !is_optimal(state, problem, dense->slack);
    return status;
}

static void begin_search(ota_matching *state) {
    for (int64_t j = state->priced ? state->columns : 0; j < state->padded; j++)
        state->price[j] = 0.0;
    for (int64_t j = 0; j < state->padded; j++) state->row_of[j] = -1;
}

static double largest_price(const ota_matching *state) {
    double most = 0.0;
    for (int64_t j = 0; j < state->columns; j++) most = fmax(most, fabs(state->price[j]));
    return most;
}

/* Does every row cost the same in all columns? */
static bool costs_nothing(const ota_matching *state, ota_assignment *problem) {
    for (int64_t i = 0; i < state->rows; i++) {
        if (ota_watch_ends(&problem->watch, state->columns)) return false;
        const void *row = ota_matching_row(state, i).scores;
        for (int64_t j = 0; j < state->columns; j++) {
            const double score = score_in(row, problem->narrow, j) * state->factor;
            if (score < state->top[i]) return false;
        }
    }
    return true;
}

/* By candidates, again with a limit of costs where prices cannot tell the small ones apart (assignment_dense.c). */
static ota_status search_by_candidates(ota_matching *state, ota_assignment *problem) {
    if (costs_nothing(state, problem)) {
        for (int64_t j = 0; j < state->columns; j++) state->price[j] = 0.0;
        for (int64_t i = 0; i < state->rows; i++) {
            state->column_of[i] = state->row_of[i] = i;
            state->lists.count[i] = -1;
        }
        return OTA_OK;
    }
    const double least = least_top(state);
    for (;;) {
        const ota_status status = ota_assignment_sparse(state, &problem->watch);
        if (status != OTA_OK) return status;
        const ota_matched found = ota_matched_of(state->own_cost, state->rows, least);
        const bool coarse = ota_matched_is_coarse(&found, largest_price(state));
        problem->apart = ota_matched_is_apart(&found);
        if (coarse && found.sum > 0.0 && 4.0 * found.sum < state->limit) {
            state->limit = 2.0 * found.sum;
            begin_search(state);
            continue;
        }
        for (int64_t j = 0; coarse && !(found.sum > 0.0) && j < state->columns; j++)
            state->price[j] = 0.0;
        if (coarse || state->limit < INFINITY)
            problem->apart |= !is_optimal(state, problem, ota_matched_slack(&found));
        return OTA_OK;
    }
}

static bool is_dense(const ota_matching *state, const ota_assignment *problem) {
    return problem->passes != NULL &&
           ota_match_pays(state->rows, state->columns, OTA_DENSE_PAIRS, OTA_DENSE_WIDE);
}

static ota_status write_potentials(const ota_matching *state, const ota_assignment *problem,
                                   ota_watch *watch) {
    const bool transposed = state->transposed != NULL, sparse = !is_dense(state, problem);
    double *f = transposed ? problem->g : problem->f, *g = transposed ? problem->f : problem->g;
    const int64_t *match = transposed ? state->row_of : state->column_of;
    for (int64_t i = 0; i < problem->n; i++) problem->match[i] = match[i];
    if (f == NULL) return OTA_OK;
    for (int64_t j = 0; j < state->columns; j++) g[j] = state->price[j] / fabs(state->factor);
    for (int64_t i = 0; i < state->rows; i++) {
        const ota_status going = ota_watch_spend(watch, sparse ? OTA_CANDIDATES : state->columns);
        if (going != OTA_OK) return going;
        f[i] = sparse ? ota_assignment_potential(state, i, g)
                      : -state->read->best(ota_matching_row(state, i).scores, state->sign, g,
                                           state->columns);
    }
    return OTA_OK;
}

ota_status ota_assignment_solve(ota_assignment *problem, void *workspace) {
    int64_t n = problem->n;
    int64_t m = problem->m;
    size_t bytes = ota_assignment_workspace(n, m, problem->narrow);
    problem->apart = false;
    if (bytes == SIZE_MAX) return OTA_EOVERFLOW;
    if (n == 0 || m == 0) {
        for (int64_t i = 0; i < n; i++) {
            problem->match[i] = -1;
            if (problem->f != NULL) problem->f[i] = 0.0;
        }
        for (int64_t j = 0; problem->g != NULL && j < m; j++) problem->g[j] = 0.0;
        return OTA_OK;
    }
    ota_arena arena = {.base = workspace, .size = bytes};
    ota_matching state = {.sign = problem->minimise ? -1.0 : 1.0, .limit = INFINITY};
    state_layout(&state, &arena, n, m, problem->narrow);
    ota_watch *watch = &problem->watch;
    set_rows(&state, problem, watch);

    ota_status status = find_score_ranges(&state, n == m && !is_dense(&state, problem), watch);
    if (status != OTA_OK) return status;
    begin_search(&state);
    status = is_dense(&state, problem) ? search_densely(&state, problem)
                                       : search_by_candidates(&state, problem);
    return status == OTA_OK ? write_potentials(&state, problem, watch) : status;
}
