/* test_progress.c: what program/progress.c says of the time that is left. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "groups.h"
#include "program/program.h"

/* The line of a run whose first `run` seconds did 1 a second of what takes `left` seconds more. */
static void read_line(double run, double left, char *line, size_t size) {
    cli_progress progress = {.log = true, .label = "work"};
    FILE *file = tmpfile();
    assert_non_null(file);
    const int kept = dup(STDERR_FILENO);
    progress.begun_ns = progress.last_ns = cli_now_ns() - (int64_t)(run * 1e9);
    (void)fflush(stderr);
    assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
    cli_progress_update(&progress, run, run + left, "parts");
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    (void)close(kept);
    rewind(file);
    assert_non_null(fgets(line, (int)size, file));
    (void)fclose(file);
}

static void test_no_minute_has_60_seconds(void **state) {
    static const struct {
        double run, left;
        const char *words;
    } rows[] = {
        {10, 0, ", 0 s left\n"},
        {10, 58.5, ", 59 s left\n"},
        {10, 59.5, ", 1 min 00 s left\n"},
        {10, 119.7, ", 2 min 00 s left\n"},
        {10, 90.5, ", 1 min 31 s left\n"},
        {1000, 3599.5, ", 1 h 00 min left\n"},
        {1000, 7150, ", 2 h 00 min left\n"},
        {1000, 400000, ", ? left\n"},
    };
    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        char line[200];
        read_line(rows[k].run, rows[k].left, line, sizeof line);
        assert_ptr_equal(strstr(line, "work: "), line);
        assert_non_null(strstr(line, rows[k].words));
    }
}

TEST_FILE(test_progress) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_minute_has_60_seconds),
    };
    return cmocka_run_group_tests_name("progress", tests, NULL, NULL);
}
