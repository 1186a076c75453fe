/* test_adjoint_direct.c: elimination of backward's system (adjoint.h) against the same matrix in long double, of parts of keys
 * that exchange from everything to next to nothing. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "draw/random.h"
#include "groups.h"
#include "solvers/derivatives/adjoint.h"

enum { ROWS = 9, KEYS = 6, HALF = KEYS / 2 };

typedef struct scene {
    double slopes[ROWS * KEYS], den[ROWS], extra[KEYS], right[KEYS], weight[KEYS], a[ROWS], b[KEYS];
    unsigned char held[KEYS];
    ota_settings settings;
    ota_adjoint system;
} scene;

/* Rows of either half of the keys reach across with `across` of their slopes; the sink takes `sink` of every row. */
static void draw(scene *x, uint64_t seed, double across, double sink, double extra, bool holds) {
    dice d = seed;
    memset(x, 0, sizeof *x);
    for (int i = 0; i < ROWS; i++) {
        double sum = 0.0;
        for (int j = 0; j < KEYS; j++) {
            const bool own = (i < ROWS / 2) == (j < HALF);
            x->slopes[i * KEYS + j] = (0.1 + uniform(&d)) * (own ? 1.0 : across);
            sum += x->slopes[i * KEYS + j];
        }
        /* Without a sink a row has rounding beyond its slopes. */
        x->den[i] = sum * (1.0 + (sink > 0.0 ? sink : 3.0e-14));
    }
    for (int j = 0; j < KEYS; j++) {
        x->extra[j] = extra * (0.1 + uniform(&d));
        x->right[j] = normal(&d);
        x->held[j] = holds && j == 2;
        for (int i = 0; i < ROWS; i++) x->weight[j] += x->slopes[i * KEYS + j];
    }
    x->system = (ota_adjoint){.rows = ROWS,
                              .columns = KEYS,
                              .stride = KEYS,
                              .slopes = x->slopes,
                              .den = x->den,
                              .extra = x->extra,
                              .held = x->held,
                              .right = x->right,
                              .settings = &x->settings,
                              .a = x->a,
                              .b = x->b};
}

/* H b = right without the keys that are held, whose b is 0. The diagonal is a sum of what a key gives to others, so that nothing
 * cancels where parts exchange little. */
static void by_definition(const scene *x, double *b) {
    long double h[KEYS][KEYS] = {{0}}, r[KEYS], found[KEYS];
    for (int j = 0; j < KEYS; j++) {
        r[j] = x->held[j] ? 0.0L : (long double)x->right[j];
        h[j][j] = x->held[j] ? 1.0L : (long double)x->extra[j];
        for (int i = 0; i < ROWS && !x->held[j]; i++) {
            const long double w = (long double)x->slopes[i * KEYS + j],
                              den = (long double)x->den[i];
            long double others = den;
            for (int k = 0; k < KEYS; k++) others -= (long double)x->slopes[i * KEYS + k];
            if (!(others > 1.0e-13L * den)) others = 0.0L;
            for (int k = 0; k < KEYS; k++) {
                const long double other = (long double)x->slopes[i * KEYS + k];
                if (k == j) continue;
                others += other;
                if (!x->held[k]) h[j][k] -= w * other / den;
            }
            h[j][j] += w * others / den;
        }
    }
    for (int j = 0; j < KEYS; j++) {
        for (int k = j + 1; k < KEYS; k++) {
            const long double share = h[k][j] / h[j][j];
            for (int l = j; l < KEYS; l++) h[k][l] -= share * h[j][l];
            r[k] -= share * r[j];
        }
    }
    for (int j = KEYS - 1; j >= 0; j--) {
        found[j] = r[j];
        for (int k = j + 1; k < KEYS; k++) found[j] -= h[j][k] * found[k];
        found[j] /= h[j][j];
    }
    for (int j = 0; j < KEYS; j++) b[j] = (double)found[j];
}

static double eliminate(scene *x) {
    double c[KEYS * KEYS], ground[KEYS], total[KEYS], right[KEYS];
    /* What an earlier call left is none of its business. */
    for (int j = 0; j < KEYS; j++) ground[j] = total[j] = right[j] = x->b[j] = -3.0;
    return ota_adjoint_eliminate(&x->system, x->weight, c, ground, total, right);
}

/* Nothing cancels: b is accurate to rounding whatever the parts exchange; the matrix in long double is to its own rounding times
 * what it amplifies, at most 1 over what keys keep to themselves. */
static void elimination_is_the_inverse(void **state) {
    (void)state;
    static const double acrosses[] = {1.0, 1e-3, 1e-9};
    static const double kept[][2] = {{0.3, 0.0}, {0.0, 0.5}, {1e-3, 1e-4}, {0.0, 1e-6}};
    for (uint64_t k = 0; k < 96; k++) {
        static scene x;
        double b[KEYS], largest = 0.0;
        const double *keeps = kept[k / 3 % 4];
        draw(&x, 11 + k, acrosses[k % 3], keeps[0], keeps[1], k / 12 % 2 == 1);
        assert_true(eliminate(&x) <= 0.0);
        by_definition(&x, b);
        for (int j = 0; j < KEYS; j++) largest = fmax(largest, fabs(b[j]));
        /* What the sink takes is known as den less the sum of a row. */
        const double sink = keeps[0] > 0.0 ? 8.0 * 0x1p-53 / keeps[0] : 0.0;
        const double exact = 64.0 * 0x1p-64 / fmax(keeps[0], 0.1 * keeps[1]);
        const double bound = KEYS * largest * (64.0 * 0x1p-53 + sink + exact);
        for (int j = 0; j < KEYS; j++) {
            if (!(fabs(x.b[j] - b[j]) <= bound))
                print_error("%d, key %d: %.17g, not %.17g\n", (int)k, j, x.b[j], b[j]);
            assert_true(fabs(x.b[j] - b[j]) <= bound);
        }
    }
}

/* Keys that keep nothing to themselves: the last of each part that is left has offset 0, and what that drops of the right side
 * is the part's sum. */
static void the_last_of_a_part_is_its_zero(void **state) {
    (void)state;
    for (uint64_t k = 0; k < 16; k++) {
        static scene x;
        double sums[2] = {0.0, 0.0};
        draw(&x, 311 + k, 0.0, 0.0, 0.0, false);
        for (int j = 0; j < KEYS; j++) sums[j >= HALF] += x.right[j];
        const double dropped = eliminate(&x), rounding = 64.0 * KEYS * 0x1p-53;
        assert_true(fabs(dropped - fabs(sums[0]) - fabs(sums[1])) <= rounding * 8.0);
        assert_true(x.b[0] == 0.0 && x.b[HALF] == 0.0);
        for (int j = 0; j < KEYS; j++) assert_true(isfinite(x.b[j]));
    }
}

TEST_FILE(test_adjoint_direct) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elimination_is_the_inverse),
        cmocka_unit_test(the_last_of_a_part_is_its_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
