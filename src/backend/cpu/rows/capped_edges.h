/* Rows of orders above 2 within entry caps, part of solve_capped_rows.c: the search of backend/capped_edge.h, whose answers are passes in
 * vectors. A split says which keys are at their caps, and what it leaves is asked for its edge. */
#ifndef OTA_CAPPED_EDGES_H
#define OTA_CAPPED_EDGES_H

#include <math.h>

#include "backend/capped_edge.h"
#include "backend/cpu/rows/capped_keys.h"

/* Keys that a search keeps in one piece. */
enum { EDGE_KEYS = 768 };

/* From here on differences of scores may overflow. */
static inline bool is_far(double x) { return fabs(x) >= 0x1p1000; }

/* The keys of a row that are not at their caps. Those above the edge come first while weights there are sought. */
typedef struct edge_others {
    double x[EDGE_KEYS];
    int64_t count; /* -1: there are more of them than that */
    int64_t above; /* -1: not counted for this edge */
    double ties, farthest;
} edge_others;

/* How far above the threshold caps that are one number are reached. */
static inline double level_of_caps(const capped_row *row) {
    const double cap = row->caps.one;
    return row->caps.data == NULL && cap < INFINITY ? ota_capped_level(row->parameters, cap)
                                                    : INFINITY;
}

/* Key i of a chunk; `level`: of caps that are one number. The same as ota_is_at_cap, which most keys need no power for. */
static inline bool is_at_cap(const capped_row *row, const wide_keys *keys, int64_t i, double f,
                             double level) {
    if (keys->x[i] + f < 0.0) return false;
    return keys->caps == NULL ? level - keys->x[i] <= f
                              : ota_is_at_cap(row->parameters, f, keys->x[i], keys->caps[i]);
}

static ota_capped_edge_sums split_at_caps(const capped_row *row, const ota_capped_edge *of,
                                          edge_others *others) {
    ota_capped_edge_sums sums = ota_capped_edge_no_sums();
    const double level = level_of_caps(row);
    double x[CHUNK], caps[CHUNK];
    others->count = 0;
    others->above = -1;
    double least = INFINITY;
    for (int64_t j = 0; j < row->count; j += CHUNK) {
        const wide_keys keys = widen(row, j, x, caps);
        const bool fits = others->count >= 0 && others->count + keys.count <= EDGE_KEYS;
        int64_t count = fits ? others->count : 0;
        double *kept = fits ? others->x : x;
        for (int64_t i = 0; i < keys.count; i++) {
            const double at = keys.x[i];
            if (!(at > -INFINITY)) continue;
            if (is_at_cap(row, &keys, i, of->f, level)) {
                ota_capped_edge_add(&sums, keys.caps == NULL ? row->caps.one : keys.caps[i]);
                continue;
            }
            kept[count++] = at;
            sums.top = at > sums.top ? at : sums.top;
            least = at < least ? at : least;
        }
        others->count = fits ? count : -1;
    }
    others->farthest = fmax(fabs(sums.top), fabs(least));
    return sums;
}

/* Keys above the edge first. */
static void put_above_first(edge_others *others, double edge) {
    int64_t above = 0;
    others->ties = 0.0;
    for (int64_t i = 0; i < others->count; i++) {
        const double x = others->x[i];
        others->x[i] = others->x[above];
        others->x[above] = x;
        above += x > edge;
        others->ties += x > edge || x < edge ? 0.0 : 1.0;
    }
    others->above = above;
}

/* What the others answer, by scores whose differences do not overflow. */
static ota_edge_sums ask_others(const capped_row *row, const ota_edge_search *search,
                                edge_others *others) {
    ota_edge_sums sums = ota_edge_no_sums();
    const ota_edge *edge = &search->edge;
    ota_kernels_f64_powers keys = {.s = others->x,
                                   .count = others->count,
                                   .shift = edge->at,
                                   .k = search->row.k,
                                   .t = -edge->delta,
                                   .p = search->row.power};
    double lower;
    if (search->stage <= OTA_EDGE_DESCEND) {
        for (int64_t i = 0; i < others->count; i++) {
            const double x = others->x[i];
            sums.next = x > search->level && x < sums.next ? x : sums.next;
        }
        return sums;
    }
    if (search->stage != OTA_EDGE_WEIGH) {
        others->above = -1;
        for (int64_t i = 0; i < others->count; i++) {
            const double x = others->x[i];
            sums.next = x > edge->at && x < sums.next ? x : sums.next;
            sums.below = x < edge->at && x > sums.below ? x : sums.below;
            sums.ties += x > edge->at || x < edge->at ? 0.0 : 1.0;
        }
        (void)row->parameters->kernels->f64->power_sums(&keys, &sums.above, &lower);
        return sums;
    }
    if (others->above < 0) put_above_first(others, edge->at);
    keys.count = others->above;
    sums.ties = others->ties;
    (void)row->parameters->kernels->f64->power_sums(&keys, &sums.above, &lower);
    if (edge->weight > 0.0) sums.rise = lower * (edge->delta / edge->weight);
    return sums;
}

/* The same of rows of many keys, or of far ones. */
static ota_capped_edge_sums ask_each(const capped_row *row, const ota_capped_edge *of) {
    ota_capped_edge_sums sums = ota_capped_edge_no_sums();
    const double level = level_of_caps(row);
    double x[CHUNK], caps[CHUNK];
    for (int64_t j = 0; j < row->count; j += CHUNK) {
        const wide_keys keys = widen(row, j, x, caps);
        for (int64_t i = 0; i < keys.count; i++) {
            if (keys.x[i] > -INFINITY && !is_at_cap(row, &keys, i, of->f, level))
                ota_edge_answer(&of->others, keys.x[i], &sums.others);
        }
    }
    return sums;
}

/* From f near the potential; false: there is no edge. */
static bool find_capped_edge(const capped_row *row, double mu, double f, ota_capped_edge *of) {
    edge_others others;
    ota_capped_edge_sums sums;
    others.count = -1;
    *of = ota_capped_edge_begin(row->count, mu, f);
    do {
        if (of->stage == OTA_CAPPED_EDGE_SPLIT) {
            sums = split_at_caps(row, of, &others);
        } else if (others.count < 0 || is_far(others.farthest) || is_far(of->others.edge.at)) {
            sums = ask_each(row, of);
        } else {
            sums = ota_capped_edge_no_sums();
            sums.others = ask_others(row, &of->others, &others);
        }
    } while (ota_capped_edge_next(row->parameters, of, &sums));
    return of->stage == OTA_CAPPED_EDGE_FOUND;
}

/* At a potential and the edge beside it. The weights may lie over the scores. */
static void edge_weights(const capped_row *row, const ota_edge *edge, double f, double factor,
                         real *p, ota_row_found *found) {
    const ota_edge_row at = ota_edge_row_of(row->parameters, 0.0);
    const double level = level_of_caps(row);
    double x[CHUNK], caps[CHUNK], w[CHUNK];
    found->mass = 0.0;
    for (int64_t j = 0; j < row->count; j += CHUNK) {
        const wide_keys keys = widen(row, j, x, caps);
        const ota_kernels_f64_powers powers = {.s = keys.x,
                                               .count = keys.count,
                                               .shift = edge->at,
                                               .k = at.k,
                                               .t = -edge->delta,
                                               .p = at.power};
        (void)row->parameters->kernels->f64->powers(&powers, factor, w);
        for (int64_t i = 0; i < keys.count; i++) {
            const double cap = keys.caps == NULL ? row->caps.one : keys.caps[i];
            double weight = 0.0;
            if (!(keys.x[i] < edge->at))
                weight = keys.x[i] > edge->at ? w[i] : factor * edge->weight;
            if (is_far(keys.x[i]) || is_far(edge->at))
                weight = factor * ota_edge_weight(&at, edge, keys.x[i]);
            weight = is_at_cap(row, &keys, i, f, level) ? cap : fmin(cap, weight);
            p[j + i] = (real)weight;
            found->mass += weight;
        }
    }
    found->sink =
        ota_capped_edge_weight(row->parameters, edge, f, factor, row->parameters->sink, INFINITY);
    found->potential = f;
    found->edge = *edge;
}

/* Orders above 2, from f near the potential. The weights may lie over the scores. */
static bool edge_row(const capped_row *row, double mu, double f, real *p, ota_row_found *found) {
    const ota_row_parameters *parameters = row->parameters;
    ota_capped_edge edge;
    if (!parameters->regulariser->tsallis || !(parameters->order > 2.0) ||
        !find_capped_edge(row, mu, f, &edge))
        return false;
    edge_weights(row, &edge.others.edge, edge.f, edge.factor, p, found);
    found->mass = mu - found->sink;
    return true;
}

#endif
