/* test_dropout.c: D_ij is the generator of otattn.h, whatever the path, threads and kernels; outputs against
 * the reference, gradients against differences of forward, everything else as without dropout. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "backend_wrap.h"
#include "backward_support.h"
#include "judge/judge_scores.h"
#include "groups.h"

static const char *const methods[] = {"softmax",
                                      "sparsemax",
                                      "softmax/exact",
                                      "softmax/relaxed:0.7",
                                      "softmax/capped:2",
                                      "softmax/elastic:0.4,3",
                                      "softmax/prefix",
                                      "softmax/online:2",
                                      "entmax:1.5/capped:2"};
enum { METHODS = sizeof methods / sizeof methods[0] };

/* Published words of Philox 4x32-10 for counters and keys of zeros, of ones, and of digits of pi. */
static void test_generator(void **state) {
    (void)state;
    const struct {
        uint64_t key, low;
        int64_t third, fourth;
        uint32_t words[2];
    } known[] = {{0, 0, 0, 0, {0x6627e8d5u, 0xe169c58du}},
                 {UINT64_MAX, UINT64_MAX, 0xffffffff, 0xffffffff, {0x408f276du, 0x41c83b0eu}},
                 {0x299f31d0a4093822u,
                  0x85a308d3243f6a88u,
                  0x13198a2e,
                  0x03707344,
                  {0xd16cfe09u, 0x94fdccebu}}};
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
        ota_resolved r = {.problem = {.dropout = 0.5,
                                      .dropout_seed = known[k].key,
                                      .dropout_offset = known[k].low}};
        uint32_t key[2];
        ota_dropout_head(&r, known[k].third, known[k].fourth, key);
        assert_int_equal(key[0], known[k].words[0]);
        assert_int_equal(key[1], known[k].words[1]);
    }
}

/* Any piece of a row says what the judge says of its pairs. */
static void test_pieces(void **state) {
    (void)state;
    ota_resolved r = {.problem = {.dropout = 0.3, .dropout_seed = 77, .dropout_offset = 5}};
    dice d = 9;
    int64_t dropped = 0, pairs = 0;
    for (int k = 0; k < 300; k++) {
        enum { MOST = 300 };
        float narrow[MOST];
        double wide[MOST], listed[MOST];
        int32_t keys[MOST];
        const int64_t b = below(&d, 3), h = below(&d, 5), i = below(&d, 2000);
        const int64_t from = below(&d, 700), count = below(&d, MOST) + 1;
        for (int64_t j = 0; j < count; j++) narrow[j] = 1.0f, wide[j] = 1.0;
        uint32_t key[2];
        ota_dropout_head(&r, b, h, key);
        ota_dropout_row_f32(&r, key, i, from, NULL, count, narrow);
        ota_dropout_row_f64(&r, key, i, from, NULL, count, wide);
        int64_t some = 0;
        for (int64_t j = below(&d, 9); j < count; j += 1 + below(&d, 90)) {
            listed[some] = 3.0;
            keys[some++] = (int32_t)j;
        }
        ota_dropout_row_f64(&r, key, i, from, keys, some, listed);
        for (int64_t e = 0; e < some; e++)
            assert_true(!(listed[e] < 3.0 * wide[keys[e]]) && !(listed[e] > 3.0 * wide[keys[e]]));
        for (int64_t j = 0; j < count; j++) {
            const double expected = ota_judge_dropout(&r, b, h, i, from + j);
            assert_true(!(wide[j] < expected) && !(wide[j] > expected));
            assert_true(!(narrow[j] < (float)expected) && !(narrow[j] > (float)expected));
            dropped += !(expected > 0.0);
            pairs++;
        }
    }
    const double share = (double)dropped / (double)pairs;
    const double deviation = sqrt(0.3 * 0.7 / (double)pairs);
    assert_true(fabs(share - 0.3) < 5.0 * deviation);
}

static recipe recipe_of(int method, uint64_t seed, ota_type type) {
    return (recipe){.method = methods[method],
                    .type = type,
                    .out_type = type,
                    .batch = 2,
                    .heads = 2,
                    .key_heads = 1,
                    .n = 9,
                    .m = 9,
                    .width = 3,
                    .values_width = 2,
                    .dense_arrays = true,
                    .tolerance = type == OTA_F64 ? 1e-12 : 1e-7,
                    .temperature = 0.8,
                    .spread = 1.0,
                    .seed = seed};
}

static void set_dropout(drawn *x, double dropout, uint64_t seed) {
    x->problem.dropout = dropout;
    x->problem.dropout_seed = seed;
    x->problem.dropout_offset = 3;
}

static double distance(const ota_array *a, const ota_array *b) {
    double worst = 0.0;
    for (int64_t i = 0; i < a->size[0] * a->size[1]; i++) {
        for (int64_t k = 0; k < a->size[2] * a->size[3]; k++) {
            const int64_t at[4] = {i / a->size[1], i % a->size[1], k / a->size[3], k % a->size[3]};
            const double x = ota_array_get(a, at[0], at[1], at[2], at[3]);
            worst = fmax(worst, fabs(x - ota_array_get(b, at[0], at[1], at[2], at[3])));
        }
    }
    return worst;
}

static void must(ota_status status, const drawn *x) {
    if (status == OTA_OK || status == OTA_FIXED_ITERS) return;
    print_error("%d %s\n", (int)status, x->error.message);
    print_recipe(x);
    fail();
}

/* out against the reference on any threads and kernels; the coupling is the plan without dropout. */
static void test_forward(void **state) {
    (void)state;
    for (int k = 0; k < METHODS; k++) {
        for (int type = OTA_F64; type <= OTA_F32; type++) {
            drawn *x = calloc(1, sizeof *x);
            assert_non_null(x);
            const recipe want = recipe_of(k, 40 + (uint64_t)k, (ota_type)type);
            draw(x, &want);
            double plain[2 * 2 * 9 * 9], first[2 * 2 * 9 * 2];
            const ota_array bare = ota_array_of(plain, OTA_F64, 2, 2, 9, 9);
            const ota_array copy = ota_array_of(first, OTA_F64, 2, 2, 9, 2);
            must(solve(x), x);
            for (int64_t i = 0; i < 4 * 81; i++)
                plain[i] =
                    ota_array_get(&x->arrays.coupling, i / 162, i / 81 % 2, i / 9 % 9, i % 9);
            set_dropout(x, 0.4, 11);
            must(expect(x), x);
            for (int level = 0; ota_kernel_name(level) != NULL; level++) {
                x->options.cpu = ota_kernel_name(level);
                x->options.threads = 1 + 2 * (level % 2);
                must(solve(x), x);
                const double bound = type == OTA_F64 ? 1e-9 : 2e-5;
                const double far = distance(&x->arrays.out, &x->exact.out);
                if (!(far < bound)) {
                    print_error("%s: out is %.3g from the reference\n", want.method, far);
                    print_recipe(x);
                    fail();
                }
                assert_true(distance(&x->arrays.coupling, &bare) < bound);
                for (int64_t i = 0; i < 4 * 18; i++)
                    first[i] = ota_array_get(&x->arrays.out, i / 36, i / 18 % 2, i / 2 % 9, i % 2);
                x->options.threads = 2;
                must(solve(x), x);
                assert_true(!(distance(&x->arrays.out, &copy) > 0.0));
                set_dropout(x, 1.0, 11);
                must(solve(x), x);
                assert_true(distance(&x->arrays.coupling, &bare) < bound);
                for (int64_t i = 0; i < 4 * 18; i++)
                    assert_true(!(fabs(ota_array_get(&x->arrays.out, i / 36, i / 18 % 2, i / 2 % 9,
                                                     i % 2)) > 0.0));
                set_dropout(x, 0.4, 11);
            }
            x->problem.dropout_offset++;
            must(solve(x), x);
            assert_true(distance(&x->arrays.out, &copy) > 1e-3);
            put_away(x);
            free(x);
        }
    }
}

static void test_gradients(void **state) {
    (void)state;
    for (int k = 0; k < METHODS; k++) {
        for (int coupling = 0; coupling < 2; coupling++) {
            bench *t = malloc(sizeof *t);
            assert_non_null(t);
            recipe want = recipe_of(k, 70 + (uint64_t)(2 * k + coupling), OTA_F64);
            want.axis = strncmp(want.method, "softmax/relaxed", 15) == 0 && coupling == 1
                            ? OTA_AXIS_COLUMNS
                            : OTA_AXIS_ROWS;
            set_up(t, &want, OTA_F64, coupling == 1);
            set_dropout(&t->x, 0.35, 5);
            must(make_plan(t), &t->x);
            must(run_forward(t), &t->x);
            must(run_backward(t), &t->x);
            double slope = 0.0, difference = 0.0;
            const double ratio = check_together(t, &slope, &difference);
            if (ratio > 1.0) {
                print_error("%s: gradient %.12g, difference %.12g\n", want.method, slope,
                            difference);
                fail();
            }
            tear_down(t);
            free(t);
        }
    }
}

/* Only queries, keys and values are asked for: what recomputing tiles, which know no dropout, could give. */
static void ask_for_inputs_only(bench *t) {
    int kept = 0;
    for (int k = 0; k < t->count; k++) {
        const ota_array *input = t->knobs[k].input;
        if (input == &t->x.problem.queries || input == &t->x.problem.keys ||
            input == &t->x.arrays.values) {
            t->knobs[kept++] = t->knobs[k];
        }
    }
    assert_int_equal(kept, 3);
    t->count = kept;
    t->want = (ota_gradients){.size = sizeof t->want,
                              .out_grad = t->want.out_grad,
                              .queries = t->want.queries,
                              .keys = t->want.keys,
                              .values = t->want.values};
}

static void test_gradients_of_inputs_alone(void **state) {
    (void)state;
    for (int k = 0; k < METHODS; k++) {
        bench *t = malloc(sizeof *t);
        assert_non_null(t);
        const recipe want = recipe_of(k, 190 + (uint64_t)k, OTA_F64);
        set_up(t, &want, OTA_F64, false);
        ask_for_inputs_only(t);
        set_dropout(&t->x, 0.35, 5);
        must(make_plan(t), &t->x);
        must(run_forward(t), &t->x);
        must(run_backward(t), &t->x);
        double slope = 0.0, difference = 0.0;
        const double ratio = check_together(t, &slope, &difference);
        if (ratio > 1.0) {
            print_error("%s: gradient %.12g, difference %.12g\n", want.method, slope, difference);
            fail();
        }
        tear_down(t);
        free(t);
    }
}

static void test_door(void **state) {
    (void)state;
    bench *t = malloc(sizeof *t);
    assert_non_null(t);
    const recipe want = recipe_of(0, 7, OTA_F64);
    set_up(t, &want, OTA_F64, false);
    set_dropout(&t->x, 1.5, 1);
    assert_int_equal(make_plan(t), OTA_EINVAL);
    assert_string_equal(t->x.error.field, "dropout");
    set_dropout(&t->x, -0.1, 1);
    assert_int_equal(make_plan(t), OTA_EINVAL);
    set_dropout(&t->x, 0.5, 1);
    must(make_plan(t), &t->x);
    char text[2048];
    (void)ota_plan_describe(t->plan, text, sizeof text);
    assert_non_null(strstr(text, "dropout: 0.5, seed 1, offset 3"));
    assert_true(on_other_backend() || strstr(text, "path: row blocks") != NULL);
    set_dropout(&t->x, 0.0, 1);
    assert_int_equal(ota_plan_rebind(t->plan, &t->x.problem, &t->x.error), OTA_EINVAL);
    set_dropout(&t->x, 0.25, 2);
    assert_int_equal(ota_plan_rebind(t->plan, &t->x.problem, &t->x.error), OTA_OK);
    must(run_forward(t), &t->x);
    tear_down(t);
    free(t);
}

TEST_FILE(test_dropout) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_generator),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_forward),
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_gradients_of_inputs_alone),
        cmocka_unit_test(test_door),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
