/* The certificate against its own definitions, against plans and potentials that are wrong on
 * purpose, and against the reference over the whole table of methods. */
#include "groups.h"
#include "judge_stage.h"

static const double golden_scores[9] = {1, 0, 0, 0, 2, 0, 1, 1, 0};

/* ---- doubly stochastic or not ------------------------------------------------------------- */

/* A mixture of permutations, one with a negative weight, one with a row and a column off: binary fractions, so that what is
 * found is exact. */
static void membership_is_exact(void **unused) {
    (void)unused;
    static const struct {
        double plan[9], minimum, row_error, column_error;
    } table[] = {{{.5, .25, .25, .25, .5, .25, .25, .25, .5}, .25, 0, 0},
                 {{1, 0, 0, 0, 1, 0, 0, 0, 1}, 0, 0, 0},
                 {{.75, .375, -.125, .125, .25, .625, .125, .375, .5}, -.125, 0, 0},
                 {{.5, .25, .25, .25, .5, .25, .25, .25, .875}, .25, .375, .375}};
    for (size_t k = 0; k < sizeof table / sizeof table[0]; k++) {
        stage *t = stage_make(0, golden_scores, 3, 3, "softmax/exact");
        memcpy(t->p, table[k].plan, sizeof table[k].plan);
        t->arrays.row_potential = t->arrays.column_potential = (ota_array){0};
        certify(t);
        spec_check("CETA-04", fabs(t->certificate.minimum - table[k].minimum), 0.0);
        spec_check("CETA-04", fabs(3.0 * t->certificate.row_error - table[k].row_error), 0x1p-52);
        spec_check("CETA-04", fabs(3.0 * t->certificate.column_error - table[k].column_error),
                   0x1p-52);
    }
}

/* ---- the whole table: the two judges against each other ----------------------------------- */

static const char *const every_method[] = {"softmax",
                                           "softmax/exact",
                                           "softmax/relaxed:.8",
                                           "softmax/capped:1.7",
                                           "softmax/elastic:.6,4",
                                           "softmax/prefix",
                                           "softmax/online:1.9",
                                           "entmax:1.5",
                                           "entmax:1.5/exact",
                                           "entmax:1.5/relaxed:.8",
                                           "entmax:1.5/capped:1.7",
                                           "entmax:1.5/prefix",
                                           "entmax:1.5/online:1.9",
                                           "sparsemax",
                                           "sparsemax/exact",
                                           "sparsemax/relaxed:.8",
                                           "sparsemax/capped:1.7",
                                           "sparsemax/prefix",
                                           "sparsemax/online:1.9",
                                           "entmax:1.2/exact",
                                           "entmax:2.7/exact",
                                           "entmax:0.6",
                                           "entmax:0.6/exact",
                                           "entmax:0.6/relaxed:.8",
                                           "entmax:0.6/capped:1.7",
                                           "entmax:0.6/online:1.9",
                                           "entmax:2.7/relaxed:.8",
                                           "entmax:3/capped:1.7",
                                           "hard",
                                           "hard/exact",
                                           "hard/capped:1.7",
                                           "hard/prefix",
                                           "hard/online:1.9"};
enum { METHODS = sizeof every_method / sizeof every_method[0] };

static void judged(stage *t, const char *what, double scale) {
    const ota_certificate *c = &t->certificate;
    const double slack = 1e-9 * (1.0 + scale);
    bool good = c->row_error <= 1e-9 && c->outside <= 0.0 && c->minimum >= 0.0 &&
                fabs(c->row_error - t->result.row_error) <= 1e-11 &&
                fabs(c->column_error - t->result.column_error) <= 1e-11;
    const ota_column_rule rule = t->problem.columns;
    if (rule == OTA_COLUMNS_EXACT || rule == OTA_COLUMNS_RELAXED || rule == OTA_COLUMNS_CAPPED ||
        rule == OTA_COLUMNS_FREE) {
        good =
            good && fabs(c->gap) <= slack && (rule == OTA_COLUMNS_FREE || c->column_error <= 1e-9);
    } else {
        good = good && isnan(c->gap) && isnan(c->dual);
    }
    if (!good) {
        print_error("%s: rows %g columns %g gap %g minimum %g outside %g (reference %g %g)\n", what,
                    c->row_error, c->column_error, c->gap, c->minimum, c->outside,
                    t->result.row_error, t->result.column_error);
    }
    spec_check_true("ELA-01 LIT-08", good);
}

static void every_cell(void **unused) {
    (void)unused;
    dice_state = 61;
    static const double temperatures[] = {1.0, 0.2, 5.0};
    for (size_t k = 0; k < METHODS; k++) {
        for (int turn = 0; turn < 6; turn++) {
            const int n = 3 + turn % 3, m = n + turn / 3 * 2;
            double s[64], mu[8], nu[8];
            fill(s, n * m, 1.0 + turn);
            stage *t = stage_make(0, s, n, m, every_method[k]);
            t->problem.temperature = temperatures[turn % 3];
            double mass = 0.0, target = 0.0;
            for (int i = 0; i < n; i++) mass += mu[i] = turn % 2 ? 0.3 + uniform(&dice_state) : 1.0;
            if (turn % 2) with_row_mass(t, mu);
            if (turn == 3 && t->problem.columns == OTA_COLUMNS_EXACT) {
                for (int j = 0; j < m; j++) target += nu[j] = 0.3 + uniform(&dice_state);
                for (int j = 0; j < m; j++) nu[j] *= mass / target;
                with_column_mass(t, nu);
            }
            const bool sink = turn >= 4 && t->problem.columns != OTA_COLUMNS_EXACT &&
                              t->problem.columns != OTA_COLUMNS_PREFIX;
            if (sink) with_term(t, (ota_term){OTA_TERM_SINK, {0}, 0.4});
            if (turn == 2 && t->problem.columns != OTA_COLUMNS_PREFIX) {
                with_support(t, (ota_support){OTA_SUPPORT_WINDOW, {0}, 1, m - n + 1});
            }
            solve(t);
            judged(t, every_method[k], 1.0 + turn);
            /* From the potentials alone the plan and its certificate are the same. */
            const ota_certificate whole = t->certificate;
            if (t->problem.regulariser == OTA_HARD || t->problem.columns == OTA_COLUMNS_PREFIX)
                continue;
            t->arrays.coupling = (ota_array){0};
            certify(t);
            spec_check("DER-27", fabs(whole.primal - t->certificate.primal),
                       1e-10 * (1.0 + fabs(whole.primal)));
            spec_check("DER-27", fabs(whole.row_error - t->certificate.row_error), 1e-11);
            spec_check("DER-27", fabs(whole.entropy - t->certificate.entropy), 1e-10);
        }
    }
}

/* Exact columns beside a sink leave it what is over. */
static void sinks(void **unused) {
    (void)unused;
    dice_state = 67;
    double s[12];
    fill(s, 12, 1.0);
    static const double nu[4] = {.5, .25, .75, .5};
    const char *methods[] = {"softmax/exact", "entmax:1.5/exact", "hard/exact"};
    for (size_t k = 0; k < 3; k++) {
        stage *t = stage_make(0, s, 3, 4, methods[k]);
        with_term(t, (ota_term){OTA_TERM_SINK, {0}, 0.2});
        with_column_mass(t, nu);
        solve(t);
        double kept = 0.0;
        for (int i = 0; i < 3; i++) kept += t->sink[i];
        spec_check("LIT-08 TOT-08", fabs(kept - 1.0), 1e-11);
        spec_check("LIT-08 TOT-08", fabs(t->certificate.gap), 1e-10);
        spec_check("TOT-08", t->certificate.column_error, 1e-11);
        /* The coupling and the sink's weights alone give the potentials back. */
        if (t->problem.regulariser != OTA_SOFTMAX) continue;
        t->arrays.row_potential = t->arrays.column_potential = (ota_array){0};
        certify(t);
        spec_check("LIT-24", fabs(t->certificate.gap), 1e-10);
    }
    /* Softmax with a sink is softmax with one more key. */
    double wide[15];
    for (int i = 0; i < 3; i++) {
        memcpy(wide + i * 5, s + i * 4, 4 * sizeof(double));
        wide[i * 5 + 4] = 0.2;
    }
    stage *t = stage_make(0, s, 3, 4, "softmax");
    with_term(t, (ota_term){OTA_TERM_SINK, {0}, 0.2});
    solve(t);
    const stage *u = plan_of(1, wide, 3, 5, "softmax");
    for (int i = 0; i < 3; i++) {
        spec_check("TOT-01", fabs(t->sink[i] - u->p[i * 5 + 4]), 1e-16);
        spec_check("TOT-01", largest_difference(t->p + i * 4, u->p + i * 5, 4), 1e-16);
        spec_check("TOT-01", fabs(t->lse[i] - u->lse[i]), 1e-15);
        spec_check("TOT-01", fabs(t->entropy[i] - u->entropy[i]), 1e-15);
    }
    spec_check("TOT-01", fabs(t->certificate.primal - u->certificate.primal), 1e-14);
}

/* ---- the certificate against wrong plans -------------------------------------------------- */

static void wrong_plans_are_seen(void **unused) {
    (void)unused;
    dice_state = 71;
    double s[30];
    fill(s, 30, 1.5);
    const char *methods[] = {
        "softmax",    "softmax/exact",    "relaxed:.8",           "capped:1.5",
        "entmax:1.5", "entmax:1.5/exact", "sparsemax/relaxed:.8", "entmax:1.5/capped:1.5",
        "hard",       "hard/exact",       "hard/capped:1.5"};
    for (size_t k = 0; k < sizeof methods / sizeof methods[0]; k++) {
        stage *t = plan_of(0, s, 5, 6, methods[k]);
        const ota_certificate honest = t->certificate;
        double saved[30];
        memcpy(saved, t->p, sizeof saved);
        /* Too much in one row. */
        t->p[7] += 1e-6;
        certify(t);
        spec_check("LIT-08", fabs(t->certificate.row_error - honest.row_error - 2e-7), 1e-12);
        memcpy(t->p, saved, sizeof saved);
        /* A negative weight made up for elsewhere in its row. */
        t->p[7] = -1e-6;
        t->p[8] += saved[7] + 1e-6;
        certify(t);
        spec_check("LIT-08", fabs(t->certificate.minimum + 1e-6), 0.0);
        memcpy(t->p, saved, sizeof saved);
        /* Feasible, but not the optimum: the uniform plan has a gap, at the true potentials and
           alone. */
        for (int x = 0; x < 30; x++) t->p[x] = 1.0 / 6.0;
        certify(t);
        spec_check("", t->certificate.row_error, 1e-15);
        spec_check_true("LIT-24", t->certificate.gap > 1e-2);
        memcpy(t->p, saved, sizeof saved);
        /* Potentials that are not the optimum's only weaken the bound. */
        for (int j = 0; j < 6; j++)
            t->g[j] += t->problem.columns == OTA_COLUMNS_CAPPED ? -uniform(&dice_state)
                                                                : normal(&dice_state);
        certify(t);
        if (t->problem.columns != OTA_COLUMNS_FREE)
            spec_check_true("LIT-24", t->certificate.gap > 1e-4);
        /* The plan alone, without potentials. */
        t->arrays.row_potential = t->arrays.column_potential = (ota_array){0};
        certify(t);
        const bool recoverable =
            t->problem.columns == OTA_COLUMNS_FREE || t->problem.regulariser == OTA_SOFTMAX;
        if (recoverable) spec_check("LIT-24", fabs(t->certificate.gap), 1e-9);
        if (!isnan(t->certificate.gap))
            spec_check("LIT-24", negative_part(t->certificate.gap), 1e-9);
    }
    /* Columns: moving weight along a row keeps rows and breaks columns. */
    stage *t = plan_of(0, s, 5, 6, "softmax/exact");
    t->p[0] += 1e-6;
    t->p[1] -= 1e-6;
    certify(t);
    spec_check("CETA-11", fabs(t->certificate.column_error - 4e-7), 1e-12);
    spec_check("CETA-20", fabs(t->certificate.delta - 1e-6 / (5.0 / 6.0)), 1e-11);
    t = plan_of(0, s, 5, 6, "relaxed:.8");
    t->p[0] += 1e-6;
    t->p[1] -= 1e-6;
    certify(t);
    spec_check("DER-01", fabs(t->certificate.column_error - 4e-7), 1e-12);
    /* Alone, a relaxed plan is held against the plan that its own column sums ask for. */
    t->arrays.row_potential = t->arrays.column_potential = (ota_array){0};
    certify(t);
    spec_check_true("DER-01",
                    t->certificate.column_error > 1e-7 && t->certificate.column_error < 1e-5);
    for (int x = 0; x < 30; x++) t->p[x] = 1.0 / 6.0;
    certify(t);
    spec_check_true("DER-01", t->certificate.column_error > 1e-2);
    t = plan_of(0, s, 5, 6, "capped:1");
    t->problem.cap = 0.9;
    certify(t);
    double above = 0.0;
    for (int j = 0; j < 6; j++) above += fmax(0.0, t->receiver[j] - 0.9) / 5.0;
    spec_check("DER-02", fabs(t->certificate.column_error - above), 1e-15);
    spec_check_true("DER-02", above > 1e-3);
    /* Weight outside the mask; weights that are not numbers. */
    t = stage_make(0, s, 5, 6, "softmax");
    t->problem.corner = OTA_TOP_LEFT;
    with_support(t, (ota_support){OTA_SUPPORT_CAUSAL, {0}, 0, 0});
    solve(t);
    t->p[5] = 1e-9;
    certify(t);
    spec_check("TOT-03", fabs(t->certificate.outside - 1e-9), 0.0);
    t->p[5] = 0.0;
    t->p[6] = NAN;
    certify(t);
    spec_check_true("TOT-03",
                    isinf(t->certificate.row_error) && t->certificate.nonfinite_rows == 1);
}

/* Whatever feasible plan and whatever potentials: the gap is never below rounding. */
static void weak_duality(void **unused) {
    (void)unused;
    dice_state = 73;
    const char *methods[] = {"softmax",
                             "softmax/exact",
                             "relaxed:.8",
                             "capped:1.2",
                             "entmax:1.5",
                             "entmax:1.5/exact",
                             "entmax:1.5/relaxed:.8",
                             "sparsemax/capped:1.2",
                             "entmax:2.5/exact",
                             "hard",
                             "hard/exact",
                             "hard/capped:1.2"};
    for (size_t k = 0; k < sizeof methods / sizeof methods[0]; k++) {
        double worst = 0.0;
        for (int turn = 0; turn < 200; turn++) {
            stage *t = stage_make(0, NULL, 4, 4, methods[k]);
            fill(t->s, 16, 2.0);
            t->problem.temperature = 0.2 + uniform(&dice_state);
            if (turn % 2 && t->problem.columns == OTA_COLUMNS_RELAXED &&
                t->problem.regulariser == OTA_SOFTMAX) {
                t->problem.rows = OTA_ROWS_RELAXED;
                t->problem.row_strength = 0.1 + uniform(&dice_state);
            }
            /* A mixture of permutations has both marginals. */
            double left = 1.0;
            for (int part = 0; part < 4; part++) {
                const double share = part == 3 ? left : left * uniform(&dice_state);
                const int shift = (int)(4.0 * uniform(&dice_state)), flip = turn % 3 == 0 ? 3 : 1;
                for (int i = 0; i < 4; i++) t->p[i * 4 + (flip * i + shift) % 4] += share;
                left -= share;
            }
            fill(t->g, 4, 3.0);
            fill(t->f, 4, 3.0);
            certify(t);
            worst = fmax(worst, negative_part(t->certificate.gap));
        }
        spec_check("LIT-24 LIT-25", worst, 1e-13);
    }
}

static void measures_of_a_plan(void **unused) {
    (void)unused;
    /* Worst-case collapse: every row on key 0. */
    double s[25] = {0};
    stage *t = stage_make(0, s, 5, 5, "hard");
    for (int i = 0; i < 5; i++) t->s[i * 5] = 1.0;
    solve(t);
    spec_check("CETA-21 CETA-31", fabs(t->certificate.delta - 4.0), 0.0);
    spec_check("CETA-21 CETA-19", fabs(t->certificate.receiver_max - 5.0), 0.0);
    spec_check("CETA-21 ELA-06", fabs(t->certificate.receiver_min), 0.0);
    t = plan_of(0, t->s, 5, 5, "ceta");
    spec_check("ELA-06 CETA-31", t->certificate.delta, 1e-11);
    spec_check("ELA-06",
               fabs(t->certificate.receiver_max - 1.0) + fabs(t->certificate.receiver_min - 1.0),
               1e-11);
    /* A raised key collapses softmax and leaves exact columns alone. */
    double before = 0.0;
    for (double shift = 0.0; shift < 30.0; shift += 5.0) {
        dice_state = 79;
        fill(s, 25, 1.0);
        for (int i = 0; i < 5; i++) s[i * 5 + 3] += shift;
        t = plan_of(0, s, 5, 5, "softmax");
        spec_check_true("CETA-33", t->certificate.delta > before);
        before = t->certificate.delta;
        t = plan_of(0, s, 5, 5, "ceta");
        spec_check("CETA-33", t->certificate.delta, 1e-11);
    }
    spec_check("CETA-33", fabs(before - 4.0), 1e-6);
    /* Heads: largest errors, sums of values, means of entropy; per head as each head alone. */
    double two[18], p[18];
    memcpy(two, golden_scores, sizeof golden_scores);
    for (int k = 0; k < 9; k++) two[9 + k] = -0.5 * golden_scores[k];
    ota_problem problem = {.size = sizeof problem,
                           .scores = ota_array_of(two, OTA_F64, 2, 1, 3, 3)};
    ota_arrays arrays = {.size = sizeof arrays, .coupling = ota_array_of(p, OTA_F64, 2, 1, 3, 3)};
    ota_certificate all = {.size = sizeof all}, head[2];
    assert_int_equal(ota_reference(&problem, NULL, &arrays, NULL, NULL), OTA_OK);
    assert_int_equal(ota_certify(&problem, NULL, &arrays, &all, head, NULL), OTA_OK);
    for (int k = 0; k < 2; k++) {
        t = plan_of(0, two + 9 * k, 3, 3, "softmax");
        spec_check("CETA-19",
                   fabs(t->certificate.delta - head[k].delta) +
                       fabs(t->certificate.primal - head[k].primal),
                   0.0);
    }
    spec_check("CETA-20", fabs(all.delta - fmax(head[0].delta, head[1].delta)), 0.0);
    spec_check("LIT-13", fabs(all.entropy - 0.5 * (head[0].entropy + head[1].entropy)), 1e-15);
    spec_check("LIT-02", fabs(all.primal - head[0].primal - head[1].primal), 0.0);
    spec_check("CETA-19", fabs(all.receiver_min - fmin(head[0].receiver_min, head[1].receiver_min)),
               0.0);
    /* Records are as long as the caller's header says: the last field of an older one is the one before cap_error. */
    enum { OLDER = (int)offsetof(ota_certificate, cap_error) };
    char older[3 * OLDER];
    ota_certificate first = all;
    memset(older, 0x5a, sizeof older);
    first.size = OLDER;
    assert_int_equal(
        ota_certify(&problem, NULL, &arrays, &first, (ota_certificate *)(void *)older, NULL),
        OTA_OK);
    for (int k = 0; k < 2; k++)
        assert_memory_equal(older + k * OLDER + sizeof all.size, (char *)&head[k] + sizeof all.size,
                            OLDER - sizeof all.size);
    for (int k = 2 * OLDER; k < 3 * OLDER; k++) assert_int_equal(older[k], 0x5a);
    /* Cold and hot heads side by side, each at its own temperature. */
    double temperatures[2] = {0.5, 2.0}, same[18];
    memcpy(same, golden_scores, sizeof golden_scores);
    memcpy(same + 9, golden_scores, sizeof golden_scores);
    problem.scores = ota_array_of(same, OTA_F64, 1, 2, 3, 3);
    problem.temperatures = ota_array_of(temperatures, OTA_F64, 1, 1, 1, 2);
    arrays.coupling = ota_array_of(p, OTA_F64, 1, 2, 3, 3);
    assert_int_equal(ota_reference(&problem, NULL, &arrays, NULL, NULL), OTA_OK);
    t = plan_of(0, golden_scores, 3, 3, "softmax{temperature=.5}");
    spec_check("CETA-29", largest_difference(t->p, p, 9), 0.0);
    t = plan_of(0, golden_scores, 3, 3, "softmax{temperature=2}");
    spec_check("CETA-29", largest_difference(t->p, p + 9, 9), 0.0);
}

/* Exact columns on a block-triangular support: the pairs off the diagonal blocks are on no feasible
 * plan and leave the dual, which the plan then attains. Pairs pruned without need do not. */
/* Two padded keys and two padded queries, by length and by mass 0: every number of the certificate stays. */
static void padding_changes_no_number(void **unused) {
    (void)unused;
    static const char *const methods[] = {"softmax", "ceta", "capped:1.2", "relaxed:1"};
    const double mu[5] = {1.0, 1.0, 1.0, 0.0, 0.0};
    int64_t length = 3;
    for (int k = 0; k < 4; k++) {
        double padded[25];
        fill(padded, 25, 3.0);
        for (int i = 0; i < 3; i++)
            memcpy(padded + 5 * i, golden_scores + 3 * i, 3 * sizeof *padded);
        const ota_certificate alone = plan_of(0, golden_scores, 3, 3, methods[k])->certificate;
        stage *t = stage_make(0, padded, 5, 5, methods[k]);
        with_row_mass(t, mu);
        with_support(t, (ota_support){.kind = OTA_SUPPORT_LENGTHS,
                                      .array = ota_array_of(&length, OTA_I64, 1, 1, 1, 1)});
        solve(t);
        const ota_certificate *c = &t->certificate;
        spec_check("TOT-48 CETA-19", fabs(c->receiver_max - alone.receiver_max), 1e-9);
        spec_check("TOT-48 CETA-19", fabs(c->receiver_min - alone.receiver_min), 1e-9);
        spec_check("TOT-48 CETA-20", fabs(c->delta - alone.delta), 1e-9);
        spec_check("TOT-48", fabs(c->minimum - alone.minimum), 1e-9);
        spec_check("TOT-48", fabs(c->entropy - alone.entropy), 1e-9);
        spec_check("TOT-48", fabs(c->primal - alone.primal), 1e-8);
    }
    /* Keys that only queries without mass may use take no share either. */
    unsigned char allow[25];
    double padded[25];
    fill(padded, 25, 3.0);
    for (int i = 0; i < 3; i++) memcpy(padded + 5 * i, golden_scores + 3 * i, 3 * sizeof *padded);
    for (int k = 0; k < 25; k++) allow[k] = k / 5 >= 3 || k % 5 < 3;
    const ota_certificate alone = plan_of(0, golden_scores, 3, 3, "softmax")->certificate;
    stage *t = stage_make(0, padded, 5, 5, "softmax");
    with_row_mass(t, mu);
    with_support(t, (ota_support){.kind = OTA_SUPPORT_BOOLEAN,
                                  .array = ota_array_of(allow, OTA_BOOL, 1, 1, 5, 5)});
    solve(t);
    spec_check("TOT-48 CETA-19", fabs(t->certificate.receiver_max - alone.receiver_max), 1e-9);
    spec_check("TOT-48 CETA-19", fabs(t->certificate.receiver_min - alone.receiver_min), 1e-9);
}

/* A key that no query may use is not in use where a query's scores are no numbers either. */
static void forbidden_keys_of_bad_rows_stay_forbidden(void **unused) {
    (void)unused;
    const double s[6] = {(double)NAN, 0.0, -INFINITY, 0.5, 0.0, -INFINITY};
    stage *t = stage_make(0, s, 2, 3, "softmax");
    (void)try_solve(t);
    certify(t);
    assert_int_equal(t->certificate.nonfinite_rows, 1);
    assert_true(t->certificate.receiver_min > 0.5);
}

static void pruned_pairs_leave_the_dual(void **unused) {
    (void)unused;
    enum { N = 9, WIDTH = 3 };
    dice_state = 191;
    for (int turn = 0; turn < 8; turn++) {
        double s[N * N];
        fill(s, N * N, 1.0);
        for (int i = 0; i < N; i++) {
            for (int j = 0; j < N; j++) {
                if (j / WIDTH > i / WIDTH) s[i * N + j] = -INFINITY;
            }
        }
        stage *t = stage_make(0, s, N, N, "softmax/exact{prune,tolerance=1e-12}");
        assert_int_equal(try_solve(t), OTA_OK);
        assert_int_equal(t->result.pruned_pairs, 27);
        certify(t);
        spec_check("DER-24 LIT-24", fabs(t->certificate.gap), 1e-9);
        spec_check("DER-24", t->certificate.outside, 0.0);
        /* The same plan alone. */
        t->arrays.row_potential = t->arrays.column_potential = (ota_array){0};
        certify(t);
        spec_check("DER-24 LIT-24", fabs(t->certificate.gap), 1e-9);
        /* The identity has the right sums and leaves out usable pairs. */
        for (int x = 0; x < N * N; x++) t->p[x] = x % (N + 1) == 0 ? 1.0 : 0.0;
        certify(t);
        spec_check("DER-24", t->certificate.column_error, 0.0);
        spec_check_true("DER-24", t->certificate.gap > 1e-2);
    }
    /* A sink: its mass may come from every row, so nothing is left out. */
    static double nu[3] = {0.5, 0.5, 0.5};
    double s[9];
    fill(s, 9, 1.0);
    s[1] = s[2] = s[5] = -INFINITY;
    stage *t = stage_make(0, s, 3, 3, "softmax/exact{prune,tolerance=1e-12}");
    with_term(t, (ota_term){.kind = OTA_TERM_SINK, .value = 0.5});
    with_column_mass(t, nu);
    assert_int_equal(try_solve(t), OTA_OK);
    assert_int_equal(t->result.pruned_pairs, 0);
    certify(t);
    spec_check("DER-24 LIT-24", fabs(t->certificate.gap), 1e-9);
    /* All queries, one key and the sink hang together, which takes all the room of the search. */
    t = stage_make(0, s + 3, 3, 1, "softmax/exact{prune,tolerance=1e-12}");
    t->s[2] = 0.25;
    with_term(t, (ota_term){.kind = OTA_TERM_SINK, .value = 0.5});
    with_column_mass(t, nu);
    assert_int_equal(try_solve(t), OTA_OK);
    certify(t);
    spec_check("DER-24 LIT-24", fabs(t->certificate.gap), 1e-9);
}

static void refusals(void **unused) {
    (void)unused;
    stage *t = stage_make(0, golden_scores, 3, 3, "hard/exact");
    t->arrays.coupling = (ota_array){0};
    assert_int_equal(ota_certify(&t->problem, NULL, &t->arrays, &t->certificate, NULL, &t->error),
                     OTA_EINVAL);
    assert_string_equal(t->error.field, "coupling");
    t = stage_make(0, golden_scores, 3, 3, "softmax/exact{prune}");
    t->arrays.coupling = (ota_array){0};
    assert_int_equal(
        ota_certify(&t->problem, &t->options, &t->arrays, &t->certificate, NULL, &t->error),
        OTA_EINVAL);
    assert_string_equal(t->error.field, "coupling");
    t = stage_make(0, golden_scores, 3, 3, "softmax/exact");
    t->arrays.coupling = t->arrays.column_potential = (ota_array){0};
    assert_int_equal(ota_certify(&t->problem, NULL, &t->arrays, &t->certificate, NULL, &t->error),
                     OTA_EINVAL);
    t = stage_make(0, golden_scores, 3, 3, "softmax");
    t->arrays.coupling.size[3] = 2;
    assert_int_equal(ota_certify(&t->problem, NULL, &t->arrays, &t->certificate, NULL, &t->error),
                     OTA_EINVAL);
    assert_string_equal(t->error.field, "coupling");
    t->certificate.size = 0;
    assert_int_equal(ota_certify(&t->problem, NULL, &t->arrays, &t->certificate, NULL, &t->error),
                     OTA_EINVAL);
    /* Sizes of 0 touch nothing. */
    const char *methods[] = {"softmax", "softmax/exact", "relaxed:1", "elastic",
                             "hard",    "hard/exact",    "online:1",  "sparsemax/exact"};
    for (size_t k = 0; k < sizeof methods / sizeof methods[0]; k++) {
        t = stage_make(0, NULL, 0, 4, methods[k]);
        assert_true(try_solve(t) >= 0);
        certify(t);
        t = stage_make(0, NULL, 3, 0, methods[k]);
        const ota_status status = try_solve(t);
        assert_int_equal(status < 0, t->problem.columns == OTA_COLUMNS_EXACT);
        if (status >= 0) {
            assert_int_equal(t->result.empty_rows, 3);
            certify(t);
        }
    }
}

/* Each array that the judge reads, too long by one in each dimension: the sentence has all eight numbers. */
static void shapes_that_do_not_fit(void **unused) {
    (void)unused;
    enum { B = 2, H = 3, N = 4, M = 5 };
    static double scores[B * H * N * M], data[4 * B * H * N * M];
    static const struct {
        const char *field;
        size_t offset;
        int64_t rows, columns;
    } table[] = {{"coupling", offsetof(ota_arrays, coupling), N, M},
                 {"row_potential", offsetof(ota_arrays, row_potential), 1, N},
                 {"column_potential", offsetof(ota_arrays, column_potential), 1, M},
                 {"sink", offsetof(ota_arrays, sink), 1, N},
                 {"remaining", offsetof(ota_arrays, remaining), 1, M}};
    const ota_problem problem = {.size = sizeof problem,
                                 .scores = ota_array_of(scores, OTA_F64, B, H, N, M)};
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        for (int d = 0; d < 4; d++) {
            ota_arrays a = {.size = sizeof a};
            int64_t size[] = {B, H, table[k].rows, table[k].columns};
            size[d]++;
            *(ota_array *)(void *)((char *)&a + table[k].offset) =
                ota_array_of(data, OTA_F64, size[0], size[1], size[2], size[3]);
            ota_certificate found = {.size = sizeof found};
            ota_error error;
            char wanted[200];
            (void)snprintf(
                wanted, sizeof wanted,
                "%s has shape [%d, %d, %d, %d] where [%d, %d, %d, %d] of floats is needed",
                table[k].field, (int)size[0], (int)size[1], (int)size[2], (int)size[3], B, H,
                (int)table[k].rows, (int)table[k].columns);
            assert_int_equal(ota_certify(&problem, NULL, &a, &found, NULL, &error), OTA_EINVAL);
            assert_string_equal(error.field, table[k].field);
            assert_string_equal(error.message, wanted);
        }
    }
}

TEST_FILE(test_certificate) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(membership_is_exact),
        cmocka_unit_test(shapes_that_do_not_fit),

        cmocka_unit_test(every_cell),
        cmocka_unit_test(sinks),
        cmocka_unit_test(wrong_plans_are_seen),
        cmocka_unit_test(weak_duality),
        cmocka_unit_test(measures_of_a_plan),
        cmocka_unit_test(padding_changes_no_number),
        cmocka_unit_test(forbidden_keys_of_bad_rows_stay_forbidden),
        cmocka_unit_test(pruned_pairs_leave_the_dual),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
