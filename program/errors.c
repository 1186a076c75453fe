/* What went wrong, once: as a sentence on stderr, `otattn COMMAND: sentence (hint)`, and with --json as
 * one object on stdout. The exit code of every library status is one table row. */
#include <stdarg.h>
#include <string.h>

#include "program.h"

typedef struct exit_row {
    ota_status status;
    int code;
} exit_row;

static const exit_row exit_rows[] = {
    {OTA_EINVAL, CLI_EXIT_USAGE},
    {OTA_EALIAS, CLI_EXIT_USAGE},
    {OTA_EALIGN, CLI_EXIT_USAGE},
    {OTA_UNSUPPORTED, CLI_EXIT_USAGE},
    {OTA_NOT_CONVERGED, CLI_EXIT_NUMERIC},
    {OTA_INFEASIBLE, CLI_EXIT_NUMERIC},
    {OTA_TOL_UNREACHABLE, CLI_EXIT_NUMERIC},
    {OTA_NONFINITE, CLI_EXIT_NUMERIC},
    {OTA_NOT_DIFFERENTIABLE, CLI_EXIT_NUMERIC},
    {OTA_TIMEOUT, CLI_EXIT_NUMERIC},
    {OTA_EFORMAT, CLI_EXIT_FILE},
    {OTA_ETRUNC, CLI_EXIT_FILE},
    {OTA_EMISMATCH, CLI_EXIT_FILE},
    {OTA_ENOMEM, CLI_EXIT_LIMIT},
    {OTA_EOVERFLOW, CLI_EXIT_LIMIT},
    {OTA_ELIMIT, CLI_EXIT_LIMIT},
    {OTA_EIO, CLI_EXIT_IO},
    {OTA_EPATH, CLI_EXIT_IO},
    {OTA_ECOMM, CLI_EXIT_IO},
    {OTA_CANCELLED, CLI_EXIT_INTERRUPTED},
};

int cli_exit_code(ota_status status) {
    if (status >= OTA_OK) return CLI_EXIT_OK;
    for (size_t k = 0; k < sizeof exit_rows / sizeof exit_rows[0]; k++) {
        if (exit_rows[k].status == status) return exit_rows[k].code;
    }
    return CLI_EXIT_INTERNAL;
}

/* The status word of a failure that no library status describes. */
static const char *word_of_code(int code) {
    switch (code) {
    case CLI_EXIT_USAGE: return ota_status_word(OTA_EINVAL);
    case CLI_EXIT_FILE: return ota_status_word(OTA_EFORMAT);
    case CLI_EXIT_LIMIT: return ota_status_word(OTA_ELIMIT);
    case CLI_EXIT_IO: return ota_status_word(OTA_EIO);
    case CLI_EXIT_INTERRUPTED: return ota_status_word(OTA_CANCELLED);
    default: return ota_status_word(OTA_EINTERNAL);
    }
}

int cli_refuse_flag(cli_context *context, const char *field, const char *hint, const char *format,
                    ...) {
    cli_error *error = &context->error;
    char sentence[sizeof error->message];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(sentence, sizeof sentence, format, list);
    va_end(list);
    (void)snprintf(error->field, sizeof error->field, "%s", field);
    const int code = cli_fail(error, CLI_EXIT_USAGE, "%s", sentence);
    if (hint != NULL) (void)cli_hint(error, "%s", hint);
    return code;
}

/* The flag of the command that sets this one member, where it has another name, or NULL. */
static const cli_flag *flag_of_member(const cli_context *context, const char *member) {
    for (int k = 0; member[0] != '\0' && k < cli_flag_count; k++) {
        const cli_flag *flag = &cli_flags[k];
        if (flag->sets == NULL || (flag->commands & context->command->bit) == 0) continue;
        const char *sets = flag->sets + (flag->sets[0] == '@');
        if (strcmp(sets, member) != 0) continue;
        size_t same = 0;
        while (sets[same] != '\0' &&
               sets[same] == (flag->name[same] == '-' ? '_' : flag->name[same]))
            same++;
        return sets[same] == flag->name[same] ? NULL : flag;
    }
    return NULL;
}

int cli_fail_status(cli_context *context, ota_status status, const ota_error *error) {
    const int code = cli_exit_code(status);
    context->status = ota_status_word(status);
    const char *text = error->message[0] != '\0' ? error->message : ota_status_text(status);
    const cli_flag *flag = flag_of_member(context, error->field);
    (void)snprintf(context->error.field, sizeof context->error.field, "%s",
                   flag != NULL ? flag->name : error->field);
    const size_t length = strlen(error->field);
    if (status == OTA_CANCELLED)
        (void)cli_fail(&context->error, code, "interrupted; nothing was written");
    else if (flag != NULL && strncmp(text, error->field, length) == 0)
        (void)cli_fail(&context->error, code, "--%s%s", flag->name, text + length);
    else
        (void)cli_fail(&context->error, code, "%s", text);
    if (error->hint[0] != '\0') (void)cli_hint(&context->error, "%s", error->hint);
    return code;
}

void cli_warn(cli_context *context, const char *format, ...) {
    char sentence[512];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(sentence, sizeof sentence, format, list);
    va_end(list);
    ota_text_clean(sentence);
    (void)fprintf(stderr, "otattn %s: warning: %s\n", context->command->name, sentence);
    (void)json_array_append_new(context->warnings, json_string(sentence));
}

static json_t *text_or_null(const char *text) {
    return text[0] == '\0' ? json_null() : json_string(text);
}

void cli_report_failure(cli_context *context, int code) {
    const char *command = context->command != NULL ? context->command->name : "";
    cli_error *error = &context->error;
    if (error->message[0] == '\0') {
        (void)cli_fail(error, code, "an internal check failed");
    }
    ota_text_clean(error->field);
    (void)fprintf(stderr, "otattn%s%s: %s%s%s%s\n", command[0] != '\0' ? " " : "", command,
                  error->message, error->hint[0] != '\0' ? " (" : "", error->hint,
                  error->hint[0] != '\0' ? ")" : "");
    if (!context->settings.output.json) return;
    json_t *object = cli_json_put(
        json_object(), "command:o version:s status:s error:s field:o hint:o", text_or_null(command),
        ota_version(), context->status != NULL ? context->status : word_of_code(code),
        error->message, text_or_null(error->field), text_or_null(error->hint));
    if (context->failure != NULL) (void)json_object_update(object, context->failure);
    (void)cli_print_json(stdout, object);
}
