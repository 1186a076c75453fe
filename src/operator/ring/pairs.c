/* Blocks of pairs (pairs.h): scores as products of the rows' queries and the keys of the piece, then terms and masks, by the
 * backend's linear algebra on the host. */
#include "pairs.h"

#include <math.h>
#include <string.h>

#include "backend/capped.h"
#include "masks/masks.h"
#include "operator/plan.h"

static double *numbers(ota_arena *arena, int64_t rows, int64_t columns) {
    return ota_arena_take_rows(arena, rows, columns, sizeof(double));
}

static ota_ring_worker worker_of(const ota_ring_device *ring, const ota_ring_pairs *pairs,
                                 ota_arena *a) {
    const int64_t width = ring->resolved->width;
    ota_ring_worker w = {.scores = numbers(a, OTA_RING_ROWS, pairs->stride),
                         .weights = numbers(a, OTA_RING_ROWS, pairs->stride),
                         .queries = numbers(a, OTA_RING_ROWS, width)};
    if (!ring->gradients) return w;
    w.slopes = numbers(a, OTA_RING_ROWS, pairs->stride);
    w.raw = numbers(a, OTA_RING_ROWS, pairs->stride);
    w.transposed = numbers(a, OTA_RING_KEYS, OTA_RING_ROWS);
    w.upstream = numbers(a, OTA_RING_ROWS, ring->values_width);
    return w;
}

void ota_ring_lay_out_pairs(ota_ring_device *ring, ota_arena *arena) {
    const int64_t rows = ring->group * ring->resolved->queries, width = ring->values_width;
    const int threads = ota_pool_threads(ring->pool);
    ota_ring_pairs *to = ota_arena_take(arena, 1, sizeof *to);
    ota_ring_pairs p = {.stride = (ring->room + 15) / 16 * 16 + OTA_RING_LIST};
    p.keys = numbers(arena, ring->resolved->width, p.stride);
    p.values = numbers(arena, ring->room, width);
    if (ring->gradients) {
        p.key_tangents = numbers(arena, ring->resolved->width, p.stride);
        p.value_tangents = numbers(arena, ring->room, width);
        p.values_transposed = numbers(arena, width, p.stride);
        p.lines = numbers(arena, ring->room, ring->resolved->width);
    }
    p.columns = numbers(arena, ring->group, ring->room);
    p.nonfinite = ota_arena_take(arena, (size_t)ring->room, 1);
    p.workers = ota_arena_take(arena, (size_t)threads, sizeof *p.workers);
    for (int k = 0; k < threads; k++) {
        const ota_ring_worker w = worker_of(ring, &p, arena);
        if (to != NULL) p.workers[k] = w;
    }
    double **of_rows[] = {&p.top,     &p.f,     &p.mass, &p.sink,  &p.p_log_p, &p.largest,
                          &p.support, &p.slope, &p.mean, &p.first, &p.second};
    for (size_t k = 0; k < sizeof of_rows / sizeof of_rows[0]; k++)
        *of_rows[k] = numbers(arena, rows, 1);
    p.state = ota_arena_take(arena, (size_t)rows, 1);
    p.uses_nonfinite = ota_arena_take(arena, (size_t)rows, 1);
    if (ring->capped) {
        double **of_caps[] = {&p.room, &p.highest, &p.rise, &p.factor, &p.part};
        for (size_t k = 0; k < sizeof of_caps / sizeof of_caps[0]; k++)
            *of_caps[k] = numbers(arena, rows, 1);
        p.capped = ota_arena_take(arena, (size_t)rows, sizeof *p.capped);
    } else if (ring->filled) {
        p.filling = ota_arena_take(arena, (size_t)rows, sizeof *p.filling);
    } else if (ring->by_pairs) {
        if (!ring->hard) p.list = numbers(arena, rows, OTA_RING_LIST);
        p.listed = ota_arena_take(arena, (size_t)rows, sizeof *p.listed);
        if (!ring->hard) p.search = ota_arena_take(arena, (size_t)rows, sizeof *p.search);
    }
    if (to != NULL) *to = p;
    ring->pairs = to;
}

ota_row_parameters ota_ring_parameters(const ota_ring_device *ring, int64_t head) {
    ota_row_parameters row =
        ota_row_parameters_of(ring->resolved, ring->unit.batch, ring->unit.head + head);
    row.kernels = ring->plan_forward->strategy.kernels;
    if (ring->temperature > 0.0) row.tau = ring->temperature;
    return row;
}

double ota_ring_row_mass(const ota_ring_device *ring, int64_t k) {
    const ota_resolved *r = ring->resolved;
    return ota_row_mass(r, ring->unit.batch, ring->unit.head + k / r->queries, k % r->queries);
}

/* to[w][j] = from[j][w] */
static void message_round(const ota_array *from, int64_t rows, double *to, int64_t ld) {
    for (int64_t j = 0; j < rows; j++) {
        for (int64_t w = 0; w < from->size[3]; w++)
            to[w * ld + j] = ota_array_get(from, 0, 0, j, w);
    }
}

void ota_ring_pairs_load(ota_ring_device *ring, const ota_ring_piece *piece, bool with_values) {
    ota_ring_pairs *p = ring->pairs;
    const int64_t width = ring->values_width;
    const ota_array keys =
        ota_array_of(ring->keys, ring->type, 1, 1, ring->room, ring->resolved->width);
    ota_ring_place(ring, piece, false, ring->plan_forward);
    message_round(&keys, piece->count, p->keys, p->stride);
    /* What is not finite shows in the slopes of the rows that may use it; beside a slope of 0 it is nothing. */
    for (int64_t j = 0; j < piece->count * keys.size[3] && p->lines != NULL; j++) {
        const double number = ota_array_get(&keys, 0, 0, j / keys.size[3], j % keys.size[3]);
        p->lines[j] = isfinite(number) ? number : 0.0;
    }
    memset(p->nonfinite, 0, (size_t)ring->room);
    if (!with_values || width == 0) return;
    const ota_array values = ota_ring_values(ring);
    for (int64_t j = 0; j < piece->count; j++) {
        for (int64_t w = 0; w < width; w++) {
            const double v = ota_array_get(&values, 0, 0, j, w);
            p->values[j * width + w] = isfinite(v) ? v : 0.0;
            if (!isfinite(v)) p->nonfinite[j] = 1;
        }
    }
    const ota_array clean = ota_array_of(p->values, OTA_F64, 1, 1, ring->room, width);
    if (p->values_transposed != NULL)
        message_round(&clean, piece->count, p->values_transposed, p->stride);
}

/* ---- blocks --------------------------------------------------------------------------------------- */

static void form_scores(const ota_ring_block *b) {
    const ota_ring_pairs *p = b->ring->pairs;
    const ota_host_algebra *algebra = b->ring->plan_forward->strategy.algebra;
    const int64_t width = b->ring->resolved->width;
    const size_t line = (size_t)b->keys * sizeof(double);
    algebra->read_rows(&b->problem->problem.queries, 0, b->head, b->first, b->rows, b->w->queries,
                       width);
    for (int64_t k = 0; k < b->rows; k++) memset(b->w->scores + k * p->stride, 0, line);
    const ota_product sizes = {b->rows, width, b->keys, width, p->stride, p->stride};
    algebra->apply(b->w->queries, p->keys + b->key, &sizes, b->w->scores);
    for (int64_t k = 0; k < b->rows; k++) {
        double *s = b->w->scores + k * p->stride;
        int64_t begin, end;
        if (b->w->raw != NULL) memcpy(b->w->raw + k * p->stride, s, line);
        ota_row_range(b->problem, 0, b->first + k, b->piece->count, &begin, &end);
        begin = ota_int_max(begin - b->key, 0);
        end = ota_int_min(end - b->key, b->keys);
        if (begin >= end) begin = end = 0;
        for (int64_t j = 0; j < begin; j++) s[j] = -INFINITY;
        for (int64_t j = end; j < b->keys; j++) s[j] = -INFINITY;
        if (begin < end)
            algebra->row_scores(b->problem, 0, b->head, b->first + k, b->key + begin, b->key + end,
                                s + begin);
    }
}

typedef struct pairs_job {
    ota_ring_device *ring;
    const ota_ring_piece *piece;
    ota_ring_block_visit *visit;
    void *context;
    int64_t strips; /* of the rows of a head */
    int64_t first;  /* of the blocks side by side */
} pairs_job;

static ota_ring_block block_of(const pairs_job *job, int64_t strip, int worker) {
    ota_ring_device *ring = job->ring;
    const int64_t queries = ring->resolved->queries;
    ota_ring_block b = {.ring = ring,
                        .piece = job->piece,
                        .problem = &ring->plan_forward->resolved,
                        .w = &ring->pairs->workers[worker],
                        .head = strip / job->strips,
                        .first = strip % job->strips * OTA_RING_ROWS};
    b.rows = ota_int_min(OTA_RING_ROWS, queries - b.first);
    b.at = b.head * queries + b.first;
    b.parameters = ota_ring_parameters(ring, b.head);
    b.sink = b.parameters.sink;
    b.parameters.sink = -INFINITY;
    ota_dropout_head(b.problem, 0, b.head, b.dropout_key);
    return b;
}

/* Caps of the block's keys, once those are known. */
static void hold_caps(ota_ring_block *b) {
    const ota_ring_device *ring = b->ring;
    const ota_array *all = &ring->resolved->problem.entry_caps;
    b->parameters.caps.array = NULL;
    if (!ota_array_present(all)) return;
    b->caps = *all;
    if (all->size[3] > 1) {
        b->caps.data = (char *)all->data + (b->piece->first + b->key) * all->stride[3] *
                                               (int64_t)ota_type_bytes(all->type);
        b->caps.size[3] = b->keys;
    }
    b->parameters.caps.array = &b->caps;
}

double ota_ring_cap(const ota_ring_block *b, int64_t k, int64_t j) {
    return b->ring->capped || b->ring->filled ? ota_entry_cap(&b->parameters.caps, b->first + k, j)
                                              : INFINITY;
}

double ota_ring_pair_slope(const ota_ring_block *b, int64_t k, int64_t j, double p) {
    return b->ring->capped && p >= ota_ring_cap(b, k, j) ? 0.0 : ota_ring_slope(&b->parameters, p);
}

static void rows_task(void *context, int64_t index, int worker) {
    const pairs_job *job = context;
    ota_ring_block b = block_of(job, index, worker);
    b.keys = job->piece->count;
    hold_caps(&b);
    form_scores(&b);
    job->visit(&b, job->context);
}

static void keys_task(void *context, int64_t index, int worker) {
    const pairs_job *job = context;
    for (int64_t strip = 0; strip < job->ring->group * job->strips; strip++) {
        ota_ring_block b = block_of(job, strip, worker);
        b.key = index * OTA_RING_KEYS;
        b.keys = ota_int_min(OTA_RING_KEYS, job->piece->count - b.key);
        hold_caps(&b);
        form_scores(&b);
        job->visit(&b, job->context);
    }
}

static pairs_job job_of(ota_ring_device *ring, const ota_ring_piece *piece,
                        ota_ring_block_visit *visit, void *context) {
    const int64_t strips = ota_int_ceil_div(ring->resolved->queries, OTA_RING_ROWS);
    return (pairs_job){
        .ring = ring, .piece = piece, .visit = visit, .context = context, .strips = strips};
}

void ota_ring_by_rows(ota_ring_device *ring, const ota_ring_piece *piece,
                      ota_ring_block_visit *visit, void *context) {
    pairs_job job = job_of(ring, piece, visit, context);
    ota_parallel(ring->pool, ring->group * job.strips, rows_task, &job);
}

void ota_ring_by_keys(ota_ring_device *ring, const ota_ring_piece *piece,
                      ota_ring_block_visit *visit, void *context) {
    pairs_job job = job_of(ring, piece, visit, context);
    ota_parallel(ring->pool, ota_int_ceil_div(piece->count, OTA_RING_KEYS), keys_task, &job);
}

static void sides_task(void *context, int64_t index, int worker) {
    const pairs_job *job = context;
    ota_ring_block b = block_of(job, job->first + index, worker);
    b.keys = job->piece->count;
    b.side = index;
    hold_caps(&b);
    form_scores(&b);
    job->visit(&b, job->context);
}

void ota_ring_by_sides(ota_ring_device *ring, const ota_ring_piece *piece,
                       ota_ring_block_visit *visit, ota_ring_block_visit *merge, void *context) {
    pairs_job job = job_of(ring, piece, visit, context);
    for (int64_t h = 0; h < ring->group; h++) {
        for (int64_t s = 0; s < job.strips; s += OTA_RING_SIDES) {
            const int64_t blocks = ota_int_min(OTA_RING_SIDES, job.strips - s);
            job.first = h * job.strips + s;
            ota_parallel(ring->pool, blocks, sides_task, &job);
            for (int64_t k = 0; k < blocks; k++) {
                ota_ring_block b = block_of(&job, job.first + k, 0);
                b.keys = piece->count;
                b.side = k;
                merge(&b, context);
            }
        }
    }
}

void ota_ring_add_potentials(const ota_ring_block *b) {
    const double *g = b->ring->g + b->piece->first + b->key;
    for (int64_t k = 0; k < b->rows && b->ring->coupled; k++) {
        double *s = b->w->scores + k * b->ring->pairs->stride;
        for (int64_t j = 0; j < b->keys; j++) s[j] += g[j];
    }
}

double ota_ring_weight(const ota_ring_device *ring, const ota_row_parameters *row, double score,
                       double f) {
    ota_row_parameters key = *row;
    ota_row_found found;
    double weight = 0.0;
    key.sink = -INFINITY;
    /* Sinks have no caps. */
    key.caps = (ota_entry_caps){.cap = INFINITY};
    if (!(score > -INFINITY)) return 0.0;
    ring->plan_forward->strategy.algebra->row_weights(&key, &score, NULL, 1, f, &weight, &found);
    return weight;
}

void ota_ring_weigh(const ota_ring_block *b) {
    const ota_ring_pairs *p = b->ring->pairs;
    const double *g = b->ring->coupled ? b->ring->g + b->piece->first + b->key : NULL;
    ota_row_parameters parameters = b->parameters;
    for (int64_t k = 0; k < b->rows; k++) {
        ota_row_found found;
        parameters.line = b->first + k;
        double *weights = b->w->weights + k * p->stride;
        if (p->state[b->at + k] == OTA_RING_NONFINITE) {
            memset(weights, 0, (size_t)b->keys * sizeof *weights);
            continue;
        }
        if (b->ring->filled) {
            ota_ring_fill(b, k, weights);
            continue;
        }
        b->ring->plan_forward->strategy.algebra->row_weights(
            &parameters, b->w->scores + k * p->stride, g, b->keys, p->f[b->at + k], weights,
            &found);
    }
}
