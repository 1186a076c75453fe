/* test_plan_scores.c: ota_plan_scores against the definition of ota_problem written down here: grouped heads, every term, masks,
 * corners, a cache that grows, a matrix; and what it refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "draw/random.h"
#include "groups.h"
#include "otattn.h"

enum { BATCH = 2, HEADS = 4, GROUPS = 2, N = 21, M = 37, WIDTH = 5 };

typedef struct scene {
    double q[BATCH * HEADS * N * WIDTH], k[BATCH * GROUPS * M * WIDTH];
    double dense[N * M], relative[N + M - 1], slopes[HEADS], matrix[N * M];
    int64_t lengths[BATCH];
    ota_term terms[4];
    ota_support supports[3];
    ota_problem problem;
} scene;

static void draw_scene(scene *s, dice *d) {
    memset(s, 0, sizeof *s);
    for (int k = 0; k < BATCH * HEADS * N * WIDTH; k++) s->q[k] = normal(d);
    for (int k = 0; k < BATCH * GROUPS * M * WIDTH; k++) s->k[k] = normal(d);
    for (int k = 0; k < N * M; k++) s->dense[k] = normal(d);
    for (int k = 0; k < N * M; k++) s->matrix[k] = normal(d);
    for (int k = 0; k < N + M - 1; k++) s->relative[k] = normal(d);
    for (int k = 0; k < HEADS; k++) s->slopes[k] = uniform(d);
    for (int k = 0; k < BATCH; k++) s->lengths[k] = between(d, 1, M);
    s->terms[0] = (ota_term){.kind = OTA_TERM_SOFTCAP, .value = 1 + 2 * uniform(d)};
    s->terms[1] =
        (ota_term){.kind = OTA_TERM_DENSE, .array = ota_array_of(s->dense, OTA_F64, 1, 1, N, M)};
    s->terms[2] = (ota_term){.kind = OTA_TERM_ALIBI,
                             .array = ota_array_of(s->slopes, OTA_F64, 1, 1, 1, HEADS)};
    s->supports[0] = (ota_support){.kind = OTA_SUPPORT_CAUSAL};
    s->supports[1] = (ota_support){
        .kind = OTA_SUPPORT_WINDOW, .left = between(d, 3, M), .right = between(d, 0, 5)};
    s->supports[2] = (ota_support){.kind = OTA_SUPPORT_LENGTHS,
                                   .array = ota_array_of(s->lengths, OTA_I64, 1, 1, 1, BATCH)};
    s->problem = (ota_problem){.size = sizeof s->problem,
                               .queries = ota_array_of(s->q, OTA_F64, BATCH, HEADS, N, WIDTH),
                               .keys = ota_array_of(s->k, OTA_F64, BATCH, GROUPS, M, WIDTH),
                               .scale = 0.5 + uniform(d),
                               .temperature = 0.7,
                               .terms = s->terms,
                               .term_count = 3,
                               .supports = s->supports,
                               .support_count = 3,
                               .corner = OTA_BOTTOM_RIGHT};
}

/* S of one pair, -inf where it is forbidden; queries end at key `last`. */
static double score(const scene *s, int b, int h, int i, int j, int last) {
    const int at = i + last - N;
    const int64_t left = s->supports[1].left, right = s->supports[1].right;
    double sum = 0;
    for (int c = 0; c < WIDTH; c++)
        sum += s->q[((b * HEADS + h) * N + i) * WIDTH + c] *
               s->k[((b * GROUPS + h / (HEADS / GROUPS)) * M + j) * WIDTH + c];
    const double cap = s->terms[0].value;
    if (j > at || j < at - left || j > at + right || j >= s->lengths[b] || j >= last)
        return -INFINITY;
    return cap * tanh(s->problem.scale * sum / cap) - s->slopes[h] * fabs((double)(at - j)) +
           s->dense[i * M + j];
}

static ota_plan *plan_of(const ota_problem *problem, int threads) {
    ota_plan *plan;
    ota_error error = {0};
    const ota_options options = {.size = sizeof options, .threads = threads};
    if (ota_plan_create(&plan, problem, 0, &options, &error) != OTA_OK)
        fail_msg("%s", error.message);
    return plan;
}

static void compare(double ours, double wanted, double slack) {
    if (isinf(wanted)) {
        assert_true(ours == wanted);
    } else if (!(fabs(ours - wanted) <= slack)) {
        fail_msg("%g is not %g", ours, wanted);
    }
}

static void test_rows_of_scores(void **state) {
    (void)state;
    scene s;
    dice d = 11;
    double rows[N * M];
    float narrow[N * M];
    for (int round = 0; round < 20; round++) {
        draw_scene(&s, &d);
        ota_plan *plan = plan_of(&s.problem, 1 + round % 3);
        const int b = (int)below(&d, BATCH), h = (int)below(&d, HEADS);
        const int first = (int)below(&d, N), count = (int)between(&d, 0, N - first);
        const int last = round % 4 == 3 ? (int)between(&d, N, M) : 0;
        const ota_array wide = ota_array_of(rows, OTA_F64, 1, 1, count, M);
        const ota_array out = ota_array_of(narrow, OTA_F32, 1, 1, count, M);
        assert_int_equal(ota_plan_scores(plan, b, h, first, last, &wide, NULL), OTA_OK);
        assert_int_equal(ota_plan_scores(plan, b, h, first, last, &out, NULL), OTA_OK);
        for (int i = 0; i < count; i++)
            for (int j = 0; j < M; j++) {
                const double wanted = score(&s, b, h, first + i, j, last > 0 ? last : M);
                compare(rows[i * M + j], wanted, 64 * 0x1p-53 * 16);
                compare((double)narrow[i * M + j], wanted, 0x1p-24 * 16);
            }
        ota_plan_free(plan);
    }
}

/* Where keys end or none is seen every score is one of a mask. */
static void test_rows_without_keys(void **state) {
    (void)state;
    scene s;
    dice d = 12;
    double rows[N * M];
    draw_scene(&s, &d);
    s.problem.corner = OTA_TOP_LEFT;
    s.supports[1] = (ota_support){.kind = OTA_SUPPORT_WINDOW, .left = 0, .right = 0};
    s.lengths[0] = 3;
    ota_plan *plan = plan_of(&s.problem, 2);
    const ota_array out = ota_array_of(rows, OTA_F64, 1, 1, N, M);
    assert_int_equal(ota_plan_scores(plan, 0, 0, 0, 0, &out, NULL), OTA_OK);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < M; j++) assert_int_equal(isinf(rows[i * M + j]) != 0, j != i || i >= 3);
    ota_plan_free(plan);
}

static void test_matrices(void **state) {
    (void)state;
    scene s;
    dice d = 13;
    double rows[N * M];
    draw_scene(&s, &d);
    ota_problem problem = {.size = sizeof problem,
                           .scores = ota_array_of(s.matrix, OTA_F64, 1, 1, N, M),
                           .scale = 2,
                           .cost = 1};
    ota_plan *plan = plan_of(&problem, 1);
    const ota_array out = ota_array_of(rows, OTA_F64, 1, 1, N - 4, M);
    assert_int_equal(ota_plan_scores(plan, 0, 0, 4, 0, &out, NULL), OTA_OK);
    for (int k = 0; k < (N - 4) * M; k++) assert_true(rows[k] == -2 * s.matrix[4 * M + k]);
    ota_plan_free(plan);
}

static void refuse(const ota_plan *plan, const int64_t at[4], const ota_array *scores,
                   ota_status wanted, const char *field) {
    ota_error error = {0};
    assert_int_equal(ota_plan_scores(plan, at[0], at[1], at[2], at[3], scores, &error), wanted);
    assert_string_equal(error.field, field);
}

static void test_refusals(void **state) {
    (void)state;
    scene s;
    dice d = 14;
    double rows[N * M];
    int64_t whole[M];
    draw_scene(&s, &d);
    ota_plan *plan = plan_of(&s.problem, 1);
    const ota_array out = ota_array_of(rows, OTA_F64, 1, 1, 2, M);
    const ota_array narrow = ota_array_of(rows, OTA_F64, 1, 1, 2, M - 1),
                    heads = ota_array_of(rows, OTA_F64, 1, 2, 2, M),
                    integers = ota_array_of(whole, OTA_I64, 1, 1, 1, M);
    refuse(NULL, (int64_t[]){0, 0, 0, 0}, &out, OTA_EINVAL, "plan");
    refuse(plan, (int64_t[]){0, 0, 0, 0}, NULL, OTA_EINVAL, "scores");
    refuse(plan, (int64_t[]){BATCH, 0, 0, 0}, &out, OTA_EINVAL, "batch");
    refuse(plan, (int64_t[]){0, -1, 0, 0}, &out, OTA_EINVAL, "head");
    refuse(plan, (int64_t[]){0, 0, N - 1, 0}, &out, OTA_EINVAL, "scores");
    refuse(plan, (int64_t[]){0, 0, -1, 0}, &out, OTA_EINVAL, "scores");
    refuse(plan, (int64_t[]){0, 0, 0, 0}, &narrow, OTA_EINVAL, "scores");
    refuse(plan, (int64_t[]){0, 0, 0, 0}, &heads, OTA_EINVAL, "scores");
    refuse(plan, (int64_t[]){0, 0, 0, 0}, &integers, OTA_EINVAL, "scores");
    refuse(plan, (int64_t[]){0, 0, 0, N - 1}, &out, OTA_EINVAL, "key_count");
    refuse(plan, (int64_t[]){0, 0, 0, M + 1}, &out, OTA_EINVAL, "key_count");
    ota_plan_free(plan);
    const int flag = 1;
    const ota_options options = {.size = sizeof options, .cancel = &flag};
    assert_int_equal(ota_plan_create(&plan, &s.problem, 0, &options, NULL), OTA_OK);
    ota_error error = {0};
    assert_int_equal(ota_plan_scores(plan, 0, 0, 0, 0, &out, &error), OTA_CANCELLED);
    ota_plan_free(plan);
}

TEST_FILE(test_plan_scores) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_of_scores),
        cmocka_unit_test(test_rows_without_keys),
        cmocka_unit_test(test_matrices),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
