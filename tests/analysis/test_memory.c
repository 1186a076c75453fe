/* The analysis without memory: every allocation that a call makes is refused in turn. The call must answer
 * OTA_ENOMEM with its sentence, give back what it had taken, and work as before when there is memory again.
 * None of these calls starts a thread before it has its memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <string.h>

#include "groups.h"
#include "otattn_analysis.h"
#include "refused_memory.h"

enum { SIZE = 3, CELLS = SIZE * SIZE };

static const double even[CELLS] = {0.5, 0.25, 0.25, 0.25, 0.5, 0.25, 0.25, 0.25, 0.5};
static const double other[CELLS] = {0.125, 0.375, 0.5, 0.5, 0.125, 0.375, 0.375, 0.5, 0.125};
static const double thirds[SIZE] = {1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0};

static ota_problem softmax_of(const double *scores) {
    return (ota_problem){.size = sizeof(ota_problem),
                         .temperature = 1.0,
                         .scores =
                             ota_array_of((double *)(uintptr_t)scores, OTA_F64, 1, 1, SIZE, SIZE)};
}

/* ---- the calls: *number is what they found out ------------------------------------------------- */

static ota_status birkhoff(double *number, ota_error *error) {
    double weights[5];
    int64_t columns[5 * SIZE];
    ota_permutations terms = {.capacity = 5, .weights = weights, .columns = columns};
    const ota_status status = ota_birkhoff(even, SIZE, &terms, NULL, error);
    *number = status == OTA_OK ? weights[0] : 0.0;
    return status;
}

static ota_status probe(double *number, ota_error *error) {
    ota_probe found;
    const ota_status status = ota_probe_of(even, OTA_F64, SIZE, SIZE, &found, NULL, error);
    *number = found.diameter;
    return status;
}

static ota_status gauge(double *number, ota_error *error) {
    ota_gauge_result result;
    const ota_status status = ota_gauge(
        &(ota_gauge_matrix){.a = even, .b = other, .type = OTA_F64, .rows = SIZE, .columns = SIZE},
        NULL, NULL, &result, NULL, error);
    *number = result.residual;
    return status;
}

static ota_status four_cycle(double *number, ota_error *error) {
    return ota_gauge_four_cycle(
        &(ota_gauge_matrix){.a = even, .b = other, .type = OTA_F64, .rows = SIZE, .columns = SIZE},
        number, NULL, error);
}

static ota_status scaling(double *number, ota_error *error) {
    double f[SIZE], g[SIZE];
    ota_scaling_run run = {.most = 4, .f = f, .g = g};
    const ota_status status = ota_scaling(other, thirds, thirds, SIZE, SIZE, &run, NULL, error);
    *number = f[0];
    return status;
}

static ota_status spectrum(double *number, ota_error *error) {
    ota_coupling_spectrum found;
    const ota_status status = ota_coupling_spectrum_of(other, SIZE, SIZE, 0, &found, NULL, error);
    *number = found.second;
    return status;
}

static ota_status leak(double *number, ota_error *error) {
    const ota_problem problem = softmax_of(even);
    const ota_options options = {.size = sizeof options, .threads = 1};
    return ota_causality_leak(&problem, &options, 1, 1.0, number, error);
}

static ota_status ranks(double *number, ota_error *error) {
    const int64_t counts[1] = {1};
    double overlap[1];
    return ota_rank_change_of(
        even, other, OTA_F64, CELLS,
        &(ota_rank_change){.counts = counts, .count = 1, .overlap = overlap, .spearman = number},
        NULL, error);
}

static ota_status summary(double *number, ota_error *error) {
    ota_summary found;
    const ota_status status = ota_summary_of(other, CELLS, &found, NULL, error);
    *number = found.median;
    return status;
}

static ota_status identify(double *number, ota_error *error) {
    ota_fit fits[4];
    int64_t count = 0;
    const ota_problem problem = softmax_of(even);
    const ota_options options = {.size = sizeof options, .threads = 1};
    const ota_status status = ota_identify(&problem, &options, other, fits, 4, &count, error);
    *number = (double)count;
    return status;
}

static const struct {
    ota_status (*call)(double *number, ota_error *error);
    const char *sentence;
} calls[] = {
    {birkhoff, "no memory for 3 x 3 entries"},
    {probe, "no memory for 3 numbers"},
    {gauge, "there is no memory for the shifts"},
    {four_cycle, "there is no memory for the shifts"},
    {scaling, "there is no memory for a row"},
    {spectrum, "there is no memory for six rows"},
    {leak, "no memory for 9 pairs"},
    {ranks, "no memory for 9 values"},
    {summary, "no memory for 9 values"},
    {identify, "no memory is left"},
    {identify, "no memory for 576 bytes"},
};

static void refused_in_turn(void **unused) {
    (void)unused;
    for (size_t k = 0; k < sizeof calls / sizeof calls[0]; k++) {
        double first = 0.0, last = 0.0;
        ota_error error = {0};
        const int before = held;
        ota_status status = calls[k].call(&first, &error);
        assert_true(status >= 0);
        assert_int_equal(held, before);
        int place = 0;
        bool said = false;
        for (status = OTA_ENOMEM; status == OTA_ENOMEM; place++) {
            memset(&error, 0, sizeof error);
            refuse_after(place);
            status = calls[k].call(&last, &error);
            allow_all();
            assert_int_equal(held, before);
            if (refused == 0) break;
            assert_int_equal(status, OTA_ENOMEM);
            /* What is refused deeper down is said by the library below. */
            assert_true(strlen(error.message) > 0);
            said |= strstr(error.message, calls[k].sentence) != NULL;
        }
        assert_true(said);
        assert_true(status >= 0);
        assert_true(!(first < last) && !(first > last));
    }
}

TEST_FILE(test_memory) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(refused_in_turn)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
