/* test_decode_refusals.c: what a step of decoding refuses and what decoding capacities are: status, field and reason. A step that
 * is refused leaves outputs and the plan as they were. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <string.h>

#include "draw/random.h"
#include "groups.h"
#include "otattn.h"

static dice dice_state;

enum { BATCH = 2, HEADS = 2, N = 2, M = 6, WIDTH = 3, ALL = BATCH * HEADS };

typedef struct bench {
    double q[ALL * N * WIDTH], k[ALL * M * WIDTH], v[ALL * M * WIDTH], out[ALL * N * WIDTH];
    double relative[N + M - 1], remaining[ALL * M], nu[ALL * M];
    ota_problem problem;
    ota_options options;
    ota_arrays arrays, *given;
    ota_term term;
    ota_plan *plan;
    ota_error error;
    int64_t keys;
} bench;

static bench *start(const char *method) {
    static bench room;
    bench *t = &room;
    memset(t, 0, sizeof *t);
    dice_state = 3;
    for (int k = 0; k < ALL * N * WIDTH; k++) t->q[k] = normal(&dice_state);
    for (int k = 0; k < ALL * M * WIDTH; k++) {
        t->k[k] = normal(&dice_state);
        t->v[k] = normal(&dice_state);
    }
    for (int k = 0; k < ALL * M; k++) {
        t->remaining[k] = 1.0;
        t->nu[k] = 0.5 + 0.1 * k;
    }
    for (int k = 0; k < N + M - 1; k++) t->relative[k] = normal(&dice_state);
    t->problem.size = sizeof t->problem;
    t->options = (ota_options){.size = sizeof t->options, .threads = 1};
    assert_int_equal(ota_method_parse(method, &t->problem, &t->options, &t->error), OTA_OK);
    t->problem.queries = ota_array_of(t->q, OTA_F64, BATCH, HEADS, N, WIDTH);
    t->problem.keys = ota_array_of(t->k, OTA_F64, BATCH, HEADS, M, WIDTH);
    t->arrays.size = sizeof t->arrays;
    t->arrays.values = ota_array_of(t->v, OTA_F64, BATCH, HEADS, M, WIDTH);
    t->arrays.out = ota_array_of(t->out, OTA_F64, BATCH, HEADS, N, WIDTH);
    if (t->problem.columns == OTA_COLUMNS_ONLINE)
        t->arrays.remaining = ota_array_of(t->remaining, OTA_F64, BATCH, HEADS, 1, M);
    t->given = &t->arrays;
    t->keys = M;
    return t;
}

static void nothing(bench *t) { (void)t; }
static void no_arrays(bench *t) { t->given = NULL; }
static void no_remaining(bench *t) { t->arrays.remaining = (ota_array){0}; }
static void some_keys(bench *t) { t->keys = M - 2; }
static void fewer_than_queries(bench *t) { t->keys = N - 1; }
static void more_than_keys(bench *t) { t->keys = M + 1; }
static void columns_axis(bench *t) { t->problem.axis = OTA_AXIS_COLUMNS; }
static void with_term(bench *t, ota_term_kind kind) {
    t->term =
        (ota_term){.kind = kind, .array = ota_array_of(t->relative, OTA_F64, 1, 1, 1, N + M - 1)};
    t->problem.terms = &t->term;
    t->problem.term_count = 1;
}
static void relative_bias(bench *t) { with_term(t, OTA_TERM_RELATIVE); }
static void relative_inside(bench *t) { with_term(t, OTA_TERM_RELATIVE_INSIDE); }
static void alibi(bench *t) {
    t->term = (ota_term){.kind = OTA_TERM_ALIBI, .value = 0.5};
    t->problem.terms = &t->term;
    t->problem.term_count = 1;
}

typedef struct refusal {
    const char *method;
    void (*spoil)(bench *t);
    ota_status status;
    const char *field, *words;
} refusal;

static const refusal refusals[] = {
    {"softmax", nothing, OTA_OK, "", ""},
    {"softmax", some_keys, OTA_OK, "", ""},
    {"softmax", alibi, OTA_OK, "", ""},
    {"softmax/online:2", nothing, OTA_OK, "", ""},
    {"softmax/exact", nothing, OTA_UNSUPPORTED, "columns", "cannot be decoded step by step"},
    {"softmax/prefix", nothing, OTA_UNSUPPORTED, "columns", "cannot be decoded step by step"},
    {"softmax", columns_axis, OTA_UNSUPPORTED, "axis", "every key looks at all queries"},
    {"softmax", relative_bias, OTA_UNSUPPORTED, "terms", "a relative bias has no meaning"},
    {"softmax", relative_inside, OTA_UNSUPPORTED, "terms", "a relative bias has no meaning"},
    {"softmax", fewer_than_queries, OTA_EINVAL, "key_count", "key_count is 1, wanted 2 to 6"},
    {"softmax", more_than_keys, OTA_EINVAL, "key_count", "key_count is 7, wanted 2 to 6"},
    {"softmax/online:2", no_remaining, OTA_EINVAL, "remaining", "needs arrays.remaining"},
    {"softmax/online:2", no_arrays, OTA_EINVAL, "remaining", "needs arrays.remaining"},
    {"softmax", no_arrays, OTA_EINVAL, "arrays.size", "arrays is NULL"},
};

static void steps_are_refused(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof refusals / sizeof refusals[0]; k++) {
        const refusal *r = &refusals[k];
        bench *t = start(r->method);
        r->spoil(t);
        assert_int_equal(ota_plan_create(&t->plan, &t->problem, WIDTH, &t->options, &t->error),
                         OTA_OK);
        double whole[ALL * N * WIDTH], after[ALL * N * WIDTH];
        ota_arrays all = t->arrays;
        all.remaining = (ota_array){0};
        assert_true(ota_forward(t->plan, &all, NULL, &t->error) >= OTA_OK);
        memcpy(whole, t->out, sizeof whole);
        memset(&t->error, 0, sizeof t->error);
        const ota_status status = ota_decode(t->plan, t->given, t->keys, NULL, &t->error);
        if (status != r->status || strcmp(t->error.field, r->field) != 0 ||
            strstr(t->error.message, r->words) == NULL)
            fail_msg("%s: status %d, field '%s', '%s'; wanted '%s'", r->method, (int)status,
                     t->error.field, t->error.message, r->words);
        if (r->status != OTA_OK) assert_memory_equal(whole, t->out, sizeof whole);
        /* The plan is again one of all its keys. */
        memset(t->out, 0, sizeof t->out);
        assert_true(ota_forward(t->plan, &all, NULL, &t->error) >= OTA_OK);
        memcpy(after, t->out, sizeof after);
        assert_memory_equal(whole, after, sizeof whole);
        ota_plan_free(t->plan);
    }
}

/* ---- capacities ---------------------------------------------------------------------------------- */

typedef struct range {
    int64_t first, last;
    void (*spoil)(ota_array *remaining);
    const char *field; /* NULL: fine */
} range;

static void sound(ota_array *a) { (void)a; }
static void narrow(ota_array *a) { a->type = OTA_F32; }
static void other_batch(ota_array *a) { a->size[0]--; }
static void other_heads(ota_array *a) { a->size[1]--; }
static void other_keys(ota_array *a) { a->size[3]--; }

static void more_rows(ota_array *a) { a->size[2] = 2; }
static void no_data(ota_array *a) { a->data = NULL; }

static const range ranges[] = {
    {0, M, sound, NULL},
    {2, 2, sound, NULL},
    {1, 4, sound, NULL},
    {-1, 2, sound, "remaining"},
    {3, M + 1, sound, "remaining"},
    {4, 3, sound, "remaining"},
    {0, M, narrow, "remaining"},
    {0, M, other_batch, "remaining"},
    {0, M, other_heads, "remaining"},
    {0, M, other_keys, "remaining"},
    {0, M, more_rows, "remaining"},
    {0, M, no_data, "remaining"},
};

/* cap times the key's mass, in the range alone. */
static void capacities_are_those_of_the_rule(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof ranges / sizeof ranges[0] * 2; k++) {
        const range *r = &ranges[k / 2];
        const bool given = k % 2 == 1;
        bench *t = start("softmax/online:2");
        if (given) t->problem.column_mass = ota_array_of(t->nu, OTA_F64, BATCH, HEADS, 1, M);
        assert_int_equal(ota_plan_create(&t->plan, &t->problem, WIDTH, &t->options, &t->error),
                         OTA_OK);
        memset(&t->error, 0, sizeof t->error);
        for (int j = 0; j < ALL * M; j++) t->remaining[j] = -7.0;
        ota_array remaining = t->arrays.remaining;
        r->spoil(&remaining);
        const ota_status status =
            ota_decode_capacity(t->plan, &remaining, r->first, r->last, &t->error);
        assert_int_equal(status, r->field == NULL ? OTA_OK : OTA_EINVAL);
        assert_string_equal(t->error.field, r->field == NULL ? "" : r->field);
        for (int j = 0; j < ALL * M; j++) {
            const bool inside = r->field == NULL && j % M >= r->first && j % M < r->last;
            const double wanted = !inside ? -7.0 : given ? 2.0 * t->nu[j] : 2.0;
            assert_true(t->remaining[j] >= wanted && t->remaining[j] <= wanted);
        }
        ota_plan_free(t->plan);
    }
    bench *t = start("softmax/online:2");
    assert_int_equal(ota_decode_capacity(NULL, &t->arrays.remaining, 0, M, &t->error), OTA_EINVAL);
    assert_string_equal(t->error.message, "plan is NULL");
    assert_int_equal(ota_plan_create(&t->plan, &t->problem, WIDTH, &t->options, &t->error), OTA_OK);
    assert_int_equal(ota_decode_capacity(t->plan, NULL, 0, M, &t->error), OTA_EINVAL);
    assert_string_equal(t->error.message, "remaining is not f64");
    ota_plan_free(t->plan);
    t = start("softmax");
    assert_int_equal(ota_plan_create(&t->plan, &t->problem, WIDTH, &t->options, &t->error), OTA_OK);
    assert_int_equal(ota_decode_capacity(t->plan, &t->arrays.remaining, 0, M, &t->error),
                     OTA_EINVAL);
    ota_plan_free(t->plan);
}

TEST_FILE(test_decode_refusals) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(steps_are_refused),
                                       cmocka_unit_test(capacities_are_those_of_the_rule)};
    return cmocka_run_group_tests_name("decode_refusals", tests, NULL, NULL);
}
