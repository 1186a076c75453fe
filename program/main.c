/* otattn: attention as optimal transport. The entry of the program: finds the subcommand, parses its
 * flags, runs it, and says what went wrong, once, as a sentence and as JSON. */
#include <errno.h>
#include <locale.h>
#include <string.h>

#include "otattn_analysis.h"
#include "program.h"
#include "src/base/program/system_program.h"

/* Written when Ctrl-C comes: the one variable that cannot be anywhere else. */
static int interrupted;

static int refuse_command(cli_context *context, const char *name) {
    const char *words[32];
    int count = 0;
    for (; count < cli_command_count && count < 32; count++)
        words[count] = cli_commands[count].name;
    const char *nearest = cli_nearest(name, strlen(name), words, count);
    char hint[96] = "'otattn help' lists the commands";
    if (nearest != NULL) (void)snprintf(hint, sizeof hint, "did you mean '%s'?", nearest);
    return cli_refuse_flag(context, "command", hint, "unknown command '%.80s'", name);
}

/* The system refuses what is above it, and whoever asked reports that no memory is left. */
static int limit_memory(cli_context *context) {
    const cli_whole *wanted = &context->settings.machine.limit_memory;
    if (!wanted->given || ota_program_limit_memory((uint64_t)wanted->value)) return 0;
    return cli_fail(&context->error, CLI_EXIT_INTERNAL, "memory cannot be limited: %s",
                    strerror(errno));
}

static int run(cli_context *context, int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "help";
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        (void)printf("otattn %s\n", ota_version());
        return 0;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) name = "help";
    context->command = cli_find_command(name);
    if (context->command == NULL) {
        for (int k = 2; k < argc; k++) {
            if (strcmp(argv[k], "--json") == 0) context->settings.output.json = true;
        }
        return refuse_command(context, name);
    }
    int code = cli_parse(context, argc > 2 ? argc - 2 : 0, argv + 2);
    if (code == 0) code = limit_memory(context);
    if (code != 0) return code;
    if (context->settings.help.asked) {
        context->operands[0] = context->command->name;
        context->operand_count = 1;
        return cli_help(context);
    }
    return context->command->run(context);
}

/* What a failure says that came of memory nobody could ask for. */
static int fail_short(cli_context *context, int code) {
    static const ota_error none;
    if (code != CLI_EXIT_LIMIT || context->error.message[0] == '\0')
        code = cli_fail_status(context, OTA_ENOMEM, &none);
    cli_memory_forget();
    return code;
}

/* A reader that has seen enough (`otattn help | head`) closes the pipe. */
static bool reader_has_gone(int cause) {
    return cause == EPIPE || (cause == 0 && ota_reader_has_gone(stdout));
}

int main(int argc, char **argv) {
    /* A library that came with the program may have set another, whose numbers have commas. */
    (void)setlocale(LC_ALL, "C");
    char **arguments = ota_program_begin(argc, argv);
    ota_program_catch_interrupts(&interrupted);
    cli_memory_watch();
    cli_context context = {.warnings = json_array(),
                           .cancel = &interrupted,
                           .analysis = {.size = sizeof context.analysis, .cancel = &interrupted}};
    int code = arguments != NULL ? run(&context, argc, arguments) : fail_short(&context, 0);
    if (cli_memory_short()) code = fail_short(&context, code);
    if (code != 0) cli_report_failure(&context, code);
    if (code == 0 && context.interrupted) code = CLI_EXIT_INTERRUPTED;
    cli_store_free(context.store);
    json_decref(context.warnings);
    json_decref(context.failure);
    /* A full disk shows here at the latest; of an earlier failure the stream keeps no cause. */
    errno = 0;
    if ((fflush(stdout) != 0 || ferror(stdout)) && code == 0) {
        const int cause = errno;
        if (!reader_has_gone(cause))
            (void)fprintf(stderr, "otattn: standard output cannot be written%s%s\n",
                          cause != 0 ? ": " : "", cause != 0 ? strerror(cause) : "");
        code = CLI_EXIT_IO;
    }
    return code;
}
