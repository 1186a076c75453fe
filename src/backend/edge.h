/* edge.h: rows of an order above 2, whose weights rise from 0 like a power p = 1 / (alpha - 1) < 1 of the distance to the
 * threshold: what a double holds of a threshold is too little for the weights beside it. With the edge e, the least x that has
 * weight, and q the weight there,
 *
 *     p_j = ((x_j - e) k + delta)^p,   delta = q^(1/p),   q fixed by sum p_j = mu,   k = (alpha - 1) / tau
 *
 * where differences of scores keep their digits. The sum is convex in q and rises at least as fast as q, so that Newton's steps
 * come to it from above. Keys above e that are too many to carry no more than mu mean an edge higher up, a solution that reaches
 * below the next key one further down. */
#ifndef OTA_BACKEND_EDGE_H
#define OTA_BACKEND_EDGE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

enum { OTA_EDGE_PIECE = 512, OTA_EDGE_STEPS = 200, OTA_EDGE_MOVES = 4000 };

/* A row; `lift` brings keys [first, first + count) as x, -inf where a key is none. */
typedef struct ota_edge_row {
    const void *keys;
    void (*lift)(const void *keys, int64_t first, int64_t count, double *x);
    int64_t count;
    double sink, k, power, mu;
} ota_edge_row;

typedef struct ota_edge {
    double at, weight, delta; /* e, q */
    double sum;               /* of the weights, mu up to rounding */
} ota_edge;

typedef struct ota_edge_sums {
    double above, lost; /* sum of the weights above e */
    double rise;        /* its derivative by q */
    double ties;        /* keys at e */
    double below, next; /* the nearest x on both sides */
} ota_edge_sums;

/* (x - e) k; halves do not overflow. */
static inline double ota_edge_distance(const ota_edge_row *row, double e, double x) {
    const double far = x / 2.0 - e / 2.0;
    return fabs(far) < 0x1p1000 ? (x - e) * row->k : far * row->k * 2.0;
}

static inline double ota_edge_weight(const ota_edge_row *row, const ota_edge *edge, double x) {
    if (!(x > edge->at)) return x < edge->at ? 0.0 : edge->weight;
    return pow(ota_edge_distance(row, edge->at, x) + edge->delta, row->power);
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

static inline ota_edge_sums ota_edge_pass(const ota_edge_row *row, const ota_edge *edge) {
    ota_edge_sums sums = {0.0, 0.0, 0.0, 0.0, -INFINITY, INFINITY};
    double x[OTA_EDGE_PIECE];
    for (int64_t j = 0; j < row->count; j += OTA_EDGE_PIECE) {
        const int64_t left = row->count - j, count = left < OTA_EDGE_PIECE ? left : OTA_EDGE_PIECE;
        row->lift(row->keys, j, count, x);
        for (int64_t i = 0; i < count; i++) ota_edge_add(row, edge, x[i], &sums);
    }
    if (row->sink > -INFINITY) ota_edge_add(row, edge, row->sink, &sums);
    sums.above += sums.lost;
    return sums;
}

/* The row's least x above `level`, or its largest where none is. */
static inline double ota_edge_above(const ota_edge_row *row, double level, double top) {
    double x[OTA_EDGE_PIECE], least = row->sink > level ? row->sink : INFINITY;
    for (int64_t j = 0; j < row->count; j += OTA_EDGE_PIECE) {
        const int64_t left = row->count - j, count = left < OTA_EDGE_PIECE ? left : OTA_EDGE_PIECE;
        row->lift(row->keys, j, count, x);
        for (int64_t i = 0; i < count; i++) least = x[i] > level && x[i] < least ? x[i] : least;
    }
    return least < INFINITY ? least : top;
}

/* Sums where nothing lies between the edge and the threshold. */
static inline ota_edge_sums ota_edge_begin(const ota_edge_row *row, double at, ota_edge *edge) {
    *edge = (ota_edge){.at = at};
    return ota_edge_pass(row, edge);
}

/* q at an edge whose keys above carry less than mu. */
static inline void ota_edge_weigh(const ota_edge_row *row, const ota_edge_sums *first,
                                  ota_edge *edge) {
    double q = (row->mu - first->above) / first->ties;
    for (int step = 0; step < OTA_EDGE_STEPS; step++) {
        edge->weight = q;
        edge->delta = pow(q, 1.0 / row->power);
        const ota_edge_sums sums = ota_edge_pass(row, edge);
        edge->sum = sums.above + sums.ties * q;
        const double excess = edge->sum - row->mu;
        if (!(excess > 2.0e-16 * row->mu)) return;
        const double next = q - excess / (sums.ties + sums.rise);
        if (!(next < q) || !(next > 0.0)) return;
        q = next;
    }
}

/* The edge and the weight there. `top` is the row's largest x, the sink's included; `guess`, a level near the threshold. */
static inline ota_edge ota_edge_find(const ota_edge_row *row, double top, double guess) {
    ota_edge edge;
    double out = -INFINITY; /* no key up to here has weight */
    ota_edge_sums sums =
        ota_edge_begin(row, guess < top ? ota_edge_above(row, guess, top) : top, &edge);
    for (int move = 0; edge.at < top && !(sums.above < row->mu); move++) {
        out = edge.at;
        const double middle = out / 2.0 + top / 2.0;
        const double at = move < 4 ? sums.next : ota_edge_above(row, middle, top);
        sums = ota_edge_begin(row, at, &edge);
    }
    for (int move = 0; move < OTA_EDGE_MOVES; move++) {
        ota_edge_weigh(row, &sums, &edge);
        const double below = sums.below, reach = fmax(edge.at - edge.delta / row->k, out);
        /* The next key has weight, unless it lies where the threshold cannot be. */
        if (!(below > reach)) break;
        const double level = move == 0 ? reach : reach / 2.0 + below / 2.0;
        double at = level < below ? ota_edge_above(row, level, top) : below;
        sums = ota_edge_begin(row, at, &edge);
        if (sums.above < row->mu) continue;
        out = at;
        sums = ota_edge_begin(row, below, &edge);
    }
    return edge;
}

#endif
