/* Laws of forward that hold bit for bit or follow from the problem alone: golden values, limits of every
 * knob, powers of two, transposition, order of the rows, one open key. */
#define _GNU_SOURCE /* mmap */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend_wrap.h"
#include "groups.h"
#include "one_head.h"

static const ota_type types[] = {OTA_F64, OTA_F32, OTA_BF16, OTA_F16};

/* ---- golden values ------------------------------------------------------------------------------- */

static const double golden_scores[9] = {1, 0, 0, 0, 2, 0, 1, 1, 0};

static void golden_plans(void **unused) {
    (void)unused;
    static const struct {
        const char *ids, *method;
        double temperature;
        double plan[9], tolerance;
    } table[] = {
        {"ELA-02 LIT-01 LIT-09",
         "softmax",
         1,
         {0.576116884765829, 0.211941557617085, 0.211941557617085, 0.106506978919201,
          0.786986042161599, 0.106506978919201, 0.422318798251518, 0.422318798251518,
          0.155362403496964},
         2e-15},
        {"ELA-03 CETA-02",
         "softmax/exact",
         1,
         {0.480972506559231, 0.12063642777399, 0.398391065666778, 0.12063642777399,
          0.607743231915607, 0.271620340310403, 0.398391065666778, 0.271620340310403,
          0.329988594022818},
         1e-12},
        {"CETA-02 TOT-08",
         "softmax/exact",
         0.5,
         {0.528760829271776, 0.031824890068707, 0.439414280659517, 0.031824890068707,
          0.772754318396531, 0.195420791534762, 0.439414280659517, 0.195420791534762,
          0.365164927805721},
         1e-12},
        {"ELA-09 ELA-08",
         "softmax/elastic:0.5,2",
         1,
         {0.503371415180791, 0.149448862475477, 0.347179722343732, 0.113146046033052,
          0.67472513917052, 0.212128814796428, 0.400519821588256, 0.323238110907315,
          0.276242067504429},
         2e-15},
        {"DER-01 DER-10",
         "softmax/relaxed:1",
         1,
         {0.533960420320068, 0.168282800438745, 0.297756779241187, 0.113045832314007,
          0.715597254755446, 0.171356912930548, 0.414193387740481, 0.354836517055317,
          0.230970095204202},
         1e-12},
    };
    for (size_t k = 0; k < sizeof table / sizeof table[0]; k++) {
        head *t = head_make(0, table[k].method, 3, 3, golden_scores);
        t->problem.temperature = table[k].temperature;
        t->options.tolerance = 1e-14;
        solved(t);
        spec_check(table[k].ids, distance(t->p, table[k].plan, 9), table[k].tolerance);
    }
    static const double mechanisms[4] = {1, 0.5, 0.2, -1};
    static const double sparse[4] = {0.75, 0.25, 0, 0};
    static const double half[4] = {0.592807227494524, 0.270337349616227, 0.136855422889249, 0};
    static const double soft[4] = {0.45637199902896, 0.276803609645408, 0.205061157575788,
                                   0.061763233749843};
    spec_check("LIT-10 LIT-33",
               distance(solved(head_make(0, "sparsemax", 1, 4, mechanisms))->p, sparse, 4), 1e-15);
    spec_check("LIT-11 LIT-33",
               distance(solved(head_make(0, "entmax:1.5", 1, 4, mechanisms))->p, half, 4), 1e-15);
    head *t = solved(head_make(0, "softmax", 1, 4, mechanisms));
    spec_check("LIT-33 LIT-13", distance(t->p, soft, 4), 1e-15);
    spec_check("LIT-33", fabs(t->lse[0] - 1.784447014697176), 1e-15);
    /* LIT-11: the constant is forced: (a-1) s_j - p_j^(a-1) is one number on the support */
    t = solved(head_make(0, "entmax:1.5", 1, 4, mechanisms));
    double low = INFINITY, high = -INFINITY;
    for (int j = 0; j < 3; j++) {
        const double level = 0.5 * mechanisms[j] - sqrt(t->p[j]);
        low = fmin(low, level);
        high = fmax(high, level);
    }
    spec_check("LIT-11", high - low, 1e-12);
}

static void worked_examples(void **unused) {
    (void)unused;
    /* TOT C.4 as corrected */
    static const double scores[12] = {1, 0, 1, -1, 0, 1, -1, 1, 1, 1, 0, 0};
    static const double plan[12] = {.399486, .146963, .399486, .054065, .146963, .399486,
                                    .054065, .399486, .365529, .365529, .134471, .134471};
    head *t = solved(head_make(0, "softmax", 3, 4, scores));
    spec_check("TOT-113", distance(t->p, plan, 12), 5e-7);
    static const double receivers[4] = {.303993, .303993, .196007, .196007};
    double mean[4];
    for (int j = 0; j < 4; j++) mean[j] = t->receiver[j] / 3.0;
    spec_check("TOT-11", distance(mean, receivers, 4), 5e-7);
    static double first[12];
    memcpy(first, t->p, sizeof first);
    t = head_make(0, "softmax", 3, 4, scores);
    for (int j = 0; j < 4; j++) t->s[j] += 3.0;
    spec_check("TOT-114 TOT-06", distance(solved(t)->p, first, 12), 1e-15);
    t = head_make(0, "softmax/exact", 3, 4, scores);
    t->options.tolerance = 1e-13;
    static const double balanced[4] = {.316858, .116565, .499039, .067538};
    spec_check("TOT-115", distance(solved(t)->p, balanced, 4), 5e-7);
    /* 2 x 2: sigmoid((s11 + s22 - s12 - s21) / 2 tau) */
    static const double diagonal[4] = {2, 0, 0, 1};
    t = head_make(0, "softmax/exact", 2, 2, diagonal);
    t->options.tolerance = 1e-14;
    spec_check("CETA-02", fabs(solved(t)->p[0] - 0.817574476193644), 1e-13);
    /* BLOG: the printed constraint is the column softmax */
    static const double blog[4] = {1, 0, 2, 0};
    t = head_make(0, "softmax", 2, 2, blog);
    t->problem.axis = OTA_AXIS_COLUMNS;
    solved(t);
    const double wanted[4] = {1.0 / (1.0 + exp(1.0)), 0.5, 1.0 / (1.0 + exp(-1.0)), 0.5};
    spec_check("BLOG-02 BLOG-04", distance(t->p, wanted, 4), 2e-16);
}

/* ---- limits of the knobs ------------------------------------------------------------------------- */

static void knobs_at_rest_are_softmax(void **unused) {
    (void)unused;
    static const struct {
        const char *method, *softmax;
        int64_t rounds;
    } table[] = {{"softmax/elastic:0,7", "softmax", 0},
                 {"softmax/elastic:0.7,0", "softmax", 0},
                 {"softmax/exact", "softmax", OTA_NO_ROUNDS},
                 {"softmax/relaxed:3", "softmax", OTA_NO_ROUNDS},
                 {"softmax/capped:1.5", "softmax", OTA_NO_ROUNDS},
                 {"sparsemax/exact", "sparsemax", OTA_NO_ROUNDS}};
    static drawn x, y;
    for (size_t k = 0; k < sizeof table / sizeof table[0]; k++) {
        for (int type = 0; type < 4; type++) {
            recipe w = {.method = table[k].method,
                        .type = types[type],
                        .out_type = types[type],
                        .batch = 1,
                        .heads = 2,
                        .key_heads = 1,
                        .n = 67,
                        .m = 131,
                        .width = 9,
                        .values_width = 5,
                        .spread = 2.0,
                        .seed = 3,
                        .rounds = table[k].rounds,
                        .dense_arrays = true};
            draw(&x, &w);
            w.method = table[k].softmax;
            w.rounds = 0;
            draw(&y, &w);
            assert_int_equal(solve(&x), OTA_FIXED_ITERS);
            assert_int_equal(solve(&y), OTA_OK);
            const size_t outs = (size_t)(2 * 67 * 5) * ota_type_bytes(types[type]);
            const bool same =
                memcmp(x.arrays.out.data, y.arrays.out.data, outs) == 0 &&
                memcmp(x.arrays.coupling.data, y.arrays.coupling.data, 2 * 67 * 131 * 8) == 0;
            if (!same) print_recipe(&x);
            spec_check_true("ELA-07 ELA-09", same);
            put_away(&x);
            put_away(&y);
        }
    }
}

static void loose_knobs_approach_their_limits(void **unused) {
    (void)unused;
    enum { N = 7, M = 9 };
    static double s[N * M], soft[N * M], exact[N * M];
    random_scores(s, N * M, 1.5, 21);
    memcpy(soft, solved(head_make(0, "softmax", N, M, s))->p, sizeof soft);
    head *t = head_make(0, "softmax/exact", N, M, s);
    t->options.tolerance = 1e-13;
    memcpy(exact, solved(t)->p, sizeof exact);
    t = head_make(0, "softmax/capped:100", N, M, s);
    spec_check("DER-02", distance(solved(t)->p, soft, N * M), 16.0 * 0x1p-53);
    t = head_make(0, "softmax/online:100", N, M, s);
    spec_check("CETA-26", distance(solved(t)->p, soft, N * M), 16.0 * 0x1p-53);
    t = head_make(0, "softmax/relaxed:1e-9", N, M, s);
    t->options.tolerance = 1e-12;
    spec_check("DER-01", distance(solved(t)->p, soft, N * M), 1e-7);
    t = head_make(0, "softmax/relaxed:1e7", N, M, s);
    t->options.tolerance = 1e-12;
    spec_check("DER-01", distance(solved(t)->p, exact, N * M), 1e-5);
    /* mean of PV is the mean of V under exact columns */
    double worst = 0.0;
    for (int j = 0; j < M; j++) {
        double sum = 0.0;
        for (int i = 0; i < N; i++) sum += exact[i * M + j];
        worst = fmax(worst, fabs(sum - (double)N / (double)M));
    }
    spec_check("DER-03", worst, 1e-13 * (double)N);
    /* entmax of order 1.001 is nearly softmax, and order 2 is sparsemax */
    t = solved(head_make(0, "entmax:1.001", N, M, s));
    spec_check("LIT-11", distance(t->p, soft, N * M), 5e-3);
    memcpy(exact, solved(head_make(0, "sparsemax", N, M, s))->p, sizeof exact);
    spec_check("LIT-10", distance(solved(head_make(0, "entmax:2", N, M, s))->p, exact, N * M), 0.0);
}

/* Every quantity in units of S times 2^k changes no weight by a bit. */
static void powers_of_two_change_no_bit(void **unused) {
    (void)unused;
    enum { N = 11, M = 13 };
    static double s[N * M], first[N * M];
    random_scores(s, N * M, 1.0, 8);
    for (int k = 0; k < METHODS; k++) {
        for (int power = -20; power <= 20; power += 8) {
            const double by = ldexp(1.0, power);
            for (int scaled = 0; scaled < 2; scaled++) {
                head *t = head_make(0, all_methods[k], N, M, s);
                t->terms[0] = (ota_term){.kind = OTA_TERM_ALIBI, .value = 0.25};
                t->problem.term_count = 1;
                t->problem.temperature = 0.75;
                if (scaled) {
                    for (int q = 0; q < N * M; q++) t->s[q] *= by;
                    t->terms[0].value *= by;
                    t->problem.temperature *= by;
                    t->problem.strength *= by;
                }
                const ota_status status = run_head(t);
                if (status < 0) print_error("%s: %s\n", all_methods[k], t->error.message);
                assert_true(status >= 0);
                if (!scaled) memcpy(first, t->p, sizeof first);
                if (memcmp(first, t->p, sizeof first) != 0)
                    print_error("%s, 2^%d\n", all_methods[k], power);
                spec_check_true("TOT-09", memcmp(first, t->p, sizeof first) == 0);
            }
        }
    }
}

/* Stationarity with a multiplier a row; a closed pair has no weight, whatever its score, and an open one a weight above 0,
 * so that no dual of nonnegativity is needed anywhere. */
static void masked_rows_meet_the_conditions(void **unused) {
    (void)unused;
    enum { N = 5, M = 7 };
    static const double taus[] = {0.2, 1.0, 5.0};
    static double s[N * M];
    unsigned char open[N * M];
    random_scores(s, N * M, 1.0, 91);
    for (int k = 0; k < N * M; k++) open[k] = k % M == k / M || k % 3 != 0;
    for (int q = 0; q < 3; q++) {
        head *t = head_make(0, "softmax", N, M, s);
        t->supports[0].kind = OTA_SUPPORT_BOOLEAN;
        t->supports[0].array = ota_array_of(open, OTA_BOOL, 1, 1, N, M);
        t->problem.support_count = 1;
        t->problem.temperature = taus[q];
        solved(t);
        double stationarity = 0.0, primal = 0.0;
        for (int i = 0; i < N; i++) {
            double sum = 0.0, multiplier = NAN;
            for (int j = 0; j < M; j++) {
                const double p = t->p[i * M + j];
                sum += p;
                spec_check_true("TOT-04", open[i * M + j] ? p > 0.0 : p == 0.0);
                if (!open[i * M + j]) continue;
                const double level = -s[i * M + j] + taus[q] * log(p);
                if (isnan(multiplier)) multiplier = level;
                stationarity = fmax(stationarity, fabs(level - multiplier));
            }
            assert_true(isfinite(multiplier));
            primal = fmax(primal, fabs(sum - 1.0));
        }
        spec_check("TOT-04", stationarity, 1e-12);
        spec_check("TOT-04", primal, 1e-14);
    }
}

/* Rounds of stored scores work on exp(S / eps) up to a range of 600 eps in f64 and 80 eps in f32, on logarithms beyond. */
static void wide_ranges_take_logarithms(void **unused) {
    (void)unused;
    enum { N = 6 };
    static const struct {
        ota_type type;
        double range;
        const char *solver;
    } table[] = {{OTA_F64, 599.0, "sinkhorn"},
                 {OTA_F64, 601.0, "log"},
                 {OTA_F32, 79.0, "sinkhorn"},
                 {OTA_F32, 81.0, "log"}};
    static const double taus[] = {0.25, 1.0, 8.0};
    double s[N * N];
    if (on_other_backend()) skip_because("plain passes form no kernel");
    for (size_t k = 0; k < 3 * (sizeof table / sizeof table[0]); k++) {
        const double tau = taus[k % 3];
        for (int x = 0; x < N * N; x++) s[x] = (x / N + x % N) % 2 ? table[k / 3].range * tau : 0.0;
        head *t = head_make(0, "softmax/exact", N, N, s);
        float narrow[N * N], coupling[N * N];
        for (int x = 0; x < N * N; x++) narrow[x] = (float)s[x];
        if (table[k / 3].type == OTA_F32) {
            t->problem.scores = ota_array_of(narrow, OTA_F32, 1, 1, N, N);
            t->arrays.coupling = ota_array_of(coupling, OTA_F32, 1, 1, N, N);
            t->options.precision = OTA_PRECISION_F32;
        }
        t->problem.temperature = tau;
        t->problem.end = OTA_SIDE_COLUMNS; /* not the rounds on a kernel, which have no range */
        t->options.rounds = 5;
        solved(t);
        if (strcmp(t->result.solver, table[k / 3].solver) != 0)
            print_error("range %g: %s\n", table[k / 3].range, t->result.solver);
        spec_check_true("TOT-105", strcmp(t->result.solver, table[k / 3].solver) == 0);
    }
}

/* A kernel that potentials are absorbed into keeps every entry of the scores' range alone: what a potential from elsewhere takes
 * below all numbers is told. */
static void lost_entries_are_told(void **unused) {
    (void)unused;
    enum { N = 6 };
    double s[N * N], g[N];
    if (on_other_backend()) skip_because("plain passes form no kernel");
    for (int x = 0; x < N * N; x++) s[x] = x / N == x % N ? 0.0 : -500.0;
    for (int j = 0; j < N; j++) g[j] = j < 2 ? -400.0 : 0.0;
    head *t = head_make(0, "softmax/exact", N, N, s);
    t->problem.end = OTA_SIDE_COLUMNS; /* not the rounds on a kernel, which lose nothing */
    t->arrays.start_potential = ota_array_of(g, OTA_F64, 1, 1, 1, N);
    t->options.rounds = 1;
    solved(t);
    /* Those of the first two keys and the other four rows. */
    spec_check("TOT-108", fabs((double)t->result.underflowed - 8.0), 0.0);
}

static void transposed_problem_is_the_transposed_plan(void **unused) {
    (void)unused;
    enum { N = 6, M = 9 };
    static double s[N * M], turned[N * M];
    random_scores(s, N * M, 1.0, 77);
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < M; j++) turned[j * N + i] = s[i * M + j];
    }
    for (int k = 0; k < METHODS; k++) {
        if (names(all_methods[k], "prefix") || names(all_methods[k], "online")) continue;
        head *a = head_make(0, all_methods[k], N, M, s),
             *b = head_make(1, all_methods[k], M, N, turned);
        if (names(all_methods[k], "capped")) a->problem.cap = b->problem.cap = 2.5;
        a->problem.axis = OTA_AXIS_COLUMNS;
        /* Rounds run on another form of the scores, and are extrapolated, when the problem is not transposed: the plans
         * agree as far as they converge. */
        const bool rounds = names(all_methods[k], "softmax/");
        const double tolerance = 1e-13;
        if (rounds) a->options.tolerance = b->options.tolerance = tolerance;
        solved(a);
        solved(b);
        double worst = 0.0;
        for (int i = 0; i < N; i++) {
            for (int j = 0; j < M; j++)
                worst = fmax(worst, fabs(a->p[i * M + j] - b->p[j * N + i]));
        }
        const double slack = rounds ? 10.0 * tolerance : 0.0;
        if (worst > slack) print_error("%s\n", all_methods[k]);
        spec_check("BLOG-02", worst, slack);
    }
}

/* Later queries change no earlier row of prefix and online columns, and no row of free ones. */
static void later_queries_change_no_earlier_row(void **unused) {
    (void)unused;
    enum { N = 9, M = 12 };
    static double s[N * M], first[N * M];
    random_scores(s, N * M, 1.5, 31);
    for (int k = 0; k < METHODS; k++) {
        const bool ordered = names(all_methods[k], "prefix") || names(all_methods[k], "online");
        if (!ordered && names(all_methods[k], "/")) continue;
        head *t = solved(head_make(0, all_methods[k], N, M, s));
        memcpy(first, t->p, sizeof first);
        t = head_make(0, all_methods[k], N, M, s);
        for (int j = 0; j < M; j++) t->s[(N - 1) * M + j] = cos((double)j);
        solved(t);
        const char *ids = !ordered                          ? ""
                          : names(all_methods[k], "prefix") ? "DER-04 CETA-26"
                                                            : "DER-23";
        spec_check_true(ids, memcmp(first, t->p, (N - 1) * M * sizeof(double)) == 0);
        assert_memory_not_equal(first + (N - 1) * M, t->p + (N - 1) * M, M * sizeof(double));
    }
}

/* Causal exact columns leave only the identity: said, not crawled to. [CETA-24, DER-24] */
static void causal_exact_columns_are_refused(void **unused) {
    (void)unused;
    enum { N = 12 };
    static double s[N * N];
    random_scores(s, N * N, 1.0, 5);
    head *t = head_make(0, "softmax/exact", N, N, s);
    t->supports[0] = (ota_support){.kind = OTA_SUPPORT_CAUSAL};
    t->problem.support_count = 1;
    spec_check_true("CETA-24", run_head(t) == OTA_INFEASIBLE);
    assert_true(t->result.sentence[0] != '\0');
    spec_check("CETA-24 DER-24", fabs((double)t->result.unusable_pairs - 66.0), 0.0);
    t->options.prune = 1;
    assert_int_equal(run_head(t), OTA_OK);
    double worst = 0.0;
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++)
            worst = fmax(worst, fabs(t->p[i * N + j] - (i == j ? 1.0 : 0.0)));
    }
    spec_check("CETA-24", worst, 1e-15);
    /* window, strided and block masks have total support */
    static const ota_support sound[] = {{.kind = OTA_SUPPORT_WINDOW, .left = 2, .right = 2},
                                        {.kind = OTA_SUPPORT_STRIDED, .left = 3},
                                        {.kind = OTA_SUPPORT_BLOCK, .left = 4}};
    for (size_t k = 0; k < 3; k++) {
        t = head_make(0, "softmax/exact", N, N, s);
        t->supports[0] = sound[k];
        t->problem.support_count = 1;
        spec_check_true("DER-24", run_head(t) == OTA_OK);
    }
}

/* ---- one key ------------------------------------------------------------------------------------- */

static void one_open_key_gives_its_value_bit_for_bit(void **unused) {
    (void)unused;
    static drawn x;
    for (int k = 0; k < METHODS; k++) {
        for (int type = 0; type < 4; type++) {
            for (int masked = 0; masked < 2; masked++) {
                const char *method = all_methods[k];
                const bool capped = names(method, "capped") || names(method, "online");
                recipe w = {.method = method,
                            .type = types[type],
                            .out_type = types[type],
                            .batch = 2,
                            .heads = 2,
                            .key_heads = 1,
                            .n = 3,
                            .m = masked ? 3 : 1,
                            .width = 4,
                            .values_width = 7,
                            .spread = 9.0,
                            .seed = 4,
                            .dense_arrays = true};
                if (!masked && (capped || names(method, "prefix"))) w.n = 1;
                draw(&x, &w);
                if (masked) {
                    /* each query sees the key of its own position */
                    x.supports[0] = (ota_support){.kind = OTA_SUPPORT_BLOCK, .left = 1};
                    x.problem.support_count = 1;
                }
                const ota_status status = solve(&x);
                if (status < 0) print_recipe(&x);
                assert_true(status >= 0);
                for (int64_t b = 0; b < 2; b++) {
                    for (int64_t h = 0; h < 2; h++) {
                        for (int64_t i = 0; i < w.n; i++) {
                            for (int64_t v = 0; v < 7; v++) {
                                const double got = ota_array_get(&x.arrays.out, b, h, i, v);
                                const double want =
                                    ota_array_get(&x.arrays.values, b, 0, masked ? i : 0, v);
                                if (memcmp(&got, &want, sizeof got) != 0) {
                                    print_error("%.17g is not %.17g\n", got, want);
                                    print_recipe(&x);
                                }
                                assert_memory_equal(&got, &want, sizeof got);
                            }
                        }
                    }
                }
                put_away(&x);
            }
        }
    }
}

/* One key takes nearly all, a hundred thousand others less than the last bit of it each: no sum may lose what
 * its single additions round away. [numeric policy 3.4] */
static double long_row_error(const char *method, ota_type type, const char *cpu) {
    enum { LONG = 100000 };
    static double s[LONG], wide[LONG];
    static float narrow[LONG], out[LONG];
    ota_problem problem = {.size = sizeof problem};
    ota_options options = {.size = sizeof options, .cpu = cpu};
    ota_arrays arrays = {.size = sizeof arrays};
    double sum = 0.0, lost = 0.0;
    for (int j = 0; j < LONG; j++) s[j] = j == 0 ? 0.0 : type == OTA_F64 ? -37.5 : -17.4;
    for (int j = 0; j < LONG; j++) narrow[j] = (float)s[j];
    problem.scores = ota_array_of(type == OTA_F64 ? (void *)s : narrow, type, 1, 1, 1, LONG);
    arrays.coupling = ota_array_of(type == OTA_F64 ? (void *)wide : out, type, 1, 1, 1, LONG);
    assert_int_equal(ota_method_parse(method, &problem, &options, NULL), OTA_OK);
    assert_int_equal(ota_attend(&problem, &options, &arrays, NULL, NULL), OTA_OK);
    for (int j = 0; j < LONG; j++) {
        const double weight = type == OTA_F64 ? wide[j] : (double)out[j];
        const double next = sum + weight;
        lost += sum >= weight ? (sum - next) + weight : (weight - next) + sum;
        sum = next;
    }
    return fabs(sum + lost - 1.0);
}

static void long_rows_sum_to_their_mass(void **state) {
    (void)state;
    static const char *const long_methods[] = {"softmax", "softmax/online:2", "softmax/capped:1.5",
                                               "entmax:1.5", "entmax:1.001"};
    for (size_t k = 0; k < sizeof long_methods / sizeof long_methods[0]; k++) {
        for (int level = 0; ota_kernel_name(level) != NULL; level++) {
            for (ota_type type = OTA_F64; type <= OTA_F32; type++) {
                const double error = long_row_error(long_methods[k], type, ota_kernel_name(level));
                const double slack = row_sum_slack(unit_roundoff(type));
                if (!(error <= slack))
                    print_error("%s %s %d: %g\n", long_methods[k], ota_kernel_name(level),
                                (int)type, error / unit_roundoff(type));
                spec_check("DER-26", error, slack);
            }
        }
    }
}

TEST_FILE(test_forward_laws) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_plans),
        cmocka_unit_test(long_rows_sum_to_their_mass),
        cmocka_unit_test(worked_examples),
        cmocka_unit_test(knobs_at_rest_are_softmax),
        cmocka_unit_test(loose_knobs_approach_their_limits),
        cmocka_unit_test(powers_of_two_change_no_bit),
        cmocka_unit_test(masked_rows_meet_the_conditions),
        cmocka_unit_test(wide_ranges_take_logarithms),
        cmocka_unit_test(lost_entries_are_told),
        cmocka_unit_test(transposed_problem_is_the_transposed_plan),
        cmocka_unit_test(later_queries_change_no_earlier_row),
        cmocka_unit_test(causal_exact_columns_are_refused),
        cmocka_unit_test(one_open_key_gives_its_value_bit_for_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
