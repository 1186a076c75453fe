/* program/transport/: The subcommands on one problem: attend, plan, compare, align, assign, hamming, certify.
 * problem_flags.c and method_flags.c turn flags and files into an ota_problem; solve.c plans, runs and judges it. It
 * may call the public headers and the rest of the program. Begin with solve_command.c.
 *
 * The common body of `attend` and `plan`. */
#ifndef OTATTN_PROGRAM_SOLVE_COMMAND_H
#define OTATTN_PROGRAM_SOLVE_COMMAND_H

#include "program/program.h"

/* Builds the problem from the operands (`scores`, or the other three), solves it, writes every output
 * asked for (`main_output` is the CLI_WANT_ bit that -o stands for), prints JSON or the summary. */
int cli_solve_command(cli_context *context, const char *scores, const char *queries,
                      const char *keys, const char *values, unsigned main_output);

#endif
