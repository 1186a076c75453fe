/* Transport with real masses for the judge, by successive shortest paths in the residual graph:
 *
 *     maximise sum_ij P_ij S_ij    over P >= 0 on the support,  P 1 = mu,  P^T 1 = nu  or  <= nu
 *                                  or between floor nu and nu
 *
 * (Bellman-Ford, so scores of any sign; with all scores 0 it is a maximum flow.) The sink is one
 * more column. A column between two bounds is two: one that takes the least sum, whose scores are raised until it is
 * full, and one for the rest. Potentials are shortest distances in the residual graph of the optimal P [LIT-06,
 * ELA-14]:
 *
 *     S_ij + f_i + g_j <= 0, equality where P_ij > 0
 *     <= rule: g_j <= 0, and g_j = 0 where the column is slack */
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reference_head.h"

typedef struct network {
    int64_t n, m;               /* m includes the sink's column */
    int64_t keys;               /* columns [0, keys); those of least sums follow, then the sink */
    double bonus;               /* on the scores of the least sums while they are filled */
    double *s, *p;              /* [n][m] */
    double *mu, *room;          /* [n] still to send, [m] still to take */
    double *to_row, *to_column; /* distances */
    int64_t *row_parent, *column_parent;
} network;

static bool allowed(const network *w, int64_t i, int64_t j) {
    return w->s[i * w->m + j] > -INFINITY;
}

static void network_free(network *w) {
    free(w->s);
    free(w->p);
    free(w->mu);
    free(w->room);
    free(w->to_row);
    free(w->to_column);
    free(w->row_parent);
    free(w->column_parent);
}

static double *doubles(int64_t count) { return calloc((size_t)count + 1, sizeof(double)); }

static bool network_make(network *w, const ota_reference_head *head, bool flat) {
    const bool has_sink = head->sink > -INFINITY;
    const bool least = head->floor > 0.0;
    *w = (network){
        .n = head->n, .m = head->m + (least ? head->m : 0) + (has_sink ? 1 : 0), .keys = head->m};
    w->s = doubles(w->n * w->m);
    w->p = doubles(w->n * w->m);
    w->mu = doubles(w->n);
    w->room = doubles(w->m);
    w->to_row = doubles(w->n);
    w->to_column = doubles(w->m);
    w->row_parent = calloc((size_t)w->n + 1, sizeof(int64_t));
    w->column_parent = calloc((size_t)w->m + 1, sizeof(int64_t));
    if (!w->s || !w->p || !w->mu || !w->room || !w->to_row || !w->to_column || !w->row_parent ||
        !w->column_parent) {
        network_free(w);
        return false;
    }
    double target = 0.0;
    double largest = 0.0;
    for (int64_t j = 0; j < head->m; j++) {
        w->room[j] = head->nu[j];
        if (least) {
            w->room[head->m + j] = head->floor * head->nu[j];
            w->room[j] = fmax(0.0, head->nu[j] - w->room[head->m + j]);
        }
        target += head->nu[j];
    }
    for (int64_t k = 0; k < head->n * head->m; k++) {
        if (head->s[k] > -INFINITY) largest = fmax(largest, fabs(head->s[k]));
    }
    if (has_sink) largest = fmax(largest, fabs(head->sink));
    /* Above what any exchange along a path gains. */
    w->bonus = flat ? 1.0 : 2.0 * largest * (double)(head->n + head->m) + 1.0;
    if (has_sink)
        w->room[w->m - 1] = head->rule == OTA_COLUMNS_EXACT ? head->mass - target : head->mass;
    for (int64_t i = 0; i < w->n; i++) {
        w->mu[i] = head->mu[i];
        for (int64_t j = 0; j < w->m; j++) {
            const bool key = j < head->m, second = !key && least && j < 2 * head->m;
            const double s = key      ? head->s[i * head->m + j]
                             : second ? head->s[i * head->m + j - head->m]
                                      : head->sink;
            w->s[i * w->m + j] = (flat && s > -INFINITY ? 0.0 : s) + (second ? w->bonus : 0.0);
        }
    }
    return true;
}

/* Shortest distances from row `from` along pairs (cost -S) and back along pairs that carry weight
 * (+S). An improvement below `fine` is rounding and is not followed. */
static void distances(network *w, int64_t from, double fine) {
    for (int64_t i = 0; i < w->n; i++) w->to_row[i] = INFINITY;
    for (int64_t j = 0; j < w->m; j++) w->to_column[j] = INFINITY;
    w->to_row[from] = 0.0;
    bool changed = true;
    for (int64_t pass = 0; changed && pass <= w->n + w->m; pass++) {
        changed = false;
        for (int64_t i = 0; i < w->n; i++) {
            if (isinf(w->to_row[i])) continue;
            for (int64_t j = 0; j < w->m; j++) {
                if (!allowed(w, i, j)) continue;
                const double next = w->to_row[i] - w->s[i * w->m + j];
                if (next < w->to_column[j] - fine || (isinf(w->to_column[j]) && next < INFINITY)) {
                    w->to_column[j] = next;
                    w->column_parent[j] = i;
                    changed = true;
                }
            }
        }
        for (int64_t j = 0; j < w->m; j++) {
            if (isinf(w->to_column[j])) continue;
            for (int64_t i = 0; i < w->n; i++) {
                if (!(w->p[i * w->m + j] > 0.0) || i == from) continue;
                const double next = w->to_column[j] + w->s[i * w->m + j];
                if (next < w->to_row[i] - fine || (isinf(w->to_row[i]) && next < INFINITY)) {
                    w->to_row[i] = next;
                    w->row_parent[i] = j;
                    changed = true;
                }
            }
        }
    }
}

/* Sends as much as the path to `column` carries; 0 when the path cannot be traced. */
static double augment(network *w, int64_t from, int64_t column, double most) {
    double amount = most;
    int64_t steps = 0;
    for (int64_t j = column, i = w->column_parent[j]; i != from; i = w->column_parent[j]) {
        j = w->row_parent[i];
        amount = fmin(amount, w->p[i * w->m + j]);
        if (++steps > w->n + w->m) return 0.0;
    }
    for (int64_t j = column;;) {
        const int64_t i = w->column_parent[j];
        w->p[i * w->m + j] += amount;
        if (i == from) return amount;
        j = w->row_parent[i];
        w->p[i * w->m + j] -= amount;
    }
}

static ota_status send_all(network *w, double mass, double imbalance, int64_t *stuck) {
    double largest = 0.0;
    for (int64_t k = 0; k < w->n * w->m; k++) {
        if (w->s[k] > -INFINITY) largest = fmax(largest, fabs(w->s[k]));
    }
    const double fine = 4.0 * DBL_EPSILON * largest;
    const double crumbs = (imbalance + 8.0 * DBL_EPSILON * (double)(w->n + w->m)) * mass;
    for (int64_t i = 0; i < w->n; i++) {
        double left = w->mu[i];
        while (left > 0.0) {
            distances(w, i, fine);
            int64_t best = -1, any = -1;
            for (int64_t j = 0; j < w->m; j++) {
                if (isinf(w->to_column[j])) continue;
                if (any < 0 || w->to_column[j] < w->to_column[any]) any = j;
                if (w->room[j] > 0.0 && (best < 0 || w->to_column[j] < w->to_column[best]))
                    best = j;
            }
            if (best < 0) {
                /* Totals that differ by rounding leave a crumb no column has room for. */
                if (any < 0 || left > crumbs) {
                    *stuck = i;
                    return OTA_INFEASIBLE;
                }
                best = any;
            }
            const bool full = !(w->room[best] > 0.0);
            const double sent = augment(w, i, best, full ? left : fmin(left, w->room[best]));
            if (!(sent > 0.0)) return OTA_EINTERNAL;
            left -= sent;
            if (!full) w->room[best] -= sent;
        }
    }
    return OTA_OK;
}

/* Is every least sum there? Takes the bonus off their scores. */
static ota_status check_least(network *w, const ota_reference_head *head) {
    const double crumbs =
        (head->imbalance + 8.0 * DBL_EPSILON * (double)(w->n + w->m)) * head->mass;
    const bool sink = head->sink > -INFINITY;
    double missing = 0.0;
    for (int64_t j = w->keys; j < w->m - (sink ? 1 : 0); j++) {
        missing += w->room[j];
        for (int64_t i = 0; i < w->n; i++) w->s[i * w->m + j] -= w->bonus;
    }
    return missing > crumbs ? OTA_INFEASIBLE : OTA_OK;
}

/* Potentials of the optimal P: y_j = -g_j and f_i are shortest distances from a node of value 0. */
static void potentials(network *w, bool capped, const double *slack, double *f, double *g) {
    double zero = 0.0;
    for (int64_t i = 0; i < w->n; i++) w->to_row[i] = 0.0;
    for (int64_t j = 0; j < w->m; j++) w->to_column[j] = 0.0;
    bool changed = true;
    for (int64_t pass = 0; changed && pass <= w->n + w->m + 1; pass++) {
        changed = false;
        for (int64_t j = 0; j < w->m; j++) {
            double y = w->to_column[j];
            for (int64_t i = 0; i < w->n; i++) {
                if (w->p[i * w->m + j] > 0.0) y = fmin(y, w->s[i * w->m + j] + w->to_row[i]);
            }
            if (slack[j] > 0.0) y = fmin(y, zero);
            if (y < w->to_column[j]) changed = true;
            w->to_column[j] = y;
            const bool pinned = (capped && j < w->keys) || (slack[j] > 0.0);
            if (pinned && y < zero) {
                zero = y;
                changed = true;
            }
        }
        for (int64_t i = 0; i < w->n; i++) {
            double x = w->to_row[i];
            for (int64_t j = 0; j < w->m; j++) {
                if (allowed(w, i, j)) x = fmin(x, w->to_column[j] - w->s[i * w->m + j]);
            }
            if (x < w->to_row[i]) changed = true;
            w->to_row[i] = x;
        }
    }
    for (int64_t j = 0; j < w->m; j++)
        g[j] = capped && j < w->keys ? fmin(0.0, zero - w->to_column[j]) : zero - w->to_column[j];
    for (int64_t i = 0; i < w->n; i++) {
        double best = -INFINITY;
        for (int64_t j = 0; j < w->m; j++) {
            if (allowed(w, i, j)) best = fmax(best, w->s[i * w->m + j] + g[j]);
        }
        f[i] = -best;
    }
}

static ota_status infeasible(ota_reference_head *head, int64_t row) {
    (void)snprintf(
        head->sentence, sizeof head->sentence,
        "no plan on this support carries the masses: row %lld cannot send all of its mass",
        (long long)row);
    return OTA_INFEASIBLE;
}

static ota_status totals_differ(ota_reference_head *head) {
    double target = 0.0;
    for (int64_t j = 0; j < head->m; j++) target += head->nu[j];
    const bool has_sink = head->sink > -INFINITY;
    const double allowance = head->imbalance * fmax(target, head->mass);
    const bool wrong =
        head->rule == OTA_COLUMNS_EXACT
            ? (has_sink ? !(target < head->mass) : fabs(target - head->mass) > allowance)
            : false;
    if (!wrong) return OTA_OK;
    (void)snprintf(head->sentence, sizeof head->sentence,
                   "column masses add up to %.17g but row masses to %.17g", target, head->mass);
    return OTA_INFEASIBLE;
}

ota_status ota_reference_hard(ota_reference_head *head) {
    const int64_t n = head->n, m = head->m;
    memset(head->p, 0, (size_t)(n * m) * sizeof(double));
    for (int64_t i = 0; i < n; i++) head->rest[i] = 0.0;
    if (head->rule == OTA_COLUMNS_FREE) {
        for (int64_t i = 0; i < n; i++) {
            int64_t best = -1;
            double top = head->sink;
            for (int64_t j = 0; j < m; j++) {
                const double s = head->s[i * m + j];
                /* A tie with the sink goes to the real key, a tie of keys to the first. */
                if (s > -INFINITY && (s > top || (best < 0 && s >= top))) {
                    top = s;
                    best = j;
                }
            }
            head->f[i] = -top;
            if (best >= 0)
                head->p[i * m + best] = head->mu[i];
            else if (top > -INFINITY)
                head->rest[i] = head->mu[i];
            else
                head->f[i] = -INFINITY;
        }
        for (int64_t j = 0; j < m; j++) head->g[j] = 0.0;
        (void)ota_reference_residual(head);
        return OTA_OK;
    }
    if (totals_differ(head) != OTA_OK) return OTA_INFEASIBLE;
    network w;
    if (!network_make(&w, head, false)) return OTA_ENOMEM;
    int64_t stuck = 0;
    ota_status status = send_all(&w, head->mass, head->imbalance, &stuck);
    if (status == OTA_OK) status = check_least(&w, head);
    double *slack = doubles(w.m), *g = doubles(w.m);
    if (slack == NULL || g == NULL) status = OTA_ENOMEM;
    if (status == OTA_OK) {
        const bool capped = head->rule == OTA_COLUMNS_CAPPED || head->rule == OTA_COLUMNS_BOUNDED;
        const bool least = head->floor > 0.0, sink = head->sink > -INFINITY;
        /* Only the sink of exact columns is pinned there: its potential is 0 by definition. */
        for (int64_t j = 0; j < w.m; j++) {
            slack[j] = sink && j == w.m - 1 ? 1.0 : capped && j < m ? w.room[j] : 0.0;
        }
        potentials(&w, capped, slack, head->f, g);
        for (int64_t i = 0; i < n; i++) {
            for (int64_t j = 0; j < m; j++)
                head->p[i * m + j] = w.p[i * w.m + j] + (least ? w.p[i * w.m + m + j] : 0.0);
            if (sink) head->rest[i] = w.p[i * w.m + w.m - 1];
            if (head->f[i] >= INFINITY) head->f[i] = -INFINITY;
        }
        for (int64_t j = 0; j < m; j++) {
            const bool second = least && head->nu[j] > 0.0;
            const bool first = !second || head->floor < 1.0;
            head->g[j] = !second ? g[j] : !first ? g[m + j] : fmax(g[j], g[m + j]);
        }
        (void)ota_reference_residual(head);
    }
    free(slack);
    free(g);
    network_free(&w);
    return status == OTA_INFEASIBLE ? infeasible(head, stuck) : status;
}

/* Pairs that carry weight in some feasible plan: those with flow, and those on a cycle of the
 * residual graph, that is, where the row can be reached again from the column [CETA-24, DER-24]. */
static void find_usable(network *w, bool exact, ota_reference_head *head, bool *usable) {
    const int64_t n = head->n, m = head->m;
    const double crumb = 8.0 * DBL_EPSILON * (double)(n + m) * head->mass;
    for (int64_t k = 0; k < n * w->m; k++) {
        /* A crumb left by rounding is no flow. */
        if (w->p[k] <= crumb) w->p[k] = 0.0;
    }
    head->unusable = 0;
    const bool least = head->floor > 0.0;
    bool *some = calloc((size_t)(n * m) + 1, sizeof *some);
    if (some == NULL) return;
    for (int64_t c = 0; c < (least ? 2 * m : m); c++) {
        const int64_t j = c % m;
        const double size =
            !least ? head->nu[j] : (c < m ? 1.0 - head->floor : head->floor) * head->nu[j];
        /* Breadth-first by sweeps: which rows does column j reach? Columns with room reach each
         * other through the slack of a <= rule. */
        for (int64_t i = 0; i < n; i++) w->to_row[i] = 0.0;
        for (int64_t k = 0; k < w->m; k++) w->to_column[k] = 0.0;
        w->to_column[c] = 1.0;
        bool changed = true;
        while (changed) {
            changed = false;
            for (int64_t i = 0; i < n; i++) {
                for (int64_t k = 0; k < w->m; k++) {
                    if (!(w->to_row[i] > 0.0) && w->to_column[k] > 0.0 &&
                        w->p[i * w->m + k] > 0.0) {
                        w->to_row[i] = 1.0;
                        changed = true;
                    }
                    if (w->to_row[i] > 0.0 && !(w->to_column[k] > 0.0) && allowed(w, i, k)) {
                        w->to_column[k] = 1.0;
                        changed = true;
                    }
                }
            }
            for (int64_t k = 0; !exact && k < w->m; k++) {
                if (!(w->to_column[k] > 0.0) || !(w->room[k] > crumb)) continue;
                if (least && k >= m && k < 2 * m) continue;
                for (int64_t other = 0; other < w->m; other++) {
                    if (least && other >= m && other < 2 * m) continue;
                    double taken = 0.0;
                    for (int64_t i = 0; i < n; i++) taken += w->p[i * w->m + other];
                    if (!(w->to_column[other] > 0.0) && taken > 0.0) {
                        w->to_column[other] = 1.0;
                        changed = true;
                    }
                }
            }
        }
        for (int64_t i = 0; i < n; i++) {
            const bool carries = head->mu[i] > 0.0 && size > 0.0;
            const bool use =
                allowed(w, i, c) && (w->p[i * w->m + c] > 0.0 || (carries && w->to_row[i] > 0.0));
            some[i * m + j] = some[i * m + j] || use;
        }
    }
    for (int64_t k = 0; k < n * m; k++) {
        const bool carries = head->mu[k / m] > 0.0 && head->nu[k % m] > 0.0;
        if (allowed(w, k / m, k % m) && carries && !some[k]) head->unusable++;
        if (usable != NULL) usable[k] = some[k];
    }
    free(some);
}

ota_status ota_reference_feasible(ota_reference_head *head, bool *usable) {
    if (totals_differ(head) != OTA_OK) return OTA_INFEASIBLE;
    network w;
    if (!network_make(&w, head, true)) return OTA_ENOMEM;
    int64_t stuck = 0;
    ota_status status = send_all(&w, head->mass, head->imbalance, &stuck);
    if (status == OTA_OK) status = check_least(&w, head);
    if (status == OTA_OK && usable != NULL)
        find_usable(&w, head->rule == OTA_COLUMNS_EXACT, head, usable);
    network_free(&w);
    return status == OTA_INFEASIBLE ? infeasible(head, stuck) : status;
}
