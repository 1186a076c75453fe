/* Rows of a ring whose weights may be 0: entmax and hard rows.
 *
 *     entmax   p_j = [(alpha - 1) (s_j + f) / tau]_+^(1 / (alpha - 1)),   f fixed by sum p = mu
 *     hard     all of mu on the first largest s_j
 *
 * More keys only lower f, so a key without weight among those that have come by has none in the end: a row keeps the scores of
 * the others, its list, and solves them again with every piece. Where a list is too short (orders below 1 give every key weight),
 * the threshold is searched for by further message rounds, one a step, until no rank has a row left. The last message round brings the values.
 * Hard rows need no list and no second message round. */
#include <math.h>
#include <string.h>

#include "ring_pairs.h"

#include "regularisers/tsallis.h"

/* A row's relative miss of its mass that is left to the last scaling, and one that the next Newton step squares. */
static const double enough = 1.0e-14, near = 1.0e-8;

/* ---- while the keys go round ---------------------------------------------------------------------- */

bool ota_ring_score_range(const ota_ring_block *b, int64_t k, double *top) {
    unsigned char *state = &b->ring->pairs->state[b->at + k];
    if (!ota_block_find_top(b->in.scores + k * b->in.stride, b->in.keys, top))
        *state = OTA_RING_NONFINITE;
    return *state != OTA_RING_NONFINITE;
}

/* Keys without weight leave the list. */
static void keep(ota_ring_pairs *p, int64_t row, const double *s, const double *weights,
                 int64_t count) {
    double *list = p->list + row * OTA_RING_LIST;
    int64_t kept = 0;
    for (int64_t j = 0; j < count; j++) {
        if (!(weights[j] > 0.0)) continue;
        if (kept == OTA_RING_LIST) {
            p->state[row] = OTA_RING_SPILLED;
            return;
        }
        list[kept++] = s[j];
    }
    p->listed[row] = kept;
}

static void list_rows(const ota_ring_block *b, void *context) {
    ota_ring_pairs *p = b->ring->pairs;
    ota_row_parameters parameters = b->in.rule;
    parameters.sink = b->sink;
    (void)context;
    ota_block_add_potentials(&b->in);
    for (int64_t k = 0; k < b->in.rows; k++) {
        const int64_t row = b->at + k;
        double *s = b->in.scores + k * b->in.stride, *weights = b->in.weights + k * b->in.stride,
               top;
        if (!ota_ring_score_range(b, k, &top)) continue;
        p->top[row] = fmax(p->top[row], top);
        if (p->state[row] != OTA_RING_LISTED || !(top > -INFINITY)) continue;
        const int64_t count = b->in.keys + p->listed[row];
        memcpy(s + b->in.keys, p->list + row * OTA_RING_LIST, (size_t)p->listed[row] * sizeof *s);
        ota_row_found found;
        const double mu = ota_row_mass(b->in.problem, 0, b->in.head, b->in.first + k);
        b->ring->plans.forward->strategy.algebra->row_solve(&parameters, s, NULL, count, mu,
                                                            weights, &found);
        p->f[row] = found.potential;
        keep(p, row, s, weights, count);
    }
}

/* All of the row's mass to a key of the piece, which drops it or not. */
static void give_all(const ota_ring_block *b, int64_t k, int64_t key) {
    const ota_ring_device *ring = b->ring;
    const ota_ring_pairs *p = ring->pairs;
    const int64_t width = ring->values_width;
    double *out = ring->rows.out + (b->at + k) * width;
    double weight = ota_row_mass(b->in.problem, 0, b->in.head, b->in.first + k);
    p->uses_nonfinite[b->at + k] = p->piece.nonfinite[key] && weight > 0.0;
    if (b->in.problem->problem.dropout > 0.0)
        ota_dropout_row_f64(b->in.problem, b->in.dropout_key, b->in.first + k, key, NULL, 1,
                            &weight);
    for (int64_t w = 0; w < width; w++) out[w] = weight * p->piece.values[key * width + w];
}

static void take_best(const ota_ring_block *b, void *context) {
    ota_ring_pairs *p = b->ring->pairs;
    (void)context;
    for (int64_t k = 0; k < b->in.rows; k++) {
        const int64_t row = b->at + k;
        const double *s = b->in.scores + k * b->in.stride;
        double top;
        if (!ota_ring_score_range(b, k, &top) || !(top > -INFINITY)) continue;
        int64_t key = 0;
        while (s[key] < top) key++;
        const int64_t number = b->piece->first + key;
        /* Pieces come in another order on every rank; the first of the largest is the same on all. */
        if (p->listed[row] >= 0 &&
            (top < p->top[row] || (!(top > p->top[row]) && number > p->listed[row])))
            continue;
        p->top[row] = top;
        p->listed[row] = number;
        give_all(b, k, key);
    }
}

/* sum y^p and sum y^(p - 1) with y^p = P, p = 1 / (alpha - 1), of rows that are searched. */
static void sum_powers(const ota_ring_block *b, void *context) {
    ota_ring_pairs *p = b->ring->pairs;
    (void)context;
    ota_block_add_potentials(&b->in);
    for (int64_t k = 0; k < b->in.rows; k++) {
        const int64_t row = b->at + k;
        if (p->state[row] == OTA_RING_SPILLED)
            ota_block_add_powers(&b->in, k, p->f[row], &p->first[row], &p->second[row]);
        else if (p->state[row] == OTA_RING_STEEP)
            ota_ring_answer_edge(b, k);
    }
}

/* ---- between the message rounds ---------------------------------------------------------------------------- */

static double potential_of(const ota_ring_pairs *p, int64_t row, const ota_row_parameters *is) {
    return -p->top[row] - p->search[row].t * is->tau / (is->order - 1.0);
}

static void begin_rows(ota_ring_device *ring) {
    ota_ring_pairs *p = ring->pairs;
    const int64_t rows = ota_ring_row_count(ring);
    ota_ring_widen_queries(ring);
    ota_ring_begin_statistics(ring);
    ota_ring_begin_edges(ring);
    for (int64_t k = 0; k < rows; k++) {
        const double mu = ota_ring_row_mass(ring, k);
        p->state[k] = isnan(mu) ? OTA_RING_NONFINITE : OTA_RING_LISTED;
        p->uses_nonfinite[k] = 0;
        p->top[k] = p->f[k] = -INFINITY;
        if (p->listed != NULL) p->listed[k] = ring->rule == OTA_RING_BY_BEST_KEY ? -1 : 0;
    }
    if (ring->values_width > 0)
        memset(ring->rows.out, 0, (size_t)(rows * ring->values_width) * sizeof *ring->rows.out);
}

/* Its list is whole, or a search begins where its last potential stands, which is not below the row's. */
static void end_list(ota_ring_device *ring, int64_t k) {
    const ota_resolved *r = ring->resolved;
    ota_ring_pairs *p = ring->pairs;
    const ota_row_parameters row = ota_ring_parameters(ring, k / r->queries);
    const double mu = ota_ring_row_mass(ring, k);
    p->top[k] = fmax(p->top[k], row.sink);
    p->first[k] = p->second[k] = 0.0;
    if (p->state[k] == OTA_RING_LISTED) {
        ota_row_found found;
        ring->plans.forward->strategy.algebra->row_solve(&row, p->list + k * OTA_RING_LIST, NULL,
                                                         p->listed[k], mu, p->workers[0].weights,
                                                         &found);
        p->f[k] = found.potential;
        if (p->steep.edges != NULL) p->steep.edges[k] = found.edge;
    }
    if (p->state[k] != OTA_RING_SPILLED) return;
    if (p->steep.edges != NULL) {
        ota_ring_seek_edge(ring, k);
        return;
    }
    const double power = 1.0 / (row.order - 1.0);
    threshold_search *search = &p->search[k];
    *search = threshold_begin(mu, power, (double)r->keys + 1.0);
    search->accuracy = enough;
    search->near = power < 2.0 ? 0.0 : near;
    const double t = -(p->f[k] + p->top[k]) * (row.order - 1.0) / row.tau;
    if (t > search->low && t < search->high) search->t = t;
    p->f[k] = potential_of(p, k, &row);
}

static void step_row(ota_ring_device *ring, int64_t k) {
    ota_ring_pairs *p = ring->pairs;
    ota_row_parameters row;
    const double sink = ota_ring_sink_of(ring, k, &row);
    if (sink > 0.0) {
        p->first[k] += sink;
        p->second[k] += ota_tsallis_slope(sink, row.order);
    }
    const bool goes_on = threshold_step(&p->search[k], p->first[k], p->second[k]) &&
                         p->search[k].steps < OTA_RING_SEARCH;
    p->f[k] = potential_of(p, k, &row);
    p->first[k] = p->second[k] = 0.0;
    if (!goes_on) p->state[k] = OTA_RING_FOUND;
}

/* ---- message rounds ------------------------------------------------------------------------------- */

/* How many rows still look for their potential, on the rank that has most. */
static bool count_searched(ota_ring_device *ring, double *left) {
    *left = 0.0;
    for (int64_t k = 0; k < ota_ring_row_count(ring) && ring->failed == OTA_OK; k++)
        *left +=
            ring->pairs->state[k] == OTA_RING_SPILLED || ring->pairs->state[k] == OTA_RING_STEEP;
    return ota_ranks_most(&ring->resolved->settings, left, 1, "agreeing on another message round");
}

bool ota_ring_search_rows(ota_ring_device *ring, const ota_ring_search *search) {
    const ota_ring_pair_round meets = {.visits.rows = search->meet, .step = search->meeting},
                              sums = {.visits.rows = search->sum, .step = search->summing};
    double left;
    ring->pairs->meets = true;
    const bool met = ota_ring_visit_pairs(ring, &meets);
    ring->pairs->meets = false;
    if (!met) return false;
    for (int64_t k = 0; k < ota_ring_row_count(ring); k++) search->begin(ring, k);
    for (;;) {
        if (!count_searched(ring, &left)) return false;
        if (!(left > 0.0)) return true;
        if (!ota_ring_visit_pairs(ring, &sums)) return false;
        for (int64_t k = 0; k < ota_ring_row_count(ring); k++) {
            if (ring->pairs->state[k] == OTA_RING_SPILLED)
                search->step(ring, k);
            else if (ring->pairs->state[k] == OTA_RING_STEEP)
                ota_ring_step_edge(ring, k);
        }
    }
}

static const ota_ring_search thresholds = {.meet = list_rows,
                                           .sum = sum_powers,
                                           .begin = end_list,
                                           .step = step_row,
                                           .meeting = "passing keys on for the thresholds",
                                           .summing =
                                               "passing keys on for a step of the thresholds"};

bool ota_ring_find_thresholds(ota_ring_device *ring) {
    const bool capped = ring->rule == OTA_RING_BY_CAPS, filled = ring->rule == OTA_RING_BY_FILLING;
    begin_rows(ring);
    if (capped) ota_ring_begin_capped(ring);
    if (filled) ota_ring_begin_filled(ring);
    return ota_ring_search_rows(ring, capped   ? &ota_ring_capped_search
                                      : filled ? &ota_ring_filled_search
                                               : &thresholds);
}

void ota_ring_fit_weights(const ota_ring_block *b) {
    const ota_ring_caps *caps = &b->ring->pairs->caps;
    ota_ring_weigh(b);
    for (int64_t k = 0; k < b->in.rows && b->ring->rule == OTA_RING_BY_CAPS; k++) {
        const int64_t row = b->at + k;
        ota_block_fit_capped(&b->in, k, &caps->search[row], caps->part[row], caps->factor[row]);
    }
}

/* What the weights at f add up to, with values where outputs are wanted. */
static void finish_rows(const ota_ring_block *b, void *context) {
    const ota_ring_device *ring = b->ring;
    ota_ring_pairs *p = ring->pairs;
    const int64_t width = ring->values_width;
    (void)context;
    ota_ring_fit_weights(b);
    ota_ring_add_statistics(b);
    for (int64_t k = 0; k < b->in.rows; k++) {
        ota_ring_note_values(b, k);
        ota_block_drop(&b->in, k, b->in.weights + k * b->in.stride);
    }
    if (width == 0) return;
    const ota_product sizes = {b->in.rows, b->in.keys, width, b->in.stride, width, width};
    ring->plans.forward->strategy.algebra->apply(b->in.weights, p->piece.values, &sizes,
                                                 ring->rows.out + b->at * width);
}

static double mixed_sink(const ota_ring_device *ring, int64_t k) {
    const ota_row_parameters row = ota_ring_parameters(ring, k / ring->resolved->queries);
    const ota_ring_pairs *p = ring->pairs;
    return ota_capped_between(&row, &p->caps.search[k], p->caps.part[k], row.sink, INFINITY);
}

/* What rounding left of the threshold is spread in proportion, so that rows sum to mu. */
static void scale_row(ota_ring_device *ring, int64_t k, double mu) {
    ota_ring_pairs *p = ring->pairs;
    ota_row_parameters row;
    p->sink[k] = ota_ring_sink_of(ring, k, &row);
    const double sum = p->sums[k].mass + p->sink[k], factor = sum > 0.0 ? mu / sum : 0.0;
    p->sums[k].p_log_p =
        factor * p->sums[k].p_log_p + (factor > 0.0 ? factor * log(factor) * p->sums[k].mass : 0.0);
    p->sums[k].mass *= factor;
    p->sink[k] *= factor;
    p->sums[k].largest *= factor;
    for (int64_t w = 0; w < ring->values_width; w++)
        ring->rows.out[k * ring->values_width + w] *= factor;
}

static void settle_hard(ota_ring_device *ring, int64_t k, double mu) {
    ota_ring_pairs *p = ring->pairs;
    const double sink = ota_ring_parameters(ring, k / ring->resolved->queries).sink;
    const bool key = p->listed[k] >= 0 && p->top[k] >= sink;
    const bool any = key || sink > -INFINITY;
    p->top[k] = fmax(p->top[k], sink);
    p->f[k] = -p->top[k];
    p->sums[k].mass = p->sums[k].largest = key ? mu : 0.0;
    p->sink[k] = any && !key ? mu : 0.0;
    p->sums[k].support = key && mu > 0.0;
    p->sums[k].p_log_p = key && mu > 0.0 ? mu * log(mu) : 0.0;
    if (!key) p->uses_nonfinite[k] = 0;
    for (int64_t w = 0; w < ring->values_width && !key; w++)
        ring->rows.out[k * ring->values_width + w] = 0.0;
}

bool ota_ring_attend_pairs(ota_ring_device *ring) {
    ota_ring_pairs *p = ring->pairs;
    if (ring->rule == OTA_RING_BY_BEST_KEY) {
        begin_rows(ring);
        if (!ota_ring_visit_pairs(ring, &(ota_ring_pair_round){.visits.rows = take_best,
                                                               .with_values = true,
                                                               .step = "passing keys on"}))
            return false;
    } else if (!ota_ring_find_thresholds(ring) ||
               !ota_ring_visit_pairs(ring, &(ota_ring_pair_round){.visits.rows = finish_rows,
                                                                  .with_values = true,
                                                                  .step = "passing keys on"})) {
        return false;
    }
    for (int64_t k = 0; k < ota_ring_row_count(ring); k++) {
        ota_row_parameters row;
        const double mu = ota_ring_row_mass(ring, k);
        if (p->state[k] == OTA_RING_NONFINITE) continue;
        if (ring->rule == OTA_RING_BY_BEST_KEY)
            settle_hard(ring, k, mu);
        else if (ring->rule == OTA_RING_BY_CAPS)
            p->sink[k] = p->caps.part[k] >= 0.0
                             ? mixed_sink(ring, k)
                             : p->caps.factor[k] * ota_ring_sink_of(ring, k, &row);
        else if (ring->rule != OTA_RING_BY_FILLING)
            scale_row(ring, k, mu);
    }
    return true;
}
