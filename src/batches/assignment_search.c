/* assignment_search.c: the searches of one assignment problem: over a dense matrix, by the search of the operator, and, where costs
 * of pairs dwarf others, by transport. */
#include "assignment_search.h"

#include <math.h>

enum { TRANSPOSE_BLOCK = 8 };

ota_cost_view ota_cost_view_transposed(const ota_cost_view *view) {
    ota_cost_view other = *view;
    other.rows = view->columns, other.columns = view->rows;
    other.row_stride = view->column_stride, other.column_stride = view->row_stride;
    return other;
}

ota_assign_search ota_assign_search_by_costs(const ota_cost_view *view) {
    enum { LOOKS = 64, STRIDE = 40503, FEW_TIES = 4, MANY_LEAST = 8 };
    double seen[LOOKS];
    int finite = 0, ties = 0, least = 0;
    for (int64_t k = 0; k < LOOKS; k++) {
        const double cost = view->sign * ota_cost_of(view, k * view->rows / LOOKS,
                                                     (k + 1) * STRIDE % view->columns);
        if (fabs(cost) < INFINITY) seen[finite++] = cost;
    }
    for (int k = 0; k < finite; k++) {
        int same = 0, below = 0;
        for (int l = 0; l < finite; l++) {
            same += seen[l] <= seen[k] && seen[l] >= seen[k];
            below += seen[l] < seen[k];
        }
        ties += same - 1;
        least = below == 0 ? same : least;
    }
    const bool cheap = least >= MANY_LEAST && least < finite;
    const bool dense = ota_assign_is_roomy(view) ? !cheap : ties > 2 * FEW_TIES;
    return dense ? OTA_DENSELY : OTA_BY_CANDIDATES;
}

/* Of a view whose rows lie in one piece. */
static ota_match_costs costs_of(const ota_cost_view *view, double factor) {
    return (ota_match_costs){.numbers = view->costs,
                             .width = view->columns,
                             .stride = view->row_stride,
                             .factor = factor,
                             .limit = view->limit * fabs(factor),
                             .form = view->type == OTA_F32 ? OTA_MATCH_F32 : OTA_MATCH_F64};
}

/* Writes min(factor c, limit) of the view to the matrix of the search; false: something is not finite or very large. */
static bool take_costs(const ota_batch_kernels *kernels, const ota_cost_view *view, double factor,
                       const ota_match *match) {
    const int64_t padded = match->padded;
    const double limit = view->limit * fabs(factor);
    if (view->column_stride == 1) {
        const ota_match_costs costs = costs_of(view, factor);
        return kernels->match->take(&costs, view->rows, match->own, padded);
    }
    bool plain = true;
    for (int64_t block = 0; block < view->rows; block += TRANSPOSE_BLOCK) {
        const int64_t end = ota_int_min(block + TRANSPOSE_BLOCK, view->rows);
        for (int64_t j = 0; j < view->columns; j++) {
            for (int64_t i = block; i < end; i++) {
                const double cost = ota_cost_of(view, i, j) * factor;
                plain &= fabs(cost) < 0x1p900;
                match->own[i * padded + j] = cost < limit ? cost : limit;
            }
        }
        for (int64_t i = block; i < end; i++) {
            for (int64_t j = view->columns; j < padded; j++) match->own[i * padded + j] = INFINITY;
        }
    }
    return plain;
}

/* NaN or the infinity that nothing can cost; and the largest finite cost. */
static bool is_wrong(const ota_cost_view *view, double *largest) {
    bool wrong = false;
    for (int64_t i = 0; i < view->rows; i++) {
        for (int64_t j = 0; j < view->columns; j++) {
            const double cost = view->sign * ota_cost_of(view, i, j);
            wrong |= !(cost > -INFINITY);
            if (cost < INFINITY) *largest = fmax(*largest, fabs(cost));
        }
    }
    return wrong;
}

/* The costs of a dense search, over and over the same. */
typedef struct dense_costs {
    const ota_batch_kernels *kernels;
    const ota_cost_view *view;
    double factor;
} dense_costs;

static void fill(const void *context, ota_match *match) {
    const dense_costs *costs = context;
    (void)take_costs(costs->kernels, costs->view, costs->factor, match);
    ota_match_own(match);
}

/* Rows that lie in one piece stay where they are: where they find their columns at once, a copy takes longer than the search. */
static bool borrow_costs(const ota_cost_view *view, ota_match *match) {
    match->unread = ota_match_borrows(match) && view->column_stride == 1;
    if (!match->unread) return false;
    match->costs = costs_of(view, view->sign);
    if (view->type == OTA_F64 && view->sign > 0.0 && !(view->limit < INFINITY))
        match->costs.form = OTA_MATCH_PLAIN;
    return true;
}

/* ---- costs that dwarf others ------------------------------------------------------------------ */

/* The same problem as one of transport, whose arithmetic loses nothing; rows <= columns. */
typedef struct as_transport {
    const ota_costs *costs;
    double *scores, *plan, *ones, *f, *g;
    void *work;
} as_transport;

static void transport_layout(as_transport *t, ota_arena *arena, int64_t n, int64_t m) {
    size_t pairs;
    if (!ota_size_product((const int64_t[]){n, m}, 2, &pairs)) arena->overflowed = true;
    t->scores = ota_arena_take(arena, pairs, sizeof(double));
    t->plan = ota_arena_take(arena, pairs, sizeof(double));
    t->ones = ota_arena_take(arena, (size_t)m, sizeof(double));
    t->f = ota_arena_take(arena, (size_t)n, sizeof(double));
    t->g = ota_arena_take(arena, (size_t)m, sizeof(double));
    const size_t bytes = ota_transport_workspace(n, m, OTA_TRANSPORT_PLAIN);
    if (bytes == SIZE_MAX) arena->overflowed = true;
    t->work = ota_arena_take(arena, bytes == SIZE_MAX ? 0 : bytes, 1);
}

static ota_status solve_transport(as_transport *t, const ota_cost_view *view,
                                  const ota_watch *watch) {
    const int64_t n = view->rows, m = view->columns;
    ota_watch copying = *watch;
    for (int64_t i = 0; i < n && !ota_watch_ends(&copying, m); i++) {
        for (int64_t j = 0; j < m; j++)
            t->scores[i * m + j] = -fmin(view->sign * ota_cost_of(view, i, j), view->limit);
    }
    for (int64_t j = 0; j < m; j++) t->ones[j] = 1.0;
    ota_transport problem = {.n = n,
                             .m = m,
                             .scores = t->scores,
                             .stride = m,
                             .mu = t->ones,
                             .nu = t->ones,
                             .capped = n < m,
                             .sink = -INFINITY,
                             .costs = t->costs,
                             .watch = *watch,
                             .plan = t->plan,
                             .plan_stride = m,
                             .f = t->f,
                             .g = t->g};
    return ota_transport_solve(&problem, t->work);
}

/* Memory for it, from the system: few problems need it. */
static ota_status make_transport(as_transport *t, ota_arena *arena, const ota_cost_view *view) {
    transport_layout(t, arena, view->rows, view->columns);
    const ota_status status = ota_arena_allocate(arena);
    if (status == OTA_OK) transport_layout(t, arena, view->rows, view->columns);
    return status;
}

static int64_t matched_column(const as_transport *t, const ota_cost_view *view, int64_t i) {
    int64_t j = 0;
    while (!(t->plan[i * view->columns + j] > 0.5)) j++;
    return j;
}

/* Into the matrix of a dense search. */
static ota_status match_apart(const dense_costs *costs, ota_match *match, double scale,
                              const ota_watch *watch) {
    const ota_cost_view *view = costs->view;
    as_transport t = {.costs = costs->kernels->costs[0]};
    ota_arena arena = {0};
    ota_status status = make_transport(&t, &arena, view);
    if (status == OTA_OK) status = solve_transport(&t, view, watch);
    for (int64_t j = 0; status == OTA_OK && j < view->columns; j++) {
        match->row_of[j] = -1;
        match->price[j] = t.g[j] * scale;
    }
    for (int64_t i = 0; status == OTA_OK && i < view->rows; i++) {
        const int64_t j = matched_column(&t, view, i);
        match->column_of[i] = (int32_t)j;
        match->row_of[j] = (int32_t)i;
    }
    ota_arena_release(&arena);
    return status;
}

/* Into the outputs of the operator's search, of a view with more rows than columns, too. */
static ota_status search_apart(const ota_costs *costs, const ota_assign_worker *w,
                               const ota_cost_view *view, const ota_watch *watch) {
    const bool tall = view->rows > view->columns;
    const ota_cost_view upright = tall ? ota_cost_view_transposed(view) : *view;
    as_transport t = {.costs = costs};
    ota_arena arena = {0};
    ota_status status = make_transport(&t, &arena, &upright);
    if (status == OTA_OK) status = solve_transport(&t, &upright, watch);
    for (int64_t i = 0; status == OTA_OK && i < view->rows; i++) w->match_of[i] = -1;
    for (int64_t i = 0; status == OTA_OK && i < upright.rows; i++) {
        const int64_t j = matched_column(&t, &upright, i);
        w->match_of[tall ? j : i] = tall ? i : j;
        (tall ? w->g : w->f)[i] = t.f[i];
    }
    for (int64_t j = 0; status == OTA_OK && j < upright.columns; j++)
        (tall ? w->f : w->g)[j] = t.g[j];
    ota_arena_release(&arena);
    return status;
}

/* ---- searches --------------------------------------------------------------------------------- */

ota_status ota_assign_densely(const ota_batch_kernels *kernels, ota_assign_worker *w,
                              const ota_cost_view *view, const ota_watch *watch,
                              ota_assign_answer *found) {
    ota_match *match = &w->match;
    ota_match_resize(match, view->rows, view->columns, kernels->match->lanes);
    found->scale = 1.0;
    found->column_of = match->column_of;
    found->row_of = match->row_of;
    found->price = match->price;
    dense_costs costs = {kernels, view, view->sign};
    const ota_match_source source = {fill, &costs, INFINITY};
    bool apart = false;
    ota_status status = OTA_NONFINITE;
    if (borrow_costs(view, match))
        status = ota_match_solve(match, kernels->match, watch, &source, &apart);
    if (status == OTA_NONFINITE) {
        ota_match_resize(match, view->rows, view->columns, kernels->match->lanes);
        if (!take_costs(kernels, view, view->sign, match)) {
            double largest = 0.0;
            if (is_wrong(view, &largest)) return OTA_NONFINITE;
            found->scale = ota_safe_factor(largest);
            costs.factor = view->sign * found->scale;
            if (found->scale < 1.0) (void)take_costs(kernels, view, costs.factor, match);
        }
        status = ota_match_solve(match, kernels->match, watch, &source, &apart);
    }
    return status == OTA_OK && apart ? match_apart(&costs, match, found->scale, watch) : status;
}

/* What is minimised, as the operator's search reads rows. */
static void copy_costs(const ota_cost_view *view, bool narrow, const ota_watch *watch, void *to) {
    ota_watch copying = *watch;
    for (int64_t i = 0; i < view->rows && !ota_watch_ends(&copying, view->columns); i++) {
        for (int64_t j = 0; j < view->columns; j++) {
            /* NaN stays NaN, which the search refuses. */
            const double own = view->sign * ota_cost_of(view, i, j);
            const double cost = own > view->limit ? view->limit : own;
            if (narrow)
                ((float *)to)[i * view->columns + j] = (float)cost;
            else
                ((double *)to)[i * view->columns + j] = cost;
        }
    }
}

ota_status ota_assign_by_candidates(const ota_batch_kernels *kernels, ota_assign_worker *w,
                                    const ota_cost_view *view, const ota_watch *watch,
                                    ota_assign_answer *found) {
    const bool copied = ota_cost_is_copied(view->limit < INFINITY, view->column_stride);
    const bool narrow = view->type == OTA_F32 && !(view->limit < INFINITY);
    if (copied) copy_costs(view, narrow, watch, w->copy);
    ota_assignment problem = {.n = view->rows,
                              .m = view->columns,
                              .scores = copied ? w->copy : view->costs,
                              .stride = copied ? view->columns : view->row_stride,
                              .narrow = narrow,
                              .minimise = copied || view->sign > 0.0,
                              .costs = kernels->costs[narrow],
                              .passes = kernels->match,
                              .watch = *watch,
                              .match = w->match_of,
                              .f = found->priced ? w->f : NULL,
                              .g = found->priced ? w->g : NULL};
    found->match_of = w->match_of;
    const ota_status status = ota_assignment_solve(&problem, w->search);
    return status == OTA_OK && problem.apart ? search_apart(kernels->costs[0], w, view, watch)
                                             : status;
}
