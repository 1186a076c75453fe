/* calls.h: what one run of a case at one kernel level gave, and the run itself. */
#ifndef TESTS_DUMP_CALLS_H
#define TESTS_DUMP_CALLS_H

#include <stdio.h>

#include "cases.h"

typedef enum dump_part {
    DUMP_PART_PLAN, /* names, status of creation, solver */
    DUMP_PART_FORWARD,
    DUMP_PART_REBIND,
    DUMP_PART_BACKWARD,
    DUMP_PART_JVP,
    DUMP_PART_DECODE,
    DUMP_PART_ATTEND,
    DUMP_PART_OTHER, /* certificate, rope */
    DUMP_PARTS
} dump_part;

extern const char *const dump_part_names[DUMP_PARTS];

/* Lies in memory that processes share. */
typedef struct dump_row {
    uint64_t parts[DUMP_PARTS]; /* a hash of every call */
    int status[DUMP_PARTS];     /* what the calls returned; OTA_UNSOLVED: not made */
    char path[72], solver[16];  /* of the plan; only counted */
    double seconds;
    int died; /* the signal that ended it, 0 if none */
} dump_row;

/* Draws case `number` and runs it at this level; `threads` > 0 overrides the case's own number. `explain`, when not
 * NULL, is told the digest and the sums of every array. */
void dump_run(dump_case *c, dump_memory *memory, int64_t number, const char *level, int threads,
              FILE *explain, dump_row *row);
/* The row in 32 bits. */
uint32_t dump_fold(const dump_row *row);
uint32_t dump_fold_part(const dump_row *row, int part);

#endif
