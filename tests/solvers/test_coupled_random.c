/* Thousands of random problems of the coupled solvers, judged by plain loops: no residual above the
 * tolerance may be called ok. S [n][m]. OTATTN_TEST_SCALE multiplies the problems. */
#include "coupled_stage.h"
#include "groups.h"
#include "scale.h"

/* The residual of numeric policy 3.5 from the coupling and the potentials, by plain loops. */
static double plain_residual(const stage *x) {
    const ota_column_rule rule = x->problem.columns;
    double rows = 0.0, columns = 0.0, mass = 0.0;
    bool used[SIZE_LIMIT] = {false};
    for (int64_t i = 0; i < x->n; i++) {
        bool open = x->has_sink;
        for (int64_t j = 0; j < x->m; j++) {
            const bool allowed = x->s[i * x->m + j] > -INFINITY;
            open |= allowed;
            used[j] |= allowed && x->mu[i] > 0.0;
        }
        double wanted = open ? x->mu[i] : 0.0;
        mass += wanted;
        if (x->problem.rows == OTA_ROWS_RELAXED && wanted > 0.0) {
            wanted *= exp(-x->f[i] / x->problem.row_strength);
        }
        rows += fabs(x->row[i] - wanted);
    }
    for (int64_t j = 0; j < x->m; j++) {
        const double c = x->column[j];
        double nu = used[j] || rule == OTA_COLUMNS_EXACT ? x->nu[j] : 0.0;
        if (rule == OTA_COLUMNS_CAPPED) nu *= x->problem.cap;
        if (rule == OTA_COLUMNS_RELAXED && nu > 0.0) nu *= exp(-x->g[j] / x->problem.strength);
        columns += rule == OTA_COLUMNS_CAPPED ? fmax(0.0, c - nu) : fabs(c - nu);
    }
    return fmax(rows, columns) / (mass > 0.0 ? mass : 1.0);
}

typedef struct status_counts {
    int64_t ok, open, impossible;
} status_counts;

enum { DECADES = 13 };

static void random_problems(void **unused) {
    (void)unused;
    static const ota_column_rule rules[] = {OTA_COLUMNS_EXACT, OTA_COLUMNS_RELAXED,
                                            OTA_COLUMNS_CAPPED};
    static const double orders[] = {0.0, 0.0, 0.0, 1.25, 1.5, 2.0, 3.0};
    status_counts counts[DECADES] = {{0}};
    int64_t wrong = 0, reachable = 0, reached = 0;
    for (long t = 0; t < 3000 * test_scale(); t += test_stride()) {
        dice_state = (uint64_t)t * 7919u + 1u;
        const int64_t n = 1 + (int64_t)(uniform(&dice_state) * 64.0),
                      m = uniform(&dice_state) < 0.3 ? n
                                                     : 1 + (int64_t)(uniform(&dice_state) * 64.0);
        stage *x = set_stage(n, m);
        const double density = uniform(&dice_state) < 0.6 ? 1.0 : 0.3 + 0.7 * uniform(&dice_state),
                     spread = uniform(&dice_state) < 0.5 ? 1.0 : 6.0;
        double low = INFINITY, high = -INFINITY, total = 0.0, mass = 0.0;
        for (int64_t k = 0; k < n * m; k++) {
            x->s[k] = spread * normal(&dice_state);
            low = fmin(low, x->s[k]);
            high = fmax(high, x->s[k]);
            const bool kept = k / m * m == k % m * n; /* a diagonal keeps most supports feasible */
            if (!kept && uniform(&dice_state) > density) x->s[k] = -INFINITY;
        }
        const double range = high > low ? high - low : 1.0,
                     share = pow(10.0, -6.0 + 12.0 * uniform(&dice_state));
        const bool plain_masses = uniform(&dice_state) < 0.5;
        const double order = orders[(int)(uniform(&dice_state) * 7.0)];
        x->problem.columns = rules[(int)(uniform(&dice_state) * 3.0)];
        x->problem.regulariser = order > 1.0 ? OTA_ENTMAX : OTA_SOFTMAX;
        x->problem.order = order;
        x->problem.temperature = share * range;
        x->problem.strength = range * pow(10.0, 4.0 * uniform(&dice_state) - 2.0);
        x->problem.cap = 1.05 + uniform(&dice_state);
        if (x->problem.columns == OTA_COLUMNS_RELAXED && !(order > 1.0) &&
            uniform(&dice_state) < 0.3) {
            x->problem.rows = OTA_ROWS_RELAXED;
            x->problem.row_strength = range * pow(10.0, 4.0 * uniform(&dice_state) - 2.0);
        }
        if (uniform(&dice_state) < 0.2) {
            x->has_sink = true;
            x->sink =
                (ota_term){.kind = OTA_TERM_SINK, .value = low + uniform(&dice_state) * range};
        }
        x->given_masses = true;
        for (int64_t i = 0; i < n; i++)
            mass += x->mu[i] = plain_masses                 ? 1.0
                               : uniform(&dice_state) < 0.1 ? 0.0
                                                            : 0.01 + uniform(&dice_state);
        if (!(mass > 0.0)) mass += x->mu[0] = 1.0;
        for (int64_t j = 0; j < m; j++)
            total += x->nu[j] = plain_masses                 ? 1.0
                                : uniform(&dice_state) < 0.1 ? 0.0
                                                             : 0.01 + uniform(&dice_state);
        if (!(total > 0.0)) total += x->nu[0] = 1.0;
        const double filled = x->has_sink && x->problem.columns == OTA_COLUMNS_EXACT
                                  ? 0.9 * uniform(&dice_state) + 0.05
                                  : 1.0;
        for (int64_t j = 0; j < m; j++) x->nu[j] *= filled * mass / total;
        const double least = 8.0 * 0x1p-53 + 0x1p-53 * range / (4.0 * x->problem.temperature);
        const ota_status status = solve(x);
        const int decade = (int)floor(log10(share)) + 6;
        status_counts *count = &counts[decade < 0 ? 0 : decade < DECADES ? decade : DECADES - 1];
        if (status == OTA_OK) {
            count->ok++;
            const double residual = plain_residual(x);
            if (!(residual <= 1e-9 + 4.0 * least * (double)(n + m))) {
                wrong++;
                print_error("problem %ld: residual %.3g said to be ok\n", t, residual);
            }
        } else if (status == OTA_INFEASIBLE) {
            count->impossible++;
        } else {
            /* Unreachable: relaxed rows whose plan carries too much mass for f64, and orders above 2, whose weights next
             * to 0 lie far apart. */
            if (x->problem.rows != OTA_ROWS_RELAXED && !(order > 2.0))
                assert_int_equal(status, OTA_NOT_CONVERGED);
            assert_true(status == OTA_NOT_CONVERGED || status == OTA_TOL_UNREACHABLE);
            count->open++;
        }
        if (share >= 1e-3 && status != OTA_INFEASIBLE) {
            reachable++;
            reached += status == OTA_OK;
        }
        free(x);
    }
    print_message("temperature / range: ok, not converged, infeasible\n");
    for (int d = 0; d < DECADES - 1; d++) {
        print_message("  1e%+d: %ld %ld %ld\n", d - 6, (long)counts[d].ok, (long)counts[d].open,
                      (long)counts[d].impossible);
    }
    spec_check("TOT-08 DER-01 DER-02", (double)wrong, 0.0);
    assert_true((double)reached >= 0.99 * (double)reachable);
}

/* Relaxed columns that hold their masses fast while the temperature is low: the constant by which all potentials move at once
 * may be more than scalings of a kernel can carry and still a number. */
static void far_constants(void **unused) {
    (void)unused;
    double scores[] = {2.1781611084169317, 8.3199052929292101, 10.180970530251805,
                       7.2184052492041424};
    double bias[] = {-1.0480168625110931, -0.45860442873584017},
           mass[] = {1.1195636274803713, 1.2311856936381915}, p[4];
    unsigned char open[] = {1, 0, 0, 1};
    const ota_support diagonal = {.kind = OTA_SUPPORT_BOOLEAN,
                                  .array = ota_array_of(open, OTA_BOOL, 1, 1, 2, 2)};
    const ota_term added = {.kind = OTA_TERM_DENSE,
                            .array = ota_array_of(bias, OTA_F64, 1, 1, 1, 2)};
    ota_problem problem = {.size = sizeof problem,
                           .scores = ota_array_of(scores, OTA_F64, 1, 1, 2, 2),
                           .row_mass = ota_array_of(mass, OTA_F64, 1, 1, 1, 2),
                           .columns = OTA_COLUMNS_RELAXED,
                           .strength = 581.56058858045549,
                           .temperature = 0.0012928145982093308,
                           .terms = &added,
                           .term_count = 1,
                           .supports = &diagonal,
                           .support_count = 1};
    const ota_options options = {.size = sizeof options, .threads = 1};
    const ota_arrays arrays = {.size = sizeof arrays,
                               .coupling = ota_array_of(p, OTA_F64, 1, 1, 2, 2)};
    assert_int_equal(ota_attend(&problem, &options, &arrays, NULL, NULL), OTA_OK);
    spec_check("TOT-08", fabs(p[0] - mass[0]) + fabs(p[3] - mass[1]), 8.0 * DBL_EPSILON);
}

/* As many keys as queries and one unit of room in each: a matching, whose potentials are those of capacities. */
static void squares_of_capacity(void **unused) {
    (void)unused;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        const int64_t n = 1 + (int64_t)(seed % 12);
        stage *x = set_stage(n, n);
        fill_normal(x, 500 + seed);
        for (int64_t k = 0; k < n * n; k++) x->s[k] += seed % 2 == 0 ? 10.0 : -10.0;
        assert_int_equal(solve_by(x, "hard/capped:1", "auto", 1.0, 1e-9), OTA_OK);
        for (int64_t i = 0; i < n; i++) {
            assert_true(x->g[i] <= 0.0);
            spec_check("LIT-08", fabs(x->row[i] - 1.0) + fabs(x->column[i] - 1.0), 0.0);
            for (int64_t j = 0; j < n; j++) {
                const double slack = x->s[i * n + j] + x->f[i] + x->g[j];
                const double off = x->p[i * n + j] > 0.0 ? fabs(slack) : slack;
                spec_check("ELA-01 LIT-08", off, 64.0 * DBL_EPSILON * (10.0 + (double)n));
            }
        }
        free(x);
    }
}

TEST_FILE(test_coupled_random) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_problems),
                                       cmocka_unit_test(far_constants),
                                       cmocka_unit_test(squares_of_capacity)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
