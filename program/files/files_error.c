/* Sentences about files. A message may quote hostile names and reaches terminals and JSON, so every
 * message leaves here as valid UTF-8 in which control characters (C0, DEL, C1) and malformed bytes
 * have become '?'. */
#include "files_formats.h"
#include "src/base/program/system_program.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *cli_short_path(const char *path) {
    const size_t longest = 224;
    size_t length = strlen(path);
    return length > longest ? path + (length - longest) : path;
}

static int finish(cli_error *error, int exit_code) {
    ota_text_clean(error->message);
    error->hint[0] = '\0';
    return error->exit_code = exit_code;
}

int cli_fail(cli_error *error, int exit_code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    return finish(error, exit_code);
}

int cli_look(cli_error *error) {
    const int *come = ota_program_interrupts();
    if (come == NULL || __atomic_load_n(come, __ATOMIC_RELAXED) == 0) return 0;
    return cli_fail(error, CLI_EXIT_INTERRUPTED, "interrupted; nothing was written");
}

int cli_fail_at(cli_error *error, const char *label, int64_t offset, const char *format, ...) {
    int used = snprintf(error->message, sizeof error->message,
                        "%s: at byte %lld: ", cli_short_path(label), (long long)offset);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->message + used, sizeof error->message - (size_t)used, format, arguments);
    va_end(arguments);
    return finish(error, CLI_EXIT_FILE);
}

int cli_hint(cli_error *error, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->hint, sizeof error->hint, format, arguments);
    va_end(arguments);
    ota_text_clean(error->hint);
    return error->exit_code;
}

int cli_fail_names(cli_error *error, const char *path, const char *wanted, size_t count,
                   const char *(*name_of)(const void *context, size_t index), const void *context) {
    if (wanted != NULL)
        cli_fail(error, CLI_EXIT_USAGE, "%s: holds no array called \"%.100s\"",
                 cli_short_path(path), wanted);
    else if (count == 0)
        return cli_fail(error, CLI_EXIT_FILE, "%s: holds no array", cli_short_path(path));
    else
        cli_fail(error, CLI_EXIT_USAGE, "%s: holds %zu arrays and none was named",
                 cli_short_path(path), count);
    const size_t room = 200;
    char list[256] = "";
    size_t used = 0, shown = 0;
    while (shown < count) {
        const char *name = name_of(context, shown);
        if (used + strlen(name) + 2 > room) break;
        used +=
            (size_t)snprintf(list + used, sizeof list - used, "%s%s", shown > 0 ? ", " : "", name);
        shown++;
    }
    if (shown < count)
        return cli_hint(error, "name one with FILE:NAME: %s%s%zu more", list,
                        shown > 0 ? " and " : "", count - shown);
    return count == 0 ? error->exit_code : cli_hint(error, "name one with FILE:NAME: %s", list);
}
