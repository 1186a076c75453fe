/* Hard rows of a ring under caps. A row takes its keys in order, largest score first and equal ones by place, whatever rank they
 * come from: those before the edge are full, the edge is the first key that has room for the mass with those before it and gets
 * the rest. A sink stands after the keys that are as good.
 *
 *     P_ij = c_ij before the edge,   mu_i less the sum of those at it,   0 after it
 *
 * More keys only bring the edge forwards, so a row keeps the keys up to it while all go round, OTA_RING_FILLED at most. Where
 * they are more, one message round a step takes the sum of those up to some place between a first and a last key that may be the edge,
 * which halves what lies between by scores, then by places; where that is short enough the next message round lists it. Every sum has
 * one order, and every step leaves a key out, so a row ends alike on every rank. The last message round brings the values. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "ring_pairs.h"

static bool is_before(ota_ring_spot a, ota_ring_spot b) {
    return a.score > b.score || (!(a.score < b.score) && a.key < b.key);
}

/* ---- while the keys go round ---------------------------------------------------------------------- */

/* Adds a key to the list, and leaves out those after the edge. */
static void list_key(ota_ring_filling *row, ota_ring_filled_key key) {
    const int64_t last = row->listed - 1;
    const bool after = last >= 0 && is_before(row->list[last].at, key.at);
    const bool full = row->listed == OTA_RING_FILLED;
    if (row->spilled || (row->whole && after)) return;
    if (full && after) {
        row->spilled = true;
        return;
    }
    int64_t k = full ? last : last + 1;
    for (; k > 0 && is_before(key.at, row->list[k - 1].at); k--) row->list[k] = row->list[k - 1];
    row->list[k] = key;
    if (!full) row->listed++;
    double room = row->room;
    row->whole = false;
    for (k = 0; k < row->listed && !row->whole; k++) {
        room += row->list[k].cap;
        row->whole = room >= row->enough;
    }
    row->listed = k;
    row->spilled = full && !row->whole;
}

/* A key of the first message round. */
static void meet_key(ota_ring_filling *row, ota_ring_filled_key key) {
    row->sum += key.cap;
    row->count++;
    row->least = fmin(row->least, key.at.score);
    list_key(row, key);
}

/* A key of a step. */
static void sum_key(ota_ring_filling *row, ota_ring_filled_key key) {
    if (row->lists) {
        if (!is_before(key.at, row->first) && !is_before(row->last, key.at)) list_key(row, key);
    } else if (!is_before(row->at, key.at)) {
        row->sum += key.cap;
        row->count++;
        row->least = fmin(row->least, key.at.score);
    } else {
        row->most = fmax(row->most, key.at.score);
    }
}

/* The keys of row k of a block that may count. */
static void visit_keys(const ota_ring_block *b, int64_t k,
                       void (*visit)(ota_ring_filling *row, ota_ring_filled_key key)) {
    const ota_ring_pairs *p = b->ring->pairs;
    const double *s = b->in.scores + k * b->in.stride;
    for (int64_t j = 0; j < b->in.keys; j++) {
        const double cap = ota_block_cap(&b->in, k, j);
        if (s[j] > -INFINITY && s[j] >= b->sink && cap > 0.0)
            visit(&p->filling[b->at + k],
                  (ota_ring_filled_key){{s[j], b->piece->first + b->in.key + j}, cap});
    }
}

static void meet_rows(const ota_ring_block *b, void *context) {
    ota_ring_pairs *p = b->ring->pairs;
    (void)context;
    for (int64_t k = 0; k < b->in.rows; k++) {
        double top;
        if (!ota_ring_score_range(b, k, &top)) continue;
        p->top[b->at + k] = fmax(p->top[b->at + k], top);
        visit_keys(b, k, meet_key);
    }
}

static void sum_rows(const ota_ring_block *b, void *context) {
    (void)context;
    for (int64_t k = 0; k < b->in.rows; k++) {
        if (b->ring->pairs->state[b->at + k] == OTA_RING_SPILLED) visit_keys(b, k, sum_key);
    }
}

/* ---- between the message rounds ---------------------------------------------------------------------------- */

/* A number for every score, in their order. */
static int64_t place_of(double score) {
    int64_t bits;
    memcpy(&bits, &score, sizeof bits);
    return bits < 0 ? INT64_MIN - bits : bits;
}

static double score_at(int64_t place) {
    const int64_t bits = place < 0 ? INT64_MIN - place : place;
    double score;
    memcpy(&score, &bits, sizeof score);
    return score;
}

/* Above which score the next sum is taken, low <= level < high: where the room grows evenly with falling scores, half way, or
 * half way among all numbers, in turn. */
static double level_of(const ota_ring_filling *row, double mu) {
    const double low = row->last.score, high = row->first.score;
    double level = low + 0.5 * (high - low);
    if (row->iteration % 3 == 0)
        level = high - (high - low) * ((mu - row->room) / (row->room_last - row->room));
    if (row->iteration % 3 == 2) {
        const int64_t a = place_of(low), b = place_of(high);
        level = score_at(a + (int64_t)(((uint64_t)b - (uint64_t)a) / 2));
    }
    return level >= low && level < high ? level : low;
}

/* What the next message round asks of a row whose edge is not known. */
static void choose(ota_ring_filling *row, double mu) {
    const bool scores = row->first.score > row->last.score;
    row->listed = row->count = 0;
    row->sum = 0.0;
    row->least = INFINITY;
    row->most = -INFINITY;
    row->spilled = row->whole = false;
    row->lists = row->up_to - row->before <= OTA_RING_FILLED;
    row->at = (ota_ring_spot){level_of(row, mu), -1};
    if (!scores)
        row->at =
            (ota_ring_spot){row->last.score, row->first.key + (row->last.key - row->first.key) / 2};
    row->iteration++;
}

/* What the sums of a message round say of where the edge is. */
static void bracket(ota_ring_filling *row, int64_t keys) {
    const bool scores = row->at.key < 0;
    if (row->sum >= row->enough) {
        row->last = scores ? (ota_ring_spot){row->least, keys} : row->at;
        row->room_last = row->sum;
        row->up_to = row->count;
    } else {
        row->first = scores ? (ota_ring_spot){row->most, 0}
                            : (ota_ring_spot){row->at.score, row->at.key + 1};
        row->room = row->sum;
        row->before = row->count;
    }
}

/* The edge, out of a list that has it. */
static void end_list(ota_ring_filling *row, double mu) {
    double room = row->room;
    for (int64_t k = 0; k + 1 < row->listed; k++) room += row->list[k].cap;
    const ota_ring_filled_key *last = &row->list[row->listed - 1];
    row->edge = last->at;
    row->rest = fmin(last->cap, fmax(mu - room, 0.0));
}

static void find_row(ota_ring_device *ring, int64_t k, double level) {
    ota_ring_pairs *p = ring->pairs;
    p->f[k] = -level;
    p->state[k] = OTA_RING_FOUND;
}

/* What the first message round says of a row. */
static void begin_row(ota_ring_device *ring, int64_t k) {
    ota_ring_pairs *p = ring->pairs;
    ota_ring_filling *row = &p->filling[k];
    const double sink = ota_ring_parameters(ring, k / ring->resolved->queries).sink;
    const double mu = ota_ring_row_mass(ring, k);
    const double slack = 4.0 * DBL_EPSILON * (double)(ring->resolved->keys + 1) * mu;
    p->top[k] = fmax(p->top[k], sink);
    if (p->state[k] == OTA_RING_NONFINITE) return;
    p->state[k] = OTA_RING_FOUND;
    if (!(p->top[k] > -INFINITY) || !(mu > 0.0)) return;
    if (row->sum < (sink > -INFINITY ? mu : row->enough)) {
        /* Whatever counts is full. */
        row->edge = (ota_ring_spot){-INFINITY, -1};
        find_row(ring, k, sink > -INFINITY ? sink : row->least);
        p->sink[k] = sink > -INFINITY ? mu - row->sum : 0.0;
        if (!(sink > -INFINITY) && row->sum < mu - slack) p->state[k] = OTA_RING_FULL;
    } else if (!row->spilled) {
        end_list(row, mu);
        find_row(ring, k, row->edge.score);
    } else {
        p->state[k] = OTA_RING_SPILLED;
        row->first = (ota_ring_spot){p->top[k], 0};
        row->last = (ota_ring_spot){row->least, ring->resolved->keys};
        row->room_last = row->sum;
        row->up_to = row->count;
        choose(row, mu);
    }
}

static void step_row(ota_ring_device *ring, int64_t k) {
    ota_ring_filling *row = &ring->pairs->filling[k];
    const double mu = ota_ring_row_mass(ring, k);
    if (row->lists) {
        end_list(row, mu);
        find_row(ring, k, row->edge.score);
        return;
    }
    bracket(row, ring->resolved->keys);
    choose(row, mu);
}

/* ---- message rounds ---------------------------------------------------------------------------------------- */

void ota_ring_begin_filled(ota_ring_device *ring) {
    for (int64_t k = 0; k < ota_ring_row_count(ring); k++)
        ring->pairs->filling[k] =
            (ota_ring_filling){.least = INFINITY,
                               .edge = {INFINITY, -1},
                               /* Rounding of the sums is no reason to go on to a next key. */
                               .enough = ota_ring_row_mass(ring, k) * (1.0 - 4.0 * DBL_EPSILON)};
}

const ota_ring_search ota_ring_filled_search = {.meet = meet_rows,
                                                .sum = sum_rows,
                                                .begin = begin_row,
                                                .step = step_row,
                                                .meeting = "passing keys on for the caps",
                                                .summing =
                                                    "passing keys on for a step under the caps"};

void ota_ring_fill(const ota_ring_block *b, int64_t k, double *weights) {
    const ota_ring_pairs *p = b->ring->pairs;
    const ota_ring_filling *row = &p->filling[b->at + k];
    const double *s = b->in.scores + k * b->in.stride;
    for (int64_t j = 0; j < b->in.keys; j++) {
        const ota_ring_spot at = {s[j], b->piece->first + b->in.key + j};
        weights[j] = 0.0;
        if (!(s[j] > -INFINITY) || !(s[j] >= b->sink) || is_before(row->edge, at)) continue;
        weights[j] = is_before(at, row->edge) ? ota_block_cap(&b->in, k, j) : row->rest;
    }
}
