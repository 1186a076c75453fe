/* How rounds of the coupled solvers go on and how they end, read off the residuals that they tell: what is kept when
 * they run out, what is taken back, when another method takes over. S [n][m]. */
#include "coupled_stage.h"
#include "groups.h"

enum { MOST_TOLD = 4096 };

typedef struct record {
    int64_t count;
    double residual[MOST_TOLD];
} record;

static void listen(void *user, const ota_progress *progress) {
    record *told = user;
    assert_true(told->count < MOST_TOLD);
    told->residual[told->count++] = progress->residual;
}

static ota_status solve_and_record(stage *x, const char *method, const char *solver,
                                   double temperature, double tolerance, record *told) {
    told->count = 0;
    /* Costs are centred, or the walk that reads a kernel once a round would make the first rounds. */
    x->options.center = OTA_CENTER_MEAN;
    x->options.progress = listen;
    x->options.progress_user = told;
    return solve_by(x, method, solver, temperature, tolerance);
}

static double least(const record *told) {
    double lowest = INFINITY;
    for (int64_t k = 0; k < told->count; k++) lowest = fmin(lowest, told->residual[k]);
    return lowest;
}

/* A plan that is not there yet is the best of all rounds, however many and whoever made them, also where a search for
 * unusable pairs comes between: 32 keys are whole cache lines. */
static void partial_plans_are_the_best_seen(void **unused) {
    (void)unused;
    static const char *const solvers[] = {"sinkhorn", "log", "anderson"};
    static record told;
    for (int k = 0; k < 12; k++) {
        for (int64_t rounds = 3; rounds < 40; rounds += 9) {
            stage *x = set_stage(24, k < 6 ? 24 : 32);
            fill_uniform(x, 7, 1.0);
            for (int64_t i = 0; i < 24 && k % 6 >= 3; i++) x->s[i * x->m + i % x->m] = -INFINITY;
            x->options.max_rounds = rounds;
            x->options.allow_partial = 1;
            const char *method = k < 6 ? "ceta" : "capped:0.76";
            assert_int_equal(solve_and_record(x, method, solvers[k % 3], 0.01, 1e-12, &told),
                             OTA_PARTIAL);
            assert_true(told.count >= rounds && told.residual[0] > 1.05 * least(&told));
            spec_check("", x->result.column_error, least(&told) * (1.0 + 1e-9));
            for (int64_t i = 0; i < 24; i++)
                spec_check("DER-26", fabs(x->row[i] - 1.0), 4.0 * 0x1p-53 * (double)x->m);
            free(x);
        }
    }
}

/* Rounds of a fixed number tell residuals like others, and plain ones never lose. */
static void fixed_rounds_tell_their_residuals(void **unused) {
    (void)unused;
    enum { ROUNDS = 6 };
    static record told;
    stage *x = set_stage(24, 24);
    fill_uniform(x, 7, 1.0);
    x->options.rounds = ROUNDS;
    assert_int_equal(solve_and_record(x, "ceta", "log", 0.1, 0.0, &told), OTA_FIXED_ITERS);
    assert_true(told.count >= ROUNDS);
    for (int64_t k = 0; k < ROUNDS; k++)
        assert_true(told.residual[k] < (k == 0 ? INFINITY : told.residual[k - 1]));
    free(x);
}

/* A step of Anderson's that makes the plan worse is replaced by the plain one: the round after it is no worse than the
 * round before it, because plain rounds never lose. */
static void bad_extrapolations_are_taken_back(void **unused) {
    (void)unused;
    static record told;
    int64_t rises = 0;
    for (uint64_t seed = 1; seed < 13; seed++) {
        stage *x = set_stage(40, 40);
        fill_uniform(x, seed, 1.0);
        x->options.max_rounds = 400;
        x->options.allow_partial = 1;
        assert_true(solve_and_record(x, "ceta", "anderson", 0.004, 1e-10, &told) >= OTA_OK);
        for (int64_t k = 1; k + 1 < told.count; k++) {
            if (!(told.residual[k] > told.residual[k - 1])) continue;
            rises++;
            spec_check("", told.residual[k + 1], told.residual[k - 1] * (1.0 + 1e-9));
        }
        free(x);
    }
    assert_true(rises > 20);
}

/* Two pairs that hardly see each other, with masses in the ratio 2 : 1 against 1 : 2. Every plain round halves and
 * doubles and leaves the residual as it is, to the last bit, for hundreds of rounds. */
static void standing_rounds_are_left(void **unused) {
    (void)unused;
    static record told;
    stage *x = set_stage(2, 2);
    x->s[1] = x->s[2] = -700.0;
    x->given_masses = true;
    x->mu[0] = x->nu[1] = 2.0;
    x->mu[1] = x->nu[0] = 1.0;
    x->options.max_rounds = 2000;
    assert_int_equal(solve_and_record(x, "softmax/exact", "log", 1.0, 1e-9, &told), OTA_OK);
    assert_true(x->result.rounds > 300);
    for (int64_t k = 10; k < 200; k++)
        assert_true(memcmp(&told.residual[k], &told.residual[9], sizeof(double)) == 0);
    assert_int_equal(solve_and_record(x, "softmax/exact", "auto", 1.0, 1e-9, &told), OTA_OK);
    assert_string_equal(x->result.solver, "newton");
    spec_check("DER-11", (double)x->result.rounds, 60.0);
    free(x);
}

/* A support that no plan with positive weights fits is found out when rounds stall, not when they run out. */
static void hopeless_supports_are_found_early(void **unused) {
    (void)unused;
    static const char *const solvers[] = {"sinkhorn", "log"};
    static record told;
    for (int s = 0; s < 2; s++) {
        stage *x = set_stage(12, 12);
        fill_normal(x, 71);
        for (int64_t i = 0; i < 12; i++) {
            for (int64_t j = i + 1; j < 12; j++) x->s[i * 12 + j] = -INFINITY;
        }
        x->options.max_rounds = 4000;
        assert_int_equal(solve_and_record(x, "ceta", solvers[s], 1.0, 1e-9, &told), OTA_INFEASIBLE);
        assert_true(told.count <= 600);
        free(x);
    }
}

/* Prefix columns tell of their worst leading block: its rounds, its error, and which query it was for. */
static void prefixes_tell_their_worst_block(void **unused) {
    (void)unused;
    stage *x = set_stage(12, 12);
    fill_normal(x, 77);
    assert_int_equal(solve_by(x, "softmax/prefix", "auto", 0.3, 1e-9), OTA_OK);
    const int64_t rounds = x->result.rounds;
    assert_true(rounds > 3 && x->result.column_error <= 1e-9 && x->result.column_error > 0.0);
    x->options.max_rounds = 2;
    assert_int_equal(solve_by(x, "softmax/prefix", "auto", 0.3, 1e-9), OTA_NOT_CONVERGED);
    /* The first block is one query on one key, which needs no round. */
    spec_check_true("DER-04", strncmp(x->result.sentence, "query 1:", 8) == 0);
    x->options.allow_partial = 1;
    assert_int_equal(solve_by(x, "softmax/prefix", "auto", 0.3, 1e-9), OTA_PARTIAL);
    assert_int_equal(x->result.rounds, 2);
    /* The last row alone may miss by less than some block before it did. */
    double last = 0.0;
    for (int64_t j = 0; j < 12; j++) last += x->p[11 * 12 + j];
    spec_check("DER-04", fabs(last - 1.0), 1e-12);
    spec_check_true("DER-04", x->result.column_error > 1e-4);
    free(x);
}

/* A constant in g moves no weight, so updates of keys that all lie on one side of 0 would cross to it in steps of one
 * constant, whose differences are rounding alone: no start is too far off, and no potential runs away. */
static void starts_on_one_side_of_the_kink_cross_to_it(void **unused) {
    (void)unused;
    static const char *const methods[] = {"bounded:0.8,1", "bounded:0.8,1.1", "bounded:1,1.3",
                                          "bounded:0.5,2", "capped:6",        "capped:5",
                                          "exact",         "bounded:1,1"};
    static const char *const solvers[] = {"auto", "sinkhorn", "log", "anderson", "newton"};
    static const double sides[] = {1.167, -1.167, 300.0, -300.0};
    for (int64_t m = 1; m <= 4; m += 3) {
        for (size_t k = 0; k < sizeof methods / sizeof methods[0] * 20; k++) {
            const char *method = methods[k / 20], *solver = solvers[k % 20 / 4];
            stage *x = set_stage(5, m);
            fill_normal(x, 77);
            assert_int_equal(solve_by(x, method, solver, 1.0, 1e-9), OTA_OK);
            stage *y = set_stage(5, m);
            fill_normal(y, 77);
            for (int64_t j = 0; j < m; j++) y->start[j] = sides[k % 4] + 0.125 * (double)j;
            y->warm = true;
            const ota_status status = solve_by(y, method, solver, 1.0, 1e-9);
            if (status != OTA_OK) print_error("%s by %s: %s\n", method, solver, y->error.message);
            assert_int_equal(status, OTA_OK);
            spec_check("DER-02", farthest(x->p, y->p, 5 * m), 64e-9);
            for (int64_t j = 0; j < m; j++) assert_true(fabs(y->g[j]) <= 310.0);
            free(x);
            free(y);
        }
    }
}

TEST_FILE(test_coupled_rounds) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(partial_plans_are_the_best_seen),
        cmocka_unit_test(fixed_rounds_tell_their_residuals),
        cmocka_unit_test(bad_extrapolations_are_taken_back),
        cmocka_unit_test(standing_rounds_are_left),
        cmocka_unit_test(hopeless_supports_are_found_early),
        cmocka_unit_test(prefixes_tell_their_worst_block),
        cmocka_unit_test(starts_on_one_side_of_the_kink_cross_to_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
