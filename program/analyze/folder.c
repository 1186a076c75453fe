/* The run folder: one writer at a time, nothing half-written, and after any kill the work that was done.
 *
 *   .lock            held while a run writes             manifest.json   what the numbers are of
 *   windows/N.bin    a record as soon as it is there     the rest        written from records alone
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "program/files/files_formats.h"
#include "analyze.h"
#include "src/base/program/system_program.h"

enum { PATH_SIZE = 4096 };

static const char *const parts[] = {"windows", "tables", "figures"};
enum { FIGURES = 2 };

void run_folder_path(const run_folder *folder, const char *name, char *path) {
    (void)snprintf(path, PATH_SIZE, "%s/%.900s", folder->path, name);
}

void run_folder_record(const run_folder *folder, int64_t index, char *path) {
    (void)snprintf(path, PATH_SIZE, "%s/windows/%06" PRId64 ".bin", folder->path, index);
}

static int make_folder(cli_context *context, const char *path) {
    if (ota_folder_make(path) || errno == EEXIST) return 0;
    return cli_fail(&context->error, CLI_EXIT_IO, "%s: cannot be made: %s", cli_short_path(path),
                    strerror(errno));
}

static int take_lock(cli_context *context, run_folder *folder) {
    char path[PATH_SIZE];
    run_folder_path(folder, ".lock", path);
    folder->lock = ota_lock_open(path, &folder->made_lock);
    if (folder->lock < 0)
        return cli_fail(&context->error, CLI_EXIT_IO, "%s: cannot be written: %s",
                        cli_short_path(path), strerror(errno));
    if (ota_lock_take(folder->lock)) return 0;
    (void)cli_fail(&context->error, CLI_EXIT_IO, "%s: another run writes to this folder",
                   cli_short_path(folder->path));
    return cli_hint(&context->error, "wait for it, or choose another folder with -o");
}

/* Calls visit(path, name) for every entry of PATH/part that is not hidden unless it is one of our temporary
 * files; stops where it returns false. */
static bool visit_entries(const run_folder *folder, const char *part, bool temporary,
                          bool (*visit)(const char *path)) {
    char path[PATH_SIZE];
    run_folder_path(folder, part, path);
    ota_folder *entries = ota_folder_open(path);
    bool going = true;
    for (const char *entry;
         entries != NULL && going && (entry = ota_folder_next(entries)) != NULL;) {
        char file[PATH_SIZE + 300];
        const bool ours = strncmp(entry, ".otattn-", 8) == 0;
        if (temporary ? !ours : entry[0] == '.') continue;
        (void)snprintf(file, sizeof file, "%s/%s", path, entry);
        going = visit(file);
    }
    if (entries != NULL) ota_folder_close(entries);
    return going;
}

static bool stop(const char *path) {
    (void)path;
    return false;
}

static bool remove_file(const char *path) {
    (void)ota_path_remove(path);
    return true;
}

/* What runs write, by the ends of names; a stranger's files stay. */
static bool remove_output(const char *path) {
    static const char *const ends[] = {".bin", ".csv", ".tex", ".vl.json"};
    const size_t length = strlen(path);
    for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
        const size_t size = strlen(ends[k]);
        if (length > size && strcmp(path + length - size, ends[k]) == 0)
            (void)ota_path_remove(path);
    }
    return true;
}

/* A folder that is started over holds nothing of an earlier run: records of another run must never be taken for
 * this one's, nor its tables. */
static void remove_run(const run_folder *folder) {
    static const char *const files[] = {"manifest.json", "metrics.json", "report.html",
                                        "example.safetensors"};
    for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
        char path[PATH_SIZE];
        run_folder_path(folder, files[k], path);
        (void)ota_path_remove(path);
    }
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
        (void)visit_entries(folder, parts[k], false, remove_output);
}

static int refuse_existing(cli_context *context, const run_folder *folder) {
    char path[PATH_SIZE];
    run_folder_path(folder, ".lock", path);
    if (folder->made_lock) (void)ota_path_remove(path);
    (void)cli_fail(&context->error, CLI_EXIT_USAGE, "%s: already exists and is not empty",
                   cli_short_path(folder->path));
    return cli_hint(&context->error, "--resume goes on with it, -f starts over, -o names another");
}

static int name_folder(cli_context *context, run_folder *folder) {
    const cli_settings *settings = &context->settings;
    const char *path = settings->output.out != NULL ? settings->output.out : "run";
    const size_t length = strlen(path);
    if (length + 1 > sizeof folder->path)
        return cli_refuse_flag(context, "out", NULL, "the name of the folder is too long");
    memcpy(folder->path, path, length + 1);
    for (size_t k = length; k > 1 && *ota_path_name(folder->path) == '\0'; k--)
        folder->path[k - 1] = '\0';
    folder->lock = -1;
    return 0;
}

int run_folder_join(cli_context *context, run_folder *folder) {
    folder->joined = true;
    return name_folder(context, folder);
}

int run_folder_open(cli_context *context, run_folder *folder, bool drawn) {
    const cli_settings *settings = &context->settings;
    int code = name_folder(context, folder);
    if (code == 0) code = make_folder(context, folder->path);
    if (code == 0) code = take_lock(context, folder);
    if (code != 0) return code;
    if (!settings->output.force && !settings->analyze.resume &&
        !visit_entries(folder, ".", false, stop))
        return refuse_existing(context, folder);
    for (size_t k = 0; code == 0 && k < sizeof parts / sizeof *parts; k++) {
        char part[PATH_SIZE];
        run_folder_path(folder, parts[k], part);
        if (k != FIGURES || drawn) code = make_folder(context, part);
        (void)visit_entries(folder, parts[k], true, remove_file);
    }
    (void)visit_entries(folder, ".", true, remove_file);
    if (code == 0 && settings->output.force && !settings->analyze.resume) remove_run(folder);
    return code;
}

void run_folder_close(run_folder *folder) {
    if (folder->lock >= 0) ota_descriptor_close(folder->lock);
    folder->lock = -1;
}

/* ---- files ---- */

int run_folder_write(cli_context *context, const run_folder *folder, const char *name,
                     const char *text, size_t size) {
    char path[PATH_SIZE];
    run_folder_path(folder, name, path);
    return cli_write_file(path, true, text, size, &context->error);
}

int run_folder_write_json(cli_context *context, const run_folder *folder, const char *name,
                          const json_t *tree) {
    cli_text text;
    int code = cli_text_begin(&text, &context->error);
    json_t *borrowed = (json_t *)(uintptr_t)tree;
    if (code == 0 && cli_print_json(text.stream, json_incref(borrowed)) != 0)
        code = cli_fail(&context->error, CLI_EXIT_LIMIT, "no memory is left for %s", name);
    code = cli_text_end(&text, code, &context->error);
    if (code == 0) code = run_folder_write(context, folder, name, text.text, text.size);
    free(text.text);
    return code;
}

/* ---- manifest ---- */

/* The first key, two levels deep, that differs. */
static bool find_difference(const json_t *a, const json_t *b, const char **outer,
                            const char **inner) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)a, key, value) {
        const json_t *other = json_object_get(b, key);
        if (json_equal(value, other)) continue;
        const char *below;
        json_t *part;
        *outer = key;
        *inner = "";
        if (json_is_object(value)) {
            json_object_foreach(value, below, part) {
                if (!json_equal(part, json_object_get(other, below))) *inner = below;
            }
        }
        return true;
    }
    return json_object_size(a) != json_object_size(b);
}

static int refuse_difference(cli_context *context, const run_folder *folder, const char *outer,
                             const char *inner) {
    const bool input = strcmp(outer, "model") == 0 || strcmp(outer, "text") == 0;
    if (input) context->status = ota_status_word(OTA_EMISMATCH);
    (void)cli_fail(&context->error, input ? CLI_EXIT_FILE : CLI_EXIT_USAGE,
                   "%s: was begun with another %s%s%s%s", cli_short_path(folder->path),
                   strcmp(outer, "settings") == 0 ? "setting" : outer, inner[0] != '\0' ? " (" : "",
                   inner, inner[0] != '\0' ? ")" : "");
    return cli_hint(&context->error, "-f starts over, -o names another folder");
}

/* *found is NULL where there is no manifest; one that cannot be read is no missing one. */
static int read_manifest(const char *path, json_t **found, cli_error *error) {
    json_error_t why = {.text = ""};
    *found = NULL;
    FILE *file = ota_file_reader(path);
    if (file == NULL && errno == ENOENT) return 0;
    if (file != NULL) *found = json_loadf(file, JSON_REJECT_DUPLICATES, &why);
    const bool unread = file == NULL || ferror(file) != 0;
    const int cause = errno;
    if (file != NULL) (void)fclose(file);
    if (*found != NULL && !unread) return 0;
    json_decref(*found);
    *found = NULL;
    int code;
    if (unread)
        code = cli_fail(error, CLI_EXIT_IO, "%s: cannot be read: %s", cli_short_path(path),
                        strerror(cause));
    else if (json_error_code(&why) == json_error_out_of_memory)
        code = cli_fail(error, CLI_EXIT_LIMIT, "there is no memory left");
    else
        code = cli_fail(error, CLI_EXIT_FILE, "%s: is damaged: %s", cli_short_path(path), why.text);
    (void)cli_hint(error, "-f starts over, without what was finished");
    return code;
}

int run_folder_manifest(cli_context *context, const run_folder *folder, json_t *manifest) {
    char path[PATH_SIZE];
    const char *outer = "", *inner = "";
    json_t *found = NULL;
    run_folder_path(folder, "manifest.json", path);
    if (context->settings.analyze.resume || folder->joined) {
        const int unread = read_manifest(path, &found, &context->error);
        if (unread != 0) return unread;
    }
    if (found == NULL && folder->joined)
        return cli_fail(&context->error, CLI_EXIT_IO,
                        "%s: cannot be read; all processes of mpirun need one file system",
                        cli_short_path(path));
    if (found == NULL) {
        /* Without its manifest nothing says what records are of. */
        (void)visit_entries(folder, "windows", false, remove_output);
        return run_folder_write_json(context, folder, "manifest.json", manifest);
    }
    const bool differs = find_difference(manifest, found, &outer, &inner);
    const int code = differs ? refuse_difference(context, folder, outer, inner) : 0;
    json_decref(found);
    return code;
}
