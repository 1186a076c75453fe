/* test_float_modes.c: random problems solved in the caller's rounding mode and with numbers flushed to zero. Numeric policy:
 * such modes are honoured on every worker and given back as they were. What must hold whatever they are: a plan that is
 * called ok is right (judged in the default mode), refusals are those of the default mode or a status that claims nothing,
 * and two threads give the bits of one. */
#define _GNU_SOURCE
#include <fenv.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "program/bench/draw.h"
#include "groups.h"
#include "scale.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

enum { PROBLEMS = 150 };

static const int ready;

typedef struct mode {
    const char *name;
    int rounding;
    unsigned flags; /* of MXCSR: 0x8000 flushes results, 0x0040 takes denormal operands as 0 */
} mode;

static const mode modes[] = {
    {"default", FE_TONEAREST, 0},
    {"upward", FE_UPWARD, 0},
    {"downward", FE_DOWNWARD, 0},
    {"toward zero", FE_TOWARDZERO, 0},
#if defined(__x86_64__)
    {"flush to zero", FE_TONEAREST, 0x8000},
    {"denormals are zero", FE_TONEAREST, 0x0040},
    {"both, downward", FE_DOWNWARD, 0x8040},
#endif
};

static void enter(const mode *m) {
    (void)fesetround(m->rounding);
#if defined(__x86_64__)
    _mm_setcsr((_mm_getcsr() & ~0x8040U) | m->flags);
#endif
}

/* Is the calling thread still in that mode? */
static bool holds(const mode *m) {
#if defined(__x86_64__)
    if ((_mm_getcsr() & 0x8040U) != m->flags) return false;
#endif
    return fegetround() == m->rounding;
}

typedef struct answer {
    ota_status status;
    bool kept; /* the mode, across the call */
    double coupling[64 * 64], row_potential[64], column_potential[64], sink[64];
} answer;

static ota_arrays arrays_of(const cli_draw *d, answer *a) {
    return (ota_arrays){
        .size = sizeof(ota_arrays),
        .coupling = ota_array_of(a->coupling, OTA_F64, 1, 1, d->n, d->m),
        .row_potential = ota_array_of(a->row_potential, OTA_F64, 1, 1, 1, d->n),
        .column_potential = ota_array_of(a->column_potential, OTA_F64, 1, 1, 1, d->m),
        .sink = ota_array_of(a->sink, OTA_F64, 1, 1, 1, d->n),
    };
}

static void solve(const cli_draw *d, const mode *m, int threads, answer *a) {
    const ota_arrays arrays = arrays_of(d, a);
    ota_options options = d->options;
    ota_error error;
    options.threads = threads;
    memset(a, 0, sizeof *a);
    enter(m);
    a->status = ota_attend(&d->problem, &options, &arrays, NULL, &error);
    a->kept = holds(m);
    enter(&modes[0]);
}

static void judge(const cli_draw *d, cli_draw_memory *memory, const mode *m, answer *a) {
    const ota_arrays arrays = arrays_of(d, a);
    ota_certificate certificate = {.size = sizeof certificate};
    ota_error error = {.message = ""};
    if (ota_certify(&d->problem, &d->options, &arrays, &certificate, NULL, &error) < OTA_OK)
        fail_msg("%s, problem %lld: %s", m->name, (long long)d->index, error.message);
    /* exp(-infinity) rounds up to the least number there is; a few of them add up in a weight. */
    if (m->rounding == FE_UPWARD && certificate.outside <= 64 * 0x1p-1074) certificate.outside = 0;
    memcpy(memory->row_potential, a->row_potential, sizeof a->row_potential);
    memcpy(memory->column_potential, a->column_potential, sizeof a->column_potential);
    const char *wrong = cli_draw_wrong(d, memory, &certificate);
    if (wrong != NULL)
        fail_msg("%s, problem %lld, %s: %s (rows %g, columns %g, gap %g)", m->name,
                 (long long)d->index, d->method, wrong, certificate.row_error,
                 certificate.column_error, certificate.gap);
}

static void test_modes(void **state) {
    static answer one, two;
    (void)state;
    cli_draw_memory *memory = malloc(sizeof *memory);
    assert_non_null(memory);
    for (size_t k = 0; k < sizeof modes / sizeof *modes; k++) {
        int64_t right = 0, tried = 0;
        for (int64_t index = 0; index < PROBLEMS; index += test_step(), tried++) {
            cli_draw d;
            cli_draw_problem(&d, memory, 77, index, &ready);
            solve(&d, &modes[k], 1, &one);
            assert_true(one.kept);
            if (one.status == OTA_INFEASIBLE && d.feasible)
                fail_msg("%s, problem %lld: infeasible", modes[k].name, (long long)index);
            if (one.status == OTA_OK) judge(&d, memory, &modes[k], &one);
            right += one.status == OTA_OK;
            if (index % 4 != 0) continue;
            solve(&d, &modes[k], 2, &two);
            assert_int_equal(one.status, two.status);
            assert_memory_equal(one.coupling, two.coupling, sizeof one.coupling);
        }
        /* A mode in which nothing is solved would pass everything above. */
        assert_true(right > tried / 2);
    }
    free(memory);
}

/* Scores, biases, temperature and strengths times one power of two: the same bits up to 2^60 either way, and beyond that a
 * plan that the judge accepts or a status that claims none. */
static void test_scales(void **state) {
    static answer one, two;
    static const int powers[] = {-1020, -900, -100, -60, 60, 100, 900, 1010};
    (void)state;
    cli_draw_memory *memory = malloc(sizeof *memory);
    assert_non_null(memory);
    int64_t same = 0, tried = 0;
    for (int64_t index = 0; index < PROBLEMS; index += test_step(), tried++) {
        for (size_t k = 0; k < sizeof powers / sizeof *powers; k++) {
            cli_draw d;
            cli_draw_problem(&d, memory, 78, index, &ready);
            solve(&d, &modes[0], 1, &one);
            const double factor = ldexp(1.0, powers[k]);
            for (int64_t i = 0; i < d.n * d.m; i++) d.scores[i] *= factor;
            for (int64_t j = 0; j < d.m; j++) d.bias[j] *= factor;
            for (int64_t t = 0; t < d.problem.term_count; t++) d.terms[t].value *= factor;
            d.problem.temperature *= factor;
            d.problem.strength *= factor;
            d.problem.row_strength *= factor;
            d.range *= factor;
            d.tau *= factor;
            solve(&d, &modes[0], 1, &two);
            const bool moderate = powers[k] >= -60 && powers[k] <= 60;
            if (moderate) {
                assert_int_equal(one.status, two.status);
                assert_memory_equal(one.coupling, two.coupling, sizeof one.coupling);
                same++;
            }
            if (two.status == OTA_OK && isnormal(d.problem.temperature))
                judge(&d, memory, &modes[0], &two);
        }
    }
    assert_true(same == 2 * tried);
    free(memory);
}

TEST_FILE(test_float_modes) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_modes),
        cmocka_unit_test(test_scales),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
