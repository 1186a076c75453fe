/* Rows of orders above 2, part of solve_rows.c: where the search for a threshold ends, the edge begins (backend/edge.h). */
#ifndef OTA_EDGE_ROWS_H
#define OTA_EDGE_ROWS_H

#include "backend/cpu/real.h"
#include "backend/edge.h"

/* x_j = s_j + h_j, rounded as the maximum of the row was. */
typedef struct edge_keys {
    const real *s, *h;
    const double *weight, *remaining; /* online rows: NULL, or what says that a key is closed */
} edge_keys;

static void lift_keys(const void *keys, int64_t first, int64_t count, double *x) {
    const edge_keys *from = keys;
    const real *s = from->s + first, *h = from->h == NULL ? NULL : from->h + first;
    for (int64_t j = 0; j < count; j++) x[j] = (double)(h == NULL ? s[j] : (real)(s[j] + h[j]));
    for (int64_t j = 0; from->weight != NULL && j < count; j++) {
        if (from->weight[first + j] < 0.0 || !(from->remaining[first + j] > 0.0)) x[j] = -INFINITY;
    }
}

/* What rounding left of the mass is spread in proportion, so that rows sum to mu. */
static double settle_edge(const ota_edge_row *row, const ota_edge *edge, ota_row_found *found) {
    const double factor = row->mu / edge->sum;
    found->sink = row->sink > -INFINITY ? factor * ota_edge_weight(row, edge, row->sink) : 0.0;
    found->mass = row->mu - found->sink;
    found->potential = ota_edge_potential(row, edge);
    found->edge = *edge;
    return factor;
}

/* Returns the sum of the weights. */
static double write_edge(const ota_edge_row *row, const ota_edge *edge, const edge_keys *keys,
                         int64_t count, double factor, real *p) {
    double x[OTA_EDGE_PIECE], sum = 0.0;
    for (int64_t j = 0; j < count; j += OTA_EDGE_PIECE) {
        const int64_t here = count - j < OTA_EDGE_PIECE ? count - j : OTA_EDGE_PIECE;
        lift_keys(keys, j, here, x);
        for (int64_t i = 0; i < here; i++) {
            const double weight = factor * ota_edge_weight(row, edge, x[i]);
            p[j + i] = (real)weight;
            sum += weight;
        }
    }
    return sum;
}

/* p may be s. `guess`: a level near the threshold, in units of S. */
static void edge_row(const ota_row_parameters *parameters, const edge_keys *keys, int64_t count,
                     double mu, double top, double guess, real *p, ota_row_found *found) {
    const ota_edge_keys all = {keys, lift_keys, count};
    const ota_edge_row row = ota_edge_row_of(parameters, mu);
    const ota_edge edge = ota_edge_find(&row, &all, top, guess);
    write_edge(&row, &edge, keys, count, settle_edge(&row, &edge, found), p);
}

/* Weights beside a known edge, p may be s; returns their sum. */
static double edge_weights(const ota_row_parameters *parameters, const edge_keys *keys,
                           int64_t count, real *p) {
    const ota_edge_row row = ota_edge_row_of(parameters, 0.0);
    return write_edge(&row, &parameters->edge, keys, count, 1.0, p);
}

/* Kept scores become kept weights, and the keys without any leave. */
static int64_t edge_list(const ota_row_parameters *parameters, int64_t count, double mu, double top,
                         double guess, const ota_row_room *room, ota_row_found *found) {
    real *kept = room->kept;
    const edge_keys keys = {.s = kept};
    const ota_edge_keys all = {&keys, lift_keys, count};
    const ota_edge_row row = ota_edge_row_of(parameters, mu);
    const ota_edge edge = ota_edge_find(&row, &all, top, guess);
    const double factor = settle_edge(&row, &edge, found);
    int64_t left = 0;
    for (int64_t i = 0; i < count; i++) {
        const double x = (double)kept[i];
        kept[left] = (real)(factor * ota_edge_weight(&row, &edge, x));
        room->where[left] = room->where[i];
        left += x >= edge.at;
    }
    return left;
}

/* Weights of the open keys of an online row; returns its potential. */
static double edge_of_open_keys(const ota_row_parameters *parameters, const edge_keys *keys,
                                int64_t count, double mass, double top, double guess,
                                double *weight, double *sink) {
    const ota_edge_keys all = {keys, lift_keys, count};
    const ota_edge_row row = ota_edge_row_of(parameters, mass);
    const ota_edge edge = ota_edge_find(&row, &all, top, guess);
    ota_row_found found;
    const double factor = settle_edge(&row, &edge, &found);
    for (int64_t j = 0; j < count; j++) {
        if (weight[j] < 0.0 || !(keys->remaining[j] > 0.0)) continue;
        weight[j] = factor * ota_edge_weight(&row, &edge, (double)keys->s[j]);
    }
    *sink = found.sink;
    return found.potential;
}

#endif
