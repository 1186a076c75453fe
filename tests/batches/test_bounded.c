/* test_bounded.c: rows of k columns with bounded loads: the optimum of the reference where that is quick, the prices'
 * proof elsewhere; every kind of costs, types, strides, threads; what is refused and what is interrupted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>

#include "base/base.h"
#include "draw/random.h"
#include "groups.h"
#include "held_memory.h"
#include "otattn_bounded.h"
#include "reference/reference_bounded.h"
#include "spec.h"

static dice dice_state;

static void *take(int64_t count, size_t size) {
    void *found = malloc((size_t)(count > 0 ? count : 1) * size);
    assert_non_null(found);
    return found;
}

typedef enum kind { UNIFORM, TIES, CONSTANT, PRODUCTS, WANTED, FORBIDDEN, KINDS } kind;

static double cost_of(kind k, int64_t i, int64_t j) {
    const double draw = uniform(&dice_state);
    switch (k) {
    case TIES: return floor(3.0 * draw);
    case CONSTANT: return -2.5;
    case PRODUCTS: return ((double)i + 1.0) * ((double)j + 1.0);
    case WANTED: return draw - (j == 0 ? 100.0 : 0.0);
    case FORBIDDEN: return draw < 0.3 ? INFINITY : draw;
    default: return draw - 0.5;
    }
}

typedef struct held {
    int64_t n, m, take;
    double *costs;
    int64_t *lower, *upper, *chosen, *loads;
    double *prices;
} held;

static held draw(kind k, int64_t n, int64_t m, int64_t units, int64_t slack) {
    held h = {n,
              m,
              units,
              take(n * m, sizeof(double)),
              take(m, sizeof(int64_t)),
              take(m, sizeof(int64_t)),
              take(n * units, sizeof(int64_t)),
              take(m, sizeof(int64_t)),
              take(m, sizeof(double))};
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < m; j++) h.costs[i * m + j] = cost_of(k, i, j);
    }
    for (int64_t j = 0; j < m; j++) {
        h.lower[j] = ota_int_max(0, n * units / m - below(&dice_state, slack + 1));
        h.upper[j] = (n * units + m - 1) / m + below(&dice_state, slack + 1);
    }
    return h;
}

static void drop(held *h) {
    free(h->costs);
    free(h->lower);
    free(h->upper);
    free(h->chosen);
    free(h->loads);
    free(h->prices);
}

static ota_bounded problem_of(const held *h) {
    return (ota_bounded){.size = sizeof(ota_bounded),
                         .costs = ota_array_of(h->costs, OTA_F64, 1, 1, h->n, h->m),
                         .take = h->take,
                         .lower = h->lower,
                         .upper = h->upper};
}

static ota_bounded_result result_of(const held *h) {
    return (ota_bounded_result){.size = sizeof(ota_bounded_result),
                                .chosen = h->chosen,
                                .prices = h->prices,
                                .loads = h->loads};
}

/* The answer is admissible, costs what it says, and its prices prove that nothing costs less. */
static void judge(const held *h, const ota_bounded_result *r) {
    int64_t *counted = take(h->m, sizeof *counted);
    memset(counted, 0, (size_t)h->m * sizeof *counted);
    double *left = take(h->m, sizeof *left);
    double cost = 0.0, proved = 0.0, size = 0.0;
    for (int64_t i = 0; i < h->n; i++) {
        const double *row = h->costs + i * h->m;
        for (int64_t k = 0; k < h->take; k++) {
            const int64_t j = h->chosen[i * h->take + k];
            assert_true(j >= 0 && j < h->m && (k == 0 || h->chosen[i * h->take + k - 1] < j));
            cost += row[j];
            size += fabs(row[j]);
            counted[j]++;
        }
        for (int64_t j = 0; j < h->m; j++) left[j] = row[j] + h->prices[j];
        for (int64_t k = 0; k < h->take; k++) {
            int64_t least = 0;
            for (int64_t j = 1; j < h->m; j++) {
                if (left[j] < left[least]) least = j;
            }
            proved += left[least];
            left[least] = INFINITY;
        }
    }
    for (int64_t j = 0; j < h->m; j++) {
        assert_int_equal(counted[j], h->loads[j]);
        assert_true(counted[j] >= h->lower[j] && counted[j] <= h->upper[j]);
        const double p = h->prices[j];
        const int64_t bound = p > 0.0 ? ota_int_min(h->upper[j], h->n) : h->lower[j];
        proved -= p * (double)bound;
        size += fabs(p) * (double)bound;
    }
    /* Sums of n * take terms here are plain ones. */
    const double rounding = DBL_EPSILON * (double)(h->n * h->take) * (size + 1.0);
    spec_check("LIT-06", fabs(r->cost - cost), rounding);
    spec_check("LIT-06", fabs(proved - cost), rounding);
    spec_check("LIT-06", fabs(r->dual - proved), rounding);
    free(counted);
    free(left);
}

static void small_problems_have_the_optimum(void **unused) {
    (void)unused;
    dice_state = 5;
    int infeasible = 0;
    for (int trial = 0; trial < 600; trial++) {
        const int64_t n = 1 + below(&dice_state, 9), m = 1 + below(&dice_state, 6),
                      units = 1 + below(&dice_state, m);
        held h = draw((kind)(trial % KINDS), n, m, units, below(&dice_state, 3));
        const double best = ota_reference_bounded(h.costs, n, m, units, h.lower, h.upper);
        const ota_bounded problem = problem_of(&h);
        ota_bounded_result result = result_of(&h);
        ota_error error = {.message = ""};
        const ota_status status = ota_assign_bounded(&problem, NULL, &result, &error);
        if (isinf(best)) {
            assert_int_equal(status, OTA_INFEASIBLE);
            assert_true(error.message[0] != '\0');
            infeasible++;
        } else {
            assert_int_equal(status, OTA_OK);
            spec_check("LIT-06", fabs(result.cost - best), 1e-11 * (1.0 + fabs(best)));
            judge(&h, &result);
        }
        drop(&h);
    }
    assert_in_range(infeasible, 5, 200);
}

/* Large enough for a threshold, for smaller problems first and for several fillings. */
static void prices_prove_large_answers(void **unused) {
    (void)unused;
    const int64_t sizes[][3] = {{3000, 24, 1}, {1500, 70, 4}, {900, 12, 11}, {700, 40, 20}};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (kind k = UNIFORM; k < KINDS; k++) {
            dice_state = 100 + s;
            /* Where four in five columns are asked for, pairs may not be forbidden. */
            if (k == FORBIDDEN && 3 * sizes[s][2] > sizes[s][1]) continue;
            held h = draw(k, sizes[s][0], sizes[s][1], sizes[s][2], 6);
            const ota_bounded problem = problem_of(&h);
            ota_bounded_result result = result_of(&h);
            assert_int_equal(ota_assign_bounded(&problem, NULL, &result, NULL), OTA_OK);
            judge(&h, &result);
            ota_bounded again = problem;
            double *start = take(h.m, sizeof *start);
            memcpy(start, h.prices, (size_t)h.m * sizeof *start);
            again.start = start;
            ota_bounded_result warm = result_of(&h);
            assert_int_equal(ota_assign_bounded(&again, NULL, &warm, NULL), OTA_OK);
            judge(&h, &warm);
            spec_check("LIT-06", fabs(warm.cost - result.cost), 1e-12 * fabs(result.cost));
            free(start);
            drop(&h);
        }
    }
}

/* Rows and columns of a larger array backwards, and the same numbers in f32. */
static void layouts_and_types_agree(void **unused) {
    (void)unused;
    dice_state = 9;
    enum { N = 200, M = 9 };
    held h = draw(UNIFORM, N, M, 2, 1), other = draw(UNIFORM, N, M, 2, 1);
    double *wide = take(4 * N * M, sizeof *wide);
    float *narrow = take(N * M, sizeof *narrow);
    for (int64_t p = 0; p < N * M; p++) {
        narrow[p] = (float)h.costs[p];
        h.costs[p] = (double)narrow[p];
    }
    for (int64_t i = 0; i < N; i++) {
        for (int64_t j = 0; j < M; j++) {
            wide[2 * i * 2 * M + 2 * (M - 1 - j)] = h.costs[i * M + j];
        }
    }
    ota_bounded problem = problem_of(&h);
    ota_bounded_result result = result_of(&h);
    assert_int_equal(ota_assign_bounded(&problem, NULL, &result, NULL), OTA_OK);
    for (int way = 0; way < 2; way++) {
        problem.costs = ota_array_of(narrow, OTA_F32, 1, 1, N, M);
        if (way == 1) {
            problem.costs =
                (ota_array){wide + 2 * (M - 1), OTA_F64, {1, 1, N, M}, {0, 0, 4 * M, -2}};
        }
        ota_bounded_result found = result_of(&other);
        assert_int_equal(ota_assign_bounded(&problem, NULL, &found, NULL), OTA_OK);
        assert_memory_equal(h.chosen, other.chosen, N * 2 * sizeof(int64_t));
        assert_memory_equal(h.prices, other.prices, M * sizeof(double));
    }
    free(wide);
    free(narrow);
    drop(&h);
    drop(&other);
}

static void points_cost_their_squared_distances(void **unused) {
    (void)unused;
    dice_state = 11;
    enum { N = 5000, M = 21, WIDTH = 5 };
    held h = draw(UNIFORM, N, M, 1, 30), other = draw(UNIFORM, N, M, 1, 30);
    double *points = take(N * WIDTH, sizeof *points), *centres = take(M * WIDTH, sizeof *centres);
    for (int64_t p = 0; p < N * WIDTH; p++) points[p] = normal(&dice_state);
    for (int64_t p = 0; p < M * WIDTH; p++) centres[p] = normal(&dice_state);
    for (int64_t i = 0; i < N; i++) {
        for (int64_t j = 0; j < M; j++) {
            double sum = 0.0;
            for (int64_t t = 0; t < WIDTH; t++) {
                const double apart = points[i * WIDTH + t] - centres[j * WIDTH + t];
                sum += apart * apart;
            }
            h.costs[i * M + j] = sum;
        }
    }
    ota_bounded problem = problem_of(&h);
    problem.costs = (ota_array){.data = NULL};
    problem.points = ota_array_of(points, OTA_F64, 1, 1, N, WIDTH);
    problem.centres = ota_array_of(centres, OTA_F64, 1, 1, M, WIDTH);
    double cost = 0.0;
    for (int run = 0; run == 0 || ota_kernel_name(run - 1) != NULL; run++) {
        const ota_options options = {.size = sizeof options,
                                     .threads = 1 + run % 3,
                                     .cpu = run == 0 ? NULL : ota_kernel_name(run - 1)};
        problem.unproved = run % 2;
        ota_bounded_result result = result_of(run == 0 ? &h : &other);
        assert_int_equal(ota_assign_bounded(&problem, &options, &result, NULL), OTA_OK);
        if (run == 0) {
            judge(&h, &result);
            cost = result.cost;
            continue;
        }
        assert_true(isnan(result.dual) == (run % 2 == 1));
        assert_memory_equal(&result.cost, &cost, sizeof cost);
        assert_memory_equal(h.chosen, other.chosen, N * sizeof(int64_t));
        assert_memory_equal(h.prices, other.prices, M * sizeof(double));
    }
    free(points);
    free(centres);
    drop(&h);
    drop(&other);
}

static void nothing_is_written_unless_solved(void **unused) {
    (void)unused;
    dice_state = 12;
    held h = draw(UNIFORM, 3000, 30, 1, 0);
    const ota_bounded problem = problem_of(&h);
    const int stop = 1;
    const ota_options refused[] = {
        {.size = sizeof(ota_options), .cancel = &stop},
        {.size = sizeof(ota_options), .deadline_ns = 1},
        {.size = sizeof(ota_options), .workspace_limit = 1000},
        {.size = sizeof(ota_options), .workspace_limit = 300000},
        {.size = sizeof(ota_options), .threads = -1},
    };
    const ota_status wanted[] = {OTA_CANCELLED, OTA_TIMEOUT, OTA_ELIMIT, OTA_ELIMIT, OTA_EINVAL};
    memset(h.prices, 0x5a, (size_t)h.m * sizeof *h.prices);
    for (size_t k = 0; k < sizeof refused / sizeof refused[0]; k++) {
        ota_bounded_result result = result_of(&h);
        ota_error error = {.message = ""};
        assert_int_equal(ota_assign_bounded(&problem, &refused[k], &result, &error), wanted[k]);
        assert_true(error.message[0] != '\0');
        const unsigned char *first = (const unsigned char *)h.prices;
        assert_int_equal(first[0], 0x5a);
        assert_true(result.cost >= 0.0 && result.cost <= 0.0);
    }
    drop(&h);
}

/* Cost and bound are sums whose rounding is carried along: what is small beside what cancels is not lost. */
static void small_costs_beside_large_ones_count(void **unused) {
    (void)unused;
    double costs[] = {1e17, 3e17, 1.0, 3e17, -1e17, 3e17};
    for (int unproved = 0; unproved < 2; unproved++) {
        const ota_bounded problem = {.size = sizeof problem,
                                     .costs = ota_array_of(costs, OTA_F64, 1, 1, 3, 2),
                                     .take = 1,
                                     .unproved = unproved};
        ota_bounded_result result = {.size = sizeof result};
        assert_int_equal(ota_assign_bounded(&problem, NULL, &result, NULL), OTA_OK);
        spec_check("", fabs(result.cost - 1.0), 0.0);
        if (!unproved) spec_check("", fabs(result.dual - 1.0), 0.0);
    }
}

static void refuse(const ota_bounded *problem, ota_status status, const char *field,
                   const char *part) {
    ota_bounded_result result = {.size = sizeof result};
    ota_error error = {.message = ""};
    assert_int_equal(ota_assign_bounded(problem, NULL, &result, &error), status);
    assert_string_equal(error.field, field);
    if (strstr(error.message, part) == NULL) fail_msg("%s", error.message);
}

static void input_is_refused_in_a_sentence(void **unused) {
    (void)unused;
    dice_state = 13;
    held h = draw(UNIFORM, 6, 3, 1, 0);
    const ota_bounded good = problem_of(&h);
    ota_bounded_result result = result_of(&h);
    ota_bounded bad = good;
    refuse(NULL, OTA_EINVAL, "problem", "NULL");
    assert_int_equal(ota_assign_bounded(&good, NULL, NULL, NULL), OTA_EINVAL);
    result.size = 0;
    assert_int_equal(ota_assign_bounded(&good, NULL, &result, NULL), OTA_EINVAL);
    bad.size = 0;
    refuse(&bad, OTA_EINVAL, "size", "size is 0");
    bad = good, bad.take = 4;
    refuse(&bad, OTA_EINVAL, "take", "take is 4 of 3 columns");
    bad = good, bad.costs.type = OTA_BF16;
    refuse(&bad, OTA_EINVAL, "costs", "wanted f64 or f32");
    bad = good, bad.points = bad.costs;
    refuse(&bad, OTA_EINVAL, "costs", "both costs and points");
    bad = good, bad.costs = (ota_array){.data = NULL};
    refuse(&bad, OTA_EINVAL, "costs", "no costs are given");
    bad.points = good.costs, bad.centres = good.costs, bad.centres.size[3] = 2;
    refuse(&bad, OTA_EINVAL, "centres", "2 coordinates and points 3");
    bad = good, bad.costs.size[3] = 0;
    refuse(&bad, OTA_EINVAL, "costs", "0 columns");
    h.upper[1] = h.lower[1] - 1;
    refuse(&good, OTA_EINVAL, "upper", "below lower[1]");
    h.upper[1] = 1, h.lower[1] = 1;
    refuse(&good, OTA_INFEASIBLE, "upper", "room for 5");
    h.upper[1] = 9, h.lower[1] = 3;
    refuse(&good, OTA_INFEASIBLE, "lower", "need at least 7");
    h.lower[1] = 2;
    h.costs[4] = NAN;
    refuse(&good, OTA_NONFINITE, "costs", "costs[1,1] is nan");
    h.costs[3] = h.costs[4] = h.costs[5] = INFINITY;
    refuse(&good, OTA_INFEASIBLE, "costs", "row 1 may use 0 columns");
    for (int64_t i = 0; i < 6; i++) h.costs[3 * i] = i < 5 ? INFINITY : 0.0;
    h.costs[4] = h.costs[5] = 0.0;
    refuse(&good, OTA_INFEASIBLE, "lower", "columns 0 at most 1 units, and together they need 2");
    drop(&h);
}

TEST_FILE(test_bounded) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_problems_have_the_optimum),
        cmocka_unit_test(prices_prove_large_answers),
        cmocka_unit_test(layouts_and_types_agree),
        cmocka_unit_test(points_cost_their_squared_distances),
        cmocka_unit_test(small_costs_beside_large_ones_count),
        cmocka_unit_test(nothing_is_written_unless_solved),
        cmocka_unit_test(input_is_refused_in_a_sentence),
    };
    return run_and_hold(tests, sizeof tests / sizeof tests[0]);
}
