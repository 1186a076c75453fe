/* Group J and the studies: the sources' worked examples and the experiments that the errata settle [TOT-19,
 * 113..117, CETA-31..33, ELA-17, 18, LIT-33, BLOG-04]. S, P [n][m]. */
#include "src/base/program/system_program.h"
#include "statements/check.h"

/* ---- C.4 ---- */

enum { ROWS = 3, COLUMNS = 4 };

/* Q [3][2], K [4][2] of the example give these scores. */
const double statement_example_scores[12] = {1.0,  0.0, 1.0, -1.0, 0.0, 1.0,
                                             -1.0, 1.0, 1.0, 1.0,  0.0, 0.0};

static double example_totals(trial *t) {
    static const double totals[3] = {6.80444310, 6.80444310, 7.43656366};
    double most = 0.0;
    head *h = statement_plan(t, ROWS, COLUMNS, copy_of(t, statement_example_scores, 12), "softmax",
                             1.0, 0.0);
    for (int i = 0; i < ROWS; i++) most = worse(most, fabs(exp(h->lse[i]) - totals[i]));
    return most;
}

static double example_rows(trial *t) {
    static const double golden[12] = {.399486, .146963, .399486, .054065, .146963, .399486,
                                      .054065, .399486, .365529, .365529, .134471, .134471};
    return farthest(statement_plan(t, ROWS, COLUMNS, copy_of(t, statement_example_scores, 12),
                                   "softmax", 1.0, 0.0)
                        ->p,
                    golden, 12);
}

/* Z_1 = Z_2 = 6.873 as printed: the first row of exp(S)/Z then sums to. */
static double example_printed(trial *t) {
    head *h = statement_plan(t, ROWS, COLUMNS, copy_of(t, statement_example_scores, 12), "softmax",
                             1.0, 0.0);
    return fabs(exp(h->lse[0]) / 6.873 - 1.0);
}

static double example_shifted(trial *t) {
    double *moved = copy_of(t, statement_example_scores, 12);
    for (int j = 0; j < COLUMNS; j++) moved[j] -= 8.0;
    return farthest(statement_plan(t, ROWS, COLUMNS, copy_of(t, statement_example_scores, 12),
                                   "softmax", 1.0, 0.0)
                        ->p,
                    statement_plan(t, ROWS, COLUMNS, moved, "softmax", 1.0, 0.0)->p, 12);
}

static double example_balanced(trial *t) {
    static const double golden[4] = {.316858, .116565, .499039, .067538};
    head *h = statement_plan(t, ROWS, COLUMNS, copy_of(t, statement_example_scores, 12),
                             "softmax/exact", 1.0, 1e-12);
    double most = farthest(h->p, golden, 4);
    for (int j = 0; j < COLUMNS; j++) most = worse(most, fabs(h->columns[j] - 0.75));
    return most;
}

/* ---- C.3 ---- */

const double statement_example_first_layer[6] = {.40, .35, .25, .25, .40, .35};
const double statement_example_second_layer[9] = {.5, .3, .2, .2, .5, .3, .3, .2, .5};

/* S1 S2, the product that the shapes allow, and the determinant of its log ratios: not 0, so rank 2. */
static double obstruction(trial *t) {
    static const double golden[6] = {.345, .345, .310, .310, .345, .345};
    double product[6], ratio[4];
    if (ota_compose(statement_example_first_layer, statement_example_second_layer, 2, 3, 3, product,
                    NULL, NULL) < 0)
        return NAN;
    seen(t, product, 6);
    if (ota_log_ratios(product, 2, 3, ratio, NULL, NULL) < 0) return NAN;
    const double determinant = ratio[0] * ratio[3] - ratio[1] * ratio[2];
    const double formula =
        log(.345 / .345) * log(.345 / .310) - log(.310 / .345) * log(.345 / .310);
    double most = farthest(product, golden, 6);
    most = worse(most, fabs(determinant - formula));
    return worse(most, fabs(determinant - .011443) - 5e-7);
}

/* The printed product against the only one there is. */
static double obstruction_printed(trial *t) {
    static const double printed[6] = {.335, .355, .310, .268, .330, .402};
    double product[6];
    (void)t;
    if (ota_compose(statement_example_first_layer, statement_example_second_layer, 2, 3, 3, product,
                    NULL, NULL) < 0)
        return NAN;
    return farthest(product, printed, 6);
}

/* J v = v/2 at the middle of two symbols, v = (1, -1). */
static double tight_example(trial *t) {
    const double p[2] = {0.5, 0.5}, v[2] = {1.0, -1.0}, half[2] = {0.5, -0.5};
    double product[2];
    if (ota_fisher_product(p, v, 2, 1.0, product, NULL, NULL) < 0) return NAN;
    return farthest(seen(t, product, 2), half, 2);
}

static double tight_ratio(trial *t) {
    const double z[2] = {0.0, 0.0}, w[2] = {1e-3, -1e-3};
    ota_lipschitz x;
    if (ota_lipschitz_of(z, w, OTA_F64, 2, 1.0, &x, NULL, NULL) < 0) return NAN;
    return seen_number(t, x.l1 / x.printed);
}

/* ---- receivers ---- */

enum { N = 24, PAIRS = N * N };

/* All queries prefer key 0 by 60: softmax imbalance n - 1, exact 0. */
static double collapse_softmax(trial *t) {
    double *s = normals(t, PAIRS, 0.1);
    for (int i = 0; i < N; i++) s[i * N] += 60.0;
    head *h = statement_plan(t, N, N, s, "softmax", 1.0, 0.0);
    return fabs(h->certificate.delta - (N - 1));
}

static double collapse_exact(trial *t) {
    double *s = normals(t, PAIRS, 0.1);
    for (int i = 0; i < N; i++) s[i * N] += 60.0;
    head *h = statement_plan(t, N, N, s, "ceta", 1.0, 1e-12);
    return h->certificate.delta;
}

/* Scores +-a/2 on I and a cyclic shift, -60 elsewhere, against the two swapped: 2n tanh(a/2). */
static double two_permutations(trial *t) {
    double most = 0.0;
    static const int64_t sizes[] = {3, 2, 5, 7};
    for (int k = 0; k < 12; k++) {
        const int64_t n = sizes[k % 4];
        const double amplitude = k == 0 ? 3.0 : between(t, 0.2, 4.0);
        double *s = numbers(t, n * n), *other = numbers(t, n * n), l1 = 0.0;
        for (int64_t at = 0; at < n * n; at++) {
            const bool on = at / n == at % n, next = (at / n + 1) % n == at % n;
            s[at] = on ? amplitude / 2.0 : next ? -amplitude / 2.0 : -60.0;
            other[at] = on ? -amplitude / 2.0 : next ? amplitude / 2.0 : -60.0;
        }
        head *p = statement_plan(t, n, n, s, "ceta", 1.0, 1e-13);
        head *q = statement_plan(t, n, n, other, "ceta", 1.0, 1e-13);
        for (int64_t at = 0; at < n * n; at++) l1 += fabs(p->p[at] - q->p[at]);
        most = worse(most, fabs(l1 - 2.0 * (double)n * tanh(amplitude / 2.0)));
    }
    return most;
}

/* One key raised by a growing shift: imbalance of softmax grows to n - 1. Least step up, end value. */
static double sink_softmax(trial *t) {
    double *s = normals(t, PAIRS, 1.0), last = 0.0, least = HUGE_VAL;
    for (int shift = 2; shift <= 20; shift += 2) {
        double *moved = copy_of(t, s, PAIRS);
        for (int i = 0; i < N; i++) moved[i * N + 3] += shift;
        const double delta = statement_plan(t, N, N, moved, "softmax", 1.0, 0.0)->certificate.delta;
        if (shift > 2) least = fmin(least, delta - last);
        last = delta;
    }
    return fmin(seen_too(t, last / (N - 1)), least > 0.0 ? 1.0 : 0.0);
}

static double sink_exact(trial *t) {
    double *s = normals(t, PAIRS, 1.0), most = 0.0;
    for (int shift = 0; shift <= 20; shift += 4) {
        double *moved = copy_of(t, s, PAIRS);
        for (int i = 0; i < N; i++) moved[i * N + 3] += shift;
        most = worse(most, statement_plan(t, N, N, moved, "ceta", 1.0, 1e-11)->certificate.delta);
    }
    return most;
}

/* ---- elastic ---- */

static double l1_between(const double *p, const double *q) {
    double sum = 0.0;
    for (int k = 0; k < PAIRS; k++) sum += fabs(p[k] - q[k]);
    return sum / (double)N;
}

static double golden_elastic(trial *t) {
    static const double plan[9] = {0.503371415180791, 0.149448862475477, 0.347179722343732,
                                   0.113146046033052, 0.67472513917052,  0.212128814796428,
                                   0.400519821588256, 0.323238110907315, 0.276242067504429};
    double s[9] = {1, 0, 0, 0, 2, 0, 1, 1, 0};
    head *h = statement_plan(t, 3, 3, s, "elastic:0.5,2", 1.0, 0.0);
    return worse(farthest(h->p, plan, 9), fabs(h->certificate.delta - 0.164449395355411));
}

/* Imbalance along T at lambda .25, over the prediction of the slowest mode: falls at every step, and at the
 * end by |1 - lambda (1 - sigma_2^2)| a step. Two groups of rows and columns keep that mode apart. */
static double elastic_sweep(trial *t) {
    static const char *const methods[] = {"elastic:0.25,4", "elastic:0.25,8", "elastic:0.25,16",
                                          "elastic:0.25,150", "elastic:0.25,151"};
    double *s = normals(t, PAIRS, 1.0), delta[5], most = 0.0;
    for (int k = 0; k < PAIRS; k++) s[k] -= (k / N < N / 2) != (k % N < N / 2) ? 2.0 : 0.0;
    head *exact = statement_plan(t, N, N, s, "softmax/exact", 1.0, 1e-12);
    double last = statement_plan(t, N, N, s, "softmax", 1.0, 0.0)->certificate.delta;
    ota_coupling_spectrum spectrum;
    /* The smallest value may be hard to tell from its neighbours; at this lambda it does not decide. */
    const ota_status status = ota_coupling_spectrum_of(exact->p, N, N, 0, &spectrum, NULL, NULL);
    if (status != OTA_OK && (status != OTA_NOT_CONVERGED || !(spectrum.second_residual <= 1e-5))) {
        return t->fault != 0.0 ? HUGE_VAL : NAN;
    }
    for (int k = 0; k < 5; k++) {
        delta[k] = statement_plan(t, N, N, s, methods[k], 1.0, 0.0)->certificate.delta;
        if (!(delta[k] < last)) return HUGE_VAL;
        last = delta[k];
    }
    const double predicted = ota_rate_one_sided(0.25, spectrum.second, spectrum.least);
    most = fabs(delta[4] / delta[3] / predicted - 1.0);
    return seen_too(t, most);
}

/* Distance of elastic:0.25,8 from the nearest relaxed plan, over the distance softmax - exact. */
static double elastic_against_relaxed(trial *t, bool near) {
    double *s = normals(t, PAIRS, 1.0), least = HUGE_VAL;
    head *elastic = statement_plan(t, N, N, s, "elastic:0.25,8", 1.0, 0.0);
    head *soft = statement_plan(t, N, N, s, "softmax", 1.0, 0.0);
    head *exact = statement_plan(t, N, N, s, "softmax/exact", 1.0, 1e-10);
    for (int k = 0; k < 25; k++) {
        head *h = statement_head(t, N, N, s);
        if (ota_method_parse("relaxed:1", &h->problem, &h->options, NULL) < 0) return NAN;
        h->problem.strength = pow(10.0, -0.6 + 0.1 * k);
        statement_solve(t, h, NULL, 1.0, 1e-9);
        least = fmin(least, l1_between(elastic->p, h->p));
    }
    const double whole = l1_between(soft->p, exact->p);
    return seen_too(t, near ? least / whole : least);
}

static double elastic_near_relaxed(trial *t) { return elastic_against_relaxed(t, true); }
static double elastic_not_relaxed(trial *t) { return elastic_against_relaxed(t, false); }

/* ---- gallery, the post, complexity ---- */

static double gallery(trial *t) {
    static const char *const methods[] = {"softmax", "sparsemax", "entmax:1.5"};
    static const double golden[3][4] = {
        {0.45637199902896, 0.276803609645408, 0.205061157575788, 0.061763233749843},
        {0.75, 0.25, 0.0, 0.0},
        {0.592807227494524, 0.270337349616227, 0.136855422889249, 0.0}};
    double s[4] = {1.0, 0.5, 0.2, -1.0}, alibi[4], formula[4], most = 0.0;
    for (int k = 0; k < 3; k++) {
        most = worse(most,
                     farthest(statement_plan(t, 1, 4, s, methods[k], 1.0, 0.0)->p, golden[k], 4));
    }
    head *h = statement_head(t, 1, 4, s);
    statement_add_term(h, OTA_TERM_ALIBI, (ota_array){.data = NULL}, 0.5);
    statement_solve(t, h, "softmax", 1.0, 0.0);
    for (int j = 0; j < 4; j++) alibi[j] = s[j] - 0.5 * j;
    softmax_formula(alibi, 4, 1.0, formula);
    return worse(most, farthest(h->p, formula, 4));
}

static double post_demonstration(trial *t) {
    static const double by_column[4] = {.2689, .5, .7311, .5};
    static const double by_row[4] = {.7311, .2689, .8808, .1192};
    double s[4] = {1.0, 0.0, 2.0, 0.0};
    head *column = statement_head(t, 2, 2, s);
    column->problem.axis = OTA_AXIS_COLUMNS;
    statement_solve(t, column, "softmax", 1.0, 0.0);
    head *row = statement_plan(t, 2, 2, s, "softmax", 1.0, 0.0);
    return worse(farthest(column->p, by_column, 4), farthest(row->p, by_row, 4));
}

static double processor_seconds(void) { return 1e-9 * (double)ota_thread_time_ns(); }

double statement_forward_seconds(trial *t, int64_t size, int64_t rounds) {
    const size_t used = t->used;
    const int64_t n = rounds > 0 ? size : 8;
    double least = HUGE_VAL, *s = uniforms(t, n * size, -2.0, 2.0), *p = numbers(t, n * size);
    ota_problem problem = {.size = sizeof problem};
    problem.scores = ota_array_of(s, OTA_F64, 1, 1, n, size);
    if (rounds > 0) problem.columns = OTA_COLUMNS_EXACT;
    const ota_options options = {.size = sizeof options, .threads = 1, .rounds = rounds};
    ota_arrays arrays = {.size = sizeof arrays};
    arrays.coupling = ota_array_of(p, OTA_F64, 1, 1, n, size);
    ota_plan *plan = NULL;
    if (ota_plan_create(&plan, &problem, 0, &options, NULL) != OTA_OK) return NAN;
    for (int k = 0; k < 7; k++) {
        const double begun = processor_seconds();
        if (ota_forward(plan, &arrays, NULL, NULL) < 0) least = NAN;
        least = fmin(least, processor_seconds() - begun);
    }
    ota_plan_free(plan);
    t->used = used;
    return least;
}

/* Least squares slope of y against x. */
static double slope_of(const double *x, const double *y, int count) {
    const double mean_x = sum_of(x, count) / count, mean_y = sum_of(y, count) / count;
    double up = 0.0, square = 0.0;
    for (int k = 0; k < count; k++) {
        up += (x[k] - mean_x) * (y[k] - mean_y);
        square += (x[k] - mean_x) * (x[k] - mean_x);
    }
    return up / square;
}

/* |slope of log time against log V - what it must be| over four V: of rows, or of one balanced round, what eight more
 * rounds add. Other work on the machine only adds time, so that a V has the least of its times so far. Where a kernel
 * of V x V leaves a cache, which other work may share, the line bends upwards, and downwards where a round has more to
 * begin than to compute: a balanced set of V has both ends, and tries take turns between two sets. */
static double complexity(trial *t, bool balanced) {
    static const int64_t sizes[3][4] = {
        {1024, 4096, 16384, 65536}, {96, 160, 320, 768}, {64, 128, 256, 512}};
    double least = HUGE_VAL, few[3][4], many[3][4], keys[4], logs[4];
    for (int k = 0; k < 12; k++) few[k / 4][k % 4] = many[k / 4][k % 4] = HUGE_VAL;
    for (int tries = 0; tries < 40 && !(least <= 0.1); tries++) {
        const int set = balanced ? 1 + tries % 2 : 0;
        for (int k = 0; k < 4; k++) {
            const int64_t size = sizes[set][k];
            double *const of_few = &few[set][k], *const of_many = &many[set][k];
            *of_many = fmin(*of_many, statement_forward_seconds(t, size, balanced ? 12 : 0));
            if (balanced) *of_few = fmin(*of_few, statement_forward_seconds(t, size, 4));
            keys[k] = log((double)size);
            logs[k] = log(balanced ? (*of_many - *of_few) / 8.0 : *of_many);
        }
        least = fmin(least, fabs(slope_of(keys, logs, 4) - (balanced ? 2.0 : 1.0)));
    }
    return seen_number(t, least);
}

static double semi_relaxed_cost(trial *t) { return complexity(t, false); }
static double balanced_cost(trial *t) { return complexity(t, true); }

static const statement_check table[] = {
    AT_MOST("TOT-19", "8 softmax rows of V keys: |log-log slope of time - 1|", semi_relaxed_cost,
            0.15),
    AT_MOST("TOT-19", "a balanced round, V x V: |log-log slope of time - 2|", balanced_cost, 0.15),
    AT_MOST("TOT-113", "Z of example C.4", example_totals, 5e-9),
    AT_MOST("TOT-113", "rows of example C.4", example_rows, 5e-7),
    PRINTED_AT_MOST("TOT-113", "Z_1 = 6.873: the first row then sums to 1 but for (E3)",
                    example_printed, 1e-3),
    AT_MOST("TOT-114", "row 1 of C shifted by 8 moves the plan by", example_shifted, 1e-15),
    AT_MOST("TOT-115", "balanced counterpart: first row, columns 3/4", example_balanced, 5e-7),
    AT_MOST("TOT-116", "S1 S2 of example C.3 and its determinant .011443", obstruction, 1e-15),
    PRINTED_AT_MOST("TOT-116", "the printed S2 S1, off the only product by (E4)",
                    obstruction_printed, 5e-4),
    AT_MOST("TOT-117", "J v = v/2 at m = 2", tight_example, 1e-16),
    AT_LEAST("TOT-117", "ratio for a step of 1e-3", tight_ratio, 1.0 - 1e-6),
    AT_MOST("CETA-31", "collapsed receivers: softmax imbalance less n - 1", collapse_softmax,
            1e-12),
    AT_MOST("CETA-31", "... exact", collapse_exact, (double)N * 1e-12),
    AT_MOST("CETA-32", "two permutations: ||P-Q||_1 - 2n tanh(a/2)", two_permutations, 1e-10),
    AT_MOST("ELA-17", "golden elastic plan and its imbalance", golden_elastic, 1e-14),
    AT_MOST("ELA-17", "imbalance falls along T; last step over its predicted rate, minus 1",
            elastic_sweep, 0.02),
    AT_MOST("ELA-18", "distance to the nearest relaxed plan over softmax - exact",
            elastic_near_relaxed, 0.11),
    AT_LEAST("ELA-18", "... which it is not: distance in l1/n", elastic_not_relaxed, 3e-4),
    AT_MOST("LIT-33", "softmax, sparsemax, entmax, ALiBi on (1, .5, .2, -1)", gallery, 1e-14),
    AT_MOST("BLOG-04", "column and row softmax of the post's 2 x 2", post_demonstration, 5e-5),
    AT_LEAST("CETA-33", "raised key: softmax imbalance grows to (n - 1), share reached",
             sink_softmax, 0.99),
    AT_MOST("CETA-33", "... exact imbalance for every shift", sink_exact, (double)N * 1e-11),
};
CHECK_GROUP(statement_checks_examples, table);
