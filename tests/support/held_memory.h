/* held_memory.h: runs a group of tests, then each of them again: memory in use may not grow with every run. What
 * a call allocates it gives back, also where it refuses. (The C library keeps some freed blocks and counts them
 * as used, so the first runs may grow.) Sanitizers count nothing here and look for leaks themselves. Include
 * after cmocka.h. */
#ifndef TESTS_HELD_MEMORY_H
#define TESTS_HELD_MEMORY_H

#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>

typedef struct held_group {
    const struct CMUnitTest *tests;
    size_t count;
} held_group;

static inline size_t memory_in_use(void) {
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
    const struct mallinfo2 now = mallinfo2();
    return now.uordblks + now.hblkhd;
#else
    return 0;
#endif
}

static inline void test_memory_is_given_back(void **state) {
    enum { RUNS = 6 };
    const held_group *group = *state;
    for (size_t k = 0; k < group->count; k++) {
        bool grows = true;
        for (int run = 0; run < RUNS && grows; run++) {
            void *nothing = NULL;
            const size_t before = memory_in_use();
            group->tests[k].test_func(&nothing);
            grows = memory_in_use() > before;
        }
        if (grows) print_error("%s keeps memory\n", group->tests[k].name);
        assert_false(grows);
    }
}

/* Tests without fixtures. */
static inline int run_and_hold(const struct CMUnitTest *tests, size_t count) {
    held_group group = {tests, count};
    const struct CMUnitTest again[] = {
        cmocka_unit_test_prestate(test_memory_is_given_back, &group)};
    /* The macro of cmocka wants the array itself. */
    const int failed = _cmocka_run_group_tests("tests", tests, count, NULL, NULL);
    return failed != 0 ? failed : cmocka_run_group_tests_name("memory", again, NULL, NULL);
}

#endif
