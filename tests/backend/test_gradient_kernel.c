/* test_gradient_kernel.c: the gradient kernel of every level this processor runs, in f32 and f64, against plain
 * long double loops: ragged sizes, ranges of keys, biases, advantages, terms, small temperatures, any
 * alignment, guard pages around every buffer, what is not finite. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <float.h>

#include "backend/cpu/kernels/kernels.h"
#include "draw/elements.h"
#include "groups.h"
#include "problems.h"
#include "spec.h"

#define JOIN2(A, B) A##B
#define JOIN(A, B) JOIN2(A, B)
#define NAME(X) JOIN(X##_, TABLE)

#define T float
#define TABLE f32
#define BLOCK ota_kernels_f32_gradient
#define UNIT 0x1p-24L
#define TINY 0x1p-149L
#define LARGEST FLT_MAX
#include "test_gradient_kernel.inc.h"
#undef T
#undef TABLE
#undef BLOCK
#undef UNIT
#undef TINY
#undef LARGEST

#define T double
#define TABLE f64
#define BLOCK ota_kernels_f64_gradient
#define UNIT 0x1p-53L
#define TINY 0x1p-1074L
#define LARGEST DBL_MAX
#include "test_gradient_kernel.inc.h"

TEST_FILE(test_gradient_kernel) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients_f32), cmocka_unit_test(test_gradients_f64),
        cmocka_unit_test(test_gradients_poison_f32), cmocka_unit_test(test_gradients_poison_f64)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
