/* Composition of attention layers and the rank one layer would need; the printed example and what it hides. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analysis_random.h"
#include "groups.h"
#include "held_memory.h"
#include "otattn_analysis.h"
#include "spec.h"

enum { SIZE = 32, WIDTH = 4 };

/* softmax(Q K^T), Q [n, width], K [m, width] */
static void attention(uint64_t *state, int n, int m, int width, double *coupling) {
    double q[SIZE * WIDTH], k[SIZE * WIDTH], z[SIZE];
    for (int i = 0; i < n * width; i++) q[i] = normal(state);
    for (int j = 0; j < m * width; j++) k[j] = normal(state);
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < m; j++) {
            z[j] = 0.0;
            for (int d = 0; d < width; d++) z[j] += q[i * width + d] * k[j * width + d];
        }
        plain_softmax(z, m, 1.0, coupling + i * m);
    }
}

static int64_t rank_of(const double *coupling, int n, int m, double *pivots) {
    double ratio[SIZE * SIZE];
    int64_t rank;
    assert_int_equal(ota_log_ratios(coupling, n, m, ratio, NULL, NULL), OTA_OK);
    assert_int_equal(ota_rank(ratio, n, m - 1, 1e-10, pivots, &rank, NULL, NULL), OTA_OK);
    return rank;
}

static void one_layer_has_its_width(void **unused) {
    (void)unused;
    uint64_t state = 3;
    double first[SIZE * SIZE], second[SIZE * SIZE], both[SIZE * SIZE], pivots[SIZE];
    for (int t = 0; t < 20; t++) {
        const int width = 1 + t % WIDTH;
        attention(&state, SIZE, SIZE, width, first);
        attention(&state, SIZE, SIZE, width, second);
        spec_check("TOT-61", fabs((double)rank_of(first, SIZE, SIZE, pivots) - width), 0.0);
        for (int k = 1; k < SIZE; k++) assert_true(pivots[k] >= 0.0);
        assert_int_equal(ota_compose(second, first, SIZE, SIZE, SIZE, both, NULL, NULL), OTA_OK);
        spec_check_true("TOT-61", rank_of(both, SIZE, SIZE, pivots) > width);
    }
}

/* C.3 prints S2 S1 with a 3 x 3 times a 2 x 3 matrix, a product and determinant .040 that no order gives
 * (erratum E4): the shapes allow S1 S2 only, whose determinant is .011443. */
static void printed_example(void **unused) {
    (void)unused;
    const double s1[6] = {.40, .35, .25, .25, .40, .35};
    const double s2[9] = {.5, .3, .2, .2, .5, .3, .3, .2, .5};
    const double printed[6] = {.335, .355, .310, .268, .330, .402};
    double s[6], z[4], copy[4], pivots[2];
    int64_t rank;
    assert_int_equal(ota_compose(s1, s2, 2, 3, 3, s, NULL, NULL), OTA_OK);
    assert_int_equal(ota_log_ratios(s, 2, 3, z, NULL, NULL), OTA_OK);
    const double determinant = z[0] * z[3] - z[1] * z[2];
    spec_check_true("TOT-61", fabs(determinant - 0.040) > 0.02);
    memcpy(copy, z, sizeof copy);
    assert_int_equal(ota_rank(copy, 2, 2, 1e-10, pivots, &rank, NULL, NULL), OTA_OK);
    spec_check_true("TOT-61", rank == 2);
    spec_check("TOT-61", fabs(pivots[0] * pivots[1] - fabs(determinant)), 4.0 * DBL_EPSILON);
    /* The printed digits themselves give .0397. */
    assert_int_equal(ota_log_ratios(printed, 2, 3, z, NULL, NULL), OTA_OK);
    spec_check("TOT-61", fabs(z[0] * z[3] - z[1] * z[2] - 0.0397), 5e-5);
}

static void ranks_that_are_known(void **unused) {
    (void)unused;
    double pivots[3];
    int64_t rank;
    double zero[6] = {0}, one[6] = {1, 2, 3, 2, 4, 6}, two[6] = {0, 0, 1, 0, 1e-3, 0};
    assert_int_equal(ota_rank(zero, 2, 3, 1e-10, pivots, &rank, NULL, NULL), OTA_OK);
    assert_int_equal(rank, 0);
    assert_int_equal(ota_rank(one, 3, 2, 1e-10, pivots, &rank, NULL, NULL), OTA_OK);
    assert_int_equal(rank, 2);
    double same[6] = {1, 2, 2, 4, 3, 6};
    assert_int_equal(ota_rank(same, 3, 2, 1e-10, pivots, &rank, NULL, NULL), OTA_OK);
    assert_int_equal(rank, 1);
    double wide[6];
    memcpy(wide, two, sizeof wide);
    assert_int_equal(ota_rank(wide, 2, 3, 1e-10, pivots, &rank, NULL, NULL), OTA_OK);
    assert_int_equal(rank, 2);
    memcpy(wide, two, sizeof wide);
    assert_int_equal(ota_rank(wide, 2, 3, 1e-2, pivots, &rank, NULL, NULL), OTA_OK);
    assert_int_equal(rank, 1);
    for (int k = 0; k < 6; k++) wide[k] = 1e-20 * two[k];
    assert_int_equal(ota_rank(wide, 2, 3, 1e-10, pivots, &rank, NULL, NULL), OTA_OK);
    assert_int_equal(rank, 2);
    /* What lies behind the rows is no row. */
    double more[9] = {1, 2, 3, 2, 4, 6, 100, -7, 55};
    assert_int_equal(ota_rank(more, 2, 3, 1e-10, pivots, &rank, NULL, NULL), OTA_OK);
    assert_int_equal(rank, 1);
    assert_true(more[6] == 100.0 && more[7] == -7.0 && more[8] == 55.0);
}

static void refusals(void **unused) {
    (void)unused;
    const double good[4] = {.5, .5, .25, .75}, heavy[4] = {.5, .5, .5, .6},
                 negative[4] = {1.5, -.5, 0, 1};
    const double none[4] = {(double)NAN, .5, 1, 0}, zero[4] = {1, 0, .5, .5};
    double out[4], pivots[2];
    int64_t rank;
    ota_error error;
    assert_int_equal(ota_compose(heavy, good, 2, 2, 2, out, NULL, &error), OTA_EINVAL);
    assert_string_equal(error.field, "second");
    assert_int_equal(ota_compose(good, negative, 2, 2, 2, out, NULL, &error), OTA_EINVAL);
    assert_string_equal(error.field, "first");
    assert_int_equal(ota_compose(none, good, 2, 2, 2, out, NULL, &error), OTA_EINVAL);
    assert_int_equal(ota_compose(good, good, 2, 0, 2, out, NULL, &error), OTA_EINVAL);
    assert_int_equal(ota_compose(good, good, INT64_MAX / 16 + 1, 2, 2, out, NULL, &error),
                     OTA_EOVERFLOW);
    /* Every pair of sizes is looked at before an entry is read, and the first that fails is named. */
    assert_int_equal(
        ota_compose(good, good, INT64_C(1) << 31, 1, INT64_C(1) << 31, out, NULL, &error),
        OTA_EOVERFLOW);
    assert_int_equal(ota_compose(good, good, 0, 2, 2, out, NULL, &error), OTA_EINVAL);
    assert_string_equal(error.field, "rows");
    assert_int_equal(ota_compose(good, good, 2, 0, 2, out, NULL, &error), OTA_EINVAL);
    assert_string_equal(error.field, "columns");
    assert_int_equal(ota_log_ratios(good, 0, 2, out, NULL, &error), OTA_EINVAL);
    assert_string_equal(error.field, "rows");
    assert_int_equal(ota_log_ratios(zero, 2, 2, out, NULL, &error), OTA_EINVAL);
    assert_int_equal(ota_log_ratios(good, 4, 1, out, NULL, &error), OTA_EINVAL);
    assert_string_equal(error.field, "columns");
    double a[4] = {1, 0, 0, 1};
    assert_int_equal(ota_rank(a, 2, 2, 1.0, pivots, &rank, NULL, &error), OTA_EINVAL);
    assert_string_equal(error.field, "tolerance");
    a[1] = (double)INFINITY;
    assert_int_equal(ota_rank(a, 2, 2, 0.0, pivots, &rank, NULL, &error), OTA_EINVAL);
}

TEST_FILE(test_compose) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_layer_has_its_width),
        cmocka_unit_test(printed_example),
        cmocka_unit_test(ranks_that_are_known),
        cmocka_unit_test(refusals),
    };
    return run_and_hold(tests, sizeof tests / sizeof tests[0]);
}
