/* `otattn plan SCORES`: the coupling of a matrix of scores or costs. */
#include "solve_command.h"

int tool_plan(tool_context *context) {
    return tool_solve_command(context, context->operands[0], NULL, NULL, NULL, TOOL_WANT_COUPLING);
}
