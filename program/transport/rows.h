/* rows.h: arrays of which every process of --shard holds its own lines, as a writer on process 0 takes them (rows.c). */
#ifndef OTATTN_PROGRAM_ROWS_H
#define OTATTN_PROGRAM_ROWS_H

#include "program/program.h"

struct cli_rows {
    ota_array mine; /* dense: the lines that this process holds */
    int dimension;  /* the one that has them; -1: mine is all there is */
    int64_t total;  /* lines of all processes */
};

/* Elements of rows[number], rounded to `type`; starts all zeros but for these. */
typedef struct cli_rows_reader {
    const cli_rows *rows;
    int number;
    ota_type type;
    int64_t at; /* elements taken */
} cli_rows_reader;

/* cli_elements.next with a reader as its user: asks the process that holds what comes next. */
int cli_rows_next(void *reader, void *to, size_t count, cli_error *error);
/* The other processes, until process 0 has ended: answers what it asks of the same rows. */
void cli_rows_serve(const cli_rows *rows);
/* Process 0, once, after whatever it took. */
void cli_rows_end(void);

#endif
