/* report.h: the rows of a run, the file they are kept in, comparison with it, and what was met how often. */
#ifndef TESTS_DUMP_REPORT_H
#define TESTS_DUMP_REPORT_H

#include "calls.h"

enum { DUMP_LEVELS = 8 };

typedef struct dump_rows {
    const char *levels[DUMP_LEVELS];
    int level_count;
    int64_t first, count; /* of cases */
    dump_row *rows;       /* [count][level_count] */
} dump_rows;

/* `parts`: a hash for every call behind that of the row. False, with a line on stderr, when it cannot be written. */
bool dump_write(const dump_rows *set, const char *path, bool parts);
/* Prints the rows that differ and, last, 'N passed, N failed, N skipped'. 0 when none failed, else 1. */
int dump_compare(const dump_rows *set, const char *path);
void dump_print_statistics(const dump_rows *set);

#endif
