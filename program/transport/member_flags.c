/* Flags whose value is a member of ota_options or ota_problem as it stands: the flag names the member (cli_flag.sets), and kind,
 * words and range are those of its row (src/problem/fields.h). */
#include <inttypes.h>
#include <string.h>

#include "program/program.h"
#include "src/problem/fields.h"

static int refuse_range(cli_context *context, const cli_flag *flag, const ota_field *f,
                        double value) {
    char hint[64];
    if (f->kind == OTA_FIELD_REAL)
        (void)snprintf(hint, sizeof hint, "use at most %g", f->high);
    else
        (void)snprintf(hint, sizeof hint, "use 1 to %g", f->high);
    return cli_refuse_flag(context, flag->name, hint, "--%s is %g", flag->name, value);
}

static int index_of(const char *word, const char *words) {
    const size_t length = strlen(word);
    int index = 0;
    for (;; index++) {
        const size_t next = strcspn(words, " ");
        if (next == length && memcmp(words, word, length) == 0) return index;
        if (words[next] == '\0') return 0;
        words += next + 1;
    }
}

/* A number that was given, into a member of its row's kind. */
static void put_whole(const ota_field *f, int64_t value, char *member) {
    const int narrow = (int)value;
    if (f->bytes == sizeof value)
        memcpy(member, &value, sizeof value);
    else
        memcpy(member, &narrow, sizeof narrow);
}

static int set_member(cli_context *context, const cli_flag *flag, const ota_field *f,
                      const void *given, char *member) {
    if (f->kind == OTA_FIELD_FLAG) {
        if (*(const bool *)given) put_whole(f, 1, member);
    } else if (f->kind == OTA_FIELD_TEXT || f->kind == OTA_FIELD_ENUM) {
        const char *text = *(const char *const *)given;
        if (text == NULL) return 0;
        if (f->kind == OTA_FIELD_TEXT)
            memcpy(member, &text, sizeof text);
        else
            put_whole(f, index_of(text, f->words), member);
    } else if (f->kind == OTA_FIELD_REAL) {
        const cli_real *real = given;
        if (!real->given) return 0;
        if (f->high > 0.0 && real->value > f->high)
            return refuse_range(context, flag, f, real->value);
        memcpy(member, &real->value, sizeof real->value);
    } else {
        const cli_whole *whole = given;
        if (!whole->given) return 0;
        if (f->high > 0.0 && (double)whole->value > f->high)
            return refuse_range(context, flag, f, (double)whole->value);
        put_whole(f, whole->value, member);
    }
    return 0;
}

int cli_set_members(cli_context *context, cli_problem *problem) {
    for (int k = 0; k < cli_flag_count; k++) {
        const cli_flag *flag = &cli_flags[k];
        if (flag->sets == NULL || (flag->commands & context->command->bit) == 0) continue;
        const void *given = (const char *)&problem->settings + flag->offset;
        const ota_field *option = ota_field_named(ota_option_fields, flag->sets);
        const ota_field *f =
            option != NULL ? option : ota_field_named(ota_problem_fields, flag->sets);
        char *record = option != NULL ? (char *)&problem->options : (char *)&problem->problem;
        const int code = set_member(context, flag, f, given, record + f->offset);
        if (code != 0) return code;
    }
    return 0;
}

const char *cli_flag_words(const cli_flag *flag) {
    if (flag->choices != NULL || flag->sets == NULL) return flag->choices;
    const ota_field *option = ota_field_named(ota_option_fields, flag->sets);
    return (option != NULL ? option : ota_field_named(ota_problem_fields, flag->sets))->words;
}
