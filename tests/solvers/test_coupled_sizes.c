/* Coupled columns beyond the sizes up to which something else is done: Newton's steps by conjugate gradients
 * where the Hessian is not formed, unusable pairs found by peeling where a flow would take too long, Anderson
 * where Newton has no room. Scores S [n][m]. */
#include "backend_wrap.h"
#include "coupled_stage.h"
#include "groups.h"

enum { MANY_PAIRS = 2049 /* squared, just above the limit of the search by flow */ };

typedef struct head {
    int64_t n, m;
    double *s, *p, *f, *g;
    double *caps; /* [n][m] of entries; NULL: one number or none */
    double *left; /* [n] of a sink of score `sink`; NULL: there is none */
    double sink;
    ota_problem problem;
    ota_options options;
    ota_result result;
    ota_error error;
} head;

static double *numbers(int64_t count) {
    double *x = calloc((size_t)count, sizeof *x);
    assert_non_null(x);
    return x;
}

static head set_head(int64_t n, int64_t m, uint64_t seed) {
    head h = {.n = n,
              .m = m,
              .problem = {.size = sizeof h.problem},
              .options = {.size = sizeof h.options}};
    h.s = numbers(n * m);
    h.p = numbers(n * m);
    h.f = numbers(n);
    h.g = numbers(m);
    dice_state = seed;
    for (int64_t k = 0; k < n * m; k++) h.s[k] = uniform(&dice_state);
    return h;
}

static void free_head(head *h) {
    free(h->s);
    free(h->p);
    free(h->f);
    free(h->g);
    free(h->caps);
    free(h->left);
}

static ota_status run(head *h, const char *method, const char *solver, double temperature,
                      double tolerance) {
    assert_int_equal(ota_method_parse(method, &h->problem, &h->options, &h->error), OTA_OK);
    h->problem.temperature = temperature;
    h->problem.scores = ota_array_of(h->s, OTA_F64, 1, 1, h->n, h->m);
    h->options.solver = solver;
    h->options.tolerance = tolerance;
    if (h->caps != NULL) h->problem.entry_caps = ota_array_of(h->caps, OTA_F64, 1, 1, h->n, h->m);
    ota_arrays arrays = {.size = sizeof arrays};
    const ota_term sink = {.kind = OTA_TERM_SINK, .value = h->sink};
    if (h->left != NULL) {
        h->problem.terms = &sink;
        h->problem.term_count = 1;
        arrays.sink = ota_array_of(h->left, OTA_F64, 1, 1, 1, h->n);
    }
    arrays.coupling = ota_array_of(h->p, OTA_F64, 1, 1, h->n, h->m);
    arrays.row_potential = ota_array_of(h->f, OTA_F64, 1, 1, 1, h->n);
    arrays.column_potential = ota_array_of(h->g, OTA_F64, 1, 1, 1, h->m);
    h->result = (ota_result){.size = sizeof h->result};
    const ota_status status = ota_attend(&h->problem, &h->options, &arrays, &h->result, &h->error);
    h->problem.terms = NULL;
    h->problem.term_count = 0;
    return status;
}

static double cap_of(const head *h, int64_t i, int64_t j) {
    if (h->caps != NULL) return h->caps[i * h->m + j];
    return h->problem.entry_cap > 0.0 ? h->problem.entry_cap : INFINITY;
}

/* The weights are those of the potentials (orders up to 2) or their caps, the sums of rows and columns what the rule says. */
static void check_conditions(const head *h, double tolerance) {
    const double t = h->problem.temperature, rho = h->problem.strength, cap = h->problem.cap;
    const double share = (double)h->n / (double)h->m;
    double weights = 0.0, rows = 0.0, columns = 0.0;
    double *sums = numbers(h->m);
    for (int64_t i = 0; i < h->n; i++) {
        double sum = h->left != NULL ? h->left[i] : 0.0;
        for (int64_t j = 0; j < h->m; j++) {
            const double p = h->p[i * h->m + j];
            const double y = (h->s[i * h->m + j] + h->f[i] + h->g[j]) / t;
            const double gap = h->problem.order - 1.0;
            const double free = gap > 0.0 ? pow(fmax(gap * y, 0.0), 1.0 / gap) : exp(y);
            weights = fmax(weights, fabs(p - fmin(free, cap_of(h, i, j))));
            sum += p;
            sums[j] += p;
        }
        rows += fabs(sum - 1.0);
    }
    for (int64_t j = 0; j < h->m; j++) {
        const double c = sums[j];
        switch (h->problem.columns) {
        case OTA_COLUMNS_RELAXED: columns += fabs(c - share * exp(-h->g[j] / rho)); break;
        case OTA_COLUMNS_CAPPED:
            columns += c > cap ? c - cap : h->g[j] < 0.0 ? cap - c : 0.0;
            break;
        default: columns += fabs(c - share);
        }
    }
    free(sums);
    spec_check("DER-11", weights, 64.0 * 0x1p-53 * (8.0 + 1.0 / t));
    spec_check("DER-26", rows / (double)h->n, (double)h->m * 0x1p-53);
    spec_check("DER-11", columns / (double)h->n, 1.1 * tolerance);
}

static void without_a_hessian(void **unused) {
    (void)unused;
    static const struct {
        const char *method;
        double temperature, most_steps;
    } cases[] = {{"ceta", 0.1, 7.0},
                 {"ceta", 0.02, 10.0},
                 {"relaxed:0.5", 0.02, 10.0},
                 {"capped:0.015", 0.02, 8.0},
                 {"sparsemax/exact", 0.5, 34.0}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        head h = set_head(12, 1100, 600 + k);
        assert_int_equal(run(&h, cases[k].method, "newton", cases[k].temperature, 1e-10), OTA_OK);
        check_conditions(&h, 1e-10);
        spec_check("DER-11", (double)h.result.rounds, cases[k].most_steps);
        free_head(&h);
    }
}

static void forbid(head *h, int64_t i, int64_t first, int64_t last) {
    for (int64_t j = first; j < last; j++) h->s[i * h->m + j] = -INFINITY;
}

static void peeled(void **unused) {
    (void)unused;
    const int64_t n = MANY_PAIRS;
    char wanted[200];
    head h = set_head(n, n, 620);
    /* One query has one key: the others may not use it. */
    forbid(&h, 7, 1, n);
    assert_int_equal(run(&h, "ceta", "newton", 1.0, 1e-9), OTA_INFEASIBLE);
    assert_int_equal(h.result.unusable_pairs, n - 1);
    (void)snprintf(wanted, sizeof wanted, "at least %d of %d allowed pairs", (int)(n - 1),
                   (int)(n * n - (n - 1)));
    spec_check_true("DER-24", strstr(h.result.sentence, wanted) != NULL);
    /* And the others have two keys besides, in a ring, from which no more can be peeled. */
    for (int64_t i = 0, k = 0; i < n; i++) {
        if (i == 7) continue;
        const int64_t next = (k + 1) % (n - 1);
        forbid(&h, i, 1, n);
        h.s[i * n + 1 + k] = h.s[i * n + 1 + next] = 0.5;
        k++;
    }
    assert_int_equal(run(&h, "ceta", "newton", 1.0, 1e-9), OTA_INFEASIBLE);
    assert_int_equal(h.result.unusable_pairs, n - 1);
    /* Two queries have the same key alone. */
    forbid(&h, 9, 1, n);
    assert_int_equal(run(&h, "ceta", "newton", 1.0, 1e-9), OTA_INFEASIBLE);
    spec_check_true("DER-24", strstr(h.result.sentence, "no plan on the allowed pairs") != NULL);
    /* A triangle leaves the identity. */
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j <= i; j++) h.s[i * n + j] = 0.5;
        forbid(&h, i, i + 1, n);
    }
    assert_int_equal(run(&h, "ceta", "newton", 1.0, 1e-9), OTA_INFEASIBLE);
    assert_int_equal(h.result.unusable_pairs, n * (n - 1) / 2);
    spec_check_true("DER-24", strstr(h.result.sentence, "only the identity is left") != NULL);
    spec_check_true("DER-24", strstr(h.result.sentence, "at least") == NULL);
    free_head(&h);
}

/* A hundred masses of 0.3 that exceed a key of mass 30 by their rounding have a place. */
static void peeled_to_rounding(void **unused) {
    (void)unused;
    enum { LIGHT = 100 };
    const int64_t n = MANY_PAIRS;
    head h = set_head(n, n, 630);
    double *mu = numbers(n), *nu = numbers(n);
    for (int64_t i = 0; i < n; i++) {
        mu[i] = i < LIGHT ? 0.3 : 1.0;
        nu[i] = i == 0 ? 0.3 * (double)LIGHT : (double)(n - LIGHT) / (double)(n - 1);
        if (i < LIGHT)
            forbid(&h, i, 1, n);
        else
            forbid(&h, i, 0, 1);
    }
    h.problem.row_mass = ota_array_of(mu, OTA_F64, 1, 1, 1, n);
    h.problem.column_mass = ota_array_of(nu, OTA_F64, 1, 1, 1, n);
    assert_int_equal(run(&h, "ceta", "newton", 1.0, 1e-9), OTA_OK);
    free(mu);
    free(nu);
    free_head(&h);
}

static void many_pairs(void **unused) {
    (void)unused;
    const int64_t n = MANY_PAIRS;
    head h = set_head(n, n, 640);
    for (int64_t i = 0; i < n; i++) forbid(&h, i, i % 7, i % 7 + 1);
    assert_int_equal(run(&h, "ceta", "newton", 1.0, 1e-9), OTA_OK);
    spec_check("DER-11", (double)h.result.rounds, 5.0);
    /* A squared distance on a line: rounds converge slowly when it is cold. */
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            const double apart = (double)(i - j) / (double)n;
            h.s[i * n + j] = -apart * apart;
        }
    }
    h.options.allow_partial = 1;
    h.options.max_rounds = 20;
    assert_int_equal(run(&h, "ceta", "auto", 0.0005, 1e-9), OTA_PARTIAL);
    assert_string_equal(h.result.solver, "anderson");
    free_head(&h);
}

/* Two fifths of the entries may hold little. */
static void draw_caps(head *h, int64_t spared) {
    h->caps = numbers(h->n * h->m);
    for (int64_t k = 0; k < h->n * h->m; k++)
        h->caps[k] = k / h->m == spared ? 1.0 : fmax(0.01, uniform(&dice_state) - 0.6);
}

/* Keys that far too many or no queries want at first, so that the lists of keys are made again and again; pairs that are
 * forbidden, rows whose list is all they may use. */
static void lists_of_keys(void **unused) {
    (void)unused;
    static const struct {
        const char *method;
        bool caps;
        double sink; /* its score; 0: none */
    } cases[] = {{"entmax:1.5/exact", false, 0.0},
                 {"sparsemax/exact", false, 0.0},
                 {"entmax:1.25/exact", false, 0.0},
                 {"entmax:1.5/capped:1.4", false, 0.0},
                 {"sparsemax/relaxed:0.6", false, 0.0},
                 {"entmax:1.5/exact{entry_cap=0.3}", false, 0.0},
                 {"sparsemax/capped:1.4{entry_cap=0.3}", false, 0.0},
                 {"entmax:1.5/exact", true, 0.0},
                 {"sparsemax/exact", true, 0.0},
                 {"entmax:1.25/capped:1.4", true, 0.0},
                 {"entmax:1.5/capped:1.4", false, 4.0},
                 {"sparsemax/capped:1.4", false, 4.0}};
    /* Steps on lists alone take 12 at most. Keys of relaxed columns without weight have no slope: up to forty steps are taken
     * before the plan is found otherwise, which takes as long as fifty. */
    enum { QUERIES = 260, KEYS = 300, MOST_STEPS = 48, RELAXED_STEPS = 80, SHUT = 3 };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const char *method = cases[k].method;
        /* The plain backend keeps no lists within entry caps. */
        if (on_other_backend() && (cases[k].caps || strstr(method, "entry_cap") != NULL)) continue;
        for (double temperature = 2.0; temperature > 0.1; temperature *= 0.3) {
            head h = set_head(QUERIES, KEYS, 660 + k);
            for (int64_t j = 0; j < KEYS; j++) {
                const double offset = 6.0 * uniform(&dice_state);
                for (int64_t i = 0; i < QUERIES; i++) h.s[i * KEYS + j] += offset;
            }
            for (int64_t i = 0; i < QUERIES; i += 7) forbid(&h, i, i % 40, i % 40 + 200);
            forbid(&h, SHUT, 0, KEYS - 5);
            if (cases[k].caps) draw_caps(&h, SHUT);
            h.sink = cases[k].sink;
            if (h.sink > 0.0) h.left = numbers(QUERIES);
            double *first = numbers(QUERIES * KEYS);
            for (int threads = 1; threads <= 3; threads += 2) {
                h.options.threads = threads;
                assert_int_equal(run(&h, method, "auto", temperature, 1e-9), OTA_OK);
                assert_string_equal(h.result.solver, "newton");
                check_conditions(&h, 1e-9);
                spec_check("LIT-11", (double)h.result.rounds,
                           strstr(method, "relaxed") == NULL ? MOST_STEPS : RELAXED_STEPS);
                if (threads == 1)
                    memcpy(first, h.p, sizeof *first * QUERIES * KEYS);
                else
                    assert_memory_equal(first, h.p, sizeof *first * QUERIES * KEYS);
            }
            print_message("%s at %.2g: %d steps\n", method, temperature, (int)h.result.rounds);
            free(first);
            free_head(&h);
        }
    }
}

/* Few weights of a cold plan within entry caps lie between 0 and their caps: steps on lists from a warmer plan find them, as
 * far as no key has to move alone. */
static void cold_within_caps(void **unused) {
    (void)unused;
    enum { N = 160 };
    static const struct {
        const char *method;
        double temperature, most_steps;
    } cases[] = {{"sparsemax/exact{entry_cap=0.05}", 0.01, 24.0},
                 {"sparsemax/exact{entry_cap=0.05}", 0.001, 60.0},
                 {"sparsemax/capped:1.4{entry_cap=0.05}", 0.003, 10.0},
                 {"entmax:1.5/exact{entry_cap=0.05}", 0.001, 50.0}};
    if (on_other_backend()) skip_because("the plain backend keeps no lists of keys");
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        head h = set_head(N, N, 670);
        const char *method = cases[k].method;
        assert_int_equal(run(&h, method, "auto", cases[k].temperature, 1e-9), OTA_OK);
        print_message("%s at %g: %d steps\n", method, cases[k].temperature, (int)h.result.rounds);
        check_conditions(&h, 1e-9);
        spec_check("LIT-11", (double)h.result.rounds, cases[k].most_steps);
        free_head(&h);
    }
}

/* Caps without room for a row's mass beside what a mask of -1e9 leaves: slopes leap where keys reach their caps. */
static void far_keys_within_caps(void **unused) {
    (void)unused;
    enum { N = 64, M = 48, MOST = 300, MOST_OF_ALL = 1500 };
    int64_t all = 0;
    static const char *const methods[] = {"softmax/exact{entry_cap=0.15}",
                                          "softmax/exact{entry_cap=0.11}",
                                          "entmax:1.5/exact{entry_cap=0.15}"};
    if (on_other_backend()) skip_because("the plain backend keeps no lists of keys");
    for (size_t k = 0; k < 3 * 4; k++) {
        head h = set_head(N, M, 680 + k / 3);
        for (int64_t i = 0; i < N * M; i++)
            if (uniform(&dice_state) > 0.125) h.s[i] -= 1e9;
        assert_int_equal(run(&h, methods[k % 3], "auto", 1.0, 1e-5), OTA_OK);
        print_message("%s: %d steps\n", methods[k % 3], (int)h.result.rounds);
        all += h.result.rounds;
        spec_check("LIT-11", (double)h.result.rounds, MOST);
        free_head(&h);
    }
    spec_check("LIT-11", (double)all, MOST_OF_ALL);
}

/* The plan of masses c at temperature t c^(1 - alpha) is c times that of masses 1 at t, and takes as many steps. */
static void masses_have_no_unit(void **unused) {
    (void)unused;
    enum { N = 160 };
    static const struct {
        const char *method;
        double order;
    } cases[] = {{"sparsemax/exact", 2.0}, {"entmax:1.5/exact", 1.5}};
    static const double unit = 1.0 / 256.0;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        for (double temperature = 0.3; temperature > 1e-3; temperature *= 0.1) {
            head one = set_head(N, N, 680), small = set_head(N, N, 680);
            double *mass = numbers(N);
            for (int64_t i = 0; i < N; i++) mass[i] = unit;
            small.problem.row_mass = ota_array_of(mass, OTA_F64, 1, 1, 1, N);
            small.problem.column_mass = small.problem.row_mass;
            const double colder = temperature * pow(unit, 1.0 - cases[k].order);
            assert_int_equal(run(&one, cases[k].method, "auto", temperature, 1e-9), OTA_OK);
            assert_int_equal(run(&small, cases[k].method, "auto", colder, 1e-9), OTA_OK);
            double apart = 0.0;
            for (int64_t e = 0; e < (int64_t)N * N; e++)
                apart = fmax(apart, fabs(small.p[e] / unit - one.p[e]));
            print_message("%s at %.2g: %d and %d steps, %.2g apart\n", cases[k].method, temperature,
                          (int)one.result.rounds, (int)small.result.rounds, apart);
            spec_check("LIT-11", apart, 1e-6);
            if (!on_other_backend())
                spec_check("LIT-11", (double)small.result.rounds, (double)one.result.rounds);
            free(mass);
            free_head(&one);
            free_head(&small);
        }
    }
}

TEST_FILE(test_coupled_sizes) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_hessian),    cmocka_unit_test(peeled),
        cmocka_unit_test(peeled_to_rounding),   cmocka_unit_test(many_pairs),
        cmocka_unit_test(lists_of_keys),        cmocka_unit_test(cold_within_caps),
        cmocka_unit_test(far_keys_within_caps), cmocka_unit_test(masses_have_no_unit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
