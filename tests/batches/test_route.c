/* test_route.c: otattn_route.h on every level this CPU has, against the recipe in plain loops of f64. Choices may differ only
 * where two scaled weights are nearer than rounding moves them:
 *
 *     K, v in T, sums in f64:   |K_ij v_j - exact| <= K_ij v_j u (C + 3 |s_ij - max s_i|)
 *
 * C: 8 for the exponential, and 4 a round for what earlier roundings of v moved the sums. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "draw/random.h"
#include "groups.h"
#include "otattn_route.h"

static dice dice_state;

enum { TOKENS = 700, EXPERTS = 70, TAKE = 12 };

typedef struct scene {
    int64_t tokens, experts, stride, take;
    bool narrow;
    double logits[TOKENS * EXPERTS], kernel[TOKENS * EXPERTS], sums[TOKENS];
    double wide[TOKENS * EXPERTS];
    float narrow_logits[TOKENS * EXPERTS];
    double v[EXPERTS];
    int64_t rounds;
    double start[EXPERTS];
    ota_routing problem;
    int64_t chosen[TOKENS * TAKE], loads[EXPERTS];
    double shares[TOKENS * TAKE], potentials[EXPERTS];
} scene;

static double unit_of(const scene *s) { return s->narrow ? 0x1p-24 : 0x1p-53; }

static void set_up(scene *s, int64_t tokens, int64_t experts, int64_t take, bool narrow) {
    memset(s, 0, sizeof *s);
    *s = (scene){.tokens = tokens, .experts = experts, .take = take, .narrow = narrow};
    s->stride = experts + (tokens % 3 == 0 ? 2 : 0);
    double popular[EXPERTS];
    for (int64_t j = 0; j < experts; j++) popular[j] = normal(&dice_state);
    for (int64_t i = 0; i < tokens; i++) {
        for (int64_t j = 0; j < experts; j++) {
            const float x = (float)(2.0 * normal(&dice_state) + popular[j]);
            s->logits[i * experts + j] = (double)x;
            s->narrow_logits[i * s->stride + j] = x;
            s->wide[i * s->stride + j] = (double)x;
        }
    }
    s->problem = (ota_routing){.size = sizeof s->problem, .take = take};
    void *data = narrow ? (void *)s->narrow_logits : (void *)s->wide;
    s->problem.logits = ota_array_of(data, narrow ? OTA_F32 : OTA_F64, 1, 1, tokens, experts);
    s->problem.logits.stride[2] = s->stride;
}

static double largest(const scene *s, int64_t i) {
    double top = -INFINITY;
    for (int64_t j = 0; j < s->experts; j++) top = fmax(top, s->logits[i * s->experts + j]);
    return top;
}

/* The recipe, for as many rounds as it takes, or `rounds`. */
static void by_loops(scene *s, double tolerance, int64_t rounds) {
    const double n = (double)s->tokens, m = (double)s->experts;
    double mean = 0.0;
    for (int64_t i = 0; i < s->tokens; i++) {
        s->sums[i] = 0.0;
        for (int64_t j = 0; j < s->experts; j++)
            s->sums[i] += s->kernel[i * s->experts + j] =
                exp(s->logits[i * s->experts + j] - largest(s, i));
    }
    for (int64_t j = 0; j < s->experts; j++) mean += s->start[j] / m;
    for (int64_t j = 0; j < s->experts; j++) s->v[j] = exp(s->start[j] - mean);
    for (s->rounds = 1;; s->rounds++) {
        double columns[EXPERTS] = {0.0}, change = 0.0;
        for (int64_t i = 0; i < s->tokens; i++) {
            double row = 1e-8;
            for (int64_t j = 0; j < s->experts; j++) row += s->kernel[i * s->experts + j] * s->v[j];
            for (int64_t j = 0; j < s->experts; j++)
                columns[j] += s->kernel[i * s->experts + j] / (n * row);
        }
        for (int64_t j = 0; j < s->experts; j++) {
            const double after = 1.0 / (m * (columns[j] + 1e-8));
            change += fabs(after - s->v[j]) / m;
            s->v[j] = after;
        }
        if (change <= tolerance || s->rounds >= rounds) return;
    }
}

static void check_choices(const scene *s, const ota_routing_result *found) {
    const double unit = unit_of(s);
    int64_t loads[EXPERTS] = {0};
    double value = 0.0, size = 0.0;
    for (int64_t i = 0; i < s->tokens; i++) {
        const int64_t *chosen = s->chosen + i * s->take;
        const double *kernel = s->kernel + i * s->experts;
        bool taken[EXPERTS] = {false};
        double least = INFINITY;
        for (int64_t k = 0; k < s->take; k++) {
            const int64_t j = chosen[k];
            assert_true(j >= 0 && j < s->experts && (k == 0 || j > chosen[k - 1]));
            taken[j] = true;
            loads[j]++;
            value += s->logits[i * s->experts + j];
            size += fabs(s->logits[i * s->experts + j]);
            least = fmin(least, kernel[j] * s->v[j]);
            const double share = kernel[j] / s->sums[i], below = -log(kernel[j]);
            assert_true(fabs(s->shares[i * s->take + k] - share) <=
                        share * unit * (16.0 + 3.0 * below));
        }
        for (int64_t j = 0; j < s->experts; j++) {
            const double other = kernel[j] * s->v[j];
            const double slack = unit * (8.0 + 4.0 * (double)s->rounds - 6.0 * log(kernel[j]));
            if (!taken[j] && other * (1.0 - slack) > least)
                fail_msg("token %d leaves %d at %.17g and takes one at %.17g", (int)i, (int)j,
                         other, least);
        }
    }
    /* Potentials have a number in common that the recipe does not name. */
    double shift = 0.0;
    for (int64_t j = 0; j < s->experts; j++)
        shift += (s->potentials[j] - log(s->v[j])) / (double)s->experts;
    for (int64_t j = 0; j < s->experts; j++) {
        assert_int_equal(s->loads[j], loads[j]);
        assert_true(fabs(s->potentials[j] - shift - log(s->v[j])) <=
                    unit * (32.0 + 16.0 * (double)s->rounds) + 0x1p-52 * fabs(shift));
    }
    assert_true(fabs(found->value - value) <= 0x1p-53 * (double)s->tokens * size);
}

static ota_routing_result route(scene *s, const ota_options *options) {
    ota_routing_result found = {.size = sizeof found,
                                .chosen = s->chosen,
                                .shares = s->shares,
                                .potentials = s->potentials,
                                .loads = s->loads};
    ota_error error;
    if (ota_route(&s->problem, options, &found, &error) < 0) fail_msg("%s", error.message);
    return found;
}

static void test_recipe(void **state) {
    (void)state;
    scene *s = malloc(sizeof *s);
    assert_non_null(s);
    static const int64_t tokens[] = {1, 7, 255, 256, 257, 700};
    static const int64_t experts[] = {1, 2, 15, 16, 17, 33, 64, 70};
    dice_state = 11;
    for (int level = 0; ota_kernel_name(level) != NULL; level++) {
        for (int k = 0; k < 48; k++) {
            const int64_t m = experts[k % 8];
            set_up(s, tokens[k / 8], m, 1 + (k * 5) % (m < TAKE ? m : TAKE), k % 2 == 0);
            if (k % 3 == 1) {
                for (int64_t j = 0; j < m; j++) s->start[j] = 0.5 * normal(&dice_state);
                s->problem.start = s->start;
            }
            if (k % 5 == 2) s->problem.rounds = 2;
            const ota_options options = {.size = sizeof options, .cpu = ota_kernel_name(level)};
            const ota_routing_result found = route(s, &options);
            /* A stop that rounding decides is taken as it was found. */
            by_loops(s, 0.0, found.rounds);
            const int64_t most = s->problem.rounds > 0 ? s->problem.rounds : 1000;
            assert_true(found.converged != 0 ? found.rounds <= most : found.rounds == most);
            check_choices(s, &found);
        }
    }
    free(s);
}

/* Rounds end where the recipe's do, give or take the one in which the change is the tolerance. */
static void test_stop(void **state) {
    (void)state;
    scene *s = malloc(sizeof *s);
    assert_non_null(s);
    dice_state = 5;
    for (int k = 0; k < 12; k++) {
        set_up(s, 700, 64, 2, k % 2 == 0);
        s->problem.tolerance = k < 6 ? 0.0 : 1e-3;
        const ota_routing_result found = route(s, NULL);
        by_loops(s, k < 6 ? 1e-4 : 1e-3, 1000);
        assert_int_equal(found.rounds, s->rounds);
    }
    free(s);
}

static void test_threads_and_ties(void **state) {
    (void)state;
    scene *s = malloc(sizeof *s), *t = malloc(sizeof *t);
    assert_true(s != NULL && t != NULL);
    dice_state = 3;
    set_up(s, 700, 64, 3, true);
    *t = *s;
    t->problem.logits.data = t->narrow_logits;
    (void)route(s, &(ota_options){.size = sizeof(ota_options), .threads = 1});
    (void)route(t, &(ota_options){.size = sizeof(ota_options), .threads = 3});
    assert_memory_equal(s->chosen, t->chosen, sizeof s->chosen);
    assert_memory_equal(s->potentials, t->potentials, sizeof s->potentials);
    for (int64_t k = 0; k < TOKENS * EXPERTS; k++) s->narrow_logits[k] = 0.25F;
    const ota_routing_result found = route(s, NULL);
    assert_int_equal(found.rounds, 1);
    for (int64_t i = 0; i < s->tokens; i++) {
        for (int64_t k = 0; k < 3; k++) assert_int_equal(s->chosen[i * 3 + k], k);
    }
    free(s);
    free(t);
}

/* ---- the other methods ------------------------------------------------------------------------- */

static double biased(const scene *s, const double *b, int64_t i, int64_t j) {
    return s->logits[i * s->experts + j] + b[j];
}

/* The sum of the `take` largest logits + b of a token. */
static double best_sum(const scene *s, const double *b, int64_t i) {
    bool taken[EXPERTS] = {false};
    double sum = 0.0;
    for (int64_t k = 0; k < s->take; k++) {
        int64_t at = -1;
        for (int64_t j = 0; j < s->experts; j++) {
            if (!taken[j] && (at < 0 || biased(s, b, i, j) > biased(s, b, i, at))) at = j;
        }
        taken[at] = true;
        sum += biased(s, b, i, at);
    }
    return sum;
}

/* What holds for every method: the choices are the largest sums with the potentials, the bound is what they prove, loads, value
 * and excess are those of the choices, and what is given up are the smallest logits of an expert. */
static void check_answer(const scene *s, const ota_routing_result *found, int64_t lower,
                         int64_t upper) {
    const int64_t n = s->tokens, take = s->take;
    int64_t loads[EXPERTS] = {0}, kept[EXPERTS] = {0}, excess = 0;
    double best = 0.0, value = 0.0, size = 1.0;
    for (int64_t i = 0; i < n; i++) {
        double sum = 0.0;
        for (int64_t k = 0; k < take; k++) {
            const int64_t j = s->chosen[i * take + k];
            assert_true(j >= 0 && j < s->experts && (k == 0 || j > s->chosen[i * take + k - 1]));
            sum += biased(s, s->potentials, i, j);
            value += s->logits[i * s->experts + j];
            size += fabs(s->logits[i * s->experts + j]) + fabs(s->potentials[j]);
            loads[j]++;
            kept[j] += found->kept[i * take + k];
        }
        const double wanted = best_sum(s, s->potentials, i);
        /* Sums of `take` numbers, and levelled potentials, are rounded once each. */
        assert_true(fabs(sum - wanted) <= 0x1p-50 * (1.0 + size));
        best += wanted;
    }
    for (int64_t j = 0; j < s->experts; j++) {
        const double b = s->potentials[j];
        assert_int_equal(s->loads[j], loads[j]);
        assert_int_equal(kept[j], loads[j] < upper ? loads[j] : upper);
        excess +=
            (loads[j] > upper ? loads[j] - upper : 0) + (loads[j] < lower ? lower - loads[j] : 0);
        best -= b * (double)(b > 0.0 ? lower : upper);
        size += fabs(b) * (double)n;
    }
    assert_int_equal(found->excess, excess);
    assert_true(fabs(*found->bound - best) <= 0x1p-52 * (double)n * size);
    assert_true(fabs(found->value - value) <= 0x1p-52 * (double)n * size);
    for (int64_t a = 0; a < n * take; a++) {
        for (int64_t b = 0; b < n * take && !found->kept[a]; b++) {
            const int64_t j = s->chosen[a];
            if (s->chosen[b] != j || !found->kept[b]) continue;
            assert_true(s->logits[a / take * s->experts + j] <=
                        s->logits[b / take * s->experts + j]);
        }
    }
}

/* Weights are the shares, or the sigmoid of one logit, where kept. */
static void check_weights(const scene *s, const ota_routing_result *found) {
    const bool logistic = s->problem.method == OTA_ROUTE_SINKHORN && s->take == 1;
    for (int64_t a = 0; a < s->tokens * s->take; a++) {
        const double logit = s->logits[a / s->take * s->experts + s->chosen[a]];
        const double whole = logistic ? 1.0 / (1.0 + exp(-logit)) : s->shares[a];
        const double wanted = found->kept[a] != 0 ? whole : 0.0;
        const double weight = s->narrow ? (double)((const float *)found->weights)[a]
                                        : ((const double *)found->weights)[a];
        assert_true(fabs(weight - wanted) <= wanted * unit_of(s) * (8.0 + 2.0 * fabs(logit)));
    }
}

static int falling(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a < b) - (a > b);
}

/* Alternating quantiles with whole sorts, `rounds` of them, biases of equal loads or bounds (0, upper). */
static void by_sorts(const scene *s, int64_t rounds, int64_t lower, int64_t upper, double *b) {
    static double thresholds[TOKENS], row[TOKENS];
    for (int64_t j = 0; j < s->experts; j++) b[j] = 0.0;
    for (int64_t round = 0; round < rounds; round++) {
        for (int64_t i = 0; i < s->tokens; i++) {
            for (int64_t j = 0; j < s->experts; j++) row[j] = biased(s, b, i, j);
            qsort(row, (size_t)s->experts, sizeof *row, falling);
            thresholds[i] = 0.5 * (row[s->take - 1] + row[s->take]);
        }
        for (int64_t j = 0; j < s->experts; j++) {
            for (int64_t i = 0; i < s->tokens; i++)
                row[i] = -(thresholds[i] - s->logits[i * s->experts + j]);
            qsort(row, (size_t)s->tokens, sizeof *row, falling);
            const double least = lower > 0 ? -row[lower - 1] : -INFINITY;
            const double most = upper < s->tokens ? -row[upper] : INFINITY;
            b[j] = lower == upper ? 0.5 * (least + most) : fmin(fmax(0.0, least), most);
        }
    }
}

/* The largest distance from other biases, but for a number in common. */
static double distance(const scene *s, const double *b) {
    double shift = 0.0, most = 0.0;
    for (int64_t j = 0; j < s->experts; j++)
        shift += (s->potentials[j] - b[j]) / (double)s->experts;
    for (int64_t j = 0; j < s->experts; j++)
        most = fmax(most, fabs(s->potentials[j] - shift - b[j]));
    return most;
}

static void test_methods(void **state) {
    (void)state;
    enum { CELLS = 24, MOST = 300 };
    static const int64_t experts[] = {2, 5, 16, 33};
    static uint8_t kept[MOST * TAKE];
    static double weights[MOST * TAKE];
    scene *s = malloc(sizeof *s);
    assert_non_null(s);
    dice_state = 21;
    for (int level = 0; ota_kernel_name(level) != NULL; level++) {
        ota_router *router;
        const ota_options options = {.size = sizeof options, .cpu = ota_kernel_name(level)};
        assert_int_equal(ota_router_create(&router, &options, NULL), OTA_OK);
        for (int k = 0; k < CELLS; k++) {
            const int64_t m = experts[k % 4], n = k % 3 == 0 ? MOST : 20 + k;
            set_up(s, n, m, 1 + k % (m < TAKE ? m - 1 : TAKE), k % 2 == 0);
            const int64_t all = n * s->take;
            const bool even = k % 4 < 2;
            int64_t low[EXPERTS], high[EXPERTS];
            for (int64_t j = 0; j < m; j++) {
                low[j] = even ? all / m : 0;
                high[j] = even ? (all + m - 1) / m : (all + m - 1) / m + 3;
                high[j] = high[j] < n ? high[j] : n;
            }
            s->problem.lower = low;
            s->problem.upper = high;
            for (int method = OTA_ROUTE_SINKHORN; method <= OTA_ROUTE_GIVEN; method++) {
                double bound;
                s->problem.method = (ota_route_method)method;
                s->problem.rounds = method == OTA_ROUTE_QUANTILE ? 7 : 0;
                ota_routing_result found = {.size = sizeof found,
                                            .chosen = s->chosen,
                                            .shares = s->shares,
                                            .potentials = s->potentials,
                                            .loads = s->loads,
                                            .bound = &bound,
                                            .weights = weights,
                                            .kept = kept};
                assert_true(ota_router_route(router, &s->problem, &found, NULL) >= 0);
                check_weights(s, &found);
                /* Of f32, Sinkhorn compares products where the sums of potentials round otherwise. */
                if (method == OTA_ROUTE_SINKHORN) continue;
                check_answer(s, &found, low[0], high[0]);
                if (method == OTA_ROUTE_TOPK)
                    for (int64_t j = 0; j < m; j++) assert_true(s->potentials[j] == 0.0);
                if (method == OTA_ROUTE_GIVEN) {
                    /* With loads that sum up to the choices no common shift moves the bound; else 0 is the best for equal ones. */
                    for (int64_t j = 0; j < m; j++) assert_true(s->potentials[j] == 0.0);
                }
                if (method == OTA_ROUTE_BASE) {
                    assert_int_equal(found.excess, 0);
                    assert_true(fabs(bound - found.value) <= 0x1p-40 * (1.0 + fabs(bound)));
                }
                if (method == OTA_ROUTE_QUANTILE) {
                    double b[EXPERTS];
                    by_sorts(s, found.rounds, low[0], high[0], b);
                    /* Each round rounds a threshold and a difference of numbers below 32. */
                    assert_true(distance(s, b) <= 32.0 * 4.0 * 7.0 * unit_of(s));
                }
            }
        }
        ota_router_free(router);
    }
    free(s);
}

static void expect(const scene *s, const ota_routing *problem, ota_status status,
                   const char *sentence) {
    int64_t chosen[TAKE] = {-7};
    ota_routing_result found = {.size = sizeof found, .chosen = chosen, .rounds = 99};
    ota_error error;
    (void)s;
    assert_int_equal(ota_route(problem, NULL, &found, &error), status);
    if (strstr(error.message, sentence) == NULL)
        fail_msg("'%s' instead of '%s'", error.message, sentence);
    assert_true(chosen[0] == -7 && found.rounds == 99);
}

static void test_door(void **state) {
    (void)state;
    scene *s = malloc(sizeof *s);
    assert_non_null(s);
    dice_state = 8;
    set_up(s, 300, 8, 2, true);
    ota_routing p = s->problem;
    p.take = 9;
    expect(s, &p, OTA_EINVAL, "take is 9 of 8 experts");
    p = s->problem;
    p.tolerance = -1.0;
    expect(s, &p, OTA_EINVAL, "tolerance is -1");
    p = s->problem;
    p.rounds = -2;
    expect(s, &p, OTA_EINVAL, "rounds is -2");
    p = s->problem;
    p.method = (ota_route_method)5;
    expect(s, &p, OTA_EINVAL, "method is 5");
    const int64_t few[8] = {0}, shifted[8] = {1, 1, 1, 90, 1, 1, 1, 1};
    const int64_t other[8] = {300, 300, 300, 80, 300, 300, 300, 300};
    p = s->problem;
    p.upper = few;
    p.lower = few;
    expect(s, &p, OTA_INFEASIBLE, "the bounds admit 0 to 0 choices of the 600");
    p.lower = shifted;
    p.upper = other;
    expect(s, &p, OTA_INFEASIBLE, "expert 3 is to hold from 90 to 80 of 300 tokens");
    p = s->problem;
    p.logits.data = NULL;
    expect(s, &p, OTA_EINVAL, "logits");
    p = s->problem;
    p.size = 0;
    expect(s, &p, OTA_EINVAL, "size is 0");
    p = s->problem;
    s->start[3] = NAN;
    p.start = s->start;
    expect(s, &p, OTA_NONFINITE, "start[3] is");
    s->narrow_logits[290 * s->stride + 5] = INFINITY;
    s->narrow_logits[270 * s->stride + 4] = NAN;
    for (int method = OTA_ROUTE_SINKHORN; method <= OTA_ROUTE_GIVEN; method++) {
        s->problem.method = (ota_route_method)method;
        expect(s, &s->problem, OTA_NONFINITE, "logits[270, 4] is");
    }
    free(s);
}

TEST_FILE(test_route) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_recipe), cmocka_unit_test(test_stop),
                                       cmocka_unit_test(test_threads_and_ties),
                                       cmocka_unit_test(test_methods), cmocka_unit_test(test_door)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
