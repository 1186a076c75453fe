/* The text of a subcommand: a flag, a file, or standard input. Any bytes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "program/program.h"
#include "src/base/integers.h"
#include "src/base/program/system_program.h"

enum { TEXT_MOST = 64 << 20, TEXT_FIRST = 1 << 16, TEXT_STEP = 1 << 20 };

static int read_stream(cli_context *context, FILE *stream, const char *name, char **text,
                       size_t *size) {
    size_t room = TEXT_FIRST, used = 0;
    char *bytes = malloc(room + 1);
    int stopped = 0;
    while (bytes != NULL) {
        const size_t part = ota_size_min(room - used, TEXT_STEP),
                     got = fread(bytes + used, 1, part, stream);
        used += got;
        stopped = cli_look(&context->error);
        if (got < part || stopped != 0) break;
        if (used < room) continue;
        if (room > TEXT_MOST) break;
        room = ota_size_min(2 * room, TEXT_MOST + 1);
        char *grown = realloc(bytes, room + 1);
        if (grown == NULL) free(bytes);
        bytes = grown;
    }
    const char *label = cli_short_path(name);
    cli_error *error = &context->error;
    const int code =
        stopped != 0    ? stopped
        : bytes == NULL ? cli_fail(error, CLI_EXIT_LIMIT, "no memory is left for the text")
        : ferror(stream)
            ? cli_fail(error, CLI_EXIT_IO, "%s: cannot be read: %s", label, strerror(errno))
        : used > TEXT_MOST
            ? cli_fail(error, CLI_EXIT_LIMIT, "%s: has more than %d bytes, the limit for a text",
                       label, TEXT_MOST)
            : 0;
    if (code != 0) {
        free(bytes);
        return code;
    }
    bytes[used] = '\0';
    *text = bytes;
    *size = used;
    return 0;
}

int cli_read_text(cli_context *context, int operand, char **text, size_t *size) {
    const char *path = context->operand_count > operand ? context->operands[operand] : NULL,
               *given = context->settings.text.words;
    if (given != NULL && path != NULL)
        return cli_refuse_flag(context, "text", "give one of them",
                               "there are two texts: --text and the file '%.200s'", path);
    if (given != NULL) {
        *size = strlen(given);
        *text = malloc(*size + 1);
        if (*text == NULL)
            return cli_fail(&context->error, CLI_EXIT_LIMIT, "no memory is left for the text");
        memcpy(*text, given, *size + 1);
        return 0;
    }
    if (path == NULL || strcmp(path, "-") == 0)
        return read_stream(context, stdin, "standard input", text, size);
    if (ota_path_kind_of(path) == OTA_PATH_FOLDER)
        return cli_fail(&context->error, CLI_EXIT_FILE, "%s: is a folder, not a file",
                        cli_short_path(path));
    FILE *stream = ota_file_reader(path);
    if (stream == NULL)
        return cli_fail(&context->error, CLI_EXIT_IO, "%s: cannot be opened: %s",
                        cli_short_path(path), strerror(errno));
    const int code = read_stream(context, stream, path, text, size);
    (void)fclose(stream);
    return code;
}
