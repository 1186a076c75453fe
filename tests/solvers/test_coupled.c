/* The coupled solvers through the public calls: golden values, limits of every knob, rates, printed
 * orders, infeasible supports. S [n][m] everywhere. */
#include "coupled_stage.h"
#include "groups.h"

static const char *const solvers[] = {"auto", "sinkhorn", "log", "anderson", "newton"};
enum { SOLVERS = (int)(sizeof solvers / sizeof solvers[0]) };

/* Largest distance of the column sums from their mean, in its units. */
static double imbalance(const stage *x) {
    const double mean = (double)x->n / (double)x->m;
    double worst = 0.0;
    for (int64_t j = 0; j < x->m; j++) worst = fmax(worst, fabs(x->column[j] - mean) / mean);
    return worst;
}

/* ---- golden values --------------------------------------------------------------------------- */

static const double golden_scores[9] = {1, 0, 0, 0, 2, 0, 1, 1, 0};

static stage *golden_stage(void) {
    stage *x = set_stage(3, 3);
    memcpy(x->s, golden_scores, sizeof golden_scores);
    return x;
}

static void golden_exact(void **unused) {
    (void)unused;
    static const double at_one[9] = {0.480972506559231, 0.12063642777399,  0.398391065666778,
                                     0.12063642777399,  0.607743231915607, 0.271620340310403,
                                     0.398391065666778, 0.271620340310403, 0.329988594022818};
    static const double at_half[9] = {0.528760829271776, 0.031824890068707, 0.439414280659517,
                                      0.031824890068707, 0.772754318396531, 0.195420791534762,
                                      0.439414280659517, 0.195420791534762, 0.365164927805721};
    for (int k = 0; k < SOLVERS; k++) {
        stage *x = golden_stage();
        assert_int_equal(solve_by(x, "softmax/exact", solvers[k], 1.0, 1e-14), OTA_OK);
        spec_check("CETA-02 CETA-06 ELA-03", farthest(x->p, at_one, 9), 2e-14);
        assert_int_equal(solve_by(x, "softmax/exact", solvers[k], 0.5, 1e-14), OTA_OK);
        spec_check("CETA-02 CETA-06 ELA-03", farthest(x->p, at_half, 9), 2e-14);
        free(x);
        x = set_stage(2, 2);
        x->s[0] = 2.0;
        x->s[3] = 1.0;
        assert_int_equal(solve_by(x, "ceta", solvers[k], 1.0, 1e-14), OTA_OK);
        spec_check("CETA-02", fabs(x->p[0] - 0.817574476193644), 1e-14);
        free(x);
    }
}

static void golden_elastic(void **unused) {
    (void)unused;
    static const double plan[9] = {0.503371415180791, 0.149448862475477, 0.347179722343732,
                                   0.113146046033052, 0.67472513917052,  0.212128814796428,
                                   0.400519821588256, 0.323238110907315, 0.276242067504429};
    for (int k = 0; k < 3; k++) {
        stage *x = golden_stage();
        assert_int_equal(solve_by(x, "elastic:0.5,2", solvers[k], 1.0, 0.0), OTA_FIXED_ITERS);
        spec_check("ELA-07 ELA-08 ELA-09", farthest(x->p, plan, 9), 1e-14);
        spec_check("ELA-09", fabs(imbalance(x) - 0.164449395355411), 1e-14);
        free(x);
    }
}

static void golden_relaxed(void **unused) {
    (void)unused;
    static const double plan[9] = {0.533960420320068, 0.168282800438745, 0.297756779241187,
                                   0.113045832314007, 0.715597254755446, 0.171356912930548,
                                   0.414193387740481, 0.354836517055317, 0.230970095204202};
    static const double sums[3] = {1.061199640374555, 1.238716572249508, 0.700083787375937};
    for (int k = 0; k < SOLVERS; k++) {
        stage *x = golden_stage();
        assert_int_equal(solve_by(x, "relaxed:1", solvers[k], 1.0, 1e-14), OTA_OK);
        spec_check("DER-01 DER-10", farthest(x->p, plan, 9), 2e-14);
        spec_check("DER-01", farthest(x->column, sums, 3), 2e-14);
        free(x);
    }
}

/* The worked example of three queries and four keys with columns of 3/4. */
static void golden_balanced_example(void **unused) {
    (void)unused;
    static const double first[4] = {0.316858, 0.116565, 0.499039, 0.067538};
    stage *x = set_stage(3, 4);
    const double a = 0.399486, b = 0.146963, c = 0.054065, d = 0.365529, e = 0.134471;
    const double softmax[12] = {a, b, a, c, b, a, c, a, d, d, e, e};
    for (int k = 0; k < 12; k++) x->s[k] = log(softmax[k]);
    assert_int_equal(solve_by(x, "ceta", "auto", 1.0, 1e-12), OTA_OK);
    spec_check("DER-03", farthest(x->p, first, 4), 2e-6);
    free(x);
}

/* ---- what an exact plan is ------------------------------------------------------------------- */

static void exact_plans(void **unused) {
    (void)unused;
    for (int k = 0; k < SOLVERS; k++) {
        stage *x = set_stage(20, 33);
        fill_normal(x, 5);
        assert_int_equal(solve_by(x, "ceta", solvers[k], 0.5, 1e-12), OTA_OK);
        double rows = 0.0, columns = 0.0, least = 1.0, structure = 0.0;
        for (int64_t i = 0; i < x->n; i++) rows = fmax(rows, fabs(x->row[i] - 1.0));
        for (int64_t j = 0; j < x->m; j++) columns += fabs(x->column[j] - 20.0 / 33.0) / 20.0;
        for (int64_t i = 0; i < x->n; i++) {
            for (int64_t j = 0; j < x->m; j++) {
                const double p = x->p[i * x->m + j];
                least = fmin(least, p);
                structure =
                    fmax(structure, fabs(0.5 * log(p) - x->s[i * x->m + j] - x->f[i] - x->g[j]));
            }
        }
        spec_check("DER-26 CETA-07", rows, 4.0 * DBL_EPSILON * 33.0);
        spec_check("TOT-12 DER-03", columns, 1e-12);
        spec_check_true("CETA-08", least > 0.0);
        spec_check("CETA-08 CETA-09", structure, 1e-12);
        free(x);
    }
}

static void two_starts_agree(void **unused) {
    (void)unused;
    static const char *const methods[] = {"softmax/exact", "softmax/relaxed:0.5",
                                          "softmax/capped:0.8", "entmax:1.5/exact",
                                          "sparsemax/capped:0.8"};
    for (size_t k = 0; k < sizeof methods / sizeof methods[0]; k++) {
        stage *x = set_stage(16, 24), *y = set_stage(16, 24);
        fill_normal(x, 11);
        memcpy(y->s, x->s, sizeof x->s);
        y->warm = true;
        for (int64_t j = 0; j < y->m; j++) y->start[j] = normal(&dice_state);
        assert_int_equal(solve_by(x, methods[k], "auto", 0.5, 1e-14), OTA_OK);
        assert_int_equal(solve_by(y, methods[k], "auto", 0.5, 1e-14), OTA_OK);
        spec_check("TOT-07", farthest(x->p, y->p, x->n * x->m), 1e-12);
        free(x);
        free(y);
    }
}

/* One plan whatever finds it: caps that bind, relaxed rows, a sink. */
static void solvers_agree(void **unused) {
    (void)unused;
    static const char *const methods[] = {"softmax/exact", "softmax/capped:1.1",
                                          "softmax/relaxed:0.4", "softmax/capped:0.9"};
    for (uint64_t seed = 0; seed < 40; seed++) {
        const char *method = methods[seed % 4];
        const double temperature = 0.2 + 0.1 * (double)(seed % 3);
        stage *x = set_stage(24, 26), *y = set_stage(24, 26);
        fill_normal(x, 100 + seed);
        memcpy(y->s, x->s, sizeof x->s);
        if (seed % 4 == 2) {
            x->problem.rows = y->problem.rows = OTA_ROWS_RELAXED;
            x->problem.row_strength = y->problem.row_strength = 0.7;
        } else if (seed % 4 == 3) {
            x->has_sink = y->has_sink = true;
            x->sink = y->sink = (ota_term){.kind = OTA_TERM_SINK, .value = 0.5};
        }
        assert_int_equal(solve_by(x, method, "newton", temperature, 1e-13), OTA_OK);
        for (int k = 0; k < 4; k++) {
            y->options.max_rounds = 20000;
            assert_int_equal(solve_by(y, method, solvers[k], temperature, 1e-12), OTA_OK);
            spec_check("TOT-07 DER-02 DER-11", farthest(x->p, y->p, x->n * x->m), 1e-9);
        }
        free(x);
        free(y);
    }
}

static void linear_and_log_agree(void **unused) {
    (void)unused;
    for (double range = 1.0; range < 300.0; range *= 6.0) {
        stage *x = set_stage(12, 12), *y = set_stage(12, 12);
        fill_uniform(x, 3, range);
        memcpy(y->s, x->s, sizeof x->s);
        x->options.rounds = y->options.rounds = 40;
        assert_int_equal(solve_by(x, "ceta", "sinkhorn", 1.0, 0.0), OTA_FIXED_ITERS);
        assert_int_equal(solve_by(y, "ceta", "log", 1.0, 0.0), OTA_FIXED_ITERS);
        spec_check("CETA-06 TOT-13", farthest(x->p, y->p, 144), 1e-10);
        free(x);
        free(y);
    }
    static const char *const solvers[] = {"sinkhorn", "log"};
    for (int which = 0; which < 2; which++) {
        stage *x = set_stage(10, 10);
        fill_uniform(x, 4, 1e5);
        x->options.rounds = 25;
        assert_int_equal(solve_by(x, "ceta", solvers[which], 1.0, 0.0), OTA_FIXED_ITERS);
        for (int64_t i = 0; i < 10; i++) {
            double sum = 0.0;
            for (int64_t j = 0; j < 10; j++) {
                spec_check_true("TOT-13", x->p[i * 10 + j] >= 0.0);
                sum += x->p[i * 10 + j];
            }
            spec_check("TOT-13", fabs(sum - 1.0), 10.0 * DBL_EPSILON);
        }
        free(x);
    }
}

/* Where no round moves a column keys without mass keep their weights; one round closes them, and a row that has no other key
 * is without a plan. Relaxed rows are no softmax, which nothing but the solver of rounds knows. */
static void keys_without_mass_close_in_the_first_round(void **unused) {
    (void)unused;
    enum { N = 6, SHUT = 1 };
    static const char *const methods[2][2] = {
        {"ceta{rounds=0}", "ceta{rounds=1}"},
        {"softmax/relaxed:0.7{rounds=0}", "softmax/relaxed:0.7{rounds=1}"}};
    static const char *const solvers[] = {"auto", "sinkhorn", "log"};
    for (int k = 0; k < 24; k++) {
        const bool moves = k % 2 == 1, alone = k >= 12;
        stage *x = set_stage(N, N);
        fill_uniform(x, 12, 2.0);
        for (int j = 0; j < N && alone; j++) x->s[j] = j == SHUT ? 0.0 : -INFINITY;
        x->given_masses = true;
        for (int j = 0; j < N; j++) x->mu[j] = 1.0, x->nu[j] = j == SHUT ? 0.0 : N / (N - 1.0);
        if (k / 6 % 2 == 1) x->problem.rows = OTA_ROWS_RELAXED, x->problem.row_strength = 0.5;
        assert_int_equal(solve_by(x, methods[k / 6 % 2][k % 2], solvers[k / 2 % 3], 1.0, 0.0),
                         moves && alone ? OTA_INFEASIBLE : OTA_FIXED_ITERS);
        for (int64_t i = 0; i < N && !(moves && alone); i++)
            spec_check_true("CETA-06", (x->p[i * N + SHUT] > 0.0) == !moves);
        free(x);
    }
}

/* Steep scores on a kernel that must be absorbed and formed again and again. */
static void absorption(void **unused) {
    (void)unused;
    stage *x = set_stage(30, 30), *y = set_stage(30, 30);
    fill_uniform(x, 9, 590.0);
    memcpy(y->s, x->s, sizeof x->s);
    x->options.rounds = y->options.rounds = 60;
    assert_int_equal(solve_by(x, "ceta", "sinkhorn", 1.0, 0.0), OTA_FIXED_ITERS);
    assert_int_equal(solve_by(y, "ceta", "log", 1.0, 0.0), OTA_FIXED_ITERS);
    spec_check("CETA-06", farthest(x->p, y->p, 900), 1e-9);
    free(x);
    free(y);
}

static void centring_changes_nothing(void **unused) {
    (void)unused;
    stage *x = set_stage(25, 18), *y = set_stage(25, 18);
    fill_normal(x, 21);
    for (int64_t i = 0; i < 25; i++) {
        for (int64_t j = 0; j < 18; j++) x->s[i * 18 + j] += 3.0 * (double)i - 2.0 * (double)j;
    }
    memcpy(y->s, x->s, sizeof x->s);
    assert_int_equal(solve_by(x, "ceta", "sinkhorn", 1.0, 1e-12), OTA_OK);
    for (ota_center center = OTA_CENTER_MEAN; center <= OTA_CENTER_MIDRANGE; center++) {
        y->options.center = center;
        assert_int_equal(solve_by(y, "ceta", "sinkhorn", 1.0, 1e-12), OTA_OK);
        spec_check("TOT-106", farthest(x->p, y->p, 25 * 18), 1e-12);
        spec_check("TOT-106", fabs((double)(x->result.rounds - y->result.rounds)), 1.0);
    }
    free(x);
    free(y);
}

/* ---- limits of the knobs --------------------------------------------------------------------- */

static void limits(void **unused) {
    (void)unused;
    stage *x = set_stage(14, 9), *y = set_stage(14, 9);
    fill_normal(x, 31);
    memcpy(y->s, x->s, sizeof x->s);
    assert_int_equal(solve_by(x, "softmax", NULL, 1.0, 0.0), OTA_OK);
    assert_int_equal(solve_by(y, "capped:9", "auto", 1.0, 0.0), OTA_OK);
    spec_check_true("DER-02", same_bits(x->p, y->p, 14 * 9));
    static const char *const idle[] = {"elastic:0,7", "elastic:0.7,0"};
    for (int k = 0; k < 2; k++) {
        for (int s = 0; s < 3; s++) {
            assert_int_equal(solve_by(y, idle[k], solvers[s], 1.0, 0.0), OTA_FIXED_ITERS);
            spec_check_true("ELA-09 ELA-07", same_bits(x->p, y->p, 14 * 9));
        }
    }
    assert_int_equal(solve_by(y, "relaxed:1e-9", "auto", 1.0, 0.0), OTA_OK);
    spec_check("DER-01", farthest(x->p, y->p, 14 * 9), 1e-8);
    assert_int_equal(solve_by(x, "ceta", "auto", 1.0, 1e-12), OTA_OK);
    assert_int_equal(solve_by(y, "relaxed:1e9", "auto", 1.0, 1e-12), OTA_OK);
    spec_check("DER-01", farthest(x->p, y->p, 14 * 9), 1e-8);
    assert_int_equal(solve_by(y, "capped:1.5555555555555556", "auto", 1.0, 1e-12), OTA_OK);
    spec_check("DER-02", farthest(x->p, y->p, 14 * 9), 1e-8);
    free(x);
    free(y);
}

static void elastic_is_sinkhorn_at_one(void **unused) {
    (void)unused;
    stage *x = set_stage(11, 13), *y = set_stage(11, 13);
    fill_normal(x, 33);
    memcpy(y->s, x->s, sizeof x->s);
    y->options.rounds = 7;
    assert_int_equal(solve_by(x, "elastic:1,7", "log", 0.3, 0.0), OTA_FIXED_ITERS);
    assert_int_equal(solve_by(y, "ceta", "log", 0.3, 0.0), OTA_FIXED_ITERS);
    spec_check_true("ELA-09", same_bits(x->p, y->p, 11 * 13));
    free(x);
    free(y);
}

static void one_fixed_point(void **unused) {
    (void)unused;
    static const double lambdas[] = {0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 1.9, 1.99};
    stage *x = set_stage(24, 24), *y = set_stage(24, 24);
    fill_normal(x, 41);
    memcpy(y->s, x->s, sizeof x->s);
    assert_int_equal(solve_by(x, "ceta", "newton", 1.0, 1e-14), OTA_OK);
    for (size_t k = 0; k < sizeof lambdas / sizeof lambdas[0]; k++) {
        char method[64];
        snprintf(method, sizeof method, "elastic:%g,4000", lambdas[k]);
        assert_int_equal(solve_by(y, method, "auto", 1.0, 0.0), OTA_FIXED_ITERS);
        spec_check("ELA-11 ELA-15", farthest(x->p, y->p, 24 * 24), 1e-12);
    }
    free(x);
    free(y);
}

/* Rounds that lambda shortens are a path: plans of equal lambda times rounds are near in l1/n. */
static void equal_times(void **unused) {
    (void)unused;
    enum { N = 24 };
    static const struct {
        const char *few, *many;
        double near;
    } times[] = {{"elastic:0.25,4", "elastic:0.05,20", 1.6e-2},
                 {"elastic:0.25,16", "elastic:0.05,80", 3.6e-3}};
    stage *x = set_stage(N, N), *y = set_stage(N, N);
    for (uint64_t draw = 43; draw < 47; draw++) {
        fill_normal(x, draw);
        memcpy(y->s, x->s, sizeof x->s);
        for (int k = 0; k < 2; k++) {
            double apart = 0.0;
            assert_int_equal(solve_by(x, times[k].few, "auto", 1.0, 0.0), OTA_FIXED_ITERS);
            assert_int_equal(solve_by(y, times[k].many, "auto", 1.0, 0.0), OTA_FIXED_ITERS);
            for (int cell = 0; cell < N * N; cell++) apart += fabs(x->p[cell] - y->p[cell]);
            spec_check("DER-06", apart / (double)N, times[k].near);
            assert_true(apart > 0.0);
        }
    }
    free(x);
    free(y);
}

/* Eigenvalues of a symmetric matrix by Jacobi rotations. */
static void eigenvalues(double *a, int n, double *values) {
    for (int sweep = 0; sweep < 60; sweep++) {
        for (int p = 0; p < n; p++) {
            for (int q = p + 1; q < n; q++) {
                if (!(fabs(a[p * n + q]) > 1e-300)) continue;
                const double theta = (a[q * n + q] - a[p * n + p]) / (2.0 * a[p * n + q]);
                const double t =
                    (theta >= 0.0 ? 1.0 : -1.0) / (fabs(theta) + sqrt(theta * theta + 1.0));
                const double c = 1.0 / sqrt(t * t + 1.0), s = t * c;
                for (int k = 0; k < n; k++) {
                    const double x = a[k * n + p], y = a[k * n + q];
                    a[k * n + p] = c * x - s * y;
                    a[k * n + q] = s * x + c * y;
                }
                for (int k = 0; k < n; k++) {
                    const double x = a[p * n + k], y = a[q * n + k];
                    a[p * n + k] = c * x - s * y;
                    a[q * n + k] = s * x + c * y;
                }
            }
        }
    }
    for (int k = 0; k < n; k++) values[k] = a[k * n + k];
}

/* 1 - sigma_k^2 of a doubly stochastic plan, the zero of the constant mode last. */
static void gaps(const stage *x, double *out) {
    const int n = (int)x->n;
    double *a = calloc((size_t)(n * n), sizeof *a);
    assert_non_null(a);
    for (int j = 0; j < n; j++) {
        for (int k = 0; k < n; k++) {
            a[j * n + k] = j == k ? 1.0 : 0.0;
            for (int i = 0; i < n; i++) a[j * n + k] -= x->p[i * n + j] * x->p[i * n + k];
        }
    }
    eigenvalues(a, n, out);
    for (int j = 0; j < n; j++) {
        for (int k = j + 1; k < n; k++) {
            if (out[k] > out[j]) {
                const double swap = out[j];
                out[j] = out[k];
                out[k] = swap;
            }
        }
    }
    free(a);
}

static void predicted_rates(void **unused) {
    (void)unused;
    static const double lambdas[] = {0.05, 0.5, 1.0, 1.25, 1.9};
    stage *x = set_stage(24, 24);
    double gap[24];
    /* The slowest mode stands apart, so that it is soon seen alone. */
    uint64_t seed = 43;
    do {
        fill_normal(x, seed++);
        assert_int_equal(solve_by(x, "ceta", "newton", 0.5, 1e-14), OTA_OK);
        gaps(x, gap);
    } while (gap[21] < 1.1 * gap[22]);
    for (size_t k = 0; k < sizeof lambdas / sizeof lambdas[0]; k++) {
        double predicted = 0.0, errors[2];
        for (int j = 0; j < 23; j++) predicted = fmax(predicted, fabs(1.0 - lambdas[k] * gap[j]));
        /* Late enough for the slowest mode alone, early enough to lie above rounding. */
        const int64_t early = (int64_t)(log(1e-12) / log(predicted)) - 6;
        for (int late = 0; late < 2; late++) {
            char method[64];
            snprintf(method, sizeof method, "elastic:%g,%d", lambdas[k], (int)(early + 6 * late));
            assert_int_equal(solve_by(x, method, "log", 0.5, 0.0), OTA_FIXED_ITERS);
            errors[late] = 0.0;
            for (int j = 0; j < 24; j++)
                errors[late] += (x->column[j] - 1.0) * (x->column[j] - 1.0);
        }
        const double measured = pow(errors[1] / errors[0], 1.0 / 12.0);
        spec_check("DER-07 TOT-103", fabs(measured / predicted - 1.0), 0.02);
    }
    free(x);
}

static void relaxed_constant_mode(void **unused) {
    (void)unused;
    stage *x = set_stage(24, 24), *y = set_stage(24, 24);
    fill_normal(x, 47);
    memcpy(y->s, x->s, sizeof x->s);
    /* rho / (rho + 1) = .999: the constant mode alone would need some 20,000 rounds. */
    assert_int_equal(solve_by(x, "relaxed:999", "sinkhorn", 1.0, 1e-12), OTA_OK);
    assert_int_equal(solve_by(y, "relaxed:999", "newton", 1.0, 1e-12), OTA_OK);
    spec_check("DER-10", (double)x->result.rounds, 150.0);
    spec_check("DER-10", farthest(x->p, y->p, 24 * 24), 3e-11);
    free(x);
    free(y);
}

/* ---- schedules, relaxation, orders ----------------------------------------------------------- */

static void relaxation(void **unused) {
    (void)unused;
    stage *x = set_stage(48, 48);
    fill_uniform(x, 51, 1.0);
    assert_int_equal(solve_by(x, "ceta", "sinkhorn", 0.015, 1e-10), OTA_OK);
    const double plain = (double)x->result.rounds;
    double gap[SIZE_LIMIT];
    gaps(x, gap);
    x->options.relaxation = 2.0 / (2.0 - (1.0 - gap[46]) - (1.0 - gap[0]));
    assert_int_equal(solve_by(x, "ceta", "sinkhorn", 0.015, 1e-10), OTA_OK);
    spec_check("DER-08", (double)x->result.rounds, plain / 1.4);
    x->options.relaxation = 0.0;
    x->options.relaxation_auto = 1;
    assert_int_equal(solve_by(x, "ceta", "sinkhorn", 0.015, 1e-10), OTA_OK);
    spec_check("DER-09", (double)x->result.rounds, plain / 3.0);
    free(x);
}

/* At the best omega the one slow mode changes its sign on the way down: a residual far below its neighbours is no
 * reason to call the next ones diverging. */
static void relaxation_outlives_a_dip(void **unused) {
    (void)unused;
    stage *x = set_stage(24, 24);
    for (unsigned kernel = 0; kernel < 150; kernel++) {
        fill_normal(x, 100 + kernel);
        for (int k = 0; k < 24 * 24; k++) {
            const bool apart = (k / 24 < 12) != (k % 24 < 12);
            x->s[k] = 0.7 * x->s[k] - (apart ? 4.8 : 0.0);
        }
        x->options.relaxation_auto = 0;
        assert_int_equal(solve_by(x, "ceta", "log", 1.0, 1e-12), OTA_OK);
        const double plain = (double)x->result.rounds;
        x->options.relaxation_auto = 1;
        assert_int_equal(solve_by(x, "ceta", "log", 1.0, 1e-12), OTA_OK);
        spec_check("DER-09", (double)x->result.rounds, plain / 6.6);
    }
    free(x);
}

static void annealing(void **unused) {
    (void)unused;
    stage *x = set_stage(32, 32), *y = set_stage(32, 32);
    fill_uniform(x, 53, 1.0);
    memcpy(y->s, x->s, sizeof x->s);
    y->options.anneal_start = 1.0;
    for (int keep = 0; keep < 2; keep++) {
        y->options.anneal_keep_scaling = keep;
        assert_int_equal(solve_by(x, "ceta", "newton", 0.05, 1e-12), OTA_OK);
        assert_int_equal(solve_by(y, "ceta", "sinkhorn", 0.05, 1e-12), OTA_OK);
        spec_check("ELA-12", farthest(x->p, y->p, 32 * 32), 1e-9);
    }
    /* The note's own use: sixty elastic rounds while the temperature falls from 1 to .01. */
    static const double lambdas[] = {0.25, 0.5, 1.0};
    static const double about[2][3] = {{0.33, 0.15, 0.07}, {0.89, 0.67, 0.35}};
    x->options.anneal_start = 1.0;
    x->options.anneal_factor = pow(0.01, 1.0 / 59.0);
    for (int keep = 0; keep < 2; keep++) {
        x->options.anneal_keep_scaling = keep;
        for (int k = 0; k < 3; k++) {
            char method[64];
            snprintf(method, sizeof method, "elastic:%g,60", lambdas[k]);
            assert_int_equal(solve_by(x, method, "auto", 0.01, 0.0), OTA_FIXED_ITERS);
            /* Other costs of the same kind: the printed figure up to a factor of two. */
            spec_check("ELA-19", fabs(log2(imbalance(x) / about[keep][k])), 1.0);
        }
    }
    free(x);
    free(y);
}

static void printed_orders(void **unused) {
    (void)unused;
    stage *x = set_stage(8, 8);
    fill_normal(x, 57);
    x->problem.end = OTA_SIDE_COLUMNS;
    for (int64_t rounds = 1; rounds < 4; rounds++) {
        double v[8], u[8], worst = 0.0, columns = 0.0;
        x->options.rounds = rounds;
        assert_int_equal(solve_by(x, "ceta", "sinkhorn", 0.5, 0.0), OTA_FIXED_ITERS);
        for (int j = 0; j < 8; j++) v[j] = 1.0;
        for (int64_t k = 0; k < rounds; k++) {
            for (int i = 0; i < 8; i++) {
                double sum = 0.0;
                for (int j = 0; j < 8; j++) sum += exp(x->s[i * 8 + j] / 0.5) * v[j];
                u[i] = 1.0 / sum;
            }
            for (int j = 0; j < 8; j++) {
                double sum = 0.0;
                for (int i = 0; i < 8; i++) sum += exp(x->s[i * 8 + j] / 0.5) * u[i];
                v[j] = 1.0 / sum;
            }
        }
        for (int i = 0; i < 8; i++) {
            for (int j = 0; j < 8; j++) {
                worst =
                    fmax(worst, fabs(x->p[i * 8 + j] - u[i] * exp(x->s[i * 8 + j] / 0.5) * v[j]));
            }
        }
        for (int j = 0; j < 8; j++) columns = fmax(columns, fabs(x->column[j] - 1.0));
        spec_check("CETA-07 ELA-10", worst, 1e-13);
        spec_check("CETA-07", columns, 1e-13);
        spec_check_true("CETA-07", x->result.row_error > 1e-4);
    }
    x->options.rounds = 0;
    assert_int_equal(solve_by(x, "ceta", "sinkhorn", 0.5, 1e-10), OTA_OK);
    spec_check("CETA-07", fmax(x->result.row_error, x->result.column_error), 1e-10);
    free(x);
}

static void both_tolerances(void **unused) {
    (void)unused;
    stage *x = set_stage(24, 24);
    fill_normal(x, 59);
    assert_int_equal(solve_by(x, "ceta", "log", 1.0, 1e-6), OTA_OK);
    const int64_t marginal_only = x->result.rounds;
    x->options.tolerance_scaling = 1e-11;
    assert_int_equal(solve_by(x, "ceta", "log", 1.0, 1e-6), OTA_OK);
    spec_check_true("TOT-14", x->result.rounds > marginal_only);
    x->options.tolerance_scaling = 1e3;
    assert_int_equal(solve_by(x, "ceta", "log", 1.0, 1e-6), OTA_OK);
    spec_check_true("TOT-14", x->result.rounds == marginal_only);
    free(x);
}

/* ---- supports and masses --------------------------------------------------------------------- */

static void forbid_above(stage *x, int64_t shift) {
    for (int64_t i = 0; i < x->n; i++) {
        for (int64_t j = i + 1 - shift; j < x->m; j++) x->s[i * x->m + j] = -INFINITY;
    }
}

static void causal_means_identity(void **unused) {
    (void)unused;
    for (int k = 0; k < SOLVERS; k++) {
        stage *x = set_stage(12, 12);
        fill_normal(x, 71);
        forbid_above(x, 0);
        assert_int_equal(solve_by(x, "ceta", solvers[k], 1.0, 0.0), OTA_INFEASIBLE);
        spec_check_true("CETA-24 DER-24", x->result.unusable_pairs == 66);
        spec_check_true("CETA-24", strstr(x->result.sentence, "66 of 78") != NULL &&
                                       strstr(x->result.sentence, "identity") != NULL);
        x->options.prune = 1;
        assert_int_equal(solve_by(x, "ceta", solvers[k], 1.0, 0.0), OTA_OK);
        double worst = 0.0;
        for (int64_t i = 0; i < 12; i++) {
            for (int64_t j = 0; j < 12; j++)
                worst = fmax(worst, fabs(x->p[i * 12 + j] - (i == j ? 1.0 : 0.0)));
        }
        spec_check("CETA-24", worst, 0.0);
        assert_int_equal(x->result.pruned_pairs, 66);
        x->options.prune = 0;
        assert_int_equal(solve_by(x, "capped:1.5", solvers[k], 1.0, 0.0), OTA_OK);
        spec_check("CETA-26 DER-02", x->result.column_error, 1e-9);
        free(x);
        x = set_stage(5, 5);
        forbid_above(x, 1);
        assert_int_equal(solve_by(x, "ceta", solvers[k], 1.0, 0.0), OTA_INFEASIBLE);
        spec_check_true("CETA-25", x->result.sentence[0] != '\0');
        free(x);
    }
}

static void sparse_plans_need_no_total_support(void **unused) {
    (void)unused;
    stage *x = set_stage(12, 12);
    fill_normal(x, 73);
    forbid_above(x, 0);
    assert_int_equal(solve_by(x, "sparsemax/exact", "auto", 1.0, 0.0), OTA_OK);
    for (int64_t i = 0; i < 12; i++) spec_check("CETA-24", fabs(x->p[i * 12 + i] - 1.0), 1e-8);
    free(x);
}

static void masses(void **unused) {
    (void)unused;
    stage *x = set_stage(3, 2);
    x->given_masses = true;
    x->mu[0] = 1.0, x->mu[1] = 2.0, x->mu[2] = 0.0;
    x->nu[0] = 1.0, x->nu[1] = 2.5;
    assert_int_equal(solve_by(x, "ceta", "auto", 1.0, 0.0), OTA_INFEASIBLE);
    spec_check_true("TOT-08", strstr(x->result.sentence, "add up to") != NULL);
    x->nu[1] = 2.0;
    for (int k = 0; k < SOLVERS; k++) {
        assert_int_equal(solve_by(x, "ceta", solvers[k], 1.0, 0.0), OTA_OK);
        spec_check("TOT-08 TOT-12",
                   fabs(x->column[0] - 1.0) + fabs(x->column[1] - 2.0) + fabs(x->row[1] - 2.0) +
                       x->row[2],
                   1e-8);
    }
    x->nu[0] = 0.0, x->nu[1] = 3.0;
    assert_int_equal(solve_by(x, "ceta", "auto", 1.0, 0.0), OTA_OK);
    assert_true(x->p[0] <= 0.0 && x->p[2] <= 0.0);
    x->nu[1] = 1.0;
    assert_int_equal(solve_by(x, "capped:2", "auto", 1.0, 0.0), OTA_INFEASIBLE);
    free(x);
}

/* ---- bits and interruptions ------------------------------------------------------------------ */

static void same_bits_for_any_threads(void **unused) {
    (void)unused;
    static const char *const methods[] = {"softmax/exact", "softmax/relaxed:0.5",
                                          "sparsemax/capped:1.5", "entmax:3/capped:1.7"};
    static const double temperatures[] = {0.2, 0.2, 0.2, 0.002};
    for (size_t k = 0; k < sizeof methods / sizeof methods[0]; k++) {
        for (int s = 0; s < SOLVERS; s++) {
            if (k >= 2 && s > 0) continue;
            stage *x = set_stage(64, 40), *y = set_stage(64, 40);
            fill_normal(x, 91);
            memcpy(y->s, x->s, sizeof x->s);
            x->options.threads = 1;
            y->options.threads = 5;
            const ota_status status = solve_by(x, methods[k], solvers[s], temperatures[k], 1e-8);
            assert_int_equal(solve_by(y, methods[k], solvers[s], temperatures[k], 1e-8), status);
            spec_check_true("TOT-111", same_bits(x->p, y->p, 64 * 40) && same_bits(x->g, y->g, 40));
            free(x);
            free(y);
        }
    }
}

static void powers_of_two(void **unused) {
    (void)unused;
    for (int s = 0; s < 4; s++) {
        stage *x = set_stage(17, 23), *y = set_stage(17, 23);
        fill_normal(x, 93);
        for (int k = 0; k < 17 * 23; k++) y->s[k] = 0x1p-9 * x->s[k];
        assert_int_equal(solve_by(x, "ceta", solvers[s], 0.25, 1e-9), OTA_OK);
        assert_int_equal(solve_by(y, "ceta", solvers[s], 0x1p-11, 1e-9), OTA_OK);
        spec_check_true("TOT-09", same_bits(x->p, y->p, 17 * 23));
        free(x);
        free(y);
    }
}

static void interruptions(void **unused) {
    (void)unused;
    for (int k = 0; k < SOLVERS; k++) {
        stage *x = set_stage(40, 40);
        int cancel = 1;
        fill_uniform(x, 95, 1.0);
        x->options.deadline_ns = 1;
        assert_int_equal(solve_by(x, "ceta", solvers[k], 0.01, 0.0), OTA_TIMEOUT);
        x->options.deadline_ns = 0;
        x->options.cancel = &cancel;
        assert_int_equal(solve_by(x, "ceta", solvers[k], 0.01, 0.0), OTA_CANCELLED);
        x->options.cancel = NULL;
        x->options.max_rounds = 1;
        assert_int_equal(solve_by(x, "ceta", solvers[k], 0.01, 0.0), OTA_NOT_CONVERGED);
        assert_true(isnan(x->p[0]));
        x->options.allow_partial = 1;
        assert_int_equal(solve_by(x, "ceta", solvers[k], 0.01, 0.0), OTA_PARTIAL);
        assert_true(x->p[0] >= 0.0 && x->result.column_error > 1e-9);
        free(x);
    }
}

TEST_FILE(test_coupled) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_exact),
        cmocka_unit_test(golden_elastic),
        cmocka_unit_test(golden_relaxed),
        cmocka_unit_test(golden_balanced_example),
        cmocka_unit_test(exact_plans),
        cmocka_unit_test(two_starts_agree),
        cmocka_unit_test(solvers_agree),
        cmocka_unit_test(linear_and_log_agree),
        cmocka_unit_test(keys_without_mass_close_in_the_first_round),
        cmocka_unit_test(absorption),
        cmocka_unit_test(centring_changes_nothing),
        cmocka_unit_test(limits),
        cmocka_unit_test(elastic_is_sinkhorn_at_one),
        cmocka_unit_test(one_fixed_point),
        cmocka_unit_test(equal_times),
        cmocka_unit_test(predicted_rates),
        cmocka_unit_test(relaxed_constant_mode),
        cmocka_unit_test(relaxation),
        cmocka_unit_test(relaxation_outlives_a_dip),
        cmocka_unit_test(annealing),
        cmocka_unit_test(printed_orders),
        cmocka_unit_test(both_tolerances),
        cmocka_unit_test(causal_means_identity),
        cmocka_unit_test(sparse_plans_need_no_total_support),
        cmocka_unit_test(masses),
        cmocka_unit_test(same_bits_for_any_threads),
        cmocka_unit_test(powers_of_two),
        cmocka_unit_test(interruptions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
