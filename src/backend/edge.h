/* edge.h: rows of an order above 2, whose weights rise from 0 like a power p = 1 / (alpha - 1) < 1 of the distance to the
 * threshold: what a double holds of a threshold is too little for the weights beside it. With the edge e, the least x that has
 * weight, and q the weight there,
 *
 *     p_j = ((x_j - e) k + delta)^p,   delta = q^(1/p),   q fixed by sum p_j = mu,   k = (alpha - 1) / tau
 *
 * where differences of scores keep their digits. The sum is convex in q and rises at least as fast as q, so that Newton's steps
 * come to it from above. Keys above e that are too many to carry no more than mu mean an edge higher up, a solution that reaches
 * below the next key one further down. A search asks questions that a pass over the keys answers (ota_edge_next), so that keys may come
 * by in pieces. */
#ifndef OTA_BACKEND_EDGE_H
#define OTA_BACKEND_EDGE_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "backend/backend.h"

enum { OTA_EDGE_PIECE = 512, OTA_EDGE_STEPS = 200, OTA_EDGE_MOVES = 4000 };

/* Do rows have edges? */
static inline bool ota_is_steep(const ota_resolved *r) {
    return ota_regulariser_of(&r->problem)->tsallis && r->order > 2.0;
}

/* The numbers of a row. */
typedef struct ota_edge_row {
    double sink, k, power, mu;
} ota_edge_row;

/* Its keys; `lift` brings [first, first + count) of them as x, -inf where a key is none. */
typedef struct ota_edge_keys {
    const void *keys;
    void (*lift)(const void *keys, int64_t first, int64_t count, double *x);
    int64_t count;
} ota_edge_keys;

/* Sums over all keys at an edge, or the least x above a level. */
typedef struct ota_edge_sums {
    double above, lost; /* sum of the weights above e */
    double rise;        /* its derivative by q */
    double ties;        /* keys at e */
    double below, next; /* the nearest x on both sides */
} ota_edge_sums;

static inline ota_edge_sums ota_edge_no_sums(void) {
    return (ota_edge_sums){.below = -INFINITY, .next = INFINITY};
}

static inline ota_edge_row ota_edge_row_of(const ota_row_parameters *parameters, double mu) {
    const double gap = parameters->order - 1.0;
    return (ota_edge_row){.sink = parameters->sink,
                          .k = fmin(gap / parameters->tau, DBL_MAX),
                          .power = 1.0 / gap,
                          .mu = mu};
}

/* (x - e) k; halves do not overflow. */
static inline double ota_edge_distance(const ota_edge_row *row, double e, double x) {
    const double far = x / 2.0 - e / 2.0;
    return fabs(far) < 0x1p1000 ? (x - e) * row->k : far * row->k * 2.0;
}

static inline double ota_edge_weight(const ota_edge_row *row, const ota_edge *edge, double x) {
    if (!(x > edge->at)) return x < edge->at ? 0.0 : edge->weight;
    return pow(ota_edge_distance(row, edge->at, x) + edge->delta, row->power);
}

/* The same of a key that has an edge of its own, where keys are the solver's rows; x = s + f. */
static inline double ota_edge_of_key(const ota_edge_row *row, const ota_edge *edge, double x) {
    return edge->known ? ota_edge_weight(row, edge, x) : 0.0;
}

/* The weights of a query; returns their sum. */
static inline double ota_weigh_beside_keys(const ota_row_parameters *parameters,
                                           const ota_edge *edges, const double *s, double f,
                                           int64_t keys, double *p) {
    const ota_edge_row row = ota_edge_row_of(parameters, 0.0);
    double sum = 0.0;
    for (int64_t j = 0; j < keys; j++) {
        p[j] = ota_edge_of_key(&row, &edges[j], s[j] + f);
        sum += p[j];
    }
    return sum;
}

/* f, which leaves digits of the weights out. */
static inline double ota_edge_potential(const ota_edge_row *row, const ota_edge *edge) {
    return -edge->at + edge->delta / row->k;
}

static inline void ota_edge_add(const ota_edge_row *row, const ota_edge *edge, double x,
                                ota_edge_sums *sums) {
    if (x > edge->at) {
        const double y = ota_edge_distance(row, edge->at, x) + edge->delta, p = pow(y, row->power);
        const double total = sums->above + p;
        sums->lost += sums->above >= p ? (sums->above - total) + p : (p - total) + sums->above;
        sums->above = total;
        /* (q / p)^(1/power - 1) */
        if (edge->weight > 0.0) sums->rise += p / y * (edge->delta / edge->weight);
        sums->next = fmin(sums->next, x);
    } else if (x < edge->at) {
        sums->below = fmax(sums->below, x);
    } else {
        sums->ties += 1.0;
    }
}

/* ---- the search ----------------------------------------------------------------------------------- */

typedef enum ota_edge_stage {
    OTA_EDGE_FIRST,     /* asks for the least x above the guess */
    OTA_EDGE_CLIMB,     /* for that above a level further up */
    OTA_EDGE_DESCEND,   /* for that above a level further down */
    OTA_EDGE_CLIMBED,   /* for the sums at an edge that may be too low */
    OTA_EDGE_DESCENDED, /* at one that may be too low again */
    OTA_EDGE_WEIGH,     /* at a q */
    OTA_EDGE_FOUND
} ota_edge_stage;

typedef struct ota_edge_search {
    ota_edge_row row;
    ota_edge_stage stage;
    double top, guess, level;
    double out; /* no key up to here has weight */
    ota_edge edge;
    ota_edge_sums first; /* where nothing lies between the edge and the threshold */
    double most;         /* the largest weight that a key at the edge may have */
    int step, move;
} ota_edge_search;

static inline void ota_edge_ask_above(ota_edge_search *of, ota_edge_stage stage, double level) {
    of->stage = stage;
    of->level = level;
}

static inline void ota_edge_ask_sums(ota_edge_search *of, ota_edge_stage stage, double at) {
    of->stage = stage;
    of->edge = (ota_edge){.at = at, .known = true};
}

/* `top` is the row's largest x, the sink's included; `guess`, a level near the threshold. */
static inline ota_edge_search ota_edge_begin(const ota_edge_row *row, double top, double guess) {
    ota_edge_search of = {.row = *row, .top = top, .guess = guess, .out = -INFINITY};
    if (guess < top)
        ota_edge_ask_above(&of, OTA_EDGE_FIRST, guess);
    else
        ota_edge_ask_sums(&of, OTA_EDGE_CLIMBED, top);
    return of;
}

/* What a key of this x adds to the answer. */
static inline void ota_edge_answer(const ota_edge_search *of, double x, ota_edge_sums *sums) {
    if (of->stage > OTA_EDGE_DESCEND)
        ota_edge_add(&of->row, &of->edge, x, sums);
    else if (x > of->level)
        sums->next = fmin(sums->next, x);
}

static inline void ota_edge_ask_weight(ota_edge_search *of, double q) {
    of->stage = OTA_EDGE_WEIGH;
    of->edge.weight = q;
    of->edge.delta = pow(q, 1.0 / of->row.power);
}

/* q at an edge whose keys above carry less than mu, by steps from above: from the most that it may be, or from where the guess puts it. */
static inline void ota_edge_settle_at(ota_edge_search *of, const ota_edge_sums *sums) {
    const double apart = ota_edge_distance(&of->row, of->guess, of->edge.at);
    const double near = apart > 0.0 ? (1.0 + 1.0e-6) * pow(apart, of->row.power) : INFINITY;
    of->first = *sums;
    of->step = 0;
    of->most = (of->row.mu - sums->above) / sums->ties;
    ota_edge_ask_weight(of, near < of->most ? near : of->most);
}

static inline void ota_edge_climb(ota_edge_search *of, const ota_edge_sums *sums) {
    if (!(of->edge.at < of->top) || sums->above < of->row.mu) {
        of->move = 0;
        ota_edge_settle_at(of, sums);
        return;
    }
    of->out = of->edge.at;
    if (of->move++ < 4)
        ota_edge_ask_sums(of, OTA_EDGE_CLIMBED, sums->next);
    else
        ota_edge_ask_above(of, OTA_EDGE_CLIMB, of->out / 2.0 + of->top / 2.0);
}

/* q is known. The next key has weight, unless it lies where the threshold cannot be: their distance says so, not the threshold
 * itself, which a double rounds to the key. */
static inline void ota_edge_look_down(ota_edge_search *of) {
    const double below = of->first.below;
    const bool reached = ota_edge_distance(&of->row, below, of->edge.at) < of->edge.delta;
    if (!(below > of->out) || !reached || of->move >= OTA_EDGE_MOVES) {
        of->stage = OTA_EDGE_FOUND;
        return;
    }
    const double reach = fmax(of->edge.at - of->edge.delta / of->row.k, of->out);
    const double level = of->move++ == 0 ? reach : reach / 2.0 + below / 2.0;
    if (level < below)
        ota_edge_ask_above(of, OTA_EDGE_DESCEND, level);
    else
        ota_edge_ask_sums(of, OTA_EDGE_DESCENDED, below);
}

static inline void ota_edge_descend(ota_edge_search *of, const ota_edge_sums *sums) {
    const bool low = !(sums->above < of->row.mu);
    if (low) of->out = of->edge.at;
    if (low && of->edge.at < of->first.below)
        ota_edge_ask_sums(of, OTA_EDGE_DESCENDED, of->first.below);
    else
        ota_edge_settle_at(of, sums);
}

static inline void ota_edge_weigh(ota_edge_search *of, const ota_edge_sums *sums) {
    const double q = of->edge.weight;
    of->edge.sum = sums->above + sums->ties * q;
    const double excess = of->edge.sum - of->row.mu, next = q - excess / (sums->ties + sums->rise);
    if (of->step == 0 && excess < 0.0 && q < of->most) { /* the guess was too low */
        of->step = 1;
        ota_edge_ask_weight(of, of->most);
        return;
    }
    if (!(excess > 2.0e-16 * of->row.mu) || !(next < q) || !(next > 0.0) ||
        ++of->step >= OTA_EDGE_STEPS)
        ota_edge_look_down(of);
    else
        ota_edge_ask_weight(of, next);
}

/* Takes an answer of all keys; false: the edge and the weight there are found. */
static inline bool ota_edge_next(ota_edge_search *of, ota_edge_sums sums) {
    if (of->row.sink > -INFINITY) ota_edge_answer(of, of->row.sink, &sums);
    sums.above += sums.lost;
    const double above = sums.next < INFINITY ? sums.next : of->top;
    switch (of->stage) {
    case OTA_EDGE_FIRST:
    case OTA_EDGE_CLIMB: ota_edge_ask_sums(of, OTA_EDGE_CLIMBED, above); break;
    case OTA_EDGE_DESCEND: ota_edge_ask_sums(of, OTA_EDGE_DESCENDED, above); break;
    case OTA_EDGE_CLIMBED: ota_edge_climb(of, &sums); break;
    case OTA_EDGE_DESCENDED: ota_edge_descend(of, &sums); break;
    case OTA_EDGE_WEIGH: ota_edge_weigh(of, &sums); break;
    case OTA_EDGE_FOUND: break;
    }
    return of->stage != OTA_EDGE_FOUND;
}

static inline ota_edge_sums ota_edge_pass(const ota_edge_search *of, const ota_edge_keys *keys) {
    ota_edge_sums sums = ota_edge_no_sums();
    double x[OTA_EDGE_PIECE];
    for (int64_t j = 0; j < keys->count; j += OTA_EDGE_PIECE) {
        const int64_t left = keys->count - j, count = left < OTA_EDGE_PIECE ? left : OTA_EDGE_PIECE;
        keys->lift(keys->keys, j, count, x);
        for (int64_t i = 0; i < count; i++) ota_edge_answer(of, x[i], &sums);
    }
    return sums;
}

static inline ota_edge ota_edge_find(const ota_edge_row *row, const ota_edge_keys *keys, double top,
                                     double guess) {
    ota_edge_search search = ota_edge_begin(row, top, guess);
    while (ota_edge_next(&search, ota_edge_pass(&search, keys))) {
    }
    return search.edge;
}

#endif
