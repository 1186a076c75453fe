/* `otattn attend QUERY KEY VALUE`: out = P V. */
#include "solve_command.h"

int tool_attend(tool_context *context) {
    return tool_solve_command(context, NULL, context->operands[0], context->operands[1],
                              context->operands[2], TOOL_WANT_OUT);
}
