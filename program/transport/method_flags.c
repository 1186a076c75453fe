/* A method as it stands on the command line: its name goes to the library, the options in its braces
 * are flags that hold for this method alone, and lists of methods are cut at the right commas. */
#include <stdlib.h>
#include <string.h>

#include "program/program.h"

static int apply_brace(cli_context *context, char *name, const char *value, cli_flag_set *given,
                       cli_problem *problem) {
    for (char *letter = name; *letter != '\0'; letter++) {
        if (*letter == '_') *letter = '-';
    }
    const cli_flag *flag = cli_find_flag(name, strlen(name), context->command->bit);
    if (flag == NULL || !flag->in_method) {
        const char *words[128];
        int count = 0;
        for (int k = 0; k < cli_flag_count && count < 128; k++) {
            if (cli_flags[k].in_method) words[count++] = cli_flags[k].name;
        }
        const char *nearest = cli_nearest(name, strlen(name), words, count);
        char hint[96] = "'otattn help methods' tells what braces may hold";
        if (nearest != NULL) (void)snprintf(hint, sizeof hint, "did you mean '%s'?", nearest);
        return cli_refuse_flag(context, "method", hint, "'%.60s' is no option of a method", name);
    }
    if (flag->form != NULL && value == NULL && !flag->optional) {
        return cli_refuse_flag(context, "method", NULL, "option '%s' of a method needs =VALUE",
                               name);
    }
    if (cli_flag_again(given, flag)) {
        return cli_refuse_flag(context, "method", "leave one of them out",
                               "option '%s' of a method is given twice", name);
    }
    return cli_set_flag(&problem->settings, flag, value, &context->error);
}

/* problem->texts holds "name{a=1,b=2}": cuts it up in place and applies the options. A comma separates
 * options when a letter follows it and the word there has an = or is a switch; else it belongs to the
 * value ("anneal=8:.5,keep-v", "alibi=.5,.25"). */
static int apply_braces(cli_context *context, cli_problem *problem) {
    char *open = strchr(problem->texts, '{');
    if (open == NULL) return 0;
    char *close = strrchr(open, '}');
    if (close == NULL || close[1] != '\0') {
        return cli_refuse_flag(context, "method", "write method{option=value,...}",
                               "the braces of method '%.80s' do not end", problem->texts);
    }
    *open = *close = '\0';
    cli_flag_set given = {{0}};
    for (char *at = open + 1; *at != '\0';) {
        char *end = at;
        for (;;) {
            end += strcspn(end, ",");
            if (*end == '\0') break;
            const char *next = end + 1;
            const size_t word = strcspn(next, "=,");
            char name[64];
            (void)snprintf(name, sizeof name, "%.*s", (int)(word < 63 ? word : 63), next);
            const cli_flag *flag = cli_find_flag(name, strlen(name), ~0U);
            const bool letter = (*next | 32) >= 'a' && (*next | 32) <= 'z';
            if (letter && (next[word] == '=' || (flag != NULL && flag->form == NULL))) break;
            end++;
        }
        const bool last = *end == '\0';
        *end = '\0';
        char *equals = strchr(at, '=');
        if (equals != NULL) *equals = '\0';
        const int code =
            apply_brace(context, at, equals == NULL ? NULL : equals + 1, &given, problem);
        if (code != 0) return code;
        if (last) break;
        at = end + 1;
    }
    return 0;
}

int cli_apply_method(cli_context *context, const char *method, cli_problem *problem) {
    if (strlen(method) >= sizeof problem->texts) {
        return cli_refuse_flag(context, "method", NULL,
                               "the method has %zu letters, at most %zu fit", strlen(method),
                               sizeof problem->texts - 1);
    }
    memcpy(problem->texts, method, strlen(method) + 1);
    int code = apply_braces(context, problem);
    if (code != 0) return code;
    const char *comma = strchr(problem->texts, ',');
    if (comma != NULL && ((comma[1] | 32) >= 'a' && (comma[1] | 32) <= 'z')) {
        return cli_refuse_flag(context, "method", "'otattn compare --methods' takes a list",
                               "'%.80s' is more than one method", problem->texts);
    }
    ota_error error = {.message = ""};
    const ota_status status = ota_method_parse(problem->texts, &problem->problem, NULL, &error);
    if (status < 0) return cli_fail_status(context, status, &error);
    (void)ota_method_name(&problem->problem, problem->method, sizeof problem->method);
    return 0;
}

int cli_split_methods(const char *text, char **words, int most) {
    int count = 0;
    while (*text != '\0') {
        size_t length = 0;
        int depth = 0;
        for (; text[length] != '\0'; length++) {
            const char letter = text[length], next = text[length + 1];
            depth += letter == '{' ? 1 : letter == '}' ? -1 : 0;
            if (letter == ',' && depth == 0 && !(next >= '0' && next <= '9')) break;
        }
        char *word = count < most ? malloc(length + 1) : NULL;
        if (word == NULL) {
            if (count < most) cli_memory_note();
            while (count > 0) free(words[--count]);
            return -1;
        }
        memcpy(word, text, length);
        word[length] = '\0';
        words[count++] = word;
        text += length + (text[length] == ',' ? 1 : 0);
    }
    return count;
}
