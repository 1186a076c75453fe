/* Outputs that appear whole or not at all.
 *
 * begin: a file without a name in the target's folder (rename never crosses file systems), so that a
 * killed program leaves nothing; where the file system has none such, an exclusive temporary file
 * `.otattn-*.tmp`; commit: flush to disk, the temporary name, then one rename per output, where an
 * unforced rename never replaces a file and a forced one exchanges old and new so that it can be
 * taken back while the rest of a set is still under way. */
#include "files_formats.h"
#include "src/base/program/system_program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum placement { WAITING, CREATED, EXCHANGED, REPLACED } placement;

struct cli_output {
    int descriptor;
    char *path;      /* as the user gave it, for messages */
    char *target;    /* what the rename ends at: links resolved */
    char *temporary; /* NULL for a stream */
    bool named;      /* the file has that name by now */
    bool force;
    placement state;
};

bool cli_output_streams(const cli_output *output) { return output->temporary == NULL; }

const char *cli_output_path(const cli_output *output) { return output->path; }

static bool close_output(cli_output *output) {
    const int descriptor = output->descriptor;
    if (descriptor == OTA_STANDARD_OUTPUT) return true;
    output->descriptor = -1;
    return descriptor < 0 || ota_writer_close(descriptor);
}

static void free_output(cli_output *output) {
    close_output(output);
    free(output->path);
    free(output->target);
    free(output->temporary);
    free(output);
}

void cli_output_abort(cli_output *output) {
    if (output == NULL) return;
    close_output(output); /* Windows removes no file that is open */
    if (output->named) ota_path_remove(output->temporary);
    free_output(output);
}

static int io_error(cli_error *error, const cli_output *output, const char *what) {
    return cli_fail(error, CLI_EXIT_IO, "%s: %s: %s", cli_short_path(output->path), what,
                    strerror(errno));
}

static int refuse_existing(cli_error *error, const cli_output *output) {
    cli_fail(error, CLI_EXIT_USAGE, "%s: already exists", cli_short_path(output->path));
    return cli_hint(error, "add -f to overwrite it, or choose another name");
}

static int give_name(cli_output *output, cli_error *error) {
    if (output->named) return 0;
    if (!ota_writer_name(output->descriptor, output->temporary))
        return io_error(error, output, "cannot be written");
    output->named = true;
    return 0;
}

/* The folder of the target, its separator included, and what else the caller has room for; NULL without memory. */
static char *folder_of(const cli_output *output, size_t more) {
    const size_t length = (size_t)(ota_path_name(output->target) - output->target);
    char *folder = malloc(length + more + 1);
    if (folder == NULL) return NULL;
    memcpy(folder, output->target, length);
    folder[length] = '\0';
    return folder;
}

/* The temporary name does not grow with the target's, whose own name may already be the longest
 * that the file system takes. */
static int create_temporary(cli_output *output, cli_error *error) {
    enum { NAME_ROOM = 64 };
    for (unsigned attempt = 0; attempt < 100; attempt++) {
        free(output->temporary);
        char *name = output->temporary = folder_of(output, NAME_ROOM);
        if (name == NULL)
            return cli_fail(error, CLI_EXIT_LIMIT, "no memory is left for a file name");
        output->descriptor = ota_writer_open_nameless(*name != '\0' ? name : ".");
        (void)snprintf(name + strlen(name), NAME_ROOM, ".otattn-%ld-%lx%u.tmp", ota_process(),
                       (unsigned long)(ota_now_ns() % 1000000000), attempt);
        if (output->descriptor >= 0) return 0;
        output->descriptor = ota_writer_open(name, OTA_WRITER_NEW);
        output->named = output->descriptor >= 0;
        if (output->named) return 0;
        if (errno != EEXIST) break;
    }
    int code = io_error(error, output, "cannot be written");
    free(output->temporary);
    output->temporary = NULL; /* it is not ours to remove */
    return code;
}

static int begin_stream(cli_output *output, cli_error *error) {
    output->descriptor = ota_writer_open(output->target, OTA_WRITER_STREAM);
    return output->descriptor >= 0 ? 0 : io_error(error, output, "cannot be written");
}

static int begin_standard_output(cli_output *output, cli_error *error) {
    output->descriptor = OTA_STANDARD_OUTPUT;
    if (!ota_is_terminal(stdout)) return 0;
    cli_fail(error, CLI_EXIT_USAGE, "standard output is a terminal and an array is binary");
    return cli_hint(error, "redirect it to a file or pipe, or name a file instead of -");
}

static int begin_file(cli_output *output, cli_error *error) {
    ota_path_facts facts;
    if (!ota_path_look(output->path, false, &facts))
        return errno == ENOENT ? create_temporary(output, error)
                               : io_error(error, output, "cannot be written");
    bool exists = true;
    if (facts.link) {
        exists = ota_path_look(output->path, true, &facts);
        char *resolved = exists ? ota_path_resolve(output->path) : NULL;
        if (resolved != NULL) {
            free(output->target);
            output->target = resolved;
        }
    }
    if (exists && facts.streams) return begin_stream(output, error);
    if (exists && facts.kind != OTA_PATH_FILE)
        return cli_fail(error, CLI_EXIT_USAGE, "%s: is %s, not a file",
                        cli_short_path(output->path),
                        facts.kind == OTA_PATH_FOLDER ? "a folder" : "a device or socket");
    if (!output->force) return refuse_existing(error, output);
    int code = create_temporary(output, error);
    /* The new content is no more readable than the old was. */
    if (code == 0 && exists && !ota_writer_permit(output->descriptor, facts.mode))
        code = io_error(error, output, "cannot keep its permissions");
    return code;
}

int cli_output_begin(const char *path, bool force, cli_output **out, cli_error *error) {
    *out = NULL;
    if (path[0] == '\0') return cli_fail(error, CLI_EXIT_USAGE, "an output has an empty name");
    cli_output *output = calloc(1, sizeof *output);
    if (output != NULL) {
        *output = (cli_output){.descriptor = -1, .force = force};
        output->path = cli_copy(path, strlen(path));
        output->target = cli_copy(path, strlen(path));
    }
    int code;
    if (output == NULL || output->path == NULL || output->target == NULL)
        code = cli_fail(error, CLI_EXIT_LIMIT, "no memory is left for an output");
    else if (strcmp(path, "-") == 0)
        code = begin_standard_output(output, error);
    else
        code = begin_file(output, error);
    if (code != 0)
        cli_output_abort(output);
    else
        *out = output;
    return code;
}

int cli_output_write(cli_output *output, const void *bytes, size_t size, cli_error *error) {
    if (ota_writer_write(output->descriptor, bytes, size)) return 0;
    return io_error(error, output, "cannot be written");
}

int cli_output_patch(cli_output *output, int64_t offset, const void *bytes, size_t size,
                     cli_error *error) {
    if (ota_writer_patch(output->descriptor, bytes, size, offset)) return 0;
    return io_error(error, output, "cannot be written");
}

int cli_output_check(const cli_output *output, const cli_array *array, size_t *count,
                     int64_t *bytes, cli_error *error) {
    const char *path = cli_short_path(output->path);
    const cli_stored *stored = cli_stored_by_type(array->type);
    if (stored == NULL || array->rank < 0 || array->rank > CLI_MAX_RANK)
        return cli_fail(error, CLI_EXIT_INTERNAL, "%s: an array without type or rank", path);
    int code =
        cli_shape_check(array->shape, array->rank, stored->bits, path, 0, count, bytes, error);
    const bool nowhere = array->data == NULL && array->elements == NULL;
    if (code != 0 || *count != array->count || (*count > 0 && nowhere))
        return cli_fail(error, CLI_EXIT_INTERNAL, "%s: an array whose shape does not fit its data",
                        path);
    return 0;
}

/* ---- commit ---- */

static int finish_writing(cli_output *output, cli_error *error) {
    if (output->descriptor == OTA_STANDARD_OUTPUT) return 0;
    const bool flushed = output->temporary == NULL || ota_writer_flush(output->descriptor);
    const int code = output->temporary != NULL && flushed ? give_name(output, error) : 0;
    if (code != 0) return code;
    if (!close_output(output) || !flushed)
        return io_error(error, output, "cannot be written to disk");
    return 0;
}

static int place_over(cli_output *output) {
    bool exchanged;
    if (!ota_path_place_over(output->temporary, output->target, &exchanged)) return -1;
    output->state = exchanged ? EXCHANGED : REPLACED;
    return 0;
}

static int place(cli_output *output, cli_error *error) {
    if (output->temporary == NULL) return 0;
    if (output->force && (place_over(output) == 0 || errno != ENOENT))
        return output->state != WAITING ? 0 : io_error(error, output, "cannot be written");
    if (ota_path_place(output->temporary, output->target)) {
        output->state = CREATED;
        return 0;
    }
    return errno == EEXIST ? refuse_existing(error, output)
                           : io_error(error, output, "cannot be written");
}

static void take_back(cli_output *output) {
    bool exchanged;
    if (output->state == CREATED)
        ota_path_remove(output->target);
    else if (output->state == EXCHANGED)
        ota_path_place_over(output->temporary, output->target, &exchanged);
}

/* The rename itself must reach the disk; a file system that cannot do so is no reason to fail now.
 */
static void settle(cli_output *output) {
    if (output->state == EXCHANGED) ota_path_remove(output->temporary);
    char *folder = folder_of(output, 0);
    if (folder != NULL) ota_folder_flush(*folder != '\0' ? folder : ".");
    free(folder);
}

int cli_outputs_commit(cli_output **outputs, size_t count, cli_error *error) {
    int code = cli_memory_short() ? cli_fail(error, CLI_EXIT_LIMIT,
                                             "no memory is left for all that is to be written")
                                  : 0;
    size_t placed = 0;
    for (size_t i = 0; code == 0 && i < count; i++)
        if (outputs[i] != NULL) code = finish_writing(outputs[i], error);
    for (; code == 0 && placed < count; placed++)
        if (outputs[placed] != NULL) code = place(outputs[placed], error);
    for (size_t i = placed; code != 0 && i-- > 0;)
        if (outputs[i] != NULL) take_back(outputs[i]);
    for (size_t i = 0; i < count; i++) {
        if (outputs[i] == NULL) continue;
        if (code != 0) {
            cli_output_abort(outputs[i]);
        } else {
            if (outputs[i]->temporary != NULL) settle(outputs[i]);
            free_output(outputs[i]);
        }
        outputs[i] = NULL;
    }
    return code;
}

int cli_output_commit(cli_output *output, cli_error *error) {
    return cli_outputs_commit(&output, 1, error);
}

int cli_output_end(cli_output *output, int code, cli_error *error) {
    if (code == 0) return cli_output_commit(output, error);
    cli_output_abort(output);
    return code;
}

int cli_write_file(const char *path, bool force, const void *bytes, size_t size, cli_error *error) {
    cli_output *output = NULL;
    int code = cli_output_begin(path, force, &output, error);
    if (code == 0) code = cli_output_write(output, bytes, size, error);
    return cli_output_end(output, code, error);
}
