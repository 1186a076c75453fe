/* libFuzzer on the command line: the input is words, each ended by a NUL, the first the subcommand's. Parsing returns 0 or
 * a refusal with a sentence that is UTF-8 without control characters; what was set parses again to the same settings. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/program.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { WORDS = 24, MOST = 2048 };

static void check_sentence(const char *text) {
    if (text[0] == '\0') abort();
    for (const char *at = text; *at != '\0'; at++)
        if ((unsigned char)*at < 0x20) abort();
    json_t *string = json_string(text);
    if (string == NULL) abort(); /* no UTF-8 */
    json_decref(string);
}

static int parse(const cli_command *command, int count, char **words, cli_context *context) {
    static const int cancel = 0;
    *context = (cli_context){.command = command, .cancel = &cancel};
    return cli_parse(context, count, words);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static char text[MOST + 1];
    char *words[WORDS];
    int count = 0;
    if (size > MOST) return 0;
    if (size > 0) memcpy(text, bytes, size);
    text[size] = '\0';
    for (size_t at = 0; at < size && count < WORDS; at += strlen(text + at) + 1)
        words[count++] = text + at;
    if (count == 0) return 0;
    const cli_command *command = cli_find_command(words[0]);
    /* Any first byte finds a subcommand, or most inputs would end here. */
    if (command == NULL) command = &cli_commands[bytes[0] % cli_command_count];
    cli_context first, second;
    const int code = parse(command, count - 1, words + 1, &first);
    if (code != 0) {
        if (code != CLI_EXIT_USAGE) abort();
        check_sentence(first.error.message);
        return 0;
    }
    if (parse(command, count - 1, words + 1, &second) != 0) abort();
    if (memcmp(&first.settings, &second.settings, sizeof first.settings) != 0) abort();
    if (first.operand_count < command->least && !first.settings.help.asked) abort();
    if (first.operand_count > command->most) abort();
    if (first.settings.method.list != NULL) {
        char *list[64];
        const int found = cli_split_methods(first.settings.method.list, list, 64);
        for (int k = 0; k < found; k++) free(list[k]);
    }
    return 0;
}
