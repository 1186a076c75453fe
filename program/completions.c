/* `otattn completions SHELL`: scripts made from the tables. Files are completed where a flag takes an
 * array or names an output; words where the table lists them. */
#include <string.h>

#include "program.h"
#include "topics.h"

static const char *const methods =
    "softmax sparsemax entmax:1.5 hard softmax/exact softmax/relaxed:1 softmax/capped:2 "
    "softmax/elastic:0.5,4 softmax/prefix softmax/online:2 hard/exact";
static const char *const shells = "bash zsh fish";

/* The words that may follow a flag, or NULL when only files or numbers may. */
static const char *words_of(const cli_flag *flag) {
    if (strcmp(flag->name, "method") == 0 || strcmp(flag->name, "methods") == 0) return methods;
    return cli_flag_words(flag);
}

static bool takes_file(const cli_flag *flag) {
    return flag->form != NULL && strchr(flag->form, 'F') != NULL && cli_flag_words(flag) == NULL;
}

static void print_command_names(const char *between) {
    for (int k = 0; k < cli_command_count; k++) {
        (void)printf("%s%s", k > 0 ? between : "", cli_commands[k].name);
    }
}

static void print_topic_names(void) {
    for (int k = 0; k < cli_topic_count; k++) (void)printf(" %s", cli_topics[k].name);
}

static void print_bash(void) {
    (void)fputs(
        "# bash completion for otattn\n_otattn() {\n"
        "    local current=\"${COMP_WORDS[COMP_CWORD]}\" previous=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
        "    COMPREPLY=()\n"
        "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
        "        COMPREPLY=($(compgen -W \"",
        stdout);
    print_command_names(" ");
    (void)fputs(" --help --version\" -- \"$current\"))\n        return\n    fi\n    case "
                "\"$previous\" in\n",
                stdout);
    for (int k = 0; k < cli_flag_count; k++) {
        const cli_flag *flag = &cli_flags[k];
        if (flag->form == NULL || flag->optional) continue;
        if (flag->letter != 0)
            (void)printf("    -%c|", flag->letter);
        else
            (void)fputs("    ", stdout);
        (void)printf("--%s) ", flag->name);
        if (words_of(flag) != NULL) {
            (void)printf("COMPREPLY=($(compgen -W \"%s\" -- \"$current\"))", words_of(flag));
        } else {
            (void)fputs(takes_file(flag) ? "COMPREPLY=($(compgen -f -- \"$current\"))" : ":",
                        stdout);
        }
        (void)fputs("; return ;;\n", stdout);
    }
    (void)fputs("    esac\n    case \"${COMP_WORDS[1]}:$current\" in\n", stdout);
    for (int k = 0; k < cli_command_count; k++) {
        (void)printf("    %s:-*) COMPREPLY=($(compgen -W \"", cli_commands[k].name);
        for (int j = 0; j < cli_flag_count; j++) {
            if ((cli_flags[j].commands & cli_commands[k].bit) != 0) {
                (void)printf("--%s ", cli_flags[j].name);
            }
        }
        (void)fputs("\" -- \"$current\")) ;;\n", stdout);
    }
    (void)fputs("    help:*) COMPREPLY=($(compgen -W \"", stdout);
    print_command_names(" ");
    print_topic_names();
    (void)printf("\" -- \"$current\")) ;;\n"
                 "    completions:*) COMPREPLY=($(compgen -W \"%s\" -- \"$current\")) ;;\n"
                 "    *) COMPREPLY=($(compgen -f -- \"$current\")) ;;\n    esac\n}\n"
                 "complete -o filenames -F _otattn otattn\n",
                 shells);
}

/* Text inside '...[...]' of _arguments: its own marks are escaped, single quotes doubled up. */
static void print_quoted(const char *text) {
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            (void)fputs("'\\''", stdout);
        else if (strchr("[]:\\", *text) != NULL)
            (void)printf("\\%c", *text);
        else
            (void)putchar(*text);
    }
}

static void print_zsh(void) {
    (void)fputs("#compdef otattn\n# zsh completion for otattn\n_otattn() {\n    if (( CURRENT == 2 "
                ")); then\n"
                "        local -a commands=(\n",
                stdout);
    for (int k = 0; k < cli_command_count; k++) {
        (void)printf("            '%s:", cli_commands[k].name);
        print_quoted(cli_commands[k].summary);
        (void)fputs("'\n", stdout);
    }
    (void)fputs(
        "        )\n        _describe command commands\n        return\n    fi\n"
        "    local command=$words[2]\n    shift words\n    (( CURRENT-- ))\n    case $command in\n",
        stdout);
    for (int k = 0; k < cli_command_count; k++) {
        (void)printf("    %s)\n        _arguments -S", cli_commands[k].name);
        for (int j = 0; j < cli_flag_count; j++) {
            const cli_flag *flag = &cli_flags[j];
            if ((flag->commands & cli_commands[k].bit) == 0) continue;
            (void)printf(" \\\n            '--%s%s[", flag->name,
                         flag->form == NULL ? ""
                         : flag->optional   ? "=-"
                                            : "=");
            print_quoted(flag->help);
            (void)putchar(']');
            if (flag->form != NULL) {
                (void)fputs(flag->optional ? "::value:" : ":value:", stdout);
                if (words_of(flag) != NULL)
                    (void)printf("(%s)", words_of(flag));
                else if (takes_file(flag))
                    (void)fputs("_files", stdout);
            }
            (void)putchar('\'');
        }
        if (strcmp(cli_commands[k].name, "help") == 0) {
            (void)fputs(" \\\n            '*::(", stdout);
            print_command_names(" ");
            print_topic_names();
            (void)fputs(")'\n        ;;\n", stdout);
        } else if (strcmp(cli_commands[k].name, "completions") == 0) {
            (void)printf(" \\\n            '*::(%s)'\n        ;;\n", shells);
        } else {
            (void)fputs(" \\\n            '*::_files'\n        ;;\n", stdout);
        }
    }
    (void)fputs("    esac\n}\n_otattn \"$@\"\n", stdout);
}

static void print_fish(void) {
    (void)fputs("# fish completion for otattn\n", stdout);
    for (int k = 0; k < cli_command_count; k++) {
        (void)printf("complete -c otattn -f -n __fish_use_subcommand -a %s -d '",
                     cli_commands[k].name);
        for (const char *at = cli_commands[k].summary; *at != '\0'; at++) {
            if (*at == '\'') (void)putchar('\\');
            (void)putchar(*at);
        }
        (void)fputs("'\n", stdout);
    }
    for (int j = 0; j < cli_flag_count; j++) {
        const cli_flag *flag = &cli_flags[j];
        (void)fputs("complete -c otattn -n '__fish_seen_subcommand_from", stdout);
        for (int k = 0; k < cli_command_count; k++) {
            if ((flag->commands & cli_commands[k].bit) != 0)
                (void)printf(" %s", cli_commands[k].name);
        }
        (void)printf("' -l %s", flag->name);
        if (flag->letter != 0) (void)printf(" -s %c", flag->letter);
        if (flag->form != NULL && !flag->optional)
            (void)fputs(takes_file(flag) ? " -r -F" : " -x", stdout);
        if (words_of(flag) != NULL) (void)printf(" -a '%s'", words_of(flag));
        (void)fputs(" -d '", stdout);
        for (const char *at = flag->help; *at != '\0'; at++) {
            if (*at == '\'' || *at == '\\') (void)putchar('\\');
            (void)putchar(*at);
        }
        (void)fputs("'\n", stdout);
    }
    (void)fputs("complete -c otattn -f -n '__fish_seen_subcommand_from help' -a '", stdout);
    print_command_names(" ");
    print_topic_names();
    (void)printf("'\ncomplete -c otattn -f -n '__fish_seen_subcommand_from completions' -a '%s'\n",
                 shells);
}

typedef struct shell_row {
    const char *name;
    void (*print)(void);
} shell_row;

static const shell_row rows[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};

int cli_completions(cli_context *context) {
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        if (strcmp(rows[k].name, context->operands[0]) == 0) {
            rows[k].print();
            return 0;
        }
    }
    char hint[64];
    (void)snprintf(hint, sizeof hint, "write one of: %s", shells);
    return cli_refuse_flag(context, "shell", hint, "there are no completions for '%.40s'",
                           context->operands[0]);
}
