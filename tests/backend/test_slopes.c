/* test_slopes.c: the words of backward on rows and on lists (slopes.inc.h) of every level this processor runs, in
 * f32 and f64, against plain long double loops, with a forbidden page beside every buffer. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "backend/cpu/kernels/kernels.h"
#include "groups.h"
#include "problems.h"
#include "spec.h"

enum { COUNTS = 8 };
static const int64_t counts[COUNTS] = {1, 2, 15, 16, 17, 128, 131, 700};

#define JOIN2(A, B) A##B
#define JOIN(A, B) JOIN2(A, B)
#define NAME(X) JOIN(X##_, TABLE)
#define FOR_EACH_LEVEL(KERNELS)                                                                    \
    for (int level = 0; ota_kernels_row(level) != NULL; level++)                                   \
        for (const JOIN(JOIN(ota_kernels_, TABLE), _table) *KERNELS =                              \
                 ota_kernels_row(level)->TABLE;                                                    \
             KERNELS != NULL; KERNELS = NULL)

#define T float
/* The struct of a kernel's operands. */
#define OPERANDS(X) JOIN(JOIN(ota_kernels_, TABLE), _##X)

#define TABLE f32
#define UNIT 0x1p-24L
#define TINY 0x1p-149L
#include "test_slopes.inc.h"
#undef T
#undef TABLE
#undef UNIT
#undef TINY

#define T double
#define TABLE f64
#define UNIT 0x1p-53L
#define TINY 0x1p-1074L
#include "test_slopes.inc.h"

TEST_FILE(test_slopes) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_f32),   cmocka_unit_test(test_rows_f64),
        cmocka_unit_test(test_dots_f32),   cmocka_unit_test(test_dots_f64),
        cmocka_unit_test(test_turned_f32), cmocka_unit_test(test_turned_f64),
        cmocka_unit_test(test_lists_f32),  cmocka_unit_test(test_lists_f64),
        cmocka_unit_test(test_system_f32), cmocka_unit_test(test_system_f64)};
    return cmocka_run_group_tests_name("slopes", tests, NULL, NULL);
}
