/* Blocks of pairs (ring_pairs.h): scores as products of the rows' queries and the keys of the piece, then terms and masks, by the
 * backend's linear algebra on the host. */
#include "ring_pairs.h"

#include <math.h>
#include <string.h>

#include "masks/masks.h"
#include "operator/plan.h"
#include "solvers/coupled.h"

static ota_ring_worker worker_of(const ota_ring_device *ring, const ota_ring_pairs *pairs,
                                 ota_arena *a) {
    const int64_t width = ring->resolved->width;
    ota_ring_worker w = {.scores = ota_ring_numbers(a, OTA_RING_ROWS, pairs->stride),
                         .weights = ota_ring_numbers(a, OTA_RING_ROWS, pairs->stride),
                         .queries = ota_ring_numbers(a, OTA_RING_ROWS, width)};
    if (!ring->gradients) return w;
    w.slopes = ota_ring_numbers(a, OTA_RING_ROWS, pairs->stride);
    w.raw = ota_ring_numbers(a, OTA_RING_ROWS, pairs->stride);
    w.transposed = ota_ring_numbers(a, OTA_RING_KEYS, OTA_RING_ROWS);
    w.upstream = ota_ring_numbers(a, OTA_RING_ROWS, ring->values_width);
    if (ring->coupled && ring->resolved->settings.stop.fixed)
        w.round = ota_ring_numbers(a, OTA_RING_ROWS, pairs->stride);
    return w;
}

void ota_ring_lay_out_pairs(ota_ring_device *ring, ota_arena *arena) {
    const int64_t rows = ota_ring_row_count(ring), width = ring->values_width;
    const int threads = ota_pool_threads(ring->pool);
    ota_ring_pairs *to = ota_arena_take(arena, 1, sizeof *to);
    ota_ring_pairs p = {.stride = (ring->room + 15) / 16 * 16 + OTA_RING_LIST};
    p.piece.keys = ota_ring_numbers(arena, ring->resolved->width, p.stride);
    p.piece.values = ota_ring_numbers(arena, ring->room, width);
    if (ring->gradients) {
        p.piece.key_tangents = ota_ring_numbers(arena, ring->resolved->width, p.stride);
        p.piece.value_tangents = ota_ring_numbers(arena, ring->room, width);
        p.piece.values_transposed = ota_ring_numbers(arena, width, p.stride);
        p.piece.lines = ota_ring_numbers(arena, ring->room, ring->resolved->width);
    }
    p.columns = ota_ring_numbers(arena, ring->group, ring->room);
    p.piece.nonfinite = ota_arena_take(arena, (size_t)ring->room, 1);
    p.workers = ota_arena_take(arena, (size_t)threads, sizeof *p.workers);
    for (int k = 0; k < threads; k++) {
        const ota_ring_worker w = worker_of(ring, &p, arena);
        if (to != NULL) p.workers[k] = w;
    }
    double **of_rows[] = {&p.top, &p.f, &p.size, &p.sink, &p.slope, &p.mean, &p.first, &p.second};
    for (size_t k = 0; k < sizeof of_rows / sizeof of_rows[0]; k++)
        *of_rows[k] = ota_ring_numbers(arena, rows, 1);
    ota_ring_lay_out_edges(ring, &p.steep, arena);
    p.sums = ota_arena_take(arena, (size_t)rows, sizeof *p.sums);
    p.state = ota_arena_take(arena, (size_t)rows, 1);
    p.uses_nonfinite = ota_arena_take(arena, (size_t)rows, 1);
    if (ring->rule == OTA_RING_BY_CAPS) {
        double **of_caps[] = {&p.caps.room, &p.caps.highest, &p.caps.factor, &p.caps.part};
        for (size_t k = 0; k < sizeof of_caps / sizeof of_caps[0]; k++)
            *of_caps[k] = ota_ring_numbers(arena, rows, 1);
        p.caps.search = ota_arena_take(arena, (size_t)rows, sizeof *p.caps.search);
        p.caps.totals = ota_arena_take(arena, (size_t)rows, sizeof *p.caps.totals);
    } else if (ring->rule == OTA_RING_BY_FILLING) {
        p.filling = ota_arena_take(arena, (size_t)rows, sizeof *p.filling);
    } else if (ring->rule != OTA_RING_BY_LSE) {
        if (ring->rule != OTA_RING_BY_BEST_KEY)
            p.list = ota_ring_numbers(arena, rows, OTA_RING_LIST);
        p.listed = ota_arena_take(arena, (size_t)rows, sizeof *p.listed);
        if (ring->rule != OTA_RING_BY_BEST_KEY)
            p.search = ota_arena_take(arena, (size_t)rows, sizeof *p.search);
    }
    if (to != NULL) *to = p;
    ring->pairs = to;
}

ota_row_parameters ota_ring_parameters(const ota_ring_device *ring, int64_t head) {
    ota_row_parameters row =
        ota_row_parameters_of(ring->resolved, ring->unit.batch, ring->unit.head + head);
    row.kernels = ring->plans.forward->strategy.kernels;
    if (ring->columns.temperature > 0.0) row.tau = ring->columns.temperature;
    return row;
}

double ota_ring_row_mass(const ota_ring_device *ring, int64_t k) {
    const ota_resolved *r = ring->resolved;
    return ota_row_mass(r, ring->unit.batch, ring->unit.head + k / r->queries, k % r->queries);
}

/* What is not finite shows in the slopes of the rows that may use it; beside a slope of 0 it is nothing. */
static double finite_or_0(double x) { return isfinite(x) ? x : 0.0; }

static void load_keys(const ota_ring_device *ring, int64_t count) {
    const ota_ring_pairs *p = ring->pairs;
    const int64_t width = ring->resolved->width;
    const ota_array keys = ota_array_of(ring->block.keys, ring->type, 1, 1, ring->room, width);
    const ota_block_keys to = {p->piece.keys, p->workers[0].queries, p->piece.lines, p->stride};
    ota_block_read_keys(ring->plans.forward->strategy.algebra, &keys, 0, 0, count, &to);
    for (int64_t j = 0; j < count * width && p->piece.lines != NULL; j++)
        p->piece.lines[j] = finite_or_0(p->piece.lines[j]);
}

static void load_values(const ota_ring_device *ring, int64_t count) {
    const ota_ring_pairs *p = ring->pairs;
    const int64_t width = ring->values_width;
    const ota_array values = ota_ring_values(ring);
    ring->plans.forward->strategy.algebra->read_rows(&values, 0, 0, 0, count, p->piece.values,
                                                     width);
    for (int64_t j = 0; j < count; j++) {
        double *row = p->piece.values + j * width;
        for (int64_t w = 0; w < width; w++) {
            if (!isfinite(row[w])) p->piece.nonfinite[j] = 1;
            row[w] = finite_or_0(row[w]);
        }
        for (int64_t w = 0; w < width && p->piece.values_transposed != NULL; w++)
            p->piece.values_transposed[w * p->stride + j] = row[w];
    }
}

void ota_ring_pairs_load(ota_ring_device *ring, const ota_ring_piece *piece, bool with_values) {
    ota_ring_place(ring, piece, false, ring->plans.forward);
    load_keys(ring, piece->count);
    memset(ring->pairs->piece.nonfinite, 0, (size_t)ring->room);
    if (with_values && ring->values_width > 0) load_values(ring, piece->count);
}

/* ---- blocks --------------------------------------------------------------------------------------- */

/* Temperatures from which on a size that a row's scores have in common leaves its potential too few digits of weights. */
static const double large = 0x1p10;

/* Row k of the unit measures its scores from another size. What it has found from pieces that came by moves along. */
static void move_size(ota_ring_pairs *p, int64_t k, double size) {
    const double by = size - p->size[k];
    p->size[k] = size;
    p->top[k] -= by;
    p->f[k] += by;
    for (int64_t j = 0; p->list != NULL && j < p->listed[k]; j++)
        p->list[k * OTA_RING_LIST + j] -= by;
    if (p->caps.highest != NULL) p->caps.highest[k] += by;
}

/* Takes off what all scores of a row have in common: near the largest of the pieces so far. A sink has a size of its own. */
static void lower_scores(const ota_ring_block *b) {
    const ota_ring_rule rule = b->ring->rule;
    ota_ring_pairs *p = b->ring->pairs;
    const double apart = large * b->in.rule.tau;
    if (b->sink > -INFINITY || (rule != OTA_RING_BY_THRESHOLD && rule != OTA_RING_BY_CAPS)) return;
    for (int64_t k = 0; k < b->in.rows; k++) {
        const int64_t row = b->at + k;
        double *s = b->in.scores + k * b->in.stride, top;
        if (p->meets && ota_block_find_top(s, b->in.keys, &top) && top > -INFINITY &&
            (top > p->size[row] + apart ||
             (!(p->top[row] > -INFINITY) && top < p->size[row] - apart)))
            move_size(p, row, fabs(top) > apart ? top : 0.0);
        if (!(fabs(p->size[row]) > 0.0)) continue;
        for (int64_t j = 0; j < b->in.keys; j++) s[j] -= p->size[row];
    }
}

typedef struct pairs_job {
    ota_ring_device *ring;
    const ota_ring_piece *piece;
    /* At hand, or NULL. */
    ota_ring_block_visit *form, *rows, *keys;
    void *context;
    bool forms_scores;    /* before `form` */
    int64_t strips;       /* of the rows of a head */
    int64_t first, count; /* blocks side by side, one a thread */
} pairs_job;

/* A rank that is told to end leaves its blocks out, and passes on what others wait for (ota_ring_go). */
static bool ends(const ota_ring_device *ring) {
    return ota_interrupted(&ring->resolved->settings) != OTA_OK;
}

/* Keys [key, key + keys) of the piece, with their potentials and caps. */
static void set_keys(ota_ring_block *b, int64_t key, int64_t keys) {
    const ota_ring_device *ring = b->ring;
    const ota_array *all = &ring->resolved->problem.entry_caps;
    const int64_t first = b->piece->first + key;
    b->in.key = key;
    b->in.keys = keys;
    b->in.g = ring->coupled ? ring->columns.g + first : NULL;
    b->in.scores = b->w->scores + key;
    b->in.weights = b->w->weights + key;
    if (ring->gradients) {
        b->in.slopes = b->w->slopes + key;
        b->in.raw = b->w->raw + key;
    }
    b->in.rule.caps.array = NULL;
    if (!ota_array_present(all)) return;
    b->in.caps = *all;
    if (all->size[3] > 1) {
        b->in.caps.data =
            (char *)all->data + first * all->stride[3] * (int64_t)ota_type_bytes(all->type);
        b->in.caps.size[3] = keys;
    }
    b->in.rule.caps.array = &b->in.caps;
}

/* Block `strip` of the unit in the memory of `side`. Without keys. */
static ota_ring_block block_of(const pairs_job *job, int64_t strip, int64_t side) {
    ota_ring_device *ring = job->ring;
    const int64_t queries = ring->resolved->queries;
    ota_ring_block b = {.in = {.problem = &ring->plans.forward->resolved,
                               .algebra = ring->plans.forward->strategy.algebra,
                               .head = strip / job->strips,
                               .first = strip % job->strips * OTA_RING_ROWS,
                               .stride = ring->pairs->stride},
                        .ring = ring,
                        .piece = job->piece,
                        .w = &ring->pairs->workers[side],
                        .side = side};
    b.in.rows = ota_int_min(OTA_RING_ROWS, queries - b.in.first);
    b.at = b.in.head * queries + b.in.first;
    b.in.f = ring->pairs->f + b.at;
    if (ring->pairs->steep.edges != NULL) b.in.edges = ring->pairs->steep.edges + b.at;
    b.in.rule = ota_ring_parameters(ring, b.in.head);
    b.sink = b.in.rule.sink;
    b.in.rule.sink = -INFINITY;
    ota_dropout_head(b.in.problem, 0, b.in.head, b.in.dropout_key);
    return b;
}

static void visit_rows(const pairs_job *job, int64_t strip, int64_t side) {
    ota_ring_block b = block_of(job, strip, side);
    if (ends(job->ring)) return;
    set_keys(&b, 0, job->piece->count);
    if (job->forms_scores) {
        ota_block_form_scores(&b.in, b.w->queries, job->ring->pairs->piece.keys, b.in.stride);
        lower_scores(&b);
    }
    if (job->form != NULL) job->form(&b, job->context);
    if (job->rows != NULL) job->rows(&b, job->context);
}

static void rows_task(void *context, int64_t index, int worker) {
    visit_rows(context, index, worker);
}

static void side_task(void *context, int64_t index, int worker) {
    const pairs_job *job = context;
    (void)worker;
    visit_rows(job, job->first + index, index);
}

static void keys_task(void *context, int64_t index, int worker) {
    const pairs_job *job = context;
    const int64_t key = index * OTA_RING_KEYS;
    for (int64_t side = 0; side < job->count && !ends(job->ring); side++) {
        ota_ring_block b = block_of(job, job->first + side, side);
        b.transposed = job->ring->pairs->workers[worker].transposed;
        set_keys(&b, key, ota_int_min(OTA_RING_KEYS, job->piece->count - key));
        job->keys(&b, job->context);
    }
}

static void visit_keys(pairs_job *job, ota_ring_block_visit *keys) {
    job->keys = keys;
    if (keys != NULL)
        ota_parallel(job->ring->pool, ota_int_ceil_div(job->piece->count, OTA_RING_KEYS), keys_task,
                     job);
}

static void visit_sides(pairs_job *job, const ota_ring_visits *visits) {
    ota_pool *pool = job->ring->pool;
    const bool apart = visits->formed != NULL;
    job->forms_scores = true;
    job->form = visits->form;
    job->rows = apart ? NULL : visits->rows;
    ota_parallel(pool, job->count, side_task, job);
    visit_keys(job, visits->formed);
    if (apart && visits->rows != NULL) {
        job->forms_scores = false;
        job->form = NULL;
        job->rows = visits->rows;
        ota_parallel(pool, job->count, side_task, job);
    }
    visit_keys(job, visits->keys);
    for (int64_t side = 0; side < job->count && visits->merge != NULL; side++) {
        ota_ring_block b = block_of(job, job->first + side, side);
        set_keys(&b, 0, job->piece->count);
        visits->merge(&b, visits->context);
    }
}

void ota_ring_visit_blocks(ota_ring_device *ring, const ota_ring_piece *piece,
                           const ota_ring_visits *visits) {
    const int64_t strips = ota_int_ceil_div(ring->resolved->queries, OTA_RING_ROWS),
                  all = ring->group * strips, threads = ota_pool_threads(ring->pool);
    pairs_job job = {.ring = ring,
                     .piece = piece,
                     .form = visits->form,
                     .rows = visits->rows,
                     .context = visits->context,
                     .forms_scores = true,
                     .strips = strips};
    if (visits->formed == NULL && visits->keys == NULL && visits->merge == NULL) {
        ota_parallel(ring->pool, all, rows_task, &job);
        return;
    }
    for (job.first = 0; job.first < all && !ends(ring); job.first += job.count) {
        job.count = ota_int_min(threads, all - job.first);
        visit_sides(&job, visits);
    }
}

/* ---- message rounds of blocks --------------------------------------------------------------------- */

/* Tangents of keys and values, which are the sums of the piece. */
static void load_tangents(ota_ring_device *ring, const ota_ring_piece *piece) {
    ota_ring_pairs *p = ring->pairs;
    const int64_t width = ring->resolved->width, values = ring->values_width;
    for (int64_t j = 0; j < piece->count; j++) {
        const double *from = piece->sums + j * (width + values);
        for (int64_t w = 0; w < width; w++) p->piece.key_tangents[w * p->stride + j] = from[w];
        for (int64_t w = 0; w < values; w++) {
            const double v = from[width + w];
            p->piece.value_tangents[j * values + w] = isfinite(v) ? v : 0.0;
            if (!isfinite(v)) p->piece.nonfinite[j] = 1;
        }
    }
}

static void visit_piece(ota_ring_device *ring, const ota_ring_piece *piece, void *context) {
    const ota_ring_pair_round *now = context;
    ota_ring_pairs_load(ring, piece, now->with_values);
    if (now->tangents != NULL) load_tangents(ring, piece);
    ota_ring_visit_blocks(ring, piece, &now->visits);
}

bool ota_ring_visit_pairs(ota_ring_device *ring, const ota_ring_pair_round *pair_round) {
    ota_ring_pair_round now = *pair_round;
    now.with_values &= ring->values_width > 0;
    const ota_message_round message_round = {
        .with_values = now.with_values,
        .sum_width = now.tangents != NULL ? ring->resolved->width + ring->values_width : 0,
        .tangents = now.tangents,
        .visit = visit_piece,
        .context = &now,
        .step = now.step};
    return ota_ring_go(ring, &message_round);
}

/* ---- sums of one number a pair -------------------------------------------------------------------- */

/* Newton's w of a weight, or w itself. */
static double slope_of(const ota_ring_block *b, const ota_head *head, int64_t k, int64_t j) {
    const double p = b->in.weights[k * b->in.stride + j];
    if (head == NULL) return ota_block_slope(&b->in, k, j);
    if (b->ring->rule == OTA_RING_BY_CAPS && p >= ota_block_cap(&b->in, k, j)) return 0.0;
    return head->row.regulariser->tsallis ? ota_newton_slope(head, head->mu[b->at + k], p) : p;
}

void ota_ring_form_number(const ota_ring_block *b, void *sums) {
    const ota_ring_sums *of = sums;
    const ota_ring_number number = of->number;
    const ota_head *head = of->head;
    if (number == OTA_RING_WEIGHTS || number == OTA_RING_SLOPES) ota_ring_weigh(b);
    for (int64_t k = 0; k < b->in.rows && number != OTA_RING_WEIGHTS; k++) {
        const double *s = b->in.scores + k * b->in.stride;
        double *to = b->in.weights + k * b->in.stride;
        const bool counts = head == NULL || head->mu[b->at + k] > 0.0;
        for (int64_t j = 0; j < b->in.keys; j++) {
            if (number == OTA_RING_SLOPES)
                to[j] = slope_of(b, head, k, j);
            else if (!counts || !(s[j] > -INFINITY))
                to[j] = 0.0;
            else
                to[j] = number == OTA_RING_CAPS ? ota_block_cap(&b->in, k, j) : 1.0;
        }
    }
}

static void sum_by_rows(const ota_ring_block *b, void *sums) {
    const ota_ring_sums *of = sums;
    const double *x = of->x_keys != NULL ? of->x_keys + b->piece->first + b->in.key : NULL;
    for (int64_t k = 0; k < b->in.rows; k++) {
        const double *numbers_of = b->in.weights + k * b->in.stride;
        double *sum = &of->rows[b->at + k];
        for (int64_t j = 0; j < b->in.keys; j++)
            *sum += x != NULL ? numbers_of[j] * x[j] : numbers_of[j];
    }
}

void ota_ring_sum_by_keys(const ota_ring_block *b, void *sums) {
    const ota_ring_sums *of = sums;
    double *to = of->keys + b->piece->first + b->in.key;
    for (int64_t k = 0; k < b->in.rows; k++) {
        const double *numbers_of = b->in.weights + k * b->in.stride;
        const double x = of->x_rows != NULL ? of->x_rows[b->at + k] : 1.0;
        for (int64_t j = 0; j < b->in.keys; j++) to[j] += numbers_of[j] * x;
        for (int64_t j = 0; j < b->in.keys && of->slopes != NULL; j++)
            of->slopes[b->piece->first + b->in.key + j] += ota_block_slope(&b->in, k, j);
    }
}

bool ota_ring_sum_pairs(ota_ring_device *ring, ota_ring_sums *sums, const char *step) {
    const ota_ring_pair_round pair_round = {
        .visits = {.form = ota_ring_form_number,
                   .rows = sums->rows != NULL ? sum_by_rows : NULL,
                   .keys = sums->keys != NULL ? ota_ring_sum_by_keys : NULL,
                   .context = sums},
        .step = step};
    const size_t bytes = (size_t)ring->resolved->keys * sizeof(double);
    if (sums->rows != NULL)
        memset(sums->rows, 0, (size_t)(ota_ring_row_count(ring)) * sizeof(double));
    if (sums->keys != NULL) memset(sums->keys, 0, bytes);
    if (sums->slopes != NULL) memset(sums->slopes, 0, bytes);
    return ota_ring_visit_pairs(ring, &pair_round);
}

double ota_ring_sink_of(const ota_ring_device *ring, int64_t k, ota_row_parameters *row) {
    *row = ota_ring_parameters(ring, k / ring->resolved->queries);
    if (ring->pairs->steep.edges != NULL) row->edge = ring->pairs->steep.edges[k];
    return ota_sink_weight(row, ring->plans.forward->strategy.algebra, row->sink,
                           ring->pairs->f[k]);
}

void ota_ring_note_values(const ota_ring_block *b, int64_t k) {
    const ota_ring_pairs *p = b->ring->pairs;
    const double *weights = b->in.weights + k * b->in.stride;
    for (int64_t j = 0; j < b->in.keys; j++) {
        if (weights[j] > 0.0 && p->piece.nonfinite[b->in.key + j] != 0)
            p->uses_nonfinite[b->at + k] = 1;
    }
}

void ota_ring_weigh(const ota_ring_block *b) {
    const ota_block *in = &b->in;
    const bool fills = b->ring->rule == OTA_RING_BY_FILLING;
    if (!fills) ota_block_weigh(in);
    for (int64_t k = 0; k < in->rows; k++) {
        double *weights = in->weights + k * in->stride;
        if (b->ring->pairs->state[b->at + k] == OTA_RING_NONFINITE)
            memset(weights, 0, (size_t)in->keys * sizeof *weights);
        else if (fills)
            ota_ring_fill(b, k, weights);
    }
}
