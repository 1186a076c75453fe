/* Regularised plans for the judge: the updates of otattn.h, done as they are written.
 *
 *     P_ij = w(S_ij + f_i + g_j)
 *     w(x) = exp(x / tau)   or   max(0, (alpha - 1) x / tau)^(1 / (alpha - 1)), there written in x - tau / (alpha - 1)
 *     row update      f_i solves  sum_j P_ij + w(sink + f_i) = mu_i
 *                     relaxed     ... = mu_i exp(-f_i / RHO)
 *     column update   g_j solves  sum_i P_ij = nu_j
 *                     relaxed     ... = nu_j exp(-g_j / rho)
 *                     capped      g_j <- min(0, that)
 *                     bounded     the same for the upper bound; where that is 0, max(0, the one for the lower bound)
 *                     elastic     g_j <- (1 - lambda_j) g_j + lambda_j that
 *
 * Rounds, with R the row and C the column update, for (start, end):
 *     rows, rows  R (C R)^K      rows, columns  (R C)^K  (K = 0: R)
 *     columns, columns  C (R C)^K      columns, rows  (C R)^K  (K = 0: R)
 * Tolerance mode repeats C R, warm-started by halved temperatures, with Newton steps on the
 * concave semi-dual in g where the repetition crawls [DER-11]. */
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reference_head.h"

/* dw/dx at weight p. */
static double slope(const ota_reference_head *h, double tau, double p) {
    if (ota_reference_is_entropy(h)) return p / tau;
    return p > 0.0 ? pow(p, 2.0 - h->order) / tau : 0.0;
}

/* The line's weights at x, none above its cap. */
static double line_weight(const ota_reference_head *h, double tau, double x, const double *caps,
                          int64_t k) {
    const double p = ota_reference_weight(h, tau, x);
    return caps == NULL ? p : fmin(p, caps[k]);
}

/* Numbers to be added up to a target, or to target exp(-x / strength). */
typedef struct line {
    const double *a, *caps; /* caps: NULL, or of each */
    int64_t count;
    double target, strength;
} line;

static double excess_at(const ota_reference_head *h, double tau, const line *l, double x) {
    const double wanted = isinf(l->strength) ? l->target : l->target * exp(-x / l->strength);
    ota_judge_sum sum = {-wanted, 0.0};
    for (int64_t k = 0; k < l->count; k++)
        ota_judge_add(&sum, line_weight(h, tau, l->a[k] + x, l->caps, k));
    return ota_judge_total(sum);
}

/* x where the excess is 0, of which is known that it rises: halving, up to the last bit. */
static double solve_by_halving(const ota_reference_head *h, double tau, const line *l, double top) {
    double low = -top, high = -top;
    for (double step = tau; step < DBL_MAX / 4.0; step *= 2.0) {
        const bool below = excess_at(h, tau, l, low) <= 0.0;
        const bool above = excess_at(h, tau, l, high) >= 0.0;
        if (below && above) break;
        if (!below) low -= step;
        if (!above) high += step;
    }
    for (;;) {
        const double middle = low + 0.5 * (high - low);
        if (!(middle > low && middle < high)) return middle;
        if (excess_at(h, tau, l, middle) > 0.0)
            high = middle;
        else
            low = middle;
    }
}

/* x with sum_k w(a_k + x) = target exp(-x / strength); strength may be +inf. */
static double solve_level(const ota_reference_head *h, double tau, const line *l) {
    const double *a = l->a, target = l->target, strength = l->strength;
    const int64_t count = l->count;
    double top = -INFINITY;
    for (int64_t k = 0; k < count; k++) top = fmax(top, a[k]);
    if (isinf(top)) return target > 0.0 ? -top : -INFINITY;
    if (!(target > 0.0)) return -INFINITY;
    if (h->custom != NULL || l->caps != NULL || h->order < 1.0)
        return solve_by_halving(h, tau, l, top);
    if (h->order <= 1.0) {
        ota_judge_sum sum = {0.0, 0.0};
        for (int64_t k = 0; k < count; k++) ota_judge_add(&sum, exp((a[k] - top) / tau));
        const double log_ratio = tau * (log(target) - log(ota_judge_total(sum))) - top;
        return isinf(strength) ? log_ratio : log_ratio * (strength / (strength + tau));
    }
    /* The largest entry has between an even share and the whole target; a penalty can push further. */
    const double reach = ota_reference_level(h, tau, target);
    double low = ota_reference_level(h, tau, target / (double)count) - top, high = -top + reach;
    if (isfinite(strength)) low = -tau / (h->order - 1.0) - top;
    for (double step = tau; isfinite(strength); step *= 2.0) {
        ota_judge_sum sum = {0.0, 0.0};
        for (int64_t k = 0; k < count; k++)
            ota_judge_add(&sum, ota_reference_weight(h, tau, a[k] + high));
        if (ota_judge_total(sum) >= target * exp(-high / strength)) break;
        high += step;
    }
    double x = 0.5 * (low + high);
    for (int turn = 0; turn < 240; turn++) {
        ota_judge_sum sum = {0.0, 0.0};
        double rise = 0.0;
        for (int64_t k = 0; k < count; k++) {
            const double p = ota_reference_weight(h, tau, a[k] + x);
            ota_judge_add(&sum, p);
            rise += slope(h, tau, p);
        }
        const double wanted = isinf(strength) ? target : target * exp(-x / strength);
        const double excess = ota_judge_total(sum) - wanted;
        if (excess > 0.0)
            high = x;
        else
            low = x;
        if (!isinf(strength)) rise += wanted / strength;
        double next = x - excess / rise;
        /* Newton where it stays inside, and a bisection every third turn against its slow
           corners. */
        if (!(next > low && next < high) || turn % 3 == 2) next = 0.5 * (low + high);
        if (!(excess > 0.0) && !(excess < 0.0)) break;
        if (fabs(next - x) <= 0.25 * DBL_EPSILON * fabs(x) || (next <= low && next >= low) ||
            (next <= high && next >= high)) {
            break;
        }
        x = next;
    }
    return x;
}

/* ---- the two updates ---------------------------------------------------------------------- */

static void update_rows(ota_reference_head *h, double tau, double *scratch) {
    double *caps = h->cap == NULL ? NULL : h->cap_line;
    for (int64_t i = 0; i < h->n; i++) {
        int64_t count = 0;
        for (int64_t j = 0; j < h->m; j++) {
            const double s = h->s[i * h->m + j];
            if (!(s > -INFINITY && h->g[j] > -INFINITY)) continue;
            if (caps != NULL) caps[count] = h->cap[i * h->m + j];
            scratch[count++] = s + h->g[j];
        }
        if (h->sink > -INFINITY) {
            if (caps != NULL) caps[count] = INFINITY;
            scratch[count++] = h->sink;
        }
        const line row = {scratch, caps, count, h->mu[i], h->row_strength};
        h->f[i] = count == 0 ? -INFINITY : solve_level(h, tau, &row);
    }
}

/* The nearest g on the side of 0 that `side` is on, where the rule has two bounds or only the upper one. */
static double keep_side(const ota_reference_head *h, double side, double g) {
    if (h->rule == OTA_COLUMNS_CAPPED) return fmin(0.0, g);
    if (h->rule != OTA_COLUMNS_BOUNDED || !(h->floor < 1.0)) return g;
    return side > 0.0 ? fmax(0.0, g) : fmin(0.0, g);
}

static void update_columns(ota_reference_head *h, double tau, double relaxation, double *scratch) {
    double *caps = h->cap == NULL ? NULL : h->cap_line;
    for (int64_t j = 0; j < h->m; j++) {
        int64_t count = 0;
        for (int64_t i = 0; i < h->n; i++) {
            const double s = h->s[i * h->m + j];
            if (!(s > -INFINITY && h->f[i] > -INFINITY)) continue;
            if (caps != NULL) caps[count] = h->cap[i * h->m + j];
            scratch[count++] = s + h->f[i];
        }
        double rate = relaxation;
        if (h->rule == OTA_COLUMNS_ELASTIC) rate *= h->lambda[j];
        if (!(rate > 0.0)) continue;
        if (!(h->nu[j] > 0.0)) {
            h->g[j] = -INFINITY;
            continue;
        }
        /* Nobody uses the key: any potential will do. */
        if (count == 0) {
            h->g[j] = 0.0;
            continue;
        }
        const double strength = h->rule == OTA_COLUMNS_RELAXED ? h->strength : INFINITY;
        const line column = {scratch, caps, count, h->nu[j], strength};
        double next = solve_level(h, tau, &column);
        if (h->rule == OTA_COLUMNS_CAPPED) next = fmin(0.0, next);
        if (h->rule == OTA_COLUMNS_BOUNDED && next > 0.0) {
            const double least = h->floor * h->nu[j];
            const line lower = {scratch, caps, count, least, INFINITY};
            next = least > 0.0 ? fmax(0.0, solve_level(h, tau, &lower)) : 0.0;
        }
        const double side = next;
        if (rate < 1.0 || rate > 1.0) next = (1.0 - rate) * h->g[j] + rate * next;
        h->g[j] = keep_side(h, side, next);
    }
}

static void fill_plan(ota_reference_head *h, double tau) {
    for (int64_t i = 0; i < h->n; i++) {
        double *p = ota_reference_row(h, h->p, i);
        const double *s = ota_reference_row(h, h->s, i);
        const bool silent = !(h->f[i] > -INFINITY);
        for (int64_t j = 0; j < h->m; j++) {
            const bool off = silent || !(s[j] > -INFINITY) || !(h->g[j] > -INFINITY);
            p[j] = off ? 0.0 : ota_reference_weight(h, tau, s[j] + h->f[i] + h->g[j]);
            if (h->cap != NULL) p[j] = fmin(p[j], h->cap[i * h->m + j]);
        }
        h->rest[i] = silent || !(h->sink > -INFINITY)
                         ? 0.0
                         : ota_reference_weight(h, tau, h->sink + h->f[i]);
    }
}

/* ---- residuals ---------------------------------------------------------------------------- */

static double column_sum(const ota_reference_head *h, int64_t j) {
    ota_judge_sum sum = {0.0, 0.0};
    for (int64_t i = 0; i < h->n; i++) ota_judge_add(&sum, h->p[i * h->m + j]);
    return ota_judge_total(sum);
}

double ota_reference_residual(ota_reference_head *h) {
    const double unit = h->mass > 0.0 ? h->mass : 1.0;
    ota_judge_sum rows = {0.0, 0.0}, columns = {0.0, 0.0};
    for (int64_t i = 0; i < h->n; i++) {
        ota_judge_sum sum = {h->rest[i], 0.0};
        for (int64_t j = 0; j < h->m; j++) ota_judge_add(&sum, h->p[i * h->m + j]);
        double wanted = h->mu[i];
        if (isfinite(h->row_strength) && wanted > 0.0) wanted *= exp(-h->f[i] / h->row_strength);
        ota_judge_add(&rows, fabs(ota_judge_total(sum) - wanted));
    }
    for (int64_t j = 0; j < h->m; j++) {
        const double c = column_sum(h, j);
        double wanted = h->nu[j];
        if (h->rule == OTA_COLUMNS_RELAXED && wanted > 0.0) {
            bool used = false;
            for (int64_t i = 0; i < h->n; i++) used = used || h->s[i * h->m + j] > -INFINITY;
            wanted = used ? wanted * exp(-h->g[j] / h->strength) : 0.0;
        }
        const bool one_sided = h->rule == OTA_COLUMNS_CAPPED || h->rule == OTA_COLUMNS_ONLINE;
        if (h->rule == OTA_COLUMNS_BOUNDED) {
            ota_judge_add(&columns, fmax(0.0, c - wanted) + fmax(0.0, h->floor * wanted - c));
            continue;
        }
        ota_judge_add(&columns, one_sided ? fmax(0.0, c - wanted) : fabs(c - wanted));
    }
    h->row_error = ota_judge_total(rows) / unit;
    h->column_error = ota_judge_total(columns) / unit;
    return fmax(h->row_error, h->column_error);
}

/* What the solution of the current temperature still lacks, complementary slackness of caps
   included. */
static double shortfall(ota_reference_head *h, double tau) {
    fill_plan(h, tau);
    double error = ota_reference_residual(h);
    if (h->rule == OTA_COLUMNS_CAPPED || h->rule == OTA_COLUMNS_BOUNDED) {
        for (int64_t j = 0; j < h->m; j++) {
            const double g = h->g[j], binds = g < 0.0 ? h->nu[j] : h->floor * h->nu[j];
            if ((g < 0.0 || g > 0.0) && h->nu[j] > 0.0) {
                error =
                    fmax(error, fabs(column_sum(h, j) - binds) / (h->mass > 0.0 ? h->mass : 1.0));
            }
        }
    }
    return error;
}

/* ---- Newton on the semi-dual
   ------------------------------------------------------------------ */

/* Solves a d = b for symmetric positive definite a [m][m] in place; false when a pivot vanishes. */
static bool solve_linear(double *a, double *b, int64_t m) {
    for (int64_t k = 0; k < m; k++) {
        if (!(a[k * m + k] > 0.0)) return false;
        for (int64_t i = k + 1; i < m; i++) {
            const double ratio = a[i * m + k] / a[k * m + k];
            for (int64_t j = k; j < m; j++) a[i * m + j] -= ratio * a[k * m + j];
            b[i] -= ratio * b[k];
        }
    }
    for (int64_t k = m - 1; k >= 0; k--) {
        for (int64_t j = k + 1; j < m; j++) b[k] -= a[k * m + j] * b[j];
        b[k] /= a[k * m + k];
    }
    return true;
}

typedef struct newton_space {
    double *matrix, *step, *old, *line, *column;
} newton_space;

/* One step from rows that are exact: (diag(sum_i W) + extra - sum_i W_i W_i^T / sum_j W) d =
 * gradient, W_ij = dP_ij / dS_ij. Takes it only if the shortfall falls. */
static bool newton_step(ota_reference_head *h, double tau, newton_space *w, double *error) {
    const int64_t n = h->n, m = h->m;
    double ridge = 1e-13;
    memcpy(w->old, h->g, (size_t)m * sizeof(double));
    for (int attempt = 0; attempt < 4; attempt++, ridge *= 1e3) {
        fill_plan(h, tau);
        memset(w->matrix, 0, (size_t)(m * m) * sizeof(double));
        for (int64_t i = 0; i < n; i++) {
            double total = h->sink > -INFINITY ? slope(h, tau, h->rest[i]) : 0.0;
            for (int64_t j = 0; j < m; j++) {
                const bool capped = h->cap != NULL && h->p[i * m + j] >= h->cap[i * m + j];
                w->line[j] = capped ? 0.0 : slope(h, tau, h->p[i * m + j]);
                total += w->line[j];
            }
            if (!(total > 0.0)) continue;
            for (int64_t j = 0; j < m; j++) {
                if (!(w->line[j] > 0.0)) continue;
                w->matrix[j * m + j] += w->line[j];
                for (int64_t k = 0; k < m; k++)
                    w->matrix[j * m + k] -= w->line[j] * w->line[k] / total;
            }
        }
        double largest = 0.0;
        for (int64_t j = 0; j < m; j++) {
            double wanted = h->nu[j];
            if (h->rule == OTA_COLUMNS_RELAXED && wanted > 0.0) {
                wanted *= exp(-h->g[j] / h->strength);
                w->matrix[j * m + j] += wanted / h->strength;
            }
            const double c = column_sum(h, j);
            if (h->rule == OTA_COLUMNS_BOUNDED)
                wanted = h->g[j] < 0.0   ? wanted
                         : h->g[j] > 0.0 ? h->floor * wanted
                                         : fmin(fmax(c, h->floor * wanted), wanted);
            w->step[j] = wanted - c;
            largest = fmax(largest, w->matrix[j * m + j]);
        }
        for (int64_t j = 0; j < m; j++) {
            const bool rests = h->rule == OTA_COLUMNS_BOUNDED && h->floor < 1.0 &&
                               !(h->g[j] < 0.0) && !(h->g[j] > 0.0) && !(w->step[j] < 0.0) &&
                               !(w->step[j] > 0.0);
            const bool held = rests || !(h->nu[j] > 0.0) || !(w->matrix[j * m + j] > 0.0) ||
                              (h->rule == OTA_COLUMNS_CAPPED && h->g[j] >= 0.0 && w->step[j] > 0.0);
            if (held) {
                for (int64_t k = 0; k < m; k++) w->matrix[j * m + k] = w->matrix[k * m + j] = 0.0;
                w->matrix[j * m + j] = 1.0;
                w->step[j] = 0.0;
            } else {
                w->matrix[j * m + j] += ridge * largest;
            }
        }
        if (!solve_linear(w->matrix, w->step, m)) continue;
        for (double t = 1.0; t > 1e-4; t *= 0.5) {
            for (int64_t j = 0; j < m; j++) {
                const double next = w->old[j] + (h->nu[j] > 0.0 ? t * w->step[j] : 0.0);
                const double side = w->old[j] < 0.0 || w->old[j] > 0.0 ? w->old[j] : w->step[j];
                h->g[j] = keep_side(h, side, next);
            }
            update_rows(h, tau, w->column);
            const double now = shortfall(h, tau);
            if (now < *error) {
                *error = now;
                return true;
            }
        }
        memcpy(h->g, w->old, (size_t)m * sizeof(double));
        update_rows(h, tau, w->column);
    }
    return false;
}

/* Alternates until the shortfall is at `enough` or nothing helps any more. */
static double settle(ota_reference_head *h, double tau, double enough, int64_t most,
                     newton_space *w) {
    update_rows(h, tau, w->column);
    double error = shortfall(h, tau), best = error;
    int64_t idle = 0;
    for (int64_t round = 0; round < most && error > enough && idle < 6; round += 16) {
        for (int k = 0; k < 16; k++) {
            update_columns(h, tau, 1.0, w->column);
            update_rows(h, tau, w->column);
        }
        h->rounds += 16;
        error = shortfall(h, tau);
        if (isinf(h->row_strength)) {
            for (int k = 0; k < 40 && error > enough && newton_step(h, tau, w, &error); k++)
                h->rounds++;
        }
        idle = error < 0.9 * best ? 0 : idle + 1;
        best = fmin(best, error);
        /* Where Newton cannot work, slow progress is still progress. */
        if (!isinf(h->row_strength) || error > 1e-6) idle = 0;
    }
    (void)shortfall(h, tau);
    return error;
}

/* ---- the two modes ------------------------------------------------------------------------ */

static double stage_temperature(const ota_reference_head *h, int64_t round) {
    const ota_settings *s = h->settings;
    if (!(s->anneal.start > 0.0)) return h->tau;
    return fmax(h->tau,
                s->anneal.start * pow(s->anneal.factor, (double)(round / s->anneal.rounds)));
}

/* Moves to the next temperature; v = exp(g / tau) kept instead of g where that was asked. */
static void cool(ota_reference_head *h, double *tau, double next) {
    if (h->settings->anneal.keep_scaling) {
        for (int64_t j = 0; j < h->m; j++) h->g[j] *= next / *tau;
    }
    *tau = next;
}

static void fixed_rounds(ota_reference_head *h, newton_space *w) {
    const int64_t rounds = h->settings->stop.rounds;
    const double relaxation = h->settings->relaxation;
    const bool from_columns = h->start == OTA_SIDE_COLUMNS, to_columns = h->end == OTA_SIDE_COLUMNS;
    double tau = h->settings->anneal.start > 0.0 && rounds > 0 ? stage_temperature(h, 0) : h->tau;
    if (from_columns) {
        for (int64_t i = 0; i < h->n; i++) h->f[i] = h->mu[i] > 0.0 ? 0.0 : -INFINITY;
    }
    if (from_columns && to_columns) update_columns(h, tau, relaxation, w->column);
    for (int64_t k = 0; k < rounds; k++) {
        cool(h, &tau, stage_temperature(h, k));
        if (!from_columns || to_columns) update_rows(h, tau, w->column);
        update_columns(h, tau, relaxation, w->column);
        if (from_columns && !to_columns) update_rows(h, tau, w->column);
    }
    if (!to_columns || (rounds == 0 && !from_columns)) {
        cool(h, &tau, h->tau);
        update_rows(h, tau, w->column);
    }
    fill_plan(h, tau);
    (void)ota_reference_residual(h);
    h->rounds = rounds;
}

static ota_status to_the_limit(ota_reference_head *h, newton_space *w) {
    double low = INFINITY, high = -INFINITY;
    for (int64_t k = 0; k < h->n * h->m; k++) {
        if (!(h->s[k] > -INFINITY)) continue;
        low = fmin(low, h->s[k]);
        high = fmax(high, h->s[k]);
    }
    const double range = high > low ? high - low : 0.0;
    const double limit = fmax(1e-13, (8.0 + range / h->tau) * DBL_EPSILON);
    h->rounds = 0;
    double tau = h->tau;
    while (tau < 0.25 * range) tau *= 2.0;
    for (; tau > 1.5 * h->tau; tau *= 0.5) (void)settle(h, tau, 1e-3, 64, w);
    /* Tsallis updates are searches, a hundred times the price of a logarithm. */
    (void)settle(h, h->tau, limit, ota_reference_is_entropy(h) ? 200000 : 20000, w);
    const double error = ota_reference_residual(h);
    if (error <= h->settings->stop.tolerance) return OTA_OK;
    (void)snprintf(h->sentence, sizeof h->sentence, "the reference stopped at a residual of %g",
                   error);
    return h->settings->stop.allow_partial ? OTA_PARTIAL : OTA_NOT_CONVERGED;
}

/* A row whose every key is shut by a column mass of 0 cannot send its mass. */
static bool some_row_is_shut(ota_reference_head *h) {
    for (int64_t i = 0; i < h->n && isinf(h->row_strength); i++) {
        if (h->sink > -INFINITY || !(h->mu[i] > 0.0)) continue;
        bool open = false;
        for (int64_t j = 0; j < h->m; j++) {
            const bool shut = !(h->nu[j] > 0.0) && h->rule != OTA_COLUMNS_FREE &&
                              !(h->rule == OTA_COLUMNS_ELASTIC &&
                                (!(h->lambda[j] > 0.0) || h->settings->stop.rounds == 0));
            open = open || (h->s[i * h->m + j] > -INFINITY && !shut);
        }
        if (open) continue;
        (void)snprintf(h->sentence, sizeof h->sentence,
                       "row %lld has no key with a positive column mass", (long long)i);
        return true;
    }
    return false;
}

/* Exact and capped columns: can the masses be carried, and with positive weights? */
static ota_status check_support(ota_reference_head *h) {
    if (h->rule != OTA_COLUMNS_EXACT && h->rule != OTA_COLUMNS_CAPPED &&
        h->rule != OTA_COLUMNS_BOUNDED)
        return OTA_OK;
    bool *usable = calloc((size_t)(h->n * h->m) + 1, sizeof *usable);
    if (usable == NULL) return OTA_ENOMEM;
    const bool least = h->rule == OTA_COLUMNS_BOUNDED && h->floor > 0.0;
    const bool total = (h->rule == OTA_COLUMNS_EXACT || least) && h->order <= 1.0;
    ota_status status = ota_reference_feasible(h, total ? usable : NULL);
    if (status == OTA_OK && total && !least && h->unusable > 0 && h->settings->prune) {
        for (int64_t k = 0; k < h->n * h->m; k++) {
            if (h->s[k] > -INFINITY && !usable[k] && h->mu[k / h->m] > 0.0 &&
                h->nu[k % h->m] > 0.0) {
                h->s[k] = -INFINITY;
                h->pruned++;
            }
        }
    } else if (status == OTA_OK && total && h->unusable > 0) {
        (void)snprintf(
            h->sentence, sizeof h->sentence,
            "the columns cannot be reached with positive weights: %lld allowed pairs are on no "
            "feasible plan",
            (long long)h->unusable);
        status = OTA_INFEASIBLE;
    }
    free(usable);
    return status;
}

/* Row offsets are absorbed by f and would cost digits of x / tau, so each row's top is taken off
 * first; with a sink, which every row shares, one top for all. Where f itself has a meaning
 * nothing is moved. */
static void take_tops(ota_reference_head *h, double *tops, double *original) {
    memcpy(original, h->s, (size_t)(h->n * h->m) * sizeof(double));
    const bool shared = h->sink > -INFINITY;
    const bool fixed_f = isfinite(h->row_strength) || h->start == OTA_SIDE_COLUMNS;
    double all = h->sink;
    for (int64_t i = 0; i < h->n; i++) {
        tops[i] = -INFINITY;
        for (int64_t j = 0; j < h->m; j++) tops[i] = fmax(tops[i], h->s[i * h->m + j]);
        all = fmax(all, tops[i]);
    }
    for (int64_t i = 0; i < h->n; i++) {
        if (shared) tops[i] = all;
        if (fixed_f || isinf(tops[i])) tops[i] = 0.0;
        for (int64_t j = 0; j < h->m; j++) h->s[i * h->m + j] -= tops[i];
    }
    if (shared && !fixed_f) h->sink -= all;
}

static void put_tops_back(ota_reference_head *h, const double *tops, const double *original,
                          double sink) {
    for (int64_t k = 0; k < h->n * h->m; k++) {
        /* Pruned pairs stay out. */
        if (h->s[k] > -INFINITY) h->s[k] = original[k];
    }
    for (int64_t i = 0; i < h->n; i++) h->f[i] -= tops[i];
    h->sink = sink;
}

static ota_status solve(ota_reference_head *h, newton_space *w) {
    const bool fixed = h->settings->stop.fixed && h->rule != OTA_COLUMNS_FREE;
    if (some_row_is_shut(h)) return OTA_INFEASIBLE;
    if (h->rule == OTA_COLUMNS_FREE) {
        for (int64_t j = 0; j < h->m; j++) h->g[j] = 0.0;
        update_rows(h, h->tau, w->column);
        fill_plan(h, h->tau);
        (void)ota_reference_residual(h);
        /* Rows that their caps have no room for. */
        return h->cap != NULL && h->row_error > 1.0e-12 ? OTA_INFEASIBLE : OTA_OK;
    }
    if (fixed) {
        fixed_rounds(h, w);
        return OTA_FIXED_ITERS;
    }
    const ota_status status = check_support(h);
    if (status != OTA_OK) return status;
    double target = 0.0;
    for (int64_t j = 0; j < h->m; j++) target += h->nu[j];
    /* Totals that differ within what validation allows must agree to be met. */
    if (h->rule == OTA_COLUMNS_EXACT && target > 0.0 && !(h->sink > -INFINITY)) {
        for (int64_t j = 0; j < h->m; j++) h->nu[j] *= h->mass / target;
    }
    return to_the_limit(h, w);
}

ota_status ota_reference_scale(ota_reference_head *h) {
    const size_t m = (size_t)h->m, n = (size_t)h->n;
    newton_space w = {.matrix = calloc(m * m + 1, sizeof(double)),
                      .step = calloc(4 * m + 2 * n + 2, sizeof(double))};
    double *original = calloc(n * m + 1, sizeof(double));
    ota_status status = OTA_ENOMEM;
    if (w.matrix != NULL && w.step != NULL && original != NULL) {
        w.old = w.step + m;
        w.line = w.old + m;
        double *tops = w.line + m;
        w.column = tops + n;
        const double sink = h->sink;
        take_tops(h, tops, original);
        status = solve(h, &w);
        put_tops_back(h, tops, original, sink);
    }
    free(w.matrix);
    free(w.step);
    free(original);
    return status;
}
