/* The plans, outputs and gradients of the other groups once more where fast kernels compute them: queries, keys and values
 * in f32, sizes above a block and no multiple of a vector. Q [N][D], K [M][D], V [M][E], S = Q K^T / sqrt(D), P [N][M],
 * S and every formula in f64 by loops. A weight is good to u (8 + 4 B / tau), B = max_ij sum_k |q_ik k_jk| / sqrt(D), as
 * tests/support/tolerance.h has it; `unit` is that. Groups whose checks call no kernel of plans (formulas of distributions,
 * layers, models) have no such variant. */
#include "statements/couplings/blocked.h"

static float *floats(trial *t, int64_t count, double deviation) {
    float *x = take(t, (size_t)count * sizeof *x);
    for (int64_t k = 0; k < count; k++) x[k] = (float)(deviation * normal(t));
    return x;
}

blocked *statement_blocked_head(trial *t, double tau) {
    blocked *b = take(t, sizeof *b);
    double size = 0.0;
    b->q = floats(t, N * D, 1.0);
    b->k = floats(t, M * D, 1.0);
    b->v = floats(t, M * E, 1.0);
    b->out_grad = floats(t, N * E, 1.0);
    b->out = take(t, N * E * sizeof(float));
    b->q_grad = take(t, N * D * sizeof(float));
    b->k_grad = take(t, M * D * sizeof(float));
    b->v_grad = take(t, M * E * sizeof(float));
    b->s = numbers(t, (int64_t)N * M);
    b->p = numbers(t, (int64_t)N * M);
    b->columns = numbers(t, M);
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < M; j++) {
            double sum = 0.0, terms = 0.0;
            for (int k = 0; k < D; k++) {
                const double x = (double)b->q[i * D + k] * b->k[j * D + k];
                sum += x;
                terms += fabs(x);
            }
            b->s[i * M + j] = sum / sqrt(D);
            size = fmax(size, terms / sqrt(D));
        }
    }
    b->unit = FLOAT_ROUNDOFF * (8.0 + 4.0 * size / tau);
    b->problem = (ota_problem){.size = sizeof b->problem, .temperature = tau};
    b->problem.queries = ota_array_of(b->q, OTA_F32, 1, 1, N, D);
    b->problem.keys = ota_array_of(b->k, OTA_F32, 1, 1, M, D);
    b->options = (ota_options){.size = sizeof b->options, .threads = 1, .tolerance = 1e-6};
    return b;
}

blocked *statement_blocked_run(trial *t, blocked *b, const char *method, bool pull) {
    ota_plan *plan = NULL;
    ota_arrays arrays = {.size = sizeof arrays};
    ota_gradients want = {.size = sizeof want};
    if (method != NULL && ota_method_parse(method, &b->problem, &b->options, NULL) < 0) return NULL;
    b->options.gradients = pull;
    arrays.values = ota_array_of(b->v, OTA_F32, 1, 1, M, E);
    arrays.out = ota_array_of(b->out, OTA_F32, 1, 1, N, E);
    arrays.coupling = ota_array_of(b->p, OTA_F64, 1, 1, N, M);
    arrays.row_potential = ota_array_of(b->f, OTA_F64, 1, 1, 1, N);
    arrays.lse = ota_array_of(b->lse, OTA_F64, 1, 1, 1, N);
    arrays.column_potential = ota_array_of(b->g, OTA_F64, 1, 1, 1, M);
    want.out_grad = ota_array_of(b->out_grad, OTA_F32, 1, 1, N, E);
    want.queries = ota_array_of(b->q_grad, OTA_F32, 1, 1, N, D);
    want.keys = ota_array_of(b->k_grad, OTA_F32, 1, 1, M, D);
    want.values = ota_array_of(b->v_grad, OTA_F32, 1, 1, M, E);
    ota_status status = ota_plan_create(&plan, &b->problem, E, &b->options, NULL);
    if (status == OTA_OK) status = ota_forward(plan, &arrays, NULL, NULL);
    if (status >= OTA_OK && pull) status = ota_backward(plan, &arrays, &want, NULL, NULL);
    ota_plan_free(plan);
    if (status < OTA_OK) return NULL;
    if (!pull) seen(t, b->p, (int64_t)N * M);
    for (int j = 0; j < M; j++) {
        b->columns[j] = 0.0;
        for (int i = 0; i < N; i++) b->columns[j] += b->p[i * M + j] * (double)M / (double)N;
    }
    return b;
}

/* ---- rows ---- */

double statement_blocked_softmax_errors(const blocked *b, double tau) {
    double formula[M], most = 0.0;
    for (int i = 0; i < N; i++) {
        softmax_formula(b->s + (int64_t)i * M, M, tau, formula);
        for (int j = 0; j < M; j++)
            most = worse(most, fabs(b->p[i * M + j] / formula[j] - 1.0) / b->unit);
    }
    return most;
}

static double softmax_weights(trial *t) {
    const double tau = between(t, 0.5, 2.0);
    blocked *b = statement_blocked_run(t, statement_blocked_head(t, tau), "softmax", false);
    return b == NULL ? NAN : statement_blocked_softmax_errors(b, tau);
}

/* The same with queries and keys in f64, whose kernels are others: `unit` is then that of f64. S of the formula is off by the
 * rounding of sums of D products in f64 itself, which the 4 B / tau of `unit` covers. */
static double softmax_weights_wide(trial *t) {
    const double tau = between(t, 0.5, 2.0);
    blocked *b = statement_blocked_head(t, tau);
    double *q = numbers(t, N * D), *k = numbers(t, M * D);
    for (int at = 0; at < N * D; at++) q[at] = (double)b->q[at];
    for (int at = 0; at < M * D; at++) k[at] = (double)b->k[at];
    b->problem.queries = ota_array_of(q, OTA_F64, 1, 1, N, D);
    b->problem.keys = ota_array_of(k, OTA_F64, 1, 1, M, D);
    b->unit *= ROUNDOFF / FLOAT_ROUNDOFF;
    return statement_blocked_run(t, b, "softmax", false) == NULL
               ? NAN
               : statement_blocked_softmax_errors(b, tau);
}

/* The log-sum-exp that the library returns beside the weights: its absolute error is at most the relative one of a sum of
 * weights. */
static double row_lse(trial *t) {
    double most = 0.0;
    const double tau = between(t, 0.5, 2.0);
    blocked *b = statement_blocked_run(t, statement_blocked_head(t, tau), "softmax", false);
    if (b == NULL) return NAN;
    for (int i = 0; i < N; i++) {
        const double formula = log_sum_exp(b->s + (int64_t)i * M, M, tau);
        most = worse(most, fabs(b->lse[i] - formula) / b->unit);
    }
    return seen_too(t, most);
}

/* p_j = max(0, (alpha - 1) s_j - x)^(1 / (alpha - 1)) of the sum 1, by bisection. */
void statement_entmax_formula(const double *s, double alpha, double *p) {
    double low = (alpha - 1.0) * largest_of(s, M) - 1.0, high = low + 1.0;
    for (int step = 0; step < 80; step++) {
        const double x = 0.5 * (low + high);
        double sum = 0.0;
        for (int j = 0; j < M; j++)
            sum += p[j] = pow(fmax(0.0, (alpha - 1.0) * s[j] - x), 1.0 / (alpha - 1.0));
        *(sum > 1.0 ? &low : &high) = x;
    }
}

/* A score that is off by e moves a weight of these by 2 e at most. */
static double sparse_weights(trial *t) {
    double formula[M], most = 0.0;
    const bool half = t->draw % 2 == 0;
    blocked *b = statement_blocked_run(t, statement_blocked_head(t, 1.0),
                                       half ? "entmax:1.5" : "sparsemax", false);
    if (b == NULL) return NAN;
    for (int i = 0; i < N; i++) {
        statement_entmax_formula(b->s + (int64_t)i * M, half ? 1.5 : 2.0, formula);
        most = worse(most, farthest(b->p + (int64_t)i * M, formula, M) / (2.0 * b->unit));
    }
    return most;
}

static double alibi_weights(trial *t) {
    double formula[M], biased[M], most = 0.0;
    const double slope = between(t, 0.01, 0.5);
    blocked *b = statement_blocked_head(t, 1.0);
    b->term = (ota_term){.kind = OTA_TERM_ALIBI, .value = slope};
    b->problem.terms = &b->term;
    b->problem.term_count = 1;
    if (statement_blocked_run(t, b, "softmax", false) == NULL) return NAN;
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < M; j++) biased[j] = b->s[i * M + j] - slope * abs(i - j);
        softmax_formula(biased, M, 1.0, formula);
        for (int j = 0; j < M; j++)
            most = worse(most, fabs(b->p[i * M + j] - formula[j]) / b->unit);
    }
    return most;
}

/* Causal and a window of 40 keys back, together: what is outside must be 0, what is inside the formula's. */
static double masked_weights(trial *t) {
    double formula[M], most = 0.0;
    blocked *b = statement_blocked_head(t, 1.0);
    b->supports[0] = (ota_support){.kind = OTA_SUPPORT_CAUSAL};
    b->supports[1] = (ota_support){.kind = OTA_SUPPORT_WINDOW, .left = 40, .right = 3};
    b->problem.corner = OTA_TOP_LEFT;
    b->problem.supports = b->supports;
    b->problem.support_count = 2;
    if (statement_blocked_run(t, b, "softmax", false) == NULL) return NAN;
    for (int i = 0; i < N; i++) {
        const int first = i < 40 ? 0 : i - 40;
        softmax_formula(b->s + (int64_t)i * M + first, i + 1 - first, 1.0, formula);
        for (int j = 0; j < M; j++) {
            const double p = b->p[i * M + j];
            const bool inside = j >= first && j <= i;
            most = worse(most, inside ? fabs(p - formula[j - first]) / b->unit : p / DBL_MIN);
        }
    }
    return most;
}

/* ---- columns ---- */

/* How far log P - S / tau is from f_i + g_j: the largest residual without row and column means. */
static double not_additive(trial *t, const blocked *b, double tau, double *g) {
    double *x = numbers(t, (int64_t)N * M), mean = 0.0, most = 0.0, f[N] = {0.0};
    for (int j = 0; j < M; j++) g[j] = 0.0;
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < M; j++) {
            x[i * M + j] = log(b->p[i * M + j]) - b->s[i * M + j] / tau;
            f[i] += x[i * M + j] / (double)M;
            g[j] += x[i * M + j] / (double)N;
            mean += x[i * M + j] / ((double)N * (double)M);
        }
    }
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < M; j++) most = worse(most, fabs(x[i * M + j] - f[i] - g[j] + mean));
    }
    return most;
}

static double exact_form(trial *t) {
    double g[M];
    const double tau = between(t, 0.5, 2.0);
    blocked *b = statement_blocked_run(t, statement_blocked_head(t, tau), "softmax/exact", false);
    return b == NULL ? NAN : not_additive(t, b, tau, g) / b->unit;
}

/* ||P^T 1 - nu||_1 and ||P 1 - mu||_1 over the mass of all rows: the errors that the tolerance is on. */
static double exact_columns(trial *t) {
    double columns = 0.0, rows = 0.0;
    blocked *b = statement_blocked_run(t, statement_blocked_head(t, 1.0), "softmax/exact", false);
    if (b == NULL) return NAN;
    for (int j = 0; j < M; j++) columns += fabs(b->columns[j] - 1.0) / (double)M;
    for (int i = 0; i < N; i++) rows += fabs(sum_of(b->p + (int64_t)i * M, M) - 1.0) / (double)N;
    return worse(columns, rows);
}

/* Means over tokens of P V and V, and P V itself against f64 loops over this P. */
static double exact_outputs(trial *t) {
    double most = 0.0;
    blocked *b = statement_blocked_run(t, statement_blocked_head(t, 1.0), "softmax/exact", false);
    if (b == NULL) return NAN;
    for (int e = 0; e < E; e++) {
        double before = 0.0, after = 0.0;
        for (int j = 0; j < M; j++) before += (double)b->v[j * E + e] / (double)M;
        for (int i = 0; i < N; i++) {
            double sum = 0.0;
            for (int j = 0; j < M; j++) sum += b->p[i * M + j] * b->v[j * E + e];
            after += (double)b->out[i * E + e] / (double)N;
            most = worse(most, fabs(sum - (double)b->out[i * E + e]));
        }
        most = worse(most, fabs(after - before));
    }
    return most;
}

/* elastic:0.5,4 by loops. */
static double elastic_weights(trial *t) {
    double *p = numbers(t, (int64_t)N * M), g[M] = {0.0}, row[M], most = 0.0;
    blocked *b = statement_blocked_run(t, statement_blocked_head(t, 1.0), "elastic:0.5,4", false);
    if (b == NULL) return NAN;
    for (int round = 0; round <= 4; round++) {
        double column[M] = {0.0};
        for (int i = 0; i < N; i++) {
            for (int j = 0; j < M; j++) row[j] = b->s[i * M + j] + g[j];
            softmax_formula(row, M, 1.0, p + (int64_t)i * M);
            for (int j = 0; j < M; j++) column[j] += p[i * M + j] * (double)M / (double)N;
        }
        for (int j = 0; j < M && round < 4; j++) g[j] -= 0.5 * log(column[j]);
    }
    for (int64_t k = 0; k < (int64_t)N * M; k++)
        most = worse(most, fabs(b->p[k] / p[k] - 1.0) / b->unit);
    return most;
}

/* tau g_j + rho log c_j is one number, what the form is off included. */
static double relaxed_columns(trial *t) {
    double g[M];
    blocked *b =
        statement_blocked_run(t, statement_blocked_head(t, 1.0), "softmax/relaxed:0.7", false);
    if (b == NULL) return NAN;
    const double off = not_additive(t, b, 1.0, g);
    for (int j = 0; j < M; j++) g[j] += 0.7 * log(b->columns[j]);
    return worse(off, spread_of(g, M));
}

/* No column above the cap; those below it have one g, and no smaller one than the others. */
static double capped_columns(trial *t) {
    double g[M], highest = -HUGE_VAL, lowest = HUGE_VAL, full = -HUGE_VAL, most = 0.0;
    blocked *b =
        statement_blocked_run(t, statement_blocked_head(t, 1.0), "softmax/capped:0.9", false);
    if (b == NULL) return NAN;
    /* Caps are in units of one query; columns[] are in shares N / M. */
    const double limit = 0.9 * (double)M / (double)N;
    most = worse(most, not_additive(t, b, 1.0, g));
    for (int j = 0; j < M; j++) {
        most = worse(most, b->columns[j] - limit);
        if (b->columns[j] < limit * (1.0 - 1e-4)) {
            highest = fmax(highest, g[j]);
            lowest = fmin(lowest, g[j]);
        } else {
            full = fmax(full, g[j]);
        }
    }
    most = worse(most, highest - lowest);
    return full > -HUGE_VAL ? worse(most, full - lowest) : NAN;
}

/* ---- gradients ---- */

/* dL/dS of softmax (columns 0) or exact columns for U = dL/dP by sweeps over a and b, then dQ, dK, dV: largest
 * error over the largest entry of each. */
double statement_blocked_gradients(trial *t, blocked *b, const char *method, bool columns) {
    double *u = numbers(t, (int64_t)N * M), *ds = numbers(t, (int64_t)N * M), a[N] = {0.0},
           c[M] = {0.0}, most = 0.0;
    if (statement_blocked_run(t, b, method, true) == NULL) return NAN;
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < M; j++) {
            for (int e = 0; e < E; e++)
                u[i * M + j] += (double)b->out_grad[i * E + e] * b->v[j * E + e];
        }
    }
    for (int sweep = 0; sweep < (columns ? 200 : 1); sweep++) {
        double over[M] = {0.0};
        for (int i = 0; i < N; i++) {
            a[i] = 0.0;
            for (int j = 0; j < M; j++) a[i] += b->p[i * M + j] * (u[i * M + j] - c[j]);
            for (int j = 0; j < M; j++)
                over[j] += b->p[i * M + j] * (u[i * M + j] - a[i]) * (double)M / (double)N;
        }
        for (int j = 0; j < M && columns; j++) c[j] = over[j] / b->columns[j];
    }
    for (int i = 0; i < N; i++) {
        a[i] = 0.0;
        for (int j = 0; j < M; j++) a[i] += b->p[i * M + j] * (u[i * M + j] - c[j]);
        for (int j = 0; j < M; j++)
            ds[i * M + j] = b->p[i * M + j] * (u[i * M + j] - a[i] - c[j]) / sqrt(D);
    }
    double largest[3] = {0.0}, off[3] = {0.0};
    for (int k = 0; k < D; k++) {
        for (int i = 0; i < N; i++) {
            double sum = 0.0;
            for (int j = 0; j < M; j++) sum += ds[i * M + j] * b->k[j * D + k];
            largest[0] = fmax(largest[0], fabs(sum));
            off[0] = worse(off[0], fabs(sum - (double)b->q_grad[i * D + k]));
        }
        for (int j = 0; j < M; j++) {
            double sum = 0.0;
            for (int i = 0; i < N; i++) sum += ds[i * M + j] * b->q[i * D + k];
            largest[1] = fmax(largest[1], fabs(sum));
            off[1] = worse(off[1], fabs(sum - (double)b->k_grad[j * D + k]));
        }
    }
    for (int j = 0; j < M; j++) {
        for (int e = 0; e < E; e++) {
            double sum = 0.0;
            for (int i = 0; i < N; i++) sum += b->p[i * M + j] * b->out_grad[i * E + e];
            largest[2] = fmax(largest[2], fabs(sum));
            off[2] = worse(off[2], fabs(sum - (double)b->v_grad[j * E + e]));
        }
    }
    for (int k = 0; k < 3; k++) most = worse(most, off[k] / largest[k]);
    return seen_too(t, most / b->unit);
}

static double softmax_gradients(trial *t) {
    return statement_blocked_gradients(t, statement_blocked_head(t, 1.0), "softmax", false);
}
static double exact_gradients(trial *t) {
    return statement_blocked_gradients(t, statement_blocked_head(t, 1.0), "softmax/exact", true);
}

static const statement_check table[] = {
    AT_MOST("LIT-01", "f32, 97 x 131: weights, relative, over u (8 + 4 B / tau)", softmax_weights,
            1.0, 3),
    AT_MOST("LIT-01", "f64, 97 x 131: weights, relative, over u (8 + 4 B / tau)",
            softmax_weights_wide, 1.0, 3),
    AT_MOST("LIT-02", "f32, 97 x 131: lse of every row over u (8 + 4 B / tau)", row_lse, 1.0, 3),
    AT_MOST("LIT-14", "f32, 97 x 131: sparsemax, entmax:1.5, over 2 u (8 + 4 B)", sparse_weights,
            1.0, 4),
    AT_MOST("LIT-12", "f32, 97 x 131: ALiBi weights over u (8 + 4 B)", alibi_weights, 1.0, 2),
    AT_MOST("TOT-48", "f32, 97 x 131: causal and a window, over u (8 + 4 B); outside 0",
            masked_weights, 1.0, 2),
    AT_MOST("CETA-08", "f32, 97 x 131: log P - S/tau less f + g, over u (8 + 4 B / tau)",
            exact_form, 1.0, 3),
    AT_MOST("CETA-06", "f32, 97 x 131: sums of rows and columns at tolerance 1e-6", exact_columns,
            1e-6, 2),
    AT_MOST("DER-03", "f32, 97 x 131: P V by loops, and its mean against that of V", exact_outputs,
            1e-6, 2),
    AT_MOST("ELA-09", "f32, 97 x 131: four elastic rounds, relative, over u (8 + 4 B)",
            elastic_weights, 1.0, 2),
    AT_MOST("DER-01", "f32, 97 x 131: tau g + rho log c is one number", relaxed_columns, 5e-5, 2),
    AT_MOST("DER-02", "f32, 97 x 131: caps kept, prices only on keys at one", capped_columns, 5e-5,
            2),
    AT_MOST("LIT-21", "f32, 97 x 131: dQ, dK, dV of softmax, relative, over u (8 + 4 B)",
            softmax_gradients, 1.0, 2),
    AT_MOST("DER-13", "f32, 97 x 131: dQ, dK, dV of exact columns, relative, over u (8 + 4 B)",
            exact_gradients, 1.0, 2),
};
CHECK_GROUP(statement_checks_blocked, table);
