/* From words to settings: --flag value, --flag=value, -f value, -fvalue; flags and operands in any
 * order; `--` ends the flags; `-` alone is an operand (standard input). */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"
#include "src/base/integers.h"

/* ---- numbers ---- */

bool cli_number(const char *text, double *value) {
    /* strtod would take blanks, hexadecimal, inf and nan too. */
    if (text[0] == '\0' || text[strspn(text, "0123456789.eE+-")] != '\0') return false;
    char *end;
    *value = strtod(text, &end);
    return *end == '\0' && isfinite(*value);
}

bool cli_integer(const char *text, int64_t *value) {
    const char *digits = text + (text[0] == '-' ? 1 : 0);
    if (digits[0] == '\0' || digits[strspn(digits, "0123456789")] != '\0') return false;
    errno = 0;
    const long long parsed = strtoll(text, NULL, 10);
    *value = parsed;
    return errno == 0;
}

bool cli_logit(const char *text, double *value) {
    if (strcmp(text, "-inf") != 0) return cli_number(text, value);
    *value = -INFINITY;
    return true;
}

static int list_of(bool (*one)(const char *text, double *value), const char *text, double *values,
                   int most) {
    int count = 0;
    for (;;) {
        const size_t length = strcspn(text, ",");
        char copy[64];
        if (count == most || length >= sizeof copy) return -1;
        memcpy(copy, text, length);
        copy[length] = '\0';
        if (!one(copy, &values[count++])) return -1;
        if (text[length] == '\0') return count;
        text += length + 1;
    }
}

int cli_numbers(const char *text, double *values, int most) {
    return list_of(cli_number, text, values, most);
}

int cli_logits(const char *text, double *values, int most) {
    return list_of(cli_logit, text, values, most);
}

/* ---- parse functions of the flag table ---- */

static int refuse_value(const cli_flag *flag, const char *text, const char *wanted,
                        cli_error *error) {
    (void)snprintf(error->field, sizeof error->field, "%s", flag->name);
    const int code =
        cli_fail(error, CLI_EXIT_USAGE, "--%s '%.80s' is not %s", flag->name, text, wanted);
    (void)cli_hint(error, "write --%s %s", flag->name, flag->form);
    return code;
}

int cli_parse_switch(const cli_flag *flag, const char *text, void *field, cli_error *error) {
    (void)flag, (void)text, (void)error;
    *(bool *)field = true;
    return 0;
}

static int refuse_empty(const cli_flag *flag, cli_error *error) {
    (void)snprintf(error->field, sizeof error->field, "%s", flag->name);
    const int code = cli_fail(error, CLI_EXIT_USAGE, "--%s is empty", flag->name);
    (void)cli_hint(error, "write --%s %s", flag->name, flag->form);
    return code;
}

int cli_parse_words(const cli_flag *flag, const char *text, void *field, cli_error *error) {
    (void)flag, (void)error;
    *(const char **)field = text;
    return 0;
}

int cli_parse_text(const cli_flag *flag, const char *text, void *field, cli_error *error) {
    if (text[0] == '\0' && !flag->optional) return refuse_empty(flag, error);
    *(const char **)field = text;
    return 0;
}

int cli_parse_list(const cli_flag *flag, const char *text, void *field, cli_error *error) {
    cli_list *list = field;
    if (text[0] == '\0') return refuse_empty(flag, error);
    if (list->count == CLI_MAX_LIST) {
        (void)snprintf(error->field, sizeof error->field, "%s", flag->name);
        return cli_fail(error, CLI_EXIT_USAGE, "--%s is given more than %d times", flag->name,
                        CLI_MAX_LIST);
    }
    list->items[list->count++] = text;
    return 0;
}

int cli_parse_choice(const cli_flag *flag, const char *text, void *field, cli_error *error) {
    const char *words[16];
    char copies[16][32];
    const char *choices = cli_flag_words(flag);
    int count = 0;
    for (const char *at = choices; *at != '\0' && count < 16;) {
        const size_t length = strcspn(at, " ");
        (void)snprintf(copies[count], sizeof copies[count], "%.*s", (int)length, at);
        words[count] = copies[count];
        if (strcmp(words[count], text) == 0) {
            *(const char **)field = text;
            return 0;
        }
        count++;
        at += length + (at[length] == ' ' ? 1 : 0);
    }
    if (text[0] == '\0' && flag->optional) {
        *(const char **)field = text;
        return 0;
    }
    (void)snprintf(error->field, sizeof error->field, "%s", flag->name);
    const int code =
        cli_fail(error, CLI_EXIT_USAGE, "--%s '%.60s' is none of: %s", flag->name, text, choices);
    const char *nearest = cli_nearest(text, strlen(text), words, count);
    if (nearest != NULL)
        (void)cli_hint(error, "did you mean '%s'?", nearest);
    else
        (void)cli_hint(error, "write --%s followed by one of these words", flag->name);
    return code;
}

int cli_parse_positive(const cli_flag *flag, const char *text, void *field, cli_error *error) {
    cli_real *real = field;
    if (!cli_number(text, &real->value) || !(real->value > 0.0)) {
        return refuse_value(flag, text, "a number above 0", error);
    }
    real->given = true;
    return 0;
}

static int parse_whole(const cli_flag *flag, const char *text, int64_t least, const char *wanted,
                       void *field, cli_error *error) {
    cli_whole *whole = field;
    if (!cli_integer(text, &whole->value) || whole->value < least) {
        return refuse_value(flag, text, wanted, error);
    }
    whole->given = true;
    return 0;
}

int cli_parse_count(const cli_flag *flag, const char *text, void *field, cli_error *error) {
    return parse_whole(flag, text, 0, "a whole number, 0 or more", field, error);
}

int cli_parse_natural(const cli_flag *flag, const char *text, void *field, cli_error *error) {
    return parse_whole(flag, text, 1, "a whole number above 0", field, error);
}

/* ---- flags ---- */

const cli_flag *cli_find_flag(const char *name, size_t length, unsigned commands) {
    for (int k = 0; k < cli_flag_count; k++) {
        const cli_flag *flag = &cli_flags[k];
        if ((flag->commands & commands) != 0 && strlen(flag->name) == length &&
            memcmp(flag->name, name, length) == 0) {
            return flag;
        }
    }
    return NULL;
}

static const cli_flag *find_letter(char letter, unsigned commands) {
    for (int k = 0; k < cli_flag_count; k++) {
        const cli_flag *flag = &cli_flags[k];
        if ((flag->commands & commands) != 0 && flag->letter == letter) return flag;
    }
    return NULL;
}

bool cli_flag_again(cli_flag_set *given, const cli_flag *flag) {
    const unsigned number = (unsigned)(flag - cli_flags);
    uint64_t *word = &given->words[number / 64];
    const uint64_t bit = UINT64_C(1) << (number % 64);
    const bool again = (*word & bit) != 0;
    *word |= bit;
    return again && flag->form != NULL && flag->parse != cli_parse_list;
}

int cli_set_flag(cli_settings *settings, const cli_flag *flag, const char *text, cli_error *error) {
    if (flag->form == NULL && text != NULL) {
        (void)snprintf(error->field, sizeof error->field, "%s", flag->name);
        return cli_fail(error, CLI_EXIT_USAGE, "--%s takes no value, but '%.60s' was given",
                        flag->name, text);
    }
    return flag->parse(flag, text == NULL ? "" : text, (char *)settings + flag->offset, error);
}

static int refuse_unknown(cli_context *context, const char *text, const char *name, size_t length) {
    const char *words[128];
    int count = 0;
    for (int k = 0; k < cli_flag_count && count < 128; k++) {
        if ((cli_flags[k].commands & context->command->bit) != 0)
            words[count++] = cli_flags[k].name;
    }
    const cli_flag *elsewhere = cli_find_flag(name, length, ~0U);
    char field[64];
    (void)snprintf(field, sizeof field, "%.*s", (int)(length < 63 ? length : 63), name);
    if (elsewhere != NULL) {
        /* Several rows may have one name; all commands fit. */
        unsigned bits = 0;
        for (int k = 0; k < cli_flag_count; k++)
            if (strcmp(cli_flags[k].name, elsewhere->name) == 0) bits |= cli_flags[k].commands;
        char owners[256] = "";
        for (int k = 0; k < cli_command_count; k++) {
            if ((bits & cli_commands[k].bit) == 0) continue;
            const size_t used = strlen(owners);
            (void)snprintf(owners + used, sizeof owners - used, "%s%s", used > 0 ? ", " : "",
                           cli_commands[k].name);
        }
        return cli_refuse_flag(context, field, NULL, "%s has no flag --%s: it belongs to %s",
                               context->command->name, elsewhere->name, owners);
    }
    const char *nearest = cli_nearest(name, length, words, count);
    char hint[128];
    if (nearest != NULL)
        (void)snprintf(hint, sizeof hint, "did you mean '--%s'?", nearest);
    else
        (void)snprintf(hint, sizeof hint, "'otattn %s --help' lists the flags",
                       context->command->name);
    return cli_refuse_flag(context, field, hint, "unknown flag '%.80s'", text);
}

/* One word that starts with `-`; *next is advanced when it takes the word after it as its value. */
static int parse_flag(cli_context *context, int argc, char **argv, int *next, cli_flag_set *given) {
    const char *word = argv[*next - 1];
    const bool is_long = word[1] == '-';
    const char *name = word + (is_long ? 2 : 1);
    const size_t length = is_long ? strcspn(name, "=") : 1;
    const cli_flag *flag = is_long ? cli_find_flag(name, length, context->command->bit)
                                   : find_letter(name[0], context->command->bit);
    if (flag == NULL) return refuse_unknown(context, word, name, length);
    if (cli_flag_again(given, flag)) {
        return cli_refuse_flag(context, flag->name, "leave one of them out",
                               "--%s is given twice, and it takes one value", flag->name);
    }
    const char *value = NULL;
    if (is_long && name[length] == '=')
        value = name + length + 1;
    else if (!is_long && name[1] != '\0')
        value = name + 1;
    if (flag->form != NULL && value == NULL && !flag->optional) {
        if (*next == argc) {
            char hint[128];
            (void)snprintf(hint, sizeof hint, "write --%s %s", flag->name, flag->form);
            return cli_refuse_flag(context, flag->name, hint, "--%s needs a value", flag->name);
        }
        value = argv[(*next)++];
    }
    return cli_set_flag(&context->settings, flag, value, &context->error);
}

/* Where --threads is not given, OMP_NUM_THREADS says how many, of a list of them the first; what is no such number says nothing. */
static void take_environment(cli_settings *settings) {
    const char *text = getenv("OMP_NUM_THREADS");
    cli_whole *threads = &settings->machine.threads;
    char first[16];
    if (threads->given || text == NULL) return;
    while (*text == ' ') text++;
    const size_t length = strcspn(text, ", ");
    if (length >= sizeof first) return;
    memcpy(first, text, length);
    first[length] = '\0';
    int64_t number;
    if (!cli_integer(first, &number) || number < 1) return;
    *threads = (cli_whole){.given = true, .value = ota_int_min(number, CLI_THREADS_MAX)};
}

int cli_parse(cli_context *context, int argc, char **argv) {
    /* Known before the first error, so that every refusal can be said in JSON. */
    for (int k = 0; k < argc && strcmp(argv[k], "--") != 0; k++) {
        if (strcmp(argv[k], "--json") == 0) context->settings.output.json = true;
    }
    const cli_command *command = context->command;
    cli_flag_set given = {{0}};
    bool flags = true;
    for (int next = 0; next < argc;) {
        const char *word = argv[next++];
        if (flags && strcmp(word, "--") == 0) {
            flags = false;
        } else if (flags && word[0] == '-' && word[1] != '\0') {
            const int code = parse_flag(context, argc, argv, &next, &given);
            if (code != 0) return code;
        } else if (context->operand_count == command->most) {
            return cli_refuse_flag(context, "operands", NULL,
                                   "'%.80s' is one operand too many: %s takes %s", word,
                                   command->name, command->most == 0 ? "none" : command->operands);
        } else {
            context->operands[context->operand_count++] = word;
        }
    }
    if (!context->settings.help.asked && context->operand_count < command->least) {
        char hint[128];
        (void)snprintf(hint, sizeof hint, "write 'otattn %s %s'", command->name, command->operands);
        return cli_refuse_flag(context, "operands", hint, "%s needs %s", command->name,
                               command->operands);
    }
    take_environment(&context->settings);
    return 0;
}
