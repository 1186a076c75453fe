/* What the model is, so that a replaced one is noticed: the SHA-256 of each of its files, and of the list.
 *
 * Of a folder: configuration, weights and tokenizer (*.json, *.safetensors, *.txt, *.bpe), in order of name. Of a .gguf
 * file: its parts. */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "program/files/files_formats.h"
#include "analyze.h"

enum { PIECE = 1 << 16, PATH_SIZE = 4096 };

int run_file_hash(cli_context *context, const char *path, int64_t *bytes,
                  char text[SHA256_DIGEST_STRING_LENGTH]) {
    unsigned char *piece = malloc(PIECE);
    FILE *stream = fopen(path, "rb");
    SHA2_CTX hash;
    struct stat state = {.st_size = 0};
    cli_progress progress;
    SHA256Init(&hash);
    *bytes = 0;
    if (stream != NULL) (void)fstat(fileno(stream), &state);
    cli_progress_begin(&progress, context, "hash of the model");
    for (size_t got = 1; piece != NULL && stream != NULL && got > 0 && *context->cancel == 0;) {
        got = fread(piece, 1, PIECE, stream);
        SHA256Update(&hash, piece, got);
        *bytes += (int64_t)got;
        cli_progress_update(&progress, (double)*bytes / 1e6, (double)state.st_size / 1e6, "MB");
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

static int is_part(const struct dirent *entry) {
    static const char *const tails[] = {".json", ".safetensors", ".txt", ".bpe"};
    const size_t length = strlen(entry->d_name);
    for (size_t k = 0; k < sizeof tails / sizeof *tails; k++) {
        const size_t size = strlen(tails[k]);
        if (entry->d_name[0] != '.' && length > size &&
            strcmp(entry->d_name + length - size, tails[k]) == 0)
            return 1;
    }
    return 0;
}

static int by_bytes(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int add_folder(cli_context *context, const char *folder, json_t *files, SHA2_CTX *all) {
    struct dirent **entries = NULL;
    int code = 0;
    const int count = scandir(folder, &entries, is_part, by_bytes);
    if (count < 0)
        return cli_fail(&context->error, CLI_EXIT_IO, "%s: cannot be listed: %s",
                        cli_short_path(folder), strerror(errno));
    for (int k = 0; k < count; k++) {
        char path[PATH_SIZE];
        struct stat state;
        (void)snprintf(path, sizeof path, "%s/%s", folder, entries[k]->d_name);
        /* A link that leads nowhere is no file. */
        const bool found = stat(path, &state) == 0;
        if (code == 0 && found && S_ISREG(state.st_mode))
            code = add_file(context, path, entries[k]->d_name, files, all);
        else if (code == 0 && !found && errno != ENOENT)
            code = cli_fail(&context->error, CLI_EXIT_IO, "%s: cannot be looked at: %s",
                            cli_short_path(path), strerror(errno));
        free(entries[k]);
    }
    free(entries);
    return code;
}

/* The parts of a .gguf file. */
static int add_parts(cli_context *context, const ota_model *model, json_t *files, SHA2_CTX *all) {
    int code = 0;
    for (int64_t k = 0; code == 0 && ota_model_file(model, k) != NULL; k++) {
        const char *path = ota_model_file(model, k), *end = strrchr(path, '/');
        code = add_file(context, path, end != NULL ? end + 1 : path, files, all);
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
