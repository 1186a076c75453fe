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

/* ---- a message round --------------------------------------------------------------------------------------- */

typedef struct message_round_job {
    const ota_head *head;              /* at work by Newton, or NULL */
    ota_ring_block_visit *rows, *keys; /* or NULL */
    const double *x;                   /* [keys] */
    double *sums, *slopes;             /* [keys] */
    double from;                       /* of sums: what a key without rows has */
} message_round_job;

static void visit_piece(ota_ring_device *ring, const ota_ring_piece *piece, void *context) {
    const message_round_job *job = context;
    if (ring->failed != OTA_OK) return;
    ota_ring_pairs_load(ring, piece, false);
    if (job->rows != NULL) ota_ring_by_rows(ring, piece, job->rows, context);
    if (job->keys != NULL) ota_ring_by_keys(ring, piece, job->keys, context);
}

/* What fails is seen by the next sum over the ranks. */
static void go(ota_ring_device *ring, message_round_job *job, const char *step) {
    const ota_message_round message_round = {
        .unit = ring->unit, .visit = visit_piece, .context = job, .step = step};
    for (int64_t j = 0; j < ring->resolved->keys && job->sums != NULL; j++)
        job->sums[j] = job->from;
    for (int64_t j = 0; j < ring->resolved->keys && job->slopes != NULL; j++) job->slopes[j] = 0.0;
    (void)ota_ring_go(ring, &message_round);
}

static void clear_rows(const ota_ring_device *ring, double *x) {
    memset(x, 0, (size_t)ring->resolved->queries * sizeof *x);
}

/* Numbers of the block's keys, of all of them. */
static double *at(const ota_ring_block *b, double *keys) {
    return keys + b->piece->first + b->in.key;
}

/* Newton's w of a weight, or w itself. */
static double slope_of(const ota_ring_block *b, const ota_head *head, int64_t k, int64_t j) {
    const double p = b->in.weights[k * b->in.stride + j];
    if (head == NULL) return ota_block_slope(&b->in, k, j);
    if (b->ring->rule == OTA_RING_BY_CAPS && p >= ota_block_cap(&b->in, k, j)) return 0.0;
    return head->row.regulariser->tsallis ? ota_newton_slope(head, head->mu[b->at + k], p) : p;
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

static void find_used(const ota_ring_block *b, void *context) {
    const message_round_job *job = context;
    double *used = at(b, job->sums);
    for (int64_t k = 0; k < b->in.rows; k++) {
        const double *s = b->in.scores + k * b->in.stride;
        if (job->head != NULL && !(job->head->mu[b->at + k] > 0.0)) continue;
        for (int64_t j = 0; j < b->in.keys; j++) {
            if (s[j] > -INFINITY) used[j] = 1.0;
        }
    }
}

bool ota_ring_load(ota_head *head) {
    ota_ring_device *ring = head->host.place;
    ota_ring_pairs *p = ring->pairs;
    message_round_job job = {
        .rows = find_row_range, .keys = find_used, .sums = ring->columns.local};
    double low = INFINITY, high = -INFINITY;
    bool finite = true;
    ota_ring_widen_queries(ring);
    for (int64_t i = 0; i < head->rows; i++) {
        p->state[i] = OTA_RING_LISTED;
        p->top[i] = -INFINITY;
        p->second[i] = INFINITY;
    }
    go(ring, &job, "passing keys on for the range of the scores");
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
    head->scores.range = high > low ? high - low : 0.0;
    return finite;
}

static void find_open(const ota_ring_block *b, void *context) {
    const message_round_job *job = context;
    const ota_head *head = job->head;
    for (int64_t k = 0; k < b->in.rows; k++) {
        const double *s = b->in.scores + k * b->in.stride;
        for (int64_t j = 0; j < b->in.keys; j++) {
            if (s[j] > -INFINITY && !ota_coupled_closes(head, b->piece->first + b->in.key + j))
                b->ring->pairs->first[b->at + k] = 1.0;
        }
    }
}

static int64_t infeasible_row(ota_coupled *state) {
    const ota_head *head = state->head;
    ota_ring_device *ring = head->host.place;
    message_round_job job = {
        .head = state->head, .rows = find_open, .keys = find_used, .sums = state->pass.column_lse};
    clear_rows(ring, ring->pairs->first);
    go(ring, &job, "passing keys on for the keys in use");
    for (int64_t i = 0; i < head->rows && !(head->row.sink > -INFINITY); i++) {
        if (head->mu[i] > 0.0 && !(ring->pairs->first[i] > 0.0)) return i;
    }
    return -1;
}

static void add_row_caps(const ota_ring_block *b, void *context) {
    (void)context;
    for (int64_t k = 0; k < b->in.rows; k++) {
        const double *s = b->in.scores + k * b->in.stride;
        for (int64_t j = 0; j < b->in.keys; j++) {
            if (s[j] > -INFINITY) b->ring->pairs->first[b->at + k] += ota_block_cap(&b->in, k, j);
        }
    }
}

static void add_key_caps(const ota_ring_block *b, void *context) {
    const message_round_job *job = context;
    double *room = at(b, job->sums);
    for (int64_t k = 0; k < b->in.rows; k++) {
        const double *s = b->in.scores + k * b->in.stride;
        if (!(job->head->mu[b->at + k] > 0.0)) continue;
        for (int64_t j = 0; j < b->in.keys; j++) {
            if (s[j] > -INFINITY) room[j] += ota_block_cap(&b->in, k, j);
        }
    }
}

static int64_t infeasible_cap_row(ota_coupled *state, double slack, double *room, double *row_sum) {
    const ota_head *head = state->head;
    ota_ring_device *ring = head->host.place;
    const double *rows = ring->pairs->first;
    message_round_job job = {
        .head = state->head, .rows = add_row_caps, .keys = add_key_caps, .sums = room};
    clear_rows(ring, ring->pairs->first);
    go(ring, &job, "passing keys on for the sums of the caps");
    for (int64_t i = 0; i < head->rows && !(head->row.sink > -INFINITY); i++) {
        if (!(head->mu[i] > 0.0) || !(rows[i] < head->mu[i] - slack)) continue;
        *row_sum = rows[i];
        return i;
    }
    return -1;
}

/* ---- Newton --------------------------------------------------------------------------------------- */

static void add_weights(const ota_ring_block *b, void *context) {
    const message_round_job *job = context;
    double *sums = at(b, job->sums);
    ota_ring_weigh(b);
    for (int64_t k = 0; k < b->in.rows; k++) {
        const double *weights = b->in.weights + k * b->in.stride;
        for (int64_t j = 0; j < b->in.keys; j++) sums[j] += weights[j];
    }
}

/* f of the rows at g and temperature t, in the head, too. */
static void find_rows(ota_head *head, double t) {
    ota_ring_device *ring = head->host.place;
    ring->columns.temperature = t;
    (void)ota_ring_find_thresholds(ring);
    for (int64_t i = 0; i < head->rows; i++) {
        const ota_row_parameters row = ota_ring_parameters(ring, 0);
        head->f[i] = ring->pairs->f[i];
        ring->pairs->sink[i] = ota_ring_weight(ring, &row, row.sink, head->f[i]);
    }
}

static void solve_rows(ota_coupled *state, double t, double *sums) {
    message_round_job job = {.head = state->head, .keys = add_weights, .sums = sums};
    find_rows(state->head, t);
    go(state->head->host.place, &job, "passing keys on for the column sums of Newton");
}

static void add_row_slopes(const ota_ring_block *b, void *context) {
    const message_round_job *job = context;
    ota_ring_weigh(b);
    for (int64_t k = 0; k < b->in.rows; k++) {
        for (int64_t j = 0; j < b->in.keys; j++)
            b->ring->pairs->slope[b->at + k] += slope_of(b, job->head, k, j);
    }
}

static void add_key_slopes(const ota_ring_block *b, void *context) {
    const message_round_job *job = context;
    double *full = at(b, job->slopes);
    ota_ring_weigh(b);
    for (int64_t k = 0; k < b->in.rows; k++) {
        for (int64_t j = 0; j < b->in.keys; j++) full[j] += slope_of(b, job->head, k, j);
    }
}

/* sum_i w_ij first_i */
static void spread_rows(const ota_ring_block *b, void *context) {
    const message_round_job *job = context;
    double *to = at(b, job->sums);
    ota_ring_weigh(b);
    for (int64_t k = 0; k < b->in.rows; k++) {
        const double share = b->ring->pairs->first[b->at + k];
        for (int64_t j = 0; j < b->in.keys; j++) to[j] += slope_of(b, job->head, k, j) * share;
    }
}

/* Rows are exact: k = 1. */
static void find_slopes(ota_coupled *state, double t, double *full, double *leak) {
    const ota_head *head = state->head;
    ota_ring_device *ring = head->host.place;
    ota_ring_pairs *p = ring->pairs;
    message_round_job slopes = {
        .head = head, .rows = add_row_slopes, .keys = add_key_slopes, .slopes = full};
    message_round_job leaks = {.head = state->head, .keys = spread_rows, .sums = leak};
    ring->columns.temperature = t;
    clear_rows(ring, p->slope);
    go(ring, &slopes, "passing keys on for the system of Newton");
    memset(leak, 0, (size_t)head->columns * sizeof *leak);
    for (int64_t i = 0; i < head->rows; i++) {
        const double sink = head->row.regulariser->tsallis
                                ? ota_newton_slope(head, head->mu[i], p->sink[i])
                                : p->sink[i];
        p->slope[i] += sink;
        p->first[i] = p->slope[i] > 0.0 ? sink / p->slope[i] : 0.0;
    }
    if (head->row.sink > -INFINITY) go(ring, &leaks, "passing keys on for the system of Newton");
}

static void add_products(const ota_ring_block *b, void *context) {
    const message_round_job *job = context;
    const double *x = job->x + b->piece->first + b->in.key;
    ota_ring_weigh(b);
    for (int64_t k = 0; k < b->in.rows; k++) {
        for (int64_t j = 0; j < b->in.keys; j++)
            b->ring->pairs->first[b->at + k] += slope_of(b, job->head, k, j) * x[j];
    }
}

void ota_ring_apply_links(ota_ring_device *ring, const ota_head *head, const double *x, double *y) {
    ota_ring_pairs *p = ring->pairs;
    message_round_job rows = {.head = head, .rows = add_products, .x = x};
    message_round_job keys = {.head = head, .keys = spread_rows, .sums = y};
    clear_rows(ring, p->first);
    go(ring, &rows, "passing keys on for a product");
    for (int64_t i = 0; i < ring->resolved->queries; i++)
        p->first[i] = p->slope[i] > 0.0 ? -p->first[i] / p->slope[i] : 0.0;
    go(ring, &keys, "passing keys on for a product");
}

static void apply_links(ota_coupled *state, const double *x, double *y) {
    ota_ring_apply_links(state->head->host.place, state->head, x, y);
}

static void find_top(const ota_ring_block *b, void *context) {
    const message_round_job *job = context;
    double *top = at(b, job->sums);
    for (int64_t k = 0; k < b->in.rows; k++) {
        const double *s = b->in.scores + k * b->in.stride, f = job->head->f[b->at + k];
        for (int64_t j = 0; j < b->in.keys && f > -INFINITY; j++) top[j] = fmax(top[j], s[j] + f);
    }
}

static void find_tops(ota_coupled *state, double *top) {
    message_round_job job = {.head = state->head, .keys = find_top, .sums = top, .from = -INFINITY};
    go(state->head->host.place, &job, "passing keys on for a column update of Newton");
}

static void weigh_keys(const ota_ring_block *b, void *context) {
    const message_round_job *job = context;
    double *slopes = at(b, job->slopes);
    add_weights(b, context);
    for (int64_t k = 0; k < b->in.rows; k++) {
        for (int64_t j = 0; j < b->in.keys; j++) slopes[j] += ota_block_slope(&b->in, k, j);
    }
}

static void weigh_columns(ota_coupled *state, double t, double *sums, double *slopes) {
    ota_ring_device *ring = state->head->host.place;
    message_round_job job = {
        .head = state->head, .keys = weigh_keys, .sums = sums, .slopes = slopes};
    ring->columns.temperature = t;
    go(ring, &job, "passing keys on for a column update of Newton");
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
    ota_ring_weigh(b);
    ota_ring_add_statistics(b);
}

void ota_ring_final_pass(ota_passes *passes) {
    ota_head *head = passes->head;
    ota_ring_device *ring = head->host.place;
    const ota_ring_pairs *p = ring->pairs;
    message_round_job job = {
        .rows = add_row_statistics, .keys = add_weights, .sums = passes->column};
    find_rows(head, head->tau);
    go(ring, &job, "passing keys on for the sums of the plan");
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
