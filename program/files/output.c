/* Outputs that appear whole or not at all.
 *
 * begin: a file without a name in the target's folder (rename never crosses file systems), so that a
 * killed program leaves nothing; where the file system has none such, an exclusive temporary file
 * `.otattn-*.tmp`; commit: flush to disk, the temporary name, then one rename per output, where an
 * unforced rename never replaces a file and a forced one exchanges old and new so that it can be
 * taken back while the rest of a set is still under way. */
#define _GNU_SOURCE
#include "files_formats.h"
#include "src/base/integers.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

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

static void free_output(cli_output *output) {
    if (output->descriptor > STDOUT_FILENO) close(output->descriptor);
    free(output->path);
    free(output->target);
    free(output->temporary);
    free(output);
}

void cli_output_abort(cli_output *output) {
    if (output == NULL) return;
    if (output->named) unlink(output->temporary);
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

/* A file of the folder that no name leads to; what is open has one in /proc, by which it can get another. */
static bool create_nameless(cli_output *output, const char *folder) {
    output->descriptor = open(folder, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
    if (output->descriptor < 0) return false;
    char open_file[64];
    (void)snprintf(open_file, sizeof open_file, "/proc/self/fd/%d", output->descriptor);
    if (access(open_file, F_OK) == 0) return true;
    close(output->descriptor);
    output->descriptor = -1;
    return false;
}

static int give_name(cli_output *output, cli_error *error) {
    char open_file[64];
    if (output->named) return 0;
    (void)snprintf(open_file, sizeof open_file, "/proc/self/fd/%d", output->descriptor);
    if (linkat(AT_FDCWD, open_file, AT_FDCWD, output->temporary, AT_SYMLINK_FOLLOW) != 0)
        return io_error(error, output, "cannot be written");
    output->named = true;
    return 0;
}

/* The temporary name does not grow with the target's, whose own name may already be the longest
 * that the file system takes. */
static int create_temporary(cli_output *output, cli_error *error) {
    const char *slash = strrchr(output->target, '/');
    int folder = slash != NULL ? (int)(slash - output->target) + 1 : 0;
    for (unsigned attempt = 0; attempt < 100; attempt++) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        free(output->temporary);
        if (asprintf(&output->temporary, "%.*s.otattn-%ld-%lx%u.tmp", folder, output->target,
                     (long)getpid(), (unsigned long)now.tv_nsec, attempt) < 0) {
            output->temporary = NULL;
            return cli_fail(error, CLI_EXIT_LIMIT, "no memory is left for a file name");
        }
        char *folder_name = strndup(output->target, (size_t)folder);
        const bool nameless =
            folder_name != NULL && create_nameless(output, folder > 0 ? folder_name : ".");
        free(folder_name);
        if (nameless) return 0;
        output->descriptor =
            open(output->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
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
    output->descriptor = open(output->target, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    return output->descriptor >= 0 ? 0 : io_error(error, output, "cannot be written");
}

static int begin_standard_output(cli_output *output, cli_error *error) {
    output->descriptor = STDOUT_FILENO;
    if (!isatty(STDOUT_FILENO)) return 0;
    cli_fail(error, CLI_EXIT_USAGE, "standard output is a terminal and an array is binary");
    return cli_hint(error, "redirect it to a file or pipe, or name a file instead of -");
}

static int begin_file(cli_output *output, cli_error *error) {
    struct stat status;
    if (lstat(output->path, &status) != 0)
        return errno == ENOENT ? create_temporary(output, error)
                               : io_error(error, output, "cannot be written");
    bool exists = true;
    if (S_ISLNK(status.st_mode)) {
        exists = stat(output->path, &status) == 0;
        char *resolved = exists ? realpath(output->path, NULL) : NULL;
        if (resolved != NULL) {
            free(output->target);
            output->target = resolved;
        }
    }
    if (exists && (S_ISCHR(status.st_mode) || S_ISFIFO(status.st_mode)))
        return begin_stream(output, error);
    if (exists && !S_ISREG(status.st_mode))
        return cli_fail(error, CLI_EXIT_USAGE, "%s: is %s, not a file",
                        cli_short_path(output->path),
                        S_ISDIR(status.st_mode) ? "a folder" : "a device or socket");
    if (!output->force) return refuse_existing(error, output);
    int code = create_temporary(output, error);
    /* The new content is no more readable than the old was. */
    if (code == 0 && exists && fchmod(output->descriptor, status.st_mode & 0777) != 0)
        code = io_error(error, output, "cannot keep its permissions");
    return code;
}

int cli_output_begin(const char *path, bool force, cli_output **out, cli_error *error) {
    *out = NULL;
    if (path[0] == '\0') return cli_fail(error, CLI_EXIT_USAGE, "an output has an empty name");
    cli_output *output = calloc(1, sizeof *output);
    if (output != NULL) {
        *output = (cli_output){.descriptor = -1, .force = force};
        output->path = strdup(path);
        output->target = strdup(path);
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
    const size_t piece_limit = (size_t)1 << 30;
    for (size_t done = 0; done < size;) {
        size_t piece = ota_size_min(size - done, piece_limit);
        ssize_t wrote = write(output->descriptor, (const char *)bytes + done, piece);
        if (wrote >= 0) {
            done += (size_t)wrote;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            struct pollfd room = {.fd = output->descriptor, .events = POLLOUT};
            poll(&room, 1, -1);
        } else if (errno != EINTR)
            return io_error(error, output, "cannot be written");
    }
    return 0;
}

int cli_output_patch(cli_output *output, int64_t offset, const void *bytes, size_t size,
                     cli_error *error) {
    for (size_t done = 0; done < size;) {
        const ssize_t wrote = pwrite(output->descriptor, (const char *)bytes + done, size - done,
                                     (off_t)offset + (off_t)done);
        if (wrote >= 0)
            done += (size_t)wrote;
        else if (errno != EINTR)
            return io_error(error, output, "cannot be written");
    }
    return 0;
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
    if (output->descriptor == STDOUT_FILENO) return 0;
    bool failed = output->temporary != NULL && fsync(output->descriptor) != 0;
    const int code = output->temporary != NULL && !failed ? give_name(output, error) : 0;
    if (code != 0) return code;
    int descriptor = output->descriptor;
    output->descriptor = -1;
    if (close(descriptor) != 0 || failed)
        return io_error(error, output, "cannot be written to disk");
    return 0;
}

/* File systems without the flag answer EINVAL, old kernels ENOSYS. */
static bool unsupported(void) { return errno == EINVAL || errno == ENOSYS; }

/* Gives the target its name where nothing has it yet. */
static int place_new(cli_output *output) {
    if (renameat2(AT_FDCWD, output->temporary, AT_FDCWD, output->target, RENAME_NOREPLACE) == 0)
        return 0;
    if (!unsupported()) return -1;
    if (link(output->temporary, output->target) != 0) return -1;
    unlink(output->temporary);
    return 0;
}

static int place_over(cli_output *output) {
    if (renameat2(AT_FDCWD, output->temporary, AT_FDCWD, output->target, RENAME_EXCHANGE) == 0) {
        output->state = EXCHANGED;
        return 0;
    }
    if (!unsupported() || rename(output->temporary, output->target) != 0) return -1;
    output->state = REPLACED;
    return 0;
}

static int place(cli_output *output, cli_error *error) {
    if (output->temporary == NULL) return 0;
    if (output->force && (place_over(output) == 0 || errno != ENOENT))
        return output->state != WAITING ? 0 : io_error(error, output, "cannot be written");
    if (place_new(output) == 0) {
        output->state = CREATED;
        return 0;
    }
    return errno == EEXIST ? refuse_existing(error, output)
                           : io_error(error, output, "cannot be written");
}

static void take_back(cli_output *output) {
    if (output->state == CREATED)
        unlink(output->target);
    else if (output->state == EXCHANGED)
        renameat2(AT_FDCWD, output->temporary, AT_FDCWD, output->target, RENAME_EXCHANGE);
}

/* The rename itself must reach the disk; a file system that cannot do so is no reason to fail now.
 */
static void settle(cli_output *output) {
    if (output->state == EXCHANGED) unlink(output->temporary);
    char *slash = strrchr(output->target, '/');
    if (slash != NULL) slash[slash == output->target] = '\0';
    int folder = open(slash != NULL ? output->target : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0) {
        fsync(folder);
        close(folder);
    }
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
