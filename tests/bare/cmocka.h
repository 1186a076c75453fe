/* cmocka.h: the words of cmocka that the kernel tests use, for processors that have no package of it here
 * (`./dev neon`). The first failed assertion ends its test; the output reads like cmocka's. */
#ifndef TESTS_BARE_CMOCKA_H
#define TESTS_BARE_CMOCKA_H

#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef uintmax_t LargestIntegralType;

struct CMUnitTest {
    const char *name;
    void (*run)(void **state);
};

static jmp_buf bare_failed;

#define cmocka_unit_test(function)                                                                 \
    { #function, function }
#define print_message(...) printf(__VA_ARGS__)
#define print_error(...) fprintf(stderr, __VA_ARGS__)
#define skip() longjmp(bare_failed, 2)
#define fail_msg(...) (print_error(__VA_ARGS__), print_error("\n"), longjmp(bare_failed, 1))

static inline void _assert_true(LargestIntegralType holds, const char *text, const char *file,
                                int line) {
    if (holds) return;
    print_error("%s:%d: error: %s\n", file, line, text);
    longjmp(bare_failed, 1);
}

#define assert_true(c) _assert_true((LargestIntegralType)((c) ? 1 : 0), #c, __FILE__, __LINE__)
#define assert_null(p) assert_true((p) == NULL)
#define assert_non_null(p) assert_true((p) != NULL)
#define assert_int_equal(a, b) assert_true((a) == (b))
#define assert_ptr_equal(a, b) assert_true((a) == (b))
#define assert_string_equal(a, b) assert_true(strcmp((a), (b)) == 0)
#define assert_memory_equal(a, b, bytes) assert_true(memcmp((a), (b), (bytes)) == 0)

static inline int bare_run(const struct CMUnitTest *tests, int count, int (*setup)(void **)) {
    volatile int failed = 0;
    volatile int skipped = 0;
    void *state = NULL;
    printf("[==========] Running %d test(s).\n", count);
    if (setup != NULL) (void)setup(&state);
    for (volatile int k = 0; k < count; k++) {
        printf("[ RUN      ] %s\n", tests[k].name);
        (void)fflush(stdout);
        const int outcome = setjmp(bare_failed);
        if (outcome == 0) tests[k].run(&state);
        failed += outcome == 1;
        skipped += outcome == 2;
        printf("[ %s ] %s\n",
               outcome == 0   ? "      OK"
               : outcome == 1 ? " FAILED "
                              : "SKIPPED ",
               tests[k].name);
    }
    printf("[  PASSED  ] %d test(s).\n", count - failed - skipped);
    return failed;
}

#define cmocka_run_group_tests_name(name, tests, setup, teardown)                                  \
    bare_run(tests, (int)(sizeof(tests) / sizeof((tests)[0])), setup)
#define cmocka_run_group_tests(tests, setup, teardown)                                             \
    cmocka_run_group_tests_name(#tests, tests, setup, teardown)

#endif
