/* test_extrapolation.c: Anderson extrapolation by what it promises: of an affine map of at most as many dimensions as its depth it
 * finds the fixed point; closed keys stay closed and ceilings hold; what cannot be extrapolated is the plain update. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/extrapolation.h"
#include "draw/random.h"
#include "groups.h"

static dice dice_state;

enum { MOST = 40, DEPTH = OTA_ANDERSON_DEPTH };

typedef struct bench {
    ota_extrapolation history;
    double memory[OTA_ANDERSON_VECTORS * MOST];
    double matrix[MOST][MOST], right[MOST], fixed[MOST]; /* fixed = matrix fixed + right */
    double x[MOST], g[MOST];
} bench;

/* Of `moving` dimensions; the others of the `count` stand still. */
static void start(bench *t, int count, int moving, uint64_t seed) {
    memset(t, 0, sizeof *t);
    dice_state = seed;
    ota_extrapolation_place(&t->history, t->memory, MOST);
    for (int i = 0; i < moving; i++) {
        for (int j = 0; j < moving; j++)
            t->matrix[i][j] = 0.4 * normal(&dice_state) / sqrt((double)moving);
    }
    for (int i = 0; i < count; i++) {
        t->fixed[i] = normal(&dice_state);
        t->x[i] = i < moving ? t->fixed[i] + normal(&dice_state) : t->fixed[i];
    }
    for (int i = 0; i < count; i++) {
        t->right[i] = t->fixed[i];
        for (int j = 0; j < count; j++) t->right[i] -= t->matrix[i][j] * t->fixed[j];
    }
}

static void apply(bench *t, int count) {
    for (int i = 0; i < count; i++) {
        t->g[i] = t->right[i];
        for (int j = 0; j < count; j++) t->g[i] += t->matrix[i][j] * t->x[j];
    }
}

static double distance(const bench *t, int count) {
    double most = 0.0;
    for (int i = 0; i < count; i++) most = fmax(most, fabs(t->x[i] - t->fixed[i]));
    return most;
}

/* The minimum of the residual over `moving` differences is 0, so the step after as many of them lies on the fixed point; the
 * ridge of 1e-12 leaves some 1e-12 of the first distance, times the condition of the differences. */
static void affine_maps_end(void **state) {
    (void)state;
    for (int moving = 1; moving <= DEPTH; moving++) {
        for (int count = moving; count <= MOST; count += 7) {
            bench t;
            start(&t, count, moving, 10 + (uint64_t)moving);
            const double before = distance(&t, count);
            for (int step = 0; step <= moving; step++) {
                apply(&t, count);
                const bool moved = ota_extrapolate(&t.history, t.x, t.g, count, INFINITY);
                assert_int_equal(moved, step > 0);
                memcpy(t.x, t.g, sizeof t.x);
            }
            assert_true(distance(&t, count) < 1e-6 * before);
        }
    }
}

/* With more steps than the depth the oldest differences go, and it still ends. */
static void the_history_goes_round(void **state) {
    (void)state;
    bench t;
    start(&t, MOST, MOST, 3);
    const double before = distance(&t, MOST);
    for (int step = 0; step < 60; step++) {
        apply(&t, MOST);
        (void)ota_extrapolate(&t.history, t.x, t.g, MOST, INFINITY);
        memcpy(t.x, t.g, sizeof t.x);
        assert_true(t.history.count <= DEPTH && t.history.next < DEPTH);
    }
    assert_true(distance(&t, MOST) < 1e-9 * before);
}

static void closed_keys_and_ceilings(void **state) {
    (void)state;
    bench t;
    start(&t, 3, 3, 5);
    for (int step = 0; step < 6; step++) {
        apply(&t, 3);
        double g[4] = {t.g[0], -INFINITY, t.g[1], t.g[2]},
               x[4] = {t.x[0], -INFINITY, t.x[1], t.x[2]};
        const double ceiling = t.fixed[0] - 0.25;
        (void)ota_extrapolate(&t.history, x, g, 4, ceiling);
        assert_true(isinf(g[1]) && g[1] < 0.0);
        for (int k = 0; k < 4 && step > 0; k++) assert_true(g[k] <= ceiling);
        t.x[0] = g[0], t.x[1] = g[2], t.x[2] = g[3];
        for (int k = 0; k < 3; k++) assert_true(isfinite(t.x[k]));
    }
}

/* No differences, differences that are none, and those whose products overflow: g stays as it was. */
static void what_cannot_be_extrapolated(void **state) {
    (void)state;
    static const struct {
        double x[2][2], g[2][2];
    } table[] = {
        {{{1.0, 2.0}, {1.0, 2.0}}, {{3.0, 1.0}, {3.0, 1.0}}},
        {{{1.0, 2.0}, {2.0, 3.0}}, {{3.0, 1.0}, {4.0, 2.0}}},
        {{{1e200, 2.0}, {2.0, 3.0}}, {{3.0, 1.0}, {1e200, 2.0}}},
        {{{0.0, 2.0}, {(double)NAN, 3.0}}, {{3.0, 1.0}, {1.0, 2.0}}},
        {{{0.0, -DBL_MAX}, {0.5, DBL_MAX}}, {{1.0, -DBL_MAX}, {1.25, DBL_MAX}}},
    };
    for (size_t k = 0; k < sizeof table / sizeof table[0]; k++) {
        bench t;
        memset(&t, 0, sizeof t);
        ota_extrapolation_place(&t.history, t.memory, MOST);
        for (int step = 0; step < 2; step++) {
            double g[2] = {table[k].g[step][0], table[k].g[step][1]};
            assert_false(ota_extrapolate(&t.history, table[k].x[step], g, 2, INFINITY));
            assert_memory_equal(g, table[k].g[step], sizeof g);
        }
        /* Forgotten, the next is a first one. */
        ota_extrapolation_reset(&t.history);
        double x[2] = {1.0, 1.0}, g[2] = {2.0, 3.0};
        assert_false(ota_extrapolate(&t.history, x, g, 2, INFINITY));
        x[0] = 2.0, x[1] = 3.0, g[0] = 2.5, g[1] = 4.0;
        assert_true(ota_extrapolate(&t.history, x, g, 2, INFINITY));
        assert_true(isfinite(g[0]) && isfinite(g[1]));
    }
}

/* The differences of equal changes are 0, or the last digit where x changes its exponent, which says nothing. */
static void constants_are_not_extrapolated(void **state) {
    (void)state;
    bench t;
    memset(&t, 0, sizeof t);
    ota_extrapolation_place(&t.history, t.memory, MOST);
    t.x[0] = 1.167;
    for (int step = 0; step < 60; step++) {
        t.g[0] = t.x[0] - 0.2231435513142097;
        const double plain = t.g[0];
        assert_false(ota_extrapolate(&t.history, t.x, t.g, 1, INFINITY));
        assert_true(fabs(t.g[0] - plain) <= 0.0);
        t.x[0] = t.g[0];
    }
}

TEST_FILE(test_extrapolation) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(affine_maps_end), cmocka_unit_test(the_history_goes_round),
        cmocka_unit_test(closed_keys_and_ceilings), cmocka_unit_test(what_cannot_be_extrapolated),
        cmocka_unit_test(constants_are_not_extrapolated)};
    return cmocka_run_group_tests_name("extrapolation", tests, NULL, NULL);
}
