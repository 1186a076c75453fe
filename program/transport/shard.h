/* shard.h: the rows of one process of many (shard.c). */
#ifndef OTATTN_PROGRAM_SHARD_H
#define OTATTN_PROGRAM_SHARD_H

#include "program/program.h"

enum { TOOL_SHARD_STOPPED = -1 }; /* another process failed and tells */

/* Views of this process's rows; borrows the whole problem and its arrays. */
struct tool_shard {
    ota_communicator with;
    int64_t queries, keys; /* of all processes */
    ota_problem problem;
    ota_arrays arrays;
    ota_term terms[TOOL_MAX_TERMS];
    ota_support supports[TOOL_MAX_SUPPORTS];
};

int tool_shard_open(tool_context *context, const tool_problem *whole, const ota_arrays *arrays,
                    tool_shard *shard);
/* The outputs of all processes into the whole arrays of each. */
int tool_shard_gather(tool_context *context, const tool_shard *shard, const ota_arrays *whole);
/* Backward of the rows of all processes into the whole arrays of each; `result` and `error` as of ota_backward. *code is
 * not 0 where that went well and the gradients could not be gathered. */
ota_status tool_shard_backward(tool_context *context, const tool_shard *shard, ota_plan *plan,
                               const ota_gradients *whole, ota_result *result, ota_error *error,
                               int *code);
/* Every process goes on only where all can: 0, this one's code, or TOOL_SHARD_STOPPED. */
int tool_shard_together(int code);

#endif
