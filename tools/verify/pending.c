/* Requirement ids that no check covers yet, each with the reason. They are never counted as passed. */
#include "check.h"

const tool_pending tool_pending_ids[] = {
    {"NONE", ""},
};
const int tool_pending_count = (int)(sizeof tool_pending_ids / sizeof tool_pending_ids[0]);
