/* Reports and terminal heat maps: foreign text stays inert, a page appears whole or not at all, maps
 * are aligned. With OTATTN_REPORT_PAGE=FILE the hostile page stays there, for the browser's test. */
#define _GNU_SOURCE
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "program/transport/heatmap.h"
#include "program/report/report.h"
#include "groups.h"

#define HOSTILE "</script><script>window.hit=1</script><img src=x onerror=window.hit=2>"

static const char *const labels[] = {("1 " HOSTILE), "2 a\xe2\x80\xa8'b\"",
                                     "3 \xf0\x9f\x9a\xa2 & co"};

static json_t *weights_dataset(void) {
    json_t *rows = json_array();
    for (int row = 0; row < 3; row++) {
        json_t *keys = json_array(), *weights = json_array();
        for (int column = 0; column < 3; column++) {
            json_array_append_new(keys, json_string(labels[column]));
            json_array_append_new(weights, json_real(row == column ? 0.8 : 0.1));
        }
        json_array_append_new(rows, json_pack("{s:s, s:o, s:o}", "query", labels[row], "keys", keys,
                                              "weights", weights));
    }
    return json_pack("{s:o}", "weights", rows);
}

static cli_report *hostile_page(void) {
    cli_report *report = cli_report_open("Title " HOSTILE, "Lead " HOSTILE " \xff\xc0\xaf end");
    assert_non_null(report);
    const cli_fact fact = {HOSTILE, HOSTILE};
    cli_report_facts(report, &fact, 1);
    cli_report_answers_here(report);
    cli_report_section(report, HOSTILE);
    cli_report_text(report, "Text `" HOSTILE "` and an odd ` " HOSTILE);
    cli_report_code(report, HOSTILE);
    const char *columns[] = {"name", "value"};
    const char *cells[] = {HOSTILE, "1.5", "plain", "-2e-3"};
    cli_table table = {.caption = HOSTILE,
                       .columns = columns,
                       .column_count = 2,
                       .cells = cells,
                       .row_count = 2,
                       .id = HOSTILE};
    cli_report_table(report, &table);
    json_t *datasets = weights_dataset();
    cli_figure figure = {"heatmap", HOSTILE, datasets, "Caption " HOSTILE, "Alternative " HOSTILE,
                         &table,    HOSTILE, HOSTILE};
    const cli_answer answers[] = {{HOSTILE, HOSTILE, HOSTILE}, {"unknown", "nowhere", "no_figure"}};
    cli_report_grid_begin(report, 2);
    cli_report_figure(report, &figure);
    cli_report_grid_end(report);
    cli_report_fold_begin(report, HOSTILE, HOSTILE, "fold " HOSTILE);
    cli_report_figure(report, &figure);
    cli_report_fold_end(report);
    cli_report_answers(report, HOSTILE, answers, 2, 1);
    json_decref(datasets);
    return report;
}

/* Everything in the file, which it closes. */
static char *read_all(FILE *file) {
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    const long size = ftell(file);
    rewind(file);
    char *text = calloc(1, (size_t)size + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)size, file), (size_t)size);
    fclose(file);
    return text;
}

static char *read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    return read_all(file);
}

static size_t occurrences(const char *text, const char *part) {
    size_t count = 0;
    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + strlen(part), part))
        count++;
    return count;
}

static void test_foreign_text_is_inert(void **state) {
    (void)state;
    const char *kept = getenv("OTATTN_REPORT_PAGE");
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s", kept != NULL ? kept : "/tmp/otattn-report-XXXXXX.html");
    if (kept == NULL) {
        int descriptor = mkstemps(path, 5);
        assert_true(descriptor >= 0);
        close(descriptor);
    }
    cli_error error;
    assert_int_equal(cli_report_close(hostile_page(), path, true, &error), 0);
    char *text = read_file(path);
    assert_int_equal(occurrences(text, "<script>window"), 0);
    assert_int_equal(occurrences(text, "<img"), 0);
    assert_int_equal(occurrences(text, "\xe2\x80\xa8"), 0);
    assert_int_equal(occurrences(text, "\xff"), 0);
    /* Three bytes that are no UTF-8, three replacement characters. */
    assert_int_equal(occurrences(text, " \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd end"), 1);
    assert_int_equal(occurrences(text, "\xc0\xaf"), 0);
    assert_true(occurrences(text, "&lt;/script&gt;&lt;script&gt;window.hit=1") >= 8);
    assert_true(occurrences(text, "an odd ` &lt;") == 1);
    assert_true(occurrences(text, "<td class=\"n\">-2e-3</td>") >= 1);
    if (cli_report_charts()) {
        /* Every script element is closed once: none of the strings closed one. */
        assert_int_equal(occurrences(text, "<script"), occurrences(text, "</script>"));
        assert_true(strlen(text) < 600000);
    } else {
        assert_non_null(strstr(text, "no chart library"));
    }
    free(text);
    if (kept == NULL) unlink(path);
}

static cli_report *plain_page(void) {
    cli_report *report = cli_report_open("t", "l");
    assert_non_null(report);
    return report;
}

static void test_nothing_half_written(void **state) {
    (void)state;
    char folder[] = "/tmp/otattn-report-XXXXXX";
    assert_non_null(mkdtemp(folder));
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/page.html", folder);
    cli_error error;

    cli_report *report = plain_page();
    json_t *datasets = json_object();
    cli_figure figure = {"no_such_figure", "t", datasets, "c", "a", NULL, NULL, NULL};
    cli_report_figure(report, &figure);
    assert_int_equal(cli_report_close(report, path, false, &error), CLI_EXIT_INTERNAL);
    assert_non_null(strstr(error.message, "no_such_figure"));
    assert_int_equal(access(path, F_OK), -1);
    json_decref(datasets);

    assert_int_equal(cli_report_close(hostile_page(), path, false, &error), 0);
    char *first = read_file(path);
    assert_int_equal(cli_report_close(plain_page(), path, false, &error), CLI_EXIT_USAGE);
    char *second = read_file(path);
    assert_string_equal(first, second);
    free(first);
    free(second);
    assert_int_equal(unlink(path), 0);
    /* No temporary file stayed behind, or this fails. */
    assert_int_equal(rmdir(folder), 0);

    (void)snprintf(path, sizeof path, "%s/page.html", folder);
    assert_int_equal(cli_report_close(plain_page(), path, false, &error), CLI_EXIT_IO);
}

static char *drawn(cli_shades shades, int width, size_t map_count) {
    static const double weights[] = {1.0, 0.0, 0.0, 0.25, 0.5, 0.25};
    static const char *const row_labels[] = {"the", "\xc3\xa9t\xc3\xa9"};
    static const char *const column_labels[] = {"a\x1b[31m", "bc", "\xe8\x88\xb9"};
    const cli_heatmap maps[] = {{"first", weights}, {"second", weights}};
    FILE *stream = tmpfile();
    assert_non_null(stream);
    const cli_heatmap_labels labels = {
        .row = row_labels, .column = column_labels, .rows = 2, .columns = 3};
    cli_heatmaps_print(stream, shades, width, maps, map_count, &labels);
    char *text = read_all(stream);
    return text;
}

static void test_digits_are_aligned_ascii(void **state) {
    (void)state;
    char *text = drawn(CLI_SHADES_DIGITS, 80, 2);
    assert_string_equal(text, "          first   second\n"
                              "     the  9 . .   9 . . \n"
                              "     ?t?  5 7 5   5 7 5 \n"
                              "received  1 1 0   1 1 0 \n"
                              "          a b ?   a b ? \n"
                              "          ? c     ? c   \n"
                              "          [       [     \n"
                              "          3       3     \n"
                              "          1       1     \n"
                              "          m       m     \n");
    free(text);
}

static void test_maps_wrap_when_narrow(void **state) {
    (void)state;
    char *wide = drawn(CLI_SHADES_BLOCKS, 80, 2), *narrow = drawn(CLI_SHADES_BLOCKS, 14, 2);
    assert_int_equal(occurrences(wide, "the"), 1);
    assert_int_equal(occurrences(narrow, "the"), 2);
    free(wide);
    free(narrow);
}

static void test_colour_ends_on_every_line(void **state) {
    (void)state;
    for (int shades = CLI_SHADES_256; shades <= CLI_SHADES_24_BIT; shades++) {
        char *text = drawn((cli_shades)shades, 80, 2);
        assert_int_equal(occurrences(text, "\x1b[48;"), 12);
        assert_int_equal(occurrences(text, "\x1b[0m"), 4);
        /* The escape in a label is not passed on. */
        assert_int_equal(occurrences(text, "\x1b"), 16);
        free(text);
    }
}

TEST_FILE(test_report) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_foreign_text_is_inert),
        cmocka_unit_test(test_nothing_half_written),
        cmocka_unit_test(test_digits_are_aligned_ascii),
        cmocka_unit_test(test_maps_wrap_when_narrow),
        cmocka_unit_test(test_colour_ends_on_every_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
