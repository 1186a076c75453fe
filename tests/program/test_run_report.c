/* Parts of a run's report against their definitions: pooled patterns, labels, LaTeX, packed bytes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "program/report/pack.h"
#include "program/report/run.h"
#include "program/report/run_parts.h"
#include "groups.h"

/* Every pair by the definition, in the other order of loops. */
static void check_pool(size_t n) {
    const size_t cells = cli_pool_cells(n);
    float *pattern = calloc(n * n, sizeof *pattern),
          *pooled = calloc(cells * cells, sizeof *pooled);
    assert_true(pattern != NULL && pooled != NULL);
    for (size_t pair = 0; pair < n * n; pair++) pattern[pair] = (float)(pair * 7919 % 1009) / 1009;
    cli_pool_pattern(pattern, n, pooled);
    for (size_t a = 0; a < cells; a++) {
        for (size_t b = 0; b < cells; b++) {
            float largest = 0;
            for (size_t j = 0; j < n; j++)
                for (size_t i = 0; i < n; i++)
                    if (i * cells / n == a && j * cells / n == b && pattern[i * n + j] > largest)
                        largest = pattern[i * n + j];
            assert_true(pooled[a * cells + b] == largest);
        }
    }
    free(pattern);
    free(pooled);
}

static void test_pooled_is_the_largest_of_a_block(void **state) {
    (void)state;
    assert_int_equal(cli_pool_cells(5), 5);
    assert_int_equal(cli_pool_cells(512), CLI_PATTERN_CELLS);
    check_pool(1);
    check_pool(5);
    check_pool(CLI_PATTERN_CELLS + 7);
}

static void test_labels_show_what_cannot_be_seen(void **state) {
    (void)state;
    static const struct {
        const char *token, *label;
    } cases[] = {
        {" the", "\xe2\x90\xa3the"},
        {"a\nb\tc", "a\xe2\x86\xb5"
                    "b\xe2\x87\xa5"
                    "c"},
        {"\x07", "\\u{7}"},
        {"\xe2\x80\xaegnp\xe2\x80\xac", "\\u{202e}gnp\\u{202c}"},
        {"\xff"
         "a\xc0\xaf",
         "\xef\xbf\xbd"
         "a\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xe8\x88\xb9", "\xe8\x88\xb9"},
        {"", ""},
    };
    char label[64];
    for (size_t row = 0; row < sizeof cases / sizeof cases[0]; row++) {
        cli_run_label(cases[row].token, label, sizeof label);
        assert_string_equal(label, cases[row].label);
    }
    /* Cut between characters, never inside one. */
    cli_run_label("\xe8\x88\xb9\xe8\x88\xb9\xe8\x88\xb9", label, 11);
    assert_string_equal(label, "\xe8\x88\xb9\xe8\x88\xb9\xe2\x80\xa6");
    json_t *token = json_stringn("a\0b", 3);
    cli_run_token(token, label, sizeof label);
    assert_string_equal(label, "a\\u{0}");
    json_decref(token);
    cli_run_token(NULL, label, sizeof label);
    assert_string_equal(label, "?");
}

static void test_latex_prints_its_text(void **state) {
    (void)state;
    static const struct {
        const char *text, *latex;
    } cases[] = {
        {"\\input{x}", "\\textbackslash{}input\\{x\\}"},
        {"50% & $5_0 #1", "50\\% \\& \\$5\\_0 \\#1"},
        {"a^b~c<d>", "a\\textasciicircum{}b\\textasciitilde{}c\\textless{}d\\textgreater{}"},
        {"1 \xc2\xb1 2", "1 $\\pm$ 2"},
        {"a\nb\xe2\x80\xa8", "a b "},
    };
    for (size_t row = 0; row < sizeof cases / sizeof cases[0]; row++) {
        char *latex = cli_run_latex(cases[row].text);
        assert_non_null(latex);
        assert_string_equal(latex, cases[row].latex);
        free(latex);
    }
}

static void test_packed_is_gzip_in_base64(void **state) {
    (void)state;
    static const unsigned char bytes[300] = {1, 2, 3};
    size_t length;
    char *text = cli_pack(bytes, sizeof bytes, &length);
    assert_non_null(text);
    assert_int_equal(length, strlen(text));
    assert_int_equal(length % 4, 0);
    /* 1f 8b 08, no flags, no time. */
    assert_memory_equal(text, "H4sIAAAAAA", 10);
    free(text);
}

static void test_difference_has_its_interval(void **state) {
    (void)state;
    json_t *first = json_pack("{s:f, s:[f, f]}", "mean", 1.0, "ci95", 0.6, 1.3);
    json_t *second = json_pack("{s:f, s:[f, f]}", "mean", 3.0, "ci95", 2.6, 3.3);
    double numbers[3];
    cli_run_difference(first, second, numbers);
    assert_true(numbers[0] == 2);
    /* sqrt(.4^2 + .3^2) = .5 on both sides. */
    assert_true(numbers[1] > 1.5 - 1e-12 && numbers[1] < 1.5 + 1e-12);
    assert_true(numbers[2] > 2.5 - 1e-12 && numbers[2] < 2.5 + 1e-12);
    json_decref(first);
    json_decref(second);
}

static void test_numbers_are_told_in_three_digits(void **state) {
    (void)state;
    static const struct {
        double value;
        const char *word;
    } cases[] = {{0, "0"},          {0.24, "0.240"},     {768, "768"},        {24576, "24,576"},
                 {-1234, "-1,234"}, {3e-11, "3.00e-11"}, {1.25e7, "1.25e+07"}};
    char word[RUN_WORD];
    for (size_t row = 0; row < sizeof cases / sizeof cases[0]; row++) {
        cli_run_value(cases[row].value, word);
        assert_string_equal(word, cases[row].word);
    }
    cli_run_count(1976640, word);
    assert_string_equal(word, "1,976,640");
    cli_run_count(1e300, word);
    assert_true(strlen(word) < RUN_WORD);
    cli_run_share(0.002, word);
    assert_string_equal(word, "0.2 %");
    cli_run_between((const double[]){0.93, 0.914, 0.951}, true, word);
    assert_string_equal(word, "93 % [91, 95]");
    cli_run_between((const double[]){0.954, (double)NAN, (double)NAN}, false, word);
    assert_string_equal(word, "0.954");
    cli_run_layer_name(-1, word);
    assert_string_equal(word, "the embedding");
}

/* A transition stands at its layer, a state at the layer that it leaves. */
static void test_layers_have_one_number(void **state) {
    (void)state;
    json_t *entry = json_pack("{s:i}", "layer", 5);
    assert_int_equal(cli_run_layer("transitions", entry, 0), 5);
    assert_int_equal(cli_run_layer("layers", entry, 0), 4);
    assert_int_equal(cli_run_layer("transitions", NULL, 2), 2);
    assert_int_equal(cli_run_layer("layers", NULL, 0), -1);
    json_decref(entry);
}

TEST_FILE(test_run_report) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pooled_is_the_largest_of_a_block),
        cmocka_unit_test(test_labels_show_what_cannot_be_seen),
        cmocka_unit_test(test_latex_prints_its_text),
        cmocka_unit_test(test_packed_is_gzip_in_base64),
        cmocka_unit_test(test_difference_has_its_interval),
        cmocka_unit_test(test_numbers_are_told_in_three_digits),
        cmocka_unit_test(test_layers_have_one_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
