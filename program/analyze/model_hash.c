/* What the model is, so that a replaced one is noticed: the SHA-256 of each of its files, and of the list.
 *
 * Of a folder: configuration, weights and tokenizer (*.json, *.safetensors, *.txt, *.bpe), in order of name. Of a .gguf
 * file: its parts. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "program/files/files_formats.h"
#include "analyze.h"
#include "src/base/program/system_program.h"

enum { PIECE = 1 << 16, PATH_SIZE = 4096 };

int run_file_hash(cli_context *context, const char *path, int64_t *bytes,
                  char text[SHA256_DIGEST_STRING_LENGTH]) {
    unsigned char *piece = malloc(PIECE);
    FILE *stream = ota_file_reader(path);
    SHA2_CTX hash;
    int64_t size = 0;
    cli_progress progress;
    SHA256Init(&hash);
    *bytes = 0;
    if (stream != NULL) size = ota_stream_size(stream);
    cli_progress_begin(&progress, context, "hash of the model");
    for (size_t got = 1; piece != NULL && stream != NULL && got > 0 && *context->cancel == 0;) {
        got = fread(piece, 1, PIECE, stream);
        SHA256Update(&hash, piece, got);
        *bytes += (int64_t)got;
        cli_progress_update(&progress, (double)*bytes / 1e6, (double)size / 1e6, "MB");
    }
    cli_progress_end(&progress);
    const bool failed = piece == NULL || stream == NULL || ferror(stream);
    const int cause = errno;
    if (stream != NULL) (void)fclose(stream);
    free(piece);
    if (failed)
        return cli_fail(&context->error, CLI_EXIT_IO, "%s: cannot be read: %s",
                        cli_short_path(path), strerror(cause));
    (void)SHA256End(&hash, text);
    return 0;
}

static int add_file(cli_context *context, const char *path, const char *name, json_t *files,
                    SHA2_CTX *all) {
    char text[SHA256_DIGEST_STRING_LENGTH];
    int64_t bytes;
    const int code = run_file_hash(context, path, &bytes, text);
    if (code != 0) return code;
    SHA256Update(all, (const uint8_t *)name, strlen(name) + 1);
    SHA256Update(all, (const uint8_t *)text, sizeof text);
    (void)json_array_append_new(files, json_pack("{s:s, s:I, s:s}", "name", name, "bytes",
                                                 (json_int_t)bytes, "sha256", text));
    return 0;
}

static bool is_part(const char *name) {
    static const char *const tails[] = {".json", ".safetensors", ".txt", ".bpe"};
    const size_t length = strlen(name);
    for (size_t k = 0; k < sizeof tails / sizeof *tails; k++) {
        const size_t size = strlen(tails[k]);
        if (name[0] != '.' && length > size && strcmp(name + length - size, tails[k]) == 0)
            return true;
    }
    return false;
}

static int by_bytes(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The parts of the folder in order, allocated one by one; how many, or -1 with errno. */
static int list_parts(const char *path, char ***names) {
    ota_folder *folder = ota_folder_open(path);
    int count = 0;
    *names = NULL;
    if (folder == NULL) return -1;
    const char *name;
    while ((name = ota_folder_next(folder)) != NULL) {
        if (!is_part(name)) continue;
        char **grown = realloc(*names, ((size_t)count + 1) * sizeof *grown);
        if (grown != NULL) *names = grown;
        char *own = grown == NULL ? NULL : malloc(strlen(name) + 1);
        if (own == NULL) break;
        (*names)[count++] = strcpy(own, name);
    }
    const int cause = errno;
    ota_folder_close(folder);
    if (count > 0) qsort(*names, (size_t)count, sizeof **names, by_bytes);
    errno = cause;
    if (name == NULL && cause == 0) return count;
    while (count > 0) free((*names)[--count]);
    free(*names);
    return -1;
}

static int add_folder(cli_context *context, const char *folder, json_t *files, SHA2_CTX *all) {
    char **names;
    int code = 0;
    const int count = list_parts(folder, &names);
    if (count < 0)
        return cli_fail(&context->error, CLI_EXIT_IO, "%s: cannot be listed: %s",
                        cli_short_path(folder), strerror(errno));
    for (int k = 0; k < count; k++) {
        char path[PATH_SIZE];
        ota_path_facts facts;
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[k]);
        /* A link that leads nowhere is no file. */
        const bool found = ota_path_look(path, true, &facts);
        if (code == 0 && facts.kind == OTA_PATH_FILE)
            code = add_file(context, path, names[k], files, all);
        else if (code == 0 && !found && errno != ENOENT)
            code = cli_fail(&context->error, CLI_EXIT_IO, "%s: cannot be looked at: %s",
                            cli_short_path(path), strerror(errno));
        free(names[k]);
    }
    free(names);
    return code;
}

/* The parts of a .gguf file. */
static int add_parts(cli_context *context, const ota_model *model, json_t *files, SHA2_CTX *all) {
    int code = 0;
    for (int64_t k = 0; code == 0 && ota_model_file(model, k) != NULL; k++) {
        const char *path = ota_model_file(model, k);
        code = add_file(context, path, ota_path_name(path), files, all);
    }
    return code;
}

int run_model_hash(cli_context *context, const ota_model *model, json_t **files,
                   char text[SHA256_DIGEST_STRING_LENGTH]) {
    ota_model_facts facts = {.size = sizeof facts};
    ota_error error = {0};
    SHA2_CTX all;
    SHA256Init(&all);
    *files = json_array();
    const ota_status status = ota_model_describe(model, &facts, &error);
    if (status < 0) return cli_fail_status(context, status, &error);
    const int code = strcmp(facts.format, "gguf") == 0
                         ? add_parts(context, model, *files, &all)
                         : add_folder(context, facts.path, *files, &all);
    (void)SHA256End(&all, text);
    return code;
}
