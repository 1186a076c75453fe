/* What the requirements say about plans, measured on the library's own: mask patterns, positions, equivariance,
 * mass and mean, the elastic path and its annealing, relaxation and Newton. */
#define _GNU_SOURCE /* mmap */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "groups.h"
#include "one_head.h"

/* ---- masks: the pattern is exactly the one that the words say --------------------------------------- */

typedef struct pattern {
    const char *ids;
    ota_support support;
    bool (*open)(int64_t i, int64_t j);
} pattern;

static bool causal(int64_t i, int64_t j) { return j <= i; }
static bool near(int64_t i, int64_t j) { return j >= i - 2 && j <= i + 1; }
static bool same_phase(int64_t i, int64_t j) { return ((i - j) % 3 + 3) % 3 == 0; }
static bool same_block(int64_t i, int64_t j) { return i / 4 == j / 4; }

static void masks_open_the_stated_pairs(void **unused) {
    (void)unused;
    enum { N = 13 };
    static const pattern patterns[] = {
        {"TOT-44 TOT-43", {.kind = OTA_SUPPORT_CAUSAL}, causal},
        {"TOT-45 TOT-43", {.kind = OTA_SUPPORT_WINDOW, .left = 2, .right = 1}, near},
        {"TOT-46 TOT-43", {.kind = OTA_SUPPORT_STRIDED, .left = 3}, same_phase},
        {"TOT-47 TOT-43", {.kind = OTA_SUPPORT_BLOCK, .left = 4}, same_block},
    };
    static double s[N * N];
    random_scores(s, N * N, 1.0, 2);
    for (size_t a = 0; a < 4; a++) {
        for (size_t b = a; b < 4; b++) {
            head *t = head_make(0, "softmax", N, N, s);
            t->supports[0] = patterns[a].support;
            t->supports[1] = patterns[b].support;
            t->problem.support_count = 2;
            solved(t);
            double worst = 0.0;
            int64_t wrong = 0;
            for (int64_t i = 0; i < N; i++) {
                double sum = 0.0;
                for (int64_t j = 0; j < N; j++) {
                    const bool open = patterns[a].open(i, j) && patterns[b].open(i, j);
                    if (open) sum += exp(s[i * N + j]);
                }
                for (int64_t j = 0; j < N; j++) {
                    const bool open = patterns[a].open(i, j) && patterns[b].open(i, j);
                    const double want = open ? exp(s[i * N + j]) / sum : 0.0;
                    wrong += open != (t->p[i * N + j] > 0.0);
                    worst = fmax(worst, fabs(t->p[i * N + j] - want));
                }
            }
            spec_check(a == b ? patterns[a].ids : "TOT-48", (double)wrong, 0.0);
            spec_check(patterns[a].ids, worst, 16.0 * 0x1p-53);
        }
    }
    /* strictly lower triangular: the first row is empty [CETA-25] */
    head *t = head_make(0, "softmax/exact", N, N, s);
    for (int i = 0; i < N; i++) {
        for (int j = i; j < N; j++) t->s[i * N + j] = -INFINITY;
    }
    spec_check_true("CETA-25", run_head(t) == OTA_INFEASIBLE);
}

/* ---- positions ------------------------------------------------------------------------------------ */

static void rotary_positions(void **unused) {
    (void)unused;
    enum { ROWS = 7, WIDTH = 16 };
    static double x[ROWS * WIDTH], turned[ROWS * WIDTH], later[ROWS * WIDTH];
    random_scores(x, ROWS * WIDTH, 1.0, 6);
    ota_error error;
    memcpy(turned, x, sizeof x);
    memcpy(later, x, sizeof x);
    const ota_array a = ota_array_of(turned, OTA_F64, 1, 1, ROWS, WIDTH);
    const ota_array b = ota_array_of(later, OTA_F64, 1, 1, ROWS, WIDTH);
    assert_int_equal(ota_rope(&a, 0, 0.0, &error), OTA_OK);
    assert_int_equal(ota_rope(&b, 100, 0.0, &error), OTA_OK);
    double norms = 0.0, shift = 0.0, angles = 0.0;
    for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < WIDTH; k += 2) {
            const double *p = x + i * WIDTH + k, *q = turned + i * WIDTH + k;
            norms = fmax(norms, fabs(hypot(p[0], p[1]) - hypot(q[0], q[1])));
            const double angle = i * pow(10000.0, -(double)k / (double)WIDTH);
            angles = fmax(angles, fabs(q[0] - (p[0] * cos(angle) - p[1] * sin(angle))));
            angles = fmax(angles, fabs(q[1] - (p[0] * sin(angle) + p[1] * cos(angle))));
        }
        for (int j = 0; j < ROWS; j++) {
            double near_score = 0.0, far_score = 0.0, size = 0.0;
            for (int k = 0; k < WIDTH; k++) {
                near_score += turned[i * WIDTH + k] * turned[j * WIDTH + k];
                far_score += later[i * WIDTH + k] * later[j * WIDTH + k];
                size += fabs(x[i * WIDTH + k]) * fabs(x[j * WIDTH + k]);
            }
            shift = fmax(shift, fabs(near_score - far_score) / fmax(1.0, size));
        }
    }
    spec_check("TOT-51", norms, 1e-15);
    spec_check("TOT-51", angles, 2e-15);
    spec_check("TOT-52", shift, 1e-13);
    assert_int_equal(ota_rope(NULL, 0, 0.0, &error), OTA_EINVAL);
    ota_array odd = a;
    odd.size[3] = 15;
    assert_int_equal(ota_rope(&odd, 0, 0.0, &error), OTA_EINVAL);
    assert_int_equal(ota_rope(&a, 0, NAN, &error), OTA_EINVAL);
    odd = a;
    odd.data = NULL;
    assert_int_equal(ota_rope(&odd, 0, 0.0, &error), OTA_EINVAL);
    odd = a;
    odd.stride[2] = 0;
    assert_int_equal(ota_rope(&odd, 0, 0.0, &error), OTA_EINVAL);
    double slopes[8];
    ota_alibi_slopes(8, slopes);
    for (int k = 0; k < 8; k++) spec_check("LIT-32", fabs(slopes[k] - pow(2.0, -(k + 1))), 0.0);
}

/* TOT-50: the relative bias stands inside the temperature or outside it, as its kind says. */
static void relative_bias_in_and_out(void **unused) {
    (void)unused;
    enum { N = 4, M = 6 };
    static double s[N * M], b[N + M - 1], inside[N * M];
    random_scores(s, N * M, 1.0, 14);
    random_scores(b, N + M - 1, 1.0, 15);
    for (int kind = 0; kind < 2; kind++) {
        head *t = head_make(0, "softmax", N, M, s);
        t->terms[0] = (ota_term){.kind = kind ? OTA_TERM_RELATIVE : OTA_TERM_RELATIVE_INSIDE,
                                 .array = ota_array_of(b, OTA_F64, 1, 1, 1, N + M - 1)};
        t->problem.term_count = 1;
        t->problem.scale = 0.375;
        solved(t);
        for (int i = 0; i < N; i++) {
            double sum = 0.0;
            for (int j = 0; j < M; j++) {
                const double bias = b[i - j + M - 1], raw = s[i * M + j];
                inside[i * M + j] = exp(kind ? 0.375 * raw + bias : 0.375 * (raw + bias));
                sum += inside[i * M + j];
            }
            for (int j = 0; j < M; j++) inside[i * M + j] /= sum;
        }
        spec_check("TOT-50", distance(t->p, inside, N * M), 16.0 * 0x1p-53);
    }
    /* LIT-12: slope gamma / tau when S is divided by tau afterwards */
    head *t = head_make(0, "softmax", N, M, s);
    t->terms[0] = (ota_term){.kind = OTA_TERM_ALIBI, .value = 0.3};
    t->problem.term_count = 1;
    t->problem.temperature = 2.0;
    solved(t);
    for (int i = 0; i < N; i++) {
        double sum = 0.0;
        for (int j = 0; j < M; j++) {
            inside[i * M + j] = exp(s[i * M + j] / 2.0 - 0.15 * abs(i - j));
            sum += inside[i * M + j];
        }
        for (int j = 0; j < M; j++) inside[i * M + j] /= sum;
    }
    spec_check("LIT-12", distance(t->p, inside, N * M), 16.0 * 0x1p-53);
}

/* ---- exact columns ---------------------------------------------------------------------------------- */

static void permutations_and_means(void **unused) {
    (void)unused;
    enum { N = 8 };
    static double s[N * N], first[N * N];
    random_scores(s, N * N, 1.0, 51);
    head *t = head_make(0, "softmax/exact", N, N, s);
    t->options.tolerance = 1e-13;
    memcpy(first, solved(t)->p, sizeof first);
    /* queries by (3 i + 1) mod 8, keys by (5 j + 2) mod 8 */
    t = head_make(0, "softmax/exact", N, N, NULL);
    t->options.tolerance = 1e-13;
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) t->s[i * N + j] = s[((3 * i + 1) % N) * N + (5 * j + 2) % N];
    }
    solved(t);
    double worst = 0.0, columns = 0.0;
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++)
            worst =
                fmax(worst, fabs(t->p[i * N + j] - first[((3 * i + 1) % N) * N + (5 * j + 2) % N]));
    }
    spec_check("CETA-10", worst, 1e-12);
    for (int j = 0; j < N; j++) columns = fmax(columns, fabs(t->receiver[j] - 1.0));
    spec_check("CETA-11", columns, 1e-12);
    /* after any number of rounds the mean errs by exactly (c - 1)^T V / n [CETA-12, DER-27] */
    static const char *const methods[] = {"softmax", "softmax/elastic:0.4,2", "softmax/relaxed:1"};
    for (size_t k = 0; k < 3; k++) {
        t = head_make(0, methods[k], N, N, s);
        random_scores(t->v, N, 1.0, 8);
        t->arrays.values = ota_array_of(t->v, OTA_F64, 1, 1, N, 1);
        t->arrays.out = ota_array_of(t->out, OTA_F64, 1, 1, N, 1);
        solved(t);
        double error = 0.0, told = 0.0;
        for (int i = 0; i < N; i++) error += (t->out[i] - t->v[i]) / (double)N;
        for (int j = 0; j < N; j++) told += (t->receiver[j] - 1.0) * t->v[j] / (double)N;
        spec_check("CETA-12 DER-27", fabs(error - told), 1e-15);
    }
}

/* ---- the elastic path --------------------------------------------------------------------------------- */

static void elastic_path(void **unused) {
    (void)unused;
    enum { N = 10 };
    static double s[N * N], exact[N * N];
    random_scores(s, N * N, 1.0, 23);
    head *t = head_make(0, "softmax/exact", N, N, s);
    t->options.tolerance = 1e-14;
    memcpy(exact, solved(t)->p, sizeof exact);
    /* ELA-11: every lambda ends at the same plan, given the time */
    static const double lambdas[] = {0.05, 0.5, 1.0, 1.25, 1.9};
    for (size_t k = 0; k < sizeof lambdas / sizeof lambdas[0]; k++) {
        t = head_make(0, "softmax/elastic:1,2000", N, N, s);
        t->problem.lambda = lambdas[k];
        spec_check("ELA-11", distance(solved(t)->p, exact, N * N), 1e-12);
    }
    /* ELA-09: lambda = 1 are Sinkhorn's rounds */
    t = head_make(0, "softmax/elastic:1,3", N, N, s);
    static double elastic[N * N];
    memcpy(elastic, solved(t)->p, sizeof elastic);
    t = head_make(0, "softmax/exact", N, N, s);
    t->options.rounds = 3;
    spec_check("ELA-09", distance(solved(t)->p, elastic, N * N), 0.0);
    /* ELA-10: as printed rows are not 1; ended on rows they are */
    t = head_make(0, "softmax/elastic:0.5,3", N, N, s);
    t->problem.end = OTA_SIDE_COLUMNS;
    solved(t);
    double printed = 0.0, ended = 0.0;
    for (int i = 0; i < N; i++) {
        double sum = 0.0;
        for (int j = 0; j < N; j++) sum += t->p[i * N + j];
        printed = fmax(printed, fabs(sum - 1.0));
    }
    t->problem.end = OTA_SIDE_ROWS;
    solved(t);
    for (int i = 0; i < N; i++) {
        double sum = 0.0;
        for (int j = 0; j < N; j++) sum += t->p[i * N + j];
        ended = fmax(ended, fabs(sum - 1.0));
    }
    spec_check("ELA-10 DER-26", ended, row_sum_slack(0x1p-53));
    spec_check_true("ELA-10", printed > 1e-6);
    /* ELA-13: a target other than 1, and a lambda per key */
    t = head_make(0, "softmax/elastic:1,500", N, N, s);
    for (int j = 0; j < N; j++) t->mu[j] = 0.5 + (double)j / (N - 1);
    t->problem.column_mass = ota_array_of(t->mu, OTA_F64, 1, 1, 1, N);
    solved(t);
    double target = 0.0;
    for (int j = 0; j < N; j++) target = fmax(target, fabs(t->receiver[j] - t->mu[j]));
    spec_check("ELA-13", target, 1e-12);
    t = head_make(0, "softmax/elastic:1,2", N, N, s);
    for (int j = 0; j < N; j++) t->mu[j] = j < 5 ? 0.0 : 0.5;
    t->problem.lambdas = ota_array_of(t->mu, OTA_F64, 1, 1, 1, N);
    solved(t);
    for (int j = 0; j < 5; j++) spec_check("ELA-13", fabs(t->g[j]), 0.0);
    for (int j = 5; j < N; j++) assert_true(fabs(t->g[j]) > 0.0);
    /* ELA-12: annealed to the same temperature, the same plan */
    t = head_make(0, "softmax/exact", N, N, s);
    t->options.tolerance = 1e-14;
    t->options.anneal_start = 8.0;
    spec_check("ELA-12", distance(solved(t)->p, exact, N * N), 1e-11);
    t->options.anneal_keep_scaling = 1;
    spec_check("ELA-12", distance(solved(t)->p, exact, N * N), 1e-11);
}

/* ---- speed of the coupled solvers, in rounds ------------------------------------------------------------ */

static int64_t rounds_of(const double *s, int64_t n, double tau, void (*set)(ota_options *)) {
    head *t = head_make(0, "softmax/exact", n, n, s);
    t->problem.temperature = tau;
    t->options.solver = "log";
    t->options.tolerance = 1e-10;
    t->options.max_rounds = 100000;
    set(&t->options);
    solved(t);
    assert_int_equal(t->result.status, OTA_OK);
    return t->result.rounds;
}

static void as_it_is(ota_options *o) { (void)o; }
static void over_relaxed(ota_options *o) { o->relaxation_auto = 1; }
static void newton(ota_options *o) { o->solver = "newton"; }
static void with_scaling(ota_options *o) { o->tolerance_scaling = 1e-13; }

static void relaxation_and_newton_save_rounds(void **unused) {
    (void)unused;
    enum { N = 20 };
    static double s[N * N];
    dice d = 1;
    for (int k = 0; k < N * N; k++) s[k] = -uniform(&d);
    const int64_t plain_rounds = rounds_of(s, N, 0.03, as_it_is);
    const int64_t relaxed = rounds_of(s, N, 0.03, over_relaxed);
    const int64_t steps = rounds_of(s, N, 0.03, newton);
    assert_true(plain_rounds > 100);
    spec_check("DER-09", (double)relaxed, (double)plain_rounds - 1.0);
    spec_check("DER-11", (double)steps, 0.5 * (double)plain_rounds);
    /* TOT-14: the second tolerance asks for more rounds, and alone makes nothing ok */
    spec_check("TOT-14", (double)plain_rounds + 1.0, (double)rounds_of(s, N, 0.03, with_scaling));
    head *t = head_make(0, "softmax/exact", N, N, s);
    t->problem.temperature = 0.03;
    t->options.solver = "log";
    t->options.tolerance = 1e-10;
    t->options.tolerance_scaling = 1.0;
    t->options.max_rounds = 3;
    spec_check_true("TOT-14", run_head(t) == OTA_NOT_CONVERGED);
    t->options.allow_partial = 1;
    spec_check_true("TOT-14", run_head(t) == OTA_PARTIAL);
    spec_check("DER-26", fabs(t->result.row_error), row_sum_slack(0x1p-53));
    assert_true(t->result.column_error > 1e-10);
}

/* DER-02: complementary slackness of caps. */
static void caps_and_slackness(void **unused) {
    (void)unused;
    enum { N = 12, M = 9 };
    static double s[N * M];
    random_scores(s, N * M, 1.5, 71);
    head *t = head_make(0, "softmax/capped:1.6", N, M, s);
    t->options.tolerance = 1e-12;
    solved(t);
    double over = 0.0, slack = 0.0;
    int tight = 0;
    for (int j = 0; j < M; j++) {
        over = fmax(over, t->receiver[j] - 1.6);
        slack = fmax(slack, fmin(-t->g[j], fabs(1.6 - t->receiver[j])));
        tight += t->g[j] < 0.0;
    }
    assert_true(tight > 0 && tight < M);
    spec_check("DER-02", over, 1e-9);
    spec_check("DER-02", slack, 1e-9);
}

TEST_FILE(test_forward_claims) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_open_the_stated_pairs),
        cmocka_unit_test(rotary_positions),
        cmocka_unit_test(relative_bias_in_and_out),
        cmocka_unit_test(permutations_and_means),
        cmocka_unit_test(elastic_path),
        cmocka_unit_test(relaxation_and_newton_save_rounds),
        cmocka_unit_test(caps_and_slackness),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
