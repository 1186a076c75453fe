/* Transport at Hamming cost (group B) and the numerical rules of group I [TOT-15..18, TOT-105..112, DER-05,
 * DER-26..28]. p, q [V]; S, P [n][m]. */
#include "src/base/program/system_program.h"
#include "statements/check.h"

enum { N = 10, M = 10, VOCABULARY = 50257 };

/* ---- Hamming ---- */

static double hamming_matvec(trial *t) {
    enum { SIZE = 300 };
    double most = 0.0;
    for (int k = 0; k < 4; k++) {
        const double epsilon = between(t, 0.1, 2.0), alpha = exp(-1.0 / epsilon);
        double *x = distribution(t, SIZE, 1.0), *y = numbers(t, SIZE);
        ota_hamming_matvec(epsilon, x, y, SIZE);
        seen(t, y, SIZE);
        for (int i = 0; i < SIZE; i++) {
            long double sum = 0.0L;
            for (int j = 0; j < SIZE; j++) sum += (i == j ? 1.0 : alpha) * x[j];
            most = worse(most, fabs((double)sum - y[i]) / (double)sum);
        }
    }
    return most;
}

static ota_hamming_result hamming(trial *t, const double *p, const double *q, int64_t size,
                                  double epsilon, ota_hamming_solver solver, double *u, double *v) {
    ota_hamming_result result;
    if (ota_hamming(p, q, size, epsilon,
                    &(ota_hamming_options){.size = sizeof(ota_hamming_options),
                                           .solver = solver,
                                           .tolerance = 1e-10,
                                           .u = u,
                                           .v = v},
                    &result, NULL, NULL) < 0) {
        result.cost = result.objective = result.marginal_error = result.tv = NAN;
        result.rounds = 1000000;
    }
    result.cost = seen_number(t, result.cost);
    return result;
}

static double hamming_sinkhorn_rounds(trial *t) {
    double most = 0.0;
    for (int k = 0; k < 3; k++) {
        double *p = distribution(t, VOCABULARY, 1.0), *q = distribution(t, VOCABULARY, 1.0 + k);
        const ota_hamming_result r = hamming(t, p, q, VOCABULARY, 1.0, OTA_HAMMING_SINKHORN,
                                             numbers(t, VOCABULARY), numbers(t, VOCABULARY));
        most = worse(most, (double)r.rounds);
    }
    return most;
}

/* The dense problem by plain scaling; cost <P,C>. */
static double dense_cost(trial *t, const double *p, const double *q, int64_t size, double epsilon) {
    double *s = numbers(t, size * size), *plan = numbers(t, size * size), cost = 0.0;
    for (int64_t k = 0; k < size * size; k++) s[k] = k / size == k % size ? 1.0 : 0.0;
    statement_sinkhorn_formula(s, size, size, epsilon, p, q, 20000, plan);
    for (int64_t k = 0; k < size * size; k++) cost += k / size == k % size ? 0.0 : plan[k];
    return cost;
}

static double hamming_against_dense(trial *t, ota_hamming_solver solver) {
    enum { SIZE = 40 };
    double most = 0.0;
    for (int k = 0; k < 4; k++) {
        double *p = distribution(t, SIZE, 1.0), *q = distribution(t, SIZE, 1.0);
        const ota_hamming_result r =
            hamming(t, p, q, SIZE, 0.5, solver, numbers(t, SIZE), numbers(t, SIZE));
        most = worse(most, fabs(r.cost - dense_cost(t, p, q, SIZE, 0.5)));
    }
    return most;
}

static double sinkhorn_against_dense(trial *t) {
    return hamming_against_dense(t, OTA_HAMMING_SINKHORN);
}
static double newton_against_dense(trial *t) {
    return hamming_against_dense(t, OTA_HAMMING_NEWTON);
}

static double newton_steps(trial *t) {
    static const double epsilons[] = {2.0, 1.0, 0.1, 0.03, 0.01, 0.003};
    double most = 0.0;
    for (int k = 0; k < 6; k++) {
        double *p = distribution(t, VOCABULARY, 1.0 + k % 3), *q = distribution(t, VOCABULARY, 1.0);
        most = worse(
            most, (double)hamming(t, p, q, VOCABULARY, epsilons[k], OTA_HAMMING_NEWTON, NULL, NULL)
                      .rounds);
    }
    return most;
}

/* Rows and columns of diag(u) K diag(v), summed here. */
static double newton_marginals(trial *t) {
    double most = 0.0;
    static const double epsilons[] = {1.0, 0.1, 0.01};
    for (int k = 0; k < 3; k++) {
        const double alpha = exp(-1.0 / epsilons[k]);
        double *p = distribution(t, 2000, 2.0), *q = distribution(t, 2000, 1.0);
        double *u = numbers(t, 2000), *v = numbers(t, 2000), error = 0.0;
        (void)hamming(t, p, q, 2000, epsilons[k], OTA_HAMMING_NEWTON, u, v);
        if (k == 0) seen(t, u, 2000);
        const double s = sum_of(u, 2000), r = sum_of(v, 2000);
        for (int j = 0; j < 2000; j++) {
            error += fabs(u[j] * ((1.0 - alpha) * v[j] + alpha * r) - p[j]);
            error += fabs(v[j] * ((1.0 - alpha) * u[j] + alpha * s) - q[j]);
        }
        most = worse(most, error);
    }
    return most;
}

static double golden_p[3] = {0.5, 0.3, 0.2}, golden_q[3] = {0.2, 0.2, 0.6};

static double divergence_of(trial *t, const double *p, const double *q, int64_t size,
                            double epsilon) {
    ota_hamming_result result = {.divergence = NAN};
    (void)ota_hamming_divergence(p, q, size, epsilon, NULL, &result, NULL, NULL);
    return seen_number(t, result.divergence);
}

static double golden_divergence(trial *t) {
    return worse(fabs(divergence_of(t, golden_p, golden_q, 3, 1.0) - 0.151181438339136),
                 fabs(divergence_of(t, golden_p, golden_q, 3, 0.1) - 0.343290200737902));
}

static double divergence_cold(trial *t) {
    double *p = distribution(t, 50, 1.0), *q = distribution(t, 50, 1.0), tv = 0.0;
    for (int j = 0; j < 50; j++) tv += 0.5 * fabs(p[j] - q[j]);
    return fabs(divergence_of(t, p, q, 50, 0.002) - tv);
}

static double divergence_hot(trial *t) {
    double *p = distribution(t, 50, 1.0), *q = distribution(t, 50, 1.0), square = 0.0;
    for (int j = 0; j < 50; j++) square += 0.5 * (p[j] - q[j]) * (p[j] - q[j]);
    return fabs(divergence_of(t, p, q, 50, 1e4) / square - 1.0);
}

static double divergence_sign(trial *t) {
    double least = 0.0;
    for (int k = 0; k < 20; k++) {
        double *p = distribution(t, 30, 1.0), *q = distribution(t, 30, 1.0);
        least = fmin(least, divergence_of(t, p, q, 30, between(t, 0.05, 3.0)));
        least = fmin(least, -fabs(divergence_of(t, p, p, 30, 0.5)));
    }
    return least;
}

static double golden_cost(trial *t) {
    static const double costs[2] = {0.563437684163967, 0.400030257253938};
    double most = 0.0;
    for (int k = 0; k < 2; k++) {
        const ota_hamming_result r =
            hamming(t, golden_p, golden_q, 3, k == 0 ? 1.0 : 0.1, OTA_HAMMING_NEWTON, NULL, NULL);
        most = worse(most, fabs(r.cost - costs[k]));
    }
    return most;
}

static double cost_above_tv(trial *t) {
    double least = HUGE_VAL;
    for (int k = 0; k < 20; k++) {
        double *p = distribution(t, 200, 1.0), *q = distribution(t, 200, 1.0), tv = 0.0;
        for (int j = 0; j < 200; j++) tv += 0.5 * fabs(p[j] - q[j]);
        const ota_hamming_result r =
            hamming(t, p, q, 200, between(t, 0.05, 2.0), OTA_HAMMING_NEWTON, NULL, NULL);
        least = fmin(least, r.cost - tv);
    }
    return least;
}

static double equal_pairs_steps(trial *t) {
    double most = 0.0;
    static const double epsilons[] = {1.0, 0.1, 0.01, 0.003};
    for (int k = 0; k < 4; k++) {
        double *p = distribution(t, VOCABULARY, 1.0 + k);
        most = worse(
            most, (double)hamming(t, p, p, VOCABULARY, epsilons[k], OTA_HAMMING_NEWTON, NULL, NULL)
                      .rounds);
    }
    return most;
}

static double zero_temperature(trial *t) {
    double *p = distribution(t, 100, 1.0), *q = distribution(t, 100, 1.0), tv = 0.0;
    for (int j = 0; j < 100; j++) tv += 0.5 * fabs(p[j] - q[j]);
    const ota_hamming_result r = hamming(t, p, q, 100, 1.0 / 800.0, OTA_HAMMING_NEWTON, NULL, NULL);
    return fabs(r.cost - tv);
}

/* ---- group I ---- */

static head *far_head(trial *t, const char *solver, double range) {
    head *h = statement_head(t, N, M, uniforms(t, N * M, 0.0, range));
    h->options.rounds = 30;
    h->options.solver = solver;
    statement_solve(t, h, "softmax/exact", 1.0, 0.0);
    return h;
}

static double default_domain(trial *t) {
    double most = 0.0;
    head *h = far_head(t, "auto", 2000.0), *logs = far_head(t, "log", 2000.0);
    for (int i = 0; i < N; i++) {
        most = worse(most, fabs(h->rows[i] - 1.0));
        most = worse(most, fabs(logs->rows[i] - 1.0));
    }
    for (int j = 0; j < M; j++) most = worse(most, isfinite(h->g[j]) ? 0.0 : HUGE_VAL);
    return most;
}

static double log_domains_agree(trial *t) {
    double *s = normals(t, N * M, 1.0);
    head *h[2];
    for (int k = 0; k < 2; k++) {
        h[k] = statement_head(t, N, M, s);
        h[k]->options.solver = k == 0 ? "log" : "sinkhorn";
        statement_solve(t, h[k], "softmax/exact", 1.0, 1e-12);
    }
    return farthest(h[0]->p, h[1]->p, N * M);
}

static double *offset_scores(trial *t) {
    double *s = normals(t, N * M, 1.0), *a = normals(t, N, 5.0), *b = normals(t, M, 5.0);
    for (int k = 0; k < N * M; k++) s[k] += a[k / M] + b[k % M];
    return s;
}

static head *centred(trial *t, double *s, ota_center center) {
    head *h = statement_head(t, N, M, s);
    h->options.center = center;
    h->options.solver = "sinkhorn";
    h->options.rounds = 40;
    statement_solve(t, h, "softmax/exact", 1.0, 0.0);
    return h;
}

static double centring_moves_plan(trial *t) {
    double *s = offset_scores(t);
    head *plain = centred(t, s, OTA_CENTER_NONE);
    return worse(farthest(plain->p, centred(t, s, OTA_CENTER_MEAN)->p, N * M),
                 farthest(plain->p, centred(t, s, OTA_CENTER_MIDRANGE)->p, N * M));
}

/* What the printed advice promises: a smaller diameter, so faster convergence. */
static double centring_shrinks_diameter(trial *t) {
    double *s = offset_scores(t), *moved = copy_of(t, s, N * M), diameter[2];
    for (int i = 0; i < N; i++) {
        const double mean = sum_of(s + i * M, M) / (double)M;
        for (int j = 0; j < M; j++) moved[i * M + j] -= mean;
    }
    for (int k = 0; k < 2; k++) {
        ota_contraction contraction;
        if (ota_contraction_of(k == 0 ? s : moved, N, M, &contraction, NULL, NULL) < 0) return NAN;
        diameter[k] = contraction.diameter;
    }
    return diameter[0] - diameter[1];
}

/* f32 potentials cannot promise 1e-9: the plan says so or uses f64. */
static double narrow_types(trial *t) {
    float *s = take(t, N * M * sizeof *s);
    for (int k = 0; k < N * M; k++) s[k] = (float)normal(t);
    double column[M] = {0.0}, *p = numbers(t, N * M), most = 0.0;
    ota_problem problem = {.size = sizeof problem, .columns = OTA_COLUMNS_EXACT};
    problem.scores = ota_array_of(s, OTA_F32, 1, 1, N, M);
    ota_options options = {.size = sizeof options, .threads = 1, .tolerance = 1e-9};
    ota_arrays arrays = {.size = sizeof arrays};
    arrays.coupling = ota_array_of(p, OTA_F64, 1, 1, N, M);
    ota_result result = {.size = sizeof result};
    if (ota_attend(&problem, &options, &arrays, &result, NULL) != OTA_OK) return NAN;
    if (!result.promoted) return HUGE_VAL;
    seen(t, p, N * M);
    for (int k = 0; k < N * M; k++) column[k % M] += p[k];
    for (int j = 0; j < M; j++) most = worse(most, fabs(column[j] - 1.0));
    return most;
}

static double narrow_types_refused(trial *t) {
    float *s = take(t, N * M * sizeof *s);
    for (int k = 0; k < N * M; k++) s[k] = (float)normal(t);
    double *p = numbers(t, N * M);
    ota_problem problem = {.size = sizeof problem, .columns = OTA_COLUMNS_EXACT};
    problem.scores = ota_array_of(s, OTA_F32, 1, 1, N, M);
    ota_options options = {
        .size = sizeof options, .threads = 1, .tolerance = 1e-9, .precision = OTA_PRECISION_F32};
    ota_arrays arrays = {.size = sizeof arrays};
    arrays.coupling = ota_array_of(p, OTA_F64, 1, 1, N, M);
    return seen_fact(t, ota_attend(&problem, &options, &arrays, NULL, NULL) < 0);
}

/* Scores 2000 tau apart: weights are flushed to zero, and the support statistic counts those that are not. */
static double flushed_weights_counted(trial *t) {
    double most = 0.0, flushed = 0.0, *s = uniforms(t, N * M, 0.0, 2000.0);
    /* Multiples of 10, so that none stands where the least subnormal is, exp(-745.13). */
    for (int k = 0; k < N * M; k++) s[k] = 10.0 * rint(s[k] / 10.0);
    head *h = statement_plan(t, N, M, s, "softmax", 1.0, 0.0);
    for (int i = 0; i < N; i++) {
        double top = -HUGE_VAL, positive = 0.0;
        for (int j = 0; j < M; j++) top = fmax(top, s[i * M + j]);
        for (int j = 0; j < M; j++) positive += s[i * M + j] - top > -745.0;
        most = worse(most, fabs(h->support[i] - positive));
        flushed += (double)M - positive;
    }
    return flushed == 0.0 ? NAN : most;
}

/* Where exp(S / tau) would lose entries, rows or columns, the linear domain is not used: none is lost, and
 * no column vanishes. */
static double vanished_entries(trial *t) {
    head *h = far_head(t, "sinkhorn", 2000.0);
    double lost = seen_number(t, (double)h->result.underflowed);
    for (int j = 0; j < M; j++) lost += !isfinite(h->g[j]) || !(h->columns[j] > 0.0);
    return lost;
}

static double tail_masses(trial *t) {
    double most = 0.0;
    double *z = uniforms(t, 20, -1.0, 1.0);
    z[7] += 70.0;
    long double sum = 0.0L;
    for (int j = 0; j < 20; j++) sum += j == 7 ? 0.0L : expl((long double)z[j] - z[7]);
    ota_tail tail;
    if (ota_tail_of(z, OTA_F64, 20, 1.0, &tail, NULL, NULL) < 0) return NAN;
    const long double mass = sum / (1.0L + sum);
    most = worse(most, fabs((double)(tail.mass / mass - 1.0L)));
    most = worse(most, fabs(seen_number(t, tail.log_mass) - (double)logl(mass)));
    return most;
}

static double saturated_tv(trial *t) {
    double *z = uniforms(t, 20, -1.0, 1.0), *w = uniforms(t, 20, -1.0, 1.0);
    z[3] += 70.0;
    w[3] += 70.0;
    long double p = 0.0L, q = 0.0L, tv = 0.0L;
    for (int j = 0; j < 20; j++) {
        p += expl((long double)z[j] - z[3]);
        q += expl((long double)w[j] - w[3]);
    }
    for (int j = 0; j < 20; j++) {
        const long double a = expl((long double)z[j] - z[3]) / p,
                          b = expl((long double)w[j] - w[3]) / q;
        if (j != 3) tv += fmaxl(a - b, 0.0L);
    }
    /* Positive parts and negative parts of the whole differ by the loss at index 3. */
    long double down = 0.0L;
    for (int j = 0; j < 20; j++) {
        const long double a = expl((long double)z[j] - z[3]) / p,
                          b = expl((long double)w[j] - w[3]) / q;
        if (j != 3) down += fmaxl(b - a, 0.0L);
    }
    ota_divergence d;
    if (ota_divergence_of_logits(z, w, OTA_F64, 20, 1.0, &d, NULL, NULL) < 0) return NAN;
    const double want = (double)fmaxl(tv, down);
    return fabs(seen_number(t, d.tv / want) - 1.0);
}

static double bits_by_threads(trial *t, const char *const *methods, int count) {
    enum { QUERIES = 257, KEYS = 190, WIDTH = 16 };
    double different = 0.0, *q = normals(t, QUERIES * WIDTH, 1.0),
           *k = normals(t, KEYS * WIDTH, 1.0);
    for (int method = 0; method < count; method++) {
        head *one = statement_attention_head(t, QUERIES, KEYS, WIDTH, q, k);
        statement_solve(t, one, methods[method], 1.0, 1e-8);
        for (int threads = 2; threads <= 3; threads++) {
            head *more = statement_attention_head(t, QUERIES, KEYS, WIDTH, q, k);
            more->options.threads = threads;
            statement_solve(t, more, methods[method], 1.0, 1e-8);
            different += different_bits(one->p, more->p, QUERIES * KEYS);
        }
    }
    return different;
}

static double row_bits_by_threads(trial *t) {
    static const char *const methods[] = {"softmax", "entmax:1.5"};
    return bits_by_threads(t, methods, 2);
}

static double sum_bits_by_threads(trial *t) {
    static const char *const methods[] = {"softmax/exact", "softmax/relaxed:1"};
    return bits_by_threads(t, methods, 2);
}

/* Bytes of a softmax plan per key, n = m = 65536: nothing of size n m. */
static double streaming_memory(trial *t) {
    enum { LENGTH = 65536 };
    double *x = numbers(t, LENGTH);
    ota_problem problem = {.size = sizeof problem};
    problem.queries = problem.keys = ota_array_of(x, OTA_F64, 1, 1, LENGTH, 1);
    ota_options options = {.size = sizeof options, .threads = 1};
    ota_plan *plan = NULL;
    if (ota_plan_create(&plan, &problem, 1, &options, NULL) != OTA_OK) return NAN;
    const double bytes = (double)ota_plan_bytes(plan) / (double)LENGTH;
    ota_plan_free(plan);
    return seen_number(t, bytes);
}

/* What `work` on `size` keys adds to the resident memory, its arrays included, per key. */
static double resident_bytes(trial *t, int64_t size, bool (*work)(int64_t size)) {
    return seen_number(t, ota_resident_growth(work, size) / (double)size);
}

/* Outputs of softmax on keys of width 1; every value is 1, so every output is. */
static bool attend_streaming(int64_t size) {
    float *x = malloc((size_t)size * sizeof *x), *v = malloc((size_t)size * sizeof *v);
    float *out = malloc((size_t)size * sizeof *out);
    bool right = x != NULL && v != NULL && out != NULL;
    for (int64_t k = 0; right && k < size; k++) {
        x[k] = (float)(k % 17) / 8.0F;
        v[k] = 1.0F;
    }
    const ota_array keys = ota_array_of(x, OTA_F32, 1, 1, size, 1);
    const ota_problem problem = {.size = sizeof problem, .queries = keys, .keys = keys};
    const ota_options options = {.size = sizeof options, .threads = 1};
    const ota_arrays arrays = {.size = sizeof arrays,
                               .values = ota_array_of(v, OTA_F32, 1, 1, size, 1),
                               .out = ota_array_of(out, OTA_F32, 1, 1, size, 1)};
    right = right && ota_attend(&problem, &options, &arrays, NULL, NULL) == OTA_OK;
    for (int64_t k = 0; right && k < size; k++) right = fabsf(out[k] - 1.0F) < 1e-5F;
    free(x);
    free(v);
    free(out);
    return right;
}

static bool solve_hamming(int64_t size) {
    double *p = malloc((size_t)(4 * size) * sizeof *p), *q = p + size;
    ota_hamming_result result = {.rounds = 0};
    bool right = p != NULL;
    for (int64_t k = 0; right && k < size; k++) {
        p[k] = 1.0 / (double)size;
        q[k] = 2.0 * ((double)k + 0.5) / (double)size / (double)size;
    }
    for (int solver = 0; right && solver < 2; solver++) {
        right = ota_hamming(p, q, size, 0.5,
                            &(ota_hamming_options){.size = sizeof(ota_hamming_options),
                                                   .solver = solver == 0 ? OTA_HAMMING_NEWTON
                                                                         : OTA_HAMMING_SINKHORN,
                                                   .tolerance = 1e-8,
                                                   .u = q + size,
                                                   .v = q + 2 * size},
                            &result, NULL, NULL) >= 0;
    }
    free(p);
    return right && fabs(result.marginal_error) < 1e-6;
}

/* A matrix would be 32 KiB a key, or 2 MiB. */
static double resident_softmax(trial *t) { return resident_bytes(t, 8192, attend_streaming); }
static double resident_hamming(trial *t) { return resident_bytes(t, 262144, solve_hamming); }

static double rows_of_all_methods(trial *t) {
    static const char *const methods[] = {
        "softmax",    "softmax/exact", "relaxed:1", "capped:1.2",       "elastic:.5,4", "prefix",
        "online:1.5", "entmax:1.5",    "sparsemax", "entmax:1.5/exact", "hard/exact",   "hard"};
    double most = 0.0;
    for (int k = 0; k < 12; k++) {
        head *h = statement_head(t, N, M, normals(t, N * M, 1.0));
        if (strncmp(methods[k], "online", 6) == 0)
            statement_add_support(h, OTA_SUPPORT_CAUSAL, 0, 0);
        statement_solve(t, h, methods[k], 1.0, 0.0);
        for (int i = 0; i < N; i++) most = worse(most, fabs(h->rows[i] - 1.0));
    }
    return most;
}

/* mean(P V) - mean(V) = (c - 1)^T V / n for the columns c that were reached. */
static double reached_marginals(trial *t) {
    double most = 0.0;
    for (int rounds = 1; rounds < 5; rounds++) {
        head *h = statement_head(t, N, M, normals(t, N * M, 1.0));
        h->options.rounds = rounds;
        h->values = normals(t, M * 3, 1.0);
        h->values_width = 3;
        statement_solve(t, h, "softmax/exact", 0.3, 0.0);
        double *shift = numbers(t, 3);
        if (ota_mean_shift(h->columns, h->values, N, M, 3, shift, NULL, NULL) < 0) return NAN;
        for (int k = 0; k < 3; k++) {
            double mean = 0.0, formula = 0.0;
            for (int i = 0; i < N; i++)
                mean += (h->out[i * 3 + k] - h->values[i * 3 + k]) / (double)N;
            for (int j = 0; j < M; j++)
                formula += (h->columns[j] - 1.0) * h->values[j * 3 + k] / (double)N;
            most = worse(most, fabs(shift[k] - mean));
            most = worse(most, fabs(shift[k] - formula));
        }
    }
    return most;
}

static const statement_check hamming_rows[] = {
    AT_MOST("TOT-15", "kernel product against the dense matrix, relative", hamming_matvec, 1e-14),
    AT_MOST("TOT-16", "Sinkhorn rounds to 1e-10, V = 50257, eps = 1", hamming_sinkhorn_rounds, 5.0),
    AT_MOST("TOT-16", "cost against dense scaling, V = 40", sinkhorn_against_dense, 1e-9),
    AT_MOST("DER-05", "Newton steps, V = 50257, eps .003 to 2", newton_steps, 5.0),
    AT_MOST("DER-05", "marginals of diag(u) K diag(v), summed here, l1", newton_marginals, 1e-13),
    AT_MOST("DER-05", "cost against dense scaling, V = 40", newton_against_dense, 1e-12),
    AT_MOST("TOT-17", "golden divergences at eps 1 and .1", golden_divergence, 1e-14),
    AT_MOST("TOT-17", "eps = .002 against TV (within eps log V)", divergence_cold, 0.002 * 3.912),
    AT_MOST("TOT-17", "eps = 1e4 against |p - q|^2 / 2, relative", divergence_hot, 1e-3),
    AT_LEAST("TOT-17", "least divergence, and minus that of p with p", divergence_sign, -1e-13),
    AT_MOST("TOT-18", "golden costs at eps 1 and .1", golden_cost, 1e-14),
    AT_LEAST("TOT-18", "least <P,C> - TV", cost_above_tv, -1e-14),
};
CHECK_GROUP(statement_checks_hamming, hamming_rows);

static const statement_check table[] = {
    AT_MOST("TOT-20", "rows alone, softmax and entmax: different bits between 1, 2, 3 threads",
            row_bits_by_threads, 0.0),
    AT_MOST("TOT-105", "rows at range/tau 2000 in the chosen domain", default_domain,
            4 * M * ROUNDOFF),
    AT_MOST("TOT-105", "log domain against linear domain", log_domains_agree, 1e-10),
    AT_MOST("TOT-106", "centring moves the plan of 40 rounds by", centring_moves_plan, 1e-13),
    PRINTED_AT_LEAST("TOT-106", "centring rows shrinks the projective diameter by (E15)",
                     centring_shrinks_diameter, 1e-6),
    AT_MOST("TOT-107", "f32 scores at tolerance 1e-9: promoted, columns off by", narrow_types,
            1e-8),
    AT_MOST("TOT-107", "f32 potentials at tolerance 1e-9 are refused (0: yes)",
            narrow_types_refused, 0.0),
    AT_MOST("TOT-108", "range/tau 2000: positive weights counted, others flushed",
            flushed_weights_counted, 0.0),
    AT_MOST("TOT-108", "... kernel entries and columns lost by the solver", vanished_entries, 0.0),
    AT_MOST("TOT-109", "TV of two tails of 1e-30, relative", saturated_tv, 1e-12, 20),
    AT_MOST("TOT-110", "1 - p_max of 1e-30, relative", tail_masses, 1e-12, 20),
    AT_MOST("TOT-111", "sums over rows, exact and relaxed: different bits between 1, 2, 3 threads",
            sum_bits_by_threads, 0.0),
    AT_MOST("TOT-112", "bytes a key of a softmax plan, n = m = 65536", streaming_memory, 1024.0),
    AT_MOST("TOT-112", "resident bytes a key that softmax adds to a process, n = m = 8192",
            resident_softmax, 1024.0),
    AT_MOST("TOT-112", "resident bytes a symbol that Hamming transport adds, V = 262144",
            resident_hamming, 1024.0),
    AT_MOST("DER-26", "row error of twelve methods", rows_of_all_methods, 4 * M * ROUNDOFF),
    AT_MOST("DER-27", "mean shift from the columns reached, two ways", reached_marginals, 1e-14),
    AT_MOST("DER-28", "Newton steps for p = q, V = 50257", equal_pairs_steps, 5.0),
    AT_MOST("DER-28", "beyond 1/eps = 700 the cost is TV", zero_temperature, 1e-14),
};
CHECK_GROUP(statement_checks_numerics, table);
