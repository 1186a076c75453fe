/* test_rows.c: one row of every solver in cpu/rows/rows.h against its definition, in f32 and f64. With y = (s + h + f) / tau
 *
 *     softmax  p = e^y    entmax  p = [(alpha - 1) y]_+^(1 / (alpha - 1))    online  the same, at most what is left
 *
 * the weights, the sink's and the potential f must agree, and row and sink must sum to the row's mass in f64 whatever
 * the type of the weights. */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "groups.h"
#include "problems.h"
#include "backend/cpu/rows/rows.h"
#include "spec.h"

enum { COUNTS = 7, ORDERS = 8, MOST = 130 };
static const int64_t counts[COUNTS] = {1, 2, 7, 17, 33, 64, 130};
static const double orders[ORDERS] = {1.0, 1.125, 1.25, 1.5, 2.0, 3.0, 0.4, 0.8};

/* One drawn row: what is asked for. */
typedef struct request {
    ota_row_parameters parameters;
    int64_t count;
    double mu;
} request;

static const ota_regulariser_row *regulariser_of(double order) {
    const bool tsallis = order > 1.0 || (order > 0.0 && order < 1.0);
    const ota_regulariser kind = tsallis ? OTA_ENTMAX : order > 0.0 ? OTA_SOFTMAX : OTA_HARD;
    return ota_regulariser_of(&(ota_problem){.regulariser = kind, .order = order});
}

static request draw_request(dice *d, int order, int k) {
    static const double masses[] = {1.0, 0.3, 2.5};
    request r = {.count = counts[k % COUNTS], .mu = masses[k % 3]};
    r.parameters =
        (ota_row_parameters){.kernels = ota_kernels_choose(k % 2 == 0 ? "portable" : NULL),
                             .regulariser = regulariser_of(orders[order]),
                             .order = orders[order],
                             .tau = k % 5 < 2 ? 0.4 : 1.5,
                             .sink = k % 4 < 2 ? -INFINITY : 0.8 * normal(d),
                             .row_strength = INFINITY};
    return r;
}

/* The weight of one key by the definition, and what a weight says of its argument: y for p > 0. */
static double weight_of(const ota_row_parameters *parameters, double lifted) {
    const double y = lifted / parameters->tau;
    const double k = parameters->order - 1.0;
    if (!parameters->regulariser->tsallis) return exp(y);
    return k * y > 0.0 ? pow(k * y, 1.0 / k) : 0.0;
}

static double argument_of(const ota_row_parameters *parameters, double p) {
    return parameters->regulariser->tsallis
               ? pow(p, parameters->order - 1.0) / (parameters->order - 1.0)
               : log(p);
}

/* How far p is from the weight at s + f, in units of y; keys outside the support may lie above it by rounding. */
static double apart(const ota_row_parameters *parameters, double p, double lifted) {
    const double y = lifted / parameters->tau;
    if (!(p > 0.0)) return parameters->order > 1.0 ? fmax(y, 0.0) : y > -100.0 ? INFINITY : 0.0;
    return fabs(argument_of(parameters, p) - y);
}

static const double floor_of_weights = 1e-3;

static double floored(void *user, double x) {
    (void)user;
    return floor_of_weights + exp(x);
}

static double floored_slope(void *user, double x) {
    (void)user;
    return exp(x);
}

#define JOIN2(A, B) A##B
#define JOIN(A, B) JOIN2(A, B)
#define NAME(X) JOIN(X##_, TABLE)

#define T float
#define TABLE f32
#define UNIT 0x1p-24
#include "test_rows.inc.h"
#undef T
#undef TABLE
#undef UNIT

#define T double
#define TABLE f64
#define UNIT 0x1p-53
#include "test_rows.inc.h"

#define BOTH(NAME_OF_TEST)                                                                         \
    cmocka_unit_test(NAME_OF_TEST##_f32), cmocka_unit_test(NAME_OF_TEST##_f64)

TEST_FILE(test_rows) {
    const struct CMUnitTest tests[] = {
        BOTH(test_solved), BOTH(test_lists),       BOTH(test_long_lists), BOTH(test_given),
        BOTH(test_hard),   BOTH(test_online),      BOTH(test_used_up),    BOTH(test_edges),
        BOTH(test_custom), BOTH(test_capped_lists)};
    return cmocka_run_group_tests_name("rows", tests, NULL, NULL);
}
