/* test_edges.c: searches for the edges of rows of orders above 2 (backend/edge.h). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "backend/edge.h"
#include "draw/random.h"
#include "groups.h"

enum { KEYS = 200, DRAWS = 50, PASSES = 6 };

static void lift(const void *keys, int64_t first, int64_t count, double *x) {
    memcpy(x, (const double *)keys + first, (size_t)count * sizeof *x);
}

/* The edge, and how many passes over the keys it took. */
static ota_edge find(const ota_edge_row *row, const ota_edge_keys *keys, double top, double guess,
                     int *passes) {
    ota_edge_search search = ota_edge_begin(row, top, guess);
    *passes = 1;
    while (ota_edge_next(&search, ota_edge_pass(&search, keys))) ++*passes;
    return search.edge;
}

/* From its own threshold a row takes few passes; from above or below it, whatever the guess, the same edge and weights come. */
static void known_thresholds_are_few_passes(void **state) {
    (void)state;
    static const double orders[] = {2.2, 2.5, 3.0, 5.0};
    static const double guesses[] = {-1e3, -1.0, -1e-3, -1e-9, 1e-9, 1e-3, 0.1};
    dice dice = 5;
    for (size_t k = 0; k < DRAWS * sizeof orders / sizeof *orders; k++) {
        const double gap = orders[k / DRAWS] - 1.0;
        const ota_edge_row row = {.sink = -INFINITY, .k = gap / 0.5, .power = 1.0 / gap, .mu = 1.0};
        double x[KEYS], top = -INFINITY;
        for (int j = 0; j < KEYS; j++) top = fmax(top, x[j] = 3.0 * normal(&dice));
        const ota_edge_keys keys = {x, lift, KEYS};
        int passes;
        const ota_edge far = find(&row, &keys, top, top, &passes);
        const double threshold = -ota_edge_potential(&row, &far);
        for (size_t g = 0; g <= sizeof guesses / sizeof *guesses; g++) {
            const double apart = g < sizeof guesses / sizeof *guesses ? guesses[g] : 0.0;
            const ota_edge near = find(&row, &keys, top, threshold + apart, &passes);
            assert_true(near.at >= far.at && near.at <= far.at);
            assert_true(fabs(near.weight - far.weight) <= 64.0 * 0x1p-52);
            if (fabs(apart) <= 0.0 && passes > PASSES)
                fail_msg("order %g: %d passes from the threshold", orders[k / DRAWS], passes);
        }
    }
}

TEST_FILE(test_edges) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(known_thresholds_are_few_passes)};
    return cmocka_run_group_tests_name("edges", tests, NULL, NULL);
}
