/* `otattn plan SCORES`: the coupling of a matrix of scores or costs. */
#include "solve_command.h"

int cli_plan(cli_context *context) {
    return cli_solve_command(context, context->operands[0], NULL, NULL, NULL, CLI_WANT_COUPLING);
}
