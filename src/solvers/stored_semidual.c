/* The semi-dual of a head whose scores are stored [rows][stride]: P in `weights`, then w sqrt(k / W) in its place. Rows are cut
 * into chunks whose sums are added in order. */
#include "coupled.h"

#include <string.h>

enum {
    BLOCK = 64,
    PRODUCT_ROWS = 1024
}; /* keys of one block of the Hessian, rows of one product */

typedef struct pass {
    ota_coupled *state;
    double t;
    ota_row_parameters parameters;
    const double *x;
} pass;

static pass pass_of(ota_coupled *state, double t) {
    return (pass){.state = state, .t = t, .parameters = ota_coupled_rows(state, t)};
}

/* ---- validation -------------------------------------------------------------------------------- */

/* Is some pair of row i forbidden? */
#define CLOSED(NAME, TYPE)                                                                         \
    static bool NAME(const ota_coupled *state, int64_t i) {                                        \
        const TYPE *row = (const TYPE *)state->pass.scores + i * state->pass.stride;               \
        int closed = 0;                                                                            \
        for (int64_t j = 0; j < state->pass.columns; j++) closed |= !(row[j] > (TYPE)-INFINITY);   \
        return closed != 0;                                                                        \
    }
CLOSED(has_closed_narrow, float)
CLOSED(has_closed_wide, double)

/* Marks the keys that row i may use; how many of those that are not closed it may use, and how many not. */
#define LOOK(NAME, TYPE)                                                                           \
    static void NAME(ota_coupled *state, int64_t i, const double *closed, double *usable,          \
                     double *forbidden) {                                                          \
        const TYPE *row = (const TYPE *)state->pass.scores + i * state->pass.stride;               \
        double *used = state->pass.column_lse, open = 0.0, shut = 0.0;                             \
        for (int64_t j = 0; j < state->pass.columns; j++) {                                        \
            const double may = row[j] > (TYPE)-INFINITY ? 1.0 : 0.0, asks = 1.0 - closed[j];       \
            used[j] = may > used[j] ? may : used[j];                                               \
            open += may * asks;                                                                    \
            shut += (1.0 - may) * asks;                                                            \
        }                                                                                          \
        *usable = open;                                                                            \
        *forbidden = shut;                                                                         \
    }
LOOK(look_narrow, float)
LOOK(look_wide, double)

static int64_t infeasible_row(ota_coupled *state) {
    const ota_head *head = state->head;
    int64_t shut = -1;
    double *closed = state->pass.previous;
    double open_keys = 0.0;
    bool all_used = false;
    for (int64_t j = 0; j < state->pass.columns; j++) {
        closed[j] = ota_coupled_closes(head, j) ? 1.0 : 0.0;
        open_keys += 1.0 - closed[j];
    }
    memset(state->pass.column_lse, 0,
           (size_t)state->pass.padded_columns * sizeof *state->pass.column_lse);
    ota_watch watch = ota_watch_within(head->settings);
    for (int64_t i = 0; i < state->pass.rows && !ota_watch_ends(&watch, state->pass.columns); i++) {
        if (!(head->mu[i] > 0.0)) continue;
        double usable = open_keys, forbidden = 0.0;
        const bool narrow = state->pass.narrow;
        if (!(narrow ? has_closed_narrow(state, i) : has_closed_wide(state, i)))
            all_used = true;
        else if (narrow)
            look_narrow(state, i, closed, &usable, &forbidden);
        else
            look_wide(state, i, closed, &usable, &forbidden);
        if (forbidden > 0.0) state->masked = true;
        if (!(usable > 0.0) && !(head->row.sink > -INFINITY) && shut < 0) shut = i;
    }
    for (int64_t j = 0; j < state->pass.columns && all_used; j++) state->pass.column_lse[j] = 1.0;
    return shut;
}

static int64_t infeasible_cap_row(ota_coupled *state, double slack, double *room, double *row_sum) {
    const ota_head *head = state->head;
    int64_t infeasible_cap_row = -1;
    for (int64_t j = 0; j < state->pass.columns; j++) room[j] = 0.0;
    ota_watch watch = ota_watch_within(head->settings);
    for (int64_t i = 0; i < state->pass.rows && !ota_watch_ends(&watch, state->pass.columns); i++) {
        double row = head->row.sink > -INFINITY ? INFINITY : 0.0;
        for (int64_t j = 0; j < state->pass.columns; j++) {
            if (!(ota_score(&state->pass, i, j) > -INFINITY) || !(head->mu[i] > 0.0)) continue;
            const double cap = ota_entry_cap(&head->row.caps, i, j);
            room[j] += cap;
            row += cap;
        }
        if (infeasible_cap_row >= 0 || !(row < head->mu[i] - slack)) continue;
        infeasible_cap_row = i;
        *row_sum = row;
    }
    return infeasible_cap_row;
}

/* ---- rows at g ------------------------------------------------------------------------------- */

static void solve_chunk(void *context, int64_t chunk, int worker) {
    (void)worker;
    const pass *now = context;
    ota_coupled *state = now->state;
    ota_head *head = state->head;
    ota_row_parameters parameters = now->parameters;
    double *column = state->pass.chunk.sums + chunk * state->pass.padded_columns;
    int64_t first, last;
    ota_chunk_rows(&state->pass, chunk, &first, &last);
    memset(column, 0, (size_t)state->pass.padded_columns * sizeof *column);
    ota_watch watch = ota_watch_within(head->settings);
    for (int64_t i = first; i < last && !ota_watch_ends(&watch, state->pass.columns); i++) {
        ota_row_found found;
        double *p = state->weights + i * state->pass.stride;
        const double *s = state->wide + i * state->pass.stride;
        parameters.line = i;
        state->head->host.algebra->row_solve(&parameters, s, head->g, state->pass.columns,
                                             head->mu[i], p, &found);
        head->host.algebra->accumulate(p, state->pass.columns, 1.0, column);
        head->f[i] = found.potential;
        state->sinks[i] = found.sink;
    }
}

static void solve_rows(ota_coupled *state, double t, double *sums) {
    pass now = pass_of(state, t);
    ota_each_chunk(&state->pass, solve_chunk, &now);
    ota_add_chunks(&state->pass, state->pass.chunk.sums, sums);
}

/* ---- Hessian --------------------------------------------------------------------------------- */

/* w of one Tsallis weight. Above order 2 it is unbounded at the edge of the support. */
double ota_newton_slope(const ota_head *head, double mass, double p) {
    const double power = 2.0 - head->row.order, least = 1.0e-8 * mass;
    if (!(p > 0.0)) return 0.0;
    if (power < 0.0) return pow(p > least ? p : least, power);
    return power > 0.0 ? pow(p, power) : 1.0;
}

/* P -> w sqrt(k / W) in place; column sums of w times what the row leaks (sink, relaxed row). */
static void curve_chunk(void *context, int64_t chunk, int worker) {
    (void)worker;
    const pass *now = context;
    ota_coupled *state = now->state;
    const ota_head *head = state->head;
    const ota_host_algebra *algebra = head->host.algebra;
    const bool tsallis = head->row.regulariser->tsallis;
    const double keep =
        head->row.strength < INFINITY ? head->row.strength / (head->row.strength + now->t) : 1.0;
    double *leak = state->pass.chunk.sums + chunk * state->pass.padded_columns,
           *full = state->pass.chunk.relaxed + chunk * state->pass.padded_columns;
    int64_t first, last;
    ota_chunk_rows(&state->pass, chunk, &first, &last);
    memset(leak, 0, (size_t)state->pass.padded_columns * sizeof *leak);
    memset(full, 0, (size_t)state->pass.padded_columns * sizeof *full);
    ota_watch watch = ota_watch_within(head->settings);
    for (int64_t i = first; i < last && !ota_watch_ends(&watch, state->pass.columns); i++) {
        double *w = state->weights + i * state->pass.stride;
        double sink = state->sinks[i];
        for (int64_t j = 0; head->row.regulariser->capped && j < state->pass.columns; j++) {
            if (w[j] >= ota_entry_cap(&head->row.caps, i, j)) w[j] = 0.0;
        }
        if (tsallis) {
            for (int64_t j = 0; j < state->pass.columns; j++)
                w[j] = ota_newton_slope(head, head->mu[i], w[j]);
            sink = ota_newton_slope(head, head->mu[i], sink);
        }
        const double total = algebra->sum(w, state->pass.columns) + sink;
        if (!(total > 0.0)) {
            memset(w, 0, (size_t)state->pass.columns * sizeof *w);
            continue;
        }
        algebra->accumulate(w, state->pass.columns, 1.0, full);
        if (keep < 1.0 || sink > 0.0)
            algebra->accumulate(w, state->pass.columns,
                                ((1.0 - keep) * total + keep * sink) / total, leak);
        algebra->multiply(w, state->pass.columns, sqrt(keep / total));
    }
}

static void find_slopes(ota_coupled *state, double t, double *full, double *excess) {
    pass now = pass_of(state, t);
    ota_each_chunk(&state->pass, curve_chunk, &now);
    ota_add_chunks(&state->pass, state->pass.chunk.sums, excess);
    ota_add_chunks(&state->pass, state->pass.chunk.relaxed, full);
}

static int64_t across_stride(const ota_coupled *state) { return (state->pass.rows + 15) / 16 * 16; }

static void turn_chunk(void *context, int64_t chunk, int worker) {
    (void)worker;
    const ota_coupled *state = context;
    const int64_t length = across_stride(state);
    int64_t first, last;
    ota_chunk_rows(&state->pass, chunk, &first, &last);
    ota_watch watch = ota_watch_of(state->head->settings);
    for (int64_t j = 0; j < state->pass.columns; j++) {
        /* Each number lies in a line of its own. */
        if (ota_watch_ends(&watch, 8 * (last - first))) return;
        for (int64_t i = first; i < last; i++)
            state->across[j * length + i] = state->weights[i * state->pass.stride + j];
    }
}

static void link_block(void *context, int64_t block, int worker) {
    (void)worker;
    const ota_coupled *state = context;
    const int64_t first = block * BLOCK, length = across_stride(state);
    const int64_t last = first + BLOCK < state->pass.columns ? first + BLOCK : state->pass.columns;
    double *to = state->hessian + first * state->pass.padded_columns;
    for (int64_t j = first; j < last; j++)
        memset(state->hessian + j * state->pass.padded_columns, 0, (size_t)last * sizeof *to);
    ota_watch watch = ota_watch_of(state->head->settings);
    /* Products over so many rows join the sum one after another in any case. */
    for (int64_t i = 0; i < state->pass.rows && !ota_watch_ends(&watch, PRODUCT_ROWS * BLOCK);
         i += PRODUCT_ROWS) {
        const ota_product sizes = {.rows = last - first,
                                   .keys = ota_int_min(PRODUCT_ROWS, state->pass.rows - i),
                                   .width = last,
                                   .ldp = length,
                                   .ldv = state->pass.stride,
                                   .ldo = state->pass.padded_columns};
        state->head->host.algebra->apply(state->across + first * length + i,
                                         state->weights + i * state->pass.stride, &sizes, to);
    }
}

void ota_newton_links(ota_coupled *state) {
    ota_each_chunk(&state->pass, turn_chunk, state);
    const int64_t blocks = (state->pass.columns + BLOCK - 1) / BLOCK;
    ota_parallel(state->head->host.pool, blocks, link_block, state);
}

static void multiply_chunk(void *context, int64_t chunk, int worker) {
    (void)worker;
    const pass *now = context;
    ota_coupled *state = now->state;
    const ota_host_algebra *algebra = state->head->host.algebra;
    double *column = state->pass.chunk.sums + chunk * state->pass.padded_columns;
    int64_t first, last;
    ota_chunk_rows(&state->pass, chunk, &first, &last);
    memset(column, 0, (size_t)state->pass.padded_columns * sizeof *column);
    ota_watch watch = ota_watch_within(state->head->settings);
    for (int64_t i = first; i < last && !ota_watch_ends(&watch, state->pass.columns); i++) {
        const double *w = state->weights + i * state->pass.stride;
        double sum = 0.0;
        for (int64_t j = 0; j < state->pass.columns; j++) sum += w[j] * now->x[j];
        algebra->accumulate(w, state->pass.columns, -sum, column);
    }
}

static void apply_links(ota_coupled *state, const double *x, double *y) {
    pass now = {.state = state, .x = x};
    ota_each_chunk(&state->pass, multiply_chunk, &now);
    ota_add_chunks(&state->pass, state->pass.chunk.sums, y);
}

/* ---- columns, the rows held ------------------------------------------------------------------ */

static void weigh_chunk(void *context, int64_t chunk, int worker) {
    (void)worker;
    const pass *now = context;
    ota_coupled *state = now->state;
    const ota_host_algebra *algebra = state->head->host.algebra;
    const int64_t columns = state->pass.columns, lane = chunk * state->pass.padded_columns;
    const double power = 2.0 - now->parameters.order;
    ota_row_parameters parameters = now->parameters;
    const bool capped = parameters.regulariser->capped;
    double *sum = state->pass.chunk.sums + lane, *slope = state->pass.chunk.relaxed + lane;
    int64_t first, last;
    ota_chunk_rows(&state->pass, chunk, &first, &last);
    memset(sum, 0, (size_t)columns * sizeof *sum);
    memset(slope, 0, (size_t)columns * sizeof *slope);
    ota_watch watch = ota_watch_within(state->head->settings);
    for (int64_t i = first; i < last && !ota_watch_ends(&watch, state->pass.columns); i++) {
        ota_row_found found;
        double *p = state->weights + i * state->pass.stride;
        parameters.line = i;
        algebra->row_weights(&parameters, state->wide + i * state->pass.stride, state->head->g,
                             columns, state->head->f[i], p, &found);
        algebra->accumulate(p, columns, 1.0, sum);
        for (int64_t j = 0; j < columns; j++) {
            const bool rests = capped && p[j] >= ota_entry_cap(&parameters.caps, i, j);
            slope[j] += p[j] > 0.0 && !rests ? pow(p[j], power) : 0.0;
        }
    }
}

static void weigh_columns(ota_coupled *state, double t, double *sums, double *slopes) {
    pass now = pass_of(state, t);
    now.parameters.sink = -INFINITY;
    now.parameters.row_strength = INFINITY;
    ota_each_chunk(&state->pass, weigh_chunk, &now);
    ota_add_chunks(&state->pass, state->pass.chunk.sums, sums);
    ota_add_chunks(&state->pass, state->pass.chunk.relaxed, slopes);
}

static void find_tops(ota_coupled *state, double *top) {
    ota_watch watch = ota_watch_within(state->head->settings);
    for (int64_t j = 0; j < state->pass.columns; j++) top[j] = -INFINITY;
    for (int64_t first = 0, end = 0;
         ota_watch_rows(&watch, state->pass.columns, state->pass.rows, &first, &end);)
        state->head->host.algebra->columns_top(state->wide + first * state->pass.stride,
                                               state->pass.stride, end - first, state->pass.columns,
                                               state->head->f + first, top);
}

void ota_widen_scores(ota_coupled *state) {
    const float *from = state->pass.scores;
    const int64_t stride = state->pass.stride;
    ota_watch watch = ota_watch_within(state->head->settings);
    state->wide = state->pass.narrow ? state->widened : state->pass.scores;
    if (!state->pass.narrow) return;
    for (int64_t first = 0, end = 0;
         ota_watch_rows(&watch, stride, state->pass.rows, &first, &end);) {
        for (int64_t k = first * stride; k < end * stride; k++) state->widened[k] = (double)from[k];
    }
}

const ota_semidual ota_stored_semidual = {.infeasible_row = infeasible_row,
                                          .infeasible_cap_row = infeasible_cap_row,
                                          .rows = solve_rows,
                                          .slopes = find_slopes,
                                          .links = apply_links,
                                          .tops = find_tops,
                                          .columns = weigh_columns};
