/* `otattn attend QUERY KEY VALUE`: out = P V. */
#include "solve_command.h"

int cli_attend(cli_context *context) {
    return cli_solve_command(context, NULL, context->operands[0], context->operands[1],
                             context->operands[2], CLI_WANT_OUT);
}
