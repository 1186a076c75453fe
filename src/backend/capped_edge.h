/* capped_edge.h: rows of an order above 2 within entry caps. What keys at their caps leave is a row of the others without caps,
 * whose edge is found as that of any row (edge.h): a threshold of one double holds too little for the weights beside it.
 * Keys at their caps follow from the potential, so nothing is kept of them. */
#ifndef OTA_BACKEND_CAPPED_EDGE_H
#define OTA_BACKEND_CAPPED_EDGE_H

#include "backend/capped.h"
#include "backend/edge.h"

/* A row: its keys x, -inf where a key is none, and their caps. */
typedef struct ota_capped_edge {
    const ota_row_parameters *parameters;
    const void *keys;
    double (*lift)(const void *keys, int64_t j);
    double (*cap)(const void *keys, int64_t j);
    int64_t count;
    double f; /* keys are at their caps whose weight there is as much */
    /* found */
    ota_edge_row row;
    ota_edge edge;
    double factor; /* of what rounding left of the mass */
    double closed; /* mass of the keys at their caps */
} ota_capped_edge;

static inline bool ota_is_at_cap(const ota_capped_edge *of, double x, int64_t j) {
    return ota_capped_level(of->parameters, of->cap(of->keys, j)) - x <= of->f;
}

static inline void ota_lift_below_caps(const void *keys, int64_t first, int64_t count, double *x) {
    const ota_capped_edge *of = keys;
    for (int64_t j = 0; j < count; j++) {
        x[j] = of->lift(of->keys, first + j);
        if (x[j] > -INFINITY && ota_is_at_cap(of, x[j], first + j)) x[j] = -INFINITY;
    }
}

/* Of the keys at their caps their number and, summed, the caps; the highest x of the others. */
static inline int64_t ota_capped_edge_split(ota_capped_edge *of, double *top) {
    int64_t full = 0;
    double lost = 0.0;
    of->closed = 0.0;
    *top = of->parameters->sink;
    for (int64_t j = 0; j < of->count; j++) {
        const double x = of->lift(of->keys, j);
        if (!(x > -INFINITY)) continue;
        if (!ota_is_at_cap(of, x, j)) {
            *top = fmax(*top, x);
            continue;
        }
        const double cap = of->cap(of->keys, j), sum = of->closed + cap;
        lost += of->closed >= cap ? (of->closed - sum) + cap : (cap - sum) + of->closed;
        of->closed = sum;
        full++;
    }
    of->closed += lost;
    return full;
}

/* From a potential f near the row's. False: keys at their caps hold all of mu, or no key is left. */
static inline bool ota_capped_edge_find(ota_capped_edge *of, double mu, double f) {
    enum { MOVES = 16 };
    const double gap = of->parameters->order - 1.0;
    int64_t before = -1;
    of->f = f;
    for (int move = 0; move < MOVES; move++) {
        double top;
        const int64_t full = ota_capped_edge_split(of, &top);
        const double left = mu - of->closed;
        if (full == before) return true;
        if (!(left > 4.0 * DBL_EPSILON * (double)(of->count + 1) * mu) || !(top > -INFINITY))
            return false;
        of->row = (ota_edge_row){.keys = of,
                                 .lift = ota_lift_below_caps,
                                 .count = of->count,
                                 .sink = of->parameters->sink,
                                 .k = fmin(gap / of->parameters->tau, DBL_MAX),
                                 .power = 1.0 / gap,
                                 .mu = left};
        of->edge = ota_edge_find(&of->row, top, -of->f);
        of->factor = left / of->edge.sum;
        /* The split belongs to the f that it was found at. */
        const double next = -of->edge.at + of->edge.delta / of->row.k;
        before = full;
        if (!(next > of->f) && !(next < of->f)) return true;
        of->f = next;
    }
    return false;
}

static inline double ota_capped_edge_weight(const ota_capped_edge *of, int64_t j) {
    const double x = of->lift(of->keys, j);
    if (!(x > -INFINITY)) return 0.0;
    const double cap = of->cap(of->keys, j);
    if (ota_is_at_cap(of, x, j)) return cap;
    return fmin(cap, of->factor * ota_edge_weight(&of->row, &of->edge, x));
}

static inline double ota_capped_edge_sink(const ota_capped_edge *of) {
    const double sink = of->parameters->sink;
    return sink > -INFINITY ? of->factor * ota_edge_weight(&of->row, &of->edge, sink) : 0.0;
}

#endif
