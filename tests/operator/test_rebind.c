/* test_rebind.c: plans that go on with another problem. What a new plan would choose otherwise, or have other memory for,
 * is refused, the field named, and the plan solves as before; what is taken comes out as of a new plan, to the bit. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend_wrap.h"
#include "groups.h"
#include "otattn.h"

enum { N = 12, M = 12, TERMS = 2 };

typedef struct scene {
    double scores[N * M], bias[N * M], coupling[N * M];
    float narrow[N * M];
    int64_t lengths[1];
    ota_problem problem;
    ota_options options;
    ota_term terms[TERMS];
    ota_support supports[TERMS];
    ota_arrays arrays;
    ota_error error;
} scene;

static void draw(scene *s, const char *method, bool narrow) {
    memset(s, 0, sizeof *s);
    for (int k = 0; k < N * M; k++) {
        s->scores[k] = 2.0 * sin(1.7 * k + 0.3);
        s->narrow[k] = (float)s->scores[k];
        s->bias[k] = cos(0.9 * k);
    }
    s->lengths[0] = M - 2;
    s->problem.size = sizeof s->problem;
    s->options.size = sizeof s->options;
    s->arrays.size = sizeof s->arrays;
    assert_int_equal(ota_method_parse(method, &s->problem, &s->options, &s->error), OTA_OK);
    s->problem.scores = narrow ? ota_array_of(s->narrow, OTA_F32, 1, 1, N, M)
                               : ota_array_of(s->scores, OTA_F64, 1, 1, N, M);
    s->problem.terms = s->terms;
    s->problem.supports = s->supports;
    s->arrays.coupling = ota_array_of(s->coupling, OTA_F64, 1, 1, N, M);
}

static void causal(scene *s) {
    s->supports[s->problem.support_count++] = (ota_support){.kind = OTA_SUPPORT_CAUSAL};
}
static void window(scene *s) {
    s->supports[s->problem.support_count++] =
        (ota_support){.kind = OTA_SUPPORT_WINDOW, .left = 5, .right = 5};
}
static void lengths(scene *s) {
    s->supports[s->problem.support_count++] = (ota_support){
        .kind = OTA_SUPPORT_LENGTHS, .array = ota_array_of(s->lengths, OTA_I64, 1, 1, 1, 1)};
}
static void alibi(scene *s) {
    s->terms[s->problem.term_count++] = (ota_term){.kind = OTA_TERM_ALIBI, .value = 0.5};
}
static void softcap(scene *s) {
    s->terms[s->problem.term_count++] = (ota_term){.kind = OTA_TERM_SOFTCAP, .value = 3.0};
}
static void dense(scene *s) {
    s->terms[s->problem.term_count++] =
        (ota_term){.kind = OTA_TERM_DENSE, .array = ota_array_of(s->bias, OTA_F64, 1, 1, N, M)};
}
static void sink(scene *s) {
    s->terms[s->problem.term_count++] = (ota_term){.kind = OTA_TERM_SINK, .value = 0.1};
}
static void hot(scene *s) { s->problem.temperature = 1.0e35; }
static void warm(scene *s) { s->problem.temperature = 2.0; }
static void halved(scene *s) { s->problem.scale = 0.5; }

/* A plan of `first`, changed by `before`, goes on with `then`, changed by `after`; refused for `field`, NULL: taken. */
static const struct {
    const char *first, *then, *solver;
    bool narrow;
    void (*before)(scene *s), (*after)(scene *s);
    const char *field;
} table[] = {
    {"softmax/exact", "softmax/exact", "", false, NULL, causal, "supports"},
    {"softmax/exact", "softmax/exact", "", false, NULL, lengths, "supports"},
    {"softmax", "softmax", "", false, window, NULL, "supports"},
    {"softmax", "softmax", "", false, window, causal, "supports"},
    {"softmax", "softmax", "", false, window, window, NULL},
    {"softmax", "softmax", "", false, alibi, softcap, "terms"},
    {"softmax", "softmax", "", false, dense, alibi, "terms"},
    {"softmax", "softmax", "", false, NULL, sink, "terms"},
    {"entmax:1.5", "entmax:1.3", "", false, dense, dense, NULL},
    {"entmax:1.5", "entmax:0.5", "", false, NULL, NULL, "order"},
    {"entmax:0.5", "entmax:1.5", "", false, NULL, NULL, "order"},
    {"entmax:0.5", "entmax:0.7", "", false, NULL, NULL, NULL},
    {"softmax/elastic:1,4", "softmax/elastic:0.3,4", "", false, NULL, NULL, "lambda"},
    {"softmax/elastic:0.3,4", "softmax/elastic:1,4", "", false, NULL, NULL, "lambda"},
    {"softmax/elastic:0.3,4", "softmax/elastic:0,4", "", false, NULL, NULL, "lambda"},
    {"softmax/elastic:0.3,4", "softmax/elastic:0.6,4", "", false, NULL, NULL, NULL},
    {"hard/bounded:0,2", "hard/bounded:1,2", "transport", false, NULL, NULL, "lower"},
    {"hard/bounded:0,2", "hard/bounded:1,2", "", false, NULL, NULL, "lower"},
    {"hard/bounded:0.5,2", "hard/bounded:0.8,2", "", false, NULL, NULL, NULL},
    {"softmax/capped:2", "softmax/capped:3", "", false, NULL, warm, NULL},
    {"softmax/exact", "softmax/exact", "", true, NULL, hot, "temperature"},
    {"softmax/exact", "softmax/exact", "", false, NULL, hot, NULL},
    {"hard/exact", "hard/exact", "", true, NULL, halved, "scale"},
    {"hard/exact", "hard/exact", "", false, NULL, halved, NULL},
};
enum { ROWS = (int)(sizeof table / sizeof table[0]) };

static ota_plan *make(scene *s) {
    ota_plan *plan = NULL;
    if (ota_plan_create(&plan, &s->problem, 0, &s->options, &s->error) != OTA_OK)
        fail_msg("no plan: %s", s->error.message);
    return plan;
}

static void solve(ota_plan *plan, scene *s, double *coupling) {
    assert_true(ota_forward(plan, &s->arrays, NULL, &s->error) >= OTA_OK);
    memcpy(coupling, s->coupling, sizeof s->coupling);
}

static void plans_go_on_where_their_choices_hold(void **state) {
    (void)state;
    for (int k = 0; k < ROWS; k++) {
        scene first, then;
        double kept[N * M], found[N * M], wanted[N * M];
        draw(&first, table[k].first, table[k].narrow);
        draw(&then, table[k].then, table[k].narrow);
        if (table[k].before != NULL) table[k].before(&first);
        if (table[k].after != NULL) table[k].after(&then);
        first.options.solver = then.options.solver = table[k].solver;
        ota_plan *plan = make(&first), *fresh = NULL;
        solve(plan, &first, kept);
        /* Another backend works on f32 as it does on f64. */
        const char *field = table[k].narrow && on_other_backend() ? NULL : table[k].field;
        const ota_status status = ota_plan_rebind(plan, &then.problem, &then.error);
        if (status != (field == NULL ? OTA_OK : OTA_EINVAL) ||
            (field != NULL && strcmp(then.error.field, field) != 0))
            fail_msg("row %d, %s to %s: status %d, field '%s'", k, table[k].first, table[k].then,
                     (int)status, then.error.field);
        if (status == OTA_OK) {
            solve(plan, &then, found);
            fresh = make(&then);
            solve(fresh, &then, wanted);
            assert_memory_equal(found, wanted, sizeof wanted);
        } else {
            solve(plan, &first, found);
            assert_memory_equal(found, kept, sizeof kept);
        }
        ota_plan_free(plan);
        ota_plan_free(fresh);
    }
}

TEST_FILE(test_rebind) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(plans_go_on_where_their_choices_hold)};
    return cmocka_run_group_tests_name("rebind", tests, NULL, NULL);
}
