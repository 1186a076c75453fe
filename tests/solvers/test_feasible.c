/* test_feasible.c: feasibility and usable pairs, with the subset conditions of Hall and Gale
 *     mu(X) <= nu(N(X)) for every set X of rows;  tight X: no weight on (i, j), i not in X, j in N(X)
 * beside the solvers of matchings and transport. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "groups.h"
#include "matching_cases.h"
#include "problem/feasible.h"
#include "spec.h"

static ota_status judge(int64_t n, int64_t m, const uint8_t *support, const double *mu,
                        const double *nu, bool capped, uint8_t *usable,
                        ota_feasible_counts *counts) {
    void *work = work_of(ota_feasible_workspace(n, m));
    ota_feasible_problem problem = {.masses = {n, m, mu, nu, capped, 1e-12}, .support = support};
    int32_t order[2 * SMALL + 1];
    const bool ordered = n <= SMALL && m <= SMALL;
    ota_status status = ota_feasible(&problem, usable, ordered ? order : NULL, counts, work);
    free(work);
    for (int64_t k = 0; k < n * m && status == OTA_OK && ordered; k++) {
        if (support[k] == 0 || !(mu[k / m] > 0.0) || !(nu[k % m] > 0.0)) continue;
        const int32_t i = order[k / m], j = order[n + k % m], spare = order[n + m];
        assert_true(usable[k] ? i == j : i > j);
        if (capped) assert_true(j <= spare);
    }
    return status;
}

/* Hall and Gale, subset by subset, with small integer masses: exact. Fills usable when feasible. */
static bool brute_feasible(int64_t n, int64_t m, const uint8_t *support, const double *mu,
                           const double *nu, bool capped, uint8_t *usable) {
    double rows = 0.0, columns = 0.0;
    for (int64_t i = 0; i < n; i++) rows += mu[i];
    for (int64_t j = 0; j < m; j++) columns += nu[j];
    if (!capped && rows != columns) return false;
    for (int64_t k = 0; k < n * m; k++)
        usable[k] = support[k] && mu[k / m] > 0.0 && nu[k % m] > 0.0;
    for (unsigned set = 0; set < 1u << n; set++) {
        double inside = 0.0, outside = 0.0;
        bool near[SMALL] = {false};
        for (int64_t i = 0; i < n; i++) {
            if (!(set & (1u << i))) continue;
            inside += mu[i];
            for (int64_t j = 0; j < m; j++) near[j] = near[j] || support[i * m + j] != 0;
        }
        for (int64_t j = 0; j < m; j++) outside += near[j] ? nu[j] : 0.0;
        if (inside > outside) return false;
        if (inside < outside) continue;
        for (int64_t k = 0; k < n * m; k++) {
            if (!(set & (1u << (k / m))) && near[k % m]) usable[k] = 0;
        }
    }
    return true;
}

static void feasibility_equals_subset_conditions(void **state) {
    (void)state;
    dice d = 8;
    int64_t feasible = 0, partly = 0;
    transport_case *c = calloc(1, sizeof *c);
    for (int trial = 0; trial < COMBINATORIAL_TRIALS; trial++) {
        int64_t n = 1 + below(&d, 6), m = trial % 2 ? n : 1 + below(&d, 6);
        bool capped = below(&d, 3) == 0;
        double mu[SMALL] = {0.0}, nu[SMALL] = {0.0}, hole = 0.8 * uniform(&d);
        uint8_t support[SMALL * SMALL], usable[SMALL * SMALL], expected[SMALL * SMALL];
        for (int64_t k = 0; k < n * m; k++) support[k] = uniform(&d) >= hole;
        if (below(&d, 2) == 0) {
            for (int64_t i = 0; i < n; i++) mu[i] = 1.0;
            for (int64_t j = 0; j < m; j++) nu[j] = 1.0;
        } else {
            for (int64_t k = below(&d, 12); k >= 0; k--) {
                mu[below(&d, n)] += 1.0;
                nu[below(&d, m)] += 1.0;
            }
        }
        bool possible = brute_feasible(n, m, support, mu, nu, capped, expected);
        ota_feasible_counts counts = {-1, -1, -1};
        ota_status status = judge(n, m, support, mu, nu, capped, usable, &counts);
        assert_int_equal(status, possible ? OTA_OK : OTA_INFEASIBLE);

        c->n = n;
        c->m = m;
        c->capped = capped;
        c->sink = -INFINITY;
        memcpy(c->mu, mu, sizeof mu);
        memcpy(c->nu, nu, sizeof nu);
        for (int64_t k = 0; k < n * m; k++) c->scores[k] = support[k] ? uniform(&d) : -INFINITY;
        assert_int_equal(ship(c), status);
        if (!possible) continue;
        assert_memory_equal(usable, expected, (size_t)(n * m));
        int64_t count = 0;
        for (int64_t k = 0; k < n * m; k++) {
            count += expected[k];
            if (c->plan[k] > 0.0) assert_int_equal(expected[k], 1);
        }
        assert_int_equal(counts.usable, count);
        assert_int_equal(counts.allowed - counts.usable, counts.unusable);
        feasible++;
        partly += counts.unusable > 0;
    }
    free(c);
    assert_true(feasible > COMBINATORIAL_TRIALS / 5 && partly > COMBINATORIAL_TRIALS / 50);
}

typedef struct named_mask {
    const char *name, *ids;
    bool (*allows)(int64_t i, int64_t j);
    int64_t allowed, usable; /* at n = m = 12 with unit masses; usable -1: infeasible */
} named_mask;

static bool mask_causal(int64_t i, int64_t j) { return j <= i; }
static bool mask_strict(int64_t i, int64_t j) { return j < i; }
static bool mask_window(int64_t i, int64_t j) { return j >= i - 2 && j <= i + 2; }
static bool mask_strided(int64_t i, int64_t j) { return (i - j) % 3 == 0; }
static bool mask_block(int64_t i, int64_t j) { return i / 4 == j / 4; }
static bool mask_full(int64_t i, int64_t j) { return i >= 0 && j >= 0; }

static void named_masks(void **state) {
    (void)state;
    static const named_mask masks[] = {
        {"causal", "DER-24 CETA-24", mask_causal, 78, 12},
        {"strictly causal", "DER-24 CETA-25", mask_strict, 66, -1},
        {"window", "DER-24", mask_window, 54, 54},
        {"strided", "DER-24", mask_strided, 48, 48},
        {"block", "DER-24", mask_block, 48, 48},
        {"full", "DER-24", mask_full, 144, 144},
    };
    enum { SIZE = 12 };
    dice d = 9;
    transport_case *c = calloc(1, sizeof *c);
    for (size_t k = 0; k < sizeof masks / sizeof masks[0]; k++) {
        const named_mask *mask = &masks[k];
        uint8_t support[SIZE * SIZE], usable[SIZE * SIZE];
        double f[SIZE], g[SIZE];
        int64_t match[SIZE];
        *c = (transport_case){.n = SIZE, .m = SIZE, .sink = -INFINITY};
        for (int64_t i = 0; i < SIZE; i++) {
            c->mu[i] = c->nu[i] = 1.0;
            for (int64_t j = 0; j < SIZE; j++) {
                bool allowed = mask->allows(i, j);
                support[i * SIZE + j] = allowed;
                c->scores[i * SIZE + j] = allowed ? 100.0 * uniform(&d) : -INFINITY;
            }
        }
        ota_feasible_counts counts = {0};
        ota_status status = judge(SIZE, SIZE, support, c->mu, c->nu, false, usable, &counts);
        assert_int_equal(assign(SIZE, SIZE, c->scores, SIZE, match, f, g), status);
        assert_int_equal(ship(c), status);
        if (mask->usable < 0) {
            spec_check_true(mask->ids, status == OTA_INFEASIBLE);
            continue;
        }
        assert_int_equal(status, OTA_OK);
        assert_int_equal(counts.allowed, mask->allowed);
        spec_check_true(mask->ids, counts.usable == mask->usable);
        (void)assert_assignment(SIZE, SIZE, c->scores, SIZE, match, f, g);
        (void)assert_transport(c);
        for (int64_t i = 0; mask->allows == mask_causal && i < SIZE * SIZE; i++) {
            bool diagonal = i / SIZE == i % SIZE;
            assert_int_equal(usable[i], diagonal);
            assert_true(c->plan[i] == (diagonal ? 1.0 : 0.0));
        }
    }
    free(c);
}

/* Total support decided by equality of real masses, up to rounding and not further. */
static void total_support_of_real_masses(void **state) {
    (void)state;
    const uint8_t support[] = {1, 0, 1, 0, 1, 1}; /* rows .1, .2 -> key 0; row .7 -> keys 0, 1 */
    double mu[] = {0.1, 0.2, 0.7}, nu[] = {0.3, 0.7};
    uint8_t usable[6];
    ota_feasible_counts counts;
    assert_int_equal(judge(3, 2, support, mu, nu, false, usable, &counts), OTA_OK);
    assert_int_equal(counts.unusable, 1);
    assert_int_equal(usable[4], 0);
    mu[0] = mu[1] = 0.15; /* now key 0 wants 5e-17 more than its own rows have */
    nu[0] = 0.1 + 0.2;
    assert_int_equal(judge(3, 2, support, mu, nu, false, usable, &counts), OTA_OK);
    assert_int_equal(counts.unusable, 1);
    nu[0] = 0.4;
    nu[1] = 0.6;
    assert_int_equal(judge(3, 2, support, mu, nu, false, usable, &counts), OTA_OK);
    assert_int_equal(counts.unusable, 0);
    nu[0] = 0.29;
    nu[1] = 0.71;
    assert_int_equal(judge(3, 2, support, mu, nu, false, usable, &counts), OTA_INFEASIBLE);
    assert_int_equal(judge(3, 2, support, mu, nu, true, usable, &counts), OTA_INFEASIBLE);
    nu[0] = 5.0;
    nu[1] = INFINITY;
    assert_int_equal(judge(3, 2, support, mu, nu, true, usable, &counts), OTA_OK);
    assert_int_equal(counts.usable, 4);
    const uint8_t forbidden[] = {0, 0, 1, 1};
    const double tiny[] = {1e-25, 1.0}, halves[] = {0.5, 0.5};
    assert_int_equal(judge(2, 2, forbidden, tiny, halves, false, usable, &counts), OTA_INFEASIBLE);
    assert_int_equal(judge(2, 2, forbidden, tiny, halves, true, usable, &counts), OTA_INFEASIBLE);
    assert_int_equal(judge(0, 0, NULL, NULL, NULL, false, NULL, &counts), OTA_OK);
    assert_int_equal(counts.allowed, 0);
    assert_int_equal(judge(1, 0, NULL, mu, NULL, true, NULL, &counts), OTA_INFEASIBLE);
    assert_true(ota_feasible_workspace(INT32_MAX, 4) == SIZE_MAX);
}

static void cancelling_is_heard(void **state) {
    (void)state;
    enum { SIZE = 32 };
    double mu[SIZE];
    uint8_t support[SIZE * SIZE];
    memset(support, 1, sizeof support);
    for (int k = 0; k < SIZE; k++) mu[k] = 1.0;
    ota_feasible_problem problem = {.masses = {SIZE, SIZE, mu, mu, false, 0.0},
                                    .support = support,
                                    .watch = {.interrupted = always_cancelled}};
    ota_feasible_counts counts;
    void *work = work_of(ota_feasible_workspace(SIZE, SIZE));
    assert_int_equal(ota_feasible(&problem, NULL, NULL, &counts, work), OTA_CANCELLED);
    free(work);
}

TEST_FILE(test_feasible) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(feasibility_equals_subset_conditions),
        cmocka_unit_test(named_masks),
        cmocka_unit_test(total_support_of_real_masses),
        cmocka_unit_test(cancelling_is_heard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
