/* Names of heads: patterns built to be one thing score 1 as it and no more than chance as the others, and chance is the mean
 * over rows that look at random. */
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
#include "draw/random.h"
#include "otattn_analysis.h"
#include "spec.h"

enum { HALF = 32, GAP = 9, SECOND = HALF + GAP, N = SECOND + HALF, SCORES = 6 };

/* Ids 0 ... HALF, ids that occur once, and then 1 ... HALF once more in a drawn order: keys of equal ids are never near, nor is one
 * of them the first. */
static void draw_ids(uint64_t *state, int64_t *ids) {
    for (int i = 0; i < SECOND; i++) ids[i] = i;
    for (int i = 0; i < HALF; i++) ids[SECOND + i] = i + 1;
    for (int i = HALF - 1; i > 0; i--) {
        const int other = SECOND + whole(state, 0, i);
        const int64_t kept = ids[SECOND + i];
        ids[SECOND + i] = ids[other];
        ids[other] = kept;
    }
}

static ota_head_scores scores_of(const double *p, const int64_t *ids, const double *norms) {
    const ota_head_view view = {.size = sizeof view,
                                .weights = p,
                                .type = OTA_F64,
                                .tokens = N,
                                .ids = ids,
                                .causal = 1,
                                .value_norms = norms};
    ota_head_scores scores;
    assert_int_equal(ota_head_scores_of(&view, &scores, NULL, NULL), OTA_OK);
    return scores;
}

static void put_in_order(const ota_head_scores *s, double out[SCORES]) {
    const double values[SCORES] = {s->previous_token, s->duplicate_token, s->induction,
                                   s->positional,     s->local,           s->sink};
    memcpy(out, values, sizeof values);
}

/* Row i on key `key`; without one, spread over all that it sees. */
static void put_row(double *p, int i, int key) {
    for (int j = 0; j < N; j++) p[i * N + j] = key >= 0 ? j == key : j <= i ? 1.0 / (i + 1) : 0.0;
}

static void constructed_heads_score_1(void **unused) {
    (void)unused;
    enum { PREVIOUS, DUPLICATE, INDUCTION, SINK, BUILT };
    uint64_t state = 5;
    static double p[N * N];
    int64_t ids[N];
    for (int draw = 0; draw < 20; draw++) {
        draw_ids(&state, ids);
        double chance[SCORES], got[SCORES];
        const ota_head_scores even = scores_of(NULL, ids, NULL);
        put_in_order(&even, chance);
        for (int built = 0; built < BUILT; built++) {
            for (int i = 0; i < N; i++) {
                const int first = i < SECOND ? -1 : (int)ids[i];
                put_row(p, i,
                        built == PREVIOUS    ? i - 1
                        : built == SINK      ? 0
                        : first < 0          ? -1
                        : built == DUPLICATE ? first
                                             : first + 1);
            }
            const ota_head_scores s = scores_of(p, ids, NULL);
            static const int own[BUILT] = {0, 1, 2, 5};
            put_in_order(&s, got);
            spec_check("", fabs(got[own[built]] - 1.0), 0.0);
            for (int k = 0; k < SCORES; k++) {
                if (k == own[built]) continue;
                /* The previous token is near, and at one offset alone. */
                if (built == PREVIOUS && (k == 3 || k == 4))
                    spec_check("", fabs(got[k] - 1.0), 0.0);
                else if (k != 3 && k != 5)
                    spec_check("", got[k], chance[k] + 1e-15);
                else
                    spec_check("", got[k], 0.25);
            }
            assert_true(s.rows == N && isnan(s.nop_sink) && isnan(s.value_ratio));
            assert_true(s.duplicate_rows == HALF && s.induction_rows == HALF);
            if (built == PREVIOUS) assert_true(s.offset == 1 && s.distance > 0.9);
            if (built == SINK) assert_true(s.sink_key == 0);
        }
    }
}

/* A row of two halves at two offsets depends on the offset alone; over eight keys it is local. */
static void positional_and_local(void **unused) {
    (void)unused;
    static double p[N * N];
    uint64_t state = 6;
    int64_t ids[N];
    draw_ids(&state, ids);
    memset(p, 0, sizeof p);
    for (int i = 0; i < N; i++) p[i * N + i] += 0.5, p[i * N + (i > 0 ? i - 1 : 0)] += 0.5;
    ota_head_scores s = scores_of(p, ids, NULL);
    spec_check("", fabs(s.positional - 1.0), 1e-13);
    assert_true(s.previous_token == 0.5 && s.local == 1.0);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            p[i * N + j] = j <= i && i - j < 8 ? 1.0 / (i < 8 ? i + 1 : 8) : 0.0;
    s = scores_of(p, ids, NULL);
    spec_check("", fabs(s.local - 1.0), 1e-15);
    assert_true(s.positional > 0.8 && fabs(s.previous_token - 0.125) < 0.05);
    /* All equal: nothing is there to explain. */
    for (int k = 0; k < N * N; k++) p[k] = 1.0 / N;
    const ota_head_view both = {
        .size = sizeof both, .weights = p, .type = OTA_F64, .tokens = N, .ids = ids};
    assert_int_equal(ota_head_scores_of(&both, &s, NULL, NULL), OTA_OK);
    assert_true(isnan(s.positional) && fabs(s.sink - 1.0 / N) < 1e-15);
}

static void sinks_by_their_values(void **unused) {
    (void)unused;
    static double p[N * N];
    uint64_t state = 7;
    int64_t ids[N];
    double norms[N];
    draw_ids(&state, ids);
    /* Three quarters at key 2, where it is seen. */
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            p[i * N + j] = j > i ? 0.0 : i > 2 && j == 2 ? 0.75 : i > 2 ? 0.25 / i : 1.0 / (i + 1);
    static const double ratios[] = {0.0, 0.25, 1.0, 7.0};
    for (int k = 0; k < 4; k++) {
        for (int j = 0; j < N; j++) norms[j] = j == 2 ? 3.0 * ratios[k] : 3.0;
        const ota_head_scores s = scores_of(p, ids, norms);
        spec_check("", fabs(s.sink - 0.75), 1e-14);
        assert_true(s.sink_key == 2 && s.value_ratio == ratios[k]);
        spec_check("", fabs(s.broadcast_sink - s.sink * fmin(1.0, ratios[k])), 1e-15);
        spec_check("", fabs(s.nop_sink + s.broadcast_sink - s.sink), 1e-15);
    }
    /* A key that only the last rows see is no sink, whatever it gets. */
    for (int i = 0; i < N; i++) put_row(p, i, i > N - 8 ? N - 8 : -1);
    assert_true(scores_of(p, ids, NULL).sink < 0.2);
}

/* Rows that look at one key that they see, drawn evenly; for positional, weights in drawn order. */
static void chance_is_the_mean_of_random_rows(void **unused) {
    (void)unused;
    enum { DRAWS = 1500 };
    uint64_t state = 8;
    static double p[N * N];
    int64_t ids[N];
    draw_ids(&state, ids);
    double chance[SCORES], sums[SCORES] = {0}, squares[SCORES] = {0};
    const ota_head_scores even = scores_of(NULL, ids, NULL);
    put_in_order(&even, chance);
    for (int draw = 0; draw < DRAWS; draw++) {
        double got[SCORES], other[SCORES];
        for (int i = 0; i < N; i++) put_row(p, i, whole(&state, 0, i));
        ota_head_scores s = scores_of(p, ids, NULL);
        put_in_order(&s, got);
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++) p[i * N + j] = j <= i ? -log(1.0 - uniform(&state)) : 0.0;
        s = scores_of(p, ids, NULL);
        put_in_order(&s, other);
        got[3] = other[3];
        for (int k = 0; k < SCORES; k++) sums[k] += got[k], squares[k] += got[k] * got[k];
    }
    for (int k = 0; k < SCORES - 1; k++) {
        const double mean = sums[k] / DRAWS;
        const double deviation = sqrt((squares[k] / DRAWS - mean * mean) / DRAWS);
        spec_check("", fabs(mean - chance[k]), 5.0 * deviation);
    }
    double harmonic = 0.0;
    for (int i = 1; i < N; i++) harmonic += 1.0 / (i + 1);
    spec_check("", fabs(chance[0] - harmonic / (N - 1)), 1e-15);
    spec_check("", fabs(chance[5] - harmonic / (N - 1)), 1e-15);
    double near = 0.0;
    for (int i = 8; i < N; i++) near += 8.0 / (i + 1);
    spec_check("", fabs(chance[4] - near / (N - 8)), 1e-15);
    spec_check("", fabs(chance[3] - (N - 1.0) / (N * (N + 1.0) / 2.0 - 2.0)), 1e-15);
}

static void heads_are_refused(void **unused) {
    (void)unused;
    static double p[N * N];
    int64_t ids[N] = {0};
    double norms[N] = {0};
    ota_head_scores s;
    ota_error error;
    const ota_head_view good = {
        .size = sizeof good, .weights = p, .type = OTA_F64, .tokens = N, .ids = ids, .causal = 1};
    assert_int_equal(ota_head_scores_of(&good, &s, NULL, &error), OTA_OK);
    assert_true(s.rows == 0 && isnan(s.previous_token) && s.sink_key == -1 && isnan(s.sink));
    ota_head_view bad = good;
    bad.size = 0;
    assert_int_equal(ota_head_scores_of(&bad, &s, NULL, &error), OTA_EINVAL);
    bad = good, bad.tokens = 0;
    assert_int_equal(ota_head_scores_of(&bad, &s, NULL, &error), OTA_EINVAL);
    bad = good, bad.reach = -1;
    assert_int_equal(ota_head_scores_of(&bad, &s, NULL, &error), OTA_EINVAL);
    bad = good, bad.local = -1;
    assert_int_equal(ota_head_scores_of(&bad, &s, NULL, &error), OTA_EINVAL);
    bad = good, bad.ids = NULL;
    assert_int_equal(ota_head_scores_of(&bad, &s, NULL, &error), OTA_EINVAL);
    bad = good, bad.type = OTA_BF16;
    assert_int_equal(ota_head_scores_of(&bad, &s, NULL, &error), OTA_EINVAL);
    bad = good, bad.value_norms = norms, norms[3] = -1.0;
    assert_int_equal(ota_head_scores_of(&bad, &s, NULL, &error), OTA_EINVAL);
    assert_non_null(strstr(error.message, "value_norms[3]"));
    p[2 * N + 1] = NAN;
    assert_int_equal(ota_head_scores_of(&good, &s, NULL, &error), OTA_EINVAL);
    assert_non_null(strstr(error.message, "weights[2, 1]"));
}

static int larger_first(const void *a, const void *b) {
    const double x = fabs(*(const double *)a), y = fabs(*(const double *)b);
    return (x < y) - (x > y);
}

static void outliers_equal_a_sort(void **unused) {
    (void)unused;
    enum { TOKENS = 7, WIDTH = 12, MOST = 90 };
    uint64_t state = 9;
    for (int draw = 0; draw < 300; draw++) {
        const int tokens = whole(&state, 1, TOKENS), width = whole(&state, 1, WIDTH);
        const int entries = tokens * width, most = whole(&state, 1, MOST);
        double h[TOKENS * WIDTH], sorted[TOKENS * WIDTH], kurtosis[TOKENS];
        ota_outlier got[MOST];
        for (int k = 0; k < entries; k++)
            h[k] = draw % 3 == 0 ? whole(&state, -3, 3) : normal(&state) * decade(&state, -2, 2);
        memcpy(sorted, h, sizeof h);
        qsort(sorted, (size_t)entries, sizeof *sorted, larger_first);
        const double median = 0.5 * (fabs(sorted[(entries - 1) / 2]) + fabs(sorted[entries / 2]));
        assert_int_equal(ota_outliers_of(&(ota_matrix){h, OTA_F64, tokens, width}, most, got,
                                         kurtosis, NULL, NULL),
                         OTA_OK);
        for (int k = 0; k < most && k < entries; k++) {
            const ota_outlier *const o = &got[k];
            assert_true(fabs(o->value) == fabs(sorted[k]));
            assert_true(h[o->token * width + o->dimension] == o->value);
            if (median > 0.0) spec_check("", fabs(o->ratio - fabs(o->value) / median), 0.0);
            if (k == 0 || fabs(got[k - 1].value) > fabs(o->value)) continue;
            assert_true(got[k - 1].token * width + got[k - 1].dimension <
                        o->token * width + o->dimension);
        }
        for (int i = 0; i < tokens; i++) {
            long double mean = 0.0L, second = 0.0L, fourth = 0.0L;
            for (int k = 0; k < width; k++) mean += h[i * width + k] / (long double)width;
            for (int k = 0; k < width; k++) {
                const long double x = h[i * width + k] - mean;
                second += x * x / width;
                fourth += x * x * x * x / width;
            }
            if (second == 0.0L)
                assert_true(isnan(kurtosis[i]));
            else
                spec_check("", fabs(kurtosis[i] - (double)(fourth / second / second - 3.0L)),
                           1e-11);
        }
    }
    /* One coordinate alone. */
    double one[100] = {0.0}, kurtosis;
    one[17] = -1e200;
    ota_outlier top;
    assert_int_equal(
        ota_outliers_of(&(ota_matrix){one, OTA_F64, 1, 100}, 1, &top, &kurtosis, NULL, NULL),
        OTA_OK);
    assert_true(top.dimension == 17 && top.value == -1e200 && isinf(top.ratio));
    assert_true(fabs(kurtosis - (100.0 - 5.0 + 1.0 / 99.0)) < 1e-10);
    ota_error error;
    one[3] = NAN;
    assert_int_equal(
        ota_outliers_of(&(ota_matrix){one, OTA_F64, 1, 100}, 1, &top, NULL, NULL, &error),
        OTA_EINVAL);
    assert_int_equal(
        ota_outliers_of(&(ota_matrix){one, OTA_F64, 0, 100}, 1, &top, NULL, NULL, &error),
        OTA_EINVAL);
    assert_int_equal(
        ota_outliers_of(&(ota_matrix){one, OTA_F64, 1, 0}, 1, &top, NULL, NULL, &error),
        OTA_EINVAL);
    assert_int_equal(
        ota_outliers_of(&(ota_matrix){one, OTA_F64, 1, 100}, -1, &top, NULL, NULL, &error),
        OTA_EINVAL);
    assert_int_equal(
        ota_outliers_of(&(ota_matrix){one, OTA_BF16, 1, 100}, 1, &top, NULL, NULL, &error),
        OTA_EINVAL);
}

TEST_FILE(test_heads) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constructed_heads_score_1),
        cmocka_unit_test(positional_and_local),
        cmocka_unit_test(sinks_by_their_values),
        cmocka_unit_test(chance_is_the_mean_of_random_rows),
        cmocka_unit_test(heads_are_refused),
        cmocka_unit_test(outliers_equal_a_sort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
