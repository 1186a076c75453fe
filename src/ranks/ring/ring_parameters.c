/* Gradients of terms, temperatures, orders and sinks in a ring. With G = dL/dS of a piece's pairs and x = (S + f + g) / tau,
 *
 *     row       tau: -sum_j G_ij x_ij     alpha: tau sum_j G_ij order_slope(P_ij)     ALiBi: -sum_j G_ij |i - j|     softcap, own rows
 *     keys      sum_i G_ij                         biases that queries share
 *     diagonal  sum_(i - j = d) G_ij               relative biases; inside the scale of what went through the softcap
 *
 * and of a row's sink, one more key, G = -w a / tau once all pieces have come by. Rows have their own sums; keys and diagonals
 * are added up block after block (ota_ring_visits.merge). */
#include <math.h>
#include <string.h>

#include "operator/backward.h"
#include "ring_fixed_rounds.h"
#include "ring_pairs.h"
#include "terms/terms.h"

enum { OUTSIDE, INSIDE, PLACES }; /* of relative biases */
enum { HALVES = 2 };              /* rows of a block lie in at most two runs of the whole problem */

/* Of a block beside others. */
typedef struct side_sums {
    double *columns;               /* [room] */
    double *lines[PLACES][HALVES]; /* [line] */
} side_sums;

struct ota_ring_parameter_sums {
    int64_t line;     /* numbers of a diagonal line */
    double *rows;     /* [rows of the unit][OTA_ROW_SUMS] */
    side_sums *sides; /* [threads] */
};

bool ota_ring_wants_parameters(const ota_resolved *r, const ota_gradients *want) {
    if (ota_array_present(&want->temperature) || ota_array_present(&want->order)) return true;
    for (int64_t k = 0; want->terms != NULL && k < r->problem.term_count; k++) {
        if (ota_array_present(&want->terms[k])) return true;
    }
    return false;
}

void ota_ring_lay_out_parameters(ota_ring_device *ring, ota_arena *arena) {
    const ota_resolved *r = ring->resolved;
    ota_ring_parameter_sums *to = ota_arena_take(arena, 1, sizeof *to);
    ota_ring_parameter_sums p = {.line = ring->room + OTA_RING_ROWS};
    p.rows = ota_ring_numbers(arena, ota_ring_row_count(ring), OTA_ROW_SUMS);
    const int sides = ota_pool_threads(ring->pool);
    p.sides = ota_arena_take(arena, (size_t)sides, sizeof *p.sides);
    for (int s = 0; s < sides; s++) {
        side_sums side = {.columns = ota_ring_numbers(arena, ring->room, 1)};
        for (int k = 0; k < PLACES * HALVES; k++)
            side.lines[k / HALVES][k % HALVES] = ota_ring_numbers(arena, p.line, 1);
        if (to != NULL) p.sides[s] = side;
    }
    if (to != NULL) *to = p;
    ring->backward.parameter_sums = to;
    ota_backward_space space = {.sums.temperature = ota_ring_numbers(arena, r->heads, 1),
                                .sums.alibi = ota_ring_numbers(arena, r->heads, 1),
                                .sums.sink = ota_ring_numbers(arena, r->heads, 1)};
    for (int t = 0; t < r->term_count; t++) {
        space.sums.terms[t] = ota_backward_term_sum(r, &r->terms[t]);
        space.sums.terms[t].sum = ota_ring_numbers(arena, space.sums.terms[t].count, 1);
    }
    if (to == NULL) return;
    ring->backward.space->sums.temperature = space.sums.temperature;
    ring->backward.space->sums.alibi = space.sums.alibi;
    ring->backward.space->sums.sink = space.sums.sink;
    memcpy(ring->backward.space->sums.terms, space.sums.terms, sizeof space.sums.terms);
}

void ota_ring_clear_parameters(ota_ring_device *ring) {
    const ota_resolved *r = ring->resolved;
    ota_backward_space *s = ring->backward.space;
    ota_ring_clear(s->sums.temperature, r->heads);
    ota_ring_clear(s->sums.alibi, r->heads);
    ota_ring_clear(s->sums.sink, r->heads);
    for (int t = 0; t < r->term_count; t++)
        ota_ring_clear(s->sums.terms[t].sum, s->sums.terms[t].count);
    s->sums.order = s->sums.softcap = 0.0;
}

void ota_ring_begin_parameters(ota_ring_device *ring) {
    ota_ring_clear(ring->backward.parameter_sums->rows, ota_ring_row_count(ring) * OTA_ROW_SUMS);
}

/* ---- a block -------------------------------------------------------------------------------------- */

static ota_backward_job job_of(const ota_ring_block *b) {
    const ota_ring_device *ring = b->ring;
    return (ota_backward_job){.resolved = ring->resolved,
                              .space = ring->backward.space,
                              .batch = ring->unit.batch,
                              .head = ring->unit.head + b->in.head};
}

/* The first row of the block's second run: `rows` where it has one. */
static int64_t second_run(const ota_ring_block *b) {
    const ota_resolved *r = b->ring->resolved;
    for (int64_t k = 1; k < b->in.rows; k++) {
        if (ota_row_number(r, b->in.first + k) != ota_row_number(r, b->in.first) + k) return k;
    }
    return b->in.rows;
}

static void add_line(const ota_ring_block *b, int place) {
    const ota_ring_parameter_sums *p = b->ring->backward.parameter_sums;
    const int64_t second = second_run(b);
    for (int half = 0; half < HALVES; half++)
        ota_ring_clear(p->sides[b->side].lines[place][half], p->line);
    for (int64_t k = 0; k < b->in.rows; k++) {
        const double *g = b->in.slopes + k * b->in.stride;
        double *line = k < second ? p->sides[b->side].lines[place][0] + k
                                  : p->sides[b->side].lines[place][1] + k - second;
        for (int64_t j = 0; j < b->in.keys; j++) line[b->in.keys - 1 - j] += g[j];
    }
}

/* Has a bias a row for every query? */
static bool has_own_rows(const ota_ring_device *ring, int t) {
    const ota_resolved *r = ring->resolved;
    return ring->backward.space->sums.terms[t].direct ||
           (r->terms[t].array.size[2] == r->queries && r->share.rows > 1);
}

static void add_own_rows(const ota_ring_block *b, int t, const ota_array *wanted) {
    const ota_backward_job job = job_of(b);
    const ota_array *a = &job.resolved->terms[t].array;
    const ota_term_sum *sums = &job.space->sums.terms[t];
    for (int64_t k = 0; k < b->in.rows; k++) {
        const double *g = b->in.slopes + k * b->in.stride;
        const int64_t i = b->in.first + k, first = b->piece->first;
        double *to = sums->direct ? NULL : ota_term_slice(&job, t) + i * a->size[3];
        for (int64_t j = 0; j < b->in.keys; j++) {
            if (sums->direct)
                ota_array_set(wanted, job.batch, job.head, i, first + j, g[j]);
            else
                to[a->size[3] == 1 ? 0 : first + j] += g[j];
        }
    }
}

static void add_columns(const ota_ring_block *b) {
    double *columns = b->ring->backward.parameter_sums->sides[b->side].columns;
    ota_ring_clear(columns, b->in.keys);
    for (int64_t k = 0; k < b->in.rows; k++) {
        const double *g = b->in.slopes + k * b->in.stride;
        for (int64_t j = 0; j < b->in.keys; j++) columns[j] += g[j];
    }
}

double *ota_ring_row_sums(const ota_ring_block *b) {
    return b->ring->backward.parameter_sums->rows + b->at * OTA_ROW_SUMS;
}

void ota_ring_take_numbers(const ota_ring_block *b, const ota_ring_pull *pull) {
    const bool by_order = ota_array_present(&pull->want->order);
    for (int64_t k = 0; k < b->in.rows; k++) {
        double *sums = ota_ring_row_sums(b) + k * OTA_ROW_SUMS;
        if (b->ring->pairs->state[b->at + k] == OTA_RING_NONFINITE)
            sums[OTA_SUM_TEMPERATURE] = sums[OTA_SUM_ORDER] = (double)NAN;
        ota_block_add_pair_sums(&b->in, k, by_order, sums);
    }
}

void ota_ring_take_terms(const ota_ring_block *b, const ota_ring_pull *pull) {
    const ota_resolved *r = b->ring->resolved;
    double *sums = ota_ring_row_sums(b);
    for (int t = 0; t < r->term_count; t++) {
        const ota_term *term = &r->terms[t];
        const ota_array *wanted = ota_gradient_of_term(r, pull->want, t);
        if (wanted == NULL || ota_term_is_inside(term)) continue;
        const ota_term_form form = ota_term_form_of(term);
        for (int64_t k = 0; k < b->in.rows && form == OTA_FORM_LINEAR_DISTANCE; k++)
            sums[k * OTA_ROW_SUMS + OTA_SUM_ALIBI] += ota_block_sum_distance(
                &b->in, k, ota_row_position(r, b->in.first + k) - b->piece->first);
        for (int64_t k = 0; k < b->in.rows && form == OTA_FORM_SOFTCAP; k++)
            sums[k * OTA_ROW_SUMS + OTA_SUM_SOFTCAP] += ota_block_sum_softcap(&b->in, k);
        if (form == OTA_FORM_ADDS_DIFFERENCES) add_line(b, OUTSIDE);
        if (form != OTA_FORM_ADDS_PAIRS) continue;
        if (has_own_rows(b->ring, t))
            add_own_rows(b, t, wanted);
        else
            add_columns(b);
    }
}

void ota_ring_take_inside(const ota_ring_block *b, const ota_ring_pull *pull) {
    const ota_resolved *r = b->ring->resolved;
    for (int t = 0; t < r->term_count; t++) {
        if (ota_term_is_inside(&r->terms[t]) && ota_gradient_of_term(r, pull->want, t) != NULL)
            add_line(b, INSIDE);
    }
}

/* ---- what rows share ------------------------------------------------------------------------------ */

/* The block's lines into numbers i - j + keys - 1 of the whole problem. */
static void merge_lines(const ota_ring_block *b, int place, double *to) {
    const ota_resolved *r = b->ring->resolved;
    const ota_ring_parameter_sums *p = b->ring->backward.parameter_sums;
    const int64_t second = second_run(b), runs[HALVES] = {0, second},
                  rows[HALVES] = {second, b->in.rows - second};
    for (int half = 0; half < HALVES; half++) {
        if (rows[half] == 0) continue;
        const double *line = p->sides[b->side].lines[place][half];
        const int64_t first = ota_row_number(r, b->in.first + runs[half]) - b->piece->first +
                              r->keys - 1 - (b->in.keys - 1);
        for (int64_t k = 0; k < b->in.keys - 1 + rows[half]; k++) to[first + k] += line[k];
    }
}

void ota_ring_merge_parameters(const ota_ring_block *b, void *context) {
    const ota_ring_pull *pull = context;
    const ota_resolved *r = b->ring->resolved;
    const ota_backward_job job = job_of(b);
    for (int t = 0; t < r->term_count; t++) {
        const ota_term *term = &r->terms[t];
        const ota_term_form form = ota_term_form_of(term);
        if (ota_gradient_of_term(r, pull->want, t) == NULL) continue;
        if (form == OTA_FORM_ADDS_DIFFERENCES)
            merge_lines(b, ota_term_is_inside(term) ? INSIDE : OUTSIDE, ota_term_slice(&job, t));
        if (form != OTA_FORM_ADDS_PAIRS || has_own_rows(b->ring, t)) continue;
        const double *columns = b->ring->backward.parameter_sums->sides[b->side].columns;
        double *to = ota_term_slice(&job, t);
        for (int64_t j = 0; j < b->in.keys; j++)
            to[term->array.size[3] == 1 ? 0 : b->piece->first + j] += columns[j];
    }
}

/* ---- the end of a message round ---------------------------------------------------------------------------- */

static void add_sink_of_rounds(const ota_ring_device *ring, const ota_ring_kept *of, int64_t k,
                               const ota_row_parameters *row, double *sums) {
    const int64_t queries = ring->resolved->queries, end = of->rounds * queries;
    for (int64_t at = k; at < end && row->sink > -INFINITY; at += queries) {
        const double sink =
            ota_sink_weight(row, ring->plans.forward->strategy.algebra, row->sink, of->f[at]);
        if (sink > 0.0) ota_add_sink_sums(row, sink, of->f[at], of->a[at], false, sums);
    }
}

void ota_ring_end_parameters(ota_ring_device *ring, const ota_ring_pull *pull) {
    const ota_resolved *r = ring->resolved;
    const ota_ring_pairs *p = ring->pairs;
    ota_backward_space *s = ring->backward.space;
    const bool by_order = ota_array_present(&pull->want->order);
    for (int64_t k = 0; k < ota_ring_row_count(ring); k++) {
        const int64_t head = ring->unit.head + k / r->queries;
        double *sums = ring->backward.parameter_sums->rows + k * OTA_ROW_SUMS;
        ota_row_parameters row;
        const double sink = ota_ring_sink_of(ring, k, &row);
        if (pull->rounds != NULL) add_sink_of_rounds(ring, pull->rounds, k, &row, sums);
        if (p->state[k] == OTA_RING_NONFINITE && row.sink > -INFINITY) {
            sums[OTA_SUM_SINK] = (double)NAN;
        } else if (sink > 0.0) {
            ota_add_sink_sums(&row, sink, p->f[k], p->mean[k] + ota_ring_middle(ring, k), by_order,
                              sums);
        }
        s->sums.temperature[head] += sums[OTA_SUM_TEMPERATURE];
        s->sums.order += sums[OTA_SUM_ORDER];
        s->sums.sink[head] += sums[OTA_SUM_SINK];
        s->sums.alibi[head] += sums[OTA_SUM_ALIBI];
        s->sums.softcap += sums[OTA_SUM_SOFTCAP];
    }
}
