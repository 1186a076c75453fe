/* Singular values and eigenvalues against matrices made from chosen ones, and what they promise about
 * couplings: ranks of one layer and of two, the nearest matrix of a rank, Sinkhorn's own rate. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis_random.h"
#include "groups.h"
#include "held_memory.h"
#include "otattn_analysis.h"
#include "otattn_spectra.h"
#include "spec.h"

enum { MOST = 40, CELLS = MOST * MOST };

static const double u64 = 0x1p-53;

/* Columns of q [size, count] become orthonormal. */
static void orthonormal(uint64_t *state, int size, int count, double *q) {
    for (int t = 0; t < count; t++) {
        for (int i = 0; i < size; i++) q[i * count + t] = normal(state);
        for (int again = 0; again < 2; again++) {
            for (int s = 0; s < t; s++) {
                double product = 0.0;
                for (int i = 0; i < size; i++) product += q[i * count + t] * q[i * count + s];
                for (int i = 0; i < size; i++) q[i * count + t] -= product * q[i * count + s];
            }
        }
        double norm = 0.0;
        for (int i = 0; i < size; i++) norm += q[i * count + t] * q[i * count + t];
        for (int i = 0; i < size; i++) q[i * count + t] /= sqrt(norm);
    }
}

/* a [n, m] = sum of values_t u_t v_t^T */
static void build(uint64_t *state, int n, int m, const double *values, double *a) {
    static double left[CELLS], right[CELLS];
    const int k = n < m ? n : m;
    orthonormal(state, n, k, left);
    orthonormal(state, m, k, right);
    for (int i = 0; i < n * m; i++) {
        a[i] = 0.0;
        for (int t = 0; t < k; t++) a[i] += left[i / m * k + t] * values[t] * right[i % m * k + t];
    }
}

static double furthest(const double *a, const double *b, int count) {
    double worst = 0.0;
    for (int i = 0; i < count; i++) keep_worst(&worst, fabs(a[i] - b[i]));
    return worst;
}

static void figures_follow_the_values(void **unused) {
    (void)unused;
    static double a[CELLS], found[MOST];
    uint64_t state = 1;
    for (int draw = 0; draw < 30; draw++) {
        const int n = whole(&state, 1, MOST), m = whole(&state, 1, MOST), k = n < m ? n : m;
        const int rank = whole(&state, 1, k);
        const double size = decade(&state, -100.0, 100.0);
        double values[MOST] = {0.0}, sum = 0.0, squares = 0.0, fourth = 0.0, entropy = 0.0;
        for (int t = 0; t < rank; t++) values[t] = (rank - t + uniform(&state)) / rank;
        for (int t = 0; t < rank; t++) {
            sum += values[t];
            squares += pow(values[t], 2.0);
            fourth += pow(values[t], 4.0);
        }
        for (int t = 0; t < rank; t++) entropy -= values[t] / sum * log(values[t] / sum);
        build(&state, n, m, values, a);
        for (int i = 0; i < n * m; i++) a[i] *= size;
        ota_spectrum s;
        assert_int_equal(ota_spectrum_of(a, n, m, 0.0, found, &s, NULL), OTA_OK);
        const double slack = 64.0 * (double)MOST * u64;
        for (int t = 0; t < k; t++) found[t] /= size;
        assert_true(furthest(found, values, k) <= slack * values[0]);
        assert_true(fabs(s.norm / size - values[0]) <= slack * values[0]);
        assert_true(fabs(s.least / size - values[k - 1]) <= slack * values[0]);
        assert_true(fabs(s.nuclear / size - sum) <= slack * sum);
        assert_true(fabs(s.frobenius / size - sqrt(squares)) <= slack * sum);
        assert_true(fabs(s.stable_rank - squares / pow(values[0], 2.0)) <= slack * rank);
        assert_true(fabs(s.participation - squares * squares / fourth) <= slack * rank);
        assert_true(fabs(s.effective_rank - exp(entropy)) <= slack * rank * 40.0);
        assert_int_equal(s.rank, rank);
        if (rank == k)
            assert_true(fabs(s.condition * values[k - 1] / values[0] - 1.0) <= slack * k);
    }
    ota_spectrum s;
    memset(a, 0, sizeof a);
    assert_int_equal(ota_spectrum_of(a, 3, 4, 0.0, NULL, &s, NULL), OTA_OK);
    assert_true(s.rank == 0 && s.stable_rank == 0.0 && s.effective_rank == 0.0 && s.norm == 0.0);
    assert_true(isinf(s.condition));
}

static void factors_rebuild_the_matrix(void **unused) {
    (void)unused;
    static double a[CELLS], left[CELLS], right[CELLS], b[CELLS];
    uint64_t state = 2;
    for (int draw = 0; draw < 20; draw++) {
        const int n = whole(&state, 1, MOST), m = whole(&state, 1, MOST), k = n < m ? n : m;
        double values[MOST];
        for (int i = 0; i < n * m; i++) a[i] = normal(&state);
        assert_int_equal(ota_singular(a, n, m, left, values, right, NULL), OTA_OK);
        for (int i = 0; i < n * m; i++) {
            b[i] = 0.0;
            for (int t = 0; t < k; t++)
                b[i] += left[i / m * k + t] * values[t] * right[t * m + i % m];
        }
        assert_true(furthest(a, b, n * m) <= 64.0 * (double)MOST * u64 * values[0]);
        /* One side alone is the same side. */
        memset(b, 0, sizeof b);
        assert_int_equal(ota_singular(a, n, m, NULL, values, b, NULL), OTA_OK);
        assert_true(furthest(b, right, k * m) == 0.0);
    }
}

static double frobenius(const double *a, const double *b, int count) {
    double sum = 0.0;
    for (int i = 0; i < count; i++) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sqrt(sum);
}

/* Eckart and Young: the errors are the values left out, and no other matrix of that rank is nearer. */
static void truncation_is_nearest(void **unused) {
    (void)unused;
    static double a[CELLS], nearest[CELLS], other[CELLS], found[MOST], rest[CELLS];
    uint64_t state = 3;
    for (int draw = 0; draw < 20; draw++) {
        const int n = whole(&state, 2, 20), m = whole(&state, 2, 20), k = n < m ? n : m;
        const int rank = whole(&state, 0, k);
        double spectral, total, tail = 0.0;
        for (int i = 0; i < n * m; i++) a[i] = normal(&state);
        ota_spectrum s;
        assert_int_equal(ota_spectrum_of(a, n, m, 0.0, found, &s, NULL), OTA_OK);
        for (int t = rank; t < k; t++) tail = hypot(tail, found[t]);
        assert_int_equal(ota_truncate(a, n, m, rank, nearest, &spectral, &total, NULL), OTA_OK);
        const double slack = 256.0 * (double)MOST * u64 * found[0];
        spec_check("TOT-62", fabs(total - tail), slack);
        spec_check("TOT-62", fabs(total - frobenius(a, nearest, n * m)), slack);
        for (int i = 0; i < n * m; i++) rest[i] = a[i] - nearest[i];
        assert_int_equal(ota_spectrum_of(rest, n, m, 0.0, NULL, &s, NULL), OTA_OK);
        spec_check("TOT-62", fabs(spectral - s.norm), slack);
        if (rank == 0 || rank == k) continue;
        for (int i = 0; i < n * m; i++) other[i] = nearest[i] + 0.1 * normal(&state);
        assert_int_equal(ota_truncate(other, n, m, rank, other, NULL, NULL, NULL), OTA_OK);
        spec_check("TOT-62", tail - frobenius(a, other, n * m), slack);
    }
}

static void draw_layer(uint64_t *state, int n, int width, double *plan) {
    static double q[CELLS], k[CELLS], scores[CELLS];
    for (int i = 0; i < n * width; i++) q[i] = normal(state);
    for (int i = 0; i < n * width; i++) k[i] = normal(state);
    for (int i = 0; i < n * n; i++) {
        scores[i] = 0.0;
        for (int t = 0; t < width; t++)
            scores[i] += q[i / n * width + t] * k[i % n * width + t] / 2.0;
    }
    for (int i = 0; i < n; i++) plain_softmax(scores + i * n, n, 1.0, plan + i * n);
}

static void log_without_row_means(const double *plan, int n, double *logs) {
    for (int i = 0; i < n; i++) {
        double mean = 0.0;
        for (int j = 0; j < n; j++) mean += log(plan[i * n + j]) / n;
        for (int j = 0; j < n; j++) logs[i * n + j] = log(plan[i * n + j]) - mean;
    }
}

/* A layer of width 4 has rank 4, and Q, K come back from its weights; two such layers have rank n - 1. */
static void one_layer_is_found_again(void **unused) {
    (void)unused;
    enum { N = 32, WIDTH = 4 };
    static double first[N * N], second[N * N], both[N * N], ratio[N * N], again[N * N];
    static double q[N * N], k[N * N], singular[N];
    uint64_t state = 4;
    draw_layer(&state, N, WIDTH, first);
    draw_layer(&state, N, WIDTH, second);
    ota_spectrum s;
    double error;
    assert_int_equal(ota_log_ratios(first, N, N, ratio, NULL, NULL), OTA_OK);
    assert_int_equal(ota_spectrum_of(ratio, N, N - 1, 1e-12, NULL, &s, NULL), OTA_OK);
    spec_check_true("TOT-61", s.rank == WIDTH);
    assert_int_equal(ota_one_layer(first, N, N, WIDTH, q, k, &error, NULL), OTA_OK);
    spec_check("TOT-61", error, 1e-12 * s.norm);
    for (int i = 0; i < N; i++) {
        double scores[N];
        for (int j = 0; j < N; j++) {
            scores[j] = 0.0;
            for (int t = 0; t < WIDTH; t++) scores[j] += q[i * WIDTH + t] * k[j * WIDTH + t];
        }
        plain_softmax(scores, N, 1.0, again + i * N);
    }
    spec_check("TOT-61", furthest(first, again, N * N), 1e-13);
    assert_int_equal(ota_compose(second, first, N, N, N, both, NULL, NULL), OTA_OK);
    assert_int_equal(ota_log_ratios(both, N, N, ratio, NULL, NULL), OTA_OK);
    assert_int_equal(ota_spectrum_of(ratio, N, N - 1, 1e-12, NULL, &s, NULL), OTA_OK);
    spec_check_true("TOT-61 TOT-62", s.rank == N - 1);
    /* One layer of width 4 in their place: as far from it as what is cut off [Eckart, Young]. */
    double tail = 0.0, lost = 0.0;
    log_without_row_means(both, N, ratio);
    assert_int_equal(ota_spectrum_of(ratio, N, N, 0.0, singular, &s, NULL), OTA_OK);
    for (int t = WIDTH; t < N; t++) tail = hypot(tail, singular[t]);
    assert_int_equal(ota_one_layer(both, N, N, WIDTH, q, k, &error, NULL), OTA_OK);
    for (int i = 0; i < N * N; i++) {
        double score = 0.0;
        for (int t = 0; t < WIDTH; t++) score += q[i / N * WIDTH + t] * k[i % N * WIDTH + t];
        lost = hypot(lost, ratio[i] - score);
    }
    spec_check("TOT-62", fabs(error - tail), 256.0 * (double)N * u64 * s.norm);
    spec_check("TOT-62", fabs(lost - tail), 256.0 * (double)N * u64 * s.norm);
    assert_true(tail > 0.1);
    /* More width than rank: the rest is zeros and the error rounding. */
    assert_int_equal(ota_one_layer(both, N, N, N, q, k, &error, NULL), OTA_OK);
    spec_check("TOT-62", error, 1e-12 * s.norm);
}

static void coupling_values_are_sinkhorns(void **unused) {
    (void)unused;
    enum { N = 12 };
    static double scores[N * N], plan[N * N];
    uint64_t state = 5;
    for (int draw = 0; draw < 10; draw++) {
        for (int i = 0; i < N * N; i++) scores[i] = normal(&state);
        (void)plain_balanced(scores, N, 0.7, 5000, plan);
        ota_coupling_values dense;
        ota_coupling_spectrum iterated;
        double values[N];
        assert_int_equal(ota_coupling_values_of(plan, N, N, values, &dense, NULL), OTA_OK);
        assert_int_equal(ota_coupling_spectrum_of(plan, N, N, 0, &iterated, NULL, NULL), OTA_OK);
        spec_check("TOT-103", fabs(dense.first - 1.0), 64.0 * (double)N * u64);
        spec_check("TOT-103", fabs(dense.second - iterated.second),
                   iterated.second_residual + 1e-12);
        spec_check("TOT-103 DER-07", fabs(dense.least - iterated.least),
                   iterated.least_residual + 1e-12);
        assert_true(dense.blocks == 1 && dense.gap == 1.0 - values[1] * values[1]);
    }
    /* Two parts that do not meet: two singular values of 1. */
    for (int i = 0; i < N * N; i++) plan[i] = (i / N < 5) == (i % N < 5) ? 1.0 : 0.0;
    ota_coupling_values parts;
    assert_int_equal(ota_coupling_values_of(plan, N, N, NULL, &parts, NULL), OTA_OK);
    assert_int_equal(parts.blocks, 2);
    const double one[1] = {2.0};
    assert_int_equal(ota_coupling_values_of(one, 1, 1, NULL, &parts, NULL), OTA_OK);
    assert_true(parts.second == 0.0 && parts.blocks == 1);
}

static void eigenvalues(void **unused) {
    (void)unused;
    /* A cyclic walk that stays with probability 1/2: moduli |1 + w| / 2 over the roots of unity. */
    enum { N = 7 };
    double walk[N * N] = {0.0}, moduli[N];
    for (int i = 0; i < N; i++) walk[i * N + i] = walk[i * N + (i + 1) % N] = 0.5;
    assert_int_equal(ota_eigenvalue_moduli(walk, N, moduli, NULL), OTA_OK);
    for (int t = 0; t < N; t++) {
        const double angle = 3.14159265358979323846 * ((t + 1) / 2) / (double)N;
        assert_true(fabs(moduli[t] - fabs(cos(angle))) <= 64.0 * u64);
    }
    /* The Fisher matrix of a row: rank one less than its support, positive otherwise. [LIT-27] */
    double p[N], fisher[N * N], values[N], vectors[N * N], z[N];
    uint64_t state = 6;
    for (int i = 0; i < N; i++) z[i] = normal(&state);
    plain_softmax(z, N, 1.0, p);
    assert_int_equal(ota_fisher_matrix(p, N, 0.5, fisher, NULL, NULL, NULL), OTA_OK);
    assert_int_equal(ota_symmetric_eigen(fisher, N, values, vectors, NULL), OTA_OK);
    spec_check("LIT-27", fabs(values[0]), 16.0 * u64 * values[N - 1]);
    spec_check_true("LIT-27", values[1] > 1e-3);
    for (int t = 0; t < N; t++) {
        for (int i = 0; i < N; i++) {
            double product = -values[t] * vectors[t * N + i];
            for (int j = 0; j < N; j++) product += fisher[i * N + j] * vectors[t * N + j];
            spec_check("LIT-27", fabs(product), 64.0 * u64 * values[N - 1]);
        }
    }
    double same[N];
    assert_int_equal(ota_symmetric_eigen(fisher, N, same, NULL, NULL), OTA_OK);
    assert_true(furthest(same, values, N) <= 16.0 * u64 * values[N - 1]);
}

static void refusals(void **unused) {
    (void)unused;
    double a[4] = {1.0, (double)NAN, 0.0, 1.0}, out[4], k[4];
    ota_spectrum s;
    ota_error error;
    assert_int_equal(ota_spectrum_of(a, 2, 2, 0.0, NULL, &s, &error), OTA_EINVAL);
    assert_string_equal(error.field, "matrix");
    assert_non_null(strstr(error.message, "matrix[1] is nan"));
    assert_int_equal(ota_spectrum_of(a, 0, 2, 0.0, NULL, &s, &error), OTA_EINVAL);
    assert_string_equal(error.field, "rows");
    assert_int_equal(ota_spectrum_of(a, INT64_MAX, 2, 0.0, NULL, &s, NULL), OTA_EOVERFLOW);
    a[1] = 0.5;
    assert_int_equal(ota_spectrum_of(a, 2, 2, -1.0, NULL, &s, &error), OTA_EINVAL);
    assert_string_equal(error.field, "tolerance");
    assert_int_equal(ota_truncate(a, 2, 2, -1, out, NULL, NULL, &error), OTA_EINVAL);
    assert_string_equal(error.field, "rank");
    assert_int_equal(ota_symmetric_eigen(a, 2, out, NULL, &error), OTA_EINVAL);
    assert_non_null(strstr(error.message, "(1, 0) and (0, 1) differ"));
    assert_int_equal(ota_one_layer(a, 2, 2, 1, out, k, NULL, &error), OTA_EINVAL);
    assert_non_null(strstr(error.message, "entry (1, 0) of coupling is 0"));
    ota_coupling_values values;
    const double empty[4] = {1.0, 0.0, 1.0, 0.0}, negative[4] = {1.0, -1.0, 1.0, 1.0};
    assert_int_equal(ota_coupling_values_of(empty, 2, 2, NULL, &values, &error), OTA_EINVAL);
    assert_non_null(strstr(error.message, "column 1"));
    const double above[4] = {0.0, 0.0, 1.0, 1.0};
    assert_int_equal(ota_coupling_values_of(above, 2, 2, NULL, &values, &error), OTA_EINVAL);
    assert_non_null(strstr(error.message, "row 0"));
    assert_int_equal(ota_coupling_values_of(negative, 2, 2, NULL, &values, &error), OTA_EINVAL);
    assert_non_null(strstr(error.message, "is -1"));
}

TEST_FILE(test_spectra) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_follow_the_values),
        cmocka_unit_test(factors_rebuild_the_matrix),
        cmocka_unit_test(truncation_is_nearest),
        cmocka_unit_test(one_layer_is_found_again),
        cmocka_unit_test(coupling_values_are_sinkhorns),
        cmocka_unit_test(eigenvalues),
        cmocka_unit_test(refusals),
    };
    return run_and_hold(tests, sizeof tests / sizeof tests[0]);
}
