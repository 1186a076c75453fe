/* runner.c: the program of a folder of tests.
 *
 *     PROGRAM [FILE [PATTERN]]     all files, one, or those of its tests whose names match
 *     PROGRAM --list               the files */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "groups.h"

bool test_runs_alone;

int main(int count, char **words) {
    const char *wanted = count > 1 ? words[1] : NULL;
    if (wanted != NULL && strcmp(wanted, "--list") == 0) {
        for (size_t k = 0; k < test_file_count; k++) puts(test_files[k].name);
        return 0;
    }
    if (count > 2) cmocka_set_test_filter(words[2]);
    int failed = 0;
    size_t ran = 0;
    for (size_t k = 0; k < test_file_count; k++) {
        if (wanted != NULL && strcmp(wanted, test_files[k].name) != 0) continue;
        test_runs_alone = test_files[k].alone;
        failed += test_files[k].run() != 0;
        ran++;
    }
    if (ran == 0)
        (void)fprintf(stderr, "%s: no file %s among its tests; --list names them\n", words[0],
                      wanted);
    return failed > 0 || ran == 0;
}
