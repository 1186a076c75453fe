/* Caps of single weights, P_ij <= c_ij, beyond the requirements: their laws measured on what ships. S, P, c [n][m], f [n],
 * g [m], tau = 1:
 *
 *     rows       softmax p_j = min(c, lambda e^(s_j)),  lambda = (mu - k c) / (sum of e^(s_j) but for the k best keys)
 *     duality    sum <C, P> + R(P) = sum_i mu_i f_i + sum_j nu_j g_j + sum_ij min over 0 <= p <= c of R(p) - p y_ij,
 *                y = S + f_i + g_j,  R(p) = p (log p - 1) or p^alpha / (alpha (alpha - 1))
 *     hard       k best keys where caps are 1; with coupled columns the best of all plans in whole units, of which one is
 *                best among all plans where masses and caps are whole */
#include "statements/check.h"

enum { N = 5, M = 12 };

static void cap_all(trial *t, head *h, double low, double high) {
    double *caps = uniforms(t, h->n * h->m, low, high);
    h->problem.entry_caps = ota_array_of(caps, OTA_F64, 1, 1, h->n, h->m);
}

static double cap_of(const head *h, int64_t i, int64_t j) {
    return h->problem.entry_cap > 0.0 ? h->problem.entry_cap
                                      : ((const double *)h->problem.entry_caps.data)[i * h->m + j];
}

/* ---- caps and row sums ---- */

static const char *const methods[] = {"softmax",
                                      "entmax:1.5",
                                      "sparsemax",
                                      "hard",
                                      "softmax/exact",
                                      "entmax:1.5/exact",
                                      "hard/exact",
                                      "softmax/capped:0.5",
                                      "entmax:1.5/bounded:0.8,1.2",
                                      "hard/capped:0.5",
                                      "hard/bounded:0.8,1.2",
                                      "sparsemax/relaxed:0.7",
                                      "softmax/online:0.6",
                                      "hard/online:0.6",
                                      "entmax:1.5/prefix"};
/* Rows in order, the last ones, have no dual. */
enum { METHODS = (int)(sizeof methods / sizeof methods[0]), DUALS = METHODS - 3 };

static head *capped_plan(trial *t, int count) {
    head *h = statement_head(t, N, M, scores_of(t, N, M, t->draw % CHARACTERS));
    cap_all(t, h, 0.15, 0.4);
    statement_solve(t, h, methods[t->draw % count], 1.0, 1e-12);
    return h;
}

static double excess_over_caps(trial *t) {
    const head *h = capped_plan(t, METHODS);
    double most = -HUGE_VAL;
    for (int64_t k = 0; k < N * M; k++) most = worse(most, h->p[k] - cap_of(h, k / M, k % M));
    return most;
}

static double row_sums_are_masses(trial *t) {
    const head *h = capped_plan(t, METHODS);
    double most = 0.0;
    for (int64_t i = 0; i < N; i++) most = worse(most, fabs(h->rows[i] - 1.0));
    return most;
}

/* ---- rows ---- */

/* p [m] of softmax rows from its sorted exponentials e [m], best first. */
static double level_of(const double *e, int64_t m, double mu, double cap) {
    for (int64_t full = 0; full < m; full++) {
        const double level = (mu - (double)full * cap) / sum_of(e + full, m - full);
        if (level * e[full] <= cap) return level;
    }
    return NAN;
}

static int descending(const void *a, const void *b) { return ascending(b, a); }

static double rows_by_level(trial *t) {
    double *s = scores_of(t, N, M, t->draw % CHARACTERS), *e = numbers(t, M), most = 0.0;
    head *h = statement_head(t, N, M, s);
    h->row_mass = uniforms(t, N, 0.5, 2.0);
    h->problem.entry_cap = 0.22;
    statement_solve(t, h, "softmax", 1.0, 0.0);
    for (int64_t i = 0; i < N; i++) {
        for (int64_t j = 0; j < M; j++) e[j] = exp(s[i * M + j]);
        qsort(e, M, sizeof *e, descending);
        const double level = level_of(e, M, h->row_mass[i], 0.22);
        for (int64_t j = 0; j < M; j++)
            most = worse(most, fabs(h->p[i * M + j] - fmin(0.22, level * exp(s[i * M + j]))));
    }
    return most;
}

/* f32, where whole vectors work: the same law. */
static double narrow_rows_by_level(trial *t) {
    enum { ROWS = 7, KEYS = 131 };
    float *s = take(t, ROWS * KEYS * sizeof *s), *p = take(t, ROWS * KEYS * sizeof *p);
    double *e = numbers(t, KEYS), *wide = numbers(t, ROWS * KEYS), most = 0.0;
    for (int64_t k = 0; k < (int64_t)ROWS * KEYS; k++) s[k] = (float)(2.0 * normal(t));
    ota_problem problem = {.size = sizeof problem, .entry_cap = 0.03};
    problem.scores = ota_array_of(s, OTA_F32, 1, 1, ROWS, KEYS);
    const ota_options options = {.size = sizeof options, .threads = 1};
    ota_arrays arrays = {.size = sizeof arrays};
    arrays.coupling = ota_array_of(p, OTA_F32, 1, 1, ROWS, KEYS);
    const bool solved = ota_attend(&problem, &options, &arrays, NULL, NULL) >= 0;
    for (int64_t k = 0; k < (int64_t)ROWS * KEYS; k++) wide[k] = solved ? (double)p[k] : NAN;
    (void)seen(t, wide, ROWS * KEYS);
    for (int64_t i = 0; i < ROWS; i++) {
        const float *row = s + i * KEYS;
        for (int64_t j = 0; j < KEYS; j++) e[j] = exp((double)row[j]);
        qsort(e, KEYS, sizeof *e, descending);
        const double level = level_of(e, KEYS, 1.0, 0.03);
        for (int64_t j = 0; j < KEYS; j++)
            most = worse(most, fabs(wide[i * KEYS + j] - fmin(0.03, level * exp((double)row[j]))));
    }
    return most;
}

/* ---- duality ---- */

static const struct {
    const char *method;
    double order; /* 1: softmax */
} dual_methods[] = {{"softmax/exact", 1.0}, {"entmax:1.5/exact", 1.5}, {"sparsemax/exact", 2.0},
                    {"softmax", 1.0},       {"entmax:1.5", 1.5},       {"entmax:3", 3.0}};
enum { DUAL_METHODS = (int)(sizeof dual_methods / sizeof dual_methods[0]) };

static double regulariser_at(double p, double order) {
    if (!(p > 0.0)) return 0.0;
    return order > 1.0 ? pow(p, order) / (order * (order - 1.0)) : p * (log(p) - 1.0);
}

/* The p where R(p) - p y is least. */
static double weight_at(double y, double order) {
    if (!(order > 1.0)) return exp(y);
    return y > 0.0 ? pow((order - 1.0) * y, 1.0 / (order - 1.0)) : 0.0;
}

static double distance_of_dual(trial *t) {
    const double order = dual_methods[t->draw % DUAL_METHODS].order;
    double *s = scores_of(t, N, M, t->draw % CHARACTERS), primal = 0.0, dual = 0.0;
    head *h = statement_head(t, N, M, s);
    cap_all(t, h, 0.12, 0.4);
    statement_solve(t, h, dual_methods[t->draw % DUAL_METHODS].method, 1.0, 1e-12);
    const bool coupled = h->problem.columns == OTA_COLUMNS_EXACT;
    for (int64_t j = 0; j < M && coupled; j++) dual += h->g[j] * (double)N / (double)M;
    for (int64_t i = 0; i < N; i++) {
        dual += h->f[i];
        for (int64_t j = 0; j < M; j++) {
            const double p = h->p[i * M + j], x = s[i * M + j];
            const double y = x + h->f[i] + (coupled ? h->g[j] : 0.0);
            const double best = fmin(weight_at(y, order), cap_of(h, i, j));
            primal += regulariser_at(p, order) - p * x;
            dual += regulariser_at(best, order) - best * y;
        }
    }
    return fabs(primal - dual);
}

static double gap_of_certificate(trial *t) {
    const head *h = capped_plan(t, DUALS);
    return fabs(h->certificate.gap);
}

/* ---- hard rows ---- */

static double best_keys(trial *t) {
    const int64_t k = 1 + t->draw % 6;
    double *s = scores_of(t, N, M, t->draw % CHARACTERS), wrong = 0.0;
    head *h = statement_head(t, N, M, s);
    h->row_mass = numbers(t, N);
    for (int64_t i = 0; i < N; i++) h->row_mass[i] = (double)k;
    h->problem.entry_cap = 1.0;
    statement_solve(t, h, "hard", 0.0, 0.0);
    for (int64_t i = 0; i < N; i++) {
        for (int64_t j = 0; j < M; j++) {
            int64_t before = 0;
            for (int64_t other = 0; other < M; other++) {
                const double a = s[i * M + other], b = s[i * M + j];
                before += a > b || (!(a < b) && other < j);
            }
            wrong += h->p[i * M + j] != (before < k ? 1.0 : 0.0);
        }
    }
    return wrong;
}

/* ---- coupled hard plans ---- */

enum { ROWS = 3, KEYS = 4 };

/* Whole units: of a row's mass, of the caps, least and most of the columns' sums. */
typedef struct units {
    const double *s;
    int64_t row, least[KEYS], most[KEYS], cap[ROWS * KEYS], sum[KEYS];
} units;

/* The largest sum of S P over all plans of whole units, pairs from `at` on, of which this row has `left`. */
static double best_from(units *u, int64_t at, int64_t left) {
    const int64_t j = at % KEYS;
    double best = -HUGE_VAL;
    if (at == (int64_t)ROWS * KEYS) {
        for (int64_t k = 0; k < KEYS; k++) {
            if (u->sum[k] < u->least[k]) return -HUGE_VAL;
        }
        return 0.0;
    }
    for (int64_t p = j == KEYS - 1 ? left : 0; p <= left && p <= u->cap[at]; p++) {
        if (u->sum[j] + p > u->most[j]) break;
        u->sum[j] += p;
        const double rest = best_from(u, at + 1, j == KEYS - 1 ? u->row : left - p);
        best = fmax(best, rest + (double)p * u->s[at]);
        u->sum[j] -= p;
    }
    return best;
}

/* Rows of four halves, caps of one or two; keys take `least` to `most` halves. */
static double distance_from_best(trial *t, const char *method, int64_t least, int64_t most) {
    double *s = scores_of(t, ROWS, KEYS, t->draw % CHARACTERS);
    double *caps = numbers(t, ROWS * KEYS);
    units u = {.s = s, .row = 4};
    for (int64_t j = 0; j < KEYS; j++) {
        u.least[j] = least;
        u.most[j] = most;
    }
    for (int64_t k = 0; k < (int64_t)ROWS * KEYS; k++) {
        u.cap[k] = 1 + below(t, 2);
        caps[k] = 0.5 * (double)u.cap[k];
    }
    head *h = statement_head(t, ROWS, KEYS, s);
    h->row_mass = numbers(t, ROWS);
    for (int64_t i = 0; i < ROWS; i++) h->row_mass[i] = 2.0;
    h->problem.entry_caps = ota_array_of(caps, OTA_F64, 1, 1, ROWS, KEYS);
    statement_solve(t, h, method, 0.0, 0.0);
    const double best = 0.5 * best_from(&u, 0, u.row);
    /* No plan at all: then the library must say so. */
    if (!(best > -HUGE_VAL)) return h->status == OTA_INFEASIBLE ? 0.0 : HUGE_VAL;
    return fabs(best - dot(s, h->p, (int64_t)ROWS * KEYS));
}

static double exact_plans(trial *t) { return distance_from_best(t, "hard/exact", 3, 3); }

static double capped_columns(trial *t) { return distance_from_best(t, "hard/capped:2", 0, 4); }

/* Of a mean of three halves. */
static double bounded_columns(trial *t) {
    return worse(distance_from_best(t, "hard/bounded:0.6666666666666666,1.3333333333333333", 2, 4),
                 distance_from_best(t, "hard/bounded:0.6666666666666666,1.6666666666666667", 2, 5));
}

static const statement_check checks[] = {
    AT_MOST("CAP-01", "no weight of fifteen methods exceeds its cap", excess_over_caps, 1e-12,
            2 * METHODS),
    AT_MOST("CAP-01", "rows of fifteen methods with entry caps add up to their masses",
            row_sums_are_masses, 1e-11, 2 * METHODS),
    AT_MOST("CAP-02", "softmax rows with caps are min(c, lambda e^s), lambda from the sorted keys",
            rows_by_level, 64.0 * ROUNDOFF, 24),
    AT_MOST("CAP-02", "the same in f32 on 131 keys", narrow_rows_by_level, 0x1p-22, 3),
    AT_MOST("CAP-03", "the dual whose pairs end at their caps equals the primal", distance_of_dual,
            1e-10, 4 * DUAL_METHODS),
    AT_MOST("CAP-03", "the certificate's gap of twelve methods with entry caps", gap_of_certificate,
            1e-9, 2 * DUALS),
    AT_MOST("CAP-04", "hard rows of mass k with caps of 1 are the k best keys", best_keys, 0.0, 24),
    AT_MOST("CAP-05", "hard/exact with entry caps is the best of all plans in whole units",
            exact_plans, 1e-12, 48),
    AT_MOST("CAP-05", "hard/capped with entry caps is the best of all plans in whole units",
            capped_columns, 1e-12, 48),
    AT_MOST("CAP-05", "hard/bounded with entry caps is the best of all plans in whole units",
            bounded_columns, 1e-12, 48),
};

EXTENSION_GROUP(statement_checks_entry_caps, checks);
