/* Rows that take `take` columns each, loads between bounds, unit by unit in the network of rows and columns:
 *
 *     row i -> column j     one unit at c_ij
 *     column j -> sink      lower_j units that count, upper_j - lower_j more that do not
 *
 * Lengths are pairs (units of lower bounds left unmet, cost), compared in this order, and each unit takes the
 * shortest way from its row by Bellman and Ford's rounds over all arcs of the residual network. No prices, no heaps,
 * and rows are nodes [LIT-06]. */
#include "reference_bounded.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct length {
    int64_t unmet;
    double cost;
} length;

/* Rounding may not make a cycle of length 0 look shorter. */
static bool shorter(length a, length b) {
    if (a.unmet != b.unmet) return a.unmet < b.unmet;
    return a.cost < b.cost - 1e-12 * (1.0 + fabs(b.cost));
}

typedef struct network {
    int64_t n, m;
    const double *costs;
    const int64_t *lower, *upper;
    unsigned char *taken; /* [n][m] */
    int64_t *load;        /* [m] */
    length *to;           /* [n + m] from the row that sends */
    int64_t *from;        /* [n + m] */
    bool *reached;        /* [n + m] */
} network;

static bool relax(network *w, int64_t u, int64_t v, length by) {
    if (!w->reached[u]) return false;
    const length found = {w->to[u].unmet + by.unmet, w->to[u].cost + by.cost};
    if (w->reached[v] && !shorter(found, w->to[v])) return false;
    w->to[v] = found;
    w->from[v] = u;
    w->reached[v] = true;
    return true;
}

/* One round over the arcs; false when none became shorter. */
static bool relax_all(network *w) {
    bool changed = false;
    for (int64_t i = 0; i < w->n; i++) {
        for (int64_t j = 0; j < w->m; j++) {
            const double c = w->costs[i * w->m + j];
            if (isinf(c)) continue;
            if (w->taken[i * w->m + j])
                changed |= relax(w, w->n + j, i, (length){0, -c});
            else
                changed |= relax(w, i, w->n + j, (length){0, c});
        }
    }
    /* From a column through the sink to another, which gives its unit back. */
    for (int64_t a = 0; a < w->m; a++) {
        for (int64_t b = 0; b < w->m; b++) {
            if (a == b || w->load[a] >= w->upper[a] || w->load[b] == 0) continue;
            const int64_t gained = w->load[a] < w->lower[a] ? -1 : 0;
            const int64_t lost = w->load[b] <= w->lower[b] ? 1 : 0;
            changed |= relax(w, w->n + a, w->n + b, (length){gained + lost, 0.0});
        }
    }
    return changed;
}

/* One unit of row `row` on its shortest way; false when there is none. */
static bool send(network *w, int64_t row) {
    memset(w->reached, 0, (size_t)(w->n + w->m) * sizeof *w->reached);
    w->reached[row] = true;
    w->to[row] = (length){0, 0.0};
    for (int64_t round = 0; round <= 2 * (w->n + w->m) && relax_all(w); round++) {
    }
    int64_t end = -1;
    length best = {0, INFINITY};
    for (int64_t j = 0; j < w->m; j++) {
        if (!w->reached[w->n + j] || w->load[j] >= w->upper[j]) continue;
        const length found = {w->to[w->n + j].unmet - (w->load[j] < w->lower[j] ? 1 : 0),
                              w->to[w->n + j].cost};
        if (end >= 0 && !shorter(found, best)) continue;
        best = found;
        end = w->n + j;
    }
    if (end < 0) return false;
    w->load[end - w->n]++;
    for (int64_t v = end; v != row; v = w->from[v]) {
        const int64_t u = w->from[v];
        if (u < w->n)
            w->taken[u * w->m + v - w->n] = 1;
        else if (v < w->n)
            w->taken[v * w->m + u - w->n] = 0;
        else {
            w->load[u - w->n]++;
            w->load[v - w->n]--;
        }
    }
    return true;
}

double ota_reference_bounded(const double *costs, int64_t n, int64_t m, int64_t take,
                             const int64_t *lower, const int64_t *upper) {
    const size_t nodes = (size_t)(n + m);
    network w = {n,
                 m,
                 costs,
                 lower,
                 upper,
                 calloc((size_t)(n * m) + 1, 1),
                 calloc((size_t)m, sizeof(int64_t)),
                 calloc(nodes, sizeof(length)),
                 calloc(nodes, sizeof(int64_t)),
                 calloc(nodes, sizeof(bool))};
    bool possible = true;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = 0; k < take && possible; k++) possible = send(&w, i);
    }
    double cost = 0.0;
    for (int64_t j = 0; j < m; j++) possible = possible && w.load[j] >= lower[j];
    for (int64_t p = 0; p < n * m; p++) {
        if (w.taken[p]) cost += costs[p];
    }
    free(w.taken);
    free(w.load);
    free(w.to);
    free(w.from);
    free(w.reached);
    return possible ? cost : INFINITY;
}
