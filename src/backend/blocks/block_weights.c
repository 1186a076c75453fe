/* Weights of a block (blocks.h) at given potentials, their slopes, and what searches for potentials ask of its rows. */
#include "blocks.h"

#include <string.h>

#include "backend/edge.h"
#include "regularisers/tsallis.h"

double ota_pair_slope(const ota_row_parameters *rule, double s, double f, double p, double cap) {
    if (!(p > 0.0) || p >= cap) return 0.0;
    if (rule->custom != NULL)
        return rule->custom->slope(rule->custom->user, ota_custom_argument(s, f, rule->tau));
    if (!rule->regulariser->tsallis) return p;
    if (rule->order >= 2.0 && rule->order <= 2.0) return 1.0;
    if (rule->order >= 1.5 && rule->order <= 1.5) return sqrt(p);
    return ota_tsallis_slope(p, rule->order);
}

void ota_block_find_slopes(const ota_block *b, int64_t k, int64_t first, int64_t count, double *w) {
    const bool are_weights =
        b->rule.custom == NULL && !b->rule.regulariser->tsallis && !b->rule.regulariser->capped;
    if (are_weights)
        memmove(w, b->weights + k * b->stride + first, (size_t)count * sizeof *w);
    else
        for (int64_t j = 0; j < count; j++) w[j] = ota_block_slope(b, k, first + j);
}

double ota_sink_weight(const ota_row_parameters *rule, const ota_host_algebra *algebra,
                       double score, double f) {
    ota_row_parameters one = *rule;
    ota_row_found found;
    double weight = 0.0;
    one.sink = -INFINITY;
    /* Sinks have no caps. */
    one.caps = (ota_entry_caps){.cap = INFINITY};
    if (!(score > -INFINITY)) return 0.0;
    algebra->row_weights(&one, &score, NULL, 1, f, &weight, &found);
    return weight;
}

void ota_block_solve(const ota_block *b, int64_t k, double mass, ota_row_found *found) {
    ota_row_parameters rule = b->rule;
    rule.line = b->first + k;
    b->algebra->row_solve(&rule, b->scores + k * b->stride, b->g, b->keys, mass,
                          b->weights + k * b->stride, found);
}

void ota_block_weigh_row(const ota_block *b, int64_t k, ota_row_found *found) {
    const double *s = b->scores + k * b->stride;
    double *weights = b->weights + k * b->stride;
    ota_row_parameters rule = b->rule;
    rule.line = b->first + k;
    if (b->edges != NULL) rule.edge = b->edges[k];
    b->algebra->row_weights(&rule, s, b->g, b->keys, b->f[k], weights, found);
    if (b->key_edges != NULL)
        found->mass = ota_weigh_beside_keys(&rule, b->key_edges, s, b->f[k], b->keys, weights);
}

void ota_block_weigh(const ota_block *b) {
    ota_row_found found;
    for (int64_t k = 0; k < b->rows; k++) ota_block_weigh_row(b, k, &found);
}

/* ---- searches ------------------------------------------------------------------------------------- */

bool ota_block_find_top(const double *s, int64_t count, double *top) {
    bool finite = true;
    *top = -INFINITY;
    for (int64_t j = 0; j < count; j++) {
        finite &= !isnan(s[j]) && s[j] < INFINITY;
        *top = fmax(*top, s[j]);
    }
    return finite;
}

void ota_block_add_potentials(const ota_block *b) {
    for (int64_t k = 0; k < b->rows && b->g != NULL; k++) {
        double *s = b->scores + k * b->stride;
        for (int64_t j = 0; j < b->keys; j++) s[j] += b->g[j];
    }
}

void ota_block_add_powers(const ota_block *b, int64_t k, double f, double *first, double *second) {
    double *weights = b->weights + k * b->stride;
    ota_row_found found;
    b->algebra->row_weights(&b->rule, b->scores + k * b->stride, NULL, b->keys, f, weights, &found);
    for (int64_t j = 0; j < b->keys; j++) {
        if (!(weights[j] > 0.0)) continue;
        *first += weights[j];
        *second += ota_pair_slope(&b->rule, 0.0, f, weights[j], INFINITY);
    }
}

void ota_block_add_room(const ota_block *b, int64_t k, double *room, double *highest) {
    const double *s = b->scores + k * b->stride;
    for (int64_t j = 0; j < b->keys; j++) {
        const double cap = ota_block_cap(b, k, j);
        if (!(s[j] > -INFINITY)) continue;
        *room += cap;
        *highest = fmax(*highest, ota_capped_level(&b->rule, cap) - s[j]);
    }
}

void ota_block_add_capped(const ota_block *b, int64_t k, double f, ota_capped_totals *sums) {
    const double *s = b->scores + k * b->stride;
    for (int64_t j = 0; j < b->keys; j++) {
        double rise;
        if (!(s[j] > -INFINITY)) continue;
        const double cap = ota_block_cap(b, k, j),
                     weight = ota_capped_weight(&b->rule, s[j], f, &rise);
        if (weight >= cap) {
            sums->closed += cap;
        } else {
            sums->open += weight;
            sums->rise += rise;
        }
    }
}

void ota_block_fit_capped(const ota_block *b, int64_t k, const ota_capped_search *ends, double part,
                          double factor) {
    const double *s = b->scores + k * b->stride;
    double *weights = b->weights + k * b->stride;
    for (int64_t j = 0; j < b->keys; j++) {
        const double cap = ota_block_cap(b, k, j);
        if (part >= 0.0)
            weights[j] = ota_capped_between(&b->rule, ends, part,
                                            s[j] + (b->g != NULL ? b->g[j] : 0.0), cap);
        else if (weights[j] < cap)
            weights[j] = fmin(weights[j] * factor, cap);
    }
}

/* ---- statistics ----------------------------------------------------------------------------------- */

void ota_add_statistics(const double *weights, int64_t count, ota_row_statistics *sums) {
    for (int64_t j = 0; j < count; j++) {
        const double x = weights[j];
        if (!(x > 0.0)) continue;
        sums->mass += x;
        sums->p_log_p += x * log(x);
        sums->largest = fmax(sums->largest, x);
        sums->support += 1.0;
    }
}

double ota_row_entropy(const ota_row_statistics *sums, double sink, double mu) {
    const double mass = sums->mass + sink,
                 all = sums->p_log_p + (sink > 0.0 ? sink * log(sink) : 0.0);
    return mass > 0.0 ? (mass * log(mu) - all) / mu : 0.0;
}
