/* test_certificate_doors.c: what a certificate refuses, and measures of plans and potentials at the edges of what may be judged: no
 * weights of a row, no mass, numbers that are none, transposed caps, heads of which one has no gap. */
#include "groups.h"
#include "judge_stage.h"

#include <string.h>

static const double scores[9] = {1, 0, 0, 0, 2, 0, 1, 1, 0};

static ota_status judge(stage *t) {
    memset(&t->error, 0, sizeof t->error);
    return ota_certify(&t->problem, &t->options, &t->arrays, &t->certificate, NULL, &t->error);
}

static void expect(stage *t, const char *field, const char *words) {
    const ota_status status = judge(t);
    if (status != OTA_EINVAL || strcmp(t->error.field, field) != 0 ||
        strstr(t->error.message, words) == NULL)
        fail_msg("status %d, '%s': %s; wanted '%s': %s", (int)status, t->error.field,
                 t->error.message, field, words);
    assert_true(t->error.hint[0] != '\0');
}

/* ---- refusals ------------------------------------------------------------------------------------ */

static void arrays_of_other_shapes_are_refused(void **unused) {
    (void)unused;
    static const struct {
        const char *field;
        size_t offset;
    } fields[] = {{"coupling", offsetof(ota_arrays, coupling)},
                  {"row_potential", offsetof(ota_arrays, row_potential)},
                  {"column_potential", offsetof(ota_arrays, column_potential)},
                  {"sink", offsetof(ota_arrays, sink)},
                  {"remaining", offsetof(ota_arrays, remaining)}};
    static const ota_type types[] = {OTA_I64, OTA_BOOL, OTA_NO_TYPE};
    for (size_t k = 0; k < sizeof fields / sizeof fields[0]; k++) {
        for (int turn = 0; turn < 7; turn++) {
            stage *t = stage_make(0, scores, 3, 3, "softmax/online:2");
            t->arrays.remaining = vector(t->remaining, 3);
            ota_array *a = (ota_array *)(void *)((char *)&t->arrays + fields[k].offset);
            if (turn < 4)
                a->size[turn]++;
            else
                a->type = types[turn - 4];
            expect(t, fields[k].field, "of floats is needed");
        }
    }
}

static void arrays_that_cannot_be_read_are_refused(void **unused) {
    (void)unused;
    stage *t = stage_make(0, scores, 3, 3, "softmax");
    t->arrays.coupling.data = NULL;
    expect(t, "coupling", "coupling has no data");
    t = stage_make(0, scores, 3, 3, "softmax");
    t->arrays.coupling.data = (char *)t->arrays.coupling.data + 1;
    assert_int_equal(judge(t), OTA_EALIGN);
}

static void what_tells_too_little_is_refused(void **unused) {
    (void)unused;
    static const struct {
        const char *method, *words; /* NULL: enough */
        bool transposed, row, column;
    } cells[] = {
        {"hard", "potentials alone do not define a hard or prefix plan", false, true, true},
        {"softmax/prefix", "potentials alone do not define a hard or prefix plan", false, true,
         true},
        {"softmax/exact{prune}", "potentials do not tell which pairs were pruned", false, true,
         true},
        {"softmax/exact", "so is the row potential", false, false, true},
        {"softmax/exact", "so is the column potential", false, true, false},
        {"softmax/exact", NULL, false, true, true},
        {"softmax", "so is the row potential", false, false, false},
        {"softmax", NULL, false, true, false},
        {"softmax/online:2", NULL, false, true, false},
        {"softmax", "so is the column potential", true, true, false},
        {"softmax", NULL, true, false, true},
        {"softmax/exact", "so is the row potential", true, false, true},
        {"softmax/exact", "so is the column potential", true, true, false},
    };
    for (size_t k = 0; k < sizeof cells / sizeof cells[0]; k++) {
        stage *t = stage_make(0, scores, 3, 3, cells[k].method);
        if (cells[k].transposed) t->problem.axis = OTA_AXIS_COLUMNS;
        t->arrays.coupling = (ota_array){0};
        if (!cells[k].row) t->arrays.row_potential = (ota_array){0};
        if (!cells[k].column) t->arrays.column_potential = (ota_array){0};
        if (cells[k].words != NULL)
            expect(t, "coupling", cells[k].words);
        else
            assert_int_equal(judge(t), OTA_OK);
    }
    stage *t = stage_make(0, scores, 3, 3, "softmax");
    assert_int_equal(ota_certify(&t->problem, NULL, &t->arrays, NULL, NULL, &t->error), OTA_EINVAL);
    assert_string_equal(t->error.field, "certificate.size");
    assert_int_equal(ota_certify(&t->problem, NULL, NULL, &t->certificate, NULL, &t->error),
                     OTA_EINVAL);
    assert_string_equal(t->error.field, "coupling");
    t->arrays.size = 0;
    expect(t, "coupling", "so is the row potential");
    t->problem.temperature = -1.0;
    expect(t, "temperature", "temperature");
    /* A certificate of an older header gets its beginning. */
    t = plan_of(0, scores, 3, 3, "softmax");
    ota_certificate whole = t->certificate,
                    brief = {.size = offsetof(ota_certificate, primal), .primal = 7.0};
    assert_int_equal(ota_certify(&t->problem, NULL, &t->arrays, &brief, NULL, &t->error), OTA_OK);
    assert_true(brief.primal >= 7.0 && brief.primal <= 7.0);
    assert_memory_equal(&brief.row_error, &whole.row_error, sizeof brief.row_error);
}

/* ---- edges --------------------------------------------------------------------------------------- */

/* Capacities that online rows left below zero are an error of the columns. */
static void overdrawn_capacities(void **unused) {
    (void)unused;
    stage *t = stage_make(0, scores, 3, 3, "softmax/online:2");
    solve(t);
    t->arrays.remaining = vector(t->remaining, 3);
    for (int j = 0; j < 3; j++) t->remaining[j] = 2.0 - t->receiver[j];
    certify(t);
    const double before = t->certificate.column_error;
    t->remaining[1] = -0.375;
    certify(t);
    assert_true(fabs(t->certificate.column_error - before - 0.375 / 3.0) < 1e-15);
}

/* Relaxed rows without potentials are held against those that their own totals tell. */
static void relaxed_rows_alone(void **unused) {
    (void)unused;
    const double mu[3] = {0.5, 0.0, 1.5};
    for (int turn = 0; turn < 3; turn++) {
        stage *t = stage_make(0, scores, 3, 3, "softmax/relaxed:.8");
        t->problem.rows = OTA_ROWS_RELAXED;
        t->problem.row_strength = 1.3;
        if (turn > 0) with_row_mass(t, mu);
        solve(t);
        const ota_certificate honest = t->certificate;
        t->arrays.row_potential = t->arrays.column_potential = (ota_array){0};
        certify(t);
        assert_true(t->certificate.row_error < 1e-11);
        assert_true(fabs(t->certificate.gap) < 1e-9);
        assert_true(fabs(t->certificate.primal - honest.primal) < 1e-12);
        if (turn < 2) continue;
        /* A row of mass that gives nothing has no total to tell a potential, and should have given all. */
        for (int j = 0; j < 3; j++) t->p[j] = 0.0;
        certify(t);
        assert_true(fabs(t->certificate.row_error - mu[0] / 2.0) < 1e-11);
        assert_true(t->certificate.gap > 1e-3 && isfinite(t->certificate.gap));
    }
}

/* Weight of a row without mass is an error of the rows and counts in no mean. */
static void weight_without_mass(void **unused) {
    (void)unused;
    const double mu[3] = {1.0, 0.0, 1.0};
    stage *t = stage_make(0, scores, 3, 3, "softmax");
    with_row_mass(t, mu);
    solve(t);
    const ota_certificate honest = t->certificate;
    t->p[4] = 0.25;
    t->p[5] = -0.125;
    certify(t);
    assert_true(fabs(t->certificate.row_error - honest.row_error - 0.125 / 2.0) < 1e-15);
    assert_true(fabs(t->certificate.minimum + 0.125) <= 0.0);
    assert_true(fabs(t->certificate.entropy - honest.entropy) < 1e-15);
    assert_true(fabs(t->certificate.support - honest.support) < 1e-15);
}

/* Potentials that are no numbers give rows that are none, and -inf gives none of the mass. */
static void potentials_that_are_no_numbers(void **unused) {
    (void)unused;
    static const struct {
        double f, g;
        int64_t lost;     /* rows */
        bool row, column; /* without mass */
    } cells[] = {{(double)NAN, 0.0, 1, false, false},
                 {0.0, (double)NAN, 3, false, false},
                 {-INFINITY, 0.0, 0, true, false},
                 {0.0, -INFINITY, 0, false, true}};
    for (size_t k = 0; k < sizeof cells / sizeof cells[0]; k++) {
        stage *t = plan_of(0, scores, 3, 3, "softmax/exact");
        double p[9];
        memcpy(p, t->p, sizeof p);
        t->arrays.coupling = (ota_array){0};
        if (!(cells[k].f >= 0.0)) t->f[1] = cells[k].f;
        if (!(cells[k].g >= 0.0)) t->g[1] = cells[k].g;
        certify(t);
        const ota_certificate *c = &t->certificate;
        assert_int_equal(c->nonfinite_rows, cells[k].lost);
        if (cells[k].lost > 0) assert_true(isinf(c->row_error) && isinf(c->column_error));
        if (cells[k].row) assert_true(fabs(c->row_error - 1.0 / 3.0) < 1e-12);
        if (cells[k].column) assert_true(fabs(c->row_error - (p[1] + p[4] + p[7]) / 3.0) < 1e-12);
    }
}

/* What lies outside a support of no mass is infinitely far from it. */
static void relaxed_columns_of_no_mass(void **unused) {
    (void)unused;
    const double nu[3] = {1.5, 0.0, 1.5};
    stage *t = stage_make(0, scores, 3, 3, "softmax/relaxed:.8");
    with_column_mass(t, nu);
    solve(t);
    assert_true(fabs(t->certificate.gap) < 1e-9);
    for (int k = 0; k < 9; k++) t->p[k] = 1.0 / 3.0;
    certify(t);
    assert_true(isinf(t->certificate.primal) && t->certificate.primal > 0.0);
}

/* On the columns axis keys are the rows: the certificate is that of the transposed problem. */
static void the_columns_axis_is_the_transposed_problem(void **unused) {
    (void)unused;
    static const char *const methods[] = {"softmax",         "entmax:1.5",
                                          "softmax/exact",   "softmax/capped:2",
                                          "sparsemax/exact", "softmax/relaxed:.8"};
    for (size_t k = 0; k < sizeof methods / sizeof methods[0]; k++) {
        double s[20], across[20];
        dice_state = 301 + k;
        fill(s, 20, 1.0);
        for (int x = 0; x < 20; x++) across[x] = s[x % 4 * 5 + x / 4];
        stage *t = stage_make(0, s, 4, 5, methods[k]), *u = stage_make(1, across, 5, 4, methods[k]);
        t->problem.axis = OTA_AXIS_COLUMNS;
        solve(u);
        for (int x = 0; x < 20; x++) t->p[x] = u->p[x % 5 * 4 + x / 5];
        memcpy(t->f, u->g, sizeof t->f);
        memcpy(t->g, u->f, sizeof t->g);
        for (int alone = 0; alone < 2; alone++) {
            certify(t);
            certify(u);
            const ota_certificate *a = &t->certificate, *b = &u->certificate;
            assert_true(fabs(b->gap) < 1e-8);
            assert_true(fabs(a->gap - b->gap) < 1e-12);
            assert_true(fabs(a->primal - b->primal) < 1e-12);
            assert_true(fabs(a->row_error - b->row_error) < 1e-14);
            assert_true(fabs(a->column_error - b->column_error) < 1e-14);
            t->arrays.coupling = u->arrays.coupling = (ota_array){0};
        }
    }
}

/* ---- heads --------------------------------------------------------------------------------------- */

static double soft_weight(void *user, double x) {
    (void)user;
    return exp(x);
}
static double soft_value(void *user, double p) {
    (void)user;
    return p > 0.0 ? p * (log(p) - 1.0) : 0.0;
}

/* One head without a gap leaves all without one, wherever it stands. A head of closed rows has no weights, hence a gap even
 * where the caller gave no value. */
static void a_gap_that_one_head_has_not(void **unused) {
    (void)unused;
    for (int turn = 0; turn < 8; turn++) {
        double s[18], p[18];
        const bool valued = turn >= 4;
        for (int h = 0; h < 2; h++) {
            const bool closed = (turn >> h & 1) != 0;
            for (int k = 0; k < 9; k++) {
                s[9 * h + k] = closed ? -INFINITY : scores[k];
                p[9 * h + k] = closed ? 0.0 : exp(scores[k]);
            }
            for (int i = 0; i < 3 && !closed; i++) {
                double *row = p + 9 * h + 3 * i;
                const double sum = row[0] + row[1] + row[2];
                for (int j = 0; j < 3; j++) row[j] /= sum;
            }
        }
        ota_problem problem = {.size = sizeof problem,
                               .scores = ota_array_of(s, OTA_F64, 1, 2, 3, 3),
                               .regulariser = OTA_CUSTOM,
                               .custom = {.weight = soft_weight,
                                          .slope = soft_weight,
                                          .value = valued ? soft_value : NULL}};
        ota_arrays arrays = {.size = sizeof arrays,
                             .coupling = ota_array_of(p, OTA_F64, 1, 2, 3, 3)};
        ota_certificate all = {.size = sizeof all}, heads[2];
        assert_int_equal(ota_certify(&problem, NULL, &arrays, &all, heads, NULL), OTA_OK);
        for (int h = 0; h < 2; h++)
            assert_int_equal(isnan(heads[h].gap), !valued && (turn >> h & 1) == 0);
        assert_int_equal(isnan(all.gap), isnan(heads[0].gap) || isnan(heads[1].gap));
        if (!isnan(all.gap)) {
            assert_true(all.gap >= heads[0].gap && all.gap >= heads[1].gap);
            assert_true(fabs(all.gap) < 1e-9);
        }
    }
}

TEST_FILE(test_certificate_doors) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_of_other_shapes_are_refused),
        cmocka_unit_test(arrays_that_cannot_be_read_are_refused),
        cmocka_unit_test(what_tells_too_little_is_refused),
        cmocka_unit_test(overdrawn_capacities),
        cmocka_unit_test(relaxed_rows_alone),
        cmocka_unit_test(weight_without_mass),
        cmocka_unit_test(potentials_that_are_no_numbers),
        cmocka_unit_test(relaxed_columns_of_no_mass),
        cmocka_unit_test(the_columns_axis_is_the_transposed_problem),
        cmocka_unit_test(a_gap_that_one_head_has_not),
    };
    return cmocka_run_group_tests_name("certificate_doors", tests, NULL, NULL);
}
