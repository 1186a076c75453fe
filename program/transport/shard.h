/* shard.h: the rows of one process of many (shard.c). */
#ifndef OTATTN_PROGRAM_SHARD_H
#define OTATTN_PROGRAM_SHARD_H

#include "program/program.h"

enum { CLI_SHARD_STOPPED = -1 }; /* another process failed and tells */

/* Views of this process's rows; borrows the whole problem. */
typedef struct cli_shard {
    ota_communicator with;
    ota_problem problem;
    ota_array values;
    ota_term terms[CLI_MAX_TERMS];
    ota_support supports[CLI_MAX_SUPPORTS];
} cli_shard;

int cli_shard_open(cli_context *context, const cli_problem *whole, cli_shard *shard);
/* This process's lines of dimension `k` of what may have been read whole; where that has not `total`, one line stands for
 * all. */
void cli_shard_cut(const cli_context *context, ota_array *a, int k, int64_t total);
/* Every process goes on only where all can: 0, this one's code, or CLI_SHARD_STOPPED. */
int cli_shard_together(int code);

#endif
