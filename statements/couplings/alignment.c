/* The gauge and the Hilbert metric: alignment of a matrix with row and column shifts, diameters,
 * contraction [TOT-37..42, 94..98, 102, 104, DER-21, 22, 25]. A, r [n][m]. */
#include "statements/check.h"

enum { N = 7, M = 9 };

typedef struct aligned {
    ota_gauge_result result;
    double *k, *v, *rest;
    int64_t *rows, *columns;
} aligned;

static aligned *align(trial *t, const double *a, int64_t n, int64_t m, ota_gauge_rule rule) {
    aligned *x = take(t, sizeof *x);
    x->k = numbers(t, n);
    x->v = numbers(t, m);
    x->rest = numbers(t, n * m);
    x->rows = take(t, (size_t)n * sizeof *x->rows);
    x->columns = take(t, (size_t)n * sizeof *x->columns);
    ota_gauge_options options = {.size = sizeof options, .rule = rule, .max_passes = 5000};
    const ota_gauge_arrays arrays = {.row_shift = x->k,
                                     .column_shift = x->v,
                                     .cycle_rows = x->rows,
                                     .cycle_columns = x->columns};
    const ota_status status =
        told(t, ota_gauge(&(ota_gauge_matrix){.a = a, .type = OTA_F64, .rows = n, .columns = m},
                          &options, &arrays, &x->result, NULL, NULL));
    if (status < 0 && status != OTA_NOT_CONVERGED) x->result.residual = NAN;
    (void)ota_gauge_rest(&(ota_gauge_matrix){.a = a, .type = OTA_F64, .rows = n, .columns = m},
                         x->k, x->v, x->rest, NULL, NULL);
    seen(t, x->k, n);
    t->planted = false;
    x->result.residual = seen_number(t, x->result.residual);
    return x;
}

/* max |A - k - v| at the shifts, and the mean of the closed walk: upper and lower bound of R. */
static double two_sided(trial *t) {
    double most = 0.0;
    const int64_t n = 2 + below(t, N), m = 2 + below(t, M);
    double *a = scores_of(t, n, m, t->draw % CHARACTERS), up = 0.0, walk = 0.0;
    aligned *x = align(t, a, n, m, OTA_GAUGE_HOWARD);
    const int64_t length = x->result.cycle_length;
    for (int64_t k = 0; k < n * m; k++) up = worse(up, fabs(a[k] - x->k[k / m] - x->v[k % m]));
    for (int64_t step = 0; step < length; step++) {
        const int64_t j = x->columns[step];
        walk += a[x->rows[step] * m + j] - a[x->rows[(step + 1) % length] * m + j];
    }
    walk /= (double)(2 * length);
    most = worse(most, fabs(up - x->result.residual));
    most = worse(most, fabs(up - walk));
    return most;
}

static double golden_alignment(trial *t) {
    static const double a[9] = {0, 1, 4, 2, 0, 1, 5, 3, 0};
    static const double six[9] = {1, -1, 0, 0, 1, -1, -1, 0, 1};
    return worse(fabs(align(t, a, 3, 3, OTA_GAUGE_HOWARD)->result.residual - 2.25),
                 fabs(align(t, six, 3, 3, OTA_GAUGE_HOWARD)->result.residual - 1.0));
}

static double reconstruction(trial *t) {
    double *a = normals(t, N * M, 3.0), most = 0.0;
    aligned *x = align(t, a, N, M, OTA_GAUGE_HOWARD);
    for (int k = 0; k < N * M; k++) {
        most = worse(most, fabs(x->k[k / M] + x->v[k % M] + x->rest[k] - a[k]));
    }
    return most;
}

/* The largest mean of all closed walks, by powers of the (max, +) matrix W_ik = max_j (A_ij - A_kj). */
static double by_karp(const double *a, int64_t n, int64_t m) {
    double best[N + 2][N + 1], w[N + 1][N + 1], most = -HUGE_VAL;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = 0; k < n; k++) {
            w[i][k] = -HUGE_VAL;
            for (int64_t j = 0; j < m; j++) w[i][k] = fmax(w[i][k], a[i * m + j] - a[k * m + j]);
        }
    }
    for (int64_t i = 0; i < n; i++) best[0][i] = i == 0 ? 0.0 : -HUGE_VAL;
    for (int64_t step = 1; step <= n; step++) {
        for (int64_t k = 0; k < n; k++) {
            best[step][k] = -HUGE_VAL;
            for (int64_t i = 0; i < n; i++)
                best[step][k] = fmax(best[step][k], best[step - 1][i] + w[i][k]);
        }
    }
    for (int64_t k = 0; k < n; k++) {
        double least = HUGE_VAL;
        for (int64_t step = 0; step < n; step++) {
            if (best[step][k] == -HUGE_VAL) continue;
            least = fmin(least, (best[n][k] - best[step][k]) / (double)(n - step));
        }
        most = fmax(most, least);
    }
    return most / 2.0;
}

static double against_karp(trial *t) {
    double *a = scores_of(t, N, M, t->draw % CHARACTERS);
    const double residual = align(t, a, N, M, OTA_GAUGE_HOWARD)->result.residual;
    return fabs(residual - by_karp(a, N, M));
}

static double midrange_excess(trial *t) {
    double *a = scores_of(t, N, M, t->draw);
    const double slow = align(t, a, N, M, OTA_GAUGE_MIDRANGE)->result.residual;
    const double best = align(t, a, N, M, OTA_GAUGE_HOWARD)->result.residual;
    return fabs(seen_too(t, slow / best) - 1.0);
}

/* R4 <= R <= 2 R4 and R <= fast <= 2 R: the largest violation. */
static double one_pass_bounds(trial *t) {
    double *a = scores_of(t, N, M, t->draw % CHARACTERS), four = NAN;
    (void)ota_gauge_four_cycle(
        &(ota_gauge_matrix){.a = a, .type = OTA_F64, .rows = N, .columns = M}, &four, NULL, NULL);
    four = seen_number(t, four);
    const double r = align(t, a, N, M, OTA_GAUGE_HOWARD)->result.residual;
    const double fast = align(t, a, N, M, OTA_GAUGE_FAST)->result.residual;
    return worse(worse(four - r, r - 2.0 * four), worse(r - fast, fast - 2.0 * r));
}

static double four_cycle_formula(trial *t) {
    double *a = normals(t, N * M, 2.0), four = NAN, formula = 0.0, row[M];
    (void)ota_gauge_four_cycle(
        &(ota_gauge_matrix){.a = a, .type = OTA_F64, .rows = N, .columns = M}, &four, NULL, NULL);
    for (int i = 0; i < N * N; i++) {
        for (int j = 0; j < M; j++) row[j] = a[i / N * M + j] - a[i % N * M + j];
        formula = fmax(formula, spread_of(row, M) / 4.0);
    }
    return fabs(seen_number(t, four) - formula);
}

static double least_squares(trial *t) {
    double *a = normals(t, N * M, 2.0), most = 0.0, square = 0.0;
    aligned *x = align(t, a, N, M, OTA_GAUGE_LEAST_SQUARES);
    if (t->fault != 0.0) x->rest[0] += t->fault;
    for (int i = 0; i < N; i++) most = worse(most, fabs(sum_of(x->rest + i * M, M)));
    for (int j = 0; j < M; j++) {
        double sum = 0.0;
        for (int i = 0; i < N; i++) sum += x->rest[i * M + j];
        most = worse(most, fabs(sum));
    }
    for (int k = 0; k < N * M; k++) square += x->rest[k] * x->rest[k] / (N * M);
    return worse(most, fabs(x->result.rms - sqrt(square)));
}

static double shift_invariance(trial *t) {
    double *a = normals(t, N * M, 1.0), *moved = copy_of(t, a, N * M);
    double *k = normals(t, N, 5.0), *v = normals(t, M, 5.0);
    for (int at = 0; at < N * M; at++) moved[at] += k[at / M] + v[at % M];
    aligned *x = align(t, a, N, M, OTA_GAUGE_HOWARD), *y = align(t, moved, N, M, OTA_GAUGE_HOWARD);
    double most = fabs(x->result.residual - y->result.residual);
    most = worse(most, fabs(x->result.per_sqrt_columns * sqrt(M) - x->result.residual));
    return worse(most,
                 fabs(x->result.per_normal_maximum * sqrt(2.0 * log(N * M)) - x->result.residual));
}

static double coherence(trial *t, bool identity) {
    enum { LAYERS = 3 };
    double *z = normals(t, N * M, 1.0), *moves = normals(t, LAYERS * N * M, 0.3);
    double *k = numbers(t, LAYERS * N), *v = numbers(t, LAYERS * M);
    double *distance = numbers(t, N), *bound = numbers(t, N), most = 0.0;
    for (int l = 0; l < LAYERS; l++) {
        aligned *x = align(t, moves + l * N * M, N, M, OTA_GAUGE_HOWARD);
        memcpy(k + l * N, x->k, N * sizeof *k);
        memcpy(v + l * M, x->v, M * sizeof *v);
    }
    if (ota_gauge_coherence(&(ota_gauge_chain){.layers = LAYERS,
                                               .rows = N,
                                               .columns = M,
                                               .start = z,
                                               .moves = moves,
                                               .row_shift = k,
                                               .column_shift = v},
                            distance, bound, NULL, NULL) < 0)
        return NAN;
    t->planted = false;
    seen(t, distance, N);
    for (int i = 0; i < N; i++) {
        double a[M], b[M], p[M], q[M], l1 = 0.0;
        for (int j = 0; j < M; j++) {
            a[j] = b[j] = z[i * M + j];
            for (int l = 0; l < LAYERS; l++) {
                a[j] += moves[(l * N + i) * M + j];
                b[j] += v[l * M + j];
            }
        }
        softmax_formula(a, M, 1.0, p);
        softmax_formula(b, M, 1.0, q);
        for (int j = 0; j < M; j++) l1 += fabs(p[j] - q[j]);
        most = worse(most, identity ? fabs(distance[i] - l1) : distance[i] / bound[i]);
    }
    return most;
}

static double coherence_distance(trial *t) { return coherence(t, true); }
static double coherence_bound(trial *t) { return coherence(t, false); }

/* ---- Hilbert ---- */

static double hilbert(trial *t, const double *x, const double *y, int64_t size) {
    double distance = NAN;
    (void)ota_hilbert(x, y, size, &distance, NULL, NULL);
    return seen_number(t, distance);
}

static double hilbert_formula(trial *t) {
    double most = 0.0, ratio[M];
    double *x = distribution(t, M, 2.0), *y = distribution(t, M, 2.0), *z = distribution(t, M, 2.0);
    for (int j = 0; j < M; j++) ratio[j] = log(x[j] / y[j]);
    const double d = hilbert(t, x, y, M);
    most = worse(most, fabs(d - spread_of(ratio, M)));
    most = worse(most, d - hilbert(t, x, z, M) - hilbert(t, z, y, M));
    for (int j = 0; j < M; j++) z[j] = 3.7 * x[j];
    most = worse(most, fabs(hilbert(t, z, y, M) - d));
    return most;
}

/* Property 3: ratios within [c, c e^eta]; of equal mass, within [e^-eta, e^eta]. */
static double equal_mass_ratios(trial *t) {
    double most = -HUGE_VAL;
    double *x = distribution(t, M, 1.0), *y = distribution(t, M, 1.0);
    const double eta = hilbert(t, x, y, M);
    for (int j = 0; j < M; j++) most = worse(most, fabs(log(x[j] / y[j])) - eta);
    return most;
}

static double hundredfold(trial *t) {
    double *x = distribution(t, M, 1.0), *y = numbers(t, M);
    for (int j = 0; j < M; j++) y[j] = x[j] / 128.0;
    return hilbert(t, x, y, M);
}

/* As printed: d_H <= eta iff all ratios lie in [e^-eta, e^eta]; x = 128 y has d_H = 0. */
static double hundredfold_printed(trial *t) {
    double *x = distribution(t, M, 1.0), *y = numbers(t, M), most = 0.0;
    for (int j = 0; j < M; j++) y[j] = x[j] / 128.0;
    const double eta = hilbert(t, x, y, M);
    for (int j = 0; j < M; j++) most = worse(most, fabs(log(x[j] / y[j])) - eta);
    return most;
}

static ota_contraction contraction_of(trial *t, const double *log_kernel, int64_t n, int64_t m) {
    ota_contraction c = {NAN, NAN, NAN, NAN};
    (void)ota_contraction_of(log_kernel, n, m, &c, NULL, NULL);
    c.diameter = seen_number(t, c.diameter);
    return c;
}

static double diameter_formula(trial *t) {
    double *l = scores_of(t, 5, 6, t->draw % CHARACTERS), formula = 0.0;
    for (int i = 0; i < 5; i++) {
        for (int j = 0; j < 5; j++) {
            for (int k = 0; k < 36; k++) {
                formula = fmax(formula, l[i * 6 + k / 6] + l[j * 6 + k % 6] - l[i * 6 + k % 6] -
                                            l[j * 6 + k / 6]);
            }
        }
    }
    return fabs(contraction_of(t, l, 5, 6).diameter - formula);
}

/* d_H(K x, K y) / d_H(x, y) over tanh(Delta/4). */
static double contraction_use(trial *t) {
    double *l = normals(t, N * M, 1.0), x[M], y[M], kx[N], ky[N];
    const ota_contraction c = contraction_of(t, l, N, M);
    for (int j = 0; j < M; j++) {
        x[j] = exp(normal(t));
        y[j] = exp(normal(t));
    }
    for (int i = 0; i < N; i++) {
        kx[i] = ky[i] = 0.0;
        for (int j = 0; j < M; j++) {
            kx[i] += exp(l[i * M + j]) * x[j];
            ky[i] += exp(l[i * M + j]) * y[j];
        }
    }
    const double contraction = hilbert(t, kx, ky, N) / hilbert(t, x, y, M);
    return seen_too(t, contraction / tanh(c.diameter / 4.0));
}

/* Two-level vectors meet the bound: y is 1 and h at two places and next to nothing elsewhere, x a small step
 * away at the first. Least use over kernels of the best pair of places and h. */
static double contraction_attained(trial *t) {
    double *l = normals(t, N * M, 0.6), best = 0.0;
    const ota_contraction c = contraction_of(t, l, N, M);
    for (int pair = 0; pair < M * M; pair++) {
        const int one = pair / M, other = pair % M;
        for (double h = 0.02; one != other && h < 50.0; h *= 1.1) {
            double kx[N], ky[N], distance = NAN;
            for (int i = 0; i < N; i++) {
                ky[i] = exp(l[i * M + one]) + h * exp(l[i * M + other]);
                kx[i] = ky[i] + 1e-4 * exp(l[i * M + one]);
            }
            (void)ota_hilbert(kx, ky, N, &distance, NULL, NULL);
            best = worse(best, distance / log1p(1e-4));
        }
    }
    return seen_too(t, best / tanh(c.diameter / 4.0));
}

static double rate_formulas(trial *t) {
    double *l = normals(t, N * M, 1.0);
    const ota_contraction c = contraction_of(t, l, N, M);
    const double range = spread_of(l, N * M), r = exp(range);
    double most = fabs(seen_too(t, c.rate) - tanh(c.diameter / 4.0));
    most = worse(most, fabs(c.entry_range - range));
    most = worse(most, c.diameter - 2.0 * range);
    return worse(most, fabs(c.entry_rate - (r - 1.0) / (r + 1.0)));
}

static double hamming_diameter(trial *t) {
    double most = 0.0, l[25] = {0.0};
    const double epsilon = between(t, 0.1, 3.0);
    for (int k = 0; k < 25; k += 6) l[k] = 1.0 / epsilon;
    const double dense = contraction_of(t, l, 5, 5).diameter;
    most = worse(most, fabs(ota_hamming_diameter(epsilon) - 2.0 / epsilon));
    most = worse(most, fabs(dense - 2.0 / epsilon));
    return most;
}

static double one_gauge_object(trial *t) {
    double most = 0.0;
    double *l = scores_of(t, N, M, t->draw % CHARACTERS), four = NAN;
    (void)ota_gauge_four_cycle(
        &(ota_gauge_matrix){.a = l, .type = OTA_F64, .rows = N, .columns = M}, &four, NULL, NULL);
    const double diameter = contraction_of(t, l, N, M).diameter;
    aligned *x = align(t, l, N, M, OTA_GAUGE_HOWARD);
    most = worse(most, fabs(diameter - 4.0 * four));
    most = worse(most, fabs(spread_of(x->rest, N * M) - 2.0 * x->result.residual));
    return most;
}

/* F.3: kmax/kmin = eps^-2 at R = 1 (Hamming): least |e^(R/eps) eps^2 - 1| over eps. */
static double transition(trial *t) {
    double least = HUGE_VAL;
    for (int k = 1; k < 100000; k++) {
        const double epsilon = (double)k * 1e-4, half[4] = {1.0 / epsilon, 0.0, 0.0, 1.0 / epsilon};
        if (epsilon < 0.01) continue;
        ota_contraction c;
        if (k % 100 == 0 && ota_contraction_of(half, 2, 2, &c, NULL, NULL) == OTA_OK) {
            least = fmin(least, fabs(exp(c.entry_range) * epsilon * epsilon - 1.0));
        }
    }
    return seen_number(t, least);
}

static double transition_range(trial *t) {
    double most = 0.0;
    for (int k = 1; k < 1000; k++) {
        const double epsilon = (double)k * 1e-2, l[4] = {1.0 / epsilon, 0.0, 0.0, 1.0 / epsilon};
        const ota_contraction c = contraction_of(t, l, 2, 2);
        most = worse(most, fabs(seen_too(t, c.diameter / (2.0 / epsilon)) - 1.0));
        /* -2 eps log eps is the range that would do: at most 2/e. */
        most = worse(most, -2.0 * epsilon * log(epsilon) - 2.0 / exp(1.0));
    }
    return most;
}

static const statement_check table[] = {
    AT_MOST("TOT-37", "v + k + r gives A back", reconstruction, 4e-15),
    AT_MOST("TOT-38", "residual, shifts and closed walk agree", two_sided, 1e-12, 30),
    AT_MOST("TOT-38", "golden residuals 2.25 and 1 (6-cycle)", golden_alignment, 1e-15),
    AT_MOST("TOT-39", "against the maximum cycle mean by Karp (the linear program's value)",
            against_karp, 1e-12, 30),
    AT_MOST("TOT-40", "midrange sweeps over the optimum, relative", midrange_excess, 2e-6, 6),
    AT_MOST("DER-21", "R4 <= R <= 2 R4, R <= fast <= 2 R: largest violation", one_pass_bounds,
            1e-12, 20),
    AT_MOST("DER-21", "R4 against its definition", four_cycle_formula, 1e-14),
    AT_MOST("DER-22", "rest orthogonal to rows and columns, rms", least_squares, 1e-13),
    AT_MOST("TOT-41", "R invariant under shifts, its normalisations", shift_invariance, 1e-12),
    AT_MOST("TOT-42", "distance from common moves against its formula", coherence_distance, 1e-13),
    AT_MOST("TOT-42", "distance over its bound", coherence_bound, 1.0),
    AT_MOST("TOT-94", "osc(log x - log y), triangle, scale invariance", hilbert_formula, 2e-14, 30),
    AT_MOST("TOT-95", "distance of x = 128 y", hundredfold, 1e-14),
    AT_MOST("TOT-95", "equal mass: |log ratio| - distance", equal_mass_ratios, 1e-14, 50),
    PRINTED_AT_MOST("TOT-95", "any mass: |log ratio| - distance (E5)", hundredfold_printed, 1e-14),
    AT_MOST("TOT-96", "diameter over all 2 x 2 minors", diameter_formula, 1e-14, 10),
    AT_MOST("TOT-97", "contraction over tanh(Delta/4), 200 kernels", contraction_use, 1.0, 200),
    AT_LEAST("TOT-97", "... least use by two-level vectors", contraction_attained, 0.999, 5),
    AT_MOST("TOT-98", "entry range and its rate; Delta - 2 range", rate_formulas, 1e-13),
    AT_MOST("TOT-102", "diameter 2/eps, dense and closed form", hamming_diameter, 1e-14, 10),
    AT_MOST("TOT-104", "Hamming range is 1, above the 2/e that F.3 needs", transition_range, 1e-12),
    PRINTED_AT_MOST("TOT-104", "some eps has kmax/kmin = eps^-2: least relative gap (E13)",
                    transition, 1e-3),
    AT_MOST("DER-25", "Delta = 4 R4, range after centring 2 R", one_gauge_object, 1e-12, 20),
};
CHECK_GROUP(statement_checks_alignment, table);
