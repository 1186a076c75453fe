/* The reference against printed and golden values, the laws of one-sided transport, terms,
 * supports and bad numbers. Every plan comes from ota_reference, never from a solver. */
#include "groups.h"
#include "judge_stage.h"

/* ---- golden values ------------------------------------------------------------------------ */

static const double golden_scores[9] = {1, 0, 0, 0, 2, 0, 1, 1, 0};
static const double golden_softmax[9] = {0.576116884765829, 0.211941557617085, 0.211941557617085,
                                         0.106506978919201, 0.786986042161599, 0.106506978919201,
                                         0.422318798251518, 0.422318798251518, 0.155362403496964};

static void golden_softmax_plan(void **unused) {
    (void)unused;
    const stage *t = plan_of(0, golden_scores, 3, 3, "softmax");
    spec_check("LIT-01 LIT-05 LIT-09 TOT-01 ELA-02", largest_difference(t->p, golden_softmax, 9),
               2e-15);
    spec_check("CETA-20", fabs(t->certificate.delta - 0.52618905996675), 2e-14);
    spec_check("CETA-20", fabs(imbalance(t) - t->certificate.delta), 1e-15);
    spec_check("LIT-01", row_excess(t), 12.0 * DBL_EPSILON);
    assert_int_equal(t->result.status, OTA_OK);
}

static void golden_doubly_stochastic_plan(void **unused) {
    (void)unused;
    static const double one[9] = {0.480972506559231, 0.12063642777399,  0.398391065666778,
                                  0.12063642777399,  0.607743231915607, 0.271620340310403,
                                  0.398391065666778, 0.271620340310403, 0.329988594022818};
    static const double half[9] = {0.528760829271776, 0.031824890068707, 0.439414280659517,
                                   0.031824890068707, 0.772754318396531, 0.195420791534762,
                                   0.439414280659517, 0.195420791534762, 0.365164927805721};
    const stage *t = plan_of(0, golden_scores, 3, 3, "softmax/exact");
    spec_check("CETA-02 CETA-06 ELA-03", largest_difference(t->p, one, 9), 1e-12);
    spec_check("CETA-11", imbalance(t), 1e-12);
    t = plan_of(0, golden_scores, 3, 3, "ceta{temperature=.5}");
    spec_check("CETA-02 TOT-09", largest_difference(t->p, half, 9), 1e-12);
    /* G11: the closed form of 2 x 2. */
    static const double diagonal[4] = {2, 0, 0, 1};
    t = plan_of(0, diagonal, 2, 2, "ceta");
    spec_check("CETA-02", fabs(t->p[0] - 0.817574476193644), 1e-14);
    spec_check("CETA-02", fabs(t->p[0] - 1.0 / (1.0 + exp(-1.5))), 1e-14);
}

static void golden_elastic_plan(void **unused) {
    (void)unused;
    static const double plan[9] = {0.503371415180791, 0.149448862475477, 0.347179722343732,
                                   0.113146046033052, 0.67472513917052,  0.212128814796428,
                                   0.400519821588256, 0.323238110907315, 0.276242067504429};
    const stage *t = plan_of(0, golden_scores, 3, 3, "elastic:.5,2");
    spec_check("ELA-07 ELA-08 ELA-09 ELA-10", largest_difference(t->p, plan, 9), 3e-15);
    spec_check("ELA-09", fabs(t->certificate.delta - 0.164449395355411), 1e-14);
    spec_check("DER-26 ELA-08", row_excess(t), 12.0 * DBL_EPSILON);
    assert_int_equal(t->result.status, OTA_FIXED_ITERS);
    assert_true(isnan(t->certificate.dual) && isnan(t->certificate.gap));
}

static void golden_relaxed_plan(void **unused) {
    (void)unused;
    static const double plan[9] = {0.533960420320068, 0.168282800438745, 0.297756779241187,
                                   0.113045832314007, 0.715597254755446, 0.171356912930548,
                                   0.414193387740481, 0.354836517055317, 0.230970095204202};
    static const double sums[3] = {1.061199640374555, 1.238716572249508, 0.700083787375937};
    const stage *t = plan_of(0, golden_scores, 3, 3, "relaxed:1");
    spec_check("DER-01 DER-10", largest_difference(t->p, plan, 9), 1e-12);
    spec_check("DER-01", largest_difference(t->receiver, sums, 3), 1e-12);
    spec_check("DER-01", fabs(t->certificate.gap), 1e-12);
}

static void golden_sparse_rows(void **unused) {
    (void)unused;
    static const double s[4] = {1, .5, .2, -1};
    static const double sparse[4] = {0.75, 0.25, 0, 0};
    static const double middle[4] = {0.592807227494524, 0.270337349616227, 0.136855422889249, 0};
    static const double soft[4] = {0.45637199902896, 0.276803609645408, 0.205061157575788,
                                   0.061763233749843};
    stage *t = plan_of(0, s, 1, 4, "sparsemax");
    spec_check("LIT-10 LIT-14", largest_difference(t->p, sparse, 4), 2e-16);
    spec_check("LIT-13 LIT-33", fabs(t->certificate.support - 2.0), 0.0);
    for (int j = 0; j < 2; j++) spec_check("LIT-10", fabs(t->p[j] - (s[j] + t->f[0])), 2e-16);
    for (int j = 2; j < 4; j++) spec_check("LIT-10", fmax(0.0, s[j] + t->f[0]), 0.0);
    t = plan_of(0, s, 1, 4, "entmax:1.5");
    spec_check("LIT-11", largest_difference(t->p, middle, 4), 1e-14);
    spec_check("LIT-13 LIT-33", fabs(t->certificate.support - 3.0), 0.0);
    t = plan_of(0, s, 1, 4, "softmax");
    spec_check("LIT-13 LIT-33", largest_difference(t->p, soft, 4), 1e-15);
    spec_check("LIT-23", fabs(t->lse[0] - 1.784447014697176), 1e-15);
    spec_check("LIT-13", fabs(t->certificate.support - 4.0), 0.0);
    double entropy = 0.0;
    for (int j = 0; j < 4; j++) entropy -= soft[j] * log(soft[j]);
    spec_check("LIT-13", fabs(t->certificate.entropy - entropy), 1e-12);
    spec_check("LIT-13", fabs(t->entropy[0] - entropy), 1e-12);
    /* The order joins them: 2 is sparsemax, 1.001 nearly softmax. */
    t = plan_of(0, s, 1, 4, "entmax:2");
    spec_check("LIT-11", largest_difference(t->p, sparse, 4), 2e-16);
    t = plan_of(0, s, 1, 4, "entmax:1.001");
    spec_check("LIT-11", largest_difference(t->p, soft, 4), 5e-4);
}

static void worked_example_c4(void **unused) {
    (void)unused;
    /* C.4: keys and queries are not printed to more digits than these scores follow from: Z = 2e
       + 1 + 1/e. */
    static const double rows[12] = {.399486, .146963, .399486, .054065, .146963, .399486,
                                    .054065, .399486, .365529, .365529, .134471, .134471};
    static const double scores[12] = {1, 0, 1, -1, 0, 1, -1, 1, 1, 1, 0, 0};
    static const double z[3] = {6.80444310, 6.80444310, 7.43656366};
    static const double receiver[4] = {.303993, .303993, .196007, .196007};
    stage *t = plan_of(0, scores, 3, 4, "softmax");
    spec_check("TOT-113", largest_difference(t->p, rows, 12), 6e-7);
    for (int i = 0; i < 3; i++) spec_check("TOT-113 TOT-05", fabs(exp(t->lse[i]) - z[i]), 6e-9);
    double total = 0.0;
    for (int j = 0; j < 4; j++) {
        spec_check("TOT-11 CETA-19", fabs(t->receiver[j] / 3.0 - receiver[j]), 6e-7);
        total += t->receiver[j] / 3.0;
    }
    spec_check("TOT-11", fabs(total - 1.0), 1e-15);
    /* Adding a constant to the costs of row 1 changes nothing but its potential. */
    double shifted[12];
    memcpy(shifted, scores, sizeof shifted);
    for (int j = 0; j < 4; j++) shifted[j] -= 2.5;
    const stage *u = plan_of(1, shifted, 3, 4, "softmax");
    spec_check("TOT-114 TOT-06", largest_difference(t->p, u->p, 12), 1e-15);
    spec_check("TOT-06", fabs(u->f[0] - t->f[0] - 2.5), 1e-12);
    t = plan_of(0, scores, 3, 4, "softmax/exact");
    static const double first[4] = {.316858, .116565, .499039, .067538};
    spec_check("TOT-115", largest_difference(t->p, first, 4), 6e-7);
    for (int j = 0; j < 4; j++) spec_check("TOT-115 DER-03", fabs(t->receiver[j] - 0.75), 1e-12);
}

static void blog_column_axis(void **unused) {
    (void)unused;
    static const double s[4] = {1, 0, 2, 0};
    static const double by_columns[4] = {.2689, .5, .7311, .5},
                        by_rows[4] = {.7311, .2689, .8808, .1192};
    stage *t = stage_make(0, s, 2, 2, "softmax");
    t->problem.axis = OTA_AXIS_COLUMNS;
    solve(t);
    spec_check("BLOG-04 BLOG-02", largest_difference(t->p, by_columns, 4), 5.1e-5);
    spec_check("BLOG-02", imbalance(t), 4.0 * DBL_EPSILON);
    spec_check("BLOG-02", t->certificate.row_error, 4.0 * DBL_EPSILON);
    /* C + eps (1 + log P) is one multiplier per column. */
    for (int j = 0; j < 2; j++) {
        const double first = -s[j] + 1.0 + log(t->p[j]),
                     second = -s[2 + j] + 1.0 + log(t->p[2 + j]);
        spec_check("BLOG-03", fabs(first - second), 1e-12);
    }
    t = plan_of(1, s, 2, 2, "softmax");
    spec_check("BLOG-04", largest_difference(t->p, by_rows, 4), 5.1e-5);
    /* The same as the plan of the transposed scores, for a coupled rule too. */
    double a[12], b[12];
    fill(a, 12, 2.0);
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 4; j++) b[j * 3 + i] = a[i * 4 + j];
    }
    const char *methods[] = {"softmax",    "entmax:1.5",   "relaxed:.7",
                             "capped:1.5", "elastic:.4,3", "hard/exact"};
    for (size_t k = 0; k < sizeof methods / sizeof methods[0]; k++) {
        t = stage_make(0, a, 3, 4, methods[k]);
        t->problem.axis = OTA_AXIS_COLUMNS;
        solve(t);
        const stage *u = plan_of(1, b, 4, 3, methods[k]);
        double worst = 0.0;
        for (int i = 0; i < 3; i++) {
            for (int j = 0; j < 4; j++)
                worst = fmax(worst, fabs(t->p[i * 4 + j] - u->p[j * 3 + i]));
        }
        spec_check("BLOG-02", worst, 0.0);
        spec_check("BLOG-02", fabs(t->certificate.primal - u->certificate.primal), 1e-14);
    }
    /* sqrt(d) in either place: scale 1/sqrt(d) with tau 1, or scale 1 with eps = sqrt(d). */
    t = stage_make(0, a, 3, 4, "softmax");
    t->problem.scale = 0.5;
    solve(t);
    stage *u = stage_make(1, a, 3, 4, "softmax{temperature=2}");
    solve(u);
    spec_check("BLOG-01 TOT-09", largest_difference(t->p, u->p, 12), 1e-15);
}

/* ---- laws of softmax ---------------------------------------------------------------------- */

static void one_sided_optimum(void **unused) {
    (void)unused;
    dice_state = 7;
    double s[24];
    fill(s, 24, 3.0);
    stage *t = plan_of(0, s, 4, 6, "softmax{temperature=.7}");
    const double tau = 0.7, best = objective(t, t->p, tau);
    spec_check("LIT-02", fabs(best - t->certificate.value) / fabs(best), 1e-14);
    double closed = 0.0;
    for (int i = 0; i < 4; i++) closed -= tau * t->lse[i];
    spec_check("LIT-02 LIT-22 LIT-24 TOT-01", fabs(best - closed) / fabs(closed), 1e-13);
    spec_check("LIT-24", fabs(t->certificate.gap), 1e-12);
    spec_check("TOT-10", fabs(t->certificate.value - t->certificate.primal - tau * 4.0), 1e-13);
    double worst = 0.0, multiplier = 0.0;
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 6; j++) {
            const double level = -s[i * 6 + j] + tau * log(t->p[i * 6 + j]);
            if (j == 0) multiplier = level;
            worst = fmax(worst, fabs(level - multiplier));
            spec_check("TOT-05", fabs(exp((t->f[i] + s[i * 6 + j]) / tau) - t->p[i * 6 + j]),
                       1e-14);
        }
    }
    spec_check("LIT-03 TOT-04 LIT-26", worst, 1e-12);
    /* No other point of the simplices is better. */
    double better = 0.0, q[24];
    for (int probe = 0; probe < 2000; probe++) {
        for (int i = 0; i < 4; i++) {
            double sum = 0.0;
            for (int j = 0; j < 6; j++) sum += q[i * 6 + j] = -log(1.0 - uniform(&dice_state));
            for (int j = 0; j < 6; j++) q[i * 6 + j] /= sum;
        }
        const double mix = probe % 2 == 0 ? 1.0 : uniform(&dice_state);
        for (int k = 0; k < 24; k++) q[k] = mix * q[k] + (1.0 - mix) * t->p[k];
        better = fmax(better, best - objective(t, q, tau));
    }
    spec_check("LIT-02 LIT-03", better, 1e-14);
    /* Scores of 1e4 do no harm, and (T, eps) act through their product alone. */
    for (int k = 0; k < 24; k++) s[k] *= 1e4;
    stage *u = plan_of(1, s, 4, 6, "softmax{temperature=7000}");
    spec_check("TOT-09 LIT-01", largest_difference(t->p, u->p, 24), 1e-14);
    u = plan_of(1, s, 4, 6, "softmax");
    for (int k = 0; k < 24; k++) assert_true(isfinite(u->p[k]));
    spec_check("LIT-01", row_excess(u), 12.0 * DBL_EPSILON);
}

static void row_masses(void **unused) {
    (void)unused;
    static const double mu[3] = {0.25, 2.0, 0.5};
    stage *t = stage_make(0, golden_scores, 3, 3, "softmax");
    with_row_mass(t, mu);
    solve(t);
    for (int i = 0; i < 3; i++) {
        spec_check("TOT-02", fabs(row_sum(t, i) / mu[i] - 1.0), 2e-15);
        for (int j = 0; j < 3; j++) {
            spec_check("TOT-02", fabs(t->p[i * 3 + j] / mu[i] - golden_softmax[i * 3 + j]), 2e-15);
        }
    }
    spec_check("TOT-02", fabs(t->certificate.gap), 1e-13);
    /* A row without mass stays empty and breaks nothing. */
    static const double none[3] = {1, 0, 1};
    const char *methods[] = {"softmax",   "softmax/exact", "sparsemax/exact", "hard/exact",
                             "relaxed:1", "hard",          "online:1"};
    for (size_t k = 0; k < sizeof methods / sizeof methods[0]; k++) {
        t = stage_make(0, golden_scores, 3, 3, methods[k]);
        with_row_mass(t, none);
        solve(t);
        for (int j = 0; j < 3; j++) spec_check("TOT-08", fabs(t->p[3 + j]), 0.0);
        spec_check("TOT-08", fmax(t->certificate.row_error, 0.0), 1e-13);
    }
}

static void terms_follow_their_order(void **unused) {
    (void)unused;
    dice_state = 3;
    double s[12], relative[6], inside[6], dense[12], slopes[1] = {0.3};
    fill(s, 12, 2.0);
    fill(relative, 6, 1.0);
    fill(inside, 6, 1.0);
    fill(dense, 12, 1.0);
    stage *t = stage_make(0, s, 3, 4, "softmax{temperature=.5}");
    /* Given out of order on purpose. */
    with_term(t, (ota_term){OTA_TERM_DENSE, ota_array_of(dense, OTA_F64, 1, 1, 3, 4), 0});
    with_term(t, (ota_term){OTA_TERM_RELATIVE, ota_array_of(relative, OTA_F64, 1, 1, 1, 6), 0});
    with_term(t, (ota_term){OTA_TERM_SOFTCAP, {0}, 1.5});
    with_term(t,
              (ota_term){OTA_TERM_RELATIVE_INSIDE, ota_array_of(inside, OTA_F64, 1, 1, 1, 6), 0});
    t->problem.scale = 0.8;
    solve(t);
    double plain[12];
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 4; j++) {
            const double capped = 1.5 * tanh(0.8 * (s[i * 4 + j] + inside[i - j + 3]) / 1.5);
            plain[i * 4 + j] = capped + relative[i - j + 3] + dense[i * 4 + j];
        }
    }
    const stage *u = plan_of(1, plain, 3, 4, "softmax{temperature=.5}");
    spec_check("TOT-50", largest_difference(t->p, u->p, 12), 1e-15);
    /* ALiBi: slope gamma on the scores is gamma / tau on the exponents. */
    t = stage_make(0, s, 3, 4, "softmax{temperature=.5}");
    with_term(t, (ota_term){OTA_TERM_ALIBI, ota_array_of(slopes, OTA_F64, 1, 1, 1, 1), 0});
    solve(t);
    for (int i = 0; i < 3; i++) {
        double sum = 0.0;
        for (int j = 0; j < 4; j++) sum += exp(s[i * 4 + j] / 0.5 - 0.3 / 0.5 * abs(i - j));
        for (int j = 0; j < 4; j++) {
            const double p = exp(s[i * 4 + j] / 0.5 - 0.3 / 0.5 * abs(i - j)) / sum;
            spec_check("LIT-12 LIT-13", fabs(t->p[i * 4 + j] - p), 1e-15);
        }
    }
    spec_check("LIT-12", fabs(t->certificate.gap), 1e-13);
    /* Queries and keys: half precision, grouped heads, a cost, the default scale. */
    float q[2 * 3 * 4], k[5 * 4];
    for (int x = 0; x < 24; x++) q[x] = (float)normal(&dice_state);
    for (int x = 0; x < 20; x++) k[x] = (float)normal(&dice_state);
    double p[2 * 3 * 5];
    ota_problem problem = {.size = sizeof problem, .cost = 1};
    problem.queries = ota_array_of(q, OTA_F32, 1, 2, 3, 4);
    problem.keys = ota_array_of(k, OTA_F32, 1, 1, 5, 4);
    ota_arrays arrays = {.size = sizeof arrays, .coupling = ota_array_of(p, OTA_F64, 1, 2, 3, 5)};
    assert_int_equal(ota_reference(&problem, NULL, &arrays, NULL, NULL), OTA_OK);
    for (int row = 0; row < 6; row++) {
        double e[5], sum = 0.0;
        for (int j = 0; j < 5; j++) {
            double dot = 0.0;
            for (int w = 0; w < 4; w++) dot += (double)q[row * 4 + w] * (double)k[j * 4 + w];
            sum += e[j] = exp(-0.5 * dot);
        }
        for (int j = 0; j < 5; j++) spec_check("ELA-05", fabs(p[row * 5 + j] - e[j] / sum), 1e-15);
    }
}

/* Scores of unit components have variance 1 under the default scale: read back from the weights. */
static void default_scale(void **unused) {
    (void)unused;
    enum { ROWS = 40, WIDTH = 16 };
    dice_state = 5;
    double sum = 0.0, squares = 0.0, count = 0.0;
    static double q[ROWS * WIDTH], k[ROWS * WIDTH];
    for (int draw = 0; draw < 60; draw++) {
        fill(q, ROWS * WIDTH, 1.0);
        fill(k, ROWS * WIDTH, 1.0);
        stage *t = stage_make(0, NULL, ROWS, ROWS, "softmax");
        t->problem.scores = (ota_array){0};
        t->problem.queries = ota_array_of(q, OTA_F64, 1, 1, ROWS, WIDTH);
        t->problem.keys = ota_array_of(k, OTA_F64, 1, 1, ROWS, WIDTH);
        solve(t);
        for (int x = 0; x < ROWS * ROWS; x++) {
            const double score = log(t->p[x]) + t->lse[x / ROWS];
            sum += score;
            squares += score * score;
            count += 1.0;
        }
    }
    spec_check("LIT-04", fabs(squares / count - (sum / count) * (sum / count) - 1.0), 0.03);
}

/* Narrow inputs are taken as the numbers they hold, narrow outputs rounded once. */
static void narrow_types(void **unused) {
    (void)unused;
    static const struct {
        ota_type type;
        uint16_t one, half, two;
        double unit;
    } table[] = {{OTA_F16, 0x3c00, 0x3800, 0x4000, 0x1p-11},
                 {OTA_BF16, 0x3f80, 0x3f00, 0x4000, 0x1p-8}};
    for (int k = 0; k < 2; k++) {
        const uint16_t q[4] = {table[k].one, table[k].half, table[k].two, table[k].one};
        const uint16_t keys[6] = {table[k].one, table[k].two, table[k].half, table[k].half, 0,
                                  table[k].one};
        static const double products[6] = {2, .75, .5, 4, 1.5, 1};
        uint16_t out[6];
        float wide[6];
        ota_problem problem = {.size = sizeof problem, .scale = 1.0};
        problem.queries = ota_array_of((void *)q, table[k].type, 1, 1, 2, 2);
        problem.keys = ota_array_of((void *)keys, table[k].type, 1, 1, 3, 2);
        ota_arrays arrays = {.size = sizeof arrays};
        arrays.coupling = ota_array_of(out, table[k].type, 1, 1, 2, 3);
        assert_int_equal(ota_reference(&problem, NULL, &arrays, NULL, NULL), OTA_OK);
        ota_certificate certificate = {.size = sizeof certificate};
        assert_int_equal(ota_certify(&problem, NULL, &arrays, &certificate, NULL, NULL), OTA_OK);
        spec_check("DER-26", certificate.row_error, 3.0 * table[k].unit);
        spec_check("LIT-24", fabs(certificate.gap), 32.0 * table[k].unit);
        arrays.coupling = ota_array_of(wide, OTA_F32, 1, 1, 2, 3);
        assert_int_equal(ota_reference(&problem, NULL, &arrays, NULL, NULL), OTA_OK);
        const stage *t = plan_of(0, products, 2, 3, "softmax");
        for (int x = 0; x < 6; x++) spec_check("LIT-01", fabs((double)wide[x] - t->p[x]), 0x1p-25);
    }
}

/* ---- supports ----------------------------------------------------------------------------- */

static void masks_cut_pairs(void **unused) {
    (void)unused;
    dice_state = 11;
    const int n = 5, m = 7;
    double s[35];
    fill(s, 35, 1.5);
    bool allow[35];
    int64_t blocks[3] = {3, 2, 2}, length[1] = {6};
    for (int k = 0; k < 35; k++) allow[k] = k % 3 != 0;
    const struct {
        ota_support support;
        const char *id;
    } table[] = {
        {{OTA_SUPPORT_CAUSAL, {0}, 0, 0}, "TOT-44"},
        {{OTA_SUPPORT_WINDOW, {0}, 2, 1}, "TOT-45"},
        {{OTA_SUPPORT_STRIDED, {0}, 3, 0}, "TOT-46"},
        {{OTA_SUPPORT_BLOCK, {0}, 3, 0}, "TOT-47"},
        {{OTA_SUPPORT_BLOCK, ota_array_of(blocks, OTA_I64, 1, 1, 1, 3), 0, 0}, "TOT-47"},
        {{OTA_SUPPORT_LENGTHS, ota_array_of(length, OTA_I64, 1, 1, 1, 1), 0, 0}, "TOT-03"},
        {{OTA_SUPPORT_BOOLEAN, ota_array_of(allow, OTA_BOOL, 1, 1, n, m), 0, 0}, "TOT-03"}};
    for (int corner = OTA_TOP_LEFT; corner <= OTA_BOTTOM_RIGHT; corner++) {
        for (size_t k = 0; k < sizeof table / sizeof table[0]; k++) {
            stage *t = stage_make(0, s, n, m, "softmax");
            t->problem.corner = (ota_corner)corner;
            with_support(t, table[k].support);
            double expected[35];
            for (int i = 0; i < n; i++) {
                const int at = i + (corner == OTA_BOTTOM_RIGHT ? m - n : 0);
                double sum = 0.0;
                for (int j = 0; j < m; j++) {
                    bool in = true;
                    switch (k) {
                    case 0: in = j <= at; break;
                    case 1: in = j >= at - 2 && j <= at + 1; break;
                    case 2: in = (at - j) % 3 == 0; break;
                    case 3: in = at / 3 == j / 3; break;
                    case 4: in = (at < 3) == (j < 3) && (at < 5) == (j < 5); break;
                    case 5: in = j < 6; break;
                    default: in = allow[i * m + j]; break;
                    }
                    /* What lies outside may hold anything. */
                    if (!in) t->s[i * m + j] = NAN;
                    sum += expected[i * m + j] = in ? exp(s[i * m + j]) : 0.0;
                }
                for (int j = 0; j < m && sum > 0.0; j++) expected[i * m + j] /= sum;
            }
            solve(t);
            spec_check(table[k].id, largest_difference(t->p, expected, 35), 1e-15);
            for (int x = 0; x < 35; x++) {
                if (!(expected[x] > 0.0)) spec_check("TOT-03", fabs(t->p[x]), 0.0);
            }
            spec_check("TOT-03", t->certificate.outside, 0.0);
        }
    }
    /* They compose, and an additive mask adds what is finite. */
    double added[35];
    for (int k = 0; k < 35; k++) added[k] = k % 4 == 0 ? -INFINITY : 0.1 * k;
    stage *t = stage_make(0, s, n, m, "softmax");
    t->problem.corner = OTA_BOTTOM_RIGHT;
    with_support(t, (ota_support){OTA_SUPPORT_CAUSAL, {0}, 0, 0});
    with_support(
        t, (ota_support){OTA_SUPPORT_ADDITIVE, ota_array_of(added, OTA_F64, 1, 1, n, m), 0, 0});
    solve(t);
    for (int i = 0; i < n; i++) {
        double sum = 0.0;
        for (int j = 0; j <= i + 2; j++) sum += exp(s[i * m + j] + added[i * m + j]);
        for (int j = 0; j < m; j++) {
            const double p = j <= i + 2 ? exp(s[i * m + j] + added[i * m + j]) / sum : 0.0;
            spec_check("TOT-03 TOT-48", fabs(t->p[i * m + j] - p), 1e-15);
        }
    }
}

static void empty_rows_are_zero(void **unused) {
    (void)unused;
    bool allow[9] = {true, true, false, false, false, false, true, true, true};
    const char *fine[] = {"softmax",  "entmax:1.5",   "hard",     "relaxed:1",
                          "capped:2", "elastic:.5,3", "online:2", "hard/capped:2"};
    double values[9];
    fill(values, 9, 1.0);
    for (size_t k = 0; k < sizeof fine / sizeof fine[0]; k++) {
        stage *t = stage_make(0, golden_scores, 3, 3, fine[k]);
        with_values(t, values, 3);
        with_support(
            t, (ota_support){OTA_SUPPORT_BOOLEAN, ota_array_of(allow, OTA_BOOL, 1, 1, 3, 3), 0, 0});
        solve(t);
        assert_int_equal(t->result.empty_rows, 1);
        assert_int_equal(t->certificate.empty_rows, 1);
        for (int j = 0; j < 3; j++) {
            spec_check("TOT-03", fabs(t->p[3 + j]), 0.0);
            spec_check("TOT-03", fabs(t->out[3 + j]), 0.0);
        }
        assert_true(isinf(t->f[1]) && t->f[1] < 0.0);
        spec_check("TOT-03", t->certificate.row_error, 1e-13);
    }
    const char *coupled[] = {"softmax/exact", "entmax:1.5/exact", "hard/exact"};
    for (size_t k = 0; k < 3; k++) {
        stage *t = stage_make(0, golden_scores, 3, 3, coupled[k]);
        with_support(
            t, (ota_support){OTA_SUPPORT_BOOLEAN, ota_array_of(allow, OTA_BOOL, 1, 1, 3, 3), 0, 0});
        spec_check_true("TOT-03", try_solve(t) == OTA_INFEASIBLE);
        assert_true(isnan(t->p[0]));
    }
}

static void numbers_that_are_not(void **unused) {
    (void)unused;
    double s[9], values[3] = {1, 2, NAN};
    memcpy(s, golden_scores, sizeof s);
    s[4] = NAN;
    stage *t = solve(stage_make(0, s, 3, 3, "softmax"));
    assert_int_equal(t->result.status, OTA_NONFINITE_ROWS);
    assert_int_equal(t->result.nonfinite_rows, 1);
    assert_int_equal(t->certificate.nonfinite_rows, 1);
    assert_true(isnan(t->p[3]) && isnan(t->p[5]));
    spec_check("TOT-20", largest_difference(t->p, golden_softmax, 3), 1e-15);
    spec_check("TOT-20", t->certificate.row_error, 1e-15);
    t->options.strict = 1;
    assert_int_equal(try_solve(t), OTA_NONFINITE);
    assert_true(isnan(t->p[0]));
    const char *coupled[] = {"softmax/exact", "relaxed:1",       "elastic:.5,2",
                             "capped:2",      "sparsemax/exact", "hard/exact"};
    for (size_t k = 0; k < sizeof coupled / sizeof coupled[0]; k++) {
        t = stage_make(0, s, 3, 3, coupled[k]);
        assert_int_equal(try_solve(t), OTA_NONFINITE);
        assert_true(isnan(t->p[8]));
    }
    /* A value under the mask is not used. */
    bool allow[9] = {true, true, false, true, true, false, true, true, true};
    t = stage_make(0, golden_scores, 3, 3, "softmax");
    with_support(
        t, (ota_support){OTA_SUPPORT_BOOLEAN, ota_array_of(allow, OTA_BOOL, 1, 1, 3, 3), 0, 0});
    with_values(t, values, 1);
    assert_int_equal(try_solve(t), OTA_NONFINITE_ROWS);
    assert_true(isfinite(t->out[0]) && isfinite(t->out[1]) && isnan(t->out[2]));
}

/* A key no query may use gets no target, and the others share it. */
static void unusable_keys(void **unused) {
    (void)unused;
    dice_state = 83;
    double s[20];
    int64_t length[1] = {4};
    fill(s, 20, 1.5);
    const char *methods[] = {"softmax/exact", "relaxed:.8",           "entmax:1.5/exact",
                             "hard/exact",    "sparsemax/relaxed:.8", "elastic:.5,3"};
    for (size_t k = 0; k < sizeof methods / sizeof methods[0]; k++) {
        stage *t = stage_make(0, s, 4, 5, methods[k]);
        const ota_array lengths = ota_array_of(length, OTA_I64, 1, 1, 1, 1);
        with_support(t, (ota_support){OTA_SUPPORT_LENGTHS, lengths, 0, 0});
        solve(t);
        double narrow[16];
        for (int x = 0; x < 16; x++) narrow[x] = s[x / 4 * 5 + x % 4];
        const stage *u = plan_of(1, narrow, 4, 4, methods[k]);
        for (int i = 0; i < 4; i++) {
            spec_check("TOT-03 DER-03", largest_difference(t->p + i * 5, u->p + i * 4, 4), 1e-12);
        }
        spec_check("TOT-03", fabs(t->receiver[4]), 0.0);
        spec_check("TOT-03", fabs(t->certificate.primal - u->certificate.primal), 1e-11);
        if (!isnan(u->certificate.gap)) spec_check("TOT-03", fabs(t->certificate.gap), 1e-11);
    }
}

TEST_FILE(test_judge) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_softmax_plan),  cmocka_unit_test(golden_doubly_stochastic_plan),
        cmocka_unit_test(golden_elastic_plan),  cmocka_unit_test(golden_relaxed_plan),
        cmocka_unit_test(golden_sparse_rows),   cmocka_unit_test(worked_example_c4),
        cmocka_unit_test(blog_column_axis),     cmocka_unit_test(one_sided_optimum),
        cmocka_unit_test(row_masses),           cmocka_unit_test(terms_follow_their_order),
        cmocka_unit_test(default_scale),        cmocka_unit_test(narrow_types),
        cmocka_unit_test(masks_cut_pairs),      cmocka_unit_test(empty_rows_are_zero),
        cmocka_unit_test(numbers_that_are_not), cmocka_unit_test(unusable_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
