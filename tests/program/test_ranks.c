/* The six calls of program/ranks/ranks.h, on one process or, started by mpirun, on several: every rank runs the whole
 * test and the launcher fails when one of them does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "program/ranks/ranks.h"
#include "groups.h"

enum { BYTES = 1 << 20 };

static void test_ranks(void **state) {
    (void)state;
    const char *wanted = getenv("RANKS_WANTED");
    assert_int_equal(cli_ranks_begin(), 0);
    const int rank = cli_ranks_rank(), size = cli_ranks_size();
    assert_int_equal(size, wanted != NULL ? atoi(wanted) : 1);
    assert_in_range(rank, 0, size - 1);
    /* Ranks differ and are all there: bit r comes from rank r alone. */
    for (int r = 0; r < size; r++) {
        assert_int_equal(cli_ranks_agree(rank == r ? 7 : 0), 7);
        assert_int_equal(cli_ranks_agree(rank == r ? 0 : r + 1), size > 1 ? r + 1 : 0);
    }
    unsigned char *bytes = malloc(BYTES);
    assert_non_null(bytes);
    memset(bytes, rank + 1, BYTES);
    cli_ranks_share(bytes, BYTES);
    for (int k = 0; k < BYTES; k++) assert_int_equal(bytes[k], 1);
    free(bytes);
    assert_int_equal(cli_ranks_agree(0), 0);
    cli_ranks_end();
    cli_ranks_end();
}

TEST_FILE(test_ranks) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ranks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
