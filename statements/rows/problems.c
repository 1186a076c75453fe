/* statements/rows/: Statements about one row: the row problems, their geometry, bounds, saturation, metrics of two
 * distributions. They may call the public headers and statements/check.h.
 *
 * Group A, the row problems: one query against its keys, min <P,C> + Omega(P) with P1 = mu [LIT, TOT].
 * S [n][m], C = -S, P [n][m]; a plan is compared with long double formulas of its row. */
#include "statements/check.h"

enum { N = 6, M = 9 };

/* ---- softmax ---- */

static double weights_against_formula(trial *t) {
    enum { KEYS = 33 };
    double most = 0.0, formula[KEYS];
    head *h = statement_head(t, N, KEYS, uniforms(t, (int64_t)N * KEYS, -10.0, 10.0));
    statement_solve(t, h, "softmax", 1.0, 0.0);
    for (int i = 0; i < N; i++) {
        softmax_formula(h->scores + i * KEYS, KEYS, 1.0, formula);
        for (int j = 0; j < KEYS; j++) {
            most = worse(most, fabs(h->p[i * KEYS + j] / formula[j] - 1.0));
        }
    }
    return most;
}

/* ELA's case 1: costs C given as costs, temperature eps, columns free. exp(-C/eps) over its row's sum, the relative
 * error over u (8 + 3 range/eps). */
static double cost_weights(trial *t) {
    enum { KEYS = 33, RANGE = 20 };
    double most = 0.0, scores[KEYS], formula[KEYS];
    const double epsilon = between(t, 0.3, 3.0);
    head *h = statement_head(
        t, N, KEYS, uniforms(t, (int64_t)N * KEYS, -0.5 * (double)RANGE, 0.5 * (double)RANGE));
    h->problem.cost = 1;
    statement_solve(t, h, "softmax", epsilon, 0.0);
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < KEYS; j++) scores[j] = -h->scores[i * KEYS + j];
        softmax_formula(scores, KEYS, epsilon, formula);
        for (int j = 0; j < KEYS; j++)
            most = worse(most, fabs(h->p[i * KEYS + j] / formula[j] - 1.0));
    }
    return seen_too(t, most / (ROUNDOFF * (8.0 + 3.0 * (double)RANGE / epsilon)));
}

/* Bits of the plan of costs C that differ from those of scores -C. */
static double cost_is_minus_score(trial *t) {
    double *cost = scores_of(t, N, M, t->draw % CHARACTERS), *s = copy_of(t, cost, N * M);
    const double epsilon = between(t, 0.3, 3.0);
    for (int k = 0; k < N * M; k++) s[k] = -s[k];
    head *h = statement_head(t, N, M, cost);
    h->problem.cost = 1;
    statement_solve(t, h, "softmax", epsilon, 0.0);
    return different_bits(h->p, statement_plan(t, N, M, s, "softmax", epsilon, 0.0)->p, N * M);
}

static double weights_of_huge_scores(trial *t) {
    double most = 0.0;
    head *h = statement_plan(t, N, M, uniforms(t, N * M, -1e4, 1e4), "softmax", 1.0, 0.0);
    for (int i = 0; i < N; i++) most = worse(most, fabs(h->rows[i] - 1.0));
    return most;
}

/* <p,C> - tau H(p), C = -s. */
static double row_objective(const double *p, const double *s, int64_t m, double tau) {
    return -dot(p, s, m) - tau * entropy_of(p, m);
}

static double optimum_is_minus_lse(trial *t) {
    const double tau = between(t, 0.2, 3.0);
    head *h =
        statement_plan(t, 1, M, scores_of(t, 1, M, t->draw % CHARACTERS), "softmax", tau, 0.0);
    double objective = NAN;
    (void)ota_softmax_objective(h->p, h->scores, M, tau, &objective, NULL, NULL);
    const double formula = -tau * log_sum_exp(h->scores, M, tau);
    return fabs(objective - formula) / (1.0 + fabs(formula));
}

static double random_points_do_better_by(trial *t) {
    double most = -HUGE_VAL;
    head *h = statement_plan(t, 1, M, normals(t, M, 1.0), "softmax", 0.7, 0.0);
    double least = NAN;
    (void)ota_softmax_objective(h->p, h->scores, M, 0.7, &least, NULL, NULL);
    for (int trials = 0; trials < 2000; trials++) {
        double *p = distribution(t, M, 2.0), other = NAN;
        (void)ota_softmax_objective(p, h->scores, M, 0.7, &other, NULL, NULL);
        most = worse(most, least - other);
    }
    return most;
}

/* Spread within rows of C_ij + tau (log p_ij + 1): the multiplier of the row. */
static double kkt_spread(const head *h, double tau) {
    double most = 0.0;
    for (int64_t i = 0; i < h->n; i++) {
        double high = -HUGE_VAL, low = HUGE_VAL;
        for (int64_t j = 0; j < h->m; j++) {
            const int64_t k = i * h->m + j;
            const double x = -h->scores[k] + tau * (log(h->p[k]) + 1.0);
            high = worse(high, x);
            low = fmin(low, x);
        }
        most = worse(most, high - low);
    }
    return most;
}

static double stationarity(trial *t) {
    const double tau = between(t, 0.3, 3.0);
    head *h =
        statement_plan(t, N, M, scores_of(t, N, M, t->draw % CHARACTERS), "softmax", tau, 0.0);
    return fmax(0.0, kkt_spread(h, tau));
}

/* Queries and keys, C = -Q K^T and temperature T: scores of the library's own. */
static double attention_stationarity(trial *t) {
    enum { WIDTH = 11 };
    const double temperature = between(t, 1.0, 6.0);
    double *q = normals(t, N * WIDTH, 1.0), *k = normals(t, M * WIDTH, 1.0);
    head *h = statement_attention_head(t, N, M, WIDTH, q, k);
    h->problem.scale = 1.0;
    statement_solve(t, h, "softmax", temperature, 0.0);
    h->scores = numbers(t, N * M);
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < M; j++)
            h->scores[i * M + j] = dot(q + (int64_t)i * WIDTH, k + (int64_t)j * WIDTH, WIDTH);
    }
    return fmax(0.0, kkt_spread(h, temperature));
}

static double least_rise_of_a_move(trial *t) {
    double least = HUGE_VAL;
    head *h = statement_plan(t, 1, M, normals(t, M, 1.0), "softmax", 1.0, 0.0);
    const double optimum = row_objective(h->p, h->scores, M, 1.0);
    for (int trials = 0; trials < 500; trials++) {
        double *moved = copy_of(t, h->p, M);
        const int64_t from = below(t, M), to = (from + 1 + below(t, M - 1)) % M;
        const double mass = 0.5 * moved[from];
        moved[from] -= mass;
        moved[to] += mass;
        least = fmin(least, row_objective(moved, h->scores, M, 1.0) - optimum);
    }
    return least;
}

/* Variance of the differences of default-scaled scores of two keys, over 2: Q and K are standard. */
static double score_variance(trial *t) {
    enum { QUERIES = 512, KEYS = 512, WIDTH = 512 };
    head *h = statement_attention_head(t, QUERIES, KEYS, WIDTH, normals(t, QUERIES * WIDTH, 1.0),
                                       normals(t, KEYS * WIDTH, 1.0));
    statement_solve(t, h, "softmax", 1.0, 0.0);
    double sum = 0.0;
    for (int64_t k = 0; k < (int64_t)QUERIES * KEYS; k += 2) {
        const double apart = log(h->p[k] / h->p[k + 1]);
        sum += apart * apart;
    }
    return fabs(sum / ((double)QUERIES * (double)KEYS) - 1.0);
}

static double matrix_is_stacked_rows(trial *t) {
    double most = 0.0;
    double *s = scores_of(t, N, M, t->draw % CHARACTERS);
    head *all = statement_plan(t, N, M, s, "softmax", 0.8, 0.0);
    for (int i = 0; i < N; i++) {
        head *row = statement_plan(t, 1, M, s + i * M, "softmax", 0.8, 0.0);
        most = worse(most, farthest(all->p + i * M, row->p, M));
    }
    return most;
}

static double total_mass(trial *t) {
    head *h = statement_plan(t, 64, 48, normals(t, 64 * 48, 3.0), "softmax", 1.0, 0.0);
    return fabs(sum_of(h->p, 64 * 48) - 64.0);
}

/* ---- other regularisers ---- */

static double omega(const double *p, int64_t m, double alpha) {
    if (alpha <= 1.0) return -entropy_of(p, m);
    double sum = 0.0;
    for (int64_t j = 0; j < m; j++) sum += pow(p[j], alpha) - p[j];
    return sum / (alpha * (alpha - 1.0));
}

static const char *const mechanisms[] = {"softmax", "entmax:1.3", "entmax:1.5", "sparsemax",
                                         "entmax:3"};
static const double orders[] = {1.0, 1.3, 1.5, 2.0, 3.0};
enum { MECHANISMS = 5 };

static double mixtures_do_better_by(trial *t) {
    double most = -HUGE_VAL;
    for (int k = 0; k < MECHANISMS; k++) {
        head *h = statement_plan(t, 1, M, normals(t, M, 1.0), mechanisms[k], 1.0, 0.0);
        const double optimum = -dot(h->p, h->scores, M) + omega(h->p, M, orders[k]);
        for (int trials = 0; trials < 600; trials++) {
            const double share = pow(10.0, between(t, -6.0, 0.0));
            double *q = distribution(t, M, 2.0);
            for (int j = 0; j < M; j++) q[j] = (1.0 - share) * h->p[j] + share * q[j];
            most = worse(most, optimum + dot(q, h->scores, M) - omega(q, M, orders[k]));
        }
    }
    return most;
}

static double primal_is_the_objective(trial *t) {
    double most = 0.0;
    for (int k = 0; k < MECHANISMS; k++) {
        head *h = statement_plan(t, 1, M, normals(t, M, 1.0), mechanisms[k], 1.0, 0.0);
        /* The library's entropy is P (log P - 1): it differs by the mass. */
        const double formula =
            -dot(h->p, h->scores, M) + omega(h->p, M, orders[k]) - (k == 0 ? 1.0 : 0.0);
        most = worse(most, fabs(h->certificate.primal - formula));
    }
    return most;
}

/* Omega = -tau H as the fields of a problem that names no method, and softmax by its name: weights, potentials, log-sum-exp. */
static double entropy_is_softmax(trial *t) {
    double *s = scores_of(t, N, M, t->draw % CHARACTERS), tau = between(t, 0.3, 3.0);
    head *a = statement_plan(t, N, M, s, "softmax", tau, 0.0);
    head *b = statement_plan(t, N, M, s, NULL, tau, 0.0);
    return different_bits(a->p, b->p, N * M) + different_bits(a->f, b->f, N) +
           different_bits(a->lse, b->lse, N);
}

static double gallery_scores[4] = {1.0, 0.5, 0.2, -1.0};

static double golden(trial *t, const char *method, const double *expected) {
    return farthest(statement_plan(t, 1, 4, gallery_scores, method, 1.0, 0.0)->p, expected, 4);
}

static double golden_sparsemax(trial *t) {
    return golden(t, "sparsemax", (double[]){0.75, 0.25, 0.0, 0.0});
}

static double golden_entmax(trial *t) {
    return golden(t, "entmax:1.5",
                  (double[]){0.592807227494524, 0.270337349616227, 0.136855422889249, 0.0});
}

/* On the support (alpha - 1) s_j - p_j^(alpha - 1) is one level t; off it (alpha - 1) s_j <= t. */
static double threshold_spread(trial *t, const char *method, double alpha) {
    double most = 0.0;
    for (int trials = 0; trials < 30; trials++) {
        head *h =
            statement_plan(t, 1, 24, scores_of(t, 1, 24, trials % CHARACTERS), method, 1.0, 0.0);
        double high = -HUGE_VAL, low = HUGE_VAL, off = -HUGE_VAL;
        for (int j = 0; j < 24; j++) {
            const double x = (alpha - 1.0) * h->scores[j] - pow(h->p[j], alpha - 1.0);
            if (h->p[j] > 0.0) {
                high = fmax(high, x);
                low = fmin(low, x);
            } else {
                off = fmax(off, x);
            }
        }
        const double scale = 1.0 + fabs(high);
        most = worse(most, (high - low) / scale);
        if (off > -HUGE_VAL) most = worse(most, (off - low) / scale);
        most = worse(most, fabs(h->rows[0] - 1.0));
    }
    return most;
}

static double sparsemax_threshold(trial *t) { return threshold_spread(t, "sparsemax", 2.0); }
static double entmax_threshold(trial *t) {
    return worse(threshold_spread(t, "entmax:1.5", 1.5), threshold_spread(t, "entmax:1.2", 1.2));
}

static double entmax_near_softmax(trial *t) {
    head *near = statement_plan(t, 1, 4, gallery_scores, "entmax:1.001", 1.0, 0.0);
    head *soft = statement_plan(t, 1, 4, gallery_scores, "softmax", 1.0, 0.0);
    return farthest(near->p, soft->p, 4);
}

/* The printed text lets the constant be chosen so that the sum is 1: any threshold then serves. With
 * threshold 0 the weights [s]_+ / sum are as good as with the right one. */
static double entmax_free_constant(trial *t) {
    static const double s[3] = {1.0, 0.5, 0.2};
    head *h = statement_plan(t, 1, 3, copy_of(t, s, 3), "sparsemax", 1.0, 0.0);
    double printed[3];
    for (int j = 0; j < 3; j++) printed[j] = s[j] / 1.7;
    return farthest(h->p, printed, 3);
}

static double alibi_distance(trial *t, bool slope_is_divided) {
    enum { SIZE = 12 };
    double most = 0.0, formula[SIZE], row[SIZE];
    const double gamma = between(t, 0.05, 0.5), tau = between(t, 1.5, 3.0);
    head *h = statement_head(t, SIZE, SIZE, normals(t, SIZE * SIZE, 1.0));
    statement_add_term(h, OTA_TERM_ALIBI, (ota_array){.data = NULL}, gamma);
    statement_solve(t, h, "softmax", tau, 0.0);
    for (int i = 0; i < SIZE; i++) {
        for (int j = 0; j < SIZE; j++) {
            row[j] = h->scores[i * SIZE + j] / tau -
                     (slope_is_divided ? gamma / tau : gamma) * abs(i - j);
        }
        softmax_formula(row, SIZE, 1.0, formula);
        most = worse(most, farthest(h->p + i * SIZE, formula, SIZE));
    }
    return most;
}

static double alibi_by_slope(trial *t) { return alibi_distance(t, true); }
static double alibi_by_gamma(trial *t) { return alibi_distance(t, false); }

/* ---- Table 1 ---- */

/* [(alpha - 1) s - x]_+^(1/(alpha - 1)), x halved into place; alpha = 1: softmax. */
static void weights_formula(const double *s, int64_t m, double alpha, double *p) {
    if (alpha <= 1.0) {
        softmax_formula(s, m, 1.0, p);
        return;
    }
    double high = (alpha - 1.0) * largest_of(s, m), low = high - 1.0;
    for (int step = 0; step < 100; step++) {
        const double x = 0.5 * (low + high);
        double sum = 0.0;
        for (int64_t j = 0; j < m; j++)
            sum += p[j] = pow(fmax(0.0, (alpha - 1.0) * s[j] - x), 1.0 / (alpha - 1.0));
        *(sum >= 1.0 ? &low : &high) = x;
    }
}

/* Its columns for one query: the regulariser, keys with weight, entropy, mean distance of the weight. */
typedef struct table_row {
    double regulariser, entropy, distance;
    int64_t support;
} table_row;

static table_row table_row_of(const double *p, int64_t m, int64_t query, double alpha,
                              double slope) {
    table_row row = {.entropy = entropy_of(p, m)};
    for (int64_t j = 0; j < m; j++) {
        row.support += p[j] > 0.0;
        row.distance += p[j] * fabs((double)(query - j));
    }
    row.regulariser = omega(p, m, alpha) + slope * row.distance;
    return row;
}

/* All columns of all rows, n queries each, by formulas; a query whose ALiBi weights lie further off than its softmax
 * weights counts as infinitely far. */
static double comparison_table(trial *t) {
    enum { SIZE = 16 };
    static const struct {
        const char *method;
        double order, slope;
    } table[] = {{"softmax", 1.0, 0.0},
                 {"sparsemax", 2.0, 0.0},
                 {"entmax:1.5", 1.5, 0.0},
                 {"entmax:1.3", 1.3, 0.0},
                 {"softmax", 1.0, 0.3}};
    double most = 0.0, softmax_distance[SIZE], *s = normals(t, SIZE * SIZE, 1.0);
    for (int k = 0; k < 5; k++) {
        double objective = 0.0, biased[SIZE], p[SIZE];
        head *h = statement_head(t, SIZE, SIZE, s);
        if (table[k].slope > 0.0)
            statement_add_term(h, OTA_TERM_ALIBI, (ota_array){.data = NULL}, table[k].slope);
        statement_solve(t, h, table[k].method, 1.0, 0.0);
        for (int i = 0; i < SIZE; i++) {
            const double *scores = s + (int64_t)i * SIZE, *solved = h->p + (int64_t)i * SIZE;
            for (int j = 0; j < SIZE; j++) biased[j] = scores[j] - table[k].slope * abs(i - j);
            weights_formula(biased, SIZE, table[k].order, p);
            const table_row want = table_row_of(p, SIZE, i, table[k].order, table[k].slope),
                            row = table_row_of(solved, SIZE, i, table[k].order, table[k].slope);
            objective += want.regulariser - dot(p, scores, SIZE);
            most = worse(most, fabs(h->support[i] - (double)want.support));
            most = worse(most, fabs(h->entropy[i] - want.entropy));
            most = worse(most, fabs(row.distance - want.distance));
            if (k == 0) softmax_distance[i] = row.distance;
            if (k == 4 && !(row.distance < softmax_distance[i])) most = HUGE_VAL;
        }
        /* The library's entropy is P (log P - 1): it differs by the mass. */
        const double mass = table[k].order > 1.0 ? 0.0 : (double)SIZE;
        most = worse(most, fabs(h->certificate.primal - objective + mass) / (double)SIZE);
    }
    return most;
}

/* ---- the row problem as transport ---- */

static double dual_value(trial *t) {
    const double tau = between(t, 0.3, 2.0);
    head *h =
        statement_plan(t, N, M, scores_of(t, N, M, t->draw % CHARACTERS), "softmax", tau, 0.0);
    double formula = 0.0;
    for (int i = 0; i < N; i++) {
        formula += -tau * log_sum_exp(h->scores + i * M, M, tau) - tau;
    }
    return fabs(h->certificate.primal - formula) / (1.0 + fabs(formula));
}

static double source_marginal(trial *t) {
    double most = 0.0;
    double *s = normals(t, N * M, 2.0), *mu = uniforms(t, N, 0.1, 4.0);
    head *weighted = statement_head(t, N, M, s);
    weighted->row_mass = mu;
    statement_solve(t, weighted, "softmax", 0.9, 0.0);
    head *plain = statement_plan(t, N, M, s, "softmax", 0.9, 0.0);
    for (int i = 0; i < N; i++) {
        most = worse(most, fabs(weighted->rows[i] / mu[i] - 1.0));
        for (int j = 0; j < M; j++) {
            most = worse(most, fabs(weighted->p[i * M + j] / mu[i] - plain->p[i * M + j]));
        }
    }
    return most;
}

/* A random support with one empty row: exact zeros outside, rows renormalised inside. */
static head *masked_head(trial *t, const unsigned char **allowed) {
    unsigned char *mask = take(t, N * M);
    for (int k = 0; k < N * M; k++) mask[k] = uniform(t) < 0.6 && k / M != 2;
    for (int i = 0; i < N; i++) mask[i * M + i] = i != 2;
    head *h = statement_head(t, N, M, normals(t, N * M, 1.0));
    statement_add_support(h, OTA_SUPPORT_BOOLEAN, 0, 0)->array =
        ota_array_of(mask, OTA_BOOL, 1, 1, N, M);
    statement_solve(t, h, "softmax", 1.0, 0.0);
    *allowed = mask;
    return h;
}

static double masked_rows(trial *t) {
    double most = 0.0;
    const unsigned char *mask;
    head *h = masked_head(t, &mask);
    for (int i = 0; i < N; i++) {
        double sum = 0.0;
        for (int j = 0; j < M; j++) sum += mask[i * M + j] ? exp(h->scores[i * M + j]) : 0.0;
        for (int j = 0; j < M; j++) {
            const double want = mask[i * M + j] ? exp(h->scores[i * M + j]) / sum : 0.0;
            most = worse(most, fabs(h->p[i * M + j] - want));
        }
    }
    return most;
}

static double weight_outside_mask(trial *t) {
    const unsigned char *mask;
    head *h = masked_head(t, &mask);
    double outside = fabs((double)h->result.empty_rows - 1.0);
    for (int k = 0; k < N * M; k++) outside = worse(outside, mask[k] ? 0.0 : fabs(h->p[k]));
    return seen_number(t, outside);
}

/* C + tau log P - alpha = 0 on the support, P >= 0, P1 = 1, beta = 0. alpha is the potential f. */
static double full_kkt(trial *t) {
    double most = 0.0;
    const double tau = between(t, 0.4, 2.0);
    head *h = statement_plan(t, N, M, normals(t, N * M, 2.0), "softmax", tau, 0.0);
    for (int k = 0; k < N * M; k++) {
        most = worse(most, fabs(-h->scores[k] + tau * log(h->p[k]) - h->f[k / M]));
        most = worse(most, fmax(0.0, -h->p[k]));
    }
    for (int i = 0; i < N; i++) most = worse(most, fabs(h->rows[i] - 1.0));
    return most;
}

static double row_duals(trial *t) {
    double most = 0.0;
    double *mu = uniforms(t, N, 0.2, 3.0);
    head *h = statement_head(t, N, M, normals(t, N * M, 2.0));
    h->row_mass = mu;
    const double tau = 0.6;
    statement_solve(t, h, "softmax", tau, 0.0);
    for (int i = 0; i < N; i++) {
        const double alpha = tau * (log(mu[i]) - log_sum_exp(h->scores + i * M, M, tau));
        most = worse(most, fabs(h->f[i] - alpha));
        for (int j = 0; j < M; j++) {
            const double weight = exp((h->f[i] + h->scores[i * M + j]) / tau);
            most = worse(most, fabs(weight - h->p[i * M + j]));
        }
    }
    return most;
}

static double row_shift_of_plan(trial *t) {
    double *s = scores_of(t, N, M, t->draw % CHARACTERS), *moved = copy_of(t, s, N * M);
    for (int i = 0; i < N; i++) {
        /* Powers of two on a grid, so that adding them rounds nothing. */
        const double shift = ldexp(1.0, (int)below(t, 8) - 2);
        for (int j = 0; j < M; j++) {
            s[i * M + j] = ldexp(rint(ldexp(s[i * M + j], 30)), -30);
            moved[i * M + j] = s[i * M + j] + shift;
        }
    }
    head *a = statement_plan(t, N, M, s, "softmax", 1.0, 0.0);
    head *b = statement_plan(t, N, M, moved, "softmax", 1.0, 0.0);
    return farthest(a->p, b->p, N * M);
}

static double row_shift_of_dual(trial *t) {
    double *s = normals(t, N * M, 1.0), *moved = copy_of(t, s, N * M), *shift = normals(t, N, 5.0);
    for (int k = 0; k < N * M; k++) moved[k] -= shift[k / M];
    head *a = statement_plan(t, N, M, s, "softmax", 1.0, 0.0);
    head *b = statement_plan(t, N, M, moved, "softmax", 1.0, 0.0);
    double most = 0.0;
    for (int i = 0; i < N; i++) most = worse(most, fabs(b->f[i] - a->f[i] - shift[i]));
    return most;
}

static double powers_of_two(trial *t) {
    double *s = normals(t, N * M, 2.0), *scaled = copy_of(t, s, N * M);
    for (int k = 0; k < N * M; k++) scaled[k] *= 8.0;
    head *a = statement_plan(t, N, M, s, "softmax/exact", 0.5, 0.0);
    head *b = statement_plan(t, N, M, scaled, "softmax/exact", 4.0, 0.0);
    return different_bits(a->p, b->p, N * M);
}

static double temperature_times_epsilon(trial *t) {
    double *s = normals(t, N * M, 2.0), *divided = copy_of(t, s, N * M);
    for (int k = 0; k < N * M; k++) divided[k] /= 3.0;
    head *a = statement_plan(t, N, M, s, "softmax", 3.0 * 0.7, 0.0);
    head *b = statement_plan(t, N, M, divided, "softmax", 0.7, 0.0);
    return farthest(a->p, b->p, N * M);
}

static double entropy_conventions(trial *t) {
    head *h = statement_head(t, N, M, normals(t, N * M, 1.0));
    h->row_mass = uniforms(t, N, 0.2, 3.0);
    const double tau = 0.7;
    statement_solve(t, h, "softmax", tau, 0.0);
    const double mass = sum_of(h->row_mass, N);
    return fabs(h->certificate.value - h->certificate.primal - tau * mass);
}

/* Q, K of the worked example C.4. */
static double example_scores[12] = {1.0, 0.0, 1.0, -1.0, 0.0, 1.0, -1.0, 1.0, 1.0, 1.0, 0.0, 0.0};

static double effective_target(trial *t) {
    static const double expected[4] = {0.303993, 0.303993, 0.196007, 0.196007};
    head *h = statement_plan(t, 3, 4, example_scores, "softmax", 1.0, 0.0);
    double *mass = numbers(t, 4);
    ota_receiver receiver;
    if (ota_receiver_of(h->p, 3, 4, mass, &receiver, NULL, NULL) < 0) return NAN;
    for (int j = 0; j < 4; j++) mass[j] /= 3.0;
    return farthest(mass, expected, 4);
}

static double effective_target_sum(trial *t) {
    double *mass = numbers(t, M);
    head *h = statement_plan(t, N, M, normals(t, N * M, 2.0), "softmax", 1.0, 0.0);
    ota_receiver receiver;
    if (ota_receiver_of(h->p, N, M, mass, &receiver, NULL, NULL) < 0) return NAN;
    return fabs(sum_of(mass, M) / (double)N - 1.0);
}

static const statement_check table[] = {
    AT_MOST("LIT-01", "softmax weights against a long double formula, relative",
            weights_against_formula, ROUNDOFF *(8 + 3 * 20), 20),
    AT_MOST("LIT-01", "rows of scores up to 1e4 sum to 1", weights_of_huge_scores, 4 * M * ROUNDOFF,
            20),
    AT_MOST("LIT-02", "least objective of a row is -tau log-sum-exp", optimum_is_minus_lse, 1e-13,
            30),
    AT_MOST("LIT-02", "2000 random points do better by", random_points_do_better_by, 0.0),
    AT_MOST("LIT-03", "C + tau (log p + 1) is one number in each row", stationarity, 1e-12, 30),
    AT_LEAST("LIT-03", "least rise of the objective over feasible moves", least_rise_of_a_move,
             1e-12),
    AT_MOST("LIT-04", "|variance of scores over sqrt(d) - 1|", score_variance, 0.03),
    AT_MOST("LIT-05", "the matrix problem is its rows, stacked", matrix_is_stacked_rows, 1e-15, 10),
    AT_MOST("LIT-05", "total mass of 64 rows is 64", total_mass, 64e-13),
    AT_MOST("LIT-08", "3000 mixtures do better by", mixtures_do_better_by, 1e-14),
    AT_MOST("LIT-08", "primal is <p,-s> + Omega(p) for five regularisers", primal_is_the_objective,
            1e-13),
    AT_MOST("LIT-09", "different bits of softmax and of -tau H", entropy_is_softmax, 0.0, 30),
    AT_MOST("LIT-10", "sparsemax of (1, .5, .2, -1) is (.75, .25, 0, 0)", golden_sparsemax, 1e-15),
    AT_MOST("LIT-10", "p = s - theta on the support, s <= theta off it", sparsemax_threshold,
            1e-14),
    AT_MOST("LIT-11", "golden weights of entmax 1.5", golden_entmax, 1e-14),
    AT_MOST("LIT-11", "(alpha-1) s - p^(alpha-1) is one number on the support", entmax_threshold,
            1e-12),
    AT_MOST("LIT-11", "entmax 1.001 against softmax", entmax_near_softmax, 5e-4),
    PRINTED_AT_MOST("LIT-11", "a freely chosen constant gives the same weights (E22)",
                    entmax_free_constant, 1e-12),
    AT_MOST("LIT-12", "distance cost gamma is an ALiBi slope gamma/tau", alibi_by_slope, 1e-14, 10),
    PRINTED_AT_MOST("LIT-12", "distance cost gamma is an ALiBi slope gamma (E26)", alibi_by_gamma,
                    1e-14, 10),
    AT_MOST("LIT-13",
            "Table 1, ALiBi too: regulariser, support, entropy, mean distance by formulas",
            comparison_table, 1e-12),
    AT_MOST("TOT-01", "optimal value is sum_i (alpha_i - tau)", dual_value, 1e-13, 20),
    AT_MOST("TOT-01", "stationarity on every pair of Q, K, C = -Q K^T", attention_stationarity,
            1e-12, 30),
    AT_MOST("TOT-02", "rows carry mu, and P/mu is softmax", source_marginal, 4e-15),
    AT_MOST("TOT-03", "rows renormalise on the support", masked_rows, 1e-14, 10),
    AT_MOST("TOT-03", "weight outside the support, and miscounted empty rows", weight_outside_mask,
            0.0),
    AT_MOST("TOT-04", "largest residual of the KKT system", full_kkt, 1e-12, 20),
    AT_MOST("TOT-05", "alpha = tau (log mu - log-sum-exp) rebuilds the plan", row_duals, 1e-13),
    AT_MOST("TOT-06", "row shifts of the cost move the plan by", row_shift_of_plan, 1e-15, 20),
    AT_MOST("TOT-06", "... and alpha by exactly the shift", row_shift_of_dual, 1e-12),
    AT_MOST("TOT-09", "different bits when S and tau are both times 8", powers_of_two, 0.0),
    AT_MOST("TOT-09", "only tau = T eps counts", temperature_times_epsilon, 2e-15),
    AT_MOST("TOT-10", "the two entropy conventions differ by tau mass", entropy_conventions, 1e-13),
    AT_MOST("TOT-11", "receiver distribution of example C.4", effective_target, 1e-6),
    AT_MOST("TOT-11", "receiver distribution sums to 1", effective_target_sum, 1e-15),
    AT_MOST("ELA-02", "case 1, given costs: exp(-C/eps) over its row, relative over u (8 + 60/eps)",
            cost_weights, 1.0, 20),
    AT_MOST("ELA-02", "different bits between costs C and scores -C", cost_is_minus_score, 0.0, 12),
};
CHECK_GROUP(statement_checks_rows, table);
