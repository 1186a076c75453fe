/* Coupled columns in a ring that no rounds find: entmax, and weights with caps of entries. Newton (solvers/newton.c) asks for the
 * rows at g, for slopes and for products with them (ota_semidual, solvers/coupled.h), and every answer is made of message rounds, pair by
 * pair in f64: what belongs to a row takes one, what belongs to a key the next, from the potentials f and g alone.
 *
 *     rows        those that find f (ring_thresholds.c, ring_capped_rows.c), and one for the column sums
 *     slopes      one, and one more for what a sink takes of them
 *     links       two: (w x)_i / W_i, then the keys
 *     tops, columns, and either question of validation   one */
#include "ring_semidual.h"

#include <math.h>
#include <string.h>

#include "ring_pairs.h"
#include "solvers/coupled.h"

/* Numbers of the block's keys, of all of them. */
static double *at(const ota_ring_block *b, double *keys) {
    return keys + b->piece->first + b->in.key;
}

/* Temperatures below the top of its row from which on a score counts as no lower: it carries nothing there, and its range would
 * put the floor of rounding above every tolerance (solvers/far_scores.c). */
static const double far_depth = 0x1p20;

/* ---- loading and validation ------------------------------------------------------------------------- */

static void find_row_range(const ota_ring_block *b, void *context) {
    ota_ring_pairs *p = b->ring->pairs;
    (void)context;
    for (int64_t k = 0; k < b->in.rows; k++) {
        const int64_t row = b->at + k;
        const double *s = b->in.scores + k * b->in.stride;
        double top;
        if (!ota_ring_score_range(b, k, &top)) continue;
        p->top[row] = fmax(p->top[row], top);
        for (int64_t j = 0; j < b->in.keys; j++) {
            if (s[j] > -INFINITY) p->second[row] = fmin(p->second[row], s[j]);
        }
    }
}

bool ota_ring_load(ota_head *head) {
    ota_ring_device *ring = head->host.place;
    ota_ring_pairs *p = ring->pairs;
    ota_ring_sums used = {.number = OTA_RING_ALLOWED, .keys = ring->columns.local};
    const ota_ring_pair_round pair_round = {.visits = {.form = ota_ring_form_number,
                                                       .rows = find_row_range,
                                                       .keys = ota_ring_sum_by_keys,
                                                       .context = &used},
                                            .step = "passing keys on for the range of the scores"};
    double low = INFINITY, high = -INFINITY;
    bool finite = true;
    ota_ring_widen_queries(ring);
    for (int64_t i = 0; i < head->rows; i++) {
        p->state[i] = OTA_RING_LISTED;
        p->top[i] = -INFINITY;
        p->second[i] = INFINITY;
    }
    memset(ring->columns.local, 0, (size_t)head->columns * sizeof *ring->columns.local);
    (void)ota_ring_visit_pairs(ring, &pair_round);
    for (int64_t i = 0; i < head->rows; i++) {
        const double mu = ota_ring_row_mass(ring, i);
        const bool empty = !(p->top[i] > -INFINITY) && !(head->row.sink > -INFINITY) &&
                           p->state[i] != OTA_RING_NONFINITE;
        finite &= p->state[i] != OTA_RING_NONFINITE;
        low = fmin(low, fmax(p->second[i], p->top[i] - far_depth * head->tau));
        high = fmax(high, p->top[i]);
        ring->columns.mu[i] = empty ? 0.0 : mu;
        head->mass += ring->columns.mu[i];
        if (empty && mu > 0.0) head->found.unusable = -1;
    }
    for (int64_t j = 0; j < head->columns; j++)
        head->kernel.used[j] = ring->columns.local[j] > 0.0 ? OTA_KEY_IDLE : OTA_KEY_SHUT;
    memset(ring->columns.local, 0, (size_t)head->columns * sizeof *ring->columns.local);
    ota_head_put_range(head, low, high);
    return finite;
}

/* What fails in these message rounds is seen by the next sum over the ranks. */
static int64_t infeasible_row(ota_coupled *state) {
    const ota_head *head = state->head;
    ota_ring_device *ring = head->host.place;
    double *open = ring->columns.local;
    ota_ring_sums sums = {.number = OTA_RING_ALLOWED,
                          .head = head,
                          .x_keys = open,
                          .rows = ring->pairs->first,
                          .keys = state->pass.column_lse};
    for (int64_t j = 0; j < head->columns; j++) open[j] = ota_coupled_closes(head, j) ? 0.0 : 1.0;
    (void)ota_ring_sum_pairs(ring, &sums, "passing keys on for the keys in use");
    for (int64_t i = 0; i < head->rows && !(head->row.sink > -INFINITY); i++) {
        if (head->mu[i] > 0.0 && !(ring->pairs->first[i] > 0.0)) return i;
    }
    ota_ring_clear(open, head->columns);
    return -1;
}

static int64_t infeasible_cap_row(ota_coupled *state, double slack, double *room, double *row_sum) {
    const ota_head *head = state->head;
    ota_ring_device *ring = head->host.place;
    const double *rows = ring->pairs->first;
    ota_ring_sums sums = {
        .number = OTA_RING_CAPS, .head = head, .rows = ring->pairs->first, .keys = room};
    (void)ota_ring_sum_pairs(ring, &sums, "passing keys on for the sums of the caps");
    for (int64_t i = 0; i < head->rows && !(head->row.sink > -INFINITY); i++) {
        if (!(head->mu[i] > 0.0) || !(rows[i] < head->mu[i] - slack)) continue;
        *row_sum = rows[i];
        return i;
    }
    return -1;
}

/* ---- Newton --------------------------------------------------------------------------------------- */

/* f of the rows at g and temperature t, in the head, too. */
static void find_rows(ota_head *head, double t) {
    ota_ring_device *ring = head->host.place;
    ring->columns.temperature = t;
    (void)ota_ring_find_thresholds(ring);
    for (int64_t i = 0; i < head->rows; i++) {
        ota_row_parameters row;
        head->f[i] = ring->pairs->f[i];
        ring->pairs->sink[i] = ota_ring_sink_of(ring, i, &row);
    }
}

static void solve_rows(ota_coupled *state, double t, double *sums) {
    ota_ring_sums weights = {.keys = sums};
    find_rows(state->head, t);
    (void)ota_ring_sum_pairs(state->head->host.place, &weights,
                             "passing keys on for the column sums of Newton");
}

/* Rows are exact: k = 1. */
static void find_slopes(ota_coupled *state, double t, double *full, double *leak) {
    const ota_head *head = state->head;
    ota_ring_device *ring = head->host.place;
    ota_ring_pairs *p = ring->pairs;
    static const char step[] = "passing keys on for the system of Newton";
    ota_ring_sums slopes = {
        .number = OTA_RING_SLOPES, .head = head, .rows = p->slope, .keys = full};
    ota_ring_sums leaks = {
        .number = OTA_RING_SLOPES, .head = head, .x_rows = p->first, .keys = leak};
    ring->columns.temperature = t;
    (void)ota_ring_sum_pairs(ring, &slopes, step);
    memset(leak, 0, (size_t)head->columns * sizeof *leak);
    for (int64_t i = 0; i < head->rows; i++) {
        const double sink = head->row.regulariser->tsallis
                                ? ota_newton_slope(head, head->mu[i], p->sink[i])
                                : p->sink[i];
        p->slope[i] += sink;
        p->first[i] = p->slope[i] > 0.0 ? sink / p->slope[i] : 0.0;
    }
    if (head->row.sink > -INFINITY) (void)ota_ring_sum_pairs(ring, &leaks, step);
}

void ota_ring_apply_links(ota_ring_device *ring, const ota_head *head, const double *x, double *y) {
    ota_ring_pairs *p = ring->pairs;
    static const char step[] = "passing keys on for a product";
    ota_ring_sums rows = {.number = OTA_RING_SLOPES, .head = head, .x_keys = x, .rows = p->first};
    ota_ring_sums keys = {.number = OTA_RING_SLOPES, .head = head, .x_rows = p->first, .keys = y};
    (void)ota_ring_sum_pairs(ring, &rows, step);
    for (int64_t i = 0; i < ring->resolved->queries; i++)
        p->first[i] = p->slope[i] > 0.0 ? -p->first[i] / p->slope[i] : 0.0;
    (void)ota_ring_sum_pairs(ring, &keys, step);
}

static void apply_links(ota_coupled *state, const double *x, double *y) {
    ota_ring_apply_links(state->head->host.place, state->head, x, y);
}

static void find_top(const ota_ring_block *b, void *context) {
    const ota_ring_sums *of = context;
    double *top = at(b, of->keys);
    for (int64_t k = 0; k < b->in.rows; k++) {
        const double *s = b->in.scores + k * b->in.stride, f = of->head->f[b->at + k];
        for (int64_t j = 0; j < b->in.keys && f > -INFINITY; j++) top[j] = fmax(top[j], s[j] + f);
    }
}

static void find_tops(ota_coupled *state, double *top) {
    ota_ring_sums sums = {.head = state->head, .keys = top};
    const ota_ring_pair_round pair_round = {.visits = {.keys = find_top, .context = &sums},
                                            .step =
                                                "passing keys on for a column update of Newton"};
    for (int64_t j = 0; j < state->head->columns; j++) top[j] = -INFINITY;
    (void)ota_ring_visit_pairs(state->head->host.place, &pair_round);
}

static void weigh_columns(ota_coupled *state, double t, double *sums, double *slopes) {
    ota_ring_device *ring = state->head->host.place;
    ota_ring_sums both = {.keys = sums, .slopes = slopes};
    ring->columns.temperature = t;
    (void)ota_ring_sum_pairs(ring, &both, "passing keys on for a column update of Newton");
}

const ota_semidual ota_ring_semidual = {.infeasible_row = infeasible_row,
                                        .infeasible_cap_row = infeasible_cap_row,
                                        .rows = solve_rows,
                                        .slopes = find_slopes,
                                        .links = apply_links,
                                        .tops = find_tops,
                                        .columns = weigh_columns};

/* ---- passes --------------------------------------------------------------------------------------- */

void ota_ring_lay_out_passes(ota_passes *passes, ota_arena *arena, bool kernel) {
    double **columns[] = {&passes->target, &passes->column, &passes->column_lse, &passes->previous};
    (void)kernel;
    passes->padded_columns = (passes->columns + 16) / 16 * 16;
    passes->chunks = 1;
    passes->chunk_rows = passes->rows;
    for (size_t k = 0; k < sizeof columns / sizeof columns[0]; k++)
        *columns[k] = ota_arena_take(arena, (size_t)passes->padded_columns, sizeof(double));
    passes->error = ota_arena_take(arena, (size_t)passes->rows + 1, sizeof(double));
}

static void add_row_statistics(const ota_ring_block *b, void *context) {
    (void)context;
    ota_ring_add_statistics(b);
}

void ota_ring_final_pass(ota_passes *passes) {
    ota_head *head = passes->head;
    ota_ring_device *ring = head->host.place;
    const ota_ring_pairs *p = ring->pairs;
    ota_ring_sums sums = {.keys = passes->column};
    const ota_ring_pair_round pair_round = {.visits = {.form = ota_ring_form_number,
                                                       .rows = add_row_statistics,
                                                       .keys = ota_ring_sum_by_keys,
                                                       .context = &sums},
                                            .step = "passing keys on for the sums of the plan"};
    find_rows(head, head->tau);
    memset(passes->column, 0, (size_t)head->columns * sizeof *passes->column);
    (void)ota_ring_visit_pairs(ring, &pair_round);
    memcpy(ring->columns.local, passes->column,
           (size_t)head->columns * sizeof *ring->columns.local);
    for (int64_t i = 0; i < head->rows; i++)
        passes->error[i] = fabs(p->sums[i].mass + p->sink[i] - head->mu[i]);
}

void ota_ring_emit(ota_head *head) {
    ota_ring_device *ring = head->host.place;
    ring->columns.temperature = 0.0;
    if (ota_ring_attend_pairs(ring)) (void)ota_ring_measure(ring);
}
