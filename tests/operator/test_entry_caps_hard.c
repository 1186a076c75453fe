/* test_entry_caps_hard.c: P_ij <= c_ij in hard rows, which fill their keys in the order of scores; of mass k with caps of 1 they
 * take the k best. */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "capped_scene.h"
#include "groups.h"
#include "otattn.h"

/* Keys of one row by falling score, those of a level by place. */
static void rank_keys(const scene *s, int64_t i, int64_t *order) {
    const double *x = s->scores + i * s->m;
    for (int64_t j = 0; j < s->m; j++) {
        int64_t before = 0;
        for (int64_t other = 0; other < s->m; other++)
            before += x[other] > x[j] || (!(x[other] < x[j]) && other < j);
        order[before] = j;
    }
}

/* Keys of falling score are filled one after another, the sink comes before a key that is less. */
static void check_hard_rows(const scene *s, double tolerance) {
    int64_t order[M];
    const bool sinks = s->problem.term_count > 0;
    for (int64_t i = 0; i < s->n; i++) {
        double left = s->problem.row_mass.data != NULL ? s->mass[i] : 1.0;
        rank_keys(s, i, order);
        for (int64_t k = 0; k < s->m; k++) {
            const int64_t at = i * s->m + order[k];
            if (sinks && s->scores[at] < s->sink.value) left = 0.0;
            const double w = s->allowed[at] ? fmin(left, cap_of(s, i, order[k])) : 0.0;
            left -= w;
            if (!(fabs(s->p[at] - w) <= tolerance))
                fail_msg("P[%d, %d] is %.17g where %.17g is expected", (int)i, (int)order[k],
                         s->p[at], w);
        }
    }
}

static void hard_rows_of_a_level(void) {
    scene *s = malloc(sizeof *s);
    assert_non_null(s);
    for (uint64_t k = 0; k < 64; k++) {
        const bool narrow = k / 4 % 2 == 1;
        set_up(s, "hard{entry_cap=0.09}", 1 + (int64_t)(k % N), 23 + (int64_t)(k % 47), 700 + k,
               narrow);
        if (k % 3 == 1) draw_caps(s, 0.06, 0.12, 900 + k);
        /* As many caps as make the mass, whose sum rounds. */
        if (k % 3 == 2) s->problem.entry_cap = 1.0 / (double)(2 + k % 9);
        if (k % 8 >= 4) forbid(s, 7);
        if (k % 7 == 2) give_masses(s, 0.4, 1.2);
        for (int64_t at = 0; k % 5 == 2 && at < s->n * s->m; at += 3)
            s->scores[at] = s->narrow_scores[at] = 0.5F;
        if (k % 11 == 3) {
            s->sink = (ota_term){.kind = OTA_TERM_SINK, .value = 1.5};
            s->problem.terms = &s->sink;
            s->problem.term_count = 1;
        }
        assert_int_equal(solve(s, NULL), OTA_OK);
        check_hard_rows(s, narrow ? 1.0e-7 : 1.0e-14);
        const ota_certificate found = judge(s);
        assert_true(found.row_error <= (narrow ? 1.0e-6 : 1.0e-14));
        assert_true(found.cap_error <= (narrow ? 1.0e-8 : 0.0));
        assert_true(fabs(found.gap) <= (narrow ? 1.0e-5 : 1.0e-12) * (1.0 + fabs(found.primal)));
    }
    free(s);
}

static void hard_rows_are_those_of_the_definition(void **state) {
    (void)state;
    for (int k = 0; ota_kernel_name(k) != NULL; k++) {
        level = ota_kernel_name(k);
        hard_rows_of_a_level();
    }
    level = NULL;
}

static void hard_rows_take_the_best_keys(void **state) {
    (void)state;
    scene *s = malloc(sizeof *s);
    assert_non_null(s);
    for (int64_t k = 1; k <= 6; k++) {
        set_up(s, "hard{entry_cap=1}", N, 31, 40 + (uint64_t)k, k % 2 == 0);
        for (int64_t i = 0; i < N; i++) s->mass[i] = (double)k;
        s->problem.row_mass = ota_array_of(s->mass, OTA_F64, 1, 1, 1, N);
        /* Ties: the first keys of a level are taken. */
        for (int64_t j = 0; j < 31; j += 3) s->scores[j] = s->narrow_scores[j] = 1.0F;
        assert_int_equal(solve(s, NULL), OTA_OK);
        for (int64_t i = 0; i < N; i++) {
            int64_t order[M];
            rank_keys(s, i, order);
            for (int64_t at = 0; at < 31; at++)
                assert_true(fabs(s->p[i * 31 + order[at]] - (at < k ? 1.0 : 0.0)) <= 0.0);
        }
        const ota_certificate found = judge(s);
        assert_true(fabs(found.gap) <= 1.0e-12 && found.row_error <= 0.0);
    }
    free(s);
}

TEST_FILE(test_entry_caps_hard) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hard_rows_take_the_best_keys),
        cmocka_unit_test(hard_rows_are_those_of_the_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
