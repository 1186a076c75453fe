/* test_certificate_alone.c: the certificate of a coupling without potentials: those it finds have no gap where the coupling tells
 * them, wherever bounds and caps bind, and are a bound of the optimum where it does not. */
#include "groups.h"
#include "judge_stage.h"

enum { ROWS = 5, KEYS = 6 };

typedef struct cell {
    const char *method;
    double temperature, spread;
    bool sink, masked, masses, capped; /* caps of entries that bind */
    bool tells; /* weights are positive wherever they may be: the gap closes */
} cell;

static const cell cells[] = {
    /* between the bounds, at one of them, at both, at two that are one */
    {.method = "softmax/bounded:.5,1.5", .tells = true},
    {.method = "softmax/bounded:0,3", .tells = true},
    {.method = "softmax/bounded:.9,1.1", .spread = 3.0, .tells = true},
    {.method = "softmax/bounded:.2,1", .tells = true},
    {.method = "softmax/bounded:.2,1", .spread = 3.0, .masses = true, .tells = true},
    {.method = "softmax/bounded:1,2", .tells = true},
    {.method = "softmax/bounded:1,2", .spread = 3.0, .tells = true},
    {.method = "softmax/bounded:1,2", .masses = true, .tells = true},
    {.method = "softmax/bounded:1,1", .tells = true},
    {.method = "softmax/bounded:.99,1.01", .tells = true},
    {.method = "softmax/bounded:.5,1.5", .masked = true, .tells = true},
    {.method = "softmax/bounded:1,2", .masked = true, .tells = true},
    {.method = "entmax:1.5/bounded:1,2", .temperature = 8.0, .tells = true},
    {.method = "entmax:1.5/bounded:.9,1.1", .temperature = 8.0, .tells = true},
    {.method = "entmax:1.5/bounded:.2,1", .temperature = 8.0, .tells = true},
    {.method = "sparsemax/bounded:.5,1.5", .spread = 3.0},
    {.method = "sparsemax/bounded:1,2", .spread = 3.0},
    {.method = "softmax/capped:1.2", .tells = true},
    {.method = "softmax/capped:1", .masked = true, .tells = true},
    {.method = "softmax/capped:1", .sink = true, .tells = true},
    {.method = "sparsemax/capped:1.2", .spread = 3.0},
    {.method = "entmax:0.7/capped:1.2", .tells = true},
    {.method = "softmax/exact", .masked = true, .masses = true, .tells = true},
    {.method = "entmax:0.7/exact", .tells = true},
    {.method = "sparsemax/exact", .spread = 3.0},
    {.method = "softmax/relaxed:.8", .masked = true, .masses = true, .tells = true},
    {.method = "sparsemax/relaxed:.8", .spread = 6.0},
    {.method = "softmax", .capped = true, .tells = true},
    {.method = "entmax:1.5", .capped = true, .tells = true},
    {.method = "softmax/exact", .capped = true, .tells = true},
    {.method = "hard", .tells = true},
};

/* Key 3 is closed to all, key 2 to the first two rows and, where that has a plan, every key to the last row. */
static void close_some(stage *t) {
    for (int i = 0; i < ROWS; i++) {
        t->s[i * KEYS + 3] = -INFINITY;
        if (i < 2) t->s[i * KEYS + 2] = -INFINITY;
    }
    for (int j = 0; j < KEYS && t->problem.columns != OTA_COLUMNS_EXACT; j++)
        t->s[(ROWS - 1) * KEYS + j] = -INFINITY;
}

static void certificates_alone(void **unused) {
    (void)unused;
    for (size_t k = 0; k < sizeof cells / sizeof cells[0]; k++) {
        const cell *c = &cells[k];
        for (uint64_t turn = 0; turn < 5; turn++) {
            double s[ROWS * KEYS], mu[ROWS];
            dice_state = 5 + turn;
            fill(s, ROWS * KEYS, c->spread > 0.0 ? c->spread : 1.0);
            for (int i = 0; i < ROWS; i++) mu[i] = i == 1 ? 0.0 : 0.3 + uniform(&dice_state);
            stage *t = stage_make(0, s, ROWS, KEYS, c->method);
            if (c->temperature > 0.0) t->problem.temperature = c->temperature;
            if (c->masked) close_some(t);
            if (c->masses) with_row_mass(t, mu);
            if (c->sink) with_term(t, (ota_term){OTA_TERM_SINK, {0}, 0.4});
            if (c->capped) t->problem.entry_cap = 0.3;
            solve(t);
            const double optimum = t->certificate.dual;
            const double slack = 1e-9 * (1.0 + fabs(optimum));
            if (!(fabs(t->certificate.gap) <= slack))
                fail_msg("%s, %d: the gap of the reference is %g", c->method, (int)turn,
                         t->certificate.gap);
            t->arrays.row_potential = t->arrays.column_potential = (ota_array){0};
            certify(t);
            const double gap = t->certificate.gap;
            if (isnan(gap) && !c->tells) continue;
            if (!(gap >= -slack) || (c->tells && !(gap <= slack)))
                fail_msg("%s, %d: a gap of %g alone", c->method, (int)turn, gap);
        }
    }
}

/* A row potential that is judged has a part in how soon the best one is found, none in which: the dual is that of the column
 * potentials, whatever the row potentials say, and without any. */
static void the_dual_knows_no_row_potential(void **unused) {
    (void)unused;
    for (size_t k = 0; k < sizeof cells / sizeof cells[0]; k++) {
        const cell *c = &cells[k];
        double s[ROWS * KEYS], given[ROWS];
        dice_state = 77 + k;
        fill(s, ROWS * KEYS, c->spread > 0.0 ? c->spread : 1.0);
        stage *t = stage_make(0, s, ROWS, KEYS, c->method);
        if (c->temperature > 0.0) t->problem.temperature = c->temperature;
        if (c->sink) with_term(t, (ota_term){OTA_TERM_SINK, {0}, 0.4});
        if (c->capped) t->problem.entry_cap = 0.3;
        solve(t);
        const double dual = t->certificate.dual;
        memcpy(given, t->f, sizeof given);
        for (int turn = 0; turn < 9; turn++) {
            const double off[] = {0.0, 1e-13, -1e-9, 1e-6, -1e-3, 1.0, -50.0, 1e300, NAN};
            for (int i = 0; i < ROWS; i++) t->f[i] = given[i] + off[turn];
            certify(t);
            if (!(fabs(t->certificate.dual - dual) <= 1e-13 * (1.0 + fabs(dual))))
                fail_msg("%s: a dual of %.17g, not %.17g, where row potentials are %g off",
                         c->method, t->certificate.dual, dual, off[turn]);
        }
        t->arrays.row_potential = (ota_array){0};
        certify(t);
        if (!(fabs(t->certificate.dual - dual) <= 1e-13 * (1.0 + fabs(dual))))
            fail_msg("%s: a dual of %.17g, not %.17g, without row potentials", c->method,
                     t->certificate.dual, dual);
    }
}

TEST_FILE(test_certificate_alone) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(certificates_alone),
                                       cmocka_unit_test(the_dual_knows_no_row_potential)};
    return cmocka_run_group_tests_name("certificate_alone", tests, NULL, NULL);
}
