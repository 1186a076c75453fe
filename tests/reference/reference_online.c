/* Online columns for the judge: rows in order, each the capped problem of one query with what
 * earlier rows left [DER-23]:
 *
 *     sum_j min(left_j, c_ij, w(S_ij + f_i)) + w(sink + f_i) = mu_i,   left_j <- left_j - P_ij
 *     hard: the largest score with room first */
#include <float.h>
#include <stdio.h>

#include "reference_head.h"

/* The most that row i may give key j. */
static double room_of(const ota_reference_head *h, int64_t i, int64_t j) {
    return h->cap == NULL ? h->nu[j] : fmin(h->nu[j], h->cap[i * h->m + j]);
}

/* The level x of row i with ceilings: sum_j min(room_j, w(s_j - top + x)) + w(sink - top + x) =
 * mu, by bisection. */
static double solve_capped_row(const ota_reference_head *h, int64_t i, double top) {
    const double *s = ota_reference_row(h, h->s, i), mu = h->mu[i];
    double low = INFINITY, high = -INFINITY;
    for (int64_t j = -1; j < h->m; j++) {
        const double a = (j < 0 ? h->sink : s[j]) - top;
        const double room = j < 0 ? mu : fmin(room_of(h, i, j), mu);
        if (!(a > -INFINITY) || !(room > 0.0)) continue;
        const double full = ota_reference_level(h, h->tau, room);
        const double none = ota_reference_level(h, h->tau, mu / ((double)h->m + 1.0));
        low = fmin(low, none - a);
        high = fmax(high, full - a);
    }
    low = fmin(low, high);
    for (int turn = 0; turn < 2200; turn++) {
        const double x = low + 0.5 * (high - low);
        if (!(x > low) || !(x < high)) break;
        ota_judge_sum sum = {ota_reference_weight(h, h->tau, (h->sink - top) + x), 0.0};
        for (int64_t j = 0; j < h->m; j++) {
            if (s[j] > -INFINITY)
                ota_judge_add(&sum, fmin(room_of(h, i, j),
                                         ota_reference_weight(h, h->tau, (s[j] - top) + x)));
        }
        if (ota_judge_total(sum) < mu)
            low = x;
        else
            high = x;
    }
    return high;
}

/* Greedy: the largest score with room first; the sink has room for everything. */
static double fill_greedily(const ota_reference_head *h, int64_t i, double *p, double *rest) {
    const double *s = ota_reference_row(h, h->s, i);
    double left = h->mu[i], last = INFINITY;
    while (left > 0.0) {
        int64_t best = -1;
        double top = h->sink;
        for (int64_t j = 0; j < h->m; j++) {
            const bool room = s[j] > -INFINITY && room_of(h, i, j) - p[j] > 0.0;
            if (room && (s[j] > top || (best < 0 && s[j] >= top))) {
                top = s[j];
                best = j;
            }
        }
        if (!(top > -INFINITY)) break;
        last = top;
        const double amount = best < 0 ? left : fmin(left, room_of(h, i, best) - p[best]);
        if (best < 0)
            *rest = amount;
        else
            p[best] += amount;
        left -= amount;
    }
    return -last;
}

/* What row i may miss of its mass: rounding of its sums, and of what earlier rows took of a key, which is rounded at the
 * size of the key's capacity. Of the latter at most 1e-9 of the row's mass. */
static double allowance(const ota_reference_head *h, int64_t i) {
    const double rounding = 4.0 * DBL_EPSILON * (double)(h->m + 1);
    return fmax(rounding * h->mu[i], fmin(rounding * h->capacity, 1e-9 * h->mu[i]));
}

ota_status ota_reference_online(ota_reference_head *h) {
    for (int64_t j = 0; j < h->m; j++) h->g[j] = 0.0;
    for (int64_t i = 0; i < h->n; i++) {
        const double *s = ota_reference_row(h, h->s, i);
        double *p = ota_reference_row(h, h->p, i);
        const double mu = h->mu[i];
        h->rest[i] = 0.0;
        h->f[i] = -INFINITY;
        for (int64_t j = 0; j < h->m; j++) p[j] = 0.0;
        ota_judge_sum room = {0.0, 0.0};
        for (int64_t j = 0; j < h->m; j++) {
            if (s[j] > -INFINITY) ota_judge_add(&room, fmin(room_of(h, i, j), mu));
        }
        if (!(mu > 0.0)) continue;
        if (!(h->sink > -INFINITY) && ota_judge_total(room) < mu - allowance(h, i)) {
            (void)snprintf(h->sentence, sizeof h->sentence,
                           "row %lld needs a mass of %g but the keys it may use have %g left",
                           (long long)i, mu, ota_judge_total(room));
            h->first_bad_row = i;
            return OTA_INFEASIBLE;
        }
        if (h->order > 0.0) {
            double top = h->sink;
            for (int64_t j = 0; j < h->m; j++) top = fmax(top, s[j]);
            const double f = solve_capped_row(h, i, top);
            for (int64_t j = 0; j < h->m; j++) {
                if (s[j] > -INFINITY)
                    p[j] =
                        fmin(room_of(h, i, j), ota_reference_weight(h, h->tau, (s[j] - top) + f));
            }
            h->rest[i] = ota_reference_weight(h, h->tau, (h->sink - top) + f);
            h->f[i] = f - top;
        } else {
            h->f[i] = fill_greedily(h, i, p, &h->rest[i]);
        }
        for (int64_t j = 0; j < h->m; j++) h->nu[j] -= p[j];
    }
    return OTA_OK;
}
