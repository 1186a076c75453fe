/* shard.h: the rows of one process of many (shard.c). */
#ifndef OTATTN_PROGRAM_SHARD_H
#define OTATTN_PROGRAM_SHARD_H

#include "program/program.h"

enum { TOOL_SHARD_STOPPED = -1 }; /* another process failed and tells */

/* Views of this process's rows; borrows the whole problem. */
typedef struct tool_shard {
    ota_communicator with;
    ota_problem problem;
    ota_array values;
    ota_term terms[TOOL_MAX_TERMS];
    ota_support supports[TOOL_MAX_SUPPORTS];
} tool_shard;

int tool_shard_open(tool_context *context, const tool_problem *whole, tool_shard *shard);
/* This process's lines of dimension `k` of what may have been read whole; where that has not `total`, one line stands for
 * all. */
void tool_shard_cut(const tool_context *context, ota_array *a, int k, int64_t total);
/* Every process goes on only where all can: 0, this one's code, or TOOL_SHARD_STOPPED. */
int tool_shard_together(int code);

#endif
