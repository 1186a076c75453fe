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
    {OTA_EINVAL, TOOL_EXIT_USAGE},
    {OTA_EALIAS, TOOL_EXIT_USAGE},
    {OTA_EALIGN, TOOL_EXIT_USAGE},
    {OTA_UNSUPPORTED, TOOL_EXIT_USAGE},
    {OTA_NOT_CONVERGED, TOOL_EXIT_NUMERIC},
    {OTA_INFEASIBLE, TOOL_EXIT_NUMERIC},
    {OTA_TOL_UNREACHABLE, TOOL_EXIT_NUMERIC},
    {OTA_NONFINITE, TOOL_EXIT_NUMERIC},
    {OTA_NOT_DIFFERENTIABLE, TOOL_EXIT_NUMERIC},
    {OTA_TIMEOUT, TOOL_EXIT_NUMERIC},
    {OTA_EFORMAT, TOOL_EXIT_FILE},
    {OTA_ETRUNC, TOOL_EXIT_FILE},
    {OTA_EMISMATCH, TOOL_EXIT_FILE},
    {OTA_ENOMEM, TOOL_EXIT_LIMIT},
    {OTA_EOVERFLOW, TOOL_EXIT_LIMIT},
    {OTA_ELIMIT, TOOL_EXIT_LIMIT},
    {OTA_EIO, TOOL_EXIT_IO},
    {OTA_EPATH, TOOL_EXIT_IO},
    {OTA_ECOMM, TOOL_EXIT_IO},
    {OTA_CANCELLED, TOOL_EXIT_INTERRUPTED},
};

int tool_exit_code(ota_status status) {
    if (status >= OTA_OK) return TOOL_EXIT_OK;
    for (size_t k = 0; k < sizeof exit_rows / sizeof exit_rows[0]; k++) {
        if (exit_rows[k].status == status) return exit_rows[k].code;
    }
    return TOOL_EXIT_INTERNAL;
}

/* The status word of a failure that no library status describes. */
static const char *word_of_code(int code) {
    switch (code) {
    case TOOL_EXIT_USAGE: return ota_status_word(OTA_EINVAL);
    case TOOL_EXIT_FILE: return ota_status_word(OTA_EFORMAT);
    case TOOL_EXIT_LIMIT: return ota_status_word(OTA_ELIMIT);
    case TOOL_EXIT_IO: return ota_status_word(OTA_EIO);
    case TOOL_EXIT_INTERRUPTED: return ota_status_word(OTA_CANCELLED);
    default: return ota_status_word(OTA_EINTERNAL);
    }
}

int tool_refuse_flag(tool_context *context, const char *field, const char *hint, const char *format,
                     ...) {
    tool_error *error = &context->error;
    char sentence[sizeof error->message];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(sentence, sizeof sentence, format, list);
    va_end(list);
    (void)snprintf(error->field, sizeof error->field, "%s", field);
    const int code = tool_fail(error, TOOL_EXIT_USAGE, "%s", sentence);
    if (hint != NULL) (void)tool_hint(error, "%s", hint);
    return code;
}

int tool_fail_status(tool_context *context, ota_status status, const ota_error *error) {
    const int code = tool_exit_code(status);
    context->status = ota_status_word(status);
    (void)snprintf(context->error.field, sizeof context->error.field, "%s", error->field);
    const char *text = error->message[0] != '\0' ? error->message : ota_status_text(status);
    (void)tool_fail(&context->error, code, "%s",
                    status == OTA_CANCELLED ? "interrupted; nothing was written" : text);
    if (error->hint[0] != '\0') (void)tool_hint(&context->error, "%s", error->hint);
    return code;
}

void tool_warn(tool_context *context, const char *format, ...) {
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

void tool_report_failure(tool_context *context, int code) {
    const char *command = context->command != NULL ? context->command->name : "";
    tool_error *error = &context->error;
    if (error->message[0] == '\0') {
        (void)tool_fail(error, code, "an internal check failed");
    }
    ota_text_clean(error->field);
    (void)fprintf(stderr, "otattn%s%s: %s%s%s%s\n", command[0] != '\0' ? " " : "", command,
                  error->message, error->hint[0] != '\0' ? " (" : "", error->hint,
                  error->hint[0] != '\0' ? ")" : "");
    if (!context->settings.json) return;
    json_t *object = tool_json_put(
        json_object(), "command:o version:s status:s error:s field:o hint:o", text_or_null(command),
        ota_version(), context->status != NULL ? context->status : word_of_code(code),
        error->message, text_or_null(error->field), text_or_null(error->hint));
    if (context->failure != NULL) (void)json_object_update(object, context->failure);
    (void)tool_print_json(stdout, object);
}
