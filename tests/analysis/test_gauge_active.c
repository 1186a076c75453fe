/* Alignment of matrices with many columns, which are solved on a few of them: against the same problem with
 * each column once, and by its own two-sided certificate. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis_random.h"
#include "groups.h"
#include "otattn_analysis.h"
#include "spec.h"

enum { MOST_ROWS = 40, FEW = 500, MANY = 9001, KINDS = 5 };

typedef struct aligned {
    double k[MOST_ROWS], v[MANY], row_residual[MOST_ROWS];
    int64_t cycle_rows[MOST_ROWS], cycle_columns[MOST_ROWS];
    ota_gauge_result result;
} aligned;

static ota_status align(const void *a, const void *b, ota_type type, int n, int m, int64_t passes,
                        const int *cancel, aligned *x) {
    const ota_gauge_options how = {.size = sizeof how, .max_passes = passes};
    const ota_analysis_options options = {.size = sizeof options, .cancel = cancel};
    const ota_gauge_arrays arrays = {x->k, x->v, x->row_residual, x->cycle_rows, x->cycle_columns};
    return ota_gauge(&(ota_gauge_matrix){.a = a, .b = b, .type = type, .rows = n, .columns = m},
                     &how, &arrays, &x->result, &options, NULL);
}

/* Multiples of 2^-10, so that f32 and shifts by whole numbers lose nothing. */
static double drawn(uint64_t *state, int kind, double row, double column) {
    double x = normal(state);
    if (kind == 1) x = row * column;
    if (kind == 2) x = 3.0 * row + 3.0 * column + 0.3 * x;
    if (kind == 3) x = x * x * x;
    if (kind == 4) x = floor(5.0 * uniform(state));
    return rint(1024.0 * x) / 1024.0;
}

static void repeated_columns_change_nothing(void **unused) {
    (void)unused;
    static aligned few, many, single;
    static double a[MOST_ROWS * FEW], wide[MOST_ROWS * MANY];
    static float f32[MOST_ROWS * MANY], taken[MOST_ROWS * MANY];
    uint64_t state = 41;
    for (int t = 0; t < 3 * KINDS; t++) {
        const int n = t < KINDS ? whole(&state, 1, 4) : whole(&state, 5, MOST_ROWS);
        double rows[MOST_ROWS], scale = 0.0;
        for (int i = 0; i < n; i++) rows[i] = normal(&state);
        for (int j = 0; j < FEW; j++) {
            const double column = normal(&state);
            for (int i = 0; i < n; i++) {
                a[i * FEW + j] = drawn(&state, t % KINDS, rows[i], column);
                scale = fmax(scale, fabs(a[i * FEW + j]));
            }
        }
        for (int j = 0; j < MANY; j++) {
            for (int i = 0; i < n; i++) {
                wide[i * MANY + j] = a[i * FEW + j % FEW] + (double)(j / FEW);
                /* The same difference, of two numbers. */
                const double other = drawn(&state, 0, 0.0, 0.0);
                taken[i * MANY + j] = (float)other;
                f32[i * MANY + j] = (float)(wide[i * MANY + j] + other);
            }
        }
        assert_int_equal(align(a, NULL, OTA_F64, n, FEW, 0, NULL, &few), OTA_OK);
        assert_int_equal(align(wide, NULL, OTA_F64, n, MANY, 0, NULL, &many), OTA_OK);
        assert_int_equal(align(f32, taken, OTA_F32, n, MANY, 0, NULL, &single), OTA_OK);
        const double tiny = 1e-12 * (scale + MANY / FEW);
        assert_memory_equal(many.k, single.k, (size_t)n * sizeof *many.k);
        assert_memory_equal(many.v, single.v, sizeof many.v);
        spec_check("TOT-38", fabs(many.result.residual - few.result.residual), tiny);
        spec_check("TOT-38", many.result.residual - many.result.residual_lower, tiny);
        for (int i = 0; i < n; i++) spec_check("TOT-38", fabs(many.k[i] - few.k[i]), tiny);
        for (int j = 0; j < MANY; j++) {
            const double shift = many.v[j] - (double)(j / FEW);
            spec_check("TOT-38", fabs(shift - few.v[j % FEW]), tiny);
        }
    }
}

/* The mean of the closed walk that was returned. */
static double mean_of_cycle(const double *a, int m, const aligned *x) {
    const int64_t length = x->result.cycle_length;
    double total = 0.0;
    for (int64_t t = 0; t < length; t++) {
        const int64_t j = x->cycle_columns[t], after = x->cycle_rows[(t + 1) % length];
        total += a[x->cycle_rows[t] * m + j] - a[after * m + j];
    }
    return total / (2.0 * (double)length);
}

static void certificates_close(void **unused) {
    (void)unused;
    static aligned x;
    static double a[MOST_ROWS * MANY];
    uint64_t state = 43;
    for (int kind = 0; kind < KINDS; kind++) {
        const int n = MOST_ROWS - kind;
        double scale = 0.0;
        for (int k = 0; k < n * MANY; k++) {
            a[k] = drawn(&state, kind, 1.0 + k / MANY, sin(k % MANY));
            scale = fmax(scale, fabs(a[k]));
        }
        assert_int_equal(align(a, NULL, OTA_F64, n, MANY, 0, NULL, &x), OTA_OK);
        const double tiny = 256.0 * DBL_EPSILON * scale;
        spec_check("TOT-38", x.result.residual - x.result.residual_lower, tiny);
        spec_check("TOT-38", fabs(mean_of_cycle(a, MANY, &x) - x.result.residual_lower), tiny);
        double worst = 0.0;
        for (int k = 0; k < n * MANY; k++)
            worst = fmax(worst, fabs(a[k] - x.k[k / MANY] - x.v[k % MANY]));
        spec_check("TOT-41", fabs(worst - x.result.residual), tiny);
        /* Stopped early, both bounds hold. */
        const double r = x.result.residual;
        const ota_status status = align(a, NULL, OTA_F64, n, MANY, 2, NULL, &x);
        assert_true(status == OTA_OK || status == OTA_NOT_CONVERGED);
        spec_check("TOT-38", r - x.result.residual, tiny);
        spec_check("TOT-38", x.result.residual_lower - r, tiny);
        spec_check("TOT-38", fabs(mean_of_cycle(a, MANY, &x) - x.result.residual_lower), tiny);
        const int stop = 1;
        assert_int_equal(align(a, NULL, OTA_F64, n, MANY, 0, &stop, &x), OTA_CANCELLED);
    }
}

/* What a caller was told: how often, and whether more was open after a part had been solved. */
typedef struct told {
    int64_t rounds;
    bool closed, opened_again;
} told;

static void note(void *user, const ota_progress *progress) {
    told *const t = user;
    assert_int_equal(progress->round, ++t->rounds);
    assert_true(progress->residual >= 0.0);
    if (t->closed && progress->residual > 0.0) t->opened_again = true;
    if (!(progress->residual > 0.0)) t->closed = true;
}

/* Columns that join a part that was solved: what is open is then told anew, as it never is by one policy iteration on
 * all columns, which ends where nothing is open. */
static void columns_join_in_rounds(void **unused) {
    (void)unused;
    enum { N = 12 };
    static double a[N * MANY];
    uint64_t state = 53;
    for (int k = 0; k < N * MANY; k++) a[k] = normal(&state);
    for (int few = 0; few < 2; few++) {
        told seen = {.rounds = 0};
        const ota_analysis_options options = {
            .size = sizeof options, .progress = note, .progress_user = &seen};
        ota_gauge_result result;
        assert_int_equal(ota_gauge(
                             &(ota_gauge_matrix){
                                 .a = a, .type = OTA_F64, .rows = N, .columns = few ? FEW : MANY},
                             NULL, NULL, &result, &options, NULL),
                         OTA_OK);
        assert_true(seen.closed && seen.rounds >= result.passes);
        assert_true(seen.opened_again == !few);
    }
}

/* Rows enough that more columns bind than are ever gathered: all of them are worked on then. */
static void many_rows_take_the_whole_matrix(void **unused) {
    (void)unused;
    enum { N = 600, M = 8200 };
    static aligned x;
    uint64_t state = 47;
    float *const a = malloc((size_t)N * M * sizeof *a);
    assert_non_null(a);
    double scale = 0.0;
    for (int k = 0; k < N * M; k++) {
        a[k] = (float)(uniform(&state) - 0.5);
        scale = fmax(scale, fabs((double)a[k]));
    }
    const ota_gauge_options options = {.size = sizeof options, .max_passes = 60};
    assert_int_equal(
        ota_gauge(&(ota_gauge_matrix){.a = a, .type = OTA_F32, .rows = N, .columns = M}, &options,
                  NULL, &x.result, NULL, NULL),
        OTA_OK);
    spec_check("TOT-38", x.result.residual - x.result.residual_lower, 256.0 * DBL_EPSILON * scale);
    free(a);
}

TEST_FILE(test_gauge_active) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repeated_columns_change_nothing),
        cmocka_unit_test(certificates_close),
        cmocka_unit_test(columns_join_in_rounds),
        cmocka_unit_test(many_rows_take_the_whole_matrix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
