/* spec.h: checks that carry requirement ids. Each asserts value <= tolerance and, when the environment
 * names a log file, appends one line per id for `./dev spec`:
 *
 *     ID <tab> value <tab> relation <tab> tolerance <tab> 1|0 <tab> test name
 *
 * The line is written before the assertion, so that a failing check is on record too. Include this
 * after cmocka.h. */
#ifndef TESTS_SPEC_H
#define TESTS_SPEC_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void spec_log(const char *ids, double value, double tolerance, int passed,
                            const char *test) {
    const char *path = getenv("OTATTN_SPEC_LOG");
    FILE *log = path == NULL || path[0] == '\0' ? NULL : fopen(path, "a");
    if (log == NULL) return;
    /* Tests run side by side: one short write per line keeps lines whole. */
    setvbuf(log, NULL, _IOLBF, 512);
    for (const char *id = ids; *id != '\0';) {
        id += strspn(id, " ,");
        int length = (int)strcspn(id, " ,");
        if (length == 0) break;
        fprintf(log, "%.*s\t%.17g\t<=\t%.17g\t%d\t%s\n", length, id, value, tolerance, passed,
                test);
        id += length;
    }
    fclose(log);
}

static inline void spec_check_at(const char *ids, double value, double tolerance, const char *test,
                                 const char *file, int line) {
    int passed = value <= tolerance; /* false for a NaN on either side */
    spec_log(ids, value, tolerance, passed, test);
    if (!passed) {
        print_error("%s:%d: %s: %.17g is not <= %.17g\n", file, line, ids, value, tolerance);
    }
    _assert_true((LargestIntegralType)passed, "value <= tolerance", file, line);
}

/* `ids`: one or several requirement ids, "CETA-02" or "LIT-06 ELA-04". */
#define spec_check(ids, value, tolerance)                                                          \
    spec_check_at((ids), (value), (tolerance), __func__, __FILE__, __LINE__)

/* For facts that are true or false: logged as 0 <= 0, or 1 <= 0. */
#define spec_check_true(ids, condition) spec_check((ids), (condition) ? 0.0 : 1.0, 0.0)

/* Skips the running test and says why: `./dev test` lists the reasons. */
#define skip_because(reason)                                                                       \
    do {                                                                                           \
        print_message("[  REASON  ] %s: %s\n", __func__, (reason));                                \
        skip();                                                                                    \
    } while (0)

#endif
