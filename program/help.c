/* `otattn help`: the overview, a command, a topic, and the manual pages, all from the tables of table.c
 * and topics.c. One writer with two faces: plain text for the terminal, roff for man. */
#include <string.h>

#include "program.h"
#include "topics.h"

enum { PAGE = 88 };

/* Words of `text` filled into lines of PAGE columns; every line starts with `indent` blanks, the first
 * one at column `at`. */
static void fill(const char *text, size_t length, int indent, int at) {
    const char *end = text + length;
    int column = at;
    for (bool first = true; text < end; first = false) {
        text += strspn(text, " ");
        size_t word = strcspn(text, " \n");
        if (word > (size_t)(end - text)) word = (size_t)(end - text);
        if (word == 0) break;
        if (!first && column + 1 + (int)word > PAGE) {
            (void)printf("\n%*s", indent, "");
            column = indent;
        } else if (!first) {
            (void)putchar(' ');
            column++;
        }
        (void)printf("%.*s", (int)word, text);
        column += (int)word;
        text += word;
    }
    (void)putchar('\n');
}

/* roff reads `\` and, at the start of a line, `.` and `'` as its own. */
static void print_roff(const char *text, size_t length) {
    for (size_t k = 0; k < length; k++) {
        if (k == 0 && (text[k] == '.' || text[k] == '\'')) (void)fputs("\\&", stdout);
        if (text[k] == '\\')
            (void)fputs("\\e", stdout);
        else if (text[k] == '-')
            (void)fputs("\\-", stdout);
        else
            (void)putchar(text[k]);
    }
}

static void print_topic(const cli_topic *topic, bool roff) {
    for (const char *line = topic->text; *line != '\0';) {
        const size_t length = strcspn(line, "\n");
        const bool kept = line[0] == ' ';
        if (roff && kept) (void)fputs(".nf\n", stdout);
        if (roff && length == 0)
            (void)fputs(".PP", stdout);
        else if (roff)
            print_roff(line, length);
        if (roff)
            (void)putchar('\n');
        else if (kept || length == 0)
            (void)printf("%.*s\n", (int)length, line);
        else
            fill(line, length, 0, 0);
        if (roff && kept) (void)fputs(".fi\n", stdout);
        line += length + (line[length] == '\n' ? 1 : 0);
    }
}

/* "-m, --method M" */
static void flag_heading(const cli_flag *flag, char *text, size_t size) {
    char letter[8] = "";
    if (flag->letter != 0) (void)snprintf(letter, sizeof letter, "-%c, ", flag->letter);
    const char *form = flag->form == NULL ? "" : flag->form;
    const char *before = flag->form == NULL ? "" : flag->optional ? "[=" : " ";
    (void)snprintf(text, size, "%s--%s%s%s%s", letter, flag->name, before, form,
                   flag->optional ? "]" : "");
}

/* Help sentence with choices and default. */
static void flag_sentence(const cli_flag *flag, char *text, size_t size) {
    const char *choices = cli_flag_words(flag);
    (void)snprintf(text, size, "%s%s%s%s%s%s", flag->help, choices != NULL ? ": " : "",
                   choices != NULL ? choices : "", flag->standard != NULL ? " (" : "",
                   flag->standard != NULL ? flag->standard : "", flag->standard != NULL ? ")" : "");
}

static void print_flags(unsigned commands, bool roff) {
    for (int group = 0; group < cli_group_count; group++) {
        bool headed = false;
        for (int k = 0; k < cli_flag_count; k++) {
            const cli_flag *flag = &cli_flags[k];
            if (flag->group != group || (flag->commands & commands) == 0) continue;
            char heading[96], sentence[400];
            flag_heading(flag, heading, sizeof heading);
            flag_sentence(flag, sentence, sizeof sentence);
            if (roff) {
                if (!headed) (void)printf(".SS %s\n", cli_groups[group]);
                (void)fputs(".TP\n.B ", stdout);
                print_roff(heading, strlen(heading));
                (void)putchar('\n');
                print_roff(sentence, strlen(sentence));
                (void)putchar('\n');
            } else {
                enum { INDENT = 30 };
                if (!headed) (void)printf("\n%s\n", cli_groups[group]);
                const int column = printf("  %s", heading);
                if (column + 2 > INDENT)
                    (void)printf("\n%*s", INDENT, "");
                else
                    (void)printf("%*s", INDENT - column, "");
                fill(sentence, strlen(sentence), INDENT, INDENT);
            }
            headed = true;
        }
    }
}

static void print_command(const cli_command *command) {
    (void)printf("otattn %s%s%s [flags]\n\n", command->name,
                 command->operands[0] != '\0' ? " " : "", command->operands);
    fill(command->details, strlen(command->details), 0, 0);
    (void)printf("\nExample\n  %s\n", command->example);
    print_flags(command->bit, false);
}

static void print_overview(void) {
    (void)printf("otattn %s: attention as optimal transport\n\nCommands\n", ota_version());
    for (int k = 0; k < cli_command_count; k++) {
        (void)printf("  %-12s %s\n", cli_commands[k].name, cli_commands[k].summary);
    }
    (void)fputs("\nTopics (otattn help TOPIC)\n", stdout);
    for (int k = 0; k < cli_topic_count; k++) {
        (void)printf("  %-12s %s\n", cli_topics[k].name, cli_topics[k].summary);
    }
    (void)fputs("\nExamples\n", stdout);
    for (int k = 0; k < cli_command_count && k < 3; k++)
        (void)printf("  %s\n", cli_commands[k].example);
    (void)fputs("\n'otattn COMMAND --help' lists a command's flags. Start with 'otattn demo'.\n",
                stdout);
}

static void print_capitals(const char *name) {
    for (const char *letter = name; *letter != '\0'; letter++) {
        const bool small = *letter >= 'a' && *letter <= 'z';
        (void)putchar(small ? *letter - 'a' + 'A' : *letter == '-' ? ' ' : *letter);
    }
}

static void print_roff_line(const char *text) {
    print_roff(text, strlen(text));
    (void)putchar('\n');
}

/* otattn-NAME(1). */
static void print_command_page(const cli_command *command) {
    (void)fputs(".TH OTATTN\\-", stdout);
    print_capitals(command->name);
    (void)printf(" 1 \"\" \"otattn %s\" \"User Commands\"\n.SH NAME\notattn\\-%s \\- ",
                 ota_version(), command->name);
    print_roff_line(command->summary);
    (void)printf(".SH SYNOPSIS\n.B otattn %s\n", command->name);
    if (command->operands[0] != '\0') (void)printf(".I %s\n", command->operands);
    (void)fputs("[flags]\n.SH DESCRIPTION\n", stdout);
    print_roff_line(command->details);
    (void)fputs(".SH FLAGS\n", stdout);
    print_flags(command->bit, true);
    (void)fputs(".SH EXAMPLES\n.nf\n", stdout);
    print_roff_line(command->example);
    (void)fputs(".fi\n.SH SEE ALSO\n.BR otattn (1)\n", stdout);
}

/* otattn(1): commands, each with a page of its own, and topics. */
static void print_man_page(void) {
    (void)printf(".TH OTATTN 1 \"\" \"otattn %s\" \"User Commands\"\n"
                 ".SH NAME\notattn \\- attention as optimal transport\n.SH SYNOPSIS\n"
                 ".B otattn\n.I command\n[operands] [flags]\n.SH COMMANDS\n",
                 ota_version());
    for (int k = 0; k < cli_command_count; k++) {
        (void)printf(".TP\n.BR otattn\\-%s (1)\n", cli_commands[k].name);
        print_roff_line(cli_commands[k].summary);
    }
    for (int k = 0; k < cli_topic_count; k++) {
        (void)fputs(".SH ", stdout);
        print_capitals(cli_topics[k].name);
        (void)putchar('\n');
        print_topic(&cli_topics[k], true);
    }
    (void)fputs(".SH EXAMPLES\n.nf\n", stdout);
    for (int k = 0; k < cli_command_count; k++) print_roff_line(cli_commands[k].example);
    (void)fputs(".fi\n", stdout);
}

static int print_json(void) {
    json_t *commands = json_array(), *flags = json_array(), *topics = json_array();
    for (int k = 0; k < cli_command_count; k++) {
        const cli_command *row = &cli_commands[k];
        (void)json_array_append_new(commands,
                                    json_pack("{ssssssssss}", "name", row->name, "operands",
                                              row->operands, "summary", row->summary, "details",
                                              row->details, "example", row->example));
    }
    for (int k = 0; k < cli_flag_count; k++) {
        const cli_flag *row = &cli_flags[k];
        json_t *owners = json_array();
        for (int j = 0; j < cli_command_count; j++) {
            if ((row->commands & cli_commands[j].bit) == 0) continue;
            (void)json_array_append_new(owners, json_string(cli_commands[j].name));
        }
        char heading[96], sentence[400];
        flag_heading(row, heading, sizeof heading);
        flag_sentence(row, sentence, sizeof sentence);
        (void)json_array_append_new(flags, json_pack("{ssssssss?ssssso}", "name", row->name,
                                                     "heading", heading, "sentence", sentence,
                                                     "value", row->form, "help", row->help, "group",
                                                     cli_groups[row->group], "commands", owners));
    }
    for (int k = 0; k < cli_topic_count; k++) {
        (void)json_array_append_new(topics,
                                    json_pack("{ssssss}", "name", cli_topics[k].name, "summary",
                                              cli_topics[k].summary, "text", cli_topics[k].text));
    }
    return cli_print_json(stdout,
                          json_pack("{sssssososo}", "command", "help", "version", ota_version(),
                                    "commands", commands, "flags", flags, "topics", topics));
}

static int refuse_topic(cli_context *context, const char *name) {
    const char *words[64];
    int count = 0;
    for (int k = 0; k < cli_command_count; k++) words[count++] = cli_commands[k].name;
    for (int k = 0; k < cli_topic_count; k++) words[count++] = cli_topics[k].name;
    const char *nearest = cli_nearest(name, strlen(name), words, count);
    char hint[96] = "'otattn help' lists commands and topics";
    if (nearest != NULL) (void)snprintf(hint, sizeof hint, "did you mean '%s'?", nearest);
    return cli_refuse_flag(context, "topic", hint, "there is no help on '%.80s'", name);
}

int cli_help(cli_context *context) {
    const char *name = context->operand_count > 0 ? context->operands[0] : NULL;
    const cli_command *command = name != NULL ? cli_find_command(name) : NULL;
    const cli_topic *topic = NULL;
    for (int k = 0; k < cli_topic_count && name != NULL; k++) {
        if (strcmp(cli_topics[k].name, name) == 0) topic = &cli_topics[k];
    }
    if (name != NULL && command == NULL && topic == NULL) return refuse_topic(context, name);
    if (context->settings.output.json) return print_json();
    if (context->settings.help.man && command != NULL)
        print_command_page(command);
    else if (context->settings.help.man)
        print_man_page();
    else if (command != NULL)
        print_command(command);
    else if (topic != NULL)
        print_topic(topic, false);
    else
        print_overview();
    return 0;
}
