/* capped_edge.h: rows of an order above 2 within entry caps. What keys at their caps leave is a row of the others without caps,
 * whose edge is found as that of any row (edge.h): a threshold of one double holds too little for the weights beside it.
 * Keys at their caps follow from the potential, so nothing is kept of them. A search asks as one for an edge does. */
#ifndef OTA_BACKEND_CAPPED_EDGE_H
#define OTA_BACKEND_CAPPED_EDGE_H

#include "backend/capped.h"
#include "backend/edge.h"

enum { OTA_CAPPED_EDGE_MOVES = 16 };

typedef enum ota_capped_edge_stage {
    OTA_CAPPED_EDGE_SPLIT,  /* asks which keys are at their caps */
    OTA_CAPPED_EDGE_OTHERS, /* for the edge of the others */
    OTA_CAPPED_EDGE_FOUND,
    OTA_CAPPED_EDGE_NONE /* keys at their caps hold all of mu, or no key is left */
} ota_capped_edge_stage;

typedef struct ota_capped_edge {
    double mu;
    int64_t count; /* keys of the row */
    ota_capped_edge_stage stage;
    int64_t before; /* keys at their caps */
    int move;
    ota_edge_search others;
    double f;      /* keys are at their caps whose weight there is as much */
    double closed; /* mass of the keys at their caps */
    double factor; /* of what rounding left of the mass */
} ota_capped_edge;

typedef struct ota_capped_edge_sums {
    ota_edge_sums others;
    double closed, lost; /* mass of the keys at their caps */
    double top;          /* highest x of the others */
    int64_t full;        /* keys at their caps */
} ota_capped_edge_sums;

static inline ota_capped_edge_sums ota_capped_edge_no_sums(void) {
    return (ota_capped_edge_sums){.others = ota_edge_no_sums(), .top = -INFINITY};
}

/* Of a key x with this cap. */
static inline bool ota_is_at_cap(const ota_row_parameters *parameters, double f, double x,
                                 double cap) {
    return cap < INFINITY && ota_capped_level(parameters, cap) - x <= f;
}

/* From a potential f near that of a row of `count` keys. */
static inline ota_capped_edge ota_capped_edge_begin(int64_t count, double mu, double f) {
    return (ota_capped_edge){.mu = mu, .count = count, .before = -1, .f = f};
}

/* Of a row without caps, whose largest x is `top`, the sink's included. */
static inline ota_capped_edge ota_capped_edge_without(const ota_row_parameters *parameters,
                                                      double mu, double top, double f) {
    const ota_edge_row row = ota_edge_row_of(parameters, mu);
    return (ota_capped_edge){
        .mu = mu, .stage = OTA_CAPPED_EDGE_OTHERS, .others = ota_edge_begin(&row, top, -f), .f = f};
}

/* A key at its cap. */
static inline void ota_capped_edge_add(ota_capped_edge_sums *sums, double cap) {
    const double sum = sums->closed + cap;
    sums->lost += sums->closed >= cap ? (sums->closed - sum) + cap : (cap - sum) + sums->closed;
    sums->closed = sum;
    sums->full++;
}

static inline void ota_capped_edge_answer(const ota_row_parameters *parameters,
                                          const ota_capped_edge *of, double x, double cap,
                                          ota_capped_edge_sums *sums) {
    if (!(x > -INFINITY)) return;
    const bool full = ota_is_at_cap(parameters, of->f, x, cap);
    if (of->stage == OTA_CAPPED_EDGE_OTHERS) {
        if (!full) ota_edge_answer(&of->others, x, &sums->others);
    } else if (!full) {
        sums->top = fmax(sums->top, x);
    } else {
        ota_capped_edge_add(sums, cap);
    }
}

static inline void ota_capped_edge_split(const ota_row_parameters *parameters, ota_capped_edge *of,
                                         const ota_capped_edge_sums *sums) {
    of->closed = sums->closed + sums->lost;
    const double top = fmax(sums->top, parameters->sink), left = of->mu - of->closed;
    if (sums->full == of->before) {
        of->stage = OTA_CAPPED_EDGE_FOUND;
    } else if (!(left > 4.0 * DBL_EPSILON * (double)(of->count + 1) * of->mu) ||
               !(top > -INFINITY) || of->move++ >= OTA_CAPPED_EDGE_MOVES) {
        of->stage = OTA_CAPPED_EDGE_NONE;
    } else {
        const ota_edge_row row = ota_edge_row_of(parameters, left);
        of->before = sums->full;
        of->others = ota_edge_begin(&row, top, -of->f);
        of->stage = OTA_CAPPED_EDGE_OTHERS;
    }
}

/* Takes an answer of all keys; false: the search is at its end. */
static inline bool ota_capped_edge_next(const ota_row_parameters *parameters, ota_capped_edge *of,
                                        const ota_capped_edge_sums *sums) {
    if (of->stage == OTA_CAPPED_EDGE_SPLIT) {
        ota_capped_edge_split(parameters, of, sums);
    } else if (!ota_edge_next(&of->others, sums->others)) {
        of->factor = of->others.row.mu / of->others.edge.sum;
        /* The split belongs to the f that it was found at. */
        const double next = ota_edge_potential(&of->others.row, &of->others.edge);
        const bool moves = next > of->f || next < of->f;
        of->stage = moves && parameters->regulariser->capped ? OTA_CAPPED_EDGE_SPLIT
                                                             : OTA_CAPPED_EDGE_FOUND;
        of->f = moves ? next : of->f;
    }
    return of->stage < OTA_CAPPED_EDGE_FOUND;
}

/* A row: its keys x, -inf where a key is none, and their caps. */
typedef struct ota_capped_edge_keys {
    const void *keys;
    double (*lift)(const void *keys, int64_t j);
    double (*cap)(const void *keys, int64_t j);
    int64_t count;
} ota_capped_edge_keys;

/* False: there is no edge. */
static inline bool ota_capped_edge_find(const ota_row_parameters *parameters,
                                        const ota_capped_edge_keys *keys, double mu, double f,
                                        ota_capped_edge *of) {
    ota_capped_edge_sums sums;
    *of = ota_capped_edge_begin(keys->count, mu, f);
    do {
        sums = ota_capped_edge_no_sums();
        for (int64_t j = 0; j < keys->count; j++)
            ota_capped_edge_answer(parameters, of, keys->lift(keys->keys, j),
                                   keys->cap(keys->keys, j), &sums);
    } while (ota_capped_edge_next(parameters, of, &sums));
    return of->stage == OTA_CAPPED_EDGE_FOUND;
}

/* The weight of a key x with this cap, or of the sink, with INFINITY, at a potential f and the edge beside it. */
static inline double ota_capped_edge_weight(const ota_row_parameters *parameters,
                                            const ota_edge *edge, double f, double factor, double x,
                                            double cap) {
    if (!(x > -INFINITY)) return 0.0;
    if (ota_is_at_cap(parameters, f, x, cap)) return cap;
    const ota_edge_row row = ota_edge_row_of(parameters, 0.0);
    return fmin(cap, factor * ota_edge_weight(&row, edge, x));
}

#endif
