/* groups.h: TEST_FILE(test_NAME) heads the function that runs the tests of a file test_NAME.c and returns how many failed,
 * as main would:
 *
 *     TEST_FILE(test_half) {
 *         const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_bits), ...};
 *         return cmocka_run_group_tests(tests, NULL, NULL);
 *     }
 *
 * The files of a folder are one program (tests/CMakeLists.txt), whose main (runner.c) runs them all, or those that it
 * is told; a file that must be a program of its own is compiled with TEST_ALONE. */
#ifndef TESTS_GROUPS_H
#define TESTS_GROUPS_H

#include <stdbool.h>
#include <stddef.h>

#ifdef TEST_ALONE
#define TEST_FILE(name) int main(void)
#else
#define TEST_FILE(name)                                                                            \
    int run_##name(void);                                                                          \
    int run_##name(void)
#endif

typedef struct test_file {
    const char *name;
    int (*run)(void);
    bool alone; /* starts no thread: alone.c ends it where it does */
} test_file;

/* Of the folder; CMake writes them. */
extern const test_file test_files[];
extern const size_t test_file_count;

/* Of the file that runs now; of a program of its own, alone.c says so. */
extern bool test_runs_alone;

#endif
