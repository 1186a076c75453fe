/* test_locale.c: every text that the libraries write and read is the same under a locale whose decimal point is a comma, or a
 * character of two bytes, be it the process's or the calling thread's: methods, names, descriptions, refusals, sentences of results, fits. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "groups.h"
#include "otattn_analysis.h"

enum { N = 4, TEXT = 1 << 14 };

typedef struct text {
    char bytes[TEXT];
    size_t length;
} text;

static void add(text *to, const char *line) {
    const size_t length = strlen(line);
    assert_true(to->length + length + 2 < sizeof to->bytes);
    memcpy(to->bytes + to->length, line, length);
    to->bytes[to->length + length] = '\n';
    to->length += length + 1;
    to->bytes[to->length] = '\0';
}

static double scores[N * N] = {0.5, 1.25, -0.5, 2.0,  1.0, 0.0,  0.75, -1.0,
                               3.0, 0.25, 1.5,  -2.5, 0.0, -0.5, 0.5,  1.0};

/* Writes what the libraries say of many calls. */
static void say_all(text *to) {
    static const char *const methods[] = {
        "entmax:1.5",
        "entmax:1.25/capped:2.5",
        "softmax/elastic:0.3,8",
        "softmax/bounded:0.5,1.5{temperature=0.25,tolerance=1e-4}",
        "softmax/relaxed:0.125{anneal=4.5:0.5:3}",
        "softmax/online:1.5{entry_cap=0.75}",
        "softmax/capped:0.001",
        "softmax/capped:-0.5",
        "entmax:-1.5",
        "entmax:1,5",
        "softmax{temperature=0,5}",
        "softmax/exact{tolerance=1.5e-25}",
        "softmax/exact{relaxation=2.5}"};
    for (size_t k = 0; k < sizeof methods / sizeof *methods; k++) {
        double out[N * N];
        char line[4096];
        ota_problem problem = {.size = sizeof problem};
        ota_options options = {.size = sizeof options};
        ota_arrays arrays = {.size = sizeof arrays};
        ota_result result = {.size = sizeof result};
        ota_error error = {.message = ""};
        ota_plan *plan = NULL;
        options.threads = 1;
        problem.scores = ota_array_of(scores, OTA_F64, 1, 1, N, N);
        arrays.coupling = ota_array_of(out, OTA_F64, 1, 1, N, N);
        ota_status status = ota_method_parse(methods[k], &problem, &options, &error);
        if (status == OTA_OK) {
            (void)ota_method_name(&problem, line, sizeof line);
            add(to, line);
            status = ota_plan_create(&plan, &problem, 0, &options, &error);
        }
        if (status == OTA_OK) {
            (void)ota_plan_describe(plan, line, sizeof line);
            add(to, line);
            (void)ota_forward(plan, &arrays, &result, &error);
            add(to, result.sentence);
        }
        if (result.status >= 0 && status == OTA_OK && strchr(methods[k], '{') == NULL) {
            ota_fit fits[3];
            int64_t count = 0;
            ota_problem asked = {.size = sizeof asked};
            asked.scores = problem.scores;
            (void)ota_identify(&asked, NULL, out, fits, 3, &count, &error);
            for (int64_t f = 0; f < count; f++) add(to, fits[f].method);
        }
        add(to, error.message);
        add(to, error.hint);
        ota_plan_free(plan);
    }
}

static text plain, other; /* of the C locale, of the one with a comma */

static const char *const names[] = {"de_DE.UTF-8", "ps_AF.UTF-8"};
static const char *const written[] = {"1,5", "1\u066b5"};

static void expect_point(int locale) {
    char one[8];
    (void)snprintf(one, sizeof one, "%.1f", 1.5);
    assert_string_equal(one, written[locale]);
}

static void test_process_locale(void **state) {
    (void)state;
    say_all(&plain);
    assert_non_null(strstr(plain.bytes, "entmax:1.25/capped:2.5"));
    for (int k = 0; k < 2; k++) {
        memset(&other, 0, sizeof other);
        assert_non_null(setlocale(LC_ALL, names[k]));
        expect_point(k);
        say_all(&other);
        expect_point(k);
        assert_non_null(setlocale(LC_ALL, "C"));
        assert_string_equal(other.bytes, plain.bytes);
    }
}

static void test_thread_locale(void **state) {
    (void)state;
    for (int k = 0; k < 2; k++) {
        memset(&other, 0, sizeof other);
        const locale_t own = newlocale(LC_ALL_MASK, names[k], (locale_t)0);
        assert_true(own != (locale_t)0);
        const locale_t before = uselocale(own);
        expect_point(k);
        say_all(&other);
        expect_point(k);
        assert_true(uselocale((locale_t)0) == own); /* the caller's own is back */
        (void)uselocale(before);
        freelocale(own);
        assert_string_equal(other.bytes, plain.bytes);
    }
}

TEST_FILE(test_locale) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_process_locale),
        cmocka_unit_test(test_thread_locale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
